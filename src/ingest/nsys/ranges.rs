//! NVTX: the user's ranges and NCCL's calls, by process, in one scan.

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};

use super::db::{Db, int, text, time};
use super::ids::process_of;
use super::payload::{Decoder, Fields};
use super::queries;
use crate::Result;
use crate::classify::ranges::{is_library_domain, is_library_text};
use crate::model::ranges::Digits;
use crate::model::trace::CommInit;
use crate::model::{
    CallKind, CommOp, KindId, NameId, Names, NcclCall, Ns, Range, Texts, UserRanges,
};

/// Kinds of text that are told apart while a report is read.
const MOST_KINDS: usize = 200_000;
/// The most frequent kinds whose ranges are kept; of the others only those that are named as steps are.
const KEPT_KINDS: usize = 100_000;

/// How the texts of steps are told while ranges are read.
#[derive(Debug, Clone, Copy)]
pub struct StepTexts<'a> {
    /// What they match.
    pub pattern: &'a regex::Regex,
    /// True if the pattern was given by hand: then it counts for ranges of libraries too.
    pub by_hand: bool,
}

/// What the ranges of a report are searched for.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// Texts of step ranges, if steps may be ranges.
    pub step: Option<StepTexts<'a>>,
    /// Ids in `StringIds` that are needed in any case: kernel names.
    pub strings: HashSet<i64>,
}

/// The ranges of one process.
#[derive(Debug, Default)]
pub struct ProcessRanges {
    /// The user's own.
    pub user: UserRanges,
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
    /// The texts of the user's ranges.
    pub texts: Texts,
    /// Rows read.
    pub rows: u64,
    /// Ranges that are not of the NCCL domain.
    pub user_ranges: u64,
    /// Ranges of other libraries among them, which are not kept.
    pub library_ranges: u64,
    /// NCCL calls with a payload.
    pub payloads: u64,
    /// Ranges of step text that began before the capture.
    pub before_capture: u64,
    /// Strings by their id: those asked for, and NCCL's.
    pub strings: HashMap<i64, NameId>,
}

/// What a text means here.
#[derive(Debug, Clone, Copy, Default)]
struct Meaning {
    /// Named as steps are.
    step: bool,
    /// A call of NCCL, or, in NCCL's domain, a range of advanced tracing.
    nccl: bool,
    /// Written by a library.
    library: bool,
    /// Kind and digits, unless there are too many kinds.
    text: Option<(KindId, Digits)>,
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
    let domains = Domains::read(db)?;
    let mut of_kind: Vec<u64> = Vec::new();
    let registered = registered(db, wanted, names, &mut found)?;

