use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::catalogue::{Class, Finding, Id, Severity};
use crate::ingest::{nccl_log, topo};

fn log(lines: &[String]) -> NcclLog {
    let mut log = nccl_log::parse(lines.join("\n").as_bytes()).expect("reading from memory");
    log.path = "run.nccl.log".to_owned();
    log
}

/// A rank of a communicator of `n` on `host`: pid 100 + rank, GPU `gpu`.
fn init(host: &str, rank: u32, n: u32, gpu: u32) -> String {
    format!(
        "{} ncclCommInitRankConfig comm 0x{rank}f rank {rank} nranks {n} cudaDev {gpu} nvmlDev {gpu} busId {gpu}a000 commId 0xabc - Init START",
        prefix(host, rank)
    )
}

fn prefix(host: &str, rank: u32) -> String {
    format!("{host}:{pid}:{pid} [0] NCCL INFO", pid = 100 + rank)
}

/// `channels` connections that rank `src` prints.
fn via(host: &str, src: u32, dst: u32, channels: u32, via: &str) -> Vec<String> {
    (0..channels)
        .map(|c| {
            format!(
                "{} Channel {c:02}/0 : {src}[{src}] -> {dst}[{dst}] via {via}",
                prefix(host, src)
            )
        })
        .collect()
}

/// Two ranks on one host.
fn two_ranks(transport: &str, more: &[&str]) -> NcclLog {
    let mut lines = vec![init("n0", 0, 2, 0), init("n0", 1, 2, 1)];
    lines.extend(via("n0", 0, 1, 4, transport));
    lines.extend(via("n0", 1, 0, 4, transport));
    lines.extend(more.iter().map(|message| format!("{} {message}", prefix("n0", 0))));
    log(&lines)
}

fn matrix(rows: &[&str]) -> Topology {
    let header: Vec<String> = (0..rows.len()).map(|gpu| format!("GPU{gpu}")).collect();
    let rows = rows.iter().enumerate().map(|(gpu, row)| format!("GPU{gpu} {row}"));
    let text =
        format!("{} CPU Affinity\n{}", header.join(" "), rows.collect::<Vec<_>>().join("\n"));
    topo::parse(&text).expect("a matrix")
}

fn one(findings: Vec<Finding>) -> Finding {
    assert_eq!(findings.len(), 1, "{findings:#?}");
    findings.into_iter().next().expect("one")
}

fn environment(name: &str, value: &str) -> Vec<BTreeMap<String, String>> {
    vec![BTreeMap::from([(name.to_owned(), value.to_owned())])]
}

#[test]
fn shared_memory_between_linked_gpus() {
    let (log, topology) = ([two_ranks("SHM/direct/direct", &[])], matrix(&["X NV18", "NV18 X"]));
    let facts = Facts::new(&log, Some(&topology));
    let finding = one(facts.findings(&environment("NCCL_P2P_DISABLE", "1")));
    assert_eq!(
        (finding.id.as_str(), finding.severity),
        ("transport-below-topology", Severity::High)
    );
    assert_eq!(
        finding.title,
        "Ranks 0 and 1 exchange data through host memory (SHM/direct/direct) although the GPUs are linked by NV18. P2P is disabled (NCCL_P2P_DISABLE)."
    );
    assert_eq!(finding.evidence["channels"], 4);
    assert_eq!(finding.evidence["topology"], "NV18");
    assert_eq!(finding.evidence["nccl_logs"][0], "run.nccl.log");
    assert_eq!(
        finding.advice.as_deref(),
        Some("Unset NCCL_P2P_DISABLE (it is set to 1 in the captured environment).")
    );
    // Without a known cause the advice is to look for it; a switch that is off is not a cause.
    let finding = one(facts.findings(&environment("NCCL_P2P_DISABLE", "0")));
    assert!(
        finding.title.ends_with("linked by NV18.")
            && finding.advice.is_some_and(|advice| advice.contains("topo -p2p r"))
    );
}

