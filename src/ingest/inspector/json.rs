//! The JSON of one record, borrowed from its line. Every field is optional here: versions differ, and what is needed is checked later.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Visitor};
use serde_json::Value;

/// Text that is borrowed unless it holds escapes (`\/` in names).
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Text<'a>(pub Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text")
            }
            fn visit_borrowed_str<E>(self, v: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(v)))
            }
            fn visit_str<E>(self, v: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(v.to_owned())))
            }
        }
        d.deserialize_str(V)
    }
}

/// A number as any writer spells it: unsigned or signed, decimal, or the text `"nan"`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    /// An unsigned integer.
    Unsigned(u64),
    /// A negative integer.
    Signed(i64),
    /// Any other number.
    Real(f64),
    /// `"nan"`, `null`, or text that is not a number.
    None,
}

impl Number {
    /// As a finite float.
    pub(super) fn real(self) -> Option<f64> {
        match self {
            Number::Unsigned(v) => Some(v as f64),
            Number::Signed(v) => Some(v as f64),
            Number::Real(v) => v.is_finite().then_some(v),
            Number::None => None,
        }
    }

    /// As an integer that is not negative. A decimal (`5663.0`) is rounded.
    pub(super) fn integer(self) -> Option<u64> {
        match self {
            Number::Unsigned(v) => Some(v),
            // Both ends of the range are exact in a float; above it there is no integer to round to.
            Number::Real(v) if (0.0..18_446_744_073_709_551_616.0).contains(&v) => {
                Some(v.round() as u64)
            }
            _ => None,
        }
    }

    /// As an `u32`, if it fits.
    pub(super) fn small(self) -> Option<u32> {
        self.integer().and_then(|v| u32::try_from(v).ok())
    }

    /// As a time in Unix microseconds.
    pub(super) fn time(self) -> Option<i64> {
        self.integer().and_then(|v| i64::try_from(v).ok())
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl Visitor<'_> for V {
            type Value = Number;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }
            fn visit_u64<E>(self, v: u64) -> Result<Number, E> {
                Ok(Number::Unsigned(v))
            }
            fn visit_i64<E>(self, v: i64) -> Result<Number, E> {
                Ok(Number::Signed(v))
            }
            fn visit_f64<E>(self, v: f64) -> Result<Number, E> {
                Ok(Number::Real(v))
            }
            fn visit_str<E>(self, v: &str) -> Result<Number, E> {
                Ok(v.parse().map_or_else(
                    |_| v.parse().map_or(Number::None, Number::Real),
                    Number::Unsigned,
                ))
            }
            fn visit_unit<E>(self) -> Result<Number, E> {
                Ok(Number::None)
            }
        }
        d.deserialize_any(V)
    }
}

/// Who wrote it. The keys of `header` and `metadata` together, because flat records carry them side by side.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Header<'a> {
    #[serde(borrow)]
    pub id: Option<Text<'a>>,
    #[serde(borrow)]
    pub comm_name: Option<Text<'a>>,
    pub rank: Option<Number>,
    pub n_ranks: Option<Number>,
    pub nnodes: Option<Number>,
}

/// Where and when it was written.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Metadata<'a> {
    #[serde(borrow)]
    pub inspector_output_format_version: Option<Text<'a>>,
    pub dump_timestamp_us: Option<Number>,
    #[serde(borrow)]
    pub hostname: Option<Text<'a>>,
    pub pid: Option<Number>,
}

/// A collective.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Coll<'a> {
    #[serde(borrow)]
    pub coll: Option<Text<'a>>,
    #[serde(borrow)]
    pub coll_algo: Option<Text<'a>>,
    #[serde(borrow)]
    pub coll_proto: Option<Text<'a>>,
    pub coll_sn: Option<Number>,
    pub coll_msg_size_bytes: Option<Number>,
    pub coll_exec_time_us: Option<Number>,
    #[serde(borrow)]
    pub coll_timing_source: Option<Text<'a>>,
    pub coll_algobw_gbs: Option<Number>,
    pub coll_busbw_gbs: Option<Number>,
    pub event_trace_ts: Option<Trace>,
}

