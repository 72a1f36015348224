//! Trace Event Format, event by event: what a viewer reads, and how many of what were written.

use std::io::{self, Write};

use serde::Serialize;

use crate::model::{Ns, Span};

/// What was written, and what was not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Processes: ranks.
    pub processes: u64,
    /// Tracks.
    pub tracks: u64,
    /// Slices.
    pub slices: u64,
    /// Arrows.
    pub flows: u64,
    /// Values of counters.
    pub counter_values: u64,
    /// Slices left out: shorter than `--min-us`.
    pub left_out_short: u64,
    /// Slices left out: more run at once than a lane has tracks.
    pub left_out_crowded: u64,
    /// Launches without an arrow: their call is not in the capture.
    pub launches_without_call: u64,
    /// Launches without an arrow: the operation starts before the call.
    pub launches_backwards: u64,
}

/// Which end of an arrow, or a place between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// It leaves from a slice.
    Start,
    /// It passes through a slice.
    Step,
    /// It ends at a slice.
    End,
}

/// Where something is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Track {
    /// The process: rank + 1.
    pub pid: u64,
    /// The track in the whole file.
    pub tid: u32,
}

/// Text as a JSON string.
pub fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

/// The arguments of an event: members of a JSON object, in the order in which they were added.
#[derive(Debug, Default)]
pub struct Args(String);

impl Args {
    /// Adds a member whose value is JSON already.
    pub fn json(&mut self, name: &str, value: &str) -> &mut Self {
        if !self.0.is_empty() {
            self.0.push(',');
        }
        self.0.push('"');
        self.0.push_str(name);
        self.0.push_str("\":");
        self.0.push_str(value);
        self
    }

    /// Adds a text.
    pub fn text(&mut self, name: &str, value: &str) -> &mut Self {
        self.json(name, &quoted(value))
    }

    /// Adds a number; nothing if it is not finite.
    pub fn number(&mut self, name: &str, value: f64) -> &mut Self {
        if value.is_finite() { self.json(name, &format!("{value:.3}")) } else { self }
    }

    /// Adds a whole number.
    pub fn int(&mut self, name: &str, value: impl Into<i128>) -> &mut Self {
        self.json(name, &value.into().to_string())
    }
}

/// Writes events one by one and holds none.
pub struct Writer<'w> {
    out: &'w mut dyn Write,
    is_first: bool,
    next_tid: u32,
    next_flow: u64,
    /// What was written so far.
    pub counts: Counts,
}

