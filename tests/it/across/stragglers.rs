//! Which rank the others wait for, what that costs them, and where its own time goes.

use nsysnccl::internals::catalogue::{Finding, Severity};
use nsysnccl::internals::report::Report as Finished;

use crate::support::cluster::{
    ALL_REDUCE, Cluster, MIB, MS, Rank, SECOND, US, WORLD, finding, rank,
};

/// Start of step `i`: steps take 100 ms.
fn at(i: i64) -> i64 {
    SECOND + i * 100 * MS
}

/// `n` ranks and ten steps of 50 ms compute, what `more` adds from then on until a rank arrives at an AllReduce, which ends at
/// 90 ms, and 10 ms of optimizer. `more` returns the time of arrival.
fn run(n: u32, more: impl Fn(&mut Rank, i64, i64) -> i64) -> Finished {
    let mut cluster = Cluster::new(n);
    for i in 0..10 {
        cluster.step(&format!("step {i}"), at(i) - 2 * MS..at(i) + 95 * MS);
        for rank in &mut cluster.ranks {
            rank.compute(at(i)..at(i) + 50 * MS);
            let arrival = more(rank, i, at(i) + 50 * MS);
            rank.collective(&ALL_REDUCE.bytes(64 * MIB), arrival..at(i) + 90 * MS);
            rank.compute(at(i) + 90 * MS..at(i) + 100 * MS);
        }
    }
    cluster.finish()
}

#[track_caller]
fn straggler(report: &Finished) -> &Finding {
    finding(report, "straggler").unwrap_or_else(|| panic!("{:#?}", report.findings))
}

fn fact(finding: &Finding, name: &str) -> i64 {
    finding.evidence[name].as_i64().expect("a number")
}

// rank 2  |compute 50|compute 30|AR 10|      others  |compute 50|AR 40     |
#[test]
fn a_rank_that_computes_longer() {
    let report = run(4, |rank, _, t| {
        if rank.rank == 2 {
            rank.compute(t..t + 30 * MS);
            return t + 30 * MS;
        }
        t
    });
    let late = straggler(&report);
    assert_eq!(
        (fact(late, "rank"), late.evidence["cause"].as_str(), late.severity),
        (2, Some("compute"), Severity::High)
    );
    assert_eq!((fact(late, "last_count"), fact(late, "ordered_count")), (10, 10));
    assert_eq!(
        (fact(late, "others_wait_ns_per_step"), fact(late, "cause_excess_ns_per_step")),
        (30 * MS, 30 * MS)
    );
    assert!(
        late.title.contains(
            "and the others wait for it: up to 30.0 ms a step in the median (30.0 % of the step)."
        ),
        "{}",
        late.title
    );
    assert!(
        late.title.starts_with("Rank 2 arrives last at 10 of 10 collectives")
            && late.title.contains("compute kernels take 30.0 ms longer"),
        "{}",
        late.title
    );
    // The same fact is not told a second time.
    assert!(
        finding(&report, "compute-imbalance").is_none()
            && finding(&report, "arrival-jitter").is_none()
    );
    // Three ranks wait 30 of their 40 ms in the AllReduce, rank 2 none of its 10: 22.5 of 32.5 ms in the mean.
    let share = finding(&report, "exposed-communication").expect("communication");
    assert_eq!(
        (fact(share, "exposed_comm_ns"), fact(share, "exposed_wait_ns")),
        (32_500 * US, 22_500 * US)
    );
    assert!(
        share
            .title
            .ends_with("of which ranks wait 22.5 ms for others to arrive (mean over ranks)."),
        "{}",
        share.title
    );
    assert!(share.advice.as_deref().is_some_and(|a| a.starts_with("Most of it is waiting")));
    for r in 0..4 {
        let waits = if r == 2 { 0 } else { 30 * MS };
        assert_eq!(
            (rank(&report, r).wait_ns_per_step, rank(&report, r).last_count),
            (Some(waits), Some(if r == 2 { 10 } else { 0 }))
        );
    }
    for wait in &report.waits {
        let expected = if wait.rank == 2 { (0, 0, 30 * MS) } else { (30 * MS, 30 * MS, 0) };
        assert_eq!((wait.wait_ns, wait.exposed_wait_ns, wait.waited_for_ns), expected);
    }
}

