//! One rank: its lanes, its counters, and the arrows from its launches.

use std::borrow::Cow;
use std::io;

use foldhash::HashMap;

use super::Options;
use super::active::Active;
use super::communication::Communication;
use super::lanes::{Lanes, Placed, Shape};
use super::times::Times;
use super::writer::{Args, Flow, Track, Writer, quoted};
use crate::collectives::events::Event;
use crate::collectives::groups;
use crate::counters::samples::Sample;
use crate::model::host::{Host, SyncKind};
use crate::model::op::NO_LAUNCH;
use crate::model::{CallKind, Class, NameId, Names, Ns, Ops, RankTrace, Span};
use crate::npkit::lanes::ChannelLane;
use crate::redact;
use crate::run::{RankRun, Run};
use crate::text::{printable, shorten};
use crate::timeline::SpanSet;
use crate::units;

/// Characters of a name that are written; all of a very long one would be there for each of its slices.
const LONGEST: usize = 512;

/// Counters, by kind of operation.
const COUNTERS: [&str; 4] =
    ["compute active", "communication active", "copies active", "unknown class active"];

/// A lane of a rank: in this order from top to bottom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    Steps,
    CriticalPath,
    /// The user's ranges of a thread.
    Phases(u32),
    /// NCCL calls of a thread.
    Nccl(u32),
    /// CUDA calls of a thread.
    Host(u32),
    /// Kernels of a stream.
    Compute(u32),
    Communicator(u64),
    /// Communication on a stream of which no communicator is known.
    CommOnStream(u32),
    /// A channel inside of communication kernels.
    Channel(u32),
    Waits,
    Copies(u32),
    Unknown(u32),
}

impl Lane {
    fn category(self) -> &'static str {
        match self {
            Lane::Steps => "step",
            Lane::CriticalPath => "critical path",
            Lane::Phases(_) => "phase",
            Lane::Nccl(_) => "NCCL call",
            Lane::Host(_) => "host call",
            Lane::Compute(_) => "compute",
            Lane::Communicator(_) | Lane::CommOnStream(_) => "communication",
            Lane::Channel(_) => "NPKit channel",
            Lane::Waits => "wait",
            Lane::Copies(_) => "copy",
            Lane::Unknown(_) => "unknown class",
        }
    }

    /// Lanes of one kind stay together, whatever comes first in the capture.
    fn sort(self) -> u32 {
        let kind = match self {
            Lane::Steps => 0,
            Lane::CriticalPath => 1,
            Lane::Phases(_) => 2,
            Lane::Nccl(_) => 3,
            Lane::Host(_) => 4,
            Lane::Compute(_) => 5,
            Lane::Communicator(_) => 6,
            Lane::CommOnStream(_) => 7,
            Lane::Channel(_) => 8,
            Lane::Waits => 9,
            Lane::Copies(_) => 10,
            Lane::Unknown(_) => 11,
        };
        kind * 10_000_000
    }

    fn shape(self) -> Shape {
        match self {
            Lane::Phases(_) | Lane::Nccl(_) | Lane::Host(_) => Shape::Nested,
            _ => Shape::Flat,
        }
    }
}

/// Where the communication of a rank was drawn.
#[derive(Debug)]
pub(super) struct Drawn {
    pid: u64,
    /// For each operation its track; 0 if it was left out.
    tids: Vec<u32>,
}

impl Drawn {
    /// The track of an operation, if it was drawn.
    pub(super) fn event(&self, at: usize) -> Option<Track> {
        let tid = self.tids.get(at).copied().filter(|&tid| tid != 0)?;
        Some(Track { pid: self.pid, tid })
    }
}

/// What is known of a rank beside its operations.
#[derive(Debug)]
pub(super) struct Inside<'a> {
    /// For each of its communication operations the match that it is in, and where among its members.
    pub matched: &'a [Option<(u32, u32)>],
    /// Channels of its communication kernels, by channel and time.
    pub channels: Vec<&'a ChannelLane>,
    /// Samples of its GPU's counters, by counter and time.
    pub samples: Vec<&'a Sample>,
}

