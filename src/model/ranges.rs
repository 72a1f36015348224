//! The user's NVTX ranges of one process, in columns, and the texts of a report by their kinds.
//!
//! A kind is a text with each run of digits left out: `iter 12` and `iter 7` are of one kind, `iter #`.
//! A report may have millions of texts and has few kinds, so a range keeps its kind and its digits.

use std::borrow::Cow;

use foldhash::HashMap;

use super::{Ns, Span};
use crate::redact;
use crate::text::{printable, shorten};

/// Stands for a run of digits inside a kind; no text of a range holds it.
const RUN: char = '\0';
/// Characters of a kind by which it is known; nobody names steps by what comes after.
const KNOWN_BY: usize = 200;
/// Characters of a kind that are searched for secrets, so that none is cut in two where it is still shown.
const LOOKED_AT: usize = 4 * KNOWN_BY;
/// Runs of digits that are spelled out, at most: the texts beyond are known by their kind alone.
const SPELLED: usize = 1 << 20;
/// Marks digits that are spelled out elsewhere.
const IN_TABLE: u64 = 1 << 63;
/// Digits that were not kept.
const UNKNOWN: u64 = u64::MAX;

/// A kind of text, as a place in [`Texts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KindId(pub u32);

/// The digits of a text: one plain number, or a place among those that are spelled out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digits(u64);

/// The texts of a report's ranges.
#[derive(Debug, Clone, Default)]
pub struct Texts {
    kinds: Vec<Box<str>>,
    index: HashMap<Box<str>, KindId>,
    spelled: Vec<Box<str>>,
    spelled_index: HashMap<Box<str>, u64>,
}

impl Texts {
    /// Splits a text into its kind and its digits. `None` if its kind is new and there are `limit`
    /// kinds already.
    pub fn intern(&mut self, text: &str, limit: usize) -> Option<(KindId, Digits)> {
        let (kind, runs) = split(text);
        let id = match self.index.get(kind.as_str()) {
            Some(&id) => id,
            None if self.kinds.len() >= limit => return None,
            None => {
                let id = KindId(self.kinds.len() as u32);
                self.kinds.push(kind.as_str().into());
                self.index.insert(kind.into(), id);
                id
            }
        };
        Some((id, self.digits(&runs)))
    }

    fn digits(&mut self, runs: &[&str]) -> Digits {
        match runs {
            [] => return Digits(0),
            [one] if one.len() < 19 && (*one == "0" || !one.starts_with('0')) => {
                if let Ok(number) = one.parse() {
                    return Digits(number);
                }
            }
            _ => {}
        }
        let spelled = runs.join("\0");
        if let Some(&at) = self.spelled_index.get(spelled.as_str()) {
            return Digits(at | IN_TABLE);
        }
        if self.spelled.len() >= SPELLED {
            return Digits(UNKNOWN);
        }
        let at = self.spelled.len() as u64;
        self.spelled.push(spelled.as_str().into());
        self.spelled_index.insert(spelled.into(), at);
        Digits(at | IN_TABLE)
    }

    /// The text as it may be shown: a run of digits that was not kept is `#`, secrets are hidden.
    pub fn text(&self, kind: KindId, digits: Digits) -> String {
        let pattern = self.kinds.get(kind.0 as usize).map_or("", |kind| kind);
        let plain = digits.0.to_string();
        let spelled = match digits.0 {
            UNKNOWN => None,
            at if at & IN_TABLE != 0 => {
                self.spelled.get((at & !IN_TABLE) as usize).map(|runs| runs.as_ref())
            }
            _ => Some(plain.as_str()),
        };
        let mut runs = spelled.into_iter().flat_map(|spelled| spelled.split('\0'));
        let mut out = String::with_capacity(pattern.len() + 8);
        for c in pattern.chars() {
            if c == RUN { out.push_str(runs.next().unwrap_or("#")) } else { out.push(c) }
        }
        redact::text(&out).into_owned()
    }

    /// The first run of digits of a text: the number that it bears.
    pub fn number(&self, kind: KindId, digits: Digits) -> Option<String> {
        let has_run = self.kinds.get(kind.0 as usize).is_some_and(|kind| kind.contains(RUN));
        match digits.0 {
            UNKNOWN => None,
            at if at & IN_TABLE != 0 => self
                .spelled
                .get((at & !IN_TABLE) as usize)
                .and_then(|runs| runs.split('\0').next())
                .map(str::to_owned),
            number => has_run.then(|| number.to_string()),
        }
    }

