//! What users of neighbouring tools ran into with kernels, ranges and several ranks: none of it may happen here.
//! Times are ns; unless a timeline says otherwise, stream 7 computes and stream 20 communicates.

use std::path::PathBuf;

use nsysnccl::internals::model::Metric;
use nsysnccl::internals::report::Report as Finished;
use nsysnccl::internals::run::Options;

use crate::support::report::{Copy, Report, Stream, Thread, stream, text, thread};
use crate::support::scenes::{ALL_REDUCE, GEMM, MS};
use crate::support::{assert_numbers, build, folder, number, only_rank, report};

const MAIN: Thread = Thread { pid: 7, tid: 70 };
const AUTOGRAD: Thread = Thread { pid: 7, tid: 71 };

/// The finished report of one file.
fn of(fill: impl FnOnce(&mut Report)) -> Finished {
    let folder = folder();
    let mut one = Report::default();
    fill(&mut one);
    report(&[one.save(folder.path(), "a.sqlite")])
}

fn codes(report: &Finished) -> Vec<&str> {
    report.warnings.iter().map(|w| w.code.as_str()).collect()
}

// CPU  step 1 [100,200)
//  7   K 1000-1400
// 20        C 1300-1900     every communication kernel is a ncclDevKernel_*
#[test]
fn kernels_of_current_nccl_are_communication() {
    let report = of(|r| {
        r.range(MAIN, "step 1", 100..200);
        r.kernel(GEMM, stream(7), 1000..1400, MAIN.at(110));
        r.kernel(ALL_REDUCE, stream(20), 1300..1900, MAIN.at(120));
    });
    assert_numbers(
        &only_rank(&report).steps[0],
        &[("comm_ns", 600), ("comm_count", 1), ("overlap_ns", 100), ("exposed_comm_ns", 500)],
    );
    assert_eq!(report.kernels.comm.len(), 1);
    assert_eq!(report.kernels.comm[0].class, "comm:nccl");
}

#[test]
fn overlap_without_communication_is_unknown_not_zero() {
    let report = of(|r| {
        r.range(MAIN, "step 1", 100..200);
        r.kernel(GEMM, stream(7), 1000..1400, MAIN.at(110));
        r.kernel("some_unknown_collective(float *)", stream(20), 1300..1900, MAIN.at(120));
    });
    let step = &only_rank(&report).steps[0];
    assert_eq!(step.values[Metric::OverlapFraction], None);
    assert_eq!(step.values.f64(Metric::CommFraction), Some(0.0));
    assert_eq!(step.values.int(Metric::CommNs), Some(0));
    assert_eq!(report.summary.values[Metric::OverlapFraction], None);
}

#[test]
fn synchronisation_rows_are_no_work() {
    let report = of(|r| {
        r.range(MAIN, "step 1", 100..200);
        r.kernel(GEMM, stream(7), 1000..1400, MAIN.at(110));
        r.kernel(ALL_REDUCE, stream(20), 1400..1900, MAIN.at(120));
        let sync = [
            ("start", 1000.into()),
            ("end", 5000.into()),
            ("streamId", 20.into()),
            ("globalPid", MAIN.process().into()),
        ];
        r.row("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", &sync);
    });
    assert_numbers(
        &only_rank(&report).steps[0],
        &[("step_ns", 900), ("compute_ns", 400), ("overlap_ns", 0), ("idle_ns", 0)],
    );
}

// Steps only as start/end ranges, which overlap and end on another thread.
// CPU main  |-- iteration 1 [100,260) --|
// CPU main             |-- iteration 2 [200,360) --|
//  7        K1 1000-1400 (110)   K2 2000-2300 (210: both are open, the later owns it)   K3 2300-2500 (300)
#[test]
fn start_end_ranges_are_steps() {
    let report = of(|r| {
        r.start_end_range(MAIN, AUTOGRAD, "iteration 1", 100..260);
        r.start_end_range(MAIN, AUTOGRAD, "iteration 2", 200..360);
        r.kernel(GEMM, stream(7), 1000..1400, MAIN.at(110));
        r.kernel(GEMM, stream(7), 2000..2300, MAIN.at(210));
        r.kernel(GEMM, stream(7), 2300..2500, MAIN.at(300));
    });
    let steps = &only_rank(&report).steps;
    assert_eq!(
        steps.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(),
        ["iteration 1", "iteration 2"]
    );
    assert_numbers(&steps[0], &[("start_ns", 1000), ("step_ns", 1000), ("compute_ns", 400)]);
    assert_numbers(&steps[1], &[("start_ns", 2000), ("step_ns", 500), ("compute_ns", 500)]);
}

