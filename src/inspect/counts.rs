//! A distribution in bounded memory: how often each value was seen.

use foldhash::{HashMap, HashMapExt};

/// Distinct values that are kept exactly. Execution times are whole microseconds, so few logs have more for one message size.
const EXACT: usize = 1 << 14;

/// Values that are not negative, with their counts. Exact up to 16,384 distinct values; beyond, values that share their leading
/// bits are counted together, which moves a quantile by at most one part in some thousand. The result depends on the values
/// alone, not on their order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counts {
    /// Keys are the bits of the value without the `shift` lowest: the bits of floats that are not negative have their order.
    counts: HashMap<u64, u64>,
    shift: u32,
    total: u64,
    max: f64,
}

impl Counts {
    /// Adds one value; what is negative or not finite is not a value.
    pub fn add(&mut self, value: f64) {
        if !(value.is_finite() && value >= 0.0) {
            return;
        }
        // -0.0 passes the test above; adding 0.0 removes its sign.
        self.insert((value + 0.0).to_bits() >> self.shift, 1);
        self.total += 1;
        self.max = self.max.max(value);
    }

    /// Adds all values of `other`.
    pub fn merge(&mut self, other: &Counts) {
        self.coarsen(other.shift);
        for (&key, &count) in &other.counts {
            // Inserting may coarsen these counts, so the shift is looked up each time.
            self.insert(key >> (self.shift - other.shift), count);
        }
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    /// How many values there are.
    pub fn len(&self) -> u64 {
        self.total
    }

    /// The largest value, exact.
    pub fn max(&self) -> Option<f64> {
        (self.total > 0).then_some(self.max)
    }

    /// The quantiles `q` (0 to 1) by linear interpolation between order statistics, in the order of `q`; all `None` without values.
    pub fn quantiles<const N: usize>(&self, q: [f64; N]) -> [Option<f64>; N] {
        let mut sorted: Vec<(u64, u64)> = self.counts.iter().map(|(&k, &n)| (k, n)).collect();
        sorted.sort_unstable();
        let at = |rank: u64| {
            let mut seen = 0;
            let key = sorted.iter().find(|&&(_, n)| {
                seen += n;
                seen > rank
            });
            key.map(|&(key, _)| f64::from_bits(key << self.shift).min(self.max))
        };
        q.map(|q| {
            let position = self.total.checked_sub(1)? as f64 * q.clamp(0.0, 1.0);
            let (lower, upper) = (at(position.floor() as u64)?, at(position.ceil() as u64)?);
            Some(lower + (upper - lower) * position.fract())
        })
    }

    /// The median; `None` without values.
    pub fn median(&self) -> Option<f64> {
        self.quantiles([0.5])[0]
    }

    /// The values in ascending order with their counts.
    pub fn sorted(&self) -> Vec<(f64, u64)> {
        let mut sorted: Vec<(u64, u64)> = self.counts.iter().map(|(&k, &n)| (k, n)).collect();
        sorted.sort_unstable();
        sorted
            .into_iter()
            .map(|(key, n)| (f64::from_bits(key << self.shift).min(self.max), n))
            .collect()
    }

    fn insert(&mut self, key: u64, count: u64) {
        *self.counts.entry(key).or_default() += count;
        while self.counts.len() > EXACT {
            self.coarsen(self.shift + 1);
        }
    }

    /// Drops the lowest bits of the keys up to `shift`. Values that differ in them alone become one.
    fn coarsen(&mut self, shift: u32) {
        if shift <= self.shift {
            return;
        }
        let by = shift - self.shift;
        let mut coarse = HashMap::with_capacity(self.counts.len());
        for (&key, &count) in &self.counts {
            *coarse.entry(key >> by).or_default() += count;
        }
        self.counts = coarse;
        self.shift = shift;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats;

    fn of(values: &[f64]) -> Counts {
        let mut counts = Counts::default();
        values.iter().for_each(|&v| counts.add(v));
        counts
    }

    #[test]
    fn quantiles_are_those_of_the_list() {
        let values = [3.0, 1.0, 2.0, 2.0, 10.5, 0.0];
        let [p0, p50, p95, p100] = of(&values).quantiles([0.0, 0.5, 0.95, 1.0]);
        assert_eq!((p0, p50, p100), (Some(0.0), Some(2.0), Some(10.5)));
        assert_eq!(p95, stats::quantile(&values, 0.95));
        assert_eq!(of(&[]).median(), None);
        assert_eq!(of(&[f64::NAN, -1.0, f64::INFINITY]).len(), 0);
        assert_eq!(of(&[-0.0]).median(), Some(0.0));
    }

    #[test]
    fn merging_is_adding() {
        let (a, b) = ([1.0, 5.0, 5.0], [2.0, 5.0]);
        let mut merged = of(&a);
        merged.merge(&of(&b));
        assert_eq!(merged, of(&[1.0, 5.0, 5.0, 2.0, 5.0]));
    }

    #[test]
    fn many_distinct_values_stay_in_bounds_and_close_whatever_their_order() {
        let values: Vec<f64> = (0..200_000_u32)
            .map(|i| f64::from(i.wrapping_mul(2_654_435_761) >> 7) * 0.37 + 1.0)
            .collect();
        let forward = of(&values);
        let mut backward = Counts::default();
        backward.merge(&of(&values.iter().rev().take(150_000).copied().collect::<Vec<_>>()));
        backward.merge(&of(&values.iter().take(50_000).copied().collect::<Vec<_>>()));
        assert_eq!(forward, backward);
        assert!(forward.counts.len() <= EXACT);
        for q in [0.01, 0.5, 0.95, 0.99] {
            let exact = stats::quantile(&values, q).expect("values");
            let got = forward.quantiles([q])[0].expect("values");
            assert!((got / exact - 1.0).abs() < 1e-3, "{q}: {got} for {exact}");
        }
        assert_eq!(forward.max(), values.iter().copied().reduce(f64::max));
    }
}
