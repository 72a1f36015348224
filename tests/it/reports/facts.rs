//! What is known about the real captures that lie beside the project (skipped, and said so, where they do not).
//! The known answers come from an independent program, from CUDA events inside the training program, and from NCCL's logs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nsysnccl::internals::classify::Classifier;
use nsysnccl::internals::ingest::nsys::{self, NsysReport};
use nsysnccl::internals::ingest::{nccl_log, topo};
use nsysnccl::internals::model::{CommOp, Metric};
use nsysnccl::internals::report::{RankReport, Report};
use nsysnccl::internals::run::Options;
use nsysnccl::internals::transport::Facts;
use regex::Regex;
use serde_json::Value;

use crate::support::{captures, folder, number, report};

/// The reports of a run: `NAME.sqlite`, or `NAME_0.sqlite`, `NAME_1.sqlite`, ...
fn files(data: &Path, run: &str) -> Vec<PathBuf> {
    let one = data.join(format!("{run}.sqlite"));
    if one.exists() {
        return vec![one];
    }
    let ranks = (0..8).map(|rank| data.join(format!("{run}_{rank}.sqlite")));
    ranks.filter(|path| path.exists()).collect()
}

fn of(data: &Path, run: &str) -> Report {
    report(&files(data, run))
}

/// The distinct values of a number over the steps of all ranks.
fn values(report: &Report, path: &str) -> Vec<i64> {
    let mut found: Vec<i64> =
        report.ranks.iter().flat_map(|r| &r.steps).filter_map(|step| number(step, path)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The median of the run in ms, and of one rank.
fn run_ms(report: &Report, metric: Metric) -> f64 {
    report.summary.values.median(metric).expect("measured") / 1e6
}

fn rank_ms(rank: &RankReport, metric: Metric) -> f64 {
    rank.summary.median(metric).expect("measured") / 1e6
}

#[track_caller]
fn near(found: f64, expected: f64, within: f64) {
    assert!((found - expected).abs() <= within, "{found} instead of {expected}");
}

fn read(path: &Path) -> NsysReport {
    read_in_parts(path, 1)
}

fn read_in_parts(path: &Path, parts: usize) -> NsysReport {
    let step = Regex::new(nsysnccl::internals::steps::select::DEFAULT_PATTERN)
        .expect("the default pattern");
    nsys::read(
        path,
        0,
        &nsys::Options {
            step: Some(nsys::StepTexts { pattern: &step, by_hand: false }),
            classifier: &Classifier::default(),
            replay: false,
            parts,
        },
    )
    .expect("a report")
}

#[test]
fn parts_are_read_as_the_whole() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/shm");
    let mut files = 0;
    for file in std::fs::read_dir(folder).expect("a folder") {
        let path = file.expect("a file").path();
        if path.extension().is_none_or(|ending| ending != "sqlite") {
            continue;
        }
        files += 1;
        let whole = read(&path);
        for parts in [2, 7, 1000] {
            let joined = read_in_parts(&path, parts);
            assert_eq!(format!("{:?}", joined.input), format!("{:?}", whole.input));
            assert_eq!(format!("{:?}", joined.warnings), format!("{:?}", whole.warnings));
            assert_eq!(joined.candidates.len(), whole.candidates.len());
            for (one, other) in joined.candidates.iter().zip(&whole.candidates) {
                assert!(!other.trace.ops.is_empty());
                assert_eq!(format!("{:?}", one.trace.ops), format!("{:?}", other.trace.ops));
                assert_eq!(one.trace.nccl, other.trace.nccl);
                assert_eq!(one.clues, other.clues);
            }
        }
    }
    assert!(files > 0, "no example was read");
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("JSON")
}

#[test]
fn every_number_of_every_step_is_that_of_an_independent_program() {
    let Some(data) = captures() else { return };
    let expected = json(&data.join("expected.json"));
    let mut compared = 0;
    for (file, processes) in expected.as_object().expect("files") {
        let report = report(&[data.join(file)]);
        for process in processes.as_array().expect("processes") {
            let rank = report
                .ranks
                .iter()
                .find(|r| process["pid"] == r.pid)
                .unwrap_or_else(|| panic!("{file}: {}", process["pid"]));
            let steps = process["steps"].as_array().expect("steps");
            assert_eq!(rank.steps.len(), steps.len(), "{file}");
            for (step, expected) in rank.steps.iter().zip(steps) {
                for metric in Metric::ALL {
                    let path = metric.info().path;
                    let value = path.split('.').try_fold(expected, |value, field| value.get(field));
                    if let Some(value) = value.and_then(Value::as_i64) {
                        assert_eq!(number(step, path), Some(value), "{file} {} {path}", step.name);
                        compared += 1;
                    }
                }
            }
        }
    }
    assert!(compared > 12_376, "{compared}");
}

#[test]
fn windows_agree_with_cuda_events_inside_the_program() {
    let Some(data) = captures() else { return };
    let truth = json(&data.join("cuda_event_truth_ms.json"));
    let mut compared = 0;
    for (file, processes) in truth.as_object().expect("files") {
        for rank in &report(&[data.join(file)]).ranks {
            let Some(events) = processes.get(rank.pid.to_string()).and_then(Value::as_array) else {
                continue;
            };
            for (i, (step, ms)) in rank.steps.iter().zip(events).enumerate() {
                let (found, ms) = (
                    number(step, "step_ns").expect("a window") as f64 / 1e6,
                    ms.as_f64().expect("ms"),
                );
                // When the first step ran, the profiler was still starting.
                near(found, ms, if i == 0 { 0.5 } else { 0.0005 * ms });
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 360);
}

#[test]
fn ddp_copies_gradients_unless_they_are_views() {
    let Some(data) = captures() else { return };
    for (run, count) in [
        ("nvlink/ddp-2gpu", 368),
        ("nvlink/ddp-2gpu-static", 368),
        ("nvlink/baseline", 72),
        ("nvlink/ddp-2gpu-view", 72),
        // These hooks copy although gradient_as_bucket_view is on.
        ("nvlink/ddp-2gpu-bf16", 368),
        ("nvlink/ddp-2gpu-powersgd", 368),
        ("shm/shm-2gpu-powersgd-active", 567),
    ] {
        assert_eq!(values(&of(&data, run), "dtod.count"), [count], "{run}");
    }
    assert_eq!(values(&of(&data, "nvlink/ddp-2gpu"), "dtod.bytes"), [1_698_000_800]);
    for run in ["nvlink/baseline", "nvlink/ddp-2gpu-view"] {
        assert_eq!(values(&of(&data, run), "dtod.bytes"), [471_859_200], "{run}");
    }
}

#[test]
fn bf16_halves_the_all_reduce_through_host_memory() {
    let Some(data) = captures() else { return };
    // The first of three steps is an outlier; the known figures are over all of them.
    let all_steps = |run: &str| {
        let options = Options { keep_first: true, ..Options::default() };
        crate::support::build_with(&files(&data, run), &options).expect("a report").report
    };
    let (fp32, bf16) = (all_steps("shm/shm-2gpu"), all_steps("shm/shm-2gpu-bf16"));
    near(run_ms(&fp32, Metric::CommNs), 47.4, 0.05);
    near(run_ms(&bf16, Metric::CommNs), 24.1, 0.05);
    // Without waiting: the rank that arrives last.
    let shortest = |report: &Report| {
        report.ranks.iter().map(|rank| rank_ms(rank, Metric::CommNs)).fold(f64::INFINITY, f64::min)
    };
    near(shortest(&fp32), 45.0, 0.6);
    near(shortest(&bf16), 22.0, 0.6);
}

#[test]
fn buckets_make_eleven_all_reduces_that_overlap() {
    let Some(data) = captures() else { return };
    for (run, count, overlap) in [
        ("nvlink/ddp-2gpu", 1, 0.0),
        ("nvlink/ddp-2gpu-bucket100", 11, 0.85),
        // Through host memory.
        ("onefile/onefile-2gpu", 11, 0.83),
    ] {
        let report = of(&data, run);
        assert_eq!(values(&report, "comm_count"), [count], "{run}");
        near(
            report.summary.values.median(Metric::OverlapFraction).expect("communication"),
            overlap,
            0.015,
        );
    }
    // Meanwhile compute kernels get slower.
    let compute = |run: &str| run_ms(&of(&data, run), Metric::ComputeNs);
    assert!(compute("nvlink/ddp-2gpu-bucket100") > 1.01 * compute("nvlink/ddp-2gpu-view"));
}

#[test]
fn a_kernels_name_is_not_the_protocol_that_ran() {
    let Some(data) = captures() else { return };
    let report = of(&data, "shm/shm-2gpu");
    assert_eq!(
        report.kernels.comm.iter().map(|k| k.name.as_str()).collect::<Vec<_>>(),
        ["ncclDevKernel_AllReduce_Sum_f32_RING_LL"]
    );
    let log = [nccl_log::read(&data.join("shm/shm-2gpu.nccl.log")).expect("a log")];
    let algorithms = Facts::new(&log, None).view().algorithms;
    let all_reduce: Vec<_> = algorithms
        .iter()
        .filter(|a| a.op.as_deref() == Some("AllReduce"))
        .map(|a| a.protocol.as_deref())
        .collect();
    assert_eq!(all_reduce, [Some("SIMPLE")]);
}

#[test]
fn power_sgd_compresses_only_once_it_has_started() {
    let Some(data) = captures() else { return };
    assert_eq!(values(&of(&data, "shm/shm-2gpu-powersgd"), "comm_count"), [1]);
    let active = "shm/shm-2gpu-powersgd-active";
    assert_eq!(values(&of(&data, active), "comm_count"), [3]);
    // Three AllReduce a step of 3,100,480 bytes together, on each rank and step.
    for file in files(&data, active) {
        let trace = read(&file).candidates.remove(0).trace;
        for step in trace.ranges.named() {
            let inside = trace.nccl.iter().filter(|call| {
                call.op == Some(CommOp::AllReduce)
                    && step.start <= call.start
                    && call.start < step.end
            });
            let bytes: Vec<u64> = inside.filter_map(|call| call.bytes).collect();
            assert_eq!(
                (bytes.len(), bytes.iter().sum::<u64>()),
                (3, 3_100_480),
                "{}",
                file.display()
            );
        }
    }
}

#[test]
fn payloads_read_alike_from_json_and_from_blobs() {
    let Some(data) = captures() else { return };
    let folder = folder();
    for file in files(&data, "collectives/coll-2gpu") {
        let copy = folder.path().join(file.file_name().expect("a name"));
        std::fs::copy(&file, &copy).expect("a copy");
        let connection = rusqlite::Connection::open(&copy).expect("a database");
        connection
            .execute_batch("UPDATE NVTX_EVENTS SET jsonText = NULL, jsonTextId = NULL")
            .expect("no JSON");
        drop(connection);
        // Names are interned in order of use, so reduction operations are compared by their text.
        let calls = |path: &Path| {
            let trace = read(path).candidates.remove(0).trace;
            let redop = |call: &nsysnccl::internals::model::NcclCall| {
                call.redop.map(|name| trace.names.get(name).to_owned())
            };
            trace
                .nccl
                .iter()
                .map(|call| {
                    (call.start, call.op, call.comm, call.bytes, redop(call), call.root, call.peer)
                })
                .collect::<Vec<_>>()
        };
        let (json, blob) = (calls(&file), calls(&copy));
        assert!(
            json.iter().filter(|call| call.2.is_some() && call.3.is_some()).count() >= 160,
            "{}",
            json.len()
        );
        assert_eq!(json, blob);
    }
}

#[test]
fn good_captures_give_no_alarm() {
    let Some(data) = captures() else { return };
    // All of them hold the diagnostic "Not all CUDA events might have been collected."
    for run in
        ["nvlink/ddp-2gpu", "shm/shm-2gpu", "onefile/onefile-2gpu", "tensor-parallel/tp-2gpu"]
    {
        let report = of(&data, run);
        let codes: Vec<&str> = report.warnings.iter().map(|w| w.code.as_str()).collect();
        assert!(!codes.contains(&"profiler-error"), "{run}: {codes:?}");
        assert!(
            report.warnings.iter().all(|w| !w.message.contains("Not all CUDA events")),
            "{run}"
        );
    }
}

#[test]
fn a_quiet_and_a_busy_host() {
    let Some(data) = captures() else { return };
    let [quiet, view, busy] =
        ["ddp-run1", "view-run1", "ddp-run2"].map(|run| of(&data, &format!("repeats/{run}")));
    for (report, ms) in [(&quiet, 90.7), (&view, 89.4), (&busy, 106.4)] {
        near(run_ms(report, Metric::StepNs), ms, 0.06);
        assert_eq!(report.steps.len(), 20);
    }
    // Compute is unchanged; rank 0 idles and rank 1 waits for it.
    near(run_ms(&busy, Metric::ComputeNs) / run_ms(&quiet, Metric::ComputeNs), 1.0, 0.01);
    near(rank_ms(&quiet.ranks[0], Metric::IdleNs), 3.4, 0.5);
    near(rank_ms(&busy.ranks[0], Metric::IdleNs), 19.0, 1.0);
    near(rank_ms(&quiet.ranks[1], Metric::CommNs), 3.8, 0.05);
    near(rank_ms(&busy.ranks[1], Metric::CommNs), 11.1, 0.05);
    near(rank_ms(&busy.ranks[0], Metric::CommNs), 3.7, 0.05);
}

#[test]
fn sockets_take_most_of_the_step() {
    let Some(data) = captures() else { return };
    let report = of(&data, "socket/socket-2node");
    near(report.summary.values.median(Metric::CommFraction).expect("communication"), 0.82, 0.01);
    assert_eq!(report.steps.len(), 4);
    let settings: Vec<_> =
        report.inputs.iter().map(|input| input.capture.settings["NCCL_HOSTID"].as_str()).collect();
    assert_eq!(settings, ["node0", "node1"]);
    let log = [nccl_log::read(&data.join("socket/socket-2node.nccl.log")).expect("a log")];
    let captured: Vec<BTreeMap<String, String>> =
        report.inputs.iter().map(|input| input.capture.settings.clone()).collect();
    let findings = Facts::new(&log, None).findings(&captured);
    assert_eq!(
        findings[0].evidence["NCCL_HOSTID_found_in"],
        "the NCCL log and the captured environment"
    );
}

#[test]
fn host_memory_instead_of_nvlink_is_found_with_its_cause() {
    let Some(data) = captures() else { return };
    let captured: Vec<BTreeMap<String, String>> =
        of(&data, "shm/shm-2gpu").inputs.into_iter().map(|input| input.capture.settings).collect();
    let log = [nccl_log::read(&data.join("shm/shm-2gpu.nccl.log")).expect("a log")];
    let topology = topo::read(&data.join("topo/h200_2gpu_nvlink.txt")).expect("a topology");
    let findings = Facts::new(&log, Some(&topology)).findings(&captured);
    assert!(
        findings[0].title.contains("SHM/direct/direct") && findings[0].title.contains("NV18"),
        "{}",
        findings[0].title
    );
    assert!(
        findings[0].advice.as_deref().is_some_and(|advice| advice.contains("NCCL_P2P_DISABLE"))
    );
}

#[test]
fn steps_of_every_kind_of_capture() {
    let Some(data) = captures() else { return };
    let tensor_parallel = of(&data, "tensor-parallel/tp-2gpu");
    assert_eq!(
        (tensor_parallel.steps.len(), tensor_parallel.steps[0].name.as_str()),
        (12, "iteration_4")
    );
    near(run_ms(&tensor_parallel, Metric::StepNs), 5.0, 0.5);
    // One report, two processes, two ranks.
    let onefile = of(&data, "onefile/onefile-2gpu");
    assert_eq!(
        onefile.ranks.iter().map(|r| (r.rank, r.report.as_str())).collect::<Vec<_>>(),
        [(0, "onefile-2gpu.sqlite"), (1, "onefile-2gpu.sqlite")]
    );
    assert_eq!(of(&data, "collectives/coll-2gpu").steps.len(), 40);
    let graph = of(&data, "graph/graph-2gpu");
    assert_eq!(graph.ranks.iter().map(|r| r.steps.len()).sum::<usize>(), 12);
    assert!(
        graph.ranks.iter().flat_map(|r| &r.steps).all(|s| s.values[Metric::CommFraction].is_none())
    );
    assert!(
        values(&of(&data, "graph/graphnode-2gpu"), "comm_count").iter().all(|count| *count > 0)
    );
    assert_eq!(of(&data, "gpumetrics/gpumetrics").ranks.len(), 1);
}
