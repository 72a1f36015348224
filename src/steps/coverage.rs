//! How much of a rank's GPU work lies inside windows.

use crate::model::{Ops, Span};
use crate::timeline::SpanSet;

/// GPU operation time, ns: sums of durations, so that two operations at once count twice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Inside the windows.
    pub inside: i128,
    /// In all.
    pub all: i128,
}

impl Coverage {
    /// Of the operations of one rank, those that start before `until`.
    pub fn of(ops: &Ops, windows: &[Span], until: Option<i64>) -> Coverage {
        let windows = SpanSet::from_unsorted(windows.to_vec());
        let mut coverage = Coverage::default();
        for i in (0..ops.len()).filter(|&i| until.is_none_or(|until| ops.start[i] < until)) {
            let span = ops.span(i);
            coverage.all += i128::from(span.len());
            coverage.inside += i128::from(windows.measure_in(span));
        }
        coverage
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Coverage) -> Coverage {
        Coverage { inside: self.inside + other.inside, all: self.all + other.all }
    }

    /// Inside as a share of all, 0 to 1; `None` where nothing ran.
    pub fn share(self) -> Option<f64> {
        (self.all > 0).then(|| self.inside as f64 / self.all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Class;
    use crate::model::testing::ops;

    // stream 1 | a [0,100) |      | c [200,300) |
    // stream 2   | b [50,150) |
    // window      [60, 250)                        a 40 + b 90 + c 50 of 300
    #[test]
    fn operations_are_clipped_to_the_windows() {
        let ops = ops(&[
            (0, 100, Class::Compute, 1, 0),
            (50, 150, Class::Comm, 2, 0),
            (200, 300, Class::Compute, 1, 0),
        ]);
        let coverage = Coverage::of(&ops, &[Span::new(60, 250)], None);
        assert_eq!((coverage.inside, coverage.all), (180, 300));
        assert_eq!(Coverage::of(&ops, &[Span::new(60, 250)], Some(200)).all, 200);
        assert_eq!(Coverage::default().share(), None);
    }
}
