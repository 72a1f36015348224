//! nsysnccl: how much of a training step is communication, whether it hides behind compute, and whether a change helped.
//!
//! The program is a thin layer over this library. A [`Run`] is read once from exports and logs; [`report()`] makes every
//! number of it; [`render`] prints it.
//!
//! ```
//! use nsysnccl::{Format, Metric, Options, Run, Style, render, report};
//!
//! # fn main() -> nsysnccl::Result<()> {
//! let ranks = ["examples/shm/shm-2gpu_0.sqlite".into(), "examples/shm/shm-2gpu_1.sqlite".into()];
//! let options = Options { nccl_logs: vec!["examples/shm/shm-2gpu.nccl.log".into()], ..Options::default() };
//! let run = Run::read(&ranks, &options, || ())?;
//! let report = report(&run);
//!
//! // Times are whole nanoseconds, shares lie between 0 and 1, and `None` is "not measured".
//! let step_ns = report.summary.values.median(Metric::StepNs);
//! let exposed = report.summary.values.median(Metric::ExposedCommFraction);
//! assert!(step_ns.is_some() && exposed.is_some_and(|share| share > 0.0 && share < 1.0));
//! for finding in &report.findings {
//!     println!("{}", finding.title);
//! }
//!
//! // The same in any format, as the command `nsysnccl report` prints it.
//! let page = render::print(&report, Format::Markdown, &Style { width: 100, color: false, full: false });
//! assert!(page.starts_with("# "));
//! # Ok(())
//! # }
//! ```
//!
//! Several reports make a [`Comparison`] ([`compare()`]); Inspector logs alone make an [`Inspected`] ([`inspect()`]);
//! [`examine`] says what is in files without reading all of them.

mod analysis;
mod catalogue;
mod classify;
mod cli;
mod collectives;
mod columnar;
mod compare;
mod counters;
mod dependency;
mod doctor;
mod error;
mod findings;
mod ingest;
mod inspect;
mod merge;
mod model;
mod npkit;
mod places;
mod redact;
pub mod render;
mod report;
mod reporting;
mod run;
mod stage;
mod stats;
mod steps;
mod tables;
mod text;
mod timeline;
mod trace;
mod transport;
mod units;
mod warning;

#[doc(hidden)]
pub mod internals;

pub use compare::{Comparison, Settings, VariantInput, compare};
pub use doctor::{Examination, examine, list};
pub use error::{Error, Result};
pub use inspect::{Filter, Inspected, inspect};
pub use model::Metric;
pub use render::{Format, Page, Style};
pub use report::Report;
pub use reporting::of as report;
pub use run::{Options, Run};
pub use steps::{StepChoice, WindowKind};

// Helpers of `tests/it` that unit tests include call this crate by its name.
#[cfg(test)]
extern crate self as nsysnccl;
