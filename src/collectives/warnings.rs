//! What a reader has to know before trusting numbers across ranks.

use super::analyse::Across;
use super::clocks::Refused;
use super::events::Event;
use super::matches::{Alone, Reason};
use super::pairing::PairedBy;
use crate::catalogue::Id;
use crate::model::input::Input;
use crate::model::{CommOp, Ns, RankTrace};
use crate::units;
use crate::warning::Warning;

/// Clocks that are further apart than this are worth a word, ns.
const SKEW_NS: Ns = 1_000_000;
/// Ranks that a warning names one by one.
const NAMED: usize = 8;

/// All of them.
pub(crate) fn warnings(
    across: &Across,
    traces: &[&RankTrace],
    events: &[&[Event]],
    inputs: &[Input],
) -> Vec<Warning> {
    let mut list = unmatched(across);
    list.extend(steps_paired(across));
    list.extend(clocks(across, traces));
    list.extend(leave_apart(across, traces));
    list.extend(communicators(across, traces, events));
    list.extend(no_payloads(inputs, events));
    list
}

/// `3 on rank 0, 1 on rank 5 and 4 on others`.
fn by_rank<'a>(counts: impl Iterator<Item = (&'a u32, &'a u64)>) -> String {
    let all: Vec<(u32, u64)> = counts.map(|(rank, count)| (*rank, *count)).collect();
    let shown: Vec<String> =
        all.iter().take(NAMED).map(|(rank, count)| format!("{count} on rank {rank}")).collect();
    let rest: u64 = all.iter().skip(NAMED).map(|(_, count)| *count).fold(0, u64::saturating_add);
    if rest > 0 { format!("{} and {rest} on others", shown.join(", ")) } else { shown.join(", ") }
}

fn unmatched(across: &Across) -> Vec<Warning> {
    let one = |(reason, alone): (&Reason, &Alone)| {
        let (counts, why, example) =
            (by_rank(alone.by_rank.iter()), reason.label(), &alone.example);
        let message = format!(
            "Communication operations without a partner: {counts}. Reason: {why} (for example {example})."
        );
        let warning = Warning::new(Id::CollectivesUnmatched, message);
        match reason {
            Reason::Absent | Reason::OwnNumber => warning.with_hint("Give the reports of all ranks of the run."),
            Reason::LeavesAlone => warning.with_hint("Export with --include-json true: payloads name the communicator."),
            Reason::NoClock => warning.with_hint("Name steps by a number in their NVTX range, or use --step with such ranges."),
            Reason::NotTogether if !across.sure_steps => warning.with_hint(
                "Operations that ranks may leave early (Broadcast, Reduce) are matched only where steps have a number in their name.",
            ),
            Reason::Unequal | Reason::NotTogether | Reason::Chained => {
                warning.with_hint("Ranks may have been captured for different parts of the run, or rows were lost.")
            }
        }
    };
    across.matching.alone.iter().map(one).collect()
}

fn clocks(across: &Across, traces: &[&RankTrace]) -> Vec<Warning> {
    let mut list = Vec::new();
    if traces.len() < 2 {
        return list;
    }
    let without: Vec<u32> =
        traces.iter().filter(|t| t.epoch_ns.is_none()).map(|t| t.rank).collect();
    if !without.is_empty() {
        let message = format!(
            "The reports of {} have no start time: clocks there rest on matched collectives alone, and no offset is given.",
            ranks(&without)
        );
        list.push(Warning::new(Id::NoStartTime, message));
    }
    let known: Vec<(Ns, usize)> =
        across.clocks.iter().enumerate().filter_map(|(r, c)| Some((c.offset_ns()?, r))).collect();
    if let (Some(&least), Some(&most)) = (
        known.iter().min(),
        known.iter().max_by_key(|(offset, r)| (*offset, std::cmp::Reverse(*r))),
    ) && most.0.saturating_sub(least.0) > SKEW_NS
    {
        let (early, late) = (&traces[least.1], &traces[most.1]);
        let apart = units::time(most.0.saturating_sub(least.0));
        // A clock that is too far ahead gets a negative correction.
        let message = format!(
            "By the ends of matched collectives the clock of rank {} is {apart} ahead of that of rank {}; times are corrected by that.",
            early.rank, late.rank
        );
        let warning = Warning::new(Id::ClocksApart, message);
        list.push(if early.hostname.is_some() && early.hostname == late.hostname {
            warning.with_hint("Both reports name one host, whose clock cannot be apart from itself: are they of the same part of the run?")
        } else {
            warning.with_hint("The hosts' clocks are not synchronised (NTP or PTP).")
        });
    }
    let unlinked: Vec<u32> = (0..traces.len())
        .filter(|&r| {
            across.clocks[r].collectives == 0
                && (0..traces.len()).any(|k| !across.clocks[r].comparable(&across.clocks[k]))
        })
        .map(|r| traces[r].rank)
        .collect();
    if !unlinked.is_empty() && across.clocks.iter().any(|c| c.collectives > 0) {
        let message = format!(
            "No collective that ranks leave together links {} to the others, so their clocks are not compared.",
            ranks(&unlinked)
        );
        list.push(Warning::new(Id::ClockUnknown, message));
    }
    list
}

