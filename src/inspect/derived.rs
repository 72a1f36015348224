//! What follows from an inspection where it is printed: shares, the costliest operations, a row for each operation.

use std::collections::BTreeMap;

use super::inspected::Inspected;
use super::operations::Operation;
use super::view::{Communicator, Inspection, Op, Waits};
use crate::model::CommOp;
use crate::model::record::{busbw_gbs, comm_class};

/// One operation over all ranks that logged it.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationRow<'a> {
    /// Communicator hash as logged.
    pub comm_id: &'a str,
    /// Name of the communicator.
    pub comm_name: Option<&'a str>,
    /// See [`comm_class`].
    pub class: &'static str,
    /// Ranks of the communicator.
    pub n_ranks: u32,
    /// Nodes of the communicator.
    pub nnodes: Option<u32>,
    /// `AllReduce`, ...; `Invalid` if unknown.
    pub op: &'static str,
    /// Sequence number.
    pub sn: u64,
    /// Message size in bytes.
    pub bytes: Option<u64>,
    /// The rank of a point-to-point record, whose number is its own.
    pub p2p_rank: Option<u32>,
    /// Ranks that logged it.
    pub ranks: usize,
    /// True if every rank of the communicator has a record with a time.
    pub complete: bool,
    /// Shortest time of a rank, microseconds.
    pub shortest_us: Option<f64>,
    /// Longest time of a rank, microseconds.
    pub longest_us: Option<f64>,
    /// Bus bandwidth of the shortest time, decimal GB/s.
    pub busbw_gbs: Option<f64>,
    /// Mean of the bus bandwidths as logged, decimal GB/s.
    pub logged_busbw_gbs: Option<f64>,
    /// Longest minus shortest time, microseconds; `None` unless it is complete and all ranks leave it together.
    pub longest_wait_us: Option<f64>,
    /// The rank that the others waited for; `None` where `longest_wait_us` is.
    pub last_rank: Option<u32>,
    /// First and last time of writing, Unix microseconds.
    pub written_us: Option<(i64, i64)>,
}

/// The bandwidth of one operation and size over the run.
#[derive(Debug, Clone, PartialEq)]
pub struct Series<'a> {
    /// Its communicator.
    pub comm: &'a Communicator,
    /// Operation and size.
    pub op: &'a Op,
    /// Its bandwidths with their counts.
    pub counts: &'a [(f64, u64)],
    /// Sequence number and bus bandwidth (decimal GB/s): of the shortest time where all ranks logged it, else of each rank.
    pub points: Vec<(f64, f64)>,
}

impl Waits {
    /// Waiting as a share (0 to 1) of the time in operations that could be compared.
    pub fn share(&self) -> Option<f64> {
        share_of([self])
    }
}

/// Waiting as a share (0 to 1) of the time in compared operations, all together.
fn share_of<'a>(waits: impl IntoIterator<Item = &'a Waits>) -> Option<f64> {
    let (waited, time) = waits.into_iter().fold((0.0, 0.0), |(waited, time), w| {
        (waited + w.wait_total_us.unwrap_or(0.0), time + w.compared_time_us.unwrap_or(0.0))
    });
    (time > 0.0).then(|| waited / time)
}

impl Communicator {
    /// Waiting of its ranks as a share (0 to 1) of their time in operations that all ranks logged.
    pub fn wait_share(&self) -> Option<f64> {
        share_of(self.ranks.iter().map(|rank| &rank.waits))
    }
}

impl Inspection {
    /// Waiting as a share (0 to 1) of the time in operations that all ranks logged.
    pub fn wait_share(&self) -> Option<f64> {
        share_of(self.processes.iter().map(|process| &process.waits))
    }

    /// Time in operations over all ranks, microseconds.
    pub fn total_time_us(&self) -> f64 {
        self.communicators.iter().map(|comm| comm.total_time_us).sum()
    }

    /// Operations and sizes with their communicators, those with most time first.
    pub fn costliest(&self) -> Vec<(&Communicator, &Op)> {
        let mut list: Vec<(&Communicator, &Op)> =
            self.communicators.iter().flat_map(|c| c.ops.iter().map(move |op| (c, op))).collect();
        list.sort_by(|a, b| b.1.total_time_us.total_cmp(&a.1.total_time_us));
        list
    }
}

