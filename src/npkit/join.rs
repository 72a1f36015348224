//! Dumps beside the report of the same processes: which kernel an event belongs to, and where the time of each kernel goes.
//!
//! A dump has Unix time, a report its own time and the Unix time of its zero. Ranks of a dump are those of its communicator, those
//! of a report are the run's; a dump has no process ids, so that time alone can tell which are the same.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::channels::{Channel, Member, channels};
use super::dump::{Dump, RankDump};
use super::findings;
use super::group::{self, Group, groups};
use super::lane::Lane;
use super::phases::{self, Phases};
use super::totals::{EventTotal, totals};
use crate::catalogue::{Finding, Id};
use crate::model::Ns;
use crate::stats;
use crate::units::{self, plural, rank_list};
use crate::warning::Warning;

/// How far an event may lie outside of its kernel and still be inside as far as the two clocks can tell, ns.
const TOLERANCE: i64 = 2_000;
/// An event that lies farther away from every kernel than this belongs to none, ns.
const NEAR: i64 = 200_000;
/// Share of a rank's lanes that has to lie inside of kernels if they are to be those of the rank.
const FITS: f64 = 0.5;
/// Lanes that are looked at to see whether ranks fit.
const SAMPLE: usize = 2_000;

/// One rank of a report.
#[derive(Debug, Clone)]
pub(crate) struct RankKernels {
    /// Its number in the run.
    pub rank: u32,
    /// Unix time of the report's time 0, ns; `None` if the capture does not say.
    pub epoch_ns: Option<i64>,
    /// Its communication kernels.
    pub kernels: Vec<Kernel>,
}

/// One communication kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// Start, ns in the report's own time.
    pub start: Ns,
    /// End.
    pub end: Ns,
    /// The step of the run that it lies in.
    pub step: Option<usize>,
}

/// What dumps add to a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Joined {
    /// The library that wrote the dump; several, if all of them fit.
    pub library: String,
    /// Records, those of the clocks not counted.
    pub events: u64,
    /// Records that belong to a kernel: of the GPU those that lie inside of it as far as the clocks can tell, of proxies those whose
    /// request was in flight while it ran.
    pub inside_kernels: u64,
    /// Records that were dropped because a buffer was full: 0, or `None` for an unknown number.
    pub dropped: Option<u64>,
    /// Communication kernels without an event.
    pub kernels_without_events: u64,
    /// Which rank of the dump is which of the report.
    pub ranks: Vec<JoinedRank>,
    /// Kernels with events, by rank and time.
    pub kernels: Vec<JoinedKernel>,
    /// Channel by channel.
    pub channels: Vec<Channel>,
    /// All events of the dump by name.
    pub totals: Vec<EventTotal>,
    /// What is missing or doubtful.
    pub problems: Vec<Warning>,
}

/// One rank of a dump beside one of the report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JoinedRank {
    /// Its number in the dump's communicator.
    pub dump_rank: u32,
    /// Its number in the report; `None` if its events fit no rank.
    pub rank: Option<u32>,
    /// Records.
    pub events: u64,
    /// Records that belong to a kernel.
    pub inside_kernels: u64,
    /// What was added to the dump's times to make them fit, ns: 0 unless a clock was wrong.
    pub shift_ns: i64,
    /// Rate of the GPU's clock that times rest on, kHz.
    pub nominal_khz: Option<f64>,
    /// Its rate between clock records, median, kHz.
    pub measured_khz: Option<f64>,
    /// From the last event of a kernel to the kernel's end, median over kernels, ns. What grows with the kernels' length is the
    /// GPU's clock.
    pub end_gap_p50_ns: Option<i64>,
    /// The longest, ns.
    pub end_gap_max_ns: Option<i64>,
}

/// One kernel with its events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JoinedKernel {
    /// Rank in the report.
    pub rank: u32,
    /// The step of the run that it lies in.
    pub step: Option<usize>,
    /// Position among the rank's kernels with events: the same collective on every rank.
    pub collective: usize,
    /// Start, ns in the report's own time: the zero of the times of its lanes.
    pub start_ns: Ns,
    /// End.
    pub end_ns: Ns,
    /// Records.
    pub events: u64,
    /// How much later than the first rank's its first event was, ns; `None` if ranks have different numbers of kernels with events.
    pub late_ns: Option<i64>,
    /// Where the time goes.
    #[serde(flatten)]
    pub phases: Phases,
}

