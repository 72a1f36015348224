//! Waterfalls: how differences by part lead from one number to another.

use plotters::prelude::*;

use super::canvas::{self, Anchor, Drawn, WIDTH};
use super::grouped::LEFT;
use super::{Ink, LegendEntry, SQUARE};
use crate::text;

/// Waterfalls on one axis of differences; 0 is what all start from.
#[derive(Debug, Clone, PartialEq)]
pub struct Waterfall {
    /// Unit of the axis.
    pub unit: &'static str,
    /// Colour and name of each part, from top to bottom.
    pub parts: Vec<(Ink, String)>,
    /// The waterfalls from top to bottom.
    pub rows: Vec<Fall>,
}

/// One waterfall.
#[derive(Debug, Clone, PartialEq)]
pub struct Fall {
    /// Its name.
    pub label: String,
    /// A few words below the name.
    pub note: String,
    /// The difference by part, with its text; they add up to the whole difference.
    pub changes: Vec<(f64, String)>,
    /// The whole difference as text.
    pub total: String,
}

const RIGHT: i32 = WIDTH - 120;
const BAR: i32 = 25;
const GAP: i32 = 3;
const ROW_GAP: i32 = 22;

impl Waterfall {
    /// What the colours stand for.
    pub fn legend(&self) -> Vec<LegendEntry> {
        let whole =
            LegendEntry { ink: Ink::Text, glyph: SQUARE, name: "whole difference".to_owned() };
        self.parts
            .iter()
            .map(|(ink, name)| LegendEntry { ink: *ink, glyph: SQUARE, name: name.clone() })
            .chain([whole])
            .collect()
    }

    /// From the least to the greatest value that any waterfall passes, with 0 between.
    fn range(&self) -> (f64, f64) {
        let mut range = (0f64, 0f64);
        for row in &self.rows {
            let mut sum = 0.0;
            for (change, _) in &row.changes {
                sum += change;
                range = (range.0.min(sum), range.1.max(sum));
            }
        }
        if range.0 == range.1 { (0.0, 1.0) } else { range }
    }

    pub(super) fn draw(&self, description: &str) -> String {
        let range = self.range();
        let at = |value: f64| {
            LEFT + ((value - range.0) / (range.1 - range.0) * f64::from(RIGHT - LEFT)).round()
                as i32
        };
        let height = (self.parts.len() as i32 + 1) * (BAR + GAP) + ROW_GAP;
        let bottom = height * self.rows.len() as i32 + ROW_GAP / 2;
        canvas::draw(bottom + 46, description, |area| {
            canvas::axis(area, (LEFT, RIGHT), (0, bottom), range, self.unit)?;
            area.draw(&PathElement::new(
                [(at(0.0), 0), (at(0.0), bottom)],
                Ink::Muted.color().stroke_width(3),
            ))?;
            for (row, top) in self.rows.iter().zip((0..).map(|i| i * height + ROW_GAP)) {
                self.draw_row(area, row, top, &at)?;
            }
            Ok(())
        })
    }

    fn draw_row(
        &self,
        area: &canvas::Area,
        row: &Fall,
        top: i32,
        at: &impl Fn(f64) -> i32,
    ) -> Drawn {
        let line = |i: i32| top + i * (BAR + GAP) + BAR / 2;
        canvas::write(area, &text::shorten(&row.label, 24), Ink::Text, Anchor::Left, (0, line(0)))?;
        canvas::write(area, &text::shorten(&row.note, 24), Ink::Muted, Anchor::Left, (0, line(1)))?;
        let bar = |i: i32, from: f64, to: f64, ink: Ink, label: &str| -> Drawn {
            let (left, right) = (at(from.min(to)), at(from.max(to)));
            // A part that changed by less than a unit is a line.
            let right = right.max(left + 2);
            canvas::fill(
                area,
                (left, line(i) - BAR / 2),
                (right, line(i) + BAR - BAR / 2),
                ink,
                1.0,
            )?;
            canvas::write(area, label, Ink::Muted, Anchor::Left, (right + 10, line(i)))
        };
        let mut sum = 0.0;
        for (((change, label), (ink, _)), i) in row.changes.iter().zip(&self.parts).zip(0..) {
            bar(i, sum, sum + change, *ink, label)?;
            sum += change;
        }
        bar(self.parts.len() as i32, 0.0, sum, Ink::Text, &row.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bar_starts_where_the_last_ended() {
        let plot = Waterfall {
            unit: "ms",
            parts: vec![(Ink::Compute, "compute".into()), (Ink::Comm, "communication".into())],
            rows: vec![Fall {
                label: "a".into(),
                note: String::new(),
                changes: vec![(10.0, "+10".into()), (-30.0, "-30".into())],
                total: "-20".into(),
            }],
        };
        // The axis goes from -20 to 10: 970 units are 30 ms, 0 is at 350 + 646.67.
        let svg = plot.draw("falls");
        assert!(
            svg.contains("x=\"997\" y=\"22\" width=\"323\" height=\"25\" class=\"f-compute\""),
            "{svg}"
        );
        assert!(
            svg.contains("x=\"350\" y=\"50\" width=\"970\" height=\"25\" class=\"f-comm\""),
            "{svg}"
        );
        assert!(
            svg.contains("x=\"350\" y=\"78\" width=\"647\" height=\"25\" class=\"f-text\""),
            "{svg}"
        );
    }

    #[test]
    fn nothing_changed_is_drawn_too() {
        let rows = vec![Fall {
            label: "a".into(),
            note: String::new(),
            changes: vec![(0.0, "0".into())],
            total: "0".into(),
        }];
        assert!(
            Waterfall { unit: "ms", parts: vec![(Ink::Idle, "idle".into())], rows }
                .draw("")
                .contains("f-idle")
        );
    }
}
