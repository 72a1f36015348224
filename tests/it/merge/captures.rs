//! Captures that were made with Inspector on: what is known of them must come out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nsysnccl::internals::merge::view::{CommTrust, InspectorMerge};
use nsysnccl::internals::report::Report;
use nsysnccl::internals::run::Options;
use rusqlite::Connection;
use serde_json::Value;

use crate::support::captures;

fn reports(data: &Path, run: &str) -> Vec<PathBuf> {
    (0..2).map(|rank| data.join(format!("{run}_{rank}.sqlite"))).collect()
}

fn of(data: &Path, run: &str) -> Report {
    let options =
        Options { inspector: vec![data.join(format!("{run}_inspector"))], ..Options::default() };
    crate::support::build_with(&reports(data, run), &options).expect("a report").report
}

fn merged(data: &Path, run: &str) -> InspectorMerge {
    let merge = of(data, run).inspector.expect("logs");
    super::scene::add_up(&merge);
    merge
}

/// (rank, kernels, paired) of each rank.
fn coverage(merge: &InspectorMerge) -> Vec<(u32, u64, u64)> {
    merge.ranks.iter().map(|rank| (rank.rank, rank.kernels, rank.paired)).collect()
}

/// The numbers of a rank's pairs, in order of time.
fn numbers(merge: &InspectorMerge, rank: u32, op: &str, comm: &str) -> Vec<u64> {
    let own = merge
        .pairs
        .iter()
        .filter(|pair| pair.rank == rank && pair.op.label() == op && pair.comm_id == comm);
    own.map(|pair| pair.sn.expect("a number")).collect()
}

fn has_warning(report: &Report, code: &str, words: &[&str]) -> bool {
    report
        .warnings
        .iter()
        .any(|w| w.code.as_str() == code && words.iter().all(|word| w.message.contains(word)))
}

fn trust<'m>(merge: &'m InspectorMerge, comm: &str) -> &'m CommTrust {
    merge.trust.iter().find(|t| t.comm_id == comm).expect("a communicator with pairs")
}

#[test]
fn ten_kernels_over_shared_memory() {
    let Some(data) = captures() else { return };
    let report = of(&data, "shm/shm-2gpu");
    let merge = report.inspector.as_ref().expect("logs");
    assert_eq!(coverage(merge), [(0, 5, 5), (1, 5, 5)]);
    for rank in [0, 1] {
        assert_eq!(numbers(merge, rank, "AllReduce", "0xfa012817699a0b"), [5, 6, 7, 8, 9]);
    }
    assert!(
        merge.duration_delta_us.is_some_and(|delta| delta.max <= 10.0),
        "{:?}",
        merge.duration_delta_us
    );
    assert!(
        merge
            .ranks
            .iter()
            .all(|r| (r.records, r.records_in_capture, r.unmatched_records) == (20, 5, 0))
    );
    assert!(merge.unmatched.is_empty() && merge.unmatched_records.is_empty());
    // The trace has no payloads: sizes, and so bandwidths, are those of the records.
    let [group] = report.collectives.as_slice() else { panic!("{:?}", report.collectives) };
    assert_eq!(
        (group.bytes, group.bytes_source.map(|source| source.label())),
        (Some(1_226_141_600), Some("inspector"))
    );
    assert!((group.busbw_gbs.expect("known") - 27.0).abs() < 0.5, "{:?}", group.busbw_gbs);
    // Operations 5 to 9 of 0 to 10, and like the others.
    let [captured] = merge.captured.as_slice() else { panic!("{:?}", merge.captured) };
    assert_eq!(
        (captured.first_sn, captured.last_sn, captured.first_logged_sn, captured.last_logged_sn),
        (5, 9, 0, 10)
    );
    assert_eq!(
        (merge.typical[0].captured, merge.typical[0].rest, merge.typical[0].verdict.as_deref()),
        (5, 6, Some("typical"))
    );
}

