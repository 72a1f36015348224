//! `inspect` from log files to what is printed. Every log here is written by the test; expected numbers are computed by hand,
//! those of the logs under `tests/data/inspector` by `mean_busbw.py` there.

mod against;
mod command;
mod damage;
mod faults;
mod figures;
mod log;
#[cfg(feature = "parquet")]
mod parquet;
mod reference;
