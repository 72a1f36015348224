//! One rank as the tables of places take it.

use crate::collectives::events::Event;
use crate::model::{RankTrace, Span};

/// One rank and its steps that count.
#[derive(Debug, Clone)]
pub(crate) struct Rank<'a> {
    /// What was captured.
    pub trace: &'a RankTrace,
    /// Its communication.
    pub events: &'a [Event],
    /// Its steps: window, and the step's own range if it comes from one.
    pub steps: Vec<(Span, Option<Span>)>,
    /// True if a step is a period: then its range is a phase of it, and not what the phases lie in.
    pub is_period: bool,
}
