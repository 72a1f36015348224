//! Logs that NCCL writes with `NCCL_DEBUG=INFO`: communicators, transport of each channel, algorithms, settings.
//!
//! Such a log is text that several processes and threads write at once, often into one file with everything else that
//! the program prints. Lines that broke off are counted, never guessed at.

mod line;
mod message;

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use crate::error::{Error, Result};
use crate::ingest::encoding::AsUtf8;
use crate::ingest::settings;
use crate::model::nccl_log::{CommKey, CommRank, Device, Link, NcclLog, Process, Transport};
use crate::text;
use message::{Message, Stage};

/// A longer line is not one of NCCL's; its rest is skipped, so that a file without line breaks cannot fill the memory.
const LONGEST_LINE: u64 = 64 * 1024;
/// Distinct warnings that are kept of one process.
const KEPT_WARNINGS: usize = 20;

/// Communicators that one connection is taken to be able to belong to; more say no more.
const MOST_CANDIDATES: usize = 16;

/// Reads the log at `path`.
///
/// # Errors
/// If the file cannot be read, or holds no NCCL message at all.
pub fn read(path: &Path) -> Result<NcclLog> {
    if path.is_dir() {
        return Err(Error::input(path, "is a folder")
            .with_hint("name the log files in it; patterns like 'nccl.*.log' are expanded"));
    }
    let file =
        File::open(path).map_err(|e| Error::input(path, format!("cannot be opened: {e}")))?;
    let mut log = parse(BufReader::new(AsUtf8::new(file)))
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
    /// Indices into the processes by pid: a torn line can spoil the host name, never this.
    by_pid: HashMap<u32, Vec<usize>>,
}

