//! What the program, its tests and benchmarks take from inside. It is not an interface and changes at any time.
#![allow(missing_docs)]

pub mod catalogue {
    pub use crate::catalogue::{
        COST_OF_STEP, Command, Entry, Evidence, Finding, Id, Said, Severity, Unit, Weight,
    };
}
pub mod classify {
    pub use crate::classify::Classifier;
}
pub mod cli {
    pub use crate::cli::*;
    pub mod output {
        pub use crate::cli::output::note;
    }
}
pub mod collectives {
    pub mod analyse {
        pub use crate::collectives::analyse::*;
    }
    pub mod events {
        pub use crate::collectives::events::*;
    }
    pub mod matches {
        pub use crate::collectives::matches::Method;
    }
    pub mod groups {
        pub use crate::collectives::groups::*;
    }
    pub mod pairing {
        pub use crate::collectives::pairing::{Pairing, RankSteps};
    }
}
pub mod counters {
    pub mod rows {
        pub use crate::counters::rows::Row;
    }
}
pub mod doctor {
    pub use crate::doctor::*;
}
pub mod ingest {
    pub mod inspector {
        pub use crate::ingest::inspector::*;
    }
    pub mod nccl_log {
        pub use crate::ingest::nccl_log::*;
    }
    pub mod nsys {
        pub use crate::ingest::nsys::*;
        pub mod db {
            pub use crate::ingest::nsys::db::{Db, Present, TABLES, columns, lay_views};
        }
        pub mod queries {
            pub use crate::ingest::nsys::queries::*;
        }
        pub mod schema {
            pub use crate::ingest::nsys::schema::{LATER, OLDEST};
        }
    }
    pub mod topo {
        pub use crate::ingest::topo::*;
    }
}
pub mod inspect {
    pub use crate::inspect::*;
}
pub mod merge {
    pub mod view {
        pub use crate::merge::view::*;
    }
}
pub mod model {
    pub use crate::model::{
        CallKind, Class, CommOp, Metric, Names, NcclCall, Ops, RankSource, RankTrace, Span,
    };
    pub mod metric {
        pub use crate::model::metric::{Metric, PARTS, Summary, Values};
    }
    pub mod record {
        pub use crate::model::record::{Drops, LogFile, Origin, Record, Sink};
    }
}
pub mod npkit {
    pub use crate::npkit::read;
    pub mod dump {
        pub use crate::npkit::dump::Dump;
    }
    pub mod files {
        pub use crate::npkit::files::*;
    }
    pub mod ids {
        pub use crate::npkit::ids::{Ids, Library};
    }
    pub mod lane {
        pub use crate::npkit::lane::*;
    }
    pub mod lanes {
        pub use crate::npkit::lanes::lanes;
    }
    pub mod proxy {
        pub use crate::npkit::proxy::*;
    }
    pub mod record {
        pub use crate::npkit::record::*;
    }
    pub mod trace {
        pub use crate::npkit::trace::*;
    }
    pub mod view {
        pub use crate::npkit::view::*;
    }
}
pub mod places {
    pub mod view {
        pub use crate::places::view::Place;
    }
}
pub mod render {
    pub use crate::render::*;
    pub mod view {
        pub use crate::render::view::WithTimeline;
    }
}
pub mod report {
    pub use crate::report::*;
    pub mod headline {
        pub use crate::report::headline::Headline;
    }
    pub mod timeline {
        pub use crate::report::timeline::{Item, RankLanes, Timeline, What};
    }
}
pub mod reporting {
    pub use crate::reporting::*;
}
pub mod run {
    pub use crate::run::{Options, Run};
}
pub mod stats {
    pub use crate::stats::*;
}
pub mod steps {
    pub use crate::steps::{Step, StepChoice, StepSource, WindowKind};
    pub mod select {
        pub use crate::steps::select::DEFAULT_PATTERN;
    }
}
pub mod tables {
    pub use crate::tables::document;
}
pub mod text {
    pub use crate::text::printable;
}
pub mod trace {
    pub use crate::trace::*;
}
pub mod transport {
    pub use crate::transport::Facts;
    pub mod view {
        pub use crate::transport::view::{Communicator, LogFile, Pair, Transport};
    }
}
pub mod warning {
    pub use crate::warning::Warning;
}
