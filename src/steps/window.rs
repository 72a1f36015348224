//! Where on the GPU the work of a step ran.
//!
//! ```text
//! CPU  thread 1  |--- Batch 5 ---|--- Batch 6 ---|
//! CPU  thread 2        (backward launches)
//! GPU  stream 7    [F5 ][  B5   ][O5][F6 ][  B6   ][O6]
//! GPU  stream 20           [AR5]              [AR6]
//! window 5         |<-------------->|
//! ```

use foldhash::{HashMap, HashMapExt, HashSet};

use regex::Regex;

use super::Step;
use crate::model::op::NO_LAUNCH;
use crate::model::{NameId, Names, Ns, Ops, Range, Span};

/// A window, or why there is none.
pub(crate) type Window = Result<Span, String>;

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

/// GPU windows of step ranges that are sorted by start (docs/metrics.md, section 2).
pub(crate) fn gpu(ops: &Ops, ranges: &[Range]) -> Vec<Window> {
    let work = gather(ops, ranges);
    let mut windows: Vec<Window> = vec![Err(String::new()); ranges.len()];
    // From the last to the first: a range without a window does not bound its neighbours.
    let mut next_start: Option<Ns> = None;
    let mut between: Option<Ns> = None;
    for i in (0..ranges.len()).rev() {
        between = earliest(between, work[i].between);
        windows[i] = match work[i].start() {
            None => Err(NO_WORK.to_owned()),
            Some(start) => {
                match window(start, work[i].last_end.unwrap_or(start), between, next_start) {
                    window if window.is_empty() => Err(EMPTY.to_owned()),
                    window => {
                        next_start = Some(start);
                        between = None;
                        Ok(window)
                    }
                }
            }
        };
    }
    windows
}

const NO_WORK: &str = "no GPU operation was launched inside the range";
const EMPTY: &str = "the window would be empty: the next step's work starts no later";

/// From the first work of each range to that of the next, work between them included. The last range ends the last
/// period and has no window of its own: there is one window less than there are ranges.
pub(crate) fn period(ops: &Ops, ranges: &[Range]) -> Vec<Window> {
    let work = gather(ops, ranges);
    let last = ranges.len().saturating_sub(1);
    let mut windows: Vec<Window> = vec![Err(NO_WORK.to_owned()); last];
    let mut next = work.last().and_then(Work::start);
    for i in (0..last).rev() {
        windows[i] = match (work[i].start(), next) {
            (None, _) => Err(NO_WORK.to_owned()),
            (Some(_), None) => {
                Err("no later range has GPU work that would end the period".to_owned())
            }
            (Some(start), Some(end)) if start >= end => Err(EMPTY.to_owned()),
            (Some(start), Some(end)) => Ok(Span::new(start, end)),
        };
        if windows[i].is_ok() || next.is_none() {
            next = work[i].start().or(next);
        }
    }
    windows
}

/// How ranges recur: of the gaps between one range and the next, how many hold launches of GPU work, and whether no
/// range overlaps the next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Gaps {
    /// Gaps between ranges.
    pub all: usize,
    /// Those in which GPU work was launched.
    pub with_work: usize,
    /// Ranges that begin before the one before them has ended.
    pub overlapping: usize,
}

