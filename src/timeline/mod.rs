//! Algebra of time: sets of nanoseconds as sorted, disjoint, half-open spans.
//!
//! Two spans that only touch do not overlap; in a set they are stored as one.

use crate::model::{Ns, Span};

/// A set of nanoseconds. Its spans are sorted, disjoint, not empty and do not touch, by construction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpanSet(Vec<Span>);

impl SpanSet {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// The union of spans in any order.
    pub fn from_unsorted(mut spans: Vec<Span>) -> Self {
        spans.sort_unstable();
        let mut set = Self::new();
        for span in spans {
            set.push(span);
        }
        set
    }

    /// Adds a span that starts no earlier than every span before it did.
    pub fn push(&mut self, span: Span) {
        if span.is_empty() {
            return;
        }
        match self.0.last_mut() {
            Some(last) if span.start <= last.end => {
                debug_assert!(span.start >= last.start, "spans are pushed in order of their start");
                last.end = last.end.max(span.end);
            }
            _ => self.0.push(span),
        }
    }

    /// Removes all spans and keeps the memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The spans in order.
    pub fn spans(&self) -> &[Span] {
        &self.0
    }

    /// Length of the set in nanoseconds.
    pub fn measure(&self) -> Ns {
        self.0.iter().map(|s| s.len()).sum()
    }

    /// Length of the part inside `window`.
    pub fn measure_in(&self, window: Span) -> Ns {
        let first = self.0.partition_point(|span| span.end <= window.start);
        self.0[first..]
            .iter()
            .take_while(|span| span.start < window.end)
            .map(|span| span.clip(window).len())
            .sum()
    }

    /// Everything that is in either set.
    #[must_use]
    pub fn union(&self, other: &SpanSet) -> SpanSet {
        let (mut a, mut b) = (self.0.as_slice(), other.0.as_slice());
        let mut out = SpanSet(Vec::with_capacity(a.len() + b.len()));
        while let (Some(&x), Some(&y)) = (a.first(), b.first()) {
            if x.start <= y.start {
                out.push(x);
                a = &a[1..];
            } else {
                out.push(y);
                b = &b[1..];
            }
        }
        for &rest in a.iter().chain(b) {
            out.push(rest);
        }
        out
    }

    /// Everything that is in both sets.
    #[must_use]
    pub fn intersect(&self, other: &SpanSet) -> SpanSet {
        let mut out = SpanSet::new();
        self.for_each_common(other, |span| out.0.push(span));
        out
    }

    /// Length of what is in both sets, without building it.
    pub fn measure_common(&self, other: &SpanSet) -> Ns {
        let mut sum = 0;
        self.for_each_common(other, |span| sum += span.len());
        sum
    }

    /// Everything that is in this set and not in the other.
    #[must_use]
    pub fn subtract(&self, other: &SpanSet) -> SpanSet {
        let mut out = SpanSet::new();
        let mut holes = other.0.as_slice();
        for &span in &self.0 {
            let mut start = span.start;
            while let Some(&hole) = holes.first() {
                if hole.end <= start {
                    holes = &holes[1..];
                    continue;
                }
                if hole.start >= span.end {
                    break;
                }
                if hole.start > start {
                    out.0.push(Span::new(start, hole.start));
                }
                start = hole.end;
                if hole.end > span.end {
                    break;
                }
            }
            if start < span.end {
                out.0.push(Span::new(start, span.end));
            }
        }
        out
    }

