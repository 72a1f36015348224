//! A report as a read-only database in which every table and column that the queries name exists.
//!
//! Exports from 2020 to 2026 differ: tables without rows are absent, columns come and go, one table was renamed.
//! For each table that the queries need, a temporary view of the same name is laid over it, in which a missing column
//! is NULL and a missing table has no rows. The file itself is never written to.

use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rayon::prelude::*;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, Row, Statement};

use super::gather::{self, Gathered, Ints, integer, is_time};
use super::queries::Query;
use crate::ingest::{open, sniff};
use crate::model::Ns;
use crate::text::shorten;
use crate::{Error, Result, redact};

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
    /// True for its name or the older one, however it is written.
    pub fn is_called(&self, name: &str) -> bool {
        name.eq_ignore_ascii_case(self.name)
            || self.alias.is_some_and(|alias| name.eq_ignore_ascii_case(alias))
    }
}

const fn table(name: &'static str, columns: &'static [&'static str]) -> Table {
    Table { name, alias: None, columns }
}

/// A table of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Present {
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<String>,
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
            "graphNodeId",
            "rowid",
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
            "srcDeviceId",
            "dstDeviceId",
            "graphNodeId",
            "rowid",
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
            "graphNodeId",
            "rowid",
        ],
    ),
    table(
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
        &[
            "start",
            "end",
            "deviceId",
            "contextId",
            "streamId",
            "correlationId",
            "globalPid",
            "rowid",
        ],
    ),
    table(
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        &["start", "end", "correlationId", "globalTid", "nameId", "rowid"],
    ),
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
    table("TARGET_INFO_GPU", &["id", "deviceId", "name", "uuid", "clockRate"]),
    table("TARGET_INFO_CUDA_GPU", &["deviceId", "name"]),
    table("TARGET_INFO_CUDA_DEVICE", &["gpuId", "cudaId", "pid"]),
    table("MPI_RANKS", &["globalTid", "rank"]),
    table("TARGET_INFO_GPU_METRICS", &["typeId", "metricId", "metricName"]),
    table("GPU_METRICS", &["timestamp", "typeId", "metricId", "value"]),
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

/// Bytes of the smallest row: its place in the page, its length, its number, and a header for one column.
const SMALLEST_ROW: u64 = 6;
/// Steps of SQLite's machine that a query may take for each byte of the file, and at least. A row of some 40 bytes takes
/// about 30 of them.
const STEPS_PER_BYTE: u64 = 64;
const LEAST_STEPS: u64 = 1 << 20;
/// Steps after which SQLite asks whether it may go on.
const STEPS_AT_ONCE: u64 = 1024;
/// How often the bytes of the file may be handed out as text: several queries read one table, and rows share strings.
const TEXT_PER_BYTE: u64 = 64;
/// Columns that hold text or bytes of any length.
const TEXT_COLUMNS: &[&str] =
    &["text", "value", "name", "uuid", "metricName", "jsonText", "binaryData"];
/// Bytes of pages that SQLite keeps of one report: tables are read from front to end, so that few are read twice.
const CACHE: u64 = 2 << 20;
/// Bytes that all open reports together may use for sorting, beside what each thread needs for the pages of a few.
const MOST_MEMORY: u64 = 512 << 20;
/// Bytes of a text that are read; the longest of use, a whole environment, is shorter.
const LONGEST_TEXT: usize = 1 << 20;
/// Characters of a text that is shown as it stands: a host, a model, a note of the profiler.
const LONGEST_SHOWN: usize = 2000;
const EXPORT_AGAIN: &str = "export the report again: nsys export --type sqlite --include-blobs true --include-json true --force-overwrite true REPORT.nsys-rep";

/// An open report.
///
/// A file can claim more rows than it holds: pages that name one child many times are a few kB that never end. What is
/// read is therefore bounded by the size of the file.
#[derive(Debug)]
pub struct Db {
    connection: Connection,
    path: std::path::PathBuf,
    size: u64,
    /// Size and time of the last change of the file when it was opened.
    state: Option<(u64, SystemTime)>,
    /// Steps that the query that runs may still take.
    steps_left: Arc<AtomicU64>,
    /// Bytes of text that may still be handed out.
    text_left: Cell<u64>,
    /// The tables that are there.
    tables: Vec<Present>,
    /// The rows that a query gathers, until they are handed out.
    gathered: Gathered,
    /// Further connections to the file, for reading parts of a table at the same time.
    others: Mutex<Vec<Db>>,
}

