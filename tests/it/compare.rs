//! `nsysnccl compare` as it is typed: groups, formats, exit status.

use std::path::{Path, PathBuf};
use std::process::Output;

use crate::support::report::{Report, stream, thread};
use crate::support::scenes::{ALL_REDUCE, GEMM, MS};
use crate::support::{captures, folder};
use assert_cmd::Command;
use serde_json::Value;

/// One rank whose steps take `steps` (tenths of a ms): compute, then 10 ms of AllReduce, then nothing until the next step.
///
/// ```text
/// stream 7    | gemm (step - 12 ms) |
/// stream 20                         | AllReduce 10 ms | 2 ms idle
/// ```
fn run(folder: &Path, name: &str, steps: &[i64]) -> PathBuf {
    let mut report = Report::default();
    let main = thread(1000, 1000);
    report.env("RANK", "0");
    let mut at = 20 * MS;
    for (i, tenths) in steps.iter().enumerate() {
        let (end, cpu) = (at + tenths * MS / 10, at - 9 * MS);
        report.range(main, &format!("Batch {i}"), cpu..cpu + MS);
        report.kernel(GEMM, stream(7), at..end - 12 * MS, main.at(cpu + 1));
        report.kernel(ALL_REDUCE, stream(20), end - 12 * MS..end - 2 * MS, main.at(cpu + 2));
        at = end;
    }
    report.save(folder, &format!("{name}_0.sqlite"))
}

fn nsysnccl(folder: &Path, args: &[&str]) -> Output {
    Command::cargo_bin("nsysnccl")
        .expect("is built")
        .current_dir(folder)
        .args(args)
        .output()
        .expect("runs")
}

/// Exit status and the JSON document.
fn json(folder: &Path, args: &[&str]) -> (i32, Value) {
    let out = nsysnccl(folder, &[args, &["--format", "json"]].concat());
    let text = String::from_utf8(out.stdout).expect("UTF-8");
    let document = serde_json::from_str(&text)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&out.stderr)));
    (out.status.code().expect("ends by itself"), document)
}

fn error(folder: &Path, args: &[&str]) -> (i32, String) {
    let out = nsysnccl(folder, args);
    assert!(out.stdout.is_empty(), "{}", String::from_utf8_lossy(&out.stdout));
    (out.status.code().expect("ends by itself"), String::from_utf8(out.stderr).expect("UTF-8"))
}

/// A last step is one of idle less: it ends with its own work. So the steps before it decide.
const SLOW: [i64; 7] = [1000, 1001, 999, 1000, 1002, 1000, 1000];
const FAST: [i64; 7] = [900, 901, 899, 900, 902, 900, 900];

#[test]
fn a_faster_variant_is_faster_because_of_compute() {
    let dir = folder();
    run(dir.path(), "old", &SLOW);
    run(dir.path(), "new", &FAST);
    let (exit, c) = json(dir.path(), &["compare", "old_0.sqlite", "new_0.sqlite"]);
    assert_eq!(exit, 0);
    assert_eq!(c["baseline"], "old");
    let new = &c["variants"][1];
    assert_eq!(new["verdict"], "faster");
    // 100.0 and 90.0 ms.
    assert!(
        (new["speedup"].as_f64().expect("a ratio") - 100.0 / 90.0).abs() < 1e-9,
        "{}",
        new["speedup"]
    );
    assert_eq!(new["delta"]["compute_ns"]["abs"], -10 * MS);
    let parts = c["waterfall"]["new"].as_object().expect("has parts");
    assert_eq!(parts.values().map(|v| v.as_i64().expect("whole")).sum::<i64>(), -10 * MS);
    assert_eq!(
        (&parts["compute_ns"], &parts["exposed_comm_ns"], &parts["idle_ns"]),
        (&(-10 * MS).into(), &0.into(), &0.into())
    );
}

