//! The numbers of one step, as one table: name, unit, definition, and whether more is better.
//!
//! Definitions follow section 4 of docs/metrics.md. Every renderer, summary and comparison walks this table,
//! so a number is added in one place.

use std::ops::{Index, IndexMut};

use serde::{Deserialize, Serialize};

/// A finished number: a count, a time or a size, or a ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Num {
    /// Nanoseconds, bytes or a count.
    Int(i64),
    /// A ratio of two numbers.
    Real(f64),
}

impl Num {
    /// The value as a float.
    pub fn as_f64(self) -> f64 {
        match self {
            Num::Int(v) => v as f64,
            Num::Real(v) => v,
        }
    }

    /// The value as an integer, if it is one.
    pub fn as_int(self) -> Option<i64> {
        match self {
            Num::Int(v) => Some(v),
            Num::Real(_) => None,
        }
    }
}

/// The unit of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// Bytes.
    Bytes,
    /// A number of operations.
    Count,
    /// A share of the named denominator, 0 to 1 unless said otherwise.
    Ratio(Metric),
}

/// Whether a larger value is good news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Smaller is better.
    Lower,
    /// Larger is better.
    Higher,
    /// Neither by itself.
    Neither,
}

/// What a metric is called and means.
#[derive(Debug, Clone, Copy)]
pub struct Info {
    /// Name in JSON and CSV; a dot opens an object (`dtod.exposed_ns`).
    pub path: &'static str,
    /// Name in tables, short, without the unit.
    pub label: &'static str,
    /// Unit, with the denominator of a ratio.
    pub unit: Unit,
    /// Which direction is good.
    pub better: Better,
    /// One sentence: what it is.
    pub definition: &'static str,
}

macro_rules! metrics {
    ($($variant:ident $path:literal $label:literal $unit:expr, $better:ident, $definition:literal;)*) => {
        /// A number that every step of every rank has.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(usize)]
        #[allow(missing_docs)]
        pub enum Metric { $($variant,)* }

        impl Metric {
            /// All metrics in the order in which they are printed.
            pub const ALL: &'static [Metric] = &[$(Metric::$variant,)*];

            /// Name, unit and meaning.
            pub fn info(self) -> Info {
                use Unit::*;
                match self { $(Metric::$variant => Info { path: $path, label: $label, unit: $unit, better: Better::$better, definition: $definition },)* }
            }
        }
    };
}

