//! Kernels and records that numbers did not bring together: a pair only where each fits nothing but the other.

use foldhash::{HashMap, HashMapExt};

use super::clock::{Clock, Ended};
use super::collect::LoggedOp;
use super::parts::size;
use super::place::Size;
use super::trust::SAME_US;
use crate::collectives::events::Event;
use crate::model::CommOp;

/// A kernel may end this far outside the time that the record leaves, microseconds.
const NEAR_US: f64 = 1_000.0;
/// The record has to say within this much when its operation ended, microseconds: among the records of a long dump interval a
/// duration is the same by chance, and a lost record would be replaced by another.
const KNOWN_US: f64 = 100_000.0;
/// Records of about the right duration that are looked at; among more than this no kernel finds its own.
const LOOKED_AT: usize = 10_000;
/// Records that a kernel claims at most: beyond, it is unsure anyway.
const CLAIMS: usize = 64;

/// A kernel without a partner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Lone {
    /// Index of the event.
    pub event: usize,
    /// When it ended, Unix microseconds of the log's clock, if that is known.
    pub end_us: Option<f64>,
    /// Its duration, microseconds.
    pub duration_us: f64,
    /// What it does; `SendRecv` for a kernel that carries sends or receives.
    pub op: CommOp,
    /// What it says about the size of its record.
    pub size: Size,
}

impl Lone {
    /// The kernel `index` of `events`.
    pub(crate) fn new(index: usize, event: &Event, clock: Clock) -> Lone {
        let op = match event.op {
            CommOp::AllToAll | CommOp::Gather | CommOp::Scatter => CommOp::SendRecv,
            op => op,
        };
        Lone {
            event: index,
            end_us: clock.end_us(event),
            duration_us: event.duration() as f64 / 1e3,
            op,
            size: size(event),
        }
    }
}

/// A record without a partner, by its index among all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Free<'a> {
    /// Index into the collected records.
    pub index: usize,
    /// The record.
    pub op: &'a LoggedOp,
    /// When it ended.
    pub ended: Ended,
}

/// What came of a lone kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// No record fits it.
    None,
    /// This record (its index among all) fits no other kernel.
    Own(usize),
    /// Several records fit it, or another kernel has the same claim.
    Unsure,
}

