//! Real captures: what this program says beside what a few lines of SQL on the same files say.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::Connection;

use crate::support::{captures, report};

/// (operation, communicator, bytes) to the kernels of one rank in order: (start, end) in Unix time.
type Calls = BTreeMap<(String, String, u64), Vec<(i64, i64)>>;

/// Independent of the program: each call's kernel is the one launched while the call was open, on the same thread.
fn calls(file: &Path) -> Calls {
    let db = Connection::open(file).expect("opens");
    let epoch: i64 = db.query_row("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME", [], |r| r.get(0)).expect("an epoch");
    let sql = r#"
        SELECT s.value, n.jsonText, k.start, k."end"
        FROM NVTX_EVENTS n JOIN StringIds s ON s.id = n.textId
        JOIN CUPTI_ACTIVITY_KIND_RUNTIME a ON a.globalTid = n.globalTid AND a.start >= n.start AND a.start < n."end"
        JOIN CUPTI_ACTIVITY_KIND_KERNEL k ON k.correlationId = a.correlationId AND (k.globalPid >> 24) = (a.globalTid >> 24)
        WHERE n.jsonText LIKE '%Message size%' AND s.value NOT IN ('ncclSend', 'ncclRecv')
        ORDER BY k.start"#;
    let mut found = Calls::new();
    let mut statement = db.prepare(sql).expect("prepares");
    let rows = statement
        .query_map([], |r| Ok((r.get::<_, String>(0)?, r.get::<_, String>(1)?, r.get::<_, i64>(2)?, r.get::<_, i64>(3)?)))
        .expect("runs");
    for (name, json, start, end) in rows.map(|row| row.expect("a row")) {
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        let comm = format!("0x{:016x}", json["NCCL communicator ID"].as_u64().expect("an id"));
        let bytes = json["Message size [bytes]"].as_u64().expect("a size");
        found.entry((name, comm, bytes)).or_default().push((start + epoch, end + epoch));
    }
    found
}

/// Every operation, size and communicator of data/collectives but sends and receives: transfer and busbw by hand.
#[test]
fn the_operations_of_the_collectives_capture() {
    let Some(data) = captures() else { return };
    let files = [0, 1].map(|rank| data.join(format!("collectives/coll-2gpu_{rank}.sqlite")));
    let found = report(&files);
    let [a, b] = [calls(&files[0]), calls(&files[1])];
    assert_eq!(a.len(), 35, "7 operations of 5 sizes");
    for ((name, comm, bytes), first) in &a {
        let second = &b[&(name.clone(), comm.clone(), *bytes)];
        assert_eq!((first.len(), second.len()), (4, 4), "{name} {bytes}");
        let together = ["ncclAllReduce", "ncclAllGather", "ncclReduceScatter", "ncclAlltoAll"].contains(&name.as_str());
        let mut transfers: Vec<i64> = if together {
            first.iter().zip(second).map(|(x, y)| (x.1 - x.0).min(y.1 - y.0)).collect()
        } else {
            let overlapping = first.iter().zip(second).filter(|(x, y)| x.0.max(y.0) < x.1.min(y.1));
            overlapping.map(|(x, y)| x.1.max(y.1) - x.0.max(y.0)).collect()
        };
        transfers.sort_unstable();
        let op = match name.as_str() {
            "ncclAlltoAll" => "AllToAll",
            other => other.trim_start_matches("nccl"),
        };
        let group = found
            .collectives
            .iter()
            .find(|c| c.op == op && c.comm_id.as_deref() == Some(comm) && c.bytes == Some(*bytes))
            .unwrap_or_else(|| panic!("{op} of {bytes} bytes on {comm}"));
        assert_eq!((group.count, group.untimed), (4, 4 - transfers.len() as u64), "{op} {bytes}");
        // n = 2: the factor 2(n-1)/n is 1, and (n-1)/n of bytes x n is the payload itself.
        let mut busbw: Vec<f64> = transfers.iter().map(|t| *bytes as f64 / *t as f64).collect();
        busbw.sort_by(f64::total_cmp);
        let middle = |list: &[f64]| match list.len() {
            0 => None,
            n if n % 2 == 1 => Some(list[n / 2]),
            n => Some((list[n / 2 - 1] + list[n / 2]) / 2.0),
        };
        match (middle(&busbw), group.busbw_gbs) {
            // Aligned clocks shift the ends of operations that ranks do not leave together by some nanoseconds.
            (Some(expected), Some(got)) => {
                assert!((got / expected - 1.0).abs() < if together { 1e-12 } else { 0.05 }, "{op} {bytes}: {got} {expected}")
            }
            (expected, got) => assert_eq!(expected.is_some(), got.is_some(), "{op} {bytes}"),
        }
    }
}