metrics! {
    StepNs "step_ns" "step" Ns, Lower, "length of the step's window";
    StartNs "start_ns" "start" Ns, Neither, "start of the window in the report's own time";
    CpuRangeNs "cpu_range_ns" "CPU range" Ns, Neither, "length of the NVTX range on the CPU";
    CommNs "comm_ns" "comm" Ns, Lower, "time in which at least one communication operation runs";
    CommSumNs "comm_sum_ns" "comm sum" Ns, Lower, "sum of the durations of communication operations, clipped to the window; may exceed the step";
    CommCount "comm_count" "comm ops" Count, Neither, "communication operations that start in the window";
    ComputeNs "compute_ns" "compute" Ns, Neither, "time in which at least one compute kernel runs";
    OverlapNs "overlap_ns" "overlap" Ns, Higher, "time in which communication and compute kernels run at once";
    ExposedCommNs "exposed_comm_ns" "exposed comm" Ns, Lower, "communication time without a compute kernel beside it";
    HtodNs "htod.ns" "HtoD" Ns, Lower, "time in which a host-to-device copy runs";
    HtodExposedNs "htod.exposed_ns" "HtoD exposed" Ns, Lower, "host-to-device copy time under neither compute nor communication";
    HtodBytes "htod.bytes" "HtoD bytes" Bytes, Neither, "bytes of the host-to-device copies that start in the window";
    HtodCount "htod.count" "HtoD copies" Count, Neither, "host-to-device copies that start in the window";
    DtohNs "dtoh.ns" "DtoH" Ns, Lower, "time in which a device-to-host copy runs";
    DtohExposedNs "dtoh.exposed_ns" "DtoH exposed" Ns, Lower, "device-to-host copy time under neither compute nor communication";
    DtohBytes "dtoh.bytes" "DtoH bytes" Bytes, Neither, "bytes of the device-to-host copies that start in the window";
    DtohCount "dtoh.count" "DtoH copies" Count, Neither, "device-to-host copies that start in the window";
    DtodNs "dtod.ns" "DtoD" Ns, Lower, "time in which a copy inside the device runs";
    DtodExposedNs "dtod.exposed_ns" "DtoD exposed" Ns, Lower, "device-to-device copy time under neither compute nor communication";
    DtodBytes "dtod.bytes" "DtoD bytes" Bytes, Lower, "bytes of the device-to-device copies that start in the window";
    DtodCount "dtod.count" "DtoD copies" Count, Lower, "device-to-device copies that start in the window";
    PtopNs "ptop.ns" "PtoP" Ns, Lower, "time in which a copy from one GPU to another runs; it is communication, too";
    PtopExposedNs "ptop.exposed_ns" "PtoP exposed" Ns, Lower, "copy time between GPUs under neither compute nor other communication";
    PtopBytes "ptop.bytes" "PtoP bytes" Bytes, Neither, "bytes of the peer-to-peer copies that start in the window";
    PtopCount "ptop.count" "PtoP copies" Count, Neither, "peer-to-peer copies that start in the window";
    OtherCopyNs "other_copy.ns" "other copies" Ns, Lower, "time in which any other copy runs (host to host, unified memory, arrays)";
    OtherCopyExposedNs "other_copy.exposed_ns" "other exposed" Ns, Lower, "other copy time under neither compute nor communication";
    OtherCopyBytes "other_copy.bytes" "other bytes" Bytes, Neither, "bytes of the other copies that start in the window";
    OtherCopyCount "other_copy.count" "other copies n" Count, Neither, "other copies that start in the window";
    MemsetNs "memset.ns" "memset" Ns, Lower, "time in which a memset runs";
    MemsetExposedNs "memset.exposed_ns" "memset exposed" Ns, Lower, "memset time under neither compute nor communication";
    MemsetBytes "memset.bytes" "memset bytes" Bytes, Neither, "bytes of the memsets that start in the window";
    MemsetCount "memset.count" "memsets" Count, Neither, "memsets that start in the window";
    ExposedCopyNs "exposed_copy_ns" "exposed copies" Ns, Lower, "time of all copies and memsets under neither compute nor communication";
    UnclassifiedNs "unclassified.ns" "unclassified" Ns, Neither, "time of GPU work of unknown class: CUDA graphs captured as one row, kernels without a name";
    UnclassifiedExposedNs "unclassified.exposed_ns" "unclassified alone" Ns, Neither, "unclassified time beside which nothing else runs";
    UnclassifiedCount "unclassified.count" "unclassified ops" Count, Neither, "operations of unknown class that start in the window";
    IdleNs "idle_ns" "idle" Ns, Lower, "time of the window in which nothing runs on the GPU";
    HostLateNs "host_late_ns" "host late" Ns, Lower, "idle time before the host had launched the operation that ends it";
    CommFraction "comm_fraction" "comm %" Ratio(Metric::StepNs), Lower, "communication time as a share of the step";
    ExposedCommFraction "exposed_comm_fraction" "exposed comm %" Ratio(Metric::StepNs), Lower, "exposed communication as a share of the step";
    OverlapFraction "overlap_fraction" "overlap %" Ratio(Metric::CommNs), Higher, "overlapped communication as a share of communication time";
    DtodFraction "dtod_fraction" "DtoD %" Ratio(Metric::StepNs), Lower, "device-to-device copy time as a share of the step";
    ComputeFraction "compute_fraction" "compute %" Ratio(Metric::StepNs), Neither, "compute time as a share of the step";
    IdleFraction "idle_fraction" "idle %" Ratio(Metric::StepNs), Lower, "idle time as a share of the step";
    CommSumFraction "comm_sum_fraction" "comm sum %" Ratio(Metric::StepNs), Lower, "summed communication durations as a share of the step; may exceed 1";
}

impl Metric {
    /// How many metrics there are.
    pub const COUNT: usize = Metric::ALL.len();

    /// For a ratio, its numerator and denominator.
    pub fn ratio_of(self) -> Option<(Metric, Metric)> {
        Some(match self {
            Metric::CommFraction => (Metric::CommNs, Metric::StepNs),
            Metric::ExposedCommFraction => (Metric::ExposedCommNs, Metric::StepNs),
            Metric::OverlapFraction => (Metric::OverlapNs, Metric::CommNs),
            Metric::DtodFraction => (Metric::DtodNs, Metric::StepNs),
            Metric::ComputeFraction => (Metric::ComputeNs, Metric::StepNs),
            Metric::IdleFraction => (Metric::IdleNs, Metric::StepNs),
            Metric::CommSumFraction => (Metric::CommSumNs, Metric::StepNs),
            _ => return None,
        })
    }

