//! Which operations are the same collective.

use crate::run::{Plan, US, report};
use crate::support::report::{Launch, Payload, Payloads, Report, stream, thread};
use crate::support::scenes::{ALL_REDUCE, GEMM};
use nsysnccl::report::Report as Finished;

const SEND_RECV: &str = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<(unsigned long)4096>)";
const ALL_GATHER: &str = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)";

fn finish(reports: &[Report]) -> Finished {
    let folder = crate::support::folder();
    let paths: Vec<_> = reports.iter().enumerate().map(|(r, report)| report.save(folder.path(), &format!("r_{r}.sqlite"))).collect();
    crate::support::report(&paths)
}

/// A rank with one step from 100 to 900 us, to which operations are added.
fn one_step(rank: u32, world: u32) -> Report {
    let mut report = Report::default();
    report.payloads = Payloads::Json;
    let main = thread(500 + rank, 500 + rank);
    report.env("RANK", &rank.to_string());
    report.env("WORLD_SIZE", &world.to_string());
    report.session(crate::run::EPOCH);
    report.range(main, "step 1", 1..90 * US);
    report.kernel(GEMM, stream(7), 100 * US..900 * US, main.at(10));
    report
}

/// The `i`-th call of a rank and the kernel that it launches.
fn operation(report: &mut Report, rank: u32, i: i64, call: &str, kernel: &str, time: std::ops::Range<i64>, payload: Payload) {
    let main = thread(500 + rank, 500 + rank);
    let at = 1_000 + 100 * i;
    report.nccl(main, call, at..at + 50, payload);
    let launch: Launch = main.at(at + 10);
    report.kernel(kernel, stream(20), time, launch);
}

fn sized(comm: u64, bytes: u64) -> Payload {
    Payload { comm, bytes: Some(bytes), ..Payload::default() }
}

/// Four ranks: tensor-parallel pairs (0,1) and (2,3), data-parallel pairs (0,2) and (1,3). Each pair has its own communicator,
/// and each AllReduce is matched inside its pair only, with n = 2: busbw = S / transfer.
///
/// ```text
/// rank 0  TP01 100-150   DP02 200-260
/// rank 1  TP01 110-150   DP13 200-300
/// rank 2  TP23 100-170   DP02 220-260
/// rank 3  TP23 120-170   DP13 240-300
/// ```
#[test]
fn sub_communicators_are_matched_inside_themselves() {
    let tp = [0x11, 0x11, 0x22, 0x22];
    let dp = [0x33, 0x44, 0x33, 0x44];
    let tp_time = [100..150, 110..150, 100..170, 120..170];
    let dp_time = [200..260, 200..300, 220..260, 240..300];
    let us = |time: &std::ops::Range<i64>| time.start * US..time.end * US;
    let reports: Vec<Report> = (0..4u32)
        .map(|rank| {
            let (mut report, r) = (one_step(rank, 4), rank as usize);
            operation(&mut report, rank, 0, "ncclAllReduce", ALL_REDUCE, us(&tp_time[r]), sized(tp[r], 4_000_000));
            operation(&mut report, rank, 1, "ncclAllReduce", ALL_REDUCE, us(&dp_time[r]), sized(dp[r], 8_000_000));
            report
        })
        .collect();
    let found = finish(&reports);
    let group = |comm: u64| {
        let id = format!("0x{comm:016x}");
        let group = found.collectives.iter().find(|c| c.comm_id.as_deref() == Some(&id)).expect("a group");
        (group.ranks.clone(), group.transfer_ns, group.busbw_gbs, group.last_arriver.keys().copied().collect::<Vec<u32>>())
    };
    assert_eq!(group(0x11), (vec![0, 1], Some(40 * US), Some(100.0), vec![1]));
    assert_eq!(group(0x22), (vec![2, 3], Some(50 * US), Some(80.0), vec![3]));
    assert_eq!(group(0x33), (vec![0, 2], Some(40 * US), Some(200.0), vec![2]));
    assert_eq!(group(0x44), (vec![1, 3], Some(60 * US), Some(8_000_000.0 / 60_000.0), vec![3]));
    assert!(!found.warnings.iter().any(|w| w.code == "collectives-unmatched"), "{:?}", found.warnings);
}

