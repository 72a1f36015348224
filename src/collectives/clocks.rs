//! How far the ranks' clocks are apart: all ranks leave an AllReduce, AllGather, ReduceScatter or AllToAll together, so the
//! ends of matched collectives tell (docs/metrics.md, section 6).
//!
//! Ranks that share no collective are compared through those that do, or through the clock of their machine: offsets follow
//! links between ranks first, and are then refined against the mean end of each collective until they stand still.
//!
//! Ranks of one machine surely have one clock. Where their ends are further apart than one clock can be read, they do not
//! leave together (they may take turns on a GPU): they get one correction together, and it is said.

use std::collections::BTreeMap;

use super::events::Event;
use super::matches::Match;
use super::refs::{RankIx, all};
use crate::model::{Ns, RankTrace, Union};
use crate::stats;

/// How the correction runs over the capture.
#[derive(Debug, Clone, PartialEq)]
pub enum Drift {
    /// One offset.
    Constant,
    /// The clocks run at different speeds.
    Linear {
        /// ns of correction gained in a second.
        ns_per_s: f64,
        /// Time at which the correction equals the offset.
        middle: i64,
    },
    /// Offsets at points of the capture, with straight lines between them.
    Piecewise {
        /// (time, correction), in order of time.
        points: Vec<(i64, i64)>,
    },
}

impl Drift {
    /// What reports print; `None` for one offset.
    pub fn label(&self) -> Option<String> {
        match self {
            Drift::Constant => None,
            Drift::Linear { ns_per_s, .. } => Some(format!("linear, {ns_per_s:.0} ns/s")),
            Drift::Piecewise { points } => Some(format!("piecewise, {} points", points.len())),
        }
    }
}

/// What a report says about its own clock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Unix time of the report's time 0.
    pub epoch_ns: Option<i64>,
    /// The host's name, or what stands for it: ranks of equal names are taken to have one clock where nothing else tells.
    pub host: Option<String>,
    /// The first rank that surely runs on the same machine: the rank itself, if there is none before it.
    pub machine: RankIx,
}

/// What the reports of ranks say about their clocks.
pub(crate) fn origins(traces: &[RankTrace]) -> Vec<Origin> {
    // Ranks of one report have one clock, whether or not it names the machine.
    let host = |trace: &RankTrace| {
        trace.hostname.clone().unwrap_or_else(|| format!("report {}", trace.input))
    };
    let machines = machines(traces);
    traces
        .iter()
        .zip(machines)
        .map(|(trace, machine)| Origin {
            epoch_ns: trace.epoch_ns,
            host: Some(host(trace)),
            machine,
        })
        .collect()
}

/// For each rank the first one on the same machine: of one report, or of reports with equal host name that list a GPU in
/// common. A name alone proves nothing: hosts may all be called "localhost".
fn machines(traces: &[RankTrace]) -> Vec<RankIx> {
    let mut union = Union::new(traces.len());
    let mut reports: BTreeMap<usize, usize> = BTreeMap::new();
    let mut gpus: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (r, trace) in traces.iter().enumerate().filter(|(_, trace)| trace.epoch_ns.is_some()) {
        union.join(r, *reports.entry(trace.input).or_insert(r));
        let Some(host) = trace.hostname.as_deref() else { continue };
        for gpu in &trace.machine_gpus {
            union.join(r, *gpus.entry((host, gpu)).or_insert(r));
        }
    }
    (0..traces.len()).map(|r| RankIx(union.root(r))).collect()
}

/// The clock of one rank.
#[derive(Debug, Clone, PartialEq)]
pub struct RankClock {
    /// ns from the report's own time to the common time before correction: its epoch, or what collectives say if it has none.
    base: i64,
    /// Correction to add, ns (of the middle of the capture where it drifts).
    offset: i64,
    /// Shape of the correction.
    pub drift: Drift,
    /// True if the base is the report's epoch.
    has_epoch: bool,
    /// Ranks with one number are linked.
    linked: usize,
    /// Median of what remains, ns; `None` with fewer than two collectives, which anything fits.
    pub residual_p50_ns: Option<i64>,
    /// 95th percentile of what remains, ns: what times of this rank cannot tell apart.
    pub residual_p95_ns: Option<i64>,
    /// Collectives that it rests on.
    pub collectives: u64,
}

impl RankClock {
    /// A clock that only adds `base`.
    pub fn shifted(base: i64, linked: usize) -> RankClock {
        RankClock {
            base,
            offset: 0,
            drift: Drift::Constant,
            has_epoch: false,
            linked,
            residual_p50_ns: None,
            residual_p95_ns: None,
            collectives: 0,
        }
    }

