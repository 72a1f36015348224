//! Inputs that are made to break the program: it answers with a number or with an error that names the file, and never anything else.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::report::{Report, stream, thread};

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nsysnccl"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).output().expect("runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// An error: the exit status, nothing on standard output, and on standard error every one of `words`.
#[track_caller]
fn assert_refused(output: &Output, status: i32, words: &[&str]) {
    let error = text(&output.stderr);
    assert_eq!(
        (output.status.code(), text(&output.stdout)),
        (Some(status), String::new()),
        "{error}"
    );
    for word in words {
        assert!(error.contains(word), "'{word}' is not in: {error}");
    }
}

/// Steps of one process, each with a kernel: `[1000, 1100)`, `[2000, 2100)`, ...
fn steps(names: &[&str]) -> Report {
    steps_from(0, names)
}

/// The same, all of it `shift` later.
fn steps_from(shift: i64, names: &[&str]) -> Report {
    let mut report = Report::default();
    let main = thread(7, 7);
    for (i, name) in names.iter().enumerate() {
        let at = shift + 1000 * (i as i64 + 1);
        report.range(main, name, at - 500..at + 400);
        report.kernel("gemm", stream(7), at..at + 100, main.at(at - 400));
    }
    report
}

/// Changes a report with SQL.
fn edit(path: &Path, sql: &str) -> PathBuf {
    rusqlite::Connection::open(path).expect("opens").execute_batch(sql).expect("is SQL");
    path.to_owned()
}

#[test]
fn times_at_the_ends_of_the_range_are_no_times() {
    let folder = crate::support::folder();
    for shift in [i64::MIN, i64::MAX, -(1 << 61), 0] {
        let mut report = steps(&["step 1", "step 2", "step 3"]);
        report.export("EXPORT_PARAM_TIME_SHIFT", &shift.to_string());
        let main = thread(7, 7);
        for end in [i64::MIN, i64::MAX] {
            report.range(main, "step 9", i64::MIN..end);
            report.kernel(
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
                stream(7),
                i64::MIN..end,
                main.at(i64::MIN),
            );
            report.kernel(
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
                stream(7),
                5..end,
                main.at(i64::MAX - 1),
            );
        }
        let path = report.save(folder.path(), "run_0.sqlite");
        for more in [
            &[][..],
            &["--step", "whole"],
            &["--step-kernel", "gemm"],
            &["--window", "cpu"],
            &["--step", "9"],
        ] {
            let output = run(
                folder.path(),
                &[&["report", "run_0.sqlite", "--format", "json"], more].concat(),
            );
            assert!(
                matches!(output.status.code(), Some(0 | 3)),
                "{shift} {more:?}: {}",
                text(&output.stderr)
            );
        }
        std::fs::remove_file(path).expect("removed");
    }
}

/// `nsys export --ts-shift` moves all times, also below 0.
///
/// ```text
/// GPU  [-4000 -3900)  [-3000 -2900)        the last step ends with its own work, not at 0
/// ```
#[test]
fn a_shift_below_zero_changes_no_number() {
    let folder = crate::support::folder();
    for shift in [0, -5000, 5000] {
        let mut report = steps_from(shift, &["step 1", "step 2"]);
        report.export("EXPORT_PARAM_TIME_SHIFT", &shift.to_string());
        let built =
            crate::support::report(&[report.save(folder.path(), &format!("run{shift}.sqlite"))]);
        let steps = &crate::support::only_rank(&built).steps;
        crate::support::assert_numbers(
            &steps[0],
            &[("step_ns", 1000), ("idle_ns", 900), ("start_ns", shift + 1000)],
        );
        crate::support::assert_numbers(
            &steps[1],
            &[("step_ns", 100), ("idle_ns", 0), ("start_ns", shift + 2000)],
        );
    }
}

