//! The rows of the tables, and the folder that they are written to.

use std::path::Path;

use super::all;
use crate::collectives::events::Event;
use crate::collectives::groups;
use crate::columnar::file::{TableFile, Value};
use crate::model::op::NO_LAUNCH;
use crate::model::{Class, Metric, NameId, Num, Span};
use crate::report::Report;
use crate::run::Run;
use crate::stage::Stage;
use crate::trace::communication::Communication;
use crate::trace::times::Times;
use crate::{Error, Result, redact};

/// Writes the tables of a run to a folder, which is made if it is not there; returns how many rows they have.
///
/// # Errors
/// The folder holds other Parquet files, with which these would be mixed up; a file that cannot be written.
pub(crate) fn write(run: &Run, report: &Report, folder: &Path) -> Result<u64> {
    let failed = |path: &Path, e: &dyn std::fmt::Display| {
        Error::output(path, format!("cannot be written: {e}"))
            .with_hint("check that the folder may be written to")
    };
    std::fs::create_dir_all(folder).map_err(|e| failed(folder, &e))?;
    let names = all().map(|table| format!("{}.parquet", table.name));
    let present = std::fs::read_dir(folder).map_err(|e| failed(folder, &e))?;
    let other = present
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .find(|name| name.ends_with(".parquet") && !names.contains(name));
    if let Some(other) = other {
        return Err(Error::usage(format!(
            "--parquet: {} holds {other}, which is not a table of a report",
            folder.display()
        ))
        .with_hint("name an empty folder"));
    }
    let source = Source::new(run, report);
    let mut rows = 0;
    let mut stage = Stage::default();
    for (table, name) in all().iter().zip(&names) {
        let path = folder.join(name);
        let out = stage.create(&path)?;
        let columns = table.columns.iter().map(|column| (column.name.as_ref(), column.kind));
        let mut file = TableFile::new(out, table.name, columns).map_err(|e| failed(&path, &e))?;
        match table.name {
            "operations" => source.operations(&mut file),
            "steps" => source.steps(&mut file),
            "collectives" => source.collectives(&mut file),
            "waits" => source.waits(&mut file),
            _ => source.findings(&mut file),
        }
        rows += file.finish().map_err(|e| failed(&path, &e))?;
    }
    stage.place().map(|()| rows)
}

/// What rows are made from.
struct Source<'a> {
    run: &'a Run,
    report: &'a Report,
    times: Times<'a>,
    events: Vec<&'a [Event]>,
}

fn count(at: usize) -> Value {
    Value::small(u32::try_from(at).ok())
}

fn comm(id: Option<u64>) -> Value {
    Value::Text(id.map(|id| format!("0x{id:016x}").as_str().into()))
}

fn class(class: Class) -> &'static str {
    match class {
        Class::Compute => "compute",
        Class::Comm => "communication",
        Class::Htod => "htod",
        Class::Dtoh => "dtoh",
        Class::Dtod => "dtod",
        Class::Ptop => "ptop",
        Class::OtherCopy => "other_copy",
        Class::Memset => "memset",
        Class::Unclassified => "unclassified",
    }
}

