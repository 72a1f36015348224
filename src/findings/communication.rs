//! What communication and copies cost the step, and what the usual remedies are.

use super::straggler;
use super::words::{is_whole, ms, percent, period};
use crate::catalogue::{Finding, Id};
use crate::classify;
use crate::model::{CommOp, Metric};
use crate::report::{CollectiveGroup, Kernel, Place, Report};
use crate::stats;
use crate::text;
use crate::units;

/// Departures closer than this are what kernels that end together look like, ns.
const APART_NS: i64 = 200_000;
/// Below this share of the transfer they do not matter.
const APART_SHARE: f64 = 0.1;

/// A median of counts as a whole number.
fn whole_count(count: f64) -> String {
    units::count(count.round().max(0.0) as u64)
}

/// Exposed communication that is not waiting for a late rank, as a share of the step.
pub(super) fn moving_fraction(report: &Report) -> Option<f64> {
    let values = &report.summary.values;
    // Without ratios part of the work is of unknown class, and these are lower bounds.
    values.median(Metric::ExposedCommFraction)?;
    let (step, exposed) = (values.median(Metric::StepNs)?, values.median(Metric::ExposedCommNs)?);
    Some((exposed - straggler::waiting(report).unwrap_or(0.0).min(exposed)) / step)
}

/// A part below this share of the step has no finding only because it is the largest.
const DOMINANT: f64 = 0.01;

/// The largest part of a step that is not compute: it always has a finding.
pub(super) fn largest(report: &Report) -> Option<Metric> {
    let of = |metric| report.summary.values.median(metric);
    let parts = [Metric::ExposedCommNs, Metric::ExposedCopyNs, Metric::IdleNs];
    let measured: Vec<(f64, Metric)> =
        parts.into_iter().filter_map(|part| Some((of(part)?, part))).collect();
    let (ns, part) = measured.into_iter().rev().max_by(|a, b| a.0.total_cmp(&b.0))?;
    (ns >= DOMINANT * of(Metric::StepNs)?).then_some(part)
}

/// Exposed communication, and why nothing hides it. It is worth a word from a twentieth of the step on, or if it is the largest
/// part that is not compute.
pub(super) fn share(report: &Report, largest: Option<Metric>) -> Option<Finding> {
    let values = &report.summary.values;
    let (step, comm, exposed) = (
        values.median(Metric::StepNs)?,
        values.median(Metric::CommNs)?,
        values.median(Metric::ExposedCommNs)?,
    );
    // Without ratios part of the work is of unknown class, and these are lower bounds.
    let (fraction, exposed_fraction) =
        (values.median(Metric::CommFraction)?, values.median(Metric::ExposedCommFraction)?);
    if exposed_fraction < 0.05 && largest != Some(Metric::ExposedCommNs) {
        return None;
    }
    let overlap = values.median(Metric::OverlapFraction).unwrap_or(0.0);
    let count = values.median(Metric::CommCount).unwrap_or(0.0);
    // Waiting for a late rank is not a matter of the link: it has its own finding, and only the rest counts here.
    let waiting = straggler::waiting(report).map(|ns| ns.min(exposed));
    let moving = moving_fraction(report)?;
    let one_at_the_end = overlap < 0.05 && count <= 2.0;
    let hides = if overlap < 0.01 {
        "none of it hides behind compute".to_owned()
    } else {
        format!("{} of it hides behind compute", percent(overlap))
    };
    let waits = match waiting {
        Some(ns) if ns >= 0.1 * exposed => {
            format!(", of which ranks wait {} for others to arrive (mean over ranks)", ms(ns))
        }
        _ => String::new(),
    };
    let title = format!(
        "Communication takes {} {} ({}); {hides}, so {} ({}) are exposed{waits}.",
        percent(fraction),
        period(report).of,
        ms(comm),
        ms(exposed),
        percent(exposed_fraction)
    );
    let mut finding = Finding::new(Id::ExposedCommunication, title)
        .with("step_ns", step.round() as i64)
        .with("comm_ns", comm.round() as i64)
        .with("exposed_comm_ns", exposed.round() as i64)
        .with("overlap_fraction", overlap)
        .with("comm_count_per_step", count)
        .costs(moving, step);
    if let Some(ns) = waiting {
        finding = finding.with("exposed_wait_ns", ns.round() as i64);
    }
    if let Some(place) = most_exposed(report) {
        finding = finding
            .with("most_exposed_at", place.name.as_str())
            .with("most_exposed_at_ns", place.exposed_comm_ns);
    }
    let advice = if 2.0 * moving * step < exposed {
        "Most of it is waiting: ranks arrive at different times, and no faster link helps; see who waits for whom.".to_owned()
    } else {
        remedies(report, one_at_the_end, overlap)
    };
    Some(finding.advice(advice))
}

