//! Where on the GPU the work of a step ran.
//!
//! ```text
//! CPU  thread 1  |--- Batch 5 ---|--- Batch 6 ---|
//! CPU  thread 2        (backward launches)
//! GPU  stream 7    [F5 ][  B5   ][O5][F6 ][  B6   ][O6]
//! GPU  stream 20           [AR5]              [AR6]
//! window 5         |<-------------->|
//! ```

use std::collections::{HashMap, HashSet};

use regex::Regex;

use super::Step;
use crate::model::op::NO_LAUNCH;
use crate::model::{Names, Ns, Ops, Range, Span};

/// What the operations of one step range say about its window.
#[derive(Debug, Clone, Copy, Default)]
struct Work {
    /// Earliest start among operations on streams that run kernels of the step.
    first_on_kernel_streams: Option<Ns>,
    /// Earliest start among all its operations.
    first: Option<Ns>,
    /// Latest end among all its operations.
    last_end: Option<Ns>,
    /// Earliest start of work launched after this range and before the next one.
    between: Option<Ns>,
}

impl Work {
    fn start(&self) -> Option<Ns> {
        self.first_on_kernel_streams.or(self.first)
    }
}

/// GPU windows of step ranges that are sorted by start (metrics definition, section 2).
pub fn gpu(ops: &Ops, names: &Names, ranges: &[Range]) -> Vec<Step> {
    let work = gather(ops, ranges);
    let mut windows: Vec<Result<Span, String>> = vec![Err(String::new()); ranges.len()];
    // From the last to the first: a range without a window does not bound its neighbours.
    let mut next_start: Option<Ns> = None;
    let mut between: Option<Ns> = None;
    for i in (0..ranges.len()).rev() {
        between = earliest(between, work[i].between);
        windows[i] = match work[i].start() {
            None => Err("no GPU operation was launched inside the range".to_owned()),
            Some(start) => {
                match window(start, work[i].last_end.unwrap_or(start), between, next_start) {
                    window if window.is_empty() => {
                        Err("the window would be empty: the next step's work starts no later"
                            .to_owned())
                    }
                    window => {
                        next_start = Some(start);
                        between = None;
                        Ok(window)
                    }
                }
            }
        };
    }
    named(ranges, names, windows)
}

/// `[start, next start)`; the last step ends with its own work; work launched between two ranges ends the first.
fn window(start: Ns, last_end: Ns, between: Option<Ns>, next_start: Option<Ns>) -> Span {
    let end = match (next_start, between) {
        (None, _) => last_end,
        (Some(next), None) => next,
        (Some(next), Some(between)) => between.max(last_end).min(next),
    };
    Span::new(start, end)
}

fn earliest(a: Option<Ns>, b: Option<Ns>) -> Option<Ns> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

fn gather(ops: &Ops, ranges: &[Range]) -> Vec<Work> {
    let owners = Owners::new(ranges.iter().map(|r| Span::new(r.start, r.end)).collect());
    let mut work = vec![Work::default(); ranges.len()];
    let mut kernel_streams: HashSet<(u32, u32)> = HashSet::new();
    let owned: Vec<Owner> = ops.launch.iter().map(|&launch| owners.of(launch)).collect();
    for (i, owner) in owned.iter().enumerate() {
        match *owner {
            Owner::Step(step) if ops.class[i].is_kernel() => {
                kernel_streams.insert((step, ops.stream[i]));
            }
            Owner::After(step) => {
                let between = &mut work[step as usize].between;
                *between = earliest(*between, Some(ops.start[i]));
            }
            _ => {}
        }
    }
    for (i, owner) in owned.iter().enumerate() {
        let Owner::Step(step) = *owner else { continue };
        let found = &mut work[step as usize];
        found.first = earliest(found.first, Some(ops.start[i]));
        found.last_end = found.last_end.max(Some(ops.end[i]));
        if kernel_streams.contains(&(step, ops.stream[i])) {
            found.first_on_kernel_streams =
                earliest(found.first_on_kernel_streams, Some(ops.start[i]));
        }
    }
    work
}

/// Which step an operation belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// Launched inside this range.
    Step(u32),
    /// Launched after this range and inside none.
    After(u32),
    /// Launched before the first range, or the launch is unknown.
    None,
}

/// Finds the step of a launch among ranges that are sorted by start.
#[derive(Debug)]
pub struct Owners {
    ranges: Vec<Span>,
    /// Latest end among this range and all before it: bounds the search among overlapping ranges.
    latest_end: Vec<Ns>,
}