/// Writes all of a rank. `events` are the communication of all ranks.
pub(super) fn write(
    run: &Run,
    at: usize,
    times: &Times<'_>,
    events: &[&[Event]],
    inside: &Inside<'_>,
    options: Options,
    writer: &mut Writer<'_>,
) -> io::Result<Drawn> {
    let (rank, matched) = (&run.ranks[at], inside.matched);
    let pid = u64::from(rank.trace.rank) + 1;
    writer.process(pid, &name(&rank.trace), &labels(rank, at, times), rank.trace.rank)?;
    let wanted = run.options.steps.is_some().then(|| wanted(rank));
    let mut pen = Pen {
        run,
        rank,
        at,
        pid,
        times,
        min_ns: options.min_ns,
        wanted,
        lanes: Lanes::default(),
        tracks: 0,
        names: vec![None; rank.trace.names.len()],
        sizes: rank.trace.comm_inits.iter().map(|init| (init.comm, init.n_ranks)).collect(),
        one_context: rank.trace.ops.streams.windows(2).all(|pair| pair[0].0 == pair[1].0),
        steps: steps(rank),
        writer,
    };
    pen.steps()?;
    pen.critical_path()?;
    pen.phases()?;
    pen.nccl_calls()?;
    let calls = pen.host_calls()?;
    let communication = Communication::new(&rank.trace.ops, events[at]);
    let tids = pen.operations(&calls, &communication, events, matched)?;
    pen.channels(&inside.channels)?;
    pen.waits(events[at], matched)?;
    pen.counters()?;
    pen.samples(&inside.samples)?;
    Ok(Drawn { pid, tids })
}

/// `rank 3 (node1, NVIDIA H200)`.
fn name(trace: &RankTrace) -> String {
    let facts: Vec<Cow<'_, str>> =
        [&trace.hostname, &trace.gpu].into_iter().flatten().map(|text| shown(text)).collect();
    match facts.is_empty() {
        true => format!("rank {}", trace.rank),
        false => format!("rank {} ({})", trace.rank, facts.join(", ")),
    }
}

/// What else a reader should know of a rank: its file, its process, how its clock stands.
fn labels(rank: &RankRun, at: usize, times: &Times<'_>) -> String {
    let trace = &rank.trace;
    let clock = match times.group(at) {
        _ if times.is_one() => String::new(),
        group if group == at => {
            ", clock cannot be compared with that of ranks before it".to_owned()
        }
        group => format!(", clock is that of the rank at position {group}"),
    };
    format!("{}, pid {}, device {}{clock}", shown(&trace.report), trace.pid, trace.device)
}

/// Text from outside as it may be shown.
fn shown(text: &str) -> Cow<'_, str> {
    Cow::Owned(printable(&shorten(&redact::text(text), LONGEST)).into_owned())
}

/// The time of the chosen steps, on the CPU and on the GPU, in the report's own time.
fn wanted(rank: &RankRun) -> SpanSet {
    let spans = rank.measured.steps.iter().flat_map(|step| {
        let window = step.window.as_ref().ok().copied();
        let both = [step.range, window].into_iter().flatten();
        let start = both.clone().map(|span| span.start).min();
        let end = both.map(|span| span.end).max();
        start.zip(end).map(|(start, end)| Span::new(start, end))
    });
    SpanSet::from_unsorted(spans.collect())
}

/// Windows of the rank's steps with the index of each in the run, by their start.
fn steps(rank: &RankRun) -> Vec<(Span, usize)> {
    let of = rank.measured.steps.iter().zip(&rank.measured.values);
    let mut list: Vec<(Span, usize)> = of
        .filter_map(|(step, values)| Some((*step.window.as_ref().ok()?, values.run_step?)))
        .collect();
    list.sort_unstable();
    list
}

