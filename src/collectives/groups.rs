//! Matched collectives by operation, communicator and size; waiting by step and rank.

use std::collections::BTreeMap;

use super::events::{BytesSource, Event};
use super::matching::{Match, Method};
use super::transfer::{Timing, bandwidth};
use crate::analysis::run::StepKey;
use crate::model::{CommOp, Ns};
use crate::report::{CollectiveGroup, StepWait};
use crate::stats;

/// A match with its numbers.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Which events.
    pub found: Match,
    /// Its numbers.
    pub timing: Timing,
    /// Ranks of the communicator, if known.
    pub n_ranks: Option<u32>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    op: CommOp,
    comm: Option<u64>,
    bytes: Option<u64>,
    ranks: Vec<u32>,
    method: Method,
}

/// Groups in order of total transfer time, then operation, communicator and size.
pub fn groups(measured: &[Measured], events: &[&[Event]], ranks: &[u32]) -> Vec<CollectiveGroup> {
    let mut by_key: BTreeMap<Key, Vec<&Measured>> = BTreeMap::new();
    for one in measured {
        let members = &one.found.members;
        let of = |&(r, e): &(usize, usize)| &events[r][e];
        let same = |f: fn(&Event) -> Option<u64>| {
            let first = f(of(&members[0]));
            first.filter(|_| members.iter().all(|m| f(of(m)) == first))
        };
        let op = of(&members[0]).op;
        let op = if members.iter().all(|m| of(m).op == op) { op } else { CommOp::Other };
        let key = Key {
            op,
            comm: same(|e| e.comm),
            bytes: same(|e| e.bytes),
            ranks: members.iter().map(|&(r, _)| ranks[r]).collect(),
            method: one.found.method,
        };
        by_key.entry(key).or_default().push(one);
    }
    let mut list: Vec<(Ns, CollectiveGroup)> = by_key.into_iter().map(|(key, calls)| group(key, &calls, events)).collect();
    list.sort_by_key(|(total, _)| std::cmp::Reverse(*total));
    list.into_iter().map(|(_, group)| group).collect()
}

fn group(key: Key, calls: &[&Measured], events: &[&[Event]]) -> (Ns, CollectiveGroup) {
    let transfers: Vec<Ns> = calls.iter().filter_map(|c| c.timing.transfer_ns).collect();
    let mut waits: BTreeMap<u32, Vec<Ns>> = BTreeMap::new();
    let mut last_arriver: BTreeMap<u32, u64> = BTreeMap::new();
    let (mut algbw, mut busbw) = (Vec::new(), Vec::new());
    let mut source: Option<BytesSource> = None;
    for call in calls {
        for (position, &wait) in call.timing.wait_ns.iter().enumerate() {
            waits.entry(key.ranks[position]).or_default().push(wait);
        }
        if let Some(last) = call.timing.last {
            *last_arriver.entry(key.ranks[last]).or_default() += 1;
        }
        let (r, e) = call.found.members[0];
        source = source.or(events[r][e].bytes_source);
        if let (Some(bytes), Some(n), Some(transfer)) = (key.bytes, call.n_ranks, call.timing.transfer_ns)
            && let Some((alg, bus)) = bandwidth(key.op, bytes, n, transfer)
        {
            algbw.push(alg);
            busbw.push(bus);
        }
    }
    let total = transfers.iter().copied().fold(0, Ns::saturating_add);
    let group = CollectiveGroup {
        op: key.op.label().to_owned(),
        comm_id: key.comm.map(|id| format!("0x{id:016x}")),
        ranks: key.ranks,
        bytes: key.bytes,
        count: calls.len() as u64,
        transfer_ns: stats::median_i64(&transfers),
        transfer_p95_ns: stats::quantile_i64(&transfers, 0.95),
        wait_ns: waits.iter().filter_map(|(&rank, list)| Some((rank, stats::median_i64(list)?))).collect(),
        algbw_gbs: stats::median(&algbw),
        busbw_gbs: stats::median(&busbw),
        bytes_source: key.bytes.and(source).map(|s| s.label().to_owned()),
        peak_share: None,
        peak_source: None,
        untimed: (calls.len() - transfers.len()) as u64,
        last_arriver,
        matched_by: key.method.label().to_owned(),
    };
    (total, group)
}

/// How often a rank came first and last, among collectives whose order is certain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// Collectives at which it came last.
    pub last: u64,
    /// Collectives at which it came first.
    pub first: u64,
    /// Collectives of certain order in which it took part.
    pub ordered: u64,
}

/// Arrivals of each rank, by position in the list of ranks.
pub fn arrivals(measured: &[Measured], ranks: usize) -> Vec<Arrivals> {
    let mut list = vec![Arrivals::default(); ranks];
    for one in measured {
        let (Some(last), Some(first)) = (one.timing.last, one.timing.first) else { continue };
        list[one.found.members[last].0].last += 1;
        list[one.found.members[first].0].first += 1;
        one.found.members.iter().for_each(|&(r, _)| list[r].ordered += 1);
    }
    list
}

/// Waiting of each rank in each step of the run: the sum over its matched collectives that ranks leave together.
/// A step without such a collective has no row.
pub fn step_waits(measured: &[Measured], steps: &[StepKey], ranks: &[u32]) -> Vec<StepWait> {
    let index: std::collections::HashMap<&StepKey, usize> = steps.iter().enumerate().map(|(i, key)| (key, i)).collect();
    let mut sums: BTreeMap<(usize, u32), (Ns, u64)> = BTreeMap::new();
    for one in measured {
        let Some(&step) = one.found.step.as_ref().and_then(|key| index.get(key)) else { continue };
        for (position, &wait) in one.timing.wait_ns.iter().enumerate() {
            let (r, _) = one.found.members[position];
            let (sum, last) = sums.entry((step, ranks[r])).or_default();
            *sum = sum.saturating_add(wait);
            *last += u64::from(one.timing.last == Some(position));
        }
    }
    sums.into_iter().map(|((step, rank), (wait_ns, last_count))| StepWait { step, rank, wait_ns, last_count }).collect()
}
