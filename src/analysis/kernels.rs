//! Which kernels take the time: by name, over all ranks, within step windows.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::collections::HashMap;

use crate::model::{Class, NameId, Ns, RankTrace, Span};
use crate::stats;

/// Kernels by total time over all ranks and whole windows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kernels {
    /// All communication kernels.
    pub comm: Vec<Kernel>,
    /// The compute kernels with most time.
    pub compute: Vec<Kernel>,
    /// Compute kernels by name that are not listed.
    pub compute_omitted: usize,
    /// Calls and total time (ns) of every compute kernel by name, to set runs against each other.
    pub all_compute: BTreeMap<String, (u64, i64)>,
}

/// One kernel by name, over all ranks, within step windows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// Short name.
    pub name: String,
    /// `comm:<family>` or `compute`.
    pub class: String,
    /// Calls that start in a step window.
    pub count: u64,
    /// Sum of their durations, ns.
    pub total_ns: i64,
    /// Median duration, ns.
    pub median_ns: i64,
}

/// Compute kernels that are listed; the rest is counted.
const COMPUTE_LISTED: usize = 15;

/// What a kernel does, as far as its name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Compute,
    /// Communication of this library.
    Comm(&'static str),
    /// The report lacks its name.
    Unclassified,
}

/// Durations by kernel name and class. Calls that start in a step window count, with their whole duration.
#[derive(Debug, Default)]
pub struct KernelTimes(HashMap<(String, Kind), Vec<Ns>>);

impl KernelTimes {
    /// Adds the kernels of one rank.
    pub fn add(&mut self, trace: &RankTrace, windows: &[Option<Span>]) {
        let mut by_name: Vec<[Vec<Ns>; 3]> = vec![Default::default(); trace.names.len()];
        let mut sorted: Vec<Span> = windows.iter().copied().flatten().collect();
        sorted.sort_unstable();
        let ops = &trace.ops;
        for i in 0..ops.len() {
            let Some(durations) = by_name.get_mut(ops.name[i].0 as usize) else { continue };
            let before = sorted.partition_point(|w| w.start <= ops.start[i]);
            if before > 0 && sorted[before - 1].contains(ops.start[i]) {
                let class = match ops.class[i] {
                    Class::Comm => 1,
                    Class::Unclassified => 2,
                    _ => 0,
                };
                durations[class].push(ops.span(i).len());
            }
        }
        for (index, durations) in by_name.into_iter().enumerate() {
            let id = NameId(index as u32);
            let family = trace.families.get(&id).copied().unwrap_or("other");
            let kinds = [Kind::Compute, Kind::Comm(family), Kind::Unclassified];
            for (kind, mut durations) in
                kinds.into_iter().zip(durations).filter(|(_, d)| !d.is_empty())
            {
                let name = trace.names.get(id).to_owned();
                self.0.entry((name, kind)).or_default().append(&mut durations);
            }
        }
    }

    /// Adds what another part of the work gathered.
    pub fn merge(&mut self, other: &KernelTimes) {
        for (key, durations) in &other.0 {
            self.0.entry(key.clone()).or_default().extend_from_slice(durations);
        }
    }

    /// Finished tables, by total time, then name.
    pub fn finish(self) -> Kernels {
        let (mut comm, mut compute) = (Vec::new(), Vec::new());
        for ((name, kind), durations) in self.0 {
            let class = match kind {
                Kind::Compute => "compute".to_owned(),
                Kind::Comm(family) => format!("comm:{family}"),
                Kind::Unclassified => "unclassified".to_owned(),
            };
            let kernel = Kernel {
                name,
                class,
                count: durations.len() as u64,
                total_ns: durations.iter().copied().fold(0, Ns::saturating_add),
                median_ns: stats::median_i64(&durations).unwrap_or(0),
            };
            if matches!(kind, Kind::Comm(_)) { comm.push(kernel) } else { compute.push(kernel) }
        }
        for list in [&mut comm, &mut compute] {
            list.sort_by(|a, b| {
                b.total_ns
                    .cmp(&a.total_ns)
                    .then_with(|| (&a.name, &a.class).cmp(&(&b.name, &b.class)))
            });
        }
        let all_compute = compute.iter().map(|k| (k.name.clone(), (k.count, k.total_ns))).collect();
        let compute_omitted = compute.len().saturating_sub(COMPUTE_LISTED);
        compute.truncate(COMPUTE_LISTED);
        Kernels { comm, compute, compute_omitted, all_compute }
    }
}
