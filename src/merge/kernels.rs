//! The kernels of a rank as they are paired with records of Inspector.

use crate::model::Ns;
use crate::model::trace::CommInit;

/// One rank of the trace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RankKernels {
    /// Rank number.
    pub rank: u32,
    /// Operating-system process id.
    pub pid: u32,
    /// Host name, if known.
    pub hostname: Option<String>,
    /// Nanoseconds from the report's own time to Unix time.
    pub epoch_ns: Option<i64>,
    /// First start and last end of any GPU work, in the report's own time.
    pub captured: Option<(Ns, Ns)>,
    /// Communicators that it joined during the capture.
    pub comm_inits: Vec<CommInit>,
}

/// A kernel and a record of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pair {
    /// Index of the event.
    pub event: usize,
    /// Index into `Collected::ops`.
    pub record: usize,
}
