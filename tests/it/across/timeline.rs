//! The steps to move in: where each operation lies on the common clock, who waits for whom, and the critical path.

use nsysnccl::internals::report::timeline::{Item, RankLanes, Timeline, What};
use nsysnccl::internals::reporting;
use nsysnccl::internals::run::{Options, Run};

use crate::support::cluster::{ALL_REDUCE, Cluster, MS};

fn run(cluster: &Cluster) -> Run {
    let folder = crate::support::folder();
    Run::read(&cluster.save(&folder), &Options::default(), || ()).expect("a run")
}

// true time, ms from the step's begin, steps 100 ms apart; the clock of rank 0 is 5 ms ahead
//          0    2     6    8  10    14          20
// rank 0        [gemm)               [AllReduce )     arrives last
// rank 1        [gemm)          [ wait | moves  )
// forward on the CPU of rank 0 from 1 to 7 launches the gemm at 1.5
fn two_ranks() -> Cluster {
    let mut cluster = Cluster::new(2);
    cluster.ahead(0, 5 * MS);
    for s in 1..=3 {
        let t = 100 * MS * s;
        cluster.step(&format!("step {s}"), t..t + 30 * MS);
        for rank in &mut cluster.ranks {
            rank.compute(t + 2 * MS..t + 6 * MS);
        }
        cluster.ranks[0].step("forward", t + MS..t + 7 * MS);
        cluster.collective(&ALL_REDUCE, &[(0, t + 14 * MS), (1, t + 10 * MS)], t + 20 * MS);
    }
    cluster
}

#[test]
fn ranks_lie_on_one_clock_and_a_wait_has_its_cause() {
    let timeline = Timeline::of(&run(&two_ranks())).expect("steps");
    assert!(timeline.one_clock);
    assert_eq!(
        (timeline.all_steps, timeline.steps.len(), timeline.ranks.as_slice()),
        (3, 3, &[0, 1][..])
    );
    let name = |at: u32| timeline.names[at as usize].as_str();
    for step in &timeline.steps {
        let times = |rank: &RankLanes, lane: usize| -> Vec<(i64, i64)> {
            rank.lanes[lane].iter().map(|item| (item.start, item.ns)).collect()
        };
        let [first, second] = &step.ranks[..] else { panic!("{} ranks", step.ranks.len()) };
        // A window ends where the next begins, the last one with its work.
        let window = (0, if step.index < 2 { 100 * MS } else { 18 * MS });
        assert_eq!((first.window, second.window), (window, window));
        assert_eq!(times(first, 0), [(0, 4 * MS)], "what forward launched");
        assert_eq!(times(second, 0), []);
        assert_eq!((times(first, 1), times(second, 1)), (vec![(0, 4 * MS)], vec![(0, 4 * MS)]));
        assert_eq!(times(first, 2), [(12 * MS, 6 * MS)]);
        assert_eq!(times(second, 2), [(8 * MS, 10 * MS)]);
        let met = |rank: &RankLanes| match rank.lanes[2][0] {
            Item { what: What::Comm { op, bytes, wait_ns, collective, .. }, .. } => {
                (name(op).to_owned(), bytes, wait_ns, collective)
            }
            other => panic!("{other:?}"),
        };
        let all_reduce = |wait| ("AllReduce".to_owned(), Some(1 << 20), Some(wait), Some(0));
        assert_eq!((met(first), met(second)), (all_reduce(0), all_reduce(4 * MS)));
        let [one] = &step.collectives[..] else { panic!("{:?}", step.collectives) };
        assert_eq!(
            (one.transfer_ns, one.last, one.arrival_spread_ns),
            (Some(6 * MS), Some(0), Some(4 * MS))
        );
        assert!(step.matter.contains(&(0, "most often last")), "{:?}", step.matter);
        assert!(step.matter.contains(&(1, "waits most")), "{:?}", step.matter);
    }
}

