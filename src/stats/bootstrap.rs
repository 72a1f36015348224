//! Seeded percentile bootstrap of a ratio of medians.

use oorandom::Rand64;

use super::quantile::quantile_of_sorted;

/// Resamples behind an interval.
pub const DRAWS: usize = 20_000;

/// What the median could have been: `draws` resamples of `groups` (the captures of one variant, each with the values of its steps).
///
/// A resample draws as many groups as there are, with replacement, and as many values from each as it has; its figure is the
/// mean of the groups' medians. One group is always drawn, so then only its values vary. The same seed gives the same figures.
/// Empty groups count as absent; without any the result is empty. The time does not depend on how many values there are, beyond
/// sorting them once.
pub fn resampled_medians(groups: &[Vec<i64>], draws: usize, seed: u64) -> Vec<f64> {
    let sorted = |group: &Vec<i64>| {
        let mut values: Vec<f64> = group.iter().map(|&v| v as f64).collect();
        values.sort_unstable_by(f64::total_cmp);
        values
    };
    let groups: Vec<Vec<f64>> = groups.iter().filter(|g| !g.is_empty()).map(sorted).collect();
    if groups.is_empty() {
        return Vec::new();
    }
    let mut random = Rand64::new(u128::from(seed));
    let mut draw = || {
        let medians = (0..groups.len()).map(|_| {
            let at = if groups.len() == 1 {
                0
            } else {
                random.rand_range(0..groups.len() as u64) as usize
            };
            resampled_median(&groups[at], &mut random)
        });
        medians.sum::<f64>() / groups.len() as f64
    };
    (0..draws).map(|_| draw()).collect()
}

/// Values of one stratum from which means are drawn one by one; of more, the mean of a resample is normal.
const DRAWN_SINGLY: usize = 1_000;

/// What the mean could have been: `draws` resamples of `groups`, each of strata of values that are drawn among themselves, so that
/// every resample has as many of each stratum as the group. Groups are drawn as for [`resampled_medians`].
pub fn resampled_means(groups: &[Vec<Vec<f64>>], draws: usize, seed: u64) -> Vec<f64> {
    let groups: Vec<&Vec<Vec<f64>>> =
        groups.iter().filter(|strata| strata.iter().any(|values| !values.is_empty())).collect();
    if groups.is_empty() {
        return Vec::new();
    }
    let mut random = Rand64::new(u128::from(seed));
    let mut draw = || {
        let means = (0..groups.len()).map(|_| {
            let at = match groups.len() {
                1 => 0,
                several => random.rand_range(0..several as u64) as usize,
            };
            let (mut sum, mut count) = (0.0, 0);
            for values in groups[at].iter().filter(|values| !values.is_empty()) {
                sum += resampled_sum(values, &mut random);
                count += values.len();
            }
            sum / count as f64
        });
        means.sum::<f64>() / groups.len() as f64
    };
    (0..draws).map(|_| draw()).collect()
}

/// The sum of as many values as there are, drawn with replacement.
fn resampled_sum(values: &[f64], random: &mut Rand64) -> f64 {
    let n = values.len() as f64;
    if values.len() <= DRAWN_SINGLY {
        return (0..values.len())
            .map(|_| values[random.rand_range(0..values.len() as u64) as usize])
            .sum();
    }
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
    n * mean + (n * variance).sqrt() * normal(random)
}

/// The median of as many values as `sorted` has, drawn from it with replacement; it has one at least.
///
/// A draw is `sorted[floor(n * u)]` with `u` uniform in [0, 1), and that never falls as `u` rises. So the k-th least of n draws belongs to
/// the k-th least of n such `u`, which is distributed as Beta(k, n - k + 1): one number instead of n.
fn resampled_median(sorted: &[f64], random: &mut Rand64) -> f64 {
    let n = sorted.len();
    let at = |u: f64| sorted[((n as f64 * u) as usize).min(n - 1)];
    // The middle one, or the lower one of two, and how many are above it.
    let k = n.div_ceil(2);
    let above = n - k;
    let (a, b) = (gamma(k as f64, random), gamma((above + 1) as f64, random));
    let middle = a / (a + b);
    if n % 2 == 1 {
        return at(middle);
    }
    // The others are uniform between it and 1; the upper one of the two is the least of them.
    let upper = 1.0 - (1.0 - middle) * random.rand_float().powf(1.0 / above as f64);
    at(middle) + (at(upper) - at(middle)) / 2.0
}

