//! Communication of one rank as operations: a kernel (or the copies of a copy-engine collective) with what its call said.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use serde::{Deserialize, Serialize};

use super::calls::{self, Calls};
use crate::classify;
use crate::model::op::{NO_CALL, NO_LAUNCH};
use crate::model::{CommOp, NameId, NcclCall, Ns, RankTrace};

/// Where the size of an operation came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BytesSource {
    /// The payload of the NVTX range.
    Payload,
    /// A record of NCCL Inspector.
    Inspector,
}

impl BytesSource {
    /// The word that reports print.
    pub fn label(self) -> &'static str {
        match self {
            BytesSource::Payload => "payload",
            BytesSource::Inspector => "inspector",
        }
    }
}

/// One send or receive that a kernel carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Partner {
    /// The other rank, in the communicator's numbers.
    pub peer: i64,
    /// True for a send.
    pub sends: bool,
    /// Bytes as logged.
    pub bytes: Option<u64>,
}

/// One communication operation on one rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Start on the GPU, ns in the report's own time.
    pub start: Ns,
    /// End on the GPU.
    pub end: Ns,
    /// Start of the launching API call, or [`NO_LAUNCH`].
    pub launch: Ns,
    /// Dense stream index.
    pub stream: u32,
    /// Kernel name; [`NameId::NONE`] for copies.
    pub name: NameId,
    /// What it is, from the call where it is known, else from the kernel's name.
    pub op: CommOp,
    /// Communicator id.
    pub comm: Option<u64>,
    /// Payload bytes as logged; summed over the members of a fused group.
    pub bytes: Option<u64>,
    /// Where the bytes came from.
    pub bytes_source: Option<BytesSource>,
    /// The sends and receives of a kernel that carries nothing else, in order of their calls.
    pub partners: Vec<Partner>,
    /// Key that is equal on all ranks (advanced tracing).
    pub operation: Option<u64>,
    /// Number among the operations of its kind on its communicator, equal on all ranks (advanced tracing).
    pub seq: Option<u64>,
    /// Calls that one kernel carries.
    pub members: usize,
    /// Sends among them.
    pub sends: u32,
    /// Receives among them.
    pub receives: u32,
}

impl Event {
    /// An operation of which only kind and time are known.
    pub fn new(op: CommOp, start: Ns, end: Ns) -> Event {
        Event {
            start,
            end,
            launch: NO_LAUNCH,
            stream: 0,
            name: NameId::NONE,
            op,
            comm: None,
            bytes: None,
            bytes_source: None,
            partners: Vec::new(),
            operation: None,
            seq: None,
            members: 1,
            sends: 0,
            receives: 0,
        }
    }

    /// Duration on the GPU.
    pub fn duration(&self) -> Ns {
        self.end.saturating_sub(self.start)
    }

    /// True if it sends to or receives from this rank of the communicator and no other.
    pub fn works_only_with(&self, peer: i64) -> bool {
        !self.partners.is_empty() && self.partners.iter().all(|partner| partner.peer == peer)
    }

    /// True if its ranks leave together, so that the shortest duration is the transfer and ends tell how clocks stand.
    /// Copies of a copy-engine collective do not wait for each other.
    pub fn leaves_together(&self) -> bool {
        self.op.leaves_together() && self.is_kernel()
    }

    /// False for the copies of a copy-engine collective.
    pub fn is_kernel(&self) -> bool {
        self.name != NameId::NONE
    }
}

/// Communicators that a device is known to be in.
type Comms = Arc<BTreeSet<u64>>;

/// Which devices of a process run kernels of the same call: one thread may call NCCL for several devices between
/// `ncclGroupStart` and `ncclGroupEnd`, whose end launches all of them.
#[derive(Debug, Default)]
pub struct Launches {
    /// By (report, process, call), where there are several: for each device the communicators that it is known to be in.
    devices: HashMap<(usize, u32, u32), Vec<Comms>>,
}

