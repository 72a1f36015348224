//! Across ranks: what ran ([`events`], [`calls`]), which steps are the same step ([`pairing`]), which operations are the
//! same collective ([`matching`], [`order`], [`pairs`], [`streams`], counted from [`anchors`]), who is in a communicator
//! ([`communicators`], [`together`]), how far clocks are apart ([`clocks`], [`sync`]), how long data moved and ranks waited
//! ([`transfer`]), all of it by operation, communicator and size ([`groups`]), and over sizes ([`latency`]).

pub(crate) mod analyse;
pub(crate) mod anchors;
pub(crate) mod calls;
pub(crate) mod clocks;
pub(crate) mod communicators;
pub(crate) mod events;
pub(crate) mod groups;
pub(crate) mod latency;
pub(crate) mod matches;
pub(crate) mod matching;
pub(crate) mod order;
pub(crate) mod pairing;
pub(crate) mod pairs;
pub(crate) mod refs;
pub(crate) mod streams;
pub(crate) mod sync;
pub(crate) mod together;
pub(crate) mod transfer;
pub(crate) mod warnings;

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
