//! Mistakes that are made at a command line, and what the program says to them.

use std::process::{Command, Output};

const SHM: [&str; 2] = ["examples/shm/shm-2gpu_0.sqlite", "examples/shm/shm-2gpu_1.sqlite"];

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nsysnccl"));
    command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("runs")
}

/// Standard output and standard error on one line each, whatever the width.
fn said(arguments: &[&str], status: i32) -> [String; 2] {
    let output = run(arguments);
    let text = [&output.stdout, &output.stderr].map(|bytes| {
        String::from_utf8_lossy(bytes).split_whitespace().collect::<Vec<_>>().join(" ")
    });
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", text[1]);
    text
}

fn report<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["report"], SHM.as_slice(), more].concat()
}

#[test]
fn reports_named_after_the_logs_are_reports_still() {
    let log = "examples/shm/shm-2gpu.nccl.log";
    let usual =
        run(&report(&["--inspector", "examples/shm/shm-2gpu_inspector", "--nccl-log", log]));
    let after = run(&[
        "report",
        "--nccl-log",
        log,
        "--inspector",
        "examples/shm/shm-2gpu_inspector",
        SHM[0],
        SHM[1],
    ]);
    assert!(usual.status.success() && !usual.stdout.is_empty());
    assert_eq!(usual.stdout, after.stdout);
    assert!(said(&["report", "--nccl-log", log], 2)[1].contains("no report was named"));
}

#[test]
fn an_option_that_finds_nothing_says_so() {
    for (more, status, text) in [
        (["--step", "("], 2, "--step is not a regular expression: unclosed group"),
        (["--step", "foo"], 3, r"--step '^Batch \d+$'"),
        (["--step-kernel", "foo"], 3, "no kernel matches --step-kernel 'foo'"),
        (["--skip", "5"], 3, "--skip 5 leaves no step try: skip fewer steps"),
        (
            ["--rank-regex", r"node(?P<rank>\d+)"],
            2,
            "finds no rank in any file name, e.g. 'shm-2gpu_0.sqlite'",
        ),
        (
            ["--inspector", "README.md"],
            3,
            "README.md: holds no record of NCCL Inspector try: name the files",
        ),
        (
            ["--nccl-log", "examples/shm"],
            3,
            "examples/shm: is a folder try: name the log files in it",
        ),
    ] {
        let [_, error] = said(&report(&more), status);
        assert!(error.contains(text), "{more:?}: {error}");
    }
    let useless = "--comm-regex 'foo' changes nothing";
    assert!(said(&report(&["--comm-regex", "foo"]), 0)[0].contains(useless));
    assert!(!said(&report(&[]), 0)[0].contains(useless));
}

#[test]
fn ranks_of_two_runs_are_no_run() {
    let [output, error] =
        said(&["report", SHM[0], "examples/shm/shm-2gpu-bf16-bucket100_1.sqlite"], 3);
    assert!(error.contains("these are reports of different runs"), "{error}");
    assert_eq!(output, "");
    assert!(!said(&report(&[]), 0)[0].contains("different runs"));
    let other = "b=examples/shm/shm-2gpu-bf16-bucket100_*.sqlite";
    let compare = |second: &str| {
        said(&["compare", &format!("a={}", SHM[0]), &format!("a={second}"), other], 0)[0].clone()
    };
    let warning = "The captures of 'a' hold different ranks";
    let apart = compare("examples/shm/shm-2gpu-bf16-bucket100_1.sqlite");
    assert!(apart.contains(warning), "{apart}");
    // Ranks of one name belong together, however often the variant was named.
    assert!(!compare(SHM[1]).contains(warning));
}

#[test]
fn what_was_left_out_is_named_and_verbose_tells_the_rest() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("out.md");
    let file = file.to_str().expect("UTF-8");
    let broken = ["--topo", "README.md", "--keep-going", "-o", file];
    let [output, error] = said(&report(&broken), 4);
    assert!(
        output.is_empty()
            && error.starts_with("warning: left out: README.md: holds no topology matrix wrote "),
        "{error}"
    );
    assert_eq!(said(&report(&[&broken[..], &["-q"]].concat()), 4)[1], "");
    let [_, error] = said(&report(&["-v", "-o", file]), 0);
    for text in [
        "read examples/shm/shm-2gpu_0.sqlite",
        "rank 1 (from environment RANK): process 984",
        &format!("wrote {file}"),
    ] {
        assert!(error.contains(text), "{text}: {error}");
    }
}

#[test]
fn every_command_has_a_man_page_with_its_options() {
    for (command, option) in [
        ("report", "nccl\\-log"),
        ("compare", "gate"),
        ("inspect", "against"),
        ("doctor", "threads"),
    ] {
        let [page, _] = said(&["man", command], 0);
        assert!(page.contains(option) && page.contains(&format!("nsysnccl\\-{command}")), "{page}");
    }
}
