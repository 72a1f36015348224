//! Communication of one rank as operations: a kernel (or the copies of a copy-engine collective) with what its call said.

use std::collections::{BTreeMap, HashMap};

use crate::classify;
use crate::model::op::{NO_CALL, NO_LAUNCH};
use crate::model::{CallKind, Class, CommOp, NameId, NcclCall, Ns, RankTrace};

/// Where the size of an operation came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    /// Peers of sends and receives, in the communicator's numbers, sorted.
    pub peers: Vec<i64>,
    /// Key that is equal on all ranks (advanced tracing).
    pub operation: Option<u64>,
    /// Calls that one kernel carries.
    pub members: usize,
    /// Sends among them.
    pub sends: u32,
    /// Receives among them.
    pub receives: u32,
}

impl Event {
    /// Duration on the GPU.
    pub fn duration(&self) -> Ns {
        self.end - self.start
    }
}

/// The communication of a rank in order of (start, end).
pub fn events(trace: &RankTrace) -> Vec<Event> {
    let groups = group_members(&trace.nccl);
    // Operations of one call: kernels that a group launched, copies of a copy-engine collective.
    let mut by_call: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    let mut list = Vec::new();
    let ops = &trace.ops;
    for i in (0..ops.len()).filter(|&i| ops.class[i] == Class::Comm) {
        match ops.call[i] {
            NO_CALL => list.push(bare(trace, i)),
            call => by_call.entry(call).or_default().push(i),
        }
    }
    for (call, indices) in by_call {
        of_call(trace, call, &indices, &groups, &mut list);
    }
    list.sort_by_key(|event| (event.start, event.end, event.stream));
    add_gpu_operations(&mut list, &trace.gpu_operations);
    list
}

/// What advanced tracing says about the operation that ran in a kernel: the one whose middle lies in it, if it is only one.
/// Its key is equal on all ranks. Channels of one operation have ranges of their own with the same key.
fn add_gpu_operations(events: &mut [Event], operations: &[NcclCall]) {
    let mut middles: Vec<(Ns, &NcclCall)> = operations.iter().map(|o| (o.start + (o.end - o.start) / 2, o)).collect();
    middles.sort_by_key(|(middle, operation)| (*middle, operation.operation));
    for event in events {
        let from = middles.partition_point(|(middle, _)| *middle < event.start);
        let mut inside = middles[from..].iter().take_while(|(middle, _)| *middle < event.end).map(|(_, operation)| *operation);
        let Some(first) = inside.next() else { continue };
        if first.operation.is_some() && inside.all(|other| other.operation == first.operation) {
            event.operation = first.operation;
            event.comm = event.comm.or(first.comm);
            event.op = first.op.unwrap_or(event.op);
            if event.bytes.is_none() && first.bytes.is_some() {
                (event.bytes, event.bytes_source) = (first.bytes, Some(BytesSource::Payload));
            }
        }
    }
}

/// An operation of which only the kernel is known.
fn bare(trace: &RankTrace, i: usize) -> Event {
    let ops = &trace.ops;
    Event {
        start: ops.start[i],
        end: ops.end[i],
        launch: ops.launch[i],
        stream: ops.stream[i],
        name: ops.name[i],
        op: classify::op(trace.names.get(ops.name[i])).unwrap_or(CommOp::Other),
        comm: None,
        bytes: None,
        bytes_source: None,
        peers: Vec::new(),
        operation: None,
        members: 1,
        sends: 0,
        receives: 0,
    }
}

fn of_call(trace: &RankTrace, call: u32, indices: &[usize], groups: &HashMap<u32, Vec<u32>>, list: &mut Vec<Event>) {
    let (kernels, copies): (Vec<usize>, Vec<usize>) = indices.iter().partition(|&&i| trace.ops.name[i] != NameId::NONE);
    let members: Vec<&NcclCall> = members_of(trace, call, groups);
    if kernels.len() > 1 && kernels.len() == members.len() {
        // As many kernels as calls: each carries its own, in order, if the names agree.
        let named: Vec<Event> = kernels.iter().map(|&i| bare(trace, i)).collect();
        if named.iter().zip(&members).all(|(event, member)| Some(kernel_op(member.op)) == Some(kernel_op(Some(event.op)))) {
            list.extend(named.into_iter().zip(&members).map(|(event, member)| with_members(event, &[member])));
            copies_as_one(trace, &copies, &[], list);
            return;
        }
    }
    match kernels.as_slice() {
        [one] => list.push(with_members(bare(trace, *one), &members)),
        // Which kernel carries which call is not known: none of them gets a size.
        several => list.extend(several.iter().map(|&i| bare(trace, i))),
    }
    copies_as_one(trace, &copies, if kernels.is_empty() { &members } else { &[] }, list);
}

