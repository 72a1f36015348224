//! The tables of a comparison. A number that differs from the baseline's has its difference below it.

use super::{baseline, others, tone};
use crate::compare::{
    Comparison, Delta, Expectation, KernelChange, MedianStep, Parts, PathMean, Variant, Verdict,
};
use crate::model::Metric;
use crate::model::metric::{Better, Num, Unit};
use crate::render::table::{Align, Cell, Change, Column, Table, Tone, Trim};
use crate::render::units::{self, TimeScale};

/// A change of a share by less than this is not coloured.
const SMALL_POINTS: f64 = 0.005;

/// A change by less than this reads as no change.
const SMALL_CHANGE: f64 = 0.0005;
/// Files that stand for a capture.
const MOST_FILES: usize = 8;

/// A time with its sign, without its unit.
pub(super) fn signed(scale: TimeScale, ns: i64) -> String {
    let text = scale.number(ns.saturating_abs());
    match (ns, text.starts_with('<')) {
        (0, _) => text,
        (_, true) => "≈0".to_owned(),
        (1.., _) => format!("+{text}"),
        _ => format!("-{text}"),
    }
}

/// The scale of the baseline's step, so that the times of all tables compare.
pub(super) fn scale(comparison: &Comparison) -> TimeScale {
    let steps = comparison
        .variants
        .iter()
        .filter_map(|v| v.summary[Metric::StepNs])
        .filter_map(|s| s.median.as_int());
    TimeScale::of(
        baseline(comparison)
            .and_then(|v| v.summary[Metric::StepNs])
            .and_then(|s| s.median.as_int())
            .into_iter()
            .chain(steps),
    )
}

fn names(comparison: &Comparison) -> Column {
    Column::text("variant", comparison.variants.iter().map(|v| v.name.as_str()))
}

/// Which variant helped.
pub(super) fn verdicts(comparison: &Comparison) -> Table {
    let variants = &comparison.variants;
    let numbers = |head: &str, cells: Vec<Cell>| Column::new(head, "", Align::Right, cells);
    let interval = |v: &Variant| {
        v.speedup_ci95
            .map_or_else(Cell::missing, |[lo, hi]| Cell::number(format!("{lo:.3} to {hi:.3}"), lo))
    };
    let speedup =
        |v: &Variant| v.speedup.map_or_else(Cell::missing, |s| Cell::number(format!("{s:.3}"), s));
    let throughput = |v: &Variant| {
        v.throughput_steps_per_s.map_or_else(Cell::missing, |t| Cell::number(format!("{t:.2}"), t))
    };
    let steps = |v: &Variant| match v.counted_steps == v.steps {
        true => Cell::number(units::count(v.steps as u64), v.steps as f64),
        false => Cell::number(
            format!("{} of {}", units::count(v.counted_steps as u64), units::count(v.steps as u64)),
            v.counted_steps as f64,
        ),
    };
    let verdict = |v: &Variant| Cell::text(v.verdict.label()).with_tone(tone(v.verdict));
    let columns = vec![
        names(comparison),
        metric(comparison, Metric::StepNs),
        numbers("steps/s", variants.iter().map(throughput).collect())
            .help("steps in a second at the median step time")
            .rank(3),
        numbers("speed-up", variants.iter().map(speedup).collect()),
        numbers("95 % interval", variants.iter().map(interval).collect()).rank(1),
        Column::new("verdict", "", Align::Left, variants.iter().map(verdict).collect()),
        Column::count("ranks", variants.iter().map(|v| Some(v.ranks as u64))).rank(4),
        numbers("steps", variants.iter().map(steps).collect())
            .help("steps that count, of those captured")
            .rank(2),
    ];
    Table::new(
        format!("Step time of each variant, and how it compares with {}", comparison.baseline),
        columns,
    )
}

