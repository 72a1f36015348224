//! What `doctor` says is missing, and that it is what `report` lacks.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nsysnccl::internals::doctor::{self, Examination, Run, State};
use nsysnccl::internals::render::{self, Format, Style};
use nsysnccl::internals::run::Options;
use serde_json::Value;

use crate::support::report::{Payload, Payloads, Report, stream, text, thread};
use crate::support::scenes::{ALL_REDUCE, EPOCH, GEMM, MS, WORLD, WORLD_LOGGED};
use crate::support::{captures, folder};

/// Two ranks with everything that a report can use, ms:
///
/// ```text
/// CPU   | step i           |            10 i .. 10 i + 9
/// GPU 7 |   | gemm |       |            10 i + 1 .. 10 i + 5
/// GPU 9 |          | all |              10 i + 5 .. 10 i + 8
/// ```
#[derive(Clone)]
struct Capture {
    ranks: Vec<u32>,
    world: u32,
    /// Where the name of the file says the rank.
    name: fn(u32) -> String,
    steps: i64,
    /// Text of a step's range; none if empty.
    step: &'static str,
    /// What is added to the number in that text on a rank.
    shift: fn(u32) -> i64,
    all_reduces: bool,
    nccl_ranges: bool,
    payloads: Payloads,
    in_graphs: bool,
    launches: bool,
    rank_in_environment: bool,
    /// What else a rank's report says.
    more: fn(u32, &mut Report),
    inspector: Vec<u32>,
    /// Lines of the NCCL log.
    nccl_log: Vec<String>,
    topology: &'static str,
}

impl Capture {
    fn complete() -> Capture {
        let line = |rank: u32, message: &str| {
            format!("node0:{pid}:{pid} [{rank}] NCCL INFO {message}", pid = pid(rank))
        };
        let lines = |rank: u32| {
            let comm = format!(
                "ncclCommInitRankConfig comm 0x{rank}f rank {rank} nranks 2 cudaDev 0 nvmlDev {rank} busId {rank}a000 commId {WORLD:#x} - Init COMPLETE"
            );
            let peer = 1 - rank;
            [
                line(rank, &comm),
                line(
                    rank,
                    &format!("Channel 00/0 : {rank}[{rank}] -> {peer}[{peer}] via P2P/CUMEM"),
                ),
            ]
        };
        Capture {
            ranks: vec![0, 1],
            world: 2,
            name: |rank| format!("run_{rank}.sqlite"),
            steps: 10,
            step: "step_",
            shift: |_| 0,
            all_reduces: true,
            nccl_ranges: true,
            payloads: Payloads::Json,
            in_graphs: false,
            launches: true,
            rank_in_environment: true,
            more: |_, _| {},
            inspector: vec![0, 1],
            nccl_log: (0..2).flat_map(lines).collect(),
            topology: "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV18\t0-31\nGPU1\tNV18\t X \t0-31\n",
        }
    }

    fn report(&self, rank: u32) -> Report {
        let mut report = Report::default();
        report.payloads = self.payloads;
        report.session(EPOCH);
        if self.rank_in_environment {
            report.env("RANK", &rank.to_string());
        }
        report.env("WORLD_SIZE", &self.world.to_string());
        report.env("AWS_SECRET_ACCESS_KEY", "hunter2");
        report.system("Hostname", "node0");
        let main = thread(pid(rank), pid(rank));
        report.gpu(i64::from(rank), "NVIDIA H200", main.pid, 0);
        report.row(
            "ANALYSIS_DETAILS",
            &[("globalVid", 0.into()), ("duration", (self.steps * 10 * MS).into())],
        );
        for step in 0..self.steps {
            let at = |ms: i64| (10 * step + ms) * MS;
            if !self.step.is_empty() {
                report.range(
                    main,
                    &format!("{}{}", self.step, step + (self.shift)(rank)),
                    at(0)..at(9),
                );
            }
            let launch = |time: i64| if self.launches { main.at(time) } else { main.unseen() };
            if self.in_graphs {
                report.graph(stream(7), at(1)..at(8), launch(at(0) + 10));
                continue;
            }
            report.kernel(GEMM, stream(7), at(1)..at(5), launch(at(0) + 10));
            if self.all_reduces {
                if self.nccl_ranges {
                    let payload = Payload {
                        comm: WORLD,
                        bytes: Some(1 << 20),
                        redop: Some("Sum"),
                        ..Payload::default()
                    };
                    report.nccl(main, "ncclAllReduce", at(0) + 20..at(0) + 900, payload);
                }
                report.kernel(ALL_REDUCE, stream(9), at(5)..at(8), launch(at(0) + 100));
            }
        }
        (self.more)(rank, &mut report);
        report
    }

    fn inspector_log(&self, rank: u32) -> String {
        let line = |sn: i64| {
            format!(
                r#"{{"header":{{"id":"{WORLD_LOGGED}","rank":{rank},"n_ranks":2,"nnodes":1}},"metadata":{{"inspector_output_format_version":"v4.0","git_rev":"","rec_mechanism":"nccl_profiler_interface","dump_timestamp_us":{at},"hostname":"node0","pid":{pid}}},"coll_perf":{{"coll":"AllReduce","coll_sn":{sn},"coll_msg_size_bytes":1048576,"coll_exec_time_us":3000,"coll_timing_source":"kernel_gpu","coll_algobw_gbs":1.0,"coll_busbw_gbs":1.0}}}}"#,
                at = EPOCH / 1000 + sn * 10_000 + 9_000,
                pid = pid(rank)
            )
        };
        (0..self.steps).map(line).collect::<Vec<_>>().join("\n") + "\n"
    }

    /// Writes everything to a folder.
    fn save(&self, folder: &Path) {
        for &rank in &self.ranks {
            self.report(rank).save(folder, &(self.name)(rank));
        }
        for &rank in &self.inspector {
            let logs = folder.join("inspector");
            std::fs::create_dir_all(&logs).expect("a folder");
            std::fs::write(
                logs.join(format!("node0-pid{}.log", pid(rank))),
                self.inspector_log(rank),
            )
            .expect("a log");
        }
        if !self.nccl_log.is_empty() {
            std::fs::write(folder.join("run.nccl.log"), self.nccl_log.join("\n") + "\n")
                .expect("a log");
        }
        if !self.topology.is_empty() {
            std::fs::write(folder.join("topo.txt"), self.topology).expect("a matrix");
        }
    }

