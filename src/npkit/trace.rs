//! The JSON that NPKit's own generator makes of a dump. Its times are floating-point microseconds since 1970, which step by 0.25:
//! the dump itself is better. It has no clock records, so that collectives are told apart by gaps.

use std::collections::BTreeMap;
use std::fmt;
use std::io::BufReader;
use std::path::Path;

use serde::Deserialize;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use super::dump::Dump;
use super::ids::{Ids, is_whole};
use super::lane::{Lane, Span, is_time};
use super::proxy::Proxy;
use super::read::{MOST_LANES, MOST_PROXIES};
use crate::catalogue::Id;
use crate::ingest::open;
use crate::units;
use crate::warning::Warning;
use crate::{Error, Result};

/// A channel that does nothing for longer than this is between two collectives, ns.
const GAP: i64 = 5_000;
/// Threads of the trace that are followed, and spans that are open at once in one.
const MOST_THREADS: usize = 100_000;
const OPEN: usize = 64;

/// Reads the generator's JSON.
///
/// # Errors
/// The file cannot be read, is not JSON, or has no event of NPKit.
pub fn read(path: &Path) -> Result<Dump> {
    let file = open::open(path)?;
    let mut reader = Trace::new();
    let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 18, file));
    (&mut reader).deserialize(&mut json).map_err(|e| {
        Error::input(path, format!("is not a trace of NPKit's generator: {e}")).with_hint(
            "name the folder of the dump, or the npkit_event_trace.json that was made of it",
        )
    })?;
    let dump = reader.finish();
    if dump.events == 0 {
        return Err(Error::input(path, "has no event of NPKit"));
    }
    Ok(dump)
}

#[derive(Deserialize)]
struct Event {
    ph: String,
    ts: Option<f64>,
    #[serde(default)]
    pid: u32,
    #[serde(default)]
    tid: u64,
    name: Option<String>,
    cat: Option<String>,
    #[serde(default)]
    args: Args,
}

#[derive(Deserialize, Default)]
struct Args {
    rank: Option<u32>,
    buf_idx: Option<u32>,
    channel: Option<u32>,
    size: Option<u64>,
    size_0: Option<u64>,
}

struct Open {
    entry: u8,
    start_ns: i64,
    size: u64,
    outermost: bool,
}

#[derive(Default)]
struct Thread {
    rank: u32,
    channel: u32,
    gpu: bool,
    open: Vec<Open>,
    lane: Option<Lane>,
}

struct Trace {
    dump: Dump,
    names: BTreeMap<String, u8>,
    threads: BTreeMap<(u32, u64), Thread>,
    kept: (usize, usize),
    unpaired: u64,
}

impl Trace {
    fn new() -> Self {
        Self {
            dump: Dump {
                ids: Ids::of_names(&BTreeMap::new()),
                exact: false,
                ranks: BTreeMap::new(),
                events: 0,
                problems: Vec::new(),
                full: false,
            },
            names: BTreeMap::new(),
            threads: BTreeMap::new(),
            kept: (0, 0),
            unpaired: 0,
        }
    }

    fn event(&mut self, event: &Event) {
        let Some(now) = event.ts.map(nanoseconds).filter(|&ns| is_time(ns)) else { return };
        let key = (event.pid, event.tid);
        match event.ph.as_str() {
            "B" => {
                let Some(entry) = event.name.as_deref().and_then(|name| self.number(name)) else {
                    return;
                };
                if !self.threads.contains_key(&key) && self.threads.len() >= MOST_THREADS {
                    return;
                }
                let rank = event.args.rank.unwrap_or(event.pid);
                self.count(rank);
                let thread = self.threads.entry(key).or_default();
                thread.rank = rank;
                thread.gpu = event.cat.as_deref() != Some("CPU");
                thread.channel = event.args.buf_idx.or(event.args.channel).unwrap_or(0);
                let whole = |open: &Open| {
                    self.names.iter().any(|(name, id)| *id == open.entry && is_whole(name))
                };
                let outermost = thread.open.iter().all(whole);
                let idle = thread.open.is_empty();
                let gap =
                    thread.lane.as_ref().is_some_and(|lane| now.saturating_sub(lane.end_ns) > GAP);
                let before = if idle && gap { thread.lane.take() } else { None };
                if thread.gpu {
                    let lane = thread.lane.get_or_insert_with(|| Lane::new(thread.channel, now));
                    lane.records += 1;
                    lane.end_ns = lane.end_ns.max(now);
                }
                if thread.open.len() < OPEN {
                    let size = event.args.size_0.unwrap_or(0);
                    thread.open.push(Open { entry, start_ns: now, size, outermost });
                }
                self.keep(rank, before);
            }
            "E" => {
                let Some(thread) = self.threads.get_mut(&key) else {
                    self.unpaired += 1;
                    return;
                };
                let rank = thread.rank;
                let Some(open) = thread.open.pop() else {
                    self.unpaired += 1;
                    self.count(rank);
                    return;
                };
                let span = Span {
                    entry: open.entry,
                    start_ns: open.start_ns,
                    end_ns: now.max(open.start_ns),
                    size: event.args.size.unwrap_or(0),
                    // Ticks, and the trace does not say how long one is.
                    rsvd_ns: 0,
                    wrapped: false,
                    outermost: open.outermost,
                };
                let (gpu, channel) = (thread.gpu, thread.channel);
                if let (true, Some(lane)) = (gpu, &mut thread.lane) {
                    lane.records += 1;
                    lane.end_ns = lane.end_ns.max(span.end_ns);
                    lane.add(&span);
                }
                self.count(rank);
                let of_rank = self.dump.ranks.entry(rank).or_default();
                let total = of_rank.totals.entry(span.entry).or_default();
                total.add(span.end_ns - span.start_ns, span.size, 0, false);
                if !gpu {
                    total.same_size += u64::from(span.size == open.size);
                    if self.kept.1 < MOST_PROXIES {
                        self.kept.1 += 1;
                        let small = |size: u64| u32::try_from(size).unwrap_or(u32::MAX);
                        of_rank.proxies.push(Proxy {
                            start_ns: span.start_ns,
                            end_ns: span.end_ns,
                            channel,
                            entry: span.entry,
                            posted: small(open.size),
                            size: small(span.size),
                        });
                    } else {
                        of_rank.left_out += 1;
                    }
                }
            }
            _ => {}
        }
    }

