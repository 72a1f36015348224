//! NCCL Inspector logs of every version: JSON lines, plain or in gzip, and the text of the Prometheus mode.
//!
//! ```text
//! paths --find--> files --lines--> lines --parser, json--> records --> a sink for each file
//! ```
//! Files are read in parallel, each as a stream: what has to stay in memory is up to the sink. Features are found by the keys
//! of the records; the version string does not tell 2.28 from 2.30. Known faults of the writers are corrected on the way:
//! sizes of 2^64 - n, times of 0, `"nan"`, unquoted `inf`, names cut inside a character, headers only in the marker before.

mod find;
mod json;
mod lines;
mod memo;
mod parser;
mod prometheus;

use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use rayon::prelude::*;

pub use find::{files, is_log};

use crate::ingest::encoding::AsUtf8;
use crate::ingest::open;
use crate::model::record::{LogFile, Sink};
use crate::{Error, Result};

/// Reads every file in parallel into a sink of its own; the result has the order of `files`.
/// What cannot be used inside a file is counted in its [`LogFile`] and does not stop the reading.
///
/// # Errors
/// For each file that cannot be opened or read from its first byte on, in its place.
pub fn read<S: Sink + Send>(
    files: &[PathBuf],
    sink: impl Fn() -> S + Sync,
    done: impl Fn() + Sync,
) -> Vec<Result<(LogFile, S)>> {
    let read_one = |path: &PathBuf| {
        let mut sink = sink();
        let log = read_file(path, &mut sink);
        done();
        log.map(|log| (log, sink))
    };
    files.par_iter().map(read_one).collect()
}

/// Reads one file, in gzip if its first bytes say so.
///
/// # Errors
/// The file cannot be opened or read from its first byte on.
pub fn read_file(path: &Path, sink: &mut impl Sink) -> Result<LogFile> {
    let failed = |e: std::io::Error| Error::input(path, format!("cannot be read: {e}"));
    let mut file = open::open(path)?;
    let mut magic = Vec::with_capacity(2);
    (&mut file).take(2).read_to_end(&mut magic).map_err(failed)?;
    let gzip = magic == [0x1f, 0x8b];
    let whole = std::io::Cursor::new(magic).chain(file);
    let name = path.to_string_lossy().into_owned();
    Ok(if gzip {
        read_stream(name, MultiGzDecoder::new(whole), sink)
    } else {
        read_stream(name, whole, sink)
    })
}

/// Reads a stream of lines to its end, or to where it fails.
pub fn read_stream(name: String, stream: impl Read, sink: &mut impl Sink) -> LogFile {
    let mut lines = lines::Lines::new(AsUtf8::new(stream));
    let mut parser = parser::Parser::new(name, sink);
    while let Some(line) = lines.next() {
        parser.line(line);
    }
    parser.finish(lines.failure().map(ToString::to_string))
}