// CPU main      |-- step 1 [100,200) --|
// CPU autograd       launches B (150)
//  7            F 1000-1200   B 1200-1900
#[test]
fn backward_work_of_another_thread_belongs_to_the_step() {
    let report = of(|r| {
        r.range(MAIN, "step 1", 100..200);
        r.kernel(GEMM, stream(7), 1000..1200, MAIN.at(110));
        r.kernel(GEMM, stream(7), 1200..1900, AUTOGRAD.at(150));
    });
    assert_numbers(&only_rank(&report).steps[0], &[("step_ns", 900), ("compute_ns", 900)]);
}

// CPU  step 1 [100,200)
//  7   W 500-800 (50, before any range)   K 1000-1400 (110)   Z 5000-6000 (900, after all ranges)
#[test]
fn kernels_outside_every_range_harm_nobody() {
    let report = of(|r| {
        r.range(MAIN, "step 1", 100..200);
        r.kernel(GEMM, stream(7), 500..800, MAIN.at(50));
        r.kernel(GEMM, stream(7), 1000..1400, MAIN.at(110));
        r.kernel(GEMM, stream(7), 5000..5090, MAIN.at(900));
    });
    // 400 of 790 ns lie in the step: more than half, and it is said that the rest does not.
    assert_eq!(report.summary.coverage, Some(400.0 / 790.0));
    assert_numbers(
        &only_rank(&report).steps[0],
        &[("start_ns", 1000), ("step_ns", 400), ("compute_ns", 400)],
    );
    assert_eq!(report.warnings, []);
}

#[test]
fn ranges_that_were_never_closed_are_passed_over() {
    let report = of(|r| {
        for i in 0..6 {
            r.open_range(MAIN, &format!("step {}", 90 + i), 90 + i);
        }
        r.range(MAIN, "step 1", 100..200);
        r.kernel(GEMM, stream(7), 1000..1400, MAIN.at(110));
    });
    assert_eq!(
        only_rank(&report).steps.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(),
        ["step 1"]
    );
}

// The profiler was still starting: one kernel "runs" before its own launch, one before the capture, one ends before it starts.
//  7   X -50-20 (10)   E 105-300 (150: later)   N 1000-900   K 1400-1800
#[test]
fn impossible_times_at_the_start_of_a_capture() {
    let report = of(|r| {
        r.range(MAIN, "step 1", 100..200);
        r.kernel(GEMM, stream(7), -50..20, MAIN.at(10));
        r.kernel(GEMM, stream(7), 105..300, MAIN.at(150));
        #[allow(clippy::reversed_empty_ranges)] // That is the point.
        r.kernel(GEMM, stream(7), 1000..900, MAIN.at(160));
        r.kernel(GEMM, stream(7), 1400..1800, MAIN.at(170));
    });
    assert_numbers(
        &only_rank(&report).steps[0],
        &[("start_ns", 105), ("step_ns", 1695), ("compute_ns", 595), ("idle_ns", 1100)],
    );
    assert_eq!(codes(&report), ["before-capture", "negative-duration"]);
}