#[test]
fn the_plain_program_is_the_baseline_of_its_changes() {
    let dir = folder();
    run(dir.path(), "ddp-view", &FAST);
    run(dir.path(), "ddp", &SLOW);
    // As a shell sorts them: '-' before '_'.
    let files = ["ddp-view_0.sqlite", "ddp_0.sqlite"];
    let baseline = |args: &[&str]| {
        let (_, c) = json(dir.path(), &[&["compare"], args].concat());
        (c["baseline"].clone(), c["settings"]["baseline_source"].clone())
    };
    assert_eq!(baseline(&files), ("ddp".into(), "plain".into()));
    assert_eq!(
        baseline(&["ddp-view=ddp-view_0.sqlite", "ddp=ddp_0.sqlite"]),
        ("ddp-view".into(), "first".into())
    );
    assert_eq!(
        baseline(&["--baseline", "ddp-view", files[0], files[1]]),
        ("ddp-view".into(), "told".into())
    );
    let text = String::from_utf8(nsysnccl(dir.path(), &[&["compare"][..], &files].concat()).stdout)
        .expect("UTF-8");
    assert!(text.replace('\n', " ").contains("the other names begin with its name"), "{text}");
}

#[test]
fn a_gate_is_an_exit_status() {
    let dir = folder();
    run(dir.path(), "old", &SLOW);
    run(dir.path(), "new", &FAST);
    run(dir.path(), "short", &FAST[..1]);
    let gate = |args: &[&str]| {
        let (exit, c) = json(dir.path(), &[&["compare", "--gate", "5"], args].concat());
        (exit, c["gate"]["failed"].clone(), c["gate"]["inconclusive"].clone())
    };
    assert_eq!(
        gate(&["old_0.sqlite", "new_0.sqlite"]),
        (0, Value::Array(vec![]), Value::Array(vec![]))
    );
    assert_eq!(
        gate(&["new_0.sqlite", "old_0.sqlite"]),
        (1, serde_json::json!(["old"]), Value::Array(vec![]))
    );
    assert_eq!(
        gate(&["old_0.sqlite", "short_0.sqlite"]),
        (5, Value::Array(vec![]), serde_json::json!(["short"]))
    );
    // The result is written all the same.
    let out = nsysnccl(
        dir.path(),
        &["compare", "new_0.sqlite", "old_0.sqlite", "--gate", "5", "-o", "c.md"],
    );
    assert_eq!(out.status.code(), Some(1));
    let text = std::fs::read_to_string(dir.path().join("c.md")).expect("was written");
    assert!(text.contains("Gate failed. Slower by more than 5 %: old."), "{text}");
}

#[test]
fn wrong_usage_is_told_from_unusable_files() {
    let dir = folder();
    run(dir.path(), "a", &SLOW);
    run(dir.path(), "b", &FAST);
    std::fs::write(dir.path().join("text.sqlite"), "no database").expect("written");
    for (args, exit, words) in [
        (&["compare"][..], 2, "no variant"),
        (&["compare", "a_0.sqlite"], 2, "at least two variants"),
        (&["compare", "a_0.sqlite", "b_0.sqlite", "--baseline", "c"], 2, "use one of: a, b"),
        (&["compare", "a_0.sqlite", "b_0.sqlite", "--min-effect", "3"], 2, "between 0 and 1"),
        (
            &["compare", "a_0.sqlite", "b_0.sqlite", "--option", "c=view"],
            2,
            "names none of the variants",
        ),
        (
            &["compare", "a_0.sqlite", "b_0.sqlite", "--option", "b=wings"],
            2,
            "gradient_as_bucket_view",
        ),
        (&["compare", "a_0.sqlite", "b_0.sqlite", "-o", "c.xlsx"], 2, "which format"),
        (&["compare", "a_0.sqlite", "text.sqlite"], 3, "text.sqlite"),
        (&["compare", "a_0.sqlite", "x=none_*.sqlite"], 3, "none_*.sqlite"),
        (&["compare", "--manifest", "none.toml"], 3, "none.toml"),
    ] {
        let (status, text) = error(dir.path(), args);
        assert_eq!(status, exit, "{args:?}: {text}");
        assert!(text.contains(words), "{args:?}: {text}");
    }
    // Left out by request, and named.
    let (exit, c) =
        json(dir.path(), &["compare", "a_0.sqlite", "text.sqlite", "b_0.sqlite", "--keep-going"]);
    assert_eq!(exit, 4);
    assert_eq!(c["variants"].as_array().expect("a list").len(), 2);
    assert!(
        c["warnings"]
            .as_array()
            .expect("a list")
            .iter()
            .any(|w| w["code"] == "unusable-input"
                && w["message"].to_string().contains("text.sqlite"))
    );
}

