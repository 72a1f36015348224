//! An export of nsys as an input: what it is and how it was captured.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One input file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Input {
    /// Path as given.
    pub path: String,
    /// Version of Nsight Systems that exported it.
    pub nsys_version: Option<String>,
    /// Version of the export's schema.
    pub schema_version: Option<String>,
    /// What was captured and how.
    pub capture: Capture,
    /// Size of the file in bytes.
    pub size_bytes: u64,
}

/// Capture settings that matter for the numbers. Of the captured environment only NCCL and CUDA settings are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Capture {
    /// `Graph` or `Node`: whether CUDA graphs are one row or their kernels.
    pub cuda_graph_mode: Option<String>,
    /// NCCL and CUDA variables of the captured environment, by name.
    pub settings: BTreeMap<String, String>,
    /// Rows read, by kind: `kernels`, `copies`, `memsets`, `graphs`, `api_calls`, `ranges`.
    pub rows: BTreeMap<String, u64>,
    /// True if NCCL ranges carry payloads (communicator id and bytes).
    pub nccl_payloads: bool,
}
