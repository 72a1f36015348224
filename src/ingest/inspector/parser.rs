//! From the lines of one file to records for a sink.

use std::collections::BTreeMap;

use foldhash::{HashMap, HashMapExt};

use super::json::{
    self, Coll, DumpStats, Fault, Header, Metadata, Number, Object, P2p, Text, Trace,
};
use super::lines::Line;
use super::memo::{Kind, Known, Memo};
use super::prometheus;
use crate::model::CommOp;
use crate::model::record::{
    BadLine, ChannelStamps, Drops, LogFile, Origin, Record, Sink, Stamps, Timing,
};
use crate::redact;
use crate::text::shorten;

/// Bad lines that are kept with their reason; all are counted.
const BAD_KEPT: usize = 10;
/// Distinct unknown operation names that are kept.
const NAMES_KEPT: usize = 20;
/// A record over several lines (pretty-printed) may not be longer.
const LONGEST_RECORD: usize = 16 << 20;
/// No communicator is larger; a larger number is damage.
const MOST_RANKS: u32 = 1 << 20;
/// Sizes from here on are 2^64 - n: the plugin multiplies the count of a 1-byte type by -1 (NCCL issues 2032, 2054).
const NEGATIVE_SIZE: u64 = 1 << 63;

/// What the keys of a file's records show about its writer.
#[derive(Debug, Default)]
struct Features {
    plain: bool,
    names_or_p2p: bool,
    dump_stats: bool,
    algorithm: bool,
    markers: bool,
    flat: bool,
    pretty: bool,
    verbose: bool,
}

impl Features {
    fn labels(&self) -> Vec<String> {
        let mut labels = Vec::new();
        let base = [
            (self.markers, "v4.3+ marker stream"),
            (self.algorithm, "v4.2 with algorithm and protocol"),
            (self.dump_stats, "v4.1 with dump_stats"),
            (self.names_or_p2p, "v4.0 of 2.30"),
            (self.plain, "v4.0 of 2.28 or 2.29"),
        ];
        labels.extend(base.iter().find(|(seen, _)| *seen).map(|(_, label)| *label));
        labels.extend(
            [
                (self.flat, "flat records"),
                (self.pretty, "pretty-printed"),
                (self.verbose, "verbose"),
            ]
            .iter()
            .filter(|(seen, _)| *seen)
            .map(|(_, l)| *l),
        );
        labels.into_iter().map(str::to_owned).collect()
    }
}

/// A record that is spread over several lines, as far as it has been read.
#[derive(Debug, Default)]
struct Pending {
    text: Vec<u8>,
    first_line: u64,
    lines: u64,
    depth: i64,
    in_string: bool,
    escaped: bool,
}

impl Pending {
    /// Adds a line and follows brackets and strings; true when the object is complete.
    fn add(&mut self, line: &[u8]) -> bool {
        self.text.extend_from_slice(line);
        self.text.push(b'\n');
        self.lines += 1;
        for &byte in line {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_string => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                b'{' | b'[' if !self.in_string => self.depth += 1,
                b'}' | b']' if !self.in_string => self.depth -= 1,
                _ => {}
            }
        }
        self.depth <= 0
    }
}

/// Reads the lines of one file in their order.
pub(super) struct Parser<'s, S> {
    state: State<'s, S>,
    pending: Option<Pending>,
    line: u64,
}

/// Everything but the unfinished record, so that a record's text can be borrowed while it is used.
struct State<'s, S> {
    sink: &'s mut S,
    log: LogFile,
    features: Features,
    origins: Vec<Origin>,
    index: HashMap<Origin, usize>,
    last: usize,
    memo: Memo,
    /// Origin and writing time of the last `dump_stats` record: headerless records after it are its.
    marker: Option<(usize, Option<i64>)>,
    prometheus: BTreeMap<String, usize>,
}

