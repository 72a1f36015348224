//! The view model of `report`: every number final, none formatted. `--format json` prints it as it stands
//! (schema `nsysnccl.report/1`); every other format reads the same structure.

pub mod dependency;
pub mod gpus;
pub mod transport;
pub(crate) mod values;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::model::metric::{Summary, Values};
use crate::model::{Ns, Span};
use crate::warning::{Finding, Warning};

/// Name and version of the JSON document.
pub const SCHEMA: &str = "nsysnccl.report/1";

/// One finished report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Version of this program.
    pub tool_version: &'static str,
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
    /// Kernels by total time.
    pub kernels: Kernels,
    /// Matched collectives by operation, communicator and size; `None` if they were not matched.
    pub collectives: Vec<CollectiveGroup>,
    /// How far matched collectives of each step wait: one row for each step and rank.
    pub waits: Vec<StepWait>,
    /// What the Inspector logs add; `None` if none were given.
    pub inspector: Option<InspectorMerge>,
    /// How the ranks reach each other; `None` if neither NCCL logs nor a topology were given.
    pub transport: Option<transport::Transport>,
    /// Explanations with evidence, the most important first.
    pub findings: Vec<Finding>,
    /// What the reader has to know about the numbers.
    pub warnings: Vec<Warning>,
    /// One median step as it ran on each rank, for pictures; not in JSON.
    #[serde(skip)]
    pub strips: Vec<Strip>,
}

/// How steps were found and which were kept.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Settings {
    /// The regular expression (or `whole`) that step ranges had to match.
    pub step_pattern: String,
    /// Why this pattern: `default`, `--step`, `--step-kernel`, `repeated range`, `no NVTX`.
    pub step_pattern_source: String,
    /// `gpu`: windows where the work ran; `cpu`: the NVTX ranges.
    pub window: String,
    /// Step ranges dropped at the front of each rank.
    pub skip: usize,
    /// Ranks that were asked for, if not all.
    pub ranks: Option<Vec<u32>>,
    /// True if an outlying first step stays in the summaries.
    pub keep_first: bool,
    /// Additional pattern for communication kernels.
    pub comm_regex: Option<String>,
}

/// One input file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Input {
    /// Path as given.
    pub path: String,
    /// Version of Nsight Systems that exported it.
    pub nsys_version: Option<String>,
    /// Version of the export's schema.
    pub schema_version: Option<String>,
    /// What was captured and how.
    pub capture: Capture,
    /// Size of the file in bytes.
    pub size_bytes: u64,
}

/// Capture settings that matter for the numbers. Of the captured environment only NCCL and CUDA settings are kept.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Capture {
    /// `Graph` or `Node`: whether CUDA graphs are one row or their kernels.
    pub cuda_graph_mode: Option<String>,
    /// NCCL and CUDA variables of the captured environment, by name.
    pub settings: BTreeMap<String, String>,
    /// Rows read, by kind: `kernels`, `copies`, `memsets`, `graphs`, `api_calls`, `ranges`.
    pub rows: BTreeMap<String, u64>,
    /// True if NCCL ranges carry payloads (communicator id and bytes).
    pub nccl_payloads: bool,
}

/// One rank.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RankReport {
    /// Rank number.
    pub rank: u32,
    /// Where the rank number came from.
    pub rank_source: String,
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
#[derive(Debug, Clone, PartialEq, Serialize)]
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

/// One step of one rank.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RankStep {
    /// Position among the rank's steps, from 0.
    pub index: usize,
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
#[derive(Debug, Clone, PartialEq, Serialize)]
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

/// The run in a few numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunSummary {
    /// Ranks in the report.
    pub ranks: usize,
    /// Ranks that the run has according to its environment; `None` if unknown.
    pub world_size: Option<u32>,
    /// Steps of the run.
    pub steps: usize,
    /// Steps in the medians.
    pub counted_steps: usize,
    /// Median, mean, min, max over the steps that count.
    #[serde(flatten)]
    pub values: Summary,
}

/// Kernels by total time over all ranks and whole windows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Kernels {
    /// All communication kernels.
    pub comm: Vec<Kernel>,
    /// The compute kernels with most time.
    pub compute: Vec<Kernel>,
    /// Compute kernels by name that are not listed.
    pub compute_omitted: usize,
    /// Calls and total time (ns) of every compute kernel by name, to set runs against each other; not in JSON.
    #[serde(skip)]
    pub all_compute: BTreeMap<String, (u64, i64)>,
}

/// One kernel by name, over all ranks, within step windows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Kernel {
    /// Short name.
    pub name: String,
    /// `comm:<family>` or `compute`.
    pub class: String,
    /// Calls that start in a step window.
    pub count: u64,
    /// Sum of their durations, ns.
    pub total_ns: i64,
    /// Median duration, ns.
    pub median_ns: i64,
}

