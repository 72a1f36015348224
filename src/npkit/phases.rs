//! Where the time of one collective goes on one rank: by primitive, by part, waiting, channel by channel.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::dump::RankDump;
use super::ids::{Ids, is_whole};
use super::lane::{Lane, Sum};
use super::primitive::{Part, Reserved, primitive};
use super::proxy::Proxy;
use crate::stats;

/// What the channels of one rank did in one collective. Times are ns.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Phases {
    /// Channels with an event.
    pub channels: u64,
    /// By primitive: the sum of a channel, median over the channels that have it. Of the network (`NET_SEND`, ...) the time in
    /// which at least one request of a channel was in flight.
    pub phases: BTreeMap<String, i64>,
    /// By part of the collective (`reduce_scatter`, `pivot`, ...): likewise.
    pub parts: BTreeMap<String, i64>,
    /// From the first channel's first event to the last channel's first event; `None` without a channel of the GPU.
    pub entry_spread_ns: Option<i64>,
    /// Waiting of a channel, median over channels; `None` if the build did not collect it or a time outran its 24 bits.
    pub wait_ns: Option<i64>,
    /// Waiting as a share of the time in primitives, over all channels.
    pub wait_fraction: Option<f64>,
    /// The primitive in which most of the waiting is.
    pub wait_in: Option<String>,
    /// Requests of proxy threads by name.
    pub proxies: BTreeMap<String, Requests>,
    /// Channel by channel.
    pub lanes: Vec<LaneTimes>,
}

/// How long requests of proxy threads took, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    /// How many.
    pub count: u64,
    /// Median.
    pub p50_ns: i64,
    /// 95th percentile.
    pub p95_ns: i64,
    /// Maximum.
    pub max_ns: i64,
}

/// What one channel did. Times are ns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LaneTimes {
    /// The channel; of sends and receives the buffer.
    pub channel: u32,
    /// First event, after the zero of the times around it.
    pub start_ns: i64,
    /// Last event.
    pub end_ns: i64,
    /// By primitive.
    pub phases: BTreeMap<String, i64>,
    /// Waiting; `None` if it was not collected.
    pub wait_ns: Option<i64>,
}

/// The phases of some lanes and requests of one rank. Times are counted from `zero_ns` since 1970.
pub(crate) fn of(
    lanes: &[&Lane],
    proxies: &[&Proxy],
    rank: &RankDump,
    ids: &Ids,
    zero_ns: i64,
) -> Phases {
    let mut by_primitive: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    let mut by_part: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    // Work that is merged into one kernel begins several lanes of a channel.
    let mut channels: BTreeMap<u32, Vec<&Lane>> = BTreeMap::new();
    for lane in lanes {
        channels.entry(lane.channel).or_default().push(lane);
    }
    for of_channel in channels.values() {
        let mut primitives: BTreeMap<&str, i64> = BTreeMap::new();
        let mut parts: BTreeMap<&str, i64> = BTreeMap::new();
        for sum in of_channel.iter().flat_map(|lane| &lane.sums) {
            let name = ids.name(sum.entry);
            if !is_whole(name) {
                grow(primitives.entry(primitive(name)).or_default(), sum.ns);
            }
            if let Some(part) = Part::of(name) {
                grow(parts.entry(part.label()).or_default(), sum.ns);
            }
        }
        collect(&mut by_primitive, primitives);
        collect(&mut by_part, parts);
    }
    let requests = requests(proxies, ids, &mut by_primitive);
    let waits: Vec<Option<Wait>> = channels
        .values()
        .map(|lanes| lanes.iter().map(|lane| wait(lane, rank, ids)).collect::<Option<Vec<_>>>())
        .map(|waits| waits.map(|waits| waits.into_iter().fold(Wait::default(), Wait::plus)))
        .collect();
    let known: Option<Vec<Wait>> = waits.into_iter().collect();
    let known = known.filter(|waits| !waits.is_empty());
    let all = known.as_ref().map(|w| w.iter().cloned().fold(Wait::default(), Wait::plus));
    let starts = || channels.values().filter_map(|lanes| lanes.iter().map(|l| l.start_ns).min());
    Phases {
        channels: channels.len() as u64,
        phases: medians(by_primitive),
        parts: medians(by_part),
        entry_spread_ns: starts().max().zip(starts().min()).map(|(last, first)| last - first),
        wait_ns: known
            .as_ref()
            .and_then(|w| stats::median_i64(&w.iter().map(|w| w.ns).collect::<Vec<_>>())),
        wait_fraction: all
            .as_ref()
            .filter(|all| all.of_ns > 0)
            .map(|all| all.ns as f64 / all.of_ns as f64),
        wait_in: all.as_ref().and_then(Wait::most),
        proxies: requests,
        lanes: lanes.iter().map(|lane| times(lane, rank, ids, zero_ns)).collect(),
    }
}