/// The pieces that are drawn are those whose sums the report prints.
#[test]
fn the_drawn_path_is_the_reported_one() {
    let Some(folder) = crate::support::captures() else { return };
    let paths = [0, 1].map(|rank| folder.join(format!("shm/shm-2gpu_{rank}.sqlite")));
    let options = Options { replay: true, pieces: true, ..Options::default() };
    let run = Run::read(&paths, &options, || ()).expect("a run");
    let timeline = Timeline::of(&run).expect("steps");
    let report = reporting::of(&run);
    assert_eq!(report.critical_path.len(), 5);
    for path in &report.critical_path {
        let step = timeline.steps.iter().find(|step| step.index == path.step).expect("the step");
        assert_eq!(step.path_resolution_ns, 0);
        let sum = |part: &str| -> i64 {
            let pieces = step.path.iter().filter(|p| timeline.names[p.part as usize] == part);
            pieces.map(|p| p.end - p.start).sum()
        };
        assert_eq!(
            (sum("compute"), sum("transfer"), sum("copy"), sum("host")),
            (path.compute_ns, path.transfer_ns, path.copy_ns, path.host_ns),
            "step {}",
            path.step
        );
        assert!(step.path.windows(2).all(|pair| pair[0].end == pair[1].start));
    }
}

#[test]
fn a_run_without_replay_has_no_path_and_says_so() {
    let folder = crate::support::folder();
    let options = Options { replay: false, ..Options::default() };
    let run = Run::read(&two_ranks().save(&folder), &options, || ()).expect("a run");
    let timeline = Timeline::of(&run).expect("steps");
    assert!(timeline.no_path && timeline.steps.iter().all(|step| step.path.is_empty()));
}

/// Channels of NPKit and what was sampled of GPUs stand below the operations, cut to the step.
#[test]
fn channels_and_counters_stand_below() {
    let Some(folder) = crate::support::captures() else { return };
    let slow = folder.join("npkit-real/slow");
    let paths = [0, 1].map(|rank| slow.join(format!("rank_{rank}.sqlite")));
    let options = Options { npkit: vec![slow.join("dump")], ..Options::default() };
    let run = Run::read(&paths, &options, || ()).expect("a run");
    let timeline = Timeline::of(&run).expect("steps");
    let joined = nsysnccl::internals::reporting::of(&run).npkit.expect("a dump");
    let lanes: usize = joined.kernels.iter().map(|kernel| kernel.phases.lanes.len()).sum();
    let ranks = || timeline.steps.iter().flat_map(|step| &step.ranks);
    assert_eq!(ranks().map(|rank| rank.channels.len()).sum::<usize>(), lanes);
    // Each inside of one of the rank's kernels, to 2 us.
    for rank in ranks() {
        let end = |item: &Item| item.start + item.ns;
        for lane in &rank.channels {
            let mut kernels = rank.lanes[2].iter();
            assert!(
                kernels.any(|k| k.start - 2_000 <= lane.start && end(lane) <= end(k) + 2_000),
                "{lane:?}"
            );
        }
    }
    let path = folder.join("gpumetrics/gpumetrics.sqlite");
    let run = Run::read(&[path], &Options::default(), || ()).expect("a run");
    let timeline = Timeline::of(&run).expect("steps");
    let rank = &timeline.steps[0].ranks[0];
    let mean = |name: &str| {
        let at = timeline.names.iter().position(|own| own == name).expect("a counter") as u32;
        let mut total = (0.0, 0.0);
        for item in &rank.counters {
            if let What::Level { name, percent_100, .. } = item.what
                && name == at
            {
                total = (
                    total.0 + percent_100 as f64 / 100.0 * item.ns as f64,
                    total.1 + item.ns as f64,
                );
            }
        }
        total.0 / total.1
    };
    // The step computes nearly all of the time, without tensor cores.
    assert!(mean("SM active") > 80.0 && mean("tensor active") < 5.0);
    assert!(
        rank.counters.iter().all(|item| item.start >= 0 && item.start + item.ns <= rank.window.1)
    );
}
