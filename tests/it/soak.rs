//! Runs of random shape, measured a second time by slow and obvious code that follows docs/metrics.md: every number of every
//! step is equal to the nanosecond.
//!
//! `NSYSNCCL_SOAK=500` sets how many runs; a failure names the seed that makes the run again.

use std::collections::BTreeMap;
use std::path::PathBuf;

use nsysnccl::internals::run::Options;
use nsysnccl::internals::steps::{StepChoice, WindowKind};
use oorandom::Rand64;
use tempfile::TempDir;

use crate::support::cluster::{ALL_REDUCE as COLLECTIVE, Cluster, group, rank};
use crate::support::report::{Launch, Report, Stream, Thread, thread};
use crate::support::scenes::{ALL_REDUCE, EPOCH, GEMM, US};
use crate::support::schema::schemas;
use crate::support::{build_with, folder, number};

/// Runs of a usual test; debug builds are slow.
const RUNS: u64 = 60;
const SEED: u128 = 0x5eed_0000;

fn runs() -> u64 {
    std::env::var("NSYSNCCL_SOAK").ok().and_then(|n| n.parse().ok()).unwrap_or(RUNS)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Compute,
    Comm,
    Graph,
    /// `copyKind`, and whether source and destination are different devices.
    Copy(i64, bool),
    Memset,
}

/// An operation as it is written.
#[derive(Debug, Clone, Copy)]
struct Op {
    device: i64,
    stream: (i64, i64),
    start: i64,
    end: i64,
    kind: Kind,
    bytes: i64,
    /// Thread and time of the earliest call.
    launch: Option<(u32, i64)>,
}

/// One process.
#[derive(Debug, Default)]
struct Process {
    pid: u32,
    /// Devices that run kernels.
    devices: Vec<i64>,
    ops: Vec<Op>,
    /// Name, start and end of what matches the pattern.
    steps: Vec<(String, i64, i64)>,
    /// Thread, start and end of NCCL's operations.
    calls: Vec<(u32, i64, i64)>,
}

struct Dice(Rand64);

impl Dice {
    /// `low <= n < high`.
    fn of(&mut self, low: i64, high: i64) -> i64 {
        low + self.0.rand_range(0..(high - low) as u64) as i64
    }

    fn one_in(&mut self, n: i64) -> bool {
        self.of(0, n) == 0
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.of(0, list.len() as i64) as usize]
    }
}

