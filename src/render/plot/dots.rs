//! Dots on one axis: every value of several samples, from first to last.

use plotters::prelude::*;

use super::canvas::{self, Anchor, Drawn, WIDTH};
use super::grouped::LEFT;
use super::{Ink, LegendEntry};
use crate::text;

/// Samples on one axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Dots {
    /// Unit of the axis.
    pub unit: &'static str,
    /// Where the axis starts and ends; dots beyond its end are drawn there as an arrow.
    pub range: (f64, f64),
    /// The samples from top to bottom.
    pub rows: Vec<DotRow>,
}

/// One sample.
#[derive(Debug, Clone, PartialEq)]
pub struct DotRow {
    /// Its name.
    pub label: String,
    /// A few words below the name.
    pub note: String,
    /// Its values in order; the first stands highest.
    pub dots: Vec<Dot>,
    /// Its median.
    pub median: Option<f64>,
}

/// One value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dot {
    /// The value in the axis' unit.
    pub value: f64,
    /// Stands far from the others: drawn hollow.
    pub outlier: bool,
    /// Takes no part in the median: drawn faint.
    pub faint: bool,
}

const RIGHT: i32 = WIDTH - 90;
const ROW: i32 = 76;
const ROW_GAP: i32 = 16;
const RADIUS: i32 = 7;
/// Shade of the dots, so that several at one place can be told from one.
const SHADE: f64 = 0.6;

impl Dots {
    /// What the shapes stand for.
    pub fn legend(&self) -> Vec<LegendEntry> {
        let entry = |ink, glyph, name: &str| LegendEntry { ink, glyph, name: name.to_owned() };
        vec![
            entry(Ink::Compute, '●', "step, the first highest"),
            entry(Ink::Compute, '○', "outlier"),
            entry(Ink::Muted, '●', "left out"),
            entry(Ink::Text, '|', "median"),
        ]
    }

    pub(super) fn draw(&self, description: &str) -> String {
        let bottom = (ROW + ROW_GAP) * self.rows.len() as i32 + ROW_GAP;
        canvas::draw(bottom + 46, description, |area| {
            canvas::axis(area, (LEFT, RIGHT), (0, bottom), self.range, self.unit)?;
            for (row, top) in self.rows.iter().zip((0..).map(|i| i * (ROW + ROW_GAP) + ROW_GAP)) {
                self.draw_row(area, row, top)?;
            }
            Ok(())
        })
    }

    fn draw_row(&self, area: &canvas::Area, row: &DotRow, top: i32) -> Drawn {
        let (from, to) = self.range;
        let at = |value: f64| {
            LEFT + ((value - from) / (to - from).max(f64::MIN_POSITIVE) * f64::from(RIGHT - LEFT))
                .round() as i32
        };
        canvas::write(
            area,
            &text::shorten(&row.label, 24),
            Ink::Text,
            Anchor::Left,
            (0, top + ROW / 3),
        )?;
        canvas::write(
            area,
            &text::shorten(&row.note, 24),
            Ink::Muted,
            Anchor::Left,
            (0, top + ROW / 3 + 28),
        )?;
        area.draw(&PathElement::new(
            [(LEFT, top + ROW), (RIGHT, top + ROW)],
            Ink::Grid.color().stroke_width(1),
        ))?;
        if let Some(median) = row.median.filter(|m| (from..=to).contains(m)) {
            area.draw(&PathElement::new(
                [(at(median), top), (at(median), top + ROW)],
                Ink::Text.color().stroke_width(3),
            ))?;
        }
        let room = f64::from(ROW - 2 * RADIUS);
        for (i, dot) in row.dots.iter().enumerate() {
            let y = top + RADIUS + (room * (i as f64 + 0.5) / row.dots.len() as f64).round() as i32;
            let ink = if dot.faint { Ink::Muted } else { Ink::Compute };
            if dot.value > to {
                canvas::write(area, "→", ink, Anchor::Right, (RIGHT, y))?;
            } else if dot.outlier {
                area.draw(&Circle::new((at(dot.value), y), RADIUS, ink.color().stroke_width(3)))?;
            } else {
                area.draw(&Circle::new(
                    (at(dot.value), y),
                    RADIUS,
                    ink.color().mix(SHADE).filled(),
                ))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_stand_at_their_value_in_the_order_of_steps() {
        let dot = |value, outlier| Dot { value, outlier, faint: false };
        let row = DotRow {
            label: "a".into(),
            note: String::new(),
            dots: vec![dot(90.0, false), dot(100.0, true), dot(500.0, true)],
            median: Some(95.0),
        };
        let svg = Dots { unit: "ms", range: (90.0, 110.0), rows: vec![row] }.draw("dots");
        // 1000 units are 20 ms; 62 units high, three dots.
        assert!(
            svg.contains(
                "<circle cx=\"350\" cy=\"33\" r=\"7\" opacity=\"0.6\" class=\"f-compute\""
            ),
            "{svg}"
        );
        assert!(
            svg.contains("<circle cx=\"850\" cy=\"54\" r=\"7\" fill=\"none\" class=\"s-compute\""),
            "{svg}"
        );
        assert!(svg.contains('→'));
    }
}
