//! One run: files that are read once, and everything that was found in them. Reports, comparisons and exports are made
//! from it.
//!
//! ```text
//! paths --files--> Files --decide--> StepRule --measure--> each rank --match--> steps and collectives of the run
//!                                                             '--pair--> records of Inspector
//! ```

pub(crate) mod files;
pub(crate) mod measure;
mod options;

use std::path::PathBuf;

use rayon::prelude::*;

use crate::Result;
use crate::analysis::run::{self, RunSteps};
use crate::analysis::run::{RankStep, RunStep};
use crate::catalogue::Id;
use crate::classify::Family;
use crate::collectives::analyse::{self, Across};
use crate::collectives::events::{Event, Launches};
use crate::collectives::pairing::{Pairing, RankSteps};
use crate::dependency;
use crate::dependency::steps::RunSpan;
use crate::error::Error;
use crate::ingest::nsys::{Candidate, NsysReport};
use crate::ingest::{communicators, one_run, ranks};
use crate::merge;
use crate::merge::collect::{Collected, Process};
use crate::merge::kernels::RankKernels;
use crate::model::counter::Sampled;
use crate::model::input::Input;
use crate::model::nccl_log::NcclLog;
use crate::model::topology::Topology;
use crate::model::{Metric, RankTrace};
use crate::npkit::dump::Dump;
use crate::steps::decide::{self, NoSteps, Seen};
use crate::steps::{Step, StepChoice, StepRule};
use crate::warning::Warning;

use files::{Files, unless_going_on};
use measure::Measured;
pub use options::Options;

/// One run as it was read, matched and measured.
#[derive(Debug)]
pub struct Run {
    /// What the files' names have in common (`ddp-8gpu`).
    pub name: String,
    /// What was asked for.
    pub options: Options,
    /// The exports of nsys.
    pub inputs: Vec<Input>,
    /// What a step is.
    pub rule: StepRule,
    /// The ranks, in order of their number.
    pub ranks: Vec<RankRun>,
    /// Steps that all ranks have.
    pub steps: RunSteps,
    /// Matched collectives and clocks.
    pub across: Across,
    /// What the dependencies of its moments say.
    pub dependency: dependency::Outcome,
    /// Kernels paired with records of Inspector; `None` without logs.
    pub inspector: Option<merge::Merged>,
    /// NCCL logs of the run.
    pub nccl_logs: Vec<NcclLog>,
    /// The topology of its machine.
    pub topology: Option<Topology>,
    /// NPKit dumps of one of its communicators.
    pub npkit: Option<Dump>,
    /// Counters of GPUs: those of the reports, then those of other files.
    pub sampled: Vec<Sampled>,
    /// What a reader should know, in the order in which it was found.
    pub warnings: Vec<Warning>,
    /// Inputs that could not be used.
    pub unusable: Vec<Error>,
}

/// One rank of a run.
#[derive(Debug)]
pub struct RankRun {
    /// What was captured.
    pub trace: RankTrace,
    /// Its steps and their numbers.
    pub measured: Measured,
}