/// Rows of a table, by their numbers (`rowid`).
#[derive(Debug, Clone, Copy)]
pub struct Part {
    table: &'static str,
    /// The first of them; `None` if there are none.
    first: Option<i64>,
    last: i64,
}

impl Part {
    /// In at most `most` parts of about as many numbers.
    fn split(self, most: usize) -> Vec<Part> {
        let Some(first) = self.first else { return vec![self] };
        let numbers = i128::from(self.last) - i128::from(first) + 1;
        let most = (most.max(1) as i128).min(numbers.max(1));
        let at = |i: i128| (i128::from(first) + numbers * i / most) as i64;
        let part = |i| Part { first: Some(at(i)), last: at(i + 1).wrapping_sub(1), ..self };
        (0..most)
            .map(|i| if i + 1 == most { Part { last: self.last, ..part(i) } } else { part(i) })
            .collect()
    }
}

/// Why a query stopped.
enum Stop {
    Sql(rusqlite::Error),
    /// It gave more than a file of this size can hold.
    Endless,
}

impl From<rusqlite::Error> for Stop {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            // The handler stopped it, it filled the memory, or one value is longer than the file.
            Some(ErrorCode::OperationInterrupted | ErrorCode::OutOfMemory | ErrorCode::TooBig) => {
                Stop::Endless
            }
            _ => Stop::Sql(error),
        }
    }
}

impl Db {
    /// Opens a report for reading.
    ///
    /// # Errors
    /// Not a readable, whole SQLite file, or no export of Nsight Systems.
    pub fn open(path: &Path) -> Result<Db> {
        let size = sniff::require_sqlite(path)?;
        let state = state(path);
        require_unlocked(path)?;
        // `immutable` takes no lock and needs no file beside the report: shared and read-only file systems work.
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI;
        let connection = Connection::open_with_flags(uri(path, "immutable=1"), flags)
            .map_err(|e| sql_error(path, &e))?;
        let mut db = Db {
            connection,
            path: path.to_owned(),
            size,
            state,
            steps_left: Arc::default(),
            text_left: Cell::new(size.saturating_mul(TEXT_PER_BYTE)),
            gathered: Gathered::default(),
            others: Mutex::default(),
            tables: Vec::new(),
        };
        gather::define(&db.connection, &db.gathered).map_err(|e| sql_error(path, &e))?;
        db.bound().map_err(|e| sql_error(path, &e))?;
        let memory = MOST_MEMORY + 4 * CACHE * rayon::current_num_threads() as u64;
        db.batch(&format!(
            "PRAGMA temp_store = MEMORY; PRAGMA cache_size = -{}; PRAGMA trusted_schema = OFF; PRAGMA hard_heap_limit = {memory};",
            CACHE / 1024
        ))?;
        let Schema { tables: names, others } = db.schema()?;
        if let Some((kind, name)) =
            others.iter().find(|(_, name)| TABLES.iter().any(|table| table.is_called(name)))
        {
            // Views and virtual tables can run without end, and an export has none.
            return Err(Error::input(path, format!("holds a {kind} in place of the table {name}, so it is not an export of Nsight Systems"))
                .with_hint(format!("export the report: {} REPORT.nsys-rep", super::export::COMMAND)));
        }
        if !MARKS.iter().any(|mark| names.iter().any(|name| name.eq_ignore_ascii_case(mark))) {
            return Err(Error::input(
                path,
                "is a SQLite file, but no export of Nsight Systems (none of its tables is there)",
            )
            .with_hint(format!("export the report: {} REPORT.nsys-rep", super::export::COMMAND)));
        }
        db.allow_steps();
        let columns = |name: String| Ok(Present { columns: columns(&db.connection, &name)?, name });
        let tables: rusqlite::Result<_> = names.into_iter().map(columns).collect();
        db.tables = tables.map_err(|e| db.stopped(e.into()))?;
        lay_views(&db.connection, &db.tables).map_err(|e| db.stopped(e.into()))?;
        Ok(db)
    }

