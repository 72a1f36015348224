//! Where the ranks reach each other worse than the machine allows.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::{Facts, Route};
use crate::catalogue::{Finding, Id, Severity};
use crate::model::nccl_log::Transport;
use crate::model::topology::PathClass;
use crate::units;

/// Pairs that evidence lists; the rest is counted.
const LISTED: usize = 8;
/// Better this many NVLinks a pair than two are a sign of a switch or of a symmetric board: counts that differ are a fault.
/// Boards with one or two links a pair mix them by design.
const LINKS_BY_DESIGN: u32 = 2;

impl Facts<'_> {
    /// Findings with their evidence. `captured` holds, for each report, the NCCL and CUDA settings of its captured environment.
    pub fn findings(&self, captured: &[BTreeMap<String, String>]) -> Vec<Finding> {
        let settings = Settings { facts: self, captured };
        let mut out = Vec::new();
        out.extend(self.below_topology(&settings));
        out.extend(self.sockets(&settings));
        out.extend(self.missing_gdrdma(&settings));
        out.extend(self.distant_cards());
        out.extend(self.degraded_nvlink());
        out.extend(self.channel_mismatch());
        out.sort_by_key(|finding| finding.severity);
        out
    }

    /// Ranks of one host that go through host memory or a network although their GPUs reach each other directly.
    fn below_topology(&self, settings: &Settings<'_>) -> Vec<Finding> {
        let ends = |r: &Route| (r.comm, r.src, r.dst);
        let peers: BTreeSet<_> = self
            .routes
            .iter()
            .filter(|r| matches!(r.transport, Transport::P2p(_)))
            .map(ends)
            .collect();
        let mut groups: BTreeMap<(String, Option<PathClass>), Vec<&Route>> = BTreeMap::new();
        for route in
            self.routes.iter().filter(|r| r.same_host == Some(true) && !peers.contains(&ends(r)))
        {
            // A network between ranks of one host is never right; host memory is where nothing better is known.
            let nvlink_in_log = route.process.nvlink_gbs.is_some();
            if route.path.is_some_and(PathClass::is_peer)
                || (route.path.is_none() && nvlink_in_log)
                || !route.net.is_empty()
            {
                groups.entry((route.label.clone(), route.path)).or_default().push(route);
            }
        }
        groups
            .into_iter()
            .map(|((label, path), routes)| below_topology(&label, path, &routes, self, settings))
            .collect()
    }

    /// Sockets between hosts.
    fn sockets(&self, settings: &Settings<'_>) -> Option<Finding> {
        let routes: Vec<&Route> = self
            .routes
            .iter()
            .filter(|r| r.label == "NET/Socket" && r.same_host != Some(true))
            .collect();
        let first = routes.first()?;
        let in_log = || {
            routes
                .iter()
                .filter_map(|r| r.process.net_devices.get("IB"))
                .flat_map(|devices| devices.values().cloned())
        };
        let in_topology =
            || self.topology.iter().flat_map(|t| t.nic_paths.keys()).map(|(_, nic)| nic.clone());
        let cards: BTreeSet<String> = in_log().chain(in_topology()).collect();
        let culprits =
            settings.found(&["NCCL_IB_DISABLE", "NCCL_NET", "NCCL_IB_HCA", "NCCL_NET_PLUGIN"]);
        if cards.is_empty() {
            let title =
                "Hosts exchange data through TCP sockets: NCCL found no InfiniBand or RoCE device.";
            let finding = Finding::new(Id::SocketTransport, title)
                .weighing(Severity::Medium)
                .with("network", json!(first.process.network))
                .advice("If the machines have such cards, make them visible to the processes (drivers, libibverbs, container devices) and look at the NET/IB lines of NCCL_DEBUG_SUBSYS=INIT,NET.");
            return Some(with_settings(with_routes(finding, &routes), &culprits));
        }
        let advice = match culprits.first() {
            Some(setting) => format!("Remove {} ({}).", setting.text(), setting.found_in),
            None => "Run with NCCL_DEBUG_SUBSYS=INIT,NET and look at why NET/IB is not chosen."
                .to_owned(),
        };
        let title = format!(
            "Hosts exchange data through TCP sockets although they have network cards for RDMA ({}).",
            list(&cards)
        );
        let finding =
            Finding::new(Id::SocketsDespiteRdma, title).with("cards", json!(cards)).advice(advice);
        Some(with_settings(with_routes(finding, &routes), &culprits))
    }

    /// Networks other than sockets where GPU and card do not exchange data directly.
    fn missing_gdrdma(&self, settings: &Settings<'_>) -> Option<Finding> {
        let mut cards: BTreeMap<String, bool> = BTreeMap::new();
        let mut paths: BTreeSet<PathClass> = BTreeSet::new();
        let mut without: Vec<&Route> = Vec::new();
        for route in &self.routes {
            for net in route.net.iter().filter(|net| net.plugin != "Socket") {
                let name = card_name(route, &net.plugin, net.device);
                *cards.entry(name.clone()).or_insert(true) &= net.gdrdma;
                if !net.gdrdma {
                    let near = [route.src_gpu, route.dst_gpu]
                        .into_iter()
                        .flatten()
                        .filter_map(|gpu| self.topology?.to_nic(gpu, &name))
                        .min();
                    paths.extend(near);
                    without.push(route);
                }
            }
        }
        if without.is_empty() {
            return None;
        }
        let missing: BTreeSet<String> =
            cards.iter().filter(|(_, direct)| !**direct).map(|(name, _)| name.clone()).collect();
        let culprits =
            settings.found(&["NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ", "NCCL_IB_GDR_LEVEL"]);
        // By default NCCL uses it up to PXB, so across a host bridge its absence is not a fault.
        let too_far = !paths.is_empty() && paths.iter().all(|path| !path.is_peer());
        let advice = match culprits.first() {
            Some(setting) => format!("Remove {} ({}).", setting.text(), setting.found_in),
            None if too_far => {
                "Cards and GPUs meet at a host bridge; NCCL_NET_GDR_LEVEL=SYS uses GPU Direct RDMA there too: measure whether it helps."
                    .to_owned()
            }
            None => "Load nvidia-peermem (or use a kernel with DMA-BUF) on every host, and check that PCIe ACS is off.".to_owned(),
        };
        let title = format!(
            "Data to and from the network takes the way through host memory: no GPU Direct RDMA on {}.",
            list(&missing)
        );
        let paths: Vec<_> = paths.iter().map(|path| path.label()).collect();
        let finding = Finding::new(Id::MissingGdrdma, title)
            .weighing(if too_far { Severity::Info } else { Severity::Medium })
            .with("cards_without_gdrdma", json!(missing))
            .with("cards_with_gdrdma", cards.len() - missing.len())
            .with("topology", paths)
            .advice(advice);
        Some(with_settings(with_routes(finding, &without), &culprits))
    }

    /// GPUs that use a card across a host bridge although another card is nearer.
    fn distant_cards(&self) -> Option<Finding> {
        let topology = self.topology?;
        let mut used: BTreeMap<(u32, String), (PathClass, String, PathClass)> = BTreeMap::new();
        for route in &self.routes {
            // With a proxy the data leaves from another GPU.
            for net in route.net.iter().filter(|net| !net.proxied) {
                let name = card_name(route, &net.plugin, net.device);
                // The line names the device of the process that printed it.
                let own = route.process.comms.iter().find(|comm| Some(comm.key) == route.comm);
                let Some(gpu) =
                    own.and_then(
                        |own| if own.rank == route.src { route.src_gpu } else { route.dst_gpu },
                    )
                else {
                    continue;
                };
                let Some(path) = topology.to_nic(gpu, &name) else { continue };
                let nearest = topology
                    .nic_paths
                    .iter()
                    .filter(|((g, _), _)| *g == gpu)
                    .min_by_key(|((_, nic), path)| (**path, nic.clone()));
                if let Some(((_, near), near_path)) =
                    nearest.filter(|(_, near)| near.is_peer() && !path.is_peer())
                {
                    used.insert((gpu, name), (path, near.clone(), *near_path));
                }
            }
        }
        if used.is_empty() {
            return None;
        }
        let row = |((gpu, card), (path, near, near_path)): (
            &(u32, String),
            &(PathClass, String, PathClass),
        )| json!({ "gpu": gpu, "card": card, "path": path.label(), "nearest": near, "nearest_path": near_path.label() });
        let title = "GPUs use a network card across a host bridge although another card is nearer.";
        let finding = Finding::new(Id::DistantNetworkCard, title)
            .with("used", used.iter().take(LISTED).map(row).collect::<Vec<_>>())
            .advice(
                "Check NCCL_IB_HCA and NCCL_CROSS_NIC, and that the process sees the near cards.",
            );
        Some(with_not_listed(finding, used.len()))
    }

    /// A machine whose GPUs are all linked by NVLink, some of them by fewer links.
    fn degraded_nvlink(&self) -> Option<Finding> {
        let topology = self.topology?;
        let mut links: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        for (i, &a) in topology.gpus.iter().enumerate() {
            for &b in topology.gpus.iter().skip(i + 1) {
                let Some(PathClass::NvLink(n)) = topology.between(a, b) else { return None };
                links.insert((a, b), n);
            }
        }
        let most = *links.values().max()?;
        let least = *links.values().min()?;
        if least == most || most <= LINKS_BY_DESIGN {
            return None;
        }
        // A GPU all of whose pairs have fewer is the one that lost links; else the pairs are named.
        let best = |gpu: u32| {
            links.iter().filter(|((a, b), _)| *a == gpu || *b == gpu).map(|(_, n)| *n).max()
        };
        let weak: Vec<String> = topology
            .gpus
            .iter()
            .filter(|gpu| best(**gpu) < Some(most))
            .map(|gpu| format!("GPU{gpu}"))
            .collect();
        let pairs: Vec<String> = links
            .iter()
            .filter(|(_, n)| **n < most)
            .map(|((a, b), n)| format!("GPU{a}-GPU{b} NV{n}"))
            .collect();
        let who = if weak.is_empty() { list(&pairs) } else { list(&weak) };
        let title = format!(
            "NVLinks are missing at {who}: NV{least} where other pairs of this machine have NV{most}."
        );
        let finding = Finding::new(Id::DegradedNvlink, title)
            .with("topology", json!(topology.path))
            .with("pairs", json!(pairs.iter().take(LISTED).collect::<Vec<_>>()))
            .with("full_links", most)
            .advice("Every ring runs at the pace of its slowest link. Look at: nvidia-smi nvlink -s and nvidia-smi nvlink -e on that GPU.");
        Some(with_not_listed(finding, pairs.len()))
    }

    /// Ranks of one communicator that disagree about the number of channels.
    fn channel_mismatch(&self) -> Vec<Finding> {
        let mut out = Vec::new();
        for (key, members) in self.communicators() {
            let mut by_count: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
            for member in members {
                if let Some(channels) = member.comm.channels {
                    by_count.entry(channels.coll).or_default().push(member.comm.rank);
                }
            }
            if by_count.len() < 2 {
                continue;
            }
            let counts: Vec<String> = by_count
                .iter()
                .map(|(count, ranks)| format!("{count} on {}", plural(ranks.len(), "rank")))
                .collect();
            let title = format!(
                "Ranks of one communicator have different numbers of channels: {}.",
                units::listed(&counts, LISTED)
            );
            let mut finding = Finding::new(Id::ChannelCountDiffers, title)
                .with("comm_id", key.id())
                .advice("Give all ranks the same NCCL settings (NCCL_MIN_NCHANNELS, NCCL_MAX_NCHANNELS, NCCL_MAX_CTAS) and the same NCCL version.");
            for (count, ranks) in &by_count {
                let ranks: Vec<_> = ranks.iter().take(LISTED).collect();
                finding = finding.with(&format!("ranks_with_{count}_channels"), json!(ranks));
            }
            out.push(finding);
        }
        out
    }
}

