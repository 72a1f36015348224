//! One rank as it was captured: its operations, its step candidates and its NCCL calls.

use std::sync::Arc;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::host::Host;
use super::{NameId, Names, Ns, Ops, Texts, UserRanges};

/// Variables in which launchers hand a rank its number, the most trusted first.
pub(crate) const RANK_VARIABLES: [&str; 5] =
    ["RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"];

/// Where a rank number came from, in order of trust. Documents have its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(into = "String")]
pub enum RankSource {
    /// The `MPI_RANKS` table.
    Mpi,
    /// A communicator-init payload of NCCL.
    NcclInit,
    /// An environment variable of the launcher: one of [`RANK_VARIABLES`].
    Environment(&'static str),
    /// The file's name.
    FileName,
    /// The order of (path, pid): nothing else answered.
    Order,
}

impl RankSource {
    /// The text that reports print.
    pub fn label(self) -> String {
        match self {
            RankSource::Mpi => "MPI_RANKS table".to_owned(),
            RankSource::NcclInit => "NCCL communicator init".to_owned(),
            RankSource::Environment(name) => format!("environment {name}"),
            RankSource::FileName => "file name".to_owned(),
            RankSource::Order => "order of files".to_owned(),
        }
    }
}

impl From<RankSource> for String {
    fn from(source: RankSource) -> Self {
        source.label()
    }
}

impl<'de> Deserialize<'de> for RankSource {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let words = String::deserialize(from)?;
        let plain =
            [RankSource::Mpi, RankSource::NcclInit, RankSource::FileName, RankSource::Order];
        let named = RANK_VARIABLES.map(RankSource::Environment);
        plain
            .into_iter()
            .chain(named)
            .find(|source| source.label() == words)
            .ok_or_else(|| D::Error::custom(format!("'{words}' is not a source of rank numbers")))
    }
}

/// Which collective or point-to-point operation an NCCL call is.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[allow(missing_docs)]
pub enum CommOp {
    AllReduce,
    AllGather,
    ReduceScatter,
    Broadcast,
    Reduce,
    AllToAll,
    Gather,
    Scatter,
    Send,
    Recv,
    /// A kernel that carries sends and receives.
    SendRecv,
    /// A communication kernel of no known operation.
    #[default]
    Other,
}

impl std::fmt::Display for CommOp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.label())
    }
}

impl CommOp {
    /// The name that NCCL and this program's output use.
    pub fn label(self) -> &'static str {
        match self {
            CommOp::AllReduce => "AllReduce",
            CommOp::AllGather => "AllGather",
            CommOp::ReduceScatter => "ReduceScatter",
            CommOp::Broadcast => "Broadcast",
            CommOp::Reduce => "Reduce",
            CommOp::AllToAll => "AllToAll",
            CommOp::Gather => "Gather",
            CommOp::Scatter => "Scatter",
            CommOp::Send => "Send",
            CommOp::Recv => "Recv",
            CommOp::SendRecv => "SendRecv",
            CommOp::Other => "Other",
        }
    }

    /// The operation that a name means, in any of the spellings of NCCL, its Inspector and its kernels
    /// (`ncclAllReduce`, `AlltoAll`, `All2All`, `_ALLGATHER`, ...).
    pub fn parse(name: &str) -> Option<CommOp> {
        let key: String = name
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .map(|c| c.to_ascii_lowercase())
            .collect();
        Some(match key.strip_prefix("nccl").unwrap_or(&key) {
            "allreduce" => CommOp::AllReduce,
            "allgather" | "allgatherv" => CommOp::AllGather,
            "reducescatter" => CommOp::ReduceScatter,
            "broadcast" | "bcast" => CommOp::Broadcast,
            "reduce" => CommOp::Reduce,
            "alltoall" | "all2all" | "alltoallv" => CommOp::AllToAll,
            "gather" => CommOp::Gather,
            "scatter" => CommOp::Scatter,
            "send" => CommOp::Send,
            "recv" => CommOp::Recv,
            "sendrecv" => CommOp::SendRecv,
            _ => return None,
        })
    }

    /// True where all ranks leave together, so that the shortest duration is the transfer (docs/metrics.md, section 6).
    pub fn leaves_together(self) -> bool {
        matches!(
            self,
            CommOp::AllReduce | CommOp::AllGather | CommOp::ReduceScatter | CommOp::AllToAll
        )
    }

    /// True where the payload is that of one rank (AllGather, ReduceScatter, Gather, Scatter) or of one peer (AllToAll),
    /// so that the whole array is `n` times as large.
    pub fn payload_is_a_part(self) -> bool {
        matches!(
            self,
            CommOp::AllGather
                | CommOp::ReduceScatter
                | CommOp::AllToAll
                | CommOp::Gather
                | CommOp::Scatter
        )
    }

    /// True where bandwidth depends on how many ranks the communicator has.
    pub fn depends_on_size(self) -> bool {
        self.payload_is_a_part() || self == CommOp::AllReduce
    }

    /// What `payload` bytes per call amount to as the S of algbw = S / t, for `n` ranks: the whole array where
    /// the payload is a part of it.
    pub fn algorithm_bytes(self, payload: u64, n: u32) -> f64 {
        if self.payload_is_a_part() { payload as f64 * f64::from(n) } else { payload as f64 }
    }

    /// busbw = algbw times this factor (nccl-tests, PERFORMANCE.md), for `n` ranks.
    pub fn bus_factor(self, n: u32) -> f64 {
        let n = f64::from(n.max(1));
        match self {
            CommOp::AllReduce => 2.0 * (n - 1.0) / n,
            // nccl-tests counts Gather and Scatter like AllGather: the root keeps its own part.
            _ if self.payload_is_a_part() => (n - 1.0) / n,
            _ => 1.0,
        }
    }
}

