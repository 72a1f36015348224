//! Untrusted text on its way to a person: kernel names, range texts, paths and logs may hold anything.

use std::borrow::Cow;

/// `text` with everything that could steer a terminal or disguise other text replaced by `\u{..}`:
/// control characters (escape sequences among them) and the Unicode characters that change direction or are invisible.
/// A tab or a line break becomes a space.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\t' | '\n' | '\r' => out.push(' '),
            c if is_unsafe(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2028}' | '\u{2029}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// `text` without terminal escape sequences (colours, underlines): tools write them even into files.
pub(crate) fn without_escapes(text: &str) -> Cow<'_, str> {
    if !text.contains('\u{1b}') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            out.push(c);
        } else if chars.as_str().starts_with('[') {
            // ESC [ parameters, then one letter that ends the sequence.
            chars.next();
            chars.by_ref().find(|c| ('\u{40}'..='\u{7e}').contains(c));
        }
    }
    Cow::Owned(out)
}

/// What is wrong with a regular expression, in one line: the library's text draws it over several.
pub(crate) fn regex_fault(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

/// The first `max` characters of `text`, with `…` in place of the rest.
pub(crate) fn shorten(text: &str, max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(max) {
        None => Cow::Borrowed(text),
        Some(_) => {
            let cut = text.char_indices().nth(max.saturating_sub(1)).map_or(0, |(at, _)| at);
            Cow::Owned(format!("{}…", &text[..cut]))
        }
    }
}

/// `text` as one word of a POSIX shell.
pub(crate) fn shell_quote(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=+,:@".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// The text with its first letter as a capital.
pub(crate) fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_and_direction_marks_are_made_visible() {
        assert_eq!(printable("gemm\u{1b}[31m"), "gemm\\u{1b}[31m");
        assert_eq!(printable("a\u{202e}b\nc"), "a\\u{202e}b c");
        assert_eq!(
            printable("\u{61c}x\u{ad}\u{e0041}\u{fff9}"),
            "\\u{61c}x\\u{ad}\\u{e0041}\\u{fff9}"
        );
        assert!(matches!(printable("ncclDevKernel<µ>"), Cow::Borrowed(_)));
    }

    #[test]
    fn escape_sequences_are_removed_whole() {
        assert_eq!(without_escapes("\t\u{1b}[4mGPU0\tGPU1\u{1b}[0m"), "\tGPU0\tGPU1");
        assert_eq!(without_escapes("\u{1b}[1;31mred\u{1b}[m\u{1b}"), "red");
        assert_eq!(without_escapes("cut \u{1b}[3"), "cut ");
        assert!(matches!(without_escapes("plain"), Cow::Borrowed(_)));
    }

    #[test]
    fn shorten_counts_characters_not_bytes() {
        assert_eq!(shorten("µµµµ", 4), "µµµµ");
        assert_eq!(shorten("µµµµµ", 4), "µµµ…");
    }
}
