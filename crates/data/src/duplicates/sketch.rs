//! Shingles of words, and sketches from which similar sets are found.

use crate::hash::{joined, mixed};

/// The values of a sketch.
pub(super) const VALUES: usize = 120;

/// Appends the hash of each run of `width` words.
///
/// Fewer words are one run.
pub(super) fn shingles(words: &[u64], width: usize, shingles: &mut Vec<u64>) {
    let hash = |words: &[u64]| mixed(words.iter().fold(0, |hash, word| joined(hash, *word)));
    if words.len() <= width {
        if !words.is_empty() {
            shingles.push(hash(words));
        }
        return;
    }
    shingles.extend(words.windows(width).map(hash));
}

/// The sketch of a set: two sets have an equal value with the probability of their Jaccard index.
///
/// In each round every element falls into one bin, which keeps the least value of its first round.
/// One round fills the bins of a large set; a small one needs more rounds. Filling every bin from the
/// elements keeps the values as independent as those of one permutation for each value, at the
/// cost of about one hash for each element and each bin (Dahlgaard, Knudsen and Thorup, "Fast
/// Similarity Sketching", 2017).
pub(super) fn sketch(elements: &[u64]) -> [u64; VALUES] {
    let mut values = [u64::MAX; VALUES];
    if elements.is_empty() {
        return values;
    }
    let mut empty = VALUES;
    for round in 0..2 * VALUES as u64 {
        let seed = mixed(round + 1);
        for element in elements {
            let hash = mixed(element ^ seed);
            // The last rounds fill one bin each, so that every bin has a value in the end.
            let bin = match usize::try_from(round) {
                Ok(round) if round >= VALUES => round - VALUES,
                _ => (((hash >> 32) * VALUES as u64) >> 32) as usize,
            };
            let value = (round << 32) | (hash & 0xFFFF_FFFF);
            let Some(place) = values.get_mut(bin) else {
                continue;
            };
            if value < *place {
                empty -= usize::from(*place == u64::MAX);
                *place = value;
            }
        }
        if empty == 0 {
            break;
        }
    }
    values
}

/// The division of a sketch into bands. Two sets are candidates if all values of a band are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bands {
    pub(super) count: usize,
    rows: usize,
}

impl Bands {
    /// Chooses the bands for pairs from `threshold` on.
    ///
    /// They have the most values with which fewer than one of a thousand pairs at the threshold escape.
    pub(super) fn for_threshold(threshold: f64) -> Self {
        let mut bands = Self {
            count: VALUES,
            rows: 1,
        };
        for rows in [2, 3, 4, 5, 6, 8, 10, 12] {
            let count = VALUES / rows;
            let equal = threshold.powi(i32::try_from(rows).unwrap_or(i32::MAX));
            let missed = (1.0 - equal).powi(i32::try_from(count).unwrap_or(i32::MAX));
            if missed < 0.001 {
                bands = Self { count, rows };
            }
        }
        bands
    }

    /// Returns a hash for each band.
    pub(super) fn hashes(self, sketch: &[u64; VALUES]) -> Vec<u32> {
        let hash = |values: &[u64]| {
            let hash = values.iter().fold(0, |hash, value| joined(hash, *value));
            // The upper half of a mixed hash.
            (mixed(hash) >> 32) as u32
        };
        sketch.chunks_exact(self.rows).map(hash).collect()
    }

    /// Returns a key for each band, which no other band has.
    ///
    /// The hashes of [`hashes`](Self::hashes) are too short for more rows than fit one machine.
    pub(super) fn keys(self, sketch: &[u64; VALUES]) -> Vec<u64> {
        let bands = (1..).zip(sketch.chunks_exact(self.rows));
        let key = |(band, values): (u64, &[u64])| {
            mixed(values.iter().fold(band, |hash, value| joined(hash, *value)))
        };
        bands.map(key).collect()
    }
}

/// The size of the intersection and of the union of two sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The number of shingles in both sets.
    pub shared: u32,
    /// The number of shingles in at least one set.
    pub united: u32,
}

impl Overlap {
    /// Compares two sorted sets.
    pub(super) fn between(first: &[u64], second: &[u64]) -> Self {
        let (mut left, mut right, mut shared) = (0, 0, 0);
        while let (Some(a), Some(b)) = (first.get(left), second.get(right)) {
            shared += u32::from(a == b);
            left += usize::from(a <= b);
            right += usize::from(b <= a);
        }
        let total = u32::try_from(first.len() + second.len()).unwrap_or(u32::MAX);
        Self {
            shared,
            united: total - shared,
        }
    }

    /// Returns the Jaccard index.
    pub fn jaccard(self) -> f64 {
        f64::from(self.shared) / f64::from(self.united.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::{Bands, Overlap, VALUES, sketch};
    use crate::hash::mixed;

    #[test]
    fn bands_fit_the_threshold() {
        let count = |threshold| Bands::for_threshold(threshold).count;
        assert_eq!([0.5, 0.7, 0.8, 0.9].map(count), [60, 30, 24, 15]);
    }

    /// Sets of `size` elements of which `shared` are in both.
    fn pair(seed: u32, size: u32, shared: u32) -> [Vec<u64>; 2] {
        let element = |number| mixed(mixed(u64::from(seed)) ^ u64::from(number));
        let first = (0..size).map(element);
        let second = (size - shared..2 * size - shared).map(element);
        [first.collect(), second.collect()]
    }

    #[test]
    fn equal_values_estimate_the_index() {
        let values = f64::from(u32::try_from(VALUES).unwrap());
        for (size, shared) in [(9, 8), (90, 80), (900, 800), (45, 30)] {
            let (mut equal, mut squares) = (0.0, 0.0);
            let trials = 400;
            let index = f64::from(shared) / f64::from(2 * size - shared);
            for seed in 0..trials {
                let [first, second] = pair(seed, size, shared).map(|set| sketch(&set));
                let same = first.iter().zip(&second).filter(|(a, b)| a == b);
                let share = f64::from(u32::try_from(same.count()).unwrap()) / values;
                equal += share;
                squares += (share - index).powi(2);
            }
            let (mean, variance) = (equal / f64::from(trials), squares / f64::from(trials));
            assert!((mean - index).abs() < 0.01, "{size}: {mean} for {index}");
            // That of independent values, with a margin for chance.
            let independent = index * (1.0 - index) / values;
            assert!(
                variance < 1.3 * independent,
                "{size}: {variance} for {independent}"
            );
        }
    }

    #[test]
    fn overlap_is_exact() {
        let overlap = Overlap::between(&[1, 2, 3, 5], &[2, 3, 4]);
        assert_eq!(
            overlap,
            Overlap {
                shared: 2,
                united: 5
            }
        );
        assert!(Overlap::between(&[], &[]).jaccard() < 1e-9);
    }
}