    /// Correction of the report's epoch, ns to add; `None` without an epoch or without a collective.
    pub fn offset_ns(&self) -> Option<i64> {
        (self.has_epoch && self.collectives > 0).then_some(self.offset)
    }

    /// A time of this rank on the clock that all comparable ranks share.
    pub fn common(&self, at: Ns) -> i64 {
        let at = at.saturating_add(self.base);
        at.saturating_add(self.correction(at))
    }

    /// True if times of both ranks can be compared: collectives or one machine's clock link them.
    pub fn comparable(&self, other: &RankClock) -> bool {
        self.linked == other.linked
    }

    fn correction(&self, at: i64) -> i64 {
        match &self.drift {
            Drift::Constant => self.offset,
            Drift::Linear { ns_per_s, middle } => self.offset.saturating_add(
                (at.saturating_sub(*middle) as f64 * 1e-9 * ns_per_s).round() as i64,
            ),
            Drift::Piecewise { points } => interpolate(points, at),
        }
    }

    fn shift(&mut self, by: i64) {
        self.offset = self.offset.saturating_add(by);
        if let Drift::Piecewise { points } = &mut self.drift {
            points.iter_mut().for_each(|p| p.1 = p.1.saturating_add(by));
        }
    }
}

/// Ends of ranks of one machine that are further apart are not a matter of clocks, ns.
pub(crate) const SAME_CLOCK_NS: Ns = 50_000;
/// Fewer collectives than this support no drift.
const DRIFT_NEEDS: usize = 24;
/// A drift below this is within what one offset leaves over anyway, ns.
const DRIFT_MATTERS_NS: f64 = 500.0;
/// A model with more freedom must bring the 95th percentile down to this share of the simpler one.
const MUST_IMPROVE: f64 = 0.7;
/// Pieces of a piecewise correction.
const PIECES: usize = 8;
/// Fewer collectives than this in a piece make no point of a piecewise correction.
const PIECE_NEEDS: usize = 12;
/// Rounds of refinement; two are enough where all ranks take part in everything.
const ROUNDS: usize = 12;
/// Clocks that move less than this in a round stand still, ns.
const STILL_NS: i64 = 2;

/// The clocks of all ranks, and where ranks of one machine do not leave together.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Clocks {
    /// In the order of the ranks.
    pub of_rank: Vec<RankClock>,
    /// Machines whose ranks' ends are further apart than one clock can be.
    pub refused: Vec<Refused>,
}

/// Ranks of one machine that do not leave together: what would be offsets of clocks is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The ranks.
    pub ranks: Vec<RankIx>,
    /// How far apart their offsets would be, ns.
    pub apart: Ns,
}

/// The clocks of all ranks, in the order of `origins`.
pub(crate) fn align(events: &[&[Event]], origins: &[Origin], matches: &[Match]) -> Clocks {
    let leave_together =
        |m: &&Match| m.members.iter().all(|at| events[at.rank][at.event].leaves_together());
    let used: Vec<&Match> = matches.iter().filter(leave_together).collect();
    // Each rank by itself, so that small differences between the clocks of one machine's devices are found too.
    let each: Vec<RankIx> = all(origins.len()).collect();
    let of_rank = fit(events, origins, &used, &each);
    let refused = refused(events, origins, &of_rank);
    if refused.is_empty() {
        return Clocks { of_rank, refused };
    }
    let mut owners = each;
    for machine in &refused {
        machine.ranks.iter().for_each(|&rank| owners[rank] = machine.ranks[0]);
    }
    Clocks { of_rank: fit(events, origins, &used, &owners), refused }
}

/// Machines whose ranks got corrections that one clock cannot have.
fn refused(events: &[&[Event]], origins: &[Origin], clocks: &[RankClock]) -> Vec<Refused> {
    let mut machines: BTreeMap<RankIx, Vec<RankIx>> = BTreeMap::new();
    for rank in all(origins.len()).filter(|&rank| clocks[rank].collectives > 0) {
        machines.entry(origins[rank].machine).or_default().push(rank);
    }
    let apart = |ranks: &[RankIx]| -> Ns {
        let unix = |rank: RankIx, ns: Ns| ns.saturating_add(clocks[rank].base);
        let ends = || {
            let own = |&rank: &RankIx| events[rank].iter().map(move |e| unix(rank, e.end));
            ranks.iter().flat_map(own)
        };
        // A correction may drift: at both ends of the capture it is furthest from that of another clock.
        let at = |time: Ns| {
            let corrections = || ranks.iter().map(|&rank| clocks[rank].correction(time));
            let most = corrections().max().unwrap_or(0);
            most.saturating_sub(corrections().min().unwrap_or(0))
        };
        at(ends().min().unwrap_or(0)).max(at(ends().max().unwrap_or(0)))
    };
    machines
        .into_values()
        .filter(|ranks| ranks.len() > 1)
        .map(|ranks| Refused { apart: apart(&ranks), ranks })
        .filter(|machine| machine.apart > SAME_CLOCK_NS)
        .collect()
}

