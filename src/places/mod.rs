//! Where in the program a step's time goes (metrics definition, section 10).
//!
//! Each nanosecond of a step on a rank is counted to one operation ([`parts`]); operations stand where they were launched
//! ([`ranges`]). Also what the host did while the GPU was idle ([`idle`]), and which kernels take longer on one rank than on
//! the others ([`excess`]). What is printed stands in [`view`].

pub mod excess;
pub mod idle;
pub mod parts;
pub mod ranges;
pub mod view;

use std::collections::{BTreeMap, HashMap};

use rayon::prelude::*;

use self::parts::{Part, Piece};
use self::view::{Place, Places};
use crate::collectives::events::Event;
use crate::collectives::groups::CollectiveGroup;
use crate::dependency::path::OnPath;
use crate::model::{Ns, RankTrace, Span};

/// Rows of a table; the rest is one row.
const MOST_ROWS: usize = 40;

/// One rank and its steps that count.
#[derive(Debug, Clone)]
pub struct Rank<'a> {
    /// What was captured.
    pub trace: &'a RankTrace,
    /// Its communication.
    pub events: &'a [Event],
    /// Its steps: window, and the step's own range if it comes from one.
    pub steps: Vec<(Span, Option<Span>)>,
    /// True if a step is a period: then its range is a phase of it, and not what the phases lie in.
    pub is_period: bool,
}

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
pub fn of(ranks: &[Rank<'_>], groups: &[CollectiveGroup], path: Option<&OnPath>) -> Places {
    let steps = ranks.iter().map(|rank| rank.steps.len()).min().unwrap_or(0);
    if steps == 0 {
        return Places { reason: Some("no counted step is on all ranks".to_owned()), ..Places::default() };
    }
    let roles = view::roles(groups, ranks.len());
    let all: Vec<(Tables, bool)> = ranks
        .par_iter()
        .enumerate()
        .map(|(r, rank)| tables(rank, &roles, path.and_then(|path| path.get(r))))
        .collect();
    let has_ranges = all.iter().any(|(_, has_ranges)| *has_ranges);
    let mut sum = Tables::default();
    for (tables, _) in all {
        merge(&mut sum.phase, tables.phase);
        merge(&mut sum.layer, tables.layer);
        merge(&mut sum.communicator, tables.communicator);
        merge(&mut sum.kernel, tables.kernel);
    }
    let rows = |table| rows(table, steps, ranks.len(), path.is_some());
    Places {
        phase: if has_ranges { rows(sum.phase) } else { Vec::new() },
        layer: if has_ranges { rows(sum.layer) } else { Vec::new() },
        communicator: rows(sum.communicator),
        kernel: rows(sum.kernel),
        idle: idle::of(ranks),
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
        critical_ns: replayed.then(|| {
            i64::try_from(sums.critical / steps.max(1) as i128).unwrap_or(i64::MAX)
        }),
        count: sums.count as f64 / each as f64,
    };
    list.into_iter().map(row).collect()
}

/// What one rank spends where; and whether any operation was launched inside a range below its step.
fn tables(
    rank: &Rank<'_>,
    roles: &BTreeMap<u64, String>,
    path: Option<&HashMap<usize, Ns>>,
) -> (Tables, bool) {
    let (trace, ops) = (rank.trace, &rank.trace.ops);
    let numbered = numbered(rank);
    let stood = ranges::of(rank);
    let mut by_op: HashMap<Option<usize>, Sums> = HashMap::new();
    let windows: Vec<Option<Span>> = rank.steps.iter().map(|(window, _)| Some(*window)).collect();
    crate::analysis::step_metrics::for_each_window(ops, &windows, |_, window, inside| {
        for Piece { span, part, op } in parts::pieces(ops, window, inside) {
            by_op.entry(op).or_default().parts[part as usize] += i128::from(span.len());
        }
        for &op in inside.iter().filter(|&&op| window.contains(ops.start[op as usize])) {
            by_op.entry(Some(op as usize)).or_default().count += 1;
        }
    });
    for (&op, &ns) in path.into_iter().flatten() {
        by_op.entry(Some(op)).or_default().critical += i128::from(ns);
    }
    let mut tables = Tables::default();
    for (op, sums) in by_op {
        let place = op.and_then(|op| stood.get(op));
        let phase = match (op, place) {
            (None, _) => view::AFTER.to_owned(),
            (_, None) => view::OUTSIDE.to_owned(),
            (_, Some(place)) => stood.phase(place),
        };
        let number = op.and_then(|op| numbered.get(&op));
        let layer = match (place, number) {
            (Some(place), Some((_, number))) => format!("{} / {number}", stood.layer(place)),
            (Some(place), None) => stood.layer(place),
            (None, Some((_, number))) => format!("{phase} / {number}"),
            (None, None) => phase.clone(),
        };
        let communicator = match number {
            Some((Some(comm), _)) => {
                roles.get(comm).cloned().unwrap_or_else(|| format!("communicator 0x{comm:016x}"))
            }
            Some((None, _)) => view::UNKNOWN.to_owned(),
            None if op.is_some_and(|op| ops.class[op].is_comm()) => view::UNKNOWN.to_owned(),
            None => view::NO_COMM.to_owned(),
        };
        let kernel = match op {
            None => view::AFTER.to_owned(),
            Some(op) => view::work(ops.class[op], trace.names.get(ops.name[op])),
        };
        tables.phase.entry(phase).or_default().add(&sums);
        tables.layer.entry(layer).or_default().add(&sums);
        tables.communicator.entry(communicator).or_default().add(&sums);
        tables.kernel.entry(kernel).or_default().add(&sums);
    }
    (tables, !stood.is_empty())
}

/// Communicator of each communication operation inside the steps, and what it is called there: the how-manieth of its kind on
/// its communicator in the step (`AllReduce 3`): of data-parallel training the bucket.
fn numbered(rank: &Rank<'_>) -> HashMap<usize, (Option<u64>, String)> {
    let ops = &rank.trace.ops;
    let mut found = HashMap::new();
    for (window, _) in &rank.steps {
        let first = rank.events.partition_point(|event| event.start < window.start);
        let mut seen: HashMap<_, usize> = HashMap::new();
        for event in rank.events[first..].iter().take_while(|event| event.start < window.end) {
            let number = seen.entry((event.op, event.comm)).or_default();
            *number += 1;
            if let Some(op) = crate::dependency::across::operation(ops, event) {
                found.insert(op, (event.comm, format!("{} {number}", event.op.label())));
            }
        }
    }
    found
}