/// A pipeline of three ranks: 0 sends to 1, 1 receives and sends to 2, 2 receives. Pairs are matched, not positions:
/// rank 1's first operation is a receive from 0, its second a send to 2.
///
/// ```text
/// rank 0  send 1   100-160
/// rank 1  recv 0   120-160   send 2   200-280
/// rank 2                     recv 1   190-280       transfer = latest end - latest start: 40 us, 80 us
/// ```
#[test]
fn sends_and_receives_are_matched_by_pair() {
    let p2p = |peer: i32| Payload { peer: Some(peer), ..sized(0x77, 1_000_000) };
    let mut reports: Vec<Report> = (0..3).map(|rank| one_step(rank, 3)).collect();
    operation(&mut reports[0], 0, 0, "ncclSend", SEND_RECV, 100 * US..160 * US, p2p(1));
    operation(&mut reports[1], 1, 0, "ncclRecv", SEND_RECV, 120 * US..160 * US, p2p(0));
    operation(&mut reports[1], 1, 1, "ncclSend", SEND_RECV, 200 * US..280 * US, p2p(2));
    operation(&mut reports[2], 2, 0, "ncclRecv", SEND_RECV, 190 * US..280 * US, p2p(1));
    let found = finish(&reports);
    let mut pairs: Vec<(Vec<u32>, Option<i64>)> = found.collectives.iter().map(|c| (c.ranks.clone(), c.transfer_ns)).collect();
    pairs.sort();
    assert_eq!(pairs, [(vec![0, 1], Some(40 * US)), (vec![1, 2], Some(80 * US))]);
    assert!(found.collectives.iter().all(|c| c.last_arriver.is_empty()), "durations of sends say nothing about the order");
}

/// Two ranks whose AllReduce of 3 MB and `second` of 1 MB are grouped and run in one kernel of 40 us.
fn fused(second: &str) -> Finished {
    let reports: Vec<Report> = (0..2u32)
        .map(|rank| {
            let mut report = one_step(rank, 2);
            let main = thread(500 + rank, 500 + rank);
            report.nccl(main, "ncclGroupStart", 1_000..1_010, Payload::default());
            report.nccl(main, "ncclAllReduce", 1_020..1_030, sized(0x55, 3_000_000));
            report.nccl(main, second, 1_040..1_050, sized(0x55, 1_000_000));
            report.nccl(main, "ncclGroupEnd", 1_060..1_100, Payload::default());
            report.kernel(ALL_REDUCE, stream(20), 100 * US..140 * US, main.at(1_080));
            report
        })
        .collect();
    finish(&reports)
}

/// A kernel of two AllReduces of one communicator carries the bytes of both; one of different operations is no AllReduce
/// although its name says so, and has no bandwidth.
#[test]
fn a_fused_kernel_carries_the_bytes_of_its_members() {
    let same = fused("ncclAllReduce");
    assert_eq!((same.collectives.len(), same.collectives[0].bytes, same.collectives[0].busbw_gbs), (1, Some(4_000_000), Some(100.0)));
    let different = fused("ncclBroadcast");
    assert_eq!((different.collectives[0].op.as_str(), different.collectives[0].busbw_gbs), ("Other", None));
}

