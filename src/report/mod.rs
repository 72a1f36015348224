//! The view model of `report`: every number final, none formatted. `--format json` prints it as it stands
//! (schema `nsysnccl.report/1`); every other format reads the same structure.

pub mod build;
pub mod counted;
pub mod derived;
pub mod gpus;
pub(crate) mod headline;
mod inside;
pub mod saved;
pub(crate) mod timeline;

use serde::{Deserialize, Serialize};

use crate::catalogue::{Finding, Unknown};
use crate::counters;
use crate::model::RankSource;
use crate::model::metric::Summary;
use crate::steps::{StepSource, WindowKind};
use crate::warning::Warning;

/// Name and version of the JSON document.
pub const SCHEMA: &str = "nsysnccl.report/1";

pub use crate::analysis::kernels::{Kernel, Kernels};
pub use crate::analysis::run::{RankStep, RunStep};
pub use crate::analysis::strip::Strip;
pub use crate::collectives::groups::{CollectiveGroup, StepWait};
pub use crate::collectives::latency::SizeFit;
pub use crate::dependency::view::{CriticalPath, Replay, Scope, WhatIf};
pub use crate::merge::view::{InspectorMerge, InspectorPair, InspectorRank};
pub use crate::model::input::{Capture, Input};
pub use crate::npkit::join::Joined;
pub use crate::places::view::{By, Place, Places};
pub use crate::transport::view::Transport;

/// One finished report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version of this program.
    pub tool_version: String,
    /// Name of the run: what the files' names have in common (`ddp-8gpu`).
    pub name: String,
    /// How steps were found and which were kept.
    pub settings: Settings,
    /// The files that were read.
    pub inputs: Vec<Input>,
    /// Ranks in order of their number.
    pub ranks: Vec<RankReport>,
    /// Steps of the run that all ranks have.
    pub steps: Vec<RunStep>,
    /// The run in a few numbers.
    pub summary: RunSummary,
    /// One real step in parts that add up; `None` if no step is shared by all ranks.
    pub headline: Option<headline::Headline>,
    /// Kernels by total time.
    pub kernels: Kernels,
    /// Matched collectives by operation, communicator and size; `None` if they were not matched.
    pub collectives: Vec<CollectiveGroup>,
    /// Latency and bandwidth of operations over their sizes.
    #[serde(default)]
    pub size_fits: Vec<SizeFit>,
    /// How far matched collectives of each step wait: one row for each step and rank.
    pub waits: Vec<StepWait>,
    /// How far the replay of the run can be trusted, or why there is none.
    #[serde(default)]
    pub replay: Replay,
    /// What held each step of the run up; empty without a replay.
    #[serde(default)]
    pub critical_path: Vec<CriticalPath>,
    /// What changes would gain, the greatest first; empty without a replay.
    #[serde(default)]
    pub what_if: Vec<WhatIf>,
    /// Where in the program the counted steps' time goes.
    #[serde(default)]
    pub places: Places,
    /// What the Inspector logs add; `None` if none were given.
    pub inspector: Option<InspectorMerge>,
    /// How the ranks reach each other; `None` if neither NCCL logs nor a topology were given.
    pub transport: Option<Transport>,
    /// What happens inside of the communication kernels; `None` without NPKit dumps.
    pub npkit: Option<Joined>,
    /// What the counters of GPUs were in each part of the steps; empty if nothing was sampled.
    #[serde(default)]
    pub counters: Vec<counters::rows::Row>,
    /// How counters were sampled, what links carried, what was wrong; `None` if nothing was sampled.
    #[serde(default)]
    pub counter_details: Option<counters::Details>,
    /// Explanations with evidence, the most important first.
    pub findings: Vec<Finding>,
    /// What cannot be told, since a kind of evidence is missing.
    #[serde(default)]
    pub unknown: Vec<Unknown>,
    /// What the reader has to know about the numbers.
    pub warnings: Vec<Warning>,
    /// One median step as it ran, for pictures: of many ranks some.
    pub strips: Vec<Strip>,
}

/// How steps were found and which were kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The regular expression (or `whole`) that step ranges had to match.
    pub step_pattern: String,
    /// Why this pattern.
    pub step_pattern_source: StepSource,
    /// What a step's window is.
    pub window: WindowKind,
    /// Step ranges dropped at the front of each rank.
    pub skip: usize,
    /// Ranks that were asked for, if not all.
    pub ranks: Option<Vec<u32>>,
    /// Steps that were asked for, by their index in a report of all, if not all.
    #[serde(default)]
    pub steps: Option<Vec<u32>>,
    /// True if an outlying first step stays in the summaries.
    pub keep_first: bool,
    /// True if no other outlying step counts in the summaries.
    #[serde(default)]
    pub exclude_outliers: bool,
    /// Additional pattern for communication kernels.
    pub comm_regex: Option<String>,
    /// Print what changes would gain.
    #[serde(default)]
    pub what_if: bool,
    /// What the time of steps is told apart by in print; JSON has all of it.
    #[serde(default)]
    pub by: Option<By>,
}

