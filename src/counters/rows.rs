//! The matrix: each counter of a rank over the parts of its steps.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::average::{Mean, Timed, rounded};
use super::classes::{Classes, NAMES, PerClass, RankWork};
use super::place::Placed;
use crate::catalogue::Id;
use crate::model::Ns;
use crate::model::counter::{Link, Quantity, Series, Unit};
use crate::timeline::SpanSet;
use crate::transport::{self, LinkKind};
use crate::units;
use crate::warning::Warning;

/// Values of steps that a report holds, at most.
const MOST_STEP_VALUES: usize = 200_000;
/// A part of which less lies in samples of its own is mixed with its neighbours.
const OWN: f64 = 0.5;

/// One counter of one rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The rank.
    pub rank: u32,
    /// What the counter says, whatever the file calls it: `sm_active`, `nvlink_rx`, ...
    pub metric: String,
    /// Its unit: `%` of the most that is possible, `GB/s` (decimal), `MHz`, `W`.
    pub unit: String,
    /// What the file calls it; parts that were added up are joined by ` + `.
    pub name: String,
    /// Who sampled it.
    pub source: String,
    /// Average over the counted steps; over the whole file where samples have no times.
    pub mean: Option<f64>,
    /// Averages over the parts of the counted steps, weighted by time.
    #[serde(flatten)]
    pub parts: PerClass<Option<f64>>,
    /// Why a part has no value.
    pub reasons: BTreeMap<String, String>,
    /// The most that is possible, in this unit: of a link in one direction, of a clock.
    pub peak: Option<f64>,
    /// Where that figure comes from.
    pub peak_source: Option<String>,
    /// The same for each step of the rank; left out where a report would be too long.
    pub steps: Vec<StepRow>,
}

/// A counter in one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRow {
    /// Index of the step among those of the rank.
    pub step: usize,
    /// Average over the step.
    pub mean: Option<f64>,
    /// Averages over its parts.
    #[serde(flatten)]
    pub parts: PerClass<Option<f64>>,
}

/// How a rank's counters were sampled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// The rank.
    pub rank: u32,
    /// Who sampled.
    pub source: String,
    /// File name without its folder.
    pub file: String,
    /// The usual time from one sample to the next, ns; `None` if the file does not say.
    pub interval_ns: Option<Ns>,
    /// Samples of one counter: inside the counted steps, or in the file if they have no times.
    pub samples: usize,
    /// Mean length of each part over the counted steps, ns.
    pub part_ns: PerClass<Ns>,
    /// Share of each part that lies in samples which hold nothing else; the rest is mixed with what runs before and after it.
    pub own_fraction: PerClass<Option<f64>>,
    /// Why parts have no values, if none has.
    pub reason: Option<String>,
}

/// The rows of one counter: one in its own unit, and for links one in the other.
pub(super) fn of(
    rank: &RankWork<'_>,
    placed: &Placed<'_>,
    series: &Series,
    classes: &[Option<Classes>],
) -> Vec<Row> {
    let base = base(rank, placed, series, classes);
    let peak = peak(rank, placed, series.quantity);
    let scaled = |row: &Row, unit: Unit, factor: f64, peak: Option<f64>, source: Option<String>| {
        let scale = |value: Option<f64>| value.map(|value| rounded(value * factor));
        let parts = |parts: &PerClass<Option<f64>>| PerClass::of(parts.list().map(scale));
        Row {
            unit: unit.label().to_owned(),
            mean: scale(row.mean),
            parts: parts(&row.parts),
            peak,
            peak_source: source,
            steps: row
                .steps
                .iter()
                .map(|s| StepRow { step: s.step, mean: scale(s.mean), parts: parts(&s.parts) })
                .collect(),
            ..row.clone()
        }
    };
    match (peak, series.unit) {
        (Some((peak, source)), Unit::Percent) if series.quantity.link().is_some() => {
            let more = scaled(&base, Unit::GbPerSecond, peak / 100.0, Some(peak), Some(source));
            vec![base, more]
        }
        (Some((peak, source)), Unit::GbPerSecond) => {
            let share = scaled(&base, Unit::Percent, 100.0 / peak, None, Some(source.clone()));
            vec![share, Row { peak: Some(peak), peak_source: Some(source), ..base }]
        }
        (Some((peak, source)), _) => {
            vec![Row { peak: Some(peak), peak_source: Some(source), ..base }]
        }
        (None, _) => vec![base],
    }
}

