//! Counters of GPUs beside a run: from nsys, from text files, from folders.

use std::path::{Path, PathBuf};
use std::process::Command;

use nsysnccl::internals::counters::rows::Row;
use nsysnccl::internals::report::Report as Finished;
use nsysnccl::internals::run::{Options, Run};

use crate::support::folder;
use crate::support::report::{Copy, Payload, Report, stream, text, thread};
use crate::support::scenes::{ALL_REDUCE, EPOCH, GEMM, MS, US, WORLD};

const STEPS: i64 = 4;
/// Bytes of the AllReduce: what 135 GB/s move in 500 µs.
const BYTES: u64 = 67_500_000;

/// One step of two ranks, 2 ms; the clock of rank 1 is 1 ms behind.
///
/// ```text
/// µs              0       800  1000   1300      1800   1950 2000
/// rank 0  GEMM    |------------|
///         AR              |=== waits ===|=========|
///         DtoH                                    |------|
/// rank 1  GEMM    |---------------------|
///         AR                            |=========|
///         DtoH                                    |------|
/// SM active 0     |  90   | 60 |   20   |   10    |5 |3     |     in samples of 100 µs
/// tensor 0        |  40   | 40 |    0 ...
/// NVLink 0, user                        |   30    |               and 10 of protocol, out
/// ```
fn save(folder: &Path) -> Vec<PathBuf> {
    let rank = |rank: u32| {
        let mut report = Report::default();
        let main = thread(1000 + rank, 1000 + rank);
        let behind = i64::from(rank) * MS;
        report.session(EPOCH + behind);
        report.env("RANK", &rank.to_string());
        report.env("WORLD_SIZE", "2");
        report.system("Hostname", "node0");
        for (id, uuid) in [(0, "aa11"), (1, "bb22")] {
            report.row(
                "TARGET_INFO_GPU",
                &[
                    ("id", id.into()),
                    ("name", text("NVIDIA H200")),
                    ("uuid", text(uuid)),
                    ("clockRate", 2_000_000_000.into()),
                ],
            );
        }
        report.row(
            "TARGET_INFO_CUDA_DEVICE",
            &[
                ("gpuId", i64::from(rank).into()),
                ("cudaId", 0.into()),
                ("pid", i64::from(main.pid).into()),
            ],
        );
        for step in 0..STEPS {
            let at = |us: i64| 10 * MS + 2 * MS * step + us * US - behind;
            report.range(main, &format!("step {step}"), at(-500)..at(1_000));
            let (compute, joins) = if rank == 0 { (1_000, 800) } else { (1_300, 1_300) };
            report.kernel(GEMM, stream(7), at(0)..at(compute), main.at(at(-400)));
            let payload = Payload {
                comm: WORLD,
                bytes: Some(BYTES),
                redop: Some("Sum"),
                ..Payload::default()
            };
            report.nccl(main, "ncclAllReduce", at(-300)..at(-200), payload);
            report.kernel(ALL_REDUCE, stream(20), at(joins)..at(1_800), main.at(at(-250)));
            report.copy(Copy::DtoH, 500, stream(7), at(1_800)..at(1_950), main.at(at(-100)));
        }
        if rank == 0 {
            sample(&mut report);
        }
        report.save(folder, &format!("run_{rank}.sqlite"))
    };
    vec![rank(0), rank(1)]
}

/// The samples of both GPUs, all in the report of rank 0.
fn sample(report: &mut Report) {
    let kind = |gpu: i64| (1i64 << 48) + (1 << 32) + gpu;
    let names = [
        "SMs Active [Throughput %]",
        "Tensor Active [Throughput %]",
        "NVLink TX Requests User Data [Throughput %]",
        "NVLink TX Requests Protocol Data [Throughput %]",
        "NVLink RX Requests User Data [Throughput %]",
        "GPC Clock Frequency [MHz]",
        "Pixel Warps in Flight [Avg]",
    ];
    for gpu in [0, 1] {
        for (metric, name) in names.into_iter().enumerate() {
            report.row(
                "TARGET_INFO_GPU_METRICS",
                &[
                    ("typeId", kind(gpu).into()),
                    ("sourceId", kind(gpu).into()),
                    ("typeName", text("")),
                    ("metricId", (metric as i64).into()),
                    ("metricName", text(name)),
                ],
            );
        }
        for sample in 0..STEPS * 20 {
            let (us, at) = (sample % 20 * 100, 10 * MS + sample * 100 * US);
            let active = match us {
                _ if gpu == 1 => 50,
                0..800 => 90,
                800..1_000 => 60,
                1_000..1_300 => 20,
                1_300..1_800 => 10,
                1_800..1_900 => 5,
                _ => 3,
            };
            let tensor = if us < 1_000 && gpu == 0 { 40 } else { 0 };
            let moves = i64::from((1_300..1_800).contains(&us) && gpu == 0);
            let clock = 1_600_000_000;
            let values = [active, tensor, 30 * moves, 10 * moves, 30 * moves, clock, 7];
            for (metric, value) in values.into_iter().enumerate() {
                report.row(
                    "GPU_METRICS",
                    &[
                        ("rawTimestamp", at.into()),
                        ("timestamp", at.into()),
                        ("typeId", kind(gpu).into()),
                        ("metricId", (metric as i64).into()),
                        ("value", value.into()),
                    ],
                );
            }
        }
    }
}