/// Fills a process and writes it into `report`.
fn process(dice: &mut Dice, pid: u32, steps: i64, report: &mut Report) -> Process {
    let mut made = Process { pid, ..Process::default() };
    let threads = [pid, pid.wrapping_add(1) & 0xff_ffff, 0xff_ffff];
    let main = thread(pid, threads[0]);
    let mut cpu = dice.of(500, 3000);
    for i in 0..steps {
        let (start, end) = (cpu, cpu + dice.of(300, 4000));
        let name = format!("step {i}");
        if dice.one_in(6) {
            report.start_end_range(main, thread(pid, threads[1]), &name, start..end);
            // The next one may begin before this one has ended.
            cpu = end - dice.of(0, 200);
        } else {
            report.range(main, &name, start..end);
            cpu = end + if dice.one_in(3) { 0 } else { dice.of(0, 1500) };
        }
        if dice.one_in(5) {
            let inner = (start + dice.of(0, 100), end - dice.of(0, 100));
            report.range(main, &format!("step 9{i}"), inner.0..inner.1);
            made.steps.push((format!("step 9{i}"), inner.0, inner.1));
        }
        made.steps.push((name, start, end));
    }
    if dice.one_in(8) {
        // Began before the capture.
        report.range(main, "step 77", -300..-100);
        made.steps.push(("step 77".to_owned(), -300, -100));
    }
    let devices = if dice.one_in(4) { 2 } else { 1 };
    let first_device = dice.of(0, 7);
    made.devices = (0..devices).map(|d| first_device + d).collect();
    for &device in &made.devices.clone() {
        let context = dice.pick(&[1, 2, 900_001]) + device;
        // Of each device one kernel is launched in the first step.
        let (_, start, end) = made.steps.iter().find(|(name, ..)| name == "step 0").expect("one");
        let launch = dice.of(*start, *end);
        let at = 100_000 + device;
        let on = Stream { device, context, stream: 4_000_000_000 };
        let call = main.at(launch);
        let time = at..at + dice.of(1, 3000);
        write(dice, &mut made, report, on, time, Kind::Compute, call);
        let streams = dice.of(1, 5);
        for s in 0..streams {
            let id = dice.pick(&[0, 7, 20, 1 << 40]) + 100 * s;
            let context = if dice.one_in(5) { context + 1000 } else { context };
            let stream = Stream { device, context, stream: id };
            let mut at = if dice.one_in(10) { -dice.of(1, 400) } else { dice.of(600, 4000) };
            for _ in 0..dice.of(0, 13) {
                let length = match dice.of(0, 6) {
                    0 => 0,
                    1 => 1,
                    2 => dice.of(1, 3000),
                    _ => dice.of(1, 500),
                };
                let kind = match dice.of(0, 12) {
                    0..4 => Kind::Compute,
                    4..7 => Kind::Comm,
                    7 if dice.one_in(3) => Kind::Graph,
                    7 | 8 => Kind::Memset,
                    _ => Kind::Copy(dice.pick(&[1, 2, 8, 8, 8, 9, 10]), dice.one_in(3)),
                };
                let on = thread(pid, dice.pick(&threads));
                let before = if dice.one_in(3) { 6000 } else { 1500 };
                let launch = if dice.one_in(15) {
                    on.unseen()
                } else {
                    on.at((at - dice.of(0, before)).max(1))
                };
                write(dice, &mut made, report, stream, at..at + length, kind, launch);
                at += length;
                at += match dice.of(0, 4) {
                    0 => 0,
                    1 => dice.of(0, 50),
                    2 => dice.of(0, 5000),
                    // A dependent launch: the next one starts before this one has ended.
                    _ if length > 4 => -dice.of(0, 3),
                    _ => 1,
                };
            }
        }
    }
    if dice.one_in(6) {
        // A device that the process only touches.
        let on = Stream { device: 30, context: 77, stream: 7 };
        let kind = Kind::Copy(1, false);
        let launch = main.at(900);
        write(dice, &mut made, report, on, 1000..1100, kind, launch);
    }
    made
}

fn write(
    dice: &mut Dice,
    made: &mut Process,
    report: &mut Report,
    on: Stream,
    time: std::ops::Range<i64>,
    kind: Kind,
    launch: Launch,
) {
    let by: Thread = launch.thread;
    let bytes = if dice.one_in(9) { 0 } else { dice.of(1, 1 << 40) };
    let bytes = if matches!(kind, Kind::Copy(..) | Kind::Memset) { bytes } else { 0 };
    let correlation = match kind {
        Kind::Compute => report.kernel(GEMM, on, time.clone(), launch),
        Kind::Comm => report.kernel(ALL_REDUCE, on, time.clone(), launch),
        Kind::Graph => report.graph(on, time.clone(), launch),
        Kind::Memset => report.memset_of(bytes, on, time.clone(), launch),
        Kind::Copy(copy, across) => {
            let ends = if across { [on.device, on.device + 1] } else { [on.device; 2] };
            report.copy_of(copy, bytes, ends, on, time.clone(), launch)
        }
    };
    let mut earliest = launch.at;
    if let Some(at) = launch.at {
        if dice.one_in(10) {
            // A second row of the same call, earlier or later.
            let again = (at + dice.of(-300, 300)).max(1);
            report.api(correlation, by, again);
            earliest = Some(at.min(again));
        }
        let call = (at - dice.of(0, 3), at + dice.of(1, 4));
        let is_free = |c: &(u32, i64, i64)| c.0 != by.tid || call.1 + 1 < c.1 || c.2 + 1 < call.0;
        let wanted = match kind {
            Kind::Comm => dice.one_in(2),
            Kind::Copy(8, _) => dice.one_in(3),
            _ => false,
        };
        if wanted && made.calls.iter().all(is_free) {
            report.nccl(by, "ncclAllReduce", call.0..call.1, Default::default());
            made.calls.push((by.tid, call.0, call.1));
        }
    }
    made.ops.push(Op {
        device: on.device,
        stream: (on.context, on.stream),
        start: time.start,
        end: time.end,
        kind,
        bytes,
        launch: earliest.map(|at| (by.tid, at)),
    });
}

