//! NVTX: step candidates and NCCL calls, by process, in one scan. Ranges that are neither are not kept.

use std::collections::{HashMap, HashSet};

use super::db::{Db, int, text, time};
use super::gpu_work::process_of;
use super::payload::{Decoder, Fields};
use super::queries;
use crate::Result;
use crate::model::trace::CommInit;
use crate::model::{CallKind, CommOp, NameId, Names, NcclCall, Ns, Range};

/// What the ranges of a report are searched for.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// Texts of step ranges, if steps are ranges.
    pub step: Option<&'a regex::Regex>,
    /// Ids in `StringIds` that are needed in any case: kernel names.
    pub strings: HashSet<i64>,
}

/// The ranges of one process.
#[derive(Debug, Default)]
pub struct ProcessRanges {
    /// Step candidates in order of (start, end).
    pub steps: Vec<Range>,
    /// NCCL calls in order of (start, end).
    pub nccl: Vec<NcclCall>,
    /// Operations on the GPU's time line (advanced tracing), in order of (start, end).
    pub gpu_operations: Vec<NcclCall>,
    /// Communicators that the process joined: with the CUDA device, if the payload says.
    pub inits: Vec<(CommInit, Option<i64>)>,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// By process key.
    pub processes: HashMap<u64, ProcessRanges>,
    /// Rows read.
    pub rows: u64,
    /// Ranges that are not of the NCCL domain.
    pub user_ranges: u64,
    /// NCCL calls with a payload.
    pub payloads: u64,
    /// Ranges of step text that began before the capture.
    pub before_capture: u64,
    /// Strings by their id: those asked for, and all that matched.
    pub strings: HashMap<i64, NameId>,
}

/// What a text means here.
#[derive(Debug, Clone, Copy, Default)]
struct Meaning {
    step: bool,
    nccl: bool,
}

/// Names of calls and ranges of NCCL: the C functions, and what advanced tracing (`nsys -t nccl`) calls them.
fn is_nccl_name(text: &str) -> bool {
    text.starts_with("nccl")
}

/// Ranges of advanced tracing (`nsys -t nccl`), in the domain NCCL. Those of calls and those of the GPU, one for each
/// channel, share names: payloads tell them apart.
fn is_advanced_range(text: &str) -> bool {
    matches!(text, "API Group" | "GroupLaunch" | "KernelLaunch" | "CE Sync" | "CE Batch")
        || CommOp::parse(text).is_some()
}

fn call_kind(name: &str) -> CallKind {
    match name {
        "ncclGroupStart" => CallKind::GroupStart,
        "ncclGroupEnd" => CallKind::GroupEnd,
        "API Group" => CallKind::Group,
        _ => CallKind::Plain,
    }
}

/// Reads ranges that start at or after `zero`.
///
/// # Errors
/// The report is damaged.
pub fn read(db: &Db, wanted: &Wanted<'_>, zero: Ns, names: &mut Names) -> Result<Found> {
    let mut found = Found::default();
    let meaning_of = |text: &str| Meaning {
        step: wanted.step.is_some_and(|re| re.is_match(text)),
        nccl: is_nccl_name(text),
    };

    // One pass over all strings keeps the few that matter: a large report has millions of them.
    let mut registered: HashMap<i64, Meaning> = HashMap::new();
    let nccl_domains = nccl_domains(db)?;
    db.each(queries::STRINGS, [], |row| {
        let (Some(id), Some(value)) = (int(row, 0), text(row, 1)) else { return };
        let mut meaning = meaning_of(&value);
        meaning.nccl |= !nccl_domains.is_empty() && is_advanced_range(&value);
        if meaning.step || meaning.nccl {
            registered.insert(id, meaning);
        }
        if meaning.step || meaning.nccl || wanted.strings.contains(&id) {
            found.strings.insert(id, names.intern(&value));
        }
    })?;

    let mut calls: Vec<(u64, i64, NameId, NcclCall)> = Vec::new();
    found.rows = db.each(queries::RANGES, [], |row| {
        let (Some(start), Some(end), Some(thread)) = (time(row, 0), time(row, 1), int(row, 2))
        else {
            return;
        };
        let process = process_of(thread);
        let in_nccl_domain =
            int(row, 3).is_some_and(|domain| nccl_domains.contains(&(process, domain)));
        let inline = text(row, 4);
        let (meaning, name) = match (&inline, int(row, 5)) {
            (Some(text), _) => {
                let mut meaning = meaning_of(text);
                meaning.nccl |= in_nccl_domain && is_advanced_range(text);
                let name =
                    if meaning.step || meaning.nccl { names.intern(text) } else { NameId::NONE };
                (meaning, name)
            }
            (None, Some(id)) => (
                registered.get(&id).copied().unwrap_or_default(),
                found.strings.get(&id).copied().unwrap_or(NameId::NONE),
            ),
            (None, None) => return,
        };
        let is_call = meaning.nccl && (in_nccl_domain || is_nccl_name(names.get(name)));
        found.user_ranges += u64::from(!in_nccl_domain && !is_call);
        if start < zero {
            found.before_capture += u64::from(meaning.step);
            return;
        }
        let end = end.max(start);
        if meaning.step {
            found.processes.entry(process).or_default().steps.push(Range {
                start,
                end,
                name,
                thread: thread as u64,
            });
        }
        if is_call && let Some(rowid) = int(row, 7) {
            let call = NcclCall {
                start,
                end,
                thread: thread as u64,
                kind: call_kind(names.get(name)),
                op: CommOp::parse(names.get(name)),
                comm: None,
                bytes: None,
                redop: None,
                root: None,
                peer: None,
                seq: None,
                operation: None,
            };
            calls.push((process, rowid, name, call));
        }
    })?;

    let decoder = Decoder::read(db)?;
    for (process, rowid, name, mut call) in calls {
        let fields = decoder.payload(db, rowid)?;
        found.payloads += u64::from(call.op.is_some() && fields.comm.is_some());
        fill(&mut call, &fields, names);
        let ranges = found.processes.entry(process).or_default();
        if let Some(init) = comm_init(names.get(name), &fields) {
            ranges.inits.push((init, fields.device));
        }
        // What ran on the GPU has GPU times: it was open on no thread, and nothing was launched inside it.
        let list = if fields.on_gpu { &mut ranges.gpu_operations } else { &mut ranges.nccl };
        list.push(call);
    }
    for ranges in found.processes.values_mut() {
        ranges.steps.sort_unstable_by_key(|r| (r.start, r.end, r.thread, r.name));
        for calls in [&mut ranges.nccl, &mut ranges.gpu_operations] {
            // The order of rows means nothing: equal times are told apart by everything else.
            calls.sort_by_key(|c| {
                (c.start, c.end, c.thread, c.op, c.comm, c.seq, c.operation, c.bytes, c.peer)
            });
        }
    }
    Ok(found)
}

