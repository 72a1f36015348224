//! Which exports are one run, which logs are theirs, and what `report` would take for ranks and steps.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::nccl_log::ReadLog;
use super::view::{Export, InspectorLog, Rank, Run, Steps, TopologyFile, Unusable, Writer};
use super::{command, numbers};
use crate::compare::group;
use crate::ingest::hosts::{Logged, Traced, may_be_one_host};
use crate::ingest::nsys::contents::{Contents, Work};
use crate::ingest::nsys::{self, Candidate, NsysReport, RankClues};
use crate::ingest::one_run::{self, CapturedAt};
use crate::ingest::{communicators, ranks};
use crate::model::RankTrace;
use crate::model::Union;
use crate::model::record::logged_id;
use crate::run::{self, files};
use crate::steps::{self, StepChoice, StepRule, decide};
use crate::{Error, Result};

/// Clocks of hosts, and the time between an operation and its record, differ by less.
const SLACK_NS: i64 = 60_000_000_000;

/// An export with what tells which run it is of.
struct Member {
    path: PathBuf,
    contents: Contents,
    view: Export,
    comms: BTreeSet<u64>,
    /// When its GPU work ran, Unix ns.
    captured: Option<(i64, i64)>,
}

/// The logs and matrices that may belong to a run.
struct Beside<'a> {
    inspector: &'a [InspectorLog],
    nccl_logs: &'a [ReadLog],
    topologies: &'a [TopologyFile],
}

/// The runs, in order of their first file, each with its exports.
///
/// # Errors
/// A file that was read once cannot be read again.
pub(super) fn of(
    exports: Vec<(PathBuf, Contents)>,
    inspector: &[InspectorLog],
    nccl_logs: &[ReadLog],
    topologies: &[TopologyFile],
) -> Result<Vec<(Run, Vec<Export>)>> {
    let groups =
        grouped(exports.into_iter().map(|(path, contents)| member(path, contents)).collect());
    let mut ids: Vec<Identity> = groups.iter().map(|members| Identity::of(members)).collect();
    tell_apart(&mut ids);
    let beside = Beside { inspector, nccl_logs, topologies };
    groups.into_iter().enumerate().map(|(at, members)| run(members, at, &ids, &beside)).collect()
}

fn member(path: PathBuf, mut contents: Contents) -> Member {
    let view = Export::of(&contents);
    let mut comms = BTreeSet::new();
    for candidate in &mut contents.report.candidates {
        let trace = &mut candidate.trace;
        comms.extend(one_run::communicators(trace));
        // What they say is counted; there may be very many.
        trace.gpu_operations.clear();
        trace.nccl.clear();
    }
    let spans = || contents.work.iter().filter_map(|work| work.span);
    let extent = spans().map(|span| span.0).min().zip(spans().map(|span| span.1).max());
    let captured =
        contents.meta.epoch_ns.zip(extent).map(|(epoch, (first, last))| {
            (first.saturating_add(epoch), last.saturating_add(epoch))
        });
    Member { path, contents, view, comms, captured }
}

/// Exports of one name (without the rank) in one folder are one run, and so are those that were captured at the same time on the same
/// communicators, whatever their names; but a process is in a run once, so copies of a run are none of its ranks.
fn grouped(mut members: Vec<Member>) -> Vec<Vec<Member>> {
    members.sort_by(|a, b| a.path.cmp(&b.path));
    let mut group = Union::new(members.len());
    let mut by_name: BTreeMap<(PathBuf, String), usize> = BTreeMap::new();
    for (at, member) in members.iter().enumerate() {
        let first = *by_name.entry(group::run_of(&member.path)).or_insert(at);
        group.join(first, at);
    }
    let mut by_comm: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for at in 0..members.len() {
        for comm in &members[at].comms {
            let sharing = by_comm.entry(*comm).or_default();
            for &other in sharing.iter() {
                let apart = group.root(other) != group.root(at);
                if apart
                    && at_once(members[other].captured, members[at].captured)
                    && !share_process(&members, &mut group, other, at)
                {
                    group.join(other, at);
                }
            }
            // One of each group is enough.
            let own = group.root(at);
            if sharing.iter().all(|&other| group.root(other) != own) {
                sharing.push(at);
            }
        }
    }
    let roots: Vec<usize> = (0..members.len()).map(|at| group.root(at)).collect();
    let mut groups: BTreeMap<usize, Vec<Member>> = BTreeMap::new();
    for (member, root) in members.into_iter().zip(roots) {
        groups.entry(root).or_default().push(member);
    }
    groups.into_values().collect()
}

