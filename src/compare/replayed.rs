//! What replays of the variants say: what held their steps up, and whether a change gave what the baseline's replay promised.

use serde::Serialize;

use super::{TrainingOption, Variant};
use crate::catalogue::Scenario;
use crate::model::Metric;
use crate::report::{CriticalPath, Report};

/// Parts of a critical path with their names.
pub(super) type PathPart = (&'static str, fn(&PathMean) -> i64);

/// What the steps of a variant consist of along what held them up: means over the counted steps of all captures, ns. The parts add
/// up to `step_ns` but for rounding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct PathMean {
    /// Mean step.
    pub step_ns: i64,
    pub compute_ns: i64,
    pub transfer_ns: i64,
    pub wait_ns: i64,
    pub copy_ns: i64,
    pub launch_ns: i64,
    pub host_ns: i64,
    pub sync_ns: i64,
    pub lag_ns: i64,
}

impl PathMean {
    /// Its parts in the order in which they are printed.
    pub const PARTS: [PathPart; 8] = [
        ("compute", |path| path.compute_ns),
        ("transfer", |path| path.transfer_ns),
        ("wait", |path| path.wait_ns),
        ("copies", |path| path.copy_ns),
        ("launch", |path| path.launch_ns),
        ("host", |path| path.host_ns),
        ("sync", |path| path.sync_ns),
        ("lag", |path| path.lag_ns),
    ];

    /// Of some captures; `None` if one was not replayed.
    pub(super) fn of(captures: &[Report]) -> Option<PathMean> {
        if captures.is_empty() || captures.iter().any(|report| report.critical_path.is_empty()) {
            return None;
        }
        let counted = |report: &'_ Report, path: &CriticalPath| {
            report.steps.get(path.step).is_some_and(|step| step.counted)
        };
        let paths: Vec<&CriticalPath> = captures
            .iter()
            .flat_map(|r| r.critical_path.iter().filter(move |path| counted(r, path)))
            .collect();
        let mean = |of: fn(&CriticalPath) -> i64| -> Option<i64> {
            let sum: i128 = paths.iter().map(|path| i128::from(of(path))).sum();
            i64::try_from(sum / (paths.len().max(1) as i128)).ok()
        };
        let path = PathMean {
            step_ns: 0,
            compute_ns: mean(|path| path.compute_ns)?,
            transfer_ns: mean(|path| path.transfer_ns)?,
            wait_ns: mean(|path| path.wait_ns)?,
            copy_ns: mean(|path| path.copy_ns)?,
            launch_ns: mean(|path| path.launch_ns)?,
            host_ns: mean(|path| path.host_ns)?,
            sync_ns: mean(|path| path.sync_ns)?,
            lag_ns: mean(|path| path.lag_ns)?,
        };
        let step_ns = PathMean::PARTS.iter().map(|(_, of)| of(&path)).sum();
        (!paths.is_empty()).then_some(PathMean { step_ns, ..path })
    }
}

/// What the baseline's replay said that a change would give, and what a variant with that change gave.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Promise {
    /// The variant.
    pub variant: String,
    /// Its option.
    pub option: TrainingOption,
    /// The scenario that comes nearest to the option.
    pub scenario: Scenario,
    /// The predicted median step, ns.
    pub promised_ns: i64,
    /// Least and greatest predicted step, ns.
    pub promised_range_ns: [i64; 2],
    /// The measured median step of the variant, ns.
    pub measured_ns: i64,
    /// (measured - promised) / promised.
    pub off_rel: f64,
}

/// The scenario that an option comes nearest to; a bound where the option also does work (converting, compressing).
fn scenario(option: TrainingOption) -> Option<Scenario> {
    match option {
        TrainingOption::GradientAsBucketView => Some(Scenario::DtodCopiesFree),
        TrainingOption::Bf16Hook => Some(Scenario::TransfersTwiceAsFast),
        TrainingOption::PowerSgd => Some(Scenario::NoCommunication),
        _ => None,
    }
}

/// Of variants that differ from the baseline by one such option and were captured once against a baseline captured once.
pub(super) fn promises(baseline: (&Variant, &[Report]), variants: &[Variant]) -> Vec<Promise> {
    let (base, captures) = baseline;
    let [report] = captures else { return Vec::new() };
    let of = |variant: &Variant| {
        let mut new = variant
            .options
            .iter()
            .map(|option| option.option)
            .filter(|option| !base.options.iter().any(|other| other.option == *option));
        let (option, None) = (new.next()?, new.next()) else { return None };
        let scenario = scenario(option)?;
        let what = report.what_if.iter().find(|what| what.id == scenario)?;
        let measured_ns = variant.summary.median(Metric::StepNs)?.round() as i64;
        (variant.ranks == base.ranks && what.step_ns > 0).then(|| Promise {
            variant: variant.name.clone(),
            option,
            scenario,
            promised_ns: what.step_ns,
            promised_range_ns: what.range_ns,
            measured_ns,
            off_rel: measured_ns as f64 / what.step_ns as f64 - 1.0,
        })
    };
    variants.iter().filter(|variant| variant.name != base.name).filter_map(of).collect()
}
