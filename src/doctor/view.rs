//! The view model of `doctor`, which `--format json` prints as it stands (schema `nsysnccl.doctor/1`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Serialize, Serializer};

use crate::Error;
use crate::catalogue::{Id, Severity};
use crate::ingest::kind::{self, Kind};
use crate::ingest::nsys::contents::Note;
use crate::ingest::nsys::metadata::Exported;
use crate::model::RankSource;
use crate::model::topology::Topology;
use crate::steps::StepSource;

/// Entries of a list inside an entry that JSON prints: writers of a log, its processes, notes of the profiler.
const LISTED: usize = 1000;

/// Name and version of the JSON document.
pub const SCHEMA: &str = "nsysnccl.doctor/1";

/// What is in the files.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Examination {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Version of this program.
    pub tool_version: &'static str,
    /// The exports of each run, with what belongs to them.
    pub runs: Vec<Run>,
    /// Exports of nsys in order of their paths.
    pub exports: Vec<Export>,
    /// Inspector logs with records.
    pub inspector_logs: Vec<InspectorLog>,
    /// NCCL logs with messages.
    pub nccl_logs: Vec<NcclLogFile>,
    /// Topology matrices.
    pub topologies: Vec<TopologyFile>,
    /// Inputs of other commands.
    pub further_files: Vec<FurtherFile>,
    /// Files that cannot be used, and why.
    pub unusable: Vec<Unusable>,
    /// Files that were found in folders and are something else; JSON has the first thousand.
    #[serde(serialize_with = "first")]
    pub other_files: Vec<String>,
    /// A command that compares the runs; `None` unless there are several that can be reported on.
    pub compare_command: Option<Vec<String>>,
    /// What is missing, the most important first.
    pub findings: Vec<Missing>,
}

/// The exports of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// What the names of its files have in common.
    pub name: String,
    /// Its exports.
    pub reports: Vec<String>,
    /// The ranks that they hold.
    pub ranks: Vec<Rank>,
    /// Ranks of the run; `None` if nothing says it.
    pub world_size: Option<u32>,
    /// Ranks that are in none of the exports; empty if nothing says which ranks those in the exports are.
    pub ranks_missing: Vec<u32>,
    /// Communicators of several ranks, made during the capture or named by a log, whose ranks are all here.
    pub whole_communicators: usize,
    /// True if the captures or NCCL's logs say that ranks are missing, not only an Inspector log.
    pub captures_miss_ranks: bool,
    /// How steps are found.
    pub steps: Steps,
    /// Processes with GPU work that have no step ranges although others have: `report` leaves them out.
    pub processes_without_steps: usize,
    /// What says that the exports are of several runs, if they were captured at different times.
    pub captured_apart: Option<String>,
    /// Inspector logs of its processes.
    pub inspector: Vec<String>,
    /// NCCL logs of its processes.
    pub nccl_logs: Vec<String>,
    /// The topology of its machine.
    pub topology: Option<String>,
    /// Which numbers a report of it has.
    pub numbers: Vec<Number>,
    /// What `report` would fail with.
    pub problem: Option<Unusable>,
    /// The command to run, one word each as a shell takes them; `None` where `report` would fail, or where a name of a file cannot be
    /// printed.
    pub command: Option<Vec<String>>,
}

impl Run {
    /// True if ranks of the run are in none of the exports.
    pub fn misses_ranks(&self) -> bool {
        !self.ranks_missing.is_empty()
            || self.world_size.is_some_and(|world| world as usize > self.ranks.len())
    }
}

/// One rank of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rank {
    /// Its number.
    pub rank: u32,
    /// How the number is known.
    pub rank_source: RankSource,
    /// The export that holds it.
    pub report: String,
    /// Host name.
    pub hostname: Option<String>,
    /// Operating-system process id.
    pub pid: u32,
    /// CUDA ordinal inside the process.
    pub device: u32,
    /// GPU model.
    pub gpu: Option<String>,
    /// Kernels.
    pub kernels: u64,
    /// Communication kernels among them.
    pub comm_kernels: u64,
    /// Kernels of sends and receives among those.
    pub send_kernels: u64,
    /// Copies.
    pub copies: u64,
    /// Copies between GPUs among those.
    pub peer_copies: u64,
    /// True if an Inspector log has operations of it.
    pub in_inspector_log: bool,
    /// Memory sets.
    pub memsets: u64,
    /// CUDA graphs captured as one row.
    pub graphs: u64,
    /// Step ranges; `None` if steps are not ranges.
    pub steps: Option<usize>,
}

impl Rank {
    /// True if it runs communication that is known as such; what a CUDA graph holds is not known.
    pub(super) fn communicates(&self) -> bool {
        self.comm_kernels + self.peer_copies > 0
    }
}

