//! The same communicators, operations and sizes of two jobs side by side.

use std::collections::BTreeMap;

use super::view::{Against, AgainstRow, Communicator, Inspection, Named, Op, Side, Verdict};
use crate::units;

/// Records on each side below which no verdict is given.
const ENOUGH: u64 = 5;
/// A change of the median below this share is none.
const MIN_EFFECT: f64 = 0.05;

/// Compares the job `here` against `there`, the baseline.
pub fn compare(here: &Inspection, there: &Inspection) -> Against {
    let (mut mine, mut theirs) = (by_kind(here), by_kind(there));
    let mut rows: Vec<(f64, AgainstRow)> = Vec::new();
    for partner in [Kind::equal, Kind::only_fitting] {
        for kind in mine.keys().cloned().collect::<Vec<_>>() {
            let Some(partner) = partner(&kind, &theirs) else { continue };
            if let (Some(mine), Some(theirs)) = (mine.remove(&kind), theirs.remove(&partner)) {
                let row = row(&kind, &mine, &theirs);
                let lost = row.change.unwrap_or(0.0)
                    * row.here.time_us.unwrap_or(0.0)
                    * row.here.count as f64;
                rows.push((lost, row));
            }
        }
    }
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    Against {
        files: there.files.len(),
        operations: there.operations,
        rows: rows.into_iter().map(|(_, row)| row).collect(),
        only_here: mine.keys().map(Kind::label).collect(),
        only_there: theirs.keys().map(Kind::label).collect(),
    }
}

/// What two jobs have in common. Ids are drawn anew in each job, so a communicator is told by its name, its size and its members.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    name: Option<String>,
    n_ranks: u32,
    nnodes: Option<u32>,
    class: String,
    members: Vec<u32>,
    op: Named,
    bytes: Option<u64>,
    bytes_range: Option<[u64; 2]>,
}

impl Kind {
    /// Itself, if the other job has it.
    fn equal(&self, theirs: &Kinds<'_>) -> Option<Kind> {
        theirs.contains_key(self).then(|| self.clone())
    }

    /// The one kind of the other job that is the same but for members whose logs are missing; two leave it open which one is meant.
    fn only_fitting(&self, theirs: &Kinds<'_>) -> Option<Kind> {
        let mut fitting = theirs.keys().filter(|other| self.fits(other));
        fitting.next().filter(|_| fitting.next().is_none()).cloned()
    }

    fn fits(&self, other: &Kind) -> bool {
        let shape = |k: &Kind| (k.bytes, k.bytes_range, k.n_ranks, k.nnodes);
        let known = !self.members.is_empty() && !other.members.is_empty();
        let within = |a: &[u32], b: &[u32]| a.iter().all(|member| b.contains(member));
        known
            && shape(self) == shape(other)
            && (&self.op, &self.name, &self.class) == (&other.op, &other.name, &other.class)
            && (within(&self.members, &other.members) || within(&other.members, &self.members))
    }

    fn communicator(&self) -> String {
        let name = self.name.as_deref().map_or_else(String::new, |n| format!("{n}, "));
        let nodes = self
            .nnodes
            .map_or_else(String::new, |n| format!(" on {n} node{}", if n == 1 { "" } else { "s" }));
        let members = match self.members.as_slice() {
            [] => String::new(),
            members => format!(" (job {})", units::ranks(members)),
        };
        format!(
            "{name}{} rank{}{nodes}{members}",
            self.n_ranks,
            if self.n_ranks == 1 { "" } else { "s" }
        )
    }

    fn label(&self) -> String {
        let size = match (self.bytes, self.bytes_range) {
            (Some(bytes), _) => format!(" of {bytes} bytes"),
            (None, Some([from, to])) => format!(" of {from} to {to} bytes"),
            (None, None) => String::new(),
        };
        format!("{}{size} on {}", self.op, self.communicator())
    }
}

/// One communicator's share of a kind.
type Part<'a> = (&'a Communicator, &'a Op);
/// What one job runs.
type Kinds<'a> = BTreeMap<Kind, Vec<Part<'a>>>;

