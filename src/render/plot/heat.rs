//! A grid of shaded cells: who waits, and where.

use plotters::prelude::{Rectangle, ShapeStyle};

use super::canvas::{self, Anchor, WIDTH};
use super::{Ink, LegendEntry, SQUARE};
use crate::text;

/// Shaded cells in rows and columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Heat {
    /// Names of the rows.
    pub rows: Vec<String>,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The cells of each row; `None` where nothing was measured.
    pub cells: Vec<Vec<Option<HeatCell>>>,
    /// What a full shade stands for.
    pub full: String,
    /// What a framed cell stands for.
    pub marked: String,
}

/// One cell.
#[derive(Debug, Clone, PartialEq)]
pub struct HeatCell {
    /// How strong the shade is, 0 to 1.
    pub shade: f64,
    /// What is written into it where there is room.
    pub text: String,
    /// True if it is framed.
    pub marked: bool,
}

const LEFT: i32 = 170;
const RIGHT: i32 = WIDTH - 10;
const CELL: i32 = 44;
const HEAD: i32 = 40;
const GAP: i32 = 4;

impl Heat {
    /// What shade and frame stand for.
    pub fn legend(&self) -> Vec<LegendEntry> {
        vec![
            LegendEntry { ink: Ink::Wait, glyph: SQUARE, name: self.full.clone() },
            LegendEntry { ink: Ink::Text, glyph: '□', name: self.marked.clone() },
        ]
    }

    pub(super) fn draw(&self, description: &str) -> String {
        let columns = self.columns.len().max(1) as i32;
        let edge = |column: usize| LEFT + (RIGHT - LEFT) * column as i32 / columns;
        let width = (RIGHT - LEFT) / columns;
        // Where names would run into each other only every n-th is written.
        let longest = self
            .columns
            .iter()
            .map(|name| canvas::text_width(&text::shorten(name, 12)))
            .max()
            .unwrap_or(0);
        let every = ((longest + 16) / width.max(1) + 1).max(1) as usize;
        canvas::draw(HEAD + self.rows.len() as i32 * CELL + GAP, description, |area| {
            for (i, name) in self.columns.iter().enumerate().step_by(every) {
                // A name may be wider than its column: the first starts at the column's edge.
                let (anchor, x) = if every > 1 {
                    (Anchor::Left, edge(i))
                } else {
                    (Anchor::Middle, (edge(i) + edge(i + 1)) / 2)
                };
                canvas::write(area, &text::shorten(name, 12), Ink::Muted, anchor, (x, HEAD / 2))?;
            }
            for (row, (name, cells)) in self.rows.iter().zip(&self.cells).enumerate() {
                let top = HEAD + row as i32 * CELL;
                canvas::write(
                    area,
                    &text::shorten(name, 10),
                    Ink::Text,
                    Anchor::Left,
                    (0, top + CELL / 2),
                )?;
                for (column, cell) in cells.iter().enumerate().take(self.columns.len()) {
                    let Some(cell) = cell else { continue };
                    let (from, to) =
                        ((edge(column), top), (edge(column + 1) - GAP, top + CELL - GAP));
                    canvas::fill(area, from, to, Ink::Grid, 0.45)?;
                    canvas::fill(area, from, to, Ink::Wait, cell.shade.clamp(0.0, 1.0))?;
                    if cell.marked {
                        let frame = ShapeStyle {
                            color: Ink::Text.color().into(),
                            filled: false,
                            stroke_width: 3,
                        };
                        area.draw(&Rectangle::new(
                            [(from.0 + 2, from.1 + 2), (to.0 - 2, to.1 - 2)],
                            frame,
                        ))?;
                    }
                    if width > canvas::text_width(&cell.text) + 16 {
                        let ink = if cell.shade > 0.5 { Ink::Wait.on() } else { Ink::Text };
                        canvas::write(
                            area,
                            &cell.text,
                            ink,
                            Anchor::Middle,
                            ((from.0 + to.0) / 2, (from.1 + to.1) / 2),
                        )?;
                    }
                }
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_shaded_framed_or_left_out() {
        let cell = |shade, marked| Some(HeatCell { shade, text: format!("{shade}"), marked });
        let heat = Heat {
            rows: vec!["rank 0".into(), "rank 1".into()],
            columns: vec!["a".into(), "b".into()],
            cells: vec![vec![cell(1.0, false), None], vec![cell(0.25, true), cell(0.0, false)]],
            full: "5 ms".into(),
            marked: "arrived last".into(),
        };
        let svg = heat.draw("who waits");
        // Three cells have a ground, two of them a shade, one a frame.
        assert_eq!(svg.matches("class=\"f-grid\"").count(), 3, "{svg}");
        assert_eq!(svg.matches("class=\"f-wait\"").count(), 2, "{svg}");
        assert_eq!(svg.matches("class=\"s-text\"").count(), 1, "{svg}");
        assert!(svg.contains("opacity=\"0.25\""));
    }
}
