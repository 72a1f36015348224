//! Exports of every listed version of Nsight Systems, and of one that nobody knows yet.

use std::path::PathBuf;

use nsysnccl::internals::doctor;
use nsysnccl::internals::ingest::nsys::db::TABLES;
use nsysnccl::internals::ingest::nsys::schema::{LATER, OLDEST};
use nsysnccl::internals::report::Report as Finished;
use nsysnccl::internals::run::Options;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::support::cluster::{codes, group, rank};
use crate::support::report::{Copy, Payload, Payloads, Report, stream, thread};
use crate::support::scenes::{ALL_REDUCE, EPOCH, GEMM, OPTIMIZER, US, WORLD};
use crate::support::schema::schemas;
use crate::support::{assert_numbers, build, build_with, folder};

const STEPS: i64 = 3;
const BYTES: u64 = 45_000_000;

/// Tables that an export always has rows in, if its version has the table.
const ALWAYS: [&str; 5] = [
    "META_DATA_EXPORT",
    "EXPORT_META_DATA",
    "META_DATA_CAPTURE",
    "TARGET_INFO_SESSION_START_TIME",
    "TARGET_INFO_SYSTEM_ENV",
];

/// True if tables of this version have the column.
fn has(version: usize, table: &str, column: &str) -> bool {
    schemas().columns(version, table).iter().any(|c| c.name == column)
}

/// One rank of two, of three steps; us from the first kernel of each, which comes every 1000:
///
/// ```text
/// CPU          range [-60, 900)   GEMM launched at -20, the rest after it
/// stream 7     GEMM 0-400 | DtoD 400-420 | memset 420-430 |   waits   | optimizer 800-900 | HtoD 900-950 |  50 idle
/// stream 20          AllReduce 300-800 (rank 0), 350-800 (rank 1)     | event
/// ```
/// The optimizer's stream waits for an event that is recorded behind the AllReduce.
fn one_rank(version: usize, name: &str, rank: u32) -> Report {
    let mut report = Report::of(name);
    let main = thread(1000 + rank, 1000 + rank);
    report.session(EPOCH);
    report.env("RANK", &rank.to_string());
    report.env("WORLD_SIZE", "2");
    report.system("Hostname", "node0");
    report.gpu(i64::from(rank), "NVIDIA H200", main.pid, 0);
    let payloads = has(version, "NVTX_EVENTS", "binaryData");
    report.payloads = if payloads { Payloads::Blob } else { Payloads::None };
    let init = Payload { init: Some((2, rank as i32, 0)), comm: WORLD, ..Payload::default() };
    report.nccl(main, "ncclCommInitRank", 10..20, init);
    let with_events = has(version, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "eventSyncId");
    for step in 0..STEPS {
        let at = |us: i64| (100 + 1000 * step + us) * US;
        let call = |us: i64| main.at(at(us));
        report.range(main, &format!("step {step}"), at(-60)..at(900));
        report.kernel(GEMM, stream(7), at(0)..at(400), call(-20));
        report.copy(Copy::DtoD, 2000, stream(7), at(400)..at(420), call(10));
        report.memset(300, stream(7), at(420)..at(430), call(20));
        let payload = Payload { comm: WORLD, bytes: Some(BYTES), ..Payload::default() };
        report.nccl(main, "ncclAllReduce", at(30)..at(50), payload);
        let arrives = 300 + 50 * i64::from(rank);
        report.kernel(ALL_REDUCE, stream(20), at(arrives)..at(800), call(40));
        for (function, us, correlation) in
            [("cudaEventRecord_v3020", 60, 900), ("cudaStreamWaitEvent_v3020", 70, 901)]
        {
            let name = report.string(function);
            report.row(
                "CUPTI_ACTIVITY_KIND_RUNTIME",
                &[
                    ("start", at(us).into()),
                    ("end", (at(us) + 1).into()),
                    ("globalTid", main.global().into()),
                    ("correlationId", (correlation + 10 * step).into()),
                    ("nameId", name.into()),
                ],
            );
        }
        let of = |stream: i64, correlation: i64| {
            [
                ("contextId", 1.into()),
                ("streamId", stream.into()),
                ("correlationId", (correlation + 10 * step).into()),
                ("globalPid", main.process().into()),
                ("eventId", 5.into()),
                ("eventSyncId", (70 + step).into()),
            ]
        };
        if with_events {
            report.row("CUPTI_ACTIVITY_KIND_CUDA_EVENT", &of(20, 900));
        }
        let waits = [&of(7, 901)[..], &[("syncType", 2.into())]].concat();
        report.row("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", &waits);
        report.kernel(OPTIMIZER, stream(7), at(800)..at(900), call(80));
        report.copy(Copy::HtoD, 4000, stream(7), at(900)..at(950), call(90));
    }
    report
}

