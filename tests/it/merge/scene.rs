//! One small run: a report for each rank and the logs of its processes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nsysnccl::internals::report::{InspectorMerge, InspectorRank, Report as Finished};
use nsysnccl::internals::run::Options;
use nsysnccl::internals::steps::StepChoice;

use crate::support::cluster::Rank;
use crate::support::folder;
use crate::support::report::{Payload, Report, Stream, stream};
pub use crate::support::scenes::{ALL_REDUCE, WORLD as COMM, WORLD_LOGGED as COMM_LOGGED};
use crate::support::scenes::{EPOCH, SEND_RECV, US};

/// Unix time of the reports' time 0, microseconds.
pub const EPOCH_US: i64 = EPOCH / US;
pub const OTHER: u64 = 0x0b46_cc39_4a94_f160;
/// The same as Inspector prints it.
pub const OTHER_LOGGED: &str = "0xb46cc394a94f16";
pub const HOST: &str = "node0";
pub const MB: u64 = 1_000_000;

/// One record of a log. Times are microseconds of the reports' own time.
#[derive(Debug, Clone)]
pub struct Line {
    pub comm: String,
    pub rank: u32,
    pub n_ranks: u32,
    pub host: String,
    pub pid: u32,
    pub op: String,
    pub sn: u64,
    pub bytes: u64,
    pub exec_us: i64,
    pub timing: &'static str,
    pub written_us: i64,
}

/// AllReduce number `sn` of 1 MB, which took `exec_us` and was written at `written_us`, on the only communicator of process 1000.
pub fn line(sn: u64, exec_us: i64, written_us: i64) -> Line {
    Line {
        comm: COMM_LOGGED.to_owned(),
        rank: 0,
        n_ranks: 2,
        host: HOST.to_owned(),
        pid: 1000,
        op: "AllReduce".to_owned(),
        sn,
        bytes: MB,
        exec_us,
        timing: "kernel_gpu",
        written_us,
    }
}

impl Line {
    pub fn on(self, comm: &str) -> Line {
        Line { comm: comm.to_owned(), ..self }
    }

    pub fn op(self, op: &str) -> Line {
        Line { op: op.to_owned(), ..self }
    }

    pub fn bytes(self, bytes: u64) -> Line {
        Line { bytes, ..self }
    }

    pub fn pid(self, pid: u32) -> Line {
        Line { pid, ..self }
    }

    pub fn host(self, host: &str) -> Line {
        Line { host: host.to_owned(), ..self }
    }

    pub fn rank(self, rank: u32, n_ranks: u32) -> Line {
        Line { rank, n_ranks, ..self }
    }

    pub fn timing(self, timing: &'static str) -> Line {
        Line { timing, ..self }
    }

    fn head(&self, version: &str) -> String {
        format!(
            r#"{{"header":{{"id":"{}","rank":{},"n_ranks":{},"nnodes":1}},"metadata":{{"inspector_output_format_version":"{version}","dump_timestamp_us":{},"hostname":"{}","pid":{}}}"#,
            self.comm,
            self.rank,
            self.n_ranks,
            EPOCH_US + self.written_us,
            self.host,
            self.pid
        )
    }

    /// The line as the plugin writes it.
    pub fn json(&self) -> String {
        let Line { op, sn, bytes, exec_us, timing, .. } = self;
        let k = if op == "Send" || op == "Recv" { "p2p" } else { "coll" };
        format!(
            "{},\"{k}_perf\":{{\"{k}\":\"{op}\",\"{k}_sn\":{sn},\"{k}_msg_size_bytes\":{bytes},\"{k}_exec_time_us\":{exec_us},\"{k}_timing_source\":\"{timing}\"}}}}\n",
            self.head("v4.0")
        )
    }

    /// The loss counter of this communicator at this time of writing.
    pub fn dump_stats(&self, dropped_total: u64) -> String {
        format!(
            "{},\"dump_stats\":{{\"coll_records\":1,\"coll_dropped_total\":{dropped_total},\"p2p_dropped_total\":0}}}}\n",
            self.head("v4.1")
        )
    }
}

/// A run that is being written.
pub struct Scene {
    ranks: BTreeMap<u32, Rank>,
    logs: BTreeMap<String, String>,
    pub options: Options,
}

/// The NCCL call that launched a kernel.
pub struct Call {
    pub function: &'static str,
    pub comm: u64,
    pub bytes: u64,
}

pub fn all_reduce(bytes: u64) -> Call {
    Call { function: "ncclAllReduce", comm: COMM, bytes }
}

impl Default for Scene {
    fn default() -> Self {
        let options = Options { step: StepChoice::Whole, ..Options::default() };
        Scene { ranks: BTreeMap::new(), logs: BTreeMap::new(), options }
    }
}

impl Scene {
    /// Rank r, whose process is 1000 + r. A launch before time 0 would be left out, so it comes shortly before its kernel.
    fn rank(&mut self, rank: u32) -> &mut Rank {
        self.ranks.entry(rank).or_insert_with(|| {
            let mut rank = Rank::new(rank, 0);
            rank.lead = 5 * US;
            rank.report.system("Hostname", HOST);
            rank
        })
    }