impl<'a> Source<'a> {
    fn new(run: &'a Run, report: &'a Report) -> Source<'a> {
        let events = run.ranks.iter().map(|rank| rank.measured.events.as_slice()).collect();
        Source { run, report, times: Times::new(run), events }
    }

    /// The rank's number.
    fn rank(&self, at: usize) -> Value {
        Value::small(self.run.ranks.get(at).map(|rank| rank.trace.rank))
    }

    /// The step of the run that a match belongs to.
    fn step(&self, found: Option<usize>) -> Value {
        let index = found.and_then(|n| self.run.steps.numbers.iter().position(|&m| m == n));
        index.map_or(Value::Small(None), count)
    }

    fn operations(&self, file: &mut TableFile) {
        let mut matched: Vec<Vec<Option<u64>>> =
            self.events.iter().map(|list| vec![None; list.len()]).collect();
        for (at, one) in self.run.across.measured.iter().enumerate() {
            for member in &one.found.members {
                matched[member.rank][member.event] = Some(at as u64);
            }
        }
        for (r, rank) in self.run.ranks.iter().enumerate() {
            let (trace, ops) = (&rank.trace, &rank.trace.ops);
            let known = Communication::new(ops, self.events[r]);
            let mut steps: Vec<(Span, Option<usize>)> = rank
                .measured
                .steps
                .iter()
                .zip(&rank.measured.values)
                .filter_map(|(step, values)| Some((*step.window.as_ref().ok()?, values.run_step)))
                .collect();
            steps.sort_unstable();
            for op in 0..ops.len() {
                let own = ops.span(op);
                let before = steps.partition_point(|(window, _)| window.start <= own.start);
                let step = steps[..before].last().filter(|(window, _)| own.start < window.end);
                let at = known.event(ops, op);
                let event = at.map(|at| &self.events[r][at]);
                let named = |id: NameId| {
                    let name = (id != NameId::NONE).then(|| trace.names.get(id));
                    Value::Text(name.map(Into::into))
                };
                let stream = ops.streams.get(ops.stream[op] as usize);
                let correlation = ops.correlation.get(op).copied().filter(|&id| id != 0);
                let is_copy = ops.name[op] == NameId::NONE && ops.class[op] != Class::Unclassified;
                file.push([
                    self.rank(r),
                    step.and_then(|(_, step)| *step).map_or(Value::Small(None), count),
                    Value::text(class(ops.class[op])),
                    named(ops.name[op]),
                    Value::Text(event.map(|event| event.op.label().into())),
                    comm(event.and_then(|event| event.comm)),
                    Value::unsigned(event.and_then(|event| event.bytes)),
                    Value::unsigned(at.and_then(|at| matched[r][at])),
                    Value::Long(Some(self.times.at(r, own.start))),
                    Value::Long(Some(own.len())),
                    Value::Long(Some(own.start)),
                    Value::Long(Some(ops.launch[op]).filter(|&at| at != NO_LAUNCH)),
                    Value::Long(correlation),
                    Value::Long(stream.map(|(context, _)| *context)),
                    Value::Long(stream.map(|(_, stream)| *stream)),
                    named(ops.grid.get(op).copied().unwrap_or(NameId::NONE)),
                    Value::unsigned(is_copy.then(|| ops.bytes[op])),
                ]);
            }
        }
    }

    fn steps(&self, file: &mut TableFile) {
        for rank in &self.report.ranks {
            for step in &rank.steps {
                let head = [
                    Value::small(Some(rank.rank)),
                    step.run_step.map_or(Value::Small(None), count),
                    Value::text(&step.name),
                    Value::Flag(Some(step.outlier)),
                    Value::Flag(Some(step.counted)),
                    Value::Text(step.reason.as_deref().map(Into::into)),
                ];
                let numbers = Metric::ALL.iter().map(|&metric| match metric.ratio_of() {
                    Some(_) => Value::Real(step.values.f64(metric)),
                    None => Value::Long(step.values[metric].and_then(Num::as_int)),
                });
                file.push(head.into_iter().chain(numbers));
            }
        }
    }

    fn collectives(&self, file: &mut TableFile) {
        for (at, one) in self.run.across.measured.iter().enumerate() {
            let members = &one.found.members;
            let event = |i: usize| members.get(i).map(|m| &self.events[m.rank][m.event]);
            let rank = |i: Option<usize>| {
                i.and_then(|i| members.get(i)).map_or(Value::Small(None), |m| self.rank(m.rank.0))
            };
            let (op, bytes) = groups::operation(one, &self.events);
            let first = event(0).and_then(|event| event.comm);
            let is_one = (0..members.len()).all(|i| event(i).and_then(|e| e.comm) == first);
            let starts =
                members.iter().map(|m| self.times.at(m.rank.0, self.events[m.rank][m.event].start));
            let ranks: Vec<String> =
                members.iter().map(|m| self.run.ranks[m.rank.0].trace.rank.to_string()).collect();
            let bandwidths = groups::bandwidths(one, &self.events);
            let timing = &one.timing;
            file.push([
                Value::unsigned(Some(at as u64)),
                self.step(one.found.step),
                Value::text(op.label()),
                comm(first.filter(|_| is_one)),
                Value::text(&ranks.join(",")),
                Value::small(one.n_ranks),
                Value::unsigned(bytes),
                Value::Long(starts.min()),
                Value::Long(timing.transfer.ok()),
                Value::Text(timing.transfer.err().map(|why| why.label().into())),
                Value::Real(bandwidths.map(|(algbw, _)| algbw)),
                Value::Real(bandwidths.map(|(_, busbw)| busbw)),
                Value::Long(timing.arrival_spread_ns),
                Value::Long(timing.leave_spread_ns),
                rank(timing.first),
                rank(timing.last),
                Value::text(one.found.method.label()),
            ]);
        }
    }

    fn waits(&self, file: &mut TableFile) {
        for (at, one) in self.run.across.measured.iter().enumerate() {
            let members = &one.found.members;
            let last = one.timing.last.and_then(|last| members.get(last)).map(|m| m.rank.0);
            for (member, &wait) in members.iter().zip(&one.timing.wait_ns) {
                let event = &self.events[member.rank][member.event];
                file.push([
                    Value::unsigned(Some(at as u64)),
                    self.rank(member.rank.0),
                    self.step(one.found.step),
                    Value::text(event.op.label()),
                    Value::Long(Some(self.times.at(member.rank.0, event.start))),
                    Value::Long(Some(event.start)),
                    Value::Long(Some(event.duration())),
                    Value::Long(Some(wait)),
                    last.map_or(Value::Small(None), |last| self.rank(last)),
                ]);
            }
        }
    }

    fn findings(&self, file: &mut TableFile) {
        for (at, finding) in self.report.findings.iter().enumerate() {
            let severity = serde_json::to_value(finding.severity).unwrap_or_default();
            let evidence = serde_json::to_string(&finding.evidence).unwrap_or_default();
            file.push([
                count(at),
                Value::text(finding.id.as_str()),
                Value::Text(severity.as_str().map(Into::into)),
                Value::text(&redact::text(&finding.title)),
                Value::Long(finding.gain_ns),
                Value::Long(finding.cost_ns),
                Value::text(&evidence),
                Value::Text(finding.advice.as_deref().map(Into::into)),
            ]);
        }
    }
}
