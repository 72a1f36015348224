//! Numbers as text: a unit on every one, as many digits as matter, and never a nonzero number that reads as zero.
//!
//! Sizes are decimal (1 kB = 1,000 bytes) because bandwidths are.

/// What stands where nothing was measured.
pub(crate) const MISSING: &str = "–";

/// A unit of time with the decimals that a column of such times is printed with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeScale {
    /// `ns`, `µs`, `ms` or `s`.
    pub unit: &'static str,
    /// Nanoseconds in one unit.
    nanoseconds: f64,
    decimals: usize,
}

const NS: TimeScale = TimeScale { unit: "ns", nanoseconds: 1.0, decimals: 0 };
const US: TimeScale = TimeScale { unit: "µs", nanoseconds: 1e3, decimals: 1 };
const MS: TimeScale = TimeScale { unit: "ms", nanoseconds: 1e6, decimals: 1 };
const S: TimeScale = TimeScale { unit: "s", nanoseconds: 1e9, decimals: 3 };

impl TimeScale {
    /// The scale in which the largest of `times` (ns) reads well; milliseconds if there are none.
    pub fn of(times: impl IntoIterator<Item = i64>) -> Self {
        let largest = times.into_iter().map(|ns| ns.unsigned_abs()).max().unwrap_or(1_000_000);
        match largest {
            0..1_000 => NS,
            1_000..1_000_000 => Self { decimals: decimals(largest as f64 / US.nanoseconds), ..US },
            1_000_000..10_000_000_000 => {
                Self { decimals: decimals(largest as f64 / MS.nanoseconds), ..MS }
            }
            _ => S,
        }
    }

    /// `ns` in this scale, without the unit.
    pub fn number(self, ns: i64) -> String {
        fixed(ns as f64 / self.nanoseconds, self.decimals)
    }

    /// `ns` in this scale, as a number to draw with.
    pub fn scaled(self, ns: i64) -> f64 {
        ns as f64 / self.nanoseconds
    }
}

/// A time on its own: `137.6 ms`, `6.13 µs`, `1.234 s`.
pub(crate) fn time(ns: i64) -> String {
    // 999.96 µs rounds to a thousand, so it is a millisecond already.
    let scale = match ns.unsigned_abs() {
        0..1_000 => NS,
        1_000..999_950 => US,
        999_950..999_950_000 => MS,
        _ => S,
    };
    let value = scale.scaled(ns);
    let decimals = match scale.unit {
        "ns" => 0,
        "s" => S.decimals,
        _ => decimals(value),
    };
    format!("{} {}", fixed(value, decimals), scale.unit)
}

/// A share (0 to 1) in percent, without the sign.
pub(crate) fn percent_number(share: f64) -> String {
    if share < 1.0 && share > 0.9995 { ">99.9".to_owned() } else { fixed(share * 100.0, 1) }
}

/// A share (0 to 1) as `34.6 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{} %", percent_number(share))
}

/// A change (0.05 is 5 % more) as `+5.0 %`.
pub(crate) fn signed_percent(change: f64) -> String {
    let text = format!("{} %", fixed(change * 100.0, 1));
    if change > 0.0 { format!("+{text}") } else { text }
}

/// A size on its own with three digits: `1.70 GB`, `472 MB`, `96 B`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1_000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1e3;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1e3;
        unit += 1;
    }
    let decimals = if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    };
    format!("{value:.decimals$} {}", UNITS[unit])
}

/// A bandwidth in GB/s, without the unit.
pub(crate) fn bandwidth_number(gbs: f64) -> String {
    fixed(gbs, if gbs.abs() < 1.0 { 3 } else { decimals(gbs) })
}

/// A bandwidth as `287.6 GB/s`.
pub(crate) fn bandwidth(gbs: f64) -> String {
    format!("{} GB/s", bandwidth_number(gbs))
}

/// A count with thousands separated: `1,234,567`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// `1 rank`, `2 ranks`.
pub(crate) fn plural(n: usize, one: &str) -> String {
    format!("{} {one}{}", count(n as u64), if n == 1 { "" } else { "s" })
}

/// Two decimals below ten, else one: three digits or four.
fn decimals(value: f64) -> usize {
    if value.abs() < 9.995 { 2 } else { 1 }
}

/// `value` with `decimals` places; a nonzero value that would read as zero is `<0.1` instead, and a number that is none is missing.
fn fixed(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return MISSING.to_owned();
    }
    let text = format!("{value:.decimals$}");
    if text.bytes().any(|b| (b'1'..=b'9').contains(&b)) {
        return text;
    }
    let zero = format!("{:.decimals$}", 0.0);
    if value == 0.0 {
        return zero;
    }
    let smallest = format!("{:.decimals$}", 10f64.powi(-(decimals as i32)));
    if value > 0.0 { format!("<{smallest}") } else { format!(">-{smallest}") }
}

/// Runs of ranks that are listed one by one.
const RUNS_NAMED: usize = 8;

