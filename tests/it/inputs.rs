//! What may be named in place of exported reports: folders, reports that nsys exports, and which steps of them count.

use std::ops::Range;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::folder;
use crate::support::report::{Report, stream, thread};
use crate::support::scenes::{EPOCH, GEMM, MS};

/// One rank whose step `i` takes `lengths[i]` ms, one behind the other:
///
/// ```text
/// CPU   | step 0 |        | step 1 |                 1 ms each
/// GPU 7 |-- lengths[0] --||-- lengths[1] --| ...     20 ns after its range begins
/// ```
fn rank(rank: u32, steps: Range<usize>, lengths: &[i64]) -> Report {
    let mut report = Report::default();
    report.session(EPOCH);
    report.env("RANK", &rank.to_string());
    report.system("Hostname", "node0");
    let main = thread(1000 + rank, 1000 + rank);
    report.gpu(i64::from(rank), "NVIDIA H200", main.pid, 0);
    for step in steps {
        let at = lengths[..step].iter().sum::<i64>() * MS;
        report.range(main, &format!("step {step}"), at..at + MS);
        report.kernel(GEMM, stream(7), at + 20..at + 20 + lengths[step] * MS, main.at(at + 10));
    }
    report
}

/// Lengths of steps, ms: the first and the fifth are far from the others.
const LENGTHS: [i64; 7] = [40, 10, 11, 12, 50, 13, 14];

/// Two ranks of one run, the first of which lacks step 0.
fn save(folder: &Path, name: &str) {
    std::fs::create_dir_all(folder).expect("a folder");
    rank(0, 1..7, &LENGTHS).save(folder, &format!("{name}_0.sqlite"));
    rank(1, 0..7, &LENGTHS).save(folder, &format!("{name}_1.sqlite"));
}

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nsysnccl"));
    command.args(arguments).current_dir(folder);
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().expect("runs")
}

/// Standard output and standard error of a call that ends with this status.
fn said(output: Output, status: i32) -> [String; 2] {
    let text = [output.stdout, output.stderr].map(|b| String::from_utf8_lossy(&b).into_owned());
    assert_eq!(output.status.code(), Some(status), "{}", text[1]);
    text
}

fn json(folder: &Path, arguments: &[&str]) -> Value {
    let all = [arguments, &["--format", "json", "-q"]].concat();
    let [text, _] = said(run(folder, &all), 0);
    serde_json::from_str(&text).expect("JSON")
}

/// Runs what a hint says, in a shell, with the program on the PATH.
#[cfg(unix)]
fn paste(folder: &Path, hint: &str) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_nsysnccl")).parent().expect("a folder");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").expect("is set"));
    let mut shell = Command::new("sh");
    shell.args(["-c", hint]).current_dir(folder).env("PATH", path);
    shell.output().expect("runs")
}

fn hint(error: &str) -> &str {
    error.split_once("try: ").map(|(_, hint)| hint.trim()).expect("a hint")
}

const LOG: &str = "node0:1000:1000 [0] NCCL INFO ncclCommInitRankConfig comm 0xf rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId a000 commId 0x77 - Init COMPLETE\n";
const MATRIX: &str = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV18\t0-31\nGPU1\tNV18\t X \t0-31\n";

#[test]
fn a_folder_is_the_run_in_it() {
    let dir = folder();
    let at = |name: &str| dir.path().join(name);
    save(&at("run"), "ddp");
    std::fs::write(at("run/ddp.nccl.log"), LOG).expect("a log");
    std::fs::write(at("run/topo.txt"), MATRIX).expect("a matrix");
    std::fs::write(at("run/notes.txt"), "lr 0.1\n").expect("a file");
    let [named, silent] = said(
        run(
            dir.path(),
            &[
                "report",
                "run/ddp_0.sqlite",
                "run/ddp_1.sqlite",
                "--nccl-log",
                "run/ddp.nccl.log",
                "--topo",
                "run/topo.txt",
            ],
        ),
        0,
    );
    assert_eq!(silent, "");
    let [found, told] = said(run(dir.path(), &["report", "run"]), 0);
    assert_eq!(found, named);
    assert_eq!(
        told,
        "run: run 'ddp': 2 reports (ddp_0.sqlite, ddp_1.sqlite), 1 NCCL log (ddp.nccl.log), topology topo.txt\n"
    );
    assert_eq!(said(run(dir.path(), &["report", "run", "-q"]), 0)[1], "");
    // Its own page does not get in the way, but nothing that is read is written over.
    for status in [0, 0] {
        said(run(dir.path(), &["report", "run", "-q", "-o", "run/page.json"]), status);
    }
    said(run(dir.path(), &["report", "run", "-q", "-o", "run/topo.txt"]), 2);
    // What is named counts in place of what is found.
    std::fs::write(at("other.txt"), MATRIX).expect("a matrix");
    let [_, told] = said(run(dir.path(), &["report", "run", "--topo", "other.txt"]), 0);
    assert!(told.ends_with("topology other.txt\n"), "{told}");
}