/// The most that is possible: of a link all links of the GPU's model in one direction, of a clock the highest.
pub(super) fn peak(
    rank: &RankWork<'_>,
    placed: &Placed<'_>,
    quantity: Quantity,
) -> Option<(f64, String)> {
    let kind = match (quantity, quantity.link()) {
        (_, Some(Link::Nvlink)) => LinkKind::NvLink(u32::MAX),
        (_, Some(Link::Pcie)) => LinkKind::Pcie,
        (Quantity::SmClock, None) => {
            let most = placed.sampled.max_clock_mhz?;
            return Some((most, "the highest clock of the GPU, as the report has it".to_owned()));
        }
        _ => return None,
    };
    transport::peak_gbs(rank.gpu?, kind).map(|peak| (peak.gbs, peak.source))
}

fn base(
    rank: &RankWork<'_>,
    placed: &Placed<'_>,
    series: &Series,
    classes: &[Option<Classes>],
) -> Row {
    let mut row = Row {
        rank: rank.rank,
        metric: series.quantity.id().to_owned(),
        unit: series.unit.label().to_owned(),
        name: series.names.join(" + "),
        source: placed.sampled.sampler.label().to_owned(),
        mean: None,
        parts: PerClass::default(),
        reasons: BTreeMap::new(),
        peak: None,
        peak_source: None,
        steps: Vec::new(),
    };
    let (shift, interval) = match (&placed.shift, series.interval()) {
        (Ok(shift), Some(interval)) => (*shift, interval),
        (Ok(_), None) => return without_time(row, series, "there are fewer than two samples"),
        (Err(reason), _) => return without_time(row, series, reason),
    };
    let timed = Timed::new(series, shift);
    let mut whole = Mean::default();
    let mut totals = [Mean::default(); 6];
    let mut longest = [0; 6];
    for (step, classes) in rank.steps.iter().zip(classes) {
        let Some(classes) = classes else { continue };
        let mean = timed.over(&SpanSet::from_unsorted(vec![classes.window]));
        let mut parts = [None; 6];
        for (i, (part, length)) in classes.parts.iter().zip(classes.lengths()).enumerate() {
            if step.counted {
                longest[i] = length.max(longest[i]);
            }
            // Of a part that is shorter than a sample nothing is known: the sample is of what runs around it.
            let known = (length >= interval).then(|| timed.over(part));
            if let (Some(known), true) = (known, step.counted) {
                totals[i].add(known);
            }
            parts[i] = known.and_then(Mean::value);
        }
        if step.counted {
            whole.add(mean);
        }
        row.steps.push(StepRow {
            step: step.index,
            mean: mean.value(),
            parts: PerClass::of(parts),
        });
    }
    row.mean = whole.value();
    row.parts = PerClass::of(totals.map(Mean::value));
    for ((name, value), (i, longest)) in
        NAMES.iter().zip(row.parts.list()).zip(longest.into_iter().enumerate())
    {
        if value.is_some() {
            continue;
        }
        let reason = match longest {
            0 if rank.waits.is_none() && i == 2 => {
                "no communication was matched with that of another rank".to_owned()
            }
            0 => "no counted step has such time".to_owned(),
            ns if ns < interval => format!(
                "it takes {} a step at most, and a sample {}",
                units::time(ns),
                units::time(interval)
            ),
            _ => "no sample was taken in that time".to_owned(),
        };
        row.reasons.insert((*name).to_owned(), reason);
    }
    row
}

fn without_time(mut row: Row, series: &Series, reason: &str) -> Row {
    let count = series.value.len();
    row.mean = (count > 0).then(|| rounded(series.value.iter().sum::<f64>() / count as f64));
    row.reasons = NAMES.iter().map(|name| ((*name).to_owned(), reason.to_owned())).collect();
    row
}

