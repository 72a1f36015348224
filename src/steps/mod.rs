//! How step windows are found: which ranges are steps ([`select`]), and where on the GPU their work ran ([`window`]).

pub mod select;
pub mod window;

use crate::model::{Ns, Span};

/// One step of one rank: where it stands on the CPU and on the GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Text of the range, or what stands for it.
    pub name: String,
    /// Which occurrence of this text it is on this rank, from 0: name and occurrence match steps across ranks.
    pub occurrence: usize,
    /// The NVTX range, if the step comes from one.
    pub range: Option<Span>,
    /// The window, or why there is none.
    pub window: Result<Span, String>,
}

impl Step {
    /// Length of the NVTX range.
    pub fn cpu_range_ns(&self) -> Option<Ns> {
        self.range.map(Span::len)
    }
}
