//! Which record is which kernel, on one rank: by communicator and operation, in order, by size and time;
//! duration decides only what is left. What does not fit stays alone, with its reason.

use std::collections::{BTreeMap, BTreeSet};

use super::LoggedOp;
use super::align::align;
use super::collect::Collected;
use crate::collectives::events::Event;
use crate::model::{CommOp, Ns};
use crate::stats;

/// One rank of the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankKernels {
    /// Rank number.
    pub rank: u32,
    /// Operating-system process id.
    pub pid: u32,
    /// Host name, if known.
    pub hostname: Option<String>,
    /// Nanoseconds from the report's own time to Unix time.
    pub epoch_ns: Option<i64>,
    /// First start and last end of any GPU work, in the report's own time.
    pub captured: Option<(Ns, Ns)>,
}

/// A kernel and a record of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// Index of the event.
    pub event: usize,
    /// Index into [`Collected::ops`].
    pub record: usize,
}

/// The pairs of one rank and what has no partner.
#[derive(Debug, Default)]
pub struct Found {
    /// In order of events.
    pub pairs: Vec<Pair>,
    /// Records of operations that ended while the trace ran.
    pub in_capture: u64,
    /// Kernels without a record, by reason.
    pub unmatched: BTreeMap<&'static str, u64>,
}

/// Host clocks of one machine, read by different programs, agree this well.
const SLACK_US: f64 = 1000.0;
/// A record is written within some dump intervals: this many times the usual delay, and never less than [`MIN_DELAY_US`].
const MAX_DELAYS: f64 = 5.0;
const MIN_DELAY_US: f64 = 50_000.0;

/// A part of a kernel that has a record of its own: the operation, or one of its sends or receives.
#[derive(Debug, Clone, Copy)]
struct Unit {
    event: usize,
    bytes: Option<u64>,
}

/// Pairs the events of a rank with its records (indices into `logs.ops`).
pub fn pair(rank: &RankKernels, events: &[Event], records: &[usize], logs: &Collected) -> Found {
    let mut found = Found::default();
    if records.is_empty() {
        return found;
    }
    let clock = Clock { epoch_ns: rank.epoch_ns };
    for (units, candidates) in sequences(events, records, logs) {
        let list: Vec<&LoggedOp> = candidates.iter().map(|&i| &logs.ops[i]).collect();
        let limit = clock.delay_limit(&units, events, &list);
        let mut pairs = align(units.len(), list.len(), |u, r| clock.cost(&units[u], &events[units[u].event], list[r], limit));
        continue_by_number(&units, &list, &mut pairs);
        for (unit, partner) in units.iter().zip(pairs) {
            match partner {
                Some(r) => found.pairs.push(Pair { event: unit.event, record: candidates[r] }),
                None => {
                    *found.unmatched.entry(why_alone(unit, &list)).or_default() += 1;
                }
            }
        }
    }
    found.pairs.sort_unstable();
    let delay = found.pairs.iter().filter_map(|p| clock.delay(&events[p.event], &logs.ops[p.record])).fold(SLACK_US, f64::max);
    found.in_capture = records.iter().filter(|&&i| clock.is_captured(rank, &logs.ops[i], delay)).count() as u64;
    found
}

/// Kernels whose times contradict the log, next to a pair: consecutive operations have consecutive numbers, so if the record
/// with the next number is free and of the same size, it is theirs. Times that are not the operation's own show up as distrust.
fn continue_by_number(units: &[Unit], list: &[&LoggedOp], pairs: &mut [Option<usize>]) {
    let mut taken: BTreeSet<usize> = pairs.iter().copied().flatten().collect();
    let number = |r: usize| list[r].sn.filter(|_| !list[r].p2p);
    let fits = |unit: &Unit, r: usize, sn: Option<u64>| list.get(r).is_some_and(|found| found.sn == sn && found.bytes == unit.bytes);
    for u in 1..pairs.len() {
        if let (None, Some(before)) = (pairs[u], pairs[u - 1])
            && let Some(sn) = number(before)
            && fits(&units[u], before + 1, sn.checked_add(1))
            && taken.insert(before + 1)
        {
            pairs[u] = Some(before + 1);
        }
    }
    for u in (0..pairs.len().saturating_sub(1)).rev() {
        if let (None, Some(after)) = (pairs[u], pairs[u + 1])
            && let (Some(sn), Some(previous)) = (number(after), after.checked_sub(1))
            && fits(&units[u], previous, sn.checked_sub(1))
            && taken.insert(previous)
        {
            pairs[u] = Some(previous);
        }
    }
}

fn why_alone(unit: &Unit, list: &[&LoggedOp]) -> &'static str {
    if list.is_empty() {
        "the log has no record of this operation on this communicator"
    } else if unit.bytes.is_some() && list.iter().all(|r| r.bytes != unit.bytes) {
        "no record of this size"
    } else {
        "no record at this time and place in the order (lost, or below the minimum size)"
    }
}

