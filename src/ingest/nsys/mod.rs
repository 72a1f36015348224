//! Reports of Nsight Systems, exported as SQLite: one file in, one trace for each device that ran kernels out.
//!
//! SQL selects and names (`queries/`), [`db`] evens out the differences between versions, the other files gather rows
//! into columns. Every table is scanned once; correlation ids are never joined without their process.

pub mod contents;
pub mod db;
pub mod gpu_work;
pub mod host;
pub mod launches;
pub mod metadata;
pub mod payload;
pub mod queries;
pub mod ranges;
pub mod survey;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use regex::Regex;

use self::db::Db;
use self::gpu_work::{DeviceKey, GpuWork, KernelNames, Oddities, pid_of};
use self::launches::LaunchTable;
use self::metadata::Metadata;
use self::ranges::{CallIndex, Found, ProcessRanges, Wanted};
use crate::classify::Classifier;
use crate::model::host::Host;
use crate::model::{Class, NameId, Names, Ops, RankSource, RankTrace};
use crate::report::{Capture, Input};
use crate::warning::Warning;
use crate::{Error, Result};

/// What to look for while reading.
#[derive(Debug)]
pub struct Options<'a> {
    /// Texts of step ranges; `None` if steps are not ranges.
    pub step: Option<&'a Regex>,
    /// Which kernels are communication.
    pub classifier: &'a Classifier,
    /// Read the host's side too, which the replay needs.
    pub replay: bool,
}

/// What a trace says about its own rank number, by source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RankClues {
    /// From the MPI table.
    pub mpi: Option<u32>,
    /// From the init payload of the communicator with most ranks.
    pub nccl: Option<u32>,
    /// From the launcher's environment: good for one rank in a report only.
    pub environment: Option<(&'static str, u32)>,
    /// Number of ranks in the run, if anything says it.
    pub world_size: Option<u32>,
}

/// One device of one process, not yet numbered.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The trace; its rank is 0 and its source [`RankSource::Order`] until ranks are assigned.
    pub trace: RankTrace,
    /// What it says about its rank.
    pub clues: RankClues,
}

/// One report as it was read.
#[derive(Debug)]
pub struct NsysReport {
    /// What it is.
    pub input: Input,
    /// Devices that ran work, in order of (pid, device).
    pub candidates: Vec<Candidate>,
    /// What the reader has to know.
    pub warnings: Vec<Warning>,
    /// True if there are NVTX ranges other than NCCL's own.
    pub has_user_ranges: bool,
}

/// The file's name without its folder.
pub fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Reads one report.
///
/// # Errors
/// The file is missing, of another kind, damaged, or holds no GPU work.
pub fn read(path: &Path, index: usize, options: &Options<'_>) -> Result<NsysReport> {
    let db = Db::open(path)?;
    let meta = Metadata::read(&db)?;
    let mut work = GpuWork::read(&db, meta.zero)?;
    let ranked = ranked_devices(&work);
    if ranked.is_empty() {
        return Err(no_gpu_work(path, work.oddities.before_capture));
    }
    let mut names = Names::default();
    let strings: HashSet<i64> =
        work.kernel_names.iter().flat_map(|k| [k.short, k.demangled]).flatten().collect();
    let mut found =
        ranges::read(&db, &Wanted { step: options.step, strings }, meta.zero, &mut names)?;
    let (kernels, families) =
        kernel_classes(&work.kernel_names, &found, &mut names, options.classifier);
    let families = Arc::new(families);

    let mut tables: HashMap<u64, LaunchTable> = HashMap::new();
    for process in ranked.iter().map(|key| key.process).collect::<HashSet<u64>>() {
        let devices: Vec<&[i64]> = ranked
            .iter()
            .filter(|k| k.process == process)
            .map(|k| work.devices[k].correlations())
            .collect();
        tables.insert(process, LaunchTable::for_correlations(devices.iter().copied().flatten()));
    }
    let api_rows = launches::read(&db, &mut tables)?;
    let hosts = match options.replay {
        true => host::read(&db, tables.keys().copied(), &mut names)?,
        false => HashMap::new(),
    };
    let hosts: HashMap<u64, Arc<Host>> =
        hosts.into_iter().map(|(process, host)| (process, Arc::new(host))).collect();

    let names = Arc::new(names);
    let report = file_name(path);
    let mut odd = work.oddities;
    let mut candidates = Vec::with_capacity(ranked.len());
    let no_ranges = ProcessRanges::default();
    for key in &ranked {
        let Some(device) = work.devices.remove(key) else { continue };
        let ranges = found.processes.get(&key.process).unwrap_or(&no_ranges);
        let calls = CallIndex::new(&ranges.nccl);
        let Some(table) = tables.get(&key.process) else { continue };
        let ops = device.finish(
            table,
            |id| {
                kernels.get(id as usize).copied().unwrap_or((
                    NameId::NONE,
                    Class::Compute,
                    NameId::NONE,
                ))
            },
            |launch| calls.open_at(launch.thread, launch.start),
            &mut odd,
        );
        let names = (Arc::clone(&names), Arc::clone(&families));
        let mut found = candidate(*key, &meta, ranges, (index, &report), ops, names);
        found.trace.host = hosts.get(&key.process).cloned();
        candidates.push(found);
    }
    let input = describe(&db, &meta, work.rows, &found, api_rows);
    let warnings = warnings(&report, &meta, &odd, &found);
    found.processes.clear();
    Ok(NsysReport { input, candidates, warnings, has_user_ranges: found.user_ranges > 0 })
}

