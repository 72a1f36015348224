//! Which API call launched an operation: correlation id to the earliest start and its thread, inside one process.

use std::collections::HashMap;

use super::db::{Db, int};
use super::gpu_work::process_of;
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

/// Launches of one process. Correlation ids are nearly consecutive: a plain array serves, a map where they are not.
#[derive(Debug)]
pub enum LaunchTable {
    /// `list[id - first]`.
    Dense {
        /// Smallest id.
        first: i64,
        /// One entry for each id.
        list: Vec<Launch>,
    },
    /// By id.
    Sparse(HashMap<i64, Launch>),
}

impl LaunchTable {
    /// An empty table for these correlation ids; 0 stands for unknown.
    pub fn for_correlations<'a>(ids: impl Iterator<Item = &'a i64> + Clone) -> LaunchTable {
        let known = || ids.clone().copied().filter(|&id| id != 0);
        let (mut first, mut last, mut count) = (i64::MAX, i64::MIN, 0u64);
        for id in known() {
            (first, last, count) = (first.min(id), last.max(id), count + 1);
        }
        let width = last.checked_sub(first).and_then(|w| u64::try_from(w).ok()).map_or(u64::MAX, |w| w.saturating_add(1));
        if count > 0 && width <= count.saturating_mul(8).saturating_add(4096) {
            LaunchTable::Dense { first, list: vec![NOTHING; width as usize] }
        } else {
            LaunchTable::Sparse(known().map(|id| (id, NOTHING)).collect())
        }
    }

    fn slot(&mut self, id: i64) -> Option<&mut Launch> {
        match self {
            LaunchTable::Dense { first, list } => list.get_mut(usize::try_from(id.checked_sub(*first)?).ok()?),
            LaunchTable::Sparse(map) => map.get_mut(&id),
        }
    }

    fn record(&mut self, id: i64, launch: Launch) {
        if let Some(slot) = self.slot(id)
            && (launch.start, launch.thread) < (slot.start, slot.thread)
        {
            *slot = launch;
        }
    }

    /// The earliest API call with this id, `None` if the capture has none.
    pub fn get(&self, id: i64) -> Option<Launch> {
        let found = match self {
            LaunchTable::Dense { first, list } => list.get(usize::try_from(id.checked_sub(*first)?).ok()?),
            LaunchTable::Sparse(map) => map.get(&id),
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
    let mut list: Vec<(u64, &mut LaunchTable)> = tables.iter_mut().map(|(&process, table)| (process, table)).collect();
    list.sort_unstable_by_key(|(process, _)| *process);
    let mut at = 0;
    db.each(queries::LAUNCHES, [], |row| {
        let (Some(start), Some(id), Some(thread)) = (int(row, 0), int(row, 1), int(row, 2)) else { return };
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
        for ids in [vec![5, 6, 7], vec![5, 900_000_000, i64::MIN, i64::MAX]] {
            let mut table = LaunchTable::for_correlations(ids.iter());
            table.record(5, Launch { start: 20, thread: 1 });
            table.record(5, Launch { start: 10, thread: 2 });
            table.record(5, Launch { start: 30, thread: 3 });
            table.record(4, Launch { start: 1, thread: 1 });
            assert_eq!(table.get(5), Some(Launch { start: 10, thread: 2 }));
            assert_eq!(table.get(ids[1]), None);
            assert_eq!(table.get(4), None);
            assert_eq!(table.get(0), None);
        }
    }
}