/// Times of a step.
pub(super) fn times(comparison: &Comparison) -> Table {
    let columns = [
        (Metric::StepNs, 0),
        (Metric::ComputeNs, 0),
        (Metric::CommNs, 3),
        (Metric::CommFraction, 1),
        (Metric::ExposedCommNs, 0),
        (Metric::OverlapFraction, 2),
        (Metric::DtodNs, 4),
        (Metric::DtodExposedNs, 6),
        (Metric::ExposedCopyNs, 5),
        (Metric::UnclassifiedNs, 7),
        (Metric::IdleNs, 0),
    ];
    let graphs = comparison
        .variants
        .iter()
        .any(|v| v.summary.median(Metric::UnclassifiedNs).is_some_and(|ns| ns > 0.0));
    let wanted = columns.into_iter().filter(|(m, _)| *m != Metric::UnclassifiedNs || graphs);
    let columns = std::iter::once(names(comparison))
        .chain(wanted.map(|(m, rank)| metric(comparison, m).rank(rank)));
    Table::new(
        "Medians over the steps of the run, with the difference to the baseline",
        columns.collect(),
    )
    .without_blank_columns()
}

/// Counts and bytes of a step.
pub(super) fn work(comparison: &Comparison) -> Table {
    let variants = &comparison.variants;
    let whole = |n: i64| u64::try_from(n).ok();
    let bytes = with_changes(
        Column::bytes("comm bytes", variants.iter().map(|v| v.comm_bytes_per_step.and_then(whole))),
        variants.iter().map(|v| {
            change(v, v.delta.comm_bytes_per_step, Unit::Bytes, Better::Lower, comparison)
        }),
    )
    .help("payload bytes of the matched collectives of a step, as logged");
    let transfer = with_changes(
        Column::time("transfer", scale(comparison), variants.iter().map(|v| v.comm_transfer_ns)),
        variants
            .iter()
            .map(|v| change(v, v.delta.comm_transfer_ns, Unit::Ns, Better::Lower, comparison)),
    )
    .help("communication time without waiting: the least of any rank");
    let columns = vec![
        names(comparison),
        metric(comparison, Metric::CommCount),
        bytes.rank(1),
        transfer,
        metric(comparison, Metric::DtodCount),
        metric(comparison, Metric::DtodBytes),
        metric(comparison, Metric::HtodBytes).rank(2),
    ];
    Table::new("Operations of a step, medians over the steps of the run (mean over ranks)", columns)
        .without_blank_columns()
}

/// The medians of a metric with their differences.
fn metric(comparison: &Comparison, metric: Metric) -> Column {
    let info = metric.info();
    let medians = || comparison.variants.iter().map(|v| v.summary[metric].map(|s| s.median));
    let whole = || medians().map(|m| m.and_then(Num::as_int).and_then(|n| u64::try_from(n).ok()));
    let head =
        if metric == Metric::ExposedCommNs { "exposed" } else { info.label.trim_end_matches(" %") };
    let column = match info.unit {
        Unit::Ns => {
            Column::time(head, scale(comparison), medians().map(|m| m.and_then(Num::as_int)))
        }
        Unit::Bytes => Column::bytes(head, whole()),
        Unit::Count => Column::count(head, whole()),
        Unit::Ratio(Metric::CommNs) => {
            Column::percent(head, "% of comm", medians().map(|m| m.map(Num::as_f64)))
        }
        Unit::Ratio(_) => Column::percent(head, "% of step", medians().map(|m| m.map(Num::as_f64))),
    };
    // A step time that is not shown to differ is neither good nor bad news.
    let is_open = |v: &Variant| !matches!(v.verdict, Verdict::Faster | Verdict::Slower);
    let better = |v: &Variant| match metric {
        Metric::StepNs if is_open(v) => Better::Neither,
        _ => info.better,
    };
    let changes = comparison
        .variants
        .iter()
        .map(|v| change(v, v.delta.of_metric(metric), info.unit, better(v), comparison));
    with_changes(column, changes).help(info.definition)
}

/// Puts differences below the cells of all variants but the baseline.
fn with_changes(mut column: Column, changes: impl Iterator<Item = Option<Change>>) -> Column {
    for (cell, change) in column.cells.iter_mut().zip(changes) {
        cell.change = change;
    }
    column
}

