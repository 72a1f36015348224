use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use proptest::prelude::*;

use super::message::{Channel, Communicator, Malformed};
use super::*;
use crate::model::CommOp;
use crate::model::nccl_log::{Channels, Tuning};

/// One line of every form, with the versions that print it: columns first version, last version, form, line.
const FORMS: &str = include_str!("../../../tests/data/nccl_line_formats.tsv");

fn parse_text(text: &str) -> NcclLog {
    parse(text.as_bytes()).expect("reading from memory")
}

fn message(line: &str) -> std::result::Result<Message<'_>, Malformed> {
    message::parse(line::split(line).segment.expect("a message").message)
}

fn net(plugin: &str, device: u32, gdrdma: bool, proxy: Option<u32>) -> Transport {
    Transport::Net { plugin: plugin.to_owned(), device, gdrdma, proxy }
}

#[test]
fn every_form_of_every_version_is_read() {
    let p2p = |kind: &str| Transport::P2p(kind.to_owned());
    let comm = |comm, rank, n_ranks, nvml_dev, bus_id, id, split, stage| {
        Message::Communicator(Communicator {
            comm,
            rank,
            n_ranks,
            cuda_dev: 0,
            nvml_dev,
            bus_id,
            id,
            split,
            stage,
        })
    };
    let (a, b, c) = (0x37c6_a330, 0x0b94_bf80, 0x6302_59b4_32a0);
    let coll = |coll, nvls, p2p| Message::Channels(Channels { coll, nvls, p2p });
    let tuned = |op, bytes, algorithm: &str, protocol: Option<&str>, channels| {
        Message::Tuning(Tuning {
            op,
            bytes,
            algorithm: algorithm.to_owned(),
            protocol: protocol.map(str::to_owned),
            channels,
        })
    };
    let all_reduce = Some(CommOp::AllReduce);
    let sym = Some("AllReduce_RSxLDMC_AGxSTMC");
    // Channel lines: channel, ranks, transport. Read off the lines by eye, in the file's order.
    let channel = |channel, src, dst, transport: Transport| Some((channel, src, dst, transport));
    let channels = [
        channel(0, 0, 1, Transport::Shm("direct shared memory".to_owned())),
        channel(0, 0, 1, Transport::Shm("SHM/direct/direct".to_owned())),
        channel(0, 0, 1, Transport::Shm("SHM/CE/direct".to_owned())),
        channel(0, 0, 1, Transport::Shm("SHM/direct/direct".to_owned())),
        channel(0, 0, 1, Transport::Shm("SHM/CE/CE".to_owned())),
        channel(0, 0, 1, Transport::Shm("SHM/direct".to_owned())),
        channel(0, 0, 1, p2p("direct pointer")),
        channel(0, 0, 1, p2p("direct pointer")),
        channel(0, 0, 1, p2p("direct pointer")),
        channel(0, 0, 1, p2p("IPC")),
        channel(0, 0, 1, p2p("IPC")),
        channel(0, 0, 1, p2p("IPC")),
        channel(0, 0, 1, p2p("IPC")),
        channel(0, 0, 1, p2p("CUMEM")),
        channel(0, 0, 1, p2p("CUMEM")),
        channel(23, 0, 1, p2p("CUMEM")),
        channel(0, 3, 4, p2p("MNNVL")),
        channel(0, 0, 3, p2p("indirect")),
        channel(0, 0, 3, p2p("indirect")),
        channel(0, 0, 8, net("IB", 0, true, None)),
        channel(0, 8, 0, net("Socket", 0, false, None)),
        channel(1, 7, 8, net("IB", 1, true, None)),
        channel(2, 0, 8, net("IB", 2, true, Some(3))),
        channel(0, 0, 8, net("IB", 0, true, None)),
        channel(0, 8, 0, net("AWS Libfabric", 3, true, None)),
        channel(3, 0, 9, net("IB", 1, true, Some(1))),
    ];
    let expected = [
        Message::CollNet("SHARP"),
        Message::CollNet("SHARP"),
        Message::Other, // RCCL, checked below.
        comm(a, 0, 16, None, 0x4b000, None, None, Stage::Complete),
        comm(a, 0, 16, None, 0x4b000, Some(0x8d0b_2f0a_9f1c_3e77), None, Stage::Complete),
        comm(a, 0, 16, Some(0), 0x4b000, Some(0x8d0b_2f0a_9f1c_3e77), None, Stage::Start),
        comm(b, 0, 2, Some(0), 0x1d000, Some(0xf6bf_af54_66e2_b71f), None, Stage::Complete),
        comm(
            b,
            0,
            2,
            Some(0),
            0x1d000,
            Some(0xf6bf_af54_66e2_b71f),
            Some((0x0a94_bf80, None, 0)),
            Stage::Start,
        ),
        comm(b, 0, 2, Some(0), 0x1d000, None, Some((0x0a94_bf80, None, 0)), Stage::Start),
        comm(b, 0, 2, Some(0), 0x1d000, None, Some((0x0a94_bf80, Some(1), 0)), Stage::Complete),
        comm(b, 0, 2, Some(0), 0x1d000, None, Some((0x0a94_bf80, Some(1), 0)), Stage::Start),
        comm(c, 0, 2, Some(0), 0x30000, Some(0xc3d9_a103_50ef_fd4f), None, Stage::Start),
        comm(c, 0, 2, Some(0), 0x30000, Some(0xc3d9_a103_50ef_fd4f), None, Stage::Start),
        Message::Nodes { comm: c, nodes: 2 },
        comm(b, 0, 2, None, 0x1d000, None, None, Stage::Gone),
        comm(b, 0, 2, None, 0x1d000, None, None, Stage::Gone),
        Message::Other, // Ring order.
        Message::Other,
        Message::Other, // Trees.
        Message::Other, // Ring 00.
        Message::Other, // Tree 0.
        Message::Other, // Connected all rings.
        Message::Other,
        coll(24, None, Some(32)),
        coll(24, Some(16), Some(32)),
        coll(24, Some(16), Some(32)),
        tuned(None, 33_554_432, "RING", Some("SIMPLE"), None),
        tuned(all_reduce, 33_554_432, "RING", Some("SIMPLE"), None),
        tuned(all_reduce, 33_554_432, "RING", Some("SIMPLE"), Some(24)),
        tuned(all_reduce, 1_048_576, "Symmetric", sym, Some(16)),
        tuned(all_reduce, 1_048_576, "Symmetric", sym, Some(16)),
        tuned(Some(CommOp::AllGather), 16_777_216, "Copy Engine", None, None),
        Message::Other, // COLL: addresses and counts of one call.
        Message::Network("IB"),
        Message::Other, // Two warnings: their text is kept as it is.
        Message::Other,
        Message::Other, // The mpirun line, checked below.
        Message::Other, // Connected all trees.
    ];
    let lines: Vec<&str> =
        FORMS.lines().map(|row| row.split('\t').nth(3).expect("four columns")).collect();
    assert_eq!(lines.len(), channels.len() + expected.len());
    let (via, rest) = lines.split_at(channels.len());
    for (line, expected) in via.iter().zip(channels) {
        let Ok(Message::Channel(Channel { channel, src, dst, transport, .. })) = message(line)
        else {
            panic!("{line}")
        };
        assert_eq!(Some((channel, src, dst, transport)), expected, "{line}");
    }
    for (line, expected) in rest.iter().zip(expected) {
        if line.contains("comm 0x557519a97630") {
            let Ok(Message::Channel(found)) = message(line) else { panic!("{line}") };
            assert_eq!((found.src, found.dst, found.transport), (0, 1, p2p("IPC")));
        } else if line.starts_with("[1,6]") {
            let Ok(Message::Channel(found)) = message(line) else { panic!("{line}") };
            assert_eq!(
                (found.channel, found.src, found.dst, found.transport),
                (3, 15, 6, net("AWS Libfabric", 3, true, None))
            );
        } else {
            assert_eq!(message(line), Ok(expected), "{line}");
        }
    }
    // Taken together they are one process without a torn line.
    let log = parse_text(&lines.join("\n"));
    assert_eq!((log.lines, log.messages, log.torn), (64, 64, 0));
    assert_eq!(log.processes.len(), 1);
    assert_eq!(
        log.processes[0].warnings.keys().collect::<Vec<_>>(),
        ["Failed to initialize any NET plugin", "Net : connection failed"]
    );
    assert_eq!(log.processes[0].collnet.iter().collect::<Vec<_>>(), ["SHARP"]);
}

