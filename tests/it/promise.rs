//! `doctor` never says that a report can be made where `report` refuses: over all handed captures, and the cases that were
//! made of what once went wrong.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn nsysnccl(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nsysnccl"))
        .args(arguments)
        .args(["--format", "json", "-q"])
        .output()
        .expect("runs")
}

fn folders(of: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(of).into_iter().flatten();
    let mut folders: Vec<PathBuf> =
        entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

/// Reports the runs of a folder that `doctor` has no problem with: how many there are, or `None` where it refuses, too.
fn reported(folder: &Path) -> Option<usize> {
    let doctor = nsysnccl(&["doctor", folder.to_str().expect("UTF-8")]);
    if !doctor.status.success() {
        return None;
    }
    let document: serde_json::Value = serde_json::from_slice(&doctor.stdout).expect("JSON");
    let runs = document["runs"].as_array().expect("runs");
    let can = runs.iter().filter(|run| run["problem"].is_null());
    let count = can.clone().count();
    for run in can {
        let reports = run["reports"].as_array().expect("reports").iter();
        let mut arguments = vec!["report", "--no-replay"];
        arguments.extend(reports.map(|report| report.as_str().expect("a path")));
        let report = nsysnccl(&arguments);
        assert!(
            report.status.success(),
            "doctor has no problem with {arguments:?}: {}",
            String::from_utf8_lossy(&report.stderr)
        );
    }
    Some(count)
}

#[test]
fn what_doctor_has_no_problem_with_is_reported() {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let captures = folders(&shared.join("data"));
    if captures.is_empty() {
        println!("{} is not here: SKIPPED", shared.display());
        return;
    }
    let mut runs: usize = captures.iter().filter_map(|folder| reported(folder)).sum();
    for case in folders(&shared.join("cases")) {
        runs += reported(&case).unwrap_or(0);
        let script = case.join("make.py");
        if !script.exists() {
            continue;
        }
        let made = tempfile::tempdir().expect("a folder");
        let output = Command::new("python3").arg("-B").arg(&script).arg(made.path()).output();
        let output = output.expect("python3");
        assert!(output.status.success(), "{script:?}: {}", String::from_utf8_lossy(&output.stderr));
        runs += reported(made.path()).unwrap_or(0);
    }
    assert!(runs > 40, "{runs} runs");
}
