//! Differences of all numbers, and how they become JSON.

use serde::Serialize;
use serde::ser::Serializer;

use super::Delta;
use crate::model::metric::{Metric, Num, Summary};
use crate::model::values::nested;

/// The difference to the baseline of each metric's median; `None` where one of the two was not measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Deltas {
    #[serde(flatten)]
    metrics: MetricDeltas,
    /// Of [`super::Variant::throughput_steps_per_s`].
    pub throughput_steps_per_s: Option<Delta>,
    /// Of [`super::Variant::comm_bytes_per_step`].
    pub comm_bytes_per_step: Option<Delta>,
    /// Of [`super::Variant::comm_transfer_ns`].
    pub comm_transfer_ns: Option<Delta>,
}

#[derive(Debug, Clone, PartialEq)]
struct MetricDeltas([Option<Delta>; Metric::COUNT]);

impl Serialize for MetricDeltas {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        nested(s, Metric::ALL, |metric| &self.0[metric as usize])
    }
}

impl Deltas {
    /// The differences of two summaries.
    pub(super) fn of(variant: &Summary, baseline: &Summary) -> Self {
        let mut metrics = [None; Metric::COUNT];
        for &metric in Metric::ALL {
            metrics[metric as usize] =
                delta(variant[metric].map(|s| s.median), baseline[metric].map(|s| s.median));
        }
        Self {
            metrics: MetricDeltas(metrics),
            throughput_steps_per_s: None,
            comm_bytes_per_step: None,
            comm_transfer_ns: None,
        }
    }

    /// The difference of one metric's median.
    pub fn of_metric(&self, metric: Metric) -> Option<Delta> {
        self.metrics.0[metric as usize]
    }
}

/// `variant - baseline`, absolute and as a share of the baseline.
pub(super) fn delta(variant: Option<Num>, baseline: Option<Num>) -> Option<Delta> {
    let (variant, baseline) = (variant?, baseline?);
    let abs = match (variant, baseline) {
        (Num::Int(a), Num::Int(b)) => Num::Int(a.saturating_sub(b)),
        _ => Num::Real(variant.as_f64() - baseline.as_f64()),
    };
    let rel = (baseline.as_f64() != 0.0).then(|| abs.as_f64() / baseline.as_f64());
    Some(Delta { abs, rel })
}
