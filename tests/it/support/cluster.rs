//! A run of several ranks on one true clock.

use std::ops::Range;
use std::path::PathBuf;

use nsysnccl::internals::catalogue::Finding;
use nsysnccl::internals::report::{CollectiveGroup, RankReport, Report as Finished};
use nsysnccl::internals::run::Options;
use nsysnccl::internals::steps::StepChoice;
use tempfile::TempDir;

use super::report::{Copy, Payload, Report, Stream, Thread, stream, thread};
use super::scenes::{self, GEMM};
pub use super::scenes::{EPOCH, MS, SECOND, US, WORLD};

pub const MIB: u64 = 1 << 20;

/// One rank while it is written.
pub struct Rank {
    pub report: Report,
    pub rank: u32,
    /// True time at which its capture begins: time 0 of its report.
    pub begins: i64,
    /// By how much its clock is ahead of the true one at a true time.
    drift: fn(i64) -> i64,
    /// How long before its start on the GPU everything is launched, ns.
    pub lead: i64,
}

/// All ranks.
pub struct Cluster {
    pub ranks: Vec<Rank>,
}

impl Cluster {
    /// `n` ranks of a run of `n`, on one host, with right clocks; the capture of rank r begins r ms late.
    pub fn new(n: u32) -> Cluster {
        Cluster::of(&(0..n).collect::<Vec<_>>(), Some(n))
    }

    /// Some ranks of a run of `world`.
    pub fn of(ranks: &[u32], world: Option<u32>) -> Cluster {
        let one = |&rank: &u32| {
            let mut rank = Rank::new(rank, i64::from(rank) * MS);
            if let Some(world) = world {
                rank.report.env("WORLD_SIZE", &world.to_string());
            }
            rank
        };
        Cluster { ranks: ranks.iter().map(one).collect() }
    }

    /// Places ranks on hosts, in order.
    pub fn hosts(&mut self, names: &[&str]) {
        self.ranks
            .iter_mut()
            .zip(names)
            .for_each(|(rank, name)| rank.report.system("Hostname", name));
    }

    /// Sets the clock of a rank ahead.
    pub fn ahead(&mut self, r: usize, by: i64) {
        let begins = self.ranks[r].begins;
        self.ranks[r].report.session(EPOCH + begins + by);
    }

    /// Lets the clock of a rank run away.
    pub fn drift(&mut self, r: usize, ahead: fn(i64) -> i64) {
        self.ranks[r].drift = ahead;
    }

    /// A step range on every rank.
    pub fn step(&mut self, name: &str, time: Range<i64>) {
        self.ranks.iter_mut().for_each(|rank| rank.step(name, time.clone()));
    }

    /// A collective: when each rank (index) arrives, and when all leave.
    pub fn collective(&mut self, what: &Collective, arrivals: &[(usize, i64)], end: i64) {
        for &(r, start) in arrivals {
            self.ranks[r].collective(what, start..end);
        }
    }

    /// Writes the reports.
    pub fn save(&self, folder: &TempDir) -> Vec<PathBuf> {
        self.ranks
            .iter()
            .map(|rank| rank.report.save(folder.path(), &format!("run_{}.sqlite", rank.rank)))
            .collect()
    }

    /// The finished report with default options.
    pub fn finish(&self) -> Finished {
        self.finish_with(&Options::default())
    }

    /// The finished report with the whole capture as one step.
    pub fn finish_whole(&self) -> Finished {
        self.finish_with(&Options { step: StepChoice::Whole, ..Options::default() })
    }

    pub fn finish_with(&self, options: &Options) -> Finished {
        let folder = crate::support::folder();
        crate::support::build_with(&self.save(&folder), options).expect("a report").report
    }
}

/// What a collective is.
#[derive(Debug, Clone, Copy)]
pub struct Collective {
    pub function: &'static str,
    pub kernel: &'static str,
    pub payload: Payload,
    pub stream: i64,
}

pub const ALL_REDUCE: Collective = Collective {
    function: "ncclAllReduce",
    kernel: scenes::ALL_REDUCE,
    payload: Payload {
        comm: WORLD,
        bytes: Some(MIB),
        redop: Some("Sum"),
        root: None,
        peer: None,
        init: None,
    },
    stream: 20,
};

impl Collective {
    /// Another operation; the kernel of `ncclX` is called `ncclDevKernel_X_RING_LL`.
    pub fn of(function: &'static str, kernel: &'static str) -> Collective {
        Collective {
            function,
            kernel,
            payload: Payload { redop: None, ..ALL_REDUCE.payload },
            stream: 20,
        }
    }

    pub fn on(self, comm: u64, stream: i64) -> Collective {
        Collective { payload: Payload { comm, ..self.payload }, stream, ..self }
    }

