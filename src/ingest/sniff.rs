//! What a file is, before anything tries to read it: the wrong kind of file gets the right advice.

use std::io::Read;
use std::path::Path;

use super::encoding::AsUtf8;
use super::{open, topo};
use crate::{Error, Result, text};

const SQLITE_MAGIC: &[u8] = b"SQLite format 3\0";
/// Bytes that tell what a file is.
const HEAD: u64 = 64 * 1024;
/// Bytes of a database's header.
const HEADER: u64 = 100;
/// Bytes before the first change in a write-ahead log.
const WAL_HEADER: usize = 32;
const EXPORT: &str = "nsys export --type sqlite --include-blobs true --include-json true";

/// What a file is by its first bytes and its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A database, or a file that should be one by its name: [`require_sqlite`] says whether it can be read.
    Export,
    /// Text, perhaps in gzip, that may be a log.
    Text,
    /// The matrix of `nvidia-smi topo`.
    Topology,
    /// None of these.
    Unknown,
}

/// What the file at `path` is.
///
/// # Errors
/// It is not there or cannot be read.
pub fn kind(path: &Path) -> Result<Kind> {
    let head = open::head(path, HEAD)?;
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
    let of_nsys = matches!(ending.as_str(), "sqlite" | "nsys-rep" | "qdrep" | "qdstrm");
    if head.starts_with(SQLITE_MAGIC) || head.starts_with(b"\x89HDF") || of_nsys {
        return Ok(Kind::Export);
    }
    if head.starts_with(&[0x1f, 0x8b]) {
        return Ok(Kind::Text);
    }
    let mut text = Vec::new();
    // Reading from memory cannot fail.
    let _ = AsUtf8::new(head.as_slice()).read_to_end(&mut text);
    if text.contains(&0) {
        return Ok(Kind::Unknown);
    }
    Ok(if topo::parse(&String::from_utf8_lossy(&text)).is_some() {
        Kind::Topology
    } else {
        Kind::Text
    })
}

/// Refuses everything that is not a whole SQLite file.
///
/// # Errors
/// A missing, empty, truncated or different file, each with the next step.
pub fn require_sqlite(path: &Path) -> Result<u64> {
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
            .with_hint(format!("export the report again: {EXPORT} REPORT.nsys-rep")));
    }
    if !head.starts_with(SQLITE_MAGIC) {
        return Err(not_sqlite(path, &head));
    }
    match declared_size(&head) {
        Some(declared) if declared > size => {
            Err(Error::input(path, format!("is cut short: {size} bytes of {declared}")).with_hint(
                format!("copy it again, or export the report again: {EXPORT} REPORT.nsys-rep"),
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
            .with_hint(format!("wait for the program that writes it, or export the report again: {EXPORT} REPORT.nsys-rep")));
    }
    if beside("-wal").len() > WAL_HEADER {
        return Err(Error::input(path, "was changed: the -wal file beside it holds changes that are not in it yet").with_hint(format!(
            "close the program that has it open, or run: sqlite3 {} 'PRAGMA wal_checkpoint(TRUNCATE)'",
            text::shell_quote(&path.to_string_lossy())
        )));
    }
    Ok(())
}

fn not_sqlite(path: &Path, head: &[u8]) -> Error {
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
    let quoted = text::shell_quote(&path.to_string_lossy());
    let command = format!("{EXPORT} {quoted}");
    match ending.as_str() {
        "nsys-rep" | "qdrep" => {
            Error::input(path, "is a report of Nsight Systems, which only nsys itself can read")
                .with_hint(format!("run: {command}"))
        }
        "qdstrm" => {
            Error::input(path, "is a raw capture that was not imported yet").with_hint(format!(
                "import it first (QdstrmImporter -i {quoted}), then run: {EXPORT} on the .nsys-rep"
            ))
        }
        "log" | "jsonl" => Error::input(path, "is no SQLite file")
            .with_hint("give Inspector logs to --inspector and NCCL logs to --nccl-log"),
        _ if head.starts_with(&[0x1f, 0x8b]) => {
            Error::input(path, "is compressed with gzip").with_hint("unpack it first: gunzip")
        }
        _ if head.starts_with(b"\x89HDF") => Error::input(path, "is an HDF5 export")
            .with_hint(format!("export as SQLite: {EXPORT} REPORT.nsys-rep")),
        _ => Error::input(path, "is no SQLite file")
            .with_hint(format!("export the report: {EXPORT} REPORT.nsys-rep")),
    }
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
