//! Time in nanoseconds and half-open spans of it.

use serde::{Deserialize, Serialize};

/// Nanoseconds, signed: a report's own time starts at 0 and rows before the capture are negative.
pub(crate) type Ns = i64;

/// A half-open stretch of time `[start, end)`, never negative in length. In JSON it is the list of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "(Ns, Ns)", into = "(Ns, Ns)")]
pub struct Span {
    /// First nanosecond inside.
    pub start: Ns,
    /// First nanosecond after.
    pub end: Ns,
}

impl From<(Ns, Ns)> for Span {
    fn from((start, end): (Ns, Ns)) -> Span {
        Span::new(start, end)
    }
}

impl From<Span> for (Ns, Ns) {
    fn from(span: Span) -> (Ns, Ns) {
        (span.start, span.end)
    }
}

impl Span {
    /// `[start, end)`; an end before its start gives zero length at the start.
    pub fn new(start: Ns, end: Ns) -> Self {
        Self { start, end: end.max(start) }
    }

    /// Length in nanoseconds.
    pub fn len(self) -> Ns {
        self.end.saturating_sub(self.start)
    }

    /// True for a span without length.
    pub fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// The part inside `window`, possibly empty.
    pub fn clip(self, window: Span) -> Span {
        let start = self.start.clamp(window.start, window.end);
        Span::new(start, self.end.clamp(start, window.end))
    }

    /// True if `at` lies in the span.
    pub fn contains(self, at: Ns) -> bool {
        self.start <= at && at < self.end
    }
}
