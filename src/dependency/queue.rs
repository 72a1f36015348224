//! How many operations a stream's queue holds: a launch into a full one returns when there is room.
//!
//! The trace does not say how deep the queue is. It shows where it is full: launches that take far longer than others of
//! their function all return with the same number of operations still pending. That number is the depth.

use crate::model::Ns;
use crate::stats;

/// A launch that takes this many times as long as a quick one of its function may have been blocked.
const LONG: Ns = 10;
/// Fewer launches that return at one depth may do so by chance.
const FEWEST: usize = 3;
/// Depths this close are one: room is made for several operations at once.
const TOGETHER: f64 = 0.02;

/// One launch into a stream, in the order of the calls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Launched {
    /// Start of the operation on the GPU.
    pub op_start: Ns,
    /// When the call returned.
    pub returned: Ns,
    /// How long the call took.
    pub took: Ns,
    /// How long a quick call of its function takes.
    pub quick: Ns,
}

impl Launched {
    /// True if it took far longer than it usually does.
    pub(crate) fn is_long(&self) -> bool {
        self.took > self.quick.max(1).saturating_mul(LONG)
    }
}

/// Operations pending when each call returns: launched before it and not yet started.
fn pending(launches: &[Launched]) -> Vec<usize> {
    // Streams keep order, so the operations that have started are the first ones.
    let mut started = Vec::with_capacity(launches.len());
    let mut latest = Ns::MIN;
    for launch in launches {
        latest = latest.max(launch.op_start);
        started.push(latest);
    }
    launches
        .iter()
        .enumerate()
        .map(|(i, launch)| i - started[..i].partition_point(|&start| start <= launch.returned))
        .collect()
}

/// How many operations are pending where the queue is full; `None` if the capture does not show it full.
pub(crate) fn depth(launches: &[Launched]) -> Option<usize> {
    let pending = pending(launches);
    let deepest = pending.iter().copied().max()?;
    let is_full = |n: usize| n as f64 >= deepest as f64 * (1.0 - TOGETHER);
    let long: Vec<usize> =
        launches.iter().zip(&pending).filter(|(l, _)| l.is_long()).map(|(_, &n)| n).collect();
    let full: Vec<i64> = long.iter().filter(|&&n| is_full(n)).map(|&n| n as i64).collect();
    // Long calls at any depth have other causes.
    (full.len() >= FEWEST && 2 * full.len() >= long.len())
        .then(|| stats::quantile_i64(&full, 1.0))
        .flatten()
        .and_then(|depth| usize::try_from(depth).ok())
        .filter(|&depth| depth > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Operations of 100 ns one after the other, launched every 10 ns until 4 are pending; from then on each launch returns
    // when an operation starts:
    //
    // stream  [0        )[1        )[2        )[3       )
    // host    |0|1|2|3|4|5-------  |6--------|7-------
    fn full_queue() -> Vec<Launched> {
        let mut list = Vec::new();
        let mut now = 0;
        for i in 0..40i64 {
            let room = if i > 4 { (i - 4 - 1) * 100 } else { 0 };
            let returned = (now + 10).max(room);
            list.push(Launched { op_start: i * 100, returned, took: returned - now, quick: 5 });
            now = returned;
        }
        list
    }

    #[test]
    fn launches_that_wait_for_room_show_the_depth() {
        assert_eq!(depth(&full_queue()), Some(4));
    }

    #[test]
    fn long_calls_at_any_depth_are_no_full_queue() {
        let mut list = full_queue();
        // The same long calls, but everything has started when they return.
        list.iter_mut().for_each(|launch| launch.returned += 10_000);
        assert_eq!(depth(&list), None);
        assert_eq!(depth(&[]), None);
    }
}