/// Draws the lanes of one rank.
struct Pen<'a, 'w> {
    run: &'a Run,
    rank: &'a RankRun,
    at: usize,
    pid: u64,
    times: &'a Times<'a>,
    min_ns: Ns,
    /// What is asked for, if not all.
    wanted: Option<SpanSet>,
    lanes: Lanes<Lane>,
    /// Tracks so far.
    tracks: u32,
    /// Names as JSON, once they were needed.
    names: Vec<Option<Box<str>>>,
    /// Ranks of communicators.
    sizes: HashMap<u64, u32>,
    /// True if a stream's number says which one it is.
    one_context: bool,
    steps: Vec<(Span, usize)>,
    writer: &'a mut Writer<'w>,
}

impl Pen<'_, '_> {
    /// Draws a slice whose times are on the axis; returns its track, if there is room for it.
    fn draw(
        &mut self,
        lane: Lane,
        span: Span,
        name: &str,
        args: &Args,
    ) -> io::Result<Option<Track>> {
        let (pid, writer) = (self.pid, &mut *self.writer);
        let placed = self.lanes.place(lane, lane.shape(), span, || writer.new_track(pid));
        let tid = match placed {
            Placed::On(tid) => tid,
            Placed::OnNew(tid, position) => {
                let more =
                    if position == 0 { String::new() } else { format!(" ({})", position + 1) };
                let name = format!("{}{more}", self.lane_name(lane));
                let sort = lane.sort().saturating_add(self.tracks);
                self.tracks = self.tracks.saturating_add(1);
                self.writer.track(Track { pid, tid }, &name, sort)?;
                tid
            }
            Placed::Nowhere => {
                self.writer.counts.left_out_crowded += 1;
                return Ok(None);
            }
        };
        let track = Track { pid, tid };
        self.writer.slice(track, lane.category(), span, name, args)?;
        Ok(Some(track))
    }

    fn lane_name(&self, lane: Lane) -> String {
        let on = |stream: u32| match self.rank.trace.ops.streams.get(stream as usize) {
            Some((_, id)) if self.one_context => format!("stream {id}"),
            Some((context, id)) => format!("context {context}, stream {id}"),
            None => format!("stream #{stream}"),
        };
        match lane {
            Lane::Steps => "steps".to_owned(),
            Lane::CriticalPath => "critical path".to_owned(),
            Lane::Phases(thread) => format!("phases, thread {thread}"),
            Lane::Nccl(thread) => format!("NCCL calls, thread {thread}"),
            Lane::Host(thread) => format!("CUDA calls, thread {thread}"),
            Lane::Compute(stream) => format!("compute, {}", on(stream)),
            Lane::Communicator(comm) => {
                let size = self.sizes.get(&comm).map_or_else(String::new, |&n| {
                    format!(" ({})", units::plural(n as usize, "rank"))
                });
                format!("communication, {}{size}", comm_id(comm))
            }
            Lane::CommOnStream(stream) => format!("communication, {}", on(stream)),
            Lane::Channel(channel) => format!("NPKit channel {channel}"),
            Lane::Waits => "waits".to_owned(),
            Lane::Copies(stream) => format!("copies, {}", on(stream)),
            Lane::Unknown(stream) => format!("unknown class, {}", on(stream)),
        }
    }

    fn is_wanted(&self, own: Span) -> bool {
        let Some(wanted) = &self.wanted else { return true };
        let spans = wanted.spans();
        let next = spans.partition_point(|span| span.end <= own.start);
        spans.get(next).is_some_and(|span| span.start < own.end.max(own.start.saturating_add(1)))
    }

    /// True if something of this length is drawn; counts it otherwise.
    fn is_long(&mut self, own: Span) -> bool {
        let is_long = own.len() >= self.min_ns;
        self.writer.counts.left_out_short += u64::from(!is_long);
        is_long
    }

    fn name(&mut self, id: NameId) -> Box<str> {
        let Some(known) = self.names.get_mut(id.0 as usize) else { return "\"\"".into() };
        let names: &Names = &self.rank.trace.names;
        known
            .get_or_insert_with(|| quoted(&printable(&shorten(names.get(id), LONGEST))).into())
            .clone()
    }

