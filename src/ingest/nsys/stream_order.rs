//! Records that contradict the order of their stream: what a stream runs, it runs one after the other.

use crate::model::Ops;

/// Cuts operations off where the next one of their stream starts, if they reach past its end by more than its whole
/// length: then their end was recorded wrongly. Small overlaps are real (dependent launches) and stay.
/// `any_order` names streams in which operations of a CUDA graph ran: its branches run at once under one stream's
/// number. Operations are sorted by start. Returns the operations that were cut, in order.
///
/// ```text
/// as recorded   A |=====================================...    A is cut where B starts
/// same stream   B             |===|
/// after         A |===========|
/// ```
pub fn cut_overruns(ops: &mut Ops, any_order: impl Fn(u32) -> bool) -> Vec<usize> {
    let streams = ops.stream.iter().max().map_or(0, |&last| last as usize + 1);
    let mut previous: Vec<Option<usize>> = vec![None; streams];
    let mut cut = Vec::new();
    for i in 0..ops.len() {
        let next = ops.span(i);
        // What has no length says nothing about what ran beside it.
        if next.is_empty() || any_order(ops.stream[i]) {
            continue;
        }
        let Some(before) = previous.get_mut(ops.stream[i] as usize) else { continue };
        if let Some(before) = before.replace(i)
            && ops.end[before].saturating_sub(next.end) > next.len()
        {
            ops.end[before] = next.start;
            cut.push(before);
        }
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::op::{NO_CALL, NO_LAUNCH};
    use crate::model::{Class, NameId, Ns};

    fn ops(rows: &[(Ns, Ns, u32)]) -> Ops {
        let mut ops = Ops::default();
        for &(start, end, stream) in rows {
            ops.start.push(start);
            ops.end.push(end);
            ops.stream.push(stream);
            ops.class.push(Class::Compute);
            ops.name.push(NameId(0));
            ops.bytes.push(0);
            ops.launch.push(NO_LAUNCH);
            ops.call.push(NO_CALL);
        }
        ops
    }

    // stream 7   A 0...........................9000     B 10..20  C 30..40
    // stream 8   D 5..................................................9000 (alone: nothing contradicts it)
    #[test]
    fn what_runs_far_over_the_next_of_its_stream_is_cut_there() {
        let mut ops = ops(&[(0, 9000, 0), (5, 9000, 1), (10, 20, 0), (30, 40, 0)]);
        assert_eq!(cut_overruns(&mut ops, |_| false), [0]);
        assert_eq!(ops.end, [10, 9000, 20, 40]);
    }

    // A 0......100     the next one starts early and ends later, a dependent launch: both are real
    // B     98....150
    // C              149..152 is passed by 0 to 2: less than its length
    #[test]
    fn small_overlaps_stay() {
        let mut ops = ops(&[(0, 100, 0), (98, 150, 0), (147, 151, 0), (149, 152, 0)]);
        assert!(cut_overruns(&mut ops, |_| false).is_empty());
    }

    #[test]
    fn branches_of_a_graph_and_records_without_length_cut_nothing() {
        let mut branches = ops(&[(0, 100, 0), (10, 12, 0)]);
        assert!(cut_overruns(&mut branches, |stream| stream == 0).is_empty());
        let mut empty = ops(&[(0, 100, 0), (10, 10, 0), (100, 120, 0)]);
        assert!(cut_overruns(&mut empty, |_| false).is_empty());
    }
}
