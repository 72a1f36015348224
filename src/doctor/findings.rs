//! What is missing: the fact, which numbers it costs, and how to capture it. Pure: from what was found to what is said.

use std::collections::BTreeSet;

use super::nccl_log::ReadLog;
use super::numbers::{alone, sends_to_nobody, unconnected};
use super::view::{Export, InspectorLog, Missing, Run, TopologyFile};
use crate::Error;
use crate::catalogue::class::{EXPORT, INSPECTOR, NCCL_LOG, PROFILE, TOPOLOGY};
use crate::catalogue::{Id, Severity};
use crate::compare::ROUGH_STEPS;
use crate::ingest::nsys::file_name;
use crate::ingest::nsys::notes::concerns_report;
use crate::model::RankSource;
use crate::steps::StepSource;
use crate::text::{capitalised, shorten};
use crate::units::{count, listed, rank_list};

/// Findings, the most important; each run can have its own.
const MOST: usize = 200;
/// Columns that one sentence names.
const COLUMNS: usize = 12;
/// Versions that one sentence names.
const VERSIONS: usize = 6;
/// Characters of a text of the profiler that are shown.
const NOTE: usize = 200;

/// A run with what belongs to it.
pub(super) struct Facts<'a> {
    /// The run.
    pub run: &'a Run,
    /// Its exports.
    pub exports: &'a [Export],
    /// Its Inspector logs.
    pub inspector: &'a [&'a InspectorLog],
    /// Its NCCL logs.
    pub nccl_logs: &'a [&'a ReadLog],
    /// The topology of its machine.
    pub topology: Option<&'a TopologyFile>,
    /// Topologies that may be its machine's, where that is not clear.
    pub topologies: usize,
}

