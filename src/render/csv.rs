//! Comma-separated values (RFC 4180): fields and records.

use std::borrow::Cow;
use std::io::{self, Write};

use crate::model::metric::Num;
use crate::text;

/// A number as it stands.
pub(super) fn number(value: Num) -> String {
    match value {
        Num::Int(n) => n.to_string(),
        Num::Real(v) => v.to_string(),
    }
}

/// A real number as it stands; empty if it was not measured.
pub(super) fn real(value: Option<f64>) -> Cow<'static, str> {
    Cow::Owned(value.map_or_else(String::new, |v| v.to_string()))
}

/// Anything whole or named; empty if it is not known.
pub(super) fn whole<T: ToString>(value: Option<T>) -> Cow<'static, str> {
    Cow::Owned(value.map_or_else(String::new, |v| v.to_string()))
}

/// `true` or `false`.
pub(super) fn flag(value: bool) -> Cow<'static, str> {
    Cow::Borrowed(if value { "true" } else { "false" })
}

/// Writes finished fields as one line.
pub(super) fn record<'a>(
    out: &mut dyn Write,
    fields: impl IntoIterator<Item = Cow<'a, str>>,
) -> io::Result<()> {
    for (i, field) in fields.into_iter().enumerate() {
        if i > 0 {
            out.write_all(b",")?;
        }
        out.write_all(field.as_bytes())?;
    }
    out.write_all(b"\r\n")
}

/// A text as a field: printable, quoted where needed, and never a formula: a spreadsheet takes text that starts with `=`, `+`, `-` or `@`
/// for one, so an apostrophe goes before it.
pub fn field(text: &str) -> Cow<'_, str> {
    let mut text = text::printable(text);
    if text.trim_start().starts_with(['=', '+', '-', '@']) {
        text = Cow::Owned(format!("'{text}"));
    }
    if text.contains(['"', ',', '\n', '\r', ';']) || text.trim() != text {
        text = Cow::Owned(format!("\"{}\"", text.replace('"', "\"\"")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_and_never_a_formula() {
        let cases = [
            ("Batch 5", "Batch 5"),
            ("a,b", "\"a,b\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("a\nb", "a b"),
            ("\u{1b}[31m", "\\u{1b}[31m"),
            ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
            ("\t=1", "' =1"),
            (" padded ", "\" padded \""),
            ("-1+1", "'-1+1"),
            ("@x", "'@x"),
            ("", ""),
        ];
        for (text, want) in cases {
            assert_eq!(field(text), want, "{text:?}");
        }
    }
}
