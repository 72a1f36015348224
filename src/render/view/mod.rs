//! From a finished report to what is printed of it: sentences, tables and pictures, still without a format.

mod counters;
mod csv;
mod dependency;
pub(in crate::render) mod figures;
mod headline;
mod inspector;
pub(in crate::render) mod notes;
mod npkit;
mod places;
pub(in crate::render) mod tables;
mod transport;

use std::io::{self, Write};

use super::Page;
use super::document::{Block, Document, Section};
use super::units::TimeScale;
use crate::model::Metric;
use crate::model::metric::Spread;
use crate::report::Report;
use crate::report::timeline::Timeline;
use serde::{Serialize, Serializer};

/// A report whose pages have the run's steps to move in. Every other format is that of the report.
#[derive(Debug)]
pub struct WithTimeline<'r> {
    /// The report.
    pub report: &'r Report,
    /// The steps of its run.
    pub timeline: Option<Timeline>,
}

impl Serialize for WithTimeline<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.report.serialize(to)
    }
}

impl Page for WithTimeline<'_> {
    fn document(&self) -> Document {
        document(self.report, self.timeline.as_ref())
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv::write(self.report, out)
    }
}

impl Page for Report {
    fn document(&self) -> Document {
        document(self, None)
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        match self.settings.by {
            Some(by) => places::csv(self.places.by(by), by, out),
            None => csv::write(self, out),
        }
    }
}

/// Everything that the terminal, Markdown and HTML print of a report.
fn document(report: &Report, timeline: Option<&Timeline>) -> Document {
    let scale = table_scale(report);
    let steps = vec![
        Some(Block::Table(tables::steps(report, scale))),
        figures::composition(report, scale).map(Block::Figure),
        figures::strips(report).filter(|_| timeline.is_none()).map(Block::Figure),
        Some(Block::Details(tables::rank_steps(report, scale))),
    ];
    let waits = vec![
        tables::waits(report, scale).map(Block::Table),
        figures::waits(report, scale).map(Block::Figure),
    ];
    let collectives = vec![
        tables::collectives(report).map(Block::Table),
        places::size_fits(report).map(Block::Table),
        notes::no_bandwidth(report).map(Block::Text),
        figures::bandwidth(report).map(Block::Figure),
    ];
    let kernels = vec![
        tables::kernels(
            "Communication kernels, all ranks, inside the windows",
            &report.kernels.comm,
            0,
        )
        .map(Block::Table),
        tables::kernels(
            "Compute kernels with most time, all ranks, inside the windows",
            &report.kernels.compute,
            report.kernels.compute_omitted,
        )
        .map(Block::Table),
    ];
    let capture = vec![
        Some(Block::Table(tables::identity(report))),
        Some(Block::Table(tables::inputs(report))),
        tables::settings(
            report.inputs.iter().map(|input| (input.path.as_str(), &input.capture.settings)),
        )
        .map(Block::Table),
    ];
    let sections = [
        ("Ranks", vec![Some(Block::Table(tables::ranks(report, scale)))]),
        ("Timeline", timeline.map(|lanes| timeline_block(report, lanes)).into_iter().collect()),
        (headline::noun(report).heading, steps),
        ("Who waits for whom", waits),
        ("Why a step takes as long as it does", dependency::blocks(report, scale)),
        ("Where in the program", places::blocks(report, scale)),
        ("Collectives", collectives),
        ("Transport", report.transport.iter().flat_map(transport::blocks).map(Some).collect()),
        (
            "Inside of the collectives",
            report.npkit.iter().flat_map(npkit::blocks).map(Some).collect(),
        ),
        ("GPU counters", counters::blocks(report).into_iter().map(Some).collect()),
        ("Kernels", kernels),
        ("NCCL Inspector", report.inspector.iter().flat_map(inspector::blocks).map(Some).collect()),
        ("What is not known", vec![notes::unknown(&report.unknown)]),
        ("Capture", capture),
    ];
    Document {
        title: report.name.clone(),
        facts: headline::facts(report),
        headline: headline::sentences(report),
        picture: figures::first_look(report, scale),
        findings: notes::findings(&report.findings),
        sections: sections
            .into_iter()
            .filter_map(|(heading, blocks)| {
                let filled = |block: &Block| !matches!(block, Block::Table(table) | Block::Details(table) if table.is_empty());
                Section::new(heading, blocks.into_iter().flatten().filter(filled).collect())
                    .map(|section| section.with_key(heading == "Ranks"))
            })
            .collect(),
        warnings: notes::warnings(&report.warnings),
        definitions: notes::definitions(report),
        method: notes::method(report),
    }
}

/// The steps to move in, with the picture of the median step for those without script and for print.
fn timeline_block(report: &Report, lanes: &Timeline) -> Option<Block> {
    Some(Block::Timeline(Box::new(lanes.clone()), figures::strips(report)))
}

/// One scale for every time in the tables of a run, so that columns compare: that of its median step.
fn table_scale(report: &Report) -> TimeScale {
    let run = spread(report, Metric::StepNs).and_then(|s| s.median.as_int());
    let steps = || {
        report
            .ranks
            .iter()
            .flat_map(|rank| &rank.steps)
            .filter_map(|step| step.values.int(Metric::StepNs))
    };
    match run {
        Some(median) => TimeScale::of([median]),
        None => TimeScale::of(steps()),
    }
}

/// A metric of the run.
fn spread(report: &Report, metric: Metric) -> Option<Spread> {
    report.summary.values[metric]
}

/// Text from a file inside a sentence: quoted, and short enough to read on.
fn quoted(text: &str) -> String {
    format!("“{}”", crate::text::shorten(text, 60))
}
