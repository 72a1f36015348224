//! Where the kernels of a trace stand in a numbered sequence of records.
//!
//! Both sequences keep their order, and consecutive operations have consecutive numbers, also where records were lost. So the place
//! of all kernels is one offset:
//!
//! ```text
//! kernel      0    1    2    3                        offset 5: sizes, times, durations agree
//! number      5    6    7    8    9   10              offset 6: they do not
//! record      r    r    -    r    r    r              kernel 2 has no record: 7 was lost
//! ```
//!
//! Each record at its place is evidence for or against an offset, as a log-likelihood ratio: an agreement says the more, the fewer
//! of the other records would agree as well, and nothing says more than the log is reliable about it.
//!
//! ```text
//! size        is that of the kernel            1 of 4 records has it: ln 4           is another: strongly against
//! time        the kernel ended when it says    1 of 10 does: ln 10                   far outside: strongly against
//! duration    is that of the kernel            every other record has it: nothing    is another: somewhat against
//! ```
//!
//! Kernels all over the trace vote for offsets, and the sum over all kernels decides between those with most votes. If the trace lost
//! kernels, the offset grows on the way: the best way through the offsets is found by dynamic programming. A stretch of it that is
//! not better than every other offset beyond doubt is left alone.

use std::ops::Range;

use foldhash::{HashMap, HashMapExt};

use super::clock::{Ended, Passes};
use super::collect::LoggedOp;
use super::trust::SAME_US;
use crate::model::CommOp;

/// How often a record is wrong about its own kernel. Sizes and times hardly ever are; durations may be those of other operations, so
/// they only decide what the others leave open.
const WRONG: f64 = 0.05;
const WRONG_DURATION: f64 = 0.2;
/// A kernel ended this closely to the time that its record leaves, microseconds: clocks differ a little.
const PROMPT_US: f64 = 50.0;
/// Further outside than this the record contradicts: the proxy thread may notice late.
const LATE_US: f64 = 5_000.0;
/// Odds of 20 to 1 are beyond doubt: between two offsets, between an offset and none, and for a change of the offset.
const SURE: f64 = 3.0;

/// Kernels that are asked for their vote, and votes that they cast together at most.
const VOTERS: usize = 32;
const VOTES: usize = 1 << 23;
/// Offsets that are followed, and cells of their table: fewer are followed through longer traces.
const OFFSETS: usize = 256;
const CELLS: usize = 1 << 25;

/// What a kernel says about the size of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// It is this.
    Exactly(u64),
    /// It is one of several that add up to this.
    AtMost(u64),
    /// Nothing.
    Unknown,
}

impl Size {
    /// True if a record of `bytes` can be meant.
    pub(crate) fn allows(self, bytes: Option<u64>) -> bool {
        match (self, bytes) {
            (Size::Exactly(own), Some(logged)) => own == logged,
            (Size::AtMost(own), Some(logged)) => logged <= own,
            _ => true,
        }
    }
}

/// Operations of one kernel that have a record each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// What is logged.
    pub op: CommOp,
    /// How often.
    pub count: u32,
    /// Its size.
    pub size: Size,
}

/// What is known of a kernel before it is placed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Block {
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
}

/// How much an agreement or a contradiction says, in natural logarithms of odds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Weight {
    yes: f64,
    no: f64,
}

impl Weight {
    /// What something says that is wrong this often, if `alike` of `all` records agree with the kernel (its own is one of them).
    fn new(alike: usize, all: usize, wrong: f64) -> Weight {
        let chance = match all {
            0 | 1 => 0.0,
            _ => alike.saturating_sub(1) as f64 / (all - 1) as f64,
        };
        Weight {
            yes: ((1.0 - wrong) / chance.max(wrong)).ln().max(0.0),
            no: (wrong / (1.0 - chance)).ln().min(0.0),
        }
    }
}

