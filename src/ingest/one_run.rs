//! Do these reports make one run: are all its ranks here, and were they captured at the same time?

use std::collections::{BTreeMap, BTreeSet};

use crate::Error;
use crate::catalogue::Id;
use crate::model::{RankSource, RankTrace};
use crate::units;
use crate::warning::Warning;

/// The ranks of a run of `world` ranks that are not `there`, the first few thousand; none if nothing says which ranks are there.
pub(crate) fn absent_ranks(world: u32, there: &[RankTrace]) -> Vec<u32> {
    if there.iter().any(|trace| trace.rank_source == RankSource::Order) {
        return Vec::new();
    }
    let there: BTreeSet<u32> = there.iter().map(|trace| trace.rank).collect();
    (0..world.min(4096)).filter(|rank| !there.contains(rank)).collect()
}

/// A warning if ranks of the run are not here.
pub(crate) fn missing_ranks(traces: &[RankTrace]) -> Vec<Warning> {
    let Some(world) = traces.iter().filter_map(|t| t.world_size).max() else { return Vec::new() };
    let missing = absent_ranks(world, traces);
    if missing.is_empty() && world as usize <= traces.len() {
        return Vec::new();
    }
    let which = match missing.len() {
        0 => format!("{} among these reports, and nothing says which", traces.len()),
        _ => format!("not among these reports: {}", units::rank_list(&missing)),
    };
    vec![
        Warning::new(Id::RanksMissing, format!("The run has {world} ranks; {which}."))
            .with_hint("The slowest rank may be one of them: add their reports."),
    ]
}

/// When a rank was captured, Unix ns.
pub(crate) struct CapturedAt<'a> {
    /// Its number.
    pub rank: u32,
    /// The report's file name.
    pub report: &'a str,
    /// First start and last end of its GPU work.
    pub span: (i64, i64),
    /// The machine.
    pub host: Option<&'a str>,
    /// The process on it.
    pub pid: u32,
    /// CUDA ordinal inside the process.
    pub device: u32,
    /// Its communicators.
    pub comms: BTreeSet<u64>,
}

impl<'a> CapturedAt<'a> {
    /// `None` for a report that does not tell when it was captured: it has small numbers only.
    pub(crate) fn new(
        trace: &'a RankTrace,
        span: (i64, i64),
        comms: BTreeSet<u64>,
    ) -> Option<Self> {
        let epoch = trace.epoch_ns?;
        let span = (span.0.saturating_add(epoch), span.1.saturating_add(epoch));
        Some(Self {
            rank: trace.rank,
            report: &trace.report,
            span,
            host: trace.hostname.as_deref(),
            pid: trace.pid,
            device: trace.device,
            comms,
        })
    }
}

/// The communicators that a rank made or used.
pub(crate) fn communicators(trace: &RankTrace) -> BTreeSet<u64> {
    let used = trace.nccl.iter().chain(&trace.gpu_operations).filter_map(|call| call.comm);
    used.chain(trace.comm_inits.iter().map(|init| init.comm)).filter(|comm| *comm != 0).collect()
}

/// True if communicators run across a gap in time between other machines: it is one run, and their clocks are apart.
fn is_one_run(early: &[CapturedAt], late: &[CapturedAt]) -> bool {
    let hosts = |part: &[CapturedAt]| {
        part.iter().map(|at| at.host.map(str::to_owned)).collect::<Option<BTreeSet<String>>>()
    };
    let comms = |part: &[CapturedAt]| {
        part.iter().flat_map(|at| at.comms.iter().copied()).collect::<BTreeSet<u64>>()
    };
    let other_hosts = hosts(early).zip(hosts(late)).is_some_and(|(a, b)| a.is_disjoint(&b));
    other_hosts && !comms(early).is_disjoint(&comms(late))
}

/// When each rank was captured, as far as reports tell.
pub(crate) fn captured_at<'t>(
    traces: impl IntoIterator<Item = &'t RankTrace>,
) -> Vec<CapturedAt<'t>> {
    let one = |trace: &'t RankTrace| {
        CapturedAt::new(
            trace,
            (*trace.ops.start.first()?, *trace.ops.end.iter().max()?),
            communicators(trace),
        )
    };
    traces.into_iter().filter_map(one).collect()
}