    /// Index in the run of the step in whose window a time lies.
    fn step_at(&self, own: Ns) -> Option<usize> {
        let next = self.steps.partition_point(|(span, _)| span.start <= own);
        self.steps[..next].last().filter(|(span, _)| own < span.end).map(|(_, step)| *step)
    }

    fn with_step(&self, args: &mut Args, own: Ns) {
        if let Some(step) = self.step_at(own) {
            args.int("step", step as u64);
        }
    }

    fn steps(&mut self) -> io::Result<()> {
        let measured = &self.rank.measured;
        let mut list: Vec<(Span, usize)> = measured
            .steps
            .iter()
            .enumerate()
            .filter_map(|(i, step)| Some((*step.window.as_ref().ok()?, i)))
            .collect();
        list.sort_unstable_by_key(|(span, i)| (span.start, std::cmp::Reverse(span.end), *i));
        for (window, i) in list {
            let values = &measured.values[i];
            let mut args = Args::default();
            if let Some(step) = values.run_step {
                args.int("step", step as u64);
            }
            args.json("outlier", if values.outlier { "true" } else { "false" });
            args.json("counted", if values.counted { "true" } else { "false" });
            args.json("numbers", &serde_json::to_string(&values.values).unwrap_or_default());
            let span = self.times.span(self.at, window);
            let name = quoted(&shown(&measured.steps[i].name));
            self.draw(Lane::Steps, span, &name, &args)?;
        }
        Ok(())
    }

    fn critical_path(&mut self) -> io::Result<()> {
        let dependency = &self.run.dependency;
        let mut pieces: Vec<(Span, usize, usize)> = Vec::new();
        for (path, list) in dependency.critical_path.iter().zip(&dependency.pieces) {
            let own = list.iter().enumerate().filter(|(_, piece)| piece.rank == self.at);
            pieces.extend(own.map(|(i, piece)| {
                let at = |at| self.times.common(self.at, at);
                (Span::new(at(piece.start), at(piece.end)), path.step, i)
            }));
        }
        pieces.sort_unstable();
        let lists: HashMap<usize, usize> =
            dependency.critical_path.iter().enumerate().map(|(at, path)| (path.step, at)).collect();
        for (span, step, i) in pieces {
            let Some(piece) =
                lists.get(&step).and_then(|&at| dependency.pieces.get(at)).and_then(|l| l.get(i))
            else {
                continue;
            };
            let mut args = Args::default();
            args.int("step", step as u64);
            self.draw(Lane::CriticalPath, span, &quoted(piece.part.label()), &args)?;
        }
        Ok(())
    }

    fn phases(&mut self) -> io::Result<()> {
        let trace = &self.rank.trace;
        for range in trace.ranges.iter() {
            if !self.is_wanted(range.span()) || !self.is_long(range.span()) {
                continue;
            }
            let text = trace.texts.text(range.kind, range.digits);
            let name = quoted(&printable(&shorten(&text, LONGEST)));
            let span = self.times.span(self.at, range.span());
            self.draw(Lane::Phases(range.tid()), span, &name, &Args::default())?;
        }
        Ok(())
    }

    fn nccl_calls(&mut self) -> io::Result<()> {
        // Of equal starts the longest first, so that calls nest.
        let calls = &self.rank.trace.nccl;
        let mut order: Vec<u32> = (0..calls.len() as u32).collect();
        order.sort_by_key(|&i| {
            let call = &calls[i as usize];
            (call.start, std::cmp::Reverse(call.end), i)
        });
        for i in order {
            let call = &calls[i as usize];
            let own = Span::new(call.start, call.end);
            if !self.is_wanted(own) || !self.is_long(own) {
                continue;
            }
            let name = match (call.op, call.kind) {
                (Some(op), _) => op.label(),
                (None, CallKind::GroupStart) => "group start",
                (None, CallKind::GroupEnd) => "group end",
                (None, CallKind::Group) => "group",
                (None, CallKind::Plain) => "communicator management",
            };
            let mut args = Args::default();
            if let Some(comm) = call.comm {
                args.text("communicator", &comm_id(comm));
            }
            if let Some(bytes) = call.bytes {
                args.int("bytes", bytes);
            }
            let span = self.times.span(self.at, own);
            self.draw(Lane::Nccl(tid(call.thread)), span, &quoted(name), &args)?;
        }
        Ok(())
    }

