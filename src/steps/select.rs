//! Which ranges are steps: the outermost among those that are chosen, on the thread whose ranges launch most of the
//! device's work.

use std::collections::BTreeMap;

use super::window::{Owner, Owners};
use crate::model::{Ns, Ops, Range, Texts};

/// Texts that mean a training step by themselves.
pub const DEFAULT_PATTERN: &str =
    r"(?i)^(step|iter(ation)?|batch|train(ing)?[_ ]?step|ProfilerStep)[\W_]*\d+";

/// The step ranges of one rank, and how many matches on other threads were set aside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    /// In order of start.
    pub ranges: Vec<Range>,
    /// Matches on other threads.
    pub set_aside: usize,
    /// Threads that they lie on.
    pub other_threads: usize,
}

/// Chooses among the ranges of a process for one of its devices.
pub(crate) fn select(candidates: &[Range], ops: &Ops, texts: &Texts) -> Selection {
    let mut threads: BTreeMap<u64, Vec<Range>> = BTreeMap::new();
    for range in outermost(candidates, texts) {
        threads.entry(range.thread).or_default().push(range);
    }
    let launched = if threads.len() > 1 { launched(&threads, ops) } else { BTreeMap::new() };
    // Most GPU time launched; then most matches; then the longer total time; then the lower thread id.
    let total =
        |ranges: &[Range]| ranges.iter().map(|r| r.end - r.start).fold(0 as Ns, Ns::saturating_add);
    let weight = |id: &u64, ranges: &[Range]| {
        (launched.get(id).copied(), ranges.len(), total(ranges), std::cmp::Reverse(*id))
    };
    let best = threads.iter().max_by_key(|(id, ranges)| weight(id, ranges)).map(|(id, _)| *id);
    let Some(ranges) = best.and_then(|id| threads.remove(&id)) else {
        return Selection::default();
    };
    Selection {
        ranges,
        set_aside: threads.values().map(Vec::len).sum(),
        other_threads: threads.len(),
    }
}

/// GPU time that was launched inside the ranges of each thread. A launch belongs to a range of its own thread first, and
/// only where that has none to those of others: backward passes launch from a thread without ranges.
fn launched(threads: &BTreeMap<u64, Vec<Range>>, ops: &Ops) -> BTreeMap<u64, Ns> {
    let owners: Vec<(u64, u32, Owners)> = threads
        .iter()
        .filter_map(|(id, ranges)| Some((*id, ranges.first()?.tid(), Owners::new(ranges))))
        .collect();
    let mut time: BTreeMap<u64, Ns> = threads.keys().map(|id| (*id, 0)).collect();
    let mut add = |id: &u64, ns: Ns| {
        let sum = time.entry(*id).or_default();
        *sum = sum.saturating_add(ns);
    };
    for i in 0..ops.len() {
        let (launch, ns) = (ops.launch[i], ops.span(i).len());
        let inside = |owners: &Owners| matches!(owners.of(launch), Owner::Step(_));
        let own = owners.iter().find(|(_, tid, owners)| *tid == ops.thread[i] && inside(owners));
        match own {
            Some((id, ..)) => add(id, ns),
            None => {
                owners.iter().filter(|(.., o)| inside(o)).for_each(|(id, ..)| add(id, ns));
            }
        }
    }
    time
}

/// Drops every range that lies inside another one on its thread; of two that are the same time the first by its text stays.
fn outermost(candidates: &[Range], texts: &Texts) -> Vec<Range> {
    let mut sorted = candidates.to_vec();
    let time = |r: &Range| (r.thread, r.start, std::cmp::Reverse(r.end));
    let text = |r: &Range| texts.text(r.kind, r.digits);
    sorted.sort_by(|a, b| time(a).cmp(&time(b)).then_with(|| text(a).cmp(&text(b))));
    let mut kept: Vec<Range> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match kept.last() {
            Some(outer) if outer.thread == range.thread && range.end <= outer.end => {}
            _ => kept.push(range),
        }
    }
    kept.sort_by_key(|r| (r.start, r.end, r.thread));
    kept
}

/// Of ranges in order of start, the first of each run that bears one number.
pub(crate) fn first_of_number(ranges: &[Range], texts: &Texts) -> Vec<Range> {
    let mut kept: Vec<Range> = Vec::with_capacity(ranges.len());
    let mut number = None;
    for range in ranges {
        let own = texts.number(range.kind, range.digits);
        if own.is_none() || own != number {
            kept.push(*range);
        }
        number = own;
    }
    kept
}

