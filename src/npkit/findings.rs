//! What explains the time inside collectives: who waits for whom, which channel is slow, whether the network's proxies are the
//! limit.

use std::collections::{BTreeMap, BTreeSet};

use super::channels::{Channel, Member, SHORT, channels};
use super::phases::Requests;
use crate::catalogue::{Finding, Id, Severity};
use crate::stats;
use crate::units;

/// Waiting below this is what any handshake takes, ns.
const SHORT_WAIT: i64 = 20_000;
/// From this share of a rank's time in primitives on, waiting is what the collective consists of.
const MOSTLY: f64 = 0.5;
/// Waiting is told of from this share of a rank's time in all collectives on.
const NOTABLE: f64 = 0.05;
/// A channel that takes this much longer than the others on every rank is slow.
const SLOW_CHANNEL: f64 = 1.2;
/// Collectives that have to agree.
const FEWEST: u64 = 3;
/// A share of a kernel in which requests are in flight from which on the network is the limit.
const IN_FLIGHT: f64 = 0.8;
/// Findings of one kind.
const MOST: usize = 3;

/// All findings, the most important first.
pub(crate) fn find(members: &[Member<'_>]) -> Vec<Finding> {
    let mut list = waiting(members);
    list.extend(slow_channels(members));
    list.extend(proxy_latency(members));
    list.sort_by_key(|finding| finding.severity);
    list
}

/// Ranks that wait inside of collectives, and the rank that came later.
fn waiting(members: &[Member<'_>]) -> Vec<Finding> {
    let mut of_collective: BTreeMap<usize, Vec<&Member<'_>>> = BTreeMap::new();
    let mut all_ns: BTreeMap<u32, (usize, i64)> = BTreeMap::new();
    for member in members {
        of_collective.entry(member.collective).or_default().push(member);
        let (count, ns) = all_ns.entry(member.rank).or_default();
        *count += 1;
        *ns = ns.saturating_add(member.length_ns);
    }
    // By (rank that waits, rank that came later, primitive): wait, share, lateness of each collective.
    type Case = (i64, f64, Option<i64>);
    let mut cases: BTreeMap<(u32, Option<u32>, &str), Vec<Case>> = BTreeMap::new();
    for of_one in of_collective.values() {
        for member in of_one {
            let (Some(wait_ns), Some(share), Some(wait_in)) =
                (member.phases.wait_ns, member.phases.wait_fraction, &member.phases.wait_in)
            else {
                continue;
            };
            if share < MOSTLY || wait_ns < SHORT_WAIT {
                continue;
            }
            let later = |other: &&&Member<'_>| {
                Some((other.late_ns?.saturating_sub(member.late_ns?), other.rank))
            };
            let last = of_one
                .iter()
                .filter_map(|other| later(&other))
                .max_by_key(|(late, rank)| (*late, std::cmp::Reverse(*rank)));
            // Lateness explains the waiting only if it is most of it.
            let cause = last
                .filter(|(late, rank)| *rank != member.rank && late.saturating_mul(2) >= wait_ns);
            cases.entry((member.rank, cause.map(|(_, rank)| rank), wait_in)).or_default().push((
                wait_ns,
                share,
                cause.map(|(late, _)| late),
            ));
        }
    }
    let mut cases: Vec<_> = cases.into_iter().collect();
    let total =
        |cases: &[Case]| cases.iter().fold(0i64, |all, (wait_ns, ..)| all.saturating_add(*wait_ns));
    cases.sort_by_key(|(_, cases)| std::cmp::Reverse(total(cases)));
    let describe = |((rank, cause, wait_in), cases): ((u32, Option<u32>, &str), Vec<Case>)| {
        let (all, all_ns) = all_ns.get(&rank).copied().unwrap_or_default();
        let share = stats::median(&cases.iter().map(|(_, share, _)| *share).collect::<Vec<_>>())?;
        let wait_ns =
            stats::median_i64(&cases.iter().map(|(wait_ns, ..)| *wait_ns).collect::<Vec<_>>())?;
        let late: Vec<i64> = cases.iter().filter_map(|(.., late)| *late).collect();
        let late_ns = stats::median_i64(&late);
        let of_all = total(&cases) as f64 / all_ns.max(1) as f64;
        let because = match cause.zip(late_ns) {
            Some((cause, late)) => format!("rank {cause} arrives {} later", units::time(late)),
            None => "no rank of the dump arrives that much later, so the data itself comes late"
                .to_owned(),
        };
        if of_all < NOTABLE {
            return None;
        }
        let title = format!(
            "Rank {rank} spends {} of its time in {} waiting, most of it in {wait_in}: {because}{}.",
            units::percent(share),
            match (cases.len(), all) {
                (1, 1) => "the collective".to_owned(),
                (some, all) => format!("{some} of {all} collectives"),
            },
            if cases.len() > 1 { " (medians)" } else { "" },
        );
        let severity = if of_all >= 0.2 { Severity::Medium } else { Severity::Info };
        let advice = match cause {
            Some(cause) => format!("Look at what rank {cause} does before the collective; inside of it nothing is to be gained."),
            None => "Compare the primitives and channels of the ranks, and the proxies if the network is used: one of them is slow while all are there.".to_owned(),
        };
        let mut finding = Finding::new(Id::NpkitWaiting, title)
            .weighing(severity)
            .with("rank", rank)
            .with("primitive", wait_in)
            .with("collectives_count", cases.len())
            .with("wait_fraction", share)
            .with("wait_ns", wait_ns);
        if let Some((cause, late)) = cause.zip(late_ns) {
            finding = finding.with("waits_for_rank", cause).with("later_ns", late);
        }
        Some(finding.advice(advice))
    };
    cases.into_iter().filter_map(describe).take(MOST).collect()
}

/// Channels that take longer than the others on every rank.
fn slow_channels(members: &[Member<'_>]) -> Vec<Finding> {
    let channels = channels(members);
    let ranks: BTreeSet<u32> =
        channels.iter().filter(|c| c.relative.is_some()).map(|c| c.rank).collect();
    let mut by_channel: BTreeMap<u32, Vec<&Channel>> = BTreeMap::new();
    for channel in channels.iter().filter(|c| c.compared >= FEWEST) {
        by_channel.entry(channel.channel).or_default().push(channel);
    }
    let mut slow: Vec<(f64, u32, u64)> = by_channel
        .into_iter()
        .filter_map(|(channel, of_ranks)| {
            let ratios: Vec<f64> = of_ranks.iter().filter_map(|c| c.relative).collect();
            let is_slow = ratios.len() == ranks.len() && ratios.iter().all(|r| *r >= SLOW_CHANNEL);
            let compared = of_ranks.iter().map(|c| c.compared).max()?;
            is_slow.then_some((stats::median(&ratios)?, channel, compared))
        })
        .collect();
    slow.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let describe = |(ratio, channel, count): (f64, u32, u64)| {
        let longer = units::percent(ratio - 1.0);
        let on = if ranks.len() == 1 { "its rank" } else { "all ranks" };
        let title = format!(
            "Channel {channel} takes {longer} longer than the median channel on {on} (median of {count} collectives): a collective lasts as long as its slowest channel."
        );
        Finding::new(Id::NpkitSlowChannel, title)
            .with("channel", channel)
            .with("longer_fraction", ratio - 1.0)
            .with("collectives_count", count)
            .advice("See in NCCL_DEBUG=INFO which ring and which links the channel uses, and compare them with nvidia-smi topo -m.")
    };
    slow.into_iter().map(describe).take(MOST).collect()
}

/// Requests of proxies that are in flight nearly all of the time.
fn proxy_latency(members: &[Member<'_>]) -> Vec<Finding> {
    let mut by_name: BTreeMap<&str, Vec<(f64, Requests, u32)>> = BTreeMap::new();
    for member in members.iter().filter(|m| m.length_ns >= SHORT) {
        for (name, requests) in &member.phases.proxies {
            let Some(busy) = member.phases.phases.get(name) else { continue };
            let share = *busy as f64 / member.length_ns as f64;
            let waits = member.phases.wait_fraction.is_none_or(|wait| wait >= MOSTLY);
            if share >= IN_FLIGHT && waits && !name.ends_with("TEST") {
                by_name.entry(name).or_default().push((share, *requests, member.rank));
            }
        }
    }
    let with_proxies =
        members.iter().filter(|m| m.length_ns >= SHORT && !m.phases.proxies.is_empty()).count();
    let describe = |(name, cases): (&str, Vec<(f64, Requests, u32)>)| {
        if cases.len() * 2 < with_proxies || (cases.len() as u64) < FEWEST.min(with_proxies as u64)
        {
            return None;
        }
        let share = stats::median(&cases.iter().map(|(share, ..)| *share).collect::<Vec<_>>())?;
        let p50 = stats::median_i64(&cases.iter().map(|(_, r, _)| r.p50_ns).collect::<Vec<_>>())?;
        let p95 = stats::median_i64(&cases.iter().map(|(_, r, _)| r.p95_ns).collect::<Vec<_>>())?;
        let title = format!(
            "Proxy latency is the limit in {} of {with_proxies} collectives over the network (counted on each rank): {name} is in flight {} of the time, one request takes {} in the median and {} at the 95th percentile.",
            cases.len(),
            units::percent(share.min(1.0)),
            units::time(p50),
            units::time(p95)
        );
        let finding = Finding::new(Id::NpkitProxyLatency, title)
            .with("event", name)
            .with("in_flight_fraction", share.min(1.0))
            .with("p50_ns", p50)
            .with("p95_ns", p95);
        Some(finding.advice("Look at the transport (NCCL_DEBUG=INFO): sockets where RDMA is possible, GPUDirect RDMA that is off, proxy threads that share a core."))
    };
    by_name.into_iter().filter_map(describe).take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::npkit::phases::{LaneTimes, Phases};

    fn phases(wait_ns: i64, share: f64, lanes: &[(u32, i64)]) -> Phases {
        let lane = |&(channel, length): &(u32, i64)| LaneTimes {
            channel,
            start_ns: 0,
            end_ns: length,
            phases: BTreeMap::new(),
            wait_ns: None,
        };
        Phases {
            wait_ns: Some(wait_ns),
            wait_fraction: Some(share),
            wait_in: Some("RECV_REDUCE_COPY_SEND".to_owned()),
            lanes: lanes.iter().map(lane).collect(),
            ..Phases::default()
        }
    }

    fn member(collective: usize, rank: u32, late_ns: i64, phases: &Phases) -> Member<'_> {
        Member { collective, rank, late_ns: Some(late_ns), length_ns: 2_100_000, phases }
    }

    #[test]
    fn a_rank_waits_for_the_one_that_arrives_later() {
        // rank 0 |== waits 2.0 ms ==|
        // rank 1                     |=|
        let (waits, works) = (phases(2_000_000, 0.95, &[]), phases(5_000, 0.05, &[]));
        let list = find(&[member(0, 0, 0, &waits), member(0, 1, 2_010_000, &works)]);
        assert_eq!(list.len(), 1);
        assert_eq!(
            list[0].title,
            "Rank 0 spends 95.0 % of its time in the collective waiting, most of it in RECV_REDUCE_COPY_SEND: rank 1 arrives 2.01 ms later."
        );
        assert_eq!(list[0].evidence["waits_for_rank"], 1);
        // All there at once: nobody is blamed.
        let list = find(&[member(0, 0, 0, &waits), member(0, 1, 10_000, &works)]);
        assert!(list[0].title.contains("no rank of the dump arrives that much later"));
        // Borderline: just under half, or a wait that any handshake takes.
        let (half, short) = (phases(2_000_000, 0.499, &[]), phases(19_999, 0.9, &[]));
        assert!(find(&[member(0, 0, 0, &half), member(0, 1, 2_000_000, &short)]).is_empty());
    }

    #[test]
    fn a_channel_is_slow_only_if_it_is_on_every_rank() {
        let slow = phases(0, 0.0, &[(0, 100), (1, 100), (2, 100), (3, 140)]);
        let even = phases(0, 0.0, &[(0, 100), (1, 100), (2, 100), (3, 119)]);
        let of = |zero: &'static str, one: &'static str| {
            let pick = |name| if name == "slow" { &slow } else { &even };
            let members: Vec<Member<'_>> = (0..3)
                .flat_map(|i| [member(i, 0, 0, pick(zero)), member(i, 1, 0, pick(one))])
                .collect();
            find(&members)
        };
        let list = of("slow", "slow");
        assert!(
            list[0]
                .title
                .starts_with("Channel 3 takes 40.0 % longer than the median channel on all ranks"),
            "{list:?}"
        );
        assert!(of("slow", "even").is_empty());
        assert!(of("even", "even").is_empty());
    }

    #[test]
    fn proxies_are_the_limit_if_requests_are_in_flight_all_the_time() {
        let busy = |ns: i64, wait: f64| {
            let mut phases = phases(0, wait, &[]);
            phases.phases.insert("NET_RECV".to_owned(), ns);
            let requests = Requests { count: 9, p50_ns: 80_000, p95_ns: 200_000, max_ns: 300_000 };
            phases.proxies.insert("NET_RECV".to_owned(), requests);
            phases
        };
        let title = |phases: &Phases| {
            let members: Vec<Member<'_>> = (0..3).map(|i| member(i, 0, 0, phases)).collect();
            find(&members).into_iter().find(|f| f.id == Id::NpkitProxyLatency).map(|f| f.title)
        };
        let found = title(&busy(1_900_000, 0.7)).expect("a finding");
        assert!(found.starts_with("Proxy latency is the limit in 3 of 3"), "{found}");
        assert_eq!(title(&busy(1_600_000, 0.7)), None, "in flight 76 % of the time");
        assert_eq!(title(&busy(1_900_000, 0.3)), None, "the GPU is busy itself");
    }
}
