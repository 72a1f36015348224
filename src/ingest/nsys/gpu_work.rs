//! GPU work of a report by (process, device), while the tables are scanned once. What is kept of a row is up to a
//! [`Sink`]: all of it in columns ([`DeviceWork`]), or counts (`contents`).

use std::collections::{HashMap, HashSet};

use rusqlite::Row;

use super::db::{Db, int, time};
use super::launches::{Launch, LaunchTable};
use super::queries::{self, Query};
use crate::Result;
use crate::model::op::{NO_CALL, NO_LAUNCH};
use crate::model::{Class, NameId, Ns, Ops};

/// The process part of a `globalPid` or `globalTid`: hardware, virtual machine and process id, as unsigned.
pub fn process_of(global: i64) -> u64 {
    (global as u64) >> 24
}

/// The operating-system process id in a process key.
pub fn pid_of(process: u64) -> u32 {
    (process & 0xff_ffff) as u32
}

/// Where an operation ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceKey {
    /// Process key.
    pub process: u64,
    /// CUDA ordinal inside the process.
    pub device: i64,
}

/// Ids in `StringIds` of a kernel's short and demangled name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KernelNames {
    /// Short name.
    pub short: Option<i64>,
    /// Demangled name.
    pub demangled: Option<i64>,
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
}

/// What is kept of the rows of one device.
pub trait Sink: Default {
    /// Takes one row.
    fn push(&mut self, row: &GpuRow);
    /// True if kernels or graphs ran here; a device that was only copied to is not a rank.
    fn runs_kernels(&self) -> bool;
}

/// Rows that were left out or corrected, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Oddities {
    /// Operations that start before the capture.
    pub before_capture: u64,
    /// Operations whose end is before their start: taken as zero length.
    pub negative: u64,
    /// Rows without a start or an end, or with one that cannot be a time.
    pub without_time: u64,
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

impl<S: Sink> GpuWork<S> {
    /// Reads kernels, copies, memsets and graph rows that start at or after `zero`, the beginning of the capture.
    ///
    /// # Errors
    /// The report is damaged.
    pub fn read(db: &Db, zero: Ns) -> Result<GpuWork<S>> {
        let mut work = GpuWork {
            devices: HashMap::new(),
            kernel_names: Vec::new(),
            oddities: Oddities::default(),
            rows: [0; 4],
        };
        // Graph rows count only where the trace does not have the graph's kernels and copies one by one.
        let mut graphs: Vec<(DeviceKey, GpuRow)> = Vec::new();
        work.rows[3] = work.scan(
            db,
            queries::GRAPHS,
            zero,
            |_| (Kind::Other(Class::Graph), 0),
            |_, key, row| graphs.push((key, row)),
        )?;
        let launched: HashSet<(u64, i64)> = graphs
            .iter()
            .map(|(key, row)| (key.process, row.correlation))
            .filter(|(_, id)| *id != 0)
            .collect();
        let mut detailed: HashSet<(u64, i64)> = HashSet::new();
        let mut keep = |devices: &mut Devices<S>, key: DeviceKey, row: GpuRow| {
            let launch = (key.process, row.correlation);
            if !launched.is_empty() && launched.contains(&launch) {
                detailed.insert(launch);
            }
            devices.at(key).push(&row);
        };
        let mut name_index: HashMap<KernelNames, u32> = HashMap::new();
        let mut kernel_names = Vec::new();
        let kernel = |row: &Row<'_>| {
            let names = KernelNames { short: int(row, 7), demangled: int(row, 8) };
            let id = *name_index.entry(names).or_insert_with(|| {
                kernel_names.push(names);
                (kernel_names.len() - 1) as u32
            });
            (Kind::Kernel(id), 0)
        };
        work.rows[0] = work.scan(db, queries::KERNELS, zero, kernel, &mut keep)?;
        work.kernel_names = kernel_names;
        let copy = |row: &Row<'_>| (Kind::Other(copy_class(int(row, 7))), size(row, 8));
        work.rows[1] = work.scan(db, queries::COPIES, zero, copy, &mut keep)?;
        let memset = |row: &Row<'_>| (Kind::Other(Class::Memset), size(row, 7));
        work.rows[2] = work.scan(db, queries::MEMSETS, zero, memset, &mut keep)?;
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

    /// Reads one table whose first seven columns are start, end, device, context, stream, correlation, process.
    fn scan(
        &mut self,
        db: &Db,
        query: Query,
        zero: Ns,
        mut rest: impl FnMut(&Row<'_>) -> (Kind, u64),
        mut keep: impl FnMut(&mut Devices<S>, DeviceKey, GpuRow),
    ) -> Result<u64> {
        let mut odd = Oddities::default();
        let mut devices = Devices { all: &mut self.devices, current: None };
        let rows = db.each(query, [], |row| {
            let (Some(start), Some(end)) = (time(row, 0), time(row, 1)) else {
                odd.without_time += 1;
                return;
            };
            if start < zero {
                odd.before_capture += 1;
                return;
            }
            odd.negative += u64::from(end < start);
            let key = DeviceKey {
                process: process_of(int(row, 6).unwrap_or(0)),
                device: int(row, 2).unwrap_or(0),
            };
            let (kind, bytes) = rest(row);
            let stream = (int(row, 3).unwrap_or(0), int(row, 4).unwrap_or(0));
            let correlation = int(row, 5).unwrap_or(0);
            keep(
                &mut devices,
                key,
                GpuRow { start, end: end.max(start), kind, stream, bytes, correlation },
            );
        })?;
        devices.put_back();
        self.oddities.add(odd);
        Ok(rows)
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
        self.before_capture += other.before_capture;
        self.negative += other.negative;
        self.without_time += other.without_time;
        self.without_launch += other.without_launch;
        self.graphs_with_kernels += other.graphs_with_kernels;
    }
}

fn size(row: &Row<'_>, at: usize) -> u64 {
    int(row, at).and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0)
}

