//! When every moment would be, were the edges to take other times: one pass over the graph.

use super::graph::{Graph, NEVER};
use crate::model::Ns;

/// What becomes of a lag whose cause a scenario takes away or makes earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lags {
    /// It goes with its cause.
    OfCause,
    /// It stays, whatever comes last.
    Stay,
}

/// The time of every moment, ns on the common clock, with these weights of the edges.
pub(crate) fn replay(graph: &Graph, weights: &[Ns], lags: Lags) -> Vec<Ns> {
    let mut times = graph.observed.clone();
    for &moment in &graph.order {
        let m = moment as usize;
        let lag = if lags == Lags::Stay { graph.lag[m] } else { 0 };
        let mut latest = NEVER;
        for e in graph.edges(moment) {
            if weights[e] == NEVER {
                continue;
            }
            let own = if graph.cause[m] == e as u32 { lag } else { 0 };
            let after = times[graph.from[e] as usize];
            latest = latest.max(after.saturating_add(weights[e]).saturating_sub(own));
        }
        if latest != NEVER {
            times[m] = latest.saturating_add(lag);
        }
    }
    times
}
