//! Rows over one horizontal axis: bars, waterfalls, lanes, boxes, dots and intervals are all marks in such rows.

use super::axis::Axis;
use super::svg::{Anchor, Paint, Sheet, fitted, text_width};
use super::{Ink, LegendEntry};
use crate::model::{Ns, Span};

/// Rows of marks over one axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows {
    /// The axis that all share.
    pub axis: Axis,
    /// The rows from top to bottom.
    pub rows: Vec<Row>,
    /// How high a line of a row is.
    pub thickness: Thickness,
    /// A value that is marked over all rows: the 0 of differences, the 1 of ratios.
    pub reference: Option<f64>,
    /// What colours and shapes stand for.
    pub legend: Vec<LegendEntry>,
    /// Where it stands on the page.
    pub size: Size,
}

/// How high a line of marks is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thickness {
    /// One of several bars side by side.
    Thin,
    /// A bar with text in it.
    Bar,
    /// Room for dots in their order, and for a name and a note.
    Tall,
}

/// How wide a picture is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Size {
    /// As wide as the page.
    #[default]
    Page,
    /// Beside the headline.
    Aside,
}

/// What belongs to one name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Row {
    /// Its name.
    pub label: String,
    /// A few words below the name.
    pub note: String,
    /// Its lines from top to bottom.
    pub lines: Vec<Line>,
}

/// One line of marks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Line {
    /// Its name; may be empty.
    pub label: String,
    /// What is drawn on it.
    pub marks: Vec<Mark>,
    /// What stands behind its last mark.
    pub end: String,
    /// What all of its marks are, if they do not say so one by one.
    pub title: String,
    /// Where a lane ends whose ground is drawn.
    pub ground: Option<f64>,
}

/// Something on a line; places are values of the axis.
#[derive(Debug, Clone, PartialEq)]
pub enum Mark {
    /// A bar.
    Bar {
        /// Where it starts and ends.
        span: (f64, f64),
        /// Its colour.
        paint: Paint,
        /// How much of the line's height it takes, 0 to 1.
        height: f64,
        /// What is written into it where there is room.
        text: String,
        /// What it is.
        title: String,
    },
    /// A dot.
    Dot {
        /// Its value.
        at: f64,
        /// Where in the line's height it stands, 0 (top) to 1.
        height: f64,
        /// Its colour.
        paint: Paint,
        /// What it is.
        title: String,
    },
    /// A vertical stroke: a median.
    Stroke {
        /// Its value.
        at: f64,
        /// What it is.
        title: String,
    },
    /// A horizontal line with ends: an interval.
    Interval {
        /// Where it starts and ends.
        span: (f64, f64),
        /// Its colour.
        ink: Ink,
        /// What it is.
        title: String,
    },
}

impl Mark {
    /// A bar of full height.
    pub fn bar(span: (f64, f64), paint: Paint, text: String, title: String) -> Self {
        Mark::Bar { span, paint, height: 1.0, text, title }
    }

    /// The largest value that it reaches.
    fn end(&self) -> f64 {
        match self {
            Mark::Bar { span, .. } | Mark::Interval { span, .. } => span.0.max(span.1),
            Mark::Dot { at, .. } | Mark::Stroke { at, .. } => *at,
        }
    }
}

/// A part of a bar: colour, length, what is written into it, what it is.
pub(super) type Part = (Paint, f64, String, String);

/// Bars that follow one another from 0 on.
pub fn stacked(parts: impl IntoIterator<Item = Part>) -> Vec<Mark> {
    let mut sum = 0.0;
    let mut mark = |(paint, length, text, title): Part| {
        let from = sum;
        sum += length;
        Mark::bar((from, sum), paint, text, title)
    };
    parts.into_iter().map(&mut mark).collect()
}

/// Columns in which coverage is measured: two SVG units each.
const COLUMNS: usize = 505;
/// Heights by which a column is drawn that is only partly covered.
const LEVELS: i64 = 4;

impl Line {
    /// When something ran, on an axis that ends at `length`; `scale` turns times into values of the axis. Where much happens in
    /// little room, a bar is as high as its part of the time is covered.
    pub fn lane(
        label: &str,
        ink: Ink,
        spans: &[Span],
        (length, own_length): (Ns, Ns),
        scale: impl Fn(Ns) -> f64,
    ) -> Self {
        let at = |column: usize| scale((length as f64 * column as f64 / COLUMNS as f64) as Ns);
        let bar = |(from, to, level): (usize, usize, i64)| Mark::Bar {
            span: (at(from), at(to)),
            paint: Paint::Full(ink),
            height: level as f64 / LEVELS as f64,
            text: String::new(),
            title: String::new(),
        };
        Self {
            label: label.to_owned(),
            marks: coverage(spans, length, COLUMNS).into_iter().map(bar).collect(),
            ground: Some(scale(own_length)),
            ..Self::default()
        }
    }
}

