//! An NCCL log that was read in full, and what is said of it.

use std::collections::BTreeSet;

use super::view::NcclLogFile;
use crate::model::nccl_log::{NcclLog, Process};

/// A log and the size of its file.
#[derive(Debug)]
pub(super) struct ReadLog {
    /// All of it.
    pub log: NcclLog,
    /// Bytes of the file.
    pub size_bytes: u64,
}

impl ReadLog {
    fn with_comms(&self) -> impl Iterator<Item = &Process> {
        self.log.processes.iter().filter(|process| !process.comms.is_empty())
    }

    /// Processes that made communicators.
    pub(super) fn pids(&self) -> BTreeSet<u32> {
        self.with_comms().map(|process| process.pid).collect()
    }

    /// True if it names a connection of the process.
    pub(super) fn connects(&self, pid: u32) -> bool {
        self.log.processes.iter().any(|process| process.pid == pid && !process.links.is_empty())
    }

    /// Connections with their transport.
    pub(super) fn connections(&self) -> u64 {
        self.log.processes.iter().map(|process| process.links.len() as u64).sum()
    }

    /// What matters of it.
    pub(super) fn view(&self) -> NcclLogFile {
        let comms = self.log.processes.iter().flat_map(|process| &process.comms);
        NcclLogFile {
            path: self.log.path.clone(),
            size_bytes: self.size_bytes,
            messages: self.log.messages,
            torn: self.log.torn,
            versions: self.log.versions.clone(),
            processes: self
                .with_comms()
                .map(|process| format!("{}:{}", process.host, process.pid))
                .collect(),
            n_ranks: comms.map(|comm| comm.n_ranks).max(),
            connections: self.connections(),
        }
    }
}
