//! A document for a terminal: sentences wrapped, tables that fit the width without breaking a number.

use anstyle::{AnsiColor, Style as Ansi};
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, TableStyle};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::Style;
use super::document::{Block, Document, Entry, Level, Note, Section};
use super::table::{Align, Cell, Column, Table, Tone};
use crate::{text, units};

/// Rows of a table; longer ones are thinned out.
const LONGEST_TABLE: usize = 24;
/// Rows of a table, findings and warnings on the first screen.
const FIRST_ROWS: usize = 8;
const FIRST_NOTES: usize = 3;
/// Findings on the first screen that always have what to try, and lines after which others do without.
const FIRST_ADVISED: usize = 2;
const FIRST_LINES: usize = 20;
/// Texts are shortened to this before a column is left out.
const SHORT_TEXT: usize = 20;
/// Texts are shortened to this if leaving out columns did not suffice.
const SHORTEST_TEXT: usize = 6;
/// Blanks on both sides of a cell.
const PADDING: usize = 2;
const LOOK: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─'));

const BOLD: Ansi = Ansi::new().bold();
const FAINT: Ansi = Ansi::new().dimmed();

/// Prints a document: all of it, or the answer and what to do about it.
pub fn print(document: &Document, style: &Style) -> String {
    let mut out = Printer { text: String::new(), style: *style };
    let title = std::iter::once(&document.title)
        .chain(&document.facts)
        .map(|s| text::printable(s))
        .collect::<Vec<_>>()
        .join(" · ");
    out.paragraph(&title, "", BOLD);
    out.blank();
    for (i, sentence) in document.headline.iter().enumerate() {
        out.paragraph(&text::printable(sentence), "", if i == 0 { BOLD } else { Ansi::new() });
    }
    if style.full {
        everything(&mut out, document);
    } else {
        answer(&mut out, document);
    }
    out.text
}

/// The most important findings and what to try, what belongs to the answer, and how much more there is.
fn answer(out: &mut Printer, document: &Document) {
    let findings = document.findings.iter().take(FIRST_NOTES);
    let warnings = document.warnings.iter().take(FIRST_NOTES);
    if findings.len() > 0 {
        out.blank();
    }
    for (i, note) in findings.enumerate() {
        let has_room = i < FIRST_ADVISED || out.text.lines().count() < FIRST_LINES;
        let advice = note.advice.clone().filter(|_| has_room);
        out.note(&Note { evidence: None, advice, ..note.clone() }, note.level.label());
    }
    for section in document.sections.iter().filter(|section| section.key) {
        out.section(section, FIRST_ROWS);
    }
    if warnings.len() > 0 {
        out.blank();
    }
    for note in warnings {
        out.note(&Note { advice: None, evidence: None, ..note.clone() }, "Warning");
    }
    let evidence = document.findings.iter().any(|note| note.evidence.is_some());
    let rest = [
        (document.findings.len().saturating_sub(FIRST_NOTES), "more finding"),
        (document.warnings.len().saturating_sub(FIRST_NOTES), "more warning"),
        (document.sections.iter().filter(|section| !section.key).count(), "more section"),
    ];
    let rest: Vec<String> = rest
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| units::plural(n, what))
        .chain(evidence.then(|| "the evidence".to_owned()))
        .chain((!document.definitions.is_empty()).then(|| "definitions".to_owned()))
        .collect();
    if !rest.is_empty() {
        out.blank();
        out.paragraph(&format!("--full also prints {}.", rest.join(", ")), "", FAINT);
    }
}

/// All findings, sections, warnings and definitions.
fn everything(out: &mut Printer, document: &Document) {
    if !document.findings.is_empty() {
        out.blank();
    }
    for note in &document.findings {
        out.note(note, note.level.label());
    }
    for section in &document.sections {
        out.section(section, LONGEST_TABLE);
    }
    if !document.warnings.is_empty() {
        out.blank();
        out.paragraph("Warnings", "", BOLD);
    }
    for note in &document.warnings {
        out.note(note, "Warning");
    }
    out.blank();
    for sentence in &document.method {
        out.paragraph(&text::printable(sentence), "", FAINT);
    }
    for (term, definition) in &document.definitions {
        out.paragraph(
            &format!("{}: {}", text::printable(term), text::printable(definition)),
            "  ",
            FAINT,
        );
    }
}

/// A sentence as it stands behind a colon: `Medians over` is `medians over`, `NCCL's` stays.
fn uncapital(sentence: &str) -> String {
    let mut letters = sentence.chars();
    match (letters.next(), letters.clone().next()) {
        (Some(first), Some(second)) if second.is_lowercase() => {
            first.to_lowercase().chain(letters).collect()
        }
        _ => sentence.to_owned(),
    }
}

