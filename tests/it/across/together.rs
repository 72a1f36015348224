//! Which ranks belong together where times are all that tells, and where they must not.

use nsysnccl::internals::report::CollectiveGroup;

use crate::support::cluster::{
    ALL_REDUCE, Cluster, Collective, MIB, MS, SECOND, US, codes, finding, group, rank, warning,
};
use crate::support::report::{Payload, Payloads, Report, Stream, thread};

const ALL_GATHER: &str =
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)";
const BROADCAST: &str =
    "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)";

/// From `-most` to `most`, another one for each rank and call.
fn jitter(rank: usize, call: i64, most: i64) -> i64 {
    let mixed = (rank as u64 * 1_000 + call as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33) as i64 % (2 * most + 1)
        - most
}

// Three ranks on three hosts, no payloads; rank 2 comes 5 ms late to each of 24 AllReduces, which over the network all leave
// within `scatter`. Its kernels are the shortest: 0.3 ms.
// ms       4          9  9.3
// rank 0   [AllReduce     ]
// rank 1   [AllReduce      ]
// rank 2              [  ]
#[test]
fn the_late_rank_is_of_its_communicator() {
    for scatter in [20 * US, 60 * US] {
        let mut cluster = Cluster::new(3);
        cluster.hosts(&["n0", "n1", "n2"]);
        for i in 0..6 {
            let at = SECOND + i * 50 * MS;
            cluster.step(&format!("step {i}"), at..at + 48 * MS);
            for (r, rank) in cluster.ranks.iter_mut().enumerate() {
                rank.report.payloads = Payloads::None;
                rank.compute(at + MS..at + 3 * MS);
                for j in 0..4 {
                    let start = at + (4 + 10 * j) * MS;
                    let arrival = start + if r == 2 { 5 * MS } else { 0 };
                    let leave = start + 5_300 * US + jitter(r, 4 * i + j, scatter);
                    rank.collective(&ALL_REDUCE, arrival..leave);
                }
            }
        }
        let report = cluster.finish();
        assert_eq!(codes(&report), ["no-payloads"], "{scatter}");
        let all = group(&report, "AllReduce", &[0, 1, 2]);
        assert_eq!((all.count, all.last_arriver[&2]), (24, 24), "{scatter}");
        let near = |found: i64, expected: i64| (found - expected).abs() <= scatter;
        assert!(all.transfer_ns.is_some_and(|ns| near(ns, 300 * US)), "{all:?}");
        assert!(near(all.wait_ns[&0], 5 * MS) && near(all.wait_ns[&1], 5 * MS), "{all:?}");
        let late = finding(&report, "straggler").expect("a straggler");
        assert_eq!(late.evidence["rank"].as_u64(), Some(2));
    }
}

// Eight ranks in two groups that leave as one each, to +-20 us, and up to 0.8 ms apart from each other, now one first and now
// the other. When they arrive explains nothing, and no clock does: two communicators. Rank 2 is late in its own.
// ranks 0-3  [AllReduce   )         [AllReduce)
// ranks 4-7  [AllReduce )           [AllReduce   )
#[test]
fn groups_that_each_leave_as_one_are_communicators() {
    let mut cluster = Cluster::new(8);
    cluster.hosts(&["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7"]);
    for i in 0..24 {
        let at = SECOND + i * 50 * MS;
        cluster.step(&format!("step {i}"), at..at + 48 * MS);
        for (r, rank) in cluster.ranks.iter_mut().enumerate() {
            rank.report.payloads = Payloads::None;
            rank.compute(at + MS..at + 3 * MS);
            let group = (r / 4) as i64;
            let arrival = at + 6 * MS + jitter(r, i, MS) + if r == 2 { 5 * MS } else { 0 };
            let leave = at + 20 * MS + i * (5 + 6 * group) % 9 * 100 * US;
            rank.collective(&ALL_REDUCE, arrival..leave + jitter(r + 8, i, 20 * US));
        }
    }
    let report = cluster.finish();
    assert_eq!(codes(&report), ["no-payloads"]);
    assert_eq!(group(&report, "AllReduce", &[0, 1, 2, 3]).last_arriver[&2], 24);
    assert_eq!(group(&report, "AllReduce", &[4, 5, 6, 7]).count, 24);
}

