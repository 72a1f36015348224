//! Which record is which kernel. Times in the drawings are microseconds; a kernel is drawn with its duration, a record with its number.

use nsysnccl::internals::steps::StepChoice;

use super::scene::*;
use crate::support::report::{Payload, Payloads, Stream, stream, thread};

/// Kernels every millisecond; the last digit of each duration is its own.
const LENGTHS: [i64; 5] = [301, 422, 353, 514, 285];

fn at(i: usize) -> i64 {
    1000 + 1000 * i as i64
}

/// Five AllReduces on rank 0, with payloads.
///
/// ```text
/// trace          |301| |422| |353| |514| |285|
/// number in log    5     6     7     8     9      0 to 4 before, 10 and 11 after
/// ```
fn five(with_payloads: bool) -> Scene {
    let mut scene = Scene::default();
    for (i, length) in LENGTHS.into_iter().enumerate() {
        scene.kernel(0, ALL_REDUCE, at(i), length, with_payloads.then(|| all_reduce(MB)));
    }
    scene
}

/// Records of numbers 0 to 11, written by passes every `interval` microseconds, which see what has ended before.
fn twelve(interval: i64) -> Vec<Line> {
    let length = |sn: u64| {
        sn.checked_sub(5)
            .and_then(|i| LENGTHS.get(i as usize).copied())
            .unwrap_or(600 + 37 * sn as i64)
    };
    let ended = |sn: u64| 1000 + 1000 * (sn as i64 - 5) + length(sn);
    let written = |sn: u64| ended(sn).div_euclid(interval) * interval + interval + sn as i64;
    // Inspector's times are whole microseconds and some of them short of the kernel's.
    (0..12).map(|sn| line(sn, length(sn) - 4, written(sn))).collect()
}

const ALL_FIVE: [(i64, u64); 5] = [(1000, 5), (2000, 6), (3000, 7), (4000, 8), (5000, 9)];

#[test]
fn any_dump_interval() {
    for with_payloads in [true, false] {
        for interval in [500, 5_000, 20_000, 1_000_000, 30_000_000] {
            let mut scene = five(with_payloads);
            scene.log("node0-pid1000.log", twelve(interval));
            let merge = scene.merged();
            assert_eq!(numbers(&merge), ALL_FIVE, "{with_payloads} {interval}");
            let rank = &merge.ranks[0];
            assert_eq!(
                (rank.kernels, rank.paired, rank.records, rank.records_in_capture),
                (5, 5, 12, 5),
                "{interval}"
            );
            assert!(merge.unmatched.is_empty() && merge.unmatched_records.is_empty(), "{merge:?}");
            assert_eq!(merge.duration_delta_us.map(|d| d.max), Some(4.0));
        }
    }
}

// trace          |301| |422| |353| |514| |285|
// log              5     -     7     8     -      of 2.28 and 2.29: what ends between two polls is lost
#[test]
fn lost_records_leave_their_kernels_alone() {
    for interval in [500, 30_000_000] {
        let mut scene = five(true);
        scene.log(
            "node0-pid1000.log",
            twelve(interval).into_iter().filter(|line| ![6, 9].contains(&line.sn)),
        );
        let merge = scene.merged();
        assert_eq!(numbers(&merge), [(1000, 5), (3000, 7), (4000, 8)], "{interval}");
        assert_eq!(only_reason(&merge), ("the record with its number is missing (lost)", 2));
        // 5, 7, 8: from the first to the last paired number.
        assert_eq!((merge.ranks[0].records_in_capture, merge.ranks[0].unmatched_records), (3, 0));
    }
}

// trace          |301| |422| |353| |514| |285|
// log              5     6     7                  the process was killed before the next dump
#[test]
fn the_end_of_a_log_may_be_missing() {
    let mut scene = five(true);
    scene.log("node0-pid1000.log", twelve(500).into_iter().filter(|line| line.sn < 8));
    let merge = scene.merged();
    assert_eq!(numbers(&merge), ALL_FIVE[..3]);
    assert_eq!(only_reason(&merge), ("after the last record of its communicator and operation", 2));
}

