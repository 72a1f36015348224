//! From the tallies of all files to one finished view.

use std::collections::{BTreeMap, BTreeSet};

use super::filter::Filter;
use super::inspected::{BandwidthCounts, Inspected};
use super::operations::{Operation, Operations, SeriesKey};
use super::repeats::{self, Repeats};
use super::stopped::{self, ByOp, Reached};
use super::tally::{Group, Seen, Series, Size, Sizes, Tally};
use super::view::{
    Algorithm, Band, Box5, CommRank, Communicator, Inspection, Named, Op, OpRank, Process, SCHEMA,
    Timeline,
};
use super::waits::{self, AllWaits, WaitTally, tail};
use super::{counts::Counts, findings, timeline};
use crate::catalogue::Id;
use crate::model::CommOp;
use crate::model::record::{Drops, LogFile, Timing, comm_class};
use crate::warning::Warning;

/// Missing ranks that are listed; all are counted.
const MISSING_LISTED: usize = 1024;

/// A process: host, pid, and the first of its files, because a pid can come again.
type ProcessKey<'a> = (&'a str, Option<u32>, usize);
/// A series of a communicator: kind and operation.
type OpKey = (bool, Option<CommOp>);

/// One communicator while it is put together.
#[derive(Default)]
struct Comm<'a> {
    name: Option<&'a str>,
    /// Ranks and nodes, by how many records say so.
    shapes: BTreeMap<(u32, Option<u32>), u64>,
    drops: Option<u64>,
    members: BTreeMap<u32, Member<'a>>,
    ops: BTreeMap<OpKey, OpTally>,
}

/// One rank of a communicator.
struct Member<'a> {
    process: ProcessKey<'a>,
    operations: u64,
    missing: u64,
    /// Of each collective the last number and the number of records.
    reached: BTreeMap<CommOp, Reached>,
}

/// A communicator of a process.
struct Membership<'a> {
    id: &'a str,
    n_ranks: u32,
    rank: u32,
    operations: u64,
}

/// One operation of a communicator.
#[derive(Default)]
struct OpTally {
    sizes: Sizes,
    ranks: BTreeMap<u32, Sizes>,
}

/// Puts together what was kept of each file; `logs` are in the order of their paths.
pub fn inspect(logs: Vec<(LogFile, Tally)>, filter: &Filter) -> Inspected {
    let mut logs = logs;
    let mask = logs.iter().map(|(_, t)| t.sample.mask).max().unwrap_or(0);
    for (_, tally) in &mut logs {
        tally.sample.thin(mask, &tally.seeds);
    }
    let repeats = repeats::find(&logs);
    let comms = communicators(&logs, &repeats);
    let seen = operations(&logs, &repeats, &comms);
    let mut memberships: BTreeMap<ProcessKey<'_>, Vec<Membership<'_>>> = BTreeMap::new();
    for (id, comm) in &comms {
        for (&rank, member) in &comm.members {
            memberships.entry(member.process).or_default().push(Membership {
                id,
                n_ranks: comm.shape().0,
                rank,
                operations: member.operations,
            });
        }
    }
    let processes: Vec<ProcessKey<'_>> = memberships.keys().copied().collect();
    let process_of = |comm: &str, rank: u32| {
        let member = comms.get(comm)?.members.get(&rank)?;
        processes.binary_search(&member.process).ok()
    };
    let size_of = |operation: &Operation<'_>| {
        let key = (operation.key.p2p, operation.key.op);
        let ranged = comms
            .get(&*operation.key.comm_id)
            .and_then(|c| c.ops.get(&key))
            .is_some_and(|op| op.sizes.ranged());
        Size::of_kept(operation.bytes, ranged)
    };
    let waits = waits::compare(&seen, size_of, process_of);
    let (all, mut by_comm) = timeline::timelines(&seen, size_of);
    let mut finished: Vec<(Communicator, Vec<BandwidthCounts>)> = comms
        .iter()
        .map(|(id, comm)| comm.finish(id, &seen, &waits, by_comm.remove(*id).unwrap_or_default()))
        .collect();
    let by_time = |a: f64, b: f64| b.total_cmp(&a);
    finished.sort_by(|(a, _), (b, _)| {
        by_time(a.total_time_us, b.total_time_us).then_with(|| a.comm_id.cmp(&b.comm_id))
    });
    let (communicators, bandwidths): (Vec<_>, Vec<_>) = finished.into_iter().unzip();
    let processes = memberships
        .iter()
        .enumerate()
        .map(|(i, (key, mine))| process(key, mine, waits.processes.get(&i)))
        .collect();
    let kept = || logs.iter().flat_map(|(_, t)| t.written);
    let mut warnings = findings::log_warnings(&logs);
    warnings.extend(repeats.warnings.iter().cloned());
    let mut formats: Vec<String> = logs.iter().flat_map(|(log, _)| log.formats.clone()).collect();
    formats.sort();
    formats.dedup();
    let mut inspection = Inspection {
        schema: SCHEMA,
        tool_version: env!("CARGO_PKG_VERSION"),
        settings: filter.settings(),
        records: logs.iter().map(|(log, _)| log.records).sum(),
        operations: communicators.iter().map(|c| c.operations).sum(),
        filtered_operations: logs.iter().map(|(_, t)| t.filtered).sum(),
        formats,
        first_us: kept().map(|(first, _)| first).min(),
        last_us: kept().map(|(_, last)| last).max(),
        compared_one_in: mask.saturating_add(1),
        communicators,
        processes,
        timeline: all,
        prometheus: Vec::new(),
        against: None,
        findings: Vec::new(),
        warnings: Vec::new(),
        files: Vec::new(),
    };
    warnings.extend(shape_warnings(&comms));
    warnings.extend(comms.iter().flat_map(|(id, comm)| comm.stopped(id)));
    drop(waits);
    let left_out = repeats.left_out.clone();
    for (log, _) in &mut logs {
        inspection.prometheus.append(&mut log.prometheus);
    }
    inspection.files = logs.into_iter().map(|(log, _)| log).collect();
    warnings.extend(findings::view_warnings(&inspection, &seen));
    warnings.sort();
    inspection.findings = findings::findings(&inspection);
    inspection.warnings = warnings;
    Inspected { view: inspection, left_out, seen, bandwidths }
}

