//! An inspection as comma-separated values: one row an operation, or a row for each pair of jobs with `--against`.

use std::borrow::Cow;
use std::io::{self, Write};

use crate::inspect::{Against, Inspected, OperationRow};
use crate::render::csv::{field, flag, real, record, whole};

const HEAD: [&str; 19] = [
    "comm_id",
    "name",
    "class",
    "n_ranks",
    "nnodes",
    "op",
    "sn",
    "bytes",
    "p2p_rank",
    "ranks",
    "complete",
    "exec_time_us_min",
    "exec_time_us_max",
    "busbw_gbs",
    "logged_busbw_gbs_mean",
    "wait_us_max",
    "last_rank",
    "written_first_us",
    "written_last_us",
];

const AGAINST: [&str; 17] = [
    "communicator",
    "class",
    "op",
    "bytes",
    "basis",
    "count",
    "time_us",
    "busbw_gbs",
    "busbw_p5_gbs",
    "busbw_p95_gbs",
    "against_count",
    "against_time_us",
    "against_busbw_gbs",
    "change",
    "verdict",
    "wait_us",
    "against_wait_us",
];

/// Writes an inspection.
pub(super) fn write(inspected: &Inspected, out: &mut dyn Write) -> io::Result<()> {
    if let Some(against) = &inspected.view.against {
        return pairs(against, out);
    }
    record(out, HEAD.map(Cow::Borrowed))?;
    inspected.operation_rows().try_for_each(|row| record(out, fields(&row)))
}

fn fields<'a>(row: &OperationRow<'a>) -> [Cow<'a, str>; HEAD.len()] {
    [
        field(row.comm_id),
        field(row.comm_name.unwrap_or_default()),
        Cow::Borrowed(row.class),
        whole(Some(row.n_ranks)),
        whole(row.nnodes),
        Cow::Borrowed(row.op),
        whole(Some(row.sn)),
        whole(row.bytes),
        whole(row.p2p_rank),
        whole(Some(row.ranks)),
        flag(row.complete),
        real(row.shortest_us),
        real(row.longest_us),
        real(row.busbw_gbs),
        real(row.logged_busbw_gbs),
        real(row.longest_wait_us),
        whole(row.last_rank),
        whole(row.written_us.map(|w| w.0)),
        whole(row.written_us.map(|w| w.1)),
    ]
}

fn pairs(against: &Against, out: &mut dyn Write) -> io::Result<()> {
    record(out, AGAINST.map(Cow::Borrowed))?;
    for row in &against.rows {
        let fields = [
            field(&row.communicator),
            field(&row.class),
            field(row.op.label()),
            whole(row.bytes),
            field(&row.basis),
            whole(Some(row.here.count)),
            real(row.here.time_us),
            real(row.here.busbw_gbs),
            real(row.here.busbw_p5_gbs),
            real(row.here.busbw_p95_gbs),
            whole(Some(row.there.count)),
            real(row.there.time_us),
            real(row.there.busbw_gbs),
            real(row.change),
            Cow::Borrowed(row.verdict.label()),
            real(row.here.wait_us),
            real(row.there.wait_us),
        ];
        record(out, fields)?;
    }
    Ok(())
}
