//! Logs that NCCL writes with `NCCL_DEBUG=INFO`: communicators, transport of each channel, algorithms, settings.
//!
//! Such a log is text that several processes and threads write at once, often into one file with everything else that
//! the program prints. Lines that broke off are counted, never guessed at.

mod line;
mod message;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use foldhash::HashMap;

use crate::error::{Error, Result};
use crate::ingest::encoding::AsUtf8;
use crate::ingest::open;
use crate::model::nccl_log::{CommKey, CommRank, Device, Link, NcclLog, Process, Transport};
use crate::redact;
use crate::text::{self, shorten};
use message::{Message, Stage};

/// A longer line is not one of NCCL's; its rest is skipped, so that a file without line breaks cannot fill the memory.
const LONGEST_LINE: u64 = 64 * 1024;
/// Distinct warnings that are kept of one process.
const KEPT_WARNINGS: usize = 20;

/// Characters of a text that are kept.
const LONGEST_TEXT: usize = 2000;

/// Communicators that one connection is taken to be able to belong to; more say no more.
const MOST_CANDIDATES: usize = 16;
/// Communicators that are looked through for those of one connection; no process has as many at a time.
const MOST_LOOKED_AT: usize = 1000;
/// Characters of a host name (RFC 1035); what is longer is not compared with others.
const LONGEST_HOST: usize = 255;

/// Reads the log at `path`.
///
/// # Errors
/// If the file cannot be read, or holds no NCCL message at all.
pub fn read(path: &Path) -> Result<NcclLog> {
    if path.is_dir() {
        return Err(Error::input(path, "is a folder")
            .with_hint("name the log files in it; patterns like 'nccl.*.log' are expanded"));
    }
    let mut log = parse(BufReader::new(AsUtf8::new(open::open(path)?)))
        .map_err(|e| Error::input(path, format!("cannot be read: {e}")))?;
    if log.messages == 0 && log.versions.is_empty() {
        return Err(Error::input(path, "holds no NCCL message").with_hint(
            "run the program with NCCL_DEBUG=INFO and give the file that its output went to",
        ));
    }
    log.path = path.to_string_lossy().into_owned();
    Ok(log)
}

/// Reads a log from `reader`, line by line.
///
/// # Errors
/// If reading fails.
pub fn parse(mut reader: impl BufRead) -> std::io::Result<NcclLog> {
    let mut parser = Parser::default();
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        if reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut bytes)? == 0 {
            break;
        }
        if !bytes.ends_with(b"\n") {
            reader.skip_until(b'\n')?;
        }
        let line = String::from_utf8_lossy(&bytes);
        parser.line(text::without_escapes(line.trim_end_matches(['\n', '\r'])).as_ref());
    }
    Ok(parser.finish())
}

#[derive(Default)]
struct Parser {
    log: NcclLog,
    processes: Vec<Reading>,
    /// Indices into the processes by pid, which a torn line cannot spoil, and by the host's name written backwards: names
    /// that begin a name, or that a name begins, are next to it.
    places: BTreeMap<(u32, Vec<u8>), usize>,
}

/// A process while its lines are read.
#[derive(Default)]
struct Reading {
    process: Process,
    /// How far each of its communicators is.
    stages: Vec<Stage>,
    /// Those that are not gone.
    live: BTreeSet<usize>,
    /// The last communicator at each address: one is used again once its communicator is gone.
    by_address: HashMap<u64, usize>,
    /// The communicators that each thread began.
    by_thread: HashMap<u32, Vec<usize>>,
    /// Communicators by their number of ranks.
    of_size: HashMap<u32, usize>,
    /// True if its communicators name their device.
    names_devices: bool,
}

impl Parser {
    fn line(&mut self, line: &str) {
        self.log.lines += 1;
        let found = line::split(line);
        self.log.torn += found.torn;
        let Some(segment) = found.segment else {
            // At some levels the version is printed without a prefix.
            if let Some(version) =
                line.split_once("NCCL version ").and_then(|(_, rest)| message::version(rest))
            {
                self.log.versions.insert(shown(version));
            }
            return;
        };
        self.log.messages += 1;
        if segment.warning {
            let warnings = &mut self.process(segment.host, segment.pid).process.warnings;
            let text = shown(segment.message);
            if let Some(count) = warnings.get_mut(&text) {
                *count += 1;
            } else if warnings.len() < KEPT_WARNINGS {
                warnings.insert(text, 1);
            }
            return;
        }
        match message::parse(segment.message) {
            Ok(Message::Other) => {}
            Ok(Message::Version(version)) => {
                self.log.versions.insert(shown(version));
            }
            Ok(message) => self.process(segment.host, segment.pid).take(message, segment.tid),
            Err(message::Malformed) => self.log.torn += 1,
        }
    }

