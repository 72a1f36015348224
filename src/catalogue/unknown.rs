//! What cannot be told, since evidence is missing.

use serde::{Deserialize, Serialize};

use super::{Class, Id};

/// What cannot be told for want of one kind of evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unknown {
    /// What is missing.
    pub class: Class,
    /// The rules that need it and whose finding is not there, in the order of the catalogue: whether they apply is unknown. Of
    /// dependencies those whose gain is.
    pub rules: Vec<Id>,
    /// What it would tell, as a clause.
    pub answers: String,
    /// How it is captured, as a sentence.
    pub capture: String,
}