#[test]
fn a_comparison_never_replaces_what_it_reads() {
    let folder = crate::support::folder();
    let at = |name: &str| folder.path().join(name);
    let names = ["step 1", "step 2", "step 3"];
    let inputs = ["a_0.json", "b_0.json"].map(|name| steps(&names).save(folder.path(), name));
    std::fs::write(at("nccl.txt"), "h:1:1 [0] NCCL INFO NCCL_DEBUG set by environment to INFO\n")
        .expect("written");
    std::fs::write(
        at("set.csv"),
        "[[variant]]\nname = 'a'\nreports = 'a_0.json'\nnccl_log = 'nccl.txt'\n[[variant]]\nname = 'b'\nreports = 'b_0.json'\n",
    )
    .expect("written");
    std::fs::create_dir(at("x")).expect("made");
    let before: Vec<Vec<u8>> =
        inputs.iter().map(|path| std::fs::read(path).expect("read")).collect();
    for arguments in [
        &["compare", "a_0.json", "b_0.json", "-o", "b_0.json"][..],
        &["compare", "a=a_*.json", "b=b_0.json", "-o", "x/../a_0.json"],
        &["compare", "--manifest", "set.csv", "-o", "a_0.json"],
        &["compare", "--manifest", "set.csv", "-o", "nccl.txt"],
        &["compare", "--manifest", "set.csv", "-o", "set.csv"],
    ] {
        assert_refused(
            &run(folder.path(), arguments),
            2,
            &["would overwrite an input", "try: choose another file"],
        );
    }
    assert_eq!(inputs.map(|path| std::fs::read(path).expect("read")).to_vec(), before);
    assert_eq!(
        run(folder.path(), &["compare", "--manifest", "set.csv", "-o", "out.csv"]).status.code(),
        Some(0)
    );
}

#[test]
fn an_output_that_is_a_folder_leaves_the_others_unwritten() {
    let folder = crate::support::folder();
    steps(&["step 1", "step 2"]).save(folder.path(), "run_0.sqlite");
    std::fs::create_dir(folder.path().join("page.html")).expect("made");
    for name in ["page.html", "page.html/"] {
        let output = run(folder.path(), &["report", "run_0.sqlite", "-o", "good.md", "-o", name]);
        assert_refused(&output, 2, &["page.html", "is a folder", "try: name a file in it"]);
    }
    assert!(!folder.path().join("good.md").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn an_error_that_cannot_be_written_is_an_error_all_the_same() {
    let folder = crate::support::folder();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("opens");
    let mut command = Command::new(env!("CARGO_BIN_EXE_nsysnccl"));
    let status = command
        .args(["report", "nothing.sqlite"])
        .current_dir(folder.path())
        .stderr(full)
        .status()
        .expect("runs");
    assert_eq!(status.code(), Some(3));
}

#[test]
fn a_report_with_changes_beside_it_is_not_read_without_them() {
    let folder = crate::support::folder();
    let at = |name: &str| folder.path().join(name);
    let path = steps(&["step 1", "step 2", "step 3"]).save(folder.path(), "run_0.sqlite");
    let ok = |name: &str| assert_eq!(run(folder.path(), &["report", name]).status.code(), Some(0));
    // A writer that has changed the report and is still there.
    let writer = rusqlite::Connection::open(&path).expect("opens");
    writer
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; DELETE FROM NVTX_EVENTS",
        )
        .expect("changes");
    assert_refused(
        &run(folder.path(), &["report", "run_0.sqlite"]),
        3,
        &["run_0.sqlite: was changed", "-wal", "wal_checkpoint(TRUNCATE)"],
    );
    std::fs::create_dir(at("links")).expect("made");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&path, at("links/run_0.sqlite")).expect("a link");
        assert_refused(
            &run(folder.path(), &["report", "links/run_0.sqlite"]),
            3,
            &["links/run_0.sqlite: was changed"],
        );
    }
    drop(writer);
    assert!(
        text(&run(folder.path(), &["report", "run_0.sqlite"]).stdout).contains("no NVTX ranges")
    );
    // An export that was broken off, one that ended, and files that only happen to be there.
    steps(&["step 1", "step 2", "step 3"]).save(folder.path(), "ended_0.sqlite");
    std::fs::write(at("ended_0.sqlite-journal"), b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7\0\0\0\x01")
        .expect("written");
    assert_refused(
        &run(folder.path(), &["report", "ended_0.sqlite"]),
        3,
        &["ended_0.sqlite: is not finished", "try: wait"],
    );
    std::fs::write(at("ended_0.sqlite-journal"), [0; 512]).expect("written");
    std::fs::write(at("ended_0.sqlite-wal"), "").expect("written");
    ok("ended_0.sqlite");
}

