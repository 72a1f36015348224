//! Non-fatal facts that every output format carries.

use serde::{Deserialize, Serialize};

use crate::catalogue::Id;
use crate::redact;

/// Something that the reader of the numbers has to know: missing data, a corrected fault, a guess.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Warning {
    /// What it is about, e.g. `graph-level-trace`.
    pub code: Id,
    /// The fact, as a sentence.
    pub message: String,
    /// What to do about it, as a sentence.
    pub hint: Option<String>,
    /// The report (file name without its folder) that it is about.
    pub report: Option<String>,
}

impl Warning {
    /// A warning that is about no single report.
    pub fn new(code: Id, message: impl Into<String>) -> Self {
        Self { code, message: redact::owned(message.into()), hint: None, report: None }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(redact::owned(hint.into()));
        self
    }

    /// Names the report that it is about.
    #[must_use]
    pub fn in_report(mut self, report: impl Into<String>) -> Self {
        self.report = Some(report.into());
        self
    }
}
