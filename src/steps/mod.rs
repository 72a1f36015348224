//! Which stretches of time are steps.
//!
//! ```text
//! ranges of all ranks --candidates--> texts that may be steps --decide--> StepRule --of--> Step by Step
//!                                        each with its windows (select, window) and what they cover (coverage)
//! ```

pub(crate) mod candidates;
pub(crate) mod coverage;
pub(crate) mod decide;
pub(crate) mod select;
pub(crate) mod window;

use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::model::{KindId, Ns, Range, RankTrace, Span, Texts};
use select::Selection;

/// What was asked to be a step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum StepChoice {
    /// Ranges that cover the GPU's work: of the default pattern, else repeated ones, else the whole capture.
    #[default]
    Automatic,
    /// Ranges whose text matches.
    Pattern(String),
    /// The whole capture is one step.
    Whole,
    /// A step starts with each kernel whose name matches.
    Kernel(String),
}

/// What a step's window is (docs/metrics.md, section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WindowKind {
    /// Where the step's work ran on the GPU.
    Gpu,
    /// The NVTX range on the CPU.
    Cpu,
    /// From the first work of one range to that of the next, whatever runs between.
    Period,
}

/// Why these are the steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StepSource {
    /// The usual words.
    #[serde(rename = "default")]
    Default,
    /// Told by `--step REGEX`.
    #[serde(rename = "--step")]
    Told,
    /// Told by `--step whole`.
    #[serde(rename = "--step whole")]
    ToldWhole,
    /// Told by `--step-kernel`.
    #[serde(rename = "--step-kernel")]
    ToldKernel,
    /// A range that recurs on every rank and covers the GPU's work.
    #[serde(rename = "repeated range")]
    Repeated,
    /// The capture has no ranges.
    #[serde(rename = "no NVTX ranges")]
    NoRanges,
    /// All its ranges are NCCL's.
    #[serde(rename = "only NCCL's own NVTX ranges")]
    OnlyNccl,
    /// All its ranges are those of libraries.
    #[serde(rename = "only ranges of libraries")]
    OnlyLibraries,
    /// Its ranges are those of processes that run no GPU work.
    #[serde(rename = "only ranges of processes without GPU work")]
    Elsewhere,
    /// No range that recurs covers enough of the GPU's work.
    #[serde(rename = "no recurring range covers half of the GPU work")]
    Uncovered,
}

impl WindowKind {
    /// The word that options and reports use.
    pub fn label(self) -> &'static str {
        match self {
            WindowKind::Gpu => "gpu",
            WindowKind::Cpu => "cpu",
            WindowKind::Period => "period",
        }
    }
}

impl StepSource {
    /// The words that reports print.
    pub fn label(self) -> &'static str {
        match self {
            StepSource::Default => "default",
            StepSource::Told => "--step",
            StepSource::ToldWhole => "--step whole",
            StepSource::ToldKernel => "--step-kernel",
            StepSource::Repeated => "repeated range",
            StepSource::NoRanges => "no NVTX ranges",
            StepSource::OnlyNccl => "only NCCL's own NVTX ranges",
            StepSource::OnlyLibraries => "only ranges of libraries",
            StepSource::Elsewhere => "only ranges of processes without GPU work",
            StepSource::Uncovered => "no recurring range covers half of the GPU work",
        }
    }
}

/// How steps are found, once it is decided.
#[derive(Debug, Clone)]
pub struct StepRule {
    /// The regular expression, or `whole`.
    pub pattern: String,
    /// Why this one.
    pub source: StepSource,
    /// What it is matched with.
    pub kind: StepKind,
}

/// What a step is, once it is decided.
#[derive(Debug, Clone)]
pub enum StepKind {
    /// NVTX ranges with their windows.
    Ranges(Chosen, WindowKind),
    /// The whole capture.
    Whole,
    /// From one kernel of that name to the next.
    Kernel(Regex),
}

/// Which of the user's ranges are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chosen {
    /// Those named as steps: their text matched the pattern when it was read.
    Named,
    /// Of those the first of each number: several ranges that bear one number are phases of one step.
    FirstOfNumber,
    /// Those of one kind, in print.
    Kind(String),
    /// Of those of one kind, whose numbers count up again and again (`layer 0`, `layer 1`, `layer 0`, ...), the first of each run.
    FirstOfCycle(String),
}

impl StepRule {
    /// True if steps come from NVTX ranges.
    pub fn by_ranges(&self) -> bool {
        matches!(self.kind, StepKind::Ranges(..))
    }

    /// The kind of window that reports print.
    pub fn window(&self) -> WindowKind {
        match self.kind {
            StepKind::Ranges(_, window) => window,
            StepKind::Whole | StepKind::Kernel(_) => WindowKind::Gpu,
        }
    }
}

