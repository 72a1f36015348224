//! Reports of Nsight Systems that were not exported yet: only nsys itself can read them, so it exports them, into a cache and never
//! beside the report.

use std::ffi::OsString;
use std::fs::Metadata;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::UNIX_EPOCH;

use crate::ingest::{kind, open};
use crate::text::shell_quote;
use crate::{Error, Result};

/// The program.
const NSYS: &str = "nsys";
/// Its words for an export with everything that is read; the report follows.
const WORDS: [&str; 7] =
    ["export", "--type", "sqlite", "--include-blobs", "true", "--include-json", "true"];
/// `WORDS` as a command line.
pub const COMMAND: &str = "nsys export --type sqlite --include-blobs true --include-json true";
/// The same where an earlier export is replaced.
pub const AGAIN: &str =
    "nsys export --type sqlite --include-blobs true --include-json true --force-overwrite true";
/// Characters of what nsys says that are quoted.
const QUOTED: usize = 300;

/// True for a name of reports that nsys exports.
pub fn can_be_exported(path: &Path) -> bool {
    kind::has_name_of(path, &[kind::Kind::NsysReport]) && !is_raw(path)
}

/// The export of the report at `path`: that of an earlier call if the report is the same file as then, else a new one.
///
/// # Errors
/// The report cannot be read, there is no nsys on the PATH, it fails, or the cache cannot be written to.
pub fn exported(path: &Path) -> Result<PathBuf> {
    open::open(path)?;
    let unreadable = |e: std::io::Error| Error::input(path, format!("cannot be read: {e}"));
    let source = path.canonicalize().map_err(unreadable)?;
    let key = key(&source, &source.metadata().map_err(unreadable)?);
    let place = Place::of(&source)?;
    if place.export.is_file() && std::fs::read(&place.key).is_ok_and(|known| known == key) {
        return Ok(place.export);
    }
    let unwritable = |at: &Path, e: std::io::Error| {
        Error::output(at, format!("cannot be written: {e}"))
            .with_hint(format!("set XDG_CACHE_HOME, or run: {}", command(path)))
    };
    // A key without its export, or an export without its key, is exported again.
    let _ = std::fs::remove_file(&place.key);
    let result = run(path, &source, &place.unfinished).and_then(|()| {
        std::fs::rename(&place.unfinished, &place.export)
            .and_then(|()| std::fs::write(&place.key, &key))
            .map_err(|e| unwritable(&place.export, e))
    });
    if result.is_err() {
        let _ = std::fs::remove_file(&place.unfinished);
    }
    result.map(|()| place.export)
}

/// That the report at `path` was not exported, and what to do about it.
pub fn not_exported(path: &Path) -> Error {
    let quoted = shell_quote(&path.to_string_lossy());
    if is_raw(path) {
        return Error::input(path, "is a raw capture that was not imported yet").with_hint(
            format!(
                "import it first (QdstrmImporter -i {quoted}), then run: {COMMAND} on the .nsys-rep"
            ),
        );
    }
    Error::input(path, "is a report of Nsight Systems, which only nsys itself can read")
        .with_hint(format!("run: {}", command(path)))
}

/// A capture that nsys itself has to import first.
fn is_raw(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("qdstrm"))
}

fn command(path: &Path) -> String {
    format!("{COMMAND} {}", shell_quote(&path.to_string_lossy()))
}

/// Lets nsys write the export.
fn run(path: &Path, source: &Path, to: &Path) -> Result<()> {
    let done = Command::new(NSYS)
        .args(WORDS)
        .args(["--force-overwrite", "true", "--output"])
        .args([to, source])
        .stdin(Stdio::null())
        .output();
    let output = match done {
        Ok(output) => output,
        Err(e) if e.kind() == ErrorKind::NotFound => return Err(not_exported(path)),
        Err(e) => {
            return Err(Error::input(path, format!("was not exported: nsys cannot be run: {e}"))
                .with_hint(format!("run: {}", command(path))));
        }
    };
    if output.status.success() && to.is_file() {
        return Ok(());
    }
    let said = [output.stderr, output.stdout].concat();
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    let why = if last.is_empty() { "it does not say why" } else { last };
    let why = crate::text::shorten(why, QUOTED);
    Err(Error::input(path, format!("was not exported: nsys ended with {}: {why}", output.status))
        .with_hint(format!("run: {}", command(path))))
}

/// What tells a report from its later versions.
fn key(source: &Path, metadata: &Metadata) -> Vec<u8> {
    let modified = metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let modified = modified.map_or(0, |since| since.as_nanos());
    let mut key = source.as_os_str().as_encoded_bytes().to_vec();
    key.extend(format!("\n{} bytes, modified {modified}\n", metadata.len()).bytes());
    key
}

/// Where an export is kept.
struct Place {
    export: PathBuf,
    /// Of which report it is.
    key: PathBuf,
    unfinished: PathBuf,
}

impl Place {
    /// Reports of one folder are exported to one folder, under their own names: by these ranks belong together.
    fn of(source: &Path) -> Result<Place> {
        let mut hasher = DefaultHasher::new();
        source.parent().hash(&mut hasher);
        let folder = cache()?.join(format!("{:016x}", hasher.finish()));
        create(&folder)?;
        let stem = source.file_stem().unwrap_or_default();
        let named = |before: &str, after: String| {
            let mut name = OsString::from(before);
            name.push(stem);
            name.push(after);
            folder.join(name)
        };
        Ok(Place {
            export: named("", ".sqlite".to_owned()),
            key: named("", ".source".to_owned()),
            unfinished: named(".", format!(".{}.sqlite", std::process::id())),
        })
    }
}

/// The folder of exports: in the user's cache, or else a folder of temporary files that nobody else can read.
fn cache() -> Result<PathBuf> {
    let set = |name: &str| {
        std::env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_absolute())
    };
    if let Some(home) =
        set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")))
    {
        return Ok(home.join("nsysnccl"));
    }
    let folder = std::env::temp_dir().join("nsysnccl-exports");
    create(&folder)?;
    if !is_private(&folder) {
        return Err(Error::output(&folder, "may be read or changed by others")
            .with_hint("set XDG_CACHE_HOME to a folder of your own"));
    }
    Ok(folder)
}

/// Creates a folder for its owner alone: an export holds the environment of the program that was captured.
fn create(folder: &Path) -> Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|e| {
        Error::output(folder, format!("cannot be created: {e}"))
            .with_hint("set XDG_CACHE_HOME to a folder that can be written to")
    })
}

fn is_private(folder: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::symlink_metadata(folder)
            .is_ok_and(|meta| meta.is_dir() && meta.permissions().mode() & 0o077 == 0)
    }
    #[cfg(not(unix))]
    {
        let _ = folder;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_the_command() {
        assert_eq!(format!("{NSYS} {}", WORDS.join(" ")), COMMAND);
        assert_eq!(AGAIN.strip_prefix(COMMAND), Some(" --force-overwrite true"));
    }
}
