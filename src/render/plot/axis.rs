//! An axis: where a value stands, and which values are written beside it.

use super::Ink;
use super::svg::{Anchor, Sheet};
use crate::units;

/// An axis of a picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// What it shows: `busbw`. May be empty where the picture's caption says so.
    pub name: String,
    /// Unit of its values; may be empty.
    pub unit: String,
    /// Its first and last value.
    pub range: (f64, f64),
    /// How values are spread over it.
    pub scale: Scale,
}

/// How values are spread over an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By their logarithm, over whole powers of ten.
    Log,
    /// By their logarithm; values are bytes.
    LogBytes,
}

impl Axis {
    /// A linear axis.
    pub fn linear(name: &str, unit: &str, range: (f64, f64)) -> Self {
        Self { name: name.to_owned(), unit: unit.to_owned(), range, scale: Scale::Linear }
    }

    /// A logarithmic axis over the powers of ten that enclose all positive values.
    pub fn log(
        name: &str,
        unit: &str,
        scale: Scale,
        values: impl IntoIterator<Item = f64>,
    ) -> Self {
        let positive = values.into_iter().filter(|v| v.is_finite() && *v > 0.0);
        let (low, high) =
            positive.fold((f64::INFINITY, 0f64), |(low, high), v| (low.min(v), high.max(v)));
        let (first, last) = if low > high {
            (0, 1)
        } else {
            let first = low.log10().floor() as i32;
            (first, (high.log10().ceil() as i32).max(first + 1))
        };
        let range = (10f64.powi(first), 10f64.powi(last));
        Self { name: name.to_owned(), unit: unit.to_owned(), range, scale }
    }

    /// True if a value has a place on the axis or beyond its end.
    pub(super) fn can_place(&self, value: f64) -> bool {
        value.is_finite() && (self.scale == Scale::Linear || value > 0.0)
    }

    /// Where a value stands between two places; beyond the axis it stands at its end.
    pub(super) fn place(&self, value: f64, from: i32, to: i32) -> i32 {
        let along = |v: f64| if self.scale == Scale::Linear { v } else { v.log10() };
        let (first, last) = (along(self.range.0), along(self.range.1));
        let share = (along(value) - first) / (last - first).max(f64::MIN_POSITIVE);
        from + (share.clamp(0.0, 1.0) * f64::from(to - from)).round() as i32
    }

    /// A value with what it is: `busbw 34.5 GB/s`.
    pub(super) fn say(&self, value: f64) -> String {
        let number = match self.scale {
            Scale::LogBytes => units::bytes(value.max(0.0) as u64),
            _ if value.abs() >= 1000.0 => format!("{value:.0}"),
            _ => tick_text((value * 1000.0).round() / 1000.0),
        };
        let words = [self.name.as_str(), &number, &self.unit];
        words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    }

    /// Name and unit, for the end of the axis.
    pub(super) fn title(&self) -> String {
        match (self.name.as_str(), self.unit.as_str()) {
            ("", unit) => unit.to_owned(),
            (name, "") => name.to_owned(),
            (name, unit) => format!("{name} ({unit})"),
        }
    }

    /// The values that are written, with their texts; `count` of them, about.
    pub(super) fn ticks(&self, count: usize) -> Vec<(f64, String)> {
        if self.scale == Scale::Linear {
            let ticks = ticks_between(self.range, count);
            return ticks.into_iter().map(|tick| (tick, tick_text(tick))).collect();
        }
        let powers = self.range.0.log10().round() as i32..=self.range.1.log10().round() as i32;
        // With many decades only every second is labelled.
        let every = powers.clone().count().div_ceil(9).max(1) as i32;
        let first = *powers.start();
        powers
            .map(|power| {
                let value = 10f64.powi(power);
                let text = match self.scale {
                    _ if (power - first) % every != 0 => String::new(),
                    Scale::LogBytes => {
                        units::bytes(value as u64).replace(".00", "").replace(".0", "")
                    }
                    _ => tick_text(value),
                };
                (value, text)
            })
            .collect()
    }

