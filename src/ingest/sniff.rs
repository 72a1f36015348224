//! Whether a file is a whole SQLite database, before anything tries to read it: the wrong kind of file gets the right advice.

use std::path::Path;

use super::kind::{self, Kind, SQLITE_MAGIC};
use super::nsys::export::{self, AGAIN, COMMAND};
use super::open;
use crate::{Error, Result, text};

/// Bytes of a database's header.
const HEADER: u64 = 100;
/// Bytes before the first change in a write-ahead log.
const WAL_HEADER: usize = 32;

/// Refuses everything that is not a whole SQLite file.
///
/// # Errors
/// A missing, empty, truncated or different file, each with the next step.
pub(crate) fn require_sqlite(path: &Path) -> Result<u64> {
    if path.is_dir() {
        let look = format!(
            "name the .sqlite files in it; what is there, and which command fits, says: nsysnccl doctor {}",
            text::shell_quote(&path.to_string_lossy())
        );
        return Err(Error::input(path, "is a folder").with_hint(look));
    }
    let head = open::head(path, HEADER)?;
    let size = std::fs::metadata(path)
        .map_err(|e| Error::input(path, format!("cannot be opened: {e}")))?
        .len();
    if size == 0 {
        return Err(Error::input(path, "is empty")
            .with_hint(format!("export the report again: {AGAIN} REPORT.nsys-rep")));
    }
    if !head.starts_with(SQLITE_MAGIC) {
        return Err(not_sqlite(path, &head));
    }
    match declared_size(&head) {
        Some(declared) if declared > size => {
            Err(Error::input(path, format!("is cut short: {size} bytes of {declared}")).with_hint(
                format!("copy it again, or export the report again: {AGAIN} REPORT.nsys-rep"),
            ))
        }
        _ => require_finished(path).map(|()| size),
    }
}

/// Refuses a file of which a part is still in a file beside it (<https://www.sqlite.org/tempfiles.html>): without that part it would
/// be another report.
fn require_finished(path: &Path) -> Result<()> {
    // SQLite follows links before it adds the ending.
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let beside = |ending: &str| {
        let mut name = real.clone().into_os_string();
        name.push(ending);
        open::head(Path::new(&name), WAL_HEADER as u64 + 1).unwrap_or_default()
    };
    // A journal that was not needed in the end begins with zeros.
    if beside("-journal").first().is_some_and(|&byte| byte != 0) {
        return Err(Error::input(path, "is not finished: the -journal file beside it holds a change that did not end")
            .with_hint(format!("wait for the program that writes it, or export the report again: {AGAIN} REPORT.nsys-rep")));
    }
    if beside("-wal").len() > WAL_HEADER {
        return Err(Error::input(path, "was changed: the -wal file beside it holds changes that are not in it yet").with_hint(format!(
            "close the program that has it open, or run: sqlite3 {} 'PRAGMA wal_checkpoint(TRUNCATE)'",
            text::shell_quote(&path.to_string_lossy())
        )));
    }
    Ok(())
}

/// What to do with a file that is not a database, by what it is.
fn not_sqlite(path: &Path, head: &[u8]) -> Error {
    let no = |fact: String, hint: String| Error::input(path, fact).with_hint(hint);
    let export = || format!("export the report: {COMMAND} REPORT.nsys-rep");
    if head.starts_with(kind::GZIP_MAGIC) && kind::has_name_of(path, &[Kind::Export]) {
        return no("is compressed with gzip".to_owned(), unpack(path));
    }
    match kind::told(path).unwrap_or_default().as_slice() {
        [Kind::NsysReport] => export::not_exported(path),
        [Kind::Export] if head.starts_with(kind::HDF5_MAGIC) => no(
            "is an HDF5 export".to_owned(),
            format!("export as SQLite: {COMMAND} REPORT.nsys-rep"),
        ),
        [Kind::Export] | [] => no("is not a SQLite file".to_owned(), export()),
        [_] if head.starts_with(kind::GZIP_MAGIC) => {
            no("is compressed with gzip".to_owned(), unpack(path))
        }
        [one] => {
            let row = one.row();
            no(
                format!("is {}, not an export of nsys", row.one),
                format!("it is read by nsysnccl {}", row.read_by),
            )
        }
        logs => {
            let words: Vec<String> = logs
                .iter()
                .map(|log| format!("{} are read by {}", log.row().several, log.row().read_by))
                .collect();
            no("is not a SQLite file".to_owned(), format!("{}; {}", words.join(", "), export()))
        }
    }
}

/// The command that unpacks a file beside itself.
fn unpack(path: &Path) -> String {
    let plain = match path.extension() {
        Some(ending) if ending.eq_ignore_ascii_case("gz") => path.with_extension(""),
        _ => path.with_extension("unpacked.sqlite"),
    };
    let [from, to] = [path, &plain].map(|path| text::shell_quote(&path.to_string_lossy()));
    format!("unpack it first: gzip -dc < {from} > {to}")
}

/// The size that the header promises, where the header is up to date (<https://www.sqlite.org/fileformat.html>, 1.3).
fn declared_size(head: &[u8]) -> Option<u64> {
    let number =
        |at: usize| head.get(at..at + 4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
    let page = match u16::from_be_bytes([*head.get(16)?, *head.get(17)?]) {
        1 => 65536,
        n => u64::from(n),
    };
    (number(24)? == number(92)?).then_some(u64::from(number(28)?) * page)
}
