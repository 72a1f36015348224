//! Operations on a known communicator that ranks may leave early (Broadcast, Reduce, sends, copies): a root's data may lie in a buffer
//! long before the others come, so that times do not tell what belongs together. NCCL runs the operations of a communicator
//! in one order on all its ranks, so their order does, from wherever a rank's capture begins.
//!
//! ```text
//! root    [A][B][C]                     the k-th here is the k-th there, although no two of them run at once
//! rank 1             [A]  [B]  [C]
//! ```

use std::collections::BTreeMap;

use crate::model::Ns;

/// Operations that vote for a shift by running at the same time.
const VOTERS: usize = 64;
/// Neighbours in time that each of them looks at, on either side.
const NEAR: usize = 4;
/// Shifts with most votes that are tried.
const TRIED: usize = 8;
/// Comparisons of sizes that looking through all shifts may cost.
const MOST_COMPARED: usize = 1 << 22;
/// Fewer operations at the same time are no reason to leave equal sequences as they are.
const FEWEST_AT_ONCE: usize = 4;
/// Operations run at the same time if this share of them does, in percent.
const AT_ONCE_PERCENT: usize = 90;

/// One operation of a sequence.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    /// Size as logged, if it is known.
    pub bytes: Option<u64>,
    /// Start and end on a clock of both sequences, ns; `None` if there is none.
    pub span: Option<(Ns, Ns)>,
}

impl Call {
    fn runs_with(&self, other: &Call) -> bool {
        self.span.zip(other.span).is_some_and(|(a, b)| a.0 < b.1 && b.0 < a.1)
    }

    fn can_be(&self, other: &Call) -> bool {
        self.bytes == other.bytes || self.bytes.is_none() || other.bytes.is_none()
    }
}

/// A shift under which all sizes agree.
#[derive(Debug, Clone, Copy)]
struct Fit {
    shift: isize,
    /// Operations that have a partner.
    pairs: usize,
    /// Those of them that run at the same time.
    at_once: usize,
}

impl Fit {
    fn new(a: &[Call], b: &[Call], shift: isize) -> Option<Fit> {
        let (from_a, from_b) = starts(shift);
        let pairs = || a.iter().skip(from_a).zip(b.iter().skip(from_b));
        let n = pairs().count();
        (n > 0 && pairs().all(|(x, y)| x.can_be(y))).then(|| Fit {
            shift,
            pairs: n,
            at_once: pairs().filter(|(x, y)| x.runs_with(y)).count(),
        })
    }

    /// True if times say the same as the order.
    fn is_at_once(&self, shorter: usize) -> bool {
        self.at_once * 100 >= self.pairs * AT_ONCE_PERCENT && 2 * self.pairs >= shorter
    }
}

/// Positions at which two sequences begin to have partners: `b[k]` is `a[k + shift]`.
pub(crate) fn starts(shift: isize) -> (usize, usize) {
    (shift.max(0).unsigned_abs(), shift.min(0).unsigned_abs())
}

/// By how much the second sequence begins later in the first: `b[k]` is `a[k + shift]`. `None` if order does not tell.
///
/// Equal sequences are one sequence, unless under another shift nearly all of it runs at the same time. Of unequal ones the
/// shorter lies within the longer in one place only, or times say in which.
pub(crate) fn shift(a: &[Call], b: &[Call]) -> Option<isize> {
    let shorter = a.len().min(b.len());
    let ends = a.len() as isize - b.len() as isize;
    let mut shifts = votes(a, b);
    if ends.unsigned_abs().saturating_mul(shorter) <= MOST_COMPARED {
        shifts.extend(ends.min(0)..=ends.max(0));
    }
    shifts.extend([0, ends]);
    shifts.sort_unstable();
    shifts.dedup();
    let fits: Vec<Fit> = shifts.into_iter().filter_map(|shift| Fit::new(a, b, shift)).collect();
    let timed = fits
        .iter()
        .filter(|fit| fit.is_at_once(shorter))
        .max_by_key(|fit| (fit.at_once, std::cmp::Reverse(fit.shift.unsigned_abs())));
    let within: Vec<&Fit> = fits.iter().filter(|fit| fit.pairs == shorter).collect();
    match (within.as_slice(), timed) {
        ([equal], Some(timed)) if ends == 0 => {
            let contradicted = 2 * equal.at_once < equal.pairs && timed.at_once >= FEWEST_AT_ONCE;
            Some(if contradicted { timed.shift } else { equal.shift })
        }
        ([only], _) => Some(only.shift),
        (_, timed) => timed.map(|fit| fit.shift),
    }
}

