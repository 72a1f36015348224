//! What a command has to say, as data: sentences, notes, tables and pictures. The terminal, Markdown and HTML each print a
//! [`Document`]; none of them looks at the report itself, so they cannot disagree.

use super::plot::Plot;
use super::table::{Table, Tone};

/// Everything that one command prints.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Document {
    /// What it is about: the name of the run.
    pub title: String,
    /// Facts about it, a few words each: `2 ranks`.
    pub facts: Vec<String>,
    /// The headline: sentences that can be repeated without the tables. The first is the most important.
    pub headline: Vec<String>,
    /// Findings with their evidence, the most important first.
    pub findings: Vec<Note>,
    /// Tables and pictures.
    pub sections: Vec<Section>,
    /// What the reader has to know about the numbers.
    pub warnings: Vec<Note>,
    /// Terms and their definitions.
    pub definitions: Vec<(String, String)>,
    /// How the numbers were made, as sentences.
    pub method: Vec<String>,
}

/// How much a note matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// It costs a large part of the time.
    High,
    /// It costs something or makes numbers doubtful.
    Medium,
    /// Worth knowing.
    Info,
}

/// A finding or a warning.
#[derive(Debug, Clone, PartialEq)]
pub struct Note {
    /// How much it matters.
    pub level: Level,
    /// The fact, as a sentence.
    pub text: String,
    /// What it rests on.
    pub evidence: Option<String>,
    /// What to try.
    pub advice: Option<String>,
}

/// A part of the document with a heading.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// The heading.
    pub heading: String,
    /// What it holds, in order.
    pub blocks: Vec<Block>,
}

/// A piece of a section.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// A sentence or two.
    Text(String),
    /// A table.
    Table(Table),
    /// A command line, one word each as a shell takes them.
    Command(Vec<String>),
    /// Texts with a name each.
    Entries(Vec<Entry>),
    /// A table of texts, which the terminal prints as one paragraph a row.
    Records(Table),
    /// A table for those who ask: HTML folds it, the terminal and Markdown leave it to CSV and JSON.
    Details(Table),
    /// A picture; only HTML shows it.
    Figure(Figure),
}

/// A text with its name.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// What it is about.
    pub name: String,
    /// What is said about it.
    pub text: String,
    /// Whether it is good news.
    pub tone: Tone,
}

/// A picture with the words that belong to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// What it shows and what it leaves out.
    pub caption: String,
    /// What someone who cannot see it should know.
    pub description: String,
    /// What to draw.
    pub plot: Plot,
}

impl Section {
    /// A section, or nothing if there is nothing in it.
    pub fn new(heading: &str, blocks: Vec<Block>) -> Option<Self> {
        (!blocks.is_empty()).then(|| Self { heading: heading.to_owned(), blocks })
    }
}