/// What docs/metrics.md, section 3, says an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Compute,
    Comm,
    Htod,
    Dtoh,
    Dtod,
    Ptop,
    Other,
    Memset,
    Graph,
}

fn class(process: &Process, op: &Op) -> Class {
    let in_call = op.launch.is_some_and(|(tid, at)| {
        process
            .calls
            .iter()
            .any(|&(of, start, end)| of == tid && 0 <= start && start <= at && at < end)
    });
    match op.kind {
        Kind::Compute => Class::Compute,
        Kind::Comm => Class::Comm,
        Kind::Graph => Class::Graph,
        Kind::Memset => Class::Memset,
        Kind::Copy(1, _) => Class::Htod,
        Kind::Copy(2, _) => Class::Dtoh,
        Kind::Copy(10, _) | Kind::Copy(8, true) => Class::Ptop,
        Kind::Copy(8, false) if in_call => Class::Comm,
        Kind::Copy(8, false) => Class::Dtod,
        Kind::Copy(..) => Class::Other,
    }
}

/// Section 2: which step owns a launch, or after which step it comes.
fn owner(steps: &[(String, i64, i64)], at: i64) -> (Option<usize>, Option<usize>) {
    let mut inside = (0..steps.len()).filter(|&i| steps[i].1 <= at && at < steps[i].2);
    // Steps are in order of start: the one that started last owns it.
    match inside.next_back() {
        Some(step) => (Some(step), None),
        None => (None, (0..steps.len()).rev().find(|&i| steps[i].1 <= at)),
    }
}

/// Section 2: the steps of a process, outermost, in order of start.
fn outermost(process: &Process) -> Vec<(String, i64, i64)> {
    let captured: Vec<_> = process.steps.iter().filter(|step| step.1 >= 0).collect();
    let is_inside = |a: &(String, i64, i64), b: &(String, i64, i64)| {
        (b.1 <= a.1 && a.2 <= b.2) && (a.1, a.2) != (b.1, b.2)
            || (a.1, a.2) == (b.1, b.2) && b.0 < a.0
    };
    let mut steps: Vec<_> = captured
        .iter()
        .filter(|step| !captured.iter().any(|other| is_inside(step, other)))
        .map(|step| (*step).clone())
        .collect();
    steps.sort_by_key(|step| (step.1, step.2));
    steps
}

type Numbers = BTreeMap<&'static str, i64>;

/// The numbers of each step of one device; `None` where a step has no window.
fn measure(process: &Process, device: i64) -> Vec<(String, Option<Numbers>)> {
    let steps = outermost(process);
    let ops: Vec<(Op, Class)> = process
        .ops
        .iter()
        .filter(|op| op.device == device && op.start >= 0)
        .map(|op| (*op, class(process, op)))
        .collect();
    let of_step = |i: usize| -> Vec<&(Op, Class)> {
        let owns = |op: &Op| op.launch.is_some_and(|(_, at)| owner(&steps, at).0 == Some(i));
        ops.iter().filter(|(op, _)| owns(op)).collect()
    };
    let first = |i: usize| {
        let runs_kernels = |stream: (i64, i64)| {
            of_step(i).iter().any(|(op, class)| {
                op.stream == stream && matches!(class, Class::Compute | Class::Comm | Class::Graph)
            })
        };
        let starts = of_step(i)
            .into_iter()
            .filter(|(op, _)| runs_kernels(op.stream))
            .map(|(op, _)| op.start);
        starts.min().or_else(|| of_step(i).into_iter().map(|(op, _)| op.start).min())
    };
    let mut windows: Vec<Option<(i64, i64)>> = vec![None; steps.len()];
    for i in (0..steps.len()).rev() {
        let Some(start) = first(i) else { continue };
        let own_end =
            of_step(i).into_iter().map(|(op, _)| op.end).max().expect("it has operations");
        let next = (i + 1..steps.len()).find_map(|j| windows[j].map(|window| (j, window.0)));
        let end = match next {
            None => own_end,
            Some((j, next)) => {
                // Launched between this range and the next one that has a window, inside of none.
                let between = ops.iter().filter(|(op, _)| {
                    op.launch.is_some_and(|(_, at)| {
                        owner(&steps, at).1.is_some_and(|after| i <= after && after < j)
                    })
                });
                match between.map(|(op, _)| op.start).min() {
                    Some(work) => work.max(own_end).min(next),
                    None => next,
                }
            }
        };
        windows[i] = (start < end).then_some((start, end));
    }
    let numbers = |window: Option<(i64, i64)>| window.map(|(a, b)| of_window(&ops, a, b));
    steps.iter().zip(&windows).map(|(step, window)| (step.0.clone(), numbers(*window))).collect()
}

