//! The files of a run, each read once.

use std::path::{Path, PathBuf};

use rayon::prelude::*;
use regex::Regex;

use super::Options;
use crate::catalogue::Id;
use crate::classify::Classifier;
use crate::ingest::counters::{self, CounterFile};
use crate::ingest::nsys::{self, NsysReport, StepTexts};
use crate::ingest::{nccl_log, ranks, topo};
use crate::model::counter::Sampled;
use crate::model::nccl_log::NcclLog;
use crate::model::topology::Topology;
use crate::npkit::ids::Library;
use crate::npkit::{self, dump::Dump, read::Table};
use crate::steps::StepChoice;
use crate::steps::select::DEFAULT_PATTERN;
use crate::warning::Warning;
use crate::{Error, Result};

/// What was read.
#[derive(Debug)]
pub(crate) struct Files {
    /// Exports of nsys, in order of their paths.
    pub reports: Vec<NsysReport>,
    /// NCCL logs.
    pub nccl_logs: Vec<NcclLog>,
    /// The topology of the machine.
    pub topology: Option<Topology>,
    /// NPKit dumps of one communicator.
    pub npkit: Option<Dump>,
    /// Counters of GPUs.
    pub sampled: Vec<Sampled>,
    /// What a reader should know of these files.
    pub warnings: Vec<Warning>,
    /// What could not be used, where the run goes on without it.
    pub unusable: Vec<Error>,
}

impl Files {
    /// Reads the exports and logs of a run. `tick` is called once for each export.
    ///
    /// # Errors
    /// An input that cannot be used (unless `keep_going` and another can), a pattern that is not one.
    pub(crate) fn read(
        paths: &[PathBuf],
        options: &Options,
        tick: impl Fn() + Sync,
    ) -> Result<Files> {
        let classifier = Classifier::new(options.comm_regex.as_deref())?;
        let paths = in_order(paths)?;
        let pattern = step_pattern(&options.step)?;
        let by_hand = matches!(options.step, StepChoice::Pattern(_));
        let step = pattern.as_ref().map(|pattern| StepTexts { pattern, by_hand });
        let asked = nsys::Options {
            step,
            classifier: &classifier,
            replay: options.replay,
            parts: nsys::parts(paths.iter().map(PathBuf::as_path)),
        };
        let read: Vec<Result<NsysReport>> = paths
            .par_iter()
            .enumerate()
            .map(|(i, path)| {
                let report = nsys::read(path, i, &asked);
                tick();
                report
            })
            .collect();
        let (reports, unusable) = usable(read, options.keep_going)?;
        let (nccl_logs, topology, npkit) = (Vec::new(), None, None);
        let (sampled, warnings) = (Vec::new(), Vec::new());
        let mut files = Files { reports, nccl_logs, topology, npkit, sampled, warnings, unusable };
        let logs: Vec<Result<NcclLog>> =
            options.nccl_logs.par_iter().map(|path| nccl_log::read(path)).collect();
        for log in logs {
            files.nccl_logs.extend(unless_going_on(log, options, &mut files.unusable)?);
        }
        if let Some(path) = &options.topology {
            files.topology = unless_going_on(topo::read(path), options, &mut files.unusable)?;
        }
        if !options.npkit.is_empty() {
            // nsys captures GPUs of NVIDIA only.
            let dump = npkit::read(&options.npkit, Table::Fitting(&Library::NVIDIA));
            files.npkit = files.beside(dump, options)?;
        }
        let counters: Vec<Result<CounterFile>> =
            options.counters.par_iter().map(|path| counters::read(path)).collect();
        for file in counters {
            if let Some(CounterFile { sampled, warnings }) = files.beside(file, options)? {
                files.sampled.extend(sampled);
                files.warnings.extend(warnings);
            }
        }
        Ok(files)
    }

    /// The result; of a file that was not named an error is only said.
    fn beside<T>(&mut self, result: Result<T>, options: &Options) -> Result<Option<T>> {
        match result {
            Err(error) if options.found_beside => {
                let said = Warning::new(Id::FoundUnusable, format!("Left out: {error}."));
                self.warnings.push(match &error.hint {
                    Some(hint) => said.with_hint(hint),
                    None => said,
                });
                Ok(None)
            }
            result => unless_going_on(result, options, &mut self.unusable),
        }
    }
}

/// The pattern of step texts that ranges are held against while they are read; `None` if steps are not ranges.
///
/// # Errors
/// What was given by hand is not a regular expression.
pub(crate) fn step_pattern(step: &StepChoice) -> Result<Option<Regex>> {
    let pattern = |text: &str, option: &str| {
        Regex::new(text).map(Some).map_err(|e| {
            let fault = crate::text::regex_fault(&e);
            Error::usage(format!("{option} is not a regular expression: {fault}"))
        })
    };
    match step {
        StepChoice::Automatic => pattern(DEFAULT_PATTERN, "the default pattern"),
        StepChoice::Pattern(text) => pattern(text, "--step"),
        StepChoice::Kernel(text) => pattern(text, "--step-kernel").map(|_| None),
        StepChoice::Whole => Ok(None),
    }
}

/// Each file once, in the order of names, so that the order of arguments does not matter.
fn in_order(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut list = paths.to_vec();
    list.sort();
    let mut seen = std::collections::HashSet::new();
    list.retain(|path| seen.insert(std::fs::canonicalize(path).unwrap_or_else(|_| path.clone())));
    if list.is_empty() { Err(Error::usage("no report was named")) } else { Ok(list) }
}

/// The reports that could be read; without `keep_going`, or if none could, the first error.
fn usable(
    read: Vec<Result<NsysReport>>,
    keep_going: bool,
) -> Result<(Vec<NsysReport>, Vec<Error>)> {
    let (mut reports, mut errors) = (Vec::new(), Vec::new());
    for result in read {
        match result {
            Ok(report) => reports.push(report),
            Err(error) => errors.push(error),
        }
    }
    match errors.first() {
        Some(first) if !keep_going || reports.is_empty() => Err(first.clone()),
        _ => Ok((reports, errors)),
    }
}

/// The result; with `keep_going` an error is put aside instead.
///
/// # Errors
/// That of the result, without `keep_going`.
pub(crate) fn unless_going_on<T>(
    result: Result<T>,
    options: &Options,
    unusable: &mut Vec<Error>,
) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if options.keep_going => {
            unusable.push(error);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// What the names of the files have in common, without the rank.
pub(crate) fn run_name(paths: &[PathBuf]) -> String {
    let stems: Vec<String> = paths.iter().map(|path| stem(path)).collect();
    match stems.first() {
        Some(first) if stems.iter().all(|stem| stem == first) => first.clone(),
        Some(first) => format!("{first} and {} more", paths.len() - 1),
        None => String::new(),
    }
}

/// The file's name without its ending and its rank.
pub(crate) fn stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    match Regex::new(r"(?i)[._-](?:rank)?\d+$") {
        Ok(pattern) if ranks::has_rank_in_name(path) => pattern.replace(&stem, "").into_owned(),
        _ => stem,
    }
}