/// How the steps of a run are found if nobody says it. What ranges cover of the GPU's work is told by `report`, which reads it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Steps {
    /// The regular expression, or `whole`.
    pub pattern: Option<String>,
    /// Why this one.
    pub source: Option<StepSource>,
    /// Text of the first step that every rank has.
    pub first: Option<String>,
    /// Steps that every rank has.
    pub count: Option<usize>,
    /// Steps that only some ranks have.
    pub on_some_ranks: usize,
    /// True if texts differ so much between ranks that `report` pairs steps by the times at which they run.
    pub paired_by_time: bool,
}

/// An export of nsys.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Export {
    /// Path as given or found.
    pub path: String,
    /// Size of the file.
    pub size_bytes: u64,
    /// Version of Nsight Systems that exported it.
    pub nsys_version: Option<String>,
    /// Version of the export's schema.
    pub schema_version: Option<String>,
    /// Host name.
    pub hostname: Option<String>,
    /// GPUs of the machine by model.
    pub gpus: BTreeMap<String, usize>,
    /// Length of the capture.
    pub capture_ns: Option<i64>,
    /// From the first start to the last end of GPU work.
    pub gpu_work_ns: Option<i64>,
    /// True if the export says at which time it began.
    pub has_epoch: bool,
    /// `Graph` or `Node`: how CUDA graphs were captured.
    pub cuda_graph_mode: Option<String>,
    /// Whether NVTX was traced.
    pub nvtx_traced: Option<bool>,
    /// True if only some NVTX domains were kept.
    pub nvtx_filtered: bool,
    /// With which options it was exported.
    pub exported: Exported,
    /// NCCL and CUDA variables of the captured environment.
    pub settings: BTreeMap<String, String>,
    /// Rows by kind.
    pub rows: Rows,
    /// Tables with measurements that are there and that no command reads; JSON has the first thousand.
    #[serde(serialize_with = "first")]
    pub unread_tables: Vec<String>,
    /// `TABLE.column` of tables that are read, which are there and not read; JSON has the first thousand.
    #[serde(serialize_with = "first")]
    pub unread_columns: Vec<String>,
    /// `TABLE.column` that every known version has, but not this one; JSON has the first thousand.
    #[serde(serialize_with = "first")]
    pub lacking_columns: Vec<String>,
    /// Warnings and errors that the profiler noted; JSON has the first thousand.
    #[serde(serialize_with = "first")]
    pub profiler_notes: Vec<Note>,
}

/// Rows of an export that matter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Rows {
    pub kernels: u64,
    /// Communication kernels among them, on devices that are ranks.
    pub comm_kernels: u64,
    pub copies: u64,
    pub memsets: u64,
    /// CUDA graphs as one row each.
    pub graphs: u64,
    /// Graphs whose kernels are not there one by one.
    pub graphs_unresolved: u64,
    pub api_calls: u64,
    /// NVTX ranges with an end.
    pub ranges: u64,
    /// Ranges that are not NCCL's own.
    pub user_ranges: u64,
    /// Calls of NCCL that move data.
    pub nccl_calls: u64,
    /// Calls among them with their size.
    pub nccl_sizes: u64,
    /// True if the payloads of calls are described, whether or not they were exported.
    pub nccl_payloads_described: bool,
    /// Processes with a rank in the MPI table.
    pub mpi_ranks: u64,
}

/// An Inspector log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InspectorLog {
    /// Path as given or found.
    pub path: String,
    /// Size of the file.
    pub size_bytes: u64,
    /// Formats, found by their keys.
    pub formats: Vec<String>,
    /// Records of every kind.
    pub records: u64,
    /// Operations among them.
    pub operations: u64,
    /// Samples of the Prometheus mode among them.
    pub prometheus_samples: u64,
    /// Lines that could not be used.
    pub bad_lines: u64,
    /// First time of writing, Unix microseconds.
    pub first_written_us: Option<i64>,
    /// Last time of writing.
    pub last_written_us: Option<i64>,
    /// Who wrote it: one entry a process and communicator; JSON has the first thousand.
    #[serde(serialize_with = "first")]
    pub writers: Vec<Writer>,
}

/// A rank of a communicator that wrote an Inspector log.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[allow(missing_docs)]
pub struct Writer {
    pub hostname: String,
    pub pid: Option<u32>,
    pub comm_id: String,
    pub rank: u32,
    pub n_ranks: u32,
    pub operations: u64,
}

