//! Pictures as data, and their drawing as SVG with real text. Colours are CSS classes, so one picture suits light and dark pages.

mod bars;
mod boxes;
mod canvas;
mod dots;
mod grouped;
mod heat;
mod histogram;
mod lanes;
mod loglog;
mod scatter;
mod waterfall;

pub use bars::{BarRow, Bars, Segment};
pub use boxes::{BoxRow, Boxes};
pub use dots::{Dot, DotRow, Dots};
pub use grouped::{Bar, BarGroup, Grouped};
pub use heat::{Heat, HeatCell};
pub use histogram::Histogram;
pub use lanes::{Lane, LaneGroup, Lanes};
pub use loglog::{Curve, LogLog};
pub use scatter::{Cloud, Scatter};
pub use waterfall::{Fall, Waterfall};

/// What to draw.
#[derive(Debug, Clone, PartialEq)]
pub enum Plot {
    /// Horizontal stacked bars.
    Bars(Bars),
    /// Horizontal bars side by side in groups.
    Grouped(Grouped),
    /// How differences by part lead from one number to another.
    Waterfall(Waterfall),
    /// Every value of several samples.
    Dots(Dots),
    /// When something ran, in lanes over one time axis.
    Lanes(Lanes),
    /// A grid of shaded cells.
    Heat(Heat),
    /// Curves on logarithmic axes.
    LogLog(LogLog),
    /// Points in a plane.
    Scatter(Scatter),
    /// How often values fall into equal ranges.
    Histogram(Histogram),
    /// The spread of several samples.
    Boxes(Boxes),
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
    const ALL: [Ink; 19] = [
        Ink::Text,
        Ink::Muted,
        Ink::Grid,
        Ink::Compute,
        Ink::Comm,
        Ink::Copies,
        Ink::Unclassified,
        Ink::Idle,
        Ink::Wait,
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

impl Plot {
    /// Draws the picture; `description` is read to those who cannot see it.
    pub fn draw(&self, description: &str) -> Drawing {
        match self {
            Plot::Bars(bars) => Drawing { svg: bars.draw(description), legend: bars.legend() },
            Plot::Grouped(grouped) => {
                Drawing { svg: grouped.draw(description), legend: grouped.legend() }
            }
            Plot::Waterfall(waterfall) => {
                Drawing { svg: waterfall.draw(description), legend: waterfall.legend() }
            }
            Plot::Dots(dots) => Drawing { svg: dots.draw(description), legend: dots.legend() },
            Plot::Lanes(lanes) => Drawing { svg: lanes.draw(description), legend: lanes.legend() },
            Plot::Heat(heat) => Drawing { svg: heat.draw(description), legend: heat.legend() },
            Plot::LogLog(loglog) => {
                Drawing { svg: loglog.draw(description), legend: loglog.legend() }
            }
            Plot::Scatter(scatter) => {
                Drawing { svg: scatter.draw(description), legend: scatter.legend() }
            }
            Plot::Histogram(histogram) => {
                Drawing { svg: histogram.draw(description), legend: histogram.legend() }
            }
            Plot::Boxes(boxes) => Drawing { svg: boxes.draw(description), legend: boxes.legend() },
        }
    }
}

/// A square in a legend.
const SQUARE: char = '■';

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ink_has_its_own_name() {
        let names: std::collections::BTreeSet<_> = Ink::ALL.iter().map(|ink| ink.name()).collect();
        assert_eq!(names.len(), Ink::ALL.len());
    }
}
