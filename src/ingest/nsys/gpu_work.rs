//! GPU work of a report by (process, device), while the tables are scanned once. What is kept of a row is up to a
//! [`Sink`]: all of it in columns ([`DeviceWork`]), or counts (`contents`).

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use rayon::prelude::*;

use super::db::{Db, Part};
use super::gather::Ints;
use super::ids::process_of;
use super::launches::{Launch, LaunchTable};
use super::queries::{self, Query};
use super::ranges::CallIndex;
use super::stream_order::cut_overruns;
use crate::Result;
use crate::model::host::StreamKey;
use crate::model::op::{NO_CALL, NO_LAUNCH};
use crate::model::{Class, NameId, Ns, Ops};

/// Where an operation ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceKey {
    /// Process key.
    pub process: u64,
    /// CUDA ordinal inside the process.
    pub device: i64,
}

/// Ids in `StringIds` of a kernel's short and demangled name, and the size of its grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KernelNames {
    /// Short name.
    pub short: Option<i64>,
    /// Demangled name.
    pub demangled: Option<i64>,
    /// Blocks of its grid in x, y and z.
    pub grid: [Option<i64>; 3],
}

/// The operations of one device while they are read.
#[derive(Debug, Default)]
pub struct DeviceWork {
    start: Vec<Ns>,
    end: Vec<Ns>,
    kind: Vec<Kind>,
    stream: Vec<u32>,
    bytes: Vec<u64>,
    correlation: Vec<i64>,
    streams: HashMap<(i64, i64), u32>,
    /// Streams under whose number operations of CUDA graphs are recorded.
    graph_streams: HashSet<u32>,
    last_stream: Option<((i64, i64), u32)>,
}

/// What is known of an operation before names are resolved: packed, since there may be tens of millions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A kernel, by its place among the distinct kernels.
    Kernel(u32),
    /// Anything else.
    Other(Class),
}

/// One row of GPU work.
#[derive(Debug, Clone, Copy)]
pub struct GpuRow {
    /// Start on the GPU.
    pub start: Ns,
    /// End, never before the start.
    pub end: Ns,
    /// What it is.
    pub kind: Kind,
    /// Context and stream.
    pub stream: (i64, i64),
    /// Bytes of a copy or memset.
    pub bytes: u64,
    /// Joins it to its launch, inside its process; 0 if unknown.
    pub correlation: i64,
    /// True if it is recorded as part of a CUDA graph.
    pub in_graph: bool,
}

/// What is kept of the rows of one device.
pub trait Sink: Default + Send {
    /// Takes one row.
    fn push(&mut self, row: &GpuRow);
    /// Takes what another one of the same device has, whose kernels are numbered by their places in `kernels`.
    fn absorb(&mut self, other: Self, kernels: &[u32]);
    /// True if kernels or graphs ran here; a device that was only copied to is not a rank.
    fn runs_kernels(&self) -> bool;
}

/// What a row says beyond when and where it ran.
#[derive(Debug, Clone, Copy)]
struct What {
    kind: Kind,
    /// Bytes of a copy or memset, 0 for kernels.
    bytes: u64,
    /// True if it is recorded as part of a CUDA graph.
    in_graph: bool,
}

/// The tables of GPU work, in the order of the counts by table.
pub const WORK_TABLES: [&str; 4] = [
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
];
/// The queries that read them, in the same order.
const QUERIES: [Query; 4] = [queries::KERNELS, queries::COPIES, queries::MEMSETS, queries::GRAPHS];
/// The bits of a thread's key that are its number inside its process.
const THREAD: u64 = 0xff_ffff;
const KERNELS: usize = 0;
const COPIES: usize = 1;
const MEMSETS: usize = 2;
const GRAPHS: usize = 3;

/// Rows that were left out or corrected, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Oddities {
    /// Operations that start before the capture.
    pub before_capture: u64,
    /// Operations whose end is before their start, by table: taken as zero length.
    pub negative: [u64; 4],
    /// Rows without a start or an end, or with one that cannot be a time, by table: left out.
    pub without_time: [u64; 4],
    /// Rows whose start and end are both zero, since their times were lost, by table: left out.
    pub zero_time: [u64; 4],
    /// Operations that ran far over the next one of their stream, by table: cut there.
    pub overrun: [u64; 4],
    /// Kernels whose name the report lacks: of unknown class.
    pub unnamed: u64,
    /// Operations whose launch is not in the capture.
    pub without_launch: u64,
    /// Graph rows left out because their kernels are there one by one.
    pub graphs_with_kernels: u64,
}

