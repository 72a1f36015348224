//! The samples themselves, for pictures and traces: what each counter of a rank was at each moment.

use super::classes::RankWork;
use super::place;
use crate::model::Ns;
use crate::model::counter::Sampled;

/// One sample of one counter.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    /// The rank whose GPU it is of.
    pub rank: u32,
    /// When it begins, ns in the time of the rank's report, as its operations are.
    pub time_ns: Ns,
    /// Counter and unit: `SM active [%]`.
    pub name: String,
    /// Its value.
    pub value: f64,
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
                let name = format!("{} [{}]", series.quantity.label(), series.unit.label());
                let samples = series.samples().map(|(start, end, value)| {
                    (start.saturating_add(shift), end.saturating_add(shift), value)
                });
                list.extend(samples.filter(|(start, end, _)| *end > first && *start < last).map(
                    |(time_ns, _, value)| Sample {
                        rank: rank.rank,
                        time_ns,
                        name: name.clone(),
                        value,
                    },
                ));
            }
        }
    }
    list
}
