//! Which channel holds the others up: channel by channel over all collectives of a rank.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::phases::Phases;
use crate::stats;

/// A collective shorter than this says little about channels, ns.
pub const SHORT: i64 = 50_000;
/// With fewer channels the median is one of them.
const FEWEST_CHANNELS: usize = 3;

/// One collective on one rank.
#[derive(Debug, Clone, Copy)]
pub struct Member<'p> {
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
    /// Collectives of at least 50 µs and three channels in which it took part.
    pub compared: u64,
    /// Those in which it was the last to end.
    pub last_count: u64,
    /// Its length without waiting by that of the median channel, median over those; `None` if there are none.
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
pub fn channels(members: &[Member<'_>]) -> Vec<Channel> {
    let mut tallies: BTreeMap<(u32, u32), Tally> = BTreeMap::new();
    for member in members {
        let lanes = &member.phases.lanes;
        // Work that is merged into one kernel begins several lanes of a channel.
        let mut busy: BTreeMap<u32, (i64, i64, i64)> = BTreeMap::new();
        for lane in lanes {
            let length = lane.end_ns.saturating_sub(lane.start_ns);
            let (all, working, end) = busy.entry(lane.channel).or_insert((0, 0, i64::MIN));
            *all += length;
            // Waiting for a late rank is the same in every channel and would hide the difference.
            *working += (length - lane.wait_ns.unwrap_or(0)).max(0);
            *end = lane.end_ns.max(*end);
            let tally = tallies.entry((lane.channel, member.rank)).or_default();
            for (name, ns) in &lane.phases {
                *tally.phases.entry(name.clone()).or_default() += ns;
            }
        }
        let working: Vec<i64> = busy.values().map(|(_, working, _)| *working).collect();
        let median = stats::median_i64(&working).filter(|ns| *ns > 0);
        let compares = member.length_ns >= SHORT && busy.len() >= FEWEST_CHANNELS;
        let last = busy.values().map(|(.., end)| *end).max();
        for (channel, (all, working, end)) in busy {
            let tally = tallies.entry((channel, member.rank)).or_default();
            tally.lengths.push(all);
            if let Some(median) = median.filter(|_| compares) {
                tally.ratios.push(working as f64 / median as f64);
                tally.last += u64::from(Some(end) == last);
            }
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
