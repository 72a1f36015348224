//! `nsysnccl npkit` and `report --npkit` from outside.

use std::path::Path;
use std::process::Output;

fn nsysnccl(args: &[&str]) -> Output {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/npkit");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_nsysnccl"));
    command.current_dir(folder).args(args).output().expect("runs")
}

fn stdout(args: &[&str]) -> String {
    let done = nsysnccl(args);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("UTF-8")
}

#[test]
fn every_format_has_the_phases() {
    for format in ["terminal", "markdown", "html", "json", "csv"] {
        // The terminal's first screen ends before the tables of proxies.
        let text = stdout(&["npkit", "synthetic/dump", "--full", "--format", format]);
        for word in ["RECV_REDUCE_COPY_SEND", "NET_RECV"] {
            // CSV has a row for each lane of the GPU.
            assert!(
                text.contains(word) || (format == "csv" && word == "NET_RECV"),
                "{format}: {word}"
            );
        }
    }
    let text = stdout(&["npkit", "synthetic/dump", "--format", "csv"]);
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!(rows[0], "collective,rank,channel,start_ns,end_ns,wait_ns,primitive,ns");
    // Two collectives, two ranks, two channels, three primitives.
    assert_eq!(rows.len(), 1 + 2 * 2 * 2 * 3);
}

#[test]
fn output_does_not_depend_on_the_number_of_threads() {
    let of =
        |threads| stdout(&["npkit", "sendrecv/dump", "--format", "json", "--threads", threads]);
    assert_eq!(of("1"), of("3"));
}

#[test]
fn the_generators_json_is_read_as_well() {
    let text = stdout(&["npkit", "synthetic/npkit_event_trace.json"]);
    assert!(text.contains("lost precision"), "{text}");
}

#[test]
fn mistakes_are_told_with_the_next_step() {
    for (args, status, words) in [
        (&["npkit", "sendrecv"][..], 3, "holds no NPKit dump"),
        (&["npkit", "nowhere"], 3, "nowhere"),
        (&["npkit", "synthetic/dump/gpu_clock_rate_rank_0"], 3, "is not a trace"),
        (
            &["npkit", "synthetic/npkit_event_trace.json", "--lib", "nccl"],
            2,
            "has the names of events",
        ),
        (
            &["npkit", "synthetic/dump", "--header", "synthetic/npkit_event_trace.json"],
            3,
            "#define",
        ),
        (&["npkit", "synthetic/dump", "sendrecv/dump"], 3, "are both of rank"),
    ] {
        let done = nsysnccl(args);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!((done.status.code(), done.stdout.len()), (Some(status), 0), "{args:?} {said}");
        assert!(said.contains(words), "{args:?}: {said}");
    }
}
