//! How the ranks reach each other: what NCCL's logs and the machine's topology say.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Transport of the run. Ranks here are ranks of the named communicator; of the run's largest one they are those of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Transport {
    /// The NCCL logs that were read.
    pub logs: Vec<LogFile>,
    /// Path of the topology, if one was given.
    pub topology: Option<String>,
    /// The GPUs of that topology in order, with what lies between them; empty without one.
    pub gpus: Vec<Gpu>,
    /// NCCL versions as printed.
    pub nccl_versions: Vec<String>,
    /// Network plugins in use: `IB`, `Socket`, ...
    pub networks: Vec<String>,
    /// NCCL settings that processes took from their environment, each with its distinct values.
    pub settings: BTreeMap<String, Vec<String>>,
    /// Communicators by size, the largest first.
    pub communicators: Vec<Communicator>,
    /// Connections by pair of ranks and transport.
    pub pairs: Vec<Pair>,
    /// Algorithms and protocols by operation.
    pub algorithms: Vec<Algorithm>,
}

/// One GPU of the topology. Machines of one run are taken to be alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gpu {
    /// Index in `nvidia-smi`.
    pub gpu: u32,
    /// Ranks of the run on the GPU of this number, on any host, as far as the reports say.
    pub ranks: Vec<u32>,
    /// What lies between it and other GPUs, by their index: `NV18`, `PIX`, ...
    pub paths: BTreeMap<u32, String>,
    /// What lies between it and network cards, by their name.
    pub network_cards: BTreeMap<String, String>,
}

/// One log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogFile {
    /// Path as given.
    pub path: String,
    /// Lines in it.
    pub lines: u64,
    /// Whole NCCL messages in it.
    pub messages: u64,
    /// Messages that broke off because several processes wrote at once; what they said is missing.
    pub torn: u64,
}

/// One communicator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Communicator {
    /// Id as printed; from NCCL 2.26.2 on the one in payloads and Inspector logs. `None` for splits and before 2.16.
    pub comm_id: Option<String>,
    /// Ranks that it has.
    pub n_ranks: u32,
    /// Ranks that the logs hold.
    pub ranks_seen: Vec<u32>,
    /// Nodes that NCCL takes it to span.
    pub nodes: Option<u32>,
    /// Channels for collectives; more than one value if ranks differ.
    pub channels: Vec<u32>,
}

/// The connections from one rank to another by one transport.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// Id of the communicator whose ranks `src` and `dst` are; `None` if it has or the log names none.
    pub comm_id: Option<String>,
    /// Sending rank.
    pub src: u32,
    /// Receiving rank.
    pub dst: u32,
    /// Index of the sender's GPU in `nvidia-smi`.
    pub src_gpu: Option<u32>,
    /// Index of the receiver's GPU in `nvidia-smi`.
    pub dst_gpu: Option<u32>,
    /// True if both ranks run on one host; `None` if the logs do not show it.
    pub same_host: Option<bool>,
    /// `P2P/CUMEM`, `SHM/direct/direct`, `NET/Socket`, ...
    pub transport: String,
    /// True if network card and GPU exchange data directly, on every channel; `None` where no network is involved.
    pub gdrdma: Option<bool>,
    /// Distinct channels.
    pub channels: usize,
    /// Lines that say so.
    pub count: u64,
    /// What the topology shows between the two GPUs: `NV18`, `PIX`, ...
    pub topology: Option<String>,
    /// Path of the log.
    pub log: String,
}

/// What NCCL chose for an operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Algorithm {
    /// Operation; not printed before NCCL 2.23.
    pub op: Option<String>,
    /// `RING`, `TREE`, `NVLS`, ...
    pub algorithm: String,
    /// `LL`, `LL128`, `SIMPLE`, or the kernel of a symmetric call.
    pub protocol: Option<String>,
    /// Smallest size of a call in bytes.
    pub min_bytes: u64,
    /// Largest size of a call in bytes.
    pub max_bytes: u64,
    /// Most channels that a call uses.
    pub channels: Option<u32>,
    /// Calls.
    pub count: u64,
}
