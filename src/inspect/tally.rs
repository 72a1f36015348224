//! What is kept of one log file while it streams by: distributions, and a bounded sample of single operations.

use std::collections::BTreeMap;

use super::counts::Counts;
use super::filter::Filter;
use crate::model::CommOp;
use crate::model::record::{Drops, Origin, Record, Sink, Timing, busbw_gbs};

/// Distinct message sizes of one operation that are kept apart; with more (token routing sends a new size each time) sizes are
/// counted in ranges from one power of two to the next.
const SIZES: usize = 256;
/// Slack between a stamp and the time of writing, microseconds, before a time is called impossible.
const STAMP_SLACK_US: f64 = 1000.0;

/// The bus bandwidth that the log gives, if it means something: it is absurd where the size was wrong, and a placeholder of 0
/// where no time was measured.
fn logged_busbw(record: &Record<'_>) -> Option<f64> {
    record.logged_busbw.filter(|_| !record.size_corrected && record.exec_us.is_some())
}

/// The sizes that are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Size {
    /// The log gives none.
    Unknown,
    /// One size in bytes.
    Exact(u64),
    /// The exponent of 2 where a range begins that ends at the next.
    Range(u32),
}

impl Size {
    /// How a series counts a message of `bytes`, if it counts in ranges or not.
    pub fn of_kept(bytes: Option<u64>, ranged: bool) -> Size {
        if ranged { Size::of(bytes).ranged() } else { Size::of(bytes) }
    }

    fn of(bytes: Option<u64>) -> Size {
        bytes.map_or(Size::Unknown, Size::Exact)
    }

    fn ranged(self) -> Size {
        match self {
            Size::Exact(bytes) => Size::Range(bytes.checked_ilog2().unwrap_or(0)),
            other => other,
        }
    }
}

/// Records of one operation and size.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Group {
    /// Records.
    pub count: u64,
    /// Execution times, microseconds.
    pub exec: Counts,
    /// Sum of them, microseconds.
    pub total_us: f64,
    /// Bus bandwidths, recomputed, decimal GB/s.
    pub busbw: Counts,
    /// Sum and number of bus bandwidths as logged.
    pub logged: (f64, u64),
    /// Records by source of their time, in the order of [`Timing::ALL`].
    pub timing: [u64; Timing::ALL.len()],
    /// Records whose size was corrected.
    pub sizes_corrected: u64,
    /// Records by algorithm and protocol.
    pub algorithms: BTreeMap<(Option<String>, Option<String>), u64>,
}

impl Group {
    fn add(&mut self, record: &Record<'_>, n_ranks: u32) {
        self.count += 1;
        if let Some(us) = record.exec_us {
            self.exec.add(us);
            self.total_us += us;
            if let (Some(op), Some(bytes)) = (record.op, record.bytes) {
                self.busbw.add(busbw_gbs(op, bytes, n_ranks, us));
            }
        }
        self.sizes_corrected += u64::from(record.size_corrected);
        if let Some(logged) = logged_busbw(record) {
            self.logged.0 += logged;
            self.logged.1 += 1;
        }
        if let Some(count) = self.timing.get_mut(record.timing as usize) {
            *count += 1;
        }
        if record.algo.is_some() || record.proto.is_some() {
            // Few distinct pairs, so the strings are only made for a new one.
            let known = self
                .algorithms
                .iter_mut()
                .find(|((a, p), _)| a.as_deref() == record.algo && p.as_deref() == record.proto);
            match known {
                Some((_, count)) => *count += 1,
                None => {
                    self.algorithms.insert(
                        (record.algo.map(str::to_owned), record.proto.map(str::to_owned)),
                        1,
                    );
                }
            }
        }
    }

    /// Adds the records of `other`.
    pub fn merge(&mut self, other: &Group) {
        self.count += other.count;
        self.exec.merge(&other.exec);
        self.total_us += other.total_us;
        self.busbw.merge(&other.busbw);
        self.logged.0 += other.logged.0;
        self.logged.1 += other.logged.1;
        for (mine, theirs) in self.timing.iter_mut().zip(other.timing) {
            *mine += theirs;
        }
        self.sizes_corrected += other.sizes_corrected;
        for (key, count) in &other.algorithms {
            *self.algorithms.entry(key.clone()).or_default() += count;
        }
    }
}

/// Records of one operation by size.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sizes {
    groups: BTreeMap<Size, Group>,
    ranged: bool,
}

impl Sizes {
    fn add(&mut self, record: &Record<'_>, n_ranks: u32) {
        self.groups
            .entry(Size::of_kept(record.bytes, self.ranged))
            .or_default()
            .add(record, n_ranks);
        self.limit();
    }

