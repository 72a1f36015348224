//! Where the rule table may be wrong: kernels that do both, and runs in which it recognises no communication at all.

use std::collections::BTreeMap;

use crate::catalogue::Id;
use crate::model::{Class, NameId, Ns, RankTrace, Span};
use crate::units;
use crate::warning::Warning;
use crate::{stats, text};

/// Kernels that a warning names; the rest is counted.
const NAMED: usize = 3;
/// Characters of a kernel's name that a warning shows.
const NAME_LENGTH: usize = 80;

/// Words in lower case that speak of other GPUs. Words of local work (reduce, gather, dispatch, combine) are left out.
const WORDS: [&str; 24] = [
    "allreduce",
    "all_reduce",
    "allgather",
    "all_gather",
    "reducescatter",
    "reduce_scatter",
    "alltoall",
    "all_to_all",
    "all2all",
    "a2a",
    "sendrecv",
    "send_recv",
    "cross_device",
    "multi_gpu",
    "multigpu",
    "nvshmem",
    "symm_mem",
    "multimem",
    "mnnvl",
    "lamport",
    "barrier",
    "peer",
    "remote",
    "rdma",
];

/// Calls that two ranks must share of a kernel before its times say anything.
const LEAST_CALLS: usize = 8;
/// Starts that lie this much apart cannot be told from the noise of launches, ns.
const NOISE: Ns = 20_000;

/// Kernels that communicate and compute in one, named with their time; `None` if there are none.
pub(crate) fn fused(traces: &[&RankTrace]) -> Option<Warning> {
    let kernels = compute_kernels(traces);
    let fused: Vec<(&str, Time)> =
        kernels.into_iter().filter(|(name, _)| super::is_fused(name)).collect();
    let (ns, count) = fused
        .iter()
        .fold((0, 0), |(ns, count), (_, time)| (time.ns.saturating_add(ns), time.count + count));
    let names = fused.iter().map(|(name, _)| shown(name)).collect::<Vec<_>>();
    (!names.is_empty()).then(|| {
        Warning::new(
            Id::FusedKernels,
            format!(
                "Kernels that communicate and compute in one count as compute: {}. They ran {} for {} in all; how much of that is communication is unknown.",
                units::listed(&names, NAMED),
                times(count),
                units::time(ns)
            ),
        )
        .with_hint("To count their whole time as communication, name them with --comm-regex.")
    })
}

/// The doubt where several ranks show no communication, with the kernels that are likeliest to be it. For a run of
/// one rank `None`: it has nobody to talk to.
pub(crate) fn unrecognised(traces: &[&RankTrace]) -> Option<Warning> {
    let world = traces.iter().filter_map(|trace| trace.world_size).max().unwrap_or(0) as usize;
    if traces.len().max(world) < 2 {
        return None;
    }
    let together = ending_together(traces);
    let suspects: Vec<String> = compute_kernels(traces)
        .into_iter()
        .filter_map(|(name, time)| {
            let why = if speaks_of_others(name) {
                "by its name"
            } else if together.contains(&name) {
                "its calls start apart and end together on the ranks"
            } else {
                return None;
            };
            Some(format!("{} ({why}; {} in all)", shown(name), units::time(time.ns)))
        })
        .collect();
    let likely = if suspects.is_empty() {
        "No kernel's name or times speak of other GPUs.".to_owned()
    } else {
        format!("Kernels most likely to be it: {}.", units::listed(&suspects, NAMED))
    };
    Some(
        Warning::new(
            Id::NoCommunicationRecognised,
            format!(
                "No communication was recognised, although the run has {}. {likely}",
                units::plural(traces.len().max(world), "rank")
            ),
        )
        .with_hint("If one of the kernels communicates, name it with --comm-regex."),
    )
}

/// How long and how often a kernel ran, over all ranks.
#[derive(Debug, Clone, Copy, Default)]
struct Time {
    ns: Ns,
    count: u64,
}

/// Compute kernels by name, those that took the most time first.
fn compute_kernels<'a>(traces: &[&'a RankTrace]) -> Vec<(&'a str, Time)> {
    let mut by_name: BTreeMap<&str, Time> = BTreeMap::new();
    for trace in traces {
        let mut own: Vec<Time> = vec![Time::default(); trace.names.len()];
        let ops = &trace.ops;
        for i in (0..ops.len()).filter(|&i| ops.class[i] == Class::Compute) {
            if let Some(time) = own.get_mut(ops.name[i].0 as usize) {
                time.ns = time.ns.saturating_add(ops.span(i).len());
                time.count += 1;
            }
        }
        for (id, time) in own.into_iter().enumerate().filter(|(_, time)| time.count > 0) {
            let sum = by_name.entry(trace.names.get(NameId(id as u32))).or_default();
            sum.ns = sum.ns.saturating_add(time.ns);
            sum.count += time.count;
        }
    }
    let mut kernels: Vec<(&str, Time)> = by_name.into_iter().collect();
    kernels.sort_by_key(|(_, time)| std::cmp::Reverse(time.ns));
    kernels
}

