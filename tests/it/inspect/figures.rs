//! Times, bandwidths, waits, timeline and findings.

use nsysnccl::internals::inspect::{Filter, Inspected, budget};

use super::log::{Folder, Log, START, inspect_with, inspected, only};

/// Two ranks, AllReduce of 1 MB (busbw = 1 MB / time on two ranks):
///
/// ```text
/// number    0     1     2     3     4
/// rank 0  100   100   100   100   400 us
/// rank 1  100    50   100    95   100 us     rank 1 is last in 1 (50 us, half) and 4; in 3 it is 5 us: no clear order
/// ```
#[test]
fn times_bandwidths_and_waits_of_two_ranks() {
    let (mut zero, mut one) = (Log::new("0xa", 0, 2), Log::new("0xa", 1, 2));
    zero.all_reduce(1_000_000, [100, 100, 100, 100, 400]);
    one.all_reduce(1_000_000, [100, 50, 100, 95, 100]);
    let view = Folder::new(&[&zero, &one]).inspect();
    let op = only(&view);
    assert_eq!(
        (op.op.label(), op.bytes, op.count, op.total_time_us),
        ("AllReduce", Some(1_000_000), 10, 1245.0)
    );
    let time = op.exec_time_us.expect("times");
    // In order: 50 95 100 x7 400. Position of the 95th percentile: 8.55; of the 99th: 8.91.
    assert_eq!((time.p50, time.max), (100.0, 400.0));
    assert!(
        (time.p95 - (100.0 + 0.55 * 300.0)).abs() < 1e-9
            && (time.p99 - (100.0 + 0.91 * 300.0)).abs() < 1e-9
    );
    let busbw = op.busbw_gbs.expect("bandwidths");
    // 2.5, then 10 for 100 us; 10.526 and 20 GB/s at the top. Position of the 5th percentile: 0.45; of the 95th: 8.55.
    let fast = 1e6 / 95.0 / 1e3;
    assert!((busbw.median - 10.0).abs() < 1e-9);
    assert!((busbw.p5 - (2.5 + 0.45 * 7.5)).abs() < 1e-9, "{busbw:?}");
    assert!((busbw.p95 - (fast + 0.55 * (20.0 - fast))).abs() < 1e-9, "{busbw:?}");
    assert_eq!(op.algbw_gbs, op.busbw_gbs, "the factor of an AllReduce on two ranks is 1");
    assert_eq!(op.logged_busbw_gbs_mean, Some(1.0));
    assert_eq!((op.compared, op.transfer_us.map(|t| (t.p50, t.max))), (5, Some((100.0, 100.0))));
    assert_eq!(op.wait_us.map(|w| w.max), Some(300.0));
    let [zero, one] = [0, 1].map(|rank| &view.communicators[0].ranks[rank].waits);
    assert_eq!(
        (zero.ordered_count, zero.last_count, zero.last_expected, zero.wait_total_us),
        (2, 0, Some(1.0), Some(355.0))
    );
    assert_eq!((one.ordered_count, one.last_count, one.wait_total_us), (2, 2, Some(0.0)));
    assert_eq!((view.processes[1].pid, &view.processes[1].waits), (Some(101), one));
    assert_eq!((view.first_us, view.last_us), (Some(START), Some(START + 4000)));
}

#[test]
fn factors_follow_the_operation_and_classes_the_shape() {
    // 8 ranks on 2 nodes, 1 MB in 1000 us: S/t is 1 GB/s, of AllGather and ReduceScatter (S x 8) 8 GB/s.
    let cases = [
        ("AllReduce", 1.0, 1.75),
        ("AllGather", 8.0, 7.0),
        ("ReduceScatter", 8.0, 7.0),
        ("Broadcast", 1.0, 1.0),
        ("Reduce", 1.0, 1.0),
    ];
    for (op, algbw, busbw) in cases {
        let mut log = Log { nnodes: 2, ..Log::new("0xa", 3, 8) };
        log.coll(op, 0, "1000000", "1000", "0.5");
        let view = Folder::new(&[&log]).inspect();
        let got = only(&view);
        assert_eq!(
            (got.algbw_gbs.map(|b| b.median), got.busbw_gbs.map(|b| b.median)),
            (Some(algbw), Some(busbw)),
            "{op}"
        );
        assert_eq!(view.communicators[0].class, "mixed");
        assert_eq!(
            (view.communicators[0].ranks_missing.as_slice(), got.compared),
            (&[0, 1, 2, 4, 5, 6, 7][..], 0)
        );
        assert!(got.wait_us.is_none() && got.transfer_us.is_none(), "a wait needs all ranks");
    }
}

