//! Rough clocks where steps say nothing: the shift at which most collectives of two ranks end together.
//!
//! Every pair of equal operations votes for the distance of its ends. True pairs agree within microseconds; wrong ones
//! scatter, because no two steps take equally long.
//!
//! ```text
//! rank 0   |a |b   |c  |d          ends
//! rank 1          |b   |c  |d |e   the same clockwork, captured later on another clock: three votes for one distance
//! ```

use std::collections::BTreeMap;

use foldhash::HashSet;
use rayon::prelude::*;

use super::clocks::{Origin, RankClock};
use super::matches::{Bucket, RankEvents};

/// Ends this close vote for one distance, ns.
const TOGETHER_NS: i64 = 50_000;
/// How far reports' epochs may be off, ns: clocks of one machine, then of synchronised machines; then anything goes.
const RANGES_NS: [i64; 3] = [2_000_000, 200_000_000, i64::MAX];
/// This share of the operations that both ranks captured must agree.
const AGREE: f64 = 0.6;
/// Fewer votes are not evidence, where there could be more.
const FEWEST: usize = 3;
/// Operations of one rank that vote: three runs of this length.
const RUN: usize = 20;
/// A rank that agrees with none of so many others with which it shares operations was captured at another time.
const ATTEMPTS: usize = 8;

/// The end of an operation that ranks leave together: time, and which operation it can be.
type Mark = (i64, usize);

