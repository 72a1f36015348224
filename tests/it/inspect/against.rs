//! Two jobs side by side.

use nsysnccl::internals::inspect::{Verdict, compare};

use super::log::{Folder, Log};

/// Four ranks; a communicator of all, and one of each pair. Ids are new in every job, as NCCL draws them.
fn job(ids: [&'static str; 3], times: [u64; 3]) -> Folder {
    let mut logs = Vec::new();
    for rank in 0..4_u32 {
        let mut log = Log::new(ids[0], rank, 4);
        log.all_reduce(1_000_000, (0..20).map(|sn| times[0] + sn % 3));
        let pair = (rank / 2) as usize;
        let mut part = Log { pid: log.pid, ..Log::new(ids[1 + pair], rank % 2, 2) };
        part.all_reduce(2_000_000, (0..20).map(|sn| times[1 + pair] + sn % 3));
        log.text.push_str(&part.text);
        logs.push(log);
    }
    Folder::new(&logs.iter().collect::<Vec<_>>())
}

#[test]
fn communicators_are_told_by_their_members_and_what_got_slower_comes_first() {
    let (here, there) = (
        job(["0xa", "0xb", "0xc"], [100, 300, 200]).inspect(),
        job(["0xf", "0xe", "0xd"], [100, 200, 200]).inspect(),
    );
    let against = compare(&here, &there);
    let rows: Vec<_> = against
        .rows
        .iter()
        .map(|r| {
            (
                r.communicator.as_str(),
                r.comm_ids[0].as_str(),
                r.against_comm_ids[0].as_str(),
                r.verdict,
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            ("2 ranks on 1 node (job ranks 0-1)", "0xb", "0xe", Verdict::Slower),
            ("2 ranks on 1 node (job ranks 2-3)", "0xc", "0xd", Verdict::Same),
            ("4 ranks on 1 node", "0xa", "0xf", Verdict::Same),
        ]
    );
    // Medians 301 and 201 us.
    let change = against.rows[0].change.expect("a change");
    assert!((change - (301.0 / 201.0 - 1.0)).abs() < 1e-12, "{change}");
    assert_eq!((against.rows[0].basis.as_str(), against.rows[0].here.count), ("transfer", 20));
    let back = compare(&there, &here);
    assert_eq!(back.rows.iter().filter(|r| r.verdict == Verdict::Faster).count(), 1);
}

#[test]
fn what_only_one_job_runs_is_listed_and_few_operations_get_no_verdict() {
    let (mut a, mut b) = (Log::new("0xa", 0, 2), Log::new("0xb", 0, 2));
    a.all_reduce(64, [10; 4]).coll("AllGather", 0, "64", "5", "1.0");
    b.all_reduce(64, [90; 4]).coll("Broadcast", 0, "64", "5", "1.0");
    let against = compare(&Folder::new(&[&a]).inspect(), &Folder::new(&[&b]).inspect());
    assert_eq!(
        (against.rows.len(), against.rows[0].verdict, against.rows[0].basis.as_str()),
        (1, Verdict::TooFew, "own")
    );
    assert_eq!(against.only_here, ["AllGather of 64 bytes on 2 ranks on 1 node"]);
    assert_eq!(against.only_there, ["Broadcast of 64 bytes on 2 ranks on 1 node"]);
}

#[test]
fn a_difference_within_the_spread_is_said_to_be_one() {
    let (mut a, mut b) = (Log::new("0xa", 0, 2), Log::new("0xb", 0, 2));
    a.all_reduce(1000, (0..40).map(|sn| 100 + 10 * (sn % 10)));
    b.all_reduce(1000, (0..40).map(|sn| 80 + 10 * (sn % 10)));
    let against = compare(&Folder::new(&[&a]).inspect(), &Folder::new(&[&b]).inspect());
    assert_eq!(against.rows[0].verdict, Verdict::WithinSpread);
}

#[test]
fn a_missing_log_does_not_part_what_belongs_together() {
    let (here, there) =
        (job(["0xa", "0xb", "0xc"], [100, 200, 200]), job(["0xf", "0xe", "0xd"], [100, 200, 200]));
    std::fs::remove_file(there.path().join("h0-pid103.log")).expect("removed");
    let against = compare(&here.inspect(), &there.inspect());
    let mut rows: Vec<_> = against
        .rows
        .iter()
        .map(|r| (r.comm_ids[0].as_str(), r.against_comm_ids[0].as_str(), r.basis.as_str()))
        .collect();
    assert_eq!(against.only_here.len() + against.only_there.len(), 0);
    // 0xd and the whole lack a rank there: waiting cannot be taken off.
    rows.sort_unstable();
    assert_eq!(rows, [("0xa", "0xf", "own"), ("0xb", "0xe", "transfer"), ("0xc", "0xd", "own")]);
}