impl<'s, S: Sink> Parser<'s, S> {
    /// A parser at the beginning of the file at `path`.
    pub(super) fn new(path: String, sink: &'s mut S) -> Self {
        let state = State {
            sink,
            log: LogFile { path, ..LogFile::default() },
            features: Features::default(),
            origins: Vec::new(),
            index: HashMap::new(),
            last: 0,
            memo: Memo::default(),
            marker: None,
            prometheus: BTreeMap::new(),
        };
        Self { state, pending: None, line: 0 }
    }

    /// The next line.
    pub(super) fn line(&mut self, line: Line<'_>) {
        self.line += 1;
        self.state.log.lines = self.line;
        let Line::Whole { text, ended } = line else {
            self.drop_pending();
            self.state.bad(self.line, 1, "is longer than 16 MiB");
            return;
        };
        if self.pending.is_some() {
            // Inside a pretty-printed record lines are indented; an object at the very left is the next record.
            if text.first() == Some(&b'{') {
                self.drop_pending();
            } else {
                return self.continue_pending(text);
            }
        }
        match self.state.text(text) {
            Ok(()) => {}
            Err(fault) if fault.incomplete && ended => self.begin_pending(text),
            Err(fault) if fault.incomplete => {
                self.state.bad(self.line, 1, &format!("is cut off: {}", fault.reason))
            }
            Err(fault) => self.state.bad(self.line, 1, &fault.reason),
        }
    }

    /// The end of the file; `torn` says why, if the file goes on.
    pub(super) fn finish(mut self, torn: Option<String>) -> LogFile {
        self.drop_pending();
        let mut log = self.state.log;
        log.formats = self.state.features.labels();
        if log.prometheus_samples > 0 {
            log.formats.push("Prometheus text".to_owned());
        }
        log.torn = torn;
        log
    }

    fn begin_pending(&mut self, text: &[u8]) {
        let mut pending = Pending { first_line: self.line, ..Pending::default() };
        pending.add(text);
        self.pending = Some(pending);
    }

    fn continue_pending(&mut self, text: &[u8]) {
        let Some(pending) = self.pending.as_mut() else { return };
        let complete = pending.add(text);
        if complete {
            if let Some(pending) = self.pending.take() {
                self.state.features.pretty = true;
                if let Err(fault) = self.state.text(pending.text.trim_ascii()) {
                    self.state.bad(pending.first_line, pending.lines, &fault.reason);
                }
            }
        } else if pending.text.len() > LONGEST_RECORD {
            self.drop_pending();
        }
    }

    fn drop_pending(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.state.bad(pending.first_line, pending.lines, "begins a record that does not end");
        }
    }
}