/// True if a process is in the groups of both.
fn share_process(members: &[Member], group: &mut Union, a: usize, b: usize) -> bool {
    let mut of = |at: usize| -> BTreeSet<(Option<&str>, u32, u32)> {
        let root = group.root(at);
        let own: Vec<usize> =
            (0..members.len()).filter(|&other| group.root(other) == root).collect();
        let traces = own
            .into_iter()
            .flat_map(|other| &members[other].contents.report.candidates)
            .map(|candidate| &candidate.trace);
        traces.map(|trace| (trace.hostname.as_deref(), trace.pid, trace.device)).collect()
    };
    !of(a).is_disjoint(&of(b))
}

fn at_once(a: Option<(i64, i64)>, b: Option<(i64, i64)>) -> bool {
    a.zip(b).is_none_or(|(a, b)| {
        a.0 <= b.1.saturating_add(SLACK_NS) && b.0 <= a.1.saturating_add(SLACK_NS)
    })
}

/// Runs of one name get that of their folder too.
fn tell_apart(ids: &mut [Identity]) {
    let names: Vec<String> = ids.iter().map(|id| id.name.clone()).collect();
    for (id, name) in ids.iter_mut().zip(&names) {
        let folder = id.folder.file_name().map(|folder| folder.to_string_lossy());
        if let (Some(folder), true) =
            (folder, names.iter().filter(|other| *other == name).count() > 1)
        {
            id.shown = format!("{folder}-{name}");
        }
    }
}

/// What logs of a run have in common with its exports.
struct Identity {
    folder: PathBuf,
    name: String,
    /// The name by which it is told from the others.
    shown: String,
    processes: BTreeSet<(u32, Option<String>)>,
    comms: BTreeSet<String>,
    captured: Option<(i64, i64)>,
}

impl Identity {
    fn of(members: &[Member]) -> Identity {
        let paths: Vec<PathBuf> = members.iter().map(|member| member.path.clone()).collect();
        let candidates = members.iter().flat_map(|member| &member.contents.report.candidates);
        let spans = || members.iter().filter_map(|member| member.captured);
        let name = files::run_name(&paths);
        Identity {
            folder: paths
                .first()
                .and_then(|path| path.parent())
                .unwrap_or(Path::new(""))
                .to_owned(),
            shown: name.clone(),
            name,
            processes: candidates.map(|c| (c.trace.pid, c.trace.hostname.clone())).collect(),
            comms: members
                .iter()
                .flat_map(|member| &member.comms)
                .map(|comm| logged_id(*comm))
                .collect(),
            captured: spans().map(|span| span.0).min().zip(spans().map(|span| span.1).max()),
        }
    }

    fn shares_comm(&self, log: &InspectorLog) -> bool {
        log.writers.iter().any(|writer| self.comms.contains(&writer.comm_id))
    }

    /// True if one of its processes wrote the log, at about the time of the capture; with `by_host`, under its host's name.
    fn wrote(&self, log: &InspectorLog, by_host: bool) -> bool {
        let ns = |us: i64| us.saturating_mul(1000);
        let written = log.first_written_us.map(ns).zip(log.last_written_us.map(ns));
        let own = |pid: u32, host: &str| {
            self.processes.iter().any(|(own, name)| {
                *own == pid && (!by_host || may_be_one_host(name.as_deref(), host))
            })
        };
        at_once(self.captured, written)
            && log
                .writers
                .iter()
                .any(|writer| writer.pid.is_some_and(|pid| own(pid, &writer.hostname)))
    }

    /// How much an NCCL log has in common with the run: processes, the folder, the name.
    fn likeness(&self, log: &ReadLog) -> (usize, bool, usize) {
        let pids = log.pids();
        let shared = self.processes.iter().filter(|(pid, _)| pids.contains(pid)).count();
        let path = Path::new(&log.log.path);
        let named = nsys::file_name(path).starts_with(&self.name);
        (shared, path.parent() == Some(&self.folder), if named { self.name.len() } else { 0 })
    }
}

