//! What an export has of the tables and columns that the queries name, and what it has beside them.
//!
//! Tables without rows are absent, and a few columns came with later versions: both are usual. A column that every known
//! version has, but not this export, was renamed or dropped by a version that is not known.

use super::db::{Db, Present, TABLES, Table};
use super::metadata::Metadata;
use crate::redact;
use crate::text::shorten;

/// The newest schema whose tables and columns are known, `major.minor` of `EXPORT_SCHEMA_VERSION`.
pub(crate) const NEWEST: (u32, u32) = (3, 28);

/// Columns that came with a later version of a table, which the newest one has.
pub const LATER: &[(&str, &str)] = &[
    ("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "eventSyncId"),
    ("NVTX_EVENTS", "binaryData"),
    ("TARGET_INFO_GPU", "id"),
    ("TARGET_INFO_GPU", "uuid"),
    ("TARGET_INFO_GPU", "clockRate"),
];
/// Columns that only the oldest versions have.
pub const OLDEST: &[(&str, &str)] = &[("TARGET_INFO_GPU", "deviceId")];

/// Tables that hold no measurement: names of numbers, and facts about the capture.
const NO_DATA: &[&str] =
    &["ENUM_", "TARGET_INFO_", "META_DATA_", "EXPORT_META_DATA", "NVTX_PAYLOAD_", "sqlite_"];

/// Characters of a name that are shown.
const NAME: usize = 100;

/// How an export differs from what is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Differences {
    /// `TABLE.column`, which every known version of the table has and this one has not.
    pub lacking: Vec<String>,
    /// Tables with measurements that no query names.
    pub unread_tables: Vec<String>,
    /// `TABLE.column` of tables that are read, which no query names.
    pub unread_columns: Vec<String>,
    /// Its schema, if it is newer than [`NEWEST`].
    pub newer: Option<String>,
}

/// How the tables of an open export differ from those that the queries name.
pub(crate) fn of(db: &Db, meta: &Metadata) -> Differences {
    differences(TABLES, db.tables(), meta.schema_version.as_deref())
}

/// How the tables of an export differ from those that are `read`; `version` is its `EXPORT_SCHEMA_VERSION`.
fn differences(read: &[Table], present: &[Present], version: Option<&str>) -> Differences {
    let newer = version.filter(|version| is_newer(version)).map(shown);
    let mut found = Differences { newer, ..Differences::default() };
    for table in present {
        let Some(known) = read.iter().find(|known| known.is_called(&table.name)) else {
            if !NO_DATA.iter().any(|start| table.name.starts_with(start)) {
                found.unread_tables.push(shown(&table.name));
            }
            continue;
        };
        let is_there = |column: &str| table.columns.iter().any(|c| c.eq_ignore_ascii_case(column));
        let is_listed = |list: &[(&str, &str)], column: &str| list.contains(&(known.name, column));
        let expected = known.columns.iter().filter(|column| {
            **column != "rowid"
                && !is_listed(OLDEST, column)
                && (found.newer.is_some() || !is_listed(LATER, column))
        });
        let lacking = expected.filter(|column| !is_there(column));
        found.lacking.extend(lacking.map(|column| format!("{}.{column}", known.name)));
        let unread = table
            .columns
            .iter()
            .filter(|column| !known.columns.iter().any(|known| known.eq_ignore_ascii_case(column)));
        found
            .unread_columns
            .extend(unread.map(|column| format!("{}.{}", known.name, shown(column))));
    }
    found
}

fn shown(name: &str) -> String {
    redact::text(&shorten(name, NAME)).into_owned()
}

fn is_newer(version: &str) -> bool {
    let mut numbers = version.split('.').map(|part| part.trim().parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), minor) => (major, minor.unwrap_or(0)) > NEWEST,
        (None, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_no_known_version_lacks_is_lacking() {
        let read = [
            Table { name: "NVTX_EVENTS", alias: None, columns: &["start", "binaryData", "rowid"] },
            Table { name: "META_DATA_EXPORT", alias: Some("EXPORT_META_DATA"), columns: &["name"] },
        ];
        let present = |name: &str, columns: &[&str]| Present {
            name: name.to_owned(),
            columns: columns.iter().map(|column| (*column).to_owned()).collect(),
        };
        let old = [
            present("nvtx_events", &["START", "color"]),
            present("EXPORT_META_DATA", &["name"]),
            present("ENUM_X", &["id"]),
            present("NIC_METRIC", &["id"]),
        ];
        let found = differences(&read, &old, Some("3.28.9"));
        assert_eq!(found.lacking, [""; 0]);
        assert_eq!(found.unread_tables, ["NIC_METRIC"]);
        assert_eq!(found.unread_columns, ["NVTX_EVENTS.color"]);
        assert_eq!(found.newer, None);
        // A newer schema has what the newest known one has, or has it under another name.
        let found = differences(&read, &old, Some("4.0"));
        assert_eq!(found.lacking, ["NVTX_EVENTS.binaryData"]);
        assert_eq!(found.newer.as_deref(), Some("4.0"));
        let found = differences(&read, &[present("NVTX_EVENTS", &["begin"])], None);
        assert_eq!(found.lacking, ["NVTX_EVENTS.start"]);
        for (version, newer) in [("3.29.0", true), ("4", true), ("3.28.1", false), ("x", false)] {
            assert_eq!(is_newer(version), newer, "{version}");
        }
    }
}
