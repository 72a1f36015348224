//! How many operations of a kind run at each moment.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::model::{Ns, Span};

/// Follows operations of several kinds that come in order of their start, and tells each new value once.
#[derive(Debug)]
pub struct Active<const N: usize> {
    ends: [BinaryHeap<Reverse<Ns>>; N],
    /// The value that was told last.
    told: [usize; N],
    /// Moment of the changes that are not told yet.
    now: Option<Ns>,
}

impl<const N: usize> Default for Active<N> {
    fn default() -> Self {
        Self { ends: std::array::from_fn(|_| BinaryHeap::new()), told: [0; N], now: None }
    }
}

impl<const N: usize> Active<N> {
    /// An operation of this kind begins; `tell` gets (kind, moment, running) for all that changes before.
    ///
    /// # Errors
    /// What `tell` fails with.
    pub fn begin<E>(
        &mut self,
        kind: usize,
        span: Span,
        mut tell: impl FnMut(usize, Ns, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        if span.is_empty() {
            return Ok(());
        }
        self.until(Some(span.start), &mut tell)?;
        self.now = Some(span.start);
        if let Some(ends) = self.ends.get_mut(kind) {
            ends.push(Reverse(span.end));
        }
        Ok(())
    }

    /// No more operations come.
    ///
    /// # Errors
    /// What `tell` fails with.
    pub fn finish<E>(
        &mut self,
        mut tell: impl FnMut(usize, Ns, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        self.until(None, &mut tell)
    }

    /// Tells what changes before `at`; what ends then is gone, but told with what begins then.
    fn until<E>(
        &mut self,
        at: Option<Ns>,
        tell: &mut impl FnMut(usize, Ns, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        loop {
            let next = self.ends.iter().filter_map(|ends| ends.peek().map(|end| end.0)).min();
            // All changes of a moment are known when a later one comes.
            let later = [next, at].into_iter().flatten().min();
            if let Some(now) = self.now.filter(|&now| later.is_none_or(|later| later > now)) {
                self.tell(now, tell)?;
            }
            let Some(next) = next.filter(|&next| at.is_none_or(|at| next <= at)) else {
                return Ok(());
            };
            self.now = Some(next);
            for ends in &mut self.ends {
                while ends.peek().is_some_and(|end| end.0 <= next) {
                    ends.pop();
                }
            }
        }
    }

    fn tell<E>(
        &mut self,
        now: Ns,
        tell: &mut impl FnMut(usize, Ns, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        self.now = None;
        for (kind, (ends, told)) in self.ends.iter().zip(&mut self.told).enumerate() {
            if ends.len() != *told {
                *told = ends.len();
                tell(kind, now, *told as u64)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // kind 0  [0   10)[10   20)     [30 30)
    // kind 1      [5     15)
    #[test]
    fn each_new_value_is_told_once() {
        let mut active = Active::<2>::default();
        let mut list = Vec::new();
        let mut tell = |kind, at, n| {
            list.push((kind, at, n));
            Ok::<(), ()>(())
        };
        for (kind, start, end) in [(0, 0, 10), (1, 5, 15), (0, 10, 20), (0, 30, 30)] {
            active.begin(kind, Span::new(start, end), &mut tell).expect("told");
        }
        active.finish(&mut tell).expect("told");
        assert_eq!(list, [(0, 0, 1), (1, 5, 1), (1, 15, 0), (0, 20, 0)]);
    }
}
