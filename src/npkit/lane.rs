//! From the records of one GPU buffer to lanes: what one channel did in one collective. A lane begins with a pair of clock
//! records, which every block writes before it starts on a collective.
//!
//! ```text
//! CPU GPU [SEND      ] [RECV_REDUCE_COPY_SEND        ] [RECV   ] CPU GPU [SEND ...
//! '-- one lane -----------------------------------------------' '-- the next
//! ```

use super::ids::{Ids, Role};
use super::record::Record;

/// Ticks at which the 24 bits of `rsvd` start again from 0.
const WRAP: u64 = 1 << 24;
/// Clock records closer together than this (ns) say too little about the rate of the GPU's clock.
const RATE_NS: i64 = 100_000;
/// Rates that are kept of a buffer.
const RATES: usize = 64;
/// Spans that may be open at once in a buffer; NPKit's do not nest deeper than two.
const OPEN: usize = 16;

/// No dump is as long, ns: over two years.
const LONGEST: i64 = 1 << 56;
/// No time is as far from 1970, ns: 73 years. The distance of any two nearer ones, and twice that, is an `i64` too.
const FARTHEST: i64 = 1 << 61;

/// True for a number of nanoseconds since 1970 that can be a time.
pub fn is_time(ns: i64) -> bool {
    -FARTHEST < ns && ns < FARTHEST
}

/// Rates of the two clocks of a rank.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clocks {
    /// The GPU's, kHz.
    pub gpu_khz: f64,
    /// The CPU's period, seconds: numerator and denominator.
    pub cpu_period: (u64, u64),
}

impl Clocks {
    /// GPU ticks as nanoseconds, at most `LONGEST`.
    pub fn gpu_ns(&self, ticks: i64) -> i64 {
        let ns = (ticks as f64 * 1e6 / self.gpu_khz).round() as i64;
        ns.clamp(-LONGEST, LONGEST)
    }

    /// A CPU timestamp as nanoseconds since 1970; `None` if it cannot be a time.
    pub fn cpu_ns(&self, ticks: u64) -> Option<i64> {
        let (num, den) = self.cpu_period;
        let ns = i128::from(ticks).checked_mul(i128::from(num))?.checked_mul(1_000_000_000)?;
        i64::try_from(ns / i128::from(den.max(1))).ok().filter(|&ns| is_time(ns))
    }
}

/// One event from its beginning to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Number of the record that began it.
    pub entry: u8,
    /// Beginning, ns since 1970.
    pub start_ns: i64,
    /// End, ns since 1970.
    pub end_ns: i64,
    /// `size` at its end.
    pub size: u64,
    /// `rsvd` at its end, ns.
    pub rsvd_ns: i64,
    /// `rsvd` may have started again from 0.
    pub wrapped: bool,
    /// It lies in no other but that of a whole collective.
    pub outermost: bool,
}

/// All events of one name in a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sum {
    /// Number of the records that began them.
    pub entry: u8,
    /// They lie in no other but that of a whole collective.
    pub outermost: bool,
    /// `rsvd` of one of them may have started again from 0.
    pub wrapped: bool,
    /// How many.
    pub count: u32,
    /// Time, ns.
    pub ns: i64,
    /// `rsvd` at their ends, ns.
    pub rsvd_ns: i64,
    /// `size` at their ends.
    pub size: u64,
}

/// What one channel did in one collective.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lane {
    /// The buffer: the channel, of rings and trees.
    pub channel: u32,
    /// First event, ns since 1970.
    pub start_ns: i64,
    /// Last event, ns since 1970.
    pub end_ns: i64,
    /// Records, those of the clocks not counted.
    pub records: u64,
    /// By name, in the order in which they first end.
    pub sums: Vec<Sum>,
}

impl Lane {
    /// A lane without an event, which is to begin at `start_ns`.
    pub fn new(channel: u32, start_ns: i64) -> Self {
        Self { channel, start_ns, end_ns: start_ns, records: 0, sums: Vec::new() }
    }

    /// Adds an event that ended.
    pub fn add(&mut self, span: &Span) {
        let ns = span.end_ns.saturating_sub(span.start_ns);
        let known =
            self.sums.iter_mut().find(|s| s.entry == span.entry && s.outermost == span.outermost);
        match known {
            Some(sum) => {
                sum.wrapped |= span.wrapped;
                sum.count = sum.count.saturating_add(1);
                sum.ns = sum.ns.saturating_add(ns);
                sum.rsvd_ns = sum.rsvd_ns.saturating_add(span.rsvd_ns);
                sum.size = sum.size.saturating_add(span.size);
            }
            None => self.sums.push(Sum {
                entry: span.entry,
                outermost: span.outermost,
                wrapped: span.wrapped,
                count: 1,
                ns,
                rsvd_ns: span.rsvd_ns,
                size: span.size,
            }),
        }
    }
}

