//! Damaged logs: whatever stands in a file, reading ends, says what it left out and never panics.

use nsysnccl::internals::ingest::inspector;
use nsysnccl::internals::inspect::{Filter, Tally};
use nsysnccl::internals::model::record::{Drops, LogFile, Origin, Record, Sink};
use nsysnccl::internals::render::{self, Format, Style};
use proptest::prelude::*;

use super::log::{Folder, Log};

/// Three communicators of one process, plain and verbose, with every kind of record.
fn sample() -> String {
    let mut logs = [
        Log::new("0xa", 0, 2),
        Log { name: r"a\/b", ..Log::new("0xb", 1, 4) },
        Log { name: "tp", ..Log::new("0xc", 0, 8) },
    ];
    let mut text = String::new();
    for sn in 0..4 {
        for log in &mut logs {
            log.text.clear();
            log.coll("AllReduce", sn, "1048576", "57", "1.250000");
            log.record(r#""p2p_perf":{"p2p":"Send","p2p_sn":1,"p2p_peer":1,"p2p_msg_size_bytes":64,"p2p_exec_time_us":3,"p2p_timing_source":"kernel_gpu","p2p_algobw_gbs":1.0,"p2p_busbw_gbs":1.0,"event_trace_ts":{"p2p_start_ts":1796003000000000,"kernel_events":[{"channel_id":0,"kernel_start_ts":0}]}}"#);
            log.record(r#""dump_stats":{"coll_records":1,"coll_dropped_total":3}"#);
            log.text.push_str("{\"coll_perf\":{\"coll\":\"AllGather\",\"coll_sn\":7,\"coll_msg_size_bytes\":8,\"coll_exec_time_us\":1}}\n");
            text.push_str(&log.text);
        }
    }
    text
}

/// Every record as text, with its origin spelled out.
#[derive(Default)]
struct Notes(Vec<Origin>, Vec<String>);

impl Sink for Notes {
    fn origin(&mut self, origin: &Origin) {
        self.0.push(origin.clone());
    }
    fn record(&mut self, record: &Record<'_>) {
        let origin = &self.0[record.origin];
        self.1.push(format!("{origin:?} {:?}", Record { origin: 0, ..record.clone() }));
    }
    fn drops(&mut self, origin: usize, drops: Drops) {
        self.1.push(format!("{:?} {drops:?}", self.0[origin]));
    }
}

fn read(text: &[u8]) -> (LogFile, Vec<String>) {
    let mut notes = Notes::default();
    let log = inspector::read_stream("x.log".into(), text, &mut notes);
    (log, notes.1)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn damage_costs_lines_and_nothing_else(cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0_usize..40), 1..6)) {
        let mut bytes = sample().into_bytes();
        for (at, byte, len) in cuts {
            let at = at.index(bytes.len());
            match byte % 3 {
                0 => bytes[at] = byte,
                1 => { bytes.drain(at..(at + len).min(bytes.len())); }
                _ => bytes.insert(at, byte),
            }
        }
        let mut tally = Tally::new(Filter::default(), 100);
        let log = inspector::read_stream("x.log".into(), &bytes[..], &mut tally);
        let lines = bytes.split(|&b| b == b'\n').count() - usize::from(bytes.ends_with(b"\n"));
        prop_assert_eq!(log.lines as usize, lines);
        prop_assert!(log.bad_lines <= log.lines);
        prop_assert!(log.records >= 1, "some lines are whole");
        let view = nsysnccl::internals::inspect::inspect(vec![(log, tally)], &Filter::default());
        for format in [Format::Terminal, Format::Markdown, Format::Html, Format::Json, Format::Csv] {
            let printed = render::print(&view, format, &Style { width: 80, color: true, full: true });
            prop_assert!(!printed.is_empty());
        }
    }

    #[test]
    fn a_line_means_the_same_whatever_stands_before_it(order in prop::collection::vec(0_usize..24, 1..60)) {
        // Only lines that carry their header: the others belong to the marker before them.
        let text = sample();
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("{\"header\"")).collect();
        let chosen: Vec<&str> = order.iter().map(|&i| lines[i % lines.len()]).collect();
        let together = read((chosen.join("\n") + "\n").as_bytes()).1;
        let alone: Vec<String> = chosen.iter().flat_map(|line| read(line.as_bytes()).1).collect();
        prop_assert_eq!(together, alone);
    }

    #[test]
    fn any_bytes_at_all(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let folder = Folder::new(&[]);
        let path = folder.write("x.log", &bytes);
        let mut notes = Notes::default();
        prop_assert!(inspector::read_file(&path, &mut notes).is_ok());
    }
}
