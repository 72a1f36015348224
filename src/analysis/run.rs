//! From the steps of ranks to the steps of the run, and from steps to summaries (docs/metrics.md, section 5).

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::catalogue::Id;
use crate::collectives::pairing::Pairing;
use crate::model::metric::Summary;
use crate::model::{Metric, Num, Values};
use crate::stats;
use crate::steps::Step;
use crate::warning::Warning;

/// One step of one rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankStep {
    /// Position among the rank's steps, from 0.
    pub index: usize,
    /// Position among the run's steps; `None` if some rank lacks it.
    pub run_step: Option<usize>,
    /// Text of the step range.
    pub name: String,
    /// Lies far from the median of the rank's steps.
    pub outlier: bool,
    /// In the summary.
    pub counted: bool,
    /// Why nothing was measured, if nothing was.
    pub reason: Option<String>,
    /// The numbers.
    #[serde(flatten)]
    pub values: Values,
}

/// One step of the run: the slowest rank's time, the mean of everything else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunStep {
    /// Position among the run's steps, from 0.
    pub index: usize,
    /// Text of the step range.
    pub name: String,
    /// Lies far from the median of the run's steps.
    pub outlier: bool,
    /// In the summary.
    pub counted: bool,
    /// The rank with the longest window.
    pub slowest_rank: Option<u32>,
    /// `step_ns`: maximum over ranks; every other number: mean over ranks; ratios: of those two. `start_ns` is not defined across ranks.
    #[serde(flatten)]
    pub values: Values,
}

/// Which outliers count in summaries, if not all but the first captured step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counting {
    /// The first captured step counts even if it is one.
    pub keep_first: bool,
    /// No other outlier counts.
    pub exclude_outliers: bool,
}

/// Which steps lie far from the median, and which count in summaries. `times` has one entry for each step.
///
/// An outlier is marked and counts all the same, except a first captured one: ranks start the profiler at different times.
pub(crate) fn judge(
    times: &[Option<i64>],
    first_captured: Option<usize>,
    counting: Counting,
) -> Vec<(bool, bool)> {
    let measured: Vec<i64> = times.iter().copied().flatten().collect();
    let mut outliers = stats::outliers(&measured).into_iter();
    times
        .iter()
        .enumerate()
        .map(|(i, time)| {
            let outlier = time.is_some() && outliers.next().unwrap_or(false);
            let kept = match first_captured == Some(i) {
                true => counting.keep_first,
                false => !counting.exclude_outliers,
            };
            (outlier, time.is_some() && (kept || !outlier))
        })
        .collect()
}

/// The steps of one rank with their numbers. `has_first` is true if the first of them is the first captured one.
pub(crate) fn rank_steps(
    steps: &[Step],
    values: Vec<Values>,
    has_first: bool,
    counting: Counting,
) -> Vec<RankStep> {
    let times: Vec<Option<i64>> = values.iter().map(|v| v.int(Metric::StepNs)).collect();
    let verdicts = judge(&times, has_first.then_some(0), counting);
    steps
        .iter()
        .zip(values)
        .zip(verdicts)
        .enumerate()
        .map(|(index, ((step, mut values), (outlier, counted)))| {
            if let Some(ns) = step.cpu_range_ns() {
                values.set(Metric::CpuRangeNs, ns);
            }
            RankStep {
                index,
                run_step: None,
                name: step.name.clone(),
                outlier,
                counted,
                reason: step.window.as_ref().err().cloned(),
                values,
            }
        })
        .collect()
}

/// Median, mean, minimum and maximum of every metric over the steps that count.
pub(crate) fn summarise<'a>(steps: impl Iterator<Item = (bool, &'a Values)> + Clone) -> Summary {
    Summary::from_fn(|metric| {
        let counted = steps.clone().filter(|(counted, _)| *counted);
        let values: Vec<Num> = counted.filter_map(|(_, values)| values[metric]).collect();
        stats::spread(&values)
    })
}

/// The steps of the run, in the order in which they first occur, with the index of each on every rank.
#[derive(Debug, Default)]
pub struct RunSteps {
    /// Finished steps.
    pub steps: Vec<RunStep>,
    /// For each step, its index on every rank (in the order of ranks).
    pub members: Vec<Vec<usize>>,
    /// For each step, its number in the pairing.
    pub numbers: Vec<usize>,
    /// Steps that some rank lacks.
    pub warnings: Vec<Warning>,
}

impl RunSteps {
    /// Of the steps that count the one of lower-median length; of equals the first.
    pub fn median_step(&self) -> Option<usize> {
        let mut counted: Vec<(Option<i64>, usize)> = self
            .steps
            .iter()
            .filter(|s| s.counted)
            .map(|s| (s.values.int(Metric::StepNs), s.index))
            .collect();
        counted.sort_unstable();
        counted.get(counted.len().saturating_sub(1) / 2).map(|(_, step)| *step)
    }
}

/// A rank's number and its steps.
pub(crate) type RankSteps<'a> = (u32, &'a [RankStep]);

