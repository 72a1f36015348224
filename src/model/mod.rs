//! What a capture holds, free of SQL, files and command lines.

pub mod host;
pub mod metric;
pub mod names;
pub mod nccl_log;
pub mod op;
pub mod record;
pub mod span;
pub mod topology;
pub mod trace;

pub use metric::{Metric, Num, Values};
pub use names::{NameId, Names};
pub use op::{Class, Ops};
pub use span::{Ns, Span};
pub use trace::{CallKind, CommOp, NcclCall, Range, RankSource, RankTrace};
