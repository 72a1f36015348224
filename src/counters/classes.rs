//! The parts of a step on one rank: what the GPU does at each moment.

use serde::{Deserialize, Serialize};

use crate::analysis::step_metrics;
use crate::model::{Class, Ns, Ops, Span};
use crate::timeline::SpanSet;

/// One rank with what its counters are held against.
#[derive(Debug)]
pub struct RankWork<'a> {
    /// Its number.
    pub rank: u32,
    /// Index of its report among the inputs.
    pub report: &'a str,
    /// Its machine.
    pub hostname: Option<&'a str>,
    /// Index of its GPU on the machine.
    pub gpu_index: Option<u32>,
    /// Its GPU's own number, as [`crate::model::counter::uuid_key`] has it.
    pub gpu_uuid: Option<String>,
    /// Its GPU's model.
    pub gpu: Option<&'a str>,
    /// Unix time of its report's zero, ns.
    pub epoch_ns: Option<i64>,
    /// Its GPU work.
    pub ops: &'a Ops,
    /// When it waits for other ranks; `None` if none of its communication was matched, so that nobody knows.
    pub waits: Option<SpanSet>,
    /// Its steps.
    pub steps: Vec<StepWindow>,
    /// What its communication sends and receives.
    pub messages: Vec<Message>,
}

/// One step of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepWindow {
    /// Its index among those of the rank.
    pub index: usize,
    /// It counts in summaries.
    pub counted: bool,
    /// When it ran; `None` if that is not known.
    pub window: Option<Span>,
}

/// One communication operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Message {
    /// When it ran.
    pub span: Span,
    /// Bytes that the rank sends and that it receives, by the payload (docs/metrics.md, section 10); `None` if not known.
    pub bytes: Option<(f64, f64)>,
}

/// The parts, in the order of output.
pub(crate) const NAMES: [&str; 6] = ["compute", "transfer", "waiting", "overlap", "copies", "idle"];

/// A value for each part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct PerClass<T> {
    /// Compute with nothing that communicates beside it.
    pub compute: T,
    /// Communication without compute beside it, while data moves.
    pub transfer: T,
    /// Communication without compute beside it, while others are waited for.
    pub waiting: T,
    /// Compute and communication at once.
    pub overlap: T,
    /// Copies and memory sets with neither beside them.
    pub copies: T,
    /// Nothing runs.
    pub idle: T,
}

impl<T: Copy> PerClass<T> {
    /// From values in the order of [`NAMES`].
    pub fn of(values: [T; 6]) -> Self {
        let [compute, transfer, waiting, overlap, copies, idle] = values;
        Self { compute, transfer, waiting, overlap, copies, idle }
    }

    /// The values in the order of [`NAMES`].
    pub fn list(&self) -> [T; 6] {
        [self.compute, self.transfer, self.waiting, self.overlap, self.copies, self.idle]
    }
}

/// When a step is in each of its parts, in the order of [`NAMES`]. They do not overlap; what is left of the step is work of unknown
/// class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Classes {
    /// The step.
    pub window: Span,
    /// Its parts.
    pub parts: [SpanSet; 6],
}

impl Classes {
    /// The length of each part, ns.
    pub(crate) fn lengths(&self) -> [Ns; 6] {
        let mut lengths = [0; 6];
        for (length, part) in lengths.iter_mut().zip(&self.parts) {
            *length = part.measure();
        }
        lengths
    }
}

/// The parts of each step of a rank; `None` where its window is not known.
pub(crate) fn of(rank: &RankWork<'_>) -> Vec<Option<Classes>> {
    let windows: Vec<Option<Span>> = rank.steps.iter().map(|step| step.window).collect();
    let mut all = vec![None; windows.len()];
    step_metrics::for_each_window(rank.ops, &windows, |i, window, inside| {
        if let Some(slot) = all.get_mut(i) {
            *slot = Some(parts(rank, window, inside));
        }
    });
    all
}

fn parts(rank: &RankWork<'_>, window: Span, inside: &[u32]) -> Classes {
    let ops = rank.ops;
    let set = |wanted: fn(Class) -> bool| {
        let of = inside.iter().map(|&op| op as usize).filter(|&op| wanted(ops.class[op]));
        SpanSet::from_unsorted(of.map(|op| ops.span(op).clip(window)).collect())
    };
    let comm = set(Class::is_comm);
    let compute = set(|class| class == Class::Compute);
    let copies = set(|class| !class.is_comm() && !class.is_kernel());
    let unknown = set(|class| class == Class::Unclassified);
    let exposed = comm.subtract(&compute);
    let busy = comm.union(&compute);
    let (waiting, transfer) = match &rank.waits {
        Some(waits) => (exposed.intersect(waits), exposed.subtract(waits)),
        None => (SpanSet::new(), exposed),
    };
    let idle = SpanSet::from_unsorted(vec![window]).subtract(&busy.union(&copies).union(&unknown));
    Classes {
        window,
        parts: [
            compute.subtract(&comm),
            transfer,
            waiting,
            comm.intersect(&compute),
            copies.subtract(&busy),
            idle,
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ops, work};
    use super::*;

    // window [0,100)
    // compute 0......30                   80....120
    // comm        20........50
    // waits       20......40
    // dtoh                    45....60
    //         compute 0-20, 80-100; overlap 20-30; waiting 30-40; transfer 40-50; copies 50-60; idle 60-80
    #[test]
    fn the_parts_of_a_step_by_hand() {
        let ops = ops(&[
            (0, 30, Class::Compute, 0),
            (20, 50, Class::Comm, 0),
            (45, 60, Class::Dtoh, 9),
            (80, 120, Class::Compute, 0),
        ]);
        let mut rank = work(&ops, &[(20, 40)], &[(0, 100)]);
        let parts = of(&rank)[0].clone().expect("a step");
        assert_eq!(parts.lengths(), [40, 10, 10, 10, 10, 20]);
        rank.waits = None;
        let parts = of(&rank)[0].clone().expect("a step");
        assert_eq!(parts.lengths(), [40, 20, 0, 10, 10, 20], "nobody knows of waiting");
    }
}