/// Four steps of four ranks without payloads: an AllGather of {0,1} and one of {2,3} that begins and ends `later`, each of
/// 50 us, with the second rank of each 10 us late; after an AllReduce of everyone, if there is one.
///
/// ```text
/// us         0    100  150                  300
/// ranks 0,1  gemm [AR]    [AG 200-250)
/// ranks 2,3  gemm [AR]              [AG 200-250 + later)
/// ```
fn two_pairs(later: i64, everyone: bool) -> Cluster {
    let mut cluster = Cluster::new(4);
    let gather = Collective { stream: 21, ..Collective::of("ncclAllGather", ALL_GATHER) };
    for i in 0..4 {
        let at = SECOND + i * 2 * MS;
        cluster.step(&format!("step {i}"), at - 900 * US..at + 900 * US);
        for (r, rank) in cluster.ranks.iter_mut().enumerate() {
            rank.report.payloads = Payloads::None;
            rank.compute(at..at + 50 * US);
            if everyone {
                rank.collective(&ALL_REDUCE, at + 100 * US..at + 150 * US);
            }
            let start = at + 200 * US + if r < 2 { 0 } else { later };
            let late = if r % 2 == 1 { 10 * US } else { 0 };
            rank.collective(&gather, start + late..start + 50 * US);
        }
    }
    cluster
}

// What everyone leaves together says how clocks stand: pairs that leave 200 us or 30 us apart are not one collective of four.
#[test]
fn pairs_that_leave_apart_are_two_communicators() {
    for later in [200 * US, 30 * US] {
        let mut cluster = two_pairs(later, true);
        cluster.hosts(&["h0", "h1", "h2", "h3"]);
        let report = cluster.finish();
        assert_eq!(codes(&report), ["no-payloads"]);
        for pair in [[0, 1], [2, 3]] {
            let own = group(&report, "AllGather", &pair);
            assert_eq!((own.count, own.transfer_ns), (4, Some(40 * US)), "{later}");
        }
        assert_eq!(group(&report, "AllReduce", &[0, 1, 2, 3]).count, 4);
        assert!(report.ranks.iter().all(|rank| rank.clock.offset_ns == Some(0)));
    }
}

// Nothing else tells: on one machine, whose clock they share, 200 us are apart; on machines whose clocks may be 200 us apart
// the same ends are those of one collective.
#[test]
fn one_machine_has_one_clock_to_leave_by() {
    let mut machine = two_pairs(200 * US, false);
    machine.hosts(&["node"; 4]);
    for rank in &mut machine.ranks {
        let pid = 1000 + rank.rank;
        (0..4).for_each(|gpu| rank.report.gpu_with_uuid(gpu, &format!("5a{gpu}"), pid, gpu));
    }
    let report = machine.finish();
    assert_eq!(group(&report, "AllGather", &[0, 1]).count, 4);
    assert_eq!(group(&report, "AllGather", &[2, 3]).count, 4);
    let mut apart = two_pairs(200 * US, false);
    apart.hosts(&["h0", "h0", "h1", "h1"]);
    let report = apart.finish();
    assert_eq!(group(&report, "AllGather", &[0, 1, 2, 3]).count, 4);
    assert_eq!(rank(&report, 3).clock.offset_ns, Some(-100 * US));
}