/// Matched calls of one operation, communicator and size.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CollectiveGroup {
    /// `AllReduce`, ...
    pub op: String,
    /// Communicator id as `0x` + 16 hex digits.
    pub comm_id: Option<String>,
    /// Ranks that took part.
    pub ranks: Vec<u32>,
    /// Of sends that go one way only: the rank that sends.
    pub from_rank: Option<u32>,
    /// Ranks of the communicator; `None` if nothing says how many.
    pub n_ranks: Option<u32>,
    /// Payload bytes as logged.
    pub bytes: Option<u64>,
    /// Calls that were matched over all ranks.
    pub count: u64,
    /// Transfer time, median over calls, ns.
    pub transfer_ns: Option<i64>,
    /// 95th percentile of the transfer time, ns.
    pub transfer_p95_ns: Option<i64>,
    /// Waiting time by rank, median over calls, ns.
    pub wait_ns: BTreeMap<u32, i64>,
    /// S / transfer, decimal GB/s, median over calls.
    pub algbw_gbs: Option<f64>,
    /// algbw times the operation's factor, decimal GB/s, median over calls.
    pub busbw_gbs: Option<f64>,
    /// Why there is no bandwidth, if there is none.
    pub no_bandwidth: Option<String>,
    /// Where the bytes came from: `payload`, `inspector`.
    pub bytes_source: Option<String>,
    /// busbw as a share of the link's one-direction peak.
    pub peak_share: Option<f64>,
    /// That peak and where its figure comes from.
    pub peak_source: Option<String>,
    /// Calls whose transfer time cannot be told.
    pub untimed: u64,
    /// Those calls by reason.
    pub untimed_reasons: BTreeMap<String, u64>,
    /// Latest minus earliest arrival on aligned clocks, median over calls, ns.
    pub arrival_spread_ns: Option<i64>,
    /// Latest minus earliest departure on aligned clocks of ranks that should leave together, 95th percentile over calls, ns.
    pub leave_spread_p95_ns: Option<i64>,
    /// Calls at which each rank arrived last.
    pub last_arriver: BTreeMap<u32, u64>,
    /// Calls of which waits are known and at which ranks arrive closer than clocks and departures can tell apart: no order.
    pub unordered: u64,
    /// How the calls were matched.
    pub matched_by: String,
}

/// How long one rank waited in the collectives of one step.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StepWait {
    /// Index of the run's step.
    pub step: usize,
    /// Rank.
    pub rank: u32,
    /// Time in which it waited in a matched collective of the step, or in several at once (own duration minus transfer; of those that
    /// ranks do not leave together the time from its arrival to the last one), ns.
    pub wait_ns: i64,
    /// The part of it without a compute kernel beside it, ns.
    pub exposed_wait_ns: i64,
    /// What this rank's lateness cost: the longest, over the other ranks, of their exposed waits in those collectives of the
    /// step at which this rank arrived last, ns.
    pub waited_for_ns: i64,
    /// Collectives of the step at which this rank arrived last.
    pub last_count: u64,
}

/// What Inspector logs add to the trace.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct InspectorMerge {
    /// Log files read.
    pub files: usize,
    /// Records in them.
    pub records: u64,
    /// Formats found.
    pub formats: Vec<String>,
    /// Lines that could not be used.
    pub bad_lines: u64,
    /// Records of the traced processes that stood in the logs before and were left out.
    pub repeated_records: u64,
    /// Records of the traced processes whose operation has no known name (`Invalid`).
    pub unnamed_records: u64,
    /// Records of the traced processes that Inspector says it dropped (`dump_stats`), in the whole run.
    pub dropped: u64,
    /// Ranks of the report without a log.
    pub missing_ranks: Vec<u32>,
    /// Coverage by rank.
    pub ranks: Vec<InspectorRank>,
    /// Kernel and record side by side.
    pub pairs: Vec<InspectorPair>,
    /// Difference of durations over all pairs, microseconds.
    pub duration_delta_us: Option<DeltaUs>,
    /// The part of the logged time that was captured; `None` if nothing was paired.
    pub window: Option<LoggedWindow>,
    /// The numbers that were captured, by communicator and collective.
    pub captured: Vec<Captured>,
    /// Whether the logged times are those of the kernels, by communicator.
    pub trust: Vec<CommTrust>,
    /// The captured operations beside the rest of the run, by communicator, operation and size.
    pub typical: Vec<Typical>,
    /// How evenly channels work, if the logs are verbose.
    pub channel_imbalance: Option<ChannelImbalance>,
    /// Kernels that were not paired, by reason: one for each.
    pub unmatched: BTreeMap<String, u64>,
    /// Records inside the capture that were not paired, by reason: one for each.
    pub unmatched_records: BTreeMap<String, u64>,
}

/// The captured part of the logged time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LoggedWindow {
    /// From the first to the last writing of the traced processes, microseconds.
    pub logged_us: f64,
    /// Where the capture begins, as a share of it.
    pub from_share: f64,
    /// Where it ends.
    pub to_share: f64,
}

/// The captured numbers of one collective of one communicator, and all that the logs have.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Captured {
    pub comm_id: String,
    pub op: String,
    pub first_sn: u64,
    pub last_sn: u64,
    pub first_logged_sn: u64,
    pub last_logged_sn: u64,
}