fn below_topology(
    label: &str,
    path: Option<PathClass>,
    routes: &[&Route<'_>],
    facts: &Facts<'_>,
    settings: &Settings<'_>,
) -> Finding {
    let through = if label.starts_with("NET/") {
        format!("a network ({label})")
    } else {
        format!("host memory ({label})")
    };
    let linked = match path {
        Some(path) => format!("the GPUs are linked by {}", path.label()),
        None if routes.iter().any(|r| r.process.nvlink_gbs.is_some()) => {
            "NCCL's own topology shows NVLink".to_owned()
        }
        None => "they run on one host".to_owned(),
    };
    let nvlink = routes
        .iter()
        .filter_map(|r| r.process.nvlink_gbs)
        .fold(None, |most: Option<f64>, gbs| Some(most.map_or(gbs, |m| m.max(gbs))));
    let refused: BTreeSet<&str> = routes
        .iter()
        .filter_map(|r| facts.topology?.peer_access.get(&(r.src_gpu?, r.dst_gpu?)))
        .map(String::as_str)
        .filter(|status| *status != "OK")
        .collect();
    let mut names = vec!["NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL"];
    if label.starts_with("NET/") {
        // Ranks that call themselves different hosts do not even try.
        names.splice(0..0, ["NCCL_HOSTID"]);
        names.push("NCCL_SHM_DISABLE");
    }
    let culprits = settings.found(&names);
    let nodes = routes
        .iter()
        .filter_map(|r| r.comm.and_then(|key| facts.members.get(&(key, r.src))?.comm.nodes))
        .max();
    let cause = match culprits.first() {
        Some(setting) if setting.name == "NCCL_P2P_DISABLE" => {
            " P2P is disabled (NCCL_P2P_DISABLE).".to_owned()
        }
        Some(setting) if setting.name == "NCCL_HOSTID" => {
            " NCCL takes them for different hosts (NCCL_HOSTID).".to_owned()
        }
        Some(setting) => format!(" {} is set.", setting.name),
        None if !refused.is_empty() => " The driver refuses peer access.".to_owned(),
        None => String::new(),
    };
    let advice = match culprits.first() {
        Some(setting) if setting.name == "NCCL_HOSTID" => {
            format!("Give all ranks of one machine the same NCCL_HOSTID or unset it ({}: {}).", setting.found_in, setting.text())
        }
        Some(setting) => format!("Unset {} (it is set to {} in {}).", setting.name, setting.values(), setting.found_in),
        None if !refused.is_empty() => "Look at IOMMU, PCIe ACS and the hypervisor: nvidia-smi topo -p2p r shows which pairs are refused.".to_owned(),
        None => "Check peer access with nvidia-smi topo -p2p r, and that every process sees all GPUs of the machine and shares /dev/shm and the process namespace with the others.".to_owned(),
    };
    let severity = if path.is_none_or(|p| matches!(p, PathClass::NvLink(_))) {
        Severity::High
    } else {
        Severity::Medium
    };
    let title =
        format!("{} exchange data through {through} although {linked}.{cause}", ranks_text(routes));
    let mut finding =
        Finding::new(Id::TransportBelowTopology, title).weighing(severity).advice(advice);
    if let Some(path) = path {
        finding = finding
            .with("topology", path.label())
            .with("topology_file", json!(facts.topology.map(|t| &t.path)));
    }
    if let Some(gbs) = nvlink {
        finding = finding.with("nvlink_in_nccl_topology_gbs", gbs);
    }
    if !refused.is_empty() {
        finding = finding.with("peer_access", json!(refused));
    }
    if let Some(nodes) = nodes.filter(|n| *n > 1) {
        finding = finding.with("nodes_that_nccl_sees", nodes);
    }
    with_settings(with_routes(finding, routes), &culprits)
}

/// A setting that may be the cause, and where it was seen.
struct Setting {
    name: &'static str,
    seen: BTreeSet<String>,
    found_in: &'static str,
}

impl Setting {
    fn values(&self) -> String {
        list(&self.seen)
    }

    fn text(&self) -> String {
        format!("{}={}", self.name, self.values())
    }
}

/// Settings of the run, from the logs and from captured environments.
struct Settings<'a> {
    facts: &'a Facts<'a>,
    captured: &'a [BTreeMap<String, String>],
}