#[test]
fn messages_that_broke_off_are_malformed() {
    for text in [
        "Channel 00/0 : 0[0] -> 1[1] via P2cated shareable buffer 0x407000000",
        "Channel 00/0 : 0[0] -> 1[1] via SHM/dir",
        "Channel 00/0 : 0[0] -> 1[1] via P2P/CU",
        "Channel 00/0 : 0[0] -> 1[",
        "Channel 19/0CCL INFO Allocated shareable buffer",
        "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/",
        "CollNet 00/0 : 0 [receive] via COLLNET/SHARP/",
        "ncclCommInitRankConfig comm 0x630259b432a0 rank 0 nranks 2 cudaDev 0 nvmlD",
        "comm 0x630259b432a0 rank 0 nRanks 16 nNodes",
        "AllReduce: 33554432 Bytes -> Algo RING pro",
        "AllReduce: 335x Bytes -> Algo RING proto LL",
        "AllReduce: 5 Bytes -> Algo 9 proto 2 time 243.1",
        "x coll channels, 3 p2p channels",
        "NCCL version x",
        "  + NVL[370",
    ] {
        assert_eq!(message::parse(text), Err(Malformed), "{text}");
    }
}

#[test]
fn settings_and_network_devices() {
    let log = parse_text(
        "n:1:1 [0] NCCL INFO NCCL_NVLS_ENABLE set by environment to 0.\n\
         n:1:1 [0] NCCL INFO NCCL_HOSTID set by environment to node0\n\
         n:1:1 [0] NCCL INFO AWS_SECRET_ACCESS_KEY set by environment to hunter2\n\
         n:1:1 [0] NCCL INFO NET/IB : No device found.\n\
         n:1:1 [0] NCCL INFO NET/IB : Using [RO]; OOB eth0:192.0.2.2<0>\n\
         n:1:1 [0] NCCL INFO NET/Socket : Using [0]eth0:192.0.2.2<0> [1]eth1:192.0.2.3<0>\n\
         n:2:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:192.0.2.2<0>\n\
         n:2:2 [0] NCCL INFO Using network IB\n",
    );
    let [first, second] = &log.processes[..] else { panic!("two processes") };
    let settings: Vec<_> = first.settings.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(settings, [("NCCL_HOSTID", "node0"), ("NCCL_NVLS_ENABLE", "0")]);
    assert!(first.net_devices["IB"].is_empty(), "`[RO]` is a flag, not a device");
    // Names only: addresses are nobody's business.
    assert_eq!(
        first.net_devices["Socket"],
        BTreeMap::from([(0, "eth0".to_owned()), (1, "eth1".to_owned())])
    );
    assert_eq!(
        second.net_devices["IB"],
        BTreeMap::from([(0, "mlx5_0".to_owned()), (1, "mlx5_1".to_owned())])
    );
    assert_eq!(second.network.as_deref(), Some("IB"));
}