impl Joined {
    /// What explains the time inside of the kernels.
    pub fn findings(&self) -> Vec<Finding> {
        findings::find(&members(&self.kernels))
    }
}

fn members(kernels: &[JoinedKernel]) -> Vec<Member<'_>> {
    kernels
        .iter()
        .map(|kernel| Member {
            collective: kernel.collective,
            rank: kernel.rank,
            late_ns: kernel.late_ns,
            length_ns: kernel.end_ns.saturating_sub(kernel.start_ns),
            phases: &kernel.phases,
        })
        .collect()
}

/// Puts the events of a dump into the kernels of a report.
pub(crate) fn join(ranks: &[RankKernels], dump: &Dump) -> Joined {
    let ranks: Vec<Windows> = ranks.iter().map(Windows::new).collect();
    let mut problems = dump.problems.clone();
    let mut joined = Joined {
        library: dump.ids.label(),
        events: dump.events,
        inside_kernels: 0,
        dropped: (!dump.full).then_some(0),
        kernels_without_events: 0,
        ranks: Vec::new(),
        kernels: Vec::new(),
        channels: Vec::new(),
        totals: totals(dump),
        problems: Vec::new(),
    };
    let mut used: Vec<u32> = Vec::new();
    let mut kernels = 0;
    for (position, (&dump_rank, of_rank)) in dump.ranks.iter().enumerate() {
        let groups = groups(of_rank);
        let fit = fit(dump_rank, position, of_rank, &groups, &ranks, (&used, dump.ranks.len()));
        let mut row = JoinedRank {
            dump_rank,
            rank: None,
            events: of_rank.events,
            inside_kernels: 0,
            shift_ns: 0,
            nominal_khz: of_rank.gpu_khz,
            measured_khz: of_rank.measured_khz,
            end_gap_p50_ns: None,
            end_gap_max_ns: None,
        };
        if let Some((windows, shift_ns)) = fit {
            used.push(windows.rank);
            (row.rank, row.shift_ns) = (Some(windows.rank), shift_ns);
            problems.extend(mapped(&row));
            let placed = Placed::new(&groups, of_rank, windows, shift_ns);
            row.inside_kernels = placed.inside;
            row.end_gap_p50_ns = stats::median_i64(&placed.end_gaps);
            row.end_gap_max_ns = placed.end_gaps.iter().copied().max();
            kernels += windows.kernels.len() as u64;
            joined.kernels.extend(placed.kernels(of_rank, windows, shift_ns, dump));
        } else if of_rank.events > 0 {
            problems.push(no_rank(dump_rank, &ranks));
        }
        joined.inside_kernels += row.inside_kernels;
        joined.ranks.push(row);
    }
    joined.kernels_without_events = kernels.saturating_sub(joined.kernels.len() as u64);
    joined.kernels.sort_by_key(|kernel| (kernel.rank, kernel.start_ns, kernel.end_ns));
    lateness(&mut joined.kernels, &ranks, &joined.ranks);
    joined.channels = channels(&members(&joined.kernels));
    problems.extend(outside(&joined));
    problems.extend(without_events(&joined, kernels));
    problems.extend(not_dumped(&ranks, &used));
    problems.sort();
    joined.problems = problems;
    joined
}

/// The communication kernels of one rank in order of their starts, in Unix time if that is known.
struct Windows {
    rank: u32,
    epoch_ns: Option<i64>,
    kernels: Vec<Kernel>,
    /// The latest end of each kernel and those before it.
    reached: Vec<Ns>,
}

impl Windows {
    fn new(rank: &RankKernels) -> Self {
        let mut kernels = rank.kernels.clone();
        kernels.sort_by_key(|kernel| (kernel.start, kernel.end));
        let reached = kernels
            .iter()
            .scan(Ns::MIN, |latest, kernel| {
                *latest = kernel.end.max(*latest);
                Some(*latest)
            })
            .collect();
        Self { rank: rank.rank, epoch_ns: rank.epoch_ns, kernels, reached }
    }

    /// The kernel that holds a stretch of the report's time most closely.
    fn around(&self, start: Ns, end: Ns) -> Option<usize> {
        let slack = |kernel: &Kernel| (start - kernel.start).abs() + (kernel.end - end).abs();
        self.before(start.saturating_add(TOLERANCE), end.saturating_sub(TOLERANCE))
            .filter(|(_, kernel)| kernel.end.saturating_add(TOLERANCE) >= end)
            .min_by_key(|(i, kernel)| (slack(kernel), *i))
            .map(|(i, _)| i)
    }