impl Run {
    /// Reads the files of a run and finds everything in them. `tick` is called once for each export that was read.
    ///
    /// # Errors
    /// An input that cannot be used (unless `keep_going` and another can), two inputs for one rank, a `--step` that
    /// matches nothing.
    pub fn read(paths: &[PathBuf], options: &Options, tick: impl Fn() + Sync) -> Result<Run> {
        let Files {
            mut reports,
            nccl_logs,
            topology,
            npkit,
            mut sampled,
            warnings: of_files,
            mut unusable,
        } = Files::read(paths, options, tick)?;
        let of_reports = reports.iter_mut().flat_map(|report| std::mem::take(&mut report.sampled));
        sampled.splice(0..0, of_reports.collect::<Vec<_>>());
        let Traces { traces, inputs, rule, mut warnings } = traces(reports, &nccl_logs, options)?;

        warnings.extend(of_files);

        let launches = Launches::new(&traces);
        let measure = |keep: Option<&[Vec<usize>]>| -> Vec<Measured> {
            let keep = |at: usize| keep.and_then(|keep| keep.get(at)).map(Vec::as_slice);
            let ranks = traces.par_iter().enumerate();
            ranks
                .map(|(at, trace)| measure::measure(trace, &launches, &rule, options, keep(at)))
                .collect()
        };
        let mut measured = measure(None);
        refuse_nothing(&measured, &rule, options)?;
        let mut pairing = pair_steps(&traces, &measured);
        let mut steps = run_steps(&traces, &measured, &pairing, options);
        if let Some(wanted) = &options.steps {
            // Which steps are those of the run is known only now.
            let keep = kept_steps(&steps, wanted, traces.len())?;
            measured = measure(Some(&keep));
            pairing = pairing.keep(&keep);
            steps = run_steps(&traces, &measured, &pairing, options);
        }
        warnings.extend(measured.iter_mut().flat_map(|rank| std::mem::take(&mut rank.warnings)));
        for (index, members) in steps.members.iter().enumerate() {
            for (rank, &at) in measured.iter_mut().zip(members) {
                rank.values[at].run_step = Some(index);
            }
        }
        warnings.extend(steps.warnings.iter().cloned());

        let mut events: Vec<Vec<Event>> =
            measured.iter_mut().map(|rank| std::mem::take(&mut rank.events)).collect();
        let paired = pair_records(&traces, &mut events, options);
        let inspector = unless_going_on(paired, options, &mut unusable)?.flatten();
        let own_steps: Vec<&[Step]> = measured.iter().map(|m| m.steps.as_slice()).collect();
        let across = analyse::across(&traces, &events, &own_steps, &pairing);

        let dependency = match options.replay {
            true => dependency::analyse(
                &traces,
                &events,
                &run_spans(&traces, &measured, &steps),
                &across,
                options.pieces,
            ),
            false => dependency::Outcome::none("it was not asked for (--no-replay)"),
        };
        warnings.extend(dependency.warnings.iter().cloned());

        let ranks = traces
            .into_iter()
            .zip(measured)
            .zip(events)
            .map(|((trace, measured), events)| RankRun {
                trace,
                measured: Measured { events, ..measured },
            })
            .collect();
        let paths: Vec<PathBuf> = inputs.iter().map(|input| PathBuf::from(&input.path)).collect();
        Ok(Run {
            name: files::run_name(&paths),
            options: options.clone(),
            inputs,
            rule,
            ranks,
            steps,
            across,
            dependency,
            inspector,
            nccl_logs,
            topology,
            npkit,
            sampled,
            warnings,
            unusable,
        })
    }
}

/// The ranks of some reports, and what their steps are.
struct Traces {
    traces: Vec<RankTrace>,
    inputs: Vec<Input>,
    rule: StepRule,
    warnings: Vec<Warning>,
}

/// Decides what a step is and which rank is which.
fn traces(reports: Vec<NsysReport>, logs: &[NcclLog], options: &Options) -> Result<Traces> {
    let inputs: Vec<Input> = reports.iter().map(|report| report.input.clone()).collect();
    let mut warnings: Vec<Warning> = reports.iter().flat_map(|r| r.warnings.clone()).collect();
    let seen = seen(&reports);
    let (traces, clues): (Vec<_>, Vec<_>) = reports
        .into_iter()
        .flat_map(|report| report.candidates)
        .map(|Candidate { trace, clues }| (trace, clues))
        .unzip();
    let decided = decide::decide(&options.step, options.window, &traces, &seen).map_err(
        |NoSteps { fact, hint }| {
            let paths: Vec<PathBuf> = inputs.iter().map(|i| PathBuf::from(&i.path)).collect();
            Error::of_inputs(&paths, fact).with_hint(hint)
        },
    )?;
    warnings.extend(decided.warnings);
    let candidates: Vec<Candidate> =
        traces.into_iter().zip(clues).map(|(trace, clues)| Candidate { trace, clues }).collect();
    let candidates = with_steps(candidates, &decided.rule, &mut warnings);
    if let Some(error) =
        one_run::refusal(&one_run::captured_at(candidates.iter().map(|c| &c.trace)))
    {
        return Err(error);
    }
    let (mut traces, more) = ranks::assign(candidates, options.rank_regex.as_deref())?;
    warnings.extend(more);
    warnings.extend(communicators::learn(&mut traces, &logs.iter().collect::<Vec<_>>()));
    warnings.extend(one_run::missing_ranks(&traces));
    warnings.extend(one_run::captured_apart(one_run::captured_at(&traces)));
    warnings.extend(idle_comm_regex(&traces, options));
    if let Some(wanted) = &options.ranks {
        keep_ranks(&mut traces, wanted)?;
    }
    if let Some(NoSteps { fact, hint }) = crate::steps::too_many(traces.iter(), &decided.rule) {
        let paths: Vec<PathBuf> = inputs.iter().map(|i| PathBuf::from(&i.path)).collect();
        return Err(Error::of_inputs(&paths, fact).with_hint(hint));
    }
    Ok(Traces { traces, inputs, rule: decided.rule, warnings })
}

