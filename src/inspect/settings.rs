//! What was asked for, as the result says it.

use serde::Serialize;

/// What was asked for.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Settings {
    /// Records written before this are left out, Unix microseconds.
    pub since_us: Option<i64>,
    /// Records written from this on are left out, Unix microseconds.
    pub until_us: Option<i64>,
    /// Communicator id, its beginning, or name.
    pub comm: Option<String>,
    /// Operation.
    pub op: Option<String>,
}
