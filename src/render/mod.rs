//! Finished numbers on their way to a person or a program. Nothing is computed here.
//!
//! ```text
//! Report, Comparison, Inspected, Examination: Page --document--> Document -> terminal, markdown, html
//!                                                  |--csv-------> rows
//!                                                  '--itself----> json
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
pub mod npkit;
pub mod plot;
pub mod table;
pub mod terminal;
pub mod view;

use std::io::{self, Write};

use serde::Serialize;

pub(crate) use crate::units;
use document::Document;
pub use format::{Format, Style};

/// A finished result that can be printed. Its JSON is the value itself.
pub trait Page: Serialize {
    /// What people read of it: sentences, tables and pictures.
    fn document(&self) -> Document;

    /// Writes its numbers as comma-separated values, row by row.
    ///
    /// # Errors
    /// `out` cannot be written to.
    fn csv(&self, out: &mut dyn Write) -> io::Result<()>;
}

/// Writes a page in a format; `style` matters to the terminal only.
///
/// # Errors
/// `out` cannot be written to.
pub fn write(
    page: &impl Page,
    format: Format,
    style: &Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        Format::Terminal => out.write_all(terminal::print(&page.document(), style).as_bytes()),
        Format::Markdown => out.write_all(markdown::print(&page.document()).as_bytes()),
        Format::Html => html::write(&page.document(), out),
        Format::Json => json::write(page, out),
        Format::Csv => page.csv(out),
    }
}

/// A page as one text.
pub fn print(page: &impl Page, format: Format, style: &Style) -> String {
    let mut bytes = Vec::new();
    // Writing to memory does not fail.
    let _ = write(page, format, style, &mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}