#[test]
fn sends_and_receives_have_no_waits_and_their_gaps_are_no_losses() {
    let mut log = Log::new("0xa", 0, 2);
    for sn in [4, 3, 9, 8] {
        let p2p = if sn % 2 == 0 { "Recv" } else { "Send" };
        log.record(&format!(
            r#""p2p_perf":{{"p2p":"{p2p}","p2p_sn":{sn},"p2p_peer":1,"p2p_msg_size_bytes":2000000,"p2p_exec_time_us":1000,"p2p_timing_source":"kernel_cpu","p2p_algobw_gbs":2.0,"p2p_busbw_gbs":2.0}}"#
        ));
    }
    let view = Folder::new(&[&log]).inspect();
    let ops = &view.communicators[0].ops;
    assert_eq!(
        ops.iter().map(|op| (op.op.label(), op.count)).collect::<Vec<_>>(),
        [("Recv", 2), ("Send", 2)]
    );
    assert_eq!((ops[0].busbw_gbs.map(|b| b.median), ops[0].compared), (Some(2.0), 0));
    assert_eq!(view.communicators[0].missing_operations, 0);
    assert_eq!(ops[0].timing_sources.get("kernel_cpu"), Some(&2));
}

#[test]
fn many_sizes_are_counted_in_ranges() {
    let mut log = Log::new("0xa", 0, 2);
    for sn in 0..400_u64 {
        log.coll("AllReduce", sn, &(1024 + sn * 5).to_string(), "10", "0.1");
    }
    let view = Folder::new(&[&log]).inspect();
    let ops = &view.communicators[0].ops;
    // 1024 + 5 n reaches 2048 at n = 205.
    let ranges: Vec<_> = ops.iter().map(|op| (op.bytes, op.bytes_range, op.count)).collect();
    assert_eq!(ranges, [(None, Some([1024, 2048]), 205), (None, Some([2048, 4096]), 195)]);
    // Times of 10 us: the bandwidths are those of the single sizes, 0.1024 to 0.2044 GB/s.
    let low = ops[0].busbw_gbs.expect("bandwidths");
    assert!((low.median - (1024.0 + 102.0 * 5.0) / 1e4).abs() < 1e-9, "{low:?}");
}

#[test]
fn a_sample_is_the_same_on_all_ranks_and_distributions_rest_on_everything() {
    let times = |rank: u64| (0..5000_u64).map(move |sn| 100 + (sn * 7 + rank * 3) % 50);
    let (mut zero, mut one) = (Log::new("0xa", 0, 2), Log::new("0xa", 1, 2));
    zero.all_reduce(1_000_000, times(0));
    one.all_reduce(1_000_000, times(1));
    let folder = Folder::new(&[&zero, &one]);
    let paths = [folder.path().to_owned()];
    let whole = inspect_with(&paths, &Filter::default(), 10_000);
    let Inspected { view: thin, seen, .. } = inspected(&paths, &Filter::default(), 1000);
    assert_eq!((whole.compared_one_in, thin.compared_one_in), (1, 8));
    let (a, b) = (only(&whole), only(&thin));
    assert_eq!((a.count, a.exec_time_us, a.busbw_gbs), (b.count, b.exec_time_us, b.busbw_gbs));
    assert_eq!(a.compared, 5000);
    // Every operation of the sample has both ranks, and about an eighth of all is there.
    assert!((500..=1000).contains(&b.compared), "{}", b.compared);
    assert_eq!(seen.iter().filter(|o| o.is_complete()).count() as u64, b.compared);
    let (a, b) = (a.wait_us.expect("waits"), b.wait_us.expect("waits"));
    assert!((a.p95 - b.p95).abs() <= 5.0, "{a:?} {b:?}");
    assert!(thin.warnings.iter().any(|w| w.code.as_str() == "sampled"));
}

#[test]
fn a_slow_rank_a_slow_communicator_and_a_slow_stretch_are_found() {
    // Rank 2 of four always arrives last: the others wait 100 us. Operations 100 to 119 take twice as long.
    let mut logs: Vec<Log> = (0..4).map(|rank| Log::new("0xa", rank, 4)).collect();
    for log in &mut logs {
        let late = if log.rank == 2 { 0 } else { 100 };
        log.all_reduce(
            1_000_000,
            (0..200).map(|sn| late + if (100..120).contains(&sn) { 400 } else { 200 }),
        );
    }
    // Three pairs of ranks on their own communicators, of which one runs at half the speed.
    for (comm, time, pid) in [("0xb1", 100, 1), ("0xb2", 104, 2), ("0xb3", 200, 3)] {
        for rank in 0..2 {
            let mut log = Log { pid: pid * 1000 + rank, host: "h1", ..Log::new(comm, rank, 2) };
            log.coll("AllGather", 0, "1", "1", "1.0").all_reduce(2_000_000, (0..20).map(|_| time));
            logs.push(log);
        }
    }
    let view = Folder::new(&logs.iter().collect::<Vec<_>>()).inspect();
    let ids: Vec<&str> = view.findings.iter().map(|f| f.id.as_str()).collect();
    assert_eq!(ids, ["slow-rank", "slow-communicator", "slow-stretch"]);
    let [rank, comm, stretch] = [0, 1, 2].map(|i| &view.findings[i].evidence);
    assert_eq!(
        (&rank["pid"], &rank["last_count"], &rank["last_expected"]),
        (&102.into(), &200.into(), &50.0.into())
    );
    assert_eq!(
        (comm["comm_id"].as_str(), comm["transfer_busbw_gbs"].as_f64()),
        (Some("0xb3"), Some(10.0))
    );
    // Records are written every millisecond: 100 to 119 ms.
    let seconds = |name: &str| stretch[name].as_i64().expect("a time") - START;
    assert!(
        (98_000..=100_000).contains(&seconds("start_us"))
            && (119_000..=124_000).contains(&seconds("end_us")),
        "{stretch:?}"
    );
}

