//! Whose counters are whose: which GPU of a file is that of which rank, and what its times are in the rank's own time.

use std::collections::BTreeSet;

use super::classes::RankWork;
use crate::model::Ns;
use crate::model::counter::{Sampled, Sampler};

/// What was sampled of one rank's GPU.
#[derive(Debug)]
pub(crate) struct Placed<'s> {
    /// Its place among what was sampled.
    pub index: usize,
    /// The samples.
    pub sampled: &'s Sampled,
    /// What has to be added to their times to get the time of the rank's report, or why they have none.
    pub shift: Result<Ns, String>,
}

/// For each rank what was sampled of its GPU, that of Nsight Systems first.
pub(crate) fn place<'s>(ranks: &[RankWork<'_>], sampled: &'s [Sampled]) -> Vec<Vec<Placed<'s>>> {
    let hosts: BTreeSet<&str> = ranks.iter().filter_map(|rank| rank.hostname).collect();
    let one_host = hosts.len() <= 1;
    // A container has a name of its own: one machine in the run and one in the file are the same.
    let only_machine = |one: &Sampled| {
        let machines: BTreeSet<Option<&str>> = sampled
            .iter()
            .filter(|other| other.file == one.file)
            .map(|other| other.hostname.as_deref())
            .collect();
        one_host && machines.len() <= 1
    };
    let of_rank = |rank: &RankWork<'_>| {
        let alone = ranks.iter().filter(|other| other.report == rank.report).count() == 1;
        let mut list: Vec<Placed<'s>> = sampled
            .iter()
            .enumerate()
            .filter(|(_, one)| {
                is_gpu(rank, one, only_machine(one)) || (alone && is_only(rank, one, sampled))
            })
            .map(|(index, one)| Placed { index, sampled: one, shift: shift(rank, one) })
            .collect();
        list.sort_by_key(|placed| {
            let elsewhere = placed.sampled.file != rank.report;
            (placed.sampled.sampler, elsewhere, placed.index)
        });
        list
    };
    ranks.iter().map(of_rank).collect()
}

/// The rank's GPU by its own number; by its index only where that cannot be of another machine.
fn is_gpu(rank: &RankWork<'_>, one: &Sampled, only_machine: bool) -> bool {
    if let (Some(own), Some(other)) = (&rank.gpu_uuid, &one.gpu_uuid) {
        return own == other;
    }
    let same_host = match (rank.hostname, one.hostname.as_deref()) {
        (Some(own), Some(other)) => own == other || only_machine,
        _ => only_machine,
    };
    same_host && rank.gpu_index.is_some() && rank.gpu_index == one.gpu_index
}

/// A report of one rank that does not say which GPU it used, and sampled only one.
fn is_only(rank: &RankWork<'_>, one: &Sampled, sampled: &[Sampled]) -> bool {
    let own = |other: &&Sampled| other.sampler == Sampler::Nsys && other.file == rank.report;
    rank.gpu_uuid.is_none()
        && rank.gpu_index.is_none()
        && own(&one)
        && sampled.iter().filter(own).count() == 1
}

fn shift(rank: &RankWork<'_>, one: &Sampled) -> Result<Ns, String> {
    if one.sampler == Sampler::Nsys && one.file == rank.report {
        return Ok(0);
    }
    let Some(epoch) = one.epoch_ns else {
        return Err("the file does not say when samples were taken".to_owned());
    };
    let Some(own) = rank.epoch_ns else {
        return Err("the report does not say when it was captured".to_owned());
    };
    let shift = epoch.saturating_sub(own);
    let overlaps = one.series.iter().any(|series| {
        let (first, last) = (series.at.first(), series.at.last());
        let spans =
            first.zip(last).map(|(&a, &b)| (a.saturating_add(shift), b.saturating_add(shift)));
        let windows = || rank.steps.iter().filter_map(|step| step.window);
        spans.is_some_and(|(a, b)| windows().any(|w| a < w.end && b >= w.start))
    });
    match (overlaps, one.sampler) {
        (true, _) => Ok(shift),
        (false, Sampler::Smi) => Err(
            "its samples are of another time than the capture, or of another time zone than UTC"
                .to_owned(),
        ),
        (false, _) => Err("its samples are of another time than the capture".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ops, work};
    use super::*;
    use crate::model::counter::{Quantity, Series, Unit};

    fn sampled(sampler: Sampler, file: &str) -> Sampled {
        Sampled {
            sampler,
            file: file.to_owned(),
            gpu_index: Some(0),
            gpu_uuid: None,
            hostname: None,
            epoch_ns: Some(0),
            max_clock_mhz: None,
            series: vec![Series {
                quantity: Quantity::SmActive,
                unit: Unit::Percent,
                names: Vec::new(),
                at: vec![1_000, 1_050, 1_100],
                value: vec![1.0; 3],
            }],
        }
    }

    #[test]
    fn a_gpu_is_known_by_its_number_or_by_its_index_on_an_only_machine() {
        let ops = ops(&[]);
        let (a, mut b) = (work(&ops, &[], &[(0, 100)]), work(&ops, &[], &[(0, 100)]));
        (b.rank, b.gpu_index, b.gpu_uuid) = (1, Some(1), Some("cd".to_owned()));
        let mut list = [sampled(Sampler::Dcgmi, "f"), sampled(Sampler::Exporter, "g")];
        list[1].gpu_uuid = Some("cd".to_owned());
        let of = |ranks: &[RankWork<'_>], list: &[Sampled]| -> Vec<Vec<usize>> {
            place(ranks, list).iter().map(|p| p.iter().map(|p| p.index).collect()).collect()
        };
        let ranks = [a, b];
        assert_eq!(of(&ranks, &list), [vec![0], vec![1]]);
        // Two machines: GPU 0 may be of either.
        let [a, mut b] = ranks;
        b.hostname = Some("node1");
        assert_eq!(of(&[a, b], &list), [vec![], vec![1]]);
    }

    #[test]
    fn times_are_moved_into_the_ranks_own() {
        let ops = ops(&[]);
        let rank = work(&ops, &[], &[(0, 100)]);
        // The report's zero is 1000 ns.
        assert_eq!(shift(&rank, &sampled(Sampler::Smi, "f")), Ok(-1_000));
        assert_eq!(shift(&rank, &sampled(Sampler::Nsys, "r.sqlite")), Ok(0));
        let mut far = sampled(Sampler::Smi, "f");
        far.epoch_ns = Some(3_600_000_000_000);
        assert!(shift(&rank, &far).expect_err("no overlap").contains("time zone"));
        far.epoch_ns = None;
        assert!(shift(&rank, &far).expect_err("no time").contains("does not say when"));
    }
}
