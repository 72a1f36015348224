//! The view model of `inspect`: every number final, none formatted. `--format json` prints it as it stands.

use std::collections::BTreeMap;

use serde::Serialize;

use super::settings::Settings;
use crate::catalogue::Finding;
use crate::model::CommOp;
use crate::model::record::{LogFile, PrometheusRow};
use crate::warning::Warning;

/// Name and version of the JSON document.
pub const SCHEMA: &str = "nsysnccl.inspect/1";

/// What Inspector logs say by themselves.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Inspection {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Version of this program.
    pub tool_version: &'static str,
    /// What was asked for.
    pub settings: Settings,
    /// The files that were read.
    pub files: Vec<LogFile>,
    /// Records that were understood, of every kind.
    pub records: u64,
    /// Operations among them that the numbers rest on: not filtered out, not in a file that repeats another.
    pub operations: u64,
    /// Operations that `--since`, `--until`, `--comm` and `--op` leave out.
    pub filtered_operations: u64,
    /// Formats found in the files.
    pub formats: Vec<String>,
    /// When the first record was written, Unix microseconds.
    pub first_us: Option<i64>,
    /// When the last record was written, Unix microseconds.
    pub last_us: Option<i64>,
    /// Figures that need an operation's records of all ranks (transfer, wait, timeline) rest on one operation in this many.
    pub compared_one_in: u64,
    /// Communicators, those with most time in operations first.
    pub communicators: Vec<Communicator>,
    /// Processes in order of host and pid.
    pub processes: Vec<Process>,
    /// Speed over the run, all communicators together; empty where nothing can be compared.
    pub timeline: Timeline,
    /// Samples of Inspector's Prometheus mode, as they are.
    pub prometheus: Vec<PrometheusRow>,
    /// The same communicators and sizes of another job; `None` without `--against`.
    pub against: Option<Against>,
    /// Explanations with evidence, the most important first.
    pub findings: Vec<Finding>,
    /// What the reader has to know about the numbers.
    pub warnings: Vec<Warning>,
}

/// One communicator.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Communicator {
    /// Hash as logged: `0x` and at most 14 hex digits.
    pub comm_id: String,
    /// Its name; `None` if the logs do not say.
    pub name: Option<String>,
    /// Ranks in it.
    pub n_ranks: u32,
    /// Nodes as NCCL counts them.
    pub nnodes: Option<u32>,
    /// `single-rank`, `nvlink-only`, `hca-only`, `mixed`: see [`crate::model::record::comm_class`].
    pub class: String,
    /// Ranks with records.
    pub ranks_seen: Vec<u32>,
    /// Ranks without any, the first 1,024 of them.
    pub ranks_missing: Vec<u32>,
    /// How many ranks have none.
    pub ranks_missing_count: u32,
    /// Hosts that wrote records.
    pub hosts: Vec<String>,
    /// Operations logged, over all ranks.
    pub operations: u64,
    /// Sum of execution times over all ranks, microseconds.
    pub total_time_us: f64,
    /// Sequence numbers of collectives that are missing between those seen, over all ranks.
    pub missing_operations: u64,
    /// Records that Inspector says it dropped (`dump_stats`), over all ranks; `None` where the logs have no such counter.
    pub dropped: Option<u64>,
    /// Its ranks.
    pub ranks: Vec<CommRank>,
    /// By operation and size, those with most time first.
    pub ops: Vec<Op>,
    /// Speed over the run.
    pub timeline: Timeline,
}

/// One rank of one communicator.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CommRank {
    /// Rank in the communicator.
    pub rank: u32,
    /// Its host.
    pub hostname: String,
    /// Its process; `None` if the logs do not say.
    pub pid: Option<u32>,
    /// Operations logged.
    pub operations: u64,
    /// Sequence numbers of collectives that are missing between those seen.
    pub missing_operations: u64,
    /// How it waits.
    #[serde(flatten)]
    pub waits: Waits,
}

