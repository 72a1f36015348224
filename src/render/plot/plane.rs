//! Points, curves and columns in a plane of two axes.

use super::axis::Axis;
use super::svg::{Anchor, Paint, Point, Sheet};
use super::{Ink, LegendEntry, SERIES, WIDTH};

/// A plane with its points.
#[derive(Debug, Clone, PartialEq)]
pub struct Plane {
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is drawn; the first eight can be told apart.
    pub series: Vec<Series>,
    /// A value of the horizontal axis that is marked, and what it is.
    pub mark: Option<(f64, String)>,
}

/// Points that belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Their name.
    pub name: String,
    /// How they are drawn.
    pub shape: Shape,
    /// The points, by ascending x if they are joined.
    pub points: Vec<(f64, f64)>,
}

/// How points are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// Joined by a line.
    Curve,
    /// Each by itself.
    Cloud,
    /// As a column of this width that starts at the point's x.
    Column(f64),
}

/// Most columns of a histogram.
const COLUMNS: usize = 50;
/// Of more points none has a title of its own.
const TITLED: usize = 200;
const LEFT: i32 = 130;
const RIGHT: i32 = WIDTH - 60;
const TOP: i32 = 56;
const BOTTOM: i32 = 520;
const MARK: i32 = 10;
const GLYPHS: [char; SERIES as usize] = ['●', '■', '▲', '◆', '▼', '●', '■', '▲'];

impl Plane {
    /// How often values fall into equal ranges; `values` are ascending, with their counts.
    pub fn histogram(
        x: &str,
        unit: &str,
        values: &[(f64, u64)],
        mark: Option<(f64, String)>,
    ) -> Self {
        let first = values.first().map_or(0.0, |v| v.0);
        let last = values.last().map_or(1.0, |v| v.0);
        // One value alone gets an axis around it.
        let (first, last) = if last > first {
            (first, last)
        } else {
            (first * 0.5, first * 1.5 + f64::MIN_POSITIVE)
        };
        let columns = counted(values, (first, last));
        let width = (last - first) / columns.len() as f64;
        let highest = columns.iter().copied().max().unwrap_or(0).max(1);
        let column = |(i, count): (usize, &u64)| (first + i as f64 * width, *count as f64);
        let points = columns.iter().enumerate().map(column).collect();
        Self {
            x: Axis::linear(x, unit, (first, last)),
            y: Axis::linear("count", "", (0.0, highest as f64)),
            series: vec![Series { name: String::new(), shape: Shape::Column(width), points }],
            mark,
        }
    }

    /// What colours and shapes stand for.
    pub(super) fn legend(&self) -> Vec<LegendEntry> {
        let series =
            self.series.iter().zip(0..SERIES).filter(|(series, _)| !series.name.is_empty());
        let named = series.map(|(series, i)| LegendEntry {
            ink: Ink::Series(i),
            glyph: if series.shape == Shape::Curve {
                GLYPHS[usize::from(i % SERIES)]
            } else {
                '●'
            },
            name: series.name.clone(),
        });
        let mark = self.mark.iter().map(|(_, name)| LegendEntry {
            ink: Ink::Text,
            glyph: '|',
            name: name.clone(),
        });
        named.chain(mark).collect()
    }

    pub(super) fn draw(&self, description: &str) -> String {
        let mut sheet = Sheet::new(WIDTH, BOTTOM + 90);
        let columns = self.series.iter().any(|series| matches!(series.shape, Shape::Column(_)));
        self.y.draw_left(&mut sheet, (LEFT, RIGHT), (TOP, BOTTOM), columns);
        self.x.draw_below(&mut sheet, (LEFT, RIGHT), (TOP, BOTTOM));
        sheet.text(&self.y.title(), Ink::Muted, Anchor::Left, (0, 20));
        sheet.text(&self.x.title(), Ink::Muted, Anchor::Right, (RIGHT, BOTTOM + 64));
        for (series, i) in self.series.iter().zip(0..SERIES) {
            if series.points.len() > TITLED {
                sheet.group(&series.name, |sheet| self.draw_series(sheet, series, i));
            } else {
                self.draw_series(&mut sheet, series, i);
            }
        }
        if let Some((value, name)) = &self.mark {
            let x = self.x.place(*value, LEFT, RIGHT);
            sheet.line(&[(x, TOP - 10), (x, BOTTOM)], Ink::Text, 4, name);
        }
        sheet.finish(description)
    }

