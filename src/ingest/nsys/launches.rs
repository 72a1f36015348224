//! Which API call launched an operation: correlation id to the earliest start and its thread, inside one process.

use std::collections::HashMap;

use super::db::{Db, int, time};
use super::ids::process_of;
use super::queries;
use crate::Result;
use crate::model::Ns;

/// An API call that launched GPU work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// When it started on the CPU.
    pub start: Ns,
    /// The thread that made it.
    pub thread: u64,
}

const NOTHING: Launch = Launch { start: Ns::MAX, thread: u64::MAX };

/// Ids that a bitmap may span for each id in it; where they are scattered more, a map is smaller.
const MAX_SPREAD: u64 = 256;

/// Launches of one process by the correlation ids of its GPU operations. API calls that launch nothing have ids too,
/// so a bitmap of the ids that matter, with the number of ids before each of its words, gives the place of each.
#[derive(Debug)]
pub enum LaunchTable {
    /// Bit `id - first` is set for each id; its place in the list is the number of set bits before it.
    Ranked {
        /// Smallest id.
        first: i64,
        /// The bitmap.
        words: Vec<u64>,
        /// Set bits before each word.
        before: Vec<u32>,
        /// One entry for each set bit.
        list: Vec<Launch>,
    },
    /// By id.
    Scattered(HashMap<i64, Launch>),
}

impl LaunchTable {
    /// An empty table for these correlation ids; 0 stands for unknown.
    pub fn for_correlations<'a>(ids: impl Iterator<Item = &'a i64> + Clone) -> LaunchTable {
        let known = || ids.clone().copied().filter(|&id| id != 0);
        let (first, last, count) = known()
            .fold((i64::MAX, i64::MIN, 0u64), |(first, last, n), id| {
                (first.min(id), last.max(id), n + 1)
            });
        let width = last.checked_sub(first).and_then(|width| u64::try_from(width).ok());
        let Some(width) = width.filter(|&width| width < count.saturating_mul(MAX_SPREAD)) else {
            return LaunchTable::Scattered(known().map(|id| (id, NOTHING)).collect());
        };
        let mut words = vec![0u64; (width / 64 + 1) as usize];
        for id in known() {
            let bit = (id - first) as usize;
            words[bit / 64] |= 1 << (bit % 64);
        }
        let mut before = Vec::with_capacity(words.len());
        let mut set = 0u32;
        for word in &words {
            before.push(set);
            set += word.count_ones();
        }
        LaunchTable::Ranked { first, words, before, list: vec![NOTHING; set as usize] }
    }

    fn place(first: i64, words: &[u64], before: &[u32], id: i64) -> Option<usize> {
        let bit = usize::try_from(id.checked_sub(first)?).ok()?;
        let word = *words.get(bit / 64)?;
        let mask = 1u64 << (bit % 64);
        (word & mask != 0)
            .then(|| before[bit / 64] as usize + (word & (mask - 1)).count_ones() as usize)
    }

    fn record(&mut self, id: i64, launch: Launch) {
        let slot = match self {
            LaunchTable::Ranked { first, words, before, list } => {
                Self::place(*first, words, before, id).and_then(|at| list.get_mut(at))
            }
            LaunchTable::Scattered(map) => map.get_mut(&id),
        };
        if let Some(slot) = slot
            && (launch.start, launch.thread) < (slot.start, slot.thread)
        {
            *slot = launch;
        }
    }

    /// The earliest API call with this id, `None` if the capture has none or no GPU operation has it.
    pub fn get(&self, id: i64) -> Option<Launch> {
        let found = match self {
            LaunchTable::Ranked { first, words, before, list } => {
                Self::place(*first, words, before, id).and_then(|at| list.get(at))
            }
            LaunchTable::Scattered(map) => map.get(&id),
        };
        found.copied().filter(|launch| *launch != NOTHING)
    }
}

/// Fills the tables of all processes in one scan; returns the number of API rows.
///
/// # Errors
/// The report is damaged.
pub fn read(db: &Db, tables: &mut HashMap<u64, LaunchTable>) -> Result<u64> {
    // One process, the usual case, needs no look-up for each row.
    let mut list: Vec<(u64, &mut LaunchTable)> =
        tables.iter_mut().map(|(&process, table)| (process, table)).collect();
    list.sort_unstable_by_key(|(process, _)| *process);
    let mut at = 0;
    db.each(queries::LAUNCHES, [], |row| {
        let (Some(start), Some(id), Some(thread)) = (time(row, 0), int(row, 1), int(row, 2)) else {
            return;
        };
        let process = process_of(thread);
        if list.get(at).is_none_or(|(p, _)| *p != process) {
            match list.binary_search_by_key(&process, |(p, _)| *p) {
                Ok(found) => at = found,
                Err(_) => return,
            }
        }
        list[at].1.record(id, Launch { start, thread: thread as u64 });
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_call_counts_and_unknown_ids_have_none() {
        for ids in [vec![5, 6, 7], vec![5, 900_000, 0, 1], vec![5, 900_000_000, i64::MIN, i64::MAX]]
        {
            let mut table = LaunchTable::for_correlations(ids.iter());
            table.record(4, Launch { start: 1, thread: 1 });
            table.record(0, Launch { start: 1, thread: 1 });
            table.record(5, Launch { start: 20, thread: 1 });
            table.record(5, Launch { start: 10, thread: 2 });
            table.record(5, Launch { start: 30, thread: 3 });
            assert_eq!(table.get(5), Some(Launch { start: 10, thread: 2 }));
            assert_eq!(table.get(ids[1]), None);
            assert_eq!(table.get(4), None);
            assert_eq!(table.get(0), None);
        }
    }
}