#[test]
fn a_torn_host_name_is_the_same_process() {
    // `vm:63` of one process stands in front of the first whole line of another; either may come first.
    let torn = "vm:63vm:628:628 [1] NCCL INFO NCCL_HOSTID set by environment to node1\n";
    let clean = "vm:628:628 [1] NCCL INFO Using network Socket\n";
    for text in [format!("{torn}{clean}"), format!("{clean}{torn}")] {
        let log = parse_text(&text);
        let [process] = &log.processes[..] else { panic!("one process: {:?}", log.processes) };
        assert_eq!((process.host.as_str(), process.pid), ("vm", 628));
        assert_eq!(process.settings["NCCL_HOSTID"], "node1");
        assert_eq!(process.network.as_deref(), Some("Socket"));
    }
    // Two hosts, one pid, unrelated names: two processes.
    let log = parse_text(
        "a1:7:7 [0] NCCL INFO Using network IB\nb1:7:7 [0] NCCL INFO Using network IB\n",
    );
    assert_eq!(log.processes.len(), 2);
}

#[test]
fn connections_go_to_the_communicator_that_the_thread_is_making() {
    // One thread makes a world of 4, then a pair inside it; at first use a connection of either could be meant.
    let log = parse_text(
        "n:1:1 [0] NCCL INFO ncclCommInitRank comm 0xa rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1a000 commId 0x11 - Init START\n\
         n:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n\
         n:1:1 [0] NCCL INFO 24 coll channels, 24 collnet channels, 0 nvls channels, 32 p2p channels, 32 p2p channels per peer\n\
         n:1:1 [0] NCCL INFO ncclCommInitRank comm 0xa rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1a000 commId 0x11 - Init COMPLETE\n\
         n:1:1 [0] NCCL INFO ncclCommSplit comm 0xb rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1a000 parent 0xa splitCount 1 color 0 key 0 - Init START\n\
         n:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[2] via P2P/CUMEM\n\
         n:1:1 [0] NCCL INFO comm 0xb rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0\n\
         n:1:1 [0] NCCL INFO 8 coll channels, 8 p2p channels, 8 p2p channels per peer\n\
         n:1:1 [0] NCCL INFO ncclCommSplit comm 0xb rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1a000 parent 0xa splitCount 1 color 0 key 0 - Init COMPLETE\n\
         n:1:9 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM\n\
         n:1:9 [0] NCCL INFO Channel 01/0 : 3[3] -> 0[0] via P2P/CUMEM\n",
    );
    let process = &log.processes[0];
    let [world, pair] = &process.comms[..] else { panic!("two communicators") };
    assert_eq!((world.key, world.channels.map(|c| c.coll)), (CommKey::Id(0x11), Some(24)));
    assert_eq!(
        (pair.key, pair.channels.map(|c| c.coll), pair.nodes),
        (CommKey::Split(0x11, Some(1), 0), Some(8), Some(1))
    );
    let owners: Vec<_> =
        process.links.keys().map(|l| (l.channel, l.src, l.dst, l.comms.clone())).collect();
    assert_eq!(
        owners,
        [(0, 0, 1, vec![0]), (1, 3, 0, vec![0]), (1, 0, 1, vec![0, 1]), (0, 0, 1, vec![1])]
    );
}

