//! Where in the program a step's time goes (metrics definition, section 10).
//!
//! Each nanosecond of a step on a rank is counted to one operation ([`parts`]); operations stand where they were launched
//! ([`ranges`]). Also what the host did while the GPU was idle ([`idle`]), and which kernels take longer on one rank than on
//! the others ([`excess`]). What is printed stands in [`view`].

pub(crate) mod excess;
pub(crate) mod idle;
pub(crate) mod parts;
pub(crate) mod ranges;
pub(crate) mod rank;
pub(crate) mod view;

use std::collections::BTreeMap;

use foldhash::{HashMap, HashMapExt};
use rayon::prelude::*;

use self::idle::Gap;
use self::parts::{Part, Piece};
use self::ranges::Stood;
use self::rank::Rank;
use self::view::{IdleTime, Place, Places};
use crate::analysis::step_metrics::for_each_window;
use crate::collectives::groups::CollectiveGroup;
use crate::dependency::across::operation;
use crate::dependency::path::OnPath;
use crate::model::{Class, CommOp, NameId, Ns, Span};

/// Rows of a table; the rest is one row.
const MOST_ROWS: usize = 40;

/// Sums over steps and ranks.
#[derive(Debug, Default, Clone, Copy)]
struct Sums {
    parts: [i128; 5],
    critical: i128,
    count: u64,
}

impl Sums {
    fn add(&mut self, other: &Sums) {
        self.parts.iter_mut().zip(other.parts).for_each(|(a, b)| *a += b);
        self.critical += other.critical;
        self.count += other.count;
    }
}

/// The tables of one rank by name.
#[derive(Debug, Default)]
struct Tables {
    phase: BTreeMap<String, Sums>,
    layer: BTreeMap<String, Sums>,
    communicator: BTreeMap<String, Sums>,
    kernel: BTreeMap<String, Sums>,
}

