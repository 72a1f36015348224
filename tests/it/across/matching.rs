//! Which operations are the same: sub-communicators, sends and receives, groups, unequal counts, and exports without payloads.

use nsysnccl::internals::report::{CollectiveGroup, Report as Finished};

use crate::support::cluster::{
    ALL_REDUCE, Cluster, Collective, MIB, MS, SECOND, US, WORLD, codes, group, rank, warning,
};
use crate::support::report::{Payload, Payloads, stream};
use crate::support::scenes::{GEMM, SEND_RECV};

const ALL_GATHER: &str =
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)";
const BROADCAST: &str =
    "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)";

fn gather() -> Collective {
    Collective::of("ncclAllGather", ALL_GATHER)
}

fn p2p(peer: i32, bytes: u64, comm: u64) -> Payload {
    Payload { comm, bytes: Some(bytes), peer: Some(peer), ..Payload::default() }
}

/// Start of step `i`.
fn at(i: i64) -> i64 {
    SECOND + i * 100 * MS
}

/// Steps with some compute on every rank.
fn with_steps(ranks: u32, n: i64) -> Cluster {
    let mut cluster = Cluster::new(ranks);
    for i in 0..n {
        cluster.step(&format!("step {i}"), at(i) - 2 * MS..at(i) + 90 * MS);
        cluster.ranks.iter_mut().for_each(|rank| rank.compute(at(i)..at(i) + 10 * MS));
    }
    cluster
}

fn shape(group: &CollectiveGroup) -> (u64, Option<u32>, Option<u64>, Option<i64>) {
    (group.count, group.n_ranks, group.bytes, group.transfer_ns)
}

// Four ranks: tensor parallel {0,1} and {2,3}, data parallel {0,2} and {1,3}, everyone; five steps.
// ms       10  12    20   24   30  31
// TP 0,1   [A ]                         rank 1 arrives 1 ms late
// TP 2,3   [A    ]                      another communicator, twice as long
// DP            0,2 [G  ] 1,3 [G  ]
// all                          [AR]
#[test]
fn sub_communicators() {
    let mut cluster = with_steps(4, 5);
    for i in 0..5 {
        let t = at(i) + 10 * MS;
        let tp = ALL_REDUCE.on(1, 20).bytes(4 * MIB);
        cluster.collective(&tp, &[(0, t), (1, t + MS)], t + 2 * MS);
        cluster.collective(&tp.on(2, 20), &[(2, t), (3, t)], t + 4 * MS);
        let dp = gather().on(3, 24).bytes(MIB);
        cluster.collective(&dp, &[(0, t + 10 * MS), (2, t + 10 * MS)], t + 13 * MS);
        cluster.collective(&dp.on(4, 24), &[(1, t + 12 * MS), (3, t + 11 * MS)], t + 15 * MS);
        cluster.collective(
            &ALL_REDUCE,
            &[(0, t + 20 * MS), (1, t + 20 * MS), (2, t + 20 * MS), (3, t + 20 * MS)],
            t + 21 * MS,
        );
    }
    let report = cluster.finish();
    assert_eq!(codes(&report), [""; 0]);
    assert_eq!(shape(group(&report, "AllReduce", &[0, 1])), (5, Some(2), Some(4 * MIB), Some(MS)));
    assert_eq!(
        shape(group(&report, "AllReduce", &[2, 3])),
        (5, Some(2), Some(4 * MIB), Some(4 * MS))
    );
    assert_eq!(shape(group(&report, "AllGather", &[0, 2])), (5, Some(2), Some(MIB), Some(3 * MS)));
    assert_eq!(shape(group(&report, "AllGather", &[1, 3])), (5, Some(2), Some(MIB), Some(3 * MS)));
    assert_eq!(
        shape(group(&report, "AllReduce", &[0, 1, 2, 3])),
        (5, Some(4), Some(MIB), Some(MS))
    );
    // AllGather: 2 MiB in 3 ms and half of that; AllReduce of four: 1 MiB in 1 ms and 2 x 3/4 of that.
    let near = |found: Option<f64>, expected: f64| {
        assert!(found.is_some_and(|gbs| (gbs / expected - 1.0).abs() < 1e-9), "{found:?}")
    };
    near(group(&report, "AllGather", &[0, 2]).algbw_gbs, 2.0 * MIB as f64 / 3e6);
    near(group(&report, "AllGather", &[0, 2]).busbw_gbs, MIB as f64 / 3e6);
    near(group(&report, "AllReduce", &[0, 1, 2, 3]).busbw_gbs, 1.5 * MIB as f64 / 1e6);
    // Rank 0 waits 1 ms for rank 1, rank 3 waits 1 ms for rank 1 too.
    assert_eq!(rank(&report, 0).wait_ns_per_step, Some(MS));
    assert_eq!(rank(&report, 3).wait_ns_per_step, Some(MS));
    assert_eq!(
        (rank(&report, 1).last_count, rank(&report, 1).wait_ns_per_step),
        (Some(10), Some(0))
    );
}

