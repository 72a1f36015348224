//! Files in, finished report out: the order in which everything happens.

use std::path::{Path, PathBuf};

use rayon::prelude::*;
use regex::Regex;

use crate::analysis::{kernels::KernelTimes, run, step_metrics, strip};
use crate::classify::{Classifier, Family};
use crate::collectives::{self, analyse, events, groups};
use crate::findings;
use crate::ingest::nsys::{self, Candidate, NsysReport};
use crate::ingest::{communicators, nccl_log, one_run, ranks, topo};
use crate::merge;
use crate::merge::collect::{Collected, Process};
use crate::merge::pair::RankKernels;
use crate::model::nccl_log::NcclLog;
use crate::model::{Metric, RankTrace, Span};
use crate::report::{self, Clock, Kernels, RankReport, Report, RunSummary, Settings, Strip};
use crate::stats;
use crate::step_texts::{self, NoSteps};
use crate::steps::{Step, select, window};
use crate::transport::Facts;
use crate::warning::Warning;
use crate::{Error, Result};

/// What a step is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum StepChoice {
    /// Ranges of the default pattern, else a repeated range, else the whole capture.
    #[default]
    Automatic,
    /// Ranges whose text matches.
    Pattern(String),
    /// The whole capture is one step.
    Whole,
    /// A step starts with each kernel whose name matches.
    Kernel(String),
}

/// Everything that changes the numbers of a report.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What a step is.
    pub step: StepChoice,
    /// Take the NVTX ranges themselves as windows.
    pub cpu_windows: bool,
    /// Step ranges to drop at the front of each rank.
    pub skip: usize,
    /// Keep an outlying first step in the summaries.
    pub keep_first: bool,
    /// Ranks to report on.
    pub ranks: Option<Vec<u32>>,
    /// Finds the rank in the file name.
    pub rank_regex: Option<String>,
    /// Further communication kernels.
    pub comm_regex: Option<String>,
    /// Go on without inputs that cannot be used.
    pub keep_going: bool,
    /// NCCL_DEBUG logs of the run.
    pub nccl_logs: Vec<PathBuf>,
    /// Output of `nvidia-smi topo -m` on the run's machine.
    pub topology: Option<PathBuf>,
    /// NCCL Inspector logs of the run, or folders with them.
    pub inspector: Vec<PathBuf>,
    /// Read what the host did, replay the run and predict what a change would gain.
    pub replay: bool,
}

/// A finished report, and whether inputs are missing from it.
#[derive(Debug)]
pub struct Built {
    /// The report.
    pub report: Report,
    /// Inputs that could not be used, with the reason.
    pub unusable: Vec<Error>,
}

/// How steps are found, once it is decided.
#[derive(Debug)]
pub struct StepRule {
    /// The regular expression, or `whole`.
    pub pattern: String,
    /// Why this one.
    pub source: &'static str,
    /// What it is matched with.
    pub kind: StepKind,
}

/// What a step is, once it is decided.
#[derive(Debug)]
pub enum StepKind {
    /// NVTX ranges.
    Ranges,
    /// The whole capture.
    Whole,
    /// From one kernel of that name to the next.
    Kernel(Regex),
}

