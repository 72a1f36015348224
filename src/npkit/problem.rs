//! What is wrong with a dump, each with its name; the rest is still read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::dump::{Dump, RankDump};
use super::lane::Faults;
use super::record::{FULL_CPU, FULL_GPU};
use crate::catalogue::Id;
use crate::units::{self, plural, rank_list};
use crate::warning::Warning;

/// Files that a problem names; of more it says how many.
const NAMED: usize = 3;
/// A GPU clock that differs from its nominal rate by more than this share makes every time doubtful.
const CLOCK_DOUBT: f64 = 0.01;

/// What reading the files found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Files whose size is not a multiple of a record, with the bytes left over: GPU files and CPU files.
    odd: [Vec<String>; 2],
    /// Buffers into which nothing more went.
    pub full: usize,
    full_names: Vec<String>,
    faults: Faults,
    /// Records by number, of numbers that no table has.
    pub unknown: BTreeMap<u8, u64>,
    /// Ranks of which only clock files are there.
    pub only_clocks: BTreeSet<u32>,
    /// Ranks without the period of the CPU's clock.
    pub no_period: BTreeSet<u32>,
    /// Ranks whose CPU clock does not count nanoseconds.
    pub other_period: BTreeMap<u32, (u64, u64)>,
    /// Ranks without the rate of the GPU's clock, and the rate that is taken instead, kHz.
    pub no_rate: BTreeMap<u32, Option<f64>>,
}

impl Found {
    /// Takes in one file.
    pub(super) fn file(&mut self, gpu: bool, path: &Path, rest: usize, faults: &Faults) {
        let name = || path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if rest > 0
            && let Some(list) = self.odd.get_mut(usize::from(!gpu))
        {
            list.push(name());
        }
        let full = if gpu { FULL_GPU } else { FULL_CPU };
        if std::fs::metadata(path).is_ok_and(|meta| meta.len() >= full) {
            self.full += 1;
            self.full_names.push(name());
        }
        self.faults.without_clock += faults.without_clock;
        self.faults.unpaired += faults.unpaired;
        self.faults.backwards += faults.backwards;
    }
}

/// The problems of a dump that was read from its files.
pub(super) fn of_dump(dump: &Dump, found: &Found) -> Vec<Warning> {
    let mut list: Vec<Warning> = Vec::new();
    list.extend(contents(dump));
    list.extend(ranks(dump, found));
    list.extend(full(found));
    list.extend(odd_sizes(found));
    list.extend(unknown(dump, found));
    list.extend(clock_files(found));
    list.extend(gpu_clock(dump));
    list.extend(records(dump, &found.faults));
    list.sort();
    list
}

fn contents(dump: &Dump) -> Option<Warning> {
    if dump.events > 0 {
        return None;
    }
    // Clock records are written even where no event is: then a buffer is not empty.
    let any_clock = dump.ranks.values().any(|rank| rank.clocked);
    Some(if any_clock {
        Warning::new(
            Id::OnlyClockRecords,
            "The dump holds only clock records: no event that was compiled in lies on the path that ran.",
        )
        .with_hint("Build with the events of the algorithm and protocol that runs (NPKIT_FLAGS): LL, LL128, ring, tree and NET events are separate.")
    } else {
        Warning::new(Id::EmptyDump, "Every buffer of the dump is empty.")
            .with_hint("Check that the program was linked with the library that carries NPKit, and that it ran collectives on the communicator that was dumped.")
    })
}

fn ranks(dump: &Dump, found: &Found) -> Vec<Warning> {
    let mut list = Vec::new();
    let with: BTreeSet<u32> =
        dump.ranks.iter().filter(|(_, rank)| rank.events > 0).map(|(number, _)| *number).collect();
    let without: Vec<u32> =
        dump.ranks.keys().copied().filter(|rank| !with.contains(rank)).collect();
    if !with.is_empty() && !without.is_empty() {
        let only_clocks = without.iter().all(|rank| found.only_clocks.contains(rank));
        let what = if only_clocks { "only clock files" } else { "no events" };
        list.push(missing(format!("{} left {what}.", named(&without))));
    }
    let gaps = gaps(&dump.ranks.keys().copied().collect());
    if !gaps.is_empty() {
        list.push(missing(format!("There is no file of {}.", named(&gaps).to_lowercase())));
    }
    if dump.ranks.len() == 1
        && dump.events > 0
        && dump.ranks.values().any(|rank| !rank.lanes.is_empty())
    {
        let only: Vec<u32> = dump.ranks.keys().copied().collect();
        list.push(missing(format!(
            "{} is the only one in the dump, and events are of transfers between ranks.",
            named(&only)
        )));
    }
    list
}

fn missing(message: String) -> Warning {
    Warning::new(Id::RankMissing, message).with_hint(
        "NPKit writes when ncclCommDestroy is called, into NPKIT_DUMP_DIR of each host: end every rank in that way and collect the files of all hosts in one folder, or name the folders one after the other.",
    )
}

fn named(ranks: &[u32]) -> String {
    format!("{} {}", if ranks.len() == 1 { "Rank" } else { "Ranks" }, rank_list(ranks))
}

fn full(found: &Found) -> Option<Warning> {
    (found.full > 0).then(|| {
        Warning::new(
            Id::BufferFull,
            format!(
                "{} full (65,536 records of the GPU, 2,097,152 of the CPU): what came later was dropped, and nobody counted it ({}).",
                if found.full == 1 { "1 buffer is".to_owned() } else { format!("{} buffers are", units::count(found.full as u64)) },
                examples(&found.full_names)
            ),
        )
        .with_hint("Dump fewer steps, or compile in fewer events.")
    })
}

