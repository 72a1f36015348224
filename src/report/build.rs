//! From a run to what is printed of it.

use crate::Error;
use crate::analysis::{kernels::KernelTimes, run, strip};
use crate::catalogue::Id;
use crate::classify::doubt;
use crate::collectives::{self, events::Event, groups, latency};
use crate::counters::{self, Counters};
use crate::model::{Class, Metric, RankTrace, Span};
use crate::npkit::join;
use crate::places;
use crate::report::{
    self, Clock, CollectiveGroup, RankReport, Report, RunStep, RunSummary, Settings, Strip,
    counted, headline,
};
use crate::run::{RankRun, Run, measure};
use crate::stats;
use crate::steps::{WindowKind, coverage::Coverage};
use crate::transport::Facts;
use crate::warning::Warning;

/// Ranks of which a picture of one step is made, at most, besides the slowest.
const MOST_STRIPS: usize = 24;

/// The numbers of a run, final; what explains them is found from them.
pub fn numbers(run: &Run) -> Report {
    let facts = facts(run);
    let numbers: Vec<u32> = run.ranks.iter().map(|rank| rank.trace.rank).collect();
    let events: Vec<&[Event]> = run.ranks.iter().map(|r| r.measured.events.as_slice()).collect();
    let waits = waits(run, &numbers);
    let arrivals = groups::arrivals(&run.across.measured, run.ranks.len());
    let ranks: Vec<RankReport> = run
        .ranks
        .iter()
        .zip(&run.across.clocks)
        .zip(&arrivals)
        .map(|((rank, clock), arrivals)| rank_report(rank, run, (clock, arrivals), &waits))
        .collect();
    let mut kernels = KernelTimes::default();
    run.ranks.iter().for_each(|rank| kernels.merge(&rank.measured.kernels));
    let collectives = groups::groups(&run.across.measured, &events, &numbers);
    let places = places(run, &collectives);
    let counted = counters::of(&counted::work(run), &run.sampled);
    Report {
        schema: report::SCHEMA.to_owned(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        name: run.name.clone(),
        settings: settings(run),
        inputs: run.inputs.clone(),
        warnings: warnings(run, &ranks, facts.as_ref(), counted.as_ref()),
        size_fits: latency::fits(&collectives),
        collectives: with_peaks(collectives, facts.as_ref(), &ranks),
        ranks,
        steps: run.steps.steps.clone(),
        summary: summary(run),
        headline: headline::of(run),
        kernels: kernels.finish(),
        waits,
        replay: run.dependency.replay.clone(),
        critical_path: run.dependency.critical_path.clone(),
        what_if: run.dependency.what_if.clone(),
        places,
        inspector: run.inspector.as_ref().map(|merged| merged.view.clone()),
        transport: facts.as_ref().map(|facts| transport(facts, run)),
        npkit: npkit(run),
        counter_details: counted.as_ref().map(|counted| counted.details.clone()),
        counters: counted.map_or_else(Vec::new, |counted| counted.rows),
        findings: Vec::new(),
        unknown: Vec::new(),
        strips: strips(run),
    }
}

/// Where in the program the time of the counted steps goes.
fn places(run: &Run, groups: &[CollectiveGroup]) -> places::view::Places {
    let counted = run.steps.steps.iter().zip(&run.steps.members).filter(|(step, _)| step.counted);
    let of_step = |(_, members): (&RunStep, &Vec<usize>)| -> Option<Vec<(Span, Option<Span>)>> {
        let of_rank = |(rank, &at): (&RankRun, &usize)| {
            let step = rank.measured.steps.get(at)?;
            Some((step.window.as_ref().ok().copied()?, step.range))
        };
        run.ranks.iter().zip(members).map(of_rank).collect()
    };
    let steps: Vec<Vec<(Span, Option<Span>)>> = counted.filter_map(of_step).collect();
    let is_period = run.rule.window() == WindowKind::Period;
    let ranks: Vec<places::rank::Rank<'_>> = run
        .ranks
        .iter()
        .enumerate()
        .map(|(at, RankRun { trace, measured, .. })| places::rank::Rank {
            trace,
            events: &measured.events,
            steps: steps.iter().map(|step| step[at]).collect(),
            is_period,
        })
        .collect();
    places::of(&ranks, groups, run.dependency.on_path.as_ref())
}

/// What NCCL logs and the topology say, if one of them was given.
pub fn facts(run: &Run) -> Option<Facts<'_>> {
    (!run.options.nccl_logs.is_empty() || run.options.topology.is_some())
        .then(|| Facts::new(&run.nccl_logs, run.topology.as_ref()))
}