/// Ranks in order, as `0-7` or `0, 2-3`; of many runs the first few and how many ranks there are:
/// `0, 2, 4, 6, 8, 10, 12, 14 and others (500 in all)`.
pub(crate) fn rank_list(ranks: &[u32]) -> String {
    let all: std::collections::BTreeSet<u32> = ranks.iter().copied().collect();
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &rank in &all {
        match runs.last_mut() {
            Some(run) if run.1.checked_add(1) == Some(rank) => run.1 = rank,
            _ => runs.push((rank, rank)),
        }
    }
    let shown: Vec<String> = runs
        .iter()
        .take(RUNS_NAMED)
        .map(|&(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") })
        .collect();
    if runs.len() > shown.len() {
        format!("{} and others ({} in all)", shown.join(", "), count(all.len() as u64))
    } else {
        shown.join(", ")
    }
}

/// `rank 3`, `ranks 0-3, 8`.
pub(crate) fn ranks(ranks: &[u32]) -> String {
    format!("rank{} {}", if ranks.len() == 1 { "" } else { "s" }, rank_list(ranks))
}

/// The first `most` of a list, and how many more there are: `a, b and 3 more`.
pub(crate) fn listed<S: AsRef<str>>(items: &[S], most: usize) -> String {
    let shown: Vec<&str> = items.iter().take(most).map(AsRef::as_ref).collect();
    match items.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {} more", shown.join(", "), count(more as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_choose_their_unit_and_digits() {
        let cases = [
            (0, "0 ns"),
            (850, "850 ns"),
            (6_130, "6.13 µs"),
            (999_949, "999.9 µs"),
            (999_960, "1.00 ms"),
            (1_284_291, "1.28 ms"),
            (137_568_464, "137.6 ms"),
            (999_949_000, "999.9 ms"),
            (999_950_000, "1.000 s"),
            (1_234_400_000, "1.234 s"),
            (-5_100_000, "-5.10 ms"),
        ];
        for (ns, want) in cases {
            assert_eq!(time(ns), want, "{ns}");
        }
        assert_eq!(time(i64::MIN), "-9223372036.855 s");
    }

    #[test]
    fn a_column_has_one_unit_and_never_hides_a_nonzero_number() {
        let scale = TimeScale::of([137_568_464, 40_000, 0]);
        assert_eq!(scale.unit, "ms");
        assert_eq!(
            [137_568_464, 40_000, 0, -40_000].map(|ns| scale.number(ns)),
            ["137.6", "<0.1", "0.0", ">-0.1"]
        );
        assert_eq!(TimeScale::of([5_120_000]).number(5_120_000), "5.12");
        assert_eq!(TimeScale::of([12_345_678_901]).number(12_345_678_901), "12.346");
        assert_eq!(TimeScale::of([]).unit, "ms");
    }

    #[test]
    fn shares_are_not_rounded_to_nothing_or_to_everything() {
        let cases = [
            (0.3459, "34.6 %"),
            (0.0, "0.0 %"),
            (0.0002, "<0.1 %"),
            (0.99996, ">99.9 %"),
            (1.0, "100.0 %"),
            (1.5, "150.0 %"),
        ];
        for (share, want) in cases {
            assert_eq!(percent(share), want, "{share}");
        }
        assert_eq!(percent(f64::NAN), "– %");
        assert_eq!(signed_percent(0.05), "+5.0 %");
        assert_eq!(signed_percent(-0.05), "-5.0 %");
        assert_eq!(signed_percent(0.9998), "+100.0 %");
    }

    #[test]
    fn sizes_are_decimal_with_three_digits() {
        let cases = [
            (96, "96 B"),
            (999, "999 B"),
            (1_024, "1.02 kB"),
            (65_536, "65.5 kB"),
            (471_859_200, "472 MB"),
            (999_500, "1.00 MB"),
            (1_698_000_800, "1.70 GB"),
            (u64::MAX, "18.4 EB"),
        ];
        for (n, want) in cases {
            assert_eq!(bytes(n), want, "{n}");
        }
    }

    #[test]
    fn bandwidths_and_counts() {
        assert_eq!(
            [287.57, 27.2, 2.789, 0.0123].map(bandwidth),
            ["287.6 GB/s", "27.2 GB/s", "2.79 GB/s", "0.012 GB/s"]
        );
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([plural(1, "rank"), plural(2, "rank")], ["1 rank", "2 ranks"]);
    }

    #[test]
    fn ranks_are_listed_in_runs() {
        assert_eq!(rank_list(&[0, 1, 2, 3]), "0-3");
        assert_eq!(rank_list(&[7, 0, 2, 3]), "0, 2-3, 7");
        assert_eq!(rank_list(&[u32::MAX]), "4294967295");
        assert_eq!(rank_list(&[]), "");
        assert_eq!(ranks(&[3]), "rank 3");
        assert_eq!(ranks(&[8, 0, 1, 2, 3]), "ranks 0-3, 8");
        assert_eq!(listed(&["a", "b", "c"], 3), "a, b, c");
        assert_eq!(listed(&["a", "b", "c"], 1), "a and 2 more");
        assert_eq!(listed::<&str>(&[], 1), "");
        let even: Vec<u32> = (0..500).map(|i| 2 * i).collect();
        assert_eq!(ranks(&even), "ranks 0, 2, 4, 6, 8, 10, 12, 14 and others (500 in all)");
    }
}
