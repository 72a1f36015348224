//! Files that are made to break the program, and outputs that cannot be written: each ends with a number or with an error
//! that names the file, soon, in little memory, and leaves nothing half-written behind.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::report::{Report, stream, text, thread};
use rusqlite::Connection;

/// Longer than any of these takes, even in a slow build.
const PATIENCE: Duration = Duration::from_secs(60);

const ALL_REDUCE: &str =
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)";

fn program(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nsysnccl"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command
}

/// Runs to the end, and fails where there is none.
#[track_caller]
fn run(mut command: Command) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("runs");
    let (id, started) = (child.id(), Instant::now());
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    match receiver.recv_timeout(PATIENCE) {
        Ok(output) => output.expect("output"),
        Err(_) => {
            let _ = Command::new("kill").arg("-9").arg(id.to_string()).status();
            panic!("no end after {:?}: {command:?}", started.elapsed())
        }
    }
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// An error: the exit status, nothing on standard output, and on standard error every one of `words`.
#[track_caller]
fn assert_refused(output: &Output, status: i32, words: &[&str]) {
    let error = said(&output.stderr);
    let found = (output.status.code(), said(&output.stdout));
    assert_eq!(found, (Some(status), String::new()), "{error}");
    for word in words {
        assert!(error.contains(word), "'{word}' is not in: {error}");
    }
}

