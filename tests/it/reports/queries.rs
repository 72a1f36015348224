//! Every query of `queries/`: its head comment is true, it works on exports of every version, and it returns what it should.

use std::collections::BTreeSet;
use std::path::Path;

use nsysnccl::internals::ingest::nsys::db::{Present, TABLES, columns, lay_views};
use nsysnccl::internals::ingest::nsys::queries::{ALL, Query};
use rusqlite::Connection;
use rusqlite::types::Value;

use crate::support::report::{Copy, Payload, Payloads, Report, stream, text, thread};
use crate::support::schema::schemas;

/// The head comment and what follows it.
struct Document {
    purpose: String,
    needs: BTreeSet<String>,
    parameters: usize,
    columns: Vec<(String, String)>,
    ordered: bool,
    body: String,
}

/// Reads a query file: `-- Purpose: ..`, `-- Needs: ..`, `-- Params: ..`, `-- Columns:` with one indented line each, `-- Order: ..`.
fn document(query: &Query) -> Document {
    let head: Vec<&str> = query.sql.lines().take_while(|line| line.starts_with("--")).collect();
    let field = |name: &str| {
        let found = head.iter().find_map(|line| line.strip_prefix(&format!("-- {name}:")));
        found.unwrap_or_else(|| panic!("{} has no {name}", query.name)).trim().to_owned()
    };
    let columns = head
        .iter()
        .skip_while(|line| !line.starts_with("-- Columns:"))
        .skip(1)
        .map_while(|line| line.strip_prefix("--   "));
    let column = |line: &str| {
        let mut words = line.split_whitespace();
        (words.next().expect("a name").to_owned(), words.next().expect("a type").to_owned())
    };
    Document {
        purpose: field("Purpose"),
        needs: field("Needs").split(", ").map(str::to_owned).collect(),
        parameters: field("Params").matches('?').count(),
        columns: columns.map(column).collect(),
        ordered: field("Order") != "none",
        body: query.sql.lines().skip(head.len()).collect::<Vec<_>>().join("\n"),
    }
}

fn words(sql: &str) -> impl Iterator<Item = &str> {
    sql.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

fn over(report: &Report) -> Connection {
    let connection = Connection::open_in_memory().expect("a database");
    report.write(&connection).expect("a report");
    lay_views(&connection, &tables(&connection)).expect("views");
    connection
}

fn tables(connection: &Connection) -> Vec<Present> {
    let mut statement = connection
        .prepare("SELECT name FROM sqlite_master WHERE type = 'table'")
        .expect("a statement");
    let names = statement.query_map([], |row| row.get(0)).expect("rows");
    let table = |name: Result<String, _>| {
        let name = name.expect("a name");
        Present { columns: columns(connection, &name).expect("columns"), name }
    };
    names.map(table).collect()
}

#[test]
fn disk_and_registry_agree() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("queries");
    let mut on_disk = BTreeSet::new();
    for folder in std::fs::read_dir(&root).expect("queries/") {
        let folder = folder.expect("an entry").path();
        for file in std::fs::read_dir(&folder).expect("a folder of queries") {
            let path = file.expect("an entry").path();
            assert_eq!(
                path.extension().and_then(|e| e.to_str()),
                Some("sql"),
                "{}",
                path.display()
            );
            let name = path.strip_prefix(&root).expect("below queries/").with_extension("");
            on_disk.insert(name.to_string_lossy().replace('\\', "/"));
        }
    }
    let registered: BTreeSet<String> = ALL.iter().map(|query| query.name.to_owned()).collect();
    assert_eq!(registered.len(), ALL.len(), "a query is registered twice");
    assert_eq!(on_disk, registered);
}

#[test]
fn head_comments_say_what_the_queries_do() {
    let connection = over(&Report::default());
    for query in ALL {
        let document = document(query);
        let statement =
            connection.prepare(query.sql).unwrap_or_else(|e| panic!("{}: {e}", query.name));
        let documented: Vec<&str> =
            document.columns.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(statement.column_names().collect::<Vec<_>>(), documented, "{}", query.name);
        assert_eq!(statement.parameter_count(), document.parameters, "{}", query.name);
        assert_eq!(document.body.contains("ORDER BY"), document.ordered, "{}", query.name);
        assert!(document.purpose.len() > 10, "{}", query.name);
        let named: BTreeSet<String> = TABLES
            .iter()
            .map(|table| table.name)
            .filter(|table| words(&document.body).any(|word| word == *table))
            .map(str::to_owned)
            .collect();
        assert_eq!(named, document.needs, "{}", query.name);
        for (name, kind) in &document.columns {
            assert!(
                ["INTEGER", "REAL", "TEXT", "BLOB"].contains(&kind.as_str()),
                "{} {name}: {kind}",
                query.name
            );
        }
    }
}