/// Which steps of different ranks are one step of the run.
fn pair_steps(traces: &[RankTrace], measured: &[Measured]) -> Pairing {
    let ranks: Vec<RankSteps<'_>> = traces
        .iter()
        .zip(measured)
        .map(|(trace, measured)| RankSteps {
            steps: &measured.steps,
            epoch_ns: trace.epoch_ns,
            events: &measured.events,
            names: &trace.names,
        })
        .collect();
    Pairing::new(&ranks)
}

/// The steps of the run, from those of its ranks.
fn run_steps(
    traces: &[RankTrace],
    measured: &[Measured],
    pairing: &Pairing,
    options: &Options,
) -> RunSteps {
    let numbered: Vec<(u32, &[RankStep])> =
        traces.iter().zip(measured).map(|(t, m)| (t.rank, m.values.as_slice())).collect();
    let has_first: Vec<bool> = measured.iter().map(|rank| rank.has_first).collect();
    run::run_steps(&numbered, pairing, &has_first, options.counting())
}

/// For each rank the places, in order, of the steps that `--steps` asks for.
fn kept_steps(steps: &RunSteps, wanted: &[u32], ranks: usize) -> Result<Vec<Vec<usize>>> {
    let mut keep = vec![Vec::with_capacity(wanted.len()); ranks];
    for &index in wanted {
        let Some(members) = steps.members.get(index as usize) else {
            let there = match steps.members.len() {
                0 => "the ranks have no step in common".to_owned(),
                n => format!("the run has {}, 0 to {}", crate::units::plural(n, "step"), n - 1),
            };
            return Err(Error::inputs(format!("there is no step {index} of --steps: {there}"))
                .with_hint(
                    "steps are counted from 0, in the order of the report without --steps",
                ));
        };
        keep.iter_mut().zip(members).for_each(|(keep, &at)| keep.push(at));
    }
    keep.iter_mut().for_each(|places| places.sort_unstable());
    Ok(keep)
}

/// The steps of the run with their window on each rank.
fn run_spans(traces: &[RankTrace], measured: &[Measured], steps: &RunSteps) -> Vec<RunSpan> {
    let span = |(step, members): (&RunStep, &Vec<usize>)| {
        let windows = measured.iter().zip(members).map(|(rank, &at)| {
            rank.steps.get(at).and_then(|step| step.window.as_ref().ok().copied())
        });
        let slowest = |trace: &RankTrace| Some(trace.rank) == step.slowest_rank;
        Some(RunSpan {
            index: step.index,
            counted: step.counted,
            step_ns: step.values.int(Metric::StepNs)?,
            slowest: traces.iter().position(slowest)?,
            windows: windows.collect::<Option<_>>()?,
        })
    };
    steps.steps.iter().zip(&steps.members).filter_map(span).collect()
}

/// What there is of ranges besides those of ranks.
pub(crate) fn seen(reports: &[NsysReport]) -> Seen {
    let rows = |kind: &str| {
        reports.iter().filter_map(|r| r.input.capture.rows.get(kind)).copied().sum::<u64>()
    };
    Seen {
        ranges: rows("ranges"),
        launches: rows("api_calls"),
        user: reports.iter().map(|report| report.user_ranges).sum(),
        elsewhere: reports
            .iter()
            .flat_map(|report| &report.elsewhere)
            .map(|other| (other.pid, other.ranges.any_named()))
            .collect(),
    }
}

