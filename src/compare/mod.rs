//! Several variants of one program side by side: which change helped, by how much, and why.
//!
//! Pure functions from finished reports to a finished comparison (schema `nsysnccl.compare/1`). Definitions follow
//! docs/metrics.md, section 8; where several captures of one variant exist, each number of the variant is the mean of the captures' medians.

mod build;
mod comparability;
mod expectation;
mod gate;
pub(crate) mod group;
mod kernels;
pub(crate) mod manifest;
mod option;
mod replayed;
mod sample;
mod statistic;
mod values;
mod verdict;
mod waterfall;

#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::Serialize;

pub use build::compare;
pub(crate) use kernels::KernelChange;
pub(crate) use option::{TrainingOption, told};
pub(crate) use replayed::{PathMean, Promise};
pub(crate) use values::Deltas;
pub(crate) use verdict::{ONE_CAPTURE, ROUGH_STEPS, interval_meaning, interval_sentence};

use crate::catalogue::Finding;
use crate::model::metric::Summary;
use crate::report::{Report, Strip};
use crate::warning::Warning;

/// Name and version of the JSON document.
pub(crate) const SCHEMA: &str = "nsysnccl.compare/1";

/// The smallest change of the step time that counts, unless `--min-effect` says otherwise: 1 %.
pub(crate) const MIN_EFFECT: f64 = 0.01;

/// Share of the intervals that hold the true speed-up.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// One variant as it was given.
#[derive(Debug, Clone, PartialEq)]
pub struct VariantInput {
    /// Its name.
    pub name: String,
    /// One finished report for each capture; at least one.
    pub captures: Vec<Report>,
    /// Options that this variant is said to use, with who said so.
    pub options: Vec<ChangedOption>,
    /// True if its name and environment may suggest further options.
    pub guess_options: bool,
    /// The user's words about it.
    pub notes: Option<String>,
}

/// How to compare.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Name of the variant that the others are compared with; the first if `None`.
    pub baseline: Option<String>,
    /// Who chose it.
    pub baseline_source: BaselineSource,
    /// The smallest relative change of the step time that counts.
    pub min_effect: f64,
    /// What stays the same when the number of ranks changes.
    pub scaling: Option<Scaling>,
    /// Leaves out every outlier step, not only a first one.
    pub exclude_outliers: bool,
    /// The slow-down in percent that fails a gate.
    pub gate_percent: Option<f64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            baseline: None,
            baseline_source: BaselineSource::First,
            min_effect: MIN_EFFECT,
            scaling: None,
            exclude_outliers: false,
            gate_percent: None,
        }
    }
}

/// Who chose the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BaselineSource {
    /// The user.
    Told,
    /// It is the variant whose name all others begin with.
    Plain,
    /// It is the first.
    First,
}

/// What stays the same when the number of ranks changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scaling {
    /// The work of each rank: twice the ranks do twice the work in the same time at best.
    Weak,
    /// The work of all ranks together: twice the ranks take half the time at best.
    Strong,
}

/// A finished comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Version of this program.
    pub tool_version: &'static str,
    /// Name of the variant that the others are compared with.
    pub baseline: String,
    /// How the verdicts were found.
    pub settings: Method,
    /// The variants in the order given.
    pub variants: Vec<Variant>,
    /// What known options should do, and what they did.
    pub expectations: Vec<Expectation>,
    /// For each variant but the baseline: difference of its median step to the baseline's by part, ns; the parts add up to the
    /// difference of the two steps exactly. Variants without steps are absent.
    pub waterfall: BTreeMap<String, Parts>,
    /// For each variant but the baseline: the kernels that gain and lose most time in a step of one rank.
    pub kernels: BTreeMap<String, Vec<KernelChange>>,
    /// For each variant whose captures were all replayed: what its steps consist of along what held them up.
    pub critical_path: BTreeMap<String, PathMean>,
    /// What the baseline's replay promised of changes that variants have, and what these gave.
    pub promises: Vec<Promise>,
    /// The gate, if there is one.
    pub gate: Option<Gate>,
    /// Differences between the variants that the numbers do not show.
    pub comparability: Vec<Remark>,
    /// Explanations with evidence, the most important first.
    pub findings: Vec<Finding>,
    /// What the reader has to know about the numbers; those of a variant's reports name it.
    pub warnings: Vec<Warning>,
}

