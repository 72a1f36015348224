//! How long the data of one matched collective moved, and how long each rank waited for the others
//! (metrics definition, section 6).

use super::clocks::RankClock;
use super::events::Event;
use super::matching::Match;
use crate::model::{CommOp, Ns};

/// One matched collective in numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Timing {
    /// Time in which data moved, ns; `None` where it cannot be told from waiting.
    pub transfer_ns: Option<Ns>,
    /// Own duration minus transfer for each member, ns; empty where ranks do not leave together.
    pub wait_ns: Vec<Ns>,
    /// Position among the members of the rank that arrived last, where the order is certain.
    pub last: Option<usize>,
    /// Position of the rank that arrived first.
    pub first: Option<usize>,
    /// Latest minus earliest end on the common clock, ns.
    pub end_spread_ns: Option<Ns>,
    /// Latest minus earliest start on the common clock, ns.
    pub start_spread_ns: Option<Ns>,
}

/// Measures one match.
pub fn timing(m: &Match, events: &[&[Event]], clocks: &[RankClock]) -> Timing {
    let members: Vec<&Event> = m.members.iter().map(|&(r, e)| &events[r][e]).collect();
    let common = |at: fn(&Event) -> Ns| -> Option<Vec<i64>> {
        m.members.iter().zip(&members).map(|(&(r, _), event)| clocks[r].common(at(event))).collect()
    };
    let (starts, ends) = (common(|e| e.start), common(|e| e.end));
    let spread = |times: &Option<Vec<i64>>| times.as_ref().and_then(|t| Some(t.iter().max()?.saturating_sub(*t.iter().min()?)));
    let mut timing = Timing {
        transfer_ns: None,
        wait_ns: Vec::new(),
        last: None,
        first: None,
        end_spread_ns: spread(&ends),
        start_spread_ns: spread(&starts),
    };
    if members.iter().any(|event| event.op != members[0].op) {
        return timing;
    }
    if members[0].op.leaves_together() {
        let durations: Vec<Ns> = members.iter().map(|event| event.duration()).collect();
        let (Some(&shortest), Some(&longest)) = (durations.iter().min(), durations.iter().max()) else { return timing };
        timing.transfer_ns = Some(shortest);
        timing.wait_ns = durations.iter().map(|d| d - shortest).collect();
        // What remains between the clocks bounds what the durations can say about the order.
        let doubt = m.members.iter().filter_map(|&(r, _)| clocks[r].residual_p95_ns).max().unwrap_or(0);
        if longest - shortest > doubt {
            timing.last = durations.iter().position(|&d| d == shortest);
            timing.first = durations.iter().position(|&d| d == longest);
        }
    } else if members[0].op != CommOp::Other
        && let (Some(starts), Some(ends)) = (starts, ends)
    {
        let latest_start = starts.iter().copied().max().unwrap_or(0);
        let (earliest_end, latest_end) = (ends.iter().copied().min().unwrap_or(0), ends.iter().copied().max().unwrap_or(0));
        // A rank that left before another came has only put its data into a buffer.
        timing.transfer_ns = (latest_start < earliest_end).then(|| latest_end - latest_start);
    }
    timing
}

/// algbw and busbw in decimal GB/s (bytes a nanosecond) of `payload` bytes on `n` ranks in `transfer_ns`.
pub fn bandwidth(op: CommOp, payload: u64, n: u32, transfer_ns: Ns) -> Option<(f64, f64)> {
    if transfer_ns <= 0 || n < 2 || op == CommOp::Other {
        return None;
    }
    let algbw = op.algorithm_bytes(payload, n) / transfer_ns as f64;
    Some((algbw, algbw * op.bus_factor(n)))
}
