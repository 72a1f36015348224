//! Reports of Nsight Systems, exported as SQLite: one file in, one trace for each device that ran kernels out.
//!
//! SQL selects and names (`queries/`), [`db`] evens out the differences between versions, the other files gather rows
//! into columns. Every table is scanned once; correlation ids are never joined without their process.

pub mod contents;
pub(crate) mod db;
pub mod export;
pub mod gather;
pub mod gpu_metrics;
pub mod gpu_work;
pub mod host;
pub mod ids;
pub mod launches;
pub mod metadata;
pub mod no_work;
pub mod notes;
pub mod payload;
pub(crate) mod queries;
pub mod ranges;
pub(crate) mod schema;
pub mod stream_order;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use self::db::Db;
use self::gpu_work::{DeviceKey, DeviceWork, GpuWork, KernelNames, Oddities, WORK_TABLES};
use self::ids::pid_of;
use self::launches::LaunchTable;
use self::metadata::Metadata;
pub use self::ranges::StepTexts;
use self::ranges::{CallIndex, Found, ProcessRanges, Wanted};
use crate::Result;
use crate::catalogue::Id;
use crate::classify::{self, Classifier};
use crate::model::counter::Sampled;
use crate::model::host::Host;
use crate::model::input::{Capture, Input};
use crate::model::{Class, NameId, Names, NcclCall, Ops, RankSource, RankTrace, Texts, UserRanges};
use crate::units;
use crate::warning::Warning;
use foldhash::{HashMap, HashMapExt, HashSet};

/// What to look for while reading.
#[derive(Debug)]
pub struct Options<'a> {
    /// Texts of step ranges; `None` if steps are not ranges.
    pub step: Option<StepTexts<'a>>,
    /// Which kernels are communication.
    pub classifier: &'a Classifier,
    /// Read the host's side too, which the replay needs.
    pub replay: bool,
    /// Parts of a table that are read at the same time, at most: 1 where whole files are.
    pub parts: usize,
}

/// Parts in which the tables of each of these files are read: more than one where threads are left and the files are large.
pub fn parts<'a>(files: impl ExactSizeIterator<Item = &'a Path>) -> usize {
    let threads = rayon::current_num_threads();
    if threads <= files.len() {
        return 1;
    }
    let size = |path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    let largest = files.map(size).max().unwrap_or(0);
    (8 * threads).min(MOST_PARTS).min((largest / PART) as usize).max(1)
}

/// Parts of a table, at most: each holds pages and rows.
const MOST_PARTS: usize = 64;
/// Bytes of a file that are worth a part of their own.
const PART: u64 = 16 << 20;

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
    /// NVTX ranges other than NCCL's own.
    pub user_ranges: u64,
    /// Ranges of processes that ran no GPU work, in order of their process.
    pub elsewhere: Vec<Elsewhere>,
    /// Counters of GPUs that were sampled beside the trace.
    pub sampled: Vec<Sampled>,
}

/// Ranges of a process that ran no GPU work.
#[derive(Debug, Clone)]
pub struct Elsewhere {
    /// Operating-system process id.
    pub pid: u32,
    /// The ranges.
    pub ranges: Arc<UserRanges>,
    /// Their texts.
    pub texts: Arc<Texts>,
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
    let mut work = GpuWork::<DeviceWork>::read(&db, meta.zero, options.parts)?;
    let ranked = work.ranked();
    if ranked.is_empty() {
        return Err(no_work::reason(&db, &meta, work.oddities.before_capture)?);
    }
    let mut read = Ranges::read(&db, &meta, &work.kernel_names, options)?;

    let mut tables: HashMap<u64, LaunchTable> = HashMap::new();
    for process in ranked.iter().map(|key| key.process).collect::<HashSet<u64>>() {
        let devices: Vec<&[i64]> = ranked
            .iter()
            .filter(|k| k.process == process)
            .map(|k| work.devices[k].correlations())
            .collect();
        tables.insert(process, LaunchTable::for_correlations(devices.iter().copied().flatten()));
    }
    let api_rows = launches::read(&db, &mut tables, options.parts)?;
    let mut hosts: HashMap<u64, Arc<Host>> = HashMap::new();
    if options.replay {
        let names = Arc::make_mut(&mut read.names);
        let found = host::read(&db, tables.keys().copied(), names)?;
        hosts.extend(found.into_iter().map(|(process, host)| (process, Arc::new(host))));
    }

