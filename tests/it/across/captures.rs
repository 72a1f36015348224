//! Real captures, where they lie beside the project: figures worked out here from the rows of the reports, and known answers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nsysnccl::internals::report::{CollectiveGroup, Report as Finished};
use rusqlite::Connection;

use crate::support::cluster::{codes, finding, rank};
use crate::support::{captures, report};

/// The reports of a run, in order of rank.
fn files(folder: &Path, run: &str) -> Vec<PathBuf> {
    (0..2).map(|r| folder.join(format!("{run}_{r}.sqlite"))).collect()
}

fn of(run: &str) -> Option<Finished> {
    captures().map(|folder| report(&files(&folder, run)))
}

/// What the rows say about one step of one rank: operation, communicator, bytes; kernels in Unix time.
#[derive(Debug, Clone, PartialEq)]
struct Rows {
    function: String,
    comm: u64,
    bytes: u64,
    kernels: Vec<(i64, i64)>,
}

/// The steps of one report, straight from its tables: launches are joined by correlation id, calls by the step range.
fn rows(path: &Path) -> Vec<Rows> {
    let db = Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)
        .expect("a report");
    let epoch: i64 = db
        .query_row("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME", [], |row| row.get(0))
        .expect("an epoch");
    (0..40)
        .map(|step| {
            let range = "SELECT start, \"end\" FROM NVTX_EVENTS WHERE text = ?1";
            let (start, end): (i64, i64) =
                db.query_row(range, [format!("step {step}")], |row| Ok((row.get(0)?, row.get(1)?))).expect("a step");
            let calls = "SELECT s.value, n.jsonText FROM NVTX_EVENTS n JOIN StringIds s ON s.id = n.textId
                         WHERE n.jsonText IS NOT NULL AND n.start >= ?1 AND n.start < ?2 ORDER BY n.start";
            let mut query = db.prepare(calls).expect("a query");
            let calls: Vec<(String, serde_json::Value)> = query
                .query_map([start, end], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))
                .expect("rows")
                .map(|row| row.expect("a row"))
                .map(|(function, json)| (function, serde_json::from_str(&json).expect("JSON")))
                .collect();
            let number = |call: &serde_json::Value, name: &str| call[name].as_u64().expect("a number");
            let (function, first) = &calls[0];
            let (comm, bytes) = (number(first, "NCCL communicator ID"), number(first, "Message size [bytes]"));
            assert!(calls.iter().all(|(_, c)| number(c, "NCCL communicator ID") == comm && number(c, "Message size [bytes]") == bytes));
            let kernels = "SELECT k.start, k.\"end\" FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.shortName
                           JOIN (SELECT correlationId, min(start) AS start FROM CUPTI_ACTIVITY_KIND_RUNTIME GROUP BY 1) a
                             ON a.correlationId = k.correlationId
                           WHERE s.value LIKE 'nccl%' AND a.start >= ?1 AND a.start < ?2 ORDER BY k.start";
            let mut query = db.prepare(kernels).expect("a query");
            let kernels = query.query_map([start, end], |row| Ok((row.get::<_, i64>(0)? + epoch, row.get::<_, i64>(1)? + epoch)));
            Rows { function: function.clone(), comm, bytes, kernels: kernels.expect("rows").map(|k| k.expect("a row")).collect() }
        })
        .collect()
}

fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    (n > 0).then(|| (values[(n - 1) / 2] + values[n / 2]) / 2.0)
}

/// Name in the report, bytes that count for algbw and the factor to busbw, on two ranks; and whether ranks leave together.
fn rules(function: &str) -> (&'static str, f64, f64, bool) {
    match function {
        "ncclAllReduce" => ("AllReduce", 1.0, 1.0, true),
        "ncclAllGather" => ("AllGather", 2.0, 0.5, true),
        "ncclReduceScatter" => ("ReduceScatter", 2.0, 0.5, true),
        "ncclAlltoAll" => ("AllToAll", 2.0, 0.5, true),
        "ncclBroadcast" => ("Broadcast", 1.0, 1.0, false),
        "ncclReduce" => ("Reduce", 1.0, 1.0, false),
        "ncclSend" | "ncclRecv" => ("SendRecv", 1.0, 1.0, false),
        other => panic!("{other}"),
    }
}

fn find<'r>(report: &'r Finished, op: &str, comm: u64, bytes: u64) -> &'r CollectiveGroup {
    let id = format!("0x{comm:016x}");
    let same = |g: &&CollectiveGroup| {
        g.op.label() == op && g.comm_id.as_ref() == Some(&id) && g.bytes == Some(bytes)
    };
    report.collectives.iter().find(same).unwrap_or_else(|| panic!("{op} of {bytes} bytes on {id}"))
}