    fn draw_series(&self, sheet: &mut Sheet, series: &Series, number: u8) {
        let ink = Ink::Series(number);
        let title = |&(x, y): &(f64, f64)| {
            if series.points.len() > TITLED {
                return String::new();
            }
            let what = [series.name.clone(), self.x.say(x), self.y.say(y)];
            what.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
        };
        let at = |&(x, y): &(f64, f64)| -> Point {
            (self.x.place(x, LEFT, RIGHT), self.y.place(y, BOTTOM, TOP))
        };
        let drawable = |p: &&(f64, f64)| self.x.can_place(p.0) && self.y.can_place(p.1);
        let points: Vec<&(f64, f64)> = series.points.iter().filter(drawable).collect();
        match series.shape {
            Shape::Curve => {
                let places: Vec<Point> = points.iter().map(|p| at(p)).collect();
                sheet.line(&places, ink, 4, &series.name);
                for point in points {
                    glyph(sheet, number, at(point), &title(point));
                }
            }
            Shape::Cloud => {
                // Points at one place look like one: drawing each once keeps the picture small.
                let mut places: Vec<(Point, String)> =
                    points.iter().map(|p| (at(p), title(p))).collect();
                places.sort_unstable();
                places.dedup_by_key(|place| place.0);
                for (place, title) in places {
                    sheet.dot(place, 6, Paint::Light(ink), &title);
                }
            }
            Shape::Column(width) => {
                for point in points {
                    let (from, top) = at(point);
                    let to = self.x.place(point.0 + width, LEFT, RIGHT);
                    let paint = Paint::Full(ink);
                    sheet.bar(
                        (from + 1, top),
                        ((to - 1).max(from + 2), BOTTOM),
                        paint,
                        &title(point),
                    );
                }
            }
        }
    }
}

/// Counts from left to right; the last range holds its end.
fn counted(values: &[(f64, u64)], (first, last): (f64, f64)) -> Vec<u64> {
    let mut columns = vec![0; COLUMNS.min(values.len().max(1) * 3)];
    let most = columns.len() - 1;
    for &(value, count) in values {
        let at = ((value - first) / (last - first) * columns.len() as f64) as usize;
        if let Some(column) = columns.get_mut(at.min(most)) {
            *column += count;
        }
    }
    columns
}

/// A mark whose shape tells its series, for those who cannot tell colours apart.
fn glyph(sheet: &mut Sheet, series: u8, (x, y): Point, title: &str) {
    let paint = Paint::Full(Ink::Series(series));
    let (near, far) = (MARK, MARK + 3);
    match GLYPHS[usize::from(series % SERIES)] {
        '■' => sheet.bar((x - near, y - near), (x + near, y + near), paint, title),
        '▲' => {
            sheet.polygon(&[(x, y - far), (x + far, y + near), (x - far, y + near)], paint, title)
        }
        '▼' => {
            sheet.polygon(&[(x, y + far), (x + far, y - near), (x - far, y - near)], paint, title)
        }
        '◆' => {
            sheet.polygon(&[(x, y - far), (x + far, y), (x, y + far), (x - far, y)], paint, title)
        }
        _ => sheet.dot((x, y), near, paint, title),
    }
}

#[cfg(test)]
mod tests {
    use super::super::axis::Scale;
    use super::*;

    fn plane(shape: Shape, points: Vec<(f64, f64)>) -> Plane {
        Plane {
            x: Axis::linear("number", "", (0.0, 10.0)),
            y: Axis::linear("busbw", "GB/s", (0.0, 110.0)),
            series: vec![Series { name: "1 MB".into(), shape, points }],
            mark: None,
        }
    }

    #[test]
    fn points_stand_at_their_values() {
        let points = vec![(0.0, 0.0), (10.0, 100.0), (5.0, f64::NAN)];
        let svg = plane(Shape::Cloud, points).draw("a picture");
        // 464 units are 110 GB/s: 100 are 422.
        assert!(svg.contains("<circle cx=\"130\" cy=\"520\" r=\"6\" class=\"l-s0\">"), "{svg}");
        assert!(svg.contains("<circle cx=\"1380\" cy=\"98\" r=\"6\""), "{svg}");
        assert!(svg.contains("<title>1 MB, number 10, busbw 100 GB/s</title>"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 2);
    }

    #[test]
    fn points_that_have_no_logarithm_are_not_drawn() {
        let points = vec![(0.0, 5.0), (1e3, f64::NAN), (1e4, -1.0), (1e5, 10.0)];
        let mut plane = plane(Shape::Curve, points);
        plane.x = Axis::log("size", "", Scale::LogBytes, [1e4, 1e5]);
        plane.y = Axis::log("busbw", "GB/s", Scale::Log, [10.0]);
        assert_eq!(plane.draw("").matches("<circle").count(), 1);
    }

    #[test]
    fn every_value_of_a_histogram_is_in_one_column() {
        let values: Vec<(f64, u64)> = (0..=100).map(|i| (f64::from(i), 2)).collect();
        let columns = counted(&values, (0.0, 100.0));
        assert_eq!((columns.len(), columns.iter().sum::<u64>()), (COLUMNS, 202));
        // 0 and 1 in the first of 50 ranges of 2; 98, 99 and 100 in the last.
        assert_eq!((columns[0], columns[49]), (4, 6));
    }

    #[test]
    fn one_value_and_none_can_be_drawn() {
        for values in [vec![], vec![(7.0, 3)], vec![(0.0, 1)]] {
            let plane = Plane::histogram("busbw", "GB/s", &values, None);
            assert!(plane.draw("a picture").contains("</svg>"));
        }
        for points in [vec![], vec![(1e300, 5.0)]] {
            assert!(plane(Shape::Curve, points).draw("").contains("</svg>"));
        }
    }
}