/// A difference as text, coloured if it is large enough to count and one direction is good.
fn change(
    variant: &Variant,
    delta: Option<Delta>,
    unit: Unit,
    better: Better,
    comparison: &Comparison,
) -> Option<Change> {
    let delta = delta.filter(|_| variant.verdict != Verdict::Baseline)?;
    let abs = delta.abs.as_f64();
    let plus = if abs > 0.0 { "+" } else { "" };
    let text = match (unit, delta.rel) {
        _ if abs == 0.0 => "=".to_owned(),
        (Unit::Ratio(_), _) if abs.abs() < SMALL_CHANGE => "≈".to_owned(),
        (Unit::Ratio(_), _) => format!("{plus}{:.1} pp", abs * 100.0),
        (Unit::Count, _) => format!(
            "{}{}",
            if abs > 0.0 { "+" } else { "-" },
            units::count(abs.abs().round() as u64)
        ),
        (_, Some(rel)) if rel.abs() < SMALL_CHANGE => "≈".to_owned(),
        (_, Some(rel)) => units::signed_percent(rel),
        (Unit::Ns, None) => format!("{plus}{}", units::time(abs as i64)),
        (Unit::Bytes, None) => format!("{plus}{}", units::bytes(abs.max(0.0) as u64)),
    };
    let counts = match (unit, delta.rel) {
        (Unit::Ratio(_), _) => abs.abs() >= SMALL_POINTS,
        (_, Some(rel)) => rel.abs() >= comparison.settings.min_effect,
        (_, None) => abs != 0.0,
    };
    let tone = match better {
        Better::Lower if counts => {
            if abs < 0.0 {
                Tone::Good
            } else {
                Tone::Bad
            }
        }
        Better::Higher if counts => {
            if abs > 0.0 {
                Tone::Good
            } else {
                Tone::Bad
            }
        }
        _ => Tone::Neutral,
    };
    Some(Change { text, tone })
}

/// From the baseline's median step to each variant's.
pub(super) fn waterfall(comparison: &Comparison) -> Option<Table> {
    let base = baseline(comparison)?.median_step.as_ref()?;
    let rows: Vec<(&Variant, &Parts)> =
        others(comparison).filter_map(|v| Some((v, comparison.waterfall.get(&v.name)?))).collect();
    if rows.is_empty() {
        return None;
    }
    let scale = scale(comparison);
    let cell = |ns: i64| Cell::number(signed(scale, ns), ns as f64).with_title(format!("{ns} ns"));
    let mut columns = vec![
        Column::text("variant", rows.iter().map(|(v, _)| v.name.as_str())),
        Column::time("from", scale, rows.iter().map(|_| Some(base.step_ns))).rank(2),
    ];
    for (at, (name, _)) in Parts::default().named().into_iter().enumerate() {
        let cells = rows.iter().map(|(_, parts)| cell(parts.named()[at].1)).collect();
        if name != "unclassified"
            || rows.iter().any(|(_, parts)| parts.unclassified_exposed_ns != 0)
        {
            let head = if name == "exposed communication" {
                "comm"
            } else {
                name.trim_start_matches("exposed ")
            };
            columns.push(Column::new(head, scale.unit, Align::Right, cells));
        }
    }
    columns.push(Column::time(
        "to",
        scale,
        rows.iter().map(|(v, _)| v.median_step.as_ref().map(|step| step.step_ns)),
    ));
    columns.push(
        Column::text(
            "step",
            rows.iter().map(|(v, _)| v.median_step.as_ref().map_or("", |step| step.step.as_str())),
        )
        .rank(1),
    );
    let several = comparison.variants.iter().any(|variant| variant.ranks > 1);
    let ranks = |of: Option<&MedianStep>| of.filter(|_| several).map(|step| u64::from(step.rank));
    columns.push(
        Column::count("rank", rows.iter().map(|(v, _)| ranks(v.median_step.as_ref()))).rank(1),
    );
    let caption = format!(
        "From the median step of {} to that of each variant, each on the slowest rank of that step (above are means over ranks); communication and copies are the exposed ones. The parts add up to the nanosecond",
        comparison.baseline
    );
    Some(Table::new(caption, columns).without_blank_columns())
}

