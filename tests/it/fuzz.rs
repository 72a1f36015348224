//! Damaged inputs of every kind through every command that reads them, in this process: an answer or an error, never a
//! panic, soon, in bounded memory, and what is written can be read back.
//!
//! A usual test runs a few cases of each kind. `NSYSNCCL_FUZZ_SECONDS=300 cargo test --test it fuzz::` runs so long for each
//! kind, from a new beginning that it prints; `NSYSNCCL_FUZZ_SEED` begins there. A case that fails is left in
//! `target/fuzz/`, named after its kind and seed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use nsysnccl::internals::cli::{self, Cli};
use oorandom::Rand64;

use crate::support::folder;
use crate::support::report::{Copy, Payload, Payloads, Report, stream, thread};
use crate::support::scenes::{ALL_REDUCE, GEMM, WORLD};

/// Cases of each kind in a usual test.
const CASES: u64 = 40;
/// No case takes as long, in a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct Dice(Rand64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { self.0.rand_range(0..n as u64) as usize }
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<'a, T: ?Sized>(&mut self, list: &[&'a T]) -> &'a T {
        list[self.below(list.len())]
    }
}

/// What numbers are replaced with.
const NUMBERS: [&str; 20] = [
    "0",
    "-0",
    "-1",
    "1",
    "2",
    "255",
    "256",
    "65536",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "-1e-320",
    "0.5",
    "NaN",
    "99999999999999999999999999999999",
];

/// What is put anywhere.
const TOKENS: [&str; 24] = [
    "",
    "null",
    "true",
    "{}",
    "[]",
    "\"\"",
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    "\n",
    "\r\n",
    "\t",
    "\u{feff}",
    "\u{202e}",
    "\u{1b}[31m",
    "<script>alert(1)</script>",
    ",",
    ":",
    "}",
    "]",
    "{",
    "[",
    "nan",
];

/// A few changes to a text or to bytes.
fn damaged(dice: &mut Dice, seed: &[u8]) -> Vec<u8> {
    let mut data = seed.to_vec();
    for _ in 0..=dice.below(6) {
        let at = dice.below(data.len() + 1);
        match dice.below(12) {
            0 => {
                if let Some(byte) = data.get_mut(at) {
                    *byte ^= 1 << dice.below(8);
                }
            }
            1 => {
                if let Some(byte) = data.get_mut(at) {
                    *byte = dice.below(256) as u8;
                }
            }
            2..6 => replace_number(dice, &mut data, at),
            6 => drop(data.splice(at..at, dice.pick(&TOKENS).bytes())),
            7 => {
                let end = (at + dice.below(40)).min(data.len());
                data.drain(at..end);
            }
            8 => {
                let end = (at + dice.below(400)).min(data.len());
                let piece = data[at..end].to_vec();
                let times = 1 + dice.below(20);
                let to = dice.below(data.len() + 1);
                data.splice(to..to, piece.repeat(times));
            }
            9 if dice.one_in(3) => data.truncate(at),
            10 if dice.one_in(4) => {
                let deep = dice.pick(&["[", "{\"a\":", "("]).repeat(1 + dice.below(3000));
                data.splice(at..at, deep.bytes());
            }
            _ => {
                // Two lines change places.
                let mut lines: Vec<Vec<u8>> =
                    data.split_inclusive(|&b| b == b'\n').map(<[u8]>::to_vec).collect();
                let (a, b) = (dice.below(lines.len()), dice.below(lines.len()));
                if !lines.is_empty() {
                    lines.swap(a, b);
                    data = lines.concat();
                }
            }
        }
    }
    data
}

/// Replaces the next number after `at`.
fn replace_number(dice: &mut Dice, data: &mut Vec<u8>, at: usize) {
    let Some(from) = data[at..].iter().position(u8::is_ascii_digit).map(|i| at + i) else { return };
    let length = data[from..].iter().take_while(|b| b.is_ascii_digit() || **b == b'.').count();
    data.splice(from..from + length, dice.pick(&NUMBERS).bytes());
}

