//! Parquet files read back by DuckDB, where Python has it.

use std::process::Command as Process;

use assert_cmd::Command;

use super::log::Folder;

const QUERY: &str = "
import sys
try:
    import duckdb
except ImportError:
    sys.exit(77)
rows = duckdb.sql(f\"\"\"SELECT class, comm_id, op, sn, bytes, count(*), avg(logged_busbw_gbs) FROM '{sys.argv[1]}/*.parquet'
    WHERE NOT p2p AND NOT size_corrected AND op IN ('AllReduce', 'AllGather', 'ReduceScatter', 'Broadcast')
    GROUP BY ALL ORDER BY comm_id, op, sn, bytes\"\"\").fetchall()
for kind, comm, op, sn, size, logs, mean in rows:
    print(comm, kind, op, sn, size, logs, f'{mean:.9f}', sep='\\t')
worst = duckdb.sql(f\"SELECT max(abs(busbw_gbs - logged_busbw_gbs)) FROM '{sys.argv[1]}/*.parquet' WHERE NOT size_corrected\").fetchall()[0][0]
assert worst < 1e-6, worst
";

#[test]
fn duckdb_finds_the_same_means() {
    let out = Folder::new(&[]);
    let data = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/inspector");
    let folder = out.path().join("parquet");
    let output = Command::cargo_bin("nsysnccl")
        .expect("the program")
        .arg("inspect")
        .arg(data.join("v2.30.7"))
        .arg("--parquet")
        .arg(&folder)
        .output();
    let output = output.expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let answer = match Process::new(&python).args(["-c", QUERY]).arg(&folder).output() {
        Ok(answer) if answer.status.code() != Some(77) => answer,
        _ => {
            eprintln!(
                "SKIPPED: {python} has no module duckdb (pip install duckdb): the Parquet files were written but not read by DuckDB"
            );
            return;
        }
    };
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    let expected = std::fs::read_to_string(data.join("mean_busbw.tsv")).expect("the table");
    let expected: Vec<&str> =
        expected.lines().filter_map(|line| line.strip_prefix("v2.30.7\t")).collect();
    let got = String::from_utf8_lossy(&answer.stdout).into_owned();
    let got: Vec<&str> = got.lines().collect();
    assert_eq!(got.len(), expected.len());
    for (got, expected) in got.iter().zip(expected) {
        let split = |line: &str| {
            line.rsplit_once('\t')
                .map(|(key, mean)| (key.to_owned(), mean.parse::<f64>().expect("a number")))
        };
        let ((key, mean), (want_key, want)) =
            (split(got).expect("a row"), split(expected).expect("a row"));
        assert!(key == want_key && (mean - want).abs() < 1e-8, "{got}\n{expected}");
    }
}
