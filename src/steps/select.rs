//! Which ranges are steps: the outermost among those whose text matches, on the thread that has most of them.

use std::collections::BTreeMap;

use crate::model::{Ns, Range};

/// Texts that mean a training step by themselves.
pub const DEFAULT_PATTERN: &str =
    r"(?i)^(step|iter(ation)?|batch|train(ing)?[_ ]?step|ProfilerStep)[\W_]*\d+";

/// The step ranges of one rank, and how many matches on other threads were set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// In order of start.
    pub ranges: Vec<Range>,
    /// Matches on other threads.
    pub set_aside: usize,
    /// Threads that they lie on.
    pub other_threads: usize,
}

/// Chooses among all ranges whose text matches.
pub fn select(candidates: &[Range]) -> Selection {
    let mut threads: BTreeMap<u64, Vec<Range>> = BTreeMap::new();
    for range in outermost(candidates) {
        threads.entry(range.thread).or_default().push(range);
    }
    // Most matches; then the longer total time; then the lower thread id.
    let total =
        |ranges: &[Range]| ranges.iter().map(|r| r.end - r.start).fold(0 as Ns, Ns::saturating_add);
    let best = threads
        .iter()
        .max_by_key(|(id, ranges)| (ranges.len(), total(ranges), std::cmp::Reverse(**id)))
        .map(|(id, _)| *id);
    let Some(ranges) = best.and_then(|id| threads.remove(&id)) else {
        return Selection { ranges: Vec::new(), set_aside: 0, other_threads: 0 };
    };
    Selection {
        ranges,
        set_aside: threads.values().map(Vec::len).sum(),
        other_threads: threads.len(),
    }
}

/// Drops every range that lies inside another one on its thread.
fn outermost(candidates: &[Range]) -> Vec<Range> {
    let mut sorted = candidates.to_vec();
    sorted.sort_unstable_by_key(|r| (r.thread, r.start, std::cmp::Reverse(r.end), r.name));
    let mut kept: Vec<Range> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match kept.last() {
            Some(outer) if outer.thread == range.thread && range.end <= outer.end => {}
            _ => kept.push(range),
        }
    }
    kept.sort_unstable_by_key(|r| (r.start, r.end, r.thread, r.name));
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::NameId;

    fn range(thread: u64, start: Ns, end: Ns) -> Range {
        Range { start, end, name: NameId(0), thread }
    }

    // thread 1  |---- step 1 ----|---- step 2 ----|
    //             |- step 1.1 -|                      inside: not a step
    // thread 2  |-- batch 1 --|                       fewer: set aside
    #[test]
    fn inner_matches_and_other_threads_are_set_aside() {
        let chosen =
            select(&[range(2, 0, 80), range(1, 10, 60), range(1, 0, 100), range(1, 100, 200)]);
        assert_eq!(chosen.ranges, vec![range(1, 0, 100), range(1, 100, 200)]);
        assert_eq!((chosen.set_aside, chosen.other_threads), (1, 1));
    }

    // start/end ranges may overlap without one being inside the other: both are steps
    // |---- iteration 1 ----|
    //            |---- iteration 2 ----|
    #[test]
    fn overlapping_ranges_are_all_steps() {
        let chosen = select(&[range(1, 0, 100), range(1, 50, 150)]);
        assert_eq!(chosen.ranges.len(), 2);
    }

    #[test]
    fn the_default_pattern_takes_the_usual_names_and_no_sub_steps() {
        let pattern = regex::Regex::new(DEFAULT_PATTERN).expect("a valid pattern");
        for step in [
            "Batch 5",
            "step_12",
            "iteration_4",
            "Iter: 7",
            "train step 3",
            "TrainingStep#1",
            "ProfilerStep#9",
        ] {
            assert!(pattern.is_match(step), "{step}");
        }
        for other in [
            "get batch",
            "forward",
            "optimizer step",
            "backward step 3",
            "batch",
            "step",
            "stepper 3",
        ] {
            assert!(!pattern.is_match(other), "{other}");
        }
    }
}
