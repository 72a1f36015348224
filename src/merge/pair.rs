//! Which record is which kernel, on one rank: by communicator and operation, in order, by number, size and time; duration
//! decides what is left. What does not fit stays alone, with its reason.
//!
//! ```text
//! events --parts--> blocks of one communicator and operation --place--> pairs, and what numbers say of the others
//!                   the rest of both, where the times are known --leftover--> pairs that are unique
//! ```

use std::collections::{BTreeMap, BTreeSet};

use foldhash::{HashSet, HashSetExt};

use super::clock::{Clock, Ended, Passes};
use super::collect::{Collected, Kind, LoggedOp, Series};
use super::guess;
use super::kernels::{Pair, RankKernels};
use super::leftover::{Claim, Free, Lone, unique};
use super::parts::{parts, why};
use super::place::{Block, Outcome, Part, Placed, Sequence, Size, place};
use super::trust::{MAX_DISAGREEING, is_close};
use crate::collectives::events::Event;
use crate::model::record::{Origin, logged_id};

/// Inspector's default: smaller operations are not tracked (2.30 on).
const MIN_SIZE: u64 = 8192;
/// A pair whose times differ by more than this, microseconds, contradicts the clock.
const UNTIMELY_US: f64 = 50_000.0;
/// Pairs that a shift of the clock has to rest on.
const MIN_CLOCK_PAIRS: usize = 3;

/// The pairs of one rank and what has no partner.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Found {
    /// In order of events.
    pub pairs: Vec<Pair>,
    /// Kernels without a record, by reason.
    pub alone: BTreeMap<&'static str, u64>,
    /// Records of operations that ran while the trace did.
    pub in_capture: u64,
    /// Those of them without a kernel, by reason.
    pub records_alone: BTreeMap<&'static str, u64>,
    /// How far the log's clock is ahead of the trace's, microseconds; `None` if they agree or that cannot be told.
    pub shift_us: Option<f64>,
}

/// Why a record of the capture has no kernel.
mod why_record {
    pub(super) const NO_KERNEL: &str = "the trace has no kernel of its operation and communicator";
    pub(super) const ALONE: &str = "no kernel of its operation and communicator fits";
}

/// Pairs the events of a rank with the records of `series` (indices into [`Collected::series`]). `shift_us` is how far other logs of its
/// host were found to be ahead of their traces.
pub(crate) fn pair(
    rank: &RankKernels,
    events: &[Event],
    series: &[usize],
    logs: &Collected,
    shift_us: Option<f64>,
) -> Found {
    let log = Log::new(series, logs);
    if log.series.is_empty() {
        return Found::default();
    }
    let clock = Clock { epoch_ns: rank.epoch_ns, shift_us: 0.0 };
    let mut attempt = Attempt::run(events, &log, clock);
    if rank.epoch_ns.is_some()
        && attempt.is_poor()
        && let Some(shift_us) = shift_us.or_else(|| shift(events, &log, clock))
    {
        let shifted = Clock { shift_us, ..clock };
        let other = Attempt::run(events, &log, shifted);
        let (better, as_good) = (other.close(), attempt.close());
        if better.0 > as_good.0 || (better.0 == as_good.0 && attempt.is_untimely()) {
            attempt = other;
        }
    }
    attempt.finish(rank)
}

/// How far the log's clock is ahead of the trace's, if sizes and durations alone leave no doubt which record is which kernel.
fn shift(events: &[Event], log: &Log<'_>, clock: Clock) -> Option<f64> {
    let timeless = Attempt::run(events, log, Clock { epoch_ns: None, ..clock });
    let mut by_series: BTreeMap<usize, Vec<Pair>> = BTreeMap::new();
    for &pair in &timeless.pairs {
        by_series.entry(log.series_of(pair.record)).or_default().push(pair);
    }
    let certain = |pairs: &Vec<Pair>| {
        let (close, timed) = close(pairs, events, log.logs);
        close >= MIN_CLOCK_PAIRS && (timed - close) as f64 <= MAX_DISAGREEING * timed as f64
    };
    // A record is written some time after its operation ended: the shortest delay is closest to the shift.
    let delay = |p: &Pair| {
        Some(log.logs.ops[p.record].written_us? as f64 - clock.end_us(&events[p.event])?)
    };
    by_series
        .values()
        .filter(|pairs| certain(pairs))
        .flatten()
        .filter_map(delay)
        .min_by(f64::total_cmp)
}

