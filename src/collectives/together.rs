//! Which ranks are of one communicator, where nothing but the stream says so: those that leave its operations together.
//!
//! Ranks are of one communicator unless something other than lateness says no. Three things do: clocks that other operations
//! have placed (`Placed`), departures that follow each group's own last arrival, and groups that each leave as one but
//! not with each other. How far apart departures may be comes from their scatter over many calls, never from one call's
//! duration: the rank that is late has the shortest.
//!
//! ```text
//! rank 0  [A   ]  [A ]       ranks 0 and 1 leave together every time, ranks 2 and 3 too, but not with them:
//! rank 1    [A ] [A  ]       two communicators
//! rank 2  [A ]   [A  ]
//! rank 3  [A ]     [A]
//! ```

use std::collections::BTreeMap;

use super::clocks::{Origin, SAME_CLOCK_NS};
use super::matches::{Match, RankEvents};
use super::refs::{EventRef, RankIx, all};
use crate::model::Ns;
use crate::stats;

/// Ranks leave one operation this close to each other whatever else is known, ns: through host memory they were seen 23 us
/// apart after 4 ms, over NVLink up to 14 us.
const TOGETHER_NS: Ns = 20_000;
/// Groups that leave as one each, and further apart than this, are not one however they arrived, ns: networks scatter less.
const FAR_NS: Ns = 100_000;
/// Scatter between two groups may exceed the scatter inside them this many times.
const ALIKE: Ns = 4;
/// Arrivals explain departures if the scatter that is left without them is below this share.
const EXPLAINED: f64 = 0.7;
/// Groups that scatter less are joined first, ns.
const REACHES_NS: [Ns; 5] =
    [TOGETHER_NS, 4 * TOGETHER_NS, 16 * TOGETHER_NS, 64 * TOGETHER_NS, Ns::MAX];
/// Fewer calls have no scatter.
const FEWEST: usize = 4;
/// Calls that are looked at, spread evenly over all: so many, but fewer of more ranks, each of which is compared with many.
const MOST_CALLS: usize = 128;
const FEWEST_CALLS: usize = 16;
const MOST_COMPARED: usize = 64 * MOST_CALLS;
/// Clocks run at different speeds by up to one part in this many.
const DRIFT_PART: Ns = 10_000;

