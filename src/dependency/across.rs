//! Operations of several ranks that meet: collectives, and receives after their sends.
//!
//! Ranks that leave together (AllReduce and its kind) leave when the last one has arrived and the data has moved. The last one
//! is the rank with the shortest duration, whatever clocks say of starts. Of the others (Send/Recv, Broadcast, Reduce) a rank
//! leaves after those that it can have waited for: who started before it ended.
//!
//! ```text
//! rank 0  [start 0 ------------------------ end 0)
//! rank 1              [start 1 ------------ end 1)
//!            arrived    ^   '-- transfer --^
//! ```

use foldhash::{HashMap, HashMapExt};

use super::graph::{Draft, Moment, Reason};
use super::layout::Layout;
use crate::collectives::analyse::Across;
use crate::collectives::events::Event;
use crate::collectives::groups::Measured;
use crate::model::{CommOp, Ns, Ops, RankTrace};

/// An operation that is matched with those of other ranks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Met {
    /// Index of the match in [`Across::measured`].
    pub found: usize,
    /// True if all ranks of the communicator are captured, as far as is known.
    pub complete: bool,
    /// True for sends and receives.
    pub is_pair: bool,
}

/// Adds what matched operations come after; returns them by rank and operation.
pub(crate) fn join(
    draft: &mut Draft,
    layout: &Layout,
    traces: &[RankTrace],
    events: &[Vec<Event>],
    across: &Across,
) -> Vec<HashMap<usize, Met>> {
    let mut met: Vec<HashMap<usize, Met>> = vec![HashMap::new(); traces.len()];
    for (found, one) in across.measured.iter().enumerate() {
        if let Some(members) = members(one, traces, events, across) {
            let captured = one.n_ranks.is_none_or(|n| n as usize <= members.len());
            for member in &members {
                let is_pair = member.op_kind == CommOp::SendRecv;
                let this = Met { found, complete: captured || is_pair, is_pair };
                met[member.rank].insert(member.op, this);
            }
            meet(draft, layout, members);
        }
    }
    met
}

/// One rank's operation in a match, on the common clock.
#[derive(Debug, Clone, Copy)]
struct Member {
    rank: usize,
    op: usize,
    op_kind: CommOp,
    start: Ns,
    end: Ns,
    together: bool,
}

/// The kernels of a match; `None` where clocks cannot be compared or what moved the data are copies.
fn members(
    one: &Measured,
    traces: &[RankTrace],
    events: &[Vec<Event>],
    across: &Across,
) -> Option<Vec<Member>> {
    let first = one.found.members.first()?.rank.0;
    one.found
        .members
        .iter()
        .map(|member| {
            let rank = member.rank.0;
            let event = events.get(rank)?.get(member.event)?;
            let clock = across.clocks.get(rank)?;
            let op = operation(&traces[rank].ops, event)?;
            clock.comparable(&across.clocks[first]).then(|| Member {
                rank,
                op,
                op_kind: event.op,
                start: clock.common(event.start),
                end: clock.common(event.end),
                together: event.leaves_together(),
            })
        })
        .collect()
}

/// The kernel of an event.
pub(crate) fn operation(ops: &Ops, event: &Event) -> Option<usize> {
    if !event.is_kernel() {
        return None;
    }
    let first = ops.start.partition_point(|&start| start < event.start);
    (first..ops.len()).take_while(|&i| ops.start[i] == event.start).find(|&i| {
        ops.end[i] == event.end && ops.stream[i] == event.stream && ops.name[i] == event.name
    })
}

/// Adds the arrivals one after the other, and for each member the transfer after those that it waited for.
fn meet(draft: &mut Draft, layout: &Layout, mut members: Vec<Member>) {
    let together = members.iter().all(|member| member.together);
    members.sort_by_key(|member| (member.start, member.rank));
    if together {
        // The rank that waited least came last, even if clocks show another one a little later.
        let least =
            members.iter().enumerate().min_by_key(|(_, m)| (m.end.saturating_sub(m.start), m.rank));
        if let Some((last, _)) = least {
            let last = members.remove(last);
            members.push(last);
        }
    }
    let mut arrived: Vec<Moment> = Vec::with_capacity(members.len());
    for member in &members {
        let start = layout.op_start(member.rank, member.op);
        let mark = draft.observed.len() as Moment;
        draft.observed.push(member.start);
        if let Some(&before) = arrived.last() {
            draft.edge(before, mark, Reason::Arrival, 0);
        }
        draft.edge(start, mark, Reason::Arrival, 0);
        arrived.push(mark);
    }
    for member in &members {
        let waited_for = match together {
            true => members.len(),
            false => members.partition_point(|other| other.start < member.end),
        };
        // A member of no length has still arrived itself.
        let after = arrived.get(waited_for.saturating_sub(1)).or(arrived.last());
        if let Some(&after) = after {
            draft.edge(after, layout.op_end(member.rank, member.op), Reason::Transfer, 0);
        }
    }
}
