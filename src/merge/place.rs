//! Where the kernels of a trace stand in a numbered sequence of records.
//!
//! Consecutive operations have consecutive numbers, also where records were lost. So the place of all kernels is one offset:
//!
//! ```text
//! kernel      0    1    2    3                        offset 5: sizes, times, durations agree
//! number      5    6    7    8    9   10              offset 6: they do not
//! record      r    r    -    r    r    r              kernel 2 has no record: 7 was lost
//! ```
//! If the trace lost kernels, the offset grows on the way. The best way through the offsets is found by dynamic programming over
//! those that most kernels vote for; a stretch whose best offset is not clearly better than every other is left alone.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::clock::{Ended, Passes};
use super::collect::LoggedOp;
use crate::model::CommOp;
use crate::stats;

/// A logged size that is the kernel's own speaks for a pair this much.
const SAME_SIZE: f64 = 0.25;
/// A time that fits speaks for it, one that lies further outside speaks against it.
const TIME_INSIDE: f64 = 0.5;
const TIME_OUTSIDE: f64 = -1.0;
/// How far outside counts in full, microseconds: the proxy thread notices late, and clocks differ a little. Usually they agree within
/// some ten microseconds, so closeness counts by its logarithm, from this on.
const LATE_US: f64 = 5_000.0;
const PROMPT_US: f64 = 50.0;
/// Durations by the GPU's own timer differ by some microseconds; twice as much still says something.
const CLOSE_US: f64 = 10.0;
/// The record at a kernel's place has another size or operation.
const MISFIT: f64 = -2.0;
/// What a change of the offset has to gain: more than two kernels gain by chance.
const CHANGE: f64 = 3.0;
/// Where this share of the pairs has the duration of the kernel (within [`SAME_US`]), a pair that has neither its duration nor its time (within
/// [`PROMPT_US`]) nor, among several, its size is none. Elsewhere the log's times are not to be trusted, and numbers decide.
const MOSTLY: f64 = 0.6;
const SAME_US: f64 = 20.0;
/// If all durations are further off than this, microseconds, the place is wrong, however well times fit (the clock may be off), unless sizes
/// speak for it.
const FAR_US: f64 = 1_000.0;
/// How much better than any other, and than none, the best offset must be: this, and for n pairs as much times the root of n, with which
/// chance agreement grows.
const MARGIN: f64 = 0.3;

/// Without times a kernel votes for all records that fit it in size and duration; of a longer sequence than this ...
const SHORT: usize = 1 << 14;
/// ... only for those whose duration differs by less than this, microseconds.
const VOTE_US: f64 = 30.0;
/// Kernels that are asked for their vote.
const VOTERS: usize = 32;
/// Votes after which no further kernel is asked.
const VOTES: usize = 1 << 20;
/// A kernel that carries more operations than this has no vote.
const MOST_PARTS: i64 = 4096;
/// A kernel that fits more records than this votes with its neighbours, ...
const CROWD: usize = 1 << 12;
/// ... so many kernels together.
const NEIGHBOURS: usize = 16;
/// Offsets all over the sequence that show what chance does.
const SAMPLED: i64 = 32;
/// Offsets that are followed.
const OFFSETS: usize = 256;
/// Cells of the table; fewer offsets are followed through longer traces.
const CELLS: usize = 1 << 25;

/// What a kernel says about the size of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// It is this.
    Exactly(u64),
    /// It is one of several that add up to this.
    AtMost(u64),
    /// Nothing.
    Unknown,
}

impl Size {
    /// True if a record of `bytes` can be meant.
    pub fn allows(self, bytes: Option<u64>) -> bool {
        match (self, bytes) {
            (Size::Exactly(own), Some(logged)) => own == logged,
            (Size::AtMost(own), Some(logged)) => logged <= own,
            _ => true,
        }
    }
}

/// Operations of one kernel that have a record each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// What is logged.
    pub op: CommOp,
    /// How often.
    pub count: u32,
    /// Its size.
    pub size: Size,
}

/// What is known of a kernel before it is placed.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Index of the event.
    pub event: usize,
    /// When it ended, Unix microseconds of the log's clock, if that is known.
    pub end_us: Option<f64>,
    /// Its duration, microseconds.
    pub duration_us: f64,
    /// What it carries: one collective, or sends and receives (two entries at most).
    pub parts: Vec<Part>,
}

impl Block {
    fn width(&self) -> i64 {
        self.parts.iter().map(|part| i64::from(part.count)).sum()
    }