#[test]
fn shared_memory_is_right_across_host_bridges() {
    for (path, expected) in [
        ("PIX", Some(Severity::Medium)),
        ("PXB", Some(Severity::Medium)),
        ("PHB", None),
        ("NODE", None),
        ("SYS", None),
    ] {
        let (log, topology) = (
            [two_ranks("SHM/direct/direct", &[])],
            matrix(&[&format!("X {path}"), &format!("{path} X")]),
        );
        let found = Facts::new(&log, Some(&topology)).findings(&[]);
        assert_eq!(found.first().map(|f| f.severity), expected, "{path}");
    }
}

#[test]
fn peer_to_peer_needs_no_finding_and_neither_does_the_unknown() {
    let topology = matrix(&["X NV18", "NV18 X"]);
    for log in [
        [two_ranks("P2P/CUMEM", &[])],
        [two_ranks("P2P/CUMEM/read", &["NCCL_P2P_DISABLE set by environment to 0"])],
    ] {
        assert_eq!(Facts::new(&log, Some(&topology)).findings(&[]), []);
    }
    // Host memory without a topology: nothing says that better is possible ...
    assert_eq!(Facts::new(&[two_ranks("SHM/direct/direct", &[])], None).findings(&[]), []);
    // ... unless NCCL's own topology does.
    let log = [two_ranks("SHM/direct/direct", &["              + NVL[370.8] - NVS/0-0"])];
    let finding = one(Facts::new(&log, None).findings(&[]));
    assert!(finding.title.contains("NCCL's own topology shows NVLink"), "{}", finding.title);
    // A matrix that leaves NVLink out is not evidence.
    let hidden = Topology { hides_nvlink: true, ..matrix(&["X PIX", "PIX X"]) };
    let log = [two_ranks("SHM/direct/direct", &[])];
    let facts = Facts::new(&log, Some(&hidden));
    assert_eq!(facts.findings(&[]), []);
    assert_eq!(
        facts.warnings().iter().map(|w| w.code.as_str()).collect::<Vec<_>>(),
        ["topology-without-nvlink"]
    );
}

#[test]
fn refused_peer_access_is_the_cause_that_is_named() {
    let mut topology = matrix(&["X NV4", "NV4 X"]);
    topology.peer_access = BTreeMap::from([((0, 1), "CNS".to_owned()), ((1, 0), "OK".to_owned())]);
    let log = [two_ranks("SHM/direct/direct", &[])];
    let finding = one(Facts::new(&log, Some(&topology)).findings(&[]));
    assert!(finding.title.ends_with("The driver refuses peer access."), "{}", finding.title);
    assert_eq!(finding.evidence["peer_access"][0], "CNS");
}

#[test]
fn one_host_that_is_taken_for_two() {
    let mut lines = vec![init("vm", 0, 2, 0), init("vm", 1, 2, 1)];
    for (rank, other) in [(0, 1), (1, 0)] {
        lines.push(format!("{} NCCL_HOSTID set by environment to node{rank}", prefix("vm", rank)));
        lines.push(format!(
            "{} comm 0x{rank}f rank {rank} nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0",
            prefix("vm", rank)
        ));
        lines.push(format!(
            "{} Channel 00/0 : {other}[{other}] -> {rank}[{rank}] [receive] via NET/Socket/0",
            prefix("vm", rank)
        ));
        lines.push(format!(
            "{} Channel 00/0 : {rank}[{rank}] -> {other}[{other}] [send] via NET/Socket/0",
            prefix("vm", rank)
        ));
    }
    let log = [log(&lines)];
    let finding = one(Facts::new(&log, None).findings(&[]));
    assert!(finding.title.starts_with(
        "Ranks 0 and 1 exchange data through a network (NET/Socket) although they run on one host."
    ));
    assert_eq!(finding.evidence["NCCL_HOSTID"], "node0 and node1");
    assert_eq!(finding.evidence["nodes_that_nccl_sees"], 2);
    assert!(finding.advice.is_some_and(|advice| {
        advice.starts_with("Give all ranks of one machine the same NCCL_HOSTID")
    }));
    // Two ranks at the same GPU of "one" host are two machines of one name.
    let twins = lines
        .iter()
        .map(|line| {
            line.replace("cudaDev 1 nvmlDev 1 busId 1a000", "cudaDev 0 nvmlDev 0 busId 0a000")
        })
        .collect::<Vec<_>>();
    let log = [self::log(&twins)];
    assert_eq!(one(Facts::new(&log, None).findings(&[])).id, Id::SocketTransport);
}