/// An NCCL log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NcclLogFile {
    /// Path as given or found.
    pub path: String,
    /// Size of the file.
    pub size_bytes: u64,
    /// Whole messages of NCCL.
    pub messages: u64,
    /// Messages that broke off.
    pub torn: u64,
    /// NCCL versions.
    #[serde(serialize_with = "first")]
    pub versions: BTreeSet<String>,
    /// Hosts and processes that made communicators, `host:pid`; JSON has the first thousand.
    #[serde(serialize_with = "first")]
    pub processes: BTreeSet<String>,
    /// Ranks of its largest communicator.
    pub n_ranks: Option<u32>,
    /// Connections with their transport.
    pub connections: u64,
}

/// A topology matrix.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TopologyFile {
    /// Path as given or found.
    pub path: String,
    /// GPUs with a row.
    pub gpus: Vec<u32>,
    /// Best and worst link between two GPUs; `None` for a matrix of peer access alone.
    pub links: Option<(String, String)>,
    /// True if it says what peer access does (`topo -p2p r`).
    pub peer_access: bool,
    /// Printed without NVLink (`topo -mp`).
    pub hides_nvlink: bool,
}

impl TopologyFile {
    /// What matters of a matrix.
    pub fn of(topology: &Topology) -> Self {
        let mut paths: Vec<_> = topology.gpu_paths.values().copied().collect();
        // More links are better; the classes are listed best first.
        paths.sort_by_key(|path| {
            (!matches!(path, crate::model::topology::PathClass::NvLink(_)), *path)
        });
        Self {
            path: topology.path.clone(),
            gpus: topology.gpus.clone(),
            links: paths.first().zip(paths.last()).map(|(a, b)| (a.label(), b.label())),
            peer_access: !topology.peer_access.is_empty(),
            hides_nvlink: topology.hides_nvlink,
        }
    }
}

/// An input that no report is made of, but that another command reads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct FurtherFile {
    /// What it is.
    pub kind: Kind,
    /// Path as given or found; of an NPKit dump its folder.
    pub path: String,
    /// What it is called, with its article.
    pub what: &'static str,
    /// The command that reads it, with its option.
    pub read_by: &'static str,
}

impl FurtherFile {
    /// A file of this kind.
    pub fn of(kind: Kind, path: &Path) -> Self {
        let folder = path.parent().filter(|_| kind::is_part_of_dump(path));
        let path = folder.map_or(path, |folder| match folder.as_os_str().is_empty() {
            true => Path::new("."),
            false => folder,
        });
        let row = kind.row();
        Self {
            kind,
            path: path.to_string_lossy().into_owned(),
            what: row.one,
            read_by: row.read_by,
        }
    }
}

/// Something that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unusable {
    /// The file, if it is about one.
    pub path: Option<String>,
    /// Why, as a clause.
    pub fact: String,
    /// What to do about it.
    pub advice: Option<String>,
}

impl From<&Error> for Unusable {
    fn from(error: &Error) -> Self {
        Self {
            path: error.path.as_ref().map(|p| p.to_string_lossy().into_owned()),
            fact: error.fact.clone(),
            advice: error.hint.clone(),
        }
    }
}

/// The first entries of a list: what a file holds must not make the document as long as the file.
fn first<'a, T, L, S>(list: &'a L, serializer: S) -> Result<S::Ok, S::Error>
where
    T: Serialize + 'a,
    &'a L: IntoIterator<Item = &'a T>,
    S: Serializer,
{
    serializer.collect_seq(list.into_iter().take(LISTED))
}

/// Something that is missing.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Missing {
    /// What it is.
    pub id: Id,
    /// How much it matters.
    pub severity: Severity,
    /// The fact, as a sentence.
    pub title: String,
    /// Which numbers are null or weaker, as a sentence.
    pub cost: String,
    /// The numbers (by [`super::Number::id`]) that it costs.
    pub numbers: Vec<&'static str>,
    /// How to capture it, as a sentence.
    pub advice: String,
    /// The runs or files that it is about.
    pub about: Vec<String>,
}

/// Whether a report has a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is null.
    Null,
    /// It is there, but says less than it could.
    Weaker,
    /// It is measured.
    Measured,
}

impl State {
    /// The word in JSON and CSV.
    pub fn id(self) -> &'static str {
        match self {
            State::Null => "null",
            State::Weaker => "weaker",
            State::Measured => "measured",
        }
    }

    /// The word that tables print.
    pub fn label(self) -> &'static str {
        match self {
            State::Null => "no",
            State::Weaker => "in part",
            State::Measured => "yes",
        }
    }
}

/// Numbers of a report that stand or fall together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Number {
    /// A stable name.
    pub id: &'static str,
    /// What they are, in words.
    pub name: &'static str,
    /// Their fields in the report's JSON.
    pub fields: &'static [&'static str],
    /// Whether they are there.
    pub state: State,
    /// Why not, or why only in part, as a clause; for what is there where it comes from, where that is not obvious.
    pub why: Option<String>,
}
