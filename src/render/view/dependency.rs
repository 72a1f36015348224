//! Why a step takes as long as it does: its critical path, and what changes would gain.

use crate::render::document::Block;
use crate::render::table::{Column, Table};
use crate::render::units::{self, TimeScale};
use crate::report::{CriticalPath, Report, Scope, WhatIf};

/// The tables and sentences of the section.
pub(super) fn blocks(report: &Report, scale: TimeScale) -> Vec<Option<Block>> {
    vec![
        note(report).map(Block::Text),
        paths(report, scale).map(Block::Table),
        (report.settings.what_if).then(|| what_if(report, scale)).flatten().map(Block::Table),
    ]
}

/// How far the replay can be trusted, or why there is none.
fn note(report: &Report) -> Option<String> {
    let replay = &report.replay;
    if let Some(reason) = &replay.reason {
        return Some(format!(
            "There is no replay of this run: {reason}. Findings are ordered by the exposed time of their part."
        ));
    }
    let share = |share: Option<f64>| share.map(units::percent);
    let (error, violated) = (share(replay.worst_error)?, share(replay.violated)?);
    let lag = share(replay.lag_share)?;
    let more = match report.settings.what_if {
        true => "",
        false => " --what-if prints what changes would gain.",
    };
    Some(format!(
        "Replayed from {} dependencies, every step takes as long as measured (largest difference {error}); {violated} of the \
         dependencies are contradicted by the times, and {lag} of the critical paths is lag that nothing explains.{more}",
        units::count(replay.edges)
    ))
}

/// One row a step: what held it up.
fn paths(report: &Report, scale: TimeScale) -> Option<Table> {
    let list = &report.critical_path;
    if list.is_empty() {
        return None;
    }
    let name = |path: &CriticalPath| report.steps.get(path.step).map_or("", |s| s.name.as_str());
    let part = |head: &str, of: fn(&CriticalPath) -> i64, help: &str, rank: u8| {
        Column::time(head, scale, list.iter().map(|path| Some(of(path)))).help(help).rank(rank)
    };
    let columns = vec![
        Column::text("step", list.iter().map(name)),
        part("compute", |p| p.compute_ns, "kernels that are not communication", 0),
        part("transfer", |p| p.transfer_ns, "data moves between ranks", 0),
        part("wait", |p| p.wait_ns, "for ranks that are not captured or not matched", 5),
        part("copies", |p| p.copy_ns, "copies and memsets", 4),
        part("launch", |p| p.launch_ns, "from launching calls to their operations", 3),
        part("host", |p| p.host_ns, "the host's calls and what lies between them", 0),
        part("sync", |p| p.sync_ns, "returning from synchronisations and full queues", 4),
        part("lag", |p| p.lag_ns, "operations that start later than anything explains", 2),
        Column::text("by rank", list.iter().map(by_rank)).rank(1),
    ];
    Some(Table::new("Critical path of each step: what held it up, over ranks", columns))
}

/// Ranks with most of the path first: `rank 1 87 %, rank 0 13 %`.
fn by_rank(path: &CriticalPath) -> String {
    let total: i64 = path.by_rank.values().sum();
    let mut ranks: Vec<(i64, u32)> = path.by_rank.iter().map(|(&rank, &ns)| (ns, rank)).collect();
    ranks.sort_unstable_by_key(|&(ns, rank)| (std::cmp::Reverse(ns), rank));
    let share = |&(ns, rank): &(i64, u32)| {
        format!("rank {rank} {:.0} %", ns as f64 * 100.0 / total.max(1) as f64)
    };
    let shown: Vec<String> = ranks.iter().filter(|(ns, _)| *ns > 0).take(3).map(share).collect();
    shown.join(", ")
}

/// One row a change.
fn what_if(report: &Report, scale: TimeScale) -> Option<Table> {
    let list = &report.what_if;
    if list.is_empty() {
        return None;
    }
    let columns = vec![
        Column::text("if", list.iter().map(label)),
        Column::time("step", scale, list.iter().map(|what| Some(what.step_ns))),
        Column::time("gain", scale, list.iter().map(|what| Some(what.gain_ns))),
        Column::percent("gain", "% of step", list.iter().map(|what| what.gain_fraction)),
        Column::time("from", scale, list.iter().map(|what| Some(what.range_ns[0])))
            .help("least predicted step")
            .rank(1),
        Column::time("to", scale, list.iter().map(|what| Some(what.range_ns[1])))
            .help("greatest predicted step")
            .rank(1),
    ];
    let table = Table::new(
        "What a change would gain: the median step, were one thing other than it is",
        columns,
    );
    Some(table.with_note("Each change alone; gains do not add up. Without communication is a bound: ranks no longer wait for each other either."))
}

/// The change in words.
fn label(what: &WhatIf) -> String {
    let words = what.id.label();
    let scope = scope(&what.scope);
    if scope.is_empty() { words.to_owned() } else { format!("{words}: {scope}") }
}

fn scope(scope: &Scope) -> String {
    let sizes = match (scope.bytes_min, scope.bytes_max) {
        (Some(0), Some(max)) => Some(format!("up to {}", units::bytes(max + 1))),
        (Some(min), _) => Some(format!("from {}", units::bytes(min))),
        _ => None,
    };
    let parts = [scope.comm_id.clone(), scope.op.map(|op| op.to_string()), sizes];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}
