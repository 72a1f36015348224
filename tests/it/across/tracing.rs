//! Advanced NCCL tracing (`nsys -t nccl`): ranges in the domain NCCL without the prefix, some of them on the GPU's time line.

use nsysnccl::internals::run::Options;
use nsysnccl::internals::steps::StepChoice;

use crate::support::cluster::{
    ALL_REDUCE, Cluster, MIB, MS, Rank, SECOND, WORLD, codes, group, rank,
};
use crate::support::report::{stream, text, thread};
use crate::support::scenes::GEMM;

const DOMAIN: i64 = 3;
const ALL_GATHER: &str =
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)";

fn at(i: i64) -> i64 {
    SECOND + i * 100 * MS
}

impl Rank {
    fn nccl_domain(&mut self) {
        let row = [
            ("start", (-1000).into()),
            ("eventType", 75.into()),
            ("domainId", DOMAIN.into()),
            ("text", text("NCCL")),
        ];
        let thread = [("globalTid", self.main().global().into())];
        self.report.row("NVTX_EVENTS", &[&row[..], &thread].concat());
    }

    /// A range in the domain NCCL, in the report's own time.
    fn traced(&mut self, tid: u32, name: &str, time: std::ops::Range<i64>, json: &str) {
        let id = self.report.string(name);
        let row = [
            ("start", time.start.into()),
            ("end", time.end.into()),
            ("eventType", 59.into()),
            ("domainId", DOMAIN.into()),
        ];
        let who = thread(1000 + self.rank, tid).global();
        let more = [("globalTid", who.into()), ("textId", id.into()), ("jsonText", text(json))];
        self.report.row("NVTX_EVENTS", &[&row[..], &more].concat());
    }

    /// An AllReduce as advanced tracing shows it: the call with the launch inside it, the kernel, and two channels on the GPU.
    fn traced_all_reduce(&mut self, seq: u64, time: std::ops::Range<i64>, ids: &str) {
        let main = self.main();
        let launch = self.own(time.start - MS);
        let call = r#"{"count":262144,"dataType":"ncclFloat32","rank":0}"#;
        self.traced(main.tid, "API Group", launch - 100..launch + 100, "{}");
        self.traced(main.tid, "AllReduce", launch - 90..launch - 50, call);
        self.traced(main.tid, "GroupLaunch", launch - 40..launch + 90, "{}");
        self.traced(main.tid, "KernelLaunch", launch - 30..launch + 80, "{}");
        let own = self.span(time.clone());
        self.report.kernel(ALL_REDUCE.kernel, stream(20), own.clone(), main.at(launch));
        for channel in 0..2 {
            let json = format!(
                r#"{{"localId":{seq},"channelId":{channel},"commHash":"0x{WORLD:x}","commRank":{},"count":262144,"dataType":"ncclFloat32",{ids}}}"#,
                self.rank
            );
            self.traced(
                main.tid,
                "AllReduce",
                own.start + 10 + channel..own.end - 20 + channel,
                &json,
            );
        }
    }
}

/// Two ranks and six steps; rank 1 arrives 2 ms late at an AllReduce of 6 ms.
fn traced(ids: impl Fn(i64) -> String) -> Cluster {
    let mut cluster = Cluster::new(2);
    cluster.ranks.iter_mut().for_each(Rank::nccl_domain);
    for i in 0..6 {
        cluster.step(&format!("step {i}"), at(i) - 2 * MS..at(i) + 60 * MS);
        for (r, rank) in cluster.ranks.iter_mut().enumerate() {
            rank.compute(at(i)..at(i) + 10 * MS);
            rank.traced_all_reduce(
                i as u64,
                at(i) + (20 + 2 * r as i64) * MS..at(i) + 26 * MS,
                &ids(i),
            );
        }
    }
    cluster
}

