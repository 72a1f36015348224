//! Matched collectives by operation, communicator and size; waiting by step and rank.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use foldhash::HashMap;

use super::events::{BytesSource, Event};
use super::matches::{Match, Method};
use super::refs::{EventRef, RankIx};
use super::transfer::{Timing, Untimed, bandwidth};
use crate::model::{CommOp, Ns, Span};
use crate::stats;
use crate::timeline::SpanSet;

/// Matched calls of one operation, communicator and size.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CollectiveGroup {
    /// `AllReduce`, ...
    pub op: CommOp,
    /// Communicator id as `0x` + 16 hex digits.
    pub comm_id: Option<String>,
    /// Ranks that took part.
    pub ranks: Vec<u32>,
    /// Of sends that go one way only: the rank that sends.
    pub from_rank: Option<u32>,
    /// Ranks of the communicator; `None` if nothing says how many.
    pub n_ranks: Option<u32>,
    /// Payload bytes as logged.
    pub bytes: Option<u64>,
    /// Calls that were matched over all ranks.
    pub count: u64,
    /// Transfer time, median over calls, ns.
    pub transfer_ns: Option<i64>,
    /// 95th percentile of the transfer time, ns.
    pub transfer_p95_ns: Option<i64>,
    /// Waiting time by rank, median over calls, ns.
    pub wait_ns: BTreeMap<u32, i64>,
    /// S / transfer, decimal GB/s, median over calls.
    pub algbw_gbs: Option<f64>,
    /// algbw times the operation's factor, decimal GB/s, median over calls.
    pub busbw_gbs: Option<f64>,
    /// Why there is no bandwidth, if there is none.
    pub no_bandwidth: Option<String>,
    /// Where the bytes came from: `payload`, `inspector`.
    pub bytes_source: Option<BytesSource>,
    /// busbw as a share of the link's one-direction peak.
    pub peak_share: Option<f64>,
    /// That peak and where its figure comes from.
    pub peak_source: Option<String>,
    /// Calls whose transfer time cannot be told.
    pub untimed: u64,
    /// Those calls by reason.
    pub untimed_reasons: BTreeMap<String, u64>,
    /// Latest minus earliest arrival on aligned clocks, median over calls, ns.
    pub arrival_spread_ns: Option<i64>,
    /// Latest minus earliest departure on aligned clocks of ranks that should leave together, 95th percentile over calls, ns.
    pub leave_spread_p95_ns: Option<i64>,
    /// Calls at which each rank arrived last.
    pub last_arriver: BTreeMap<u32, u64>,
    /// Calls of which waits are known and at which ranks arrive closer than clocks and departures can tell apart: no order.
    pub unordered: u64,
    /// How the calls were matched.
    pub matched_by: Method,
}

/// How long one rank waited in the collectives of one step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StepWait {
    /// Index of the run's step.
    pub step: usize,
    /// Rank.
    pub rank: u32,
    /// Time in which it waited in a matched collective of the step, or in several at once (own duration minus transfer; of those that
    /// ranks do not leave together the time from its arrival to the last one), ns.
    pub wait_ns: i64,
    /// The part of it without a compute kernel beside it, ns.
    pub exposed_wait_ns: i64,
    /// What this rank's lateness cost: the longest, over the other ranks, of their exposed waits in those collectives of the
    /// step at which this rank arrived last, ns.
    pub waited_for_ns: i64,
    /// Collectives of the step at which this rank arrived last.
    pub last_count: u64,
}

/// A match with its numbers.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Which events.
    pub found: Match,
    /// Its numbers.
    pub timing: Timing,
    /// When each member waited, in its report's own time; as long as `timing.wait_ns`.
    pub waits: Vec<Span>,
    /// Ranks of the communicator, if known.
    pub n_ranks: Option<u32>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    op: CommOp,
    comm: Option<u64>,
    bytes: Option<u64>,
    ranks: Vec<u32>,
    /// Of sends that go one way only: the rank that sends.
    from: Option<u32>,
    method: Method,
}

