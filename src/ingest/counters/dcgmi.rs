//! `dcgmi dmon`: a table whose header names entity and fields, repeated now and then, without any time.
//!
//! ```text
//! #Entity   SMACT        DRAMA
//! ID
//! GPU 0     0.912        0.421
//! ```

use super::{Found, Gpu, dcgm, value};

/// True for a text with such a header.
pub(super) fn is_one(text: &str) -> bool {
    text.lines().any(|line| header(line).is_some())
}

pub(super) fn parse(text: &str, found: &mut Found) {
    let mut columns: Vec<&str> = Vec::new();
    for line in text.lines() {
        if let Some(names) = header(line) {
            columns = names;
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["GPU", _, "LINK", ..] => found.instances += 1,
            ["GPU", index, cells @ ..] if !columns.is_empty() => {
                let (Ok(index), true) = (index.parse(), cells.len() == columns.len()) else {
                    found.bad += 1;
                    continue;
                };
                let gpu = Gpu { index: Some(index), ..Gpu::default() };
                for (name, cell) in columns.iter().zip(cells) {
                    if let (Some((what, scale)), Some(value)) = (dcgm::find(name), value(cell)) {
                        found.add(&gpu, what, name, None, value * scale);
                    }
                }
            }
            ["GPU-I" | "GPU-CI" | "SW" | "CPU", ..] => found.instances += 1,
            _ => {}
        }
    }
}

fn header(line: &str) -> Option<Vec<&str>> {
    let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("Entity")?;
    let names: Vec<&str> = rest.split_whitespace().collect();
    (!names.is_empty()).then_some(names)
}
