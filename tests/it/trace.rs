//! Traces: what a parser of the format finds in them, against timelines by hand and the report's numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nsysnccl::internals::reporting;
use nsysnccl::internals::run::{Options, Run};
use nsysnccl::internals::trace;
use serde_json::Value;

use crate::support::cluster::{ALL_REDUCE, Cluster, MS, US};
use crate::support::report::{Copy, Report, stream, thread};

/// A slice: where, when (ns), what.
#[derive(Debug, Clone)]
struct Slice {
    pid: u64,
    tid: u64,
    start: i64,
    end: i64,
    name: String,
    cat: String,
    args: Value,
}

/// A trace as a reader of the format sees it.
#[derive(Debug, Default)]
struct Trace {
    processes: BTreeMap<u64, String>,
    tracks: BTreeMap<(u64, u64), String>,
    slices: Vec<Slice>,
    /// By name and number: phase, track, time.
    flows: BTreeMap<(String, u64), Vec<(String, (u64, u64), i64)>>,
    /// By process and name: time, value.
    counters: BTreeMap<(u64, String), Vec<(i64, u64)>>,
    /// What was sampled, by process and name: time, value.
    samples: BTreeMap<(u64, String), Vec<(i64, f64)>>,
    other: Value,
}

/// Microseconds with three decimals, exactly as they are written, in ns.
fn ns(text: &str) -> i64 {
    let (whole, decimals) = text.split_once('.').expect("decimals");
    assert_eq!(decimals.len(), 3, "{text}");
    format!("{whole}{decimals}").parse().expect("a number")
}

/// The time of an event, from its line: a parser's floating-point number would hide what is written.
fn time(line: &str, key: &str) -> i64 {
    let key = format!("\"{key}\":");
    let rest = &line[line.find(&key).expect("a time") + key.len()..];
    ns(&rest[..rest.find([',', '}']).expect("an end")])
}

fn parse(text: &str) -> Trace {
    let whole: Value = serde_json::from_str(text).expect("JSON");
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("{\"ph\"")).collect();
    let events = whole["traceEvents"].as_array().expect("events");
    assert_eq!(lines.len(), events.len());
    let mut trace = Trace { other: whole["otherData"].clone(), ..Trace::default() };
    for (event, line) in events.iter().zip(lines) {
        let number = |key: &str| event[key].as_u64().unwrap_or_else(|| panic!("{key} of {line}"));
        let name = event["name"].as_str().expect("a name").to_owned();
        let pid = number("pid");
        match event["ph"].as_str().expect("a phase") {
            "M" => match name.as_str() {
                "process_name" => {
                    let name = event["args"]["name"].as_str().expect("a name").to_owned();
                    assert!(trace.processes.insert(pid, name).is_none());
                }
                "thread_name" => {
                    let name = event["args"]["name"].as_str().expect("a name").to_owned();
                    assert!(trace.tracks.insert((pid, number("tid")), name).is_none());
                }
                _ => {}
            },
            "X" => {
                let (start, length) = (time(line, "ts"), time(line, "dur"));
                assert!(length >= 0, "{line}");
                trace.slices.push(Slice {
                    pid,
                    tid: number("tid"),
                    start,
                    end: start + length,
                    name,
                    cat: event["cat"].as_str().expect("a category").to_owned(),
                    args: event["args"].clone(),
                });
            }
            "C" => {
                let (at, args) = (time(line, "ts"), &event["args"]);
                match args["running"].as_u64() {
                    Some(value) => trace.counters.entry((pid, name)).or_default().push((at, value)),
                    None => {
                        let value = args["value"].as_f64().expect("a value");
                        trace.samples.entry((pid, name)).or_default().push((at, value));
                    }
                }
            }
            phase @ ("s" | "t" | "f") => {
                let place = (phase.to_owned(), (pid, number("tid")), time(line, "ts"));
                trace.flows.entry((name, number("id"))).or_default().push(place);
            }
            other => panic!("phase {other}"),
        }
    }
    trace.check();
    trace
}