// The host of rank 1 launches the AllReduce 30 ms late: its GPU is idle meanwhile. The others are never idle.
#[test]
fn a_rank_whose_host_is_late() {
    let report = run(2, |rank, _, t| if rank.rank == 1 { t + 30 * MS } else { t });
    let late = straggler(&report);
    assert_eq!((fact(late, "rank"), late.evidence["cause"].as_str()), (1, Some("host")));
    assert_eq!(
        (fact(late, "others_wait_ns_per_step"), fact(late, "cause_excess_ns_per_step")),
        (30 * MS, 30 * MS)
    );
    // One rank waits: that is a figure, not a bound.
    assert!(
        late.title.contains("and the other rank waits for it: 30.0 ms a step in the median"),
        "{}",
        late.title
    );
    assert!(
        late.title.ends_with(
            "Its GPU is idle 30.0 ms longer than the other's, most of it before its host has launched what comes next: its host is late."
        ),
        "{}",
        late.title
    );
    // 15 % of idle time in the mean, all of it on the late rank: said once.
    assert!(finding(&report, "idle").is_none(), "{:#?}", report.findings);
    assert_eq!(report.findings[0].id.as_str(), "straggler");
}

// All hosts are slow, one more so: both are worth a word.
#[test]
fn idle_time_of_all_ranks_is_not_the_stragglers() {
    let report = run(2, |rank, _, t| t + if rank.rank == 1 { 30 * MS } else { 15 * MS });
    assert_eq!(straggler(&report).evidence["cause"].as_str(), Some("host"));
    let idle = finding(&report, "idle").expect("idle time");
    assert!(idle.title.contains("22.5 ms: 30.0 ms on rank 1, 15.0 ms on rank 0"), "{}", idle.title);
}

#[test]
fn a_rank_that_copies_longer() {
    let report = run(3, |rank, _, t| {
        if rank.rank == 0 {
            rank.copy(t..t + 12 * MS);
            return t + 12 * MS;
        }
        t
    });
    let late = straggler(&report);
    assert_eq!((fact(late, "rank"), late.evidence["cause"].as_str()), (0, Some("copies")));
    assert_eq!(fact(late, "cause_excess_ns_per_step"), 12 * MS);
    assert!(
        late.title.contains("exposed copies take 12.0 ms longer than the others'"),
        "{}",
        late.title
    );
}

// Each rank is last in turn: nobody is to blame, and nobody is named.
#[test]
fn ranks_that_are_late_in_turn() {
    let report = run(5, |rank, i, t| if i64::from(rank.rank) == i % 5 { t + 25 * MS } else { t });
    assert!(finding(&report, "straggler").is_none());
    let jitter = finding(&report, "arrival-jitter").expect("jitter");
    // Four of five wait 25 ms.
    assert_eq!(
        (
            fact(jitter, "exposed_wait_ns_per_step"),
            fact(jitter, "last_count"),
            fact(jitter, "ordered_count")
        ),
        (20 * MS, 2, 10)
    );
    assert!(jitter.title.contains("rank 0, is so at 2 of 10 collectives"), "{}", jitter.title);
}

// Rank 1 is late in three of ten steps: the median is nothing, the mean is not.
#[test]
fn a_rank_that_is_late_in_some_steps() {
    let report = run(2, |rank, i, t| if rank.rank == 1 && i % 3 == 1 { t + 30 * MS } else { t });
    let late = straggler(&report);
    assert_eq!((fact(late, "rank"), late.evidence["cause"].as_str()), (1, Some("host")));
    assert_eq!(
        (fact(late, "others_wait_ns_per_step"), fact(late, "cause_excess_in_late_steps_ns")),
        (9 * MS, 30 * MS)
    );
    let expected = "Rank 1 is late in 3 of 10 steps: the other rank waits for it 30.0 ms there, 9.00 ms a step on average (9.0 % of the step).";
    assert!(late.title.starts_with(expected), "{}", late.title);
    // Of several others the one that waits longest is told: for both figures that is a bound.
    let report = run(3, |rank, i, t| if rank.rank == 1 && i % 3 == 1 { t + 30 * MS } else { t });
    let expected = "Rank 1 is late in 3 of 10 steps: the others wait for it up to 30.0 ms there, up to 9.00 ms a step on average";
    assert!(straggler(&report).title.starts_with(expected), "{}", straggler(&report).title);
}

// One late step of ten is an accident: 3.5 ms a step on average, and no rank to blame.
#[test]
fn one_late_step_is_no_habit() {
    let report = run(2, |rank, i, t| if rank.rank == 1 && i == 4 { t + 35 * MS } else { t });
    assert_eq!(report.waits.iter().map(|w| w.waited_for_ns).max(), Some(35 * MS));
    assert!(
        finding(&report, "straggler").is_none() && finding(&report, "arrival-jitter").is_none(),
        "{:?}",
        report.findings
    );
}