/// Groups in order of total transfer time, then operation, communicator and size.
pub fn groups(measured: &[Measured], events: &[&[Event]], ranks: &[u32]) -> Vec<CollectiveGroup> {
    let mut by_key: BTreeMap<Key, Vec<&Measured>> = BTreeMap::new();
    for one in measured {
        let members = &one.found.members;
        let of = |at: &EventRef| &events[at.rank][at.event];
        let same = |f: fn(&Event) -> Option<u64>| {
            let first = f(of(&members[0]));
            first.filter(|_| members.iter().all(|m| f(of(m)) == first))
        };
        let op = of(&members[0]).op;
        let op = if members.iter().all(|m| of(m).op == op) { op } else { CommOp::Other };
        let key = Key {
            op,
            comm: same(|e| e.comm),
            bytes: size(op, members.iter().map(of)),
            ranks: members.iter().map(|at| ranks[at.rank]).collect(),
            from: sender(members, events).map(|r| ranks[r]),
            method: one.found.method,
        };
        by_key.entry(key).or_default().push(one);
    }
    let mut list: Vec<(Ns, CollectiveGroup)> =
        by_key.into_iter().map(|(key, calls)| group(key, &calls, events)).collect();
    list.sort_by_key(|(total, _)| std::cmp::Reverse(*total));
    list.into_iter().map(|(_, group)| group).collect()
}

/// Which of two members sends, if the other only receives: there and back are different things to wait for.
fn sender(members: &[EventRef], events: &[&[Event]]) -> Option<RankIx> {
    let &[a, b] = members else { return None };
    let one_way = |from: &Event, to: &Event| {
        from.receives == 0 && to.sends == 0 && from.sends > 0 && to.receives > 0
    };
    let (first, second) = (&events[a.rank][a.event], &events[b.rank][b.event]);
    one_way(first, second).then_some(a.rank).or_else(|| one_way(second, first).then_some(b.rank))
}

/// The size of a collective. NCCL wants the same count and type of every rank, so where it is known on some ranks (one wrote a log, another
/// did not) it is that of all; a kernel that carries several operations may carry others elsewhere.
fn size<'a>(op: CommOp, members: impl Iterator<Item = &'a Event> + Clone) -> Option<u64> {
    let mut known = members.clone().filter_map(|event| event.bytes);
    let first = known.next()?;
    let everywhere = members.clone().all(|event| event.bytes.is_some());
    let single = op != CommOp::SendRecv && members.clone().all(|event| event.members == 1);
    (known.all(|bytes| bytes == first) && (everywhere || single)).then_some(first)
}