/// Changes some cells of an export, drops or renames columns, and at times damages the file itself.
fn damage_export(dice: &mut Dice, path: &Path) {
    let connection = rusqlite::Connection::open(path).expect("opens");
    connection.execute_batch("PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF").expect("set");
    let texts = |sql: &str| -> Vec<String> {
        let mut statement = connection.prepare(sql).expect("a statement");
        let rows = statement.query_map([], |row| row.get(0)).expect("rows");
        rows.collect::<Result<_, _>>().expect("texts")
    };
    let tables = texts("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name");
    for _ in 0..=dice.below(8) {
        let table = &tables[dice.below(tables.len())];
        let columns = texts(&format!("SELECT name FROM pragma_table_info('{table}')"));
        if columns.is_empty() {
            continue;
        }
        let column = &columns[dice.below(columns.len())];
        let rows = match dice.below(3) {
            0 => "1".to_owned(),
            1 => format!("rowid % 7 = {}", dice.below(7)),
            _ => format!("rowid = {}", 1 + dice.below(30)),
        };
        let value = match dice.below(10) {
            0 => "NULL".to_owned(),
            1 => "x'00ff80'".to_owned(),
            2 => "zeroblob(40)".to_owned(),
            3 => format!("'{}'", dice.pick(&TOKENS).replace('\'', "''")),
            4 => format!("'{}'", dice.pick(&NUMBERS)),
            5 => format!("\"{}\"", columns[dice.below(columns.len())]),
            6 => format!("\"{column}\" + {}", dice.below(3000) as i64 - 1500),
            7 => "rowid".to_owned(),
            _ => dice.pick(&NUMBERS).replace("NaN", "0"),
        };
        // A change that the table refuses (NOT NULL, a key) is none.
        let _ = connection.execute_batch(&match dice.below(14) {
            0 => format!("DELETE FROM {table} WHERE {rows}"),
            1 => format!("INSERT INTO {table} SELECT * FROM {table}"),
            2 if dice.one_in(3) => format!("ALTER TABLE {table} DROP COLUMN \"{column}\""),
            3 if dice.one_in(3) => format!("ALTER TABLE {table} RENAME COLUMN \"{column}\" TO x"),
            4 if dice.one_in(4) => format!("DROP TABLE {table}"),
            _ => format!("UPDATE OR IGNORE {table} SET \"{column}\" = {value} WHERE {rows}"),
        });
    }
    drop(connection);
    if dice.one_in(5) {
        let mut data = std::fs::read(path).expect("read");
        for _ in 0..=dice.below(20) {
            let at = dice.below(data.len());
            data[at] = dice.below(256) as u8;
        }
        if dice.one_in(4) {
            data.truncate(dice.below(data.len()));
        }
        std::fs::write(path, data).expect("written");
    }
}

/// A small run: two streams, NCCL with payloads, copies, notes.
fn small(rank: u32) -> Report {
    let mut report = Report::default();
    report.payloads = Payloads::Blob;
    let main = thread(1000 + rank, 7);
    report.session(crate::support::scenes::EPOCH);
    report.env("RANK", &rank.to_string());
    report.system("Hostname", "vm");
    report.gpu(i64::from(rank), "NVIDIA H200", main.pid, 0);
    let init = Payload { init: Some((2, rank as i32, 0)), comm: WORLD, ..Payload::default() };
    report.nccl(main, "ncclCommInitRank", 10..20, init);
    let row = [("severity", 3.into()), ("text", crate::support::report::text("lost events"))];
    report.row("DIAGNOSTIC_EVENT", &row);
    for step in 0..4 {
        let at = |ns: i64| 10_000 * (step + 1) + ns;
        report.range(main, &format!("step {step}"), at(-900)..at(8000));
        report.kernel(GEMM, stream(7), at(0)..at(4000), main.at(at(-500)));
        report.copy(Copy::DtoD, 64, stream(7), at(4000)..at(4500), main.at(at(-400)));
        report.memset(8, stream(7), at(4500)..at(4600), main.at(at(-350)));
        let payload = Payload { comm: WORLD, bytes: Some(4096), redop: Some("Sum"), ..init };
        report.nccl(main, "ncclAllReduce", at(-320)..at(-300), Payload { init: None, ..payload });
        let arrives = 3000 + 100 * i64::from(rank);
        report.kernel(ALL_REDUCE, stream(20), at(arrives)..at(7000), main.at(at(-310)));
    }
    report
}

/// The beginning of a file of the examples, whole lines.
fn example(name: &str, bytes: usize) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    let data = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let end = data.len().min(bytes);
    let lines = data[..end].iter().rposition(|&b| b == b'\n').map_or(end, |at| at + 1);
    data[..lines].to_vec()
}

/// What a case is made of: files in a folder, and the commands that read them.
struct Target {
    name: &'static str,
    /// Writes the files of a case.
    make: fn(&mut Dice, &Path),
    commands: &'static [&'static [&'static str]],
}

/// A saved report of both ranks, made once.
fn saved() -> &'static [u8] {
    static SAVED: OnceLock<Vec<u8>> = OnceLock::new();
    SAVED.get_or_init(|| {
        let at = crate::support::folder();
        both(at.path());
        let paths = [0, 1].map(|rank| at.path().join(format!("run_{rank}.sqlite")));
        serde_json::to_vec(&crate::support::report(&paths)).expect("JSON")
    })
}