    /// The process `pid` on `host`. Two hosts with one pid of which one name ends with the other are one host, seen once on
    /// a torn line behind the end of other text; the shorter name is right.
    fn process(&mut self, host: &str, pid: u32) -> &mut Reading {
        let name: Vec<u8> = host.bytes().rev().collect();
        let at = match self.place(pid, &name) {
            Some(at) => at,
            None => {
                let process = Process { host: host.to_owned(), pid, ..Process::default() };
                self.processes.push(Reading { process, ..Reading::default() });
                self.processes.len() - 1
            }
        };
        self.places.entry((pid, name)).or_insert(at);
        let reading = &mut self.processes[at];
        if host.len() < reading.process.host.len() {
            host.clone_into(&mut reading.process.host);
        }
        reading
    }

    /// The known process whose host's name, backwards, is `name`, begins it or begins with it.
    fn place(&self, pid: u32, name: &[u8]) -> Option<usize> {
        let known = |name: &[u8]| self.places.get(&(pid, name.to_vec())).copied();
        if let Some(same) = known(name) {
            return Some(same);
        }
        if name.len() > LONGEST_HOST {
            return None;
        }
        let shorter = || (1..name.len()).rev().find_map(|end| known(name.get(..end)?));
        let longer = || {
            let ((next_pid, next), at) = self.places.range((pid, name.to_vec())..).next()?;
            (*next_pid == pid && next.starts_with(name)).then_some(*at)
        };
        shorter().or_else(longer)
    }

    fn finish(mut self) -> NcclLog {
        self.processes.iter_mut().for_each(Reading::place_early_links);
        self.log.processes = self.processes.into_iter().map(|reading| reading.process).collect();
        self.log.processes.sort_by(|a, b| (&a.host, a.pid).cmp(&(&b.host, b.pid)));
        self.log
    }
}

impl Reading {
    fn take(&mut self, message: Message<'_>, tid: u32) {
        let process = &mut self.process;
        match message {
            Message::Communicator(line) => self.communicator(&line, tid),
            Message::Nodes { comm, nodes } => {
                let at = self.by_address.get(&comm);
                if let Some(comm) = at.and_then(|&at| process.comms.get_mut(at)) {
                    comm.nodes = Some(nodes);
                }
            }
            Message::Channel(line) => {
                let link = Link {
                    comms: self.owners(line.src, line.dst, tid),
                    channel: line.channel,
                    src: line.src,
                    dst: line.dst,
                    src_device: self.decided(line.src_device, &line.transport),
                    dst_device: self.decided(line.dst_device, &line.transport),
                    transport: line.transport,
                };
                *self.process.links.entry(link).or_default() += 1;
            }
            Message::Channels(channels) => {
                // The line belongs to the communicator that its thread is making; a thread makes one at a time.
                let own = making(&mut self.by_thread, &self.stages, tid).last();
                if let Some(comm) = own.and_then(|&at| process.comms.get_mut(at)) {
                    comm.channels = comm.channels.or(Some(channels));
                }
            }
            Message::Tuning(tuning) => *process.tuning.entry(tuning).or_default() += 1,
            Message::CollNet(plugin) => {
                process.collnet.insert(shown(plugin));
            }
            Message::Setting { name, value } => {
                if let Some(value) = redact::setting(name, value) {
                    process.settings.insert(name.to_owned(), value);
                }
            }
            Message::NetDevices { plugin, devices } => {
                let known = process.net_devices.entry(shown(plugin)).or_default();
                known.extend(devices.into_iter().map(|(index, name)| (index, shown(name))));
            }
            Message::Network(name) => process.network = Some(shown(name)),
            Message::NvLink(bandwidth) => {
                process.nvlink_gbs =
                    Some(process.nvlink_gbs.map_or(bandwidth, |b| b.max(bandwidth)))
            }
            Message::Version(_) | Message::Other => {}
        }
    }