fn report(paths: &[PathBuf], counters: &[PathBuf]) -> Finished {
    let options = Options { counters: counters.to_vec(), ..Options::default() };
    nsysnccl::internals::reporting::of(&Run::read(paths, &options, || ()).expect("a run"))
}

fn row<'r>(report: &'r Finished, rank: u32, metric: &str, unit: &str) -> &'r Row {
    let found =
        report.counters.iter().find(|r| r.rank == rank && r.metric == metric && r.unit == unit);
    found.unwrap_or_else(|| panic!("no {metric} in {unit}"))
}

#[test]
fn counters_are_averaged_over_the_parts_of_steps_by_hand() {
    let folder = folder();
    let report = report(&save(folder.path()), &[]);
    let sm = row(&report, 0, "sm_active", "%");
    // Copies: 100 µs of 5 and 50 of 3. Of idle time there are 50 µs, half a sample.
    let copies = 4.333333333;
    assert_eq!(
        sm.parts.list(),
        [Some(90.0), Some(10.0), Some(20.0), Some(60.0), Some(copies), None]
    );
    assert_eq!(sm.reasons["idle"], "it takes 50.0 µs a step at most, and a sample 100.0 µs");
    assert_eq!((sm.name.as_str(), sm.steps.len()), ("SMs Active [Throughput %]", 4));
    assert_eq!(sm.steps[2].parts.transfer, Some(10.0));
    // The GPU of rank 1 was sampled by the process of rank 0, on a clock 1 ms ahead.
    let other = row(&report, 1, "sm_active", "%");
    assert_eq!(
        other.parts.list(),
        [Some(50.0), Some(50.0), None, None, Some(50.0), None],
        "{:?}",
        other.reasons
    );
    let sent = row(&report, 0, "nvlink_tx", "GB/s");
    assert_eq!((sent.parts.transfer, sent.parts.compute), (Some(180.0), Some(0.0)));
    assert_eq!(sent.peak, Some(450.0));
    assert_eq!(
        sent.name,
        "NVLink TX Requests User Data [Throughput %] + NVLink TX Requests Protocol Data [Throughput %]"
    );
    assert!(report.counters.iter().all(|row| !row.name.contains("Pixel")));
    assert_eq!(row(&report, 0, "sm_clock", "MHz").parts.compute, Some(1_600.0));
    let sampling = &report.counter_details.as_ref().expect("details").sampling[0];
    assert_eq!(sampling.part_ns.list()[..5], [800_000, 500_000, 300_000, 200_000, 150_000]);
    // Of 150 µs of copies the first 100 are a sample.
    assert_eq!(sampling.own_fraction.copies, Some(0.666666667));
    assert_eq!(sampling.own_fraction.transfer, Some(1.0));
}

#[test]
fn bytes_of_links_stand_beside_payloads() {
    let folder = folder();
    let report = report(&save(folder.path()), &[]);
    let details = report.counter_details.as_ref().expect("details");
    let link = |rank: u32, direction: &str| {
        let mut links = details.links.iter();
        links.find(|l| (l.rank, l.link.as_str()) == (rank, "NVLink") && l.direction == direction)
    };
    // Two ranks: an AllReduce sends and receives its array once. 30 % of 450 GB/s for 500 µs.
    let sent = link(0, "sent").expect("sampled");
    assert_eq!((sent.counted_bytes, sent.payload_bytes), (Some(67_500_000), Some(67_500_000)));
    assert_eq!((sent.ratio, sent.reason.as_deref()), (Some(1.0), None));
    // Whole per cent over the ten samples from 800 to 1800 µs.
    assert_eq!(sent.rounding_bytes, Some(2_250_000));
    let nothing = link(1, "received").expect("sampled");
    assert_eq!((nothing.counted_bytes, nothing.ratio), (Some(0), Some(0.0)));
}

