//! Reports that were saved as JSON, read back: `compare` takes them as a variant or as a baseline.

use std::path::Path;

use serde::Deserialize;

use super::{Report, SCHEMA};
use crate::ingest::open;
use crate::{Error, Result};

/// No saved report is larger.
const LARGEST: u64 = 256 * 1024 * 1024;
/// Of these first bytes the first that is not a space tells JSON from a database.
const HEAD: u64 = 64;

/// What a document says that it is.
#[derive(Deserialize)]
struct Head {
    schema: String,
    tool_version: Option<String>,
}

/// True for a file whose content begins as JSON does, whatever its name.
pub fn is_saved(path: &Path) -> bool {
    let head = open::head(path, HEAD).unwrap_or_default();
    head.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
}

/// Reads a saved report.
///
/// # Errors
/// The file cannot be read, is not a report, or is one of another schema.
pub fn read(path: &Path) -> Result<Report> {
    let bytes = open::head(path, LARGEST)?;
    let again = "save it again: nsysnccl report REPORT.sqlite... -o report.json";
    let head: Head = serde_json::from_slice(&bytes).map_err(|e| {
        Error::input(path, format!("is not a saved report of nsysnccl ({e})")).with_hint(again)
    })?;
    if head.schema != SCHEMA {
        let fact = match (number(&head.schema), number(SCHEMA)) {
            (Some(theirs), Some(ours)) if theirs > ours => format!(
                "was saved by a newer nsysnccl ({}, schema {}; this one reads {SCHEMA})",
                head.tool_version.as_deref().unwrap_or("unknown version"),
                head.schema
            ),
            (Some(_), _) => {
                format!("is too old (schema {}; this version reads {SCHEMA})", head.schema)
            }
            (None, _) => format!("is not a report ({})", head.schema),
        };
        return Err(Error::input(path, fact).with_hint(again));
    }
    serde_json::from_slice(&bytes).map_err(|e| {
        Error::input(path, format!("is not a whole report of schema {SCHEMA} ({e})"))
            .with_hint(again)
    })
}

/// The number of a report's schema; `None` for another document.
fn number(schema: &str) -> Option<u32> {
    schema.strip_prefix("nsysnccl.report/")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("r.json");
        std::fs::write(&path, text).expect("written");
        assert!(is_saved(&path));
        read(&path).expect_err("no report").fact
    }

    #[test]
    fn what_is_not_a_report_of_this_schema_is_refused_with_the_reason() {
        assert!(
            said("{\"schema\": \"nsysnccl.report/9\", \"tool_version\": \"9.1\"}")
                .contains("newer nsysnccl (9.1")
        );
        assert!(said("{\"schema\": \"nsysnccl.report/0\"}").contains("too old"));
        assert!(
            said("{\"schema\": \"nsysnccl.compare/1\"}")
                .contains("is not a report (nsysnccl.compare/1)")
        );
        assert!(said("{\"schema\": \"nsysnccl.report/1\"}").contains("is not a whole report"));
        assert!(said("{\"a\": 1}").contains("is not a saved report"));
    }
}
