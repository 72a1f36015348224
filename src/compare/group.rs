//! Which files are one capture of which variant.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::ChangedOption;
use crate::error::{Error, Result};
use crate::text::shell_quote;

/// One variant before its files are read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Group {
    /// Its name.
    pub name: String,
    /// Its captures; more than one are repeats.
    pub captures: Vec<Files>,
    /// Options that it is said to use.
    pub options: Vec<ChangedOption>,
    /// True if its name says nothing about options.
    pub no_guesses: bool,
    /// The user's words about it.
    pub notes: Option<String>,
    /// True if its name is that of its files, not the user's.
    pub named_by_files: bool,
}

/// The files of one capture.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Files {
    /// Reports, one or more ranks each, or folders with the files of one run.
    pub reports: Vec<PathBuf>,
    /// Inspector logs, files or folders.
    pub inspector: Vec<PathBuf>,
    /// NCCL debug logs.
    pub nccl_logs: Vec<PathBuf>,
    /// Output of `nvidia-smi topo -m`.
    pub topology: Option<PathBuf>,
}

impl Files {
    /// Every file that is read.
    pub fn all(&self) -> impl Iterator<Item = &PathBuf> {
        self.reports.iter().chain(&self.inspector).chain(&self.nccl_logs).chain(&self.topology)
    }
}

/// Groups what was typed: `NAME=FILES` belong to the variant NAME, and bare files are grouped by their name without the rank part. A path
/// that exists is a path even if it holds `=`. Variants come in the order of their first mention.
///
/// The files of one pattern are one capture, unless they are evidently several runs. What is given under the same name again is a
/// repeat, except that files of one folder and name that differ only in the rank are one capture, together or one by one. A folder is a
/// capture.
///
/// # Errors
/// A name without files, a pattern without matches, one file twice in a variant, or bare files of one name in two folders.
pub(crate) fn group(inputs: &[String]) -> Result<Vec<Group>> {
    let mut groups: Vec<Group> = Vec::new();
    let mut bare: Vec<(String, PathBuf)> = Vec::new();
    for input in inputs {
        if let Some((name, pattern)) = named(input)? {
            let (folders, files): (Vec<_>, Vec<_>) =
                expand(Path::new(pattern))?.into_iter().partition(|path| path.is_dir());
            let captures: Vec<Vec<PathBuf>> = match evident_runs(&files) {
                Some(runs) => runs
                    .into_iter()
                    .map(|run| run.files.into_iter().map(|(path, _)| path.clone()).collect())
                    .collect(),
                None => Some(files).filter(|files| !files.is_empty()).into_iter().collect(),
            };
            let folders = folders.into_iter().map(|folder| vec![folder]);
            for reports in folders.chain(captures) {
                add_files(&mut groups, name, reports)?;
            }
            groups
                .iter_mut()
                .filter(|group| group.name == name)
                .for_each(|group| group.named_by_files = false);
            continue;
        }
        for path in expand(Path::new(input))? {
            let folder = folder(&path);
            let stem = if path.is_dir() { folder_name(&path)? } else { stem(&path).0 };
            match bare.iter().find(|(other, _)| *other == stem) {
                Some((_, other)) if *other != folder => {
                    return Err(ambiguous(&stem, &[other.clone(), folder.to_owned()], &path));
                }
                // Keeps the place of the variant among those that are named.
                None if groups.iter().all(|group| group.name != stem) => {
                    groups.push(Group {
                        name: stem.clone(),
                        named_by_files: true,
                        ..Group::default()
                    });
                }
                _ => {}
            }
            bare.push((stem.clone(), folder.to_owned()));
            add_files(&mut groups, &stem, vec![path])?;
        }
    }
    Ok(groups)
}