/// How the verdicts were found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Method {
    /// Who chose the baseline.
    pub baseline_source: BaselineSource,
    /// The smallest relative change of the step time that counts.
    pub min_effect: f64,
    /// Share of the intervals that hold the true speed-up.
    pub confidence: f64,
    /// Resamples behind each interval.
    pub draws: usize,
    /// What stays the same when the number of ranks changes; `None` if it was not said.
    pub scaling: Option<Scaling>,
    /// True if every outlier step was left out.
    pub exclude_outliers: bool,
}

impl Comparison {
    /// The variant that the headline is about: the fastest of those that are faster, else the slowest of those that are slower;
    /// only those that do the same work in a step.
    pub fn leading(&self) -> Option<&Variant> {
        let of = |verdict: Verdict| {
            self.variants.iter().filter(move |v| v.verdict == verdict && !self.other_work(v))
        };
        let speedup = |v: &Variant| v.speedup.unwrap_or(1.0);
        let fastest = of(Verdict::Faster).max_by(|a, b| speedup(a).total_cmp(&speedup(b)));
        fastest.or_else(|| of(Verdict::Slower).min_by(|a, b| speedup(a).total_cmp(&speedup(b))))
    }

    /// True if a step of the variant is known not to do the work of a step of the baseline, so that a shorter one is not a gain by itself:
    /// with another number of ranks, or with its kernels run another number of times.
    pub fn other_work(&self, variant: &Variant) -> bool {
        self.comparability.iter().any(|remark| {
            remark.variant == variant.name && matches!(remark.aspect, "ranks" | "work")
        })
    }
}

/// One variant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Variant {
    /// Its name.
    pub name: String,
    /// The files of all its captures, as given.
    pub reports: Vec<String>,
    /// Ranks of its first capture.
    pub ranks: usize,
    /// Steps of all its captures.
    pub steps: usize,
    /// Steps behind the numbers: without a first outlier, or without any if so asked.
    pub counted_steps: usize,
    /// Options that it is said or guessed to use.
    pub options: Vec<ChangedOption>,
    /// The user's words about it.
    pub notes: Option<String>,
    /// Median, mean, min, max over the steps that count; of several captures the mean of their medians and means.
    #[serde(flatten)]
    pub summary: Summary,
    /// Steps in a second at the median step time.
    pub throughput_steps_per_s: Option<f64>,
    /// Payload bytes of the matched collectives of a step, as logged; `None` where one of them has no size.
    pub comm_bytes_per_step: Option<i64>,
    /// Communication time without waiting: the least `comm_sum_ns` of any rank in a step, median over steps, ns.
    pub comm_transfer_ns: Option<i64>,
    /// Baseline step time / its step time.
    pub speedup: Option<f64>,
    /// The interval that holds the true speed-up with 95 % confidence.
    pub speedup_ci95: Option<[f64; 2]>,
    /// Share of the ideal speed-up for its number of ranks; `None` if the ranks do not differ or `--scaling` was not given.
    pub scaling_efficiency: Option<f64>,
    /// Its captures.
    pub captures: Vec<Capture>,
    /// Whether it helped.
    pub verdict: Verdict,
    /// Why that is the verdict, as sentences.
    pub why: String,
    /// The step that the waterfall and the pictures show.
    pub median_step: Option<MedianStep>,
    /// Differences of the medians to the baseline's.
    pub delta: Deltas,
    /// The median step as it ran, for pictures; not in JSON.
    pub strip: Option<Strip>,
}

impl Variant {
    /// Its step time / the baseline's, with the interval that holds it with 95 % confidence.
    pub fn times_as_long(&self) -> Option<(f64, Option<[f64; 2]>)> {
        let speedup = self.speedup.filter(|speedup| *speedup > 0.0)?;
        let positive = self.speedup_ci95.filter(|[lo, _]| *lo > 0.0);
        Some((1.0 / speedup, positive.map(|[lo, hi]| [1.0 / hi, 1.0 / lo])))
    }
}

