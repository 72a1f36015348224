//! Which values lie far from the others.

use super::quantile::median;

/// Scaled median absolute deviations beyond which a value may be an outlier.
const MADS: f64 = 5.0;
/// Share of the median beyond which it is one.
const SHARE: f64 = 0.05;
/// Fewest values among which one can stand out.
const FEWEST: usize = 3;

/// The median absolute deviation from the median times 1.4826, which estimates the standard deviation of normal values.
pub fn scaled_mad(values: &[f64]) -> Option<f64> {
    let center = median(values)?;
    let deviations: Vec<f64> = values.iter().map(|v| (v - center).abs()).collect();
    Some(1.4826 * median(&deviations)?)
}

/// For each value whether it lies more than 5 scaled MADs and more than 5 % from the median of all; never among fewer than 3.
pub fn outliers(values: &[i64]) -> Vec<bool> {
    let reals: Vec<f64> = values.iter().map(|&v| v as f64).collect();
    let (Some(center), Some(mad)) = (median(&reals), scaled_mad(&reals)) else { return Vec::new() };
    let limit = (MADS * mad).max(SHARE * center.abs());
    reals.iter().map(|value| values.len() >= FEWEST && (value - center).abs() > limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deviation_is_scaled() {
        // Median 3; deviations 2, 1, 0, 1, 97; their median 1.
        assert_eq!(scaled_mad(&[1.0, 2.0, 3.0, 4.0, 100.0]), Some(1.4826));
        assert_eq!(scaled_mad(&[]), None);
    }

    #[test]
    fn an_outlier_is_far_in_deviations_and_in_percent() {
        // Median 1000, MAD 1: 5 scaled MADs are 7.4, but 5 % are 50.
        assert_eq!(outliers(&[1000, 1001, 999, 1049]), [false, false, false, false]);
        assert_eq!(outliers(&[1000, 1001, 999, 1060]), [false, false, false, true]);
        // 6 % off, but the others scatter as much: MAD 30, 5 scaled MADs are 222.
        assert_eq!(outliers(&[970, 1030, 940, 1060, 1000]), [false; 5]);
        // Two values have no majority.
        assert_eq!(outliers(&[100, 900]), [false, false]);
        assert_eq!(outliers(&[100, 100, 900]), [false, false, true]);
        assert_eq!(outliers(&[]), Vec::<bool>::new());
    }

    #[test]
    fn many_values_are_judged_together() {
        // Finding the median anew for each of them would be 10^10 comparisons.
        let mut values = vec![1000; 100_000];
        values[7] = 2000;
        assert_eq!(outliers(&values).iter().filter(|&&far| far).count(), 1);
    }
}
