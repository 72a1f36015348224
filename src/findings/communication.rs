//! What communication and copies cost the step, and what the usual remedies are.

use super::{Draft, ms, percent, period, severity};
use crate::model::Metric;
use crate::report::Report;
use crate::units;
use crate::warning::{Finding, Severity};

/// A median of counts as a whole number.
fn whole_count(count: f64) -> String {
    units::count(count.round().max(0.0) as u64)
}

/// Exposed communication, and why nothing hides it.
pub fn share(report: &Report) -> Option<Finding> {
    let values = &report.summary.values;
    let (step, comm, exposed) = (values.median(Metric::StepNs)?, values.median(Metric::CommNs)?, values.median(Metric::ExposedCommNs)?);
    // Without ratios part of the work is of unknown class, and these are lower bounds.
    let (fraction, exposed_fraction) = (values.median(Metric::CommFraction)?, values.median(Metric::ExposedCommFraction)?);
    if exposed_fraction < 0.05 {
        return None;
    }
    let overlap = values.median(Metric::OverlapFraction).unwrap_or(0.0);
    let count = values.median(Metric::CommCount).unwrap_or(0.0);
    let one_at_the_end = overlap < 0.05 && count <= 2.0;
    let hides = if overlap < 0.01 {
        "none of it hides behind compute".to_owned()
    } else {
        format!("{} of it hides behind compute", percent(overlap))
    };
    let title = format!(
        "Communication takes {} {} ({}); {hides}, so {} ({}) are exposed.",
        percent(fraction),
        period(report).of,
        ms(comm),
        ms(exposed),
        percent(exposed_fraction)
    );
    let draft = Draft::new("exposed-communication", severity(exposed / step), title)
        .with("step_ns", step.round() as i64)
        .with("comm_ns", comm.round() as i64)
        .with("exposed_comm_ns", exposed.round() as i64)
        .with("overlap_fraction", overlap)
        .with("comm_count_per_step", count)
        .costs(exposed_fraction);
    let advice = if one_at_the_end {
        "With one large operation at the end of the step nothing can run beside it: use smaller buckets (DDP: bucket_cap_mb) so that reductions start during backward; fewer bytes (bf16 hook) help where the link is the limit."
    } else if overlap < 0.5 {
        "Start communication earlier (smaller buckets, prefetching for FSDP), send fewer bytes (bf16 hook), or look at the transport: --nccl-log and --topo say whether the fastest link is used."
    } else {
        "Most of it is hidden already: what is left is usually the last bucket or waiting for a late rank; see the table of waits."
    };
    Some(draft.advice(advice))
}

/// Many operations that are too small to use the link.
pub fn tiny_messages(report: &Report) -> Option<Finding> {
    const TINY: u64 = 64 * 1024;
    let per_step = report.summary.values.median(Metric::CommCount)?;
    let step = report.summary.values.median(Metric::StepNs)?;
    let sized: u64 = report.collectives.iter().filter(|c| c.bytes.is_some()).map(|c| c.count).sum();
    let tiny: Vec<_> = report.collectives.iter().filter(|c| c.bytes.is_some_and(|b| b <= TINY)).collect();
    let tiny_calls: u64 = tiny.iter().map(|c| c.count).sum();
    if sized == 0 || per_step < 20.0 || (tiny_calls as f64) < 0.5 * sized as f64 {
        return None;
    }
    let total: f64 = tiny.iter().map(|c| c.count as f64 * c.transfer_ns.unwrap_or(0) as f64).sum();
    let share = total / step / report.summary.steps.max(1) as f64;
    let title = format!(
        "{tiny_calls} of {sized} collectives carry 64 KiB or less ({} communication operations {}): at that size latency counts, not bandwidth.",
        whole_count(per_step),
        period(report).each
    );
    let draft = Draft::new("tiny-messages", severity(share), title)
        .with("tiny_calls", tiny_calls)
        .with("sized_calls", sized)
        .with("comm_count_per_step", per_step)
        .costs(share);
    Some(
        draft.advice("Send fewer, larger messages: larger buckets, coalesced or grouped calls (ncclGroupStart/End), flattened parameters."),
    )
}

/// Collectives that ranks left at different times although they leave together: the clocks do not explain it.
pub fn end_spread(report: &Report) -> Option<Finding> {
    let worst = report.ranks.iter().filter_map(|r| Some((r.clock.residual_p95_ns?, r.rank))).max()?;
    let transfer = report.collectives.iter().filter_map(|c| c.transfer_ns).max()?;
    if worst.0 < 200_000 || (worst.0 as f64) < 0.01 * transfer as f64 {
        return None;
    }
    let title =
        format!("Ranks leave collectives up to {} apart (95th percentile on rank {}) even on aligned clocks.", ms(worst.0 as f64), worst.1);
    let draft = Draft::new("end-spread", Severity::Medium, title).with("rank", worst.1).with("residual_p95_ns", worst.0);
    Some(draft.advice("Clocks drift or jump (hosts without time synchronisation), or operations were matched that are not the same: look at single steps before trusting the order of arrival."))
}

/// Copies on the device that cost part of the step.
pub fn copies(report: &Report) -> Option<Finding> {
    let values = &report.summary.values;
    let step = values.median(Metric::StepNs)?;
    let (time, exposed) = (values.median(Metric::DtodNs)?, values.median(Metric::DtodExposedNs)?);
    let (count, bytes) = (values.median(Metric::DtodCount)?, values.median(Metric::DtodBytes)?);
    if exposed / step < 0.005 {
        return None;
    }
    let period = period(report);
    let title = format!(
        "{} device-to-device copies {} move {:.2} GB in {}, {} of it exposed ({} {}).",
        whole_count(count),
        period.each,
        bytes / 1e9,
        ms(time),
        ms(exposed),
        percent(exposed / step),
        period.of
    );
    let draft = Draft::new("dtod-copies", severity(exposed / step), title)
        .with("dtod_ns", time.round() as i64)
        .with("dtod_exposed_ns", exposed.round() as i64)
        .with("dtod_count", count)
        .with("dtod_bytes", bytes)
        .costs(exposed / step);
    Some(draft.advice(
        "With DDP, gradient_as_bucket_view=True saves the copies between gradients and buckets; communication hooks may bring them back.",
    ))
}

/// Time in which the GPU waits for its host.
pub fn idle(report: &Report) -> Option<Finding> {
    let values = &report.summary.values;
    let (step, idle) = (values.median(Metric::StepNs)?, values.median(Metric::IdleNs)?);
    if idle / step < 0.1 || report.settings.step_pattern == "whole" {
        return None;
    }
    let title = format!("The GPU is idle {} of the step ({}).", percent(idle / step), ms(idle));
    let draft = Draft::new("idle", severity(idle / step), title)
        .with("idle_ns", idle.round() as i64)
        .with("step_ns", step.round() as i64)
        .costs(idle / step);
    Some(draft.advice("The host launches too slowly: look at data loading, synchronisation and small kernels (CUDA graphs, torch.compile, fused optimizers)."))
}
