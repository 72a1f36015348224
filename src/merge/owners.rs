//! Which rank of the trace wrote which series: the process says, and where one process drives several devices, its
//! communicators' ranks do.

use std::collections::{BTreeMap, BTreeSet};

use super::collect::Collected;
use super::kernels::{Pair, RankKernels};
use super::pair::pair;
use crate::collectives::events::Event;
use crate::model::record::logged_id;

/// Which series each rank wrote, and under which host's name where that is not the report's.
#[derive(Debug, Default)]
pub(crate) struct Owned {
    /// For each rank its series (indices into [`Collected::series`]).
    pub series: Vec<Vec<usize>>,
    /// Ranks whose logs name another host, with that name.
    pub other_hosts: Vec<(u32, String)>,
}

/// Finds the series of each rank.
///
/// A series that the processes of several ranks could have written (one process with several devices; one pid on hosts whose names
/// the traces lack) goes to the rank that joined the communicator with its number; else to the one with whose kernels it agrees
/// best, and among equals in order.
pub(crate) fn owners(ranks: &[RankKernels], events: &[Vec<Event>], logs: &Collected) -> Owned {
    let mut other_hosts = Vec::new();
    let claims: Vec<Vec<usize>> = ranks
        .iter()
        .zip(events)
        .map(|(rank, events)| match other_host(rank, ranks, events, logs) {
            Some(host) => {
                other_hosts.push((rank.rank, host.to_owned()));
                logs.of_process(rank.pid, Some(host))
            }
            None => logs.of_process(rank.pid, rank.hostname.as_deref()),
        })
        .collect();
    let mut claimants: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    claims.iter().enumerate().for_each(|(r, series)| {
        series.iter().for_each(|&s| claimants.entry(s).or_default().push(r))
    });
    let mut owned = vec![Vec::new(); ranks.len()];
    // Contested series by communicator, then by the origin that wrote them.
    let mut contested: BTreeMap<&str, BTreeMap<usize, Vec<usize>>> = BTreeMap::new();
    for (&s, claimants) in &claimants {
        match claimants.as_slice() {
            [only] => owned[*only].push(s),
            _ => {
                let origin = logs.series[s].origin;
                contested
                    .entry(&logs.origins[origin].comm_id)
                    .or_default()
                    .entry(origin)
                    .or_default()
                    .push(s);
            }
        }
    }
    for origins in contested.into_values() {
        for (origin, r) in share(&origins, ranks, events, &claimants, logs) {
            owned[r].extend(&origins[&origin]);
        }
    }
    owned.iter_mut().for_each(|series| series.sort_unstable());
    Owned { series: owned, other_hosts }
}

/// The other name of a rank's host, if its logs have one.
fn other_host<'a>(
    rank: &RankKernels,
    ranks: &[RankKernels],
    events: &[Event],
    logs: &'a Collected,
) -> Option<&'a str> {
    let comms: BTreeSet<String> = events
        .iter()
        .filter_map(|event| event.comm)
        .chain(rank.comm_inits.iter().map(|init| init.comm))
        .map(logged_id)
        .collect();
    // Ranks of one process have one log.
    let only = ranks
        .iter()
        .filter(|other| other.pid == rank.pid)
        .all(|other| other.hostname == rank.hostname);
    logs.other_host(rank, &comms, only)
}

/// Gives each origin of one communicator a rank of its own.
fn share(
    origins: &BTreeMap<usize, Vec<usize>>,
    ranks: &[RankKernels],
    events: &[Vec<Event>],
    claimants: &BTreeMap<usize, Vec<usize>>,
    logs: &Collected,
) -> BTreeMap<usize, usize> {
    let mut shared: BTreeMap<usize, usize> = BTreeMap::new();
    let mut offers = Vec::new();
    for (&origin, series) in origins {
        let known = &logs.origins[origin];
        for &r in series.first().and_then(|s| claimants.get(s)).into_iter().flatten() {
            let joined = ranks[r]
                .comm_inits
                .iter()
                .any(|init| init.rank == known.rank && logged_id(init.comm) == known.comm_id);
            let agreement =
                if joined { u64::MAX } else { agreement(&ranks[r], &events[r], series, logs) };
            offers.push((std::cmp::Reverse(agreement), known.rank, r, origin));
        }
    }
    // The best first; among equals the lowest rank of the communicator with the first of the report.
    offers.sort_unstable();
    for (_, _, r, origin) in offers {
        if !shared.contains_key(&origin) && !shared.values().any(|&taken| taken == r) {
            shared.insert(origin, r);
        }
    }
    shared
}

/// Pairs, weighed by how closely their durations agree: ranks of one communicator run the same operations and differ in how long they
/// wait.
fn agreement(rank: &RankKernels, events: &[Event], series: &[usize], logs: &Collected) -> u64 {
    let found = pair(rank, events, series, logs, None);
    let weight = |us: f64, kernel: f64| 1000.0 / (1.0 + (us - kernel).abs() / 10.0);
    let one = |p: &Pair| {
        logs.ops[p.record]
            .exec_us
            .map_or(1.0, |us| 1.0 + weight(us, events[p.event].duration() as f64 / 1e3))
    };
    found.pairs.iter().map(one).sum::<f64>() as u64
}
