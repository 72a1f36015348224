//! What a GPU's counters say of the parts of a step: how busy it is while it computes, communicates, waits, copies or idles, which
//! link carries the communication, and whether its clock is held down.
//!
//! ```text
//! GPU_METRICS of the report --ingest/nsys/gpu_metrics--> Sampled --place--> of which rank, in its time
//! dcgmi, exporter, nvidia-smi --ingest/counters-------^                        |
//! steps, operations, waits --classes--> the parts of each step --average--> rows: the matrix
//!                                                       '--> links (bytes against payloads), health --> findings
//! ```

pub(crate) mod average;
pub(crate) mod classes;
pub(crate) mod findings;
pub(crate) mod health;
pub(crate) mod links;
pub(crate) mod place;
pub(crate) mod rows;
pub(crate) mod samples;
#[cfg(test)]
mod testing;

use serde::{Deserialize, Serialize};

use self::classes::{Classes, RankWork};
use self::health::Health;
use self::links::LinkBytes;
use self::place::Placed;
use self::rows::{Row, Sampling};
use crate::catalogue::Id;
use crate::model::counter::Sampled;
use crate::units;
use crate::warning::Warning;

/// What counters add to a report.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Counters {
    /// The matrix: one row for each rank, counter and unit.
    pub rows: Vec<Row>,
    /// How it was sampled, and what else counters say.
    pub details: Details,
    /// What a reader should know.
    pub warnings: Vec<Warning>,
}

/// How counters were sampled, and what else they say.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Details {
    /// One entry for each rank and file.
    pub sampling: Vec<Sampling>,
    /// What links carried, against what was to be sent.
    pub links: Vec<LinkBytes>,
    /// Errors of links, and what held the clock down.
    pub health: Vec<Health>,
}

/// Averages counters over the parts of the steps of each rank; `None` if nothing was sampled. Where Nsight Systems and a file have the
/// same counter of a rank, that of Nsight Systems is taken: its samples are finer.
pub(crate) fn of(ranks: &[RankWork<'_>], sampled: &[Sampled]) -> Option<Counters> {
    if sampled.is_empty() {
        return None;
    }
    let mut counters = Counters::default();
    let mut used = vec![false; sampled.len()];
    let placed = place::place(ranks, sampled);
    for (rank, placed) in ranks.iter().zip(&placed) {
        let classes = classes::of(rank);
        let mut quantities = std::collections::BTreeSet::new();
        for one in placed {
            if let Some(used) = used.get_mut(one.index) {
                *used = true;
            }
            add(&mut counters, rank, one, &classes, &mut quantities);
        }
    }
    let without: Vec<u32> =
        ranks.iter().zip(&placed).filter(|(_, p)| p.is_empty()).map(|(r, _)| r.rank).collect();
    counters.warnings.extend(unplaced(sampled, &used));
    if !without.is_empty() && without.len() < ranks.len() {
        counters.warnings.push(
            Warning::new(
                Id::CountersMissing,
                format!("No counters were sampled of the GPU of {}.", units::ranks(&without)),
            )
            .with_hint("Sample every GPU: nsys profile --gpu-metrics-devices=all on one process of each machine, or --counters with a file of each machine."),
        );
    }
    counters.warnings.extend(rows::bound(&mut counters.rows));
    counters.warnings.extend(rows::doubts(&counters.details.sampling));
    counters.warnings.sort();
    counters.warnings.dedup();
    Some(counters)
}

fn add(
    counters: &mut Counters,
    rank: &RankWork<'_>,
    placed: &Placed<'_>,
    classes: &[Option<Classes>],
    quantities: &mut std::collections::BTreeSet<crate::model::counter::Quantity>,
) {
    let mut any = false;
    for series in &placed.sampled.series {
        if series.quantity.is_level() && quantities.insert(series.quantity) {
            let of_series = rows::of(rank, placed, series, classes);
            any |= !of_series.is_empty();
            counters.rows.extend(of_series);
        }
    }
    counters.details.health.extend(health::of(rank.rank, placed.sampled));
    if any {
        counters.details.sampling.push(rows::sampling(rank, placed, classes));
        counters.details.links.extend(links::of(rank, placed));
    }
}

/// Samples of GPUs on which no rank ran, or of which nobody can tell whose they are.
fn unplaced(sampled: &[Sampled], used: &[bool]) -> Option<Warning> {
    let gpus: Vec<String> = sampled
        .iter()
        .zip(used)
        .filter(|(_, used)| !**used)
        .map(|(one, _)| {
            let gpu = one.gpu_index.map_or_else(|| "a GPU".to_owned(), |gpu| format!("GPU {gpu}"));
            format!("{gpu} in {}", one.file)
        })
        .collect();
    (!gpus.is_empty()).then(|| {
        Warning::new(
            Id::CountersUnplaced,
            format!(
                "Counters of {} are of no rank of the report, or it cannot be told of which.",
                units::listed(&gpus, 4)
            ),
        )
        .with_hint(
            "A rank is known by the GPU's own number (UUID) or, on one machine, by its index.",
        )
    })
}