/// What held the steps of each variant up, from the baseline to each.
pub(super) fn critical_path(comparison: &Comparison) -> Option<Table> {
    let base = comparison.critical_path.get(&comparison.baseline)?;
    let rows: Vec<(&Variant, &PathMean)> = others(comparison)
        .filter_map(|v| Some((v, comparison.critical_path.get(&v.name)?)))
        .collect();
    if rows.is_empty() {
        return None;
    }
    let scale = scale(comparison);
    let cell = |ns: i64| Cell::number(signed(scale, ns), ns as f64).with_title(format!("{ns} ns"));
    let mut columns = vec![
        Column::text("variant", rows.iter().map(|(v, _)| v.name.as_str())),
        Column::time("from", scale, rows.iter().map(|_| Some(base.step_ns))).rank(2),
    ];
    for (head, of) in PathMean::PARTS {
        if rows.iter().any(|(_, path)| of(path) != of(base)) {
            let cells = rows.iter().map(|(_, path)| cell(of(path) - of(base))).collect();
            columns.push(Column::new(head, scale.unit, Align::Right, cells));
        }
    }
    columns.push(Column::time("to", scale, rows.iter().map(|(_, path)| Some(path.step_ns))));
    let caption = format!(
        "From the mean step of {} to that of each variant along what held the steps up, over ranks (critical paths of counted steps)",
        comparison.baseline
    );
    Some(Table::new(caption, columns))
}

/// What a change was promised to give, and what it gave.
pub(super) fn promises(comparison: &Comparison) -> Option<Table> {
    let list = &comparison.promises;
    let scale = scale(comparison);
    let columns = vec![
        Column::text("variant", list.iter().map(|p| p.variant.as_str())),
        Column::text("scenario", list.iter().map(|p| p.scenario.label())),
        Column::time("promised", scale, list.iter().map(|p| Some(p.promised_ns))),
        Column::time("measured", scale, list.iter().map(|p| Some(p.measured_ns))),
        Column::percent("off", "% of promised", list.iter().map(|p| Some(p.off_rel))),
    ];
    (!list.is_empty()).then(|| {
        let caption = format!(
            "What the replay of {} promised, and what the variants gave: median steps",
            comparison.baseline
        );
        Table::new(caption, columns).with_note(
            "The scenario that comes nearest to the option; work that the option adds (converting, compressing) is not in it.",
        )
    })
}

/// The kernels that gain and lose most time.
pub(super) fn kernels(comparison: &Comparison) -> Option<Table> {
    let rows: Vec<(&Variant, &KernelChange)> = others(comparison)
        .flat_map(|v| comparison.kernels.get(&v.name).into_iter().flatten().map(move |k| (v, k)))
        .collect();
    if rows.is_empty() {
        return None;
    }
    let scale = scale(comparison);
    let cell = |ns: i64| Cell::number(signed(scale, ns), ns as f64).with_title(format!("{ns} ns"));
    let count = |count: f64| Cell::number(format!("{count:.1}"), count);
    let columns = vec![
        Column::text("kernel", rows.iter().map(|(_, k)| k.name.as_str())),
        Column::text("variant", rows.iter().map(|(v, _)| v.name.as_str())),
        Column::new(
            "change",
            scale.unit,
            Align::Right,
            rows.iter().map(|(_, k)| cell(k.change_ns)).collect(),
        ),
        Column::time("before", scale, rows.iter().map(|(_, k)| Some(k.before_ns))).rank(1),
        Column::time("after", scale, rows.iter().map(|(_, k)| Some(k.after_ns))).rank(1),
        Column::new(
            "calls before",
            "",
            Align::Right,
            rows.iter().map(|(_, k)| count(k.before_count)).collect(),
        )
        .rank(2),
        Column::new(
            "calls after",
            "",
            Align::Right,
            rows.iter().map(|(_, k)| count(k.after_count)).collect(),
        )
        .rank(2),
    ];
    Some(Table::new(
        "Kernels that changed most, in a step of one rank: sums of durations, of communication with its waiting",
        columns,
    ))
}

