//! Logs that are incomplete or wrong, each as it happens.

use super::log::{Folder, Log, START, codes, gzip, only};

#[test]
fn a_log_beside_its_gzip_counts_once() {
    let mut log = Log::new("0xa", 0, 2);
    log.all_reduce(1_000_000, [10, 20, 30]);
    let folder = Folder::new(&[&log]);
    folder.write("h0-pid100.log.gz", &gzip(log.text.as_bytes()));
    // A copy that was made earlier and lacks the last line.
    let earlier = log.text.rfind("{\"header").map_or("", |at| &log.text[..at]);
    folder.write("copy/h0-pid100.jsonl", earlier.as_bytes());
    let view = folder.inspect();
    assert_eq!((view.files.len(), view.records, view.operations, only(&view).count), (3, 8, 3, 3));
    assert_eq!(codes(&view).iter().filter(|c| **c == "repeated-file").count(), 2);
    assert_eq!(view.processes.len(), 1);
}

#[test]
fn parts_of_one_log_count_together() {
    let (mut first, mut second) = (Log::new("0xa", 0, 2), Log::new("0xa", 0, 2));
    first.all_reduce(64, [1, 2]);
    second.coll("AllReduce", 2, "64", "3", "1.0");
    let folder = Folder::new(&[&first]);
    folder.write("later/h0-pid100.log", second.text.as_bytes());
    let view = folder.inspect();
    assert_eq!((view.operations, view.processes.len()), (3, 1));
    assert!(!codes(&view).contains(&"repeated-file") && !codes(&view).contains(&"pid-twice"));
}

#[test]
fn the_same_host_and_pid_of_two_runs_are_two_processes() {
    let (mut first, mut second) = (Log::new("0xa", 0, 2), Log::new("0xb", 0, 2));
    first.all_reduce(64, [1, 2]);
    second.all_reduce(64, [3]);
    let folder = Folder::new(&[&first]);
    folder.write("restarted/h0-pid100.log", second.text.as_bytes());
    let view = folder.inspect();
    assert_eq!((view.operations, view.processes.len(), view.communicators.len()), (3, 2, 2));
    assert!(codes(&view).contains(&"pid-twice"));
}

#[test]
fn different_records_of_one_rank_are_named() {
    let (mut first, mut second) =
        (Log::new("0xa", 0, 2), Log { pid: 999, ..Log::new("0xa", 0, 2) });
    first.all_reduce(64, [1, 2]);
    second.at(50).all_reduce(64, [3, 4]);
    let view = Folder::new(&[&first, &second]).inspect();
    assert!(
        codes(&view).contains(&"same-rank-twice") && codes(&view).contains(&"repeated-records"),
        "{:?}",
        codes(&view)
    );
    assert_eq!(view.operations, 4);
}

#[test]
fn a_torn_gzip_counts_as_far_as_it_goes() {
    let mut log = Log::new("0xa", 0, 2);
    // Times without a pattern, so that the compressed file is long enough to be torn in its middle.
    log.all_reduce(1_000_000, (0..4000_u64).map(|i| 10 + i.wrapping_mul(2_654_435_761) % 9973));
    let whole = gzip(log.text.as_bytes());
    let folder = Folder::new(&[]);
    folder.write("h0-pid100.log.gz", &whole[..whole.len() / 2]);
    let view = folder.inspect();
    assert!((1000..3500).contains(&view.operations), "{}", view.operations);
    assert!(view.files[0].torn.is_some() && view.files[0].bad_lines <= 1);
    assert!(codes(&view).contains(&"torn-file"));
}

#[test]
fn several_gzip_members_are_one_log() {
    let mut log = Log::new("0xa", 0, 2);
    log.all_reduce(64, [1, 2]);
    let at = log.text.find('\n').map_or(0, |at| at + 1);
    let folder = Folder::new(&[]);
    folder.write(
        "a.log.gz",
        &[gzip(&log.text.as_bytes()[..at]), gzip(&log.text.as_bytes()[at..])].concat(),
    );
    assert_eq!(folder.inspect().operations, 2);
}