    /// The kernel nearest to a stretch that none holds.
    fn near(&self, start: Ns, end: Ns) -> Option<usize> {
        let outside = |kernel: &Kernel| (kernel.start - start).max(0) + (end - kernel.end).max(0);
        self.before(end.saturating_add(NEAR), start.saturating_sub(NEAR))
            .filter(|(_, kernel)| outside(kernel) <= NEAR)
            .min_by_key(|(i, kernel)| (outside(kernel), *i))
            .map(|(i, _)| i)
    }

    /// The kernels that begin up to `latest_start`, from the last one back to where all have ended before `earliest_end`.
    fn before(&self, latest_start: Ns, earliest_end: Ns) -> impl Iterator<Item = (usize, &Kernel)> {
        let past = self.kernels.partition_point(|kernel| kernel.start <= latest_start);
        (0..past)
            .rev()
            .take_while(move |&i| self.reached.get(i).is_some_and(|end| *end >= earliest_end))
            .filter_map(|i| Some((i, self.kernels.get(i)?)))
    }

    /// The share of some lanes that lies inside of kernels when `zero` (Unix time, ns) is the report's 0.
    fn share(&self, rank: &RankDump, zero: i64) -> f64 {
        let every = rank.lanes.len().div_ceil(SAMPLE).max(1);
        let looked_at = || rank.lanes.iter().step_by(every);
        let inside = looked_at().filter(|lane| {
            self.around(lane.start_ns.saturating_sub(zero), lane.end_ns.saturating_sub(zero))
                .is_some()
        });
        inside.count() as f64 / looked_at().count().max(1) as f64
    }

    /// What has to be added to the times of a dump so that its n-th collective begins with the n-th kernel.
    fn shift(&self, groups: &[Group], zero: i64) -> Option<i64> {
        if groups.len() != self.kernels.len() {
            return None;
        }
        let shifts: Vec<i64> = groups
            .iter()
            .zip(&self.kernels)
            .map(|(group, kernel)| kernel.start.saturating_add(zero).saturating_sub(group.start_ns))
            .collect();
        // The first event comes after the kernel's start; that is less than the tolerance where one is set.
        stats::median_i64(&shifts)
    }
}

/// The rank of the report whose kernels hold the events of a rank of the dump, and what has to be added to their times.
fn fit<'w>(
    dump_rank: u32,
    position: usize,
    of_rank: &RankDump,
    groups: &[Group],
    ranks: &'w [Windows],
    (used, in_dump): (&[u32], usize),
) -> Option<(&'w Windows, i64)> {
    let free = || ranks.iter().filter(|windows| !used.contains(&windows.rank));
    let same = free().find(|windows| windows.rank == dump_rank);
    let in_order = (in_dump == ranks.len()).then(|| ranks.get(position)).flatten();
    let in_order = in_order.filter(|windows| !used.contains(&windows.rank));
    let fits = |windows: &&Windows| {
        windows.epoch_ns.is_some_and(|zero| windows.share(of_rank, zero) >= FITS)
    };
    if of_rank.lanes.is_empty() {
        return same.or(in_order).map(|windows| (windows, 0));
    }
    if let Some(windows) = same.filter(fits).or(in_order.filter(fits)) {
        return Some((windows, 0));
    }
    let best = free()
        .filter_map(|windows| Some((windows.share(of_rank, windows.epoch_ns?), windows)))
        .filter(|(share, _)| *share >= FITS)
        .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.rank.cmp(&a.1.rank)));
    if let Some((_, windows)) = best {
        return Some((windows, 0));
    }
    // The clocks do not fit: then the order of collectives is what is left.
    same.or(in_order).and_then(|windows| {
        let zero = windows.epoch_ns.unwrap_or(0);
        let shift = windows.shift(groups, zero)?;
        (windows.share(of_rank, zero.saturating_sub(shift)) >= FITS).then_some((windows, shift))
    })
}

/// The lanes and requests of each kernel of one rank.
struct Placed<'r> {
    lanes: BTreeMap<usize, Vec<&'r Lane>>,
    proxies: BTreeMap<usize, Vec<usize>>,
    /// Records that belong to a kernel.
    inside: u64,
    /// From the last event of each kernel to its end.
    end_gaps: Vec<i64>,
}

