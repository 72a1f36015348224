//! Means, medians and quantiles. Of integers they are integers: rounded to the nearest, half to even.

/// The middle value; between two integers their mean, rounded half to even. `None` if there are no values.
pub fn median_i64(values: &[i64]) -> Option<i64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *sorted.get(sorted.len() / 2 - 1)?;
    Some(divide_half_even(i128::from(lower) + i128::from(upper), 2))
}

/// The mean, rounded to the nearest integer, half to even. `None` if there are no values.
pub fn mean_i64(values: &[i64]) -> Option<i64> {
    if values.is_empty() {
        return None;
    }
    Some(divide_half_even(values.iter().map(|&v| i128::from(v)).sum(), values.len() as i128))
}

/// The middle value, or the mean of the two middle ones. `None` if there are no values.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The mean. `None` if there are no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() { None } else { Some(values.iter().sum::<f64>() / values.len() as f64) }
}

/// The quantile `q` (0 to 1) by linear interpolation between order statistics at position `(n - 1) q`
/// (type 7 of Hyndman and Fan, the default of R and NumPy). `None` if there are no values.
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    quantile_of_sorted(&sorted, q)
}

/// [`quantile`] of values that are in ascending order already.
pub(super) fn quantile_of_sorted(sorted: &[f64], q: f64) -> Option<f64> {
    let (lower, upper, weight) = neighbours(sorted, q)?;
    Some(if weight == 0.0 { lower } else { lower + (upper - lower) * weight })
}

/// The quantile `q` (0 to 1) of integers, type 7 as [`quantile`], rounded to the nearest integer, half to even.
pub fn quantile_i64(values: &[i64], q: f64) -> Option<i64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let (lower, upper, weight) = neighbours(&sorted, q)?;
    // Only the distance is a float, so that times since 1970 keep their nanoseconds.
    let distance = (i128::from(upper) - i128::from(lower)) as f64 * weight;
    let below = i128::from(lower) + distance.floor() as i128;
    let rest = distance - distance.floor();
    let up = rest > 0.5 || (rest == 0.5 && below % 2 != 0);
    i64::try_from(below + i128::from(up)).ok()
}

/// The two order statistics around position `(n - 1) q` and how far it is from the first to the second.
fn neighbours<T: Copy>(sorted: &[T], q: f64) -> Option<(T, T, f64)> {
    let last = sorted.len().checked_sub(1)?;
    let position = last as f64 * q.clamp(0.0, 1.0);
    let at = (position.floor() as usize).min(last);
    Some((*sorted.get(at)?, *sorted.get((at + 1).min(last))?, position - at as f64))
}

/// `sum / count` to the nearest integer, half to even. `count` is positive and the quotient an `i64`, as for a mean.
fn divide_half_even(sum: i128, count: i128) -> i64 {
    let floor = sum.div_euclid(count);
    let twice_rest = 2 * sum.rem_euclid(count);
    let up = twice_rest > count || (twice_rest == count && floor % 2 != 0);
    (floor + i128::from(up)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_between_two_integers_is_rounded_half_to_even() {
        assert_eq!(median_i64(&[]), None);
        assert_eq!(median_i64(&[7]), Some(7));
        assert_eq!(median_i64(&[3, 1, 2]), Some(2));
        assert_eq!(median_i64(&[1, 2]), Some(2));
        assert_eq!(median_i64(&[2, 3]), Some(2));
        assert_eq!(median_i64(&[-1, -2]), Some(-2));
        assert_eq!(median_i64(&[-3, -2]), Some(-2));
        assert_eq!(median_i64(&[i64::MAX, i64::MAX]), Some(i64::MAX));
        assert_eq!(median_i64(&[i64::MIN, i64::MAX]), Some(0));
    }

    #[test]
    fn a_mean_is_rounded_to_the_nearest_and_half_to_even() {
        assert_eq!(mean_i64(&[]), None);
        assert_eq!(mean_i64(&[1, 2]), Some(2));
        assert_eq!(mean_i64(&[2, 3]), Some(2));
        assert_eq!(mean_i64(&[1, 1, 2]), Some(1));
        assert_eq!(mean_i64(&[1, 2, 2]), Some(2));
        assert_eq!(mean_i64(&[-1, -1, -2]), Some(-1));
        assert_eq!(mean_i64(&[-1, 0]), Some(0));
        assert_eq!(mean_i64(&[i64::MAX, i64::MAX, i64::MAX - 3]), Some(i64::MAX - 1));
    }

    #[test]
    fn quantiles_are_type_7() {
        // R: quantile(c(1, 2, 4, 8), c(0, .25, .5, .9, 1)) = 1, 1.75, 3, 6.8, 8
        let values = [8.0, 1.0, 4.0, 2.0];
        for (q, expected) in [(0.0, 1.0), (0.25, 1.75), (0.5, 3.0), (0.9, 6.8), (1.0, 8.0)] {
            let got = quantile(&values, q).expect("has values");
            assert!((got - expected).abs() < 1e-12, "{q}: {got}");
        }
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile_i64(&[8, 1, 4, 2], 0.9), Some(7));
        assert_eq!(quantile_i64(&[8, 1, 4, 2], 0.25), Some(2));
        assert_eq!(quantile_i64(&[5, 6], 0.5), Some(6));
        assert_eq!(quantile_i64(&[4, 5], 0.5), Some(4));
        let epoch = 1_796_004_158_233_336_912;
        assert_eq!(quantile_i64(&[epoch + 3, epoch + 1], 0.5), Some(epoch + 2));
    }
}