/// Why reports are not those of one run, if captures of one machine say so: its clock is one, so a process that was captured twice, or
/// captures one after the other that share no communicator, are not ranks of one run.
pub(crate) fn refusal(spans: &[CapturedAt<'_>]) -> Option<Error> {
    twice(spans).or_else(|| one_after_the_other(spans))
}

/// A capture range that ends and repeats writes several reports of one process.
fn twice(spans: &[CapturedAt<'_>]) -> Option<Error> {
    let mut known: Vec<&CapturedAt> = spans.iter().filter(|at| at.host.is_some()).collect();
    known.sort_by_key(|at| (at.host, at.pid, at.device, at.span, at.report));
    let pair = known.windows(2).find(|pair| {
        let (a, b) = (pair[0], pair[1]);
        (a.host, a.pid, a.device) == (b.host, b.pid, b.device)
            && a.report != b.report
            && a.span.1 <= b.span.0
    })?;
    let (a, b) = (pair[0], pair[1]);
    let fact = format!(
        "{} and {} hold the same process ({} on {}), captured twice, {} apart: it is one rank, not two",
        a.report,
        b.report,
        a.pid,
        a.host.unwrap_or_default(),
        crate::units::time(b.span.0.saturating_sub(a.span.1))
    );
    Some(Error::inputs(fact).with_hint(format!(
        "report on one of them, or compare them: nsysnccl compare first={} second={} (--capture-range-end=repeat writes a report for each range)",
        a.report, b.report
    )))
}

fn one_after_the_other(spans: &[CapturedAt<'_>]) -> Option<Error> {
    let mut hosts: BTreeMap<&str, Vec<&CapturedAt>> = BTreeMap::new();
    for at in spans {
        if let Some(host) = at.host {
            hosts.entry(host).or_default().push(at);
        }
    }
    for (host, mut captured) in hosts {
        captured.sort_by_key(|at| (at.span, at.report));
        let mut until = i64::MIN;
        for (i, next) in captured.iter().enumerate() {
            let (early, late) = captured.split_at(i);
            if i > 0 && next.span.0 > until && !share_communicator(early, late) {
                let last = early.iter().max_by_key(|at| at.span.1)?;
                let fact = format!(
                    "{} was captured {} after {} ended, both on {host}, and no communicator joins them: these are reports of different runs",
                    next.report,
                    crate::units::time(next.span.0.saturating_sub(until)),
                    last.report,
                );
                return Some(Error::inputs(fact).with_hint(
                    "give the reports of one run; nsysnccl compare takes several runs as NAME=FILES",
                ));
            }
            until = until.max(next.span.1);
        }
    }
    None
}

fn share_communicator(early: &[&CapturedAt<'_>], late: &[&CapturedAt<'_>]) -> bool {
    let comms = |part: &[&CapturedAt]| {
        part.iter().flat_map(|at| at.comms.iter().copied()).collect::<BTreeSet<u64>>()
    };
    !comms(early).is_disjoint(&comms(late))
}

/// Ranks of one run are captured at the same time: a gap between two says that the reports are of several runs, unless a communicator
/// says that they are of one.
pub(crate) fn captured_apart(mut spans: Vec<CapturedAt<'_>>) -> Option<Warning> {
    // Clocks of hosts may differ by seconds.
    const GAP_NS: i64 = 30_000_000_000;
    spans.sort_by_key(|at| (at.span, at.rank));
    let mut before = spans.first()?;
    let mut widest: Option<(i64, &CapturedAt, &CapturedAt)> = None;
    for (at, next) in spans.iter().enumerate() {
        let gap = next.span.0.saturating_sub(before.span.1);
        if gap > widest.map_or(GAP_NS, |(gap, ..)| gap) && !is_one_run(&spans[..at], &spans[at..]) {
            widest = Some((gap, before, next));
        }
        // What ended last so far: a long capture may cover the gap between two short ones.
        if next.span.1 > before.span.1 {
            before = next;
        }
    }
    let (gap, early, late) = widest?;
    Some(
        Warning::new(
            Id::CapturedApart,
            format!(
                "Rank {} ({}) was captured {:.0} s after rank {} ({}): these are reports of different runs, and what is said across ranks means nothing.",
                late.rank,
                late.report,
                gap as f64 / 1e9,
                early.rank,
                early.report
            ),
        )
        .with_hint("Give the reports of one run; nsysnccl compare takes several runs."),
    )
}
