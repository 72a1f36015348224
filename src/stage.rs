//! Output files that appear all together and whole, or not at all.
//!
//! Each is written beside its place under a name of its own; when all are complete they are renamed. What a user expects
//! of a file that is replaced holds: its mode and owner stay, a link stays a link, one that may not be written to is
//! refused, and a pipe or device is written to as it is.

use std::fs::{File, Metadata, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Error, Result};

/// Links that are followed from an output to where its file is, as systems do.
const MOST_LINKS: usize = 40;
/// Names that are tried for a temporary file.
const MOST_NAMES: u32 = 1000;

/// Temporary files that exist now: a signal that ends the program removes them first, but never while files are renamed.
static TEMPORARY: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn temporary() -> MutexGuard<'static, Vec<PathBuf>> {
    TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Files on their way to their places. Those that were not [placed](Stage::place) are removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Stage {
    files: Vec<Staged>,
}

/// A complete file beside its place.
#[derive(Debug)]
struct Staged {
    temporary: PathBuf,
    place: PathBuf,
    /// Another name of the file that it replaces, until all files are in place.
    replaced: Option<PathBuf>,
}

impl Default for Stage {
    fn default() -> Self {
        #[cfg(unix)]
        signals::watch();
        Self { files: Vec::new() }
    }
}

impl Stage {
    /// Writes a whole file that will be at `path`.
    #[cfg(test)]
    pub(crate) fn write(&mut self, path: &Path, bytes: &[u8]) -> Result<()> {
        self.fill(path, |out| out.write_all(bytes)).map(|_| ())
    }

    /// Lets `write` fill a file that will be at `path`; returns how many bytes it has.
    ///
    /// # Errors
    /// It cannot be written, there or beside it.
    pub(crate) fn fill(
        &mut self,
        path: &Path,
        write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
    ) -> Result<u64> {
        let file = self.create(path)?;
        let fill = || {
            let mut out = std::io::BufWriter::new(&file);
            write(&mut out)?;
            out.flush()?;
            drop(out);
            let metadata = file.metadata()?;
            if metadata.is_file() {
                // A full disk may show only here.
                file.sync_all()?;
            }
            Ok(metadata.len())
        };
        fill().map_err(|e| unwritable(path, &e))
    }

    /// A new file that will be at `path`, to be written to and closed before it is placed. A pipe or device is itself
    /// what is written to.
    ///
    /// # Errors
    /// It cannot be written, there or beside it.
    pub(crate) fn create(&mut self, path: &Path) -> Result<File> {
        let place = followed(path);
        let present = match std::fs::metadata(&place) {
            Ok(metadata) => Some(metadata),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            Err(e) => return Err(unwritable(path, &e)),
        };
        if present.is_some() {
            // A new file could take the place of one that may not be written to: its folder decides that.
            let existing = OpenOptions::new().write(true).open(&place);
            let existing = existing.map_err(|e| unwritable(path, &e))?;
            if present.as_ref().is_some_and(|metadata| !metadata.is_file()) {
                return Ok(existing);
            }
        }
        let (file, temporary) = beside(&place).map_err(|e| unwritable(path, &e))?;
        self.files.push(Staged { temporary, place, replaced: None });
        if let Some(present) = present {
            like(&file, &present);
        }
        Ok(file)
    }

    /// Puts every file in its place. If one cannot be, those before it are what they were.
    ///
    /// # Errors
    /// A file cannot be put in its place.
    pub(crate) fn place(mut self) -> Result<()> {
        // Held until all are in place: a signal waits.
        let mut names = temporary();
        let several = self.files.len() > 1;
        let mut result = Ok(());
        let mut placed = 0;
        for staged in &mut self.files {
            if several && staged.place.exists() {
                let replaced =
                    name_beside(&staged.place, |name| std::fs::hard_link(&staged.place, name));
                staged.replaced = replaced.ok().map(|((), name)| name);
            }
            if let Err(e) = std::fs::rename(&staged.temporary, &staged.place) {
                result = Err(Error::output(&staged.place, format!("cannot be put in place: {e}")));
                break;
            }
            placed += 1;
        }
        if result.is_err() {
            // Best effort: the error that is reported is the first one.
            for staged in self.files.iter_mut().take(placed).rev() {
                let _ = match staged.replaced.take() {
                    Some(replaced) => std::fs::rename(replaced, &staged.place),
                    None => std::fs::remove_file(&staged.place),
                };
            }
        }
        self.clear(&mut names);
        result
    }