// A graph of three kernels, captured node by node: they share one launch. The same graph as one row: unknown work.
//  7   G1 1000-1100  G2 1100-1300   20  C 1200-1500
#[test]
fn graph_replay_is_never_read_as_no_communication() {
    let nodes = of(|r| {
        r.range(MAIN, "step 1", 100..200);
        let launch = r.kernel(GEMM, stream(7), 1000..1100, MAIN.at(110));
        r.kernel_of(launch, GEMM, stream(7), 1100..1300, MAIN);
        r.kernel_of(launch, ALL_REDUCE, stream(20), 1200..1500, MAIN);
    });
    assert_numbers(
        &only_rank(&nodes).steps[0],
        &[
            ("step_ns", 500),
            ("compute_ns", 300),
            ("comm_ns", 300),
            ("overlap_ns", 100),
            ("idle_ns", 0),
        ],
    );
    let row = of(|r| {
        r.range(MAIN, "step 1", 100..200);
        r.graph(stream(7), 1000..1500, MAIN.at(110));
    });
    let step = &only_rank(&row).steps[0];
    assert_numbers(
        step,
        &[("step_ns", 500), ("unclassified.ns", 500), ("unclassified.count", 1), ("idle_ns", 0)],
    );
    assert_eq!(step.values[Metric::CommFraction], None);
    assert_eq!(codes(&row), ["graph-level-trace"]);
    assert!(
        row.warnings[0]
            .hint
            .as_deref()
            .is_some_and(|hint| hint.contains("--cuda-graph-trace=node"))
    );
    // Both forms of one launch count once.
    let both = of(|r| {
        r.range(MAIN, "step 1", 100..200);
        let launch = r.graph(stream(7), 1000..1500, MAIN.at(110));
        r.kernel_of(launch, GEMM, stream(7), 1000..1400, MAIN);
    });
    assert_numbers(&only_rank(&both).steps[0], &[("compute_ns", 400), ("unclassified.ns", 0)]);
}

// Four GPUs of one process, each with a stream 17 that is busy all the time.
#[test]
fn streams_of_equal_number_on_several_gpus_are_several_streams() {
    let report = of(|r| {
        r.range(MAIN, "step 1", 100..200);
        for device in 0..4 {
            r.kernel(
                GEMM,
                Stream { device, context: 1 + device, stream: 17 },
                1000..2000,
                MAIN.at(110 + device),
            );
        }
    });
    assert_eq!(report.ranks.iter().map(|r| r.device).collect::<Vec<_>>(), [0, 1, 2, 3]);
    for rank in &report.ranks {
        assert_numbers(&rank.steps[0], &[("step_ns", 1000), ("compute_ns", 1000), ("idle_ns", 0)]);
    }
}

#[test]
fn work_without_length_and_copies_are_counted_as_what_they_are() {
    let report = of(|r| {
        r.range(MAIN, "step 1", 100..200);
        r.kernel(GEMM, stream(7), 1000..1000, MAIN.at(110));
        r.kernel(GEMM, stream(7), 1000..1200, MAIN.at(111));
        r.kernel(ALL_REDUCE, stream(20), 1100..1100, MAIN.at(112));
        r.copy(Copy::DtoD, 64, stream(8), 1200..1300, MAIN.at(113));
        r.copy(Copy::DtoD, 0, stream(8), 1300..1300, MAIN.at(114));
    });
    let expected = [
        ("step_ns", 300),
        ("compute_ns", 200),
        ("comm_ns", 0),
        ("comm_count", 1),
        ("dtod.ns", 100),
        ("dtod.exposed_ns", 100),
        ("idle_ns", 0),
    ];
    assert_numbers(&only_rank(&report).steps[0], &expected);
}

// |-- step 1 ----------------|-- step 2 ----------------|
//   |step 1.1||step 1.2|        |step 2.1||step 2.2|        hundreds of these must not become steps
#[test]
fn parts_of_steps_are_no_steps() {
    let report = of(|r| {
        for step in 0..2 {
            let at = 1000 * step;
            r.range(MAIN, &format!("step {step}"), at..at + 1000);
            for part in 0..9 {
                r.range(
                    MAIN,
                    &format!("step {step}.{part}"),
                    at + 100 * part..at + 100 * part + 50,
                );
                r.kernel(
                    GEMM,
                    stream(7),
                    at + 5000 + 100 * part..at + 5100 + 100 * part,
                    MAIN.at(at + 100 * part + 10),
                );
            }
        }
    });
    let steps = &only_rank(&report).steps;
    assert_eq!(
        steps.iter().map(|s| (s.name.as_str(), number(s, "step_ns"))).collect::<Vec<_>>(),
        [("step 0", Some(1000)), ("step 1", Some(900))]
    );
}

