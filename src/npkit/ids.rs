//! What an event's number means. It depends on the library that wrote the dump, and nothing in the dump names it: the numbers that
//! occur tell which libraries fit.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use clap::ValueEnum;

use crate::ingest::open;
use crate::text::printable;
use crate::{Error, Result};

/// The numbers of the four libraries.
const TABLE: &str = include_str!("ids.tsv");
/// What every name begins with.
const PREFIX: &str = "NPKIT_EVENT_";
/// A header has a few hundred lines; more of a file is not looked at.
const LARGEST_HEADER: u64 = 4 << 20;

/// A library that carries NPKit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub enum Library {
    /// NPKit's patch for NCCL 2.17.1.
    Nccl,
    /// msccl-executor-nccl.
    Msccl,
    /// RCCL of ROCm.
    Rccl,
    /// MSCCL++.
    Mscclpp,
}

impl Library {
    /// All of them, in the order of the columns of the table.
    pub const ALL: [Library; 4] = [Library::Nccl, Library::Msccl, Library::Rccl, Library::Mscclpp];

    /// Those that run on GPUs that nsys captures.
    pub const NVIDIA: [Library; 3] = [Library::Nccl, Library::Msccl, Library::Mscclpp];

    /// The name on the command line and in output.
    pub fn label(self) -> &'static str {
        match self {
            Library::Nccl => "nccl",
            Library::Msccl => "msccl",
            Library::Rccl => "rccl",
            Library::Mscclpp => "mscclpp",
        }
    }
}

/// What a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Something begins.
    Entry,
    /// Something ends.
    Exit,
    /// The GPU's clock, read together with the CPU's.
    ClockGpu,
    /// The CPU's clock.
    ClockCpu,
    /// A record of no known form.
    Other,
}

/// The meaning of one number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meaning {
    /// The event's name without `NPKIT_EVENT_` and `_ENTRY` or `_EXIT`.
    pub name: String,
    /// What the record says.
    pub role: Role,
    /// The number of the record that begins the event; its own if it has none.
    pub entry: u8,
    /// It is of a whole collective, of which other events are parts.
    pub whole: bool,
}

/// The numbers of a dump and what they mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ids {
    /// The libraries that the table is of; empty if it came from a header.
    pub libraries: Vec<Library>,
    /// By number.
    meanings: Vec<Option<Meaning>>,
}

/// Which numbers occur in a dump.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Every number.
    pub ids: BTreeSet<u8>,
    /// The first of each GPU buffer, which is a clock record.
    pub first: BTreeSet<u8>,
}