#[test]
fn the_matrix_is_said_in_findings_and_in_every_format() {
    let folder = folder();
    save(folder.path());
    let report = report(&[0, 1].map(|r| folder.path().join(format!("run_{r}.sqlite"))), &[]);
    let title = |id: &str| {
        let found = report.findings.iter().find(|f| f.id.as_str() == id);
        found.unwrap_or_else(|| panic!("no {id}: {:?}", report.findings)).title.clone()
    };
    assert_eq!(
        title("communication-slows-compute"),
        "Compute beside communication runs with 60.0 % of SMs against 90.0 % alone and 40.0 % of tensor cores' cycles against 40.0 % alone."
    );
    assert!(title("link-load").starts_with("NVLink carries 90.0 GB/s out of a GPU"), "mean of two");
    assert!(title("gpu-throttled").contains("1600 MHz, 80.0 % of its highest clock of 2000 MHz"));
    for format in ["terminal", "markdown", "html", "json"] {
        let args = ["report", ".", "--full", "-q", "--format", format];
        let text = said(folder.path(), &args, 0).0;
        let word = if format == "json" { "\"sm_active\"" } else { "sm active" };
        assert!(text.contains(word) && text.contains("180"), "{format}");
    }
    let text = serde_json::to_string(&report).expect("JSON");
    let back: Finished = serde_json::from_str(&text).expect("a report");
    assert_eq!((back.counters, back.counter_details), (report.counters, report.counter_details));
}

#[test]
fn files_without_times_give_their_mean_and_say_why_nothing_more() {
    let folder = folder();
    let paths = save(folder.path());
    let file = folder.path().join("dmon.txt");
    let table = "#Entity   SMACT        DRAMA        NFELT   NRELT   DVCCTR\nID\n\
                 GPU 0     0.100        0.200        3       1       0\n\
                 GPU 1     N/A          0.500        0       0       0\n\
                 GPU 0     0.100        0.400        5       1       4\n\
                 GPU 9     0.100        0.400        5       1       4\n\
                 GPU-I 0   0.100        0.400        5       1       4\n\
                 GPU 0     0.1\n";
    std::fs::write(&file, table).expect("written");
    let report = report(&paths, &[file]);
    // nsys has SM active of this GPU, and finer.
    assert_eq!(row(&report, 0, "sm_active", "%").source, "nsys GPU metrics");
    let dram = row(&report, 0, "dram_active", "%");
    assert_eq!((dram.mean, dram.source.as_str()), (Some(30.0), "dcgmi dmon"));
    assert_eq!(dram.parts.list(), [None; 6]);
    assert_eq!(dram.reasons["transfer"], "the file does not say when samples were taken");
    let details = report.counter_details.as_ref().expect("details");
    let health = details.health.iter().find(|h| h.rank == 0).expect("errors");
    assert_eq!((health.nvlink_errors, health.nvlink_errors_new), (Some(6), Some(2)));
    assert_eq!(health.throttled["power cap"], 0.5);
    let codes: Vec<&str> = report.warnings.iter().map(|w| w.code.as_str()).collect();
    for code in ["counters-untimed", "counters-unplaced", "counters-instances", "counters-lines"] {
        assert!(codes.contains(&code), "{code} in {codes:?}");
    }
    assert!(report.findings.iter().any(|f| f.id.as_str() == "link-errors"));
}