    /// CUDA calls that launch what is drawn, and those in which the host waits. Returns for each call its track, 0 for none.
    fn host_calls(&mut self) -> io::Result<Vec<u32>> {
        let Some(host) = self.rank.trace.host.as_deref() else { return Ok(Vec::new()) };
        const WANTED: u32 = u32::MAX;
        let (calls, ops) = (&host.calls, &self.rank.trace.ops);
        let mut tids = vec![0; calls.len()];
        for op in 0..ops.len() {
            let own = ops.span(op);
            if own.len() >= self.min_ns
                && self.is_wanted(own)
                && let Some(call) = launching_call(host, ops, op)
            {
                tids[call] = WANTED;
            }
        }
        // Of equal starts the longest first, so that calls nest.
        let mut order: Vec<u32> = (0..calls.len() as u32).collect();
        order.retain(|&i| tids[i as usize] == WANTED || waits(host, calls.correlation[i as usize]));
        order.sort_by_key(|&i| {
            (calls.start[i as usize], std::cmp::Reverse(calls.end[i as usize]), i)
        });
        for i in order.into_iter().map(|i| i as usize) {
            let own = Span::new(calls.start[i], calls.end[i]);
            let launches = tids[i] == WANTED;
            tids[i] = 0;
            if !launches && (!self.is_wanted(own) || !self.is_long(own)) {
                continue;
            }
            let thread = host.threads.get(calls.thread[i] as usize).copied().unwrap_or(0);
            let name = self.name(calls.name[i]);
            let span = self.times.span(self.at, own);
            let drawn = self.draw(Lane::Host(tid(thread)), span, &name, &Args::default())?;
            tids[i] = drawn.map_or(0, |track| track.tid);
        }
        Ok(tids)
    }

    /// The GPU's work with arrows from its launches. Returns for each event its track, 0 for none.
    fn operations(
        &mut self,
        calls: &[u32],
        communication: &Communication,
        events: &[&[Event]],
        matched: &[Option<(u32, u32)>],
    ) -> io::Result<Vec<u32>> {
        let trace = &self.rank.trace;
        let ops = &trace.ops;
        let own_events = events[self.at];
        let mut tids = vec![0; own_events.len()];
        for op in 0..ops.len() {
            let own = ops.span(op);
            if !self.is_wanted(own) || !self.is_long(own) {
                continue;
            }
            let event = communication.event(ops, op);
            let lane = lane(ops, op, event.map(|at| &own_events[at]));
            let mut args = Args::default();
            self.with_step(&mut args, own.start);
            if let Some(&(context, stream)) = ops.streams.get(ops.stream[op] as usize) {
                args.int("context", context).int("stream", stream);
            }
            if let Some(&grid) = ops.grid.get(op).filter(|&&grid| grid != NameId::NONE) {
                let grid = self.name(grid);
                args.json("grid", &grid);
            }
            if ops.name[op] == NameId::NONE && ops.bytes[op] > 0 {
                args.int("copied_bytes", ops.bytes[op]);
                args.number("copied_gbs", ops.bytes[op] as f64 / own.len().max(1) as f64);
            }
            if let Some(at) = event {
                self.collective(&mut args, &own_events[at], matched[at], events);
            }
            let name = self.op_name(op);
            let span = self.times.span(self.at, own);
            let Some(track) = self.draw(lane, span, &name, &args)? else { continue };
            if let Some(first) = event.and_then(|at| tids.get_mut(at)).filter(|tid| **tid == 0) {
                *first = track.tid;
            }
            self.launch(calls, op, track, span.start)?;
        }
        Ok(tids)
    }

