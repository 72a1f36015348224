//! Records as Parquet files, one for each log, for DuckDB and other tools.
//!
//! Every column is optional: null means that the log does not say. The columns are those of [`COLUMNS`], in that order.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::data_type::ByteArray;

use crate::columnar::Kind;
use crate::columnar::file::{TableFile, Value};
use crate::ingest::inspector;
use crate::inspect::Filter;
use crate::model::CommOp;
use crate::model::record::{Drops, Origin, Record, Sink, comm_class};
use crate::stage::Stage;
use crate::{Error, Result};

/// Name, type and meaning of every column.
pub(crate) const COLUMNS: [(&str, Kind, &str); 26] = [
    ("file", Kind::Text, "path of the log"),
    ("comm_id", Kind::Text, "communicator hash as logged, 0x and at most 14 hex digits"),
    ("comm_name", Kind::Text, "name of the communicator; null if absent or unknown"),
    (
        "class",
        Kind::Text,
        "single-rank, nvlink-only, hca-only, mixed: guessed from ranks and nodes",
    ),
    ("rank", Kind::Small, "rank in the communicator"),
    ("n_ranks", Kind::Small, "ranks of the communicator"),
    ("nnodes", Kind::Small, "nodes of the communicator"),
    ("hostname", Kind::Text, "host that wrote the log"),
    ("pid", Kind::Unsigned, "process id"),
    ("p2p", Kind::Flag, "true for sends and receives"),
    ("op", Kind::Text, "AllReduce, ...; Invalid if unknown"),
    ("sn", Kind::Unsigned, "coll_sn (equal on all ranks) or p2p_sn (of this rank alone)"),
    ("peer", Kind::Small, "peer of a send or receive, as rank in the communicator"),
    (
        "bytes",
        Kind::Unsigned,
        "message size, corrected; of one rank for AllGather and ReduceScatter",
    ),
    ("size_corrected", Kind::Flag, "true if the log gives 2^64 - bytes"),
    ("exec_time_us", Kind::Real, "execution time in microseconds, waiting included; null if 0"),
    ("timing_source", Kind::Text, "kernel_gpu, kernel_cpu, collective_cpu, ..."),
    ("algbw_gbs", Kind::Real, "S / time, recomputed, decimal GB/s"),
    ("busbw_gbs", Kind::Real, "algbw times the operation's factor, recomputed, decimal GB/s"),
    ("logged_algbw_gbs", Kind::Real, "as logged"),
    ("logged_busbw_gbs", Kind::Real, "as logged"),
    ("written", Kind::Time, "when the record was written (not when the operation ended)"),
    ("started", Kind::Time, "when the host enqueued the operation (verbose logs)"),
    ("channels", Kind::Small, "channels with stamps (verbose logs)"),
    ("algo", Kind::Text, "algorithm (since v4.2)"),
    ("proto", Kind::Text, "protocol (since v4.2)"),
];

/// Receives the records of one log and writes them.
struct Writer<'a> {
    table: TableFile,
    filter: &'a Filter,
    file: ByteArray,
    left_out: &'a dyn Fn(usize) -> bool,
    origins: Vec<Option<OriginText>>,
}

/// An origin with its texts ready to be written many times.
struct OriginText {
    origin: Origin,
    comm_id: ByteArray,
    comm_name: Option<ByteArray>,
    class: ByteArray,
    hostname: ByteArray,
}