    /// A kind in print: `#` for each run of digits, secrets hidden.
    pub fn kind(&self, kind: KindId) -> String {
        let kind = self.kinds.get(kind.0 as usize).map_or("", |kind| kind);
        redact::text(&shown(&shorten(kind, LOOKED_AT))).into_owned()
    }

    /// A regular expression that matches every text of a kind. Characters that a terminal would not show as they are
    /// are spelled out, so that it can be copied from there.
    pub fn pattern(&self, kind: KindId) -> String {
        let text = self.kinds.get(kind.0 as usize).map_or("", |kind| kind);
        let text = &redact::text(shorten(text, LOOKED_AT).as_ref()).into_owned();
        let mut out = String::from("^");
        for c in text.chars().take(KNOWN_BY) {
            match c {
                RUN => out.push_str(r"\d+"),
                '\t' | '\n' | '\r' => out.push_str(r"\s"),
                c => match printable(c.encode_utf8(&mut [0; 4])) {
                    Cow::Borrowed(plain) => out.push_str(&regex::escape(plain)),
                    Cow::Owned(spelled) => out.push_str(&spelled),
                },
            }
        }
        if text.chars().nth(KNOWN_BY).is_none() {
            out.push('$');
        }
        // A secret may be another one in every text.
        out.replace(&regex::escape(redact::HIDDEN), ".+")
    }

    /// How many kinds there are.
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }
}

fn split(text: &str) -> (String, Vec<&str>) {
    let mut kind = String::with_capacity(text.len());
    let mut runs = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        kind.extend(rest[..at].chars().filter(|c| *c != RUN));
        let digits = &rest[at..];
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        runs.push(&digits[..end]);
        kind.push(RUN);
        rest = &digits[end..];
    }
    kind.extend(rest.chars().filter(|c| *c != RUN));
    (kind, runs)
}

fn shown(kind: &str) -> String {
    kind.replace(RUN, "#")
}

/// The kind of a text, in print: `iter 12` is `iter #`.
pub(crate) fn kind_of(text: &str) -> String {
    shown(&split(text).0)
}

/// An NVTX range with an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// Start on the CPU.
    pub start: Ns,
    /// End on the CPU, never before the start.
    pub end: Ns,
    /// The thread that opened it.
    pub thread: u64,
    /// The kind of its text.
    pub kind: KindId,
    /// The digits in its text.
    pub digits: Digits,
}

impl Range {
    /// Its time on the CPU.
    pub fn span(&self) -> Span {
        Span::new(self.start, self.end)
    }

    /// The thread's number inside its process, as [`super::Ops::thread`] has it.
    pub fn tid(&self) -> u32 {
        (self.thread & 0xff_ffff) as u32
    }
}

/// The ranges of one process that are the user's own, in order of (start, longest first, thread, text).
#[derive(Debug, Clone, Default)]
pub struct UserRanges {
    start: Vec<Ns>,
    end: Vec<Ns>,
    thread: Vec<u32>,
    kind: Vec<KindId>,
    digits: Vec<Digits>,
    /// True where the text matches the pattern that was asked for, or what steps are usually called.
    named: Vec<bool>,
    threads: Vec<u64>,
    thread_index: HashMap<u64, u32>,
}

impl UserRanges {
    /// Adds a range; `named` if its text is one of steps.
    pub fn push(&mut self, range: Range, named: bool) {
        let next = self.threads.len() as u32;
        let thread = *self.thread_index.entry(range.thread).or_insert_with(|| {
            self.threads.push(range.thread);
            next
        });
        self.start.push(range.start);
        self.end.push(range.end.max(range.start));
        self.thread.push(thread);
        self.kind.push(range.kind);
        self.digits.push(range.digits);
        self.named.push(named);
    }

    /// Puts the ranges in order: that of rows means nothing.
    pub fn sort(&mut self, texts: &Texts) {
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        let time = |i: u32| {
            let i = i as usize;
            (self.start[i], std::cmp::Reverse(self.end[i]), self.threads[self.thread[i] as usize])
        };
        let text = |i: u32| texts.text(self.kind[i as usize], self.digits[i as usize]);
        order.sort_by(|&a, &b| time(a).cmp(&time(b)).then_with(|| text(a).cmp(&text(b))));
        fn permute<T: Copy>(column: &mut Vec<T>, order: &[u32]) {
            *column = order.iter().map(|&i| column[i as usize]).collect();
        }
        permute(&mut self.start, &order);
        permute(&mut self.end, &order);
        permute(&mut self.thread, &order);
        permute(&mut self.kind, &order);
        permute(&mut self.digits, &order);
        permute(&mut self.named, &order);
    }

