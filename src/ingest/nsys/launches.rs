//! Which API call launched an operation: correlation id to the earliest start and its thread, inside one process.

use std::sync::{Mutex, PoisonError};

use super::db::{Db, Part};
use super::ids::process_of;
use super::queries;
use crate::Result;
use crate::model::Ns;
use foldhash::{HashMap, HashMapExt};

/// An API call that launched GPU work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// When it started on the CPU.
    pub start: Ns,
    /// The thread that made it.
    pub thread: u64,
}

const NOTHING: Launch = Launch { start: Ns::MAX, thread: u64::MAX };

/// Launches that are recorded at once.
const AT_ONCE: usize = 4096;
/// Ids that a bitmap may span for each id in it; where they are scattered more, a map is smaller.
const MAX_SPREAD: u64 = 256;

/// Launches of one process by the correlation ids of its GPU operations.
#[derive(Debug)]
pub struct LaunchTable {
    ids: Ids,
    /// One entry for each id.
    list: Vec<Launch>,
}

/// Where the launch of an id is in the list. API calls that launch nothing have ids too, so a bitmap of the ids that
/// matter, with the number of ids before each of its words, gives the place of each.
#[derive(Debug)]
enum Ids {
    /// Bit `id - first` is set for each id; its place in the list is the number of set bits before it.
    Ranked {
        /// Smallest id.
        first: i64,
        /// The bitmap.
        words: Vec<u64>,
        /// Set bits before each word.
        before: Vec<u32>,
    },
    /// By id.
    Scattered(HashMap<i64, usize>),
}

impl Ids {
    fn place(&self, id: i64) -> Option<usize> {
        match self {
            Ids::Scattered(map) => map.get(&id).copied(),
            Ids::Ranked { first, words, before } => {
                let bit = usize::try_from(id.checked_sub(*first)?).ok()?;
                let word = *words.get(bit / 64)?;
                let mask = 1u64 << (bit % 64);
                (word & mask != 0)
                    .then(|| before[bit / 64] as usize + (word & (mask - 1)).count_ones() as usize)
            }
        }
    }
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
            let mut places = HashMap::new();
            for id in known() {
                let next = places.len();
                places.entry(id).or_insert(next);
            }
            return LaunchTable { list: vec![NOTHING; places.len()], ids: Ids::Scattered(places) };
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
        let list = vec![NOTHING; set as usize];
        LaunchTable { ids: Ids::Ranked { first, words, before }, list }
    }

    /// The earliest API call with this id, `None` if the capture has none or no GPU operation has it.
    pub fn get(&self, id: i64) -> Option<Launch> {
        let found = self.ids.place(id).and_then(|at| self.list.get(at));
        found.copied().filter(|launch| *launch != NOTHING)
    }
}

/// The tables of all processes while rows are read, perhaps by several threads.
struct Filling<'a> {
    /// By process, ascending: which ids matter, and the launches found so far.
    processes: Vec<(u64, &'a Ids, Mutex<&'a mut [Launch]>)>,
}

/// Launches that were found and not recorded yet: process, place, launch.
type Found = Vec<(usize, usize, Launch)>;

impl Filling<'_> {
    /// Records what was found. The earliest launch stays, whatever the order.
    fn record(&self, found: &mut Found) {
        for hits in found.chunk_by(|a, b| a.0 == b.0) {
            let Some((_, _, list)) = hits.first().and_then(|hit| self.processes.get(hit.0)) else {
                continue;
            };
            let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
            for &(_, at, launch) in hits {
                if let Some(slot) = list.get_mut(at)
                    && (launch.start, launch.thread) < (slot.start, slot.thread)
                {
                    *slot = launch;
                }
            }
        }
        found.clear();
    }

    fn read(&self, db: &Db, part: Part) -> Result<u64> {
        let mut found: Found = Vec::with_capacity(AT_ONCE);
        // One process, the usual case, needs no look-up for each row.
        let mut at = 0;
        let rows = db.each_ints(queries::LAUNCHES, part, |row| {
            let (Some(start), Some(id), Some(thread)) = (row.time(0), row.int(1), row.int(2))
            else {
                return;
            };
            let process = process_of(thread);
            if self.processes.get(at).is_none_or(|(p, ..)| *p != process) {
                match self.processes.binary_search_by_key(&process, |(p, ..)| *p) {
                    Ok(there) => at = there,
                    Err(_) => return,
                }
            }
            if let Some(place) = self.processes[at].1.place(id) {
                found.push((at, place, Launch { start, thread: thread as u64 }));
                if found.len() == AT_ONCE {
                    self.record(&mut found);
                }
            }
        })?;
        self.record(&mut found);
        Ok(rows)
    }
}

/// Fills the tables of all processes in one scan, of at most `parts` parts; returns the number of API rows.
///
/// # Errors
/// The report is damaged.
pub fn read(db: &Db, tables: &mut HashMap<u64, LaunchTable>, parts: usize) -> Result<u64> {
    let mut processes: Vec<(u64, &Ids, Mutex<&mut [Launch]>)> = tables
        .iter_mut()
        .map(|(&process, table)| (process, &table.ids, Mutex::new(table.list.as_mut_slice())))
        .collect();
    processes.sort_unstable_by_key(|(process, ..)| *process);
    let filling = Filling { processes };
    let rows = db.in_parts("CUPTI_ACTIVITY_KIND_RUNTIME", parts, |db, part| filling.read(db, part));
    Ok(rows?.into_iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_call_counts_and_unknown_ids_have_none() {
        for ids in [vec![5, 6, 7], vec![5, 900_000, 0, 1], vec![5, 900_000_000, i64::MIN, i64::MAX]]
        {
            let mut table = LaunchTable::for_correlations(ids.iter());
            let calls = [(4, 1, 1), (0, 1, 1), (5, 20, 1), (5, 10, 2), (5, 30, 3)];
            let mut found = Found::new();
            for (id, start, thread) in calls {
                if let Some(place) = table.ids.place(id) {
                    found.push((0, place, Launch { start, thread }));
                }
            }
            let LaunchTable { ids: places, list } = &mut table;
            Filling { processes: vec![(1, places, Mutex::new(list.as_mut_slice()))] }
                .record(&mut found);
            assert_eq!(table.get(5), Some(Launch { start: 10, thread: 2 }));
            assert_eq!(table.get(ids[1]), None);
            assert_eq!(table.get(4), None);
            assert_eq!(table.get(0), None);
        }
    }
}
