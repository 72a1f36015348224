//! A second look at the NVTX ranges of a report whose texts match no step pattern: which texts there are, and how they nest.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use regex::Regex;

use super::db::{Db, int, text, time};
use super::gpu_work::process_of;
use super::queries;
use crate::Result;
use crate::model::{NameId, Names, Ns};
use crate::redact;
use crate::text::{printable, shorten};

/// Characters of a text by which it is known; nobody names steps by what comes after.
const KNOWN_BY: usize = 200;

/// How one text (numbers aside) occurs in one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occurrence {
    /// True if it is a usual text of steps.
    pub usual: bool,
    /// Ranges around its outermost occurrence, on the same thread.
    pub depth: usize,
    /// Most occurrences on one thread.
    pub on_one_thread: u64,
    /// Summed length of all occurrences.
    pub total_ns: Ns,
}

/// Texts by process, each as its [`pattern_of`]; NCCL's own ranges are not among them.
pub type Survey = BTreeMap<u32, BTreeMap<String, Occurrence>>;

/// Characters of a text that are searched for secrets, so that none is cut in two where it is still shown.
const LOOKED_AT: usize = 4 * KNOWN_BY;

/// `iter 12` and `iter 7` are one text: each run of digits becomes `#`.
pub fn normalised(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut digits = false;
    for c in text.chars() {
        if c.is_ascii_digit() {
            if !digits {
                out.push('#');
            }
            digits = true;
        } else {
            out.push(c);
            digits = false;
        }
    }
    out
}

/// The regular expression of a text in which every number may be another one. Characters that a terminal would not show as they are
/// are spelled out, so that it can be copied from there.
pub fn pattern_of(text: &str) -> String {
    let mut out = String::from("^");
    let text = &redact::text(shorten(text, LOOKED_AT).as_ref()).into_owned();
    let mut chars = text.chars().take(KNOWN_BY).peekable();
    while let Some(c) = chars.next() {
        match c {
            '0'..='9' => {
                while chars.next_if(char::is_ascii_digit).is_some() {}
                out.push_str(r"\d+");
            }
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

/// Surveys the user's ranges of a report, by pid. `usual` matches what steps are usually called.
///
/// # Errors
/// The file cannot be read.
pub fn survey(path: &Path, usual: &Regex) -> Result<Survey> {
    let db = Db::open(path)?;
    let zero = super::metadata::Metadata::read(&db)?.zero;
    let mut names = Names::default();
    let mut usual_kinds: HashSet<NameId> = HashSet::new();
    // The pattern of a text; NCCL's own have none.
    let mut kind_of = |text: &str| {
        (!text.starts_with("nccl")).then(|| {
            let kind = names.intern(&pattern_of(text));
            if usual.is_match(text) {
                usual_kinds.insert(kind);
            }
            kind
        })
    };
    let mut registered: HashMap<i64, NameId> = HashMap::new();
    db.each(queries::STRINGS, [], |row| {
        if let (Some(id), Some(value)) = (int(row, 0), text(row, 1)) {
            registered.extend(kind_of(&value).map(|kind| (id, kind)));
        }
    })?;
    // Advanced tracing names its ranges without `nccl`: only their domain tells.
    let nccl_domains = super::ranges::nccl_domains(&db)?;
    let mut threads: BTreeMap<u64, Vec<(Ns, Ns, NameId)>> = BTreeMap::new();
    db.each(queries::RANGES, [], |row| {
        let (Some(start), Some(end), Some(thread)) = (time(row, 0), time(row, 1), int(row, 2))
        else {
            return;
        };
        if int(row, 3).is_some_and(|domain| nccl_domains.contains(&(process_of(thread), domain))) {
            return;
        }
        let name = match text(row, 4) {
            Some(text) => kind_of(&text),
            None => int(row, 5).and_then(|id| registered.get(&id).copied()),
        };
        if let Some(name) = name.filter(|_| start >= zero) {
            threads.entry(thread as u64).or_default().push((start, end.max(start), name));
        }
    })?;
    let mut survey = Survey::new();
    for (thread, mut ranges) in threads {
        ranges.sort_unstable_by_key(|&(start, end, name)| (start, std::cmp::Reverse(end), name));
        let texts = survey.entry(super::gpu_work::pid_of(process_of(thread as i64))).or_default();
        let mut open: Vec<Ns> = Vec::new();
        let mut here: BTreeMap<NameId, Occurrence> = BTreeMap::new();
        for (start, end, name) in ranges {
            while open.last().is_some_and(|&outer| outer <= start) {
                open.pop();
            }
            let seen = here.entry(name).or_insert(Occurrence {
                usual: usual_kinds.contains(&name),
                depth: open.len(),
                on_one_thread: 0,
                total_ns: 0,
            });
            seen.depth = seen.depth.min(open.len());
            seen.on_one_thread += 1;
            seen.total_ns = seen.total_ns.saturating_add(end - start);
            open.push(end);
        }
        for (name, occurrence) in here {
            let all = texts.entry(names.get(name).to_owned()).or_insert(Occurrence {
                on_one_thread: 0,
                total_ns: 0,
                ..occurrence
            });
            all.depth = all.depth.min(occurrence.depth);
            all.on_one_thread = all.on_one_thread.max(occurrence.on_one_thread);
            all.total_ns = all.total_ns.saturating_add(occurrence.total_ns);
        }
    }
    Ok(survey)
}

/// The most frequent range texts with how often each occurs, at most `limit`.
///
/// # Errors
/// The file cannot be read.
pub fn frequent_texts(path: &Path, limit: usize) -> Result<Vec<(String, u64)>> {
    let db = Db::open(path)?;
    let mut list = Vec::new();
    db.each(queries::RANGE_TEXTS, [], |row| {
        if list.len() < limit
            && let (Some(text), Some(n)) =
                (text(row, 0), int(row, 1).and_then(|n| u64::try_from(n).ok()))
        {
            list.push((redact::text(&shorten(&text, LOOKED_AT)).into_owned(), n));
        }
    })?;
    Ok(list)
}
