//! What NCCL Inspector writes, free of files and JSON: who logged, and one operation.

use std::collections::BTreeMap;

use serde::Serialize;

use super::CommOp;

/// Who wrote a record: one rank of one communicator in one process.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// Communicator hash as logged: `0x` and at most 14 hex digits (the plugin cuts the last two of 16).
    pub comm_id: String,
    /// Name of the communicator (since 2.30); `None` if absent or `unknown`.
    pub comm_name: Option<String>,
    /// Rank in this communicator, not in the job.
    pub rank: u32,
    /// Ranks of the communicator.
    pub n_ranks: u32,
    /// Nodes of the communicator as NCCL counts them.
    pub nnodes: Option<u32>,
    /// Host that wrote the log.
    pub hostname: String,
    /// Operating-system process id; `None` if the log does not say.
    pub pid: Option<u32>,
}

/// How Inspector measured a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Timing {
    /// Timer of the GPU, stamped by the kernel: the only one that is exact.
    KernelGpu,
    /// Host clock between the callbacks of the kernel's channels.
    KernelCpu,
    /// Host clock between the first start and the last stop callback.
    CollectiveCpu,
    /// Timer of the GPU in the AMD port.
    GpuGlobaltimer,
    /// Host clock in the AMD port.
    CpuWallclock,
    /// A source of another name.
    Other,
    /// The record does not say.
    Absent,
}

impl Timing {
    /// All sources in order of trust.
    pub const ALL: [Timing; 7] = [
        Timing::KernelGpu,
        Timing::KernelCpu,
        Timing::CollectiveCpu,
        Timing::GpuGlobaltimer,
        Timing::CpuWallclock,
        Timing::Other,
        Timing::Absent,
    ];

    /// The name in logs and in this program's output.
    pub fn label(self) -> &'static str {
        match self {
            Timing::KernelGpu => "kernel_gpu",
            Timing::KernelCpu => "kernel_cpu",
            Timing::CollectiveCpu => "collective_cpu",
            Timing::GpuGlobaltimer => "gpu_globaltimer",
            Timing::CpuWallclock => "cpu_wallclock",
            Timing::Other => "other",
            Timing::Absent => "absent",
        }
    }

    /// The source of this name.
    pub fn parse(name: &str) -> Timing {
        Timing::ALL.into_iter().take(5).find(|t| t.label() == name).unwrap_or(Timing::Other)
    }
}

/// The stamps of one channel in a verbose record: host clock, Unix microseconds; `None` where the log says 0 (not seen).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ChannelStamps {
    pub channel: u32,
    pub start_us: Option<i64>,
    pub stop_us: Option<i64>,
}

/// The stamps of one operation in a verbose record: host clock, Unix microseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stamps {
    /// When the host enqueued the operation.
    pub start_us: Option<i64>,
    /// When the host had enqueued it.
    pub stop_us: Option<i64>,
    /// When the proxy thread noticed that each channel started and stopped.
    pub channels: Vec<ChannelStamps>,
}

/// One operation of one rank as logged, with the known faults of the logs corrected.
#[derive(Debug, Clone, PartialEq)]
pub struct Record<'a> {
    /// Index of its [`Origin`] in the file, announced to the sink before.
    pub origin: usize,
    /// What ran; `None` for names that the plugin or this program does not know (`Invalid`).
    pub op: Option<CommOp>,
    /// True for a point-to-point record: its sequence number counts sends and receives together and differs between peers.
    pub p2p: bool,
    /// `coll_sn`, counted per communicator and operation and equal on all ranks, or `p2p_sn`.
    pub sn: Option<u64>,
    /// Peer of a send or receive, as rank in the communicator.
    pub peer: Option<u32>,
    /// Message size in bytes: of one rank for AllGather and ReduceScatter, else the whole buffer.
    pub bytes: Option<u64>,
    /// True if the logged size was 2^64 - n and has been turned back into n.
    pub size_corrected: bool,
    /// Time from first start to last stop on this rank in microseconds, waiting for late peers included;
    /// `None` where the log says 0 or nothing.
    pub exec_us: Option<f64>,
    /// How it was measured.
    pub timing: Timing,
    /// `coll_algobw_gbs` as logged, decimal GB/s.
    pub logged_algbw: Option<f64>,
    /// `coll_busbw_gbs` as logged, decimal GB/s.
    pub logged_busbw: Option<f64>,
    /// When the record was written (not when the operation ended), Unix microseconds.
    pub written_us: Option<i64>,
    /// Algorithm (since v4.2).
    pub algo: Option<&'a str>,
    /// Protocol (since v4.2).
    pub proto: Option<&'a str>,
    /// Stamps of a verbose record.
    pub stamps: Option<Stamps>,
}