// Four ranks of one machine leave an AllReduce of 10 ms one after the other, 2 ms apart (they take turns on a GPU): no clock.
// The same on machines of their own, or on hosts that only have a name in common, is one.
// rank 0  [      )
// rank 1  [        )
// rank 2  [          )
// rank 3  [            )
#[test]
fn ranks_of_one_machine_are_not_corrected_by_milliseconds() {
    let run = |hosts: [&str; 4], uuid: fn(u32) -> String| {
        let mut cluster = Cluster::new(4);
        cluster.hosts(&hosts);
        for i in 0..8 {
            let at = SECOND + i * 100 * MS;
            cluster.step(&format!("step {i}"), at - 2 * MS..at + 60 * MS);
            for (r, rank) in cluster.ranks.iter_mut().enumerate() {
                rank.compute(at..at + 20 * MS);
                rank.collective(&ALL_REDUCE, at + 20 * MS..at + (30 + 2 * r as i64) * MS);
            }
        }
        for rank in &mut cluster.ranks {
            rank.report.gpu_with_uuid(0, &uuid(rank.rank), 1000 + rank.rank, 0);
        }
        cluster.finish()
    };
    let offsets = |report: &nsysnccl::internals::report::Report| -> Vec<i64> {
        report.ranks.iter().filter_map(|rank| rank.clock.offset_ns).collect()
    };
    let one = run(["vm"; 4], |_| "5a5a".to_owned());
    assert_eq!(offsets(&one), [0; 4]);
    assert_eq!(codes(&one), ["ranks-leave-apart"]);
    let message = warning(&one, "ranks-leave-apart");
    assert!(message.contains("ranks 0-3 are 6.00 ms apart"), "{message}");
    assert_eq!(group(&one, "AllReduce", &[0, 1, 2, 3]).leave_spread_p95_ns, Some(6 * MS));
    for many in [
        run(["localhost"; 4], |rank| format!("5a5{rank}")),
        run(["a", "b", "c", "d"], |_| "5a5a".to_owned()),
    ] {
        assert_eq!(offsets(&many), [3 * MS, MS, -MS, -3 * MS]);
        assert_eq!(codes(&many), ["clocks-apart"]);
    }
}

/// Twelve Broadcasts of rank 0, with payloads: those of rank 1 run 10 ms later, but for the last, which overlap. `missing` of
/// the first are not in rank 1's capture.
///
/// ```text
/// ms      0   0.1        1.1             11.0       11.5
/// root    [B0][B1] ... [B10]             [B11        ]
/// rank 1                     10.0  [B0][B1] ... [B10]   [B11 11.2-11.6)
/// ```
fn broadcasts(missing: i64, bytes: fn(i64) -> u64) -> nsysnccl::internals::report::Report {
    let mut cluster = Cluster::new(2);
    cluster.hosts(&["a", "a"]);
    let what = Collective::of("ncclBroadcast", BROADCAST);
    for k in 0..12 {
        let at = SECOND + k * 100 * US;
        let (root, other) = match k {
            11 => (
                SECOND + 11_000 * US..SECOND + 11_500 * US,
                SECOND + 11_200 * US..SECOND + 11_600 * US,
            ),
            _ => (at..at + 90 * US, at + 10 * MS..at + 10 * MS + 90 * US),
        };
        cluster.ranks[0].collective(&what.bytes(bytes(k)), root);
        if k >= missing {
            cluster.ranks[1].collective(&what.bytes(bytes(k)), other);
        }
    }
    cluster.finish_whole()
}

// A root's data lies in a buffer until the others come: the k-th call here is the k-th there, and only the pair that overlaps
// has a time (11.2 to 11.6 ms) and a bandwidth.
#[test]
fn broadcasts_are_paired_by_their_order() {
    let report = broadcasts(0, |k| if k == 11 { MIB } else { 4096 * (1 + k as u64 % 2) });
    assert_eq!(codes(&report), [""; 0]);
    let mut found: Vec<_> = report
        .collectives
        .iter()
        .map(|g| (g.bytes, g.count, g.untimed, g.transfer_ns, g.busbw_gbs.is_some()))
        .collect();
    found.sort();
    let expected = [
        (Some(4096), 6, 6, None, false),
        (Some(8192), 5, 5, None, false),
        (Some(MIB), 1, 0, Some(400 * US), true),
    ];
    assert_eq!(found, expected);
    // Decimal GB/s: 1,048,576 bytes in 0.4 ms.
    let large = report.collectives.iter().find(|g| g.bytes == Some(MIB)).expect("the group");
    assert!(large.busbw_gbs.is_some_and(|gbs| (gbs - 2.62144).abs() < 1e-9), "{large:?}");
}

