//! What a capture holds, free of SQL, files and command lines.

pub mod counter;
pub mod host;
pub mod input;
pub mod metric;
pub mod names;
pub mod nccl_log;
pub mod op;
pub mod ranges;
pub mod record;
pub mod span;
#[cfg(test)]
pub(crate) mod testing;
pub mod topology;
pub mod trace;
pub mod union;
pub(crate) mod values;

pub use metric::{Metric, Num, Values};
pub use names::{NameId, Names};
pub use op::{Class, Ops};
pub use ranges::{KindId, Range, Texts, UserRanges};
pub use span::{Ns, Span};
pub use trace::{CallKind, CommOp, NcclCall, RankSource, RankTrace};
pub use union::Union;
