//! Operations of unknown communicator: which streams of different ranks do the same, and which ranks belong together.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::matching::{Match, RankEvents};
use crate::stats;

/// Ranks of one communicator end its collectives this close to each other, from one to the next, ns. Through host memory they
/// were seen 23 us apart after 4 ms; over NVLink up to 14 us.
const TOGETHER_NS: i64 = 20_000;
/// One part in this many of an operation's duration is close, too: it changes no number that is read from it.
const TOGETHER_PART: i64 = 50;
/// Fewer collectives cannot tell groups of ranks apart.
const FEWEST: usize = 4;

/// For each rank the role of each stream without communicator ids: streams that run the same set of kernels have the same
/// role, in order of their dense numbers where a rank has several.
pub fn roles(ranks: &[RankEvents<'_>]) -> Vec<HashMap<u32, u32>> {
    type Role<'n> = (BTreeSet<&'n str>, usize);
    let mut numbers: BTreeMap<Role, u32> = BTreeMap::new();
    let mut list = Vec::with_capacity(ranks.len());
    for rank in ranks {
        let mut kernels: BTreeMap<u32, BTreeSet<crate::model::NameId>> = BTreeMap::new();
        for event in rank.events.iter().filter(|e| e.comm.is_none()) {
            kernels.entry(event.stream).or_default().insert(event.name);
        }
        let mut seen: BTreeMap<BTreeSet<&str>, usize> = BTreeMap::new();
        let mut own = HashMap::new();
        for (stream, names) in kernels {
            let names: BTreeSet<&str> = names.into_iter().map(|id| rank.names.get(id)).collect();
            let count = seen.entry(names.clone()).or_default();
            let next = numbers.len() as u32;
            own.insert(stream, *numbers.entry((names, *count)).or_insert(next));
            *count += 1;
        }
        list.push(own);
    }
    list
}

/// Splits matches whose ranks are known by the stream's role alone into the groups of ranks that end them together, and
/// returns the events that end together with nobody.
///
/// ```text
/// rank 0  [A   ]  [A ]       ranks 0 and 1 leave together every time, ranks 2 and 3 too, but not with them:
/// rank 1    [A ] [A  ]       two communicators
/// rank 2  [A ]   [A  ]
/// rank 3  [A ]     [A]
/// ```
///
/// A run of two ranks (`everyone`) has no groups to tell apart.
pub fn split(
    ranks: &[RankEvents<'_>],
    everyone: Option<u32>,
    matches: Vec<Match>,
) -> (Vec<Match>, Vec<(usize, usize)>) {
    if everyone == Some(2) {
        return (matches, Vec::new());
    }
    let mut by_role: BTreeMap<u32, Vec<&Match>> = BTreeMap::new();
    for m in &matches {
        if let Some(role) = m.role {
            by_role.entry(role).or_default().push(m);
        }
    }
    let groups: BTreeMap<u32, Vec<usize>> =
        by_role.into_iter().map(|(role, list)| (role, leaders(ranks, &list))).collect();
    let mut whole = Vec::with_capacity(matches.len());
    let mut alone = Vec::new();
    for m in matches {
        let Some(leader) = m.role.and_then(|role| groups.get(&role)) else {
            whole.push(m);
            continue;
        };
        let mut parts: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
        for &(r, e) in &m.members {
            parts.entry(leader[r]).or_default().push((r, e));
        }
        for members in parts.into_values() {
            match members.as_slice() {
                [only] => alone.push(*only),
                _ => whole.push(Match { members, ..m }),
            }
        }
    }
    (whole, alone)
}

/// For each rank the first rank of its group.
fn leaders(ranks: &[RankEvents<'_>], matches: &[&Match]) -> Vec<usize> {
    // Of operations that ranks leave together; of others only if there are none.
    let together =
        |m: &&&Match| m.members.iter().all(|&(r, e)| ranks[r].events[e].leaves_together());
    let mut used: Vec<&Match> = matches.iter().filter(together).copied().collect();
    let few_are_enough = !used.is_empty();
    if used.is_empty() {
        used = matches.to_vec();
    }
    let mut ends: Vec<Vec<End>> = vec![Vec::new(); ranks.len()];
    used.sort_by_key(|m| (ranks[m.members[0].0].events[m.members[0].1].start, m.members[0]));
    for (k, m) in used.iter().enumerate() {
        m.members.iter().for_each(|&(r, e)| {
            ends[r].push((k, ranks[r].events[e].end, ranks[r].events[e].duration()))
        });
    }
    let mut leader: Vec<usize> = (0..ranks.len()).collect();
    for r in 0..ranks.len() {
        if let Some(first) = (0..r)
            .filter(|&s| leader[s] == s && !ends[s].is_empty())
            .find(|&s| end_together(&ends[s], &ends[r], few_are_enough))
        {
            leader[r] = first;
        }
    }
    leader
}

/// How a rank leaves a match: the number of the match, the end and the duration, ns.
type End = (usize, i64, i64);

/// True if the distance of ends hardly changes from one collective to the next: clocks may be apart and drift.
fn end_together(a: &[End], b: &[End], few_are_enough: bool) -> bool {
    let (mut distances, mut durations) = (Vec::new(), Vec::new());
    let mut others = b.iter().peekable();
    for &(k, end, duration) in a {
        while others.next_if(|other| other.0 < k).is_some() {}
        if let Some(other) = others.next_if(|other| other.0 == k) {
            distances.push(other.1.saturating_sub(end));
            durations.push(duration.min(other.2));
        }
    }
    let changes: Vec<i64> =
        distances.windows(2).map(|pair| pair[1].saturating_sub(pair[0]).saturating_abs()).collect();
    let close = stats::median_i64(&durations)
        .map_or(TOGETHER_NS, |duration| TOGETHER_NS.max(duration / TOGETHER_PART));
    match distances.len() {
        few if few < FEWEST => few_are_enough,
        _ => stats::median_i64(&changes).is_some_and(|change| change <= close),
    }
}
