//! The kinds of input, one row each: how it is called, under which names it is looked for in folders, how it is told by its
//! content, and which command reads it. A new kind is a reader and a row here; what takes files of several kinds asks this table.

use std::io::Read;
use std::path::Path;

use serde::Serialize;

use super::encoding::AsUtf8;
use super::{counters, open, topo};
use crate::{Result, units};

/// Bytes at the front of a file that tell what it is.
const HEAD: u64 = 64 * 1024;
/// The first bytes of a SQLite database (<https://www.sqlite.org/fileformat.html>).
pub(crate) const SQLITE_MAGIC: &[u8] = b"SQLite format 3\0";
/// The first bytes of an HDF5 file, which nsys exports too.
pub(crate) const HDF5_MAGIC: &[u8] = b"\x89HDF";
/// The first bytes of a gzip file.
pub(crate) const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];

/// What an input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A database that nsys exported, or a file that should be one by its name.
    Export,
    /// A report of nsys, which only nsys itself can read.
    NsysReport,
    /// The matrix of `nvidia-smi topo`.
    Topology,
    /// What `report` wrote as JSON.
    SavedReport,
    /// The variants of a comparison.
    Manifest,
    /// What NPKit dumped, or the trace that was made of it.
    Npkit,
    /// Counters of GPUs, as DCGM or `nvidia-smi` print them.
    Counters,
    /// Samples of Inspector's Prometheus mode.
    Prometheus,
    /// Records of NCCL Inspector.
    InspectorLog,
    /// Messages of NCCL.
    NcclLog,
}

/// What is known about a kind.
#[derive(Debug)]
pub struct Row {
    /// The kind.
    pub kind: Kind,
    /// What one is called, with its article.
    pub one: &'static str,
    /// What several are called.
    pub several: &'static str,
    /// How to know them, for lists: an ending, or what writes them; empty if another row stands for it.
    known_by: &'static str,
    /// The commands that take it, with the option that it is given to.
    pub read_by: &'static str,
    /// Names of files that are looked at in folders, in lower case; `*` at one end stands for anything.
    names: &'static [&'static str],
    /// How it is told.
    told: fn(&Head<'_>) -> Told,
}

/// Every kind. Where several fit a file, they are tried in this order.
const ROWS: [Row; 10] = [
    Row {
        kind: Kind::Export,
        one: "an export of nsys",
        several: "exports of nsys",
        known_by: ".sqlite",
        read_by: "report and compare",
        names: &["*.sqlite"],
        told: |head| {
            let by_magic = [SQLITE_MAGIC, HDF5_MAGIC].iter().any(|m| head.bytes.starts_with(m));
            surely(by_magic || head.name.ends_with(".sqlite"))
        },
    },
    Row {
        kind: Kind::NsysReport,
        one: "a report of nsys",
        several: "reports of nsys",
        known_by: "",
        read_by: "report and compare, which let nsys export it",
        names: &["*.nsys-rep", "*.qdrep", "*.qdstrm"],
        // Its format is not documented.
        told: |head| surely(is_named(head.name, &[Kind::NsysReport])),
    },
    Row {
        kind: Kind::Topology,
        one: "a topology",
        several: "topologies",
        known_by: "nvidia-smi topo -m",
        read_by: "report --topo",
        names: &["*.topo", "*.txt"],
        told: |head| surely(head.text.as_deref().is_some_and(|text| topo::parse(text).is_some())),
    },
    Row {
        kind: Kind::SavedReport,
        one: "a saved report",
        several: "saved reports",
        known_by: ".json",
        read_by: "compare",
        names: &["*.json"],
        told: |head| surely(head.text.as_deref().is_some_and(is_saved_report)),
    },
    Row {
        kind: Kind::Manifest,
        one: "a manifest",
        several: "manifests",
        known_by: "nsysnccl.toml",
        read_by: "compare --manifest",
        names: &["nsysnccl.toml"],
        told: |head| {
            let variants = |text: &str| text.lines().any(|line| line.starts_with("[[variant]]"));
            surely(head.text.as_deref().is_some_and(variants))
        },
    },
    Row {
        kind: Kind::Npkit,
        one: "an NPKit dump",
        several: "NPKit dumps",
        known_by: "gpu_events_rank_*",
        read_by: "npkit and report --npkit",
        names: &[
            "gpu_events_rank_*",
            "cpu_events_rank_*",
            "gpu_clock_rate_rank_*",
            "cpu_clock_period_num_rank_*",
            "cpu_clock_period_den_rank_*",
            "*.json",
        ],
        told: |head| surely(is_dump(head.name) || head.text.as_deref().is_some_and(is_npkit_trace)),
    },
    Row {
        kind: Kind::Counters,
        one: "a file of GPU counters",
        several: "files of GPU counters",
        known_by: "dcgmi dmon, DCGM exporter, nvidia-smi dmon",
        read_by: "report --counters",
        names: &["*.txt", "*.log", "*.prom", "*.csv", "*.dmon"],
        told: |head| surely(head.text.as_deref().is_some_and(|t| counters::told(t).is_some())),
    },
    Row {
        kind: Kind::Prometheus,
        one: "an Inspector log as Prometheus text",
        several: "Inspector logs as Prometheus text",
        known_by: "",
        read_by: "inspect and report --inspector",
        names: &["*.prom", "*.prom.gz"],
        told: |head| surely(head.text.as_deref().is_some_and(is_prometheus)),
    },
    Row {
        kind: Kind::InspectorLog,
        one: "an Inspector log",
        several: "NCCL Inspector logs",
        known_by: ".log, .jsonl, .prom",
        read_by: "inspect and report --inspector",
        names: &["*.log", "*.log.gz", "*.jsonl", "*.jsonl.gz", "*.json", "*.json.gz"],
        // Records may stand behind anything that a program prints.
        told: |head| perhaps(head.text.is_some() || head.bytes.starts_with(GZIP_MAGIC)),
    },
    Row {
        kind: Kind::NcclLog,
        one: "an NCCL log",
        several: "NCCL logs",
        known_by: "NCCL_DEBUG=INFO",
        read_by: "report --nccl-log",
        names: &["*.log", "*.txt", "*.out", "*.err"],
        told: |head| perhaps(head.text.is_some()),
    },
];