/// The layer, or the collective of a step, whose communication nothing hides for longest.
fn most_exposed(report: &Report) -> Option<&Place> {
    let tables = [&report.places.layer, &report.places.communicator];
    let table = tables.into_iter().find(|table| !table.is_empty())?;
    let named = table.iter().filter(|place| place.exposed_comm_ns > 0);
    named.max_by(|a, b| a.exposed_comm_ns.cmp(&b.exposed_comm_ns).then(b.name.cmp(&a.name)))
}

/// What usually helps, as far as the capture shows that it can: advice for reductions only where some run, fewer bytes only
/// where some are wide.
fn remedies(report: &Report, one_at_the_end: bool, overlap: f64) -> String {
    let has = |op: CommOp| report.kernels.comm.iter().any(|k| classify::op(&k.name) == Some(op));
    let shards = has(CommOp::AllGather) || has(CommOp::ReduceScatter);
    let part =
        |kernel: &Kernel, kinds: &[&str]| kernel.name.split('_').any(|part| kinds.contains(&part));
    let wide = report.kernels.comm.iter().any(|k| part(k, &["f32", "f64", "float", "double"]));
    let mut list: Vec<&str> = Vec::new();
    if overlap >= 0.5 {
        return "Most of it is hidden already: what is left is usually the last bucket or waiting for a late rank; see the table of waits.".to_owned();
    }
    match (one_at_the_end, has(CommOp::AllReduce), shards) {
        (true, true, _) => list.push(
            "with one large operation at the end of the step nothing can run beside it: smaller buckets (DDP: bucket_cap_mb) let reductions start during backward",
        ),
        (false, true, false) => {
            list.push("start reductions earlier (smaller buckets) so that compute runs beside them");
        }
        (_, _, true) => list.push(
            "start gathers earlier (prefetching of the next layer's parameters) and reduce gradients while backward goes on",
        ),
        _ => list.push("launch it earlier, on a stream of its own, so that compute runs beside it"),
    }
    if wide {
        list.push("fewer bytes (16-bit gradients, a bf16 hook) help where the link is the limit");
    }
    if report.transport.is_none() {
        list.push("--nccl-log and --topo say whether the fastest link is used");
    }
    format!("{}.", text::capitalised(&list.join("; ")))
}

/// Many operations that are too small to use the link.
pub(super) fn tiny_messages(report: &Report) -> Option<Finding> {
    const TINY: u64 = 64 * 1024;
    let per_step = report.summary.values.median(Metric::CommCount)?;
    let step = report.summary.values.median(Metric::StepNs)?;
    let sized: u64 = report.collectives.iter().filter(|c| c.bytes.is_some()).map(|c| c.count).sum();
    let tiny: Vec<_> =
        report.collectives.iter().filter(|c| c.bytes.is_some_and(|b| b <= TINY)).collect();
    let tiny_calls: u64 = tiny.iter().map(|c| c.count).sum();
    if sized == 0 || per_step < 20.0 || (tiny_calls as f64) < 0.5 * sized as f64 {
        return None;
    }
    let total: f64 = tiny.iter().map(|c| c.count as f64 * c.transfer_ns.unwrap_or(0) as f64).sum();
    let share = total / step / report.summary.steps.max(1) as f64;
    let title = format!(
        "{tiny_calls} of {sized} collectives carry 64 KiB or less ({} communication operations {}): at that size latency counts, not bandwidth.{}",
        whole_count(per_step),
        period(report).each,
        match below_half_speed(report) {
            Some((below, of, ns)) => format!(
                " {below} of {of} calls are below half speed: {} {}.",
                ms(ns as f64),
                period(report).each
            ),
            None => String::new(),
        }
    );
    let finding = Finding::new(Id::TinyMessages, title)
        .with("tiny_calls", tiny_calls)
        .with("sized_calls", sized)
        .with("tiny_limit_bytes", TINY)
        .with("comm_count_per_step", per_step)
        .costs(share, step);
    let finding = match below_half_speed(report) {
        Some((below, of, ns)) => finding
            .with("calls_below_half_speed", below)
            .with("calls_of_fitted_sizes", of)
            .with("below_half_speed_ns_per_step", ns),
        None => finding,
    };
    Some(
        finding.advice("Send fewer, larger messages: larger buckets, coalesced or grouped calls (ncclGroupStart/End), flattened parameters."),
    )
}

/// Calls smaller than the size of half speed, of all whose operation has a line through its sizes, and their time a step, ns.
fn below_half_speed(report: &Report) -> Option<(u64, u64, i64)> {
    let fitted = report.size_fits.iter().filter(|fit| fit.calls_below.is_some());
    let (mut below, mut of, mut ns) = (0, 0, 0i64);
    for fit in fitted {
        below += fit.calls_below?;
        of += fit.calls;
        ns = ns.saturating_add(fit.below_ns?);
    }
    let steps = i64::try_from(report.summary.steps.max(1)).unwrap_or(i64::MAX);
    (of > 0).then_some((below, of, ns / steps))
}

