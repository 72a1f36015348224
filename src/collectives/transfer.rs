//! How long the data of one matched collective moved, and how long each rank waited for the others
//! (docs/metrics.md, section 6). Of operations that ranks leave together durations tell both. Of the others (Send/Recv, Broadcast,
//! Reduce) the common clock does, where all ranks were in one at the same time: a rank waits from its own arrival to the last one.

use super::clocks::RankClock;
use super::events::Event;
use super::matches::Match;
use crate::model::{CommOp, Ns};

/// Without enough collectives to test the clocks, ranks that arrive closer together than this have no order, ns.
const UNTESTED_NS: Ns = 50_000;

/// Ranks that were not in a collective at once by more than this many typical residuals, and by this much, were not in it
/// together, ns.
const APART_RESIDUALS: Ns = 4;
const TOGETHER_NS: Ns = 20_000;

/// Why no transfer time can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Untimed {
    /// A rank left before another one came: its data went into a buffer.
    Buffered,
    /// A rank left before another one came, although nobody leaves such a collective before all are there: its times are not
    /// what they seem, or it is not one collective.
    Apart,
    /// One kernel carries different operations, or ranks disagree about which it is.
    Mixed,
    /// The clocks of the ranks cannot be compared.
    NoClock,
}

impl Untimed {
    /// What reports print.
    pub fn label(self) -> &'static str {
        match self {
            Untimed::Buffered => "buffered: the ranks were not in it at the same time",
            Untimed::Apart => {
                "the ranks were not in it at the same time, as such a collective needs"
            }
            Untimed::Mixed => "one kernel carries different operations",
            Untimed::NoClock => "the clocks of the ranks cannot be compared",
        }
    }
}

/// One matched collective in numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timing {
    /// Time in which data moved, ns, or why it cannot be told from waiting.
    pub transfer: Result<Ns, Untimed>,
    /// How long each member waited for the others, ns; empty where nothing tells.
    pub wait_ns: Vec<Ns>,
    /// Position among the members of the rank that arrived last, where the order is certain.
    pub last: Option<usize>,
    /// Position of the rank that arrived first, where that is certain.
    pub first: Option<usize>,
    /// Latest minus earliest start on the common clock, ns.
    pub arrival_spread_ns: Option<Ns>,
    /// Latest minus earliest end on the common clock, ns; only where ranks leave together.
    pub leave_spread_ns: Option<Ns>,
}