    /// Has SQLite ask now and then whether it may go on, and refuse values that are longer than the file.
    fn bound(&mut self) -> rusqlite::Result<()> {
        self.allow_steps();
        let left = Arc::clone(&self.steps_left);
        let must_stop = move || {
            let before = left.load(Ordering::Relaxed);
            left.store(before.saturating_sub(STEPS_AT_ONCE), Ordering::Relaxed);
            before < STEPS_AT_ONCE
        };
        self.connection.progress_handler(STEPS_AT_ONCE as i32, Some(must_stop))?;
        let longest = i32::try_from(self.size).unwrap_or(i32::MAX).max(1 << 16);
        self.connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, longest)?;
        Ok(())
    }

    fn allow_steps(&self) {
        let steps = self.size.saturating_mul(STEPS_PER_BYTE).max(LEAST_STEPS);
        self.steps_left.store(steps, Ordering::Relaxed);
    }

    /// Size of the file in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The tables that are there, by name.
    pub fn tables(&self) -> &[Present] {
        &self.tables
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Hands every row of a query to `f`; returns how many there were.
    ///
    /// # Errors
    /// The file is damaged, changes while it is read, or gives more rows or text than a file of its size can hold.
    pub fn each(
        &self,
        query: Query,
        parameters: impl rusqlite::Params,
        mut f: impl FnMut(&Row<'_>),
    ) -> Result<u64> {
        self.allow_steps();
        let most_rows = self.size / SMALLEST_ROW;
        let run = || -> std::result::Result<u64, Stop> {
            let mut statement = self.connection.prepare_cached(query.sql)?;
            let texts = text_columns(&statement);
            let mut rows = statement.query(parameters)?;
            let mut count = 0;
            while let Some(row) = rows.next()? {
                count += 1;
                if count > most_rows || !self.allow_text(row, &texts) {
                    return Err(Stop::Endless);
                }
                f(row);
            }
            Ok(count)
        };
        // `run` is called once; it is a closure only so that `?` has one error type.
        let count = run().map_err(|stop| self.stopped(stop))?;
        // Looking up a single row is part of going over many, after which the file is looked at.
        if count > 1 {
            self.require_unchanged()?;
        }
        Ok(count)
    }

    /// Hands every row of a query of numbers to `f`, where the row is in `part`; returns how many there were. The query is of one
    /// table and has no condition.
    ///
    /// # Errors
    /// As of [`Db::each`].
    pub fn each_ints(&self, query: Query, part: Part, mut f: impl FnMut(Ints<'_>)) -> Result<u64> {
        let Some(mut at) = part.first else { return Ok(0) };
        self.allow_steps();
        let most_rows = self.size / SMALLEST_ROW;
        let mut run = || -> std::result::Result<u64, Stop> {
            let columns = {
                let statement = self.connection.prepare_cached(query.sql)?;
                statement.column_names().map(quoted).collect::<Vec<_>>()
            };
            let mut gather = self.connection.prepare_cached(&format!(
                "SELECT {}({}) FROM ({}\nWHERE rowid BETWEEN ?1 AND ?2)",
                gather::FUNCTION,
                columns.join(", "),
                query.sql
            ))?;
            let next = format!("SELECT min(rowid) FROM {} WHERE rowid > ?1", part.table);
            let mut next = self.connection.prepare_cached(&next)?;
            let mut count = 0;
            loop {
                let last = at.saturating_add(gather::BATCH - 1).min(part.last);
                gather.query_row([at, last], |_| Ok(()))?;
                let rows = self.gathered.hand_out(columns.len(), &mut f);
                count += rows;
                if count > most_rows {
                    return Err(Stop::Endless);
                }
                // Where a whole batch is empty, numbers are missing.
                let after = match rows {
                    0 => next.query_row([last], |row| row.get::<_, Option<i64>>(0))?,
                    _ => last.checked_add(1),
                };
                match after.filter(|&after| after > last && after <= part.last) {
                    Some(after) => at = after,
                    None => return Ok(count),
                }
            }
        };
        let count = run().map_err(|stop| self.stopped(stop))?;
        self.require_unchanged()?;
        Ok(count)
    }

    /// All rows of a table.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn whole(&self, table: &'static str) -> Result<Part> {
        self.allow_steps();
        let end = |which: &str| -> rusqlite::Result<Option<i64>> {
            let sql = format!("SELECT {which}(rowid) FROM {table}");
            self.connection.query_row(&sql, [], |row| row.get(0))
        };
        let ends = end("min").and_then(|first| Ok((first, end("max")?)));
        let (first, last) = ends.map_err(|e| self.stopped(e.into()))?;
        Ok(Part { table, first, last: last.unwrap_or(0) })
    }

    /// Reads a table in at most `most` parts, several at the same time; what `read` makes of each, in order.
    ///
    /// # Errors
    /// That of the first part that has one.
    pub fn in_parts<T: Send>(
        &self,
        table: &'static str,
        most: usize,
        read: impl Fn(&Db, Part) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let whole = self.whole(table)?;
        let parts = whole.split(most);
        if parts.len() < 2 {
            return Ok(vec![read(self, whole)?]);
        }
        let (others, path, state) = (&self.others, &self.path, self.state);
        let done: Vec<Result<T>> = parts
            .into_par_iter()
            .map(|part| {
                let other = others.lock().unwrap_or_else(PoisonError::into_inner).pop();
                let mut db = other.map_or_else(|| Db::open(path), Ok)?;
                // Rows of two versions of a file never stood in it together.
                db.state = state;
                let made = read(&db, part);
                others.lock().unwrap_or_else(PoisonError::into_inner).push(db);
                made
            })
            .collect();
        done.into_iter().collect()
    }

    /// False if the texts of a row are more than the file can hold together with those before.
    fn allow_text(&self, row: &Row<'_>, columns: &[usize]) -> bool {
        let bytes: usize = columns.iter().filter_map(|&at| bytes(row, at)).map(<[u8]>::len).sum();
        let left = self.text_left.get().checked_sub(bytes as u64);
        self.text_left.set(left.unwrap_or(0));
        left.is_some()
    }

    /// A file that grows or changes gives rows that never stood in it together.
    fn require_unchanged(&self) -> Result<()> {
        if state(&self.path) == self.state {
            return Ok(());
        }
        Err(Error::input(&self.path, "was changed while it was read")
            .with_hint("wait for the program that writes it, then run this again"))
    }

    fn stopped(&self, stop: Stop) -> Error {
        // A file that changes under the reader looks damaged; that it changes is the reason.
        if let Err(changed) = self.require_unchanged() {
            return changed;
        }
        match stop {
            Stop::Sql(error) => sql_error(&self.path, &error),
            Stop::Endless => Error::input(
                &self.path,
                format!("is damaged: it claims more rows than its {} bytes can hold", self.size),
            )
            .with_hint(EXPORT_AGAIN),
        }
    }

    fn batch(&self, sql: &str) -> Result<()> {
        self.connection.execute_batch(sql).map_err(|e| self.stopped(e.into()))
    }

    fn schema(&self) -> Result<Schema> {
        let read = || -> rusqlite::Result<Schema> {
            let mut schema = Schema::default();
            let mut statement = self.connection.prepare(
                "SELECT type, name, rootpage FROM main.sqlite_master WHERE type IN ('table', 'view') ORDER BY name",
            )?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let (kind, name): (String, String) = (row.get(0)?, row.get(1)?);
                match (kind.as_str(), row.get::<_, Option<i64>>(2)?) {
                    ("table", Some(1..)) => schema.tables.push(name),
                    ("table", _) => schema.others.push(("virtual table", name)),
                    _ => schema.others.push(("view", name)),
                }
            }
            Ok(schema)
        };
        self.allow_steps();
        read().map_err(|e| self.stopped(e.into()))
    }
}

