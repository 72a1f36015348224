//! Everything that the program can say in a finding or a warning, as one table: what it is called, which command says it, how much it
//! matters, what triggers it, which facts it rests on and what to try.
//!
//! Rules name an entry by its [`Id`] and build a [`Finding`] (or a [`Warning`](crate::warning::Warning)) with the facts of the case;
//! severity and units come from the table, and `docs/findings.md` is written from it. Adding a finding touches `table.rs` and the file that
//! holds its rule.

pub(crate) mod class;
mod finding;
mod rule;
mod table;
mod unknown;

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

pub(crate) use class::Class;
pub(crate) use finding::Fact;
pub use finding::{Evidence, Finding};
pub(crate) use rule::{Confidence, Removal, Rule, Scenario};
pub use table::Id;
pub(crate) use unknown::Unknown;

/// How much a finding matters. Findings are printed in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It costs a large part of the step.
    High,
    /// It costs something, or makes numbers doubtful.
    Medium,
    /// Worth knowing.
    Info,
}

impl Severity {
    /// By what a part of the step costs: a tenth is high, a fiftieth medium.
    pub fn of_share(share: f64) -> Severity {
        match share {
            s if s >= 0.1 => Severity::High,
            s if s >= 0.02 => Severity::Medium,
            _ => Severity::Info,
        }
    }

    /// The name in JSON.
    pub fn label(self) -> &'static str {
        match self {
            Severity::High => "high",
            Severity::Medium => "medium",
            Severity::Info => "info",
        }
    }
}

/// How the severity of an entry comes about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Always the same.
    Fixed(Severity),
    /// By the share of the step that it costs ([`Severity::of_share`]).
    ByCost,
    /// The rule decides, as the sentence says.
    ByCase(&'static str),
    /// A warning: it says what to know about the numbers, and is not weighed against others.
    Unweighed,
}

/// The command that says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Command {
    Report,
    Compare,
    Inspect,
    Npkit,
    Doctor,
}

/// As what which command says it. `compare` passes on the warnings of the reports that it compares, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// In the list of findings.
    Finding(Command),
    /// In the list of warnings.
    Warning(Command),
}

/// The unit of a fact: what its number is, and so how it is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// Nanoseconds in each step.
    NsPerStep,
    /// Microseconds.
    Us,
    /// Microseconds since 1970, UTC.
    UnixUs,
    /// Bytes.
    Bytes,
    /// Decimal gigabytes a second.
    Gbs,
    /// Percent of the most that is possible.
    Percent,
    /// Megahertz.
    Mhz,
    /// How many there are.
    Count,
    /// How many there are in each step.
    CountPerStep,
    /// A share, 0 to 1.
    Share,
    /// A share of the step, 0 to 1.
    OfStep,
    /// A share of communication, 0 to 1.
    OfComm,
    /// The number of a rank.
    Rank,
    /// Numbers of ranks.
    Ranks,
    /// A number that only names something, such as a process id.
    Number,
    /// Words, names, or a list of them.
    Text,
}

impl Unit {
    /// In words, for documents.
    pub fn label(self) -> &'static str {
        match self {
            Unit::Ns => "ns",
            Unit::NsPerStep => "ns per step",
            Unit::Us => "µs",
            Unit::UnixUs => "µs since 1970, UTC",
            Unit::Bytes => "bytes",
            Unit::Gbs => "GB/s",
            Unit::Percent => "%",
            Unit::Mhz => "MHz",
            Unit::Count => "count",
            Unit::CountPerStep => "count per step",
            Unit::Share => "share, 0 to 1",
            Unit::OfStep => "share of the step, 0 to 1",
            Unit::OfComm => "share of communication, 0 to 1",
            Unit::Rank => "rank",
            Unit::Ranks => "ranks",
            Unit::Number => "number",
            Unit::Text => "text",
        }
    }
}

/// The fact that every finding with a known cost has: the most of the step that it stands for.
pub const COST_OF_STEP: (&str, Unit) = ("cost_of_step", Unit::OfStep);

/// What an entry is called and means.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Kebab-case name, the same in every version.
    pub name: &'static str,
    /// Who says it, as what.
    pub said: &'static [Said],
    /// How much it matters.
    pub weight: Weight,
    /// When it is said.
    pub trigger: &'static str,
    /// The facts of a finding by name; `*` stands for any part of a name. One that costs a known share has [`COST_OF_STEP`], too.
    pub evidence: &'static [(&'static str, Unit)],
    /// What to try, in general; each finding says it for its case.
    pub remedy: &'static str,
    /// What else is to be known of a rule that explains something; `None` for what only says what is there or not.
    pub rule: Option<Rule>,
}

impl Id {
    /// The kebab-case name.
    pub fn as_str(self) -> &'static str {
        self.entry().name
    }

    /// The entry with this name.
    pub fn by_name(name: &str) -> Option<Id> {
        Id::ALL.iter().copied().find(|id| id.as_str() == name)
    }

    /// The severity, if it is always the same.
    pub fn severity(self) -> Option<Severity> {
        match self.entry().weight {
            Weight::Fixed(severity) => Some(severity),
            _ => None,
        }
    }

    /// What removes its cause, where the replay predicts that.
    pub fn removed(self) -> Option<Removal> {
        self.entry().rule?.removed
    }

    /// The unit of a fact; `None` if the entry has no fact of this name.
    pub fn unit(self, fact: &str) -> Option<Unit> {
        let known = |(pattern, _): &&(&str, Unit)| match pattern.split_once('*') {
            Some((before, after)) => {
                fact.strip_prefix(before).is_some_and(|rest| rest.ends_with(after))
            }
            None => *pattern == fact,
        };
        self.entry().evidence.iter().chain([&COST_OF_STEP]).find(known).map(|(_, unit)| *unit)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Lists are sorted by name, wherever an entry stands in the table.
impl Ord for Id {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl PartialOrd for Id {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_are_those_of_json() {
        for &id in Id::ALL {
            assert_eq!(Id::by_name(id.as_str()), Some(id));
            assert_eq!(serde_json::json!(id), id.as_str());
            assert_eq!(serde_json::from_value::<Id>(serde_json::json!(id)).ok(), Some(id));
        }
    }

    #[test]
    fn what_is_a_finding_has_a_weight_and_what_is_not_has_neither_weight_nor_facts() {
        for &id in Id::ALL {
            let entry = id.entry();
            let is_finding = entry.said.iter().any(|said| matches!(said, Said::Finding(_)));
            assert_eq!(is_finding, entry.weight != Weight::Unweighed, "{id}");
            assert!(is_finding || entry.evidence.is_empty(), "{id}");
        }
    }

    #[test]
    fn facts_whose_names_hold_a_setting_or_a_number_have_units() {
        assert_eq!(Id::TransportBelowTopology.unit("NCCL_P2P_DISABLE_found_in"), Some(Unit::Text));
        assert_eq!(Id::ChannelCountDiffers.unit("ranks_with_16_channels"), Some(Unit::Ranks));
        assert_eq!(Id::ChannelCountDiffers.unit("ranks_with_16_links"), None);
        assert_eq!(Id::Straggler.unit("cost_of_step"), Some(Unit::OfStep));
    }
}