/// All GPU work of a report.
#[derive(Debug, Default)]
pub struct GpuWork<S> {
    /// By process and device.
    pub devices: HashMap<DeviceKey, S>,
    /// The distinct kernels.
    pub kernel_names: Vec<KernelNames>,
    /// What was left out or corrected.
    pub oddities: Oddities,
    /// Rows read of each table: kernels, copies, memsets, graphs.
    pub rows: [u64; 4],
}

/// One table, or a part of one, as it was read.
#[derive(Debug)]
struct Scan<S> {
    devices: HashMap<DeviceKey, S>,
    kernels: Kernels,
    /// Launches of graphs whose operations are there one by one.
    detailed: HashSet<Launched>,
    odd: Oddities,
    rows: u64,
}

/// Process and correlation id.
type Launched = (u64, i64);

/// The distinct kernels in the order in which they were found.
#[derive(Debug, Default)]
struct Kernels {
    list: Vec<KernelNames>,
    index: HashMap<KernelNames, u32>,
}

impl Kernels {
    fn place(&mut self, names: KernelNames) -> u32 {
        *self.index.entry(names).or_insert_with(|| {
            self.list.push(names);
            (self.list.len() - 1) as u32
        })
    }
}

/// What a row of a table says.
fn what(table: usize, row: Ints<'_>, kernels: &mut Kernels) -> What {
    match table {
        KERNELS => {
            let grid = [row.int(10), row.int(11), row.int(12)];
            let names = KernelNames { short: row.int(7), demangled: row.int(8), grid };
            let kind = Kind::Kernel(kernels.place(names));
            What { kind, bytes: 0, in_graph: is_graph_node(row, 9) }
        }
        COPIES => What {
            kind: Kind::Other(copy_class(row.int(7), row.int(9), row.int(10))),
            bytes: size(row, 8),
            in_graph: is_graph_node(row, 11),
        },
        MEMSETS => What {
            kind: Kind::Other(Class::Memset),
            bytes: size(row, 7),
            in_graph: is_graph_node(row, 8),
        },
        _ => What { kind: Kind::Other(Class::Unclassified), bytes: 0, in_graph: false },
    }
}

impl<S: Sink> GpuWork<S> {
    /// Reads kernels, copies, memsets and graph rows that start at or after `zero`, the beginning of the capture, each table in at
    /// most `parts` parts at the same time.
    ///
    /// # Errors
    /// The report is damaged.
    pub fn read(db: &Db, zero: Ns, parts: usize) -> Result<GpuWork<S>> {
        let mut work: GpuWork<S> = GpuWork {
            devices: HashMap::new(),
            kernel_names: Vec::new(),
            oddities: Oddities::default(),
            rows: [0; 4],
        };
        // Graph rows count only where the trace does not have the graph's kernels and copies one by one.
        let mut graphs: Vec<(DeviceKey, GpuRow)> = Vec::new();
        let mut graph_rows = Scan::<S>::default();
        graph_rows.read(db, GRAPHS, db.whole(WORK_TABLES[GRAPHS])?, zero, |_, key, row| {
            graphs.push((key, row));
        })?;
        work.rows[GRAPHS] = graph_rows.rows;
        work.oddities.add(graph_rows.odd);
        let launched: HashSet<Launched> = graphs
            .iter()
            .map(|(key, row)| (key.process, row.correlation))
            .filter(|(_, id)| *id != 0)
            .collect();
        let mut detailed: HashSet<Launched> = HashSet::new();
        let mut kernels = Kernels::default();
        for table in [KERNELS, COPIES, MEMSETS] {
            let scans = db.in_parts(WORK_TABLES[table], parts, |db, part| {
                let (mut scan, mut graphs) = (Scan::<S>::default(), HashSet::new());
                scan.read(db, table, part, zero, |devices, key, row| {
                    let launch = (key.process, row.correlation);
                    if !launched.is_empty() && launched.contains(&launch) {
                        graphs.insert(launch);
                    }
                    devices.at(key).push(&row);
                })?;
                scan.detailed = graphs;
                Ok(scan)
            })?;
            for scan in scans {
                work.rows[table] += scan.rows;
                work.oddities.add(scan.odd);
                detailed.extend(scan.detailed);
                let places: Vec<u32> =
                    scan.kernels.list.into_iter().map(|names| kernels.place(names)).collect();
                for (key, device) in scan.devices {
                    work.devices.entry(key).or_default().absorb(device, &places);
                }
            }
        }
        work.kernel_names = kernels.list;
        for (key, row) in graphs {
            if detailed.contains(&(key.process, row.correlation)) {
                work.oddities.graphs_with_kernels += 1;
            } else {
                work.devices.entry(key).or_default().push(&row);
            }
        }
        Ok(work)
    }

