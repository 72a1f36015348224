//! Horizontal bars side by side in groups: the same few numbers of several things.

use super::canvas::{self, Anchor, Drawn, WIDTH};
use super::{Ink, LegendEntry, SQUARE};
use crate::text;

/// Groups of bars on one axis that starts at 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Grouped {
    /// Unit of the axis.
    pub unit: &'static str,
    /// Colour and name of each bar of a group, from top to bottom.
    pub series: Vec<(Ink, String)>,
    /// The groups from top to bottom.
    pub groups: Vec<BarGroup>,
    /// Where the axis ends.
    pub end: f64,
}

/// The bars of one thing.
#[derive(Debug, Clone, PartialEq)]
pub struct BarGroup {
    /// Its name.
    pub label: String,
    /// A few words below the name.
    pub note: String,
    /// One bar for each of the series; `None` if it was not measured.
    pub bars: Vec<Option<Bar>>,
}

/// One bar.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// Its length in the axis' unit.
    pub value: f64,
    /// The part of it that is drawn full; the rest is lighter.
    pub full: f64,
    /// What stands at its end.
    pub text: String,
}

pub(super) const LEFT: i32 = 350;
const RIGHT: i32 = WIDTH - 130;
const BAR: i32 = 25;
const GAP: i32 = 3;
const GROUP_GAP: i32 = 22;
/// Shade of the part of a bar that is not full.
const LIGHT: f64 = 0.35;

impl Grouped {
    /// What the colours stand for.
    pub fn legend(&self) -> Vec<LegendEntry> {
        self.series
            .iter()
            .map(|(ink, name)| LegendEntry { ink: *ink, glyph: SQUARE, name: name.clone() })
            .collect()
    }

    pub(super) fn draw(&self, description: &str) -> String {
        let height = self.series.len() as i32 * (BAR + GAP) + GROUP_GAP;
        let bottom = height * self.groups.len() as i32 + GROUP_GAP / 2;
        canvas::draw(bottom + 46, description, |area| {
            canvas::time_axis(area, (LEFT, RIGHT), (0, bottom), self.end, self.unit)?;
            for (group, top) in self.groups.iter().zip((0..).map(|i| i * height + GROUP_GAP)) {
                self.draw_group(area, group, top)?;
            }
            Ok(())
        })
    }

    fn draw_group(&self, area: &canvas::Area, group: &BarGroup, top: i32) -> Drawn {
        let line = |i: i32| top + i * (BAR + GAP) + BAR / 2;
        canvas::write(
            area,
            &text::shorten(&group.label, 24),
            Ink::Text,
            Anchor::Left,
            (0, line(0)),
        )?;
        canvas::write(
            area,
            &text::shorten(&group.note, 24),
            Ink::Muted,
            Anchor::Left,
            (0, line(1)),
        )?;
        let at = |value: f64| {
            LEFT + (value.min(self.end) / self.end.max(f64::MIN_POSITIVE) * f64::from(RIGHT - LEFT))
                .round() as i32
        };
        for ((bar, (ink, _)), i) in group.bars.iter().zip(&self.series).zip(0..) {
            let (from, to) = (line(i) - BAR / 2, line(i) + BAR - BAR / 2);
            let end = match bar {
                Some(bar) => {
                    canvas::fill(area, (LEFT, from), (at(bar.full), to), *ink, 1.0)?;
                    canvas::fill(area, (at(bar.full), from), (at(bar.value), to), *ink, LIGHT)?;
                    at(bar.value)
                }
                None => LEFT,
            };
            let text = bar.as_ref().map_or("not measured", |bar| &bar.text);
            canvas::write(area, text, Ink::Muted, Anchor::Left, (end + 10, line(i)))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_values_and_show_what_is_full() {
        let bar = |value, full| Some(Bar { value, full, text: format!("{value}") });
        let grouped = Grouped {
            unit: "ms",
            series: vec![
                (Ink::Compute, "compute".into()),
                (Ink::Comm, "communication".into()),
                (Ink::Idle, "idle".into()),
            ],
            groups: vec![BarGroup {
                label: "a".into(),
                note: String::new(),
                bars: vec![bar(100.0, 100.0), bar(50.0, 20.0), None],
            }],
            end: 100.0,
        };
        // 960 units of axis are 100 ms.
        let svg = grouped.draw("bars");
        assert!(
            svg.contains("x=\"350\" y=\"22\" width=\"960\" height=\"25\" class=\"f-compute\""),
            "{svg}"
        );
        assert!(
            svg.contains("x=\"350\" y=\"50\" width=\"192\" height=\"25\" class=\"f-comm\""),
            "{svg}"
        );
        assert!(
            svg.contains(
                "x=\"542\" y=\"50\" width=\"288\" height=\"25\" opacity=\"0.35\" class=\"f-comm\""
            ),
            "{svg}"
        );
        assert!(svg.contains("not measured"));
    }
}
