//! Logs as the plugin writes them, and what `inspect` makes of a folder of them.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use nsysnccl::internals::ingest::inspector;
use nsysnccl::internals::inspect::{self, Filter, Inspected, Inspection, Op, Tally};

/// The time at which the first record of a test is written, Unix microseconds.
pub const START: i64 = 1_796_003_000_000_000;

/// One log of one rank of one communicator.
#[derive(Clone)]
pub struct Log {
    pub comm: &'static str,
    pub name: &'static str,
    pub rank: u32,
    pub n_ranks: u32,
    pub nnodes: u32,
    pub host: &'static str,
    pub pid: u32,
    pub text: String,
    pub written: i64,
}

impl Log {
    /// An empty log of `rank` of `n_ranks` on one node, in process 100 + `rank`.
    pub fn new(comm: &'static str, rank: u32, n_ranks: u32) -> Self {
        Self {
            comm,
            name: "unknown",
            rank,
            n_ranks,
            nnodes: 1,
            host: "h0",
            pid: 100 + rank,
            text: String::new(),
            written: START,
        }
    }

    /// Sets when the next record is written, microseconds after [`START`].
    pub fn at(&mut self, us: i64) -> &mut Self {
        self.written = START + us;
        self
    }

    fn head(&self) -> String {
        format!(
            r#"{{"header":{{"id":"{}","comm_name":"{}","rank":{},"n_ranks":{},"nnodes":{}}},"metadata":{{"inspector_output_format_version":"v4.0","git_rev":"","rec_mechanism":"nccl_profiler_interface","dump_timestamp_us":{},"hostname":"{}","pid":{}}}"#,
            self.comm,
            self.name,
            self.rank,
            self.n_ranks,
            self.nnodes,
            self.written,
            self.host,
            self.pid
        )
    }

    /// A collective; `size` and `time` as they are to stand in the log, `busbw` as logged. The next is written 1 ms later.
    pub fn coll(&mut self, op: &str, sn: u64, size: &str, time: &str, busbw: &str) -> &mut Self {
        let head = self.head();
        let _ = writeln!(
            self.text,
            r#"{head},"coll_perf":{{"coll":"{op}","coll_sn":{sn},"coll_msg_size_bytes":{size},"coll_exec_time_us":{time},"coll_timing_source":"kernel_gpu","coll_algobw_gbs":1.000000,"coll_busbw_gbs":{busbw}}}}}"#
        );
        self.written += 1000;
        self
    }

    /// AllReduce of `bytes` with numbers from 0 and these times.
    pub fn all_reduce(&mut self, bytes: u64, times: impl IntoIterator<Item = u64>) -> &mut Self {
        for (sn, time) in times.into_iter().enumerate() {
            self.coll("AllReduce", sn as u64, &bytes.to_string(), &time.to_string(), "1.000000");
        }
        self
    }

    /// Any other record: what follows the metadata.
    pub fn record(&mut self, json: &str) -> &mut Self {
        let head = self.head();
        let _ = writeln!(self.text, "{head},{json}}}");
        self.written += 1000;
        self
    }
}

/// A folder of logs.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new(logs: &[&Log]) -> Self {
        let folder = Self(tempfile::tempdir().expect("a folder"));
        for log in logs {
            folder.write(&format!("{}-pid{}.log", log.host, log.pid), log.text.as_bytes());
        }
        folder
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, bytes).expect("a file");
        path
    }

    pub fn inspect(&self) -> Inspection {
        inspect_with(&[self.path().to_owned()], &Filter::default(), inspect::budget(1))
    }
}

/// Everything from paths to the view; each file keeps at most `budget` operations one by one.
pub fn inspect_with(paths: &[PathBuf], filter: &Filter, budget: usize) -> Inspection {
    inspected(paths, filter, budget).view
}

/// The view and the operations behind it.
pub fn inspected(paths: &[PathBuf], filter: &Filter, budget: usize) -> Inspected {
    let files = inspector::files(paths).expect("logs");
    let logs = inspector::read(&files, || Tally::new(filter.clone(), budget), || ());
    inspect::inspect(logs.into_iter().map(|log| log.expect("readable")).collect(), filter)
}

/// The only operation and size of the only communicator.
pub fn only(view: &Inspection) -> &Op {
    assert_eq!((view.communicators.len(), view.communicators[0].ops.len()), (1, 1));
    &view.communicators[0].ops[0]
}

pub fn codes(view: &Inspection) -> Vec<&str> {
    view.warnings.iter().map(|w| w.code.as_str()).collect()
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}