/// Clocks under which matched ends agree best. Ranks with one owner have one correction.
fn fit(
    events: &[&[Event]],
    origins: &[Origin],
    matches: &[&Match],
    owners: &[RankIx],
) -> Vec<RankClock> {
    let mut clocks = linked(events, origins, matches, owners);
    let mut ranks_of: BTreeMap<RankIx, Vec<RankIx>> = BTreeMap::new();
    for rank in all(owners.len()) {
        ranks_of.entry(owners[rank]).or_default().push(rank);
    }
    for round in 0..ROUNDS {
        let needed = needed(events, matches, &clocks);
        let mut moved = 0;
        for ranks in ranks_of.values() {
            let before = clocks[ranks[0]].offset;
            refit(&mut clocks, ranks, &needed);
            moved = moved.max(clocks[ranks[0]].offset.saturating_sub(before).saturating_abs());
        }
        // The first round may only choose the shape of the correction.
        if round > 0 && moved < STILL_NS {
            break;
        }
    }
    center(&mut clocks);
    clocks
}

/// Clocks from epochs and, between ranks that share collectives, from the median distance of ends; one machine has one clock.
fn linked(
    events: &[&[Event]],
    origins: &[Origin],
    matches: &[&Match],
    owners: &[RankIx],
) -> Vec<RankClock> {
    let raw = |rank: RankIx, event: usize| {
        events[rank][event].end.saturating_add(origins[rank].epoch_ns.unwrap_or(0))
    };
    // Ends on the second rank minus ends on the first.
    let mut links: BTreeMap<(RankIx, RankIx), Vec<i64>> = BTreeMap::new();
    for m in matches {
        let Some((first, others)) = m.members.split_first() else { continue };
        for other in others {
            let apart = raw(other.rank, other.event).saturating_sub(raw(first.rank, first.event));
            links.entry((first.rank, other.rank)).or_default().push(apart);
        }
    }
    let mut order: Vec<(usize, RankIx, RankIx, i64)> = links
        .iter()
        .filter(|&(&(a, b), _)| owners[a] != owners[b])
        .filter_map(|(&(a, b), list)| Some((list.len(), a, b, stats::median_i64(list)?)))
        .collect();
    // What one owner has in common needs no collective.
    let owned = all(owners.len()).filter(|&rank| owners[rank] != rank);
    order.extend(owned.map(|rank| (usize::MAX, owners[rank], rank, 0)));
    for a in all(origins.len()) {
        let origin = &origins[a];
        let same = |b: &RankIx| {
            origins[*b].host == origin.host && origins[*b].epoch_ns.is_some() && b.0 > a.0
        };
        if origin.epoch_ns.is_some() && origin.host.is_some() {
            order.extend(all(origins.len()).find(same).map(|b| (0, a, b, 0)));
        }
    }
    // The best supported links first, those through machines last.
    order.sort_by(|x, y| y.0.cmp(&x.0).then((x.1, x.2).cmp(&(y.1, y.2))));
    let mut offsets: Vec<Option<i64>> = vec![None; origins.len()];
    let mut component = vec![usize::MAX; origins.len()];
    // Reports with an epoch lead: the others follow them.
    let mut roots: Vec<RankIx> = all(origins.len()).collect();
    roots.sort_by_key(|&r| (origins[r].epoch_ns.is_none(), r));
    for root in roots {
        if offsets[root].is_some() {
            continue;
        }
        (offsets[root], component[root]) = (Some(0), root.0);
        // One more rank with each link that leaves what is placed: the maximum spanning tree.
        while let Some((from, to, offset)) = order.iter().find_map(|&(_, a, b, median)| {
            match (component[a] == root.0, component[b] == root.0) {
                (true, false) => Some((a, b, median.saturating_neg())),
                (false, true) => Some((b, a, median)),
                _ => None,
            }
        }) {
            offsets[to] = offsets[from].map(|from| from.saturating_add(offset));
            component[to] = root.0;
        }
    }
    origins
        .iter()
        .zip(offsets)
        .zip(component)
        .map(|((origin, offset), linked)| {
            let offset = offset.unwrap_or(0);
            let (base, offset) = match origin.epoch_ns {
                Some(epoch) => (epoch, offset),
                None => (offset, 0),
            };
            RankClock {
                offset,
                has_epoch: origin.epoch_ns.is_some(),
                ..RankClock::shifted(base, linked)
            }
        })
        .collect()
}