/// One rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankReport {
    /// Rank number.
    pub rank: u32,
    /// Where the rank number came from.
    pub rank_source: RankSource,
    /// File name without its folder.
    pub report: String,
    /// Operating-system process id.
    pub pid: u32,
    /// CUDA ordinal inside the process.
    pub device: u32,
    /// GPU model.
    pub gpu: Option<String>,
    /// The GPU's own number (UUID), the same in every report; `None` if the report does not say which GPU it is.
    pub gpu_uuid: Option<String>,
    /// Index of the GPU on its machine; `None` if the report does not say.
    pub gpu_index: Option<u32>,
    /// Host name.
    pub hostname: Option<String>,
    /// Where this rank's clock stands.
    pub clock: Clock,
    /// Total time in matched collectives that this rank waited for others, per step: median over steps, ns.
    pub wait_ns_per_step: Option<i64>,
    /// Matched collectives at which this rank arrived last.
    pub last_count: Option<u64>,
    /// Matched collectives at which this rank arrived first.
    pub first_count: Option<u64>,
    /// Matched collectives whose order of arrival is known.
    pub ordered_count: Option<u64>,
    /// Its steps.
    pub steps: Vec<RankStep>,
    /// Median, mean, min, max over the steps that count.
    pub summary: Summary,
}

/// The clock of one rank and how well it is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// Unix time of the report's time 0, ns; `None` if the capture does not say.
    pub epoch_ns: Option<i64>,
    /// Correction from the ends of matched collectives, ns to add; `None` if there were none.
    pub offset_ns: Option<i64>,
    /// Median of what remains after it, ns.
    pub residual_p50_ns: Option<i64>,
    /// 95th percentile of what remains, ns.
    pub residual_p95_ns: Option<i64>,
    /// Shape of the correction where one offset does not do: `linear` or `piecewise`, with its numbers.
    pub drift: Option<String>,
    /// Collectives that the correction rests on.
    pub collectives: u64,
}

/// The run in a few numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// Ranks in the report.
    pub ranks: usize,
    /// Ranks that the run has according to its environment; `None` if unknown.
    pub world_size: Option<u32>,
    /// Steps of the run.
    pub steps: usize,
    /// Steps in the medians.
    pub counted_steps: usize,
    /// Share of the ranks' GPU operation time (sums of durations) inside step windows, 0 to 1; `None` where nothing ran.
    pub coverage: Option<f64>,
    /// Median, mean, min, max over the steps that count.
    #[serde(flatten)]
    pub values: Summary,
}

#[cfg(test)]
#[path = "../../tests/it/fixture/by_hand.rs"]
#[allow(unreachable_pub, reason = "a file of the tests from outside, too")]
pub(crate) mod by_hand;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::catalogue::Id;
    use crate::compare::fixtures;
    use crate::merge::view::DeltaUs;
    use crate::render::{self, Format, Style};

    /// A real run of two ranks, with every optional part.
    #[test]
    fn a_report_is_read_back_as_it_was_written() {
        let mut report = fixtures::with_collectives(
            fixtures::run("shm/shm-2gpu"),
            &[("AllReduce", 1, 1_226_141_600)],
        );
        report.collectives[0].wait_ns = BTreeMap::from([(0, 5), (10, -3)]);
        report.waits = vec![StepWait { step: 1, rank: 1, wait_ns: 7, ..StepWait::default() }];
        report.inspector = Some(InspectorMerge {
            duration_delta_us: Some(DeltaUs { p50: 0.1 + 0.2, p95: 2.0, max: 1e-9 }),
            ..InspectorMerge::default()
        });
        report.warnings = vec![Warning::new(Id::Overrun, "message \u{202e} \u{1b}[31m")];
        report.findings =
            vec![Finding::new(Id::Straggler, "late").with("rank", 3).costs(0.25, 100.0)];
        let json = |report: &Report| {
            render::print(report, Format::Json, &Style { width: 80, color: false, full: true })
        };
        let text = json(&report);
        let back: Report = serde_json::from_str(&text).expect("is read back");
        assert_eq!(back, report);
        assert_eq!(json(&back), text);
    }
}
