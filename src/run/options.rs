//! What is asked of a run.

use std::path::PathBuf;

use crate::analysis::run::Counting;
use crate::steps::{StepChoice, WindowKind};

/// Everything that changes the numbers of a run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What a step is.
    pub step: StepChoice,
    /// What its window is; `None` leaves it to what the ranges cover.
    pub window: Option<WindowKind>,
    /// Step ranges to drop at the front of each rank.
    pub skip: usize,
    /// Steps of the run to report on, by their index; all if `None`.
    pub steps: Option<Vec<u32>>,
    /// Keep an outlying first step in the summaries.
    pub keep_first: bool,
    /// Leave every other outlying step out of the summaries.
    pub exclude_outliers: bool,
    /// Ranks to report on.
    pub ranks: Option<Vec<u32>>,
    /// Finds the rank in the file name.
    pub rank_regex: Option<String>,
    /// Further communication kernels.
    pub comm_regex: Option<String>,
    /// Go on without inputs that cannot be used.
    pub keep_going: bool,
    /// NCCL_DEBUG logs of the run.
    pub nccl_logs: Vec<PathBuf>,
    /// Output of `nvidia-smi topo -m` on the run's machine.
    pub topology: Option<PathBuf>,
    /// NCCL Inspector logs of the run, or folders with them.
    pub inspector: Vec<PathBuf>,
    /// Read what the host did, replay the run and predict what a change would gain.
    pub replay: bool,
    /// Keep the pieces of critical paths, which a trace draws.
    pub pieces: bool,
    /// Print what changes would gain.
    pub what_if: bool,
    /// Folders with NPKit dumps of the run.
    pub npkit: Vec<PathBuf>,
}

impl Options {
    /// Which steps count in summaries.
    pub fn counting(&self) -> Counting {
        Counting { keep_first: self.keep_first, exclude_outliers: self.exclude_outliers }
    }
}
