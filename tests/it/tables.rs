//! The tables of a report: their description, and what DuckDB finds in them.

use std::path::Path;

/// With `NSYSNCCL_UPDATE_DOCS=1` the description is written instead.
#[test]
fn tables_are_described() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/parquet.md");
    let expected = nsysnccl::internals::tables::document();
    if std::env::var_os("NSYSNCCL_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &expected).expect("written");
    }
    let found = std::fs::read_to_string(&path).expect("docs/parquet.md");
    assert!(
        found == expected,
        "docs/parquet.md is not what src/tables says: run this test with NSYSNCCL_UPDATE_DOCS=1"
    );
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
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tables.py"))
            .args(["tables", "report.json"])
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