impl<'r> Placed<'r> {
    fn new(groups: &[Group], rank: &'r RankDump, windows: &Windows, shift: i64) -> Self {
        let zero = windows.epoch_ns.unwrap_or(0).saturating_sub(shift);
        let own = |ns: i64| ns.saturating_sub(zero);
        let mut placed = Placed {
            lanes: BTreeMap::new(),
            proxies: BTreeMap::new(),
            inside: 0,
            end_gaps: Vec::new(),
        };
        for group in groups {
            let whole = windows.around(own(group.start_ns), own(group.end_ns));
            for lane in group.lanes(rank) {
                let (start, end) = (own(lane.start_ns), own(lane.end_ns));
                let inside = whole.or_else(|| windows.around(start, end));
                if inside.is_some() {
                    placed.inside += lane.records;
                }
                if let Some(kernel) = inside.or_else(|| windows.near(start, end)) {
                    placed.lanes.entry(kernel).or_default().push(lane);
                }
            }
        }
        for (&at, lanes) in &placed.lanes {
            let last = lanes.iter().map(|lane| own(lane.end_ns)).max();
            let kernel = windows.kernels.get(at);
            placed
                .end_gaps
                .extend(kernel.zip(last).map(|(kernel, last)| kernel.end.saturating_sub(last)));
        }
        // Requests are of the communicator that was dumped: its kernels are those with events, if the GPU has any.
        let with_lanes = |i: &usize| placed.lanes.is_empty() || placed.lanes.contains_key(i);
        let kernels: Vec<(usize, &Kernel)> =
            windows.kernels.iter().enumerate().filter(|(i, _)| with_lanes(i)).collect();
        let spans: Vec<(i64, i64)> = kernels
            .iter()
            .map(|(_, kernel)| (kernel.start.saturating_add(zero), kernel.end.saturating_add(zero)))
            .collect();
        for (i, proxy) in rank.proxies.iter().enumerate() {
            if let Some((at, _)) = group::place(proxy, &spans).and_then(|i| kernels.get(i)) {
                placed.proxies.entry(*at).or_default().push(i);
                placed.inside += 2;
            }
        }
        placed
    }

    fn kernels(
        &self,
        rank: &RankDump,
        windows: &Windows,
        shift: i64,
        dump: &Dump,
    ) -> Vec<JoinedKernel> {
        let zero = windows.epoch_ns.unwrap_or(0).saturating_sub(shift);
        let with_events = windows
            .kernels
            .iter()
            .enumerate()
            .filter(|(i, _)| self.lanes.contains_key(i) || self.proxies.contains_key(i));
        with_events
            .enumerate()
            .map(|(collective, (at, kernel))| {
                let lanes = self.lanes.get(&at).map_or(&[][..], Vec::as_slice);
                let proxies: Vec<_> = self
                    .proxies
                    .get(&at)
                    .into_iter()
                    .flatten()
                    .filter_map(|&i| rank.proxies.get(i))
                    .collect();
                let zero_ns = kernel.start.saturating_add(zero);
                JoinedKernel {
                    rank: windows.rank,
                    step: kernel.step,
                    collective,
                    start_ns: kernel.start,
                    end_ns: kernel.end,
                    events: lanes.iter().map(|lane| lane.records).sum::<u64>()
                        + 2 * proxies.len() as u64,
                    late_ns: None,
                    phases: phases::of(lanes, &proxies, rank, &dump.ids, zero_ns),
                }
            })
            .collect()
    }
}

/// Sets how much later than the first rank each rank entered, where ranks have the same number of kernels with events.
fn lateness(kernels: &mut [JoinedKernel], ranks: &[Windows], joined: &[JoinedRank]) {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for kernel in kernels.iter() {
        *counts.entry(kernel.rank).or_default() += 1;
    }
    let equal = counts.values().collect::<std::collections::BTreeSet<_>>().len() == 1;
    if !equal || counts.len() < 2 || joined.iter().any(|rank| rank.shift_ns != 0) {
        return;
    }
    let entered = |kernel: &JoinedKernel| {
        let epoch = ranks.iter().find(|rank| rank.rank == kernel.rank)?.epoch_ns?;
        let first = kernel.phases.lanes.iter().map(|lane| lane.start_ns).min().unwrap_or(0);
        Some(epoch.saturating_add(kernel.start_ns).saturating_add(first))
    };
    let mut firsts: BTreeMap<usize, i64> = BTreeMap::new();
    for kernel in kernels.iter() {
        let Some(at) = entered(kernel) else { return };
        let first = firsts.entry(kernel.collective).or_insert(at);
        *first = at.min(*first);
    }
    for kernel in kernels {
        let first = firsts.get(&kernel.collective);
        kernel.late_ns = entered(kernel).zip(first).map(|(at, first)| at.saturating_sub(*first));
    }
}

