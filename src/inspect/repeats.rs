//! The same rank in several files: copies of one log, parts of one log, or two runs.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::{HashMap, HashMapExt};

use super::tally::Tally;
use crate::catalogue::Id;
use crate::model::record::LogFile;
use crate::warning::Warning;

/// What several files say about one another.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Repeats {
    /// Origins (file, index in it) whose records stand in another file too and are left out here.
    pub left_out: BTreeSet<(usize, usize)>,
    /// For each file the first file of the same process.
    pub process: Vec<usize>,
    /// What was done.
    pub warnings: Vec<Warning>,
}

/// Compares files that hold the same rank of the same communicator, by the times at which equal sequence numbers were written.
pub(super) fn find(logs: &[(LogFile, Tally)]) -> Repeats {
    let mut holders: BTreeMap<(&str, u32), Vec<(usize, usize)>> = BTreeMap::new();
    for (file, (_, tally)) in logs.iter().enumerate() {
        for (origin, o) in tally.origins.iter().enumerate().filter(|(_, o)| o.wanted) {
            holders.entry((&o.origin.comm_id, o.origin.rank)).or_default().push((file, origin));
        }
    }
    let mut repeats = Repeats { process: (0..logs.len()).collect(), ..Repeats::default() };
    let mut copies: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    let mut conflicts: BTreeSet<(usize, usize)> = BTreeSet::new();
    holders.retain(|_, holders| holders.len() > 1);
    let mut written = written(logs, holders.values().flatten().copied());
    for holders in holders.values() {
        let mut times: Vec<_> =
            holders.iter().map(|&at| (at, written.remove(&at).unwrap_or_default())).collect();
        // The fullest first, so that a shorter copy is the one that goes.
        times.sort_by_key(|((file, origin), times)| {
            (std::cmp::Reverse(times.len()), *file, *origin)
        });
        let mut kept: Vec<&((usize, usize), HashMap<_, _>)> = Vec::new();
        for candidate in &times {
            let overlap = |kept: &((usize, usize), HashMap<Key, i64>)| {
                let common =
                    candidate.1.iter().filter_map(|(key, at)| Some((at, kept.1.get(key)?)));
                common.fold((0_u64, 0_u64), |(n, equal), (a, b)| (n + 1, equal + u64::from(a == b)))
            };
            let Some((other, (common, equal))) =
                kept.iter().map(|k| (k.0, overlap(k))).max_by_key(|(_, (_, equal))| *equal)
            else {
                kept.push(candidate);
                continue;
            };
            let (here, there) = (candidate.0.0, other.0);
            if common > 0 && equal * 2 > common {
                repeats.left_out.insert(candidate.0);
                *copies.entry((here, there)).or_default() += candidate.1.len() as u64;
                continue;
            }
            if common > 0 {
                conflicts.insert((here.min(there), here.max(there)));
            } else {
                join(&mut repeats.process, here, there);
            }
            kept.push(candidate);
        }
    }
    let name = |file: usize| logs.get(file).map_or("", |(log, _)| log.path.as_str());
    for ((here, there), records) in copies {
        repeats.warnings.push(
            Warning::new(
                Id::RepeatedFile,
                format!(
                    "{} repeats records of {} ({records} compared): they count once.",
                    name(here),
                    name(there)
                ),
            )
            .with_hint("Name each log once; a .log beside its .log.gz is one log."),
        );
    }
    if let Some(&(a, b)) = conflicts.first() {
        let more = if conflicts.len() > 1 {
            format!(" (and {} other pairs of files)", conflicts.len() - 1)
        } else {
            String::new()
        };
        repeats.warnings.push(
            Warning::new(
                Id::SameRankTwice,
                format!("{} and {}{more} hold different records for the same rank of the same communicator.", name(a), name(b)),
            )
            .with_hint("If they are two runs, inspect them one by one, or one --against the other."),
        );
    }
    repeats.warnings.extend(reused_pids(logs, &repeats));
    repeats
}

/// Operation, kind and sequence number.
type Key = (Option<crate::model::CommOp>, bool, u64);

/// When the operations of each of these origins were written, as far as they were kept one by one.
fn written(
    logs: &[(LogFile, Tally)],
    origins: impl Iterator<Item = (usize, usize)>,
) -> HashMap<(usize, usize), HashMap<Key, i64>> {
    let mut all: HashMap<(usize, usize), HashMap<Key, i64>> =
        origins.map(|at| (at, HashMap::new())).collect();
    let files: BTreeSet<usize> = all.keys().map(|(file, _)| *file).collect();
    for (file, tally) in files.into_iter().filter_map(|file| Some((file, &logs.get(file)?.1))) {
        for seen in &tally.sample.seen {
            let Some(series) = tally.series.get(seen.series as usize) else { continue };
            if let Some(times) = all.get_mut(&(file, series.origin)) {
                times.insert((series.op, series.p2p, seen.sn), seen.written_us);
            }
        }
    }
    all
}

/// Makes two files one process, named by the smaller index.
fn join(process: &mut [usize], a: usize, b: usize) {
    let (Some(&root_a), Some(&root_b)) = (process.get(a), process.get(b)) else { return };
    let (from, to) = (root_a.max(root_b), root_a.min(root_b));
    process.iter_mut().filter(|p| **p == from).for_each(|p| *p = to);
}

/// A host and pid that stand in several files which are not parts of one log: a restarted job that got the same pid.
fn reused_pids(logs: &[(LogFile, Tally)], repeats: &Repeats) -> Vec<Warning> {
    let mut files: BTreeMap<(&str, u32), BTreeMap<usize, &str>> = BTreeMap::new();
    for (file, (log, tally)) in logs.iter().enumerate() {
        for (_, o) in tally
            .origins
            .iter()
            .enumerate()
            .filter(|(i, o)| o.wanted && !repeats.left_out.contains(&(file, *i)))
        {
            if let Some(pid) = o.origin.pid {
                let process = repeats.process.get(file).copied().unwrap_or(file);
                files
                    .entry((&o.origin.hostname, pid))
                    .or_default()
                    .entry(process)
                    .or_insert(&log.path);
            }
        }
    }
    let reused = files.into_iter().filter(|(_, files)| files.len() > 1);
    reused
        .map(|((host, pid), files)| {
            let names: Vec<&str> = files.into_values().collect();
            Warning::new(Id::PidTwice, format!("pid {pid} on {host} wrote {}: taken as {} processes.", crate::units::listed(&names, 3), names.len()))
                .with_hint("A restarted job can get the same pid; inspect the runs one by one if these are two.")
        })
        .collect()
}
