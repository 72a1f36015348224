//! Why a report holds no GPU work: not captured, from before the capture, or launched but not recorded.

use super::db::{Db, int, text};
use super::metadata::Metadata;
use super::{notes, queries, schema};
use crate::text::{printable, shorten};
use crate::units::{count, listed, plural};
use crate::{Error, Result};

/// Characters of the profiler's note that are shown.
const NOTE: usize = 200;
/// Tables and columns that are named.
const NAMES: usize = 12;

/// The error for a report without GPU work; `before_capture` rows of it were there but left out.
///
/// # Errors
/// The report is damaged.
pub fn reason(db: &Db, meta: &Metadata, before_capture: u64) -> Result<Error> {
    let schema::Differences { lacking, unread_tables, newer, .. } = schema::of(db, meta);
    if let Some(newer) = newer {
        let (major, minor) = schema::NEWEST;
        let names: Vec<&str> = lacking.iter().chain(&unread_tables).map(String::as_str).collect();
        let fact = format!(
            "holds no GPU work that can be read: its schema {newer} is newer than the newest that is known here, {major}.{minor}, and differs in {}",
            listed(&names, NAMES)
        );
        if !names.is_empty() {
            return Ok(Error::input(db.path(), fact).with_hint(
                "look for a newer version of this program, or export the report with an older Nsight Systems",
            ));
        }
    }
    if before_capture > 0 {
        return Ok(Error::input(
            db.path(),
            format!(
                "holds no GPU work: all {} kernels, copies and graph rows are from before the capture",
                count(before_capture)
            ),
        )
        .with_hint(CAPTURE));
    }
    let (mut calls, mut launches, mut copies) = (0, 0, 0);
    let number = |row: &rusqlite::Row<'_>, at| {
        int(row, at).and_then(|n| usize::try_from(n).ok()).unwrap_or(0)
    };
    db.each(queries::GPU_CALLS, [], |row| {
        (calls, launches, copies) = (number(row, 0), number(row, 1), number(row, 2));
    })?;
    if calls == 0 {
        return Ok(Error::input(
            db.path(),
            "holds no GPU work (no kernels, no copies, no graph rows) and no CUDA API call",
        )
        .with_hint(CAPTURE));
    }
    // Names of calls may be missing; then their number says as much.
    let traced = match (launches, copies) {
        (0, 0) => format!("{} (launches among them are not named)", plural(calls, "CUDA API call")),
        _ => format!(
            "{} and {}",
            counted(launches, "kernel launch", "kernel launches"),
            counted(copies, "copy", "copies")
        ),
    };
    let note = note(db)?.map_or_else(String::new, |note| format!(". The profiler noted: {note}"));
    Ok(Error::input(
        db.path(),
        format!("holds no GPU work, although CUDA was traced: {traced} were traced on the host, but no GPU activity was recorded (no kernel, copy, memset or graph row){note}"),
    )
    .with_hint(
        "capture again where the profiler may see the GPU: permission for its counters (root, or the driver's NVreg_RestrictProfilingToAdminUsers=0), a driver that is not newer than the profiler, no second profiler at work; under WSL and MIG it may be impossible",
    ))
}

fn counted(n: usize, one: &str, many: &str) -> String {
    format!("{} {}", count(n as u64), if n == 1 { one } else { many })
}

const CAPTURE: &str =
    "capture with --trace=cuda,nvtx and let the captured part reach the training steps";

/// The first note that concerns CUDA; errors come before warnings.
fn note(db: &Db) -> Result<Option<String>> {
    let mut first = None;
    db.each(queries::NOTES, [], |row| {
        if first.is_none()
            && let Some(note) = text(row, 1).filter(|note| notes::concerns_report(note))
        {
            first = Some(printable(&shorten(&note, NOTE)).trim_end_matches('.').to_owned());
        }
    })?;
    Ok(first)
}
