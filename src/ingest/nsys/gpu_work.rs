//! GPU work of a report, gathered by (process, device) in columns while the tables are scanned once.

use std::collections::HashMap;

use rusqlite::Row;

use super::db::{Db, int, time};
use super::launches::{Launch, LaunchTable};
use super::queries::{self, Query};
use crate::Result;
use crate::model::host::StreamKey;
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
    last_stream: Option<((i64, i64), u32)>,
}

/// What is known of an operation before names are resolved: packed, since there may be tens of millions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Kernel(u32),
    Other(Class),
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
pub struct GpuWork {
    /// By process and device.
    pub devices: HashMap<DeviceKey, DeviceWork>,
    /// The distinct kernels.
    pub kernel_names: Vec<KernelNames>,
    /// What was left out or corrected.
    pub oddities: Oddities,
    /// Rows read of each table: kernels, copies, memsets, graphs.
    pub rows: [u64; 4],
}

impl GpuWork {
    /// Reads kernels, copies, memsets and graph rows that start at or after `zero`, the beginning of the capture.
    ///
    /// # Errors
    /// The report is damaged.
    pub fn read(db: &Db, zero: Ns) -> Result<GpuWork> {
        let mut work = GpuWork::default();
        let mut name_index: HashMap<KernelNames, u32> = HashMap::new();
        let mut kernel_names = Vec::new();
        work.rows[0] = work.scan(db, queries::KERNELS, zero, |row| {
            let grid = [int(row, 9), int(row, 10), int(row, 11)];
            let names = KernelNames { short: int(row, 7), demangled: int(row, 8), grid };
            let id = *name_index.entry(names).or_insert_with(|| {
                kernel_names.push(names);
                (kernel_names.len() - 1) as u32
            });
            (Kind::Kernel(id), 0)
        })?;
        work.kernel_names = kernel_names;
        work.rows[1] = work.scan(db, queries::COPIES, zero, |row| {
            (Kind::Other(copy_class(int(row, 7))), size(row, 8))
        })?;
        work.rows[2] = work
            .scan(db, queries::MEMSETS, zero, |row| (Kind::Other(Class::Memset), size(row, 7)))?;
        work.read_graphs(db, zero)?;
        Ok(work)
    }

    /// Graph rows count only where the trace does not have the graph's kernels and copies one by one.
    fn read_graphs(&mut self, db: &Db, zero: Ns) -> Result<()> {
        let mut graphs = GpuWork::default();
        self.rows[3] =
            graphs.scan(db, queries::GRAPHS, zero, |_| (Kind::Other(Class::Graph), 0))?;
        self.oddities.add(graphs.oddities);
        if graphs.devices.is_empty() {
            return Ok(());
        }
        let mut detailed: HashMap<u64, std::collections::HashSet<i64>> = HashMap::new();
        for (key, work) in &self.devices {
            detailed
                .entry(key.process)
                .or_default()
                .extend(work.correlation.iter().copied().filter(|&c| c != 0));
        }
        for (key, rows) in graphs.devices {
            let seen = detailed.get(&key.process);
            let target = self.devices.entry(key).or_default();
            let mut contexts: Vec<(&(i64, i64), &u32)> = rows.streams.iter().collect();
            contexts.sort_unstable_by_key(|(_, index)| **index);
            for i in 0..rows.start.len() {
                if seen.is_some_and(|s| s.contains(&rows.correlation[i])) {
                    self.oddities.graphs_with_kernels += 1;
                    continue;
                }
                let stream = contexts.get(rows.stream[i] as usize).map_or((0, 0), |(key, _)| **key);
                target.push(
                    rows.start[i],
                    rows.end[i],
                    rows.kind[i],
                    stream,
                    0,
                    rows.correlation[i],
                );
            }
        }
        self.devices.retain(|_, work| !work.start.is_empty());
        Ok(())
    }