/// A send or receive.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct P2p<'a> {
    #[serde(borrow)]
    pub p2p: Option<Text<'a>>,
    pub p2p_sn: Option<Number>,
    pub p2p_peer: Option<Number>,
    pub p2p_msg_size_bytes: Option<Number>,
    pub p2p_exec_time_us: Option<Number>,
    #[serde(borrow)]
    pub p2p_timing_source: Option<Text<'a>>,
    pub p2p_algobw_gbs: Option<Number>,
    pub p2p_busbw_gbs: Option<Number>,
    pub event_trace_ts: Option<Trace>,
}

/// Host stamps of a verbose record.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Trace {
    #[serde(alias = "p2p_start_ts")]
    pub coll_start_ts: Option<Number>,
    #[serde(alias = "p2p_stop_ts")]
    pub coll_stop_ts: Option<Number>,
    pub kernel_events: Vec<KernelEvent>,
}

/// Host stamps of one channel.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct KernelEvent {
    pub channel_id: Option<Number>,
    pub kernel_start_ts: Option<Number>,
    pub kernel_stop_ts: Option<Number>,
}

/// Loss counters of one communicator.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct DumpStats {
    pub coll_dropped_total: Option<Number>,
    pub p2p_dropped_total: Option<Number>,
}

/// Nothing of a proxy trace is used but that it is one.
#[derive(Debug, serde::Deserialize)]
pub(super) struct ProxyTrace {}

/// One JSON object of a log. In a flat record the fields of header and metadata stand beside the operation.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Object<'a> {
    #[serde(borrow)]
    pub header: Option<Header<'a>>,
    #[serde(borrow)]
    pub metadata: Option<Metadata<'a>>,
    #[serde(borrow)]
    pub coll_perf: Option<Coll<'a>>,
    #[serde(borrow)]
    pub p2p_perf: Option<P2p<'a>>,
    pub dump_stats: Option<DumpStats>,
    pub proxy_trace: Option<ProxyTrace>,
    /// A flat record: nothing else tells it from an unknown kind.
    #[serde(borrow)]
    pub id: Option<Text<'a>>,
    /// A collective without any nesting.
    #[serde(borrow)]
    pub coll: Option<Text<'a>>,
}

/// Why a text is not a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    /// True if it could be the beginning of one.
    pub incomplete: bool,
    /// The fact, as a clause.
    pub reason: String,
}

impl From<String> for Fault {
    fn from(reason: String) -> Self {
        Self { incomplete: false, reason }
    }
}

impl From<serde_json::Error> for Fault {
    fn from(error: serde_json::Error) -> Self {
        let what = if error.is_data() { "has an unexpected value" } else { "is not JSON" };
        Self { incomplete: error.is_eof(), reason: format!("{what}: {error}") }
    }
}

/// The objects of one line: usually one, in its usual form; else what is left after the faults that writers are known for.
///
/// `each` gets every object with its text, which may be a repaired copy.
///
/// # Errors
/// Why the text, or its rest, cannot be used.
pub(super) fn objects(
    text: &[u8],
    each: &mut impl FnMut(&Object<'_>, &[u8]) -> Result<(), Fault>,
) -> Result<(), Fault> {
    // A list would be taken for an object whose fields come without names.
    if text.first() == Some(&b'[') {
        return repaired(text, each);
    }
    match serde_json::from_slice::<Object<'_>>(text) {
        Ok(object) => each(&object, text),
        Err(error) if error.is_eof() && !holds_several(text) => Err(error.into()),
        Err(_) => one_by_one(text, each),
    }
}

/// How a record of NCCL's own writer begins.
const BEGINNING: &str = r#"{"header":"#;

fn holds_several(text: &[u8]) -> bool {
    memchr::memmem::find_iter(text, BEGINNING).nth(1).is_some()
}

