//! The records of the traced processes, out of all logs: the rest is counted and forgotten while it is read.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;

use super::kernels::RankKernels;
use crate::ingest::hosts::{Logged, Traced, may_be_one_host};
use crate::ingest::inspector;
use crate::model::CommOp;
use crate::model::record::{Drops, LogFile, Origin, Record, Sink, Stamps, Timing};
use crate::{Error, Result};

/// One operation of a traced process, as small as it can be: a log may hold millions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LoggedOp {
    /// Index into [`Collected::origins`].
    pub origin: u32,
    /// What ran.
    pub op: CommOp,
    /// True for a send or receive.
    pub p2p: bool,
    /// How its duration was measured.
    pub timing: Timing,
    /// Sequence number.
    pub sn: Option<u64>,
    /// Message size in bytes, as logged.
    pub bytes: Option<u64>,
    /// Duration in microseconds; `None` where the log says 0 or nothing.
    pub exec_us: Option<f64>,
    /// When it was written, Unix microseconds.
    pub written_us: Option<i64>,
    /// What a verbose record adds.
    pub verbose: Option<Box<Verbose>>,
}

impl LoggedOp {
    /// True if the GPU's own timer took the duration: only then does it compare with a kernel's.
    pub(crate) fn is_gpu_timed(&self) -> bool {
        matches!(self.timing, Timing::KernelGpu | Timing::GpuGlobaltimer)
    }
}

/// What is kept of the stamps of a verbose record: host clock, Unix microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Verbose {
    /// When the host enqueued the operation.
    pub enqueued_us: Option<i64>,
    /// When the proxy thread noticed that the last channel had stopped.
    pub noticed_us: Option<i64>,
    /// Channels with both stamps.
    pub channels: u32,
    /// How long the channels worked on average, microseconds.
    pub mean_us: f64,
    /// How long the slowest of them worked, microseconds.
    pub slowest_us: f64,
}

impl Verbose {
    fn of(stamps: &Stamps) -> Verbose {
        let worked = |c: &crate::model::record::ChannelStamps| {
            Some(c.stop_us?.checked_sub(c.start_us?)? as f64).filter(|us| *us >= 0.0)
        };
        let times: Vec<f64> = stamps.channels.iter().filter_map(worked).collect();
        Verbose {
            enqueued_us: stamps.start_us,
            noticed_us: stamps.channels.iter().filter_map(|c| c.stop_us).max(),
            channels: u32::try_from(times.len()).unwrap_or(u32::MAX),
            mean_us: crate::stats::mean(&times).unwrap_or(0.0),
            slowest_us: times.iter().copied().fold(0.0, f64::max),
        }
    }
}

/// The records of one origin that count in one sequence of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A collective: `coll_sn` counts each operation of a communicator on its own.
    Coll(CommOp),
    /// Sends and receives: `p2p_sn` counts both together.
    P2p,
}

/// A sequence of records in order of their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Series {
    /// Index into [`Collected::origins`].
    pub origin: usize,
    /// Which sequence it is.
    pub kind: Kind,
    /// Its records in [`Collected::ops`].
    pub ops: Range<usize>,
}

/// Records that Inspector says it lost between two of its dumps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Loss {
    /// Index into [`Collected::origins`].
    pub origin: usize,
    /// How many.
    pub lost: u64,
    /// They ended after this time of writing (Unix microseconds), if anything was written before.
    pub after_us: Option<i64>,
    /// They ended before this time of writing, if anything was written after.
    pub before_us: Option<i64>,
}

/// Everything that the merge needs from the logs.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// Files read, in order.
    pub files: Vec<LogFile>,
    /// Who wrote the records, each once.
    pub origins: Vec<Origin>,
    /// Records of the wanted processes: by origin, kind and number, so that each series is one slice.
    pub ops: Vec<LoggedOp>,
    /// The slices.
    pub series: Vec<Series>,
    /// What Inspector lost, in the order of files.
    pub losses: Vec<Loss>,
    /// Records that stood in the logs before (copies of a file) and were left out.
    pub repeated: u64,
    /// Records of the wanted processes whose operation has no known name (`Invalid`).
    pub unnamed: u64,
}

/// A traced process: pid, and host name if the trace has it.
pub(crate) type Process = (u32, Option<String>);

