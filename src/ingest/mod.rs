//! Files in, model out.

pub mod communicators;
pub mod counters;
pub mod encoding;
pub mod folder;
pub mod hosts;
pub mod inspector;
pub mod kind;
pub mod nccl_log;
pub mod nsys;
pub mod one_run;
pub mod open;
pub mod ranks;
pub mod sniff;
pub mod topo;
