//! Runs with known answers, and what the runs of all tests are made of: times, kernels, a communicator.

use std::path::{Path, PathBuf};

use super::report::{Copy, Payload, Report, stream, thread};

pub const US: i64 = 1_000;
pub const MS: i64 = 1_000_000;
pub const SECOND: i64 = 1_000_000_000;
/// Unix time of a report's time 0, ns, where a test sets nothing else.
pub const EPOCH: i64 = 1_700_000_000_000_000_000;
pub const GEMM: &str = "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm>(T1::Params)";
pub const OPTIMIZER: &str = "void at::native::multi_tensor_apply_kernel<float>(T1)";
pub const ALL_REDUCE: &str =
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)";
pub const SEND_RECV: &str = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<(unsigned long)4096>)";
pub const WORLD: u64 = 0xfa01_2817_699a_0bae;
/// What Inspector prints of [`WORLD`]: 14 digits of 16.
pub const WORLD_LOGGED: &str = "0xfa012817699a0b";
/// Gradients of 306 M parameters in fp32.
pub const GRADIENTS: u64 = 1_226_141_600;
pub const RANKS: u32 = 8;
pub const STEPS: i64 = 6;

/// When rank r arrives at the first AllReduce of a step, compared with the mean over ranks: -0.7, -0.5, ... 0.7 ms.
pub fn lateness(rank: u32) -> i64 {
    (2 * i64::from(rank) - 7) * MS / 10
}

/// What one step of a rank does on the GPU, ms from its first kernel.
struct Plan {
    step: i64,
    backward_end: i64,
    /// Start of each AllReduce and its bytes; each lasts until the next, the last until `comm_end`.
    buckets: Vec<(i64, u64)>,
    comm_end: i64,
}

/// Eight ranks whose step takes 701 ms, 587 of them one AllReduce that nothing hides.
///
/// ```text
/// ms             0        36        106     110                       697  701
/// stream 7       | forward | backward | copy |                         | optimizer |
/// stream 20                                  | AllReduce (587)         |
/// ```
/// Rank r ends its copies and starts the AllReduce `lateness(r)` after 110 ms; all leave it together at 697 ms, so
/// its kernel lasts 587 ms minus that, the mean over ranks is 587 ms, and rank 7 waits for nobody.
pub fn ddp_8gpu(folder: &Path) -> Vec<PathBuf> {
    let plan =
        Plan { step: 701, backward_end: 106, buckets: vec![(110, GRADIENTS)], comm_end: 697 };
    eight(folder, "ddp-8gpu", &plan)
}

/// The same with eleven buckets, the first of which starts 10 ms into the backward pass.
///
/// ```text
/// ms             0        36   46          106                        633  637
/// stream 7       | forward | backward       | copy (4) |               | optimizer |
/// stream 20                    | AR 1 | AR 2 | ...           | AR 11   |
/// ```
/// Ten buckets last 53 ms and the last one 57 ms: 587 ms of communication, of which 60 run beside the backward pass and
/// none beside the optimizer. Rank r starts its first AllReduce `lateness(r)` after 46 ms.
pub fn ddp_8gpu_bucket100(folder: &Path) -> Vec<PathBuf> {
    let bytes = GRADIENTS / 11;
    let buckets = (0..11)
        .map(|i| (46 + 53 * i, if i == 10 { GRADIENTS - 10 * bytes } else { bytes }))
        .collect();
    let plan = Plan { step: 637, backward_end: 106, buckets, comm_end: 633 };
    eight(folder, "ddp-8gpu-bucket100", &plan)
}

fn eight(folder: &Path, name: &str, plan: &Plan) -> Vec<PathBuf> {
    (0..RANKS)
        .map(|rank| one_of_eight(plan, rank).save(folder, &format!("{name}_{rank}.sqlite")))
        .collect()
}