#[test]
fn a_log_that_was_never_written() {
    let Some(data) = captures() else { return };
    let report = of(&data, "nvlink-truth/ddp-2gpu");
    let merge = report.inspector.as_ref().expect("logs");
    assert_eq!(
        (merge.missing_ranks.as_slice(), coverage(merge)),
        (&[0][..], vec![(0, 5, 0), (1, 5, 5)])
    );
    assert!(has_warning(&report, "inspector-rank-missing", &["rank 0 (process 748 on vm)"]));
    assert_eq!(
        merge.unmatched.iter().map(|(why, n)| (why.as_str(), *n)).collect::<Vec<_>>(),
        [("no log of this process", 5)]
    );
}

#[test]
fn the_verbose_log_of_one_rank() {
    let Some(data) = captures() else { return };
    let merge = merged(&data, "nvlink/ddp-2gpu-bucket100");
    assert_eq!(
        (merge.missing_ranks.as_slice(), coverage(&merge)),
        (&[1][..], vec![(0, 33, 33), (1, 33, 0)])
    );
    // Eleven buckets a step, three steps, without a gap.
    assert_eq!(numbers(&merge, 0, "AllReduce", "0xcde69c3ed23bae"), (36..69).collect::<Vec<_>>());
    assert!(
        merge.duration_delta_us.is_some_and(|delta| delta.max < 11.2),
        "{:?}",
        merge.duration_delta_us
    );
    assert!(
        merge.channel_imbalance.is_some_and(|c| c.channels == 24 && c.max_over_mean_p50 < 1.1),
        "{:?}",
        merge.channel_imbalance
    );
}

/// NCCL wants the same size of every rank, so the log of one says it for both: the eleven buckets of a step are the gradients, to the byte.
#[test]
fn the_log_of_one_rank_tells_the_size_of_a_collective() {
    let Some(data) = captures() else { return };
    let report = of(&data, "nvlink/ddp-2gpu-bucket100");
    let bytes: u64 =
        report.collectives.iter().map(|group| group.count * group.bytes.expect("a size")).sum();
    assert_eq!(
        (bytes, report.collectives.iter().map(|group| group.count).sum::<u64>()),
        (3 * 1_226_141_600, 33)
    );
    // Two ranks over NVLink of 450 GB/s: busbw is bytes over transfer.
    for group in &report.collectives {
        let busbw = group.busbw_gbs.expect("a bandwidth");
        assert!(
            (200.0..450.0).contains(&busbw)
                && group.bytes_source.map(|source| source.label()) == Some("inspector"),
            "{group:?}"
        );
    }
}

#[test]
fn every_kernel_has_its_record() {
    let Some(data) = captures() else { return };
    for (run, kernels, most_us) in [
        ("nvlink/ddp-2gpu", 3, 5.0),
        ("repeats/ddp-run1", 20, 5.0),
        ("repeats/ddp-run2", 20, 5.0),
        ("socket/socket-2node", 4, 5.0),
        ("shm/shm-2gpu-powersgd-active", 30, 6.0),
        ("tensor-parallel/tp-2gpu", 108, 42.0),
    ] {
        let merge = merged(&data, run);
        assert_eq!(coverage(&merge), [(0, kernels, kernels), (1, kernels, kernels)], "{run}");
        assert!(
            merge
                .ranks
                .iter()
                .all(|r| r.records_in_capture == kernels && r.clock_shift_us.is_none()),
            "{run}: {:?}",
            merge.ranks
        );
        assert!(
            merge.duration_delta_us.is_some_and(|delta| delta.max < most_us),
            "{run}: {:?}",
            merge.duration_delta_us
        );
        // Both ranks were captured in the same operations, and none was left out in between.
        let mut by_comm: BTreeMap<(&str, &str), [Vec<u64>; 2]> = BTreeMap::new();
        for pair in &merge.pairs {
            by_comm.entry((&pair.comm_id, pair.op.label())).or_default()[pair.rank as usize]
                .push(pair.sn.expect("a number"));
        }
        for (key, [zero, one]) in by_comm {
            assert_eq!(zero, one, "{run} {key:?}");
            assert!(zero.windows(2).all(|w| w[1] == w[0] + 1), "{run} {key:?}: {zero:?}");
        }
    }
}