#[test]
fn forty_operations_by_the_rules() {
    let Some(folder) = captures() else { return };
    let paths = files(&folder, "collectives/coll-2gpu");
    let finished = report(&paths);
    let [zero, one] = [rows(&paths[0]), rows(&paths[1])];
    // Half of what the clocks are apart goes to each rank; only the whole matters here.
    let together = || zero.iter().zip(&one).filter(|(a, _)| rules(&a.function).3);
    let apart = together()
        .flat_map(|(a, b)| a.kernels.iter().zip(&b.kernels))
        .map(|(a, b)| (b.1 - a.1) as f64)
        .collect();
    let apart = middle(apart).expect("collectives").round() as i64;
    let mut seen = BTreeMap::new();
    for (a, b) in zero.iter().zip(&one) {
        assert_eq!((a.comm, a.bytes, a.kernels.len(), b.kernels.len()), (b.comm, b.bytes, 4, 4));
        let (op, parts, factor, together) = rules(&a.function);
        let transfer = |(a, b): (&(i64, i64), &(i64, i64))| -> Option<i64> {
            let b = (b.0 - apart, b.1 - apart);
            match together {
                true => Some((a.1 - a.0).min(b.1 - b.0)),
                // All must be in it at once.
                false => (a.0.max(b.0) < a.1.min(b.1)).then(|| a.1.max(b.1) - a.0.max(b.0)),
            }
        };
        let transfers: Vec<i64> = a.kernels.iter().zip(&b.kernels).filter_map(transfer).collect();
        let bandwidths = |factor: f64| {
            middle(
                transfers.iter().map(|&ns| a.bytes as f64 * parts / ns as f64 * factor).collect(),
            )
        };
        let group = find(&finished, op, a.comm, a.bytes);
        assert_eq!(
            (group.count, group.untimed, group.n_ranks),
            (4, 4 - transfers.len() as u64, Some(2)),
            "{op} {}",
            a.bytes
        );
        assert_eq!(group.transfer_ns.is_some(), !transfers.is_empty(), "{op} {}", a.bytes);
        for (found, expected) in
            [(group.algbw_gbs, bandwidths(1.0)), (group.busbw_gbs, bandwidths(factor))]
        {
            match (found, expected) {
                // Aligned clocks are rounded to a nanosecond on each rank.
                (Some(found), Some(expected)) => assert!(
                    (found / expected - 1.0).abs() < 1e-3,
                    "{op} {}: {found} {expected}",
                    a.bytes
                ),
                (found, expected) => assert_eq!(found, expected, "{op} {}", a.bytes),
            }
        }
        assert_eq!(group.no_bandwidth.is_some(), group.busbw_gbs.is_none());
        *seen.entry(op).or_insert(0) += 1;
    }
    let expected = [
        ("AllGather", 5),
        ("AllReduce", 10),
        ("AllToAll", 5),
        ("Broadcast", 5),
        ("Reduce", 5),
        ("ReduceScatter", 5),
        ("SendRecv", 5),
    ];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), expected);
    assert_eq!(finished.collectives.len(), 40);
}

// Figures that were worked out by hand before.
#[test]
fn known_bandwidths_of_nvlink() {
    let Some(report) = of("collectives/coll-2gpu") else { return };
    let largest = |op: &str| {
        report
            .collectives
            .iter()
            .filter(|g| g.op.label() == op)
            .max_by_key(|g| g.bytes)
            .expect("the operation")
    };
    for (op, expected) in
        [("AllReduce", 287.6), ("AllGather", 246.8), ("ReduceScatter", 241.7), ("AllToAll", 286.2)]
    {
        let group = largest(op);
        assert_eq!((group.bytes, group.count), (Some(128 << 20), 4));
        assert!(
            group.busbw_gbs.is_some_and(|gbs| (gbs - expected).abs() < 0.05),
            "{op}: {:?}",
            group.busbw_gbs
        );
    }
    // Its shortest kernel is a root that only filled a buffer: dividing by that would give 555 GB/s.
    let broadcast = report
        .collectives
        .iter()
        .find(|g| g.op.label() == "Broadcast" && g.bytes == Some(16 << 20))
        .expect("the group");
    assert_eq!((broadcast.busbw_gbs, broadcast.untimed), (None, 4));
    assert_eq!(broadcast.no_bandwidth.as_deref(), Some("no call could be timed"));
    assert_eq!(
        broadcast.untimed_reasons.keys().collect::<Vec<_>>(),
        ["buffered: the ranks were not in it at the same time"]
    );
}