/// A process while its lines are read.
#[derive(Default)]
struct Reading {
    process: Process,
    /// For each of its communicators the thread that makes it and how far it is.
    making: Vec<(u32, Stage)>,
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
                self.log.versions.insert(version.to_owned());
            }
            return;
        };
        self.log.messages += 1;
        if segment.warning {
            let warnings = &mut self.process(segment.host, segment.pid).process.warnings;
            if let Some(count) = warnings.get_mut(segment.message) {
                *count += 1;
            } else if warnings.len() < KEPT_WARNINGS {
                warnings.insert(segment.message.to_owned(), 1);
            }
            return;
        }
        match message::parse(segment.message) {
            Ok(Message::Other) => {}
            Ok(Message::Version(version)) => {
                self.log.versions.insert(version.to_owned());
            }
            Ok(message) => self.process(segment.host, segment.pid).take(message, segment.tid),
            Err(message::Malformed) => self.log.torn += 1,
        }
    }

    /// The process `pid` on `host`. Two hosts with one pid of which one name ends with the other are one host, seen once on
    /// a torn line behind the end of other text; the shorter name is right.
    fn process(&mut self, host: &str, pid: u32) -> &mut Reading {
        let known = self.by_pid.entry(pid).or_default();
        let host_of = |at: usize| self.processes[at].process.host.as_str();
        let same = |at: &&usize| host_of(**at) == host;
        let torn = |at: &&usize| host_of(**at).ends_with(host) || host.ends_with(host_of(**at));
        let at = match known.iter().find(same).or_else(|| known.iter().find(torn)) {
            Some(&at) => at,
            None => {
                let process = Process { host: host.to_owned(), pid, ..Process::default() };
                self.processes.push(Reading { process, making: Vec::new() });
                known.push(self.processes.len() - 1);
                self.processes.len() - 1
            }
        };
        let reading = &mut self.processes[at];
        if host.len() < reading.process.host.len() {
            host.clone_into(&mut reading.process.host);
        }
        reading
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
                if let Some(comm) = process.comms.iter_mut().rfind(|c| c.address == comm) {
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
                let own = self.making.iter().rposition(|&making| making == (tid, Stage::Start));
                if let Some(comm) = own.and_then(|at| process.comms.get_mut(at)) {
                    comm.channels = comm.channels.or(Some(channels));
                }
            }
            Message::Tuning(tuning) => *process.tuning.entry(tuning).or_default() += 1,
            Message::CollNet(plugin) => {
                process.collnet.insert(plugin.to_owned());
            }
            Message::Setting { name, value } => {
                if let Some(value) = settings::shown(name, value) {
                    process.settings.insert(name.to_owned(), value);
                }
            }
            Message::NetDevices { plugin, devices } => {
                let known = process.net_devices.entry(plugin.to_owned()).or_default();
                known.extend(devices.into_iter().map(|(index, name)| (index, name.to_owned())));
            }
            Message::Network(name) => process.network = Some(name.to_owned()),
            Message::NvLink(bandwidth) => {
                process.nvlink_gbs =
                    Some(process.nvlink_gbs.map_or(bandwidth, |b| b.max(bandwidth)))
            }
            Message::Version(_) | Message::Other => {}
        }
    }

    fn communicator(&mut self, line: &message::Communicator, tid: u32) {
        let comms = &mut self.process.comms;
        // An address is used again once its communicator is gone.
        let known = comms
            .iter()
            .zip(&mut self.making)
            .rfind(|(c, (_, stage))| c.address == line.comm && *stage != Stage::Gone);
        if let Some((_, (_, stage))) = known {
            *stage = line.stage;
            return;
        }
        if line.stage == Stage::Gone {
            return;
        }
        let key = match (line.id, line.split) {
            (Some(id), _) => CommKey::Id(id),
            (None, Some((parent, number, color))) => {
                let parent =
                    comms.iter().rfind(|c| c.address == parent).map_or(0, |c| c.key.fingerprint());
                CommKey::Split(parent, number, color)
            }
            (None, None) => CommKey::Unnamed(
                line.n_ranks,
                comms.iter().filter(|c| c.n_ranks == line.n_ranks).count(),
            ),
        };
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
        self.making.push((tid, line.stage));
    }

    /// The communicators that a connection between two ranks can belong to: the one that the thread is making, else all
    /// in which this process is one of the two. Connections made at first use come later and from any thread.
    fn owners(&self, src: u32, dst: u32, tid: u32) -> Vec<usize> {
        let all = || self.process.comms.iter().zip(&self.making);
        let making =
            all().rposition(|(c, &making)| making == (tid, Stage::Start) && c.connects(src, dst));
        match making {
            Some(at) => vec![at],
            None => candidates(
                all().map(|(c, (_, stage))| *stage != Stage::Gone && c.connects(src, dst)),
            ),
        }
    }

    /// Up to 2.15 a communicator is named only when it is complete, after its connections.
    fn place_early_links(&mut self) {
        let comms = &self.process.comms;
        let links = std::mem::take(&mut self.process.links);
        for (mut link, count) in links {
            if link.comms.is_empty() {
                link.comms = candidates(comms.iter().map(|c| c.connects(link.src, link.dst)));
            }
            *self.process.links.entry(link).or_default() += count;
        }
    }

    /// The brackets of a `via` line hold the bus id in hexadecimal up to 2.18.1 and the device in decimal after; a
    /// communicator line with `nvmlDev` tells which (2.18.1 already prints the device where the transport is CUMEM).
    fn decided(&self, device: Device, transport: &Transport) -> Device {
        let decimal = self.process.comms.iter().any(|c| c.device.nvml.is_some())
            || matches!(transport, Transport::P2p(kind) if kind == "CUMEM");
        if decimal || device.bus_id.is_none() {
            Device { nvml: device.nvml, bus_id: None }
        } else {
            Device { nvml: None, bus_id: device.bus_id }
        }
    }
}

/// The positions of those that fit, not too many.
fn candidates(fits: impl Iterator<Item = bool>) -> Vec<usize> {
    fits.enumerate().filter_map(|(at, fits)| fits.then_some(at)).take(MOST_CANDIDATES).collect()
}

#[cfg(test)]
mod tests;
