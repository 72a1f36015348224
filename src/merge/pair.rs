//! Which record is which kernel, on one rank: by communicator and operation, in order, by number, size and time; duration
//! decides what is left. What does not fit stays alone, with its reason.
//!
//! ```text
//! events --parts--> blocks of one communicator and operation --place--> pairs, and what numbers say of the others
//!                   the rest of both, where the times are known --leftover--> pairs that are unique
//! ```

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::clock::{Clock, Ended, Passes};
use super::collect::{Collected, Kind, LoggedOp};
use super::leftover::{Claim, Free, Lone, unique};
use super::place::{Block, Outcome, Part, Placed, Sequence, Size, place};
use super::trust::{MAX_DISAGREEING, disagrees};
use crate::collectives::events::Event;
use crate::model::record::Origin;
use crate::model::trace::CommInit;
use crate::model::{CommOp, NameId, Ns};

/// Inspector's default: smaller operations are not tracked (2.30 on).
const MIN_SIZE: u64 = 8192;
/// Streams times series that are tried with each other where communicators are not known.
const MOST_TRIALS: usize = 1024;
/// Pairs that a shift of the clock has to rest on.
const MIN_CLOCK_PAIRS: usize = 3;

/// One rank of the trace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
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
    /// Communicators that it joined during the capture.
    pub comm_inits: Vec<CommInit>,
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
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
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

/// Why a kernel has no record.
mod why {
    pub const COPIES: &str = "copies of a copy-engine collective, which Inspector does not see";
    pub const NOT_LOGGED: &str = "not an operation that Inspector records";
    pub const SELF: &str = "sends to the rank itself only, which are not logged";
    pub const NO_COMMUNICATOR: &str = "the log has no record of its communicator";
    pub const NO_OPERATION: &str = "the log has no record of its operation on its communicator";
    pub const TOO_SMALL: &str = "below the minimum size of Inspector (NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES)";
    pub const BEFORE: &str = "before the first record of its communicator and operation";
    pub const AFTER: &str = "after the last record of its communicator and operation";
    pub const LOST: &str = "the record with its number is missing (lost)";
    pub const MISFIT: &str = "the record with its number has another size";
    pub const UNSURE: &str = "several records fit equally well";
    pub const NOWHERE: &str = "no record fits in size, time and duration";
}

/// Why a record of the capture has no kernel.
mod why_record {
    pub const NO_KERNEL: &str = "the trace has no kernel of its operation and communicator";
    pub const ALONE: &str = "no kernel of its operation and communicator fits";
}

/// Pairs the events of a rank with the records of `series` (indices into [`Collected::series`]).
pub fn pair(rank: &RankKernels, events: &[Event], series: &[usize], logs: &Collected) -> Found {
    let log = Log::new(series, logs);
    if log.series.is_empty() {
        return Found::default();
    }
    let own = Clock { epoch_ns: rank.epoch_ns, shift_us: 0.0 };
    let mut clock = own;
    let mut attempt = Attempt::run(events, &log, clock);
    if rank.epoch_ns.is_some()
        && attempt.is_poor(events, logs)
        && let Some(shift_us) = shift(events, &log, own)
    {
        let shifted = Clock { shift_us, ..own };
        let other = Attempt::run(events, &log, shifted);
        if other.agreeing(events, logs).0 > attempt.agreeing(events, logs).0 {
            (clock, attempt) = (shifted, other);
        }
    }
    attempt.finish(rank, events, &log, clock)
}

/// How far the log's clock is ahead of the trace's, if sizes and durations alone leave no doubt which record is which kernel.
fn shift(events: &[Event], log: &Log<'_>, clock: Clock) -> Option<f64> {
    let timeless = Attempt::run(events, log, Clock { epoch_ns: None, ..clock });
    let (agreeing, timed) = timeless.agreeing(events, log.logs);
    if agreeing < MIN_CLOCK_PAIRS || (timed - agreeing) as f64 > MAX_DISAGREEING * timed as f64 {
        return None;
    }
    // A record is written some time after its operation ended: the shortest delay is closest to the shift.
    let delay = |p: &Pair| Some(log.logs.ops[p.record].written_us? as f64 - clock.end_us(&events[p.event])?);
    timeless.pairs.iter().filter_map(delay).min_by(f64::total_cmp)
}

