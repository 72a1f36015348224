//! Two sequences that keep their order, either of which may lack members: the alignment with most pairs, and among
//! those the one whose pairs cost least.

/// More cells than this are aligned piece by piece.
const MAX_CELLS: usize = 1 << 25;

/// For each of `n` left members the right member (of `m`) that it is paired with. `cost` is `None` where a pair is
/// impossible; it must not be negative.
pub fn align(n: usize, m: usize, cost: impl Fn(usize, usize) -> Option<f64>) -> Vec<Option<usize>> {
    let mut pairs = vec![None; n];
    let (mut left, mut right) = (0, 0);
    while left < n && right < m {
        // Pieces are cut so that a piece fits; the right side of a piece is as long as its left side and then some.
        let rows = (n - left).min(2048);
        let columns = (m - right).min((MAX_CELLS / rows).max(1));
        let piece = align_piece(rows, columns, |i, j| cost(left + i, right + j));
        let last = piece.iter().rev().find_map(|&j| j);
        for (i, j) in piece.into_iter().enumerate() {
            pairs[left + i] = j.map(|j| right + j);
        }
        left += rows;
        right += last.map_or(0, |j| j + 1);
    }
    pairs
}

const LEFT: u8 = 0;
const UP: u8 = 1;
const PAIR: u8 = 2;

fn align_piece(n: usize, m: usize, cost: impl Fn(usize, usize) -> Option<f64>) -> Vec<Option<usize>> {
    // best[j]: (pairs, cost) of the first i left and the first j right members.
    let mut best: Vec<(u32, f64)> = vec![(0, 0.0); m + 1];
    let mut came_from = vec![LEFT; n * m];
    for i in 0..n {
        let mut diagonal = best[0];
        for j in 0..m {
            let up = best[j + 1];
            let left = best[j];
            let (mut value, mut from) = if better(left, up) { (left, LEFT) } else { (up, UP) };
            if let Some(cost) = cost(i, j) {
                let paired = (diagonal.0 + 1, diagonal.1 + cost);
                if better(paired, value) {
                    (value, from) = (paired, PAIR);
                }
            }
            diagonal = up;
            best[j + 1] = value;
            came_from[i * m + j] = from;
        }
    }
    let mut pairs = vec![None; n];
    let (mut i, mut j) = (n, m);
    while i > 0 && j > 0 {
        match came_from[(i - 1) * m + j - 1] {
            PAIR => {
                (i, j) = (i - 1, j - 1);
                pairs[i] = Some(j);
            }
            UP => i -= 1,
            _ => j -= 1,
        }
    }
    pairs
}

/// More pairs, or as many at a lower cost.
fn better(a: (u32, f64), b: (u32, f64)) -> bool {
    a.0 > b.0 || (a.0 == b.0 && a.1 < b.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_value(left: &[i64], right: &[i64], reach: i64) -> Vec<Option<usize>> {
        align(left.len(), right.len(), |i, j| {
            let distance = (left[i] - right[j]).abs();
            (distance <= reach).then_some(distance as f64)
        })
    }

    // left   10 20 30
    // right  11    29 40     20 was lost
    #[test]
    fn lost_members_leave_their_partner_alone() {
        assert_eq!(by_value(&[10, 20, 30], &[11, 29, 40], 5), [Some(0), None, Some(1)]);
        assert_eq!(by_value(&[11, 29, 40], &[10, 20, 30], 5), [Some(0), Some(2), None]);
        assert_eq!(by_value(&[], &[1], 5), []);
        assert_eq!(by_value(&[1], &[], 5), [None]);
    }

    // Both fit both; order is kept and the nearer partner wins among as many pairs.
    #[test]
    fn most_pairs_first_then_the_lowest_cost() {
        assert_eq!(by_value(&[10, 12], &[11, 13], 5), [Some(0), Some(1)]);
        assert_eq!(by_value(&[10], &[6, 11], 5), [Some(1)]);
    }

    /// Against trying everything.
    #[test]
    fn equals_exhaustive_search() {
        fn exhaustive(left: &[i64], right: &[i64], reach: i64) -> (u32, f64) {
            let (Some((&a, rest)), true) = (left.split_first(), !right.is_empty()) else { return (0, 0.0) };
            let mut best = exhaustive(rest, right, reach);
            for (j, b) in right.iter().enumerate() {
                if (a - b).abs() <= reach {
                    let (pairs, cost) = exhaustive(rest, &right[j + 1..], reach);
                    let found = (pairs + 1, cost + (a - b).abs() as f64);
                    if better(found, best) {
                        best = found;
                    }
                }
            }
            best
        }
        let mut seed = 7u64;
        let mut next = |n: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % n
        };
        for _ in 0..300 {
            let mut draw = |n: u64| (0..next(n)).map(|_| next(20) as i64).collect::<Vec<_>>();
            let (left, right) = (draw(6), draw(7));
            let pairs = by_value(&left, &right, 4);
            let found: Vec<(usize, usize)> = pairs.iter().enumerate().filter_map(|(i, j)| j.map(|j| (i, j))).collect();
            assert!(found.windows(2).all(|w| w[0].1 < w[1].1), "order is kept");
            let cost: i64 = found.iter().map(|&(i, j)| (left[i] - right[j]).abs()).sum();
            assert_eq!((found.len() as u32, cost as f64), exhaustive(&left, &right, 4), "{left:?} {right:?}");
        }
    }
}