/// What a record says about a kernel at its place.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Evidence {
    weight: f64,
    /// False if its duration is another, and neither its time nor a size that not all have is the kernel's.
    is_likely: bool,
}

/// A kernel with the weights of what records may say about it.
struct Weighed<'b> {
    block: &'b Block,
    sizes: [Weight; 2],
    time: Weight,
    duration: Weight,
}

impl Weighed<'_> {
    /// What a record says as one of a part of the kernel; `None` if it cannot be.
    fn evidence(&self, part: usize, op: &LoggedOp, ended: Ended) -> Option<Evidence> {
        let Part { op: own, size, .. } = *self.block.parts.get(part)?;
        if own != op.op || !size.allows(op.bytes) {
            return None;
        }
        let has_size = matches!(size, Size::Exactly(_)) && op.bytes.is_some();
        let size = if has_size { self.sizes[part].yes } else { 0.0 };
        let outside = self.block.end_us.map(|end| ended.outside(end));
        let time = match outside {
            Some(us) if us > LATE_US => self.time.no,
            // Without a pass before its own, a record may be of any time before.
            Some(us) if us <= PROMPT_US && ended.after > f64::NEG_INFINITY => self.time.yes,
            _ => 0.0,
        };
        let is_close = op
            .exec_us
            .filter(|_| op.is_gpu_timed())
            .map(|us| (us - self.block.duration_us).abs() <= SAME_US);
        let duration = match is_close {
            Some(true) => self.duration.yes,
            Some(false) => self.duration.no,
            None => 0.0,
        };
        let is_likely =
            is_close != Some(false) || size > 0.0 || outside.is_some_and(|us| us <= PROMPT_US);
        Some(Evidence { weight: size + time + duration, is_likely })
    }
}

/// A series of records in order of their numbers.
#[derive(Debug)]
pub(crate) struct Sequence<'a> {
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
    /// How many records there are of an operation and size.
    sizes: HashMap<(CommOp, u64), usize>,
    /// Durations by the GPU's timer, microseconds, shortest first.
    durations: Vec<f64>,
}

impl<'a> Sequence<'a> {
    /// A sequence of the records that have a number, or of all if none has. Numbers beyond half of an `i64` are damage.
    pub(crate) fn new(ops: &'a [LoggedOp], passes: &Passes) -> Sequence<'a> {
        let ended: Vec<Ended> = ops.iter().map(|op| Ended::of(op, passes)).collect();
        let numbered = ops.first().is_some_and(|op| op.sn.is_some());
        let usable = ops.partition_point(|op| op.sn.is_some_and(|sn| sn <= (i64::MAX / 2) as u64));
        let len = if numbered { usable } else { ops.len() };
        let in_order = ended[..len].is_sorted_by(|a, b| a.by <= b.by && a.after <= b.after);
        let envelope = (!in_order).then(|| envelope(&ended[..len]));
        let mut sizes: HashMap<(CommOp, u64), usize> = HashMap::new();
        for (op, bytes) in ops[..len].iter().filter_map(|op| Some((op.op, op.bytes?))) {
            *sizes.entry((op, bytes)).or_default() += 1;
        }
        let timed = ops[..len].iter().filter(|op| op.is_gpu_timed());
        let mut durations: Vec<f64> = timed.filter_map(|op| op.exec_us).collect();
        durations.sort_unstable_by(f64::total_cmp);
        Sequence { ops, ended, len, numbered, envelope, sizes, durations }
    }

    /// The number of a record.
    pub(crate) fn number(&self, i: usize) -> i64 {
        match self.ops[i].sn {
            Some(sn) if self.numbered => sn as i64,
            _ => i as i64,
        }
    }

    /// First and last number.
    pub(crate) fn bounds(&self) -> Option<(i64, i64)> {
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

    /// The records between the first and the last that leave a time within `us` of this one.
    fn around(&self, end_us: f64, us: f64) -> Range<usize> {
        let ended = self.envelope.as_deref().unwrap_or(&self.ended[..self.len]);
        let first = ended.partition_point(|ended| ended.by < end_us - us);
        first..ended.partition_point(|ended| ended.after <= end_us + us).max(first)
    }

    /// Looks how many records would agree with a kernel.
    fn weighed<'b>(&self, block: &'b Block) -> Weighed<'b> {
        let size = |part: Option<&Part>| match part.map(|part| (part.op, part.size)) {
            Some((op, Size::Exactly(bytes))) => self.sizes.get(&(op, bytes)).copied().unwrap_or(0),
            _ => self.len,
        };
        let size = |i| Weight::new(size(block.parts.get(i)), self.len, WRONG);
        let in_time = block.end_us.map_or(self.len, |end| self.around(end, PROMPT_US).len());
        let below = |us: f64| self.durations.partition_point(|d| *d < us);
        let (low, high) = (block.duration_us - SAME_US, block.duration_us + SAME_US);
        let close = below(high).saturating_sub(below(low));
        Weighed {
            block,
            sizes: [size(0), size(1)],
            time: Weight::new(in_time, self.len, WRONG),
            duration: Weight::new(close, self.durations.len(), WRONG_DURATION),
        }
    }

