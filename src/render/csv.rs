//! Comma-separated values (RFC 4180): one row a rank and step, every metric by its JSON path.

use std::borrow::Cow;

use crate::model::Metric;
use crate::model::metric::Num;
use crate::report::Report;
use crate::text;

/// The columns before the metrics.
const HEAD: [&str; 12] = [
    "run",
    "rank",
    "rank_source",
    "report",
    "hostname",
    "gpu",
    "pid",
    "index",
    "name",
    "outlier",
    "counted",
    "reason",
];

/// Prints a report.
pub fn print(report: &Report) -> String {
    let mut out = String::new();
    let paths = Metric::ALL.iter().map(|metric| metric.info().path);
    record(&mut out, HEAD.into_iter().chain(paths).map(Cow::Borrowed));
    for rank in &report.ranks {
        for step in &rank.steps {
            let head = [
                field(&report.name),
                Cow::Owned(rank.rank.to_string()),
                field(&rank.rank_source),
                field(&rank.report),
                field(rank.hostname.as_deref().unwrap_or_default()),
                field(rank.gpu.as_deref().unwrap_or_default()),
                Cow::Owned(rank.pid.to_string()),
                Cow::Owned(step.index.to_string()),
                field(&step.name),
                Cow::Borrowed(if step.outlier { "true" } else { "false" }),
                Cow::Borrowed(if step.counted { "true" } else { "false" }),
                field(step.reason.as_deref().unwrap_or_default()),
            ];
            let metrics = Metric::ALL
                .iter()
                .map(|&metric| Cow::Owned(step.values[metric].map_or_else(String::new, number)));
            record(&mut out, head.into_iter().chain(metrics));
        }
    }
    out
}

/// A number as it stands.
pub(super) fn number(value: Num) -> String {
    match value {
        Num::Int(n) => n.to_string(),
        Num::Real(v) => v.to_string(),
    }
}

/// Joins finished fields to one line.
pub fn record<'a>(out: &mut String, fields: impl Iterator<Item = Cow<'a, str>>) {
    for (i, field) in fields.enumerate() {
        if i > 0 {
            out.push(',');
        }
        out.push_str(&field);
    }
    out.push_str("\r\n");
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