// trace          |301| |422|       |514| |285|     the trace lost a kernel
// log              5     6     7     8     9
#[test]
fn a_kernel_that_the_trace_lost_leaves_its_record_alone() {
    let mut scene = Scene::default();
    for i in [0, 1, 3, 4].into_iter().chain(5..9) {
        scene.kernel(
            0,
            ALL_REDUCE,
            at(i),
            LENGTHS[i % 5] + 10 * (i as i64 / 5),
            Some(all_reduce(MB)),
        );
    }
    let records =
        (0..9).map(|i| line(i as u64 + 5, LENGTHS[i % 5] + 10 * (i as i64 / 5) - 4, at(i) + 700));
    scene.log("node0-pid1000.log", [line(4, 444, 100)].into_iter().chain(records));
    let merge = scene.merged();
    let expected: Vec<(i64, u64)> =
        [0, 1, 3, 4].into_iter().chain(5..9).map(|i| (at(i), i as u64 + 5)).collect();
    assert_eq!(numbers(&merge), expected);
    assert_eq!((merge.ranks[0].records_in_capture, merge.ranks[0].unmatched_records), (9, 1));
    assert_eq!(
        merge.unmatched_records.into_iter().collect::<Vec<_>>(),
        [("no kernel of its operation and communicator fits".to_owned(), 1)]
    );
}

// The log's clock is off: its times fit no kernel, or fit the wrong ones.
#[test]
fn a_clock_that_is_seconds_or_hours_off() {
    for (shift, words) in
        [(3_000_000, "3.000 s ahead of"), (-5 * 3_600_000_000, "18000.000 s behind"), (2_000, "")]
    {
        for with_payloads in [true, false] {
            let mut scene = five(with_payloads);
            let moved = twelve(500)
                .into_iter()
                .map(|line| Line { written_us: line.written_us + shift, ..line });
            scene.log("node0-pid1000.log", moved);
            let finished = scene.finished();
            let merge = finished.inspector.expect("logs");
            assert_eq!(numbers(&merge), ALL_FIVE, "{shift}");
            let warning = finished.warnings.iter().find(|w| w.code.as_str() == "inspector-clock");
            // Two milliseconds are no reason to doubt.
            assert_eq!(
                warning.map(|w| w.message.contains(words)),
                (!words.is_empty()).then_some(true),
                "{warning:?}"
            );
            // Found up to the dump interval late.
            let found = merge.ranks[0].clock_shift_us.expect("a shift") - shift as f64;
            assert!((0.0..=600.0).contains(&found), "{found}");
            // The capture stands where it stood: operations 5 to 9 of 12.
            let window = merge.window.expect("a window");
            assert!(window.from_share > 0.3 && window.to_share < 0.9, "{window:?}");
        }
    }
}

#[test]
fn without_a_clock_sizes_and_durations_decide() {
    for interval in [500, 30_000_000] {
        let mut scene = five(true);
        scene.report(0).without("TARGET_INFO_SESSION_START_TIME");
        scene.log("node0-pid1000.log", twelve(interval));
        assert_eq!(numbers(&scene.merged()), ALL_FIVE, "{interval}");
    }
}

// trace          |300| |300| |300| |300| |300|
// log       0 1 2 3 4 5 6 7 8 9 10 11, all 300      any five in a row
#[test]
fn without_a_clock_and_with_equal_durations_nothing_is_paired() {
    let scene = |with_clock: bool| {
        let mut scene = Scene::default();
        (0..5).for_each(|i| scene.kernel(0, ALL_REDUCE, at(i), 300, Some(all_reduce(MB))));
        if !with_clock {
            scene.report(0).without("TARGET_INFO_SESSION_START_TIME");
        }
        scene.log(
            "node0-pid1000.log",
            twelve(500).into_iter().map(|line| Line { exec_us: 297, ..line }),
        );
        scene.merged()
    };
    let merge = scene(false);
    assert_eq!(only_reason(&merge), ("several records fit equally well", 5));
    assert_eq!((merge.pairs.len(), merge.ranks[0].records_in_capture), (0, 0));
    assert_eq!(numbers(&scene(true)), ALL_FIVE);
}

