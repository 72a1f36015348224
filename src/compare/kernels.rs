//! Which kernels changed: by name, in a step of one rank.

use std::collections::BTreeMap;

use serde::Serialize;

use super::comparability;
use crate::report::Report;

/// Kernels that are listed each way.
const MOST: usize = 5;
/// Least change that is listed, as a share of all kernel time of the baseline.
const LEAST: f64 = 0.001;

/// A kernel that takes longer or shorter in a step than in the baseline. Times are sums of durations in a step of one rank: of
/// communication with its waiting.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KernelChange {
    /// Short name.
    pub name: String,
    /// `compute` or `comm:<family>`.
    pub class: String,
    /// Variant minus baseline, ns.
    pub change_ns: i64,
    /// Time in the baseline, ns; 0 where it does not run.
    pub before_ns: i64,
    /// Time in the variant, ns; 0 where it does not run.
    pub after_ns: i64,
    /// Calls in the baseline.
    pub before_count: f64,
    /// Calls in the variant.
    pub after_count: f64,
}

/// The greatest gains and losses, the greatest change first. Several captures count as their mean.
pub(super) fn changes(before: &[Report], after: &[Report]) -> Vec<KernelChange> {
    let (before, after) = (mean(before), mean(after));
    let total: f64 = before.values().map(|(_, ns)| ns).sum();
    let change = |key: &(String, String)| {
        let of = |side: &BTreeMap<_, (f64, f64)>| side.get(key).copied().unwrap_or_default();
        let ((before_count, before), (after_count, after)) = (of(&before), of(&after));
        let (before_ns, after_ns) = (before.round() as i64, after.round() as i64);
        KernelChange {
            name: key.0.clone(),
            class: key.1.clone(),
            change_ns: after_ns - before_ns,
            before_ns,
            after_ns,
            before_count,
            after_count,
        }
    };
    let more = after.keys().filter(|key| !before.contains_key(*key));
    let mut all: Vec<KernelChange> = before.keys().chain(more).map(change).collect();
    all.retain(|row| row.change_ns != 0 && row.change_ns.unsigned_abs() as f64 >= LEAST * total);
    all.sort_by(|a, b| {
        let size = |row: &KernelChange| row.change_ns.unsigned_abs();
        size(b).cmp(&size(a)).then_with(|| (&a.name, &a.class).cmp(&(&b.name, &b.class)))
    });
    let (mut gains, mut losses) = (0, 0);
    all.retain(|row| {
        let seen = if row.change_ns < 0 { &mut gains } else { &mut losses };
        *seen += 1;
        *seen <= MOST
    });
    all
}

/// Calls and time (ns) of each kernel by name and class in a step of one rank.
fn mean(captures: &[Report]) -> BTreeMap<(String, String), (f64, f64)> {
    let mut sums: BTreeMap<(String, String), (f64, f64)> = BTreeMap::new();
    let share = 1.0 / captures.len().max(1) as f64;
    for report in captures {
        let mut add = |name: &str, class: &str, count: f64, ns: f64| {
            let sum = sums.entry((name.to_owned(), class.to_owned())).or_default();
            *sum = (sum.0 + count * share, sum.1 + ns * share);
        };
        for (name, (count, ns)) in comparability::compute_kernels(report) {
            add(name, "compute", count, ns);
        }
        let steps = comparability::rank_steps(report);
        for kernel in &report.kernels.comm {
            let (count, ns) = (kernel.count as f64 / steps, kernel.total_ns as f64 / steps);
            add(&kernel.name, &kernel.class, count, ns);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::fixtures::{timed, with_kernels};

    // In a step: gemm 4 x 1 ms becomes 4 x 0.5 ms, cat (2 x 0.1 ms) goes, cast (1 x 0.3 ms) comes, norm stays.
    #[test]
    fn gains_and_losses_by_name() {
        let steps = [10_000_000; 3];
        let before = with_kernels(
            timed("a", &steps),
            &[("gemm", 4, 1_000_000), ("cat", 2, 100_000), ("norm", 3, 50_000)],
        );
        let after = with_kernels(
            timed("b", &steps),
            &[("gemm", 4, 500_000), ("cast", 1, 300_000), ("norm", 3, 50_000)],
        );
        let found: Vec<(String, i64, f64, f64)> = changes(&[before], &[after])
            .into_iter()
            .map(|row| (row.name, row.change_ns, row.before_count, row.after_count))
            .collect();
        let row = |name: &str, ns, before, after| (name.to_owned(), ns, before, after);
        let expected = [
            row("gemm", -2_000_000, 4.0, 4.0),
            row("cast", 300_000, 0.0, 1.0),
            row("cat", -200_000, 2.0, 0.0),
        ];
        assert_eq!(found, expected);
    }
}
