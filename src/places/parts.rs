//! The time of a window, each nanosecond counted to one operation.

use crate::model::{Class, Ns, Ops, Span};
use crate::timeline::SpanSet;

/// What a stretch of time is, as in the identity of a step (metrics definition, section 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) enum Part {
    Compute,
    Comm,
    Copy,
    Unclassified,
    Idle,
}

impl Part {
    /// What an operation of this class is.
    pub(crate) fn of(class: Class) -> Part {
        match class {
            Class::Compute => Part::Compute,
            Class::Comm | Class::Ptop => Part::Comm,
            Class::Unclassified => Part::Unclassified,
            _ => Part::Copy,
        }
    }
}

/// A stretch of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// When.
    pub span: Span,
    /// What it is.
    pub part: Part,
    /// The operation that it is counted to; of idle time the one that ends it, `None` where that lies outside the window.
    pub op: Option<usize>,
}

/// The pieces of a window. `inside` are the operations that touch it in order of their start. Of operations of one part that run
/// at once, the one that started first has the time.
pub(crate) fn pieces(ops: &Ops, window: Span, inside: &[u32]) -> Vec<Piece> {
    let mut list = Vec::new();
    let mut above = SpanSet::new();
    for part in [Part::Compute, Part::Comm, Part::Copy, Part::Unclassified] {
        let mut set = SpanSet::new();
        let mut until = window.start;
        for &op in inside.iter().filter(|&&op| Part::of(ops.class[op as usize]) == part) {
            let span = ops.span(op as usize).clip(window);
            let free = Span::new(span.start.max(until), span.end);
            if free.is_empty() {
                continue;
            }
            until = free.end;
            set.push(free);
            let push = |span| list.push(Piece { span, part, op: Some(op as usize) });
            outside(free, above.spans(), push);
        }
        above = above.union(&set);
    }
    let idle = |span: Span| {
        let at = inside.partition_point(|&op| ops.start[op as usize] < span.end);
        let next = inside.get(at).map(|&op| op as usize);
        let op = next.filter(|&op| ops.start[op] == span.end && span.end < window.end);
        list.push(Piece { span, part: Part::Idle, op });
    };
    outside(window, above.spans(), idle);
    list
}

/// The parts of a span outside of spans that are in order.
fn outside(span: Span, spans: &[Span], mut f: impl FnMut(Span)) {
    let first = spans.partition_point(|other| other.end <= span.start);
    let mut at: Ns = span.start;
    for other in spans[first..].iter().take_while(|other| other.start < span.end) {
        if other.start > at {
            f(Span::new(at, other.start));
        }
        at = other.end;
    }
    if at < span.end {
        f(Span::new(at, span.end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::testing::ops;

    //            0    5   10   15   20   25   30
    // compute    [ 0  0  0  )
    // comm            [ 1  1  1  1)
    // comm                    [ 2  2  2  )
    // copy                                   [3)      window 0..32
    // parts      |compute     |comm 1 |c2|idle|cp|idle
    #[test]
    fn every_nanosecond_counts_once() {
        let ops = ops(&[
            (0, 12, Class::Compute, 0, 0),
            (5, 20, Class::Comm, 1, 0),
            (15, 25, Class::Ptop, 2, 0),
            (28, 30, Class::Htod, 3, 0),
        ]);
        let window = Span::new(0, 32);
        let found = pieces(&ops, window, &[0, 1, 2, 3]);
        let piece = |start, end, part, op| Piece { span: Span::new(start, end), part, op };
        let expected = [
            piece(0, 12, Part::Compute, Some(0)),
            piece(12, 20, Part::Comm, Some(1)),
            piece(20, 25, Part::Comm, Some(2)),
            piece(28, 30, Part::Copy, Some(3)),
            piece(25, 28, Part::Idle, Some(3)),
            piece(30, 32, Part::Idle, None),
        ];
        assert_eq!(found, expected);
        assert_eq!(found.iter().map(|piece| piece.span.len()).sum::<Ns>(), window.len());
    }
}
