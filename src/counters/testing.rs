//! A rank by hand.

use super::classes::{RankWork, StepWindow};
use crate::model::{Class, NameId, Ns, Ops, Span};
use crate::timeline::SpanSet;

pub(crate) fn ops(rows: &[(Ns, Ns, Class, u64)]) -> Ops {
    let mut ops = Ops::default();
    for &(start, end, class, bytes) in rows {
        ops.start.push(start);
        ops.end.push(end);
        ops.class.push(class);
        ops.bytes.push(bytes);
        ops.name.push(NameId::NONE);
        ops.stream.push(0);
        ops.launch.push(crate::model::op::NO_LAUNCH);
        ops.call.push(crate::model::op::NO_CALL);
    }
    ops
}

pub(crate) fn work<'a>(ops: &'a Ops, waits: &[(Ns, Ns)], steps: &[(Ns, Ns)]) -> RankWork<'a> {
    let step = |(index, &(start, end)): (usize, &(Ns, Ns))| StepWindow {
        index,
        counted: true,
        window: Some(Span::new(start, end)),
    };
    RankWork {
        rank: 0,
        report: "r.sqlite",
        hostname: Some("node0"),
        gpu_index: Some(0),
        gpu_uuid: Some("ab".to_owned()),
        gpu: Some("NVIDIA H200"),
        epoch_ns: Some(1_000),
        ops,
        waits: Some(SpanSet::from_unsorted(waits.iter().map(|&(a, b)| Span::new(a, b)).collect())),
        steps: steps.iter().enumerate().map(step).collect(),
        messages: Vec::new(),
    }
}