// A log of another run: the process has the same pid, but nothing fits.
#[test]
fn a_log_that_does_not_belong_is_not_paired() {
    for with_payloads in [true, false] {
        let mut scene = five(with_payloads);
        let other =
            (0..40).map(|sn| line(sn, 900 + 11 * sn as i64, 86_400_000_000 + 1000 * sn as i64));
        scene.log("node0-pid1000.log", other.map(|line| line.on(OTHER_LOGGED)));
        let merge = scene.merged();
        assert_eq!((merge.pairs.len(), merge.ranks[0].records_in_capture), (0, 0));
        let why = if with_payloads {
            "the log has no record of its communicator"
        } else {
            "no record fits in size, time and duration"
        };
        assert_eq!(only_reason(&merge), (why, 5));
    }
}

// The job was restarted and got the same pid: two logs, and the trace is of the second.
//
// log a  0 1 2 3 4 5 6 7 8 9 10 11     a minute before, on a communicator of its own
// log b                                0 1 2 3 4 5 6 7 8 9 10 11
// trace                                          5 6 7 8 9
#[test]
fn the_same_host_and_pid_twice() {
    for with_payloads in [true, false] {
        let mut scene = five(with_payloads);
        let before = twelve(500)
            .into_iter()
            .map(|line| Line { written_us: line.written_us - 60_000_000, ..line });
        scene.log(
            "first/node0-pid1000.log".replace('/', "-").as_str(),
            before.map(|line| line.on(OTHER_LOGGED)),
        );
        scene.log("second-node0-pid1000.log", twelve(500));
        let merge = scene.merged();
        let expected: Vec<(i64, &str, u64)> =
            ALL_FIVE.iter().map(|&(at, sn)| (at, COMM_LOGGED, sn)).collect();
        assert_eq!(pairs(&merge, 0), expected, "{with_payloads}");
        assert_eq!((merge.ranks[0].records, merge.ranks[0].records_in_capture), (24, 5));
    }
}

#[test]
fn copies_of_a_log_count_once() {
    let mut scene = five(true);
    scene.log("node0-pid1000.log", twelve(500));
    scene.log("copy.jsonl", twelve(500));
    let finished = scene.finished();
    let merge = finished.inspector.expect("logs");
    assert_eq!(numbers(&merge), ALL_FIVE);
    assert_eq!(
        (merge.files, merge.records, merge.ranks[0].records, merge.repeated_records),
        (2, 24, 12, 12)
    );
    assert!(finished.warnings.iter().any(|w| w.code.as_str() == "inspector-repeated"
        && w.message.starts_with("12 records stood in the logs")));
}

// Two communicators of one process, told apart by their streams and durations:
//
// stream 20   |301|   |422|   |353|   |514|   |285|        records 5 to 9 of one
// stream 21       |150|   |171|   |132|   |193|            records 0 to 3 of the other
fn two_communicators(payloads: bool) -> Scene {
    let mut scene = five(payloads);
    for (i, length) in [150, 171, 132, 193].into_iter().enumerate() {
        let call = payloads.then_some(Call { comm: OTHER, ..all_reduce(MB) });
        scene.kernel_on(0, ALL_REDUCE, stream(21), at(i) + 600, length, call);
    }
    scene
}

fn records_of_the_other() -> impl Iterator<Item = Line> {
    [150, 171, 132, 193]
        .into_iter()
        .enumerate()
        .map(|(i, length)| line(i as u64, length - 4, at(i) + 600 + 500).on(OTHER_LOGGED))
}