#[test]
fn sockets_between_hosts() {
    let lines = |network: &str| {
        let mut lines = vec![
            init("n0", 0, 2, 0),
            init("n1", 1, 2, 0),
            format!("{} {network}", prefix("n0", 0)),
        ];
        lines.extend(via("n0", 0, 1, 2, "NET/Socket/0"));
        [log(&lines)]
    };
    let log = lines("NET/IB : Using [RO]; OOB eth0:192.0.2.2<0>");
    let finding = one(Facts::new(&log, None).findings(&[]));
    assert_eq!((finding.id.as_str(), finding.severity), ("socket-transport", Severity::Medium));
    let log = lines("NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:192.0.2.2<0>");
    let finding = one(Facts::new(&log, None).findings(&environment("NCCL_IB_DISABLE", "1")));
    assert_eq!((finding.id.as_str(), finding.severity), ("sockets-despite-rdma", Severity::High));
    assert!(finding.title.contains("(mlx5_0 and mlx5_1)"), "{}", finding.title);
    assert_eq!(
        finding.advice.as_deref(),
        Some("Remove NCCL_IB_DISABLE=1 (the captured environment).")
    );
}

#[test]
fn network_without_gpu_direct_rdma() {
    let lines = |second: &str| {
        let mut lines = vec![init("n0", 0, 2, 0), init("n1", 1, 2, 0)];
        lines.push(format!(
            "{} NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:192.0.2.2<0>",
            prefix("n0", 0)
        ));
        lines.extend(via("n0", 0, 1, 1, "NET/IB/0/GDRDMA"));
        lines.extend(via("n0", 0, 1, 1, second));
        [log(&lines)]
    };
    assert_eq!(Facts::new(&lines("NET/IB/1/GDRDMA(PCI)"), None).findings(&[]), []);
    let log = lines("NET/IB/1");
    let facts = Facts::new(&log, None);
    let finding = one(facts.findings(&[]));
    assert_eq!((finding.id.as_str(), finding.severity), ("missing-gdrdma", Severity::Medium));
    assert_eq!(
        (&finding.evidence["cards_without_gdrdma"][0], &finding.evidence["cards_with_gdrdma"]),
        (&"mlx5_1".into(), &1.into())
    );
    assert_eq!(facts.view().pairs[0].gdrdma, Some(false));
    // The card hangs on another host bridge: no fault, and the other card is nearer.
    let topology =
        topo::parse("GPU0 mlx5_0 mlx5_1 CPU Affinity\nGPU0 X PIX SYS 0-3\n").expect("a matrix");
    let found = Facts::new(&log, Some(&topology)).findings(&[]);
    assert_eq!(
        found.iter().map(|f| (f.id.as_str(), f.severity)).collect::<Vec<_>>(),
        [("distant-network-card", Severity::Medium), ("missing-gdrdma", Severity::Info)]
    );
    assert_eq!(found[0].evidence["used"][0]["nearest"], "mlx5_0");
}

