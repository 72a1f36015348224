//! Which rank each trace is: the first source that answers, and no number twice.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use foldhash::{HashMap, HashMapExt};
use regex::Regex;

use super::nsys::Candidate;
use crate::catalogue::Id;
use crate::model::{RankSource, RankTrace};
use crate::units;
use crate::warning::Warning;
use crate::{Error, Result};

/// The number just before the extension of a file name: `ddp-8gpu_3.sqlite`, `run.rank12.sqlite`.
const FILE_NAME: &str = r"(?i)[._-](?:rank)?(?P<rank>\d+)\.[^.]*$";

/// Traces that a warning lists one by one.
const NAMED: usize = 8;

/// Numbers all traces and puts them in order of rank.
///
/// # Errors
/// Two traces claim one rank, or `rank_regex` is not a pattern with a group `rank`.
pub(crate) fn assign(
    candidates: Vec<Candidate>,
    rank_regex: Option<&str>,
) -> Result<(Vec<RankTrace>, Vec<Warning>)> {
    let own_pattern = rank_regex.is_some();
    let pattern = file_pattern(rank_regex.unwrap_or(FILE_NAME))?;
    let mut in_report: HashMap<usize, usize> = HashMap::new();
    let mut in_process: HashMap<(usize, u32), usize> = HashMap::new();
    for candidate in &candidates {
        *in_report.entry(candidate.trace.input).or_default() += 1;
        *in_process.entry((candidate.trace.input, candidate.trace.pid)).or_default() += 1;
    }
    let mut numbered: Vec<RankTrace> = Vec::with_capacity(candidates.len());
    let mut unnumbered: Vec<RankTrace> = Vec::new();
    for Candidate { mut trace, clues } in candidates {
        let alone_in_report = in_report[&trace.input] == 1;
        // Where a report holds more ranks than its environment says, that one counts launchers (SLURM_NTASKS around torchrun).
        trace.world_size =
            trace.world_size.filter(|&world| world as usize >= in_report[&trace.input]);
        let alone_in_process = in_process[&(trace.input, trace.pid)] == 1;
        // A number in the name that is the process's own (`report.4321.sqlite`) says nothing of its rank.
        let from_name = || {
            let number = alone_in_report.then(|| number_in(&pattern, &trace.report)).flatten();
            number.filter(|number| own_pattern || *number != trace.pid)
        };
        let found = None
            // Asked for by the user: it overrides what the capture says.
            .or_else(|| {
                own_pattern.then(from_name).flatten().map(|rank| (RankSource::FileName, rank))
            })
            .or_else(|| clues.mpi.filter(|_| alone_in_process).map(|rank| (RankSource::Mpi, rank)))
            .or_else(|| clues.nccl.map(|rank| (RankSource::NcclInit, rank)))
            .or_else(|| {
                clues
                    .environment
                    .filter(|_| alone_in_report)
                    .map(|(name, rank)| (RankSource::Environment(name), rank))
            })
            .or_else(|| from_name().map(|rank| (RankSource::FileName, rank)));
        match found {
            Some((source, rank)) => {
                (trace.rank, trace.rank_source) = (rank, source);
                numbered.push(trace);
            }
            None => unnumbered.push(trace),
        }
    }
    if let Some(text) = rank_regex
        .filter(|_| !numbered.iter().any(|trace| trace.rank_source == RankSource::FileName))
    {
        let name = numbered
            .iter()
            .chain(&unnumbered)
            .map(|trace| trace.report.as_str())
            .min()
            .unwrap_or_default();
        return Err(Error::usage(format!(
            "--rank-regex '{text}' finds no rank in any file name, e.g. '{name}'"
        ))
        .with_hint(
            "the group must match digits; a report that holds several ranks has none in its name",
        ));
    }
    refuse_doubles(&numbered)?;
    let warnings = number_the_rest(&mut numbered, unnumbered);
    numbered.sort_by_key(|trace| trace.rank);
    Ok((numbered, warnings))
}

fn file_pattern(text: &str) -> Result<Regex> {
    let pattern = Regex::new(text).map_err(|e| {
        Error::usage(format!(
            "--rank-regex is not a regular expression: {}",
            crate::text::regex_fault(&e)
        ))
    })?;
    match pattern.capture_names().flatten().any(|name| name == "rank") {
        true => Ok(pattern),
        false => Err(Error::usage("--rank-regex has no group named 'rank'")
            .with_hint(r"write for example --rank-regex 'gpu(?P<rank>\d+)'")),
    }
}

fn number_in(pattern: &Regex, file_name: &str) -> Option<u32> {
    pattern.captures(file_name)?.name("rank")?.as_str().parse().ok()
}

fn refuse_doubles(traces: &[RankTrace]) -> Result<()> {
    let mut seen: BTreeMap<u32, &RankTrace> = BTreeMap::new();
    for trace in traces {
        if let Some(other) = seen.insert(trace.rank, trace) {
            let mut claims = [other, trace]
                .map(|t| format!("{} (process {}, {})", t.report, t.pid, t.rank_source.label()));
            claims.sort();
            return Err(Error::inputs(format!("two inputs claim rank {}: {} and {}", trace.rank, claims[0], claims[1])).with_hint(
                "give the reports of one run only (several runs: nsysnccl compare), or name the ranks: --rank-regex '(?P<rank>\\d+)'",
            ));
        }
    }
    Ok(())
}

/// Traces of which nothing says the rank take the free numbers in order of (file, process, device).
fn number_the_rest(numbered: &mut Vec<RankTrace>, mut rest: Vec<RankTrace>) -> Vec<Warning> {
    if rest.is_empty() {
        return Vec::new();
    }
    rest.sort_by_key(|a| (a.input, a.pid, a.device));
    let taken: BTreeSet<u32> = numbered.iter().map(|trace| trace.rank).collect();
    let mut free = (0u32..).filter(|rank| !taken.contains(rank));
    let mut given = Vec::new();
    let only_one = numbered.is_empty() && rest.len() == 1;
    for mut trace in rest {
        trace.rank = free.next().unwrap_or(u32::MAX);
        trace.rank_source = RankSource::Order;
        given.push(format!(
            "{} (process {}, device {}) = rank {}",
            trace.report, trace.pid, trace.device, trace.rank
        ));
        numbered.push(trace);
    }
    if only_one {
        // One trace is rank 0, whatever its number in a larger run: nothing can be confused.
        return Vec::new();
    }
    vec![
        Warning::new(
            Id::RankByOrder,
            format!("Nothing in the capture says the rank; numbered in order of file, process and device: {}.", units::listed(&given, NAMED)),
        )
        .with_hint("Capture one report for each rank with -o NAME_%q{RANK}, or export with --include-json true, or use --rank-regex."),
    ]
}

/// True if the file's name ends in a rank number.
pub(crate) fn has_rank_in_name(path: &Path) -> bool {
    Regex::new(FILE_NAME)
        .is_ok_and(|pattern| number_in(&pattern, &super::nsys::file_name(path)).is_some())
}
