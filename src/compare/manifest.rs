//! `nsysnccl.toml`: a set of variants that is compared again and again.
//!
//! ```toml
//! baseline = "ddp"
//!
//! [[variant]]
//! name = "ddp"
//! reports = ["ddp_*.sqlite"]          # relative to this file
//! inspector = ["ddp_inspector"]
//! nccl_log = "ddp.nccl.log"
//!
//! [[variant]]
//! name = "view"
//! reports = ["view_*.sqlite"]
//! options = ["gradient_as_bucket_view"]
//! notes = "gradients live in the buckets"
//! ```
//! The same name again is another capture of that variant.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::group::{self, Files, Group};
use super::{Scaling, option};
use crate::error::{Error, Result};
use crate::ingest::open;
use crate::redact;

/// The name that is looked for where no input is given.
pub(crate) const FILE_NAME: &str = "nsysnccl.toml";

/// Bytes of a manifest that are read: nobody writes a longer one.
const LARGEST: u64 = 4 * 1024 * 1024;

/// What a manifest says.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Manifest {
    /// Name of the baseline.
    pub baseline: Option<String>,
    /// The smallest relative change of the step time that counts.
    pub min_effect: Option<f64>,
    /// What stays the same when the number of ranks changes.
    pub scaling: Option<Scaling>,
    /// The variants in the order of the file.
    pub groups: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    baseline: Option<String>,
    min_effect: Option<f64>,
    scaling: Option<String>,
    #[serde(default)]
    variant: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    reports: OneOrMore,
    #[serde(default)]
    inspector: OneOrMore,
    #[serde(default)]
    nccl_log: OneOrMore,
    #[serde(default)]
    options: OneOrMore,
    notes: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl Default for OneOrMore {
    fn default() -> Self {
        Self::More(Vec::new())
    }
}

impl OneOrMore {
    fn list(&self) -> &[String] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::More(more) => more,
        }
    }
}

/// Reads a manifest and finds the files that it names, relative to its folder.
///
/// # Errors
/// It cannot be read or parsed, names an unknown option, or names files that do not exist.
pub(crate) fn read(path: &Path) -> Result<Manifest> {
    let text = String::from_utf8(open::head(path, LARGEST)?)
        .map_err(|_| Error::input(path, "is not text in UTF-8"))?;
    parse(path, &text)
}

fn parse(path: &Path, text: &str) -> Result<Manifest> {
    let document: Document = toml::from_str(text).map_err(|e| {
        let line = e.span().map_or(1, |span| {
            text.get(..span.start).map_or(1, |before| before.matches('\n').count() + 1)
        });
        Error::input(path, format!("line {line}: {}", e.message()))
            .with_hint("see 'nsysnccl compare --help' for an example")
    })?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut manifest = Manifest {
        baseline: document.baseline,
        min_effect: document.min_effect,
        scaling: document.scaling.as_deref().map(|text| scaling(path, text)).transpose()?,
        groups: Vec::new(),
    };
    if manifest.min_effect.is_some_and(|e| !(0.0..1.0).contains(&e)) {
        return Err(Error::input(path, "min_effect is not between 0 and 1")
            .with_hint("0.01 means that 1 % counts"));
    }
    for entry in &document.variant {
        if let Cow::Owned(shown) = redact::text(&entry.name) {
            let fact = format!("the name of variant '{shown}' looks as if it held a secret");
            return Err(Error::input(path, fact).with_hint("give the variant another name"));
        }
        let files = Files {
            reports: find(folder, entry.reports.list())?,
            inspector: find(folder, entry.inspector.list())?,
            nccl_logs: find(folder, entry.nccl_log.list())?,
            topology: None,
        };
        if files.reports.is_empty() {
            return Err(Error::input(path, format!("variant '{}' has no reports", entry.name)));
        }
        group::add_capture(&mut manifest.groups, &entry.name, files)?;
        let Some(group) = manifest.groups.iter_mut().find(|group| group.name == entry.name) else {
            continue;
        };
        for text in entry.options.list() {
            let option = option::told(text, "manifest")
                .map_err(|e| Error { path: Some(path.to_owned()), ..e })?;
            if !group.options.contains(&option) {
                group.options.push(option);
            }
        }
        if group.notes.is_none() {
            group.notes.clone_from(&entry.notes);
        }
    }
    Ok(manifest)
}

fn scaling(path: &Path, text: &str) -> Result<Scaling> {
    match text {
        "weak" => Ok(Scaling::Weak),
        "strong" => Ok(Scaling::Strong),
        _ => Err(Error::input(path, format!("scaling is '{text}'"))
            .with_hint("use \"weak\" or \"strong\"")),
    }
}

fn find(folder: &Path, patterns: &[String]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for pattern in patterns {
        found.extend(group::expand(&folder.join(pattern))?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::TrainingOption;

    #[test]
    fn a_manifest_names_variants_captures_options_and_notes() {
        let dir = tempfile::tempdir().expect("a folder");
        for file in ["a_0.sqlite", "a_1.sqlite", "b_0.sqlite", "c_0.sqlite", "a.log"] {
            std::fs::write(dir.path().join(file), "").expect("written");
        }
        let text = r#"
            baseline = "old"
            min_effect = 0.02
            scaling = "weak"
            [[variant]]
            name = "old"
            reports = "a_*.sqlite"
            inspector = ["a.log"]
            [[variant]]
            name = "new"
            reports = ["c_0.sqlite"]
            options = ["view", "bucket=100"]
            notes = "both at once"
            [[variant]]
            name = "old"
            reports = ["b_0.sqlite"]
        "#;
        let manifest = parse(&dir.path().join(FILE_NAME), text).expect("is valid");
        assert_eq!(manifest.baseline.as_deref(), Some("old"));
        assert_eq!((manifest.min_effect, manifest.scaling), (Some(0.02), Some(Scaling::Weak)));
        let names: Vec<_> =
            manifest.groups.iter().map(|g| (g.name.as_str(), g.captures.len())).collect();
        assert_eq!(names, [("old", 2), ("new", 1)]);
        let old = &manifest.groups[0].captures[0];
        assert_eq!((old.reports.len(), old.inspector.len()), (2, 1));
        let options: Vec<_> =
            manifest.groups[1].options.iter().map(|o| (o.option, o.source.as_str())).collect();
        assert_eq!(
            options,
            [
                (TrainingOption::GradientAsBucketView, "manifest"),
                (TrainingOption::BucketCap(100), "manifest")
            ]
        );
    }

    #[test]
    fn errors_name_the_file_and_the_line() {
        let path = Path::new("x/nsysnccl.toml");
        let fact = |text: &str| parse(path, text).expect_err("is refused").to_string();
        assert_eq!(
            fact("baseline = 1"),
            "x/nsysnccl.toml: line 1: invalid type: integer `1`, expected a string"
        );
        assert!(
            fact("\n[[variant]]\nname = 'a'\nreport = 'x'")
                .contains("line 4: unknown field `report`")
        );
        assert!(fact("min_effect = 5.0").contains("between 0 and 1"));
        assert!(fact("scaling = 'week'").contains("week"));
        assert!(fact("[[variant]]\nname = 'a'\nreports = []").contains("no reports"));
        assert!(
            fact("[[variant]]\nname = 'a'\nreports = 'none_*.sqlite'").contains("matches no file")
        );
    }
}
