//! What each host call did: which operations it launched, which event it recorded, what it waited for.
//!
//! Calls that do none of this, and threads that only look on (NCCL's watchdog asks every event whether it is done), are no
//! part of the graph: what they take is time between two calls.

use foldhash::{HashMap, HashMapExt};

use super::layout::Process;
use crate::model::host::{Host, SyncKind};
use crate::model::op::NO_LAUNCH;
use crate::model::{NameId, Names, Ns, RankTrace};

/// One thing that a call did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    /// Launched an operation: (index of the rank, index of the operation).
    Op(usize, usize),
    /// Recorded an event: index into [`Host::records`].
    Record(usize),
    /// Waited, or let a stream wait: index into [`Host::syncs`].
    Sync(usize),
}

/// A call that is part of the graph.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kept {
    /// Index into the process's calls.
    pub call: usize,
    /// Its deeds are `deeds[first..first + n]`.
    first: usize,
    n: usize,
}

/// The calls of a process that do something, in order of their start.
#[derive(Debug, Default)]
pub(crate) struct Deeds {
    /// The calls.
    pub kept: Vec<Kept>,
    deeds: Vec<Deed>,
    /// Operations whose launching call is not in the capture, with the time up to which they must have been launched.
    pub unlaunched: Vec<(Ns, usize, usize)>,
}

impl Deeds {
    /// What a call did.
    pub(crate) fn of(&self, kept: &Kept) -> &[Deed] {
        &self.deeds[kept.first..kept.first + kept.n]
    }
}

/// Finds what each call of a process did.
pub(crate) fn deeds(process: &Process<'_>, traces: &[RankTrace]) -> Deeds {
    let host = process.host;
    let calls = &host.calls;
    let outermost = outermost(host);
    // The outermost call of each correlation id; of several rows with one id the earliest counts.
    let mut by_id: HashMap<i64, u32> = HashMap::with_capacity(calls.len());
    for i in (0..calls.len()).rev().filter(|&i| calls.correlation[i] != 0) {
        by_id.insert(calls.correlation[i], outermost[i]);
    }
    let mut found: Vec<(u32, Deed)> = Vec::new();
    let mut works = vec![false; host.threads.len()];
    let mut add = |call: u32, deed: Deed, is_work: bool| {
        found.push((call, deed));
        works[calls.thread[call as usize] as usize] |= is_work;
    };
    let mut unlaunched = Vec::new();
    for &rank in &process.ranks {
        let ops = &traces[rank].ops;
        for i in 0..ops.len() {
            match ops.correlation.get(i).and_then(|id| by_id.get(id)) {
                Some(&call) => add(call, Deed::Op(rank, i), true),
                None => unlaunched.push((Ns::MAX, rank, i)),
            }
        }
    }
    for (i, record) in host.records.iter().enumerate() {
        if let Some(&call) = by_id.get(&record.correlation) {
            add(call, Deed::Record(i), true);
        }
    }
    let names = process.ranks.first().map(|&rank| &traces[rank].names);
    for (i, sync) in host.syncs.iter().enumerate() {
        let Some(&call) = by_id.get(&sync.correlation) else { continue };
        let name = names.map_or("", |names| names.get(calls.name[call as usize]));
        if !only_asks(name) {
            add(call, Deed::Sync(i), sync.kind == SyncKind::StreamWait);
        }
    }
    found.retain(|(call, _)| works[calls.thread[*call as usize] as usize]);
    // Stable: operations of one call stay in order of time, and come before what it recorded.
    found.sort_by_key(|(call, _)| *call);
    let mut deeds = Deeds { unlaunched, ..Deeds::default() };
    for (call, deed) in found {
        match deeds.kept.last_mut() {
            Some(last) if last.call == call as usize => last.n += 1,
            _ => deeds.kept.push(Kept { call: call as usize, first: deeds.deeds.len(), n: 1 }),
        }
        deeds.deeds.push(deed);
    }
    launched_before(&mut deeds, traces);
    deeds
}

/// True for calls that ask whether something is done and do not wait for it.
fn only_asks(function: &str) -> bool {
    function.contains("Query")
}

/// For each call the outermost one on its thread that is open when it starts.
fn outermost(host: &Host) -> Vec<u32> {
    let calls = &host.calls;
    let mut open: Vec<Option<u32>> = vec![None; host.threads.len()];
    (0..calls.len())
        .map(|i| {
            let slot = &mut open[calls.thread[i] as usize];
            match *slot {
                Some(outer) if calls.end[i] <= calls.end[outer as usize] => outer,
                _ => {
                    *slot = Some(i as u32);
                    i as u32
                }
            }
        })
        .collect()
}

/// An operation of unknown launch was launched before the next one of its stream, and before it started.
fn launched_before(deeds: &mut Deeds, traces: &[RankTrace]) {
    let mut next: HashMap<(usize, u32), Ns> = HashMap::new();
    let mut unknown = std::mem::take(&mut deeds.unlaunched).into_iter().rev().peekable();
    let mut ranks: Vec<usize> = unknown.clone().map(|(_, rank, _)| rank).collect();
    ranks.dedup();
    let mut placed = Vec::new();
    for rank in ranks {
        let ops = &traces[rank].ops;
        for i in (0..ops.len()).rev() {
            let before = next.entry((rank, ops.stream[i])).or_insert(Ns::MAX);
            if unknown.next_if(|&(_, r, op)| (r, op) == (rank, i)).is_some() {
                *before = (*before).min(ops.start[i]);
                placed.push((*before, rank, i));
            } else if ops.launch[i] != NO_LAUNCH {
                *before = ops.launch[i];
            }
        }
    }
    placed.sort_unstable();
    deeds.unlaunched = placed;
}

/// How long a quick launch of each function takes, ns, by name: the lower quartile of its calls.
#[derive(Debug, Default)]
pub(crate) struct Quick(HashMap<NameId, Ns>);

impl Quick {
    /// Learns it from the kept calls of a process.
    pub(crate) fn learn(deeds: &Deeds, host: &Host) -> Quick {
        let mut by_name: HashMap<NameId, Vec<i64>> = HashMap::new();
        for kept in &deeds.kept {
            let took = host.calls.end[kept.call].saturating_sub(host.calls.start[kept.call]);
            by_name.entry(host.calls.name[kept.call]).or_default().push(took);
        }
        let quartile = |(name, list): (NameId, Vec<i64>)| {
            Some((name, crate::stats::quantile_i64(&list, 0.25)?))
        };
        Quick(by_name.into_iter().filter_map(quartile).collect())
    }

    /// What a launch by this call takes where nothing blocks it.
    pub(crate) fn of(&self, host: &Host, call: usize) -> Ns {
        self.0.get(&host.calls.name[call]).copied().unwrap_or(0)
    }
}

/// Names of the functions that a process called.
pub(crate) fn called<'a>(host: &Host, names: &'a Names) -> impl Iterator<Item = &'a str> {
    let mut seen: Vec<_> = host.calls.name.clone();
    seen.sort_unstable();
    seen.dedup();
    seen.into_iter().map(|name| names.get(name))
}