    let mut calls: Vec<(u64, i64, NameId, NcclCall)> = Vec::new();
    let Found { processes, texts, user_ranges, library_ranges, before_capture, .. } = &mut found;
    let rows = db.each(queries::RANGES, [], |row| {
        let (Some(start), Some(end), Some(thread)) = (time(row, 0), time(row, 1), int(row, 2))
        else {
            return;
        };
        let process = process_of(thread);
        let domain = int(row, 3).map(|domain| (process, domain));
        let in_nccl_domain = domain.is_some_and(|domain| domains.nccl.contains(&domain));
        let inline = text(row, 4);
        let (meaning, name) = match (&inline, int(row, 5)) {
            (Some(text), _) => {
                let meaning = meaning_of(text, wanted.step, texts);
                let is_call = meaning.nccl || in_nccl_domain && is_advanced_range(text);
                (meaning, if is_call { names.intern(text) } else { NameId::NONE })
            }
            (None, Some(id)) => match registered.get(&id) {
                Some((meaning, name)) => (*meaning, *name),
                None => return,
            },
            (None, None) => return,
        };
        let is_call = meaning.nccl || in_nccl_domain && is_advanced_range(names.get(name));
        let is_users = !in_nccl_domain && !is_call;
        let by_library =
            meaning.library || domain.is_some_and(|domain| domains.libraries.contains(&domain));
        let by_hand = wanted.step.is_some_and(|step| step.by_hand);
        let named = meaning.step && (by_hand || is_users && !by_library);
        *user_ranges += u64::from(is_users);
        *library_ranges += u64::from(is_users && by_library);
        if start < zero {
            *before_capture += u64::from(named);
            return;
        }
        let end = end.max(start);
        if (named || is_users && !by_library)
            && let Some((kind, digits)) = meaning.text
        {
            of_kind.resize(of_kind.len().max(kind.0 as usize + 1), 0);
            of_kind[kind.0 as usize] += 1;
            let range = Range { start, end, thread: thread as u64, kind, digits };
            processes.entry(process).or_default().user.push(range, named);
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
    found.rows = rows;

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
    let rare = rare_kinds(&of_kind);
    for ranges in found.processes.values_mut() {
        if !rare.is_empty() {
            ranges.user.retain_kinds(|kind| !rare.contains(&kind));
        }
        ranges.user.sort(&found.texts);
        for calls in [&mut ranges.nccl, &mut ranges.gpu_operations] {
            // The order of rows means nothing: equal times are told apart by everything else.
            calls.sort_by_key(|c| {
                (c.start, c.end, c.thread, c.op, c.comm, c.seq, c.operation, c.bytes, c.peer)
            });
        }
    }
    Ok(found)
}

/// The strings that ranges name by their id, with what they mean; those that were asked for go to `found.strings`.
fn registered(
    db: &Db,
    wanted: &Wanted<'_>,
    names: &mut Names,
    found: &mut Found,
) -> Result<HashMap<i64, (Meaning, NameId)>> {
    // A report has many more strings (symbols, paths) than its ranges name.
    let mut named: HashSet<i64> = HashSet::new();
    db.each(queries::RANGE_TEXT_IDS, [], |row| named.extend(int(row, 0)))?;
    let mut registered = HashMap::new();
    db.each(queries::STRINGS, [], |row| {
        let Some(id) = int(row, 0) else { return };
        let (by_range, by_kernel) = (named.contains(&id), wanted.strings.contains(&id));
        if !by_range && !by_kernel {
            return;
        }
        let Some(value) = text(row, 1) else { return };
        let mut name = NameId::NONE;
        if by_range {
            let meaning = meaning_of(&value, wanted.step, &mut found.texts);
            if meaning.nccl || is_advanced_range(&value) {
                name = names.intern(&value);
            }
            registered.insert(id, (meaning, name));
        }
        if by_kernel {
            name = names.intern(&value);
        }
        if name != NameId::NONE {
            found.strings.insert(id, name);
        }
    })?;
    Ok(registered)
}

fn meaning_of(text: &str, step: Option<StepTexts<'_>>, texts: &mut Texts) -> Meaning {
    let (nccl, library) = (is_nccl_name(text), is_library_text(text));
    let step_text = step.is_some_and(|step| step.pattern.is_match(text));
    let by_hand = step.is_some_and(|step| step.by_hand && step_text);
    // Texts of libraries are not kept, so they need no kind.
    let limit = if step_text { usize::MAX } else { MOST_KINDS };
    let kept = if library && !by_hand { None } else { texts.intern(text, limit) };
    Meaning { step: step_text, nccl, library, text: kept }
}

/// All but the most frequent kinds, if there are very many.
fn rare_kinds(of_kind: &[u64]) -> HashSet<KindId> {
    if of_kind.len() <= KEPT_KINDS {
        return HashSet::new();
    }
    let mut kinds: Vec<u32> = (0..of_kind.len() as u32).collect();
    kinds.sort_by_key(|&kind| (std::cmp::Reverse(of_kind[kind as usize]), kind));
    kinds[KEPT_KINDS..].iter().map(|&kind| KindId(kind)).collect()
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

/// The domains of libraries, by process and number.
#[derive(Debug, Default)]
struct Domains {
    /// Called NCCL.
    nccl: HashSet<(u64, i64)>,
    /// Of other libraries.
    libraries: HashSet<(u64, i64)>,
}

impl Domains {
    fn read(db: &Db) -> Result<Domains> {
        let mut domains = Domains::default();
        let mut by_id = Vec::new();
        db.each(queries::DOMAINS, [], |row| {
            let (Some(thread), Some(domain)) = (int(row, 0), int(row, 1)) else { return };
            match (text(row, 2), int(row, 3)) {
                (Some(name), _) => domains.add(process_of(thread), domain, &name),
                (None, Some(id)) => by_id.push((process_of(thread), domain, id)),
                _ => {}
            }
        })?;
        for (process, domain, id) in by_id {
            db.each(queries::STRING, [id], |row| {
                if let Some(name) = text(row, 0) {
                    domains.add(process, domain, &name);
                }
            })?;
        }
        Ok(domains)
    }

    fn add(&mut self, process: u64, domain: i64, name: &str) {
        if name == "NCCL" {
            self.nccl.insert((process, domain));
        } else if is_library_domain(name) {
            self.libraries.insert((process, domain));
        }
    }
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
        let mut threads: HashMap<u64, Vec<Open>> = HashMap::default();
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
