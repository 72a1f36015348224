//! The channels of kernels as lanes, for pictures and traces.

use super::join::Joined;
use crate::model::Ns;
use crate::units;

/// One channel in one kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelLane {
    /// The rank.
    pub rank: u32,
    /// The channel; of sends and receives the buffer.
    pub channel: u32,
    /// Its first event, ns in the time of the rank's report, as its kernels are.
    pub start_ns: Ns,
    /// Its last event.
    pub end_ns: Ns,
    /// What it mostly does, and how much of it waits where that is known: `RECV, waits 95.0 %`.
    pub name: String,
}

/// Every channel of every kernel with events, by rank, channel and time.
pub fn lanes(joined: &Joined) -> Vec<ChannelLane> {
    let mut list: Vec<ChannelLane> = joined
        .kernels
        .iter()
        .flat_map(|kernel| {
            kernel.phases.lanes.iter().map(|lane| {
                let start_ns = kernel.start_ns.saturating_add(lane.start_ns);
                let end_ns = kernel.start_ns.saturating_add(lane.end_ns);
                // Of two that take as long the first by name.
                let most = lane.phases.iter().rev().max_by_key(|(_, ns)| **ns);
                let name = most.map_or("channel", |(name, _)| name.as_str());
                let total: i64 = lane.phases.values().sum();
                let waits = lane.wait_ns.filter(|_| total > 0).map(|ns| ns as f64 / total as f64);
                ChannelLane {
                    rank: kernel.rank,
                    channel: lane.channel,
                    start_ns,
                    end_ns: end_ns.max(start_ns),
                    name: match waits {
                        Some(share) => format!("{name}, waits {}", units::percent(share.min(1.0))),
                        None => name.to_owned(),
                    },
                }
            })
        })
        .collect();
    list.sort_by_key(|lane| (lane.rank, lane.channel, lane.start_ns, lane.end_ns));
    list
}