    /// Devices that are ranks, in order: those that ran kernels, or, in a report without any, those that copied.
    pub fn ranked(&self) -> Vec<DeviceKey> {
        let any = self.devices.values().any(S::runs_kernels);
        let is_rank =
            |(key, device): (&DeviceKey, &S)| (!any || device.runs_kernels()).then_some(*key);
        let mut ranked: Vec<DeviceKey> = self.devices.iter().filter_map(is_rank).collect();
        ranked.sort_unstable();
        ranked
    }
}

impl<S> Default for Scan<S> {
    fn default() -> Scan<S> {
        Scan {
            devices: HashMap::new(),
            kernels: Kernels::default(),
            detailed: HashSet::new(),
            odd: Oddities::default(),
            rows: 0,
        }
    }
}

impl<S: Sink> Scan<S> {
    /// Reads a part of one table, whose first seven columns are start, end, device, context, stream, correlation, process.
    /// `table` is its place among [`WORK_TABLES`].
    fn read(
        &mut self,
        db: &Db,
        table: usize,
        part: Part,
        zero: Ns,
        mut keep: impl FnMut(&mut Devices<'_, S>, DeviceKey, GpuRow),
    ) -> Result<()> {
        let Scan { devices, kernels, odd, .. } = self;
        let mut devices = Devices { all: devices, current: None };
        self.rows = db.each_ints(QUERIES[table], part, |row| {
            let (Some(start), Some(end)) = (row.time(0), row.time(1)) else {
                odd.without_time[table] += 1;
                return;
            };
            if is_lost_time(start, end, zero) {
                odd.zero_time[table] += 1;
                return;
            }
            if start < zero {
                odd.before_capture += 1;
                return;
            }
            odd.negative[table] += u64::from(end < start);
            let key = DeviceKey {
                process: process_of(row.int(6).unwrap_or(0)),
                device: row.int(2).unwrap_or(0),
            };
            let What { kind, bytes, in_graph } = what(table, row, kernels);
            let stream = (row.int(3).unwrap_or(0), row.int(4).unwrap_or(0));
            let correlation = row.int(5).unwrap_or(0);
            keep(
                &mut devices,
                key,
                GpuRow { start, end: end.max(start), kind, stream, bytes, correlation, in_graph },
            );
        })?;
        devices.put_back();
        Ok(())
    }
}

/// The devices while a table is read: rows of one device come in long runs, so the current one is kept at hand.
struct Devices<'a, S> {
    all: &'a mut HashMap<DeviceKey, S>,
    current: Option<(DeviceKey, S)>,
}

impl<S: Sink> Devices<'_, S> {
    fn at(&mut self, key: DeviceKey) -> &mut S {
        if self.current.as_ref().is_none_or(|(current, _)| *current != key) {
            self.put_back();
        }
        let all = &mut self.all;
        &mut self.current.get_or_insert_with(|| (key, all.remove(&key).unwrap_or_default())).1
    }

    fn put_back(&mut self) {
        if let Some((key, device)) = self.current.take() {
            self.all.insert(key, device);
        }
    }
}

impl Oddities {
    fn add(&mut self, other: Oddities) {
        let add = |to: &mut [u64; 4], from: [u64; 4]| {
            to.iter_mut().zip(from).for_each(|(to, from)| *to += from)
        };
        self.before_capture += other.before_capture;
        add(&mut self.negative, other.negative);
        add(&mut self.without_time, other.without_time);
        add(&mut self.zero_time, other.zero_time);
        add(&mut self.overrun, other.overrun);
        self.unnamed += other.unnamed;
        self.without_launch += other.without_launch;
        self.graphs_with_kernels += other.graphs_with_kernels;
    }
}

fn size(row: Ints<'_>, at: usize) -> u64 {
    row.int(at).and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0)
}

/// True for the number of a graph's node; 0 stands for none.
fn is_graph_node(row: Ints<'_>, at: usize) -> bool {
    row.int(at).is_some_and(|node| node != 0)
}

/// True if the profiler lost both times and wrote zeros: in the report's own time, or on the clock that it normalised to.
pub fn is_lost_time(start: Ns, end: Ns, zero: Ns) -> bool {
    start == end && (start == 0 || start == zero)
}

