//! Which compute kernels take longer on one rank than on the others.

use std::collections::BTreeMap;

use foldhash::{HashMap, HashMapExt};

use super::rank::Rank;
use super::view::Excess;
use crate::model::{Class, NameId};

/// Kernels of a rank that are listed.
const MOST: usize = 5;
/// Least excess that is listed, as a share of the rank's mean step.
const LEAST: f64 = 0.002;

/// By rank and kernel the time beyond the other ranks' mean, per counted step. A kernel that runs beside communication shares
/// the GPU with it and takes longer: that is in it.
pub(crate) fn of(ranks: &[Rank<'_>]) -> Vec<Excess> {
    if ranks.len() < 2 {
        return Vec::new();
    }
    let spent: Vec<BTreeMap<&str, (u64, i128)>> = ranks.iter().map(spent).collect();
    let mut all: HashMap<&str, (u64, i128)> = HashMap::new();
    for (&name, &(count, ns)) in spent.iter().flatten() {
        let sum = all.entry(name).or_default();
        *sum = (sum.0 + count, sum.1 + ns);
    }
    let mut list = Vec::new();
    for (rank, spent) in ranks.iter().zip(&spent) {
        let steps = rank.steps.len().max(1) as f64;
        let others = steps * (ranks.len() - 1) as f64;
        let step_ns: i128 = rank.steps.iter().map(|(window, _)| i128::from(window.len())).sum();
        let row = |(&name, &(count, ns)): (&&str, &(u64, i128))| {
            let all = all.get(name).copied().unwrap_or_default();
            let (own, other) = (ns as f64 / steps, (all.1 - ns) as f64 / others);
            Excess {
                rank: rank.trace.rank,
                name: name.to_owned(),
                excess_ns: own.round() as i64 - other.round() as i64,
                ns: own.round() as i64,
                others_ns: other.round() as i64,
                count: count as f64 / steps,
                others_count: (all.0 - count) as f64 / others,
            }
        };
        let least = LEAST * step_ns as f64 / steps;
        let mut own: Vec<Excess> = spent.iter().map(row).collect();
        own.retain(|row| row.excess_ns > 0 && row.excess_ns as f64 >= least);
        own.sort_by(|a, b| b.excess_ns.cmp(&a.excess_ns).then_with(|| a.name.cmp(&b.name)));
        own.truncate(MOST);
        list.extend(own);
    }
    list.sort_by(|a, b| {
        b.excess_ns.cmp(&a.excess_ns).then_with(|| (a.rank, &a.name).cmp(&(b.rank, &b.name)))
    });
    list
}

/// Calls and time of each compute kernel that starts in a counted step.
fn spent<'a>(rank: &Rank<'a>) -> BTreeMap<&'a str, (u64, i128)> {
    let ops = &rank.trace.ops;
    let mut by_id: HashMap<NameId, (u64, i128)> = HashMap::new();
    for (window, _) in &rank.steps {
        let first = ops.start.partition_point(|&start| start < window.start);
        let inside = (first..ops.len()).take_while(|&op| ops.start[op] < window.end);
        for op in inside.filter(|&op| ops.class[op] == Class::Compute) {
            let sum = by_id.entry(ops.name[op]).or_default();
            *sum = (sum.0 + 1, sum.1 + i128::from(ops.span(op).len()));
        }
    }
    let mut by_name: BTreeMap<&str, (u64, i128)> = BTreeMap::new();
    for (id, (count, ns)) in by_id {
        let sum = by_name.entry(rank.trace.names.get(id)).or_default();
        *sum = (sum.0 + count, sum.1 + ns);
    }
    by_name
}
