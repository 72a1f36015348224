//! One question a file, pure: finished columns and windows in, numbers out.

pub mod kernels;
pub mod population;
pub mod run;
pub mod step_metrics;
pub mod strip;
