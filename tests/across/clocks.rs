//! Planted clocks: what the collectives say about them.

use crate::run::{MS, Plan, US, report};

/// Rank 1 arrives 2 ms later than rank 0 at every AllReduce.
fn late_one(rank: u32, _: i64) -> i64 {
    i64::from(rank) * 2 * MS
}

fn two(change: impl Fn(&mut Plan)) -> [Plan; 2] {
    let mut plans = [Plan::new(0, 2), Plan::new(1, 2)];
    plans.iter_mut().for_each(|plan| plan.late = late_one);
    change(&mut plans[1]);
    plans
}

/// The difference of the two corrections is the planted error; arrival and waiting do not depend on it.
#[test]
fn planted_offsets_from_a_microsecond_to_hours_are_found() {
    for error in [0, US, -US, 37 * US, MS, 250 * MS, -3_600_000 * MS, 5 * 3_600_000 * MS] {
        let found = report(&two(|plan| plan.clock_error = error));
        let offset = |rank: usize| found.ranks[rank].clock.offset_ns.expect("an offset");
        // Rank 1's clock shows `error` too much, so its correction is smaller by that.
        assert_eq!(offset(0) - offset(1), error, "planted {error} ns");
        assert_eq!(found.ranks[0].clock.residual_p95_ns, Some(0));
        assert_eq!(found.ranks[0].clock.collectives, 10);
        assert_eq!((found.ranks[1].last_count, found.ranks[0].first_count, found.ranks[0].ordered_count), (Some(10), Some(10), Some(10)));
        assert_eq!((found.ranks[0].wait_ns_per_step, found.ranks[1].wait_ns_per_step), (Some(2 * MS), Some(0)));
        assert_eq!(found.collectives[0].transfer_ns, Some(48 * MS));
    }
}

#[test]
fn a_start_time_that_is_missing_on_one_rank_or_zero_is_made_up_for() {
    let missing = report(&two(|plan| plan.has_start_time = false));
    assert_eq!(missing.ranks[1].clock.epoch_ns, None);
    assert_eq!((missing.ranks[0].wait_ns_per_step, missing.ranks[1].last_count), (Some(2 * MS), Some(10)));
    assert_eq!(missing.ranks[1].clock.residual_p95_ns, Some(0));
    let zero = report(&two(|plan| plan.clock_error = -crate::run::EPOCH - plan.zero));
    assert_eq!((zero.ranks[1].clock.epoch_ns, zero.ranks[1].last_count), (None, Some(10)));
}

#[test]
fn an_export_with_absolute_times_fits_one_without() {
    let found = report(&two(|plan| plan.normalised = true));
    assert_eq!(found.ranks[1].clock.epoch_ns, Some(0));
    assert_eq!(found.ranks[0].clock.offset_ns.zip(found.ranks[1].clock.offset_ns).map(|(a, b)| a - b), Some(0));
    assert_eq!(found.ranks[1].steps[0].values.int(nsysnccl::model::Metric::StepNs), Some(100 * MS));
}

/// Rank 1's clock gains 20 us each second over 12 s: one offset leaves up to 60 us, a line leaves nothing.
#[test]
fn a_clock_that_runs_fast_is_corrected_by_a_line() {
    let found = report(&two(|plan| plan.drift = |truth| truth / 50_000).map(|plan| Plan { steps: 0..120, ..plan }));
    let clock = &found.ranks[1].clock;
    assert!(
        clock.drift.as_deref().is_some_and(|text| text.starts_with("linear, -10 ns"))
            || clock.drift.as_deref() == Some("linear, -10000 ns/s"),
        "{clock:?}"
    );
    assert!(clock.residual_p95_ns.is_some_and(|ns| ns < 100), "{clock:?}");
    assert_eq!(found.ranks[1].last_count, Some(120));
}

/// A clock that bends: fast for 6 s, slow for the next 6 s. No line fits, pieces do.
#[test]
fn a_clock_that_bends_is_corrected_piece_by_piece() {
    let bend = |truth: i64| if truth < 6_200 * MS { truth / 20_000 } else { 310_000 - (truth - 6_200 * MS) / 20_000 };
    let found = report(&two(|plan| plan.drift = bend).map(|plan| Plan { steps: 0..120, ..plan }));
    let clock = &found.ranks[1].clock;
    assert!(clock.drift.as_deref().is_some_and(|text| text.starts_with("piecewise")), "{clock:?}");
    assert!(clock.residual_p95_ns.is_some_and(|ns| ns < 20_000), "{clock:?}");
}

/// The clocks jump by 4 ms at every other step: more than the 2 ms of skew, so no order of arrival is given.
#[test]
fn no_order_where_the_residual_exceeds_the_skew() {
    let jump = |truth: i64| if (truth / (100 * MS)) % 2 == 0 { 4 * MS } else { -4 * MS };
    let found = report(&two(|plan| plan.drift = jump).map(|plan| Plan { steps: 0..20, ..plan }));
    assert!(found.ranks[1].clock.residual_p95_ns.is_some_and(|ns| ns >= 2 * MS), "{:?}", found.ranks[1].clock);
    assert_eq!(found.ranks[1].ordered_count, Some(0));
    assert!(!found.findings.iter().any(|finding| finding.id == "straggler"), "{:?}", found.findings);
    assert!(found.findings.iter().any(|finding| finding.id == "end-spread"), "{:?}", found.findings);
}

/// Off by more than a step: matching goes by step and order, not by time.
#[test]
fn a_clock_that_is_off_by_more_than_a_step_changes_nothing() {
    let right = report(&two(|_| ()));
    let wrong = report(&two(|plan| plan.clock_error = 350 * MS));
    assert_eq!(right.collectives, wrong.collectives);
    assert_eq!(right.waits, wrong.waits);
}

#[test]
fn ranks_captured_at_different_times_have_no_common_step() {
    let found = report(&two(|plan| plan.steps = 20..25));
    assert!(found.steps.is_empty() && found.collectives.is_empty());
    assert_eq!(found.ranks[0].clock.collectives, 0);
    assert!(found.warnings.iter().any(|w| w.code == "step-absent"), "{:?}", found.warnings);
    // The ranks' own numbers are there all the same.
    assert!(found.ranks.iter().all(|rank| rank.summary.median(nsysnccl::model::Metric::StepNs).is_some()));
}

#[test]
fn one_rank_or_no_collective_has_no_clock_and_no_order() {
    let alone = report(&[Plan::new(0, 1)]);
    assert_eq!((alone.ranks[0].clock.offset_ns, alone.ranks[0].last_count, alone.collectives.len()), (None, None, 0));
    let quiet = report(&two(|_| ()).map(|plan| Plan { collectives: 0, ..plan }));
    assert_eq!((quiet.ranks[1].clock.offset_ns, quiet.ranks[1].last_count, quiet.collectives.len()), (None, None, 0));
    assert_eq!(quiet.steps.len(), 10);
}
