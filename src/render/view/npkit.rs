//! What NPKit's dumps add to a report.

use crate::npkit::join::Joined;
use crate::render::document::{Block, Entry};
use crate::render::npkit::tables;
use crate::render::table::Tone;
use crate::render::units;
use crate::warning::Warning;

/// What dumps add to a report: a sentence, kernels, channels, events, and what is wrong.
pub(super) fn blocks(joined: &Joined) -> Vec<Block> {
    let text = format!(
        "NPKit dump ({}): {} of {} records belong to a kernel.",
        joined.library,
        units::count(joined.inside_kernels),
        units::count(joined.events)
    );
    let tables = [
        tables::kernels(joined),
        tables::channels(&joined.channels),
        tables::totals(&joined.totals),
        tables::proxies_joined(joined),
        tables::ranks(joined),
    ];
    std::iter::once(Block::Text(text))
        .chain(tables.into_iter().flatten().map(Block::Table))
        .chain(problems(&joined.problems))
        .collect()
}

fn problems(problems: &[Warning]) -> Option<Block> {
    let entry = |problem: &Warning| Entry {
        name: problem.code.to_string(),
        text: match &problem.hint {
            Some(hint) => format!("{} {hint}", problem.message),
            None => problem.message.clone(),
        },
        tone: Tone::Neutral,
    };
    (!problems.is_empty()).then(|| Block::Entries(problems.iter().map(entry).collect()))
}