/// How much of each of `columns` equal parts of `[0, length)` the spans cover, in levels, neighbours of one level joined:
/// (first column, column after the last, level). A column that is touched at all has at least the lowest level.
fn coverage(spans: &[Span], length: Ns, columns: usize) -> Vec<(usize, usize, i64)> {
    if length <= 0 || columns == 0 {
        return Vec::new();
    }
    let width = length as f64 / columns as f64;
    let mut covered = vec![0f64; columns];
    for span in spans {
        let (start, end) =
            (span.start.clamp(0, length) as f64 / width, span.end.clamp(0, length) as f64 / width);
        let last = (end.ceil() as usize).min(columns);
        for (column, part) in covered.iter_mut().enumerate().take(last).skip(start as usize) {
            *part += end.min(column as f64 + 1.0) - start.max(column as f64);
        }
    }
    let mut runs: Vec<(usize, usize, i64)> = Vec::new();
    for (column, part) in covered.into_iter().enumerate() {
        let level =
            if part > 0.0 { ((part * LEVELS as f64).round() as i64).clamp(1, LEVELS) } else { 0 };
        match runs.last_mut() {
            _ if level == 0 => {}
            Some(run) if run.1 == column && run.2 == level => run.1 += 1,
            _ => runs.push((column, column + 1, level)),
        }
    }
    runs
}

const GAP: i32 = 4;
const ROW_GAP: i32 = 20;
/// Height of a name that has a line to itself.
const HEADING: i32 = 34;
/// Distance of a note from the name above it.
const NOTE: i32 = 28;
/// Room below for the axis.
const BELOW: i32 = 50;
const RADIUS: i32 = 8;

impl Rows {
    fn line_height(&self) -> i32 {
        match self.thickness {
            Thickness::Thin => 25,
            Thickness::Bar => 38,
            Thickness::Tall => 72,
        }
    }

    /// Left and right end of the axis. Pictures as wide as the page have one left end, so that they compare; beside the headline
    /// there is room for the names, up to two fifths.
    fn sides(&self, width: i32) -> (i32, i32) {
        let lines = || self.rows.iter().flat_map(|row| &row.lines);
        let end = lines().map(|line| text_width(&line.end)).max().unwrap_or(0);
        let names = self.rows.iter().flat_map(|row| [&row.label, &row.note]);
        let longest = names.map(|name| text_width(name)).max().unwrap_or(0);
        let left = match self.size {
            Size::Page => 350,
            Size::Aside => (longest + 28).clamp(120, width * 2 / 5),
        };
        (left, width - (end + 24).clamp(60 + text_width(&self.axis.unit), width / 4))
    }

    pub(super) fn draw(&self, description: &str) -> String {
        let width = if self.size == Size::Page { super::WIDTH } else { super::ASIDE };
        let sides = self.sides(width);
        let heights: Vec<i32> = self.rows.iter().map(|row| self.height(row, sides.0)).collect();
        let bottom = heights.iter().map(|height| height + ROW_GAP).sum::<i32>() + ROW_GAP / 2;
        let mut sheet = Sheet::new(width, bottom + BELOW);
        self.axis.draw_below(&mut sheet, sides, (0, bottom));
        sheet.text(&self.axis.title(), Ink::Muted, Anchor::Right, (width, bottom + 24));
        if let Some(value) = self.reference {
            let x = self.axis.place(value, sides.0, sides.1);
            sheet.line(&[(x, 0), (x, bottom)], Ink::Muted, 3, &self.axis.say(value));
        }
        let mut top = ROW_GAP / 2 + GAP;
        for (row, height) in self.rows.iter().zip(heights) {
            self.draw_row(&mut sheet, row, top, sides);
            top += height + ROW_GAP;
        }
        sheet.finish(description)
    }

    /// Room for the name of a row beside the names of its lines.
    fn room(row: &Row, left: i32) -> i32 {
        let names = row.lines.iter().map(|line| text_width(&line.label)).max().unwrap_or(0);
        if names == 0 { left - 14 } else { left - names - 36 }
    }