// The same without payloads: streams and kernel names do not say who belongs together, but who leaves together does.
#[test]
fn sub_communicators_without_payloads() {
    let mut cluster = with_steps(4, 12);
    cluster.ranks.iter_mut().for_each(|rank| rank.report.payloads = Payloads::None);
    for i in 0..12 {
        let t = at(i) + 10 * MS;
        // The second group is up to 2 ms later, another time in each step.
        let later = t + (i * 7_919 % 11) * 200 * US;
        cluster.collective(&ALL_REDUCE, &[(0, t), (1, t + MS)], t + 2 * MS);
        cluster.collective(&ALL_REDUCE, &[(2, later), (3, later)], later + 4 * MS);
        let all = [(0, t + 20 * MS), (1, t + 20 * MS), (2, t + 20 * MS), (3, t + 20 * MS)];
        cluster.collective(&Collective { stream: 24, ..gather() }, &all, t + 21 * MS);
    }
    let report = cluster.finish();
    assert_eq!(codes(&report), ["no-payloads"]);
    assert_eq!(shape(group(&report, "AllReduce", &[0, 1])), (12, Some(4), None, Some(MS)));
    assert_eq!(shape(group(&report, "AllReduce", &[2, 3])), (12, Some(4), None, Some(4 * MS)));
    assert_eq!(shape(group(&report, "AllGather", &[0, 1, 2, 3])), (12, Some(4), None, Some(MS)));
    let why = group(&report, "AllReduce", &[0, 1]).no_bandwidth.as_deref();
    assert_eq!(why, Some("the capture does not say how large the message is"));
    assert_eq!(
        group(&report, "AllReduce", &[0, 1]).matched_by.label(),
        "stream order and kernel name"
    );
}

// Through host memory ranks leave an AllReduce of 4 ms up to 50 us apart, now one first and now the other: still one operation.
#[test]
fn one_communicator_without_payloads_that_ranks_leave_roughly_together() {
    let mut cluster = with_steps(4, 12);
    for i in 0..12 {
        for (r, rank) in cluster.ranks.iter_mut().enumerate() {
            rank.report.payloads = Payloads::None;
            let apart = i * (3 * r as i64 + 4) % 11 * 5 * US;
            rank.collective(&ALL_REDUCE, at(i) + 20 * MS..at(i) + 24 * MS + apart);
        }
    }
    let report = cluster.finish();
    assert_eq!(codes(&report), ["no-payloads"]);
    assert_eq!(group(&report, "AllReduce", &[0, 1, 2, 3]).count, 12);
}

// A pipeline of four stages without payloads: as many kernels on ranks 0 and 3, and on 1 and 2, but no two of them at once except
// those of neighbours, which differ in number. Nothing is paired. What all ranks do at once is one operation.
#[test]
fn sends_without_payloads_are_not_paired_blindly() {
    let mut cluster = with_steps(4, 6);
    for i in 0..6 {
        for r in 0..4 {
            let rank = &mut cluster.ranks[r];
            rank.report.payloads = Payloads::None;
            let t = at(i) + (20 + 10 * r as i64) * MS;
            if r > 0 {
                rank.collective(&sends("ncclRecv", Payload::default()), t..t + MS);
            }
            if r < 3 {
                rank.collective(&sends("ncclSend", Payload::default()), t + 10 * MS..t + 11 * MS);
            }
            let all_to_all = Collective { stream: 24, ..sends("ncclAlltoAll", Payload::default()) };
            rank.collective(&all_to_all, at(i) + 70 * MS + r as i64 * 100 * US..at(i) + 75 * MS);
            // It tells that stream from the pipeline's, and how clocks stand.
            rank.collective(
                &Collective { stream: 24, ..ALL_REDUCE },
                at(i) + 80 * MS..at(i) + 81 * MS,
            );
        }
    }
    let report = cluster.finish();
    let figures: Vec<_> = report
        .collectives
        .iter()
        .map(|g| (g.op.label(), g.ranks.as_slice(), g.count, g.transfer_ns))
        .collect();
    assert_eq!(
        figures,
        [
            ("AllToAll", &[0, 1, 2, 3][..], 6, Some(4_700 * US)),
            ("AllReduce", &[0, 1, 2, 3], 6, Some(MS))
        ]
    );
    let alone = warning(&report, "collectives-unmatched");
    assert!(alone.contains("6 on rank 0, 12 on rank 1, 12 on rank 2, 6 on rank 3"), "{alone}");
}