/// Runs of numbers that make a cycle, at least: fewer may be epochs.
const FEWEST_RUNS: usize = 3;

/// Of ranges in order of start whose numbers count up by one and begin again, the first of each run; `None` if they do
/// not. The capture may begin and end inside of a run.
pub(crate) fn first_of_cycle(ranges: &[Range], texts: &Texts) -> Option<Vec<Range>> {
    let number = |range: &Range| texts.number(range.kind, range.digits)?.parse::<u64>().ok();
    let numbers: Vec<u64> = ranges.iter().map(number).collect::<Option<_>>()?;
    let (first, last) = (*numbers.iter().min()?, *numbers.iter().max()?);
    let counts_up = numbers.windows(2).all(|pair| match pair[0] == last {
        true => pair[1] == first,
        false => pair[1] == pair[0] + 1,
    });
    let kept: Vec<Range> = ranges
        .iter()
        .zip(&numbers)
        .filter(|(_, n)| **n == first)
        .map(|(range, _)| *range)
        .collect();
    (first < last && counts_up && kept.len() >= FEWEST_RUNS).then_some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Class;
    use crate::model::op::NO_LAUNCH;
    use crate::model::testing::ops;

    fn range(thread: u64, start: Ns, end: Ns) -> Range {
        let mut texts = Texts::default();
        let (kind, digits) = texts.intern("step 1", 9).expect("room");
        Range { start, end, thread, kind, digits }
    }

    fn select(candidates: &[Range]) -> Selection {
        super::select(candidates, &Ops::default(), &Texts::default())
    }

    // GPU time that each of two threads with ranges launches on this device
    // thread 1  |---- step [0,100) ----|   launches nothing here
    // thread 2     |- step [10,90) -|      launches at 20
    // thread 3  (no ranges)                launches at 50: counts for both
    #[test]
    fn the_thread_whose_ranges_launch_the_work_is_taken() {
        let kernel = |launch| (200, 300, Class::Compute, 0, launch);
        let mut ops = ops(&[kernel(20), kernel(50), kernel(NO_LAUNCH)]);
        ops.thread = vec![2, 3, 1];
        let list = [range(1, 0, 100), range(1, 100, 200), range(2, 10, 90)];
        let chosen = super::select(&list, &ops, &Texts::default());
        assert_eq!(chosen.ranges, vec![range(2, 10, 90)]);
        assert_eq!((chosen.set_aside, chosen.other_threads), (2, 1));
    }

    #[test]
    fn phases_of_one_number_are_one_step() {
        let mut texts = Texts::default();
        let mut at = 0;
        let mut range = |text: &str| {
            let (kind, digits) = texts.intern(text, 9).expect("room");
            at += 10;
            Range { start: at, end: at + 10, thread: 1, kind, digits }
        };
        let list = ["iter 0 fwd", "iter 0 bwd", "iter 1 fwd", "iter 1 bwd"].map(&mut range);
        let starts: Vec<Ns> = first_of_number(&list, &texts).iter().map(|r| r.start).collect();
        assert_eq!(starts, [10, 30]);
    }

    #[test]
    fn numbers_that_begin_again_make_a_cycle() {
        let first = |numbers: &[u64]| -> Option<Vec<Ns>> {
            let mut texts = Texts::default();
            let mut ranges = Vec::new();
            for (i, number) in numbers.iter().enumerate() {
                let (kind, digits) = texts.intern(&format!("layer {number}"), 9).expect("room");
                let at = i as Ns;
                ranges.push(Range { start: at, end: at + 1, thread: 1, kind, digits });
            }
            let found = first_of_cycle(&ranges, &texts)?;
            Some(found.iter().map(|range| range.start).collect())
        };
        // From the second layer on, three whole runs, and the beginning of a fourth.
        assert_eq!(first(&[1, 2, 0, 1, 2, 0, 1, 2, 0, 1]), Some(vec![2, 5, 8]));
        assert_eq!(first(&[0, 1, 0, 1]), None, "two runs may be epochs");
        assert_eq!(first(&[0, 1, 2, 3, 4]), None, "they go on");
        assert_eq!(first(&[8, 8, 8, 8]), None, "one number");
        assert_eq!(first(&[0, 2, 0, 2, 0, 2]), None, "a size, not a place");
        assert_eq!(first(&[0, 1, 2, 0, 2, 0, 1, 2]), None, "one is missing");
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