impl Trace {
    /// What every trace holds to.
    fn check(&self) {
        let tids: BTreeSet<u64> = self.tracks.keys().map(|(_, tid)| *tid).collect();
        assert_eq!(tids.len(), self.tracks.len(), "a track's number is used twice");
        assert!(
            self.tracks.keys().all(|(pid, tid)| self.processes.contains_key(pid) && pid != tid)
        );
        let mut by_track: BTreeMap<(u64, u64), Vec<(i64, i64)>> = BTreeMap::new();
        for slice in &self.slices {
            assert!(self.tracks.contains_key(&(slice.pid, slice.tid)), "{slice:?}");
            by_track.entry((slice.pid, slice.tid)).or_default().push((slice.start, slice.end));
        }
        assert_eq!(by_track.len(), self.tracks.len(), "a track is empty");
        for (track, list) in &mut by_track {
            list.sort_by_key(|&(start, end)| (start, std::cmp::Reverse(end)));
            let mut open: Vec<i64> = Vec::new();
            for &(start, end) in list.iter() {
                while open.last().is_some_and(|&outer| outer <= start) {
                    open.pop();
                }
                assert!(open.last().is_none_or(|&outer| end <= outer), "{track:?}: {start}..{end}");
                open.push(end);
            }
        }
        for (id, places) in &self.flows {
            let phases: String = places.iter().map(|(phase, ..)| phase.as_str()).collect();
            let inner = &phases[1..phases.len() - 1];
            assert!(phases.starts_with('s') && phases.ends_with('f'), "{id:?}: {phases}");
            assert!(
                phases.len() > 1 && inner.chars().all(|phase| phase == 't'),
                "{id:?}: {phases}"
            );
            assert!(
                places.windows(2).all(|pair| pair[0].2 <= pair[1].2),
                "{id:?} goes back in time"
            );
            for (_, track, at) in places {
                let list = &by_track[track];
                let before = list.partition_point(|(start, _)| start <= at);
                let is_inside = list[..before].iter().rev().take(300).any(|(_, end)| at <= end);
                assert!(is_inside, "{id:?} ends at no slice of {track:?}");
            }
        }
        for (name, values) in &self.counters {
            assert!(values.windows(2).all(|pair| pair[0].0 < pair[1].0), "{name:?}");
            assert!(values.windows(2).all(|pair| pair[0].1 != pair[1].1), "{name:?}");
            assert_eq!(values.last().map(|(_, value)| *value), Some(0), "{name:?}");
        }
        for (name, values) in &self.samples {
            assert!(values.windows(2).all(|pair| pair[0].0 < pair[1].0), "{name:?}");
        }
        let values = self.counters.values().map(Vec::len).sum::<usize>()
            + self.samples.values().map(Vec::len).sum::<usize>();
        let counts = &self.other["counts"];
        assert_eq!(counts["counter_values"].as_u64(), Some(values as u64));
        assert_eq!(counts["slices"].as_u64(), Some(self.slices.len() as u64));
        assert_eq!(counts["tracks"].as_u64(), Some(self.tracks.len() as u64));
        assert_eq!(counts["processes"].as_u64(), Some(self.processes.len() as u64));
        assert_eq!(counts["flows"].as_u64(), Some(self.flows.len() as u64));
    }

    fn of<'t>(&'t self, pid: u64, cat: &'t str) -> impl Iterator<Item = &'t Slice> {
        self.slices.iter().filter(move |slice| slice.pid == pid && slice.cat == cat)
    }
}

fn options() -> Options {
    Options { replay: true, pieces: true, ..Options::default() }
}

fn text_of(run: &Run, min_ns: i64) -> String {
    let mut out = Vec::new();
    trace::write(run, trace::Options { min_ns }, &mut out).expect("written");
    String::from_utf8(out).expect("UTF-8")
}

fn run_of(paths: &[PathBuf], options: &Options) -> Run {
    Run::read(paths, options, || ()).expect("a run")
}