    /// Drops the ranges whose kind is not wanted, unless they are named.
    pub fn retain_kinds(&mut self, wanted: impl Fn(KindId) -> bool) {
        let keep: Vec<bool> =
            (0..self.len()).map(|i| self.named[i] || wanted(self.kind[i])).collect();
        fn retain<T: Copy>(column: &mut Vec<T>, keep: &[bool]) {
            let mut kept = keep.iter();
            column.retain(|_| kept.next().copied().unwrap_or(false));
        }
        retain(&mut self.start, &keep);
        retain(&mut self.end, &keep);
        retain(&mut self.thread, &keep);
        retain(&mut self.kind, &keep);
        retain(&mut self.digits, &keep);
        retain(&mut self.named, &keep);
    }

    /// How many ranges there are.
    pub fn len(&self) -> usize {
        self.start.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }

    /// True if one of them is named as steps are.
    pub fn any_named(&self) -> bool {
        self.named.contains(&true)
    }

    fn get(&self, i: usize) -> Range {
        Range {
            start: self.start[i],
            end: self.end[i],
            thread: self.threads[self.thread[i] as usize],
            kind: self.kind[i],
            digits: self.digits[i],
        }
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = Range> + '_ {
        (0..self.len()).map(|i| self.get(i))
    }

    /// The range of a thread that is open at a time and began last, among the `most` that began last before it.
    pub fn innermost(&self, tid: u32, at: Ns, most: usize) -> Option<Range> {
        let after = self.start.partition_point(|&start| start <= at);
        let last = (after.saturating_sub(most)..after).rev().map(|i| self.get(i));
        last.filter(|range| range.tid() == tid).find(|range| range.end > at)
    }

    /// Those that are named as steps are, in order.
    pub fn named(&self) -> impl Iterator<Item = Range> + '_ {
        (0..self.len()).filter(|&i| self.named[i]).map(|i| self.get(i))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_its_kind_and_its_digits() {
        let mut texts = Texts::default();
        let list = [
            "iter 12",
            "iter 7",
            "iter 007",
            "layer 3 of 12",
            "no number",
            "99999999999999999999 x",
            "#1",
        ];
        let ids: Vec<_> = list.iter().map(|text| texts.intern(text, 100).expect("room")).collect();
        for (text, (kind, digits)) in list.iter().zip(&ids) {
            assert_eq!(texts.text(*kind, *digits), *text);
        }
        assert_eq!(ids[0].0, ids[1].0);
        assert_eq!(ids[0].0, ids[2].0);
        assert_eq!(texts.kind(ids[3].0), "layer # of #");
        assert_eq!(texts.number(ids[3].0, ids[3].1).as_deref(), Some("3"));
        assert_eq!(texts.number(ids[4].0, ids[4].1), None);
        assert_eq!(kind_of("iter 12"), "iter #");
    }

    #[test]
    fn beyond_the_limit_no_kind_is_added() {
        let mut texts = Texts::default();
        assert!(texts.intern("a", 1).is_some());
        assert!(texts.intern("b", 1).is_none());
        assert!(texts.intern("a", 1).is_some());
    }

    // thread 1  |---- a ----|
    //           |---- b ----|   at the same time: the text decides, whatever the order of rows
    #[test]
    fn order_does_not_depend_on_rows() {
        let sorted = |list: [&str; 2]| {
            let mut texts = Texts::default();
            let mut ranges = UserRanges::default();
            for text in list {
                let (kind, digits) = texts.intern(text, 10).expect("room");
                ranges.push(Range { start: 0, end: 9, thread: 1, kind, digits }, true);
            }
            ranges.sort(&texts);
            ranges.iter().map(|r| texts.text(r.kind, r.digits)).collect::<Vec<_>>()
        };
        assert_eq!(sorted(["b 1", "a 1"]), ["a 1", "b 1"]);
        assert_eq!(sorted(["a 1", "b 1"]), ["a 1", "b 1"]);
    }
}