#[test]
fn operations_on_the_gpu_name_communicator_size_and_number() {
    for (ids, by) in [
        ("operationId", "operation id"),
        ("seqNumber", "operation id"),
        ("other", "communicator and order"),
    ] {
        let report = traced(|i| format!(r#""{ids}":{}"#, 70 + i)).finish();
        let all = group(&report, "AllReduce", &[0, 1]);
        assert_eq!(
            (all.count, all.bytes, all.transfer_ns, all.matched_by.label()),
            (6, Some(MIB), Some(4 * MS), by)
        );
        assert_eq!(all.comm_id.as_deref(), Some("0xfa012817699a0bae"));
        assert!(all.busbw_gbs.is_some_and(|gbs| (gbs - MIB as f64 / 4e6).abs() < 1e-9));
        assert_eq!((rank(&report, 1).last_count, codes(&report)), (Some(6), vec![]));
    }
}

// Numbers that all ranks share need no steps, and no equal counts: rank 1 lacks the third operation.
#[test]
fn numbers_match_across_gaps() {
    let mut cluster = traced(|i| format!(r#""operationId":{}"#, 70 + i));
    let mut gap = Cluster::new(2);
    gap.ranks.iter_mut().for_each(Rank::nccl_domain);
    for i in [0, 1, 3, 4, 5] {
        gap.step(&format!("step {i}"), at(i) - 2 * MS..at(i) + 60 * MS);
        gap.ranks[1].compute(at(i)..at(i) + 10 * MS);
        gap.ranks[1].traced_all_reduce(
            i as u64,
            at(i) + 22 * MS..at(i) + 26 * MS,
            &format!(r#""operationId":{}"#, 70 + i),
        );
    }
    cluster.ranks[1].report = gap.ranks.remove(1).report;
    let report = cluster.finish_whole();
    let all = group(&report, "AllReduce", &[0, 1]);
    assert_eq!(
        (all.count, all.matched_by.label(), all.transfer_ns),
        (5, "operation id", Some(4 * MS))
    );
    assert_eq!(codes(&report), ["collectives-unmatched"]);
}

// A range of the GPU's time line lies where a copy is launched: the copy is not communication. A call would make it one.
#[test]
fn ranges_of_the_gpu_launch_nothing() {
    let mut cluster = traced(|i| format!(r#""operationId":{}"#, 70 + i));
    for i in 0..6 {
        for rank in &mut cluster.ranks {
            // Launched at 24.5 ms, while the AllReduce runs.
            rank.copy(at(i) + 25 * MS..at(i) + 27 * MS);
        }
    }
    let report = cluster.finish();
    let step = &report.ranks[0].steps[0];
    assert_eq!(crate::support::number(step, "dtod.count"), Some(1));
    assert_eq!(
        (crate::support::number(step, "comm_ns"), crate::support::number(step, "comm_count")),
        (Some(6 * MS), Some(1))
    );
}

// Without what ran on the GPU, calls still name the operation, and a group launch carries the calls of its group.
#[test]
fn calls_of_a_group_range() {
    let mut cluster = Cluster::new(2);
    cluster.ranks.iter_mut().for_each(Rank::nccl_domain);
    for i in 0..4 {
        cluster.step(&format!("step {i}"), at(i) - 2 * MS..at(i) + 60 * MS);
        for rank in &mut cluster.ranks {
            rank.compute(at(i)..at(i) + 10 * MS);
            let (main, launch) = (rank.main(), rank.own(at(i) + 19 * MS));
            rank.traced(main.tid, "API Group", launch - 100..launch + 100, "{}");
            for (k, count) in [262_144, 131_072].into_iter().enumerate() {
                let json = format!(
                    r#"{{"count":{count},"dataType":"ncclFloat32","rank":0,"commHash":{WORLD}}}"#
                );
                rank.traced(
                    main.tid,
                    "AllGather",
                    launch - 90 + 10 * k as i64..launch - 85 + 10 * k as i64,
                    &json,
                );
            }
            rank.traced(main.tid, "GroupLaunch", launch - 40..launch + 90, "{}");
            let time = rank.span(at(i) + 20 * MS..at(i) + 23 * MS);
            rank.report.kernel(ALL_GATHER, stream(20), time, main.at(launch));
        }
    }
    let report = cluster.finish();
    let fused = group(&report, "AllGather", &[0, 1]);
    assert_eq!((fused.count, fused.bytes, fused.n_ranks), (4, Some(MIB + MIB / 2), Some(2)));
}

// Texts of the domain NCCL are never taken for steps.
#[test]
fn nccl_ranges_are_no_steps() {
    let mut cluster = Cluster::new(2);
    cluster.ranks.iter_mut().for_each(Rank::nccl_domain);
    for i in 0..6 {
        for rank in &mut cluster.ranks {
            rank.step("train", at(i) - 2 * MS..at(i) + 60 * MS);
            rank.kernel(GEMM, stream(7), at(i)..at(i) + 10 * MS);
            rank.traced_all_reduce(i as u64, at(i) + 20 * MS..at(i) + 26 * MS, "\"seqNumber\":1");
        }
    }
    let report = cluster.finish();
    assert_eq!((report.settings.step_pattern.as_str(), report.steps.len()), ("^train$", 6));
    // Nor where no other range is a step: then the capture is one window, and none of them is proposed either.
    let mut once = Cluster::new(2);
    once.ranks.iter_mut().for_each(Rank::nccl_domain);
    for rank in &mut once.ranks {
        // It launches the first AllReduce: only a text that gives steps is proposed.
        rank.step("phase", at(0)..at(0) + 30 * MS);
        (0..6).for_each(|i| {
            rank.traced_all_reduce(i as u64, at(i) + 20 * MS..at(i) + 26 * MS, "\"seqNumber\":1")
        });
    }
    let folder = crate::support::folder();
    let report = crate::support::report(&once.save(&folder));
    assert_eq!(report.settings.step_pattern, "whole");
    let doubt =
        report.warnings.iter().find(|w| w.code.as_str() == "steps-uncovered").expect("a doubt");
    let said = format!("{} {}", doubt.message, doubt.hint.clone().unwrap_or_default());
    assert!(
        said.contains("--step '^phase$'") && !said.contains("Group") && !said.contains("AllReduce"),
        "{said}"
    );
    // Nor without any other range: then the capture is one window.
    let mut bare = Cluster::new(2);
    bare.ranks.iter_mut().for_each(Rank::nccl_domain);
    for i in 0..6 {
        bare.ranks.iter_mut().for_each(|rank| {
            rank.traced_all_reduce(i as u64, at(i)..at(i) + 6 * MS, "\"seqNumber\":1")
        });
    }
    let report = bare.finish_with(&Options { step: StepChoice::Automatic, ..Options::default() });
    assert_eq!(report.settings.step_pattern, "whole");
}