impl Owners {
    /// Over ranges in order of their start.
    pub fn new(ranges: Vec<Span>) -> Self {
        let latest_end = ranges
            .iter()
            .scan(Ns::MIN, |latest, range| {
                *latest = (*latest).max(range.end);
                Some(*latest)
            })
            .collect();
        Self { ranges, latest_end }
    }

    /// Among the ranges that contain the launch, the one that started last.
    pub fn of(&self, launch: Ns) -> Owner {
        if launch == NO_LAUNCH {
            return Owner::None;
        }
        let before = self.ranges.partition_point(|range| range.start <= launch);
        for i in (0..before).rev() {
            if launch < self.ranges[i].end {
                return Owner::Step(i as u32);
            }
            if self.latest_end[i] <= launch {
                break;
            }
        }
        match before {
            0 => Owner::None,
            _ => Owner::After(before as u32 - 1),
        }
    }
}

/// The NVTX ranges themselves as windows.
pub fn cpu(names: &Names, ranges: &[Range]) -> Vec<Step> {
    let windows = ranges
        .iter()
        .map(|range| match Span::new(range.start, range.end) {
            span if span.is_empty() => Err("the range has no length".to_owned()),
            span => Ok(span),
        })
        .collect();
    named(ranges, names, windows)
}

/// One window from the first to the last GPU operation.
pub fn whole(ops: &Ops) -> Vec<Step> {
    let span = Span::new(
        ops.start.first().copied().unwrap_or(0),
        ops.end.iter().copied().max().unwrap_or(0),
    );
    let window = if span.is_empty() {
        Err("all GPU operations have zero length".to_owned())
    } else {
        Ok(span)
    };
    vec![Step { name: "whole capture".to_owned(), occurrence: 0, range: None, window }]
}

/// A step starts with each kernel whose name matches; the last one ends with the last operation.
pub fn at_kernels(ops: &Ops, names: &Names, pattern: &Regex) -> Vec<Step> {
    let mut matches: HashMap<crate::model::NameId, bool> = HashMap::new();
    let starts: Vec<Ns> = (0..ops.len())
        .filter(|&i| ops.class[i].is_kernel())
        .filter(|&i| {
            *matches.entry(ops.name[i]).or_insert_with(|| pattern.is_match(names.get(ops.name[i])))
        })
        .map(|i| ops.start[i])
        .collect();
    let last_end = ops.end.iter().copied().max().unwrap_or(0);
    (0..starts.len())
        .map(|i| {
            let span = Span::new(starts[i], starts.get(i + 1).copied().unwrap_or(last_end));
            let window = if span.is_empty() {
                Err("the next matching kernel starts at the same time".to_owned())
            } else {
                Ok(span)
            };
            Step { name: format!("kernel step {i}"), occurrence: 0, range: None, window }
        })
        .collect()
}

