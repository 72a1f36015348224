//! Across ranks: what ran ([`events`], [`calls`]), which steps are the same step ([`pairing`]), which operations are the
//! same collective ([`matching`], [`order`], [`pairs`], [`streams`], counted from [`anchors`]), who is in a communicator
//! ([`communicators`], [`together`]), how far clocks are apart ([`clocks`], [`sync`]), how long data moved and ranks waited
//! ([`transfer`]), all of it by operation, communicator and size ([`groups`]), and over sizes ([`latency`]).

pub mod analyse;
pub mod anchors;
pub mod calls;
pub mod clocks;
pub mod communicators;
pub mod events;
pub mod groups;
pub mod latency;
pub mod matches;
pub mod matching;
pub mod order;
pub mod pairing;
pub mod pairs;
pub mod refs;
pub mod streams;
pub mod sync;
pub mod together;
pub mod transfer;
pub mod warnings;

#[cfg(test)]
pub(crate) mod test_events {
    use super::events::Event;
    use crate::model::{CommOp, NameId, Ns};

    /// An AllReduce kernel of which nothing else is known.
    pub(crate) fn kernel(start: Ns, end: Ns) -> Event {
        of(CommOp::AllReduce, start, end)
    }

    /// A kernel of any operation.
    pub(crate) fn of(op: CommOp, start: Ns, end: Ns) -> Event {
        Event { name: NameId(0), ..Event::new(op, start, end) }
    }
}