impl Ids {
    /// The table of one library.
    pub fn of(library: Library) -> Self {
        let column = Library::ALL.iter().position(|l| *l == library).unwrap_or(0) + 1;
        let rows = TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
            let mut cells = line.split('\t');
            let name = cells.next()?;
            let id = u8::from_str_radix(cells.nth(column - 1)?, 16).ok()?;
            Some((name.to_owned(), id))
        });
        Self { libraries: vec![library], ..Self::named(rows.collect()) }
    }

    /// The `#define NPKIT_EVENT_*` lines of a header.
    ///
    /// # Errors
    /// A file that cannot be read or has no such line.
    pub fn of_header(path: &Path) -> Result<Self> {
        let text = open::head(path, LARGEST_HEADER)?;
        let rows: Vec<(String, u8)> = String::from_utf8_lossy(&text)
            .lines()
            .filter_map(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                let ["#define", name, number] = words.as_slice() else { return None };
                let name = name.strip_prefix(PREFIX).filter(|name| *name != "INVALID")?;
                let id = match number.strip_prefix("0x").or_else(|| number.strip_prefix("0X")) {
                    Some(hex) => u8::from_str_radix(hex, 16).ok()?,
                    None => number.parse().ok()?,
                };
                Some((printable(name).into_owned(), id))
            })
            .collect();
        if rows.is_empty() {
            return Err(Error::input(path, "has no line '#define NPKIT_EVENT_NAME NUMBER'")
                .with_hint("name the npkit_event.h of the library that wrote the dump"));
        }
        Ok(Self::named(with_operations(rows)))
    }

    /// The table of those libraries that fits the numbers of a dump. If several fit and agree on them, all are named.
    ///
    /// # Errors
    /// A number that occurs has different names in libraries that fit equally well.
    pub fn fitting(seen: &Seen, among: &[Library]) -> Result<Self> {
        let tables: Vec<Ids> = among.iter().copied().map(Ids::of).collect();
        let by_clock: Vec<&Ids> = tables.iter().filter(|ids| ids.begins(seen)).collect();
        let able = if by_clock.is_empty() { tables.iter().collect() } else { by_clock };
        let unknown = |ids: &&Ids| seen.ids.iter().filter(|id| ids.get(**id).is_none()).count();
        let fewest = able.iter().map(unknown).min().unwrap_or(0);
        let fit: Vec<&Ids> = able.into_iter().filter(|ids| unknown(ids) == fewest).collect();
        let Some((first, rest)) = fit.split_first() else {
            return Err(Error::inputs("no library can have written the dump"));
        };
        for other in rest {
            let differing = seen.ids.iter().find(|id| first.get(**id) != other.get(**id));
            if let Some(id) = differing {
                let name = |ids: &Ids| {
                    let name = ids.get(*id).map_or("unknown", |meaning| meaning.name.as_str());
                    format!("{name} in {}", ids.label())
                };
                return Err(Error::inputs(format!(
                    "nothing says which library wrote the dump, and its event 0x{id:02x} is {} and {}",
                    name(first),
                    name(other)
                ))
                .with_hint("name the library with --lib, or its npkit_event.h with --header"));
            }
        }
        let libraries = fit.iter().flat_map(|ids| ids.libraries.iter().copied()).collect();
        Ok(Self { libraries, meanings: first.meanings.clone() })
    }

    /// A table of numbers that were given to the names of a trace.
    pub fn of_names(names: &BTreeMap<String, u8>) -> Self {
        let meaning = |(name, id): (&String, &u8)| {
            let (name, whole) = (name.clone(), is_whole(name));
            (*id, Meaning { name, role: Role::Entry, entry: *id, whole })
        };
        Self::table(names.iter().map(meaning))
    }

    /// The meaning of a number.
    pub fn get(&self, id: u8) -> Option<&Meaning> {
        self.meanings.get(usize::from(id))?.as_ref()
    }

    /// The name of the event that begins with record `entry`.
    pub fn name(&self, entry: u8) -> &str {
        self.get(entry).map_or("unknown", |meaning| meaning.name.as_str())
    }

    /// The libraries; a header and the generator's JSON do not name theirs.
    pub fn label(&self) -> String {
        match self.libraries.as_slice() {
            [] => "not named".to_owned(),
            libraries => libraries.iter().map(|l| l.label()).collect::<Vec<_>>().join(" or "),
        }
    }

    fn table(rows: impl Iterator<Item = (u8, Meaning)>) -> Self {
        let mut meanings = vec![None; 256];
        for (id, meaning) in rows {
            if let Some(place) = meanings.get_mut(usize::from(id)) {
                *place = Some(meaning);
            }
        }
        Self { libraries: Vec::new(), meanings }
    }

    /// True if the first record of a buffer can be one of this library's clock records.
    fn begins(&self, seen: &Seen) -> bool {
        let clock = |id: &u8| {
            self.get(*id).is_some_and(|m| matches!(m.role, Role::ClockCpu | Role::ClockGpu))
        };
        seen.first.iter().any(clock)
    }

    fn named(rows: Vec<(String, u8)>) -> Self {
        let entries: BTreeMap<&str, u8> = rows
            .iter()
            .filter_map(|(name, id)| Some((name.strip_suffix("_ENTRY")?, *id)))
            .collect();
        let meaning = |name: &str, id: u8| {
            let (base, role) = match name {
                "TIME_SYNC_GPU" => (name, Role::ClockGpu),
                "TIME_SYNC_CPU" => (name, Role::ClockCpu),
                _ => match (name.strip_suffix("_ENTRY"), name.strip_suffix("_EXIT")) {
                    (Some(base), _) => (base, Role::Entry),
                    (None, Some(base)) => (base, Role::Exit),
                    (None, None) => (name, Role::Other),
                },
            };
            let entry = entries.get(base).copied().unwrap_or(id);
            Meaning { name: base.to_owned(), role, entry, whole: is_whole(base) }
        };
        Self::table(rows.iter().map(|(name, id)| (*id, meaning(name, *id))))
    }
}

/// True for the events around a whole collective, of which others are parts.
pub(crate) fn is_whole(name: &str) -> bool {
    matches!(
        name,
        "ALL_REDUCE_RING"
            | "ALL_REDUCE_TREE_UPDOWN"
            | "ALL_REDUCE_TREE_SPLIT"
            | "ALL_GATHER_RING"
            | "BROADCAST_RING"
            | "MSCCL_RUN"
            | "KERNEL_ALLREDUCE"
    )
}