/// What a database says that it holds.
#[derive(Default)]
struct Schema {
    /// Tables whose rows are in the file.
    tables: Vec<String>,
    /// What has rows that SQLite computes, with what it is.
    others: Vec<(&'static str, String)>,
}

fn text_columns(statement: &Statement<'_>) -> Vec<usize> {
    let names = statement.column_names().enumerate();
    names.filter(|(_, name)| TEXT_COLUMNS.contains(name)).map(|(at, _)| at).collect()
}

fn state(path: &Path) -> Option<(u64, SystemTime)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.len(), metadata.modified().ok()?))
}

/// Refuses a database into which a transaction is being written, whose journal may be in memory: half of it is there.
/// Where locks cannot be taken (read-only folders, some shared file systems), nothing is refused.
fn require_unlocked(path: &Path) -> Result<()> {
    // In write-ahead mode taking a lock makes files beside the database, and changes are in a file of their own.
    let writes_ahead =
        open::head(path, 20)?.get(18..20).is_some_and(|versions| versions.contains(&2));
    if writes_ahead {
        return Ok(());
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let lock = || -> rusqlite::Result<()> {
        let connection = Connection::open_with_flags(uri(path, "mode=ro"), flags)?;
        connection.busy_timeout(Duration::ZERO)?;
        connection.pragma_query(None, "schema_version", |_| Ok(()))
    };
    match lock().map_err(|error| error.sqlite_error_code()) {
        Err(Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)) => {
            Err(Error::input(path, "is locked: another program is writing to it")
                .with_hint("wait for the program that writes it, then run this again"))
        }
        _ => Ok(()),
    }
}