impl Sink for Writer<'_> {
    fn origin(&mut self, origin: &Origin) {
        let wanted = self.filter.wants_origin(origin) && !(self.left_out)(self.origins.len());
        self.origins.push(wanted.then(|| OriginText {
            comm_id: origin.comm_id.as_str().into(),
            comm_name: origin.comm_name.as_deref().map(Into::into),
            class: comm_class(origin.n_ranks, origin.nnodes).into(),
            hostname: origin.hostname.as_str().into(),
            origin: origin.clone(),
        }));
    }

    fn record(&mut self, record: &Record<'_>) {
        if !self.filter.wants(record) {
            return;
        }
        let Some(Some(who)) = self.origins.get(record.origin) else { return };
        let text = Value::text;
        // Numbers above the signed range keep their bits: the column is declared as unsigned.
        let long = |v: Option<u64>| Value::Long(v.map(u64::cast_signed));
        let small = |v: Option<u32>| Value::Small(v.map(u32::cast_signed));
        let n = who.origin.n_ranks;
        let stamps = record.stamps.as_ref();
        let channels = stamps.map(|s| {
            s.channels.iter().filter(|c| c.start_us.is_some() || c.stop_us.is_some()).count()
        });
        let row = [
            Value::Text(Some(self.file.clone())),
            Value::Text(Some(who.comm_id.clone())),
            Value::Text(who.comm_name.clone()),
            Value::Text(Some(who.class.clone())),
            small(Some(who.origin.rank)),
            small(Some(n)),
            small(who.origin.nnodes),
            Value::Text(Some(who.hostname.clone())),
            long(who.origin.pid.map(u64::from)),
            Value::Flag(Some(record.p2p)),
            text(record.op.map_or("Invalid", CommOp::label)),
            long(record.sn),
            small(record.peer),
            long(record.bytes),
            Value::Flag(Some(record.size_corrected)),
            Value::Real(record.exec_us),
            text(record.timing.label()),
            Value::Real(record.algbw_gbs(n)),
            Value::Real(record.busbw_gbs(n)),
            Value::Real(record.logged_algbw),
            Value::Real(record.logged_busbw),
            Value::Long(record.written_us),
            Value::Long(stamps.and_then(|s| s.start_us)),
            Value::Small(channels.and_then(|n| i32::try_from(n).ok())),
            Value::Text(record.algo.map(Into::into)),
            Value::Text(record.proto.map(Into::into)),
        ];
        self.table.push(row);
    }

    fn drops(&mut self, _: usize, _: Drops) {}
}

/// Writes the chosen records of each log to a file of its own in `folder`, which is made if it is not there; returns the number of rows.
/// Origins (file, index in it) in `left_out` stand in another file too.
///
/// # Errors
/// `folder` holds other Parquet files, with which these would be mixed up; a file that cannot be read or written.
pub(crate) fn write(
    logs: &[PathBuf],
    filter: &Filter,
    left_out: &BTreeSet<(usize, usize)>,
    folder: &Path,
) -> Result<u64> {
    let failed = |path: &Path, e: &dyn std::fmt::Display| {
        Error::output(path, format!("cannot be written: {e}"))
            .with_hint("check that the folder may be written to")
    };
    std::fs::create_dir_all(folder).map_err(|e| failed(folder, &e))?;
    let names: Vec<String> = logs.iter().enumerate().map(|(i, log)| name(i, log)).collect();
    let present = std::fs::read_dir(folder)
        .map_err(|e| failed(folder, &e))?
        .flatten()
        .map(|entry| entry.file_name());
    let other = present
        .filter_map(|n| n.into_string().ok())
        .find(|n| n.ends_with(".parquet") && !names.contains(n));
    if let Some(other) = other {
        return Err(Error::usage(format!(
            "--parquet: {} holds {other} of another run",
            folder.display()
        ))
        .with_hint("name an empty folder"));
    }
    let mut rows = 0;
    let mut stage = Stage::default();
    for (file, (log, name)) in logs.iter().zip(&names).enumerate() {
        let path = folder.join(name);
        let out = stage.create(&path)?;
        let is_left_out = |origin| left_out.contains(&(file, origin));
        rows += write_one(log, filter, &is_left_out, (out, &path), &failed)?;
    }
    stage.place().map(|()| rows)
}

fn write_one(
    log: &Path,
    filter: &Filter,
    left_out: &dyn Fn(usize) -> bool,
    (out, path): (File, &Path),
    failed: &dyn Fn(&Path, &dyn std::fmt::Display) -> Error,
) -> Result<u64> {
    let columns = COLUMNS.iter().map(|(name, kind, _)| (*name, *kind));
    let table = TableFile::new(out, "inspector_records", columns).map_err(|e| failed(path, &e))?;
    let file = log.to_string_lossy().as_ref().into();
    let mut writer = Writer { table, filter, file, left_out, origins: Vec::new() };
    inspector::read_file(log, &mut writer)?;
    writer.table.finish().map_err(|e| failed(path, &e))
}

