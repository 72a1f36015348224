//! Which files a user means by a path, a folder or a pattern.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Endings of files that are looked at in a folder, plain or followed by `.gz`. A file that is named is read whatever its name is.
const ENDINGS: [&str; 4] = ["log", "jsonl", "json", "prom"];

/// The files behind `paths`, in order of their paths, each once: files as they are, folders searched to any depth, patterns expanded.
///
/// # Errors
/// A path that does not exist, a folder that cannot be listed or holds no log, a pattern without a match.
pub fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found = BTreeSet::new();
    let mut folders = BTreeSet::new();
    for path in paths {
        let before = found.len();
        for path in expand(path)? {
            if path.is_dir() {
                search(&path, &mut folders, &mut found)?;
            } else {
                found.insert(path);
            }
        }
        if found.len() == before && path.is_dir() && paths.len() == 1 {
            return Err(Error::input(path, "holds no .log, .jsonl, .json or .prom file, also not as .gz").with_hint(
                "name the folder that NCCL_INSPECTOR_DUMP_DIR pointed to; its parent must have existed, or nothing was written",
            ));
        }
    }
    // The same file by two ways (a link, `./x` and `x`) is one.
    let mut seen = BTreeSet::new();
    Ok(found.into_iter().filter(|path| seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone()))).collect())
}

fn expand(path: &Path) -> Result<Vec<PathBuf>> {
    if path.exists() {
        return Ok(vec![path.to_owned()]);
    }
    let missing = |fact: &str| Error::input(path, fact.to_owned()).with_hint("check the path, or quote the pattern");
    let Some(pattern) = path.to_str().filter(|p| p.contains(['*', '?', '['])) else {
        return Err(missing("does not exist"));
    };
    let matches: Vec<PathBuf> = glob::glob(pattern).map_err(|e| missing(&e.to_string()))?.flatten().collect();
    if matches.is_empty() { Err(missing("matches no file")) } else { Ok(matches) }
}

/// Adds the logs in `folder` and below. A folder that was searched before (a link that leads back) is left out.
fn search(folder: &Path, folders: &mut BTreeSet<PathBuf>, found: &mut BTreeSet<PathBuf>) -> Result<()> {
    let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    if !folders.insert(real) {
        return Ok(());
    }
    let unreadable = |e: std::io::Error| Error::input(folder, format!("cannot be listed: {e}"));
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_dir() {
            search(&path, folders, found)?;
        } else if is_log(&path) {
            found.insert(path);
        }
    }
    Ok(())
}

fn is_log(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let plain = name.strip_suffix(".gz").unwrap_or(&name);
    plain.rsplit_once('.').is_some_and(|(_, ending)| ENDINGS.contains(&ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_searched_and_every_file_is_found_once() {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("b/deep")).expect("a folder");
        for name in ["a.log", "a.log.gz", "notes.txt", "b/deep/x.JSONL", "b/y.json", "b/core", "b/m.prom"] {
            std::fs::write(at(name), "").expect("a file");
        }
        #[cfg(unix)]
        std::os::unix::fs::symlink(dir.path(), at("b/loop")).expect("a link");
        let names = |paths: &[PathBuf]| -> Vec<String> {
            let found = files(paths).expect("found");
            found.iter().map(|p| p.strip_prefix(dir.path()).expect("inside").display().to_string()).collect()
        };
        assert_eq!(names(&[dir.path().to_owned()]), ["a.log", "a.log.gz", "b/deep/x.JSONL", "b/m.prom", "b/y.json"]);
        assert_eq!(names(&[at("notes.txt"), at("a.log"), at("./b/../a.log")]), ["a.log", "notes.txt"]);
        assert_eq!(names(&[at("*.log*")]), ["a.log", "a.log.gz"]);
    }

    #[test]
    fn what_is_not_there_is_an_error_with_a_next_step() {
        let dir = tempfile::tempdir().expect("a folder");
        for path in [dir.path().to_owned(), dir.path().join("none.log"), dir.path().join("*.log")] {
            assert!(files(&[path]).expect_err("nothing there").hint.is_some());
        }
    }
}
