//! Every file is told apart by what is in it, and read as what it is. One that cannot be read does not stop the others.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use regex::Regex;

use super::nccl_log::ReadLog;
use super::view::{Export, FurtherFile, InspectorLog, TopologyFile, Writer};
use crate::classify::Classifier;
use crate::ingest::kind::{self, Kind};
use crate::ingest::nsys::{self, contents, export};
use crate::ingest::{folder, inspector, nccl_log, topo};
use crate::model::record::{Drops, Origin, Record, Sink};
use crate::steps::select::DEFAULT_PATTERN;
use crate::{Error, Result};

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Read {
    /// Exports of nsys with GPU work.
    pub exports: Vec<(PathBuf, contents::Contents)>,
    /// Exports of nsys without GPU work, with the reason.
    pub without_work: Vec<(Export, Error)>,
    /// Inspector logs with records.
    pub inspector: Vec<InspectorLog>,
    /// NCCL logs with messages.
    pub nccl_logs: Vec<ReadLog>,
    /// Topology matrices.
    pub topologies: Vec<TopologyFile>,
    /// Inputs of other commands, each once.
    pub further: BTreeSet<FurtherFile>,
    /// Files in folders that are none of these.
    pub other: Vec<PathBuf>,
    /// Why the rest cannot be used.
    pub unusable: Vec<Error>,
}

/// A file to look into.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// Where it is.
    pub path: PathBuf,
    /// True if it was found in a folder, false if it was named.
    pub found: bool,
}

/// One file as it was read.
enum Item {
    Export(PathBuf, Box<contents::Contents>),
    Inspector(InspectorLog),
    NcclLog(ReadLog),
    Topology(TopologyFile),
    Further(FurtherFile),
    Other,
}

/// The files behind the paths, in order, each once; or why there is none. In folders only files with known names count.
pub fn list(paths: &[PathBuf]) -> Vec<Result<Listed>> {
    let (mut named, mut found) = (BTreeSet::new(), BTreeSet::new());
    let mut errors = Vec::new();
    for path in paths {
        if !path.is_dir() {
            named.insert(path.clone());
            continue;
        }
        match folder::files_below(path, &kind::is_looked_at) {
            Ok(files) if files.is_empty() => errors.push(
                Error::input(path, "holds no file that nsysnccl reads")
                    .with_hint(format!("name a folder with some of these: {}", kind::list())),
            ),
            // `./x` is `x`, and shorter in a command.
            Ok(files) => found.extend(
                files
                    .into_iter()
                    .map(|file| file.strip_prefix(".").map(Path::to_owned).unwrap_or(file)),
            ),
            Err(error) => errors.push(error),
        }
    }
    // A file that is named too is a named one.
    let all = named
        .iter()
        .map(|path| (path, false))
        .chain(found.difference(&named).map(|path| (path, true)));
    let mut all: Vec<Listed> =
        all.map(|(path, found)| Listed { path: path.clone(), found }).collect();
    // A report beside its export needs no word: the export is what is read.
    let exported = |path: &Path| {
        [&named, &found].iter().any(|list| list.contains(&path.with_extension("sqlite")))
    };
    let of_nsys = |path: &Path| kind::has_name_of(path, &[Kind::NsysReport]);
    all.retain(|file| !(of_nsys(&file.path) && exported(&file.path)));
    all.sort();
    // The same file by two ways is one.
    let mut seen = BTreeSet::new();
    all.retain(|file| seen.insert(file.path.canonicalize().unwrap_or_else(|_| file.path.clone())));
    all.into_iter().map(Ok).chain(errors.into_iter().map(Err)).collect()
}

/// Reads every file.
///
/// # Errors
/// None that is about a file: those are in [`Read::unusable`].
pub(super) fn read(listed: &[Result<Listed>], tick: &(impl Fn() + Sync)) -> Result<Read> {
    let step = Regex::new(DEFAULT_PATTERN).map_err(|e| {
        Error::usage(format!("the default pattern is not a regular expression: {e}"))
    })?;
    let classifier = Classifier::new(None)?;
    let step = nsys::StepTexts { pattern: &step, by_hand: false };
    let there: Vec<&Listed> = listed.iter().flatten().collect();
    let options = nsys::Options {
        step: Some(step),
        classifier: &classifier,
        replay: false,
        parts: nsys::parts(there.iter().map(|file| file.path.as_path())),
    };
    let items: Vec<Result<Item>> = listed
        .par_iter()
        .map(|file| {
            let item =
                file.as_ref().map_err(Clone::clone).and_then(|file| item(&file.path, &options));
            tick();
            item
        })
        .collect();
    let mut read = Read::default();
    for (file, item) in listed.iter().zip(items) {
        match item {
            Ok(Item::Export(path, contents)) => match contents.no_work.clone() {
                None => read.exports.push((path, *contents)),
                Some(reason) => read.without_work.push((Export::of(&contents), reason)),
            },
            Ok(Item::Inspector(log)) => read.inspector.push(log),
            Ok(Item::NcclLog(log)) => read.nccl_logs.push(log),
            Ok(Item::Topology(topology)) => read.topologies.push(topology),
            Ok(Item::Further(file)) => {
                read.further.insert(file);
            }
            Ok(Item::Other) => match file {
                Ok(file) if file.found => read.other.push(file.path.clone()),
                Ok(file) => read.unusable.push(unknown(&file.path)),
                Err(error) => read.unusable.push(error.clone()),
            },
            Err(error) => read.unusable.push(error),
        }
    }
    Ok(read)
}

