//! Across ranks: which operations are the same collective ([`matching`]), how far clocks are apart ([`clocks`]),
//! how long data moved and ranks waited ([`transfer`]), and all of it by operation, communicator and size ([`groups`]).

pub mod analyse;
pub mod clocks;
pub mod events;
pub mod groups;
pub mod matching;
pub mod transfer;
