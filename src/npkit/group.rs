//! Which lanes of a rank are one collective: a dump does not say, and buffers have different numbers of them, because small
//! messages use few channels. Channels of one kernel run at the same time, kernels one after the other.
//!
//! ```text
//! channel 0  [-----]        [------]   [--]
//! channel 1   [-----]        [-----]
//!            collective 0   1          2
//! ```

use super::dump::RankDump;
use super::lane::Lane;
use super::proxy::Proxy;

/// A channel may enter a collective when the others have left it already, as far as clocks can tell, ns.
const LATE_CHANNEL: i64 = 5_000;

/// One collective of one rank.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Group {
    /// First event, ns since 1970.
    pub start_ns: i64,
    /// Last event, ns since 1970.
    pub end_ns: i64,
    /// Its lanes, as places in the rank's.
    pub lanes: Vec<usize>,
    /// Its requests of proxy threads, as places in the rank's.
    pub proxies: Vec<usize>,
}

impl Group {
    /// The lanes.
    pub(crate) fn lanes<'r>(&self, rank: &'r RankDump) -> Vec<&'r Lane> {
        self.lanes.iter().filter_map(|&at| rank.lanes.get(at)).collect()
    }

    /// The requests.
    pub(crate) fn proxies<'r>(&self, rank: &'r RankDump) -> Vec<&'r Proxy> {
        self.proxies.iter().filter_map(|&at| rank.proxies.get(at)).collect()
    }
}

/// The collectives of a rank in order of time. Lanes are in order of their starts.
pub(crate) fn groups(rank: &RankDump) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut inside: Vec<u32> = Vec::new();
    for (at, lane) in rank.lanes.iter().enumerate() {
        match groups.last_mut() {
            Some(group) if belongs(lane, group, &inside) => {
                group.end_ns = group.end_ns.max(lane.end_ns);
                group.lanes.push(at);
            }
            _ => {
                inside.clear();
                groups.push(Group {
                    start_ns: lane.start_ns,
                    end_ns: lane.end_ns,
                    lanes: vec![at],
                    proxies: Vec::new(),
                });
            }
        }
        inside.push(lane.channel);
    }
    if groups.is_empty() {
        return of_proxies(&rank.proxies);
    }
    let windows: Vec<(i64, i64)> = groups.iter().map(|g| (g.start_ns, g.end_ns)).collect();
    for (at, proxy) in rank.proxies.iter().enumerate() {
        if let Some(group) = place(proxy, &windows).and_then(|i| groups.get_mut(i)) {
            group.proxies.push(at);
        }
    }
    groups
}

fn belongs(lane: &Lane, group: &Group, inside: &[u32]) -> bool {
    let gap = lane.start_ns.saturating_sub(group.end_ns);
    gap < 0 || (gap <= LATE_CHANNEL && !inside.contains(&lane.channel))
}

/// Without events of the GPU: requests that overlap are of one collective.
fn of_proxies(proxies: &[Proxy]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (at, proxy) in proxies.iter().enumerate() {
        match groups.last_mut().filter(|g| proxy.start_ns <= g.end_ns.saturating_add(LATE_CHANNEL))
        {
            Some(group) => {
                group.end_ns = group.end_ns.max(proxy.end_ns);
                group.proxies.push(at);
            }
            None => groups.push(Group {
                start_ns: proxy.start_ns,
                end_ns: proxy.end_ns,
                lanes: Vec::new(),
                proxies: vec![at],
            }),
        }
    }
    groups
}

/// The window that a request overlaps most; `windows` are in order and do not overlap. A receive is posted before its kernel
/// begins, and a send may end after it.
pub(crate) fn place(proxy: &Proxy, windows: &[(i64, i64)]) -> Option<usize> {
    let first = windows.partition_point(|(_, end)| *end < proxy.start_ns);
    let overlaps = windows.iter().enumerate().skip(first);
    overlaps
        .take_while(|(_, (start, _))| *start <= proxy.end_ns)
        .map(|(i, (start, end))| (proxy.end_ns.min(*end) - proxy.start_ns.max(*start), i))
        // Of equal overlaps the first.
        .max_by_key(|(overlap, i)| (*overlap, std::cmp::Reverse(*i)))
        .map(|(_, i)| i)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(channel: u32, start_ns: i64, end_ns: i64) -> Lane {
        Lane { end_ns, records: 2, ..Lane::new(channel, start_ns) }
    }

    #[test]
    fn channels_that_run_together_are_one_collective() {
        // us          0    10   20   30   40
        // channel 0   [----]    [---]    [-]
        // channel 1    [----]   [---]
        // channel 2         []           after the others have left, as far as the clocks tell
        let lanes = vec![
            lane(0, 0, 10_000),
            lane(1, 1_000, 11_000),
            lane(2, 12_000, 12_500),
            lane(0, 20_000, 26_000),
            lane(1, 20_500, 26_000),
            lane(0, 30_000, 31_000),
        ];
        let proxy = |start_ns, end_ns| Proxy {
            start_ns,
            end_ns,
            channel: 0,
            entry: 0x2f,
            posted: 0,
            size: 0,
        };
        // Posted before the first collective ends, complete in the second; and one between.
        let proxies = vec![proxy(11_500, 25_000), proxy(27_000, 28_000)];
        let groups = groups(&RankDump { lanes, proxies, ..RankDump::default() });
        let lanes: Vec<&[usize]> = groups.iter().map(|g| g.lanes.as_slice()).collect();
        assert_eq!(lanes, [&[0, 1, 2][..], &[3, 4], &[5]]);
        assert_eq!((groups[0].start_ns, groups[0].end_ns), (0, 12_500));
        assert_eq!(groups[1].proxies, [0]);
        assert!(groups[2].proxies.is_empty(), "a request between two collectives is of neither");
    }

    #[test]
    fn one_after_the_other_on_the_same_channel_are_two() {
        let lanes = vec![lane(0, 0, 10_000), lane(0, 10_001, 20_000)];
        assert_eq!(groups(&RankDump { lanes, ..RankDump::default() }).len(), 2);
    }
}
