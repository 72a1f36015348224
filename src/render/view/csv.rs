//! A report as comma-separated values: one row a rank and step, every metric by its JSON path.

use std::borrow::Cow;
use std::io::{self, Write};

use crate::model::Metric;
use crate::render::csv::{field, flag, number, record, whole};
use crate::report::{RankReport, RankStep, Report};

/// The columns before the metrics.
const HEAD: [&str; 12] = [
    "run",
    "rank",
    "rank_source",
    "report",
    "hostname",
    "gpu",
    "pid",
    "index",
    "name",
    "outlier",
    "counted",
    "reason",
];

/// Writes a report.
pub(super) fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let paths = Metric::ALL.iter().map(|metric| metric.info().path);
    record(out, HEAD.into_iter().chain(paths).map(Cow::Borrowed))?;
    for rank in &report.ranks {
        for step in &rank.steps {
            record(out, row(report, rank, step))?;
        }
    }
    Ok(())
}

fn row<'a>(
    report: &'a Report,
    rank: &'a RankReport,
    step: &'a RankStep,
) -> impl Iterator<Item = Cow<'a, str>> {
    let head = [
        field(&report.name),
        whole(Some(rank.rank)),
        Cow::Owned(rank.rank_source.label()),
        field(&rank.report),
        field(rank.hostname.as_deref().unwrap_or_default()),
        field(rank.gpu.as_deref().unwrap_or_default()),
        whole(Some(rank.pid)),
        whole(Some(step.index)),
        field(&step.name),
        flag(step.outlier),
        flag(step.counted),
        field(step.reason.as_deref().unwrap_or_default()),
    ];
    let metrics = Metric::ALL.iter().map(|&metric| whole(step.values[metric].map(number)));
    head.into_iter().chain(metrics)
}
