//! Which rank is late, what that costs the others, and where its own time went.

use crate::run::{MS, Plan, report};
use crate::support::report::{Copy, stream, thread};
use nsysnccl::report::Report;

fn four(change: impl Fn(&mut Plan)) -> Report {
    let mut plans: Vec<Plan> = (0..4).map(|rank| Plan::new(rank, 4)).collect();
    plans.iter_mut().for_each(|plan| plan.late = |rank, _| if rank == 2 { 6 * MS } else { 0 });
    plans.iter_mut().for_each(change);
    report(&plans)
}

/// The straggler as (rank, times last, others' wait a step, cause, how much longer than the others).
fn straggler(report: &Report) -> (i64, i64, i64, String, i64) {
    let finding = report.findings.iter().find(|f| f.id == "straggler").expect("a straggler");
    let int = |name: &str| finding.evidence[name].as_i64().expect(name);
    let cause = finding.evidence["cause"].as_str().expect("a cause").to_owned();
    (int("rank"), int("last_count"), int("others_wait_ns_per_step"), cause, int("cause_excess_ns_per_step"))
}

/// Rank 2 computes 46 ms where the others compute 40, and the others wait 6 of 100 ms.
#[test]
fn a_rank_with_more_compute() {
    let found = four(|plan| plan.compute_end = |rank, _| if rank == 2 { 46 * MS } else { 40 * MS });
    assert_eq!(straggler(&found), (2, 10, 6 * MS, "compute".to_owned(), 6 * MS));
    let imbalance = found.findings.iter().find(|f| f.id == "compute-imbalance").expect("an imbalance");
    assert_eq!(imbalance.evidence["slowest_rank"], 2);
}

/// Rank 2 computes no longer, but its host launches the AllReduce 6 ms late: its GPU is idle meanwhile.
#[test]
fn a_rank_whose_host_is_late() {
    let found = four(|_| ());
    assert_eq!(straggler(&found), (2, 10, 6 * MS, "idle".to_owned(), 6 * MS));
    assert!(!found.findings.iter().any(|f| f.id == "compute-imbalance"));
}

/// Rank 2 copies for 6 ms before its AllReduce.
#[test]
fn a_rank_that_copies() {
    let folder = crate::support::folder();
    let paths: Vec<_> = (0..4u32)
        .map(|rank| {
            let plan = Plan { late: |rank, _| if rank == 2 { 6 * MS } else { 0 }, ..Plan::new(rank, 4) };
            let mut report = plan.report();
            if rank == 2 {
                for step in 0..10 {
                    let begin = 200 * MS + step * 100 * MS - plan.zero;
                    let launch = thread(502, 502).at(begin - 35 * MS);
                    report.copy(Copy::HtoD, 1 << 20, stream(7), begin + 40 * MS..begin + 46 * MS, launch);
                }
            }
            report.save(folder.path(), &format!("run_{rank}.sqlite"))
        })
        .collect();
    assert_eq!(straggler(&crate::support::report(&paths)), (2, 10, 6 * MS, "copies".to_owned(), 6 * MS));
}

/// A late rank whose clock is off by three steps is the same late rank.
#[test]
fn a_wrong_clock_does_not_hide_it() {
    let found = four(|plan| plan.clock_error = if plan.rank == 2 { 300 * MS } else { 0 });
    assert_eq!(straggler(&found), (2, 10, 6 * MS, "idle".to_owned(), 6 * MS));
}

/// Ranks take turns: nobody is the straggler, and the table of waits says who was late when.
#[test]
fn ranks_that_take_turns_are_no_stragglers() {
    let found = four(|plan| plan.late = |rank, step| if i64::from(rank) == step % 4 { 6 * MS } else { 0 });
    assert!(!found.findings.iter().any(|f| f.id == "straggler"), "{:?}", found.findings);
    let wait = |step: usize, rank: u32| found.waits.iter().find(|w| w.step == step && w.rank == rank).map(|w| (w.wait_ns, w.last_count));
    assert_eq!((wait(1, 1), wait(1, 0)), (Some((0, 1)), Some((6 * MS, 0))));
}
