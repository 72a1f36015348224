//! What stands below a rank's operations in the timeline: the channels that NPKit saw inside of its kernels, and what was sampled
//! of its GPU.

use std::collections::BTreeMap;

use super::{build, counted};
use crate::counters::samples::{self, Sample};
use crate::model::Span;
use crate::model::counter::{Quantity, Unit};
use crate::npkit::lanes::{ChannelLane, lanes};
use crate::run::Run;

/// Samples of a counter in one step, at most: more are averaged, neighbour with neighbour.
const MOST_SAMPLES: usize = 200;

/// The counters that are drawn, from the top: shares of what is possible, each seen once.
const DRAWN: [Quantity; 10] = [
    Quantity::SmActive,
    Quantity::TensorActive,
    Quantity::DramActive,
    Quantity::DramRead,
    Quantity::DramWrite,
    Quantity::NvlinkTx,
    Quantity::NvlinkRx,
    Quantity::PcieTx,
    Quantity::PcieRx,
    Quantity::GpuBusy,
];

/// A counter over some time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Level {
    /// The counter.
    pub quantity: Quantity,
    /// When.
    pub span: Span,
    /// Its mean, percent.
    pub percent: f64,
    /// Samples behind it.
    pub count: u64,
}

/// All of a run.
#[derive(Debug, Default)]
pub(super) struct Inside {
    /// By rank, in order of start.
    channels: BTreeMap<u32, Vec<ChannelLane>>,
    /// By rank and counter, in order of time.
    samples: BTreeMap<(u32, Quantity), Vec<Sample>>,
}

impl Inside {
    /// Everything that is known of a run.
    pub(super) fn of(run: &Run) -> Inside {
        let channels = build::npkit(run).map_or_else(Vec::new, |joined| lanes(&joined));
        Inside::from(channels, samples::samples(&counted::work(run), &run.sampled))
    }

    fn from(channels: Vec<ChannelLane>, samples: Vec<Sample>) -> Inside {
        let mut inside = Inside::default();
        for lane in channels {
            inside.channels.entry(lane.rank).or_default().push(lane);
        }
        for list in inside.channels.values_mut() {
            list.sort_by_key(|lane| (lane.start_ns, lane.channel));
        }
        for sample in samples {
            if DRAWN.contains(&sample.quantity) && sample.unit == Unit::Percent {
                inside.samples.entry((sample.rank, sample.quantity)).or_default().push(sample);
            }
        }
        inside
    }

    /// Channels of a rank that begin in a window (the rank's own time): at most `most`, the longest, in order of start. With them
    /// how many are left out.
    pub(super) fn channels(
        &self,
        rank: u32,
        window: Span,
        most: usize,
    ) -> (Vec<&ChannelLane>, u64) {
        let all = self.channels.get(&rank).map_or(&[][..], Vec::as_slice);
        let first = all.partition_point(|lane| lane.start_ns < window.start);
        let last = all.partition_point(|lane| lane.start_ns < window.end);
        let mut list: Vec<&ChannelLane> = all.get(first..last).unwrap_or_default().iter().collect();
        let left_out = list.len().saturating_sub(most);
        list.sort_by_key(|lane| std::cmp::Reverse(lane.end_ns - lane.start_ns));
        list.truncate(most);
        list.sort_by_key(|lane| (lane.start_ns, lane.channel));
        (list, left_out as u64)
    }

    /// What was sampled of a rank in a window (its own time), by counter and time.
    pub(super) fn levels(&self, rank: u32, window: Span) -> Vec<Level> {
        let mut list = Vec::new();
        for quantity in DRAWN {
            let Some(own) = self.samples.get(&(rank, quantity)) else { continue };
            let first = own.partition_point(|sample| sample.end_ns <= window.start);
            let last = own.partition_point(|sample| sample.time_ns < window.end);
            let own = own.get(first..last).unwrap_or_default();
            let together = own.len().div_ceil(MOST_SAMPLES).max(1);
            list.extend(own.chunks(together).filter_map(|part| mean(quantity, part, window)));
        }
        list
    }
}

/// Samples that follow each other as one, cut to the window.
fn mean(quantity: Quantity, part: &[Sample], window: Span) -> Option<Level> {
    let (first, last) = part.first().zip(part.last())?;
    let length = |sample: &Sample| (sample.end_ns - sample.time_ns).max(0) as f64;
    let total: f64 = part.iter().map(length).sum();
    let sum: f64 = part.iter().map(|sample| sample.value * length(sample)).sum();
    let span = Span::new(first.time_ns, last.end_ns).clip(window);
    let percent = sum / total;
    (percent.is_finite() && !span.is_empty()).then_some(Level {
        quantity,
        span,
        percent,
        count: part.len() as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Ns;

    fn sample(time_ns: Ns, end_ns: Ns, value: f64) -> Sample {
        Sample {
            rank: 3,
            time_ns,
            end_ns,
            quantity: Quantity::SmActive,
            unit: Unit::Percent,
            value,
        }
    }

    // samples  [0 10)=10  [10 20)=20 [20 40)=50   window [5 30)
    #[test]
    fn samples_are_cut_to_the_window() {
        let samples = vec![sample(0, 10, 10.0), sample(10, 20, 20.0), sample(20, 40, 50.0)];
        let inside = Inside::from(Vec::new(), samples);
        let found: Vec<(Ns, Ns, f64)> = inside
            .levels(3, Span::new(5, 30))
            .iter()
            .map(|level| (level.span.start, level.span.end, level.percent))
            .collect();
        assert_eq!(found, [(5, 10, 10.0), (10, 20, 20.0), (20, 30, 50.0)]);
        assert!(inside.levels(2, Span::new(5, 30)).is_empty());
    }

    // 401 samples of which 3 each are one: the last of 2. Of lengths 1, 1, 2: (0 + 1 + 2 * 2) / 4.
    #[test]
    fn many_samples_are_averaged_by_their_time() {
        let samples: Vec<Sample> =
            (0..401).map(|i| sample(i * 2, i * 2 + 1 + Ns::from(i == 2), i as f64)).collect();
        let inside = Inside::from(Vec::new(), samples);
        let found = inside.levels(3, Span::new(0, 10_000));
        assert_eq!(found.len(), 134);
        assert_eq!((found[0].percent, found[0].count, found[133].count), (1.25, 3, 2));
    }

    #[test]
    fn of_many_channels_the_longest_stay_in_order() {
        let lane = |channel, start_ns, end_ns| ChannelLane {
            rank: 0,
            channel,
            start_ns,
            end_ns,
            name: "RECV".to_owned(),
        };
        let channels = vec![lane(0, 10, 20), lane(1, 11, 40), lane(2, 12, 13), lane(3, 99, 300)];
        let inside = Inside::from(channels, Vec::new());
        let (list, left_out) = inside.channels(0, Span::new(0, 50), 2);
        let found: Vec<u32> = list.iter().map(|lane| lane.channel).collect();
        assert_eq!((found, left_out), (vec![0, 1], 1));
    }
}