/// How far the times that Inspector logged for a communicator are those of its kernels.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CommTrust {
    /// Communicator id as logged.
    pub comm_id: String,
    /// Pairs with a time.
    pub pairs: u64,
    /// Pairs that differ by more than 10 us and 5 %.
    pub disagreeing: u64,
    /// Those of them whose time is not by the GPU's timer.
    pub disagreeing_by_host: u64,
    /// Differences, microseconds.
    pub duration_delta_us: Option<DeltaUs>,
    /// False if more than a tenth differ: its bandwidths are not given then.
    pub trusted: bool,
}

/// Captured operations of one communicator, operation and size beside the others of the run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Typical {
    pub comm_id: String,
    pub op: String,
    pub bytes: u64,
    /// Ranks whose records are compared; with fewer than all, waiting for the others is part of the times.
    pub ranks_logged: u32,
    /// Ranks of the communicator.
    pub n_ranks: u32,
    /// Operations from the first to the last captured one.
    pub captured: u64,
    /// busbw of the shortest time over ranks, median, decimal GB/s.
    pub captured_busbw_gbs: Option<f64>,
    /// Longest minus shortest time over ranks, median, microseconds.
    pub captured_wait_us: Option<f64>,
    /// Operations before and after them.
    pub rest: u64,
    pub rest_busbw_gbs: Option<f64>,
    pub rest_busbw_p5_gbs: Option<f64>,
    pub rest_busbw_p95_gbs: Option<f64>,
    pub rest_wait_us: Option<f64>,
    /// Of the captured operations: `typical`, `faster` or `slower`. They differ if their median bandwidth lies further from that of the rest than
    /// 5 % and two scaled median absolute deviations of it.
    pub verdict: Option<String>,
    /// Of their waits: `typical`, `longer` or `shorter`, in the same way; the 5 % are of the operation with its wait.
    pub wait_verdict: Option<String>,
    /// Why there is no verdict.
    pub reason: Option<String>,
}

/// How evenly the channels of operations work: the longest channel over the mean, from host clocks of verbose records.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct ChannelImbalance {
    pub operations: u64,
    pub channels: u64,
    pub max_over_mean_p50: f64,
    pub max_over_mean_p95: f64,
}

/// Coverage of one rank by Inspector.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct InspectorRank {
    pub rank: u32,
    /// Communication kernels of the whole capture, inside step windows or not.
    pub kernels: u64,
    /// Kernels with at least one record.
    pub paired: u64,
    /// Records of this rank in the whole log.
    pub records: u64,
    /// Records inside the capture: of each communicator and operation from the first to the last paired number; where nothing is paired,
    /// those that can only have run while the trace did.
    pub records_in_capture: u64,
    /// Kernels without a record.
    pub unmatched_kernels: u64,
    /// Records inside the capture without a kernel.
    pub unmatched_records: u64,
    /// How far the log's clock is ahead of the trace's, microseconds, if they do not agree.
    pub clock_shift_us: Option<f64>,
}

/// One kernel and its record.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct InspectorPair {
    pub rank: u32,
    pub start_ns: Ns,
    pub op: String,
    pub comm_id: String,
    pub sn: Option<u64>,
    pub bytes: Option<u64>,
    pub kernel_ns: i64,
    pub exec_time_us: Option<f64>,
    pub timing_source: Option<String>,
    pub busbw_gbs: Option<f64>,
}

/// Absolute difference of durations, microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct DeltaUs {
    pub p50: f64,
    pub p95: f64,
    pub max: f64,
}

/// One step of one rank as it ran, for pictures. Spans are relative to the window's start, merged, sorted.
#[derive(Debug, Clone, PartialEq)]
pub struct Strip {
    /// Rank.
    pub rank: u32,
    /// Text of the step range.
    pub step: String,
    /// Length of the window.
    pub step_ns: Ns,
    /// Compute kernels.
    pub compute: Vec<Span>,
    /// Communication.
    pub comm: Vec<Span>,
    /// Copies and memsets.
    pub copies: Vec<Span>,
    /// Graphs of unknown class.
    pub unclassified: Vec<Span>,
}

#[cfg(test)]
pub(crate) mod tests_support {
    use super::*;

    /// A rank of which only the number and the steps matter.
    pub(crate) fn rank(rank: u32, steps: Vec<RankStep>) -> RankReport {
        RankReport {
            rank,
            rank_source: "test".into(),
            report: format!("r_{rank}.sqlite"),
            pid: rank,
            device: 0,
            gpu: None,
            gpu_uuid: None,
            hostname: None,
            clock: Clock {
                epoch_ns: None,
                offset_ns: None,
                residual_p50_ns: None,
                residual_p95_ns: None,
                drift: None,
                collectives: 0,
            },
            wait_ns_per_step: None,
            last_count: None,
            first_count: None,
            ordered_count: None,
            steps,
            summary: Summary::from_fn(|_| None),
        }
    }
}
