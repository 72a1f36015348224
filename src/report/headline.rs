//! The headline: one real step of the run, whose parts add up (docs/metrics.md, section 5).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::analysis::population;
use crate::analysis::run::RunStep;
use crate::model::metric::PARTS;
use crate::model::{Metric, Ns, Span, Values};
use crate::run::{Run, measure};
use crate::stats;
use crate::timeline::SpanSet;

/// A step in its parts: means over the ranks, in ns, that add up to the ranks' mean step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Headline {
    /// Index of the run's step; `None` where it is the mean over whole cycles of several kinds of steps.
    pub step: Option<usize>,
    /// Steps that it stands for: 1, or those of the cycles.
    pub steps: usize,
    /// The slowest rank's time.
    pub step_ns: Ns,
    /// The ranks' mean time: the sum of the parts.
    pub mean_step_ns: Ns,
    /// Compute.
    pub compute_ns: Ns,
    /// Communication without compute beside it.
    pub exposed_comm_ns: Ns,
    /// The part of it that is waiting for other ranks.
    pub wait_ns: Ns,
    /// Copies and memsets beside which nothing else runs.
    pub exposed_copy_ns: Ns,
    /// Graphs of unknown class beside which nothing else runs.
    pub unclassified_ns: Ns,
    /// Nothing runs.
    pub idle_ns: Ns,
    /// The rank that is waited for longest; `None` if nobody waits.
    pub waits_for: Option<u32>,
}

/// Waiting in one step of the run, ns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Waiting {
    /// By rank: waiting that no compute covers.
    exposed: Vec<Ns>,
    /// By the rank that arrived last: exposed waiting of the others for it.
    caused: BTreeMap<u32, Ns>,
}

/// The headline of a run; `None` if no step is shared by all ranks.
pub(crate) fn of(run: &Run) -> Option<Headline> {
    let counted: Vec<&RunStep> = run.steps.steps.iter().filter(|step| step.counted).collect();
    let times: Vec<Ns> = counted.iter().filter_map(|s| s.values.int(Metric::StepNs)).collect();
    let communicates: Vec<bool> = counted
        .iter()
        .map(|s| s.values.int(Metric::CommCount).is_some_and(|count| count > 0))
        .collect();
    let (step, shown) = match population::mixed(&times, &communicates) {
        Some(mixed) => (None, counted.into_iter().take(mixed.whole()).collect()),
        None => {
            let step = run.steps.median_step()?;
            (Some(step), vec![run.steps.steps.get(step)?])
        }
    };
    let values: Vec<&Values> = shown.iter().map(|step| &step.values).collect();
    let waiting: Vec<Waiting> = shown.iter().map(|step| waiting(run, step.index)).collect();
    headline(step, &values, &waiting)
}

/// The mean of some steps with their waiting.
fn headline(step: Option<usize>, steps: &[&Values], waiting: &[Waiting]) -> Option<Headline> {
    let mean = |metric: Metric| -> Option<Ns> {
        let list: Option<Vec<Ns>> = steps.iter().map(|values| values.int(metric)).collect();
        stats::mean_i64(&list?)
    };
    let [compute_ns, exposed_comm_ns, exposed_copy_ns, unclassified_ns, idle_ns] =
        PARTS.map(|metric| mean(metric).unwrap_or(0));
    let waits: Vec<Ns> =
        waiting.iter().filter_map(|waiting| stats::mean_i64(&waiting.exposed)).collect();
    let mut caused: BTreeMap<u32, Ns> = BTreeMap::new();
    for (rank, ns) in waiting.iter().flat_map(|waiting| &waiting.caused) {
        let sum = caused.entry(*rank).or_default();
        *sum = sum.saturating_add(*ns);
    }
    let most = caused.into_iter().max_by_key(|&(rank, ns)| (ns, std::cmp::Reverse(rank)));
    Some(Headline {
        step,
        steps: steps.len(),
        step_ns: mean(Metric::StepNs)?,
        mean_step_ns: [compute_ns, exposed_comm_ns, exposed_copy_ns, unclassified_ns, idle_ns]
            .into_iter()
            .fold(0, Ns::saturating_add),
        compute_ns,
        exposed_comm_ns,
        wait_ns: stats::mean_i64(&waits).unwrap_or(0).min(exposed_comm_ns),
        exposed_copy_ns,
        unclassified_ns,
        idle_ns,
        waits_for: most.filter(|(_, ns)| *ns > 0).map(|(rank, _)| rank),
    })
}

/// Who waits in a step of the run, inside its windows, and for whom.
fn waiting(run: &Run, step: usize) -> Waiting {
    let windows: Vec<Option<Span>> = run
        .ranks
        .iter()
        .zip(run.steps.members.get(step).into_iter().flatten())
        .map(|(rank, &at)| measure::windows(&rank.measured.steps).get(at).copied().flatten())
        .collect();
    let mut own: Vec<Vec<Span>> = vec![Vec::new(); run.ranks.len()];
    let mut caused: BTreeMap<u32, Ns> = BTreeMap::new();
    let exposed = |r: usize, spans: Vec<Span>| -> Ns {
        let waits = SpanSet::from_unsorted(spans);
        run.across.compute.get(r).map_or(0, |compute| waits.subtract(compute).measure())
    };
    for one in &run.across.measured {
        let last = one.timing.last.and_then(|last| one.found.members.get(last)).map(|m| m.rank.0);
        for (member, wait) in one.found.members.iter().zip(&one.waits) {
            let r = member.rank.0;
            let Some(window) = windows.get(r).copied().flatten() else { continue };
            let inside = wait.clip(window);
            if inside.is_empty() {
                continue;
            }
            own[r].push(inside);
            if let Some(late) = last.filter(|&last| last != r) {
                let sum = caused.entry(run.ranks[late].trace.rank).or_default();
                *sum = sum.saturating_add(exposed(r, vec![inside]));
            }
        }
    }
    Waiting { exposed: own.into_iter().enumerate().map(|(r, w)| exposed(r, w)).collect(), caused }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(parts: [i64; 5], step: i64) -> Values {
        let mut values = Values::unmeasured();
        PARTS.iter().zip(parts).for_each(|(&metric, ns)| values.set(metric, ns));
        values.set(Metric::StepNs, step);
        values
    }

    // Two kinds of steps, 100 and 20 ns: their mean is 60, of which exposed communication is the mean of 5 and 3.
    #[test]
    fn parts_of_a_cycle_are_means_that_add_up() {
        let (long, short) = (values([90, 5, 0, 0, 5], 100), values([15, 3, 0, 0, 2], 20));
        let waiting = |ns: i64, late: u32| Waiting {
            exposed: vec![ns, 0],
            caused: BTreeMap::from([(late, ns)]),
        };
        let head = headline(None, &[&long, &short], &[waiting(4, 1), waiting(2, 1)]).expect("one");
        assert_eq!((head.mean_step_ns, head.exposed_comm_ns, head.step_ns), (60, 4, 60));
        assert_eq!((head.wait_ns, head.waits_for, head.steps), (2, Some(1), 2));
    }
}