#[test]
fn queries_name_their_columns_and_write_nothing() {
    let connection = over(&Report::default());
    for query in ALL {
        let body = document(query).body;
        assert!(!body.replace("count(*)", "").contains('*'), "{}: names its columns", query.name);
        assert!(!body.contains(';'), "{}: one statement", query.name);
        let statement = connection.prepare(query.sql).expect("a statement");
        assert!(statement.readonly(), "{}: only reads", query.name);
        // An index that SQLite makes for itself is the sign of a join that grows with the square of the report.
        let mut plan =
            connection.prepare(&format!("EXPLAIN QUERY PLAN {}", query.sql)).expect("a plan");
        let details: Vec<String> = plan
            .query_map(rusqlite::params_from_iter(vec![1; statement.parameter_count()]), |row| {
                row.get("detail")
            })
            .expect("rows")
            .collect::<Result<_, _>>()
            .expect("details");
        assert!(
            details.iter().all(|detail| !detail.contains("AUTOMATIC")),
            "{}: {details:?}",
            query.name
        );
    }
}

#[test]
fn every_query_prepares_on_every_version_with_any_table_missing() {
    let all: BTreeSet<&str> = schemas().table_names().collect();
    for (version, name) in schemas().versions.iter().enumerate() {
        let complete: Vec<String> =
            all.iter().map(|table| schemas().create(version, table)).collect();
        let present: Vec<Present> = all
            .iter()
            .map(|table| Present {
                name: (*table).to_owned(),
                columns: schemas().columns(version, table).into_iter().map(|c| c.name).collect(),
            })
            .collect();
        let without = |missing: &str| {
            present.iter().filter(|table| table.name != missing).cloned().collect::<Vec<_>>()
        };
        let mut cases = vec![("nothing", present.clone()), ("everything", Vec::new())];
        cases.extend(TABLES.iter().map(|table| (table.name, without(table.name))));
        for (missing, present) in cases {
            let connection = Connection::open_in_memory().expect("a database");
            connection.execute_batch(&complete.join(";")).unwrap_or_else(|e| panic!("{name}: {e}"));
            lay_views(&connection, &present)
                .unwrap_or_else(|e| panic!("{name} without {missing}: {e}"));
            for query in ALL {
                connection
                    .prepare(query.sql)
                    .unwrap_or_else(|e| panic!("{} on {name} without {missing}: {e}", query.name));
            }
        }
    }
}

/// One or two rows of every kind; the correlation ids are 1 to 4, the ids of strings 1000, 1007, ... in order of use.
fn one_of_everything() -> Report {
    let main = thread(7, 70);
    let mut report = Report::default();
    report.payloads = Payloads::Blob;
    report.kernel("void ns::gemm<int>(int *)", stream(7), 10..20, main.at(5));
    report.copy(Copy::DtoD, 64, stream(9), 30..40, main.at(6));
    report.memset(32, stream(7), 41..42, main.at(7));
    report.graph(stream(7), 50..60, main.at(8));
    let stream_of = [("contextId", 1.into()), ("streamId", 9.into()), ("correlationId", 3.into())];
    let process = [("globalPid", main.process().into())];
    let event = [("eventId", 21.into()), ("eventSyncId", 34.into())];
    let record = [&process[..], &stream_of, &event].concat();
    report.row("CUPTI_ACTIVITY_KIND_CUDA_EVENT", &record);
    let wait = [&record[..], &[("syncType", 2.into())]].concat();
    report.row("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", &wait);
    report.range(main, "step 1", 100..200);
    report.registered_range(main, "step 2", 200..300);
    report.open_range(main, "never closed", 300);
    report.nccl(
        main,
        "ncclAllReduce",
        110..120,
        Payload { comm: 5, bytes: Some(8), redop: Some("Sum"), ..Payload::default() },
    );
    report.env("RANK", "0");
    report.system("Hostname", "node0");
    report.system("KernelVersion", "6.1");
    report.gpu_with_uuid(3, "f006c11c-65f0", 7, 0);
    report.row("MPI_RANKS", &[("globalTid", main.global().into()), ("rank", 4.into())]);
    for (severity, message) in [(2, "usual"), (3, "lost events")] {
        report.row(
            "DIAGNOSTIC_EVENT",
            &[("timestamp", 1.into()), ("severity", severity.into()), ("text", text(message))],
        );
    }
    let kind = (1i64 << 48) + (1 << 32) + 3;
    report.row(
        "TARGET_INFO_GPU_METRICS",
        &[
            ("typeId", kind.into()),
            ("sourceId", kind.into()),
            ("typeName", text("")),
            ("metricId", 2.into()),
            ("metricName", text("SMs Active [Throughput %]")),
        ],
    );
    report.row(
        "GPU_METRICS",
        &[
            ("rawTimestamp", 9.into()),
            ("timestamp", 10.into()),
            ("typeId", kind.into()),
            ("metricId", 2.into()),
            ("value", 88.into()),
        ],
    );
    report.row("ANALYSIS_DETAILS", &[("globalVid", 1.into()), ("duration", 900.into())]);
    report
}