/// Reads the reports, finds steps, measures them. `tick` is called once for each file that was read.
///
/// # Errors
/// An input that cannot be used (unless `keep_going` and another can), two inputs for one rank, no steps.
pub fn build(paths: &[PathBuf], options: &Options, tick: impl Fn() + Sync) -> Result<Built> {
    let classifier = Classifier::new(options.comm_regex.as_deref())?;
    let paths = in_order(paths)?;
    let wanted = first_pattern(&options.step)?;
    let read = |pattern: Option<&Regex>, tick: &(dyn Fn() + Sync)| -> Vec<Result<NsysReport>> {
        let options =
            nsys::Options { step: pattern, classifier: &classifier, replay: options.replay };
        paths
            .par_iter()
            .enumerate()
            .map(|(i, path)| {
                let report = nsys::read(path, i, &options);
                tick();
                report
            })
            .collect()
    };
    let (mut reports, mut unusable) = usable(read(wanted.as_ref(), &tick), options.keep_going)?;
    let mut warnings = Vec::new();
    let again = |pattern: &Regex| read(Some(pattern), &|| ()).into_iter().flatten().collect();
    let rule = decide(&options.step, wanted, &reports, &paths, again)?;
    if let (StepChoice::Automatic, StepKind::Ranges, true) =
        (&options.step, &rule.kind, rule.source != "default")
    {
        // Ranges that do not match are not kept: the pattern that was found needs its own look at the files.
        let pattern = Regex::new(&rule.pattern)
            .map_err(|e| Error::inputs(format!("'{}' is no pattern: {e}", rule.pattern)))?;
        reports = usable(read(Some(&pattern), &|| ()), options.keep_going)?.0;
    }
    let inputs: Vec<report::Input> = reports.iter().map(|r| r.input.clone()).collect();
    warnings.extend(reports.iter().flat_map(|r| r.warnings.clone()));
    let candidates: Vec<Candidate> = reports.into_iter().flat_map(|r| r.candidates).collect();
    let candidates = with_steps(candidates, &rule, &mut warnings);
    let (mut traces, more) = ranks::assign(candidates, options.rank_regex.as_deref())?;
    warnings.extend(more);
    let logs = read_nccl_logs(options, &mut unusable)?;
    communicators::learn(&mut traces, &logs.iter().collect::<Vec<_>>());
    warnings.extend(one_run::missing_ranks(&traces));
    warnings.extend(one_run::captured_apart(one_run::captured_at(&traces)));
    warnings.extend(idle_comm_regex(&traces, options));
    if let Some(wanted) = &options.ranks {
        keep_ranks(&mut traces, wanted)?;
    }
    let name = run_name(&inputs.iter().map(|input| PathBuf::from(&input.path)).collect::<Vec<_>>());
    let settings = Settings {
        step_pattern: rule.pattern.clone(),
        step_pattern_source: rule.source.to_owned(),
        window: if options.cpu_windows { "cpu" } else { "gpu" }.to_owned(),
        skip: options.skip,
        ranks: options.ranks.clone(),
        keep_first: options.keep_first,
        comm_regex: options.comm_regex.clone(),
    };
    let mut report = analyse(
        &traces,
        &rule,
        options,
        Draft { name, settings, inputs, warnings },
        &mut unusable,
    )?;
    add_transport(&mut report, &logs, options, &mut unusable)?;
    report.warnings.extend(unusable.iter().map(unusable_warning));
    report.findings.extend(findings::find(&report));
    findings::sort(&mut report.findings);
    report.warnings.sort();
    report.warnings.dedup();
    Ok(Built { report, unusable })
}

/// Each file once, in the order of names, so that the order of arguments does not matter.
fn in_order(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut list = paths.to_vec();
    list.sort();
    let mut seen = std::collections::HashSet::new();
    list.retain(|path| seen.insert(std::fs::canonicalize(path).unwrap_or_else(|_| path.clone())));
    if list.is_empty() { Err(Error::usage("no report was named")) } else { Ok(list) }
}

fn first_pattern(step: &StepChoice) -> Result<Option<Regex>> {
    let pattern = |text: &str, option: &str| {
        Regex::new(text).map(Some).map_err(|e| {
            Error::usage(format!(
                "{option} is no regular expression: {}",
                crate::text::regex_fault(&e)
            ))
        })
    };
    match step {
        StepChoice::Automatic => pattern(select::DEFAULT_PATTERN, "the default pattern"),
        StepChoice::Pattern(text) => pattern(text, "--step"),
        StepChoice::Kernel(text) => pattern(text, "--step-kernel").map(|_| None),
        StepChoice::Whole => Ok(None),
    }
}

