//! Long logs: time and memory stay in proportion to the log, not to kernels times records.

use std::time::Instant;

use super::collect::{Collected, LoggedOp};
use super::kernels::RankKernels;
use super::merge;
use crate::collectives::events::Event;
use crate::model::record::{Origin, Timing, logged_id};
use crate::model::{CommOp, NameId};

const COMM: u64 = 0xfa01_2817_699a_0bae;
const KERNELS: u64 = 5_000;
const RECORDS: u64 = 1_000_000;
const EPOCH: i64 = 1_700_000_000_000_000_000;

/// A duration that looks random: 20 to 420 us, or less of it.
fn duration_us(sn: u64, range: u64) -> u64 {
    let mut mixed = sn.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    20 + (mixed ^ (mixed >> 27)) % range
}

/// Operation `sn` starts that many ms after the trace's time 0.
fn start_ns(sn: u64) -> i64 {
    sn as i64 * 1_000_000
}

fn event(sn: u64, range: u64, known: bool) -> Event {
    let start = start_ns(sn);
    Event {
        launch: start - 10_000,
        name: NameId(0),
        comm: known.then_some(COMM),
        bytes: known.then_some(1 << 20),
        ..Event::new(CommOp::AllReduce, start, start + duration_us(sn, range) as i64 * 1000 + 3_500)
    }
}

/// So many records, every 97th lost, written at the next multiple of `dump_us`.
fn logs(records: u64, range: u64, dump_us: i64) -> Collected {
    let origin = Origin {
        comm_id: logged_id(COMM),
        comm_name: None,
        rank: 0,
        n_ranks: 8,
        nnodes: Some(1),
        hostname: "node0".to_owned(),
        pid: Some(7),
    };
    let record = |sn: u64| {
        let ended = (EPOCH + start_ns(sn)) / 1000 + duration_us(sn, range) as i64;
        LoggedOp {
            origin: 0,
            op: CommOp::AllReduce,
            p2p: false,
            timing: Timing::KernelGpu,
            sn: Some(sn),
            bytes: Some(1 << 20),
            exec_us: Some(duration_us(sn, range) as f64),
            written_us: Some((ended / dump_us + 1) * dump_us),
            verbose: None,
        }
    };
    Collected::from_ops(vec![origin], (0..records).filter(|sn| sn % 97 != 0).map(record).collect())
}

/// The capture begins after nine tenths of the log.
fn check(epoch_ns: Option<i64>, known: bool, records: u64, range: u64, dump_us: i64) {
    let logs = logs(records, range, dump_us);
    let first = records / 10 * 9;
    let rank = RankKernels {
        pid: 7,
        hostname: Some("node0".to_owned()),
        epoch_ns,
        ..RankKernels::default()
    };
    let mut events =
        vec![(first..first + KERNELS).map(|sn| event(sn, range, known)).collect::<Vec<_>>()];
    let began = Instant::now();
    let merged = merge(&[rank], &mut events, &logs);
    let lost = (first..first + KERNELS).filter(|sn| sn % 97 == 0).count() as u64;
    assert_eq!(merged.view.ranks[0].paired, KERNELS - lost);
    assert!(
        merged.view.pairs.iter().all(|pair| pair.sn == Some((pair.start_ns / 1_000_000) as u64))
    );
    assert_eq!(merged.view.unmatched.values().sum::<u64>(), lost);
    assert_eq!(merged.view.ranks[0].records_in_capture, KERNELS - lost);
    // Hours, if every kernel met every record.
    assert!(began.elapsed().as_secs() < 120, "{:?}", began.elapsed());
}

#[test]
fn five_thousand_kernels_among_a_million_records() {
    check(Some(EPOCH), true, RECORDS, 400, 500);
}

#[test]
fn the_same_without_a_clock() {
    check(None, true, RECORDS, 400, 500);
}

/// Each kernel fits a quarter of the log; together they fit one place.
#[test]
fn without_a_clock_and_with_durations_that_hardly_differ() {
    check(None, true, RECORDS / 10, 80, 500);
}

#[test]
fn without_payloads_and_with_dumps_every_30_seconds() {
    check(Some(EPOCH), false, RECORDS / 10, 400, 30_000_000);
}

#[test]
fn with_a_clock_that_is_an_hour_off() {
    check(Some(EPOCH - 3_600_000_000_000), true, RECORDS / 10, 400, 500);
}

#[test]
fn a_plain_record_takes_less_than_a_hundred_bytes() {
    assert!(size_of::<LoggedOp>() <= 96, "{}", size_of::<LoggedOp>());
}