/// Origins of all files whose records count, with their place.
fn counted<'a>(
    logs: &'a [(LogFile, Tally)],
    repeats: &'a Repeats,
) -> impl Iterator<Item = (usize, usize, &'a Tally)> {
    logs.iter().enumerate().flat_map(move |(file, (_, tally))| {
        let used = move |&origin: &usize| !repeats.left_out.contains(&(file, origin));
        (0..tally.origins.len()).filter(used).map(move |origin| (file, origin, tally))
    })
}

fn communicators<'a>(
    logs: &'a [(LogFile, Tally)],
    repeats: &'a Repeats,
) -> BTreeMap<&'a str, Comm<'a>> {
    let mut comms: BTreeMap<&str, Comm<'_>> = BTreeMap::new();
    let by_origin: Vec<Vec<Vec<&Series>>> =
        logs.iter().map(|(_, tally)| series_by_origin(tally)).collect();
    for (file, index, tally) in counted(logs, repeats) {
        let Some(origin) = tally.origins.get(index).filter(|o| o.wanted) else { continue };
        let who = &origin.origin;
        let comm = comms.entry(&who.comm_id).or_default();
        comm.name = comm.name.or(who.comm_name.as_deref());
        let series =
            by_origin.get(file).and_then(|file| file.get(index)).map_or(&[][..], Vec::as_slice);
        let operations: u64 =
            series.iter().flat_map(|s| s.sizes.groups().map(|(_, g)| g.count)).sum();
        *comm.shapes.entry((who.n_ranks, who.nnodes)).or_default() += operations.max(1);
        if let Some(Drops { coll, p2p }) = origin.drops {
            comm.drops = Some(comm.drops.unwrap_or(0).saturating_add(coll).saturating_add(p2p));
        }
        let process =
            (who.hostname.as_str(), who.pid, repeats.process.get(file).copied().unwrap_or(file));
        let member = comm.members.entry(who.rank).or_insert_with(|| Member {
            process,
            operations: 0,
            missing: 0,
            reached: BTreeMap::new(),
        });
        member.operations += operations;
        for series in series {
            if !series.p2p {
                member.missing = member.missing.saturating_add(series.sequence.missing);
                if let (Some(op), Some((_, last))) = (series.op, series.sequence.range) {
                    let reached = member.reached.entry(op).or_default();
                    reached.last = reached.last.max(last);
                    reached.records += series.sequence.count;
                }
            }
            let op = comm.ops.entry((series.p2p, series.op)).or_default();
            op.sizes.merge(&series.sizes);
            op.ranks.entry(who.rank).or_default().merge(&series.sizes);
        }
    }
    // A rank counts in ranges where its communicator does.
    for op in comms.values_mut().flat_map(|c| c.ops.values_mut()).filter(|op| op.sizes.ranged()) {
        op.ranks.values_mut().for_each(Sizes::count_in_ranges);
    }
    comms
}

fn series_by_origin(tally: &Tally) -> Vec<Vec<&Series>> {
    let mut list = vec![Vec::new(); tally.origins.len()];
    for series in &tally.series {
        if let Some(of_origin) = list.get_mut(series.origin) {
            of_origin.push(series);
        }
    }
    list
}

