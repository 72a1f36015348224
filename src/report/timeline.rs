//! The steps of a run as they ran, operation by operation, for a timeline that can be moved in.
//!
//! ```text
//! Run --of--> chosen steps --lay (each rank: operations, phases)--> lanes --fit--> lanes of a bounded size
//!                  '--> collectives, critical path, ranks that matter
//! ```
//!
//! It is not part of the report's JSON. Of a large run it holds some steps, and merges what no screen can show; both are said.

use std::collections::BTreeMap;

use foldhash::{HashMap, HashMapExt};

use super::inside::Inside;
use crate::analysis::step_metrics::for_each_window;
use crate::collectives::events::Event;
use crate::collectives::transfer::bandwidth;
use crate::model::{Class, Metric, NameId, Ns, Range, Span};
use crate::redact;
use crate::run::{RankRun, Run, measure};
use crate::text;

/// Items of all steps and ranks, at most: some bytes each.
const MOST_ITEMS: usize = 130_000;
/// Items that a rank has in a step when there are too many steps to hold.
const LEAST_ITEMS: usize = 120;
/// The median step counts this often.
const MEDIAN_WEIGHT: usize = 4;
/// Steps that the timeline holds, at most.
const MOST_STEPS: usize = 400;
/// Phases of a rank in a step, at most: of more the longest.
const MOST_PHASES: usize = 150;
/// Pieces of the critical paths of all steps, at most.
const MOST_PIECES: usize = 40_000;
/// Ranks that are shown at first.
pub(crate) const SHOWN_RANKS: usize = 8;
/// Less than a share of the step is less than a pixel of the whole step: communication this short may be merged.
const PIXELS: Ns = 4096;
/// Characters of a name.
const LONGEST_NAME: usize = 160;

/// A communication operation: its event, and with a match the collective's place in the step and how long the rank waited.
type Met = (usize, Option<(u32, Option<Ns>)>);

const PHASES: usize = 0;
const COMPUTE: usize = 1;
const COMM: usize = 2;
const COPIES: usize = 3;
const UNKNOWN: usize = 4;

/// Steps of a run as they ran.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timeline {
    /// Names that items refer to.
    pub names: Vec<String>,
    /// Numbers of the ranks.
    pub ranks: Vec<u32>,
    /// Steps that the run has.
    pub all_steps: usize,
    /// Those that the timeline holds, in order.
    pub steps: Vec<StepLanes>,
    /// Position of the median step among them: the first to look at.
    pub first: usize,
    /// True if all ranks are on one clock; else each begins with its own window.
    pub one_clock: bool,
    /// True if nothing is known of the critical path.
    pub no_path: bool,
}

/// One step on all ranks. Times are ns from the begin of the earliest window.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StepLanes {
    /// Index among the run's steps.
    pub index: usize,
    /// Text of the step range.
    pub name: String,
    /// Lies far from the median of the run's steps.
    pub outlier: bool,
    /// In the summaries.
    pub counted: bool,
    /// Length of the step on its slowest rank, ns.
    pub step_ns: Ns,
    /// Where the last window ends.
    pub end: Ns,
    /// Each rank's lanes.
    pub ranks: Vec<RankLanes>,
    /// Collectives with at least two ranks here.
    pub collectives: Vec<Collective>,
    /// The critical path, in order of time.
    pub path: Vec<PathPiece>,
    /// Pieces of the path shorter than this belong to the piece before them, ns; 0 where all are there.
    pub path_resolution_ns: Ns,
    /// Ranks to look at first and why, by position.
    pub matter: Vec<(usize, &'static str)>,
}

/// One rank in one step.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RankLanes {
    /// Its window.
    pub window: (Ns, Ns),
    /// Items by lane, in order of start.
    pub lanes: [Vec<Item>; 5],
    /// Channels inside of its communication kernels, in order of start.
    pub channels: Vec<Item>,
    /// What was sampled of its GPU, by counter and start.
    pub counters: Vec<Item>,
    /// Neighbours shorter than this and closer than this are one block, ns; 0 where nothing is merged.
    pub resolution_ns: Ns,
    /// Items that found no room.
    pub left_out: u64,
}

