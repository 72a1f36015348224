//! From traces and steps to matched, measured collectives.

use std::collections::{BTreeMap, HashMap};

use super::clocks::{self, RankClock};
use super::events::Event;
use super::groups::Measured;
use super::matching::{self, Matching, RankEvents};
use super::transfer;
use crate::analysis::run::StepKey;
use crate::model::{RankTrace, Span};
use crate::steps::Step;
use crate::steps::window::{Owner, Owners};

/// Everything about communication across ranks.
#[derive(Debug)]
pub struct Across {
    /// Matched collectives with their numbers.
    pub measured: Vec<Measured>,
    /// The clock of each rank.
    pub clocks: Vec<RankClock>,
    /// (rank, reason) to the number of operations without a partner.
    pub unmatched: BTreeMap<(u32, &'static str), u64>,
}

/// Which step launched each event: by its launch where steps are ranges, else by the window in which it starts.
pub fn steps_of_events(events: &[Event], steps: &[Step]) -> Vec<Option<usize>> {
    let ranges: Option<Vec<Span>> = steps.iter().map(|step| step.range).collect();
    match ranges {
        Some(ranges) => {
            let owners = Owners::new(ranges);
            let owner = |event: &Event| match owners.of(event.launch) {
                Owner::Step(step) => Some(step as usize),
                _ => None,
            };
            events.iter().map(owner).collect()
        }
        None => {
            let inside = |event: &Event| steps.iter().position(|s| s.window.as_ref().is_ok_and(|w| w.contains(event.start)));
            match steps {
                [only] => events.iter().map(|e| only.window.as_ref().is_ok_and(|w| w.contains(e.start)).then_some(0)).collect(),
                _ => {
                    // Windows of kernel steps follow each other: one search for each event.
                    let starts: Vec<(i64, usize)> =
                        steps.iter().enumerate().filter_map(|(i, s)| s.window.as_ref().ok().map(|w| (w.start, i))).collect();
                    if starts.windows(2).any(|w| w[0].0 > w[1].0) {
                        return events.iter().map(inside).collect();
                    }
                    let find = |event: &Event| {
                        let before = starts.partition_point(|s| s.0 <= event.start);
                        let (_, step) = *starts.get(before.checked_sub(1)?)?;
                        steps[step].window.as_ref().is_ok_and(|w| w.contains(event.start)).then_some(step)
                    };
                    events.iter().map(find).collect()
                }
            }
        }
    }
}

/// Matches and measures. `keys` and `steps` are those of each rank, `events` its communication.
pub fn across(traces: &[RankTrace], events: &[Vec<Event>], steps: &[Vec<Step>], keys: &[Vec<StepKey>]) -> Across {
    let lists: Vec<&[Event]> = events.iter().map(Vec::as_slice).collect();
    let owners: Vec<Vec<Option<usize>>> = events.iter().zip(steps).map(|(e, s)| steps_of_events(e, s)).collect();
    let rank_events = |clocks: Option<&'_ [RankClock]>| -> Matching {
        let ranks: Vec<RankEvents<'_>> = traces
            .iter()
            .enumerate()
            .map(|(r, trace)| RankEvents {
                rank: trace.rank,
                events: &events[r],
                step: owners[r].clone(),
                steps: &keys[r],
                names: &trace.names,
                clock: clocks.map(|list| &list[r]),
            })
            .collect();
        matching::match_events(&ranks)
    };
    let epochs: Vec<Option<i64>> = traces.iter().map(|t| t.epoch_ns).collect();
    let mut found = rank_events(None);
    let mut clocks = clocks::align(&lists, &epochs, &found.matches);
    if found.unmatched.keys().any(|(_, reason)| *reason == matching::UNEQUAL) {
        // The equal part has set the clocks; now they can decide about the unequal part.
        found = rank_events(Some(&clocks));
        clocks = clocks::align(&lists, &epochs, &found.matches);
    }
    let sizes = sizes(traces, events);
    let measured = found
        .matches
        .into_iter()
        .map(|found| {
            let timing = transfer::timing(&found, &lists, &clocks);
            let (r, e) = found.members[0];
            let n_ranks = events[r][e].comm.map_or(sizes.all, |comm| sizes.of.get(&comm).copied().or(sizes.all));
            // A communicator that is not whole here has an unknown share of its ranks waiting elsewhere.
            let n_ranks = n_ranks.filter(|n| *n as usize == found.members.len() || events[r][e].op == crate::model::CommOp::SendRecv);
            Measured { found, timing, n_ranks }
        })
        .collect();
    Across { measured, clocks, unmatched: found.unmatched }
}

/// Sizes of communicators.
struct Sizes {
    /// From init payloads.
    of: HashMap<u64, u32>,
    /// Of one whose init is not in the capture: the ranks that use it, if every rank of the run is here.
    all: Option<u32>,
}

fn sizes(traces: &[RankTrace], events: &[Vec<Event>]) -> Sizes {
    let mut of: HashMap<u64, u32> = traces.iter().flat_map(|t| t.comm_inits.iter().map(|init| (init.comm, init.n_ranks))).collect();
    let world = traces.iter().filter_map(|t| t.world_size).max();
    let complete = world.is_none_or(|world| world as usize <= traces.len());
    if complete {
        let mut users: HashMap<u64, u32> = HashMap::new();
        for list in events {
            let used: std::collections::BTreeSet<u64> = list.iter().filter_map(|e| e.comm).collect();
            used.into_iter().for_each(|comm| *users.entry(comm).or_default() += 1);
        }
        users.into_iter().for_each(|(comm, n)| {
            of.entry(comm).or_insert(n);
        });
    }
    Sizes { of, all: complete.then_some(traces.len() as u32) }
}
