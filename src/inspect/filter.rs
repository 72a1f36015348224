//! Which records a user asks for.

use super::settings::Settings;
use crate::model::CommOp;
use crate::model::record::{Origin, Record};
use crate::{Error, Result};

/// Digits of a communicator id that the plugin prints, `0x` included.
const LOGGED_ID: usize = 16;

/// A choice of records.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter {
    /// Only records written at or after this, Unix microseconds.
    pub since_us: Option<i64>,
    /// Only records written before this, Unix microseconds.
    pub until_us: Option<i64>,
    /// Only this communicator: its name, its id as NCCL or Inspector prints it, or the beginning of its id.
    pub comm: Option<String>,
    /// Only this operation.
    pub op: Option<CommOp>,
}

impl Filter {
    /// True if records of this origin are wanted.
    pub fn wants_origin(&self, origin: &Origin) -> bool {
        let Some(comm) = self.comm.as_deref() else { return true };
        // NCCL's own log prints all 16 digits of an id of which Inspector keeps 14.
        let id = comm.get(..LOGGED_ID).unwrap_or(comm);
        origin.comm_name.as_deref() == Some(comm)
            || (id.starts_with("0x") && origin.comm_id.starts_with(id))
    }

    /// True if this record of a wanted origin is wanted. Without a time of writing it is not, where a time is asked for.
    pub fn wants(&self, record: &Record<'_>) -> bool {
        self.op.is_none_or(|op| record.op == Some(op))
            && self.since_us.is_none_or(|t| record.written_us.is_some_and(|w| w >= t))
            && self.until_us.is_none_or(|t| record.written_us.is_some_and(|w| w < t))
    }

    /// The choice as the output names it.
    pub fn settings(&self) -> Settings {
        Settings {
            since_us: self.since_us,
            until_us: self.until_us,
            comm: self.comm.clone(),
            op: self.op.map(|op| op.label().to_owned()),
        }
    }
}

/// A time as a user writes it, in Unix microseconds: `2026-11-30T01:45:54Z` (or a space, or with `.25`, or with `+02:00`; without a
/// zone it is UTC), a date alone, Unix seconds (`1796003281.5`), or Unix microseconds as they stand in the logs.
///
/// # Errors
/// The text is none of these.
pub fn parse_time(text: &str) -> Result<i64> {
    let wrong = || {
        Error::usage(format!("'{text}' is not a time")).with_hint(
            "write 2026-11-30T01:45:54Z, or Unix seconds, or the microseconds of dump_timestamp_us",
        )
    };
    if let Ok(number) = text.parse::<f64>() {
        // Seconds would reach this in the year 5138.
        let us = if number.abs() >= 1e11 { number } else { number * 1e6 };
        return if us.is_finite() && us.abs() < 9e18 {
            Ok(us.round() as i64)
        } else {
            Err(wrong())
        };
    }
    calendar(text).ok_or_else(wrong)
}

fn calendar(text: &str) -> Option<i64> {
    let (date, rest) = match text.split_once(['T', 't', ' ']) {
        Some((date, rest)) => (date, rest),
        None => (text, "00:00"),
    };
    let number = |s: &str| {
        (!s.is_empty() && s.bytes().all(|b| b.is_ascii_digit()))
            .then(|| s.parse::<i64>().ok())
            .flatten()
    };
    let mut fields = date.splitn(3, '-').map(number);
    let (year, month, day) = (fields.next()??, fields.next()??, fields.next()??);
    if !(1..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (clock, offset_minutes) = match rest.find(['Z', 'z', '+', '-']) {
        None => (rest, 0),
        Some(at) => match rest.split_at(at) {
            (clock, "Z" | "z") => (clock, 0),
            (clock, zone) => {
                let (hours, minutes) = zone.get(1..)?.split_once(':')?;
                let small = |s: &str| number(s).filter(|&n| n < 60);
                let total = small(hours)? * 60 + small(minutes)?;
                (clock, if zone.starts_with('-') { -total } else { total })
            }
        },
    };
    let mut fields = clock.splitn(3, ':');
    let (hour, minute, second) = (
        number(fields.next()?)?,
        number(fields.next()?)?,
        fields.next().unwrap_or("0").parse::<f64>().ok()?,
    );
    if hour > 23 || minute > 59 || !(0.0..61.0).contains(&second) {
        return None;
    }
    let minutes = (days_from_1970(year, month, day) * 24 + hour) * 60 + minute - offset_minutes;
    Some(minutes * 60_000_000 + (second * 1e6).round() as i64)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar (Howard Hinnant, "chrono-compatible low-level date algorithms").
fn days_from_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// A Unix time in microseconds as `2026-11-30 01:45:54.250` (UTC), with milliseconds.
pub fn format_time(us: i64) -> String {
    let (day, rest) = (us.div_euclid(86_400_000_000), us.rem_euclid(86_400_000_000));
    // The inverse of `days_from_1970`, by the same author.
    let z = day + 719_468;
    let (era, day_of_era) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (seconds, milliseconds) = (rest / 1_000_000, rest / 1000 % 1000);
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}.{milliseconds:03}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_every_spelling() {
        // `date -u -d 2026-11-30T01:45:54Z +%s` prints 1796003154.
        let us = 1_796_003_154_000_000;
        for text in [
            "2026-11-30T01:45:54Z",
            "2026-11-30 01:45:54",
            "2026-11-30T03:45:54+02:00",
            "2026-11-29T20:15:54-05:30",
            "1796003154",
            "1796003154000000",
        ] {
            assert_eq!(parse_time(text).expect(text), us, "{text}");
        }
        assert_eq!(parse_time("2026-11-30T01:45:54.25Z").expect("a time"), us + 250_000);
        assert_eq!(parse_time("1970-01-01").expect("a time"), 0);
        assert_eq!(parse_time("2000-02-29T00:00Z").expect("a time"), 951_782_400_000_000);
        for text in [
            "",
            "yesterday",
            "2026-13-01",
            "2026-11-30T25:00",
            "2026-11",
            "nan",
            "1e30",
            "2026-11-30T01:45:54+2",
        ] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_printed_as_they_are_read() {
        for text in [
            "2026-11-30 01:45:54.250",
            "1969-12-31 23:59:59.999",
            "2000-02-29 12:00:00.000",
            "1999-12-31 00:00:00.001",
        ] {
            assert_eq!(format_time(parse_time(text).expect("a time")), text);
        }
    }

    #[test]
    fn a_communicator_is_chosen_by_name_or_by_any_form_of_its_id() {
        let origin = Origin {
            comm_id: "0x5f3a9c1d2e7b44".into(),
            comm_name: Some("tp".into()),
            rank: 0,
            n_ranks: 2,
            nnodes: None,
            hostname: String::new(),
            pid: None,
        };
        let wants = |comm: &str| {
            Filter { comm: Some(comm.into()), ..Filter::default() }.wants_origin(&origin)
        };
        for comm in ["tp", "0x5f3a9c1d2e7b44", "0x5f3a9c1d2e7b4400", "0x5f3a"] {
            assert!(wants(comm), "{comm}");
        }
        for comm in ["t", "dp", "0x5f3b", "0x5f3a9c1d2e7b45", "5f3a"] {
            assert!(!wants(comm), "{comm}");
        }
    }
}
