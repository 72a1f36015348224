//! `nvidia-smi dmon`: a table whose header names the columns and whose second line has their units. One line a second; with `-o DT`
//! date and time stand in front, in the time zone of the machine, which the file does not name.
//!
//! ```text
//! #Date       Time        gpu    pwr  gtemp     sm   pclk  rxpci  txpci
//! #YYYYMMDD   HH:MM:SS    Idx      W      C      %    MHz   MB/s   MB/s
//!  20240104   13:54:35      0    300     50    100   1980     10     20
//! ```

use super::{Found, Gpu, value};
use crate::model::counter::{Quantity, Unit};

/// True for a text with such a header.
pub(super) fn is_one(text: &str) -> bool {
    text.lines().any(|line| header(line).is_some())
}

pub(super) fn parse(text: &str, found: &mut Found) {
    let mut columns: Vec<String> = Vec::new();
    for line in text.lines() {
        if let Some(names) = header(line) {
            columns = names;
            continue;
        }
        let words = words(line);
        if words.is_empty() || columns.is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        let cell = |name: &str| words.get(columns.iter().position(|column| column == name)?);
        let gpu = cell("gpu").and_then(|index| index.parse().ok());
        let (Some(index), true) = (gpu, words.len() == columns.len()) else {
            found.bad += 1;
            continue;
        };
        let at = cell("date").zip(cell("time")).and_then(|(date, time)| moment(date, time));
        let gpu = Gpu { index: Some(index), ..Gpu::default() };
        for (name, cell) in columns.iter().zip(&words) {
            if let (Some((what, scale)), Some(value)) = (column(name), value(cell)) {
                found.add(&gpu, what, name, at, value * scale);
            }
        }
    }
}

/// What a column says, its unit, and by what its values are multiplied.
fn column(name: &str) -> Option<((Quantity, Unit), f64)> {
    Some(match name {
        "pwr" => ((Quantity::Power, Unit::Watts), 1.0),
        "sm" => ((Quantity::GpuBusy, Unit::Percent), 1.0),
        "pclk" => ((Quantity::SmClock, Unit::Megahertz), 1.0),
        "pviol" => ((Quantity::PowerViolation, Unit::Percent), 1.0),
        // 0 or 1.
        "tviol" => ((Quantity::ThermalViolation, Unit::Percent), 100.0),
        "rxpci" => ((Quantity::PcieRx, Unit::GbPerSecond), 1e-3),
        "txpci" => ((Quantity::PcieTx, Unit::GbPerSecond), 1e-3),
        _ => return None,
    })
}

/// Words of a line, whether in columns or with commas.
fn words(line: &str) -> Vec<&str> {
    line.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty()).collect()
}

fn header(line: &str) -> Option<Vec<String>> {
    let rest = line.trim_start().strip_prefix('#')?;
    let names: Vec<String> = words(rest).into_iter().map(str::to_lowercase).collect();
    let has = |name: &str| names.iter().any(|known| known == name);
    (has("gpu") && names.iter().any(|name| column(name).is_some())).then_some(names)
}

/// `20240104`, `13:54:35` as nanoseconds since 1970, as if the zone were UTC.
fn moment(date: &str, time: &str) -> Option<i64> {
    let date: i64 = date.parse().ok().filter(|d| (19_700_101..=99_991_231).contains(d))?;
    let (year, month, day) = (date / 10_000, date / 100 % 100, date % 100);
    let parts: Vec<i64> = time.split(':').map(str::parse).collect::<Result<_, _>>().ok()?;
    let [hour, minute, second] = parts.as_slice() else { return None };
    let fits = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (0..24).contains(hour)
        && (0..60).contains(minute)
        && (0..=60).contains(second);
    if !fits {
        return None;
    }
    // Days since 1970 of the Gregorian calendar, with years that begin in March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year - 719_468;
    let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second;
    // As with every time, half of the range is left so that differences fit.
    seconds.checked_mul(1_000_000_000).filter(|ns| ns.abs() < i64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_counted_from_1970() {
        // `date -u -d '2024-01-04 13:54:35' +%s` and two others.
        let seconds = |date, time| moment(date, time).map(|ns| ns / 1_000_000_000);
        assert_eq!(seconds("20240104", "13:54:35"), Some(1_704_376_475));
        assert_eq!(seconds("20240229", "00:00:00"), Some(1_709_164_800));
        assert_eq!(seconds("19700101", "00:00:01"), Some(1));
        for (date, time) in [("20241301", "0:0:0"), ("x", "0:0:0"), ("20240101", "25:00:00")] {
            assert_eq!(moment(date, time), None, "{date} {time}");
        }
    }

    #[test]
    fn columns_are_read_by_their_names_with_or_without_commas() {
        let table = "#Date       Time        gpu   pwr  gtemp   sm  pclk  rxpci txpci\n\
                     #YYYYMMDD   HH:MM:SS    Idx     W      C    %   MHz   MB/s  MB/s\n \
                     20240104   13:54:35      0   300     50  100  1980     10     -\n \
                     20240104   13:54:36      0   310     50  100  1755     20     -\n \
                     20240104   13:54:36      0   310\n";
        let mut found = Found::default();
        parse(table, &mut found);
        assert_eq!(found.bad, 1);
        let sampled = found.finish(crate::model::counter::Sampler::Smi, "f");
        assert_eq!(sampled.len(), 1);
        let of = |quantity| {
            sampled[0].series.iter().find(|s| s.quantity == quantity).map(|s| s.value.clone())
        };
        assert_eq!(of(Quantity::SmClock), Some(vec![1_980.0, 1_755.0]));
        assert_eq!(of(Quantity::PcieRx), Some(vec![0.01, 0.02]));
        assert_eq!(of(Quantity::PcieTx), None);
        assert_eq!(sampled[0].series[0].interval(), Some(1_000_000_000));
        let commas = "#gpu, pwr, sm\n0, 300, 99\n";
        let mut found = Found::default();
        parse(commas, &mut found);
        assert_eq!(found.series.len(), 1);
    }
}