#[test]
fn views_in_place_of_tables_are_refused() {
    let folder = crate::support::folder();
    let endless = "WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start + 1 FROM n) SELECT start, start + 1 AS \"end\" FROM n";
    for (table, view) in
        [("NVTX_EVENTS", "SELECT * FROM hidden"), ("CUPTI_ACTIVITY_KIND_MEMSET", endless)]
    {
        let path = steps(&["step 1", "step 2"]).save(folder.path(), "run_0.sqlite");
        let rename =
            if table == "NVTX_EVENTS" { "ALTER TABLE NVTX_EVENTS RENAME TO hidden;" } else { "" };
        edit(&path, &format!("{rename} CREATE VIEW {table} AS {view}"));
        assert_refused(
            &run(folder.path(), &["report", "run_0.sqlite"]),
            3,
            &["run_0.sqlite: holds a view", table, "try: export"],
        );
        std::fs::remove_file(path).expect("removed");
    }
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_neither_read_nor_waited_for() {
    let folder = crate::support::folder();
    let fifo = folder.path().join("logs/a.log");
    std::fs::create_dir(folder.path().join("logs")).expect("made");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("runs").success());
    for path in ["/dev/null", "/dev/zero", "logs/a.log"] {
        assert_refused(
            &run(folder.path(), &["report", path]),
            3,
            &[path, "is a pipe or a device", "try: save it as a file"],
        );
    }
    // A pipe that is found in a folder would be waited for without end.
    assert_refused(&run(folder.path(), &["inspect", "logs"]), 3, &["logs: holds no .log"]);
}

#[test]
fn commands_that_are_proposed_are_safe_to_paste() {
    let folder = crate::support::folder();
    std::fs::write(folder.path().join("it's; x.nsys-rep"), "raw").expect("written");
    assert_refused(
        &run(folder.path(), &["report", "it's; x.nsys-rep"]),
        3,
        &[r"--include-json true 'it'\''s; x.nsys-rep'"],
    );
}

#[test]
fn secrets_stay_where_they_are() {
    let folder = crate::support::folder();
    let assignments = [
        ("SECRET_TOKEN", "hunter2"),
        ("NCCL_SECRET_KEY", "hunter2"),
        ("CUDA_PASSPHRASE", "hunter2"),
        ("NCCL_A", "x;AWS_ID=hunter2"),
        ("NCCL_B", "https://me:hunter2@host/"),
        ("NCCL_C", "https://host/?sig=hunter2"),
        ("NCCL_D", "Bearer hunter2"),
        ("NCCL_E", "1 --token hunter2"),
        ("NCCL_F", "{\"x\": \"hunter2\"}"),
        ("NCCL_SHOWN", "this"),
    ];
    let mut report = steps(&["step 1", "step 2", "step 3"]);
    assignments.iter().for_each(|(name, value)| report.env(name, value));
    report.system(
        "DeviceEnvironment",
        &assignments.map(|(name, value)| format!("{name}={value}")).join(";"),
    );
    report.save(folder.path(), "a_0.sqlite");
    report.save(folder.path(), "b_0.sqlite");
    let lines = assignments.map(|(name, value)| {
        format!("h:7:7 [0] NCCL INFO {name} set by environment to {value}.\n")
    });
    std::fs::write(folder.path().join("n.log"), lines.concat()).expect("written");
    for command in [
        &["report", "a_0.sqlite"][..],
        &["report", "a_0.sqlite", "-v", "--nccl-log", "n.log"],
        &["report", "a_0.sqlite", "--step", "none"],
        &["compare", "a_0.sqlite", "b_0.sqlite", "-v"],
    ] {
        for format in ["terminal", "markdown", "html", "json", "csv"] {
            let output = run(folder.path(), &[command, &["--full", "--format", format]].concat());
            let all = text(&output.stdout) + &text(&output.stderr);
            assert!(!all.contains("hunter2"), "{command:?} {format}: {all}");
            // What may be shown is: the search above looked at the right thing.
            let shows = command[0] == "report" && output.status.success() && format != "csv";
            assert!(
                !shows || all.contains("NCCL_SHOWN") && all.contains("NCCL_A"),
                "{command:?} {format}: {all}"
            );
        }
    }
}

/// The words after `--step` that an error proposes, as a shell reads them.
fn proposed(error: &str) -> Option<String> {
    let (_, rest) = error.split_once("for example --step ")?;
    let (word, _) = rest.split_once("; or --step")?;
    let echo =
        Command::new("sh").arg("-c").arg(format!("printf %s {word}")).output().expect("runs");
    Some(String::from_utf8(echo.stdout).expect("UTF-8"))
}