/// For each rank and collective: when it ended on the rank's clock, and the correction that would put it at the mean of all
/// ranks' corrected ends, relative to the rank's offset.
fn needed(events: &[&[Event]], matches: &[&Match], clocks: &[RankClock]) -> Vec<Vec<(i64, f64)>> {
    let mut lists: Vec<Vec<(i64, f64)>> = vec![Vec::new(); clocks.len()];
    for m in matches {
        let ends: Vec<i64> = m
            .members
            .iter()
            .map(|at| clocks[at.rank].common(events[at.rank][at.event].end))
            .collect();
        // Relative to the first, so that times of 1.8e18 ns lose nothing in a float.
        let mean = ends.iter().map(|end| end.saturating_sub(ends[0]) as f64).sum::<f64>()
            / ends.len() as f64;
        for (member, end) in m.members.iter().zip(&ends) {
            let clock = &clocks[member.rank];
            let at = events[member.rank][member.event].end.saturating_add(clock.base);
            let beyond_offset = clock.correction(at).saturating_sub(clock.offset);
            lists[member.rank]
                .push((at, mean - end.saturating_sub(ends[0]) as f64 + beyond_offset as f64));
        }
    }
    lists
}

/// Fits the one correction of some ranks anew: one offset, else a line, else pieces, the first that the residuals support.
fn refit(clocks: &mut [RankClock], ranks: &[RankIx], needed: &[Vec<(i64, f64)>]) {
    let mut pooled: Vec<(i64, f64)> =
        ranks.iter().flat_map(|&rank| needed[rank].iter().copied()).collect();
    let Some(fitted) = shape(clocks[ranks[0]].offset, &mut pooled) else { return };
    for &rank in ranks {
        let clock = &mut clocks[rank];
        let own = &needed[rank];
        (clock.offset, clock.drift) = (fitted.offset, fitted.drift.clone());
        clock.collectives = own.len() as u64;
        let rest = residuals(own, &fitted.model);
        let tested = own.len() > 1;
        let quantile = |q| stats::quantile(&rest, q).filter(|_| tested).map(|ns| ns.round() as i64);
        (clock.residual_p50_ns, clock.residual_p95_ns) = (quantile(0.5), quantile(0.95));
    }
}

/// A correction, and what it adds to the offset before it at a time, ns.
struct Fitted {
    offset: i64,
    drift: Drift,
    model: Box<dyn Fn(i64) -> f64>,
}

/// The correction that fits best; `base` is the offset that the values are relative to.
fn shape(base: i64, needed: &mut [(i64, f64)]) -> Option<Fitted> {
    let center = stats::median(&needed.iter().map(|d| d.1).collect::<Vec<f64>>())?;
    let to_offset = |ns: f64| base.saturating_add(ns.round() as i64);
    let mut best = residuals(needed, |_| center);
    let mut fitted = Fitted {
        offset: to_offset(center),
        drift: Drift::Constant,
        model: Box::new(move |_| center),
    };
    if needed.len() < DRIFT_NEEDS || p95(&best) <= DRIFT_MATTERS_NS {
        return Some(fitted);
    }
    needed.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let middle = needed[needed.len() / 2].0;
    if let Some((slope, at_middle)) = line(needed, middle) {
        let model = move |at: i64| at_middle + at.saturating_sub(middle) as f64 * slope;
        let linear = residuals(needed, model);
        if p95(&linear) < MUST_IMPROVE * p95(&best) {
            best = linear;
            fitted = Fitted {
                offset: to_offset(at_middle),
                drift: Drift::Linear { ns_per_s: slope * 1e9, middle },
                model: Box::new(model),
            };
        }
    }
    let points = pieces(needed);
    let piecewise = residuals(needed, |at| interpolate(&points, at) as f64);
    if points.len() > 2
        && p95(&best) > DRIFT_MATTERS_NS
        && p95(&piecewise) < MUST_IMPROVE * p95(&best)
    {
        let absolute = points.iter().map(|&(at, ns)| (at, base.saturating_add(ns))).collect();
        fitted = Fitted {
            offset: to_offset(interpolate(&points, middle) as f64),
            drift: Drift::Piecewise { points: absolute },
            model: Box::new(move |at| interpolate(&points, at) as f64),
        };
    }
    Some(fitted)
}