    /// How well a record fits the kernel; `None` if it cannot be of it.
    fn fit(&self, part: &Part, op: &LoggedOp, ended: Ended) -> Option<f64> {
        if part.op != op.op || !part.size.allows(op.bytes) {
            return None;
        }
        let size = if matches!(part.size, Size::Exactly(_)) && op.bytes.is_some() {
            SAME_SIZE
        } else {
            0.0
        };
        let time = match self.end_us {
            // Without a pass before its own, a record may be of any time before.
            Some(end) if ended.after == f64::NEG_INFINITY => {
                TIME_OUTSIDE * lateness(ended.outside(end))
            }
            Some(end) => TIME_INSIDE + (TIME_OUTSIDE - TIME_INSIDE) * lateness(ended.outside(end)),
            None => 0.0,
        };
        let duration = op
            .exec_us
            .filter(|_| op.is_gpu_timed())
            .map_or(0.0, |us| 1.0 / (1.0 + ((us - self.duration_us) / CLOSE_US).powi(2)));
        Some(size + time + duration)
    }
}

/// From 0 (on time) to 1 (late in full).
fn lateness(us: f64) -> f64 {
    // Most kernels are on time, and logarithms are slow.
    if us <= 0.0 {
        0.0
    } else {
        ((us / PROMPT_US).ln_1p() / (LATE_US / PROMPT_US).ln_1p()).min(1.0)
    }
}

/// A series of records in order of their numbers.
#[derive(Debug)]
pub struct Sequence<'a> {
    /// All records; those that have a usable number first.
    pub ops: &'a [LoggedOp],
    /// When each ended.
    pub ended: Vec<Ended>,
    /// How many of them have a place in the sequence.
    len: usize,
    /// True if the records carry numbers; else their position is taken for it.
    numbered: bool,
    /// The latest end up to each record and the earliest from each on, if they are not in order already.
    envelope: Option<Vec<Ended>>,
    /// True if the records are not all of one size.
    sizes_vary: bool,
    /// Records with a duration by the GPU's timer, shortest first.
    by_duration: OnceLock<Vec<u32>>,
}