impl<S: Sink> State<'_, S> {
    fn bad(&mut self, line: u64, lines: u64, reason: &str) {
        self.log.bad_lines += lines;
        if self.log.bad.len() < BAD_KEPT {
            self.log
                .bad
                .push(BadLine { line, reason: redact::text(&shorten(reason, 160)).into_owned() });
        }
    }

    fn text(&mut self, text: &[u8]) -> Result<(), Fault> {
        if let Some(known) = self.memo.find(text) {
            // A line with any fault takes the long way, which knows how to repair it and what to say.
            if self.known(&known).is_some() {
                return Ok(());
            }
        }
        match text.first() {
            Some(b'{') => json::objects(text, &mut |object, text| self.object(object, text)),
            Some(b'n') if text.starts_with(b"nccl_") => self.prometheus(text),
            // Help, type and end of the exposition format; no record begins so.
            Some(b'#') => Ok(()),
            _ => {
                let trimmed = text.trim_ascii();
                // Blank lines, and the brackets of a list with one record a line.
                if matches!(trimmed, b"" | b"[" | b"]" | b",") {
                    return Ok(());
                }
                match trimmed.first() {
                    Some(b'{' | b'[') => {
                        json::objects(trimmed, &mut |object, text| self.object(object, text))
                    }
                    _ => Err(Fault::from("is not an Inspector record".to_owned())),
                }
            }
        }
    }

    fn prometheus(&mut self, text: &[u8]) -> Result<(), Fault> {
        let sample = prometheus::sample(&String::from_utf8_lossy(text))?;
        self.log.records += 1;
        self.log.prometheus_samples += 1;
        let next = self.log.prometheus.len();
        let row = *self.prometheus.entry(sample.key).or_insert(next);
        if row == next {
            self.log.prometheus.push(sample.row);
        } else if let Some(row) = self.log.prometheus.get_mut(row) {
            row.exec_time_us = row.exec_time_us.or(sample.row.exec_time_us);
            row.algbw_gbs = row.algbw_gbs.or(sample.row.algbw_gbs);
            row.busbw_gbs = row.busbw_gbs.or(sample.row.busbw_gbs);
        }
        Ok(())
    }

    /// A record of a header that is known; `None` if its operation is not plain JSON.
    fn known(&mut self, known: &Known<'_>) -> Option<()> {
        let text = std::str::from_utf8(known.operation).ok()?;
        let written = Some(known.written_us);
        match known.kind {
            Kind::Coll => self.coll(known.origin, written, &serde_json::from_str(text).ok()?).ok(),
            Kind::P2p => self.p2p(known.origin, written, &serde_json::from_str(text).ok()?).ok(),
        }
    }

    fn object(&mut self, object: &Object<'_>, text: &[u8]) -> Result<(), Fault> {
        if object.proxy_trace.is_some() {
            self.log.records += 1;
            self.log.proxy_traces += 1;
            self.features.markers |= object.header.is_none();
            return Ok(());
        }
        let flat_coll = if object.coll.is_some() {
            Some(serde_json::from_slice::<Coll<'_>>(text)?)
        } else {
            None
        };
        let coll = object.coll_perf.as_ref().or(flat_coll.as_ref());
        if coll.is_none() && object.p2p_perf.is_none() && object.dump_stats.is_none() {
            return Err(Fault::from("is JSON but no record of a known kind".to_owned()));
        }
        let (origin, written) = self.origin(object, text)?;
        if let Some(stats) = &object.dump_stats {
            self.dump_stats(origin, written, stats);
        }
        if object.header.is_some() && object.dump_stats.is_none() {
            self.memo.remember(text, origin, written);
        }
        if let Some(coll) = coll {
            self.coll(origin, written, coll)?;
        }
        if let Some(p2p) = &object.p2p_perf {
            self.p2p(origin, written, p2p)?;
        }
        Ok(())
    }

    /// Who wrote the record and when: from its header, its own keys if it is flat, else the last marker.
    fn origin(&mut self, object: &Object<'_>, text: &[u8]) -> Result<(usize, Option<i64>), Fault> {
        if let Some(header) = &object.header {
            return self
                .known_origin(header, object.metadata.as_ref().unwrap_or(&Metadata::default()));
        }
        if object.id.is_some() {
            self.features.flat = true;
            let metadata: Metadata<'_> = serde_json::from_slice(text)?;
            return self.known_origin(
                &serde_json::from_slice(text)?,
                object.metadata.as_ref().unwrap_or(&metadata),
            );
        }
        self.features.markers = true;
        self.marker.ok_or_else(|| {
            Fault::from("has no header and no dump_stats record stands before it".to_owned())
        })
    }

    fn known_origin(
        &mut self,
        header: &Header<'_>,
        metadata: &Metadata<'_>,
    ) -> Result<(usize, Option<i64>), Fault> {
        let text =
            |field: &Option<Text<'_>>| field.as_ref().map_or_else(String::new, |t| t.0.to_string());
        let small = |field: Option<Number>| field.and_then(Number::small);
        let written = metadata.dump_timestamp_us.and_then(Number::time);
        if self.origins.get(self.last).is_some_and(|o| same(o, header, metadata)) {
            return Ok((self.last, written));
        }
        let (Some(id), Some(rank), Some(n_ranks)) =
            (&header.id, small(header.rank), small(header.n_ranks))
        else {
            return Err(Fault::from("lacks id, rank or n_ranks in its header".to_owned()));
        };
        if n_ranks > MOST_RANKS || rank >= n_ranks {
            return Err(Fault::from(format!("names rank {rank} of {n_ranks}")));
        }
        let origin = Origin {
            comm_id: redact::text(&id.0).into_owned(),
            comm_name: header
                .comm_name
                .as_ref()
                .filter(|n| n.0 != "unknown")
                .map(|n| redact::text(&n.0).into_owned()),
            rank,
            n_ranks,
            nnodes: small(header.nnodes),
            hostname: redact::owned(text(&metadata.hostname)),
            pid: small(metadata.pid),
        };
        self.features.plain = true;
        self.features.names_or_p2p |= header.comm_name.is_some();
        if let Some(version) = &metadata.inspector_output_format_version
            && !self.log.versions.iter().any(|v| *v == version.0)
            && self.log.versions.len() < NAMES_KEPT
        {
            self.log.versions.push(version.0.to_string());
            self.log.versions.sort();
        }
        self.last = match self.index.get(&origin) {
            Some(&known) => known,
            None => {
                self.sink.origin(&origin);
                self.index.insert(origin.clone(), self.origins.len());
                self.origins.push(origin);
                self.origins.len() - 1
            }
        };
        Ok((self.last, written))
    }

    fn dump_stats(&mut self, origin: usize, written: Option<i64>, stats: &DumpStats) {
        self.log.records += 1;
        self.log.dump_stats += 1;
        self.features.dump_stats = true;
        self.marker = Some((origin, written));
        let count = |n: Option<Number>| n.and_then(Number::integer).unwrap_or(0);
        self.sink.drops(
            origin,
            Drops { coll: count(stats.coll_dropped_total), p2p: count(stats.p2p_dropped_total) },
        );
    }

    fn coll(&mut self, origin: usize, written: Option<i64>, coll: &Coll<'_>) -> Result<(), Fault> {
        let Some(name) = &coll.coll else {
            return Err(Fault::from("names no operation".to_owned()));
        };
        let op = self.operation(&name.0);
        self.features.algorithm |= coll.coll_algo.is_some();
        let (bytes, size_corrected) = size(coll.coll_msg_size_bytes);
        let record = Record {
            origin,
            op,
            p2p: false,
            sn: coll.coll_sn.and_then(Number::integer),
            peer: None,
            bytes,
            size_corrected,
            exec_us: time(coll.coll_exec_time_us),
            timing: timing(&coll.coll_timing_source),
            logged_algbw: coll.coll_algobw_gbs.and_then(Number::real),
            logged_busbw: coll.coll_busbw_gbs.and_then(Number::real),
            written_us: written,
            algo: coll.coll_algo.as_ref().map(|t| &*t.0),
            proto: coll.coll_proto.as_ref().map(|t| &*t.0),
            stamps: self.stamps(&coll.event_trace_ts),
        };
        self.deliver(&record);
        Ok(())
    }

    fn p2p(&mut self, origin: usize, written: Option<i64>, p2p: &P2p<'_>) -> Result<(), Fault> {
        let Some(name) = &p2p.p2p else {
            return Err(Fault::from("names no operation".to_owned()));
        };
        let op = self.operation(&name.0);
        self.features.names_or_p2p = true;
        let (bytes, size_corrected) = size(p2p.p2p_msg_size_bytes);
        let record = Record {
            origin,
            op,
            p2p: true,
            sn: p2p.p2p_sn.and_then(Number::integer),
            peer: p2p.p2p_peer.and_then(Number::small),
            bytes,
            size_corrected,
            exec_us: time(p2p.p2p_exec_time_us),
            timing: timing(&p2p.p2p_timing_source),
            logged_algbw: p2p.p2p_algobw_gbs.and_then(Number::real),
            logged_busbw: p2p.p2p_busbw_gbs.and_then(Number::real),
            written_us: written,
            algo: None,
            proto: None,
            stamps: self.stamps(&p2p.event_trace_ts),
        };
        self.deliver(&record);
        Ok(())
    }

    fn deliver(&mut self, record: &Record<'_>) {
        self.log.records += 1;
        self.log.operations += 1;
        self.sink.record(record);
    }

    fn operation(&mut self, name: &str) -> Option<CommOp> {
        let op = known_operation(name);
        if op.is_none() {
            let names = &mut self.log.unknown_operations;
            let name = redact::text(&shorten(name, 60)).into_owned();
            let known = names.len() < NAMES_KEPT || names.contains_key(&name);
            *names.entry(if known { name } else { "other names".to_owned() }).or_default() += 1;
        }
        op
    }

    fn stamps(&mut self, trace: &Option<Trace>) -> Option<Stamps> {
        // 0 means that a stamp was never taken.
        let stamp = |n: Option<Number>| n.and_then(Number::time).filter(|&t| t > 0);
        let trace = trace.as_ref()?;
        self.features.verbose = true;
        let channels = trace.kernel_events.iter().map(|event| ChannelStamps {
            channel: event.channel_id.and_then(Number::small).unwrap_or(0),
            start_us: stamp(event.kernel_start_ts),
            stop_us: stamp(event.kernel_stop_ts),
        });
        Some(Stamps {
            start_us: stamp(trace.coll_start_ts),
            stop_us: stamp(trace.coll_stop_ts),
            channels: channels.collect(),
        })
    }
}

