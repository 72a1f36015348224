//! Which range text means a step, where the usual words do not occur: the repeated one is taken, or one is proposed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use rayon::prelude::*;
use regex::Regex;

use crate::ingest::nsys::{NsysReport, survey};
use crate::model::{NameId, RankTrace};
use crate::steps::select::DEFAULT_PATTERN;
use crate::text::{shell_quote, shorten};
use crate::{Error, Result};

/// Texts that are listed, and that are tried for a proposal.
const LISTED: usize = 20;

/// Why no range is a step.
#[derive(Debug)]
pub struct NoSteps {
    /// The fact with what to do about it.
    pub error: Error,
    /// A pattern that gives steps.
    pub proposal: Option<String>,
}

impl From<Error> for NoSteps {
    fn from(error: Error) -> Self {
        Self { error, proposal: None }
    }
}

impl From<NoSteps> for Error {
    fn from(none: NoSteps) -> Self {
        none.error
    }
}

/// One text (numbers aside) in all reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepText {
    /// Regular expression that matches it.
    pub pattern: String,
    /// True if the default pattern takes it for a step.
    usual: bool,
    /// Ranks on which it occurs.
    ranks: usize,
    /// True if it occurs at least twice on one thread of every rank.
    repeated: bool,
    /// Fewest ranges around it.
    depth: usize,
    /// Summed length, ns.
    total_ns: i64,
}

/// The texts of the user's ranges.
///
/// # Errors
/// A report cannot be read again.
pub fn texts(reports: &[NsysReport], paths: &[PathBuf]) -> Result<Vec<StepText>> {
    let usual = Regex::new(DEFAULT_PATTERN)
        .map_err(|e| Error::usage(format!("the default pattern is no regular expression: {e}")))?;
    let traces = || reports.iter().flat_map(|r| &r.candidates).map(|candidate| &candidate.trace);
    let inputs: BTreeSet<usize> = traces().map(|trace| trace.input).collect();
    let inputs: Vec<(usize, &PathBuf)> =
        inputs.into_iter().filter_map(|input| Some((input, paths.get(input)?))).collect();
    let surveys: BTreeMap<usize, survey::Survey> = inputs
        .par_iter()
        .map(|&(input, path)| Ok((input, survey::survey(path, &usual)?)))
        .collect::<Result<_>>()?;
    let mut all: BTreeMap<&str, (StepText, usize)> = BTreeMap::new();
    for trace in traces() {
        let Some(texts) = surveys.get(&trace.input).and_then(|survey| survey.get(&trace.pid))
        else {
            continue;
        };
        for (pattern, occurrence) in texts {
            let new = || StepText {
                pattern: pattern.clone(),
                usual: occurrence.usual,
                ranks: 0,
                repeated: false,
                depth: occurrence.depth,
                total_ns: 0,
            };
            let (text, twice) = all.entry(pattern).or_insert_with(|| (new(), 0));
            text.ranks += 1;
            text.depth = text.depth.min(occurrence.depth);
            text.total_ns = text.total_ns.saturating_add(occurrence.total_ns);
            *twice += usize::from(occurrence.on_one_thread >= 2);
        }
    }
    let ranks = traces().count();
    Ok(all
        .into_values()
        .map(|(text, twice)| StepText { repeated: twice == ranks, ..text })
        .collect())
}

/// The shallowest text that occurs at least twice on one thread of every rank (ties: longer total time, then text).
pub fn repeated(texts: &[StepText]) -> Option<&StepText> {
    texts
        .iter()
        .filter(|text| text.repeated)
        .min_by_key(|text| (text.depth, Reverse(text.total_ns), &text.pattern))
}

/// The error where no range is a step: it lists the most frequent texts, and proposes one that is sure to give steps.
/// `read` reads the reports once more, with the ranges that match a pattern.
pub fn no_match(
    fact: &str,
    texts: &[StepText],
    paths: &[PathBuf],
    read: impl Fn(&Regex) -> Vec<NsysReport>,
) -> NoSteps {
    let listed = most_frequent(paths);
    let fact = if listed.is_empty() {
        fact.to_owned()
    } else {
        format!("{fact}; the most frequent range texts are: {listed}")
    };
    let proposal = that_works(texts, read);
    let hint = match &proposal {
        Some(pattern) => format!(
            "name the range that is one training step, for example --step {}; or --step whole, or --step-kernel REGEX",
            shell_quote(pattern)
        ),
        None => "use --step whole for the whole capture, or --step-kernel REGEX".to_owned(),
    };
    NoSteps { error: Error::of_inputs(paths, fact).with_hint(hint), proposal }
}

/// Texts with how often each occurs; `#` stands for a number.
fn most_frequent(paths: &[PathBuf]) -> String {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for path in paths {
        // The file was read once already; if it fails now, the list is shorter and the error is the same.
        for (text, n) in survey::frequent_texts(path, 1000).unwrap_or_default() {
            *counts.entry(survey::normalised(&text)).or_default() += n;
        }
    }
    let mut list: Vec<(String, u64)> = counts.into_iter().collect();
    list.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    list.truncate(LISTED);
    list.iter()
        .map(|(text, n)| format!("{n} x '{}'", shorten(text, 60)))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Of the texts that look most like a step the first that launches GPU work on most ranks.
fn that_works(texts: &[StepText], read: impl Fn(&Regex) -> Vec<NsysReport>) -> Option<String> {
    let mut likely: Vec<&StepText> = texts.iter().collect();
    likely.sort_by_key(|t| {
        (!t.usual, !t.repeated, Reverse(t.ranks), t.depth, Reverse(t.total_ns), &t.pattern)
    });
    likely.truncate(LISTED);
    let patterns: Vec<Regex> = likely
        .iter()
        .map(|text| Regex::new(&text.pattern))
        .collect::<std::result::Result<_, _>>()
        .ok()?;
    let any =
        Regex::new(&likely.iter().map(|text| text.pattern.as_str()).collect::<Vec<_>>().join("|"))
            .ok()?;
    let mut works = vec![0; likely.len()];
    for report in read(&any) {
        for candidate in &report.candidates {
            works_on(&candidate.trace, &patterns).into_iter().for_each(|at| works[at] += 1);
        }
    }
    let best = works.iter().copied().max().filter(|&ranks| ranks > 0)?;
    likely.iter().zip(works).find(|(_, ranks)| *ranks == best).map(|(text, _)| text.pattern.clone())
}

/// Which of the patterns match a range inside which GPU work was launched.
fn works_on(trace: &RankTrace, patterns: &[Regex]) -> BTreeSet<usize> {
    let mut launches = trace.ops.launch.clone();
    launches.sort_unstable();
    let mut known: HashMap<NameId, Option<usize>> = HashMap::new();
    let with_work = trace.ranges.iter().filter(|range| {
        let next = launches.partition_point(|&launch| launch < range.start);
        launches.get(next).is_some_and(|&launch| launch < range.end)
    });
    let mut of = |name: NameId| {
        *known
            .entry(name)
            .or_insert_with(|| patterns.iter().position(|p| p.is_match(trace.names.get(name))))
    };
    with_work.filter_map(|range| of(range.name)).collect()
}