fn times(lane: &Lane, rank: &RankDump, ids: &Ids, zero_ns: i64) -> LaneTimes {
    let mut phases: BTreeMap<String, i64> = BTreeMap::new();
    for sum in lane.sums.iter().filter(|sum| !is_whole(ids.name(sum.entry))) {
        grow(phases.entry(primitive(ids.name(sum.entry)).to_owned()).or_default(), sum.ns);
    }
    LaneTimes {
        channel: lane.channel,
        start_ns: lane.start_ns.saturating_sub(zero_ns),
        end_ns: lane.end_ns.saturating_sub(zero_ns),
        phases,
        wait_ns: wait(lane, rank, ids).map(|wait| wait.ns),
    }
}

fn collect(into: &mut BTreeMap<String, Vec<i64>>, sums: BTreeMap<&str, i64>) {
    for (name, ns) in sums {
        into.entry(name.to_owned()).or_default().push(ns);
    }
}

fn medians(lists: BTreeMap<String, Vec<i64>>) -> BTreeMap<String, i64> {
    lists.into_iter().filter_map(|(name, list)| Some((name, stats::median_i64(&list)?))).collect()
}

/// When requests were in flight, by channel.
type Flights = BTreeMap<u32, Vec<(i64, i64)>>;

/// Requests by name; puts into `flight` how long any of them was in flight, for each channel.
fn requests(
    proxies: &[&Proxy],
    ids: &Ids,
    flight: &mut BTreeMap<String, Vec<i64>>,
) -> BTreeMap<String, Requests> {
    let mut by_name: BTreeMap<&str, Flights> = BTreeMap::new();
    for proxy in proxies {
        let channels = by_name.entry(ids.name(proxy.entry)).or_default();
        channels.entry(proxy.channel).or_default().push((proxy.start_ns, proxy.end_ns));
    }
    let mut found = BTreeMap::new();
    for (name, channels) in by_name {
        let mut all = Vec::new();
        for mut spans in channels.into_values() {
            all.extend(spans.iter().map(|(start, end)| end - start));
            spans.sort_unstable();
            flight.entry(name.to_owned()).or_default().push(union(&spans));
        }
        let (Some(p50_ns), Some(p95_ns), Some(max_ns)) =
            (stats::median_i64(&all), stats::quantile_i64(&all, 0.95), all.iter().copied().max())
        else {
            continue;
        };
        found.insert(name.to_owned(), Requests { count: all.len() as u64, p50_ns, p95_ns, max_ns });
    }
    found
}

/// Adds a time; damaged dumps may hold more than a number can.
fn grow(sum: &mut i64, ns: i64) {
    *sum = sum.saturating_add(ns);
}

/// Length of the union of spans in order of their starts.
fn union(spans: &[(i64, i64)]) -> i64 {
    let mut reached = i64::MIN;
    let mut length = 0;
    for &(start, end) in spans {
        let from = start.max(reached);
        grow(&mut length, (end - from).max(0));
        reached = reached.max(end);
    }
    length
}

/// Waiting in some time of primitives, ns.
#[derive(Debug, Clone, Default)]
struct Wait {
    ns: i64,
    of_ns: i64,
    by_primitive: BTreeMap<String, i64>,
}

impl Wait {
    fn plus(mut self, other: Wait) -> Wait {
        self.ns = self.ns.saturating_add(other.ns);
        self.of_ns = self.of_ns.saturating_add(other.of_ns);
        for (name, ns) in other.by_primitive {
            grow(self.by_primitive.entry(name).or_default(), ns);
        }
        self
    }

    fn add(&mut self, name: &str, ns: i64) {
        self.ns = self.ns.saturating_add(ns);
        grow(self.by_primitive.entry(primitive(name).to_owned()).or_default(), ns);
    }

    fn most(&self) -> Option<String> {
        let most = self.by_primitive.iter().filter(|(_, ns)| **ns > 0);
        most.max_by_key(|(_, ns)| **ns).map(|(name, _)| name.clone())
    }
}

/// How long a channel waited; `None` if part of its time is of primitives that do not say.
fn wait(lane: &Lane, rank: &RankDump, ids: &Ids) -> Option<Wait> {
    let mut outer = Wait::default();
    let mut inner = Wait::default();
    let (mut outer_known, mut inner_any) = (true, false);
    for sum in lane.sums.iter().filter(|sum| !is_whole(ids.name(sum.entry))) {
        let name = ids.name(sum.entry);
        let waited = waited(sum, rank, name);
        if sum.outermost {
            outer.of_ns = outer.of_ns.saturating_add(sum.ns);
            match waited {
                Some(ns) => outer.add(name, ns),
                None => outer_known = false,
            }
        } else if let Some(ns) = waited {
            inner_any = true;
            inner.add(name, ns);
        }
    }
    match (outer_known && outer.of_ns > 0, inner_any) {
        (true, _) => Some(outer),
        // LL and LL128 say inside of a primitive how long it waits.
        (false, true) => Some(Wait { of_ns: outer.of_ns, ..inner }),
        (false, false) => None,
    }
}

