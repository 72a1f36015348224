//! What the matrix, links and errors say, as sentences with their evidence.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Details;
use super::classes::PerClass;
use super::health::Health;
use super::rows::{Row, Sampling};
use crate::catalogue::{Finding, Id, Severity};
use crate::stats;
use crate::units;

/// A counter beside communication that is below this share of what it is alone is said.
const SLOWED: f64 = 0.9;
/// Share of the step that a part takes at least if something is said of it.
const NOTABLE: f64 = 0.02;
/// A clock below this share of the highest is said; below the second it matters.
const CLOCK: [f64; 2] = [0.95, 0.85];
/// A link that is below this share of its peak carries nothing to speak of.
const QUIET: f64 = 0.01;

/// All of them.
pub(crate) fn find(rows: &[Row], details: &Details) -> Vec<Finding> {
    let mut list = Vec::new();
    list.extend(beside_communication(rows, &details.sampling));
    list.extend(link_load(rows));
    list.extend(clock(rows, &details.health));
    list.extend(errors(&details.health));
    list
}

fn rows_of<'r>(rows: &'r [Row], metric: &str, unit: &str) -> impl Iterator<Item = &'r Row> {
    let (metric, unit) = (metric.to_owned(), unit.to_owned());
    rows.iter().filter(move |row| row.metric == metric && row.unit == unit)
}

/// Median over ranks of two parts of a counter, of the ranks that have both.
fn both(
    rows: &[Row],
    metric: &str,
    ranks: &[u32],
    part: fn(&PerClass<Option<f64>>) -> Option<f64>,
    other: fn(&PerClass<Option<f64>>) -> Option<f64>,
) -> Option<(f64, f64)> {
    let pairs: Vec<(f64, f64)> = rows_of(rows, metric, "%")
        .filter(|row| ranks.contains(&row.rank))
        .filter_map(|row| part(&row.parts).zip(other(&row.parts)))
        .collect();
    let median = |list: Vec<f64>| stats::median(&list);
    median(pairs.iter().map(|p| p.0).collect()).zip(median(pairs.iter().map(|p| p.1).collect()))
}

/// Compute that gets less of the GPU while communication runs beside it.
fn beside_communication(rows: &[Row], sampling: &[Sampling]) -> Option<Finding> {
    let notable = |one: &&Sampling| {
        let step: i64 = one.part_ns.list().iter().sum();
        one.part_ns.overlap as f64 >= NOTABLE * step.max(1) as f64
    };
    let ranks: Vec<u32> = sampling.iter().filter(notable).map(|one| one.rank).collect();
    let of = |metric: &str| both(rows, metric, &ranks, |p| p.overlap, |p| p.compute);
    let (sm, tensor) = (of("sm_active"), of("tensor_active"));
    let slowed = |pair: Option<(f64, f64)>| {
        pair.is_some_and(|(beside, alone)| alone >= 1.0 && beside < SLOWED * alone)
    };
    if !slowed(sm) && !slowed(tensor) {
        return None;
    }
    let words = |pair: Option<(f64, f64)>, what: &str| {
        pair.map(|(beside, alone)| format!("{beside:.1} % of {what} against {alone:.1} % alone"))
    };
    let parts: Vec<String> =
        [words(sm, "SMs"), words(tensor, "tensor cores' cycles")].into_iter().flatten().collect();
    let median = if ranks.len() > 1 { " (median over ranks)" } else { "" };
    Some(finding(
        Id::CommunicationSlowsCompute,
        Severity::Medium,
        format!("Compute beside communication runs with {}{median}.", parts.join(" and ")),
        [
            ("sm_active_overlap_percent", sm.map(|pair| pair.0).into()),
            ("sm_active_compute_percent", sm.map(|pair| pair.1).into()),
            ("tensor_active_overlap_percent", tensor.map(|pair| pair.0).into()),
            ("tensor_active_compute_percent", tensor.map(|pair| pair.1).into()),
            ("ranks_count", ranks.len().into()),
        ],
        "Which kernels run beside communication may differ from those that run alone: compare the time of one kernel in both. If it is slower there, try fewer channels (NCCL_MAX_CTAS) or copy engines for the communication, and capture again: the counters beside communication then come near those alone.".to_owned(),
    ))
}