impl Collected {
    /// Reads all logs below `paths` and keeps what the wanted processes wrote.
    ///
    /// # Errors
    /// A path without logs, a file that cannot be opened, logs without a single operation.
    pub(crate) fn read(paths: &[PathBuf], wanted: &[Process]) -> Result<Collected> {
        let files = inspector::files(paths)?;
        let all = Collected::of_files(&files, paths, wanted, false)?;
        // A process without a log may have one under another name of its host: then that pid is read of every host.
        let lacks = |(pid, host): &&Process| {
            !all.origins.iter().any(|origin| is_of(origin, *pid, host.as_deref()))
                && all.origins.iter().any(|origin| origin.pid == Some(*pid))
        };
        if wanted.iter().any(|process| lacks(&process)) {
            return Collected::of_files(&files, paths, wanted, true);
        }
        Ok(all)
    }

    /// Reads `files`; with `any_host`, host names do not matter.
    fn of_files(
        files: &[PathBuf],
        paths: &[PathBuf],
        wanted: &[Process],
        any_host: bool,
    ) -> Result<Collected> {
        let sink = || Collector { wanted, any_host, ..Collector::default() };
        let read = inspector::read(files, sink, || ());
        let mut all = Collected::default();
        let mut known: BTreeMap<Origin, usize> = BTreeMap::new();
        for result in read {
            let (file, mut part) = result?;
            // The same origin in several files is one.
            let index: Vec<usize> =
                part.origins.iter().map(|origin| all.origin(origin, &mut known)).collect();
            let global = |local: usize| index.get(local).copied().unwrap_or(local);
            part.ops.iter_mut().for_each(|op| op.origin = global(op.origin as usize) as u32);
            all.ops.append(&mut part.ops);
            all.losses.extend(
                part.losses.into_iter().map(|loss| Loss { origin: global(loss.origin), ..loss }),
            );
            all.unnamed += part.unnamed;
            all.files.push(file);
        }
        if all.files.iter().all(|file| file.operations == 0) {
            return Err(no_operation(paths, &all.files));
        }
        all.sort();
        Ok(all)
    }

    /// The same from records that are in memory already.
    #[cfg(test)]
    pub(crate) fn from_ops(origins: Vec<Origin>, ops: Vec<LoggedOp>) -> Collected {
        let mut all = Collected { origins, ops, ..Collected::default() };
        all.sort();
        all
    }

    fn origin(&mut self, origin: &Origin, known: &mut BTreeMap<Origin, usize>) -> usize {
        *known.entry(origin.clone()).or_insert_with(|| {
            self.origins.push(origin.clone());
            self.origins.len() - 1
        })
    }

    /// Puts records into series and drops those whose number is there already: copies of a file, or a slot that was dumped twice.
    fn sort(&mut self) {
        let kind = |op: &LoggedOp| if op.p2p { Kind::P2p } else { Kind::Coll(op.op) };
        // Records without a number keep the order in which they were written.
        self.ops.sort_by_key(|op| (op.origin, kind(op), op.sn.is_none(), op.sn, op.written_us));
        let before = self.ops.len();
        self.ops.dedup_by(|b, a| {
            a.sn.is_some() && a.sn == b.sn && a.origin == b.origin && kind(a) == kind(b)
        });
        self.repeated = (before - self.ops.len()) as u64;
        self.ops.shrink_to_fit();
        let mut first = 0;
        for series in self.ops.chunk_by(|a, b| a.origin == b.origin && kind(a) == kind(b)) {
            let ops = first..first + series.len();
            first = ops.end;
            self.series.push(Series {
                origin: series[0].origin as usize,
                kind: kind(&series[0]),
                ops,
            });
        }
    }

    /// The host under whose name a process wrote its log, if no log names its own host.
    pub(crate) fn other_host(
        &self,
        rank: &RankKernels,
        comms: &BTreeSet<String>,
        only: bool,
    ) -> Option<&str> {
        let traced = Traced {
            pid: rank.pid,
            hostname: rank.hostname.as_deref(),
            comm_inits: &rank.comm_inits,
            comms,
            only,
        };
        traced.other_host(self.origins.iter().map(|origin| Logged {
            pid: origin.pid,
            hostname: &origin.hostname,
            comm_id: &origin.comm_id,
            rank: origin.rank,
        }))
    }