    /// Adds the records of `other`.
    pub fn merge(&mut self, other: &Sizes) {
        if other.ranged {
            self.count_in_ranges();
        }
        for (&size, group) in &other.groups {
            self.groups
                .entry(if self.ranged { size.ranged() } else { size })
                .or_default()
                .merge(group);
            self.limit();
        }
    }

    /// Counts in ranges from here on.
    pub fn count_in_ranges(&mut self) {
        if !std::mem::replace(&mut self.ranged, true) {
            for (size, group) in std::mem::take(&mut self.groups) {
                self.groups.entry(size.ranged()).or_default().merge(&group);
            }
        }
    }

    /// True if sizes are counted in ranges.
    pub fn ranged(&self) -> bool {
        self.ranged
    }

    /// The groups in order of size.
    pub fn groups(&self) -> impl Iterator<Item = (Size, &Group)> {
        self.groups.iter().map(|(&size, group)| (size, group))
    }

    fn limit(&mut self) {
        if !self.ranged && self.groups.len() > SIZES {
            self.count_in_ranges();
        }
    }
}

/// Sequence numbers as they come by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sequence {
    /// Smallest and largest number seen.
    pub range: Option<(u64, u64)>,
    /// Records with a number.
    pub count: u64,
    /// Numbers that were skipped, later ones that filled a gap taken off again.
    pub missing: u64,
}

impl Sequence {
    fn add(&mut self, sn: u64) {
        self.count += 1;
        let Some((first, last)) = self.range else {
            self.range = Some((sn, sn));
            return;
        };
        if sn > last {
            self.missing = self.missing.saturating_add(sn - last - 1);
        } else {
            self.missing = self.missing.saturating_sub(1);
        }
        self.range = Some((first.min(sn), last.max(sn)));
    }
}

/// One operation of one origin.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Index of the origin.
    pub origin: usize,
    /// The operation; `None` if unknown.
    pub op: Option<CommOp>,
    /// True for point-to-point records.
    pub p2p: bool,
    /// Its records by size.
    pub sizes: Sizes,
    /// Its sequence numbers. Those of point-to-point records have gaps even where nothing was lost (sends to itself are numbered).
    pub sequence: Sequence,
}

/// One origin and what is counted for all its records together.
#[derive(Debug, Clone, PartialEq)]
pub struct OriginTally {
    /// Who wrote.
    pub origin: Origin,
    /// False if the filter leaves it out.
    pub wanted: bool,
    /// Losses that Inspector announced; `None` if it never said.
    pub drops: Option<Drops>,
    /// Verbose records.
    pub stamped: u64,
    /// Verbose records whose channels have no stamp at all.
    pub without_channels: u64,
    /// Verbose records whose execution time is longer than the time from their start to their writing. It is the time of another
    /// operation and is not used.
    pub impossible: u64,
}

/// One operation of one rank, as far as it is needed beside the same operation on other ranks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen {
    /// Index of the series.
    pub series: u32,
    /// Rank in the communicator.
    pub rank: u32,
    /// Sequence number.
    pub sn: u64,
    /// Message size in bytes; `u64::MAX` if unknown.
    pub bytes: u64,
    /// Execution time, microseconds; NaN if unknown.
    pub exec_us: f64,
    /// Bus bandwidth as logged, decimal GB/s; NaN if unknown or absurd.
    pub logged_busbw: f64,
    /// Time of writing, Unix microseconds; `i64::MIN` if unknown.
    pub written_us: i64,
}

/// Operations kept one by one, at most `budget`: beyond that every second, every fourth, ... by a hash of communicator, operation
/// and sequence number, so that all ranks keep the same ones and can still be compared.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    /// The operations that were kept.
    pub seen: Vec<Seen>,
    /// Kept are those with `hash & mask == 0`.
    pub mask: u64,
    budget: usize,
}

impl Sample {
    fn add(&mut self, seen: Seen, seeds: &[u64]) {
        let keeps = |seen: &Seen, mask: u64| {
            seeds.get(seen.series as usize).is_some_and(|&seed| mix(seed ^ seen.sn) & mask == 0)
        };
        if !keeps(&seen, self.mask) {
            return;
        }
        self.seen.push(seen);
        while self.seen.len() > self.budget && self.mask < u64::MAX {
            self.mask = self.mask * 2 + 1;
            let mask = self.mask;
            self.seen.retain(|s| keeps(s, mask));
        }
    }

    /// Keeps only what `mask` keeps.
    pub fn thin(&mut self, mask: u64, seeds: &[u64]) {
        if mask != self.mask {
            self.mask = mask;
            self.seen.retain(|s| {
                seeds.get(s.series as usize).is_some_and(|&seed| mix(seed ^ s.sn) & mask == 0)
            });
        }
    }
}