/// Both ranks as exports of a version, with no table that it has not.
fn exports(folder: &TempDir, version: usize) -> Vec<PathBuf> {
    let name = &schemas().versions[version];
    (0..2)
        .map(|rank| {
            let path = one_rank(version, name, rank)
                .save(folder.path(), &format!("v{version}_{rank}.sqlite"));
            let connection = Connection::open(&path).expect("opens");
            for table in ALWAYS.iter().filter(|table| !schemas().is_listed(version, table)) {
                connection.execute_batch(&format!("DROP TABLE IF EXISTS {table}")).expect("drops");
            }
            path
        })
        .collect()
}

fn with_replay(paths: &[PathBuf]) -> Finished {
    build_with(paths, &Options { replay: true, ..Options::default() }).expect("a report").report
}

/// The numbers of the timeline above, which need no table or column that came late.
#[track_caller]
fn assert_timeline(report: &Finished) {
    assert_eq!(report.ranks.iter().map(|r| r.rank).collect::<Vec<_>>(), [0, 1]);
    for (number, comm, overlap) in [(0, 500, 100), (1, 450, 50)] {
        let steps = &rank(report, number).steps;
        assert_eq!(
            steps.iter().map(|step| step.name.as_str()).collect::<Vec<_>>(),
            ["step 0", "step 1", "step 2"]
        );
        for (i, step) in steps.iter().enumerate() {
            let last = i + 1 == steps.len();
            assert_numbers(
                step,
                &[
                    ("step_ns", if last { 950 } else { 1000 } * US),
                    ("cpu_range_ns", 960 * US),
                    ("compute_ns", 500 * US),
                    ("comm_ns", comm * US),
                    ("comm_count", 1),
                    ("overlap_ns", overlap * US),
                    ("exposed_comm_ns", 400 * US),
                    ("dtod.ns", 20 * US),
                    ("dtod.bytes", 2000),
                    ("memset.ns", 10 * US),
                    ("memset.bytes", 300),
                    ("htod.ns", 50 * US),
                    ("htod.exposed_ns", 50 * US),
                    ("htod.bytes", 4000),
                    ("exposed_copy_ns", 50 * US),
                    ("idle_ns", if last { 0 } else { 50 * US }),
                    ("host_late_ns", if last { 0 } else { 30 * US }),
                ],
            );
        }
    }
    // All leave together, so what rank 0 takes longer than rank 1 is waiting for it.
    let reduce = group(report, "AllReduce", &[0, 1]);
    assert_eq!((reduce.count, reduce.transfer_ns), (STEPS as u64, Some(450 * US)));
    assert_eq!(rank(report, 0).wait_ns_per_step, Some(50 * US));
    assert_eq!(rank(report, 1).wait_ns_per_step, Some(0));
}

#[test]
fn all_versions_give_the_same_numbers_or_say_what_they_cannot_tell() {
    let folder = folder();
    let mut same = 0;
    for (version, name) in schemas().versions.iter().enumerate() {
        println!("{name}");
        let report = with_replay(&exports(&folder, version));
        assert_timeline(&report);
        // What a version cannot tell is null, and a reason stands beside it.
        let reduce = group(&report, "AllReduce", &[0, 1]);
        let payloads = has(version, "NVTX_EVENTS", "binaryData");
        assert_eq!(reduce.bytes, payloads.then_some(BYTES), "{name}");
        // 45 MB in 450 us; 2 (n - 1) / n is 1.
        assert_eq!(reduce.busbw_gbs, payloads.then_some(100.0), "{name}");
        assert_eq!(reduce.no_bandwidth.is_none(), payloads, "{name}: {:?}", reduce.no_bandwidth);
        let events = has(version, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "eventSyncId");
        assert_eq!(report.replay.reason.is_none(), events, "{name}: {:?}", report.replay);
        if events {
            assert_eq!(report.replay.worst_error, Some(0.0), "{name}");
        }
        let epoch = schemas().is_listed(version, "TARGET_INFO_SESSION_START_TIME");
        for rank in &report.ranks {
            assert_eq!(rank.clock.epoch_ns, epoch.then_some(EPOCH), "{name}");
        }
        assert!(!codes(&report).contains(&"schema-unknown"), "{name}");
        same += 1;
    }
    println!("{same} of {} versions", schemas().versions.len());
    assert_eq!((same, schemas().versions.len()), (35, 35));
}