/// The variant to compare with where none was named: of variants named by their files the one whose name all others begin with, which is
/// the plain program among its changes however a shell sorts them.
pub(crate) fn plain(groups: &[Group]) -> Option<&str> {
    let begins_all = |name: &str| groups.iter().all(|group| group.name.starts_with(name));
    let candidate = groups.iter().map(|group| group.name.as_str()).find(|name| begins_all(name));
    candidate.filter(|_| groups.len() > 1 && groups.iter().all(|group| group.named_by_files))
}

/// Adds reports to the variant of that name: to a capture of which they are further ranks, else as another capture.
fn add_files(groups: &mut Vec<Group>, name: &str, reports: Vec<PathBuf>) -> Result<()> {
    let run = |path: &PathBuf| run_of(path);
    let rank = |path: &PathBuf| stem(path).1.and_then(|digits| digits.parse::<u64>().ok());
    let further = |capture: &&mut Files| {
        let mut all = capture.reports.iter().chain(&reports);
        let one_run = all.clone().map(run).collect::<BTreeSet<_>>().len() == 1;
        let mut ranks = BTreeSet::new();
        let files = all.clone().all(|path| !path.is_dir());
        files && one_run && all.all(|path| rank(path).is_some_and(|rank| ranks.insert(rank)))
    };
    let known = groups.iter_mut().find(|group| group.name == name);
    match known.and_then(|group| group.captures.iter_mut().find(further)) {
        Some(capture) => capture.reports.extend(reports),
        None => add_capture(groups, name, Files { reports, ..Files::default() })?,
    }
    Ok(())
}

/// The run that a file belongs to by its name: its folder, and its name without the ending and the rank.
pub(crate) fn run_of(path: &Path) -> (PathBuf, String) {
    (folder(path).to_owned(), stem(path).0)
}

/// The name of a folder, whichever way it is written.
fn folder_name(path: &Path) -> Result<String> {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    real.file_name().map(|name| name.to_string_lossy().into_owned()).ok_or_else(|| {
        Error::usage(format!("the folder '{}' has no name for a variant", path.display()))
            .with_hint(format!("give it one: NAME={}", shell_quote(&path.to_string_lossy())))
    })
}

fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// Adds a capture to the variant of that name, which may be new.
///
/// # Errors
/// One of its reports is in the variant already: the same file is not a repeat.
pub(crate) fn add_capture(groups: &mut Vec<Group>, name: &str, files: Files) -> Result<()> {
    let at = groups.iter().position(|group| group.name == name).unwrap_or_else(|| {
        groups.push(Group { name: name.to_owned(), ..Group::default() });
        groups.len() - 1
    });
    let identity = |path: &PathBuf| std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
    let mut seen: BTreeSet<PathBuf> =
        groups[at].captures.iter().flat_map(|capture| &capture.reports).map(identity).collect();
    if let Some(twice) = files.reports.iter().find(|path| !seen.insert(identity(path))) {
        return Err(Error::usage(format!("'{}' is in variant '{name}' twice", twice.display()))
            .with_hint("a repeat is another capture of the same program, in files of its own"));
    }
    groups[at].captures.push(files);
    Ok(())
}

/// `NAME=GLOB` taken apart; `None` if it is a path.
fn named(input: &str) -> Result<Option<(&str, &str)>> {
    if Path::new(input).exists() {
        return Ok(None);
    }
    match input.split_once('=') {
        // A folder's name may hold '=', a variant's name cannot hold a separator.
        Some((name, _)) if name.contains(['/', '\\']) => Ok(None),
        Some((name, pattern)) if name.trim().is_empty() || pattern.is_empty() => {
            Err(Error::usage(format!(
                "'{input}' lacks {}",
                if pattern.is_empty() { "files after '='" } else { "a name before '='" }
            ))
            .with_hint("give NAME='FILES', e.g. ddp='ddp-8gpu_*.sqlite'"))
        }
        Some((name, pattern)) => Ok(Some((name.trim(), pattern))),
        None => Ok(None),
    }
}