#[test]
fn every_format_says_the_same_verdict_and_threads_change_nothing() {
    let dir = folder();
    run(dir.path(), "old", &SLOW);
    run(dir.path(), "<new>|`x`", &FAST);
    let args = ["compare", "old_0.sqlite", "<new>|`x`_0.sqlite", "--threads"];
    let write = |threads: &str| {
        let files: Vec<String> = ["txt", "md", "html", "json", "csv"]
            .iter()
            .map(|e| format!("t{threads}.{e}"))
            .collect();
        let outputs = files.iter().flat_map(|f| ["-o", f.as_str()]).collect::<Vec<_>>();
        assert_eq!(
            nsysnccl(dir.path(), &[&args[..], &[threads], &outputs].concat()).status.code(),
            Some(0)
        );
        files
            .iter()
            .map(|f| std::fs::read_to_string(dir.path().join(f)).expect("was written"))
            .collect::<Vec<_>>()
    };
    let one = write("1");
    assert_eq!(one, write("2"));
    for text in &one {
        assert!(text.contains("faster"), "{text}");
    }
    let [_, md, html, _, csv] = &one[..] else { panic!("five formats") };
    assert!(md.contains(r"&lt;new&gt;\|\`x\`") && !md.contains("<new>"), "{md}");
    assert!(!html.contains("<new>") && html.matches("<svg").count() == 5, "five pictures");
    let heads: Vec<&str> = csv.lines().next().expect("a head").split(',').collect();
    let row: Vec<&str> = csv.lines().nth(2).expect("the variant").split(',').collect();
    assert_eq!(heads.len(), row.len());
    let at = |name: &str| row[heads.iter().position(|h| *h == name).expect("a column")];
    assert_eq!(
        (at("verdict"), at("step_ns"), at("step_ns.delta")),
        ("faster", "90000000", "-10000000")
    );
}

#[test]
fn a_manifest_in_the_folder_is_found_and_its_repeats_count() {
    let dir = folder();
    run(dir.path(), "a1", &SLOW);
    run(dir.path(), "a2", &SLOW.map(|t| t + 200));
    run(dir.path(), "b", &FAST);
    let text = r#"
        baseline = "a"
        [[variant]]
        name = "b"
        reports = "b_*.sqlite"
        options = ["bf16"]
        notes = "half the bytes"
        [[variant]]
        name = "a"
        reports = "a1_*.sqlite"
        [[variant]]
        name = "a"
        reports = "a2_*.sqlite"
    "#;
    std::fs::write(dir.path().join("nsysnccl.toml"), text).expect("written");
    let (exit, c) = json(dir.path(), &["compare"]);
    assert_eq!(exit, 0);
    assert_eq!(
        (&c["baseline"], &c["variants"][0]["name"], &c["variants"][0]["notes"]),
        (&"a".into(), &"b".into(), &"half the bytes".into())
    );
    assert_eq!(c["variants"][1]["captures"].as_array().expect("a list").len(), 2);
    // 100 and 120 ms: the captures differ by 20 %, the variants by (110 / 90 - 1) 22 %.
    assert_eq!(c["variants"][0]["verdict"], "faster");
    assert_eq!(c["expectations"][0]["source"], "manifest");
    // The other way round the captures differ by more than the effect.
    run(dir.path(), "c", &SLOW.map(|t| t + 20));
    let (_, c) = json(dir.path(), &["compare", "a=a1_0.sqlite", "a=a2_0.sqlite", "c=c_0.sqlite"]);
    assert_eq!(c["variants"][1]["verdict"], "inconclusive");
    assert!(
        c["variants"][1]["why"].to_string().contains("They differ most in compute time"),
        "{}",
        c["variants"][1]["why"]
    );
}

