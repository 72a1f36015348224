//! Files on their way in: opened, recognised, read into the model.

pub mod nccl_log;
pub mod topo;