#[test]
fn missing_nvlinks_of_one_gpu_or_one_pair() {
    let found = |rows: &[&str]| Facts::new(&[], Some(&matrix(rows))).findings(&[]);
    let gpu2 = one(found(&[
        "X NV18 NV16 NV18",
        "NV18 X NV16 NV18",
        "NV16 NV16 X NV16",
        "NV18 NV18 NV16 X",
    ]));
    assert_eq!(
        gpu2.title,
        "NVLinks are missing at GPU2: NV16 where other pairs of this machine have NV18."
    );
    assert_eq!(
        gpu2.evidence["pairs"],
        serde_json::json!(["GPU0-GPU2 NV16", "GPU1-GPU2 NV16", "GPU2-GPU3 NV16"])
    );
    assert!(gpu2.evidence.get("not_listed").is_none());
    let pair = one(found(&["X NV4 NV4", "NV4 X NV3", "NV4 NV3 X"]));
    assert!(pair.title.contains("GPU1-GPU2 NV3"), "{}", pair.title);
    // Equal counts, boards that mix one and two links by design, and pairs without NVLink are whole.
    assert_eq!(found(&["X NV6 NV6", "NV6 X NV6", "NV6 NV6 X"]), []);
    assert_eq!(found(&["X NV1 NV2", "NV1 X NV1", "NV2 NV1 X"]), []);
    assert_eq!(found(&["X NV4 SYS SYS", "NV4 X SYS SYS", "SYS SYS X NV2", "SYS SYS NV2 X"]), []);
}

#[test]
fn ranks_with_different_numbers_of_channels() {
    let mut lines = Vec::new();
    for (rank, channels) in [(0, 24), (1, 24), (2, 16)] {
        lines.push(init("n0", rank, 3, rank));
        lines.push(format!(
            "{} {channels} coll channels, {channels} collnet channels, 0 nvls channels, 32 p2p channels",
            prefix("n0", rank)
        ));
    }
    let log = [log(&lines)];
    let facts = Facts::new(&log, None);
    let finding = one(facts.findings(&[]));
    assert_eq!(finding.id, Id::ChannelCountDiffers);
    assert!(finding.title.ends_with("16 on 1 rank, 24 on 2 ranks."), "{}", finding.title);
    assert_eq!(facts.view().communicators[0].channels, [16, 24]);
}

/// For each rule what is just enough for it, and what is just not.
#[test]
fn rules_at_their_borders() {
    let links = |rows: &[&str]| Facts::new(&[], Some(&matrix(rows))).findings(&[]);
    let shared_memory = |path: &str| {
        let topology = matrix(&[&format!("X {path}"), &format!("{path} X")]);
        Facts::new(&[two_ranks("SHM/direct/direct", &[])], Some(&topology)).findings(&[])
    };
    let network = |route: &str, paths: &str| {
        let mut lines = vec![init("n0", 0, 2, 0), init("n1", 1, 2, 0)];
        let cards = "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:192.0.2.2<0>";
        lines.push(format!("{} {cards}", prefix("n0", 0)));
        lines.extend(via("n0", 0, 1, 1, route));
        let topology =
            topo::parse(&format!("GPU0 mlx5_0 mlx5_1 CPU Affinity\nGPU0 X {paths} 0-3\n"));
        Facts::new(&[log(&lines)], Some(&topology.expect("a matrix"))).findings(&[])
    };
    let channels = |counts: [u32; 3]| {
        let mut lines = Vec::new();
        for (rank, channels) in (0..).zip(counts) {
            let said = format!(
                "{channels} coll channels, 0 collnet channels, 0 nvls channels, 32 p2p channels"
            );
            lines.extend([init("n0", rank, 3, rank), format!("{} {said}", prefix("n0", rank))]);
        }
        Facts::new(&[log(&lines)], None).findings(&[])
    };
    let cases = [
        // Peer access is the default up to several switches, and not across a host bridge.
        (Id::TransportBelowTopology, shared_memory("PXB"), shared_memory("PHB")),
        // Boards with one and two links are made so; three and two are not.
        (
            Id::DegradedNvlink,
            links(&["X NV3 NV2", "NV3 X NV3", "NV2 NV3 X"]),
            links(&["X NV2 NV1", "NV2 X NV2", "NV1 NV2 X"]),
        ),
        (Id::ChannelCountDiffers, channels([24, 24, 23]), channels([24, 24, 24])),
        (
            Id::SocketTransport,
            sockets("n1", "NET/IB : No device found."),
            sockets("n0", "NET/IB : No device found."),
        ),
        (
            Id::SocketsDespiteRdma,
            sockets("n1", "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:192.0.2.2<0>"),
            sockets("n1", "NET/IB : Using [RO]; OOB eth0:192.0.2.2<0>"),
        ),
        (
            Id::MissingGdrdma,
            network("NET/IB/0", "PIX PIX"),
            network("NET/IB/0/GDRDMA(PCI)", "PIX PIX"),
        ),
        // The card in use is across a host bridge, or just not; the other is nearer in both cases.
        (
            Id::DistantNetworkCard,
            network("NET/IB/0/GDRDMA", "PHB PXB"),
            network("NET/IB/0/GDRDMA", "PXB PIX"),
        ),
    ];
    for (id, enough, not) in &cases {
        assert!(enough.iter().any(|f| f.id == *id), "{id} says nothing: {enough:#?}");
        assert!(!not.iter().any(|f| f.id == *id), "{id} speaks: {not:#?}");
    }
    let of_logs = Id::ALL.iter().filter(|id| {
        let needs = id.entry().rule.map_or(&[][..], |rule| rule.needs);
        needs.iter().any(|class| matches!(class, Class::NcclLog | Class::Topology))
    });
    for id in of_logs {
        assert!(cases.iter().any(|(case, ..)| case == id), "no case of {id}");
    }
}

