//! GPU counters that Nsight Systems sampled beside the trace (`--gpu-metrics-devices`).
//!
//! A sample's time is its beginning: copies of known length between host and device fill the samples of PCIe from their time on.

use std::collections::BTreeMap;

use foldhash::{HashMap, HashMapExt};

use super::db::{Db, int, shown, time};
use super::metadata::Metadata;
use super::queries;
use crate::Result;
use crate::catalogue::Id;
use crate::model::Ns;
use crate::model::counter::{Quantity, Sampled, Sampler, Series, Unit, uuid_key};
use crate::units;
use crate::warning::Warning;

/// Samples that are kept of one report: over a minute of one GPU at the highest rate.
const MOST_SAMPLES: usize = 6_000_000;
/// Counters that are known by name in one report.
const MOST_METRICS: usize = 4_096;
/// A clock above this is in Hz, whatever its name says.
const HERTZ: f64 = 100_000.0;

/// What a report holds of GPU counters, by GPU, and what a reader should know.
///
/// # Errors
/// The report is damaged.
pub fn read(db: &Db, meta: &Metadata, file: &str) -> Result<(Vec<Sampled>, Vec<Warning>)> {
    let mut names: HashMap<(i64, i64), (String, Vec<Quantity>)> = HashMap::new();
    db.each(queries::GPU_METRIC_NAMES, [], |row| {
        let (Some(kind), Some(metric), Some(name)) = (int(row, 0), int(row, 1), shown(row, 2))
        else {
            return;
        };
        let quantities = quantities(&name);
        if !quantities.is_empty() && names.len() < MOST_METRICS {
            names.insert((kind, metric), (name, quantities));
        }
    })?;
    if names.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let mut samples: BTreeMap<(i64, i64), Vec<(Ns, f64)>> = BTreeMap::new();
    let (mut kept, mut left_out) = (0, 0u64);
    db.each(queries::GPU_METRICS, [], |row| {
        let (Some(at), Some(kind), Some(metric), Some(value)) =
            (time(row, 0), int(row, 1), int(row, 2), int(row, 3))
        else {
            return;
        };
        if value < 0 || !names.contains_key(&(kind, metric)) {
            return;
        }
        if kept == MOST_SAMPLES {
            left_out += 1;
            return;
        }
        kept += 1;
        samples.entry((kind, metric)).or_default().push((at, value as f64));
    })?;
    let mut clocks: HashMap<i64, f64> = HashMap::new();
    db.each(queries::GPU_CLOCKS, [], |row| {
        if let (Some(id), Some(hz)) = (int(row, 0), int(row, 1).filter(|hz| *hz > 0)) {
            clocks.insert(id, hz as f64 / 1e6);
        }
    })?;
    // The parts of one quantity are added up: requests and responses of NVLink, user data and protocol.
    let mut parts: BTreeMap<(i64, Quantity), Vec<Part<'_>>> = BTreeMap::new();
    for (key, list) in &samples {
        let Some((name, quantities)) = names.get(key) else { continue };
        for quantity in quantities {
            parts.entry((key.0, *quantity)).or_default().push((name, list));
        }
    }
    let mut by_gpu: BTreeMap<i64, Vec<Series>> = BTreeMap::new();
    for ((kind, quantity), list) in parts {
        by_gpu.entry(kind).or_default().push(sum(quantity, &list));
    }
    let of_gpu = |(kind, series): (i64, Vec<Series>)| {
        let id = kind & 0xff;
        let uuid = meta.uuid(id).map(uuid_key);
        Sampled {
            sampler: Sampler::Nsys,
            file: file.to_owned(),
            gpu_index: u32::try_from(id).ok(),
            gpu_uuid: uuid,
            hostname: meta.hostname.clone(),
            epoch_ns: meta.epoch_ns,
            max_clock_mhz: clocks.get(&id).copied(),
            series,
        }
    };
    let warning = (left_out > 0).then(|| {
        Warning::new(
            Id::CountersCut,
            format!(
                "{} samples of GPU counters are left out: of one report {} are kept, in the order of the file.",
                units::count(left_out),
                units::count(MOST_SAMPLES as u64)
            ),
        )
        .with_hint("Sample less often (--gpu-metrics-frequency) or capture fewer steps.")
        .in_report(file)
    });
    Ok((by_gpu.into_iter().map(of_gpu).collect(), warning.into_iter().collect()))
}

/// The name of a counter and its samples.
type Part<'a> = (&'a str, &'a [(Ns, f64)]);