#[test]
fn an_old_log_names_its_communicator_after_the_connections() {
    let log = parse_text(
        "n:1:1 [0] NCCL INFO Channel 00 : 0[1a000] -> 1[3d000] via SHM/direct/direct\n\
         n:1:1 [0] NCCL INFO comm 0xa rank 0 nranks 2 cudaDev 0 busId 1a000 - Init COMPLETE\n",
    );
    let link = log.processes[0].links.keys().next().expect("a link");
    assert_eq!(link.comms, [0]);
    // Before 2.18.3 the brackets hold bus ids.
    assert_eq!(
        (link.src_device, link.dst_device),
        (
            Device { nvml: None, bus_id: Some(0x1a000) },
            Device { nvml: None, bus_id: Some(0x3d000) }
        )
    );
    assert_eq!(log.processes[0].comms[0].key, CommKey::Unnamed(2, 0));
}

#[test]
fn an_address_is_used_again_after_its_communicator_is_gone() {
    let line = |id: &str, stage: &str| {
        format!(
            "n:1:1 [0] NCCL INFO comm 0xa rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1a000 commId {id} - {stage}\n"
        )
    };
    let log = parse_text(
        &[
            line("0x1", "Init START"),
            line("0x1", "Init COMPLETE"),
            line("0x1", "Destroy COMPLETE"),
            line("0x2", "Init START"),
        ]
        .concat(),
    );
    assert_eq!(
        log.processes[0].comms.iter().map(|c| c.key).collect::<Vec<_>>(),
        [CommKey::Id(1), CommKey::Id(2)]
    );
}

