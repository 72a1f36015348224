//! Where the moments of each rank and process stand in the graph, and which processes there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::graph::Moment;
use crate::model::RankTrace;
use crate::model::host::Host;

/// One process: its host and the ranks (devices) that it drives.
#[derive(Debug)]
pub(crate) struct Process<'a> {
    /// Its host's side.
    pub host: &'a Host,
    /// Indices of its ranks, ascending.
    pub ranks: Vec<usize>,
}

/// The processes of the ranks, in order of their first rank; `None` if a rank's host was not read.
pub(crate) fn processes(traces: &[RankTrace]) -> Option<Vec<Process<'_>>> {
    let mut by_host: BTreeMap<*const Host, usize> = BTreeMap::new();
    let mut list: Vec<Process<'_>> = Vec::new();
    for (r, trace) in traces.iter().enumerate() {
        let host = trace.host.as_ref()?;
        let next = list.len();
        let at = *by_host.entry(Arc::as_ptr(host)).or_insert(next);
        if at == next {
            list.push(Process { host, ranks: Vec::new() });
        }
        list[at].ranks.push(r);
    }
    Some(list)
}

/// Which thing a moment belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Operation of a rank: (index of the rank, index of the operation).
    Op(usize, usize),
    /// Kept call of a process: (index of the process, position among its kept calls).
    Call(usize, usize),
    /// An event record, a stream wait or an arrival.
    Mark,
}

/// Operations first, rank by rank; then calls, process by process; then all else.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    /// First moment of each rank's operations, and one past the last.
    ops: Vec<Moment>,
    /// First moment of each process's calls, and one past the last.
    calls: Vec<Moment>,
}

impl Layout {
    /// `ops` are the operations of each rank, `calls` the kept calls of each process.
    pub(crate) fn new(
        ops: impl Iterator<Item = usize>,
        calls: impl Iterator<Item = usize>,
    ) -> Layout {
        let mut next: Moment = 0;
        let mut place = |n: usize| {
            let at = next;
            next += 2 * n as Moment;
            at
        };
        let mut ops: Vec<Moment> = ops.map(&mut place).collect();
        let mut calls: Vec<Moment> = calls.map(&mut place).collect();
        let behind_ops = calls.first().copied().unwrap_or(next);
        ops.push(behind_ops);
        calls.push(next);
        Layout { ops, calls }
    }

    /// Moments of operations and calls together.
    pub(crate) fn moments(&self) -> usize {
        self.calls.last().copied().unwrap_or(0) as usize
    }

    /// Start of an operation.
    pub(crate) fn op_start(&self, rank: usize, op: usize) -> Moment {
        self.ops[rank] + 2 * op as Moment
    }

    /// End of an operation.
    pub(crate) fn op_end(&self, rank: usize, op: usize) -> Moment {
        self.op_start(rank, op) + 1
    }

    /// Start of a kept call.
    pub(crate) fn call_start(&self, process: usize, call: usize) -> Moment {
        self.calls[process] + 2 * call as Moment
    }

    /// Return of a kept call.
    pub(crate) fn call_return(&self, process: usize, call: usize) -> Moment {
        self.call_start(process, call) + 1
    }

    /// What a moment belongs to.
    pub(crate) fn owner(&self, moment: Moment) -> Owner {
        let within = |bounds: &[Moment]| {
            let after = bounds.partition_point(|&first| first <= moment);
            let list = after.checked_sub(1).filter(|&list| list + 1 < bounds.len())?;
            Some((list, ((moment - bounds[list]) / 2) as usize))
        };
        if let Some((rank, op)) = within(&self.ops) {
            Owner::Op(rank, op)
        } else if let Some((process, call)) = within(&self.calls) {
            Owner::Call(process, call)
        } else {
            Owner::Mark
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_moment_has_its_owner() {
        let layout = Layout::new([2, 0, 1].into_iter(), [1].into_iter());
        assert_eq!(layout.moments(), 8);
        assert_eq!(layout.owner(layout.op_end(0, 1)), Owner::Op(0, 1));
        assert_eq!(layout.owner(layout.op_start(2, 0)), Owner::Op(2, 0));
        assert_eq!(layout.owner(layout.call_return(0, 0)), Owner::Call(0, 0));
        assert_eq!(layout.owner(8), Owner::Mark);
    }
}
