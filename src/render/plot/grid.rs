//! A grid of cells that are filled as far as their value goes: who waits, and where.

use super::svg::{Anchor, Paint, Sheet, fitted, text_width};
use super::{Ink, LegendEntry, SQUARE, WIDTH};

/// Cells in rows and columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// Names of the rows.
    pub rows: Vec<String>,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The cells of each row; `None` where nothing was measured.
    pub cells: Vec<Vec<Option<Cell>>>,
    /// What a full cell stands for.
    pub full: String,
    /// What a framed cell stands for.
    pub marked: String,
}

/// One cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// How far it is filled, 0 to 1.
    pub fill: f64,
    /// What is written into it where there is room.
    pub text: String,
    /// What it is.
    pub title: String,
    /// True if it is framed.
    pub marked: bool,
}

const LEFT: i32 = 170;
const RIGHT: i32 = WIDTH - 10;
const CELL: i32 = 44;
const HEAD: i32 = 40;
const GAP: i32 = 4;

impl Grid {
    /// What fill and frame stand for.
    pub(super) fn legend(&self) -> Vec<LegendEntry> {
        vec![
            LegendEntry { ink: Ink::Wait, glyph: SQUARE, name: self.full.clone() },
            LegendEntry { ink: Ink::Text, glyph: '□', name: self.marked.clone() },
        ]
    }

    pub(super) fn draw(&self, description: &str) -> String {
        let columns = self.columns.len().max(1) as i32;
        let edge = |column: usize| LEFT + (RIGHT - LEFT) * column as i32 / columns;
        let width = (RIGHT - LEFT) / columns;
        let mut sheet = Sheet::new(WIDTH, HEAD + self.rows.len() as i32 * CELL + GAP);
        // Where names would run into each other only every n-th is written, from the column's edge on.
        let names: Vec<String> = self.columns.iter().map(|name| fitted(name, 170)).collect();
        let longest = names.iter().map(|name| text_width(name)).max().unwrap_or(0);
        let every = ((longest + 16) / width.max(1) + 1).max(1) as usize;
        for (i, name) in names.iter().enumerate().step_by(every) {
            let (anchor, x) = if every > 1 {
                (Anchor::Left, edge(i))
            } else {
                (Anchor::Middle, (edge(i) + edge(i + 1)) / 2)
            };
            sheet.text(name, Ink::Muted, anchor, (x, HEAD / 2));
        }
        for (row, (name, cells)) in self.rows.iter().zip(&self.cells).enumerate() {
            let top = HEAD + row as i32 * CELL;
            sheet.text(&fitted(name, LEFT - 12), Ink::Text, Anchor::Left, (0, top + CELL / 2));
            for (column, cell) in cells.iter().enumerate().take(self.columns.len()) {
                if let Some(cell) = cell {
                    let to = (edge(column + 1) - GAP, top + CELL - GAP);
                    draw_cell(&mut sheet, cell, (edge(column), top), to);
                }
            }
        }
        sheet.finish(description)
    }
}

fn draw_cell(sheet: &mut Sheet, cell: &Cell, from: (i32, i32), to: (i32, i32)) {
    let filled = (f64::from(to.1 - from.1) * cell.fill.clamp(0.0, 1.0)).round() as i32;
    // However short, a wait is seen.
    let filled = if cell.fill > 0.0 { filled.max(2) } else { 0 };
    sheet.group(&cell.title, |sheet| {
        sheet.bar(from, to, Paint::Full(Ink::Ground), "");
        sheet.bar((from.0, to.1 - filled), to, Paint::Full(Ink::Wait), "");
        if cell.marked {
            let frame = Paint::Frame(Ink::Text);
            sheet.bar((from.0 + 2, from.1 + 2), (to.0 - 2, to.1 - 2), frame, "");
        }
        if to.0 - from.0 > text_width(&cell.text) + 16 {
            let middle = ((from.0 + to.0) / 2, (from.1 + to.1) / 2);
            if cell.fill > 0.8 {
                sheet.inside(&cell.text, Paint::Full(Ink::Wait).on(), middle);
            } else {
                sheet.text(&cell.text, Ink::Text, Anchor::Middle, middle);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_filled_framed_or_left_out() {
        let cell = |fill: f64, marked| {
            Some(Cell { fill, text: format!("{fill}"), title: format!("waits {fill}"), marked })
        };
        let grid = Grid {
            rows: vec!["rank 0".into(), "rank 1".into()],
            columns: vec!["a".into(), "b".into()],
            cells: vec![vec![cell(1.0, false), None], vec![cell(0.25, true), cell(0.0, false)]],
            full: "5 ms".into(),
            marked: "arrived last".into(),
        };
        let svg = grid.draw("who waits");
        // Three cells have a ground, two of them are filled (40 and 10 of 40 units), one has a frame.
        assert_eq!(svg.matches("class=\"f-ground\"").count(), 3, "{svg}");
        assert_eq!(svg.matches("class=\"f-wait\"").count(), 2, "{svg}");
        assert_eq!(svg.matches("class=\"s-text\"").count(), 1, "{svg}");
        assert!(svg.contains("y=\"40\" width=\"626\" height=\"40\" class=\"f-wait\""), "{svg}");
        assert!(svg.contains("y=\"114\" width=\"626\" height=\"10\" class=\"f-wait\""), "{svg}");
        assert!(svg.contains("<title>waits 0.25</title>"), "{svg}");
    }
}