// Rank 1's capture begins three Broadcasts later: sizes say where, and where all are alike nothing does.
#[test]
fn a_capture_that_begins_later_is_paired_where_sizes_fit() {
    let report = broadcasts(3, |k| 4096 * (1 + k as u64));
    let calls: u64 = report.collectives.iter().map(|g| g.count).sum();
    assert_eq!((calls, report.collectives.iter().all(|g| g.ranks == [0, 1])), (9, true));
    assert!(warning(&report, "collectives-unmatched").contains("3 on rank 0"));
    let report = broadcasts(3, |_| 4096);
    assert_eq!(report.collectives, []);
    assert!(warning(&report, "collectives-unmatched").contains("12 on rank 0, 9 on rank 1"));
}

// Rank 0 sends to rank 1 six times; the data waits in a buffer, so that no two kernels run at once, and rank 1's capture
// begins two sends later. Sizes say which is which.
// ms       0   0.1  0.2 ...             10.2  10.3 ...
// rank 0   [S0][S1] [S2] .. [S5]
// rank 1                                [R2 ] [R3 ] .. [R5]
#[test]
fn sends_are_paired_by_their_order() {
    let mut cluster = Cluster::new(2);
    cluster.hosts(&["a", "a"]);
    let kernel = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<(unsigned long)4096>)";
    let call = |function, peer, bytes| {
        let what = Collective::of(function, kernel).bytes(bytes);
        Collective { payload: Payload { peer: Some(peer), ..what.payload }, ..what }
    };
    for k in 0..6 {
        let at = SECOND + k * 100 * US;
        let bytes = 4096 * (1 + k as u64);
        cluster.ranks[0].collective(&call("ncclSend", 1, bytes), at..at + 90 * US);
        if k >= 2 {
            let at = at + 10 * MS;
            cluster.ranks[1].collective(&call("ncclRecv", 0, bytes), at..at + 90 * US);
        }
    }
    let report = cluster.finish_whole();
    let count = |of: fn(&CollectiveGroup) -> u64| report.collectives.iter().map(of).sum::<u64>();
    assert_eq!((count(|g| g.count), count(|g| g.untimed)), (4, 4));
    assert!(report.collectives.iter().all(|g| g.from_rank == Some(0) && g.busbw_gbs.is_none()));
    assert!(warning(&report, "collectives-unmatched").contains("2 on rank 0"));
}

// One thread calls AllReduce (1 MiB) for each of four devices between ncclGroupStart and ncclGroupEnd, which launches a kernel
// of 45 us on each: a device moves 1 MiB, not four. With two calls a device it moves twice as much.
#[test]
fn calls_of_one_thread_for_several_devices() {
    for (calls, bytes) in [(1, MIB), (2, 2 * MIB)] {
        let mut report = Report::default();
        let main = thread(70, 70);
        for d in 0..4 {
            let init = Payload { comm: 5, init: Some((4, d, d)), ..Payload::default() };
            report.nccl(main, "ncclCommInitRank", 1 + 3 * i64::from(d)..2 + 3 * i64::from(d), init);
        }
        let call = Payload { comm: 5, bytes: Some(MIB), redop: Some("Sum"), ..Payload::default() };
        for i in 0..4 {
            let at = MS + i * 2 * MS;
            report.range(main, &format!("step {i}"), at..at + 900 * US);
            report.nccl(main, "ncclGroupStart", at + 100..at + 101, Payload::default());
            for k in 0..4 * calls {
                let start = at + 110 + 10 * k;
                report.nccl(main, "ncclAllReduce", start..start + 5, call);
            }
            report.nccl(main, "ncclGroupEnd", at + 300..at + 500, Payload::default());
            for device in 0..4 {
                let on = Stream { device, context: device + 1, stream: 20 };
                let time = at + 1_105 * US..at + 1_150 * US;
                report.kernel(ALL_REDUCE.kernel, on, time, main.at(at + 310 + 10 * device));
            }
        }
        let folder = crate::support::folder();
        let report = crate::support::report(&[report.save(folder.path(), "g.sqlite")]);
        let all = group(&report, "AllReduce", &[0, 1, 2, 3]);
        assert_eq!((all.count, all.bytes, all.transfer_ns), (4, Some(bytes), Some(45 * US)));
        // 2 x 3/4 of the bytes in 45 us.
        let busbw = 1.5 * bytes as f64 / 45_000.0;
        assert!(all.busbw_gbs.is_some_and(|gbs| (gbs / busbw - 1.0).abs() < 1e-9), "{all:?}");
    }
}
