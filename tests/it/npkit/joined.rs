//! Dumps beside the reports of the same processes.

use nsysnccl::internals::report::Report;
use nsysnccl::internals::run::{Options, Run};

use super::dump::{LAST_RECV, NET_RECV, NET_SEND, SEND, Writer};
use crate::support::report::{Report as Export, stream, thread};

/// The report of a capture in `npkit-real` with its dump.
fn captured(name: &str) -> Option<Report> {
    let folder = crate::support::captures()?.join("npkit-real").join(name);
    let paths = [0, 1].map(|rank| folder.join(format!("rank_{rank}.sqlite")));
    let options = Options { npkit: vec![folder.join("dump")], ..Options::default() };
    Some(nsysnccl::internals::reporting::of(&Run::read(&paths, &options, || ()).expect("a run")))
}

#[test]
fn every_event_of_real_dumps_lies_inside_its_kernel() {
    for (name, events) in [("p2p", 1_896), ("shm", 696), ("slow", 1_752), ("sendrecv", 80)] {
        let Some(report) = captured(name) else { return };
        let joined = report.npkit.expect("a dump");
        assert_eq!((joined.events, joined.inside_kernels), (events, events), "{name}");
        assert_eq!((joined.dropped, joined.kernels_without_events), (Some(0), 0));
        assert!(joined.problems.is_empty(), "{:?}", joined.problems);
    }
}

#[test]
fn a_late_rank_is_the_wait_of_the_other_and_nothing_else() {
    // rank 0  [= waits about 2 ms in the first receive =][works]
    // rank 1                              late by 2 ms   [works]
    let Some(report) = captured("slow") else { return };
    let joined = report.npkit.as_ref().expect("a dump");
    let kernel = |rank, step| {
        let kernels = joined.kernels.iter();
        kernels.clone().find(|k| k.rank == rank && k.step == Some(step)).expect("a kernel")
    };
    for step in [1, 3, 5, 7, 9] {
        let (early, late) = (kernel(0, step), kernel(1, step));
        let waits =
            early.phases.wait_ns.expect("collected") - late.phases.wait_ns.expect("collected");
        let lengths = (early.end_ns - early.start_ns) - (late.end_ns - late.start_ns);
        assert!((waits - lengths).abs() <= 20_000, "step {step}: {waits} and {lengths}");
        assert!((1_950_000..2_100_000).contains(&late.late_ns.expect("clocks")), "{late:?}");
        assert_eq!(early.late_ns, Some(0));
    }
    let finding =
        report.findings.iter().find(|f| f.id.as_str() == "npkit-waiting").expect("a finding");
    assert_eq!(
        (&finding.evidence["rank"], &finding.evidence["waits_for_rank"]),
        (&0.into(), &1.into())
    );
    assert_eq!(finding.evidence["collectives_count"], 5);
}

#[test]
fn proxies_of_sockets_belong_to_the_kernel_that_they_serve() {
    // us        0         100        200       300
    // kernels   [---- 0 ----]         [-- 1 --]
    // lane       [---------]           [-----]
    // receive [------]                              posted before the kernel began
    // send              [------]                    complete after it ended
    // send                       [--]               of none
    let folder = crate::support::folder();
    let epoch: u64 = 1_700_000_000_000_000_000;
    let mut writer = Writer::with_ranks([0]);
    for (start, end) in [(1_000, 98_000), (201_000, 298_000)] {
        writer.clocks(0, 0, epoch + start);
        writer.event(0, 0, SEND, (0, 10_000), 5_000);
        writer.event(0, 0, LAST_RECV, (10_000, end - start), 20_000);
    }
    for (id, from, to, slot) in
        [(NET_RECV, -20_i64, 40, 1), (NET_SEND, 60, 130, 2), (NET_SEND, 140, 160, 3)]
    {
        let at = |us: i64| epoch.checked_add_signed(us * 1_000).expect("a time");
        writer.cpu(0, 0, id, at(from), 64, slot);
        writer.cpu(0, 0, id + 1, at(to), 64, slot);
    }
    let dump = writer.save(folder.path());
    let mut export = Export::default();
    export.session(epoch as i64);
    let main = thread(7, 7);
    for (i, range) in [0..100_000, 200_000..300_000].into_iter().enumerate() {
        let launch = 10 + 20 * i as i64;
        export.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream(7), range, main.at(launch));
    }
    export.save(folder.path(), "run_0.sqlite");
    let options = Options { npkit: vec![dump], ..Options::default() };
    let run = Run::read(&[folder.path().join("run_0.sqlite")], &options, || ()).expect("a run");
    let joined = nsysnccl::internals::reporting::of(&run).npkit.expect("a dump");
    // Two lanes of 4 records, two of three requests of 2.
    assert_eq!((joined.events, joined.inside_kernels), (14, 12), "{:?}", joined.problems);
    let first = &joined.kernels[0].phases;
    assert_eq!((first.phases["NET_RECV"], first.phases["NET_SEND"]), (60_000, 70_000));
    assert_eq!(first.proxies["NET_SEND"].count, 1);
    assert!(joined.kernels[1].phases.proxies.is_empty());
    // The report's own time: 1 and 201 µs; of 10 + 87 µs all but 5 + 20 are waiting.
    let lanes = nsysnccl::internals::npkit::lanes::lanes(&joined);
    let times: Vec<_> = lanes.iter().map(|l| (l.rank, l.channel, l.start_ns, l.end_ns)).collect();
    assert_eq!(times, [(0, 0, 1_000, 98_000), (0, 0, 201_000, 298_000)]);
    assert_eq!(lanes[0].name, "RECV, waits 74.2 %");
}

#[test]
fn a_dump_of_another_run_is_said_and_changes_nothing() {
    let Some(captures) = crate::support::captures() else { return };
    let folder = captures.join("npkit-real");
    let paths = [0, 1].map(|rank| folder.join(format!("slow/rank_{rank}.sqlite")));
    let options = Options { npkit: vec![folder.join("sendrecv/dump")], ..Options::default() };
    let with =
        nsysnccl::internals::reporting::of(&Run::read(&paths, &options, || ()).expect("a run"));
    let joined = with.npkit.clone().expect("a dump");
    assert_eq!((joined.inside_kernels, joined.kernels.len()), (0, 0));
    assert!(
        joined.problems.iter().all(|p| p.code.as_str() == "dump-does-not-fit"),
        "{:?}",
        joined.problems
    );
    let without = crate::support::report(&paths);
    assert_eq!(nsysnccl::internals::report::Report { npkit: None, ..with }, without);
}

#[test]
fn a_saved_report_keeps_what_the_dump_says() {
    let Some(report) = captured("sendrecv") else { return };
    let text = serde_json::to_string(&report).expect("JSON");
    let back: Report = serde_json::from_str(&text).expect("a report");
    assert_eq!(back.npkit, report.npkit);
}
