//! Captures that are not tidy: copies between GPUs, kernels of other libraries or without a name, times that cannot be.
//! Times are ns; stream 7 computes and stream 20 communicates.

use std::ops::Range;
use std::path::PathBuf;

use nsysnccl::internals::model::Metric;
use nsysnccl::internals::render::{self, Format, Style};
use nsysnccl::internals::report::Report as Finished;
use nsysnccl::internals::run::Options;
use rusqlite::types::Value;

use crate::support::report::{Payload, Report, Stream, Thread, stream, thread};
use crate::support::scenes::{ALL_REDUCE, GEMM, MS};
use crate::support::{assert_numbers, build, folder, only_rank, report};

const MAIN: Thread = Thread { pid: 7, tid: 70 };

fn of(fill: impl FnOnce(&mut Report)) -> Finished {
    let folder = folder();
    let mut one = Report::default();
    fill(&mut one);
    report(&[one.save(folder.path(), "a_0.sqlite")])
}

/// Two ranks of one program.
fn two(fill: impl Fn(u32, &mut Report)) -> Finished {
    let folder = folder();
    let paths: Vec<PathBuf> = (0..2)
        .map(|rank| {
            let mut one = Report::default();
            one.env("RANK", &rank.to_string());
            one.env("WORLD_SIZE", "2");
            fill(rank, &mut one);
            one.save(folder.path(), &format!("a_{rank}.sqlite"))
        })
        .collect();
    report(&paths)
}

fn warning<'a>(report: &'a Finished, code: &str) -> &'a str {
    report.warnings.iter().find(|w| w.code.as_str() == code).map_or("", |w| w.message.as_str())
}

/// A copy of `kind` with the devices that it reads and writes.
fn copy(
    r: &mut Report,
    kind: i64,
    devices: Option<(i64, i64)>,
    stream: Stream,
    time: std::ops::Range<i64>,
    at: i64,
) {
    // A row by hand: the writer of copies knows no devices.
    static NEXT: std::sync::atomic::AtomicI64 = std::sync::atomic::AtomicI64::new(1_000);
    let id = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    r.api(id, MAIN, at);
    let mut row: Vec<(&'static str, Value)> = vec![
        ("start", time.start.into()),
        ("end", time.end.into()),
        ("deviceId", stream.device.into()),
        ("contextId", stream.context.into()),
        ("streamId", stream.stream.into()),
        ("correlationId", id.into()),
        ("globalPid", MAIN.process().into()),
        ("copyKind", kind.into()),
        ("bytes", 500.into()),
    ];
    if let Some((from, to)) = devices {
        row.extend([("srcDeviceId", from.into()), ("dstDeviceId", to.into())]);
    }
    r.row("CUPTI_ACTIVITY_KIND_MEMCPY", &row);
}

// CPU  step 1 [100,200)
//  7   gemm 1000.....1400                                            2000.2100
//  8        P PtoP 1300....1500   A DtoD across 1600..1700
//  9                         L DtoD inside 1450...1650  (200: 1450-1500 under P, 1600-1650 under A)
#[test]
fn copies_from_one_gpu_to_another_are_communication_wherever_they_are_launched() {
    let report = of(|r| {
        r.range(MAIN, "step 1", 100..200);
        r.kernel(GEMM, stream(7), 1000..1400, MAIN.at(110));
        copy(r, 10, None, stream(8), 1300..1500, 111);
        copy(r, 8, Some((0, 1)), stream(8), 1600..1700, 112);
        copy(r, 8, Some((0, 0)), stream(9), 1450..1650, 113);
        r.kernel(GEMM, stream(7), 2000..2100, MAIN.at(120));
    });
    assert_numbers(
        &only_rank(&report).steps[0],
        &[
            ("comm_ns", 300),
            ("comm_count", 2),
            ("overlap_ns", 100),
            ("exposed_comm_ns", 200),
            ("ptop.ns", 300),
            ("ptop.exposed_ns", 200),
            ("ptop.bytes", 1000),
            ("ptop.count", 2),
            ("dtod.ns", 200),
            ("dtod.exposed_ns", 100),
            ("dtod.count", 1),
            ("exposed_copy_ns", 100),
            ("idle_ns", 300),
        ],
    );
}

