//! Kinds of evidence: what each would tell, and how it is captured.
//!
//! Options of nsys are those of `nsys profile --help` and `nsys export --help` (2025.3); variables are those that NCCL, its Inspector and
//! NPKit read.

use serde::{Deserialize, Serialize};

/// The capture that has everything a report needs of a trace.
pub(crate) const PROFILE: &str = "nsys profile --trace=cuda,nvtx --cuda-graph-trace=node";
/// The export that has everything.
pub(crate) const EXPORT: &str = "nsys export --type sqlite --include-blobs true --include-json true --force-overwrite true REPORT.nsys-rep";
/// The run that writes Inspector logs.
pub(crate) const INSPECTOR: &str = "NCCL_PROFILER_PLUGIN=/path/to/libnccl-profiler-inspector.so NCCL_INSPECTOR_ENABLE=1 NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS=500000 NCCL_INSPECTOR_DUMP_DIR=FOLDER (its parent has to exist), and give the folder to --inspector";
/// The run that writes an NCCL log for each process.
pub(crate) const NCCL_LOG: &str =
    "Run with NCCL_DEBUG=INFO NCCL_DEBUG_FILE=nccl.%h.%p.log and give the files to --nccl-log.";
/// What prints the topology of a machine.
pub(crate) const TOPOLOGY: &str =
    "On the machine: nvidia-smi topo -m > topo.txt; give the file to --topo.";

/// A kind of evidence. A rule that needs one which is not there says nothing: what it would say is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum Class {
    Trace,
    OtherRanks,
    Sizes,
    Dependencies,
    NcclLog,
    Topology,
    Npkit,
    Counters,
    Inspector,
}

impl Class {
    /// All kinds, in the order in which they are listed.
    pub const ALL: [Class; 9] = [
        Class::Trace,
        Class::OtherRanks,
        Class::Sizes,
        Class::Dependencies,
        Class::NcclLog,
        Class::Topology,
        Class::Npkit,
        Class::Counters,
        Class::Inspector,
    ];

    /// In words.
    pub fn label(self) -> &'static str {
        match self {
            Class::Trace => "trace",
            Class::OtherRanks => "traces of several ranks",
            Class::Sizes => "message sizes",
            Class::Dependencies => "dependencies",
            Class::NcclLog => "NCCL log",
            Class::Topology => "topology",
            Class::Npkit => "NPKit dumps",
            Class::Counters => "GPU counters",
            Class::Inspector => "Inspector logs",
        }
    }

    /// What it would tell, as a clause.
    pub fn answers(self) -> &'static str {
        match self {
            Class::Trace => "where the time of a step goes",
            Class::OtherRanks => {
                "which rank the others wait for, and whether ranks have equal work and a GPU each"
            }
            Class::Sizes => "whether messages are too small to use the link",
            Class::Dependencies => "what removing the cause of a finding would gain",
            Class::NcclLog => {
                "whether ranks exchange data by a slower way than they could (host memory, sockets, cards without GPU Direct RDMA)"
            }
            Class::Topology => {
                "whether GPUs are linked by a better way than is used, whether links are missing, and whether nearer cards exist"
            }
            Class::Npkit => {
                "what happens inside of a collective: who waits for whom, slow channels, slow proxies"
            }
            Class::Counters => "how busy the parts of each GPU and its links are",
            Class::Inspector => {
                "whether a rank, a communicator or a stretch of the whole run is slow, beyond the captured steps"
            }
        }
    }

    /// How it is captured, as a sentence.
    pub fn capture(self) -> String {
        match self {
            Class::Trace => format!("Capture with {PROFILE}."),
            Class::OtherRanks => {
                "Capture every rank (torchrun --no-python nsys profile --output=NAME_%q{RANK}) and give all reports.".to_owned()
            }
            Class::Sizes => format!(
                "Export with {EXPORT}; where NCCL's ranges carry no payloads, give Inspector logs with --inspector."
            ),
            Class::Dependencies => format!(
                "Capture with {PROFILE}, export all tables, and report without --no-replay."
            ),
            Class::NcclLog => NCCL_LOG.to_owned(),
            Class::Topology => TOPOLOGY.to_owned(),
            Class::Npkit => {
                "Run with a library that was built with NPKit, with NPKIT_DUMP_DIR=FOLDER (it has to exist), and give the folder to --npkit.".to_owned()
            }
            Class::Counters => format!("Capture with {PROFILE} --gpu-metrics-devices=all."),
            Class::Inspector => format!("Run with {INSPECTOR}; nsysnccl inspect reads it alone."),
        }
    }
}