/// Something that a run misses; `costs` are the numbers and what happens to them.
fn missing(
    id: Id,
    title: impl Into<String>,
    (numbers, cost): (&[&'static str], &str),
    advice: impl Into<String>,
) -> Missing {
    Missing {
        id,
        severity: id.severity().unwrap_or(Severity::Medium),
        title: title.into(),
        cost: cost.to_owned(),
        numbers: numbers.to_vec(),
        advice: advice.into(),
        about: Vec::new(),
    }
}

/// Everything that is missing from a run.
pub(super) fn of_run(facts: &Facts<'_>) -> Vec<Missing> {
    let of_the_run = [
        problem(facts.run),
        captured_apart(facts.run),
        ranks_missing(facts.run),
        rank_unknown(facts.run),
        steps(facts),
        steps_differ(facts.run),
        few_steps(facts.run),
        processes_without_steps(facts.run),
        graphs(facts),
        no_communication(facts),
        rank_without_communication(facts.run),
        payloads(facts),
        no_inspector(facts),
        inspector_ranks(facts),
        no_nccl_log(facts),
        nccl_ranks(facts),
        no_topology(facts),
        topology_without_nvlink(facts.topology),
        versions(facts.exports),
    ];
    let mut list: Vec<Missing> = of_the_run
        .into_iter()
        .flatten()
        .map(|finding| Missing { about: vec![facts.run.name.clone()], ..finding })
        .collect();
    for export in facts.exports {
        let own = [
            schema_unknown(export),
            partial_export(export),
            no_api_calls(export),
            no_epoch(export, facts.run),
            profiler_errors(export),
            profiler_warnings(export),
        ];
        list.extend(
            own.into_iter()
                .flatten()
                .map(|finding| Missing { about: vec![file_name(export.path.as_ref())], ..finding }),
        );
    }
    list
}

fn schema_unknown(export: &Export) -> Option<Missing> {
    (!export.lacking_columns.is_empty()).then(|| {
        missing(
            Id::SchemaUnknown,
            format!(
                "The export has no column {}, which every known version has.",
                listed(&export.lacking_columns, COLUMNS)
            ),
            (&[], "What they would tell is not measured; the rest is read as usual."),
            "If this export is of a newer Nsight Systems, look for a newer version of this program.",
        )
    })
}

fn problem(run: &Run) -> Option<Missing> {
    let problem = run.problem.as_ref()?;
    let advice =
        problem.advice.clone().unwrap_or_else(|| "Give the reports of one run only.".to_owned());
    Some(missing(
        Id::ReportFails,
        format!("A report of these files stops with an error: {}.", problem.fact),
        (
            &["steps", "shares", "copies", "across", "bandwidth", "inspector", "transport"],
            "There are no numbers of them together.",
        ),
        sentence(&advice),
    ))
}

fn captured_apart(run: &Run) -> Option<Missing> {
    run.captured_apart.as_ref().map(|message| {
        missing(
            Id::CapturedApart,
            message.clone(),
            (&["across", "bandwidth"], "Waiting, last ranks and clocks mean nothing."),
            "Put the reports of each run in a folder of its own, or name them differently; nsysnccl compare takes several runs.",
        )
    })
}

fn ranks_missing(run: &Run) -> Option<Missing> {
    let talks_alone = run.ranks.len() == 1 && run.ranks.iter().any(|rank| rank.comm_kernels > 0);
    let title = match (run.world_size, run.ranks_missing.as_slice()) {
        (Some(world), [one]) => format!("The run has {world} ranks; one is not here: rank {one}."),
        (Some(world), [_, ..]) => format!(
            "The run has {world} ranks; these are not here: rank {}.",
            rank_list(&run.ranks_missing)
        ),
        (Some(world), []) if run.misses_ranks() => {
            let here = if run.ranks.len() == 1 {
                "one is".to_owned()
            } else {
                format!("{} are", run.ranks.len())
            };
            format!("The run has {world} ranks; {here} here, and nothing says which.")
        }
        (None, _) if talks_alone => {
            "One rank is here, and it communicates: others are not.".to_owned()
        }
        _ => return None,
    };
    let across = if run.ranks.len() > 1 {
        "The step time of the run is that of the slowest rank here, the rank that the others wait for may be one that is not, and bandwidths are missing on communicators that are not whole."
    } else {
        "Waiting, last ranks, clocks and bandwidth are missing: they need a second rank."
    };
    Some(missing(
        Id::RanksMissing,
        title,
        (&["steps", "across", "bandwidth"], across),
        "Add their exports; every rank writes one with torchrun --no-python nsys profile --output=NAME_%q{RANK} (or srun nsys profile --output=NAME_%q{SLURM_PROCID}).",
    ))
}

fn rank_unknown(run: &Run) -> Option<Missing> {
    let unknown = run.ranks.iter().filter(|rank| rank.rank_source == RankSource::Order).count();
    (unknown > 0 && run.ranks.len() > 1).then(|| {
        missing(
            Id::RankUnknown,
            "Nothing in the capture says which rank a process is: they are numbered in order of file, process and device.",
            (&["across"], "Numbers are right, but the rank beside them may be another one."),
            "Capture one report a rank with --output=NAME_%q{RANK}; or let the captured range begin before NCCL's communicators are made and export with --include-json true; or name the ranks with --rank-regex.",
        )
    })
}

fn steps(facts: &Facts<'_>) -> Option<Missing> {
    let run = facts.run;
    let annotate = "put an NVTX range around each step, e.g. torch.cuda.nvtx.range_push(f\"step_{i}\") and range_pop()";
    let kernel = "or name a kernel that begins each step with --step-kernel REGEX";
    let costs: (&[&str], &str) = (
        &["steps"],
        "The whole capture is one step: no time per step, no median, no verdict of compare.",
    );
    let advice = format!("Capture again with {PROFILE} and {annotate}; {kernel}.");
    let (id, title) = match run.steps.source? {
        StepSource::OnlyNccl => (Id::NoStepRanges, "The only NVTX ranges are NCCL's own."),
        StepSource::OnlyLibraries => {
            (Id::NoStepRanges, "The only NVTX ranges are those of libraries.")
        }
        StepSource::Elsewhere => {
            (Id::NoStepRanges, "The NVTX ranges are those of processes that run no GPU work.")
        }
        StepSource::Uncovered if facts.exports.iter().all(|export| export.rows.api_calls == 0) => {
            return None;
        }
        StepSource::Uncovered => {
            return Some(missing(
                Id::StepsNotFound,
                "No NVTX range recurs on every rank, so none is taken for a step.",
                costs,
                format!(
                    "Name the range that is one: --step takes any regular expression; or capture again and {annotate}; {kernel}."
                ),
            ));
        }
        StepSource::NoRanges => {
            let off = facts.exports.iter().any(|export| export.nvtx_traced == Some(false));
            let title = if off { "NVTX was not traced." } else { "There is no NVTX range." };
            (Id::NoNvtx, title)
        }
        StepSource::Repeated => {
            return Some(missing(
                Id::StepsByGuess,
                format!(
                    "Steps are taken from a repeated range, {}, since no range is called step, batch or iteration.",
                    shorten(run.steps.pattern.as_deref().unwrap_or_default(), 100)
                ),
                (
                    &["steps"],
                    "If that range is not a training step, every number is about something else.",
                ),
                format!("Check it, name another one with --step REGEX, or {annotate}."),
            ));
        }
        StepSource::Default | StepSource::Told | StepSource::ToldWhole | StepSource::ToldKernel => {
            return None;
        }
    };
    Some(missing(id, title, costs, advice))
}

fn steps_differ(run: &Run) -> Option<Missing> {
    if run.steps.paired_by_time {
        return Some(missing(
            Id::StepsDiffer,
            "Ranks call their steps differently, so a report takes those for one that run at the same time.",
            (
                &["steps", "across"],
                "Where ranks hold different parts of the run, steps that belong together are not told.",
            ),
            "Give a step the same text on every rank, and capture the same steps: let all ranks call cudaProfilerStart at the same step.",
        ));
    }
    let (common, others) = (run.steps.count?, run.steps.on_some_ranks);
    let (severity, there) = match common {
        0 => (Severity::High, "none is on every rank".to_owned()),
        1 => (Severity::Medium, "1 is on every rank".to_owned()),
        n => (Severity::Medium, format!("{} are on every rank", count(n as u64))),
    };
    (others > 0).then(|| {
        let missing = missing(
            Id::StepsDiffer,
            format!("Ranks hold different steps: {there}, {} on some only.", count(others as u64)),
            (&["steps", "shares", "copies", "across"], "A step that is not on every rank is left out of the run's figures."),
            "Capture the same steps on every rank: let all ranks call cudaProfilerStart at the same step.",
        );
        Missing { severity, ..missing }
    })
}

fn few_steps(run: &Run) -> Option<Missing> {
    run.steps.count.filter(|&steps| (1..ROUGH_STEPS).contains(&steps))?;
    Some(missing(
        Id::FewSteps,
        format!("Fewer than {ROUGH_STEPS} steps of a rank were captured."),
        (&["steps"], "Medians rest on few values, and the interval of a comparison is rough."),
        format!(
            "Capture {} steps or more, e.g. between cudaProfilerStart and cudaProfilerStop with nsys profile --capture-range=cudaProfilerApi --capture-range-end=stop.",
            2 * ROUGH_STEPS - 2
        ),
    ))
}

fn processes_without_steps(run: &Run) -> Option<Missing> {
    (run.processes_without_steps > 0).then(|| {
        missing(
            Id::ProcessWithoutSteps,
            format!(
                "{} ran GPU work but no step range, although others have: left out.",
                plural_of(run.processes_without_steps, "process", "processes")
            ),
            (&["steps", "across"], "Their ranks are not in the report."),
            "If they are ranks, put the NVTX range of the step into every process.",
        )
    })
}

fn graphs(facts: &Facts<'_>) -> Option<Missing> {
    let rows: u64 = facts.run.ranks.iter().map(|rank| rank.graphs).sum();
    (rows > 0).then(|| {
        missing(
            Id::GraphLevelTrace,
            format!(
                "CUDA graphs were captured as one row each ({}): the kernels inside them, NCCL's among them, are not there.",
                plural_of(rows as usize, "launch", "launches")
            ),
            (
                &["shares", "copies", "across", "bandwidth"],
                "Communication and compute are lower bounds, their shares null; collectives inside graphs are not matched.",
            ),
            format!("Capture again with {PROFILE} (the default is graph)."),
        )
    })
}

fn no_communication(facts: &Facts<'_>) -> Option<Missing> {
    let run = facts.run;
    let any = run.ranks.iter().any(|rank| rank.communicates() || rank.graphs > 0);
    (!any && !alone(run) && !run.ranks.is_empty()).then(|| {
        missing(
            Id::NoCommunication,
            "No communication was recognised, neither kernels nor copies between GPUs, although there are several ranks.",
            (&["shares", "across", "bandwidth", "inspector"], "Communication is 0, and its overlap, waiting and bandwidth are missing."),
            "If kernels of another library communicate, name them with --comm-regex; else capture whole steps (--capture-range=cudaProfilerApi around them).",
        )
    })
}

fn rank_without_communication(run: &Run) -> Option<Missing> {
    let silent: Vec<u32> = run
        .ranks
        .iter()
        .filter(|rank| !rank.communicates() && rank.graphs == 0)
        .map(|rank| rank.rank)
        .collect();
    (!silent.is_empty() && silent.len() < run.ranks.len()).then(|| {
        missing(
            Id::RankWithoutCommunication,
            format!("Rank {} ran no communication, neither kernels nor copies between GPUs, although others did.", rank_list(&silent)),
            (&["across"], "Its clock cannot be aligned with the others', and it waits for nobody."),
            "Capture the same steps on every rank: let all ranks call cudaProfilerStart at the same step.",
        )
    })
}

fn payloads(facts: &Facts<'_>) -> Option<Missing> {
    let talks = facts.run.ranks.iter().any(|rank| rank.comm_kernels > 0);
    let without: Vec<&Export> = facts
        .exports
        .iter()
        .filter(|export| export.rows.comm_kernels > 0 && export.rows.nccl_sizes == 0)
        .collect();
    // Inspector knows the sizes too.
    if !talks || without.is_empty() || facts.run.ranks.iter().all(|rank| rank.in_inspector_log) {
        return None;
    }
    let again = format!("Export again (no new capture is needed): {EXPORT}");
    let calls = without.iter().any(|export| export.rows.nccl_calls > 0);
    let (title, advice) = if calls
        && without.iter().any(|export| export.rows.nccl_payloads_described)
    {
        ("The payloads of NCCL's NVTX ranges were not exported.".to_owned(), format!("{again}."))
    } else if calls {
        let old = "NCCL before 2.25 writes none with the communicator: there, give Inspector logs with --inspector";
        ("NCCL's NVTX ranges carry no payloads.".to_owned(), format!("{again}. {old}."))
    } else if without.iter().any(|export| export.nvtx_traced == Some(false)) {
        (
            "NVTX was not traced, so NCCL's ranges are not there.".to_owned(),
            format!("Capture again with {PROFILE}, then {EXPORT}."),
        )
    } else if without.iter().any(|export| export.nvtx_filtered) {
        let title = "Only some NVTX domains were captured, and NCCL's is not among them.";
        (title.to_owned(), "Capture again with the domain NCCL in --nvtx-domain-include, or not in --nvtx-domain-exclude.".to_owned())
    } else {
        let title = "NCCL's NVTX ranges are not there, although its kernels are: replaying a CUDA graph calls no NCCL function, and NCCL before 2.8.3 has no ranges.";
        (title.to_owned(), format!("Run with {INSPECTOR}."))
    };
    let some = if without.len() < facts.exports.len() {
        format!(" ({} of {} exports)", without.len(), facts.exports.len())
    } else {
        String::new()
    };
    let title = format!("{}{some}.", title.trim_end_matches('.'));
    Some(missing(
        Id::NoPayloads,
        title,
        if sends_to_nobody(facts.run, facts.exports) {
            (
                &["bandwidth", "across"],
                "Message sizes and bandwidths are missing, collectives are matched by their order instead of by communicator, and who waits for a send is mostly not known.",
            )
        } else {
            (
                &["bandwidth"],
                "Message sizes and bandwidths are missing, and collectives are matched by their order instead of by communicator.",
            )
        },
        advice,
    ))
}

fn no_inspector(facts: &Facts<'_>) -> Option<Missing> {
    let talks = facts.run.ranks.iter().any(|rank| rank.comm_kernels > 0);
    (talks && facts.inspector.is_empty()).then(|| {
        missing(
            Id::NoInspector,
            "There is no NCCL Inspector log of these processes.",
            (&["inspector"], "Whether the captured steps are typical of the run cannot be told, and NCCL's own times are missing."),
            format!("Run with {INSPECTOR}."),
        )
    })
}

fn inspector_ranks(facts: &Facts<'_>) -> Option<Missing> {
    let without: Vec<u32> = facts
        .run
        .ranks
        .iter()
        .filter(|rank| !rank.in_inspector_log)
        .map(|rank| rank.rank)
        .collect();
    (!facts.inspector.is_empty() && !without.is_empty()).then(|| {
        missing(
            Id::InspectorLogMissing,
            format!("There is no Inspector log of rank {}, although there is of others.", rank_list(&without)),
            (&["inspector"], "Its kernels are not paired, and waiting in the rest of the run is not known."),
            "Look for <host>-pid<pid>.log in NCCL_INSPECTOR_DUMP_DIR of that rank; a process that ends within the dump interval (NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS) after its last operation loses it.",
        )
    })
}

fn no_nccl_log(facts: &Facts<'_>) -> Option<Missing> {
    let talks = facts.run.ranks.iter().any(|rank| rank.comm_kernels > 0);
    let connections: u64 = facts.nccl_logs.iter().map(|log| log.connections()).sum();
    let costs: (&[&str], &str) = (
        &["transport"],
        "Which transport each pair of ranks uses, and the share of the link's peak, are not known.",
    );
    if !talks || connections > 0 {
        None
    } else if facts.nccl_logs.is_empty() {
        Some(missing(Id::NoNcclLog, "There is no NCCL log of these processes.", costs, NCCL_LOG))
    } else {
        let advice = "Run with NCCL_DEBUG=INFO; where NCCL_DEBUG_SUBSYS is set, it needs INIT and P2P,SHM,NET. Connections are printed at their first use.";
        Some(missing(Id::NcclLogWithoutChannels, "The NCCL log names no channel.", costs, advice))
    }
}

fn nccl_ranks(facts: &Facts<'_>) -> Option<Missing> {
    let without = unconnected(facts.run, facts.nccl_logs);
    (!without.is_empty()).then(|| {
        missing(
            Id::NcclLogMissing,
            format!("No NCCL log names a connection of rank {}, although one does of others.", rank_list(&without)),
            (&["transport"], "Which transport it sends by is not known."),
            "With NCCL_DEBUG_FILE=nccl.%h.%p.log every process writes a file of its own: give all of them to --nccl-log.",
        )
    })
}

fn no_topology(facts: &Facts<'_>) -> Option<Missing> {
    let talks = facts.run.ranks.iter().any(|rank| rank.comm_kernels > 0);
    if !talks || facts.topology.is_some() {
        return None;
    }
    let (title, advice) = match facts.topologies {
        0 => ("There is no topology of the machine.", TOPOLOGY),
        _ => (
            "Which of several topologies is that of the machine is not clear.",
            "Give it to --topo, or put it into the folder of the exports.",
        ),
    };
    let costs: (&[&str], &str) = (
        &["transport"],
        "Whether the GPUs could reach each other by a better way than they do is not known.",
    );
    Some(missing(Id::NoTopology, title, costs, advice))
}

fn topology_without_nvlink(topology: Option<&TopologyFile>) -> Option<Missing> {
    topology.filter(|topology| topology.hides_nvlink).map(|_| {
        missing(
            Id::TopologyWithoutNvlink,
            "The topology was printed without NVLink (nvidia-smi topo -mp).",
            (&["transport"], "What looks like PCIe may be NVLink."),
            "On the machine: nvidia-smi topo -m > topo.txt.",
        )
    })
}

fn versions(exports: &[Export]) -> Option<Missing> {
    let versions: BTreeSet<&str> =
        exports.iter().filter_map(|export| export.nsys_version.as_deref()).collect();
    (versions.len() > 1).then(|| {
        missing(
            Id::NsysVersionsDiffer,
            format!(
                "The exports are by {} versions of nsys: {}.",
                count(versions.len() as u64),
                some(versions.iter().copied(), VERSIONS)
            ),
            (&[], "Overheads of the profiler may differ between ranks."),
            "Use one version on all ranks.",
        )
    })
}

fn partial_export(export: &Export) -> Option<Missing> {
    let (tables, times) = (export.exported.only_some_tables, export.exported.only_some_times);
    (tables || times).then(|| {
        let what = match (tables, times) {
            (true, true) => "tables and times (--tables, --times)",
            (true, false) => "tables (--tables)",
            _ => "times (--times)",
        };
        missing(
            Id::PartialExport,
            format!("Only some {what} were exported."),
            (
                &["steps", "shares", "copies", "across", "bandwidth"],
                "What was left out counts as if it had not run.",
            ),
            format!("Export everything: {EXPORT}."),
        )
    })
}

fn no_api_calls(export: &Export) -> Option<Missing> {
    (export.rows.api_calls == 0).then(|| {
        missing(
            Id::NoApiCalls,
            "There are no CUDA API calls.",
            (
                &["steps", "bandwidth"],
                "Nothing says which step launched what: windows on the GPU are missing, and kernels are not paired with NCCL's calls.",
            ),
            format!("Capture again with {PROFILE}; --step whole and --window cpu do without."),
        )
    })
}

fn no_epoch(export: &Export, run: &Run) -> Option<Missing> {
    (!export.has_epoch && run.ranks.len() > 1).then(|| {
        missing(
            Id::NoEpoch,
            "The export does not say when it was captured.",
            (&["across", "inspector"], "Clocks rest on matched collectives alone, records of Inspector are not placed by time, and reports of different runs are not noticed."),
            format!("Export again, with all tables: {EXPORT}."),
        )
    })
}

fn profiler_errors(export: &Export) -> Option<Missing> {
    let errors: Vec<&str> = export
        .profiler_notes
        .iter()
        .filter(|note| note.error && concerns_report(&note.text))
        .map(|note| note.text.as_str())
        .collect();
    let first = errors.first()?;
    let more = if errors.len() > 1 {
        format!(" (and {} more)", count(errors.len() as u64 - 1))
    } else {
        String::new()
    };
    Some(missing(
        Id::ProfilerError,
        format!("The profiler noted an error: {}{more}", shorten(first, NOTE)),
        (&["steps", "shares", "copies"], "Events may be lost, which every number then lacks."),
        "Capture fewer steps; let the program end by itself; see what the error says.",
    ))
}

/// Warnings that stand in good captures too, by their beginning.
const USUAL: [&str; 3] = ["Not all ", "No CUDA events collected", "No NVTX events collected"];

fn profiler_warnings(export: &Export) -> Option<Missing> {
    let unusual =
        |text: &str| concerns_report(text) && !USUAL.iter().any(|usual| text.starts_with(usual));
    let first = export.profiler_notes.iter().find(|note| !note.error && unusual(&note.text))?;
    Some(missing(
        Id::ProfilerWarning,
        format!("The profiler noted: {}", shorten(&first.text, NOTE)),
        (&[], "It may say that events were lost."),
        "See what it says; all of its notes are listed in HTML and JSON.",
    ))
}

/// An export of which no report can be made, since it holds no GPU work.
pub(super) fn without_work(export: &Export, reason: &Error) -> Missing {
    let found = missing(
        Id::NoGpuWork,
        format!("The export {}.", reason.fact.trim_end_matches('.')),
        (&["steps", "shares", "copies", "across", "bandwidth"], "No report can be made of it."),
        format!("{}.", capitalised(reason.hint.as_deref().unwrap_or_default())),
    );
    Missing { about: vec![file_name(export.path.as_ref())], ..found }
}

/// What is said of logs that belong to no run, and of logs alone.
pub(super) fn of_logs(
    any_run: bool,
    inspector: &[InspectorLog],
    nccl_logs: &[ReadLog],
    attached: &dyn Fn(&String) -> bool,
) -> Vec<Missing> {
    let foreign = |paths: Vec<&String>| {
        paths
            .into_iter()
            .filter(|path| !attached(path))
            .map(|path| file_name(path.as_ref()))
            .collect::<Vec<_>>()
    };
    let mut list = Vec::new();
    if !any_run {
        let advice = format!(
            "Capture one: {PROFILE} --output=NAME_%q{{RANK}}, then {EXPORT}. Inspector logs alone: nsysnccl inspect."
        );
        let costs: (&[&str], &str) =
            (&["steps", "shares", "copies", "across", "bandwidth"], "No report can be made.");
        list.push(missing(
            Id::NoExport,
            "There is no export of nsys with GPU work.",
            costs,
            advice,
        ));
        return list;
    }
    let inspector = foreign(inspector.iter().map(|log| &log.path).collect());
    if !inspector.is_empty() {
        let costs: (&[&str], &str) =
            (&["inspector", "bandwidth"], "They are not in the commands below.");
        let advice = "Give the logs of the captured run; process ids differ too where nsys and the program ran in containers of their own.";
        let title = "These Inspector logs come from other processes and communicators than the captured ones.";
        list.push(Missing {
            about: inspector,
            ..missing(Id::InspectorLogOfAnotherRun, title, costs, advice)
        });
    }
    let nccl = foreign(nccl_logs.iter().map(|log| &log.log.path).collect());
    if !nccl.is_empty() {
        let costs: (&[&str], &str) = (&["transport"], "They are not in the commands below.");
        let advice = "Give the log of the captured run; process ids differ too where nsys and the program ran in containers of their own.";
        let title = "These NCCL logs come from other processes than the captured ones.";
        list.push(Missing {
            about: nccl,
            ..missing(Id::NcclLogOfAnotherRun, title, costs, advice)
        });
    }
    list
}

/// The same about several runs or files is said once; the most important comes first.
pub(super) fn merged(findings: Vec<Missing>) -> Vec<Missing> {
    let mut list: Vec<Missing> = Vec::new();
    for finding in findings {
        match list
            .iter_mut()
            .find(|known| Missing { about: known.about.clone(), ..finding.clone() } == **known)
        {
            Some(known) => known.about.extend(finding.about),
            None => list.push(finding),
        }
    }
    list.sort_by_key(|finding| finding.severity);
    list.truncate(MOST);
    list
}

/// The first few names, with how many there are more.
fn some<'a>(names: impl ExactSizeIterator<Item = &'a str>, few: usize) -> String {
    let more = names.len().saturating_sub(few);
    let shown = names.take(few).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{shown} and {} more", count(more as u64)) } else { shown }
}

fn plural_of(n: usize, one: &str, several: &str) -> String {
    format!("{} {}", count(n as u64), if n == 1 { one } else { several })
}

/// A hint as a sentence.
fn sentence(hint: &str) -> String {
    let mut chars = hint.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", chars.as_str().trim_end_matches('.'))
}