/// Ranks that are linked have corrections whose mean is 0: none of their clocks is the right one.
fn center(clocks: &mut [RankClock]) {
    let mut sums: BTreeMap<usize, (i128, i128)> = BTreeMap::new();
    for clock in clocks.iter().filter(|c| c.has_epoch && c.collectives > 0) {
        let (sum, n) = sums.entry(clock.linked).or_default();
        *sum += i128::from(clock.offset);
        *n += 1;
    }
    for clock in clocks {
        if let Some(&(sum, n)) = sums.get(&clock.linked) {
            clock.shift(i64::try_from(sum / n).unwrap_or(0).saturating_neg());
        }
    }
}

/// Absolute distances from a model.
fn residuals(needed: &[(i64, f64)], model: impl Fn(i64) -> f64) -> Vec<f64> {
    needed.iter().map(|&(at, ns)| (ns - model(at)).abs()).collect()
}

fn p95(residuals: &[f64]) -> f64 {
    stats::quantile(residuals, 0.95).unwrap_or(0.0)
}

/// A line through the medians of the first and the last third: (slope, value at `middle`).
fn line(sorted: &[(i64, f64)], middle: i64) -> Option<(f64, f64)> {
    let third = sorted.len() / 3;
    let center = |part: &[(i64, f64)]| -> Option<(f64, f64)> {
        let times: Vec<f64> = part.iter().map(|d| d.0.saturating_sub(middle) as f64).collect();
        // The median of both: where values follow times, it is the same collective's.
        Some((
            stats::median(&times)?,
            stats::median(&part.iter().map(|d| d.1).collect::<Vec<_>>())?,
        ))
    };
    let (first, last) = (center(&sorted[..third])?, center(&sorted[sorted.len() - third..])?);
    let width = last.0 - first.0;
    if width <= 0.0 {
        return None;
    }
    let slope = (last.1 - first.1) / width;
    let rest: Vec<f64> =
        sorted.iter().map(|&(at, ns)| ns - slope * at.saturating_sub(middle) as f64).collect();
    Some((slope, stats::median(&rest)?))
}

/// Corrections at the middle of equally large pieces.
fn pieces(sorted: &[(i64, f64)]) -> Vec<(i64, i64)> {
    let pieces = (sorted.len() / PIECE_NEEDS).clamp(1, PIECES);
    sorted
        .chunks(sorted.len().div_ceil(pieces).max(1))
        .filter_map(|part| {
            let center = stats::median(&part.iter().map(|d| d.1).collect::<Vec<_>>())?;
            Some((part[part.len() / 2].0, center.round() as i64))
        })
        .collect()
}

