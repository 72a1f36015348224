//! The one error type: which file, what is the fact, what to do next.

use std::path::{Path, PathBuf};

use crate::{redact, text};

/// What went wrong, as far as the exit status is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The command line asks for something that cannot be done: exit status 2.
    Usage,
    /// An input could not be read, or holds nothing to report: exit status 3.
    Input,
    /// An output file could not be written: exit status 3.
    Output,
}

/// An error that a user can act on. It prints as `file: fact`; [`Error::hint`] is the next step.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}", self.line())]
pub struct Error {
    /// What kind of failure this is.
    pub kind: Kind,
    /// The file that it is about, if it is about one.
    pub path: Option<PathBuf>,
    /// The fact, as one clause without a full stop.
    pub fact: String,
    /// The next step for the user, if there is a sensible one.
    pub hint: Option<String>,
}

/// The result of everything that can fail on a user's input.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The command line is wrong.
    pub fn usage(fact: impl Into<String>) -> Self {
        Self { kind: Kind::Usage, path: None, fact: shown(fact), hint: None }
    }

    /// The file at `path` cannot be used.
    pub fn input(path: &Path, fact: impl Into<String>) -> Self {
        Self { kind: Kind::Input, path: Some(path.to_owned()), fact: shown(fact), hint: None }
    }

    /// The inputs together cannot be used, and no single file is to blame.
    pub fn inputs(fact: impl Into<String>) -> Self {
        Self { kind: Kind::Input, path: None, fact: shown(fact), hint: None }
    }

    /// The inputs together cannot be used; a single one is named.
    pub fn of_inputs(paths: &[PathBuf], fact: impl Into<String>) -> Self {
        match paths {
            [one] => Self::input(one, fact),
            _ => Self::inputs(fact),
        }
    }

    /// The file at `path` cannot be written.
    pub fn output(path: &Path, fact: impl Into<String>) -> Self {
        Self { kind: Kind::Output, path: Some(path.to_owned()), fact: shown(fact), hint: None }
    }

    /// Adds the next step.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(shown(hint));
        self
    }

    /// The exit status of a program that ends with this error.
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            Kind::Usage => 2,
            Kind::Input | Kind::Output => 3,
        }
    }

    fn line(&self) -> String {
        match &self.path {
            Some(path) => format!(
                "{}: {}",
                text::printable(&path.to_string_lossy()),
                text::printable(&self.fact)
            ),
            None => text::printable(&self.fact).into_owned(),
        }
    }
}

/// What an error says may quote a file.
fn shown(text: impl Into<String>) -> String {
    redact::owned(text.into())
}