/// The reports that could be read; without `keep_going`, or if none could, the first error.
fn usable(
    read: Vec<Result<NsysReport>>,
    keep_going: bool,
) -> Result<(Vec<NsysReport>, Vec<Error>)> {
    let (mut reports, mut errors) = (Vec::new(), Vec::new());
    for result in read {
        match result {
            Ok(report) => reports.push(report),
            Err(error) => errors.push(error),
        }
    }
    match errors.first() {
        Some(first) if !keep_going || reports.is_empty() => Err(first.clone()),
        _ => Ok((reports, errors)),
    }
}

/// The result; with `keep_going` an error is put aside instead.
fn unless_going_on<T>(
    result: Result<T>,
    options: &Options,
    unusable: &mut Vec<Error>,
) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if options.keep_going => {
            unusable.push(error);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn unusable_warning(error: &Error) -> Warning {
    let warning = Warning::new("input-unusable", format!("Left out: {error}."));
    match &error.hint {
        Some(hint) => warning.with_hint(hint),
        None => warning,
    }
}

/// Which rule finds the steps in these reports, and why. `read` reads the reports with the ranges that match a pattern.
///
/// # Errors
/// No range is a step, although there are some.
pub fn decide(
    step: &StepChoice,
    wanted: Option<Regex>,
    reports: &[NsysReport],
    paths: &[PathBuf],
    read: impl Fn(&Regex) -> Vec<NsysReport>,
) -> std::result::Result<StepRule, NoSteps> {
    let rule = |pattern: &str, source, kind| StepRule { pattern: pattern.to_owned(), source, kind };
    match (step, wanted) {
        (StepChoice::Whole, _) => return Ok(rule("whole", "--step whole", StepKind::Whole)),
        (StepChoice::Kernel(text), _) => {
            let pattern = Regex::new(text).map_err(|e| {
                Error::usage(format!(
                    "--step-kernel is no regular expression: {}",
                    crate::text::regex_fault(&e)
                ))
            })?;
            return Ok(rule(text, "--step-kernel", StepKind::Kernel(pattern)));
        }
        (_, Some(pattern))
            if reports.iter().any(|r| r.candidates.iter().any(|c| !c.trace.ranges.is_empty())) =>
        {
            let source = if *step == StepChoice::Automatic { "default" } else { "--step" };
            return Ok(rule(pattern.as_str(), source, StepKind::Ranges));
        }
        _ => {}
    }
    let told = if let StepChoice::Pattern(text) = step { Some(text) } else { None };
    if told.is_none() && !reports.iter().any(|r| r.has_user_ranges) {
        let any =
            reports.iter().any(|r| r.input.capture.rows.get("ranges").is_some_and(|n| *n > 0));
        return Ok(rule(
            "whole",
            if any { "only NCCL's own NVTX ranges" } else { "no NVTX ranges" },
            StepKind::Whole,
        ));
    }
    let texts = step_texts::texts(reports, paths)?;
    match (told, step_texts::repeated(&texts)) {
        (Some(told), _) => Err(step_texts::no_match(
            &format!("no NVTX range matches --step '{told}'"),
            &texts,
            paths,
            read,
        )),
        (None, Some(text)) => Ok(rule(&text.pattern, "repeated range", StepKind::Ranges)),
        (None, None) => Err(step_texts::no_match(
            "no NVTX range looks like a training step",
            &texts,
            paths,
            read,
        )),
    }
}

/// Leaves out processes without step ranges where others have them.
pub fn with_steps(
    candidates: Vec<Candidate>,
    rule: &StepRule,
    warnings: &mut Vec<Warning>,
) -> Vec<Candidate> {
    if !matches!(rule.kind, StepKind::Ranges) {
        return candidates;
    }
    let (with, without): (Vec<Candidate>, Vec<Candidate>) =
        candidates.into_iter().partition(|c| !c.trace.ranges.is_empty());
    for Candidate { trace, .. } in without {
        warnings.push(
            Warning::new(
                "process-without-steps",
                format!(
                    "Process {} (device {}) ran GPU work but has no step ranges, although others have: left out.",
                    trace.pid, trace.device
                ),
            )
            .in_report(trace.report),
        );
    }
    with
}

/// `--comm-regex` that adds nothing is a mistake to be told of.
fn idle_comm_regex(traces: &[RankTrace], options: &Options) -> Option<Warning> {
    let pattern = options.comm_regex.as_deref()?;
    let used = traces
        .iter()
        .any(|trace| trace.families.values().any(|family| *family == Family::User.label()));
    (!used).then(|| {
        Warning::new(
            "comm-regex-unused",
            format!("--comm-regex '{pattern}' changes nothing: it matches no kernel that is not known to be communication anyway."),
        )
        .with_hint("Give a part of a kernel's name as the table of kernels lists them.")
    })
}

fn keep_ranks(traces: &mut Vec<RankTrace>, wanted: &[u32]) -> Result<()> {
    if let Some(missing) = wanted.iter().find(|rank| !traces.iter().any(|t| t.rank == **rank)) {
        let there: Vec<String> = traces.iter().map(|t| t.rank.to_string()).collect();
        return Err(Error::inputs(format!(
            "rank {missing} of --ranks is in none of the reports (ranks there: {})",
            there.join(", ")
        )));
    }
    traces.retain(|trace| wanted.contains(&trace.rank));
    Ok(())
}

/// What the names of the files have in common, without the rank.
pub fn run_name(paths: &[PathBuf]) -> String {
    let stems: Vec<String> = paths.iter().map(|path| stem(path)).collect();
    match stems.first() {
        Some(first) if stems.iter().all(|stem| stem == first) => first.clone(),
        Some(first) => format!("{first} and {} more", paths.len() - 1),
        None => String::new(),
    }
}

/// The file's name without its ending and its rank.
pub fn stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    match Regex::new(r"(?i)[._-](?:rank)?\d+$") {
        Ok(pattern) if ranks::has_rank_in_name(path) => pattern.replace(&stem, "").into_owned(),
        _ => stem,
    }
}

