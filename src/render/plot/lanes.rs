//! Lanes over one time axis: what ran when.

use super::canvas::{self, Anchor, WIDTH};
use super::{Ink, LegendEntry, SQUARE};
use crate::model::{Ns, Span};
use crate::render::units::TimeScale;
use crate::text;

/// Groups of lanes over one time axis that starts at 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Lanes {
    /// Length of the axis.
    pub length: Ns,
    /// Unit of the axis.
    pub scale: TimeScale,
    /// The groups from top to bottom.
    pub groups: Vec<LaneGroup>,
}

/// Lanes that belong together: one rank.
#[derive(Debug, Clone, PartialEq)]
pub struct LaneGroup {
    /// Its name.
    pub label: String,
    /// How long it lasted; the axis may be longer.
    pub length: Ns,
    /// Its lanes from top to bottom.
    pub lanes: Vec<Lane>,
}

/// One lane.
#[derive(Debug, Clone, PartialEq)]
pub struct Lane {
    /// Its colour.
    pub ink: Ink,
    /// Its name.
    pub label: String,
    /// When something ran: sorted, disjoint.
    pub spans: Vec<Span>,
}

const LEFT: i32 = 330;
const RIGHT: i32 = WIDTH - 100;
const LANE: i32 = 34;
const GAP: i32 = 4;
const GROUP_GAP: i32 = 22;
/// Characters of a label that fit beside the names of the lanes, and above them.
const SHORT_LABEL: usize = 10;
const LONGEST_LABEL: usize = 90;
/// Width of a column in which coverage is measured: one pixel of the page.
const COLUMN: i32 = 2;
/// Shades by which a column that is only partly covered is drawn.
const SHADES: i64 = 4;

impl Lanes {
    /// What the colours stand for.
    pub fn legend(&self) -> Vec<LegendEntry> {
        let mut legend: Vec<LegendEntry> = Vec::new();
        for lane in self.groups.iter().flat_map(|group| &group.lanes) {
            if legend.iter().all(|entry| entry.ink != lane.ink) {
                legend.push(LegendEntry { ink: lane.ink, glyph: SQUARE, name: lane.label.clone() });
            }
        }
        legend
    }

    pub(super) fn draw(&self, description: &str) -> String {
        let height: i32 = self
            .groups
            .iter()
            .map(|group| title(group) + group.lanes.len() as i32 * (LANE + GAP) + GROUP_GAP)
            .sum();
        canvas::draw(height + 46, description, |area| {
            canvas::time_axis(
                area,
                (LEFT, RIGHT),
                (0, height),
                self.scale.scaled(self.length),
                self.scale.unit,
            )?;
            let mut y = GROUP_GAP / 2;
            for group in &self.groups {
                canvas::write(
                    area,
                    &text::shorten(&group.label, LONGEST_LABEL),
                    Ink::Text,
                    Anchor::Left,
                    (0, y + LANE / 2),
                )?;
                y += title(group);
                let end = (f64::from(RIGHT - LEFT) * group.length as f64
                    / self.length.max(1) as f64)
                    .round() as i32;
                for lane in &group.lanes {
                    canvas::write(
                        area,
                        &lane.label,
                        Ink::Muted,
                        Anchor::Right,
                        (LEFT - 14, y + LANE / 2),
                    )?;
                    canvas::fill(area, (LEFT, y), (LEFT + end, y + LANE), Ink::Grid, 0.45)?;
                    for (from, to, shade) in
                        coverage(&lane.spans, self.length, (RIGHT - LEFT) / COLUMN)
                    {
                        let alpha = shade as f64 / SHADES as f64;
                        let (from, to) = (LEFT + from * COLUMN, LEFT + to * COLUMN);
                        canvas::fill(area, (from, y), (to, y + LANE), lane.ink, alpha)?;
                    }
                    y += LANE + GAP;
                }
                y += GROUP_GAP;
            }
            Ok(())
        })
    }
}

/// Height of the line that a long label has to itself; a short one stands beside the names of the lanes.
fn title(group: &LaneGroup) -> i32 {
    if group.label.chars().count() > SHORT_LABEL { LANE } else { 0 }
}

/// How much of each of `columns` equal parts of `[0, length)` the spans cover, in shades, neighbours of one shade joined:
/// (first column, column after the last, shade). A column that is touched at all has at least the lightest shade.
fn coverage(spans: &[Span], length: Ns, columns: i32) -> Vec<(i32, i32, i64)> {
    if length <= 0 || columns <= 0 {
        return Vec::new();
    }
    let width = length as f64 / f64::from(columns);
    let mut covered = vec![0f64; columns as usize];
    for span in spans {
        let (start, end) =
            (span.start.clamp(0, length) as f64 / width, span.end.clamp(0, length) as f64 / width);
        let last = (end.ceil() as usize).min(covered.len());
        for (column, part) in covered.iter_mut().enumerate().take(last).skip(start as usize) {
            *part += end.min(column as f64 + 1.0) - start.max(column as f64);
        }
    }
    let mut runs: Vec<(i32, i32, i64)> = Vec::new();
    for (column, part) in (0..).zip(covered) {
        let shade =
            if part > 0.0 { ((part * SHADES as f64).round() as i64).clamp(1, SHADES) } else { 0 };
        match runs.last_mut() {
            _ if shade == 0 => {}
            Some(run) if run.1 == column && run.2 == shade => run.1 += 1,
            _ => runs.push((column, column + 1, shade)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coverage_is_shaded_not_stretched() {
        // columns   0         1         2         3
        //           |--------- ---------|=   =    |         |   length 40 ns, 10 ns a column
        let spans = [Span::new(0, 20), Span::new(20, 21), Span::new(24, 25)];
        assert_eq!(coverage(&spans, 40, 4), [(0, 2, 4), (2, 3, 1)]);
        assert_eq!(coverage(&[Span::new(35, 90)], 40, 4), [(3, 4, 2)]);
        assert_eq!(coverage(&[Span::new(-5, 1)], 40, 4), [(0, 1, 1)]);
        assert_eq!(coverage(&[], 40, 4), []);
        assert_eq!(coverage(&[Span::new(0, 1)], 0, 4), []);
    }

    #[test]
    fn lanes_stand_at_their_time() {
        let lane = Lane {
            ink: Ink::Comm,
            label: "communication".into(),
            spans: vec![Span::new(200, 1000)],
        };
        let lanes = Lanes {
            length: 1000,
            scale: TimeScale::of([1000]),
            groups: vec![LaneGroup { label: "rank 0".into(), length: 1000, lanes: vec![lane] }],
        };
        // 1010 units are 1000 ns.
        assert!(
            lanes
                .draw("one step")
                .contains("x=\"532\" y=\"11\" width=\"808\" height=\"34\" class=\"f-comm\""),
            "{}",
            lanes.draw("")
        );
        assert_eq!(lanes.legend().len(), 1);
    }
}
