//! Every event against the JSON that NPKit's own generator makes of the same dump.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nsysnccl::internals::npkit::ids::{Ids, Library};
use nsysnccl::internals::npkit::lane::{self, Clocks};
use nsysnccl::internals::npkit::{files, proxy, record, trace};
use serde_json::Value;

/// Times of the generator are microseconds since 1970 as floating-point numbers: they step by 0.25 µs, so that a difference of two
/// is off by as much.
const ROUNDING_NS: i64 = 250;
/// A time of the generator is `cpu/1000 + tick/scale - base/scale`, and each of the three is rounded: computed in exact fractions, the
/// times of the handed traces are off by up to 0.46 µs and durations by up to 0.60 µs.
const TIME_NS: i64 = 2 * ROUNDING_NS;
const DURATION_NS: i64 = 5 * ROUNDING_NS / 2;

/// Names with durations (ns), by rank, CPU or GPU, and buffer or channel, in order of their starts.
type Events = BTreeMap<(u64, String, u64), Vec<(i64, String, i64)>>;

/// Those of a dump, as this program reads it.
fn read(folder: &Path) -> Events {
    let ids = Ids::of(Library::Msccl);
    let mut events = Events::new();
    for (rank, of_rank) in files::find(&[folder.to_owned()]).expect("a dump") {
        let clocks = Clocks {
            gpu_khz: of_rank.gpu_khz.expect("a rate"),
            cpu_period: of_rank.period_num.zip(of_rank.period_den).expect("a period"),
        };
        for (&buffer, path) in &of_rank.gpu {
            let list = events.entry((rank.into(), "GPU".into(), buffer.into())).or_default();
            let mut reader = lane::Reader::new(&ids, clocks, buffer);
            record::for_each(path, |record| {
                reader.feed(&record, |span| {
                    let name = ids.name(span.entry).to_owned();
                    list.push((span.start_ns, name, span.end_ns - span.start_ns));
                });
            })
            .expect("records");
        }
        for (&channel, path) in &of_rank.cpu {
            let list = events.entry((rank.into(), "CPU".into(), channel.into())).or_default();
            let mut reader = proxy::Reader::new(&ids, clocks, channel);
            record::for_each(path, |record| {
                if let Some(proxy) = reader.feed(&record) {
                    list.push((proxy.start_ns, ids.name(proxy.entry).to_owned(), proxy.ns()));
                }
            })
            .expect("records");
        }
    }
    events.retain(|_, list| !list.is_empty());
    events
}

/// Microseconds since 1970 as nanoseconds. The product of the whole number would be rounded once more: to 256 ns.
fn nanoseconds(us: f64) -> i64 {
    us.trunc() as i64 * 1_000 + (us.fract() * 1e3).round() as i64
}

/// Those of the generator: a `B` and the next `E` of the same thread.
fn generated(path: &Path) -> Events {
    let text = std::fs::read_to_string(path).expect("a trace");
    let json: Value = serde_json::from_str(&text).expect("JSON");
    let mut open: BTreeMap<(u64, u64), Vec<&Value>> = BTreeMap::new();
    let mut events = Events::new();
    for event in json["traceEvents"].as_array().expect("events") {
        let thread = (event["pid"].as_u64().expect("pid"), event["tid"].as_u64().expect("tid"));
        if event["ph"] == "B" {
            open.entry(thread).or_default().push(event);
            continue;
        }
        let begin = open.get_mut(&thread).and_then(Vec::pop).expect("a beginning");
        let ns = |event: &Value| nanoseconds(event["ts"].as_f64().expect("ts"));
        let args = &begin["args"];
        let place = args["buf_idx"].as_u64().or(args["channel"].as_u64()).expect("a place");
        let kind = begin["cat"].as_str().expect("cat").to_owned();
        let name = begin["name"].as_str().expect("name");
        let name = name.trim_start_matches("NPKIT_EVENT_").trim_end_matches("_ENTRY").to_owned();
        let list = events.entry((args["rank"].as_u64().expect("rank"), kind, place)).or_default();
        list.push((ns(begin), name, ns(event) - ns(begin)));
    }
    events
}

/// Folders with a dump and what the generator made of it.
fn pairs() -> Vec<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/npkit");
    let mut folders = vec![own.join("sendrecv"), own.join("synthetic")];
    if let Some(captures) = crate::support::captures() {
        folders.extend(["p2p", "shm", "slow"].map(|name| captures.join("npkit-real").join(name)));
    }
    folders
}

#[test]
fn every_event_has_the_name_rank_channel_and_duration_of_the_generator() {
    for folder in pairs() {
        let mut ours = read(&folder.join("dump"));
        let mut theirs = generated(&folder.join("npkit_event_trace.json"));
        assert!(!ours.is_empty());
        assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
        for (place, ours) in &mut ours {
            let theirs = theirs.get_mut(place).expect("the same place");
            ours.sort();
            theirs.sort();
            assert_eq!(ours.len(), theirs.len(), "{place:?}");
            for (our, their) in ours.iter().zip(theirs.iter()) {
                assert_eq!(our.1, their.1, "{place:?} of {folder:?}");
                let off = ((our.0 - their.0).abs(), (our.2 - their.2).abs());
                assert!(off.0 <= TIME_NS && off.1 <= DURATION_NS, "{our:?} {their:?}");
            }
        }
    }
}

#[test]
fn the_generators_json_gives_the_same_phases_and_says_that_it_is_less_exact() {
    for folder in pairs() {
        let path = folder.join("npkit_event_trace.json");
        let rounded = trace::read(&path).expect("a trace");
        let exact = nsysnccl::internals::npkit::read(
            &[folder.join("dump")],
            nsysnccl::internals::npkit::read::Table::Fitting(&Library::ALL),
        )
        .expect("a dump");
        assert_eq!(rounded.events, exact.events, "{folder:?}");
        assert_eq!(rounded.problems[0].code.as_str(), "rounded-times");
        let view = |dump| nsysnccl::internals::npkit::view::view(dump, Vec::new());
        let (rounded, exact) = (view(&rounded), view(&exact));
        assert_eq!(rounded.collectives.len(), exact.collectives.len(), "{folder:?}");
        for (rounded, exact) in rounded.collectives.iter().zip(&exact.collectives) {
            for (rank, of_rank) in &exact.ranks {
                let other = &rounded.ranks[rank].phases;
                assert_eq!(other.channels, of_rank.phases.channels);
                assert_eq!(other.wait_ns, None, "ticks without a length");
                for (name, ns) in &of_rank.phases.phases {
                    // At most a few events of a channel and primitive in these dumps.
                    assert!((other.phases[name] - ns).abs() <= 8 * ROUNDING_NS, "{name}");
                }
            }
        }
    }
}