/// Splits matches whose ranks are known by the stream's role alone into the groups of ranks that leave them together, and
/// returns the events that leave with nobody. `everyone` is the number of ranks if all of the run are here; two have no
/// groups to tell apart.
pub(crate) fn split(
    ranks: &[RankEvents<'_>],
    origins: &[Origin],
    everyone: Option<u32>,
    matches: Vec<Match>,
) -> (Vec<Match>, Vec<EventRef>) {
    if everyone == Some(2) {
        return (matches, Vec::new());
    }
    let mut by_role: BTreeMap<u32, Vec<&Match>> = BTreeMap::new();
    for m in &matches {
        if let Some(role) = m.role {
            by_role.entry(role).or_default().push(m);
        }
    }
    let mut roles: Vec<Role> =
        by_role.into_iter().map(|(role, list)| Role::new(role, ranks, origins, list)).collect();
    // What needs the smallest corrections of clocks says how clocks stand.
    roles.sort_by_key(|role| (role.correction(), role.number));
    let mut placed = Placed::new(origins);
    let mut leaders: BTreeMap<u32, Vec<RankIx>> = BTreeMap::new();
    for role in roles {
        leaders.insert(role.number, role.leaders(&mut placed, everyone.is_some()));
    }
    let mut whole = Vec::with_capacity(matches.len());
    let mut alone = Vec::new();
    for m in matches {
        let Some(leader) = m.role.and_then(|role| leaders.get(&role)) else {
            whole.push(m);
            continue;
        };
        let mut parts: BTreeMap<RankIx, Vec<EventRef>> = BTreeMap::new();
        for &member in &m.members {
            parts.entry(leader[member.rank]).or_default().push(member);
        }
        for members in parts.into_values() {
            match members.as_slice() {
                [only] => alone.push(*only),
                _ => whole.push(Match { members, ..m }),
            }
        }
    }
    (whole, alone)
}

/// When ranks were in one call, on the clock of the first of them.
#[derive(Debug, Clone, Copy)]
struct Call {
    /// The last of them came, Unix ns.
    arrival: Ns,
    /// The first of them (by position) left, Unix ns.
    leave: Ns,
}

/// Ranks that leave together.
#[derive(Debug)]
struct Group {
    members: Vec<RankIx>,
    /// By call; `None` where they take no part.
    calls: Vec<Option<Call>>,
    /// How much their departures scatter.
    scatter: Scatter,
}

/// The calls of one role.
#[derive(Debug)]
struct Role {
    number: u32,
    /// A group for each rank that takes part, in order.
    groups: Vec<Group>,
    /// True if ranks leave these operations together.
    leaves_together: bool,
    ranks: usize,
}

/// How the departures of two groups compare.
#[derive(Debug, Clone, Copy)]
struct Distance {
    /// Calls of both.
    calls: usize,
    /// By how much the second leaves later, median, ns.
    offset: Ns,
    /// The middle of the compared calls, Unix ns.
    middle: Ns,
    /// How much that varies.
    scatter: Scatter,
    /// How much varies what is left of it when arrivals are taken off.
    unexplained: Scatter,
}

/// How much a distance of departures varies over the calls, ns.
#[derive(Debug, Clone, Copy, Default)]
struct Scatter {
    /// From one call to the next, median: clocks may drift.
    change: Ns,
    /// Around the median, 95th percentile: what one offset of clocks leaves over.
    residual: Ns,
}

impl Scatter {
    fn of(list: &[Ns]) -> Option<Scatter> {
        let apart = |a: Ns, b: Ns| a.saturating_sub(b).saturating_abs();
        let changes: Vec<Ns> = list.windows(2).map(|pair| apart(pair[1], pair[0])).collect();
        let median = stats::median_i64(list)?;
        let rest: Vec<Ns> = list.iter().map(|&ns| apart(ns, median)).collect();
        Some(Scatter {
            change: stats::median_i64(&changes).unwrap_or(0),
            residual: stats::quantile_i64(&rest, 0.95)?,
        })
    }

    /// The larger of both, one by one.
    fn max(self, other: Scatter) -> Scatter {
        Scatter {
            change: self.change.max(other.change),
            residual: self.residual.max(other.residual),
        }
    }

    /// True if groups that scatter so much inside are surely further apart than that.
    fn is_beyond(self, inside: Scatter) -> bool {
        let beyond = |a: Ns, b: Ns| a > FAR_NS.max(b.saturating_mul(ALIKE));
        beyond(self.change, inside.change) && beyond(self.residual, inside.residual)
    }

    /// True if this is surely less than the other.
    fn is_below(self, other: Scatter) -> bool {
        let below = |a: Ns, b: Ns| (a as f64) < EXPLAINED * b as f64;
        below(self.change, other.change) && below(self.residual, other.residual)
    }
}

impl Distance {
    fn between(a: &Group, b: &Group) -> Option<Distance> {
        let (mut leaves, mut rest, mut times) = (Vec::new(), Vec::new(), Vec::new());
        for (x, y) in a.calls.iter().zip(&b.calls) {
            let (Some(x), Some(y)) = (x, y) else { continue };
            let apart = y.leave.saturating_sub(x.leave);
            leaves.push(apart);
            rest.push(apart.saturating_sub(y.arrival.saturating_sub(x.arrival)));
            times.push(x.leave);
        }
        Some(Distance {
            calls: leaves.len(),
            offset: stats::median_i64(&leaves)?,
            middle: stats::median_i64(&times)?,
            scatter: Scatter::of(&leaves)?,
            unexplained: Scatter::of(&rest)?,
        })
    }
}

/// Where clocks stand according to the machines and to the operations that were looked at so far.
#[derive(Debug)]
struct Placed {
    by_rank: Vec<Place>,
}

/// Where one rank's clock stands.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// The rank that it is compared with.
    root: RankIx,
    /// By how much it is ahead of that one's, ns.
    ahead: Ns,
    /// When that held, Unix ns; `None` if always.
    then: Option<Ns>,
    /// How exact that is, ns.
    slack: Ns,
}