impl Record<'_> {
    /// Its algorithm bandwidth on `n_ranks`, decimal GB/s; `None` if operation, size or time is not known.
    pub fn algbw_gbs(&self, n_ranks: u32) -> Option<f64> {
        Some(algbw_gbs(self.op?, self.bytes?, n_ranks, self.exec_us?))
    }

    /// Its bus bandwidth on `n_ranks`, decimal GB/s; `None` if operation, size or time is not known.
    pub fn busbw_gbs(&self, n_ranks: u32) -> Option<f64> {
        Some(busbw_gbs(self.op?, self.bytes?, n_ranks, self.exec_us?))
    }
}

/// Records that Inspector says it lost: totals of one origin so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Drops {
    pub coll: u64,
    pub p2p: u64,
}

/// One line that could not be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BadLine {
    /// Its number, from 1.
    pub line: u64,
    /// Why, as a clause: `is not JSON: ...`.
    pub reason: String,
}

/// What was found in one log file.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LogFile {
    /// Path as given or found.
    pub path: String,
    /// Formats, found by their keys and not by the version that the file names.
    pub formats: Vec<String>,
    /// Format versions that the file names.
    pub versions: Vec<String>,
    /// Lines of text.
    pub lines: u64,
    /// Records that were understood, of every kind.
    pub records: u64,
    /// Operations among them (`coll_perf`, `p2p_perf`).
    pub operations: u64,
    /// Loss counters among them (`dump_stats`).
    pub dump_stats: u64,
    /// Proxy records among them, which are only counted.
    pub proxy_traces: u64,
    /// Samples of Inspector's Prometheus mode among them.
    pub prometheus_samples: u64,
    /// Lines that could not be used.
    pub bad_lines: u64,
    /// The first of them.
    pub bad: Vec<BadLine>,
    /// Names of operations that neither the plugin nor this program knows, with their counts.
    pub unknown_operations: BTreeMap<String, u64>,
    /// Why reading ended before the end of the file, if it did; what stands before counts.
    pub torn: Option<String>,
    /// What its Prometheus samples say, where no other field of a document has them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prometheus: Vec<PrometheusRow>,
}

/// The samples of Inspector's Prometheus mode that share their labels. They are summaries: nothing can be recomputed from them.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PrometheusRow {
    /// Host that wrote them.
    pub hostname: Option<String>,
    /// GPU as labelled.
    pub gpu: Option<String>,
    /// Communicator id (2.29) or name (2.30 on).
    pub comm: Option<String>,
    /// Rank in the communicator (2.29).
    pub rank: Option<u32>,
    /// Ranks of the communicator.
    pub n_ranks: Option<u32>,
    /// Nodes of the communicator.
    pub nnodes: Option<u32>,
    /// Collective or point-to-point operation.
    pub op: Option<String>,
    /// Message size as labelled, in 1024 units: `64.00KB`, or the range `64-65KB`.
    pub message_size: Option<String>,
    /// Algorithm and protocol as labelled.
    pub algo_proto: Option<String>,
    /// Sequence number of the collective (2.29: the last one of its communicator).
    pub sn: Option<u64>,
    /// Execution time, microseconds: of the last collective (2.29), or the mean over an interval (2.30 on).
    pub exec_time_us: Option<f64>,
    /// Algorithm bandwidth, decimal GB/s.
    pub algbw_gbs: Option<f64>,
    /// Bus bandwidth, decimal GB/s: of the last collective (2.29), or the geometric mean over an interval (2.30 on).
    /// `None` where the size is 2^64 - n, which makes it absurd.
    pub busbw_gbs: Option<f64>,
}

