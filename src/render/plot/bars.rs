//! Horizontal stacked bars: what a step is made of.

use super::canvas::{self, Anchor, Drawn, WIDTH};
use super::{Ink, LegendEntry, SQUARE};
use crate::text;

/// Stacked bars on one axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    /// Unit of the axis.
    pub unit: &'static str,
    /// Colour and name of each part, in the order of stacking.
    pub parts: Vec<(Ink, String)>,
    /// The bars from top to bottom.
    pub rows: Vec<BarRow>,
    /// Where the axis ends; longer bars are cut and marked.
    pub end: f64,
}

/// One bar.
#[derive(Debug, Clone, PartialEq)]
pub struct BarRow {
    /// What it belongs to; written where it differs from the bar above.
    pub group: String,
    /// Its own name.
    pub label: String,
    /// One segment for each part; `None` if nothing was measured.
    pub segments: Option<Vec<Segment>>,
    /// What stands at its end.
    pub total: String,
    /// True if it takes no part in the summaries.
    pub faint: bool,
}

/// One segment of a bar.
#[derive(Debug, Clone, PartialEq)]
pub struct Segment {
    /// Its length in the axis' unit.
    pub value: f64,
    /// What is written into it where there is room.
    pub text: String,
}

const LEFT: i32 = 330;
const RIGHT: i32 = WIDTH - 170;
const BAR: i32 = 40;
const GAP: i32 = 8;
const GROUP_GAP: i32 = 18;

impl Bars {
    /// What the colours stand for.
    pub fn legend(&self) -> Vec<LegendEntry> {
        self.parts
            .iter()
            .map(|(ink, name)| LegendEntry { ink: *ink, glyph: SQUARE, name: name.clone() })
            .collect()
    }

    pub(super) fn draw(&self, description: &str) -> String {
        let mut tops = Vec::with_capacity(self.rows.len());
        let mut y = GAP;
        for (i, row) in self.rows.iter().enumerate() {
            if i > 0 {
                y += if row.group == self.rows[i - 1].group { GAP } else { GROUP_GAP };
            }
            tops.push(y);
            y += BAR;
        }
        let bottom = y + GAP;
        canvas::draw(bottom + 46, description, |area| {
            canvas::time_axis(area, (LEFT, RIGHT), (0, bottom), self.end, self.unit)?;
            for (i, (row, &top)) in self.rows.iter().zip(&tops).enumerate() {
                let opens_group = i == 0 || row.group != self.rows[i - 1].group;
                self.draw_row(area, row, opens_group, top)?;
            }
            Ok(())
        })
    }

    fn draw_row(&self, area: &canvas::Area, row: &BarRow, opens_group: bool, top: i32) -> Drawn {
        let middle = top + BAR / 2;
        if opens_group {
            canvas::write(
                area,
                &text::shorten(&row.group, 15),
                Ink::Text,
                Anchor::Left,
                (0, middle),
            )?;
        }
        canvas::write(
            area,
            &text::shorten(&row.label, 10),
            Ink::Muted,
            Anchor::Right,
            (LEFT - 14, middle),
        )?;
        let Some(segments) = &row.segments else {
            return canvas::write(area, &row.total, Ink::Muted, Anchor::Left, (LEFT + 12, middle));
        };
        let at = |value: f64| {
            LEFT + (value / self.end.max(f64::MIN_POSITIVE) * f64::from(RIGHT - LEFT)).round()
                as i32
        };
        let mut sum = 0f64;
        for (segment, (ink, _)) in segments.iter().zip(&self.parts) {
            let (from, to) = (at(sum.min(self.end)), at((sum + segment.value).min(self.end)));
            sum += segment.value;
            canvas::fill(
                area,
                (from, top),
                (to, top + BAR),
                *ink,
                if row.faint { 0.45 } else { 1.0 },
            )?;
            if to - from > canvas::text_width(&segment.text) + 12 {
                let ink = if row.faint { Ink::Text } else { ink.on() };
                canvas::write(area, &segment.text, ink, Anchor::Middle, ((from + to) / 2, middle))?;
            }
        }
        let cut = sum > self.end * (1.0 + 1e-9);
        let total = if cut { format!("→ {}", row.total) } else { row.total.clone() };
        canvas::write(area, &total, Ink::Text, Anchor::Left, (at(sum.min(self.end)) + 12, middle))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(values: [f64; 2], end: f64) -> String {
        let segments =
            values.iter().map(|&value| Segment { value, text: format!("{value}") }).collect();
        Bars {
            unit: "ms",
            parts: vec![(Ink::Compute, "compute".into()), (Ink::Idle, "idle".into())],
            rows: vec![
                BarRow {
                    group: "step 1".into(),
                    label: "rank 0".into(),
                    segments: Some(segments),
                    total: "100 ms".into(),
                    faint: false,
                },
                BarRow {
                    group: "step 1".into(),
                    label: "rank 1".into(),
                    segments: None,
                    total: "not measured".into(),
                    faint: false,
                },
            ],
            end,
        }
        .draw("steps")
    }

    #[test]
    fn segments_are_as_long_as_their_values() {
        // 940 units of axis are 100 ms: 80 ms are 752, 20 ms are 188.
        let svg = bars([80.0, 20.0], 100.0);
        assert!(
            svg.contains("x=\"330\" y=\"8\" width=\"752\" height=\"40\" class=\"f-compute\""),
            "{svg}"
        );
        assert!(
            svg.contains("x=\"1082\" y=\"8\" width=\"188\" height=\"40\" class=\"f-idle\""),
            "{svg}"
        );
        assert!(svg.contains("not measured"));
        assert!(!svg.contains('→'));
    }

    #[test]
    fn a_bar_longer_than_the_axis_is_cut_and_says_so() {
        let svg = bars([80.0, 2000.0], 100.0);
        assert!(svg.contains("x=\"1082\" y=\"8\" width=\"188\""), "{svg}");
        assert!(svg.contains("→ 100 ms"));
    }
}
