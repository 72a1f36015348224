//! What a dump holds once it is read: lanes, requests of proxy threads, totals.

use std::collections::BTreeMap;

use super::ids::Ids;
use super::lane::Lane;
use super::proxy::Proxy;
use crate::warning::Warning;

/// What NPKit dumps of one communicator hold.
#[derive(Debug, Clone)]
pub struct Dump {
    /// What the numbers of events mean.
    pub ids: Ids,
    /// False if it was read from the generator's JSON, whose times are rounded.
    pub exact: bool,
    /// By rank inside the communicator.
    pub ranks: BTreeMap<u32, RankDump>,
    /// Records of all ranks, those of the clocks not counted.
    pub events: u64,
    /// What is wrong with it.
    pub problems: Vec<Warning>,
    /// True if a buffer is full, so that an unknown number of records was dropped.
    pub full: bool,
}

/// What the dump of one rank holds.
#[derive(Debug, Clone, Default)]
pub struct RankDump {
    /// Records, those of the clocks not counted.
    pub events: u64,
    /// What each channel did in each collective, in order of (start, channel).
    pub lanes: Vec<Lane>,
    /// What its proxy threads did, in order of (start, end, channel).
    pub proxies: Vec<Proxy>,
    /// All events by the number of the records that began them, those that are not kept included.
    pub totals: BTreeMap<u8, Total>,
    /// True if it has clock records.
    pub clocked: bool,
    /// Lanes and requests that are not kept.
    pub left_out: u64,
    /// Rate of the GPU's clock that times rest on, kHz.
    pub gpu_khz: Option<f64>,
    /// Rate of the GPU's clock between its clock records, median, kHz.
    pub measured_khz: Option<f64>,
}

/// All events of one name on one rank.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Total {
    /// How many.
    pub count: u64,
    /// Time, ns.
    pub ns: i64,
    /// The longest, ns.
    pub max_ns: i64,
    /// `size` at their ends.
    pub size: u64,
    /// `rsvd` at their ends, ns; 0 throughout if the build did not collect it.
    pub rsvd_ns: i64,
    /// Those whose `rsvd` may have started again from 0.
    pub wrapped: u64,
    /// Those whose `size` at the end is that at the beginning; only of proxies.
    pub same_size: u64,
}

impl Total {
    /// Adds one event.
    pub fn add(&mut self, ns: i64, size: u64, rsvd_ns: i64, wrapped: bool) {
        self.count += 1;
        self.ns = self.ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
        self.size = self.size.saturating_add(size);
        self.rsvd_ns = self.rsvd_ns.saturating_add(rsvd_ns);
        self.wrapped += u64::from(wrapped);
    }

    /// Adds all events of another sum.
    pub fn merge(&mut self, other: &Total) {
        self.count += other.count;
        self.ns = self.ns.saturating_add(other.ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.size = self.size.saturating_add(other.size);
        self.rsvd_ns = self.rsvd_ns.saturating_add(other.rsvd_ns);
        self.wrapped += other.wrapped;
        self.same_size += other.same_size;
    }
}