/// What would be offsets between clocks is none on one machine.
fn leave_apart(across: &Across, traces: &[&RankTrace]) -> Vec<Warning> {
    let one = |refused: &Refused| {
        let list: Vec<u32> = refused.ranks.iter().map(|&rank| traces[rank].rank).collect();
        let message = format!(
            "By the ends of matched collectives the times of {} are {} apart, but they run on one machine: these ranks do not leave their collectives together, and no time is corrected by that.",
            ranks(&list),
            units::time(refused.apart)
        );
        Warning::new(Id::RanksLeaveApart, message).with_hint(
            "Ranks that share a GPU take turns on it; who came last is told only where ranks are further apart than that.",
        )
    };
    across.refused.iter().map(one).collect()
}

/// Steps that are not paired by their texts.
fn steps_paired(across: &Across) -> Option<Warning> {
    let why = match across.steps_paired_by {
        PairedBy::Text => return None,
        PairedBy::OverlapFewShared => "The texts of steps differ between ranks",
        PairedBy::OverlapTextsApart => {
            "Steps with equal texts do not run at the same time on all ranks"
        }
    };
    Some(
        Warning::new(
            Id::StepsPairedByTime,
            format!("{why}: steps that run at the same time are taken for one step of the run, whatever their texts say."),
        )
        .with_hint("A text that holds the number of the step, and nothing else that differs between ranks, needs no such guess."),
    )
}

/// `rank 3`, `ranks 0-2, 5`.
fn ranks(list: &[u32]) -> String {
    format!("{} {}", if list.len() == 1 { "rank" } else { "ranks" }, units::rank_list(list))
}

fn communicators(across: &Across, traces: &[&RankTrace], events: &[&[Event]]) -> Vec<Warning> {
    let mut list = Vec::new();
    let sized = events
        .iter()
        .copied()
        .flatten()
        .any(|event| event.bytes.is_some() && event.op != CommOp::SendRecv);
    if across.communicators.assumed && sized {
        list.push(
            Warning::new(
                Id::CommunicatorSizeAssumed,
                format!(
                    "Nothing in the capture says how many ranks the run has: it is taken to have the {} that are here, which busbw depends on.",
                    traces.len()
                ),
            )
            .with_hint("Capture with WORLD_SIZE in the environment, or include the making of communicators in the capture."),
        );
    }
    let steps_counted = !across.sure_steps && !across.measured.is_empty();
    let moved = across.measured.iter().filter(|m| m.found.step.is_none()).count();
    if steps_counted && 2 * moved > across.measured.len() {
        list.push(
            Warning::new(
                Id::StepsShifted,
                "Collectives that run at the same time lie in steps of different number: captures of the ranks begin at different steps.",
            )
            .with_hint(
                "Steps without a number in their name are only counted: name them by number, or capture the same steps on every rank.",
            ),
        );
    }
    list
}

/// Sizes come from payloads, which a default export leaves out.
fn no_payloads(inputs: &[Input], events: &[&[Event]]) -> Option<Warning> {
    let communicates = events.iter().any(|list| !list.is_empty());
    let without = events.iter().copied().flatten().all(|event| event.bytes.is_none());
    (communicates && without && inputs.iter().all(|input| !input.capture.nccl_payloads)).then(|| {
        Warning::new(Id::NoPayloads, "The exports carry no NCCL payloads: sizes and bandwidths are not known.")
            .with_hint("Export again with: nsys export --type sqlite --include-blobs true --include-json true --force-overwrite true REPORT.nsys-rep; or give Inspector logs (--inspector of report, inspector in compare's manifest).")
    })
}