    fn communicator(&mut self, line: &message::Communicator, tid: u32) {
        let comms = &mut self.process.comms;
        let known = self.by_address.get(&line.comm).copied();
        if let Some((at, stage)) = known
            .and_then(|at| Some((at, self.stages.get_mut(at)?)))
            .filter(|(_, stage)| **stage != Stage::Gone)
        {
            *stage = line.stage;
            if line.stage == Stage::Gone {
                self.live.remove(&at);
            }
            return;
        }
        if line.stage == Stage::Gone {
            return;
        }
        let alike = self.of_size.entry(line.n_ranks).or_default();
        let key = match (line.id, line.split) {
            (Some(id), _) => CommKey::Id(id),
            (None, Some((parent, number, color))) => {
                let parent = self.by_address.get(&parent).and_then(|&at| comms.get(at));
                CommKey::Split(parent.map_or(0, |c| c.key.fingerprint()), number, color)
            }
            (None, None) => CommKey::Unnamed(line.n_ranks, *alike),
        };
        *alike += 1;
        let at = comms.len();
        self.live.insert(at);
        self.by_address.insert(line.comm, at);
        self.by_thread.entry(tid).or_default().push(at);
        self.names_devices |= line.nvml_dev.is_some();
        self.stages.push(line.stage);
        comms.push(CommRank {
            address: line.comm,
            key,
            rank: line.rank,
            n_ranks: line.n_ranks,
            cuda_dev: line.cuda_dev,
            device: Device { nvml: line.nvml_dev, bus_id: Some(line.bus_id) },
            nodes: None,
            channels: None,
        });
    }

    /// The communicators that a connection between two ranks can belong to: the one that the thread is making, else all
    /// in which this process is one of the two. Connections made at first use come later and from any thread.
    fn owners(&mut self, src: u32, dst: u32, tid: u32) -> Vec<usize> {
        let comms = &self.process.comms;
        let connects = |at: &&usize| comms.get(**at).is_some_and(|c| c.connects(src, dst));
        let making = making(&mut self.by_thread, &self.stages, tid);
        let is_open = |at: &&usize| self.stages.get(**at) == Some(&Stage::Start);
        let own = making.iter().rev().take(MOST_LOOKED_AT).find(|at| is_open(at) && connects(at));
        match own {
            Some(&at) => vec![at],
            None => candidates(self.live.iter(), connects),
        }
    }

    /// Up to 2.15 a communicator is named only when it is complete, after its connections.
    fn place_early_links(&mut self) {
        let comms = &self.process.comms;
        let all: Vec<usize> = (0..comms.len().min(MOST_LOOKED_AT)).collect();
        let links = std::mem::take(&mut self.process.links);
        for (mut link, count) in links {
            if link.comms.is_empty() {
                let connects =
                    |at: &&usize| comms.get(**at).is_some_and(|c| c.connects(link.src, link.dst));
                link.comms = candidates(all.iter(), connects);
            }
            *self.process.links.entry(link).or_default() += count;
        }
    }

    /// The brackets of a `via` line hold the bus id in hexadecimal up to 2.18.1 and the device in decimal after; a
    /// communicator line with `nvmlDev` tells which (2.18.1 already prints the device where the transport is CUMEM).
    fn decided(&self, device: Device, transport: &Transport) -> Device {
        let decimal =
            self.names_devices || matches!(transport, Transport::P2p(kind) if kind == "CUMEM");
        if decimal || device.bus_id.is_none() {
            Device { nvml: device.nvml, bus_id: None }
        } else {
            Device { nvml: None, bus_id: device.bus_id }
        }
    }
}

/// Text of the log as reports may show it.
fn shown(text: &str) -> String {
    redact::text(&shorten(text, LONGEST_TEXT)).into_owned()
}

/// The communicators that a thread is making: those that it began, without the last ones that are complete. A thread makes
/// one at a time.
fn making<'a>(
    by_thread: &'a mut HashMap<u32, Vec<usize>>,
    stages: &[Stage],
    tid: u32,
) -> &'a [usize] {
    let Some(began) = by_thread.get_mut(&tid) else { return &[] };
    while began.last().is_some_and(|&at| stages.get(at) != Some(&Stage::Start)) {
        began.pop();
    }
    began
}

/// Those that fit, not too many.
fn candidates<'a>(
    all: impl Iterator<Item = &'a usize>,
    fits: impl Fn(&&'a usize) -> bool,
) -> Vec<usize> {
    all.take(MOST_LOOKED_AT).filter(fits).take(MOST_CANDIDATES).copied().collect()
}

#[cfg(test)]
mod tests;