impl Inspected {
    /// The operations that were kept one by one.
    pub fn operation_rows(&self) -> impl Iterator<Item = OperationRow<'_>> {
        let comms: BTreeMap<&str, &Communicator> =
            self.view.communicators.iter().map(|c| (c.comm_id.as_str(), c)).collect();
        self.seen.iter().map(move |operation| {
            let comm = comms.get(operation.key.comm_id.as_str()).copied();
            row(comm, &operation)
        })
    }

    /// The bandwidth over the run of the `most` operations and sizes with most time, of at most `points` points each.
    pub fn series(&self, most: usize, points: usize) -> Vec<Series<'_>> {
        let has_bandwidth = |op: &Op| op.busbw_gbs.is_some_and(|band| band.p95 > 0.0);
        let all = self.view.communicators.iter().zip(&self.bandwidths);
        let mut list: Vec<Series<'_>> = all
            .flat_map(|(comm, counts)| comm.ops.iter().zip(counts).map(move |op| (comm, op)))
            .filter(|(_, (op, _))| has_bandwidth(op))
            .map(|(comm, (op, counts))| Series { comm, op, counts, points: Vec::new() })
            .collect();
        list.sort_by(|a, b| b.op.total_time_us.total_cmp(&a.op.total_time_us));
        list.truncate(most);
        let exact = list.iter().enumerate().filter(|(_, series)| series.op.bytes_range.is_none());
        let places: BTreeMap<(&str, &str, Option<u64>), usize> = exact
            .map(|(at, s)| ((s.comm.comm_id.as_str(), s.op.op.label(), s.op.bytes), at))
            .collect();
        for operation in self.seen.iter() {
            let Some((op, bytes)) = operation.key.op.zip(operation.bytes) else { continue };
            let key = (operation.key.comm_id.as_str(), op.label(), Some(bytes));
            if let Some(series) = places.get(&key).and_then(|&at| list.get_mut(at)) {
                let gbs = |us: f64| busbw_gbs(op, bytes, operation.key.n_ranks, us);
                series
                    .points
                    .extend(times(&operation).into_iter().map(|us| (operation.sn as f64, gbs(us))));
            }
        }
        for series in &mut list {
            let step = series.points.len().div_ceil(points.max(1)).max(1);
            series.points = series.points.iter().copied().step_by(step).collect();
        }
        list
    }
}

/// The times that stand for an operation, microseconds: the shortest if every rank has one, else those that there are.
fn times(operation: &Operation<'_>) -> Vec<f64> {
    match operation.shortest_us().filter(|_| operation.is_complete()) {
        Some(shortest) => vec![shortest],
        None => operation.records.iter().map(|r| r.exec_us).filter(|t| t.is_finite()).collect(),
    }
}

fn row<'a>(comm: Option<&'a Communicator>, operation: &Operation<'a>) -> OperationRow<'a> {
    let key = operation.key;
    let nnodes = comm.and_then(|c| c.nnodes);
    let (shortest, longest) = (operation.shortest_us(), operation.longest_us());
    let complete = operation.is_complete();
    let waits = complete && key.op.is_some_and(CommOp::leaves_together) && key.n_ranks > 1;
    let last = operation.records.iter().find(|r| Some(r.exec_us) == shortest).map(|r| r.rank);
    OperationRow {
        comm_id: &key.comm_id,
        comm_name: comm.and_then(|c| c.name.as_deref()),
        class: comm_class(key.n_ranks, nnodes),
        n_ranks: key.n_ranks,
        nnodes,
        op: key.op.map_or("Invalid", CommOp::label),
        sn: operation.sn,
        bytes: operation.bytes,
        p2p_rank: operation.records.first().filter(|_| key.p2p).map(|r| r.rank),
        ranks: operation.records.len(),
        complete,
        shortest_us: shortest,
        longest_us: longest,
        busbw_gbs: key
            .op
            .zip(operation.bytes)
            .zip(shortest)
            .map(|((op, bytes), us)| busbw_gbs(op, bytes, key.n_ranks, us)),
        logged_busbw_gbs: operation.logged_busbw_mean(),
        longest_wait_us: longest.zip(shortest).filter(|_| waits).map(|(l, s)| l - s),
        last_rank: last.filter(|_| waits),
        written_us: operation.written_us(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_of_what_could_be_compared() {
        let waits =
            |wait, time| Waits { wait_total_us: wait, compared_time_us: time, ..Waits::default() };
        assert_eq!(waits(Some(25.0), Some(100.0)).share(), Some(0.25));
        assert_eq!(waits(None, None).share(), None);
        assert_eq!(waits(Some(0.0), Some(0.0)).share(), None);
        // 10 of 50 and 30 of 150 are 40 of 200.
        assert_eq!(
            share_of([&waits(Some(10.0), Some(50.0)), &waits(Some(30.0), Some(150.0))]),
            Some(0.2)
        );
    }
}