    pub fn bytes(self, bytes: u64) -> Collective {
        Collective { payload: Payload { bytes: Some(bytes), ..self.payload }, ..self }
    }
}

impl Rank {
    /// A rank with a right clock whose capture begins at `begins`.
    pub fn new(rank: u32, begins: i64) -> Rank {
        let mut report = Report::default();
        report.env("RANK", &rank.to_string());
        report.session(EPOCH + begins);
        Rank { report, rank, begins, drift: |_| 0, lead: MS / 2 }
    }

    /// The rank's main thread.
    pub fn main(&self) -> Thread {
        thread(1000 + self.rank, 1000 + self.rank)
    }

    /// A true time in the report's own time.
    pub fn own(&self, at: i64) -> i64 {
        at - self.begins + (self.drift)(at)
    }

    pub fn span(&self, time: Range<i64>) -> Range<i64> {
        self.own(time.start)..self.own(time.end)
    }

    pub fn step(&mut self, name: &str, time: Range<i64>) {
        let time = self.span(time);
        self.report.range(self.main(), name, time);
    }

    /// A compute kernel on stream 7.
    pub fn compute(&mut self, time: Range<i64>) {
        self.kernel(GEMM, stream(7), time);
    }

    /// A copy inside the device on stream 7.
    pub fn copy(&mut self, time: Range<i64>) {
        let launch = self.main().at(self.own(time.start - self.lead));
        let time = self.span(time);
        self.report.copy(Copy::DtoD, 4096, stream(7), time, launch);
    }

    /// A kernel outside every NCCL range.
    pub fn kernel(&mut self, name: &str, on: Stream, time: Range<i64>) {
        let launch = self.main().at(self.own(time.start - self.lead));
        let time = self.span(time);
        self.report.kernel(name, on, time, launch);
    }

    /// A collective's kernel, launched by its NCCL call.
    pub fn collective(&mut self, what: &Collective, time: Range<i64>) {
        self.call(what.function, what.payload, what.kernel, stream(what.stream), time);
    }

    /// A kernel inside the NCCL range that launches it.
    pub fn call(
        &mut self,
        function: &str,
        payload: Payload,
        kernel: &str,
        on: Stream,
        time: Range<i64>,
    ) {
        let launch = self.own(time.start - self.lead);
        self.report.nccl(self.main(), function, launch - 100..launch + 100, payload);
        self.kernel(kernel, on, time);
    }

    /// NCCL calls between `ncclGroupStart` and `ncclGroupEnd`, and the kernels that the end launches.
    pub fn group(&mut self, calls: &[(&str, Payload)], kernels: &[(&str, i64, Range<i64>)]) {
        let launch = self.own(kernels[0].2.start - self.lead);
        let (main, nothing) = (self.main(), Payload::default());
        self.report.nccl(main, "ncclGroupStart", launch - 900..launch - 890, nothing);
        for (i, (function, payload)) in calls.iter().enumerate() {
            let at = launch - 800 + 10 * i as i64;
            self.report.nccl(main, function, at..at + 5, *payload);
        }
        self.report.nccl(main, "ncclGroupEnd", launch - 100..launch + 100, nothing);
        for (name, on, time) in kernels {
            let time = self.span(time.clone());
            self.report.kernel(name, stream(*on), time, main.at(launch));
        }
    }
}

/// The group of an operation on some ranks.
#[track_caller]
pub fn group<'r>(report: &'r Finished, op: &str, ranks: &[u32]) -> &'r CollectiveGroup {
    let found: Vec<&CollectiveGroup> =
        report.collectives.iter().filter(|g| g.op.label() == op && g.ranks == ranks).collect();
    assert_eq!(found.len(), 1, "{op} on {ranks:?}: {:#?}", report.collectives);
    found[0]
}

/// The rank with this number.
pub fn rank(report: &Finished, number: u32) -> &RankReport {
    report.ranks.iter().find(|r| r.rank == number).expect("the rank")
}

/// The finding with this id.
pub fn finding<'r>(report: &'r Finished, id: &str) -> Option<&'r Finding> {
    report.findings.iter().find(|f| f.id.as_str() == id)
}

/// The message of the only warning with this code.
#[track_caller]
pub fn warning(report: &Finished, code: &str) -> String {
    let found: Vec<String> = report
        .warnings
        .iter()
        .filter(|w| w.code.as_str() == code)
        .map(|w| w.message.clone())
        .collect();
    assert_eq!(found.len(), 1, "{code}: {:#?}", report.warnings);
    found[0].clone()
}

/// Codes of all warnings.
pub fn codes(report: &Finished) -> Vec<&str> {
    report.warnings.iter().map(|w| w.code.as_str()).collect()
}