#[cfg(unix)]
#[test]
fn several_runs_in_a_folder_are_an_error_with_the_command_that_compares_them() {
    let dir = folder();
    save(&dir.path().join("runs"), "ddp");
    save(&dir.path().join("runs"), "ddp-view");
    for arguments in [&["report", "runs"][..], &["compare", "a=runs"]] {
        let [output, error] = said(run(dir.path(), arguments), 3);
        assert!(output.is_empty() && error.contains("runs: holds 2 runs: "), "{error}");
        let command = hint(&error);
        assert!(command.starts_with("nsysnccl compare "), "{command}");
        said(paste(dir.path(), command), 0);
    }
}

#[test]
fn folders_are_variants() {
    let dir = folder();
    save(&dir.path().join("run_1"), "ddp");
    save(&dir.path().join("run_2"), "ddp");
    let names = |arguments: &[&str]| -> Vec<(String, usize)> {
        let view = json(dir.path(), arguments);
        let variants = view["variants"].as_array().expect("a list").iter();
        variants
            .map(|v| {
                let captures = v["captures"].as_array().expect("a list").len();
                (v["name"].as_str().expect("a text").to_owned(), captures)
            })
            .collect()
    };
    let pair = |a: (&str, usize), b: (&str, usize)| [(a.0.to_owned(), a.1), (b.0.to_owned(), b.1)];
    // Folders whose names differ only in a number are not ranks of one run.
    assert_eq!(names(&["compare", "run_1", "run_2/"]), pair(("run_1", 1), ("run_2", 1)));
    assert_eq!(names(&["compare", "a=run_1", "b=run_2"]), pair(("a", 1), ("b", 1)));
    save(&dir.path().join("other"), "ddp");
    assert_eq!(names(&["compare", "a=run_*", "b=other"]), pair(("a", 2), ("b", 1)));
}

#[test]
fn a_broken_report_in_a_folder_is_not_missed() {
    let dir = folder();
    save(dir.path(), "ddp");
    std::fs::write(dir.path().join("ddp_2.sqlite"), b"SQLite format 3\0....").expect("a file");
    let [_, error] = said(run(dir.path(), &["report", "."]), 3);
    assert!(error.contains("ddp_2.sqlite"), "{error}");
    let [_, error] = said(run(dir.path(), &["report", ".", "--keep-going"]), 4);
    assert!(error.contains("left out: ") && error.contains("ddp_2.sqlite"), "{error}");
    std::fs::create_dir(dir.path().join("hollow")).expect("a folder");
    let [_, error] = said(run(dir.path(), &["report", "hollow"]), 3);
    assert!(error.contains("hollow: holds no file that nsysnccl reads"), "{error}");
}

/// A program called nsys: it copies the export that lies under the report's name in `exports`, and counts its calls.
#[cfg(unix)]
fn fake_nsys(dir: &Path, script: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(dir.join("bin")).expect("a folder");
    let at = dir.join("bin/nsys");
    std::fs::write(&at, format!("#!/bin/sh\nroot='{}'\n{script}\n", dir.display())).expect("it");
    std::fs::set_permissions(&at, PermissionsExt::from_mode(0o755)).expect("executable");
}