#[test]
fn several_communicators_in_one_process() {
    for payloads in [true, false] {
        let mut scene = two_communicators(payloads);
        scene.log("node0-pid1000.log", twelve(500).into_iter().chain(records_of_the_other()));
        let merge = scene.merged();
        let expected = [
            (1000, COMM_LOGGED, 5),
            (1600, OTHER_LOGGED, 0),
            (2000, COMM_LOGGED, 6),
            (2600, OTHER_LOGGED, 1),
            (3000, COMM_LOGGED, 7),
            (3600, OTHER_LOGGED, 2),
            (4000, COMM_LOGGED, 8),
            (4600, OTHER_LOGGED, 3),
            (5000, COMM_LOGGED, 9),
        ];
        assert_eq!(pairs(&merge, 0), expected, "{payloads}");
    }
}

// Without payloads and without records of the other communicator its kernels stay alone.
#[test]
fn a_communicator_that_is_not_in_the_log() {
    for payloads in [true, false] {
        let mut scene = two_communicators(payloads);
        scene.log("node0-pid1000.log", twelve(500));
        let merge = scene.merged();
        assert_eq!(numbers(&merge), ALL_FIVE, "{payloads}");
        assert_eq!(merge.unmatched.values().sum::<u64>(), 4);
    }
}

// Two communicators on one stream, all kernels alike, one pass that writes everything: nothing tells them apart.
#[test]
fn communicators_that_nothing_tells_apart_are_not_guessed() {
    let mut scene = Scene::default();
    (0..8).for_each(|i| scene.kernel(0, ALL_REDUCE, at(i), 300, None));
    let records = (0..4).flat_map(|sn| {
        [COMM_LOGGED, OTHER_LOGGED].map(|comm| line(sn, 297, 5_000_000 + sn as i64).on(comm))
    });
    scene.log("node0-pid1000.log", records);
    let merge = scene.merged();
    assert_eq!((merge.pairs.len(), merge.ranks[0].unmatched_kernels), (0, 8));
}

// Every step sums the loss (4 B) beside the gradients. Inspector (2.30) does not track it, but counts it.
//
// trace     |301| s |422| s |353| s |514| s |285| s
// log         0   -   2   -   4   -   6   -   8   -
#[test]
fn operations_below_the_minimum_size() {
    let mut scene = Scene::default();
    for (i, length) in LENGTHS.into_iter().enumerate() {
        scene.kernel(0, ALL_REDUCE, at(i), length, Some(all_reduce(MB)));
        scene.kernel(0, ALL_REDUCE, at(i) + 600, 9, Some(all_reduce(4)));
    }
    scene.log(
        "node0-pid1000.log",
        LENGTHS
            .into_iter()
            .enumerate()
            .map(|(i, length)| line(2 * i as u64, length - 4, at(i) + 900)),
    );
    let merge = scene.merged();
    assert_eq!(numbers(&merge), [(1000, 0), (2000, 2), (3000, 4), (4000, 6), (5000, 8)]);
    assert_eq!(
        only_reason(&merge),
        ("below the minimum size of Inspector (NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES)", 5)
    );
}

