//! Each rule of this folder on reports made by hand: where it speaks, just at its threshold, just below, and where nothing is wrong.

use std::collections::BTreeMap;

use crate::catalogue::{Class, Command, Finding, Id, Said, Unknown};
use crate::collectives::matches::Method;
use crate::model::metric::Values;
use crate::model::{CommOp, Metric};
use crate::report::{CollectiveGroup, Kernel, RankReport, Report, StepWait, by_hand};

const STEPS: usize = 5;
/// The length of every step, ns: 1 % is 1,000,000.
const STEP: i64 = 100_000_000;

/// A run of ranks in whose steps nothing happens but what is set.
fn run(ranks: u32, set: impl Fn(u32) -> Vec<(Metric, i64)>) -> Report {
    let values = |rank| {
        let mut values = Values::unmeasured();
        for &metric in
            Metric::ALL.iter().filter(|m| m.ratio_of().is_none() && **m != Metric::StartNs)
        {
            values.set(metric, 0);
        }
        values.set(Metric::StepNs, STEP);
        for (metric, value) in set(rank) {
            values.set(metric, value);
        }
        values.set_ratios();
        values
    };
    let steps =
        |rank| (0..STEPS).map(|i| by_hand::step(i, &format!("step {i}"), values(rank))).collect();
    let rank = |rank| RankReport {
        last_count: Some(3),
        ordered_count: Some(5),
        ..by_hand::rank(rank, steps(rank))
    };
    by_hand::report("test", (0..ranks).map(rank).collect())
}

/// Both ranks have this in every step.
fn all(set: &[(Metric, i64)]) -> Report {
    run(2, |_| set.to_vec())
}

/// Two ranks; in every step they wait (exposed) for others, and others for them, as given, ns.
fn waiting(ranks: [(i64, i64); 2]) -> Report {
    let waits = (0..STEPS).flat_map(|step| {
        ranks.into_iter().enumerate().map(move |(rank, (exposed_wait_ns, waited_for_ns))| {
            StepWait {
                step,
                rank: rank as u32,
                wait_ns: exposed_wait_ns,
                exposed_wait_ns,
                waited_for_ns,
                last_count: 1,
            }
        })
    });
    Report { waits: waits.collect(), ..all(&[]) }
}

fn collective(bytes: Option<u64>, count: u64) -> CollectiveGroup {
    CollectiveGroup {
        op: CommOp::AllReduce,
        comm_id: None,
        ranks: vec![0, 1],
        from_rank: None,
        n_ranks: Some(2),
        bytes,
        count,
        transfer_ns: Some(2_000_000),
        transfer_p95_ns: None,
        wait_ns: BTreeMap::new(),
        algbw_gbs: None,
        busbw_gbs: None,
        no_bandwidth: None,
        bytes_source: None,
        peak_share: None,
        peak_source: None,
        untimed: 0,
        untimed_reasons: BTreeMap::new(),
        arrival_spread_ns: None,
        leave_spread_p95_ns: None,
        last_arriver: BTreeMap::new(),
        unordered: 0,
        matched_by: Method::StreamOrder,
    }
}

/// 20 operations a step, half of them of the given size, half large.
fn messages(bytes: u64, per_step: i64) -> Report {
    let collectives = vec![collective(Some(bytes), 50), collective(Some(64 << 20), 50)];
    Report { collectives, ..all(&[(Metric::CommCount, per_step)]) }
}

fn leaving(spread: i64) -> Report {
    let group = CollectiveGroup { leave_spread_p95_ns: Some(spread), ..collective(None, 5) };
    Report { collectives: vec![group], ..all(&[]) }
}

fn on_gpus(uuids: [Option<&str>; 2]) -> Report {
    let mut report = all(&[]);
    for (rank, uuid) in report.ranks.iter_mut().zip(uuids) {
        rank.gpu_uuid = uuid.map(str::to_owned);
    }
    report
}

/// A rule, and reports: at its threshold, just below, with nothing of the kind.
fn cases() -> Vec<(Id, [Report; 3])> {
    let of = |id, make: &dyn Fn(i64) -> Report, threshold: i64, below: i64, nothing: i64| {
        (id, [make(threshold), make(below), make(nothing)])
    };
    let share = |id, metrics: &'static [Metric], threshold: i64| {
        let make = move |ns: i64| all(&metrics.iter().map(|m| (*m, ns)).collect::<Vec<_>>());
        of(id, &make, threshold, threshold - 1, 0)
    };
    vec![
        // 60 % of all waiting is for rank 1, or 1 ns less.
        of(
            Id::Straggler,
            &|ns| waiting([(0, 4_000_000), (0, ns)]),
            6_000_000,
            5_999_999,
            4_000_000,
        ),
        // All waiting is for rank 1, and it is 1 % of the step, or 1 ns less.
        of(Id::Straggler, &|ns| waiting([(ns, 0), (0, ns)]), 1_000_000, 999_999, 0),
        // Each waits as long as the other, so neither is to blame.
        of(Id::ArrivalJitter, &|ns| waiting([(ns, ns), (ns, ns)]), 5_000_000, 4_999_999, 0),
        // Rank 0 computes 80 ms; the mean is 2 % of the step less, or a little more than that.
        of(
            Id::ComputeImbalance,
            &|ns| run(2, |rank| vec![(Metric::ComputeNs, if rank == 0 { 80_000_000 } else { ns })]),
            76_000_000,
            76_000_002,
            80_000_000,
        ),
        // Beside 20 ms of idle time a twentieth of the step; as the largest part that is not compute a hundredth.
        of(
            Id::ExposedCommunication,
            &|ns| {
                all(&[
                    (Metric::CommNs, ns),
                    (Metric::ExposedCommNs, ns),
                    (Metric::IdleNs, 20_000_000),
                ])
            },
            5_000_000,
            4_999_999,
            0,
        ),
        share(Id::ExposedCommunication, &[Metric::CommNs, Metric::ExposedCommNs], 1_000_000),
        share(Id::HtodCopies, &[Metric::HtodNs, Metric::HtodExposedNs], 500_000),
        share(Id::DtohCopies, &[Metric::DtohNs, Metric::DtohExposedNs], 500_000),
        share(Id::DtodCopies, &[Metric::DtodNs, Metric::DtodExposedNs], 500_000),
        share(Id::OtherCopies, &[Metric::OtherCopyNs, Metric::OtherCopyExposedNs], 500_000),
        share(Id::Memsets, &[Metric::MemsetNs, Metric::MemsetExposedNs], 500_000),
        // Beside as much and more of communication a tenth of the step; as the largest part a hundredth.
        of(
            Id::Idle,
            &|ns| all(&[(Metric::IdleNs, ns), (Metric::ExposedCommNs, 20_000_000)]),
            10_000_000,
            9_999_999,
            0,
        ),
        share(Id::Idle, &[Metric::IdleNs], 1_000_000),
        (Id::TinyMessages, [messages(65_536, 20), messages(65_537, 20), messages(1 << 20, 20)]),
        (Id::TinyMessages, [messages(65_536, 20), messages(65_536, 19), messages(65_536, 0)]),
        of(Id::EndSpread, &leaving, 200_000, 199_999, 0),
        (
            Id::SharedGpu,
            [
                on_gpus([Some("a"), Some("a")]),
                // Which GPU rank 1 runs on is not known.
                on_gpus([Some("a"), None]),
                on_gpus([Some("a"), Some("b")]),
            ],
        ),
    ]
}

