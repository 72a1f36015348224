//! A finding: what explains the run, with the facts that it rests on and what to try. One builder for the rules of every command.

use std::collections::BTreeMap;
use std::ops::Index;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{COST_OF_STEP, Id, Severity, Unit, Weight};

/// An explanation of the run with the evidence that it rests on and what to try.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "Saved")]
pub struct Finding {
    /// What it is about, e.g. `straggler`.
    pub id: Id,
    /// How much it matters.
    pub severity: Severity,
    /// One sentence with the numbers in it.
    pub title: String,
    /// By how much the step would be shorter without it, ns; `None` if that is not known.
    pub gain_ns: Option<i64>,
    /// The most of a step that it stands for, ns; `None` if that is not known. Two findings can stand for the same time.
    pub cost_ns: Option<i64>,
    /// The measured facts behind it.
    pub evidence: Evidence,
    /// What to try, as a sentence.
    pub advice: Option<String>,
}

impl Finding {
    /// A finding with the severity that the catalogue gives it; one that goes by cost or case is worth knowing until that is said.
    pub fn new(id: Id, title: impl Into<String>) -> Self {
        Self {
            id,
            severity: id.severity().unwrap_or(Severity::Info),
            title: title.into(),
            gain_ns: None,
            cost_ns: None,
            evidence: Evidence::default(),
            advice: None,
        }
    }

    /// Adds a fact; its unit is that of the catalogue.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        let unit = self.id.unit(name);
        debug_assert!(unit.is_some(), "the catalogue has no fact '{name}' of '{}'", self.id);
        self.evidence.insert(name, value.into(), unit.unwrap_or(Unit::Text));
        self
    }

    /// The share of the step (0 to 1, of a step of `step_ns`) that it costs at most; findings of one severity are ordered by it.
    #[must_use]
    pub fn costs(mut self, share: f64, step_ns: f64) -> Self {
        self.cost_ns = Some((share * step_ns).round() as i64);
        if self.id.entry().weight == Weight::ByCost {
            self.severity = Severity::of_share(share);
        }
        let (name, unit) = COST_OF_STEP;
        // Six digits of a share say enough; fewer would be rounded twice in print (0.32947 as 33.0 %).
        self.evidence.insert(name, ((share * 1e6).round() / 1e6).into(), unit);
        self
    }

    /// How much it matters, where the case decides.
    #[must_use]
    pub fn weighing(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// What to try, as a sentence.
    #[must_use]
    pub fn advice(mut self, text: impl Into<String>) -> Self {
        self.advice = Some(text.into());
        self
    }
}

/// A measured value and what it is. JSON has the value alone: the name ends in the unit.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Fact {
    /// The value, or a list of values of one unit.
    pub value: Value,
    /// What it is.
    #[serde(skip)]
    pub unit: Unit,
}

/// Facts by name, in order of their names.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Evidence(BTreeMap<String, Fact>);

impl Evidence {
    /// Adds a fact, in place of one of the same name.
    pub fn insert(&mut self, name: &str, value: Value, unit: Unit) {
        self.0.insert(name.to_owned(), Fact { value, unit });
    }

    /// A fact by its name.
    pub fn get(&self, name: &str) -> Option<&Fact> {
        self.0.get(name)
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Fact)> {
        self.0.iter().map(|(name, fact)| (name.as_str(), fact))
    }
}

/// The value of a fact; null if there is none of that name.
impl Index<&str> for Evidence {
    type Output = Value;

    fn index(&self, name: &str) -> &Value {
        self.get(name).map_or(&Value::Null, |fact| &fact.value)
    }
}

/// A finding as it stands in JSON, where the catalogue knows the units of its facts.
#[derive(Deserialize)]
struct Saved {
    id: Id,
    severity: Severity,
    title: String,
    gain_ns: Option<i64>,
    cost_ns: Option<i64>,
    evidence: BTreeMap<String, Value>,
    advice: Option<String>,
}

impl From<Saved> for Finding {
    fn from(saved: Saved) -> Self {
        let mut evidence = Evidence::default();
        for (name, value) in saved.evidence {
            let unit = saved.id.unit(&name).unwrap_or(Unit::Text);
            evidence.insert(&name, value, unit);
        }
        Self {
            id: saved.id,
            severity: saved.severity,
            title: saved.title,
            gain_ns: saved.gain_ns,
            cost_ns: saved.cost_ns,
            evidence,
            advice: saved.advice,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn severity_goes_by_cost_only_where_the_catalogue_says_so() {
        let by_cost = Finding::new(Id::DtodCopies, "copies").costs(0.05, 200.0);
        assert_eq!((by_cost.severity, by_cost.cost_ns), (Severity::Medium, Some(10)));
        let fixed = Finding::new(Id::SharedGpu, "one GPU").costs(0.01, 200.0);
        assert_eq!((fixed.severity, fixed.cost_ns), (Severity::High, Some(2)));
        assert_eq!(fixed.evidence["cost_of_step"], 0.01);
    }

    #[test]
    fn a_finding_read_back_from_json_is_the_same() {
        let finding = Finding::new(Id::Straggler, "Rank 3 is late.")
            .with("rank", 3)
            .with("others_wait_ns_per_step", 4_000_000)
            .costs(0.04, 100e6)
            .advice("Look at its host.");
        let json = json!(finding);
        assert_eq!(
            json,
            json!({
                "id": "straggler", "severity": "medium", "title": "Rank 3 is late.", "gain_ns": null, "cost_ns": 4_000_000,
                "evidence": {"cost_of_step": 0.04, "others_wait_ns_per_step": 4_000_000, "rank": 3}, "advice": "Look at its host.",
            })
        );
        assert_eq!(serde_json::from_value::<Finding>(json).expect("reads"), finding);
    }
}