// The payload as JSON, and as bytes that the schema tables describe: the same for every operation.
#[test]
fn bytes_say_what_json_says() {
    let Some(folder) = captures() else { return };
    let paths = files(&folder, "collectives/coll-2gpu");
    let both = report(&paths);
    for lost in ["jsonText", "binaryData"] {
        let copies = crate::support::folder();
        let copied: Vec<PathBuf> = paths
            .iter()
            .map(|path| {
                let copy = copies.path().join(path.file_name().expect("a name"));
                std::fs::copy(path, &copy).expect("a copy");
                // The file may be read-only where it comes from.
                let mut permissions = std::fs::metadata(&copy).expect("the copy").permissions();
                #[allow(clippy::permissions_set_readonly_false)] // It is a temporary file.
                permissions.set_readonly(false);
                std::fs::set_permissions(&copy, permissions).expect("a writable copy");
                let db = Connection::open(&copy).expect("a database");
                let changed = db
                    .execute(
                        &format!("UPDATE NVTX_EVENTS SET {lost} = NULL WHERE {lost} IS NOT NULL"),
                        [],
                    )
                    .expect("an update");
                assert!(changed >= 180, "{changed} of {lost}");
                copy
            })
            .collect();
        let one = report(&copied);
        assert_eq!(one.collectives, both.collectives, "without {lost}");
        assert_eq!(one.waits, both.waits);
    }
}

#[test]
fn bandwidth_of_a_training_step() {
    let Some(report) = of("repeats/ddp-run1") else { return };
    let [all_reduce] = &report.collectives[..] else { panic!("{:#?}", report.collectives) };
    assert_eq!((all_reduce.count, all_reduce.bytes), (20, Some(1_226_141_600)));
    assert!(all_reduce.busbw_gbs.is_some_and(|gbs| gbs > 300.0), "{all_reduce:?}");
    // 4 % of exposed communication are the largest part besides compute.
    let ids: Vec<&str> = report.findings.iter().map(|f| f.id.as_str()).collect();
    assert_eq!(ids, ["exposed-communication", "dtod-copies"]);
}

#[test]
fn a_busy_host_is_the_finding() {
    let Some(report) = of("repeats/ddp-run2") else { return };
    let late = &report.findings[0];
    assert_eq!(
        (late.id.as_str(), late.evidence["rank"].as_u64(), late.evidence["cause"].as_str()),
        ("straggler", Some(0), Some("host"))
    );
    assert!(
        late.title.contains("and the other rank waits for it: 7.46 ms a step in the median"),
        "{}",
        late.title
    );
    assert!(
        late.title.contains("arrives last at 19 of 20 collectives")
            && late.title.contains("its host is late"),
        "{}",
        late.title
    );
    assert_eq!((rank(&report, 0).last_count, rank(&report, 1).last_count), (Some(19), Some(1)));
}

#[test]
fn a_slow_network_is_the_finding() {
    let Some(report) = of("socket/socket-2node") else { return };
    let [all_reduce] = &report.collectives[..] else { panic!("{:#?}", report.collectives) };
    assert!(all_reduce.busbw_gbs.is_some_and(|gbs| (gbs - 2.8).abs() < 0.05), "{all_reduce:?}");
    assert_eq!(report.findings[0].id.as_str(), "exposed-communication");
    assert!(
        report.findings[0].title.starts_with("Communication takes 82.0 % of the step"),
        "{}",
        report.findings[0].title
    );
}

#[test]
fn no_payloads_no_bandwidth_and_a_word_about_it() {
    let Some(report) = of("shm/shm-2gpu") else { return };
    let [all_reduce] = &report.collectives[..] else { panic!("{:#?}", report.collectives) };
    assert_eq!((all_reduce.bytes, all_reduce.busbw_gbs), (None, None));
    assert_eq!(
        all_reduce.no_bandwidth.as_deref(),
        Some("the capture does not say how large the message is")
    );
    assert_eq!(codes(&report), ["no-payloads"]);
    let hint = report.warnings[0].hint.as_deref().expect("a hint");
    assert!(hint.contains("nsys export") && hint.contains("--include-json true"), "{hint}");
    assert_eq!(
        finding(&report, "straggler").expect("a straggler").evidence["rank"].as_u64(),
        Some(0)
    );
}

// By time alone the same operations are found as by step: nothing is shifted and nothing lost.
#[test]
fn one_window_gives_the_same_collectives() {
    let Some(folder) = captures() else { return };
    for run in [
        "repeats/ddp-run2",
        "tensor-parallel/tp-2gpu",
        "nvlink/ddp-2gpu-bucket100",
        "socket/socket-2node",
    ] {
        let paths = files(&folder, run);
        let options = nsysnccl::internals::run::Options {
            step: nsysnccl::internals::steps::StepChoice::Whole,
            ..Default::default()
        };
        let whole = crate::support::build_with(&paths, &options).expect("a report").report;
        let stepped = report(&paths);
        let figures = |report: &Finished| {
            let figure = |g: &CollectiveGroup| {
                (g.op, g.bytes, g.count, g.transfer_ns, g.wait_ns.clone(), g.last_arriver.clone())
            };
            report.collectives.iter().map(figure).collect::<Vec<_>>()
        };
        assert_eq!(figures(&whole), figures(&stepped), "{run}");
    }
}
