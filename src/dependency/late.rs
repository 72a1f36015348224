//! Nobody late: each rank's own work as the median rank's (metrics definition, section 9).
//!
//! GPU: of each kernel on each grid, what a rank spends in a step beyond the median rank is taken off, spread over those kernels.
//! Host: between two collectives that ranks have in common, what the threads of one role spend beyond the median rank.

use std::collections::BTreeMap;

use foldhash::{HashMap, HashMapExt};

use super::graph::Reason;
use super::model::Model;
use crate::model::{Class, Ns};

/// Takes off what ranks do beyond the median one; false where there is nothing to compare.
pub(crate) fn nobody_late(model: &Model<'_>, weights: &mut [Ns]) -> bool {
    if model.traces.len() < 2 {
        return false;
    }
    kernels(model, weights);
    hosts(model, weights);
    true
}

/// The lower median of what ranks spend; a rank that is not in the list spends nothing.
fn lower_median(mut list: Vec<Ns>, ranks: usize) -> Ns {
    list.resize(ranks.max(list.len()), 0);
    list.sort_unstable();
    list.get(list.len().saturating_sub(1) / 2).copied().unwrap_or(0)
}

/// `ns` as it is for one who spends `allowed` in all instead of `total`.
fn scaled(ns: Ns, allowed: Ns, total: Ns) -> Ns {
    let scaled = i128::from(ns) * i128::from(allowed) / i128::from(total.max(1));
    i64::try_from(scaled).unwrap_or(ns)
}

fn kernels(model: &Model<'_>, weights: &mut [Ns]) {
    // Names are numbered by report: here each text has one number.
    let mut texts: HashMap<&str, u32> = HashMap::new();
    let mut number = |text| {
        let next = texts.len() as u32;
        *texts.entry(text).or_insert(next)
    };
    let keys: Vec<Vec<Option<(u32, u32)>>> = model
        .traces
        .iter()
        .map(|trace| {
            let ops = &trace.ops;
            let key = |i: usize| {
                let grid = ops.grid.get(i).map_or("", |&grid| trace.names.get(grid));
                (ops.class[i] == Class::Compute)
                    .then(|| (number(trace.names.get(ops.name[i])), number(grid)))
            };
            (0..ops.len()).map(key).collect()
        })
        .collect();
    for step in model.steps {
        let inside = |rank: usize| {
            let starts = &model.traces[rank].ops.start;
            let window = step.windows[rank];
            let at = |time: Ns| starts.partition_point(|&start| start < time);
            at(window.start)..at(window.end)
        };
        let mut spent: HashMap<(u32, u32), Vec<(usize, Ns)>> = HashMap::new();
        for (rank, keys) in keys.iter().enumerate() {
            for op in inside(rank) {
                let (Some(key), Some(edge)) = (keys[op], model.work(rank, op)) else { continue };
                let by_rank = spent.entry(key).or_default();
                match by_rank.last_mut() {
                    Some((last, total)) if *last == rank => {
                        *total = total.saturating_add(weights[edge])
                    }
                    _ => by_rank.push((rank, weights[edge])),
                }
            }
        }
        let ranks = model.traces.len();
        let allowed: HashMap<(u32, u32), Ns> = spent
            .iter()
            .map(|(key, list)| (*key, lower_median(list.iter().map(|l| l.1).collect(), ranks)))
            .collect();
        for (rank, keys) in keys.iter().enumerate() {
            for op in inside(rank) {
                let (Some(key), Some(edge)) = (keys[op], model.work(rank, op)) else { continue };
                let total = spent[&key].iter().find(|(r, _)| *r == rank).map_or(0, |(_, ns)| *ns);
                if total > allowed[&key] {
                    weights[edge] = scaled(weights[edge], allowed[&key], total);
                }
            }
        }
    }
}

/// A stretch of host time: between two matches that follow each other on a process (`None` before the first).
type Stretch = (Option<usize>, usize);

fn hosts(model: &Model<'_>, weights: &mut [Ns]) {
    let (graph, layout) = (&model.built.graph, &model.built.layout);
    // For each process its host edges by stretch and role of thread.
    let mut of: BTreeMap<(Stretch, usize), BTreeMap<usize, Vec<usize>>> = BTreeMap::new();
    for (p, process) in model.processes.iter().enumerate() {
        let points = common_points(model, &process.ranks);
        let deeds = &model.built.deeds[p];
        let calls = &process.host.calls;
        let roles = roles(deeds.kept.iter().map(|kept| calls.thread[kept.call] as usize));
        for (k, kept) in deeds.kept.iter().enumerate() {
            let start = calls.start[kept.call];
            let next = points.partition_point(|&(launch, _)| launch < start);
            // After the last common point there is nothing to compare with.
            let Some(&(_, until)) = points.get(next) else { continue };
            let since = next.checked_sub(1).map(|last| points[last].1);
            let role = roles.get(&(calls.thread[kept.call] as usize)).copied().unwrap_or(0);
            let list = of.entry(((since, until), role)).or_default().entry(p).or_default();
            for moment in [layout.call_start(p, k), layout.call_return(p, k)] {
                list.extend(graph.cause(moment).filter(|&edge| {
                    matches!(graph.reason[edge], Reason::HostOrder | Reason::Handoff | Reason::Call)
                }));
            }
        }
    }
    for by_process in of.values().filter(|by_process| by_process.len() > 1) {
        let spent: Vec<Ns> = by_process
            .values()
            .map(|edges| {
                edges.iter().fold(0, |sum: Ns, &edge| sum.saturating_add(weights[edge].max(0)))
            })
            .collect();
        let allowed = lower_median(spent.clone(), spent.len());
        for (edges, total) in by_process.values().zip(spent) {
            if total > allowed {
                edges.iter().for_each(|&e| weights[e] = scaled(weights[e].max(0), allowed, total));
            }
        }
    }
}

/// Launches of matched collectives (never of sends and receives, whose ranks do different work), in order: (time, match).
fn common_points(model: &Model<'_>, ranks: &[usize]) -> Vec<(Ns, usize)> {
    let mut points = Vec::new();
    for &rank in ranks {
        let ops = &model.traces[rank].ops;
        let met = model.built.met[rank].iter().filter(|(_, met)| !met.is_pair);
        points.extend(met.map(|(&op, met)| (ops.launch[op], met.found)));
    }
    points.sort_unstable();
    points
}

/// Role of each thread: the one that does most is 0. Threads that do as much are told by their number.
fn roles(threads: impl Iterator<Item = usize>) -> HashMap<usize, usize> {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    threads.for_each(|thread| *counts.entry(thread).or_default() += 1);
    let mut order: Vec<(usize, usize)> = counts.into_iter().collect();
    order.sort_by_key(|&(thread, count)| (std::cmp::Reverse(count), thread));
    order.into_iter().enumerate().map(|(role, (thread, _))| (thread, role)).collect()
}