impl Settings<'_> {
    /// Those of `names` that are set to something that can be a cause, in this order.
    fn found(&self, names: &[&'static str]) -> Vec<Setting> {
        names.iter().filter_map(|name| self.find(name)).collect()
    }

    fn find(&self, name: &'static str) -> Option<Setting> {
        // A switch that is off is not a cause, nor is a name that all ranks share.
        let is_switch = name.ends_with("_DISABLE");
        let matters = |value: &&String| !(is_switch && value.trim() == "0");
        let logged: BTreeSet<String> = self
            .facts
            .processes()
            .filter_map(|p| p.settings.get(name))
            .filter(matters)
            .cloned()
            .collect();
        let captured: BTreeSet<String> =
            self.captured.iter().filter_map(|env| env.get(name)).filter(matters).cloned().collect();
        let found_in = match (logged.is_empty(), captured.is_empty()) {
            (true, true) => return None,
            (false, true) => "the NCCL log",
            (true, false) => "the captured environment",
            (false, false) => "the NCCL log and the captured environment",
        };
        let seen: BTreeSet<String> = logged.into_iter().chain(captured).collect();
        (name != "NCCL_HOSTID" || seen.len() > 1).then_some(Setting { name, seen, found_in })
    }
}

/// Adds the settings that may be the cause.
fn with_settings(finding: Finding, settings: &[Setting]) -> Finding {
    settings.iter().fold(finding, |finding, setting| {
        finding
            .with(setting.name, setting.values())
            .with(&format!("{}_found_in", setting.name), setting.found_in)
    })
}

