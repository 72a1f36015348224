//! One table while it is written, some rows at a time.

use std::fs::File;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;

use super::Kind;

/// Rows that are held in memory before they are written as one row group.
const GROUP: usize = 1 << 16;

type Result<T> = std::result::Result<T, ParquetError>;

/// One value of a row.
#[derive(Debug)]
pub(crate) enum Value {
    /// Of a text.
    Text(Option<ByteArray>),
    /// Of a number of 64 bits, or a time. What has no sign keeps its bits.
    Long(Option<i64>),
    /// Of a number of 32 bits.
    Small(Option<i32>),
    /// Of a floating-point number.
    Real(Option<f64>),
    /// Of a flag.
    Flag(Option<bool>),
}

impl Value {
    /// A text that is there.
    pub(crate) fn text(text: &str) -> Value {
        Value::Text(Some(text.into()))
    }

    /// A number without a sign.
    pub(crate) fn unsigned(number: Option<u64>) -> Value {
        Value::Long(number.map(u64::cast_signed))
    }

    /// A small number without a sign, null where it is too large.
    pub(crate) fn small(number: Option<u32>) -> Value {
        Value::Small(number.and_then(|number| i32::try_from(number).ok()))
    }
}

/// Values of one column of the row group, without the nulls, and for each row whether it has one.
#[derive(Debug, Default)]
struct Column {
    text: Vec<ByteArray>,
    long: Vec<i64>,
    small: Vec<i32>,
    real: Vec<f64>,
    flag: Vec<bool>,
    defined: Vec<i16>,
}

impl Column {
    fn push(&mut self, value: Value) {
        let defined = match value {
            Value::Text(v) => keep(&mut self.text, v),
            Value::Long(v) => keep(&mut self.long, v),
            Value::Small(v) => keep(&mut self.small, v),
            Value::Real(v) => keep(&mut self.real, v),
            Value::Flag(v) => keep(&mut self.flag, v),
        };
        self.defined.push(defined);
    }
}

fn keep<T>(list: &mut Vec<T>, value: Option<T>) -> i16 {
    let defined = i16::from(value.is_some());
    list.extend(value);
    defined
}

/// A table while it is written.
pub(crate) struct TableFile {
    out: SerializedFileWriter<File>,
    kinds: Vec<Kind>,
    columns: Vec<Column>,
    rows: usize,
    written: u64,
    failure: Option<ParquetError>,
}

impl TableFile {
    /// Begins a table called `name` with these columns.
    ///
    /// # Errors
    /// The file cannot be written to.
    pub(crate) fn new<'c>(
        out: File,
        name: &str,
        columns: impl Iterator<Item = (&'c str, Kind)>,
    ) -> Result<TableFile> {
        let mut kinds = Vec::new();
        let mut fields = String::new();
        for (name, kind) in columns {
            let (physical, logical) = kind.parquet();
            let logical = if logical.is_empty() { String::new() } else { format!(" ({logical})") };
            fields.push_str(&format!("  OPTIONAL {physical} {name}{logical};\n"));
            kinds.push(kind);
        }
        let schema = Arc::new(parse_message_type(&format!("message {name} {{\n{fields}}}\n"))?);
        let properties =
            Arc::new(WriterProperties::builder().set_compression(Compression::SNAPPY).build());
        let out = SerializedFileWriter::new(out, schema, properties)?;
        let columns = kinds.iter().map(|_| Column::default()).collect();
        Ok(TableFile { out, kinds, columns, rows: 0, written: 0, failure: None })
    }

    /// Adds a row, with a value for each column in order. A failure shows at the end.
    pub(crate) fn push(&mut self, row: impl IntoIterator<Item = Value>) {
        if self.failure.is_some() {
            return;
        }
        self.columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        self.rows += 1;
        if self.rows == GROUP {
            self.failure = self.flush().err();
        }
    }

    /// Ends the table; returns its number of rows.
    ///
    /// # Errors
    /// The file could not be written to.
    pub(crate) fn finish(mut self) -> Result<u64> {
        self.failure.take().map_or_else(|| self.flush(), Err)?;
        let written = self.written;
        self.out.close()?;
        Ok(written)
    }

    fn flush(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        fn write<T: DataType>(
            out: &mut SerializedColumnWriter<'_>,
            values: &[T::T],
            defined: &[i16],
        ) -> Result<()> {
            out.typed::<T>().write_batch(values, Some(defined), None).map(|_| ())
        }
        let mut group = self.out.next_row_group()?;
        for (column, kind) in self.columns.iter().zip(&self.kinds) {
            let Some(mut out) = group.next_column()? else { break };
            match kind {
                Kind::Text => write::<ByteArrayType>(&mut out, &column.text, &column.defined),
                Kind::Unsigned | Kind::Signed | Kind::Time => {
                    write::<Int64Type>(&mut out, &column.long, &column.defined)
                }
                Kind::Small => write::<Int32Type>(&mut out, &column.small, &column.defined),
                Kind::Real => write::<DoubleType>(&mut out, &column.real, &column.defined),
                Kind::Flag => write::<BoolType>(&mut out, &column.flag, &column.defined),
            }?;
            out.close()?;
        }
        group.close()?;
        self.written += self.rows as u64;
        self.rows = 0;
        self.columns.iter_mut().for_each(|column| *column = Column::default());
        Ok(())
    }
}