// Rank 1 arrives 20 ms late, but rank 0 computes beside its waiting kernel: the wait costs nothing.
// rank 0  7 |compute 50|compute 20 |
//        20            |AR            40|
#[test]
fn waiting_beside_compute_costs_nothing() {
    let report = run(2, |rank, _, t| {
        rank.compute(t..t + 20 * MS);
        if rank.rank == 1 { t + 20 * MS } else { t }
    });
    assert_eq!(rank(&report, 0).wait_ns_per_step, Some(20 * MS));
    assert!(report.waits.iter().all(|w| w.exposed_wait_ns == 0 && w.waited_for_ns == 0));
    assert!(
        finding(&report, "straggler").is_none() && finding(&report, "arrival-jitter").is_none()
    );
}

// Rank 0 is last at the first AllReduce of a step (10 ms) and rank 1 at the second (4 ms): each is to blame for its own.
#[test]
fn waits_go_to_the_rank_that_was_late() {
    let mut cluster = Cluster::new(2);
    for i in 0..6 {
        cluster.step(&format!("step {i}"), at(i) - 2 * MS..at(i) + 95 * MS);
        for r in 0..2 {
            let rank = &mut cluster.ranks[r];
            let late = |by: usize, ms: i64| if r == by { ms * MS } else { 0 };
            rank.compute(at(i)..at(i) + 20 * MS);
            rank.collective(&ALL_REDUCE, at(i) + 20 * MS + late(0, 10)..at(i) + 40 * MS);
            rank.collective(&ALL_REDUCE, at(i) + 50 * MS + late(1, 4)..at(i) + 60 * MS);
        }
    }
    let report = cluster.finish();
    let of = |r: u32| report.waits.iter().find(|w| w.rank == r).expect("a row");
    assert_eq!(
        (of(0).waited_for_ns, of(0).wait_ns, of(1).waited_for_ns, of(1).wait_ns),
        (10 * MS, 4 * MS, 4 * MS, 10 * MS)
    );
    // 10 of 14 ms are for rank 0.
    assert_eq!(fact(straggler(&report), "rank"), 0);
}

// Two microseconds of lateness are not a finding, whoever is last.
#[test]
fn nothing_to_tell_about_even_ranks() {
    let report = run(4, |rank, _, t| t + i64::from(rank.rank) * 2 * US);
    assert_eq!(
        report.findings.iter().map(|f| f.id.as_str()).collect::<Vec<_>>(),
        ["exposed-communication"]
    );
    assert_eq!(rank(&report, 3).last_count, Some(10));
}

// 40 AllReduce of 4 KiB in a step, and one of 64 MiB.
#[test]
fn tiny_messages_in_great_number() {
    let mut cluster = Cluster::new(2);
    for i in 0..4 {
        cluster.step(&format!("step {i}"), at(i) - 2 * MS..at(i) + 95 * MS);
        for r in 0..2 {
            let rank = &mut cluster.ranks[r];
            rank.compute(at(i)..at(i) + 10 * MS);
            for k in 0..40 {
                rank.collective(
                    &ALL_REDUCE.bytes(4096),
                    at(i) + (10 + k) * MS..at(i) + (10 + k) * MS + 100 * US,
                );
            }
            rank.collective(
                &ALL_REDUCE.on(WORLD, 20).bytes(64 * MIB),
                at(i) + 60 * MS..at(i) + 90 * MS,
            );
        }
    }
    let report = cluster.finish();
    let tiny = finding(&report, "tiny-messages").expect("tiny messages");
    assert_eq!(
        (fact(tiny, "tiny_calls"), fact(tiny, "sized_calls"), fact(tiny, "tiny_limit_bytes")),
        (160, 164, 65_536)
    );
    // 40 times 0.1 ms of 91 to 100 ms.
    assert!(
        tiny.evidence["cost_of_step"].as_f64().is_some_and(|share| (0.039..0.045).contains(&share)),
        "{tiny:?}"
    );
    assert!(
        tiny.title.starts_with(
            "160 of 164 collectives carry 64 KiB or less (41 communication operations a step)"
        ),
        "{}",
        tiny.title
    );
}

