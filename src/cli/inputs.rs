//! Input paths as they were typed: patterns that no shell expanded, folders in which a run is found, reports that nsys exports first.

use std::path::{Path, PathBuf};

use super::output::{OutputArgs, note};
use crate::compare::group::{self, Files};
use crate::doctor::{self, Listed, Together};
use crate::ingest::kind::{self, Kind};
use crate::ingest::nsys::export;
use crate::text::shell_quote;
use crate::{Error, Result, units};

/// Runs or files that are named in one sentence.
const NAMED: usize = 6;

/// Every path that has no pattern as it stands, and the files that each pattern matches, in order.
///
/// # Errors
/// See [`group::expand`].
pub fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let lists = paths.iter().map(|path| group::expand(path)).collect::<Result<Vec<_>>>()?;
    Ok(lists.concat())
}

/// True for what is a report by its name, wherever it stands on the command line.
pub fn is_report(path: &Path) -> bool {
    kind::has_name_of(path, &[Kind::Export, Kind::NsysReport])
}

/// The files of one run.
#[derive(Debug)]
pub struct OneRun {
    /// What is read.
    pub files: Files,
    /// What was found in folders beside them.
    pub beside: Beside,
    /// What was to be read, but cannot be.
    pub unusable: Vec<Error>,
}

/// Files of other kinds in the folders of a run.
#[derive(Debug, Default)]
pub struct Beside {
    /// NPKit dumps, and traces that were made of dumps.
    pub npkit: Vec<PathBuf>,
    /// Counters of GPUs.
    pub counters: Vec<PathBuf>,
}

impl Beside {
    /// What was named counts in place of what was found.
    ///
    /// # Errors
    /// A pattern that matches nothing.
    pub fn or(
        self,
        npkit: &[PathBuf],
        counters: &[PathBuf],
        output: &OutputArgs,
    ) -> Result<Beside> {
        if npkit.is_empty() && counters.is_empty() {
            return Ok(self.used(output));
        }
        Ok(Beside { npkit: expand(npkit)?, counters: expand(counters)? })
    }

    /// What `report` uses of it: every file of counters, and the only dump (the folder, where a trace of it lies beside it). Said on
    /// standard error, as is that several dumps leave the choice to the user.
    fn used(self, output: &OutputArgs) -> Beside {
        let say = |text: String| {
            if !output.quiet {
                note(&text);
            }
        };
        let (folders, traces): (Vec<PathBuf>, Vec<PathBuf>) =
            self.npkit.into_iter().partition(|path| path.is_dir());
        let dumps = if folders.is_empty() { traces } else { folders };
        let npkit = match dumps.as_slice() {
            [] => Vec::new(),
            [only] => {
                say(format!("{}: an NPKit dump, read as with --npkit", only.display()));
                dumps
            }
            several => {
                let names: Vec<String> = several.iter().map(|p| p.display().to_string()).collect();
                say(format!(
                    "{} ({}), and none is read: name that of the run with --npkit",
                    units::plural(several.len(), "NPKit dump"),
                    units::listed(&names, NAMED)
                ));
                Vec::new()
            }
        };
        for path in &self.counters {
            say(format!("{}: counters of GPUs, read as with --counters", path.display()));
        }
        Beside { npkit, counters: self.counters }
    }
}