#[test]
fn negative_sizes_join_their_true_size_and_their_bandwidth_is_not_used() {
    let mut log = Log::new("0xa", 0, 2);
    log.coll("AllReduce", 0, "4096", "4", "1.024000");
    log.coll("AllReduce", 1, "18446744073709547520", "4", "4611686018427386.000000");
    let view = Folder::new(&[&log]).inspect();
    let op = only(&view);
    assert_eq!(
        (op.bytes, op.count, op.sizes_corrected, op.logged_busbw_gbs_mean),
        (Some(4096), 2, 1, Some(1.024))
    );
    assert_eq!(op.busbw_gbs.map(|b| b.p95), Some(1.024));
    assert!(codes(&view).contains(&"negative-sizes"));
}

#[test]
fn times_of_zero_are_counted_and_not_averaged() {
    let mut log = Log::new("0xa", 0, 2);
    log.coll("AllReduce", 0, "4096", "4", "1.0")
        .coll("AllReduce", 1, "4096", "0", "0.000000")
        .coll("AllReduce", 2, "4096", "\"nan\"", "\"nan\"");
    let view = Folder::new(&[&log]).inspect();
    let op = only(&view);
    assert_eq!((op.count, op.without_time, op.logged_busbw_gbs_mean), (3, 2, Some(1.0)));
    assert_eq!(op.exec_time_us.map(|t| (t.p50, t.max)), Some((4.0, 4.0)));
    assert!(codes(&view).contains(&"zero-times"));
}

#[test]
fn only_times_of_zero_give_no_figures() {
    let mut log = Log::new("0xa", 0, 2);
    log.coll("AllReduce", 0, "4096", "0", "0.000000");
    let view = Folder::new(&[&log]).inspect();
    let op = only(&view);
    assert!(
        op.exec_time_us.is_none() && op.busbw_gbs.is_none() && op.logged_busbw_gbs_mean.is_none()
    );
    assert!(view.timeline.bins.is_empty());
}

#[test]
fn unknown_operations_have_times_and_no_bandwidth() {
    let mut log = Log::new("0xa", 0, 2);
    log.coll("Invalid", 0, "4096", "4", "0.000000").coll("AllReduceV2", 0, "4096", "6", "0.000000");
    let view = Folder::new(&[&log]).inspect();
    let op = only(&view);
    assert_eq!(
        (op.op.label(), op.count, op.exec_time_us.map(|t| t.p50)),
        ("Invalid", 2, Some(5.0))
    );
    assert!(op.busbw_gbs.is_none() && op.logged_busbw_gbs_mean.is_none());
    let warning =
        view.warnings.iter().find(|w| w.code.as_str() == "unknown-operations").expect("a warning");
    assert!(warning.message.contains("AllReduceV2 (1), Invalid (1)"), "{}", warning.message);
}

