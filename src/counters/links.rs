//! What links carried, against what was to be sent: which link carries the communication, and how near it comes to its peak.
//!
//! A part of a sample cannot be told from the rest, so bytes are counted over whole samples: all that share time with an operation.

use serde::{Deserialize, Serialize};

use super::average::{Timed, rounded};
use super::classes::RankWork;
use super::place::Placed;
use super::rows::peak;
use crate::model::counter::{Link, Quantity, Series, Unit};
use crate::model::{Class, Ns, Span};
use crate::timeline::SpanSet;

/// One direction of one link of a rank's GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkBytes {
    /// The rank.
    pub rank: u32,
    /// `NVLink` or `PCIe`.
    pub link: String,
    /// `received` or `sent`, seen from the GPU.
    pub direction: String,
    /// The counter, by its name in JSON.
    pub metric: String,
    /// Bytes a counted step that the counter saw in samples which share time with the operations of `payload_bytes`.
    pub counted_bytes: Option<i64>,
    /// Half a unit of the counter, as bytes over those samples: counters of nsys are whole per cent.
    pub rounding_bytes: Option<i64>,
    /// Bytes a counted step that operations were to move over the link in this direction: of NVLink communication, of PCIe copies
    /// between host and device.
    pub payload_bytes: Option<i64>,
    /// The first by the last.
    pub ratio: Option<f64>,
    /// Bytes a counted step over its whole length, whatever moved them.
    pub step_bytes: Option<i64>,
    /// Why a figure is missing.
    pub reason: Option<String>,
}

/// Every direction of every link that was sampled with times.
pub(super) fn of(rank: &RankWork<'_>, placed: &Placed<'_>) -> Vec<LinkBytes> {
    let Ok(shift) = placed.shift else { return Vec::new() };
    let series = |quantity: Quantity| {
        placed.sampled.series.iter().find(|series| series.quantity == quantity)
    };
    [
        (Link::Nvlink, true, [Quantity::NvlinkRxUser, Quantity::NvlinkRx]),
        (Link::Nvlink, false, [Quantity::NvlinkTxUser, Quantity::NvlinkTx]),
        (Link::Pcie, true, [Quantity::PcieRx; 2]),
        (Link::Pcie, false, [Quantity::PcieTx; 2]),
    ]
    .into_iter()
    .filter_map(|(link, receives, of)| {
        let series = of.into_iter().find_map(series)?;
        Some(one(rank, placed, (series, shift), link, receives))
    })
    .collect()
}

fn one(
    rank: &RankWork<'_>,
    placed: &Placed<'_>,
    (series, shift): (&Series, Ns),
    link: Link,
    receives: bool,
) -> LinkBytes {
    let counted: Vec<Span> =
        rank.steps.iter().filter(|step| step.counted).filter_map(|step| step.window).collect();
    let steps = counted.len().max(1) as f64;
    let in_step = |at: Ns| counted.iter().any(|window| window.contains(at));
    let work = match link {
        Link::Nvlink => messages(rank, receives, in_step),
        Link::Pcie => copies(rank, receives, in_step),
    };
    let mut row = LinkBytes {
        rank: rank.rank,
        link: link.label().to_owned(),
        direction: if receives { "received" } else { "sent" }.to_owned(),
        metric: series.quantity.id().to_owned(),
        counted_bytes: None,
        rounding_bytes: None,
        payload_bytes: work.bytes.map(|bytes| (bytes / steps).round() as i64),
        ratio: None,
        step_bytes: None,
        reason: work.reason,
    };
    // GB/s are bytes in a nanosecond.
    let unit = match (series.unit, peak(rank, placed, series.quantity)) {
        (Unit::GbPerSecond, _) => 1.0,
        (Unit::Percent, Some((peak, _))) => peak / 100.0,
        _ => {
            row.reason = Some("the peak of the link of this model is not known".to_owned());
            return row;
        }
    };
    let timed = Timed::new(series, shift);
    let whole = SpanSet::from_unsorted(counted.clone());
    row.step_bytes = Some((timed.over(&whole).sum * unit / steps).round() as i64);
    let (mut sum, mut ns, mut seen) = (0.0, 0.0, Ns::MIN);
    for &span in work.spans.spans() {
        for (sample, value) in timed.touching(span).filter(|(sample, _)| sample.start >= seen) {
            sum += value * sample.len() as f64;
            ns += sample.len() as f64;
        }
        // The last of these samples may reach into the next span.
        seen = timed.touching(span).last().map_or(seen, |(sample, _)| sample.end.max(seen));
    }
    row.counted_bytes = Some((sum * unit / steps).round() as i64);
    if series.unit == Unit::Percent {
        let half = 0.5 * series.names.len().max(1) as f64;
        row.rounding_bytes = Some((half * ns * unit / steps).round() as i64);
    }
    row.ratio = match (row.counted_bytes, row.payload_bytes) {
        (Some(counted), Some(payload)) if payload > 0 => {
            Some(rounded(counted as f64 / payload as f64))
        }
        _ => None,
    };
    row
}

/// Operations of a link and what they were to move.
struct Work {
    spans: SpanSet,
    bytes: Option<f64>,
    reason: Option<String>,
}

fn messages(rank: &RankWork<'_>, receives: bool, in_step: impl Fn(Ns) -> bool) -> Work {
    let inside: Vec<_> = rank.messages.iter().filter(|m| in_step(m.span.start)).collect();
    let known = inside.iter().filter_map(|message| message.bytes);
    let bytes: f64 =
        known.clone().map(|(sent, received)| if receives { received } else { sent }).sum();
    let unknown = inside.len() - known.count();
    Work {
        spans: SpanSet::from_unsorted(inside.iter().map(|message| message.span).collect()),
        bytes: (unknown == 0).then_some(bytes),
        reason: match (inside.len(), unknown) {
            (0, _) => Some("no counted step communicates".to_owned()),
            (_, 0) => None,
            (all, unknown) => Some(format!(
                "size, kind or ranks of {unknown} of {all} communication operations are not known"
            )),
        },
    }
}

fn copies(rank: &RankWork<'_>, receives: bool, in_step: impl Fn(Ns) -> bool) -> Work {
    let wanted = if receives { Class::Htod } else { Class::Dtoh };
    let ops = rank.ops;
    let inside: Vec<usize> =
        (0..ops.len()).filter(|&i| ops.class[i] == wanted && in_step(ops.start[i])).collect();
    Work {
        spans: SpanSet::from_unsorted(inside.iter().map(|&i| ops.span(i)).collect()),
        bytes: Some(inside.iter().map(|&i| ops.bytes[i] as f64).sum()),
        reason: inside.is_empty().then(|| "no counted step copies in this direction".to_owned()),
    }
}
