//! A run of several ranks whose true times are known, written as each rank's profiler would have seen it.

use std::path::{Path, PathBuf};

use crate::support::report::{Payload, Payloads, Report, stream, thread};
use crate::support::scenes::{ALL_REDUCE, GEMM};

pub const US: i64 = 1_000;
pub const MS: i64 = 1_000_000;
/// Unix time at which the run begins.
pub const EPOCH: i64 = 1_796_000_000_000_000_000;
pub const COMM: u64 = 0xbbd4_d590_f040_f7ce;

/// One rank: when it arrives at the AllReduce of each step, and how its clock is wrong.
///
/// ```text
/// true time of a step      0          40                      90     100 ms
/// stream 7                 | compute  |                       |
/// stream 20                           | AllReduce             |         starts late(rank, step) after 40 ms, ends at 90 on all
/// ```
#[derive(Clone)]
pub struct Plan {
    pub rank: u32,
    pub world: u32,
    pub steps: std::ops::Range<i64>,
    /// True time of the report's time 0, ns after the run begins.
    pub zero: i64,
    /// What the report's start time says too much, ns.
    pub clock_error: i64,
    /// The clock runs this many parts in a million too fast, as a function of true time in ns: offset in ns.
    pub drift: fn(i64) -> i64,
    pub has_start_time: bool,
    /// Exported with `--ts-normalize`.
    pub normalised: bool,
    /// Arrival after 40 ms of the step, ns.
    pub late: fn(u32, i64) -> i64,
    /// AllReduces of a step; they share the time from 40 to 90 ms.
    pub collectives: i64,
    /// End of compute, ns after the step begins; the rest until the AllReduce is idle.
    pub compute_end: fn(u32, i64) -> i64,
}

impl Plan {
    pub fn new(rank: u32, world: u32) -> Plan {
        Plan {
            rank,
            world,
            steps: 0..10,
            zero: i64::from(rank) * 3 * MS,
            clock_error: 0,
            drift: |_| 0,
            has_start_time: true,
            normalised: false,
            late: |_, _| 0,
            collectives: 1,
            compute_end: |_, _| 40 * MS,
        }
    }

    pub fn report(&self) -> Report {
        let mut report = Report::default();
        report.payloads = Payloads::Json;
        let main = thread(500 + self.rank, 500 + self.rank);
        report.env("RANK", &self.rank.to_string());
        report.env("WORLD_SIZE", &self.world.to_string());
        let start = EPOCH + self.zero + self.clock_error;
        if self.has_start_time {
            report.session(start);
        } else {
            report.without("TARGET_INFO_SESSION_START_TIME");
        }
        if self.normalised {
            report.export("EXPORT_PARAM_TIME_NORMALIZE", "true");
        }
        let own = |truth: i64| truth - self.zero + (self.drift)(truth) + if self.normalised { start } else { 0 };
        for step in self.steps.clone() {
            let begin = 200 * MS + step * 100 * MS;
            report.range(main, &format!("step {step}"), own(begin - 50 * MS)..own(begin + 40 * MS));
            report.kernel(GEMM, stream(7), own(begin)..own(begin + (self.compute_end)(self.rank, step)), main.at(own(begin - 40 * MS)));
            for i in 0..self.collectives {
                let width = 50 * MS / self.collectives;
                let (from, to) = (begin + 40 * MS + i * width, begin + 40 * MS + (i + 1) * width);
                let late = if i == 0 { (self.late)(self.rank, step) } else { 0 };
                let at = begin - 30 * MS + i * 20 * US;
                let payload = Payload { comm: COMM, bytes: Some(1 << 20), redop: Some("Sum"), ..Payload::default() };
                report.nccl(main, "ncclAllReduce", own(at)..own(at + 10 * US), payload);
                report.kernel(ALL_REDUCE, stream(20), own(from + late)..own(to), main.at(own(at + 5 * US)));
            }
            // The step ends with a little work, so that windows are 100 ms long.
            report.kernel(GEMM, stream(7), own(begin + 92 * MS)..own(begin + 93 * MS), main.at(own(begin - 10 * MS)));
        }
        report
    }

    pub fn save(&self, folder: &Path) -> PathBuf {
        self.report().save(folder, &format!("run_{}.sqlite", self.rank))
    }
}

/// A finished report of these ranks.
pub fn report(plans: &[Plan]) -> nsysnccl::report::Report {
    let folder = crate::support::folder();
    let paths: Vec<PathBuf> = plans.iter().map(|plan| plan.save(folder.path())).collect();
    crate::support::report(&paths)
}
