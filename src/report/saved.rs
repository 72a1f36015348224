//! Reports that were saved as JSON, read back: `compare` takes them as a variant or as a baseline.

use std::borrow::Cow;
use std::path::Path;

use foldhash::{HashSet, HashSetExt};
use serde::Deserialize;

use super::{Report, SCHEMA};
use crate::ingest::open;
use crate::{Error, Result, redact};

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
    let bytes = redacted(open::head(path, LARGEST)?);
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

/// Texts of a document that are remembered as free of secrets: keys come again and again.
const REMEMBERED: usize = 100_000;

/// A JSON document whose texts may be shown: what was saved here is so already, but a document may come from elsewhere.
fn redacted(document: Vec<u8>) -> Vec<u8> {
    let mut free: HashSet<&[u8]> = HashSet::new();
    // What was copied already, and up to where.
    let mut out: Option<Vec<u8>> = None;
    let mut copied = 0;
    let mut at = 0;
    while let Some(start) = memchr::memchr(b'"', &document[at..]).map(|found| at + found) {
        let Some(end) = text_end(&document, start) else { break };
        at = end;
        let literal = &document[start..end];
        if free.contains(literal) {
            continue;
        }
        let text = serde_json::from_slice::<String>(literal).unwrap_or_default();
        match redact::text(&text) {
            Cow::Borrowed(_) if free.len() < REMEMBERED => drop(free.insert(literal)),
            Cow::Borrowed(_) => {}
            Cow::Owned(shown) => {
                let out = out.get_or_insert_default();
                out.extend_from_slice(&document[copied..start]);
                out.extend(serde_json::Value::String(shown).to_string().into_bytes());
                copied = end;
            }
        }
    }
    match out {
        Some(mut out) => {
            out.extend_from_slice(&document[copied..]);
            out
        }
        None => document,
    }
}

/// Where the text that begins with the quote at `start` ends, behind its other quote.
fn text_end(document: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', document.get(at..)?)?;
        if document[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
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
    fn secrets_in_a_document_are_hidden_and_nothing_else_changes() {
        let plain = br#"{"a \" b": ["x\\", "", 1], "token_count": 3"#.to_vec();
        assert_eq!(redacted(plain.clone()), plain);
        let planted = br#"{"a":"TOKEN=hunter2x\u0041 \"q\"","https://u:hunter2@h/":"b"}"#.to_vec();
        let shown = String::from_utf8(redacted(planted)).expect("UTF-8");
        assert!(!shown.contains("hunter2"), "{shown}");
        let value: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
        assert_eq!(value["a"], "TOKEN=(hidden) \"q\"");
        assert_eq!(value["https://(hidden)@h/"], "b");
        for broken in ["\"", "\"\\", "{\"a", ""] {
            assert_eq!(redacted(broken.into()), broken.as_bytes());
        }
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