/// Columns that some listed version has not are known to be so; every other one is in each version of its table.
#[test]
fn columns_that_come_and_go_are_those_of_the_list() {
    let (mut later, mut oldest) = (Vec::new(), Vec::new());
    let versions = 0..schemas().versions.len();
    for table in TABLES {
        let listed: Vec<usize> =
            versions.clone().filter(|&v| schemas().is_listed(v, table.name)).collect();
        let Some(&newest) = listed.last() else { continue };
        for column in table.columns.iter().filter(|column| **column != "rowid") {
            if listed.iter().all(|&version| has(version, table.name, column)) {
                continue;
            }
            let list = if has(newest, table.name, column) { &mut later } else { &mut oldest };
            list.push((table.name, *column));
        }
    }
    assert_eq!((later.as_slice(), oldest.as_slice()), (LATER, OLDEST));
}

/// A version that nobody knows: a later schema with columns added, renamed and dropped.
fn of_tomorrow(folder: &TempDir, changes: &str) -> Vec<PathBuf> {
    let version = schemas().versions.len() - 1;
    let paths = exports(folder, version);
    for path in &paths {
        let connection = Connection::open(path).expect("opens");
        let table = "CREATE TABLE IF NOT EXISTS META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
             INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '4.2.0');";
        connection.execute_batch(&format!("{table}{changes}")).expect("is SQL");
    }
    paths
}

#[test]
fn an_unknown_version_works_as_far_as_its_columns_do() {
    let at = folder();
    // What is only added changes nothing and needs no warning.
    let added = "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN warpSpeed INTEGER;
        CREATE TABLE NCCL_GPU_OPERATIONS (start INTEGER, \"end\" INTEGER);
        CREATE TABLE \"SECRET_TOKEN=Hunter2Hunter2\" (x INTEGER);";
    let paths = of_tomorrow(&at, added);
    let report = with_replay(&paths);
    assert_timeline(&report);
    assert_eq!(report.replay.worst_error, Some(0.0));
    assert!(!codes(&report).contains(&"schema-unknown"), "{:?}", report.warnings);
    // `doctor` names what is there and not read.
    let view = doctor::examine(&doctor::list(&paths), || ()).expect("an examination");
    for export in &view.exports {
        assert_eq!(export.unread_tables, ["NCCL_GPU_OPERATIONS", "SECRET_TOKEN=(hidden)"]);
        for column in ["KERNEL.warpSpeed", "KERNEL.clusterX", "MEMCPY.copyCount"] {
            let column = format!("CUPTI_ACTIVITY_KIND_{column}");
            assert!(export.unread_columns.contains(&column), "{:?}", export.unread_columns);
        }
        assert_eq!(export.lacking_columns, [""; 0]);
    }

    // What was renamed or dropped costs what it tells, and one warning an export says so.
    let at = folder();
    let renamed = "ALTER TABLE NVTX_EVENTS RENAME COLUMN binaryData TO payload;
        ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME COLUMN shortName TO baseName;
        ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN gridX;
        ALTER TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION RENAME COLUMN eventSyncId TO syncId;";
    let paths = of_tomorrow(&at, renamed);
    let report = with_replay(&paths);
    assert_timeline(&report);
    let lacking = [
        "CUPTI_ACTIVITY_KIND_KERNEL.shortName",
        "CUPTI_ACTIVITY_KIND_KERNEL.gridX",
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION.eventSyncId",
        "NVTX_EVENTS.binaryData",
    ];
    let told: Vec<_> =
        report.warnings.iter().filter(|w| w.code.as_str() == "schema-unknown").collect();
    assert_eq!(told.len(), 2, "one a report: {told:?}");
    for warning in told {
        let words = "schema 4.2.0 is newer than the newest that is known here";
        assert!(warning.message.contains(words), "{warning:?}");
        assert!(lacking.iter().all(|column| warning.message.contains(column)), "{warning:?}");
    }
    let reduce = group(&report, "AllReduce", &[0, 1]);
    assert_eq!((reduce.bytes, reduce.busbw_gbs), (None, None));
    let view = doctor::examine(&doctor::list(&paths), || ()).expect("an examination");
    assert_eq!(view.exports[0].lacking_columns, lacking);
    assert!(view.findings.iter().any(|finding| finding.id.as_str() == "schema-unknown"));

    // Without its table of kernels there is nothing to measure, and the tables are named.
    let at = folder();
    let moved = "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO GPU_KERNELS;
        DROP TABLE CUPTI_ACTIVITY_KIND_MEMCPY; DROP TABLE CUPTI_ACTIVITY_KIND_MEMSET;";
    let error = build(&of_tomorrow(&at, moved)).expect_err("no report");
    assert!(error.fact.contains("its schema 4.2.0 is newer"), "{error}");
    assert!(error.fact.contains("GPU_KERNELS"), "{error}");
}