/// The files of the run that was `named`: where there are folders among its reports, what belongs together in them; reports of nsys
/// as the exports that nsys makes of them. Logs and a topology that were named count in place of those that are found. What was
/// found or exported is said on standard error.
///
/// # Errors
/// Folders that hold no run or several, a report that cannot be exported (unless `keep_going`).
pub fn one_run(named: Files, keep_going: bool, output: &OutputArgs) -> Result<OneRun> {
    let mut run = OneRun { files: named, beside: Beside::default(), unusable: Vec::new() };
    let folders: Vec<PathBuf> =
        run.files.reports.iter().filter(|path| path.is_dir()).cloned().collect();
    let mut listed: Vec<Result<Listed>> = if folders.is_empty() {
        let given = |path: &PathBuf| Ok(Listed { path: path.clone(), found: false });
        run.files.reports.iter().map(given).collect()
    } else {
        doctor::list(&run.files.reports)
    };
    for file in listed.iter_mut().flatten().filter(|file| export::can_be_exported(&file.path)) {
        match export::exported(&file.path) {
            Ok(exported) => {
                if !output.quiet {
                    let (from, to) = (file.path.display(), exported.display());
                    note(&format!("{from} is read as nsys exported it: {to}"));
                }
                file.path = exported;
            }
            Err(error) if keep_going => run.unusable.push(error),
            Err(error) => return Err(error),
        }
    }
    if folders.is_empty() {
        let usable = |path: &PathBuf| !run.unusable.iter().any(|e| e.path.as_ref() == Some(path));
        let reports: Vec<PathBuf> =
            listed.into_iter().flatten().map(|file| file.path).filter(usable).collect();
        return match (reports.is_empty(), run.unusable.first()) {
            (true, Some(error)) => Err(error.clone()),
            _ => Ok(OneRun { files: Files { reports, ..run.files }, ..run }),
        };
    }
    let found = doctor::together(&listed, || ())?;
    // A report that may be of the run must not be missed in silence; anything else in a folder may be what it likes.
    for error in &found.unusable {
        match error.path.as_deref().is_none_or(is_report) {
            true if keep_going => run.unusable.push(error.clone()),
            true => return Err(error.clone()),
            false => {}
        }
    }
    let place = folders.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
    let place = units::listed(&place, NAMED);
    let [one] = found.runs.as_slice() else { return Err(not_one(&found, &folders, &place)) };
    let all = |paths: &[String]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
    let or = |named: Vec<PathBuf>, found: &[String]| match named.is_empty() {
        true => all(found),
        false => named,
    };
    run.files = Files {
        reports: all(&one.reports),
        inspector: or(run.files.inspector, &one.inspector),
        nccl_logs: or(run.files.nccl_logs, &one.nccl_logs),
        topology: run.files.topology.or(one.topology.as_ref().map(PathBuf::from)),
    };
    run.beside = Beside { npkit: found.of(Kind::Npkit), counters: found.of(Kind::Counters) };
    if !output.quiet {
        note(&format!("{place}: {}", taken(&one.name, &run.files, &found.without_work)));
    }
    Ok(run)
}

/// `run 'ddp': 2 reports, 1 NCCL log (ddp.nccl.log), topology topo.txt`.
fn taken(name: &str, files: &Files, without_work: &[String]) -> String {
    let name_of = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let list = |paths: &[PathBuf], what: &str| {
        let names: Vec<String> = paths.iter().map(|path| name_of(path)).collect();
        let count = units::plural(paths.len(), what);
        (!paths.is_empty()).then(|| format!("{count} ({})", units::listed(&names, NAMED)))
    };
    let parts = [
        list(&files.reports, "report"),
        list(&files.inspector, "Inspector log"),
        list(&files.nccl_logs, "NCCL log"),
        files.topology.as_ref().map(|path| format!("topology {}", name_of(path))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let without: Vec<String> = without_work.iter().map(|path| name_of(Path::new(path))).collect();
    let without = match without.is_empty() {
        true => String::new(),
        false => format!("; without GPU work and left out: {}", units::listed(&without, NAMED)),
    };
    format!("run '{name}': {}{without}", parts.join(", "))
}

/// Folders that hold no run, or more than one.
fn not_one(found: &Together, folders: &[PathBuf], place: &str) -> Error {
    let quoted: Vec<String> =
        folders.iter().map(|folder| shell_quote(&folder.to_string_lossy())).collect();
    let look = format!("nsysnccl doctor {}", quoted.join(" "));
    let fact = |text: String| match folders {
        [folder] => Error::input(folder, text),
        _ => Error::inputs(format!("{place}: {text}")),
    };
    if found.runs.is_empty() {
        let error =
            found.unusable.iter().find(|error| error.path.as_deref().is_some_and(is_report));
        return error.cloned().unwrap_or_else(|| {
            fact("holds no export of nsys with GPU work".to_owned()).with_hint(look)
        });
    }
    let names: Vec<&str> = found.runs.iter().map(|run| run.name.as_str()).collect();
    let text =
        format!("holds {}: {}", units::plural(names.len(), "run"), units::listed(&names, NAMED));
    fact(text).with_hint(match &found.compare_command {
        Some(words) => words.join(" "),
        None => look,
    })
}
