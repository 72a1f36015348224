//! How often values fall into equal ranges.

use plotters::prelude::PathElement;

use super::canvas::{self, Anchor, WIDTH};
use super::{Ink, LegendEntry};

/// A histogram from the smallest to the largest value.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// What the horizontal axis shows, with its unit.
    pub x: String,
    /// Values in ascending order with their counts.
    pub values: Vec<(f64, u64)>,
    /// A value to mark, such as the median.
    pub mark: Option<(f64, String)>,
}

/// Most bars.
const BARS: usize = 50;
const LEFT: i32 = 130;
const RIGHT: i32 = WIDTH - 60;
const TOP: i32 = 60;
const BOTTOM: i32 = 380;

impl Histogram {
    /// What the mark stands for.
    pub fn legend(&self) -> Vec<LegendEntry> {
        self.mark
            .iter()
            .map(|(_, name)| LegendEntry { ink: Ink::Text, glyph: '|', name: name.clone() })
            .collect()
    }

    /// First and last value of the axis.
    fn range(&self) -> (f64, f64) {
        let first = self.values.first().map_or(0.0, |v| v.0);
        let last = self.values.last().map_or(1.0, |v| v.0);
        // One value alone gets an axis around it.
        if last > first { (first, last) } else { (first * 0.5, first * 1.5 + f64::MIN_POSITIVE) }
    }

    /// Counts from left to right; the last range holds its end.
    fn bars(&self) -> Vec<u64> {
        let (first, last) = self.range();
        let mut bars = vec![0; BARS.min(self.values.len().max(1) * 3)];
        let most = bars.len() - 1;
        for &(value, count) in &self.values {
            let at = ((value - first) / (last - first) * bars.len() as f64) as usize;
            bars[at.min(most)] += count;
        }
        bars
    }

    pub(super) fn draw(&self, description: &str) -> String {
        let (first, last) = self.range();
        let bars = self.bars();
        let highest = bars.iter().copied().max().unwrap_or(0).max(1) as f64;
        let width = f64::from(RIGHT - LEFT);
        canvas::draw(BOTTOM + 90, description, |area| {
            let y =
                |count: f64| BOTTOM - (count / highest * f64::from(BOTTOM - TOP)).round() as i32;
            for tick in canvas::ticks(highest, 4).into_iter().filter(|t| t.fract() == 0.0) {
                area.draw(&PathElement::new(
                    [(LEFT, y(tick)), (RIGHT, y(tick))],
                    Ink::Grid.color(),
                ))?;
                canvas::write(
                    area,
                    &canvas::tick_text(tick),
                    Ink::Muted,
                    Anchor::Right,
                    (LEFT - 12, y(tick)),
                )?;
            }
            canvas::axis(area, (LEFT, RIGHT), (TOP, BOTTOM), (first, last), "")?;
            let edge = |i: usize| LEFT + (width * i as f64 / bars.len() as f64).round() as i32;
            for (i, &count) in bars.iter().enumerate() {
                canvas::fill(
                    area,
                    (edge(i) + 1, y(count as f64)),
                    (edge(i + 1) - 1, BOTTOM),
                    Ink::Series(0),
                    1.0,
                )?;
            }
            if let Some((mark, _)) = &self.mark {
                let x = LEFT + ((mark - first) / (last - first) * width).round() as i32;
                area.draw(&PathElement::new(
                    [(x, TOP - 10), (x, BOTTOM)],
                    plotters::prelude::Color::stroke_width(&Ink::Text.color(), 4),
                ))?;
            }
            canvas::write(area, "count", Ink::Muted, Anchor::Left, (0, 20))?;
            canvas::write(area, &self.x, Ink::Muted, Anchor::Right, (RIGHT, BOTTOM + 64))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_one_bar() {
        let histogram = Histogram {
            x: "GB/s".into(),
            values: (0..=100).map(|i| (f64::from(i), 2)).collect(),
            mark: Some((50.0, "median".into())),
        };
        let bars = histogram.bars();
        assert_eq!((bars.len(), bars.iter().sum::<u64>()), (BARS, 202));
        // 0 and 1 in the first of 50 ranges of 2; 98, 99 and 100 in the last.
        assert_eq!((bars[0], bars[49]), (4, 6));
        assert!(histogram.draw("a picture").contains("class=\"f-s0\""));
    }

    #[test]
    fn one_value_and_none_can_be_drawn() {
        for values in [vec![], vec![(7.0, 3)], vec![(0.0, 1)]] {
            let histogram = Histogram { x: String::new(), values, mark: None };
            assert!(histogram.draw("a picture").contains("</svg>"));
        }
    }
}
