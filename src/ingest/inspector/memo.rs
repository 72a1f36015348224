//! What lines have in common. Plugins write header and metadata before each operation, and line after line they differ in the time of
//! writing alone: where those bytes are the same as before, so is what they mean, and only the operation has to be parsed.

use memchr::memmem;

/// Headers that are remembered: one for each communicator that a process uses by turns.
const REMEMBERED: usize = 8;
const TIME: &[u8] = b"\"dump_timestamp_us\":";
const KEYS: [(&[u8], Kind); 2] = [(b"\"coll_perf\":", Kind::Coll), (b"\"p2p_perf\":", Kind::P2p)];

/// Which operation a line ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub(super) enum Kind {
    Coll,
    P2p,
}

/// A line whose header is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known<'a> {
    /// Its origin.
    pub origin: usize,
    /// Its time of writing, Unix microseconds.
    pub written_us: i64,
    /// Which operation follows.
    pub kind: Kind,
    /// The JSON of the operation, if the line is JSON at all.
    pub operation: &'a [u8],
}

/// Headers as they were written, the last used first.
#[derive(Debug, Default)]
pub(super) struct Memo {
    heads: Vec<Head>,
}

#[derive(Debug)]
struct Head {
    /// From the beginning of the line to the time of writing.
    before: Vec<u8>,
    /// From behind it to the key of the operation.
    after: Vec<u8>,
    origin: usize,
}

impl Memo {
    /// The parts of `line` if its header was remembered.
    pub(super) fn find<'a>(&mut self, line: &'a [u8]) -> Option<Known<'a>> {
        let (at, (written_us, rest)) =
            self.heads.iter().enumerate().find_map(|(at, head)| Some((at, head.parts(line)?)))?;
        let origin = self.heads.get(at)?.origin;
        if at > 0 {
            self.heads.swap(0, at);
        }
        let (kind, value) =
            KEYS.iter().find_map(|(key, kind)| Some((*kind, rest.strip_prefix(*key)?)))?;
        Some(Known { origin, written_us, kind, operation: value.strip_suffix(b"}")? })
    }

    /// Remembers the header of a line that was parsed: its origin and time of writing are known.
    pub(super) fn remember(&mut self, line: &[u8], origin: usize, written_us: Option<i64>) {
        let Some(head) = Head::of(line, origin) else { return };
        if head.parts(line).map(|(time, _)| time) != written_us
            || self.heads.iter().any(|h| h.before == head.before && h.after == head.after)
        {
            return;
        }
        self.heads.truncate(REMEMBERED - 1);
        self.heads.insert(0, head);
    }
}

impl Head {
    fn of(line: &[u8], origin: usize) -> Option<Head> {
        let time = memmem::find(line, TIME)? + TIME.len();
        let (before, rest) = line.split_at_checked(time)?;
        let (_, rest) = number(rest)?;
        let end = KEYS.iter().find_map(|(key, _)| memmem::find(rest, key))?;
        Some(Head { before: before.to_vec(), after: rest.get(..end)?.to_vec(), origin })
    }

    /// The time of writing and what follows the header.
    fn parts<'a>(&self, line: &'a [u8]) -> Option<(i64, &'a [u8])> {
        let (time, rest) = number(line.strip_prefix(self.before.as_slice())?)?;
        Some((time, rest.strip_prefix(self.after.as_slice())?))
    }
}

/// The digits at the beginning as a number, and what follows them. Eighteen digits never overflow.
fn number(text: &[u8]) -> Option<(i64, &[u8])> {
    let mut value = 0;
    let mut digits = 0;
    while let Some(digit) = text.get(digits).map(|b| b.wrapping_sub(b'0')).filter(|&d| d < 10) {
        if digits == 18 {
            return None;
        }
        value = value * 10 + i64::from(digit);
        digits += 1;
    }
    Some((value, text.get(digits..)?)).filter(|_| digits > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: &str, time: &str, operation: &str) -> Vec<u8> {
        format!(r#"{{"header":{{"id":"{id}"}},"metadata":{{"dump_timestamp_us":{time},"pid":7}},{operation}}}"#).into_bytes()
    }

    #[test]
    fn a_header_is_known_again_and_another_is_not() {
        let mut memo = Memo::default();
        let first = line("a", "5", r#""coll_perf":{"coll":"x"}"#);
        assert_eq!(memo.find(&first), None);
        memo.remember(&first, 3, Some(5));
        let next = line("a", "123", r#""p2p_perf":{"p2p":"y"}"#);
        assert_eq!(
            memo.find(&next),
            Some(Known {
                origin: 3,
                written_us: 123,
                kind: Kind::P2p,
                operation: br#"{"p2p":"y"}"#
            })
        );
        for other in [
            line("b", "5", r#""coll_perf":{}"#),
            line("a", "\"nan\"", r#""coll_perf":{}"#),
            line("a", "5", r#""dump_stats":{}"#),
            next[..40].to_vec(),
        ] {
            assert_eq!(memo.find(&other), None, "{}", String::from_utf8_lossy(&other));
        }
    }

    #[test]
    fn only_the_last_headers_are_remembered() {
        let mut memo = Memo::default();
        for i in 0..20 {
            memo.remember(&line(&i.to_string(), "5", r#""coll_perf":{}"#), i, Some(5));
        }
        assert_eq!(memo.heads.len(), REMEMBERED);
        assert_eq!(memo.find(&line("19", "6", r#""coll_perf":{}"#)).map(|k| k.origin), Some(19));
        assert_eq!(memo.find(&line("2", "6", r#""coll_perf":{}"#)), None);
    }

    #[test]
    fn a_time_that_means_something_else_is_not_remembered() {
        let mut memo = Memo::default();
        memo.remember(&line("a", "5", r#""coll_perf":{}"#), 0, Some(6));
        memo.remember(
            &line("a", "1234567890123456789", r#""coll_perf":{}"#),
            0,
            Some(1_234_567_890_123_456_789),
        );
        assert!(memo.heads.is_empty());
    }
}