/// Findings of logs, by id.
fn found(logs: &[Log]) -> Vec<String> {
    let view = Folder::new(&logs.iter().collect::<Vec<_>>()).inspect();
    view.findings.iter().map(|f| f.id.as_str().to_owned()).collect()
}

// Of four ranks each is last in 50 of 200 by chance. A quarter of the other 150 more is 87.5; four deviations more are 74.5.
#[test]
fn a_rank_is_slow_from_its_threshold_on() {
    let of = |often: u64| {
        let last = |sn: u64| if sn < often { 2 } else { [0, 1, 3][sn as usize % 3] };
        let mut logs: Vec<Log> = (0..4).map(|rank| Log::new("0xa", rank, 4)).collect();
        for log in &mut logs {
            let rank = log.rank;
            let time = |sn| if last(sn) == rank { 200 } else { 300 };
            log.all_reduce(1_000_000, (0..200).map(time));
        }
        found(&logs)
    };
    assert_eq!(of(88), ["slow-rank"]);
    assert_eq!(of(87), [""; 0]);
    assert_eq!(of(50), [""; 0]);
}

// Others of its kind take 100 us: below 80 % of their speed is more than 125 us, in ten operations or more.
#[test]
fn a_communicator_is_slow_from_its_threshold_on() {
    let of = |time: u64, operations: usize| {
        let mut logs = Vec::new();
        for (comm, time, pid) in [("0xb1", 100, 1), ("0xb2", 100, 2), ("0xb3", time, 3)] {
            for rank in 0..2 {
                let mut log = Log { pid: pid * 1000 + rank, host: "h1", ..Log::new(comm, rank, 2) };
                log.all_reduce(2_000_000, (0..operations).map(|_| time));
                logs.push(log);
            }
        }
        found(&logs)
    };
    assert_eq!(of(126, 10), ["slow-communicator"]);
    assert_eq!(of(124, 10), [""; 0]);
    assert_eq!(of(126, 9), [""; 0]);
    assert_eq!(of(100, 10), [""; 0]);
}

// Operations 100 to 119 of 200 take longer than the usual 200 us: 80 % of the usual speed is 250 us.
#[test]
fn a_stretch_is_slow_from_its_threshold_on() {
    let of = |slow: u64| {
        let mut logs: Vec<Log> = (0..2).map(|rank| Log::new("0xa", rank, 2)).collect();
        for log in &mut logs {
            let time = |sn| if (100..120).contains(&sn) { slow } else { 200 };
            log.all_reduce(1_000_000, (0..200).map(time));
        }
        found(&logs)
    };
    assert_eq!(of(256), ["slow-stretch"]);
    assert_eq!(of(246), [""; 0]);
    assert_eq!(of(200), [""; 0]);
}

#[test]
fn an_even_run_has_no_findings() {
    let mut logs: Vec<Log> = (0..2).map(|rank| Log::new("0xa", rank, 2)).collect();
    for log in &mut logs {
        // Who is last alternates.
        let late = u64::from(log.rank);
        log.all_reduce(
            1_000_000,
            (0..200_u64).map(|sn| 200 + if (sn + late).is_multiple_of(2) { 40 } else { 0 }),
        );
    }
    assert_eq!(Folder::new(&logs.iter().collect::<Vec<_>>()).inspect().findings, []);
}

#[test]
fn filters_choose_by_time_communicator_and_operation() {
    let mut log = Log::new("0xa", 0, 2);
    log.all_reduce(64, [1, 2, 3]);
    log.coll("AllGather", 0, "64", "9", "1.0");
    let mut other = Log { name: "tp", pid: 200, ..Log::new("0xb", 0, 2) };
    other.all_reduce(64, [7]);
    let folder = Folder::new(&[&log, &other]);
    let count = |filter: Filter| {
        let view = inspect_with(&[folder.path().to_owned()], &filter, budget(2));
        (view.operations, view.filtered_operations, view.communicators.len())
    };
    assert_eq!(count(Filter::default()), (5, 0, 2));
    assert_eq!(
        count(Filter {
            since_us: Some(START + 1000),
            until_us: Some(START + 3000),
            ..Filter::default()
        }),
        (2, 3, 2)
    );
    assert_eq!(count(Filter { comm: Some("tp".into()), ..Filter::default() }), (1, 4, 1));
    assert_eq!(
        count(Filter {
            op: nsysnccl::internals::model::CommOp::parse("allgather"),
            ..Filter::default()
        }),
        (1, 4, 2)
    );
}
