//! What is to be known of a rule that explains something: the evidence that it needs, how sure it is, what removes the cause.

use serde::{Deserialize, Serialize};

use super::Class;

/// How sure a rule is of what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Its sentence is what was measured.
    Measured,
    /// It follows from what was measured by the rule of its trigger.
    Derived,
    /// Something else can look the same.
    Guess,
}

impl Confidence {
    /// The word in JSON.
    pub fn label(self) -> &'static str {
        match self {
            Confidence::Measured => "measured",
            Confidence::Derived => "derived",
            Confidence::Guess => "guess",
        }
    }
}

/// A change whose gain the replay of dependencies predicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum Scenario {
    NoCommunication,
    TransfersTwiceAsFast,
    NobodyLate,
    HostNeverLate,
    CopiesFree,
    DtodCopiesFree,
    BucketAtLastGradient,
    CommunicatorFree,
    OperationFree,
    SizeClassFree,
}

impl Scenario {
    /// In words.
    pub fn label(self) -> &'static str {
        match self {
            Scenario::NoCommunication => "no communication",
            Scenario::TransfersTwiceAsFast => "transfers twice as fast",
            Scenario::NobodyLate => "no rank later than the median one",
            Scenario::HostNeverLate => "the host never late",
            Scenario::CopiesFree => "copies free",
            Scenario::DtodCopiesFree => "copies on the device free",
            Scenario::BucketAtLastGradient => "buckets reduced at their last gradient",
            Scenario::CommunicatorFree => "communicator free",
            Scenario::OperationFree => "operation free",
            Scenario::SizeClassFree => "sizes free",
        }
    }
}

/// The scenario that removes the cause of a finding, and how that is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removal {
    /// What changes.
    pub scenario: Scenario,
    /// The beginning of a sentence, e.g. `Without these copies`.
    pub with: &'static str,
}

/// What is to be known of a rule beside its sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// All of these have to be there, or it is unknown whether it applies.
    pub needs: &'static [Class],
    /// How sure it is.
    pub confidence: Confidence,
    /// What the data looks like if the advice helped, as a sentence.
    pub helped: &'static str,
    /// What predicts its gain.
    pub removed: Option<Removal>,
}