/// Places among `all` of the runs that an Inspector log belongs to: the communicator says it, or else the process.
fn writers_of(log: &InspectorLog, all: &[Identity]) -> Vec<usize> {
    let sharing: Vec<usize> = (0..all.len()).filter(|&at| all[at].shares_comm(log)).collect();
    let by = |is_one: &dyn Fn(&Identity) -> bool| -> Vec<usize> {
        (0..all.len()).filter(|&at| is_one(&all[at])).collect()
    };
    let named = || by(&|run| run.wrote(log, true));
    // A host's name may have been replaced: then the process alone says it, if no host fits.
    [sharing]
        .into_iter()
        .chain(std::iter::once_with(named))
        .chain(std::iter::once_with(|| by(&|run| run.wrote(log, false))))
        .find(|list| !list.is_empty())
        .unwrap_or_default()
}

/// The run that an NCCL log belongs to; a log that names no process belongs to an only run.
fn writer_of(log: &ReadLog, all: &[Identity]) -> Option<usize> {
    if log.pids().is_empty() && all.len() == 1 {
        return Some(0);
    }
    let best = (0..all.len()).max_by_key(|&at| (all[at].likeness(log), std::cmp::Reverse(at)))?;
    (all[best].likeness(log).0 > 0).then_some(best)
}

/// The matrix of the run's machine: of those with links the only one, or the only one in the run's folder.
fn topology_of<'a>(run: &Identity, all: &'a [TopologyFile]) -> Option<&'a TopologyFile> {
    let with_links: Vec<&TopologyFile> =
        all.iter().filter(|topology| topology.links.is_some()).collect();
    let beside: Vec<&TopologyFile> = with_links
        .iter()
        .copied()
        .filter(|t| Path::new(&t.path).parent() == Some(&run.folder))
        .collect();
    match (with_links.as_slice(), beside.as_slice()) {
        ([only], _) | (_, [only]) => Some(only),
        _ => None,
    }
}

/// What `report` would make of the members.
struct Reading {
    traces: Vec<RankTrace>,
    work: BTreeMap<(usize, u32, u32), Work>,
    rule: Option<StepRule>,
    steps: Steps,
    problem: Option<Error>,
    without_steps: usize,
}

fn run(
    members: Vec<Member>,
    at: usize,
    all: &[Identity],
    beside: &Beside<'_>,
) -> Result<(Run, Vec<Export>)> {
    let identity = &all[at];
    let paths: Vec<PathBuf> = members.iter().map(|member| member.path.clone()).collect();
    let comms: Vec<BTreeSet<u64>> = members.iter().map(|member| member.comms.clone()).collect();
    let (contents, exports): (Vec<Contents>, Vec<Export>) =
        members.into_iter().map(|member| (member.contents, member.view)).unzip();
    let mut reading = read(contents);
    let inspector: Vec<&InspectorLog> =
        beside.inspector.iter().filter(|log| writers_of(log, all).contains(&at)).collect();
    let nccl_logs: Vec<&ReadLog> =
        beside.nccl_logs.iter().filter(|log| writer_of(log, all) == Some(at)).collect();
    communicators::learn(
        &mut reading.traces,
        &nccl_logs.iter().map(|file| &file.log).collect::<Vec<_>>(),
    );
    let topology = topology_of(identity, beside.topologies);
    let logged = inspector.iter().flat_map(|log| &log.writers).map(|writer| writer.n_ranks);
    let world_size = reading.traces.iter().filter_map(|trace| trace.world_size).chain(logged).max();
    let span = |trace: &RankTrace| reading.work.get(&key(trace)).and_then(|work| work.span);
    let comms_of = |trace: &RankTrace| comms.get(trace.input).cloned().unwrap_or_default();
    let captured: Vec<CapturedAt> = reading
        .traces
        .iter()
        .filter_map(|trace| CapturedAt::new(trace, span(trace)?, comms_of(trace)))
        .collect();
    let problem = one_run::refusal(&captured).or_else(|| reading.problem.clone());
    let of_trace = |trace: &RankTrace| Rank {
        in_inspector_log: is_logged(trace, &comms_of(trace), &reading.traces, &inspector),
        ..rank(trace, &reading)
    };
    let ranks: Vec<Rank> = reading.traces.iter().map(of_trace).collect();
    let traced = reading.traces.iter().filter_map(|trace| trace.world_size).max();
    let mut run = Run {
        name: identity.shown.clone(),
        reports: paths.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
        world_size,
        ranks_missing: world_size
            .map_or_else(Vec::new, |world| one_run::absent_ranks(world, &reading.traces)),
        captures_miss_ranks: traced.is_some_and(|world| world as usize > ranks.len()),
        ranks,
        whole_communicators: whole_communicators(&reading.traces),
        steps: reading.steps,
        processes_without_steps: reading.without_steps,
        captured_apart: one_run::captured_apart(captured).map(|warning| warning.message),
        inspector: inspector.iter().map(|log| log.path.clone()).collect(),
        nccl_logs: nccl_logs.iter().map(|log| log.log.path.clone()).collect(),
        topology: topology.map(|topology| topology.path.clone()),
        numbers: Vec::new(),
        problem: problem.as_ref().map(Unusable::from),
        command: None,
    };
    run.numbers = numbers::of(&run, &exports, &inspector, &nccl_logs);
    run.command = command::report(&run, &paths);
    Ok((run, exports))
}