/// Advanced tracing (`nsys -t nccl`): ranges of the NCCL domain without the `nccl` prefix, some with GPU times and a key that is equal
/// on all ranks. The key matches even where ranks run two operations in different order; a range on the GPU's time line that is
/// open while something else is launched does not claim it.
///
/// ```text
/// rank 0  stream 20  A 100-150 (key 7)   B 200-260 (key 8)
/// rank 1  stream 20  B 210-260 (key 8)   A 300-340 (key 7)      transfer of A 40 us, of B 50 us
/// ```
#[test]
fn advanced_tracing_matches_by_operation() {
    use rusqlite::types::Value;
    let mut reports = [one_step(0, 2), one_step(1, 2)];
    let runs = [[(7i64, 100, 150), (8, 200, 260)], [(8, 210, 260), (7, 300, 340)]];
    for (rank, report) in reports.iter_mut().enumerate() {
        let main = thread(500 + rank as u32, 500 + rank as u32);
        let range = |report: &mut Report, text: &str, time: std::ops::Range<i64>, json: String| {
            let common = [("globalTid", main.global().into()), ("domainId", Value::Integer(1))];
            let own =
                [("eventType", 59.into()), ("start", time.start.into()), ("end", time.end.into()), ("text", Value::Text(text.into()))];
            report.row("NVTX_EVENTS", &[&common[..], &own[..], &[("jsonText", Value::Text(json))]].concat());
        };
        let domain = [("eventType", 75.into()), ("start", (-5).into()), ("text", Value::Text("NCCL".into()))];
        report.row("NVTX_EVENTS", &[&domain[..], &[("globalTid", main.global().into()), ("domainId", 1.into())]].concat());
        for (i, (key, start, end)) in runs[rank].into_iter().enumerate() {
            let at = 1_000 + 1_000 * i as i64;
            range(report, "AllReduce", at..at + 500, r#"{"count":1000,"dataType":"ncclFloat32","rank":0}"#.to_owned());
            range(report, "KernelLaunch", at + 100..at + 200, "{}".to_owned());
            report.kernel(ALL_REDUCE, stream(20), start * US..end * US, main.at(at + 150));
            let json = format!(
                r#"{{"operationId":{key},"operationClass":"collective","commHash":85,"seqNumber":{key},"count":1000,"dataType":"ncclFloat32"}}"#
            );
            range(report, "AllReduce", start * US + 1..end * US - 1, json);
        }
    }
    let found = finish(&reports);
    assert_eq!(found.collectives.len(), 1, "{:?}", found.collectives);
    let group = &found.collectives[0];
    assert_eq!(
        (group.op.as_str(), group.comm_id.as_deref(), group.bytes, group.count),
        ("AllReduce", Some("0x0000000000000055"), Some(4000), 2)
    );
    // The median of 40 and 50 us, and the key as the reason.
    assert_eq!((group.transfer_ns, group.matched_by.as_str()), (Some(45 * US), "operation id"));
    assert!(found.ranks.iter().all(|rank| rank.steps[0].values.int(nsysnccl::model::Metric::CommCount) == Some(2)));
}

/// Rank 1 lacks the second of three AllReduces. What runs at the same time is matched, the rest is named by rank.
///
/// ```text
/// rank 0  AR 100-150  AR 200-250  AR 300-350
/// rank 1  AR 110-150              AR 310-350
/// ```
#[test]
fn unequal_counts_are_named_by_rank() {
    let mut reports = [one_step(0, 2), one_step(1, 2)];
    for (i, start) in [(0, 100), (1, 200), (2, 300)] {
        operation(&mut reports[0], 0, i, "ncclAllReduce", ALL_REDUCE, start * US..(start + 50) * US, sized(0x55, 1000));
    }
    for (i, start) in [(0, 110), (1, 310)] {
        operation(&mut reports[1], 1, i, "ncclAllReduce", ALL_REDUCE, start * US..(start + 40) * US, sized(0x55, 1000));
    }
    let found = finish(&reports);
    assert_eq!((found.collectives[0].count, found.collectives[0].transfer_ns), (2, Some(40 * US)));
    let named: Vec<&str> = found.warnings.iter().filter(|w| w.code == "collectives-unmatched").map(|w| w.message.as_str()).collect();
    assert_eq!(named, ["Rank 0: 1 communication operations have no partner: counts differ between ranks."]);
}

/// Without payloads only the order on the stream is left, and only if kernel names agree.
#[test]
fn without_payloads_names_have_to_agree() {
    let build = |second: &str| {
        let mut reports = [one_step(0, 2), one_step(1, 2)];
        for (rank, report) in reports.iter_mut().enumerate() {
            let main = thread(500 + rank as u32, 500 + rank as u32);
            report.kernel(ALL_REDUCE, stream(20), 100 * US..150 * US, main.at(20));
            report.kernel(if rank == 1 { second } else { ALL_REDUCE }, stream(20), 200 * US..250 * US, main.at(30));
        }
        finish(&reports)
    };
    let same = build(ALL_REDUCE);
    assert_eq!((same.collectives[0].count, same.collectives[0].busbw_gbs), (2, None));
    assert_eq!(same.collectives[0].matched_by, "stream order and kernel name");
    let other = build(ALL_GATHER);
    assert!(other.collectives.is_empty());
    assert!(other.warnings.iter().any(|w| w.message.contains("kernel names differ between ranks")), "{:?}", other.warnings);
}

/// Two of eight ranks: their common AllReduces are matched, but how many others wait elsewhere is unknown: no bandwidth.
#[test]
fn two_of_eight_ranks_have_waits_but_no_bandwidth() {
    let found = report(&[Plan::new(2, 8), Plan::new(5, 8)]);
    assert_eq!((found.collectives[0].ranks.clone(), found.collectives[0].count, found.collectives[0].busbw_gbs), (vec![2, 5], 10, None));
    let missing = found.warnings.iter().find(|w| w.code == "ranks-missing").expect("a warning");
    assert!(missing.message.contains("0, 1, 3, 4, 6, 7"), "{}", missing.message);
}

/// Buffered sends: the kernels of both ranks do not run at the same time, so the time of the transfer is not known.
#[test]
fn a_broadcast_that_the_root_left_early_has_no_transfer_time() {
    let mut reports = [one_step(0, 2), one_step(1, 2)];
    let root = Payload { root: Some(0), ..sized(0x55, 16 << 20) };
    let kernel = "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)";
    operation(&mut reports[0], 0, 0, "ncclBroadcast", kernel, 100 * US..130 * US, root);
    operation(&mut reports[1], 1, 0, "ncclBroadcast", kernel, 140 * US..190 * US, root);
    let found = finish(&reports);
    let group = &found.collectives[0];
    assert_eq!((group.op.as_str(), group.count, group.transfer_ns, group.busbw_gbs, group.untimed), ("Broadcast", 1, None, None, 1));
}

/// 64 ranks of 5,000 collectives: linear, well under 2 s in a release build. Runs in debug too, with a wider limit.
#[test]
fn matching_is_linear_in_the_number_of_operations() {
    use nsysnccl::collectives::analyse::across;
    use nsysnccl::collectives::events::events;
    use nsysnccl::model::{CallKind, Class, CommOp, Names, NcclCall, Ops, RankSource, RankTrace, Span};
    use nsysnccl::steps::Step;
    let (ranks, collectives) = (64u32, 5_000i64);
    let mut names = Names::default();
    let kernel = names.intern("ncclDevKernel_AllReduce_Sum_f32_RING_LL");
    let names = std::sync::Arc::new(names);
    let trace = |rank: u32| {
        let mut ops = Ops::default();
        let mut calls = Vec::new();
        for i in 0..collectives {
            let (start, late) = (1_000_000 + i * 1000, i64::from(rank) * 3);
            ops.start.push(start + late);
            ops.end.push(start + 800);
            ops.class.push(Class::Comm);
            ops.name.push(kernel);
            ops.stream.push(0);
            ops.bytes.push(0);
            ops.launch.push(start - 500_000);
            ops.call.push(i as u32);
            calls.push(NcclCall {
                start: start - 500_010,
                end: start - 499_990,
                thread: 1,
                kind: CallKind::Plain,
                op: Some(CommOp::AllReduce),
                comm: Some(7),
                bytes: Some(1024),
                redop: None,
                root: None,
                peer: None,
                seq: None,
                operation: None,
            });
        }
        RankTrace {
            rank,
            rank_source: RankSource::Order,
            world_size: Some(ranks),
            input: rank as usize,
            report: format!("r_{rank}"),
            pid: rank,
            device: 0,
            gpu: None,
            gpu_uuid: None,
            hostname: None,
            epoch_ns: Some(0),
            ops,
            ranges: Vec::new(),
            nccl: calls,
            gpu_operations: Vec::new(),
            comm_inits: Vec::new(),
            has_payloads: true,
            names: names.clone(),
            families: Default::default(),
        }
    };
    let traces: Vec<RankTrace> = (0..ranks).map(trace).collect();
    // 100 steps of 50 collectives.
    let steps: Vec<Step> = (0..100)
        .map(|s| Step {
            name: format!("step {s}"),
            occurrence: 0,
            range: Some(Span::new(500_000 + s * 50_000, 550_000 + s * 50_000)),
            window: Ok(Span::new(1_000_000 + s * 50_000, 1_050_000 + s * 50_000)),
        })
        .collect();
    let keys: Vec<Vec<_>> = (0..ranks).map(|_| steps.iter().map(|s| (s.name.clone(), 0)).collect()).collect();
    let begun = std::time::Instant::now();
    let lists: Vec<_> = traces.iter().map(events).collect();
    let found = across(&traces, &lists, &vec![steps.clone(); ranks as usize], &keys);
    let took = begun.elapsed();
    assert_eq!(found.measured.len(), collectives as usize);
    assert!(found.measured.iter().all(|m| m.found.members.len() == ranks as usize && m.timing.last == Some(63)));
    let limit = if cfg!(debug_assertions) { 20.0 } else { 2.0 };
    assert!(took.as_secs_f64() < limit, "{took:?}");
}