/// What an NCCL call does to the calls around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// An operation, or anything that does not group others.
    Plain,
    /// Opens a group: operations until its end are launched together.
    GroupStart,
    /// Closes a group, and launches it if it is the outermost.
    GroupEnd,
    /// A range around the operations that are launched together (`API Group` of advanced tracing).
    Group,
}

/// One NCCL operation as the host called it: an NVTX range of the NCCL domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NcclCall {
    /// Start on the CPU.
    pub start: Ns,
    /// End on the CPU.
    pub end: Ns,
    /// The calling thread.
    pub thread: u64,
    /// Whether it opens or closes a group.
    pub kind: CallKind,
    /// What was called; `None` for group and communicator management calls.
    pub op: Option<CommOp>,
    /// Communicator id (the hash that all its ranks share).
    pub comm: Option<u64>,
    /// Payload bytes as logged: of one rank for AllGather and ReduceScatter, of one peer for AllToAll.
    pub bytes: Option<u64>,
    /// Reduction operation, e.g. `Sum`.
    pub redop: Option<NameId>,
    /// Root rank of a Broadcast or Reduce.
    pub root: Option<i64>,
    /// Peer rank of a Send or Recv.
    pub peer: Option<i64>,
    /// Sequence number (advanced tracing only).
    pub seq: Option<u64>,
    /// Key that is equal on all ranks of one operation (advanced tracing only).
    pub operation: Option<u64>,
}

impl NcclCall {
    /// True for an operation and for a group, which launches the operations in it; false for communicator management.
    pub fn moves_data(&self) -> bool {
        self.op.is_some() || self.kind != CallKind::Plain
    }
}

/// A communicator that a rank is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommInit {
    /// Communicator id.
    pub comm: u64,
    /// Ranks in it.
    pub n_ranks: u32,
    /// This rank's number in it.
    pub rank: u32,
}

/// One rank of the run: the kernels of one device of one process of one report.
#[derive(Debug, Clone)]
pub struct RankTrace {
    /// Rank number in the run.
    pub rank: u32,
    /// Where that number came from.
    pub rank_source: RankSource,
    /// Number of ranks in the run according to the environment (`WORLD_SIZE`) or a payload.
    pub world_size: Option<u32>,
    /// Index of the report (input) that it came from.
    pub input: usize,
    /// The report's file name without its folder.
    pub report: String,
    /// Operating-system process id.
    pub pid: u32,
    /// CUDA ordinal inside the process.
    pub device: u32,
    /// GPU model.
    pub gpu: Option<String>,
    /// The GPU's own number, the same in every report; `None` if the report does not say which GPU it is.
    pub gpu_uuid: Option<String>,
    /// Index of the GPU on its machine; `None` if the report does not say which GPU it is.
    pub gpu_index: Option<u32>,
    /// Numbers of all GPUs that the report lists: those of its machine.
    pub machine_gpus: Vec<String>,
    /// Host name.
    pub hostname: Option<String>,
    /// Nanoseconds to add to the report's own time to get Unix time; 0 if timestamps already are, `None` if unknown.
    pub epoch_ns: Option<i64>,
    /// GPU work.
    pub ops: Ops,
    /// The user's NVTX ranges of the process.
    pub ranges: Arc<UserRanges>,
    /// Their texts.
    pub texts: Arc<Texts>,
    /// NCCL calls in order of (start, end).
    pub nccl: Vec<NcclCall>,
    /// Operations as they ran on the GPU according to advanced NCCL tracing, in order of (start, end); times are the GPU's.
    pub gpu_operations: Vec<NcclCall>,
    /// Communicators that this rank is known to be in: those that it joined during the capture, and those that its NCCL log names.
    pub comm_inits: Vec<CommInit>,
    /// True if NCCL ranges carry payloads (communicator id, bytes).
    pub has_payloads: bool,
    /// The host's side of the process; `None` if it was not read.
    pub host: Option<Arc<Host>>,
    /// Kernel names of the whole report.
    pub names: Arc<Names>,
    /// The library that each communication kernel belongs to.
    pub families: Arc<foldhash::HashMap<NameId, &'static str>>,
}