#[test]
fn a_rule_speaks_from_its_threshold_on_and_not_before() {
    for (id, reports) in cases() {
        let speaks =
            reports.each_ref().map(|report| super::find(report).iter().any(|f| f.id == id));
        assert_eq!(speaks, [true, false, false], "{id}: at the threshold, just below, nothing");
    }
}

#[test]
fn every_rule_over_traces_alone_has_its_cases() {
    let cases = cases();
    let of_trace = |id: &&Id| {
        let entry = id.entry();
        entry.said.contains(&Said::Finding(Command::Report))
            && entry.rule.is_some_and(|rule| {
                rule.needs
                    .iter()
                    .all(|c| matches!(c, Class::Trace | Class::OtherRanks | Class::Sizes))
            })
    };
    for id in Id::ALL.iter().filter(of_trace) {
        assert!(cases.iter().any(|(case, _)| case == id), "no case of {id}");
    }
}

/// A run that communicates.
fn talking(ranks: u32) -> Report {
    let mut report = run(ranks, |_| Vec::new());
    report.kernels.comm.push(Kernel {
        name: "ncclDevKernel_AllReduce_Sum_f32_RING_LL".to_owned(),
        class: "comm:nccl".to_owned(),
        count: 5,
        total_ns: 1,
        median_ns: 1,
    });
    report
}

fn classes(report: &Report, findings: &[Finding]) -> Vec<Class> {
    super::unknown(report, findings).iter().map(|unknown| unknown.class).collect()
}

#[test]
fn what_is_missing_is_named_once_with_what_it_would_tell() {
    let mut report = talking(2);
    let all = [
        Class::Sizes,
        Class::NcclLog,
        Class::Topology,
        Class::Npkit,
        Class::Counters,
        Class::Inspector,
    ];
    assert_eq!(classes(&report, &[]), all);
    let unknown: Vec<Unknown> = super::unknown(&report, &[]);
    assert!(unknown.iter().all(|u| !u.rules.is_empty() && u.capture.ends_with('.')), "{unknown:?}");
    let npkit = unknown.iter().find(|u| u.class == Class::Npkit).expect("NPKit");
    assert_eq!(npkit.rules, [Id::NpkitWaiting, Id::NpkitSlowChannel, Id::NpkitProxyLatency]);
    // Sizes are there.
    report.collectives = vec![collective(Some(8), 5)];
    assert_eq!(classes(&report, &[]), all[1..]);
    // One rank of two.
    report = talking(1);
    report.summary.world_size = Some(2);
    assert_eq!(classes(&report, &[])[0], Class::OtherRanks);
    // One rank of one.
    report.summary.world_size = Some(1);
    assert_eq!(classes(&report, &[])[0], Class::Sizes);
    // A run that does not communicate lacks nothing that is about communication.
    assert_eq!(classes(&run(2, |_| Vec::new()), &[]), []);
}

#[test]
fn a_rule_that_speaks_is_not_unknown() {
    let report = talking(2);
    let of_log = |findings: &[Finding]| {
        let list = super::unknown(&report, findings);
        list.into_iter().find(|unknown| unknown.class == Class::NcclLog).expect("NCCL log").rules
    };
    assert!(of_log(&[]).contains(&Id::TransportBelowTopology));
    let finding = Finding::new(Id::TransportBelowTopology, "host memory");
    assert!(!of_log(&[finding]).contains(&Id::TransportBelowTopology));
}

#[test]
fn without_a_replay_the_gain_of_what_was_found_is_unknown() {
    let mut report = run(2, |_| Vec::new());
    report.replay.reason = Some("it was not asked for".to_owned());
    assert_eq!(classes(&report, &[]), [], "there is nothing to gain from");
    let late = Finding::new(Id::Straggler, "late");
    assert_eq!(super::unknown(&report, std::slice::from_ref(&late))[0].rules, [Id::Straggler]);
    report.replay.reason = None;
    assert_eq!(classes(&report, &[late]), []);
}
