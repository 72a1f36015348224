//! Which ranges are steps: those that cover the GPU's work (docs/metrics.md, section 2). A pure function of what
//! was read.

use std::cmp::Reverse;

use rayon::prelude::*;
use regex::Regex;

use super::candidates::{self, Candidate, LISTED};
use super::coverage::Coverage;
use super::window::{self, Window};
use super::{
    Chosen, StepChoice, StepKind, StepRule, StepSource, WindowKind, select::DEFAULT_PATTERN,
};
use crate::catalogue::Id;
use crate::model::{Ns, Range, RankTrace, Span};
use crate::text::{shell_quote, shorten};
use crate::units;
use crate::warning::Warning;

/// Windows that cover so much of the GPU work need nothing between them.
const NEARLY_ALL: f64 = 0.95;
/// Windows that cover less are not steps.
const ENOUGH: f64 = 0.5;
/// A range recurs once an iteration if work lies in so many of the gaps between its ranges.
const GAPS_WITH_WORK: f64 = 0.8;
/// Periods cover so much of what lies between the first and the last range.
const BETWEEN: f64 = 0.8;
/// Ranges that a warning lists with what they cover.
const NAMED: usize = 6;

/// What was read of the user's ranges besides those of ranks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// NVTX ranges in all reports.
    pub ranges: u64,
    /// Those of them that are not NCCL's.
    pub user: u64,
    /// Calls of the CUDA API: without them nothing says what a range launched.
    pub launches: u64,
    /// Processes that ran no GPU work: pid, and whether their texts are those of steps.
    pub elsewhere: Vec<(u32, bool)>,
}

/// What a step is, and what has to be said about it.
#[derive(Debug, Clone)]
pub(crate) struct Decision {
    /// The rule.
    pub rule: StepRule,
    /// What a reader should know of how it came about.
    pub warnings: Vec<Warning>,
}

/// Why no range is a step although one was named by hand.
#[derive(Debug, Clone)]
pub(crate) struct NoSteps {
    /// The fact, as a clause.
    pub fact: String,
    /// What to do.
    pub hint: String,
}

/// Decides what a step is. `window` is what was asked for, if it was.
///
/// # Errors
/// A pattern that was given by hand matches no range of a process with GPU work.
pub(crate) fn decide(
    asked: &StepChoice,
    window: Option<WindowKind>,
    ranks: &[RankTrace],
    seen: &Seen,
) -> Result<Decision, NoSteps> {
    let told = |pattern: &str, source, kind| Decision {
        rule: StepRule { pattern: pattern.to_owned(), source, kind },
        warnings: Vec::new(),
    };
    match asked {
        StepChoice::Whole => Ok(told("whole", StepSource::ToldWhole, StepKind::Whole)),
        StepChoice::Kernel(text) => match Regex::new(text) {
            Ok(pattern) => Ok(told(text, StepSource::ToldKernel, StepKind::Kernel(pattern))),
            Err(e) => Err(NoSteps {
                fact: format!("--step-kernel is not a regular expression: {e}"),
                hint: "give a part of a kernel's name".to_owned(),
            }),
        },
        StepChoice::Pattern(text) if ranks.iter().any(|rank| rank.ranges.any_named()) => {
            let kind = StepKind::Ranges(Chosen::Named, window.unwrap_or(WindowKind::Gpu));
            Ok(told(text, StepSource::Told, kind))
        }
        StepChoice::Pattern(text) => Err(no_match(text, ranks, seen)),
        StepChoice::Automatic => Ok(automatic(window, ranks, seen)),
    }
}

