//! The steps to move in, as the page's script reads them: one JSON object in which lists of numbers are base64 of
//! variable-length integers (LEB128), so that an operation takes some bytes. Times are ns, each begin as the distance from the one before it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::render::units;
use crate::report::timeline::{Collective, RankLanes, SHOWN_RANKS, StepLanes, Timeline, What};

/// Numbers as bytes: seven bits each, the lowest first, the eighth says that more follow.
#[derive(Default)]
struct Numbers(Vec<u8>);

impl Numbers {
    fn put(&mut self, number: u64) {
        let mut rest = number;
        while rest >= 0x80 {
            self.0.push((rest & 0x7f) as u8 | 0x80);
            rest >>= 7;
        }
        self.0.push(rest as u8);
    }

    /// Times before the begin are at it.
    fn time(&mut self, ns: i64) {
        self.put(u64::try_from(ns).unwrap_or(0));
    }

    /// 0 is "not known", everything else one more than it is.
    fn maybe(&mut self, number: Option<u64>) {
        self.put(number.map_or(0, |n| n.saturating_add(1)));
    }

    fn text(&self) -> String {
        STANDARD.encode(&self.0)
    }
}

/// The data of the page's script. No end of a script can be in it, whatever names hold.
pub(super) fn json(timeline: &Timeline) -> String {
    let steps: Vec<Value> = timeline.steps.iter().map(step).collect();
    let all = json!({
        "names": timeline.names,
        "ranks": timeline.ranks,
        "first": timeline.first,
        "oneClock": timeline.one_clock,
        "shown": SHOWN_RANKS,
        "steps": steps,
    });
    all.to_string()
        .replace('<', "\\u003c")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

fn step(step: &StepLanes) -> Value {
    let mut path = Numbers::default();
    let mut at = 0;
    for piece in &step.path {
        path.time(piece.start - at);
        path.time(piece.end - piece.start);
        path.put(piece.rank as u64);
        path.put(u64::from(piece.part));
        at = piece.start;
    }
    let mut collectives = Numbers::default();
    step.collectives.iter().for_each(|one| collective(&mut collectives, one));
    json!({
        "index": step.index,
        "name": step.name,
        "outlier": step.outlier,
        "counted": step.counted,
        "ns": step.step_ns,
        "end": step.end,
        "matter": step.matter,
        "ranks": step.ranks.iter().map(rank).collect::<Vec<_>>(),
        "collectives": collectives.text(),
        "path": path.text(),
    })
}

fn collective(out: &mut Numbers, one: &Collective) {
    let ns = |ns: Option<i64>| ns.and_then(|ns| u64::try_from(ns).ok());
    out.maybe(one.comm.map(u64::from));
    out.maybe(one.n_ranks.map(u64::from));
    out.maybe(ns(one.transfer_ns));
    // Decimal MB/s, whole.
    out.maybe(one.busbw_gbs.map(|gbs| (gbs * 1e3).round() as u64));
    out.maybe(one.last.map(|at| at as u64));
    out.maybe(ns(one.arrival_spread_ns));
}

fn rank(rank: &RankLanes) -> String {
    let mut out = Numbers::default();
    out.time(rank.window.0);
    out.time(rank.window.1);
    out.time(rank.resolution_ns);
    out.put(rank.left_out);
    for lane in rank.lanes.iter().chain([&rank.channels]) {
        out.put(lane.len() as u64);
        let mut at = 0;
        for item in lane {
            out.time(item.start - at);
            out.time(item.ns);
            at = item.start;
            what(&mut out, item.what);
        }
    }
    // By counter, each in order of time.
    out.put(rank.counters.len() as u64);
    for item in &rank.counters {
        out.time(item.start);
        out.time(item.ns);
        what(&mut out, item.what);
    }
    out.text()
}

fn what(out: &mut Numbers, what: What) {
    match what {
        What::Merged { count, busy_ns } => {
            out.put(0);
            out.put(count);
            out.time(busy_ns);
        }
        What::Named(name) => {
            out.put(1);
            out.put(u64::from(name));
        }
        What::Copy { name, bytes } => {
            out.put(2);
            out.put(u64::from(name));
            out.put(bytes);
        }
        What::Level { name, percent_100, count } => {
            out.put(4);
            out.put(u64::from(name));
            out.put(percent_100);
            out.put(count);
        }
        What::Comm { name, op, bytes, wait_ns, collective } => {
            out.put(3);
            out.put(u64::from(name));
            out.put(u64::from(op));
            out.maybe(bytes);
            out.maybe(wait_ns.and_then(|ns| u64::try_from(ns).ok()));
            out.maybe(collective.map(u64::from));
        }
    }
}

/// What the timeline holds and what it leaves out.
pub(super) fn said(timeline: &Timeline) -> Vec<String> {
    let mut said = vec![match timeline.one_clock {
        true if timeline.ranks.len() > 1 => "All ranks are on one clock: that of the aligned ends of collectives.".to_owned(),
        true => String::new(),
        false => "The clocks of the ranks cannot be compared: each rank begins with its own window, and positions of different ranks say nothing about each other.".to_owned(),
    }];
    if timeline.steps.len() < timeline.all_steps {
        said.push(format!(
            "{} of {} steps are here: the median, the fastest, the slowest, outliers, and others evenly. --steps 5-7 puts others in.",
            timeline.steps.len(),
            units::count(timeline.all_steps as u64)
        ));
    }
    let lanes = || timeline.steps.iter().flat_map(|step| &step.ranks);
    if let Some(coarsest) = lanes().map(|rank| rank.resolution_ns).max().filter(|&ns| ns > 0) {
        said.push(format!(
            "To keep the page small, neighbours that are short and close (less than {}, depending on the step) are one block that says how many it stands for; --steps of fewer steps shows more.",
            units::time(coarsest)
        ));
    }
    let left_out: u64 = lanes().map(|rank| rank.left_out).sum();
    if left_out > 0 {
        said.push(format!(
            "{} found no room and are left out: the shortest of those that overlap.",
            units::plural(left_out as usize, "operation")
        ));
    }
    if let Some(ns) = timeline.steps.iter().map(|s| s.path_resolution_ns).max().filter(|&ns| ns > 0)
    {
        said.push(format!(
            "Pieces of the critical path shorter than {} are drawn with the piece before them.",
            units::time(ns)
        ));
    }
    if timeline.no_path {
        said.push("Without a replay on one clock there is no critical path to draw.".to_owned());
    }
    said.retain(|sentence| !sentence.is_empty());
    said
}