/// What known options should do, and what they did.
pub(super) fn expectations(comparison: &Comparison) -> Option<Table> {
    let list = &comparison.expectations;
    let verdict = |e: &Expectation| match e.holds {
        Some(true) => Cell::text("yes").with_tone(Tone::Good),
        Some(false) => Cell::text("no").with_tone(Tone::Bad),
        None => Cell::text("not testable")
            .with_title("a number is missing, or other options differ as well"),
    };
    let option = |e: &Expectation| {
        let hint = if e.source.starts_with("guessed") {
            "guessed"
        } else {
            e.source.split(':').next().unwrap_or_default()
        };
        Cell::text(format!("{} ({hint})", e.option)).with_title(e.source.clone())
    };
    let without = |e: &Expectation| format!("{} ({})", e.observed_without, e.compared_with);
    let columns = vec![
        Column::text("variant", list.iter().map(|e| e.variant.as_str())),
        Column::new("option", "", Align::Left, list.iter().map(option).collect()),
        Column::new("holds", "", Align::Left, list.iter().map(verdict).collect()),
        Column::text("expected", list.iter().map(|e| e.expected.as_str())),
        Column::text("observed", list.iter().map(|e| e.observed.as_str())),
        Column::text("without it", list.iter().map(without)),
    ];
    (!list.is_empty())
        .then(|| Table::new("What known options should do in a step, and what they did", columns))
}

/// The captures of variants that have several.
pub(super) fn captures(comparison: &Comparison) -> Option<Table> {
    let rows: Vec<_> = comparison
        .variants
        .iter()
        .filter(|v| v.captures.len() > 1)
        .flat_map(|v| v.captures.iter().enumerate().map(move |(at, capture)| (v, at, capture)))
        .collect();
    if rows.is_empty() {
        return None;
    }
    let scale = scale(comparison);
    let part = |head: &str, of: fn(&Parts) -> i64| {
        Column::time(head, scale, rows.iter().map(|(.., capture)| Some(of(&capture.parts))))
    };
    let file = |path: &String| path.rsplit(['/', '\\']).next().unwrap_or(path).to_owned();
    let columns = vec![
        Column::text("variant", rows.iter().map(|(v, ..)| v.name.as_str())),
        Column::text(
            "capture",
            rows.iter().map(|(.., capture)| {
                units::listed(&capture.reports.iter().map(file).collect::<Vec<_>>(), MOST_FILES)
            }),
        ),
        Column::count("steps", rows.iter().map(|(.., capture)| Some(capture.steps as u64))).rank(1),
        Column::time("step", scale, rows.iter().map(|(.., capture)| capture.step_ns_median)),
        part("compute", |p| p.compute_ns),
        part("exposed comm", |p| p.exposed_comm_ns),
        part("exposed copies", |p| p.exposed_copy_ns).rank(2),
        part("idle", |p| p.idle_ns),
    ];
    Some(Table::new("Captures of variants that have several: medians over steps", columns))
}

/// Every step of every variant.
pub(super) fn steps(comparison: &Comparison) -> Table {
    let scale = scale(comparison);
    let rows: Vec<_> = comparison
        .variants
        .iter()
        .flat_map(|v| {
            v.captures
                .iter()
                .enumerate()
                .flat_map(move |(at, c)| c.step_times.iter().map(move |step| (v, at, step)))
        })
        .collect();
    let note = |outlier: bool, counted: bool| match (outlier, counted) {
        (true, true) => "outlier",
        (true, false) => "outlier, left out",
        (false, false) => "left out",
        (false, true) => "",
    };
    let columns = vec![
        Column::text("variant", rows.iter().map(|(v, ..)| v.name.as_str())),
        Column::count("capture", rows.iter().map(|(_, at, _)| Some(*at as u64 + 1))),
        Column::text("step", rows.iter().map(|(.., step)| step.name.as_str())),
        Column::time("time", scale, rows.iter().map(|(.., step)| step.step_ns)),
        Column::text("note", rows.iter().map(|(.., step)| note(step.outlier, step.counted))),
    ];
    let mut table = Table::new("Every step of every variant", columns);
    table.faint = (0..rows.len()).filter(|&i| !rows[i].2.counted).collect();
    table.trim = Trim::Spread((0..rows.len()).filter(|&i| rows[i].2.outlier).collect());
    table
}