fn group(key: Key, calls: &[&Measured], events: &[&[Event]]) -> (Ns, CollectiveGroup) {
    let transfers: Vec<Ns> = calls.iter().filter_map(|c| c.timing.transfer.ok()).collect();
    let mut waits: Vec<Vec<Ns>> = vec![Vec::new(); key.ranks.len()];
    let mut last_arriver: BTreeMap<u32, u64> = BTreeMap::new();
    let mut unordered = 0;
    let (mut algbw, mut busbw) = (Vec::new(), Vec::new());
    let n_ranks = calls.first().and_then(|call| call.n_ranks);
    let complete = complete(key.op, key.ranks.len(), n_ranks);
    for call in calls {
        call.timing.wait_ns.iter().zip(&mut waits).for_each(|(&wait, list)| list.push(wait));
        match call.timing.last {
            Some(last) => *last_arriver.entry(key.ranks[last]).or_default() += 1,
            None => unordered += u64::from(!call.timing.wait_ns.is_empty()),
        }
        if let (Some(bytes), Ok(transfer), true) = (key.bytes, call.timing.transfer, complete)
            && let Some((alg, bus)) = bandwidth(key.op, bytes, n_ranks, transfer)
        {
            algbw.push(alg);
            busbw.push(bus);
        }
    }
    let source = calls
        .iter()
        .flat_map(|c| &c.found.members)
        .find_map(|at| events[at.rank][at.event].bytes_source);
    let spreads = |f: fn(&Timing) -> Option<Ns>| {
        calls.iter().filter_map(|c| f(&c.timing)).collect::<Vec<Ns>>()
    };
    let total = transfers.iter().copied().fold(0, Ns::saturating_add);
    let group = CollectiveGroup {
        op: key.op,
        comm_id: key.comm.map(|id| format!("0x{id:016x}")),
        from_rank: key.from,
        n_ranks,
        bytes: key.bytes,
        count: calls.len() as u64,
        transfer_ns: stats::median_i64(&transfers),
        transfer_p95_ns: stats::quantile_i64(&transfers, 0.95),
        wait_ns: key
            .ranks
            .iter()
            .zip(&waits)
            .filter_map(|(&rank, list)| Some((rank, stats::median_i64(list)?)))
            .collect(),
        algbw_gbs: stats::median(&algbw),
        busbw_gbs: stats::median(&busbw),
        no_bandwidth: busbw.is_empty().then(|| no_bandwidth(&key, calls, events, n_ranks)),
        bytes_source: key.bytes.and(source),
        peak_share: None,
        peak_source: None,
        untimed: (calls.len() - transfers.len()) as u64,
        untimed_reasons: untimed_reasons(calls),
        arrival_spread_ns: stats::median_i64(&spreads(|t| t.arrival_spread_ns)),
        leave_spread_p95_ns: stats::quantile_i64(&spreads(|t| t.leave_spread_ns), 0.95),
        last_arriver,
        unordered,
        matched_by: key.method,
        ranks: key.ranks,
    };
    (total, group)
}

/// True if everyone is here whose presence decides how long data moves: all ranks of the communicator, or of a send its two.
fn complete(op: CommOp, here: usize, n_ranks: Option<u32>) -> bool {
    op == CommOp::SendRecv || n_ranks.is_some_and(|n| n as usize == here)
}

/// What one collective is, and the payload of each of its ranks in bytes, if that is known.
pub fn operation(one: &Measured, events: &[&[Event]]) -> (CommOp, Option<u64>) {
    let members = one.found.members.iter().map(|at| &events[at.rank][at.event]);
    let mut kinds = members.clone().map(|event| event.op);
    let first = kinds.next().unwrap_or(CommOp::Other);
    let op = if kinds.all(|op| op == first) { first } else { CommOp::Other };
    (op, size(op, members))
}

/// algbw and busbw of one collective, decimal GB/s; `None` where its size, its transfer time or one of its ranks is not known.
pub fn bandwidths(one: &Measured, events: &[&[Event]]) -> Option<(f64, f64)> {
    let (op, bytes) = operation(one, events);
    if !complete(op, one.found.members.len(), one.n_ranks) {
        return None;
    }
    bandwidth(op, bytes?, one.n_ranks, one.timing.transfer.ok()?)
}

fn no_bandwidth(
    key: &Key,
    calls: &[&Measured],
    events: &[&[Event]],
    n_ranks: Option<u32>,
) -> String {
    let members =
        || calls.iter().flat_map(|c| &c.found.members).map(|at| &events[at.rank][at.event]);
    let reason = if key.op == CommOp::Other {
        Untimed::Mixed.label()
    } else if key.bytes.is_none() {
        match (members().any(|e| e.bytes.is_some()), members().any(|e| e.members > 1)) {
            (true, _) => {
                "sizes differ between ranks, or are known on some only of a kernel with several operations"
            }
            (false, true) => "one kernel carries several operations whose sizes are not all known",
            (false, false) => "the capture does not say how large the message is",
        }
    } else if key.bytes == Some(0) {
        "the message is empty"
    } else if let (false, Some(n)) = (complete(key.op, key.ranks.len(), n_ranks), n_ranks) {
        return format!("{} of the communicator's {n} ranks are here", key.ranks.len());
    } else if !complete(key.op, key.ranks.len(), n_ranks) {
        "nothing says how many ranks the communicator has"
    } else if calls.iter().all(|c| c.timing.transfer.is_err()) {
        "no call could be timed"
    } else {
        "the transfer takes no time, or the communicator has one rank"
    };
    reason.to_owned()
}