/// A number from the gamma distribution of that shape (1 or more) and scale 1, after Marsaglia and Tsang, "A simple method for generating
/// gamma variables", ACM TOMS 26 (2000).
fn gamma(shape: f64, random: &mut Rand64) -> f64 {
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(random);
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && random.rand_float().ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

/// A number from the standard normal distribution, by Box and Muller's transform.
fn normal(random: &mut Rand64) -> f64 {
    let (u, v) = (1.0 - random.rand_float(), random.rand_float());
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::median;

    /// The median of values drawn one by one: what [`resampled_median`] does without drawing them.
    fn median_of_draws(values: &[i64], random: &mut Rand64) -> f64 {
        let draws: Vec<f64> = values
            .iter()
            .map(|_| values[random.rand_range(0..values.len() as u64) as usize] as f64)
            .collect();
        median(&draws).expect("has values")
    }

    #[test]
    fn medians_are_distributed_as_those_of_values_drawn_one_by_one() {
        let mut random = Rand64::new(7);
        for len in [1, 2, 3, 4, 7, 20, 101, 500] {
            let values: Vec<i64> = (0..len).map(|i| 1_000_000 + i * i * 50).collect();
            let mut plain: Vec<f64> =
                (0..10_000).map(|_| median_of_draws(&values, &mut random)).collect();
            let mut quick = resampled_medians(&[values], 10_000, 8);
            plain.sort_by(f64::total_cmp);
            quick.sort_by(f64::total_cmp);
            // Two samples of one distribution: Kolmogorov and Smirnov's distance exceeds 0.0276 once in 1,000 times.
            let below = |sorted: &[f64], x: f64| {
                sorted.partition_point(|&v| v <= x) as f64 / sorted.len() as f64
            };
            let distance = plain
                .iter()
                .map(|&x| (below(&plain, x) - below(&quick, x)).abs())
                .fold(0.0, f64::max);
            assert!(distance < 0.0276, "{len} values: {distance}");
        }
    }

    #[test]
    fn many_values_take_no_longer_than_few() {
        let started = std::time::Instant::now();
        let draws = resampled_medians(&[(0..1_000_000).collect()], DRAWS, 1);
        // Drawing them one by one would be 20,000 million numbers.
        assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
        // The standard error of the median of n uniform values is range / (2 sqrt(n)).
        assert!(draws.iter().all(|m| (m - 500_000.0).abs() < 6.0 * 500.0));
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

    // Strata keep their share: one of 100 among three of 1, whichever are drawn. Within a stratum the mean of two values that differ is
    // drawn as 1, 2, 2 or 3.
    #[test]
    fn means_are_drawn_within_strata() {
        let draws = resampled_means(&[vec![vec![100.0], vec![1.0, 1.0, 1.0]]], 100, 1);
        assert!(draws.iter().all(|&mean| mean == 103.0 / 4.0));
        let draws = resampled_means(&[vec![vec![1.0, 3.0]]], 4000, 3);
        let share = |value: f64| draws.iter().filter(|&&d| d == value).count() as f64 / 4000.0;
        assert!((share(1.0) - 0.25).abs() < 0.03 && (share(2.0) - 0.5).abs() < 0.03);
        // The mean of 10,000 values 0 and 1 has a standard deviation of 0.005.
        let many: Vec<f64> = (0..10_000).map(|i| f64::from(i % 2)).collect();
        let draws = resampled_means(&[vec![many]], 2000, 5);
        let off = draws.iter().filter(|&&d| (d - 0.5).abs() > 0.0098).count() as f64 / 2000.0;
        assert!((0.03..0.07).contains(&off), "{off}");
        assert!(resampled_means(&[], 3, 1).is_empty());
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

    /// A step time with a log-normal spread of 5 % around `center`.
    fn log_normal(random: &mut Rand64, center: f64) -> i64 {
        (center * (0.05 * normal(random)).exp()).round() as i64
    }

    /// Over many seeds the share is 0.967 for 20 values a side (the same in an independent implementation): a little more than
    /// it promises, since a median of few values jumps from one to the next.
    #[test]
    fn the_interval_covers_the_true_ratio_about_19_times_in_20() {
        let mut random = Rand64::new(2024);
        let trials = 2000;
        let (slow, fast) = (100e6, 96e6);
        let covered = (0..trials)
            .filter(|&trial| {
                let a: Vec<i64> = (0..20).map(|_| log_normal(&mut random, slow)).collect();
                let b: Vec<i64> = (0..20).map(|_| log_normal(&mut random, fast)).collect();
                let draws = 400;
                let [lo, hi] = ratio_interval(
                    &resampled_medians(&[a], draws, trial),
                    &resampled_medians(&[b], draws, trial + trials),
                    0.95,
                )
                .expect("finite");
                (lo..=hi).contains(&(slow / fast))
            })
            .count();
        let share = covered as f64 / trials as f64;
        assert!((0.93..=0.97).contains(&share), "covered {share}");
    }
}
