//! What a command has to say, as data: sentences, notes, tables and pictures. The terminal, Markdown and HTML each print a
//! [`Document`]; none of them looks at the report itself, so they cannot disagree.

use super::plot::Plot;
use super::table::{Table, Tone};
use crate::report::timeline::Timeline;

/// Everything that one command prints.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Document {
    /// What it is about: the name of the run.
    pub title: String,
    /// Facts about it, a few words each: `2 ranks`.
    pub facts: Vec<String>,
    /// The headline: sentences that can be repeated without the tables. The first is the most important.
    pub headline: Vec<String>,
    /// The answer as a picture; pages show it beside the headline.
    pub picture: Option<Figure>,
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

impl Level {
    /// The word for it, so that colour never says it alone.
    pub fn label(self) -> &'static str {
        match self {
            Level::High => "High",
            Level::Medium => "Medium",
            Level::Info => "Info",
        }
    }
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
    /// True if it belongs to the answer: a terminal prints it without being asked for everything.
    pub key: bool,
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
    /// Steps to move in; only HTML has them. Who cannot run its script sees the picture.
    Timeline(Box<Timeline>, Option<Figure>),
    /// Pictures of several things of one kind, by the name of the thing; HTML opens one thing at a time.
    Figures(Vec<(String, Vec<Figure>)>),
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

impl Block {
    /// True if only HTML shows it.
    pub fn is_for_pages(&self) -> bool {
        matches!(
            self,
            Block::Figure(_) | Block::Figures(_) | Block::Details(_) | Block::Timeline(..)
        )
    }
}

impl Section {
    /// A section, or nothing if there is nothing in it.
    pub fn new(heading: &str, blocks: Vec<Block>) -> Option<Self> {
        (!blocks.is_empty()).then(|| Self { heading: heading.to_owned(), blocks, key: false })
    }

    /// Says whether it belongs to the answer.
    #[must_use]
    pub fn with_key(mut self, key: bool) -> Self {
        self.key = key;
        self
    }
}
