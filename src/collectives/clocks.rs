//! How far the ranks' clocks are apart: all ranks leave an AllReduce, AllGather, ReduceScatter or AllToAll together, so the
//! ends of matched collectives tell (metrics definition, section 6).

use super::events::Event;
use super::matching::Match;
use crate::model::Ns;
use crate::stats;

/// How the correction runs over the capture.
#[derive(Debug, Clone, PartialEq)]
pub enum Drift {
    /// One offset.
    Constant,
    /// The clocks run at different speeds: nanoseconds a second.
    Linear {
        /// ns of correction gained in a second.
        ns_per_s: f64,
    },
    /// Offsets at points of the capture, with straight lines between them.
    Piecewise {
        /// (absolute time, offset), in order of time.
        points: Vec<(i64, i64)>,
    },
}

impl Drift {
    /// What reports print; `None` for one offset.
    pub fn label(&self) -> Option<String> {
        match self {
            Drift::Constant => None,
            Drift::Linear { ns_per_s } => Some(format!("linear, {ns_per_s:.0} ns/s")),
            Drift::Piecewise { points } => Some(format!("piecewise, {} points", points.len())),
        }
    }
}

/// The clock of one rank.
#[derive(Debug, Clone, PartialEq)]
pub struct RankClock {
    /// ns from the report's own time to the common time before correction.
    base: i64,
    /// Correction to add, ns (of the middle of the capture where it drifts).
    pub offset_ns: Option<i64>,
    /// Shape of the correction.
    pub drift: Drift,
    /// Absolute time at which a linear correction equals `offset_ns`.
    middle: i64,
    /// Median of what remains, ns.
    pub residual_p50_ns: Option<i64>,
    /// 95th percentile of what remains, ns.
    pub residual_p95_ns: Option<i64>,
    /// Collectives that it rests on.
    pub collectives: u64,
}

impl RankClock {
    /// A time of this rank on the clock that all ranks share; `None` if this rank's clock is not known.
    pub fn common(&self, at: Ns) -> Option<i64> {
        let at = at.saturating_add(self.base);
        let offset = self.offset_ns?;
        let correction = match &self.drift {
            Drift::Constant => offset,
            Drift::Linear { ns_per_s } => offset.saturating_add((at.saturating_sub(self.middle) as f64 * 1e-9 * ns_per_s).round() as i64),
            Drift::Piecewise { points } => interpolate(points, at),
        };
        Some(at.saturating_add(correction))
    }
}

/// Fewer collectives than this support no drift.
const DRIFT_NEEDS: usize = 24;
/// A model with more freedom must bring the 95th percentile down to this share of the simpler one.
const MUST_IMPROVE: f64 = 0.7;
/// Pieces of a piecewise correction.
const PIECES: usize = 8;

/// The clocks of all ranks. `epochs` is Unix time of each report's time 0.
pub fn align(events: &[&[Event]], epochs: &[Option<i64>], matches: &[Match]) -> Vec<RankClock> {
    let all_epochs: Option<Vec<i64>> = epochs.iter().copied().collect();
    let bases = all_epochs.clone().unwrap_or_else(|| rough_bases(events, matches));
    // (absolute end on this rank, how much later than the mean of all) by rank
    let mut deviations: Vec<Vec<(i64, f64)>> = vec![Vec::new(); events.len()];
    for m in matches.iter().filter(|m| m.members.iter().all(|&(r, e)| events[r][e].op.leaves_together())) {
        let ends: Vec<i64> = m.members.iter().map(|&(r, e)| events[r][e].end.saturating_add(bases[r])).collect();
        // Relative to the first, so that epochs of 1.8e18 ns lose nothing in a float.
        let mean = ends.iter().map(|end| end.saturating_sub(ends[0]) as f64).sum::<f64>() / ends.len() as f64;
        for (&(r, _), end) in m.members.iter().zip(&ends) {
            deviations[r].push((*end, end.saturating_sub(ends[0]) as f64 - mean));
        }
    }
    let mut clocks: Vec<RankClock> = deviations.iter().zip(&bases).map(|(list, &base)| fit(list, base)).collect();
    if all_epochs.is_some() {
        // Without a collective the epoch alone is the clock, with no claim about how good it is.
        clocks.iter_mut().filter(|c| c.offset_ns.is_none()).for_each(|c| c.offset_ns = Some(0));
    }
    clocks
}

