//! What `--nccl-log` says about communicators that were made before the capture began.

use std::path::PathBuf;

use nsysnccl::internals::report::Report as Finished;
use nsysnccl::internals::run::Options;

use crate::support::cluster::{
    ALL_REDUCE, Cluster, Collective, MIB, MS, SECOND, WORLD, codes, group, warning,
};
use crate::support::report::Payload;

/// Rank `rank` of the run is number `number` of communicator `comm`, which has `n` ranks.
fn init(host: &str, rank: u32, comm: u64, number: u32, n: u32) -> String {
    let pid = 1000 + rank;
    format!(
        "{host}:{pid}:{pid} [0] NCCL INFO ncclCommInitRankConfig comm 0xf00{rank} rank {number} nranks {n} cudaDev 0 nvmlDev 0 busId 1000 commId {comm:#x} - Init COMPLETE\n"
    )
}

fn finish(cluster: &Cluster, log: &str) -> Finished {
    let folder = crate::support::folder();
    let path: PathBuf = folder.path().join("nccl.log");
    std::fs::write(&path, log).expect("written");
    let reports = cluster.save(&folder);
    crate::support::build_with(&reports, &Options { nccl_logs: vec![path], ..Options::default() })
        .expect("a report")
        .report
}

/// Ranks 2 and 5 in six steps of an AllReduce each; nothing in the capture says how many there are.
fn two_ranks() -> Cluster {
    let mut cluster = Cluster::of(&[2, 5], None);
    for i in 0..6 {
        let at = SECOND + i * 100 * MS;
        cluster.step(&format!("step {i}"), at - 2 * MS..at + 70 * MS);
        for rank in &mut cluster.ranks {
            rank.compute(at..at + 60 * MS);
            rank.collective(&ALL_REDUCE, at + 60 * MS..at + 70 * MS);
        }
    }
    cluster
}

#[test]
fn the_log_says_how_many_ranks_there_are() {
    let alone = two_ranks().finish();
    assert_eq!(
        (group(&alone, "AllReduce", &[2, 5]).n_ranks, alone.summary.world_size),
        (Some(2), None)
    );
    assert!(codes(&alone).contains(&"communicator-size-assumed"));

    let report =
        finish(&two_ranks(), &[2, 5].map(|rank| init("node0", rank, WORLD, rank, 8)).concat());
    let all = group(&report, "AllReduce", &[2, 5]);
    assert_eq!((all.n_ranks, all.busbw_gbs, report.summary.world_size), (Some(8), None, Some(8)));
    assert_eq!(all.no_bandwidth.as_deref(), Some("2 of the communicator's 8 ranks are here"));
    assert!(warning(&report, "ranks-missing").contains("0-1, 3-4, 6-7"));
    assert!(!codes(&report).contains(&"communicator-size-assumed"));
}

#[test]
fn a_log_of_other_processes_says_nothing() {
    let mut cluster = two_ranks();
    cluster.hosts(&["node0", "node0"]);
    // A host of another name is the same if process and communicator fit nothing else (a container's name, say).
    let renamed = [2, 5].map(|rank| init("node1", rank, WORLD, rank, 8)).concat();
    let report = finish(&cluster, &renamed);
    assert_eq!(report.summary.world_size, Some(8));
    assert!(codes(&report).contains(&"nccl-log-host"));
    // Other processes, there and on another host, and two hosts of which each could be the one.
    for log in [
        [12, 15].map(|rank| init("node1", rank, WORLD, rank, 8)).concat(),
        [12, 15].map(|rank| init("node0", rank, WORLD, rank, 8)).concat(),
    ] {
        assert_eq!(finish(&cluster, &log).summary.world_size, None, "{log}");
    }
    let two = ["a", "b"]
        .map(|host| [2, 5].map(|rank| init(host, rank, WORLD, rank, 8)).concat())
        .concat();
    assert_eq!(finish(&two_ranks(), &two).summary.world_size, None);
}

// Ranks 1 and 3 are numbers 1 and 0 of their communicator: by the order of ranks each would send to itself.
#[test]
fn the_log_says_which_number_a_rank_has() {
    let mut cluster = Cluster::new(4);
    let at = |i: i64| SECOND + i * 100 * MS;
    let p2p =
        |peer: i32| Payload { comm: 9, bytes: Some(MIB), peer: Some(peer), ..Payload::default() };
    let kernel = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<(unsigned long)4096>)";
    let of = |function: &'static str, peer: i32| Collective {
        payload: p2p(peer),
        ..Collective::of(function, kernel)
    };
    for i in 0..3 {
        cluster.step(&format!("step {i}"), at(i) - 2 * MS..at(i) + 70 * MS);
        cluster.ranks.iter_mut().for_each(|rank| rank.compute(at(i)..at(i) + 10 * MS));
        let all: Vec<(usize, i64)> = (0..4).map(|r| (r, at(i) + 10 * MS)).collect();
        cluster.collective(&ALL_REDUCE, &all, at(i) + 15 * MS);
        let time = at(i) + 20 * MS..at(i) + 22 * MS;
        cluster.ranks[1].collective(&of("ncclSend", 0), time.clone());
        cluster.ranks[3].collective(&of("ncclRecv", 1), time);
    }
    let sends = |report: &Finished| {
        report
            .collectives
            .iter()
            .filter(|g| g.op.label() == "SendRecv")
            .map(|g| g.count)
            .sum::<u64>()
    };
    assert_eq!(sends(&cluster.finish()), 0);
    let log = [1, 3].map(|rank| init("node0", rank, 9, u32::from(rank == 1), 2)).concat();
    let report = finish(&cluster, &log);
    assert_eq!((group(&report, "SendRecv", &[1, 3]).count, sends(&report)), (3, 3));
}
