//! Copies beside which nothing else runs, one finding for each kind.

use super::draft::{Draft, ms, percent, period, severity};
use crate::classify;
use crate::model::{CommOp, Metric};
use crate::report::Report;
use crate::units;
use crate::warning::Finding;

/// Exposed copies below this share of the step are not worth a word.
const WORTH: f64 = 0.005;

/// A kind of copy: what it is called, its metrics, and what usually helps.
struct Kind {
    id: &'static str,
    words: &'static str,
    /// Time, exposed time, count, bytes.
    metrics: [Metric; 4],
    /// Names of the evidence, in the same order.
    names: [&'static str; 4],
}

const KINDS: [Kind; 4] = [
    Kind {
        id: "htod-copies",
        words: "host-to-device copies",
        metrics: [Metric::HtodNs, Metric::HtodExposedNs, Metric::HtodCount, Metric::HtodBytes],
        names: ["htod_ns", "htod_exposed_ns", "htod_count", "htod_bytes"],
    },
    Kind {
        id: "dtoh-copies",
        words: "device-to-host copies",
        metrics: [Metric::DtohNs, Metric::DtohExposedNs, Metric::DtohCount, Metric::DtohBytes],
        names: ["dtoh_ns", "dtoh_exposed_ns", "dtoh_count", "dtoh_bytes"],
    },
    Kind {
        id: "dtod-copies",
        words: "device-to-device copies",
        metrics: [Metric::DtodNs, Metric::DtodExposedNs, Metric::DtodCount, Metric::DtodBytes],
        names: ["dtod_ns", "dtod_exposed_ns", "dtod_count", "dtod_bytes"],
    },
    Kind {
        id: "other-copies",
        words: "other copies (host to host, unified memory, arrays)",
        metrics: [
            Metric::OtherCopyNs,
            Metric::OtherCopyExposedNs,
            Metric::OtherCopyCount,
            Metric::OtherCopyBytes,
        ],
        names: ["other_copy_ns", "other_copy_exposed_ns", "other_copy_count", "other_copy_bytes"],
    },
];

/// Every kind of copy that costs part of the step.
pub fn copies(report: &Report) -> Vec<Finding> {
    KINDS.iter().filter_map(|kind| finding(report, kind)).collect()
}

fn finding(report: &Report, kind: &Kind) -> Option<Finding> {
    let values = &report.summary.values;
    let step = values.median(Metric::StepNs)?;
    let [time, exposed, count, bytes] = kind.metrics.map(|metric| values.median(metric));
    let (time, exposed, count, bytes) = (time?, exposed?, count?, bytes?);
    let share = exposed / step;
    if share < WORTH {
        return None;
    }
    let period = period(report);
    let title = format!(
        "{} {} {} move {} in {}, {} of it exposed ({} {}).",
        units::count(count.round().max(0.0) as u64),
        kind.words,
        period.each,
        units::bytes(bytes.round().max(0.0) as u64),
        ms(time),
        ms(exposed),
        percent(share),
        period.of
    );
    let [time_name, exposed_name, count_name, bytes_name] = kind.names;
    let draft = Draft::new(kind.id, severity(share), title)
        .with(time_name, time.round() as i64)
        .with(exposed_name, exposed.round() as i64)
        .with(count_name, count)
        .with(bytes_name, bytes)
        .costs(share);
    Some(draft.advice(advice(report, kind.id)))
}

fn advice(report: &Report, id: &str) -> &'static str {
    let reduces =
        report.kernels.comm.iter().any(|kernel| {
            classify::op(&kernel.name) == Some(CommOp::AllReduce) && kernel.count > 0
        });
    match id {
        "htod-copies" => {
            "Keep on the device what is copied again (weights, masks, constants); copy the next batch ahead on a stream of its own from pinned memory (non_blocking=True, prefetching loaders); what is offloaded to the host is paid for here."
        }
        "dtoh-copies" => {
            "Read results less often (.item(), .cpu(), printing of losses), copy them on a stream of their own into pinned memory, and synchronise only when they are needed."
        }
        "dtod-copies" if reduces => {
            "Where gradients are reduced by DDP, gradient_as_bucket_view=True saves the copies between gradients and buckets; communication hooks may bring them back. Else look for .contiguous(), torch.cat and changes of layout."
        }
        "dtod-copies" => {
            "Look for .contiguous(), torch.cat, clones and changes of layout between kernels; in-place operations and views save them."
        }
        _ => {
            "Look at which calls make them: unified memory moves pages on demand, which prefetching (cudaMemPrefetchAsync) avoids."
        }
    }
}