// True time in ms; rank 1's capture begins 1 ms later, its clock is 700 us ahead.
//
// rank 0  [1 gemm 2)[2      AllReduce     10)     waits 6 of 8
// rank 1  [1    gemm     8)[8  AllReduce  10)     comes last
#[test]
fn ranks_stand_on_one_clock_and_arrows_end_at_who_came_last() {
    let mut cluster = Cluster::new(2);
    cluster.ahead(1, 700 * US);
    for step in 0..3 {
        let at = (step + 1) * 20 * MS;
        cluster.step(&format!("step {step}"), at..at + 12 * MS);
        cluster.ranks[0].compute(at + MS..at + 2 * MS);
        cluster.ranks[1].compute(at + MS..at + 8 * MS);
        cluster.collective(&ALL_REDUCE, &[(0, at + 2 * MS), (1, at + 8 * MS)], at + 10 * MS);
    }
    let folder = crate::support::folder();
    let run = run_of(&cluster.save(&folder), &options());
    let trace = parse(&text_of(&run, 0));
    assert_eq!(trace.processes.len(), 2);
    assert!(trace.processes[&1].starts_with("rank 0") && trace.processes[&2].starts_with("rank 1"));
    let comm = |pid| trace.of(pid, "communication").map(|s| (s.start, s.end)).collect::<Vec<_>>();
    let (first, second) = (comm(1), comm(2));
    assert_eq!((first.len(), second.len()), (3, 3));
    for (a, b) in first.iter().zip(&second) {
        assert_eq!((a.1 - a.0, b.1 - b.0, b.0 - a.0, b.1 - a.1), (8 * MS, 2 * MS, 6 * MS, 0));
    }
    let waits: Vec<&Slice> = trace.of(1, "wait").collect();
    assert_eq!(waits.len(), 3);
    for (wait, operation) in waits.iter().zip(&first) {
        assert_eq!(wait.name, "wait for rank 1");
        assert_eq!((wait.start, wait.end), (operation.0, operation.0 + 6 * MS));
    }
    assert_eq!(trace.of(2, "wait").count(), 0);
    let operation = trace.of(1, "communication").next().expect("an operation");
    assert_eq!(operation.args["wait_ns"], 6_000_000);
    assert_eq!(operation.args["transfer_ns"], 2_000_000);
    assert_eq!(operation.args["last_rank"], 1);
    assert_eq!(operation.args["bytes"], 1 << 20);
    assert_eq!(operation.args["step"], 0);
    // 2 (n - 1) / n = 1 of 1 MiB in 2 ms.
    assert_eq!(operation.args["busbw_gbs"], 0.524);
    let arrows: Vec<_> = trace.flows.iter().filter(|((name, _), _)| name == "collective").collect();
    assert_eq!(arrows.len(), 3);
    for ((_, places), (a, b)) in arrows.iter().zip(first.iter().zip(&second)) {
        assert_eq!((places[0].1.0, places[0].2, places[1].1.0, places[1].2), (1, a.0, 2, b.0));
    }
    // Each value of a counter once: computing 1 ms of rank 0 in each step.
    let computes = &trace.counters[&(1, "compute active".to_owned())];
    assert_eq!(computes.len(), 6);
    assert!(
        computes
            .chunks(2)
            .all(|pair| (pair[0].1, pair[1].1) == (1, 0) && pair[1].0 - pair[0].0 == MS)
    );
}

// Of two ranks one is asked for, of three steps the last two, and nothing below 3 ms.
#[test]
fn steps_ranks_and_lengths_are_chosen() {
    let mut cluster = Cluster::new(2);
    for step in 0..3 {
        let at = (step + 1) * 20 * MS;
        cluster.step(&format!("step {step}"), at..at + 12 * MS);
        cluster.ranks[0].compute(at + MS..at + 2 * MS);
        cluster.ranks[1].compute(at + MS..at + 8 * MS);
        cluster.collective(&ALL_REDUCE, &[(0, at + 2 * MS), (1, at + 8 * MS)], at + 10 * MS);
    }
    let folder = crate::support::folder();
    let paths = cluster.save(&folder);
    let chosen = Options { steps: Some(vec![1, 2]), ranks: Some(vec![1]), ..options() };
    let trace = parse(&text_of(&run_of(&paths, &chosen), 3 * MS));
    assert_eq!(trace.processes.keys().copied().collect::<Vec<_>>(), [2]);
    let of = |cat| trace.of(2, cat).count();
    // AllReduces of rank 1 take 2 ms.
    assert_eq!((of("step"), of("compute"), of("communication")), (2, 2, 0));
    assert!(trace.other["counts"]["left_out_short"].as_u64() >= Some(2));
    let whole = parse(&text_of(&run_of(&paths, &options()), 0));
    let starts =
        |trace: &Trace| trace.of(2, "compute").map(|s| s.end - s.start).collect::<Vec<_>>();
    assert_eq!((starts(&whole), starts(&trace)), (vec![7 * MS; 3], vec![7 * MS; 2]));
}