/// Section 4, between each two neighbouring starts and ends of operations.
fn of_window(ops: &[(Op, Class)], a: i64, b: i64) -> Numbers {
    use Class::*;
    let mut edges = vec![a, b];
    for (op, _) in ops {
        edges.extend([op.start, op.end].into_iter().filter(|&at| a < at && at < b));
    }
    edges.sort_unstable();
    edges.dedup();
    let mut n: Numbers = BTreeMap::new();
    let mut add = |name: &'static str, ns: i64| *n.entry(name).or_default() += ns;
    add("step_ns", b - a);
    add("start_ns", a);
    const KINDS: [(Class, [&str; 4]); 6] = [
        (Htod, ["htod.ns", "htod.exposed_ns", "htod.bytes", "htod.count"]),
        (Dtoh, ["dtoh.ns", "dtoh.exposed_ns", "dtoh.bytes", "dtoh.count"]),
        (Dtod, ["dtod.ns", "dtod.exposed_ns", "dtod.bytes", "dtod.count"]),
        (Ptop, ["ptop.ns", "ptop.exposed_ns", "ptop.bytes", "ptop.count"]),
        (Other, ["other_copy.ns", "other_copy.exposed_ns", "other_copy.bytes", "other_copy.count"]),
        (Memset, ["memset.ns", "memset.exposed_ns", "memset.bytes", "memset.count"]),
    ];
    for names in KINDS.iter().flat_map(|(_, names)| names).chain(&[
        "comm_ns",
        "comm_sum_ns",
        "comm_count",
        "compute_ns",
        "overlap_ns",
        "exposed_comm_ns",
        "exposed_copy_ns",
        "unclassified.ns",
        "unclassified.exposed_ns",
        "unclassified.count",
        "idle_ns",
        "host_late_ns",
    ]) {
        add(names, 0);
    }
    let mut idle: Vec<(i64, i64)> = Vec::new();
    for edge in edges.windows(2) {
        let (from, to) = (edge[0], edge[1]);
        let ns = to - from;
        let runs = |class: Class| {
            ops.iter().any(|(op, c)| *c == class && op.start <= from && to <= op.end)
        };
        let (compute, kernels) = (runs(Compute), runs(Comm));
        let comm = kernels || runs(Ptop);
        let copies = KINDS.iter().any(|(class, _)| runs(*class));
        let mut when = |is: bool, name: &'static str| {
            if is {
                add(name, ns)
            }
        };
        when(compute, "compute_ns");
        when(comm, "comm_ns");
        when(comm && compute, "overlap_ns");
        when(comm && !compute, "exposed_comm_ns");
        when(copies && !compute && !comm, "exposed_copy_ns");
        for (class, [own, exposed, ..]) in KINDS {
            // No kind hides itself.
            let others = if class == Ptop { kernels } else { comm };
            when(runs(class), own);
            when(runs(class) && !compute && !others, exposed);
        }
        when(runs(Graph), "unclassified.ns");
        when(runs(Graph) && !compute && !comm && !copies, "unclassified.exposed_ns");
        if !(compute || comm || copies || runs(Graph)) {
            when(true, "idle_ns");
            match idle.last_mut() {
                Some(last) if last.1 == from => last.1 = to,
                _ => idle.push((from, to)),
            }
        }
    }
    for (op, class) in ops {
        let is_comm = matches!(class, Comm | Ptop);
        let inside = a <= op.start && op.start < b;
        if is_comm {
            add("comm_sum_ns", (op.end.min(b) - op.start.max(a)).max(0));
        }
        if inside {
            if is_comm {
                add("comm_count", 1);
            }
            if *class == Graph {
                add("unclassified.count", 1);
            }
            if let Some((_, [.., bytes, count])) = KINDS.iter().find(|(kind, _)| kind == class) {
                add(bytes, op.bytes);
                add(count, 1);
            }
        }
    }
    for (from, to) in idle {
        let ends_it = ops.iter().filter(|(op, _)| op.start == to);
        if let Some(launch) = ends_it.filter_map(|(op, _)| op.launch).map(|(_, at)| at).min() {
            add("host_late_ns", launch.clamp(from, to) - from);
        }
    }
    n
}