    /// Reads one table whose first seven columns are start, end, device, context, stream, correlation, process.
    fn scan(
        &mut self,
        db: &Db,
        query: Query,
        zero: Ns,
        mut rest: impl FnMut(&Row<'_>) -> (Kind, u64),
    ) -> Result<u64> {
        let mut odd = Oddities::default();
        let mut last: Option<(DeviceKey, DeviceWork)> = None;
        let devices = &mut self.devices;
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
            // Rows of one device come in long runs: the current one is kept at hand.
            let work = match &mut last {
                Some((current, work)) if *current == key => work,
                _ => {
                    if let Some((previous, work)) = last.take() {
                        devices.insert(previous, work);
                    }
                    &mut last.insert((key, devices.remove(&key).unwrap_or_default())).1
                }
            };
            let stream = (int(row, 3).unwrap_or(0), int(row, 4).unwrap_or(0));
            work.push(start, end.max(start), kind, stream, bytes, int(row, 5).unwrap_or(0));
        })?;
        if let Some((key, work)) = last {
            devices.insert(key, work);
        }
        self.oddities.add(odd);
        Ok(rows)
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

impl DeviceWork {
    fn push(
        &mut self,
        start: Ns,
        end: Ns,
        kind: Kind,
        stream: (i64, i64),
        bytes: u64,
        correlation: i64,
    ) {
        // Operations of one stream come in runs.
        let stream = match self.last_stream {
            Some((key, index)) if key == stream => index,
            _ => {
                let next = self.streams.len() as u32;
                let index = *self.streams.entry(stream).or_insert(next);
                self.last_stream = Some((stream, index));
                index
            }
        };
        self.start.push(start);
        self.end.push(end);
        self.kind.push(kind);
        self.stream.push(stream);
        self.bytes.push(bytes);
        self.correlation.push(correlation);
    }

    /// The correlation ids of all operations, 0 where unknown.
    pub fn correlations(&self) -> &[i64] {
        &self.correlation
    }

    /// True if kernels or graphs ran here; a device that was only copied to is no rank.
    pub fn runs_kernels(&self) -> bool {
        self.kind.iter().any(|kind| matches!(kind, Kind::Kernel(_) | Kind::Other(Class::Graph)))
    }

    /// The finished columns in the order of [`Ops`], with names and launches resolved.
    /// `kernel` gives name, class and grid of a distinct kernel; `call_at` the NCCL call that was open on the launching thread.
    pub fn finish(
        mut self,
        launches: &LaunchTable,
        kernel: impl Fn(u32) -> (NameId, Class, NameId),
        call_at: impl Fn(Launch) -> Option<u32>,
        odd: &mut Oddities,
    ) -> Ops {
        let (streams, stream_keys) = self.stream_order();
        let n = self.start.len();
        let mut ops =
            Ops { name: Vec::with_capacity(n), class: Vec::with_capacity(n), ..Ops::default() };
        ops.launch.reserve(n);
        ops.call.reserve(n);
        for i in 0..n {
            let (name, mut class, grid) = match self.kind[i] {
                Kind::Kernel(id) => kernel(id),
                Kind::Other(class) => (NameId::NONE, class, NameId::NONE),
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
            ops.grid.push(grid);
            ops.class.push(class);
            ops.launch.push(launch.map_or(NO_LAUNCH, |l| l.start));
            ops.call.push(call.unwrap_or(NO_CALL));
            self.stream[i] = streams[self.stream[i] as usize];
        }
        ops.start = self.start;
        ops.end = self.end;
        ops.stream = self.stream;
        ops.bytes = self.bytes;
        ops.correlation = self.correlation;
        ops.streams = stream_keys;
        sort(&mut ops);
        ops
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

/// Sorts the columns by (start, end, stream, name, class, launch, bytes, correlation): the order of rows in a report is not defined.
fn sort(ops: &mut Ops) {
    let key = |o: &Ops, i: usize| {
        let place = (o.start[i], o.end[i], o.stream[i], o.name[i]);
        (place, o.class[i], o.launch[i], o.bytes[i], o.correlation[i])
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
    permute(&mut ops.call, &order);
    permute(&mut ops.correlation, &order);
    permute(&mut ops.grid, &order);
}