// One kernel of a group: a send to rank 1 and a receive from it, each with a record. p2p_sn counts both.
//
// trace     |send, recv 310|  |recv 205|  |send 150|
// log            7, 8             9           10
#[test]
fn sends_and_receives_of_one_kernel_have_a_record_each() {
    let mut scene = Scene::default();
    scene.group(0, 1000, 310, &[("ncclSend", MB, 1), ("ncclRecv", MB, 1)]);
    scene.group(0, 2000, 205, &[("ncclRecv", 2 * MB, 1)]);
    scene.group(0, 3000, 150, &[("ncclSend", MB, 1)]);
    let record = |op, sn, us, at: i64| line(sn, us, at + 600).op(op);
    let before = (1..7).map(|sn| {
        record(if sn % 2 == 0 { "Recv" } else { "Send" }, sn, 400, -9000 + 1000 * sn as i64)
    });
    let own = [
        record("Send", 7, 306, 1000),
        record("Recv", 8, 305, 1000),
        record("Recv", 9, 201, 2000).bytes(2 * MB),
        record("Send", 10, 147, 3000),
    ];
    scene.log("node0-pid1000.log", before.chain(own));
    let merge = scene.merged();
    assert_eq!(numbers(&merge), [(1000, 7), (1000, 8), (2000, 9), (3000, 10)]);
    // Kernels are counted, not records.
    assert_eq!(
        (merge.ranks[0].kernels, merge.ranks[0].paired, merge.ranks[0].records_in_capture),
        (3, 3, 4)
    );
}

// An AllToAll of three ranks as sends and receives: what rank 0 sends to itself has a number, but no record.
//
// trace     |AllToAll 310|        |AllToAll 255|       |self only 9|
// number    0 1 (2 3 4 5)         6 7 (8 ...11)        12 13
// log           2 3 4 5               8 9 10 11
#[test]
fn what_a_rank_sends_to_itself_has_no_record() {
    let mut scene = Scene::default();
    let all: Vec<(&str, u64, i32)> =
        (0..3).flat_map(|peer| [("ncclSend", MB, peer), ("ncclRecv", MB, peer)]).collect();
    scene.group(0, 1000, 310, &all);
    scene.group(0, 2000, 255, &all);
    scene.group(0, 3000, 9, &[("ncclSend", MB, 0), ("ncclRecv", MB, 0)]);
    let record = |sn: u64, us: i64, at: i64| {
        line(sn, us, at + 600).op(if sn.is_multiple_of(2) { "Send" } else { "Recv" }).rank(0, 3)
    };
    scene.log(
        "node0-pid1000.log",
        (2..6).map(|sn| record(sn, 306, 1000)).chain((8..12).map(|sn| record(sn, 251, 2000))),
    );
    let merge = scene.merged();
    let expected: Vec<(i64, u64)> =
        (2..6).map(|sn| (1000, sn)).chain((8..12).map(|sn| (2000, sn))).collect();
    assert_eq!(numbers(&merge), expected);
    assert_eq!((merge.ranks[0].paired, merge.ranks[0].unmatched_records), (2, 0));
    assert_eq!(only_reason(&merge), ("sends to the rank itself only, which are not logged", 1));
}

// Three AllReduces that one group fuses into one kernel have a number and a record each.
//
// trace     |1 + 2 + 3 MB 410|   |1 MB 301|
// log            5, 6, 7              8
#[test]
fn a_fused_kernel_has_the_records_of_its_members() {
    let mut scene = Scene::default();
    scene.group(
        0,
        1000,
        410,
        &[("ncclAllReduce", MB, 0), ("ncclAllReduce", 2 * MB, 0), ("ncclAllReduce", 3 * MB, 0)],
    );
    scene.kernel(0, ALL_REDUCE, 2000, 301, Some(all_reduce(MB)));
    let members = (0..3).map(|i| line(5 + i, 406, 1600).bytes((1 + i) * MB));
    scene.log("node0-pid1000.log", members.chain([line(8, 297, 2600)]));
    let merge = scene.merged();
    assert_eq!(numbers(&merge), [(1000, 5), (1000, 6), (1000, 7), (2000, 8)]);
    assert_eq!(merge.ranks[0].paired, 2);
}