impl Placed {
    /// Ranks of one machine have one clock; of others nothing is known.
    fn new(origins: &[Origin]) -> Placed {
        let place = |origin: &Origin| Place {
            root: origin.machine,
            ahead: 0,
            then: None,
            slack: SAME_CLOCK_NS,
        };
        Placed { by_rank: origins.iter().map(place).collect() }
    }

    /// True if what is known of both clocks says that ranks so far apart do not leave together.
    fn refutes(&self, a: RankIx, b: RankIx, distance: &Distance) -> bool {
        let (a, b) = (self.by_rank[a], self.by_rank[b]);
        let then = a.then.max(b.then).unwrap_or(distance.middle);
        let drift = distance.middle.saturating_sub(then).saturating_abs() / DRIFT_PART;
        let slack = a.slack.min(b.slack).max(distance.scatter.residual);
        let unexplained = distance.offset.saturating_sub(b.ahead.saturating_sub(a.ahead));
        a.root == b.root && unexplained.saturating_abs() > slack.saturating_add(drift)
    }

    /// Takes the clock of the second to be ahead by the distance of departures, where nothing is known yet.
    fn place(&mut self, a: RankIx, b: RankIx, distance: &Distance) {
        let (a, b) = (self.by_rank[a], self.by_rank[b]);
        if a.root == b.root {
            return;
        }
        let by = a.ahead.saturating_add(distance.offset).saturating_sub(b.ahead);
        for place in self.by_rank.iter_mut().filter(|place| place.root == b.root) {
            *place = Place {
                root: a.root,
                ahead: place.ahead.saturating_add(by),
                then: Some(distance.middle),
                slack: TOGETHER_NS,
            };
        }
    }
}

