//! Each thing that can be wrong with a dump is named, and the rest still read.

use nsysnccl::internals::npkit::dump::Dump;
use nsysnccl::internals::npkit::ids::{Ids, Library};
use nsysnccl::internals::npkit::read::{self, Table};
use nsysnccl::internals::npkit::view;

use super::dump::*;

/// 2020, ns since 1970.
const AT: u64 = 1_577_836_800_000_000_000;

/// Two ranks, one collective of two channels each: send 1 to 11 us, last receive 11 to 31 us.
fn good() -> Writer {
    let mut writer = Writer::with_ranks([0, 1]);
    for rank in [0, 1] {
        for buffer in [0, 1] {
            collective(&mut writer, rank, buffer, AT);
        }
    }
    writer
}

fn collective(writer: &mut Writer, rank: u32, buffer: u32, at: u64) {
    writer.clocks(rank, buffer, at);
    writer.event(rank, buffer, SEND, (1_000, 11_000), 8_000);
    writer.event(rank, buffer, LAST_RECV, (11_000, 31_000), 10_000);
}

fn codes(dump: &Dump) -> Vec<&str> {
    dump.problems.iter().map(|problem| problem.code.as_str()).collect()
}

fn said(dump: &Dump, code: &str) -> String {
    let problem = dump.problems.iter().find(|p| p.code.as_str() == code);
    problem.unwrap_or_else(|| panic!("no {code} in {:?}", dump.problems)).message.clone()
}

#[test]
fn a_good_dump_has_no_problem() {
    let dump = good().read().expect("a dump");
    assert_eq!(codes(&dump), [""; 0]);
    assert_eq!((dump.events, dump.ids.label()), (16, "nccl or msccl or rccl".to_owned()));
    let view = view::view(&dump, Vec::new());
    assert_eq!((view.dropped, view.collectives.len()), (Some(0), 1));
    let of_rank = &view.collectives[0].ranks[&0];
    assert_eq!((of_rank.start_ns, of_rank.end_ns, of_rank.late_ns), (0, 30_000, Some(0)));
    // Of 30 us 8 + 10 are processing.
    assert_eq!(of_rank.phases.wait_ns, Some(12_000));
    assert_eq!(of_rank.phases.wait_fraction, Some(0.4));
    // 4 events of 4096 bytes in 10 us each.
    let send = view.totals.iter().find(|t| t.name == "ALL_REDUCE_RING_SEND").expect("sends");
    assert_eq!((send.count, send.bytes, send.gbs), (4, Some(16_384), Some(0.4096)));
}

#[test]
fn empty_buffers_and_clock_records_alone_are_told_apart() {
    let mut writer = Writer::with_ranks([0]);
    writer.files.insert("gpu_events_rank_0_buf_0".to_owned(), Vec::new());
    assert_eq!(codes(&writer.read().expect("a dump")), ["empty-dump"]);
    writer.clocks(0, 0, AT);
    assert_eq!(codes(&writer.read().expect("a dump")), ["only-clock-records"]);
    let folder = crate::support::folder();
    let error = read::folders(&[folder.path().to_owned()], Table::Fitting(&Library::ALL));
    assert!(error.expect_err("no dump").fact.contains("holds no NPKit dump"));
}

#[test]
fn a_full_buffer_dropped_an_unknown_number() {
    let mut writer = good();
    // 65,536 records: the clocks, one lane of 4 and sends until nothing more goes in; the last send has no end.
    for i in 0..(65_536 - 6) / 2 {
        let from = 32_000 + i * 1_000;
        writer.event(0, 0, SEND, (from, from + 1_000), 500);
    }
    let dump = writer.read().expect("a dump");
    assert_eq!(codes(&dump), ["buffer-full"]);
    assert!(said(&dump, "buffer-full").contains("gpu_events_rank_0_buf_0"));
    assert_eq!(view::view(&dump, Vec::new()).dropped, None);
    // One record less is not full.
    let file = writer.files.get_mut("gpu_events_rank_0_buf_0").expect("a buffer");
    file.truncate(file.len() - 16);
    assert_eq!(codes(&writer.read().expect("a dump")), ["unpaired-events"]);
}

#[test]
fn missing_ranks_are_named() {
    let mut writer = good();
    writer.files.retain(|name, _| !name.contains("events_rank_1"));
    let dump = writer.read().expect("a dump");
    assert_eq!(said(&dump, "rank-missing"), "Rank 1 left only clock files.");
    writer.files.retain(|name, _| !name.contains("rank_1"));
    let dump = writer.read().expect("a dump");
    assert!(said(&dump, "rank-missing").starts_with("Rank 0 is the only one"));
    let mut writer = good();
    collective(&mut writer, 4, 0, AT);
    writer.text("gpu_clock_rate_rank_4", "2000000");
    let dump = writer.read().expect("a dump");
    assert_eq!(said(&dump, "rank-missing"), "There is no file of ranks 2-3.");
    assert_eq!(dump.ranks.len(), 3);
}