// stream 7  [0    gemm a    100)
// stream 7      [50  gemm b     150)   cannot be, but is in the file: a second track, nothing is lost
#[test]
fn what_overlaps_stands_on_two_tracks_and_names_are_harmless() {
    let folder = crate::support::folder();
    let main = thread(7, 7);
    let mut report = Report::default();
    report.range(
        main,
        "step 1 </script> \"x\" \u{1b}[31m hf_abcdefghijklmnopqrstuvwxyz012345",
        100..9_000,
    );
    report.kernel("gemm \"a\"\n", stream(7), 1_000..2_000, main.at(110));
    report.kernel("gemm b", stream(7), 1_500..2_500, main.at(120));
    report.copy(Copy::HtoD, 4_096, stream(7), 3_000..4_000, main.at(130));
    let path = report.save(folder.path(), "odd_0.sqlite");
    let text = text_of(&run_of(&[path], &options()), 0);
    assert!(!text.contains("hf_abc") && !text.contains('\u{1b}'));
    let trace = parse(&text);
    let tids: BTreeSet<u64> = trace.of(1, "compute").map(|slice| slice.tid).collect();
    let total: i64 = trace.of(1, "compute").map(|s| s.end - s.start).sum();
    // Operations of one stream that overlap are cut while reading, or stand apart; never is one dropped.
    assert_eq!(trace.of(1, "compute").count(), 2);
    assert!(
        tids.len() == 2 && total == 2_000 || tids.len() == 1 && total < 2_000,
        "{tids:?} {total}"
    );
    let copy = trace.of(1, "copy").next().expect("a copy");
    assert_eq!((copy.args["copied_bytes"].as_u64(), copy.end - copy.start), (Some(4_096), 1_000));
}

/// Length of the union of spans inside of a window, the slow way.
fn union(spans: impl Iterator<Item = (i64, i64)>, window: (i64, i64)) -> i64 {
    let mut list: Vec<(i64, i64)> =
        spans.map(|(a, b)| (a.max(window.0), b.min(window.1))).filter(|(a, b)| a < b).collect();
    list.sort_unstable();
    let (mut total, mut until) = (0, i64::MIN);
    for (start, end) in list {
        total += (end - start.max(until)).max(0);
        until = until.max(end);
    }
    total
}

/// Reports of one run beside the project.
fn capture(name: &str) -> Option<Vec<PathBuf>> {
    let folder = crate::support::captures()?;
    let (place, stem) = name.split_once('/').expect("a folder");
    let mut list: Vec<PathBuf> = std::fs::read_dir(folder.join(place))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let rank = name.strip_prefix(stem).and_then(|rest| rest.strip_suffix(".sqlite"));
            rank.is_some_and(|rank| {
                rank.is_empty() || rank[1..].bytes().all(|b| b.is_ascii_digit())
            })
        })
        .collect();
    list.sort();
    assert!(!list.is_empty(), "{name}");
    Some(list)
}

