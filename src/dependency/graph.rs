//! Moments of a run and what each of them comes after.
//!
//! A GPU operation has two moments (start, end), so has a host call (start, return); event records, stream waits and the
//! arrival of ranks in a collective have one. An edge says which moment comes after which, why, and by how long at least.
//!
//! ```text
//! host    [launch k1][launch k2]......[launch k3]
//!             |           '--launch--.      |
//!             '--launch--.            v     '--launch--.
//! stream                 [k1]--stream-[k2]              [k3]
//! ```
//!
//! Of the edges of a moment one is its **cause**: the one that was satisfied last. It carries all the time that passed until the
//! moment came; the others carry what such an edge takes at least (a launch, a gap between kernels). So a replay
//! without changes gives every moment back, and where a change removes the cause, what was late because of it is late no more.

use crate::model::Ns;

/// Index of a moment.
pub(crate) type Moment = u32;

/// No edge.
pub(crate) const NONE: u32 = u32::MAX;

/// The weight of an edge that a scenario takes away.
pub(crate) const NEVER: Ns = Ns::MIN;

/// Why a moment comes after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(crate) enum Reason {
    /// An operation ends after its start by what it takes.
    Work,
    /// An operation starts after the call that launches it.
    Launch,
    /// An operation starts after what its stream held before.
    Stream,
    /// What a stream waits for: an event's record.
    Wait,
    /// An event is recorded after the call that records it.
    Record,
    /// A thread makes its next call after it returned from the one before.
    HostOrder,
    /// A thread goes on after another one, which worked while it paused.
    Handoff,
    /// A call returns after its start by what it takes.
    Call,
    /// A call returns after what it waits for.
    Sync,
    /// A launch returns after there is room in the stream's queue.
    Queue,
    /// All have arrived in a collective after each of them.
    Arrival,
    /// A rank leaves a collective after all have arrived, by the transfer.
    Transfer,
    /// A rank leaves a collective after its own start.
    Within,
    /// Left out: the capture contradicts itself here (a circle).
    Cut,
}

impl Reason {
    /// True for what an operation's start waits for.
    pub(crate) fn delays_an_operation(self) -> bool {
        matches!(self, Reason::Launch | Reason::Stream | Reason::Wait)
    }
}

/// One edge while the graph is built.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edge {
    /// What comes after.
    pub to: Moment,
    /// What comes before.
    pub from: Moment,
    /// Why.
    pub reason: Reason,
    /// What such an edge takes at least, ns.
    pub latency: Ns,
}

/// Edges and observed times while they are gathered.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// Time of each moment on the common clock.
    pub observed: Vec<Ns>,
    /// Edges in any order.
    pub edges: Vec<Edge>,
}

impl Draft {
    /// Adds an edge.
    pub(crate) fn edge(&mut self, from: Moment, to: Moment, reason: Reason, latency: Ns) {
        self.edges.push(Edge { to, from, reason, latency });
    }

    /// Adds a moment that is as late as the latest of these.
    pub(crate) fn mark(&mut self, after: &[(Moment, Reason)]) -> Moment {
        let mark = self.observed.len() as Moment;
        let times = after.iter().map(|(from, _)| self.observed[*from as usize]);
        self.observed.push(times.max().unwrap_or(0));
        after.iter().for_each(|&(from, reason)| self.edge(from, mark, reason, 0));
        mark
    }
}

/// The graph of a run.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    /// When each moment was, ns on the ranks' common clock.
    pub observed: Vec<Ns>,
    /// Edges of moment `m` are `first[m]..first[m + 1]`.
    first: Vec<u32>,
    /// Where each edge comes from.
    pub from: Vec<Moment>,
    /// Why.
    pub reason: Vec<Reason>,
    /// By how long at least, ns; negative where the capture shows the later moment earlier.
    pub weight: Vec<Ns>,
    /// The edge that was satisfied last, or [`NONE`].
    pub cause: Vec<u32>,
    /// Where an operation started later after its cause than such an edge explains: by how much, ns.
    pub lag: Vec<Ns>,
    /// Moments so that each comes after what it depends on.
    pub order: Vec<Moment>,
    /// Edges whose source is later than their target in the capture.
    pub violated: u64,
}