/// Adds who exchanges data by what, over how many channels, according to which log.
fn with_routes(finding: Finding, routes: &[&Route<'_>]) -> Finding {
    let pairs: BTreeSet<(u32, u32)> = routes.iter().map(|r| (r.src, r.dst)).collect();
    let transports: BTreeSet<&str> = routes.iter().map(|r| r.label.as_str()).collect();
    let logs: BTreeSet<&str> = routes.iter().map(|r| r.log).collect();
    let listed: Vec<String> =
        pairs.iter().take(LISTED).map(|(src, dst)| format!("{src}->{dst}")).collect();
    let finding = finding
        .with("transport", units::listed(&transports.into_iter().collect::<Vec<_>>(), LISTED))
        .with("pairs", listed)
        .with("channels", json!(routes.iter().map(|r| r.channels.len()).max()))
        .with("nccl_logs", json!(logs));
    with_not_listed(finding, pairs.len())
}

/// Says how many of `all` a list of [`LISTED`] leaves out.
fn with_not_listed(finding: Finding, all: usize) -> Finding {
    if all > LISTED { finding.with("not_listed", all - LISTED) } else { finding }
}

fn ranks_text(routes: &[&Route<'_>]) -> String {
    let ranks: BTreeSet<u32> = routes.iter().flat_map(|r| [r.src, r.dst]).collect();
    if ranks.len() > LISTED {
        return plural(ranks.len(), "rank");
    }
    format!("Ranks {}", list(&ranks))
}

fn plural(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// `a, b and c`, at most [`LISTED`] of them.
fn list<'i, T: std::fmt::Display + 'i>(
    items: impl IntoIterator<Item = &'i T, IntoIter: ExactSizeIterator>,
) -> String {
    let items = items.into_iter();
    let rest = items.len().saturating_sub(LISTED);
    let mut shown: Vec<String> = items.take(LISTED).map(T::to_string).collect();
    if rest > 0 {
        shown.push(format!("{rest} more"));
    }
    match shown.pop() {
        Some(last) if !shown.is_empty() => format!("{} and {last}", shown.join(", ")),
        last => last.unwrap_or_default(),
    }
}

/// The name of a network device where the log has it, else plugin and index.
fn card_name(route: &Route<'_>, plugin: &str, device: u32) -> String {
    let known = route.process.net_devices.get(plugin).and_then(|devices| devices.get(&device));
    known.map_or_else(|| format!("NET/{plugin}/{device}"), Clone::clone)
}
