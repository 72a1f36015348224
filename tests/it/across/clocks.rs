//! Clocks that are wrong in known ways.

use nsysnccl::internals::report::Report as Finished;

use crate::support::cluster::{
    ALL_REDUCE, Cluster, EPOCH, MS, SECOND, US, codes, finding, group, rank, warning,
};

/// From 0 to 3 ms, another one in each step.
fn jitter(step: i64) -> i64 {
    let mixed = (step as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33) as i64 % (3 * MS)
}

/// Twelve steps of 100 ms: 60 ms compute on all ranks, then an AllReduce at which rank 1 arrives 5 ms after the others.
///
/// ```text
/// ms        0               60   65        75        100
/// stream 7  | compute       |
/// stream 20                 | AllReduce     |         others
/// stream 20                      | AllReduce|         rank 1 (idle for 5 ms)
/// ```
/// What happens in a step does not take equally long every time: everything shifts by up to 3 ms.
fn steps(cluster: &mut Cluster, numbers: std::ops::Range<i64>) {
    for i in numbers {
        let at = SECOND + i * 100 * MS + jitter(i);
        cluster.step(&format!("step {i}"), at - 2 * MS..at + 70 * MS);
        for (r, rank) in cluster.ranks.iter_mut().enumerate() {
            rank.compute(at..at + 60 * MS);
            rank.collective(&ALL_REDUCE, at + if r == 1 { 65 } else { 60 } * MS..at + 75 * MS);
        }
    }
}

/// What must hold whatever the clocks say.
#[track_caller]
fn assert_rank_1_is_late(report: &Finished, calls: u64) {
    let ranks: Vec<u32> = report.ranks.iter().map(|r| r.rank).collect();
    let all = group(report, "AllReduce", &ranks);
    assert_eq!(
        (all.count, all.transfer_ns, all.arrival_spread_ns),
        (calls, Some(10 * MS), Some(5 * MS))
    );
    assert_eq!(all.last_arriver.iter().collect::<Vec<_>>(), [(&1, &calls)]);
    for rank in &report.ranks {
        assert_eq!(
            rank.wait_ns_per_step,
            Some(if rank.rank == 1 { 0 } else { 5 * MS }),
            "rank {}",
            rank.rank
        );
    }
    let late = finding(report, "straggler").expect("a straggler");
    assert_eq!(
        (late.evidence["rank"].as_u64(), late.evidence["cause"].as_str()),
        (Some(1), Some("host"))
    );
}

fn offsets(report: &Finished) -> Vec<Option<i64>> {
    report.ranks.iter().map(|r| r.clock.offset_ns).collect()
}

#[test]
fn clocks_that_are_right_stay_right() {
    let mut cluster = Cluster::new(4);
    steps(&mut cluster, 0..12);
    let report = cluster.finish();
    assert_rank_1_is_late(&report, 12);
    assert_eq!(offsets(&report), [Some(0); 4]);
    assert_eq!(codes(&report), [""; 0]);
    assert!(report.ranks.iter().all(|r| r.clock.residual_p95_ns == Some(0)
        && r.clock.collectives == 12
        && r.clock.drift.is_none()));
}

// From a microsecond to hours, more than a step among them: the offset is found, and nothing else changes.
#[test]
fn planted_offsets() {
    for ahead in [US, 3 * MS, 130 * MS, -250 * MS, 7 * SECOND, 5 * 3600 * SECOND] {
        let mut cluster = Cluster::new(4);
        steps(&mut cluster, 0..12);
        cluster.hosts(&["a", "a", "b", "b"]);
        cluster.ahead(2, ahead);
        cluster.ahead(3, ahead);
        let report = cluster.finish();
        assert_rank_1_is_late(&report, 12);
        assert_eq!(
            offsets(&report),
            [ahead / 2, ahead / 2, -ahead / 2, -ahead / 2].map(Some),
            "{ahead}"
        );
        if ahead.abs() > MS {
            let (first, second) = if ahead > 0 { (2, 0) } else { (0, 2) };
            let message = warning(&report, "clocks-apart");
            assert!(
                message.contains(&format!("rank {first} is "))
                    && message.contains(&format!("of rank {second};")),
                "{message}"
            );
        } else {
            assert_eq!(codes(&report), [""; 0]);
        }
    }
}

