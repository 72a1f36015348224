//! An inspection as comma-separated values: one row an operation, or a row for each pair of jobs with `--against`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::inspect::{Against, Communicator, Inspection, Operation};
use crate::model::CommOp;
use crate::model::metric::Num;
use crate::model::record::{busbw_gbs, comm_class};
use crate::render::csv::{field, number, record};

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

const AGAINST: [&str; 15] = [
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
];

/// Prints an inspection.
pub(super) fn print(view: &Inspection) -> String {
    let mut out = String::new();
    if let Some(against) = &view.against {
        pairs(&mut out, against);
        return out;
    }
    record(&mut out, HEAD.into_iter().map(Cow::Borrowed));
    let comms: BTreeMap<&str, &Communicator> =
        view.communicators.iter().map(|c| (c.comm_id.as_str(), c)).collect();
    for operation in view.seen.iter() {
        record(
            &mut out,
            row(comms.get(operation.key.comm_id.as_str()).copied(), &operation).into_iter(),
        );
    }
    out
}

fn real(value: Option<f64>) -> Cow<'static, str> {
    Cow::Owned(value.map_or_else(String::new, |v| number(Num::Real(v))))
}

fn integer<T: ToString>(value: Option<T>) -> Cow<'static, str> {
    Cow::Owned(value.map_or_else(String::new, |v| v.to_string()))
}

fn row<'a>(comm: Option<&'a Communicator>, operation: &Operation<'a>) -> Vec<Cow<'a, str>> {
    let key = operation.key;
    let nnodes = comm.and_then(|c| c.nnodes);
    let (shortest, longest) = (operation.shortest_us(), operation.longest_us());
    let complete = operation.is_complete();
    let waits = complete && key.op.is_some_and(CommOp::leaves_together) && key.n_ranks > 1;
    let last = operation.records.iter().find(|r| Some(r.exec_us) == shortest).map(|r| r.rank);
    let busbw = key
        .op
        .zip(operation.bytes)
        .zip(shortest)
        .map(|((op, bytes), us)| busbw_gbs(op, bytes, key.n_ranks, us));
    let written = operation.written_us();
    vec![
        field(&key.comm_id),
        field(comm.and_then(|c| c.name.as_deref()).unwrap_or_default()),
        Cow::Borrowed(comm_class(key.n_ranks, nnodes)),
        integer(Some(key.n_ranks)),
        integer(nnodes),
        Cow::Borrowed(key.op.map_or("Invalid", CommOp::label)),
        integer(Some(operation.sn)),
        integer(operation.bytes),
        integer(operation.records.first().filter(|_| key.p2p).map(|r| r.rank)),
        integer(Some(operation.records.len())),
        Cow::Borrowed(if complete { "true" } else { "false" }),
        real(shortest),
        real(longest),
        real(busbw),
        real(operation.logged_busbw_mean()),
        real(longest.zip(shortest).filter(|_| waits).map(|(l, s)| l - s)),
        integer(last.filter(|_| waits)),
        integer(written.map(|w| w.0)),
        integer(written.map(|w| w.1)),
    ]
}

fn pairs(out: &mut String, against: &Against) {
    record(out, AGAINST.into_iter().map(Cow::Borrowed));
    for row in &against.rows {
        let fields = [
            field(&row.communicator),
            field(&row.class),
            field(&row.op),
            integer(row.bytes),
            field(&row.basis),
            integer(Some(row.here.count)),
            real(row.here.time_us),
            real(row.here.busbw_gbs),
            real(row.here.busbw_p5_gbs),
            real(row.here.busbw_p95_gbs),
            integer(Some(row.there.count)),
            real(row.there.time_us),
            real(row.there.busbw_gbs),
            real(row.change),
            Cow::Borrowed(row.verdict.label()),
        ];
        record(out, fields.into_iter());
    }
}