/// The copies of a copy-engine collective are one operation, from the first start to the last end.
fn copies_as_one(trace: &RankTrace, copies: &[usize], members: &[&NcclCall], list: &mut Vec<Event>) {
    let Some(&first) = copies.first() else { return };
    let mut event = bare(trace, first);
    event.end = copies.iter().map(|&i| trace.ops.end[i]).max().unwrap_or(event.end);
    list.push(with_members(event, members));
}

/// The calls that one launch carries: the call itself, or the members of the group that it closes.
fn members_of<'t>(trace: &'t RankTrace, call: u32, groups: &HashMap<u32, Vec<u32>>) -> Vec<&'t NcclCall> {
    let calls = |indices: &[u32]| indices.iter().filter_map(|&i| trace.nccl.get(i as usize)).collect();
    match trace.nccl.get(call as usize) {
        Some(own) if own.op.is_some() => vec![own],
        Some(own) if own.kind == CallKind::GroupEnd => groups.get(&call).map(|m| calls(m)).unwrap_or_default(),
        // A launch range of advanced tracing: the operation is the range around it.
        Some(own) => trace.nccl[..call as usize]
            .iter()
            .rev()
            .take(64)
            .find(|outer| outer.op.is_some() && outer.thread == own.thread && outer.end >= own.end)
            .into_iter()
            .collect(),
        None => Vec::new(),
    }
}

/// Sends and receives run in kernels called SendRecv, and so does AllToAll.
fn kernel_op(op: Option<CommOp>) -> CommOp {
    match op {
        Some(CommOp::Send | CommOp::Recv | CommOp::AllToAll | CommOp::Gather | CommOp::Scatter) => CommOp::SendRecv,
        Some(op) => op,
        None => CommOp::Other,
    }
}

/// What the members say about the kernel that carries them.
fn with_members(mut event: Event, members: &[&NcclCall]) -> Event {
    let Some(first) = members.first() else { return event };
    let is_p2p = |call: &NcclCall| matches!(call.op, Some(CommOp::Send | CommOp::Recv));
    let all_p2p = members.iter().all(|m| is_p2p(m));
    event.members = members.len();
    event.comm = first.comm.filter(|_| members.iter().all(|m| m.comm == first.comm));
    event.operation = first.operation.filter(|_| members.len() == 1);
    let sum = |op: Option<CommOp>| -> Option<u64> {
        let chosen = members.iter().filter(|m| op.is_none() || m.op == op);
        chosen.map(|m| m.bytes).try_fold(0u64, |sum, bytes| sum.checked_add(bytes?))
    };
    if all_p2p {
        let count = |op| members.iter().filter(|m| m.op == Some(op)).count() as u32;
        (event.sends, event.receives) = (count(CommOp::Send), count(CommOp::Recv));
        event.op = CommOp::SendRecv;
        // Both directions run at once: the larger one is what takes the time.
        event.bytes = sum(Some(CommOp::Send)).zip(sum(Some(CommOp::Recv))).map(|(out, back)| out.max(back));
        event.peers = members.iter().filter_map(|m| m.peer).collect();
        event.peers.sort_unstable();
        event.peers.dedup();
    } else if members.iter().all(|m| m.op == first.op) {
        event.op = first.op.unwrap_or(event.op);
        event.bytes = sum(None);
    } else {
        // A fused kernel of different operations carries the name of one of them.
        event.op = CommOp::Other;
    }
    event.bytes_source = event.bytes.map(|_| BytesSource::Payload);
    event
}

/// For each closing call of an outermost group, the operations in it.
fn group_members(calls: &[NcclCall]) -> HashMap<u32, Vec<u32>> {
    struct Open {
        depth: usize,
        members: Vec<u32>,
    }
    let mut threads: HashMap<u64, Open> = HashMap::new();
    let mut groups = HashMap::new();
    for (i, call) in calls.iter().enumerate() {
        let open = threads.entry(call.thread).or_insert(Open { depth: 0, members: Vec::new() });
        match call.kind {
            CallKind::GroupStart => open.depth += 1,
            CallKind::GroupEnd => {
                open.depth = open.depth.saturating_sub(1);
                if open.depth == 0 {
                    groups.insert(i as u32, std::mem::take(&mut open.members));
                }
            }
            CallKind::Plain if call.op.is_some() && open.depth > 0 => open.members.push(i as u32),
            CallKind::Plain => {}
        }
    }
    groups
}

/// True if the launch of an event is in the capture.
pub fn is_launched(event: &Event) -> bool {
    event.launch != NO_LAUNCH
}