/// How one rank was sampled, by the counter with most samples.
pub(super) fn sampling(
    rank: &RankWork<'_>,
    placed: &Placed<'_>,
    classes: &[Option<Classes>],
) -> Sampling {
    let levels = || placed.sampled.series.iter().filter(|series| series.quantity.is_level());
    let longest = levels().max_by_key(|series| series.value.len());
    let counted: Vec<&Classes> = rank
        .steps
        .iter()
        .zip(classes)
        .filter(|(step, _)| step.counted)
        .filter_map(|(_, classes)| classes.as_ref())
        .collect();
    let mut lengths = [0; 6];
    for classes in &counted {
        for (sum, ns) in lengths.iter_mut().zip(classes.lengths()) {
            *sum += ns;
        }
    }
    let timed = match (&placed.shift, longest) {
        (Ok(shift), Some(series)) => Some(Timed::new(series, *shift)),
        _ => None,
    };
    let own = |i: usize| -> Option<f64> {
        let timed = timed.as_ref()?;
        let alone: Ns =
            counted.iter().filter_map(|c| c.parts.get(i)).map(|part| timed.alone(part)).sum();
        let total = lengths.get(i).copied().filter(|ns| *ns > 0)?;
        Some(rounded(alone as f64 / total as f64))
    };
    let samples = match &timed {
        Some(timed) => counted.iter().map(|classes| timed.count(classes.window)).sum(),
        None => longest.map_or(0, |series| series.value.len()),
    };
    let steps = (counted.len() as i64).max(1);
    Sampling {
        rank: rank.rank,
        source: placed.sampled.sampler.label().to_owned(),
        file: placed.sampled.file.clone(),
        interval_ns: longest.and_then(Series::interval),
        samples,
        part_ns: PerClass::of(lengths.map(|ns| ns / steps)),
        own_fraction: PerClass::of(std::array::from_fn(own)),
        reason: placed.shift.as_ref().err().cloned(),
    }
}

/// Leaves out values of single steps where there would be too many.
pub(super) fn bound(rows: &mut [Row]) -> Option<Warning> {
    let values: usize = rows.iter().map(|row| row.steps.len() * (NAMES.len() + 1)).sum();
    if values <= MOST_STEP_VALUES {
        return None;
    }
    rows.iter_mut().for_each(|row| row.steps.clear());
    let message =
        format!("Counters of single steps are left out: {} values.", units::count(values as u64));
    Some(
        Warning::new(Id::CountersSteps, message)
            .with_hint("Report on fewer steps (--steps) or ranks (--ranks)."),
    )
}

/// What the length of samples makes doubtful.
pub(super) fn doubts(list: &[Sampling]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut untimed: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    for one in list {
        if let Some(reason) = &one.reason {
            untimed.insert((&one.file, &one.source), reason);
        }
    }
    for ((file, source), reason) in untimed {
        warnings.push(
            Warning::new(
                Id::CountersUntimed,
                format!("Counters of {file} ({source}) are averages over the whole file: {reason}."),
            )
            .with_hint("nsys profile --gpu-metrics-devices=all samples on the clock of the trace, 10,000 times a second."),
        );
    }
    let mut mixed: BTreeMap<usize, f64> = BTreeMap::new();
    for one in list.iter().filter(|one| one.reason.is_none()) {
        for (i, own) in one.own_fraction.list().into_iter().enumerate() {
            if let Some(own) = own.filter(|own| *own < OWN) {
                let least = mixed.entry(i).or_insert(own);
                *least = least.min(own);
            }
        }
    }
    let interval = list.iter().filter_map(|one| one.interval_ns).max();
    if let (Some(interval), false) = (interval, mixed.is_empty()) {
        let parts: Vec<String> = mixed
            .iter()
            .filter_map(|(i, own)| Some(format!("{} {}", NAMES.get(*i)?, units::percent(*own))))
            .collect();
        warnings.push(
            Warning::new(
                Id::CountersCoarse,
                format!(
                    "A sample of counters takes {}, and most of some parts lies in samples that hold other parts too, so their averages are mixed with what runs around them. Share of the part in samples of its own: {}.",
                    units::time(interval),
                    units::listed(&parts, 6)
                ),
            )
            .with_hint("Sample more often (--gpu-metrics-frequency, up to 200000)."),
        );
    }
    warnings
}
