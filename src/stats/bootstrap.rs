//! Seeded percentile bootstrap of a ratio of medians.

use oorandom::Rand32;

use super::quantile::quantile_of_sorted;

/// Resamples behind an interval.
pub const DRAWS: usize = 20_000;

/// What the median could have been: `draws` resamples of `groups` (the captures of one variant, each with the values of its steps).
///
/// A resample draws as many groups as there are, with replacement, and as many values from each as it has; its figure is the
/// mean of the groups' medians. One group is always drawn, so then only its values vary. The same seed gives the same figures.
/// Empty groups count as absent; without any the result is empty.
pub fn resampled_medians(groups: &[Vec<i64>], draws: usize, seed: u64) -> Vec<f64> {
    let groups: Vec<Vec<f64>> = groups.iter().filter(|g| !g.is_empty()).map(|g| g.iter().map(|&v| v as f64).collect()).collect();
    if groups.is_empty() {
        return Vec::new();
    }
    let mut random = Rand32::new(seed);
    let mut scratch = Vec::new();
    let mut pick = |len: usize| random.rand_range(0..u32::try_from(len).unwrap_or(u32::MAX)) as usize;
    (0..draws)
        .map(|_| {
            let mut sum = 0.0;
            for _ in 0..groups.len() {
                let group = if groups.len() == 1 { &groups[0] } else { &groups[pick(groups.len())] };
                scratch.clear();
                scratch.extend((0..group.len()).map(|_| group[pick(group.len())]));
                sum += median_in_place(&mut scratch);
            }
            sum / groups.len() as f64
        })
        .collect()
}

/// The central `level` (0.95) of the ratios `numerators[i] / denominators[i]` as `[lo, hi]`.
/// `None` without ratios, or where one is not finite.
pub fn ratio_interval(numerators: &[f64], denominators: &[f64], level: f64) -> Option<[f64; 2]> {
    let mut ratios: Vec<f64> = numerators.iter().zip(denominators).map(|(a, b)| a / b).collect();
    if ratios.iter().any(|r| !r.is_finite()) {
        return None;
    }
    ratios.sort_unstable_by(f64::total_cmp);
    let tail = (1.0 - level) / 2.0;
    Some([quantile_of_sorted(&ratios, tail)?, quantile_of_sorted(&ratios, 1.0 - tail)?])
}

/// The median; leaves the values in another order. There is at least one value.
fn median_in_place(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    let (below, &mut upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    if below.len() == middle && values.len() % 2 == 1 {
        return upper;
    }
    let lower = values[..middle].iter().copied().fold(f64::NEG_INFINITY, f64::max);
    lower + (upper - lower) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::median;

    #[test]
    fn the_median_in_place_is_the_median() {
        let mut random = Rand32::new(7);
        for len in 1..40 {
            let mut values: Vec<f64> = (0..len).map(|_| f64::from(random.rand_range(0..50))).collect();
            let expected = median(&values).expect("has values");
            assert_eq!(median_in_place(&mut values), expected, "{len} values");
        }
    }

    #[test]
    fn resampling_is_seeded_and_knows_the_extremes() {
        let a = resampled_medians(&[vec![1, 2, 3, 4, 5]], 1000, 1);
        assert_eq!(a, resampled_medians(&[vec![1, 2, 3, 4, 5]], 1000, 1));
        assert_ne!(a, resampled_medians(&[vec![1, 2, 3, 4, 5]], 1000, 2));
        assert!(a.iter().all(|m| (1.0..=5.0).contains(m)));
        assert_eq!(resampled_medians(&[vec![], vec![9, 9]], 3, 1), [9.0, 9.0, 9.0]);
        assert!(resampled_medians(&[], 3, 1).is_empty());
        assert_eq!(ratio_interval(&[], &[], 0.95), None);
        assert_eq!(ratio_interval(&[1.0], &[0.0], 0.95), None);
    }

    #[test]
    fn groups_are_resampled_before_their_values() {
        // Two groups without spread of their own: (10 or 20) + (10 or 20), halved, in the ratio 1 : 2 : 1.
        let draws = resampled_medians(&[vec![10; 5], vec![20; 5]], 4000, 3);
        let share = |value: f64| draws.iter().filter(|&&d| d == value).count() as f64 / 4000.0;
        assert!((share(10.0) - 0.25).abs() < 0.03);
        assert!((share(15.0) - 0.5).abs() < 0.03);
        assert!((share(20.0) - 0.25).abs() < 0.03);
    }

    /// Exact distribution: the median of a resample of `n = 3` distinct values is the smallest with probability 7/27, the middle 13/27.
    #[test]
    fn the_median_of_three_has_its_known_distribution() {
        let draws = resampled_medians(&[vec![1, 2, 3]], 27_000, 5);
        let count = |value: f64| draws.iter().filter(|&&d| d == value).count() as f64;
        assert!((count(1.0) - 7000.0).abs() < 300.0);
        assert!((count(2.0) - 13_000.0).abs() < 350.0);
    }

    /// A step time with a log-normal spread of 5 % around `center`, by Box and Muller's transform.
    fn log_normal(random: &mut Rand32, center: f64) -> i64 {
        let (u, v) = (1.0 - f64::from(random.rand_float()), f64::from(random.rand_float()));
        let normal = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
        (center * (0.05 * normal).exp()).round() as i64
    }

    /// Over many seeds the share is 0.967 for 20 values a side (the same in an independent implementation): a little more than
    /// it promises, since a median of few values jumps from one to the next.
    #[test]
    fn the_interval_covers_the_true_ratio_about_19_times_in_20() {
        let mut random = Rand32::new(2024);
        let trials = 2000;
        let (slow, fast) = (100e6, 96e6);
        let covered = (0..trials)
            .filter(|&trial| {
                let a: Vec<i64> = (0..20).map(|_| log_normal(&mut random, slow)).collect();
                let b: Vec<i64> = (0..20).map(|_| log_normal(&mut random, fast)).collect();
                let draws = 400;
                let [lo, hi] =
                    ratio_interval(&resampled_medians(&[a], draws, trial), &resampled_medians(&[b], draws, trial + trials), 0.95)
                        .expect("finite");
                (lo..=hi).contains(&(slow / fast))
            })
            .count();
        let share = covered as f64 / trials as f64;
        assert!((0.93..=0.97).contains(&share), "covered {share}");
    }
}
