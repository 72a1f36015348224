//! Where in the program the time goes, on timelines worked out by hand.

use nsysnccl::internals::places::view::Place;
use nsysnccl::internals::report::Report as Finished;
use nsysnccl::internals::run::Options;

use crate::support::cluster::{ALL_REDUCE, Cluster, MIB, MS, Rank, SECOND, finding};
use crate::support::report::{stream, thread};
use crate::support::scenes::GEMM;

/// Start of step `i`: steps take 100 ms.
fn at(i: i64) -> i64 {
    SECOND + i * 100 * MS
}

/// A kernel that the autograd thread launches half a millisecond before.
fn backward(rank: &mut Rank, time: std::ops::Range<i64>) {
    let autograd = thread(1000 + rank.rank, 5000 + rank.rank);
    let launch = autograd.at(rank.own(time.start - MS / 2));
    let time = rank.span(time);
    rank.report.kernel(GEMM, stream(7), time, launch);
}

fn range(rank: &mut Rank, tid: u32, name: &str, time: std::ops::Range<i64>) {
    let time = rank.span(time);
    rank.report.range(thread(1000 + rank.rank, tid), name, time);
}

// ms of a step       0    10   20   30   40   50   60   70   80   90   100
// main thread        |forward---------|backward--------------------|
//                    |l. 0|layer 1----|
// autograd thread                     |layer 1-------|
// stream 7           |gemm|gemm-------|gemm----------|              |gemm|
// stream 20                                          |AllReduce|
// launches are 0.5 ms before their kernels, ranges begin 1 ms before them; the last kernel is launched in no range of the step
fn run() -> Finished {
    let mut cluster = Cluster::new(2);
    for i in 0..4 {
        let t = at(i);
        cluster.step(&format!("step {i}"), t - 2 * MS..t + 95 * MS);
        for rank in &mut cluster.ranks {
            let (main, autograd) = (1000 + rank.rank, 5000 + rank.rank);
            range(rank, main, "forward", t - MS..t + 29 * MS);
            range(rank, main, "layer 0", t - MS..t + 9 * MS);
            range(rank, main, "layer 1", t + 9 * MS..t + 29 * MS);
            range(rank, main, "backward", t + 29 * MS..t + 89 * MS);
            range(rank, autograd, "layer 1", t + 29 * MS..t + 59 * MS);
            rank.compute(t..t + 10 * MS);
            rank.compute(t + 10 * MS..t + 30 * MS);
            backward(rank, t + 30 * MS..t + 60 * MS);
            rank.collective(&ALL_REDUCE.bytes(64 * MIB), t + 60 * MS..t + 80 * MS);
            rank.compute(t + 90 * MS..t + 100 * MS);
        }
    }
    cluster.finish_with(&Options { replay: true, ..Options::default() })
}

/// Name, compute, exposed communication, idle, in ms.
fn rows(table: &[Place]) -> Vec<(&str, i64, i64, i64)> {
    let ms = |ns: i64| (ns + MS / 2) / MS;
    let row =
        |place: &'_ Place| (ms(place.compute_ns), ms(place.exposed_comm_ns), ms(place.idle_ns));
    let mut rows: Vec<_> = table
        .iter()
        .map(|place| {
            let (compute, comm, idle) = row(place);
            (place.name.as_str(), compute, comm, idle)
        })
        .collect();
    rows.sort_unstable();
    rows
}

#[test]
fn phases_and_layers_over_threads() {
    let report = run();
    let places = &report.places;
    let outside = "(in no range of the step)";
    assert_eq!(
        rows(&places.phase),
        [(outside, 10, 0, 10), ("backward", 30, 20, 0), ("forward", 30, 0, 0)]
    );
    assert_eq!(
        rows(&places.layer),
        [
            (outside, 10, 0, 10),
            ("backward / AllReduce 1", 0, 20, 0),
            ("backward / layer 1", 30, 0, 0),
            ("forward / layer 0", 10, 0, 0),
            ("forward / layer 1", 20, 0, 0),
        ]
    );
    assert_eq!(
        rows(&places.communicator),
        [("data parallel (a guess), 2 ranks each", 0, 20, 0), ("no communication", 70, 0, 10)]
    );
    // Each table is the whole step.
    for table in [&places.phase, &places.layer, &places.communicator, &places.kernel] {
        let sum: i64 = table.iter().map(|place| place.ns).sum();
        assert!((sum - 100 * MS).abs() < MS / 100, "{sum}: {table:?}");
        for place in table {
            let parts = place.compute_ns
                + place.exposed_comm_ns
                + place.exposed_copy_ns
                + place.unclassified_ns
                + place.idle_ns;
            assert!((parts - place.ns).abs() <= 3, "{place:?}");
        }
    }
}

