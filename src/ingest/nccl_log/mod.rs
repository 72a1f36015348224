//! Logs that NCCL writes with `NCCL_DEBUG=INFO`: communicators, transport of each channel, algorithms, settings.
//!
//! Such a log is text that several processes and threads write at once, often into one file with everything else that
//! the program prints. Lines that broke off are counted, never guessed at.

mod line;
mod message;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use crate::error::{Error, Result};
use crate::model::CommOp;
use crate::text;
use message::{Message, Stage};

/// A longer line is not one of NCCL's; its rest is skipped, so that a file without line breaks cannot fill the memory.
const LONGEST_LINE: u64 = 64 * 1024;
/// Distinct warnings that are kept of one process.
const KEPT_WARNINGS: usize = 20;

/// Communicators that one connection is taken to be able to belong to; more say no more.
const MOST_CANDIDATES: usize = 16;

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
    /// Warnings with counts, the first [`KEPT_WARNINGS`] distinct ones.
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
    thread: u32,
    stage: Stage,
}

impl CommRank {
    /// True if a connection between these two ranks can belong to this communicator and be printed by this rank.
    fn connects(&self, src: u32, dst: u32) -> bool {
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
    fn fingerprint(&self) -> u64 {
        let mix = |values: [u64; 3]| {
            values.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, v| (hash ^ v).wrapping_mul(0x0100_0000_01b3).rotate_left(23))
        };
        match *self {
            CommKey::Id(id) => id,
            CommKey::Split(parent, number, color) => mix([parent, number.map_or(u64::MAX, u64::from), color as u64]),
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

/// Reads the log at `path`.
///
/// # Errors
/// If the file cannot be read, or holds no NCCL message at all.
pub fn read(path: &Path) -> Result<NcclLog> {
    let file = File::open(path).map_err(|e| Error::input(path, format!("cannot be opened: {e}")))?;
    let mut log = parse(BufReader::new(file)).map_err(|e| Error::input(path, format!("cannot be read: {e}")))?;
    if log.messages == 0 && log.versions.is_empty() {
        return Err(Error::input(path, "holds no NCCL message")
            .with_hint("run the program with NCCL_DEBUG=INFO and give the file that its output went to"));
    }
    log.path = path.to_string_lossy().into_owned();
    Ok(log)
}

/// Reads a log from `reader`, line by line.
///
/// # Errors
/// If reading fails.
pub fn parse(mut reader: impl BufRead) -> std::io::Result<NcclLog> {
    let mut parser = Parser::default();
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        if reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut bytes)? == 0 {
            break;
        }
        if !bytes.ends_with(b"\n") {
            reader.skip_until(b'\n')?;
        }
        let line = String::from_utf8_lossy(&bytes);
        parser.line(text::without_escapes(line.trim_end_matches(['\n', '\r'])).as_ref());
    }
    Ok(parser.finish())
}

#[derive(Default)]
struct Parser {
    log: NcclLog,
    /// Indices into the log's processes by pid: a torn line can spoil the host name, never this.
    by_pid: HashMap<u32, Vec<usize>>,
}

impl Parser {
    fn line(&mut self, line: &str) {
        self.log.lines += 1;
        let found = line::split(line);
        self.log.torn += found.torn;
        let Some(segment) = found.segment else {
            // At some levels the version is printed without a prefix.
            if let Some(version) = line.split_once("NCCL version ").and_then(|(_, rest)| message::version(rest)) {
                self.log.versions.insert(version.to_owned());
            }
            return;
        };
        self.log.messages += 1;
        if segment.warning {
            let process = self.process(segment.host, segment.pid);
            if let Some(count) = process.warnings.get_mut(segment.message) {
                *count += 1;
            } else if process.warnings.len() < KEPT_WARNINGS {
                process.warnings.insert(segment.message.to_owned(), 1);
            }
            return;
        }
        match message::parse(segment.message) {
            Ok(Message::Other) => {}
            Ok(Message::Version(version)) => {
                self.log.versions.insert(version.to_owned());
            }
            Ok(message) => self.process(segment.host, segment.pid).take(message, segment.tid),
            Err(message::Malformed) => self.log.torn += 1,
        }
    }

    /// The process `pid` on `host`. Two hosts with one pid of which one name ends with the other are one host, seen once on
    /// a torn line behind the end of other text; the shorter name is right.
    fn process(&mut self, host: &str, pid: u32) -> &mut Process {
        let known = self.by_pid.entry(pid).or_default();
        let processes = &mut self.log.processes;
        let same = |at: &&usize| processes[**at].host == host;
        let torn = |at: &&usize| processes[**at].host.ends_with(host) || host.ends_with(&processes[**at].host);
        let at = match known.iter().find(same).or_else(|| known.iter().find(torn)) {
            Some(&at) => at,
            None => {
                processes.push(Process { host: host.to_owned(), pid, ..Process::default() });
                known.push(processes.len() - 1);
                processes.len() - 1
            }
        };
        if host.len() < processes[at].host.len() {
            host.clone_into(&mut processes[at].host);
        }
        &mut processes[at]
    }

