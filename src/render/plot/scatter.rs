//! Points in a plane: how something went over time or over a sequence.

use plotters::prelude::{Circle, Color, PathElement};

use super::canvas::{self, Anchor, Drawn, WIDTH};
use super::{Ink, LegendEntry, SERIES};

/// Points on two linear axes; the vertical one starts at 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Scatter {
    /// What the horizontal axis shows, with its unit.
    pub x: String,
    /// What the vertical axis shows, with its unit.
    pub y: String,
    /// The clouds; the first eight can be told apart.
    pub clouds: Vec<Cloud>,
    /// True if the points of a cloud are joined by a line.
    pub joined: bool,
}

/// Points that belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct Cloud {
    /// Their name.
    pub name: String,
    /// The points, by ascending x if they are joined.
    pub points: Vec<(f64, f64)>,
}

const LEFT: i32 = 130;
const RIGHT: i32 = WIDTH - 60;
const TOP: i32 = 60;
const BOTTOM: i32 = 560;
const RADIUS: i32 = 6;
/// Shade of the points, so that many at one place can be told from few.
const SHADE: f64 = 0.55;

impl Scatter {
    /// What the colours stand for.
    pub fn legend(&self) -> Vec<LegendEntry> {
        self.clouds
            .iter()
            .zip(0..SERIES)
            .map(|(cloud, i)| LegendEntry {
                ink: Ink::Series(i),
                glyph: '●',
                name: cloud.name.clone(),
            })
            .collect()
    }

    pub(super) fn draw(&self, description: &str) -> String {
        let points = || {
            self.clouds
                .iter()
                .flat_map(|cloud| &cloud.points)
                .filter(|p| p.0.is_finite() && p.1.is_finite())
        };
        let (first, last) =
            points().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), p| (a.min(p.0), b.max(p.0)));
        let (first, last) = if first <= last { (first, last.max(first + 1.0)) } else { (0.0, 1.0) };
        // A tenth of room above the highest point.
        let top = points().map(|p| p.1).fold(0.0, f64::max).max(f64::MIN_POSITIVE) * 1.1;
        let x = |value: f64| {
            LEFT + ((value - first) / (last - first) * f64::from(RIGHT - LEFT)).round() as i32
        };
        let y =
            |value: f64| BOTTOM - (value.max(0.0) / top * f64::from(BOTTOM - TOP)).round() as i32;
        canvas::draw(BOTTOM + 90, description, |area| {
            for tick in canvas::ticks(top, 5) {
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
            canvas::write(area, &self.y, Ink::Muted, Anchor::Left, (0, 20))?;
            canvas::write(area, &self.x, Ink::Muted, Anchor::Right, (RIGHT, BOTTOM + 64))?;
            for (cloud, i) in self.clouds.iter().zip(0..SERIES) {
                let places = cloud
                    .points
                    .iter()
                    .filter(|p| p.0.is_finite() && p.1.is_finite())
                    .map(|p| (x(p.0), y(p.1)));
                self.draw_cloud(area, i, places.collect())?;
            }
            Ok(())
        })
    }

    fn draw_cloud(&self, area: &canvas::Area, series: u8, mut places: Vec<(i32, i32)>) -> Drawn {
        let color = Ink::Series(series).color();
        if self.joined {
            area.draw(&PathElement::new(places.clone(), color.stroke_width(4)))?;
        } else {
            // Points at one place look like one: drawing each once keeps the picture small.
            places.sort_unstable();
            places.dedup();
        }
        let shade = if self.joined { 1.0 } else { SHADE };
        places
            .into_iter()
            .try_for_each(|place| area.draw(&Circle::new(place, RADIUS, color.mix(shade).filled())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_stand_at_their_values() {
        let cloud =
            Cloud { name: "1 MB".into(), points: vec![(0.0, 0.0), (10.0, 100.0), (5.0, f64::NAN)] };
        let scatter =
            Scatter { x: "number".into(), y: "GB/s".into(), clouds: vec![cloud], joined: false };
        let svg = scatter.draw("a picture");
        // The axis ends at 110: 100 is 455 of 500 units high.
        assert!(
            svg.contains("<circle cx=\"130\" cy=\"560\" r=\"6\" opacity=\"0.55\" class=\"f-s0\""),
            "{svg}"
        );
        assert!(svg.contains("<circle cx=\"1380\" cy=\"105\" r=\"6\""), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 2);
    }

    #[test]
    fn nothing_and_one_point_can_be_drawn() {
        for points in [vec![], vec![(1e300, 5.0)], vec![(0.0, 0.0)]] {
            let scatter = Scatter {
                x: String::new(),
                y: String::new(),
                clouds: vec![Cloud { name: "a".into(), points }],
                joined: true,
            };
            assert!(scatter.draw("a picture").contains("</svg>"));
        }
    }
}