    let place = Place { input: index, report: file_name(path) };
    let mut odd = work.oddities;
    let mut launched = Vec::with_capacity(ranked.len());
    for key in &ranked {
        let Some(device) = work.devices.remove(key) else { continue };
        let Some(table) = tables.get(&key.process) else { continue };
        launched.push((key, device.launched(table)));
    }
    drop(tables);
    let mut candidates = Vec::with_capacity(ranked.len());
    for (key, device) in launched {
        let calls = CallIndex::new(read.calls(key.process));
        let ops = device.finish(
            key.process,
            |id| {
                let unknown = (NameId::NONE, Class::Unclassified, NameId::NONE);
                read.kernels.get(id as usize).copied().unwrap_or(unknown)
            },
            &calls,
            &mut odd,
        );
        let mut candidate = read.candidate(*key, &meta, &place, ops);
        candidate.trace.host = hosts.get(&key.process).map(Arc::clone);
        candidates.push(candidate);
    }
    let input = describe(&db, &meta, work.rows, &read.found, api_rows);
    let mut warnings = warnings(&place.report, &meta, &odd, &read.found);
    warnings.extend(differs(&db, &meta, &place.report));
    let (sampled, of_counters) = gpu_metrics::read(&db, &meta, &place.report)?;
    warnings.extend(of_counters);
    let user_ranges = read.found.user_ranges;
    let elsewhere = read.elsewhere(&ranked);
    Ok(NsysReport { input, candidates, warnings, user_ranges, elsewhere, sampled })
}

/// Where a report stands among the inputs, and its file name.
struct Place {
    input: usize,
    report: String,
}

/// The ranges of a report, its names, and what its kernels are.
struct Ranges {
    found: Found,
    /// The user's ranges by process: devices of a process share them.
    user: HashMap<u64, Arc<UserRanges>>,
    texts: Arc<Texts>,
    names: Arc<Names>,
    /// Name, class and grid of each distinct kernel.
    kernels: Vec<(NameId, Class, NameId)>,
    families: Arc<HashMap<NameId, &'static str>>,
    none: ProcessRanges,
}

impl Ranges {
    fn read(
        db: &Db,
        meta: &Metadata,
        kernels: &[KernelNames],
        options: &Options<'_>,
    ) -> Result<Ranges> {
        let mut names = Names::default();
        let strings = kernels.iter().flat_map(|k| [k.short, k.demangled]).flatten().collect();
        let wanted = Wanted { step: options.step, strings };
        let mut found = ranges::read(db, &wanted, meta.zero, &mut names)?;
        let (kernels, families) = kernel_classes(kernels, &found, &mut names, options.classifier);
        let texts = Arc::new(std::mem::take(&mut found.texts));
        let user = found
            .processes
            .iter_mut()
            .map(|(process, ranges)| (*process, Arc::new(std::mem::take(&mut ranges.user))))
            .collect();
        let (names, families) = (Arc::new(names), Arc::new(families));
        Ok(Ranges { found, user, texts, names, kernels, families, none: ProcessRanges::default() })
    }

    fn calls(&self, process: u64) -> &[NcclCall] {
        self.found.processes.get(&process).map_or(&[], |ranges| &ranges.nccl)
    }

    /// Ranges of processes that are not ranks.
    fn elsewhere(&mut self, ranked: &[DeviceKey]) -> Vec<Elsewhere> {
        let mut others: Vec<(u64, Arc<UserRanges>)> = std::mem::take(&mut self.user)
            .into_iter()
            .filter(|(process, ranges)| {
                !ranges.is_empty() && ranked.iter().all(|key| key.process != *process)
            })
            .collect();
        others.sort_by_key(|(process, _)| *process);
        let one = |(process, ranges)| Elsewhere {
            pid: pid_of(process),
            ranges,
            texts: Arc::clone(&self.texts),
        };
        others.into_iter().map(one).collect()
    }

