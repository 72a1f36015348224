//! Which rank the others wait for, what that costs, and where its own time went.

use std::collections::BTreeMap;

use foldhash::HashMap;

use super::words::{is_whole, ms, percent, period};
use crate::catalogue::{Finding, Id};
use crate::classify;
use crate::model::{CommOp, Metric};
use crate::places::view::{Excess, IdleTime};
use crate::report::{CollectiveGroup, Kernel, RankReport, RankStep, Report};
use crate::stats;
use crate::text;

/// A rank is named only if this share of all waiting is for it.
const BLAME: f64 = 0.6;
/// Waiting below this share of the step is not worth a finding.
const MIN_COST: f64 = 0.01;
/// Without one rank to blame, waiting is worth a word from this share of the step on.
const MIN_JITTER: f64 = 0.05;
/// Fewer collectives of known order are not a habit.
const FEWEST_ORDERED: u64 = 3;
/// Where a rank is not late in the median step: fewer late steps are an accident.
const FEWEST_LATE: usize = 2;
/// Sends take this share of all communication in a pipeline: stages wait in them.
const SENDS: f64 = 0.25;
/// Longer idle time is the host's if at least this share of it passes before launches.
const BY_HOST: f64 = 0.5;
/// Kernels, and things that a host did, that are named as evidence.
const EVIDENT: usize = 3;
/// An excess explains lateness if it is at least this share of it.
const EXPLAINS: f64 = 0.3;

/// The rank that the others wait for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Straggler {
    /// Rank number.
    pub rank: u32,
    /// What the others wait for it, ns a step.
    cost: f64,
    /// If it is late in some steps only: in how many, of how many, and what the others wait in one of those, ns.
    some_steps: Option<(usize, usize, f64)>,
    /// Where its own time goes.
    pub cause: Cause,
    /// By how much that exceeds the others', ns in a step in which it is late.
    excess: f64,
}

/// What the late rank does longer than the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub(super) enum Cause {
    /// Idle, mostly because its host launches late.
    Host,
    /// Idle for another reason.
    Idle,
    Compute,
    Copies,
    Unknown,
}

/// What can make a rank late. Compute beside waiting kernels takes longer, which the late rank has least of: an excess of its
/// compute is real.
const CAUSES: [(Cause, Metric); 3] = [
    (Cause::Idle, Metric::IdleNs),
    (Cause::Compute, Metric::ComputeNs),
    (Cause::Copies, Metric::ExposedCopyNs),
];

/// For each step that counts, by rank: its exposed wait, and the longest exposed wait of another rank for it.
fn counted_waits(report: &Report) -> Vec<BTreeMap<u32, (i64, i64)>> {
    let mut by_step: BTreeMap<usize, BTreeMap<u32, (i64, i64)>> =
        report.steps.iter().filter(|s| s.counted).map(|s| (s.index, BTreeMap::new())).collect();
    for wait in &report.waits {
        if let Some(ranks) = by_step.get_mut(&wait.step) {
            ranks.insert(wait.rank, (wait.exposed_wait_ns, wait.waited_for_ns));
        }
    }
    by_step.into_values().collect()
}

/// Exposed waiting in a step, mean over ranks, median over steps, ns; `None` if no collective was matched.
pub(super) fn waiting(report: &Report) -> Option<f64> {
    let ranks = report.ranks.len().max(1) as f64;
    let means: Vec<f64> = counted_waits(report)
        .iter()
        .map(|step| step.values().map(|(exposed, _)| *exposed as f64).sum::<f64>() / ranks)
        .collect();
    stats::median(&means).filter(|_| !report.waits.is_empty())
}