    /// The metric with this JSON path.
    pub fn by_path(path: &str) -> Option<Metric> {
        Metric::ALL.iter().copied().find(|m| m.info().path == path)
    }
}

/// The parts that add up to a step exactly: compute, exposed communication, exposed copies, work of unknown class, idle.
pub const PARTS: [Metric; 5] = [
    Metric::ComputeNs,
    Metric::ExposedCommNs,
    Metric::ExposedCopyNs,
    Metric::UnclassifiedExposedNs,
    Metric::IdleNs,
];

/// One number for each metric, `None` where it was not measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Values([Option<Num>; Metric::COUNT]);

impl Values {
    /// Nothing measured.
    pub fn unmeasured() -> Self {
        Self([None; Metric::COUNT])
    }

    /// Asks for each metric in turn.
    pub fn from_fn(f: impl FnMut(Metric) -> Option<Num>) -> Self {
        Self(each(f))
    }

    /// The integer of a metric, if it was measured.
    pub fn int(&self, metric: Metric) -> Option<i64> {
        self[metric].and_then(Num::as_int)
    }

    /// The value as a float, if it was measured.
    pub fn f64(&self, metric: Metric) -> Option<f64> {
        self[metric].map(Num::as_f64)
    }

    /// Sets an integer.
    pub fn set(&mut self, metric: Metric, value: i64) {
        self[metric] = Some(Num::Int(value));
    }

    /// Sets every ratio from its numerator and denominator; `None` where the denominator is missing or 0.
    pub fn set_ratios(&mut self) {
        for &metric in Metric::ALL {
            if let Some((over, under)) = metric.ratio_of() {
                self[metric] = match (self.f64(over), self.f64(under)) {
                    (Some(a), Some(b)) if b != 0.0 => Some(Num::Real(a / b)),
                    _ => None,
                };
            }
        }
    }
}

/// What `f` says of each metric.
fn each<T: Copy>(mut f: impl FnMut(Metric) -> Option<T>) -> [Option<T>; Metric::COUNT] {
    let mut all = [None; Metric::COUNT];
    for &metric in Metric::ALL {
        all[metric as usize] = f(metric);
    }
    all
}

impl Index<Metric> for Values {
    type Output = Option<Num>;
    fn index(&self, metric: Metric) -> &Option<Num> {
        &self.0[metric as usize]
    }
}

impl IndexMut<Metric> for Values {
    fn index_mut(&mut self, metric: Metric) -> &mut Option<Num> {
        &mut self.0[metric as usize]
    }
}

/// Median, mean, minimum and maximum of one metric over the steps of a summary; integers where the metric is one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Spread {
    pub median: Num,
    pub mean: Num,
    pub min: Num,
    pub max: Num,
}

/// A spread for each metric, `None` where no step measured it.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary([Option<Spread>; Metric::COUNT]);

impl Summary {
    /// Builds a summary by asking for each metric in turn.
    pub fn from_fn(f: impl FnMut(Metric) -> Option<Spread>) -> Self {
        Self(each(f))
    }

    /// The median as a float, if measured.
    pub fn median(&self, metric: Metric) -> Option<f64> {
        self[metric].map(|s| s.median.as_f64())
    }
}

impl Index<Metric> for Summary {
    type Output = Option<Spread>;
    fn index(&self, metric: Metric) -> &Option<Spread> {
        &self.0[metric as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_unique_and_found_again() {
        for &metric in Metric::ALL {
            assert_eq!(Metric::by_path(metric.info().path), Some(metric));
        }
    }

    #[test]
    fn a_ratio_without_a_denominator_is_not_measured() {
        let mut values = Values::unmeasured();
        values.set(Metric::StepNs, 200);
        values.set(Metric::CommNs, 0);
        values.set(Metric::OverlapNs, 0);
        values.set_ratios();
        assert_eq!(values[Metric::CommFraction], Some(Num::Real(0.0)));
        assert_eq!(values[Metric::OverlapFraction], None);
        assert_eq!(values[Metric::DtodFraction], None);
    }
}
