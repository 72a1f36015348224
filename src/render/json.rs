//! A document as JSON: the numbers as they stand, keys in a fixed order.

use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter};

use crate::text;

/// Writes a value as indented JSON with a line break at the end. Characters that could steer a terminal or disguise other text are
/// written as `\u` escapes: the same document to a parser.
///
/// # Errors
/// `out` cannot be written to.
pub fn write<T: Serialize + ?Sized>(value: &T, out: &mut dyn io::Write) -> io::Result<()> {
    let formatter = Safe(PrettyFormatter::new());
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut *out, formatter))?;
    out.write_all(b"\n")
}

/// The usual indentation with a stricter idea of which characters are safe.
struct Safe(PrettyFormatter<'static>);

impl Formatter for Safe {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        for c in fragment.chars() {
            let mut buffer = [0; 4];
            let one: &str = c.encode_utf8(&mut buffer);
            if text::printable(one) == one {
                writer.write_all(one.as_bytes())?;
            } else {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_change_the_text_but_not_the_value() {
        let name = "gemm\u{1b}[31m\u{9b}1m\u{202e}\"\\µ日\u{feff}";
        let value = serde_json::json!({ "name": name, "list": [1, 2.5, null], "empty": {} });
        let mut bytes = Vec::new();
        write(&value, &mut bytes).expect("written to memory");
        let json = String::from_utf8(bytes).expect("UTF-8");
        assert!(json.contains(r#"gemm\u001b[31m\u009b1m\u202e\"\\µ日\ufeff"#), "{json}");
        let back: serde_json::Value = serde_json::from_str(&json).expect("valid JSON");
        assert_eq!(back["name"], name);
        assert!(json.ends_with("}\n") && json.contains("\n  \"list\": ["));
    }
}
