//! What happens inside of a collective: dumps of NPKit, alone or beside the report of the same processes.
//!
//! ```text
//! folder --files--> read: record -> lane, proxy --> Dump --group--> view      (`nsysnccl npkit`)
//! JSON of the generator --trace-------------------^   '----------> join      (`report --npkit`)
//!                                                     phases, findings: of both
//! ```

pub mod channels;
pub mod dump;
pub mod files;
pub mod findings;
pub mod group;
pub mod ids;
pub mod join;
pub mod lane;
pub mod lanes;
pub mod phases;
pub mod primitive;
mod problem;
pub mod proxy;
pub mod read;
pub mod record;
pub mod totals;
pub mod trace;
pub mod view;

use std::path::PathBuf;

use self::dump::Dump;
use self::read::Table;
use crate::{Error, Result};

/// Reads the dump in some folders, or the one JSON that NPKit's generator made of it.
///
/// # Errors
/// Nothing that NPKit wrote, a file that cannot be read, numbers that mean different things in libraries that fit.
pub fn read(paths: &[PathBuf], table: Table) -> Result<Dump> {
    match (paths, table) {
        ([file], Table::Fitting(_)) if file.is_file() => trace::read(file),
        ([file], Table::Given(_)) if file.is_file() => {
            Err(Error::usage("--lib and --header are for the folder of a dump")
                .with_hint("the generator's JSON has the names of events already"))
        }
        (folders, table) => read::folders(folders, table),
    }
}
