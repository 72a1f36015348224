//! Logs that are incomplete or wrong, and what is said about them.

use nsysnccl::internals::report::Report;
use nsysnccl::internals::warning::Warning;

use super::scene::*;

const LENGTHS: [i64; 5] = [301, 422, 353, 514, 285];

fn at(i: usize) -> i64 {
    1000 + 1000 * i as i64
}

fn five(ranks: &[u32]) -> Scene {
    let mut scene = Scene::default();
    for &rank in ranks {
        for (i, length) in LENGTHS.into_iter().enumerate() {
            scene.kernel(rank, ALL_REDUCE, at(i), length, Some(all_reduce(MB)));
        }
    }
    scene
}

/// The records of [`five`]: numbers 5 to 9, each written 500 us after its operation's latest end; before them number 4.
fn records() -> Vec<Line> {
    let own = LENGTHS
        .into_iter()
        .enumerate()
        .map(|(i, length)| line(5 + i as u64, length - 4, at(i) + 900));
    [line(4, 612, 900)].into_iter().chain(own).collect()
}

fn warning<'a>(report: &'a Report, code: &str) -> Option<&'a Warning> {
    report.warnings.iter().find(|w| w.code.as_str() == code)
}

#[test]
fn a_rank_without_a_log_is_named() {
    let mut scene = five(&[0, 1]);
    scene.log("1.log", records().into_iter().map(|line| line.pid(1001).rank(1, 2)));
    let report = scene.finished();
    let merge = report.inspector.as_ref().expect("logs");
    assert_eq!(merge.missing_ranks, [0]);
    assert_eq!(
        merge.ranks.iter().map(|r| (r.kernels, r.paired)).collect::<Vec<_>>(),
        [(5, 0), (5, 5)]
    );
    assert_eq!(only_reason(merge), ("no log of this process", 5));
    let message = &warning(&report, "inspector-rank-missing").expect("a warning").message;
    assert_eq!(
        message,
        "No Inspector record of rank 0 (process 1000 on node0): its log is not among the files, or nothing was written."
    );
}

// Process ids repeat across hosts: a log under another name is taken only if no other host has one of that process.
#[test]
fn a_log_under_another_host_name_is_taken_if_it_is_the_only_one_that_fits() {
    let mut scene = five(&[0]);
    scene.log("1.log", records().into_iter().map(|line| line.host("node7.cluster")));
    let report = scene.finished();
    assert_eq!(report.inspector.as_ref().map(|m| m.pairs.len()), Some(5));
    let message = &warning(&report, "inspector-host").expect("a warning").message;
    assert!(message.contains("rank 0: 'node7.cluster'"), "{message}");

    scene.log("2.log", records().into_iter().map(|line| line.host("node8.cluster")));
    let report = scene.finished();
    assert_eq!(
        report.inspector.as_ref().map(|m| (m.pairs.len(), m.missing_ranks.clone())),
        Some((0, vec![0]))
    );
    assert!(warning(&report, "inspector-host").is_none());
    let message = &warning(&report, "inspector-rank-missing").expect("a warning").message;
    assert!(
        message.contains("there is a log of process 1000 on node7.cluster, which is another host"),
        "{message}"
    );
    // With a domain it is the same host.
    let mut scene = five(&[0]);
    scene.log("1.log", records().into_iter().map(|line| line.host("NODE0.cluster.example")));
    assert_eq!(scene.merged().pairs.len(), 5);
}

// The plugin's name for what it does not know. Such a record takes part in nothing.
#[test]
fn operations_without_a_name_are_counted() {
    let mut scene = five(&[0]);
    scene.log("0.log", records());
    scene.log("0.log", (0..3).map(|sn| line(sn, 300, at(sn as usize) + 950).op("Invalid")));
    let merge = scene.merged();
    assert_eq!((merge.pairs.len(), merge.unnamed_records, merge.ranks[0].records), (5, 3, 6));
    let mut scene = five(&[0]);
    scene.log("0.log", [line(0, 300, 1900).op("Invalid")]);
    let report = scene.finished();
    let message = &warning(&report, "inspector-rank-missing").expect("a warning").message;
    assert!(message.ends_with("its log holds no operation."), "{message}");
}

// A time of 0 is none: the pair stays, without a difference and without a bandwidth.
#[test]
fn execution_times_of_zero() {
    let mut scene = five(&[0]);
    scene.log(
        "0.log",
        records()
            .into_iter()
            .map(|line| if line.sn == 7 { Line { exec_us: 0, ..line } } else { line }),
    );
    let report = scene.finished();
    let merge = report.inspector.as_ref().expect("logs");
    let seven = merge.pairs.iter().find(|pair| pair.sn == Some(7)).expect("is paired");
    assert_eq!((seven.start_ns, seven.exec_time_us, seven.busbw_gbs), (3_000_000, None, None));
    assert_eq!((merge.pairs.len(), merge.trust[0].pairs, merge.trust[0].trusted), (5, 4, true));
    assert!(
        merge.pairs.iter().filter(|pair| pair.sn != Some(7)).all(|pair| pair.busbw_gbs.is_some())
    );

    let mut scene = five(&[0]);
    scene.log("0.log", records().into_iter().map(|line| Line { exec_us: 0, ..line }));
    let report = scene.finished();
    let merge = report.inspector.as_ref().expect("logs");
    // Size, time and numbers are enough; of times there is nothing to trust or to doubt.
    assert_eq!((numbers(merge).len(), merge.duration_delta_us), (5, None));
    assert!(merge.pairs.iter().all(|pair| pair.busbw_gbs.is_none()) && merge.typical.is_empty());
    assert_eq!(warning(&report, "inspector-times-differ"), None);
}

