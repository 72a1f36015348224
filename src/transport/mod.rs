//! How the ranks reach each other, and whether they should reach each other better: NCCL logs, the machine's topology and
//! the GPU's model taken together. No I/O.

mod findings;
mod peaks;
pub(crate) mod view;

use std::collections::{BTreeMap, BTreeSet};

use crate::catalogue::Id;
use crate::model::nccl_log::{CommKey, CommRank, Device, Link, NcclLog, Process, Transport};
use crate::model::topology::{PathClass, Topology};
use crate::warning::Warning;

pub(crate) use peaks::{LinkKind, Peak, peak_gbs};

/// Warnings of NCCL that are repeated of one log.
const MOST_WARNINGS: usize = 100;

/// What logs and topology say, put together.
#[derive(Debug, Clone)]
pub struct Facts<'a> {
    logs: &'a [NcclLog],
    topology: Option<&'a Topology>,
    members: BTreeMap<(CommKey, u32), Member<'a>>,
    routes: Vec<Route<'a>>,
}

/// One rank of one communicator and where it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Member<'a> {
    host: &'a str,
    pid: u32,
    device: Device,
    /// Index of its GPU in `nvidia-smi`.
    gpu: Option<u32>,
    comm: &'a CommRank,
}

/// All connections from one rank to another by one transport.
#[derive(Debug, Clone)]
struct Route<'a> {
    comm: Option<CommKey>,
    src: u32,
    dst: u32,
    label: String,
    /// One of the transports of that label.
    transport: &'a Transport,
    /// The process that printed it, and the log.
    process: &'a Process,
    log: &'a str,
    src_gpu: Option<u32>,
    dst_gpu: Option<u32>,
    same_host: Option<bool>,
    /// What the topology shows between the two GPUs, where both are in it.
    path: Option<PathClass>,
    channels: BTreeSet<u32>,
    count: u64,
    /// Network devices that the sender's or receiver's GPU reaches, with whether they exchange data directly.
    net: BTreeSet<NetUse>,
}

/// A GPU at a network device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct NetUse {
    plugin: String,
    device: u32,
    gdrdma: bool,
    /// Another rank's GPU forwards the data.
    proxied: bool,
}

impl<'a> Facts<'a> {
    /// Puts the logs of one run and the topology of its machines together.
    pub fn new(logs: &'a [NcclLog], topology: Option<&'a Topology>) -> Self {
        let members = members(logs, topology);
        let mut facts = Self { logs, topology, members, routes: Vec::new() };
        facts.routes = facts.find_routes();
        facts
    }

