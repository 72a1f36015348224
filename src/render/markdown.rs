//! A document as GitHub-flavoured Markdown.

use super::document::{Block, Document, Level, Note};
use super::table::{Align, Table};
use crate::text;

/// Rows of a table; longer ones are thinned out.
const LONGEST_TABLE: usize = 60;
/// Characters of a cell.
const LONGEST_CELL: usize = 120;

/// Prints a document.
pub fn print(document: &Document) -> String {
    let mut out = String::new();
    line(&mut out, &format!("# {}", escape(&document.title)));
    if !document.facts.is_empty() {
        line(&mut out, &document.facts.iter().map(|s| escape(s)).collect::<Vec<_>>().join(" · "));
    }
    for (i, sentence) in document.headline.iter().enumerate() {
        line(
            &mut out,
            &if i == 0 { format!("**{}**", escape(sentence)) } else { escape(sentence) },
        );
    }
    notes(&mut out, "Findings", &document.findings, Level::label);
    for section in &document.sections {
        let mut headed = false;
        for block in &section.blocks {
            if block.is_for_pages() {
                continue;
            }
            if !headed {
                line(&mut out, &format!("## {}", escape(&section.heading)));
                headed = true;
            }
            match block {
                Block::Text(sentence) => line(&mut out, &escape(sentence)),
                Block::Table(shown) | Block::Records(shown) => table(&mut out, shown),
                Block::Command(words) => {
                    line(&mut out, &format!("```sh\n{}\n```", text::printable(&words.join(" "))))
                }
                Block::Entries(entries) => {
                    for entry in entries {
                        out.push_str(&format!(
                            "- **{}**: {}\n",
                            escape(&entry.name),
                            escape(&entry.text)
                        ));
                    }
                    out.push('\n');
                }
                Block::Details(_) | Block::Figure(_) | Block::Figures(_) | Block::Timeline(..) => {}
            }
        }
    }
    notes(&mut out, "Warnings", &document.warnings, |_| "Warning");
    line(&mut out, "## How to read the numbers");
    for sentence in &document.method {
        line(&mut out, &escape(sentence));
    }
    for (term, definition) in &document.definitions {
        out.push_str(&format!("- **{}**: {}\n", escape(term), escape(definition)));
    }
    out
}

/// A block of its own.
fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push_str("\n\n");
}

fn notes(out: &mut String, heading: &str, notes: &[Note], label: fn(Level) -> &'static str) {
    if notes.is_empty() {
        return;
    }
    line(out, &format!("## {heading}"));
    for note in notes {
        out.push_str(&format!("- **{}:** {}\n", label(note.level), escape(&note.text)));
        for (label, more) in [("Evidence", &note.evidence), ("Try", &note.advice)] {
            if let Some(more) = more {
                out.push_str(&format!("  - {label}: {}\n", escape(more)));
            }
        }
    }
    out.push('\n');
}

fn table(out: &mut String, table: &Table) {
    line(out, &escape(&table.caption));
    let (table, omitted) = table.limited(LONGEST_TABLE);
    let heads = table.columns.iter().map(|c| match c.unit {
        "" => escape(&c.head),
        unit => format!("{} ({unit})", escape(&c.head)),
    });
    row(out, heads);
    row(
        out,
        table.columns.iter().map(|c| match c.align {
            Align::Left => "---".to_owned(),
            Align::Right => "---:".to_owned(),
        }),
    );
    for at in 0..table.len() {
        row(
            out,
            table.row(at).map(|(_, cell)| {
                let text = escape(&text::shorten(&cell.text, LONGEST_CELL));
                match &cell.change {
                    Some(change) => format!("{text} ({})", escape(&change.text)),
                    None => text,
                }
            }),
        );
    }
    out.push('\n');
    for note in [table.note.clone(), omitted].into_iter().flatten() {
        line(out, &escape(&note));
    }
}

fn row(out: &mut String, cells: impl Iterator<Item = String>) {
    out.push('|');
    for cell in cells {
        out.push_str(&format!(" {cell} |"));
    }
    out.push('\n');
}

/// `text` so that Markdown shows it as it is, in a table cell too: whatever could start markup, HTML, a link or a formula is escaped.
fn escape(text: &str) -> String {
    let text = text::printable(text);
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len() + 8);
    let word = |at: Option<&char>| at.is_some_and(|c| c.is_alphanumeric());
    for (i, &c) in chars.iter().enumerate() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            // Between letters GitHub leaves an underscore alone, and kernel names are full of them.
            '_' if i > 0 && word(chars.get(i - 1)) && word(chars.get(i + 1)) => out.push('_'),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' => out.extend(['\\', c]),
            // Only at the start of a line, and not before a letter or digit, do these mean something.
            '#' | '+' | '-' | '=' if i == 0 && !word(chars.get(1)) => out.extend(['\\', c]),
            '.' | ')'
                if i > 0
                    && chars[..i].iter().all(char::is_ascii_digit)
                    && !word(chars.get(i + 1)) =>
            {
                out.extend(['\\', c])
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_become_markup() {
        let cases = [
            ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
            ("_private_", "\\_private\\_"),
            ("a|b`c`*d*", "a\\|b\\`c\\`\\*d\\*"),
            ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
            ("[x](javascript:y)", "\\[x\\](javascript:y)"),
            ("a\nb\u{1b}[31m", "a b\\\\u{1b}\\[31m"),
            ("# step", "\\# step"),
            ("1. step", "1\\. step"),
            ("-1.5", "-1.5"),
            ("- x", "\\- x"),
            ("34.6", "34.6"),
            ("$x$ ~~y~~ &amp;", "\\$x\\$ \\~\\~y\\~\\~ &amp;amp;"),
        ];
        for (text, want) in cases {
            assert_eq!(escape(text), want, "{text:?}");
        }
    }
}
