//! The tables of a report: their description, and what DuckDB finds in them.

use std::path::Path;

/// With `NSYSNCCL_UPDATE_DOCS=1` the description is written instead.
#[test]
fn tables_are_described() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/parquet.md");
    let expected = nsysnccl::tables::document();
    if std::env::var_os("NSYSNCCL_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &expected).expect("written");
    }
    let found = std::fs::read_to_string(&path).expect("docs/parquet.md");
    assert!(found == expected, "docs/parquet.md is not what src/tables says: run this test with NSYSNCCL_UPDATE_DOCS=1");
}

#[cfg(not(feature = "parquet"))]
#[test]
fn a_build_without_parquet_says_so() {
    let done = std::process::Command::new(env!("CARGO_BIN_EXE_nsysnccl"))
        .args(["report", "x.sqlite", "--parquet", "nowhere"])
        .output()
        .expect("runs");
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("--features parquet"));
    assert!(!Path::new("nowhere").exists());
}

#[cfg(feature = "parquet")]
mod parquet {
    use std::path::{Path, PathBuf};
    use std::process::Command;

    /// Holds tables against the JSON of the report and the description; status 77 without DuckDB.
    const QUERY: &str = r#"
import json, re, sys
try:
    import duckdb
except ImportError:
    sys.exit(77)
folder, report, about = sys.argv[1], json.load(open(sys.argv[2])), open(sys.argv[3]).read()
sql = lambda text: duckdb.sql(re.sub(r"\{(\w+)\}", lambda m: f"'{folder}/{m[1]}.parquet'", text)).fetchall()
# Columns and types are those described.
types = {"BYTE_ARRAY": "VARCHAR", "STRING": "VARCHAR", "INT64": "BIGINT", "INTEGER(64,false)": "UBIGINT", "INT32": "INTEGER", "DOUBLE": "DOUBLE", "BOOLEAN": "BOOLEAN"}
for table, rest in re.findall(r"## (\w+)\.parquet\n(.*?)(?=\n## |\Z)", about, re.S):
    described = [(name, types[kind]) for name, kind in re.findall(r"^\| `(\w+)` \| ([\w(),]+) \|", rest, re.M)]
    there = [row[:2] for row in sql("DESCRIBE SELECT * FROM {%s}" % table)]
    assert there == described and there, (table, set(there) ^ set(described))
# Steps: each number of each step.
numbers = 0
columns = [row[0] for row in sql("DESCRIBE SELECT * FROM {steps}")]
rows = {(row[0], row[1]): dict(zip(columns, row)) for row in sql("SELECT * FROM {steps} WHERE step IS NOT NULL")}
def flat(step, before=""):
    for name, value in step.items():
        if isinstance(value, dict):
            yield from flat(value, f"{before}{name}_")
        else:
            yield before + name, value
for rank in report["ranks"]:
    for step in rank["steps"]:
        row = rows[rank["rank"], step["run_step"]]
        for name, value in flat(step):
            if name in row and name != "step":
                assert row[name] == value, (name, row[name], value)
                numbers += 1
assert numbers > 400, numbers
# Operations inside of steps, counted and added up, are the numbers of the steps.
query = """SELECT rank, step, sum(copied_bytes) FILTER (class = 'dtod'), count(*) FILTER (class = 'dtod'), count(*) FILTER (class IN ('communication', 'ptop'))
    FROM {operations} WHERE step IS NOT NULL GROUP BY ALL"""
counted = sql(query)
assert len(counted) == len(rows)
for rank, step, size, copies, comm in counted:
    row = rows[rank, step]
    assert (size or 0, copies, comm) == (row["dtod_bytes"], row["dtod_count"], row["comm_count"]), (rank, step)
# Time with a compute kernel, by SQL: islands of overlapping intervals.
query = """WITH o AS (SELECT rank, step, own_start_ns AS a, own_start_ns + duration_ns AS b FROM {operations} WHERE class = 'compute' AND step IS NOT NULL),
    g AS (SELECT *, max(b) OVER (PARTITION BY rank, step ORDER BY a, b ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM o)
    SELECT rank, step, sum(greatest(0, b - greatest(a, coalesce(before, a)))) FROM g GROUP BY ALL"""
for rank, step, ns in sql(query):
    assert ns == rows[rank, step]["compute_ns"], (rank, step, ns)
# One collective a step: no two waits at once, so that they add up.
waits = {(row["rank"], row["step"]): row["wait_ns"] for row in report["waits"]}
found = {(rank, step): ns for rank, step, ns in sql("SELECT rank, step, sum(wait_ns) FROM {waits} WHERE step IS NOT NULL GROUP BY ALL")}
assert found == waits and waits, (found, waits)
groups = {(g["op"], g["bytes"]): (g["count"], g["transfer_ns"]) for g in report["collectives"]}
found = {(op, size): (n, int(ns)) for op, size, n, ns in sql("SELECT operation, bytes, count(*), median(transfer_ns) FROM {collectives} GROUP BY ALL")}
assert found == groups, (found, groups)
same = sql("SELECT count(*) FROM {collectives} c WHERE transfer_ns + (SELECT max(wait_ns) FROM {waits} w WHERE w.collective = c.collective) <> (SELECT max(duration_ns) FROM {waits} w WHERE w.collective = c.collective)")
assert same == [(0,)], same
assert [row[0] for row in sql("SELECT id FROM {findings} ORDER BY position")] == [f["id"] for f in report["findings"]]
assert json.loads(sql("SELECT evidence FROM {findings} ORDER BY position")[0][0]) == report["findings"][0]["evidence"]
try:
    import pandas
    steps = pandas.read_parquet(f"{folder}/steps.parquet")
    medians = steps[steps.counted].groupby("rank").step_ns.median()
    assert all(medians[r["rank"]] == r["summary"]["step_ns"]["median"] for r in report["ranks"]), medians
    print("pandas too")
except ImportError as e:
    print(f"pandas not looked at: {e}")
"#;

    fn nsysnccl(folder: &Path) -> std::process::Output {
        let shm = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/shm");
        let reports: Vec<PathBuf> =
            [0, 1].map(|r| shm.join(format!("shm-2gpu_{r}.sqlite"))).to_vec();
        Command::new(env!("CARGO_BIN_EXE_nsysnccl"))
            .arg("report")
            .args(reports)
            .args(["--parquet", "tables", "-o", "report.json", "-q"])
            .current_dir(folder)
            .output()
            .expect("runs")
    }

    #[test]
    fn duckdb_finds_the_numbers_of_the_report() {
        let folder = crate::support::folder();
        let done = nsysnccl(folder.path());
        assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
        let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let about = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/parquet.md");
        let answer = Command::new(&python)
            .args(["-c", QUERY, "tables", "report.json"])
            .arg(about)
            .current_dir(folder.path())
            .output()
            .expect("Python runs");
        if answer.status.code() == Some(77) {
            eprintln!("SKIPPED: {python} has no module duckdb (pip install duckdb)");
            return;
        }
        assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
        print!("{}", String::from_utf8_lossy(&answer.stdout));
        // The same again in the same place, and not beside files of another kind.
        assert_eq!(nsysnccl(folder.path()).status.code(), Some(0));
        std::fs::write(folder.path().join("tables/other.parquet"), "").expect("written");
        let done = nsysnccl(folder.path());
        assert_eq!(done.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&done.stderr).contains("other.parquet"));
    }
}
