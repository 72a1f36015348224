//! What is printed of where a step's time goes: part of the report's view model.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::collectives::groups::CollectiveGroup;
use crate::model::{Class, CommOp};

/// Idle time at the end of a window, which no operation of it ends.
pub(crate) const AFTER: &str = "(idle until the next step)";
/// Launched inside no range below the step's.
pub(crate) const OUTSIDE: &str = "(in no range of the step)";
/// Communication of which no communicator is known.
pub(crate) const UNKNOWN: &str = "communicator not known";
/// All else.
pub(crate) const NO_COMM: &str = "no communication";

/// Where the counted steps' time goes, means over ranks and counted steps. Each table's times add up to the ranks' mean step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Places {
    /// By the outermost range below the step's, in which the work was launched; empty where no range lies inside steps.
    pub phase: Vec<Place>,
    /// By the outermost and the innermost such range, and for collectives by their number in the step; empty likewise.
    pub layer: Vec<Place>,
    /// By communicator, named by its role: a guess from ranks and operations.
    pub communicator: Vec<Place>,
    /// By kernel or kind of copy.
    pub kernel: Vec<Place>,
    /// What the hosts did while their GPUs were idle, the most time first.
    pub idle: Vec<IdleTime>,
    /// Kernels that take longer on one rank than on the others on average, the greatest excess first.
    pub excess: Vec<Excess>,
    /// Why phases and layers are not known.
    pub reason: Option<String>,
}

impl Places {
    /// True if nothing is known.
    pub fn is_empty(&self) -> bool {
        self.kernel.is_empty()
    }

    /// The table of that name.
    pub fn by(&self, by: By) -> &[Place] {
        match by {
            By::Phase => &self.phase,
            By::Layer => &self.layer,
            By::Communicator => &self.communicator,
            By::Kernel => &self.kernel,
        }
    }
}

/// What the time of a step is told apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum By {
    Phase,
    Layer,
    Communicator,
    Kernel,
}

impl By {
    /// The word that options and tables use.
    pub fn label(self) -> &'static str {
        match self {
            By::Phase => "phase",
            By::Layer => "layer",
            By::Communicator => "communicator",
            By::Kernel => "kernel",
        }
    }
}

/// The time of one phase, layer, communicator or kernel in a step. Each nanosecond of a step counts once: to compute, else to
/// communication, else to copies, else to work of unknown class, else to the operation that ends the idle time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// What it is.
    pub name: String,
    /// Its time: the sum of the parts, ns.
    pub ns: i64,
    /// Compute kernels, ns.
    pub compute_ns: i64,
    /// Communication that no compute hides, ns.
    pub exposed_comm_ns: i64,
    /// Copies and memsets that neither compute nor communication hides, ns.
    pub exposed_copy_ns: i64,
    /// CUDA graphs in one row and kernels without a name, ns.
    pub unclassified_ns: i64,
    /// Idle time before its operations, ns.
    pub idle_ns: i64,
    /// Its operations on the critical path, with their launches, over all ranks, mean over counted steps, ns; `None` without a replay.
    pub critical_ns: Option<i64>,
    /// Operations that start in a step.
    pub count: f64,
}

/// What a host did while its GPU was idle.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct IdleTime {
    /// Rank.
    pub rank: u32,
    /// A CUDA call, or the range in which the host was between two calls.
    pub name: String,
    /// Mean over counted steps, ns.
    pub ns: i64,
    /// Idle times in which it is found, mean over counted steps.
    pub count: f64,
}

/// A kernel that takes longer on a rank than on the others on average, per counted step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Excess {
    /// Rank.
    pub rank: u32,
    /// Kernel.
    pub name: String,
    /// Its time beyond the others' mean, ns.
    pub excess_ns: i64,
    /// Its time, ns.
    pub ns: i64,
    /// Mean of the other ranks' time, ns.
    pub others_ns: i64,
    /// Its calls.
    pub count: f64,
    /// Mean of the other ranks' calls.
    pub others_count: f64,
}

/// Work of one kind in words.
pub(crate) fn work(class: Class, name: &str) -> String {
    match class {
        Class::Htod => "copy HtoD".to_owned(),
        Class::Dtoh => "copy DtoH".to_owned(),
        Class::Dtod => "copy DtoD".to_owned(),
        Class::Ptop => "copy between GPUs".to_owned(),
        Class::OtherCopy => "copy, other".to_owned(),
        Class::Memset => "memset".to_owned(),
        _ if name.is_empty() => "work without a name".to_owned(),
        _ => name.to_owned(),
    }
}

/// Each communicator by the role that it seems to have, from its ranks and operations: a guess, and said to be one. `world` is
/// the number of ranks of the run.
pub(crate) fn roles(groups: &[CollectiveGroup], world: usize) -> BTreeMap<u64, String> {
    let mut known: BTreeMap<u64, (BTreeSet<u32>, BTreeSet<&str>)> = BTreeMap::new();
    for group in groups {
        let id = group.comm_id.as_deref().and_then(|id| id.strip_prefix("0x"));
        let Some(id) = id.and_then(|id| u64::from_str_radix(id, 16).ok()) else { continue };
        let (ranks, ops) = known.entry(id).or_default();
        ranks.extend(&group.ranks);
        ops.insert(group.op.label());
    }
    let whole = known.values().filter(|(ranks, _)| ranks.len() == world).count();
    let partial = known.values().any(|(ranks, _)| (2..world).contains(&ranks.len()));
    let role = |(ranks, ops): &(BTreeSet<u32>, BTreeSet<&str>)| {
        let is = |op: CommOp| ops.contains(op.label());
        let sends = [CommOp::Send, CommOp::Recv, CommOp::SendRecv];
        let list: Vec<u32> = ranks.iter().copied().collect();
        let adjacent = list.windows(2).all(|pair| pair[1] - pair[0] == 1);
        if !ops.is_empty() && ops.iter().all(|op| sends.iter().any(|send| send.label() == *op)) {
            "pipeline"
        } else if is(CommOp::AllToAll) {
            "expert"
        } else if ranks.len() == world {
            if partial || whole > 1 { "all ranks" } else { "data" }
        } else if adjacent {
            "tensor"
        } else {
            "data"
        }
    };
    let label = |(id, known): (u64, (BTreeSet<u32>, BTreeSet<&str>))| {
        let role = role(&known);
        let ranks = crate::units::plural(known.0.len(), "rank");
        let text = match role {
            "all ranks" => format!("communicators of all {ranks}"),
            role => format!("{role} parallel (a guess), {ranks} each"),
        };
        (id, text)
    };
    known.into_iter().map(label).collect()
}
