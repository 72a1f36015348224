//! Pictures as data, and their drawing as SVG with real text. Three kinds suffice: rows over an axis, a plane of two axes, a grid.
//! Colours are CSS classes, so one picture suits light and dark pages and paper.

mod axis;
mod grid;
mod plane;
mod rows;
mod svg;

pub use axis::{Axis, Scale};
pub use grid::{Cell, Grid};
pub use plane::{Plane, Series, Shape};
pub use rows::{Line, Mark, Row, Rows, Size, Thickness, stacked};
pub use svg::Paint;

/// Width of a picture in SVG units. The page shows it at about half, so that a unit is finer than a pixel.
const WIDTH: i32 = 1440;
/// Width of a picture beside the headline.
const ASIDE: i32 = 1060;
/// A square in a legend.
const SQUARE: char = '■';

/// What to draw.
#[derive(Debug, Clone, PartialEq)]
pub enum Plot {
    /// Rows of marks over one axis.
    Rows(Rows),
    /// Points, curves or columns in a plane.
    Plane(Plane),
    /// A grid of cells.
    Grid(Grid),
}

/// What a colour stands for. Each has a CSS variable (`--compute`) and a class for filling and for strokes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    /// Text and axes.
    Text,
    /// Text that may stand back.
    Muted,
    /// Grid lines.
    Grid,
    /// Compute kernels.
    Compute,
    /// Communication.
    Comm,
    /// Copies and memsets.
    Copies,
    /// Graphs of unknown class.
    Unclassified,
    /// Nothing runs.
    Idle,
    /// Waiting for other ranks.
    Wait,
    /// What marks stand on: the whole of a lane or cell.
    Ground,
    /// Better than before.
    Good,
    /// Worse than before.
    Bad,
    /// Text on a dark fill.
    OnDark,
    /// Text on a light fill.
    OnLight,
    /// One of several curves or variants, by position.
    Series(u8),
}

/// How many curves can be told apart.
pub const SERIES: u8 = 8;

impl Ink {
    const ALL: [Ink; 22] = [
        Ink::Text,
        Ink::Muted,
        Ink::Grid,
        Ink::Compute,
        Ink::Comm,
        Ink::Copies,
        Ink::Unclassified,
        Ink::Idle,
        Ink::Wait,
        Ink::Ground,
        Ink::Good,
        Ink::Bad,
        Ink::OnDark,
        Ink::OnLight,
        Ink::Series(0),
        Ink::Series(1),
        Ink::Series(2),
        Ink::Series(3),
        Ink::Series(4),
        Ink::Series(5),
        Ink::Series(6),
        Ink::Series(7),
    ];

    /// Every ink.
    pub fn all() -> &'static [Ink] {
        &Self::ALL
    }

    /// The name of its CSS variable without the dashes.
    pub fn name(self) -> &'static str {
        const SERIES_NAMES: [&str; SERIES as usize] =
            ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"];
        match self {
            Ink::Text => "text",
            Ink::Muted => "muted",
            Ink::Grid => "grid",
            Ink::Compute => "compute",
            Ink::Comm => "comm",
            Ink::Copies => "copies",
            Ink::Unclassified => "unclassified",
            Ink::Idle => "idle",
            Ink::Wait => "wait",
            Ink::Ground => "ground",
            Ink::Good => "good",
            Ink::Bad => "high",
            Ink::OnDark => "on-dark",
            Ink::OnLight => "on-light",
            Ink::Series(i) => SERIES_NAMES[usize::from(i % SERIES)],
        }
    }

    /// The ink of text that stands on this one.
    fn on(self) -> Ink {
        match self {
            Ink::Compute | Ink::Text | Ink::Muted | Ink::OnLight => Ink::OnDark,
            _ => Ink::OnLight,
        }
    }
}

/// One entry of a legend.
#[derive(Debug, Clone, PartialEq)]
pub struct LegendEntry {
    /// Its colour.
    pub ink: Ink,
    /// Its shape.
    pub glyph: char,
    /// What it stands for.
    pub name: String,
}

/// A drawn picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawing {
    /// An `svg` element.
    pub svg: String,
    /// What colours and shapes stand for.
    pub legend: Vec<LegendEntry>,
}

impl LegendEntry {
    /// A colour.
    pub fn colour(ink: Ink, name: &str) -> Self {
        Self::shape(ink, SQUARE, name)
    }

    /// A shape in its colour.
    pub fn shape(ink: Ink, glyph: char, name: &str) -> Self {
        Self { ink, glyph, name: name.to_owned() }
    }
}

impl Plot {
    /// Draws the picture; `description` is read to those who cannot see it.
    pub fn draw(&self, description: &str) -> Drawing {
        match self {
            Plot::Rows(rows) => {
                Drawing { svg: rows.draw(description), legend: rows.legend.clone() }
            }
            Plot::Plane(plane) => Drawing { svg: plane.draw(description), legend: plane.legend() },
            Plot::Grid(grid) => Drawing { svg: grid.draw(description), legend: grid.legend() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ink_has_its_own_name() {
        let names: std::collections::BTreeSet<_> = Ink::ALL.iter().map(|ink| ink.name()).collect();
        assert_eq!(names.len(), Ink::ALL.len());
    }
}