/// MSCCL++ defines only the first number of its executor's operations: the others follow in the order of its operations.
fn with_operations(mut rows: Vec<(String, u8)>) -> Vec<(String, u8)> {
    let base =
        |rows: &[(String, u8)], name: &str| rows.iter().find(|(n, _)| n == name).map(|(_, id)| *id);
    let (Some(entry), Some(exit)) =
        (base(&rows, "EXECUTOR_OP_BASE_ENTRY"), base(&rows, "EXECUTOR_OP_BASE_EXIT"))
    else {
        return rows;
    };
    rows.retain(|(name, _)| !name.starts_with("EXECUTOR_OP_BASE_"));
    let known = Ids::of(Library::Mscclpp);
    let mut names: Vec<(u8, &str)> = known
        .meanings
        .iter()
        .flatten()
        .filter(|m| m.role == Role::Entry && m.name.starts_with("EXECUTOR_"))
        .filter(|m| m.name != "EXECUTOR_INIT")
        .map(|m| (m.entry, m.name.as_str()))
        .collect();
    names.sort_unstable();
    for n in 0..exit.saturating_sub(entry) {
        let name = names
            .get(usize::from(n))
            .map_or_else(|| format!("EXECUTOR_OP_{n}"), |(_, name)| (*name).to_owned());
        if let (Some(entry), Some(exit)) = (entry.checked_add(n), exit.checked_add(n)) {
            rows.push((format!("{name}_ENTRY"), entry));
            rows.push((format!("{name}_EXIT"), exit));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(first: u8, ids: &[u8]) -> Seen {
        Seen { ids: ids.iter().copied().chain([first]).collect(), first: [first].into() }
    }

    #[test]
    fn the_tables_are_read_whole() {
        // Rows of data/npkit/event_ids.tsv that begin with NPKIT_EVENT_, without INVALID and EXECUTOR_OP_BASE.
        let counts = Library::ALL.map(|library| Ids::of(library).meanings.iter().flatten().count());
        assert_eq!(counts, [78, 82, 104, 88]);
        let send = Ids::of(Library::Nccl).get(0x36).cloned().expect("0x36");
        assert_eq!(
            (send.name.as_str(), send.role, send.entry),
            ("ALL_REDUCE_RING_SEND", Role::Exit, 0x35)
        );
        // MSCCL++ ends operation n thirty numbers after it began.
        let put = Ids::of(Library::Mscclpp).get(0x3d).cloned().expect("0x3d");
        assert_eq!((put.name.as_str(), put.role, put.entry), ("EXECUTOR_PUT", Role::Exit, 0x1f));
    }

    #[test]
    fn libraries_that_agree_are_all_named() {
        let label = |first, ids: &[u8]| {
            Ids::fitting(&seen(first, ids), &Library::ALL).expect("a library").label()
        };
        assert_eq!(label(0x34, &[0x33, 0x35, 0x36]), "nccl or msccl or rccl");
        assert_eq!(label(0x34, &[0x33, 0x58, 0x59]), "rccl");
        assert_eq!(label(0x02, &[0x01, 0x1f, 0x3d]), "mscclpp");
        // A number that no library has says nothing about the others.
        assert_eq!(label(0x34, &[0x33, 0x35, 0x36, 0xee]), "nccl or msccl or rccl");
    }

    #[test]
    fn libraries_that_differ_have_to_be_named() {
        let error =
            Ids::fitting(&seen(0x34, &[0x33, 0x50, 0x51]), &Library::ALL).expect_err("no library");
        assert!(
            error
                .to_string()
                .contains("0x50 is MSCCL_GENERIC_OP in msccl and ALL_GATHER_RING in rccl"),
            "{error}"
        );
        assert!(error.hint.is_some_and(|hint| hint.contains("--lib")));
        let nvidia = Ids::fitting(&seen(0x34, &[0x33, 0x50, 0x51]), &Library::NVIDIA);
        assert_eq!(nvidia.expect("a library").label(), "msccl");
    }

    #[test]
    fn a_header_may_be_hexadecimal_or_decimal_and_extend_operations() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("npkit_event.h");
        std::fs::write(
            &path,
            "#pragma once\n#define NPKIT_EVENT_INVALID 0x0\n#define NPKIT_EVENT_TIME_SYNC_CPU 2\n#define NPKIT_EVENT_A_ENTRY 0x05\n\
             #define NPKIT_EVENT_A_EXIT 6 // no event: four words\n#define NPKIT_EVENT_EXECUTOR_OP_BASE_ENTRY 0x10\n\
             #define NPKIT_EVENT_EXECUTOR_OP_BASE_EXIT 0x12\n",
        )
        .expect("a header");
        let ids = Ids::of_header(&path).expect("ids");
        assert_eq!(ids.label(), "not named");
        assert_eq!(ids.get(2).map(|m| m.role), Some(Role::ClockCpu));
        assert_eq!(ids.name(5), "A");
        assert!(ids.get(6).is_none());
        assert_eq!((ids.name(0x10), ids.name(0x13)), ("EXECUTOR_NOP", "EXECUTOR_BARRIER"));
        assert_eq!(ids.get(0x13).map(|m| (m.role, m.entry)), Some((Role::Exit, 0x11)));
        std::fs::write(&path, "nothing").expect("a file");
        assert!(Ids::of_header(&path).is_err());
    }
}
