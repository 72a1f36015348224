//! From traces to the graph: what each process did, in the order of its calls, and which ranks met.

use std::collections::BinaryHeap;

use foldhash::{HashMap, HashMapExt};

use super::across;
use super::deeds::{self, Deed, Deeds, Quick};
use super::events::Completions;
use super::graph::{Draft, Graph, Moment, Reason};
use super::latency::{self, Latency};
use super::layout::{Layout, Process};
use super::queue::{self, Launched};
use crate::collectives::analyse::Across;
use crate::collectives::events::Event;
use crate::model::host::{StreamKey, SyncKind};
use crate::model::{Class, Ns, RankTrace};

/// Calls of other threads during a thread's pause from which on it is said to have waited for them.
const HANDOFF: u64 = 8;

/// The graph and what its moments belong to.
#[derive(Debug)]
pub(crate) struct Built {
    /// The graph.
    pub graph: Graph,
    /// Where moments stand.
    pub layout: Layout,
    /// The kept calls of each process.
    pub deeds: Vec<Deeds>,
    /// Matched operations of each rank by their index, with what is known of their collective.
    pub met: Vec<HashMap<usize, across::Met>>,
    /// True if operations of one launch (a CUDA graph) are ordered by their times only.
    pub by_time: bool,
}

/// Builds the graph of a run. `events` are the communication of each rank.
pub(crate) fn build(
    traces: &[RankTrace],
    processes: &[Process<'_>],
    events: &[Vec<Event>],
    across: &Across,
) -> Built {
    let deeds: Vec<Deeds> = processes.iter().map(|p| deeds::deeds(p, traces)).collect();
    let layout = Layout::new(
        traces.iter().map(|trace| trace.ops.len()),
        deeds.iter().map(|deeds| deeds.kept.len()),
    );
    let mut draft = Draft { observed: vec![0; layout.moments()], edges: Vec::new() };
    observe(&mut draft, &layout, traces, processes, &deeds, across);
    let met = across::join(&mut draft, &layout, traces, events, across);
    for (r, trace) in traces.iter().enumerate() {
        for i in 0..trace.ops.len() {
            let reason = if met[r].contains_key(&i) { Reason::Within } else { Reason::Work };
            draft.edge(layout.op_start(r, i), layout.op_end(r, i), reason, 0);
        }
    }
    let mut by_time = false;
    for (p, process) in processes.iter().enumerate() {
        let mut walk = Walk::new(&mut draft, &layout, traces, process, &deeds[p], p);
        walk.run();
        walk.queues();
        by_time |= walk.by_time;
    }
    let graph = Graph::new(draft.observed, &draft.edges);
    Built { graph, layout, deeds, met, by_time }
}

/// Sets the times of operations and calls. All ranks of a process go by the clock of the first.
fn observe(
    draft: &mut Draft,
    layout: &Layout,
    traces: &[RankTrace],
    processes: &[Process<'_>],
    deeds: &[Deeds],
    across: &Across,
) {
    for (p, process) in processes.iter().enumerate() {
        let Some(clock) = process.ranks.first().and_then(|&rank| across.clocks.get(rank)) else {
            continue;
        };
        let mut set = |moment: Moment, at: Ns| draft.observed[moment as usize] = clock.common(at);
        for &rank in &process.ranks {
            let ops = &traces[rank].ops;
            for i in 0..ops.len() {
                set(layout.op_start(rank, i), ops.start[i]);
                set(layout.op_end(rank, i), ops.end[i]);
            }
        }
        for (k, kept) in deeds[p].kept.iter().enumerate() {
            set(layout.call_start(p, k), process.host.calls.start[kept.call]);
            set(layout.call_return(p, k), process.host.calls.end[kept.call]);
        }
    }
}

/// What a thread did last.
#[derive(Debug, Clone, Copy)]
struct Last {
    /// Position of its last call among the kept ones.
    call: usize,
    /// Calls of all threads up to and with that one.
    made: u64,
}

/// One walk over the calls of a process in the order in which they started.
struct Walk<'a, 'd> {
    draft: &'d mut Draft,
    layout: &'a Layout,
    traces: &'a [RankTrace],
    process: &'a Process<'a>,
    deeds: &'a Deeds,
    /// Index of the process.
    p: usize,
    quick: Quick,
    latency: HashMap<usize, Latency>,
    threads: Vec<Option<Last>>,
    /// What each stream holds last: what is launched next starts after it.
    tails: HashMap<StreamKey, (Moment, Reason)>,
    completions: Completions,
    /// Launches into each stream: operation's rank, index, and position of the call.
    launched: HashMap<StreamKey, Vec<(usize, usize, usize)>>,
    by_time: bool,
}

impl<'a, 'd> Walk<'a, 'd> {
    fn new(
        draft: &'d mut Draft,
        layout: &'a Layout,
        traces: &'a [RankTrace],
        process: &'a Process<'a>,
        deeds: &'a Deeds,
        p: usize,
    ) -> Self {
        let host = process.host;
        let latency =
            process.ranks.iter().map(|&rank| (rank, latency::learn(&traces[rank].ops))).collect();
        Walk {
            draft,
            layout,
            traces,
            process,
            deeds,
            p,
            quick: Quick::learn(deeds, host),
            latency,
            threads: vec![None; host.threads.len()],
            tails: HashMap::new(),
            completions: Completions::new(host),
            launched: HashMap::new(),
            by_time: false,
        }
    }

    fn run(&mut self) {
        let calls = &self.process.host.calls;
        let mut unlaunched = self.deeds.unlaunched.iter().peekable();
        for (k, kept) in self.deeds.kept.iter().enumerate() {
            let start = calls.start[kept.call];
            while let Some(&&(_, rank, op)) = unlaunched.peek().filter(|(by, ..)| *by <= start) {
                self.operation(rank, op);
                unlaunched.next();
            }
            self.thread(k, kept.call);
            self.call(k);
        }
        for &(_, rank, op) in unlaunched {
            self.operation(rank, op);
        }
    }

    /// After the thread's call before, and after other threads where this one paused while they worked.
    fn thread(&mut self, k: usize, call: usize) {
        let calls = &self.process.host.calls;
        let thread = calls.thread[call] as usize;
        let start = self.layout.call_start(self.p, k);
        let made = k as u64;
        let last = self.threads[thread];
        if let Some(last) = last {
            let returned = self.layout.call_return(self.p, last.call);
            self.draft.edge(returned, start, Reason::HostOrder, 0);
        }
        if last.is_none_or(|last| made - last.made >= HANDOFF) {
            // Of the other threads the one that returned last before this call.
            let returned = |last: &Last| calls.end[self.deeds.kept[last.call].call];
            let others = self.threads.iter().enumerate().filter(|(t, _)| *t != thread);
            let before = others
                .filter_map(|(_, last)| last.filter(|l| returned(l) <= calls.start[call]))
                .max_by_key(|last| (returned(last), last.call));
            if let Some(before) = before {
                let returned = self.layout.call_return(self.p, before.call);
                self.draft.edge(returned, start, Reason::Handoff, 0);
            }
        }
        self.threads[thread] = Some(Last { call: k, made: made + 1 });
    }

    /// What one call does, and how it returns.
    fn call(&mut self, k: usize) {
        let host = self.process.host;
        let kept = self.deeds.kept[k];
        let (start, returned) =
            (self.layout.call_start(self.p, k), self.layout.call_return(self.p, k));
        let mut waits = Vec::new();
        let mut own: BinaryHeap<std::cmp::Reverse<(Ns, Moment)>> = BinaryHeap::new();
        let several =
            self.deeds.of(&kept).iter().filter(|deed| matches!(deed, Deed::Op(..))).count() > 1;
        let mut ended = None;
        for deed in self.deeds.of(&kept) {
            match *deed {
                Deed::Op(rank, op) => {
                    let ops = &self.traces[rank].ops;
                    let at = self.layout.op_start(rank, op);
                    let latency = self.latency[&rank];
                    self.draft.edge(start, at, Reason::Launch, latency.launch);
                    if several {
                        // The order inside a CUDA graph is not in the trace: what ended last before it is taken.
                        self.by_time = true;
                        while let Some(&std::cmp::Reverse((end, moment))) = own.peek() {
                            if end > ops.start[op] {
                                break;
                            }
                            ended = Some(moment);
                            own.pop();
                        }
                        if let Some(ended) = ended {
                            self.draft.edge(ended, at, Reason::Stream, latency.stream);
                        }
                        own.push(std::cmp::Reverse((ops.end[op], self.layout.op_end(rank, op))));
                    }
                    self.operation(rank, op);
                    let key = self.stream(rank, op);
                    self.launched.entry(key).or_default().push((rank, op, k));
                    // A copy that is done when its call returns was waited for.
                    if matches!(ops.class[op], Class::Htod | Class::Dtoh)
                        && ops.end[op] <= host.calls.end[kept.call]
                    {
                        waits.push(self.layout.op_end(rank, op));
                    }
                }
                Deed::Record(i) => {
                    let record = host.records[i];
                    let mut after = vec![(start, Reason::Record)];
                    let tail = self.tails.get(&record.stream);
                    after.extend(tail.map(|&(tail, _)| (tail, Reason::Stream)));
                    let mark = self.draft.mark(&after);
                    self.completions.record(&record, mark);
                }
                Deed::Sync(i) => {
                    let sync = host.syncs[i];
                    match sync.kind {
                        SyncKind::Event => waits.extend(self.completions.of(&sync)),
                        SyncKind::Stream => {
                            waits.extend(self.tails.get(&sync.stream).map(|&(tail, _)| tail));
                        }
                        SyncKind::Context => {
                            let context =
                                self.tails.iter().filter(|((c, _), _)| *c == sync.stream.0);
                            waits.extend(context.map(|(_, &(tail, _))| tail));
                        }
                        SyncKind::StreamWait => self.stream_wait(sync.stream, i),
                    }
                }
            }
        }
        // A call that waits takes what it waits for, and next to nothing where that is done.
        let takes = if waits.is_empty() { self.quick.of(host, kept.call) } else { 0 };
        self.draft.edge(start, returned, Reason::Call, takes);
        waits.sort_unstable();
        waits.dedup();
        for wait in waits {
            self.draft.edge(wait, returned, Reason::Sync, 0);
        }
    }

    fn stream(&self, rank: usize, op: usize) -> StreamKey {
        let ops = &self.traces[rank].ops;
        ops.streams.get(ops.stream[op] as usize).copied().unwrap_or((-1, i64::from(ops.stream[op])))
    }

    /// An operation comes after what its stream holds.
    fn operation(&mut self, rank: usize, op: usize) {
        let key = self.stream(rank, op);
        let end = self.layout.op_end(rank, op);
        if let Some((tail, reason)) = self.tails.insert(key, (end, Reason::Stream)) {
            let latency = self.latency[&rank].stream;
            self.draft.edge(tail, self.layout.op_start(rank, op), reason, latency);
        }
    }

    /// What is launched on the stream from now on starts after the event, too.
    fn stream_wait(&mut self, stream: StreamKey, sync: usize) {
        let Some(event) = self.completions.of(&self.process.host.syncs[sync]) else { return };
        let mut after = vec![(event, Reason::Wait)];
        after.extend(self.tails.get(&stream).map(|&(tail, _)| (tail, Reason::Stream)));
        let mark = self.draft.mark(&after);
        self.tails.insert(stream, (mark, Reason::Wait));
    }

    /// Where a stream's queue is seen full, each launch returns after the operation has started that makes room for it.
    fn queues(&mut self) {
        let host = self.process.host;
        let mut streams: Vec<_> = std::mem::take(&mut self.launched).into_iter().collect();
        streams.sort_unstable_by_key(|(key, _)| *key);
        for (_, list) in streams {
            let launches: Vec<Launched> = list
                .iter()
                .map(|&(rank, op, k)| {
                    let call = self.deeds.kept[k].call;
                    let (start, returned) = (host.calls.start[call], host.calls.end[call]);
                    Launched {
                        op_start: self.traces[rank].ops.start[op],
                        returned,
                        took: returned.saturating_sub(start),
                        quick: self.quick.of(host, call),
                    }
                })
                .collect();
            let Some(depth) = queue::depth(&launches) else { continue };
            for (room, launch) in list.iter().zip(list.iter().skip(depth + 1)) {
                self.draft.edge(
                    self.layout.op_start(room.0, room.1),
                    self.layout.call_return(self.p, launch.2),
                    Reason::Queue,
                    0,
                );
            }
        }
    }
}