fn untimed_reasons(calls: &[&Measured]) -> BTreeMap<String, u64> {
    let mut reasons = BTreeMap::new();
    for why in calls.iter().filter_map(|c| c.timing.transfer.err()) {
        *reasons.entry(why.label().to_owned()).or_default() += 1;
    }
    reasons
}

/// How often a rank came first and last, among collectives of which it is certain who came last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// Collectives at which it came last.
    pub last: u64,
    /// Collectives at which it came first.
    pub first: u64,
    /// Collectives in which it took part and of which it is certain who came last.
    pub ordered: u64,
}

/// Arrivals of each rank, by position in the list of ranks.
pub fn arrivals(measured: &[Measured], ranks: usize) -> Vec<Arrivals> {
    let mut list = vec![Arrivals::default(); ranks];
    for one in measured {
        let Some(last) = one.timing.last else { continue };
        list[one.found.members[last].rank.0].last += 1;
        if let Some(first) = one.timing.first {
            list[one.found.members[first].rank.0].first += 1;
        }
        one.found.members.iter().for_each(|at| list[at.rank.0].ordered += 1);
    }
    list
}

/// Waits of one rank in the collectives of one step.
#[derive(Debug, Default)]
struct Waits {
    own: Vec<Span>,
    last: u64,
    /// Waits of each other rank for this one.
    caused: BTreeMap<RankIx, Vec<Span>>,
}

/// Waiting of each rank in each step of the run, in its matched collectives of which waits are known: time that several of them wait
/// at once counts once. A step without such a collective has no row. `compute` is when each rank computes, `run_steps` the
/// paired step that each step of the run is.
pub fn step_waits(
    measured: &[Measured],
    compute: &[SpanSet],
    run_steps: &[usize],
    ranks: &[u32],
) -> Vec<StepWait> {
    let index: HashMap<usize, usize> =
        run_steps.iter().enumerate().map(|(i, &number)| (number, i)).collect();
    let mut waits: BTreeMap<(usize, RankIx), Waits> = BTreeMap::new();
    for one in measured {
        let Some(&step) = one.found.step.and_then(|number| index.get(&number)) else { continue };
        for (at, &wait) in one.found.members.iter().zip(&one.waits) {
            waits.entry((step, at.rank)).or_default().own.push(wait);
        }
        let Some(last) = one.timing.last else { continue };
        let late = waits.entry((step, one.found.members[last].rank)).or_default();
        late.last += 1;
        for (position, at) in
            one.found.members.iter().enumerate().filter(|(position, _)| *position != last)
        {
            late.caused.entry(at.rank).or_default().extend(one.waits.get(position));
        }
    }
    let hidden = |rank: RankIx, waits: &SpanSet| {
        let compute = &compute[rank];
        waits.spans().iter().map(|wait| compute.measure_in(*wait)).fold(0, Ns::saturating_add)
    };
    let exposed =
        |rank: RankIx, waits: &SpanSet| waits.measure().saturating_sub(hidden(rank, waits));
    let row = |((step, rank), waits): ((usize, RankIx), Waits)| {
        let own = SpanSet::from_unsorted(waits.own);
        let caused = waits
            .caused
            .into_iter()
            .map(|(rank, waits)| exposed(rank, &SpanSet::from_unsorted(waits)));
        StepWait {
            step,
            rank: ranks[rank],
            wait_ns: own.measure(),
            exposed_wait_ns: exposed(rank, &own),
            waited_for_ns: caused.max().unwrap_or(0),
            last_count: waits.last,
        }
    };
    waits.into_iter().map(row).collect()
}