fn sum(quantity: Quantity, parts: &[Part<'_>]) -> Series {
    let mut all: Vec<(Ns, f64)> = parts.iter().flat_map(|(_, list)| *list).copied().collect();
    all.sort_by_key(|(at, _)| *at);
    all.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
    let unit = if quantity == Quantity::SmClock { Unit::Megahertz } else { Unit::Percent };
    let megahertz = |value: f64| if value > HERTZ { value / 1e6 } else { value };
    let value = |value: f64| if unit == Unit::Megahertz { megahertz(value) } else { value };
    Series {
        quantity,
        unit,
        names: parts.iter().map(|(name, _)| (*name).to_owned()).collect(),
        at: all.iter().map(|(at, _)| *at).collect(),
        value: all.into_iter().map(|(_, v)| value(v)).collect(),
    }
}

/// What a counter of this name is part of. Names differ between generations of GPUs and versions of nsys (`SM Active`, `SMs Active
/// [Throughput %]`, `NVLink RX Responses User Data`), so case, marks and the unit behind the name do not count.
fn quantities(name: &str) -> Vec<Quantity> {
    let (text, unit) = match name.rsplit_once('[') {
        Some((text, unit)) => (text, unit.trim_end_matches(']').trim().to_lowercase()),
        None => (name, String::new()),
    };
    let words: Vec<String> = text
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if words.starts_with(&["gpc", "clock"]) {
        return vec![Quantity::SmClock];
    }
    // Shares of the most that is possible; averages and counts of warps are something else.
    if !unit.is_empty() && !unit.ends_with('%') {
        return Vec::new();
    }
    let of_link = |link: &str, rx: Quantity, tx: Quantity| match words.as_slice() {
        [first, direction, ..] if *first == link => match *direction {
            "rx" | "received" | "read" => Some(rx),
            "tx" | "transmitted" | "write" => Some(tx),
            _ => None,
        },
        _ => None,
    };
    if let Some(quantity) = of_link("nvlink", Quantity::NvlinkRx, Quantity::NvlinkTx) {
        let user = match quantity {
            Quantity::NvlinkRx => Quantity::NvlinkRxUser,
            _ => Quantity::NvlinkTxUser,
        };
        let is_user = words.ends_with(&["user", "data"]);
        return std::iter::once(quantity).chain(is_user.then_some(user)).collect();
    }
    if let Some(quantity) = of_link("pcie", Quantity::PcieRx, Quantity::PcieTx) {
        // Newer sets count requests to the GPU's memory over PCIe apart.
        return if words.contains(&"bar1") { Vec::new() } else { vec![quantity] };
    }
    match words.as_slice() {
        ["gr", "active"] => vec![Quantity::GrActive],
        ["sm" | "sms", "active"] => vec![Quantity::SmActive],
        ["sm" | "sms", "issue"] => vec![Quantity::SmIssue],
        ["tensor", "active"] | ["tensor", "pipe", "active"] => vec![Quantity::TensorActive],
        ["dram", "read", "bandwidth" | "throughput"] => vec![Quantity::DramRead],
        ["dram", "write", "bandwidth" | "throughput"] => vec![Quantity::DramWrite],
        ["dram", "active"] | ["dram", "bandwidth" | "throughput"] => vec![Quantity::DramActive],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_known_by_any_of_their_names() {
        let cases: [(&str, &[Quantity]); 14] = [
            ("GPC Clock Frequency [MHz]", &[Quantity::SmClock]),
            ("SYS Clock Frequency [MHz]", &[]),
            ("SMs Active [Throughput %]", &[Quantity::SmActive]),
            ("SM Active", &[Quantity::SmActive]),
            ("Tensor Active [Throughput %]", &[Quantity::TensorActive]),
            ("Compute Warps in Flight [Throughput %]", &[]),
            ("Compute Warps in Flight [Avg]", &[]),
            ("DRAM Read Bandwidth [Throughput %]", &[Quantity::DramRead]),
            ("DRAM Write Throughput", &[Quantity::DramWrite]),
            ("NVLink RX Requests Protocol Data [Throughput %]", &[Quantity::NvlinkRx]),
            (
                "NVLink TX Responses User Data [Throughput %]",
                &[Quantity::NvlinkTx, Quantity::NvlinkTxUser],
            ),
            ("NVLink RX Bandwidth [Throughput %]", &[Quantity::NvlinkRx]),
            ("PCIe RX Throughput [Throughput %]", &[Quantity::PcieRx]),
            ("PCIe Read Requests to BAR1 [Requests]", &[]),
        ];
        for (name, want) in cases {
            assert_eq!(quantities(name), want, "{name}");
        }
    }

    #[test]
    fn parts_of_a_quantity_are_added_up_sample_by_sample() {
        let series = sum(
            Quantity::NvlinkRx,
            &[("a", &[(0, 1.0), (10, 2.0)]), ("b", &[(10, 5.0), (0, 3.0), (20, 7.0)])],
        );
        assert_eq!((series.at, series.value), (vec![0, 10, 20], vec![4.0, 7.0, 7.0]));
        assert_eq!(series.names, ["a", "b"]);
        let clock = sum(Quantity::SmClock, &[("GPC", &[(0, 1_980_007_500.0), (1, 1_500.0)])]);
        assert_eq!(clock.value, [1980.0075, 1500.0]);
    }
}