/// The series of one rank, with the time in which each record's operation ended.
struct Log<'a> {
    logs: &'a Collected,
    series: Vec<usize>,
    /// For each of them.
    ended: Vec<Vec<Ended>>,
    /// No record is smaller.
    smallest: u64,
}

impl<'a> Log<'a> {
    fn new(series: &[usize], logs: &'a Collected) -> Log<'a> {
        let ops = || series.iter().flat_map(|&s| &logs.ops[logs.series[s].ops.clone()]);
        let passes = Passes::new(ops().filter_map(|op| op.written_us).collect());
        let ended = series.iter().map(|&s| logs.ops[logs.series[s].ops.clone()].iter().map(|op| Ended::of(op, &passes)).collect());
        Log { logs, series: series.to_vec(), ended: ended.collect(), smallest: ops().filter_map(|op| op.bytes).min().unwrap_or(0) }
    }

    /// Series `s` as a sequence of numbers.
    fn sequence(&self, s: usize) -> Sequence<'_> {
        Sequence::new(&self.logs.ops[self.logs.series[self.series[s]].ops.clone()], &self.ended[s])
    }

    fn kind(&self, s: usize) -> Kind {
        self.logs.series[self.series[s]].kind
    }

    fn origin(&self, s: usize) -> &'a Origin {
        &self.logs.origins[self.logs.series[self.series[s]].origin]
    }

    /// True if operations of this size are not tracked.
    fn ignores(&self, size: Size) -> bool {
        match size {
            Size::Exactly(bytes) | Size::AtMost(bytes) => bytes < MIN_SIZE && self.smallest >= MIN_SIZE,
            Size::Unknown => false,
        }
    }
}

/// A communicator id as Inspector prints it: `0x%lx`, cut to 16 characters.
pub fn logged_id(comm: u64) -> String {
    let mut text = format!("{comm:#x}");
    text.truncate(16);
    text
}

/// What records a kernel has, or why it has none. `origin` is its place in its communicator, if that is known.
fn parts(event: &Event, origin: Option<&Origin>) -> Result<(Kind, Vec<Part>), &'static str> {
    if event.name == NameId::NONE {
        return Err(why::COPIES);
    }
    let part = |op, count: usize, size| Part { op, count: u32::try_from(count).unwrap_or(u32::MAX), size };
    let whole = event.bytes.map_or(Size::Unknown, Size::Exactly);
    let shared = event.bytes.map_or(Size::Unknown, Size::AtMost);
    match event.op {
        CommOp::Other => Err(why::NOT_LOGGED),
        CommOp::SendRecv if event.sends == 0 && event.receives == 0 => Ok((Kind::P2p, Vec::new())),
        // What a rank sends to itself has a number, but no record: it is among the parts, and its record is never there.
        CommOp::SendRecv => {
            let size = if event.members == 1 { whole } else { shared };
            let parts = [part(CommOp::Send, event.sends as usize, size), part(CommOp::Recv, event.receives as usize, size)];
            Ok((Kind::P2p, parts.into_iter().filter(|part| part.count > 0).collect()))
        }
        CommOp::AllToAll => {
            let n = origin.map_or(0, |o| o.n_ranks as usize);
            let parts = [part(CommOp::Send, n, whole), part(CommOp::Recv, n, whole)];
            Ok((Kind::P2p, parts.into_iter().filter(|part| part.count > 0).collect()))
        }
        // How many records the root has differs from the others, and who it is is not known here.
        CommOp::Gather | CommOp::Scatter => Ok((Kind::P2p, Vec::new())),
        op if event.members > 1 => Ok((Kind::Coll(op), vec![part(op, event.members, shared)])),
        op => Ok((Kind::Coll(op), vec![part(op, 1, whole)])),
    }
}

