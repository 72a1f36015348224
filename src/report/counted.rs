//! What a run's counters are held against: the steps, operations, waits and messages of each rank.

use crate::collectives::events::Event;
use crate::counters::classes::{Message, RankWork, StepWindow};
use crate::model::counter::uuid_key;
use crate::model::{CommOp, Span};
use crate::run::{RankRun, Run, measure};
use crate::timeline::SpanSet;

/// One entry for each rank of the run, in its order.
pub fn work(run: &Run) -> Vec<RankWork<'_>> {
    let mut waits: Vec<Option<Vec<Span>>> = vec![None; run.ranks.len()];
    for one in &run.across.measured {
        for (member, wait) in one.found.members.iter().zip(&one.waits) {
            if let Some(list) = waits.get_mut(member.rank.0) {
                list.get_or_insert_default().push(*wait);
            }
        }
    }
    run.ranks.iter().zip(waits).map(|(rank, waits)| of_rank(run, rank, waits)).collect()
}

fn of_rank<'r>(run: &Run, rank: &'r RankRun, waits: Option<Vec<Span>>) -> RankWork<'r> {
    let RankRun { trace, measured } = rank;
    let windows = measure::windows(&measured.steps);
    let steps = measured.values.iter().zip(windows).map(|(step, window)| StepWindow {
        index: step.index,
        counted: step.counted,
        window,
    });
    let message = |event: &Event| Message {
        span: Span::new(event.start, event.end),
        bytes: bytes(event, run.across.communicators.size(event.comm)),
    };
    RankWork {
        rank: trace.rank,
        report: &trace.report,
        hostname: trace.hostname.as_deref(),
        gpu_index: trace.gpu_index,
        gpu_uuid: trace.gpu_uuid.as_deref().map(uuid_key),
        gpu: trace.gpu.as_deref(),
        epoch_ns: trace.epoch_ns,
        ops: &trace.ops,
        waits: waits.map(SpanSet::from_unsorted),
        steps: steps.collect(),
        messages: measured.events.iter().map(message).collect(),
    }
}

/// Bytes that a rank of `n` sends and receives at least; `None` where that depends on the rank or is not known. What all ranks do alike
/// moves `S x factor` of the bus bandwidth's definition over every rank's link, in each direction.
fn bytes(event: &Event, n: Option<u32>) -> Option<(f64, f64)> {
    if n == Some(1) {
        return Some((0.0, 0.0));
    }
    if event.op.leaves_together() {
        let moved = event.op.algorithm_bytes(event.bytes?, n?) * event.op.bus_factor(n?);
        return Some((moved, moved));
    }
    let point_to_point = matches!(event.op, CommOp::Send | CommOp::Recv | CommOp::SendRecv);
    if !point_to_point || event.partners.is_empty() {
        return None;
    }
    let sum = |sends: bool| -> Option<f64> {
        let own = event.partners.iter().filter(|partner| partner.sends == sends);
        own.map(|partner| partner.bytes.map(|bytes| bytes as f64)).sum()
    };
    sum(true).zip(sum(false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collectives::events::Partner;

    #[test]
    fn what_a_rank_sends_and_receives_by_operation() {
        let mut event = Event::new(CommOp::AllReduce, 0, 1);
        event.bytes = Some(1_000);
        // A ring of 4: 2 x 3/4 of the array.
        assert_eq!(bytes(&event, Some(4)), Some((1_500.0, 1_500.0)));
        event.op = CommOp::AllGather;
        assert_eq!(bytes(&event, Some(4)), Some((3_000.0, 3_000.0)), "the parts of three others");
        assert_eq!(bytes(&event, Some(1)), Some((0.0, 0.0)));
        assert_eq!(bytes(&event, None), None);
        event.op = CommOp::Broadcast;
        assert_eq!(bytes(&event, Some(4)), None, "depends on the place in the ring");
        event.op = CommOp::SendRecv;
        let partner = |sends, bytes| Partner { peer: 1, sends, bytes: Some(bytes) };
        event.partners = vec![partner(true, 10), partner(false, 7), partner(true, 5)];
        assert_eq!(bytes(&event, Some(4)), Some((15.0, 7.0)));
        event.partners[0].bytes = None;
        assert_eq!(bytes(&event, Some(4)), None);
    }
}
