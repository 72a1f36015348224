//! The sheet that pictures are drawn on: plotters' SVG with its colours turned into CSS classes.

use std::io;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::Ink;
use crate::text;

/// Width of every picture in SVG units. The page shows it at about half, so that a unit is finer than a pixel.
pub(super) const WIDTH: i32 = 1440;
/// Size of text in SVG units.
pub(super) const FONT: f64 = 25.0;
/// plotters divides a font's size by this before it writes it.
const PLOTTERS_FONT_DIVISOR: f64 = 1.24;
/// Red and green of the colours that stand for inks until [`finish`] names them; blue is the ink's number.
const MARKER: (u8, u8) = (1, 2);

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(super) type Drawn = Result<(), DrawingAreaErrorKind<io::Error>>;

impl Ink {
    /// The colour that stands for this ink while plotters draws.
    pub(super) fn color(self) -> RGBColor {
        let number = Ink::ALL.iter().position(|&ink| ink == self).unwrap_or_default();
        RGBColor(MARKER.0, MARKER.1, number as u8)
    }
}

/// Where a text stands relative to its point.
#[derive(Debug, Clone, Copy)]
pub(super) enum Anchor {
    Left,
    Middle,
    Right,
}

/// The style of a text, vertically centred on its point.
pub(super) fn text_style(ink: Ink, anchor: Anchor) -> TextStyle<'static> {
    let h_pos = match anchor {
        Anchor::Left => HPos::Left,
        Anchor::Middle => HPos::Center,
        Anchor::Right => HPos::Right,
    };
    TextStyle {
        font: ("sans-serif", FONT * PLOTTERS_FONT_DIVISOR).into_font(),
        color: ink.color().to_backend_color(),
        pos: Pos::new(h_pos, VPos::Center),
    }
}

/// Writes a text; whatever could disguise it is made visible first.
pub(super) fn write(area: &Area, what: &str, ink: Ink, anchor: Anchor, at: (i32, i32)) -> Drawn {
    area.draw_text(&text::printable(what), &text_style(ink, anchor), at)
}

/// Fills a rectangle; one without width or height is not drawn.
pub(super) fn fill(area: &Area, from: (i32, i32), to: (i32, i32), ink: Ink, alpha: f64) -> Drawn {
    if to.0 <= from.0 || to.1 <= from.1 {
        return Ok(());
    }
    area.draw(&Rectangle::new([from, to], ink.color().mix(alpha).filled()))
}

/// About how wide a text is, in SVG units: digits are 0.56 em in the usual sans-serif fonts.
pub(super) fn text_width(what: &str) -> i32 {
    (unicode_width::UnicodeWidthStr::width(what) as f64 * FONT * 0.56).ceil() as i32
}

/// Draws a picture of this height.
pub(super) fn draw(height: i32, description: &str, draw: impl FnOnce(&Area) -> Drawn) -> String {
    let mut svg = String::new();
    let size = (WIDTH as u32, height.max(1) as u32);
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        // Writing to a string does not fail; if it did, the picture would end early.
        let _ = draw(&area).and_then(|()| area.present());
    }
    finish(&svg, size, description)
}

/// Names the colours and gives the picture its accessible name.
fn finish(svg: &str, (width, height): (u32, u32), description: &str) -> String {
    let body = svg.split_once('>').map_or("", |(_, body)| body);
    let mut body = body
        .replace(" opacity=\"1\"", "")
        .replace(" font-family=\"sans-serif\"", "")
        .replace(" stroke=\"none\"", "");
    for &ink in &Ink::ALL {
        let RGBColor(r, g, b) = ink.color();
        for (attribute, class) in [("fill", "f"), ("stroke", "s")] {
            body = body.replace(
                &format!("{attribute}=\"#{r:02X}{g:02X}{b:02X}\""),
                &format!("class=\"{class}-{}\"", ink.name()),
            );
        }
    }
    let mut label = String::with_capacity(description.len());
    for c in text::printable(description).chars() {
        match c {
            '&' => label.push_str("&amp;"),
            '<' => label.push_str("&lt;"),
            '>' => label.push_str("&gt;"),
            '"' => label.push_str("&quot;"),
            c => label.push(c),
        }
    }
    format!(
        "<svg class=\"plot\" role=\"img\" aria-label=\"{label}\" viewBox=\"0 0 {width} {height}\" xmlns=\"http://www.w3.org/2000/svg\">{body}"
    )
}