/// Whether a variant helped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It is what the others are compared with.
    Baseline,
    /// Faster by more than the smallest effect that counts.
    Faster,
    /// Slower by more than the smallest effect that counts.
    Slower,
    /// Neither faster nor slower by as much as counts.
    Same,
    /// The captures do not decide.
    Inconclusive,
}

impl Verdict {
    /// The word for it.
    pub fn label(self) -> &'static str {
        match self {
            Verdict::Baseline => "baseline",
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Same => "same",
            Verdict::Inconclusive => "inconclusive",
        }
    }
}

/// One capture of a variant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Capture {
    /// Its files, as given.
    pub reports: Vec<String>,
    /// Steps that count.
    pub steps: usize,
    /// Median step time of the run, ns.
    pub step_ns_median: Option<i64>,
    /// Medians over steps of the parts of a step, ns; being medians, they add up only nearly.
    pub parts: Parts,
    /// All its steps.
    pub step_times: Vec<StepTime>,
}

/// One step of a capture.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepTime {
    /// Text of the step range.
    pub name: String,
    /// Time of the slowest rank, ns.
    pub step_ns: Option<i64>,
    /// Lies far from the median.
    pub outlier: bool,
    /// Behind the numbers of this comparison.
    pub counted: bool,
}

/// The parts of a step, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[allow(missing_docs)]
pub struct Parts {
    pub compute_ns: i64,
    pub exposed_comm_ns: i64,
    pub exposed_copy_ns: i64,
    /// CUDA graphs captured as one row beside which nothing else runs.
    pub unclassified_exposed_ns: i64,
    pub idle_ns: i64,
}

/// One step of one rank, where the parts add up exactly.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MedianStep {
    /// Position among the variant's captures, from 0.
    pub capture: usize,
    /// Text of the step range.
    pub step: String,
    /// The slowest rank of that step.
    pub rank: u32,
    /// Its step time, ns.
    pub step_ns: i64,
    /// What it is made of.
    pub parts: Parts,
}

/// The difference of one number to the baseline's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Delta {
    /// Variant minus baseline, in the number's unit.
    pub abs: crate::model::Num,
    /// The difference as a share of the baseline's number; `None` where that is 0.
    pub rel: Option<f64>,
}

/// An option that a variant uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedOption {
    /// What it is.
    pub option: TrainingOption,
    /// Who says so: `--option`, `manifest`, `guessed from the name`, `captured environment`.
    pub source: String,
}

/// What a known option should do, and what it did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Expectation {
    /// The variant that uses the option.
    pub variant: String,
    /// The option.
    pub option: TrainingOption,
    /// Who says that the variant uses it.
    pub source: String,
    /// The variant that shows what is without the option: all else equal if there is one, else the baseline.
    pub compared_with: String,
    /// What it should do, as a clause.
    pub expected: String,
    /// What the captures of the variant show, as a clause.
    pub observed: String,
    /// The same of the variant that it is compared with.
    pub observed_without: String,
    /// Whether it did; `None` if the captures cannot say.
    pub holds: Option<bool>,
}

/// A difference between a variant and the baseline that makes their numbers harder to compare.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Remark {
    /// The variant.
    pub variant: String,
    /// What differs: `gpu`, `work`, `model`, `batch`, `ranks`, `missing_ranks`, `graph_mode`, `schema`, `steps`, `settings`, `same_files`.
    pub aspect: &'static str,
    /// The fact, as a sentence.
    pub message: String,
}

/// A limit that no variant may exceed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gate {
    /// The slow-down in percent of the baseline's step that a variant may have.
    pub limit: f64,
    /// Variants that are slower by more.
    pub failed: Vec<String>,
    /// Variants of which the captures do not say whether they are.
    pub inconclusive: Vec<String>,
}

impl Gate {
    /// True if no variant failed and none is undecided.
    pub fn passed(&self) -> bool {
        self.failed.is_empty() && self.inconclusive.is_empty()
    }
}