/// Collectives that ranks left at different times although they leave together: the clocks do not explain it.
pub(super) fn end_spread(report: &Report) -> Option<Finding> {
    let spread = |group: &CollectiveGroup| -> Option<(f64, i64, i64)> {
        let (spread, transfer) = (group.leave_spread_p95_ns?, group.transfer_ns?);
        Some((spread as f64 / transfer.max(1) as f64, spread, transfer))
    };
    let apart = report.collectives.iter().filter_map(|group| Some((spread(group)?, group)));
    let apart = apart.filter(|((share, ns, _), _)| *ns >= APART_NS && *share >= APART_SHARE);
    let ((_, ns, transfer), group) =
        apart.max_by(|a, b| a.0.0.total_cmp(&b.0.0).then(a.0.1.cmp(&b.0.1)))?;
    let size = group.bytes.map_or(String::new(), |bytes| format!(" of {}", units::bytes(bytes)));
    let title = format!(
        "Ranks leave {}{size} {} apart (95th percentile of {} calls) even on aligned clocks, although it lets all go together.",
        group.op,
        ms(ns as f64),
        group.count
    );
    let mut finding = Finding::new(Id::EndSpread, title)
        .with("op", group.op.label())
        .with("comm_id", group.comm_id.clone())
        .with("leave_spread_p95_ns", ns)
        .with("transfer_ns", transfer);
    if let Some(residual) = report.ranks.iter().filter_map(|r| r.clock.residual_p50_ns).max() {
        finding = finding.with("clock_residual_p50_ns", residual);
    }
    Some(finding.advice("Clocks drift or jump (hosts without time synchronisation), or operations were matched that are not the same: look at single steps before trusting the order of arrival."))
}

/// Time in which GPUs wait for their hosts. A rank that is known to idle longer than the others has its own finding: then
/// only the others' idle time is worth another one.
pub(super) fn idle(report: &Report, late: Option<u32>, largest: Option<Metric>) -> Option<Finding> {
    let values = &report.summary.values;
    let (step, idle) = (values.median(Metric::StepNs)?, values.median(Metric::IdleNs)?);
    let by_rank: Vec<(f64, u32)> = report
        .ranks
        .iter()
        .filter_map(|r| Some((r.summary.median(Metric::IdleNs)?, r.rank)))
        .collect();
    let others: Vec<f64> = by_rank.iter().filter(|r| Some(r.1) != late).map(|r| r.0).collect();
    let least = if largest == Some(Metric::IdleNs) { DOMINANT } else { 0.1 };
    // The finding of a late rank says what the most idle time is for.
    let said = late.is_some() && stats::mean(&others)? / step < 0.1;
    if idle / step < least || said || is_whole(report) {
        return None;
    }
    let most = by_rank.iter().max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))?;
    let least = by_rank.iter().min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))?;
    // Medians of ranks need not lie on both sides of the run's median; then they would only confuse.
    let differ = most.0 > 1.5 * least.0 && (least.0..=most.0).contains(&idle);
    let range = if differ {
        format!(": {} on rank {}, {} on rank {}", ms(most.0), most.1, ms(least.0), least.1)
    } else {
        String::new()
    };
    let gpus = if report.ranks.len() > 1 { "GPUs are idle" } else { "The GPU is idle" };
    // The median of the share, which the headline prints too; the quotient of two medians is another number.
    let share = values.median(Metric::IdleFraction).unwrap_or(idle / step);
    let title = format!("{gpus} {} of the step ({}{range}).", percent(share), ms(idle));
    let finding = Finding::new(Id::Idle, title)
        .with("idle_ns", idle.round() as i64)
        .with("host_late_ns", values.median(Metric::HostLateNs).map(|ns| ns.round() as i64))
        .with("step_ns", step.round() as i64)
        .costs(share, step)
        .with("host_of_most_idle_rank", straggler::host_did(report, most.1));
    Some(finding.advice(if straggler::is_pipeline(report) {
        "Stages of a pipeline are idle before their first and after their last micro-batch (the bubble): more micro-batches or an interleaved schedule make it smaller. What is idle between them is the host's: data loading, synchronisation, small kernels."
    } else {
        match values.median(Metric::HostLateNs) {
            Some(late) if late >= 0.5 * idle => {
                "Most of it passes before the host has launched what comes next: look at data loading, synchronisation and small kernels (CUDA graphs, torch.compile, fused optimizers)."
            }
            _ => {
                "What comes next was launched in time for most of it, so the GPU waits for something else: other streams, copies, other ranks, or the launch itself; the timeline shows what ends each gap."
            }
        }
    }))
}