/// What is found where two ranks exchange data through sockets, the second one on this host.
fn sockets(second: &str, network: &str) -> Vec<Finding> {
    let mut lines = vec![init("n0", 0, 2, 0), init(second, 1, 2, 1)];
    lines.push(format!("{} {network}", prefix("n0", 0)));
    lines.extend(via("n0", 0, 1, 2, "NET/Socket/0"));
    Facts::new(&[log(&lines)], None).findings(&[])
}

#[test]
fn the_peak_is_that_of_the_slowest_gpus_links() {
    let gbs = |log: &[NcclLog], topology: &Topology, gpu: &str| {
        Facts::new(log, Some(topology)).peak(None, gpu).map(|peak| peak.gbs)
    };
    let pair = matrix(&["X NV18", "NV18 X"]);
    assert_eq!(gbs(&[two_ranks("P2P/CUMEM", &[])], &pair, "NVIDIA H200"), Some(450.0));
    assert_eq!(gbs(&[], &pair, "NVIDIA H200"), Some(450.0));
    // Through host memory the links do not matter: PCIe 5.0 x16.
    let shm = gbs(&[two_ranks("SHM/direct/direct", &[])], &pair, "NVIDIA H200").expect("a peak");
    assert!((shm - 63.015).abs() < 0.001, "{shm}");
    // Four GPUs, six links a pair: 3 x 6 x 25. The same count behind a switch is not tripled.
    let direct = matrix(&["X NV6 NV6 NV6", "NV6 X NV6 NV6", "NV6 NV6 X NV6", "NV6 NV6 NV6 X"]);
    assert_eq!(gbs(&[], &direct, "NVIDIA H100 80GB HBM3"), Some(450.0));
    let switch = matrix(&["X NV12 NV12", "NV12 X NV12", "NV12 NV12 X"]);
    assert_eq!(gbs(&[], &switch, "NVIDIA A100-SXM4-40GB"), Some(300.0));
    // Two islands: no log says which way a ring goes. A network's rate is nowhere.
    let islands = matrix(&["X NV4 SYS", "NV4 X SYS", "SYS SYS X"]);
    assert_eq!(gbs(&[], &islands, "NVIDIA A100-PCIE-40GB"), None);
    assert_eq!(gbs(&[two_ranks("NET/Socket/0", &[])], &pair, "NVIDIA H200"), None);
    assert_eq!(gbs(&[], &pair, "NVIDIA Z9"), None);
    // A communicator that is in the logs is looked at alone; without topology P2P can be anything.
    let logs = [two_ranks("P2P/CUMEM", &[])];
    assert_eq!(
        Facts::new(&logs, Some(&pair))
            .peak(Some("0x0000000000000abc"), "NVIDIA H200")
            .map(|peak| peak.gbs),
        Some(450.0)
    );
    assert_eq!(Facts::new(&logs, None).peak(None, "NVIDIA H200"), None);
}