impl Graph {
    /// Orders moments and edges, and finds the cause of each moment.
    pub(crate) fn new(observed: Vec<Ns>, edges: &[Edge]) -> Graph {
        let n = observed.len();
        let mut first = vec![0u32; n + 1];
        edges.iter().for_each(|edge| first[edge.to as usize + 1] += 1);
        for m in 0..n {
            first[m + 1] += first[m];
        }
        let mut next = first.clone();
        let mut graph = Graph {
            from: vec![0; edges.len()],
            reason: vec![Reason::Cut; edges.len()],
            weight: vec![0; edges.len()],
            ..Graph::default()
        };
        for edge in edges {
            let at = &mut next[edge.to as usize];
            let e = *at as usize;
            *at += 1;
            graph.from[e] = edge.from;
            graph.reason[e] = edge.reason;
            graph.weight[e] = edge.latency;
        }
        graph.observed = observed;
        graph.first = first;
        graph.order();
        graph.causes();
        graph
    }

    /// The edges into a moment.
    pub(crate) fn edges(&self, moment: Moment) -> std::ops::Range<usize> {
        let m = moment as usize;
        self.first[m] as usize..self.first[m + 1] as usize
    }

    /// The edges into a moment for this reason.
    pub(crate) fn edges_for(
        &self,
        moment: Moment,
        reason: Reason,
    ) -> impl Iterator<Item = usize> + '_ {
        self.edges(moment).filter(move |&e| self.reason[e] == reason)
    }

    /// The edge that was satisfied last.
    pub(crate) fn cause(&self, moment: Moment) -> Option<usize> {
        let cause = self.cause[moment as usize];
        (cause != NONE).then_some(cause as usize)
    }

    /// Depth first along the edges; an edge that closes a circle is cut.
    fn order(&mut self) {
        const NEW: u8 = 0;
        const OPEN: u8 = 1;
        const DONE: u8 = 2;
        let n = self.observed.len();
        let mut state = vec![NEW; n];
        let mut order = Vec::with_capacity(n);
        let mut stack: Vec<(Moment, usize)> = Vec::new();
        for start in 0..n as u32 {
            if state[start as usize] != NEW {
                continue;
            }
            state[start as usize] = OPEN;
            stack.push((start, self.edges(start).start));
            while let Some((moment, at)) = stack.last_mut() {
                let (m, e) = (*moment, *at);
                if e == self.edges(m).end {
                    state[m as usize] = DONE;
                    order.push(m);
                    stack.pop();
                    continue;
                }
                *at += 1;
                let from = self.from[e];
                match state[from as usize] {
                    NEW => {
                        state[from as usize] = OPEN;
                        stack.push((from, self.edges(from).start));
                    }
                    OPEN => {
                        self.reason[e] = Reason::Cut;
                        self.violated += 1;
                    }
                    _ => {}
                }
            }
        }
        self.order = order;
    }

    /// Of each moment's edges the one that was satisfied last; sets the weights of all.
    fn causes(&mut self) {
        let n = self.observed.len();
        self.cause = vec![NONE; n];
        self.lag = vec![0; n];
        for m in 0..n {
            let at = self.observed[m];
            let edges = self.edges(m as u32);
            let mut best: Option<(bool, Ns, usize)> = None;
            // A rank's own start is behind the arrival of all, whatever clocks say.
            let in_group = edges.clone().any(|e| self.reason[e] == Reason::Transfer);
            for e in edges.clone() {
                let after = self.observed[self.from[e] as usize];
                match self.reason[e] {
                    Reason::Cut => continue,
                    Reason::Arrival | Reason::Transfer => {}
                    _ => self.violated += u64::from(after > at),
                }
                if in_group && self.reason[e] == Reason::Within {
                    continue;
                }
                let rank = (after <= at, after.saturating_add(self.weight[e]), e);
                best = best.max(Some(rank));
            }
            for e in edges {
                if self.reason[e] == Reason::Cut {
                    self.weight[e] = NEVER;
                    continue;
                }
                let passed = at.saturating_sub(self.observed[self.from[e] as usize]);
                if best.is_some_and(|(_, _, cause)| cause == e) {
                    self.cause[m] = e as u32;
                    if self.reason[e].delays_an_operation() {
                        self.lag[m] = passed.saturating_sub(self.weight[e]).max(0);
                    }
                    self.weight[e] = passed;
                } else {
                    self.weight[e] = self.weight[e].min(passed);
                }
            }
        }
    }
}