/// Without epochs: shifts each rank so that its first common collective with an already placed rank ends at the same time.
fn rough_bases(events: &[&[Event]], matches: &[Match]) -> Vec<i64> {
    let mut bases: Vec<Option<i64>> = vec![None; events.len()];
    for m in matches {
        let placed = m.members.iter().find_map(|&(r, e)| bases[r].map(|base| events[r][e].end.saturating_add(base)));
        let target = placed.unwrap_or_else(|| m.members.first().map_or(0, |&(r, e)| events[r][e].end));
        for &(r, e) in &m.members {
            bases[r].get_or_insert(target.saturating_sub(events[r][e].end));
        }
    }
    bases.into_iter().map(|base| base.unwrap_or(0)).collect()
}

fn fit(deviations: &[(i64, f64)], base: i64) -> RankClock {
    let mut clock = RankClock {
        base,
        offset_ns: None,
        drift: Drift::Constant,
        middle: 0,
        residual_p50_ns: None,
        residual_p95_ns: None,
        collectives: deviations.len() as u64,
    };
    let values: Vec<f64> = deviations.iter().map(|d| d.1).collect();
    let Some(center) = stats::median(&values) else { return clock };
    clock.offset_ns = Some(-center.round() as i64);
    let mut best = residuals(deviations, |_| center);
    if deviations.len() >= DRIFT_NEEDS {
        let mut sorted = deviations.to_vec();
        sorted.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let middle = sorted[sorted.len() / 2].0;
        if let Some((slope, at_middle)) = line(&sorted, middle) {
            let linear = residuals(&sorted, |at| at_middle + (at.saturating_sub(middle)) as f64 * slope);
            if p95(&linear) < MUST_IMPROVE * p95(&best) {
                best = linear;
                clock.middle = middle;
                clock.offset_ns = Some(-at_middle.round() as i64);
                clock.drift = Drift::Linear { ns_per_s: -slope * 1e9 };
            }
        }
        let points = pieces(&sorted);
        let piecewise = residuals(&sorted, |at| -interpolate(&points, at) as f64);
        if sorted.len() >= DRIFT_NEEDS * 4 && p95(&piecewise) < MUST_IMPROVE * p95(&best) {
            best = piecewise;
            clock.drift = Drift::Piecewise { points };
        }
    }
    clock.residual_p50_ns = stats::quantile(&best, 0.5).map(|ns| ns.round() as i64);
    clock.residual_p95_ns = stats::quantile(&best, 0.95).map(|ns| ns.round() as i64);
    clock
}

/// Absolute deviations from a model.
fn residuals(deviations: &[(i64, f64)], model: impl Fn(i64) -> f64) -> Vec<f64> {
    deviations.iter().map(|&(at, deviation)| (deviation - model(at)).abs()).collect()
}

fn p95(residuals: &[f64]) -> f64 {
    stats::quantile(residuals, 0.95).unwrap_or(0.0)
}

/// A line through the medians of the first and the last third: (slope, value at `middle`).
fn line(sorted: &[(i64, f64)], middle: i64) -> Option<(f64, f64)> {
    let third = sorted.len() / 3;
    let center = |part: &[(i64, f64)]| -> Option<(i64, f64)> {
        Some((part.get(part.len() / 2)?.0, stats::median(&part.iter().map(|d| d.1).collect::<Vec<_>>())?))
    };
    let (first, last) = (center(&sorted[..third])?, center(&sorted[sorted.len() - third..])?);
    let width = last.0.checked_sub(first.0).filter(|w| *w > 0)?;
    let slope = (last.1 - first.1) / width as f64;
    let rest: Vec<f64> = sorted.iter().map(|&(at, d)| d - slope * at.saturating_sub(middle) as f64).collect();
    Some((slope, stats::median(&rest)?))
}

/// Corrections at the middle of equally large pieces.
fn pieces(sorted: &[(i64, f64)]) -> Vec<(i64, i64)> {
    sorted
        .chunks(sorted.len().div_ceil(PIECES).max(1))
        .filter_map(|part| {
            let center = stats::median(&part.iter().map(|d| d.1).collect::<Vec<_>>())?;
            Some((part[part.len() / 2].0, -center.round() as i64))
        })
        .collect()
}

fn interpolate(points: &[(i64, i64)], at: i64) -> i64 {
    let after = points.partition_point(|p| p.0 <= at);
    match (after.checked_sub(1).and_then(|i| points.get(i)), points.get(after)) {
        (Some(a), Some(b)) => {
            let share = at.saturating_sub(a.0) as f64 / (b.0.saturating_sub(a.0)).max(1) as f64;
            a.1.saturating_add((share * (b.1.saturating_sub(a.1)) as f64).round() as i64)
        }
        (Some(only), None) | (None, Some(only)) => only.1,
        (None, None) => 0,
    }
}