/// What is known before the numbers are.
struct Draft {
    name: String,
    settings: Settings,
    inputs: Vec<report::Input>,
    warnings: Vec<Warning>,
}

/// The steps of one trace.
fn steps_of(trace: &RankTrace, rule: &StepRule, options: &Options) -> (Vec<Step>, Option<Warning>) {
    let mut warning = None;
    let mut steps = match &rule.kind {
        StepKind::Whole => window::whole(&trace.ops),
        StepKind::Kernel(pattern) => window::at_kernels(&trace.ops, &trace.names, pattern),
        StepKind::Ranges => {
            let chosen = select::select(&trace.ranges);
            if chosen.set_aside > 0 {
                warning = Some(
                    Warning::new(
                        "steps-on-several-threads",
                        format!(
                            "Rank {}: {} matching ranges on {} other thread(s) are set aside; the thread with most matches counts.",
                            trace.rank, chosen.set_aside, chosen.other_threads
                        ),
                    )
                    .in_report(&trace.report),
                );
            }
            // `--skip` drops steps after their windows are made: it never changes the steps that stay.
            let ranges = &chosen.ranges;
            if options.cpu_windows {
                window::cpu(&trace.names, ranges)
            } else {
                window::gpu(&trace.ops, &trace.names, ranges)
            }
        }
    };
    steps.drain(..options.skip.min(steps.len()));
    (steps, warning)
}

