//! The command lines to run next, as words that a shell takes as they are.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::view::Run;
use crate::compare::group;
use crate::ingest::inspector;
use crate::text::{printable, shell_quote};

/// More files than these are given as one pattern, if one names them exactly.
const LISTED: usize = 8;

/// More runs are hardly variants of one program.
const COMPARED: usize = 40;

/// `nsysnccl report` of a run with everything that belongs to it; `None` if it would fail, or if a path cannot be printed as it is.
pub(super) fn report(run: &Run, paths: &[PathBuf]) -> Option<Vec<String>> {
    if run.problem.is_some() {
        return None;
    }
    let mut words = vec!["nsysnccl".to_owned(), "report".to_owned()];
    words.extend(files(paths)?);
    if !run.inspector.is_empty() {
        words.push("--inspector".to_owned());
        words.extend(all(shortest(&run.inspector).iter().map(|path| Some(path.as_str())))?);
    }
    if !run.nccl_logs.is_empty() {
        words.push("--nccl-log".to_owned());
        words.extend(files(&run.nccl_logs.iter().map(PathBuf::from).collect::<Vec<_>>())?);
    }
    if let Some(topology) = &run.topology {
        words.extend(["--topo".to_owned(), word(topology)?]);
    }
    Some(words)
}

/// `nsysnccl compare` of the runs that can be reported on, if there are several.
pub(super) fn compare(runs: &[Run]) -> Option<Vec<String>> {
    let mut good: Vec<&Run> = runs.iter().filter(|run| run.problem.is_none()).collect();
    // The first is the baseline: the plain program among its changes, if there is one.
    let plain =
        good.iter().position(|run| good.iter().all(|other| other.name.starts_with(&run.name)));
    if let Some(at) = plain {
        good[..=at].rotate_right(1);
    }
    let names: BTreeSet<&str> = good.iter().map(|run| run.name.as_str()).collect();
    // What begins with a hyphen is an option, what holds one of these no name.
    let no_name = |name: &&str| name.starts_with('-') || name.contains(['/', '\\', '=']);
    if !(2..=COMPARED).contains(&good.len())
        || names.len() < good.len()
        || names.iter().any(no_name)
    {
        return None;
    }
    let mut words = vec!["nsysnccl".to_owned(), "compare".to_owned()];
    for run in good {
        let paths: Vec<PathBuf> = run.reports.iter().map(PathBuf::from).collect();
        match pattern(&paths) {
            Some(pattern) => words.push(word(&format!("{}={pattern}", run.name))?),
            None => words
                .extend(all(run.reports.iter().map(|path| Some(format!("{}={path}", run.name))))?),
        }
    }
    Some(words)
}

/// One word; `None` if a terminal would not show it as it is.
fn word(text: &str) -> Option<String> {
    // A name that looks like an option is none with its folder before it.
    let text = if text.starts_with('-') { format!("./{text}") } else { text.to_owned() };
    // U+FFFD stands for bytes that are no UTF-8.
    (printable(&text) == text && !text.contains('\u{fffd}')).then(|| shell_quote(&text))
}

fn all<S: AsRef<str>>(texts: impl Iterator<Item = Option<S>>) -> Option<Vec<String>> {
    texts.map(|text| word(text?.as_ref())).collect()
}

/// Files one by one, or many as one pattern, if there is one.
fn files(paths: &[PathBuf]) -> Option<Vec<String>> {
    match (paths.len() > LISTED).then(|| pattern(paths)).flatten() {
        Some(pattern) => Some(vec![word(&pattern)?]),
        None => all(paths.iter().map(|path| path.to_str())),
    }
}

/// A pattern that matches these files and no other.
fn pattern(paths: &[PathBuf]) -> Option<String> {
    let pattern = group::pattern_of(paths);
    let wanted: BTreeSet<&PathBuf> = paths.iter().collect();
    let matched = group::expand(Path::new(&pattern)).ok()?;
    (matched.iter().collect::<BTreeSet<_>>() == wanted).then_some(pattern)
}

/// The folder in place of the logs, if it holds these and no other.
fn shortest(logs: &[String]) -> Vec<String> {
    let folders: BTreeSet<&Path> = logs.iter().filter_map(|log| Path::new(log).parent()).collect();
    let folder = match folders.iter().collect::<Vec<_>>().as_slice() {
        [folder] if !folder.as_os_str().is_empty() => folder.to_path_buf(),
        _ => return logs.to_vec(),
    };
    let there = inspector::files(std::slice::from_ref(&folder)).unwrap_or_default();
    let same =
        there.iter().map(|path| path.to_string_lossy().into_owned()).collect::<BTreeSet<_>>()
            == logs.iter().cloned().collect();
    match folder.to_str() {
        Some(folder) if same => vec![folder.to_owned()],
        _ => logs.to_vec(),
    }
}
