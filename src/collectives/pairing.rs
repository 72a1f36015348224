//! Which steps of different ranks are one step of the run (docs/metrics.md, section 2).
//!
//! Steps with one text (and one occurrence of it) are one step, unless texts do not mean that: they may carry a rank number
//! or each rank's own batch size. Where few texts are shared, or what they pair does not run at the same time, steps that
//! do run at the same time are tried too, and collectives decide: matched by the right pairing, their ends are one clock
//! offset apart.
//!
//! ```text
//! rank 0   |- bs=16 -|-- bs=17 --|- bs=16 -|      by text, "bs=16" here is the second step there, and ends are a step
//! rank 1   |- bs=15 -|-- bs=16 --|- bs=17 -|      apart, now more and now less; by overlap they agree
//! ```

use std::collections::BTreeMap;

use foldhash::{HashMap, HashMapExt};

use super::anchors::{Anchor, anchors};
use super::events::Event;
use crate::model::{CommOp, Names, Ns, Span};
use crate::stats;
use crate::steps::{Step, StepKey};

/// Steps run at the same time if this share of the shorter one's window does, one part in this many.
const MOST_OF: Ns = 2;
/// Windows near one in time that are looked at: those of one rank follow each other.
const NEAR: usize = 16;
/// Residuals below this do not differ, ns.
const EQUAL_NS: f64 = 1_000.0;
/// A residual this many times as large as the other decides.
const DECIDES: f64 = 2.0;

/// One rank as far as pairing needs it.
#[derive(Debug, Clone, Copy)]
pub struct RankSteps<'a> {
    /// Its steps.
    pub steps: &'a [Step],
    /// Unix time of its report's time 0, ns; `None` if unknown.
    pub epoch_ns: Option<Ns>,
    /// Its communication.
    pub events: &'a [Event],
    /// Kernel names.
    pub names: &'a Names,
}

/// What made steps of different ranks one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairedBy {
    /// Equal texts.
    Text,
    /// Their windows overlap, because few texts are shared.
    OverlapFewShared,
    /// Their windows overlap, because those of steps with equal text do not.
    OverlapTextsApart,
}

/// The steps of all ranks as numbers: equal numbers are the same step of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pairing {
    /// Number of each rank's steps, in the order of its steps.
    pub of_rank: Vec<Vec<usize>>,
    /// What each number is called: as on the first rank that has it.
    pub keys: Vec<StepKey>,
    /// How it was found.
    pub by: PairedBy,
    /// True if equal numbers are surely the same step, so that order counts from there: ranges with a number in their text,
    /// or ranges that run at the same time. Windows from kernels, whole captures and texts without a number of their own are
    /// only counted, from wherever a rank's capture begins.
    pub sure: bool,
}