fn operations(
    logs: &[(LogFile, Tally)],
    repeats: &Repeats,
    comms: &BTreeMap<&str, Comm<'_>>,
) -> Operations {
    let keys: Vec<SeriesKey> = comms
        .iter()
        .flat_map(|(id, comm)| {
            let n_ranks = comm.shape().0;
            comm.ops.keys().map(move |&(p2p, op)| SeriesKey {
                comm_id: (*id).to_owned(),
                p2p,
                op,
                n_ranks,
            })
        })
        .collect();
    let place: BTreeMap<(&str, bool, Option<CommOp>), u32> = keys
        .iter()
        .zip(0_u32..)
        .map(|(key, at)| ((key.comm_id.as_str(), key.p2p, key.op), at))
        .collect();
    let mut seen: Vec<Seen> = Vec::new();
    for (file, (_, tally)) in logs.iter().enumerate() {
        let global: Vec<Option<u32>> = tally
            .series
            .iter()
            .map(|s| {
                let origin = tally
                    .origins
                    .get(s.origin)
                    .filter(|_| !repeats.left_out.contains(&(file, s.origin)))?;
                place.get(&(origin.origin.comm_id.as_str(), s.p2p, s.op)).copied()
            })
            .collect();
        let of = |s: &Seen| global.get(s.series as usize).copied().flatten();
        seen.extend(tally.sample.seen.iter().filter_map(|s| Some(Seen { series: of(s)?, ..*s })));
    }
    Operations::new(keys, seen)
}

impl Comm<'_> {
    /// Ranks that end before the others.
    fn stopped(&self, id: &str) -> Vec<Warning> {
        let mut by_op = ByOp::new();
        for (&rank, member) in &self.members {
            for (&op, &reached) in &member.reached {
                by_op.entry(op).or_default().insert(rank, reached);
            }
        }
        stopped::warnings(id, &by_op)
    }

    /// Ranks and nodes as most records have them.
    fn shape(&self) -> (u32, Option<u32>) {
        self.shapes
            .iter()
            .max_by_key(|&(shape, count)| (count, std::cmp::Reverse(shape)))
            .map_or((0, None), |(shape, _)| *shape)
    }

    fn finish(
        &self,
        id: &str,
        seen: &Operations,
        waits: &AllWaits<'_>,
        timeline: Timeline,
    ) -> (Communicator, Vec<BandwidthCounts>) {
        let (n_ranks, nnodes) = self.shape();
        let mut ops: Vec<(Op, BandwidthCounts)> = Vec::new();
        for (&(p2p, op), tally) in &self.ops {
            let series = seen
                .series()
                .binary_search_by(|key| (key.comm_id.as_str(), key.p2p, key.op).cmp(&(id, p2p, op)))
                .ok();
            for (size, group) in tally.sizes.groups() {
                let compared = series.and_then(|s| waits.groups.get(&(s, size)));
                let finished = finish_op(op, n_ranks, size, group, compared, &tally.ranks);
                ops.push((finished, group.busbw.sorted()));
            }
        }
        ops.sort_by(|(a, _), (b, _)| {
            b.total_time_us
                .total_cmp(&a.total_time_us)
                .then_with(|| (a.op.label(), a.bytes).cmp(&(b.op.label(), b.bytes)))
        });
        let (ops, bandwidths): (Vec<_>, Vec<_>) = ops.into_iter().unzip();
        let hosts: BTreeSet<&str> = self.members.values().map(|m| m.process.0).collect();
        let ranks: Vec<CommRank> = self
            .members
            .iter()
            .map(|(&rank, member)| CommRank {
                rank,
                hostname: member.process.0.to_owned(),
                pid: member.process.1,
                operations: member.operations,
                missing_operations: member.missing,
                waits: waits.ranks.get(&(id, rank)).map(WaitTally::finish).unwrap_or_default(),
            })
            .collect();
        let communicator = Communicator {
            comm_id: id.to_owned(),
            name: self.name.map(str::to_owned),
            n_ranks,
            nnodes,
            class: comm_class(n_ranks, nnodes).to_owned(),
            ranks_seen: self.members.keys().copied().collect(),
            ranks_missing: (0..n_ranks)
                .filter(|rank| !self.members.contains_key(rank))
                .take(MISSING_LISTED)
                .collect(),
            ranks_missing_count: n_ranks - self.members.range(..n_ranks).count() as u32,
            hosts: hosts.into_iter().map(str::to_owned).collect(),
            operations: ranks.iter().map(|r| r.operations).sum(),
            total_time_us: ops.iter().map(|op| op.total_time_us).sum(),
            missing_operations: ranks
                .iter()
                .fold(0, |sum, r| sum.saturating_add(r.missing_operations)),
            dropped: self.drops,
            ranks,
            ops,
            timeline,
        };
        (communicator, bandwidths)
    }
}

