//! The samples themselves, for pictures and traces: what each counter of a rank was at each moment.

use super::classes::RankWork;
use super::place;
use crate::model::Ns;
use crate::model::counter::{Quantity, Sampled, Unit};

/// One sample of one counter.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    /// The rank whose GPU it is of.
    pub rank: u32,
    /// When it begins, ns in the time of the rank's report, as its operations are.
    pub time_ns: Ns,
    /// Until when it holds.
    pub end_ns: Ns,
    /// The counter.
    pub quantity: Quantity,
    /// Unit of the value.
    pub unit: Unit,
    /// Its value.
    pub value: f64,
}

impl Sample {
    /// Counter and unit: `SM active [%]`.
    pub(crate) fn name(&self) -> String {
        format!("{} [{}]", self.quantity.label(), self.unit.label())
    }
}

/// The samples of every rank that lie inside of its steps, by rank, counter and time; those without a time are left out.
pub(crate) fn samples(ranks: &[RankWork<'_>], sampled: &[Sampled]) -> Vec<Sample> {
    let mut list = Vec::new();
    for (rank, placed) in ranks.iter().zip(place::place(ranks, sampled)) {
        let windows = || rank.steps.iter().filter_map(|step| step.window);
        let first = windows().map(|window| window.start).min();
        let last = windows().map(|window| window.end).max();
        let Some((first, last)) = first.zip(last) else { continue };
        let mut seen = std::collections::BTreeSet::new();
        for one in &placed {
            let Ok(shift) = one.shift else { continue };
            let new = one.sampled.series.iter().filter(|s| s.quantity.is_level());
            for series in new.filter(|s| seen.insert(s.quantity)) {
                let samples = series.samples().map(|(start, end, value)| {
                    (start.saturating_add(shift), end.saturating_add(shift), value)
                });
                list.extend(samples.filter(|(start, end, _)| *end > first && *start < last).map(
                    |(time_ns, end_ns, value)| Sample {
                        rank: rank.rank,
                        time_ns,
                        end_ns,
                        quantity: series.quantity,
                        unit: series.unit,
                        value,
                    },
                ));
            }
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ops, work};
    use super::*;
    use crate::model::counter::{Sampler, Series};

    fn sampled(quantity: Quantity, at: Vec<Ns>, epoch_ns: Option<i64>) -> Sampled {
        let value = (1..=at.len()).map(|i| i as f64).collect();
        let series = Series { quantity, unit: Unit::Percent, names: Vec::new(), at, value };
        Sampled {
            sampler: Sampler::Smi,
            file: "smi.txt".to_owned(),
            gpu_index: Some(0),
            gpu_uuid: None,
            hostname: Some("node0".to_owned()),
            epoch_ns,
            max_clock_mhz: None,
            series: vec![series],
        }
    }

    // The rank's time 0 is 1000 in Unix time; its file counts from 900, so a sample at 130 is at 30.
    // steps           [20        40)
    // samples   0    10    20    30    40    50    own time
    #[test]
    fn samples_of_the_steps_are_in_the_ranks_own_time() {
        let ops = ops(&[]);
        let ranks = [work(&ops, &[], &[(20, 30), (30, 40)])];
        let file = sampled(Quantity::SmActive, vec![100, 110, 120, 130, 140, 150], Some(900));
        let list = samples(&ranks, &[file]);
        let found: Vec<(u32, Ns, f64)> =
            list.iter().map(|one| (one.rank, one.time_ns, one.value)).collect();
        assert_eq!(found, [(0, 20, 3.0), (0, 30, 4.0)]);
        assert!(list.iter().all(|one| one.name() == "SM active [%]"), "{list:?}");
    }

    #[test]
    fn what_has_no_time_or_is_of_another_gpu_is_left_out() {
        let ops = ops(&[]);
        let ranks = [work(&ops, &[], &[(20, 40)])];
        let timeless = sampled(Quantity::SmActive, vec![100, 120, 140], None);
        let other = Sampled {
            gpu_index: Some(1),
            ..sampled(Quantity::SmActive, vec![120, 130], Some(900))
        };
        assert_eq!(samples(&ranks, &[timeless, other]), []);
    }

    // Of one quantity the sampler that is trusted most counts, not both.
    #[test]
    fn a_counter_is_drawn_once() {
        let ops = ops(&[]);
        let ranks = [work(&ops, &[], &[(20, 40)])];
        let smi = sampled(Quantity::SmActive, vec![120, 130], Some(900));
        let nsys = Sampled {
            sampler: Sampler::Nsys,
            ..sampled(Quantity::SmActive, vec![122, 132], Some(900))
        };
        let times: Vec<Ns> = samples(&ranks, &[smi, nsys]).iter().map(|one| one.time_ns).collect();
        assert_eq!(times, [22, 32]);
    }
}