#[test]
fn the_bandwidths_that_are_known() {
    let Some(data) = captures() else { return };
    let run = |stem: &str| report(&[0, 1].map(|rank| data.join(format!("{stem}_{rank}.sqlite"))));
    let collectives = run("collectives/coll-2gpu");
    let busbw =
        |op: &str, bytes: u64| collectives.collectives.iter().find(|c| c.op == op && c.bytes == Some(bytes)).and_then(|c| c.busbw_gbs);
    for (op, expected) in [("AllReduce", 287.6), ("AllGather", 246.8), ("ReduceScatter", 241.7), ("AllToAll", 286.2)] {
        assert!(busbw(op, 128 << 20).is_some_and(|b| (b - expected).abs() < 0.06), "{op}: {:?}", busbw(op, 128 << 20));
    }
    assert!(busbw("Broadcast", 16 << 20).is_none_or(|b| b < 400.0), "the root of a broadcast can finish early");
    let ddp = run("repeats/ddp-run1");
    assert!(ddp.collectives[0].busbw_gbs.is_some_and(|b| b > 300.0));
    let socket = run("socket/socket-2node");
    assert!(socket.collectives[0].busbw_gbs.is_some_and(|b| (b - 2.8).abs() < 0.1));
    let shm = run("shm/shm-2gpu");
    assert_eq!(shm.collectives[0].busbw_gbs, None);
    assert!(shm.warnings.iter().any(|w| w.code == "no-payloads"));
}

#[test]
fn on_the_busy_host_rank_0_is_late_and_rank_1_waits() {
    let Some(data) = captures() else { return };
    let found = report(&[0, 1].map(|rank| data.join(format!("repeats/ddp-run2_{rank}.sqlite"))));
    let finding = found.findings.iter().find(|f| f.id == "straggler").expect("a straggler");
    assert_eq!((&finding.evidence["rank"], &finding.evidence["cause"]), (&0.into(), &"idle".into()));
    assert!(found.ranks[1].wait_ns_per_step > Some(5_000_000) && found.ranks[0].wait_ns_per_step < Some(100_000));
}

/// Blobs decoded by the schema tables say what the JSON says, for every operation.
#[test]
fn binary_payloads_say_what_json_says() {
    let Some(data) = captures() else { return };
    let folder = crate::support::folder();
    let files = [0, 1].map(|rank| data.join(format!("collectives/coll-2gpu_{rank}.sqlite")));
    let blobs = [0, 1].map(|rank: usize| {
        let copy = folder.path().join(format!("coll-2gpu_{rank}.sqlite"));
        std::fs::write(&copy, std::fs::read(&files[rank]).expect("read")).expect("written");
        let db = Connection::open(&copy).expect("opens");
        db.execute("UPDATE NVTX_EVENTS SET jsonText = NULL", []).expect("updates");
        drop(db);
        copy
    });
    assert_eq!(report(&files).collectives, report(&blobs).collectives);
}

/// (capture, for each rank kernels and pairs, largest difference in us that is allowed); every kernel of a rank with a log is paired.
#[test]
fn inspector_records_are_paired_in_full() {
    use nsysnccl::pipeline::{Options, build};
    let Some(data) = captures() else { return };
    type Case = (&'static str, [(u64, u64); 2], f64);
    let cases: [Case; 9] = [
        ("shm/shm-2gpu", [(5, 5), (5, 5)], 10.0),
        ("nvlink-truth/ddp-2gpu", [(5, 0), (5, 5)], 10.0),
        ("nvlink/ddp-2gpu", [(3, 3), (3, 3)], 10.0),
        ("nvlink/ddp-2gpu-bucket100", [(33, 33), (33, 0)], 11.2),
        ("repeats/ddp-run1", [(20, 20), (20, 20)], 10.0),
        ("repeats/ddp-run2", [(20, 20), (20, 20)], 10.0),
        ("socket/socket-2node", [(4, 4), (4, 4)], 10.0),
        ("shm/shm-2gpu-powersgd-active", [(30, 30), (30, 30)], 10.0),
        // The times of its first communicator are not its own.
        ("collectives/coll-2gpu", [(160, 0), (160, 160)], f64::INFINITY),
    ];
    for (stem, expected, limit) in cases {
        let files = [0, 1].map(|rank| data.join(format!("{stem}_{rank}.sqlite")));
        let options = Options { inspector: vec![data.join(format!("{stem}_inspector"))], ..Options::default() };
        let merged = build(&files, &options, || ()).expect(stem).report.inspector.expect("a merge");
        let found: Vec<(u64, u64)> = merged.ranks.iter().map(|rank| (rank.kernels, rank.paired)).collect();
        assert_eq!(found, expected, "{stem}");
        let missing: Vec<u32> = (0..2).filter(|&rank| expected[rank as usize].1 == 0).collect();
        assert_eq!(merged.missing_ranks, missing, "{stem}");
        assert!(merged.duration_delta_us.is_some_and(|delta| delta.max <= limit), "{stem}: {:?}", merged.duration_delta_us);
        if stem == "shm/shm-2gpu" {
            let numbers: Vec<Option<u64>> = merged.pairs.iter().filter(|pair| pair.rank == 0).map(|pair| pair.sn).collect();
            assert_eq!(numbers, [5, 6, 7, 8, 9].map(Some));
        }
        if stem == "collectives/coll-2gpu" {
            let trusted: Vec<(&str, bool)> = merged.trust.iter().map(|t| (t.comm_id.as_str(), t.trusted)).collect();
            assert_eq!(trusted, [("0xb46cc394a94f16", true), ("0xbbd4d590f040f7", false)]);
            assert!(merged.pairs.iter().all(|pair| pair.busbw_gbs.is_some() == (pair.comm_id == "0xb46cc394a94f16")));
        }
    }
}
