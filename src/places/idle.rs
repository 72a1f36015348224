//! What the host did while the GPU was idle and what comes next was not launched yet.

use std::collections::BTreeMap;

use foldhash::HashMap;

use super::rank::Rank;
use super::view::IdleTime;
use crate::model::host::Host;
use crate::model::op::NO_LAUNCH;
use crate::model::{Ns, RankTrace, Span};

/// Rows of a rank.
const MOST: usize = 5;
/// Ranges that are looked at for the one in which a host was: those that began last.
const LOOKED_AT: usize = 256;
/// Characters of a range's text that are printed.
const SHOWN: usize = 60;
/// The launch itself is quick: it is where the host was late, not why.
const LAUNCHED: &str = "launched, not yet started";

/// Idle time up to the start of an operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gap {
    /// When it begins.
    pub start: Ns,
    /// The operation that ends it.
    pub op: u32,
}

/// What a rank's host did in the `gaps`: means over counted steps, the most time first. Empty where the host's calls were not read.
pub(crate) fn of(rank: &Rank<'_>, gaps: &[Gap]) -> Vec<IdleTime> {
    let (trace, ops) = (rank.trace, &rank.trace.ops);
    let Some(host) = trace.host.as_deref() else { return Vec::new() };
    let outermost = outermost(host);
    let mut sums: BTreeMap<String, (Ns, u64)> = BTreeMap::new();
    let mut add = |name: String, ns: Ns| {
        if ns > 0 {
            let sum = sums.entry(name).or_default();
            *sum = (sum.0.saturating_add(ns), sum.1 + 1);
        }
    };
    for &Gap { start, op } in gaps {
        let op = op as usize;
        if ops.launch[op] == NO_LAUNCH {
            continue;
        }
        let gap = Span::new(start, ops.start[op]);
        let launch = ops.launch[op].clamp(gap.start, gap.end);
        add(LAUNCHED.to_owned(), gap.end - launch);
        if let Some(calls) = outermost.get(&ops.thread[op]) {
            let late = Span::new(gap.start, launch);
            host_time(trace, host, calls, late, ops.thread[op], &mut add);
        }
    }
    let steps = rank.steps.len().max(1);
    let row = |(name, (ns, count)): (String, (Ns, u64))| IdleTime {
        rank: trace.rank,
        name,
        ns: ns / steps as Ns,
        count: count as f64 / steps as f64,
    };
    let mut list: Vec<IdleTime> = sums.into_iter().map(row).collect();
    sort(&mut list);
    list.truncate(MOST);
    list
}

/// The most time first, then rank and name.
pub(crate) fn sort(list: &mut [IdleTime]) {
    list.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| (a.rank, &a.name).cmp(&(b.rank, &b.name))));
}

/// Calls of each thread that no other call holds, by number of the thread, in order.
fn outermost(host: &Host) -> HashMap<u32, Vec<u32>> {
    let calls = &host.calls;
    let mut by_thread: Vec<Vec<u32>> = vec![Vec::new(); host.threads.len()];
    for call in 0..calls.len() {
        let list = &mut by_thread[calls.thread[call] as usize];
        let until = list.last().map_or(Ns::MIN, |&last| calls.end[last as usize]);
        if calls.end[call] > until {
            list.push(call as u32);
        }
    }
    let number = |thread: &u64| (thread & 0xff_ffff) as u32;
    host.threads.iter().map(number).zip(by_thread).collect()
}

/// What a thread did in a span: by call, and between calls by range.
fn host_time(
    trace: &RankTrace,
    host: &Host,
    list: &[u32],
    span: Span,
    thread: u32,
    add: &mut impl FnMut(String, Ns),
) {
    let calls = &host.calls;
    let first = list.partition_point(|&call| calls.end[call as usize] <= span.start);
    let mut at = span.start;
    for &call in &list[first..] {
        let call = call as usize;
        let own = Span::new(calls.start[call].max(at), calls.end[call].max(at)).clip(span);
        if calls.start[call] >= span.end {
            break;
        }
        if own.start > at {
            add(between(trace, at, own.start, thread), own.start - at);
        }
        add(function(trace.names.get(calls.name[call])).to_owned(), own.len());
        at = at.max(own.end);
    }
    if at < span.end {
        add(between(trace, at, span.end, thread), span.end - at);
    }
}

/// A function without the version that the driver's tables add (`cudaLaunchKernel_v7000`).
fn function(name: &str) -> &str {
    let version = |tail: &str| !tail.is_empty() && tail.bytes().all(|b| b.is_ascii_digit());
    name.rsplit_once("_v").filter(|(_, tail)| version(tail)).map_or(name, |(name, _)| name)
}

/// Host time between two calls, by the innermost range of the thread that is open in the middle of it.
fn between(trace: &RankTrace, start: Ns, end: Ns, thread: u32) -> String {
    let middle = start + (end - start) / 2;
    match trace.ranges.innermost(thread, middle, LOOKED_AT) {
        Some(range) => {
            let kind = trace.texts.kind(range.kind);
            format!("between calls, in '{}'", crate::text::shorten(&kind, SHOWN))
        }
        None => "between calls".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::function;

    #[test]
    fn versions_of_functions_are_left_out() {
        assert_eq!(function("cudaLaunchKernel_v7000"), "cudaLaunchKernel");
        assert_eq!(function("cudaMemcpyAsync_ptsz"), "cudaMemcpyAsync_ptsz");
        assert_eq!(function("my_value"), "my_value");
    }
}