#[test]
fn sums_of_real_captures_are_those_of_the_report() {
    let names = [
        "shm/shm-2gpu",
        "tensor-parallel/tp-2gpu",
        "eight/par3d",
        "peer-copy/symm-ce",
        "onefile/onefile-2gpu",
    ];
    let mut checked = 0;
    for name in names {
        let Some(paths) = capture(name) else { return };
        let run = run_of(&paths, &options());
        let report = reporting::of(&run);
        let trace = parse(&text_of(&run, 0));
        assert_eq!(trace.processes.len(), report.ranks.len());
        for rank in &report.ranks {
            let pid = u64::from(rank.rank) + 1;
            // Where clocks run at different speeds, times differ by that speed.
            let slack = if rank.clock.drift.is_some() { 2_000 } else { 0 };
            let steps: Vec<&Slice> = trace.of(pid, "step").collect();
            assert_eq!(steps.len(), rank.steps.len());
            for (slice, step) in steps.iter().zip(&rank.steps) {
                let number = |path: &str| crate::support::number(step, path).expect("measured");
                let window = (slice.start, slice.end);
                let sum = |cat: &str| union(trace.of(pid, cat).map(|s| (s.start, s.end)), window);
                for (found, path) in [
                    (window.1 - window.0, "step_ns"),
                    (sum("compute"), "compute_ns"),
                    (sum("communication"), "comm_ns"),
                ] {
                    let expected = number(path);
                    assert!(
                        (found - expected).abs() <= slack,
                        "{name} {}: {path} {found}, not {expected}",
                        step.name
                    );
                }
                let starts = |cat| {
                    trace.of(pid, cat).filter(|s| window.0 <= s.start && s.start < window.1).count()
                        as i64
                };
                assert_eq!(starts("communication"), number("comm_count"), "{name} {}", step.name);
                let copied: i64 = trace
                    .of(pid, "copy")
                    .filter(|s| s.name == "copy DtoD" && window.0 <= s.start && s.start < window.1)
                    .filter_map(|s| s.args["copied_bytes"].as_i64())
                    .sum();
                assert_eq!(copied, number("dtod.bytes"), "{name} {}", step.name);
                checked += 1;
            }
        }
        for path in &report.critical_path {
            let of_step = trace
                .slices
                .iter()
                .filter(|s| s.cat == "critical path" && s.args["step"] == path.step as u64);
            let sum = |part: &str| {
                of_step.clone().filter(|s| s.name == part).map(|s| s.end - s.start).sum::<i64>()
            };
            assert_eq!(
                (sum("compute"), sum("transfer"), sum("copy"), sum("launch")),
                (path.compute_ns, path.transfer_ns, path.copy_ns, path.launch_ns),
                "{name}"
            );
        }
        // Merged as the report does: time that several collectives wait at once counts once.
        for row in &report.waits {
            let pid = u64::from(row.rank) + 1;
            let all = union(trace.of(pid, "wait").map(|s| (s.start, s.end)), (i64::MIN, i64::MAX));
            assert!(all + 2_000 >= row.wait_ns, "{name}");
        }
    }
    assert!(checked > 50, "{checked}");
}

fn nsysnccl(folder: &Path, arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_nsysnccl");
    Command::new(program).args(arguments).current_dir(folder).output().expect("runs")
}

fn small(folder: &Path) {
    let main = thread(7, 7);
    let mut report = Report::default();
    report.range(main, "step 1", 100..200);
    report.kernel("gemm", stream(7), 1_000..2_000, main.at(110));
    report.save(folder, "run_0.sqlite");
}

#[test]
fn every_way_to_write_gives_the_same_trace() {
    let folder = crate::support::folder();
    let place = folder.path();
    small(place);
    let file = |name: &str| std::fs::read(place.join(name)).expect("written");
    for (output, threads) in
        [("a.json", "1"), ("b.json", "3"), ("c.json.gz", "2"), ("d.json.gz", "1")]
    {
        let done = nsysnccl(place, &["trace", "run_0.sqlite", "-o", output, "--threads", threads]);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!((done.status.code(), done.stdout.len()), (Some(0), 0), "{said}");
        assert!(said.contains(&format!("wrote {output}")) && said.contains("1 rank,"), "{said}");
    }
    let piped = nsysnccl(place, &["trace", "run_0.sqlite", "-o", "-"]);
    assert_eq!((piped.status.code(), piped.stderr.len()), (Some(0), 0));
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(file("c.json.gz").as_slice())
        .read_to_end(&mut unpacked)
        .expect("gzip");
    assert_eq!(file("a.json"), file("b.json"));
    assert_eq!(file("c.json.gz"), file("d.json.gz"));
    assert_eq!(file("a.json"), unpacked);
    assert_eq!(file("a.json"), piped.stdout);
}

#[test]
fn many_threads_give_the_same_bytes() {
    let Some(paths) = capture("tensor-parallel/tp-2gpu") else { return };
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        pool.install(|| text_of(&run_of(&paths, &options()), 0))
    };
    assert_eq!(with(1), with(4));
}

