//! Finished numbers on their way to a person or a program. Nothing is computed here.

pub mod format;
pub mod inspect;

pub use format::{Format, Style};