// Ranks leave an AllReduce of 10 ms 2 to 3 ms apart, now one first and now the other: no clock explains that.
#[test]
fn departures_that_clocks_cannot_explain() {
    let mut cluster = Cluster::new(2);
    for i in 0..20 {
        cluster.step(&format!("step {i}"), at(i) - 2 * MS..at(i) + 95 * MS);
        for r in 0..2 {
            let rank = &mut cluster.ranks[r];
            rank.compute(at(i)..at(i) + 10 * MS);
            let longer = if i % 2 == r as i64 { 3 * MS } else { 0 };
            rank.collective(&ALL_REDUCE, at(i) + 10 * MS..at(i) + 20 * MS + longer);
        }
    }
    let report = cluster.finish();
    let spread = finding(&report, "end-spread").expect("a spread");
    assert_eq!(
        (fact(spread, "leave_spread_p95_ns"), fact(spread, "transfer_ns")),
        (3 * MS, 10 * MS)
    );
    assert!(
        spread.title.starts_with(
            "Ranks leave AllReduce of 1.05 MB 3.00 ms apart (95th percentile of 20 calls)"
        ),
        "{}",
        spread.title
    );
    // Such departures leave no order of arrival.
    assert_eq!(report.collectives[0].unordered, 20);
    assert!(finding(&report, "straggler").is_none());
}

// Ranks 0 and 1 compute 60 ms, ranks 2 and 3 40 ms, and there is no collective that would tell who waits.
#[test]
fn uneven_compute_without_a_straggler() {
    let mut cluster = Cluster::new(4);
    for i in 0..4 {
        cluster.step(&format!("step {i}"), at(i) - 2 * MS..at(i) + 95 * MS);
        for rank in &mut cluster.ranks {
            let ms = if rank.rank < 2 { 60 } else { 40 };
            rank.compute(at(i)..at(i) + ms * MS);
        }
    }
    let report = cluster.finish();
    let uneven = finding(&report, "compute-imbalance").expect("imbalance");
    let of = |name| fact(uneven, name);
    assert_eq!((of("slowest_rank"), of("fastest_rank")), (0, 2));
    assert_eq!(
        (of("max_compute_ns"), of("min_compute_ns"), of("mean_compute_ns")),
        (60 * MS, 40 * MS, 50 * MS)
    );
}

// rank 0   compute |AR on stream 20   |
//                  |AR on stream 30     |     two communicators wait at once, 40 ms of the same time
// rank 1   compute  compute 40 |AR    |
#[test]
fn waiting_twice_at_once_is_waiting_once() {
    let mut cluster = Cluster::new(2);
    for i in 0..10 {
        cluster.step(&format!("step {i}"), at(i) - 2 * MS..at(i) + 95 * MS);
        for rank in &mut cluster.ranks {
            let arrival = at(i) + if rank.rank == 1 { 60 } else { 20 } * MS;
            rank.compute(at(i)..arrival);
            rank.collective(&ALL_REDUCE, arrival..at(i) + 62 * MS);
            rank.collective(&ALL_REDUCE.on(5, 30), arrival + 10 * US..at(i) + 63 * MS);
            rank.compute(at(i) + 63 * MS..at(i) + 100 * MS);
        }
    }
    let report = cluster.finish();
    // From 20 ms to 60.01 ms.
    assert!(
        report
            .waits
            .iter()
            .filter(|w| w.rank == 0)
            .all(|w| (w.wait_ns, w.exposed_wait_ns) == (40_010 * US, 40_010 * US))
    );
    assert_eq!(rank(&report, 0).wait_ns_per_step, Some(40_010 * US));
    assert_eq!(fact(straggler(&report), "others_wait_ns_per_step"), 40_010 * US);
}

// Groups of two, then groups of two across them. Rank 3 computes 30 ms longer; rank 2 waits for it and is late for rank 0.
// rank 0   compute |AR|        |AR across       |
// rank 1   compute |AR|        |AR across       |
// rank 2   compute |AR             |AR across   |
// rank 3   compute  compute 30 |AR |AR across   |
#[test]
fn lateness_that_is_passed_on_is_the_first_ranks() {
    let mut cluster = Cluster::new(4);
    for i in 0..10 {
        cluster.step(&format!("step {i}"), at(i) - 2 * MS..at(i) + 95 * MS);
        for rank in &mut cluster.ranks {
            let early = rank.rank < 2;
            let arrival = at(i) + if rank.rank == 3 { 50 } else { 20 } * MS;
            let end = at(i) + if early { 22 } else { 52 } * MS;
            rank.compute(at(i)..arrival);
            rank.collective(&ALL_REDUCE.on(if early { 11 } else { 12 }, 20), arrival..end);
            rank.collective(
                &ALL_REDUCE.on(21 + u64::from(rank.rank % 2), 30),
                end..at(i) + 60 * MS,
            );
            rank.compute(at(i) + 60 * MS..at(i) + 100 * MS);
        }
    }
    let report = cluster.finish();
    let late = straggler(&report);
    assert_eq!(
        (
            fact(late, "rank"),
            late.evidence["cause"].as_str(),
            fact(late, "others_wait_ns_per_step")
        ),
        (3, Some("compute"), 30 * MS)
    );
}
