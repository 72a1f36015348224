//! The time axis of a trace: the common clock, from the earliest thing in the capture on.

use crate::collectives::clocks::RankClock;
use crate::model::{Ns, Span};
use crate::run::{RankRun, Run};

/// Where times of each rank stand on the axis.
#[derive(Debug)]
pub struct Times<'a> {
    clocks: &'a [RankClock],
    /// For each rank the first one whose clock it can be compared with.
    groups: Vec<usize>,
    /// For each rank what is time 0, on its group's common clock.
    zero: Vec<Ns>,
}

impl<'a> Times<'a> {
    /// The axis of a run.
    pub fn new(run: &'a Run) -> Times<'a> {
        let clocks = run.across.clocks.as_slice();
        let first_comparable =
            |at: usize| (0..at).find(|&other| clocks[other].comparable(&clocks[at])).unwrap_or(at);
        let groups: Vec<usize> = (0..run.ranks.len()).map(first_comparable).collect();
        let earliest: Vec<Ns> = run
            .ranks
            .iter()
            .zip(clocks)
            .map(|(rank, clock)| clock.common(earliest(rank)))
            .collect();
        let of_group = |&group: &usize| {
            let members = groups.iter().zip(&earliest).filter(|(other, _)| **other == group);
            members.map(|(_, &at)| at).min().unwrap_or(0)
        };
        let zero = groups.iter().map(of_group).collect();
        Times { clocks, groups, zero }
    }

    /// A time of a rank's report.
    pub fn at(&self, rank: usize, own: Ns) -> Ns {
        self.common(rank, self.clocks[rank].common(own))
    }

    /// A time on the common clock.
    pub fn common(&self, rank: usize, at: Ns) -> Ns {
        at.saturating_sub(self.zero[rank])
    }

    /// A span of a rank's report.
    pub fn span(&self, rank: usize, own: Span) -> Span {
        Span::new(self.at(rank, own.start), self.at(rank, own.end))
    }

    /// Ranks with one number can be compared: it is the position of the first of them.
    pub fn group(&self, rank: usize) -> usize {
        self.groups[rank]
    }

    /// True if all ranks can be compared.
    pub fn is_one(&self) -> bool {
        self.groups.iter().all(|&group| group == 0)
    }

    /// What time 0 is for each rank on its common clock, which is Unix time where reports say it: a JSON list of texts, since
    /// numbers of that size are not exact in every reader.
    pub fn origins(&self) -> String {
        let list: Vec<String> = self.zero.iter().map(|zero| format!("\"{zero}\"")).collect();
        format!("[{}]", list.join(","))
    }
}

/// The earliest time that may be drawn of a rank, in its report's own time.
fn earliest(rank: &RankRun) -> Ns {
    let trace = &rank.trace;
    let calls = trace.host.as_ref().and_then(|host| host.calls.start.first().copied());
    let steps = rank.measured.steps.iter();
    let windows = steps.filter_map(|step| step.window.as_ref().ok().map(|window| window.start));
    [
        trace.ops.start.first().copied(),
        trace.ranges.iter().next().map(|range| range.start),
        trace.nccl.first().map(|call| call.start),
        calls,
        windows.min(),
    ]
    .into_iter()
    .flatten()
    .min()
    .unwrap_or(0)
}