    /// True if the name has a line to itself, because it does not fit beside the names of the lines.
    fn has_heading(row: &Row, left: i32) -> bool {
        row.lines.iter().any(|line| !line.label.is_empty())
            && text_width(&row.label) > Self::room(row, left)
    }

    fn height(&self, row: &Row, left: i32) -> i32 {
        let lines = row.lines.len() as i32 * (self.line_height() + GAP);
        lines + if Self::has_heading(row, left) { HEADING } else { 0 }
    }

    fn draw_row(&self, sheet: &mut Sheet, row: &Row, mut top: i32, sides: (i32, i32)) {
        let height = self.line_height();
        let (left, heading) = (sides.0, Self::has_heading(row, sides.0));
        let room = if heading { sides.1 } else { Self::room(row, left) };
        let first = top + if self.thickness == Thickness::Tall { height / 3 } else { height / 2 };
        let name = fitted(&row.label, room);
        sheet.text(&name, Ink::Text, Anchor::Left, (0, first));
        sheet.text(&fitted(&row.note, room), Ink::Muted, Anchor::Left, (0, first + NOTE));
        if heading {
            top += HEADING;
        }
        for line in &row.lines {
            let name = fitted(&line.label, left - 24);
            sheet.text(&name, Ink::Muted, Anchor::Right, (left - 14, top + height / 2));
            if line.title.is_empty() {
                self.draw_line(sheet, line, top, sides);
            } else {
                sheet.group(&line.title, |sheet| self.draw_line(sheet, line, top, sides));
            }
            top += height + GAP;
        }
    }

    fn draw_line(&self, sheet: &mut Sheet, line: &Line, top: i32, (left, right): (i32, i32)) {
        let height = self.line_height();
        let at = |value: f64| self.axis.place(value, left, right);
        if let Some(end) = line.ground {
            sheet.bar((left, top), (at(end), top + height), Paint::Full(Ink::Ground), "");
        }
        for mark in line.marks.iter().filter(|mark| self.axis.can_place(mark.end())) {
            self.draw_mark(sheet, mark, (top, height), &at);
        }
        let end = line.marks.iter().map(Mark::end).fold(f64::NEG_INFINITY, f64::max);
        let is_cut = end > self.axis.range.1 * (1.0 + 1e-9);
        let text = if is_cut { format!("→ {}", line.end) } else { line.end.clone() };
        let from = if end.is_finite() { at(end) } else { left };
        sheet.text(&text, Ink::Text, Anchor::Left, (from + 12, top + height / 2));
    }

