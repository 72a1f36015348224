//! Eight ranks and a prefetching loader, with every number worked out by hand (the timelines stand above the scenes).

use nsysnccl::internals::model::Metric;
use nsysnccl::internals::report::Report;

use crate::support::scenes::{self, MS, RANKS, STEPS, lateness};
use crate::support::{assert_numbers, folder, only_rank, report};

/// The number of a run's step.
fn of_run(report: &Report, step: usize, metric: Metric) -> Option<f64> {
    report.steps[step].values.f64(metric)
}

#[test]
fn one_exposed_all_reduce() {
    let folder = folder();
    let report = report(&scenes::ddp_8gpu(folder.path()));
    assert_eq!(report.name, "ddp-8gpu");
    assert_eq!(
        report.ranks.iter().map(|r| r.rank).collect::<Vec<_>>(),
        (0..RANKS).collect::<Vec<_>>()
    );
    assert!(
        report.ranks.iter().all(|r| r.rank_source.label() == "environment RANK"
            && r.gpu.as_deref() == Some("NVIDIA H200"))
    );
    for rank in &report.ranks {
        let late = lateness(rank.rank);
        for step in &rank.steps {
            assert_numbers(
                step,
                &[
                    ("step_ns", 701 * MS),
                    ("cpu_range_ns", 700 * MS),
                    ("comm_ns", 587 * MS - late),
                    ("comm_sum_ns", 587 * MS - late),
                    ("comm_count", 1),
                    // 36 forward, 70 backward, 4 optimizer.
                    ("compute_ns", 110 * MS),
                    ("overlap_ns", 0),
                    ("exposed_comm_ns", 587 * MS - late),
                    ("dtod.ns", 4 * MS + late),
                    ("dtod.bytes", 400_000_000),
                    ("exposed_copy_ns", 4 * MS + late),
                    ("idle_ns", 0),
                ],
            );
        }
        // The profiler of rank r started r ms later.
        assert_eq!(
            rank.clock.epoch_ns,
            Some(1_700_000_000_000_000_000 + i64::from(rank.rank) * MS)
        );
    }
    assert_eq!(report.steps.len(), STEPS as usize);
    for step in 0..report.steps.len() {
        assert_eq!(of_run(&report, step, Metric::StepNs), Some(701e6));
        assert_eq!(of_run(&report, step, Metric::CommNs), Some(587e6));
        assert_eq!(of_run(&report, step, Metric::ExposedCommNs), Some(587e6));
        assert_eq!(of_run(&report, step, Metric::CommFraction), Some(587.0 / 701.0));
        assert_eq!(of_run(&report, step, Metric::OverlapFraction), Some(0.0));
        assert!(!report.steps[step].outlier);
    }
    assert_eq!(report.summary.values.median(Metric::CommFraction), Some(587.0 / 701.0));
    assert_eq!(
        (report.summary.ranks, report.summary.world_size, report.summary.counted_steps),
        (8, Some(8), 6)
    );
    assert_eq!(report.warnings, []);
}

