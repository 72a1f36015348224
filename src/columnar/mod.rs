//! Tables in Parquet files, for DuckDB, pandas and others. Every column may hold nulls: not measured, or not said.

#[cfg(feature = "parquet")]
pub(crate) mod file;

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// UTF-8.
    Text,
    /// 64 bits without a sign.
    Unsigned,
    /// 64 bits with a sign.
    Signed,
    /// 32 bits with a sign.
    Small,
    /// Floating point of 64 bits.
    Real,
    /// True or false.
    Flag,
    /// Microseconds since 1970, UTC.
    #[cfg_attr(
        not(feature = "parquet"),
        expect(dead_code, reason = "only records have such a column")
    )]
    Time,
}

impl Kind {
    /// The type in Parquet's own notation: physical, then logical.
    pub(crate) fn parquet(self) -> (&'static str, &'static str) {
        match self {
            Kind::Text => ("BYTE_ARRAY", "STRING"),
            Kind::Unsigned => ("INT64", "INTEGER(64,false)"),
            Kind::Signed => ("INT64", ""),
            Kind::Small => ("INT32", ""),
            Kind::Real => ("DOUBLE", ""),
            Kind::Flag => ("BOOLEAN", ""),
            Kind::Time => ("INT64", "TIMESTAMP(MICROS,true)"),
        }
    }
}
