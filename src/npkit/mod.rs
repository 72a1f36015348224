//! What happens inside of a collective: dumps of NPKit, alone or beside the report of the same processes.
//!
//! ```text
//! folder --files--> read: record -> lane, proxy --> Dump --group--> view      (`nsysnccl npkit`)
//! JSON of the generator --trace-------------------^   '----------> join      (`report --npkit`)
//!                                                     phases, findings: of both
//! ```

pub(crate) mod channels;
pub(crate) mod dump;
pub(crate) mod files;
pub(crate) mod findings;
pub(crate) mod group;
pub(crate) mod ids;
pub(crate) mod join;
pub(crate) mod lane;
pub(crate) mod lanes;
pub(crate) mod phases;
pub(crate) mod primitive;
mod problem;
pub(crate) mod proxy;
pub mod read;
pub(crate) mod record;
pub(crate) mod totals;
pub(crate) mod trace;
pub(crate) mod view;

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