fn by_kind(view: &Inspection) -> Kinds<'_> {
    // The rank of a process in its largest communicator stands for its rank in the job, which no record gives.
    let job_rank: BTreeMap<(&str, Option<u32>), u32> =
        view.processes.iter().map(|p| ((p.hostname.as_str(), p.pid), p.rank)).collect();
    let mut kinds = Kinds::new();
    let largest = view.communicators.iter().map(|c| c.n_ranks).max();
    for comm in &view.communicators {
        // Everyone is in the largest, and where there are several of that size nothing tells them apart.
        let ranks = comm.ranks.iter().filter(|_| Some(comm.n_ranks) != largest);
        let mut members: Vec<u32> =
            ranks.filter_map(|r| job_rank.get(&(r.hostname.as_str(), r.pid)).copied()).collect();
        members.sort_unstable();
        for op in &comm.ops {
            let kind = Kind {
                name: comm.name.clone(),
                n_ranks: comm.n_ranks,
                nnodes: comm.nnodes,
                class: comm.class.clone(),
                members: members.clone(),
                op: op.op,
                bytes: op.bytes,
                bytes_range: op.bytes_range,
            };
            kinds.entry(kind).or_default().push((comm, op));
        }
    }
    kinds
}

fn row(kind: &Kind, mine: &[Part<'_>], theirs: &[Part<'_>]) -> AgainstRow {
    let transfer = mine.iter().chain(theirs).all(|(_, op)| op.compared >= ENOUGH);
    let (here, there) = (side(mine, transfer), side(theirs, transfer));
    let change =
        here.time_us.zip(there.time_us).filter(|&(_, b)| b > 0.0).map(|(a, b)| a / b - 1.0);
    let ids = |parts: &[Part<'_>]| parts.iter().map(|(comm, _)| comm.comm_id.clone()).collect();
    AgainstRow {
        communicator: kind.communicator(),
        class: kind.class.clone(),
        comm_ids: ids(mine),
        against_comm_ids: ids(theirs),
        op: kind.op,
        bytes: kind.bytes,
        bytes_range: kind.bytes_range,
        basis: if transfer { "transfer" } else { "own" }.to_owned(),
        verdict: verdict(&here, &there),
        here,
        there,
        change,
    }
}

/// The figures of the communicator with most values; several that mean the same are rare and their medians close.
fn side(parts: &[Part<'_>], transfer: bool) -> Side {
    let count = |op: &Op| if transfer { op.compared } else { op.count - op.without_time };
    let largest = parts.iter().map(|(_, op)| *op).max_by_key(|op| count(op));
    let (time, busbw) = match largest {
        Some(op) if transfer => (op.transfer_us, op.transfer_busbw_gbs),
        Some(op) => (op.exec_time_us, op.busbw_gbs),
        None => (None, None),
    };
    Side {
        count: parts.iter().map(|(_, op)| count(op)).sum(),
        time_us: time.map(|t| t.p50),
        busbw_gbs: busbw.map(|b| b.median),
        busbw_p5_gbs: busbw.map(|b| b.p5),
        busbw_p95_gbs: busbw.map(|b| b.p95),
        wait_us: largest
            .filter(|op| op.compared >= ENOUGH)
            .and_then(|op| op.wait_us)
            .map(|t| t.p50),
    }
}

fn verdict(here: &Side, there: &Side) -> Verdict {
    let spread = |side: &Side| Some((side.busbw_gbs?, side.busbw_p5_gbs?, side.busbw_p95_gbs?));
    let (Some((a, a5, a95)), Some((b, b5, b95))) = (spread(here), spread(there)) else {
        return Verdict::Unknown;
    };
    if a <= 0.0 || b <= 0.0 {
        return Verdict::Unknown;
    }
    if here.count < ENOUGH || there.count < ENOUGH {
        return Verdict::TooFew;
    }
    if (a / b - 1.0).abs() < MIN_EFFECT || (b / a - 1.0).abs() < MIN_EFFECT {
        return Verdict::Same;
    }
    match (a < b5 && b > a95, a > b95 && b < a5) {
        (true, _) => Verdict::Slower,
        (_, true) => Verdict::Faster,
        _ => Verdict::WithinSpread,
    }
}
