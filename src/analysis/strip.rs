//! One step of one rank as it ran, for pictures.

use super::step_metrics::for_each_window;
use crate::model::{Class, RankTrace, Span};
use crate::report::Strip;
use crate::timeline::SpanSet;

/// The work inside `window`, relative to its start, by lane.
pub fn strip(trace: &RankTrace, step: &str, window: Span) -> Strip {
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
    let [compute, comm, copies, unclassified] = lanes.map(|set| set.spans().to_vec());
    Strip {
        rank: trace.rank,
        step: step.to_owned(),
        step_ns: window.len(),
        compute,
        comm,
        copies,
        unclassified,
    }
}
