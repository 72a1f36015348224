//! Comma-separated values: one row a run and group of numbers.

use std::borrow::Cow;

use crate::doctor::Examination;
use crate::render::csv::{field, record};

const HEAD: [&str; 7] = ["run", "ranks", "world_size", "number", "fields", "state", "why"];

/// Prints an examination.
pub(super) fn print(view: &Examination) -> String {
    let mut out = String::new();
    record(&mut out, HEAD.into_iter().map(Cow::Borrowed));
    for run in &view.runs {
        for number in &run.numbers {
            let state = serde_json::to_value(number.state)
                .ok()
                .and_then(|state| state.as_str().map(str::to_owned))
                .unwrap_or_default();
            let fields = [
                field(&run.name),
                Cow::Owned(run.ranks.len().to_string()),
                Cow::Owned(run.world_size.map_or_else(String::new, |world| world.to_string())),
                Cow::Borrowed(number.id),
                Cow::Owned(number.fields.join(" ")),
                Cow::Owned(state),
                field(number.why.as_deref().unwrap_or_default()),
            ];
            record(&mut out, fields.into_iter());
        }
    }
    out
}