/// Kernels and records that can belong together, each in order: one sequence for each communicator and operation.
fn sequences(events: &[Event], records: &[usize], logs: &Collected) -> Vec<(Vec<Unit>, Vec<usize>)> {
    type Key = (Option<String>, CommOp);
    let by_payload = events.iter().any(|event| event.comm.is_some());
    let mut kernels: BTreeMap<Key, Vec<Unit>> = BTreeMap::new();
    for (i, event) in events.iter().enumerate() {
        let comm = event.comm.map(logged_id);
        let n = records
            .iter()
            .map(|&r| &logs.origins[logs.ops[r].origin])
            .find(|origin| comm.as_ref().is_none_or(|id| *id == origin.comm_id))
            .map_or(0, |origin| origin.n_ranks);
        for (op, count, bytes) in parts(event, n) {
            kernels.entry((comm.clone(), op)).or_default().extend((0..count).map(|_| Unit { event: i, bytes }));
        }
    }
    let mut lists = Vec::new();
    for ((comm, op), units) in kernels {
        let mut candidates: Vec<usize> = records
            .iter()
            .copied()
            .filter(|&r| {
                let record = &logs.ops[r];
                let same_comm = comm.as_ref().is_none_or(|id| logs.origins[record.origin].comm_id == *id);
                record.op == op && (same_comm || !by_payload)
            })
            .collect();
        // Within a communicator the sequence number is the order; between communicators only the time of writing is.
        match comm {
            Some(_) => candidates.sort_by_key(|&r| (logs.ops[r].sn, r)),
            None => candidates.sort_by_key(|&r| (logs.ops[r].written_us, logs.ops[r].sn, r)),
        }
        lists.push((units, candidates));
    }
    lists
}

/// A communicator id as Inspector prints it: `0x%lx`, cut to 16 characters.
pub fn logged_id(comm: u64) -> String {
    let mut text = format!("{comm:#x}");
    text.truncate(16);
    text
}

/// What records a kernel has: one of its operation; for sends and receives one each, and for an AllToAll, Gather or Scatter
/// one send and one receive for each peer. `n` is the size of the communicator.
fn parts(event: &Event, n: u32) -> Vec<(CommOp, usize, Option<u64>)> {
    let one = |count: usize| event.bytes.filter(|_| count == 1);
    match event.op {
        CommOp::SendRecv => {
            let (sends, receives) = (event.sends as usize, event.receives as usize);
            vec![(CommOp::Send, sends, one(sends)), (CommOp::Recv, receives, one(receives))]
        }
        CommOp::AllToAll => {
            let peers = n.saturating_sub(1) as usize;
            vec![(CommOp::Send, peers, event.bytes), (CommOp::Recv, peers, event.bytes)]
        }
        op => vec![(op, 1, event.bytes)],
    }
}

/// Compares times of the trace with those of the log, in Unix microseconds.
struct Clock {
    epoch_ns: Option<i64>,
}

impl Clock {
    fn us(&self, at: Ns) -> Option<f64> {
        self.epoch_ns.map(|epoch| at.saturating_add(epoch) as f64 / 1e3)
    }

    /// From the end of a kernel to the writing of a record.
    fn delay(&self, event: &Event, record: &LoggedOp) -> Option<f64> {
        Some(record.written_us? as f64 - self.us(event.end)?)
    }

    /// How late a record may be written: from the delays to the next record after each kernel.
    fn delay_limit(&self, units: &[Unit], events: &[Event], list: &[&LoggedOp]) -> f64 {
        let mut written: Vec<i64> = list.iter().filter_map(|r| r.written_us).collect();
        written.sort_unstable();
        let next = |unit: &Unit| -> Option<f64> {
            let end = self.us(events[unit.event].end)?;
            let after = written.get(written.partition_point(|&w| (w as f64) < end))?;
            Some(*after as f64 - end)
        };
        let delays: Vec<f64> = units.iter().filter_map(next).collect();
        stats::quantile(&delays, 0.9).map_or(f64::INFINITY, |usual| (usual * MAX_DELAYS).max(MIN_DELAY_US))
    }

    /// `None` if the record cannot be of this kernel; else how unlike their durations are, from 0 to 1.
    fn cost(&self, unit: &Unit, event: &Event, record: &LoggedOp, limit: f64) -> Option<f64> {
        if unit.bytes.is_some() && record.bytes.is_some() && unit.bytes != record.bytes {
            return None;
        }
        if let Some(delay) = self.delay(event, record)
            && !(-SLACK_US..=limit).contains(&delay)
        {
            return None;
        }
        if let (Some(stamps), Some(start), Some(end)) = (&record.stamps, self.us(event.start), self.us(event.end)) {
            // Verbose records bracket the kernel: enqueued before it started, noticed after it ended.
            let noticed = stamps.channels.iter().filter_map(|c| c.stop_us).max();
            if stamps.start_us.is_some_and(|t| t as f64 > start + SLACK_US) || noticed.is_some_and(|t| (t as f64) < end - SLACK_US) {
                return None;
            }
        }
        let kernel = event.duration() as f64 / 1e3;
        Some(record.exec_us.map_or(1.0, |us| ((us - kernel).abs() / kernel.max(us).max(1.0)).min(1.0)))
    }

    /// True if the operation ended while GPU work was captured; a plain record is written up to `delay` later.
    fn is_captured(&self, rank: &RankKernels, record: &LoggedOp, delay: f64) -> bool {
        let bounds = rank.captured.and_then(|(first, last)| Some((self.us(first)?, self.us(last)?)));
        let Some((first, last)) = bounds else { return false };
        let noticed = record.stamps.as_ref().and_then(|s| s.channels.iter().filter_map(|c| c.stop_us).max());
        match (noticed, record.written_us) {
            (Some(at), _) => (first - SLACK_US..=last + SLACK_US).contains(&(at as f64)),
            (None, Some(at)) => (first..=last + delay).contains(&(at as f64)),
            (None, None) => false,
        }
    }
}