/// The gaps between ranges that are sorted by start.
pub(crate) fn gaps(ops: &Ops, ranges: &[Range]) -> Gaps {
    let work = gather(ops, ranges);
    let all = ranges.len().saturating_sub(1);
    Gaps {
        all,
        with_work: work.iter().take(all).filter(|work| work.between.is_some()).count(),
        overlapping: ranges.windows(2).filter(|pair| pair[1].start < pair[0].end).count(),
    }
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
    let owners = Owners::new(ranges);
    let mut work = vec![Work::default(); ranges.len()];
    let mut kernel_streams: HashSet<(u32, u32)> = HashSet::default();
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
pub(crate) enum Owner {
    /// Launched inside this range.
    Step(u32),
    /// Launched after this range and inside none.
    After(u32),
    /// Launched before the first range, or the launch is unknown.
    None,
}

/// Finds the step of a launch among ranges that are sorted by start.
#[derive(Debug)]
pub(crate) struct Owners {
    ranges: Vec<Span>,
    /// Latest end among this range and all before it: bounds the search among overlapping ranges.
    latest_end: Vec<Ns>,
}

impl Owners {
    /// Over ranges in order of their start.
    pub(crate) fn new(ranges: &[Range]) -> Self {
        Self::over(ranges.iter().map(Range::span).collect())
    }

    /// Over the times of ranges, in order of their start.
    pub(crate) fn over(ranges: Vec<Span>) -> Self {
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
    pub(crate) fn of(&self, launch: Ns) -> Owner {
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
pub(crate) fn cpu(ranges: &[Range]) -> Vec<Window> {
    let window = |range: &Range| match range.span() {
        span if span.is_empty() => Err("the range has no length".to_owned()),
        span => Ok(span),
    };
    ranges.iter().map(window).collect()
}

/// One window from the first to the last GPU operation.
pub(crate) fn whole(ops: &Ops) -> Vec<Step> {
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
pub(crate) fn at_kernels(ops: &Ops, names: &Names, pattern: &Regex) -> Vec<Step> {
    let mut matches: HashMap<NameId, bool> = HashMap::new();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::testing::ops;
    use crate::model::{Class, Texts};

    fn ranges(list: &[(Ns, Ns)]) -> Vec<Range> {
        let mut texts = Texts::default();
        let (kind, digits) = texts.intern("step", 9).expect("room");
        list.iter().map(|&(start, end)| Range { start, end, thread: 1, kind, digits }).collect()
    }

    fn windows(windows: &[Window]) -> Vec<Option<(Ns, Ns)>> {
        windows.iter().map(|w| w.as_ref().ok().map(|w| (w.start, w.end))).collect()
    }

    // CPU   [0 fwd 10)  bwd at 12  [20 fwd 30)  bwd at 32  [40 fwd 50)
    // GPU   [100 K 150)[150 K 240)  [250 K 300)[300 K 390)  [400 K 450)
    // Two periods; the last range only ends the second.
    #[test]
    fn a_period_reaches_to_the_next_range() {
        let ops = ops(&[
            (100, 150, K, 7, 5),
            (150, 240, K, 7, 12),
            (250, 300, K, 7, 25),
            (300, 390, K, 7, 32),
            (400, 450, K, 7, 45),
        ]);
        let list = ranges(&[(0, 10), (20, 30), (40, 50)]);
        assert_eq!(windows(&period(&ops, &list)), [Some((100, 250)), Some((250, 400))]);
        assert_eq!(gaps(&ops, &list), Gaps { all: 2, with_work: 2, overlapping: 0 });
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
        let steps = gpu(&ops, &ranges(&[(0, 10), (10, 20), (20, 30)]));
        assert_eq!(windows(&steps), [Some((100, 160)), Some((160, 200)), Some((200, 260))]);
    }

    // CPU   [0 step 10)  eval launched at 12  [20 step 30)
    // GPU   [100 K 150) [170 eval 300)          [320 K 350)
    // The first window ends where the evaluation begins; the evaluation belongs to no step.
    #[test]
    fn work_between_ranges_ends_the_step() {
        let eval = ops(&[(100, 150, K, 7, 5), (170, 300, K, 7, 12), (320, 350, K, 7, 25)]);
        assert_eq!(
            windows(&gpu(&eval, &ranges(&[(0, 10), (20, 30)]))),
            [Some((100, 170)), Some((320, 350))]
        );
        // It runs on another stream while the step's own work still runs: the step ends with its own work.
        let beside = ops(&[(100, 150, K, 7, 5), (120, 300, K, 8, 12), (320, 350, K, 7, 25)]);
        assert_eq!(
            windows(&gpu(&beside, &ranges(&[(0, 10), (20, 30)]))),
            [Some((100, 150)), Some((320, 350))]
        );
        // It starts after the next step's work: the next step bounds.
        let late = ops(&[(100, 150, K, 7, 5), (160, 200, K, 7, 25), (400, 450, K, 8, 12)]);
        assert_eq!(
            windows(&gpu(&late, &ranges(&[(0, 10), (20, 30)]))),
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
        let steps = gpu(&ops, &ranges(&[(0, 10), (10, 20), (20, 30), (30, 40), (40, 50)]));
        assert_eq!(
            windows(&steps),
            [Some((100, 300)), None, Some((300, 400)), None, Some((400, 450))]
        );
    }

    // |-- step 0 [0,100) --|
    //       |-- step 1 [50,80) ... the one that started last owns a launch at 60, step 0 owns one at 90
    #[test]
    fn of_overlapping_ranges_the_later_owns() {
        let list = ranges(&[(0, 100), (50, 80)]);
        let owners = Owners::new(&list);
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
        assert_eq!(windows(&gpu(&ops, &ranges(&[(0, 10)]))), [Some((90, 150))]);
    }

    #[test]
    fn a_step_of_copies_only_has_a_window() {
        let ops = ops(&[(90, 120, Class::Htod, 9, 1), (130, 150, Class::Htod, 8, 5)]);
        assert_eq!(windows(&gpu(&ops, &ranges(&[(0, 10)]))), [Some((90, 150))]);
    }
}
