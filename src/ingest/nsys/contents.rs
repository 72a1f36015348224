//! What a report holds, counted: the ranges are read as for a report, of the GPU work only who ran how much of what and when.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use rusqlite::Row;
use serde::Serialize;

use super::db::{Db, int, text, time};
use super::gpu_work::{DeviceKey, KernelNames, process_of};
use super::metadata::Metadata;
use super::queries::{self, Query};
use super::ranges::{self, Found, ProcessRanges, Wanted};
use super::{NsysReport, Options};
use crate::model::{Class, CommOp, Names, Ns, Ops};
use crate::{Result, classify};

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
    /// NVTX ranges other than NCCL's own.
    pub user_ranges: u64,
    /// True if the payloads of NCCL's ranges are described, whether or not they are there.
    pub payloads_described: bool,
    /// Warnings and errors of the profiler.
    pub notes: Vec<Note>,
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
/// The file is missing, of another kind, damaged, or holds no GPU work.
pub fn read(path: &Path, index: usize, options: &Options<'_>) -> Result<Contents> {
    let db = Db::open(path)?;
    let meta = Metadata::read(&db)?;
    let mut tally = Tally::read(&db, meta.zero)?;
    let ranked = tally.ranked();
    if ranked.is_empty() {
        return Err(super::no_gpu_work(path, tally.before_capture));
    }
    let kernels: Vec<KernelNames> = tally.names.clone();
    let strings: HashSet<i64> =
        kernels.iter().flat_map(|k| [k.short, k.demangled]).flatten().collect();
    let mut names = Names::default();
    let found = ranges::read(&db, &Wanted { step: options.step, strings }, meta.zero, &mut names)?;
    let (classes, families) =
        super::kernel_classes(&kernels, &found, &mut names, options.classifier);
    let (names, families) = (Arc::new(names), Arc::new(families));
    let report = super::file_name(path);
    let none = ProcessRanges::default();
    let mut candidates = Vec::with_capacity(ranked.len());
    let mut work = Vec::with_capacity(ranked.len());
    for key in ranked {
        let Some(device) = tally.devices.remove(&key) else { continue };
        let ranges = found.processes.get(&key.process).unwrap_or(&none);
        let shared = (Arc::clone(&names), Arc::clone(&families));
        candidates.push(super::candidate(
            key,
            &meta,
            ranges,
            (index, &report),
            Ops::default(),
            shared,
        ));
        let is_comm =
            |id: &u32| classes.get(*id as usize).is_some_and(|(_, class, _)| *class == Class::Comm);
        let op = |id: &u32| {
            classes.get(*id as usize).and_then(|(name, ..)| classify::op(names.get(*name)))
        };
        let comm = || device.by_name.iter().filter(|(id, _)| is_comm(id));
        let comm_kernels = comm().map(|(_, n)| n).sum();
        let send_kernels =
            comm().filter(|(id, _)| op(id) == Some(CommOp::SendRecv)).map(|(_, n)| n).sum();
        work.push(Work { comm_kernels, send_kernels, ..device.work });
    }
    contents(&db, meta, &tally, &found, (candidates, work))
}

fn contents(
    db: &Db,
    meta: Metadata,
    tally: &Tally,
    found: &Found,
    (candidates, work): (Vec<super::Candidate>, Vec<Work>),
) -> Result<Contents> {
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
        if let (Some(severity), Some(text), Some(count)) = (int(row, 0), text(row, 1), int(row, 2))
        {
            notes.push(Note {
                error: severity >= 3,
                text: text.into_owned(),
                count: u64::try_from(count).unwrap_or(0),
            });
        }
    })?;
    let input = super::describe(db, &meta, tally.rows, found, api_calls);
    let report = NsysReport {
        input,
        candidates,
        warnings: Vec::new(),
        has_user_ranges: found.user_ranges > 0,
    };
    Ok(Contents {
        report,
        work,
        meta,
        capture_ns,
        user_ranges: found.user_ranges,
        payloads_described,
        notes,
    })
}