#[test]
fn mistakes_are_said_and_nothing_is_written() {
    let folder = crate::support::folder();
    let place = folder.path();
    small(place);
    std::fs::copy(place.join("run_0.sqlite"), place.join("input.json")).expect("copied");
    for (arguments, status, fact) in [
        (vec!["trace", "run_0.sqlite"], 2, "--output"),
        (vec!["trace", "run_0.sqlite", "-o", "x.html"], 2, "which format"),
        (vec!["trace", "run_0.sqlite", "-o", "."], 2, "is a folder"),
        (vec!["trace", "input.json", "-o", "input.json"], 2, "would overwrite an input"),
        (vec!["trace", "run_0.sqlite", "-o", "x.json", "--min-us", "-1"], 2, "--min-us"),
        (vec!["trace", "run_0.sqlite", "-o", "x.json", "--min-us", "nan"], 2, "microseconds"),
        (vec!["trace", "run_0.sqlite", "-o", "x.json", "--steps", "9"], 3, "no step 9"),
        (vec!["trace", "run_0.sqlite", "-o", "nowhere/x.json"], 3, "nowhere"),
        (vec!["trace", "missing.sqlite", "-o", "x.json"], 3, "missing.sqlite"),
    ] {
        let done = nsysnccl(place, &arguments);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(status), "{arguments:?}: {said}");
        assert!(said.contains(fact), "{arguments:?}: {said}");
    }
    assert_eq!(std::fs::read_dir(place).expect("a folder").count(), 2);
    let man = nsysnccl(place, &["man", "trace"]);
    assert!(String::from_utf8_lossy(&man.stdout).contains("chrome://tracing"));
}

/// What NPKit saw inside of kernels stands below them, on the same clock.
#[test]
fn channels_lie_inside_of_their_kernels() {
    let Some(folder) = crate::support::captures() else { return };
    let folder = folder.join("npkit-real/slow");
    let paths = [0, 1].map(|rank| folder.join(format!("rank_{rank}.sqlite")));
    let run = run_of(&paths, &Options { npkit: vec![folder.join("dump")], ..options() });
    let trace = parse(&text_of(&run, 0));
    let joined = reporting::of(&run).npkit.expect("a dump");
    let mut drawn = 0;
    for pid in [1, 2] {
        let kernels: Vec<&Slice> = trace.of(pid, "communication").collect();
        for lane in trace.of(pid, "NPKit channel") {
            let inside = kernels.iter().any(|k| {
                // The host's clock is good to some microseconds.
                k.start - 2_000 <= lane.start && lane.end <= k.end + 2_000
            });
            assert!(inside, "{lane:?}");
            drawn += 1;
        }
    }
    let lanes: usize = joined.kernels.iter().map(|kernel| kernel.phases.lanes.len()).sum();
    assert_eq!((drawn, lanes > 0), (lanes, true));
    // In every second step rank 1 is 2 ms late, and rank 0 receives nothing until then.
    let mut waiting: Vec<u64> = trace
        .of(1, "NPKit channel")
        .filter(|lane| lane.end - lane.start > 1_900_000 && lane.name.contains("waits"))
        .filter_map(|lane| lane.args["step"].as_u64())
        .collect();
    waiting.dedup();
    assert!(!waiting.is_empty() && waiting.iter().all(|step| step % 2 == 1), "{waiting:?}");
    let text = text_of(&run_of(&paths, &options()), 0);
    assert!(!text.contains("NPKit"), "without a dump there is no such lane");
}

/// The samples of nsys are counters; a reader gets the values of the table.
#[test]
fn gpu_metrics_are_counters() {
    let Some(folder) = crate::support::captures() else { return };
    let path = folder.join("gpumetrics/gpumetrics.sqlite");
    let trace = parse(&text_of(&run_of(std::slice::from_ref(&path), &options()), 0));
    let active = &trace.samples[&(1, "SM active [%]".to_owned())];
    let db = rusqlite::Connection::open(path).expect("an export");
    // The capture's own rows, from the first step's start to the last one's end.
    let steps: Vec<&Slice> = trace.of(1, "step").collect();
    let (first, last) = (
        steps.iter().map(|s| s.start).min().expect("a step"),
        steps.iter().map(|s| s.end).max().expect("a step"),
    );
    let mut rows = db
        .prepare(
            "SELECT value FROM GPU_METRICS WHERE metricId = (SELECT metricId FROM TARGET_INFO_GPU_METRICS \
             WHERE metricName LIKE 'SMs Active%' LIMIT 1) ORDER BY timestamp",
        )
        .expect("the table");
    let all: Vec<f64> = rows
        .query_map([], |row| row.get::<_, f64>(0))
        .expect("rows")
        .map(|value| value.expect("a value"))
        .collect();
    let ours: Vec<f64> = active.iter().map(|(_, value)| *value).collect();
    let stands = all.windows(ours.len()).any(|part| part == ours);
    assert!(stands && ours.len() > 100, "{} of {} samples", ours.len(), all.len());
    let interval = active[1].0 - active[0].0;
    assert!(active[0].0 + 2 * interval > first && active.last().expect("one").0 < last);
}