fn waited(sum: &Sum, rank: &RankDump, name: &str) -> Option<i64> {
    let collected = || rank.totals.get(&sum.entry).is_some_and(|total| total.rsvd_ns > 0);
    match Reserved::of(name) {
        Reserved::AllWaiting => Some(sum.ns),
        _ if sum.wrapped => None,
        Reserved::Processing => collected().then(|| sum.ns.saturating_sub(sum.rsvd_ns).max(0)),
        Reserved::Waiting => collected().then(|| sum.rsvd_ns.min(sum.ns)),
        Reserved::Nothing => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::npkit::dump::Total;
    use crate::npkit::ids::Library;

    fn sum(entry: u8, ns: i64, rsvd_ns: i64, outermost: bool) -> Sum {
        Sum { entry, outermost, wrapped: false, count: 1, ns, rsvd_ns, size: 8 }
    }

    fn lane(channel: u32, start_ns: i64, sums: Vec<Sum>) -> Lane {
        let end_ns = start_ns + 1_000;
        Lane { channel, start_ns, end_ns, records: 2 * sums.len() as u64, sums }
    }

    fn collected(entries: &[u8]) -> RankDump {
        let total = |entry: &u8| (*entry, Total { count: 1, rsvd_ns: 1, ..Total::default() });
        RankDump { totals: entries.iter().map(total).collect(), ..RankDump::default() }
    }

    #[test]
    fn phases_are_medians_over_channels_and_waits_are_what_is_not_processing() {
        // channel 0: send 100 (60 processing), last receive 500 (100 processing)
        // channel 1: send 200 (60 processing), last receive 300 (300 processing)
        let lanes = [
            lane(0, 1_000, vec![sum(0x35, 100, 60, true), sum(0x3d, 500, 100, true)]),
            lane(
                1,
                1_040,
                vec![sum(0x35, 200, 60, true), sum(0x3d, 300, 300, true), sum(0x01, 900, 0, true)],
            ),
        ];
        let refs: Vec<&Lane> = lanes.iter().collect();
        let phases = of(&refs, &[], &collected(&[0x35, 0x3d]), &Ids::of(Library::Nccl), 1_000);
        assert_eq!(phases.phases, BTreeMap::from([("SEND".into(), 150), ("RECV".into(), 400)]));
        assert_eq!(
            phases.parts,
            BTreeMap::from([("reduce_scatter".into(), 150), ("all_gather".into(), 400)])
        );
        assert_eq!(phases.entry_spread_ns, Some(40));
        // Channel 0 waits 40 + 400, channel 1 140 + 0.
        assert_eq!(phases.wait_ns, Some(290));
        assert_eq!(phases.wait_fraction, Some(580.0 / 1_100.0));
        assert_eq!(phases.wait_in.as_deref(), Some("RECV"));
        assert_eq!((phases.lanes[1].start_ns, phases.lanes[1].wait_ns), (40, Some(140)));
        let none = of(&refs, &[], &RankDump::default(), &Ids::of(Library::Nccl), 0);
        assert_eq!((none.wait_ns, none.wait_fraction), (None, None), "not collected");
    }

    #[test]
    fn ll_says_inside_of_a_primitive_how_long_it_waits() {
        // send 400, in it a wait for space 100 and data processing 200 of which 50 are waiting for the peer
        let sums =
            vec![sum(0x27, 100, 0, false), sum(0x29, 200, 50, false), sum(0x35, 400, 0, true)];
        let one = lane(0, 0, sums);
        let phases = of(&[&one], &[], &collected(&[0x29]), &Ids::of(Library::Nccl), 0);
        assert_eq!(phases.wait_ns, Some(150));
        assert_eq!(phases.wait_fraction, Some(150.0 / 400.0));
        assert_eq!(phases.wait_in.as_deref(), Some("LL_WAIT_SEND"));
        // Alone, LL events are the outermost.
        let one = lane(0, 0, vec![sum(0x27, 100, 0, true), sum(0x29, 200, 50, true)]);
        let phases = of(&[&one], &[], &collected(&[0x29]), &Ids::of(Library::Nccl), 0);
        assert_eq!((phases.wait_ns, phases.wait_fraction), (Some(150), Some(0.5)));
    }

    #[test]
    fn a_time_that_outran_its_bits_is_not_known() {
        let mut long = sum(0x35, 20_000_000, 60, true);
        long.wrapped = true;
        let one = lane(0, 0, vec![long]);
        let phases = of(&[&one], &[], &collected(&[0x35]), &Ids::of(Library::Nccl), 0);
        assert_eq!(phases.wait_ns, None);
    }

    #[test]
    fn requests_in_flight_together_are_counted_once() {
        // channel 0  [0    100]
        //                [50      150]      [300 310]
        let proxy = |start_ns, end_ns| Proxy {
            start_ns,
            end_ns,
            channel: 0,
            entry: 0x2f,
            posted: 1,
            size: 1,
        };
        let list = [proxy(0, 100), proxy(50, 150), proxy(300, 310)];
        let refs: Vec<&Proxy> = list.iter().collect();
        let phases = of(&[], &refs, &RankDump::default(), &Ids::of(Library::Nccl), 0);
        assert_eq!(phases.phases["NET_SEND"], 160);
        assert_eq!(
            phases.proxies["NET_SEND"],
            Requests { count: 3, p50_ns: 100, p95_ns: 100, max_ns: 100 }
        );
        assert_eq!((phases.channels, phases.entry_spread_ns), (0, None));
    }
}