/// `ENUM_CUDA_MEMCPY_OPER` and the devices that a copy reads and writes, to class.
fn copy_class(kind: Option<i64>, source: Option<i64>, destination: Option<i64>) -> Class {
    let across = source.zip(destination).is_some_and(|(from, to)| from != to);
    match kind {
        Some(1) => Class::Htod,
        Some(2) => Class::Dtoh,
        Some(8) if across => Class::Ptop,
        Some(8) => Class::Dtod,
        Some(10) => Class::Ptop,
        _ => Class::OtherCopy,
    }
}

impl Sink for DeviceWork {
    fn push(&mut self, row: &GpuRow) {
        // Operations of one stream come in runs.
        let stream = match self.last_stream {
            Some((key, index)) if key == row.stream => index,
            _ => {
                let next = self.streams.len() as u32;
                let index = *self.streams.entry(row.stream).or_insert(next);
                self.last_stream = Some((row.stream, index));
                index
            }
        };
        self.start.push(row.start);
        self.end.push(row.end);
        if row.in_graph {
            self.graph_streams.insert(stream);
        }
        self.kind.push(row.kind);
        self.stream.push(stream);
        self.bytes.push(row.bytes);
        self.correlation.push(row.correlation);
    }

    fn absorb(&mut self, mut other: DeviceWork, kernels: &[u32]) {
        for kind in &mut other.kind {
            if let Kind::Kernel(id) = kind
                && let Some(&place) = kernels.get(*id as usize)
            {
                *id = place;
            }
        }
        if self.start.is_empty() {
            *self = other;
            return;
        }
        let mut streams = vec![0; other.streams.len()];
        for (key, index) in other.streams {
            let next = self.streams.len() as u32;
            streams[index as usize] = *self.streams.entry(key).or_insert(next);
        }
        self.graph_streams.extend(other.graph_streams.iter().map(|&index| streams[index as usize]));
        self.stream.extend(other.stream.iter().map(|&index| streams[index as usize]));
        self.start.append(&mut other.start);
        self.end.append(&mut other.end);
        self.kind.append(&mut other.kind);
        self.bytes.append(&mut other.bytes);
        self.correlation.append(&mut other.correlation);
    }

    fn runs_kernels(&self) -> bool {
        self.kind
            .iter()
            .any(|kind| matches!(kind, Kind::Kernel(_) | Kind::Other(Class::Unclassified)))
    }
}

impl DeviceWork {
    /// The correlation ids of all operations, 0 where unknown.
    pub fn correlations(&self) -> &[i64] {
        &self.correlation
    }

    /// Finds the launch of each operation, after which the table of launches is not needed any more.
    pub fn launched(self, launches: &LaunchTable) -> Launches {
        let launch = |&id: &i64| launches.get(id);
        let start = |id| launch(id).map_or(NO_LAUNCH, |l| l.start);
        let thread = |id| launch(id).map_or(0, |l| (l.thread & THREAD) as u32);
        Launches {
            launch: self.correlation.iter().map(start).collect(),
            thread: self.correlation.iter().map(thread).collect(),
            work: self,
        }
    }
    /// Dense stream numbers in order of (context, stream), so that they do not depend on the order of rows, and those keys.
    fn stream_order(&self) -> (Vec<u32>, Vec<StreamKey>) {
        let mut keys: Vec<(&(i64, i64), u32)> =
            self.streams.iter().map(|(key, &index)| (key, index)).collect();
        keys.sort_unstable();
        let mut order = vec![0; keys.len()];
        for (rank, &(_, index)) in keys.iter().enumerate() {
            order[index as usize] = rank as u32;
        }
        (order, keys.into_iter().map(|(key, _)| *key).collect())
    }
}

/// The operations of one device with their launches.
#[derive(Debug)]
pub struct Launches {
    work: DeviceWork,
    /// As [`Ops::launch`].
    launch: Vec<Ns>,
    /// As [`Ops::thread`].
    thread: Vec<u32>,
}