// Two of five times are not the kernels': more than a tenth. 500 us instead of 353 and 700 instead of 514.
#[test]
fn times_that_are_not_the_kernels_are_not_trusted() {
    for (timing, words) in [
        ("kernel_gpu", "(median 4.00 µs, at most 186.0 µs). The pairs"),
        ("collective_cpu", "All of these were timed by the host"),
    ] {
        let mut scene = five(&[0]);
        scene.log(
            "0.log",
            records().into_iter().map(|line| match line.sn {
                7 => Line { exec_us: 500, ..line.timing(timing) },
                8 => Line { exec_us: 700, ..line.timing(timing) },
                _ => line,
            }),
        );
        let report = scene.finished();
        let merge = report.inspector.as_ref().expect("logs");
        assert_eq!(numbers(merge), [(1000, 5), (2000, 6), (3000, 7), (4000, 8), (5000, 9)]);
        assert!(
            merge.pairs.iter().all(|pair| pair.busbw_gbs.is_none()),
            "no bandwidth from such times"
        );
        let trust = &merge.trust[0];
        assert_eq!((trust.pairs, trust.disagreeing, trust.trusted), (5, 2, false));
        let message = &warning(&report, "inspector-times-differ").expect("a warning").message;
        assert!(
            message.contains("2 of 5 pairs differ by more than 10 µs and 5 %")
                && message.contains(words),
            "{message}"
        );
    }
    // 9 us off, or 4 % of the kernel, is what timers and rounding explain.
    let mut scene = five(&[0]);
    scene.log(
        "0.log",
        records()
            .into_iter()
            .map(|line| Line { exec_us: line.exec_us - 5 - line.exec_us / 50, ..line }),
    );
    assert!(scene.merged().trust[0].trusted);
}

// dump_stats counts what a full ring overwrote. Times in us, each dump with its counter:
//
// dump        900        1900 2900 3900 4900 5900          10000     20000
// in capture              |--------------------|
// lost in all  3          3              7 (4 more)                    9
//
// Whether the counter stands before or after the records of its dump depends on the version, so one dump on either side counts, too.
#[test]
fn drops_that_concern_the_capture_are_named() {
    let dumped = |lost: [u64; 8]| {
        let mut scene = five(&[0]);
        let after = [line(30, 333, 10_000), line(31, 333, 20_000)];
        for (record, total) in records().iter().chain(&after).zip(lost) {
            scene.text("0.log", &(record.dump_stats(total) + &record.json()));
        }
        scene.finished()
    };
    let report = dumped([3, 3, 3, 7, 7, 7, 7, 9]);
    let merge = report.inspector.as_ref().expect("logs");
    assert_eq!((merge.pairs.len(), merge.dropped), (5, 9));
    let message = &warning(&report, "inspector-dropped").expect("a warning").message;
    assert!(
        message
            .starts_with("Inspector dropped 4 records of communicator 0xfa012817699a0b on rank 0"),
        "{message}"
    );
    // Before and after it they are counted, but no reason to warn.
    let report = dumped([3, 3, 3, 3, 3, 3, 3, 3]);
    assert_eq!(
        (warning(&report, "inspector-dropped"), report.inspector.as_ref().map(|m| m.dropped)),
        (None, Some(3))
    );
}

#[test]
fn a_capture_without_communication() {
    let mut scene = Scene::default();
    scene.kernel(0, "gemm(int)", 1000, 300, None);
    scene.log("0.log", records());
    let merge = scene.merged();
    assert_eq!((merge.ranks[0].kernels, merge.pairs.len(), merge.ranks[0].records), (0, 0, 6));
    assert!(
        merge.unmatched.is_empty() && merge.duration_delta_us.is_none() && merge.window.is_none()
    );
}

// Numbers at the ends of their range, a time before 1970, records without numbers.
#[test]
fn absurd_values_are_no_reason_to_fail() {
    let mut scene = five(&[0]);
    scene.log("0.log", records());
    let odd = [
        line(u64::MAX, 300, 1500),
        line(1 << 63, i64::MAX, -2 * EPOCH_US),
        line(11, i64::MAX, i64::MAX / 2).bytes(u64::MAX),
    ];
    scene.log("0.log", odd);
    assert_eq!(numbers(&scene.merged()).len(), 5);

    let mut scene = five(&[0]);
    let bare = records().into_iter().map(|line| line.json().replace("\"coll_sn\":", "\"was_sn\":"));
    scene.text("0.log", &bare.collect::<String>());
    let merge = scene.merged();
    // Their order stands in for the numbers.
    assert_eq!(
        merge
            .pairs
            .iter()
            .map(|pair| (pair.start_ns / 1000, pair.exec_time_us))
            .collect::<Vec<_>>(),
        {
            let expected = LENGTHS
                .into_iter()
                .enumerate()
                .map(|(i, length)| (at(i), Some((length - 4) as f64)));
            expected.collect::<Vec<_>>()
        }
    );
}