#[cfg(unix)]
const COPIES: &str = r#"echo "$*" >> "$root/calls"
while [ $# -gt 1 ]; do [ "$1" = --output ] && out=$2; shift; done
cp "$root/exports/$(basename "$1" .nsys-rep).sqlite" "$out""#;

#[cfg(unix)]
#[test]
fn reports_of_nsys_are_exported_into_the_cache_by_nsys_itself() {
    let dir = folder();
    let at = |name: &str| dir.path().join(name);
    save(&at("exports"), "ddp");
    std::fs::create_dir(at("in")).expect("a folder");
    for name in ["in/ddp_0.nsys-rep", "in/ddp_1.nsys-rep"] {
        std::fs::write(at(name), "raw").expect("a report");
    }
    let run = |arguments: &[&str]| {
        let path = format!("{}:{}", at("bin").display(), std::env::var("PATH").expect("is set"));
        let mut command = command(dir.path(), arguments);
        command.env("PATH", path).env("XDG_CACHE_HOME", at("cache")).output().expect("runs")
    };
    let calls = || std::fs::read_to_string(at("calls")).unwrap_or_default().lines().count();
    // There is no nsys: as ever.
    let [_, error] = said(run(&["report", "in/ddp_0.nsys-rep"]), 3);
    assert!(
        error.contains("which only nsys itself can read\n  try: run: nsys export --type sqlite"),
        "{error}"
    );
    fake_nsys(dir.path(), "echo 'first'; echo 'no licence' >&2; exit 3");
    let [_, error] = said(run(&["report", "in/ddp_0.nsys-rep"]), 3);
    assert!(
        error.contains("was not exported") && error.contains("try: run: nsys export"),
        "{error}"
    );
    fake_nsys(dir.path(), COPIES);
    let steps = |output: Output| {
        let [text, _] = said(output, 0);
        let view: Value = serde_json::from_str(&text).expect("JSON");
        (view["ranks"].as_array().map(Vec::len), view["steps"].as_array().map(Vec::len))
    };
    let named = ["report", "in/ddp_0.nsys-rep", "in/ddp_1.nsys-rep", "--format", "json"];
    assert_eq!((steps(run(&named)), calls()), ((Some(2), Some(6)), 2));
    let flags = std::fs::read_to_string(at("calls")).expect("was called");
    assert!(
        flags.starts_with(
            "export --type sqlite --include-blobs true --include-json true --force-overwrite true --output "
        ),
        "{flags}"
    );
    // What was exported once is read again, also out of a folder and by compare.
    assert_eq!(
        (steps(run(&["report", "in", "--format", "json"])), calls()),
        ((Some(2), Some(6)), 2)
    );
    said(run(&["compare", "a=in/ddp_*.nsys-rep", "b=in"]), 0);
    assert_eq!(calls(), 2);
    let beside: Vec<_> = std::fs::read_dir(at("in")).expect("a folder").collect();
    assert_eq!(beside.len(), 2, "{beside:?}");
    // Another report of that name is exported anew.
    std::fs::write(at("in/ddp_1.nsys-rep"), "raw and more").expect("a report");
    assert_eq!((steps(run(&named)), calls()), ((Some(2), Some(6)), 3));
}

/// The run has the steps 1 to 6, as positions 0 to 5: rank 0 lacks step 0.
#[test]
fn steps_are_chosen_by_their_position_in_the_run() {
    let dir = folder();
    save(dir.path(), "ddp");
    let view = |arguments: &[&str]| json(dir.path(), &[&["report", "."], arguments].concat());
    let steps = |view: &Value| -> Vec<(String, i64)> {
        let steps = view["steps"].as_array().expect("a list").iter();
        steps
            .map(|s| {
                let name = s["name"].as_str().expect("a text").to_owned();
                (name, s["step_ns"].as_i64().expect("a number") / MS)
            })
            .collect()
    };
    let step = |name: &str, ms: i64| (name.to_owned(), ms);
    let all = view(&[]);
    assert_eq!(steps(&all).len(), 6);
    let some = view(&["--steps", "5,1-2"]);
    assert_eq!(steps(&some), [step("step 2", 11), step("step 3", 12), step("step 6", 14)]);
    assert_eq!(some["summary"]["step_ns"]["median"].as_i64(), Some(12 * MS));
    assert_eq!(some["settings"]["steps"], serde_json::json!([1, 2, 5]));
    // On each rank those same steps, and none that only one has.
    for rank in some["ranks"].as_array().expect("a list") {
        let names: Vec<&str> = rank["steps"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|s| s["name"].as_str())
            .collect();
        assert_eq!(names, ["step 2", "step 3", "step 6"]);
    }
    let [text, _] = said(run(dir.path(), &["report", ".", "--steps", "1-2", "--full"]), 0);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("only 1-2 are reported on (--steps)"), "{text}");
    for (arguments, status, words) in [
        (&["--steps", "6"][..], 3, "there is no step 6 of --steps: the run has 6 steps, 0 to 5"),
        (&["--steps", "2-1"], 2, "'2-1' is not a range of steps"),
        (&["--steps", "one"], 2, "'one' is not the number of a step"),
        (&["--steps", "1", "--skip", "1"], 2, "cannot be used with"),
    ] {
        let [_, error] = said(run(dir.path(), &[&["report", "."], arguments].concat()), status);
        assert!(error.contains(words), "{error}");
    }
    save(&dir.path().join("b"), "view");
    let compared =
        json(dir.path(), &["compare", "a=ddp_*.sqlite", "b=b/view_*.sqlite", "--steps", "0-1,5"]);
    for variant in compared["variants"].as_array().expect("a list") {
        // 10, 11 and 14 ms.
        assert_eq!(variant["captures"][0]["step_ns_median"].as_f64(), Some(11.0 * MS as f64));
    }
}