// CPU  step 1 [100,300)   ncclCommInitRank [110,150): HtoD, DtoD   ncclAllReduce [200,250): kernel, HtoD, DtoD
//  7   HtoD 1000-1100  DtoD 1100-1200 | C 2000-2500  HtoD 2500-2600  DtoD 2600-2700
#[test]
fn what_a_communicator_copies_while_it_is_set_up_is_a_copy() {
    let report = of(|r| {
        r.range(MAIN, "step 1", 100..300);
        let init = Payload { comm: 0xabc, init: Some((2, 0, 0)), ..Payload::default() };
        r.nccl(MAIN, "ncclCommInitRank", 110..150, init);
        copy(r, 1, None, stream(7), 1000..1100, 120);
        copy(r, 8, None, stream(7), 1100..1200, 130);
        let sum = Payload { comm: 0xabc, bytes: Some(8), ..Payload::default() };
        r.nccl(MAIN, "ncclAllReduce", 200..250, sum);
        r.kernel(ALL_REDUCE, stream(7), 2000..2500, MAIN.at(210));
        copy(r, 1, None, stream(7), 2500..2600, 220);
        copy(r, 8, None, stream(7), 2600..2700, 230);
    });
    assert_numbers(
        &only_rank(&report).steps[0],
        &[
            ("comm_ns", 600),
            ("comm_count", 2),
            ("htod.count", 2),
            ("htod.ns", 200),
            ("dtod.count", 1),
            ("dtod.ns", 100),
        ],
    );
}

fn ten_steps(r: &mut Report, kernel: &str) {
    for i in 0..10 {
        let at = 10 * MS * i;
        r.range(MAIN, &format!("step {i}"), at..at + 9 * MS);
        r.kernel(GEMM, stream(7), at + MS..at + 4 * MS, MAIN.at(at + 1));
        r.kernel(kernel, stream(7), at + 4 * MS..at + 6 * MS, MAIN.at(at + 2));
    }
}

#[test]
fn where_no_communication_is_recognised_the_likeliest_kernels_are_named_as_a_doubt() {
    let report = two(|_, r| ten_steps(r, "void lib::fast_allgather_push<float>(float *)"));
    let doubt = warning(&report, "no-communication-recognised");
    assert!(
        doubt.contains("fast_allgather_push (by its name") && doubt.contains("2 ranks"),
        "{doubt}"
    );
    assert!(!doubt.contains("gemm"), "{doubt}");
    let text =
        render::print(&report, Format::Terminal, &Style { width: 120, color: false, full: true });
    let head = text.split_whitespace().take(60).collect::<Vec<_>>().join(" ");
    assert!(head.contains("No communication was recognised"), "{head}");
    // A run of one rank has nobody to talk to.
    let alone = of(|r| ten_steps(r, "void lib::fast_allgather_push<float>(float *)"));
    assert_eq!(warning(&alone, "no-communication-recognised"), "");
}

// rank 0   |=== x ======|       |= x =|          its calls start up to 0.6 ms apart on the ranks
// rank 1       |= x ====|   |=== x ===|          and end together
#[test]
fn a_kernel_that_runs_as_if_it_waited_is_suspected() {
    let report = two(|rank, r| {
        for i in 0..20 {
            let at = 10 * MS * i;
            let late = if rank == 1 { i * 13 % 7 * (MS / 10) } else { 0 };
            r.range(MAIN, &format!("step {i}"), at..at + 9 * MS);
            r.kernel(GEMM, stream(7), at + MS..at + 3 * MS + late, MAIN.at(at + 1));
            r.kernel("x(int)", stream(7), at + 4 * MS + late..at + 6 * MS, MAIN.at(at + 2));
        }
    });
    let doubt = warning(&report, "no-communication-recognised");
    assert!(doubt.contains("x (its calls start apart and end together"), "{doubt}");
}

#[test]
fn fused_kernels_stay_compute_and_are_named() {
    let report = two(|_, r| {
        ten_steps(
            r,
            "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(int)2, __half>(int)",
        )
    });
    let fused = warning(&report, "fused-kernels");
    assert!(fused.contains("allreduce_fusion_kernel_oneshot_lamport"), "{fused}");
    // 10 calls of 2 ms on each of 2 ranks.
    assert!(fused.contains("20 times") && fused.contains("40.0 ms"), "{fused}");
    assert_numbers(&report.ranks[0].steps[0], &[("comm_ns", 0), ("compute_ns", 5 * MS)]);
}

