//! nsysnccl: how much of a training step is communication, whether it hides behind compute, and whether a change helped.
//!
//! ```text
//! nsys export (SQLite) -> ingest -> model -> steps -> analysis, collectives -> report -> render
//! Inspector logs, NCCL logs, topology ->  merge, transport  ------------------^
//!                                                   several reports -> compare -> render
//! ```

pub mod analysis;
pub mod catalogue;
pub mod classify;
pub mod cli;
pub mod collectives;
pub mod columnar;
pub mod compare;
pub mod counters;
pub mod dependency;
pub mod doctor;
pub mod error;
pub mod findings;
pub mod ingest;
pub mod inspect;
pub mod merge;
pub mod model;
pub mod npkit;
pub mod places;
pub mod redact;
pub mod render;
pub mod report;
pub mod reporting;
pub mod run;
pub mod stage;
pub mod stats;
pub mod steps;
pub mod tables;
pub mod text;
pub mod timeline;
pub mod trace;
pub mod transport;
pub mod units;
pub mod warning;

pub use error::{Error, Result};

// Helpers of `tests/it` that unit tests include call this crate by its name.
#[cfg(test)]
extern crate self as nsysnccl;