/// A file name that sorts like the logs and cannot lead anywhere else.
fn name(index: usize, log: &Path) -> String {
    let stem = log.file_name().unwrap_or_default().to_string_lossy();
    let safe: String = stem
        .chars()
        .take(80)
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' })
        .collect();
    format!("{index:05}-{safe}.parquet")
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    const LINES: &str = concat!(
        r#"{"header":{"id":"0xab","comm_name":"tp","rank":1,"n_ranks":4,"nnodes":1},"metadata":{"dump_timestamp_us":1796003000000000,"hostname":"h","pid":7},"coll_perf":{"coll":"AllReduce","coll_sn":5,"coll_msg_size_bytes":18446744073709547520,"coll_exec_time_us":4,"coll_timing_source":"kernel_gpu","coll_algobw_gbs":1.5,"coll_busbw_gbs":2.5}}"#,
        "\n",
        r#"{"header":{"id":"0xcd","rank":0,"n_ranks":2,"nnodes":2},"metadata":{"dump_timestamp_us":1796003000001000,"hostname":"h","pid":7},"p2p_perf":{"p2p":"Send","p2p_sn":9,"p2p_peer":1,"p2p_msg_size_bytes":64,"p2p_exec_time_us":0}}"#,
        "\n"
    );

    fn fields(path: &Path) -> Vec<Vec<(String, Field)>> {
        let reader = SerializedFileReader::new(File::open(path).expect("a file")).expect("Parquet");
        let rows = reader.get_row_iter(None).expect("rows");
        rows.map(|row| {
            row.expect("a row").get_column_iter().map(|(n, f)| (n.clone(), f.clone())).collect()
        })
        .collect()
    }

    #[test]
    fn every_column_is_read_back() {
        let dir = tempfile::tempdir().expect("a folder");
        let (log, out) = (dir.path().join("a b.log"), dir.path().join("out"));
        std::fs::write(&log, LINES).expect("a log");
        assert_eq!(
            write(std::slice::from_ref(&log), &Filter::default(), &BTreeSet::new(), &out)
                .expect("written"),
            2
        );
        let rows = fields(&out.join("00000-a_b.log.parquet"));
        let names: Vec<&str> = rows[0].iter().map(|(n, _)| n.as_str()).collect();
        assert_eq!(names, COLUMNS.map(|(name, _, _)| name));
        let at = |row: usize, name: &str| {
            rows[row].iter().find(|(n, _)| n == name).map(|(_, f)| f.clone()).expect(name)
        };
        let text = |s: &str| Field::Str(s.into());
        assert_eq!(
            (at(0, "comm_id"), at(0, "comm_name"), at(0, "class"), at(0, "op")),
            (text("0xab"), text("tp"), text("nvlink-only"), text("AllReduce"))
        );
        assert_eq!(
            (at(0, "bytes"), at(0, "size_corrected"), at(0, "sn")),
            (Field::ULong(4096), Field::Bool(true), Field::ULong(5))
        );
        // 4096 B in 4 us; the factor of an AllReduce on four ranks is 1.5.
        assert_eq!(
            (at(0, "exec_time_us"), at(0, "algbw_gbs"), at(0, "busbw_gbs")),
            (Field::Double(4.0), Field::Double(1.024), Field::Double(1.536))
        );
        assert_eq!(at(0, "written"), Field::TimestampMicros(1_796_003_000_000_000));
        assert_eq!(
            (at(1, "op"), at(1, "p2p"), at(1, "peer"), at(1, "exec_time_us"), at(1, "busbw_gbs")),
            (text("Send"), Field::Bool(true), Field::Int(1), Field::Null, Field::Null)
        );
        assert_eq!(
            (at(1, "comm_name"), at(1, "algo"), at(1, "started")),
            (Field::Null, Field::Null, Field::Null)
        );
    }

    #[test]
    fn filters_and_repeated_origins_leave_rows_out() {
        let dir = tempfile::tempdir().expect("a folder");
        let log = dir.path().join("a.log");
        std::fs::write(&log, LINES).expect("a log");
        let logs = [log];
        let count = |filter: &Filter, left_out: &[(usize, usize)]| {
            write(&logs, filter, &left_out.iter().copied().collect(), &dir.path().join("out"))
                .expect("written")
        };
        assert_eq!(count(&Filter { comm: Some("tp".into()), ..Filter::default() }, &[]), 1);
        assert_eq!(count(&Filter::default(), &[(0, 0)]), 1);
        assert_eq!(count(&Filter::default(), &[(1, 0)]), 2);
    }

    #[test]
    fn files_of_another_run_are_not_mixed_in() {
        let dir = tempfile::tempdir().expect("a folder");
        let log = dir.path().join("a.log");
        std::fs::write(&log, LINES).expect("a log");
        std::fs::write(dir.path().join("old.parquet"), "").expect("a file");
        let error =
            write(&[log], &Filter::default(), &BTreeSet::new(), dir.path()).expect_err("refused");
        assert!(error.to_string().contains("holds old.parquet"), "{error}");
    }
}