impl Pairing {
    /// Pairs the steps of all ranks.
    pub fn new(ranks: &[RankSteps<'_>]) -> Pairing {
        let text = by_text(ranks);
        let Some(why) = doubt(ranks, &text) else { return text };
        let overlap = by_overlap(ranks, why);
        match overlap {
            Some(overlap) if fits_better(ranks, &overlap, &text) => overlap,
            _ => text,
        }
    }

    /// The same pairing of fewer steps: of each rank those at the places in `keep`.
    #[must_use]
    pub fn keep(&self, keep: &[Vec<usize>]) -> Pairing {
        let mut left: BTreeMap<usize, usize> = BTreeMap::new();
        let numbers = |(numbers, keep): (&Vec<usize>, &Vec<usize>)| -> Vec<usize> {
            keep.iter().filter_map(|&at| numbers.get(at).copied()).collect()
        };
        let mut of_rank: Vec<Vec<usize>> = self.of_rank.iter().zip(keep).map(numbers).collect();
        left.extend(of_rank.iter().flatten().map(|&number| (number, 0)));
        left.values_mut().enumerate().for_each(|(at, number)| *number = at);
        of_rank.iter_mut().flatten().for_each(|number| {
            *number = left.get(number).copied().unwrap_or_default();
        });
        let keys = left.keys().filter_map(|&number| self.keys.get(number).cloned()).collect();
        Pairing { of_rank, keys, by: self.by, sure: self.sure }
    }

    /// How many steps all ranks have.
    fn shared(&self) -> usize {
        let mut ranks_with = vec![0; self.keys.len()];
        self.of_rank.iter().flatten().for_each(|&number| ranks_with[number] += 1);
        ranks_with.iter().filter(|&&n| n == self.of_rank.len()).count()
    }
}

fn from_ranges(ranks: &[RankSteps<'_>]) -> bool {
    ranks.iter().flat_map(|rank| rank.steps).all(|step| step.range.is_some())
}

/// Numbers the steps by text and occurrence, in the order in which they first occur.
fn by_text(ranks: &[RankSteps<'_>]) -> Pairing {
    let mut numbers: HashMap<StepKey, usize> = HashMap::new();
    let mut keys: Vec<StepKey> = Vec::new();
    let mut number = |step: &Step| {
        *numbers.entry(step.key()).or_insert_with_key(|key| {
            keys.push(key.clone());
            keys.len() - 1
        })
    };
    let of_rank = ranks.iter().map(|rank| rank.steps.iter().map(&mut number).collect()).collect();
    // A number that never changes ("train_v2") names no step.
    let numbered = keys.iter().all(|key| key.name.contains(|c: char| c.is_ascii_digit()));
    let changes = keys.len() < 2 || keys.iter().any(|key| key.name != keys[0].name);
    let sure = from_ranges(ranks) && numbered && changes;
    Pairing { of_rank, keys, by: PairedBy::Text, sure }
}

/// The window of a step in Unix time.
fn window(rank: &RankSteps<'_>, step: usize) -> Option<Span> {
    let window = rank.steps.get(step)?.window.as_ref().ok()?;
    let unix = |ns: Ns| Some(ns.saturating_add(rank.epoch_ns?));
    Some(Span::new(unix(window.start)?, unix(window.end)?))
}

/// How long two windows run at the same time, ns.
fn common(a: Span, b: Span) -> Ns {
    a.end.min(b.end).saturating_sub(a.start.max(b.start)).max(0)
}

/// Why equal texts may not be the same step; `None` if nothing speaks against it.
fn doubt(ranks: &[RankSteps<'_>], text: &Pairing) -> Option<PairedBy> {
    let most = ranks.iter().map(|rank| rank.steps.len()).max()?;
    if ranks.len() < 2 || most < 2 {
        return None;
    }
    if 2 * text.shared() < most {
        return Some(PairedBy::OverlapFewShared);
    }
    let mut first: HashMap<usize, Span> = HashMap::new();
    for (rank, numbers) in ranks.iter().zip(&text.of_rank) {
        for (step, &number) in numbers.iter().enumerate() {
            let Some(own) = window(rank, step) else { continue };
            if common(*first.entry(number).or_insert(own), own) == 0 && !own.is_empty() {
                return Some(PairedBy::OverlapTextsApart);
            }
        }
    }
    None
}

/// Numbers the steps by when they run; `None` if a report does not tell when it was captured.
fn by_overlap(ranks: &[RankSteps<'_>], by: PairedBy) -> Option<Pairing> {
    // Windows in order of start with their numbers.
    let mut known: Vec<(Span, usize)> = Vec::new();
    let mut keys: Vec<StepKey> = Vec::new();
    let mut of_rank = Vec::with_capacity(ranks.len());
    for rank in ranks {
        rank.epoch_ns?;
        let windows: Vec<Option<Span>> =
            (0..rank.steps.len()).map(|step| window(rank, step)).collect();
        // For each known window the step of this rank that shares most time with it.
        let mut best: BTreeMap<usize, (Ns, usize)> = BTreeMap::new();
        for (step, own) in windows.iter().enumerate() {
            let Some(own) = *own else { continue };
            let after = known.partition_point(|(other, _)| other.start < own.end);
            let shares = |&at: &usize| {
                let both = common(known[at].0, own);
                both.saturating_mul(MOST_OF) > known[at].0.len().min(own.len())
            };
            let found = (after.saturating_sub(NEAR)..after)
                .filter(shares)
                .max_by_key(|&at| (common(known[at].0, own), std::cmp::Reverse(at)));
            if let Some(at) = found {
                let both = common(known[at].0, own);
                let place = best.entry(at).or_insert((both, step));
                if both > place.0 {
                    *place = (both, step);
                }
            }
        }
        let taken: HashMap<usize, usize> =
            best.into_iter().map(|(at, (_, step))| (step, known[at].1)).collect();
        let mut numbers = Vec::with_capacity(rank.steps.len());
        for (step, own) in windows.iter().enumerate() {
            numbers.push(taken.get(&step).copied().unwrap_or_else(|| {
                keys.push(rank.steps[step].key());
                known.extend(own.map(|own| (own, keys.len() - 1)));
                keys.len() - 1
            }));
        }
        known.sort_unstable_by_key(|(span, number)| (span.start, *number));
        of_rank.push(numbers);
    }
    Some(Pairing { of_rank, keys, by, sure: from_ranges(ranks) })
}

/// How well ends of collectives agree once each clock is corrected by one offset.
#[derive(Debug, Clone, Copy)]
struct Fit {
    /// 95th percentile of what is left, ns.
    residual: f64,
    /// The largest offset, ns.
    offset: f64,
}

/// True if collectives fit steps that run at the same time better than steps of equal text, or if nothing but steps tells
/// and it pairs more of them.
fn fits_better(ranks: &[RankSteps<'_>], overlap: &Pairing, text: &Pairing) -> bool {
    if 2 * overlap.shared() < text.shared() || overlap.shared() == 0 {
        return false;
    }
    match (fit(ranks, overlap), fit(ranks, text)) {
        (Some(overlap), Some(text)) => {
            let (a, b) = (overlap.residual.max(EQUAL_NS), text.residual.max(EQUAL_NS));
            let alike = a <= DECIDES * b && b <= DECIDES * a;
            // An offset below the residual is none.
            if alike { overlap.offset + a < text.offset } else { a < b }
        }
        (Some(_), None) => true,
        (None, Some(_)) => false,
        (None, None) => overlap.shared() > text.shared(),
    }
}

/// Operations of one kind in one step: only where ranks have equally many of them are they taken to be the same.
type Kind<'n> = (usize, Option<u64>, CommOp, &'n str);

fn fit(ranks: &[RankSteps<'_>], pairing: &Pairing) -> Option<Fit> {
    // The first rank that has operations of a kind, and their ends.
    let mut first: HashMap<Kind, (usize, Vec<Ns>)> = HashMap::new();
    let mut distances: BTreeMap<(usize, usize), Vec<Ns>> = BTreeMap::new();
    for (r, (rank, numbers)) in ranks.iter().zip(&pairing.of_rank).enumerate() {
        let mut own: BTreeMap<Kind, Vec<Ns>> = BTreeMap::new();
        for (event, anchor) in rank.events.iter().zip(anchors(rank.events, rank.steps, numbers)) {
            if let (Anchor::Step(step), true) = (anchor, event.leaves_together()) {
                let kind = (step, event.comm, event.op, rank.names.get(event.name));
                own.entry(kind)
                    .or_default()
                    .push(event.end.saturating_add(rank.epoch_ns.unwrap_or(0)));
            }
        }
        for (kind, ends) in own {
            match first.get(&kind) {
                Some((other, known)) if known.len() == ends.len() => {
                    let apart = known.iter().zip(&ends).map(|(a, b)| b.saturating_sub(*a));
                    distances.entry((*other, r)).or_default().extend(apart);
                }
                Some(_) => {}
                None => {
                    first.insert(kind, (r, ends));
                }
            }
        }
    }
    let (mut rest, mut largest) = (Vec::new(), 0.0f64);
    for list in distances.values() {
        let offset = stats::median_i64(list)?;
        largest = largest.max((offset as f64).abs());
        rest.extend(list.iter().map(|apart| (apart.saturating_sub(offset) as f64).abs()));
    }
    Some(Fit { residual: stats::quantile(&rest, 0.95)?, offset: largest })
}
