//! Kernels of a trace beside the records of NCCL Inspector (metrics definition, section 7).
//!
//! ```text
//! logs --collect--> records of the traced processes --pair--> pairs --trust, typical--> what they say together
//! ```

pub mod align;
pub mod collect;
pub mod pair;
pub mod typical;

use std::collections::{BTreeMap, BTreeSet};

use self::collect::Collected;
use self::pair::{Pair, RankKernels};
use crate::collectives::events::{BytesSource, Event};
use crate::model::CommOp;
use crate::model::record::{Stamps, Timing, busbw_gbs};
use crate::report::{CommTrust, DeltaUs, InspectorMerge, InspectorPair, InspectorRank};
use crate::stats;
use crate::warning::Warning;

/// A difference of durations up to here is what timers and rounding explain, microseconds.
const CLOSE_US: f64 = 10.0;
/// Or up to this share of the kernel's duration.
const CLOSE_SHARE: f64 = 0.05;
/// A communicator whose pairs differ more often than this is not trusted.
const MAX_DISAGREEING: f64 = 0.1;

/// One record of a traced process.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedOp {
    /// Index into [`Collected::origins`].
    pub origin: usize,
    /// What ran.
    pub op: CommOp,
    /// True for a send or receive.
    pub p2p: bool,
    /// Sequence number.
    pub sn: Option<u64>,
    /// Message size in bytes as logged.
    pub bytes: Option<u64>,
    /// Duration in microseconds; `None` where the log does not say.
    pub exec_us: Option<f64>,
    /// How it was measured.
    pub timing: Timing,
    /// When it was written, Unix microseconds.
    pub written_us: Option<i64>,
    /// Stamps of a verbose record.
    pub stamps: Option<Stamps>,
}

/// What the logs add, with what the reader has to know.
#[derive(Debug)]
pub struct Merged {
    /// For the report.
    pub view: InspectorMerge,
    /// Missing logs, times that cannot be trusted.
    pub warnings: Vec<Warning>,
}

/// Pairs the communication of all ranks with the collected records, gives sizes to events that have none, and says how far
/// both agree. `events` are those of each rank of `ranks`.
pub fn merge(ranks: &[RankKernels], events: &mut [Vec<Event>], logs: &Collected) -> Merged {
    let mut warnings = Vec::new();
    let mut unmatched: BTreeMap<String, u64> = BTreeMap::new();
    let mut missing_ranks = Vec::new();
    let mut coverage = Vec::new();
    let mut all: Vec<(usize, Pair)> = Vec::new();
    for (r, rank) in ranks.iter().enumerate() {
        let records = logs.of_process(rank.pid, rank.hostname.as_deref());
        if records.is_empty() {
            missing_ranks.push(rank.rank);
            *unmatched.entry("no log of this process".to_owned()).or_default() += events[r].len() as u64;
        }
        let found = pair::pair(rank, &events[r], &records, logs);
        let paired: BTreeSet<usize> = found.pairs.iter().map(|p| p.event).collect();
        coverage.push(InspectorRank {
            rank: rank.rank,
            kernels: events[r].len() as u64,
            paired: paired.len() as u64,
            records: records.len() as u64,
            records_in_capture: found.in_capture,
            unmatched_kernels: (events[r].len() - paired.len()) as u64,
            unmatched_records: found.in_capture.saturating_sub(found.pairs.len() as u64),
        });
        for (reason, count) in found.unmatched {
            *unmatched.entry(reason.to_owned()).or_default() += count;
        }
        all.extend(found.pairs.into_iter().map(|pair| (r, pair)));
    }
    for &rank in &missing_ranks {
        let traced = ranks.iter().find(|r| r.rank == rank);
        let whose = traced.map_or(String::new(), |r| {
            format!(" (process {}{})", r.pid, r.hostname.as_ref().map_or(String::new(), |h| format!(" on {h}")))
        });
        warnings.push(
            Warning::new(
                "inspector-rank-missing",
                format!("No Inspector record of rank {rank}{whose}: its log is not among the files, or nothing was written."),
            )
            .with_hint("Give the folder with all logs; the process must live longer than the dump interval after its last operation."),
        );
    }
    let trust = trust(&all, events, logs);
    for distrusted in trust.iter().filter(|t| !t.trusted) {
        warnings.push(
            Warning::new(
                "inspector-times-differ",
                format!(
                    "Inspector's times on communicator {} are not those of its operations: {} of {} pairs differ from the kernels by more than 10 us and 5 %. Pairs are kept, its bandwidths there are not given.",
                    distrusted.comm_id, distrusted.disagreeing, distrusted.pairs
                ),
            )
            .with_hint("The kernel times of the trace count. Known where sends or receives share the communicator with collectives, and where channels of a kernel start late."),
        );
    }
    give_sizes(&all, events, logs);
    let deltas: Vec<f64> = all.iter().filter_map(|(r, p)| delta_us(&events[*r][p.event], &logs.ops[p.record])).collect();
    let view = InspectorMerge {
        files: logs.files.len(),
        records: logs.files.iter().map(|f| f.records).sum(),
        formats: logs.files.iter().flat_map(|f| f.formats.iter().cloned()).collect::<BTreeSet<_>>().into_iter().collect(),
        bad_lines: logs.files.iter().map(|f| f.bad_lines).sum(),
        missing_ranks,
        ranks: coverage,
        pairs: all.iter().map(|(r, p)| view_pair(ranks[*r].rank, &events[*r][p.event], &logs.ops[p.record], logs, &trust)).collect(),
        duration_delta_us: spread_us(&deltas),
        typical: typical::typical(&all, logs, &trust),
        channel_imbalance: typical::channels(&all, logs),
        trust,
        unmatched,
    };
    Merged { view, warnings }
}