/// The exports of both ranks, made once.
fn both(folder: &Path) {
    static EXPORTS: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    let exports = EXPORTS.get_or_init(|| {
        let at = crate::support::folder();
        [0, 1].map(|rank| {
            std::fs::read(small(rank).save(at.path(), &format!("{rank}"))).expect("read")
        })
    });
    for (rank, export) in exports.iter().enumerate() {
        std::fs::write(folder.join(format!("run_{rank}.sqlite")), export).expect("written");
    }
}

fn one(dice: &mut Dice, folder: &Path, name: &str, seed: &[u8]) {
    std::fs::write(folder.join(name), damaged(dice, seed)).expect("written");
}

const TARGETS: &[Target] = &[
    Target {
        name: "export",
        make: |dice, folder| {
            both(folder);
            damage_export(dice, &folder.join("run_0.sqlite"));
        },
        commands: &[
            &["report", "run_0.sqlite", "run_1.sqlite", "--what-if", "--keep-going"],
            &["report", "run_0.sqlite", "--step", "whole"],
            &["compare", "run_0.sqlite", "run_1.sqlite"],
            &["doctor", "run_0.sqlite", "run_1.sqlite"],
        ],
    },
    Target {
        name: "inspector",
        make: |dice, folder| {
            both(folder);
            let folder_of = "examples/shm/shm-2gpu_inspector";
            let names = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder_of));
            let mut names: Vec<String> = names
                .expect("a folder")
                .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
                .collect();
            names.sort();
            let name = &names[dice.below(names.len())];
            let seed = example(&format!("{folder_of}/{name}"), 6000);
            one(dice, folder, name, &seed);
            std::fs::rename(folder.join(name), folder.join("i-pid1000.log")).expect("renamed");
        },
        commands: &[
            &["inspect", "i-pid1000.log"],
            &["report", "run_0.sqlite", "run_1.sqlite", "--inspector", "i-pid1000.log"],
            &["doctor", "run_0.sqlite", "i-pid1000.log"],
        ],
    },
    Target {
        name: "nccl-log",
        make: |dice, folder| {
            both(folder);
            let seed = example("examples/shm/shm-2gpu.nccl.log", 12_000);
            one(dice, folder, "nccl.log", &seed);
        },
        commands: &[
            &["report", "run_0.sqlite", "run_1.sqlite", "--nccl-log", "nccl.log"],
            &["doctor", "nccl.log"],
        ],
    },
    Target {
        name: "topology",
        make: |dice, folder| {
            both(folder);
            one(dice, folder, "topo.txt", &example("examples/shm/topo.txt", 4000));
        },
        commands: &[
            &["report", "run_0.sqlite", "run_1.sqlite", "--topo", "topo.txt"],
            &["doctor", "topo.txt"],
        ],
    },
    Target {
        name: "npkit",
        make: |dice, folder| {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/npkit");
            let mut dumps = Vec::new();
            folders(&source, &mut dumps);
            let from = &dumps[dice.below(dumps.len())];
            let at = folder.join("dump");
            std::fs::create_dir(&at).expect("made");
            let mut names: Vec<PathBuf> = std::fs::read_dir(from)
                .expect("a folder")
                .map(|entry| entry.expect("an entry").path())
                .filter(|path| path.is_file())
                .collect();
            names.sort();
            let victim = dice.below(names.len());
            for (i, name) in names.iter().enumerate() {
                let mut data = std::fs::read(name).expect("read");
                data.truncate(16 * 400);
                let data = if i == victim || dice.one_in(6) { damaged(dice, &data) } else { data };
                let name = name.file_name().expect("a name");
                std::fs::write(at.join(name), data).expect("written");
            }
        },
        commands: &[&["npkit", "dump"], &["npkit", "dump", "--lib", "rccl"], &["doctor", "dump"]],
    },
    Target {
        name: "saved",
        make: |dice, folder| {
            std::fs::write(folder.join("b.json"), saved()).expect("written");
            one(dice, folder, "a.json", saved());
        },
        commands: &[&["compare", "a.json", "b.json"], &["doctor", "a.json"]],
    },
    Target {
        name: "manifest",
        make: |dice, folder| {
            both(folder);
            let seed = "[[variant]]\nname = 'a'\nreports = 'run_0.sqlite'\n[[variant]]\nname = 'b'\n\
                        reports = ['run_1.sqlite']\nbaseline = true\n";
            one(dice, folder, "set.toml", seed.as_bytes());
        },
        commands: &[&["compare", "--manifest", "set.toml"], &["doctor", "set.toml"]],
    },
];