fn automatic(window: Option<WindowKind>, ranks: &[RankTrace], seen: &Seen) -> Decision {
    let list = candidates::candidates(ranks);
    for trial in trials(ranks, &list) {
        let with: Vec<&RankTrace> =
            ranks.iter().filter(|rank| !super::chosen(rank, &trial.what).is_empty()).collect();
        // Ranges that are asked for as windows themselves need not cover what they launch.
        let fit = match window {
            Some(WindowKind::Cpu) if !with.is_empty() => Some(WindowKind::Cpu),
            _ => fit(&with, &trial, seen),
        };
        if let Some(fit) = fit {
            let (what, pattern) = match (fit, trial.phase_of) {
                (WindowKind::Period, Some(first)) => first,
                _ => (trial.what, trial.pattern),
            };
            let kind = StepKind::Ranges(what, window.unwrap_or(fit));
            let warnings = match fit {
                WindowKind::Period if window.is_none() => vec![periods(&pattern)],
                _ => Vec::new(),
            };
            let rule = StepRule { pattern, source: trial.source, kind };
            return Decision { rule, warnings };
        }
    }
    let source = if list.is_empty() {
        match (seen.ranges, seen.user, seen.elsewhere.is_empty()) {
            (0, ..) => StepSource::NoRanges,
            (_, 0, _) => StepSource::OnlyNccl,
            (.., true) => StepSource::OnlyLibraries,
            (.., false) => StepSource::Elsewhere,
        }
    } else {
        StepSource::Uncovered
    };
    let mut warnings = Vec::new();
    if source == StepSource::Uncovered {
        warnings.push(uncovered(ranks, &list));
    }
    warnings.extend(ranges_elsewhere(seen));
    let rule = StepRule { pattern: "whole".to_owned(), source, kind: StepKind::Whole };
    Decision { rule, warnings }
}

/// Ranges that are tried as steps.
#[derive(Debug, Clone)]
struct Trial {
    what: Chosen,
    /// The first of several kinds that take turns, of which this is one, with its pattern: its period is that of them all.
    phase_of: Option<(Chosen, String)>,
    pattern: String,
    source: StepSource,
}

/// The pattern first, then repeated kinds, shallowest first.
fn trials(ranks: &[RankTrace], list: &[Candidate]) -> Vec<Trial> {
    let mut trials = Vec::new();
    if ranks.iter().any(|rank| rank.ranges.any_named()) {
        let what = if bears_numbers(ranks) { Chosen::FirstOfNumber } else { Chosen::Named };
        let pattern = DEFAULT_PATTERN.to_owned();
        trials.push(Trial { what, phase_of: None, pattern, source: StepSource::Default });
    }
    let repeated: Vec<&Candidate> = list.iter().filter(|c| c.repeated).take(LISTED).collect();
    for candidate in &repeated {
        trials.extend(cycle(ranks, candidate));
        let first = first_phase(ranks, candidate, &repeated);
        trials.push(Trial {
            what: Chosen::Kind(candidate.kind.clone()),
            phase_of: first.map(|first| (Chosen::Kind(first.kind.clone()), first.pattern.clone())),
            pattern: candidate.pattern.clone(),
            source: StepSource::Repeated,
        });
    }
    trials
}

/// Words of texts whose numbers are those of steps, also where they begin again with each epoch.
const STEPS: [&str; 3] = ["step", "iter", "batch"];

/// Ranges of one kind that are parts of a step, numbered anew in each (layers, chunks, stages): what recurs is their first.
fn cycle(ranks: &[RankTrace], candidate: &Candidate) -> Option<Trial> {
    let kind = candidate.kind.to_lowercase().replace(['-', '_', ' '], "").replace("microbatch", "");
    if STEPS.iter().any(|word| kind.contains(word)) {
        return None;
    }
    let what = Chosen::FirstOfCycle(candidate.kind.clone());
    let first = ranks.iter().map(|rank| super::select(rank, &what).ranges.first().copied());
    let first: Vec<Range> = first.collect::<Option<_>>()?;
    let (rank, range) = ranks.first().zip(first.first())?;
    let pattern = format!("^{}$", regex::escape(&rank.texts.text(range.kind, range.digits)));
    Some(Trial { what, phase_of: None, pattern, source: StepSource::Repeated })
}

/// True if several named ranges in a row bear one number, for most numbers: phases of one step.
fn bears_numbers(ranks: &[RankTrace]) -> bool {
    let (mut all, mut first) = (0, 0);
    for rank in ranks {
        all += super::select(rank, &Chosen::Named).ranges.len();
        first += super::select(rank, &Chosen::FirstOfNumber).ranges.len();
    }
    // Two or more ranges for each number in the mean: a number that is now and then written twice does not make phases.
    first > 0 && all >= 2 * first
}

/// Of kinds of one depth that take turns with this one on the first rank, the one that begins; `None` if none does.
fn first_phase<'c>(
    ranks: &[RankTrace],
    candidate: &'c Candidate,
    list: &[&'c Candidate],
) -> Option<&'c Candidate> {
    let rank = ranks.first()?;
    let own = starts(rank, &candidate.kind);
    let turns = |other: &&&Candidate| {
        other.depth == candidate.depth
            && other.kind != candidate.kind
            && take_turns(&own, &starts(rank, &other.kind))
    };
    let others: Vec<&'c Candidate> = list.iter().filter(turns).copied().collect();
    if others.is_empty() {
        return None;
    }
    others.into_iter().chain([candidate]).min_by_key(|c| (c.first, Reverse(c.total_ns)))
}

