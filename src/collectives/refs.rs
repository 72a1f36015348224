//! What operations of different ranks are spoken of by.

use std::ops::{Index, IndexMut};

/// Position of a rank among the ranks of the run that are here, which is not its rank number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RankIx(pub usize);

/// One communication operation of one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventRef {
    /// Whose it is.
    pub rank: RankIx,
    /// Its position among the events of that rank.
    pub event: usize,
}

impl EventRef {
    /// The operation at a position of a rank's list.
    pub fn new(rank: RankIx, event: usize) -> EventRef {
        EventRef { rank, event }
    }
}

// Lists with one entry for each rank are indexed by the rank.
macro_rules! indexed_by_rank {
    ($list:ty) => {
        impl<T> Index<RankIx> for $list {
            type Output = T;

            fn index(&self, rank: RankIx) -> &T {
                &self[rank.0]
            }
        }

        impl<T> IndexMut<RankIx> for $list {
            fn index_mut(&mut self, rank: RankIx) -> &mut T {
                &mut self[rank.0]
            }
        }
    };
}

indexed_by_rank!([T]);
indexed_by_rank!(Vec<T>);

/// Positions of all of so many ranks.
pub(crate) fn all(ranks: usize) -> impl Iterator<Item = RankIx> {
    (0..ranks).map(RankIx)
}
