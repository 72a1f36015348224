//! What NCCL logs add to traces: the communicators of each rank, most of which were made before the capture began.

use std::collections::BTreeSet;

use crate::merge::collect::may_be_one_host;
use crate::model::RankTrace;
use crate::model::nccl_log::{CommKey, CommRank, NcclLog, Process};
use crate::model::trace::CommInit;

/// Adds to each trace the communicators that the logs of its process name and that it does not know itself, and the number of ranks of
/// the run, if nothing else says it: the ranks of its largest communicator.
pub fn learn(traces: &mut [RankTrace], logs: &[&NcclLog]) {
    for trace in traces {
        let host = trace.hostname.as_deref();
        let is_own =
            |process: &&Process| process.pid == trace.pid && may_be_one_host(host, &process.host);
        // Several hosts can have a process of this number where the trace does not name its own.
        let hosts: BTreeSet<&str> = logs
            .iter()
            .flat_map(|log| &log.processes)
            .filter(is_own)
            .map(|process| process.host.as_str())
            .collect();
        if hosts.len() != 1 {
            continue;
        }
        let device = trace.device;
        let mut known: BTreeSet<u64> = trace.comm_inits.iter().map(|init| init.comm).collect();
        let own = logs
            .iter()
            .flat_map(|log| &log.processes)
            .filter(is_own)
            .flat_map(|process| &process.comms);
        for comm in own.filter(|comm| comm.cuda_dev == device) {
            if let Some(init) = init(comm).filter(|init| known.insert(init.comm)) {
                trace.comm_inits.push(init);
            }
        }
        trace.world_size =
            trace.world_size.or(trace.comm_inits.iter().map(|init| init.n_ranks).max());
    }
}

/// A communicator whose id is the one of payloads.
fn init(comm: &CommRank) -> Option<CommInit> {
    match comm.key {
        CommKey::Id(id) => Some(CommInit { comm: id, n_ranks: comm.n_ranks, rank: comm.rank }),
        CommKey::Split(..) | CommKey::Unnamed(..) => None,
    }
}
