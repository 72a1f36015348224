//! What the records of Inspector add to a trace, final.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::{CommOp, Ns};

/// What Inspector logs add to the trace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LoggedWindow {
    /// From the first to the last writing of the traced processes, microseconds.
    pub logged_us: f64,
    /// Where the capture begins, as a share of it.
    pub from_share: f64,
    /// Where it ends.
    pub to_share: f64,
}

/// The captured numbers of one collective of one communicator, and all that the logs have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Captured {
    pub comm_id: String,
    pub op: CommOp,
    pub first_sn: u64,
    pub last_sn: u64,
    pub first_logged_sn: u64,
    pub last_logged_sn: u64,
}

/// How far the times that Inspector logged for a communicator are those of its kernels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Typical {
    pub comm_id: String,
    pub op: CommOp,
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
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct ChannelImbalance {
    pub operations: u64,
    pub channels: u64,
    pub max_over_mean_p50: f64,
    pub max_over_mean_p95: f64,
}

/// Coverage of one rank by Inspector.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct InspectorPair {
    pub rank: u32,
    pub start_ns: Ns,
    pub op: CommOp,
    pub comm_id: String,
    pub sn: Option<u64>,
    pub bytes: Option<u64>,
    pub kernel_ns: i64,
    pub exec_time_us: Option<f64>,
    pub timing_source: Option<String>,
    pub busbw_gbs: Option<f64>,
}

/// Absolute difference of durations, microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct DeltaUs {
    pub p50: f64,
    pub p95: f64,
    pub max: f64,
}