struct Printer {
    text: String,
    style: Style,
}

impl Printer {
    /// One empty line, never two.
    fn blank(&mut self) {
        if !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    fn line(&mut self, line: &str, look: Ansi) {
        if self.style.color && look != Ansi::new() && !line.is_empty() {
            self.text.push_str(&format!("{look}{line}{look:#}"));
        } else {
            self.text.push_str(line);
        }
        self.text.push('\n');
    }

    /// Wrapped text; every line after the first starts with `indent`.
    fn paragraph(&mut self, text: &str, indent: &str, look: Ansi) {
        for line in wrap(text, self.style.width, indent) {
            self.line(&line, look);
        }
    }

    /// A heading and what is below it, tables of at most `rows` rows.
    fn section(&mut self, section: &Section, rows: usize) {
        let blocks = || section.blocks.iter().filter(|block| !block.is_for_pages());
        if blocks().next().is_some() {
            self.blank();
        }
        // A heading and what its table shows are one line, if they fit.
        let heading = text::printable(&section.heading);
        let mut blocks = blocks().peekable();
        let both = match blocks.peek() {
            Some(Block::Table(table)) if !self.style.full => {
                let both = format!("{heading}: {}", text::printable(&uncapital(&table.caption)));
                (both.width() <= self.style.width && !table.caption.is_empty()).then_some(both)
            }
            _ => None,
        };
        match (&both, blocks.peek()) {
            (Some(both), _) => self.paragraph(both, "", BOLD),
            (None, Some(_)) => self.paragraph(&heading, "", BOLD),
            (None, None) => {}
        }
        let mut captioned = both.is_some();
        for block in blocks {
            match block {
                Block::Text(sentence) => {
                    self.paragraph(&text::printable(sentence), "", Ansi::new())
                }
                Block::Table(table) => {
                    if !std::mem::take(&mut captioned) {
                        self.paragraph(&text::printable(&table.caption), "", FAINT);
                    }
                    self.table(table, rows);
                }
                Block::Command(words) => self.command(words),
                Block::Entries(entries) => entries.iter().for_each(|entry| self.entry(entry)),
                Block::Records(table) => {
                    record_entries(table).iter().for_each(|entry| self.entry(entry))
                }
                Block::Details(_) | Block::Figure(_) | Block::Figures(_) | Block::Timeline(..) => {}
            }
        }
    }

    fn note(&mut self, note: &Note, label: &str) {
        let color = match note.level {
            Level::High => AnsiColor::Red,
            Level::Medium => AnsiColor::Yellow,
            Level::Info => AnsiColor::Blue,
        };
        let look = color.on_default();
        let text = format!("! {label}: {}", text::printable(&note.text));
        self.paragraph(&text, "  ", look.bold());
        for (label, more) in [("Evidence", &note.evidence), ("Try", &note.advice)] {
            if let Some(more) = more {
                self.paragraph(
                    &format!("  {label}: {}", text::printable(more)),
                    "    ",
                    Ansi::new(),
                );
            }
        }
    }

    fn toned(&self, cell: comfy_table::Cell, tone: Tone) -> comfy_table::Cell {
        match tone {
            Tone::Good if self.style.color => cell.fg(comfy_table::Color::Green),
            Tone::Bad if self.style.color => cell.fg(comfy_table::Color::Red),
            _ => cell,
        }
    }

    /// A command that can be copied from here: where it goes on in the next line, a backslash says so to the shell.
    fn command(&mut self, words: &[String]) {
        let mut line = String::new();
        let mut words = words.iter().map(|word| text::printable(word)).peekable();
        while let Some(word) = words.next() {
            // An option stays with its value.
            let value = words.next_if(|next| word.starts_with("--") && !next.starts_with('-'));
            let word = value.map_or_else(|| word.to_string(), |value| format!("{word} {value}"));
            // Room for the blank before the word and the backslash behind it.
            if line.is_empty() {
                line = word;
            } else if line.width() + word.width() + 3 > self.style.width {
                self.line(&format!("{line} \\"), Ansi::new());
                line = format!("    {word}");
            } else {
                line = format!("{line} {word}");
            }
        }
        self.line(&line, Ansi::new());
        self.blank();
    }

    /// A name in its colour, then its text.
    fn entry(&mut self, entry: &Entry) {
        let name = text::printable(&entry.name);
        for (i, line) in
            wrap(&format!("{name}: {}", text::printable(&entry.text)), self.style.width, "  ")
                .iter()
                .enumerate()
        {
            match line.strip_prefix(name.as_ref()) {
                Some(rest) if i == 0 && self.style.color => {
                    let look = entry.tone.look().bold();
                    self.text.push_str(&format!("{look}{name}{look:#}{rest}\n"));
                }
                _ => self.line(line, Ansi::new()),
            }
        }
    }

    fn table(&mut self, table: &Table, rows: usize) {
        let (table, omitted_rows) = table.limited(rows);
        let (columns, omitted_columns) = fit(&table, self.style.width);
        let units = columns.iter().any(|(column, _)| !column.unit.is_empty());
        let mut grid = comfy_table::Table::new();
        grid.load_style(LOOK).set_content_arrangement(ContentArrangement::Disabled);
        grid.set_header(columns.iter().map(|(column, width)| {
            let head = cut(&column.head, *width);
            cell(if units { format!("{head}\n{}", column.unit) } else { head }, column)
        }));
        let mut looks = vec![BOLD; if units { 2 } else { 1 }];
        looks.push(Ansi::new());
        for row in 0..table.len() {
            grid.add_row(columns.iter().map(|(column, width)| match column.cells.get(row) {
                Some(c) => self.toned(cell(cut(&text::printable(&c.text), *width), column), c.tone),
                None => cell(String::new(), column),
            }));
            looks.push(if table.faint.contains(&row) { FAINT } else { Ansi::new() });
            let changes = || {
                columns.iter().map(|(column, width)| {
                    (column, width, column.cells.get(row).and_then(|c| c.change.as_ref()))
                })
            };
            if changes().any(|(.., change)| change.is_some()) {
                grid.add_row(changes().map(|(column, width, change)| match change {
                    Some(change) => self.toned(
                        cell(cut(&text::printable(&change.text), *width), column),
                        change.tone,
                    ),
                    None => cell(String::new(), column),
                }));
                looks.push(Ansi::new());
            }
        }
        if self.style.color {
            grid.enforce_styling();
        }
        for (i, line) in grid.lines().enumerate() {
            let look = looks.get(i).copied().unwrap_or_default();
            self.line(line.trim_end(), look);
        }
        let columns_note = (!omitted_columns.is_empty()).then(|| {
            format!(
                "Left out at {} columns: {}.",
                self.style.width,
                text::printable(&omitted_columns.join(", "))
            )
        });
        for note in [table.note.clone(), omitted_rows, columns_note].into_iter().flatten() {
            self.paragraph(&text::printable(&note), "", FAINT);
        }
        self.blank();
    }
}

/// Each row as its first cell and a sentence a cell, with its column's heading before it.
fn record_entries(table: &Table) -> Vec<Entry> {
    let entry = |row| {
        let mut cells = table.row(row);
        let name = cells.next().map_or_else(String::new, |(_, cell)| cell.text.clone());
        let tone = table
            .row(row)
            .map(|(_, cell)| cell.tone)
            .find(|tone| *tone != Tone::Neutral)
            .unwrap_or_default();
        let filled = cells.filter(|(_, cell)| !cell.text.is_empty());
        let text = filled
            .map(|(column, cell)| format!("{}: {}", column.head, cell.text))
            .collect::<Vec<_>>()
            .join("; ");
        Entry { name, text, tone }
    };
    (0..table.len()).map(entry).collect()
}

impl Tone {
    fn look(self) -> Ansi {
        match self {
            Tone::Neutral => Ansi::new(),
            Tone::Good => AnsiColor::Green.on_default(),
            Tone::Bad => AnsiColor::Red.on_default(),
        }
    }
}

fn cell(text: String, column: &Column) -> comfy_table::Cell {
    comfy_table::Cell::new_owned(text).set_alignment(match column.align {
        Align::Left => CellAlignment::Left,
        Align::Right => CellAlignment::Right,
    })
}

/// The columns that fit into `width` with the width of each, and the headings of those left out. Numbers are never cut:
/// first texts are shortened, then columns go (the highest rank first, of equals the rightmost), then texts are shortened more.
fn fit(table: &Table, width: usize) -> (Vec<(&Column, usize)>, Vec<String>) {
    let mut columns: Vec<(&Column, usize)> =
        table.columns.iter().map(|column| (column, natural_width(column))).collect();
    let mut omitted = Vec::new();
    loop {
        let mut fitted = columns.clone();
        if squeeze(&mut fitted, width, SHORT_TEXT) {
            return (fitted, omitted);
        }
        let last = columns
            .iter()
            .enumerate()
            .filter(|(_, (column, _))| column.rank > 0)
            .max_by_key(|(at, (column, _))| (column.rank, *at));
        let Some((at, _)) = last else {
            squeeze(&mut columns, width, SHORTEST_TEXT);
            return (columns, omitted);
        };
        let (column, _) = columns.remove(at);
        omitted.push(if column.unit.is_empty() {
            column.head.clone()
        } else {
            format!("{} ({})", column.head, column.unit)
        });
    }
}

/// Shortens the widest text columns, none below `shortest`, until all fit; false if they do not.
fn squeeze(columns: &mut [(&Column, usize)], width: usize, shortest: usize) -> bool {
    loop {
        let total: usize = columns.iter().map(|(_, w)| w + PADDING).sum();
        if total <= width {
            return true;
        }
        let widest = columns
            .iter_mut()
            .filter(|(column, w)| column.align == Align::Left && *w > shortest)
            .max_by_key(|(_, w)| *w);
        let Some((_, w)) = widest else { return false };
        *w = (*w).saturating_sub(total - width).max(shortest);
    }
}

fn natural_width(column: &Column) -> usize {
    let width = |cell: &Cell| {
        text::printable(&cell.text)
            .width()
            .max(cell.change.as_ref().map_or(0, |c| text::printable(&c.text).width()))
    };
    let cells = column.cells.iter().map(width).max().unwrap_or(0);
    cells.max(column.head.width()).max(column.unit.width())
}

/// `text` in at most `width` columns, with `…` in place of the rest.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        out.push(c);
    }
    out.push('…');
    out
}

