//! Whether a variant may pass: is it slower than the baseline by more than a limit?

use super::{Gate, Variant, Verdict};

/// Asks of each variant whether it is slower by more than `limit_percent` of the baseline's step: it fails if its whole interval says
/// so, and is inconclusive if the interval does not rule it out or if the captures do not decide anything.
pub(super) fn gate(limit_percent: f64, variants: &[Variant], undecided: &[bool]) -> Gate {
    let least = 1.0 / (1.0 + limit_percent / 100.0);
    let mut gate = Gate { limit: limit_percent, failed: Vec::new(), inconclusive: Vec::new() };
    for (variant, &undecided) in variants.iter().zip(undecided) {
        if variant.verdict == Verdict::Baseline {
            continue;
        }
        match variant.speedup_ci95 {
            Some([_, hi]) if !undecided && hi < least => gate.failed.push(variant.name.clone()),
            Some([lo, _]) if !undecided && lo >= least => {}
            _ => gate.inconclusive.push(variant.name.clone()),
        }
    }
    gate
}