/// A trace of one device with what it says about its rank. `report` is its place among the inputs and its file name.
fn candidate(
    key: DeviceKey,
    meta: &Metadata,
    ranges: &ProcessRanges,
    (input, report): (usize, &str),
    ops: Ops,
    (names, families): (Arc<Names>, Arc<HashMap<NameId, &'static str>>),
) -> Candidate {
    let pid = pid_of(key.process);
    // With several devices in one process, an init payload says which device it speaks of.
    let inits: Vec<_> = ranges
        .inits
        .iter()
        .filter(|(_, device)| device.is_none_or(|d| d == key.device))
        .map(|(init, _)| *init)
        .collect();
    let largest = inits.iter().max_by_key(|init| (init.n_ranks, std::cmp::Reverse(init.comm)));
    let clues = RankClues {
        mpi: meta.mpi_ranks.get(&key.process).copied(),
        nccl: largest.map(|init| init.rank),
        environment: meta.rank,
        // No communicator has more ranks than the run.
        world_size: meta.world_size.max(largest.map(|init| init.n_ranks)),
    };
    let (gpu, gpu_uuid) =
        meta.gpu(pid, key.device).map_or((None, None), |gpu| (Some(gpu.model), gpu.uuid));
    let trace = RankTrace {
        rank: 0,
        rank_source: RankSource::Order,
        world_size: clues.world_size,
        input,
        report: report.to_owned(),
        pid,
        device: u32::try_from(key.device).unwrap_or(u32::MAX),
        gpu,
        gpu_uuid,
        hostname: meta.hostname.clone(),
        epoch_ns: meta.epoch_ns,
        ops,
        ranges: ranges.steps.clone(),
        nccl: ranges.nccl.clone(),
        gpu_operations: ranges.gpu_operations.clone(),
        comm_inits: inits,
        has_payloads: ranges
            .nccl
            .iter()
            .chain(&ranges.gpu_operations)
            .any(|call| call.comm.is_some()),
        host: None,
        names,
        families,
    };
    Candidate { trace, clues }
}

/// Devices that are ranks, in order: those that ran kernels, or, in a report without any, those that copied.
fn ranked_devices(work: &GpuWork) -> Vec<DeviceKey> {
    let mut all: Vec<DeviceKey> = work.devices.keys().copied().collect();
    all.sort_unstable();
    let with_kernels: Vec<DeviceKey> =
        all.iter().copied().filter(|key| work.devices[key].runs_kernels()).collect();
    if with_kernels.is_empty() { all } else { with_kernels }
}

fn no_gpu_work(path: &Path, before_capture: u64) -> Error {
    let fact = if before_capture > 0 {
        format!(
            "holds no GPU work: all {before_capture} kernels, copies and graph rows are from before the capture"
        )
    } else {
        "holds no GPU work (no kernels, no copies, no graph rows)".to_owned()
    };
    Error::input(path, fact).with_hint(
        "capture with --trace=cuda,nvtx and let the captured part reach the training steps",
    )
}

/// Name, class and grid of each distinct kernel, and the library of those that communicate.
fn kernel_classes(
    kernels: &[KernelNames],
    found: &Found,
    names: &mut Names,
    classifier: &Classifier,
) -> (Vec<(NameId, Class, NameId)>, HashMap<NameId, &'static str>) {
    let mut families = HashMap::new();
    let mut class_of = |kernel: &KernelNames| {
        let string = |id: Option<i64>| id.and_then(|id| found.strings.get(&id)).copied();
        let short = string(kernel.short).or(string(kernel.demangled));
        let name = short.unwrap_or_else(|| names.intern("(kernel without a name)"));
        let demangled = string(kernel.demangled).map_or("", |id| names.get(id));
        let family = classifier.kernel(names.get(name), demangled);
        if let Some(family) = family {
            families.insert(name, family.label());
        }
        let class = if family.is_some() { Class::Comm } else { Class::Compute };
        let grid = match kernel.grid {
            [Some(x), Some(y), Some(z)] => names.intern(&format!("{x}x{y}x{z}")),
            _ => NameId::NONE,
        };
        (name, class, grid)
    };
    let kernels = kernels.iter().map(&mut class_of).collect();
    (kernels, families)
}

fn describe(db: &Db, meta: &Metadata, rows: [u64; 4], found: &Found, api_rows: u64) -> Input {
    let [kernels, copies, memsets, graphs] = rows;
    let rows = BTreeMap::from([
        ("kernels".to_owned(), kernels),
        ("copies".to_owned(), copies),
        ("memsets".to_owned(), memsets),
        ("graphs".to_owned(), graphs),
        ("api_calls".to_owned(), api_rows),
        ("ranges".to_owned(), found.rows),
    ]);
    Input {
        path: db.path().to_string_lossy().into_owned(),
        nsys_version: meta.nsys_version.clone(),
        schema_version: meta.schema_version.clone(),
        capture: Capture {
            cuda_graph_mode: meta.cuda_graph_mode.clone(),
            settings: meta.settings.clone(),
            rows,
            nccl_payloads: found.payloads > 0,
        },
        size_bytes: db.size(),
    }
}

fn warnings(report: &str, meta: &Metadata, odd: &Oddities, found: &Found) -> Vec<Warning> {
    let mut list = Vec::new();
    let mut add = |count: u64, code: &str, message: String| {
        if count > 0 {
            list.push(Warning::new(code, message).in_report(report));
        }
    };
    add(
        odd.before_capture,
        "before-capture",
        format!("{} GPU operations start before the capture and are left out.", odd.before_capture),
    );
    add(
        found.before_capture,
        "before-capture",
        format!("{} step ranges begin before the capture and are left out.", found.before_capture),
    );
    add(
        odd.negative,
        "negative-duration",
        format!("{} GPU operations end before they start and count as zero length.", odd.negative),
    );
    add(
        odd.without_time,
        "no-time",
        format!(
            "{} GPU rows have no start or no end that can be a time and are left out.",
            odd.without_time
        ),
    );
    add(
        odd.without_launch,
        "no-launch",
        format!(
            "{} GPU operations have no API call in the capture: they belong to no step, but count in the windows they run in.",
            odd.without_launch
        ),
    );
    add(
        odd.graphs_with_kernels,
        "graph-rows-replaced",
        format!(
            "{} graph rows are left out because their kernels are there one by one.",
            odd.graphs_with_kernels
        ),
    );
    for error in &meta.errors {
        list.push(
            Warning::new("profiler-error", format!("The profiler noted an error: {error}"))
                .in_report(report),
        );
    }
    list
}
