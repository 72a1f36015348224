//! Why a step takes as long as it does, and what a change would gain: part of the report's view model.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::catalogue::Scenario;
use crate::model::CommOp;

/// The run, played again from its own dependencies: how far that can be trusted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Replay {
    /// Largest share by which the time of a step in the replay differs from the measured one; `None` without a replay.
    pub worst_error: Option<f64>,
    /// Dependencies in the graph.
    pub edges: u64,
    /// Share of them whose source is later than what depends on it in the capture.
    pub violated: Option<f64>,
    /// Share of the critical paths in which an operation starts later than anything explains.
    pub lag_share: Option<f64>,
    /// Why there is no replay.
    pub reason: Option<String>,
}

/// What a step of the run consists of along the dependencies that held it up. The eight parts add up to the step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CriticalPath {
    /// Index of the run's step.
    pub step: usize,
    /// The rank with whose window the path ends.
    pub slowest_rank: u32,
    /// Kernels that are not communication, ns.
    pub compute_ns: i64,
    /// Data moves between ranks, ns.
    pub transfer_ns: i64,
    /// Waiting for ranks that cannot be followed: not captured, or not matched, ns.
    pub wait_ns: i64,
    /// Copies and memsets, ns.
    pub copy_ns: i64,
    /// From launching calls to their operations, ns.
    pub launch_ns: i64,
    /// The host's calls and what lies between them, ns.
    pub host_ns: i64,
    /// Returning from synchronisations and from launches into full queues, ns.
    pub sync_ns: i64,
    /// Operations that start later than anything explains, ns.
    pub lag_ns: i64,
    /// Time of the path on each rank, ns.
    pub by_rank: BTreeMap<u32, i64>,
}

/// What a scenario is about, where it is not about the whole run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Scope {
    /// Communicator id as `0x` + 16 hex digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comm_id: Option<String>,
    /// `AllReduce`, ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<CommOp>,
    /// Smallest payload, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_min: Option<u64>,
    /// Largest payload, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_max: Option<u64>,
}

/// The predicted step, were one thing other than it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WhatIf {
    /// What changes.
    pub id: Scenario,
    /// Of what.
    pub scope: Scope,
    /// Median of the predicted steps over those that count, ns.
    pub step_ns: i64,
    /// Measured median minus that, ns.
    pub gain_ns: i64,
    /// Share of the measured median.
    pub gain_fraction: Option<f64>,
    /// Least and greatest predicted step: lags may stay, or go with the cause that the change removes, ns.
    pub range_ns: [i64; 2],
}