/// Reads the records of one line one after the other: one that is damaged does not take its neighbours along.
fn one_by_one(
    text: &[u8],
    each: &mut impl FnMut(&Object<'_>, &[u8]) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let lossy = String::from_utf8_lossy(text);
    let records = records(&lossy);
    let mut lost = 0u64;
    let mut first: Option<Fault> = None;
    for record in &records {
        if let Err(fault) = repaired(record.as_bytes(), each) {
            lost += 1;
            first.get_or_insert(fault);
        }
    }
    match (first, records.len()) {
        // Not even a beginning: let the reader of JSON say what it is.
        (_, 0) => repaired(text, each),
        (None, _) => Ok(()),
        (Some(fault), 1) => Err(fault),
        (Some(fault), n) => {
            Err(Fault::from(format!("lost {lost} of {n} records: one {}", fault.reason)))
        }
    }
}

/// The records of a line, each from its opening bracket to its end, or to the beginning of the next if it broke off;
/// what stands between them is the rest of another.
fn records(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let between = |from: usize, to: usize| {
        text.get(from..to)
            .map(|rest| rest.trim_matches(|c: char| c.is_whitespace() || c == ','))
            .filter(|rest| !rest.is_empty())
    };
    let (mut start, mut end, mut depth, mut in_string, mut escaped) = (0, 0, 0u64, false, false);
    for (at, byte) in text.bytes().enumerate() {
        let begins = byte == b'{' && text.as_bytes()[at..].starts_with(BEGINNING.as_bytes());
        if depth > 0 && begins {
            found.extend(text.get(start..at));
            end = at;
            (depth, in_string, escaped) = (0, false, false);
        }
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string && depth > 0,
            b'{' if !in_string => {
                if depth == 0 {
                    found.extend(between(end, at));
                    start = at;
                }
                depth += 1;
            }
            b'}' if !in_string && depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    found.extend(text.get(start..=at));
                    end = at + 1;
                }
            }
            _ => {}
        }
    }
    found.extend(if depth > 0 { text.get(start..) } else { between(end, text.len()) });
    found
}