// The clock of the late rank itself is off by more than a step: by its own clock it would come first, or an hour later.
#[test]
fn a_late_rank_is_found_although_its_clock_is_off_by_more_than_a_step() {
    for ahead in [-130 * MS, 3600 * SECOND] {
        let mut cluster = Cluster::new(2);
        steps(&mut cluster, 0..12);
        cluster.hosts(&["a", "b"]);
        cluster.ahead(1, ahead);
        assert_rank_1_is_late(&cluster.finish(), 12);
    }
}

#[test]
fn clocks_that_drift() {
    // 50 us a second over 10 s, and a bend: fast, then back.
    let mut linear = Cluster::new(2);
    linear.drift(1, |t| t / 20_000);
    steps(&mut linear, 0..100);
    let report = linear.finish();
    let drift = rank(&report, 1).clock.drift.clone().expect("a drift");
    // Half of it on each of two ranks, in a second of its own clock, which is 50 us shorter.
    assert_eq!(drift, "linear, -24999 ns/s");
    assert!(
        rank(&report, 1).clock.residual_p95_ns.is_some_and(|ns| ns < 100),
        "{:?}",
        rank(&report, 1).clock
    );
    let all = group(&report, "AllReduce", &[0, 1]);
    assert_eq!(all.last_arriver[&1], 100);
    assert!(all.leave_spread_p95_ns.is_some_and(|ns| ns < 200), "{all:?}");

    let mut bent = Cluster::new(2);
    bent.drift(1, |t| if t < 11 * SECOND { t / 10_000 } else { 2_200_000 - t / 10_000 });
    steps(&mut bent, 0..200);
    let report = bent.finish();
    assert_eq!(rank(&report, 1).clock.drift.as_deref(), Some("piecewise, 8 points"));
    assert_eq!(group(&report, "AllReduce", &[0, 1]).last_arriver[&1], 200);
}

#[test]
fn missing_and_zero_start_times() {
    for write in [None, Some(0)] {
        let mut cluster = Cluster::new(3);
        steps(&mut cluster, 0..12);
        cluster.ranks[2].report.without("TARGET_INFO_SESSION_START_TIME");
        if let Some(utc) = write {
            cluster.ranks[2].report.session(utc);
        }
        let report = cluster.finish();
        assert_rank_1_is_late(&report, 12);
        assert_eq!(rank(&report, 2).clock.epoch_ns, None);
        assert_eq!(offsets(&report), [Some(0), Some(0), None]);
        assert_eq!(rank(&report, 2).clock.collectives, 12);
        assert!(warning(&report, "no-start-time").contains("rank 2"));
    }
    let mut nobody = Cluster::new(2);
    steps(&mut nobody, 0..12);
    nobody.ranks.iter_mut().for_each(|rank| rank.report.without("TARGET_INFO_SESSION_START_TIME"));
    assert_rank_1_is_late(&nobody.finish(), 12);
    assert_rank_1_is_late(&nobody.finish_whole_of_steps(), 12);
}

impl Cluster {
    /// The same steps, found by the kernel that starts them: without names that all ranks share.
    fn finish_whole_of_steps(&self) -> Finished {
        let step = nsysnccl::internals::steps::StepChoice::Kernel("Kernel2".to_owned());
        self.finish_with(&nsysnccl::internals::run::Options { step, ..Default::default() })
    }
}

// One report was exported with --ts-normalize: its timestamps are Unix time already.
#[test]
fn normalised_exports_beside_plain_ones() {
    let mut cluster = Cluster::new(2);
    let normalised = &mut cluster.ranks[1];
    normalised.begins = -EPOCH;
    normalised.report.session(EPOCH + MS);
    normalised.report.without("META_DATA_EXPORT");
    normalised.report.export("EXPORT_PARAM_TIME_NORMALIZE", "true");
    steps(&mut cluster, 0..12);
    let report = cluster.finish();
    assert_rank_1_is_late(&report, 12);
    assert_eq!(
        (rank(&report, 1).clock.epoch_ns, offsets(&report)),
        (Some(0), vec![Some(0), Some(0)])
    );
}