/// Where the time of the counted steps goes. `groups` are the collectives of the run, `path` is what lies on critical paths;
/// `None` without a replay.
pub(crate) fn of(ranks: &[Rank<'_>], groups: &[CollectiveGroup], path: Option<&OnPath>) -> Places {
    let steps = ranks.iter().map(|rank| rank.steps.len()).min().unwrap_or(0);
    if steps == 0 {
        return Places {
            reason: Some("no counted step is on all ranks".to_owned()),
            ..Places::default()
        };
    }
    let roles = view::roles(groups, ranks.len());
    let all: Vec<OfRank> = ranks
        .par_iter()
        .enumerate()
        .map(|(r, rank)| of_rank(rank, &roles, path.and_then(|path| path.get(r))))
        .collect();
    let has_ranges = all.iter().any(|rank| rank.has_ranges);
    let mut sum = Tables::default();
    let mut hosts = Vec::new();
    for OfRank { tables, idle, .. } in all {
        merge(&mut sum.phase, tables.phase);
        merge(&mut sum.layer, tables.layer);
        merge(&mut sum.communicator, tables.communicator);
        merge(&mut sum.kernel, tables.kernel);
        hosts.extend(idle);
    }
    idle::sort(&mut hosts);
    let rows = |table| rows(table, steps, ranks.len(), path.is_some());
    Places {
        phase: if has_ranges { rows(sum.phase) } else { Vec::new() },
        layer: if has_ranges { rows(sum.layer) } else { Vec::new() },
        communicator: rows(sum.communicator),
        kernel: rows(sum.kernel),
        idle: hosts,
        excess: excess::of(ranks),
        reason: (!has_ranges).then(|| {
            "no range of the program lies inside the steps: NVTX ranges around phases and layers would tell them apart".to_owned()
        }),
    }
}

fn merge(into: &mut BTreeMap<String, Sums>, from: BTreeMap<String, Sums>) {
    for (name, sums) in from {
        into.entry(name).or_default().add(&sums);
    }
}

/// Means over steps and ranks, the most time first; what does not fit is one row.
fn rows(table: BTreeMap<String, Sums>, steps: usize, ranks: usize, replayed: bool) -> Vec<Place> {
    let total = |sums: &Sums| sums.parts.iter().sum::<i128>();
    let mut list: Vec<(String, Sums)> = table.into_iter().collect();
    list.sort_by(|a, b| total(&b.1).cmp(&total(&a.1)).then_with(|| a.0.cmp(&b.0)));
    if list.len() > MOST_ROWS {
        let others = list.split_off(MOST_ROWS - 1);
        let mut sum = Sums::default();
        others.iter().for_each(|(_, sums)| sum.add(sums));
        list.push((format!("{} others", others.len()), sum));
    }
    let each = (steps * ranks) as i128;
    let mean = |ns: i128| i64::try_from((2 * ns + each) / (2 * each)).unwrap_or(i64::MAX);
    let row = |(name, sums): (String, Sums)| Place {
        name,
        ns: mean(total(&sums)),
        compute_ns: mean(sums.parts[Part::Compute as usize]),
        exposed_comm_ns: mean(sums.parts[Part::Comm as usize]),
        exposed_copy_ns: mean(sums.parts[Part::Copy as usize]),
        unclassified_ns: mean(sums.parts[Part::Unclassified as usize]),
        idle_ns: mean(sums.parts[Part::Idle as usize]),
        // A path runs over ranks: its time is that of the run's step.
        critical_ns: replayed
            .then(|| i64::try_from(sums.critical / steps.max(1) as i128).unwrap_or(i64::MAX)),
        count: sums.count as f64 / each as f64,
    };
    list.into_iter().map(row).collect()
}

/// A communication operation: its communicator, what it is, and the how-manieth of its kind there in its step.
type Numbered = (Option<u64>, CommOp, u32);

/// What operations are told apart by: where they were launched, which communication they are, what they are.
type Key = (Option<u32>, Option<Numbered>, Class, NameId);

/// What one rank spends where.
#[derive(Debug)]
struct OfRank {
    tables: Tables,
    /// What its host did while its GPU was idle.
    idle: Vec<IdleTime>,
    /// True if an operation was launched inside a range below its step.
    has_ranges: bool,
}

fn of_rank(
    rank: &Rank<'_>,
    roles: &BTreeMap<u64, String>,
    path: Option<&HashMap<usize, Ns>>,
) -> OfRank {
    let ops = &rank.trace.ops;
    let numbered = numbered(rank);
    let stood = ranges::of(rank);
    let key = |op: usize| -> Key {
        (stood.get(op), numbered.get(&op).copied(), ops.class[op], ops.name[op])
    };
    let mut sums: HashMap<Option<Key>, Sums> = HashMap::new();
    let mut gaps: Vec<Gap> = Vec::new();
    let has_host = rank.trace.host.is_some();
    let windows: Vec<Option<Span>> = rank.steps.iter().map(|(window, _)| Some(*window)).collect();
    for_each_window(ops, &windows, |_, window, inside| {
        for Piece { span, part, op } in parts::pieces(ops, window, inside) {
            sums.entry(op.map(key)).or_default().parts[part as usize] += i128::from(span.len());
            let ends = op.filter(|_| has_host && part == Part::Idle);
            gaps.extend(ends.map(|op| Gap { start: span.start, op: op as u32 }));
        }
        for &op in inside.iter().filter(|&&op| window.contains(ops.start[op as usize])) {
            sums.entry(Some(key(op as usize))).or_default().count += 1;
        }
    });
    for (&op, &ns) in path.into_iter().flatten() {
        sums.entry(Some(key(op))).or_default().critical += i128::from(ns);
    }
    OfRank {
        tables: tables(rank, &stood, roles, sums),
        idle: idle::of(rank, &gaps),
        has_ranges: !stood.is_empty(),
    }
}

/// The sums by name.
fn tables(
    rank: &Rank<'_>,
    stood: &Stood<'_>,
    roles: &BTreeMap<u64, String>,
    sums: HashMap<Option<Key>, Sums>,
) -> Tables {
    let mut tables = Tables::default();
    for (key, sums) in sums {
        let (phase, layer, communicator, kernel) = match key {
            None => {
                let after = view::AFTER.to_owned();
                (after.clone(), after.clone(), view::NO_COMM.to_owned(), after)
            }
            Some((place, number, class, name)) => {
                let phase = place.map_or_else(|| view::OUTSIDE.to_owned(), |at| stood.phase(at));
                let layer = place.map_or_else(|| phase.clone(), |at| stood.layer(at));
                let layer = match number {
                    Some((_, op, number)) => format!("{layer} / {} {number}", op.label()),
                    None => layer,
                };
                let communicator = match number {
                    Some((Some(comm), ..)) => roles
                        .get(&comm)
                        .cloned()
                        .unwrap_or_else(|| format!("communicator 0x{comm:016x}")),
                    Some((None, ..)) => view::UNKNOWN.to_owned(),
                    None if class.is_comm() => view::UNKNOWN.to_owned(),
                    None => view::NO_COMM.to_owned(),
                };
                (phase, layer, communicator, view::work(class, rank.trace.names.get(name)))
            }
        };
        tables.phase.entry(phase).or_default().add(&sums);
        tables.layer.entry(layer).or_default().add(&sums);
        tables.communicator.entry(communicator).or_default().add(&sums);
        tables.kernel.entry(kernel).or_default().add(&sums);
    }
    tables
}

/// The communication operations inside the steps by their index. Of data-parallel training the AllReduce of a number is a bucket.
fn numbered(rank: &Rank<'_>) -> HashMap<usize, Numbered> {
    let ops = &rank.trace.ops;
    let mut found = HashMap::new();
    for (window, _) in &rank.steps {
        let first = rank.events.partition_point(|event| event.start < window.start);
        let mut seen: HashMap<(CommOp, Option<u64>), u32> = HashMap::new();
        for event in rank.events[first..].iter().take_while(|event| event.start < window.end) {
            let number = seen.entry((event.op, event.comm)).or_default();
            *number += 1;
            if let Some(op) = operation(ops, event) {
                found.insert(op, (event.comm, event.op, *number));
            }
        }
    }
    found
}