// CPU  step 1 [100,200)
//  7   gemm 1000-1400   ? 1400-1600 (names NULL)   ? 1600-1900 (names dangle)
// 20   C 1300-1500
#[test]
fn kernels_without_a_name_are_work_of_unknown_class() {
    let nameless = |r: &mut Report, id: i64, names: Value, time: std::ops::Range<i64>| {
        r.api(id, MAIN, 120);
        r.row(
            "CUPTI_ACTIVITY_KIND_KERNEL",
            &[
                ("start", time.start.into()),
                ("end", time.end.into()),
                ("deviceId", 0.into()),
                ("contextId", 1.into()),
                ("streamId", 7.into()),
                ("correlationId", id.into()),
                ("globalPid", MAIN.process().into()),
                ("demangledName", names.clone()),
                ("shortName", names),
            ],
        );
    };
    let report = of(|r| {
        r.range(MAIN, "step 1", 100..200);
        r.kernel(GEMM, stream(7), 1000..1400, MAIN.at(110));
        nameless(r, 901, (-1).into(), 1400..1600);
        nameless(r, 902, 987_654.into(), 1600..1900);
        r.kernel(ALL_REDUCE, stream(20), 1300..1500, MAIN.at(130));
    });
    let step = &only_rank(&report).steps[0];
    assert_numbers(
        step,
        &[
            ("compute_ns", 400),
            ("comm_ns", 200),
            ("unclassified.ns", 500),
            ("unclassified.count", 2),
            ("unclassified.exposed_ns", 400),
            ("idle_ns", 0),
        ],
    );
    assert_eq!(step.values.f64(nsysnccl::internals::model::Metric::CommFraction), None);
    let message = warning(&report, "unnamed-kernels");
    assert!(message.starts_with("2 kernels have no name"), "{message}");
    // It is not a graph, and nothing is said of graphs.
    assert_eq!(warning(&report, "graph-level-trace"), "");
}

// CPU  step 1 [100100,100200)   step 2 [100200,100300)
//  7   A 101000-101400, recorded until 900000 | B 101500-101600 | lost (0-0) | D 102000-102400
#[test]
fn lost_times_and_impossible_ends_are_left_out_or_cut_and_counted_by_table() {
    let report = of(|r| {
        r.range(MAIN, "step 1", 100_100..100_200);
        r.range(MAIN, "step 2", 100_200..100_300);
        r.kernel(GEMM, stream(7), 101_000..900_000, MAIN.at(100_110));
        r.kernel(GEMM, stream(7), 101_500..101_600, MAIN.at(100_120));
        r.kernel(GEMM, stream(7), 0..0, MAIN.at(100_130));
        r.kernel(GEMM, stream(7), 102_000..102_400, MAIN.at(100_210));
        let ends_before_it_starts = Range { start: 102_100, end: 102_050 };
        copy(r, 1, None, stream(9), ends_before_it_starts, 100_220);
    });
    let steps = &only_rank(&report).steps;
    assert_numbers(&steps[0], &[("step_ns", 1000), ("compute_ns", 600), ("idle_ns", 400)]);
    assert_numbers(&steps[1], &[("step_ns", 400), ("compute_ns", 400), ("htod.count", 1)]);
    for (code, says) in [
        ("zero-time", "1 row of CUPTI_ACTIVITY_KIND_KERNEL"),
        ("overrun", "1 row of CUPTI_ACTIVITY_KIND_KERNEL"),
        ("negative-duration", "1 row of CUPTI_ACTIVITY_KIND_MEMCPY"),
    ] {
        let message = warning(&report, code);
        assert!(message.starts_with(says), "{code}: {message}");
    }
}

// Branches of one graph are recorded under one stream: what overlaps there is real.
#[test]
fn branches_of_a_cuda_graph_may_overlap_on_their_stream() {
    let report = of(|r| {
        r.range(MAIN, "step 1", 100..200);
        for (id, node, time) in [(801, 1, 1000..2000), (802, 2, 1100..1150)] {
            r.api(id, MAIN, 110);
            let names = r.string("gemm");
            r.row(
                "CUPTI_ACTIVITY_KIND_KERNEL",
                &[
                    ("start", time.start.into()),
                    ("end", time.end.into()),
                    ("deviceId", 0.into()),
                    ("contextId", 1.into()),
                    ("streamId", 7.into()),
                    ("correlationId", id.into()),
                    ("globalPid", MAIN.process().into()),
                    ("demangledName", names.into()),
                    ("shortName", names.into()),
                    ("graphNodeId", node.into()),
                ],
            );
        }
    });
    assert_numbers(&only_rank(&report).steps[0], &[("step_ns", 1000), ("compute_ns", 1000)]);
    assert_eq!(warning(&report, "overrun"), "");
}