fn analyse(
    traces: &[RankTrace],
    rule: &StepRule,
    options: &Options,
    draft: Draft,
    unusable: &mut Vec<Error>,
) -> Result<Report> {
    let Draft { name, settings, inputs, mut warnings } = draft;
    let measured: Vec<RankWork> = traces
        .par_iter()
        .map(|trace| {
            let (steps, warning) = steps_of(trace, rule, options);
            let windows: Vec<Option<Span>> =
                steps.iter().map(|step| step.window.as_ref().ok().copied()).collect();
            let values = step_metrics::measure(&trace.ops, &windows);
            let mut own: Vec<Warning> = warning.into_iter().collect();
            own.extend(step_warnings(trace, &steps, &values));
            let mut kernels = KernelTimes::default();
            kernels.add(trace, &windows);
            let steps_out = run::rank_steps(&steps, values, options.skip, options.keep_first);
            RankWork {
                steps,
                windows,
                report: rank_report(trace, steps_out),
                kernels,
                warnings: own,
                events: events::events(trace),
            }
        })
        .collect();
    let mut kernels = KernelTimes::default();
    let mut ranks = Vec::with_capacity(traces.len());
    let mut windows = Vec::with_capacity(traces.len());
    let mut steps = Vec::with_capacity(traces.len());
    let mut events = Vec::with_capacity(traces.len());
    for work in measured {
        kernels.merge(work.kernels);
        ranks.push(work.report);
        windows.push(work.windows);
        steps.push(work.steps);
        events.push(work.events);
        warnings.extend(work.warnings);
    }
    if ranks
        .iter()
        .all(|rank| rank.steps.iter().all(|step| step.values.int(Metric::StepNs).is_none()))
    {
        return Err(no_windows(&ranks, &settings));
    }
    let run = run::run_steps(&ranks, options.skip, options.keep_first);
    warnings.extend(run.warnings.iter().cloned());
    let summary = RunSummary {
        ranks: ranks.len(),
        world_size: traces.iter().filter_map(|t| t.world_size).max(),
        steps: run.steps.len(),
        counted_steps: run.steps.iter().filter(|s| s.counted).count(),
        values: run::summarise(run.steps.iter().map(|s| (s.counted, &s.values))),
    };
    let strips = strips(traces, &ranks, &windows, &run);
    let kernels: Kernels = kernels.finish();
    warnings.extend(graph_warning(&ranks));
    if let Some(first) = run.steps.first().filter(|s| s.outlier && !s.counted) {
        warnings.push(
            Warning::new(
                "first-step-left-out",
                format!(
                    "The first captured step, '{}', is an outlier and is left out of summaries.",
                    first.name
                ),
            )
            .with_hint("Ranks start the profiler at different times; --keep-first keeps it."),
        );
    }
    let keys: Vec<Vec<run::StepKey>> = ranks.iter().map(|rank| run::keys(&rank.steps)).collect();
    let inspector =
        unless_going_on(add_inspector(traces, &mut events, options), options, unusable)?.flatten();
    let inspector = inspector.map(|merged| {
        warnings.extend(merged.warnings);
        merged.view
    });
    let across = analyse::across(traces, &events, &steps, &keys);
    let numbers: Vec<u32> = traces.iter().map(|t| t.rank).collect();
    let lists: Vec<&[events::Event]> = events.iter().map(Vec::as_slice).collect();
    let run_keys: Vec<run::StepKey> =
        run.members.iter().map(|members| keys[0][members[0]].clone()).collect();
    let waits = groups::step_waits(&across.measured, &across.compute, &run_keys, &numbers);
    across_ranks(&mut ranks, &across, &waits, &run.steps);
    warnings.extend(collectives::warnings::warnings(&across, traces, &events, &inputs));
    Ok(Report {
        schema: report::SCHEMA,
        tool_version: env!("CARGO_PKG_VERSION"),
        name,
        settings,
        inputs,
        ranks,
        steps: run.steps,
        summary,
        kernels,
        collectives: groups::groups(&across.measured, &lists, &numbers),
        waits,
        inspector,
        transport: None,
        findings: Vec::new(),
        warnings,
        strips,
    })
}

/// Pairs the kernels with the records of Inspector, which also give sizes to operations without a payload.
fn add_inspector(
    traces: &[RankTrace],
    events: &mut [Vec<events::Event>],
    options: &Options,
) -> Result<Option<merge::Merged>> {
    if options.inspector.is_empty() {
        return Ok(None);
    }
    let ranks: Vec<RankKernels> = traces
        .iter()
        .map(|trace| RankKernels {
            rank: trace.rank,
            pid: trace.pid,
            hostname: trace.hostname.clone(),
            epoch_ns: trace.epoch_ns,
            captured: trace.ops.start.first().copied().zip(trace.ops.end.iter().copied().max()),
            comm_inits: trace.comm_inits.clone(),
        })
        .collect();
    let wanted: Vec<Process> = ranks.iter().map(|rank| (rank.pid, rank.hostname.clone())).collect();
    let logs = Collected::read(&options.inspector, &wanted)?;
    Ok(Some(merge::merge(&ranks, events, &logs)))
}