/// Something with a time, cut to the window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Item {
    /// Begin.
    pub start: Ns,
    /// Length.
    pub ns: Ns,
    /// What it is.
    pub what: What,
}

/// What an item is. Names are positions in [`Timeline::names`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum What {
    /// A kernel, a graph or a phase.
    Named(u32),
    /// A copy or memset.
    Copy {
        /// Its kind.
        name: u32,
        /// Its bytes.
        bytes: u64,
    },
    /// Communication.
    Comm {
        /// The kernel's name.
        name: u32,
        /// What it does.
        op: u32,
        /// Payload as logged.
        bytes: Option<u64>,
        /// How long it waited for other ranks, ns.
        wait_ns: Option<Ns>,
        /// Position among the step's collectives.
        collective: Option<u32>,
    },
    /// A counter.
    Level {
        /// Its name.
        name: u32,
        /// Its mean, hundredths of a percent.
        percent_100: u64,
        /// Samples behind it.
        count: u64,
    },
    /// Several short items.
    Merged {
        /// How many.
        count: u64,
        /// Time that they cover, ns.
        busy_ns: Ns,
    },
}

/// One collective over ranks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Collective {
    /// Position of the communicator's id among the names.
    pub comm: Option<u32>,
    /// Ranks of the communicator.
    pub n_ranks: Option<u32>,
    /// Time in which data moved, ns.
    pub transfer_ns: Option<Ns>,
    /// Bus bandwidth, decimal GB/s.
    pub busbw_gbs: Option<f64>,
    /// Position of the rank that came last, where that is certain.
    pub last: Option<usize>,
    /// Latest minus earliest arrival, ns.
    pub arrival_spread_ns: Option<Ns>,
}

/// A piece of the critical path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathPiece {
    /// Begin.
    pub start: Ns,
    /// End.
    pub end: Ns,
    /// Position of its rank.
    pub rank: usize,
    /// Position of what it is among the names.
    pub part: u32,
}

