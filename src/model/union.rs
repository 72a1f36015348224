//! Disjoint sets: what is joined belongs together.

use std::collections::BTreeMap;

/// Disjoint sets of the numbers below a bound.
#[derive(Debug, Clone)]
pub(crate) struct Union {
    parents: Vec<usize>,
}

impl Union {
    /// Every number below `len` by itself.
    pub(crate) fn new(len: usize) -> Union {
        Union { parents: (0..len).collect() }
    }

    /// The smallest number of the set that holds `at`, so that it does not depend on the order of joins. A number beyond
    /// the bound is by itself.
    pub(crate) fn root(&mut self, mut at: usize) -> usize {
        while let Some(&parent) = self.parents.get(at).filter(|&&parent| parent != at) {
            let above = self.parents.get(parent).copied().unwrap_or(parent);
            if let Some(parent) = self.parents.get_mut(at) {
                *parent = above;
            }
            at = above;
        }
        at
    }

    /// Makes one set of two.
    pub(crate) fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        if let Some(parent) = self.parents.get_mut(a.max(b)) {
            *parent = a.min(b);
        }
    }

    /// The sets, each in order, in order of their smallest numbers.
    pub(crate) fn sets(mut self) -> Vec<Vec<usize>> {
        let mut by_root: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for at in 0..self.parents.len() {
            by_root.entry(self.root(at)).or_default().push(at);
        }
        by_root.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // 0-3, 1-4, 3-4 joined in any order: {0, 1, 3, 4} and {2}.
    #[test]
    fn the_order_of_joins_does_not_matter() {
        for joins in [[(0, 3), (1, 4), (3, 4)], [(4, 3), (4, 1), (3, 0)]] {
            let mut union = Union::new(5);
            joins.into_iter().for_each(|(a, b)| union.join(a, b));
            assert_eq!((union.root(4), union.root(2), union.root(9)), (0, 2, 9));
            assert_eq!(union.sets(), [vec![0, 1, 3, 4], vec![2]]);
        }
    }
}
