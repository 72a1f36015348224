//! Which files a user means by a path or a folder.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::ingest::folder;
use crate::ingest::kind::{self, Kind};
use crate::{Error, Result};

/// The files behind `paths`, in order of their paths, each once: files as they are, folders searched to any depth.
///
/// # Errors
/// A path that does not exist, a folder that cannot be listed or holds no log.
pub fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found = BTreeSet::new();
    for path in paths {
        if !path.exists() {
            return Err(Error::input(path, "there is no such file or folder"));
        }
        if !path.is_dir() {
            found.insert(path.clone());
            continue;
        }
        let mut here = folder::files_below(path, &is_log)?;
        if here.is_empty() {
            return Err(Error::input(path, "holds no .log, .jsonl, .json or .prom file, also not as .gz").with_hint(
                "name the folder that NCCL_INSPECTOR_DUMP_DIR pointed to; its parent must have existed, or nothing was written",
            ));
        }
        found.append(&mut here);
    }
    // The same file by two ways (a link, `./x` and `x`) is one.
    let mut seen = BTreeSet::new();
    Ok(found
        .into_iter()
        .filter(|path| seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())))
        .collect())
}

/// True for a name that Inspector logs have: only those are looked at in a folder, but a file that is named is read in any case.
pub fn is_log(path: &Path) -> bool {
    kind::has_name_of(path, &[Kind::InspectorLog, Kind::Prometheus])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_searched_and_every_file_is_found_once() {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("b/deep")).expect("a folder");
        for name in
            ["a.log", "a.log.gz", "notes.txt", "b/deep/x.JSONL", "b/y.json", "b/core", "b/m.prom"]
        {
            std::fs::write(at(name), "").expect("a file");
        }
        #[cfg(unix)]
        std::os::unix::fs::symlink(dir.path(), at("b/loop")).expect("a link");
        let names = |paths: &[PathBuf]| -> Vec<String> {
            let found = files(paths).expect("found");
            found
                .iter()
                .map(|p| p.strip_prefix(dir.path()).expect("inside").display().to_string())
                .collect()
        };
        assert_eq!(
            names(&[dir.path().to_owned()]),
            ["a.log", "a.log.gz", "b/deep/x.JSONL", "b/m.prom", "b/y.json"]
        );
        assert_eq!(
            names(&[at("notes.txt"), at("a.log"), at("./b/../a.log")]),
            ["a.log", "notes.txt"]
        );
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        let dir = tempfile::tempdir().expect("a folder");
        let empty = files(&[dir.path().to_owned()]).expect_err("nothing there");
        assert!(empty.hint.is_some() && empty.to_string().contains("holds no .log"), "{empty}");
        let absent = files(&[dir.path().join("none.log")]).expect_err("nothing there");
        assert!(
            absent.to_string().ends_with("none.log: there is no such file or folder"),
            "{absent}"
        );
    }
}