fn starts(rank: &RankTrace, kind: &str) -> Vec<(u64, Ns)> {
    let ranges = super::chosen(rank, &Chosen::Kind(kind.to_owned()));
    ranges.iter().map(|range| (range.thread, range.start)).collect()
}

/// True if between any two ranges of one kind there is one of the other, on one thread.
fn take_turns(a: &[(u64, Ns)], b: &[(u64, Ns)]) -> bool {
    let one_thread = a.iter().chain(b).all(|(thread, _)| Some(thread) == a.first().map(|(t, _)| t));
    if !one_thread || a.len().abs_diff(b.len()) > 1 {
        return false;
    }
    let mut all: Vec<(Ns, bool)> = a.iter().map(|(_, at)| (*at, true)).collect();
    all.extend(b.iter().map(|(_, at)| (*at, false)));
    all.sort_unstable();
    all.windows(2).all(|pair| pair[0].1 != pair[1].1)
}

/// How the ranges of a trial recur on one rank, and what their periods cover.
#[derive(Debug, Clone, Copy, Default)]
struct Measured {
    gaps: window::Gaps,
    /// Between the first work of the first range and that of the last.
    between: Coverage,
    /// Of all work but what the last range launched.
    but_last: Coverage,
}

/// Which window fits a trial; `None` if its ranges are not steps.
fn fit(ranks: &[&RankTrace], trial: &Trial, seen: &Seen) -> Option<WindowKind> {
    if ranks.iter().all(|rank| rank.ops.is_empty()) {
        // Only counted, not read: nothing says what is covered.
        return (!ranks.is_empty() && seen.launches > 0).then_some(WindowKind::Gpu);
    }
    let gpu = ranks
        .par_iter()
        .map(|rank| gpu_coverage(rank, &trial.what))
        .reduce(Coverage::default, Coverage::plus);
    let covered = gpu.share()?;
    if covered >= NEARLY_ALL {
        return Some(WindowKind::Gpu);
    }
    let period_of = trial.phase_of.as_ref().map_or(&trial.what, |(first, _)| first);
    let measured: Vec<Measured> =
        ranks.par_iter().map(|rank| measure_period(rank, period_of)).collect();
    let recurs = measured.iter().all(|m| {
        m.gaps.all > 0
            && m.gaps.overlapping == 0
            && m.gaps.with_work as f64 >= GAPS_WITH_WORK * m.gaps.all as f64
    });
    let sum = |of: fn(&Measured) -> Coverage| {
        measured.iter().map(of).fold(Coverage::default(), Coverage::plus).share().unwrap_or(0.0)
    };
    if recurs && sum(|m| m.between) >= BETWEEN && sum(|m| m.but_last) >= ENOUGH {
        return Some(WindowKind::Period);
    }
    (covered >= ENOUGH).then_some(WindowKind::Gpu)
}

fn spans(windows: &[Window]) -> Vec<Span> {
    windows.iter().filter_map(|window| window.as_ref().ok().copied()).collect()
}

fn gpu_coverage(rank: &RankTrace, what: &Chosen) -> Coverage {
    let ranges = super::select(rank, what).ranges;
    Coverage::of(&rank.ops, &spans(&window::gpu(&rank.ops, &ranges)), None)
}

fn measure_period(rank: &RankTrace, what: &Chosen) -> Measured {
    let ranges: Vec<Range> = super::select(rank, what).ranges;
    let windows = spans(&window::period(&rank.ops, &ranges));
    let all = Span::new(
        windows.first().map_or(0, |window| window.start),
        windows.last().map_or(0, |window| window.end),
    );
    let but_last = Coverage::of(&rank.ops, &windows, Some(all.end));
    let between =
        Coverage { inside: but_last.inside, all: Coverage::of(&rank.ops, &[all], None).inside };
    Measured { gaps: window::gaps(&rank.ops, &ranges), between, but_last }
}