/// Measures one match.
pub(crate) fn timing(m: &Match, events: &[&[Event]], clocks: &[RankClock]) -> Timing {
    let members: Vec<&Event> = m.members.iter().map(|at| &events[at.rank][at.event]).collect();
    let clock = |position: usize| &clocks[m.members[position].rank];
    let comparable = (1..members.len()).all(|position| clock(position).comparable(clock(0)));
    let common = |at: fn(&Event) -> Ns| -> Option<Extremes> {
        let times =
            members.iter().enumerate().map(|(position, event)| clock(position).common(at(event)));
        comparable.then(|| Extremes::of(times)).flatten()
    };
    let (starts, ends) = (common(|e| e.start), common(|e| e.end));
    // What remains between two clocks is also how far their ranks are from leaving together, which bounds what durations say.
    let doubt = |a: usize, b: usize| {
        clock(a)
            .residual_p95_ns
            .zip(clock(b).residual_p95_ns)
            .map_or(UNTESTED_NS, |(a, b)| a.saturating_add(b))
    };
    let mut timing = Timing {
        transfer: Err(Untimed::NoClock),
        wait_ns: Vec::new(),
        last: None,
        first: None,
        arrival_spread_ns: starts.map(Extremes::spread),
        leave_spread_ns: None,
    };
    let op = members[0].op;
    if op == CommOp::Other || members.iter().any(|event| event.op != op) {
        timing.transfer = Err(Untimed::Mixed);
    } else if members.iter().all(|event| event.leaves_together()) {
        timing.leave_spread_ns = ends.map(Extremes::spread);
        // As far as clocks tell: ranks that do not leave together have a large residual on the best of clocks, but its median
        // is that of the clocks unless most of their collectives are so.
        let typical = |position: usize| clock(position).residual_p50_ns;
        let slack = |position: usize| {
            typical(0).zip(typical(position)).map_or(UNTESTED_NS, |(a, b)| {
                a.saturating_add(b).saturating_mul(APART_RESIDUALS).max(TOGETHER_NS)
            })
        };
        let slack = (1..members.len()).map(slack).max().unwrap_or(0);
        if starts.zip(ends).is_some_and(|(s, e)| s.latest.saturating_sub(e.earliest) > slack) {
            timing.transfer = Err(Untimed::Apart);
            return timing;
        }
        let durations: Vec<Ns> = members.iter().map(|event| event.duration()).collect();
        let Some(&shortest) = durations.iter().min() else { return timing };
        timing.transfer = Ok(shortest);
        timing.wait_ns = durations.iter().map(|d| d.saturating_sub(shortest)).collect();
        timing.order(doubt);
    } else if let (Some(starts), Some(ends)) = (starts, ends) {
        // A rank that left before another came has only put its data into a buffer.
        if starts.latest >= ends.earliest {
            timing.transfer = Err(Untimed::Buffered);
            return timing;
        }
        timing.transfer = Ok(ends.latest.saturating_sub(starts.latest));
        // Copies of a copy-engine collective do not wait for each other.
        if members.iter().all(|event| event.is_kernel()) {
            let start = |position: usize| clock(position).common(members[position].start);
            timing.wait_ns = (0..members.len())
                .map(|position| starts.latest.saturating_sub(start(position)))
                .collect();
            timing.order(doubt);
            // Sums of many waits that clocks do not tell from none would be a wait.
            let last = timing.wait_ns.iter().position(|&wait| wait == 0).unwrap_or(0);
            for position in 0..members.len() {
                if timing.wait_ns[position] <= doubt(position, last) {
                    timing.wait_ns[position] = 0;
                }
            }
        }
    }
    timing
}

impl Timing {
    /// Who came last and first, by who waited least and most, as far as waits differ by more than what is in doubt between two members.
    fn order(&mut self, doubt: impl Fn(usize, usize) -> Ns) {
        let mut order: Vec<usize> = (0..self.wait_ns.len()).collect();
        order.sort_by_key(|&position| (self.wait_ns[position], position));
        let apart =
            |a: usize, b: usize| (self.wait_ns[b] - self.wait_ns[a] > doubt(a, b)).then_some(());
        if let [last, next, ..] = order.as_slice() {
            self.last = apart(*last, *next).map(|()| *last);
        }
        if let [.., next, first] = order.as_slice() {
            self.first = apart(*next, *first).map(|()| *first);
        }
    }
}

/// Earliest and latest of some times.
#[derive(Debug, Clone, Copy)]
struct Extremes {
    earliest: Ns,
    latest: Ns,
}

impl Extremes {
    fn of(mut times: impl Iterator<Item = Ns>) -> Option<Extremes> {
        let first = times.next()?;
        let start = Extremes { earliest: first, latest: first };
        Some(
            times.fold(start, |e, t| Extremes {
                earliest: e.earliest.min(t),
                latest: e.latest.max(t),
            }),
        )
    }

    fn spread(self) -> Ns {
        self.latest.saturating_sub(self.earliest)
    }
}