/// Shifts for which most operations have one of their size at the same time or near it.
fn votes(a: &[Call], b: &[Call]) -> Vec<isize> {
    let mut votes: BTreeMap<isize, usize> = BTreeMap::new();
    for (k, call) in b.iter().enumerate().step_by(b.len().div_ceil(VOTERS).max(1)) {
        let Some((start, _)) = call.span else { continue };
        let at = a.partition_point(|other| other.span.is_some_and(|span| span.0 < start));
        let near = at.saturating_sub(NEAR)..(at + NEAR).min(a.len());
        for i in near.filter(|&i| a[i].can_be(call)) {
            *votes.entry(i as isize - k as isize).or_default() += 1;
        }
    }
    let mut best: Vec<(usize, isize)> =
        votes.into_iter().map(|(shift, count)| (count, shift)).collect();
    best.sort_by_key(|&(count, shift)| (std::cmp::Reverse(count), shift.unsigned_abs(), shift));
    best.into_iter().take(TRIED).map(|(_, shift)| shift).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Operations of 10 ns: start and bytes.
    fn calls(list: &[(Ns, u64)]) -> Vec<Call> {
        let call = |&(start, bytes): &(Ns, u64)| Call {
            bytes: Some(bytes),
            span: Some((start, start + 10)),
        };
        list.iter().map(call).collect()
    }

    // root    [1][2][1][3]
    // rank 1                 [1][2][1][3]     never at once
    #[test]
    fn equal_sequences_are_one_whenever_they_run() {
        let root = calls(&[(0, 1), (10, 2), (20, 1), (30, 3)]);
        let other = calls(&[(40, 1), (50, 2), (60, 1), (70, 3)]);
        assert_eq!(shift(&root, &other), Some(0));
        let no_clock: Vec<Call> = other.iter().map(|call| Call { span: None, ..*call }).collect();
        assert_eq!(shift(&root, &no_clock), Some(0));
    }

    // Six alike on each, but rank 1 was captured one later:
    // rank 0  [ ]   [ ]   [ ]   [ ]   [ ]   [ ]
    // rank 1        [ ]   [ ]   [ ]   [ ]   [ ]   [ ]
    #[test]
    fn times_tell_captures_of_different_parts() {
        let of = |from: Ns| calls(&(from..from + 6).map(|k| (100 * k, 7)).collect::<Vec<_>>());
        assert_eq!(shift(&of(0), &of(1)), Some(1));
        assert_eq!(shift(&of(1), &of(0)), Some(-1));
    }

    // 1 2 1 3 2 and 1 3 2 (never at once): in one place only. 1 1 1 and 1 1: in two, and nothing says in which.
    #[test]
    fn a_shorter_sequence_lies_where_its_sizes_say() {
        let long = calls(&[(0, 1), (10, 2), (20, 1), (30, 3), (40, 2)]);
        assert_eq!(shift(&long, &calls(&[(500, 1), (510, 3), (520, 2)])), Some(2));
        assert_eq!(shift(&calls(&[(500, 1), (510, 3), (520, 2)]), &long), Some(-2));
        let alike = calls(&[(0, 1), (10, 1), (20, 1)]);
        assert_eq!(shift(&alike, &calls(&[(500, 1), (510, 1)])), None);
        assert_eq!(shift(&alike, &calls(&[(12, 1), (22, 1)])), Some(1));
        assert_eq!(shift(&long, &calls(&[(500, 9)])), None);
    }
}
