//! Which numbers a report of a run has, which are weaker than they could be, and which are null.

use super::nccl_log::ReadLog;
use super::view::{Export, InspectorLog, Number, Rank, Run, State};
use crate::ingest::nsys::file_name;
use crate::steps::StepSource;
use crate::units::rank_list;

const NO_COMMON_STEP: &str = "no step is on every rank";

/// A state with its reason.
type Judged = (State, Option<String>);

fn measured() -> Judged {
    (State::Measured, None)
}

fn from(source: &str) -> Judged {
    (State::Measured, Some(source.to_owned()))
}

fn weaker(why: impl Into<String>) -> Judged {
    (State::Weaker, Some(why.into()))
}

fn null(why: impl Into<String>) -> Judged {
    (State::Null, Some(why.into()))
}

/// The numbers of a run.
pub(super) fn of(
    run: &Run,
    exports: &[Export],
    inspector: &[&InspectorLog],
    nccl_logs: &[&ReadLog],
) -> Vec<Number> {
    let number = |id, name, fields, (state, why): Judged| Number { id, name, fields, state, why };
    let judge = |judged: Judged| match &run.problem {
        Some(_) => null("the report stops with an error: see below"),
        None => judged,
    };
    vec![
        number(
            "steps",
            "steps and their time",
            &["steps", "summary.step_ns"],
            judge(steps(run, exports)),
        ),
        number(
            "shares",
            "communication, compute, overlap, idle",
            &[
                "comm_ns",
                "comm_fraction",
                "exposed_comm_ns",
                "overlap_ns",
                "overlap_fraction",
                "compute_ns",
                "idle_ns",
            ],
            judge(shares(run)),
        ),
        number(
            "copies",
            "copies and memsets",
            &["dtod", "htod", "dtoh", "exposed_copy_ns"],
            judge(copies(run)),
        ),
        number(
            "across",
            "waiting, last rank, clocks",
            &[
                "collectives[].transfer_ns",
                "collectives[].wait_ns",
                "collectives[].last_arriver",
                "ranks[].clock.offset_ns",
            ],
            judge(across(run, exports)),
        ),
        number(
            "bandwidth",
            "message sizes, bandwidth",
            &["collectives[].bytes", "collectives[].algbw_gbs", "collectives[].busbw_gbs"],
            judge(bandwidth(run, exports)),
        ),
        number(
            "inspector",
            "comparison with the rest of the run",
            &["inspector"],
            judge(beside(run, inspector)),
        ),
        number(
            "transport",
            "transport of each pair",
            &["transport"],
            judge(transport(run, nccl_logs)),
        ),
    ]
}

/// Ranks whose communication kernels are there one by one.
fn communicating(run: &Run) -> usize {
    run.ranks.iter().filter(|rank| rank.comm_kernels > 0).count()
}

/// True for a run of one rank, which has nobody to communicate with.
pub fn alone(run: &Run) -> bool {
    run.ranks.len() == 1 && run.world_size.is_none_or(|world| world == 1)
}

fn has_graphs(run: &Run) -> bool {
    run.ranks.iter().any(|rank| rank.graphs > 0)
}

fn steps(run: &Run, exports: &[Export]) -> Judged {
    let source = run.steps.source;
    let why = source.map_or("", StepSource::label);
    match run.steps.pattern.as_deref() {
        None => null("no range is a step"),
        Some("whole") if exports.iter().all(|export| export.rows.api_calls == 0) => weaker(
            "the whole capture is one step: without CUDA API calls nothing says which range launched what",
        ),
        Some("whole") => weaker(format!("the whole capture is one step: {why}")),
        Some(_) if run.steps.count == Some(0) => null(NO_COMMON_STEP),
        Some(_) if run.steps.paired_by_time => {
            weaker("texts differ between ranks: steps that run at the same time are one")
        }
        Some(_) if source != Some(StepSource::Default) => weaker(format!("by a guess ({why})")),
        Some(_) => match run.steps.count {
            Some(count) => from(&crate::units::plural(count, "step")),
            None => measured(),
        },
    }
}

fn shares(run: &Run) -> Judged {
    if has_graphs(run) {
        weaker("what runs inside CUDA graphs is unknown: times are lower bounds, ratios null")
    } else if run.steps.count == Some(0) {
        weaker("of each rank only: no step is on every rank")
    } else if communicating(run) == 0 && alone(run) {
        from("one rank: communication is 0")
    } else if communicating(run) == 0 {
        weaker("no communication kernel: communication is 0, its overlap null")
    } else {
        measured()
    }
}

