//! Which channel holds the others up: channel by channel over all collectives of a rank.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::phases::Phases;
use crate::stats;

/// A collective shorter than this says little about channels, ns.
pub(crate) const SHORT: i64 = 50_000;
/// With fewer channels the median is one of them.
const FEWEST_CHANNELS: usize = 3;

/// One collective on one rank.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member<'p> {
    /// Which collective: the same number on every rank.
    pub collective: usize,
    /// The rank.
    pub rank: u32,
    /// How much later than the first rank it began, ns; `None` if that is not known.
    pub late_ns: Option<i64>,
    /// How long it took, ns.
    pub length_ns: i64,
    /// Where the time went.
    pub phases: &'p Phases,
}

/// One channel of one rank over its collectives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Channel {
    /// The channel; of sends and receives the buffer.
    pub channel: u32,
    /// The rank.
    pub rank: u32,
    /// Collectives in which it took part.
    pub collectives: u64,
    /// From its first event to its last, waiting included: median over collectives, ns.
    pub length_ns: i64,
    /// Those of at least 50 µs in which three channels or more do the same as this one.
    pub compared: u64,
    /// Those in which it was the last to end.
    pub last_count: u64,
    /// Its length without waiting by that of the median of those channels, median over collectives; `None` if there are none.
    pub relative: Option<f64>,
    /// The primitive in which it spends most of its time, over all collectives.
    pub mostly_in: Option<String>,
}

#[derive(Default)]
struct Tally {
    lengths: Vec<i64>,
    ratios: Vec<f64>,
    last: u64,
    phases: BTreeMap<String, i64>,
}

/// Every channel of every rank.
pub(crate) fn channels(members: &[Member<'_>]) -> Vec<Channel> {
    let mut tallies: BTreeMap<(u32, u32), Tally> = BTreeMap::new();
    for member in members {
        for (channel, busy) in busy(member) {
            let tally = tallies.entry((channel, member.rank)).or_default();
            tally.lengths.push(busy.length_ns);
            for (name, ns) in &busy.phases {
                *tally.phases.entry((*name).to_owned()).or_default() += ns;
            }
            tally.ratios.extend(busy.relative);
            tally.last += u64::from(busy.last && busy.relative.is_some());
        }
    }
    let row = |((channel, rank), tally): ((u32, u32), Tally)| {
        let most = tally.phases.iter().max_by_key(|(_, ns)| **ns);
        Some(Channel {
            channel,
            rank,
            collectives: tally.lengths.len() as u64,
            length_ns: stats::median_i64(&tally.lengths)?,
            compared: tally.ratios.len() as u64,
            last_count: tally.last,
            relative: stats::median(&tally.ratios),
            mostly_in: most.map(|(name, _)| name.clone()),
        })
    };
    tallies.into_iter().filter_map(row).collect()
}

/// One channel in one collective.
#[derive(Default)]
struct Busy<'p> {
    length_ns: i64,
    /// Length without waiting: that for a late rank is the same in every channel and would hide the difference.
    working_ns: i64,
    end_ns: i64,
    phases: BTreeMap<&'p str, i64>,
    /// By the median of the channels that do the same; `None` if there are too few.
    relative: Option<f64>,
    /// It ends last of those.
    last: bool,
}

/// The channels of one collective on one rank.
fn busy<'p>(member: &Member<'p>) -> BTreeMap<u32, Busy<'p>> {
    let mut channels: BTreeMap<u32, Busy<'p>> = BTreeMap::new();
    // Work that is merged into one kernel begins several lanes of a channel.
    for lane in &member.phases.lanes {
        let length = lane.end_ns.saturating_sub(lane.start_ns);
        let busy = channels.entry(lane.channel).or_default();
        busy.length_ns += length;
        busy.working_ns += (length - lane.wait_ns.unwrap_or(0)).max(0);
        busy.end_ns = lane.end_ns.max(busy.end_ns);
        for (name, ns) in &lane.phases {
            *busy.phases.entry(name).or_default() += ns;
        }
    }
    if member.length_ns < SHORT {
        return channels;
    }
    // A buffer that sends is not to be held against one that receives.
    let mut alike: BTreeMap<Vec<&str>, Vec<&mut Busy<'p>>> = BTreeMap::new();
    for busy in channels.values_mut() {
        alike.entry(busy.phases.keys().copied().collect()).or_default().push(busy);
    }
    for mut group in alike.into_values().filter(|group| group.len() >= FEWEST_CHANNELS) {
        let working: Vec<i64> = group.iter().map(|busy| busy.working_ns).collect();
        let median = stats::median_i64(&working).filter(|ns| *ns > 0);
        let last = group.iter().map(|busy| busy.end_ns).max();
        for busy in &mut group {
            busy.relative = median.map(|median| busy.working_ns as f64 / median as f64);
            busy.last = Some(busy.end_ns) == last;
        }
    }
    channels
}