impl<'a> Sequence<'a> {
    /// A sequence of the records that have a number, or of all if none has. Numbers beyond half of an `i64` are damage.
    pub fn new(ops: &'a [LoggedOp], passes: &Passes) -> Sequence<'a> {
        let ended: Vec<Ended> = ops.iter().map(|op| Ended::of(op, passes)).collect();
        let numbered = ops.first().is_some_and(|op| op.sn.is_some());
        let usable = ops.partition_point(|op| op.sn.is_some_and(|sn| sn <= (i64::MAX / 2) as u64));
        let len = if numbered { usable } else { ops.len() };
        let in_order = ended[..len].is_sorted_by(|a, b| a.by <= b.by && a.after <= b.after);
        let envelope = (!in_order).then(|| envelope(&ended[..len]));
        let sizes_vary = ops.windows(2).any(|pair| pair[0].bytes != pair[1].bytes);
        Sequence { ops, ended, len, numbered, envelope, sizes_vary, by_duration: OnceLock::new() }
    }

    /// The number of a record.
    pub fn number(&self, i: usize) -> i64 {
        match self.ops[i].sn {
            Some(sn) if self.numbered => sn as i64,
            _ => i as i64,
        }
    }

    /// First and last number.
    pub fn bounds(&self) -> Option<(i64, i64)> {
        let last = self.len.checked_sub(1)?;
        Some((self.number(0), self.number(last)))
    }

    fn index_from(&self, number: i64) -> usize {
        if self.numbered {
            self.ops[..self.len].partition_point(|op| op.sn.is_some_and(|sn| (sn as i64) < number))
        } else {
            usize::try_from(number).unwrap_or(0).min(self.len)
        }
    }

    /// Calls `each` for the records that can be of a kernel: by its time, or where that is not known by its duration; with their fit.
    fn candidates(&self, block: &Block, mut each: impl FnMut(usize, f64)) {
        let mut look = |i: usize| {
            let fits =
                block.parts.iter().filter_map(|part| block.fit(part, &self.ops[i], self.ended[i]));
            let best = fits.fold(0.0, f64::max);
            if best > 0.0 {
                each(i, best);
            }
        };
        match block.end_us {
            Some(end) => {
                let ended = self.envelope.as_deref().unwrap_or(&self.ended[..self.len]);
                let first = ended.partition_point(|ended| ended.by < end - LATE_US);
                let last = ended.partition_point(|ended| ended.after <= end + LATE_US);
                (first..last.max(first)).for_each(look);
            }
            None if self.len <= SHORT => (0..self.len).for_each(look),
            None => {
                let us = |i: &u32| self.ops[*i as usize].exec_us.unwrap_or(0.0);
                let index = self.by_duration();
                let first = index.partition_point(|i| us(i) < block.duration_us - VOTE_US);
                let near =
                    index[first..].iter().take_while(|i| us(i) <= block.duration_us + VOTE_US);
                near.for_each(|&i| look(i as usize));
            }
        }
    }

    fn by_duration(&self) -> &[u32] {
        self.by_duration.get_or_init(|| {
            let timed = |i: &u32| {
                self.ops[*i as usize].exec_us.is_some() && self.ops[*i as usize].is_gpu_timed()
            };
            let mut index: Vec<u32> =
                (0..u32::try_from(self.len).unwrap_or(u32::MAX)).filter(timed).collect();
            let us = |i: u32| self.ops[i as usize].exec_us.unwrap_or(0.0);
            index.sort_unstable_by(|&a, &b| us(a).total_cmp(&us(b)).then(a.cmp(&b)));
            index
        })
    }

    /// Calls `each` for every record whose number falls to the block at this place, with its fit or `None`.
    fn at(&self, block: &Block, first: i64, each: &mut impl FnMut(usize, Option<f64>)) {
        let mut left = [0; 2];
        left.iter_mut().zip(&block.parts).for_each(|(left, part)| *left = part.count);
        let end = first.saturating_add(block.width());
        for i in self.index_from(first)..self.len {
            if self.number(i) >= end {
                break;
            }
            let fitting = block.parts.iter().zip(&mut left).filter(|(_, left)| **left > 0);
            let found = fitting
                .filter_map(|(part, left)| {
                    Some((block.fit(part, &self.ops[i], self.ended[i])?, left))
                })
                .next();
            each(
                i,
                found.map(|(fit, left)| {
                    *left -= 1;
                    fit
                }),
            );
        }
    }

    /// How far a record's duration is from the kernel's, microseconds; `None` without one by the GPU's timer.
    fn delta_us(&self, block: &Block, i: usize) -> Option<f64> {
        let us = self.ops[i].exec_us.filter(|_| self.ops[i].is_gpu_timed())?;
        Some((us - block.duration_us).abs())
    }

    /// True if a record has the duration of the kernel, its time, or the size that not all have; or says nothing about the first.
    fn is_like(&self, block: &Block, i: usize) -> bool {
        let is_sized =
            self.sizes_vary && block.parts.iter().any(|part| matches!(part.size, Size::Exactly(_)));
        is_sized
            || self.delta_us(block, i).is_none_or(|us| us <= SAME_US)
            || block.end_us.is_some_and(|end| self.ended[i].outside(end) <= PROMPT_US)
    }

    /// The records at this place that fit the block, and how many do not.
    fn records(&self, block: &Block, first: i64) -> (Vec<usize>, usize) {
        let (mut records, mut misfits) = (Vec::new(), 0);
        self.at(block, first, &mut |record, fit| match fit {
            Some(_) => records.push(record),
            None => misfits += 1,
        });
        (records, misfits)
    }

    /// How well the records at this place fit the block, beyond what any record of the sequence does by `chance`.
    fn score(&self, block: &Block, first: i64, chance: f64) -> f64 {
        let mut score = 0.0;
        self.at(block, first, &mut |_, fit| score += fit.map_or(MISFIT, |fit| fit - chance));
        score
    }
}

/// The narrowest bounds in order that hold these.
fn envelope(ended: &[Ended]) -> Vec<Ended> {
    let mut bounds = ended.to_vec();
    let (mut latest, mut earliest) = (f64::NEG_INFINITY, f64::INFINITY);
    for bound in &mut bounds {
        latest = latest.max(bound.by);
        bound.by = latest;
    }
    for bound in bounds.iter_mut().rev() {
        earliest = earliest.min(bound.after);
        bound.after = earliest;
    }
    bounds
}

/// What became of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// These are its records.
    Paired(Vec<usize>),
    /// This is its number, but there is no such record.
    Absent(i64),
    /// The record with its number has another size or operation.
    Misfit,
    /// It fits in several places equally well.
    Unsure,
    /// No record fits it.
    Nowhere,
}