#[test]
fn report_proposes_compare_for_files_of_several_runs() {
    let dir = folder();
    run(dir.path(), "a", &SLOW);
    run(dir.path(), "b", &FAST);
    let (exit, text) = error(dir.path(), &["report", "a_0.sqlite", "b_0.sqlite"]);
    assert_eq!(exit, 3);
    assert!(text.contains("nsysnccl compare a=a_0.sqlite b=b_0.sqlite"), "{text}");
}

/// The example is read as it stands; only its files are missing.
#[test]
fn the_example_manifest_is_valid() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/compare/nsysnccl.toml");
    let (exit, text) =
        error(Path::new("."), &["compare", "--manifest", example.to_str().expect("UTF-8")]);
    assert_eq!(exit, 3);
    assert!(text.contains("ddp-8gpu_*.sqlite: matches no file"), "{text}");
}

/// What is known of the captures of the data folder.
#[test]
fn known_answers_on_real_captures() {
    let Some(data) = captures() else { return };
    let (exit, c) = json(
        &data.join("shm"),
        &[
            "compare",
            "shm-2gpu_*.sqlite",
            "shm-2gpu-view_*.sqlite",
            "shm-2gpu-bf16_*.sqlite",
            "shm-2gpu-powersgd_*.sqlite",
            "shm-2gpu-powersgd-active_*.sqlite",
            "shm-2gpu-bf16-bucket100_*.sqlite",
            "--option",
            "shm-2gpu-bf16=view",
        ],
    );
    assert_eq!(exit, 0);
    let holds = |name: &str| {
        let of =
            c["expectations"].as_array().expect("a list").iter().filter(|e| e["variant"] == name);
        of.map(|e| format!("{} {}", e["option"].as_str().expect("a name"), e["holds"]))
            .collect::<Vec<_>>()
    };
    assert_eq!(holds("shm-2gpu-view"), ["gradient_as_bucket_view true"]);
    assert_eq!(
        holds("shm-2gpu-bf16"),
        ["gradient_as_bucket_view false", "bf16_hook true", "bf16_hook true"]
    );
    assert_eq!(holds("shm-2gpu-powersgd"), ["powersgd false", "powersgd false"]);
    assert_eq!(holds("shm-2gpu-powersgd-active"), ["powersgd true", "powersgd true"]);
    let ids: Vec<&str> =
        c["findings"].as_array().expect("a list").iter().filter_map(|f| f["id"].as_str()).collect();
    assert_eq!(
        ids,
        ["option-without-effect", "hook-brings-copies-back", "hook-brings-copies-back"]
    );
    for variant in c["variants"].as_array().expect("a list") {
        let Some(parts) = c["waterfall"].get(variant["name"].as_str().expect("a name")) else {
            continue;
        };
        let sum: i64 = parts.as_object().expect("parts").values().filter_map(Value::as_i64).sum();
        let base = c["variants"][0]["median_step"]["step_ns"].as_i64().expect("whole");
        assert_eq!(variant["median_step"]["step_ns"], base + sum, "{}", variant["name"]);
    }
}

/// A report that was saved is the capture that it was made of: against itself nothing changes, as a baseline it gives the same verdict.
#[test]
fn a_saved_report_is_a_capture() {
    let dir = folder();
    run(dir.path(), "old", &SLOW);
    run(dir.path(), "new", &FAST);
    let saved = nsysnccl(dir.path(), &["report", "old_0.sqlite", "-o", "old.json"]);
    assert_eq!(saved.status.code(), Some(0));
    let (exit, plain) = json(dir.path(), &["compare", "a=old_0.sqlite", "b=new_0.sqlite"]);
    let (same, from_saved) = json(dir.path(), &["compare", "a=old.json", "b=new_0.sqlite"]);
    assert_eq!((exit, same), (0, 0));
    for part in ["variants", "waterfall", "expectations", "comparability"] {
        assert_eq!(plain[part], from_saved[part], "{part}");
    }
    let out = nsysnccl(dir.path(), &["compare", "a=old*", "b=new_0.sqlite"]);
    assert_eq!(out.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&out.stderr).contains("is a saved report"));
}