    /// Indices of the series that one process wrote.
    pub(crate) fn of_process(&self, pid: u32, hostname: Option<&str>) -> Vec<usize> {
        let own: Vec<bool> =
            self.origins.iter().map(|origin| is_of(origin, pid, hostname)).collect();
        (0..self.series.len())
            .filter(|&i| own.get(self.series[i].origin).copied().unwrap_or(false))
            .collect()
    }
}

fn no_operation(paths: &[PathBuf], files: &[LogFile]) -> Error {
    let fact = match files.iter().any(|file| file.prometheus_samples > 0) {
        true => {
            "holds only summaries of Inspector's Prometheus mode: there is no single operation to pair"
        }
        false => "holds no record of NCCL Inspector",
    };
    let error = match paths {
        [only] => Error::input(only, fact),
        _ => Error::inputs(format!("what --inspector names {fact}")),
    };
    error.with_hint("name the files <host>-pid<pid>.log that the plugin wrote, or the folder that NCCL_INSPECTOR_DUMP_DIR pointed to")
}

/// True if the origin is this process.
pub(crate) fn is_of(origin: &Origin, pid: u32, hostname: Option<&str>) -> bool {
    origin.pid == Some(pid) && may_be_one_host(hostname, &origin.hostname)
}

#[derive(Debug, Default)]
struct Collector<'a> {
    wanted: &'a [Process],
    /// True if the pid alone says whether a process is wanted.
    any_host: bool,
    origins: Vec<Origin>,
    /// For each origin: whether a traced process wrote it.
    keep: Vec<bool>,
    counters: Vec<Counter>,
    losses: Vec<Loss>,
    ops: Vec<LoggedOp>,
    unnamed: u64,
}

/// The loss counters of one origin so far. Records stand before or after the counters of their dump, depending on the version,
/// so a loss is placed between the records before the last counters and the first record after the new ones.
#[derive(Debug, Clone, Copy, Default)]
struct Counter {
    seen: Drops,
    /// When the last record was written.
    last_us: Option<i64>,
    /// When the last record before the last counters was written.
    before_us: Option<i64>,
    /// Losses from this one on wait for the first record after them.
    open: Option<usize>,
}

impl Sink for Collector<'_> {
    fn origin(&mut self, origin: &Origin) {
        let wants = |(pid, host): &Process| match self.any_host {
            true => origin.pid == Some(*pid),
            false => is_of(origin, *pid, host.as_deref()),
        };
        self.keep.push(self.wanted.iter().any(wants));
        self.origins.push(origin.clone());
        self.counters.push(Counter::default());
    }

    fn record(&mut self, record: &Record<'_>) {
        if !self.keep.get(record.origin).copied().unwrap_or(false) {
            return;
        }
        if let Some(counter) = self.counters.get_mut(record.origin) {
            counter.last_us = record.written_us.or(counter.last_us);
            if let (Some(open), Some(_)) = (counter.open, record.written_us) {
                let waiting = self
                    .losses
                    .iter_mut()
                    .skip(open)
                    .filter(|loss| loss.origin == record.origin && loss.before_us.is_none());
                waiting.for_each(|loss| loss.before_us = record.written_us);
                counter.open = None;
            }
        }
        let Some(op) = record.op else {
            self.unnamed += 1;
            return;
        };
        self.ops.push(LoggedOp {
            // A file with more than 2^32 origins would need terabytes.
            origin: u32::try_from(record.origin).unwrap_or(u32::MAX),
            op,
            p2p: record.p2p,
            timing: record.timing,
            sn: record.sn,
            bytes: record.bytes,
            exec_us: record.exec_us,
            written_us: record.written_us,
            verbose: record.stamps.as_ref().map(|stamps| Box::new(Verbose::of(stamps))),
        });
    }

    fn drops(&mut self, origin: usize, drops: Drops) {
        if !self.keep.get(origin).copied().unwrap_or(false) {
            return;
        }
        let Some(counter) = self.counters.get_mut(origin) else { return };
        // Totals are cumulative.
        let lost = drops
            .coll
            .saturating_sub(counter.seen.coll)
            .saturating_add(drops.p2p.saturating_sub(counter.seen.p2p));
        if lost > 0 {
            counter.open = counter.open.or(Some(self.losses.len()));
            self.losses.push(Loss { origin, lost, after_us: counter.before_us, before_us: None });
        }
        counter.seen =
            Drops { coll: counter.seen.coll.max(drops.coll), p2p: counter.seen.p2p.max(drops.p2p) };
        counter.before_us = counter.last_us;
    }
}