impl Launches {
    /// Over all ranks of all reports.
    pub fn new(traces: &[RankTrace]) -> Launches {
        let mut processes: BTreeMap<(usize, u32), Vec<&RankTrace>> = BTreeMap::new();
        for trace in traces {
            processes.entry((trace.input, trace.pid)).or_default().push(trace);
        }
        let mut devices: HashMap<(usize, u32, u32), Vec<Comms>> = HashMap::new();
        for ((input, pid), own) in processes.into_iter().filter(|(_, own)| own.len() > 1) {
            for trace in own {
                let comms: Comms = Arc::new(trace.comm_inits.iter().map(|c| c.comm).collect());
                let ops = &trace.ops;
                let calls: BTreeSet<u32> = (0..ops.len())
                    .filter(|&i| ops.in_collective(i) && ops.call[i] != NO_CALL)
                    .map(|i| ops.call[i])
                    .collect();
                for call in calls {
                    devices.entry((input, pid, call)).or_default().push(Arc::clone(&comms));
                }
            }
        }
        devices.retain(|_, list| list.len() > 1);
        Launches { devices }
    }

    /// Of what a call launches, that which runs on the device of this rank; empty where nothing tells the devices apart.
    ///
    /// Every device of a communicator makes the same calls on it, so each gets its part of those that are alike.
    fn of_device<'t>(
        &self,
        trace: &RankTrace,
        call: u32,
        members: Vec<&'t NcclCall>,
    ) -> Vec<&'t NcclCall> {
        let Some(devices) = self.devices.get(&(trace.input, trace.pid, call)) else {
            return members;
        };
        let own: BTreeSet<u64> = trace.comm_inits.iter().map(|init| init.comm).collect();
        let sharing = |member: &NcclCall| {
            let users = |comm: u64| devices.iter().filter(|comms| comms.contains(&comm)).count();
            match member.comm.map(|comm| (comm, users(comm))) {
                // Nothing says which devices are in it: all that launch.
                None | Some((_, 0)) => Some(devices.len()),
                Some((comm, n)) => own.contains(&comm).then_some(n),
            }
        };
        // By what calls have in common: how many there are, and how many devices share them.
        let mut kinds = BTreeMap::new();
        let mut list = Vec::new();
        for member in members {
            let Some(n) = sharing(member) else { continue };
            let kind =
                (member.op, member.comm, member.bytes, member.redop, member.root, member.peer);
            let (count, _) = kinds.entry(kind).or_insert((0, n));
            *count += 1;
            if *count % n == 0 {
                list.push(member);
            }
        }
        if kinds.values().all(|(count, n)| count % n == 0) { list } else { Vec::new() }
    }
}

/// The communication of a rank in order of (start, end).
pub fn events(trace: &RankTrace, launches: &Launches) -> Vec<Event> {
    let calls = Calls::new(&trace.nccl);
    let from_gpu = calls::by_kernel(trace);
    // Operations of one call: kernels that a group launched, copies of a copy-engine collective.
    let mut by_call: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    let mut list = Vec::new();
    let ops = &trace.ops;
    for i in (0..ops.len()).filter(|&i| ops.in_collective(i)) {
        match (from_gpu.get(&i), ops.call[i]) {
            // What ran on the GPU says more than the call that launched it.
            (Some(members), _) => list.push(with_members(trace, bare(trace, i), members)),
            (None, NO_CALL) => list.push(bare(trace, i)),
            (None, call) => by_call.entry(call).or_default().push(i),
        }
    }
    for (call, indices) in by_call {
        let members = launches.of_device(trace, call, calls.members(call));
        of_call(trace, &members, &indices, &mut list);
    }
    list.sort_by_key(|event| (event.start, event.end, event.stream));
    list
}

/// An operation of which only the kernel or copy is known.
fn bare(trace: &RankTrace, i: usize) -> Event {
    let ops = &trace.ops;
    let op = classify::op(trace.names.get(ops.name[i])).unwrap_or(CommOp::Other);
    Event {
        launch: ops.launch[i],
        stream: ops.stream[i],
        name: ops.name[i],
        ..Event::new(op, ops.start[i], ops.end[i])
    }
}

/// Adds the operations that one call launched.
fn of_call(trace: &RankTrace, members: &[&NcclCall], indices: &[usize], list: &mut Vec<Event>) {
    let (kernels, copies): (Vec<usize>, Vec<usize>) =
        indices.iter().partition(|&&i| trace.ops.name[i] != NameId::NONE);
    let named: Vec<Event> = kernels.iter().map(|&i| bare(trace, i)).collect();
    if named.len() == 1 {
        list.extend(named.into_iter().map(|event| with_members(trace, event, members)));
    } else if each_its_own(&named, members) {
        list.extend(
            named
                .into_iter()
                .zip(members)
                .map(|(event, member)| with_members(trace, event, &[member])),
        );
    } else {
        // Which kernel carries which call is not known: none of them gets a size.
        list.extend(named);
    }
    copies_as_one(trace, &copies, if kernels.is_empty() { members } else { &[] }, list);
}