#[test]
fn a_version_without_prefix_is_found_and_a_long_line_is_skipped() {
    let text = format!(
        "NCCL version 2.19.3+cuda12.3\n{}\nn:1:1 [0] NCCL INFO Using network IB\n",
        "x".repeat(200_000)
    );
    let log = parse_text(&text);
    assert_eq!(log.versions.iter().collect::<Vec<_>>(), ["2.19.3+cuda12.3"]);
    assert_eq!((log.lines, log.messages), (3, 1));
}

/// The real logs, if the folder with them lies beside the project.
fn real(name: &str) -> Option<NcclLog> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data").join(name);
    if !path.exists() {
        println!("skipped: {name} is not here");
        return None;
    }
    Some(read(&path).expect("a log"))
}

fn transports(log: &NcclLog) -> BTreeMap<(u32, u32, String), usize> {
    let mut out = BTreeMap::new();
    for link in log.processes.iter().flat_map(|p| p.links.keys()) {
        *out.entry((link.src, link.dst, link.transport.label())).or_default() += 1;
    }
    out
}

#[test]
fn real_log_through_shared_memory() {
    let Some(log) = real("shm/shm-2gpu.nccl.log") else { return };
    // Counted with grep: 273 lines, 236 with the mark, of which one holds two.
    assert_eq!((log.lines, log.messages, log.torn), (273, 236, 1));
    assert_eq!(log.versions.iter().collect::<Vec<_>>(), ["2.28.9+cuda13.0"]);
    let shm = "SHM/direct/direct".to_owned();
    assert_eq!(transports(&log), BTreeMap::from([((0, 1, shm.clone()), 4), ((1, 0, shm), 4)]));
    let [one, zero] = &log.processes[..] else { panic!("two processes") };
    assert_eq!((one.pid, one.comms[0].rank, zero.pid, zero.comms[0].rank), (984, 1, 987, 0));
    assert_eq!(zero.comms[0].key, CommKey::Id(0xfa01_2817_699a_0bae));
    assert_eq!(zero.comms[0].channels.map(|c| c.coll), Some(4));
    assert_eq!(one.settings["NCCL_P2P_DISABLE"], "1");
    assert_eq!(one.nvlink_gbs, Some(370.8));
    let tuned =
        zero.tuning.iter().find(|(t, _)| t.bytes == 1_226_141_600).expect("the large AllReduce");
    assert_eq!(
        (tuned.0.algorithm.as_str(), tuned.0.protocol.as_deref(), tuned.0.channels, *tuned.1),
        ("RING", Some("SIMPLE"), Some(4), 11)
    );
}

#[test]
fn real_log_through_sockets() {
    let Some(log) = real("socket/socket-2node.nccl.log") else { return };
    let socket = "NET/Socket".to_owned();
    // Two channels, each printed by its sender and its receiver.
    assert_eq!(
        transports(&log),
        BTreeMap::from([((0, 1, socket.clone()), 4), ((1, 0, socket), 4)])
    );
    assert!(log.torn >= 4, "{}", log.torn);
    let comms: Vec<_> =
        log.processes.iter().flat_map(|p| &p.comms).map(|c| (c.key, c.nodes)).collect();
    assert_eq!(comms, [(CommKey::Id(0x6d12_c3cd_7626_4d13), Some(2)); 2]);
    let hosts: Vec<_> = log
        .processes
        .iter()
        .map(|p| (p.host.as_str(), p.pid, p.settings["NCCL_HOSTID"].as_str()))
        .collect();
    assert_eq!(hosts, [("vm", 628, "node1"), ("vm", 631, "node0")]);
}