    fn processes(&self) -> impl Iterator<Item = &'a Process> {
        self.logs.iter().flat_map(|log| &log.processes)
    }

    fn find_routes(&self) -> Vec<Route<'a>> {
        let keys: BTreeSet<CommKey> = self.members.keys().map(|(key, _)| *key).collect();
        // A run with one communicator needs no guess about which one a line means.
        let only = keys.first().copied().filter(|_| keys.len() == 1);
        let mut routes: BTreeMap<(Option<CommKey>, u32, u32, String), Route<'a>> = BTreeMap::new();
        for log in self.logs {
            for process in &log.processes {
                for (link, &count) in &process.links {
                    let comm = self.owner(process, link).or(only);
                    let label = link.transport.label();
                    let route = routes
                        .entry((comm, link.src, link.dst, label.clone()))
                        .or_insert_with(|| self.route(comm, link, label, process, &log.path));
                    route.channels.insert(link.channel);
                    route.count = route.count.saturating_add(count);
                    if let Transport::Net { plugin, device, gdrdma, proxy } = &link.transport {
                        route.net.insert(NetUse {
                            plugin: plugin.clone(),
                            device: *device,
                            gdrdma: *gdrdma,
                            proxied: proxy.is_some(),
                        });
                    }
                }
            }
        }
        routes.into_values().collect()
    }

    /// The communicator that a link belongs to. Where several fit, any does if they put both ranks at the same GPUs.
    fn owner(&self, process: &Process, link: &Link) -> Option<CommKey> {
        let mut keys =
            link.comms.iter().filter_map(|&at| process.comms.get(at)).map(|comm| comm.key);
        let first = keys.next()?;
        let ends = |key: CommKey| {
            let place = |rank| self.members.get(&(key, rank)).map(|m| (m.host, m.pid, m.device));
            (place(link.src), place(link.dst))
        };
        let same = |key| ends(key) == ends(first) && ends(key).0.is_some() && ends(key).1.is_some();
        keys.all(same).then_some(first)
    }

    fn route(
        &self,
        comm: Option<CommKey>,
        link: &'a Link,
        label: String,
        process: &'a Process,
        log: &'a str,
    ) -> Route<'a> {
        let member = |rank| comm.and_then(|key| self.members.get(&(key, rank)));
        let (src, dst) = (member(link.src), member(link.dst));
        let same_host = match (src, dst, &link.transport) {
            // Two ranks at one GPU of one host are two hosts of one name.
            (Some(a), Some(b), _) => Some(a.host == b.host && a.device != b.device),
            (_, _, Transport::Shm(_)) => Some(true),
            (_, _, Transport::P2p(kind)) if kind != "MNNVL" => Some(true),
            _ => None,
        };
        let src_gpu = src.map_or(link.src_device.nvml, |m| m.gpu);
        let dst_gpu = dst.map_or(link.dst_device.nvml, |m| m.gpu);
        let path = match (self.topology, src_gpu, dst_gpu) {
            (Some(topology), Some(a), Some(b))
                if same_host == Some(true) && !topology.hides_nvlink =>
            {
                topology.between(a, b)
            }
            _ => None,
        };
        let (channels, net) = (BTreeSet::new(), BTreeSet::new());
        Route {
            comm,
            src: link.src,
            dst: link.dst,
            label,
            transport: &link.transport,
            process,
            log,
            src_gpu,
            dst_gpu,
            same_host,
            path,
            channels,
            count: 0,
            net,
        }
    }

    /// What a report prints.
    pub fn view(&self) -> view::Transport {
        let mut settings: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        for (name, value) in self.processes().flat_map(|p| &p.settings) {
            settings.entry(name.clone()).or_default().insert(value);
        }
        let networks: BTreeSet<&str> =
            self.processes().filter_map(|p| p.network.as_deref()).collect();
        let versions: BTreeSet<&String> = self.logs.iter().flat_map(|log| &log.versions).collect();
        view::Transport {
            logs: self
                .logs
                .iter()
                .map(|log| view::LogFile {
                    path: log.path.clone(),
                    lines: log.lines,
                    messages: log.messages,
                    torn: log.torn,
                })
                .collect(),
            topology: self.topology.map(|topology| topology.path.clone()),
            gpus: Vec::new(),
            nccl_versions: versions.into_iter().cloned().collect(),
            networks: networks.into_iter().map(str::to_owned).collect(),
            settings: settings
                .into_iter()
                .map(|(name, values)| (name, values.into_iter().map(str::to_owned).collect()))
                .collect(),
            communicators: self
                .communicators()
                .into_iter()
                .map(|(key, members)| communicator(key, &members))
                .collect(),
            pairs: self.routes.iter().map(pair).collect(),
            algorithms: self.algorithms(),
        }
    }

    /// The GPUs of the topology, with the ranks that run on them: (rank, index of its GPU).
    pub fn gpus(&self, ranks: &[(u32, u32)]) -> Vec<view::Gpu> {
        let Some(topology) = self.topology else { return Vec::new() };
        let gpu = |&gpu: &u32| view::Gpu {
            gpu,
            ranks: ranks.iter().filter(|(_, at)| *at == gpu).map(|(rank, _)| *rank).collect(),
            paths: topology
                .gpu_paths
                .iter()
                .filter(|((from, _), _)| *from == gpu)
                .map(|((_, to), path)| (*to, path.label()))
                .collect(),
            network_cards: topology
                .nic_paths
                .iter()
                .filter(|((from, _), _)| *from == gpu)
                .map(|((_, card), path)| (card.clone(), path.label()))
                .collect(),
        };
        topology.gpus.iter().map(gpu).collect()
    }

    /// Communicators with their members, the largest first.
    fn communicators(&self) -> Vec<(CommKey, Vec<&Member<'a>>)> {
        let mut found: BTreeMap<CommKey, Vec<&Member<'a>>> = BTreeMap::new();
        for ((key, _), member) in &self.members {
            found.entry(*key).or_default().push(member);
        }
        let mut found: Vec<_> = found.into_iter().collect();
        let size = |members: &[&Member]| members.iter().map(|m| m.comm.n_ranks).max();
        found.sort_by(|(a_key, a), (b_key, b)| size(b).cmp(&size(a)).then(a_key.cmp(b_key)));
        found
    }

    fn algorithms(&self) -> Vec<view::Algorithm> {
        let mut found: BTreeMap<_, view::Algorithm> = BTreeMap::new();
        for (tuning, &count) in self.processes().flat_map(|p| &p.tuning) {
            let entry = found
                .entry((tuning.op, &tuning.algorithm, &tuning.protocol))
                .or_insert_with(|| view::Algorithm {
                    op: tuning.op.map(|op| op.label().to_owned()),
                    algorithm: tuning.algorithm.clone(),
                    protocol: tuning.protocol.clone(),
                    min_bytes: tuning.bytes,
                    max_bytes: tuning.bytes,
                    channels: tuning.channels,
                    count: 0,
                });
            entry.min_bytes = entry.min_bytes.min(tuning.bytes);
            entry.max_bytes = entry.max_bytes.max(tuning.bytes);
            entry.channels = entry.channels.max(tuning.channels);
            entry.count = entry.count.saturating_add(count);
        }
        found.into_values().collect()
    }

    /// What the reader of the transport has to know: torn lines, NCCL's own warnings, a topology that hides NVLink.
    pub fn warnings(&self) -> Vec<Warning> {
        let mut out = Vec::new();
        for log in self.logs {
            if log.torn > 0 {
                let message = format!(
                    "{}: {} of {} NCCL messages broke off because several processes wrote to one file; channels can be missing",
                    log.path, log.torn, log.messages
                );
                out.push(Warning::new(Id::NcclLogTorn, message).with_hint(
                    "Let every process write its own log: NCCL_DEBUG_FILE=nccl.%h.%p.log",
                ));
            }
            let said = || log.processes.iter().flat_map(|p| p.warnings.iter().map(move |w| (p, w)));
            for (process, (text, count)) in said().take(MOST_WARNINGS) {
                let times = if *count == 1 { String::new() } else { format!(" ({count} times)") };
                let message =
                    format!("NCCL warned on {} pid {}{times}: {text}", process.host, process.pid);
                out.push(Warning::new(Id::NcclWarning, message));
            }
            let more = said().skip(MOST_WARNINGS).count();
            if more > 0 {
                let message =
                    format!("{}: NCCL wrote {more} more warnings than are listed here", log.path);
                out.push(Warning::new(Id::NcclWarning, message));
            }
        }
        if let Some(topology) = self.topology.filter(|topology| topology.hides_nvlink) {
            let message = format!(
                "{}: this matrix leaves NVLink out, so GPUs that it shows on PCIe may be linked better",
                topology.path
            );
            out.push(
                Warning::new(Id::TopologyWithoutNvlink, message)
                    .with_hint("Write it with: nvidia-smi topo -m"),
            );
        }
        out
    }

    /// A warning if none of the processes that the logs speak of, by pid, is among the captured ones: logs of another run.
    pub fn foreign(&self, captured: &BTreeSet<u32>) -> Option<Warning> {
        let logged: BTreeSet<u32> = self
            .processes()
            .filter(|process| !process.comms.is_empty())
            .map(|process| process.pid)
            .collect();
        (!logged.is_empty() && !captured.is_empty() && logged.is_disjoint(captured)).then(|| {
            let some = |pids: &BTreeSet<u32>| pids.iter().take(4).map(u32::to_string).collect::<Vec<_>>().join(", ");
            Warning::new(
                Id::NcclLogOfOtherProcesses,
                format!(
                    "The NCCL logs are by processes {}, the reports by {}: what is said of the transport may be another run's.",
                    some(&logged),
                    some(captured)
                ),
            )
            .with_hint("Give the log of the captured run; process ids differ too where the program ran in containers of their own.")
        })
    }

    /// The most that one GPU can send over the links that a communicator uses (any communicator if `comm_id` is `None` or
    /// not in the logs), for the GPU model `gpu`. The slowest GPU counts. `None` where a link or its speed is not known,
    /// as on networks.
    pub fn peak(&self, comm_id: Option<&str>, gpu: &str) -> Option<Peak> {
        let of_comm = |route: &&Route<'a>| {
            comm_id.is_some() && route.comm.and_then(|key| key.id()).as_deref() == comm_id
        };
        let mut routes: Vec<&Route<'a>> = self.routes.iter().filter(of_comm).collect();
        if routes.is_empty() {
            routes = self.routes.iter().collect();
        }
        let links: Vec<Sent> = if routes.is_empty() {
            let paths = &self.topology.filter(|topology| !topology.hides_nvlink)?.gpu_paths;
            paths
                .iter()
                .map(|(&(src, dst), &path)| Sent { src, dst, over: kind_of_path(path) })
                .collect()
        } else {
            routes.iter().map(|route| route.sent()).collect::<Option<_>>()?
        };
        let has_pcie = links.iter().any(|sent| sent.over == LinkKind::Pcie);
        // A GPU sends to all its neighbours at once, and its NVLinks to them add up.
        let mut nvlinks: BTreeMap<u32, BTreeMap<u32, u32>> = BTreeMap::new();
        for sent in links {
            if let LinkKind::NvLink(n) = sent.over {
                nvlinks.entry(sent.src).or_default().insert(sent.dst, n);
            }
        }
        // Without a log nobody knows which of several kinds of link a ring takes.
        if routes.is_empty() && has_pcie && !nvlinks.is_empty() {
            return None;
        }
        let of_gpu = |to: BTreeMap<u32, u32>| {
            LinkKind::NvLink(to.into_values().fold(0, u32::saturating_add))
        };
        let kinds = nvlinks.into_values().map(of_gpu).chain(has_pcie.then_some(LinkKind::Pcie));
        let peaks: Vec<Peak> = kinds.map(|kind| peak_gbs(gpu, kind)).collect::<Option<_>>()?;
        peaks.into_iter().min_by(|a, b| a.gbs.total_cmp(&b.gbs))
    }
}