impl<'w> Writer<'w> {
    /// Begins a file.
    ///
    /// # Errors
    /// `out` cannot be written to.
    pub fn new(out: &'w mut dyn Write) -> io::Result<Writer<'w>> {
        out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        Ok(Writer { out, is_first: true, next_tid: 1, next_flow: 1, counts: Counts::default() })
    }

    /// Ends the file, with what is said about it.
    ///
    /// # Errors
    /// It cannot be written to.
    pub fn finish(self, about: impl FnOnce(&Counts) -> Args) -> io::Result<Counts> {
        writeln!(self.out, "\n],\"otherData\":{{{}}}}}", about(&self.counts).0)?;
        Ok(self.counts)
    }

    fn separate(&mut self) -> io::Result<()> {
        let separator: &[u8] = if self.is_first { b"\n" } else { b",\n" };
        self.is_first = false;
        self.out.write_all(separator)
    }

    fn time(&mut self, name: &str, ns: Ns) -> io::Result<()> {
        let (sign, ns) = (if ns < 0 { "-" } else { "" }, ns.unsigned_abs());
        write!(self.out, ",\"{name}\":{sign}{}.{:03}", ns / 1000, ns % 1000)
    }

    /// Names a process.
    ///
    /// # Errors
    /// The file cannot be written to.
    pub fn process(&mut self, pid: u64, name: &str, labels: &str, sort: u32) -> io::Result<()> {
        self.counts.processes += 1;
        for (what, key, value) in [
            ("process_name", "name", quoted(name)),
            ("process_labels", "labels", quoted(labels)),
            ("process_sort_index", "sort_index", sort.to_string()),
        ] {
            self.separate()?;
            write!(
                self.out,
                "{{\"ph\":\"M\",\"pid\":{pid},\"tid\":0,\"name\":\"{what}\",\"args\":{{\"{key}\":{value}}}}}"
            )?;
        }
        Ok(())
    }

    /// A number for a new track of a process. Numbers are those of one track in the whole file, and never that of its process,
    /// which viewers take for the main thread.
    pub fn new_track(&mut self, pid: u64) -> u32 {
        if u64::from(self.next_tid) == pid {
            self.next_tid = self.next_tid.saturating_add(1);
        }
        let tid = self.next_tid;
        self.next_tid = tid.saturating_add(1);
        tid
    }

    /// Names a track.
    ///
    /// # Errors
    /// The file cannot be written to.
    pub fn track(&mut self, at: Track, name: &str, sort: u32) -> io::Result<()> {
        self.counts.tracks += 1;
        let Track { pid, tid } = at;
        for (what, key, value) in [
            ("thread_name", "name", quoted(name)),
            ("thread_sort_index", "sort_index", sort.to_string()),
        ] {
            self.separate()?;
            write!(
                self.out,
                "{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"name\":\"{what}\",\"args\":{{\"{key}\":{value}}}}}"
            )?;
        }
        Ok(())
    }

    /// Draws a slice. `name` is JSON already.
    ///
    /// # Errors
    /// The file cannot be written to.
    pub fn slice(
        &mut self,
        at: Track,
        cat: &str,
        span: Span,
        name: &str,
        args: &Args,
    ) -> io::Result<()> {
        self.counts.slices += 1;
        self.separate()?;
        let Track { pid, tid } = at;
        write!(self.out, "{{\"ph\":\"X\",\"pid\":{pid},\"tid\":{tid}")?;
        self.time("ts", span.start)?;
        self.time("dur", span.len())?;
        write!(self.out, ",\"name\":{name},\"cat\":\"{cat}\",\"args\":{{{}}}}}", args.0)
    }

    /// A number for a new arrow.
    pub fn new_flow(&mut self) -> u64 {
        let id = self.next_flow;
        self.next_flow = id.saturating_add(1);
        self.counts.flows += 1;
        id
    }

    /// One place of an arrow.
    ///
    /// # Errors
    /// The file cannot be written to.
    pub fn flow(&mut self, at: Track, what: &str, id: u64, place: Flow, ts: Ns) -> io::Result<()> {
        self.separate()?;
        let Track { pid, tid } = at;
        let ph = match place {
            Flow::Start => "\"s\"",
            Flow::Step => "\"t\"",
            Flow::End => "\"f\",\"bp\":\"e\"",
        };
        write!(self.out, "{{\"ph\":{ph},\"pid\":{pid},\"tid\":{tid}")?;
        self.time("ts", ts)?;
        write!(self.out, ",\"id\":{id},\"name\":\"{what}\",\"cat\":\"{what}\"}}")
    }

    /// What a counter of a process was sampled as, until its next sample; `name` is JSON.
    ///
    /// # Errors
    /// The file cannot be written to.
    pub fn sample(&mut self, pid: u64, name: &str, ts: Ns, value: f64) -> io::Result<()> {
        self.counts.counter_values += 1;
        self.separate()?;
        write!(self.out, "{{\"ph\":\"C\",\"pid\":{pid}")?;
        self.time("ts", ts)?;
        // Infinite values and what is not a number cannot stand in JSON.
        let value = if value.is_finite() { value } else { 0.0 };
        write!(self.out, ",\"name\":{name},\"args\":{{\"value\":{value}}}}}")
    }

    /// A new value of a counter of a process.
    ///
    /// # Errors
    /// The file cannot be written to.
    pub fn counter(&mut self, pid: u64, name: &str, ts: Ns, value: u64) -> io::Result<()> {
        self.counts.counter_values += 1;
        self.separate()?;
        write!(self.out, "{{\"ph\":\"C\",\"pid\":{pid}")?;
        self.time("ts", ts)?;
        write!(self.out, ",\"name\":\"{name}\",\"args\":{{\"running\":{value}}}}}")
    }
}
