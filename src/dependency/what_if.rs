//! What a change would gain: the weights of some edges change, and the run is played again.
//!
//! A scenario is a function on a copy of the weights. The prediction lets a lag go with the cause that the change removes; its
//! range holds what comes out if lags stay.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::across;
use super::graph::{NEVER, Reason};
use super::model::Model;
use super::path::Floors;
use super::replay::{Lags, replay};
use super::view::{Scope, WhatIf};
use super::{late, steps};
use crate::catalogue::Scenario;
use crate::collectives::events::Event;
use crate::model::{Class, CommOp, Ns};

/// Scopes of one kind that are looked at, those with most transfer first.
const MOST_SCOPES: usize = 8;

/// A change: sets weights, and returns false where there is nothing to change.
type Change<'a> = Box<dyn Fn(&mut [Ns]) -> bool + Sync + 'a>;

/// One question.
struct Question<'a> {
    id: Scenario,
    scope: Scope,
    change: Change<'a>,
}

/// Predictions for all scenarios that change anything, the greatest gain first.
pub(crate) fn predict(model: &Model<'_>, floors: &Floors) -> Vec<WhatIf> {
    let measured: Vec<Ns> = model.steps.iter().map(|step| step.step_ns).collect();
    let Some(now) = steps::median(model.steps, &measured) else { return Vec::new() };
    let mut list: Vec<WhatIf> = scenarios(model, floors)
        .into_par_iter()
        .filter_map(|scenario| {
            let graph = &model.built.graph;
            let mut weights = graph.weight.clone();
            if !(scenario.change)(&mut weights) {
                return None;
            }
            let step = |lags| {
                let times = model.bounds.step_times(&replay(graph, &weights, lags));
                steps::median(model.steps, &times)
            };
            let (ns, other) = (step(Lags::OfCause)?, step(Lags::Stay)?);
            let gain = now.saturating_sub(ns);
            Some(WhatIf {
                id: scenario.id,
                scope: scenario.scope.clone(),
                step_ns: ns,
                gain_ns: gain,
                gain_fraction: (now > 0).then(|| gain as f64 / now as f64),
                range_ns: [ns.min(other), ns.max(other)],
            })
        })
        .collect();
    // Stable: scenarios of equal gain stay in the order of the table.
    list.sort_by_key(|what| std::cmp::Reverse(what.gain_ns));
    list
}

/// All questions.
fn scenarios<'a>(model: &'a Model<'a>, floors: &'a Floors) -> Vec<Question<'a>> {
    let whole = |id, change| Question { id, scope: Scope::default(), change };
    let of_class = |wanted: fn(Class) -> bool| -> Change<'a> {
        Box::new(move |weights| {
            each_op(model, |rank, op| {
                wanted(model.traces[rank].ops.class[op]) && free(model, rank, op, weights)
            })
        })
    };
    let mut list = vec![
        whole(Scenario::NoCommunication, of_class(|class| class == Class::Comm)),
        whole(Scenario::TransfersTwiceAsFast, Box::new(move |w| twice_as_fast(model, floors, w))),
        whole(Scenario::NobodyLate, Box::new(move |w| late::nobody_late(model, w))),
        whole(Scenario::HostNeverLate, Box::new(move |w| host_never_late(model, w))),
        whole(Scenario::CopiesFree, of_class(is_copy)),
        whole(Scenario::DtodCopiesFree, of_class(|class| class == Class::Dtod)),
        whole(Scenario::BucketAtLastGradient, Box::new(move |w| at_last_gradient(model, w))),
    ];
    list.extend(scoped(model));
    list
}

fn is_copy(class: Class) -> bool {
    matches!(
        class,
        Class::Htod | Class::Dtoh | Class::Dtod | Class::Ptop | Class::OtherCopy | Class::Memset
    )
}

/// Calls `change` for every operation; true if one of them changed.
fn each_op(model: &Model<'_>, mut change: impl FnMut(usize, usize) -> bool) -> bool {
    let mut any = false;
    for (rank, trace) in model.traces.iter().enumerate() {
        for op in 0..trace.ops.len() {
            any |= change(rank, op);
        }
    }
    any
}

/// The operation takes no time and waits for no other rank; it still comes after what its stream held.
fn free(model: &Model<'_>, rank: usize, op: usize, weights: &mut [Ns]) -> bool {
    let (graph, layout) = (&model.built.graph, &model.built.layout);
    let end = layout.op_end(rank, op);
    for edge in graph.edges(end) {
        weights[edge] = match graph.reason[edge] {
            Reason::Transfer => NEVER,
            _ => 0,
        };
    }
    // Without the operation there is no gap before it.
    for edge in graph.edges(layout.op_start(rank, op)) {
        if matches!(graph.reason[edge], Reason::Stream | Reason::Wait) {
            weights[edge] = weights[edge].min(0);
        }
    }
    true
}