/// A bijection of 64 bits that spreads them (finaliser of SplitMix64).
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The same for a communicator and operation in every file and on every machine.
fn seed(comm_id: &str, op: Option<CommOp>) -> u64 {
    let name = op.map_or("Invalid", CommOp::label);
    comm_id.bytes().chain(name.bytes()).fold(0, |hash, byte| mix(hash ^ u64::from(byte)))
}

/// What is kept of one log file.
#[derive(Debug, Clone, PartialEq)]
pub struct Tally {
    filter: Filter,
    /// Who wrote.
    pub origins: Vec<OriginTally>,
    /// What they ran, in order of first appearance.
    pub series: Vec<Series>,
    /// One for each series: what its operations are sampled by.
    pub seeds: Vec<u64>,
    /// Series by origin, operation and kind.
    index: BTreeMap<(usize, Option<CommOp>, bool), usize>,
    last: usize,
    /// Single operations.
    pub sample: Sample,
    /// Operations that the filter leaves out.
    pub filtered: u64,
    /// Operations that were counted.
    pub operations: u64,
    /// First and last time of writing, Unix microseconds.
    pub written: Option<(i64, i64)>,
}

impl Tally {
    /// Nothing seen yet; at most `budget` operations will be kept one by one.
    pub fn new(filter: Filter, budget: usize) -> Self {
        Self {
            filter,
            origins: Vec::new(),
            series: Vec::new(),
            seeds: Vec::new(),
            index: BTreeMap::new(),
            last: 0,
            sample: Sample { budget, ..Sample::default() },
            filtered: 0,
            operations: 0,
            written: None,
        }
    }

    fn series_of(&mut self, record: &Record<'_>) -> Option<usize> {
        let is = |s: &Series| s.origin == record.origin && s.op == record.op && s.p2p == record.p2p;
        if self.series.get(self.last).is_some_and(is) {
            return Some(self.last);
        }
        let next = self.series.len();
        let at = *self.index.entry((record.origin, record.op, record.p2p)).or_insert(next);
        if at == next {
            let comm_id = &self.origins.get(record.origin)?.origin.comm_id;
            self.seeds.push(seed(comm_id, record.op));
            self.series.push(Series {
                origin: record.origin,
                op: record.op,
                p2p: record.p2p,
                sizes: Sizes::default(),
                sequence: Sequence::default(),
            });
        }
        self.last = at;
        Some(at)
    }
}

impl Sink for Tally {
    fn origin(&mut self, origin: &Origin) {
        self.origins.push(OriginTally {
            wanted: self.filter.wants_origin(origin),
            origin: origin.clone(),
            drops: None,
            stamped: 0,
            without_channels: 0,
            impossible: 0,
        });
    }

    fn record(&mut self, record: &Record<'_>) {
        let Some(origin) = self.origins.get_mut(record.origin) else { return };
        if !(origin.wanted && self.filter.wants(record)) {
            self.filtered += 1;
            return;
        }
        self.operations += 1;
        let (rank, n_ranks) = (origin.origin.rank, origin.origin.n_ranks);
        let mut corrected = None;
        if let Some(stamps) = &record.stamps {
            origin.stamped += 1;
            let unseen = !stamps.channels.is_empty()
                && stamps.channels.iter().all(|c| c.start_us.is_none() && c.stop_us.is_none());
            origin.without_channels += u64::from(unseen);
            if let (Some(start), Some(written), Some(exec)) =
                (stamps.start_us, record.written_us, record.exec_us)
                && exec > written.saturating_sub(start) as f64 + STAMP_SLACK_US
            {
                origin.impossible += 1;
                corrected = Some(Record { exec_us: None, ..record.clone() });
            }
        }
        let record = corrected.as_ref().unwrap_or(record);
        if let Some(at) = record.written_us {
            let (first, last) = self.written.unwrap_or((at, at));
            self.written = Some((first.min(at), last.max(at)));
        }
        let Some(at) = self.series_of(record) else { return };
        let Some(series) = self.series.get_mut(at) else { return };
        series.sizes.add(record, n_ranks);
        if let Some(sn) = record.sn {
            series.sequence.add(sn);
            let seen = Seen {
                series: u32::try_from(at).unwrap_or(u32::MAX),
                rank,
                sn,
                bytes: record.bytes.unwrap_or(u64::MAX),
                exec_us: record.exec_us.unwrap_or(f64::NAN),
                logged_busbw: logged_busbw(record).unwrap_or(f64::NAN),
                written_us: record.written_us.unwrap_or(i64::MIN),
            };
            self.sample.add(seen, &self.seeds);
        }
    }

    fn drops(&mut self, origin: usize, drops: Drops) {
        if let Some(origin) = self.origins.get_mut(origin) {
            // Totals only grow, so the last is the largest.
            let before = origin.drops.unwrap_or_default();
            origin.drops =
                Some(Drops { coll: before.coll.max(drops.coll), p2p: before.p2p.max(drops.p2p) });
        }
    }
}
