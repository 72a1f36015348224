//! A real capture of two ranks that send to each other (`tests/data/send_recv`), on two H200: figures worked out here from its rows.
//! In each step rank 0 multiplies six matrices and rank 1 nine, of 1.33 ms, the three before it sends back what it received: rank 0
//! waits for that with its receive.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::support::cluster::finding;
use crate::support::report;

const STEPS: usize = 10;
/// Communication kernels of a step: two sends one way and back, one both ways, two AllReduce, a Broadcast.
const KERNELS: usize = 6;
/// Which of them is the AllReduce over both ranks, after which ranks part at the same time.
const ALL_REDUCE: usize = 4;
/// Which of them sends back.
const BACK: usize = 1;

fn file(rank: usize) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("tests/data/send_recv/send_recv-2gpu_{rank}.sqlite"))
}

/// Start and end of the communication kernels of a rank, by step, in Unix time.
fn kernels(rank: usize) -> Vec<Vec<(i64, i64)>> {
    let db = Connection::open_with_flags(file(rank), rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)
        .expect("a report");
    let rows = "SELECT k.start + t.utcEpochNs, k.\"end\" + t.utcEpochNs
                FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.shortName, TARGET_INFO_SESSION_START_TIME t
                WHERE s.value LIKE 'nccl%' ORDER BY k.start";
    let mut query = db.prepare(rows).expect("a query");
    let all: Vec<(i64, i64)> = query
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .expect("rows")
        .map(|row| row.expect("a row"))
        .collect();
    assert_eq!(all.len(), STEPS * KERNELS);
    all.chunks(KERNELS).map(<[_]>::to_vec).collect()
}

fn median(mut list: Vec<i64>) -> i64 {
    list.sort_unstable();
    list[list.len() / 2]
}

#[test]
fn a_receive_waits_for_its_send() {
    let (zero, one) = (kernels(0), kernels(1));
    let ahead = median((0..STEPS).map(|i| zero[i][ALL_REDUCE].1 - one[i][ALL_REDUCE].1).collect());
    let waits: Vec<i64> = (0..STEPS).map(|i| one[i][BACK].0 + ahead - zero[i][BACK].0).collect();
    assert!(waits.iter().all(|ns| (7_900_000..8_100_000).contains(ns)), "{waits:?}");

    let report = report(&[file(0), file(1)]);
    for (step, expected) in waits.iter().enumerate() {
        let found = report
            .waits
            .iter()
            .find(|wait| wait.step == step && wait.rank == 0)
            .expect("a wait")
            .wait_ns;
        // The other operations of the step add what ranks come apart there.
        assert!(
            (0..150_000).contains(&(found - expected)),
            "step {step}: {found} instead of {expected}"
        );
    }
    let late = finding(&report, "straggler").expect("a finding");
    assert_eq!(
        (late.evidence["rank"].as_u64(), late.evidence["cause"].as_str()),
        (Some(1), Some("compute"))
    );
    let cost = late.evidence["others_wait_ns_per_step"].as_i64().expect("a number");
    assert!((cost - median(waits)).abs() < 100_000, "{cost}");
}

#[test]
fn the_transfer_begins_when_both_are_there() {
    let (zero, one) = (kernels(0), kernels(1));
    let ahead = median((0..STEPS).map(|i| zero[i][ALL_REDUCE].1 - one[i][ALL_REDUCE].1).collect());
    let transfer = |kernel: usize| {
        let of = |i: usize| {
            (one[i][kernel].1 + ahead).max(zero[i][kernel].1)
                - (one[i][kernel].0 + ahead).max(zero[i][kernel].0)
        };
        (0..STEPS).map(of).collect::<Vec<i64>>()
    };
    // There, back, and both ways in one kernel.
    let expected = [
        (Some(0), median(transfer(0))),
        (Some(1), median(transfer(BACK))),
        (None, median(transfer(2))),
    ];
    let report = report(&[file(0), file(1)]);
    for (from, transfer) in expected {
        let group = report
            .collectives
            .iter()
            .find(|group| group.op.label() == "SendRecv" && group.from_rank == from)
            .expect("a group");
        assert_eq!((group.count, group.bytes, group.untimed), (10, Some(67_108_864), 0));
        assert!(
            (group.transfer_ns.expect("timed") - transfer).abs() < 5_000,
            "{:?} instead of {transfer}",
            group.transfer_ns
        );
        // Bytes of the payload over the transfer; busbw is the same for a send.
        let gbs = 67_108_864.0 / transfer as f64;
        assert!(
            group.busbw_gbs.is_some_and(|found| (found / gbs - 1.0).abs() < 0.03),
            "{:?} instead of {gbs}",
            group.busbw_gbs
        );
        // Only what is sent back is waited for.
        let most = group.wait_ns.values().copied().max().expect("waits");
        assert!(
            if from == Some(1) { (7_900_000..8_100_000).contains(&most) } else { most < 100_000 },
            "{from:?}: {most}"
        );
    }
}
