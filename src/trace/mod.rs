//! A run as a trace for Perfetto and chrome://tracing: Trace Event Format, one process a rank, all on one clock.
//!
//! ```text
//! Run --origins--> where time 0 is --rank--> slices on tracks (lanes), counters, arrows from launches --writer--> JSON
//! NPKit's dump -> channels, sampled counters ---^
//!                                    '-- arrows through the ranks of each collective
//! ```
//!
//! Times are on the clock that the run's collectives give (definitions of metrics, section 6), ns after the earliest thing in
//! the capture; ranks whose clocks cannot be compared begin together, and their labels say so. Where clocks run at different
//! speeds, a duration differs from the report's own by that speed.

pub mod active;
pub mod communication;
pub mod lanes;
mod rank;
pub mod times;
pub mod writer;

use std::io::{self, Write};

use crate::collectives::events::Event;
use crate::counters::samples;
use crate::model::Ns;
use crate::npkit::lanes::lanes as channel_lanes;
use crate::redact;
use crate::report::{build, counted};
use crate::run::Run;
use crate::text::printable;

use rank::{Drawn, Inside};
use times::Times;
use writer::{Args, Counts, Flow, Track, Writer};

/// What of a run is drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Operations, calls, ranges and waits shorter than this are left out, ns. Steps and critical paths are whole.
    pub min_ns: Ns,
}

/// Writes a run. Nothing but the run and a few numbers for each collective and call is held.
///
/// # Errors
/// `out` cannot be written to.
pub fn write(run: &Run, options: Options, out: &mut dyn Write) -> io::Result<Counts> {
    let times = Times::new(run);
    let events: Vec<&[Event]> = run.ranks.iter().map(|r| r.measured.events.as_slice()).collect();
    // For each operation of each rank the match that it is in, and its place among the members.
    let mut matched: Vec<Vec<Option<(u32, u32)>>> =
        events.iter().map(|list| vec![None; list.len()]).collect();
    for (at, one) in run.across.measured.iter().enumerate() {
        for (position, member) in one.found.members.iter().enumerate() {
            matched[member.rank][member.event] = Some((at as u32, position as u32));
        }
    }
    let channels = build::npkit(run).map_or_else(Vec::new, |joined| channel_lanes(&joined));
    let samples = samples::samples(&counted::work(run), &run.sampled);
    let mut writer = Writer::new(out)?;
    let mut drawn: Vec<Drawn> = Vec::with_capacity(run.ranks.len());
    for (at, matched) in matched.iter().enumerate() {
        let number = run.ranks[at].trace.rank;
        let inside = Inside {
            matched,
            channels: channels.iter().filter(|lane| lane.rank == number).collect(),
            samples: samples.iter().filter(|sample| sample.rank == number).collect(),
        };
        drawn.push(rank::write(run, at, &times, &events, &inside, options, &mut writer)?);
    }
    collectives(run, &times, &events, &drawn, &mut writer)?;
    writer.finish(|counts| about(run, &times, options, counts))
}

/// An arrow through the ranks of each collective, in the order in which they arrive: it ends where the last one begins.
fn collectives(
    run: &Run,
    times: &Times<'_>,
    events: &[&[Event]],
    drawn: &[Drawn],
    writer: &mut Writer<'_>,
) -> io::Result<()> {
    for one in &run.across.measured {
        let mut places: Vec<(Ns, usize, Track)> = Vec::with_capacity(one.found.members.len());
        for member in &one.found.members {
            let Some(track) = drawn[member.rank.0].event(member.event) else { continue };
            let start = times.at(member.rank.0, events[member.rank][member.event].start);
            places.push((start, member.rank.0, track));
        }
        let is_one_clock =
            places.iter().all(|(_, rank, _)| times.group(*rank) == times.group(places[0].1));
        if places.len() < 2 || !is_one_clock {
            continue;
        }
        places.sort_unstable_by_key(|&(start, rank, _)| (start, rank));
        let (id, last) = (writer.new_flow(), places.len() - 1);
        for (position, &(start, _, track)) in places.iter().enumerate() {
            let place = match position {
                0 => Flow::Start,
                position if position == last => Flow::End,
                _ => Flow::Step,
            };
            writer.flow(track, "collective", id, place, start)?;
        }
    }
    Ok(())
}

/// What the file says about itself.
fn about(run: &Run, times: &Times<'_>, options: Options, counts: &Counts) -> Args {
    let shown = |text: &str| printable(&redact::text(text)).into_owned();
    let mut args = Args::default();
    args.text("tool", concat!("nsysnccl ", env!("CARGO_PKG_VERSION")))
        .text("run", &shown(&run.name))
        .text("step_pattern", &shown(&run.rule.pattern))
        .json("min_us", &format!("{:.3}", options.min_ns as f64 / 1000.0))
        .json("time_0_ns", &times.origins())
        .json("counts", &serde_json::to_string(counts).unwrap_or_default());
    match &run.dependency.replay.reason {
        Some(reason) => args.text("no_critical_path", reason),
        None => args.json("no_critical_path", "null"),
    };
    args
}