/// One device while its rows are counted.
#[derive(Debug, Default)]
struct Device {
    work: Work,
    /// Kernels by index of their name.
    by_name: HashMap<u32, u64>,
}

/// The GPU work of a report, counted.
#[derive(Debug, Default)]
struct Tally {
    devices: BTreeMap<DeviceKey, Device>,
    names: Vec<KernelNames>,
    name_index: HashMap<KernelNames, u32>,
    rows: [u64; 4],
    before_capture: u64,
}

/// A row of GPU work.
struct Op {
    key: DeviceKey,
    start: Ns,
    end: Ns,
    /// Process and correlation id: what the kernels of a graph share with its launch.
    launch: (u64, i64),
}

impl Tally {
    fn read(db: &Db, zero: Ns) -> Result<Tally> {
        let mut tally = Tally::default();
        let mut graphs: Vec<Op> = Vec::new();
        tally.rows[3] = tally.scan(db, queries::GRAPHS, zero, |_, op, _| graphs.push(op))?;
        // A graph whose kernels are there one by one hides nothing.
        let launched: HashSet<(u64, i64)> =
            graphs.iter().map(|op| op.launch).filter(|(_, id)| *id != 0).collect();
        let mut resolved: HashSet<(u64, i64)> = HashSet::new();
        let mut see = |op: &Op| {
            if !launched.is_empty() && launched.contains(&op.launch) {
                resolved.insert(op.launch);
            }
        };
        tally.rows[0] = tally.scan(db, queries::KERNELS, zero, |tally, op, row| {
            see(&op);
            let name = tally.name(KernelNames {
                short: int(row, 7),
                demangled: int(row, 8),
                grid: [None; 3],
            });
            let device = tally.add(&op);
            device.work.kernels += 1;
            *device.by_name.entry(name).or_default() += 1;
        })?;
        tally.rows[1] = tally.scan(db, queries::COPIES, zero, |tally, op, _| {
            see(&op);
            tally.add(&op).work.copies += 1;
        })?;
        tally.rows[2] = tally.scan(db, queries::MEMSETS, zero, |tally, op, _| {
            see(&op);
            tally.add(&op).work.memsets += 1;
        })?;
        graphs
            .iter()
            .filter(|op| !resolved.contains(&op.launch))
            .for_each(|op| tally.add(op).work.graphs += 1);
        Ok(tally)
    }

    /// Hands every row of a table that counts to `each`; the first seven columns are those of all tables of GPU work.
    fn scan(
        &mut self,
        db: &Db,
        query: Query,
        zero: Ns,
        mut each: impl FnMut(&mut Tally, Op, &Row<'_>),
    ) -> Result<u64> {
        db.each(query, [], |row| {
            let (Some(start), Some(end)) = (time(row, 0), time(row, 1)) else { return };
            if start < zero {
                self.before_capture += 1;
                return;
            }
            let process = process_of(int(row, 6).unwrap_or(0));
            let key = DeviceKey { process, device: int(row, 2).unwrap_or(0) };
            each(
                self,
                Op { key, start, end: end.max(start), launch: (process, int(row, 5).unwrap_or(0)) },
                row,
            );
        })
    }

    fn name(&mut self, names: KernelNames) -> u32 {
        *self.name_index.entry(names).or_insert_with(|| {
            self.names.push(names);
            (self.names.len() - 1) as u32
        })
    }

    fn add(&mut self, op: &Op) -> &mut Device {
        let device = self.devices.entry(op.key).or_default();
        let (first, last) = device.work.span.unwrap_or((op.start, op.end));
        device.work.span = Some((first.min(op.start), last.max(op.end)));
        device
    }

    /// Devices that are ranks, as in [`super::read`]: those that ran kernels or graphs, or, without any, those that copied.
    fn ranked(&self) -> Vec<DeviceKey> {
        let runs = |device: &Device| device.work.kernels + device.work.graphs > 0;
        let any = self.devices.values().any(runs);
        self.devices
            .iter()
            .filter(|(_, device)| !any || runs(device))
            .map(|(key, _)| *key)
            .collect()
    }
}
