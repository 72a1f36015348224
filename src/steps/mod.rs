//! How step windows are found: which ranges are steps ([`select`]), and where on the GPU their work ran ([`window`]).

pub mod select;
pub mod window;

use crate::model::{Ns, Span};

/// What a step is called: its text, and which occurrence of that text on its rank it is, from 0.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepKey {
    /// Text of the range, or what stands for it.
    pub name: String,
    /// Ranges of the rank with this text before it.
    pub occurrence: usize,
}

/// One step of one rank: where it stands on the CPU and on the GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Text of the range, or what stands for it.
    pub name: String,
    /// Which occurrence of this text it is on this rank, from 0.
    pub occurrence: usize,
    /// The NVTX range, if the step comes from one.
    pub range: Option<Span>,
    /// The window, or why there is none.
    pub window: Result<Span, String>,
}

impl Step {
    /// What it is called.
    pub fn key(&self) -> StepKey {
        StepKey { name: self.name.clone(), occurrence: self.occurrence }
    }

    /// Length of the NVTX range.
    pub fn cpu_range_ns(&self) -> Option<Ns> {
        self.range.map(Span::len)
    }
}