    /// Calls `each` for the records that may be of a kernel, with how much says so.
    fn candidates(&self, kernel: &Weighed<'_>, mut each: impl FnMut(usize, f64)) {
        for i in kernel.block.end_us.map_or(0..self.len, |end| self.around(end, LATE_US)) {
            let parts = 0..kernel.block.parts.len();
            let said = parts.filter_map(|p| kernel.evidence(p, &self.ops[i], self.ended[i]));
            let best = said.map(|said| said.weight).max_by(f64::total_cmp);
            if let Some(weight) = best.filter(|weight| *weight >= 0.0) {
                each(i, weight);
            }
        }
    }

    /// Calls `each` for every record whose number falls to the kernel at this place, with what it says, or `None` if it has another
    /// size or operation.
    fn at(&self, kernel: &Weighed<'_>, first: i64, each: &mut impl FnMut(usize, Option<Evidence>)) {
        let mut left = [0; 2];
        left.iter_mut().zip(&kernel.block.parts).for_each(|(left, part)| *left = part.count);
        let end = first.saturating_add(kernel.block.width());
        for i in self.index_from(first)..self.len {
            if self.number(i) >= end {
                break;
            }
            let open = left.iter_mut().enumerate().filter(|(_, left)| **left > 0);
            let found = open
                .filter_map(|(part, left)| {
                    Some((kernel.evidence(part, &self.ops[i], self.ended[i])?, left))
                })
                .next();
            each(
                i,
                found.map(|(said, left)| {
                    *left -= 1;
                    said
                }),
            );
        }
    }

    /// The records at this place that fit the kernel, and how many do not.
    fn records(&self, kernel: &Weighed<'_>, first: i64) -> (Vec<usize>, usize) {
        let (mut records, mut misfits) = (Vec::new(), 0);
        self.at(kernel, first, &mut |record, said| match said {
            Some(said) if said.is_likely => records.push(record),
            _ => misfits += 1,
        });
        (records, misfits)
    }

