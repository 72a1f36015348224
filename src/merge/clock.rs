//! When a logged operation can have ended.
//!
//! A plain record holds no time of its operation, only that of its writing. A dump pass writes everything that has ended since the
//! pass before, so an operation ended between the last writing of an earlier pass and its own:
//!
//! ```text
//! passes of the process    |w w w|          |w w|                 |w|
//! record written here                         ^
//! its operation ended here       |------------|       however long the dump interval is
//! ```

use super::collect::LoggedOp;
use crate::collectives::events::Event;
use crate::model::Ns;

/// Lines of one pass follow each other this closely, microseconds: some tens are usual, and no dump interval is useful below 500.
const SAME_PASS_US: i64 = 250;

/// The dump passes of one process, from the times of writing of all its records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Passes {
    /// First and last writing of each pass, Unix microseconds, in order.
    passes: Vec<(i64, i64)>,
}

impl Passes {
    /// Finds the passes in times of writing of any order.
    pub(crate) fn new(mut written_us: Vec<i64>) -> Passes {
        written_us.sort_unstable();
        let mut passes: Vec<(i64, i64)> = Vec::new();
        for at in written_us {
            match passes.last_mut() {
                Some((_, last)) if at.saturating_sub(*last) <= SAME_PASS_US => *last = at,
                _ => passes.push((at, at)),
            }
        }
        Passes { passes }
    }

    /// The last writing of the pass before the one that wrote at `written_us`.
    pub(crate) fn before(&self, written_us: i64) -> Option<i64> {
        let own = self.passes.partition_point(|(first, _)| *first <= written_us).checked_sub(1)?;
        Some(self.passes.get(own.checked_sub(1)?)?.1)
    }
}

/// The time within which an operation ended according to its record, Unix microseconds of the log's clock.
/// Without a lower bound it is minus infinity; a record without a time of writing has no bounds at all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ended {
    /// Not before.
    pub after: f64,
    /// Not after.
    pub by: f64,
}

impl Ended {
    /// What the record says.
    pub(crate) fn of(op: &LoggedOp, passes: &Passes) -> Ended {
        let Some(written) = op.written_us else {
            return Ended { after: f64::NEG_INFINITY, by: f64::INFINITY };
        };
        let mut ended = Ended {
            after: passes.before(written).map_or(f64::NEG_INFINITY, |us| us as f64),
            by: written as f64,
        };
        if let Some(verbose) = &op.verbose {
            // Verbose records bracket it more closely: enqueued before it started, noticed after it ended.
            ended.after = verbose.enqueued_us.map_or(ended.after, |us| ended.after.max(us as f64));
            ended.by = verbose.noticed_us.map_or(ended.by, |us| ended.by.min(us as f64));
        }
        ended
    }

    /// How far `end_us` lies outside, microseconds; 0 inside.
    pub(crate) fn outside(&self, end_us: f64) -> f64 {
        (self.after - end_us).max(end_us - self.by).max(0.0)
    }
}

/// From the trace's time to the log's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Clock {
    /// Nanoseconds from the report's own time to Unix time; `None` if unknown, or not to be used.
    pub epoch_ns: Option<i64>,
    /// How far the log's clock is ahead of the trace's, microseconds.
    pub shift_us: f64,
}

impl Clock {
    /// A time of the trace in Unix microseconds of the log's clock.
    pub(crate) fn us(&self, at: Ns) -> Option<f64> {
        // The sum of two i64 may not be one, but a float holds it closely enough.
        self.epoch_ns.map(|epoch| (i128::from(at) + i128::from(epoch)) as f64 / 1e3 + self.shift_us)
    }

    /// When the event ended.
    pub(crate) fn end_us(&self, event: &Event) -> Option<f64> {
        self.us(event.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // passes   |1000 1020 1040|     |2000 2010|       |9000|
    #[test]
    fn a_pass_is_what_is_written_closely_together() {
        let passes = Passes::new(vec![9000, 2010, 1000, 1040, 2000, 1020]);
        assert_eq!(passes.passes, [(1000, 1040), (2000, 2010), (9000, 9000)]);
        assert_eq!([1000, 1040].map(|us| passes.before(us)), [None, None]);
        assert_eq!(
            [2000, 2010, 9000].map(|us| passes.before(us)),
            [Some(1040), Some(1040), Some(2010)]
        );
        assert_eq!(passes.before(0), None);
    }

    #[test]
    fn the_distance_to_the_time_in_which_it_ended() {
        let ended = Ended { after: 100.0, by: 200.0 };
        assert_eq!(
            [100.0, 150.0, 200.0, 90.0, 230.0].map(|end| ended.outside(end)),
            [0.0, 0.0, 0.0, 10.0, 30.0]
        );
        let unknown = Ended { after: f64::NEG_INFINITY, by: f64::INFINITY };
        assert_eq!(unknown.outside(5.0), 0.0);
    }

    #[test]
    fn times_at_the_ends_of_the_range_do_not_overflow() {
        let clock = Clock { epoch_ns: Some(i64::MAX), shift_us: 0.0 };
        assert!(clock.us(i64::MAX).is_some_and(|us| us > 1.8e16));
        assert_eq!(Clock { epoch_ns: None, shift_us: 0.0 }.us(5), None);
    }
}
