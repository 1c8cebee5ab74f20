//! Counts of numbers in ranges.

use serde::{Deserialize, Serialize};

/// The ranges of each power of two.
const STEPS: u64 = 32;

/// A distribution of numbers, exact below 32 and to 3 % above.
///
/// The memory does not depend on the count of numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    counts: Vec<u64>,
    sum: u64,
    max: u64,
}

/// A range of a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bar {
    /// The smallest number of the range.
    pub from: u64,
    /// The largest number of the range.
    pub to: u64,
    /// The count of numbers in it.
    pub count: u64,
}

impl Histogram {
    /// Adds a number.
    pub fn add(&mut self, number: u64) {
        let index = index(number);
        if self.counts.len() <= index {
            self.counts.resize(index + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(index) {
            *count += 1;
        }
        self.sum += number;
        self.max = self.max.max(number);
    }

    /// Adds the numbers of another distribution.
    pub fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Returns the count of numbers.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of the numbers.
    pub const fn sum(&self) -> u64 {
        self.sum
    }

    /// Returns the largest number; 0 without numbers.
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// Returns the number that `percent` of the numbers do not exceed, to 3 %.
    ///
    /// It is 0 without numbers.
    pub fn percentile(&self, percent: u64) -> u64 {
        let rank = (self.count() * percent).div_ceil(100);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank && seen > 0 {
                return range(index).1.min(self.max);
            }
        }
        self.max
    }

    /// Returns at most `bars` ranges of equal width that hold all numbers.
    pub fn bars(&self, bars: u64) -> Vec<Bar> {
        if self.counts.is_empty() {
            return Vec::new();
        }
        let width = (self.max / bars.max(1)) + 1;
        let last = self.max / width;
        let mut result: Vec<Bar> = (0..=last)
            .map(|bar| Bar {
                from: bar * width,
                to: bar * width + width - 1,
                count: 0,
            })
            .collect();
        for (index, count) in self.counts.iter().enumerate() {
            let (from, to) = range(index);
            let middle = from + (to.min(self.max) - from.min(self.max)) / 2;
            let bar = usize::try_from((middle / width).min(last)).unwrap_or_default();
            if let Some(bar) = result.get_mut(bar) {
                bar.count += count;
            }
        }
        result
    }
}

fn index(number: u64) -> usize {
    let index = if number < STEPS {
        number
    } else {
        // The highest bit and the five bits below it.
        let power = u64::from(number.ilog2()) - 5;
        STEPS + power * STEPS + ((number >> power) - STEPS)
    };
    usize::try_from(index).unwrap_or(usize::MAX)
}

/// Returns the smallest and the largest number with an index.
fn range(index: usize) -> (u64, u64) {
    let index = index as u64;
    if index < STEPS {
        return (index, index);
    }
    let (power, step) = ((index - STEPS) / STEPS, (index - STEPS) % STEPS);
    let from = (STEPS + step) << power;
    (from, from + ((1 << power) - 1))
}

#[cfg(test)]
mod tests {
    use super::{Histogram, index, range};

    #[test]
    fn every_number_is_in_the_range_of_its_index() {
        for number in (0..10_000).chain([1 << 20, u64::MAX >> 1, u64::from(u32::MAX)]) {
            let (from, to) = range(index(number));
            assert!(from <= number && number <= to, "{number}: {from} {to}");
            assert!((to - from) * 32 <= from, "{number}: {from} {to}");
        }
    }

    #[test]
    fn percentiles_and_bars_cover_all_numbers() {
        let mut histogram = Histogram::default();
        for number in 1..=1000 {
            histogram.add(number);
        }
        assert_eq!(
            (histogram.count(), histogram.max(), histogram.sum()),
            (1000, 1000, 500_500)
        );
        assert!(
            (485..=515).contains(&histogram.percentile(50)),
            "{}",
            histogram.percentile(50)
        );
        assert_eq!(histogram.percentile(100), 1000);
        let bars = histogram.bars(10);
        assert!(bars.len() <= 10);
        assert_eq!(bars.iter().map(|bar| bar.count).sum::<u64>(), 1000);
    }
}