/// Steps of one process, each with a kernel: `[1000, 1100)`, `[2000, 2100)`, ...
fn steps(names: &[&str]) -> Report {
    let mut report = Report::default();
    let main = thread(7, 7);
    for (i, name) in names.iter().enumerate() {
        let at = 1000 * (i as i64 + 1);
        report.range(main, name, at - 500..at + 400);
        report.kernel("gemm", stream(7), at..at + 100, main.at(at - 400));
        report.kernel(ALL_REDUCE, stream(20), at + 50..at + 300, main.at(at - 350));
        report.memset(10, stream(7), at + 300..at + 310, main.at(at - 300));
    }
    report
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Puts `levels` inner pages over the only page of `table`, each of which names the next one 61 times:
///
/// ```text
/// root -> page, page, .. (61 times the same) -> page, page, .. -> ... -> the rows
/// ```
fn make_endless(path: &Path, table: &str, levels: usize) {
    const PAGE: usize = 512;
    let connection = Connection::open(path).expect("opens");
    let root: u32 = connection
        .query_row("SELECT rootpage FROM sqlite_master WHERE name = ?1", [table], |row| row.get(0))
        .expect("a table");
    drop(connection);
    let root = root as usize;
    let mut file = std::fs::read(path).expect("read");
    let page = |at: usize| (at - 1) * PAGE..at * PAGE;
    assert_eq!(file[page(root)][0], 13, "the root of {table} holds the rows");
    let rows = file[page(root)].to_vec();
    file.extend(rows);
    let inner = |child: u32| {
        let mut page = vec![0; PAGE];
        page[0] = 5;
        page[3..5].copy_from_slice(&60_u16.to_be_bytes());
        page[8..12].copy_from_slice(&child.to_be_bytes());
        let mut at = PAGE;
        for cell in 0..60 {
            at -= 5;
            page[at..at + 4].copy_from_slice(&child.to_be_bytes());
            page[at + 4] = cell as u8 + 1;
            page[12 + 2 * cell..14 + 2 * cell].copy_from_slice(&(at as u16).to_be_bytes());
        }
        page[5..7].copy_from_slice(&(at as u16).to_be_bytes());
        page
    };
    for _ in 1..levels {
        let child = file.len() / PAGE;
        file.extend(inner(child as u32));
    }
    let child = file.len() / PAGE;
    file[page(root)].copy_from_slice(&inner(child as u32));
    file[28..32].copy_from_slice(&(child as u32).to_be_bytes());
    std::fs::write(path, file).expect("written");
}

#[test]
fn a_table_whose_pages_name_each_other_is_damage() {
    let folder = crate::support::folder();
    for table in [
        "CUPTI_ACTIVITY_KIND_MEMSET",
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        "CUPTI_ACTIVITY_KIND_KERNEL",
        "NVTX_EVENTS",
        "DIAGNOSTIC_EVENT",
    ] {
        for levels in [3, 12] {
            let path = folder.path().join("run_0.sqlite");
            let connection = Connection::open(&path).expect("a new file");
            connection.execute_batch("PRAGMA page_size = 512").expect("set");
            let mut report = steps(&["step 1"]);
            report.row("DIAGNOSTIC_EVENT", &[("severity", 3.into()), ("text", text("lost"))]);
            report.write(&connection).expect("a report");
            drop(connection);
            make_endless(&path, table, levels);
            for command in ["report", "doctor"] {
                let output = run(program(folder.path(), &[command, "run_0.sqlite"]));
                assert_refused(&output, 3, &["run_0.sqlite: is damaged", "try: export"]);
            }
            std::fs::remove_file(path).expect("removed");
        }
    }
}

#[test]
fn virtual_tables_in_place_of_tables_are_refused() {
    let folder = crate::support::folder();
    for (table, module) in [
        ("CUPTI_ACTIVITY_KIND_MEMSET", "fts4(start, \"end\", content='v')"),
        ("CUPTI_ACTIVITY_KIND_MEMSET", "fts5(start, \"end\", content='v', content_rowid='rowid')"),
        ("NVTX_EVENTS", "rtree(id, start, \"end\")"),
        ("EXPORT_META_DATA", "fts5(name, value)"),
        ("nvtx_events", "fts5(text)"),
    ] {
        let path = steps(&["step 1", "step 2"]).save(folder.path(), "run_0.sqlite");
        let endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS rowid, x AS start, x + 1 AS \"end\" FROM n";
        let sql = format!(
            "DROP TABLE IF EXISTS {table}; CREATE VIEW v AS {endless}; CREATE VIRTUAL TABLE {table} USING {module}"
        );
        Connection::open(&path).expect("opens").execute_batch(&sql).expect("is SQL");
        for command in ["report", "doctor"] {
            let output = run(program(folder.path(), &[command, "run_0.sqlite"]));
            assert_refused(
                &output,
                3,
                &["run_0.sqlite: holds a virtual table", table, "try: export"],
            );
        }
        std::fs::remove_file(path).expect("removed");
    }
}

#[test]
fn a_database_that_is_being_written_to_is_locked() {
    let folder = crate::support::folder();
    let path = steps(&["step 1", "step 2", "step 3"]).save(folder.path(), "run_0.sqlite");
    let writer = Connection::open(&path).expect("opens");
    let change = "PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE; DELETE FROM NVTX_EVENTS";
    writer.execute_batch(change).expect("changes");
    for command in ["report", "doctor"] {
        let output = run(program(folder.path(), &[command, "run_0.sqlite"]));
        assert_refused(&output, 3, &["run_0.sqlite: is locked", "try: wait"]);
    }
    writer.execute_batch("ROLLBACK").expect("rolls back");
    drop(writer);
    let output = run(program(folder.path(), &["report", "run_0.sqlite"]));
    assert_eq!(output.status.code(), Some(0), "{}", said(&output.stderr));
}

#[test]
fn a_database_that_grows_while_it_is_read_is_said_to() {
    use nsysnccl::internals::ingest::nsys::{db::Db, queries};
    let folder = crate::support::folder();
    let path = steps(&["step 1", "step 2", "step 3"]).save(folder.path(), "run_0.sqlite");
    let kernels = queries::ALL.iter().find(|query| query.name == "read/kernels").expect("a query");
    let db = Db::open(&path).expect("opens");
    assert_eq!(db.each(*kernels, [], |_| ()).expect("rows"), 6);
    let mut file = std::fs::read(&path).expect("read");
    file.extend([0; 4096]);
    std::fs::write(&path, file).expect("written");
    let error = db.each(*kernels, [], |_| ()).expect_err("changed");
    assert_eq!(error.fact, "was changed while it was read");
}

#[cfg(unix)]
#[test]
fn pipes_sockets_and_devices_are_refused_for_every_kind_of_input() {
    let folder = crate::support::folder();
    steps(&["step 1", "step 2"]).save(folder.path(), "run_0.sqlite");
    assert!(
        Command::new("mkfifo").arg(folder.path().join("fifo")).status().expect("runs").success()
    );
    let _socket =
        std::os::unix::net::UnixListener::bind(folder.path().join("socket")).expect("a socket");
    for (path, what) in [("fifo", "a pipe"), ("socket", "a socket"), ("/dev/zero", "a device")] {
        for arguments in [
            &["report", path][..],
            &["report", "run_0.sqlite", "--nccl-log", path],
            &["report", "run_0.sqlite", "--topo", path],
            &["report", "run_0.sqlite", "--inspector", path],
            &["compare", "--manifest", path],
            &["compare", "run_0.sqlite", path],
            &["report", "run_0.sqlite", "--npkit", path],
            &["npkit", path],
            &["inspect", path],
            &["doctor", path],
        ] {
            let output = run(program(folder.path(), arguments));
            assert_refused(&output, 3, &[path, what.trim_start_matches("a "), "try: save it"]);
        }
    }
}

#[test]
fn folders_without_end_are_not_searched_without_end() {
    let folder = crate::support::folder();
    let mut deep = folder.path().join("deep");
    (0..150).for_each(|_| deep.push("d"));
    std::fs::create_dir_all(&deep).expect("made");
    for command in ["doctor", "inspect"] {
        let output = run(program(folder.path(), &[command, "deep"]));
        assert_refused(&output, 3, &["is more than 100 folders deep", "try: name the folder"]);
    }
}

/// Logs of many hosts or with many communicators are read line by line, and a line does not look at all before it.
#[test]
fn logs_with_very_many_hosts_or_communicators_take_no_longer_a_line() {
    use std::fmt::Write;
    let (mut hosts, mut comms) = (String::new(), String::new());
    for i in 0..80_000 {
        let line = |host: &str, at: u32| {
            format!(
                "{host}:1:1 [0] NCCL INFO ncclCommInitRank comm 0x{at:x} rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1a000 commId 0x{at:x} - Init COMPLETE\n\
                 {host}:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
            )
        };
        write!(hosts, "{}", line(&format!("node{i:05}x"), 10)).expect("written");
        write!(comms, "{}", line("h", 10 + i)).expect("written");
    }
    let started = Instant::now();
    let hosts = nsysnccl::internals::ingest::nccl_log::parse(hosts.as_bytes()).expect("read");
    assert_eq!(hosts.processes.len(), 80_000);
    let comms = nsysnccl::internals::ingest::nccl_log::parse(comms.as_bytes()).expect("read");
    assert_eq!(comms.processes.len(), 1);
    assert_eq!(comms.processes[0].comms.len(), 80_000);
    let facts = nsysnccl::internals::transport::Facts::new(std::slice::from_ref(&comms), None);
    assert_eq!(facts.view().communicators.len(), 80_000);
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
}

/// A secret for each place, and the kinds of text that hold it.
const SECRET: &str = "Hunter2Hunter2";

fn with_secrets() -> [String; 7] {
    [
        format!("HF_TOKEN={SECRET} python"),
        format!("train.py --api-key {SECRET} --lr 1"),
        format!("https://me:{SECRET}@host/"),
        format!("https://host/?sig={SECRET}"),
        format!("Authorization: Bearer {SECRET}"),
        format!("{{\"password\": \"{SECRET}\"}}"),
        format!("ghp_{SECRET}"),
    ]
}

#[test]
fn secrets_are_hidden_in_every_place_and_every_format() {
    let folder = crate::support::folder();
    let at = |name: &str| folder.path().join(name);
    for (n, secret) in with_secrets().iter().enumerate() {
        for run in ["a", "b"] {
            let texts = [1, 2, 3].map(|step| format!("step {step} {secret}"));
            let mut report = steps(&texts.each_ref().map(String::as_str));
            // The short name is what stands behind the last colon or blank, where nothing tells what it is.
            if !secret.contains([':', ' ']) {
                report.kernel(secret, stream(7), 5000..5100, thread(7, 7).at(2600));
            }
            report.env("NCCL_DEBUG_FILE", secret);
            report.env(&format!("NCCL_{secret}"), "1");
            report.env("RANK", "0");
            report.system("Hostname", &format!("host {secret}"));
            for severity in [2, 3] {
                let row =
                    [("severity", severity.into()), ("text", text(&format!("noted {secret}")))];
                report.row("DIAGNOSTIC_EVENT", &row);
            }
            report.save(folder.path(), &format!("{run}{n}_0.sqlite"));
        }
        let log = format!(
            "h:7:7 [0] NCCL INFO NCCL version 2.28.9+{secret}\n\
             h:7:7 [0] net.cc:5 NCCL WARN failed {secret}\n\
             h:7:7 [0] NCCL INFO NCCL_DEBUG_FILE set by environment to {secret}.\n\
             h:7:7 [0] NCCL INFO Using network {secret}\n"
        );
        std::fs::write(at("n.log"), log).expect("written");
        let header = serde_json::json!({
            "header": {"id": secret, "rank": 0, "n_ranks": 2, "nnodes": 1},
            "metadata": {"inspector_output_format_version": "v4.0", "dump_timestamp_us": 1_700_000_000_000_000_i64, "hostname": secret, "pid": 7},
            "coll_perf": {"coll": secret, "coll_sn": 1, "coll_msg_size_bytes": 64, "coll_exec_time_us": 5},
        });
        std::fs::write(at("i.log"), format!("{header}\n{{\"header\": {header}, \"x\": {secret}\n"))
            .expect("written");
        let (a, b) = (format!("a{n}_0.sqlite"), format!("b{n}_0.sqlite"));
        for command in [
            &["report", &a, "-v", "--nccl-log", "n.log", "--inspector", "i.log"][..],
            &["report", &a, "--step", "none"],
            &["compare", &a, &b, "-v"],
            &["inspect", "i.log"],
            &["doctor", &a, "n.log", "i.log"],
        ] {
            for format in ["terminal", "markdown", "html", "json", "csv"] {
                let output =
                    run(program(folder.path(), &[command, &["--format", format]].concat()));
                let all = said(&output.stdout) + &said(&output.stderr);
                assert!(!all.contains(SECRET), "{secret}: {command:?} {format}: {all}");
            }
        }
    }
}

#[test]
fn outputs_appear_all_or_none() {
    let folder = crate::support::folder();
    let at = |name: &str| folder.path().join(name);
    steps(&["step 1", "step 2"]).save(folder.path(), "run_0.sqlite");
    std::fs::write(at("old.md"), "old").expect("written");
    let before = names(folder.path());
    for bad in ["a.html/", "none/a.html", "old.md/a.html"] {
        let arguments = ["report", "run_0.sqlite", "-o", "old.md", "-o", "new.json", "-o", bad];
        assert_refused(&run(program(folder.path(), &arguments)), 3, &[bad, "try: "]);
        assert_eq!(names(folder.path()), before);
        assert_eq!(std::fs::read(at("old.md")).expect("read"), b"old");
    }
    let arguments = ["report", "run_0.sqlite", "-o", "new.json", "-o", "old.md", "-o", "-"];
    let output = run(program(folder.path(), &arguments));
    assert!(output.status.success());
    assert!(said(&output.stdout).contains("2 steps"), "{}", said(&output.stdout));
    let told = said(&output.stderr);
    let is_told = told.starts_with("wrote new.json (") && told.contains("old.md (");
    assert!(is_told && told.lines().count() == 1, "{told}");
    assert_eq!(names(folder.path()), ["new.json", "old.md", "run_0.sqlite"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_or_a_limit_of_size_leaves_nothing_behind() {
    let folder = crate::support::folder();
    steps(&["step 1", "step 2"]).save(folder.path(), "run_0.sqlite");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("opens");
    let mut command = program(folder.path(), &["report", "run_0.sqlite", "-o", "a.md", "-o", "-"]);
    let mut child = command.stdout(full).stderr(Stdio::null()).spawn().expect("runs");
    assert_eq!(child.wait().expect("ends").code(), Some(3));
    assert_eq!(names(folder.path()), ["run_0.sqlite"]);
    // Reports are longer than 8 blocks.
    let mut command = Command::new("sh");
    let script = format!(
        "ulimit -f 8; exec '{}' report run_0.sqlite -o a.md -o a.html",
        env!("CARGO_BIN_EXE_nsysnccl")
    );
    command.args(["-c", &script]).current_dir(folder.path());
    assert_refused(&run(command), 3, &["a.md: cannot be written", "File too large"]);
    assert_eq!(names(folder.path()), ["run_0.sqlite"]);
}

/// The second output is a pipe that nobody reads, so the program waits with the first one complete beside its place.
#[cfg(unix)]
#[test]
fn a_signal_leaves_no_temporary_file() {
    use std::os::unix::process::ExitStatusExt;
    let folder = crate::support::folder();
    steps(&["step 1", "step 2"]).save(folder.path(), "run_0.sqlite");
    assert!(
        Command::new("mkfifo").arg(folder.path().join("b.md")).status().expect("runs").success()
    );
    for (name, number) in [("INT", 2), ("TERM", 15)] {
        let arguments = ["report", "run_0.sqlite", "-o", "a.md", "-o", "b.md"];
        let mut command = program(folder.path(), &arguments);
        let mut child = command.stdout(Stdio::null()).spawn().expect("runs");
        let started = Instant::now();
        while names(folder.path()).len() < 3 {
            assert!(started.elapsed() < PATIENCE, "nothing is written");
            std::thread::sleep(Duration::from_millis(10));
        }
        let kill = Command::new("kill").args(["-s", name, &child.id().to_string()]).status();
        assert!(kill.expect("runs").success());
        assert_eq!(child.wait().expect("ends").signal(), Some(number));
        assert_eq!(names(folder.path()), ["b.md", "run_0.sqlite"], "{name}");
    }
}

/// A saved report that somebody planted secrets in, a topology and a manifest with some, and names of processes.
#[test]
fn secrets_in_saved_reports_topologies_and_manifests_are_hidden() {
    let folder = crate::support::folder();
    let at = |name: &str| folder.path().join(name);
    let good = "GPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV18\t0-7\nGPU1\tNV18\t X \t0-7\n";
    for secret in with_secrets() {
        let mut report = steps(&["step 1", "step 2", "step 3"]);
        report.system("Hostname", "planted");
        report.row("PROCESSES", &[("pid", 7.into()), ("name", text(&format!("x {secret}")))]);
        report.save(folder.path(), "run_0.sqlite");
        let saved = run(program(folder.path(), &["report", "run_0.sqlite", "--format", "json"]));
        let saved = said(&saved.stdout);
        assert!(saved.contains("planted") && saved.contains("gemm"));
        let quoted = serde_json::Value::String(secret.clone()).to_string();
        let bare = quoted.trim_matches('"');
        let planted = saved.replace("planted", bare).replace("gemm", bare).replace("step 2", bare);
        std::fs::write(at("a.json"), &planted).expect("written");
        std::fs::write(at("b.json"), &planted).expect("written");
        std::fs::write(at("topo.txt"), good.replace("0-7", &secret)).expect("written");
        std::fs::write(at("set.toml"), format!("[[variant]]\nname = '{secret}'\nreports = 'x'\n"))
            .expect("written");
        for command in [
            &["compare", "a.json", "b.json", "-v"][..],
            &["report", "run_0.sqlite", "--topo", "topo.txt", "-v"],
            &["compare", "--manifest", "set.toml"],
            &["doctor", "run_0.sqlite", "topo.txt", "a.json"],
        ] {
            for format in ["terminal", "markdown", "html", "json", "csv"] {
                let output = run(program(
                    folder.path(),
                    &[command, &["--full", "--format", format]].concat(),
                ));
                let all = said(&output.stdout) + &said(&output.stderr);
                assert!(!all.contains(SECRET), "{secret}: {command:?} {format}: {all}");
            }
        }
        std::fs::remove_file(at("run_0.sqlite")).expect("removed");
    }
}

/// `report | head -1` ends without a word, like other programs.
#[cfg(unix)]
#[test]
fn a_closed_pipe_is_no_error() {
    let folder = crate::support::folder();
    steps(&["step 1", "step 2", "step 3"]).save(folder.path(), "run_0.sqlite");
    let bin = env!("CARGO_BIN_EXE_nsysnccl");
    for what in ["report run_0.sqlite --format html", "doctor run_0.sqlite --full", "man report"] {
        let script = format!("{{ '{bin}' {what}; echo $? >status; }} | head -c 1 >/dev/null");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).current_dir(folder.path());
        let output = run(shell);
        assert_eq!(said(&output.stderr), "", "{what}");
        assert_eq!(std::fs::read(folder.path().join("status")).expect("read"), b"0\n", "{what}");
    }
}

/// Where memory runs out the program ends, and no output is half-written.
#[cfg(target_os = "linux")]
#[test]
fn a_limit_of_memory_leaves_nothing_behind() {
    let folder = crate::support::folder();
    steps(&["step 1", "step 2", "step 3"]).save(folder.path(), "run_0.sqlite");
    let under = |kib: u64| {
        let script = format!(
            "ulimit -c 0; ulimit -d {kib}; exec '{}' report run_0.sqlite --threads 2 -o a.md -o a.json",
            env!("CARGO_BIN_EXE_nsysnccl")
        );
        let mut shell = Command::new("sh");
        // A backtrace needs memory, too.
        shell.args(["-c", &script]).env("RUST_BACKTRACE", "1").current_dir(folder.path());
        run(shell)
    };
    for kib in [1_000, 2_000, 4_000, 8_000, 16_000, 32_000] {
        let output = under(kib);
        if output.status.success() {
            break;
        }
        // It was ended, or it said what it could not get; nothing is there either way.
        assert_eq!(names(folder.path()), ["run_0.sqlite"], "{kib} kiB: {}", said(&output.stderr));
    }
    let _ = std::fs::remove_file(folder.path().join("a.md"));
    let output = under(300_000);
    assert!(output.status.success(), "{}", said(&output.stderr));
    assert_eq!(names(folder.path()), ["a.json", "a.md", "run_0.sqlite"]);
}

/// Files are opened one after the other, a few for each thread at a time.
#[cfg(unix)]
#[test]
fn many_files_need_few_handles() {
    let folder = crate::support::folder();
    let log = "h:7:7 [0] NCCL INFO NCCL version 2.28.9+cuda13.0\n";
    for i in 0..400 {
        std::fs::write(folder.path().join(format!("n{i}.nccl.log")), log).expect("written");
    }
    for rank in 0..60 {
        let path = steps(&["step 1"]).save(folder.path(), &format!("run_{rank}.sqlite"));
        assert!(path.exists());
    }
    let bin = env!("CARGO_BIN_EXE_nsysnccl");
    let script = format!("ulimit -n 48; exec '{bin}' doctor . --threads 2 --format json");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).current_dir(folder.path());
    let output = run(shell);
    let view: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    assert_eq!(view["exports"].as_array().map(Vec::len), Some(60));
    assert_eq!(view["nccl_logs"].as_array().map(Vec::len), Some(400));
    assert_eq!(view["unusable"].as_array().map(Vec::len), Some(0));
}

/// Two programs that write one file at once: it is the whole output of one of them.
#[test]
fn two_writers_of_one_file_leave_a_whole_one() {
    let folder = crate::support::folder();
    steps(&["step 1", "step 2", "step 3"]).save(folder.path(), "run_0.sqlite");
    let start = || {
        let mut command =
            program(folder.path(), &["report", "run_0.sqlite", "-o", "a.json", "-o", "a.html"]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("runs")
    };
    let children: Vec<_> = (0..4).map(|_| start()).collect();
    for mut child in children {
        assert!(child.wait().expect("ends").success());
    }
    assert_eq!(names(folder.path()), ["a.html", "a.json", "run_0.sqlite"]);
    let json = std::fs::read(folder.path().join("a.json")).expect("read");
    assert!(serde_json::from_slice::<serde_json::Value>(&json).is_ok());
}

/// More step ranges than a report can hold are refused before anything is made of them, by `doctor` too.
#[test]
fn very_many_steps_are_refused() {
    let folder = crate::support::folder();
    let path = steps(&["step 1"]).save(folder.path(), "run_0.sqlite");
    let connection = Connection::open(&path).expect("opens");
    let many = "PRAGMA synchronous = OFF;
        INSERT INTO NVTX_EVENTS (start, \"end\", eventType, text, globalTid, domainId)
        WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 260000)
        SELECT 10000 + 10 * x, 10005 + 10 * x, 59, 'step ' || x, globalTid, 0
        FROM n, (SELECT globalTid FROM NVTX_EVENTS WHERE text = 'step 1')";
    connection.execute_batch(many).expect("is SQL");
    drop(connection);
    let words = ["means 260,001 steps", "more than the 250,000", "try: name longer steps"];
    assert_refused(&run(program(folder.path(), &["report", "run_0.sqlite"])), 3, &words);
    let output = run(program(folder.path(), &["doctor", "run_0.sqlite", "--format", "json"]));
    let view: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(view["runs"][0]["command"].is_null(), "{}", view["runs"]);
    let fact = view["runs"][0]["problem"]["fact"].as_str().unwrap_or_default();
    assert!(fact.contains(words[0]), "{fact}");
}