fn fill(call: &mut NcclCall, fields: &Fields, names: &mut Names) {
    call.comm = fields.comm;
    call.bytes = fields.bytes;
    call.redop = fields.redop.as_deref().map(|name| names.intern(name));
    call.root = fields.root;
    call.peer = fields.peer;
    call.seq = fields.seq;
    call.operation = fields.operation;
}

fn comm_init(name: &str, fields: &Fields) -> Option<CommInit> {
    let n_ranks = u32::try_from(fields.n_ranks?).ok()?;
    let rank = u32::try_from(fields.rank?).ok()?;
    ["ncclCommInit", "ncclCommSplit", "ncclCommShrink", "ncclCommGrow", "CommInit"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
        .then_some(CommInit { comm: fields.comm?, n_ranks, rank })
}

/// The (process, domain) pairs whose domain is called NCCL.
///
/// # Errors
/// The report is damaged.
pub fn nccl_domains(db: &Db) -> Result<HashSet<(u64, i64)>> {
    let mut domains = HashSet::new();
    let mut by_id = Vec::new();
    db.each(queries::DOMAINS, [], |row| {
        let (Some(thread), Some(domain)) = (int(row, 0), int(row, 1)) else { return };
        match (text(row, 2), int(row, 3)) {
            (Some(name), _) if name == "NCCL" => {
                domains.insert((process_of(thread), domain));
            }
            (None, Some(id)) => by_id.push((process_of(thread), domain, id)),
            _ => {}
        }
    })?;
    for (process, domain, id) in by_id {
        db.each(queries::STRING, [id], |row| {
            if text(row, 0).is_some_and(|name| name == "NCCL") {
                domains.insert((process, domain));
            }
        })?;
    }
    Ok(domains)
}

/// When a call was open, and which it is.
#[derive(Debug, Clone, Copy)]
struct Open {
    start: Ns,
    end: Ns,
    /// Index into the calls.
    call: u32,
    moves_data: bool,
}

/// The NCCL calls of a process by thread, to find the one that was open when something was launched.
#[derive(Debug, Default)]
pub struct CallIndex {
    /// Calls by thread in order of start.
    threads: HashMap<u64, Vec<Open>>,
}

impl CallIndex {
    /// An index over calls that are sorted by start.
    pub fn new(calls: &[NcclCall]) -> CallIndex {
        let mut threads: HashMap<u64, Vec<Open>> = HashMap::new();
        for (i, call) in calls.iter().enumerate() {
            threads.entry(call.thread).or_default().push(Open {
                start: call.start,
                end: call.end,
                call: i as u32,
                moves_data: call.moves_data(),
            });
        }
        CallIndex { threads }
    }

    /// The innermost call that is open on `thread` at `at`.
    pub fn open_at(&self, thread: u64, at: Ns) -> Option<u32> {
        self.open(thread, at).next().map(|open| open.call)
    }

    /// True if an operation or a group is open on `thread` at `at`, not only the set-up of a communicator.
    pub fn in_operation(&self, thread: u64, at: Ns) -> bool {
        self.open(thread, at).any(|open| open.moves_data)
    }

    /// The calls that are open on `thread` at `at`, the innermost first.
    fn open(&self, thread: u64, at: Ns) -> impl Iterator<Item = &Open> {
        let calls = self.threads.get(&thread).map_or(&[][..], Vec::as_slice);
        let before = calls.partition_point(|call| call.start <= at);
        // Calls nest a few levels deep at most; a bound keeps a hostile file from making this quadratic.
        calls[..before].iter().rev().take(64).filter(move |call| at < call.end)
    }
}
