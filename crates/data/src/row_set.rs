//! Sets of rows, with one bit for each row.

/// A set of rows by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowSet {
    words: Vec<u64>,
}

impl RowSet {
    /// Adds a row. Memory grows to the largest number.
    pub fn insert(&mut self, row: u64) {
        let (Ok(word), bit) = (usize::try_from(row / 64), 1 << (row % 64)) else {
            return;
        };
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        if let Some(place) = self.words.get_mut(word) {
            *place |= bit;
        }
    }

    /// Returns whether a row is in the set.
    pub fn contains(&self, row: u64) -> bool {
        let word = usize::try_from(row / 64).ok();
        let word = word.and_then(|word| self.words.get(word));
        word.is_some_and(|word| word & (1 << (row % 64)) != 0)
    }

    /// Returns the number of rows.
    pub fn len(&self) -> u64 {
        self.words
            .iter()
            .map(|word| u64::from(word.count_ones()))
            .sum()
    }

    /// Returns whether the set has no rows.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }
}

impl FromIterator<u64> for RowSet {
    fn from_iter<I: IntoIterator<Item = u64>>(rows: I) -> Self {
        let mut set = Self::default();
        rows.into_iter().for_each(|row| set.insert(row));
        set
    }
}
