//! One question a file, pure: finished columns and windows in, numbers out.

pub(crate) mod kernels;
pub(crate) mod population;
pub(crate) mod run;
pub(crate) mod step_metrics;
pub(crate) mod strip;
