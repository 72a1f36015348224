//! What a report holds, counted: the ranges are read as for a report, of the GPU work only who ran how much of what and when.

use std::path::Path;

use foldhash::HashMap;
use serde::Serialize;

use super::db::{Db, int, shown, time};
use super::gpu_work::{GpuRow, GpuWork, Kind, Sink};
use super::metadata::Metadata;
use super::schema::{self, Differences};
use super::{NsysReport, Options, Place, Ranges, queries};
use crate::model::{Class, CommOp, Ns, Ops};
use crate::{Error, Result, classify};

/// What one report holds.
#[derive(Debug)]
pub struct Contents {
    /// As [`super::read`] gives it, except that the traces have no operations and there are no warnings.
    pub report: NsysReport,
    /// The work of each candidate of the report, in the same order.
    pub work: Vec<Work>,
    /// What the report says about itself.
    pub meta: Metadata,
    /// How long was captured, ns; `None` if the report does not say.
    pub capture_ns: Option<Ns>,
    /// True if the payloads of NCCL's ranges are described, whether or not they are there.
    pub payloads_described: bool,
    /// Warnings and errors of the profiler.
    pub notes: Vec<Note>,
    /// How its tables differ from those that are read.
    pub differences: Differences,
    /// Why there is no GPU work, so that no report can be made; `None` where there is some.
    pub no_work: Option<Error>,
}

/// What one device ran during the capture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Kernels.
    pub kernels: u64,
    /// Communication kernels among them.
    pub comm_kernels: u64,
    /// Kernels of sends and receives among those.
    pub send_kernels: u64,
    /// Memory copies.
    pub copies: u64,
    /// Copies between GPUs among those.
    pub peer_copies: u64,
    /// Memory sets.
    pub memsets: u64,
    /// CUDA graphs of which only the launch as a whole was captured.
    pub graphs: u64,
    /// First start and last end, in the report's own time.
    pub span: Option<(Ns, Ns)>,
}

/// Something that the profiler noted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    /// True for an error, false for a warning.
    pub error: bool,
    /// Its words.
    pub text: String,
    /// How often.
    pub count: u64,
}

/// Counts what a report holds.
///
/// # Errors
/// The file is missing, of another kind, or damaged.
pub fn read(path: &Path, index: usize, options: &Options<'_>) -> Result<Contents> {
    let db = Db::open(path)?;
    let meta = Metadata::read(&db)?;
    let mut tally = GpuWork::<Counted>::read(&db, meta.zero, options.parts)?;
    let ranked = tally.ranked();
    let no_work = ranked
        .is_empty()
        .then(|| super::no_work::reason(&db, &meta, tally.oddities.before_capture))
        .transpose()?;
    let mut ranges = Ranges::read(&db, &meta, &tally.kernel_names, options)?;
    let place = Place { input: index, report: super::file_name(path) };
    let mut candidates = Vec::with_capacity(ranked.len());
    let mut work = Vec::with_capacity(ranked.len());
    for key in &ranked {
        let Some(device) = tally.devices.remove(key) else { continue };
        candidates.push(ranges.candidate(*key, &meta, &place, Ops::default()));
        work.push(device.finish(&ranges));
    }
    let mut api_calls = 0;
    db.each(queries::API_CALLS, [], |row| {
        api_calls = int(row, 0).and_then(|n| u64::try_from(n).ok()).unwrap_or(0)
    })?;
    let mut capture_ns = None;
    db.each(queries::DURATION, [], |row| {
        capture_ns = capture_ns.max(time(row, 0).filter(|&ns| ns > 0))
    })?;
    let payloads_described = db.each(queries::PAYLOAD_ENTRIES, [], |_| ())? > 0;
    let mut notes = Vec::new();
    db.each(queries::NOTES, [], |row| {
        if let (Some(severity), Some(text), Some(count)) = (int(row, 0), shown(row, 1), int(row, 2))
        {
            notes.push(Note {
                error: severity >= 3,
                text,
                count: u64::try_from(count).unwrap_or(0),
            });
        }
    })?;
    let report = NsysReport {
        input: super::describe(&db, &meta, tally.rows, &ranges.found, api_calls),
        candidates,
        warnings: Vec::new(),
        user_ranges: ranges.found.user_ranges,
        elsewhere: ranges.elsewhere(&ranked),
        sampled: Vec::new(),
    };
    let differences = schema::of(&db, &meta);
    Ok(Contents { report, work, meta, capture_ns, payloads_described, notes, differences, no_work })
}

/// One device, counted.
#[derive(Debug, Default)]
struct Counted {
    work: Work,
    /// Kernels by index of their name.
    by_name: HashMap<u32, u64>,
}

impl Sink for Counted {
    fn push(&mut self, row: &GpuRow) {
        let work = &mut self.work;
        let (first, last) = work.span.unwrap_or((row.start, row.end));
        work.span = Some((first.min(row.start), last.max(row.end)));
        match row.kind {
            Kind::Kernel(id) => {
                work.kernels += 1;
                *self.by_name.entry(id).or_default() += 1;
            }
            Kind::Other(Class::Memset) => work.memsets += 1,
            Kind::Other(Class::Unclassified) => work.graphs += 1,
            Kind::Other(class) => {
                work.copies += 1;
                work.peer_copies += u64::from(class == Class::Ptop);
            }
        }
    }

    fn absorb(&mut self, other: Counted, kernels: &[u32]) {
        let (work, more) = (&mut self.work, other.work);
        work.kernels += more.kernels;
        work.copies += more.copies;
        work.peer_copies += more.peer_copies;
        work.memsets += more.memsets;
        work.graphs += more.graphs;
        work.span = match (work.span, more.span) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, other) => one.or(other),
        };
        for (id, count) in other.by_name {
            if let Some(&place) = kernels.get(id as usize) {
                *self.by_name.entry(place).or_default() += count;
            }
        }
    }

    fn runs_kernels(&self) -> bool {
        self.work.kernels + self.work.graphs > 0
    }
}

impl Counted {
    /// The counts, with those of kernels that communicate.
    fn finish(self, ranges: &Ranges) -> Work {
        let mut work = self.work;
        for (id, count) in self.by_name {
            let Some((name, Class::Comm, _)) = ranges.kernels.get(id as usize) else { continue };
            work.comm_kernels += count;
            if classify::op(ranges.names.get(*name)) == Some(CommOp::SendRecv) {
                work.send_kernels += count;
            }
        }
        work
    }
}