// The gap of 10 ms ends with a kernel that is launched 9.5 ms after its begin; the main thread is in "backward" until 9 ms.
#[test]
fn what_the_host_did_while_the_gpu_was_idle() {
    let report = run();
    let of_rank = |number: u32| -> Vec<(&str, i64, f64)> {
        let rows = report.places.idle.iter().filter(|row| row.rank == number);
        rows.map(|row| (row.name.as_str(), row.ns, row.count)).collect()
    };
    for number in [0, 1] {
        let rows = of_rank(number);
        assert_eq!(rows.len(), 2, "{rows:?}");
        assert_eq!(rows[0].0, "between calls, in 'backward'");
        assert!((rows[0].1 - 9_500_000).abs() < 10_000, "{rows:?}");
        assert_eq!(rows[1].0, "launched, not yet started");
        assert!((rows[1].1 - 500_000).abs() < 10_000, "{rows:?}");
        assert_eq!((rows[0].2, rows[1].2), (1.0, 1.0));
    }
}

// rank 2  |gemm 50|extra 20|extra 10|AR 10|      others  |gemm 50|AR 40     |
#[test]
fn a_straggler_is_told_with_its_kernels() {
    let mut cluster = Cluster::new(4);
    for i in 0..10 {
        let t = at(i);
        cluster.step(&format!("step {i}"), t - 2 * MS..t + 95 * MS);
        for rank in &mut cluster.ranks {
            rank.compute(t..t + 50 * MS);
            let mut arrival = t + 50 * MS;
            if rank.rank == 2 {
                rank.kernel("extra_kernel", stream(7), arrival..arrival + 20 * MS);
                rank.kernel("extra_kernel", stream(7), arrival + 20 * MS..arrival + 30 * MS);
                arrival += 30 * MS;
            }
            rank.collective(&ALL_REDUCE.bytes(64 * MIB), arrival..t + 90 * MS);
            rank.compute(t + 90 * MS..t + 100 * MS);
        }
    }
    let report = cluster.finish();
    let late = finding(&report, "straggler").expect("a straggler");
    assert_eq!(
        late.evidence["kernels"].as_str(),
        Some("extra_kernel +30.0 ms a step (2 calls, others 0)")
    );
    assert!(
        late.title.contains(
            "Most of it is 'extra_kernel' (30.0 ms a step more on average, 2 calls instead of 0)."
        ),
        "{}",
        late.title
    );
    let row = &report.places.excess[0];
    assert_eq!(
        (row.rank, row.name.as_str(), row.excess_ns, row.ns, row.others_ns),
        (2, "extra_kernel", 30 * MS, 30 * MS, 0)
    );
}

// 97 ms compute and 3 ms of which `idle` ms before the last kernel: below the usual threshold, and the largest part besides compute.
#[test]
fn the_largest_part_besides_compute_always_has_a_finding() {
    let run = |idle: i64| {
        let mut cluster = Cluster::new(1);
        for i in 0..6 {
            let t = at(i);
            cluster.step(&format!("step {i}"), t - 2 * MS..t + 95 * MS);
            cluster.ranks[0].compute(t..t + 50 * MS);
            cluster.ranks[0].compute(t + 50 * MS + idle..t + 100 * MS);
        }
        cluster.finish()
    };
    let with = run(3 * MS);
    let idle = finding(&with, "idle").unwrap_or_else(|| panic!("{:#?}", with.findings));
    assert!(idle.title.contains("3.0 % of the step"), "{}", idle.title);
    assert!(finding(&run(MS / 2), "idle").is_none());
}
