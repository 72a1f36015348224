//! Which ranks a communicator has, and under which number.

use std::collections::{BTreeMap, BTreeSet};

use super::events::Event;
use super::refs::RankIx;
use crate::model::RankTrace;

/// What is known of one communicator.
#[derive(Debug, Clone, Default)]
struct Communicator {
    /// Its ranks; `None` if nothing says how many.
    n_ranks: Option<u32>,
    /// The run's ranks that use it here, in order.
    users: Vec<RankIx>,
    /// The run's rank by number in the communicator.
    by_number: BTreeMap<i64, RankIx>,
}

/// The communicators of a run.
#[derive(Debug, Clone, Default)]
pub struct Communicators {
    /// By id.
    list: BTreeMap<u64, Communicator>,
    /// Ranks of an operation whose communicator is not known: all of the run, if all are here.
    everyone: Option<u32>,
    /// True if nothing says how many ranks the run has: those that are here are taken to be all.
    pub assumed: bool,
}

impl Communicators {
    /// From init payloads; where a communicator was made before the capture, from the ranks that use it, if every rank of
    /// the run is here. Numbers follow the order of ranks then, as frameworks make their groups.
    pub fn new(traces: &[RankTrace], events: &[Vec<Event>]) -> Communicators {
        let mut list: BTreeMap<u64, Communicator> = BTreeMap::new();
        for (r, own) in events.iter().enumerate() {
            let used: BTreeSet<u64> = own.iter().filter_map(|event| event.comm).collect();
            used.into_iter().for_each(|comm| list.entry(comm).or_default().users.push(RankIx(r)));
        }
        let world = traces.iter().filter_map(|t| t.world_size).max();
        let complete = world.is_none_or(|world| world as usize <= traces.len());
        if complete {
            for comm in list.values_mut() {
                comm.n_ranks = Some(comm.users.len() as u32);
                comm.by_number =
                    comm.users.iter().enumerate().map(|(number, &r)| (number as i64, r)).collect();
            }
        }
        let mut initialised: BTreeSet<u64> = BTreeSet::new();
        for (r, trace) in traces.iter().enumerate() {
            for init in &trace.comm_inits {
                let comm = list.entry(init.comm).or_default();
                if initialised.insert(init.comm) {
                    comm.by_number.clear();
                }
                comm.n_ranks = Some(init.n_ranks);
                comm.by_number.insert(i64::from(init.rank), RankIx(r));
            }
        }
        let assumed = world.is_none()
            && traces.len() > 1
            && list.keys().any(|comm| !initialised.contains(comm));
        Communicators { list, everyone: complete.then_some(traces.len() as u32), assumed }
    }

    /// The run's rank by number in a communicator, as far as they are known.
    pub fn numbers(&self, comm: u64) -> Option<&BTreeMap<i64, RankIx>> {
        self.list.get(&comm).map(|known| &known.by_number)
    }

    /// Ranks of a communicator, or of an operation without one.
    pub fn size(&self, comm: Option<u64>) -> Option<u32> {
        match comm {
            Some(comm) => self.list.get(&comm)?.n_ranks,
            None => self.everyone,
        }
    }
}
