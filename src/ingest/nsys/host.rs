//! The host's side of each process with GPU work: CUDA calls, event records, synchronisations.
//!
//! The tables are scanned once, for all processes. A report without one of the tables has no rows in it (`db`); whether it
//! lacks the table or nothing of the kind happened is told by the names of the calls.

use foldhash::HashMap;

use super::db::{Db, int, text};
use super::ids::process_of;
use super::queries;
use crate::Result;
use crate::model::Names;
use crate::model::host::{Calls, EventRecord, Host, SyncKind, Synchronization};
use crate::model::{NameId, Ns};

/// Reads the host's side of these processes.
///
/// # Errors
/// The report is damaged.
pub fn read(
    db: &Db,
    processes: impl Iterator<Item = u64>,
    names: &mut Names,
) -> Result<HashMap<u64, Host>> {
    let mut hosts: HashMap<u64, Host> = processes.map(|key| (key, Host::default())).collect();
    read_calls(db, &mut hosts, names)?;
    db.each(queries::EVENT_RECORDS, [], |row| {
        let Some(host) = int(row, 0).and_then(|pid| hosts.get_mut(&process_of(pid))) else {
            return;
        };
        if let (Some(context), Some(stream), Some(correlation), Some(event)) =
            (int(row, 1), int(row, 2), int(row, 3), int(row, 4))
        {
            let stream = (context, stream);
            host.records.push(EventRecord { correlation, stream, event, sync: int(row, 5) });
        }
    })?;
    db.each(queries::SYNCHRONIZATIONS, [], |row| {
        let Some(host) = int(row, 0).and_then(|pid| hosts.get_mut(&process_of(pid))) else {
            return;
        };
        let kind = int(row, 4).and_then(SyncKind::parse);
        if let (Some(kind), Some(context), Some(correlation)) = (kind, int(row, 1), int(row, 3)) {
            host.syncs.push(Synchronization {
                correlation,
                kind,
                stream: (context, int(row, 2).unwrap_or(0)),
                event: int(row, 5).unwrap_or(0),
                sync: int(row, 6),
            });
        }
    })?;
    for host in hosts.values_mut() {
        host.records.sort_unstable();
        host.syncs.sort_unstable();
    }
    Ok(hosts)
}

/// One call while it is read: start, end, correlation, thread, name.
type Row = (Ns, Ns, i64, u32, NameId);

/// The calls of one process while they are read; threads are numbered as they come.
#[derive(Default)]
struct Reading {
    rows: Vec<Row>,
    threads: HashMap<u64, u32>,
}

fn read_calls(db: &Db, hosts: &mut HashMap<u64, Host>, names: &mut Names) -> Result<()> {
    let mut reading: HashMap<u64, Reading> =
        hosts.keys().map(|&key| (key, Reading::default())).collect();
    // The id of each function's name, until its text is known.
    let mut functions: HashMap<i64, NameId> = HashMap::default();
    let all = db.whole("CUPTI_ACTIVITY_KIND_RUNTIME")?;
    db.each_ints(queries::HOST_CALLS, all, |row| {
        let (Some(start), Some(end), Some(thread)) = (row.time(0), row.time(1), row.int(3)) else {
            return;
        };
        let Some(process) = reading.get_mut(&process_of(thread)) else { return };
        let next = process.threads.len() as u32;
        let thread = *process.threads.entry(thread as u64).or_insert(next);
        let next = NameId(functions.len() as u32);
        let name = *functions.entry(row.int(4).unwrap_or(-1)).or_insert(next);
        let correlation = row.int(2).unwrap_or(0);
        process.rows.push((start, end.max(start), correlation, thread, name));
    })?;
    let texts = function_names(db, functions, names)?;
    for (key, mut process) in reading {
        let Some(host) = hosts.get_mut(&key) else { continue };
        let mut threads: Vec<(u64, u32)> = process.threads.drain().collect();
        threads.sort_unstable();
        let mut place = vec![0; threads.len()];
        for (new, &(_, old)) in threads.iter().enumerate() {
            place[old as usize] = new as u32;
        }
        for row in &mut process.rows {
            row.3 = place[row.3 as usize];
            row.4 = texts.get(row.4.0 as usize).copied().unwrap_or(NameId::NONE);
        }
        // Of calls that start together the longer one encloses the other.
        process.rows.sort_unstable_by_key(|&(start, end, id, thread, name)| {
            (start, std::cmp::Reverse(end), thread, id, name)
        });
        host.threads = threads.into_iter().map(|(thread, _)| thread).collect();
        host.calls = columns(&process.rows);
    }
    Ok(())
}

fn columns(rows: &[Row]) -> Calls {
    Calls {
        start: rows.iter().map(|row| row.0).collect(),
        end: rows.iter().map(|row| row.1).collect(),
        correlation: rows.iter().map(|row| row.2).collect(),
        thread: rows.iter().map(|row| row.3).collect(),
        name: rows.iter().map(|row| row.4).collect(),
    }
}

/// Names of API functions in the order of their numbers, without the version at their end (`_v7000`).
fn function_names(
    db: &Db,
    functions: HashMap<i64, NameId>,
    names: &mut Names,
) -> Result<Vec<NameId>> {
    let mut ids: Vec<(NameId, i64)> = functions.into_iter().map(|(id, n)| (n, id)).collect();
    ids.sort_unstable();
    let mut list = Vec::with_capacity(ids.len());
    for (_, id) in ids {
        let mut name = NameId::NONE;
        db.each(queries::STRING, [id], |row| {
            if let Some(function) = text(row, 0) {
                name = names.intern(without_version(&function));
            }
        })?;
        list.push(name);
    }
    Ok(list)
}

/// `cudaLaunchKernel_v7000` is `cudaLaunchKernel`.
fn without_version(function: &str) -> &str {
    match function.rsplit_once("_v") {
        Some((name, version)) if version.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => function,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_named_without_their_version() {
        assert_eq!(without_version("cudaLaunchKernel_v7000"), "cudaLaunchKernel");
        assert_eq!(without_version("cuLaunchKernel"), "cuLaunchKernel");
        assert_eq!(without_version("cudaMemcpy_value"), "cudaMemcpy_value");
    }
}