// A pipeline of three stages: 0 sends to 1, 1 to 2, each twice a step.
// rank 0   [S1]        [S1]
// rank 1   [R0  ][S2]  [R0 ][S2]
// rank 2         [R1 ]      [R1 ]
#[test]
fn sends_and_receives_between_pairs() {
    let mut cluster = with_steps(3, 4);
    for i in 0..4 {
        for k in 0..2 {
            let t = at(i) + (20 + 20 * k) * MS;
            let bytes = MIB * (1 + k as u64);
            cluster.ranks[0].collective(&sends("ncclSend", p2p(1, bytes, WORLD)), t..t + 2 * MS);
            cluster.ranks[1]
                .collective(&sends("ncclRecv", p2p(0, bytes, WORLD)), t + MS..t + 3 * MS);
            cluster.ranks[1]
                .collective(&sends("ncclSend", p2p(2, bytes, WORLD)), t + 4 * MS..t + 6 * MS);
            cluster.ranks[2]
                .collective(&sends("ncclRecv", p2p(1, bytes, WORLD)), t + 5 * MS..t + 7 * MS);
        }
    }
    // One collective a step, so that clocks are known.
    (0..4).for_each(|i| {
        cluster.collective(
            &ALL_REDUCE,
            &[(0, at(i) + 80 * MS), (1, at(i) + 80 * MS), (2, at(i) + 80 * MS)],
            at(i) + 81 * MS,
        )
    });
    let report = cluster.finish();
    assert_eq!(codes(&report), [""; 0]);
    let mut groups: Vec<_> = report
        .collectives
        .iter()
        .filter(|g| g.op.label() == "SendRecv")
        .map(|g| (g.ranks.clone(), shape(g)))
        .collect();
    groups.sort();
    // Latest end minus latest start: 3 - 1 and 7 - 5 ms.
    let expected =
        |ranks: [u32; 2], bytes| (ranks.to_vec(), (4, Some(3), Some(bytes), Some(2 * MS)));
    assert_eq!(
        groups,
        [
            expected([0, 1], MIB),
            expected([0, 1], 2 * MIB),
            expected([1, 2], MIB),
            expected([1, 2], 2 * MIB)
        ]
    );
}

fn sends(function: &'static str, payload: Payload) -> Collective {
    Collective { function, kernel: SEND_RECV, payload, stream: 22 }
}

// Every rank sends to the next and receives from the one before, in one kernel: the ring is one operation of all.
#[test]
fn a_ring_of_sends_is_one_operation() {
    let mut cluster = with_steps(4, 4);
    for i in 0..4 {
        let t = at(i) + 20 * MS;
        for r in 0..4 {
            let (next, before) = ((r + 1) % 4, (r + 3) % 4);
            let calls = [
                ("ncclSend", p2p(next as i32, MIB, WORLD)),
                ("ncclRecv", p2p(before as i32, MIB, WORLD)),
            ];
            cluster.ranks[r].group(&calls, &[(SEND_RECV, 22, t + r as i64 * 100 * US..t + 5 * MS)]);
        }
        cluster.collective(
            &ALL_REDUCE,
            &[(0, t + 20 * MS), (1, t + 20 * MS), (2, t + 20 * MS), (3, t + 20 * MS)],
            t + 21 * MS,
        );
    }
    let report = cluster.finish();
    let ring = group(&report, "SendRecv", &[0, 1, 2, 3]);
    // All are there 0.3 ms after the first; 1 MiB in 4.7 ms.
    assert_eq!(shape(ring), (4, Some(4), Some(MIB), Some(4_700 * US)));
    assert!(ring.busbw_gbs.is_some_and(|gbs| (gbs - MIB as f64 / 4.7e6).abs() < 1e-9));
    assert_eq!(codes(&report), [""; 0]);
}