    /// A trace of one device with what it says about its rank.
    fn candidate(&self, key: DeviceKey, meta: &Metadata, place: &Place, ops: Ops) -> Candidate {
        let pid = pid_of(key.process);
        let ranges = self.found.processes.get(&key.process).unwrap_or(&self.none);
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
            input: place.input,
            report: place.report.clone(),
            pid,
            device: u32::try_from(key.device).unwrap_or(u32::MAX),
            gpu,
            gpu_uuid,
            gpu_index: meta.gpu_index(pid, key.device),
            machine_gpus: meta.gpu_uuids(),
            hostname: meta.hostname.clone(),
            epoch_ns: meta.epoch_ns,
            ops,
            ranges: self.user.get(&key.process).map(Arc::clone).unwrap_or_default(),
            texts: Arc::clone(&self.texts),
            nccl: ranges.nccl.clone(),
            gpu_operations: ranges.gpu_operations.clone(),
            comm_inits: inits,
            has_payloads: ranges
                .nccl
                .iter()
                .chain(&ranges.gpu_operations)
                .any(|call| call.comm.is_some()),
            host: None,
            names: Arc::clone(&self.names),
            families: Arc::clone(&self.families),
        };
        Candidate { trace, clues }
    }
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
        let known = |id: Option<i64>, names: &Names| {
            id.and_then(|id| found.strings.get(&id))
                .copied()
                .filter(|&id| !names.get(id).is_empty())
        };
        let demangled = known(kernel.demangled, names);
        let short = known(kernel.short, names).or_else(|| {
            let short = classify::short_name(names.get(demangled?)).to_owned();
            Some(names.intern(&short))
        });
        // Without a name nobody can say whether it communicates.
        let Some(name) = short else {
            return (names.intern("(kernel without a name)"), Class::Unclassified, NameId::NONE);
        };
        let family = classifier.kernel(names.get(name), demangled.map_or("", |id| names.get(id)));
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

/// Columns that one warning names.
const COLUMNS: usize = 12;

/// The one warning about an export whose columns are not those that are known.
fn differs(db: &Db, meta: &Metadata, report: &str) -> Option<Warning> {
    let schema::Differences { lacking, newer, .. } = schema::of(db, meta);
    if lacking.is_empty() {
        return None;
    }
    let (major, minor) = schema::NEWEST;
    let which = newer.map_or_else(
        || "The export's tables are not those of a known version".to_owned(),
        |newer| format!("The export's schema {newer} is newer than the newest that is known here, {major}.{minor}"),
    );
    let lacking: Vec<&str> = lacking.iter().map(String::as_str).collect();
    let message = format!(
        "{which}: it has no column {}. What they would tell is not measured; the rest is read as usual.",
        units::listed(&lacking, COLUMNS)
    );
    let hint =
        "If this export is of a newer Nsight Systems, look for a newer version of this program.";
    Some(Warning::new(Id::SchemaUnknown, message).with_hint(hint).in_report(report))
}

fn warnings(report: &str, meta: &Metadata, odd: &Oddities, found: &Found) -> Vec<Warning> {
    let mut list = Vec::new();
    let mut add = |count: u64, id: Id, message: String| {
        if count > 0 {
            list.push(Warning::new(id, message).in_report(report));
        }
    };
    add(
        odd.before_capture,
        Id::BeforeCapture,
        format!("{} GPU operations start before the capture and are left out.", odd.before_capture),
    );
    add(
        found.before_capture,
        Id::BeforeCapture,
        format!("{} step ranges begin before the capture and are left out.", found.before_capture),
    );
    let rows = |n: usize| units::plural(n, "row");
    for (i, table) in WORK_TABLES.into_iter().enumerate() {
        let counted = |list: [u64; 4]| list.get(i).copied().unwrap_or(0);
        let n = counted(odd.negative);
        add(
            n,
            Id::NegativeDuration,
            format!(
                "{} of {table} end before they start and count as zero length.",
                rows(n as usize)
            ),
        );
        let n = counted(odd.without_time);
        add(
            n,
            Id::NoTime,
            format!(
                "{} of {table} are left out: they have no start or no end that can be a time.",
                rows(n as usize)
            ),
        );
        let n = counted(odd.zero_time);
        add(
            n,
            Id::ZeroTime,
            format!(
                "{} of {table} are left out: start and end are zero, since the profiler lost the times.",
                rows(n as usize)
            ),
        );
        let n = counted(odd.overrun);
        add(
            n,
            Id::Overrun,
            format!(
                "{} of {table} run far over the next operation of their stream, which cannot be: they are cut where it starts.",
                rows(n as usize)
            ),
        );
    }
    add(
        odd.unnamed,
        Id::UnnamedKernels,
        format!(
            "{} kernels have no name in the report, so nobody can tell whether they communicate: they are work of unknown class. Communication numbers are lower bounds, and shares are not given.",
            odd.unnamed
        ),
    );
    add(
        odd.without_launch,
        Id::NoLaunch,
        format!(
            "{} GPU operations have no API call in the capture: they belong to no step, but count in the windows they run in.",
            odd.without_launch
        ),
    );
    add(
        odd.graphs_with_kernels,
        Id::GraphRowsReplaced,
        format!(
            "{} graph rows are left out because their kernels are there one by one.",
            odd.graphs_with_kernels
        ),
    );
    for error in meta.errors.iter().filter(|error| notes::concerns_report(error)) {
        list.push(
            Warning::new(Id::ProfilerError, format!("The profiler noted an error: {error}"))
                .in_report(report),
        );
    }
    list
}
