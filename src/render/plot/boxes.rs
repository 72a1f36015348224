//! Box plots on one axis: the spread of several samples side by side.

use plotters::prelude::{Color, PathElement};

use super::canvas::{self, Anchor, Drawn, WIDTH};
use super::grouped::LEFT;
use super::{Ink, LegendEntry};
use crate::text;

/// Box plots on one axis that starts at 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Boxes {
    /// Unit of the axis.
    pub unit: &'static str,
    /// The samples from top to bottom.
    pub rows: Vec<BoxRow>,
}

/// One sample.
#[derive(Debug, Clone, PartialEq)]
pub struct BoxRow {
    /// Its name.
    pub label: String,
    /// A few words beside the name.
    pub note: String,
    /// 5th, 25th, 50th, 75th and 95th percentile.
    pub percentiles: [f64; 5],
}

const RIGHT: i32 = WIDTH - 130;
const ROW: i32 = 44;
const BOX: i32 = 26;

impl Boxes {
    /// What the shapes stand for.
    pub fn legend(&self) -> Vec<LegendEntry> {
        let entry = |ink, glyph, name: &str| LegendEntry { ink, glyph, name: name.to_owned() };
        vec![
            entry(Ink::Text, '|', "median"),
            entry(Ink::Series(0), '■', "25th to 75th percentile"),
            entry(Ink::Series(0), '—', "5th to 95th percentile"),
        ]
    }

    pub(super) fn draw(&self, description: &str) -> String {
        let end = self
            .rows
            .iter()
            .map(|row| row.percentiles[4])
            .filter(|v| v.is_finite())
            .fold(0.0, f64::max);
        let bottom = ROW * self.rows.len() as i32 + 10;
        canvas::draw(bottom + 46, description, |area| {
            canvas::time_axis(area, (LEFT, RIGHT), (0, bottom), end, self.unit)?;
            self.rows
                .iter()
                .zip((0..).map(|i| i * ROW + ROW / 2))
                .try_for_each(|(row, middle)| draw_row(area, row, middle, end))
        })
    }
}

fn draw_row(area: &canvas::Area, row: &BoxRow, middle: i32, end: f64) -> Drawn {
    canvas::write(area, &text::shorten(&row.label, 12), Ink::Text, Anchor::Left, (0, middle))?;
    canvas::write(
        area,
        &text::shorten(&row.note, 12),
        Ink::Muted,
        Anchor::Right,
        (LEFT - 14, middle),
    )?;
    let [p5, p25, median, p75, p95] = row
        .percentiles
        .map(|v| LEFT + (v / end.max(f64::MIN_POSITIVE) * f64::from(RIGHT - LEFT)).round() as i32);
    let line = Ink::Series(0).color().stroke_width(3);
    area.draw(&PathElement::new([(p5, middle), (p95, middle)], line))?;
    for x in [p5, p95] {
        area.draw(&PathElement::new([(x, middle - BOX / 4), (x, middle + BOX / 4)], line))?;
    }
    // A box without width would not be seen.
    canvas::fill(
        area,
        (p25, middle - BOX / 2),
        (p75.max(p25 + 2), middle + BOX / 2),
        Ink::Series(0),
        1.0,
    )?;
    area.draw(&PathElement::new(
        [(median, middle - BOX / 2 - 3), (median, middle + BOX / 2 + 3)],
        Ink::Text.color().stroke_width(4),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_reach_from_quartile_to_quartile() {
        let row = BoxRow {
            label: "rank 0".into(),
            note: "24".into(),
            percentiles: [10.0, 40.0, 50.0, 60.0, 96.0],
        };
        let svg = Boxes { unit: "GB/s", rows: vec![row] }.draw("a picture");
        // 960 units are 96 GB/s.
        assert!(
            svg.contains("x=\"750\" y=\"9\" width=\"200\" height=\"26\" class=\"f-s0\""),
            "{svg}"
        );
        assert!(svg.contains("x1=\"850\"") || svg.contains("850,"), "{svg}");
    }

    #[test]
    fn nothing_can_be_drawn() {
        assert!(Boxes { unit: "GB/s", rows: vec![] }.draw("a picture").contains("</svg>"));
    }
}
