//! Why a step takes as long as it does, and what a change would gain (metrics definition, section 9).
//!
//! What each host call did ([`deeds`]), which record a wait is for ([`events`]), where queues are full ([`queue`]) and which
//! ranks met ([`across`]) make a graph ([`build`], [`graph`], numbered by [`layout`], with delays from [`latency`]). It can be
//! played again (`replay`), walked backwards from a step's end ([`path`], [`steps`]), and changed ([`what_if`], [`late`]).

pub(crate) mod across;
pub(crate) mod build;
pub(crate) mod deeds;
pub(crate) mod events;
pub(crate) mod graph;
pub(crate) mod late;
pub(crate) mod latency;
pub(crate) mod layout;
pub(crate) mod model;
pub(crate) mod path;
pub(crate) mod queue;
pub(crate) mod replay;
pub(crate) mod steps;
pub(crate) mod view;
pub(crate) mod what_if;

#[cfg(test)]
mod tests;

use rayon::prelude::*;

use self::model::Model;
use self::path::{Floors, OnPath, Piece};
use self::replay::{Lags, replay};
use self::steps::RunSpan;
use self::view::{CriticalPath, Replay, WhatIf};
use crate::catalogue::Id;
use crate::collectives::analyse::Across;
use crate::collectives::events::Event;
use crate::model::RankTrace;
use crate::warning::Warning;

/// What the dependencies of a run say.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How far the replay can be trusted, or why there is none.
    pub replay: Replay,
    /// The critical path of each step; empty without a replay.
    pub critical_path: Vec<CriticalPath>,
    /// Time of operations on the critical paths of the steps that count; `None` without a replay.
    pub on_path: Option<OnPath>,
    /// Its pieces in each step, the last one first; empty unless they were asked for.
    pub pieces: Vec<Vec<Piece>>,
    /// Predictions; empty without a replay.
    pub what_if: Vec<WhatIf>,
    /// What the reader has to know.
    pub warnings: Vec<Warning>,
}

impl Outcome {
    /// Nothing, and why.
    pub fn none(reason: impl Into<String>) -> Outcome {
        let replay = Replay { reason: Some(reason.into()), ..Replay::default() };
        Outcome { replay, ..Outcome::default() }
    }
}

/// Replays a run and predicts what changes would gain. `events` are the communication of each rank, `steps` those of the run.
/// The pieces of critical paths are many: they stay if `keep_pieces`.
pub(crate) fn analyse(
    traces: &[RankTrace],
    events: &[Vec<Event>],
    steps: &[RunSpan],
    across: &Across,
    keep_pieces: bool,
) -> Outcome {
    let model = match Model::new(traces, events, steps, across) {
        Ok(model) => model,
        Err(reason) => return Outcome::none(reason),
    };
    if steps.is_empty() {
        return Outcome::none("no step is on all ranks");
    }
    let graph = &model.built.graph;
    let times = model.bounds.step_times(&replay(graph, &graph.weight, Lags::OfCause));
    let errors = steps.iter().zip(&times).filter_map(|(step, &ns)| {
        let off = ns.saturating_sub(step.step_ns).unsigned_abs() as f64;
        (step.step_ns > 0).then(|| off / step.step_ns as f64)
    });
    let worst_error = errors.max_by(f64::total_cmp);
    let floors = Floors::new(&model);
    let pieces: Vec<Vec<Piece>> =
        (0..steps.len()).into_par_iter().map(|step| path::pieces(&model, &floors, step)).collect();
    let critical_path: Vec<CriticalPath> =
        (0..steps.len()).map(|step| path::critical_path(&model, &pieces[step], step)).collect();
    let mut on_path: OnPath = vec![Default::default(); traces.len()];
    let counted = steps.iter().zip(&pieces).filter(|(step, _)| step.counted);
    for piece in counted.flat_map(|(_, pieces)| pieces) {
        if let Some(op) = piece.op {
            *on_path[piece.rank].entry(op).or_default() += piece.end.saturating_sub(piece.start);
        }
    }
    let share = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
    let lag: f64 = critical_path.iter().map(|path| path.lag_ns as f64).sum();
    let total: f64 = steps.iter().map(|step| step.step_ns as f64).sum();
    let edges = graph.from.len() as u64;
    let mut warnings = Vec::new();
    if model.built.by_time {
        warnings.push(Warning::new(
            Id::GraphOrderByTime,
            "The order of operations inside CUDA graphs is not in the capture: the replay takes it from their streams and times, so that what it predicts is a bound.",
        ));
    }
    Outcome {
        replay: Replay {
            worst_error,
            edges,
            violated: share(graph.violated as f64, edges as f64),
            lag_share: share(lag, total),
            reason: None,
        },
        what_if: what_if::predict(&model, &floors),
        critical_path,
        on_path: Some(on_path),
        pieces: if keep_pieces { pieces } else { vec![Vec::new(); steps.len()] },
        warnings,
    }
}
