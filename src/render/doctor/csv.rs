//! Comma-separated values: one row a run and group of numbers.

use std::borrow::Cow;
use std::io::{self, Write};

use crate::doctor::Examination;
use crate::render::csv::{field, record, whole};

const HEAD: [&str; 7] = ["run", "ranks", "world_size", "number", "fields", "state", "why"];

/// Writes an examination.
pub(super) fn write(view: &Examination, out: &mut dyn Write) -> io::Result<()> {
    record(out, HEAD.map(Cow::Borrowed))?;
    for run in &view.runs {
        for number in &run.numbers {
            let fields = [
                field(&run.name),
                whole(Some(run.ranks.len())),
                whole(run.world_size),
                Cow::Borrowed(number.id),
                Cow::Owned(number.fields.join(" ")),
                Cow::Borrowed(number.state.id()),
                field(number.why.as_deref().unwrap_or_default()),
            ];
            record(out, fields)?;
        }
    }
    Ok(())
}