/// algbw and busbw in decimal GB/s (bytes a nanosecond) of `payload` bytes on `n` ranks in `transfer_ns`; `None` without a
/// transfer time, or where it depends on the number of ranks and that is not known.
pub(crate) fn bandwidth(
    op: CommOp,
    payload: u64,
    n: Option<u32>,
    transfer_ns: Ns,
) -> Option<(f64, f64)> {
    let n = if op.depends_on_size() { n.filter(|n| *n > 1)? } else { n.unwrap_or(2) };
    if transfer_ns <= 0 || op == CommOp::Other {
        return None;
    }
    let algbw = op.algorithm_bytes(payload, n) / transfer_ns as f64;
    Some((algbw, algbw * op.bus_factor(n)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collectives::matches::Method;
    use crate::collectives::refs::{EventRef, RankIx};
    use crate::collectives::test_events::{kernel, of};

    /// Two ranks on one clock that is good to `doubt` ns.
    fn measure(events: [Event; 2], doubt: Option<Ns>) -> Timing {
        let mut clocks = [RankClock::shifted(0, 0), RankClock::shifted(0, 0)];
        for clock in &mut clocks {
            (clock.residual_p50_ns, clock.residual_p95_ns) = (doubt, doubt);
        }
        let m = Match {
            members: [0, 1].map(|r| EventRef::new(RankIx(r), 0)).to_vec(),
            method: Method::Communicator,
            step: None,
            role: None,
        };
        timing(&m, &[&events[..1], &events[1..]], &clocks)
    }

    // rank 0  [100        AllReduce        500)
    // rank 1             [300              505)    came last, 195 ns of transfer
    #[test]
    fn the_shortest_duration_is_the_transfer_and_its_rank_came_last() {
        let timing = measure([kernel(100, 500), kernel(300, 505)], Some(10));
        assert_eq!((timing.transfer, timing.wait_ns.as_slice()), (Ok(205), &[195, 0][..]));
        assert_eq!((timing.last, timing.first), (Some(1), Some(0)));
        assert_eq!((timing.arrival_spread_ns, timing.leave_spread_ns), (Some(200), Some(5)));
    }

    #[test]
    fn no_order_where_the_residual_exceeds_the_skew() {
        let events = || [kernel(100, 500), kernel(300, 500)];
        // 200 ns of skew, and two clocks that are each good to half of that.
        assert_eq!(measure(events(), Some(99)).last, Some(1));
        assert_eq!(
            (measure(events(), Some(100)).last, measure(events(), Some(100)).wait_ns),
            (None, vec![200, 0])
        );
        // Nothing tested the clocks: only a skew that no clock explains is an order.
        assert_eq!(measure(events(), None).last, None);
        assert_eq!(measure([kernel(100, 90_000), kernel(80_000, 90_000)], None).last, Some(1));
    }

    // rank 0  [100              500)
    // rank 1  [102              500)   too close to rank 0 to be first or not
    // rank 2          [400      500)   surely last
    #[test]
    fn last_and_first_must_each_stand_apart() {
        let mut clocks = vec![RankClock::shifted(0, 0); 3];
        clocks.iter_mut().for_each(|clock| clock.residual_p95_ns = Some(2));
        let m = Match {
            members: [0, 1, 2].map(|r| EventRef::new(RankIx(r), 0)).to_vec(),
            method: Method::Communicator,
            step: None,
            role: None,
        };
        let events = [kernel(100, 500), kernel(102, 500), kernel(400, 500)];
        let timing = timing(&m, &[&events[..1], &events[1..2], &events[2..]], &clocks);
        assert_eq!((timing.last, timing.first), (Some(2), None));
    }

    // Broadcast: the root may finish early.
    // root    [100    200)                        [100      200)
    // rank 1      [150    260)   latest end - latest start = 110       [210  260)   buffered
    // The root was in it 50 ns before the other, which is a wait if the clocks are good enough to see it.
    #[test]
    fn ranks_that_do_not_leave_together_are_timed_by_the_clock() {
        let on_time =
            measure([of(CommOp::Broadcast, 100, 200), of(CommOp::Broadcast, 150, 260)], Some(1));
        assert_eq!((on_time.transfer, on_time.wait_ns.as_slice()), (Ok(110), &[50, 0][..]));
        assert_eq!(
            (on_time.last, on_time.first, on_time.leave_spread_ns),
            (Some(1), Some(0), None)
        );
        for doubt in [Some(25), None] {
            let unsure =
                measure([of(CommOp::Broadcast, 100, 200), of(CommOp::Broadcast, 150, 260)], doubt);
            assert_eq!(
                (unsure.transfer, unsure.wait_ns.as_slice(), unsure.last),
                (Ok(110), &[0, 0][..], None),
                "{doubt:?}"
            );
        }
        let buffered =
            measure([of(CommOp::Broadcast, 100, 200), of(CommOp::Broadcast, 200, 260)], Some(1));
        assert_eq!(
            (buffered.transfer, buffered.wait_ns.len(), buffered.last),
            (Err(Untimed::Buffered), 0, None)
        );
    }

    // sender           [8000 8195)
    // receiver  [0          8208)   in the kernel for 8.2 us, of which the data takes 208 ns
    #[test]
    fn a_receiver_waits_for_its_sender() {
        let timing =
            measure([of(CommOp::SendRecv, 8000, 8195), of(CommOp::SendRecv, 0, 8208)], Some(10));
        assert_eq!((timing.transfer, timing.wait_ns.as_slice()), (Ok(208), &[0, 8000][..]));
        assert_eq!(
            (timing.last, timing.first, timing.arrival_spread_ns),
            (Some(0), Some(1), Some(8000))
        );
    }

    #[test]
    fn nothing_is_timed_that_is_not_one_operation_on_one_clock() {
        let mixed = measure([kernel(100, 500), of(CommOp::Broadcast, 100, 500)], Some(1));
        assert_eq!((mixed.transfer, mixed.last), (Err(Untimed::Mixed), None));
        let m = Match {
            members: [0, 1].map(|r| EventRef::new(RankIx(r), 0)).to_vec(),
            method: Method::Communicator,
            step: None,
            role: None,
        };
        let events = [of(CommOp::Reduce, 100, 500), of(CommOp::Reduce, 100, 500)];
        let clocks = [RankClock::shifted(0, 0), RankClock::shifted(0, 1)];
        let apart = timing(&m, &[&events[..1], &events[1..]], &clocks);
        assert_eq!((apart.transfer, apart.arrival_spread_ns), (Err(Untimed::NoClock), None));
    }

    // rank 0  [100  500)
    // rank 1                [90500  90900)   90 us later: nobody leaves an AllReduce before all are there
    #[test]
    fn a_collective_whose_ranks_were_never_in_it_at_once_has_no_transfer() {
        let apart = || [kernel(100, 500), kernel(90_500, 90_900)];
        let timing = measure(apart(), Some(10));
        assert_eq!((timing.transfer, timing.last), (Err(Untimed::Apart), None));
        assert_eq!(timing.wait_ns, [0i64; 0]);
        // 12 us on each clock: four times both is more than the gap, and the clocks are not good enough to say so.
        assert_eq!(measure(apart(), Some(12_000)).transfer, Ok(400));
        assert_eq!(measure(apart(), Some(11_000)).transfer, Err(Untimed::Apart));
    }

    // Copies of a copy-engine collective do not wait for each other: their durations say nothing about who came last.
    #[test]
    fn a_copy_engine_collective_has_no_last_rank() {
        let copies = |start, end| Event {
            name: crate::model::NameId::NONE,
            ..of(CommOp::AllGather, start, end)
        };
        let timing = measure([copies(100, 500), copies(300, 520)], Some(1));
        assert_eq!((timing.transfer, timing.wait_ns.len(), timing.last), (Ok(220), 0, None));
    }

    #[test]
    fn bandwidth_by_the_formulas_of_nccl_tests() {
        // 1000 bytes in 100 ns on 4 ranks: (operation, algbw, busbw)
        let cases = [
            (CommOp::AllReduce, 10.0, 15.0),
            (CommOp::AllGather, 40.0, 30.0),
            (CommOp::ReduceScatter, 40.0, 30.0),
            (CommOp::AllToAll, 40.0, 30.0),
            (CommOp::Gather, 40.0, 30.0),
            (CommOp::Scatter, 40.0, 30.0),
            (CommOp::Broadcast, 10.0, 10.0),
            (CommOp::Reduce, 10.0, 10.0),
            (CommOp::SendRecv, 10.0, 10.0),
        ];
        for (op, algbw, busbw) in cases {
            assert_eq!(bandwidth(op, 1000, Some(4), 100), Some((algbw, busbw)), "{op:?}");
        }
        assert_eq!(bandwidth(CommOp::Other, 1000, Some(4), 100), None);
        assert_eq!(bandwidth(CommOp::AllReduce, 1000, Some(4), 0), None);
        // A communicator of unknown size, or of one rank.
        assert_eq!(bandwidth(CommOp::AllReduce, 1000, None, 100), None);
        assert_eq!(bandwidth(CommOp::AllReduce, 1000, Some(1), 100), None);
        assert_eq!(bandwidth(CommOp::SendRecv, 1000, None, 100), Some((10.0, 10.0)));
    }
}
