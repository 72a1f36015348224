//! NPKit's dumps: against the reference generator, with every fault, beside reports.

mod command;
mod dump;
mod faults;
mod joined;
mod reference;

pub use dump::{SEND, Writer};