#[test]
fn without_a_marker_nothing_is_called_an_iteration() {
    // No NVTX at all, and gaps of 2 ms between kernels: one window, and it says so.
    let report = of(|r| {
        for i in 0..5 {
            r.kernel(GEMM, stream(7), 2_000_000 * i..2_000_000 * i + 500, MAIN.at(i));
        }
    });
    assert_eq!(
        (report.settings.step_pattern.as_str(), report.settings.step_pattern_source.label()),
        ("whole", "no NVTX ranges")
    );
    assert_eq!(only_rank(&report).steps.len(), 1);
    // Ranges that do not recur: one window, a doubt that lists them and proposes --step.
    let folder = folder();
    let mut one = Report::default();
    one.range(MAIN, "load checkpoint", 100..200);
    one.kernel(GEMM, stream(7), 1000..1400, MAIN.at(110));
    let report = build(&[one.save(folder.path(), "a.sqlite")]).expect("a report").report;
    assert_eq!(report.settings.step_pattern, "whole");
    let doubt =
        report.warnings.iter().find(|w| w.code.as_str() == "steps-uncovered").expect("a doubt");
    assert!(doubt.message.contains("1 x 'load checkpoint' (100.0 %)"), "{}", doubt.message);
    assert!(doubt.hint.as_deref().is_some_and(|hint| hint.contains("--step '^load checkpoint$'")));
}

// CPU  step 1 [100,200)  step 2 [200,900)
//  7   K1 1000-1400 (110)
// 20   C  1300-1900 (150): step 2's range is still open on the CPU when nothing of it runs; C is of step 1
//  7   K2 2000-2400 (210)
#[test]
fn a_kernel_belongs_to_the_step_that_launched_it() {
    let report = of(|r| {
        r.range(MAIN, "step 1", 100..200);
        r.range(MAIN, "step 2", 200..2500);
        r.kernel(GEMM, stream(7), 1000..1400, MAIN.at(110));
        r.kernel(ALL_REDUCE, stream(20), 1300..1900, AUTOGRAD.at(150));
        r.kernel(GEMM, stream(7), 2000..2400, MAIN.at(210));
    });
    let steps = &only_rank(&report).steps;
    assert_numbers(
        &steps[0],
        &[("start_ns", 1000), ("step_ns", 1000), ("comm_ns", 600), ("comm_count", 1)],
    );
    assert_numbers(
        &steps[1],
        &[("start_ns", 2000), ("step_ns", 400), ("comm_ns", 0), ("comm_count", 0)],
    );
}

#[test]
fn kernels_speak_for_themselves_where_nccl_writes_no_ranges() {
    // NCCL before 2.8.3 writes no NVTX ranges; names of its time.
    let report = of(|r| {
        r.range(MAIN, "step 1", 100..200);
        r.kernel(GEMM, stream(7), 1000..1400, MAIN.at(110));
        r.kernel(
            "ncclAllReduceRingLLKernel_sum_f32(ncclColl)",
            stream(20),
            1400..1900,
            MAIN.at(120),
        );
    });
    assert_numbers(&only_rank(&report).steps[0], &[("comm_ns", 500), ("comm_count", 1)]);
    assert!(!report.inputs[0].capture.nccl_payloads);
}

#[test]
fn traffic_outside_nccl_is_communication_too() {
    let kernels = [
        "void deep_ep::internode::dispatch<(bool)0, (int)7168>(int4 *)",
        "void deep_ep::intranode::combine<float, (int)8>(float *)",
        "nvshmemi_barrier_all_kernel()",
        "void vllm::cross_device_reduce_1stage<__half, (int)8>(vllm::RankData *)",
    ];
    let report = of(|r| {
        r.range(MAIN, "step 1", 100..200);
        r.kernel(GEMM, stream(7), 1000..1100, MAIN.at(110));
        for (i, kernel) in (0..).zip(kernels) {
            r.kernel(kernel, stream(7), 1100 + 100 * i..1200 + 100 * i, MAIN.at(120 + i));
        }
        r.kernel("void my_moe::dispatch<(int)8>(int4 *)", stream(7), 1500..1600, MAIN.at(130));
    });
    assert_numbers(
        &only_rank(&report).steps[0],
        &[("comm_ns", 400), ("comm_count", 4), ("compute_ns", 200), ("step_ns", 600)],
    );
}