#[test]
fn real_logs_over_nvlink() {
    for name in [
        "nvlink/ddp-2gpu.nccl.log",
        "nvlink/ddp-2gpu-bucket100.nccl.log",
        "collectives/coll-2gpu.nccl.log",
    ] {
        let Some(log) = real(name) else { return };
        let found = transports(&log);
        assert!(found.keys().all(|(_, _, transport)| transport == "P2P/CUMEM"), "{found:?}");
        assert_eq!(
            log.processes.iter().map(|p| p.host.as_str()).collect::<BTreeSet<_>>(),
            BTreeSet::from(["vm"])
        );
    }
    let Some(log) = real("nvlink/ddp-2gpu.nccl.log") else { return };
    let cumem = "P2P/CUMEM".to_owned();
    // 24 channels each way; the line of one broke off after `Channel 19/0`.
    assert_eq!(
        transports(&log),
        BTreeMap::from([((0, 1, cumem.clone()), 23), ((1, 0, cumem), 24)])
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2048)) {
        let log = parse(&bytes[..]).expect("reading from memory");
        prop_assert_eq!(log.lines, bytes.split_inclusive(|b| *b == b'\n').count() as u64);
    }

    /// Real forms cut and glued at random: what is read never panics, and every mark is a message or torn.
    #[test]
    fn torn_forms_never_panic(cuts in proptest::collection::vec((0usize..64, 0usize..200, any::<bool>()), 0..40)) {
        let lines: Vec<&str> = FORMS.lines().collect();
        let mut text = String::new();
        for (line, cut, newline) in cuts {
            text.extend(lines[line].chars().skip(cut / 2).take(cut));
            if newline { text.push('\n'); }
        }
        let log = parse(text.as_bytes()).expect("reading from memory");
        prop_assert!(log.messages <= log.lines);
    }
}

// NCCL 2.4 says `Ring`, and leaves the device out where a rank is on another host.
#[test]
fn rings_of_2_4_are_connections_and_a_host_may_stand_in_brackets() {
    let log = parse_text(
        "<na>:10:11 [0] NCCL INFO Ring 00 : 0[0] -> 2[2] via P2P/IPC\n\
         <na>:12:13 [2] NCCL INFO Ring 00 : 6 -> 2 [receive] via NET/IB/0\n\
         <na>:12:13 [2] NCCL INFO Ring 01 : 2 -> 1 -> 0\n\
         <na>:12:13 [2] NCCL INFO CollNet 00 : 2 [send] via COLLNET/SHARP/1/GDRDMA/Shared\n\
         <na>:12:13 [2] NCCL INFO CollNet plugin loaded\n",
    );
    assert_eq!((log.messages, log.torn, log.processes.len()), (5, 0, 2));
    let [first, second] = log.processes.as_slice() else { panic!("two processes") };
    assert_eq!((first.host.as_str(), first.pid, second.pid), ("na", 10, 12));
    let link = |process: &Process| process.links.keys().next().cloned().expect("a link");
    let (near, far) = (link(first), link(second));
    assert_eq!(
        (near.src, near.dst, near.transport.clone()),
        (0, 2, Transport::P2p("IPC".to_owned()))
    );
    assert_eq!((near.src_device.nvml, near.dst_device.nvml), (Some(0), Some(2)));
    assert_eq!((far.src, far.dst, far.transport.clone()), (6, 2, net("IB", 0, false, None)));
    assert_eq!(far.src_device, Device::default());
    assert_eq!(second.collnet, BTreeSet::from(["SHARP".to_owned()]));
}
