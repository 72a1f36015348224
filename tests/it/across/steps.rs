//! Which steps of different ranks are one step of the run, where texts do not say so.

use nsysnccl::internals::model::Metric;
use nsysnccl::internals::report::Report as Finished;

use crate::support::cluster::{
    ALL_REDUCE, Cluster, MS, SECOND, US, codes, finding, group, rank, warning,
};

/// Two ranks on one clock. Step `i` takes `length(i)`: 5 ms compute on rank 0 and 6 on rank 1, then an AllReduce until 12 ms.
///
/// ```text
/// ms      0       5 6        12      18-22
/// rank 0  | gemm  |AllReduce |       |
/// rank 1  | gemm    |AllRed. |       |      comes 1 ms late
/// ```
fn run(steps: i64, length: fn(i64) -> i64, text: impl Fn(usize, i64) -> String) -> Finished {
    let mut cluster = Cluster::new(2);
    let mut at = SECOND;
    for i in 0..steps {
        for (r, rank) in cluster.ranks.iter_mut().enumerate() {
            let late = r as i64 * MS;
            rank.step(&text(r, i), at - MS..at + length(i) - 2 * MS);
            rank.compute(at..at + 5 * MS + late);
            rank.collective(&ALL_REDUCE, at + 5 * MS + late..at + 12 * MS);
        }
        at += length(i);
    }
    cluster.finish()
}

#[track_caller]
fn assert_right(report: &Finished, steps: u64) {
    assert_eq!(report.steps.len() as u64, steps);
    let all = group(report, "AllReduce", &[0, 1]);
    assert_eq!((all.count, all.transfer_ns, all.wait_ns[&0]), (steps, Some(6 * MS), MS));
    assert_eq!(all.last_arriver.iter().collect::<Vec<_>>(), [(&1, &steps)]);
    assert!(report.ranks.iter().all(|rank| rank.clock.offset_ns == Some(0)));
    assert_eq!(rank(report, 0).wait_ns_per_step, Some(MS));
    let late = finding(report, "straggler").expect("a straggler");
    // Its compute explains it: 1 ms in steps that are the same step, whatever they are called.
    assert_eq!(
        (late.evidence["rank"].as_u64(), late.evidence["cause_excess_ns_per_step"].as_i64()),
        (Some(1), Some(MS))
    );
    let paired: Vec<Option<usize>> = rank(report, 1).steps.iter().map(|s| s.run_step).collect();
    assert_eq!(paired, (0..steps as usize).map(Some).collect::<Vec<_>>());
}

#[test]
fn texts_that_carry_the_rank() {
    let report = run(6, |_| 20 * MS, |r, i| format!("rank{r} step {i}"));
    // No usual word begins these texts, and each is there once: the repeated kind is what is left.
    assert_right(&report, 6);
    assert!(warning(&report, "steps-paired-by-time").contains("differ between ranks"));
    assert_eq!(report.steps[3].name, "rank0 step 3");
    let median = report.summary.values.median(Metric::StepNs);
    assert_eq!(median, Some(20.0 * MS as f64));
}

// Each rank writes its own batch size: few texts are the same step, and those that are equal run at other times. In the second
// all texts pair, one step off.
#[test]
fn texts_that_carry_a_batch_size() {
    let own = [[16, 17, 16, 18, 15], [15, 16, 17, 17, 18]];
    let report = run(
        24,
        |i| (18 + i % 5) * MS,
        |r, i| format!("step[DECODE bs={}]", own[r][i as usize % 5]),
    );
    assert_right(&report, 24);
    assert!(codes(&report).contains(&"steps-paired-by-time"));
    let report = run(
        24,
        |i| (18 + i % 5) * MS,
        |r, i| format!("step[DECODE bs={}]", 16 + (r as i64 + i) % 2),
    );
    assert_right(&report, 24);
    assert!(warning(&report, "steps-paired-by-time").contains("do not run at the same time"));
}

// Texts that number the steps are right although clocks are off by a step and a half: paired by overlap, ends would be apart
// by more in one step and by less in another.
#[test]
fn texts_are_right_where_clocks_are_wrong() {
    let mut cluster = Cluster::new(2);
    cluster.hosts(&["a", "b"]);
    let mut at = SECOND;
    for i in 0..24 {
        for (r, rank) in cluster.ranks.iter_mut().enumerate() {
            rank.step(&format!("step {i}"), at - MS..at + 15 * MS);
            rank.compute(at..at + 5 * MS);
            rank.collective(&ALL_REDUCE, at + (5 + r as i64) * MS..at + 12 * MS);
        }
        at += (18 + i * 7 % 5) * MS;
    }
    cluster.ahead(1, 30 * MS + 100 * US);
    let report = cluster.finish();
    assert!(!codes(&report).contains(&"steps-paired-by-time"));
    assert_eq!(report.steps.len(), 24);
    assert_eq!(rank(&report, 1).clock.offset_ns, Some(-15 * MS - 50 * US));
    assert_eq!(group(&report, "AllReduce", &[0, 1]).last_arriver[&1], 24);
}