fn named(ranges: &[Range], names: &Names, windows: Vec<Result<Span, String>>) -> Vec<Step> {
    let mut seen: HashMap<crate::model::NameId, usize> = HashMap::new();
    ranges
        .iter()
        .zip(windows)
        .map(|(range, window)| {
            let count = seen.entry(range.name).or_insert(0);
            *count += 1;
            Step {
                name: names.get(range.name).to_owned(),
                occurrence: *count - 1,
                range: Some(Span::new(range.start, range.end)),
                window,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Class, NameId};

    /// (start, end, class, stream, launch)
    fn ops(rows: &[(Ns, Ns, Class, u32, Ns)]) -> Ops {
        let mut ops = Ops::default();
        for &(start, end, class, stream, launch) in rows {
            ops.start.push(start);
            ops.end.push(end);
            ops.class.push(class);
            ops.name.push(NameId::NONE);
            ops.stream.push(stream);
            ops.bytes.push(0);
            ops.launch.push(launch);
            ops.call.push(crate::model::op::NO_CALL);
        }
        ops
    }

    fn ranges(list: &[(Ns, Ns)]) -> Vec<Range> {
        list.iter().map(|&(start, end)| Range { start, end, name: NameId(0), thread: 1 }).collect()
    }

    fn windows(steps: &[Step]) -> Vec<Option<(Ns, Ns)>> {
        steps.iter().map(|s| s.window.as_ref().ok().map(|w| (w.start, w.end))).collect()
    }

    const K: Class = Class::Compute;

    // CPU   [0 step 10)[10 step 20)[20 step 30)
    // GPU 7    [100 K 150)   [160 K 200)  [200 K 260)
    // GPU 9  [90 H 95) launched in step 0 by a loader   [120 H 130) launched ahead in step 1: must not pull it
    #[test]
    fn a_side_stream_copy_does_not_pull_the_window() {
        let ops = ops(&[
            (90, 95, Class::Htod, 9, 2),
            (100, 150, K, 7, 5),
            (120, 130, Class::Htod, 9, 11),
            (160, 200, K, 7, 15),
            (200, 260, K, 7, 25),
        ]);
        let steps = gpu(&ops, &Names::default(), &ranges(&[(0, 10), (10, 20), (20, 30)]));
        assert_eq!(windows(&steps), [Some((100, 160)), Some((160, 200)), Some((200, 260))]);
    }

    // CPU   [0 step 10)  eval launched at 12  [20 step 30)
    // GPU   [100 K 150) [170 eval 300)          [320 K 350)
    // The first window ends where the evaluation begins; the evaluation belongs to no step.
    #[test]
    fn work_between_ranges_ends_the_step() {
        let eval = ops(&[(100, 150, K, 7, 5), (170, 300, K, 7, 12), (320, 350, K, 7, 25)]);
        assert_eq!(
            windows(&gpu(&eval, &Names::default(), &ranges(&[(0, 10), (20, 30)]))),
            [Some((100, 170)), Some((320, 350))]
        );
        // It runs on another stream while the step's own work still runs: the step ends with its own work.
        let beside = ops(&[(100, 150, K, 7, 5), (120, 300, K, 8, 12), (320, 350, K, 7, 25)]);
        assert_eq!(
            windows(&gpu(&beside, &Names::default(), &ranges(&[(0, 10), (20, 30)]))),
            [Some((100, 150)), Some((320, 350))]
        );
        // It starts after the next step's work: the next step bounds.
        let late = ops(&[(100, 150, K, 7, 5), (160, 200, K, 7, 25), (400, 450, K, 8, 12)]);
        assert_eq!(
            windows(&gpu(&late, &Names::default(), &ranges(&[(0, 10), (20, 30)]))),
            [Some((100, 160)), Some((160, 200))]
        );
    }

    // A range without work, and one whose work starts after that of the next: neither bounds its neighbours.
    #[test]
    fn ranges_without_a_window_do_not_bound() {
        let ops = ops(&[
            (100, 150, K, 7, 5),
            (500, 510, K, 7, 15),
            (300, 350, K, 7, 25),
            (400, 450, K, 7, 45),
        ]);
        let steps = gpu(
            &ops,
            &Names::default(),
            &ranges(&[(0, 10), (10, 20), (20, 30), (30, 40), (40, 50)]),
        );
        assert_eq!(
            windows(&steps),
            [Some((100, 300)), None, Some((300, 400)), None, Some((400, 450))]
        );
        assert_eq!(steps[4].occurrence, 4);
    }

    // |-- step 0 [0,100) --|
    //       |-- step 1 [50,80) ... the one that started last owns a launch at 60, step 0 owns one at 90
    #[test]
    fn of_overlapping_ranges_the_later_owns() {
        let list = ranges(&[(0, 100), (50, 80)]);
        let owners = Owners::new(list.iter().map(|r| Span::new(r.start, r.end)).collect());
        assert_eq!(owners.of(60), Owner::Step(1));
        assert_eq!(owners.of(90), Owner::Step(0));
        assert_eq!(owners.of(100), Owner::After(1));
        assert_eq!(owners.of(-1), Owner::None);
        assert_eq!(owners.of(NO_LAUNCH), Owner::None);
    }

    // A receive that starts the step runs on its own stream, and that stream runs a kernel of the step: it counts.
    #[test]
    fn a_receive_that_starts_the_step_starts_the_window() {
        let ops = ops(&[(90, 120, Class::Comm, 20, 1), (120, 150, K, 7, 5)]);
        assert_eq!(windows(&gpu(&ops, &Names::default(), &ranges(&[(0, 10)]))), [Some((90, 150))]);
    }

    #[test]
    fn a_step_of_copies_only_has_a_window() {
        let ops = ops(&[(90, 120, Class::Htod, 9, 1), (130, 150, Class::Htod, 8, 5)]);
        assert_eq!(windows(&gpu(&ops, &Names::default(), &ranges(&[(0, 10)]))), [Some((90, 150))]);
    }
}