    fn examine(&self) -> Examination {
        let folder = folder();
        self.save(folder.path());
        examine(folder.path())
    }
}

fn pid(rank: u32) -> u32 {
    1000 + rank
}

fn examine(folder: &Path) -> Examination {
    doctor::examine(&doctor::list(&[folder.to_owned()]), || ()).expect("something usable")
}

fn ids(view: &Examination) -> Vec<&str> {
    view.findings.iter().map(|finding| finding.id.as_str()).collect()
}

fn state(run: &Run, id: &str) -> State {
    run.numbers.iter().find(|number| number.id == id).unwrap_or_else(|| panic!("no {id}")).state
}

#[test]
fn a_complete_capture_lacks_nothing() {
    let view = Capture::complete().examine();
    assert_eq!(ids(&view), Vec::<&str>::new(), "{:#?}", view.findings);
    let [run] = view.runs.as_slice() else { panic!("{:#?}", view.runs) };
    assert!(run.numbers.iter().all(|number| number.state == State::Measured), "{:#?}", run.numbers);
    assert_eq!(
        (
            run.name.as_str(),
            run.steps.count,
            run.steps.source.map(nsysnccl::internals::steps::StepSource::label)
        ),
        ("run", Some(10), Some("default"))
    );
    assert!(
        run.ranks
            .iter()
            .all(|rank| (rank.kernels, rank.comm_kernels, rank.steps) == (20, 10, Some(10))),
        "{:#?}",
        run.ranks
    );
    let rows = view.exports[0].rows;
    assert_eq!(
        (
            rows.kernels,
            rows.comm_kernels,
            rows.api_calls,
            rows.ranges,
            rows.nccl_calls,
            rows.nccl_sizes
        ),
        (20, 10, 20, 20, 10, 10)
    );
    assert_eq!(view.exports[0].capture_ns, Some(100 * MS));
    // 1 ms to 98 ms.
    assert_eq!(view.exports[0].gpu_work_ns, Some(97 * MS));
    let text =
        render::print(&view, Format::Terminal, &Style { width: 120, color: false, full: true });
    assert!(
        text.contains("A report of run can be made: 2 ranks, 10 steps from “step_0” on.\nNothing is missing: every number is measured.")
    );
}

type Change = fn(&mut Capture);

