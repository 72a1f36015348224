//! Finished numbers on their way to a person or a program. Nothing is computed here.
//!
//! ```text
//! Report -> view -> Document -> terminal, markdown, html
//!      `-> json, csv
//! ```

pub mod document;
pub mod format;
pub mod html;
pub mod markdown;
pub mod plot;
pub mod table;
pub mod terminal;
pub mod units;

pub use format::{Format, Style};
