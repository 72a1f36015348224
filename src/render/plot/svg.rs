//! The primitives of every picture: bars, lines, dots and texts on a sheet, written as SVG. Colours are classes from the start.

use std::fmt::Write;

use super::Ink;
use crate::text;

/// Size of text in SVG units; the page's style sheet says the same.
const FONT: f64 = 25.0;

/// A place on the sheet in SVG units, from the upper left corner.
pub(super) type Point = (i32, i32);

/// How a shape is painted. Each has a full outline or is full, so that it stands out from the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// Filled.
    Full(Ink),
    /// Filled lightly, with its outline.
    Light(Ink),
    /// Its outline alone.
    Frame(Ink),
}

impl Paint {
    /// The class of the page's style sheet.
    fn class(self) -> String {
        match self {
            Paint::Full(ink) => format!("f-{}", ink.name()),
            Paint::Light(ink) => format!("l-{}", ink.name()),
            Paint::Frame(ink) => format!("s-{}", ink.name()),
        }
    }

    /// The ink of text that stands on it.
    pub(super) fn on(self) -> Ink {
        match self {
            Paint::Full(ink) => ink.on(),
            Paint::Light(_) | Paint::Frame(_) => Ink::Text,
        }
    }
}

/// Where a text stands relative to its point.
#[derive(Debug, Clone, Copy)]
pub(super) enum Anchor {
    /// It starts there.
    Left,
    /// Its middle is there.
    Middle,
    /// It ends there.
    Right,
}

/// A sheet that is drawn on.
pub(super) struct Sheet {
    width: i32,
    height: i32,
    body: String,
}

impl Sheet {
    pub(super) fn new(width: i32, height: i32) -> Self {
        Self { width, height, body: String::new() }
    }

    /// The picture as an `svg` element; `description` is read to those who cannot see it.
    pub(super) fn finish(self, description: &str) -> String {
        let Self { width, height, body } = self;
        let label = escape(description);
        format!(
            "<svg class=\"plot\" role=\"img\" aria-label=\"{label}\" viewBox=\"0 0 {width} {height}\" style=\"--width:{width}\" xmlns=\"http://www.w3.org/2000/svg\">\n{body}</svg>"
        )
    }

    /// A rectangle; one without width or height is not drawn.
    pub(super) fn bar(&mut self, from: Point, to: Point, paint: Paint, title: &str) {
        let (width, height) = (to.0 - from.0, to.1 - from.1);
        if width > 0 && height > 0 {
            let shape = format!(
                "rect x=\"{}\" y=\"{}\" width=\"{width}\" height=\"{height}\"",
                from.0, from.1
            );
            self.shape("rect", &shape, &paint.class(), title);
        }
    }

    /// A dot.
    pub(super) fn dot(&mut self, at: Point, radius: i32, paint: Paint, title: &str) {
        let shape = format!("circle cx=\"{}\" cy=\"{}\" r=\"{radius}\"", at.0, at.1);
        self.shape("circle", &shape, &paint.class(), title);
    }

    /// A line from point to point.
    pub(super) fn line(&mut self, points: &[Point], ink: Ink, width: i32, title: &str) {
        let shape = format!("polyline points=\"{}\" stroke-width=\"{width}\"", list(points));
        self.shape("polyline", &shape, &format!("s-{}", ink.name()), title);
    }

    /// A closed shape.
    pub(super) fn polygon(&mut self, points: &[Point], paint: Paint, title: &str) {
        let shape = format!("polygon points=\"{}\"", list(points));
        self.shape("polygon", &shape, &paint.class(), title);
    }

    /// A text, vertically centred on its point, with a margin that keeps lines behind it off its letters.
    pub(super) fn text(&mut self, what: &str, ink: Ink, anchor: Anchor, at: Point) {
        self.write(what, ink, anchor, at, "");
    }

    /// A text inside a filled shape.
    pub(super) fn inside(&mut self, what: &str, ink: Ink, at: Point) {
        self.write(what, ink, Anchor::Middle, at, " in");
    }

    /// What is drawn by `draw` has one title together.
    pub(super) fn group(&mut self, title: &str, draw: impl FnOnce(&mut Self)) {
        let _ = writeln!(self.body, "<g><title>{}</title>", escape(title));
        draw(self);
        self.body.push_str("</g>\n");
    }

    fn write(&mut self, what: &str, ink: Ink, anchor: Anchor, (x, y): Point, more: &str) {
        if what.is_empty() {
            return;
        }
        let place = match anchor {
            Anchor::Left => "",
            Anchor::Middle => " m",
            Anchor::Right => " e",
        };
        // Writing to a string does not fail.
        let _ = writeln!(
            self.body,
            "<text x=\"{x}\" y=\"{y}\" class=\"f-{}{place}{more}\">{}</text>",
            ink.name(),
            escape(what)
        );
    }

    fn shape(&mut self, name: &str, shape: &str, class: &str, title: &str) {
        let _ = if title.is_empty() {
            writeln!(self.body, "<{shape} class=\"{class}\"/>")
        } else {
            let title = escape(title);
            writeln!(self.body, "<{shape} class=\"{class}\"><title>{title}</title></{name}>")
        };
    }
}

/// About how wide a text is, in SVG units: digits are 0.56 em in the usual sans-serif fonts.
pub(super) fn text_width(what: &str) -> i32 {
    (unicode_width::UnicodeWidthStr::width(what) as f64 * FONT * 0.56).ceil() as i32
}

/// A text that is not wider than this.
pub(super) fn fitted(what: &str, width: i32) -> String {
    let printable = text::printable(what);
    text::shorten(&printable, (f64::from(width.max(0)) / FONT / 0.56) as usize).into_owned()
}

fn list(points: &[Point]) -> String {
    points.iter().map(|(x, y)| format!("{x},{y}")).collect::<Vec<_>>().join(" ")
}

/// Whatever could disguise a text or break out of it is made visible.
fn escape(what: &str) -> String {
    let mut out = String::with_capacity(what.len());
    for c in text::printable(what).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out_of_a_picture() {
        let mut sheet = Sheet::new(100, 50);
        sheet.bar((0, 0), (10, 10), Paint::Full(Ink::Compute), "a <b>");
        sheet.text("</svg><script>\u{1b}[31m", Ink::Text, Anchor::Right, (90, 0));
        let svg = sheet.finish("a \"b\" <c>");
        assert!(svg.contains("aria-label=\"a &quot;b&quot; &lt;c&gt;\""), "{svg}");
        assert!(svg.contains("class=\"f-compute\"><title>a &lt;b&gt;</title></rect>"), "{svg}");
        assert!(svg.contains("class=\"f-text e\">&lt;/svg&gt;&lt;script&gt;\\u{1b}[31m</text>"));
    }

    #[test]
    fn a_bar_without_width_is_not_drawn() {
        let mut sheet = Sheet::new(100, 50);
        sheet.bar((5, 0), (5, 10), Paint::Full(Ink::Idle), "");
        assert!(!sheet.finish("").contains("<rect"));
    }

    #[test]
    fn a_text_is_cut_where_there_is_no_room() {
        // 14 units a character.
        assert_eq!(fitted("Batch 5", 100), "Batch 5");
        assert_eq!(fitted("Batch 12345", 100), "Batch …");
    }
}