/// True if there are as many kernels as calls and each carries its own, in order: names agree, and calls on several
/// communicators (whose order of launch NCCL is free to choose) differ in their kernels.
fn each_its_own(kernels: &[Event], members: &[&NcclCall]) -> bool {
    let expected: Vec<CommOp> = members.iter().map(|m| kernel_op(m.op)).collect();
    let names_agree = kernels.len() == members.len()
        && kernels.iter().map(|k| kernel_op(Some(k.op))).eq(expected.iter().copied());
    let one_comm = members.iter().all(|m| m.comm == members[0].comm);
    names_agree && (one_comm || expected.iter().collect::<BTreeSet<_>>().len() == expected.len())
}

/// The copies of a copy-engine collective are one operation, from the first start to the last end.
fn copies_as_one(
    trace: &RankTrace,
    copies: &[usize],
    members: &[&NcclCall],
    list: &mut Vec<Event>,
) {
    let Some(&first) = copies.first() else { return };
    let mut event = bare(trace, first);
    event.end = copies.iter().map(|&i| trace.ops.end[i]).max().unwrap_or(event.end);
    list.push(with_members(trace, event, members));
}

/// Sends and receives run in kernels called SendRecv, and so do the collectives that NCCL makes of them.
fn kernel_op(op: Option<CommOp>) -> CommOp {
    match op {
        Some(CommOp::Send | CommOp::Recv | CommOp::AllToAll | CommOp::Gather | CommOp::Scatter) => {
            CommOp::SendRecv
        }
        Some(op) => op,
        None => CommOp::Other,
    }
}

/// What the members say about the kernel that carries them.
fn with_members(trace: &RankTrace, mut event: Event, members: &[&NcclCall]) -> Event {
    let Some(first) = members.first() else { return event };
    event.members = members.len();
    event.comm = first.comm.filter(|_| members.iter().all(|m| m.comm == first.comm));
    let only = (members.len() == 1).then_some(first);
    event.operation = only.and_then(|call| call.operation);
    event.seq = only.and_then(|call| call.seq);
    let sum = |chosen: &dyn Fn(&NcclCall) -> bool| -> Option<u64> {
        members
            .iter()
            .filter(|m| chosen(m))
            .map(|m| m.bytes)
            .try_fold(0u64, |sum, bytes| sum.checked_add(bytes?))
    };
    if members.iter().all(|m| matches!(m.op, Some(CommOp::Send | CommOp::Recv))) {
        let is = |op: CommOp| move |call: &NcclCall| call.op == Some(op);
        event.sends = members.iter().filter(|m| is(CommOp::Send)(m)).count() as u32;
        event.receives = members.len() as u32 - event.sends;
        event.op = CommOp::SendRecv;
        // Both directions run at once: the larger one is what takes the time.
        event.bytes =
            sum(&is(CommOp::Send)).zip(sum(&is(CommOp::Recv))).map(|(out, back)| out.max(back));
        let partner = |m: &&NcclCall| {
            Some(Partner { peer: m.peer?, sends: m.op == Some(CommOp::Send), bytes: m.bytes })
        };
        event.partners = members.iter().map(partner).collect::<Option<_>>().unwrap_or_default();
    } else if is_all_gather_v(trace, &event, members) {
        // Parts of unequal size have no size for each rank; equal ones, one from each root, are those of an AllGather.
        event.op = CommOp::AllGather;
        event.bytes = first.bytes.filter(|_| members.iter().all(|m| m.bytes == first.bytes));
    } else if members.iter().all(|m| m.op == first.op) {
        event.op = first.op.unwrap_or(event.op);
        event.bytes = sum(&|_| true);
    } else {
        // A fused kernel of different operations carries the name of one of them.
        event.op = CommOp::Other;
    }
    event.bytes_source = event.bytes.map(|_| BytesSource::Payload);
    event
}

/// NCCL runs a group of broadcasts from different roots as one AllGatherV, and the kernel says so.
fn is_all_gather_v(trace: &RankTrace, event: &Event, members: &[&NcclCall]) -> bool {
    let roots: BTreeSet<Option<i64>> = members.iter().map(|m| m.root).collect();
    members.len() > 1
        && roots.len() == members.len()
        && members.iter().all(|m| m.op == Some(CommOp::Broadcast))
        && classify::op(trace.names.get(event.name)) == Some(CommOp::AllGather)
}
