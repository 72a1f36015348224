//! Ranks that stop before the others of their communicator: they hang, died, or lost the end of their log.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalogue::Id;
use crate::model::CommOp;
use crate::units;
use crate::warning::Warning;

/// How far a rank may be behind: the dumps of the ranks end at different times.
const BEHIND: u64 = 10;
/// The same as a share of the others' last number.
const BEHIND_SHARE: f64 = 0.05;

/// Mean gaps between a rank's own records by which it may be behind: where most records are lost, the last is, too.
const GAPS: u64 = 5;

/// How far a rank's log of one collective reaches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Reached {
    /// The last sequence number.
    pub last: u64,
    /// Records with a number.
    pub records: u64,
}

/// Collectives of one communicator, with how far each rank's log of them reaches.
pub(super) type ByOp = BTreeMap<CommOp, BTreeMap<u32, Reached>>;

/// Names the ranks whose records end well before those of the others, with how far they are behind, for each collective.
/// Numbers count calls of one communicator, so all ranks that take part reach the same one. A rank that keeps up in
/// another collective goes on: the end of this one was lost.
pub(super) fn warnings(comm: &str, by_op: &ByOp) -> Vec<Warning> {
    let goes_on: BTreeSet<u32> = by_op
        .values()
        .filter_map(|ranks| Some((ranks, usual(ranks).filter(|&usual| usual >= BEHIND)?)))
        .flat_map(|(ranks, usual)| {
            ranks
                .iter()
                .filter(move |(_, reached)| !reached.is_behind(usual))
                .map(|(rank, _)| *rank)
        })
        .collect();
    by_op.iter().filter_map(|(op, ranks)| warning(comm, *op, ranks, &goes_on)).collect()
}

/// The last number that at least half of the ranks reach; of two, that of the one that went on.
fn usual(ranks: &BTreeMap<u32, Reached>) -> Option<u64> {
    let mut lasts: Vec<u64> = ranks.values().map(|reached| reached.last).collect();
    lasts.sort_unstable();
    lasts.get(lasts.len() / 2).copied()
}

impl Reached {
    /// True if the log ends so far before `usual` that neither dumps nor gaps between its records explain it.
    fn is_behind(self, usual: u64) -> bool {
        let gap = self.last / self.records.max(1);
        let slack = BEHIND.max((usual as f64 * BEHIND_SHARE) as u64).max(gap.saturating_mul(GAPS));
        self.last.saturating_add(slack) <= usual
    }
}

fn warning(
    comm: &str,
    op: CommOp,
    ranks: &BTreeMap<u32, Reached>,
    goes_on: &BTreeSet<u32>,
) -> Option<Warning> {
    let usual = usual(ranks)?;
    let short: Vec<(u32, Reached)> = ranks
        .iter()
        .map(|(&rank, &reached)| (rank, reached))
        .filter(|(rank, reached)| reached.is_behind(usual) && !goes_on.contains(rank))
        .collect();
    let &(rank, reached) = short.iter().min_by_key(|(rank, reached)| (reached.last, *rank))?;
    let others: Vec<u64> = ranks
        .values()
        .filter(|reached| !reached.is_behind(usual))
        .map(|reached| reached.records)
        .collect();
    let (fewest, most) = (others.iter().min()?, others.iter().max()?);
    let logged = if fewest == most {
        units::count(*most)
    } else {
        format!("{} to {}", units::count(*fewest), units::count(*most))
    };
    let numbers: Vec<u32> = short.iter().map(|(rank, _)| *rank).collect();
    let (stop, first) = match numbers.len() {
        1 => ("stops", "its".to_owned()),
        _ => ("stop", format!("of the earliest, rank {rank}, the")),
    };
    Some(
        Warning::new(
            Id::RankStopsEarly,
            format!(
                "{} of communicator {comm} {stop} early: {first} last {} is number {} ({} logged), that of the others {usual} ({logged} logged): {} behind.",
                crate::text::capitalised(&units::ranks(&numbers)),
                op.label(),
                reached.last,
                units::plural(usize::try_from(reached.records).unwrap_or(usize::MAX), "record"),
                units::count(usual - reached.last)
            ),
        )
        .with_hint("A rank that hangs or died logs no more; or its log is cut off, or a copy of an earlier moment. Look at what that process did after its last record."),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(lasts: &[u64]) -> Option<String> {
        let ranks =
            (0..).zip(lasts).map(|(r, &last)| (r, Reached { last, records: last + 1 })).collect();
        warning("0xa", CommOp::AllGather, &ranks, &BTreeSet::new()).map(|w| w.message)
    }

    #[test]
    fn a_rank_that_keeps_up_elsewhere_or_lost_most_records_did_not_stop() {
        let at = |last, records| Reached { last, records };
        let scatter = BTreeMap::from([(0, at(167, 168)), (1, at(115, 116))]);
        let gather = BTreeMap::from([(0, at(342, 343)), (1, at(342, 343))]);
        let first = BTreeMap::from([(0, at(0, 1)), (1, at(0, 1))]);
        let both =
            ByOp::from([(CommOp::ReduceScatter, scatter.clone()), (CommOp::AllGather, gather)]);
        assert_eq!(warnings("0xa", &both), []);
        // One call at the start shows nothing.
        let alone = ByOp::from([(CommOp::ReduceScatter, scatter), (CommOp::AllReduce, first)]);
        assert_eq!(warnings("0xa", &alone).len(), 1);
        // 10 of 116: the next record is 12 numbers on, give or take a few.
        let sparse = BTreeMap::from([(0, at(167, 14)), (1, at(115, 10))]);
        assert_eq!(warnings("0xa", &ByOp::from([(CommOp::ReduceScatter, sparse)])), []);
    }

    #[test]
    fn a_rank_far_behind_is_named_with_how_far() {
        let message = said(&[64, 64, 64, 29, 64]).expect("a warning");
        assert!(message.starts_with("Rank 3 of communicator 0xa stops early"), "{message}");
        for part in ["number 29 (30 records logged)", "64 (65 logged)", "35 behind"] {
            assert!(message.contains(part), "{part}: {message}");
        }
        assert!(said(&[900, 12]).is_some_and(|m| m.starts_with("Rank 1 ")), "of two");
    }

    #[test]
    fn dumps_that_end_a_little_apart_are_no_news() {
        assert_eq!(said(&[64, 60, 64]), None);
        assert_eq!(said(&[10_000, 9_600, 9_990]), None, "within 5 %");
        assert_eq!(said(&[5]), None);
        assert_eq!(said(&[]), None);
    }

    #[test]
    fn many_ranks_are_not_listed_one_by_one() {
        let lasts: Vec<u64> = (0..1500).map(|r| if r % 3 == 0 { r } else { 9000 }).collect();
        let message = said(&lasts).expect("a warning");
        assert!(message.len() < 300 && message.contains("(500 in all)"), "{message}");
    }
}
