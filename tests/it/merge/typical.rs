//! The captured part beside the rest of the run.

use super::scene::*;

/// Two ranks, AllReduce of 1 MB every millisecond; the capture holds numbers 20 to 25.
///
/// ```text
/// number    0 ... 19 | 20 ... 25 | 26 ... 39
/// us          300    | captured  |   300          the last rank to arrive (rank 1); rank 0 waits for it
/// ```
fn run(
    captured_us: i64,
    captured_wait_us: i64,
    rest_us: impl Fn(u64) -> i64,
    rest_wait_us: i64,
) -> Scene {
    let mut scene = Scene::default();
    let inside = |sn: u64| (20..26).contains(&sn);
    // Every operation has a place of its own: a few microseconds more or less.
    let times = |sn: u64| {
        let (us, wait) =
            if inside(sn) { (captured_us, captured_wait_us) } else { (rest_us(sn), rest_wait_us) };
        (us + (sn as i64 * 7) % 5, wait + (sn as i64 * 5) % 7)
    };
    for sn in 0..40_u64 {
        let start = 1000 * (sn as i64 - 19);
        let (us, wait) = times(sn);
        for (rank, length) in [(0, us + wait), (1, us)] {
            if inside(sn) {
                scene.kernel(
                    rank,
                    ALL_REDUCE,
                    start + us + wait - length,
                    length,
                    Some(all_reduce(MB)),
                );
            }
            scene.log(
                &format!("{rank}.log"),
                [line(sn, length, start + us + wait + 100).pid(1000 + rank).rank(rank, 2)],
            );
        }
    }
    scene
}

#[test]
fn a_capture_like_the_rest() {
    let merge = run(300, 50, |_| 300, 50).merged();
    let [typical] = merge.typical.as_slice() else { panic!("{:?}", merge.typical) };
    assert_eq!(
        (typical.captured, typical.rest, typical.ranks_logged, typical.n_ranks),
        (6, 34, 2, 2)
    );
    assert_eq!(
        (typical.verdict.as_deref(), typical.wait_verdict.as_deref()),
        (Some("typical"), Some("typical"))
    );
    // On two ranks busbw is the size over the time: numbers 20 to 25 take 300, 302, 304, 301, 303, 300 us.
    let expected = (1e6 / 301e-6 + 1e6 / 302e-6) / 2.0 / 1e9;
    assert!((typical.captured_busbw_gbs.expect("known") - expected).abs() < 1e-9, "{typical:?}");
    let [captured] = merge.captured.as_slice() else { panic!("{:?}", merge.captured) };
    assert_eq!(
        (captured.first_sn, captured.last_sn, captured.first_logged_sn, captured.last_logged_sn),
        (20, 25, 0, 39)
    );
    // Rank 0 starts number 20 at 1000 us; number 0 was written at -18,547 us (300 + 50 + 100 after its start at -19,000 us, and its
    // own 0 more), number 39 39,004 us later.
    let window = merge.window.expect("a window");
    assert!(
        (window.from_share - 0.5).abs() < 0.02 && (window.to_share - 0.64).abs() < 0.02,
        "{window:?}"
    );
}

#[test]
fn a_lucky_and_an_unlucky_capture() {
    for (us, verdict) in [(250, "faster"), (400, "slower"), (290, "typical")] {
        let merge = run(us, 50, |_| 300, 50).merged();
        assert_eq!(merge.typical[0].verdict.as_deref(), Some(verdict), "{us}");
    }
}

#[test]
fn waits_are_judged_as_a_share_of_the_operation() {
    for (wait, verdict) in [(200, "longer"), (65, "typical"), (4, "shorter")] {
        let merge = run(300, wait, |_| 300, 50).merged();
        assert_eq!(merge.typical[0].wait_verdict.as_deref(), Some(verdict), "{wait}");
        assert_eq!(merge.typical[0].verdict.as_deref(), Some("typical"), "waiting is not transfer");
    }
}