#[test]
fn unknown_numbers_are_counted_and_the_rest_is_read() {
    let mut writer = good();
    writer.gpu(0, 0, 0xee, 70_000, 0, 0);
    writer.gpu(0, 1, 0xef, 70_000, 0, 0);
    let dump = writer.read().expect("a dump");
    assert_eq!(codes(&dump), ["unknown-ids"]);
    let said = said(&dump, "unknown-ids");
    assert!(said.contains("2 records") && said.contains("0xee, 0xef"), "{said}");
    assert_eq!(dump.events, 18);
    assert_eq!(view::view(&dump, Vec::new()).collectives[0].ranks[&0].phases.wait_ns, Some(12_000));
}

#[test]
fn a_size_that_is_not_whole_records_is_said() {
    let mut writer = good();
    writer.files.get_mut("gpu_events_rank_1_buf_1").expect("a buffer").extend([1, 2, 3]);
    let dump = writer.read().expect("a dump");
    assert_eq!(codes(&dump), ["odd-size"]);
    assert!(said(&dump, "odd-size").contains("gpu_events_rank_1_buf_1"));
    assert_eq!(dump.events, 16);
    // Of files of the CPU alone: a branch with longer records.
    let mut writer = good();
    writer.cpu(0, 0, NET_SEND, AT, 64, 1);
    writer.cpu(0, 0, NET_SEND + 1, AT + 5_000, 64, 1);
    let name = "cpu_events_rank_0_channel_0";
    writer.files.get_mut(name).expect("a channel").extend([0; 6]);
    let dump = writer.read().expect("a dump");
    let hint = dump.problems[0].hint.clone().expect("a hint");
    assert!(hint.contains("22 bytes"), "{hint}");
}

#[test]
fn missing_clock_files_are_replaced_or_said() {
    // Another rank's rate.
    let mut writer = good();
    writer.files.remove("gpu_clock_rate_rank_1");
    let dump = writer.read().expect("a dump");
    assert!(said(&dump, "clock-file-missing").contains("2000000 kHz are taken"));
    assert_eq!(dump.ranks[&1].lanes[0].end_ns - dump.ranks[&1].lanes[0].start_ns, 30_000);
    // Measured: a second collective 1 ms later, when the GPU has counted 2,000,000 ticks.
    let mut writer = good();
    for rank in [0, 1] {
        writer.text(&format!("gpu_clock_rate_rank_{rank}"), "fast");
        writer.gpu(rank, 0, CLOCK_CPU, AT + 1_000_000, 0, 0);
        writer.gpu(rank, 0, CLOCK_GPU, 2_000_000, 0, 0);
        writer.gpu(rank, 0, SEND, 2_002_000, 64, 0);
        writer.gpu(rank, 0, SEND + 1, 2_004_000, 64, 0);
    }
    let dump = writer.read().expect("a dump");
    assert_eq!(dump.ranks[&0].gpu_khz, Some(2_000_000.0));
    // Nothing to measure: counted, without times.
    let mut writer = good();
    writer.files.retain(|name, _| !name.starts_with("gpu_clock"));
    let dump = writer.read().expect("a dump");
    assert!(said(&dump, "clock-file-missing").contains("have no time"));
    assert_eq!((dump.events, dump.ranks[&0].lanes.len()), (16, 0));
    assert!(view::view(&dump, Vec::new()).totals.is_empty());
    // The period of the CPU's clock.
    let mut writer = good();
    writer.files.remove("cpu_clock_period_den_rank_0");
    let dump = writer.read().expect("a dump");
    assert_eq!(codes(&dump), ["clock-file-missing"]);
    assert!(said(&dump, "clock-file-missing").contains("of rank 0"));
}

#[test]
fn a_cpu_clock_that_does_not_count_nanoseconds_is_converted() {
    let mut writer = good();
    for rank in [0, 1] {
        writer.text(&format!("cpu_clock_period_num_rank_{rank}"), "1");
        writer.text(&format!("cpu_clock_period_den_rank_{rank}"), "1000000");
    }
    let file = writer.files.remove("gpu_events_rank_0_buf_0").expect("a buffer");
    drop(file);
    collective(&mut writer, 0, 0, AT / 1_000);
    let dump = writer.read().expect("a dump");
    assert!(said(&dump, "clock-period").contains("1/1000000 s"));
    assert!(dump.ranks[&0].lanes.iter().any(|lane| lane.start_ns == AT as i64 + 1_000));
}