/// Pairs whose durations are close, and pairs with a duration by the GPU's timer.
fn close(pairs: &[Pair], events: &[Event], logs: &Collected) -> (usize, usize) {
    let verdicts = pairs.iter().filter_map(|p| is_close(&events[p.event], &logs.ops[p.record]));
    verdicts.fold((0, 0), |(close, timed), verdict| (close + usize::from(verdict), timed + 1))
}

/// The series of one rank as sequences of numbers.
struct Log<'a> {
    logs: &'a Collected,
    series: Vec<&'a Series>,
    /// For each of them.
    sequences: Vec<Sequence<'a>>,
    /// No record is smaller.
    smallest: u64,
}

impl<'a> Log<'a> {
    fn new(series: &[usize], logs: &'a Collected) -> Log<'a> {
        let series: Vec<&Series> = series.iter().map(|&s| &logs.series[s]).collect();
        let ops = || series.iter().flat_map(|s| &logs.ops[s.ops.clone()]);
        let passes = Passes::new(ops().filter_map(|op| op.written_us).collect());
        let sequences =
            series.iter().map(|s| Sequence::new(&logs.ops[s.ops.clone()], &passes)).collect();
        let smallest = ops().filter_map(|op| op.bytes).min().unwrap_or(0);
        Log { logs, series, sequences, smallest }
    }

    /// The series that holds a record.
    fn series_of(&self, record: usize) -> usize {
        self.series.partition_point(|s| s.ops.end <= record)
    }

    /// When the operation of a record ended.
    fn ended_of(&self, record: usize) -> Option<Ended> {
        let s = self.series_of(record);
        self.sequences.get(s)?.ended.get(record.checked_sub(self.series[s].ops.start)?).copied()
    }

    fn origin(&self, s: usize) -> &'a Origin {
        &self.logs.origins[self.series[s].origin]
    }

    /// True if operations of these sizes are not tracked.
    fn ignores(&self, parts: &[Part]) -> bool {
        let is_small = |part: &Part| matches!(part.size, Size::Exactly(bytes) | Size::AtMost(bytes) if bytes < MIN_SIZE);
        self.smallest >= MIN_SIZE && !parts.is_empty() && parts.iter().all(is_small)
    }
}

/// A kernel as it is placed. `origin` is its place in its communicator, if that is known.
fn block(events: &[Event], event: usize, clock: Clock, origin: Option<&Origin>) -> Block {
    let parts = parts(&events[event], origin).map(|(_, parts)| parts).unwrap_or_default();
    Block {
        event,
        end_us: clock.end_us(&events[event]),
        duration_us: events[event].duration() as f64 / 1e3,
        parts,
    }
}

/// One try to pair everything with a given clock.
struct Attempt<'a> {
    events: &'a [Event],
    log: &'a Log<'a>,
    clock: Clock,
    pairs: Vec<Pair>,
    used: HashSet<usize>,
    /// For each event why it is alone; `None` if it is paired.
    why: Vec<Option<&'static str>>,
    /// Series whose communicator and operation the trace has kernels of.
    met: BTreeSet<usize>,
}