/// Receives the records of one log file in the order in which they stand there, so that no file has to be held in memory.
pub trait Sink {
    /// A new origin; its index is the number of origins announced before.
    fn origin(&mut self, origin: &Origin);
    /// An operation.
    fn record(&mut self, record: &Record<'_>);
    /// A `dump_stats` record.
    fn drops(&mut self, origin: usize, drops: Drops);
}

/// The algorithm bandwidth S / t in decimal GB/s of `bytes` as logged, on `n_ranks`, in `exec_us` (positive).
pub(crate) fn algbw_gbs(op: CommOp, bytes: u64, n_ranks: u32, exec_us: f64) -> f64 {
    op.algorithm_bytes(bytes, n_ranks) / exec_us / 1e3
}

/// The bus bandwidth: [`algbw_gbs`] times the operation's factor.
pub(crate) fn busbw_gbs(op: CommOp, bytes: u64, n_ranks: u32, exec_us: f64) -> f64 {
    algbw_gbs(op, bytes, n_ranks, exec_us) * op.bus_factor(n_ranks)
}

/// Where a communicator's traffic runs, guessed from its size and node count alone, as NVIDIA's exporter does, in this order:
/// one rank: `single-rank`; one node: `nvlink-only`; as many nodes as ranks: `hca-only`; else `mixed`.
/// A PCIe box counts as `nvlink-only`, hosts joined by multi-node NVLink as `hca-only` or `mixed`.
pub(crate) fn comm_class(n_ranks: u32, nnodes: Option<u32>) -> &'static str {
    match (n_ranks, nnodes) {
        (1, _) => "single-rank",
        (_, Some(1)) => "nvlink-only",
        (n, Some(nodes)) if n == nodes => "hca-only",
        (_, Some(_)) => "mixed",
        (_, None) => "unknown",
    }
}

/// A communicator id as Inspector prints it: `0x%lx`, cut to 16 characters.
pub(crate) fn logged_id(comm: u64) -> String {
    let mut text = format!("{comm:#x}");
    text.truncate(16);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidths_equal_those_that_the_plugins_readme_prints() {
        // README sample of the plugin: AllReduce of 17179869184 bytes on 8 ranks in 61974 us.
        assert!(
            (algbw_gbs(CommOp::AllReduce, 17_179_869_184, 8, 61_974.0) - 277.210914).abs() < 5e-7
        );
        assert!(
            (busbw_gbs(CommOp::AllReduce, 17_179_869_184, 8, 61_974.0) - 485.119099).abs() < 5e-7
        );
        // AllGather of 2097152 bytes a rank on 8 ranks in 539 us, from a log of 2.28.9.
        assert!((algbw_gbs(CommOp::AllGather, 2_097_152, 8, 539.0) - 31.126560).abs() < 5e-7);
        assert!((busbw_gbs(CommOp::AllGather, 2_097_152, 8, 539.0) - 27.235740).abs() < 5e-7);
    }

    #[test]
    fn classes_are_asked_in_order() {
        assert_eq!(comm_class(1, Some(1)), "single-rank");
        assert_eq!(comm_class(8, Some(1)), "nvlink-only");
        assert_eq!(comm_class(2, Some(2)), "hca-only");
        assert_eq!(comm_class(8, Some(2)), "mixed");
        assert_eq!(comm_class(8, None), "unknown");
    }

    #[test]
    fn timing_sources_are_known_by_name() {
        assert_eq!(Timing::parse("kernel_gpu"), Timing::KernelGpu);
        assert_eq!(Timing::parse("cpu_wallclock"), Timing::CpuWallclock);
        assert_eq!(Timing::parse("absent"), Timing::Other);
    }
}