#[test]
fn the_last_rank_waits_for_nobody() {
    let folder = folder();
    let report = report(&scenes::ddp_8gpu(folder.path()));
    let [all_reduce] = &report.collectives[..] else {
        panic!("one kind of collective: {:?}", report.collectives)
    };
    assert_eq!(
        (all_reduce.op.label(), all_reduce.bytes, all_reduce.count),
        ("AllReduce", Some(scenes::GRADIENTS), STEPS as u64)
    );
    assert_eq!(all_reduce.comm_id.as_deref(), Some("0xfa012817699a0bae"));
    // Rank 7 arrives last, 0.7 ms after the mean: 587 - 0.7.
    assert_eq!(all_reduce.transfer_ns, Some(586_300_000));
    let waits: Vec<i64> = (0..RANKS).map(|rank| all_reduce.wait_ns[&rank]).collect();
    assert_eq!(waits, [1_400_000, 1_200_000, 1_000_000, 800_000, 600_000, 400_000, 200_000, 0]);
    assert_eq!(
        all_reduce.last_arriver.iter().filter(|(_, n)| **n > 0).collect::<Vec<_>>(),
        [(&7, &(STEPS as u64))]
    );
    // 1,226,141,600 bytes in 586.3 ms, and 2 x 7/8 of that.
    let (algorithm, bus) =
        (all_reduce.algbw_gbs.expect("bytes"), all_reduce.busbw_gbs.expect("bytes"));
    assert!(
        (algorithm - 2.091_321_2).abs() < 1e-6 && (bus - 3.659_812_1).abs() < 1e-6,
        "{algorithm} {bus}"
    );
    // The clocks are right already.
    for rank in &report.ranks {
        assert_eq!((rank.clock.offset_ns, rank.clock.residual_p95_ns), (Some(0), Some(0)));
        assert_eq!(rank.wait_ns_per_step, Some(1_400_000 - 200_000 * i64::from(rank.rank)));
    }
}

#[test]
fn eleven_buckets_beside_the_backward_pass() {
    let folder = folder();
    let report = report(&scenes::ddp_8gpu_bucket100(folder.path()));
    for rank in &report.ranks {
        let late = lateness(rank.rank);
        for step in &rank.steps {
            assert_numbers(
                step,
                &[
                    ("step_ns", 637 * MS),
                    ("comm_ns", 587 * MS - late),
                    ("comm_count", 11),
                    ("compute_ns", 110 * MS),
                    // From the first AllReduce (46 ms) to the end of the backward pass (106 ms).
                    ("overlap_ns", 60 * MS - late),
                    ("exposed_comm_ns", 527 * MS),
                    // The copies lie under the second bucket.
                    ("dtod.ns", 4 * MS),
                    ("dtod.exposed_ns", 0),
                    ("exposed_copy_ns", 0),
                    ("idle_ns", 0),
                ],
            );
        }
    }
    assert_eq!(of_run(&report, 0, Metric::CommNs), Some(587e6));
    assert_eq!(of_run(&report, 0, Metric::ExposedCommNs), Some(527e6));
    assert_eq!(of_run(&report, 0, Metric::OverlapFraction), Some(60.0 / 587.0));
}

#[test]
fn a_prefetching_loader_pulls_no_window() {
    let folder = folder();
    let report = report(&[scenes::prefetching_loader().save(folder.path(), "loader.sqlite")]);
    let steps = &only_rank(&report).steps;
    // Window 0 [1000,2000): P2 and P5 hidden under K0, P3 from 1960 to the edge beside nothing, idle 1950-1960.
    assert_numbers(
        &steps[0],
        &[
            ("start_ns", 1000),
            ("step_ns", 1000),
            ("compute_ns", 950),
            ("htod.ns", 240),
            ("htod.exposed_ns", 40),
            ("htod.bytes", 3 * 4096),
            ("htod.count", 3),
            ("idle_ns", 10),
        ],
    );
    // Window 1 [2000,2950): the rest of P3 under K1; it started in window 0.
    assert_numbers(
        &steps[1],
        &[
            ("start_ns", 2000),
            ("step_ns", 950),
            ("compute_ns", 950),
            ("htod.ns", 40),
            ("htod.exposed_ns", 0),
            ("htod.count", 0),
            ("idle_ns", 0),
        ],
    );
    // Window 2 [3000,4000): P4 under K2, idle 3950-4000.
    assert_numbers(
        &steps[2],
        &[
            ("start_ns", 3000),
            ("step_ns", 1000),
            ("compute_ns", 950),
            ("htod.ns", 100),
            ("htod.exposed_ns", 0),
            ("idle_ns", 50),
        ],
    );
    // Window 3 ends with its own work.
    assert_numbers(
        &steps[3],
        &[
            ("start_ns", 4000),
            ("step_ns", 950),
            ("compute_ns", 950),
            ("htod.ns", 0),
            ("idle_ns", 0),
        ],
    );
}