/// What reading one buffer found beside its lanes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// Records before the first clock record: their time is not known.
    pub without_clock: u64,
    /// Beginnings without an end and ends without a beginning.
    pub unpaired: u64,
    /// Records whose time lies before that of the record before.
    pub backwards: u64,
}

/// Reads the records of one buffer in order.
#[derive(Debug)]
pub struct Reader<'i> {
    ids: &'i Ids,
    clocks: Clocks,
    channel: u32,
    cpu_ns: Option<i64>,
    gpu_base: Option<u64>,
    last_tick: u64,
    open: Vec<(u8, u64, bool)>,
    lane: Option<Lane>,
    last_clock: Option<(i64, u64)>,
    /// What was wrong so far.
    pub faults: Faults,
    /// Rates of the GPU's clock between pairs of clock records, kHz. A block that moved to another processor makes one of them
    /// absurd: only their median means something.
    pub rates: Vec<f64>,
}

impl<'i> Reader<'i> {
    /// A reader at the beginning of a buffer.
    pub fn new(ids: &'i Ids, clocks: Clocks, channel: u32) -> Self {
        Self {
            ids,
            clocks,
            channel,
            cpu_ns: None,
            gpu_base: None,
            last_tick: 0,
            open: Vec::new(),
            lane: None,
            last_clock: None,
            faults: Faults::default(),
            rates: Vec::new(),
        }
    }

    /// Takes the next record; passes on the span that it ends, and returns the lane before it if it begins another.
    pub fn feed(&mut self, record: &Record, mut each: impl FnMut(&Span)) -> Option<Lane> {
        let Some(meaning) = self.ids.get(record.id) else {
            self.count_only();
            return None;
        };
        match meaning.role {
            Role::ClockCpu => {
                let before = self.finish();
                self.cpu_ns = self.clocks.cpu_ns(record.timestamp);
                self.gpu_base = None;
                return before;
            }
            Role::ClockGpu => {
                self.gpu_base = Some(record.timestamp);
                self.last_tick = record.timestamp;
                self.measure_rate(record.timestamp);
            }
            Role::Other => self.count_only(),
            Role::Entry => {
                let now = self.time(record.timestamp)?;
                let lane = self.lane.get_or_insert_with(|| Lane::new(self.channel, now));
                lane.records += 1;
                lane.end_ns = lane.end_ns.max(now);
                let outermost = self
                    .open
                    .iter()
                    .all(|(entry, ..)| self.ids.get(*entry).is_some_and(|m| m.whole));
                if self.open.len() < OPEN {
                    self.open.push((record.id, record.timestamp, outermost));
                } else {
                    self.faults.unpaired += 1;
                }
            }
            Role::Exit => {
                let entry = meaning.entry;
                let now = self.time(record.timestamp)?;
                let lane = self.lane.get_or_insert_with(|| Lane::new(self.channel, now));
                lane.records += 1;
                lane.end_ns = lane.end_ns.max(now);
                let Some(at) = self.open.iter().rposition(|(open, ..)| *open == entry) else {
                    self.faults.unpaired += 1;
                    return None;
                };
                let (_, since, outermost) = self.open.remove(at);
                let ticks = record.timestamp.saturating_sub(since);
                let ns = self.clocks.gpu_ns(i64::try_from(ticks).unwrap_or(i64::MAX));
                let span = Span {
                    entry,
                    start_ns: now.saturating_sub(ns),
                    end_ns: now,
                    size: u64::from(record.size),
                    rsvd_ns: self.clocks.gpu_ns(i64::from(record.rsvd)),
                    wrapped: ticks >= WRAP,
                    outermost,
                };
                lane.add(&span);
                each(&span);
            }
        }
        None
    }

    /// The last lane.
    pub fn finish(&mut self) -> Option<Lane> {
        self.faults.unpaired += self.open.len() as u64;
        self.open.clear();
        self.lane.take()
    }

    fn measure_rate(&mut self, tick: u64) {
        let Some(now) = self.cpu_ns else { return };
        if let Some((then, before)) = self.last_clock.replace((now, tick)) {
            let ns = now.saturating_sub(then);
            // A clock that stood still or ran back is that of another processor: it says nothing of the rate.
            if ns >= RATE_NS && tick > before && self.rates.len() < RATES {
                self.rates.push((tick as f64 - before as f64) * 1e6 / ns as f64);
            }
        }
    }