/// How a rank or process waits for others: own time minus the shortest time of any rank, over operations that all ranks of the
/// communicator logged and that all ranks leave together (AllReduce, AllGather, ReduceScatter, AllToAll).
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Waits {
    /// Operations that could be compared.
    pub compared: u64,
    /// Of those, the ones with a clear order of arrival: some rank waited more than 10 us and 5 % of the longest time.
    pub ordered_count: u64,
    /// Of those, the ones in which this rank waited least: it arrived last.
    pub last_count: u64,
    /// How many it would be if every rank arrived last equally often; `None` without a comparison.
    pub last_expected: Option<f64>,
    /// Sum of its times in the compared operations, microseconds; `None` without a comparison.
    pub compared_time_us: Option<f64>,
    /// Sum of its waits, microseconds; `None` without a comparison.
    pub wait_total_us: Option<f64>,
    /// Its waits, microseconds.
    pub wait_us: Option<Tail>,
}

/// An operation as a log names it, if the name is known. Documents have its label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(into = "String")]
pub struct Named(pub Option<CommOp>);

impl Named {
    /// `AllReduce`, ...; `Invalid` for a name that is unknown.
    pub fn label(self) -> &'static str {
        self.0.map_or("Invalid", CommOp::label)
    }
}

/// By its label.
impl Ord for Named {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.label().cmp(other.label())
    }
}

impl PartialOrd for Named {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl From<Named> for String {
    fn from(named: Named) -> Self {
        named.label().to_owned()
    }
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.label())
    }
}

/// Operations of one kind and size on one communicator.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Op {
    /// `AllReduce`, ...; `Invalid` for names that are unknown.
    pub op: Named,
    /// Message size in bytes as logged (corrected): of one rank for AllGather and ReduceScatter.
    /// `None` if the log gives none, or if there are so many sizes that they are counted in ranges.
    pub bytes: Option<u64>,
    /// The range `[from, to)` where sizes are counted in ranges.
    pub bytes_range: Option<[u64; 2]>,
    /// Records over all ranks.
    pub count: u64,
    /// Sum of their execution times, microseconds.
    pub total_time_us: f64,
    /// Execution time on one rank, waiting included, microseconds; `None` if none was logged.
    pub exec_time_us: Option<Tail>,
    /// S / t recomputed from size and time, decimal GB/s; `None` for unknown operations.
    pub algbw_gbs: Option<Band>,
    /// algbw times the operation's factor, decimal GB/s.
    pub busbw_gbs: Option<Band>,
    /// Mean of the bus bandwidths that the log gives, decimal GB/s; without those of corrected sizes, whose logged value is absurd.
    pub logged_busbw_gbs_mean: Option<f64>,
    /// How the times were measured, with counts.
    pub timing_sources: BTreeMap<String, u64>,
    /// Records without a time (0 in the log); not in the figures.
    pub without_time: u64,
    /// Records whose size was 2^64 - n and is n here.
    pub sizes_corrected: u64,
    /// Algorithms and protocols (since v4.2), with counts.
    pub algorithms: Vec<Algorithm>,
    /// Operations that all ranks logged, behind `transfer_us` and `wait_us`.
    pub compared: u64,
    /// Shortest time of any rank, the best estimate of the transfer alone, microseconds.
    pub transfer_us: Option<Tail>,
    /// Bus bandwidth of the transfer alone, decimal GB/s.
    pub transfer_busbw_gbs: Option<Band>,
    /// Own time minus the shortest of any rank, over all ranks, microseconds.
    pub wait_us: Option<Tail>,
    /// Each rank by itself.
    pub ranks: Vec<OpRank>,
}

/// Operations of one kind and size on one rank.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OpRank {
    /// Rank in the communicator.
    pub rank: u32,
    /// Its records.
    pub count: u64,
    /// Median execution time, microseconds.
    pub exec_time_us: Option<f64>,
    /// Bus bandwidth, decimal GB/s.
    pub busbw_gbs: Option<Box5>,
}

/// An algorithm and protocol and how often they ran.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[allow(missing_docs)]
pub struct Algorithm {
    pub algo: Option<String>,
    pub proto: Option<String>,
    pub count: u64,
}

/// Middle and upper end of times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Tail {
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
}

/// Middle and both ends of bandwidths.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Band {
    pub median: f64,
    pub p5: f64,
    pub p95: f64,
}

/// What a box plot draws.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Box5 {
    pub p5: f64,
    pub p25: f64,
    pub median: f64,
    pub p75: f64,
    pub p95: f64,
}