/// A clock for each rank; ranks that could not be placed have a number of their own as `linked`.
pub(crate) fn rough(
    ranks: &[RankEvents<'_>],
    buckets: &[Bucket],
    origins: &[Origin],
) -> Vec<RankClock> {
    let marks = marks(ranks, buckets, origins);
    let mut bases: Vec<Option<i64>> = vec![None; ranks.len()];
    let epoch = |r: usize| origins[r].epoch_ns.unwrap_or(0);
    let mut linked: Vec<usize> = (0..ranks.len()).collect();
    let mut failed = vec![0; ranks.len()];
    for root in 0..ranks.len() {
        if bases[root].is_some() {
            continue;
        }
        bases[root] = Some(epoch(root));
        let mut placed = vec![root];
        // Each rank that finds a place may be the one that the next shares a communicator with.
        let mut next = 0;
        while let Some(&known) = placed.get(next) {
            next += 1;
            let corrected = bases[known].unwrap_or(0).saturating_sub(epoch(known));
            let open: Vec<usize> = (root + 1..ranks.len())
                .filter(|&r| bases[r].is_none() && failed[r] < ATTEMPTS)
                .collect();
            let both =
                |r: usize| origins[r].epoch_ns.is_some() && origins[known].epoch_ns.is_some();
            let votes: Vec<Vote> =
                open.par_iter().map(|&r| vote(&marks[known], &marks[r], both(r))).collect();
            for (r, vote) in open.into_iter().zip(votes) {
                match vote {
                    Vote::Shift(shift) => {
                        bases[r] = Some(epoch(r).saturating_add(corrected).saturating_add(shift));
                        linked[r] = root;
                        placed.push(r);
                    }
                    Vote::Nothing => failed[r] += 1,
                    Vote::Strangers => {}
                }
            }
        }
    }
    bases
        .into_iter()
        .zip(linked)
        .map(|(base, linked)| RankClock::shifted(base.unwrap_or(0), linked))
        .collect()
}

/// Marks of each rank on its own epoch, in order.
fn marks(ranks: &[RankEvents<'_>], buckets: &[Bucket], origins: &[Origin]) -> Vec<Vec<Mark>> {
    let mut marks: Vec<Vec<Mark>> = vec![Vec::new(); ranks.len()];
    // Operations of one bucket that differ in size are different operations.
    let mut kinds: BTreeMap<(usize, Option<u64>), usize> = BTreeMap::new();
    for (b, bucket) in buckets.iter().enumerate() {
        for (r, list) in &bucket.lists {
            for &e in list {
                let event = &ranks[*r].events[e];
                if event.leaves_together() {
                    let next = kinds.len();
                    let kind = *kinds.entry((b, event.bytes)).or_insert(next);
                    marks[*r]
                        .push((event.end.saturating_add(origins[*r].epoch_ns.unwrap_or(0)), kind));
                }
            }
        }
    }
    marks.iter_mut().for_each(|list| list.sort_unstable());
    marks
}

/// What operations of two ranks say about their clocks.
enum Vote {
    /// What to add to the second rank's times so that most collectives end together with the first one's.
    Shift(i64),
    /// No shift lets enough of them end together.
    Nothing,
    /// There is no operation in which both take part.
    Strangers,
}

fn vote(known: &[Mark], other: &[Mark], epochs: bool) -> Vote {
    let kinds = |marks: &[Mark]| marks.iter().map(|m| m.1).collect::<HashSet<usize>>();
    // Only operations that both take part in can agree.
    let shared: HashSet<usize> = kinds(known).intersection(&kinds(other)).copied().collect();
    if shared.is_empty() {
        return Vote::Strangers;
    }
    let of_both = |marks: &[Mark]| {
        marks.iter().filter(|m| shared.contains(&m.1)).copied().collect::<Vec<Mark>>()
    };
    let (known, other) = (of_both(known), of_both(other));
    let ranges = if epochs { &RANGES_NS[..] } else { &RANGES_NS[2..] };
    ranges
        .iter()
        .find_map(|&range| shift_within(&known, &other, range))
        .map_or(Vote::Nothing, Vote::Shift)
}

fn shift_within(known: &[Mark], other: &[Mark], range: i64) -> Option<i64> {
    let voters = voters(other);
    let mut distances: Vec<i64> = Vec::new();
    for &(end, kind) in &voters {
        let from = known.partition_point(|m| m.0 < end.saturating_sub(range));
        let near = known[from..].iter().take_while(|m| m.0 <= end.saturating_add(range));
        distances.extend(near.filter(|m| m.1 == kind).map(|m| m.0.saturating_sub(end)));
    }
    distances.sort_unstable();
    let best = most_votes(&distances)?;
    // Those that the first rank captured too.
    let (first, last) = (known.first()?.0, known.last()?.0);
    let at = |end: i64| end.saturating_add(best);
    let possible = voters
        .iter()
        .filter(|m| {
            at(m.0) >= first.saturating_sub(TOGETHER_NS)
                && at(m.0) <= last.saturating_add(TOGETHER_NS)
        })
        .count();
    let agree = voters
        .iter()
        .filter(|m| {
            let from = known.partition_point(|k| k.0 < at(m.0).saturating_sub(TOGETHER_NS));
            known[from..]
                .iter()
                .take_while(|k| k.0 <= at(m.0).saturating_add(TOGETHER_NS))
                .any(|k| k.1 == m.1)
        })
        .count();
    let enough = agree >= FEWEST.min(known.len()).min(other.len());
    (enough && agree as f64 >= AGREE * possible as f64).then_some(best)
}

/// The middle of the window with most distances; of several the one nearest to 0.
fn most_votes(sorted: &[i64]) -> Option<i64> {
    let mut best: Option<(usize, u64, i64)> = None;
    let mut first = 0;
    for last in 0..sorted.len() {
        while sorted[last].saturating_sub(sorted[first]) > TOGETHER_NS {
            first += 1;
        }
        let middle = sorted[first + (last - first) / 2];
        let candidate = (last - first + 1, middle.unsigned_abs(), middle);
        if best.is_none_or(|b| {
            (candidate.0, std::cmp::Reverse(candidate.1)) > (b.0, std::cmp::Reverse(b.1))
        }) {
            best = Some(candidate);
        }
    }
    best.map(|(_, _, middle)| middle)
}

/// All marks, or runs from the beginning, the middle and the end.
fn voters(marks: &[Mark]) -> Vec<Mark> {
    if marks.len() <= 3 * RUN {
        return marks.to_vec();
    }
    let middle = (marks.len() - RUN) / 2;
    [0, middle, marks.len() - RUN]
        .into_iter()
        .flat_map(|from| marks[from..from + RUN].iter().copied())
        .collect()
}