/// `ENUM_CUDA_MEMCPY_OPER` to class.
fn copy_class(kind: Option<i64>) -> Class {
    match kind {
        Some(1) => Class::Htod,
        Some(2) => Class::Dtoh,
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
        self.kind.push(row.kind);
        self.stream.push(stream);
        self.bytes.push(row.bytes);
        self.correlation.push(row.correlation);
    }

    fn runs_kernels(&self) -> bool {
        self.kind.iter().any(|kind| matches!(kind, Kind::Kernel(_) | Kind::Other(Class::Graph)))
    }
}

impl DeviceWork {
    /// The correlation ids of all operations, 0 where unknown.
    pub fn correlations(&self) -> &[i64] {
        &self.correlation
    }

    /// The finished columns in the order of [`Ops`], with names and launches resolved.
    /// `kernel` gives name and class of a distinct kernel; `call_at` the NCCL call that was open on the launching thread.
    pub fn finish(
        mut self,
        launches: &LaunchTable,
        kernel: impl Fn(u32) -> (NameId, Class),
        call_at: impl Fn(Launch) -> Option<u32>,
        odd: &mut Oddities,
    ) -> Ops {
        let streams = self.stream_order();
        let n = self.start.len();
        let mut ops =
            Ops { name: Vec::with_capacity(n), class: Vec::with_capacity(n), ..Ops::default() };
        ops.launch.reserve(n);
        ops.thread.reserve(n);
        ops.call.reserve(n);
        for i in 0..n {
            let (name, mut class) = match self.kind[i] {
                Kind::Kernel(id) => kernel(id),
                Kind::Other(class) => (NameId::NONE, class),
            };
            let launch = launches.get(self.correlation[i]);
            odd.without_launch += u64::from(launch.is_none());
            let is_copy = matches!(
                class,
                Class::Htod | Class::Dtoh | Class::Dtod | Class::Ptop | Class::OtherCopy
            );
            let call = launch.filter(|_| is_copy || class == Class::Comm).and_then(&call_at);
            // A copy that a collective library launched is how a copy-engine collective moves its data.
            if is_copy && call.is_some() {
                class = Class::Comm;
            }
            ops.name.push(name);
            ops.class.push(class);
            ops.launch.push(launch.map_or(NO_LAUNCH, |l| l.start));
            ops.thread.push(launch.map_or(0, |l| (l.thread & 0xff_ffff) as u32));
            ops.call.push(call.unwrap_or(NO_CALL));
            self.stream[i] = streams[self.stream[i] as usize];
        }
        ops.start = self.start;
        ops.end = self.end;
        ops.stream = self.stream;
        ops.bytes = self.bytes;
        sort(&mut ops);
        ops
    }

    /// Dense stream numbers in order of (context, stream), so that they do not depend on the order of rows.
    fn stream_order(&self) -> Vec<u32> {
        let mut keys: Vec<(&(i64, i64), u32)> =
            self.streams.iter().map(|(key, &index)| (key, index)).collect();
        keys.sort_unstable();
        let mut order = vec![0; keys.len()];
        for (rank, (_, index)) in keys.into_iter().enumerate() {
            order[index as usize] = rank as u32;
        }
        order
    }
}

/// Sorts the columns by (start, end, stream, name, class, launch, bytes): the order of rows in a report is not defined.
fn sort(ops: &mut Ops) {
    let key = |o: &Ops, i: usize| {
        (o.start[i], o.end[i], o.stream[i], o.name[i], o.class[i], o.launch[i], o.bytes[i])
    };
    if (1..ops.len()).all(|i| key(ops, i - 1) <= key(ops, i)) {
        return;
    }
    let mut order: Vec<u32> = (0..ops.len() as u32).collect();
    // Stable, since it is quick on the few sorted runs that the tables are; equal keys are equal operations.
    order.sort_by_key(|&a| key(ops, a as usize));
    fn permute<T: Copy>(column: &mut Vec<T>, order: &[u32]) {
        *column = order.iter().map(|&i| column[i as usize]).collect();
    }
    permute(&mut ops.start, &order);
    permute(&mut ops.end, &order);
    permute(&mut ops.class, &order);
    permute(&mut ops.name, &order);
    permute(&mut ops.stream, &order);
    permute(&mut ops.bytes, &order);
    permute(&mut ops.launch, &order);
    permute(&mut ops.thread, &order);
    permute(&mut ops.call, &order);
}