// CPU  step 1 [100,200)  step 2 [200,300)  step 3 [300,400)
//  7   K1 1000-1400      K2 2000-2400      K3 3000-3400
// 20   L 500-1200 (50)   C 1900-2100 (150)   W 1950-3100 (160, covers all of step 2)   Z 3300-3600 (350)
#[test]
fn work_across_the_edge_of_a_window_is_clipped_not_dropped() {
    let report = of(|r| {
        for step in 0..3 {
            r.range(MAIN, &format!("step {}", step + 1), 100 + 100 * step..200 + 100 * step);
            r.kernel(
                GEMM,
                stream(7),
                1000 + 1000 * step..1400 + 1000 * step,
                MAIN.at(110 + 100 * step),
            );
        }
        r.kernel(ALL_REDUCE, stream(20), 500..1200, MAIN.at(50));
        r.kernel(ALL_REDUCE, stream(20), 1900..2100, MAIN.at(150));
        r.kernel(ALL_REDUCE, stream(21), 1950..3100, MAIN.at(160));
        r.kernel(ALL_REDUCE, stream(20), 3300..3600, MAIN.at(350));
    });
    let steps = &only_rank(&report).steps;
    // [1000,2000): L 200, C 100, W 50 under C; L ran beside K1.
    assert_numbers(
        &steps[0],
        &[
            ("step_ns", 1000),
            ("comm_ns", 300),
            ("comm_sum_ns", 350),
            ("comm_count", 2),
            ("overlap_ns", 200),
            ("idle_ns", 500),
        ],
    );
    // [2000,3000): W all of it.
    assert_numbers(
        &steps[1],
        &[
            ("step_ns", 1000),
            ("comm_ns", 1000),
            ("comm_sum_ns", 1100),
            ("comm_count", 0),
            ("overlap_ns", 400),
            ("idle_ns", 0),
        ],
    );
    // [3000,3600): W 100, Z 300, of which 100 and 100 beside K3.
    assert_numbers(
        &steps[2],
        &[
            ("step_ns", 600),
            ("comm_ns", 400),
            ("comm_count", 1),
            ("overlap_ns", 200),
            ("idle_ns", 0),
        ],
    );
}

// Several ranks.

/// A rank of a run: one step of 400 ns compute and 600 ns AllReduce, shifted by `shift`.
fn rank(number: Option<u32>, pid: u32, shift: i64) -> Report {
    let (main, backward) = (thread(pid, pid), thread(pid, pid + 1));
    let mut report = Report::default();
    if let Some(number) = number {
        report.env("RANK", &number.to_string());
    }
    for step in 0..3 {
        let at = shift + 2000 * step;
        report.range(main, &format!("step {step}"), at + 100..at + 200);
        report.kernel(GEMM, stream(7), at + 1000..at + 1400, main.at(at + 110));
        report.kernel(ALL_REDUCE, stream(20), at + 1400..at + 2000, backward.at(at + 120));
    }
    report
}

#[test]
fn one_rank_without_collectives_passes_through() {
    let report = of(|r| {
        r.range(MAIN, "step 1", 100..200);
        r.kernel(GEMM, stream(7), 1000..1400, MAIN.at(110));
    });
    assert_eq!(report.collectives, []);
    assert_eq!((only_rank(&report).rank, report.steps.len()), (0, 1));
}

