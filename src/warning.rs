//! Non-fatal facts that every output format carries, and findings that explain the run.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::redact;

/// Something that the reader of the numbers has to know: missing data, a corrected fault, a guess.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Warning {
    /// A stable kebab-case name, e.g. `graph-level-trace`.
    pub code: String,
    /// The fact, as a sentence.
    pub message: String,
    /// What to do about it, as a sentence.
    pub hint: Option<String>,
    /// The report (file name without its folder) that it is about.
    pub report: Option<String>,
}

impl Warning {
    /// A warning that is about no single report.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            message: redact::owned(message.into()),
            hint: None,
            report: None,
        }
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

/// How much a finding matters. Findings are printed in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It costs a large part of the step.
    High,
    /// It costs something, or makes numbers doubtful.
    Medium,
    /// Worth knowing.
    Info,
}

/// An explanation of the run with the evidence that it rests on and what to try.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// A stable kebab-case name, e.g. `straggler`.
    pub id: String,
    /// How much it matters.
    pub severity: Severity,
    /// One sentence with the numbers in it.
    pub title: String,
    /// The measured facts behind it, by name; names end in their unit.
    pub evidence: Map<String, Value>,
    /// What to try, as a sentence.
    pub advice: Option<String>,
}