// The first operations of a run are slow. They do not make a slow capture typical, nor a usual one lucky.
#[test]
fn a_slow_start_does_not_decide() {
    let warm_up = |sn: u64| if sn < 4 { 3000 } else { 300 };
    assert_eq!(run(300, 50, warm_up, 50).merged().typical[0].verdict.as_deref(), Some("typical"));
    assert_eq!(run(500, 50, warm_up, 50).merged().typical[0].verdict.as_deref(), Some("slower"));
}

// The rest is 200 to 500 us: 250 is faster than its median, but nothing special.
#[test]
fn what_the_rest_scatters_is_typical() {
    let scattered = |sn: u64| 200 + (sn as i64 * 37) % 300;
    assert_eq!(run(250, 50, scattered, 50).merged().typical[0].verdict.as_deref(), Some("typical"));
}

// A rank that is not in the logs, and operations that one rank lost: like is compared with like.
#[test]
fn operations_count_where_the_same_ranks_logged_them() {
    let mut scene = run(300, 50, |_| 300, 50);
    let kept: Vec<String> = scene
        .take("1.log")
        .lines()
        .enumerate()
        .filter(|(sn, _)| sn % 2 == 0)
        .map(|(_, l)| format!("{l}\n"))
        .collect();
    scene.text("1.log", &kept.concat());
    let merge = scene.merged();
    // 20, 22, 24 inside and 17 outside have both ranks.
    assert_eq!((merge.typical[0].captured, merge.typical[0].rest), (3, 17));
    assert_eq!(merge.typical[0].verdict.as_deref(), Some("typical"));
    scene.take("1.log");
    let merge = scene.merged();
    assert_eq!((merge.typical[0].ranks_logged, merge.typical[0].captured_wait_us), (1, None));
}

#[test]
fn too_few_operations_have_no_verdict() {
    let mut scene = run(300, 50, |_| 300, 50);
    for rank in 0..2 {
        let file = format!("{rank}.log");
        let kept: Vec<String> =
            scene.take(&file).lines().skip(18).take(9).map(|l| format!("{l}\n")).collect();
        scene.text(&file, &kept.concat());
    }
    let merge = scene.merged();
    assert_eq!((merge.typical[0].captured, merge.typical[0].rest), (6, 3));
    assert_eq!((&merge.typical[0].verdict, &merge.typical[0].wait_verdict), (&None, &None));
    assert!(
        merge.typical[0]
            .reason
            .as_deref()
            .is_some_and(|why| why.starts_with("fewer than 3 captured or 5 other"))
    );
}

// Stamps of a verbose record are the host's: two channels of 600 and 1000 us, mean 800.
#[test]
fn the_slowest_channel_beside_the_mean() {
    let mut scene = Scene::default();
    for i in 0..6_i64 {
        let (start, length) = (1000 + 2000 * i, 1010 + 20 * i);
        scene.kernel(0, ALL_REDUCE, start, length, Some(all_reduce(MB)));
        let us = |at: i64| EPOCH_US + at;
        let channel = |id: i64, stop: i64| {
            format!(
                r#"{{"channel_id":{id},"kernel_start_ts":{},"kernel_stop_ts":{}}}"#,
                us(start + 5),
                us(stop)
            )
        };
        let trace = format!(
            r#","event_trace_ts":{{"coll_start_ts":{},"coll_stop_ts":{},"kernel_events":[{},{}]}}}}}}"#,
            us(start - 20),
            us(start - 15),
            channel(0, start + 605),
            channel(1, start + 1005)
        );
        let plain = line(5 + i as u64, length - 4, start + length + 100).json();
        scene.text("0.log", &format!("{}{trace}\n", plain.trim_end().trim_end_matches("}}")));
    }
    let merge = scene.merged();
    assert_eq!(merge.pairs.len(), 6);
    let channels = merge.channel_imbalance.expect("verbose records");
    assert_eq!((channels.operations, channels.channels), (6, 2));
    assert!(
        (channels.max_over_mean_p50 - 1.25).abs() < 1e-9
            && (channels.max_over_mean_p95 - 1.25).abs() < 1e-9,
        "{channels:?}"
    );
}