    /// Draws it below a picture: a line over the whole height at each tick, its text, and the unit at the end.
    pub(super) fn draw_below(&self, sheet: &mut Sheet, x: (i32, i32), y: (i32, i32)) {
        for (tick, text) in self.ticks(6) {
            let at = self.place(tick, x.0, x.1);
            sheet.line(&[(at, y.0), (at, y.1)], Ink::Grid, 2, "");
            sheet.text(&text, Ink::Muted, Anchor::Middle, (at, y.1 + 24));
        }
    }

    /// Draws it to the left of a picture.
    pub(super) fn draw_left(&self, sheet: &mut Sheet, x: (i32, i32), y: (i32, i32), whole: bool) {
        for (tick, text) in self.ticks(5) {
            if whole && tick.fract() != 0.0 {
                continue;
            }
            let at = self.place(tick, y.1, y.0);
            sheet.line(&[(x.0, at), (x.1, at)], Ink::Grid, 2, "");
            sheet.text(&text, Ink::Muted, Anchor::Right, (x.0 - 12, at));
        }
    }
}

/// Round positions in a range, about `count` of them: steps of 1, 2 or 5 times a power of ten.
fn ticks_between((from, to): (f64, f64), count: usize) -> Vec<f64> {
    if !from.is_finite() || !to.is_finite() || to <= from {
        return vec![0.0];
    }
    let raw = (to - from) / count.max(1) as f64;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|m| m * power)
        .find(|&step| step >= raw)
        .unwrap_or(raw);
    let first = (from / step).ceil();
    (0..4 * count.max(1))
        .map(|i| (first + i as f64) * step)
        .take_while(|&tick| tick <= to)
        .collect()
}

/// A tick without trailing zeros.
fn tick_text(tick: f64) -> String {
    let text = format!("{tick:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_end_before_the_maximum() {
        assert_eq!(ticks_between((0.0, 137.6), 6), [0.0, 50.0, 100.0]);
        assert_eq!(ticks_between((0.0, 120.0), 6), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0, 120.0]);
        assert_eq!(ticks_between((0.0, 0.0), 6), [0.0]);
        assert_eq!(ticks_between((0.0, f64::NAN), 6), [0.0]);
        assert_eq!(ticks_between((0.0, f64::INFINITY), 6), [0.0]);
        assert_eq!(ticks_between((-12.0, 31.0), 6), [-10.0, 0.0, 10.0, 20.0, 30.0]);
        assert_eq!(ticks_between((89.3, 90.7), 6), [89.5, 90.0, 90.5]);
        assert_eq!([0.5, 20.0, 0.0, 0.002].map(tick_text), ["0.5", "20", "0", "0.002"]);
    }

    #[test]
    fn a_decade_is_as_wide_as_the_next() {
        let x = Axis::log("", "", Scale::LogBytes, [1_024.0, 134_217_728.0]);
        assert_eq!([1e3, 1e6, 1e9].map(|v| x.place(v, 0, 600)), [0, 300, 600]);
        let texts: Vec<String> = x.ticks(6).into_iter().map(|tick| tick.1).collect();
        assert_eq!(texts, ["1 kB", "10 kB", "100 kB", "1 MB", "10 MB", "100 MB", "1 GB"]);
        assert_eq!(Axis::log("", "", Scale::Log, []).ticks(6).len(), 2);
        assert_eq!(Axis::log("", "", Scale::Log, [10.0]).range, (10.0, 100.0));
    }

    #[test]
    fn what_lies_beyond_the_axis_stands_at_its_end() {
        let axis = Axis::linear("step", "ms", (90.0, 110.0));
        assert_eq!([90.0, 100.0, 500.0, -7.0].map(|v| axis.place(v, 0, 100)), [0, 50, 100, 0]);
        assert_eq!((axis.say(95.25), axis.title()), ("step 95.25 ms".into(), "step (ms)".into()));
        assert!(!axis.can_place(f64::NAN));
    }
}