/// Leaves out processes without step ranges where others have them.
pub(crate) fn with_steps(
    candidates: Vec<Candidate>,
    rule: &StepRule,
    warnings: &mut Vec<Warning>,
) -> Vec<Candidate> {
    let crate::steps::StepKind::Ranges(what, _) = &rule.kind else { return candidates };
    let (with, without): (Vec<Candidate>, Vec<Candidate>) = candidates
        .into_iter()
        .partition(|candidate| !crate::steps::chosen(&candidate.trace, what).is_empty());
    for Candidate { trace, .. } in without {
        warnings.push(
            Warning::new(
                Id::ProcessWithoutSteps,
                format!(
                    "Process {} (device {}) ran GPU work but has no step ranges, although others have: left out.",
                    trace.pid, trace.device
                ),
            )
            .in_report(trace.report),
        );
    }
    with
}

/// `--comm-regex` that adds nothing is a mistake to be told of.
fn idle_comm_regex(traces: &[RankTrace], options: &Options) -> Option<Warning> {
    let pattern = options.comm_regex.as_deref()?;
    let is_used = |trace: &RankTrace| trace.families.values().any(|f| *f == Family::User.label());
    (!traces.iter().any(is_used)).then(|| {
        Warning::new(
            Id::CommRegexUnused,
            format!("--comm-regex '{pattern}' changes nothing: it matches no kernel that is not known to be communication anyway."),
        )
        .with_hint("Give a part of a kernel's name as the table of kernels lists them.")
    })
}

fn keep_ranks(traces: &mut Vec<RankTrace>, wanted: &[u32]) -> Result<()> {
    if let Some(missing) = wanted.iter().find(|rank| !traces.iter().any(|t| t.rank == **rank)) {
        let there: Vec<u32> = traces.iter().map(|t| t.rank).collect();
        return Err(Error::inputs(format!(
            "rank {missing} of --ranks is in none of the reports (ranks there: {})",
            crate::units::rank_list(&there)
        )));
    }
    traces.retain(|trace| wanted.contains(&trace.rank));
    Ok(())
}

/// Refuses a run in which no step has a window.
fn refuse_nothing(ranks: &[Measured], rule: &StepRule, options: &Options) -> Result<()> {
    let steps = || ranks.iter().flat_map(|rank| &rank.values);
    if steps().any(|step| step.values.int(Metric::StepNs).is_some()) {
        return Ok(());
    }
    let reason = steps().find_map(|step| step.reason.clone());
    let error = match (reason, &options.step) {
        (Some(reason), _) => Error::inputs(format!("no step has a window on the GPU ({reason})"))
            .with_hint("use --step whole for the whole capture, or another --step"),
        (None, StepChoice::Kernel(_)) if options.skip == 0 => {
            Error::inputs(format!("no kernel matches --step-kernel '{}'", rule.pattern))
                .with_hint("give a part of a kernel's name as `report --step whole` lists them")
        }
        (None, _) => Error::inputs(format!("--skip {} leaves no step", options.skip))
            .with_hint("skip fewer steps"),
    };
    Err(error)
}

/// Pairs the kernels with the records of Inspector, which also give sizes to operations without a payload.
fn pair_records(
    traces: &[RankTrace],
    events: &mut [Vec<Event>],
    options: &Options,
) -> Result<Option<merge::Merged>> {
    if options.inspector.is_empty() {
        return Ok(None);
    }
    let ranks: Vec<RankKernels> = traces
        .iter()
        .map(|trace| RankKernels {
            rank: trace.rank,
            pid: trace.pid,
            hostname: trace.hostname.clone(),
            epoch_ns: trace.epoch_ns,
            captured: trace.ops.start.first().copied().zip(trace.ops.end.iter().copied().max()),
            comm_inits: trace.comm_inits.clone(),
        })
        .collect();
    let wanted: Vec<Process> = ranks.iter().map(|rank| (rank.pid, rank.hostname.clone())).collect();
    let logs = Collected::read(&options.inspector, &wanted)?;
    Ok(Some(merge::merge(&ranks, events, &logs)))
}
