//! Curves on logarithmic axes: bandwidth by message size.

use plotters::prelude::{Circle, Color, PathElement, Polygon, Rectangle};

use super::canvas::{self, Anchor, Area, Drawn, WIDTH};
use super::{Ink, LegendEntry, SERIES};
use crate::render::units;

/// Curves on two logarithmic axes.
#[derive(Debug, Clone, PartialEq)]
pub struct LogLog {
    /// What the horizontal axis shows, in bytes.
    pub x: String,
    /// What the vertical axis shows.
    pub y: String,
    /// The curves; the first eight can be told apart.
    pub curves: Vec<Curve>,
}

/// One curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Its name.
    pub name: String,
    /// Its points by ascending x, all above zero.
    pub points: Vec<(f64, f64)>,
}

const LEFT: i32 = 130;
const RIGHT: i32 = WIDTH - 60;
const TOP: i32 = 60;
const BOTTOM: i32 = 640;
const MARK: i32 = 11;
const GLYPHS: [char; SERIES as usize] = ['●', '■', '▲', '◆', '▼', '●', '■', '▲'];

impl LogLog {
    /// What colours and shapes stand for.
    pub fn legend(&self) -> Vec<LegendEntry> {
        self.curves
            .iter()
            .zip(0..SERIES)
            .map(|(curve, i)| LegendEntry {
                ink: Ink::Series(i),
                glyph: GLYPHS[usize::from(i)],
                name: curve.name.clone(),
            })
            .collect()
    }

    pub(super) fn draw(&self, description: &str) -> String {
        let points = || self.curves.iter().flat_map(|curve| &curve.points).filter(drawable);
        let x = Decades::around(points().map(|p| p.0));
        let y = Decades::around(points().map(|p| p.1));
        canvas::draw(BOTTOM + 90, description, |area| {
            for (power, value) in x.powers() {
                let at = x.map(value, LEFT, RIGHT);
                area.draw(&PathElement::new([(at, TOP), (at, BOTTOM)], Ink::Grid.color()))?;
                if x.labelled(power) {
                    canvas::write(
                        area,
                        &size_text(value),
                        Ink::Muted,
                        Anchor::Middle,
                        (at, BOTTOM + 24),
                    )?;
                }
            }
            for (_, value) in y.powers() {
                let at = y.map(value, BOTTOM, TOP);
                area.draw(&PathElement::new([(LEFT, at), (RIGHT, at)], Ink::Grid.color()))?;
                canvas::write(
                    area,
                    &canvas::tick_text(value),
                    Ink::Muted,
                    Anchor::Right,
                    (LEFT - 12, at),
                )?;
            }
            canvas::write(area, &self.y, Ink::Muted, Anchor::Left, (0, 20))?;
            canvas::write(area, &self.x, Ink::Muted, Anchor::Right, (RIGHT, BOTTOM + 64))?;
            for (curve, i) in self.curves.iter().zip(0..SERIES) {
                let places: Vec<(i32, i32)> = curve
                    .points
                    .iter()
                    .filter(drawable)
                    .map(|p| (x.map(p.0, LEFT, RIGHT), y.map(p.1, BOTTOM, TOP)))
                    .collect();
                area.draw(&PathElement::new(
                    places.clone(),
                    Ink::Series(i).color().stroke_width(4),
                ))?;
                for place in places {
                    mark(area, i, place)?;
                }
            }
            Ok(())
        })
    }
}

/// A power of ten as a size, without decimals.
fn size_text(bytes: f64) -> String {
    units::bytes(bytes as u64).replace(".00", "").replace(".0", "")
}

fn drawable(point: &&(f64, f64)) -> bool {
    [point.0, point.1].into_iter().all(|v| v.is_finite() && v > 0.0)
}

fn mark(area: &Area, series: u8, (x, y): (i32, i32)) -> Drawn {
    let style = Ink::Series(series).color().filled();
    match GLYPHS[usize::from(series % SERIES)] {
        '■' => area.draw(&Rectangle::new([(x - MARK, y - MARK), (x + MARK, y + MARK)], style)),
        '▲' => area.draw(&Polygon::new(
            [(x, y - MARK - 2), (x + MARK + 2, y + MARK), (x - MARK - 2, y + MARK)],
            style,
        )),
        '▼' => area.draw(&Polygon::new(
            [(x, y + MARK + 2), (x + MARK + 2, y - MARK), (x - MARK - 2, y - MARK)],
            style,
        )),
        '◆' => area.draw(&Polygon::new(
            [(x, y - MARK - 4), (x + MARK + 4, y), (x, y + MARK + 4), (x - MARK - 4, y)],
            style,
        )),
        _ => area.draw(&Circle::new((x, y), MARK, style)),
    }
}

/// A logarithmic axis over whole powers of ten.
#[derive(Debug, Clone, Copy)]
struct Decades {
    first: i32,
    last: i32,
}

impl Decades {
    /// The powers of ten that enclose all values.
    fn around(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) =
            values.fold((f64::INFINITY, 0f64), |(low, high), v| (low.min(v), high.max(v)));
        if low > high {
            return Self { first: 0, last: 1 };
        }
        let first = low.log10().floor() as i32;
        Self { first, last: (high.log10().ceil() as i32).max(first + 1) }
    }

    fn powers(self) -> impl Iterator<Item = (i32, f64)> {
        (self.first..=self.last).map(|power| (power, 10f64.powi(power)))
    }

    /// With many decades only every second is labelled.
    fn labelled(self, power: i32) -> bool {
        self.last - self.first <= 8 || (power - self.first) % 2 == 0
    }

    fn map(self, value: f64, from: i32, to: i32) -> i32 {
        let share = (value.log10() - f64::from(self.first)) / f64::from(self.last - self.first);
        from + (share * f64::from(to - from)).round() as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decade_is_as_wide_as_the_next() {
        let x = Decades::around([1_024.0, 134_217_728.0].into_iter());
        assert_eq!((x.first, x.last), (3, 9));
        assert_eq!([1e3, 1e6, 1e9].map(|v| x.map(v, 0, 600)), [0, 300, 600]);
        assert_eq!(Decades::around(std::iter::empty()).powers().count(), 2);
        assert_eq!(
            [1.0, 1e3, 1e4, 1e5, 1e9].map(size_text),
            ["1 B", "1 kB", "10 kB", "100 kB", "1 GB"]
        );
        let one = Decades::around([10.0].into_iter());
        assert_eq!((one.first, one.last), (1, 2));
    }

    #[test]
    fn points_that_have_no_logarithm_are_not_drawn() {
        let points = vec![(0.0, 5.0), (1e3, f64::NAN), (1e4, -1.0), (1e5, 10.0)];
        let plot = LogLog {
            x: "bytes".into(),
            y: "GB/s".into(),
            curves: vec![Curve { name: "AllReduce".into(), points }],
        };
        assert_eq!(plot.draw("").matches("<circle").count(), 1);
    }
}
