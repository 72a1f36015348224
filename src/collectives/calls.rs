//! Which NCCL calls a kernel carries: by the range in which it was launched, and with advanced tracing by what ran on the GPU.

use std::collections::BTreeMap;

use foldhash::{HashMap, HashMapExt};

use crate::classify;
use crate::model::{CallKind, CommOp, NcclCall, Ns, RankTrace};

/// Ranges around a range that are looked through: calls nest a few levels deep, a hostile file as deep as it likes.
const DEEPEST: usize = 64;
const NOTHING: u32 = u32::MAX;

/// The calls of a rank with the groups that they form.
#[derive(Debug)]
pub(crate) struct Calls<'t> {
    calls: &'t [NcclCall],
    /// The range around each call on its thread, or [`NOTHING`].
    parents: Vec<u32>,
    /// Operations by the range that launches them together.
    groups: HashMap<u32, Vec<u32>>,
}

/// What is open on a thread.
#[derive(Debug, Default)]
struct Thread {
    /// Ranges around the current one.
    around: Vec<u32>,
    /// `ncclGroupStart` without its end.
    depth: usize,
    /// Operations since the outermost `ncclGroupStart`.
    members: Vec<u32>,
}

impl<'t> Calls<'t> {
    /// Over calls in order of (start, end).
    pub(crate) fn new(calls: &'t [NcclCall]) -> Calls<'t> {
        let mut order: Vec<u32> = (0..calls.len() as u32).collect();
        // A range comes before those inside it, also where both start at once.
        order.sort_by_key(|&i| {
            (calls[i as usize].start, std::cmp::Reverse(calls[i as usize].end), i)
        });
        let mut threads: HashMap<u64, Thread> = HashMap::new();
        let mut parents = vec![NOTHING; calls.len()];
        let mut groups: HashMap<u32, Vec<u32>> = HashMap::new();
        for i in order {
            let call = &calls[i as usize];
            let thread = threads.entry(call.thread).or_default();
            while thread.around.last().is_some_and(|&outer| calls[outer as usize].end <= call.start)
            {
                thread.around.pop();
            }
            parents[i as usize] = thread.around.last().copied().unwrap_or(NOTHING);
            thread.around.push(i);
            match call.kind {
                CallKind::GroupStart => thread.depth += 1,
                CallKind::GroupEnd => {
                    thread.depth = thread.depth.saturating_sub(1);
                    if thread.depth == 0 {
                        groups.insert(i, std::mem::take(&mut thread.members));
                    }
                }
                CallKind::Plain if call.op.is_some() => {
                    let outermost = thread
                        .around
                        .iter()
                        .take(DEEPEST)
                        .find(|&&outer| calls[outer as usize].kind == CallKind::Group);
                    if let Some(&group) = outermost {
                        groups.entry(group).or_default().push(i);
                    } else if thread.depth > 0 {
                        thread.members.push(i);
                    }
                }
                CallKind::Plain | CallKind::Group => {}
            }
        }
        Calls { calls, parents, groups }
    }

    /// The operations that a launch inside `call` carries: the call itself, the members of the group that it closes, or
    /// those of the nearest range around it that is one or the other.
    pub(crate) fn members(&self, call: u32) -> Vec<&'t NcclCall> {
        let mut at = call;
        for _ in 0..DEEPEST {
            let Some(own) = self.calls.get(at as usize) else { break };
            if own.op.is_some() && !self.is_grouped(at) {
                return vec![own];
            }
            if let Some(members) = self.groups.get(&at) {
                return members.iter().filter_map(|&i| self.calls.get(i as usize)).collect();
            }
            at = self.parents[at as usize];
        }
        Vec::new()
    }

    /// True for an operation inside a group range of several: a launch inside it may carry its siblings too.
    fn is_grouped(&self, call: u32) -> bool {
        let mut at = call;
        for _ in 0..DEEPEST {
            match self.parents.get(at as usize) {
                Some(&parent) if parent != NOTHING => at = parent,
                _ => return false,
            }
            if self.groups.get(&at).is_some_and(|members| members.len() > 1) {
                return true;
            }
        }
        false
    }
}

/// Operations on the GPU's time line by the kernel that carries them: index into the rank's operations, then members.
///
/// Each channel has a range of its own; together they lie inside the kernel. An operation that fits no kernel, or several
/// kernels equally well, is left out.
pub(crate) fn by_kernel(trace: &RankTrace) -> HashMap<usize, Vec<&NcclCall>> {
    let mut found: HashMap<usize, Vec<&NcclCall>> = HashMap::new();
    if trace.gpu_operations.is_empty() {
        return found;
    }
    let ops = &trace.ops;
    let kernels: Vec<usize> = (0..ops.len()).filter(|&i| ops.in_collective(i)).collect();
    // Latest end among this kernel and all before it: bounds the search backwards.
    let latest_end: Vec<Ns> = kernels
        .iter()
        .scan(Ns::MIN, |latest, &i| {
            *latest = (*latest).max(ops.end[i]);
            Some(*latest)
        })
        .collect();
    for (operation, start, end) in operations(&trace.gpu_operations) {
        let middle = start.saturating_add(end.saturating_sub(start) / 2);
        let before = kernels.partition_point(|&i| ops.start[i] <= middle);
        let open: Vec<usize> = (0..before)
            .rev()
            .take_while(|&k| latest_end[k] > middle)
            .take(DEEPEST)
            .map(|k| kernels[k])
            .filter(|&i| ops.end[i] > middle)
            .collect();
        let named: Vec<usize> =
            open.iter().copied().filter(|&i| is_kernel_of(trace, i, operation.op)).collect();
        if let [one] = if named.is_empty() { &open } else { &named }.as_slice() {
            found.entry(*one).or_default().push(operation);
        }
    }
    found
}

fn is_kernel_of(trace: &RankTrace, i: usize, op: Option<CommOp>) -> bool {
    let named = classify::op(trace.names.get(trace.ops.name[i]));
    named == op
        || (named == Some(CommOp::SendRecv)
            && !matches!(op, Some(CommOp::AllReduce | CommOp::AllGather | CommOp::ReduceScatter)))
}

/// The channels of one operation together: first of them, earliest start, latest end.
fn operations(ranges: &[NcclCall]) -> Vec<(&NcclCall, Ns, Ns)> {
    type Identity = (Option<u64>, Option<u64>, Option<CommOp>, Option<u64>, Option<i64>);
    let mut list: Vec<(&NcclCall, Ns, Ns)> = Vec::new();
    let mut open: BTreeMap<Identity, usize> = BTreeMap::new();
    for range in ranges {
        let identity = (range.operation, range.comm, range.op, range.seq, range.peer);
        let same = open.get(&identity).and_then(|&at| list.get_mut(at));
        match same {
            // Without a number two operations of one kind differ only in time.
            Some((_, _, end))
                if range.operation.is_some() || range.seq.is_some() || range.start < *end =>
            {
                *end = (*end).max(range.end)
            }
            _ => {
                open.insert(identity, list.len());
                list.push((range, range.start, range.end));
            }
        }
    }
    list
}