impl<'a> Attempt<'a> {
    fn run(events: &'a [Event], log: &'a Log<'a>, clock: Clock) -> Attempt<'a> {
        let why = vec![Some(why::NOWHERE); events.len()];
        let mut attempt = Attempt {
            events,
            log,
            clock,
            pairs: Vec::new(),
            used: HashSet::new(),
            why,
            met: BTreeSet::new(),
        };
        attempt.known_communicators();
        attempt.unknown_communicators();
        attempt.leftovers();
        attempt.pairs.sort_unstable();
        attempt
    }

    /// Kernels whose payload names their communicator.
    fn known_communicators(&mut self) {
        let (events, log) = (self.events, self.log);
        let mut origins: BTreeMap<&str, &Origin> = BTreeMap::new();
        for origin in (0..log.series.len()).map(|s| log.origin(s)) {
            origins.entry(&origin.comm_id).or_insert(origin);
        }
        let mut groups: BTreeMap<(&str, Kind), Vec<Block>> = BTreeMap::new();
        for (e, event) in events.iter().enumerate() {
            let Some(comm) = event.comm.map(logged_id) else { continue };
            let known = origins.get_key_value(comm.as_str());
            self.why[e] = match (parts(event, known.map(|(_, origin)| *origin)), known) {
                (Err(why), _) => Some(why),
                (Ok(_), None) => Some(why::NO_COMMUNICATOR),
                // Sends and receives that are not tracked have no number either; collectives have.
                (Ok((Kind::P2p, parts)), _) if log.ignores(&parts) => Some(why::TOO_SMALL),
                (Ok((kind, _)), Some((comm, origin))) => {
                    groups.entry((comm, kind)).or_default().push(block(
                        events,
                        e,
                        self.clock,
                        Some(origin),
                    ));
                    Some(why::NOWHERE)
                }
            };
        }
        for ((comm, kind), blocks) in groups {
            let own: Vec<usize> = (0..log.series.len())
                .filter(|&s| log.series[s].kind == kind && log.origin(s).comm_id == comm)
                .collect();
            self.met.extend(&own);
            if own.is_empty() {
                self.no_series(&blocks);
            } else if blocks.iter().all(|block| !block.parts.is_empty()) {
                self.best_of(&blocks, &own);
                let rank = origins.get(comm).map_or(0, |origin| i64::from(origin.rank));
                let is_absent = |why: Option<&str>| {
                    why.is_some_and(|why| [why::LOST, why::BEFORE, why::AFTER].contains(&why))
                };
                let lost = blocks.iter().filter(|block| {
                    is_absent(self.why[block.event]) && events[block.event].works_only_with(rank)
                });
                lost.map(|block| block.event)
                    .collect::<Vec<_>>()
                    .into_iter()
                    .for_each(|e| self.why[e] = Some(why::SELF));
            }
        }
    }

    /// Kernels of which only the name is known.
    fn unknown_communicators(&mut self) {
        let (events, log) = (self.events, self.log);
        let mut groups: BTreeMap<Kind, Vec<usize>> = BTreeMap::new();
        for (e, event) in events.iter().enumerate().filter(|(_, event)| event.comm.is_none()) {
            match parts(event, None) {
                Ok((kind, _)) => groups.entry(kind).or_default().push(e),
                Err(why) => self.why[e] = Some(why),
            }
        }
        for (kind, members) in groups {
            let own: Vec<usize> =
                (0..log.series.len()).filter(|&s| log.series[s].kind == kind).collect();
            let blocks: Vec<Block> =
                members.into_iter().map(|e| block(events, e, self.clock, None)).collect();
            self.met.extend(&own);
            if own.is_empty() {
                self.no_series(&blocks);
            } else if kind != Kind::P2p {
                let sequences: Vec<&Sequence<'_>> =
                    own.iter().map(|&s| &log.sequences[s]).collect();
                for found in guess::communicators(&blocks, events, &sequences) {
                    self.accept(&found.blocks, own[found.sequence], found.placed);
                }
            }
        }
    }

    fn no_series(&mut self, blocks: &[Block]) {
        for block in blocks {
            self.why[block.event] = Some(if self.log.ignores(&block.parts) {
                why::TOO_SMALL
            } else {
                why::NO_OPERATION
            });
        }
    }

    /// Places blocks in the one of several series that they fit best.
    fn best_of(&mut self, blocks: &[Block], series: &[usize]) {
        let placed = series.iter().map(|&s| (s, place(blocks, &self.log.sequences[s])));
        let best =
            placed.reduce(|best, other| if other.1.score > best.1.score { other } else { best });
        if let Some((s, placed)) = best {
            self.accept(blocks, s, placed);
        }
    }

    fn accept(&mut self, blocks: &[Block], s: usize, placed: Placed) {
        let log = self.log;
        let first = log.series[s].ops.start;
        let bounds = log.sequences[s].bounds();
        for (block, outcome) in blocks.iter().zip(placed.outcomes) {
            self.why[block.event] = match outcome {
                Outcome::Paired(records) => {
                    let free: Vec<usize> = records
                        .iter()
                        .map(|r| first + r)
                        .filter(|r| self.used.insert(*r))
                        .collect();
                    self.pairs
                        .extend(free.iter().map(|&record| Pair { event: block.event, record }));
                    free.is_empty().then_some(why::UNSURE)
                }
                Outcome::Absent(_) if log.ignores(&block.parts) => Some(why::TOO_SMALL),
                Outcome::Absent(number) => Some(match bounds {
                    Some((first, _)) if number < first => why::BEFORE,
                    Some((_, last)) if number > last => why::AFTER,
                    _ => why::LOST,
                }),
                Outcome::Misfit => Some(why::MISFIT),
                Outcome::Unsure => Some(why::UNSURE),
                Outcome::Nowhere => Some(why::NOWHERE),
            };
        }
    }

    /// What is left of both sides, where one kernel and one record fit nothing but each other.
    fn leftovers(&mut self) {
        let (events, log) = (self.events, self.log);
        let open = |why: &Option<&str>| {
            why.is_some_and(|why| [why::NOWHERE, why::UNSURE, why::MISFIT].contains(&why))
        };
        let lone: Vec<Lone> = (0..events.len())
            .filter(|&e| open(&self.why[e]))
            .map(|e| Lone::new(e, &events[e], self.clock))
            .collect();
        // Times and durations decide here, so the pairs so far have to speak for both.
        let (close, timed) = self.close();
        if lone.is_empty() || close == 0 || (timed - close) as f64 > MAX_DISAGREEING * timed as f64
        {
            return;
        }
        let mut free = Vec::new();
        for (series, sequence) in log.series.iter().zip(&log.sequences) {
            let unused = series
                .ops
                .clone()
                .zip(&sequence.ended)
                .filter(|(index, _)| !self.used.contains(index));
            free.extend(unused.map(|(index, ended)| Free {
                index,
                op: &log.logs.ops[index],
                ended: *ended,
            }));
        }
        let belongs = |kernel: &Lone, op: &LoggedOp| {
            let comm = events[kernel.event].comm.map(logged_id);
            comm.is_none_or(|comm| {
                log.logs
                    .origins
                    .get(op.origin as usize)
                    .is_some_and(|origin| origin.comm_id == comm)
            })
        };
        for (kernel, claim) in lone.iter().zip(unique(&lone, &free, belongs)) {
            match claim {
                Claim::Own(record) => {
                    self.used.insert(record);
                    self.pairs.push(Pair { event: kernel.event, record });
                    self.why[kernel.event] = None;
                }
                Claim::Unsure => self.why[kernel.event] = Some(why::UNSURE),
                Claim::None => {}
            }
        }
    }

    /// Pairs whose durations are close, and pairs with a duration by the GPU's timer.
    fn close(&self) -> (usize, usize) {
        close(&self.pairs, self.events, self.log.logs)
    }

    /// True if hardly anything was found, or what was found does not agree: the clock may be wrong.
    fn is_poor(&self) -> bool {
        let (close, timed) = self.close();
        let open = self
            .why
            .iter()
            .flatten()
            .filter(|why| [why::NOWHERE, why::UNSURE, why::BEFORE, why::AFTER].contains(why))
            .count();
        close * 2 < timed || open * 2 > self.events.len() || self.is_untimely()
    }

    /// True if the times of most pairs contradict the clock.
    fn is_untimely(&self) -> bool {
        let outside = |p: &Pair| {
            Some(self.log.ended_of(p.record)?.outside(self.clock.end_us(&self.events[p.event])?))
        };
        let untimely = self.pairs.iter().filter_map(outside).filter(|us| *us > UNTIMELY_US).count();
        untimely * 2 > self.pairs.len()
    }

    fn finish(self, rank: &RankKernels) -> Found {
        let (log, clock) = (self.log, self.clock);
        let mut found = Found {
            pairs: self.pairs,
            shift_us: (clock.shift_us != 0.0).then_some(clock.shift_us),
            ..Found::default()
        };
        for why in self.why.into_iter().flatten() {
            *found.alone.entry(why).or_default() += 1;
        }
        let captured =
            rank.captured.and_then(|(first, last)| Some((clock.us(first)?, clock.us(last)?)));
        for (s, (series, sequence)) in log.series.iter().zip(&log.sequences).enumerate() {
            let range = series.ops.clone();
            // Between the first and the last paired number; without pairs, only what certainly ran while the trace did.
            let paired = range.clone().filter(|index| self.used.contains(index));
            let inside: Vec<usize> = match (paired.clone().min(), paired.max(), captured) {
                (Some(first), Some(last), _) => (first..=last).collect(),
                (_, _, Some((first, last))) => range
                    .zip(&sequence.ended)
                    .filter(|(_, ended)| ended.after >= first && ended.by <= last)
                    .map(|(index, _)| index)
                    .collect(),
                _ => Vec::new(),
            };
            let alone = inside.iter().filter(|index| !self.used.contains(index)).count() as u64;
            found.in_capture += inside.len() as u64;
            if alone > 0 {
                let why =
                    if self.met.contains(&s) { why_record::ALONE } else { why_record::NO_KERNEL };
                *found.records_alone.entry(why).or_default() += alone;
            }
        }
        found
    }
}
