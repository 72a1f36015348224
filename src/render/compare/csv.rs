//! A comparison as comma-separated values: one row a variant; of every metric the median and its difference to the baseline's.

use std::borrow::Cow;
use std::io::{self, Write};

use crate::compare::{Comparison, Delta, Variant};
use crate::model::Metric;
use crate::model::metric::Num;
use crate::render::csv::{field, number, real, record, whole};

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

/// Writes a comparison.
pub(super) fn write(comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let paths = Metric::ALL
        .iter()
        .map(|metric| metric.info().path)
        .chain(["comm_bytes_per_step", "comm_transfer_ns"]);
    let triples = paths
        .flat_map(|path| [path.to_owned(), format!("{path}.delta"), format!("{path}.delta_rel")]);
    record(out, HEAD.into_iter().map(Cow::Borrowed).chain(triples.map(Cow::Owned)))?;
    comparison.variants.iter().try_for_each(|variant| record(out, row(comparison, variant)))
}

fn row<'a>(comparison: &'a Comparison, variant: &'a Variant) -> Vec<Cow<'a, str>> {
    let mut row = vec![
        field(&variant.name),
        field(&comparison.baseline),
        Cow::Borrowed(variant.verdict.label()),
        real(variant.speedup),
        real(variant.speedup_ci95.map(|[lo, _]| lo)),
        real(variant.speedup_ci95.map(|[_, hi]| hi)),
        whole(Some(variant.ranks)),
        whole(Some(variant.steps)),
        whole(Some(variant.counted_steps)),
        real(variant.throughput_steps_per_s),
        real(variant.scaling_efficiency),
    ];
    let mut triple = |value: Option<Num>, delta: Option<Delta>| {
        row.extend([
            whole(value.map(number)),
            whole(delta.map(|d| number(d.abs))),
            real(delta.and_then(|d| d.rel)),
        ]);
    };
    for &metric in Metric::ALL {
        triple(variant.summary[metric].map(|s| s.median), variant.delta.of_metric(metric));
    }
    triple(variant.comm_bytes_per_step.map(Num::Int), variant.delta.comm_bytes_per_step);
    triple(variant.comm_transfer_ns.map(Num::Int), variant.delta.comm_transfer_ns);
    row
}
