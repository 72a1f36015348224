//! What one NCCL message says. The forms of 2.12 to 2.30 are read by one reader each: fields are found by name, so
//! versions that add some need no case of their own.

use crate::model::CommOp;
use crate::model::nccl_log::{Channels, Device, Transport, Tuning};
use crate::redact;

/// A message that matters here.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Message<'a> {
    /// `NCCL version 2.28.9+cuda13.0`.
    Version(&'a str),
    /// A communicator begins, is complete or is gone.
    Communicator(Communicator),
    /// How many nodes a communicator spans.
    Nodes { comm: u64, nodes: u32 },
    /// A connection of one channel.
    Channel(Channel),
    /// A collective-network plugin carries a channel: its name.
    CollNet(&'a str),
    /// Channels of the communicator that this thread is making.
    Channels(Channels),
    /// Algorithm and protocol of one call.
    Tuning(Tuning),
    /// An NCCL setting from the environment.
    Setting { name: &'a str, value: &'a str },
    /// Devices that a network plugin found: plugin and device names by index.
    NetDevices { plugin: &'a str, devices: Vec<(u32, &'a str)> },
    /// The network plugin in use.
    Network(&'a str),
    /// NCCL's own topology shows NVLink, GB/s by NCCL's estimate.
    NvLink(f64),
    /// Nothing that is needed.
    Other,
}

/// The life of a communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Start,
    Complete,
    Gone,
}

/// A communicator line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Communicator {
    pub comm: u64,
    pub rank: u32,
    pub n_ranks: u32,
    pub cuda_dev: u32,
    pub nvml_dev: Option<u32>,
    pub bus_id: u64,
    pub id: Option<u64>,
    /// Parent communicator, number of the split and colour.
    pub split: Option<(u64, Option<u32>, i64)>,
    pub stage: Stage,
}

/// A `via` line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Channel {
    pub channel: u32,
    pub src: u32,
    pub dst: u32,
    /// What stands in brackets after each rank, undecided: hexadecimal bus id or decimal device.
    pub src_device: Device,
    pub dst_device: Device,
    pub transport: Transport,
}

/// A message of a known form that does not read to its end: it broke off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

type Parsed<'a> = Result<Message<'a>, Malformed>;

/// Reads one message.
pub(super) fn parse(message: &str) -> Parsed<'_> {
    let message = message.trim_end();
    if let Some(rest) = message.strip_prefix("Channel ") {
        // `00/24 : 0 1 2 3` is the order of a ring.
        let ring = rest.contains(" : ") && !rest.contains(" -> ");
        return if ring { Ok(Message::Other) } else { channel(rest).ok_or(Malformed) };
    }
    // Up to 2.4 a connection is a ring's; `Ring 00 : 1 -> 0 -> 1` is its order.
    if let Some(rest) = message.strip_prefix("Ring ").filter(|rest| rest.contains(" via ")) {
        return channel(rest).ok_or(Malformed);
    }
    // `Coll` up to 2.7. Other lines of collective networks tell of no connection.
    let connection = message.strip_prefix("CollNet ").or_else(|| message.strip_prefix("Coll "));
    if let Some(rest) = connection.filter(|rest| rest.contains(" : ")) {
        return collnet(rest).ok_or(Malformed);
    }
    if let Some(rest) = message.strip_prefix("NCCL version ") {
        return version(rest).map(Message::Version).ok_or(Malformed);
    }
    if message.starts_with("NCCL_") {
        return Ok(setting(message).unwrap_or(Message::Other));
    }
    if let Some(name) = message.strip_prefix("Using network ") {
        return Ok(Message::Network(name));
    }
    if let Some(rest) = message.strip_prefix("NET/") {
        return Ok(net_devices(rest).unwrap_or(Message::Other));
    }
    if let Some(fields) = communicator_fields(message) {
        return communicator(fields).ok_or(Malformed);
    }
    if let Some((before, after)) = message.split_once(" Bytes -> ") {
        return tuning(before, after).map(Message::Tuning).ok_or(Malformed);
    }
    if message.contains(" coll channels, ") {
        return channels(message).map(Message::Channels).ok_or(Malformed);
    }
    if let Some(rest) = message.trim_start().strip_prefix("+ NVL[") {
        let bandwidth = rest
            .split_once(']')
            .and_then(|(bandwidth, _)| bandwidth.parse().ok())
            .filter(|b: &f64| b.is_finite());
        return bandwidth.map(Message::NvLink).ok_or(Malformed);
    }
    Ok(Message::Other)
}