/// Folders that hold files, below `at`.
fn folders(at: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(at)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    entries.sort();
    if entries.iter().any(|path| path.to_string_lossy().contains("_events_rank_")) {
        found.push(at.to_owned());
    }
    entries.iter().filter(|path| path.is_dir()).for_each(|path| folders(path, found));
}

/// One case; says what is wrong with it.
fn fails(target: &Target, seed: u64, folder: &Path) -> Option<String> {
    let mut dice = Dice(Rand64::new(u128::from(seed)));
    (target.make)(&mut dice, folder);
    for command in target.commands {
        let at = |name: &str| folder.join(name).to_string_lossy().into_owned();
        let mut words = vec!["nsysnccl".to_owned(), command[0].to_owned()];
        words.extend(command[1..].iter().map(|word| {
            if word.contains('.') || *word == "dump" { at(word) } else { (*word).to_owned() }
        }));
        let further = dice.pick(&["out.html", "out.md", "out.csv", "out.txt"]);
        words.extend(["-q", "-o", &at("out.json"), "-o", &at(further)].map(str::to_owned));
        let cli = Cli::try_parse_from(&words).unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let started = Instant::now();
        let ended = catch_unwind(AssertUnwindSafe(|| cli::run(&cli)));
        let took = started.elapsed();
        let done = match ended {
            Err(_) => return Some(format!("{command:?}: a panic")),
            Ok(done) => done,
        };
        if took > PATIENCE {
            return Some(format!("{command:?}: {took:?}"));
        }
        match done {
            Err(error) if !matches!(error.exit_code(), 2 | 3) => {
                return Some(format!("{command:?}: status {}", error.exit_code()));
            }
            Err(_) => {
                if folder.join("out.json").exists() {
                    return Some(format!("{command:?}: an error, and an output all the same"));
                }
            }
            Ok(_) => {
                let json = std::fs::read(folder.join("out.json")).expect("written");
                if let Err(error) = serde_json::from_slice::<serde_json::Value>(&json) {
                    return Some(format!("{command:?}: its JSON does not read back: {error}"));
                }
                for name in [further].into_iter().filter(|name| *name != "out.csv") {
                    let text =
                        String::from_utf8(std::fs::read(folder.join(name)).expect("written"));
                    let Ok(text) = text else {
                        return Some(format!("{command:?}: {name} is no UTF-8"));
                    };
                    let page = name != "out.txt";
                    if text.contains(['\u{1b}', '\u{202e}'])
                        || page && text.contains("<script>alert")
                    {
                        return Some(format!(
                            "{command:?}: {name} lets a name from a file through"
                        ));
                    }
                }
            }
        }
        for name in ["out.json", "out.html", "out.md", "out.csv", "out.txt"] {
            let _ = std::fs::remove_file(folder.join(name));
        }
    }
    None
}

/// Bytes of memory that this process used at most.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

fn fuzz(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target");
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seconds = number("NSYSNCCL_FUZZ_SECONDS").map(Duration::from_secs);
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs());
    let first = number("NSYSNCCL_FUZZ_SEED").unwrap_or_else(|| seconds.map_or(0, |_| now() << 20));
    println!("{name}: from seed {first}");
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/fuzz");
    let started = Instant::now();
    let mut cases = 0;
    while seconds.map_or(cases < CASES, |limit| started.elapsed() < limit) {
        let seed = first + cases;
        if seconds.is_some() && cases % 200 == 0 {
            println!("{name}: {cases} cases, {:?}, at most {} MB", started.elapsed(), peak() >> 20);
        }
        let at = folder();
        if let Some(what) = fails(target, seed, at.path()) {
            let place = kept.join(format!("{name}-{seed}"));
            let _ = std::fs::create_dir_all(&kept);
            let _ = std::fs::remove_dir_all(&place);
            let path = at.keep();
            let moved = Command::new("mv").arg(&path).arg(&place).status();
            panic!("{name}, seed {seed}: {what}; kept: {} ({moved:?})", place.display());
        }
        cases += 1;
    }
    println!("{name}: {cases} cases in {:?}, at most {} MB", started.elapsed(), peak() >> 20);
    assert!(peak() < 1 << 30, "{} bytes", peak());
}

#[test]
fn exports() {
    fuzz("export");
}

#[test]
fn inspector_logs() {
    fuzz("inspector");
}

#[test]
fn nccl_logs() {
    fuzz("nccl-log");
}

#[test]
fn topologies() {
    fuzz("topology");
}

#[test]
fn npkit_dumps() {
    fuzz("npkit");
}

#[test]
fn saved_reports() {
    fuzz("saved");
}

#[test]
fn manifests() {
    fuzz("manifest");
}
