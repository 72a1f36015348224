//! Finished numbers on their way to a person or a program. Nothing is computed here.
//!
//! ```text
//! Report -> view -> Document -> terminal, markdown, html
//!      `-> json, csv
//! ```

pub mod compare;
pub mod csv;
pub mod doctor;
pub mod document;
pub mod format;
pub mod html;
pub mod inspect;
pub mod json;
pub mod markdown;
pub mod plot;
pub mod table;
pub mod terminal;

pub mod view;

pub use crate::units;
pub use format::{Format, Style};

use crate::report::Report;

/// Prints a report in a format; `style` matters to the terminal only.
pub fn render(report: &Report, format: Format, style: &Style) -> String {
    match format {
        Format::Terminal => terminal::print(&view::document(report), style),
        Format::Markdown => markdown::print(&view::document(report)),
        Format::Html => html::page(&view::document(report)),
        Format::Json => json::print(report),
        Format::Csv => csv::print(report),
    }
}
