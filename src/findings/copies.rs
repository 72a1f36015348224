//! Copies and memsets beside which nothing else runs, one finding for each kind.

use super::words::{ms, percent, period};
use crate::catalogue::{Finding, Id};
use crate::classify;
use crate::model::{CommOp, Metric};
use crate::report::Report;
use crate::units;

/// Exposed copies below this share of the step are not worth a word.
const WORTH: f64 = 0.005;

/// A kind of copy: what it is called, its metrics, and what usually helps.
struct Kind {
    id: Id,
    words: &'static str,
    /// Time, exposed time, count, bytes.
    metrics: [Metric; 4],
    /// Names of the evidence, in the same order.
    names: [&'static str; 4],
}

const KINDS: [Kind; 5] = [
    Kind {
        id: Id::HtodCopies,
        words: "host-to-device copies",
        metrics: [Metric::HtodNs, Metric::HtodExposedNs, Metric::HtodCount, Metric::HtodBytes],
        names: ["htod_ns", "htod_exposed_ns", "htod_count", "htod_bytes"],
    },
    Kind {
        id: Id::DtohCopies,
        words: "device-to-host copies",
        metrics: [Metric::DtohNs, Metric::DtohExposedNs, Metric::DtohCount, Metric::DtohBytes],
        names: ["dtoh_ns", "dtoh_exposed_ns", "dtoh_count", "dtoh_bytes"],
    },
    Kind {
        id: Id::DtodCopies,
        words: "device-to-device copies",
        metrics: [Metric::DtodNs, Metric::DtodExposedNs, Metric::DtodCount, Metric::DtodBytes],
        names: ["dtod_ns", "dtod_exposed_ns", "dtod_count", "dtod_bytes"],
    },
    Kind {
        id: Id::OtherCopies,
        words: "other copies (host to host, unified memory, arrays)",
        metrics: [
            Metric::OtherCopyNs,
            Metric::OtherCopyExposedNs,
            Metric::OtherCopyCount,
            Metric::OtherCopyBytes,
        ],
        names: ["other_copy_ns", "other_copy_exposed_ns", "other_copy_count", "other_copy_bytes"],
    },
    Kind {
        id: Id::Memsets,
        words: "memsets",
        metrics: [
            Metric::MemsetNs,
            Metric::MemsetExposedNs,
            Metric::MemsetCount,
            Metric::MemsetBytes,
        ],
        names: ["memset_ns", "memset_exposed_ns", "memset_count", "memset_bytes"],
    },
];

/// Every kind of copy that costs part of the step.
pub(super) fn copies(report: &Report) -> Vec<Finding> {
    KINDS.iter().filter_map(|kind| of_kind(report, kind)).collect()
}

fn of_kind(report: &Report, kind: &Kind) -> Option<Finding> {
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
        "{} {} {} {} {} in {}, {} of it exposed ({} {}).",
        units::count(count.round().max(0.0) as u64),
        kind.words,
        period.each,
        if kind.id == Id::Memsets { "fill" } else { "move" },
        units::bytes(bytes.round().max(0.0) as u64),
        ms(time),
        ms(exposed),
        percent(share),
        period.of
    );
    let [time_name, exposed_name, count_name, bytes_name] = kind.names;
    let finding = Finding::new(kind.id, title)
        .with(time_name, time.round() as i64)
        .with(exposed_name, exposed.round() as i64)
        .with(count_name, count)
        .with(bytes_name, bytes)
        .costs(share, step);
    Some(finding.advice(advice(report, kind.id)))
}

fn advice(report: &Report, id: Id) -> &'static str {
    let reduces =
        report.kernels.comm.iter().any(|kernel| {
            classify::op(&kernel.name) == Some(CommOp::AllReduce) && kernel.count > 0
        });
    match id {
        Id::HtodCopies => {
            "Keep on the device what is copied again (weights, masks, constants); copy the next batch ahead on a stream of its own from pinned memory (non_blocking=True, prefetching loaders); what is offloaded to the host is paid for here."
        }
        Id::DtohCopies => {
            "Read results less often (.item(), .cpu(), printing of losses), copy them on a stream of their own into pinned memory, and synchronise only when they are needed."
        }
        Id::DtodCopies if reduces => {
            "Where gradients are reduced by DDP, gradient_as_bucket_view=True saves the copies between gradients and buckets; communication hooks may bring them back. Else look for .contiguous(), torch.cat and changes of layout."
        }
        Id::DtodCopies => {
            "Look for .contiguous(), torch.cat, clones and changes of layout between kernels; in-place operations and views save them."
        }
        Id::Memsets => {
            "Look for buffers that are zeroed and then written in full: torch.empty in place of torch.zeros, zero_grad(set_to_none=True) in place of filling gradients with zeros."
        }
        _ => {
            "Look at which calls make them: unified memory moves pages on demand, which prefetching (cudaMemPrefetchAsync) avoids."
        }
    }
}
