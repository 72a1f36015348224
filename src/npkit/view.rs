//! What dumps alone say: the view model of `nsysnccl npkit`, every number final.

use std::collections::BTreeMap;

use serde::Serialize;

use super::channels::{Channel, Member, channels};
use super::dump::Dump;
use super::findings;
use super::group::{self, Group};
use super::phases::{self, Phases};
use super::totals::{EventTotal, totals};
use crate::catalogue::{Finding, Id};
use crate::warning::Warning;

/// Name and version of the JSON document.
pub const SCHEMA: &str = "nsysnccl.npkit/1";
/// Collectives of one rank that are listed, over all ranks.
const MOST_LISTED: usize = 100_000;

/// What dumps say.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Npkit {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Version of this program.
    pub tool_version: &'static str,
    /// The folders or the file.
    pub inputs: Vec<String>,
    /// The library that wrote it; several, if all of them fit.
    pub library: String,
    /// The ranks, as numbered inside the communicator.
    pub ranks: Vec<u32>,
    /// Records, those of the clocks not counted.
    pub events: u64,
    /// Records that were dropped because a buffer was full: 0, or `None` for an unknown number.
    pub dropped: Option<u64>,
    /// Unix time of the first event, ns: the zero of all times.
    pub epoch_ns: Option<i64>,
    /// The GPU's clock by rank.
    pub clocks: BTreeMap<u32, GpuClock>,
    /// Collectives in order of time: the n-th of each rank.
    pub collectives: Vec<Collective>,
    /// Channel by channel.
    pub channels: Vec<Channel>,
    /// All events by name.
    pub totals: Vec<EventTotal>,
    /// Explanations with evidence.
    pub findings: Vec<Finding>,
    /// What is missing or doubtful.
    pub problems: Vec<Warning>,
}

/// The GPU's clock of one rank, kHz.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GpuClock {
    /// The rate that times rest on: usually the highest that the GPU can run at.
    pub nominal_khz: Option<f64>,
    /// The rate between clock records, median.
    pub measured_khz: Option<f64>,
}

/// One collective over its ranks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Collective {
    /// Position in order of time, from 0.
    pub index: usize,
    /// From the first rank's first event to the last rank's, ns; `None` with one rank. Of ranks on different hosts their clocks
    /// are in it.
    pub entry_spread_ns: Option<i64>,
    /// What each rank did.
    pub ranks: BTreeMap<u32, RankCollective>,
}

/// One collective on one rank.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RankCollective {
    /// First event, ns after `epoch_ns`.
    pub start_ns: i64,
    /// Last event, ns after `epoch_ns`.
    pub end_ns: i64,
    /// How much later than the first rank it began, ns; `None` with one rank.
    pub late_ns: Option<i64>,
    /// Where the time goes.
    #[serde(flatten)]
    pub phases: Phases,
}

/// The view of a dump. `inputs` are the paths as they were typed.
pub fn view(dump: &Dump, inputs: Vec<String>) -> Npkit {
    let groups: BTreeMap<u32, Vec<Group>> =
        dump.ranks.iter().map(|(rank, of_rank)| (*rank, group::groups(of_rank))).collect();
    let epoch_ns = groups.values().filter_map(|groups| Some(groups.first()?.start_ns)).min();
    let mut problems = dump.problems.clone();
    problems.extend(unequal(&groups));
    let most = MOST_LISTED / dump.ranks.len().max(1);
    let all = groups.values().map(Vec::len).max().unwrap_or(0);
    if all > most {
        problems.push(Warning::new(
            Id::LeftOut,
            format!("The first {most} of {all} collectives are listed; totals are of all."),
        ));
    }
    let collectives: Vec<Collective> = (0..all.min(most))
        .map(|index| collective(index, &groups, dump, epoch_ns.unwrap_or(0)))
        .collect();
    problems.sort();
    Npkit {
        schema: SCHEMA,
        tool_version: env!("CARGO_PKG_VERSION"),
        inputs,
        library: dump.ids.label(),
        ranks: dump.ranks.keys().copied().collect(),
        events: dump.events,
        dropped: (!dump.full).then_some(0),
        epoch_ns,
        clocks: dump
            .ranks
            .iter()
            .map(|(rank, of_rank)| {
                let (nominal_khz, measured_khz) = (of_rank.gpu_khz, of_rank.measured_khz);
                (*rank, GpuClock { nominal_khz, measured_khz })
            })
            .collect(),
        channels: channels(&members(&collectives)),
        findings: findings::find(&members(&collectives)),
        collectives,
        totals: totals(dump),
        problems,
    }
}

fn collective(
    index: usize,
    groups: &BTreeMap<u32, Vec<Group>>,
    dump: &Dump,
    zero_ns: i64,
) -> Collective {
    let here: Vec<(u32, &Group)> =
        groups.iter().filter_map(|(rank, groups)| Some((*rank, groups.get(index)?))).collect();
    let first = here.iter().map(|(_, group)| group.start_ns).min().filter(|_| here.len() > 1);
    let late = |group: &Group| first.map(|first| group.start_ns.saturating_sub(first));
    let ranks = here.iter().filter_map(|(rank, group)| {
        let of_rank = dump.ranks.get(rank)?;
        let (lanes, proxies) = (group.lanes(of_rank), group.proxies(of_rank));
        let phases = phases::of(&lanes, &proxies, of_rank, &dump.ids, zero_ns);
        let (start_ns, end_ns) =
            (group.start_ns.saturating_sub(zero_ns), group.end_ns.saturating_sub(zero_ns));
        Some((*rank, RankCollective { start_ns, end_ns, late_ns: late(group), phases }))
    });
    Collective {
        index,
        entry_spread_ns: here.iter().filter_map(|(_, group)| late(group)).max(),
        ranks: ranks.collect(),
    }
}

/// Ranks of one communicator take part in the same collectives.
fn unequal(groups: &BTreeMap<u32, Vec<Group>>) -> Option<Warning> {
    let counts = || groups.iter().filter(|(_, groups)| !groups.is_empty());
    let (fewest, most) = (
        counts().min_by_key(|(_, groups)| groups.len())?,
        counts().max_by_key(|(_, groups)| groups.len())?,
    );
    (fewest.1.len() < most.1.len()).then(|| {
        Warning::new(
            Id::RanksDiffer,
            format!(
                "Rank {} has {} collectives and rank {} has {}: which of them are the same is not certain.",
                fewest.0,
                fewest.1.len(),
                most.0,
                most.1.len()
            ),
        )
        .with_hint("NPKit keeps one communicator a process: a later one may have written over the files of an earlier one. A full buffer has the same effect.")
    })
}

fn members(collectives: &[Collective]) -> Vec<Member<'_>> {
    collectives
        .iter()
        .flat_map(|collective| {
            collective.ranks.iter().map(|(rank, view)| Member {
                collective: collective.index,
                rank: *rank,
                late_ns: view.late_ns,
                length_ns: view.end_ns.saturating_sub(view.start_ns),
                phases: &view.phases,
            })
        })
        .collect()
}