/// Finds the rank that most waiting is for.
pub(super) fn find(report: &Report) -> Option<Straggler> {
    let step = report.summary.values.median(Metric::StepNs)?;
    let steps = counted_waits(report);
    let of =
        |rank: u32| -> Vec<i64> { steps.iter().map(|s| s.get(&rank).map_or(0, |w| w.1)).collect() };
    let sum = |rank: u32| of(rank).iter().map(|&ns| ns as f64).sum::<f64>();
    // What a rank waited itself in the same step made it late for those that wait for it: lateness is passed on from group to group.
    let own = |rank: u32| {
        steps
            .iter()
            .filter_map(|s| s.get(&rank))
            .map(|w| w.1.saturating_sub(w.0).max(0) as f64)
            .sum::<f64>()
    };
    let passed_on_none = |rank: &&RankReport| own(rank.rank) >= BLAME * sum(rank.rank);
    let late = most(report, sum).or_else(|| most(report, own).filter(passed_on_none))?;
    if report.ranks.len() < 2 || late.ordered_count? < FEWEST_ORDERED {
        return None;
    }
    let waited = of(late.rank);
    let median = stats::median_i64(&waited)? as f64;
    let usual = median / step >= MIN_COST;
    let late_in: Vec<bool> =
        waited.iter().map(|&ns| usual || ns as f64 / step >= MIN_COST).collect();
    let late_steps: Vec<f64> =
        waited.iter().zip(&late_in).filter(|(_, late)| **late).map(|(&ns, _)| ns as f64).collect();
    let cost = if usual { median } else { sum(late.rank) / waited.len() as f64 };
    if cost / step < MIN_COST || (!usual && late_steps.len() < FEWEST_LATE) {
        return None;
    }
    let in_one = stats::median(&late_steps)?;
    let some_steps = (!usual).then_some((late_steps.len(), waited.len(), in_one));
    // A stage that has no more micro-batches is idle because of the others.
    let pipeline = is_pipeline(report);
    let causes = CAUSES.into_iter().filter(|(cause, _)| !pipeline || *cause != Cause::Idle);
    let excess_of = |metric| excess(report, late.rank, metric, &late_in).unwrap_or(0.0);
    let excesses = causes.map(|(cause, metric)| (cause, excess_of(metric)));
    let (cause, excess) = excesses.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let by_host = || excess_of(Metric::HostLateNs) >= BY_HOST * excess;
    let cause = match cause {
        _ if excess < EXPLAINS * in_one => Cause::Unknown,
        Cause::Idle if by_host() => Cause::Host,
        cause => cause,
    };
    // One window holds the start of the capture too, at which ranks wait because profilers start at different times. In a pipeline
    // some stage is last by design: that is the bubble.
    if cause == Cause::Unknown && (is_whole(report) || pipeline) {
        return None;
    }
    Some(Straggler { rank: late.rank, cost, some_steps, cause, excess })
}

/// The rank of which `ns` is most, if that is what blame needs of the sum over all ranks.
fn most(report: &Report, ns: impl Fn(u32) -> f64) -> Option<&RankReport> {
    let all: f64 = report.ranks.iter().map(|r| ns(r.rank)).sum();
    let late = report
        .ranks
        .iter()
        .max_by(|a, b| ns(a.rank).total_cmp(&ns(b.rank)).then(b.rank.cmp(&a.rank)))?;
    (all > 0.0 && ns(late.rank) >= BLAME * all).then_some(late)
}

/// By how much the rank exceeds the mean of the others: median over those steps of the run that count and in which it is late.
fn excess(report: &Report, late: u32, metric: Metric, late_in: &[bool]) -> Option<f64> {
    let of_rank = |rank: &RankReport| -> HashMap<usize, f64> {
        let value = |step: &RankStep| Some((step.run_step?, step.values.f64(metric)?));
        rank.steps.iter().filter_map(value).collect()
    };
    let (own, others): (Vec<_>, Vec<_>) = report
        .ranks
        .iter()
        .map(|rank| (rank.rank, of_rank(rank)))
        .partition(|(rank, _)| *rank == late);
    let (_, own) = own.first()?;
    let counted = report.steps.iter().filter(|step| step.counted);
    let differences: Vec<f64> = counted
        .zip(late_in)
        .filter(|(_, late)| **late)
        .filter_map(|(step, _)| {
            let value = |values: &HashMap<usize, f64>| values.get(&step.index).copied();
            let others: Option<Vec<f64>> = others.iter().map(|(_, other)| value(other)).collect();
            Some(value(own)? - stats::mean(&others?)?)
        })
        .collect();
    stats::median(&differences)
}

