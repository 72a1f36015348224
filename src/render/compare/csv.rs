//! A comparison as comma-separated values: one row a variant; of every metric the median and its difference to the baseline's.

use std::borrow::Cow;

use crate::compare::{Comparison, Delta, Variant};
use crate::model::Metric;
use crate::model::metric::Num;
use crate::render::csv::{field, number, record};

/// The columns before the metrics.
const HEAD: [&str; 11] = [
    "variant",
    "baseline",
    "verdict",
    "speedup",
    "speedup_lo",
    "speedup_hi",
    "ranks",
    "steps",
    "counted_steps",
    "throughput_steps_per_s",
    "scaling_efficiency",
];

/// Prints a comparison.
pub(super) fn print(comparison: &Comparison) -> String {
    let mut out = String::new();
    let paths = Metric::ALL
        .iter()
        .map(|metric| metric.info().path)
        .chain(["comm_bytes_per_step", "comm_transfer_ns"]);
    let triples = paths
        .flat_map(|path| [path.to_owned(), format!("{path}.delta"), format!("{path}.delta_rel")]);
    record(&mut out, HEAD.into_iter().map(Cow::Borrowed).chain(triples.map(Cow::Owned)));
    for variant in &comparison.variants {
        record(&mut out, row(comparison, variant).into_iter());
    }
    out
}

fn row<'a>(comparison: &'a Comparison, variant: &'a Variant) -> Vec<Cow<'a, str>> {
    let real =
        |value: Option<f64>| Cow::Owned(value.map_or_else(String::new, |v| number(Num::Real(v))));
    let mut row = vec![
        field(&variant.name),
        field(&comparison.baseline),
        Cow::Borrowed(variant.verdict.label()),
        real(variant.speedup),
        real(variant.speedup_ci95.map(|[lo, _]| lo)),
        real(variant.speedup_ci95.map(|[_, hi]| hi)),
        Cow::Owned(variant.ranks.to_string()),
        Cow::Owned(variant.steps.to_string()),
        Cow::Owned(variant.counted_steps.to_string()),
        real(variant.throughput_steps_per_s),
        real(variant.scaling_efficiency),
    ];
    let mut triple = |value: Option<Num>, delta: Option<Delta>| {
        let finished = |value: Option<Num>| Cow::Owned(value.map_or_else(String::new, number));
        row.extend([
            finished(value),
            finished(delta.map(|d| d.abs)),
            finished(delta.and_then(|d| d.rel).map(Num::Real)),
        ]);
    };
    for &metric in Metric::ALL {
        triple(variant.summary[metric].map(|s| s.median), variant.delta.of_metric(metric));
    }
    triple(variant.comm_bytes_per_step.map(Num::Int), variant.delta.comm_bytes_per_step);
    triple(variant.comm_transfer_ns.map(Num::Int), variant.delta.comm_transfer_ns);
    row
}