impl Timeline {
    /// The timeline of a run; `None` if its ranks have no step in common.
    pub fn of(run: &Run) -> Option<Timeline> {
        let median = run.steps.median_step().or((!run.steps.steps.is_empty()).then_some(0))?;
        let held = chosen_steps(run, median);
        let share = MOST_ITEMS / (held.len() + MEDIAN_WEIGHT - 1) / run.ranks.len().max(1);
        let share = |step: usize| if step == median { share * MEDIAN_WEIGHT } else { share };
        let clocks = &run.across.clocks;
        let one_clock = clocks.windows(2).all(|pair| pair[0].comparable(&pair[1]));
        let begins: Vec<Vec<Ns>> = held.iter().map(|&step| begins(run, step, one_clock)).collect();
        let mut steps: Vec<StepLanes> = held.iter().filter_map(|&step| head(run, step)).collect();
        let mut names = NameTable::default();
        let mut found: Vec<HashMap<usize, u32>> = vec![HashMap::new(); steps.len()];
        let met = met(run);
        let inside_of = Inside::of(run);
        for (r, rank) in run.ranks.iter().enumerate() {
            let all = measure::windows(&rank.measured.steps);
            let member = |step: usize| run.steps.members.get(step)?.get(r).copied();
            let members: Vec<Option<usize>> = held.iter().map(|&step| member(step)).collect();
            let windows: Vec<Option<Span>> =
                members.iter().map(|at| all.get((*at)?).copied().flatten()).collect();
            let ranges: Vec<Range> = rank.trace.ranges.iter().collect();
            let mut lanes = vec![RankLanes::default(); steps.len()];
            for_each_window(&rank.trace.ops, &windows, |at, window, inside| {
                let begin = begins[at][r];
                let common = |time: Ns| clocks[r].common(time).saturating_sub(begin).max(0);
                let place = |span: Span| {
                    let span = span.clip(window);
                    (common(span.start), span.len())
                };
                let (step, found) = (&mut steps[at], &mut found[at]);
                let mut collective = |event: usize| {
                    let &(number, position) = met[r].get(&event)?;
                    let one = run.across.measured.get(number)?;
                    let next = step.collectives.len() as u32;
                    let place = *found.entry(number).or_insert(next);
                    if place == next {
                        step.collectives.push(collective_of(run, number, &mut names)?);
                    }
                    Some((place, one.timing.wait_ns.get(position).copied()))
                };
                // Names of collectives come before those of operations, which need the table, too.
                let events: Vec<Option<Met>> = inside
                    .iter()
                    .map(|&op| {
                        let event = event_of(rank, op as usize)?;
                        Some((event, collective(event)))
                    })
                    .collect();
                let mut all = operations(rank, inside, &events, &place, &mut names);
                let cpu = members[at].and_then(|at| rank.measured.steps.get(at)?.range);
                if let Some(cpu) = cpu {
                    all[PHASES] = phases(rank, cpu, inside, &ranges, &place, &mut names);
                }
                lanes[at] = fit(all, window.len(), share(held[at]));
                lanes[at].window = (common(window.start), common(window.end));
                let number = rank.trace.rank;
                let (channels, left_out) =
                    inside_of.channels(number, window, share(held[at]).max(LEAST_ITEMS) / 2);
                lanes[at].channels = channels
                    .into_iter()
                    .map(|lane| {
                        let (start, ns) = place(Span::new(lane.start_ns, lane.end_ns));
                        let name = format!("channel {}: {}", lane.channel, lane.name);
                        Item { start, ns, what: What::Named(names.place(&name)) }
                    })
                    .collect();
                lanes[at].left_out += left_out;
                lanes[at].counters = inside_of
                    .levels(number, window)
                    .into_iter()
                    .map(|level| {
                        let (start, ns) = place(level.span);
                        let name = names.place(level.quantity.label());
                        let percent_100 = (level.percent.clamp(0.0, 1e6) * 100.0).round() as u64;
                        let what = What::Level { name, percent_100, count: level.count };
                        Item { start, ns, what }
                    })
                    .collect();
            });
            steps.iter_mut().zip(lanes).for_each(|(step, lanes)| step.ranks.push(lanes));
        }
        let most = MOST_PIECES / steps.len().max(1);
        for (step, begins) in steps.iter_mut().zip(&begins) {
            step.end = step.ranks.iter().map(|rank| rank.window.1).max().unwrap_or(0);
            step.matter = matter(step);
            let paths = run.dependency.critical_path.iter().zip(&run.dependency.pieces);
            let path = paths.into_iter().find(|(path, _)| path.step == step.index);
            let Some((_, pieces)) = path.filter(|_| one_clock) else { continue };
            let shifted = |at: Ns| at.saturating_sub(begins[0]).clamp(0, step.end);
            let pieces = pieces.iter().rev().map(|piece| PathPiece {
                start: shifted(piece.start),
                end: shifted(piece.end),
                rank: piece.rank,
                part: names.place(piece.part.label()),
            });
            (step.path, step.path_resolution_ns) = fit_path(joined(pieces), most, step.end);
        }
        Some(Timeline {
            names: names.list,
            ranks: run.ranks.iter().map(|rank| rank.trace.rank).collect(),
            all_steps: run.steps.steps.len(),
            first: held.iter().position(|&step| step == median).unwrap_or(0),
            one_clock,
            no_path: steps.iter().all(|step| step.path.is_empty()),
            steps,
        })
    }
}

/// Names, each once, in the order in which they came.
#[derive(Debug, Default)]
struct NameTable {
    list: Vec<String>,
    index: HashMap<String, u32>,
}

impl NameTable {
    fn place(&mut self, name: &str) -> u32 {
        if let Some(&at) = self.index.get(name) {
            return at;
        }
        let at = self.list.len() as u32;
        let shown = text::printable(&redact::text(&text::shorten(name, LONGEST_NAME))).into_owned();
        self.list.push(shown);
        self.index.insert(name.to_owned(), at);
        at
    }
}

