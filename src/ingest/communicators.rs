//! What NCCL logs add to traces: the communicators of each rank, most of which were made before the capture began.

use std::collections::{BTreeMap, BTreeSet};

use super::hosts::{Fit, may_be_one_host, other_host};
use crate::catalogue::Id;
use crate::model::RankTrace;
use crate::model::nccl_log::{CommKey, CommRank, NcclLog, Process};
use crate::model::trace::CommInit;
use crate::text::{printable, shorten};
use crate::units;
use crate::warning::Warning;

/// Characters of a host's name that are shown.
const NAME_LENGTH: usize = 64;

/// Adds to each trace the communicators that the logs of its process name and that it does not know itself, and the number of ranks of
/// the run, if nothing else says it: the ranks of its largest communicator. Says which logs name another host than the report.
pub(crate) fn learn(traces: &mut [RankTrace], logs: &[&NcclLog]) -> Option<Warning> {
    let processes: Vec<(u32, Option<String>)> =
        traces.iter().map(|trace| (trace.pid, trace.hostname.clone())).collect();
    let mut renamed: Vec<(u32, String)> = Vec::new();
    for trace in traces {
        let of_pid = || logs.iter().flat_map(|log| &log.processes).filter(|p| p.pid == trace.pid);
        let named: BTreeSet<&str> = of_pid()
            .map(|process| process.host.as_str())
            .filter(|host| may_be_one_host(trace.hostname.as_deref(), host))
            .collect();
        // Several hosts can have a process of this number where the trace does not name its own.
        let host = match (named.len(), named.first()) {
            (1, Some(host)) => *host,
            (0, _) => {
                let only = processes
                    .iter()
                    .filter(|(pid, _)| *pid == trace.pid)
                    .all(|(_, host)| *host == trace.hostname);
                let mut fits: BTreeMap<&str, Fit> = BTreeMap::new();
                for process in of_pid() {
                    let fit = fit(trace, process);
                    let best = fits.entry(&process.host).or_insert(fit);
                    *best = fit.max(*best);
                }
                let Some(host) = other_host(&fits, only) else { continue };
                renamed.push((trace.rank, host.to_owned()));
                host
            }
            _ => continue,
        };
        let device = trace.device;
        let own =
            of_pid().filter(|process| process.host == host).flat_map(|process| &process.comms);
        let inits: Vec<CommInit> =
            own.filter(|comm| comm.cuda_dev == device).filter_map(init).collect();
        let mut known: BTreeSet<u64> = trace.comm_inits.iter().map(|init| init.comm).collect();
        for init in inits {
            if known.insert(init.comm) {
                trace.comm_inits.push(init);
            }
        }
        trace.world_size =
            trace.world_size.or(trace.comm_inits.iter().map(|init| init.n_ranks).max());
    }
    let (rank, host) = renamed.first()?;
    Some(Warning::new(
        Id::NcclLogHost,
        format!(
            "The NCCL logs of {} name another host than the reports do (rank {rank}: '{}'); they were taken as theirs, since process and communicator fit nothing else.",
            units::ranks(&renamed.iter().map(|(rank, _)| *rank).collect::<Vec<_>>()),
            printable(&shorten(host, NAME_LENGTH))
        ),
    ))
}

/// How the communicators of a logged process fit those of a trace.
fn fit(trace: &RankTrace, process: &Process) -> Fit {
    let logged: Vec<CommInit> = process.comms.iter().filter_map(init).collect();
    let traced: BTreeSet<u64> = trace
        .comm_inits
        .iter()
        .map(|init| init.comm)
        .chain(trace.nccl.iter().filter_map(|call| call.comm))
        .collect();
    if traced.is_empty() || logged.is_empty() {
        return Fit::Unknown;
    }
    let known = |init: &CommInit| trace.comm_inits.iter().find(|own| own.comm == init.comm);
    let of = |init: &CommInit| {
        Fit::of(known(init).map(|own| own.rank), init.rank, traced.contains(&init.comm))
    };
    logged.iter().map(of).max().unwrap_or(Fit::Unknown)
}

/// A communicator whose id is the one of payloads.
fn init(comm: &CommRank) -> Option<CommInit> {
    match comm.key {
        CommKey::Id(id) => Some(CommInit { comm: id, n_ranks: comm.n_ranks, rank: comm.rank }),
        CommKey::Split(..) | CommKey::Unnamed(..) => None,
    }
}