/// A range is only a part of what recurs with it: that is a guess, and said.
fn periods(pattern: &str) -> Warning {
    Warning::new(
        Id::StepsArePeriods,
        format!("Ranges that match {pattern} cover only a part of the GPU work and recur with the rest of it between them, so a step is taken to be the period from the work of one to that of the next; the last range only ends a step."),
    )
    .with_hint("--window gpu takes what the ranges themselves launch, --step REGEX other ranges.")
}

/// No range covers enough: which there are, and what each covers.
fn uncovered(ranks: &[RankTrace], list: &[Candidate]) -> Warning {
    let mut frequent: Vec<&Candidate> = list.iter().collect();
    frequent.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.kind.cmp(&b.kind)));
    let one = |candidate: &&Candidate| {
        let what = Chosen::Kind(candidate.kind.clone());
        let covered = ranks
            .iter()
            .map(|rank| gpu_coverage(rank, &what))
            .fold(Coverage::default(), Coverage::plus);
        let share = covered.share().map_or("nothing".to_owned(), units::percent);
        format!("{} x '{}' ({share})", candidate.count, shorten(&candidate.kind, 60))
    };
    let named: Vec<String> = frequent.iter().take(NAMED).map(one).collect();
    Warning::new(
        Id::StepsUncovered,
        format!(
            "No NVTX range that recurs covers half of the GPU work as a step, so the whole capture is one window. The most frequent ranges, with the share of GPU work in their windows: {}.",
            named.join(", ")
        ),
    )
    .with_hint(match proposal(ranks, list) {
        Some(pattern) => format!("Name the range that is one training step, for example --step {}; or --step-kernel REGEX.", shell_quote(&pattern)),
        None => "No range launches GPU work: start a step with a kernel, --step-kernel REGEX.".to_owned(),
    })
}

fn ranges_elsewhere(seen: &Seen) -> Option<Warning> {
    let usual: Vec<u32> =
        seen.elsewhere.iter().filter(|(_, steps)| *steps).map(|(pid, _)| *pid).collect();
    if usual.is_empty() {
        return None;
    }
    Some(Warning::new(Id::StepsOfAnotherProcess, format!("{}.", whose(&usual))).with_hint(
        "Annotate the steps in the processes that launch the GPU work, or use --step-kernel REGEX.",
    ))
}

/// `Step ranges are those of process 90, which runs no GPU work`.
fn whose(pids: &[u32]) -> String {
    match pids {
        [one] => format!("The step ranges are those of process {one}, which runs no GPU work"),
        many => format!(
            "The step ranges are those of processes {}, which run no GPU work",
            units::rank_list(many)
        ),
    }
}

/// The error where `--step` matches nothing: it lists the most frequent texts and proposes one that gives steps.
fn no_match(told: &str, ranks: &[RankTrace], seen: &Seen) -> NoSteps {
    let list = candidates::candidates(ranks);
    let usual: Vec<u32> = seen.elsewhere.iter().filter(|(_, m)| *m).map(|(pid, _)| *pid).collect();
    let fact = match usual.as_slice() {
        [] => format!("no NVTX range matches --step '{told}'"),
        pids => format!(
            "no NVTX range of a process with GPU work matches --step '{told}' ({})",
            whose(pids).replace("The step ranges", "those that do")
        ),
    };
    let listed = candidates::frequent(&list);
    let fact = if listed.is_empty() {
        fact
    } else {
        format!("{fact}; the most frequent range texts are: {listed}")
    };
    let hint = match proposal(ranks, &list) {
        Some(pattern) => format!(
            "name the range that is one training step, for example --step {}; or --step whole, or --step-kernel REGEX",
            shell_quote(&pattern)
        ),
        None => "use --step whole for the whole capture, or --step-kernel REGEX".to_owned(),
    };
    NoSteps { fact, hint }
}

/// The pattern of the candidate that covers most of the GPU work.
fn proposal(ranks: &[RankTrace], list: &[Candidate]) -> Option<String> {
    let covers = |candidate: &&Candidate| {
        let what = Chosen::Kind(candidate.kind.clone());
        let all = ranks.iter().map(|rank| gpu_coverage(rank, &what));
        all.fold(Coverage::default(), Coverage::plus).inside
    };
    let best = list.iter().take(LISTED).map(|c| (covers(&c), c)).filter(|(ns, _)| *ns > 0);
    // Of equals the first, which is the shallowest.
    best.rev().max_by_key(|(ns, _)| *ns).map(|(_, candidate)| candidate.pattern.clone())
}