fn settings(run: &Run) -> Settings {
    Settings {
        step_pattern: run.rule.pattern.clone(),
        step_pattern_source: run.rule.source,
        window: run.rule.window(),
        skip: run.options.skip,
        ranks: run.options.ranks.clone(),
        steps: run.options.steps.clone(),
        keep_first: run.options.keep_first,
        exclude_outliers: run.options.exclude_outliers,
        comm_regex: run.options.comm_regex.clone(),
        what_if: run.options.what_if,
        by: run.options.by,
    }
}

fn summary(run: &Run) -> RunSummary {
    let steps = &run.steps.steps;
    let coverage = run.ranks.iter().map(|rank| rank.measured.coverage);
    RunSummary {
        ranks: run.ranks.len(),
        world_size: run.ranks.iter().filter_map(|rank| rank.trace.world_size).max(),
        steps: steps.len(),
        counted_steps: steps.iter().filter(|s| s.counted).count(),
        coverage: coverage.fold(Coverage::default(), Coverage::plus).share(),
        values: run::summarise(steps.iter().map(|s| (s.counted, &s.values))),
    }
}

/// How far collectives of each step of the run wait.
fn waits(run: &Run, numbers: &[u32]) -> Vec<report::StepWait> {
    groups::step_waits(&run.across.measured, &run.across.compute, &run.steps.numbers, numbers)
}

fn rank_report(
    rank: &RankRun,
    run: &Run,
    (clock, arrivals): (&collectives::clocks::RankClock, &groups::Arrivals),
    waits: &[report::StepWait],
) -> RankReport {
    let RankRun { trace, measured, .. } = rank;
    let counted = |w: &&report::StepWait| {
        w.rank == trace.rank && run.steps.steps.get(w.step).is_some_and(|s| s.counted)
    };
    let own_waits: Vec<i64> = waits.iter().filter(counted).map(|w| w.wait_ns).collect();
    let is_ordered = clock.collectives > 0;
    RankReport {
        rank: trace.rank,
        rank_source: trace.rank_source,
        report: trace.report.clone(),
        pid: trace.pid,
        device: trace.device,
        gpu: trace.gpu.clone(),
        gpu_uuid: trace.gpu_uuid.clone(),
        gpu_index: trace.gpu_index,
        hostname: trace.hostname.clone(),
        clock: Clock {
            epoch_ns: trace.epoch_ns,
            offset_ns: clock.offset_ns(),
            residual_p50_ns: clock.residual_p50_ns,
            residual_p95_ns: clock.residual_p95_ns,
            drift: clock.drift.label(),
            collectives: clock.collectives,
        },
        wait_ns_per_step: stats::median_i64(&own_waits),
        last_count: is_ordered.then_some(arrivals.last),
        first_count: is_ordered.then_some(arrivals.first),
        ordered_count: is_ordered.then_some(arrivals.ordered),
        summary: run::summarise(measured.values.iter().map(|s| (s.counted, &s.values))),
        steps: measured.values.clone(),
    }
}

/// Bandwidths beside the peak of their link.
fn with_peaks(
    mut groups: Vec<CollectiveGroup>,
    facts: Option<&Facts>,
    ranks: &[RankReport],
) -> Vec<CollectiveGroup> {
    let gpu = ranks.iter().find_map(|rank| rank.gpu.as_deref());
    let (Some(facts), Some(gpu)) = (facts, gpu) else { return groups };
    for group in &mut groups {
        let peak = facts.peak(group.comm_id.as_deref(), gpu);
        group.peak_share = group.busbw_gbs.zip(peak.as_ref()).map(|(busbw, peak)| busbw / peak.gbs);
        group.peak_source = peak
            .filter(|_| group.peak_share.is_some())
            .map(|peak| format!("{:.1} GB/s: {}", peak.gbs, peak.source));
    }
    groups
}

/// The communication kernels of each rank, and the step of the run that each begins in.
/// What NPKit's dump says of the kernels of a run; `None` without one.
pub(crate) fn npkit(run: &Run) -> Option<join::Joined> {
    run.npkit.as_ref().map(|dump| join::join(&comm_kernels(run), dump))
}

fn comm_kernels(run: &Run) -> Vec<join::RankKernels> {
    let of = |rank: &RankRun| {
        let ops = &rank.trace.ops;
        let windows = measure::windows(&rank.measured.steps);
        let step_at = |at| {
            let step = windows.iter().position(|w| w.is_some_and(|window| window.contains(at)))?;
            rank.measured.values.get(step)?.run_step
        };
        let comm = (0..ops.len()).filter(|&i| ops.class[i] == Class::Comm && ops.bytes[i] == 0);
        let kernel = |i| {
            let Span { start, end } = ops.span(i);
            join::Kernel { start, end, step: step_at(start) }
        };
        join::RankKernels {
            rank: rank.trace.rank,
            epoch_ns: rank.trace.epoch_ns,
            kernels: comm.map(kernel).collect(),
        }
    };
    run.ranks.iter().map(of).collect()
}