#[test]
fn old_logs_find_their_gpus_by_the_order_of_bus_ids() {
    let lines: Vec<String> = [(0, 0x3d000, 0x1a000), (1, 0x1a000, 0x3d000)]
        .iter()
        .flat_map(|(rank, own, other)| {
            let p = prefix("n0", *rank);
            let (rank, peer) = (*rank, 1 - *rank);
            [
                format!("{p} Channel 00 : {rank}[{own:x}] -> {peer}[{other:x}] via SHM/direct/direct"),
                format!("{p} comm 0x{rank}f rank {rank} nranks 2 cudaDev 0 busId {own:x} - Init COMPLETE"),
            ]
        })
        .collect();
    let (log, topology) = ([log(&lines)], matrix(&["X NV2", "NV2 X"]));
    let facts = Facts::new(&log, Some(&topology));
    let pairs: Vec<_> = facts
        .view()
        .pairs
        .iter()
        .map(|p| (p.src, p.dst, p.src_gpu, p.dst_gpu, p.topology.clone()))
        .collect();
    let nv2 = Some("NV2".to_owned());
    assert_eq!(pairs, [(0, 1, Some(1), Some(0), nv2.clone()), (1, 0, Some(0), Some(1), nv2)]);
    assert_eq!(one(facts.findings(&[])).id, Id::TransportBelowTopology);
}

#[test]
fn a_line_that_fits_two_communicators_counts_where_both_mean_the_same_gpus() {
    let mut lines = Vec::new();
    for rank in [0, 1] {
        lines.push(init("n0", rank, 2, rank).replace("Init START", "Init COMPLETE"));
        lines.push(
            init("n0", rank, 2, rank)
                .replace(&format!("comm 0x{rank}f"), &format!("comm 0x{rank}e"))
                .replace("0xabc - Init START", "0xdef - Init COMPLETE"),
        );
    }
    lines.extend(via("n0", 0, 1, 2, "P2P/CUMEM"));
    let log = [log(&lines)];
    let view = Facts::new(&log, None).view();
    assert_eq!(
        view.communicators.iter().map(|c| c.comm_id.as_deref()).collect::<Vec<_>>(),
        [Some("0x0000000000000abc"), Some("0x0000000000000def")]
    );
    assert_eq!(
        (view.pairs.len(), view.pairs[0].comm_id.as_deref(), view.pairs[0].channels),
        (1, Some("0x0000000000000abc"), 2)
    );
}

#[test]
fn torn_messages_and_nccls_own_warnings_are_passed_on() {
    let log = [log(&[
        "n0:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2Pn0:2:2 [0] NCCL INFO Using network IB".to_owned(),
        "n0:1:1 [0] misc/socket.cc:60 NCCL WARN Net : connection failed".to_owned(),
        "n0:1:1 [0] misc/socket.cc:60 NCCL WARN Net : connection failed".to_owned(),
    ])];
    let warnings = Facts::new(&log, None).warnings();
    assert_eq!(
        warnings.iter().map(|w| w.code.as_str()).collect::<Vec<_>>(),
        ["nccl-log-torn", "nccl-warning"]
    );
    assert_eq!(warnings[1].message, "NCCL warned on n0 pid 1 (2 times): Net : connection failed");
}

/// The real captures, if the folder with them lies beside the project.
fn real(name: &str) -> Option<(Vec<NcclLog>, Topology)> {
    let data = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    if !data.exists() {
        println!("skipped: {name} is not here");
        return None;
    }
    let log = nccl_log::read(&data.join(name)).expect("a log");
    Some((vec![log], topo::read(&data.join("topo/h200_2gpu_nvlink.txt")).expect("a matrix")))
}

