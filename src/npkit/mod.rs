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
pub mod phases;
pub mod primitive;
mod problem;
pub mod proxy;
pub mod read;
pub mod record;
pub mod totals;
pub mod trace;
pub mod view;
