//! Samples of rows: the same rows for the same seed and input.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::error::DataError;
use crate::hash::{joined, mixed, of_bytes};
use crate::input::Inputs;
use crate::reading::read_rows;
use crate::row_turns::{FieldPath, require_json, value_of};
use crate::{Refusal, RowSet};

/// The size of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SampleSize {
    /// This many rows, or all if there are fewer.
    Count(u64),
    /// This share of the rows, from 0 to 1.
    Fraction(f64),
}

/// The rules by which rows are chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleRules {
    /// The number of rows.
    pub size: SampleSize,
    /// The seed of the priorities.
    pub seed: u64,
    /// The member whose values divide the rows into groups.
    ///
    /// Each group has its share of the sample.
    pub field: Option<FieldPath>,
}

impl SampleRules {
    /// Returns the group of a row. Rows without the member are one group.
    ///
    /// # Errors
    /// Returns a refusal if the row is not JSON.
    pub fn group(&self, row: &[u8]) -> Result<u64, Refusal> {
        let Some(field) = &self.field else {
            return require_json(row).map(|()| 0);
        };
        let row = value_of(row)?;
        let value = field.find(&row).unwrap_or(&Value::Null);
        Ok(of_bytes(value.to_string().as_bytes()))
    }
}

/// Collects the rows of an input, and chooses some.
///
/// Each row has a priority that depends on the seed and its number in the input. The rows with the
/// least priorities are chosen, so that threads and batches have no influence, and a smaller sample
/// of the same seed is part of a larger one.
#[derive(Clone, Debug)]
struct Sample {
    size: SampleSize,
    seed: u64,
    /// The rows of each group, if there are groups.
    groups: BTreeMap<u64, Vec<u64>>,
}

impl Sample {
    /// Creates a sample of no rows.
    fn new(size: SampleSize, seed: u64) -> Self {
        Self {
            size,
            seed,
            groups: BTreeMap::new(),
        }
    }

    /// Adds a row with its group. Rows without groups have one group in common.
    fn add(&mut self, row: u64, group: u64) {
        self.groups.entry(group).or_default().push(row);
    }

    /// Returns the numbers of the chosen rows, ascending. Each group has its share of them.
    fn choose(self) -> Vec<u64> {
        let rows: u64 = self.groups.values().map(|rows| rows.len() as u64).sum();
        let wanted = match self.size {
            SampleSize::Count(count) => count.min(rows),
            SampleSize::Fraction(fraction) => part(rows, fraction),
        };
        let shares = shares(&self.groups, rows, wanted);
        let mut chosen = Vec::new();
        for (mut numbers, share) in self.groups.into_values().zip(shares) {
            let priority = |row: &u64| (mixed(joined(self.seed, *row)), *row);
            if let Some(last) = share.checked_sub(1)
                && share < numbers.len()
            {
                numbers.select_nth_unstable_by_key(last, priority);
            }
            numbers.truncate(share);
            chosen.append(&mut numbers);
        }
        chosen.sort_unstable();
        chosen
    }
}

/// Returns a share of a count, rounded to the nearest number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of a number of rows is in its range"
)]
fn part(count: u64, fraction: f64) -> u64 {
    ((count as f64 * fraction).round() as u64).min(count)
}

/// Returns the number of chosen rows of each group: the integer part of its share, and one more for
/// the largest remainders.
fn shares(groups: &BTreeMap<u64, Vec<u64>>, rows: u64, wanted: u64) -> Vec<usize> {
    let exact = |size: usize| u128::from(wanted) * size as u128;
    let rows = u128::from(rows.max(1));
    let mut shares: Vec<usize> = Vec::with_capacity(groups.len());
    let mut remainders: Vec<(std::cmp::Reverse<u128>, usize)> = Vec::with_capacity(groups.len());
    for (index, numbers) in groups.values().enumerate() {
        let exact = exact(numbers.len());
        shares.push(usize::try_from(exact / rows).unwrap_or(usize::MAX));
        remainders.push((std::cmp::Reverse(exact % rows), index));
    }
    remainders.sort_unstable();
    let given: usize = shares.iter().sum();
    let left = usize::try_from(wanted).unwrap_or(usize::MAX) - given;
    for (_, index) in remainders.into_iter().take(left) {
        if let Some(share) = shares.get_mut(index) {
            *share += 1;
        }
    }
    shares
}

/// Reads an input, and chooses rows of it. Memory is 8 bytes for each row.
///
/// Rows that are refused are not chosen.
///
/// # Errors
/// Returns [`DataError`] if the input cannot be read.
pub fn choose_sample(
    inputs: Inputs,
    rules: &SampleRules,
    threads: usize,
) -> Result<RowSet, DataError> {
    let mut sample = Sample::new(rules.size, rules.seed);
    read_rows(
        inputs,
        threads,
        |row| rules.group(row.bytes),
        |place, group| {
            if let Ok(group) = group {
                sample.add(place.row, group);
            }
            Ok(())
        },
    )?;
    Ok(sample.choose().into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::{Sample, SampleSize};

    fn chosen(size: SampleSize, seed: u64, groups: &[u64]) -> Vec<u64> {
        let mut sample = Sample::new(size, seed);
        for (row, group) in (0..).zip(groups) {
            sample.add(row, *group);
        }
        sample.choose()
    }

    #[test]
    fn samples_have_their_size_and_order() {
        for (size, count) in [
            (SampleSize::Count(0), 0),
            (SampleSize::Count(7), 7),
            (SampleSize::Count(2000), 1000),
            (SampleSize::Fraction(0.25), 250),
            (SampleSize::Fraction(1.0), 1000),
        ] {
            let rows = chosen(size, 1, &[0; 1000]);
            assert_eq!(rows.len(), count, "{size:?}");
            assert!(rows.is_sorted());
        }
    }

    #[test]
    fn seeds_choose_different_rows_and_larger_samples_contain_smaller_ones() {
        let small = chosen(SampleSize::Count(50), 1, &[0; 1000]);
        assert_ne!(small, chosen(SampleSize::Count(50), 2, &[0; 1000]));
        let large = chosen(SampleSize::Count(200), 1, &[0; 1000]);
        assert!(small.iter().all(|row| large.contains(row)));
    }

    #[test]
    fn groups_have_their_share() {
        let groups: Vec<u64> = (0..1000).map(|row| u64::from(row % 10 == 0)).collect();
        let rows = chosen(SampleSize::Count(101), 5, &groups);
        assert_eq!(rows.len(), 101);
        let small = rows.iter().filter(|row| *row % 10 == 0).count();
        assert_eq!(small, 10);
    }
}
