//! What a log says that NCCL wrote with `NCCL_DEBUG=INFO`.

use std::collections::{BTreeMap, BTreeSet};

use super::CommOp;

/// Everything that was read from one log.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NcclLog {
    /// Path as given.
    pub path: String,
    /// Lines in the file.
    pub lines: u64,
    /// Lines with a whole NCCL message.
    pub messages: u64,
    /// Messages that broke off, lack their beginning, or do not read to their end.
    pub torn: u64,
    /// NCCL versions, as printed (`2.28.9+cuda13.0`).
    pub versions: BTreeSet<String>,
    /// The processes that said something of interest, in order of (host, pid).
    pub processes: Vec<Process>,
}

/// One process.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Process {
    /// Host name as NCCL prints it, cut at the first dot.
    pub host: String,
    /// Operating-system process id.
    pub pid: u32,
    /// Communicators in the order in which they began.
    pub comms: Vec<CommRank>,
    /// Connections with how often each was printed.
    pub links: BTreeMap<Link, u64>,
    /// Algorithm and protocol by call, with counts. NCCL prints them on rank 0 only.
    pub tuning: BTreeMap<Tuning, u64>,
    /// NCCL settings that it took from the environment.
    pub settings: BTreeMap<String, String>,
    /// Network devices by plugin (`IB`, `Socket`) and index.
    pub net_devices: BTreeMap<String, BTreeMap<u32, String>>,
    /// The network plugin in use.
    pub network: Option<String>,
    /// Collective-network plugins that carry channels.
    pub collnet: BTreeSet<String>,
    /// Largest NVLink bandwidth in NCCL's own topology, GB/s by its estimate (GRAPH lines only).
    pub nvlink_gbs: Option<f64>,
    /// Warnings with counts, the first distinct ones.
    pub warnings: BTreeMap<String, u64>,
}

/// One rank of one communicator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommRank {
    /// Address of the communicator in its process.
    pub address: u64,
    /// Equal on all its ranks: the id, or for a split the parent's with number and colour.
    pub key: CommKey,
    /// Rank in the communicator.
    pub rank: u32,
    /// Ranks in the communicator.
    pub n_ranks: u32,
    /// CUDA ordinal in the process.
    pub cuda_dev: u32,
    /// The GPU.
    pub device: Device,
    /// Nodes that NCCL takes it to span.
    pub nodes: Option<u32>,
    /// Its channels.
    pub channels: Option<Channels>,
}

impl CommRank {
    /// True if a connection between these two ranks can belong to this communicator and be printed by this rank.
    pub(crate) fn connects(&self, src: u32, dst: u32) -> bool {
        (self.rank == src || self.rank == dst) && src.max(dst) < self.n_ranks
    }
}

/// What makes a communicator the same on all its ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommKey {
    /// `commId`. From NCCL 2.26.2 on the hash that payloads and Inspector print, before that another one.
    Id(u64),
    /// Made from a parent by a split: fingerprint of the parent's key, number of the split (not in 2.23) and colour.
    Split(u64, Option<u32>, i64),
    /// Up to NCCL 2.15 nothing is printed: the how-manieth of the process with that many ranks.
    Unnamed(u32, usize),
}

impl CommKey {
    /// The id as reports print it, if there is one.
    pub fn id(&self) -> Option<String> {
        match self {
            CommKey::Id(id) => Some(format!("0x{id:016x}")),
            CommKey::Split(..) | CommKey::Unnamed(..) => None,
        }
    }

    /// A number that stands for the key in those of its splits: nesting the keys would let a hostile log nest without end.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mix = |values: [u64; 3]| {
            values.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, v| {
                (hash ^ v).wrapping_mul(0x0100_0000_01b3).rotate_left(23)
            })
        };
        match *self {
            CommKey::Id(id) => id,
            CommKey::Split(parent, number, color) => {
                mix([parent, number.map_or(u64::MAX, u64::from), color as u64])
            }
            CommKey::Unnamed(ranks, nth) => mix([u64::from(ranks), nth as u64, 0]),
        }
    }
}

/// A GPU as logs name it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Device {
    /// Index in `nvidia-smi` (NCCL 2.18.3 and later).
    pub nvml: Option<u32>,
    /// PCI bus id without separators (`0000:1a:00.0` is 0x1a000).
    pub bus_id: Option<u64>,
}

/// A connection of one channel between two ranks of a communicator.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// The communicators of the process that it can belong to, as indices into [`Process::comms`]: NCCL does not print it.
    pub comms: Vec<usize>,
    /// Channel number.
    pub channel: u32,
    /// Sending rank in the communicator.
    pub src: u32,
    /// Receiving rank in the communicator.
    pub dst: u32,
    /// GPU of the sender.
    pub src_device: Device,
    /// GPU of the receiver.
    pub dst_device: Device,
    /// How the data goes.
    pub transport: Transport,
}

/// How the data of one channel goes from rank to rank.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transport {
    /// Straight between GPUs: `CUMEM`, `IPC`, `direct pointer`, `MNNVL` or `indirect`.
    P2p(String),
    /// Through host memory; the text as printed.
    Shm(String),
    /// Through a network.
    Net {
        /// Plugin: `IB`, `Socket`, `AWS Libfabric`.
        plugin: String,
        /// Index of the device in the plugin.
        device: u32,
        /// GPU and network card exchange data directly.
        gdrdma: bool,
        /// Rank whose GPU forwards the data (PXN).
        proxy: Option<u32>,
    },
}

impl Transport {
    /// The text that reports print: `SHM/direct/direct`, `P2P/CUMEM`, `NET/Socket`.
    pub fn label(&self) -> String {
        match self {
            Transport::P2p(kind) => format!("P2P/{kind}"),
            Transport::Shm(text) => text.clone(),
            Transport::Net { plugin, .. } => format!("NET/{plugin}"),
        }
    }
}

/// Channels of a communicator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Channels {
    /// For collectives.
    pub coll: u32,
    /// For collectives through NVLink SHARP.
    pub nvls: Option<u32>,
    /// For sends and receives.
    pub p2p: Option<u32>,
}

/// What NCCL chose for calls of one size.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tuning {
    /// Operation; not printed up to 2.22.
    pub op: Option<CommOp>,
    /// Size of the call in bytes.
    pub bytes: u64,
    /// `RING`, `TREE`, `NVLS`, ...; `Symmetric` or `Copy Engine` for those paths.
    pub algorithm: String,
    /// `LL`, `LL128`, `SIMPLE`; the kernel of a symmetric call.
    pub protocol: Option<String>,
    /// Channels that the call uses.
    pub channels: Option<u32>,
}