fn copies(run: &Run) -> Judged {
    match run.steps.count {
        _ if has_graphs(run) => weaker("copies inside CUDA graphs are not seen"),
        Some(0) => weaker("of each rank only: no step is on every rank"),
        _ => measured(),
    }
}

/// True if ranks send to each other and nothing says to whom.
pub(super) fn sends_to_nobody(run: &Run, exports: &[Export]) -> bool {
    run.ranks.iter().any(|rank| rank.send_kernels > 0)
        && exports.iter().all(|export| export.rows.nccl_sizes == 0)
}

fn across(run: &Run, exports: &[Export]) -> Judged {
    match communicating(run) {
        0 if has_graphs(run) => null("communication inside CUDA graphs is not seen"),
        0 if alone(run) => null("one rank: it waits for nobody"),
        0 => null("no communication kernel"),
        1 => null("only one rank that communicates: nothing to match it with"),
        _ if run.steps.count == Some(0) => null(NO_COMMON_STEP),
        _ if run.captured_apart.is_some() => {
            weaker("the ranks were captured at different times: it means nothing")
        }
        _ if sends_to_nobody(run, exports) => {
            weaker("not of sends and receives: no payload names their partners")
        }
        _ if run.misses_ranks() => {
            weaker("among the ranks that are here; the last one may be another")
        }
        _ => measured(),
    }
}

fn bandwidth(run: &Run, exports: &[Export]) -> Judged {
    match across(run, exports) {
        (State::Null, _) if alone(run) && communicating(run) == 0 => {
            return null("one rank: its NCCL calls move nothing");
        }
        (State::Null, why) => return (State::Null, why),
        _ => {}
    }
    if run.captures_miss_ranks && run.whole_communicators == 0 {
        return null("ranks are missing, so that how many take part in a collective is not known");
    }
    let talking: Vec<&Rank> = run.ranks.iter().filter(|rank| rank.comm_kernels > 0).collect();
    let payloads = |rank: &Rank| {
        exports.iter().any(|export| {
            export.rows.nccl_sizes > 0 && file_name(export.path.as_ref()) == rank.report
        })
    };
    let known = talking.iter().filter(|rank| payloads(rank) || rank.in_inspector_log).count();
    // A collective has the same size on every rank.
    match known {
        0 => null("NCCL's ranges carry no payloads, and there is no Inspector log"),
        n if n < talking.len() => weaker(format!(
            "sizes are known on {n} of {} ranks: of what these take part in",
            talking.len()
        )),
        _ if run.captures_miss_ranks => weaker("only on communicators whose ranks are all here"),
        _ if talking.iter().all(|rank| payloads(rank)) => from("sizes from payloads"),
        _ => from("sizes from Inspector"),
    }
}

fn beside(run: &Run, inspector: &[&InspectorLog]) -> Judged {
    let logged: u64 = inspector.iter().map(|log| log.operations).sum();
    let without: Vec<u32> =
        run.ranks.iter().filter(|rank| !rank.in_inspector_log).map(|rank| rank.rank).collect();
    if inspector.is_empty() {
        null("no Inspector log of its processes")
    } else if logged == 0 {
        null("the Inspector logs hold summaries only")
    } else if communicating(run) == 0 {
        weaker("no communication kernel to pair records with")
    } else if without.is_empty() {
        measured()
    } else {
        weaker(format!("no log of rank {}", rank_list(&without)))
    }
}

/// Communicating ranks of which no NCCL log names a connection, although one does of others.
pub(super) fn unconnected(run: &Run, nccl_logs: &[&ReadLog]) -> Vec<u32> {
    let is_named = |rank: &&Rank| nccl_logs.iter().any(|log| log.connects(rank.pid));
    let talking = || run.ranks.iter().filter(|rank| rank.comm_kernels > 0);
    if !talking().any(|rank| is_named(&rank)) {
        return Vec::new();
    }
    talking().filter(|rank| !is_named(rank)).map(|rank| rank.rank).collect()
}

fn transport(run: &Run, nccl_logs: &[&ReadLog]) -> Judged {
    let unconnected = unconnected(run, nccl_logs);
    if !unconnected.is_empty() {
        return weaker(format!(
            "no NCCL log names a connection of rank {}",
            rank_list(&unconnected)
        ));
    }
    match (nccl_logs.iter().any(|log| log.connections() > 0), &run.topology) {
        (true, Some(_)) => measured(),
        (true, None) => weaker("what is used, not what would be possible: no topology"),
        (false, None) if nccl_logs.is_empty() => {
            null("neither an NCCL log nor a topology of its machine")
        }
        (false, None) => weaker("the NCCL log names no channel"),
        (false, Some(_)) => weaker("what is possible, not what is used: no NCCL log with channels"),
    }
}