// Numbers in a sub-communicator are not those of the run: {1, 3} calls them 0 and 1. An init payload names them, also where
// their order is another one.
#[test]
fn peers_are_numbers_of_the_communicator() {
    for reversed in [false, true] {
        let mut cluster = with_steps(4, 3);
        let number = |r: usize| if (r == 3) != reversed { 1 } else { 0 };
        for r in [1, 3].into_iter().filter(|_| reversed) {
            let rank = &mut cluster.ranks[r];
            let (main, time) = (rank.main(), rank.span(at(0)..at(0) + MS));
            let init = Payload { comm: 9, init: Some((2, number(r), 0)), ..Payload::default() };
            rank.report.nccl(main, "ncclCommInitRank", time, init);
            let all = Payload { comm: WORLD, init: Some((4, r as i32, 0)), ..Payload::default() };
            let time = rank.span(at(0)..at(0) + MS);
            rank.report.nccl(main, "ncclCommInitRank", time, all);
        }
        for i in 0..3 {
            let t = at(i) + 20 * MS;
            cluster.ranks[1].collective(&sends("ncclSend", p2p(number(3), MIB, 9)), t..t + 2 * MS);
            cluster.ranks[3].collective(&sends("ncclRecv", p2p(number(1), MIB, 9)), t..t + 2 * MS);
        }
        let report = cluster.finish();
        assert_eq!(group(&report, "SendRecv", &[1, 3]).count, 3, "{reversed}");
        assert_eq!(group(&report, "SendRecv", &[1, 3]).n_ranks, Some(2));
    }
}

// The capture holds the init of rank 1 only: which number rank 3 has is not known, and nothing is guessed.
#[test]
fn an_unknown_own_number_is_no_partner() {
    let mut cluster = with_steps(4, 2);
    let init = Payload { comm: 9, init: Some((2, 1, 0)), ..Payload::default() };
    let all = Payload { comm: WORLD, init: Some((4, 1, 0)), ..Payload::default() };
    for payload in [init, all] {
        let rank = &mut cluster.ranks[1];
        let (main, time) = (rank.main(), rank.span(at(0)..at(0) + MS));
        rank.report.nccl(main, "ncclCommInitRank", time, payload);
    }
    for i in 0..2 {
        let t = at(i) + 20 * MS;
        cluster.ranks[1].collective(&sends("ncclSend", p2p(0, MIB, 9)), t..t + 2 * MS);
        cluster.ranks[3].collective(&sends("ncclRecv", p2p(1, MIB, 9)), t..t + 2 * MS);
    }
    let report = cluster.finish();
    assert_eq!(report.collectives, []);
    let messages: Vec<&str> = report.warnings.iter().map(|w| w.message.as_str()).collect();
    assert!(
        messages.iter().any(|m| m.contains("2 on rank 3. Reason: the rank's own number")),
        "{messages:?}"
    );
    assert!(
        messages.iter().any(|m| m.contains("2 on rank 1. Reason: no other rank")),
        "{messages:?}"
    );
}

// Sends and receives pair in order: where sizes disagree, something is missing.
#[test]
fn sends_of_another_size_are_no_partners() {
    let mut cluster = with_steps(2, 1);
    let t = at(0) + 20 * MS;
    for (k, bytes) in [(0, 1), (1, 2)] {
        cluster.ranks[0].collective(
            &sends("ncclSend", p2p(1, bytes, WORLD)),
            t + k * 5 * MS..t + k * 5 * MS + MS,
        );
        cluster.ranks[1].collective(
            &sends("ncclRecv", p2p(0, bytes + 1, WORLD)),
            t + k * 5 * MS..t + k * 5 * MS + MS,
        );
    }
    let report = cluster.finish();
    assert_eq!(report.collectives, []);
    assert!(
        warning(&report, "collectives-unmatched")
            .contains("2 on rank 0, 2 on rank 1. Reason: counts, sizes or kernels differ")
    );
}

// Rank 0 sends to 1 and later receives from it, rank 1 does both in one kernel: that one works with two of rank 0.
#[test]
fn a_kernel_that_works_with_two_of_another_rank() {
    let mut cluster = with_steps(2, 1);
    let t = at(0) + 20 * MS;
    cluster.ranks[0].collective(&sends("ncclSend", p2p(1, MIB, WORLD)), t..t + MS);
    cluster.ranks[0].collective(&sends("ncclRecv", p2p(1, MIB, WORLD)), t + MS..t + 2 * MS);
    let calls = [("ncclSend", p2p(0, MIB, WORLD)), ("ncclRecv", p2p(0, MIB, WORLD))];
    cluster.ranks[1].group(&calls, &[(SEND_RECV, 22, t..t + 2 * MS)]);
    let report = cluster.finish();
    assert_eq!(report.collectives, []);
    assert!(
        warning(&report, "collectives-unmatched")
            .contains("2 on rank 0, 1 on rank 1. Reason: one kernel works with several")
    );
}