// Rank 1 was captured for steps 6 to 17, rank 0 for 0 to 11: six steps are common.
#[test]
fn a_rank_captured_for_a_different_part() {
    let part = |ranks: [std::ops::Range<i64>; 2]| {
        let mut cluster = Cluster::new(2);
        for (r, numbers) in ranks.into_iter().enumerate() {
            let mut one = Cluster::new(2);
            steps(&mut one, numbers);
            cluster.ranks[r].report = one.ranks.remove(r).report;
        }
        cluster
    };
    let overlapping = part([0..12, 6..18]);
    let report = overlapping.finish();
    assert_eq!(report.steps.len(), 6);
    assert_rank_1_is_late(&report, 6);
    let alone = warning(&report, "collectives-unmatched");
    assert!(
        alone.contains("6 on rank 0, 6 on rank 1") && alone.contains("no other rank"),
        "{alone}"
    );
    // Without step names only time tells; both have twelve, so counting would pair step 0 with step 6.
    let report = overlapping.finish_whole();
    let all = group(&report, "AllReduce", &[0, 1]);
    assert_eq!((all.count, all.transfer_ns, all.matched_by.label()), (6, Some(10 * MS), "time"));
    assert_eq!(offsets(&report), [Some(0), Some(0)]);
    let alone = warning(&report, "collectives-unmatched");
    assert!(alone.contains("6 on rank 0, 6 on rank 1"), "{alone}");
    // Nothing in common at all, with time between the captures and without.
    for second in [20..32, 12..24] {
        let report = part([0..12, second]).finish_whole();
        assert_eq!(report.collectives, []);
        assert_eq!(offsets(&report), [None, None]);
        assert!(warning(&report, "collectives-unmatched").contains("only clocks could tell"));
    }
}

// The same without a clock to go by: votes of all pairs of operations find the shift.
#[test]
fn a_shifted_capture_on_a_wrong_clock() {
    for ahead in [Some(40 * MS), Some(3600 * SECOND), None] {
        let mut cluster = Cluster::new(2);
        cluster.hosts(&["a", "b"]);
        let mut late = Cluster::new(2);
        steps(&mut cluster, 0..20);
        steps(&mut late, 5..25);
        cluster.ranks[1].report = late.ranks.remove(1).report;
        cluster.hosts(&["a", "b"]);
        match ahead {
            Some(ahead) => cluster.ahead(1, ahead),
            None => cluster.ranks[1].report.without("TARGET_INFO_SESSION_START_TIME"),
        }
        let report = cluster.finish_whole();
        let all = group(&report, "AllReduce", &[0, 1]);
        assert_eq!(
            (all.count, all.transfer_ns, all.last_arriver[&1]),
            (15, Some(10 * MS), 15),
            "{ahead:?}"
        );
        if let Some(ahead) = ahead {
            assert_eq!(offsets(&report), [Some(ahead / 2), Some(-ahead / 2)]);
        }
    }
}

// Steps that are only counted ("train", "train", ...) and captures that begin at different ones: those that run at the same
// time are one step. Where a report does not say when it begins, only their collectives are matched.
#[test]
fn counted_steps_are_matched_by_time() {
    let mut cluster = Cluster::new(2);
    cluster.hosts(&["a", "a"]);
    for (r, numbers) in [0..12, 1..13].into_iter().enumerate() {
        for i in numbers {
            let at = SECOND + i * 100 * MS + jitter(i);
            let rank = &mut cluster.ranks[r];
            rank.step("train", at - 2 * MS..at + 70 * MS);
            rank.compute(at..at + 60 * MS);
            rank.collective(&ALL_REDUCE, at + if r == 1 { 65 } else { 60 } * MS..at + 75 * MS);
        }
    }
    let matched = |report: &Finished| {
        let all = group(report, "AllReduce", &[0, 1]);
        assert_eq!((all.count, all.transfer_ns, all.last_arriver[&1]), (11, Some(10 * MS), 11));
    };
    let report = cluster.finish();
    matched(&report);
    assert_eq!(report.steps.len(), 11);
    assert!(warning(&report, "steps-paired-by-time").contains("do not run at the same time"));
    assert_eq!(rank(&report, 0).wait_ns_per_step, Some(5 * MS));
    cluster.ranks[1].report.without("TARGET_INFO_SESSION_START_TIME");
    let report = cluster.finish();
    matched(&report);
    assert!(warning(&report, "steps-shifted").contains("different steps"));
    assert_eq!(report.waits, []);
}

