//! What matching works on, and what it finds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::anchors::Anchor;
use super::events::Event;
use super::refs::{EventRef, RankIx};
use crate::model::{CommOp, Names};

/// The communication of one rank with what matching needs to know about it.
#[derive(Debug)]
pub struct RankEvents<'a> {
    /// Rank number.
    pub rank: u32,
    /// Events in order of (start, end).
    pub events: &'a [Event],
    /// Where each event stands.
    pub anchors: Vec<Anchor>,
    /// Kernel names.
    pub names: &'a Names,
}

/// Why an operation has no partner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Nobody else here takes part.
    Absent,
    /// Ranks have different numbers of them, or in another order of sizes or kernels.
    Unequal,
    /// The clocks of the ranks cannot be compared, and there is nothing else to go by.
    NoClock,
    /// The order agrees, the times do not.
    NotTogether,
    /// No payload names the communicator, and ends agree with no other rank.
    LeavesAlone,
    /// Peers are numbers in a communicator in which the rank's own number is not known.
    OwnNumber,
    /// One kernel works with several of another rank.
    Chained,
}

impl Reason {
    /// What reports print after "have no partner: ".
    pub fn label(self) -> &'static str {
        match self {
            Reason::Absent => "no other rank of the report takes part",
            Reason::Unequal => "counts, sizes or kernels differ between ranks",
            Reason::NoClock => "only clocks could tell, and those of the ranks cannot be compared",
            Reason::NotTogether => "they do not run at the same time on the ranks",
            Reason::LeavesAlone => {
                "the communicator is not known, and they end together on no other rank"
            }
            Reason::OwnNumber => "the rank's own number in the communicator is not known",
            Reason::Chained => "one kernel works with several of another rank",
        }
    }
}

/// How members of a match were found.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum Method {
    /// A number that is equal on all ranks.
    #[serde(rename = "operation id")]
    OperationId,
    /// Communicator, operation and order within the step.
    #[serde(rename = "communicator and order")]
    Communicator,
    /// Order on the stream within the step, with equal kernel names.
    #[default]
    #[serde(rename = "stream order and kernel name")]
    StreamOrder,
    /// Communicator or stream as above, and that they run at the same time.
    #[serde(rename = "time")]
    Clock,
}

impl Method {
    /// The words that reports print.
    pub fn label(self) -> &'static str {
        match self {
            Method::OperationId => "operation id",
            Method::Communicator => "communicator and order",
            Method::StreamOrder => "stream order and kernel name",
            Method::Clock => "time",
        }
    }
}

/// One collective: the event of each rank that takes part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// In order of ranks; at least two.
    pub members: Vec<EventRef>,
    /// How they were found.
    pub method: Method,
    /// The step that launched it on every rank.
    pub step: Option<usize>,
    /// The role of the stream, where that is all that says who takes part.
    pub role: Option<u32>,
}

/// All matches and all that is alone.
#[derive(Debug, Default)]
pub struct Matching {
    /// In order of the first member's (start, rank, event) once [`Matching::sort`] was called.
    pub matches: Vec<Match>,
    /// What order cannot decide.
    pub open: Vec<Bucket>,
    /// Operations without a partner.
    pub alone: BTreeMap<Reason, Alone>,
}

/// Operations that have no partner for the same reason.
#[derive(Debug)]
pub struct Alone {
    /// How many each rank (its number) has.
    pub by_rank: BTreeMap<u32, u64>,
    /// The first case, in words.
    pub example: String,
}

/// What puts operations of different ranks side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// Equal on all ranks.
    Operation(u64),
    /// The operation with this number on this communicator.
    Sequence(u64, CommOp, u64),
    /// Operations of one kind on one communicator, from here on.
    Communicator(u64, CommOp, Anchor),
    /// Operations on the stream of this role, from here on.
    Stream(u32, Anchor),
}

/// Operations among which order decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    /// What they have in common.
    pub key: Key,
    /// By rank, in order: positions of its events, in order.
    pub lists: Vec<(RankIx, Vec<usize>)>,
}

impl Matching {
    /// Counts operations of a rank as alone.
    pub(super) fn leave(
        &mut self,
        ranks: &[RankEvents<'_>],
        reason: Reason,
        (rank, count): (RankIx, usize),
        example: impl FnOnce() -> String,
    ) {
        if count > 0 {
            let alone = self
                .alone
                .entry(reason)
                .or_insert_with(|| Alone { by_rank: BTreeMap::new(), example: example() });
            *alone.by_rank.entry(ranks[rank].rank).or_default() += count as u64;
        }
    }

    /// Puts matches in order.
    pub fn sort(&mut self, ranks: &[RankEvents<'_>]) {
        self.matches.sort_by_key(|m| {
            let first = m.members[0];
            (ranks[first.rank].events[first.event].start, first)
        });
    }
}
