//! Averages of a counter over sets of time: a sample that lies in several of them counts in each by the time that they share.

use crate::model::counter::Series;
use crate::model::{Ns, Span};
use crate::timeline::SpanSet;

/// A sum of values, each times the nanoseconds that it holds for.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Mean {
    /// Values times ns.
    pub sum: f64,
    /// Ns that samples cover.
    pub ns: Ns,
}

impl Mean {
    /// The average; `None` where no sample was.
    pub(crate) fn value(self) -> Option<f64> {
        (self.ns > 0).then(|| rounded(self.sum / self.ns as f64))
    }

    /// Adds another.
    pub(crate) fn add(&mut self, other: Mean) {
        self.sum += other.sum;
        self.ns = self.ns.saturating_add(other.ns);
    }
}

/// Nine digits behind the point: more is noise of floating-point sums.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1e9).round() / 1e9
}

/// A counter whose samples can be looked up by time.
#[derive(Debug)]
pub(crate) struct Timed {
    samples: Vec<(Span, f64)>,
}

impl Timed {
    /// The samples of a series, `shift` added to their times.
    pub(crate) fn new(series: &Series, shift: Ns) -> Self {
        let moved = |(start, end, value): (Ns, Ns, f64)| {
            (Span::new(start.saturating_add(shift), end.saturating_add(shift)), value)
        };
        Self { samples: series.samples().map(moved).filter(|(span, _)| !span.is_empty()).collect() }
    }

    /// The samples that share time with a span, whole.
    pub(crate) fn touching(&self, span: Span) -> impl Iterator<Item = &(Span, f64)> {
        let first = self.samples.partition_point(|(sample, _)| sample.end <= span.start);
        self.samples
            .get(first..)
            .unwrap_or_default()
            .iter()
            .take_while(move |(sample, _)| sample.start < span.end)
    }

    /// The average over a set.
    pub(crate) fn over(&self, set: &SpanSet) -> Mean {
        let mut mean = Mean::default();
        for &span in set.spans() {
            for (sample, value) in self.touching(span) {
                let ns = sample.clip(span).len();
                mean.sum += value * ns as f64;
                mean.ns = mean.ns.saturating_add(ns);
            }
        }
        mean
    }

    /// How much of a set lies in samples that hold nothing else, ns.
    pub(crate) fn alone(&self, set: &SpanSet) -> Ns {
        let inside = |span: &Span| -> Ns {
            self.touching(*span)
                .filter(|(sample, _)| sample.clip(*span) == *sample)
                .map(|(sample, _)| sample.len())
                .sum()
        };
        set.spans().iter().map(inside).sum()
    }

    /// Samples in a span.
    pub(crate) fn count(&self, span: Span) -> usize {
        self.touching(span).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::counter::{Quantity, Unit};

    fn series() -> Series {
        Series {
            quantity: Quantity::SmActive,
            unit: Unit::Percent,
            names: Vec::new(),
            at: vec![0, 10, 20, 30],
            value: vec![10.0, 20.0, 40.0, 80.0],
        }
    }

    fn set(spans: &[(Ns, Ns)]) -> SpanSet {
        SpanSet::from_unsorted(spans.iter().map(|&(a, b)| Span::new(a, b)).collect())
    }

    // time   0        10        20        30        40
    // value  |   10   |   20    |   40    |   80    |
    // set         [5 .. 15)       [22..24) [30 ..... 50)
    #[test]
    fn a_sample_counts_by_the_time_that_it_shares() {
        let timed = Timed::new(&series(), 0);
        let mean = timed.over(&set(&[(5, 15), (22, 24), (30, 50)]));
        assert_eq!(mean.ns, 5 + 5 + 2 + 10, "no sample covers 40 to 50");
        assert_eq!(mean.sum, 50.0 + 100.0 + 80.0 + 800.0);
        assert_eq!(timed.alone(&set(&[(5, 15), (22, 24), (30, 50)])), 10);
        assert_eq!(timed.over(&set(&[(100, 200)])).value(), None);
        let moved = Timed::new(&series(), 1_000);
        assert_eq!(moved.over(&set(&[(1_010, 1_030)])).value(), Some(30.0));
    }
}