/// The places of all kernels of one sequence.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    /// One for each block.
    pub outcomes: Vec<Outcome>,
    /// How well the placed ones fit together.
    pub score: f64,
}

/// Finds the place of `blocks`, which are in order of time, in `sequence`.
pub fn place(blocks: &[Block], sequence: &Sequence<'_>) -> Placed {
    let mut firsts = Vec::with_capacity(blocks.len());
    let mut count = 0_i64;
    for block in blocks {
        firsts.push(count);
        count = count.saturating_add(block.width());
    }
    let mut placed = Placed { outcomes: vec![Outcome::Nowhere; blocks.len()], score: 0.0 };
    let Search { offsets, tried } = search(blocks, &firsts, sequence);
    if offsets.is_empty() {
        return placed;
    }
    let first = |i: usize, offset: i64| firsts[i].saturating_add(offset);
    let chance = Chance::of(blocks, &offsets, sequence, first);
    let score = |i: usize, offset: i64| sequence.score(&blocks[i], first(i, offset), chance.mean);
    // The best of n sums of random numbers lies about this many of their standard deviations above the mean. Where all offsets are followed,
    // each is seen beside the others, and none needs to be feared unseen.
    let luck = if tried > offsets.len() {
        (2.0 * (tried as f64 * blocks.len() as f64).ln()).sqrt()
    } else {
        0.0
    };
    let way = best_way(blocks.len(), &offsets, score);
    let mut start = 0;
    for run in way.chunk_by(|a, b| a == b) {
        let range = start..start + run.len();
        start = range.end;
        let offset = offsets[run[0]];
        let found = |i: usize, offset: i64| sequence.records(&blocks[i], first(i, offset));
        let own: Vec<(Vec<usize>, usize)> = range.clone().map(|i| found(i, offset)).collect();
        let root = (own.iter().map(|(records, _)| records.len()).sum::<usize>() as f64).sqrt();
        let margin = MARGIN + MARGIN * root;
        // Nothing is an alternative, too, and so is luck.
        let fit: f64 =
            range.clone().map(|i| sequence.score(&blocks[i], first(i, offset), 0.0)).sum();
        let total = |offset: i64| range.clone().map(|i| score(i, offset)).sum::<f64>();
        let beyond_chance = total(offset);
        if fit < margin || beyond_chance < luck * chance.deviation * root {
            continue;
        }
        let enough = beyond_chance - margin;
        let deltas = deltas(&blocks[range.clone()], &own, sequence);
        if !deltas.is_empty() && deltas.iter().all(|us| *us > FAR_US) && !sequence.sizes_vary {
            continue;
        }
        let close = deltas.iter().filter(|us| **us <= SAME_US).count();
        let strict = close > 0 && close as f64 >= MOSTLY * deltas.len() as f64;
        placed.score += fit;
        let rivals: Vec<i64> = offsets
            .iter()
            .copied()
            .filter(|&other| other != offset && total(other) > enough)
            .collect();
        for (i, (records, misfits)) in range.zip(own) {
            placed.outcomes[i] = match (records.is_empty(), misfits) {
                // Another offset does no harm where it means the same records.
                _ if rivals.iter().any(|&other| found(i, other).0 != records) => Outcome::Unsure,
                (false, _)
                    if strict && !records.iter().any(|&r| sequence.is_like(&blocks[i], r)) =>
                {
                    Outcome::Misfit
                }
                (false, _) => Outcome::Paired(records),
                (true, 0) => Outcome::Absent(first(i, offset)),
                (true, _) => Outcome::Misfit,
            };
        }
    }
    placed
}

/// How far the durations by the GPU's timer are from those of the kernels, microseconds.
fn deltas(blocks: &[Block], records: &[(Vec<usize>, usize)], sequence: &Sequence<'_>) -> Vec<f64> {
    let pairs = blocks
        .iter()
        .zip(records)
        .flat_map(|(block, (records, _))| records.iter().map(move |&r| (block, r)));
    pairs.filter_map(|(block, r)| sequence.delta_us(block, r)).collect()
}

/// How well records fit kernels that they are not of: where all durations are alike, quite well, and an offset must not win because
/// fewer records are lost on its way, or because it is the luckiest of many.
struct Chance {
    mean: f64,
    deviation: f64,
}