#[test]
fn real_run_through_shared_memory() {
    let Some((logs, topology)) = real("shm/shm-2gpu.nccl.log") else { return };
    let facts = Facts::new(&logs, Some(&topology));
    let finding = one(facts.findings(&environment("NCCL_P2P_DISABLE", "1")));
    assert_eq!(
        finding.title,
        "Ranks 0 and 1 exchange data through host memory (SHM/direct/direct) although the GPUs are linked by NV18. P2P is disabled (NCCL_P2P_DISABLE)."
    );
    assert_eq!(
        finding.evidence["NCCL_P2P_DISABLE_found_in"],
        "the NCCL log and the captured environment"
    );
    let view = facts.view();
    assert_eq!(
        view.pairs
            .iter()
            .map(|p| (p.src, p.dst, p.transport.as_str(), p.channels, p.count))
            .collect::<Vec<_>>(),
        [(0, 1, "SHM/direct/direct", 4, 4), (1, 0, "SHM/direct/direct", 4, 4)]
    );
    assert_eq!(view.nccl_versions, ["2.28.9+cuda13.0"]);
    let all_reduce =
        view.algorithms.iter().find(|a| a.op.as_deref() == Some("AllReduce")).expect("AllReduce");
    assert_eq!(
        (all_reduce.algorithm.as_str(), all_reduce.protocol.as_deref(), all_reduce.max_bytes),
        ("RING", Some("SIMPLE"), 1_226_141_600)
    );
}

#[test]
fn real_runs_over_nvlink_and_sockets() {
    for name in [
        "nvlink/ddp-2gpu.nccl.log",
        "nvlink/ddp-2gpu-bucket100.nccl.log",
        "collectives/coll-2gpu.nccl.log",
    ] {
        let Some((logs, topology)) = real(name) else { return };
        let facts = Facts::new(&logs, Some(&topology));
        assert_eq!(facts.findings(&[]), [], "{name}");
        assert!(
            facts
                .view()
                .pairs
                .iter()
                .all(|p| p.transport == "P2P/CUMEM" && p.topology.as_deref() == Some("NV18")),
            "{name}"
        );
        assert_eq!(facts.peak(None, "NVIDIA H200").map(|peak| peak.gbs), Some(450.0), "{name}");
    }
    let Some((logs, topology)) = real("socket/socket-2node.nccl.log") else { return };
    let finding = one(Facts::new(&logs, Some(&topology)).findings(&[]));
    assert_eq!(
        finding.title,
        "Ranks 0 and 1 exchange data through a network (NET/Socket) although the GPUs are linked by NV18. NCCL takes them for different hosts (NCCL_HOSTID)."
    );
    assert_eq!(finding.evidence["NCCL_HOSTID"], "node0 and node1");
}

proptest! {
    /// Any mixture of lines, however contradictory, gives a view, findings and a peak, and the same ones every time.
    #[test]
    fn contradictory_logs_never_panic(picks in proptest::collection::vec((0usize..8, 0u32..5, 0u32..5, 0u32..5), 0..40), nv in 0u32..20) {
        let lines: Vec<String> = picks
            .into_iter()
            .map(|(kind, a, b, c)| match kind {
                0 => init("n0", a, b, c),
                1 => init("n1", a, b, c),
                2 => format!("{} Channel {c}/0 : {a}[{a}] -> {b}[{b}] via SHM/direct/direct", prefix("n0", a)),
                3 => format!("{} Channel {c}/1 : {a}[{a}] -> {b}[{b}] [send] via NET/IB/{c}({b})", prefix("n1", a)),
                4 => format!("{} Channel {c}/0 : {a}[{a}] -> {b}[{b}] via P2P/CUMEM", prefix("n0", b)),
                5 => format!("{} {b} coll channels, {c} p2p channels", prefix("n0", a)),
                6 => format!("{} NCCL_P2P_LEVEL set by environment to {b}", prefix("n1", a)),
                _ => format!("{} AllReduce: {b} Bytes -> Algo RING proto LL channel{{Lo..Hi}}={{{c}..{a}}}", prefix("n0", a)),
            })
            .collect();
        let (log, topology) = ([log(&lines)], matrix(&[&format!("X NV{nv} SYS"), &format!("NV{nv} X PIX"), "SYS PIX X"]));
        let facts = Facts::new(&log, Some(&topology));
        let _ = facts.peak(None, "NVIDIA H200");
        prop_assert_eq!((facts.view(), facts.findings(&[])), (facts.view(), facts.findings(&[])));
    }
}
