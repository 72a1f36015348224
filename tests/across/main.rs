//! Across ranks: clocks, matching, waits and bandwidth, with answers known before.

#[path = "../support/mod.rs"]
mod support;

mod captures;
mod clocks;
mod matching;
mod run;
mod stragglers;