/// One run: its processes and the files that hold them.
fn make(seed: u64, at: &TempDir) -> (Vec<Process>, Vec<PathBuf>) {
    let mut dice = Dice(Rand64::new(SEED + u128::from(seed)));
    let one_file = dice.one_in(3);
    let version = dice.pick(&schemas().versions.iter().map(String::as_str).collect::<Vec<_>>());
    let new = |dice: &mut Dice| {
        let mut report = Report::of(version);
        report.session(EPOCH);
        report.reversed = dice.one_in(2);
        report.all_tables = dice.one_in(4);
        report
    };
    let (processes, steps) = (dice.of(1, 4), dice.of(1, 6));
    let mut pids: Vec<u32> = Vec::new();
    while (pids.len() as i64) < processes {
        let pid = dice.of(1, 1 << 24) as u32;
        if !pids.contains(&pid) {
            pids.push(pid);
        }
    }
    let mut all = Vec::new();
    let mut paths = Vec::new();
    let mut report = new(&mut dice);
    for (i, pid) in pids.into_iter().enumerate() {
        all.push(process(&mut dice, pid, steps, &mut report));
        if !one_file {
            let name = format!("run_{}.sqlite", ["a", "b", "c"][i]);
            paths.push(report.save(at.path(), &name));
            report = new(&mut dice);
        }
    }
    if one_file {
        paths.push(report.save(at.path(), "run.sqlite"));
    }
    (all, paths)
}