/// The steps to hold: all, or as many as there is room for: the median, the slowest, the fastest, outliers, and others evenly.
fn chosen_steps(run: &Run, median: usize) -> Vec<usize> {
    let steps = &run.steps.steps;
    let room = (MOST_ITEMS / LEAST_ITEMS / run.ranks.len().max(1)).clamp(1, MOST_STEPS);
    if steps.len() <= room {
        return (0..steps.len()).collect();
    }
    let time = |step: &usize| (steps[*step].values.int(Metric::StepNs), *step);
    let ends = [(0..steps.len()).max_by_key(time), (0..steps.len()).min_by_key(time)];
    let outliers = (0..steps.len()).filter(|&step| steps[step].outlier).take(room / 2);
    let evenly = (0..room).map(|i| i * steps.len() / room);
    let mut held: Vec<usize> = Vec::with_capacity(room);
    for step in
        std::iter::once(median).chain(ends.into_iter().flatten()).chain(outliers).chain(evenly)
    {
        if held.len() < room && !held.contains(&step) {
            held.push(step);
        }
    }
    held.sort_unstable();
    held
}

/// What is known of a step before its operations are read.
fn head(run: &Run, step: usize) -> Option<StepLanes> {
    let known = run.steps.steps.get(step)?;
    Some(StepLanes {
        index: known.index,
        name: text::printable(&redact::text(&known.name)).into_owned(),
        outlier: known.outlier,
        counted: known.counted,
        step_ns: known.values.int(Metric::StepNs).unwrap_or(0),
        ..StepLanes::default()
    })
}

/// Where time 0 of a step is on each rank's clock: at the earliest window, or each at its own if clocks cannot be compared.
fn begins(run: &Run, step: usize, one_clock: bool) -> Vec<Ns> {
    let begin = |(r, rank): (usize, &RankRun)| {
        let at = *run.steps.members.get(step)?.get(r)?;
        let window = rank.measured.steps.get(at)?.window.as_ref().ok()?;
        Some(run.across.clocks.get(r)?.common(window.start))
    };
    let own: Vec<Ns> = run.ranks.iter().enumerate().map(|rank| begin(rank).unwrap_or(0)).collect();
    match (one_clock, own.iter().min()) {
        (true, Some(&earliest)) => vec![earliest; own.len()],
        _ => own,
    }
}

/// For each rank the collective of each of its matched events: its number, and the rank's position in it.
fn met(run: &Run) -> Vec<HashMap<usize, (usize, usize)>> {
    let mut met = vec![HashMap::new(); run.ranks.len()];
    for (number, one) in run.across.measured.iter().enumerate() {
        for (position, member) in one.found.members.iter().enumerate() {
            met[member.rank.0].insert(member.event, (number, position));
        }
    }
    met
}

fn collective_of(run: &Run, number: usize, names: &mut NameTable) -> Option<Collective> {
    let one = run.across.measured.get(number)?;
    let first = one.found.members.first()?;
    let event = run.ranks.get(first.rank.0)?.measured.events.get(first.event)?;
    let transfer_ns = one.timing.transfer.ok();
    let busbw = |ns| bandwidth(event.op, event.bytes?, one.n_ranks, ns).map(|(_, busbw)| busbw);
    Some(Collective {
        comm: event.comm.map(|comm| names.place(&format!("0x{comm:016x}"))),
        n_ranks: one.n_ranks,
        transfer_ns,
        busbw_gbs: transfer_ns.and_then(busbw),
        last: one.timing.last.and_then(|at| Some(one.found.members.get(at)?.rank.0)),
        arrival_spread_ns: one.timing.arrival_spread_ns,
    })
}

/// The event that an operation of a rank is.
fn event_of(rank: &RankRun, op: usize) -> Option<usize> {
    let ops = &rank.trace.ops;
    if ops.class[op] != Class::Comm || ops.name[op] == NameId::NONE {
        return None;
    }
    let events = &rank.measured.events;
    let is_it = |event: &Event| {
        event.end == ops.end[op] && event.stream == ops.stream[op] && event.name == ops.name[op]
    };
    let from = events.partition_point(|event| event.start < ops.start[op]);
    (from..events.len())
        .take_while(|&at| events[at].start == ops.start[op])
        .find(|&at| is_it(&events[at]))
}

