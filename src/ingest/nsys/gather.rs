//! Rows of numbers, many at a time: an aggregate function takes the values where SQLite has them, so that no row is handed
//! over by itself. Stepping through millions of rows costs more than all that is done with them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::functions::{Aggregate, Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, Result, ffi};

use crate::model::Ns;

/// The name of the function in SQL.
pub const FUNCTION: &str = "gather_integers";
/// Numbers of rows that are gathered at once: few enough that they stay in the processor's cache.
pub const BATCH: i64 = 4096;
/// Stands for NULL and for what is not an integer. No column that is read has this value.
const NOTHING: i64 = i64::MIN;

/// One row.
#[derive(Debug, Clone, Copy)]
pub struct Ints<'a>(&'a [i64]);

impl Ints<'_> {
    /// Column `at`; `None` for NULL and for what is not an integer.
    pub fn int(self, at: usize) -> Option<i64> {
        self.0.get(at).copied().filter(|&value| value != NOTHING)
    }

    /// Column `at` as a time; `None` where it cannot be one.
    pub fn time(self, at: usize) -> Option<Ns> {
        self.0.get(at).copied().filter(|&ns| is_time(ns))
    }
}

/// The values that were gathered last, row by row.
#[derive(Debug, Clone, Default)]
pub struct Gathered(Arc<Mutex<Vec<i64>>>);

impl Gathered {
    /// Hands out the rows, of `columns` values each; returns how many there were.
    pub fn hand_out(&self, columns: usize, mut f: impl FnMut(Ints<'_>)) -> u64 {
        let mut values = self.lock();
        let rows = values.chunks_exact(columns.max(1));
        let count = rows.len() as u64;
        rows.for_each(|row| f(Ints(row)));
        values.clear();
        count
    }

    fn lock(&self) -> MutexGuard<'_, Vec<i64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A value as an integer; `None` for NULL and for what is not an integer.
pub fn integer(value: ValueRef<'_>) -> Option<i64> {
    match value {
        ValueRef::Integer(value) => Some(value),
        ValueRef::Real(value) if value.fract() == 0.0 && value.abs() < 9.0e15 => Some(value as i64),
        ValueRef::Text(text) => std::str::from_utf8(text).ok()?.trim().parse().ok(),
        _ => None,
    }
}

/// No time is this far from 0, in nanoseconds: 146 years. The distance of any two nearer ones is an `i64` too.
const FARTHEST: Ns = 1 << 62;

/// True for a number of nanoseconds that can be a time.
pub fn is_time(ns: Ns) -> bool {
    -FARTHEST < ns && ns < FARTHEST
}

/// Gives the function to a connection; what it gathers is in `to`.
///
/// # Errors
/// SQLite refuses it.
pub fn define(connection: &Connection, to: &Gathered) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DIRECTONLY;
    connection.create_aggregate_function(FUNCTION, -1, flags, to.clone())
}

impl Aggregate<Vec<i64>, i64> for Gathered {
    fn init(&self, _: &mut Context<'_>) -> Result<Vec<i64>> {
        let mut values = std::mem::take(&mut *self.lock());
        values.clear();
        Ok(values)
    }

    fn step(&self, context: &mut Context<'_>, values: &mut Vec<i64>) -> Result<()> {
        let columns = context.len();
        // So many rows have not so many numbers: pages of the file name each other.
        if values.len() >= columns * BATCH as usize {
            return Err(Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_TOOBIG), None));
        }
        values.extend((0..columns).map(|at| integer(context.get_raw(at)).unwrap_or(NOTHING)));
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, values: Option<Vec<i64>>) -> Result<i64> {
        *self.lock() = values.unwrap_or_default();
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_integer_is_none() {
        let connection = Connection::open_in_memory().expect("a database");
        let gathered = Gathered::default();
        define(&connection, &gathered).expect("defined");
        let sql = "SELECT gather_integers(column1, column2) FROM (VALUES (1, NULL), (2.0, 'x'), ('3', 2.5), (-9223372036854775807, x'00'))";
        connection.query_row(sql, [], |_| Ok(())).expect("one row");
        let mut rows = Vec::new();
        let count = gathered.hand_out(2, |row| rows.push((row.int(0), row.int(1), row.time(0))));
        assert_eq!(count, 4);
        let firsts = [1, 2, 3].map(|n| (Some(n), None, Some(n)));
        assert_eq!(rows[..3], firsts);
        assert_eq!(rows[3], (Some(-i64::MAX), None, None));
        assert_eq!(gathered.hand_out(2, |_| ()), 0);
    }
}