/// The exact spellings of the plugin first, because every record passes here.
fn known_operation(name: &str) -> Option<CommOp> {
    Some(match name {
        "AllReduce" => CommOp::AllReduce,
        "AllGather" => CommOp::AllGather,
        "ReduceScatter" => CommOp::ReduceScatter,
        "Broadcast" => CommOp::Broadcast,
        "Reduce" => CommOp::Reduce,
        "Send" => CommOp::Send,
        "Recv" => CommOp::Recv,
        other => return CommOp::parse(other),
    })
}

fn same(origin: &Origin, header: &Header<'_>, metadata: &Metadata<'_>) -> bool {
    let is = |field: &Option<Text<'_>>, value: &str| field.as_ref().is_some_and(|t| t.0 == value);
    let number = |field: Option<Number>, value: Option<u32>| field.and_then(Number::small) == value;
    is(&header.id, &origin.comm_id)
        && number(header.rank, Some(origin.rank))
        && number(header.n_ranks, Some(origin.n_ranks))
        && number(header.nnodes, origin.nnodes)
        && number(metadata.pid, origin.pid)
        && is(&metadata.hostname, &origin.hostname)
        && match &origin.comm_name {
            Some(name) => is(&header.comm_name, name),
            None => header.comm_name.as_ref().is_none_or(|n| n.0 == "unknown"),
        }
}