impl Launches {
    /// The finished columns in the order of [`Ops`], with names resolved.
    /// `kernel` gives name, class and grid of a distinct kernel, `calls` the NCCL calls of the process.
    pub fn finish(
        self,
        process: u64,
        kernel: impl Fn(u32) -> (NameId, Class, NameId),
        calls: &CallIndex,
        odd: &mut Oddities,
    ) -> Ops {
        let Launches { mut work, launch, thread } = self;
        let (streams, stream_keys) = work.stream_order();
        work.stream.iter_mut().for_each(|stream| *stream = streams[*stream as usize]);
        let n = work.start.len();
        let mut ops = Ops {
            name: Vec::with_capacity(n),
            class: Vec::with_capacity(n),
            grid: Vec::with_capacity(n),
            call: Vec::with_capacity(n),
            ..Ops::default()
        };
        for (i, kind) in work.kind.into_iter().enumerate() {
            let (name, mut class, grid) = match kind {
                Kind::Kernel(id) => {
                    let (name, class, grid) = kernel(id);
                    odd.unnamed += u64::from(class == Class::Unclassified);
                    (name, class, grid)
                }
                Kind::Other(class) => (NameId::NONE, class, NameId::NONE),
            };
            let launch = (launch[i] != NO_LAUNCH).then(|| Launch {
                start: launch[i],
                thread: process << THREAD.count_ones() | u64::from(thread[i]),
            });
            odd.without_launch += u64::from(launch.is_none());
            let call = launch.and_then(|launch| call_of(class, launch, calls));
            // A copy that an operation launched is how a copy-engine collective moves its data.
            if class == Class::Dtod && call.is_some() {
                class = Class::Comm;
            }
            ops.name.push(name);
            ops.grid.push(grid);
            ops.class.push(class);
            ops.call.push(call.unwrap_or(NO_CALL));
        }
        ops.start = work.start;
        ops.end = work.end;
        ops.stream = work.stream;
        ops.bytes = work.bytes;
        ops.correlation = work.correlation;
        ops.launch = launch;
        ops.thread = thread;
        ops.streams = stream_keys;
        sort(&mut ops);
        let graph_streams: HashSet<u32> = work
            .graph_streams
            .iter()
            .filter_map(|&index| streams.get(index as usize).copied())
            .collect();
        let cut = cut_overruns(&mut ops, |stream| graph_streams.contains(&stream));
        for &i in &cut {
            odd.overrun[table_of(&ops, i)] += 1;
        }
        if !cut.is_empty() {
            sort(&mut ops);
        }
        ops
    }
}

/// The NCCL call that launched an operation: for copies only calls that move data, since the set-up of a communicator
/// copies its own structures.
fn call_of(class: Class, launch: Launch, calls: &CallIndex) -> Option<u32> {
    let wanted = match class {
        Class::Comm => true,
        Class::Dtod | Class::Ptop => calls.in_operation(launch.thread, launch.start),
        _ => false,
    };
    wanted.then(|| calls.open_at(launch.thread, launch.start)).flatten()
}

/// The place among [`WORK_TABLES`] of the table that an operation comes from.
fn table_of(ops: &Ops, i: usize) -> usize {
    match ops.class[i] {
        Class::Memset => MEMSETS,
        _ if ops.name[i] != NameId::NONE => KERNELS,
        Class::Unclassified => GRAPHS,
        _ => COPIES,
    }
}

/// Sorts the columns by (start, end, stream, name, class, launch, bytes, correlation): the order of rows in a report is not defined.
fn sort(ops: &mut Ops) {
    let rest = |o: &Ops, i: usize| {
        let place = (o.end[i], o.stream[i], o.name[i]);
        (place, o.class[i], o.launch[i], o.bytes[i], o.correlation[i])
    };
    let order = |a: usize, b: usize| {
        ops.start[a].cmp(&ops.start[b]).then_with(|| rest(ops, a).cmp(&rest(ops, b)))
    };
    if (1..ops.len()).all(|i| order(i - 1, i).is_le()) {
        return;
    }
    let mut places: Vec<u32> = (0..ops.len() as u32).collect();
    // Stable, since it is quick on the few sorted runs that the tables are; equal keys are equal operations.
    places.par_sort_by(|&a, &b| order(a as usize, b as usize));
    fn permute<T: Copy>(column: &mut Vec<T>, places: &[u32]) {
        *column = places.iter().map(|&i| column[i as usize]).collect();
    }
    permute(&mut ops.start, &places);
    permute(&mut ops.end, &places);
    permute(&mut ops.class, &places);
    permute(&mut ops.name, &places);
    permute(&mut ops.stream, &places);
    permute(&mut ops.bytes, &places);
    permute(&mut ops.launch, &places);
    permute(&mut ops.thread, &places);
    permute(&mut ops.call, &places);
    permute(&mut ops.correlation, &places);
    permute(&mut ops.grid, &places);
}