/// The files that a pattern matches, sorted; what exists or is not a pattern stands for itself.
///
/// # Errors
/// A pattern that is malformed or matches nothing.
pub(crate) fn expand(path: &Path) -> Result<Vec<PathBuf>> {
    let Some(pattern) =
        path.to_str().filter(|text| text.contains(['*', '?', '[']) && !path.exists())
    else {
        return Ok(vec![path.to_owned()]);
    };
    let matches = glob::glob(pattern).map_err(|e| {
        Error::usage(format!("'{pattern}' is not a pattern for file names: {}", e.msg))
    })?;
    let found: BTreeSet<PathBuf> = matches.filter_map(std::result::Result::ok).collect();
    match found.is_empty() {
        true => Err(Error::input(path, "matches no file").with_hint(
            "check the path; it is relative to the current folder, in a manifest to the manifest's",
        )),
        false => Ok(found.into_iter().collect()),
    }
}

/// The name of a file without its extension and its rank part (`_3`, `.rank3`, `-3`), and the rank.
fn stem(path: &Path) -> (String, Option<String>) {
    let whole = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let name = whole.trim_end_matches(|c: char| c.is_ascii_digit());
    let rank = &whole[name.len()..];
    let name = match name.len().checked_sub("rank".len()).and_then(|at| name.split_at_checked(at)) {
        Some((front, word)) if word.eq_ignore_ascii_case("rank") => front,
        _ => name,
    };
    match name.strip_suffix(['.', '_', '-']) {
        Some(name) if !name.is_empty() && !rank.is_empty() => {
            (name.to_owned(), Some(rank.to_owned()))
        }
        _ => (whole, None),
    }
}

fn ambiguous(stem: &str, folders: &[PathBuf], file: &Path) -> Error {
    let ending = file.extension().map_or_else(String::new, |e| format!(".{}", e.to_string_lossy()));
    let files = |folder: &PathBuf| folder.join(format!("{stem}_*{ending}")).display().to_string();
    let say = |names: [String; 2]| {
        let words = names
            .iter()
            .zip(folders)
            .map(|(name, folder)| format!("{name}={}", shell_quote(&files(folder))));
        words.collect::<Vec<_>>().join(" ")
    };
    let folder_name = |folder: &PathBuf| {
        folder
            .file_name()
            .map_or_else(|| "here".to_owned(), |name| name.to_string_lossy().into_owned())
    };
    Error::usage(format!(
        "files called '{stem}' are in two folders: two variants, or two captures of one?"
    ))
    .with_hint(format!(
        "for two variants: {}; for two captures of one: {}",
        say([
            format!("{}-{stem}", folder_name(&folders[0])),
            format!("{}-{stem}", folder_name(&folders[1]))
        ]),
        say([stem.to_owned(), stem.to_owned()])
    ))
}

/// Files of one folder that have all but the rank in common.
struct Run<'a> {
    folder: &'a Path,
    stem: String,
    files: Vec<(&'a PathBuf, Option<String>)>,
}

/// The `compare` command to run instead, if `paths` are evidently several runs: files of different names (or folders) with the same rank.
pub(crate) fn several_runs(paths: &[PathBuf]) -> Option<String> {
    let runs = evident_runs(paths)?;
    let words = runs.iter().map(|Run { folder, stem, files }| {
        let unique = runs.iter().filter(|other| other.stem == *stem).count() == 1;
        let name = match folder.file_name() {
            Some(folder) if !unique => format!("{}-{stem}", folder.to_string_lossy()),
            _ => stem.clone(),
        };
        format!("{}={}", shell_quote(&name), shell_quote(&pattern(files)))
    });
    Some(format!("nsysnccl compare {}", words.collect::<Vec<_>>().join(" ")))
}

/// How to name `paths` as several captures of one variant, if that is evidently what they are.
pub(crate) fn as_repeats(name: &str, paths: &[PathBuf]) -> Option<String> {
    let runs = evident_runs(paths)?;
    let words: Vec<String> = runs
        .iter()
        .map(|run| format!("{}={}", shell_quote(name), shell_quote(&pattern(&run.files))))
        .collect();
    Some(format!("if these are several captures of '{name}', name each: {}", words.join(" ")))
}