/// Operations by lane, in order of start.
fn operations(
    rank: &RankRun,
    inside: &[u32],
    events: &[Option<Met>],
    place: &impl Fn(Span) -> (Ns, Ns),
    names: &mut NameTable,
) -> [Vec<Item>; 5] {
    let ops = &rank.trace.ops;
    let mut lanes: [Vec<Item>; 5] = Default::default();
    for (&op, event) in inside.iter().zip(events) {
        let i = op as usize;
        let kernel = rank.trace.names.get(ops.name[i]);
        let (lane, plain) = match ops.class[i] {
            Class::Compute => (COMPUTE, kernel),
            Class::Comm if ops.name[i] == NameId::NONE => (COMM, "copy of a collective"),
            Class::Comm => (COMM, kernel),
            Class::Ptop => (COMM, "copy between GPUs"),
            Class::Htod => (COPIES, "copy host to device"),
            Class::Dtoh => (COPIES, "copy device to host"),
            Class::Dtod => (COPIES, "copy inside the device"),
            Class::OtherCopy => (COPIES, "other copy"),
            Class::Memset => (COPIES, "memset"),
            Class::Unclassified if ops.name[i] == NameId::NONE => (UNKNOWN, "CUDA graph"),
            Class::Unclassified => (UNKNOWN, "kernel without a name"),
        };
        let name = names.place(plain);
        let what = match (lane, event) {
            (COMM, Some((event, met))) => {
                let event = &rank.measured.events[*event];
                What::Comm {
                    name,
                    op: names.place(event.op.label()),
                    bytes: event.bytes,
                    wait_ns: met.and_then(|(_, wait)| wait),
                    collective: met.map(|(collective, _)| collective),
                }
            }
            (COMM | COPIES, _) => What::Copy { name, bytes: ops.bytes[i] },
            _ => What::Named(name),
        };
        let (start, ns) = place(ops.span(i));
        lanes[lane].push(Item { start, ns, what });
    }
    for lane in &mut lanes {
        lane.sort_by_key(|item| item.start);
    }
    lanes
}

/// The user's ranges inside the range of a step, as the work that was launched in them ran; of very many the longest.
fn phases(
    rank: &RankRun,
    cpu: Span,
    inside: &[u32],
    ranges: &[Range],
    place: &impl Fn(Span) -> (Ns, Ns),
    names: &mut NameTable,
) -> Vec<Item> {
    let ops = &rank.trace.ops;
    let first = ranges.partition_point(|range| range.start < cpu.start);
    let own: Vec<&Range> =
        ranges[first..].iter().take_while(|range| range.start < cpu.end).collect();
    let Some(step) = own.iter().find(|range| range.span() == cpu) else { return Vec::new() };
    let mut nested: Vec<&Range> = own
        .iter()
        .copied()
        .filter(|range| range.thread == step.thread && range.end <= cpu.end && range.span() != cpu)
        .collect();
    nested.sort_by_key(|range| std::cmp::Reverse(range.span().len()));
    nested.truncate(MOST_PHASES);
    let mut launched: Vec<u32> = inside.to_vec();
    launched.sort_by_key(|&op| ops.launch[op as usize]);
    let launch = |at: &u32| ops.launch[*at as usize];
    let mut list: Vec<Item> = nested
        .into_iter()
        .filter_map(|range| {
            let from = launched.partition_point(|op| launch(op) < range.start);
            let until = launched.partition_point(|op| launch(op) < range.end);
            let own = launched.get(from..until)?.iter().map(|&op| ops.span(op as usize));
            let span = own.reduce(|a, b| Span::new(a.start.min(b.start), a.end.max(b.end)))?;
            let (start, ns) = place(span);
            let name = names.place(&rank.trace.texts.text(range.kind, range.digits));
            (ns > 0).then_some(Item { start, ns, what: What::Named(name) })
        })
        .collect();
    list.sort_by_key(|item| (item.start, std::cmp::Reverse(item.ns)));
    list
}

