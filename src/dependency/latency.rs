//! What a launch and the gap between two operations take where nothing else delays them: learnt from the capture.

use crate::model::op::NO_LAUNCH;
use crate::model::{Ns, Ops};
use crate::stats;

/// Typical delays of one rank, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Latency {
    /// From the start of a launching call to the operation's start where the GPU has nothing else to do.
    pub launch: Ns,
    /// From the end of an operation to the start of the next one of its stream, which was launched long before.
    pub stream: Ns,
}

/// Learns them from the operations of a rank.
///
/// ```text
/// host   [L1]              [L2][L3]
/// stream      [op 1]           [op 2][op 3]
///                          |-->|  launch   ||  stream
/// ```
pub(crate) fn learn(ops: &Ops) -> Latency {
    let mut last_end: Vec<Option<Ns>> = Vec::new();
    let mut busy_until = Ns::MIN;
    let mut idle = Vec::new();
    let mut shortest = Ns::MAX;
    let mut queued: Vec<(Ns, Ns, Ns)> = Vec::new();
    for i in 0..ops.len() {
        let stream = ops.stream[i] as usize;
        if stream >= last_end.len() {
            last_end.resize(stream + 1, None);
        }
        let (start, launch) = (ops.start[i], ops.launch[i]);
        if launch != NO_LAUNCH {
            let delay = start.saturating_sub(launch).max(0);
            shortest = shortest.min(delay);
            // On a busy GPU an operation may wait for an event of another stream.
            if busy_until <= launch {
                idle.push(delay);
            }
            if let Some(end) = last_end[stream].filter(|&end| end > launch) {
                queued.push((launch, end, start));
            }
        }
        last_end[stream] = last_end[stream].max(Some(ops.end[i]));
        busy_until = busy_until.max(ops.end[i]);
    }
    let launch = stats::median_i64(&idle).unwrap_or(if shortest == Ns::MAX { 0 } else { shortest });
    let gaps: Vec<Ns> = queued
        .into_iter()
        .filter(|&(called, end, _)| called.saturating_add(launch) <= end)
        .map(|(_, end, start)| start.saturating_sub(end).max(0))
        .collect();
    Latency { launch, stream: stats::median_i64(&gaps).unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    // launches  0     100 101
    // stream      [5 9)   [105 109)[110 120)   launch 5, gap 1
    #[test]
    fn an_idle_stream_shows_the_launch_and_a_busy_one_the_gap() {
        let ops = Ops {
            start: vec![5, 105, 110],
            end: vec![9, 109, 120],
            launch: vec![0, 100, 101],
            stream: vec![0, 0, 0],
            ..Ops::default()
        };
        assert_eq!(learn(&ops), Latency { launch: 5, stream: 1 });
    }
}