/// True if an Inspector log has operations of the rank, under its host's name or another one: the rules of `report`.
fn is_logged(
    trace: &RankTrace,
    comms: &BTreeSet<u64>,
    all: &[RankTrace],
    inspector: &[&InspectorLog],
) -> bool {
    let joined = trace.comm_inits.iter().map(|init| init.comm);
    let comms: BTreeSet<String> = comms.iter().copied().chain(joined).map(logged_id).collect();
    let mut same = all.iter().filter(|other| other.pid == trace.pid);
    let traced = Traced {
        pid: trace.pid,
        hostname: trace.hostname.as_deref(),
        comm_inits: &trace.comm_inits,
        comms: &comms,
        only: same.all(|other| other.hostname == trace.hostname),
    };
    let writers = || inspector.iter().flat_map(|log| &log.writers).filter(|w| w.operations > 0);
    writers().any(|writer| traced.is_named_by(&logged(writer)))
        || traced.other_host(writers().map(logged)).is_some()
}

fn logged(writer: &Writer) -> Logged<'_> {
    Logged {
        pid: writer.pid,
        hostname: &writer.hostname,
        comm_id: &writer.comm_id,
        rank: writer.rank,
    }
}

fn whole_communicators(traces: &[RankTrace]) -> usize {
    let mut joined: BTreeMap<(u64, u32), BTreeSet<u32>> = BTreeMap::new();
    for init in traces.iter().flat_map(|trace| &trace.comm_inits).filter(|init| init.n_ranks > 1) {
        joined.entry((init.comm, init.n_ranks)).or_default().insert(init.rank);
    }
    joined.into_iter().filter(|((_, n_ranks), ranks)| *n_ranks as usize == ranks.len()).count()
}

fn key(trace: &RankTrace) -> (usize, u32, u32) {
    (trace.input, trace.pid, trace.device)
}

fn rank(trace: &RankTrace, reading: &Reading) -> Rank {
    let work = reading.work.get(&key(trace)).copied().unwrap_or_default();
    let by_ranges = reading.rule.as_ref().filter(|rule| rule.by_ranges());
    Rank {
        rank: trace.rank,
        rank_source: trace.rank_source,
        report: trace.report.clone(),
        hostname: trace.hostname.clone(),
        pid: trace.pid,
        device: trace.device,
        gpu: trace.gpu.clone(),
        kernels: work.kernels,
        comm_kernels: work.comm_kernels,
        send_kernels: work.send_kernels,
        copies: work.copies,
        peer_copies: work.peer_copies,
        in_inspector_log: false,
        memsets: work.memsets,
        graphs: work.graphs,
        steps: by_ranges.map(|rule| steps::of(trace, rule).0.len()),
    }
}