    /// The report of rank r.
    pub fn report(&mut self, rank: u32) -> &mut Report {
        &mut self.rank(rank).report
    }

    /// A kernel of rank r from `at` for `length` microseconds; with `call`, an NCCL range around its launch carries a payload.
    pub fn kernel(&mut self, rank: u32, name: &str, at: i64, length: i64, call: Option<Call>) {
        self.kernel_on(rank, name, stream(20), at, length, call);
    }

    pub fn kernel_on(
        &mut self,
        rank: u32,
        name: &str,
        stream: Stream,
        at: i64,
        length: i64,
        call: Option<Call>,
    ) {
        let (rank, time) = (self.rank(rank), at * US..(at + length) * US);
        let Some(Call { function, comm, bytes }) = call else {
            return rank.kernel(name, stream, time);
        };
        let payload = Payload { comm, bytes: Some(bytes), ..Payload::default() };
        rank.call(function, payload, name, stream, time);
    }

    /// A group of sends and receives (function, bytes, peer) in one kernel.
    pub fn group(&mut self, rank: u32, at: i64, length: i64, members: &[(&str, u64, i32)]) {
        let call = |&(function, bytes, peer)| {
            let (bytes, peer) = (Some(bytes), Some(peer));
            (function, Payload { comm: COMM, bytes, peer, ..Payload::default() })
        };
        let calls: Vec<_> = members.iter().map(call).collect();
        self.rank(rank).group(&calls, &[(SEND_RECV, 20, at * US..(at + length) * US)]);
    }

    /// Lines of the log file of a name.
    pub fn log(&mut self, file: &str, lines: impl IntoIterator<Item = Line>) {
        let text: String = lines.into_iter().map(|line| line.json()).collect();
        self.text(file, &text);
    }

    /// Text of the log file of a name.
    pub fn text(&mut self, file: &str, text: &str) {
        self.logs.entry(file.to_owned()).or_default().push_str(text);
    }

    /// Removes a log file and returns its text.
    pub fn take(&mut self, file: &str) -> String {
        self.logs.remove(file).expect("is there")
    }

    /// Writes reports `run_R.sqlite` and the folder `logs`.
    pub fn save(&self, folder: &Path) -> Vec<PathBuf> {
        let logs = folder.join("logs");
        std::fs::create_dir(&logs).expect("a folder");
        for (file, text) in &self.logs {
            std::fs::write(logs.join(file), text).expect("a log");
        }
        self.ranks
            .iter()
            .map(|(number, rank)| rank.report.save(folder, &format!("run_{number}.sqlite")))
            .collect()
    }

    /// Writes everything and builds the report.
    pub fn build(&self) -> nsysnccl::Result<Finished> {
        let folder = folder();
        let paths = self.save(folder.path());
        let options =
            Options { inspector: vec![folder.path().join("logs")], ..self.options.clone() };
        crate::support::build_with(&paths, &options).map(|built| built.report)
    }

    /// The finished report.
    #[track_caller]
    pub fn finished(&self) -> Finished {
        self.build().expect("a report")
    }

    /// What the logs added.
    #[track_caller]
    pub fn merged(&self) -> InspectorMerge {
        let merge = self.finished().inspector.expect("logs");
        add_up(&merge);
        merge
    }
}

/// Every kernel is paired or has a reason, and so has every record inside the capture.
#[track_caller]
pub fn add_up(merge: &InspectorMerge) {
    let sum = |of: fn(&InspectorRank) -> u64| merge.ranks.iter().map(of).sum::<u64>();
    assert_eq!(
        merge.unmatched.values().sum::<u64>(),
        sum(|r| r.unmatched_kernels),
        "{:?}",
        merge.unmatched
    );
    assert_eq!(
        merge.unmatched_records.values().sum::<u64>(),
        sum(|r| r.unmatched_records),
        "{:?}",
        merge.unmatched_records
    );
    assert_eq!(merge.pairs.len() as u64, sum(|r| r.records_in_capture - r.unmatched_records));
    assert!(
        merge
            .ranks
            .iter()
            .all(|r| r.paired + r.unmatched_kernels == r.kernels
                && r.records_in_capture <= r.records)
    );
}

/// (start in microseconds, communicator, number) of every pair of a rank.
pub fn pairs(merge: &InspectorMerge, rank: u32) -> Vec<(i64, &str, u64)> {
    let own = merge.pairs.iter().filter(|pair| pair.rank == rank);
    own.map(|pair| (pair.start_ns / 1000, pair.comm_id.as_str(), pair.sn.expect("a number")))
        .collect()
}

/// Start in microseconds and number of every pair of rank 0.
pub fn numbers(merge: &InspectorMerge) -> Vec<(i64, u64)> {
    pairs(merge, 0).into_iter().map(|(at, _, sn)| (at, sn)).collect()
}

/// The only reason for kernels without a record, and their number.
#[track_caller]
pub fn only_reason(merge: &InspectorMerge) -> (&str, u64) {
    assert_eq!(merge.unmatched.len(), 1, "{:?}", merge.unmatched);
    merge.unmatched.iter().next().map(|(why, n)| (why.as_str(), *n)).expect("a reason")
}