impl Role {
    fn new(
        number: u32,
        ranks: &[RankEvents<'_>],
        origins: &[Origin],
        mut matches: Vec<&Match>,
    ) -> Role {
        let event = |at: EventRef| &ranks[at.rank].events[at.event];
        // Of operations that ranks leave together; of others only if there are none.
        let together = |m: &Match| m.members.iter().all(|&at| event(at).leaves_together());
        let leaves_together = matches.iter().any(|m| together(m));
        if leaves_together {
            matches.retain(|m| together(m));
        }
        matches.sort_by_key(|m| m.members.first().map(|&first| (event(first).start, first)));
        let most = (MOST_COMPARED / ranks.len().max(1)).clamp(FEWEST_CALLS, MOST_CALLS);
        let every = matches.len().div_ceil(most).max(1);
        let used: Vec<&Match> = matches.into_iter().step_by(every).collect();
        let mut groups: Vec<Group> = all(ranks.len())
            .map(|rank| Group {
                members: vec![rank],
                calls: vec![None; used.len()],
                scatter: Scatter::default(),
            })
            .collect();
        for (k, m) in used.iter().enumerate() {
            for &at in &m.members {
                let unix = |ns: Ns| ns.saturating_add(origins[at.rank].epoch_ns.unwrap_or(0));
                let call = Call { arrival: unix(event(at).start), leave: unix(event(at).end) };
                groups[at.rank].calls[k] = Some(call);
            }
        }
        groups.retain(|group| group.calls.iter().any(Option::is_some));
        Role { number, groups, leaves_together, ranks: ranks.len() }
    }

    /// The largest correction of a clock that all of them need to leave together, ns.
    fn correction(&self) -> Ns {
        let Some((first, others)) = self.groups.split_first() else { return 0 };
        let offsets =
            others.iter().filter_map(|other| Some(Distance::between(first, other)?.offset));
        offsets.map(Ns::saturating_abs).max().unwrap_or(0)
    }

    /// For each rank the first rank of its group. `complete`: all ranks of the run are here.
    fn leaders(mut self, placed: &mut Placed, complete: bool) -> Vec<RankIx> {
        // The closest first, so that a group's own scatter is known before it is compared with others.
        for reach in REACHES_NS {
            self.join_within(reach, placed);
        }
        if complete && self.leaves_together {
            self.join_lonely(placed);
        }
        let mut leaders: Vec<RankIx> = all(self.ranks).collect();
        for group in &self.groups {
            let Some(&leader) = group.members.first() else { continue };
            group.members.iter().for_each(|&member| leaders[member] = leader);
        }
        leaders
    }

    /// Joins each group with the first before it that it leaves together with, as far as they scatter by no more than `reach`.
    fn join_within(&mut self, reach: Ns, placed: &mut Placed) {
        let mut kept: Vec<Group> = Vec::with_capacity(self.groups.len());
        for group in std::mem::take(&mut self.groups) {
            let found = kept.iter().enumerate().find_map(|(at, other)| {
                let distance = Distance::between(other, &group)?;
                let close = distance.scatter.change <= reach;
                (close && self.one(other, &group, &distance, placed)).then_some((at, distance))
            });
            match found {
                Some((at, distance)) => join(&mut kept[at], group, &distance, placed),
                None => kept.push(group),
            }
        }
        self.groups = kept;
    }

    /// True if nothing but lateness parts the two.
    fn one(&self, a: &Group, b: &Group, distance: &Distance, placed: &Placed) -> bool {
        let (Some(&first), Some(&second)) = (a.members.first(), b.members.first()) else {
            return false;
        };
        if placed.refutes(first, second, distance) {
            return false;
        }
        if distance.calls < FEWEST {
            return self.leaves_together;
        }
        let inside = a.scatter.max(b.scatter);
        if distance.scatter.change <= TOGETHER_NS.max(inside.change.saturating_mul(ALIKE)) {
            return true;
        }
        let explained = distance.unexplained.is_below(distance.scatter);
        let several = a.members.len() > 1 && b.members.len() > 1;
        let far = distance.scatter.is_beyond(inside);
        self.leaves_together && !explained && !(several && far)
    }

    /// An operation that ranks leave together and in which one rank takes part alone does not exist: such a rank belongs to
    /// the group that it is closest to.
    fn join_lonely(&mut self, placed: &mut Placed) {
        let mut at = 0;
        while let Some(lonely) = self.groups.get(at) {
            let closest = |other: usize| {
                let group = self.groups.get(other).filter(|_| other != at)?;
                let distance = Distance::between(group, lonely)?;
                let (&a, &b) = (group.members.first()?, lonely.members.first()?);
                (!placed.refutes(a, b, &distance)).then_some((other, distance))
            };
            let found = (lonely.members.len() == 1)
                .then(|| (0..self.groups.len()).filter_map(closest))
                .and_then(|found| found.min_by_key(|(_, distance)| distance.scatter.change));
            let Some((other, distance)) = found else {
                at += 1;
                continue;
            };
            // The next one takes its place.
            let lonely = self.groups.remove(at);
            let other = other - usize::from(other > at);
            join(&mut self.groups[other], lonely, &distance, placed);
        }
    }
}

/// Adds a group to another whose clock it is compared with.
fn join(to: &mut Group, from: Group, distance: &Distance, placed: &mut Placed) {
    if let (Some(&a), Some(&b)) = (to.members.first(), from.members.first()) {
        placed.place(a, b, distance);
    }
    to.scatter = to.scatter.max(from.scatter).max(distance.scatter);
    for (own, other) in to.calls.iter_mut().zip(from.calls) {
        let Some(other) = other else { continue };
        let arrival = other.arrival.saturating_sub(distance.offset);
        let leave = other.leave.saturating_sub(distance.offset);
        *own = Some(match *own {
            Some(call) => Call { arrival: call.arrival.max(arrival), ..call },
            None => Call { arrival, leave },
        });
    }
    // The first stays first: times are on its clock.
    to.members.extend(from.members);
}