#[test]
fn two_of_eight_ranks_are_reported_and_the_others_named() {
    let folder = folder();
    let paths: Vec<PathBuf> = [2, 5]
        .map(|number| {
            let mut one = rank(Some(number), 100 + number, 0);
            one.env("WORLD_SIZE", "8");
            one.save(folder.path(), &format!("run_{number}.sqlite"))
        })
        .to_vec();
    let report = report(&paths);
    assert_eq!(report.ranks.iter().map(|r| r.rank).collect::<Vec<_>>(), [2, 5]);
    assert_eq!(report.summary.world_size, Some(8));
    let missing =
        report.warnings.iter().find(|w| w.code.as_str() == "ranks-missing").expect("a warning");
    assert!(missing.message.contains("0-1, 3-4, 6-7"), "{}", missing.message);
}

// nsys around torchrun on one of two nodes: the environment is srun's, which started two launchers. This node's has three ranks, and
// how many the run has is not known.
#[test]
fn launchers_are_not_counted_as_ranks() {
    let report = of(|r| {
        r.env("SLURM_NTASKS", "2");
        for pid in [7, 8, 9] {
            let main = thread(pid, pid);
            r.range(main, "step 1", 100..200);
            r.kernel(GEMM, stream(7), 1000..1400, main.at(110));
        }
    });
    assert_eq!((report.ranks.len(), report.summary.world_size), (3, None));
    assert!(
        report.warnings.iter().all(|warning| warning.code.as_str() != "ranks-missing"),
        "{:?}",
        report.warnings
    );
}

// One report, two processes with equal correlation, stream and context ids; process 8's kernels are ten times as long.
#[test]
fn equal_correlation_ids_of_two_processes_are_kept_apart() {
    let report = of(|r| {
        for (pid, length) in [(7, 100), (8, 1000)] {
            let main = thread(pid, pid);
            r.range(main, "step 1", 100..200);
            r.range(main, "step 2", 200..300);
            r.kernel(GEMM, stream(7), 5000..5000 + length, main.at(110));
            r.kernel(GEMM, stream(7), 9000..9000 + length, main.at(210));
        }
    });
    let steps: Vec<_> = report
        .ranks
        .iter()
        .map(|r| (r.pid, number(&r.steps[1], "compute_ns"), number(&r.steps[1], "step_ns")))
        .collect();
    assert_eq!(steps, [(7, Some(100), Some(100)), (8, Some(1000), Some(1000))]);
}

#[test]
fn a_ranks_gpu_stays_with_its_cpu() {
    let folder = folder();
    // Equal thread, stream and device numbers everywhere; files named against their ranks, and given in any order.
    let paths: Vec<PathBuf> = (0..4u32)
        .map(|number| {
            let mut one = rank(Some(number), 50, 0);
            one.gpu(0, &format!("GPU of {number}"), 50, 0);
            one.kernel(GEMM, stream(7), 7000..7000 + i64::from(number), thread(50, 50).at(4130));
            one.save(folder.path(), &format!("run_{}.sqlite", 3 - number))
        })
        .collect();
    let report = report(&paths);
    for (number, rank) in (0..4).zip(&report.ranks) {
        assert_eq!(
            (rank.rank, rank.gpu.as_deref()),
            (number, Some(format!("GPU of {number}").as_str()))
        );
        assert_eq!(rank.report, format!("run_{}.sqlite", 3 - number));
        assert_eq!(self::number(&rank.steps[2], "compute_ns"), Some(400 + i64::from(number)));
    }
}

#[test]
fn ranks_on_one_gpu_are_named() {
    let of = |uuids: [&str; 4]| {
        let folder = folder();
        let paths: Vec<PathBuf> = (0..4u32)
            .zip(uuids)
            .map(|(number, uuid)| {
                let mut one = rank(Some(number), 50, 0);
                one.gpu_with_uuid(0, uuid, 50, 0);
                one.save(folder.path(), &format!("run_{number}.sqlite"))
            })
            .collect();
        report(&paths)
    };
    let shared = |report: &nsysnccl::internals::report::Report| {
        report.findings.iter().find(|f| f.id.as_str() == "shared-gpu").cloned()
    };
    let all_on_one = shared(&of(["a-1"; 4])).expect("a finding");
    assert!(all_on_one.title.starts_with("Ranks 0-3 run on one GPU:"), "{}", all_on_one.title);
    let two_pairs = shared(&of(["a-1", "b-2", "b-2", "a-1"])).expect("a finding");
    assert!(
        two_pairs
            .title
            .starts_with("Ranks 0, 3 run on one GPU, and 1 more GPU runs several ranks:"),
        "{}",
        two_pairs.title
    );
    assert_eq!(two_pairs.evidence["ranks"], serde_json::json!(["0, 3", "1-2"]));
    // A number of zeros is none.
    for each_its_own in [["a-1", "a-2", "a-3", "a-4"], ["0000-00"; 4], [""; 4]] {
        assert_eq!(shared(&of(each_its_own)), None, "{each_its_own:?}");
    }
}