fn read_nccl_logs(options: &Options, unusable: &mut Vec<Error>) -> Result<Vec<NcclLog>> {
    let read: Vec<Result<NcclLog>> =
        options.nccl_logs.par_iter().map(|path| nccl_log::read(path)).collect();
    let mut logs = Vec::with_capacity(read.len());
    for log in read {
        logs.extend(unless_going_on(log, options, unusable)?);
    }
    Ok(logs)
}

/// What NCCL logs and the topology say: routes, findings, and the peak that bandwidths are compared with.
fn add_transport(
    report: &mut Report,
    logs: &[NcclLog],
    options: &Options,
    unusable: &mut Vec<Error>,
) -> Result<()> {
    if options.nccl_logs.is_empty() && options.topology.is_none() {
        return Ok(());
    }
    let topology = options
        .topology
        .as_deref()
        .map(topo::read)
        .and_then(|read| unless_going_on(read, options, unusable).transpose())
        .transpose()?;
    let facts = Facts::new(logs, topology.as_ref());
    let gpu = report.ranks.iter().find_map(|rank| rank.gpu.clone());
    for group in &mut report.collectives {
        let peak = gpu.as_deref().and_then(|gpu| facts.peak(group.comm_id.as_deref(), gpu));
        group.peak_share = group.busbw_gbs.zip(peak.as_ref()).map(|(busbw, peak)| busbw / peak.gbs);
        group.peak_source = peak
            .filter(|_| group.peak_share.is_some())
            .map(|peak| format!("{:.1} GB/s: {}", peak.gbs, peak.source));
    }
    let captured: Vec<std::collections::BTreeMap<String, String>> =
        report.inputs.iter().map(|input| input.capture.settings.clone()).collect();
    let transport = facts.findings(&captured);
    report.findings.extend(
        transport
            .into_iter()
            .map(|finding| findings::weigh_transport(finding, report))
            .collect::<Vec<_>>(),
    );
    report.warnings.extend(facts.warnings());
    report.warnings.extend(facts.foreign(&report.ranks.iter().map(|rank| rank.pid).collect()));
    report.transport = Some(facts.view());
    Ok(())
}

/// One rank, measured.
struct RankWork {
    steps: Vec<Step>,
    windows: Vec<Option<Span>>,
    report: RankReport,
    kernels: KernelTimes,
    warnings: Vec<Warning>,
    events: Vec<events::Event>,
}

/// Puts clocks, waits and arrivals into the ranks' part of the report.
fn across_ranks(
    ranks: &mut [RankReport],
    across: &analyse::Across,
    waits: &[report::StepWait],
    steps: &[report::RunStep],
) {
    let arrivals = groups::arrivals(&across.measured, ranks.len());
    for ((rank, clock), arrivals) in ranks.iter_mut().zip(&across.clocks).zip(arrivals) {
        let own: Vec<i64> = waits
            .iter()
            .filter(|w| w.rank == rank.rank && steps.get(w.step).is_some_and(|s| s.counted))
            .map(|w| w.wait_ns)
            .collect();
        rank.wait_ns_per_step = stats::median_i64(&own);
        rank.clock.offset_ns = clock.offset_ns();
        rank.clock.residual_p50_ns = clock.residual_p50_ns;
        rank.clock.residual_p95_ns = clock.residual_p95_ns;
        rank.clock.drift = clock.drift.label();
        rank.clock.collectives = clock.collectives;
        if clock.collectives > 0 {
            rank.last_count = Some(arrivals.last);
            rank.first_count = Some(arrivals.first);
            rank.ordered_count = Some(arrivals.ordered);
        }
    }
}

