//! The program as it is called: what it refuses to overwrite, and what it never prints.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::report::{Report, stream, thread};

fn nsysnccl(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nsysnccl"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("runs")
}

fn one_step() -> Report {
    let mut report = Report::default();
    let main = thread(7, 7);
    report.range(main, "step 1", 100..200);
    report.kernel("gemm", stream(7), 1_000..2_000, main.at(110));
    report
}

#[test]
fn an_output_never_replaces_an_input() {
    let folder = crate::support::folder();
    let report = one_step().save(folder.path(), "run_0.json");
    let before = std::fs::read(&report).expect("read");
    for output in ["run_0.json", "./run_0.json"] {
        let done = nsysnccl(folder.path(), &["report", "run_0.json", "-o", output]);
        assert_eq!(done.status.code(), Some(2), "{}", String::from_utf8_lossy(&done.stderr));
        assert!(String::from_utf8_lossy(&done.stderr).contains("would overwrite an input"));
    }
    assert_eq!(std::fs::read(&report).expect("read"), before);
}

#[test]
fn a_page_in_the_folder_of_the_logs_is_written_again() {
    let folder = crate::support::folder();
    let logs =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/shm/shm-2gpu_inspector");
    let copy =
        |name: &str| std::fs::copy(logs.join(name), folder.path().join(name)).expect("copied");
    copy("vm-pid984.log");
    std::fs::write(folder.path().join("old.json"), "{}").expect("written");
    for (output, status) in [("page.html", 0), ("page.html", 0), ("new.json", 0), ("old.json", 2)] {
        let done = nsysnccl(folder.path(), &["inspect", ".", "-o", output]);
        assert_eq!(
            done.status.code(),
            Some(status),
            "{output}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
    }
}

#[test]
fn one_file_under_two_spellings_is_written_by_nobody() {
    let folder = crate::support::folder();
    one_step().save(folder.path(), "run_0.sqlite");
    let done = nsysnccl(folder.path(), &["report", "run_0.sqlite", "-o", "x.md", "-o", "./x.md"]);
    assert_eq!(done.status.code(), Some(2));
    assert!(!folder.path().join("x.md").exists());
    // A folder that is not there: nothing is left of the file that could be written either.
    let done =
        nsysnccl(folder.path(), &["report", "run_0.sqlite", "-o", "y.md", "-o", "nowhere/z.md"]);
    assert_eq!((done.status.code(), done.stdout.len()), (Some(3), 0));
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
}

#[test]
fn secrets_of_the_captured_environment_are_never_printed() {
    let folder = crate::support::folder();
    let mut report = one_step();
    for (name, value) in [
        ("SECRET_TOKEN", "hunter2"),
        ("NCCL_SECRET_KEY", "hunter2"),
        ("NCCL_PROXY", "http://user:hunter2@host/"),
        ("NCCL_DEBUG_FILE", "/tmp/x;AWS_SECRET=hunter2"),
        ("NCCL_DEBUG", "INFO"),
    ] {
        report.env(name, value);
    }
    report.system("DeviceEnvironment", "NCCL_A=1;SECRET_TOKEN=hunter2;API_KEY=hunter2;NCCL_B=2");
    report.save(folder.path(), "run_0.sqlite");
    for format in ["terminal", "markdown", "html", "json", "csv"] {
        let done =
            nsysnccl(folder.path(), &["report", "run_0.sqlite", "--full", "--format", format]);
        let text = String::from_utf8_lossy(&done.stdout).into_owned()
            + &String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && !text.contains("hunter2"), "{format}: {text}");
        // What is harmless is there, so that the search above looked at the right thing.
        assert!(format == "csv" || text.contains("NCCL_DEBUG_FILE"), "{format}");
    }
}

#[test]
fn names_from_a_file_cannot_steer_the_terminal_or_the_page() {
    let folder = crate::support::folder();
    let mut report = one_step();
    let main = thread(7, 7);
    report.kernel(
        "evil<script>alert(1)</script>|`x`\u{1b}[31m\u{202e}",
        stream(7),
        2_000..9_000,
        main.at(120),
    );
    report.save(folder.path(), "run_0.sqlite");
    for format in ["terminal", "markdown", "html", "csv", "json"] {
        let done = nsysnccl(folder.path(), &["report", "run_0.sqlite", "--format", format]);
        let text = String::from_utf8(done.stdout).expect("UTF-8");
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{format}");
        assert!(
            format != "html" && format != "markdown" || !text.contains("<script>alert"),
            "{format}"
        );
    }
}

#[test]
fn a_capture_with_nccl_ranges_only_is_one_window_and_says_so() {
    let folder = crate::support::folder();
    let mut report = Report::default();
    let main = thread(7, 7);
    report.nccl(main, "ncclAllReduce", 100..200, Default::default());
    report.kernel("gemm", stream(7), 1_000..2_000, main.at(110));
    report.save(folder.path(), "run_0.sqlite");
    let text = String::from_utf8(nsysnccl(folder.path(), &["report", "run_0.sqlite"]).stdout)
        .expect("UTF-8");
    assert!(text.contains("no NVTX ranges but NCCL's own"), "{text}");
}