    /// What the records at this place say together.
    fn score(&self, kernel: &Weighed<'_>, first: i64) -> f64 {
        let mut score = 0.0;
        self.at(kernel, first, &mut |_, said| score += said.map_or(-SURE, |said| said.weight));
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
pub(crate) enum Outcome {
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
pub(crate) struct Placed {
    /// One for each block.
    pub outcomes: Vec<Outcome>,
    /// How well the placed ones fit together.
    pub score: f64,
}

/// Finds the place of `blocks`, which are in order of time, in `sequence`.
pub(crate) fn place(blocks: &[Block], sequence: &Sequence<'_>) -> Placed {
    let kernels: Vec<Weighed<'_>> = blocks.iter().map(|block| sequence.weighed(block)).collect();
    let mut firsts = Vec::with_capacity(blocks.len());
    let mut count = 0_i64;
    for block in blocks {
        firsts.push(count);
        count = count.saturating_add(block.width());
    }
    let mut placed = Placed { outcomes: vec![Outcome::Nowhere; blocks.len()], score: 0.0 };
    let Votes { offsets, tried } = vote(&kernels, &firsts, sequence);
    if offsets.is_empty() {
        return placed;
    }
    let first = |i: usize, offset: i64| firsts[i].saturating_add(offset);
    let score = |i: usize, offset: i64| sequence.score(&kernels[i], first(i, offset));
    let found = |i: usize, offset: i64| sequence.records(&kernels[i], first(i, offset));
    // The luckiest of n places that mean nothing has odds of about n.
    let enough = SURE.max((tried as f64).ln());
    let way = best_way(blocks.len(), &offsets, score);
    let mut start = 0;
    for stretch in way.chunk_by(|a, b| a == b) {
        let range = start..start + stretch.len();
        start = range.end;
        let offset = offsets[stretch[0]];
        let total = |offset: i64| range.clone().map(|i| score(i, offset)).sum::<f64>();
        let own = total(offset);
        let is_sure = own >= enough;
        if is_sure {
            placed.score += own;
        }
        // The offset itself and its rivals.
        let likely: Vec<i64> =
            offsets.iter().copied().filter(|other| total(*other) > own - SURE).collect();
        let places = |i: usize| likely.iter().map(move |&offset| found(i, offset));
        for i in range.clone() {
            let (records, misfits) = found(i, offset);
            placed.outcomes[i] = match (records.is_empty(), misfits) {
                _ if !is_sure => match places(i).any(|(records, _)| !records.is_empty()) {
                    true if own >= 0.0 => Outcome::Unsure,
                    _ => Outcome::Nowhere,
                },
                // Another offset does no harm where it means the same records.
                _ if places(i).any(|(other, _)| other != records) => Outcome::Unsure,
                (false, _) => Outcome::Paired(records),
                (true, 0) => Outcome::Absent(first(i, offset)),
                (true, _) => Outcome::Misfit,
            };
        }
    }
    placed
}

/// Places that are looked at more closely.
struct Votes {
    /// The offsets with most votes, ascending.
    offsets: Vec<i64>,
    /// How many records one kernel could choose from.
    tried: usize,
}

/// Asks kernels all over the trace which records they could have, and so which offset.
fn vote(kernels: &[Weighed<'_>], firsts: &[i64], sequence: &Sequence<'_>) -> Votes {
    let mut votes: HashMap<i64, f64> = HashMap::new();
    let (mut cast, mut tried) = (0, 0);
    let step = kernels.len().div_ceil(VOTERS).max(1);
    for (kernel, first) in kernels.iter().zip(firsts).step_by(step) {
        let width = kernel.block.width();
        let mut chosen = 0;
        sequence.candidates(kernel, |i, weight| {
            chosen += 1;
            // Which of the kernel's numbers the record has is not known.
            for position in 0..width {
                if cast == VOTES {
                    return;
                }
                cast += 1;
                let offset = (sequence.number(i) - position).saturating_sub(*first);
                *votes.entry(offset).or_default() += weight / width as f64;
            }
        });
        tried = tried.max(chosen);
    }
    let mut list: Vec<(i64, f64)> = votes.into_iter().collect();
    list.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    list.truncate((CELLS / kernels.len().max(1)).clamp(4, OFFSETS));
    let mut offsets: Vec<i64> = list.into_iter().map(|(offset, _)| offset).collect();
    offsets.sort_unstable();
    Votes { offsets, tried }
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
            } else if before[lower] - SURE > before[k] {
                (lower, before[lower] - SURE)
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