#[test]
fn a_gpu_that_runs_slower_than_its_file_says_is_doubted() {
    // 1 ms later the GPU has counted 1,600,000 ticks, not 2,000,000.
    let mut writer = good();
    for rank in [0, 1] {
        writer.gpu(rank, 0, CLOCK_CPU, AT + 1_000_000, 0, 0);
        writer.gpu(rank, 0, CLOCK_GPU, 1_600_000, 0, 0);
    }
    let dump = writer.read().expect("a dump");
    assert_eq!(codes(&dump), ["gpu-clock", "gpu-clock"]);
    assert!(said(&dump, "gpu-clock").contains("80.0 %"));
}

#[test]
fn ranks_with_different_numbers_of_collectives_are_said() {
    let mut writer = good();
    collective(&mut writer, 0, 0, AT + 1_000_000);
    let view = view::view(&writer.read().expect("a dump"), Vec::new());
    assert_eq!(view.problems.iter().map(|p| p.code.as_str()).collect::<Vec<_>>(), ["ranks-differ"]);
    assert_eq!(view.collectives.len(), 2);
}

#[test]
fn libraries_that_name_numbers_differently_have_to_be_told() {
    let mut writer = good();
    writer.event(0, 0, 0x50, (32_000, 33_000), 0);
    let error = writer.read().expect_err("no library");
    assert!(error.to_string().contains("MSCCL_GENERIC_OP"), "{error}");
    let folder = crate::support::folder();
    let dump = writer.save(folder.path());
    let read = |ids| read::folders(std::slice::from_ref(&dump), Table::Given(ids)).expect("a dump");
    let named = read(Ids::of(Library::Rccl));
    assert_eq!(named.ids.name(0x50), "ALL_GATHER_RING");
    assert_eq!(codes(&named), [""; 0]);
    assert_eq!(codes(&read(Ids::of(Library::Nccl))), ["unknown-ids"]);
}

#[test]
fn one_rank_in_two_folders_is_refused() {
    let (one, two) = (crate::support::folder(), crate::support::folder());
    let folders = [good().save(one.path()), good().save(two.path())];
    let error = read::folders(&folders, Table::Fitting(&Library::ALL)).expect_err("refused");
    assert!(error.fact.contains("are both of rank"), "{error}");
}

#[test]
fn whole_rings_have_a_bandwidth_only_if_the_library_is_certain() {
    let mut writer = good();
    writer.event(0, 0, 0x01, (1_000, 31_000), 0);
    let of = |library: Option<Library>| {
        let folder = crate::support::folder();
        let table = library.map_or(Table::Fitting(&Library::ALL), |l| Table::Given(Ids::of(l)));
        let dump = read::folders(&[writer.save(folder.path())], table).expect("a dump");
        let totals = view::view(&dump, Vec::new()).totals;
        let ring = totals.into_iter().find(|t| t.name == "ALL_REDUCE_RING").expect("the ring");
        (ring.gbs, ring.no_bandwidth)
    };
    // 4096 bytes in 30 us.
    assert_eq!(of(Some(Library::Nccl)), (Some(4_096.0 / 30_000.0), None));
    assert!(of(Some(Library::Msccl)).1.expect("a reason").contains("one chunk"));
    assert_eq!(of(None).0, None);
    assert!(of(None).1.expect("a reason").contains("depending on the library"));
}

#[test]
fn sizes_that_count_polls_give_no_bandwidth() {
    let send = |at_end: u32| {
        let mut writer = good();
        for i in 0..4 {
            let at = AT + u64::from(i) * 1_000;
            writer.cpu(0, 0, NET_SEND, at, 1 << 20, i);
            writer.cpu(0, 0, NET_SEND + 1, at + 25_000, at_end, i);
        }
        let totals = view::view(&writer.read().expect("a dump"), Vec::new()).totals;
        totals.into_iter().find(|t| t.name == "NET_SEND").expect("sends")
    };
    assert_eq!(send(1 << 20).gbs, Some(f64::from(1 << 20) / 25_000.0));
    let polls = send(37);
    assert_eq!(polls.gbs, None);
    assert!(polls.no_bandwidth.expect("a reason").contains("polls"));
}

#[test]
fn ll_waits_for_the_peer_and_for_space() {
    // Data processing 1 to 11 us of which 6 are waiting for the peer, then 4 us of waiting for space to send.
    let mut writer = Writer::with_ranks([0, 1]);
    for rank in [0, 1] {
        writer.clocks(rank, 0, AT);
        writer.event(rank, 0, LL_DATA_PROCESS, (1_000, 11_000), 6_000);
        writer.event(rank, 0, LL_WAIT_SEND, (11_000, 15_000), 0);
    }
    let view = view::view(&writer.read().expect("a dump"), Vec::new());
    let phases = &view.collectives[0].ranks[&1].phases;
    assert_eq!(phases.phases["LL_DATA_PROCESS"], 10_000);
    assert_eq!((phases.wait_ns, phases.wait_fraction), (Some(10_000), Some(10.0 / 14.0)));
    assert_eq!(phases.wait_in.as_deref(), Some("LL_DATA_PROCESS"));
}