/// The runs that `paths` are, if they are several and one rank is in two of them.
fn evident_runs(paths: &[PathBuf]) -> Option<Vec<Run<'_>>> {
    let mut runs: Vec<Run> = Vec::new();
    for path in paths {
        let (stem, rank) = stem(path);
        let folder = folder(path);
        match runs.iter_mut().find(|run| run.folder == folder && run.stem == stem) {
            Some(run) => run.files.push((path, rank)),
            None => runs.push(Run { folder, stem, files: vec![(path, rank)] }),
        }
    }
    let mut ranks: BTreeMap<&str, usize> = BTreeMap::new();
    for rank in runs.iter().flat_map(|run| run.files.iter().filter_map(|(_, rank)| rank.as_deref()))
    {
        *ranks.entry(rank).or_default() += 1;
    }
    let doubled = ranks.values().any(|&n| n > 1);
    (runs.len() > 1 && doubled).then_some(runs)
}

/// A pattern for the files of one run: the rank in the first name becomes `*`. It may match other files too.
pub(crate) fn pattern_of(paths: &[PathBuf]) -> String {
    pattern(&paths.iter().map(|path| (path, stem(path).1)).collect::<Vec<_>>())
}

/// The files of one run as a glob: the rank in the first name becomes `*`.
fn pattern(files: &[(&PathBuf, Option<String>)]) -> String {
    let Some((first, rank)) = files.first() else { return String::new() };
    let text = first.display().to_string();
    match rank.as_ref().and_then(|rank| Some((text.rfind(rank.as_str())?, rank.len()))) {
        Some((at, len)) if files.len() > 1 => format!("{}*{}", &text[..at], &text[at + len..]),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with empty files, and the paths of those asked for.
    fn folder(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a folder");
        for file in files {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().expect("has a parent")).expect("created");
            std::fs::write(path, "").expect("written");
        }
        dir
    }

    /// Groups as `name: file file | file` with paths relative to the folder.
    fn grouped(dir: &tempfile::TempDir, inputs: &[&str]) -> Result<Vec<String>> {
        let root = format!("{}/", dir.path().display());
        let inputs: Vec<String> = inputs.iter().map(|input| input.replace('@', &root)).collect();
        let show = |files: &Files| {
            files
                .reports
                .iter()
                .map(|p| p.display().to_string().replace(&root, ""))
                .collect::<Vec<_>>()
                .join(" ")
        };
        let groups = group(&inputs)?;
        Ok(groups
            .iter()
            .map(|g| {
                format!(
                    "{}: {}",
                    g.name,
                    g.captures.iter().map(show).collect::<Vec<_>>().join(" | ")
                )
            })
            .collect())
    }

    #[test]
    fn bare_files_are_grouped_by_name_without_the_rank() {
        let dir = folder(&[
            "ddp_0.sqlite",
            "ddp_1.sqlite",
            "view.rank0.sqlite",
            "view.rank1.sqlite",
            "one.sqlite",
            "run-2.sqlite",
        ]);
        assert_eq!(
            grouped(
                &dir,
                &[
                    "@view.rank0.sqlite",
                    "@ddp_1.sqlite",
                    "@ddp_0.sqlite",
                    "@view.rank1.sqlite",
                    "@one.sqlite",
                    "@run-2.sqlite"
                ]
            )
            .expect("groups"),
            [
                "view: view.rank0.sqlite view.rank1.sqlite",
                "ddp: ddp_1.sqlite ddp_0.sqlite",
                "one: one.sqlite",
                "run: run-2.sqlite"
            ]
        );
        assert_eq!(
            grouped(&dir, &["@ddp_*.sqlite"]).expect("groups"),
            ["ddp: ddp_0.sqlite ddp_1.sqlite"]
        );
    }

    #[test]
    fn the_same_name_again_is_another_capture() {
        let dir = folder(&["run1_0.sqlite", "run1_1.sqlite", "run2_0.sqlite", "new_0.sqlite"]);
        assert_eq!(
            grouped(&dir, &["old=@run1_*.sqlite", "new=@new_0.sqlite", "old=@run2_*.sqlite"])
                .expect("groups"),
            ["old: run1_0.sqlite run1_1.sqlite | run2_0.sqlite", "new: new_0.sqlite"]
        );
        let twice = grouped(&dir, &["old=@run1_*.sqlite", "old=@run1_0.sqlite"])
            .expect_err("the same file");
        assert!(twice.fact.contains("twice"), "{twice}");
    }

    /// What a shell makes of `old=run1_{0,1}.sqlite`, and what is written for want of a pattern.
    #[test]
    fn ranks_of_one_run_are_one_capture_however_they_are_listed() {
        let dir = folder(&[
            "run1_0.sqlite",
            "run1_1.sqlite",
            "run2_0.sqlite",
            "run2_1.sqlite",
            "x/run1_1.sqlite",
            "run1_00.sqlite",
            "plain.sqlite",
        ]);
        let cases: [(&[&str], &str); 7] = [
            (&["a=@run1_0.sqlite", "a=@run1_1.sqlite"], "run1_0.sqlite run1_1.sqlite"),
            (
                &["a=@run1_0.sqlite", "a=@run2_0.sqlite", "a=@run1_1.sqlite", "a=@run2_1.sqlite"],
                "run1_0.sqlite run1_1.sqlite | run2_0.sqlite run2_1.sqlite",
            ),
            (
                &["a=@run1_?.sqlite", "a=@run2_?.sqlite"],
                "run1_0.sqlite run1_1.sqlite | run2_0.sqlite run2_1.sqlite",
            ),
            // One pattern that matches two runs.
            (&["a=@run?_?.sqlite"], "run1_0.sqlite run1_1.sqlite | run2_0.sqlite run2_1.sqlite"),
            // Another folder, a rank twice, and files without a rank are repeats.
            (&["a=@run1_0.sqlite", "a=@x/run1_1.sqlite"], "run1_0.sqlite | x/run1_1.sqlite"),
            (&["a=@run1_0.sqlite", "a=@run1_00.sqlite"], "run1_0.sqlite | run1_00.sqlite"),
            (&["a=@run1_0.sqlite", "a=@plain.sqlite"], "run1_0.sqlite | plain.sqlite"),
        ];
        for (inputs, expected) in cases {
            assert_eq!(
                grouped(&dir, inputs).expect("groups"),
                [format!("a: {expected}")],
                "{inputs:?}"
            );
        }
        let twice = grouped(&dir, &["a=@run1_0.sqlite", "a=@run1_1.sqlite", "a=@run1_1.sqlite"])
            .expect_err("the same file");
        assert!(twice.fact.contains("twice"), "{twice}");
    }

    #[test]
    fn the_plain_program_is_found_among_its_changes() {
        let groups = |names: &[&str]| -> Vec<Group> {
            names
                .iter()
                .map(|name| Group {
                    name: (*name).to_owned(),
                    named_by_files: true,
                    ..Group::default()
                })
                .collect()
        };
        // As a shell sorts shm-2gpu-bf16_0.sqlite and shm-2gpu_0.sqlite.
        assert_eq!(
            plain(&groups(&["shm-2gpu-bf16", "shm-2gpu-view", "shm-2gpu"])),
            Some("shm-2gpu")
        );
        assert_eq!(plain(&groups(&["baseline", "ddp-2gpu-bf16", "ddp-2gpu"])), None);
        assert_eq!(plain(&groups(&["ddp"])), None);
        let mut named = groups(&["ddp-view", "ddp"]);
        named[0].named_by_files = false;
        assert_eq!(plain(&named), None);

        let dir = folder(&["ddp-view_0.sqlite", "ddp_0.sqlite"]);
        let root = dir.path().display();
        let named_by_files = |inputs: &[String]| {
            group(inputs).expect("groups").iter().map(|g| g.named_by_files).collect::<Vec<_>>()
        };
        assert_eq!(
            named_by_files(&[
                format!("{root}/ddp-view_0.sqlite"),
                format!("ddp={root}/ddp_0.sqlite")
            ]),
            [true, false]
        );
    }

    #[test]
    fn a_path_that_exists_is_a_path_even_with_an_equals_sign() {
        let dir = folder(&["lr=3_0.sqlite", "lr=3_1.sqlite", "a=b/x_0.sqlite"]);
        assert_eq!(
            grouped(&dir, &["@lr=3_0.sqlite", "@lr=3_1.sqlite"]).expect("groups"),
            ["lr=3: lr=3_0.sqlite lr=3_1.sqlite"]
        );
        assert_eq!(grouped(&dir, &["@a=b/x_*.sqlite"]).expect("groups"), ["x: a=b/x_0.sqlite"]);
    }

    #[test]
    fn one_name_in_two_folders_is_refused_with_both_ways_to_say_it() {
        let dir = folder(&["nvlink/ddp_0.sqlite", "shm/ddp_0.sqlite"]);
        let error =
            grouped(&dir, &["@nvlink/ddp_0.sqlite", "@shm/ddp_0.sqlite"]).expect_err("ambiguous");
        assert_eq!(error.exit_code(), 2);
        let hint = error.hint.expect("says how").replace(&format!("{}/", dir.path().display()), "");
        assert_eq!(
            hint,
            "for two variants: nvlink-ddp='nvlink/ddp_*.sqlite' shm-ddp='shm/ddp_*.sqlite'; \
             for two captures of one: ddp='nvlink/ddp_*.sqlite' ddp='shm/ddp_*.sqlite'"
        );
    }

    #[test]
    fn what_means_no_file_is_an_error() {
        let dir = folder(&[]);
        for (input, exit, fact) in [
            ("@none_*.sqlite", 3, "matches no file"),
            ("a=@none_*.sqlite", 3, "matches no file"),
            ("=@x.sqlite", 2, "lacks a name"),
            ("a=", 2, "lacks files"),
            ("@[x.sqlite", 2, "not a pattern for file names"),
        ] {
            let error = grouped(&dir, &[input]).expect_err(input);
            assert_eq!(error.exit_code(), exit, "{input}: {error}");
            assert!(error.fact.contains(fact), "{input}: {error}");
        }
    }

    #[test]
    fn several_runs_are_proposed_as_a_comparison() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        let propose = |names: &[&str]| several_runs(&paths(names));
        assert_eq!(propose(&["ddp_0.sqlite", "ddp_1.sqlite"]), None);
        assert_eq!(propose(&["node-a.sqlite", "node-b.sqlite"]), None);
        assert_eq!(propose(&["a_0.sqlite", "b_1.sqlite"]), None);
        assert_eq!(
            propose(&["x/ddp_0.sqlite", "x/ddp_1.sqlite", "x/view_0.sqlite"]).as_deref(),
            Some("nsysnccl compare ddp='x/ddp_*.sqlite' view=x/view_0.sqlite")
        );
        assert_eq!(
            propose(&["shm/ddp_0.sqlite", "nvlink/ddp_0.sqlite"]).as_deref(),
            Some("nsysnccl compare shm-ddp=shm/ddp_0.sqlite nvlink-ddp=nvlink/ddp_0.sqlite")
        );
        assert_eq!(
            propose(&["a b_0.sqlite", "it's_0.sqlite"]).as_deref(),
            Some(r"nsysnccl compare 'a b'='a b_0.sqlite' 'it'\''s'='it'\''s_0.sqlite'")
        );
    }
}
