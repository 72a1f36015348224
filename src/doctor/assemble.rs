//! From what was read to the view: an export in a few numbers, and everything together.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::nccl_log::ReadLog;
use super::view::*;
use super::{command, findings};
use crate::Error;
use crate::ingest::nsys::contents::Contents;
use crate::text::shorten;

/// Characters of a step's text that are shown.
const STEP_TEXT: usize = 200;

impl Export {
    /// What matters of an export.
    pub fn of(contents: &Contents) -> Self {
        let Contents { report, work, meta, .. } = contents;
        let calls = || {
            report
                .candidates
                .iter()
                .flat_map(|c| c.trace.nccl.iter().chain(&c.trace.gpu_operations))
                .filter(|call| call.op.is_some())
        };
        let count = |kind: &str| report.input.capture.rows.get(kind).copied().unwrap_or(0);
        let spans = || work.iter().filter_map(|work| work.span);
        let extent = spans().map(|span| span.0).min().zip(spans().map(|span| span.1).max());
        Self {
            path: report.input.path.clone(),
            size_bytes: report.input.size_bytes,
            nsys_version: meta.nsys_version.clone(),
            schema_version: meta.schema_version.clone(),
            hostname: meta.hostname.clone(),
            gpus: meta.gpu_models(),
            capture_ns: contents.capture_ns,
            gpu_work_ns: extent.map(|(first, last)| last.saturating_sub(first)),
            has_epoch: meta.epoch_ns.is_some(),
            cuda_graph_mode: meta.cuda_graph_mode.clone(),
            nvtx_traced: meta.nvtx_traced,
            nvtx_filtered: meta.nvtx_filtered,
            exported: meta.exported,
            settings: meta.settings.clone(),
            rows: Rows {
                kernels: count("kernels"),
                comm_kernels: work.iter().map(|work| work.comm_kernels).sum(),
                copies: count("copies"),
                memsets: count("memsets"),
                graphs: count("graphs"),
                graphs_unresolved: work.iter().map(|work| work.graphs).sum(),
                api_calls: count("api_calls"),
                ranges: count("ranges"),
                user_ranges: contents.report.user_ranges,
                nccl_calls: calls().count() as u64,
                nccl_sizes: calls().filter(|call| call.bytes.is_some()).count() as u64,
                nccl_payloads_described: contents.payloads_described,
                mpi_ranks: meta.mpi_ranks.len() as u64,
            },
            unread_tables: contents.differences.unread_tables.clone(),
            unread_columns: contents.differences.unread_columns.clone(),
            lacking_columns: contents.differences.lacking.clone(),
            profiler_notes: contents.notes.clone(),
        }
    }
}

/// Everything together, with what is missing.
pub(super) fn assemble(
    (runs, without_work): (Vec<(Run, Vec<Export>)>, Vec<(Export, Error)>),
    inspector_logs: Vec<InspectorLog>,
    nccl_logs: Vec<ReadLog>,
    topologies: Vec<TopologyFile>,
    further: BTreeSet<FurtherFile>,
    (other, unusable): (&[PathBuf], &[Error]),
) -> Examination {
    let mut found: Vec<Missing> = Vec::new();
    let with_links = topologies.iter().filter(|topology| topology.links.is_some()).count();
    for (run, exports) in &runs {
        let logs: Vec<&InspectorLog> =
            inspector_logs.iter().filter(|log| run.inspector.contains(&log.path)).collect();
        let nccl: Vec<&ReadLog> =
            nccl_logs.iter().filter(|log| run.nccl_logs.contains(&log.log.path)).collect();
        let topology =
            topologies.iter().find(|topology| Some(&topology.path) == run.topology.as_ref());
        found.extend(findings::of_run(&findings::Facts {
            run,
            exports,
            inspector: &logs,
            nccl_logs: &nccl,
            topology,
            topologies: with_links,
        }));
    }
    found
        .extend(without_work.iter().map(|(export, reason)| findings::without_work(export, reason)));
    let (mut runs, exports): (Vec<Run>, Vec<Vec<Export>>) = runs.into_iter().unzip();
    for step in runs.iter_mut().filter_map(|run| run.steps.first.as_mut()) {
        *step = shorten(step, STEP_TEXT).into_owned();
    }
    let attached = |path: &String| {
        runs.iter().any(|run| run.inspector.contains(path) || run.nccl_logs.contains(path))
    };
    found.extend(findings::of_logs(
        !(runs.is_empty() && without_work.is_empty()),
        &inspector_logs,
        &nccl_logs,
        &attached,
    ));
    let mut exports: Vec<Export> = exports.into_iter().flatten().collect();
    exports.extend(without_work.into_iter().map(|(export, _)| export));
    exports.sort_by(|a, b| a.path.cmp(&b.path));
    Examination {
        schema: SCHEMA,
        tool_version: env!("CARGO_PKG_VERSION"),
        compare_command: command::compare(&runs),
        runs,
        exports,
        inspector_logs,
        nccl_logs: nccl_logs.iter().map(ReadLog::view).collect(),
        topologies,
        further_files: further.into_iter().collect(),
        other_files: other.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
        unusable: unusable.iter().map(Unusable::from).collect(),
        findings: findings::merged(found),
    }
}