#[cfg(unix)]
#[test]
fn a_proposed_pattern_survives_the_shell_and_finds_steps() {
    let folder = crate::support::folder();
    let long = "x".repeat(100_000);
    for name in [
        "it's a phase",
        "'; touch pwned; '",
        "$(touch pwned)",
        "`touch pwned`",
        "#",
        "a#b",
        "loop #7",
        "a\nb",
        "p\t1",
        "\u{202e}x",
        "(a|b)[c]{2}^$.*+?\\",
        "",
        "-x",
        "na\u{ef}ve \u{6f22}",
        "  pad ",
        long.as_str(),
    ] {
        let path = steps(&[name]).save(folder.path(), "run_0.sqlite");
        let output = run(folder.path(), &["report", "run_0.sqlite", "--step", "none of them"]);
        assert_refused(&output, 3, &["run_0.sqlite: no NVTX range matches --step"]);
        let error = text(&output.stderr);
        assert!(error.len() < 2000, "{} bytes", error.len());
        let pattern = proposed(&error).unwrap_or_else(|| panic!("no proposal: {error}"));
        // Without --step the same pattern is proposed beside the whole capture.
        let whole = crate::support::report(std::slice::from_ref(&path));
        let doubt =
            whole.warnings.iter().find(|w| w.code.as_str() == "steps-uncovered").expect("a doubt");
        assert_eq!(proposed(doubt.hint.as_deref().unwrap_or_default()).as_deref(), Some(&*pattern));
        let output = run(folder.path(), &["report", "run_0.sqlite", "--step", &pattern]);
        assert_eq!(output.status.code(), Some(0), "{name:?} {pattern:?}: {}", text(&output.stderr));
        std::fs::remove_file(path).expect("removed");
    }
    assert_eq!(
        std::fs::read_dir(folder.path()).expect("a folder").count(),
        0,
        "something was executed"
    );
}

#[test]
fn what_is_proposed_looks_like_a_step_and_launches_work() {
    let folder = crate::support::folder();
    // Small ranges are the most frequent, and none launches anything; the steps were meant.
    let mut report = steps(&["Batch 4", "Batch 5", "Batch 6"]);
    (0..50).for_each(|i| report.range(thread(7, 9), "aten::add", 10 * i..10 * i + 5));
    report.save(folder.path(), "a_0.sqlite");
    let output = run(folder.path(), &["report", "a_0.sqlite", "--step", "Btch"]);
    assert_eq!(proposed(&text(&output.stderr)).as_deref(), Some(r"^Batch \d+$"));
    // A loader repeats on a thread of its own and launches nothing.
    let mut report = steps(&["pass one", "pass two"]);
    (0..50).for_each(|i| report.range(thread(7, 9 + i as u32), "get data", 10 * i..10 * i + 5));
    report.save(folder.path(), "b_0.sqlite");
    let output = run(folder.path(), &["report", "b_0.sqlite", "--step", "none"]);
    assert!(
        proposed(&text(&output.stderr)).expect("a proposal").starts_with("^pass "),
        "{}",
        text(&output.stderr)
    );
    // Where no range launches anything, none is proposed.
    let mut report = Report::default();
    report.range(thread(7, 7), "alone", 0..10);
    report.kernel("gemm", stream(7), 100..200, thread(7, 7).at(50));
    report.save(folder.path(), "c_0.sqlite");
    let output = run(folder.path(), &["report", "c_0.sqlite", "--step", "none"]);
    assert_refused(&output, 3, &["1 x 'alone'", "try: use --step whole"]);
}

#[test]
fn a_repeated_text_with_a_number_sign_or_a_tab_is_a_step() {
    let folder = crate::support::folder();
    for name in ["epoch #", "E\t", "\u{202e}", "it's ", &"y".repeat(100_000)] {
        let names = [1, 2, 3].map(|i| format!("{name}{i}"));
        let path = steps(&names.each_ref().map(String::as_str)).save(folder.path(), "run_0.sqlite");
        let built = crate::support::report(std::slice::from_ref(&path));
        assert_eq!(
            (built.steps.len(), built.settings.step_pattern_source.label()),
            (3, "repeated range"),
            "{name}"
        );
        std::fs::remove_file(path).expect("removed");
    }
}

#[test]
fn an_unusable_input_does_not_stop_the_search_for_steps() {
    let folder = crate::support::folder();
    std::fs::write(folder.path().join("a_9.sqlite"), "nothing").expect("written");
    steps(&["epoch 1", "epoch 2"]).save(folder.path(), "b_0.sqlite");
    let output = run(folder.path(), &["report", "a_9.sqlite", "b_0.sqlite", "--keep-going"]);
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("2 steps"), "{}", text(&output.stdout));
}