/// The version at the front of `text`: `2.27.5+cuda12.9`.
pub(super) fn version(text: &str) -> Option<&str> {
    text.split_whitespace()
        .next()
        .filter(|v| v.starts_with(|c: char| c.is_ascii_digit()) && v.contains('.'))
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// `00/0 : 0[1a000] -> 8[1a000] [send] via NET/IB/0/GDRDMA`, without `Channel `.
fn channel(text: &str) -> Option<Message<'_>> {
    let (head, rest) = text.split_once(" : ")?;
    let channel = head.split_once('/').map_or(head, |(channel, _)| channel).parse().ok()?;
    let (ends, via) = rest.split_once(" via ")?;
    let (src, dst) = ends.split_once(" -> ")?;
    let dst = dst.strip_suffix(" [send]").or_else(|| dst.strip_suffix(" [receive]")).unwrap_or(dst);
    // RCCL adds ` comm 0x.. nRanks ..`.
    let via = via.split_once(" comm ").map_or(via, |(via, _)| via);
    let ((src, src_device), (dst, dst_device)) = (rank_and_device(src)?, rank_and_device(dst)?);
    Some(Message::Channel(Channel {
        channel,
        src,
        dst,
        src_device,
        dst_device,
        transport: transport(via)?,
    }))
}

/// `0[1a000]`: rank and what stands in brackets, which up to 2.4 is left out for ranks of other hosts.
fn rank_and_device(text: &str) -> Option<(u32, Device)> {
    let Some((rank, device)) = text.split_once('[') else {
        return Some((text.trim().parse().ok()?, Device::default()));
    };
    let device = device.strip_suffix(']')?;
    let bus_id = u64::from_str_radix(device, 16).ok()?;
    // A bus id of one digit would be a function of the very first device: it is a device's number.
    Some((
        rank.trim_start().parse().ok()?,
        Device { bus_id: Some(bus_id).filter(|_| device.len() > 1), nvml: device.parse().ok() },
    ))
}

/// Everything after `via`.
fn transport(via: &str) -> Option<Transport> {
    if via == "direct shared memory" {
        return Some(Transport::Shm(via.to_owned()));
    }
    if let Some(copies) = via.strip_prefix("SHM/") {
        // Who copies, `direct` or the copy engine, for sender and receiver; 2.30.7 prints one word.
        return copies
            .split('/')
            .all(|word| matches!(word, "direct" | "CE"))
            .then(|| Transport::Shm(via.to_owned()));
    }
    if let Some(kind) = via.strip_prefix("P2P/") {
        let kind = kind.strip_suffix("/CE").unwrap_or(kind);
        let kind = kind.strip_suffix("/read").unwrap_or(kind);
        let known = matches!(kind, "direct pointer" | "IPC" | "CUMEM" | "MNNVL")
            || kind.strip_prefix("indirect/").is_some_and(|r| rank_and_device(r).is_some());
        return known.then(|| {
            Transport::P2p(kind.split_once('/').map_or(kind, |(kind, _)| kind).to_owned())
        });
    }
    let rest = via.strip_prefix("NET/")?;
    let rest = rest.strip_suffix("/Shared").unwrap_or(rest);
    let bare = rest.strip_suffix("(PCI)").unwrap_or(rest);
    let (rest, gdrdma) = match bare.strip_suffix("/GDRDMA") {
        Some(bare) => (bare, true),
        None => (rest, false),
    };
    let (plugin, device) = rest.rsplit_once('/')?;
    // `2(3)`: device 2, through the GPU of rank 3 (PXN).
    let (device, proxy) = match device.strip_suffix(')').and_then(|d| d.split_once('(')) {
        Some((device, proxy)) => (device, Some(proxy.parse().ok()?)),
        None => (device, None),
    };
    Some(Transport::Net {
        plugin: redact::text(plugin).into_owned(),
        device: device.parse().ok()?,
        gdrdma,
        proxy,
    })
}

/// `00/0 : 0 [send] via COLLNET/SHARP/0/GDRDMA`, without `CollNet `. After the device stands how it is used.
fn collnet(text: &str) -> Option<Message<'_>> {
    let (_, via) = text.split_once(" via COLLNET/")?;
    let (plugin, device) = via.split_once('/')?;
    device.split('/').next()?.parse::<u32>().ok()?;
    Some(Message::CollNet(plugin))
}

/// The part from `comm 0x..` on, if this is a communicator line in any of its forms.
fn communicator_fields(message: &str) -> Option<&str> {
    let mut rest = message;
    if let Some(after) = rest.strip_prefix("[Rank ") {
        rest = after.split_once("] ")?.1;
    }
    if rest.starts_with("ncclComm") {
        rest = rest.split_once(' ')?.1;
    }
    rest.starts_with("comm 0x").then_some(rest)
}