/// Lanes with at most `most` items: short neighbours are merged, the shorter the better; communication last.
fn fit(all: [Vec<Item>; 5], window: Ns, most: usize) -> RankLanes {
    let total = |lanes: &[Vec<Item>; 5]| lanes.iter().map(Vec::len).sum::<usize>();
    let mut fitted = RankLanes { lanes: all.clone(), ..RankLanes::default() };
    let mut least = (window / 65_536).max(1);
    while total(&fitted.lanes) > most && least < window / 16 {
        for (at, lane) in all.iter().enumerate() {
            if at != PHASES && (at != COMM || least > window / PIXELS) {
                fitted.lanes[at] = merged(lane, least);
            }
        }
        fitted.resolution_ns = least;
        least = least.saturating_mul(2);
    }
    let over = total(&fitted.lanes).saturating_sub(most);
    if over > 0 {
        // Long items that overlap on many streams: the longest stay.
        let mut lengths: Vec<Ns> = fitted.lanes.iter().flatten().map(|item| item.ns).collect();
        lengths.sort_unstable();
        let shortest = lengths[over];
        let mut room = most;
        for lane in &mut fitted.lanes {
            lane.retain(|item| {
                let stays = item.ns >= shortest && room > 0;
                room -= usize::from(stays);
                stays
            });
        }
        fitted.left_out = (lengths.len() - total(&fitted.lanes)) as u64;
    }
    fitted
}

/// Neighbours that are both shorter than `least` and closer than it become one block.
fn merged(lane: &[Item], least: Ns) -> Vec<Item> {
    let end = |item: &Item| item.start.saturating_add(item.ns);
    let mut list: Vec<Item> = Vec::new();
    let mut open = false;
    for item in lane {
        let short = item.ns < least;
        match list.last_mut() {
            Some(last) if open && short && item.start.saturating_sub(end(last)) < least => {
                let (count, busy_ns) = match last.what {
                    What::Merged { count, busy_ns } => (count, busy_ns),
                    _ => (1, last.ns),
                };
                let more = end(item).saturating_sub(item.start.max(end(last))).max(0);
                last.ns = end(item).max(end(last)) - last.start;
                last.what = What::Merged { count: count + 1, busy_ns: busy_ns + more };
            }
            _ => {
                list.push(*item);
                open = short;
            }
        }
    }
    list
}

/// Neighbours of one kind on one rank are one piece.
fn joined(pieces: impl Iterator<Item = PathPiece>) -> Vec<PathPiece> {
    let mut list: Vec<PathPiece> = Vec::new();
    for piece in pieces {
        match list.last_mut() {
            Some(last) if last.rank == piece.rank && last.part == piece.part => {
                last.end = piece.end;
            }
            _ => list.push(piece),
        }
    }
    list
}

/// A path of at most about `most` pieces: shorter ones belong to the piece before them.
fn fit_path(pieces: Vec<PathPiece>, most: usize, window: Ns) -> (Vec<PathPiece>, Ns) {
    let mut fitted = pieces.clone();
    let (mut least, mut used) = ((window / 65_536).max(1), 0);
    while fitted.len() > most && least < window {
        fitted.clear();
        for piece in &pieces {
            match fitted.last_mut() {
                Some(last) if piece.end - piece.start < least => last.end = piece.end,
                Some(last) if last.rank == piece.rank && last.part == piece.part => {
                    last.end = piece.end;
                }
                _ => fitted.push(*piece),
            }
        }
        used = least;
        least = least.saturating_mul(2);
    }
    (fitted, used)
}