// One communicator sums activations eight times a step; the other sums a large array beside compute. Channels of its kernels start one after
// the other, so that Inspector's longest channel is up to 42 us (8 %) shorter than the kernel.
#[test]
fn a_second_communicator_whose_channels_start_late() {
    let Some(data) = captures() else { return };
    let report = of(&data, "tensor-parallel/tp-2gpu");
    let merge = report.inspector.as_ref().expect("logs");
    assert_eq!(numbers(merge, 0, "AllReduce", "0x83045b17a75065"), (33..129).collect::<Vec<_>>());
    assert_eq!(numbers(merge, 1, "AllReduce", "0xfe70bedddbab99"), (4..16).collect::<Vec<_>>());
    assert!(trust(merge, "0x83045b17a75065").trusted && !trust(merge, "0xfe70bedddbab99").trusted);
    assert!(has_warning(
        &report,
        "inspector-times-differ",
        &["0xfe70bedddbab99", "16 of 24 pairs"]
    ));
    let late = merge.pairs.iter().filter(|pair| pair.comm_id == "0xfe70bedddbab99");
    assert!(late.clone().all(|pair| pair.busbw_gbs.is_none()
        && pair.exec_time_us.expect("a time") * 1e3 < pair.kernel_ns as f64));
}

#[test]
fn sends_receives_and_a_communicator_whose_times_are_not_its_own() {
    let Some(data) = captures() else { return };
    let report = of(&data, "collectives/coll-2gpu");
    let merge = report.inspector.as_ref().expect("logs");
    assert_eq!(
        (merge.missing_ranks.as_slice(), coverage(merge)),
        (&[0][..], vec![(0, 160, 0), (1, 160, 160)])
    );
    let (first, second) = ("0xbbd4d590f040f7", "0xb46cc394a94f16");
    // Five warm-up operations of each kind, then five sizes, four calls each.
    for op in ["AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce"] {
        assert_eq!(numbers(merge, 1, op, first), (5..25).collect::<Vec<_>>(), "{op}");
    }
    assert_eq!(numbers(merge, 1, "AllReduce", second), (5..25).collect::<Vec<_>>());
    // AllToAll and send/recv: 40 kernels with one record of each direction.
    for op in ["Send", "Recv"] {
        assert_eq!(numbers(merge, 1, op, first).len(), 40);
    }
    assert_eq!((merge.ranks[1].records_in_capture, merge.ranks[1].unmatched_records), (200, 0));
    assert!(
        has_warning(&report, "inspector-times-differ", &[first])
            && !has_warning(&report, "inspector-times-differ", &[second])
    );
    assert!(merge.pairs.iter().all(|pair| pair.busbw_gbs.is_some() == (pair.comm_id == second)));
    assert!(
        trust(merge, second).duration_delta_us.is_some_and(|delta| delta.max <= 5.0),
        "{:?}",
        trust(merge, second)
    );
    // The AllReduce that took 47,192 us has the record of its number, with a time that is not its own.
    let slow = merge
        .pairs
        .iter()
        .find(|pair| pair.comm_id == first && pair.op.label() == "AllReduce" && pair.sn == Some(5))
        .expect("is paired");
    assert_eq!((slow.kernel_ns + 500) / 1000, 47_192);
    assert!(slow.exec_time_us.is_some_and(|us| us < 1000.0), "{slow:?}");
}

/// Launch times (Unix microseconds) of kernels by their start.
fn launches(report: &Path) -> BTreeMap<i64, f64> {
    let connection = Connection::open(report).expect("a database");
    let epoch: i64 = connection
        .query_row("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME", [], |row| row.get(0))
        .expect("a time");
    let mut statement = connection
        .prepare(
            "SELECT k.start, min(r.start) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r
             ON r.correlationId = k.correlationId AND r.globalTid >> 24 = k.globalPid >> 24 GROUP BY k.start, k.correlationId",
        )
        .expect("a query");
    let rows = statement
        .query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))
        .expect("rows");
    rows.map(|row| {
        row.map(|(start, launch)| (start, (launch + epoch) as f64 / 1e3)).expect("a row")
    })
    .collect()
}