fn block(events: &[Event], event: usize, clock: Clock, parts: Vec<Part>) -> Block {
    Block { event, end_us: clock.end_us(&events[event]), duration_us: events[event].duration() as f64 / 1e3, parts }
}

/// One try to pair everything with a given clock.
struct Attempt<'a> {
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
    fn run(events: &[Event], log: &'a Log<'a>, clock: Clock) -> Attempt<'a> {
        let why = vec![Some(why::NOWHERE); events.len()];
        let mut attempt = Attempt { log, clock, pairs: Vec::new(), used: HashSet::new(), why, met: BTreeSet::new() };
        attempt.known_communicators(events);
        attempt.unknown_communicators(events);
        attempt.leftovers(events);
        attempt.pairs.sort_unstable();
        attempt
    }

    /// Kernels whose payload names their communicator.
    fn known_communicators(&mut self, events: &[Event]) {
        let log = self.log;
        let mut origins: BTreeMap<&str, &Origin> = BTreeMap::new();
        for origin in (0..log.series.len()).map(|s| log.origin(s)) {
            origins.entry(&origin.comm_id).or_insert(origin);
        }
        let mut groups: BTreeMap<(&str, Kind), Vec<Block>> = BTreeMap::new();
        for (e, event) in events.iter().enumerate() {
            let Some(comm) = event.comm.map(logged_id) else { continue };
            let known = origins.get_key_value(comm.as_str());
            let parts = parts(event, known.map(|(_, origin)| *origin));
            let (kind, parts) = match (parts, known) {
                (Err(why), _) => {
                    self.why[e] = Some(why);
                    continue;
                }
                (_, None) => {
                    self.why[e] = Some(why::NO_COMMUNICATOR);
                    continue;
                }
                (Ok(found), Some(_)) => found,
            };
            // Sends and receives that are not tracked have no number either; collectives have.
            if kind == Kind::P2p && !parts.is_empty() && parts.iter().all(|part| log.ignores(part.size)) {
                self.why[e] = Some(why::TOO_SMALL);
                continue;
            }
            if let Some((comm, _)) = known {
                groups.entry((comm, kind)).or_default().push(block(events, e, self.clock, parts));
            }
        }
        for ((comm, kind), blocks) in groups {
            let own: Vec<usize> = (0..log.series.len()).filter(|&s| log.kind(s) == kind && log.origin(s).comm_id == comm).collect();
            self.met.extend(&own);
            if own.is_empty() {
                self.no_series(&blocks);
            } else if blocks.iter().all(|block| !block.parts.is_empty()) {
                self.best_of(&blocks, &own);
                let rank = origins.get(comm).map_or(0, |origin| i64::from(origin.rank));
                let lost = blocks.iter().filter(|block| self.why[block.event] == Some(why::LOST) && events[block.event].peers == [rank]);
                lost.map(|block| block.event).collect::<Vec<_>>().into_iter().for_each(|e| self.why[e] = Some(why::SELF));
            }
        }
    }

    /// Kernels of which only the name is known. Each stream serves one communicator, or all serve the same.
    fn unknown_communicators(&mut self, events: &[Event]) {
        let (log, clock) = (self.log, self.clock);
        let mut groups: BTreeMap<Kind, BTreeMap<u32, Vec<usize>>> = BTreeMap::new();
        for (e, event) in events.iter().enumerate().filter(|(_, event)| event.comm.is_none()) {
            match parts(event, None) {
                Ok((kind, _)) => groups.entry(kind).or_default().entry(event.stream).or_default().push(e),
                Err(why) => self.why[e] = Some(why),
            }
        }
        for (kind, streams) in groups {
            let own: Vec<usize> = (0..log.series.len()).filter(|&s| log.kind(s) == kind).collect();
            let blocks = |list: &[usize]| -> Vec<Block> {
                let parts = |e: usize| parts(&events[e], None).map(|(_, parts)| parts).unwrap_or_default();
                list.iter().map(|&e| block(events, e, clock, parts(e))).collect()
            };
            let by_stream: Vec<Vec<Block>> = streams.values().map(|list| blocks(list)).collect();
            if own.is_empty() {
                by_stream.iter().for_each(|blocks| self.no_series(blocks));
                continue;
            }
            self.met.extend(&own);
            if kind == Kind::P2p || by_stream.len() * own.len() > MOST_TRIALS {
                continue;
            }
            let mut all: Vec<usize> = streams.into_values().flatten().collect();
            all.sort_unstable();
            let merged = vec![blocks(&all)];
            let apart = assign(&by_stream, &own, log);
            let together = if by_stream.len() > 1 { assign(&merged, &own, log) } else { Vec::new() };
            let total = |list: &[Trial]| list.iter().map(|trial| trial.placed.score).sum::<f64>();
            let (lists, trials) = if total(&together) > total(&apart) { (&merged, together) } else { (&by_stream, apart) };
            for trial in trials {
                self.accept(&lists[trial.list], trial.series, trial.placed);
            }
        }
    }

    fn no_series(&mut self, blocks: &[Block]) {
        for block in blocks {
            let small = !block.parts.is_empty() && block.parts.iter().all(|part| self.log.ignores(part.size));
            self.why[block.event] = Some(if small { why::TOO_SMALL } else { why::NO_OPERATION });
        }
    }

    /// Places blocks in the one of several series that they fit best.
    fn best_of(&mut self, blocks: &[Block], series: &[usize]) {
        let placed = series.iter().map(|&s| (s, place(blocks, &self.log.sequence(s))));
        let best = placed.reduce(|best, other| if other.1.score > best.1.score { other } else { best });
        if let Some((s, placed)) = best {
            self.accept(blocks, s, placed);
        }
    }

    fn accept(&mut self, blocks: &[Block], s: usize, placed: Placed) {
        let log = self.log;
        let first = log.logs.series[log.series[s]].ops.start;
        let bounds = log.sequence(s).bounds();
        for (block, outcome) in blocks.iter().zip(placed.outcomes) {
            self.why[block.event] = match outcome {
                Outcome::Paired(records) => {
                    let free: Vec<usize> = records.iter().map(|r| first + r).filter(|r| self.used.insert(*r)).collect();
                    self.pairs.extend(free.iter().map(|&record| Pair { event: block.event, record }));
                    free.is_empty().then_some(why::UNSURE)
                }
                Outcome::Absent(_) if block.parts.iter().all(|part| log.ignores(part.size)) => Some(why::TOO_SMALL),
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
    fn leftovers(&mut self, events: &[Event]) {
        let log = self.log;
        let open = |why: &Option<&str>| why.is_some_and(|why| [why::NOWHERE, why::UNSURE, why::MISFIT].contains(&why));
        let lone: Vec<Lone> = (0..events.len())
            .filter(|&e| open(&self.why[e]))
            .map(|e| {
                let block = block(events, e, self.clock, Vec::new());
                let Event { op, members, bytes, .. } = events[e];
                let op = if matches!(op, CommOp::AllToAll | CommOp::Gather | CommOp::Scatter) { CommOp::SendRecv } else { op };
                let size = bytes.map_or(Size::Unknown, |bytes| if members == 1 { Size::Exactly(bytes) } else { Size::AtMost(bytes) });
                Lone { event: e, end_us: block.end_us, duration_us: block.duration_us, op, size }
            })
            .collect();
        if lone.is_empty() || self.clock.epoch_ns.is_none() {
            return;
        }
        let mut free = Vec::new();
        for (s, ended) in log.ended.iter().enumerate() {
            let range = log.logs.series[log.series[s]].ops.clone();
            let unused = range.zip(ended).filter(|(index, _)| !self.used.contains(index));
            free.extend(unused.map(|(index, ended)| Free { index, op: &log.logs.ops[index], ended: *ended }));
        }
        let belongs = |kernel: &Lone, op: &LoggedOp| {
            let comm = events[kernel.event].comm.map(logged_id);
            comm.is_none_or(|comm| log.logs.origins.get(op.origin as usize).is_some_and(|origin| origin.comm_id == comm))
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

    /// Pairs whose durations agree, and pairs with a duration by the GPU's timer.
    fn agreeing(&self, events: &[Event], logs: &Collected) -> (usize, usize) {
        let timed = self.pairs.iter().filter(|p| logs.ops[p.record].is_gpu_timed());
        let verdicts: Vec<bool> = timed.filter_map(|p| Some(!disagrees(&events[p.event], logs.ops[p.record].exec_us?))).collect();
        (verdicts.iter().filter(|agrees| **agrees).count(), verdicts.len())
    }

    /// True if hardly anything was found, or what was found does not agree: the clock may be wrong.
    fn is_poor(&self, events: &[Event], logs: &Collected) -> bool {
        let (agreeing, timed) = self.agreeing(events, logs);
        let open = self.why.iter().flatten().filter(|why| [why::NOWHERE, why::UNSURE, why::BEFORE, why::AFTER].contains(why)).count();
        agreeing * 2 < timed || open * 2 > events.len()
    }

    fn finish(self, rank: &RankKernels, events: &[Event], log: &Log<'_>, clock: Clock) -> Found {
        let mut found = Found { pairs: self.pairs, shift_us: (clock.shift_us != 0.0).then_some(clock.shift_us), ..Found::default() };
        for why in self.why.into_iter().flatten() {
            *found.alone.entry(why).or_default() += 1;
        }
        let captured = rank.captured.and_then(|(first, last)| Some((clock.us(first)?, clock.us(last)?)));
        for (s, ended) in log.ended.iter().enumerate() {
            let range = log.logs.series[log.series[s]].ops.clone();
            // Between the first and the last paired number; without pairs, only what certainly ran while the trace did.
            let paired = range.clone().filter(|index| self.used.contains(index));
            let inside: Vec<usize> = match (paired.clone().min(), paired.max(), captured) {
                (Some(first), Some(last), _) => (first..=last).collect(),
                (_, _, Some((first, last))) => {
                    range.zip(ended).filter(|(_, ended)| ended.after >= first && ended.by <= last).map(|(index, _)| index).collect()
                }
                _ => Vec::new(),
            };
            let alone = inside.iter().filter(|index| !self.used.contains(index)).count() as u64;
            found.in_capture += inside.len() as u64;
            if alone > 0 {
                let why = if self.met.contains(&s) { why_record::ALONE } else { why_record::NO_KERNEL };
                *found.records_alone.entry(why).or_default() += alone;
            }
        }
        debug_assert!(events.len() >= found.alone.values().sum::<u64>() as usize);
        found
    }
}

/// A list of blocks placed in a series.
struct Trial {
    list: usize,
    series: usize,
    placed: Placed,
}

/// Gives each list of blocks a series of its own, the best fitting first.
fn assign(lists: &[Vec<Block>], series: &[usize], log: &Log<'_>) -> Vec<Trial> {
    let mut trials: Vec<Trial> = Vec::new();
    for (list, blocks) in lists.iter().enumerate() {
        trials.extend(series.iter().map(|&s| Trial { list, series: s, placed: place(blocks, &log.sequence(s)) }));
    }
    trials.sort_by(|a, b| b.placed.score.total_cmp(&a.placed.score).then((a.list, a.series).cmp(&(b.list, b.series))));
    let (mut lists_done, mut series_done) = (BTreeSet::new(), BTreeSet::new());
    trials.retain(|trial| {
        !lists_done.contains(&trial.list) && !series_done.contains(&trial.series) && {
            lists_done.insert(trial.list);
            series_done.insert(trial.series)
        }
    });
    trials
}
