//! All events by name: how long they take, how much they move, how fast.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::dump::{Dump, Total};
use super::ids::Ids;
use super::primitive::{Reserved, Size, is_proxy};

/// All events of one name over all ranks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventTotal {
    /// The name without `NPKIT_EVENT_` and `_ENTRY`.
    pub name: String,
    /// How many.
    pub count: u64,
    /// Time, ns; of proxies more than has passed, because requests overlap.
    pub total_ns: i64,
    /// Mean, ns.
    pub mean_ns: i64,
    /// The longest, ns.
    pub max_ns: i64,
    /// Bytes; `None` if `size` does not count those of the event.
    pub bytes: Option<u64>,
    /// Bytes by time, decimal GB/s: the mean over events, each by its time. Of requests in flight together, that of one of them.
    pub gbs: Option<f64>,
    /// Why there is no bandwidth, if there is none.
    pub no_bandwidth: Option<String>,
    /// Waiting as a share of the time; `None` if it was not collected.
    pub wait_fraction: Option<f64>,
}

/// All events by name, those with most time first.
pub(crate) fn totals(dump: &Dump) -> Vec<EventTotal> {
    let mut all: BTreeMap<u8, Total> = BTreeMap::new();
    for (entry, total) in dump.ranks.values().flat_map(|rank| &rank.totals) {
        all.entry(*entry).or_default().merge(total);
    }
    let counts_polls = counts_polls(&all, &dump.ids);
    let mut rows: Vec<EventTotal> = all
        .iter()
        .map(|(entry, total)| row(dump.ids.name(*entry), total, dump, counts_polls))
        .collect();
    rows.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.name.cmp(&b.name)));
    rows
}

/// True if the sizes of sends are not what was posted: such builds count how often they polled (NPKIT_NET_COLLECT_POLL_CNT).
fn counts_polls(all: &BTreeMap<u8, Total>, ids: &Ids) -> bool {
    all.iter()
        .filter(|(entry, _)| ids.name(**entry) == "NET_SEND")
        .any(|(_, total)| total.same_size * 2 < total.count)
}

fn row(name: &str, total: &Total, dump: &Dump, counts_polls: bool) -> EventTotal {
    let size = match Size::of(name, &dump.ids) {
        _ if is_proxy(name) && counts_polls => Size::None(
            "its size seems to count polls: sends do not end with the size that was posted",
        ),
        _ if total.ns <= 0 => Size::None("it took no measurable time"),
        size => size,
    };
    let (bytes, no_bandwidth) = match size {
        Size::Own => (Some(total.size), None),
        Size::Message => (None, None),
        Size::None(why) => (None, Some(why.to_owned())),
    };
    let wait_ns = match Reserved::of(name) {
        Reserved::AllWaiting => Some(total.ns),
        _ if total.wrapped > 0 || total.rsvd_ns == 0 => None,
        Reserved::Processing => Some(total.ns.saturating_sub(total.rsvd_ns).max(0)),
        Reserved::Waiting => Some(total.rsvd_ns.min(total.ns)),
        Reserved::Nothing => None,
    };
    EventTotal {
        name: name.to_owned(),
        count: total.count,
        total_ns: total.ns,
        mean_ns: total.ns / i64::try_from(total.count.max(1)).unwrap_or(i64::MAX),
        max_ns: total.max_ns,
        bytes,
        gbs: no_bandwidth.is_none().then(|| total.size as f64 / total.ns as f64),
        no_bandwidth,
        wait_fraction: wait_ns.filter(|_| total.ns > 0).map(|wait| wait as f64 / total.ns as f64),
    }
}