/// Whether a file is of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    No,
    /// Only reading it to the end can tell.
    Perhaps,
    Yes,
}

fn surely(is: bool) -> Told {
    if is { Told::Yes } else { Told::No }
}

fn perhaps(may_be: bool) -> Told {
    if may_be { Told::Perhaps } else { Told::No }
}

/// The front of a file.
struct Head<'a> {
    /// Its name in lower case: what has no mark of its own is told by it.
    name: &'a str,
    bytes: &'a [u8],
    /// The bytes as text; `None` if they are not.
    text: Option<String>,
}

impl Kind {
    /// Its row in the table.
    pub fn row(self) -> &'static Row {
        // Each kind has one; the last is never taken.
        ROWS.iter().find(|row| row.kind == self).unwrap_or(&ROWS[ROWS.len() - 1])
    }
}

/// The kinds that the file at `path` may be: the one that it is, or those whose readers may find something in it, in the order in
/// which to try them. Empty if it is none.
///
/// # Errors
/// It is not there or cannot be read.
pub(crate) fn told(path: &Path) -> Result<Vec<Kind>> {
    let bytes = open::head(path, HEAD)?;
    let mut text = Vec::new();
    // Reading from memory cannot fail.
    let _ = AsUtf8::new(bytes.as_slice()).read_to_end(&mut text);
    let binary = text.contains(&0) || bytes.starts_with(GZIP_MAGIC);
    let head = Head {
        name: &name(path),
        bytes: &bytes,
        text: (!binary).then(|| String::from_utf8_lossy(&text).into_owned()),
    };
    let of = |wanted: Told| {
        ROWS.iter().filter(|row| (row.told)(&head) == wanted).map(|row| row.kind).collect()
    };
    let sure: Vec<Kind> = of(Told::Yes);
    Ok(match sure.first() {
        Some(&kind) => vec![kind],
        None => of(Told::Perhaps),
    })
}

/// True for a name under which an input is looked for in folders.
pub(crate) fn is_looked_at(path: &Path) -> bool {
    let name = name(path);
    ROWS.iter().any(|row| row.names.iter().any(|pattern| fits(&name, pattern)))
}

/// True for a name that one of these kinds usually has.
pub(crate) fn has_name_of(path: &Path, kinds: &[Kind]) -> bool {
    is_named(&name(path), kinds)
}

/// True for a file that belongs to an NPKit dump, which is a folder: it has no mark but its name.
pub(crate) fn is_part_of_dump(path: &Path) -> bool {
    is_dump(&name(path))
}

/// What is read, for an error that found none of it: `exports of nsys (.sqlite), ... and NCCL logs (NCCL_DEBUG=INFO)`.
pub(crate) fn list() -> String {
    let words: Vec<String> = ROWS
        .iter()
        .filter(|row| !row.known_by.is_empty())
        .map(|row| format!("{} ({})", row.several, row.known_by))
        .collect();
    match words.split_last() {
        Some((last, rest)) => format!("{} and {last}", units::listed(rest, rest.len())),
        None => String::new(),
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().to_lowercase()
}

fn is_named(name: &str, kinds: &[Kind]) -> bool {
    let rows = ROWS.iter().filter(|row| kinds.contains(&row.kind));
    rows.flat_map(|row| row.names).any(|pattern| fits(name, pattern))
}

fn fits(name: &str, pattern: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        // A name that is nothing but an ending is a hidden file.
        (Some(end), _) => name.len() > end.len() && name.ends_with(end),
        (_, Some(begin)) => name.starts_with(begin),
        _ => name == pattern,
    }
}