    fn op_name(&mut self, op: usize) -> Box<str> {
        let ops = &self.rank.trace.ops;
        if ops.name[op] != NameId::NONE {
            return self.name(ops.name[op]);
        }
        match ops.class[op] {
            Class::Comm => "\"copy of a collective\"",
            Class::Htod => "\"copy HtoD\"",
            Class::Dtoh => "\"copy DtoH\"",
            Class::Dtod => "\"copy DtoD\"",
            Class::Ptop => "\"copy PtoP\"",
            Class::OtherCopy => "\"copy\"",
            Class::Memset => "\"memset\"",
            Class::Compute | Class::Unclassified => "\"CUDA graph\"",
        }
        .into()
    }

    /// What is known of a collective, on one of its ranks.
    fn collective(
        &self,
        args: &mut Args,
        event: &Event,
        matched: Option<(u32, u32)>,
        events: &[&[Event]],
    ) {
        args.text("operation", event.op.label());
        if let Some(comm) = event.comm {
            args.text("communicator", &comm_id(comm));
        }
        if let Some(bytes) = event.bytes {
            args.int("bytes", bytes);
        }
        if event.members > 1 {
            args.int("calls", event.members as u64);
        }
        let Some((at, position)) = matched else {
            args.json("matched", "false");
            return;
        };
        let one = &self.run.across.measured[at as usize];
        args.int("collective", at).int("ranks_here", one.found.members.len() as u64);
        match one.timing.transfer {
            Ok(ns) => args.int("transfer_ns", ns),
            Err(why) => args.text("not_timed", why.label()),
        };
        if let Some((algbw, busbw)) = groups::bandwidths(one, events) {
            args.number("algbw_gbs", algbw).number("busbw_gbs", busbw);
        }
        if let Some(&wait) = one.timing.wait_ns.get(position as usize) {
            args.int("wait_ns", wait);
        }
        if let Some(rank) = self.last_rank(at) {
            args.int("last_rank", rank);
        }
    }

    /// The rank that arrived last in a collective, where that is certain.
    fn last_rank(&self, found: u32) -> Option<u32> {
        let one = &self.run.across.measured[found as usize];
        let last = one.found.members.get(one.timing.last?)?;
        Some(self.run.ranks[last.rank.0].trace.rank)
    }

    /// An arrow from the call that launched an operation.
    fn launch(&mut self, calls: &[u32], op: usize, to: Track, start: Ns) -> io::Result<()> {
        let trace = &self.rank.trace;
        let Some(host) = trace.host.as_deref() else { return Ok(()) };
        let Some(call) = launching_call(host, &trace.ops, op) else {
            self.writer.counts.launches_without_call += 1;
            return Ok(());
        };
        let Some(&tid) = calls.get(call).filter(|&&tid| tid != 0) else { return Ok(()) };
        let from = self.times.at(self.at, host.calls.start[call]);
        if from > start {
            self.writer.counts.launches_backwards += 1;
            return Ok(());
        }
        let id = self.writer.new_flow();
        self.writer.flow(Track { pid: self.pid, tid }, "launch", id, Flow::Start, from)?;
        self.writer.flow(to, "launch", id, Flow::End, start)
    }

    fn waits(&mut self, own_events: &[Event], matched: &[Option<(u32, u32)>]) -> io::Result<()> {
        for (event, matched) in own_events.iter().zip(matched) {
            let Some((at, position)) = *matched else { continue };
            let one = &self.run.across.measured[at as usize];
            let Some(&own) = one.waits.get(position as usize).filter(|wait| !wait.is_empty())
            else {
                continue;
            };
            if !self.is_wanted(Span::new(event.start, event.end)) || !self.is_long(own) {
                continue;
            }
            let mut args = Args::default();
            self.with_step(&mut args, own.start);
            args.text("operation", event.op.label()).int("collective", at);
            if let Some(comm) = event.comm {
                args.text("communicator", &comm_id(comm));
            }
            let name = match self.last_rank(at) {
                Some(rank) => {
                    args.int("last_rank", rank);
                    format!("wait for rank {rank}")
                }
                None => "wait".to_owned(),
            };
            let span = self.times.span(self.at, own);
            self.draw(Lane::Waits, span, &quoted(&name), &args)?;
        }
        Ok(())
    }