impl Straggler {
    /// What to tell.
    pub(super) fn finding(&self, report: &Report) -> Option<Finding> {
        let step = report.summary.values.median(Metric::StepNs)?;
        let rank = report.ranks.iter().find(|r| r.rank == self.rank)?;
        let (last, ordered) = (rank.last_count?, rank.ordered_count?);
        let share = self.cost / step;
        let period = period(report);
        let (others, up_to, the_others) = match report.ranks.len() {
            2 => ("the other rank waits", "", "the other's"),
            _ => ("the others wait", "up to ", "the others'"),
        };
        let late = match self.some_steps {
            Some((some, all, in_one)) => format!(
                "Rank {} is late in {some} of {all} steps: {others} for it {up_to}{} there, {up_to}{} {} on average ({} {}).",
                self.rank,
                ms(in_one),
                ms(self.cost),
                period.each,
                percent(share),
                period.of
            ),
            // A rank can be waited for long where it is not last more often than others are.
            None if 2 * last <= ordered => format!(
                "{} for rank {}: {up_to}{} {} ({} {}).",
                text::capitalised(others),
                self.rank,
                ms(self.cost),
                period.median,
                percent(share),
                period.of
            ),
            None => format!(
                "Rank {} arrives last at {last} of {ordered} collectives and {others} for it: {up_to}{} {} ({} {}).",
                self.rank,
                ms(self.cost),
                period.median,
                percent(share),
                period.of
            ),
        };
        let mut title = format!("{late} {}", self.cause.sentence(self.excess, the_others));
        if let (Cause::Compute, Some(row)) = (self.cause, self.most(report)) {
            let (more, calls) = (ms(row.excess_ns as f64), row.count);
            let of = match (calls - row.others_count).abs() < 0.05 {
                true => String::new(),
                false => format!(", {calls:.0} calls instead of {:.0}", row.others_count),
            };
            let name = text::shorten(&row.name, 60);
            title = format!("{title} Most of it is '{name}' ({more} a step more on average{of}).");
        }
        let ns = |ns: f64| ns.round() as i64;
        let finding = Finding::new(Id::Straggler, title)
            .with("rank", self.rank)
            .with("last_count", last)
            .with("ordered_count", ordered)
            .with("others_wait_ns_per_step", ns(self.cost))
            .with("cause", self.cause.label())
            .with(
                if self.some_steps.is_some() {
                    "cause_excess_in_late_steps_ns"
                } else {
                    "cause_excess_ns_per_step"
                },
                ns(self.excess),
            )
            .costs(share, step);
        let finding = match self.cause {
            Cause::Compute => finding.with("kernels", self.kernels(report)),
            Cause::Host | Cause::Idle => finding.with("host", host_did(report, self.rank)),
            _ => finding,
        };
        Some(finding.advice(self.cause.advice()))
    }

    /// The kernel that makes up at least half of what the late rank computes longer.
    fn most<'r>(&self, report: &'r Report) -> Option<&'r Excess> {
        let own = report.places.excess.iter().find(|row| row.rank == self.rank);
        own.filter(|row| row.excess_ns as f64 >= 0.5 * self.excess && self.some_steps.is_none())
    }

    /// The late rank's kernels that take longer than on the others, in words.
    fn kernels(&self, report: &Report) -> Option<String> {
        let row = |row: &Excess| {
            let calls = match (row.count - row.others_count).abs() < 0.05 {
                true => format!("{:.0} calls", row.count),
                false => format!("{:.0} calls, others {:.0}", row.count, row.others_count),
            };
            format!("{} +{} a step ({calls})", row.name, ms(row.excess_ns as f64))
        };
        let own = report.places.excess.iter().filter(|row| row.rank == self.rank);
        let list: Vec<String> = own.take(EVIDENT).map(row).collect();
        (!list.is_empty()).then(|| list.join("; "))
    }
}

/// What a rank's host did while its GPU was idle, in words.
pub(super) fn host_did(report: &Report, rank: u32) -> Option<String> {
    let own = report.places.idle.iter().filter(|row| row.rank == rank);
    let row = |row: &IdleTime| format!("{} {} a step", row.name, ms(row.ns as f64));
    let list: Vec<String> = own.take(EVIDENT).map(row).collect();
    (!list.is_empty()).then(|| list.join("; "))
}

impl Cause {
    fn label(self) -> &'static str {
        match self {
            Cause::Host => "host",
            Cause::Idle => "idle",
            Cause::Compute => "compute",
            Cause::Copies => "copies",
            Cause::Unknown => "unknown",
        }
    }

    fn sentence(self, excess: f64, others: &str) -> String {
        match self {
            Cause::Host => format!(
                "Its GPU is idle {} longer than {others}, most of it before its host has launched what comes next: its host is late.",
                ms(excess)
            ),
            Cause::Idle => format!(
                "Its GPU is idle {} longer than {others}, most of it although what comes next was launched.",
                ms(excess)
            ),
            Cause::Compute => {
                format!("Its compute kernels take {} longer than {others}.", ms(excess))
            }
            Cause::Copies => {
                format!("Its exposed copies take {} longer than {others}.", ms(excess))
            }
            Cause::Unknown => {
                "Neither its idle time nor its compute nor its exposed copies explain that."
                    .to_owned()
            }
        }
    }

    fn advice(self) -> &'static str {
        match self {
            Cause::Idle => {
                "Look at its timeline: what ends its idle times was launched before them, so it waited for something on the GPU (copies, other streams, operations that are not matched)."
            }
            Cause::Host => {
                "Look at this rank's host: data loading, Python work between launches, CPU placement, other jobs on the node."
            }
            Cause::Compute => {
                "Look for more work on this rank (uneven batches or layers) or a slower GPU (clocks, temperature, another process)."
            }
            Cause::Copies => {
                "Look at what this rank copies: uneven batches, unpinned memory, copies on the compute stream."
            }
            Cause::Unknown => {
                "Look at its timeline before the collectives: work may run in another order there, or it waits in operations that are not matched."
            }
        }
    }
}

