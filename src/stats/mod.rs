//! Medians, quantiles, outliers and a seeded bootstrap; no word of what the numbers mean.

mod bootstrap;
mod outlier;
mod quantile;

pub use bootstrap::{DRAWS, ratio_interval, resampled_means, resampled_medians};
pub use outlier::{outliers, scaled_mad};
pub use quantile::{mean, mean_i64, median, median_i64, quantile, quantile_i64};

use crate::model::metric::{Num, Spread};

/// Median, mean, minimum and maximum of `values`, as integers if all of them are; `None` if there are none.
pub fn spread(values: &[Num]) -> Option<Spread> {
    if let Some(ints) = values.iter().map(|v| v.as_int()).collect::<Option<Vec<i64>>>() {
        return Some(Spread {
            median: Num::Int(median_i64(&ints)?),
            mean: Num::Int(mean_i64(&ints)?),
            min: Num::Int(*ints.iter().min()?),
            max: Num::Int(*ints.iter().max()?),
        });
    }
    let mut reals: Vec<f64> = values.iter().map(|v| v.as_f64()).collect();
    reals.sort_by(f64::total_cmp);
    Some(Spread {
        median: Num::Real(median(&reals)?),
        mean: Num::Real(mean(&reals)?),
        min: Num::Real(*reals.first()?),
        max: Num::Real(*reals.last()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_stays_whole_if_its_values_are() {
        let spread_of = spread(&[Num::Int(4), Num::Int(1), Num::Int(2)]);
        // The mean is 7/3.
        assert_eq!(
            spread_of,
            Some(Spread {
                median: Num::Int(2),
                mean: Num::Int(2),
                min: Num::Int(1),
                max: Num::Int(4)
            })
        );
        let spread_of = spread(&[Num::Real(0.5), Num::Real(0.25)]);
        assert_eq!(
            spread_of,
            Some(Spread {
                median: Num::Real(0.375),
                mean: Num::Real(0.375),
                min: Num::Real(0.25),
                max: Num::Real(0.5)
            })
        );
        assert_eq!(spread(&[]), None);
    }
}
