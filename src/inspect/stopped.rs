//! Ranks that stop before the others of their communicator: they hang, died, or lost the end of their log.

use std::collections::BTreeMap;

use crate::model::CommOp;
use crate::units;
use crate::warning::Warning;

/// How far a rank may be behind: the dumps of the ranks end at different times.
const BEHIND: u64 = 10;
/// The same as a share of the others' last number.
const BEHIND_SHARE: f64 = 0.05;

/// How far a rank's log of one collective reaches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reached {
    /// The last sequence number.
    pub last: u64,
    /// Records with a number.
    pub records: u64,
}

/// Names the ranks whose records of a collective end well before those of most others, with how far they are behind.
/// Numbers count calls of one communicator, so all ranks that take part reach the same one.
pub fn warning(comm: &str, op: CommOp, ranks: &BTreeMap<u32, Reached>) -> Option<Warning> {
    let mut lasts: Vec<u64> = ranks.values().map(|reached| reached.last).collect();
    lasts.sort_unstable();
    // Of two, the one that went on tells where the other should be.
    let usual = *lasts.get(lasts.len() / 2)?;
    let slack = BEHIND.max((usual as f64 * BEHIND_SHARE) as u64);
    let short: Vec<(u32, Reached)> = ranks
        .iter()
        .map(|(&rank, &reached)| (rank, reached))
        .filter(|(_, reached)| reached.last.saturating_add(slack) <= usual)
        .collect();
    let &(rank, reached) = short.iter().min_by_key(|(rank, reached)| (reached.last, *rank))?;
    let others: Vec<u64> = ranks
        .values()
        .filter(|reached| reached.last.saturating_add(slack) > usual)
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
            "rank-stops-early",
            format!(
                "{} of communicator {comm} {stop} early: {first} last {} is number {} ({} logged), that of most ranks {usual} ({logged} logged): {} behind.",
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
        warning("0xa", CommOp::AllGather, &ranks).map(|w| w.message)
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
