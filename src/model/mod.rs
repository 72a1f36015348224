//! What a capture holds, free of SQL, files and command lines.

pub(crate) mod counter;
pub(crate) mod host;
pub(crate) mod input;
pub(crate) mod metric;
pub(crate) mod names;
pub(crate) mod nccl_log;
pub(crate) mod op;
pub(crate) mod ranges;
pub(crate) mod record;
pub(crate) mod span;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod topology;
pub(crate) mod trace;
pub(crate) mod union;
pub(crate) mod values;

pub use metric::Metric;
pub(crate) use metric::{Num, Values};
pub(crate) use names::NameId;
pub use names::Names;
pub use op::{Class, Ops};
pub(crate) use ranges::{KindId, Range, Texts, UserRanges};
pub(crate) use span::Ns;
pub use span::Span;
pub(crate) use trace::RANK_VARIABLES;
pub use trace::{CallKind, CommOp, NcclCall, RankSource, RankTrace};
pub(crate) use union::Union;
