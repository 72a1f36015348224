//! Which texts of ranges may be steps: those that recur on every rank, the shallowest first.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use foldhash::{HashMap, HashMapExt};
use rayon::prelude::*;

use crate::model::ranges::kind_of;
use crate::model::{KindId, Ns, RankTrace};
use crate::text::shorten;

/// Kinds that are tried, and that are listed.
pub(crate) const LISTED: usize = 20;

/// A kind of text on all ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// The kind in print, without what differs by rank.
    pub kind: String,
    /// A regular expression that matches its texts on the first rank that has it.
    pub pattern: String,
    /// Ranks on which it occurs.
    pub ranks: usize,
    /// True if it occurs at least twice on one thread of every rank.
    pub repeated: bool,
    /// Fewest ranges around it, on the same thread.
    pub depth: usize,
    /// Ranges of this kind, over all ranks.
    pub count: u64,
    /// Summed length, ns.
    pub total_ns: Ns,
    /// When the first range of this kind begins on the first rank, ns.
    pub first: Ns,
}

/// How one kind occurs on one rank.
#[derive(Debug, Clone, Copy)]
struct Occurrence {
    depth: usize,
    most_on_one_thread: u64,
    count: u64,
    total_ns: Ns,
    first: Ns,
}

/// The kinds of all ranks, shallowest first; ties by longer total time, then text.
pub(crate) fn candidates(ranks: &[RankTrace]) -> Vec<Candidate> {
    let by_rank: Vec<Vec<(String, String, Occurrence)>> =
        ranks.par_iter().map(occurrences).collect();
    let mut all: BTreeMap<String, (Candidate, usize)> = BTreeMap::new();
    for (kind, pattern, here) in by_rank.into_iter().flatten() {
        let (candidate, twice) = all.entry(kind.clone()).or_insert_with(|| {
            let new = Candidate {
                kind,
                pattern,
                ranks: 0,
                repeated: false,
                depth: here.depth,
                count: 0,
                total_ns: 0,
                first: here.first,
            };
            (new, 0)
        });
        candidate.ranks += 1;
        candidate.depth = candidate.depth.min(here.depth);
        candidate.count += here.count;
        candidate.total_ns = candidate.total_ns.saturating_add(here.total_ns);
        *twice += usize::from(here.most_on_one_thread >= 2);
    }
    let mut list: Vec<Candidate> = all
        .into_values()
        .map(|(candidate, twice)| Candidate { repeated: twice == ranks.len(), ..candidate })
        .collect();
    list.sort_by(|a, b| {
        (a.depth, Reverse(a.total_ns), &a.kind).cmp(&(b.depth, Reverse(b.total_ns), &b.kind))
    });
    list
}

/// The kinds of one rank, each with the pattern of its texts.
fn occurrences(rank: &RankTrace) -> Vec<(String, String, Occurrence)> {
    /// Of one kind on one thread: how many.
    type OnThread = HashMap<(u64, KindId), u64>;
    let mut on_thread: OnThread = HashMap::new();
    let mut open: HashMap<u64, Vec<Ns>> = HashMap::new();
    let mut kinds: BTreeMap<KindId, Occurrence> = BTreeMap::new();
    for range in rank.ranges.iter() {
        let open = open.entry(range.thread).or_default();
        while open.last().is_some_and(|&outer| outer <= range.start) {
            open.pop();
        }
        let here = on_thread.entry((range.thread, range.kind)).or_default();
        *here += 1;
        let seen = kinds.entry(range.kind).or_insert(Occurrence {
            depth: open.len(),
            most_on_one_thread: 0,
            count: 0,
            total_ns: 0,
            first: range.start,
        });
        seen.depth = seen.depth.min(open.len());
        seen.most_on_one_thread = seen.most_on_one_thread.max(*here);
        seen.count += 1;
        seen.total_ns = seen.total_ns.saturating_add(range.end - range.start);
        open.push(range.end);
    }
    let own = OwnNames::of(rank);
    let row = |(kind, occurrence): (KindId, Occurrence)| {
        (own.kind(rank, kind), rank.texts.pattern(kind), occurrence)
    };
    kinds.into_iter().map(row).collect()
}

/// What a rank may write of itself into texts: its host's name. (Its number and its device are digits.)
#[derive(Debug)]
pub(crate) struct OwnNames(Vec<String>);

impl OwnNames {
    /// Of a rank.
    pub(crate) fn of(rank: &RankTrace) -> OwnNames {
        let full = rank.hostname.as_deref().unwrap_or("");
        let short = full.split('.').next().unwrap_or("");
        let mut names: Vec<String> =
            [full, short].into_iter().filter(|name| name.len() > 2).map(kind_of).collect();
        names.dedup();
        OwnNames(names)
    }

    /// A kind in print, with `#` for what names the rank.
    pub(crate) fn kind(&self, rank: &RankTrace, kind: KindId) -> String {
        self.0.iter().fold(rank.texts.kind(kind), |text, own| text.replace(own.as_str(), "#"))
    }
}

/// `6 x 'step #', 2 x 'epoch #'`: the most frequent kinds.
pub(crate) fn frequent(list: &[Candidate]) -> String {
    let mut list: Vec<&Candidate> = list.iter().collect();
    list.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.kind.cmp(&b.kind)));
    list.truncate(LISTED);
    let one = |c: &&Candidate| format!("{} x '{}'", c.count, shorten(&c.kind, 60));
    list.iter().map(one).collect::<Vec<_>>().join(", ")
}