#[test]
fn random_runs_measure_the_same_twice() {
    let options = Options {
        step: StepChoice::Pattern(r"^step \d+$".to_owned()),
        window: Some(WindowKind::Gpu),
        ..Options::default()
    };
    let (mut measured, mut without) = (0, 0);
    for seed in 0..runs() {
        let at = folder();
        let (processes, paths) = make(seed, &at);
        let report =
            build_with(&paths, &options).unwrap_or_else(|e| panic!("seed {seed}: {e}")).report;
        let ranks: usize = processes.iter().map(|p| p.devices.len()).sum();
        assert_eq!(report.ranks.len(), ranks, "seed {seed}");
        for process in &processes {
            for &device in &process.devices {
                let found = report
                    .ranks
                    .iter()
                    .find(|r| r.pid == process.pid && i64::from(r.device) == device)
                    .unwrap_or_else(|| panic!("seed {seed}: no rank {} {device}", process.pid));
                let expected = measure(process, device);
                let names: Vec<&String> = found.steps.iter().map(|step| &step.name).collect();
                assert_eq!(
                    names,
                    expected.iter().map(|(name, _)| name).collect::<Vec<_>>(),
                    "seed {seed}"
                );
                for (step, (name, numbers)) in found.steps.iter().zip(&expected) {
                    let place =
                        format!("seed {seed}, pid {}, device {device}, {name}", process.pid);
                    let Some(numbers) = numbers else {
                        without += 1;
                        assert_eq!(number(step, "step_ns"), None, "{place}");
                        assert!(step.reason.is_some(), "{place}");
                        continue;
                    };
                    measured += 1;
                    for (path, value) in numbers {
                        assert_eq!(number(step, path), Some(*value), "{place}: {path}");
                    }
                    let parts = [
                        "compute_ns",
                        "exposed_comm_ns",
                        "exposed_copy_ns",
                        "unclassified.exposed_ns",
                        "idle_ns",
                    ];
                    assert_eq!(
                        parts.iter().map(|part| numbers[part]).sum::<i64>(),
                        numbers["step_ns"],
                        "{place}"
                    );
                }
            }
        }
        // Of the run: the slowest rank's time, the mean of the rest, rounded half to even.
        for run in &report.steps {
            let of = |path: &str| -> Vec<i64> {
                let steps = report.ranks.iter().flat_map(|rank| &rank.steps);
                let members = steps.filter(|step| step.run_step == Some(run.index));
                members.map(|step| number(step, path).expect("measured")).collect()
            };
            let metric = |path: &str| {
                run.values.int(nsysnccl::internals::model::Metric::by_path(path).expect("a metric"))
            };
            assert_eq!(of("step_ns").len(), ranks, "seed {seed}");
            assert_eq!(metric("step_ns"), of("step_ns").into_iter().max(), "seed {seed}");
            for path in ["comm_ns", "compute_ns", "idle_ns", "exposed_copy_ns"] {
                let (sum, n) = (of(path).iter().sum::<i64>(), ranks as i64);
                let (whole, twice) = (sum.div_euclid(n), 2 * sum.rem_euclid(n));
                let up = twice > n || twice == n && whole % 2 == 1;
                assert_eq!(metric(path), Some(whole + i64::from(up)), "seed {seed}: {path}");
            }
        }
    }
    println!("{} of {0} runs, {measured} steps equal, {without} without a window", runs());
    assert!(measured > 2 * runs() && without > 0);
}

/// Collectives that all ranks leave together, on right clocks. What a rank takes longer than the one that takes least is
/// waiting (section 6), exposed where no compute kernel runs beside it.
#[test]
fn random_collectives_wait_the_same_twice() {
    for seed in 0..runs() / 4 {
        let mut dice = Dice(Rand64::new(SEED + u128::from(seed)));
        let ranks = dice.of(2, 5) as usize;
        let mut cluster = Cluster::new(ranks as u32);
        cluster.hosts(&vec!["node0"; ranks]);
        // Start and end of compute, by rank; duration by step, collective and rank.
        let mut compute: Vec<Vec<(i64, i64)>> = vec![Vec::new(); ranks];
        let mut waits: Vec<Vec<Vec<(i64, i64)>>> = Vec::new();
        let mut transfers: Vec<i64> = Vec::new();
        let mut at = 50_000 * US;
        for step in 0..dice.of(3, 6) {
            let begin = at;
            let mut own = vec![Vec::new(); ranks];
            for (rank, own) in compute.iter_mut().enumerate() {
                cluster.ranks[rank].compute(begin..begin + 10 * US);
                own.push((begin, begin + 10 * US));
            }
            for _ in 0..dice.of(1, 5) {
                let slot = at + 20 * US;
                let end = slot + dice.of(300, 500) * US;
                let starts: Vec<i64> = (0..ranks).map(|_| slot + dice.of(0, 200_000)).collect();
                let arrivals: Vec<(usize, i64)> = starts.iter().copied().enumerate().collect();
                cluster.collective(&COLLECTIVE, &arrivals, end);
                let last = *starts.iter().max().expect("ranks");
                transfers.push(end - last);
                for (rank, &start) in starts.iter().enumerate() {
                    own[rank].push((start, last));
                    let from = slot + dice.of(0, 250_000);
                    let to = from + dice.of(1, 50_000);
                    cluster.ranks[rank].compute(from..to);
                    compute[rank].push((from, to));
                }
                at = end;
            }
            waits.push(own);
            // Everything is launched half a millisecond ahead.
            cluster.step(&format!("step {step}"), begin - 501 * US..at - 499 * US);
            at += 10 * US;
        }
        let report = cluster.finish();
        let all: Vec<u32> = (0..ranks as u32).collect();
        transfers.sort_unstable();
        let (low, high) = (transfers[(transfers.len() - 1) / 2], transfers[transfers.len() / 2]);
        let (sum, half) = (low + high, (low + high).div_euclid(2));
        let median = if sum % 2 == 0 { half } else { half + half % 2 };
        assert_eq!(group(&report, "AllReduce", &all).transfer_ns, Some(median), "seed {seed}");
        for (step, own) in waits.iter().enumerate() {
            for (number, spans) in own.iter().enumerate() {
                let wait = report
                    .waits
                    .iter()
                    .find(|wait| wait.step == step && wait.rank as usize == number);
                let (wait_ns, exposed) = wait.map_or((0, 0), |w| (w.wait_ns, w.exposed_wait_ns));
                let length = |(from, to): &(i64, i64)| to - from;
                let beside = |(from, to): &(i64, i64)| -> i64 {
                    let common = |(a, b): &(i64, i64)| (to.min(b) - from.max(a)).max(0);
                    compute[number].iter().map(common).sum()
                };
                let expected: i64 = spans.iter().map(length).sum();
                let hidden: i64 = spans.iter().map(beside).sum();
                let place = format!("seed {seed}, step {step}, rank {number}");
                assert_eq!((wait_ns, exposed), (expected, expected - hidden), "{place}");
            }
        }
        assert_eq!(rank(&report, 0).clock.offset_ns, Some(0), "seed {seed}");
    }
}