/// One process over all its communicators.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Process {
    /// Its host.
    pub hostname: String,
    /// Its pid; `None` if the logs do not say.
    pub pid: Option<u32>,
    /// Its rank in its largest communicator, the world of the job if that one was logged.
    pub rank: u32,
    /// Communicators that it has records of.
    pub communicators: usize,
    /// Operations logged.
    pub operations: u64,
    /// How it waits.
    #[serde(flatten)]
    pub waits: Waits,
}

/// How fast operations were over the run, in bins of the time at which their records were written.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Timeline {
    /// Length of a bin, microseconds.
    pub bin_us: i64,
    /// Bins with operations.
    pub bins: Vec<Bin>,
}

/// One bin of a [`Timeline`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bin {
    /// Its start, Unix microseconds.
    pub start_us: i64,
    /// Operations in it.
    pub operations: u64,
    /// Their time, microseconds: the shortest of the ranks that logged each.
    pub time_us: f64,
    /// The time that they would have taken at the median of their kind and size over the run, divided by the time that they took:
    /// 1 is usual, 0.5 is half as fast.
    pub relative_speed: f64,
    /// Bytes on the bus per time in operations, decimal GB/s.
    pub busbw_gbs: Option<f64>,
}

/// Another job beside this one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Against {
    /// Log files of the other job.
    pub files: usize,
    /// Operations in them.
    pub operations: u64,
    /// What both jobs have, the largest share of time lost first.
    pub rows: Vec<AgainstRow>,
    /// What only this job has.
    pub only_here: Vec<String>,
    /// What only the other job has.
    pub only_there: Vec<String>,
}

/// One operation and size on communicators that mean the same in both jobs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AgainstRow {
    /// What tells the communicator: its name, its size, and who is in it.
    pub communicator: String,
    /// `single-rank`, `nvlink-only`, `hca-only`, `mixed`.
    pub class: String,
    /// Ids of the communicators here that are taken together.
    pub comm_ids: Vec<String>,
    /// Ids of the communicators there.
    pub against_comm_ids: Vec<String>,
    /// Operation.
    pub op: Named,
    /// Message size in bytes; `None` if unknown or in ranges.
    pub bytes: Option<u64>,
    /// The range `[from, to)` where sizes are counted in ranges.
    pub bytes_range: Option<[u64; 2]>,
    /// `transfer`: shortest time of any rank; `own`: time of each rank, waiting included, where not all ranks were logged.
    pub basis: String,
    /// This job.
    pub here: Side,
    /// The other job.
    pub there: Side,
    /// Median time here / there - 1: positive is slower.
    pub change: Option<f64>,
    /// Whether that is more than the spread within the jobs.
    pub verdict: Verdict,
}

/// The numbers of one job.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Side {
    /// Values behind the figures: operations for `transfer`, records for `own`.
    pub count: u64,
    /// Median time, microseconds.
    pub time_us: Option<f64>,
    /// Median bus bandwidth, decimal GB/s.
    pub busbw_gbs: Option<f64>,
    /// 5th percentile of the bus bandwidth.
    pub busbw_p5_gbs: Option<f64>,
    /// 95th percentile of the bus bandwidth.
    pub busbw_p95_gbs: Option<f64>,
    /// Median wait of a rank for others, microseconds; `None` where fewer than five operations were logged by all ranks.
    pub wait_us: Option<f64>,
}

/// What a change means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The median bandwidth is more than 5 % lower, and each job's median lies outside the other's 5th to 95th percentile.
    Slower,
    /// The same the other way round.
    Faster,
    /// The medians differ by less than 5 %.
    Same,
    /// The medians differ by more, but within the spread of a job.
    WithinSpread,
    /// Fewer than 5 values on a side.
    TooFew,
    /// A side has no bandwidth.
    Unknown,
}

impl Verdict {
    /// The word in JSON and tables.
    pub fn label(self) -> &'static str {
        match self {
            Verdict::Slower => "slower",
            Verdict::Faster => "faster",
            Verdict::Same => "same",
            Verdict::WithinSpread => "within-spread",
            Verdict::TooFew => "too-few",
            Verdict::Unknown => "unknown",
        }
    }
}