    fn finish(mut self) -> NcclLog {
        self.log.processes.iter_mut().for_each(Process::place_early_links);
        self.log.processes.sort_by(|a, b| (&a.host, a.pid).cmp(&(&b.host, b.pid)));
        self.log
    }
}

impl Process {
    fn take(&mut self, message: Message<'_>, tid: u32) {
        match message {
            Message::Communicator(line) => self.communicator(&line, tid),
            Message::Nodes { comm, nodes } => {
                if let Some(comm) = self.comms.iter_mut().rfind(|c| c.address == comm) {
                    comm.nodes = Some(nodes);
                }
            }
            Message::Channel(line) => {
                let link = Link {
                    comms: self.owners(line.src, line.dst, tid),
                    channel: line.channel,
                    src: line.src,
                    dst: line.dst,
                    src_device: self.decided(line.src_device, &line.transport),
                    dst_device: self.decided(line.dst_device, &line.transport),
                    transport: line.transport,
                };
                *self.links.entry(link).or_default() += 1;
            }
            Message::Channels(channels) => {
                // The line belongs to the communicator that its thread is making; a thread makes one at a time.
                let own = self.comms.iter_mut().rfind(|c| c.thread == tid && c.channels.is_none() && c.stage == Stage::Start);
                if let Some(comm) = own {
                    comm.channels = Some(channels);
                }
            }
            Message::Tuning(tuning) => *self.tuning.entry(tuning).or_default() += 1,
            Message::CollNet(plugin) => {
                self.collnet.insert(plugin.to_owned());
            }
            Message::Setting { name, value } => {
                self.settings.insert(name.to_owned(), value.to_owned());
            }
            Message::NetDevices { plugin, devices } => {
                let known = self.net_devices.entry(plugin.to_owned()).or_default();
                known.extend(devices.into_iter().map(|(index, name)| (index, name.to_owned())));
            }
            Message::Network(name) => self.network = Some(name.to_owned()),
            Message::NvLink(bandwidth) => self.nvlink_gbs = Some(self.nvlink_gbs.map_or(bandwidth, |b| b.max(bandwidth))),
            Message::Version(_) | Message::Other => {}
        }
    }

    fn communicator(&mut self, line: &message::Communicator, tid: u32) {
        // An address is used again once its communicator is gone.
        if let Some(known) = self.comms.iter_mut().rfind(|c| c.address == line.comm && c.stage != Stage::Gone) {
            known.stage = line.stage;
            return;
        }
        if line.stage == Stage::Gone {
            return;
        }
        let key = match (line.id, line.split) {
            (Some(id), _) => CommKey::Id(id),
            (None, Some((parent, number, color))) => {
                let parent = self.comms.iter().rfind(|c| c.address == parent).map_or(0, |c| c.key.fingerprint());
                CommKey::Split(parent, number, color)
            }
            (None, None) => CommKey::Unnamed(line.n_ranks, self.comms.iter().filter(|c| c.n_ranks == line.n_ranks).count()),
        };
        self.comms.push(CommRank {
            address: line.comm,
            key,
            rank: line.rank,
            n_ranks: line.n_ranks,
            cuda_dev: line.cuda_dev,
            device: Device { nvml: line.nvml_dev, bus_id: Some(line.bus_id) },
            nodes: None,
            channels: None,
            thread: tid,
            stage: line.stage,
        });
    }

    /// The communicators that a connection between two ranks can belong to: the one that the thread is making, else all
    /// in which this process is one of the two. Connections made at first use come later and from any thread.
    fn owners(&self, src: u32, dst: u32, tid: u32) -> Vec<usize> {
        let making = self.comms.iter().rposition(|c| c.thread == tid && c.stage == Stage::Start && c.connects(src, dst));
        match making {
            Some(at) => vec![at],
            None => self.candidates(|c| c.stage != Stage::Gone && c.connects(src, dst)),
        }
    }

    fn candidates(&self, fits: impl Fn(&CommRank) -> bool) -> Vec<usize> {
        self.comms.iter().enumerate().filter(|(_, c)| fits(c)).map(|(at, _)| at).take(MOST_CANDIDATES).collect()
    }

    /// Up to 2.15 a communicator is named only when it is complete, after its connections.
    fn place_early_links(&mut self) {
        let links = std::mem::take(&mut self.links);
        for (mut link, count) in links {
            if link.comms.is_empty() {
                link.comms = self.candidates(|c| c.connects(link.src, link.dst));
            }
            *self.links.entry(link).or_default() += count;
        }
    }

    /// The brackets of a `via` line hold the bus id in hexadecimal up to 2.18.1 and the device in decimal after; a
    /// communicator line with `nvmlDev` tells which (2.18.1 already prints the device where the transport is CUMEM).
    fn decided(&self, device: Device, transport: &Transport) -> Device {
        let decimal = self.comms.iter().any(|c| c.device.nvml.is_some()) || *transport == Transport::P2p("CUMEM".to_owned());
        if decimal { Device { nvml: device.nvml, bus_id: None } } else { Device { nvml: None, bus_id: device.bus_id } }
    }
}

#[cfg(test)]
mod tests;
