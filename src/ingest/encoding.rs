//! Text as UTF-8, however it was saved: editors write a byte-order mark, and some shells redirect into UTF-16.

use std::io::{ErrorKind, Read, Result};

/// Bytes of UTF-16 that are decoded at a time.
const BLOCK: usize = 16 * 1024;

/// How the bytes of a stream stand for text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// UTF-8 and everything else: handed on as it is.
    Utf8,
    Utf16Le,
    Utf16Be,
}

impl Form {
    /// The form that the first bytes show, and how many of them are a mark. Without a mark, ASCII beside zeros is UTF-16.
    fn of(head: &[u8]) -> (Form, usize) {
        match head {
            [0xef, 0xbb, 0xbf, ..] => (Form::Utf8, 3),
            [0xff, 0xfe, ..] => (Form::Utf16Le, 2),
            [0xfe, 0xff, ..] => (Form::Utf16Be, 2),
            [1..=0x7f, 0, 1..=0x7f, 0, ..] => (Form::Utf16Le, 0),
            [0, 1..=0x7f, 0, 1..=0x7f, ..] => (Form::Utf16Be, 0),
            _ => (Form::Utf8, 0),
        }
    }

    fn unit(self, pair: [u8; 2]) -> u16 {
        if self == Form::Utf16Be { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) }
    }
}

/// A stream as UTF-8 without a byte-order mark; what is not text passes unchanged.
#[derive(Debug)]
pub(crate) struct AsUtf8<R> {
    stream: R,
    form: Option<Form>,
    /// Bytes to hand out, from `at` on.
    ready: Vec<u8>,
    at: usize,
    /// UTF-16 that waits for its second half.
    rest: Vec<u8>,
}

impl<R: Read> AsUtf8<R> {
    /// Over `stream`, whose first bytes decide.
    pub(crate) fn new(stream: R) -> Self {
        Self { stream, form: None, ready: Vec::new(), at: 0, rest: Vec::new() }
    }

    fn begin(&mut self) -> Result<Form> {
        let mut head = Vec::with_capacity(4);
        (&mut self.stream).take(4).read_to_end(&mut head)?;
        let (form, mark) = Form::of(&head);
        let text = head.get(mark..).unwrap_or_default();
        if form == Form::Utf8 { &mut self.ready } else { &mut self.rest }.extend_from_slice(text);
        self.form = Some(form);
        Ok(form)
    }

    /// Decodes the next block; false at the end of the stream.
    fn decode(&mut self, form: Form) -> Result<bool> {
        let mut block = vec![0; BLOCK];
        let read = loop {
            match self.stream.read(&mut block) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        self.rest.extend(block.into_iter().take(read));
        let mut units: Vec<u16> =
            self.rest.chunks_exact(2).map(|pair| form.unit([pair[0], pair[1]])).collect();
        // The first half of a pair of surrogates waits for the second.
        if read > 0 && units.last().is_some_and(|unit| (0xd800..0xdc00).contains(unit)) {
            units.pop();
        }
        self.rest.drain(..units.len() * 2);
        self.ready = String::from_utf16_lossy(&units).into_bytes();
        self.at = 0;
        Ok(read > 0)
    }
}

impl<R: Read> Read for AsUtf8<R> {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        let form = match self.form {
            Some(form) => form,
            None => self.begin()?,
        };
        let mut more = true;
        while self.at == self.ready.len() {
            if form == Form::Utf8 {
                return self.stream.read(out);
            }
            if !more {
                return Ok(0);
            }
            more = self.decode(form)?;
        }
        let ready = self.ready.get(self.at..).unwrap_or_default();
        let n = ready.len().min(out.len());
        if let (Some(to), Some(from)) = (out.get_mut(..n), ready.get(..n)) {
            to.copy_from_slice(from);
        }
        self.at += n;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its bytes in pieces of `step`.
    struct Drip<'a>(&'a [u8], usize);

    impl Read for Drip<'_> {
        fn read(&mut self, out: &mut [u8]) -> Result<usize> {
            let n = self.1.min(self.0.len()).min(out.len());
            out[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    fn text(bytes: &[u8], step: usize) -> Vec<u8> {
        let mut out = Vec::new();
        AsUtf8::new(Drip(bytes, step)).read_to_end(&mut out).expect("no error");
        out
    }

    fn utf16(text: &str, unit: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(unit).collect()
    }

    #[test]
    fn every_form_reads_alike_however_the_bytes_arrive() {
        let want = "\tGPU0\n\u{1f600}µ end";
        for step in [1, 2, 3, 5, 4096] {
            let with_mark = [b"\xef\xbb\xbf", want.as_bytes()].concat();
            let marked = format!("\u{feff}{want}");
            for bytes in [
                want.as_bytes().to_vec(),
                with_mark,
                utf16(&marked, u16::to_le_bytes),
                utf16(&marked, u16::to_be_bytes),
                utf16(want, u16::to_le_bytes),
                utf16(want, u16::to_be_bytes),
            ] {
                assert_eq!(text(&bytes, step), want.as_bytes(), "step {step}: {bytes:?}");
            }
        }
    }

    #[test]
    fn other_bytes_pass_unchanged_and_damage_ends() {
        for bytes in [&b""[..], b"\x1f\x8b\x08\0\0", b"a", b"SQLite format 3\0", b"\0\0\0\0"] {
            assert_eq!(text(bytes, 3), bytes);
        }
        assert_eq!(text(b"\xff\xfea\0b", 3), b"a", "half a character is left out");
        assert_eq!(text(b"\xff\xfe\x00\xd8", 3), "\u{fffd}".as_bytes());
    }
}