fn finish_op(
    op: Option<CommOp>,
    n_ranks: u32,
    size: Size,
    group: &Group,
    compared: Option<&waits::GroupWaits>,
    ranks: &BTreeMap<u32, Sizes>,
) -> Op {
    // Every busbw of a group is its algbw times the same factor; a factor of 0 (one rank) leaves nothing to divide by.
    let factor = op.map(|op| op.bus_factor(n_ranks)).filter(|&f| f > 0.0);
    let busbw = band(&group.busbw);
    let algbw =
        busbw.zip(factor).map(|(b, f)| Band { median: b.median / f, p5: b.p5 / f, p95: b.p95 / f });
    let (bytes, bytes_range) = match size {
        Size::Unknown => (None, None),
        Size::Exact(bytes) => (Some(bytes), None),
        Size::Range(exponent) => {
            let from =
                if exponent == 0 { 0 } else { 1_u64.checked_shl(exponent).unwrap_or(u64::MAX) };
            (
                None,
                Some([from, 2_u64.checked_shl(exponent).filter(|&to| to > 0).unwrap_or(u64::MAX)]),
            )
        }
    };
    let timing = Timing::ALL.iter().zip(group.timing).filter(|&(_, count)| count > 0);
    let of_rank = |(&rank, sizes): (&u32, &Sizes)| {
        let (_, group) = sizes.groups().find(|&(s, _)| s == size)?;
        Some(OpRank {
            rank,
            count: group.count,
            exec_time_us: group.exec.median(),
            busbw_gbs: box5(&group.busbw),
        })
    };
    Op {
        op: Named(op),
        bytes,
        bytes_range,
        count: group.count,
        total_time_us: group.total_us,
        exec_time_us: tail(&group.exec),
        algbw_gbs: algbw,
        busbw_gbs: busbw,
        logged_busbw_gbs_mean: (group.logged.1 > 0 && op.is_some())
            .then(|| group.logged.0 / group.logged.1 as f64),
        timing_sources: timing.map(|(timing, count)| (timing.label().to_owned(), count)).collect(),
        without_time: group.count - group.exec.len(),
        sizes_corrected: group.sizes_corrected,
        algorithms: group
            .algorithms
            .iter()
            .map(|((algo, proto), &count)| Algorithm {
                algo: algo.clone(),
                proto: proto.clone(),
                count,
            })
            .collect(),
        compared: compared.map_or(0, |c| c.transfer.len()),
        transfer_us: compared.and_then(|c| tail(&c.transfer)),
        transfer_busbw_gbs: compared.and_then(|c| band(&c.transfer_busbw)),
        wait_us: compared.and_then(|c| tail(&c.waits)),
        ranks: ranks.iter().filter_map(of_rank).collect(),
    }
}

fn band(counts: &Counts) -> Option<Band> {
    let [p5, median, p95] = counts.quantiles([0.05, 0.5, 0.95]);
    Some(Band { median: median?, p5: p5?, p95: p95? })
}

fn box5(counts: &Counts) -> Option<Box5> {
    let [p5, p25, median, p75, p95] = counts.quantiles([0.05, 0.25, 0.5, 0.75, 0.95]);
    Some(Box5 { p5: p5?, p25: p25?, median: median?, p75: p75?, p95: p95? })
}

fn process(key: &ProcessKey<'_>, mine: &[Membership<'_>], waits: Option<&WaitTally>) -> Process {
    // The largest communicator is the job's world; of several the smallest id, so that all processes choose the same one.
    let world = mine.iter().max_by_key(|m| (m.n_ranks, std::cmp::Reverse(m.id)));
    Process {
        hostname: key.0.to_owned(),
        pid: key.1,
        rank: world.map_or(0, |m| m.rank),
        communicators: mine.len(),
        operations: mine.iter().map(|m| m.operations).sum(),
        waits: waits.map(WaitTally::finish).unwrap_or_default(),
    }
}

fn shape_warnings(comms: &BTreeMap<&str, Comm<'_>>) -> Vec<Warning> {
    let torn = comms.iter().filter(|(_, comm)| comm.shapes.len() > 1);
    torn.map(|(id, comm)| {
        let (n_ranks, nnodes) = comm.shape();
        let nodes = nnodes.map_or_else(|| "unknown nodes".to_owned(), |n| format!("{n} nodes"));
        Warning::new(
            Id::CommunicatorShapes,
            format!("Records of communicator {id} disagree on its size; most say {n_ranks} ranks on {nodes}, which is used."),
        )
        .with_hint("Logs of several runs may be mixed; inspect them one by one.")
    })
    .collect()
}
