//! How the ranks reach each other.

use crate::render::document::Block;
use crate::render::table::{Column, Table};
use crate::render::units;
use crate::transport::view::{Gpu, Transport};

/// Rows of the longest table; JSON has everything.
const MOST_ROWS: usize = super::tables::MOST_ROWS;
/// GPUs that the matrix shows; no machine has more.
const MOST_GPUS: usize = 16;

/// A sentence on the logs, then the connections, communicators and algorithms.
pub(super) fn blocks(transport: &Transport) -> Vec<Block> {
    let tables =
        [matrix(transport), pairs(transport), communicators(transport), algorithms(transport)];
    std::iter::once(Block::Text(sources(transport)))
        .chain(tables.into_iter().flatten().map(Block::Table))
        .collect()
}

/// What was read, and how much of it was readable.
fn sources(transport: &Transport) -> String {
    let mut parts = Vec::new();
    if !transport.nccl_versions.is_empty() {
        parts.push(format!("NCCL {}", units::listed(&transport.nccl_versions, 3)));
    }
    if !transport.networks.is_empty() {
        parts.push(format!("network {}", units::listed(&transport.networks, 3)));
    }
    let messages: u64 = transport.logs.iter().fold(0, |sum, log| sum.saturating_add(log.messages));
    let torn: u64 = transport.logs.iter().fold(0, |sum, log| sum.saturating_add(log.torn));
    if !transport.logs.is_empty() {
        let torn = if torn > 0 {
            format!(" ({} more broke off)", units::count(torn))
        } else {
            String::new()
        };
        parts.push(format!(
            "{} with {} messages{torn}",
            units::plural(transport.logs.len(), "log"),
            units::count(messages)
        ));
    }
    parts.push(match &transport.topology {
        Some(path) => format!("topology {path}"),
        None => "no topology was given".to_owned(),
    });
    format!("{}.", parts.join("; "))
}

/// What lies between the GPUs: one row and one column each.
fn matrix(transport: &Transport) -> Option<Table> {
    let gpus = &transport.gpus[..transport.gpus.len().min(MOST_GPUS)];
    let mut columns = vec![
        Column::text("GPU", gpus.iter().map(|g| g.gpu.to_string())),
        Column::text("ranks", gpus.iter().map(|g| units::rank_list(&g.ranks))),
    ];
    columns.extend(gpus.iter().map(|other| {
        let path = |g: &Gpu| match g.gpu == other.gpu {
            true => "-".to_owned(),
            false => g.paths.get(&other.gpu).cloned().unwrap_or_default(),
        };
        Column::text(&format!("GPU{}", other.gpu), gpus.iter().map(path))
    }));
    let joined = gpus.iter().any(|g| !g.paths.is_empty());
    joined
        .then(|| {
            listed("What joins the GPUs of a machine", columns, transport.gpus.len() - gpus.len())
        })
        .flatten()
}

/// One row a pair of ranks and transport.
fn pairs(transport: &Transport) -> Option<Table> {
    let pairs = &transport.pairs[..transport.pairs.len().min(MOST_ROWS)];
    let maybe = |flag: Option<bool>| flag.map_or("", |yes| if yes { "yes" } else { "no" });
    let columns = vec![
        Column::text("ranks", pairs.iter().map(|p| format!("{} → {}", p.src, p.dst))),
        Column::text("transport", pairs.iter().map(|p| p.transport.as_str())),
        Column::text("topology", pairs.iter().map(|p| p.topology.clone().unwrap_or_default()))
            .help("what lies between the two GPUs")
            .rank(1),
        Column::count("channels", pairs.iter().map(|p| Some(p.channels as u64))).rank(2),
        Column::text("same host", pairs.iter().map(|p| maybe(p.same_host))).rank(4),
        Column::text("GDRDMA", pairs.iter().map(|p| maybe(p.gdrdma)))
            .help("whether network card and GPU exchange data directly")
            .rank(3),
        Column::text("communicator", pairs.iter().map(|p| p.comm_id.clone().unwrap_or_default()))
            .rank(5),
    ];
    listed("Connections between ranks", columns, transport.pairs.len() - pairs.len())
}

/// One row a communicator.
fn communicators(transport: &Transport) -> Option<Table> {
    let list = &transport.communicators[..transport.communicators.len().min(MOST_ROWS)];
    let channels = |channels: &[u32]| {
        units::listed(&channels.iter().map(u32::to_string).collect::<Vec<_>>(), 8)
    };
    let columns = vec![
        Column::text(
            "communicator",
            list.iter().map(|c| c.comm_id.clone().unwrap_or_else(|| "unnamed".to_owned())),
        ),
        Column::count("ranks", list.iter().map(|c| Some(u64::from(c.n_ranks)))),
        Column::text("seen in logs", list.iter().map(|c| units::rank_list(&c.ranks_seen))).rank(2),
        Column::count("nodes", list.iter().map(|c| c.nodes.map(u64::from)))
            .help("as NCCL sees them")
            .rank(1),
        Column::text("channels", list.iter().map(|c| channels(&c.channels))).rank(3),
    ];
    listed("Communicators", columns, transport.communicators.len() - list.len())
}

/// One row an operation, algorithm and protocol.
fn algorithms(transport: &Transport) -> Option<Table> {
    let list = &transport.algorithms[..transport.algorithms.len().min(MOST_ROWS)];
    let columns = vec![
        Column::text(
            "operation",
            list.iter().map(|a| a.op.clone().unwrap_or_else(|| "unnamed".to_owned())),
        ),
        Column::text("algorithm", list.iter().map(|a| a.algorithm.as_str())),
        Column::text("protocol", list.iter().map(|a| a.protocol.clone().unwrap_or_default()))
            .rank(1),
        Column::bytes("smallest", list.iter().map(|a| Some(a.min_bytes))).rank(2),
        Column::bytes("largest", list.iter().map(|a| Some(a.max_bytes))).rank(2),
        Column::count("channels", list.iter().map(|a| a.channels.map(u64::from))).rank(3),
        Column::count("calls", list.iter().map(|a| Some(a.count))).rank(1),
    ];
    listed(
        "Algorithms and protocols that NCCL chose",
        columns,
        transport.algorithms.len() - list.len(),
    )
}

/// The table unless it is empty, with a sentence about rows that were left out.
fn listed(caption: &str, columns: Vec<Column>, omitted: usize) -> Option<Table> {
    let table = Table::new(caption, columns).without_blank_columns();
    let table = if omitted > 0 {
        table.with_note(format!("{} are in JSON.", units::plural(omitted, "more row")))
    } else {
        table
    };
    (!table.is_empty()).then_some(table)
}
