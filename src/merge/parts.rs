//! What records a kernel should have, and the words for why it has none.

use super::collect::Kind;
use super::place::{Part, Size};
use crate::collectives::events::Event;
use crate::model::record::Origin;
use crate::model::{CommOp, NameId};

/// Why a kernel has no record.
#[allow(missing_docs)]
pub(crate) mod why {
    pub(crate) const COPIES: &str =
        "copies of a copy-engine collective, which Inspector does not see";
    pub(crate) const NOT_LOGGED: &str = "not an operation that Inspector records";
    pub(crate) const SELF: &str = "sends to the rank itself only, which are not logged";
    pub(crate) const NO_COMMUNICATOR: &str = "the log has no record of its communicator";
    pub(crate) const NO_OPERATION: &str =
        "the log has no record of its operation on its communicator";
    pub(crate) const TOO_SMALL: &str =
        "below the minimum size of Inspector (NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES)";
    pub(crate) const BEFORE: &str = "before the first record of its communicator and operation";
    pub(crate) const AFTER: &str = "after the last record of its communicator and operation";
    pub(crate) const LOST: &str = "the record with its number is missing (lost)";
    pub(crate) const MISFIT: &str = "the record with its number has another size or time";
    pub(crate) const UNSURE: &str = "several records fit equally well";
    pub(crate) const NOWHERE: &str = "no record fits in size, time and duration";
}

/// What a kernel says about the size of its records: of several operations only the sum is known.
pub(crate) fn size(event: &Event) -> Size {
    let of = if event.members > 1 { Size::AtMost } else { Size::Exactly };
    event.bytes.map_or(Size::Unknown, of)
}

/// What records a kernel has, or why it has none. `origin` is its place in its communicator, if that is known.
pub(crate) fn parts(
    event: &Event,
    origin: Option<&Origin>,
) -> Result<(Kind, Vec<Part>), &'static str> {
    if event.name == NameId::NONE {
        return Err(why::COPIES);
    }
    let part =
        |op, count: usize, size| Part { op, count: u32::try_from(count).unwrap_or(u32::MAX), size };
    let size = size(event);
    match event.op {
        CommOp::Other => Err(why::NOT_LOGGED),
        CommOp::SendRecv if event.sends == 0 && event.receives == 0 => Ok((Kind::P2p, Vec::new())),
        // What a rank sends to itself has a number, but no record: it is among the parts, and its record is never there.
        CommOp::SendRecv => {
            let parts = [
                part(CommOp::Send, event.sends as usize, size),
                part(CommOp::Recv, event.receives as usize, size),
            ];
            Ok((Kind::P2p, parts.into_iter().filter(|part| part.count > 0).collect()))
        }
        CommOp::AllToAll => {
            let n = origin.map_or(0, |o| o.n_ranks as usize);
            let parts = [part(CommOp::Send, n, size), part(CommOp::Recv, n, size)];
            Ok((Kind::P2p, parts.into_iter().filter(|part| part.count > 0).collect()))
        }
        // How many records the root has differs from the others, and who it is is not known here.
        CommOp::Gather | CommOp::Scatter => Ok((Kind::P2p, Vec::new())),
        op => Ok((Kind::Coll(op), vec![part(op, event.members.max(1), size)])),
    }
}
