//! What stands for the steps of a variant: the median where they are of one kind, else the mean over whole cycles.

use crate::analysis::population::{self, By, Mixed};
use crate::model::Metric;
use crate::report::Report;
use crate::stats;
use crate::units;

use super::sample;

/// The step times of the captures of a variant, as they are compared.
#[derive(Debug, Clone)]
pub(super) struct Statistic {
    /// Step times (ns) that count, by capture.
    pub times: Vec<Vec<i64>>,
    /// Kinds of steps by capture; only where means are compared.
    kinds: Option<Vec<Option<Mixed>>>,
}

/// The kinds of steps in the captures of a variant.
pub(super) fn kinds(reports: &[Report]) -> Vec<Option<Mixed>> {
    let of = |report: &Report| {
        let (times, communicates): (Vec<i64>, Vec<bool>) = sample::counted(report, false)
            .filter_map(|step| {
                let communicates = step.values.int(Metric::CommCount).is_some_and(|n| n > 0);
                Some((step.values.int(Metric::StepNs)?, communicates))
            })
            .unzip();
        population::mixed(&times, &communicates)
    };
    reports.iter().map(of).collect()
}

impl Statistic {
    /// Medians, for steps of one kind.
    pub(super) fn medians(reports: &[Report], exclude_outliers: bool) -> Statistic {
        let times = reports.iter().map(|r| sample::step_times(r, exclude_outliers)).collect();
        Statistic { times, kinds: None }
    }

    /// Means over whole cycles. Outliers stay: what looks like one may be the rarer kind.
    pub(super) fn means(reports: &[Report]) -> Statistic {
        let times = reports.iter().map(|r| sample::step_times(r, false)).collect();
        Statistic { times, kinds: Some(kinds(reports)) }
    }

    /// True if means are compared.
    pub(super) fn is_mean(&self) -> bool {
        self.kinds.is_some()
    }

    /// The figure of each capture, ns.
    pub(super) fn of_captures(&self) -> Vec<f64> {
        match &self.kinds {
            None => self
                .times
                .iter()
                .filter_map(|times| sample::typical_step(std::slice::from_ref(times)))
                .collect(),
            Some(_) => (0..self.times.len())
                .filter_map(|at| {
                    stats::mean(
                        &self.times[at][..self.whole(at)]
                            .iter()
                            .map(|&t| t as f64)
                            .collect::<Vec<_>>(),
                    )
                })
                .collect(),
        }
    }

    /// The figure of the variant: the mean of its captures', ns.
    pub(super) fn figure(&self) -> Option<f64> {
        stats::mean(&self.of_captures())
    }

    /// Steps of whole cycles in a capture.
    fn whole(&self, capture: usize) -> usize {
        let steps = self.times.get(capture).map_or(0, Vec::len);
        self.mixed(capture).map_or(steps, |mixed| mixed.whole().min(steps))
    }

    fn mixed(&self, capture: usize) -> Option<&Mixed> {
        self.kinds.as_ref()?.get(capture)?.as_ref()
    }

    /// What the figure could have been.
    pub(super) fn draws(&self, seed: u64) -> Vec<f64> {
        if self.kinds.is_none() {
            return stats::resampled_medians(&self.times, stats::DRAWS, seed);
        }
        let groups: Vec<Vec<Vec<f64>>> = (0..self.times.len()).map(|at| self.strata(at)).collect();
        stats::resampled_means(&groups, stats::DRAWS, seed)
    }

    /// What is drawn of a capture: means of cycles, if there are several; else steps, each among those of its kind, so that the
    /// share of each kind stays.
    fn strata(&self, capture: usize) -> Vec<Vec<f64>> {
        let times: Vec<f64> =
            self.times[capture][..self.whole(capture)].iter().map(|&t| t as f64).collect();
        match self.mixed(capture) {
            None => vec![times],
            Some(Mixed { cycle: Some(cycle), .. }) => {
                vec![times.chunks(*cycle).filter_map(stats::mean).collect()]
            }
            Some(mixed) => [true, false]
                .map(|kind| {
                    let own = times.iter().zip(&mixed.kinds).filter(|(_, k)| **k == kind);
                    own.map(|(time, _)| *time).collect()
                })
                .to_vec(),
        }
    }

    /// Which share of the steps is of the kind that communicates or takes longer, over all captures.
    pub(super) fn marked_share(&self) -> Option<f64> {
        let kinds = self.kinds.as_ref()?;
        let (marked, all) = kinds.iter().flatten().fold((0, 0), |(marked, all), mixed| {
            let whole = &mixed.kinds[..mixed.whole()];
            (marked + whole.iter().filter(|&&kind| kind).count(), all + whole.len())
        });
        (all > 0).then(|| marked as f64 / all as f64)
    }

    /// What is compared and why, as a sentence about the variant of this name.
    pub(super) fn sentence(&self, name: &str) -> Option<String> {
        let mixed = self.kinds.as_ref()?.iter().flatten().next()?;
        let kind = match mixed.by {
            By::Communication => "communicate",
            By::Time => "take clearly longer",
        };
        let over = match mixed.cycle {
            Some(cycle) => format!("means over whole cycles of {}", units::plural(cycle, "step")),
            None => "means over all steps".to_owned(),
        };
        Some(format!(
            "Steps of '{name}' are of two kinds ({} of {} {kind}), so {over} are compared, not medians.",
            mixed.marked(),
            mixed.kinds.len()
        ))
    }
}
