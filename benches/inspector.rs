//! Bytes a second and core from the lines of an Inspector log to the figures of `inspect`.

use std::fmt::Write;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nsysnccl::internals::ingest::inspector;
use nsysnccl::internals::inspect::{Filter, Tally};
use nsysnccl::internals::model::record::{Drops, Origin, Record, Sink};

/// Takes everything and keeps nothing: what reading alone costs.
#[derive(Default)]
struct Nothing(u64);

impl Sink for Nothing {
    fn origin(&mut self, _: &Origin) {}
    fn record(&mut self, record: &Record<'_>) {
        self.0 += record.bytes.unwrap_or(0);
    }
    fn drops(&mut self, _: usize, _: Drops) {}
}

/// A log as 2.30 writes it: two communicators, three operations, times with some spread.
fn log(lines: u64, channels: u64) -> String {
    let mut text = String::new();
    for i in 0..lines {
        let (id, name, n) = if i % 3 == 0 {
            ("0x910a2dec89025c", "default_pg", 8)
        } else {
            ("0x23259b94f13cf5", "tp_group", 4)
        };
        let (op, bytes) =
            [("AllReduce", 16_777_216), ("AllGather", 2_097_152), ("ReduceScatter", 2_097_152)]
                [(i / 3 % 3) as usize];
        let time = 300 + i.wrapping_mul(2_654_435_761) % 97;
        let written = 1_796_003_282_573_312 + i * 400;
        let _ = write!(
            text,
            r#"{{"header":{{"id":"{id}","comm_name":"{name}","rank":2,"n_ranks":{n},"nnodes":2}},"metadata":{{"inspector_output_format_version":"v4.0","git_rev":"73cf11229","rec_mechanism":"nccl_profiler_interface","dump_timestamp_us":{written},"hostname":"node0","pid":12905}},"coll_perf":{{"coll":"{op}","coll_sn":{sn},"coll_msg_size_bytes":{bytes},"coll_exec_time_us":{time},"coll_timing_source":"kernel_gpu","coll_algobw_gbs":38.479853,"coll_busbw_gbs":67.339743"#,
            sn = i / 9
        );
        if channels > 0 {
            let numbers: Vec<String> = (0..channels)
                .map(|c| format!(r#"{{"channel_id":{c},"kernel_start_sn":3,"kernel_stop_sn":12,"kernel_record_sn":11}}"#))
                .collect();
            let times: Vec<String> = (0..channels)
                .map(|c| {
                    format!(r#"{{"channel_id":{c},"kernel_start_ts":{written},"kernel_stop_ts":{written},"kernel_record_ts":{written}}}"#)
                })
                .collect();
            let _ = write!(
                text,
                r#","event_trace_sn":{{"coll_start_sn":1,"coll_stop_sn":2,"kernel_events":[{}]}},"event_trace_ts":{{"coll_start_ts":{written},"coll_stop_ts":{written},"kernel_events":[{}]}}"#,
                numbers.join(","),
                times.join(",")
            );
        }
        text.push_str("}}\n");
    }
    text
}

fn reading(c: &mut Criterion) {
    for (name, text) in [("plain", log(50_000, 0)), ("verbose-8-channels", log(10_000, 8))] {
        let mut group = c.benchmark_group(name);
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.sample_size(20);
        group.bench_function("read", |b| {
            b.iter(|| {
                let mut sink = Nothing::default();
                black_box(inspector::read_stream("x.log".to_owned(), text.as_bytes(), &mut sink));
                sink.0
            });
        });
        group.bench_function("read-and-tally", |b| {
            b.iter(|| {
                let mut sink = Tally::new(Filter::default(), 1 << 20);
                black_box(inspector::read_stream("x.log".to_owned(), text.as_bytes(), &mut sink));
                sink.operations
            });
        });
        group.finish();
    }
}

criterion_group!(benches, reading);
criterion_main!(benches);
