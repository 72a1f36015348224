//! Whether the steps of a capture are of one kind, and if not, in which cycle kinds follow each other (metrics
//! definition, section 8): gradient accumulation, training and evaluation under one name.

/// A kind has more than this share of the steps, and less than the rest.
const FEW: f64 = 0.05;
/// Two modes of step times are apart by more than this share of the median.
const APART: f64 = 0.10;
/// And by more than this many times what the steps of each mode differ among themselves.
const OVER_SPREAD: i64 = 5;

/// Steps of several kinds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mixed {
    /// For each step whether it is of the kind that communicates, or of the longer one.
    pub kinds: Vec<bool>,
    /// Steps after which kinds repeat; `None` where they follow no cycle that is seen twice.
    pub cycle: Option<usize>,
    /// What tells the kinds apart.
    pub by: By,
}

/// What tells two kinds of steps apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// Some communicate, some do not.
    Communication,
    /// Step times have two modes.
    Time,
}

impl Mixed {
    /// The steps of whole cycles from the first step on: all, where there is no cycle.
    pub(crate) fn whole(&self) -> usize {
        match self.cycle {
            Some(cycle) if cycle > 0 => self.kinds.len() / cycle * cycle,
            _ => self.kinds.len(),
        }
    }

    /// Steps of the kind that communicates, or of the longer one.
    pub(crate) fn marked(&self) -> usize {
        self.kinds.iter().filter(|&&kind| kind).count()
    }
}

/// The kinds of steps; `None` if they are of one kind. `communicates` has an entry for each time.
pub(crate) fn mixed(times: &[i64], communicates: &[bool]) -> Option<Mixed> {
    let some = communicates.iter().filter(|&&c| c).count() as f64 / times.len().max(1) as f64;
    let (kinds, by) = if some > FEW && some < 1.0 - FEW {
        (communicates.to_vec(), By::Communication)
    } else {
        let least = longer_mode(times)?;
        (times.iter().map(|&time| time >= least).collect(), By::Time)
    };
    let cycle = cycle(&kinds);
    Some(Mixed { kinds, cycle, by })
}

/// The least time of the longer of two modes.
fn longer_mode(times: &[i64]) -> Option<i64> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let n = sorted.len();
    let median = *sorted.get(n.saturating_sub(1) / 2)? as f64;
    let fewest = ((n as f64 * FEW).floor() as usize + 1).max(2);
    (fewest..=n.saturating_sub(fewest))
        .filter(|&at| {
            let gap = sorted[at].saturating_sub(sorted[at - 1]);
            let spreads = [
                sorted[at - 1].saturating_sub(sorted[0]),
                sorted[n - 1].saturating_sub(sorted[at]),
            ];
            gap as f64 > APART * median
                && spreads.iter().all(|spread| gap > spread.saturating_mul(OVER_SPREAD))
        })
        .max_by_key(|&at| sorted[at].saturating_sub(sorted[at - 1]))
        .map(|at| sorted[at])
}

/// The smallest period that is seen twice at least.
fn cycle(kinds: &[bool]) -> Option<usize> {
    // The border of a list is its longest beginning that is its end, too; what is before it repeats.
    let mut border = vec![0usize; kinds.len()];
    for i in 1..kinds.len() {
        let mut length = border[i - 1];
        while length > 0 && kinds[i] != kinds[length] {
            length = border[length - 1];
        }
        border[i] = length + usize::from(kinds[i] == kinds[length]);
    }
    let period = kinds.len() - border.last()?;
    (2 * period <= kinds.len()).then_some(period)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Gradient accumulation: 40 40 40 60 | 40 40 40 60 | 40 40
    #[test]
    fn steps_that_communicate_now_and_then_have_a_cycle() {
        let communicates: Vec<bool> = (0..10).map(|i| i % 4 == 3).collect();
        let times: Vec<i64> = communicates.iter().map(|&c| if c { 60 } else { 40 }).collect();
        let found = mixed(&times, &communicates).expect("mixed");
        assert_eq!((found.cycle, found.whole(), found.marked()), (Some(4), 8, 2));
        assert_eq!(found.by, By::Communication);
    }

    // 100 20 100 20 100 20, all communicate: two modes
    #[test]
    fn two_modes_of_time_are_two_kinds() {
        let found = mixed(&[100, 20, 101, 20, 100, 21], &[true; 6]).expect("mixed");
        assert_eq!((found.cycle, found.by), (Some(2), By::Time));
        // One long step is an outlier, not a kind; a wide spread is not a gap.
        assert_eq!(mixed(&[100, 100, 100, 200, 100, 100], &[true; 6]), None);
        assert_eq!(mixed(&[100, 110, 120, 130, 140, 150], &[true; 6]), None);
        assert_eq!(mixed(&[], &[]), None);
    }

    #[test]
    fn without_a_cycle_all_steps_count() {
        let kinds = [true, false, false, true, false, true, false, false, false, true];
        let found = mixed(&[5; 10], &kinds).expect("mixed");
        assert_eq!((found.cycle, found.whole()), (None, 10));
    }
}