    fn channels(&mut self, list: &[&ChannelLane]) -> io::Result<()> {
        for channel in list {
            let own = Span::new(channel.start_ns, channel.end_ns);
            if !self.is_wanted(own) || !self.is_long(own) {
                continue;
            }
            let mut args = Args::default();
            self.with_step(&mut args, own.start);
            let span = self.times.span(self.at, own);
            let name = quoted(&shown(&channel.name));
            self.draw(Lane::Channel(channel.channel), span, &name, &args)?;
        }
        Ok(())
    }

    fn samples(&mut self, list: &[&Sample]) -> io::Result<()> {
        for sample in list {
            if self.is_wanted(Span::new(sample.time_ns, sample.time_ns)) {
                let at = self.times.at(self.at, sample.time_ns);
                self.writer.sample(self.pid, &quoted(&shown(&sample.name())), at, sample.value)?;
            }
        }
        Ok(())
    }

    fn counters(&mut self) -> io::Result<()> {
        let ops = &self.rank.trace.ops;
        let mut active = Active::<{ COUNTERS.len() }>::default();
        for op in 0..ops.len() {
            let own = ops.span(op);
            if !self.is_wanted(own) {
                continue;
            }
            let kind = match ops.class[op] {
                Class::Compute => 0,
                class if class.is_comm() => 1,
                Class::Unclassified => 3,
                _ => 2,
            };
            let span = self.times.span(self.at, own);
            let (pid, writer) = (self.pid, &mut *self.writer);
            active.begin(kind, span, |kind, at, n| writer.counter(pid, COUNTERS[kind], at, n))?;
        }
        let (pid, writer) = (self.pid, &mut *self.writer);
        active.finish(|kind, at, n| writer.counter(pid, COUNTERS[kind], at, n))
    }
}

fn lane(ops: &Ops, op: usize, event: Option<&Event>) -> Lane {
    let stream = ops.stream[op];
    match ops.class[op] {
        Class::Compute => Lane::Compute(stream),
        Class::Unclassified => Lane::Unknown(stream),
        class if class.is_comm() => match event.and_then(|event| event.comm) {
            Some(comm) => Lane::Communicator(comm),
            None => Lane::CommOnStream(stream),
        },
        _ => Lane::Copies(stream),
    }
}

/// A communicator's id as reports print it.
fn comm_id(comm: u64) -> String {
    format!("0x{comm:016x}")
}

/// A thread's number inside its process.
fn tid(thread: u64) -> u32 {
    (thread & 0xff_ffff) as u32
}

/// The host call that launched an operation.
fn launching_call(host: &Host, ops: &Ops, op: usize) -> Option<usize> {
    let (launch, correlation) = (ops.launch[op], *ops.correlation.get(op)?);
    if launch == NO_LAUNCH {
        return None;
    }
    let calls = &host.calls;
    let first = calls.start.partition_point(|&start| start < launch);
    // Calls of many threads may start at one time; a bound keeps a hostile file from making this quadratic.
    (first..calls.len())
        .take_while(|&i| calls.start[i] == launch)
        .take(64)
        .find(|&i| calls.correlation[i] == correlation)
}

/// True if the host waits in the call with this correlation id.
fn waits(host: &Host, correlation: i64) -> bool {
    let first = host.syncs.partition_point(|sync| sync.correlation < correlation);
    host.syncs[first..]
        .iter()
        .take_while(|sync| sync.correlation == correlation)
        .take(64)
        .any(|sync| sync.kind != SyncKind::StreamWait)
}