    /// Removes what is left beside the places.
    fn clear(&mut self, names: &mut Vec<PathBuf>) {
        for staged in self.files.drain(..) {
            names.retain(|name| *name != staged.temporary);
            let _ = std::fs::remove_file(&staged.temporary);
            if let Some(replaced) = staged.replaced {
                let _ = std::fs::remove_file(replaced);
            }
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if !self.files.is_empty() {
            self.clear(&mut temporary());
        }
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> Error {
    Error::output(path, format!("cannot be written: {error}")).with_hint(
        "check that its folder exists and may be written to, and that the disk is not full",
    )
}

/// Where the file behind `path` is or will be: links are followed, also one that leads to no file yet.
pub(crate) fn followed(path: &Path) -> PathBuf {
    let mut place = path.to_owned();
    for _ in 0..MOST_LINKS {
        match std::fs::read_link(&place) {
            Ok(target) => place = place.parent().unwrap_or(Path::new("")).join(target),
            Err(_) => break,
        }
    }
    place
}

/// A new, empty file beside `place`.
fn beside(place: &Path) -> std::io::Result<(File, PathBuf)> {
    let mut names = temporary();
    let made =
        name_beside(place, |name| OpenOptions::new().write(true).create_new(true).open(name))?;
    names.push(made.1.clone());
    Ok(made)
}

/// Makes something beside `place` under the first name that is free. Names are short: that of the place may be as long as
/// a name can be.
fn name_beside<T>(
    place: &Path,
    make: impl Fn(&Path) -> std::io::Result<T>,
) -> std::io::Result<(T, PathBuf)> {
    let mut number = 0;
    loop {
        let name = place.with_file_name(format!(".nsysnccl-{}-{number}.tmp", std::process::id()));
        match make(&name) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && number < MOST_NAMES => {
                number += 1
            }
            Err(e) => return Err(e),
            Ok(made) => return Ok((made, name)),
        }
    }
}

/// Gives a new file the mode and, where that is allowed, the owner of the one that it replaces.
fn like(file: &File, present: &Metadata) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let _ = std::os::unix::fs::fchown(file, Some(present.uid()), Some(present.gid()));
    }
    // After the owner, whose change takes bits away.
    let _ = file.set_permissions(present.permissions());
}

/// What a signal does while there are temporary files.
#[cfg(unix)]
mod signals {
    use std::sync::atomic::AtomicBool;
    use std::sync::{Arc, Once};

    use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
    use signal_hook::iterator::Signals;
    use signal_hook::low_level::emulate_default_handler;

    /// Removes temporary files before SIGINT or SIGTERM ends the program, and makes the shell's limit
    /// of file sizes (`ulimit -f`) an error of writing.
    /// Where it cannot be arranged, files are still whole or not there.
    pub(super) fn watch() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
            let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else { return };
            let _ = std::thread::Builder::new().spawn(move || {
                if let Some(signal) = signals.forever().next() {
                    let names = super::temporary();
                    names.iter().for_each(|name| drop(std::fs::remove_file(name)));
                    let _ = emulate_default_handler(signal);
                }
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).expect("a folder");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn files_appear_together_or_stay_as_they_were() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("old.md"), "old").expect("written");
        let mut stage = Stage::default();
        for name in ["new.md", "old.md", "gone.md"] {
            stage.write(&at(name), b"new").expect("staged");
        }
        assert_eq!(std::fs::read(at("old.md")).expect("read"), b"old");
        // The last one cannot be put in place any more.
        std::fs::create_dir(at("gone.md")).expect("made");
        assert!(stage.place().is_err());
        assert_eq!(names(folder.path()), ["gone.md", "old.md"]);
        assert_eq!(std::fs::read(at("old.md")).expect("read"), b"old");
        let mut stage = Stage::default();
        for name in ["new.md", "old.md"] {
            stage.write(&at(name), b"new").expect("staged");
        }
        stage.place().expect("placed");
        assert_eq!(names(folder.path()), ["gone.md", "new.md", "old.md"]);
        assert_eq!(std::fs::read(at("old.md")).expect("read"), b"new");
        let mut stage = Stage::default();
        stage.write(&at("dropped.md"), b"new").expect("staged");
        drop(stage);
        assert_eq!(names(folder.path()), ["gone.md", "new.md", "old.md"]);
    }

    #[cfg(unix)]
    #[test]
    fn modes_and_links_of_replaced_files_stay() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("far")).expect("made");
        std::fs::write(at("far/a.md"), "old").expect("written");
        std::fs::set_permissions(at("far/a.md"), PermissionsExt::from_mode(0o640)).expect("set");
        symlink("far/a.md", at("a.md")).expect("a link");
        symlink("far/b.md", at("b.md")).expect("a link");
        let mut stage = Stage::default();
        stage.write(&at("a.md"), b"new").expect("staged");
        stage.write(&at("b.md"), b"new").expect("staged");
        stage.place().expect("placed");
        for name in ["a.md", "b.md"] {
            assert!(at(name).is_symlink(), "{name}");
            assert_eq!(std::fs::read(at("far").join(name)).expect("read"), b"new");
        }
        let mode = std::fs::metadata(at("far/a.md")).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        // As long as a name can be.
        let long = "x".repeat(252) + ".md";
        let mut stage = Stage::default();
        stage.write(&at(&long), b"new").expect("staged");
        stage.place().expect("placed");
    }
}