/// What each query returns of it, columns separated by `|`, NULL as nothing. The process is 1 << 48 | 7 << 24, its thread + 70.
const GOLDEN: &[(&str, &[&str])] = &[
    ("read/kernels", &["10|20|0|1|7|1|281475094151168|1014|1007||0|0|0"]),
    ("read/copies", &["30|40|0|1|9|2|281475094151168|8|64|||"]),
    ("read/memsets", &["41|42|0|1|7|3|281475094151168|32|"]),
    ("read/graphs", &["50|60|0|1|7|4|281475094151168"]),
    (
        "read/launches",
        &[
            "5|1|281475094151238",
            "6|2|281475094151238",
            "7|3|281475094151238",
            "8|4|281475094151238",
        ],
    ),
    (
        "read/host_calls",
        &[
            "5|6|1|281475094151238|1000",
            "6|7|2|281475094151238|1000",
            "7|8|3|281475094151238|1000",
            "8|9|4|281475094151238|1000",
        ],
    ),
    ("read/event_records", &["281475094151168|1|9|3|21|34"]),
    ("read/synchronizations", &["281475094151168|1|9|3|2|21|34"]),
    (
        "read/ranges",
        &[
            "100|200|281475094151238|0|step 1||59|1",
            "110|120|281475094151238|1||1028|59|5",
            "200|300|281475094151238|0||1021|59|2",
        ],
    ),
    (
        "read/payload",
        &[
            "||x'01000000000000000100000100000000140000000000000020000000000000000500000000000000080000000000000000000000'",
        ],
    ),
    ("read/domains", &["281475094151238|1|NCCL|"]),
    (
        "read/payload_entries",
        &[
            "1|16777217|0|18|NCCL communicator ID|",
            "1|16777217|1|22|Message size [bytes]|8",
            "1|16777217|2|16777236|Reduction operation|16",
        ],
    ),
    (
        "read/payload_enums",
        &[
            "1|16777236||Sum",
            "1|16777236|1|Product",
            "1|16777236|2|Max",
            "1|16777236|3|Min",
            "1|16777236|4|Avg",
        ],
    ),
    (
        "read/strings",
        &[
            "1000|cudaLaunchKernel_v7000",
            "1007|void ns::gemm<int>(int *)",
            "1014|gemm",
            "1021|step 2",
            "1028|ncclAllReduce",
        ],
    ),
    ("read/string", &["ncclAllReduce"]),
    ("read/range_text_ids", &["1021", "1028"]),
    ("read/mpi_ranks", &["281475094151238|4"]),
    ("read/gpu_metric_names", &["281479271677955|2|SMs Active [Throughput %]"]),
    ("read/gpu_metrics", &["10|281479271677955|2|88"]),
    ("probe/export", &["EXPORT_PARAM_TIME_NORMALIZE|false", "EXPORT_PRODUCT_VERSION|2026.3.1.157"]),
    ("probe/capture", &["PROCESS_0:ENVIRONMENT_VARIABLE|RANK=\"0\""]),
    ("probe/system", &["Hostname|node0"]),
    ("probe/session", &["1700000000000000000"]),
    ("probe/gpus", &["3|NVIDIA H200||f006c11c-65f0"]),
    ("probe/gpu_clocks", &["3|"]),
    ("probe/devices", &["3|0|7"]),
    ("probe/diagnostics", &["lost events"]),
    ("probe/notes", &["3|lost events|1", "2|usual|1"]),
    ("probe/api_calls", &["4"]),
    ("probe/gpu_calls", &["4|4|0"]),
    ("probe/duration", &["900"]),
];