impl Chance {
    /// From the offsets other than the best: those that were found, and some all over the sequence. The worse for the best counts.
    fn of(
        blocks: &[Block],
        offsets: &[i64],
        sequence: &Sequence<'_>,
        first: impl Fn(usize, i64) -> i64,
    ) -> Chance {
        let fits = |&offset: &i64| {
            let mut fits = Vec::new();
            for (i, block) in blocks.iter().enumerate() {
                sequence.at(block, first(i, offset), &mut |_, fit| fits.extend(fit));
            }
            fits
        };
        let mut found: Vec<(f64, i64)> =
            offsets.iter().map(|offset| (fits(offset).iter().sum(), *offset)).collect();
        found.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let best = found.pop().map(|(_, offset)| offset);
        let (low, high) = sequence.bounds().unwrap_or((0, 0));
        let step = ((high - low) / SAMPLED).max(1);
        let spread = (0..SAMPLED)
            .map(|i| low.saturating_add(i * step))
            .filter(|offset| *offset <= high && Some(*offset) != best);
        let of = |offsets: Vec<i64>| {
            let fits: Vec<Vec<f64>> =
                offsets.iter().map(fits).filter(|fits| !fits.is_empty()).collect();
            let means: Vec<f64> = fits.iter().filter_map(|fits| stats::mean(fits)).collect();
            let variance = |(fits, mean): (&Vec<f64>, &f64)| {
                stats::mean(&fits.iter().map(|fit| (fit - mean).powi(2)).collect::<Vec<_>>())
            };
            let variances: Vec<f64> = fits.iter().zip(&means).filter_map(variance).collect();
            (stats::median(&means).unwrap_or(0.0), stats::median(&variances).unwrap_or(0.0).sqrt())
        };
        let (found, spread) =
            (of(found.into_iter().map(|(_, offset)| offset).collect()), of(spread.collect()));
        Chance { mean: found.0.max(spread.0).max(0.0), deviation: found.1.max(spread.1) }
    }
}

/// Places that are looked at more closely.
struct Search {
    /// The offsets that most kernels vote for, ascending.
    offsets: Vec<i64>,
    /// How many there were.
    tried: usize,
}

/// Asks kernels all over the trace which records they could have, and so which offset.
fn search(blocks: &[Block], firsts: &[i64], sequence: &Sequence<'_>) -> Search {
    let step = blocks.len().div_ceil(VOTERS).max(1);
    let mut voters: Vec<(usize, f64, usize)> = (0..blocks.len())
        .step_by(step)
        .map(|voter| {
            let (mut n, mut sum) = (0, 0.0);
            sequence.candidates(&blocks[voter], |_, fit| (n, sum) = (n + 1, sum + fit));
            (n, sum / f64::from(u32::try_from(n).unwrap_or(u32::MAX)), voter)
        })
        .filter(|&(n, _, voter)| n > 0 && blocks[voter].width() <= MOST_PARTS)
        .collect();
    // Those that fit the fewest records first: their vote says most.
    voters.sort_unstable_by_key(|&(n, _, voter)| (n, voter));
    let mut votes: HashMap<i64, f64> = HashMap::new();
    let (mut cast, mut tried) = (0, 0);
    for (n, mean, voter) in voters {
        if cast > VOTES {
            break;
        }
        let width = blocks[voter].width();
        let is_crowd = n > CROWD;
        cast += n.saturating_mul(usize::try_from(width).unwrap_or(usize::MAX));
        tried = tried.max(n);
        sequence.candidates(&blocks[voter], |i, fit| {
            // Which of the kernel's numbers the record has is not known.
            for position in 0..width {
                let offset = (sequence.number(i) - position).saturating_sub(firsts[voter]);
                let weight = if is_crowd {
                    neighbours(blocks, firsts, sequence, voter, offset, mean)
                } else {
                    fit / width as f64
                };
                if weight > 0.0 {
                    *votes.entry(offset).or_default() += weight;
                }
            }
        });
    }
    let tried = tried.max(votes.len());
    let mut list: Vec<(i64, f64)> = votes.into_iter().collect();
    list.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    list.truncate((CELLS / blocks.len().max(1)).clamp(4, OFFSETS));
    let mut offsets: Vec<i64> = list.into_iter().map(|(offset, _)| offset).collect();
    offsets.sort_unstable();
    Search { offsets, tried }
}

