//! GPU operations of one rank, in columns.

use super::host::StreamKey;
use super::{NameId, Ns, Span};

/// What kind of work a GPU operation is (docs/metrics.md, section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// A kernel that is not communication.
    Compute,
    /// A communication kernel, or a copy inside one device that an NCCL operation launched.
    Comm,
    /// Copy from host to device.
    Htod,
    /// Copy from device to host.
    Dtoh,
    /// Copy inside one device.
    Dtod,
    /// Copy from one GPU to another: communication, whoever launched it.
    Ptop,
    /// Any other copy (host to host, unified memory, arrays).
    OtherCopy,
    /// Memory set.
    Memset,
    /// Work of unknown class: a whole CUDA graph in one row, or a kernel whose name the report lacks.
    Unclassified,
}

impl Class {
    /// Communication: kernels of collective libraries, their copies, and every copy from one GPU to another.
    pub fn is_comm(self) -> bool {
        matches!(self, Class::Comm | Class::Ptop)
    }

    /// Kernels and graphs: the operations whose streams bound a step window.
    pub fn is_kernel(self) -> bool {
        matches!(self, Class::Compute | Class::Comm | Class::Unclassified)
    }
}

/// The launch time of an operation whose API row is not in the capture.
pub(crate) const NO_LAUNCH: Ns = Ns::MIN;
/// The NCCL call of an operation that no NCCL range launched.
pub(crate) const NO_CALL: u32 = u32::MAX;

/// GPU operations sorted by (start, end, stream, name); one entry of each column per operation.
#[derive(Debug, Clone, Default)]
pub struct Ops {
    /// Start on the GPU, ns in the report's own time.
    pub start: Vec<Ns>,
    /// End on the GPU, never before the start.
    pub end: Vec<Ns>,
    /// What kind of work it is.
    pub class: Vec<Class>,
    /// Kernel name (short form), or [`NameId::NONE`].
    pub name: Vec<NameId>,
    /// Stream, as a dense index inside the rank (context and stream id together).
    pub stream: Vec<u32>,
    /// Bytes of a copy or memset, 0 for kernels.
    pub bytes: Vec<u64>,
    /// Start of the earliest API call that launched it, or [`NO_LAUNCH`].
    pub launch: Vec<Ns>,
    /// Number of the thread that made that call, 0 where it is unknown.
    pub thread: Vec<u32>,
    /// Correlation id of the launching call, unique inside the process; 0 if unknown.
    pub correlation: Vec<i64>,
    /// Size of a kernel's grid as text (`132x1x1`), or [`NameId::NONE`]: equal kernels on equal grids do equal work.
    pub grid: Vec<NameId>,
    /// Context and stream id of each dense stream index.
    pub streams: Vec<StreamKey>,
    /// Index into [`super::RankTrace::nccl`] of the NCCL range that launched it, or [`NO_CALL`].
    pub call: Vec<u32>,
}

impl Ops {
    /// How many operations there are.
    pub fn len(&self) -> usize {
        self.start.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }

    /// True if operation `i` is part of a collective or of a send or receive: a communication kernel, or a copy that
    /// an NCCL operation launched. Other copies between GPUs are communication of which no operation is known.
    pub fn in_collective(&self, i: usize) -> bool {
        match self.class[i] {
            Class::Comm => true,
            Class::Ptop => self.call[i] != NO_CALL,
            _ => false,
        }
    }

    /// True if a CUDA graph is there as one row, so that nothing is known of what ran inside it.
    pub fn has_graph_rows(&self) -> bool {
        self.class
            .iter()
            .zip(&self.name)
            .any(|(class, name)| *class == Class::Unclassified && *name == NameId::NONE)
    }

    /// The time of operation `i`.
    pub fn span(&self, i: usize) -> Span {
        Span { start: self.start[i], end: self.end[i] }
    }
}
