//! A table as data: the terminal, Markdown and HTML print the same columns and cells.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::units::{self, MISSING, TimeScale};

/// A table in columns. All columns have the same number of cells.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    /// What the table shows, as a phrase.
    pub caption: String,
    /// The columns in order; the first names the row.
    pub columns: Vec<Column>,
    /// Rows that take no part in the summaries, printed faintly.
    pub faint: BTreeSet<usize>,
    /// What the table leaves out or how to read it, as a sentence.
    pub note: Option<String>,
    /// Which rows stay where there is room for few.
    pub trim: Trim,
}

/// Which rows of a long table are shown where there is room for few.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Trim {
    /// The first ones: the table is sorted by importance.
    #[default]
    Top,
    /// The first, the last, these, and others evenly spread: the table is sorted by time.
    Spread(Vec<usize>),
}

/// One column.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Heading without the unit.
    pub head: String,
    /// Unit of every cell, with the denominator of a share: `ms`, `% of step`. Empty for texts and counts.
    pub unit: &'static str,
    /// What the column means, as a sentence; may be empty.
    pub help: String,
    /// Where the cells stand.
    pub align: Align,
    /// Where space is short, columns with the highest number go first; 0 stays.
    pub rank: u8,
    /// The cells from top to bottom.
    pub cells: Vec<Cell>,
}

/// Where cells stand in their column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Texts.
    Left,
    /// Numbers.
    Right,
}

/// One cell.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cell {
    /// What is printed. Not yet escaped: it may hold text from a file.
    pub text: String,
    /// What to sort by; texts sort by themselves, a missing number comes last.
    pub sort: Option<f64>,
    /// The long form, if `text` is short for something.
    pub title: Option<String>,
    /// Whether it is good news.
    pub tone: Tone,
    /// How it differs from what it is compared with; printed below or beside it.
    pub change: Option<Change>,
}

/// Whether something is good news; it is never said by colour alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    /// Neither.
    #[default]
    Neutral,
    /// Better than before.
    Good,
    /// Worse than before.
    Bad,
}

/// A difference.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The difference with its sign.
    pub text: String,
    /// Whether it is good news.
    pub tone: Tone,
}

impl Cell {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A number that prints as `text`.
    pub fn number(text: impl Into<String>, sort: f64) -> Self {
        Self { text: text.into(), sort: Some(sort), ..Self::default() }
    }

    /// Nothing was measured.
    pub fn missing() -> Self {
        Self::text(MISSING)
    }

    /// Says whether it is good news.
    #[must_use]
    pub fn with_tone(mut self, tone: Tone) -> Self {
        self.tone = tone;
        self
    }

    /// Adds the long form.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }
}

impl Column {
    /// A column of texts.
    pub fn text<S: Into<String>>(head: &str, cells: impl IntoIterator<Item = S>) -> Self {
        Self::new(head, "", Align::Left, cells.into_iter().map(Cell::text).collect())
    }

    /// A column of times (ns), all in one scale.
    pub fn time(
        head: &str,
        scale: TimeScale,
        cells: impl IntoIterator<Item = Option<i64>>,
    ) -> Self {
        Self::numbers(head, scale.unit, cells, |&ns| {
            Cell::number(scale.number(ns), ns as f64).with_title(format!("{ns} ns"))
        })
    }

    /// A column of shares (0 to 1) in percent; `unit` names the denominator: `% of step`.
    pub fn percent(
        head: &str,
        unit: &'static str,
        cells: impl IntoIterator<Item = Option<f64>>,
    ) -> Self {
        Self::numbers(head, unit, cells, |&share| Cell::number(units::percent_number(share), share))
    }

    /// A column of counts.
    pub fn count(head: &str, cells: impl IntoIterator<Item = Option<u64>>) -> Self {
        Self::numbers(head, "", cells, |&n| Cell::number(units::count(n), n as f64))
    }

    /// A column of sizes, each with its own unit.
    pub fn bytes(head: &str, cells: impl IntoIterator<Item = Option<u64>>) -> Self {
        Self::numbers(head, "", cells, |&n| {
            Cell::number(units::bytes(n), n as f64).with_title(format!("{} bytes", units::count(n)))
        })
    }

    /// A column of bandwidths.
    pub fn bandwidth(head: &str, cells: impl IntoIterator<Item = Option<f64>>) -> Self {
        Self::numbers(head, "GB/s", cells, |&gbs| Cell::number(units::bandwidth_number(gbs), gbs))
    }

    /// A column of numbers of any kind.
    pub fn numbers<T>(
        head: &str,
        unit: &'static str,
        cells: impl IntoIterator<Item = Option<T>>,
        cell: impl Fn(&T) -> Cell,
    ) -> Self {
        let cells = cells
            .into_iter()
            .map(|value| value.as_ref().map_or_else(Cell::missing, &cell))
            .collect();
        Self::new(head, unit, Align::Right, cells)
    }

    /// A column of finished cells.
    pub fn new(head: &str, unit: &'static str, align: Align, cells: Vec<Cell>) -> Self {
        Self { head: head.to_owned(), unit, help: String::new(), align, rank: 0, cells }
    }

    /// Says what the column means.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = help.into();
        self
    }

    /// Lets the column go where space is short: the highest rank first.
    #[must_use]
    pub fn rank(mut self, rank: u8) -> Self {
        self.rank = rank;
        self
    }

    /// True if no cell holds anything.
    pub fn is_blank(&self) -> bool {
        self.cells.iter().all(|cell| cell.text.is_empty() || cell.text == MISSING)
    }
}