// Two of eight ranks: what they do together is matched; bandwidth of a communicator of eight is not.
#[test]
fn two_of_eight_ranks() {
    let mut cluster = Cluster::of(&[2, 5], Some(8));
    for i in 0..6 {
        let at = SECOND + i * 100 * MS;
        cluster.step(&format!("step {i}"), at - 2 * MS..at + 70 * MS);
        for (r, rank) in cluster.ranks.iter_mut().enumerate() {
            rank.compute(at..at + 60 * MS);
            rank.collective(&ALL_REDUCE, at + if r == 1 { 65 } else { 60 } * MS..at + 75 * MS);
        }
    }
    let report = cluster.finish();
    let all = group(&report, "AllReduce", &[2, 5]);
    assert_eq!(
        (all.count, all.transfer_ns, all.n_ranks, all.busbw_gbs),
        (6, Some(10 * MS), None, None)
    );
    assert_eq!(
        all.no_bandwidth.as_deref(),
        Some("nothing says how many ranks the communicator has")
    );
    assert!(warning(&report, "ranks-missing").contains("0-1, 3-4, 6-7"));
}

#[test]
fn no_collective_and_a_single_rank() {
    let mut cluster = Cluster::new(2);
    for i in 0..4 {
        let at = SECOND + i * 100 * MS;
        cluster.step(&format!("step {i}"), at - 2 * MS..at + 70 * MS);
        cluster.ranks.iter_mut().for_each(|rank| rank.compute(at..at + 60 * MS));
    }
    let report = cluster.finish();
    assert_eq!(
        (report.collectives.len(), report.waits.len(), codes(&report)),
        (0, 0, vec!["no-communication-recognised"])
    );
    assert!(report.ranks.iter().all(|r| r.clock.offset_ns.is_none()
        && r.wait_ns_per_step.is_none()
        && r.last_count.is_none()));
    let mut single = Cluster::new(1);
    steps(&mut single, 0..4);
    let report = single.finish();
    assert_eq!((report.collectives.len(), report.waits.len(), codes(&report)), (0, 0, vec![]));
    assert_eq!(report.ranks[0].clock.collectives, 0);
}

// Ends that scatter by 300 us, which no clock explains, hide an arrival order of 50 us and leave one of 5 ms.
#[test]
fn no_order_where_the_residual_exceeds_the_skew() {
    let mut cluster = Cluster::new(2);
    for i in 0..30 {
        let at = SECOND + i * 100 * MS;
        cluster.step(&format!("step {i}"), at - 2 * MS..at + 70 * MS);
        let scatter = (i * 7_919 % 13 - 6) * 50 * US;
        for (r, rank) in cluster.ranks.iter_mut().enumerate() {
            let late = if r == 1 { 1 } else { 0 };
            rank.compute(at..at + 30 * MS);
            rank.collective(
                &ALL_REDUCE,
                at + 30 * MS + late * 50 * US..at + 40 * MS + late * scatter,
            );
            rank.collective(
                &ALL_REDUCE.bytes(99),
                at + 50 * MS + late * 5 * MS..at + 60 * MS + late * scatter,
            );
        }
    }
    let report = cluster.finish();
    let of =
        |bytes: u64| report.collectives.iter().find(|g| g.bytes == Some(bytes)).expect("the group");
    // Those beyond the 95th percentile may have one all the same.
    assert!(of(1 << 20).unordered >= 27, "{:?}", of(1 << 20));
    assert_eq!((of(99).unordered, of(99).last_arriver[&1]), (0, 30));
    // Half the scatter on each of two ranks.
    assert!(
        rank(&report, 0)
            .clock
            .residual_p95_ns
            .is_some_and(|ns| (120 * US..=170 * US).contains(&ns)),
        "{:?}",
        rank(&report, 0).clock
    );
    assert_eq!(rank(&report, 0).ordered_count, Some(60 - of(1 << 20).unordered));
    let spread = finding(&report, "end-spread");
    assert!(spread.is_none(), "300 us of 5 ms: {spread:?}");
}