#[test]
fn gaps_and_announced_drops_are_said() {
    let mut log = Log::new("0xa", 0, 2);
    for sn in [0, 1, 5, 3, 6] {
        log.coll("AllReduce", sn, "65536", "9", "1.0");
    }
    log.record(r#""dump_stats":{"coll_records":5,"coll_dropped_total":4,"p2p_dropped_total":1}"#);
    log.record(r#""dump_stats":{"coll_records":0,"coll_dropped_total":7,"p2p_dropped_total":1}"#);
    let view = Folder::new(&[&log]).inspect();
    let comm = &view.communicators[0];
    // 2 and 4 are missing: 3 came late.
    assert_eq!((comm.missing_operations, comm.dropped), (2, Some(8)));
    let gaps =
        view.warnings.iter().find(|w| w.code.as_str() == "sequence-gaps").expect("a warning");
    assert!(gaps.hint.as_deref().is_some_and(|h| h.contains("NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES")));
    assert!(codes(&view).contains(&"drops"));
}

#[test]
fn a_time_longer_than_the_operation_can_have_taken_is_not_used() {
    let mut log = Log::new("0xa", 0, 2);
    let verbose = |time: i64, start: i64| {
        format!(
            r#""coll_perf":{{"coll":"AllReduce","coll_sn":{time},"coll_msg_size_bytes":1000,"coll_exec_time_us":{time},"coll_timing_source":"kernel_gpu","coll_algobw_gbs":1.0,"coll_busbw_gbs":1.0,"event_trace_ts":{{"coll_start_ts":{start},"coll_stop_ts":{start},"kernel_events":[{{"channel_id":0,"kernel_start_ts":0,"kernel_stop_ts":0,"kernel_record_ts":0}}]}}}}"#
        )
    };
    // Started 5 ms before it was written: 4 ms are possible, 47 ms are not.
    log.at(0).record(&verbose(4000, START - 5000));
    log.at(0).record(&verbose(47_000, START - 5000));
    let view = Folder::new(&[&log]).inspect();
    let op = only(&view);
    assert_eq!((op.count, op.without_time, op.exec_time_us.map(|t| t.max)), (2, 1, Some(4000.0)));
    assert!(
        codes(&view).contains(&"times-of-others") && codes(&view).contains(&"channels-unseen"),
        "{:?}",
        codes(&view)
    );
}

#[test]
fn other_files_in_the_folder_are_named_and_do_not_disturb() {
    let mut log = Log::new("0xa", 0, 2);
    log.all_reduce(64, [1]);
    log.text.push_str("Killed\n");
    let folder = Folder::new(&[&log]);
    folder.write("slurm.log", b"epoch 1\nepoch 2\n");
    folder.write("empty.log", b"");
    folder.write("result.json", b"{\"loss\": 0.5}\n");
    let view = folder.inspect();
    assert_eq!((view.files.len(), view.records), (4, 1));
    assert_eq!(view.files.iter().map(|f| f.bad_lines).collect::<Vec<_>>(), [0, 1, 1, 2]);
    assert_eq!(view.warnings.iter().filter(|w| w.code.as_str() == "no-records").count(), 1);
    assert!(codes(&view).contains(&"bad-lines"));
}

#[test]
fn records_that_disagree_on_the_communicator_are_named() {
    let (mut zero, mut one) = (Log::new("0xa", 0, 2), Log { nnodes: 2, ..Log::new("0xa", 1, 4) });
    zero.all_reduce(64, [1, 1, 1]);
    one.all_reduce(64, [1]);
    let view = Folder::new(&[&zero, &one]).inspect();
    assert_eq!(
        (view.communicators[0].n_ranks, view.communicators[0].class.as_str()),
        (2, "nvlink-only")
    );
    assert!(codes(&view).contains(&"communicator-shapes"));
}

#[test]
fn a_rank_that_stops_early_is_named_with_how_far_it_is_behind() {
    let logs: Vec<Log> = (0..8)
        .map(|rank| {
            let mut log = Log::new("0xa", rank, 8);
            log.all_reduce(1 << 20, (0..if rank == 5 { 30 } else { 65 }).map(|_| 100));
            log
        })
        .collect();
    let view = Folder::new(&logs.iter().collect::<Vec<_>>()).inspect();
    let stopped =
        view.warnings.iter().find(|w| w.code.as_str() == "rank-stops-early").expect("a warning");
    for part in ["Rank 5 ", "number 29 (30 records logged)", "64 (65 logged)", "35 behind"] {
        assert!(stopped.message.contains(part), "{part}: {}", stopped.message);
    }
}

// Three records a line; in the second file the middle one breaks off.
#[test]
fn several_records_on_a_line_are_read_or_counted_as_lost() {
    let mut log = Log::new("0xa", 0, 2);
    log.all_reduce(1 << 20, [10, 20, 30]);
    let records: Vec<&str> = log.text.lines().collect();
    let folder = Folder::new(&[]);
    folder.write("h0-pid100.log", records.concat().as_bytes());
    let view = folder.inspect();
    assert_eq!((view.operations, view.files[0].bad_lines), (3, 0));

    let torn = &records[1][..records[1].len() - 40];
    let folder = Folder::new(&[]);
    folder.write("h0-pid100.log", [records[0], torn, records[2], "\n"].concat().as_bytes());
    let view = folder.inspect();
    assert_eq!((view.operations, view.files[0].bad_lines), (2, 1));
    let reason = &view.files[0].bad[0].reason;
    assert!(reason.starts_with("lost 1 of 3 records"), "{reason}");
}

#[test]
fn the_comments_of_prometheus_text_are_part_of_it() {
    let text = "# HELP nccl_bus_bandwidth_gbs NCCL bus bandwidth in GB/s\n\
                # TYPE nccl_bus_bandwidth_gbs gauge\n\
                nccl_bus_bandwidth_gbs{node=\"n1\",nranks=\"4\",collective=\"AllReduce\"} 300.1\n\
                # EOF\n";
    let folder = Folder::new(&[]);
    // As a shell of Windows may write it.
    let marked: Vec<u8> =
        format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    for bytes in [text.as_bytes(), &marked] {
        folder.write("n1.prom", bytes);
        let view = folder.inspect();
        assert_eq!((view.files[0].prometheus_samples, view.files[0].bad_lines), (1, 0));
    }
}