#[test]
fn golden_rows() {
    // The order of rows means nothing: written last to first they read the same.
    for reversed in [false, true] {
        let mut report = one_of_everything();
        report.reversed = reversed;
        let connection = over(&report);
        for query in ALL {
            let document = document(query);
            let expected = GOLDEN
                .iter()
                .find(|(name, _)| *name == query.name)
                .unwrap_or_else(|| panic!("no golden rows for {}", query.name))
                .1;
            let parameter = match query.name {
                "read/payload" if reversed => 1,
                "read/payload" => 5,
                _ => 1028,
            };
            let mut statement = connection.prepare(query.sql).expect("a statement");
            let parameters = rusqlite::params_from_iter(vec![parameter; document.parameters]);
            let mut rows = statement.query(parameters).expect("rows");
            let mut found = Vec::new();
            while let Some(row) = rows.next().expect("a row") {
                let cells: Vec<Value> =
                    (0..document.columns.len()).map(|at| row.get(at).expect("a value")).collect();
                for ((name, kind), cell) in document.columns.iter().zip(&cells) {
                    assert!(is_of(cell, kind), "{} {name}: {cell:?} is no {kind}", query.name);
                }
                found.push(cells.iter().map(print).collect::<Vec<_>>().join("|"));
            }
            if !document.ordered {
                found.sort();
            }
            if query.name == "read/ranges" && reversed {
                // Row ids follow the order of rows.
                let without = |rows: &[String]| {
                    rows.iter()
                        .map(|row| row.rsplit_once('|').expect("columns").0.to_owned())
                        .collect::<Vec<_>>()
                };
                assert_eq!(
                    without(&found),
                    without(&expected.iter().map(|row| (*row).to_owned()).collect::<Vec<_>>())
                );
            } else {
                assert_eq!(found, expected, "{}", query.name);
            }
        }
    }
}

fn is_of(value: &Value, kind: &str) -> bool {
    match value {
        Value::Null => true,
        Value::Integer(_) => kind == "INTEGER",
        Value::Real(_) => kind == "REAL",
        Value::Text(_) => kind == "TEXT",
        Value::Blob(_) => kind == "BLOB",
    }
}

fn print(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Integer(value) => value.to_string(),
        Value::Real(value) => value.to_string(),
        Value::Text(value) => value.clone(),
        Value::Blob(bytes) => {
            format!("x'{}'", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        }
    }
}

#[test]
fn a_report_of_any_version_gives_the_same_numbers() {
    // CPU  step 1 [100,200)                    step 2 [200,300), a registered string
    // GPU  K 1000-1400  C 1300-1900  D 1900-1950     K 2000-2400
    let folder = crate::support::folder();
    for (i, version) in schemas().versions.iter().enumerate() {
        for all_tables in [false, true] {
            let main = thread(7, 70);
            let mut report = Report::of(version);
            report.all_tables = all_tables;
            report.range(main, "step 1", 100..200);
            report.registered_range(main, "step 2", 200..300);
            report.kernel("void gemm<float>(T1)", stream(7), 1000..1400, main.at(110));
            report.kernel(
                "ncclAllReduceRingLLKernel_sum_f32(ncclColl)",
                stream(20),
                1300..1900,
                main.at(120),
            );
            report.copy(Copy::DtoD, 64, stream(7), 1900..1950, main.at(130));
            report.kernel("void gemm<float>(T1)", stream(7), 2000..2400, main.at(210));
            let path = report.save(folder.path(), &format!("{i}-{all_tables}.sqlite"));
            let built = crate::support::report(&[path]);
            let steps = &crate::support::only_rank(&built).steps;
            assert_eq!(
                steps.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(),
                ["step 1", "step 2"],
                "{version}"
            );
            let first = [
                ("step_ns", 1000),
                ("compute_ns", 400),
                ("comm_ns", 600),
                ("overlap_ns", 100),
                ("dtod.ns", 50),
                ("idle_ns", 50),
            ];
            crate::support::assert_numbers(&steps[0], &first);
            crate::support::assert_numbers(
                &steps[1],
                &[("step_ns", 400), ("compute_ns", 400), ("comm_ns", 0), ("idle_ns", 0)],
            );
        }
    }
}
