//! Where the steps of the run begin and end in the graph.

use super::graph::Moment;
use super::layout::Layout;
use crate::model::{Ns, Ops, Span};
use crate::stats;

/// One step of the run as it was measured.
#[derive(Debug, Clone)]
pub(crate) struct RunSpan {
    /// Position among the run's steps.
    pub index: usize,
    /// In the summaries.
    pub counted: bool,
    /// Its time, ns: that of the slowest rank.
    pub step_ns: Ns,
    /// Index of that rank.
    pub slowest: usize,
    /// Its window on each rank, in the report's own time.
    pub windows: Vec<Span>,
}

/// The edge of a window: so long after a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bound {
    /// The moment.
    pub moment: Moment,
    /// What passes after it, ns; 0 where the window begins or ends with the moment.
    pub offset: Ns,
}

impl Bound {
    /// When it is.
    pub(crate) fn at(self, times: &[Ns]) -> Ns {
        times[self.moment as usize].saturating_add(self.offset)
    }
}

/// Begin and end of each step on each rank.
#[derive(Debug, Default)]
pub(crate) struct Bounds {
    of: Vec<Vec<[Bound; 2]>>,
}

impl Bounds {
    /// Finds them.
    pub(crate) fn new(steps: &[RunSpan], ops: &[&Ops], layout: &Layout) -> Bounds {
        let by_end: Vec<Vec<(Ns, u32)>> = ops
            .iter()
            .map(|ops| {
                let mut ends: Vec<(Ns, u32)> = ops.end.iter().copied().zip(0..).collect();
                ends.sort_unstable();
                ends
            })
            .collect();
        let of_rank = |r: usize, window: &Span| {
            [window.start, window.end].map(|at| bound(at, r, ops[r], &by_end[r], layout))
        };
        let of_step = |step: &RunSpan| {
            step.windows.iter().enumerate().map(|(r, window)| of_rank(r, window)).collect()
        };
        Bounds { of: steps.iter().map(of_step).collect() }
    }

    /// Begin and end of a step on a rank.
    pub(crate) fn get(&self, step: usize, rank: usize) -> [Bound; 2] {
        self.of[step][rank]
    }

    /// The time of each step: that of its slowest rank.
    pub(crate) fn step_times(&self, times: &[Ns]) -> Vec<Ns> {
        let of_rank = |[begin, end]: &[Bound; 2]| end.at(times).saturating_sub(begin.at(times));
        self.of.iter().map(|ranks| ranks.iter().map(of_rank).max().unwrap_or(0)).collect()
    }
}

/// The start of an operation at that very time, else the end of one, else what came last before.
fn bound(at: Ns, rank: usize, ops: &Ops, by_end: &[(Ns, u32)], layout: &Layout) -> Bound {
    let first = ops.start.partition_point(|&start| start < at);
    if ops.start.get(first) == Some(&at) {
        return Bound { moment: layout.op_start(rank, first), offset: 0 };
    }
    let ended = by_end.partition_point(|&(end, _)| end <= at).checked_sub(1).map(|i| by_end[i]);
    let started = first.checked_sub(1).map(|i| (ops.start[i], i));
    match (ended, started) {
        (Some((end, op)), started) if started.is_none_or(|(start, _)| start <= end) => {
            Bound { moment: layout.op_end(rank, op as usize), offset: at.saturating_sub(end) }
        }
        (_, Some((start, op))) => {
            Bound { moment: layout.op_start(rank, op), offset: at.saturating_sub(start) }
        }
        _ => Bound {
            moment: layout.op_start(rank, 0),
            offset: at.saturating_sub(ops.start.first().copied().unwrap_or(at)),
        },
    }
}

/// Median over the steps that count, ns.
pub(crate) fn median(steps: &[RunSpan], times: &[Ns]) -> Option<Ns> {
    let counted: Vec<Ns> =
        steps.iter().zip(times).filter(|(step, _)| step.counted).map(|(_, &ns)| ns).collect();
    stats::median_i64(&counted)
}
