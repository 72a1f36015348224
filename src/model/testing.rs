//! Operations for tests, as short rows.

use super::op::NO_CALL;
use super::{Class, NameId, Ns, Ops};

/// Operations from rows of (start, end, class, stream, launch), all launched by thread 1.
pub(crate) fn ops(rows: &[(Ns, Ns, Class, u32, Ns)]) -> Ops {
    let mut ops = Ops::default();
    for &(start, end, class, stream, launch) in rows {
        ops.start.push(start);
        ops.end.push(end);
        ops.class.push(class);
        ops.name.push(NameId::NONE);
        ops.stream.push(stream);
        ops.bytes.push(0);
        ops.launch.push(launch);
        ops.thread.push(1);
        ops.call.push(NO_CALL);
    }
    ops
}
