//! The SQL of this program, one documented file each under `queries/`, included when it is compiled.

/// A query by its path below `queries/`, without the ending.
#[derive(Debug, Clone, Copy)]
pub struct Query {
    /// E.g. `read/kernels`.
    pub name: &'static str,
    /// The file's text, head comment included.
    pub sql: &'static str,
}

macro_rules! queries {
    ($($constant:ident $name:literal;)*) => {
        $(pub(crate) const $constant: Query = Query { name: $name, sql: include_str!(concat!("../../../queries/", $name, ".sql")) };)*
        /// Every query.
        pub const ALL: &[Query] = &[$($constant,)*];
    };
}

queries! {
    KERNELS "read/kernels";
    COPIES "read/copies";
    MEMSETS "read/memsets";
    GRAPHS "read/graphs";
    LAUNCHES "read/launches";
    HOST_CALLS "read/host_calls";
    EVENT_RECORDS "read/event_records";
    SYNCHRONIZATIONS "read/synchronizations";
    RANGES "read/ranges";
    PAYLOAD "read/payload";
    DOMAINS "read/domains";
    PAYLOAD_ENTRIES "read/payload_entries";
    PAYLOAD_ENUMS "read/payload_enums";
    STRINGS "read/strings";
    STRING "read/string";
    RANGE_TEXT_IDS "read/range_text_ids";
    MPI_RANKS "read/mpi_ranks";
    GPU_METRIC_NAMES "read/gpu_metric_names";
    GPU_METRICS "read/gpu_metrics";
    EXPORT "probe/export";
    CAPTURE "probe/capture";
    SYSTEM "probe/system";
    SESSION "probe/session";
    GPUS "probe/gpus";
    GPU_CLOCKS "probe/gpu_clocks";
    DEVICES "probe/devices";
    DIAGNOSTICS "probe/diagnostics";
    NOTES "probe/notes";
    API_CALLS "probe/api_calls";
    GPU_CALLS "probe/gpu_calls";
    DURATION "probe/duration";
}
