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

/// Ids of one page of a table.
const PAGE: usize = 256;
/// Pages that a directory may have: 4 billion ids.
const MAX_PAGES: u64 = 1 << 24;
const NO_PAGE: u32 = u32::MAX;

/// Launches of one process by correlation id. Ids are clustered: pages hold those of the GPU operations,
/// a map serves where they are scattered beyond reason.
#[derive(Debug)]
pub enum LaunchTable {
    /// `list[directory[(id - first) / PAGE] * PAGE + (id - first) % PAGE]`.
    Paged {
        /// Smallest id.
        first: i64,
        /// Page numbers, [`NO_PAGE`] where no GPU operation has an id.
        directory: Vec<u32>,
        /// All pages.
        list: Vec<Launch>,
    },
    /// By id.
    Scattered(HashMap<i64, Launch>),
}

impl LaunchTable {
    /// An empty table for these correlation ids; 0 stands for unknown.
    pub fn for_correlations<'a>(ids: impl Iterator<Item = &'a i64> + Clone) -> LaunchTable {
        let known = || ids.clone().copied().filter(|&id| id != 0);
        let (first, last) = known().fold((i64::MAX, i64::MIN), |(first, last), id| (first.min(id), last.max(id)));
        let pages = last.checked_sub(first).and_then(|width| u64::try_from(width).ok()).map(|width| width / PAGE as u64 + 1);
        let Some(pages) = pages.filter(|&pages| pages <= MAX_PAGES) else {
            return LaunchTable::Scattered(known().map(|id| (id, NOTHING)).collect());
        };
        let mut directory = vec![NO_PAGE; pages as usize];
        let mut used = 0;
        for id in known() {
            let page = &mut directory[(id - first) as usize / PAGE];
            if *page == NO_PAGE {
                *page = used;
                used += 1;
            }
        }
        LaunchTable::Paged { first, directory, list: vec![NOTHING; used as usize * PAGE] }
    }

    fn position(first: i64, directory: &[u32], id: i64) -> Option<usize> {
        let offset = usize::try_from(id.checked_sub(first)?).ok()?;
        let page = *directory.get(offset / PAGE)?;
        (page != NO_PAGE).then(|| page as usize * PAGE + offset % PAGE)
    }

    fn record(&mut self, id: i64, launch: Launch) {
        let slot = match self {
            LaunchTable::Paged { first, directory, list } => Self::position(*first, directory, id).and_then(|at| list.get_mut(at)),
            LaunchTable::Scattered(map) => map.get_mut(&id),
        };
        if let Some(slot) = slot
            && (launch.start, launch.thread) < (slot.start, slot.thread)
        {
            *slot = launch;
        }
    }

    /// The earliest API call with this id, `None` if the capture has none.
    pub fn get(&self, id: i64) -> Option<Launch> {
        let found = match self {
            LaunchTable::Paged { first, directory, list } => Self::position(*first, directory, id).and_then(|at| list.get(at)),
            LaunchTable::Scattered(map) => map.get(&id),
        };
        found.copied().filter(|launch| id != 0 && *launch != NOTHING)
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
        for ids in [vec![5, 6, 7], vec![5, 900_000, 0, 1], vec![5, 900_000_000, i64::MIN, i64::MAX]] {
            let mut table = LaunchTable::for_correlations(ids.iter());
            table.record(5, Launch { start: 20, thread: 1 });
            table.record(5, Launch { start: 10, thread: 2 });
            table.record(5, Launch { start: 30, thread: 3 });
            assert_eq!(table.get(5), Some(Launch { start: 10, thread: 2 }));
            assert_eq!(table.get(ids[1]), None);
            assert_eq!(table.get(0), None);
        }
    }
}