#[test]
fn launches_without_gpu_rows_are_told_from_no_capture_with_the_profilers_note() {
    let folder = folder();
    let mut r = Report::default();
    for i in 0..150 {
        r.api(i + 1, MAIN, 1000 * i);
    }
    let note = |text: &str| -> Vec<(&'static str, Value)> {
        vec![("timestamp", 5.into()), ("severity", 2.into()), ("text", text.to_owned().into())]
    };
    r.row("DIAGNOSTIC_EVENT", &note("No OpenGL events collected."));
    r.row("DIAGNOSTIC_EVENT", &note("CUDA profiling might have not been started correctly."));
    let path = r.save(folder.path(), "cap_0.sqlite");
    let error = build(&[path]).expect_err("nothing to report");
    assert_eq!(error.exit_code(), 3);
    for part in ["150 kernel launches", "no GPU activity", "CUDA profiling might have not been"] {
        assert!(error.fact.contains(part), "{part}: {}", error.fact);
    }
    assert!(!error.fact.contains("OpenGL"), "{}", error.fact);
}

#[test]
fn a_topology_alone_shows_what_joins_the_gpus_of_the_ranks() {
    let folder = folder();
    let mut r = Report::default();
    for pid in [70, 71] {
        let main = thread(pid, pid);
        let device = i64::from(pid) - 70;
        r.gpu(device + 2, "NVIDIA A100", pid, device);
        r.range(main, "step 1", 100..200);
        let on = Stream { device, context: 1, stream: 7 };
        r.kernel(GEMM, on, 1000..1400, main.at(110));
        r.kernel(ALL_REDUCE, on, 1400..1600, main.at(120));
    }
    let path = r.save(folder.path(), "two.sqlite");
    let topology = folder.path().join("topo.txt");
    // UTF-16 with a byte-order mark, as a shell may write it.
    let text = "\u{feff}\tGPU2\tGPU3\tmlx5_0\tCPU Affinity\nGPU2\t X \tPXB\tPIX\t0-3\nGPU3\tPXB\t X \tSYS\t0-3\n";
    let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    std::fs::write(&topology, bytes).expect("written");
    let options = Options { topology: Some(topology), ..Options::default() };
    let report = crate::support::build_with(&[path], &options).expect("a report").report;
    let gpus = &report.transport.as_ref().expect("a transport").gpus;
    let ranks: Vec<(u32, &[u32])> = gpus.iter().map(|g| (g.gpu, g.ranks.as_slice())).collect();
    assert_eq!(ranks, [(2, &[0][..]), (3, &[1][..])]);
    assert_eq!(gpus[0].paths[&3], "PXB");
    assert_eq!(gpus[1].network_cards["mlx5_0"], "SYS");
    let printed =
        render::print(&report, Format::Terminal, &Style { width: 120, color: false, full: true });
    assert!(printed.contains("What joins the GPUs of a machine"), "{printed}");
}

/// Four parts of each of ten iterations, every 20 ms, with the numbers of the parts: 14 ms of compute in the first three and an
/// AllReduce of 4 ms in the last.
fn ten_of_four(name: &str) -> Finished {
    of(|r| {
        for i in 0..10 {
            let at = |ms: i64| (20 * i + ms) * MS;
            for part in 0..4 {
                let begin = at(0) + part * MS / 10;
                r.range(MAIN, &format!("{name} {part}"), begin..begin + MS / 20);
                let (gpu, kernel, stream) = match part {
                    3 => (at(14)..at(18), ALL_REDUCE, stream(20)),
                    _ => (at(1 + 4 * part)..at(5 + 4 * part), GEMM, stream(7)),
                };
                r.kernel(kernel, stream, gpu, MAIN.at(begin + 10));
            }
        }
    })
}

// layer 0  |1..5)   layer 1 |5..9)   layer 2 |9..13)   layer 3, AllReduce |14..18)    the next layer 0 at 21
#[test]
fn numbered_parts_of_an_iteration_are_not_steps() {
    let report = ten_of_four("layer");
    // From one layer 0 to the next: the last one only ends a period.
    let times: Vec<i64> =
        report.steps.iter().filter_map(|s| s.values.int(Metric::StepNs)).collect();
    assert_eq!(times, [20 * MS; 9]);
    assert_eq!(report.summary.values.median(Metric::CommFraction), Some(0.2));
    assert_eq!(report.settings.step_pattern, "^layer 0$");
    assert!(!warning(&report, "steps-are-periods").is_empty(), "{:?}", report.warnings);
    // Numbers of batches begin again with each epoch, and each is a step.
    assert_eq!(ten_of_four("my_batch").steps.len(), 40);
}
