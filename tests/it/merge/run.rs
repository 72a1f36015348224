//! `nsysnccl report --inspector` as a program.

use std::path::Path;
use std::process::Output;

use assert_cmd::Command;

use super::scene::*;
use crate::support::folder;

fn report(folder: &Path, args: &[&str]) -> Output {
    Command::cargo_bin("nsysnccl")
        .expect("is built")
        .current_dir(folder)
        .args(["report", "--full"])
        .args(args)
        .output()
        .expect("runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn scene(with_payloads: bool) -> Scene {
    let mut scene = Scene::default();
    for (i, length) in [301, 422, 353, 514, 285].into_iter().enumerate() {
        let start = 1000 + 1000 * i as i64;
        scene.kernel(0, ALL_REDUCE, start, length, with_payloads.then(|| all_reduce(MB)));
        scene.log("logs.log", [line(i as u64, length - 4, start + 900)]);
    }
    scene
}

#[test]
fn what_is_no_log_is_an_error_and_nothing_is_printed() {
    let folder = folder();
    scene(true).save(folder.path());
    let file = |name: &str, content: &str| {
        std::fs::write(folder.path().join(name), content).expect("a file")
    };
    std::fs::create_dir(folder.path().join("empty")).expect("a folder");
    file("notes.log", "step 1 loss 0.5\n");
    file("nothing.log", "");
    let cases = [
        ("none", "none: there is no such file or folder"),
        ("empty", "empty: holds no .log, .jsonl, .json or .prom file"),
        ("notes.log", "notes.log: holds no record of NCCL Inspector"),
        ("nothing.log", "nothing.log: holds no record of NCCL Inspector"),
    ];
    for (path, words) in cases {
        let output = report(
            folder.path(),
            &["run_0.sqlite", "--step", "whole", "--inspector", path, "-o", "out.json"],
        );
        assert_eq!(output.status.code(), Some(3), "{path}");
        assert!(output.stdout.is_empty(), "{path}");
        let errors = text(&output.stderr);
        assert!(errors.contains(words) && !errors.contains("panicked"), "{path}: {errors}");
        assert!(!folder.path().join("out.json").exists(), "{path}: nothing is written");
    }
}

#[test]
fn the_report_says_what_the_logs_add() {
    let folder = folder();
    scene(true).save(folder.path());
    let output = report(
        folder.path(),
        &["run_0.sqlite", "--step", "whole", "--inspector", "logs", "--width", "100"],
    );
    assert_eq!(output.status.code(), Some(0));
    let printed = text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "1 log file with 5 records (v4.0 of 2.28 or 2.29). All 5 communication kernels of the capture have their record.",
        "The durations of kernels and records differ by 4.00 µs (median), 4.00 µs (95th percentile), 4.00 µs at most.",
        "The capture covers AllReduce 0 to 4 (logged: 0 to 4) on communicator 0xfa012817699a0b;",
    ] {
        assert!(printed.contains(words), "{words}\n{printed}");
    }
}

/// Everything from a log is escaped: a communicator's id may hold anything.
#[test]
fn text_of_a_log_steers_neither_terminal_nor_page() {
    let folder = folder();
    let mut scene = scene(false);
    let text_of_log = scene.take("logs.log").replace("0xfa012817699a0b", "<blink>\\u001b[31m|x");
    scene.text("logs.log", &text_of_log);
    scene.save(folder.path());
    for format in ["terminal", "markdown", "html"] {
        let output = report(
            folder.path(),
            &["run_0.sqlite", "--step", "whole", "--inspector", "logs", "--format", format],
        );
        let printed = text(&output.stdout);
        assert!(printed.contains("blink"), "the id is printed");
        assert!(
            !printed.contains('\u{1b}') && (format == "terminal" || !printed.contains("<blink>")),
            "{format}"
        );
    }
}