/// How much better than `usual` the kernels after a voter fit at its offset: among many records that fit one kernel, few fit it with its
/// neighbours. Gives up early where they do not.
fn neighbours(
    blocks: &[Block],
    firsts: &[i64],
    sequence: &Sequence<'_>,
    voter: usize,
    offset: i64,
    usual: f64,
) -> f64 {
    let from = voter.min(blocks.len().saturating_sub(NEIGHBOURS));
    let mut sum = 0.0;
    for (block, first) in blocks.iter().zip(firsts).skip(from).take(NEIGHBOURS) {
        sum += sequence.score(block, first.saturating_add(offset), usual);
        if sum < -1.0 {
            break;
        }
    }
    sum
}

/// For each kernel the index of its offset, on the way of the highest total score on which offsets never fall.
fn best_way(n: usize, offsets: &[i64], score: impl Fn(usize, i64) -> f64) -> Vec<usize> {
    let width = offsets.len();
    let mut best = vec![0.0_f64; width];
    // An index below OFFSETS fits in a byte.
    let mut came_from = vec![0_u8; n * width];
    for i in 0..n {
        let mut lower = 0;
        let before = best.clone();
        for k in 0..width {
            if before[k] > before[lower] {
                lower = k;
            }
            let (from, value) = if i == 0 {
                (k, 0.0)
            } else if before[lower] - CHANGE > before[k] {
                (lower, before[lower] - CHANGE)
            } else {
                (k, before[k])
            };
            came_from[i * width + k] = from as u8;
            best[k] = value + score(i, offsets[k]);
        }
    }
    let mut at =
        (0..width).max_by(|&a, &b| best[a].total_cmp(&best[b]).then(b.cmp(&a))).unwrap_or(0);
    let mut way = vec![0; n];
    for i in (0..n).rev() {
        way[i] = at;
        at = usize::from(came_from[i * width + at]);
    }
    way
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::record::Timing;

    fn record(sn: u64, us: f64, written_us: i64) -> LoggedOp {
        LoggedOp {
            origin: 0,
            op: CommOp::AllReduce,
            p2p: false,
            timing: Timing::KernelGpu,
            sn: Some(sn),
            bytes: Some(8),
            exec_us: Some(us),
            written_us: Some(written_us),
            verbose: None,
        }
    }

    fn block(end_us: f64, duration_us: f64) -> Block {
        let parts = vec![Part { op: CommOp::AllReduce, count: 1, size: Size::Unknown }];
        Block { event: 0, end_us: Some(end_us), duration_us, parts }
    }

    // by        5  9  7  12         latest so far    5  9  9  12
    // after     0  4  2   8         earliest to come 0  2  2   8
    #[test]
    fn bounds_in_order_hold_those_that_are_not() {
        let ended = [(0.0, 5.0), (4.0, 9.0), (2.0, 7.0), (8.0, 12.0)]
            .map(|(after, by)| Ended { after, by });
        let bounds: Vec<(f64, f64)> = envelope(&ended).iter().map(|e| (e.after, e.by)).collect();
        assert_eq!(bounds, [(0.0, 5.0), (2.0, 9.0), (2.0, 9.0), (8.0, 12.0)]);
    }

    // kernel ends      10,000   20,000   30,000          durations 100, 250, 175
    // written     500  10,200   20,200   30,200          numbers 7, 8, 9, 10
    #[test]
    fn one_offset_places_all_kernels() {
        let ops = [
            record(7, 400.0, 500),
            record(8, 97.0, 10_200),
            record(9, 247.0, 20_200),
            record(10, 172.0, 30_200),
        ];
        let passes = Passes::new(ops.iter().filter_map(|op| op.written_us).collect());
        let blocks = [block(10_000.0, 100.0), block(20_000.0, 250.0), block(30_000.0, 175.0)];
        let placed = place(&blocks, &Sequence::new(&ops, &passes));
        assert_eq!(placed.outcomes, [1, 2, 3].map(|r| Outcome::Paired(vec![r])));
        // The record in between was lost: its number says so.
        let ops = [ops[0].clone(), ops[1].clone(), ops[3].clone()];
        let placed = place(&blocks, &Sequence::new(&ops, &passes));
        assert_eq!(
            placed.outcomes,
            [Outcome::Paired(vec![1]), Outcome::Absent(9), Outcome::Paired(vec![2])]
        );
    }

    #[test]
    fn nothing_has_no_place() {
        let sequence = Sequence::new(&[], &Passes::default());
        assert_eq!(
            (sequence.bounds(), place(&[block(1.0, 1.0)], &sequence).outcomes),
            (None, vec![Outcome::Nowhere])
        );
        let ops = [record(7, 400.0, 500)];
        assert!(place(&[], &Sequence::new(&ops, &Passes::default())).outcomes.is_empty());
    }
}