#[test]
fn the_report_says_where_each_clock_stands() {
    let folder = folder();
    let mut with = rank(Some(0), 50, 0);
    with.session(1_800_000_000_000_000_000);
    let mut without = rank(Some(1), 51, 0);
    without.without("TARGET_INFO_SESSION_START_TIME");
    let report = report(&[
        with.save(folder.path(), "run_0.sqlite"),
        without.save(folder.path(), "run_1.sqlite"),
    ]);
    assert_eq!(
        report.ranks.iter().map(|r| r.clock.epoch_ns).collect::<Vec<_>>(),
        [Some(1_800_000_000_000_000_000), None]
    );
}

/// A rank whose AllReduce of step i ends `late[i]` after the others'; ms.
fn ending(number: u32, late: &[i64]) -> Report {
    let main = thread(50 + number, 50);
    let mut report = Report::default();
    report.env("RANK", &number.to_string());
    for (step, late) in (0..).zip(late) {
        let at = 100 * MS * step;
        report.range(main, &format!("step {step}"), at + MS..at + 50 * MS);
        report.kernel(GEMM, stream(7), at + 10 * MS..at + 40 * MS, main.at(at + 2 * MS));
        report.kernel(
            ALL_REDUCE,
            stream(20),
            at + 40 * MS..at + (80 + late) * MS,
            main.at(at + 3 * MS),
        );
    }
    report
}

#[test]
fn clocks_that_are_apart_are_brought_together_and_the_offset_is_shown() {
    let folder = folder();
    let here = ending(0, &[0; 6]);
    let mut there = ending(1, &[0; 6]);
    // The other host's clock is 50 ms ahead, half a step.
    there.session(1_700_000_000_000_000_000 + 50 * MS);
    let report = report(&[
        here.save(folder.path(), "run_0.sqlite"),
        there.save(folder.path(), "run_1.sqlite"),
    ]);
    let offsets: Vec<i64> = report.ranks.iter().filter_map(|r| r.clock.offset_ns).collect();
    assert_eq!(offsets[1] - offsets[0], -50 * MS);
    assert!(
        report.ranks.iter().all(|r| r.clock.residual_p95_ns == Some(0) && r.clock.collectives == 6)
    );
}

#[test]
fn ranks_that_do_not_leave_a_collective_together_are_flagged() {
    let folder = folder();
    // All ranks leave an AllReduce together; here one leaves 8 ms early or late, which no offset explains.
    let jumping = [
        ending(0, &[0; 6]).save(folder.path(), "run_0.sqlite"),
        ending(1, &[8, -8, 8, -8, 8, -8]).save(folder.path(), "run_1.sqlite"),
    ];
    let ids = |report: &Finished| report.findings.iter().map(|f| f.id.as_str()).collect::<Vec<_>>();
    assert!(ids(&report(&jumping)).contains(&"end-spread"));
    // The same lateness every time is a clock.
    let steady = [
        ending(0, &[0; 6]).save(folder.path(), "steady_0.sqlite"),
        ending(1, &[8; 6]).save(folder.path(), "steady_1.sqlite"),
    ];
    assert!(!ids(&report(&steady)).contains(&"end-spread"));
}