/// The link that carries most of its peak while data moves.
fn link_load(rows: &[Row]) -> Option<Finding> {
    let mean = |metric: &str, unit: &str| {
        let values: Vec<f64> =
            rows_of(rows, metric, unit).filter_map(|row| row.parts.transfer).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let load = |(link, sent, received): (&'static str, &str, &str)| {
        let gbs = mean(sent, "GB/s").zip(mean(received, "GB/s"))?;
        let share = mean(sent, "%")?.max(mean(received, "%")?) / 100.0;
        let peak = rows_of(rows, sent, "GB/s").find_map(|row| row.peak)?;
        Some((link, gbs, share, peak))
    };
    let loads: Vec<_> = [("NVLink", "nvlink_tx", "nvlink_rx"), ("PCIe", "pcie_tx", "pcie_rx")]
        .into_iter()
        .filter_map(load)
        .collect();
    let (link, (sent, received), share, peak) =
        loads.iter().copied().max_by(|a, b| a.2.total_cmp(&b.2))?;
    if share < QUIET {
        return None;
    }
    let quiet: Vec<&str> = loads.iter().filter(|load| load.2 < QUIET).map(|load| load.0).collect();
    let beside = match quiet.first() {
        Some(other) => format!(" {other} carries next to nothing then."),
        None => String::new(),
    };
    Some(finding(
        Id::LinkLoad,
        Severity::Info,
        format!(
            "{link} carries {sent:.1} GB/s out of a GPU and {received:.1} GB/s into it in transfer, {} of its peak of {peak:.1} GB/s in one direction (protocol included, mean over ranks).{beside}",
            units::percent(share)
        ),
        [
            ("link", link.into()),
            ("sent_gbs", sent.into()),
            ("received_gbs", received.into()),
            ("peak_fraction", share.into()),
            ("peak_gbs", peak.into()),
        ],
        match (link, share) {
            ("PCIe", _) => "See with nvidia-smi topo -m whether the GPUs are joined by NVLink, and in NCCL_DEBUG=INFO why it is not used.",
            (_, share) if share >= 0.7 => "The link is near its peak: only fewer bytes make the transfer shorter (smaller types, compression, less often).",
            _ => "The link has room: larger messages, more channels or another algorithm may use it; compare busbw with that of nccl-tests at this size.",
        }
        .to_owned(),
    ))
}

/// GPUs whose clock is held down.
fn clock(rows: &[Row], health: &[Health]) -> Option<Finding> {
    let mut slow: Vec<(f64, u32, f64, f64)> = rows_of(rows, "sm_clock", "MHz")
        .filter_map(|row| {
            let (mhz, peak) = (row.parts.compute.or(row.mean)?, row.peak?);
            Some((mhz / peak, row.rank, mhz, peak))
        })
        .filter(|(share, ..)| *share < CLOCK[0])
        .collect();
    slow.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut reasons: BTreeMap<&str, f64> = BTreeMap::new();
    let mut held: Vec<u32> = Vec::new();
    for one in health.iter().filter(|one| !one.throttled.is_empty()) {
        held.push(one.rank);
        for (word, share) in &one.throttled {
            let most = reasons.entry(word).or_default();
            *most = most.max(*share);
        }
    }
    let why: Vec<String> = reasons
        .iter()
        .map(|(word, share)| format!("{word} in {} of samples", units::percent(*share)))
        .collect();
    let first = slow.first().copied();
    let title = match first {
        Some((share, rank, mhz, peak)) => {
            let others = match slow.len() {
                1 => String::new(),
                n => format!(
                    ", and {} more below {}",
                    units::plural(n - 1, "rank"),
                    units::percent(CLOCK[0])
                ),
            };
            let because = match why.is_empty() {
                true => String::new(),
                false => format!(" Held down: {}.", units::listed(&why, 3)),
            };
            format!(
                "The GPU of rank {rank} computes at {mhz:.0} MHz, {} of its highest clock of {peak:.0} MHz{others}.{because}",
                units::percent(share)
            )
        }
        None if why.is_empty() => return None,
        None => format!(
            "The clock of the GPU of {} was held down: {}.",
            units::ranks(&held),
            units::listed(&why, 3)
        ),
    };
    let severity = match first {
        Some((share, ..)) if share < CLOCK[1] => Severity::Medium,
        _ => Severity::Info,
    };
    Some(finding(
        Id::GpuThrottled,
        severity,
        title,
        [
            ("rank", first.map(|f| f.1).or(held.first().copied()).into()),
            ("clock_mhz", first.map(|f| f.2).into()),
            ("highest_mhz", first.map(|f| f.3).into()),
            ("clock_fraction", first.map(|f| f.0).into()),
            ("reasons", (!why.is_empty()).then(|| why.join("; ")).into()),
        ],
        "See nvidia-smi -q -d PERFORMANCE,CLOCK,POWER,TEMPERATURE while it runs: a power cap, heat or clocks that were set. If it helped, the clock in compute comes near the highest, and compute gets shorter by as much.".to_owned(),
    ))
}

/// Errors of links and of the driver.
fn errors(health: &[Health]) -> Option<Finding> {
    let sum = |of: fn(&Health) -> Option<u64>| {
        health.iter().filter_map(of).fold(0u64, u64::saturating_add)
    };
    let (new, pcie_new) = (sum(|h| h.nvlink_errors_new), sum(|h| h.pcie_replays_new));
    let (all, pcie) = (sum(|h| h.nvlink_errors), sum(|h| h.pcie_replays));
    let xid = health.iter().find_map(|h| Some((h.rank, h.xid?)));
    let with: Vec<u32> = health
        .iter()
        .filter(|h| {
            h.nvlink_errors.is_some_and(|n| n > 0)
                || h.pcie_replays.is_some_and(|n| n > 0)
                || h.xid.is_some()
        })
        .map(|h| h.rank)
        .collect();
    if with.is_empty() {
        return None;
    }
    let counted = |all: u64, new: u64, what: &str| {
        (all > 0).then(|| {
            format!(
                "{} {what}, {} of them while it was sampled",
                units::count(all),
                units::count(new)
            )
        })
    };
    let parts: Vec<String> = [
        counted(all, new, "errors and repetitions on NVLink"),
        counted(pcie, pcie_new, "repetitions on PCIe"),
        xid.map(|(rank, xid)| format!("XID {xid} on rank {rank}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    let during = new + pcie_new > 0 || xid.is_some();
    Some(finding(
        Id::LinkErrors,
        if during { Severity::Medium } else { Severity::Info },
        format!("GPUs of {} count {}.", units::ranks(&with), units::listed(&parts, 3)),
        [
            ("nvlink_errors_count", all.into()),
            ("nvlink_errors_new_count", new.into()),
            ("pcie_replays_count", pcie.into()),
            ("pcie_replays_new_count", pcie_new.into()),
            ("xid", xid.map(|(_, xid)| xid).into()),
        ],
        "Look with nvidia-smi nvlink -e and in the kernel's log: a link that repeats is slower than it looks, and one that recovers stops for a while. If it helped, the counters stay where they are.".to_owned(),
    ))
}

fn finding<const N: usize>(
    id: Id,
    severity: Severity,
    title: String,
    evidence: [(&str, Value); N],
    advice: String,
) -> Finding {
    evidence
        .into_iter()
        .filter(|(_, value)| !value.is_null())
        .fold(Finding::new(id, title), |finding, (name, value)| finding.with(name, value))
        .weighing(severity)
        .advice(advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(metric: &str, unit: &str, parts: [f64; 6], peak: Option<f64>) -> Row {
        Row {
            rank: 0,
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            name: metric.to_owned(),
            source: "nsys GPU metrics".to_owned(),
            mean: Some(parts[0]),
            parts: PerClass::of(parts.map(Some)),
            reasons: BTreeMap::new(),
            peak,
            peak_source: None,
            steps: Vec::new(),
        }
    }

    fn details(overlap_ns: i64) -> Details {
        Details {
            sampling: vec![Sampling {
                rank: 0,
                source: String::new(),
                file: String::new(),
                interval_ns: Some(100_000),
                samples: 9,
                part_ns: PerClass::of([1_000_000 - overlap_ns, 0, 0, overlap_ns, 0, 0]),
                own_fraction: PerClass::default(),
                reason: None,
            }],
            ..Details::default()
        }
    }

    fn title(rows: &[Row], details: &Details, id: Id) -> Option<String> {
        find(rows, details).into_iter().find(|f| f.id == id).map(|f| f.title)
    }

    #[test]
    fn compute_that_gets_less_beside_communication_is_said() {
        // compute 90 %, overlap 80.9 %: below nine tenths.
        let of = |beside: f64| [row("sm_active", "%", [90.0, 0.0, 0.0, beside, 0.0, 0.0], None)];
        let id = Id::CommunicationSlowsCompute;
        let said = title(&of(80.9), &details(500_000), id).expect("said");
        assert!(said.contains("80.9 % of SMs against 90.0 % alone"), "{said}");
        assert_eq!(title(&of(81.1), &details(500_000), id), None, "borderline");
        assert_eq!(title(&of(95.0), &details(500_000), id), None);
        assert_eq!(title(&of(50.0), &details(19_000), id), None, "1.9 % of the step");
    }

    #[test]
    fn the_link_that_carries_the_transfer_is_named_with_its_peak() {
        let link = |metric: &str, share: f64, peak: f64| {
            let parts = |v: f64| [0.0, v, 0.0, 0.0, 0.0, 0.0];
            [
                row(metric, "%", parts(share), None),
                row(metric, "GB/s", parts(share * peak / 100.0), Some(peak)),
            ]
        };
        let rows = |nvlink: f64, pcie: f64| -> Vec<Row> {
            ["nvlink_tx", "nvlink_rx"]
                .into_iter()
                .flat_map(|metric| link(metric, nvlink, 450.0))
                .chain(["pcie_tx", "pcie_rx"].into_iter().flat_map(|m| link(m, pcie, 63.0)))
                .collect()
        };
        let of = |nvlink, pcie| title(&rows(nvlink, pcie), &Details::default(), Id::LinkLoad);
        let said = of(40.0, 0.5).expect("said");
        assert!(said.starts_with("NVLink carries 180.0 GB/s out of a GPU"), "{said}");
        assert!(said.contains("40.0 % of its peak of 450.0 GB/s"), "{said}");
        assert!(said.ends_with("PCIe carries next to nothing then."), "{said}");
        assert!(of(0.1, 30.0).expect("said").starts_with("PCIe carries 18.9 GB/s"));
        assert_eq!(of(0.9, 0.9), None, "borderline");
    }

    #[test]
    fn a_clock_that_is_held_down_is_said_with_the_reason() {
        let of = |mhz: f64| [row("sm_clock", "MHz", [mhz; 6], Some(2_000.0))];
        let said = title(&of(1_690.0), &Details::default(), Id::GpuThrottled).expect("said");
        assert!(said.contains("1690 MHz, 84.5 % of its highest clock of 2000 MHz"), "{said}");
        assert_eq!(title(&of(1_900.0), &Details::default(), Id::GpuThrottled), None, "borderline");
        let health = Health {
            rank: 1,
            source: String::new(),
            file: String::new(),
            nvlink_errors: Some(5),
            nvlink_errors_new: Some(2),
            pcie_replays: Some(0),
            pcie_replays_new: Some(0),
            xid: None,
            throttled: BTreeMap::from([("power cap".to_owned(), 0.5)]),
        };
        let mut details = Details { health: vec![health], ..Details::default() };
        let said = title(&[], &details, Id::GpuThrottled).expect("said");
        assert!(said.contains("rank 1 was held down: power cap in 50.0 % of samples"), "{said}");
        let said = title(&[], &details, Id::LinkErrors).expect("said");
        assert!(said.contains("5 errors and repetitions on NVLink, 2 of them while"), "{said}");
        details.health[0].nvlink_errors = Some(0);
        assert_eq!(title(&[], &details, Id::LinkErrors), None);
    }
}