/// Puts the paired steps of all ranks together; one that a rank lacks is named and left out. `has_first` says of each rank whether its
/// first step is the first captured one.
pub(crate) fn run_steps(
    ranks: &[RankSteps<'_>],
    pairing: &Pairing,
    has_first: &[bool],
    counting: Counting,
) -> RunSteps {
    let mut by_number: Vec<Vec<Option<usize>>> = vec![vec![None; ranks.len()]; pairing.keys.len()];
    for (r, ((_, steps), numbers)) in ranks.iter().zip(&pairing.of_rank).enumerate() {
        for (i, (step, &number)) in steps.iter().zip(numbers).enumerate() {
            by_number[number][r] = step.values.int(Metric::StepNs).map(|_| i);
        }
    }
    let mut run = RunSteps::default();
    let mut absent: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for (number, (key, members)) in pairing.keys.iter().zip(&by_number).enumerate() {
        let found: Vec<usize> = members.iter().copied().flatten().collect();
        if found.len() == ranks.len() {
            let values = run_values(ranks, &found);
            let slowest = ranks
                .iter()
                .zip(&found)
                .max_by_key(|(rank, i)| {
                    (rank.1[**i].values.int(Metric::StepNs), std::cmp::Reverse(rank.0))
                })
                .map(|(rank, _)| rank.0);
            let (index, name) = (run.steps.len(), key.name.clone());
            run.steps.push(RunStep {
                index,
                name,
                outlier: false,
                counted: true,
                slowest_rank: slowest,
                values,
            });
            run.members.push(found);
            run.numbers.push(number);
        } else {
            let lacking = ranks.iter().zip(members).filter(|(_, member)| member.is_none());
            lacking.for_each(|(rank, _)| absent.entry(rank.0).or_default().push(key.name.clone()));
        }
    }
    let times: Vec<Option<i64>> = run.steps.iter().map(|s| s.values.int(Metric::StepNs)).collect();
    let first = run.members.iter().position(|members| {
        members.iter().zip(has_first).any(|(&step, &has_first)| has_first && step == 0)
    });
    for (step, (outlier, counted)) in run.steps.iter_mut().zip(judge(&times, first, counting)) {
        (step.outlier, step.counted) = (outlier, counted);
    }
    run.warnings = absent.into_iter().map(|(rank, steps)| absent_warning(rank, &steps)).collect();
    run
}

fn absent_warning(rank: u32, steps: &[String]) -> Warning {
    let shown: Vec<String> = steps.iter().take(5).map(|name| format!("'{name}'")).collect();
    let more = if steps.len() > shown.len() {
        format!(" and {} more", steps.len() - shown.len())
    } else {
        String::new()
    };
    Warning::new(
        Id::StepAbsent,
        format!(
            "Rank {rank} has no window for {}{more}: left out of the figures of the run.",
            shown.join(", ")
        ),
    )
}

/// `step_ns`: the slowest rank's; every other number: the mean over ranks; ratios: of those two.
fn run_values(ranks: &[RankSteps<'_>], members: &[usize]) -> Values {
    let mut values = Values::unmeasured();
    let of = |metric: Metric| -> Option<Vec<i64>> {
        ranks.iter().zip(members).map(|(rank, &i)| rank.1[i].values.int(metric)).collect()
    };
    for &metric in Metric::ALL {
        if metric.ratio_of().is_some() || metric == Metric::StartNs {
            continue;
        }
        let Some(list) = of(metric) else { continue };
        let value = if metric == Metric::StepNs {
            list.iter().copied().max()
        } else {
            stats::mean_i64(&list)
        };
        values[metric] = value.map(Num::Int);
    }
    // A rank with work of unknown class has no ratios, so neither has the run.
    if ranks
        .iter()
        .zip(members)
        .all(|(rank, &i)| rank.1[i].values.int(Metric::UnclassifiedNs) == Some(0))
    {
        values.set_ratios();
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collectives::pairing::PairedBy;
    use crate::report::by_hand;
    use crate::steps::StepKey;

    #[test]
    fn only_a_first_captured_outlier_does_not_count() {
        let times = [Some(200), Some(100), Some(101), Some(99), Some(300), None];
        assert_eq!(
            judge(&times, Some(0), Counting::default()),
            [
                (true, false),
                (false, true),
                (false, true),
                (false, true),
                (true, true),
                (false, false)
            ]
        );
        let keep_first = Counting { keep_first: true, ..Counting::default() };
        assert_eq!(judge(&times, Some(0), keep_first)[0], (true, true));
        assert_eq!(judge(&times, None, Counting::default())[0], (true, true));
        let counted = |counting| -> Vec<bool> {
            judge(&times, Some(0), counting).into_iter().map(|(_, counted)| counted).collect()
        };
        let none = Counting { exclude_outliers: true, ..Counting::default() };
        assert_eq!(counted(none), [false, true, true, true, false, false]);
        let first_alone = Counting { keep_first: true, exclude_outliers: true };
        assert_eq!(counted(first_alone), [true, true, true, true, false, false]);
    }

    #[test]
    fn the_slowest_rank_sets_the_pace_and_the_rest_is_a_mean() {
        let rank = |number: u32, step: i64, comm: i64| {
            let mut values = Values::unmeasured();
            values.set(Metric::StepNs, step);
            values.set(Metric::CommNs, comm);
            values.set(Metric::UnclassifiedNs, 0);
            (number, vec![by_hand::step(0, "step 1", values)])
        };
        let pairing = Pairing {
            of_rank: vec![vec![0], vec![0]],
            keys: vec![StepKey { name: "step 1".into(), occurrence: 0 }],
            by: PairedBy::Text,
            sure: true,
        };
        let ranks = [rank(0, 100, 21), rank(1, 120, 30)];
        let ranks: Vec<RankSteps<'_>> =
            ranks.iter().map(|(rank, s)| (*rank, s.as_slice())).collect();
        let run = run_steps(&ranks, &pairing, &[true, true], Counting::default());
        assert_eq!(run.steps[0].slowest_rank, Some(1));
        assert_eq!(run.steps[0].values.int(Metric::StepNs), Some(120));
        // 25.5 rounds half to even.
        assert_eq!(run.steps[0].values.int(Metric::CommNs), Some(26));
        assert_eq!(run.steps[0].values.f64(Metric::CommFraction), Some(26.0 / 120.0));
    }
}
