//! Which rank the others wait for, what that costs, and where its own time went.

use super::{Draft, ms, percent, period, severity};
use crate::model::Metric;
use crate::report::{RankReport, Report};
use crate::stats;
use crate::warning::Finding;

/// A rank is named only if it is last in this share of the collectives whose order is known.
const LAST_SHARE: f64 = 0.6;
/// Waiting below this share of the step is not worth a finding.
const MIN_COST: f64 = 0.01;

/// What the others' waiting costs a step at most: for each other rank the median of its waits, of which only what no compute
/// runs beside can lengthen the step; the largest of these.
fn cost(report: &Report, late: u32) -> Option<f64> {
    let others = report.ranks.iter().filter(|rank| rank.rank != late);
    others.filter_map(|rank| Some((rank.wait_ns_per_step? as f64).min(rank.summary.median(Metric::ExposedCommNs)?))).max_by(f64::total_cmp)
}

/// The rank that most collectives wait for.
pub fn straggler(report: &Report) -> Option<Finding> {
    let step = report.summary.values.median(Metric::StepNs)?;
    let (rank, last, ordered) = report
        .ranks
        .iter()
        .filter_map(|r| Some((r, r.last_count?, r.ordered_count.filter(|n| *n >= 3)?)))
        .max_by(|a, b| (a.1 * b.2).cmp(&(b.1 * a.2)).then(b.0.rank.cmp(&a.0.rank)))?;
    let share = last as f64 / ordered as f64;
    let cost = cost(report, rank.rank)?;
    if share < LAST_SHARE || cost / step < MIN_COST || report.ranks.len() < 2 {
        return None;
    }
    let (cause, excess) = cause(report, rank);
    let (two, period) = (report.ranks.len() == 2, period(report));
    let (others, upto) = if two { ("the other rank waits", "") } else { ("the others wait", "up to ") };
    let title = format!(
        "Rank {} arrives last at {last} of {ordered} collectives and {others} for it: {upto}{} {} ({} {}). {}",
        rank.rank,
        ms(cost),
        period.median,
        percent(cost / step),
        period.of,
        cause.sentence(rank.rank, excess, if two { "the other's" } else { "the others'" })
    );
    let draft = Draft::new("straggler", severity(cost / step), title)
        .with("rank", rank.rank)
        .with("last_count", last)
        .with("ordered_count", ordered)
        .with("others_wait_ns_per_step", cost.round() as i64)
        .with("cause", cause.label())
        .with("cause_excess_ns_per_step", excess.round() as i64)
        .costs(cost / step);
    Some(draft.advice(cause.advice()))
}

/// What the late rank does longer than the others.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Cause {
    Idle,
    Compute,
    Copies,
    Unknown,
}

impl Cause {
    fn label(self) -> &'static str {
        match self {
            Cause::Idle => "idle",
            Cause::Compute => "compute",
            Cause::Copies => "copies",
            Cause::Unknown => "unknown",
        }
    }

    fn sentence(self, rank: u32, excess: f64, others: &str) -> String {
        match self {
            Cause::Idle => format!("Its GPU is idle {} longer than {others}: its host is late.", ms(excess)),
            Cause::Compute => format!("Its compute kernels take {} longer than {others}.", ms(excess)),
            Cause::Copies => format!("Its exposed copies take {} longer than {others}.", ms(excess)),
            Cause::Unknown => format!("Rank {rank}'s compute, copies and idle time are no longer than {others}."),
        }
    }

    fn advice(self) -> &'static str {
        match self {
            Cause::Idle => "Look at this rank's host: data loading, Python work between launches, CPU placement, other jobs on the node.",
            Cause::Compute => {
                "Look for more work on this rank (uneven batches or layers) or a slower GPU (clocks, temperature, another process)."
            }
            Cause::Copies => "Look at what this rank copies: uneven batches, unpinned memory, copies on the compute stream.",
            Cause::Unknown => "Compare the ranks' timelines around the collectives: the order of launches may differ.",
        }
    }
}

/// The part of the step in which the rank exceeds the mean of the others most, and by how much a step.
fn cause(report: &Report, late: &RankReport) -> (Cause, f64) {
    let excess = |metric: Metric| -> Option<f64> {
        let others: Vec<f64> = report.ranks.iter().filter(|r| r.rank != late.rank).filter_map(|r| r.summary.median(metric)).collect();
        Some(late.summary.median(metric)? - stats::mean(&others)?)
    };
    [(Cause::Idle, Metric::IdleNs), (Cause::Compute, Metric::ComputeNs), (Cause::Copies, Metric::ExposedCopyNs)]
        .into_iter()
        .filter_map(|(cause, metric)| excess(metric).map(|ns| (cause, ns)))
        .filter(|(_, ns)| *ns > 0.0)
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .unwrap_or((Cause::Unknown, 0.0))
}

/// Ranks that do not compute equally long.
pub fn imbalance(report: &Report) -> Option<Finding> {
    let step = report.summary.values.median(Metric::StepNs)?;
    let compute: Vec<(f64, u32)> = report.ranks.iter().filter_map(|r| Some((r.summary.median(Metric::ComputeNs)?, r.rank))).collect();
    let most = compute.iter().max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))?;
    let least = compute.iter().min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))?;
    let mean = stats::mean(&compute.iter().map(|c| c.0).collect::<Vec<_>>())?;
    let gap = most.0 - mean;
    // Kernels that run beside communication share the GPU with it and take longer: that is no more work.
    let shared = |rank: &RankReport| Some(rank.summary.median(Metric::OverlapNs)? / rank.summary.median(Metric::ComputeNs)?);
    let is_shared = report.ranks.iter().filter_map(shared).any(|share| share > 0.1);
    if compute.len() < 2 || gap / step < 0.02 || is_shared {
        return None;
    }
    let title = format!(
        "Compute is uneven: rank {} computes {} {}, rank {} {}; the mean is {}.",
        most.1,
        ms(most.0),
        period(report).each,
        least.1,
        ms(least.0),
        ms(mean)
    );
    let draft = Draft::new("compute-imbalance", severity(gap / step), title)
        .with("slowest_rank", most.1)
        .with("fastest_rank", least.1)
        .with("max_compute_ns", most.0.round() as i64)
        .with("min_compute_ns", least.0.round() as i64)
        .with("mean_compute_ns", mean.round() as i64)
        .costs(gap / step);
    Some(draft.advice("Give ranks equal work (samples, tokens, layers); equal work that takes longer on one rank means a slower GPU."))
}