    fn count(&mut self, rank: u32) {
        self.dump.ranks.entry(rank).or_default().events += 1;
        self.dump.events += 1;
    }

    /// The number of an event's name; there are fewer than 256.
    fn number(&mut self, name: &str) -> Option<u8> {
        let name = name.strip_prefix("NPKIT_EVENT_")?;
        let name = name.strip_suffix("_ENTRY").unwrap_or(name);
        if let Some(known) = self.names.get(name) {
            return Some(*known);
        }
        let next = u8::try_from(self.names.len()).ok()?;
        self.names.insert(crate::text::printable(name).into_owned(), next);
        Some(next)
    }

    fn keep(&mut self, rank: u32, lane: Option<Lane>) {
        let Some(lane) = lane else { return };
        let of_rank = self.dump.ranks.entry(rank).or_default();
        if self.kept.0 < MOST_LANES {
            self.kept.0 += 1;
            of_rank.lanes.push(lane);
        } else {
            of_rank.left_out += 1;
        }
    }

    fn finish(mut self) -> Dump {
        for thread in std::mem::take(&mut self.threads).into_values() {
            self.unpaired += thread.open.len() as u64;
            self.keep(thread.rank, thread.lane);
        }
        let mut dump = self.dump;
        dump.ids = Ids::of_names(&self.names);
        for rank in dump.ranks.values_mut() {
            rank.lanes.sort_by_key(|lane| (lane.start_ns, lane.channel));
            rank.proxies.sort_unstable();
        }
        dump.problems.push(
            Warning::new(
                Id::RoundedTimes,
                "The generator's JSON lost precision: its times step by 0.25 µs, it drops clock records, and waiting is in ticks of unknown length. Collectives are told apart by gaps of more than 5 µs.",
            )
            .with_hint("Give the folder of the dump instead, which has every number whole."),
        );
        if self.unpaired > 0 {
            dump.problems.push(Warning::new(
                Id::UnpairedEvents,
                format!(
                    "{} events begin or end without their other half.",
                    units::count(self.unpaired)
                ),
            ));
        }
        dump
    }
}

/// The object around the events; other keys are skipped.
impl<'de> DeserializeSeed<'de> for &mut Trace {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> std::result::Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Trace {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with traceEvents")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        let mut any = false;
        while let Some(key) = map.next_key::<String>()? {
            if key == "traceEvents" {
                any = true;
                map.next_value_seed(Events(self))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        if any { Ok(()) } else { Err(A::Error::missing_field("traceEvents")) }
    }
}

/// The events, one after the other: a trace may be larger than memory.
struct Events<'t>(&'t mut Trace);

impl<'de> DeserializeSeed<'de> for Events<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> std::result::Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Events<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> std::result::Result<(), A::Error> {
        while let Some(event) = list.next_element::<Event>()? {
            self.0.event(&event);
        }
        Ok(())
    }
}
/// Microseconds since 1970 as nanoseconds: whole ones and the rest apart, since their product would be rounded to 256 ns.
fn nanoseconds(us: f64) -> i64 {
    (us.trunc() as i64).saturating_mul(1_000).saturating_add((us.fract() * 1e3).round() as i64)
}
