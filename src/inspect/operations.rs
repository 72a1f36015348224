//! Single operations with the records that several ranks have of each.

use crate::model::CommOp;

use super::tally::Seen;

/// What a series of operations is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeriesKey {
    /// Communicator hash as logged.
    pub comm_id: String,
    /// True for point-to-point records, whose numbers differ between peers.
    pub p2p: bool,
    /// The operation; `None` if unknown.
    pub op: Option<CommOp>,
    /// Ranks of the communicator.
    pub n_ranks: u32,
}

/// Records in order of communicator, kind, operation, sequence number and rank.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Operations {
    series: Vec<SeriesKey>,
    seen: Vec<Seen>,
    /// Records left out because the same rank had one of the same number already.
    pub repeated: u64,
}

/// One operation: the records of a communicator, operation, sequence number and size; of point-to-point only one rank's.
#[derive(Debug, Clone, Copy)]
pub struct Operation<'a> {
    /// Index of the series in [`Operations::series`].
    pub series: usize,
    /// What it is.
    pub key: &'a SeriesKey,
    /// Sequence number.
    pub sn: u64,
    /// Message size in bytes; `None` if unknown.
    pub bytes: Option<u64>,
    /// One record for each rank, in order of rank. Never empty.
    pub records: &'a [Seen],
}

impl Operations {
    /// Sorts `seen`, whose `series` are indices into `series`, which is in ascending order.
    pub fn new(series: Vec<SeriesKey>, mut seen: Vec<Seen>) -> Self {
        let p2p = |s: &Seen| series.get(s.series as usize).is_some_and(|key| key.p2p);
        // The order within one rank is by time, so that of records of one number the earliest stays whatever the order of files.
        seen.sort_by(|a, b| {
            let key = |s: &Seen| {
                (s.series, if p2p(s) { s.rank } else { 0 }, s.sn, s.bytes, s.rank, s.written_us)
            };
            key(a).cmp(&key(b)).then(a.exec_us.total_cmp(&b.exec_us))
        });
        let before = seen.len();
        seen.dedup_by_key(|s| (s.series, s.rank, s.sn, s.bytes));
        let repeated = (before - seen.len()) as u64;
        Self { series, seen, repeated }
    }

    /// The series.
    pub fn series(&self) -> &[SeriesKey] {
        &self.series
    }

    /// The operations in order.
    pub fn iter(&self) -> impl Iterator<Item = Operation<'_>> {
        let same = |a: &Seen, b: &Seen| {
            let p2p = self.series.get(a.series as usize).is_some_and(|key| key.p2p);
            (a.series, a.sn, a.bytes) == (b.series, b.sn, b.bytes) && (!p2p || a.rank == b.rank)
        };
        self.seen.chunk_by(same).filter_map(|records| {
            let first = records.first()?;
            let series = first.series as usize;
            let bytes = (first.bytes != u64::MAX).then_some(first.bytes);
            Some(Operation { series, key: self.series.get(series)?, sn: first.sn, bytes, records })
        })
    }
}

impl Operation<'_> {
    /// The shortest time of the ranks that logged it, microseconds: the best estimate of the transfer if all did.
    pub fn shortest_us(&self) -> Option<f64> {
        self.records.iter().map(|r| r.exec_us).filter(|t| t.is_finite()).reduce(f64::min)
    }

    /// The longest time, microseconds.
    pub fn longest_us(&self) -> Option<f64> {
        self.records.iter().map(|r| r.exec_us).filter(|t| t.is_finite()).reduce(f64::max)
    }

    /// Mean of the bus bandwidths as logged, decimal GB/s.
    pub fn logged_busbw_mean(&self) -> Option<f64> {
        let (mut sum, mut count) = (0.0, 0_u32);
        for record in self.records.iter().filter(|r| r.logged_busbw.is_finite()) {
            sum += record.logged_busbw;
            count += 1;
        }
        (count > 0).then(|| sum / f64::from(count))
    }

    /// First and last time of writing, Unix microseconds.
    pub fn written_us(&self) -> Option<(i64, i64)> {
        let times = || self.records.iter().map(|r| r.written_us).filter(|&t| t != i64::MIN);
        Some((times().min()?, times().max()?))
    }

    /// True if every rank of the communicator has a record with a time.
    pub fn is_complete(&self) -> bool {
        !self.key.p2p
            && self.records.len() as u64 == u64::from(self.key.n_ranks)
            && self.records.iter().all(|r| r.exec_us.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(series: u32, rank: u32, sn: u64, exec_us: f64, written_us: i64) -> Seen {
        Seen { series, rank, sn, bytes: 64, exec_us, logged_busbw: exec_us * 2.0, written_us }
    }

    fn key(p2p: bool, op: CommOp) -> SeriesKey {
        SeriesKey { comm_id: "0xa".into(), p2p, op: Some(op), n_ranks: 2 }
    }

    #[test]
    fn records_of_all_ranks_meet_and_point_to_point_records_do_not() {
        let series = vec![key(false, CommOp::AllReduce), key(true, CommOp::Send)];
        let records = vec![
            seen(1, 1, 1, 3.0, 30),
            seen(0, 1, 7, 5.0, 10),
            seen(0, 0, 7, 9.0, 12),
            seen(1, 0, 1, 4.0, 31),
            seen(0, 0, 8, f64::NAN, i64::MIN),
        ];
        let operations = Operations::new(series, records);
        let all: Vec<_> = operations
            .iter()
            .map(|o| (o.sn, o.records.len(), o.shortest_us(), o.longest_us(), o.is_complete()))
            .collect();
        assert_eq!(
            all,
            [
                (7, 2, Some(5.0), Some(9.0), true),
                (8, 1, None, None, false),
                (1, 1, Some(4.0), Some(4.0), false),
                (1, 1, Some(3.0), Some(3.0), false)
            ]
        );
        let first = operations.iter().next().expect("one");
        assert_eq!((first.logged_busbw_mean(), first.written_us()), (Some(14.0), Some((10, 12))));
    }

    #[test]
    fn of_two_records_of_one_number_the_earlier_stays() {
        let series = vec![key(false, CommOp::AllReduce)];
        let operations =
            Operations::new(series, vec![seen(0, 0, 1, 5.0, 20), seen(0, 0, 1, 7.0, 10)]);
        assert_eq!(
            (operations.repeated, operations.iter().next().and_then(|o| o.shortest_us())),
            (1, Some(7.0))
        );
    }
}