/// Of 10, 11, 12, 50, 13, 14 ms (median 12.5, scaled MAD 2.2) 50 is an outlier.
#[test]
fn outliers_are_left_out_of_a_report_that_is_asked_to() {
    let dir = folder();
    save(dir.path(), "ddp");
    let mean = |arguments: &[&str]| {
        let view = json(dir.path(), &[&["report", "ddp_*.sqlite"], arguments].concat());
        (view["summary"]["step_ns"]["mean"].as_f64(), view["summary"]["counted_steps"].as_u64())
    };
    // 110 / 6 ms, and 60 / 5 ms.
    let (all, counted) = mean(&[]);
    assert_eq!((all.map(|ns| (ns / 1e3).round()), counted), (Some(18_333.0), Some(6)));
    assert_eq!(mean(&["--exclude-outliers"]), (Some(12e6), Some(5)));
    let [text, _] = said(run(dir.path(), &["report", ".", "--exclude-outliers"]), 0);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains(
            "1 outlier is left out of the medians because of --exclude-outliers: “step 4”"
        ),
        "{text}"
    );
}

#[test]
fn a_hyphen_is_standard_output_for_every_command() {
    let dir = folder();
    save(dir.path(), "ddp");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/shm/shm-2gpu_inspector");
    let logs = example.to_str().expect("UTF-8");
    for arguments in [
        &["report", "."][..],
        &["compare", "a=ddp_0.sqlite", "b=ddp_1.sqlite"],
        &["doctor", "."],
        &["inspect", logs],
    ] {
        let [plain, _] = said(run(dir.path(), arguments), 0);
        let [hyphen, _] = said(run(dir.path(), &[arguments, &["-o", "-"]].concat()), 0);
        assert!(!plain.is_empty());
        assert_eq!(plain, hyphen, "{arguments:?}");
        assert!(!dir.path().join("-").exists());
    }
}

#[cfg(unix)]
#[test]
fn what_is_not_an_export_is_named_with_what_reads_it() {
    let dir = folder();
    let at = |name: &str| dir.path().join(name);
    save(dir.path(), "ddp");
    std::fs::write(at("topo.out"), MATRIX).expect("a matrix");
    std::fs::write(at("set.toml"), "[[variant]]\nname = 'a'\n").expect("a manifest");
    std::fs::write(at("words"), "hello\n").expect("a file");
    said(run(dir.path(), &["report", "ddp_0.sqlite", "-o", "saved.json"]), 0);
    for (name, fact, try_) in [
        ("topo.out", "is a topology, not an export of nsys", "report --topo"),
        ("set.toml", "is a manifest, not an export of nsys", "compare --manifest"),
        ("saved.json", "is a saved report, not an export of nsys", "nsysnccl compare"),
        ("words", "is not a SQLite file", "report --nccl-log"),
    ] {
        let [_, error] = said(run(dir.path(), &["report", name]), 3);
        assert!(error.contains(fact) && hint(&error).contains(try_), "{error}");
    }
    // A hint that is followed to the letter works.
    let packed = Command::new("gzip").arg(at("ddp_1.sqlite")).status().expect("runs");
    assert!(packed.success());
    let [_, error] = said(run(dir.path(), &["report", "ddp_1.sqlite.gz"]), 3);
    assert!(error.contains("is compressed with gzip"), "{error}");
    let (_, command) = hint(&error).split_once("unpack it first: ").expect("a command");
    said(paste(dir.path(), command), 0);
    said(run(dir.path(), &["report", "ddp_1.sqlite"]), 0);
}

#[test]
fn doctor_names_the_inputs_of_other_commands() {
    let dir = folder();
    let at = |name: &str| dir.path().join(name);
    save(dir.path(), "ddp");
    said(run(dir.path(), &["report", ".", "-q", "-o", "saved.json"]), 0);
    std::fs::write(at("nsysnccl.toml"), "[[variant]]\nname = 'a'\nreports = 'ddp_*.sqlite'\n")
        .expect("a manifest");
    std::fs::create_dir(at("dump")).expect("a folder");
    for name in ["gpu_events_rank_0_buf_0", "gpu_events_rank_0_buf_1", "gpu_clock_rate_rank_0"] {
        std::fs::write(at("dump").join(name), [0; 32]).expect("a dump");
    }
    let view = json(dir.path(), &["doctor", "."]);
    let files: Vec<(&str, &str)> = view["further_files"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|file| Some((file["path"].as_str()?, file["read_by"].as_str()?)))
        .collect();
    assert_eq!(
        files,
        [
            ("saved.json", "compare"),
            ("nsysnccl.toml", "compare --manifest"),
            ("dump", "npkit and report --npkit")
        ]
    );
    let [first, _] = said(run(dir.path(), &["doctor", "."]), 0);
    assert!(first.contains("3 inputs of other commands"), "{first}");
    let [text, _] = said(run(dir.path(), &["doctor", ".", "--full"]), 0);
    assert!(text.contains("saved.json: a saved report, read by nsysnccl compare"), "{text}");
}