impl Table {
    /// A table of these columns.
    pub fn new(caption: impl Into<String>, columns: Vec<Column>) -> Self {
        debug_assert!(
            columns
                .iter()
                .all(|c| columns.first().is_some_and(|first| first.cells.len() == c.cells.len()))
        );
        Self { caption: caption.into(), columns, ..Self::default() }
    }

    /// Without the columns that may go and hold nothing.
    #[must_use]
    pub fn without_blank_columns(mut self) -> Self {
        self.columns.retain(|column| column.rank == 0 || !column.is_blank());
        self
    }

    /// Adds a sentence about the table.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.columns.iter().map(|column| column.cells.len()).min().unwrap_or(0)
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The cells of one row, from left to right.
    pub fn row(&self, row: usize) -> impl Iterator<Item = (&Column, &Cell)> {
        self.columns
            .iter()
            .filter_map(move |column| column.cells.get(row).map(|cell| (column, cell)))
    }

    /// At most `limit` rows, and a sentence about those left out if there are any.
    pub fn limited(&self, limit: usize) -> (Cow<'_, Table>, Option<String>) {
        let len = self.len();
        if len <= limit {
            return (Cow::Borrowed(self), None);
        }
        let (rows, which) = match &self.trim {
            Trim::Top => ((0..limit).collect(), "the first"),
            Trim::Spread(must) => (
                pick(len, limit, must),
                "the first, the last, those that stand out and others evenly spread",
            ),
        };
        let said = format!(
            "{} of {} rows: {which}. JSON has all.",
            units::count(limit as u64),
            units::count(len as u64)
        );
        (Cow::Owned(self.select(&rows)), Some(said))
    }

    /// Only these rows.
    #[must_use]
    fn select(&self, rows: &[usize]) -> Table {
        let pick = |column: &Column| Column {
            cells: rows.iter().filter_map(|&row| column.cells.get(row).cloned()).collect(),
            ..column.clone()
        };
        Table {
            caption: self.caption.clone(),
            columns: self.columns.iter().map(pick).collect(),
            faint: rows
                .iter()
                .enumerate()
                .filter(|(_, row)| self.faint.contains(row))
                .map(|(at, _)| at)
                .collect(),
            note: self.note.clone(),
            trim: Trim::Top,
        }
    }
}

/// At most `limit` of the indices below `len`, ascending: those that `must` be there first (in their order), then the first, the last and
/// others spread evenly.
pub fn pick(len: usize, limit: usize, must: &[usize]) -> Vec<usize> {
    if len <= limit {
        return (0..len).collect();
    }
    let mut picked: BTreeSet<usize> = BTreeSet::new();
    let ends = [0, len - 1];
    for &index in ends.iter().chain(must) {
        if picked.len() < limit && index < len {
            picked.insert(index);
        }
    }
    let slots = limit.max(2) - 1;
    for slot in 0..limit {
        if picked.len() >= limit {
            break;
        }
        picked.insert(slot * (len - 1) / slots);
    }
    picked.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_number_is_a_dash_and_sorts_last() {
        let column =
            Column::time("comm", TimeScale::of([47_400_000]), [Some(47_400_000), None, Some(0)]);
        assert_eq!(column.unit, "ms");
        assert_eq!(
            column.cells.iter().map(|c| c.text.as_str()).collect::<Vec<_>>(),
            ["47.4", "–", "0.0"]
        );
        assert_eq!(
            column.cells.iter().map(|c| c.sort).collect::<Vec<_>>(),
            [Some(47_400_000.0), None, Some(0.0)]
        );
        assert_eq!(column.cells[0].title.as_deref(), Some("47400000 ns"));
    }

    #[test]
    fn only_blank_columns_that_may_go_go() {
        let table = Table::new(
            "t",
            vec![
                Column::count("a", [None]),
                Column::count("b", [None]).rank(1),
                Column::count("c", [Some(0)]).rank(2),
            ],
        )
        .without_blank_columns();
        assert_eq!(table.columns.iter().map(|c| c.head.as_str()).collect::<Vec<_>>(), ["a", "c"]);
    }

    #[test]
    fn a_long_table_says_what_it_leaves_out() {
        let mut table = Table::new("t", vec![Column::text("step", ["a", "b", "c", "d"])]);
        table.faint.insert(3);
        assert_eq!(table.limited(4).1, None);
        let (top, said) = table.limited(2);
        assert_eq!(
            (top.columns[0].cells[1].text.as_str(), said.as_deref()),
            ("b", Some("2 of 4 rows: the first. JSON has all."))
        );
        table.trim = Trim::Spread(vec![]);
        let (ends, _) = table.limited(2);
        assert_eq!(
            (ends.columns[0].cells[1].text.as_str(), &ends.faint),
            ("d", &BTreeSet::from([1]))
        );
    }

    #[test]
    fn picking_keeps_both_ends_and_what_matters() {
        assert_eq!(pick(3, 5, &[]), [0, 1, 2]);
        assert_eq!(pick(1000, 5, &[500, 501]), [0, 249, 500, 501, 999]);
        assert_eq!(pick(10, 4, &[]), [0, 3, 6, 9]);
        assert_eq!(pick(10, 1, &[7]), [0]);
        assert_eq!(pick(10, 0, &[7]), Vec::<usize>::new());
        assert_eq!(pick(0, 4, &[]), Vec::<usize>::new());
        for (len, limit) in [(100, 7), (61, 60), (1000, 60)] {
            assert_eq!(pick(len, limit, &[1, 2, 3]).len(), limit, "{len} {limit}");
        }
    }
}