/// Round positions from 0 up to `max`, about `count` of them: steps of 1, 2 or 5 times a power of ten.
pub(super) fn ticks(max: f64, count: usize) -> Vec<f64> {
    if max > 0.0 { ticks_between((0.0, max), count) } else { vec![0.0] }
}

/// Round positions in a range, about `count` of them.
fn ticks_between((from, to): (f64, f64), count: usize) -> Vec<f64> {
    if !from.is_finite() || !to.is_finite() || to <= from {
        return vec![0.0];
    }
    let raw = (to - from) / count.max(1) as f64;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|m| m * power)
        .find(|&step| step >= raw)
        .unwrap_or(raw);
    let first = (from / step).ceil();
    (0..4 * count.max(1))
        .map(|i| (first + i as f64) * step)
        .take_while(|&tick| tick <= to)
        .collect()
}

/// A tick without trailing zeros.
pub(super) fn tick_text(tick: f64) -> String {
    let text = format!("{tick:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A vertical grid over an axis from 0 to `max`, with its labels below and the unit to the right of them.
pub(super) fn time_axis(area: &Area, x: (i32, i32), y: (i32, i32), max: f64, unit: &str) -> Drawn {
    grid(area, x, y, (0.0, max), &ticks(max, 6), unit)
}

/// A vertical grid over an axis that need not start at 0, with its labels below.
pub(super) fn axis(
    area: &Area,
    x: (i32, i32),
    y: (i32, i32),
    range: (f64, f64),
    unit: &str,
) -> Drawn {
    grid(area, x, y, range, &ticks_between(range, 6), unit)
}

fn grid(
    area: &Area,
    (left, right): (i32, i32),
    (top, bottom): (i32, i32),
    (from, to): (f64, f64),
    ticks: &[f64],
    unit: &str,
) -> Drawn {
    for &tick in ticks {
        let x = left
            + ((tick - from) / (to - from).max(f64::MIN_POSITIVE) * f64::from(right - left)).round()
                as i32;
        area.draw(&PathElement::new([(x, top), (x, bottom)], Ink::Grid.color().stroke_width(2)))?;
        write(area, &tick_text(tick), Ink::Muted, Anchor::Middle, (x, bottom + 22))?;
    }
    write(area, unit, Ink::Muted, Anchor::Left, (right + 44, bottom + 22))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_end_before_the_maximum() {
        assert_eq!(ticks(137.6, 6), [0.0, 50.0, 100.0]);
        assert_eq!(ticks(120.0, 6), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0, 120.0]);
        assert_eq!(ticks(0.0, 6), [0.0]);
        assert_eq!(ticks(f64::NAN, 6), [0.0]);
        assert_eq!(ticks(f64::INFINITY, 6), [0.0]);
        assert_eq!(ticks_between((-12.0, 31.0), 6), [-10.0, 0.0, 10.0, 20.0, 30.0]);
        assert_eq!(ticks_between((89.3, 90.7), 6), [89.5, 90.0, 90.5]);
        assert_eq!([0.5, 20.0, 0.0, 0.002].map(tick_text), ["0.5", "20", "0", "0.002"]);
    }

    #[test]
    fn colours_become_classes_and_text_cannot_break_out() {
        let svg = draw(100, "a \"b\" <c>", |area| {
            fill(area, (0, 0), (10, 10), Ink::Compute, 1.0)?;
            write(area, "</svg><script>\u{1b}[31m", Ink::Text, Anchor::Left, (0, 0))
        });
        assert!(svg.contains("class=\"f-compute\""), "{svg}");
        assert!(svg.contains("aria-label=\"a &quot;b&quot; &lt;c&gt;\""));
        assert!(svg.contains("&lt;/svg&gt;&lt;script&gt;\\u{1b}[31m"));
        assert!(!svg.contains("#0102"), "a colour was left over: {svg}");
    }
}
