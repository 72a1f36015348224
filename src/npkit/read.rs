//! A whole dump from its files: every file is read once for the numbers that occur, then once for what they say. Only lanes and
//! requests stay in memory, and of those as many as [`MOST_LANES`] and [`MOST_PROXIES`] allow.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::dump::{Dump, Total};
use super::files::{self, RankFiles};
use super::ids::{Ids, Library, Role, Seen};
use super::lane::{Clocks, Faults, Lane, Reader};
use super::problem::{self, Found};
use super::proxy::{self, Proxy};
use super::record;
use crate::Result;
use crate::stats;

/// Lanes that are kept, over all buffers.
pub const MOST_LANES: usize = 200_000;
/// Requests of proxy threads that are kept, over all channels.
pub const MOST_PROXIES: usize = 500_000;

/// One file with events.
struct File<'f> {
    rank: u32,
    gpu: bool,
    /// Buffer or channel.
    number: u32,
    path: &'f Path,
}

/// What one file holds.
#[derive(Default)]
struct Content {
    lanes: Vec<Lane>,
    proxies: Vec<Proxy>,
    totals: BTreeMap<u8, Total>,
    left_out: u64,
    faults: Faults,
    rates: Vec<f64>,
}

/// How often each number occurs in a file.
struct Survey {
    counts: [u64; 256],
    first: Option<u8>,
    /// Bytes behind the last whole record.
    rest: usize,
}

/// Where the meaning of numbers comes from.
#[derive(Debug)]
pub enum Table {
    /// It was asked for.
    Given(Ids),
    /// The one of these libraries that fits the numbers that occur.
    Fitting(&'static [Library]),
}

/// Reads the dump in some folders.
///
/// # Errors
/// A folder without a dump, a file that cannot be read, numbers that mean different things in libraries that fit.
pub fn folders(folders: &[PathBuf], table: Table) -> Result<Dump> {
    let ranks = files::find(folders)?;
    let files: Vec<File<'_>> =
        ranks.iter().flat_map(|(rank, files)| listed(*rank, files)).collect();
    let surveys: Vec<Survey> = files.par_iter().map(survey).collect::<Result<_>>()?;
    let ids = match table {
        Table::Given(ids) => ids,
        Table::Fitting(among) => Ids::fitting(&seen(&files, &surveys), among)?,
    };
    let mut found = Found::default();
    let mut dump = Dump {
        ids,
        exact: true,
        ranks: BTreeMap::new(),
        events: 0,
        problems: Vec::new(),
        full: false,
    };
    let clocks = clocks(&ranks, &files, &dump.ids, &mut found)?;
    let filled = surveys.iter().zip(&files).filter(|(survey, _)| survey.first.is_some());
    let (gpu, cpu) = filled.fold(
        (0, 0),
        |(gpu, cpu), (_, file)| {
            if file.gpu { (gpu + 1, cpu) } else { (gpu, cpu + 1) }
        },
    );
    let most = (MOST_LANES / gpu.max(1), MOST_PROXIES / cpu.max(1));
    let contents: Vec<Content> = files
        .par_iter()
        .map(|file| match clocks.get(&file.rank) {
            Some(clocks) if file.gpu => lanes(file, &dump.ids, *clocks, most.0.max(1)),
            Some(clocks) => proxies(file, &dump.ids, *clocks, most.1.max(1)),
            None => Ok(Content::default()),
        })
        .collect::<Result<_>>()?;
    let mut rates: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for ((file, survey), content) in files.iter().zip(&surveys).zip(contents) {
        found.file(file.gpu, file.path, survey.rest, &content.faults);
        let rank = dump.ranks.entry(file.rank).or_default();
        for (id, count) in (0..=u8::MAX).zip(survey.counts).filter(|(_, count)| *count > 0) {
            match dump.ids.get(id).map(|meaning| meaning.role) {
                Some(Role::ClockCpu | Role::ClockGpu) => rank.clocked = true,
                Some(_) => rank.events += count,
                None => {
                    rank.events += count;
                    *found.unknown.entry(id).or_default() += count;
                }
            }
        }
        rank.lanes.extend(content.lanes);
        rank.proxies.extend(content.proxies);
        rank.left_out += content.left_out;
        rates.entry(file.rank).or_default().extend(content.rates);
        for (entry, total) in &content.totals {
            rank.totals.entry(*entry).or_default().merge(total);
        }
    }
    for (number, rank) in &mut dump.ranks {
        rank.lanes.sort_by_key(|lane| (lane.start_ns, lane.channel));
        rank.proxies.sort_unstable();
        rank.gpu_khz = clocks.get(number).map(|c| c.gpu_khz).filter(|khz| khz.is_finite());
        if rank.gpu_khz.is_none() {
            // A tick has no length.
            rank.lanes.clear();
            rank.totals.retain(|entry, _| rank.proxies.iter().any(|proxy| proxy.entry == *entry));
        }
        rank.measured_khz = rates.get(number).and_then(|rates| stats::median(rates));
    }
    for number in ranks.keys() {
        dump.ranks.entry(*number).or_default();
    }
    dump.events = dump.ranks.values().map(|rank| rank.events).sum();
    dump.full = found.full > 0;
    dump.problems = problem::of_dump(&dump, &found);
    Ok(dump)
}

/// The files of a rank that have events, or may have.
fn listed(rank: u32, files: &RankFiles) -> impl Iterator<Item = File<'_>> {
    let gpu =
        files.gpu.iter().map(move |(number, path)| File { rank, gpu: true, number: *number, path });
    gpu.chain(files.cpu.iter().map(move |(number, path)| File {
        rank,
        gpu: false,
        number: *number,
        path,
    }))
}

