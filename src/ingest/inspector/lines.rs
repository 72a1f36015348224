//! Lines of a byte stream, in big blocks, however long the stream is.

use std::io::{ErrorKind, Read};

use memchr::memchr;

/// Bytes asked of the stream at a time: enough that the calls do not count, little enough for the cache.
const BLOCK: usize = 256 << 10;
/// A line may not be longer; a verbose record of 32 channels has about 7 kB.
const LONGEST: usize = 16 << 20;

/// One line without its line break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// A whole line; `ended` is false for a last line without a line break.
    Whole {
        /// Its bytes.
        text: &'a [u8],
        /// True if a line break follows.
        ended: bool,
    },
    /// A line of more than 16 MiB, skipped.
    TooLong,
}

/// Splits a stream into lines. Memory stays at the longest line seen.
#[derive(Debug)]
pub(super) struct Lines<R> {
    stream: R,
    buffer: Vec<u8>,
    /// First byte not yet handed out.
    at: usize,
    /// First byte after the data.
    filled: usize,
    /// Bytes from `at` on that are known to hold no line break.
    searched: usize,
    skipping: bool,
    finished: bool,
    failure: Option<std::io::Error>,
}

impl<R: Read> Lines<R> {
    /// Lines of `stream`.
    pub(super) fn new(stream: R) -> Self {
        Self {
            stream,
            buffer: vec![0; BLOCK],
            at: 0,
            filled: 0,
            searched: 0,
            skipping: false,
            finished: false,
            failure: None,
        }
    }

    /// The next line; `None` at the end or where the stream failed.
    pub(super) fn next(&mut self) -> Option<Line<'_>> {
        loop {
            let rest = self.buffer.get(self.at + self.searched..self.filled)?;
            if let Some(found) = memchr(b'\n', rest) {
                let start = self.at;
                let end = start + self.searched + found;
                self.at = end + 1;
                self.searched = 0;
                return Some(if std::mem::take(&mut self.skipping) {
                    Line::TooLong
                } else {
                    Line::Whole { text: self.buffer.get(start..end)?, ended: true }
                });
            }
            self.searched = self.filled - self.at;
            if self.searched > LONGEST {
                self.skipping = true;
            }
            if self.skipping {
                self.at = self.filled;
                self.searched = 0;
            }
            if !self.fill() {
                return self.last();
            }
        }
    }

    /// Why the stream ended early, if it did. What it gave before has been handed out.
    pub(super) fn failure(&self) -> Option<&std::io::Error> {
        self.failure.as_ref()
    }

    /// Reads one more block behind the unfinished line; false at the end of the stream.
    fn fill(&mut self) -> bool {
        if self.finished {
            return false;
        }
        if self.at > 0 {
            self.buffer.copy_within(self.at..self.filled, 0);
            self.filled -= self.at;
            self.at = 0;
        }
        if self.buffer.len() - self.filled < BLOCK / 2 {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        loop {
            match self.stream.read(&mut self.buffer[self.filled..]) {
                Ok(0) => self.finished = true,
                Ok(n) => self.filled += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => {
                    self.finished = true;
                    self.failure = Some(e);
                }
            }
            return !self.finished;
        }
    }

    fn last(&mut self) -> Option<Line<'_>> {
        let start = std::mem::replace(&mut self.at, self.filled);
        self.searched = 0;
        if std::mem::take(&mut self.skipping) {
            return Some(Line::TooLong);
        }
        let text = self.buffer.get(start..self.filled)?;
        (!text.is_empty()).then_some(Line::Whole { text, ended: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its bytes in pieces of `step`.
    struct Drip<'a>(&'a [u8], usize);

    impl Read for Drip<'_> {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let n = self.1.min(self.0.len()).min(out.len());
            out[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    fn all(stream: impl Read) -> Vec<Option<String>> {
        let mut lines = Lines::new(stream);
        let mut out = Vec::new();
        while let Some(line) = lines.next() {
            out.push(match line {
                Line::Whole { text, ended } => Some(format!(
                    "{}{}",
                    String::from_utf8_lossy(text),
                    if ended { "" } else { "$" }
                )),
                Line::TooLong => None,
            });
        }
        out
    }

    #[test]
    fn lines_are_the_same_however_the_bytes_arrive() {
        for step in [1, 2, 3, 7, 1000] {
            let got = all(Drip(b"a\n\nbc\r\nlast", step));
            assert_eq!(
                got,
                [Some("a".into()), Some(String::new()), Some("bc\r".into()), Some("last$".into())],
                "step {step}"
            );
        }
        assert!(all(&b""[..]).is_empty());
        assert_eq!(all(&b"x\n"[..]), [Some("x".into())]);
    }

    #[test]
    fn a_line_over_the_limit_is_one_line_and_does_not_grow_the_buffer_without_end() {
        let mut text = vec![b'x'; LONGEST * 2];
        text.extend_from_slice(b"\nshort\n");
        assert_eq!(all(&text[..]), [None, Some("short".into())]);
        assert_eq!(all(&vec![b'x'; LONGEST + BLOCK * 4][..]), [None]);
    }

    #[test]
    fn a_failing_stream_gives_what_came_before() {
        struct Broken(bool);
        impl Read for Broken {
            fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
                if std::mem::replace(&mut self.0, true) {
                    return Err(std::io::Error::other("torn"));
                }
                out[..4].copy_from_slice(b"a\nbc");
                Ok(4)
            }
        }
        let mut lines = Lines::new(Broken(false));
        assert_eq!(lines.next(), Some(Line::Whole { text: b"a", ended: true }));
        assert_eq!(lines.next(), Some(Line::Whole { text: b"bc", ended: false }));
        assert_eq!(lines.next(), None);
        assert_eq!(lines.failure().map(ToString::to_string).as_deref(), Some("torn"));
    }
}