fn json(paths: &[PathBuf], options: &Options) -> String {
    let report = build_with(paths, options).expect("a report").report;
    serde_json::to_string(&report).expect("JSON")
}

/// Neither the order of rows nor that of files changes a byte, and a saved report reads back as it was.
#[test]
fn order_means_nothing_and_a_saved_report_is_the_report() {
    let options = Options { window: Some(WindowKind::Gpu), replay: true, ..Options::default() };
    for seed in 0..runs() / 6 {
        let at = folder();
        let (_, paths) = make(seed, &at);
        let Ok(built) = build_with(&paths, &options) else { continue };
        let first = serde_json::to_string(&built.report).expect("JSON");
        let reversed: Vec<PathBuf> = paths.iter().rev().cloned().collect();
        assert_eq!(json(&reversed, &options), first, "seed {seed}: files");
        for path in &paths {
            shuffle(path, seed);
        }
        assert_eq!(
            without_size(&json(&paths, &options)),
            without_size(&first),
            "seed {seed}: rows"
        );
        let saved: nsysnccl::internals::report::Report =
            serde_json::from_str(&first).expect("reads back");
        assert_eq!(serde_json::to_string(&saved).expect("JSON"), first, "seed {seed}: saved");
    }
}

/// Writes the rows of every table again in another order.
fn shuffle(path: &std::path::Path, seed: u64) {
    let connection = rusqlite::Connection::open(path).expect("opens");
    let mut statement = connection
        .prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'StringIds'")
        .expect("a statement");
    let names: Vec<String> = statement
        .query_map([], |row| row.get(0))
        .expect("rows")
        .collect::<Result<_, _>>()
        .expect("names");
    for name in names {
        let order = format!("(rowid * 7919 + {seed}) % 101, -rowid");
        let sql = format!(
            "CREATE TEMP TABLE t AS SELECT * FROM {name} ORDER BY {order};
             DELETE FROM {name}; INSERT INTO {name} SELECT * FROM t; DROP TABLE t;"
        );
        connection.execute_batch(&sql).expect("is SQL");
    }
}

/// The size of a file may change with its rows.
fn without_size(json: &str) -> String {
    let mut value: serde_json::Value = serde_json::from_str(json).expect("JSON");
    for input in value["inputs"].as_array_mut().expect("inputs") {
        input.as_object_mut().expect("an input").remove("size_bytes");
    }
    value.to_string()
}