/// The value at `at` on straight lines between points; beyond the outermost points their lines go on.
fn interpolate(points: &[(i64, i64)], at: i64) -> i64 {
    let after =
        points.partition_point(|p| p.0 <= at).clamp(1, points.len().saturating_sub(1).max(1));
    match (points.get(after - 1), points.get(after)) {
        (Some(a), Some(b)) => {
            let share = at.saturating_sub(a.0) as f64 / b.0.saturating_sub(a.0).max(1) as f64;
            a.1.saturating_add((share * b.1.saturating_sub(a.1) as f64).round() as i64)
        }
        (Some(only), None) => only.1,
        (None, _) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collectives::matches::Method;
    use crate::collectives::refs::EventRef;
    use crate::collectives::test_events::{kernel, of};
    use crate::model::CommOp;

    const EPOCH: i64 = 1_700_000_000_000_000_000;
    const SECOND: i64 = 1_000_000_000;

    /// Ranks that take part in collectives at given true times, each with a clock of its own.
    struct Run {
        events: Vec<Vec<Event>>,
        matches: Vec<Match>,
    }

    impl Run {
        /// `collectives`: (true end, members). `ahead`: by how much the clock of a rank is ahead at a true time.
        fn new(
            ranks: usize,
            collectives: &[(i64, Vec<usize>)],
            ahead: impl Fn(usize, i64) -> i64,
        ) -> Run {
            let mut events = vec![Vec::new(); ranks];
            let matches = collectives
                .iter()
                .map(|(end, members)| {
                    let on = |&r: &usize| {
                        let end = end + ahead(r, *end);
                        events[r].push(kernel(end - 1_000, end));
                        EventRef::new(RankIx(r), events[r].len() - 1)
                    };
                    Match {
                        members: members.iter().map(on).collect(),
                        method: Method::Communicator,
                        step: None,
                        role: None,
                    }
                })
                .collect();
            Run { events, matches }
        }

        fn align(&self, epochs: &[Option<i64>]) -> Vec<RankClock> {
            let lists: Vec<&[Event]> = self.events.iter().map(Vec::as_slice).collect();
            let origin = |(r, &epoch_ns): (usize, &Option<i64>)| Origin {
                epoch_ns,
                host: None,
                machine: RankIx(r),
            };
            let origins: Vec<Origin> = epochs.iter().enumerate().map(origin).collect();
            align(&lists, &origins, &self.matches).of_rank
        }

        /// The largest distance of aligned ends of one collective.
        fn apart(&self, clocks: &[RankClock]) -> i64 {
            let spread = |m: &Match| {
                let ends: Vec<i64> = m
                    .members
                    .iter()
                    .map(|at| clocks[at.rank].common(self.events[at.rank.0][at.event].end))
                    .collect();
                ends.iter().max().unwrap_or(&0) - ends.iter().min().unwrap_or(&0)
            };
            self.matches.iter().map(spread).max().unwrap_or(0)
        }
    }

    fn everyone(n: i64, ranks: usize, every: i64) -> Vec<(i64, Vec<usize>)> {
        (1..=n).map(|i| (i * every, (0..ranks).collect())).collect()
    }

    // The clock of rank 2 is ahead: corrections have mean 0, so rank 2 gets -3/4 of it and the others +1/4.
    #[test]
    fn planted_offsets_from_a_microsecond_to_hours() {
        for ahead in [1_000, 40_000, 3_000_000, 7 * SECOND, 5 * 3_600 * SECOND, -5 * 3_600 * SECOND]
        {
            let run =
                Run::new(4, &everyone(10, 4, SECOND / 10), |r, _| if r == 2 { ahead } else { 0 });
            let clocks = run.align(&[Some(EPOCH); 4]);
            let offsets: Vec<i64> =
                clocks.iter().map(|c| c.offset_ns().expect("an epoch")).collect();
            assert_eq!(offsets, [ahead / 4, ahead / 4, -3 * ahead / 4, ahead / 4], "{ahead}");
            assert_eq!(
                (run.apart(&clocks), clocks[2].residual_p95_ns, clocks[2].collectives),
                (0, Some(0), 10),
                "{ahead}"
            );
            assert_eq!(clocks[0].drift, Drift::Constant);
        }
    }

    // Ranks 0 and 3 share no collective: 0-1, 2-3 and 1-2 do. Rank 3 is an hour ahead, rank 1 two milliseconds behind.
    #[test]
    fn offsets_follow_links_through_sub_communicators() {
        let hour = 3_600 * SECOND;
        let ahead = [0, -2_000_000, 0, hour];
        let groups = [vec![0, 1], vec![2, 3], vec![1, 2]];
        let collectives: Vec<(i64, Vec<usize>)> =
            (0..60).map(|i| ((i + 1) as i64 * 10_000_000, groups[i % 3].clone())).collect();
        let run = Run::new(4, &collectives, |r, _| ahead[r]);
        let clocks = run.align(&[Some(EPOCH); 4]);
        assert_eq!(run.apart(&clocks), 0);
        let mean = (hour - 2_000_000) / 4;
        let offsets: Vec<i64> = clocks.iter().filter_map(RankClock::offset_ns).collect();
        assert_eq!(offsets, ahead.map(|ns| mean - ns));
        assert!(clocks[0].comparable(&clocks[3]));
    }

    // A clock that runs 20 us a second fast over a minute: half the correction on each of two ranks.
    #[test]
    fn linear_drift() {
        let run =
            Run::new(2, &everyone(120, 2, SECOND / 2), |r, t| if r == 1 { t / 50_000 } else { 0 });
        let clocks = run.align(&[Some(EPOCH); 2]);
        let Drift::Linear { ns_per_s, .. } = clocks[1].drift else {
            panic!("{:?}", clocks[1].drift)
        };
        assert!((ns_per_s + 10_000.0).abs() < 50.0, "{ns_per_s}");
        assert_eq!(clocks[1].drift.label().as_deref(), Some("linear, -10000 ns/s"));
        assert!(run.apart(&clocks) < 50, "{}", run.apart(&clocks));
        assert!(clocks.iter().all(|c| c.residual_p95_ns.is_some_and(|ns| ns < 20)), "{clocks:?}");
    }

    // A clock that runs fast for the first half and slow for the second: no line fits, pieces do.
    #[test]
    fn piecewise_drift() {
        let bent = |t: i64| if t < 30 * SECOND { t / 10_000 } else { 6_000_000 - t / 10_000 };
        let run = Run::new(
            2,
            &everyone(400, 2, 3 * SECOND / 20),
            |r, t| if r == 1 { bent(t) } else { 0 },
        );
        let clocks = run.align(&[Some(EPOCH); 2]);
        assert!(
            matches!(&clocks[1].drift, Drift::Piecewise { points } if points.len() == 8),
            "{:?}",
            clocks[1].drift
        );
        // 3 ms of drift; what is left lies around the bend, which falls between two points.
        assert!(clocks[1].residual_p95_ns.is_some_and(|ns| ns < 200_000), "{clocks:?}");
        let constant = stats::quantile(
            &(1..=400)
                .map(|i| (bent(i * 3 * SECOND / 20) - 1_500_000).abs() as f64 / 2.0)
                .collect::<Vec<_>>(),
            0.95,
        );
        assert!(constant.is_some_and(|ns| ns > 600_000.0), "{constant:?}");
    }

    // Noise of 3 us without a trend is not a drift, nor are fewer than 24 collectives a base for one.
    #[test]
    fn noise_is_no_drift() {
        let noise = |r: usize, t: i64| ((t / 1_000_000 + r as i64 * 7) * 7_919 % 6_007) - 3_000;
        let run = Run::new(2, &everyone(200, 2, 37_000_000), noise);
        let clocks = run.align(&[Some(EPOCH); 2]);
        assert_eq!(clocks[1].drift, Drift::Constant);
        let run = Run::new(2, &everyone(20, 2, SECOND), |r, t| if r == 1 { t / 50_000 } else { 0 });
        assert_eq!(run.align(&[Some(EPOCH); 2])[1].drift, Drift::Constant);
    }

    #[test]
    fn missing_start_times() {
        // Rank 1 does not say when it begins: collectives place it, and there is no epoch to correct.
        let run = Run::new(3, &everyone(10, 3, SECOND), |r, _| [0, -77 * SECOND, 5_000][r]);
        let clocks = run.align(&[Some(EPOCH), None, Some(EPOCH)]);
        assert_eq!(run.apart(&clocks), 0);
        assert_eq!(
            clocks.iter().map(RankClock::offset_ns).collect::<Vec<_>>(),
            [Some(2_500), None, Some(-2_500)]
        );
        // Nobody does: times still agree.
        let clocks = run.align(&[None; 3]);
        assert_eq!((run.apart(&clocks), clocks[0].offset_ns()), (0, None));
        assert!(clocks[0].comparable(&clocks[1]));
        // One report is in Unix time already, the other is not.
        let normalised =
            Run::new(2, &everyone(10, 2, SECOND), |r, _| if r == 1 { EPOCH } else { 0 });
        let clocks = normalised.align(&[Some(EPOCH), Some(0)]);
        assert_eq!((normalised.apart(&clocks), clocks[1].offset_ns()), (0, Some(0)));
    }

    #[test]
    fn clocks_without_collectives_claim_nothing() {
        let run = Run::new(2, &[], |_, _| 0);
        let clocks = run.align(&[Some(EPOCH), Some(EPOCH + 5)]);
        assert_eq!(clocks[1].offset_ns(), None);
        assert_eq!((clocks[1].residual_p95_ns, clocks[1].collectives), (None, 0));
        assert!(!clocks[0].comparable(&clocks[1]), "hosts are not known");
        let lists: [&[Event]; 2] = [&[], &[]];
        let origins = [(0, EPOCH), (1, EPOCH + 5)].map(|(r, epoch)| Origin {
            epoch_ns: Some(epoch),
            host: Some("node0".into()),
            machine: RankIx(r),
        });
        let clocks = align(&lists, &origins, &[]).of_rank;
        assert!(clocks[0].comparable(&clocks[1]));
        assert_eq!(clocks[1].common(10), EPOCH + 15);
        // One collective fits any offset: no residual.
        let once = Run::new(2, &everyone(1, 2, SECOND), |r, _| r as i64 * 500);
        assert_eq!(once.align(&[Some(EPOCH); 2])[0].residual_p95_ns, None);
    }

    // Ranks 0 and 1 share collectives, and rank 1's machine is an hour ahead. Rank 2 is on rank 0's machine, rank 3 on rank 1's:
    // what is known of the machines holds for them, too.
    #[test]
    fn ranks_of_one_machine_have_one_clock() {
        let hour = 3_600 * SECOND;
        let run = Run::new(4, &everyone(10, 2, SECOND), |r, _| if r == 1 { hour } else { 0 });
        let lists: Vec<&[Event]> = run.events.iter().map(Vec::as_slice).collect();
        let origins = [(0, "a"), (1, "b"), (2, "a"), (3, "b")].map(|(r, host)| Origin {
            epoch_ns: Some(EPOCH),
            host: Some(host.into()),
            machine: RankIx(r),
        });
        let clocks = align(&lists, &origins, &run.matches).of_rank;
        let now = |r: usize, own: i64| clocks[r].common(own);
        assert_eq!([now(0, 5), now(2, 5), now(3, hour + 5)], [now(1, hour + 5); 3]);
        assert!((1..4).all(|r| clocks[r].comparable(&clocks[0])));
        // They rest on no collective of their own.
        assert_eq!((clocks[2].offset_ns(), clocks[3].residual_p95_ns), (None, None));
    }

    // Ranks 0 and 1 take turns on one machine's GPU: rank 1 leaves 3 ms after rank 0 every time. Rank 2 is on another machine,
    // whose clock is 10 ms ahead, and leaves halfway between them.
    // machine a   rank 0  ...)          1.5 ms before
    //             rank 1        ...)    1.5 ms after
    // machine b   rank 2     ...)       on a clock that is 10 ms ahead
    #[test]
    fn ranks_of_one_machine_that_do_not_leave_together_have_one_correction() {
        let own = [-1_500_000, 1_500_000, 10_000_000];
        let run = Run::new(3, &everyone(10, 3, SECOND), |r, _| own[r]);
        let lists: Vec<&[Event]> = run.events.iter().map(Vec::as_slice).collect();
        let align = |machines: [usize; 3]| {
            let origins = machines.map(|first| Origin {
                epoch_ns: Some(EPOCH),
                host: None,
                machine: RankIx(first),
            });
            super::align(&lists, &origins, &run.matches)
        };
        let offsets = |clocks: &Clocks| -> Vec<i64> {
            clocks.of_rank.iter().filter_map(RankClock::offset_ns).collect()
        };
        let one = align([0, 0, 2]);
        let refused = Refused { ranks: vec![RankIx(0), RankIx(1)], apart: 3_000_000 };
        assert_eq!(one.refused, [refused]);
        let found = offsets(&one);
        assert_eq!((found[0], found[0] - found[2]), (found[1], 10_000_000));
        assert_eq!(one.of_rank[1].residual_p50_ns, Some(1_500_000));
        // Three machines: each has its own clock.
        let three = align([0, 1, 2]);
        assert_eq!((offsets(&three)[0] - offsets(&three)[1], three.refused.len()), (3_000_000, 0));
        assert_eq!(run.apart(&three.of_rank), 0);
    }

    // A root may leave a Broadcast early: its ends say nothing about clocks.
    #[test]
    fn only_what_ranks_leave_together_tells() {
        let mut run = Run::new(2, &everyone(4, 2, SECOND), |_, _| 0);
        for i in 0..2 {
            run.events[0].push(of(CommOp::Broadcast, 5 * SECOND, 5 * SECOND + 10));
            run.events[1].push(of(CommOp::Broadcast, 5 * SECOND, 5 * SECOND + 900_000));
            let members = vec![EventRef::new(RankIx(0), 4 + i), EventRef::new(RankIx(1), 4 + i)];
            run.matches.push(Match {
                members,
                method: Method::Communicator,
                step: None,
                role: None,
            });
        }
        let clocks = run.align(&[Some(EPOCH); 2]);
        assert_eq!(
            (clocks[1].offset_ns(), clocks[1].collectives, clocks[1].residual_p95_ns),
            (Some(0), 4, Some(0))
        );
    }

    #[test]
    fn times_at_the_ends_of_the_range_do_not_overflow() {
        let mut run = Run::new(2, &everyone(3, 2, SECOND), |_, _| 0);
        for (r, at) in [(0, i64::MAX), (1, i64::MIN)] {
            run.events[r].push(kernel(at, at));
        }
        run.matches.push(Match {
            members: vec![EventRef::new(RankIx(0), 3), EventRef::new(RankIx(1), 3)],
            method: Method::Communicator,
            step: None,
            role: None,
        });
        let clocks = run.align(&[Some(i64::MAX), Some(i64::MIN)]);
        assert_eq!(clocks[0].collectives, 4);
        let _ = clocks[1].common(i64::MIN);
    }
}
