//! Folders that are searched for files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Folders inside each other that are searched. Nobody keeps captures deeper, and paths have a longest length.
const DEEPEST: usize = 100;

/// The files in `folder` and below that are wanted, in order of their paths.
///
/// # Errors
/// A folder that cannot be listed, or folders inside each other without end.
pub(crate) fn files_below(
    folder: &Path,
    wanted: &dyn Fn(&Path) -> bool,
) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    search(folder, DEEPEST, wanted, &mut BTreeSet::new(), &mut found)?;
    Ok(found)
}

/// A folder that was searched before (a link that leads back) is left out.
fn search(
    folder: &Path,
    levels: usize,
    wanted: &dyn Fn(&Path) -> bool,
    folders: &mut BTreeSet<PathBuf>,
    found: &mut BTreeSet<PathBuf>,
) -> Result<()> {
    let Some(below) = levels.checked_sub(1) else {
        return Err(Error::input(
            folder,
            format!("is more than {DEEPEST} folders deep, and is not searched"),
        )
        .with_hint("name the folder that holds the files"));
    };
    let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    if !folders.insert(real) {
        return Ok(());
    }
    let unreadable = |e: std::io::Error| Error::input(folder, format!("cannot be listed: {e}"));
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_dir() {
            search(&path, below, wanted, folders, found)?;
        } else if path.is_file() && wanted(&path) {
            found.insert(path);
        }
    }
    Ok(())
}
