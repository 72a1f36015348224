//! What Inspector logs say by themselves: bandwidths and times of every communicator, operation and size, who waits for whom,
//! and how it went over the run.
//!
//! ```text
//! file -> Tally (distributions, bounded sample) \
//! file -> Tally                                  -> repeats -> assemble: operations, waits, timelines -> Inspected -> findings
//! ```
//! A [`Tally`] is filled while its file streams by, so memory depends on what ran and not on how long the logs are.

mod against;
mod assemble;
mod counts;
mod derived;
mod filter;
mod findings;
mod inspected;
mod operations;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
mod repeats;
pub mod settings;
mod stopped;
mod tally;
mod timeline;
mod view;
mod waits;

pub use against::compare;
pub use assemble::inspect;
pub use derived::{OperationRow, Series};
pub use filter::{Filter, format_time, parse_time};
pub use inspected::{BandwidthCounts, Inspected};
pub use operations::{Operation, Operations, SeriesKey};
pub use tally::{Seen, Tally};
pub use view::*;

/// Operations that are kept one by one over all files, to compare ranks and to draw: at about 50 bytes each.
const KEPT_OPERATIONS: usize = 1 << 20;
/// Operations that are kept of each file at least.
const KEPT_OF_A_FILE: usize = 1 << 10;

/// How many operations each of `files` logs may keep one by one.
pub fn budget(files: usize) -> usize {
    (KEPT_OPERATIONS / files.max(1)).max(KEPT_OF_A_FILE)
}
