//! A report as a read-only database in which every table and column that the queries name exists.
//!
//! Exports from 2020 to 2026 differ: tables without rows are absent, columns come and go, one table was renamed.
//! For each table that the queries need, a temporary view of the same name is laid over it, in which a missing column
//! is NULL and a missing table has no rows. The file itself is never written to.

use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};

use super::queries::Query;
use crate::ingest::sniff;
use crate::model::Ns;
use crate::{Error, Result};

/// A table of the export as the queries see it.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// The name that queries use: that of current exports.
    pub name: &'static str,
    /// An older name.
    pub alias: Option<&'static str>,
    /// The columns that queries use.
    pub columns: &'static [&'static str],
}

impl Table {
    fn is_called(&self, name: &str) -> bool {
        name.eq_ignore_ascii_case(self.name)
            || self.alias.is_some_and(|alias| name.eq_ignore_ascii_case(alias))
    }
}

const fn table(name: &'static str, columns: &'static [&'static str]) -> Table {
    Table { name, alias: None, columns }
}

/// Every table that a query may name, with every column.
pub const TABLES: &[Table] = &[
    table(
        "CUPTI_ACTIVITY_KIND_KERNEL",
        &[
            "start",
            "end",
            "deviceId",
            "contextId",
            "streamId",
            "correlationId",
            "globalPid",
            "demangledName",
            "shortName",
            "gridX",
            "gridY",
            "gridZ",
        ],
    ),
    table(
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        &[
            "start",
            "end",
            "deviceId",
            "contextId",
            "streamId",
            "correlationId",
            "globalPid",
            "bytes",
            "copyKind",
        ],
    ),
    table(
        "CUPTI_ACTIVITY_KIND_MEMSET",
        &[
            "start",
            "end",
            "deviceId",
            "contextId",
            "streamId",
            "correlationId",
            "globalPid",
            "bytes",
        ],
    ),
    table(
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
        &["start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid"],
    ),
    table("CUPTI_ACTIVITY_KIND_RUNTIME", &["start", "end", "correlationId", "globalTid", "nameId"]),
    table(
        "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
        &["globalPid", "contextId", "streamId", "correlationId", "eventId", "eventSyncId"],
    ),
    table(
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        &[
            "globalPid",
            "contextId",
            "streamId",
            "correlationId",
            "syncType",
            "eventId",
            "eventSyncId",
        ],
    ),
    table(
        "NVTX_EVENTS",
        &[
            "start",
            "end",
            "eventType",
            "text",
            "textId",
            "globalTid",
            "domainId",
            "jsonText",
            "jsonTextId",
            "binaryData",
            "rowid",
        ],
    ),
    table(
        "NVTX_PAYLOAD_SCHEMA_ENTRIES",
        &["domainId", "schemaId", "idx", "type", "name", "offset"],
    ),
    table("NVTX_PAYLOAD_ENUM_ENTRIES", &["domainId", "schemaId", "name", "value"]),
    table("StringIds", &["id", "value"]),
    Table {
        name: "META_DATA_EXPORT",
        alias: Some("EXPORT_META_DATA"),
        columns: &["name", "value"],
    },
    table("META_DATA_CAPTURE", &["name", "value"]),
    table("TARGET_INFO_SYSTEM_ENV", &["name", "value"]),
    table("TARGET_INFO_SESSION_START_TIME", &["utcEpochNs"]),
    table("TARGET_INFO_GPU", &["id", "deviceId", "name", "uuid"]),
    table("TARGET_INFO_CUDA_GPU", &["deviceId", "name"]),
    table("TARGET_INFO_CUDA_DEVICE", &["gpuId", "cudaId", "pid"]),
    table("MPI_RANKS", &["globalTid", "rank"]),
    table("DIAGNOSTIC_EVENT", &["timestamp", "severity", "text"]),
    table("ANALYSIS_DETAILS", &["duration"]),
];

/// Tables of which an export has at least one; a SQLite file without them is something else.
const MARKS: &[&str] = &[
    "StringIds",
    "META_DATA_EXPORT",
    "EXPORT_META_DATA",
    "TARGET_INFO_SESSION_START_TIME",
    "NVTX_EVENTS",
];

/// An open report.
#[derive(Debug)]
pub struct Db {
    connection: Connection,
    path: std::path::PathBuf,
    size: u64,
}

impl Db {
    /// Opens a report for reading.
    ///
    /// # Errors
    /// Not a readable, whole SQLite file, or no export of Nsight Systems.
    pub fn open(path: &Path) -> Result<Db> {
        let size = sniff::require_sqlite(path)?;
        // `immutable` takes no lock and needs no file beside the report: shared and read-only file systems work.
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI;
        let connection =
            Connection::open_with_flags(uri(path), flags).map_err(|e| sql_error(path, &e))?;
        let db = Db { connection, path: path.to_owned(), size };
        db.batch("PRAGMA temp_store = MEMORY; PRAGMA cache_size = -8192;")?;
        let present = db.tables()?;
        if let Some(view) =
            db.views()?.iter().find(|view| TABLES.iter().any(|table| table.is_called(view)))
        {
            // A view can run without end, and an export has none.
            return Err(Error::input(path, format!("holds a view in place of the table {view}, so it is no export of Nsight Systems"))
                .with_hint("export the report: nsys export --type sqlite REPORT.nsys-rep"));
        }
        if !MARKS.iter().any(|mark| present.iter().any(|name| name.eq_ignore_ascii_case(mark))) {
            return Err(Error::input(
                path,
                "is a SQLite file, but no export of Nsight Systems (none of its tables is there)",
            )
            .with_hint("export the report: nsys export --type sqlite REPORT.nsys-rep"));
        }
        lay_views(&db.connection, &present).map_err(|e| sql_error(path, &e))?;
        Ok(db)
    }

    /// Size of the file in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Hands every row of a query to `f`; returns how many there were.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn each(
        &self,
        query: Query,
        parameters: impl rusqlite::Params,
        mut f: impl FnMut(&Row<'_>),
    ) -> Result<u64> {
        let run = || -> rusqlite::Result<u64> {
            let mut statement = self.connection.prepare_cached(query.sql)?;
            let mut rows = statement.query(parameters)?;
            let mut count = 0;
            while let Some(row) = rows.next()? {
                count += 1;
                f(row);
            }
            Ok(count)
        };
        // `run` is called once; it is a closure only so that `?` has one error type.
        run().map_err(|e| sql_error(&self.path, &e))
    }

    fn batch(&self, sql: &str) -> Result<()> {
        self.connection.execute_batch(sql).map_err(|e| sql_error(&self.path, &e))
    }

    fn tables(&self) -> Result<Vec<String>> {
        self.schema("table")
    }

    fn views(&self) -> Result<Vec<String>> {
        self.schema("view")
    }

    fn schema(&self, kind: &str) -> Result<Vec<String>> {
        let read = || -> rusqlite::Result<Vec<String>> {
            let mut statement = self
                .connection
                .prepare("SELECT name FROM main.sqlite_master WHERE type = ?1 ORDER BY name")?;
            statement.query_map([kind], |row| row.get(0))?.collect()
        };
        read().map_err(|e| sql_error(&self.path, &e))
    }
}

/// Lays the temporary views over the tables that are there.
///
/// # Errors
/// The database is damaged.
pub fn lay_views(connection: &Connection, present: &[String]) -> rusqlite::Result<()> {
    for table in TABLES {
        let found = [Some(table.name), table.alias]
            .into_iter()
            .flatten()
            .find_map(|wanted| present.iter().find(|name| name.eq_ignore_ascii_case(wanted)));
        connection.execute_batch(&view_sql(connection, table, found.map(String::as_str))?)?;
    }
    Ok(())
}

fn view_sql(
    connection: &Connection,
    table: &Table,
    found: Option<&str>,
) -> rusqlite::Result<String> {
    let there: Vec<String> = match found {
        None => Vec::new(),
        Some(name) => {
            let mut statement =
                connection.prepare("SELECT name FROM pragma_table_info(?1, 'main')")?;
            statement.query_map([name], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?
        }
    };
    let columns: Vec<String> = table
        .columns
        .iter()
        .map(|column| {
            match *column {
                // In double quotes it would be a string where a table has no such column.
                "rowid" if found.is_some() => "rowid AS rowid".to_owned(),
                _ if there.iter().any(|name| name.eq_ignore_ascii_case(column)) => quoted(column),
                _ => format!("NULL AS {}", quoted(column)),
            }
        })
        .collect();
    let source = match found {
        Some(name) => format!("FROM main.{}", quoted(name)),
        None => "WHERE 0".to_owned(),
    };
    Ok(format!(
        "CREATE TEMP VIEW {} AS SELECT {} {source};",
        quoted(table.name),
        columns.join(", ")
    ))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn uri(path: &Path) -> String {
    use std::fmt::Write;
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut uri = String::from("file:");
    for &byte in absolute.as_os_str().as_encoded_bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'_' | b'.') {
            uri.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri.push_str("?immutable=1");
    uri
}

fn sql_error(path: &Path, error: &rusqlite::Error) -> Error {
    let hint =
        "export the report again: nsys export --type sqlite --force-overwrite true REPORT.nsys-rep";
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase) => {
            Error::input(path, format!("is damaged ({error})")).with_hint(hint)
        }
        _ => Error::input(path, format!("cannot be read ({error})")).with_hint(hint),
    }
}

/// Column `at` as an integer; `None` for NULL and for what is no integer.
pub fn int(row: &Row<'_>, at: usize) -> Option<i64> {
    match row.get_ref(at) {
        Ok(ValueRef::Integer(value)) => Some(value),
        Ok(ValueRef::Real(value)) if value.fract() == 0.0 && value.abs() < 9.0e15 => {
            Some(value as i64)
        }
        Ok(ValueRef::Text(text)) => std::str::from_utf8(text).ok()?.trim().parse().ok(),
        _ => None,
    }
}

/// No time is this far from 0, in nanoseconds: 146 years. The distance of any two nearer ones is an `i64` too.
const FARTHEST: Ns = 1 << 62;

/// Column `at` as a time; `None` where it cannot be one.
pub fn time(row: &Row<'_>, at: usize) -> Option<Ns> {
    int(row, at).filter(|&ns| is_time(ns))
}

/// True for a number of nanoseconds that can be a time.
pub fn is_time(ns: Ns) -> bool {
    -FARTHEST < ns && ns < FARTHEST
}

/// Column `at` as text, with what is no UTF-8 replaced; `None` for NULL and blobs.
pub fn text<'r>(row: &'r Row<'_>, at: usize) -> Option<std::borrow::Cow<'r, str>> {
    match row.get_ref(at) {
        Ok(ValueRef::Text(text)) => Some(String::from_utf8_lossy(text)),
        _ => None,
    }
}

/// Column `at` as bytes, whether stored as blob or text; `None` for NULL and numbers.
pub fn bytes<'r>(row: &'r Row<'_>, at: usize) -> Option<&'r [u8]> {
    match row.get_ref(at) {
        Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => Some(bytes),
        _ => None,
    }
}