/// How far the record's duration is from the kernel's, microseconds.
fn delta_us(event: &Event, record: &LoggedOp) -> Option<f64> {
    record.exec_us.map(|us| (us - event.duration() as f64 / 1e3).abs())
}

fn spread_us(deltas: &[f64]) -> Option<DeltaUs> {
    let at = |q| stats::quantile(deltas, q).map(|us| (us * 1e3).round() / 1e3);
    Some(DeltaUs { p50: at(0.5)?, p95: at(0.95)?, max: at(1.0)? })
}

/// Whether the times logged for each communicator are those of its kernels.
fn trust(all: &[(usize, Pair)], events: &[Vec<Event>], logs: &Collected) -> Vec<CommTrust> {
    let mut by_comm: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for (r, pair) in all {
        let (event, record) = (&events[*r][pair.event], &logs.ops[pair.record]);
        if let Some(delta) = delta_us(event, record) {
            by_comm.entry(&logs.origins[record.origin].comm_id).or_default().push((delta, event.duration() as f64 / 1e3));
        }
    }
    by_comm
        .into_iter()
        .map(|(comm, deltas)| {
            let disagreeing = deltas.iter().filter(|(delta, kernel)| *delta > CLOSE_US && *delta > CLOSE_SHARE * kernel).count();
            CommTrust {
                comm_id: comm.to_owned(),
                pairs: deltas.len() as u64,
                disagreeing: disagreeing as u64,
                duration_delta_us: spread_us(&deltas.iter().map(|d| d.0).collect::<Vec<_>>()),
                trusted: disagreeing as f64 <= MAX_DISAGREEING * deltas.len() as f64,
            }
        })
        .collect()
}

fn view_pair(rank: u32, event: &Event, record: &LoggedOp, logs: &Collected, trust: &[CommTrust]) -> InspectorPair {
    let origin = &logs.origins[record.origin];
    let trusted = trust.iter().any(|t| t.trusted && t.comm_id == origin.comm_id);
    let exec = record.exec_us.filter(|us| *us > 0.0 && trusted);
    InspectorPair {
        rank,
        start_ns: event.start,
        op: record.op.label().to_owned(),
        comm_id: origin.comm_id.clone(),
        sn: record.sn,
        bytes: record.bytes,
        kernel_ns: event.duration(),
        exec_time_us: record.exec_us,
        timing_source: Some(record.timing.label().to_owned()),
        busbw_gbs: exec.zip(record.bytes).map(|(us, bytes)| busbw_gbs(record.op, bytes, origin.n_ranks, us)),
    }
}

/// Events without a payload get the size of their record.
fn give_sizes(all: &[(usize, Pair)], events: &mut [Vec<Event>], logs: &Collected) {
    for (r, pair) in all {
        let (event, record) = (&mut events[*r][pair.event], &logs.ops[pair.record]);
        if event.bytes.is_none() && !record.p2p {
            event.bytes = record.bytes;
            event.bytes_source = record.bytes.map(|_| BytesSource::Inspector);
        }
    }
}