fn mapped(row: &JoinedRank) -> Vec<Warning> {
    let mut list = Vec::new();
    let Some(rank) = row.rank else { return list };
    if rank != row.dump_rank {
        list.push(Warning::new(
            Id::RankOfCommunicator,
            format!("Rank {} of the dump is taken for rank {rank} of the report, by its order and times: a dump numbers ranks inside its communicator.", row.dump_rank),
        ));
    }
    if row.shift_ns != 0 {
        list.push(Warning::new(
            Id::ClocksDoNotFit,
            format!(
                "The events of rank {rank} lie outside of its kernels, and inside when they are moved by {}: the n-th collective was put at the n-th kernel, and who came later than whom is not told.",
                units::time(row.shift_ns)
            ),
        ).with_hint("Check that the dump and the report are of the same processes."));
    }
    list
}

fn no_rank(dump_rank: u32, ranks: &[Windows]) -> Warning {
    let no_epoch = ranks.iter().any(|rank| rank.epoch_ns.is_none());
    let why = if no_epoch { " The report does not say which Unix time its zero is." } else { "" };
    Warning::new(
        Id::DumpDoesNotFit,
        format!("The events of rank {dump_rank} of the dump lie inside the kernels of no rank of the report: they are not used.{why}"),
    )
    .with_hint("Check that the dump and the report are of the same processes: a dump of an earlier run in NPKIT_DUMP_DIR is written over, rank by rank.")
}

fn outside(joined: &Joined) -> Option<Warning> {
    let placed: u64 = joined
        .ranks
        .iter()
        .filter(|r| r.rank.is_some())
        .map(|r| r.events - r.inside_kernels.min(r.events))
        .sum();
    (placed > 0).then(|| {
        Warning::new(
            Id::EventsOutside,
            format!(
                "{} of {} records lie in no kernel, as far as clocks can tell ({}): of a channel's share of a collective that sticks out all records count. Those within {} of a kernel are in its phases all the same.",
                units::count(placed),
                units::count(joined.events),
                units::time(TOLERANCE),
                units::time(NEAR)
            ),
        )
        .with_hint("The clock word of NPKit is kept by a thread of the host: if that is not scheduled, events seem earlier than they are.")
    })
}

fn without_events(joined: &Joined, kernels: u64) -> Option<Warning> {
    (joined.kernels_without_events > 0 && !joined.kernels.is_empty()).then(|| {
        Warning::new(
            Id::OneCommunicator,
            format!(
                "{} of {} communication kernels have no event: NPKit keeps one communicator a process, and only operations whose events were compiled in.",
                units::count(joined.kernels_without_events),
                units::count(kernels)
            ),
        )
        .with_hint("Phases are of the kernels that have them; nothing is said of the others.")
    })
}

