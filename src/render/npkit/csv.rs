//! A dump as comma-separated values: one row for each collective, rank, channel and primitive.

use std::borrow::Cow;
use std::io::{self, Write};

use crate::npkit::view::Npkit;
use crate::render::csv::{field, record, whole};

const HEAD: [&str; 8] =
    ["collective", "rank", "channel", "start_ns", "end_ns", "wait_ns", "primitive", "ns"];

/// Writes a dump.
pub(super) fn write(view: &Npkit, out: &mut dyn Write) -> io::Result<()> {
    record(out, HEAD.map(Cow::Borrowed))?;
    for collective in &view.collectives {
        for (rank, of_rank) in &collective.ranks {
            for lane in &of_rank.phases.lanes {
                for (primitive, ns) in &lane.phases {
                    let fields = [
                        whole(Some(collective.index)),
                        whole(Some(*rank)),
                        whole(Some(lane.channel)),
                        whole(Some(lane.start_ns)),
                        whole(Some(lane.end_ns)),
                        whole(lane.wait_ns),
                        field(primitive),
                        whole(Some(*ns)),
                    ];
                    record(out, fields)?;
                }
            }
        }
    }
    Ok(())
}