/// The finding that a change gives, the change, numbers that it takes away, and a part of the advice.
type Missing = (&'static str, Change, &'static [(&'static str, State)], &'static str);

const MISSING: &[Missing] = &[
    (
        "no-nvtx",
        |c| (c.step, c.nccl_ranges) = ("", false),
        &[("steps", State::Weaker)],
        "nsys profile --trace=cuda,nvtx",
    ),
    ("no-step-ranges", |c| c.step = "", &[("steps", State::Weaker)], "torch.cuda.nvtx.range_push"),
    ("steps-by-guess", |c| c.step = "my loop ", &[("steps", State::Weaker)], "--step REGEX"),
    (
        "steps-not-found",
        |c| {
            c.step = "";
            // Once on each rank: nothing is repeated.
            c.more =
                |rank, report| report.range(thread(pid(rank), pid(rank)), "all of it", 0..95 * MS);
        },
        &[("steps", State::Weaker)],
        "--step takes any regular expression",
    ),
    ("steps-differ", |c| c.shift = |rank| 4 * i64::from(rank), &[], "at the same step"),
    (
        "steps-differ",
        |c| c.shift = |rank| 40 * i64::from(rank),
        &[("steps", State::Weaker), ("shares", State::Measured), ("across", State::Measured)],
        "at the same step",
    ),
    ("few-steps", |c| c.steps = 5, &[], "--capture-range=cudaProfilerApi"),
    (
        "process-without-steps",
        |c| {
            c.more = |rank, report| {
                let other = thread(5000 + rank, 1);
                report.kernel(GEMM, stream(7), 0..5 * MS, other.at(5));
            };
            // Two processes in a report: its file and environment name neither.
            c.rank_in_environment = false;
        },
        &[],
        "into every process",
    ),
    (
        "graph-level-trace",
        |c| c.in_graphs = true,
        &[
            ("shares", State::Weaker),
            ("copies", State::Weaker),
            ("across", State::Null),
            ("bandwidth", State::Null),
        ],
        "--cuda-graph-trace=node",
    ),
    (
        "no-communication",
        |c| c.all_reduces = false,
        &[("across", State::Null), ("bandwidth", State::Null)],
        "--comm-regex",
    ),
    (
        "no-payloads",
        |c| (c.payloads, c.inspector) = (Payloads::None, vec![]),
        &[("bandwidth", State::Null)],
        "nsys export --type sqlite --include-blobs true --include-json true",
    ),
    (
        "no-inspector",
        |c| c.inspector = vec![],
        &[("inspector", State::Null)],
        "NCCL_PROFILER_PLUGIN=",
    ),
    (
        "inspector-log-missing",
        |c| c.inspector = vec![1],
        &[("inspector", State::Weaker)],
        "NCCL_INSPECTOR_DUMP_DIR",
    ),
    ("no-nccl-log", |c| c.nccl_log = vec![], &[("transport", State::Weaker)], "NCCL_DEBUG=INFO"),
    (
        "nccl-log-without-channels",
        |c| c.nccl_log.retain(|line| !line.contains("Channel")),
        &[("transport", State::Weaker)],
        "P2P,SHM,NET",
    ),
    (
        "nccl-log-missing",
        |c| c.nccl_log.retain(|line| line.starts_with("node0:1000:")),
        &[("transport", State::Weaker)],
        "nccl.%h.%p.log",
    ),
    (
        "no-topology",
        |c| c.topology = "",
        &[("transport", State::Weaker)],
        "nvidia-smi topo -m > topo.txt",
    ),
    (
        "ranks-missing",
        |c| {
            c.world = 4;
            c.nccl_log.iter_mut().for_each(|line| *line = line.replace("nranks 2", "nranks 4"));
        },
        &[("across", State::Weaker), ("bandwidth", State::Null)],
        "--output=NAME_%q{RANK}",
    ),
    (
        "rank-unknown",
        |c| {
            c.rank_in_environment = false;
            c.name = |rank| format!("run_{}.sqlite", ["a", "b"][rank as usize]);
        },
        &[],
        "--rank-regex",
    ),
    (
        "report-fails",
        |c| {
            c.more = |_, report| {
                report.without("META_DATA_CAPTURE");
                report.env("RANK", "0");
            }
        },
        &[("steps", State::Null), ("across", State::Null)],
        "one run",
    ),
    (
        "captured-apart",
        |c| {
            c.more = |rank, report| {
                if rank == 1 {
                    report.session(EPOCH + 3_600_000_000_000);
                }
            }
        },
        &[("across", State::Weaker)],
        "nsysnccl compare",
    ),
    ("no-api-calls", |c| c.launches = false, &[("steps", State::Weaker)], "--window cpu"),
    (
        "no-epoch",
        |c| c.more = |_, report| report.without("TARGET_INFO_SESSION_START_TIME"),
        &[],
        "nsys export",
    ),
    (
        "partial-export",
        |c| c.more = |_, report| report.export("EXPORT_PARAM_TIMES_TO_EXPORT", "1s/2s"),
        &[],
        "Export everything: nsys export --type sqlite",
    ),
    (
        "profiler-error",
        |c| c.more = |_, report| noted(report, 3, "Buffers overflowed."),
        &[],
        "Capture fewer steps",
    ),
    (
        "profiler-warning",
        |c| c.more = |_, report| noted(report, 2, "CUDA events were dropped."),
        &[],
        "all of its notes",
    ),
    (
        "rank-without-communication",
        |c| {
            c.more = |rank, report| {
                if rank == 1 {
                    // The name of its AllReduce becomes that of a compute kernel.
                    report.without("CUPTI_ACTIVITY_KIND_KERNEL");
                    let main = thread(pid(1), pid(1));
                    (0..10).for_each(|i| {
                        report.kernel(
                            GEMM,
                            stream(7),
                            (10 * i + 1) * MS..(10 * i + 8) * MS,
                            main.at(10 * i * MS + 200),
                        );
                    });
                }
            }
        },
        &[("across", State::Null)],
        "the same step",
    ),
    (
        "nsys-versions-differ",
        |c| {
            c.more = |rank, report| {
                if rank == 1 {
                    report.without("META_DATA_EXPORT");
                    report.export("EXPORT_PRODUCT_VERSION", "2099.1");
                }
            }
        },
        &[],
        "one version",
    ),
    (
        "topology-without-nvlink",
        |c| c.topology = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0\nGPU1\tPIX\t X \t0\n\nLegend:\n\n  PIX  = Connection traversing at most a single PCIe bridge\n",
        &[],
        "nvidia-smi topo -m > topo.txt",
    ),
    (
        "inspector-log-of-another-run",
        |c| {
            // An hour later other processes may have the same ids, and no payload says on which communicator they work.
            c.more = |_, report| report.session(EPOCH + 3_600_000_000_000);
            c.payloads = Payloads::None;
        },
        &[("inspector", State::Null)],
        "logs of the captured run",
    ),
    (
        "nccl-log-of-another-run",
        |c| c.nccl_log.iter_mut().for_each(|line| *line = line.replace("100", "200")),
        &[("transport", State::Weaker)],
        "log of the captured run",
    ),
];

fn noted(report: &mut Report, severity: i64, words: &str) {
    report.row("DIAGNOSTIC_EVENT", &[("severity", severity.into()), ("text", text(words))]);
}

/// Each thing that is taken away gives its finding, with its cost and its advice, and nothing else does: the complete capture has none.
#[test]
fn everything_that_is_missing_is_said_with_its_cost_and_how_to_capture_it() {
    for (id, change, numbers, advice) in MISSING {
        let mut capture = Capture::complete();
        change(&mut capture);
        let view = capture.examine();
        let found: Vec<&doctor::Missing> =
            view.findings.iter().filter(|finding| finding.id.as_str() == *id).collect();
        assert!(!found.is_empty(), "{id}: {:?}", ids(&view));
        for finding in found {
            assert!(finding.advice.contains(advice), "{id}: {}", finding.advice);
            assert!(
                finding.cost.ends_with('.') && finding.cost.len() > 10 && !finding.about.is_empty(),
                "{id}: {finding:#?}"
            );
        }
        for (number, expected) in *numbers {
            assert!(
                view.runs.iter().all(|run| state(run, number) == *expected),
                "{id}: {number}: {:#?}",
                view.runs[0].numbers
            );
        }
        let reasons = view
            .runs
            .iter()
            .flat_map(|run| &run.numbers)
            .filter(|number| number.state != State::Measured);
        for number in reasons {
            assert!(number.why.is_some(), "{id}: {} has no reason", number.id);
        }
    }
}

/// The causes of missing payloads have different cures.
#[test]
fn missing_payloads_are_told_by_their_cause() {
    let advice = |change: fn(&mut Capture)| {
        let mut capture = Capture::complete();
        capture.inspector.clear();
        change(&mut capture);
        let view = capture.examine();
        let finding = view
            .findings
            .into_iter()
            .find(|finding| finding.id.as_str() == "no-payloads")
            .expect("the finding");
        format!("{} {}", finding.title, finding.advice)
    };
    let cases: [(Change, &str); 5] = [
        (
            |c| {
                c.payloads = Payloads::None;
                c.more = |_, report| {
                    report.row(
                        "NVTX_PAYLOAD_SCHEMA_ENTRIES",
                        &[("domainId", 1.into()), ("schemaId", 1.into()), ("idx", 0.into())],
                    );
                };
            },
            "were not exported. Export again (no new capture is needed)",
        ),
        (
            |c| c.payloads = Payloads::None,
            "carry no payloads. Export again (no new capture is needed)",
        ),
        (|c| c.nccl_ranges = false, "although its kernels are"),
        (
            |c| {
                (c.nccl_ranges, c.step) = (false, "");
                c.more = |_, report| {
                    report.row(
                        "META_DATA_CAPTURE",
                        &[("name", text("PROCESS_0:COLLECT_NVTX_TRACE")), ("value", text("false"))],
                    );
                };
            },
            "NVTX was not traced",
        ),
        (
            |c| {
                c.nccl_ranges = false;
                c.more = |_, report| {
                    let filter = [
                        ("name", text("NVTX_OPTIONS:NVTX_DOMAIN_FILTER_STRING")),
                        ("value", text("default")),
                    ];
                    report.row("META_DATA_CAPTURE", &filter);
                };
            },
            "--nvtx-domain-include",
        ),
    ];
    for (change, expected) in cases {
        let found = advice(change);
        assert!(found.contains(expected), "{expected}: {found}");
    }
}

/// What `report` does with the same files: `null` where the examination says so, and only there.
fn agrees(view: &Examination, case: &str) {
    for run in &view.runs {
        let paths: Vec<PathBuf> = run.reports.iter().map(PathBuf::from).collect();
        let list = |paths: &[String]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        let options = Options {
            inspector: list(&run.inspector),
            nccl_logs: list(&run.nccl_logs),
            topology: run.topology.as_ref().map(PathBuf::from),
            ..Options::default()
        };
        let built = crate::support::build_with(&paths, &options);
        assert_eq!(
            built.is_err(),
            run.problem.is_some(),
            "{case} {}: {:?}",
            run.name,
            built.as_ref().err()
        );
        let Ok(built) = built else { continue };
        let report = serde_json::to_value(&built.report).expect("JSON");
        let collectives = report["collectives"].as_array().expect("a list");
        let some = |field: &str| collectives.iter().any(|group| !group[field].is_null());
        let there = |id: &str| state(run, id) != State::Null;
        for (id, found) in [
            ("across", some("transfer_ns")),
            ("bandwidth", some("busbw_gbs")),
            ("inspector", !report["inspector"].is_null()),
            ("transport", !report["transport"].is_null()),
            ("steps", !report["steps"].as_array().expect("a list").is_empty()),
        ] {
            assert_eq!(there(id), found, "{case} {}: {id}: {:#?}", run.name, run.numbers);
        }
        let communicates = run.ranks.iter().any(|rank| rank.comm_kernels > 0);
        let known = !report["summary"]["comm_fraction"].is_null()
            && !has_code(&report, "graph-level-trace");
        let overlap = !report["summary"]["overlap_fraction"].is_null();
        assert_eq!(overlap, known && communicates, "{case} {}", run.name);
        assert_eq!(
            state(run, "shares") == State::Measured,
            overlap || doctor::alone(run),
            "{case} {}",
            run.name
        );
        let ranks: BTreeSet<(u64, String)> = report["ranks"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|rank| {
                (
                    rank["rank"].as_u64().expect("a number"),
                    rank["rank_source"].as_str().expect("a text").to_owned(),
                )
            })
            .collect();
        let said: BTreeSet<(u64, String)> =
            run.ranks.iter().map(|rank| (u64::from(rank.rank), rank.rank_source.label())).collect();
        assert_eq!(ranks, said, "{case} {}", run.name);
        assert_eq!(
            report["settings"]["step_pattern"].as_str(),
            run.steps.pattern.as_deref(),
            "{case} {}",
            run.name
        );
        assert_eq!(
            has_code(&report, "ranks-missing"),
            !run.ranks_missing.is_empty(),
            "{case} {}",
            run.name
        );
        assert_eq!(
            has_code(&report, "captured-apart"),
            run.captured_apart.is_some(),
            "{case} {}",
            run.name
        );
        // Counted and read in full, every kind of row is as many.
        for input in report["inputs"].as_array().expect("a list") {
            let export = view
                .exports
                .iter()
                .find(|export| Some(export.path.as_str()) == input["path"].as_str())
                .expect("the export");
            let rows = &input["capture"]["rows"];
            let counted = [
                ("kernels", export.rows.kernels),
                ("copies", export.rows.copies),
                ("memsets", export.rows.memsets),
            ];
            for (kind, n) in counted
                .into_iter()
                .chain([("ranges", export.rows.ranges), ("graphs", export.rows.graphs)])
            {
                assert_eq!(rows[kind].as_u64(), Some(n), "{case} {}: {kind}", export.path);
            }
        }
    }
}

fn has_code(report: &Value, code: &str) -> bool {
    report["warnings"].as_array().expect("a list").iter().any(|warning| warning["code"] == code)
}

#[test]
fn what_is_said_of_synthetic_captures_is_what_report_does() {
    let mut all: Vec<(&str, Capture)> = vec![("complete", Capture::complete())];
    for (id, change, ..) in MISSING {
        let mut capture = Capture::complete();
        change(&mut capture);
        all.push((id, capture));
    }
    for (id, capture) in all {
        let folder = folder();
        capture.save(folder.path());
        agrees(&examine(folder.path()), id);
    }
}

#[test]
fn what_is_said_of_real_captures_is_what_report_does() {
    let Some(data) = captures() else { return };
    for part in [
        "shm",
        "socket",
        "collectives",
        "graph",
        "onefile",
        "nvlink",
        "nvlink-truth",
        "tensor-parallel",
        "gpumetrics",
    ] {
        let view = doctor::examine(
            &doctor::list(&[data.join(part), data.join("topo/h200_2gpu_nvlink.txt")]),
            || (),
        )
        .expect("usable");
        agrees(&view, part);
    }
}

fn run(args: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nsysnccl"))
        .arg("doctor")
        .args(args)
        .current_dir(folder)
        .output()
        .expect("it runs")
}

fn json(folder: &Path, args: &[&str]) -> Value {
    let output = run(&[args, &["--format", "json"]].concat(), folder);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Pastes a command as it stands on a terminal into a shell.
#[cfg(unix)]
fn paste(command: &str, folder: &Path) -> Output {
    let bin = Path::new(env!("CARGO_BIN_EXE_nsysnccl")).parent().expect("a folder");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    Command::new("sh")
        .args(["-c", command])
        .env("PATH", path)
        .current_dir(folder)
        .output()
        .expect("a shell")
}

/// The commands in the terminal's text, broken over lines as they are.
fn commands(text: &str) -> Vec<String> {
    let mut list: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in text.lines() {
        if line.starts_with("nsysnccl ") {
            list.push(line.to_owned());
        } else if goes_on && let Some(last) = list.last_mut() {
            last.push('\n');
            last.push_str(line);
        }
        goes_on = line.ends_with('\\') && (goes_on || line.starts_with("nsysnccl "));
    }
    list
}

#[cfg(unix)]
#[test]
fn proposed_commands_run_when_they_are_pasted() {
    let mut captures: Vec<(&str, Capture)> = MISSING
        .iter()
        .filter(|(id, ..)| {
            [
                "steps-not-found",
                "steps-by-guess",
                "no-nvtx",
                "no-api-calls",
                "graph-level-trace",
                "rank-unknown",
            ]
            .contains(id)
        })
        .map(|(id, change, ..)| {
            let mut capture = Capture::complete();
            change(&mut capture);
            (*id, capture)
        })
        .collect();
    captures.push(("complete", Capture::complete()));
    captures.push((
        "a hostile name",
        Capture {
            name: |rank| format!("-it's \"my\" $HOME; *run*_{rank}.sqlite"),
            ..Capture::complete()
        },
    ));
    captures.push((
        "many ranks",
        Capture { ranks: (0..12).collect(), world: 12, ..Capture::complete() },
    ));
    for (id, capture) in captures {
        let folder = folder();
        capture.save(folder.path());
        for width in ["60", "1000"] {
            let output = run(&[".", "--width", width], folder.path());
            let text = String::from_utf8(output.stdout).expect("UTF-8");
            let commands = commands(&text);
            assert_eq!(commands.len(), 1, "{id}: {text}");
            let output = paste(&commands[0], folder.path());
            assert!(
                output.status.success() && !output.stdout.is_empty(),
                "{id}: {commands:?}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            assert_eq!(commands[0].contains("_*.sqlite"), id == "many ranks", "{commands:?}");
        }
    }
}

#[cfg(unix)]
#[test]
fn proposed_commands_run_on_the_examples() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/shm");
    let output = run(&["."], &folder);
    let commands = commands(&String::from_utf8(output.stdout).expect("UTF-8"));
    assert_eq!(commands.len(), 3, "{commands:?}");
    assert!(commands[2].starts_with("nsysnccl compare "), "{commands:?}");
    for command in commands {
        let output = paste(&command, &folder);
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Of many runs the numbers are one table, and each run keeps its command.
#[test]
fn many_runs_are_one_table() {
    let names: [fn(u32) -> String; 4] = [
        |rank| format!("a_{rank}.sqlite"),
        |rank| format!("b_{rank}.sqlite"),
        |rank| format!("c_{rank}.sqlite"),
        |rank| format!("d_{rank}.sqlite"),
    ];
    let folder = folder();
    for (steps, name) in (8..).zip(names) {
        Capture { name, steps, inspector: vec![], nccl_log: vec![], ..Capture::complete() }
            .save(folder.path());
    }
    let text = render::print(
        &examine(folder.path()),
        Format::Terminal,
        &Style { width: 120, color: false, full: true },
    );
    for row in ["a        2      8  yes", "d        2     11  yes"] {
        assert!(text.lines().any(|line| line.trim_start().starts_with(row)), "{text}");
    }
    assert_eq!(text.matches("\nnsysnccl report ").count(), 4, "{text}");
    assert!(!text.contains("steps and their time: yes"), "{text}");
}

#[test]
fn a_name_that_cannot_be_printed_gives_no_command() {
    let capture =
        Capture { name: |rank| format!("run\u{1b}[31m_{rank}.sqlite"), ..Capture::complete() };
    let folder = folder();
    capture.save(folder.path());
    let view = examine(folder.path());
    assert_eq!(view.runs[0].command, None);
    let text =
        render::print(&view, Format::Terminal, &Style { width: 100, color: false, full: true });
    assert!(text.contains("so no command is proposed"), "{text}");
}

#[test]
fn exports_of_one_run_in_several_folders_belong_together() {
    let folder = folder();
    let capture = Capture::complete();
    for rank in 0..2 {
        let own = folder.path().join(format!("host{rank}"));
        std::fs::create_dir_all(&own).expect("a folder");
        capture.report(rank).save(&own, "local.sqlite");
    }
    let view = examine(folder.path());
    assert_eq!(view.runs.len(), 1, "{:#?}", view.runs);
    assert_eq!(view.runs[0].ranks.iter().map(|rank| rank.rank).collect::<Vec<_>>(), [0, 1]);
    // Copies are not further ranks.
    std::fs::create_dir_all(folder.path().join("copies")).expect("a folder");
    for rank in 0..2 {
        capture.report(rank).save(&folder.path().join("copies"), &format!("copy_{rank}.sqlite"));
    }
    let copied = examine(folder.path());
    assert!(
        copied.runs.len() == 2
            && copied.runs.iter().all(|run| run.ranks.len() == 2 && run.problem.is_none()),
        "{:#?}",
        copied.runs
    );
    std::fs::remove_dir_all(folder.path().join("copies")).expect("removed");
    // An hour later the same communicator is another capture.
    let mut later = capture.report(0);
    later.session(EPOCH + 3_600_000_000_000);
    later.save(folder.path(), "later.sqlite");
    assert_eq!(examine(folder.path()).runs.len(), 2);
}

#[test]
fn logs_go_to_the_run_that_wrote_them() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    for name in ["a", "b"] {
        std::fs::create_dir_all(at(name)).expect("a folder");
    }
    Capture::complete().save(&at("a"));
    // The same processes, in containers of their own, half an hour later, without payloads.
    let later = |_: u32, report: &mut Report| report.session(EPOCH + 1_800_000_000_000);
    Capture {
        more: later,
        inspector: vec![],
        payloads: Payloads::None,
        topology: "",
        ..Capture::complete()
    }
    .save(&at("b"));
    let view = examine(folder.path());
    let [a, b] = view.runs.as_slice() else { panic!("{:#?}", view.runs) };
    assert_eq!((a.name.as_str(), b.name.as_str()), ("a-run", "b-run"));
    assert_eq!((a.inspector.len(), b.inspector.len()), (2, 0));
    assert_eq!((a.nccl_logs.len(), b.nccl_logs.len()), (1, 1));
    assert!(
        a.nccl_logs[0].contains("/a/") && b.nccl_logs[0].contains("/b/"),
        "{:?} {:?}",
        a.nccl_logs,
        b.nccl_logs
    );
    // The only topology is that of both.
    assert!(a.topology.is_some() && a.topology == b.topology);
    // Another one in neither folder changes nothing for the run that has its own beside it; the other's machine is no longer clear.
    std::fs::write(at("other.txt"), Capture::complete().topology).expect("a matrix");
    let view = examine(folder.path());
    assert!(view.runs[0].topology.is_some() && view.runs[1].topology.is_none(), "{:#?}", view.runs);
    let unclear = view
        .findings
        .iter()
        .find(|finding| finding.id.as_str() == "no-topology")
        .expect("the finding");
    assert!(unclear.title.contains("not clear") && unclear.about == ["b-run"], "{unclear:#?}");
}

#[test]
fn what_cannot_be_used_is_named_and_stops_nothing() {
    let folder = folder();
    Capture::complete().save(folder.path());
    let write =
        |name: &str, text: &[u8]| std::fs::write(folder.path().join(name), text).expect("a file");
    write("cut.sqlite", b"SQLite format 3\0....");
    write("node0-pid9.log", b"");
    write("empty.log", b"");
    write("left.nsys-rep", b"\0\x01nsys");
    write("left.qdstrm", b"\0\x01nsys");
    write("notes.txt", b"lr 0.1\n");
    write("ignored.py", b"print()\n");
    // Exported already.
    write("run_0.nsys-rep", b"\0\x01nsys");
    let mut nothing = Report::default();
    nothing.range(thread(1, 1), "step_0", 0..10);
    nothing.save(folder.path(), "nothing.sqlite");
    let output = run(&[".", "--width", "200"], folder.path());
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success());
    for expected in [
        "4 files that cannot be used · 2 other files",
        "node0-pid9.log: is an empty log of Inspector; it stays empty unless NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS is set",
        "left.nsys-rep: is a report of Nsight Systems, which only nsys itself can read; run: nsys export --type sqlite",
        "left.qdstrm: is a raw capture that was not imported yet",
        "nothing.sqlite: The export holds no GPU work",
        "cut.sqlite: ",
        "Nothing is missing: every number is measured.",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!text.contains("ignored.py") && !text.contains("run_0.nsys-rep"), "{text}");
    let named = run(&["ignored.py", "run_0.sqlite", "gone.sqlite"], folder.path());
    let text = String::from_utf8(named.stdout).expect("UTF-8");
    assert!(
        named.status.success()
            && text.contains("ignored.py: is none of")
            && text.contains("gone.sqlite: there is no such file"),
        "{text}"
    );
}

#[test]
fn exit_statuses() {
    let folder = folder();
    Capture::complete().save(folder.path());
    std::fs::write(folder.path().join("left.nsys-rep"), b"\0nsys").expect("a file");
    std::fs::write(folder.path().join("notes.md"), b"notes").expect("a file");
    std::fs::create_dir(folder.path().join("hollow")).expect("a folder");
    std::fs::create_dir(folder.path().join("words")).expect("a folder");
    std::fs::write(folder.path().join("words/notes.txt"), b"notes").expect("a file");
    let cases: [(&[&str], i32, &str); 8] = [
        (&["run_0.sqlite"], 0, ""),
        (&["run.nccl.log"], 0, ""),
        (&["inspector", "left.nsys-rep"], 0, ""),
        (&["left.nsys-rep"], 3, "only nsys itself can read\n  try: run: nsys export"),
        (
            &["left.nsys-rep", "notes.md"],
            3,
            "nothing in these 2 files can be used: left.nsys-rep: is a report",
        ),
        (&["hollow"], 3, "holds no file that nsysnccl reads"),
        (&["words"], 3, "none of the 1 files there is one that nsysnccl reads"),
        (&[], 2, "required"),
    ];
    for (args, status, error) in cases {
        let output = run(args, folder.path());
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{args:?}: {stderr}");
        assert!(stderr.contains(error), "{args:?}: {stderr}");
        assert_eq!(output.stdout.is_empty(), status != 0, "{args:?}");
    }
    let output = run(
        &[
            "run_*.sqlite",
            "-o",
            "run_0.sqlite.md",
            "-o",
            "all.html",
            "-o",
            "all.json",
            "-o",
            "all.csv",
        ],
        folder.path(),
    );
    assert!(output.status.success() && output.stdout.is_empty());
    let csv = std::fs::read_to_string(folder.path().join("all.csv")).expect("written");
    assert!(
        csv.starts_with("run,ranks,world_size,number,fields,state,why\r\nrun,2,2,steps,steps summary.step_ns,measured,10 steps\r\n"),
        "{csv}"
    );
    // Its own pages may be written again, also those whose ending it looks into.
    for output in ["all.html", "all.json", "all.txt"].repeat(2) {
        assert_eq!(run(&[".", "-o", output], folder.path()).status.code(), Some(0), "{output}");
    }
    for (output, status) in
        [("run.nccl.log", 2), ("inspector/node0-pid1000.log", 2), ("topo.txt", 2)]
    {
        assert_eq!(
            run(&[".", "-o", output], folder.path()).status.code(),
            Some(status),
            "{output}"
        );
    }
}

#[test]
fn the_same_bytes_at_any_number_of_threads_and_in_any_order() {
    let folder = folder();
    Capture { world: 3, ..Capture::complete() }.save(folder.path());
    std::fs::write(folder.path().join("notes.txt"), b"notes").expect("a file");
    for format in ["json", "csv", "terminal", "markdown", "html"] {
        let one = run(
            &[
                "run_0.sqlite",
                "run_1.sqlite",
                "inspector",
                "notes.txt",
                "--format",
                format,
                "--threads",
                "1",
            ],
            folder.path(),
        );
        let two = run(
            &[
                "notes.txt",
                "inspector",
                "run_1.sqlite",
                "run_0.sqlite",
                "--format",
                format,
                "--threads",
                "2",
            ],
            folder.path(),
        );
        assert!(
            one.status.success() && one.stdout == two.stdout && !one.stdout.is_empty(),
            "{format}"
        );
    }
}

#[test]
fn the_document_has_the_fields_of_its_contract() {
    let folder = folder();
    Capture { world: 4, inspector: vec![], ..Capture::complete() }.save(folder.path());
    let json = json(folder.path(), &["."]);
    assert_eq!(
        (json["schema"].as_str(), json["runs"][0]["ranks_missing"].to_string()),
        (Some("nsysnccl.doctor/1"), "[2,3]".to_owned())
    );
    for path in [
        "/tool_version",
        "/runs/0/steps/pattern",
        "/runs/0/numbers/0/state",
        "/runs/0/command/0",
        "/runs/0/ranks/0/rank_source",
        "/exports/0/rows/comm_kernels",
        "/exports/0/gpus/NVIDIA H200",
        "/nccl_logs/0/connections",
        "/topologies/0/gpus",
        "/findings/0/id",
        "/findings/0/severity",
        "/findings/0/title",
        "/findings/0/cost",
        "/findings/0/advice",
        "/findings/0/about/0",
        "/unusable",
    ] {
        assert!(json.pointer(path).is_some_and(|value| !value.is_null()), "{path}");
    }
}

#[test]
fn secrets_of_the_environment_are_not_printed() {
    let view = Capture::complete().examine();
    for format in [Format::Terminal, Format::Markdown, Format::Html, Format::Json, Format::Csv] {
        let text = render::print(&view, format, &Style { width: 200, color: false, full: true });
        assert!(!text.contains("hunter2") && !text.contains("AWS_SECRET"), "{format:?}");
    }
}

/// Names, hosts, kernels and notes of a hostile capture steer neither a terminal nor a page.
#[test]
fn hostile_names_are_harmless_everywhere() {
    let capture = Capture {
        name: |rank| format!("<img src=x onerror=alert(1)>`|\u{1b}[2J\u{202e}_{rank}.sqlite"),
        step: "step <script>\u{1b}[31m",
        more: |rank, report| {
            report.without("TARGET_INFO_SYSTEM_ENV");
            report.system("Hostname", "<b>host\u{1b}]0;x\u{7}");
            report.gpu(5, "<i>GPU\u{9b}31m", pid(rank), 5);
            report.kernel(
                "nccl<script>\u{1b}[0m",
                stream(7),
                MS..2 * MS,
                thread(pid(rank), pid(rank)).at(30),
            );
            noted(report, 3, "<script>alert(1)</script>\u{1b}[1m");
        },
        ..Capture::complete()
    };
    let folder = folder();
    capture.save(folder.path());
    std::fs::write(folder.path().join("<u>\u{1b}.txt"), b"x").expect("a file");
    let view = examine(folder.path());
    for format in [Format::Terminal, Format::Markdown, Format::Html, Format::Json, Format::Csv] {
        for width in [40, 80, 160] {
            let text = render::print(&view, format, &Style { width, color: false, full: true });
            let steering = |c: char| (c.is_control() && c != '\n' && c != '\r') || c == '\u{202e}';
            assert!(
                !text.contains(steering),
                "{format:?}: {:?}",
                text.lines().find(|line| line.contains(steering))
            );
            if matches!(format, Format::Html | Format::Markdown) {
                assert!(
                    !["<img", "<script>alert", "<b>host", "<i>GPU", "<u>"]
                        .iter()
                        .any(|tag| text.contains(tag)),
                    "{format:?}: {text}"
                );
            }
        }
    }
}

#[test]
fn lines_fit_the_terminal() {
    use unicode_width::UnicodeWidthStr;
    let mut capture = Capture { world: 4, inspector: vec![1], ..Capture::complete() };
    capture.steps = 4;
    let folder = folder();
    capture.save(folder.path());
    for width in [40, 80, 160] {
        let text =
            String::from_utf8(run(&[".", "--width", &width.to_string()], folder.path()).stdout)
                .expect("UTF-8");
        for line in text.lines() {
            assert!(line.width() <= width, "{width}: {line}");
        }
    }
}

#[test]
fn an_incomplete_capture_at_80_columns() {
    let folder = folder();
    let capture = Capture {
        world: 4,
        steps: 4,
        payloads: Payloads::None,
        inspector: vec![],
        topology: "",
        more: |_, report| noted(report, 3, "CUPTI buffers overflowed."),
        ..Capture::complete()
    };
    capture.save(folder.path());
    std::fs::write(folder.path().join("left.nsys-rep"), b"\0nsys").expect("a file");
    let output = run(&[".", "--width", "80"], folder.path());
    // Sizes of files depend on the build of SQLite.
    insta::assert_snapshot!(String::from_utf8(output.stdout).expect("UTF-8"));
}

// The clock of the second machine is three hours ahead: the communicator says that it is one run.
#[test]
fn clocks_that_are_hours_apart_are_no_two_runs() {
    let mut capture = Capture::complete();
    capture.more = |rank, report| {
        report.without("TARGET_INFO_SYSTEM_ENV");
        report.system("Hostname", &format!("node{rank}"));
        report.session(EPOCH + i64::from(rank) * 3 * 3_600_000_000_000);
    };
    let folder = folder();
    capture.save(folder.path());
    let view = examine(folder.path());
    assert_eq!(view.runs[0].captured_apart, None);
    assert_eq!(state(&view.runs[0], "across"), State::Measured);
    let built = crate::support::build_with(
        &[folder.path().join("run_0.sqlite"), folder.path().join("run_1.sqlite")],
        &Options::default(),
    );
    let codes: Vec<String> =
        built.expect("a report").report.warnings.iter().map(|w| w.code.to_string()).collect();
    assert_eq!(codes, ["clocks-apart"]);
}

// The second rank runs on another machine in a process of the same number; only the first machine's log is here.
#[test]
fn a_log_of_another_machine_is_not_of_the_process_with_its_number() {
    let mut capture = Capture { inspector: vec![1], ..Capture::complete() };
    capture.more = |rank, report| {
        report.without("TARGET_INFO_SYSTEM_ENV");
        report.system("Hostname", &format!("node{}", 1 - rank));
        if rank == 0 {
            // The process of rank 0 gets the number of rank 1's, on node1.
            *report = Capture::complete().report(1);
            report.without("META_DATA_CAPTURE");
            report.env("RANK", "0");
            report.without("TARGET_INFO_SYSTEM_ENV");
            report.system("Hostname", "node1");
        }
    };
    let view = capture.examine();
    let missing = view
        .findings
        .iter()
        .find(|finding| finding.id.as_str() == "inspector-log-missing")
        .expect("a finding");
    assert_eq!(missing.title, "There is no Inspector log of rank 0, although there is of others.");
}

// Rank 0 holds steps 0 to 9, rank 1 steps 4 to 13: six are the same.
#[test]
fn steps_are_those_that_every_rank_has() {
    let steps = |shift: fn(u32) -> i64| {
        let view = Capture { shift, ..Capture::complete() }.examine();
        let steps = view.runs[0].steps.clone();
        (steps.count, steps.on_some_ranks, steps.first)
    };
    assert_eq!(steps(|rank| 4 * i64::from(rank)), (Some(6), 8, Some("step_4".to_owned())));
    // None is the same, and they run at the same time: a report pairs them by that.
    assert_eq!(steps(|rank| 40 * i64::from(rank)), (Some(10), 0, Some("step_0".to_owned())));
}

// A pipeline in a default export: kernels that send are there, and nothing says to whom.
#[test]
fn sends_without_payloads_are_not_said_to_be_measured() {
    let waits = |payloads: Payloads| {
        let mut capture = Capture { payloads, inspector: vec![], ..Capture::complete() };
        capture.more = |rank, report| {
            let main = thread(pid(rank), pid(rank));
            report.kernel(
                "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<(unsigned long)4096>)",
                stream(11),
                2 * MS..3 * MS,
                main.at(200),
            );
        };
        let view = capture.examine();
        let costs = view.findings.iter().any(|finding| {
            finding.id.as_str() == "no-payloads" && finding.numbers.contains(&"across")
        });
        (view.runs[0].ranks[0].send_kernels, state(&view.runs[0], "across"), costs)
    };
    assert_eq!(waits(Payloads::None), (1, State::Weaker, true));
    assert_eq!(waits(Payloads::Json), (1, State::Measured, false));
}

// Nothing says which two of four ranks these are.
#[test]
fn ranks_by_order_are_not_said_to_be_missing() {
    let capture = Capture {
        rank_in_environment: false,
        name: |rank| format!("run_{}.sqlite", ["a", "b"][rank as usize]),
        world: 4,
        nccl_log: vec![],
        ..Capture::complete()
    };
    let view = capture.examine();
    assert!(view.runs[0].ranks_missing.is_empty());
    let missing = view
        .findings
        .iter()
        .find(|finding| finding.id.as_str() == "ranks-missing")
        .expect("a finding");
    assert_eq!(missing.title, "The run has 4 ranks; 2 are here, and nothing says which.");
    assert_eq!(
        (state(&view.runs[0], "across"), state(&view.runs[0], "bandwidth")),
        (State::Weaker, State::Null)
    );
}

// A rank that communicates is not alone, whether or not anything says how many there are.
#[test]
fn one_rank_that_communicates_lacks_the_others() {
    let mut capture =
        Capture { ranks: vec![0], inspector: vec![], nccl_log: vec![], ..Capture::complete() };
    capture.more = |_, report| report.without("META_DATA_CAPTURE");
    let view = capture.examine();
    let missing = view
        .findings
        .iter()
        .find(|finding| finding.id.as_str() == "ranks-missing")
        .expect("a finding");
    assert_eq!(missing.title, "One rank is here, and it communicates: others are not.");
    let bandwidth =
        view.runs[0].numbers.iter().find(|number| number.id == "bandwidth").expect("a number");
    assert_eq!(
        bandwidth.why.as_deref(),
        Some("only one rank that communicates: nothing to match it with")
    );
}

// `nsysnccl compare -o=...` would write a file, and `./-o=...` name one.
#[test]
fn a_run_whose_name_is_an_option_is_not_compared() {
    let compared = |name: fn(u32) -> String| {
        let folder = folder();
        for (name, step) in
            [(name, 0), ((|rank| format!("run_{rank}.sqlite")) as fn(u32) -> String, 3)]
        {
            let mut capture = Capture { name, steps: 10 + step, ..Capture::complete() };
            capture.more = |rank, report| report.session(EPOCH + i64::from(rank));
            capture.save(folder.path());
        }
        examine(folder.path()).compare_command.is_some()
    };
    assert!(compared(|rank| format!("b_{rank}.sqlite")));
    assert!(!compared(|rank| format!("-o_{rank}.sqlite")));
}

// Neither steps nor ranks are clear: a command that names a step would fail, too.
#[test]
fn no_command_is_proposed_that_would_fail() {
    let mut capture = Capture { step: "", steps: 1, ..Capture::complete() };
    capture.more = |rank, report| {
        report.range(thread(pid(rank), pid(rank)), "all of it", 0..95 * MS);
        report.without("META_DATA_CAPTURE");
        report.env("RANK", "0");
    };
    let view = capture.examine();
    assert_eq!(view.runs[0].command, None);
    assert!(
        ["steps-not-found", "report-fails"].iter().all(|id| ids(&view).contains(id)),
        "{:?}",
        ids(&view)
    );
}