fn not_dumped(ranks: &[Windows], used: &[u32]) -> Option<Warning> {
    let missing: Vec<u32> =
        ranks.iter().map(|r| r.rank).filter(|rank| !used.contains(rank)).collect();
    (!missing.is_empty() && !used.is_empty()).then(|| {
        Warning::new(
            Id::RankMissing,
            format!(
                "{} of the report left no dump: {}.",
                plural(missing.len(), "rank"),
                rank_list(&missing)
            ),
        )
        .with_hint("NPKit writes when ncclCommDestroy is called, into NPKIT_DUMP_DIR of each host.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::npkit::ids::{Ids, Library};

    /// Unix time of the reports' zero.
    const EPOCH: i64 = 1_000_000_000_000;

    fn rank(rank: u32, kernels: &[(Ns, Ns)]) -> RankKernels {
        let kernel = |&(start, end): &(Ns, Ns)| Kernel { start, end, step: None };
        let kernels = kernels.iter().map(kernel).collect();
        RankKernels { rank, epoch_ns: Some(EPOCH), kernels }
    }

    fn dump(ranks: &[(u32, &[(Ns, Ns)])]) -> Dump {
        let lane = |&(start, end): &(Ns, Ns)| Lane {
            end_ns: EPOCH + end,
            records: 2,
            ..Lane::new(0, EPOCH + start)
        };
        let of = |lanes: &[(Ns, Ns)]| RankDump {
            events: 2 * lanes.len() as u64,
            lanes: lanes.iter().map(lane).collect(),
            ..RankDump::default()
        };
        let ranks: BTreeMap<u32, RankDump> =
            ranks.iter().map(|(rank, lanes)| (*rank, of(lanes))).collect();
        let events = ranks.values().map(|rank| rank.events).sum();
        Dump {
            ids: Ids::of(Library::Nccl),
            exact: true,
            ranks,
            events,
            problems: Vec::new(),
            full: false,
        }
    }

    fn codes(joined: &Joined) -> Vec<&str> {
        joined.problems.iter().map(|problem| problem.code.as_str()).collect()
    }

    #[test]
    fn events_belong_to_the_kernel_that_holds_them() {
        // us      0        100       200       300
        // kernels [-- 0 --]  [ 1 ]             [ 2 ]
        //              [ of another communicator ]
        // lanes     [---]     [-]               [-]
        let kernels = [(0, 100_000), (50_000, 310_000), (120_000, 160_000), (300_000, 340_000)];
        let joined = join(
            &[rank(0, &kernels)],
            &dump(&[(0, &[(10_000, 60_000), (121_000, 159_000), (299_000, 339_000)])]),
        );
        assert_eq!((joined.events, joined.inside_kernels, joined.dropped), (6, 6, Some(0)));
        let starts: Vec<Ns> = joined.kernels.iter().map(|kernel| kernel.start_ns).collect();
        assert_eq!(starts, [0, 120_000, 300_000], "1 us before the start is within the tolerance");
        assert_eq!(joined.kernels_without_events, 1);
        assert_eq!(codes(&joined), ["one-communicator"]);
        assert_eq!(joined.ranks[0].end_gap_max_ns, Some(40_000));
    }

    #[test]
    fn an_event_just_outside_is_in_the_phases_but_not_inside() {
        let joined = join(
            &[rank(0, &[(0, 100_000), (900_000, 950_000)])],
            &dump(&[(0, &[(10_000, 102_001), (901_000, 949_000)])]),
        );
        assert_eq!((joined.inside_kernels, joined.kernels.len()), (2, 2));
        assert_eq!(codes(&joined), ["events-outside"]);
    }

    #[test]
    fn ranks_of_a_communicator_are_found_by_time() {
        // The dump numbers its ranks from 0; the report has ranks 4 and 5 of the run.
        let reports = [rank(4, &[(0, 10_000)]), rank(5, &[(500_000, 510_000)])];
        let joined = join(&reports, &dump(&[(0, &[(1_000, 9_000)]), (1, &[(501_000, 509_000)])]));
        assert_eq!(joined.ranks.iter().map(|r| r.rank).collect::<Vec<_>>(), [Some(4), Some(5)]);
        assert_eq!(codes(&joined), ["rank-of-communicator", "rank-of-communicator"]);
        // Three ranks in the report, one in the dump, whose events are those of rank 5.
        let reports =
            [rank(0, &[(0, 10_000)]), rank(4, &[(0, 9_000)]), rank(5, &[(500_000, 510_000)])];
        let joined = join(&reports, &dump(&[(0, &[(501_000, 509_000)])]));
        assert_eq!(joined.ranks[0].rank, Some(5));
        assert_eq!(codes(&joined), ["rank-missing", "rank-of-communicator"]);
    }

    #[test]
    fn clocks_that_do_not_fit_are_said() {
        let kernels = [(0, 100_000), (300_000, 400_000)];
        // All an hour later, at the same distances.
        let hour = 3_600_000_000_000;
        let late = [(hour + 1_000, hour + 90_000), (hour + 301_000, hour + 390_000)];
        let joined = join(&[rank(0, &kernels)], &dump(&[(0, &late)]));
        assert_eq!((joined.inside_kernels, joined.ranks[0].shift_ns), (4, -hour - 1_000));
        assert_eq!(codes(&joined), ["clocks-do-not-fit"]);
        // Another number of collectives: nothing to go by.
        let joined = join(&[rank(0, &kernels)], &dump(&[(0, &late[..1])]));
        assert_eq!((joined.inside_kernels, joined.ranks[0].rank), (0, None));
        assert_eq!(codes(&joined), ["dump-does-not-fit"]);
        // No Unix time in the report, but the same order.
        let unknown = RankKernels { epoch_ns: None, ..rank(0, &kernels) };
        assert_eq!(join(&[unknown], &dump(&[(0, &late)])).inside_kernels, 4);
    }
}
