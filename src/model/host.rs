//! What the host did in one process: its CUDA calls, the events that it recorded, and what it or a stream waited for.

use super::{NameId, Ns};

/// A stream of a process: context id and stream id.
pub(crate) type StreamKey = (i64, i64);

/// CUDA calls of all threads of a process in order of (start, end), 32 bytes each.
#[derive(Debug, Clone, Default)]
pub struct Calls {
    /// Start on the CPU, ns in the report's own time.
    pub start: Vec<Ns>,
    /// End on the CPU, never before the start.
    pub end: Vec<Ns>,
    /// Correlation id, unique inside the process (a call nested in another one may share its id).
    pub correlation: Vec<i64>,
    /// The calling thread, as an index into [`Host::threads`].
    pub thread: Vec<u32>,
    /// Name of the API function.
    pub name: Vec<NameId>,
}

impl Calls {
    /// How many calls there are.
    pub fn len(&self) -> usize {
        self.start.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }
}

/// One `cudaEventRecord`: the event completes when all that its stream held at the call has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventRecord {
    /// Correlation id of the call.
    pub correlation: i64,
    /// The stream that the event was recorded in.
    pub stream: StreamKey,
    /// The event; events are recorded again and again.
    pub event: i64,
    /// Number of this very record, which waits for it bear too; `None` in exports that do not have it.
    pub sync: Option<i64>,
}

/// What waits, and for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SyncKind {
    /// The host, for an event.
    Event,
    /// A stream, for an event: what is launched there later starts after it.
    StreamWait,
    /// The host, for all that a stream holds.
    Stream,
    /// The host, for all that a context holds.
    Context,
}

impl SyncKind {
    /// `CUPTI_ActivitySynchronizationType`; `None` for what is not known.
    pub fn parse(kind: i64) -> Option<SyncKind> {
        Some(match kind {
            1 => SyncKind::Event,
            2 => SyncKind::StreamWait,
            3 => SyncKind::Stream,
            4 => SyncKind::Context,
            _ => return None,
        })
    }
}

/// One row of `CUPTI_ACTIVITY_KIND_SYNCHRONIZATION`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Synchronization {
    /// Correlation id of the call.
    pub correlation: i64,
    /// What waits.
    pub kind: SyncKind,
    /// The stream that waits or is waited for; the context is its first part.
    pub stream: StreamKey,
    /// The event that is waited for.
    pub event: i64,
    /// Number of the very record that is waited for; `None` in exports that do not have it.
    pub sync: Option<i64>,
}

/// The host's side of one process.
#[derive(Debug, Clone, Default)]
pub struct Host {
    /// Its CUDA calls.
    pub calls: Calls,
    /// Its threads (`globalTid`), ascending.
    pub threads: Vec<u64>,
    /// Events that it recorded, by correlation id.
    pub records: Vec<EventRecord>,
    /// What was waited for, by correlation id.
    pub syncs: Vec<Synchronization>,
}