// NCCL 2.16 to 2.24 logs sizes without a communicator: order on the stream matches, and sizes must agree.
#[test]
fn payloads_without_a_communicator() {
    let old = |rank: &mut crate::support::cluster::Rank, bytes: u64, time: std::ops::Range<i64>| {
        let (main, launch) = (rank.main(), rank.own(time.start - MS));
        rank.kernel(ALL_REDUCE.kernel, stream(20), time);
        let name = rank.report.string("ncclAllReduce");
        let json = format!(r#"{{"Message size [bytes]":{bytes},"Reduction operation":"Sum"}}"#);
        let row = [
            ("start", launch.into()),
            ("end", (launch + MS).into()),
            ("eventType", 59.into()),
            ("textId", name.into()),
        ];
        let more = [
            ("globalTid", main.global().into()),
            ("domainId", 1.into()),
            ("jsonText", crate::support::report::text(&json)),
        ];
        rank.report.row("NVTX_EVENTS", &[&row[..], &more].concat());
    };
    let of = |sizes: [[u64; 2]; 2]| {
        let mut cluster = with_steps(2, 3);
        cluster.hosts(&["a", "a"]);
        for i in 0..3 {
            for (rank, own) in cluster.ranks.iter_mut().zip(&sizes) {
                for &size in own {
                    // What rank 1 has second runs while rank 0 has nothing, if sizes differ.
                    let t = at(i) + (20 + 10 * size as i64) * MS;
                    old(rank, MIB * size, t + i64::from(rank.rank) * MS..t + 3 * MS);
                }
            }
        }
        cluster.finish()
    };
    let even = of([[1, 2], [1, 2]]);
    let figures: Vec<_> =
        even.collectives.iter().map(|g| (shape(g), g.matched_by.label())).collect();
    let order = "stream order and kernel name";
    assert_eq!(
        figures,
        [
            ((3, Some(2), Some(MIB), Some(2 * MS)), order),
            ((3, Some(2), Some(2 * MIB), Some(2 * MS)), order)
        ]
    );
    assert!(even.collectives[0].busbw_gbs.is_some_and(|gbs| (gbs - MIB as f64 / 2e6).abs() < 1e-9));
    // Rank 0 has the first and the second, rank 1 the second and the third: as many, and yet only the second is common.
    let uneven = of([[1, 2], [2, 3]]);
    let figures: Vec<_> =
        uneven.collectives.iter().map(|g| (shape(g), g.matched_by.label())).collect();
    assert_eq!(figures, [((3, Some(2), Some(2 * MIB), Some(2 * MS)), "time")]);
    assert!(warning(&uneven, "collectives-unmatched").contains("3 on rank 0, 3 on rank 1"));
}

// Rank 1 runs one AllReduce less in step 2: in that step time decides, and the one too many is named by rank.
#[test]
fn unequal_counts_are_named_by_rank() {
    let mut cluster = with_steps(2, 4);
    for i in 0..4 {
        for k in 0..3 {
            let t = at(i) + (20 + 10 * k) * MS;
            cluster.ranks[0].collective(&ALL_REDUCE, t..t + 2 * MS);
            if (i, k) != (2, 1) {
                cluster.ranks[1].collective(&ALL_REDUCE, t + MS..t + 2 * MS);
            }
        }
    }
    let report = cluster.finish();
    let counts: Vec<_> =
        report.collectives.iter().map(|g| (g.matched_by.label(), g.count, g.transfer_ns)).collect();
    assert_eq!(counts, [("communicator and order", 9, Some(MS)), ("time", 2, Some(MS))]);
    let message = warning(&report, "collectives-unmatched");
    assert!(message.contains("1 on rank 0. Reason: counts, sizes or kernels differ"), "{message}");
    assert!(
        message.contains("AllReduce on communicator 0xfa012817699a0bae: 3 on rank 0, 2 on rank 1"),
        "{message}"
    );
    assert_eq!(rank(&report, 0).wait_ns_per_step, Some(3 * MS));
}

// Equal counts, but rank 0 lacks the first of a step and rank 1 the last: order would pair the wrong ones; sizes differ.
#[test]
fn equal_counts_of_unequal_operations() {
    let mut cluster = with_steps(2, 4);
    for i in 0..4 {
        for k in 0..4 {
            let t = at(i) + (20 + 10 * k) * MS;
            let bucket = ALL_REDUCE.bytes(MIB * (1 + k as u64));
            if (i, k) != (2, 0) {
                cluster.ranks[0].collective(&bucket, t..t + 2 * MS);
            }
            if (i, k) != (2, 3) {
                cluster.ranks[1].collective(&bucket, t + MS..t + 2 * MS);
            }
        }
    }
    let report = cluster.finish();
    assert_eq!(report.collectives.iter().map(|g| g.count).sum::<u64>(), 14);
    assert!(report.collectives.iter().all(|g| g.transfer_ns == Some(MS) && g.bytes.is_some()));
    assert!(warning(&report, "collectives-unmatched").contains("1 on rank 0, 1 on rank 1"));
}

// Two AllReduce in a group run as one kernel; an AllGather and a Broadcast in a group do, too, and it is named after one.
#[test]
fn a_kernel_of_several_calls() {
    let mut cluster = with_steps(2, 3);
    let other = Payload { root: Some(0), redop: None, ..ALL_REDUCE.payload };
    for i in 0..3 {
        for r in 0..2 {
            let late = r as i64 * MS;
            let t = at(i) + 20 * MS;
            let rank = &mut cluster.ranks[r];
            let twice = [
                ("ncclAllReduce", ALL_REDUCE.payload),
                ("ncclAllReduce", ALL_REDUCE.bytes(3 * MIB).payload),
            ];
            rank.group(&twice, &[(ALL_REDUCE.kernel, 20, t + late..t + 4 * MS)]);
            let mixed = [("ncclAllGather", gather().payload), ("ncclBroadcast", other)];
            rank.group(&mixed, &[(ALL_GATHER, 20, t + 10 * MS..t + 14 * MS)]);
        }
    }
    let report = cluster.finish();
    let fused = group(&report, "AllReduce", &[0, 1]);
    assert_eq!(shape(fused), (3, Some(2), Some(4 * MIB), Some(3 * MS)));
    let mixed = group(&report, "Other", &[0, 1]);
    assert_eq!((mixed.count, mixed.untimed, mixed.busbw_gbs), (3, 3, None));
    assert_eq!(
        mixed.untimed_reasons.keys().collect::<Vec<_>>(),
        ["one kernel carries different operations"]
    );
    assert_eq!(mixed.no_bandwidth.as_deref(), Some("one kernel carries different operations"));
}

// A group of broadcasts, one from each root: NCCL runs them as an AllGatherV.
#[test]
fn a_group_of_broadcasts_is_an_all_gather_v() {
    let kernel = "ncclDevKernel_AllGatherV_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)";
    let of = |sizes: [u64; 2], kernel: &str| {
        let mut cluster = with_steps(2, 3);
        cluster.hosts(&["a", "a"]);
        for i in 0..3 {
            for r in 0..2 {
                let from = |root: i32| Payload {
                    root: Some(root),
                    redop: None,
                    bytes: Some(sizes[root as usize]),
                    ..ALL_REDUCE.payload
                };
                let calls = [("ncclBroadcast", from(0)), ("ncclBroadcast", from(1))];
                cluster.ranks[r]
                    .group(&calls, &[(kernel, 20, at(i) + (20 + r as i64) * MS..at(i) + 24 * MS)]);
            }
        }
        cluster.finish()
    };
    let even = of([MIB, MIB], kernel);
    assert_eq!(shape(group(&even, "AllGather", &[0, 1])), (3, Some(2), Some(MIB), Some(3 * MS)));
    // 2 MiB in 3 ms, half of which each rank has already.
    assert!(
        group(&even, "AllGather", &[0, 1])
            .busbw_gbs
            .is_some_and(|gbs| (gbs - MIB as f64 / 3e6).abs() < 1e-9)
    );
    let uneven = of([MIB, 2 * MIB], kernel);
    assert_eq!(shape(group(&uneven, "AllGather", &[0, 1])), (3, Some(2), None, Some(3 * MS)));
    let why = group(&uneven, "AllGather", &[0, 1]).no_bandwidth.as_deref();
    assert_eq!(why, Some("one kernel carries several operations whose sizes are not all known"));
    // Before NCCL had such kernels they were broadcasts, which ranks need not leave together.
    let fused = of([MIB, MIB], BROADCAST);
    assert_eq!(
        shape(group(&fused, "Broadcast", &[0, 1])),
        (3, Some(2), Some(2 * MIB), Some(3 * MS))
    );
}

// A group on two communicators launches two kernels, in an order that NCCL chooses: which is which is not known, and no size
// is made up. On one communicator, or with kernels of different names, order tells.
#[test]
fn kernels_of_a_group_on_several_communicators() {
    let of = |second: Collective| {
        let mut cluster = with_steps(2, 3);
        for i in 0..3 {
            let t = at(i) + 20 * MS;
            for r in 0..2 {
                let calls =
                    [(ALL_REDUCE.function, ALL_REDUCE.payload), (second.function, second.payload)];
                let kernels = [
                    (ALL_REDUCE.kernel, 20, t..t + 2 * MS),
                    (second.kernel, 20, t + 2 * MS..t + 5 * MS),
                ];
                cluster.ranks[r].group(&calls, &kernels);
            }
        }
        cluster.finish()
    };
    let sizes = |report: &Finished| {
        let mut list: Vec<_> =
            report.collectives.iter().map(|g| (g.op.to_string(), g.bytes, g.transfer_ns)).collect();
        list.sort();
        list
    };
    let unknown = of(ALL_REDUCE.on(7, 20).bytes(5));
    assert_eq!(
        unknown.collectives.iter().map(|g| (g.bytes, g.count)).collect::<Vec<_>>(),
        [(None, 6)]
    );
    let ordered = of(ALL_REDUCE.bytes(5));
    let all_reduce = |bytes, ns| ("AllReduce".to_owned(), Some(bytes), Some(ns));
    assert_eq!(sizes(&ordered), [all_reduce(5, 3 * MS), all_reduce(MIB, 2 * MS)]);
    let named = of(gather().on(7, 20));
    assert_eq!(
        sizes(&named),
        [("AllGather".to_owned(), Some(MIB), Some(3 * MS)), all_reduce(MIB, 2 * MS)]
    );
}

// A copy-engine AllGather: copies launched inside the NCCL call, no kernel. Copies do not wait for late ranks.
#[test]
fn copies_of_a_copy_engine_collective() {
    use crate::support::report::Copy;
    let mut cluster = with_steps(2, 4);
    for i in 0..4 {
        let t = at(i) + 20 * MS;
        for r in 0..2 {
            let rank = &mut cluster.ranks[r];
            let launch = rank.own(t - MS);
            let main = rank.main();
            rank.report.nccl(main, "ncclAllGather", launch - 10..launch + 10, gather().payload);
            for k in 0..2 {
                let time = rank.span(t + (r as i64 + k) * MS..t + (r as i64 + k + 1) * MS);
                rank.report.copy(Copy::PtoP, 4096, stream(20), time, main.at(launch));
            }
        }
        cluster.collective(&ALL_REDUCE, &[(0, t + 20 * MS), (1, t + 20 * MS)], t + 21 * MS);
    }
    let report = cluster.finish();
    // rank 0 [20, 22), rank 1 [21, 23): latest end - latest start.
    let copies = group(&report, "AllGather", &[0, 1]);
    assert_eq!(
        (shape(copies), copies.wait_ns.len(), copies.last_arriver.len()),
        ((4, Some(2), Some(MIB), Some(2 * MS)), 0, 0)
    );
    assert_eq!(
        (rank(&report, 0).clock.collectives, rank(&report, 0).clock.offset_ns),
        (4, Some(0))
    );
}

// Work before the first step and after the last one is counted from there, never across a step.
#[test]
fn operations_outside_steps() {
    let mut cluster = with_steps(2, 3);
    for i in 0..3 {
        cluster.collective(
            &ALL_REDUCE,
            &[(0, at(i) + 20 * MS), (1, at(i) + 20 * MS)],
            at(i) + 22 * MS,
        );
    }
    // Rank 0 was captured earlier and sees two more before; after the last step both run one, of which rank 1 comes late.
    let before = at(0) - 30 * MS;
    cluster.ranks[0].collective(&ALL_REDUCE, before..before + MS);
    cluster.collective(
        &ALL_REDUCE,
        &[(0, before + 10 * MS), (1, before + 10 * MS)],
        before + 11 * MS,
    );
    cluster.collective(&ALL_REDUCE, &[(0, at(2) + 95 * MS), (1, at(2) + 96 * MS)], at(2) + 97 * MS);
    let report = cluster.finish();
    let counts: Vec<_> =
        report.collectives.iter().map(|g| (g.matched_by.label(), g.count)).collect();
    assert_eq!(counts, [("communicator and order", 4), ("time", 1)]);
    assert!(
        warning(&report, "collectives-unmatched")
            .contains("1 on rank 0. Reason: counts, sizes or kernels differ")
    );
    // Only steps have waits.
    assert_eq!(report.waits.iter().map(|w| w.wait_ns).sum::<i64>(), 0);
}

// Ranks of one report reuse correlation and stream ids: each keeps its own kernels.
#[test]
fn ranks_of_one_report_keep_their_kernels() {
    use crate::support::report::{Report, thread};
    let folder = crate::support::folder();
    let mut report = Report::default();
    for r in 0..8u32 {
        let main = thread(100 + r, 100 + r);
        for i in 0..5 {
            report.range(main, &format!("step {i}"), at(i) - 2 * MS..at(i) + 90 * MS);
            report.kernel(GEMM, stream(7), at(i)..at(i) + 10 * MS, main.at(at(i) - MS));
            report.nccl(main, "ncclAllReduce", at(i) + 8 * MS..at(i) + 9 * MS, ALL_REDUCE.payload);
            let start = at(i) + 20 * MS + i64::from(r) * MS;
            report.kernel(
                ALL_REDUCE.kernel,
                stream(20),
                start..at(i) + 40 * MS,
                main.at(at(i) + 8 * MS + 1),
            );
        }
    }
    let finished = crate::support::report(&[report.save(folder.path(), "all.sqlite")]);
    let all = group(&finished, "AllReduce", &[0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!((all.count, all.transfer_ns, all.last_arriver[&7]), (5, Some(13 * MS), 5));
    assert_eq!(
        all.wait_ns.values().copied().collect::<Vec<_>>(),
        (0..8).map(|r| (7 - r) * MS).collect::<Vec<_>>()
    );
    // Nothing says how many ranks the run has.
    assert!(warning(&finished, "communicator-size-assumed").contains("the 8 that are here"));
}

// Two streams' worth of kernels in another order on rank 1, at another time: order on the stream would pair unequal kernels.
#[test]
fn kernels_of_other_names_are_not_paired() {
    let mut cluster = with_steps(2, 3);
    for i in 0..3 {
        for (r, rank) in cluster.ranks.iter_mut().enumerate() {
            rank.report.payloads = Payloads::None;
            let kernels = if r == 0 { [ALL_REDUCE, gather()] } else { [gather(), ALL_REDUCE] };
            for (k, what) in kernels.iter().enumerate() {
                let t = at(i) + (20 + 20 * r as i64 + 10 * k as i64) * MS;
                rank.collective(&Collective { stream: 20, ..*what }, t..t + MS);
            }
        }
    }
    let report = cluster.finish();
    assert_eq!(report.collectives, []);
    assert!(
        warning(&report, "collectives-unmatched").contains("6 on rank 0, 6 on rank 1"),
        "{:?}",
        report.warnings
    );
}

// 64 ranks of 5,000 collectives: what is linear takes half a second in a release build, what is not takes minutes.
#[test]
fn matching_is_linear_in_the_number_of_operations() {
    for (payloads, ranges) in [(true, true), (false, true), (true, false)] {
        let many = super::many::Many::new(payloads, ranges);
        let begun = std::time::Instant::now();
        many.across();
        assert!(begun.elapsed().as_secs() < 60, "{payloads} {ranges}: {:?}", begun.elapsed());
    }
}

// The number of threads and the order of files change nothing.
#[test]
fn the_same_document_every_time() {
    let mut cluster = with_steps(4, 6);
    for i in 0..6 {
        let t = at(i) + 20 * MS;
        cluster.collective(&ALL_REDUCE, &[(0, t), (1, t + MS), (2, t), (3, t)], t + 3 * MS);
        for r in 0..4 {
            let calls = [
                ("ncclSend", p2p((r as i32 + 1) % 4, MIB, WORLD)),
                ("ncclRecv", p2p((r as i32 + 3) % 4, MIB, WORLD)),
            ];
            cluster.ranks[r].group(&calls, &[(SEND_RECV, 22, t + 10 * MS..t + 12 * MS)]);
        }
    }
    let folder = crate::support::folder();
    let mut paths = cluster.save(&folder);
    let document = |paths: &[std::path::PathBuf], threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        pool.install(|| serde_json::to_string(&crate::support::report(paths)).expect("a document"))
    };
    let one = document(&paths, 1);
    paths.reverse();
    for threads in [1, 2, 5] {
        assert!(document(&paths, threads) == one, "{threads} threads");
    }
}
