//! Operations of unknown communicator: which streams of different ranks do the same.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::{HashMap, HashMapExt};

use super::matches::RankEvents;
use crate::model::NameId;

/// For each rank the role of each stream without communicator ids: streams that run the same set of kernels have the same
/// role, in order of their dense numbers where a rank has several.
pub(crate) fn roles(ranks: &[RankEvents<'_>]) -> Vec<HashMap<u32, u32>> {
    type Role<'n> = (BTreeSet<&'n str>, usize);
    let mut numbers: BTreeMap<Role, u32> = BTreeMap::new();
    let mut list = Vec::with_capacity(ranks.len());
    for rank in ranks {
        let mut kernels: BTreeMap<u32, BTreeSet<NameId>> = BTreeMap::new();
        for event in rank.events.iter().filter(|e| e.comm.is_none()) {
            kernels.entry(event.stream).or_default().insert(event.name);
        }
        let mut seen: BTreeMap<BTreeSet<&str>, usize> = BTreeMap::new();
        let mut own = HashMap::new();
        for (stream, names) in kernels {
            let names: BTreeSet<&str> = names.into_iter().map(|id| rank.names.get(id)).collect();
            let count = seen.entry(names.clone()).or_default();
            let next = numbers.len() as u32;
            own.insert(stream, *numbers.entry((names, *count)).or_insert(next));
            *count += 1;
        }
        list.push(own);
    }
    list
}