fn speaks_of_others(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    WORDS.iter().any(|word| name.contains(word))
}

/// Kernels that run on the first two ranks as if each waited for the other.
fn ending_together<'a>(traces: &[&'a RankTrace]) -> Vec<&'a str> {
    let [a, b, ..] = traces else { return Vec::new() };
    let of_b = calls(b);
    calls(a)
        .into_iter()
        .filter(|(name, spans)| {
            of_b.get(name).is_some_and(|others| wait_for_each_other(spans, others))
        })
        .map(|(name, _)| name)
        .collect()
}

/// The calls of each compute kernel in order of their start.
fn calls(trace: &RankTrace) -> BTreeMap<&str, Vec<Span>> {
    let mut calls: BTreeMap<&str, Vec<Span>> = BTreeMap::new();
    let ops = &trace.ops;
    for i in (0..ops.len()).filter(|&i| ops.class[i] == Class::Compute) {
        calls.entry(trace.names.get(ops.name[i])).or_default().push(ops.span(i));
    }
    calls
}

/// True if the k-th calls on two ranks start at differing distances and end at nearly the same one: the distance of the
/// ends is that of the clocks, and whoever starts first waits.
///
/// ```text
/// rank 0   |========|    |==|        |======|
/// rank 1      |=====|  |====|   |===========|
/// ```
fn wait_for_each_other(a: &[Span], b: &[Span]) -> bool {
    if a.len() != b.len() || a.len() < LEAST_CALLS {
        return false;
    }
    let spread = |time: fn(&Span) -> Ns| {
        let apart: Vec<Ns> =
            a.iter().zip(b).map(|(a, b)| time(a).saturating_sub(time(b))).collect();
        let middle = stats::median_i64(&apart).unwrap_or(0);
        let off: Vec<Ns> =
            apart.iter().map(|d| d.saturating_sub(middle).saturating_abs()).collect();
        stats::median_i64(&off).unwrap_or(0)
    };
    let (starts, ends) = (spread(|span| span.start), spread(|span| span.end));
    starts >= NOISE && ends <= starts / 10
}

fn shown(name: &str) -> String {
    text::printable(&text::shorten(name, NAME_LENGTH)).into_owned()
}

fn times(n: u64) -> String {
    if n == 1 { "once".to_owned() } else { format!("{} times", units::count(n)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_speak_of_other_gpus() {
        for name in ["my_AllReduce_v2", "barrier_ll128", "sm90_a2a_push", "copy_to_peer"] {
            assert!(speaks_of_others(name), "{name}");
        }
        for name in ["reduce_kernel", "vectorized_gather_kernel", "dispatch", "combine", "gemm"] {
            assert!(!speaks_of_others(name), "{name}");
        }
    }

    // rank 0 starts k x 13 % 7 x 100 us late, rank 1 on time; both end at 2 ms + offset of the clocks, or after 1 ms each.
    #[test]
    fn waiting_shows_in_starts_apart_and_ends_together() {
        let late = |k: i64| k * 13 % 7 * 100_000;
        let clock = 5_000_000;
        let step = |k: i64| k * 10_000_000;
        let on_time: Vec<Span> = (0..20).map(|k| Span::new(step(k), step(k) + 2_000_000)).collect();
        let waits: Vec<Span> = (0..20)
            .map(|k| Span::new(clock + step(k) + late(k), clock + step(k) + 2_000_000 + k % 3))
            .collect();
        assert!(wait_for_each_other(&on_time, &waits));
        let computes: Vec<Span> = (0..20)
            .map(|k| Span::new(clock + step(k) + late(k), clock + step(k) + late(k) + 2_000_000))
            .collect();
        assert!(!wait_for_each_other(&on_time, &computes), "ends as late as it starts");
        assert!(!wait_for_each_other(&on_time, &on_time), "starts tell nothing");
        assert!(!wait_for_each_other(&on_time[..4], &waits[..4]), "too few");
    }
}