fn communicator(fields: &str) -> Option<Message<'_>> {
    const STAGES: [(&str, Stage); 7] = [
        ("Init START", Stage::Start),
        ("Init COMPLETE", Stage::Complete),
        ("Destroy COMPLETE", Stage::Gone),
        ("Abort COMPLETE", Stage::Gone),
        ("Abort START", Stage::Gone),
        ("Revoke COMPLETE", Stage::Gone),
        ("Revoke START", Stage::Gone),
    ];
    let found = STAGES
        .iter()
        .find_map(|&(text, stage)| fields.strip_suffix(text).map(|rest| (rest, stage)));
    let (pairs, stage) = match found {
        Some((rest, stage)) => (rest.trim_end().strip_suffix('-')?, Some(stage)),
        None => (fields, None),
    };
    let mut words = pairs.split_whitespace();
    let mut field = std::collections::BTreeMap::new();
    while let Some(name) = words.next() {
        field.insert(name, words.next()?);
    }
    let number = |name: &str| field.get(name)?.parse::<u32>().ok();
    let comm = hex(field.get("comm")?)?;
    let Some(stage) = stage else {
        return Some(Message::Nodes { comm, nodes: number("nNodes")? });
    };
    let split = match field.get("parent") {
        Some(parent) => Some((
            hex(parent)?,
            number("splitCount").or_else(|| number("childCount")),
            field.get("color")?.parse().ok()?,
        )),
        None => None,
    };
    Some(Message::Communicator(Communicator {
        comm,
        rank: number("rank")?,
        n_ranks: number("nranks")?,
        cuda_dev: number("cudaDev")?,
        nvml_dev: number("nvmlDev"),
        bus_id: u64::from_str_radix(field.get("busId")?, 16).ok()?,
        id: match field.get("commId") {
            Some(id) => Some(hex(id)?),
            None => None,
        },
        split,
        stage,
    }))
}

/// `24 coll channels, 24 collnet channels, 16 nvls channels, 32 p2p channels, 32 p2p channels per peer`; older versions print fewer.
fn channels(message: &str) -> Option<Channels> {
    let mut out = Channels::default();
    for part in message.split(", ") {
        let (count, what) = part.split_once(' ')?;
        let count = count.parse().ok()?;
        match what {
            "coll channels" => out.coll = count,
            "nvls channels" => out.nvls = Some(count),
            "p2p channels" => out.p2p = Some(count),
            _ => {}
        }
    }
    Some(out)
}

/// `AllReduce: 33554432 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..23}` and its relatives.
fn tuning(before: &str, after: &str) -> Option<Tuning> {
    const ALGORITHMS: [&str; 7] =
        ["TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"];
    const PROTOCOLS: [&str; 3] = ["LL", "LL128", "SIMPLE"];
    let (what, bytes) = match before.rsplit_once(": ") {
        Some((what, bytes)) => (Some(what), bytes),
        None => (None, before),
    };
    let (op, path) = match what.and_then(|what| what.strip_suffix(']')?.split_once(" [")) {
        Some((op, path)) => (Some(op), Some(path)),
        None => (what, None),
    };
    let op = match op {
        Some(op) => Some(CommOp::parse(op)?),
        None => None,
    };
    let mut words = after.split_whitespace();
    // Up to 2.23 algorithm and protocol are numbers.
    let named = |names: &[&str], word: &str| match word.parse::<usize>() {
        Ok(at) => names.get(at).map(|name| (*name).to_owned()),
        Err(_) => Some(word.to_owned()),
    };
    let (algorithm, protocol, channels) = match (path, words.next()?) {
        (None, "Algo") => {
            let algorithm = named(&ALGORITHMS, words.next()?)?;
            words.next().filter(|word| *word == "proto")?;
            let protocol = named(&PROTOCOLS, words.next()?)?;
            let range = words.next().and_then(|word| {
                word.strip_prefix("channel{Lo..Hi}={")?.strip_suffix('}')?.split_once("..")
            });
            let channels = range.and_then(|(lo, hi)| {
                hi.parse::<u32>().ok()?.checked_sub(lo.parse().ok()?)?.checked_add(1)
            });
            (algorithm, Some(protocol), channels)
        }
        // Symmetric kernels and copy engines: the path is the algorithm.
        (Some(path), "Kernel") => {
            let kernel = words.next()?;
            words.next().filter(|word| *word == "nchannels")?;
            (path.to_owned(), Some(kernel.to_owned()), Some(words.next()?.parse().ok()?))
        }
        (Some(path), _) => (path.to_owned(), None, None),
        (None, _) => return None,
    };
    Some(Tuning { op, bytes: bytes.trim().parse().ok()?, algorithm, protocol, channels })
}

/// `NCCL_P2P_DISABLE set by environment to 1`, in some versions with a full stop.
fn setting(message: &str) -> Option<Message<'_>> {
    let (name, value) = message.split_once(" set by environment to ")?;
    let is_name = name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    is_name.then_some(Message::Setting { name, value: value.strip_suffix('.').unwrap_or(value) })
}

/// `IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:..`, without `NET/`.
fn net_devices(text: &str) -> Option<Message<'_>> {
    let (plugin, list) = text.split_once(" : Using ")?;
    let list = list.split_once(';').map_or(list, |(list, _)| list);
    // `[RO]` (relaxed ordering) is not a device: its bracket holds no number.
    let device = |part: &'_ str| -> Option<(u32, usize)> {
        let (index, name) = part.split_once(']')?;
        Some((index.parse().ok()?, part.len() - name.len()))
    };
    let devices = list
        .split('[')
        .filter_map(|part| {
            let (index, name_at) = device(part)?;
            let name = part[name_at..].split([':', ' ']).next().filter(|name| !name.is_empty())?;
            Some((index, name))
        })
        .collect();
    Some(Message::NetDevices { plugin, devices })
}