    fn draw_mark(
        &self,
        sheet: &mut Sheet,
        mark: &Mark,
        (top, line_height): (i32, i32),
        at: &impl Fn(f64) -> i32,
    ) {
        let middle = top + line_height / 2;
        match mark {
            Mark::Bar { span, paint, height, text, title } => {
                // Too short to be drawn to scale, it is still there.
                let (from, to) = (at(span.0.min(span.1)), at(span.0.max(span.1)));
                let to = if span.0 == span.1 { to } else { to.max(from + 2) };
                let above = (f64::from(line_height) * (1.0 - height)).round() as i32;
                sheet.bar((from, top + above), (to, top + line_height), *paint, title);
                if to - from > text_width(text) + 12 {
                    sheet.inside(text, paint.on(), ((from + to) / 2, middle));
                }
            }
            Mark::Dot { at: value, height, paint, title } => {
                let room = f64::from(line_height - 2 * RADIUS);
                let y = top + RADIUS + (room * height).round() as i32;
                if *value > self.axis.range.1 {
                    sheet.text("→", Ink::Text, Anchor::Right, (at(*value), y));
                } else {
                    sheet.dot((at(*value), y), RADIUS, *paint, title);
                }
            }
            Mark::Stroke { at: value, title } => {
                let x = at(*value);
                sheet.line(&[(x, top - 2), (x, top + line_height + 2)], Ink::Text, 5, title);
            }
            Mark::Interval { span, ink, title } => {
                let ends = [at(span.0), at(span.1)];
                sheet.line(&ends.map(|x| (x, middle)), *ink, 4, title);
                for x in ends {
                    sheet.line(&[(x, middle - 8), (x, middle + 8)], *ink, 4, title);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(marks: Vec<Mark>, range: (f64, f64), end: &str) -> String {
        let line = Line { marks, end: end.into(), ..Line::default() };
        let row = Row { label: "rank 0".into(), lines: vec![line], ..Row::default() };
        let rows = Rows {
            axis: Axis::linear("", "ms", range),
            rows: vec![row],
            thickness: Thickness::Bar,
            reference: None,
            legend: Vec::new(),
            size: Size::Page,
        };
        rows.draw("rows")
    }

    fn part(ink: Ink, length: f64) -> Part {
        (Paint::Full(ink), length, String::new(), String::new())
    }

    #[test]
    fn parts_are_as_long_as_their_values_and_follow_one_another() {
        // The axis has 350 to 1440 - 109 (six characters of 14 units behind the bar, rounded up, and 24) = 1331: 981 units are 100 ms.
        let parts = [part(Ink::Compute, 80.0), part(Ink::Idle, 20.0)];
        let svg = rows(stacked(parts), (0.0, 100.0), "100 ms");
        assert!(
            svg.contains("x=\"350\" y=\"14\" width=\"785\" height=\"38\" class=\"f-compute\""),
            "{svg}"
        );
        assert!(
            svg.contains("x=\"1135\" y=\"14\" width=\"196\" height=\"38\" class=\"f-idle\""),
            "{svg}"
        );
        assert!(svg.contains(">100 ms</text>") && !svg.contains('→'), "{svg}");
    }

    #[test]
    fn a_bar_longer_than_the_axis_is_cut_and_says_so() {
        let parts = [part(Ink::Compute, 80.0), part(Ink::Idle, 2000.0)];
        let svg = rows(stacked(parts), (0.0, 100.0), "2.08 s");
        assert!(svg.contains("x=\"1135\" y=\"14\" width=\"196\""), "{svg}");
        assert!(svg.contains("→ 2.08 s"), "{svg}");
    }

    #[test]
    fn dots_stand_at_their_value_and_beyond_the_axis_as_an_arrow() {
        let dot = |at, paint| Mark::Dot { at, height: 0.5, paint, title: String::new() };
        let marks = vec![
            dot(90.0, Paint::Light(Ink::Compute)),
            dot(100.0, Paint::Frame(Ink::Compute)),
            dot(500.0, Paint::Frame(Ink::Compute)),
        ];
        let svg = rows(marks, (90.0, 110.0), "");
        // The axis has 350 to 1440 - 88 = 1352.
        assert!(
            svg.contains("<circle cx=\"350\" cy=\"33\" r=\"8\" class=\"l-compute\"/>"),
            "{svg}"
        );
        assert!(
            svg.contains("<circle cx=\"851\" cy=\"33\" r=\"8\" class=\"s-compute\"/>"),
            "{svg}"
        );
        assert_eq!((svg.matches("<circle").count(), svg.matches('→').count()), (2, 2), "{svg}");
    }

    #[test]
    fn coverage_is_levelled_not_stretched() {
        // columns   0         1         2         3
        //           |--------- ---------|=   =    |         |   length 40 ns, 10 ns a column
        let spans = [Span::new(0, 20), Span::new(20, 21), Span::new(24, 25)];
        assert_eq!(coverage(&spans, 40, 4), [(0, 2, 4), (2, 3, 1)]);
        assert_eq!(coverage(&[Span::new(35, 90)], 40, 4), [(3, 4, 2)]);
        assert_eq!(coverage(&[Span::new(-5, 1)], 40, 4), [(0, 1, 1)]);
        assert_eq!(coverage(&[], 40, 4), []);
        assert_eq!(coverage(&[Span::new(0, 1)], 0, 4), []);
    }

    #[test]
    fn lanes_stand_at_their_time() {
        let spans = [Span::new(200, 1000)];
        let line = Line::lane("communication", Ink::Comm, &spans, (1000, 1000), |ns| ns as f64);
        // A column is 1000 / 505 ns: 200 ns are 101 of them.
        let Some(Mark::Bar { span, height, .. }) = line.marks.first() else { panic!("a bar") };
        assert_eq!((span.0, span.1, *height), (200.0, 1000.0, 1.0));
        assert_eq!((line.marks.len(), line.ground), (1, Some(1000.0)));
    }

    #[test]
    fn a_name_that_is_too_long_has_a_line_to_itself() {
        let line = Line { label: "compute".into(), ..Line::default() };
        let row =
            |label: &str| Row { label: label.into(), lines: vec![line.clone()], ..Row::default() };
        assert!(!Rows::has_heading(&row("rank 0"), 350));
        assert!(Rows::has_heading(&row("ddp-2gpu-bf16: Batch 7, rank 0"), 350));
    }
}
