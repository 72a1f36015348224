//! One step of one rank as it ran, for pictures.

use serde::{Deserialize, Serialize};

use super::step_metrics::for_each_window;
use crate::model::{Class, Ns, RankTrace, Span};
use crate::timeline::SpanSet;

/// Spans of one lane, at most: beyond, gaps that no picture shows are closed.
const MOST_SPANS: usize = 2_000;

/// One step of one rank as it ran, for pictures. Spans are relative to the window's start, merged, sorted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Strip {
    /// Rank.
    pub rank: u32,
    /// Text of the step range.
    pub step: String,
    /// Length of the window.
    pub step_ns: Ns,
    /// Gaps shorter than this are closed, ns; 0 where all are there.
    pub resolution_ns: Ns,
    /// Compute kernels.
    pub compute: Vec<Span>,
    /// Communication.
    pub comm: Vec<Span>,
    /// Copies and memsets.
    pub copies: Vec<Span>,
    /// Graphs of unknown class.
    pub unclassified: Vec<Span>,
}

/// The work inside `window`, relative to its start, by lane.
pub(crate) fn strip(trace: &RankTrace, step: &str, window: Span) -> Strip {
    let mut lanes: [SpanSet; 4] = std::array::from_fn(|_| SpanSet::new());
    for_each_window(&trace.ops, &[Some(window)], |_, window, inside| {
        for &op in inside {
            let lane = match trace.ops.class[op as usize] {
                Class::Compute => 0,
                Class::Comm | Class::Ptop => 1,
                Class::Unclassified => 3,
                _ => 2,
            };
            let span = trace.ops.span(op as usize).clip(window);
            lanes[lane]
                .push(Span { start: span.start - window.start, end: span.end - window.start });
        }
    });
    let resolution_ns = resolution(&lanes, window.len());
    let [compute, comm, copies, unclassified] = lanes.map(|set| coarse(&set, resolution_ns));
    Strip {
        rank: trace.rank,
        step: step.to_owned(),
        step_ns: window.len(),
        resolution_ns,
        compute,
        comm,
        copies,
        unclassified,
    }
}

/// The least gap that is kept, so that no lane has too many spans: a power of two times a 16,384th of the step.
fn resolution(lanes: &[SpanSet; 4], step: Ns) -> Ns {
    if lanes.iter().all(|lane| lane.spans().len() <= MOST_SPANS) {
        return 0;
    }
    let mut least = (step / 16_384).max(1);
    while lanes.iter().any(|lane| coarse(lane, least).len() > MOST_SPANS) {
        least = least.saturating_mul(2);
    }
    least
}

/// The spans with gaps shorter than `least` closed.
fn coarse(lane: &SpanSet, least: Ns) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for &span in lane.spans() {
        match spans.last_mut() {
            Some(last) if span.start.saturating_sub(last.end) < least => last.end = span.end,
            _ => spans.push(span),
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::testing::ops;

    // 5,000 kernels of 100 ns, 100 ns apart, in a step of 1 ms: closed gaps leave at most 2,000 spans.
    #[test]
    fn a_crowded_lane_is_drawn_coarsely_and_says_so() {
        let rows: Vec<_> =
            (0..5_000).map(|i| (i * 200, i * 200 + 100, Class::Compute, 1, 0)).collect();
        let set = SpanSet::from_unsorted(
            ops(&rows).start.iter().map(|&s| Span::new(s, s + 100)).collect(),
        );
        let lanes = [set, SpanSet::new(), SpanSet::new(), SpanSet::new()];
        let least = resolution(&lanes, 1_000_000);
        assert!(least > 100 && coarse(&lanes[0], least).len() <= MOST_SPANS, "{least}");
        assert_eq!(coarse(&lanes[0], 0).len(), 5_000);
    }
}