/// One rank: the profiler of rank r started r ms later, so its own time is r ms behind.
fn one_of_eight(plan: &Plan, rank: u32) -> Report {
    let mut report = Report::default();
    let (main, backward) = (thread(1000 + rank, 1000 + rank), thread(1000 + rank, 1100 + rank));
    report.session(EPOCH + i64::from(rank) * MS);
    report.env("RANK", &rank.to_string());
    report.env("WORLD_SIZE", &RANKS.to_string());
    report.system("Hostname", "node0");
    report.gpu(i64::from(rank), "NVIDIA H200", main.pid, 0);
    let late = lateness(rank);
    for step in 0..STEPS {
        // The CPU is 9 ms ahead of the GPU.
        let gpu = |ms: i64| 20 * MS - i64::from(rank) * MS + (step * plan.step + ms) * MS;
        let cpu = |ms: i64| gpu(ms) - 9 * MS;
        report.range(main, &format!("Batch {}", 5 + step), cpu(0)..cpu(plan.step - 1));
        report.kernel(GEMM, stream(7), gpu(0)..gpu(36), main.at(cpu(1)));
        report.kernel(GEMM, stream(7), gpu(36)..gpu(plan.backward_end), backward.at(cpu(2)));
        let first = plan.buckets[0].0;
        let copy_end =
            if plan.buckets.len() == 1 { gpu(first) + late } else { gpu(plan.backward_end + 4) };
        report.copy(
            Copy::DtoD,
            400_000_000,
            stream(7),
            gpu(plan.backward_end)..copy_end,
            backward.at(cpu(3)),
        );
        for (i, &(start, bytes)) in plan.buckets.iter().enumerate() {
            let end = plan.buckets.get(i + 1).map_or(plan.comm_end, |next| next.0);
            let at = cpu(4) + i as i64 * 1000;
            let start = gpu(start) + if i == 0 { late } else { 0 };
            let payload = Payload {
                comm: WORLD,
                bytes: Some(bytes),
                redop: Some("Sum"),
                ..Payload::default()
            };
            report.nccl(backward, "ncclAllReduce", at..at + 900, payload);
            report.kernel(ALL_REDUCE, stream(20), start..gpu(end), backward.at(at + 100));
        }
        report.kernel(
            OPTIMIZER,
            stream(7),
            gpu(plan.comm_end)..gpu(plan.comm_end + 4),
            main.at(cpu(6)),
        );
    }
    report
}

/// A loader that copies ahead on a side stream while the CPU is several steps ahead of the GPU; ns.
///
/// ```text
/// CPU main    Batch 0 [100,200)  Batch 1 [220,320)  Batch 2 [340,440)  Batch 3 [460,560)      all before the GPU starts
/// CPU loader  P0 at 50 (before)  P1 at 150, P2 at 250, P5 at 500 (inside)  P3 at 330 (between 1 and 2)  P4 at 400
/// GPU 7       K0 1000-1900 O0 1900-1950 | K1 2000-2900 O1 2900-2950 | K2 3000-3900 O2 3900-3950 | K3 4000-4900 O3 4900-4950
/// GPU 9  P0 600-700 P1 700-800  P2 1200-1300  P5 1400-1500  P3 1960-2040          P4 3100-3200
/// ```
/// P1, P2 and P5 were launched in steps 0, 1 and 3 but run in other windows or none; none may pull a window forward.
/// P3 belongs to no step, and ends window 1 where that step's own work ends (2950).
pub fn prefetching_loader() -> Report {
    let mut report = Report::default();
    let (main, loader) = (thread(7, 70), thread(7, 80));
    for step in 0..4 {
        let (cpu, gpu) = (100 + 120 * step, 1000 + 1000 * step);
        report.range(main, &format!("Batch {step}"), cpu..cpu + 100);
        report.kernel(GEMM, stream(7), gpu..gpu + 900, main.at(cpu + 10));
        report.kernel(OPTIMIZER, stream(7), gpu + 900..gpu + 950, main.at(cpu + 90));
    }
    for (at, time) in [
        (50, 600..700),
        (150, 700..800),
        (250, 1200..1300),
        (330, 1960..2040),
        (400, 3100..3200),
        (500, 1400..1500),
    ] {
        report.copy(Copy::HtoD, 4096, stream(9), time, loader.at(at));
    }
    report
}