fn twice_as_fast(model: &Model<'_>, floors: &Floors, weights: &mut [Ns]) -> bool {
    each_op(model, |rank, op| {
        let is_comm = model.traces[rank].ops.class[op] == Class::Comm;
        let Some(edge) = model.work(rank, op).filter(|_| is_comm) else { return false };
        weights[edge] = weights[edge].saturating_sub(floors.transfer(model, rank, op) / 2);
        true
    })
}

/// Calls and what lies between them cost nothing: the host waits for what it waits for, and nothing else.
fn host_never_late(model: &Model<'_>, weights: &mut [Ns]) -> bool {
    let mut any = false;
    for (weight, reason) in weights.iter_mut().zip(&model.built.graph.reason) {
        if matches!(reason, Reason::HostOrder | Reason::Handoff | Reason::Call) {
            any |= *weight > 0;
            *weight = (*weight).min(0);
        }
    }
    any
}

/// Collectives whose stream waits for an event start when it completes, whenever the host gets to launching them.
fn at_last_gradient(model: &Model<'_>, weights: &mut [Ns]) -> bool {
    let (graph, layout) = (&model.built.graph, &model.built.layout);
    let mut any = false;
    for (rank, met) in model.built.met.iter().enumerate() {
        for &op in met.iter().filter(|(_, met)| !met.is_pair).map(|(op, _)| op) {
            let start = layout.op_start(rank, op);
            let Some(wait) = graph.edges_for(start, Reason::Wait).next() else { continue };
            for launch in graph.edges_for(start, Reason::Launch) {
                weights[launch] = NEVER;
            }
            // The event stands for the operations before its record, whenever the host gets to recording it.
            for record in graph.edges_for(graph.from[wait], Reason::Wait) {
                let mark = graph.from[record];
                if graph.edges_for(mark, Reason::Stream).next().is_some() {
                    graph.edges_for(mark, Reason::Record).for_each(|edge| weights[edge] = NEVER);
                }
            }
            any = true;
        }
    }
    any
}

/// One communicator, one operation, one class of sizes free; only where there are several of them.
fn scoped<'a>(model: &'a Model<'a>) -> Vec<Question<'a>> {
    let mut list = Vec::new();
    list.extend(free_by(
        model,
        Scenario::CommunicatorFree,
        |event| event.comm,
        |comm| Scope { comm_id: Some(format!("0x{comm:016x}")), ..Scope::default() },
    ));
    list.extend(free_by(
        model,
        Scenario::OperationFree,
        |event| Some(event.op),
        |op: CommOp| Scope { op: Some(op), ..Scope::default() },
    ));
    list.extend(free_by(model, Scenario::SizeClassFree, size_class, |(op, class)| Scope {
        op: Some(op),
        bytes_min: Some(SIZES[class]),
        bytes_max: SIZES.get(class + 1).map(|limit| limit - 1),
        ..Scope::default()
    }));
    list
}

/// Where classes of sizes begin, bytes: what is bound by latency, by both, by bandwidth.
const SIZES: [u64; 4] = [0, 64 << 10, 1 << 20, 16 << 20];

/// Operation and class of its size.
fn size_class(event: &Event) -> Option<(CommOp, usize)> {
    let above = SIZES.partition_point(|&begin| Some(begin) <= event.bytes);
    event.bytes.map(|_| (event.op, above.saturating_sub(1)))
}

/// One scenario for each key that communication has, those with most transfer first; none if all have the same key.
fn free_by<'a, K: Ord + Copy + Sync + 'a>(
    model: &'a Model<'a>,
    id: Scenario,
    key: impl Fn(&Event) -> Option<K>,
    scope: impl Fn(K) -> Scope,
) -> Vec<Question<'a>> {
    let mut by_key: BTreeMap<K, (Ns, Vec<(usize, usize)>)> = BTreeMap::new();
    let mut keyless = false;
    for (rank, events) in model.events.iter().enumerate() {
        for event in events {
            let Some(op) = across::operation(&model.traces[rank].ops, event) else { continue };
            let Some(key) = key(event) else {
                keyless = true;
                continue;
            };
            let (total, ops) = by_key.entry(key).or_default();
            *total = total.saturating_add(model.moves(rank, op));
            ops.push((rank, op));
        }
    }
    // All there is has its own scenario: no communication.
    if by_key.len() < 2 && !keyless {
        return Vec::new();
    }
    let mut largest: Vec<(K, (Ns, Vec<(usize, usize)>))> = by_key.into_iter().collect();
    largest.sort_by_key(|&(key, (total, _))| (std::cmp::Reverse(total), key));
    largest.truncate(MOST_SCOPES);
    let scenario = |(key, (_, ops)): (K, (Ns, Vec<(usize, usize)>))| Question {
        id,
        scope: scope(key),
        change: Box::new(move |weights: &mut [Ns]| {
            ops.iter().for_each(|&(rank, op)| {
                free(model, rank, op, weights);
            });
            true
        }),
    };
    largest.into_iter().map(scenario).collect()
}