/// The ranks to look at first: the slowest, the fastest, the one between them, and those that most often came last and first.
fn matter(step: &StepLanes) -> Vec<(usize, &'static str)> {
    let length = |rank: &RankLanes| rank.window.1 - rank.window.0;
    let mut order: Vec<usize> = (0..step.ranks.len()).collect();
    order.sort_by_key(|&r| (length(&step.ranks[r]), r));
    let mut last: BTreeMap<usize, usize> = BTreeMap::new();
    for one in step.collectives.iter().filter_map(|one| one.last) {
        *last.entry(one).or_default() += 1;
    }
    let often = last.iter().max_by_key(|&(&r, &n)| (n, std::cmp::Reverse(r))).map(|(&r, _)| r);
    let waited = |rank: &RankLanes| -> Ns {
        let wait = |item: &Item| match item.what {
            What::Comm { wait_ns, .. } => wait_ns,
            _ => None,
        };
        rank.lanes[COMM].iter().filter_map(wait).sum()
    };
    let most = (0..step.ranks.len())
        .map(|r| (waited(&step.ranks[r]), std::cmp::Reverse(r)))
        .max()
        .filter(|(ns, _)| *ns > 0)
        .map(|(_, r)| r.0);
    let picked = [
        (order.last().copied(), "slowest"),
        (often, "most often last"),
        (most, "waits most"),
        (order.first().copied(), "fastest"),
        (order.get(order.len().saturating_sub(1) / 2).copied(), "median"),
    ];
    let picked = picked.into_iter().filter_map(|(rank, why)| Some((rank?, why)));
    if step.ranks.len() > 1 { picked.collect() } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(start: Ns, ns: Ns) -> Item {
        Item { start, ns, what: What::Named(0) }
    }

    fn comm(start: Ns, ns: Ns) -> Item {
        let what = What::Comm { name: 0, op: 0, bytes: None, wait_ns: None, collective: None };
        Item { start, ns, what }
    }

    // 0  5 6   12 13 15         40           100    140 141
    // |a|  |--b--| |c|           |---- d ----|       |e|      e is short, and far from c
    #[test]
    fn short_neighbours_are_one_block_that_says_how_many() {
        let lane = [item(0, 5), item(6, 6), item(13, 2), item(40, 60), item(140, 1)];
        let block = What::Merged { count: 3, busy_ns: 13 };
        assert_eq!(
            merged(&lane, 10),
            [Item { start: 0, ns: 15, what: block }, item(40, 60), item(140, 1)]
        );
        assert_eq!(merged(&lane, 1), lane);
    }

    // Two streams: [0, 8) and [2, 6) cover 8 ns, not 12.
    #[test]
    fn a_block_counts_time_once() {
        let block = What::Merged { count: 2, busy_ns: 8 };
        assert_eq!(merged(&[item(0, 8), item(2, 4)], 10), [Item { start: 0, ns: 8, what: block }]);
    }

    #[test]
    fn a_crowded_step_is_bounded_and_keeps_its_communication() {
        let compute: Vec<Item> = (0..100_000).map(|i| item(i * 100, 90)).collect();
        let calls: Vec<Item> = (0..50).map(|i| comm(i * 200_000, 500)).collect();
        let lanes = [vec![], compute, calls.clone(), vec![], vec![]];
        let fitted = fit(lanes, 10_000_000, 1_000);
        assert!(fitted.resolution_ns > 90, "{}", fitted.resolution_ns);
        assert_eq!(fitted.lanes[COMM], calls);
        let count = |item: &Item| match item.what {
            What::Merged { count, .. } => count,
            _ => 1,
        };
        assert_eq!(fitted.lanes[COMPUTE].iter().map(count).sum::<u64>(), 100_000);
        assert!(fitted.lanes.iter().flatten().count() <= 1_000);
        assert_eq!(fitted.left_out, 0);
    }

    // Nothing is short, everything overlaps: what finds no room is counted.
    #[test]
    fn what_cannot_be_merged_is_left_out_and_counted() {
        let compute: Vec<Item> = (0..500).map(|i| item(i, 1_000_000 + i)).collect();
        let fitted = fit([vec![], compute, vec![], vec![], vec![]], 1_000_500, 100);
        assert_eq!((fitted.lanes[COMPUTE].len(), fitted.left_out), (100, 400));
        assert_eq!(fitted.lanes[COMPUTE][0], item(400, 1_000_400));
    }

    #[test]
    fn a_long_path_stays_without_gaps() {
        let piece =
            |i: i64| PathPiece { start: i * 10, end: i * 10 + 10, rank: (i % 2) as usize, part: 0 };
        let (fitted, least) = fit_path((0..1_000).map(piece).collect(), 100, 10_000);
        assert!(least > 0 && fitted.len() <= 100, "{least}, {}", fitted.len());
        assert_eq!((fitted[0].start, fitted.last().map(|p| p.end)), (0, Some(10_000)));
        assert!(fitted.windows(2).all(|pair| pair[0].end == pair[1].start));
    }
}