/// Finds what fits each of `kernels` alone. `belongs` says whether a record can be of the kernel at all (its communicator).
pub(crate) fn unique(
    kernels: &[Lone],
    free: &[Free<'_>],
    belongs: impl Fn(&Lone, &LoggedOp) -> bool,
) -> Vec<Claim> {
    let mut by_duration: Vec<(f64, usize)> = free
        .iter()
        .enumerate()
        .filter(|(_, f)| f.op.is_gpu_timed())
        .filter_map(|(i, f)| Some((f.op.exec_us?, i)))
        .collect();
    by_duration.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let claims: Vec<Claimed> = kernels
        .iter()
        .map(|kernel| {
            let first = by_duration.partition_point(|(us, _)| *us < kernel.duration_us - SAME_US);
            let near = by_duration[first..]
                .iter()
                .take_while(|(us, _)| *us <= kernel.duration_us + SAME_US);
            let mut claimed = Claimed::default();
            for (looked_at, &(_, i)) in near.enumerate() {
                if claimed.records.len() == CLAIMS || looked_at == LOOKED_AT {
                    claimed.crowded = true;
                    break;
                }
                if fits(kernel, &free[i]) && belongs(kernel, free[i].op) {
                    claimed.records.push(i);
                }
            }
            claimed
        })
        .collect();
    let mut rivals: HashMap<usize, usize> = HashMap::new();
    claims.iter().flat_map(|c| &c.records).for_each(|&i| *rivals.entry(i).or_default() += 1);
    let verdict = |claimed: &Claimed| match claimed.records.as_slice() {
        [] if !claimed.crowded => Claim::None,
        [only] if !claimed.crowded && rivals.get(only) == Some(&1) => Claim::Own(free[*only].index),
        _ => Claim::Unsure,
    };
    claims.iter().map(verdict).collect()
}

/// Positions of the free records that fit a kernel.
#[derive(Debug, Default)]
struct Claimed {
    records: Vec<usize>,
    /// True if there may be more of them.
    crowded: bool,
}

fn fits(kernel: &Lone, free: &Free<'_>) -> bool {
    let same_op = if kernel.op == CommOp::SendRecv { free.op.p2p } else { kernel.op == free.op.op };
    let timely = kernel.end_us.is_some_and(|end| {
        free.ended.by - free.ended.after <= KNOWN_US && free.ended.outside(end) <= NEAR_US
    });
    same_op && timely && kernel.size.allows(free.op.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::record::Timing;

    fn op(us: f64, bytes: u64) -> LoggedOp {
        LoggedOp {
            origin: 0,
            op: CommOp::AllReduce,
            p2p: false,
            timing: Timing::KernelGpu,
            sn: None,
            bytes: Some(bytes),
            exec_us: Some(us),
            written_us: None,
            verbose: None,
        }
    }

    fn claims(kernels: &[(f64, f64)], records: &[(f64, f64)]) -> Vec<Claim> {
        let ops: Vec<LoggedOp> = records.iter().map(|(_, us)| op(*us, 8)).collect();
        let free: Vec<Free<'_>> = records
            .iter()
            .zip(&ops)
            .enumerate()
            .map(|(index, ((by, _), op))| Free {
                index: 10 + index,
                op,
                ended: Ended { after: by - 500.0, by: *by },
            })
            .collect();
        let lone = |&(end, duration_us): &(f64, f64)| Lone {
            event: 0,
            end_us: Some(end),
            duration_us,
            op: CommOp::AllReduce,
            size: Size::Exactly(8),
        };
        unique(&kernels.iter().map(lone).collect::<Vec<_>>(), &free, |_, _| true)
    }

    // (end, duration) of kernels; (latest end, duration) of records, each with 500 us in which its operation ended.
    #[test]
    fn only_what_fits_nothing_else_is_paired() {
        assert_eq!(claims(&[(5000.0, 100.0)], &[(5200.0, 97.0), (9000.0, 97.0)]), [Claim::Own(10)]);
        assert_eq!(
            claims(&[(5000.0, 100.0)], &[(5200.0, 97.0), (5300.0, 110.0)]),
            [Claim::Unsure],
            "two records"
        );
        assert_eq!(
            claims(&[(5000.0, 100.0), (5300.0, 105.0)], &[(5400.0, 97.0)]),
            [Claim::Unsure, Claim::Unsure],
            "two kernels"
        );
        assert_eq!(
            claims(&[(5000.0, 100.0)], &[(5200.0, 140.0), (9000.0, 97.0)]),
            [Claim::None],
            "neither time nor duration alone"
        );
        assert_eq!(claims(&[(5000.0, 100.0)], &[]), [Claim::None]);
        let crowd: Vec<(f64, f64)> = (0..CLAIMS + 1).map(|_| (5200.0, 97.0)).collect();
        assert_eq!(claims(&[(5000.0, 100.0)], &crowd), [Claim::Unsure]);
    }

    #[test]
    fn a_record_that_does_not_say_when_is_nobodys() {
        let op = op(97.0, 8);
        let free = |after| [Free { index: 0, op: &op, ended: Ended { after, by: 5200.0 } }];
        let kernel = [Lone {
            event: 0,
            end_us: Some(5000.0),
            duration_us: 100.0,
            op: CommOp::AllReduce,
            size: Size::Unknown,
        }];
        assert_eq!(unique(&kernel, &free(4000.0), |_, _| true), [Claim::Own(0)]);
        assert_eq!(unique(&kernel, &free(f64::NEG_INFINITY), |_, _| true), [Claim::None]);
        assert_eq!(unique(&kernel, &free(4000.0), |_, _| false), [Claim::None]);
        let timeless = [Lone { end_us: None, ..kernel[0] }];
        assert_eq!(unique(&timeless, &free(4000.0), |_, _| true), [Claim::None]);
    }
}
