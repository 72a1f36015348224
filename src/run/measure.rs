//! One rank: its steps, and the numbers of each.

use super::Options;
use crate::analysis::run::RankStep;
use crate::analysis::{kernels::KernelTimes, run, step_metrics};
use crate::catalogue::Id;
use crate::collectives::events::{self, Event, Launches};
use crate::model::{RankTrace, Span, Values};
use crate::steps::coverage::Coverage;
use crate::steps::{self, Step, StepRule};
use crate::units;
use crate::warning::Warning;

/// What was measured on one rank.
#[derive(Debug)]
pub struct Measured {
    /// Its steps.
    pub steps: Vec<Step>,
    /// True if the first of them is the first that was captured.
    pub has_first: bool,
    /// Their numbers, one entry for each step.
    pub values: Vec<RankStep>,
    /// How much of its GPU work lies in their windows.
    pub coverage: Coverage,
    /// Its kernels inside the windows.
    pub kernels: KernelTimes,
    /// Its communication operations, in the whole capture.
    pub events: Vec<Event>,
    /// What a reader should know.
    pub warnings: Vec<Warning>,
}

/// The windows of steps.
pub(crate) fn windows(steps: &[Step]) -> Vec<Option<Span>> {
    steps.iter().map(|step| step.window.as_ref().ok().copied()).collect()
}

/// Measures a rank. `launches` are those of all ranks; of its steps only those at `keep` stay, if given.
pub(crate) fn measure(
    trace: &RankTrace,
    launches: &Launches,
    rule: &StepRule,
    options: &Options,
    keep: Option<&[usize]>,
) -> Measured {
    let (mut steps, selection) = steps::of(trace, rule);
    let mut warnings = Vec::new();
    if selection.set_aside > 0 {
        warnings.push(
            Warning::new(
                Id::StepsOnSeveralThreads,
                format!(
                    "Rank {}: {} on {} set aside; the thread whose ranges launch most of the GPU work counts.",
                    trace.rank,
                    units::plural(selection.set_aside, "matching range"),
                    match selection.other_threads {
                        1 => "another thread is".to_owned(),
                        n => format!("{n} other threads are"),
                    },
                ),
            )
            .in_report(&trace.report),
        );
    }
    // `--skip` drops steps after their windows are made: it never changes the steps that stay.
    steps.drain(..options.skip.min(steps.len()));
    if let Some(keep) = keep {
        let mut at = 0..;
        steps.retain(|_| at.next().is_some_and(|at| keep.binary_search(&at).is_ok()));
    }
    let has_first = options.skip == 0 && keep.is_none_or(|keep| keep.first() == Some(&0));
    let windows = windows(&steps);
    let values = step_metrics::measure(&trace.ops, &windows);
    warnings.extend(step_warnings(trace, &steps, &values));
    let mut kernels = KernelTimes::default();
    kernels.add(trace, &windows);
    let inside: Vec<Span> = windows.iter().copied().flatten().collect();
    Measured {
        coverage: Coverage::of(&trace.ops, &inside, None),
        values: run::rank_steps(&steps, values, has_first, options.counting()),
        has_first,
        steps,
        kernels,
        warnings,
        events: events::events(trace, launches),
    }
}

fn step_warnings(trace: &RankTrace, steps: &[Step], values: &[Values]) -> Vec<Warning> {
    let mut list = Vec::new();
    let without: Vec<&Step> = steps.iter().filter(|s| s.window.is_err()).collect();
    if let Some(first) = without.first() {
        let reason = first.window.as_ref().err().map_or("", String::as_str);
        let (was, more) = match without.len() {
            1 => ("has", String::new()),
            n => ("have", format!(" and {} more", n - 1)),
        };
        list.push(
            Warning::new(
                Id::StepWithoutWindow,
                format!("Rank {}: '{}'{more} {was} no window: {reason}.", trace.rank, first.name),
            )
            .in_report(&trace.report),
        );
    }
    if let Some(i) = values.iter().position(|v| !step_metrics::identity_holds(v)) {
        list.push(
            Warning::new(
                Id::Identity,
                format!(
                    "Rank {}: the parts of '{}' do not add up to it.",
                    trace.rank, steps[i].name
                ),
            )
            .with_hint("This is a fault of nsysnccl: please report it with the capture.")
            .in_report(&trace.report),
        );
    }
    list
}