/// Reads what is not one plain object: a list of them, a name that was cut inside a character (which is not UTF-8),
/// `nan` and `inf` without quotes (which is not JSON).
fn repaired(
    text: &[u8],
    each: &mut impl FnMut(&Object<'_>, &[u8]) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let lossy = String::from_utf8_lossy(text);
    let fixed = without_bare_words(&lossy);
    // A record of a list with one record a line ends in a comma.
    let fixed = fixed.trim_end().trim_end_matches(',');
    for value in serde_json::Deserializer::from_str(fixed).into_iter::<Value>() {
        let items = match value? {
            Value::Array(items) => items,
            single => vec![single],
        };
        for item in items {
            if !item.is_object() {
                return Err(Fault::from("is no JSON object".to_owned()));
            }
            let text = item.to_string();
            each(&serde_json::from_str(&text)?, text.as_bytes())?;
        }
    }
    Ok(())
}

/// `text` with `null` for every value that is a bare word other than `true`, `false` and `null` (`:inf`, `:-nan`).
fn without_bare_words(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut copied = 0;
    for (colon, _) in text.match_indices(':') {
        let value = colon + 1;
        let Some(rest) = text.get(value..) else { break };
        let word_len = rest
            .strip_prefix('-')
            .unwrap_or(rest)
            .bytes()
            .take_while(u8::is_ascii_alphabetic)
            .count();
        let len = word_len + usize::from(rest.starts_with('-'));
        let word = rest.get(..len).unwrap_or_default();
        let ends = rest.as_bytes().get(len).is_none_or(|b| matches!(b, b',' | b'}' | b']' | b' '));
        if word_len > 0 && ends && !matches!(word, "true" | "false" | "null") {
            out.push_str(text.get(copied..value).unwrap_or_default());
            out.push_str("null");
            copied = value + len;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_every_spelling() {
        let read = |s: &str| serde_json::from_str::<Number>(s).expect(s);
        assert_eq!(read("18446744073709547520").integer(), Some(18_446_744_073_709_547_520));
        assert_eq!(read("5663.0").integer(), Some(5663));
        assert_eq!(read("-4096"), Number::Signed(-4096));
        assert_eq!(read("-4096").integer(), None);
        assert_eq!(read("\"nan\"").real(), None);
        assert_eq!(read("\"12\"").integer(), Some(12));
        assert_eq!(read("null").real(), None);
        assert_eq!(read("1e300").integer(), None);
        assert_eq!(read("18446744073709551616").integer(), None);
    }

    #[test]
    fn bare_words_become_null_and_nothing_else_changes() {
        assert_eq!(without_bare_words(r#"{"a":inf,"b":-nan}"#), r#"{"a":null,"b":null}"#);
        assert!(matches!(
            without_bare_words(r#"{"a":true,"b":null,"c":-1,"d":"x:y"}"#),
            Cow::Borrowed(_)
        ));
    }

    fn names(text: &[u8]) -> (Vec<String>, Option<Fault>) {
        let mut seen = Vec::new();
        let result = objects(text, &mut |object, _| {
            seen.push(object.coll.as_ref().map_or_else(String::new, |c| c.0.to_string()));
            Ok(())
        });
        (seen, result.err())
    }

    #[test]
    fn lists_neighbours_and_repaired_text_are_read() {
        assert_eq!(names(br#"[{"coll":"x"},{"coll":"y"}]"#), (vec!["x".into(), "y".into()], None));
        assert_eq!(names(br#"{"coll":"x"}{"coll":"y"}"#), (vec!["x".into(), "y".into()], None));
        assert_eq!(names(br#"{"coll":"x","coll_busbw_gbs":inf}"#), (vec!["x".into()], None));
        assert_eq!(names(b"{\"coll\":\"x\xc3\"}"), (vec!["x\u{fffd}".into()], None));
        assert_eq!(names(br#"{"coll":"a\/b"}"#), (vec!["a/b".into()], None));
    }

    #[test]
    fn a_torn_line_is_incomplete_and_other_text_is_not() {
        assert!(names(br#"{"coll":"Al"#).1.is_some_and(|f| f.incomplete));
        for text in [&b"epoch 3: loss 0.25"[..], b"5", b"{\"coll\":5}", b"\0\0\0"] {
            assert!(
                names(text).1.is_some_and(|f| !f.incomplete),
                "{}",
                String::from_utf8_lossy(text)
            );
        }
        assert_eq!(names(br#"{"coll":"x"}{"coll"#).0, ["x"]);
    }

    #[test]
    fn a_damaged_record_does_not_take_its_neighbours_along() {
        let one = |coll: &str| format!(r#"{{"header":{{"id":"0x1"}},"coll":"{coll}"}}"#);
        let torn = r#"{"header":{"id":"0x1"},"coll":"Al"#;
        let line = |parts: &[&str]| names(parts.concat().as_bytes());
        let (a, b) = (one("a"), one("b"));
        assert_eq!(line(&[&a, &b]).1, None);
        for (parts, lost) in [
            (vec![torn, &a, &b], "lost 1 of 3 records"),
            (vec![&a, torn, &b], "lost 1 of 3 records"),
            (vec![&a, &b, torn], "lost 1 of 3 records"),
            (vec![torn, &a, torn, torn, &b], "lost 3 of 5 records"),
            (vec![&a, " ", &b, r#"{"coll":5}"#], "lost 1 of 3 records"),
            (vec![&a, r#""coll_sn":3}}"#, &b], "lost 1 of 3 records"),
        ] {
            let (read, fault) = line(&parts);
            assert_eq!(read, ["a", "b"], "{parts:?}");
            let fault = fault.expect("a fault");
            assert!(fault.reason.starts_with(lost) && !fault.incomplete, "{}", fault.reason);
        }
    }
}