/// Lays the temporary views over the tables that are there.
///
/// # Errors
/// The database is damaged.
pub fn lay_views(connection: &Connection, present: &[Present]) -> rusqlite::Result<()> {
    for table in TABLES {
        let found = [Some(table.name), table.alias]
            .into_iter()
            .flatten()
            .find_map(|wanted| present.iter().find(|t| t.name.eq_ignore_ascii_case(wanted)));
        connection.execute_batch(&view_sql(table, found))?;
    }
    Ok(())
}

/// The columns of a table.
///
/// # Errors
/// The database is damaged.
pub fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?1, 'main')")?;
    statement.query_map([table], |row| row.get(0))?.collect()
}

fn view_sql(table: &Table, found: Option<&Present>) -> String {
    let there = found.map_or(&[][..], |found| &found.columns);
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
        Some(found) => format!("FROM main.{}", quoted(&found.name)),
        None => "WHERE 0".to_owned(),
    };
    format!("CREATE TEMP VIEW {} AS SELECT {} {source};", quoted(table.name), columns.join(", "))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn uri(path: &Path, parameters: &str) -> String {
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
    uri.push('?');
    uri.push_str(parameters);
    uri
}

fn sql_error(path: &Path, error: &rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            Error::input(path, format!("is damaged ({error})")).with_hint(EXPORT_AGAIN)
        }
        _ => Error::input(path, format!("cannot be read ({error})")).with_hint(EXPORT_AGAIN),
    }
}

/// Column `at` as an integer; `None` for NULL and for what is not an integer.
pub(crate) fn int(row: &Row<'_>, at: usize) -> Option<i64> {
    row.get_ref(at).ok().and_then(integer)
}

/// Column `at` as a time; `None` where it cannot be one.
pub(crate) fn time(row: &Row<'_>, at: usize) -> Option<Ns> {
    int(row, at).filter(|&ns| is_time(ns))
}

/// Column `at` as text, with what is no UTF-8 replaced, at most 1 MiB of it; `None` for NULL and blobs.
pub(crate) fn text<'r>(row: &'r Row<'_>, at: usize) -> Option<std::borrow::Cow<'r, str>> {
    match row.get_ref(at) {
        Ok(ValueRef::Text(text)) => {
            Some(String::from_utf8_lossy(&text[..text.len().min(LONGEST_TEXT)]))
        }
        _ => None,
    }
}

/// Column `at` as text that may be shown: see [`redact::text`], and not longer than anyone reads.
pub(crate) fn shown(row: &Row<'_>, at: usize) -> Option<String> {
    text(row, at).map(|text| redact::text(&shorten(&text, LONGEST_SHOWN)).into_owned())
}

/// Column `at` as bytes, whether stored as blob or text; `None` for NULL and numbers.
pub(crate) fn bytes<'r>(row: &'r Row<'_>, at: usize) -> Option<&'r [u8]> {
    match row.get_ref(at) {
        Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => Some(bytes),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_every_number_once() {
        let ends = [(1, 1), (1, 10), (-5, 3), (i64::MIN, i64::MAX), (i64::MAX - 1, i64::MAX)];
        for (first, last) in ends {
            for most in [0, 1, 3, 64] {
                let parts = Part { table: "T", first: Some(first), last }.split(most);
                assert!(parts.len() <= most.max(1));
                assert_eq!(parts.first().and_then(|part| part.first), Some(first));
                assert_eq!(parts.last().map(|part| part.last), Some(last));
                for pair in parts.windows(2) {
                    assert_eq!(pair[1].first, pair[0].last.checked_add(1));
                    assert!(pair[0].first <= Some(pair[0].last));
                }
            }
        }
        assert_eq!(Part { table: "T", first: None, last: 0 }.split(5).len(), 1);
    }
}
