//! Which format, and how wide and colourful.

use std::path::Path;

/// An output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Tables for a terminal.
    Terminal,
    /// GitHub-flavoured Markdown.
    #[value(alias = "md")]
    Markdown,
    /// One self-contained HTML page.
    Html,
    /// One JSON document.
    Json,
    /// Comma-separated values.
    Csv,
}

impl Format {
    /// The format that a file's ending asks for.
    pub fn of_path(path: &Path) -> Option<Format> {
        Some(match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "txt" => Format::Terminal,
            "md" | "markdown" => Format::Markdown,
            "html" | "htm" => Format::Html,
            "json" => Format::Json,
            "csv" => Format::Csv,
            _ => return None,
        })
    }
}

/// How text in a terminal may look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Columns available.
    pub width: usize,
    /// True if colours may be used.
    pub color: bool,
    /// True if everything is printed; else the answer and what to do about it, about one screen.
    pub full: bool,
}