fn timing(name: &Option<Text<'_>>) -> Timing {
    name.as_ref().map_or(Timing::Absent, |t| Timing::parse(&t.0))
}

fn time(us: Option<Number>) -> Option<f64> {
    us.and_then(Number::real).filter(|&v| v > 0.0)
}

/// The size in bytes, and whether 2^64 - n was turned back into n.
fn size(bytes: Option<Number>) -> (Option<u64>, bool) {
    match bytes {
        Some(Number::Unsigned(v)) if v >= NEGATIVE_SIZE => (Some(v.wrapping_neg()), true),
        Some(Number::Signed(v)) => (Some(v.unsigned_abs()), true),
        other => (other.and_then(Number::integer), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::inspector::read_stream;

    /// Keeps one line of text for everything that it is told.
    #[derive(Default)]
    struct Notes(Vec<String>);

    impl Sink for Notes {
        fn origin(&mut self, o: &Origin) {
            let name = o.comm_name.as_deref().unwrap_or("-");
            self.0.push(format!(
                "{} {name} {}/{} on {} {:?}",
                o.comm_id, o.rank, o.n_ranks, o.hostname, o.pid
            ));
        }
        fn record(&mut self, r: &Record<'_>) {
            let op = r.op.map_or("Invalid", CommOp::label);
            self.0.push(format!(
                "{} {op} {:?} {:?}B {:?}us {}",
                r.origin,
                r.sn,
                r.bytes,
                r.exec_us,
                r.timing.label()
            ));
        }
        fn drops(&mut self, origin: usize, drops: Drops) {
            self.0.push(format!("{origin} lost {} {}", drops.coll, drops.p2p));
        }
    }

    fn read(text: &[u8]) -> (LogFile, Vec<String>) {
        let mut notes = Notes::default();
        let log = read_stream("x.log".to_owned(), text, &mut notes);
        assert_eq!(
            log.lines as usize,
            text.split(|&b| b == b'\n').count()
                - usize::from(text.ends_with(b"\n") || text.is_empty())
        );
        (log, notes.0)
    }

    const HEADER: &str = r#""header":{"id":"0xab","rank":1,"n_ranks":4,"nnodes":1},"metadata":{"inspector_output_format_version":"v4.0","dump_timestamp_us":1700000000000000,"hostname":"h","pid":7}"#;

    fn coll(name: &str, sn: u64, size: &str, time: &str) -> String {
        format!(
            r#"{{{HEADER},"coll_perf":{{"coll":"{name}","coll_sn":{sn},"coll_msg_size_bytes":{size},"coll_exec_time_us":{time},"coll_timing_source":"kernel_gpu","coll_algobw_gbs":1.0,"coll_busbw_gbs":1.5}}}}"#
        )
    }

    #[test]
    fn plain_lines_and_the_line_break_at_the_end_that_may_be_missing() {
        let text =
            format!("{}\n{}", coll("AllReduce", 0, "64", "5"), coll("AllReduce", 1, "64", "6"));
        let (log, notes) = read(text.as_bytes());
        assert_eq!(
            notes,
            [
                "0xab - 1/4 on h Some(7)",
                "0 AllReduce Some(0) Some(64)B Some(5.0)us kernel_gpu",
                "0 AllReduce Some(1) Some(64)B Some(6.0)us kernel_gpu"
            ]
        );
        assert_eq!((log.lines, log.records, log.operations, log.bad_lines), (2, 2, 2, 0));
        assert_eq!(log.formats, ["v4.0 of 2.28 or 2.29"]);
        assert_eq!(log.versions, ["v4.0"]);
    }

    #[test]
    fn sizes_below_zero_times_of_zero_and_numbers_that_are_none_are_corrected() {
        let cases = [
            ("18446744073709547520", "5", "Some(4096)B Some(5.0)us"),
            ("-4096", "5", "Some(4096)B Some(5.0)us"),
            ("64", "0", "Some(64)B None"),
            ("64", "\"nan\"", "Some(64)B None"),
            ("64", "inf", "Some(64)B None"),
            ("64", "-3", "Some(64)B None"),
            ("64", "5663.0", "Some(64)B Some(5663.0)us"),
            ("\"nan\"", "1e999", "Some(0)B None"),
        ];
        for (size, time, expected) in cases {
            let (log, notes) = read(coll("AllReduce", 0, size, time).as_bytes());
            if size == "\"nan\"" {
                // 1e999 is not a number of JSON's reader: the line is bad, not wrong.
                assert_eq!((log.bad_lines, notes.len()), (1, 0));
            } else {
                assert!(notes[1].contains(expected), "{size} {time}: {}", notes[1]);
                assert_eq!(log.bad_lines, 0, "{size} {time}");
            }
        }
    }

    #[test]
    fn a_torn_last_line_is_bad_and_the_rest_counts() {
        let whole = coll("AllReduce", 0, "64", "5");
        let (log, notes) = read(format!("{whole}\n{}", &whole[..150]).as_bytes());
        assert_eq!((log.records, log.bad_lines, notes.len()), (1, 1, 2));
        assert_eq!(log.bad[0].line, 2);
        assert!(log.bad[0].reason.starts_with("is cut off"), "{}", log.bad[0].reason);
    }

    #[test]
    fn a_torn_line_in_the_middle_costs_only_itself() {
        let whole = coll("AllReduce", 0, "64", "5");
        let (log, _) = read(format!("{whole}\n{}\n{whole}\n{whole}\n", &whole[..150]).as_bytes());
        assert_eq!((log.lines, log.records, log.bad_lines), (4, 3, 1));
        assert_eq!(
            (log.bad[0].line, log.bad[0].reason.as_str()),
            (2, "begins a record that does not end")
        );
    }

    #[test]
    fn the_output_of_a_job_among_the_records_is_counted_line_by_line() {
        let text = format!(
            "epoch 1: loss 0.5\n\n{}\n[rank0]: Traceback\n{{'a': 1}}\n{{\"step\": 5}}\n",
            coll("AllReduce", 0, "64", "5")
        );
        let (log, notes) = read(text.as_bytes());
        assert_eq!((log.lines, log.records, log.bad_lines, notes.len()), (6, 1, 4, 2));
        assert_eq!(log.bad.iter().map(|b| b.line).collect::<Vec<_>>(), [1, 4, 5, 6]);
        assert_eq!(log.bad[3].reason, "is JSON but no record of a known kind");
    }

    #[test]
    fn pretty_printed_records_and_lists_of_them_are_read() {
        let pretty = |value: &str| {
            serde_json::to_string_pretty(
                &serde_json::from_str::<serde_json::Value>(value).expect("JSON"),
            )
            .expect("JSON")
        };
        let (one, two) = (coll("AllReduce", 0, "64", "5"), coll("AllReduce", 1, "64", "6"));
        for text in [
            format!("{}\n{}\n", pretty(&one), pretty(&two)),
            pretty(&format!("[{one},{two}]")),
            format!("[{one},{two}]"),
            format!("[\n{one},\n{two}\n]\n"),
            format!("{one}{two}\n"),
            format!("\u{feff}{}\r\n{two}\r\n", pretty(&one).replace('\n', "\r\n")),
        ] {
            let (log, notes) = read(text.as_bytes());
            assert_eq!(
                (log.records, log.bad_lines, notes.len()),
                (2, 0, 3),
                "{text}: {:?}",
                log.bad
            );
        }
        // A pretty record that is torn, then a whole one.
        let torn: String = pretty(&one).lines().take(5).map(|l| format!("{l}\n")).collect();
        let (log, _) = read(format!("{torn}{}\n", pretty(&two)).as_bytes());
        assert_eq!((log.records, log.bad_lines), (1, 5));
    }

    #[test]
    fn headerless_records_belong_to_the_last_marker() {
        let marker = format!(
            r#"{{{HEADER},"dump_stats":{{"coll_records":1,"coll_dropped_total":4,"p2p_dropped_total":2}}}}"#
        );
        let bare = r#"{"coll_perf":{"coll":"AllReduce","coll_algo":"RING","coll_proto":"LL","coll_sn":9,"coll_msg_size_bytes":64,"coll_exec_time_us":5}}"#;
        let proxy =
            r#"{"proxy_trace":{"record_type":"proxy_op","parent_sn":9,"steps":[{"step":0}]}}"#;
        let (log, notes) = read(format!("{bare}\n{marker}\n{bare}\n{proxy}\n").as_bytes());
        assert_eq!(
            notes,
            [
                "0xab - 1/4 on h Some(7)",
                "0 lost 4 2",
                "0 AllReduce Some(9) Some(64)B Some(5.0)us absent"
            ]
        );
        assert_eq!(
            (log.records, log.operations, log.dump_stats, log.proxy_traces, log.bad_lines),
            (3, 1, 1, 1, 1)
        );
        assert_eq!(log.formats, ["v4.3+ marker stream"]);
    }

    #[test]
    fn flat_records_are_read() {
        let nested = r#"{"id":"0xab","rank":1,"n_ranks":4,"nnodes":1,"hostname":"h","pid":7,"dump_timestamp_us":5,"coll_perf":{"coll":"AllReduce","coll_sn":3,"coll_msg_size_bytes":64,"coll_exec_time_us":5663.0}}"#;
        let bare = r#"{"id":"0xab","rank":1,"n_ranks":4,"nnodes":1,"hostname":"h","pid":7,"coll":"AllReduce","coll_sn":4,"coll_msg_size_bytes":64,"coll_exec_time_us":2.5,"coll_timing_source":"cpu_wallclock","coll_n_channels":2}"#;
        let (log, notes) = read(format!("{nested}\n{bare}\n").as_bytes());
        assert_eq!(
            notes[1..],
            [
                "0 AllReduce Some(3) Some(64)B Some(5663.0)us absent",
                "0 AllReduce Some(4) Some(64)B Some(2.5)us cpu_wallclock"
            ]
        );
        assert_eq!(
            (log.bad_lines, log.formats),
            (0, vec!["v4.0 of 2.28 or 2.29".to_owned(), "flat records".to_owned()])
        );
    }

    #[test]
    fn unknown_operations_are_counted_by_name() {
        let (log, notes) = read(
            format!("{}\n{}\n", coll("Invalid", 0, "64", "5"), coll("AllReduceV2", 0, "64", "5"))
                .as_bytes(),
        );
        assert_eq!(
            log.unknown_operations,
            BTreeMap::from([("AllReduceV2".to_owned(), 1), ("Invalid".to_owned(), 1)])
        );
        assert_eq!((log.bad_lines, notes.len()), (0, 3));
    }

    #[test]
    fn contradicting_headers_are_bad() {
        for (from, to) in [
            ("\"rank\":1", "\"rank\":4"),
            ("\"n_ranks\":4", "\"n_ranks\":4000000000"),
            ("\"id\":\"0xab\",", ""),
            ("\"rank\":1", "\"rank\":\"nan\""),
        ] {
            let (log, notes) = read(coll("AllReduce", 0, "64", "5").replace(from, to).as_bytes());
            assert_eq!((log.bad_lines, notes.len()), (1, 0), "{to}");
        }
    }

    #[test]
    fn names_that_are_cut_inside_a_character_or_hold_escapes_are_read() {
        let line = coll("AllReduce", 0, "64", "5");
        let mut cut =
            line.replace("\"rank\"", "\"comm_name\":\"gr\u{fc}n?\",\"rank\"").into_bytes();
        let at = cut.iter().position(|&b| b == b'?').expect("there");
        cut[at] = 0xc3;
        assert!(read(&cut).1[0].starts_with("0xab gr\u{fc}n\u{fffd} "), "{:?}", read(&cut));
        assert!(
            read(line.replace("\"rank\"", r#""comm_name":"a\/b","rank""#).as_bytes()).1[0]
                .starts_with("0xab a/b ")
        );
    }

    #[test]
    fn verbose_stamps_of_zero_are_none() {
        let line = coll("AllReduce", 0, "64", "5").replace(
            "\"coll_busbw_gbs\":1.5",
            r#""coll_busbw_gbs":1.5,"event_trace_sn":{"coll_start_sn":1,"kernel_events":[{"channel_id":0}]},"event_trace_ts":{"coll_start_ts":10,"coll_stop_ts":0,"kernel_events":[{"channel_id":3,"kernel_start_ts":11,"kernel_stop_ts":0,"kernel_record_ts":12}]}"#,
        );
        struct Keep(Option<Stamps>);
        impl Sink for Keep {
            fn origin(&mut self, _: &Origin) {}
            fn record(&mut self, r: &Record<'_>) {
                self.0 = r.stamps.clone();
            }
            fn drops(&mut self, _: usize, _: Drops) {}
        }
        let mut keep = Keep(None);
        let log = read_stream("x".to_owned(), line.as_bytes(), &mut keep);
        let channels = vec![ChannelStamps { channel: 3, start_us: Some(11), stop_us: None }];
        assert_eq!(keep.0, Some(Stamps { start_us: Some(10), stop_us: None, channels }));
        assert_eq!(log.formats, ["v4.0 of 2.28 or 2.29", "verbose"]);
    }
}