fn rank_report(trace: &RankTrace, steps: Vec<report::RankStep>) -> RankReport {
    let summary = run::summarise(steps.iter().map(|s| (s.counted, &s.values)));
    RankReport {
        rank: trace.rank,
        rank_source: trace.rank_source.label(),
        report: trace.report.clone(),
        pid: trace.pid,
        device: trace.device,
        gpu: trace.gpu.clone(),
        gpu_uuid: trace.gpu_uuid.clone(),
        hostname: trace.hostname.clone(),
        clock: Clock {
            epoch_ns: trace.epoch_ns,
            offset_ns: None,
            residual_p50_ns: None,
            residual_p95_ns: None,
            drift: None,
            collectives: 0,
        },
        wait_ns_per_step: None,
        last_count: None,
        first_count: None,
        ordered_count: None,
        steps,
        summary,
    }
}

fn step_warnings(
    trace: &RankTrace,
    steps: &[Step],
    values: &[crate::model::Values],
) -> Vec<Warning> {
    let mut list = Vec::new();
    let without: Vec<&Step> = steps.iter().filter(|s| s.window.is_err()).collect();
    if let Some(first) = without.first() {
        let reason = first.window.as_ref().err().map_or("", String::as_str);
        let (was, more) = match without.len() {
            1 => ("has", String::new()),
            n => ("have", format!(" and {} more", n - 1)),
        };
        list.push(
            Warning::new(
                "step-without-window",
                format!("Rank {}: '{}'{more} {was} no window: {reason}.", trace.rank, first.name),
            )
            .in_report(&trace.report),
        );
    }
    if let Some(i) = values.iter().position(|v| !step_metrics::identity_holds(v)) {
        list.push(
            Warning::new(
                "identity",
                format!(
                    "Rank {}: the parts of '{}' do not add up to it.",
                    trace.rank, steps[i].name
                ),
            )
            .with_hint("This is a fault of nsysnccl: please report it with the capture.")
            .in_report(&trace.report),
        );
    }
    list
}

fn graph_warning(ranks: &[RankReport]) -> Option<Warning> {
    let steps = ranks.iter().flat_map(|r| &r.steps);
    let with_graphs =
        steps.filter(|s| s.values.int(Metric::UnclassifiedNs).is_some_and(|ns| ns > 0)).count();
    (with_graphs > 0).then(|| {
        Warning::new(
            "graph-level-trace",
            format!(
                "CUDA graphs were captured as one row each in {with_graphs} step(s): what runs inside them is unknown, so communication numbers are lower bounds and ratios are not given."
            ),
        )
        .with_hint("Capture with --cuda-graph-trace=node.")
    })
}

fn no_windows(ranks: &[RankReport], settings: &Settings) -> Error {
    let reason = ranks.iter().flat_map(|r| &r.steps).find_map(|s| s.reason.clone());
    let fact = match reason {
        Some(reason) => format!("no step has a window on the GPU ({reason})"),
        None if settings.skip > 0 => {
            return Error::inputs(format!("--skip {} leaves no step", settings.skip))
                .with_hint("skip fewer steps");
        }
        None => {
            return Error::inputs(format!(
                "no kernel matches --step-kernel '{}'",
                settings.step_pattern
            ))
            .with_hint("give a part of a kernel's name as `report --step whole` lists them");
        }
    };
    Error::inputs(fact).with_hint("use --step whole for the whole capture, or another --step")
}

/// The step of the run whose length is the (lower) median of those that count, on every rank.
fn strips(
    traces: &[RankTrace],
    ranks: &[RankReport],
    windows: &[Vec<Option<Span>>],
    run: &run::Run,
) -> Vec<Strip> {
    let mut counted: Vec<(Option<i64>, usize)> = run
        .steps
        .iter()
        .filter(|s| s.counted)
        .map(|s| (s.values.int(Metric::StepNs), s.index))
        .collect();
    counted.sort_unstable();
    let Some(&(_, step)) = counted.get(counted.len().saturating_sub(1) / 2) else {
        return Vec::new();
    };
    let members = &run.members[step];
    (0..traces.len())
        .filter_map(|r| {
            let window = windows[r][members[r]]?;
            Some(strip::strip(&traces[r], &ranks[r].steps[members[r]].name, window))
        })
        .collect()
}