fn is_dump(name: &str) -> bool {
    let patterns = Kind::Npkit.row().names.iter().filter(|pattern| pattern.ends_with('*'));
    patterns.clone().any(|pattern| fits(name, pattern))
}

/// JSON that begins as `report` writes it.
fn is_saved_report(text: &str) -> bool {
    let after = |text: &str, word: &str| text.trim_start().strip_prefix(word).map(str::to_owned);
    after(text, "{")
        .and_then(|rest| after(&rest, "\"schema\""))
        .and_then(|rest| after(&rest, ":"))
        .is_some_and(|rest| rest.trim_start().starts_with("\"nsysnccl.report/"))
}

/// The trace that NPKit's script makes of a dump.
fn is_npkit_trace(text: &str) -> bool {
    let text = text.trim_start();
    (text.starts_with('{') || text.starts_with('[')) && text.contains("\"NPKIT_EVENT_")
}

/// A first line that is a sample, behind comments.
fn is_prometheus(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#'));
    first.is_some_and(|line| line.starts_with("nccl_") && line.contains('{'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told_as(name: &str, content: &[u8]) -> Vec<Kind> {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join(name);
        std::fs::write(&path, content).expect("written");
        told(&path).expect("can be read")
    }

    #[test]
    fn every_kind_has_one_row() {
        let kinds: std::collections::BTreeSet<Kind> = ROWS.iter().map(|row| row.kind).collect();
        assert_eq!(kinds.len(), ROWS.len());
        for row in &ROWS {
            assert_eq!(row.kind.row().kind, row.kind);
            let lower = row.names.iter().all(|name| name.to_lowercase() == **name);
            assert!(lower && row.names.iter().all(|name| is_looked_at(Path::new(name))));
        }
    }

    #[test]
    fn content_tells_whatever_the_name_says() {
        let matrix = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV18\t0\nGPU1\tNV18\t X \t0\n";
        let utf16: Vec<u8> =
            format!("\u{feff}{matrix}").encode_utf16().flat_map(u16::to_le_bytes).collect();
        let cases: [(&str, &[u8], &[Kind]); 17] = [
            ("a.txt", b"SQLite format 3\0...", &[Kind::Export]),
            ("a.h5", b"\x89HDF\r\n", &[Kind::Export]),
            ("a.sqlite", b"", &[Kind::Export]),
            ("a.NSYS-REP", b"\0\x01", &[Kind::NsysReport]),
            ("a.log", matrix.as_bytes(), &[Kind::Topology]),
            ("a.bin", &utf16, &[Kind::Topology]),
            ("a.txt", b"{\n  \"schema\": \"nsysnccl.report/2\",", &[Kind::SavedReport]),
            (
                "a.json",
                b"{ \"schema\": \"nsysnccl.doctor/1\" }",
                &[Kind::InspectorLog, Kind::NcclLog],
            ),
            ("mine.conf", b"baseline = 'a'\n[[variant]]\n", &[Kind::Manifest]),
            ("gpu_events_rank_0_buf_1", &[0; 32], &[Kind::Npkit]),
            ("t.json", b"{\"traceEvents\": [{\"name\": \"NPKIT_EVENT_X\"}]}", &[Kind::Npkit]),
            ("d.txt", b"#Entity   SMACT\nID\nGPU 0     0.9\n", &[Kind::Counters]),
            ("e.prom", b"# HELP x y\nDCGM_FI_DEV_SM_CLOCK{gpu=\"0\"} 1\n", &[Kind::Counters]),
            ("n.log", b"# gpu    pwr\n# Idx      W\n    0    300\n", &[Kind::Counters]),
            ("x", b"# HELP nccl_x y\n\nnccl_x{rank=\"0\"} 1\n", &[Kind::Prometheus]),
            ("a.log.gz", &[0x1f, 0x8b, 8, 0], &[Kind::InspectorLog]),
            ("core", b"\x7fELF\x02\x01\x01\0\0", &[]),
        ];
        for (name, content, kinds) in cases {
            assert_eq!(told_as(name, content), kinds, "{name}");
        }
    }

    #[test]
    fn folders_are_searched_for_the_names_of_the_table() {
        for name in ["a.sqlite", "B.LOG", "x.json.gz", "topo.txt", "job.err", "nsysnccl.toml"] {
            assert!(is_looked_at(Path::new(name)), "{name}");
        }
        for name in ["a.py", "pyproject.toml", ".log", "x.sqlite-wal", "a.txt.gz"] {
            assert!(!is_looked_at(Path::new(name)), "{name}");
        }
        let logs = [Kind::InspectorLog, Kind::Prometheus];
        assert!(has_name_of(Path::new("d/x.prom"), &logs));
        assert!(!has_name_of(Path::new("d/x.txt"), &logs));
    }
}