#[test]
fn a_file_without_gpu_work_among_ranks_is_named() {
    let folder = folder();
    let good = rank(Some(0), 50, 0).save(folder.path(), "run_0.sqlite");
    let mut empty = Report::default();
    empty.range(thread(51, 51), "step 0", 100..200);
    let empty = empty.save(folder.path(), "run_1.sqlite");
    let error = build(&[good.clone(), empty.clone()]).expect_err("rank 1 has no kernels");
    assert_eq!(error.path.as_deref(), Some(empty.as_path()));
    assert!(error.fact.contains("no GPU work"), "{}", error.fact);
    // With --keep-going the rest is reported and the file still named.
    let options = Options { keep_going: true, ..Options::default() };
    let built =
        crate::support::build_with(&[good, empty.clone()], &options).expect("one rank is left");
    assert_eq!((built.report.ranks.len(), built.unusable.len()), (1, 1));
    assert!(built.report.warnings.iter().any(|w| w.message.contains("run_1.sqlite")));
}

#[test]
fn ranks_that_nothing_names_are_numbered_with_a_warning() {
    let folder = folder();
    let paths = [
        rank(None, 50, 0).save(folder.path(), "trainer.sqlite"),
        rank(None, 51, 0).save(folder.path(), "worker.sqlite"),
    ];
    let report = report(&paths);
    assert_eq!(
        report.ranks.iter().map(|r| (r.rank, r.report.as_str())).collect::<Vec<_>>(),
        [(0, "trainer.sqlite"), (1, "worker.sqlite")]
    );
    assert!(codes(&report).contains(&"rank-by-order"));
}

#[test]
fn two_files_that_claim_one_rank_are_refused() {
    let folder = folder();
    // As with `-o rank_%q{LOCAL_RANK}` on two nodes: one name in two folders.
    let paths: Vec<PathBuf> = ["node0", "node1"]
        .map(|node| {
            std::fs::create_dir(folder.path().join(node)).expect("a folder");
            rank(None, 50, 0).save(&folder.path().join(node), "rank_0.sqlite")
        })
        .to_vec();
    let error = build(&paths).expect_err("two of rank 0");
    assert!(error.fact.contains("two inputs claim rank 0"), "{}", error.fact);
    assert_eq!(error.exit_code(), 3);
    // Where the environment holds the true rank, the names do not matter.
    let paths: Vec<PathBuf> = [(0, "node0"), (8, "node1")]
        .map(|(number, node)| {
            let name = folder.path().join(node);
            std::fs::remove_file(name.join("rank_0.sqlite")).expect("the old file");
            rank(Some(number), 50, 0).save(&name, "rank_0.sqlite")
        })
        .to_vec();
    assert_eq!(report(&paths).ranks.iter().map(|r| r.rank).collect::<Vec<_>>(), [0, 8]);
}

// CPU  launches both collectives at 110 and 111; GPU runs them one after the other.
#[test]
fn collectives_overlap_only_where_they_run_not_where_they_are_launched() {
    let report = of(|r| {
        r.range(MAIN, "step 1", 100..200);
        r.kernel(ALL_REDUCE, stream(20), 1000..1500, MAIN.at(110));
        r.kernel(ALL_REDUCE, stream(21), 1500..2000, MAIN.at(111));
    });
    assert_numbers(
        &only_rank(&report).steps[0],
        &[("step_ns", 1000), ("comm_ns", 1000), ("comm_sum_ns", 1000)],
    );
}

#[test]
fn captured_secrets_are_not_in_the_report() {
    let report = of(|r| {
        r.range(MAIN, "step 1", 100..200);
        r.kernel(GEMM, stream(7), 1000..1400, MAIN.at(110));
        r.env("AWS_SECRET_ACCESS_KEY", "hunter2");
        r.env("NCCL_DEBUG", "INFO");
        r.system("DeviceEnvironment", "HF_TOKEN=hunter2;NCCL_P2P_DISABLE=1;PATH=/hunter2");
        r.row("PROCESSES", &[("name", text("hunter2"))]);
    });
    let json = serde_json::to_string(&report).expect("JSON");
    assert!(!json.contains("hunter2"));
    let settings = &report.inputs[0].capture.settings;
    assert_eq!(
        settings.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect::<Vec<_>>(),
        [("NCCL_DEBUG", "INFO"), ("NCCL_P2P_DISABLE", "1")]
    );
}