fn odd_sizes(found: &Found) -> Option<Warning> {
    let [gpu, cpu] = &found.odd;
    let names: Vec<String> = gpu.iter().chain(cpu).cloned().collect();
    (!names.is_empty()).then(|| {
        let problem = Warning::new(
            Id::OddSize,
            format!(
                "The size of {} is not a multiple of the 16 bytes of a record ({}): what is left over at the end was not read.",
                plural(names.len(), "file"),
                examples(&names)
            ),
        );
        if gpu.is_empty() {
            problem.with_hint("Only files of the CPU are concerned: one branch of NPKit (for NCCL 2.20.5) writes 22 bytes a record there, which would make their events meaningless.")
        } else {
            problem.with_hint("Copy the files again: they were cut.")
        }
    })
}

fn unknown(dump: &Dump, found: &Found) -> Option<Warning> {
    let records: u64 = found.unknown.values().sum();
    (records > 0).then(|| {
        let ids: Vec<String> = found.unknown.keys().map(|id| format!("0x{id:02x}")).collect();
        Warning::new(
            Id::UnknownIds,
            format!(
                "{} records have numbers that {} does not know: {}. They are counted and not used.",
                units::count(records),
                dump.ids.label(),
                examples(&ids)
            ),
        )
        .with_hint("Give the npkit_event.h of the library that wrote the dump with --header.")
    })
}

fn clock_files(found: &Found) -> Vec<Warning> {
    let mut list = Vec::new();
    for (rank, rate) in &found.no_rate {
        let (instead, hint) = match rate {
            Some(khz) => (
                format!(
                    "{:.0} kHz are taken, as measured between its clock records or given for another rank",
                    khz
                ),
                "Copy the file gpu_clock_rate_rank_* too.",
            ),
            None => (
                "the events of its GPU have no time".to_owned(),
                "Copy the file gpu_clock_rate_rank_* too: nothing else tells how long a tick is.",
            ),
        };
        list.push(
            Warning::new(
                Id::ClockFileMissing,
                format!("The rate of the GPU's clock of rank {rank} is missing or not a number: {instead}."),
            )
            .with_hint(hint),
        );
    }
    if !found.no_period.is_empty() {
        let ranks: Vec<u32> = found.no_period.iter().copied().collect();
        list.push(
            Warning::new(
                Id::ClockFileMissing,
                format!("The period of the CPU's clock of {} is missing or not a number: nanoseconds are assumed.", named(&ranks).to_lowercase()),
            )
            .with_hint("Copy the files cpu_clock_period_num_rank_* and cpu_clock_period_den_rank_* too."),
        );
    }
    if let Some((rank, (num, den))) = found.other_period.first_key_value() {
        list.push(
            Warning::new(
                Id::ClockPeriod,
                format!("The CPU's clock of rank {rank} counts {num}/{den} s, not nanoseconds: times are converted, and cannot be finer than that."),
            )
            .with_hint("Times since 1970 rest on this period: if events lie outside the kernels of a report, doubt it first."),
        );
    }
    list
}

fn gpu_clock(dump: &Dump) -> Vec<Warning> {
    let doubt = |(rank, of_rank): (&u32, &RankDump)| {
        let (given, measured) = (of_rank.gpu_khz?, of_rank.measured_khz?);
        let ratio = measured / given;
        ((ratio - 1.0).abs() > CLOCK_DOUBT && ratio.is_finite()).then(|| {
            Warning::new(
                Id::GpuClock,
                format!(
                    "Rank {rank}: between its clock records the GPU's clock ran at {:.0} MHz in the median, not at the {:.0} MHz of its file: times inside a collective are {} of what they are.",
                    measured / 1e3,
                    given / 1e3,
                    units::percent(ratio)
                ),
            )
            .with_hint("The file holds the highest rate of the GPU; a GPU that is throttled or saves power counts slower. Shares are not affected.")
        })
    };
    dump.ranks.iter().filter_map(doubt).collect()
}

fn records(dump: &Dump, faults: &Faults) -> Vec<Warning> {
    let mut list = Vec::new();
    if faults.unpaired > 0 {
        list.push(Warning::new(
            Id::UnpairedEvents,
            format!("{} records begin or end an event whose other half is missing: they have no time.", units::count(faults.unpaired)),
        ).with_hint("Compile in the ENTRY and the EXIT of each event; a buffer that ran full or a program that was ended loses halves, too."));
    }
    if faults.without_clock > 0 {
        list.push(Warning::new(
            Id::NoClockRecord,
            format!("{} records stand before the first clock record of their buffer: when they were is not known.", units::count(faults.without_clock)),
        ).with_hint("Compile in NPKIT_EVENT_TIME_SYNC_CPU and NPKIT_EVENT_TIME_SYNC_GPU."));
    }
    if faults.backwards > 0 {
        list.push(Warning::new(
            Id::TimeBackwards,
            format!("{} records lie before the record that stands before them: two communicators may have written to one buffer.", units::count(faults.backwards)),
        ).with_hint("NPKit keeps one communicator a process: dump a program with one."));
    }
    let left_out: u64 = dump.ranks.values().map(|rank| rank.left_out).sum();
    if left_out > 0 {
        list.push(Warning::new(
            Id::LeftOut,
            format!("{} collectives of channels and requests of proxies are in the totals only: the first of each buffer are shown.", units::count(left_out)),
        ));
    }
    list
}

/// The ranks that are missing between 0 and the highest.
fn gaps(ranks: &BTreeSet<u32>) -> Vec<u32> {
    let last = ranks.last().copied().unwrap_or(0);
    (0..last).filter(|rank| !ranks.contains(rank)).take(1_000).collect()
}

/// The first few, and how many more.
fn examples(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMED);
    let first = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{first} and {more} more") } else { first }
}
