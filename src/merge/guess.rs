//! Kernels whose communicator the trace does not name (no payloads).
//!
//! Usually each communicator has a stream of its own, so each stream's kernels of an operation are tried in each communicator's
//! records. A stream may also serve several communicators, told apart by the kernels' names (data types), or all streams one:
//! the way to split the kernels that fits best counts.

use std::collections::{BTreeMap, BTreeSet};

use super::place::{Block, Outcome, Placed, Sequence, place};
use super::trust::{MAX_DISAGREEING, is_close};
use crate::collectives::events::Event;

/// Lists times sequences that are tried with each other.
const MOST_TRIALS: usize = 1024;
/// A kernel that ends this far outside the time that its record leaves is in time, microseconds.
const NEAR_US: f64 = 50.0;

/// Kernels that belong to one sequence.
#[derive(Debug)]
pub(crate) struct Guess {
    /// The kernels.
    pub blocks: Vec<Block>,
    /// Index of the sequence.
    pub sequence: usize,
    /// Where they stand in it.
    pub placed: Placed,
}

/// Finds sequences for `blocks`, all of one operation. What fits none is in none of the guesses.
pub(crate) fn communicators(
    blocks: &[Block],
    events: &[Event],
    sequences: &[&Sequence<'_>],
) -> Vec<Guess> {
    let mut ends: Vec<f64> = blocks.iter().filter_map(|block| block.end_us).collect();
    ends.sort_unstable_by(f64::total_cmp);
    let mut best: (f64, Vec<Guess>) = (0.0, Vec::new());
    let mut seen = BTreeSet::new();
    for lists in ways(blocks, events) {
        // With one communicator and nothing to split, its place is all there is to say.
        let certain = lists.len() == 1 && sequences.len() == 1;
        if !seen.insert(lists.len()) || lists.len() * sequences.len() > MOST_TRIALS {
            continue;
        }
        let guesses = assign(lists, sequences, |guess| {
            certain || is_its_own(guess, events, sequences[guess.sequence], &ends)
        });
        let score = guesses.iter().map(|guess| guess.placed.score).sum::<f64>();
        if score > best.0 || best.1.is_empty() {
            best = (score, guesses);
        }
    }
    best.1
}

/// All together, by stream, by stream and name. A way that splits no further than the one before is the same.
fn ways(blocks: &[Block], events: &[Event]) -> [Vec<Vec<Block>>; 3] {
    let by = |key: &dyn Fn(&Event) -> (u32, Option<crate::model::NameId>)| {
        let mut lists: BTreeMap<_, Vec<Block>> = BTreeMap::new();
        for block in blocks {
            lists.entry(key(&events[block.event])).or_default().push(block.clone());
        }
        lists.into_values().collect::<Vec<_>>()
    };
    [
        by(&|_| (0, None)),
        by(&|event| (event.stream, None)),
        by(&|event| (event.stream, Some(event.name))),
    ]
}

/// Gives each list a sequence of its own, the best fitting first.
fn assign(
    lists: Vec<Vec<Block>>,
    sequences: &[&Sequence<'_>],
    accepts: impl Fn(&Guess) -> bool,
) -> Vec<Guess> {
    let mut trials: Vec<(usize, Guess)> = Vec::new();
    for (list, blocks) in lists.into_iter().enumerate() {
        for (s, sequence) in sequences.iter().enumerate() {
            trials.push((
                list,
                Guess { blocks: blocks.clone(), sequence: s, placed: place(&blocks, sequence) },
            ));
        }
    }
    trials.sort_by(|(a, x), (b, y)| {
        y.placed.score.total_cmp(&x.placed.score).then((a, x.sequence).cmp(&(b, y.sequence)))
    });
    let (mut lists_done, mut sequences_done) = (BTreeSet::new(), BTreeSet::new());
    let mut chosen = Vec::new();
    for (list, guess) in trials {
        if !lists_done.contains(&list)
            && !sequences_done.contains(&guess.sequence)
            && accepts(&guess)
        {
            lists_done.insert(list);
            sequences_done.insert(guess.sequence);
            chosen.push(guess);
        }
    }
    chosen
}

/// True if its records are those of no other kernels: nearly all have the kernel's duration, or leave a time in which no other kernel
/// (`ends`) ended.
fn is_its_own(guess: &Guess, events: &[Event], sequence: &Sequence<'_>, ends: &[f64]) -> bool {
    let (mut pairs, mut own) = (0_u64, 0_u64);
    for (block, outcome) in guess.blocks.iter().zip(&guess.placed.outcomes) {
        let Outcome::Paired(records) = outcome else { continue };
        for &r in records {
            let ended = sequence.ended[r];
            let before = |us: f64| ends.partition_point(|end| *end < us);
            let is_alone = before(ended.by + NEAR_US).checked_sub(before(ended.after - NEAR_US))
                == Some(1)
                && block.end_us.is_some_and(|end| ended.outside(end) <= NEAR_US);
            pairs += 1;
            own += u64::from(
                is_alone || is_close(&events[block.event], &sequence.ops[r]) == Some(true),
            );
        }
    }
    pairs > 0 && (pairs - own) as f64 <= MAX_DISAGREEING * pairs as f64
}
