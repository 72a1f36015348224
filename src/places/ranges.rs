//! In which of the program's ranges work was launched.
//!
//! An operation stands in the ranges that are open when it is launched: those of the thread that has the steps, then those of
//! the launching thread if it is another one (backward runs on a thread of its own, inside the range of the thread that waits for
//! it). Ranges that hold the whole step, and the step's own, are left out.

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};

use super::rank::Rank;
use crate::model::op::NO_LAUNCH;
use crate::model::ranges::Digits;
use crate::model::{KindId, Ns, Range, RankTrace, Span};

/// Ranges that are open at once on a thread, at most; deeper ones are not told apart.
const DEEPEST: usize = 64;
/// Stands for an operation in no range.
const NONE: u32 = u32::MAX;
/// Characters of a range's text that are printed.
const SHOWN: usize = 80;

/// Text of a range.
type Text = (KindId, Digits);

/// Where operations were launched.
#[derive(Debug)]
pub(crate) struct Stood<'a> {
    trace: &'a RankTrace,
    /// Place of each operation, or [`NONE`].
    of: Vec<u32>,
    /// Outermost and innermost range of each place.
    places: Vec<(Text, Text)>,
    /// Texts that several steps have.
    recurring: HashSet<Text>,
    one_step: bool,
}

impl Stood<'_> {
    /// The place of an operation; `None` if it was launched in no range of its step.
    pub(crate) fn get(&self, op: usize) -> Option<u32> {
        self.of.get(op).copied().filter(|&place| place != NONE)
    }

    /// True if no operation was launched in a range of its step.
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The outermost range of a place.
    pub(crate) fn phase(&self, place: u32) -> String {
        self.text(self.places[place as usize].0)
    }

    /// The outermost and the innermost range of a place.
    pub(crate) fn layer(&self, place: u32) -> String {
        let (outer, inner) = self.places[place as usize];
        match outer == inner {
            true => self.text(outer),
            false => format!("{} / {}", self.text(outer), self.text(inner)),
        }
    }

    /// A text that only one of several steps has bears a number of that step: then its kind stands for it.
    fn text(&self, text: Text) -> String {
        let texts = &self.trace.texts;
        let full = match self.one_step || self.recurring.contains(&text) {
            true => texts.text(text.0, text.1),
            false => texts.kind(text.0),
        };
        crate::text::shorten(&full, SHOWN).into_owned()
    }
}

/// Ranges open on one thread.
#[derive(Debug, Default)]
struct Stack(Vec<Range>);

impl Stack {
    fn push(&mut self, range: Range) {
        if self.0.len() >= DEEPEST {
            self.0.retain(|open| open.end > range.start);
        }
        if self.0.len() < DEEPEST {
            self.0.push(range);
        }
    }

    fn open(&mut self, at: Ns) -> impl Iterator<Item = &Range> {
        while self.0.last().is_some_and(|last| last.end <= at) {
            self.0.pop();
        }
        self.0.iter().filter(move |range| range.end > at)
    }
}

/// Finds where the operations of a rank's steps were launched.
pub(crate) fn of<'a>(rank: &Rank<'a>) -> Stood<'a> {
    let (trace, ops) = (rank.trace, &rank.trace.ops);
    let own: HashSet<Span> = rank.steps.iter().filter_map(|(_, range)| *range).collect();
    let is_own = |range: &Range| own.contains(&range.span());
    let step_thread = trace.ranges.iter().find(is_own).map(|range| range.tid());
    let own_kinds: HashSet<KindId> = match rank.is_period {
        true => HashSet::new(),
        false => trace.ranges.iter().filter(is_own).map(|range| range.kind).collect(),
    };
    let holds = |range: &Range, step: usize| {
        let Some(own) = rank.steps[step].1 else { return false };
        let is_itself = range.span() == own;
        range.start <= own.start && range.end >= own.end && !(rank.is_period && is_itself)
    };
    let mut found = Stood {
        trace,
        of: vec![NONE; ops.len()],
        places: Vec::new(),
        recurring: HashSet::new(),
        one_step: rank.steps.len() < 2,
    };
    let mut ranges = trace.ranges.iter().filter(|r| !own_kinds.contains(&r.kind)).peekable();
    if ranges.peek().is_none() {
        return found;
    }
    // Steps and operations in order of their launch: a pair of indices each, since there are as many as operations.
    let mut launched: Vec<(u32, u32)> = Vec::with_capacity(ops.len());
    for (step, (window, _)) in rank.steps.iter().enumerate() {
        let first = ops.start.partition_point(|&start| start < window.start);
        let inside = (first..ops.len()).take_while(|&op| ops.start[op] < window.end);
        let inside = inside.filter(|&op| ops.launch[op] != NO_LAUNCH);
        launched.extend(inside.map(|op| (step as u32, op as u32)));
    }
    launched.sort_unstable_by_key(|&(step, op)| (ops.launch[op as usize], step, op));
    let mut ids: HashMap<(Text, Text), u32> = HashMap::new();
    let mut first_step: HashMap<Text, usize> = HashMap::new();
    let mut stacks: HashMap<u32, Stack> = HashMap::new();
    for (step, op) in launched {
        let (step, op) = (step as usize, op as usize);
        let at = ops.launch[op];
        while let Some(range) = ranges.next_if(|range| range.start <= at) {
            stacks.entry(range.tid()).or_default().push(range);
        }
        let (mut outer, mut inner) = (None, None);
        let thread = ops.thread[op];
        let around = step_thread.filter(|&own| own != thread);
        for thread in around.into_iter().chain([thread]) {
            let Some(stack) = stacks.get_mut(&thread) else { continue };
            for range in stack.open(at).filter(|range| !holds(range, step)) {
                let text = (range.kind, range.digits);
                outer = outer.or(Some(text));
                inner = Some(text);
            }
        }
        let (Some(outer), Some(inner)) = (outer, inner) else { continue };
        for text in [outer, inner] {
            if *first_step.entry(text).or_insert(step) != step {
                found.recurring.insert(text);
            }
        }
        let next = found.places.len() as u32;
        let place = *ids.entry((outer, inner)).or_insert(next);
        if place == next {
            found.places.push((outer, inner));
        }
        found.of[op] = place;
    }
    found
}
