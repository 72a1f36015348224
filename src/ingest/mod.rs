//! Files in, model out.

pub(crate) mod communicators;
pub(crate) mod counters;
pub(crate) mod encoding;
pub(crate) mod folder;
pub(crate) mod hosts;
pub(crate) mod inspector;
pub(crate) mod kind;
pub(crate) mod nccl_log;
pub(crate) mod nsys;
pub(crate) mod one_run;
pub(crate) mod open;
pub(crate) mod ranks;
pub(crate) mod sniff;
pub(crate) mod topo;