#[test]
fn a_second_between_samples_is_too_coarse_for_the_parts_of_a_step() {
    let folder = folder();
    let paths = save(folder.path());
    let file = folder.path().join("smi.txt");
    // EPOCH is 2023-11-14 22:13:20 UTC.
    let lines: String =
        (20..24).map(|s| format!(" 20231114  22:13:{s}  0  {}  77\n", 100 * s)).collect();
    let head = "#Date Time gpu pwr sm\n#YYYYMMDD HH:MM:SS Idx W %\n";
    std::fs::write(&file, format!("{head}{lines}")).expect("written");
    let first = report(&paths, std::slice::from_ref(&file));
    let power = row(&first, 0, "power", "W");
    assert_eq!((power.mean, power.parts.list()), (Some(2_000.0), [None; 6]));
    assert!(power.reasons["compute"].ends_with("and a sample 1.000 s"), "{:?}", power.reasons);
    // An hour off: another time zone, or another run.
    let text = std::fs::read_to_string(&file).expect("read").replace("22:13", "23:13");
    std::fs::write(&file, text).expect("written");
    let power = row(&report(&paths, &[file]), 0, "power", "W").clone();
    assert!(power.reasons["compute"].contains("time zone"), "{:?}", power.reasons);
}

fn said(folder: &Path, args: &[&str], status: i32) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nsysnccl"));
    let done = command.args(args).current_dir(folder).output().expect("runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (out, err) = (text(done.stdout), text(done.stderr));
    assert_eq!(done.status.code(), Some(status), "{err}");
    (out, err)
}

#[test]
fn dumps_and_counters_in_a_folder_of_reports_are_used_and_said() {
    let folder = folder();
    save(folder.path());
    std::fs::write(folder.path().join("dmon.txt"), "#Entity DRAMA\nID\nGPU 0 0.5\n")
        .expect("written");
    let mut writer = crate::npkit::Writer::with_ranks([0]);
    let start = EPOCH as u64 + 10_000_000 + 801_000;
    writer.clocks(0, 0, start);
    writer.event(0, 0, crate::npkit::SEND, (0, 900_000), 0);
    let dump = writer.save(folder.path());
    let args = ["report", ".", "--format", "json"];
    let (out, err) = said(folder.path(), &args, 0);
    assert!(err.contains("dump: an NPKit dump, read as with --npkit"), "{err}");
    assert!(err.contains("dmon.txt: counters of GPUs, read as with --counters"), "{err}");
    let json: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(json["npkit"]["inside_kernels"], 2);
    assert!(out.contains("\"dram_active\""));
    // Two dumps: the user has to choose.
    std::fs::create_dir(folder.path().join("other")).expect("a folder");
    for entry in std::fs::read_dir(&dump).expect("a dump") {
        let path = entry.expect("a file").path();
        let name = path.file_name().expect("a name");
        std::fs::copy(&path, folder.path().join("other").join(name)).expect("copied");
    }
    let (out, err) = said(folder.path(), &args, 0);
    assert!(err.contains("2 NPKit dumps (dump, other), and none is read"), "{err}");
    let json: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert!(json["npkit"].is_null());
    // What is named counts.
    let (out, _) = said(folder.path(), &["report", ".", "--npkit", "other", "--format", "json"], 0);
    assert!(out.contains("\"inside_kernels\": 2"));
}

#[test]
fn a_file_that_holds_no_counters_is_refused() {
    let folder = folder();
    save(folder.path());
    std::fs::write(folder.path().join("notes.txt"), "GPU 0 is fine\n").expect("written");
    let args = ["report", "run_0.sqlite", "run_1.sqlite", "--counters", "notes.txt"];
    let (out, err) = said(folder.path(), &args, 3);
    assert!(out.is_empty() && err.contains("holds no counters of GPUs"), "{err}");
    assert!(err.contains("dcgmi dmon -e"), "{err}");
}

#[test]
fn real_samples_of_pcie_agree_with_the_copies_of_the_trace() {
    // One rank without communication: 19,267,840 bytes a step come from the host at 55 GB/s.
    let Some(captures) = crate::support::captures() else { return };
    let report = report(&[captures.join("gpumetrics/gpumetrics.sqlite")], &[]);
    let details = report.counter_details.as_ref().expect("details");
    let link = |link: &str, direction: &str| {
        let mut links = details.links.iter();
        links.find(|l| (l.link.as_str(), l.direction.as_str()) == (link, direction))
    };
    let copied = link("PCIe", "received").expect("sampled");
    assert_eq!(copied.payload_bytes, Some(19_267_840));
    // Headers of packets are counted too.
    assert!((1.0..1.1).contains(&copied.ratio.expect("a ratio")), "{copied:?}");
    for direction in ["sent", "received"] {
        let nvlink = link("NVLink", direction).expect("sampled");
        assert_eq!((nvlink.payload_bytes, nvlink.step_bytes), (Some(0), Some(0)));
    }
}
