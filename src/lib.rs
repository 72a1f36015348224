//! nsysnccl: how much of a training step is communication, whether it hides behind compute, and whether a change helped.
//!
//! ```text
//! nsys export (SQLite) -> ingest -> model -> steps -> analysis, collectives -> report -> render
//! Inspector logs, NCCL logs, topology ->  merge, transport  ------------------^
//!                                                   several reports -> compare -> render
//! ```
#![warn(missing_docs)]

pub mod analysis;
pub mod classify;
pub mod cli;
pub mod collectives;
pub mod compare;
pub mod dependency;
pub mod doctor;
pub mod error;
pub mod findings;
pub mod ingest;
pub mod inspect;
pub mod merge;
pub mod model;
pub mod pipeline;
pub mod render;
pub mod report;
pub mod stats;
pub mod step_texts;
pub mod steps;
pub mod text;
pub mod timeline;
pub mod transport;
pub mod units;
pub mod warning;

pub use error::{Error, Result};