    fn count_only(&mut self) {
        match &mut self.lane {
            Some(lane) => lane.records += 1,
            None => self.faults.without_clock += 1,
        }
    }

    /// The time of a GPU tick; without a clock record of the GPU the first event is the base, as in the reference generator.
    fn time(&mut self, tick: u64) -> Option<i64> {
        let Some(cpu_ns) = self.cpu_ns else {
            self.faults.without_clock += 1;
            return None;
        };
        let base = *self.gpu_base.get_or_insert(tick);
        if tick < self.last_tick {
            self.faults.backwards += 1;
        }
        self.last_tick = tick;
        let since = i128::from(tick) - i128::from(base);
        let since = i64::try_from(since).unwrap_or(if since < 0 { i64::MIN } else { i64::MAX });
        let time = Some(cpu_ns.saturating_add(self.clocks.gpu_ns(since))).filter(|&ns| is_time(ns));
        self.faults.without_clock += u64::from(time.is_none());
        time
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::npkit::ids::Library;

    const CLOCKS: Clocks = Clocks { gpu_khz: 2e6, cpu_period: (1, 1_000_000_000) };

    fn record(id: u8, timestamp: u64, rsvd: u32) -> Record {
        Record { id, size: 512, rsvd, timestamp }
    }

    fn lanes(records: &[Record]) -> (Vec<Lane>, Vec<Span>, Faults) {
        let ids = Ids::of(Library::Rccl);
        let mut reader = Reader::new(&ids, CLOCKS, 3);
        let mut spans = Vec::new();
        let mut lanes: Vec<Lane> =
            records.iter().filter_map(|r| reader.feed(r, |span| spans.push(*span))).collect();
        lanes.extend(reader.finish());
        (lanes, spans, reader.faults)
    }

    #[test]
    fn a_ring_around_its_parts_hides_none_of_them() {
        // Two ticks are a nanosecond. ring 10..110 ns; send 20..50; receive 50..110 with 40 ticks of data processing, in it a
        // wait 60..70 as LL has it.
        //
        // ns   0   10  20          50    60  70          110
        //      |clock
        //          [ring                                 ]
        //              [send       ][receive             ]
        //                                [wait]
        let (lanes, spans, faults) = lanes(&[
            record(0x34, 1_000, 0),
            record(0x33, 5_000, 0),
            record(0x01, 5_020, 0),
            record(0x35, 5_040, 0),
            record(0x36, 5_100, 0),
            record(0x3d, 5_100, 0),
            record(0x27, 5_120, 0),
            record(0x28, 5_140, 0),
            record(0x3e, 5_220, 40),
            record(0x02, 5_220, 0),
            record(0x34, 9_000, 0),
            record(0x33, 90_000, 0),
        ]);
        assert_eq!(faults, Faults::default());
        assert_eq!(lanes.len(), 1, "a lane without an event is none");
        assert_eq!((lanes[0].channel, lanes[0].start_ns, lanes[0].end_ns), (3, 1_010, 1_110));
        assert_eq!(lanes[0].records, 8);
        let found: Vec<_> =
            spans.iter().map(|s| (s.entry, s.start_ns, s.end_ns, s.outermost)).collect();
        assert_eq!(
            found,
            [
                (0x35, 1_020, 1_050, true),
                (0x27, 1_060, 1_070, false),
                (0x3d, 1_050, 1_110, true),
                (0x01, 1_010, 1_110, true),
            ]
        );
        assert_eq!(spans[2].rsvd_ns, 20);
    }

    #[test]
    fn what_does_not_pair_is_counted() {
        let (_, spans, faults) = lanes(&[
            record(0x35, 1, 0), // before any clock
            record(0x34, 1_000, 0),
            record(0x33, 5_000, 0),
            record(0x36, 5_010, 0), // an end alone
            record(0x35, 5_020, 0), // a beginning alone
            record(0x34, 2_000, 0),
            record(0x33, 9_000, 0),
            record(0x35, 9_020, 0),
            record(0x36, 9_010, 0), // before it began
        ]);
        assert_eq!(spans.len(), 1);
        assert_eq!(spans[0].end_ns - spans[0].start_ns, 0);
        assert_eq!(faults, Faults { without_clock: 1, unpaired: 2, backwards: 1 });
    }

    #[test]
    fn a_long_event_may_have_outrun_rsvd() {
        let long = |ticks| {
            let (_, spans, _) = lanes(&[
                record(0x34, 0, 0),
                record(0x33, 0, 0),
                record(0x35, 0, 0),
                record(0x36, ticks, 7),
            ]);
            spans[0].wrapped
        };
        assert!(!long(WRAP - 1));
        assert!(long(WRAP));
    }
}
