//! The capture kit's own check, `verify.py`: that it lets nothing through which is wrong.

use std::path::Path;
use std::process::Command;

use serde_json::json;

/// Step times by the events (ms), what the report says (ms), and how long the host took for each event (ms).
struct Run {
    events: [f64; 6],
    found: [f64; 6],
    late: [f64; 6],
}

const TIMES: [f64; 6] = [100.0, 100.0, 100.0, 100.0, 100.0, 100.0];
const USUAL: [f64; 6] = [0.15; 6];

/// Exit status and what `verify.py` prints; `None` where there is no Python.
fn verify(folder: &Path, run: &Run, pid: u32) -> Option<(i32, String)> {
    let names: Vec<String> = (5..11).map(|i| format!("Batch {i}")).collect();
    let events = json!({ "pid": 7, "steps": names, "step_ms": run.events, "late_ms": run.late });
    let steps: Vec<_> = names
        .iter()
        .zip(run.found)
        .map(|(name, ms)| json!({ "name": name, "step_ns": (ms * 1e6) as i64 }))
        .collect();
    let report = json!({ "ranks": [{ "report": "ddp_0.sqlite", "pid": pid, "steps": steps }] });
    std::fs::write(folder.join("ddp_0.events.json"), events.to_string()).expect("written");
    std::fs::write(folder.join("report.json"), report.to_string()).expect("written");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/capture/verify.py");
    let mut command = Command::new("python3");
    command.arg(script).args(["ddp_0.events.json", "--report", "report.json"]).current_dir(folder);
    let Ok(output) = command.output() else {
        eprintln!("SKIPPED: no python3");
        return None;
    };
    Some((output.status.code().expect("ended"), String::from_utf8(output.stdout).expect("UTF-8")))
}

fn with(times: [f64; 6], changes: &[(usize, f64)]) -> [f64; 6] {
    changes.iter().fold(times, |mut times, &(at, ms)| {
        times[at] += ms;
        times
    })
}

#[track_caller]
fn assert_verdict(run: &Run, status: i32, says: &str) {
    let folder = crate::support::folder();
    if let Some((code, printed)) = verify(folder.path(), run, 7) {
        assert_eq!(code, status, "{printed}");
        assert!(printed.contains(says), "{printed}");
    }
}

#[test]
fn step_times_may_differ_by_a_twentieth_of_a_percent() {
    let of = |found: [f64; 6]| Run { events: TIMES, found, late: USUAL };
    assert_verdict(&of(with(TIMES, &[(2, 0.049), (4, -0.049)])), 0, "1 checks, 0 failed");
    assert_verdict(&of(with(TIMES, &[(2, 0.051)])), 1, "FAIL  ddp_0: 6 steps, worst +0.0510 %");
    assert_verdict(&of(with(TIMES, &[(5, -0.051)])), 1, "1 checks, 1 failed");
    // The first one while the profiler starts.
    assert_verdict(&of(with(TIMES, &[(0, 0.49)])), 0, "first +0.4900 %");
    assert_verdict(&of(with(TIMES, &[(0, 0.51)])), 1, "first +0.5100 %");
}

#[test]
fn another_run_is_refused() {
    let folder = crate::support::folder();
    if let Some((code, printed)) =
        verify(folder.path(), &Run { events: TIMES, found: TIMES, late: USUAL }, 8)
    {
        assert!(code == 1 && printed.contains("not the same run"), "{printed}");
    }
}

/// A late event makes the step before it too long and the one after it too short, by as much, and by no more than the host took longer:
///
/// ```text
/// true     |---- 100 ----|---- 100 ----|
/// events   |----- 100.2 ----|-- 99.8 --|     the host took 0.4 ms, usually 0.15
/// ```
#[test]
fn only_a_late_event_is_excused() {
    let of = |late_ms: f64, before: f64, after: f64| {
        let events = with(TIMES, &[(2, before), (3, after)]);
        Run { events, found: TIMES, late: with(USUAL, &[(3, late_ms)]) }
    };
    assert_verdict(&of(0.25, 0.2, -0.2), 0, "late event at Batch 7, Batch 8");
    // The host did not take longer, or not long enough.
    assert_verdict(&of(0.0, 0.2, -0.2), 1, "FAIL");
    assert_verdict(&of(0.07, 0.2, -0.2), 1, "FAIL");
    assert_verdict(&of(0.25, 0.4, -0.4), 1, "FAIL");
    // The other way round an event would be early, which none is; and the two together must be right.
    assert_verdict(&of(0.25, -0.2, 0.2), 1, "FAIL");
    assert_verdict(&of(0.25, 0.3, -0.1), 1, "FAIL");
    assert_verdict(&of(0.25, 0.0, -0.2), 1, "FAIL");
}
