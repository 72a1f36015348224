//! A run as tables for DuckDB, pandas and others: which tables there are, and what their columns mean.
//!
//! `rows` fills them, in builds with the feature `parquet`. [`document`] describes them, and is docs/parquet.md.

#[cfg(feature = "parquet")]
pub(crate) mod rows;

use std::borrow::Cow;

use crate::columnar::Kind;
use crate::model::Metric;
use crate::model::metric::Unit;

/// One column of a table.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    /// Its name.
    pub name: Cow<'static, str>,
    /// Its type.
    pub kind: Kind,
    /// The unit of its values; empty for what has none.
    pub unit: &'static str,
    /// What it says, and when it is null.
    pub meaning: Cow<'static, str>,
}

/// One table, which is one file.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    /// Its name: the file is `NAME.parquet`.
    pub name: &'static str,
    /// What a row is.
    pub about: &'static str,
    /// Its columns, in order.
    pub columns: Vec<Column>,
}

type Line = (&'static str, Kind, &'static str, &'static str);

const OPERATIONS: &[Line] = &[
    ("rank", Kind::Small, "", "rank"),
    (
        "step",
        Kind::Small,
        "",
        "index of the run's step in whose window it starts; null outside of steps",
    ),
    (
        "class",
        Kind::Text,
        "",
        "compute, communication, htod, dtoh, dtod, ptop (copies between GPUs: communication, too), other_copy, memset, unclassified",
    ),
    ("name", Kind::Text, "", "name of the kernel; null for copies, memsets and CUDA graphs"),
    (
        "operation",
        Kind::Text,
        "",
        "AllReduce, ...; null for what is not a collective, send or receive",
    ),
    ("communicator", Kind::Text, "", "id of the communicator; null where nothing says it"),
    ("message_bytes", Kind::Unsigned, "bytes", "payload as logged; null where nothing says it"),
    (
        "collective",
        Kind::Unsigned,
        "",
        "the row of `collectives` that it is part of; null where it is not matched",
    ),
    (
        "start_ns",
        Kind::Signed,
        "ns",
        "start on the clock of all ranks, from the earliest thing in the capture on",
    ),
    ("duration_ns", Kind::Signed, "ns", "duration on the GPU"),
    ("own_start_ns", Kind::Signed, "ns", "start in the report's own time"),
    (
        "launch_ns",
        Kind::Signed,
        "ns",
        "start of the launching call in the report's own time; null where the call is not in the capture",
    ),
    (
        "correlation",
        Kind::Signed,
        "",
        "correlation id of the launching call, unique inside of the process; null where it is not known",
    ),
    ("context", Kind::Signed, "", "CUDA context"),
    ("stream", Kind::Signed, "", "CUDA stream, unique inside of the context"),
    ("grid", Kind::Text, "", "grid of the kernel, 132x1x1; null where it is not known"),
    ("copied_bytes", Kind::Unsigned, "bytes", "size of a copy or memset; null for kernels"),
];

const STEPS: &[Line] = &[
    ("rank", Kind::Small, "", "rank"),
    ("step", Kind::Small, "", "index of the run's step; null where some rank lacks it"),
    ("name", Kind::Text, "", "text of the step range"),
    ("outlier", Kind::Flag, "", "lies far from the median of the rank's steps"),
    ("counted", Kind::Flag, "", "is in the rank's summary"),
    ("not_measured", Kind::Text, "", "why nothing was measured; null where it was"),
];

const COLLECTIVES: &[Line] = &[
    ("collective", Kind::Unsigned, "", "number of the row"),
    (
        "step",
        Kind::Small,
        "",
        "index of the run's step that launched it on every rank; null where there is none",
    ),
    ("operation", Kind::Text, "", "AllReduce, ...; Other where one kernel carries different ones"),
    ("communicator", Kind::Text, "", "id of the communicator; null where nothing says it"),
    ("ranks", Kind::Text, "", "the ranks that are matched, 0,1,2"),
    ("n_ranks", Kind::Small, "", "ranks of the communicator; null where nothing says it"),
    (
        "bytes",
        Kind::Unsigned,
        "bytes",
        "payload of each rank as logged; null where it is not known or differs",
    ),
    (
        "start_ns",
        Kind::Signed,
        "ns",
        "start of the first rank on the clock of all ranks, from the earliest thing in the capture on",
    ),
    (
        "transfer_ns",
        Kind::Signed,
        "ns",
        "time in which data moves; null where it cannot be told from waiting",
    ),
    ("not_timed", Kind::Text, "", "why there is no transfer_ns; null where there is"),
    (
        "algbw_gbs",
        Kind::Real,
        "GB/s",
        "algorithm bandwidth, decimal; null without a size, a time, or one of the ranks",
    ),
    ("busbw_gbs", Kind::Real, "GB/s", "bus bandwidth, decimal; null as algbw_gbs"),
    (
        "arrival_spread_ns",
        Kind::Signed,
        "ns",
        "last minus first start; null where clocks cannot be compared",
    ),
    (
        "leave_spread_ns",
        Kind::Signed,
        "ns",
        "last minus first end; null unless ranks leave together",
    ),
    ("first_rank", Kind::Small, "", "the rank that came first; null where that is not certain"),
    ("last_rank", Kind::Small, "", "the rank that came last; null where that is not certain"),
    ("matched_by", Kind::Text, "", "what tells that these operations are one"),
];

const WAITS: &[Line] = &[
    ("collective", Kind::Unsigned, "", "the row of `collectives`"),
    ("rank", Kind::Small, "", "the rank that waits"),
    (
        "step",
        Kind::Small,
        "",
        "index of the run's step that launched it on every rank; null where there is none",
    ),
    ("operation", Kind::Text, "", "AllReduce, ... on this rank"),
    (
        "start_ns",
        Kind::Signed,
        "ns",
        "start on the clock of all ranks, from the earliest thing in the capture on",
    ),
    ("own_start_ns", Kind::Signed, "ns", "start in the report's own time"),
    ("duration_ns", Kind::Signed, "ns", "duration of the operation on this rank"),
    ("wait_ns", Kind::Signed, "ns", "how long it waits for other ranks, from its start on"),
    ("last_rank", Kind::Small, "", "the rank that came last; null where that is not certain"),
];

const FINDINGS: &[Line] = &[
    ("position", Kind::Small, "", "place among the findings, the most important first, from 0"),
    ("id", Kind::Text, "", "what kind of finding it is, a stable name"),
    ("severity", Kind::Text, "", "how much it matters"),
    ("title", Kind::Text, "", "the finding in one sentence"),
    (
        "gain_ns",
        Kind::Signed,
        "ns",
        "what a step would be shorter by without its cause, predicted; null where nothing predicts it",
    ),
    (
        "cost_ns",
        Kind::Signed,
        "ns",
        "the exposed time of a step that it stands for at most; null where it stands for none",
    ),
    (
        "evidence",
        Kind::Text,
        "",
        "the measured facts behind it, a JSON object whose names end in their unit",
    ),
    ("advice", Kind::Text, "", "what to try; null where there is nothing"),
];

/// The columns of numbers of a step: one for each metric, `dtod_exposed_ns` for `dtod.exposed_ns`.
fn metric(metric: Metric) -> Column {
    let info = metric.info();
    let (kind, unit) = match info.unit {
        Unit::Ns => (Kind::Signed, "ns"),
        Unit::Bytes => (Kind::Signed, "bytes"),
        Unit::Count => (Kind::Signed, "count"),
        Unit::Ratio(_) => (Kind::Real, "share"),
    };
    let meaning = format!("{}; null where it was not measured", info.definition);
    Column { name: info.path.replace('.', "_").into(), kind, unit, meaning: meaning.into() }
}

/// All tables, in the order in which they are described.
pub(crate) fn all() -> [Table; 5] {
    let columns = |lines: &[Line]| -> Vec<Column> {
        let one = |&(name, kind, unit, meaning): &Line| Column {
            name: name.into(),
            kind,
            unit,
            meaning: meaning.into(),
        };
        lines.iter().map(one).collect()
    };
    let mut steps = columns(STEPS);
    steps.extend(Metric::ALL.iter().map(|&one| metric(one)));
    let table = |name, about, columns| Table { name, about, columns };
    [
        table(
            "operations",
            "One row for each operation on a GPU: kernel, copy, memset, CUDA graph.",
            columns(OPERATIONS),
        ),
        table("steps", "One row for each step of each rank, with all its numbers.", steps),
        table(
            "collectives",
            "One row for each collective or send and receive that is matched over its ranks.",
            columns(COLLECTIVES),
        ),
        table(
            "waits",
            "One row for each rank of each matched collective of which waiting is known.",
            columns(WAITS),
        ),
        table("findings", "One row for each finding.", columns(FINDINGS)),
    ]
}

/// The description of all tables: docs/parquet.md.
pub fn document() -> String {
    let mut text = String::from(
        "# Tables of a report\n\n\
`nsysnccl report REPORT... --parquet DIR` (in builds with the feature `parquet`) writes these files to a folder. Every column may hold\n\
nulls: not measured, or not said. What a number means stands in [metrics.md](metrics.md).\n\n\
```sql\n\
-- DuckDB: communication by operation and size, in the steps of the run\n\
SELECT operation, message_bytes, count(*), sum(duration_ns) / 1e6 AS ms\n\
FROM 'DIR/operations.parquet' WHERE class = 'communication' AND step IS NOT NULL GROUP BY ALL ORDER BY ms DESC;\n\
-- who waits for whom\n\
SELECT rank, last_rank, sum(wait_ns) / 1e6 AS ms FROM 'DIR/waits.parquet' GROUP BY ALL ORDER BY ms DESC;\n\
```\n\n\
```python\n\
import pandas\n\
steps = pandas.read_parquet(\"DIR/steps.parquet\")\n\
steps[steps.counted].groupby(\"rank\").step_ns.median()\n\
```\n",
    );
    for table in all() {
        text.push_str(&format!("\n## {}.parquet\n\n{}\n\n", table.name, table.about));
        text.push_str("| column | type | unit | meaning |\n|---|---|---|---|\n");
        for column in table.columns {
            let (physical, logical) = column.kind.parquet();
            let kind = if logical.is_empty() { physical } else { logical };
            text.push_str(&format!(
                "| `{}` | {kind} | {} | {} |\n",
                column.name, column.unit, column.meaning
            ));
        }
    }
    text
}