/// What logs and topology say of how ranks reach each other.
fn transport(facts: &Facts, run: &Run) -> report::Transport {
    let placed: Vec<(u32, u32)> = run
        .ranks
        .iter()
        .filter_map(|rank| Some((rank.trace.rank, rank.trace.gpu_index?)))
        .collect();
    report::Transport { gpus: facts.gpus(&placed), ..facts.view() }
}

fn warnings(
    run: &Run,
    ranks: &[RankReport],
    facts: Option<&Facts>,
    counted: Option<&Counters>,
) -> Vec<Warning> {
    let mut list = run.warnings.clone();
    let traces: Vec<&RankTrace> = run.ranks.iter().map(|rank| &rank.trace).collect();
    list.extend(graph_warning(&traces, ranks));
    list.extend(doubt::fused(&traces));
    if !communicates(ranks) {
        list.extend(doubt::unrecognised(&traces));
    }
    let has_first = run.ranks.iter().any(|rank| rank.measured.has_first);
    let left_out = |step: &&RunStep| has_first && step.outlier && !step.counted;
    if let Some(first) = run.steps.steps.first().filter(left_out) {
        list.push(
            Warning::new(
                Id::FirstStepLeftOut,
                format!(
                    "The first captured step, '{}', is an outlier and is left out of summaries.",
                    first.name
                ),
            )
            .with_hint("Ranks start the profiler at different times; --keep-first keeps it."),
        );
    }
    list.extend(run.inspector.iter().flat_map(|merged| merged.warnings.clone()));
    let events: Vec<&[Event]> = run.ranks.iter().map(|r| r.measured.events.as_slice()).collect();
    list.extend(collectives::warnings::warnings(&run.across, &traces, &events, &run.inputs));
    if let Some(facts) = facts {
        list.extend(facts.warnings());
        list.extend(facts.foreign(&ranks.iter().map(|rank| rank.pid).collect()));
    }
    list.extend(counted.iter().flat_map(|counted| counted.warnings.clone()));
    list.extend(run.unusable.iter().map(unusable_warning));
    list.sort();
    list.dedup();
    list
}

fn unusable_warning(error: &Error) -> Warning {
    let warning = Warning::new(Id::InputUnusable, format!("Left out: {error}."));
    match &error.hint {
        Some(hint) => warning.with_hint(hint),
        None => warning,
    }
}

/// True if some step has communication, or work of which nobody knows whether it is.
fn communicates(ranks: &[RankReport]) -> bool {
    ranks.iter().flat_map(|rank| &rank.steps).any(|step| {
        [Metric::CommNs, Metric::UnclassifiedNs]
            .iter()
            .any(|&metric| step.values.int(metric).is_some_and(|ns| ns > 0))
    })
}

fn graph_warning(traces: &[&RankTrace], ranks: &[RankReport]) -> Option<Warning> {
    if !traces.iter().any(|trace| trace.ops.has_graph_rows()) {
        return None;
    }
    let steps = ranks.iter().flat_map(|r| &r.steps);
    let with_graphs =
        steps.filter(|s| s.values.int(Metric::UnclassifiedNs).is_some_and(|ns| ns > 0)).count();
    (with_graphs > 0).then(|| {
        Warning::new(
            Id::GraphLevelTrace,
            format!(
                "CUDA graphs were captured as one row each in {with_graphs} step(s): what runs inside them is unknown, so communication numbers are lower bounds and ratios are not given."
            ),
        )
        .with_hint("Capture with --cuda-graph-trace=node.")
    })
}

/// The step of the run whose length is the (lower) median of those that count, on every rank.
fn strips(run: &Run) -> Vec<Strip> {
    let Some(step) = run.steps.median_step() else { return Vec::new() };
    let Some(members) = run.steps.members.get(step) else { return Vec::new() };
    let slowest = run.steps.steps.get(step).and_then(|step| step.slowest_rank);
    // Of many ranks the slowest, and others evenly.
    let every = run.ranks.len().div_ceil(MOST_STRIPS).max(1);
    run.ranks
        .iter()
        .zip(members)
        .enumerate()
        .filter(|(i, (rank, _))| i % every == 0 || Some(rank.trace.rank) == slowest)
        .filter_map(|(_, (rank, &at))| {
            let window = measure::windows(&rank.measured.steps).get(at).copied().flatten()?;
            Some(strip::strip(&rank.trace, &rank.measured.steps.get(at)?.name, window))
        })
        .collect()
}