    fn for_each_common(&self, other: &SpanSet, mut f: impl FnMut(Span)) {
        let (mut a, mut b) = (self.0.as_slice(), other.0.as_slice());
        while let (Some(&x), Some(&y)) = (a.first(), b.first()) {
            let common = Span { start: x.start.max(y.start), end: x.end.min(y.end) };
            if common.start < common.end {
                f(common);
            }
            if x.end <= y.end {
                a = &a[1..];
            } else {
                b = &b[1..];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(spans: &[(Ns, Ns)]) -> SpanSet {
        SpanSet::from_unsorted(spans.iter().map(|&(s, e)| Span::new(s, e)).collect())
    }

    // 0    5    10   15   20   25
    // |    [AAAAA)    [AAAAA)
    // |       [ window )        3 of the first, 2 of the second
    #[test]
    fn the_part_inside_a_window() {
        let a = set(&[(5, 10), (15, 20)]);
        assert_eq!(a.measure_in(Span::new(7, 17)), 5);
        assert_eq!(a.measure_in(Span::new(10, 15)), 0);
        assert_eq!(a.measure_in(Span::new(6, 7)), 1);
        assert_eq!(a.measure_in(Span::new(0, 99)), 10);
        assert_eq!(SpanSet::new().measure_in(Span::new(0, 99)), 0);
    }

    // 0    5    10   15   20
    // |    [AAAAA)          |
    // |         [BBBBB)     |   touches A: one span, no overlap
    // |       [CCCC)        |
    #[test]
    fn touching_spans_join_but_do_not_overlap() {
        let (a, b, c) = (set(&[(5, 10)]), set(&[(10, 15)]), set(&[(8, 12)]));
        assert_eq!(a.union(&b).spans(), &[Span::new(5, 15)]);
        assert_eq!(a.intersect(&b).measure(), 0);
        assert_eq!(a.intersect(&c).spans(), &[Span::new(8, 10)]);
        assert_eq!(a.subtract(&c).spans(), &[Span::new(5, 8)]);
        assert_eq!(c.subtract(&a).spans(), &[Span::new(10, 12)]);
    }

    // one long span, several holes, one of which covers its end
    #[test]
    fn subtract_cuts_holes_and_ends() {
        let long = set(&[(0, 100), (110, 120)]);
        let holes = set(&[(-5, 10), (20, 30), (90, 115)]);
        assert_eq!(
            long.subtract(&holes).spans(),
            &[Span::new(10, 20), Span::new(30, 90), Span::new(115, 120)]
        );
    }

    #[test]
    fn empty_spans_are_no_members() {
        assert!(set(&[(5, 5), (7, 3)]).spans().is_empty());
    }

    /// The same set as one bit a nanosecond: slow, and independent of the code above.
    fn bits(spans: &[(Ns, Ns)]) -> [bool; 64] {
        let mut bits = [false; 64];
        for &(start, end) in spans {
            for at in start..end {
                bits[at as usize] = true;
            }
        }
        bits
    }

    fn assert_same(set: &SpanSet, expected: [bool; 64]) {
        let mut got = [false; 64];
        for span in set.spans() {
            for at in span.start..span.end {
                got[at as usize] = true;
            }
        }
        assert_eq!(got, expected);
        assert_eq!(set.measure(), expected.iter().filter(|&&b| b).count() as Ns);
        assert!(
            set.spans().windows(2).all(|w| w[0].end < w[1].start),
            "sorted, disjoint, not touching"
        );
    }

    fn spans() -> impl Strategy<Value = Vec<(Ns, Ns)>> {
        prop::collection::vec((0i64..64, 0i64..64).prop_map(|(a, b)| (a.min(b), a.max(b))), 0..12)
    }

    proptest! {
        #[test]
        fn algebra_equals_a_bitmap(a in spans(), b in spans()) {
            let (x, y) = (bits(&a), bits(&b));
            let (s, t) = (set(&a), set(&b));
            assert_same(&s, x);
            assert_same(&s.union(&t), std::array::from_fn(|i| x[i] || y[i]));
            assert_same(&s.intersect(&t), std::array::from_fn(|i| x[i] && y[i]));
            assert_same(&s.subtract(&t), std::array::from_fn(|i| x[i] && !y[i]));
            prop_assert_eq!(s.measure_common(&t), s.intersect(&t).measure());
        }
    }
}
