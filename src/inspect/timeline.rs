//! How fast operations were over the run.

use std::collections::BTreeMap;

use super::counts::Counts;
use super::operations::{Operation, Operations};
use super::tally::Size;
use super::view::{Bin, Timeline};
use crate::model::record::busbw_gbs;

/// Most bins of a timeline.
const BINS: i64 = 60;
/// Operations that a kind and size needs before its median says what is usual.
const USUAL: u64 = 5;

#[derive(Debug, Default)]
struct BinTally {
    operations: u64,
    time_us: f64,
    usual_us: f64,
    /// Bytes on the bus in thousands, and the time of the operations that have such a figure.
    bus: (f64, f64),
}

/// The timeline of all communicators together, and that of each by its id.
pub(super) fn timelines(
    operations: &Operations,
    size_of: impl Fn(&Operation<'_>) -> Size,
) -> (Timeline, BTreeMap<String, Timeline>) {
    let mut times: BTreeMap<(usize, Size), Counts> = BTreeMap::new();
    let mut span: Option<(i64, i64)> = None;
    for operation in operations.iter() {
        if let (Some(time), Some((written, _))) = (operation.shortest_us(), operation.written_us())
        {
            times.entry((operation.series, size_of(&operation))).or_default().add(time);
            let (first, last) = span.unwrap_or((written, written));
            span = Some((first.min(written), last.max(written)));
        }
    }
    let Some((first, last)) = span else { return Default::default() };
    let usual: BTreeMap<(usize, Size), f64> = times
        .into_iter()
        .filter(|(_, t)| t.len() >= USUAL)
        .filter_map(|(key, t)| Some((key, t.median()?)))
        .collect();
    let width = bin_width(first, last);
    let mut all: BTreeMap<i64, BinTally> = BTreeMap::new();
    let mut by_comm: BTreeMap<&str, BTreeMap<i64, BinTally>> = BTreeMap::new();
    for operation in operations.iter() {
        let (Some(time), Some((written, _))) = (operation.shortest_us(), operation.written_us())
        else {
            continue;
        };
        let Some(&usual) = usual.get(&(operation.series, size_of(&operation))) else { continue };
        let at = written.div_euclid(width);
        let bus = operation
            .key
            .op
            .zip(operation.bytes)
            .map(|(op, bytes)| busbw_gbs(op, bytes, operation.key.n_ranks, time) * time);
        for bins in [&mut all, by_comm.entry(&operation.key.comm_id).or_default()] {
            let bin = bins.entry(at).or_default();
            bin.operations += 1;
            bin.time_us += time;
            bin.usual_us += usual;
            if let Some(bus) = bus {
                bin.bus.0 += bus;
                bin.bus.1 += time;
            }
        }
    }
    let finish = |bins: BTreeMap<i64, BinTally>| Timeline {
        bin_us: width,
        bins: bins
            .into_iter()
            .filter(|(_, bin)| bin.time_us > 0.0)
            .map(|(at, bin)| bin.finish(at.saturating_mul(width)))
            .collect(),
    };
    (finish(all), by_comm.into_iter().map(|(id, bins)| (id.to_owned(), finish(bins))).collect())
}

impl BinTally {
    fn finish(self, start_us: i64) -> Bin {
        let busbw_gbs = (self.bus.1 > 0.0).then(|| self.bus.0 / self.bus.1);
        Bin {
            start_us,
            operations: self.operations,
            time_us: self.time_us,
            relative_speed: self.usual_us / self.time_us,
            busbw_gbs,
        }
    }
}

/// The shortest of 1, 2, 5, 10, ... microseconds with which `first..=last` needs no more than [`BINS`] bins. Bins begin at multiples of
/// it since 1970, so that the same run gives the same bins whichever logs of it are there.
fn bin_width(first: i64, last: i64) -> i64 {
    let mut decade = 1_i64;
    loop {
        for factor in [1, 2, 5] {
            let width = decade.saturating_mul(factor);
            if last.div_euclid(width).saturating_sub(first.div_euclid(width)) < BINS {
                return width;
            }
        }
        decade = decade.saturating_mul(10);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::operations::SeriesKey;
    use crate::inspect::tally::Seen;
    use crate::model::CommOp;

    #[test]
    fn widths_are_round_and_bins_few() {
        assert_eq!(bin_width(0, 59), 1);
        assert_eq!(bin_width(0, 60), 2);
        assert_eq!(bin_width(1_000_000_000, 1_000_000_000 + 12_000_000), 500_000);
        assert!(bin_width(i64::MIN, i64::MAX) > 0);
    }

    #[test]
    fn a_slow_stretch_shows_as_less_than_1() {
        // time/us   0     10     20     30     40     50 ...  90
        // took      10     10     10     40     40     10 ...  10     the median is 10
        let key = SeriesKey {
            comm_id: "0xa".into(),
            p2p: false,
            op: Some(CommOp::AllReduce),
            n_ranks: 2,
        };
        let seen = (0..10_i64).map(|i| {
            let exec_us = if i == 3 || i == 4 { 40.0 } else { 10.0 };
            Seen {
                series: 0,
                rank: 0,
                sn: i as u64,
                bytes: 10_000,
                exec_us,
                logged_busbw: f64::NAN,
                written_us: i * 10,
            }
        });
        let operations = Operations::new(vec![key], seen.collect());
        let (all, by_comm) = timelines(&operations, |_| Size::Unknown);
        assert_eq!(all.bin_us, 2);
        let speeds: Vec<f64> = all.bins.iter().map(|b| b.relative_speed).collect();
        assert_eq!(speeds, [1.0, 1.0, 1.0, 0.25, 0.25, 1.0, 1.0, 1.0, 1.0, 1.0]);
        // 10 kB in 10 us is 1 GB/s.
        assert_eq!((all.bins[0].busbw_gbs, all.bins[3].busbw_gbs), (Some(1.0), Some(0.25)));
        assert_eq!(by_comm["0xa"], all);
    }

    #[test]
    fn too_few_operations_of_a_kind_say_nothing() {
        let key = SeriesKey {
            comm_id: "0xa".into(),
            p2p: false,
            op: Some(CommOp::AllReduce),
            n_ranks: 2,
        };
        let seen = (0..4).map(|i| Seen {
            series: 0,
            rank: 0,
            sn: i,
            bytes: 1,
            exec_us: 1.0,
            logged_busbw: 1.0,
            written_us: 5,
        });
        let (all, _) = timelines(&Operations::new(vec![key], seen.collect()), |_| Size::Unknown);
        assert!(all.bins.is_empty());
    }
}