/// When the host enqueued each operation of a verbose log (Unix microseconds), by communicator and operation.
fn enqueued(log: &Path) -> BTreeMap<(String, String), Vec<(u64, f64)>> {
    let text = std::fs::read_to_string(log).expect("a log");
    let mut stamps: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for line in text.lines() {
        let record: Value = serde_json::from_str(line).expect("JSON");
        let (kind, body) = if record["coll_perf"].is_object() {
            ("coll", &record["coll_perf"])
        } else {
            ("p2p", &record["p2p_perf"])
        };
        let field = |name: &str| &body[format!("{kind}_{name}")];
        let key = (
            record["header"]["id"].as_str().expect("an id").to_owned(),
            body[kind].as_str().expect("a name").to_owned(),
        );
        let at = body["event_trace_ts"][format!("{kind}_start_ts")].as_f64().expect("a stamp");
        stamps.entry(key).or_default().push((field("sn").as_u64().expect("a number"), at));
    }
    stamps
}

// A check that shares nothing with the pairing: a verbose record says when the host enqueued the operation, the trace when it launched the
// kernel. Of all records of the operation on the communicator the paired one is nearest, within a quarter of a millisecond.
#[test]
fn verbose_stamps_agree_with_launches() {
    let Some(data) = captures() else { return };
    for (run, rank, log, pairs) in [
        ("nvlink/ddp-2gpu-bucket100", 0, "vm-pid2030.log", 33),
        ("collectives/coll-2gpu", 1, "vm-pid3856.log", 200),
    ] {
        let merge = merged(&data, run);
        let launches = launches(&reports(&data, run)[rank]);
        let enqueued = enqueued(&data.join(format!("{run}_inspector")).join(log));
        assert_eq!(merge.pairs.len(), pairs, "{run}");
        for pair in &merge.pairs {
            let launch = launches[&pair.start_ns];
            let distance = |(sn, at): &(u64, f64)| ((at - launch).abs(), *sn);
            let stamps = &enqueued[&(pair.comm_id.clone(), pair.op.to_string())];
            let (nearest, sn) =
                stamps.iter().map(distance).min_by(|a, b| a.0.total_cmp(&b.0)).expect("stamps");
            assert_eq!(Some(sn), pair.sn, "{run}: {pair:?}");
            assert!(nearest < 250.0, "{run}: {nearest} us, {pair:?}");
        }
    }
}

// The same captures without what makes it easy. Every pair that is left is one of the pairs above.
#[test]
fn nothing_is_paired_wrongly_where_less_is_known() {
    let Some(data) = captures() else { return };
    for (run, at_least) in
        [("repeats/ddp-run1", 40), ("tensor-parallel/tp-2gpu", 200), ("collectives/coll-2gpu", 80)]
    {
        let pairs = |merge: &InspectorMerge| -> Vec<(u32, i64, String, Option<u64>)> {
            merge.pairs.iter().map(|p| (p.rank, p.start_ns, p.comm_id.clone(), p.sn)).collect()
        };
        let all = pairs(&merged(&data, run));
        let folder = crate::support::folder();
        let copies: Vec<PathBuf> = reports(&data, run)
            .iter()
            .map(|report| {
                let copy = folder.path().join(report.file_name().expect("a name"));
                std::fs::copy(report, &copy).expect("a copy");
                let connection = Connection::open(&copy).expect("a database");
                connection
                    .execute_batch("UPDATE NVTX_EVENTS SET jsonText = NULL, jsonTextId = NULL, binaryData = NULL")
                    .expect("no payloads");
                copy
            })
            .collect();
        let options = Options {
            inspector: vec![data.join(format!("{run}_inspector"))],
            ..Options::default()
        };
        let report = crate::support::build_with(&copies, &options).expect("a report").report;
        let found = pairs(&report.inspector.expect("logs"));
        let wrong: Vec<_> = found.iter().filter(|pair| !all.contains(pair)).collect();
        assert!(wrong.is_empty(), "{run}: {wrong:?}");
        assert!(found.len() >= at_least, "{run}: {} of {}", found.len(), all.len());
    }
}
