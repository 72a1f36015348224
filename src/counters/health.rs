//! What is wrong with a GPU or its links, as counters have it: errors, and what held the clock down.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::average::rounded;
use crate::ingest::counters::dcgm;
use crate::model::counter::{Quantity, Sampled, Series};

/// Errors and limits of one rank's GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// The rank.
    pub rank: u32,
    /// Who sampled.
    pub source: String,
    /// File name without its folder.
    pub file: String,
    /// Errors and repetitions on NVLink since the driver was loaded; `None` if they were not sampled.
    pub nvlink_errors: Option<u64>,
    /// Those that came while it was sampled.
    pub nvlink_errors_new: Option<u64>,
    /// Repetitions on PCIe since the driver was loaded.
    pub pcie_replays: Option<u64>,
    /// Those that came while it was sampled.
    pub pcie_replays_new: Option<u64>,
    /// The last error of the driver that is not 0.
    pub xid: Option<u64>,
    /// What held the clock down, with the share of samples; empty also where it was not sampled.
    pub throttled: BTreeMap<String, f64>,
}

/// What counters say of one rank's GPU; `None` if they say nothing of the kind.
pub(super) fn of(rank: u32, sampled: &Sampled) -> Option<Health> {
    let series = |quantity: Quantity| sampled.series.iter().find(|s| s.quantity == quantity);
    let last = |quantity| series(quantity).and_then(|s| s.value.last()).map(|value| *value as u64);
    let grown = |quantity| {
        let values = &series(quantity)?.value;
        // A counter that was set back counts from 0 again.
        let new: f64 = values.windows(2).map(|pair| (pair[1] - pair[0]).max(0.0)).sum();
        (values.len() > 1).then_some(new as u64)
    };
    let mut throttled: BTreeMap<String, f64> = BTreeMap::new();
    if let Some(bits) = series(Quantity::ThrottleReasons) {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for value in &bits.value {
            for word in dcgm::reasons(*value as u64).into_iter().filter(|word| *word != "GPU idle")
            {
                *counts.entry(word).or_default() += 1;
            }
        }
        let share = |n: usize| rounded(n as f64 / bits.value.len().max(1) as f64);
        throttled.extend(counts.into_iter().map(|(word, n)| (word.to_owned(), share(n))));
    }
    for (quantity, word) in
        [(Quantity::PowerViolation, "power cap"), (Quantity::ThermalViolation, "heat")]
    {
        let violated = |s: &Series| s.value.iter().filter(|value| **value > 0.0).count();
        if let Some(s) = series(quantity).filter(|s| violated(s) > 0) {
            let share = rounded(violated(s) as f64 / s.value.len() as f64);
            throttled.entry(word.to_owned()).or_insert(share);
        }
    }
    let xid = series(Quantity::Xid)
        .and_then(|s| s.value.iter().rev().find(|value| **value > 0.0))
        .map(|value| *value as u64);
    let health = Health {
        rank,
        source: sampled.sampler.label().to_owned(),
        file: sampled.file.clone(),
        nvlink_errors: last(Quantity::NvlinkErrors),
        nvlink_errors_new: grown(Quantity::NvlinkErrors),
        pcie_replays: last(Quantity::PcieReplays),
        pcie_replays_new: grown(Quantity::PcieReplays),
        xid,
        throttled,
    };
    let says = health.nvlink_errors.is_some()
        || health.pcie_replays.is_some()
        || health.xid.is_some()
        || !health.throttled.is_empty();
    says.then_some(health)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::counter::{Sampler, Unit};

    #[test]
    fn errors_are_counted_while_it_was_sampled_and_reasons_by_their_bits() {
        let series = |quantity, value: &[f64]| Series {
            quantity,
            unit: Unit::Count,
            names: Vec::new(),
            at: Vec::new(),
            value: value.to_vec(),
        };
        let mut sampled = Sampled {
            sampler: Sampler::Dcgmi,
            file: "f".to_owned(),
            gpu_index: Some(0),
            gpu_uuid: None,
            hostname: None,
            epoch_ns: None,
            max_clock_mhz: None,
            series: vec![
                series(Quantity::NvlinkErrors, &[7.0, 7.0, 9.0]),
                // Power cap in two of four samples, with heat in one; idle is not a reason.
                series(Quantity::ThrottleReasons, &[4.0, 36.0, 1.0, 0.0]),
            ],
        };
        let health = of(3, &sampled).expect("it says something");
        assert_eq!((health.nvlink_errors, health.nvlink_errors_new), (Some(9), Some(2)));
        assert_eq!(health.pcie_replays, None);
        let heat = "thermal slowdown by software".to_owned();
        assert_eq!(health.throttled, BTreeMap::from([("power cap".to_owned(), 0.5), (heat, 0.25)]));
        sampled.series.clear();
        assert_eq!(of(3, &sampled), None);
    }
}