/// Breaks text between words into lines of at most `width` columns; a longer word is broken where it must be.
fn wrap(text: &str, width: usize, indent: &str) -> Vec<String> {
    let width = width.max(indent.width() + 8);
    let leading: String = text.chars().take_while(|c| *c == ' ').collect();
    let mut lines = Vec::new();
    let mut line = leading;
    let mut empty = true;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        if !empty && line.width() + 1 + word.width() > width {
            lines.push(std::mem::replace(&mut line, indent.to_owned()));
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        for c in word.chars() {
            if line.width() + c.width().unwrap_or(0) > width {
                lines.push(std::mem::replace(&mut line, indent.to_owned()));
            }
            line.push(c);
        }
        empty = false;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::units::TimeScale;

    fn table() -> Table {
        let scale = TimeScale::of([137_600_000]);
        Table::new(
            "Ranks",
            vec![
                Column::count("rank", [Some(0), Some(1)]),
                Column::text(
                    "kernel",
                    ["ncclDevKernel_AllReduce_Sum_f32_RING_LL", "gemm\u{1b}[31m"],
                )
                .rank(1),
                Column::time("step", scale, [Some(137_600_000), None]),
                Column::percent("comm", "% of step", [Some(0.346), Some(0.0)]).rank(2),
            ],
        )
    }

    fn printed(width: usize) -> String {
        let mut out =
            Printer { text: String::new(), style: Style { width, color: false, full: true } };
        out.table(&table(), LONGEST_TABLE);
        out.text
    }

    #[test]
    fn a_table_shortens_texts_before_it_drops_columns_and_never_cuts_numbers() {
        insta::assert_snapshot!(
            [80, 60, 44, 30, 10].map(|w| format!("[{w}]\n{}", printed(w))).join("\n")
        );
    }

    #[test]
    fn every_line_fits_where_it_can() {
        for width in 34..100 {
            for line in printed(width).lines() {
                assert!(line.width() <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn text_wraps_between_words_and_breaks_only_words_that_are_too_long() {
        assert_eq!(wrap("! one two three", 9, "  "), ["! one two", "  three"]);
        assert_eq!(wrap("  Try: x", 20, "    "), ["  Try: x"]);
        assert_eq!(wrap("aaaaaaaaaaaaaaa", 10, ""), ["aaaaaaaaaa", "aaaaa"]);
        assert_eq!(wrap("", 10, ""), [""]);
    }

    #[test]
    fn wide_characters_count_twice() {
        assert_eq!(cut("日本語", 6), "日本語");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("abc", 2), "a…");
    }

    #[test]
    fn colour_only_when_asked() {
        let mut out =
            Printer { text: String::new(), style: Style { width: 80, color: true, full: true } };
        out.table(&table(), LONGEST_TABLE);
        assert!(out.text.contains("\u{1b}[1m"));
        assert!(!printed(80).contains('\u{1b}'));
    }
}
