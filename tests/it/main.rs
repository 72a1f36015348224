//! The program and the library from outside: what is typed or called, and what comes of it.
//!
//! One binary, so that one link is paid and helpers are there once. `support` writes exports row by row; `fixture` has reports
//! made by hand, for what is printed of them. Data stands in `tests/data`.
#![allow(unreachable_pub, reason = "helpers are shared by all modules of this binary")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "helpers of tests fail as tests do; clippy.toml covers only the test functions"
)]

mod fixture;
mod support;

mod across;
mod architecture;
mod attack;
mod attack_files;
mod capture_kit;
mod command;
mod compare;
mod counters;
mod doctor;
mod findings_page;
mod fuzz;
mod html_page;
mod inputs;
mod inspect;
mod json_page;
mod merge;
mod mistakes;
mod npkit;
mod promise;
mod readme;
mod render;
mod reports;
mod soak;
mod tables;
mod trace;
mod versions;