/// The file as the first kind that it may be and that something is found of.
fn item(path: &Path, options: &nsys::Options<'_>) -> Result<Item> {
    for kind in kind::told(path)? {
        if let Some(item) = read_as(kind, path, options)? {
            return Ok(item);
        }
    }
    Ok(Item::Other)
}

/// What the reader of a kind finds; `None` if the file holds nothing of that kind.
fn read_as(kind: Kind, path: &Path, options: &nsys::Options<'_>) -> Result<Option<Item>> {
    Ok(match kind {
        Kind::Export => {
            let contents = contents::read(path, 0, options)?;
            Some(Item::Export(path.to_owned(), Box::new(contents)))
        }
        Kind::NsysReport => return Err(export::not_exported(path)),
        Kind::Topology => Some(Item::Topology(TopologyFile::of(&topo::read(path)?))),
        Kind::Prometheus | Kind::InspectorLog => inspector_log(path)?.map(Item::Inspector),
        Kind::NcclLog => match nccl_log::read(path) {
            Ok(log) => Some(Item::NcclLog(ReadLog { log, size_bytes: size(path) })),
            // Only that it holds no message is an error with a hint.
            Err(error) if error.hint.is_some() => None,
            Err(error) => return Err(error),
        },
        Kind::SavedReport | Kind::Manifest | Kind::Npkit | Kind::Counters => {
            Some(Item::Further(FurtherFile::of(kind, path)))
        }
    })
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// A log of Inspector; `None` if it holds no record.
fn inspector_log(path: &Path) -> Result<Option<InspectorLog>> {
    let size = size(path);
    if size == 0 && nsys::file_name(path).contains("-pid") {
        return Err(Error::input(path, "is an empty log of Inspector")
            .with_hint("it stays empty unless NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS is set, e.g. to 500000"));
    }
    let mut writers = Writers::default();
    let log = inspector::read_file(path, &mut writers)?;
    Ok((log.records > 0).then(|| writers.log(&log, size)))
}

fn unknown(path: &Path) -> Error {
    Error::input(path, "is none of the files that nsysnccl reads")
        .with_hint(format!("it reads {}", kind::list()))
}

/// Who wrote an Inspector log, and when.
#[derive(Default)]
struct Writers {
    origins: Vec<(Origin, u64)>,
    written_us: Option<(i64, i64)>,
}

impl Sink for Writers {
    fn origin(&mut self, origin: &Origin) {
        self.origins.push((origin.clone(), 0));
    }

    fn record(&mut self, record: &Record<'_>) {
        if let Some((_, count)) = self.origins.get_mut(record.origin) {
            *count += 1;
        }
        if let Some(at) = record.written_us {
            let (first, last) = self.written_us.unwrap_or((at, at));
            self.written_us = Some((first.min(at), last.max(at)));
        }
    }

    fn drops(&mut self, _: usize, _: Drops) {}
}

impl Writers {
    fn log(self, log: &crate::model::record::LogFile, size_bytes: u64) -> InspectorLog {
        let writer = |(origin, operations): (Origin, u64)| Writer {
            hostname: origin.hostname,
            pid: origin.pid,
            comm_id: origin.comm_id,
            rank: origin.rank,
            n_ranks: origin.n_ranks,
            operations,
        };
        let mut writers: Vec<Writer> = self.origins.into_iter().map(writer).collect();
        writers.sort();
        InspectorLog {
            path: log.path.clone(),
            size_bytes,
            formats: log.formats.clone(),
            records: log.records,
            operations: log.operations,
            prometheus_samples: log.prometheus_samples,
            bad_lines: log.bad_lines,
            first_written_us: self.written_us.map(|(first, _)| first),
            last_written_us: self.written_us.map(|(_, last)| last),
            writers,
        }
    }
}
