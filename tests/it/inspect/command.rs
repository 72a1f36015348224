//! The command: formats, exit statuses, what goes where.

use std::process::Output;

use assert_cmd::Command;

use super::log::{Folder, Log};

fn run(args: &[&str]) -> Output {
    Command::cargo_bin("nsysnccl")
        .expect("the program")
        .arg("inspect")
        .args(args)
        .output()
        .expect("it runs")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn two_ranks() -> Folder {
    let (mut zero, mut one) = (Log::new("0xa", 0, 2), Log::new("0xa", 1, 2));
    zero.all_reduce(1_000_000, (0..30).map(|sn| 100 + sn % 7));
    one.all_reduce(1_000_000, (0..30).map(|sn| 100 + sn % 5));
    Folder::new(&[&zero, &one])
}

#[test]
fn the_same_bytes_at_any_number_of_threads_and_in_any_order() {
    let folder = two_ranks();
    let [a, b] = ["h0-pid100.log", "h0-pid101.log"]
        .map(|name| folder.path().join(name).display().to_string());
    for format in ["json", "csv", "terminal", "markdown", "html"] {
        let one = run(&[&a, &b, "--format", format, "--threads", "1"]);
        let two = run(&[&b, &a, "--format", format, "--threads", "2"]);
        assert!(
            one.status.success() && one.stdout == two.stdout && !one.stdout.is_empty(),
            "{format}: {}",
            stderr(&one)
        );
    }
}

#[test]
fn the_document_has_the_fields_of_its_contract() {
    let folder = two_ranks();
    let output = run(&[&folder.path().display().to_string(), "--format", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["schema"], "nsysnccl.inspect/1");
    assert_eq!(
        (
            json["files"][0]["lines"].as_u64(),
            json["files"][0]["records"].as_u64(),
            json["files"][0]["bad_lines"].as_u64()
        ),
        (Some(30), Some(30), Some(0))
    );
    assert_eq!(
        (json["records"].as_u64(), json["formats"][0].as_str()),
        (Some(60), Some("v4.0 of 2.30"))
    );
    let comm = &json["communicators"][0];
    for (field, value) in [
        ("comm_id", "0xa".into()),
        ("name", serde_json::Value::Null),
        ("n_ranks", 2.into()),
        ("nnodes", 1.into()),
        ("class", "nvlink-only".into()),
    ] {
        assert_eq!(comm[field], value, "{field}");
    }
    assert_eq!(
        (comm["ranks_seen"].to_string(), comm["ranks_missing"].to_string()),
        ("[0,1]".to_owned(), "[]".to_owned())
    );
    let op = &comm["ops"][0];
    for path in [
        "/op",
        "/bytes",
        "/count",
        "/exec_time_us/p50",
        "/exec_time_us/p95",
        "/exec_time_us/p99",
        "/exec_time_us/max",
        "/busbw_gbs/median",
        "/busbw_gbs/p5",
        "/busbw_gbs/p95",
        "/logged_busbw_gbs_mean",
        "/timing_sources/kernel_gpu",
    ] {
        assert!(op.pointer(path).is_some_and(|v| !v.is_null()), "{path}");
    }
    assert!(json["findings"].is_array() && json["warnings"].is_array());
}

#[test]
fn files_are_written_in_the_format_of_their_ending() {
    let folder = two_ranks();
    let out = tempfile::tempdir().expect("a folder");
    let at = |name: &str| out.path().join(name).display().to_string();
    let (md, html, csv) = (at("r.md"), at("r.html"), at("r.csv"));
    let output = run(&[&folder.path().display().to_string(), "-o", &md, "-o", &html, "-o", &csv]);
    assert!(output.status.success() && output.stdout.is_empty(), "{}", stderr(&output));
    let read = |path: &str| std::fs::read_to_string(path).expect("written");
    assert!(read(&md).contains("| AllReduce |"));
    assert_eq!(read(&csv).lines().count(), 31);
    let html = read(&html);
    // Beside the headline, timeline, scatter, histogram, boxes.
    assert_eq!(html.matches("<svg").count(), 5);
    assert!(
        !html.contains("http://")
            || html.replace("http://www.w3.org", "").matches("http://").count() == 0
    );
}

#[test]
fn text_from_logs_cannot_steer_a_terminal_or_a_page() {
    let mut log =
        Log { name: r"evil\u001b[31m<script>alert(1)</script>|=1+1", ..Log::new("0xa", 0, 2) };
    log.all_reduce(64, [1, 2]);
    let folder = Folder::new(&[&log]);
    for format in ["json", "csv", "terminal", "markdown", "html"] {
        let output = run(&[&folder.path().display().to_string(), "--format", format]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("evil"), "{format}");
        assert!(!text.contains('\u{1b}'), "{format} prints an escape character");
        assert!(format != "html" || !text.contains("<script>alert"), "{format} holds a script");
    }
}

#[test]
fn what_cannot_be_used_ends_with_its_status_and_nothing_on_standard_output() {
    let folder = two_ranks();
    let path = folder.path().display().to_string();
    let other = folder.write("other/job.log", b"hello\n").display().to_string();
    let empty = tempfile::tempdir().expect("a folder");
    let cases: [(&[&str], i32, &str); 7] = [
        (&["missing.log"], 3, "missing.log"),
        (&[&empty.path().display().to_string()], 3, "holds no .log"),
        (&[&other], 3, "no Inspector record in 1 file: line 1"),
        (&[&path, "--comm", "0xff"], 2, "the filters leave none of 60 records"),
        (&[&path, "--op", "Gossip"], 2, "not an operation of NCCL"),
        (&[&path, "--since", "yesterday"], 2, "is not a time"),
        (
            &[&path, "--since", "2026-01-02", "--until", "2026-01-01"],
            2,
            "--until is not after --since",
        ),
    ];
    for (args, status, said) in cases {
        let output = run(args);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {}", stderr(&output));
        assert!(
            output.stdout.is_empty() && stderr(&output).contains(said),
            "{args:?}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn another_job_stands_beside() {
    let (here, there) = (two_ranks(), two_ranks());
    let [here, there] = [&here, &there].map(|f| f.path().display().to_string());
    let output = run(&[&here, "--against", &there, "--format", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (
            json["against"]["rows"][0]["verdict"].as_str(),
            json["against"]["rows"][0]["change"].as_f64()
        ),
        (Some("same"), Some(0.0))
    );
    let csv = String::from_utf8(run(&[&here, "--against", &there, "--format", "csv"]).stdout)
        .expect("text");
    assert_eq!((csv.lines().count(), csv.starts_with("communicator,")), (2, true));
    let terminal = String::from_utf8(run(&[&here, "--against", &there]).stdout).expect("text");
    assert!(
        terminal.contains("Both jobs run 1 operation and size: 1 the same within 5 %."),
        "{terminal}"
    );
}