/// What a step is called: its text, and which occurrence of that text on its rank it is, from 0.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepKey {
    /// Text of the range, or what stands for it.
    pub name: String,
    /// Ranges of the rank with this text before it.
    pub occurrence: usize,
}

/// One step of one rank: where it stands on the CPU and on the GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Text of the range, or what stands for it.
    pub name: String,
    /// Which occurrence of this text it is on this rank, from 0.
    pub occurrence: usize,
    /// The NVTX range, if the step comes from one.
    pub range: Option<Span>,
    /// The window, or why there is none.
    pub window: Result<Span, String>,
}

impl Step {
    /// What it is called.
    pub fn key(&self) -> StepKey {
        StepKey { name: self.name.clone(), occurrence: self.occurrence }
    }

    /// Length of the NVTX range.
    pub fn cpu_range_ns(&self) -> Option<Ns> {
        self.range.map(Span::len)
    }
}

/// The ranges of a rank that are chosen, before a thread is.
pub(crate) fn chosen(trace: &RankTrace, chosen: &Chosen) -> Vec<Range> {
    match chosen {
        Chosen::Named | Chosen::FirstOfNumber => trace.ranges.named().collect(),
        Chosen::Kind(kind) | Chosen::FirstOfCycle(kind) => {
            let own = candidates::OwnNames::of(trace);
            let ids = (0..trace.texts.len() as u32).map(KindId);
            let ids: foldhash::HashSet<KindId> =
                ids.filter(|id| own.kind(trace, *id) == *kind).collect();
            trace.ranges.iter().filter(|range| ids.contains(&range.kind)).collect()
        }
    }
}

/// Step ranges of all ranks together of which a report can be made: each costs some 2 kB of memory.
pub(crate) const MOST: usize = 250_000;

/// Why no report can be made of the steps of these ranks: there are more than [`MOST`].
pub(crate) fn too_many<'t>(
    traces: impl Iterator<Item = &'t RankTrace>,
    rule: &StepRule,
) -> Option<decide::NoSteps> {
    let count = |trace: &RankTrace| match &rule.kind {
        StepKind::Whole => 1,
        StepKind::Ranges(what, _) => chosen(trace, what).len(),
        StepKind::Kernel(pattern) => window::at_kernels(&trace.ops, &trace.names, pattern).len(),
    };
    let steps: usize = traces.map(count).sum();
    (steps > MOST).then(|| decide::NoSteps {
        fact: format!(
            "'{}' means {} steps on all ranks together, more than the {} of which a report can be made",
            rule.pattern,
            crate::units::count(steps as u64),
            crate::units::count(MOST as u64)
        ),
        hint: "name longer steps with --step, take --step whole, report on some ranks with --ranks, or capture a shorter time"
            .to_owned(),
    })
}

/// The step ranges of a rank: outermost, on one thread.
pub(crate) fn select(trace: &RankTrace, what: &Chosen) -> Selection {
    let mut selection = select::select(&chosen(trace, what), &trace.ops, &trace.texts);
    match what {
        Chosen::FirstOfNumber => {
            selection.ranges = select::first_of_number(&selection.ranges, &trace.texts);
        }
        Chosen::FirstOfCycle(_) => {
            let first = select::first_of_cycle(&selection.ranges, &trace.texts);
            selection.ranges = first.unwrap_or_default();
        }
        Chosen::Named | Chosen::Kind(_) => {}
    }
    selection
}

/// The steps of a rank, and what was set aside.
pub(crate) fn of(trace: &RankTrace, rule: &StepRule) -> (Vec<Step>, Selection) {
    match &rule.kind {
        StepKind::Whole => (window::whole(&trace.ops), Selection::default()),
        StepKind::Kernel(pattern) => {
            (window::at_kernels(&trace.ops, &trace.names, pattern), Selection::default())
        }
        StepKind::Ranges(what, kind) => {
            let selection = select(trace, what);
            let windows = match kind {
                WindowKind::Gpu => window::gpu(&trace.ops, &selection.ranges),
                WindowKind::Cpu => window::cpu(&selection.ranges),
                WindowKind::Period => window::period(&trace.ops, &selection.ranges),
            };
            (named(&selection.ranges, &trace.texts, windows), selection)
        }
    }
}

/// Windows with the texts of their ranges; a period leaves out its last range.
fn named(ranges: &[Range], texts: &Texts, windows: Vec<Result<Span, String>>) -> Vec<Step> {
    let mut seen: foldhash::HashMap<String, usize> = foldhash::HashMap::default();
    ranges
        .iter()
        .zip(windows)
        .map(|(range, window)| {
            let name = texts.text(range.kind, range.digits);
            let count = seen.entry(name.clone()).or_insert(0);
            *count += 1;
            Step { name, occurrence: *count - 1, range: Some(range.span()), window }
        })
        .collect()
}