/// One GPU sends to another.
struct Sent {
    src: u32,
    dst: u32,
    over: LinkKind,
}

fn kind_of_path(path: PathClass) -> LinkKind {
    match path {
        PathClass::NvLink(links) => LinkKind::NvLink(links),
        PathClass::Pix | PathClass::Pxb | PathClass::Phb | PathClass::Node | PathClass::Sys => {
            LinkKind::Pcie
        }
    }
}

impl Route<'_> {
    /// From which GPU to which, over which kind of link; `None` if that is not known. Machines of one run are taken to be alike.
    fn sent(&self) -> Option<Sent> {
        let over = match self.transport {
            Transport::P2p(_) => kind_of_path(self.path?),
            // Host memory is reached over PCIe.
            Transport::Shm(_) => LinkKind::Pcie,
            Transport::Net { .. } => return None,
        };
        Some(Sent {
            src: self.src_gpu.unwrap_or(self.src),
            dst: self.dst_gpu.unwrap_or(self.dst),
            over,
        })
    }
}

fn members<'a>(
    logs: &'a [NcclLog],
    topology: Option<&Topology>,
) -> BTreeMap<(CommKey, u32), Member<'a>> {
    let processes = || logs.iter().flat_map(|log| &log.processes);
    // `nvidia-smi` numbers GPUs by bus id, so where the logs hold all of a host, their order gives the index.
    let mut buses: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for process in processes() {
        buses
            .entry(&process.host)
            .or_default()
            .extend(process.comms.iter().filter_map(|comm| comm.device.bus_id));
    }
    let by_bus = |host: &str, device: Device| {
        let (known, gpus) = (buses.get(host)?, &topology?.gpus);
        // Only as many as the machine has: looking through them takes no time.
        let at = (known.len() == gpus.len())
            .then(|| known.iter().position(|bus| Some(*bus) == device.bus_id))??;
        gpus.get(at).copied()
    };
    let mut members = BTreeMap::new();
    for process in processes() {
        for comm in &process.comms {
            let gpu = comm.device.nvml.or_else(|| by_bus(&process.host, comm.device));
            members.insert(
                (comm.key, comm.rank),
                Member { host: &process.host, pid: process.pid, device: comm.device, gpu, comm },
            );
        }
    }
    members
}

fn communicator(key: CommKey, members: &[&Member<'_>]) -> view::Communicator {
    let channels: BTreeSet<u32> =
        members.iter().filter_map(|m| m.comm.channels.map(|c| c.coll)).collect();
    view::Communicator {
        comm_id: key.id(),
        n_ranks: members.iter().map(|m| m.comm.n_ranks).max().unwrap_or(0),
        ranks_seen: members.iter().map(|m| m.comm.rank).collect(),
        nodes: members.iter().filter_map(|m| m.comm.nodes).max(),
        channels: channels.into_iter().collect(),
    }
}

fn pair(route: &Route<'_>) -> view::Pair {
    view::Pair {
        comm_id: route.comm.and_then(|key| key.id()),
        src: route.src,
        dst: route.dst,
        src_gpu: route.src_gpu,
        dst_gpu: route.dst_gpu,
        same_host: route.same_host,
        transport: route.label.clone(),
        gdrdma: (!route.net.is_empty()).then(|| route.net.iter().all(|net| net.gdrdma)),
        channels: route.channels.len(),
        count: route.count,
        topology: route.path.map(PathClass::label),
        log: route.log.to_owned(),
    }
}

#[cfg(test)]
mod tests;
