//! Where the operations of a rank stand among its steps: order is counted from there.

use super::events::Event;
use crate::model::Span;
use crate::model::op::NO_LAUNCH;
use crate::steps::Step;
use crate::steps::window::{Owner, Owners};

/// A place from which order counts. Steps are numbers that mean the same step on every rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Anchor {
    /// Before the first step.
    Before,
    /// In this step.
    Step(usize),
    /// After this step and in none.
    After(usize),
    /// Anywhere in the capture: nothing says where.
    Anywhere,
}

impl Anchor {
    /// The step, if the operation is in one.
    pub fn step(self) -> Option<usize> {
        match self {
            Anchor::Step(step) => Some(step),
            _ => None,
        }
    }
}

/// The anchor of each event: by its launch where steps are ranges, else by the window in which it starts.
/// `numbers` are those of `steps` ([`super::pairing::Pairing`]).
pub(crate) fn anchors(events: &[Event], steps: &[Step], numbers: &[usize]) -> Vec<Anchor> {
    let number = |step: usize| numbers.get(step).copied();
    let ranges: Option<Vec<Span>> = steps.iter().map(|step| step.range).collect();
    if let Some(ranges) = ranges {
        let owners = Owners::over(ranges);
        let of_launch = |event: &Event| match owners.of(event.launch) {
            Owner::Step(step) => number(step as usize).map(Anchor::Step),
            Owner::After(step) => number(step as usize).map(Anchor::After),
            Owner::None if event.launch == NO_LAUNCH => None,
            Owner::None => Some(Anchor::Before),
        };
        return events.iter().map(|event| of_launch(event).unwrap_or(Anchor::Anywhere)).collect();
    }
    // Windows of kernel steps follow each other: one search for each event.
    let mut starts: Vec<(i64, usize)> = steps
        .iter()
        .enumerate()
        .filter_map(|(i, s)| Some((s.window.as_ref().ok()?.start, i)))
        .collect();
    starts.sort_unstable();
    let of_start = |event: &Event| {
        let before = starts.partition_point(|s| s.0 <= event.start);
        let (_, step) = *starts.get(before.checked_sub(1)?)?;
        let inside = steps.get(step)?.window.as_ref().is_ok_and(|w| w.contains(event.start));
        number(step).filter(|_| inside).map(Anchor::Step)
    };
    events.iter().map(|event| of_start(event).unwrap_or(Anchor::Anywhere)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collectives::test_events::kernel;

    fn step(name: &str, range: Option<(i64, i64)>, window: (i64, i64)) -> Step {
        Step {
            name: name.to_owned(),
            occurrence: 0,
            range: range.map(|(start, end)| Span::new(start, end)),
            window: Ok(Span::new(window.0, window.1)),
        }
    }

    // CPU      [10 step 1 20)    [30 step 2 40)
    // launches 5     12       25      31       50   and one that the capture does not hold
    #[test]
    fn an_operation_stands_before_in_or_after_a_step() {
        let steps = [
            step("step 1", Some((10, 20)), (100, 200)),
            step("step 2", Some((30, 40)), (200, 300)),
        ];
        let events: Vec<Event> = [5, 12, 25, 31, 50, NO_LAUNCH]
            .into_iter()
            .map(|launch| Event { launch, ..kernel(100, 110) })
            .collect();
        let expected = [
            Anchor::Before,
            Anchor::Step(7),
            Anchor::After(7),
            Anchor::Step(3),
            Anchor::After(3),
            Anchor::Anywhere,
        ];
        assert_eq!(anchors(&events, &steps, &[7, 3]), expected);
    }

    // windows  [100 kernel step 0 200)[200 kernel step 1 300)
    #[test]
    fn without_ranges_the_window_decides() {
        let steps =
            [step("kernel step 0", None, (100, 200)), step("kernel step 1", None, (200, 300))];
        let events: Vec<Event> =
            [50, 100, 199, 200, 300].into_iter().map(|start| kernel(start, start + 5)).collect();
        let expected =
            [Anchor::Anywhere, Anchor::Step(0), Anchor::Step(0), Anchor::Step(1), Anchor::Anywhere];
        assert_eq!(anchors(&events, &steps, &[0, 1]), expected);
    }
}
