//! The records of the traced processes, out of all logs: the rest is counted and forgotten while it is read.

use std::path::PathBuf;

use super::LoggedOp;
use crate::Result;
use crate::ingest::inspector;
use crate::model::record::{Drops, LogFile, Origin, Record, Sink};

/// Everything that the merge needs from the logs.
#[derive(Debug, Default)]
pub struct Collected {
    /// Files read, in order.
    pub files: Vec<LogFile>,
    /// Who wrote the records.
    pub origins: Vec<Origin>,
    /// Records of the wanted processes, in the order of files and lines.
    pub ops: Vec<LoggedOp>,
    /// Records that Inspector says it lost, over all origins.
    pub dropped: u64,
}

/// A traced process: pid, and host name if the trace has it.
pub type Process = (u32, Option<String>);

impl Collected {
    /// Reads all logs below `paths` and keeps what the wanted processes wrote.
    ///
    /// # Errors
    /// A path without logs, a file that cannot be opened.
    pub fn read(paths: &[PathBuf], wanted: &[Process]) -> Result<Collected> {
        let files = inspector::files(paths)?;
        let read = inspector::read(&files, || Collector { wanted, ..Collector::default() }, || ());
        let mut all = Collected::default();
        for result in read {
            let (file, mut part) = result?;
            let shift = all.origins.len();
            all.files.push(file);
            all.origins.append(&mut part.origins);
            part.ops.iter_mut().for_each(|op| op.origin += shift);
            all.ops.append(&mut part.ops);
            all.dropped = all.dropped.saturating_add(part.drops.iter().fold(0, |sum, d| sum.saturating_add(d.coll).saturating_add(d.p2p)));
        }
        Ok(all)
    }

    /// Indices of the records of one process.
    pub fn of_process(&self, pid: u32, hostname: Option<&str>) -> Vec<usize> {
        let own: Vec<bool> = self.origins.iter().map(|origin| is_of(origin, pid, hostname)).collect();
        (0..self.ops.len()).filter(|&i| own[self.ops[i].origin]).collect()
    }
}

/// Host names are compared up to the first dot: one side may have the domain.
fn is_of(origin: &Origin, pid: u32, hostname: Option<&str>) -> bool {
    let short = |name: &str| name.split('.').next().unwrap_or(name).to_ascii_lowercase();
    origin.pid == Some(pid) && hostname.is_none_or(|name| origin.hostname.is_empty() || short(name) == short(&origin.hostname))
}

#[derive(Debug, Default)]
struct Collector<'a> {
    wanted: &'a [Process],
    origins: Vec<Origin>,
    keep: Vec<bool>,
    drops: Vec<Drops>,
    ops: Vec<LoggedOp>,
}

impl Sink for Collector<'_> {
    fn origin(&mut self, origin: &Origin) {
        self.keep.push(self.wanted.iter().any(|(pid, host)| is_of(origin, *pid, host.as_deref())));
        self.origins.push(origin.clone());
        self.drops.push(Drops::default());
    }

    fn record(&mut self, record: &Record<'_>) {
        let Some(op) = record.op.filter(|_| self.keep.get(record.origin).copied().unwrap_or(false)) else { return };
        self.ops.push(LoggedOp {
            origin: record.origin,
            op,
            p2p: record.p2p,
            sn: record.sn,
            bytes: record.bytes,
            exec_us: record.exec_us,
            timing: record.timing,
            written_us: record.written_us,
            stamps: record.stamps.clone(),
        });
    }

    fn drops(&mut self, origin: usize, drops: Drops) {
        // Totals are cumulative: the last one counts.
        if let Some(seen) = self.drops.get_mut(origin) {
            *seen = drops;
        }
    }
}
