//! Who waits for whom: own time minus the shortest time of any rank.

use std::collections::BTreeMap;

use super::counts::Counts;
use super::operations::{Operation, Operations};
use super::tally::Size;
use super::view::{Tail, Waits};

/// A difference below this is no arrival order, microseconds: stamps of two GPUs of one operation differ by some.
const DECIDED_US: f64 = 10.0;
/// Nor is one below this share of the longest time.
const DECIDED_SHARE: f64 = 0.05;

/// Waits of one rank, process or group while they are added up.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct WaitTally {
    compared: u64,
    ordered: u64,
    last: u64,
    expected: f64,
    time_us: f64,
    total_us: f64,
    waits: Counts,
}

impl WaitTally {
    /// Adds one operation that took `time_us` of which `wait_us` were waiting. `last` is what this rank was, `None` if the order is not clear.
    fn add(&mut self, time_us: f64, wait_us: f64, last: Option<bool>, n_ranks: u32) {
        self.compared += 1;
        if let Some(last) = last {
            self.ordered += 1;
            self.last += u64::from(last);
            self.expected += 1.0 / f64::from(n_ranks);
        }
        self.time_us += time_us;
        self.total_us += wait_us;
        self.waits.add(wait_us);
    }

    /// The finished figures.
    pub(super) fn finish(&self) -> Waits {
        let any = self.compared > 0;
        Waits {
            compared: self.compared,
            ordered_count: self.ordered,
            last_count: self.last,
            last_expected: any.then_some(self.expected),
            compared_time_us: any.then_some(self.time_us),
            wait_total_us: any.then_some(self.total_us),
            wait_us: tail(&self.waits),
        }
    }
}

/// Middle and upper end of times.
pub(super) fn tail(counts: &Counts) -> Option<Tail> {
    let [p50, p95, p99] = counts.quantiles([0.5, 0.95, 0.99]);
    Some(Tail { p50: p50?, p95: p95?, p99: p99?, max: counts.max()? })
}

/// Operations of one series and size that all ranks logged.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct GroupWaits {
    /// Shortest times of any rank, microseconds.
    pub transfer: Counts,
    /// Bus bandwidths at the shortest time, decimal GB/s.
    pub transfer_busbw: Counts,
    /// Waits of all ranks, microseconds.
    pub waits: Counts,
}

/// Waits in every view of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct AllWaits<'a> {
    /// By series and size.
    pub groups: BTreeMap<(usize, Size), GroupWaits>,
    /// By communicator and rank.
    pub ranks: BTreeMap<(&'a str, u32), WaitTally>,
    /// By the process that `process_of` names.
    pub processes: BTreeMap<usize, WaitTally>,
}

/// Compares every operation that all ranks of its communicator logged and that they leave together.
/// `size_of` says how a series counts a size, `process_of` which process a rank of a communicator is.
pub(super) fn compare<'a>(
    operations: &'a Operations,
    size_of: impl Fn(&Operation<'_>) -> Size,
    process_of: impl Fn(&str, u32) -> Option<usize>,
) -> AllWaits<'a> {
    let mut all = AllWaits::default();
    for operation in operations.iter() {
        let Some(op) = operation.key.op.filter(|op| op.leaves_together()) else { continue };
        let n_ranks = operation.key.n_ranks;
        let (Some(shortest), Some(longest)) = (operation.shortest_us(), operation.longest_us())
        else {
            continue;
        };
        if n_ranks < 2 || !operation.is_complete() {
            continue;
        }
        let group = all.groups.entry((operation.series, size_of(&operation))).or_default();
        group.transfer.add(shortest);
        if let Some(bytes) = operation.bytes {
            group.transfer_busbw.add(crate::model::record::busbw_gbs(op, bytes, n_ranks, shortest));
        }
        let spread = longest - shortest;
        let decided = spread > DECIDED_US && spread > DECIDED_SHARE * longest;
        let last = operation.records.iter().find(|r| r.exec_us == shortest).map(|r| r.rank);
        for record in operation.records {
            let wait = record.exec_us - shortest;
            group.waits.add(wait);
            let last = decided.then_some(Some(record.rank) == last);
            all.ranks.entry((&operation.key.comm_id, record.rank)).or_default().add(
                record.exec_us,
                wait,
                last,
                n_ranks,
            );
            if let Some(process) = process_of(&operation.key.comm_id, record.rank) {
                all.processes.entry(process).or_default().add(record.exec_us, wait, last, n_ranks);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::operations::SeriesKey;
    use crate::inspect::tally::Seen;
    use crate::model::CommOp;

    /// One AllReduce of 1000 bytes on two ranks, by the times of rank 0 and rank 1.
    fn operations(op: CommOp, times: &[(f64, f64)]) -> Operations {
        let key = SeriesKey { comm_id: "0xa".into(), p2p: false, op: Some(op), n_ranks: 2 };
        let mut seen = Vec::new();
        for (sn, &(a, b)) in times.iter().enumerate() {
            for (rank, exec_us) in [(0, a), (1, b)] {
                seen.push(Seen {
                    series: 0,
                    rank,
                    sn: sn as u64,
                    bytes: 1000,
                    exec_us,
                    logged_busbw: f64::NAN,
                    written_us: 0,
                });
            }
        }
        seen.retain(|s| s.exec_us > 0.0);
        Operations::new(vec![key], seen)
    }

    fn waits(operations: &Operations) -> AllWaits<'_> {
        compare(operations, |o| Size::Exact(o.bytes.unwrap_or(0)), |_, rank| Some(rank as usize))
    }

    #[test]
    fn the_rank_with_the_shortest_time_came_last_if_the_other_waited_long_enough() {
        // rank 0   |-- 100 --|   |5|  |- 40 -|   |--- 1000 ---|   only rank 1
        // rank 1        |-40-|   |9|  |- 49 -|   |--- 1045 ---|
        //           1 is last    < 10 us       < 5 %
        let operations = operations(
            CommOp::AllReduce,
            &[(100.0, 40.0), (5.0, 9.0), (40.0, 49.0), (1000.0, 1045.0), (0.0, 70.0)],
        );
        let all = waits(&operations);
        let [zero, one] = [0, 1].map(|rank| all.ranks[&("0xa", rank)].finish());
        assert_eq!((zero.compared, zero.last_count, zero.wait_total_us), (4, 0, Some(60.0)));
        assert_eq!((one.compared, one.last_count, one.wait_total_us), (4, 1, Some(58.0)));
        assert_eq!(zero.last_expected, Some(0.5));
        assert_eq!(all.processes[&1].finish(), one);
        let group = &all.groups[&(0, Size::Exact(1000))];
        assert_eq!((group.transfer.len(), group.transfer.median()), (4, Some(40.0)));
        // 1000 B in 40 us is 0.025 GB/s; the factor of an AllReduce on two ranks is 1.
        assert_eq!(group.transfer_busbw.median(), Some(0.025));
        assert_eq!(group.waits.max(), Some(60.0));
    }

    #[test]
    fn operations_that_are_not_left_together_are_not_compared() {
        assert_eq!(waits(&operations(CommOp::Broadcast, &[(100.0, 40.0)])), AllWaits::default());
    }
}