/// Finds ranks and steps by the rules of `report`. What ranges cover is not known here, since GPU work is only counted.
fn read(contents: Vec<Contents>) -> Reading {
    let (mut reports, work): (Vec<NsysReport>, Vec<Vec<Work>>) =
        contents.into_iter().map(|contents| (contents.report, contents.work)).unzip();
    for (at, report) in reports.iter_mut().enumerate() {
        report.candidates.iter_mut().for_each(|candidate| candidate.trace.input = at);
    }
    let seen = run::seen(&reports);
    let ran =
        reports.iter().zip(work).flat_map(|(report, work)| report.candidates.iter().zip(work));
    let work = ran.map(|(candidate, work)| (key(&candidate.trace), work)).collect();
    let (traces, clues): (Vec<RankTrace>, Vec<RankClues>) = reports
        .into_iter()
        .flat_map(|report| report.candidates)
        .map(|candidate| (candidate.trace, candidate.clues))
        .unzip();
    let mut steps = Steps::default();
    let decided = decide::decide(&StepChoice::Automatic, None, &traces, &seen);
    let (rule, problem) = match decided {
        Ok(decided) => {
            steps.pattern = Some(decided.rule.pattern.clone());
            steps.source = Some(decided.rule.source);
            (Some(decided.rule), None)
        }
        Err(none) => (None, Some(Error::inputs(none.fact).with_hint(none.hint))),
    };
    let candidates: Vec<Candidate> =
        traces.into_iter().zip(clues).map(|(trace, clues)| Candidate { trace, clues }).collect();
    let mut left_out = Vec::new();
    let candidates = match &rule {
        Some(rule) => run::with_steps(candidates, rule, &mut left_out),
        None => candidates,
    };
    let (traces, clash) = match ranks::assign(candidates.clone(), None) {
        Ok((traces, _)) => (traces, None),
        Err(error) => (one_by_one(candidates), Some(error)),
    };
    let too_many = rule.as_ref().and_then(|rule| steps::too_many(traces.iter(), rule));
    let too_many = too_many.map(|none| Error::inputs(none.fact).with_hint(none.hint));
    let problem = problem.or(clash).or(too_many);
    if let Some(rule) = rule.as_ref().filter(|rule| rule.by_ranges()) {
        count_steps(&traces, rule, &mut steps);
    }
    Reading { traces, work, rule, steps, problem, without_steps: left_out.len() }
}

/// Steps are the same where text and occurrence agree; where few do, a report pairs those that run at the same time.
fn count_steps(traces: &[RankTrace], rule: &StepRule, steps: &mut Steps) {
    let keys: Vec<Vec<(String, usize)>> =
        traces.iter().map(|trace| step_keys(trace, rule)).collect();
    let mut ranks: BTreeMap<&(String, usize), usize> = BTreeMap::new();
    keys.iter().flatten().for_each(|key| *ranks.entry(key).or_default() += 1);
    let everywhere = |key: &&(String, usize)| ranks.get(*key) == Some(&traces.len());
    let common: Vec<&(String, usize)> =
        keys.first().into_iter().flatten().filter(everywhere).collect();
    let fewest = keys.iter().map(Vec::len).min().unwrap_or(0);
    if 2 * common.len() < fewest {
        steps.paired_by_time = true;
        steps.count = Some(fewest);
        steps.first = keys.first().and_then(|own| own.first()).map(|key| key.0.clone());
        return;
    }
    steps.on_some_ranks = ranks.len() - common.len();
    steps.count = Some(common.len());
    steps.first = common.first().map(|key| key.0.clone());
}

/// Text and occurrence of each step of a rank.
fn step_keys(trace: &RankTrace, rule: &StepRule) -> Vec<(String, usize)> {
    steps::of(trace, rule).0.into_iter().map(|step| (step.name, step.occurrence)).collect()
}

/// The ranks of each report by itself, where all together contradict each other.
fn one_by_one(candidates: Vec<Candidate>) -> Vec<RankTrace> {
    let mut by_report: BTreeMap<usize, Vec<Candidate>> = BTreeMap::new();
    candidates
        .into_iter()
        .for_each(|candidate| by_report.entry(candidate.trace.input).or_default().push(candidate));
    let mut traces: Vec<RankTrace> = by_report
        .into_values()
        .filter_map(|own| ranks::assign(own, None).ok())
        .flat_map(|(traces, _)| traces)
        .collect();
    traces.sort_by_key(|trace| (trace.rank, key(trace)));
    traces
}