fn survey(file: &File<'_>) -> Result<Survey> {
    let mut survey = Survey { counts: [0; 256], first: None, rest: 0 };
    survey.rest = record::for_each(file.path, |record| {
        survey.first.get_or_insert(record.id);
        if let Some(count) = survey.counts.get_mut(usize::from(record.id)) {
            *count += 1;
        }
    })?;
    Ok(survey)
}

fn seen(files: &[File<'_>], surveys: &[Survey]) -> Seen {
    let ids = |survey: &Survey| {
        (0..=u8::MAX)
            .zip(survey.counts)
            .filter(|(_, count)| *count > 0)
            .map(|(id, _)| id)
            .collect::<Vec<_>>()
    };
    Seen {
        ids: surveys.iter().flat_map(ids).collect(),
        first: files
            .iter()
            .zip(surveys)
            .filter(|(file, _)| file.gpu)
            .filter_map(|(_, s)| s.first)
            .collect(),
    }
}

/// The clocks of each rank. Where the file with the rate of the GPU's clock is missing, it is measured between clock records, or
/// another rank's is taken.
fn clocks(
    ranks: &BTreeMap<u32, RankFiles>,
    files: &[File<'_>],
    ids: &Ids,
    found: &mut Found,
) -> Result<BTreeMap<u32, Clocks>> {
    let mut clocks = BTreeMap::new();
    let known = ranks.values().find_map(|files| files.gpu_khz);
    for (&rank, of_rank) in ranks {
        if of_rank.gpu.is_empty() && of_rank.cpu.is_empty() {
            found.only_clocks.insert(rank);
            continue;
        }
        let cpu_period = match (of_rank.period_num, of_rank.period_den) {
            (Some(num), Some(den)) => (num, den),
            _ => {
                found.no_period.insert(rank);
                (1, 1_000_000_000)
            }
        };
        if u128::from(cpu_period.0) * 1_000_000_000 != u128::from(cpu_period.1) {
            found.other_period.insert(rank, cpu_period);
        }
        let mut gpu_khz = of_rank.gpu_khz;
        if gpu_khz.is_none() {
            let of_rank = files.iter().filter(|file| file.rank == rank && file.gpu);
            gpu_khz = measured_khz(of_rank, ids, cpu_period)?.or(known);
            found.no_rate.insert(rank, gpu_khz);
        }
        // Without any rate the times of the proxies are still known, and lanes have no length.
        let gpu_khz = gpu_khz.unwrap_or(f64::INFINITY);
        clocks.insert(rank, Clocks { gpu_khz, cpu_period });
    }
    Ok(clocks)
}

fn measured_khz<'f>(
    files: impl Iterator<Item = &'f File<'f>>,
    ids: &Ids,
    cpu_period: (u64, u64),
) -> Result<Option<f64>> {
    let mut rates = Vec::new();
    for file in files {
        rates.extend(lanes(file, ids, Clocks { gpu_khz: f64::INFINITY, cpu_period }, 0)?.rates);
    }
    Ok(stats::median(&rates).filter(|khz| *khz > 0.0))
}

fn lanes(file: &File<'_>, ids: &Ids, clocks: Clocks, most: usize) -> Result<Content> {
    let mut content = Content::default();
    let mut reader = Reader::new(ids, clocks, file.number);
    let mut totals = [Total::default(); 256];
    record::for_each(file.path, |record| {
        let lane = reader.feed(&record, |span| {
            if let Some(total) = totals.get_mut(usize::from(span.entry)) {
                let ns = span.end_ns.saturating_sub(span.start_ns);
                total.add(ns, span.size, span.rsvd_ns, span.wrapped);
            }
        });
        if let Some(lane) = lane {
            keep(&mut content.lanes, &mut content.left_out, lane, most);
        }
    })?;
    if let Some(lane) = reader.finish() {
        keep(&mut content.lanes, &mut content.left_out, lane, most);
    }
    content.totals = (0..=u8::MAX).zip(totals).filter(|(_, total)| total.count > 0).collect();
    content.faults = reader.faults;
    content.rates = reader.rates;
    Ok(content)
}

fn proxies(file: &File<'_>, ids: &Ids, clocks: Clocks, most: usize) -> Result<Content> {
    let mut content = Content::default();
    let mut reader = proxy::Reader::new(ids, clocks, file.number);
    record::for_each(file.path, |record| {
        if let Some(proxy) = reader.feed(&record) {
            let total = content.totals.entry(proxy.entry).or_default();
            total.add(proxy.ns(), u64::from(proxy.size), 0, false);
            total.same_size += u64::from(proxy.size == proxy.posted);
            keep(&mut content.proxies, &mut content.left_out, proxy, most);
        }
    })?;
    reader.finish();
    content.faults.unpaired = reader.unpaired;
    Ok(content)
}

fn keep<T>(list: &mut Vec<T>, left_out: &mut u64, item: T, most: usize) {
    if list.len() < most {
        list.push(item);
    } else {
        *left_out += 1;
    }
}