/// Waiting that no single rank is to blame for.
pub(super) fn jitter(report: &Report) -> Option<Finding> {
    let step = report.summary.values.median(Metric::StepNs)?;
    let waiting = waiting(report).filter(|_| !is_whole(report))?;
    let share = waiting / step;
    let most = report
        .ranks
        .iter()
        .filter_map(|r| Some((r.last_count?, std::cmp::Reverse(r.rank), r.ordered_count?)))
        .max()?;
    if share < MIN_JITTER || most.2 < FEWEST_ORDERED {
        return None;
    }
    let pipeline = is_pipeline(report);
    let why = if pipeline { "as stages of a pipeline do" } else { "and no single rank is late" };
    let title = format!(
        "Ranks wait {} {} for each other ({} of the step), {why}: the one that is last most often, rank {}, is so at {} of {} collectives.",
        ms(waiting),
        period(report).each,
        percent(share),
        most.1.0,
        most.0,
        most.2
    );
    let finding = Finding::new(Id::ArrivalJitter, title)
        .with("exposed_wait_ns_per_step", waiting.round() as i64)
        .with("most_often_last_rank", most.1.0)
        .with("last_count", most.0)
        .with("ordered_count", most.2)
        .costs(share, step);
    Some(finding.advice(if pipeline {
        "In a pipeline this is the bubble, in which stages wait for each other's sends: more micro-batches, an interleaved schedule, or stages of equal length make it smaller."
    } else {
        "Work varies from step to step on every rank: uneven batches or sequence lengths, host noise, garbage collection at different times."
    }))
}

/// True if ranks send to each other in pairs, as stages of a pipeline do, whether or not it is known which pairs.
pub(super) fn is_pipeline(report: &Report) -> bool {
    let several = |group: &CollectiveGroup| group.op == CommOp::SendRecv && group.ranks.len() > 2;
    let time = |sends: bool| -> f64 {
        let is_send = |kernel: &Kernel| classify::op(&kernel.name) == Some(CommOp::SendRecv);
        report
            .kernels
            .comm
            .iter()
            .filter(|kernel| is_send(kernel) || !sends)
            .map(|kernel| kernel.total_ns as f64)
            .sum()
    };
    let (sends, all) = (time(true), time(false));
    sends > 0.0 && sends >= SENDS * all && !report.collectives.iter().any(several)
}

/// Ranks that do not compute equally long, where no rank is known to be late: else that one's lateness is what the step takes
/// longer for, whatever its cause.
pub(super) fn imbalance(report: &Report) -> Option<Finding> {
    let step = report.summary.values.median(Metric::StepNs)?;
    let compute: Vec<(f64, u32)> = report
        .ranks
        .iter()
        .filter_map(|r| Some((r.summary.median(Metric::ComputeNs)?, r.rank)))
        .collect();
    let most = compute.iter().max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))?;
    let least = compute.iter().min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))?;
    let mean = stats::mean(&compute.iter().map(|c| c.0).collect::<Vec<_>>())?;
    let gap = most.0 - mean;
    // Kernels that run beside communication share the GPU with it and take longer: that is not more work.
    let shared = |rank: &RankReport| {
        Some(rank.summary.median(Metric::OverlapNs)? / rank.summary.median(Metric::ComputeNs)?)
    };
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
    let finding = Finding::new(Id::ComputeImbalance, title)
        .with("slowest_rank", most.1)
        .with("fastest_rank", least.1)
        .with("max_compute_ns", most.0.round() as i64)
        .with("min_compute_ns", least.0.round() as i64)
        .with("mean_compute_ns", mean.round() as i64)
        .costs(gap / step, step);
    Some(finding.advice("Give ranks equal work (samples, tokens, layers); equal work that takes longer on one rank means a slower GPU."))
}