// One process drives two devices: both ranks of the communicator are in one log.
//
// device 0   |301| |422| |353| |514| |285|     rank 1 of the communicator, as its init says or its durations do
// device 1   |261| |382| |313| |474| |245|     rank 0
#[test]
fn one_process_with_several_devices() {
    for with_inits in [true, false] {
        for with_payloads in [true, false] {
            let mut scene = Scene::default();
            for (i, length) in LENGTHS.into_iter().enumerate() {
                for device in [0, 1] {
                    let place = Stream { device, context: 1 + device, stream: 20 };
                    let start = at(i) + 40 * device;
                    let call = with_payloads.then(|| all_reduce(MB));
                    scene.kernel_on(0, ALL_REDUCE, place, start, length - 40 * device, call);
                }
            }
            if with_inits {
                for (device, rank) in [(0, 1), (1, 0)] {
                    let init =
                        Payload { comm: COMM, init: Some((2, rank, device)), ..Payload::default() };
                    scene.report(0).nccl(thread(1000, 1000), "ncclCommInitAll", 10..20, init);
                }
            }
            let of_device_0 = twelve(500).into_iter().map(|line| line.rank(1, 2));
            let of_device_1 = twelve(500)
                .into_iter()
                .map(|line| Line { exec_us: line.exec_us - 40, ..line.rank(0, 2) });
            scene.log("node0-pid1000.log", of_device_0.chain(of_device_1));
            let finished = scene.finished();
            let merge = finished.inspector.as_ref().expect("logs");
            for rank in &finished.ranks {
                let length = LENGTHS[0] - 40 * i64::from(rank.device);
                let own: Vec<_> =
                    merge.pairs.iter().filter(|pair| pair.rank == rank.rank).collect();
                assert_eq!(own.len(), 5, "{with_inits} {with_payloads}: {merge:?}");
                assert_eq!(
                    (own[0].sn, own[0].kernel_ns, own[0].exec_time_us),
                    (Some(5), length * 1000, Some(length as f64 - 4.0))
                );
            }
            assert!(
                merge.ranks.iter().all(|rank| rank.records == 12 && rank.records_in_capture == 5)
            );
        }
    }
}

// step 1 [900, 2900) holds the launches of two kernels; the numbers are of the whole capture all the same.
#[test]
fn counts_are_of_the_capture_and_not_of_the_steps() {
    let mut scene = five(true);
    scene.options.step = StepChoice::Automatic;
    scene.report(0).range(thread(1000, 1000), "step 1", 900_000..2_900_000);
    scene.log("node0-pid1000.log", twelve(500));
    let finished = scene.finished();
    assert_eq!(finished.steps.len(), 1);
    let merge = finished.inspector.expect("logs");
    assert_eq!((merge.ranks[0].kernels, merge.ranks[0].paired), (5, 5));
}

// Without payloads the records say how large operations are, and so how fast: 1 MB in 301 us on two ranks, busbw = algbw.
#[test]
fn sizes_of_records_give_bandwidths() {
    let mut scene = Scene::default();
    for rank in [0, 1] {
        for (i, length) in LENGTHS.into_iter().enumerate() {
            scene.kernel(rank, ALL_REDUCE, at(i), length, None);
        }
        scene.report(rank).payloads = Payloads::None;
        scene.log(
            &format!("{rank}.log"),
            twelve(500).into_iter().map(|line| line.pid(1000 + rank).rank(rank, 2)),
        );
    }
    let finished = scene.finished();
    let [group] = finished.collectives.as_slice() else { panic!("{:?}", finished.collectives) };
    assert_eq!(
        (group.bytes, group.bytes_source.map(|source| source.label()), group.count),
        (Some(MB), Some("inspector"), 5)
    );
    // The median of five durations is 353 us.
    assert!(
        (group.busbw_gbs.expect("known") - 1e6 / 353e-6 / 1e9).abs() < 1e-9,
        "{:?}",
        group.busbw_gbs
    );
    let merge = finished.inspector.expect("logs");
    assert!((merge.pairs[0].busbw_gbs.expect("known") - 1e6 / 297e-6 / 1e9).abs() < 1e-9);
    assert!(finished.warnings.iter().all(|w| w.code.as_str() != "no-payloads"));
}
