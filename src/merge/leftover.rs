//! Kernels and records that numbers did not bring together: a pair only where each fits nothing but the other.

use std::collections::HashMap;

use super::clock::Ended;
use super::collect::LoggedOp;
use super::place::Size;
use crate::model::CommOp;

/// Durations may differ by this much, microseconds. It is what timers explain, twice over; a wide margin would make nothing unique.
const CLOSE_US: f64 = 20.0;
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
pub struct Lone {
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

/// A record without a partner, by its index among all.
#[derive(Debug, Clone, Copy)]
pub struct Free<'a> {
    /// Index into the collected records.
    pub index: usize,
    /// The record.
    pub op: &'a LoggedOp,
    /// When it ended.
    pub ended: Ended,
}

/// What came of a lone kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// No record fits it.
    None,
    /// This record (its index among all) fits no other kernel.
    Own(usize),
    /// Several records fit it, or another kernel has the same claim.
    Unsure,
}

/// Finds what fits each of `kernels` alone. `belongs` says whether a record can be of the kernel at all (its communicator).
pub fn unique(kernels: &[Lone], free: &[Free<'_>], belongs: impl Fn(&Lone, &LoggedOp) -> bool) -> Vec<Claim> {
    let mut by_duration: Vec<(f64, usize)> =
        free.iter().enumerate().filter(|(_, f)| f.op.is_gpu_timed()).filter_map(|(i, f)| Some((f.op.exec_us?, i))).collect();
    by_duration.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let claims: Vec<Claimed> = kernels
        .iter()
        .map(|kernel| {
            let first = by_duration.partition_point(|(us, _)| *us < kernel.duration_us - CLOSE_US);
            let near = by_duration[first..].iter().take_while(|(us, _)| *us <= kernel.duration_us + CLOSE_US);
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
    let timely = kernel.end_us.is_some_and(|end| free.ended.by - free.ended.after <= KNOWN_US && free.ended.outside(end) <= NEAR_US);
    same_op && timely && kernel.size.allows(free.op.bytes)
}
