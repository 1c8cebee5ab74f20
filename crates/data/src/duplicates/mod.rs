//! Exact and near duplicates of rows, each verified.
//!
//! ```text
//! 1st reading   hash of the folded text, sketch of the shingles       24 hashes for each row
//!               equal hashes, equal bands                             candidates
//! 2nd reading   text and shingles of the candidates                   in temporary files
//!               equal bytes, Jaccard index of the sets                removals with evidence
//! 3rd reading   the rows that are kept
//! ```
//!
//! The readings are passes over the same input, because their results for one row are small and its
//! text is not. Nothing depends on the number of threads.

mod candidates;
mod decisions;
mod find;
mod groups;
mod keys;
mod sketch;
mod spool;

use crate::row_turns::{FieldPath, RowTurn, turns};
use crate::words::{fold, words_of};
use crate::{Refusal, hash};

pub(crate) use candidates::DuplicateIndex;
pub use candidates::RowPlace;
pub use decisions::{DuplicateRemoval, Duplicates};
pub use find::{FoundDuplicates, find_duplicates};
pub(crate) use find::{temporary, verify};
pub(crate) use groups::{Grouping, Partition};
pub use keys::{DuplicateKeys, RowComparison};
pub use sketch::Overlap;

use candidates::DuplicateNeed;
use sketch::{Bands, shingles, sketch};

/// The Jaccard index from which rows are near duplicates by default.
pub const DEFAULT_THRESHOLD: f64 = 0.8;
/// The words of a shingle by default.
pub const DEFAULT_SHINGLE: usize = 5;

/// The rules by which rows are duplicates.
#[derive(Clone, Debug)]
pub struct DuplicateRules {
    fields: Vec<FieldPath>,
    width: usize,
    threshold: f64,
    is_exact_only: bool,
    bands: Bands,
}

impl Default for DuplicateRules {
    fn default() -> Self {
        Self::new(DEFAULT_THRESHOLD)
    }
}

impl DuplicateRules {
    /// Creates the rules with the Jaccard index from which rows are near duplicates.
    pub fn new(threshold: f64) -> Self {
        Self {
            fields: Vec::new(),
            width: DEFAULT_SHINGLE,
            threshold,
            is_exact_only: false,
            bands: Bands::for_threshold(threshold),
        }
    }

    /// Compares these members instead of the conversation.
    #[must_use]
    pub fn with_fields(mut self, fields: Vec<FieldPath>) -> Self {
        self.fields = fields;
        self
    }

    /// Sets the words of a shingle.
    #[must_use]
    pub fn with_shingle(mut self, words: usize) -> Self {
        self.width = words.max(1);
        self
    }

    /// Finds exact duplicates only.
    #[must_use]
    pub fn with_exact_only(mut self, is_exact_only: bool) -> Self {
        self.is_exact_only = is_exact_only;
        self
    }

    /// Returns what the first reading keeps of a row.
    ///
    /// # Errors
    /// Returns a refusal as [`turns`].
    pub(crate) fn sketch(&self, row: &[u8]) -> Result<RowSketch, Refusal> {
        Ok(self.sketch_turns(&turns(row, &self.fields)?, row.len()))
    }

    /// Returns the sketch of a row with these turns and about this many bytes.
    pub(crate) fn sketch_turns(&self, turns: &[RowTurn<'_>], bytes: usize) -> RowSketch {
        if turns.is_empty() {
            return RowSketch::default();
        }
        let mut folded = Vec::with_capacity(bytes);
        fold(turns, &mut folded);
        let bands = if self.is_exact_only {
            Vec::new()
        } else {
            let set = self.shingles(turns, bytes);
            self.bands.hashes(&sketch(&set))
        };
        RowSketch {
            text: Some(hash::of_bytes(&folded)),
            bands,
        }
    }

    /// Returns the hashes of the shingles of turns, of which some may be equal.
    fn shingles(&self, turns: &[RowTurn<'_>], bytes: usize) -> Vec<u64> {
        let mut words = Vec::with_capacity(bytes / 6);
        words_of(turns, &mut words);
        let mut set = Vec::with_capacity(words.len());
        shingles(&words, self.width, &mut set);
        set
    }

    /// Returns what the second reading keeps of a row: its sorted set and its text, as needed.
    fn material(&self, row: &[u8], need: DuplicateNeed) -> Result<Material, Refusal> {
        let turns = turns(row, &self.fields)?;
        let mut material = Material::default();
        if need.text {
            let mut folded = Vec::with_capacity(row.len());
            fold(&turns, &mut folded);
            material.text = folded;
        }
        if need.shingles {
            let mut set = self.shingles(&turns, row.len());
            set.sort_unstable();
            set.dedup();
            material.shingles = set;
        }
        Ok(material)
    }
}

/// The part of a row that the first reading keeps.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowSketch {
    /// The hash of the folded text; `None` for a row without turns.
    text: Option<u64>,
    bands: Vec<u32>,
}

/// The part of a row that the second reading keeps.
#[derive(Clone, Debug, Default)]
struct Material {
    text: Vec<u8>,
    shingles: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use super::candidates::{DuplicateCandidates, DuplicateIndex};
    use super::{DuplicateRules, Duplicates, Material, RowPlace, RowSketch};

    /// Decides rows, each with the hash of its text, its text, and its shingles. All are candidates.
    fn decided(rows: &[(u64, &str, Vec<u64>)], threads: usize) -> Duplicates {
        candidates(rows).decide(threads).unwrap()
    }

    fn candidates(rows: &[(u64, &str, Vec<u64>)]) -> DuplicateCandidates {
        let rules = DuplicateRules::default();
        let mut index = DuplicateIndex::new(rules.clone());
        for (hash, _, _) in rows {
            let bands = vec![7; rules.bands.count];
            index
                .add(Some(RowSketch {
                    text: Some(*hash),
                    bands,
                }))
                .unwrap();
        }
        let mut candidates = index.candidates().unwrap();
        let needs = candidates.take_needs();
        for (row, (_, text, shingles)) in (0..).zip(rows) {
            let place = RowPlace {
                row,
                file: 0,
                line: row + 1,
            };
            let material = Material {
                text: text.as_bytes().to_owned(),
                shingles: shingles.clone(),
            };
            if let Some(need) = needs.of(row) {
                candidates.add(place, need, &material).unwrap();
            }
        }
        candidates
    }

    fn pairs(duplicates: &Duplicates) -> Vec<(u64, u64)> {
        let removals = duplicates.removals.iter();
        removals
            .map(|removal| (removal.removed.row, removal.kept.row))
            .collect()
    }

    #[test]
    fn equal_hashes_of_different_texts_remove_nothing() {
        let rows = [
            (1, "a", vec![1]),
            (1, "b", vec![2]),
            (1, "a", vec![1]),
            (2, "c", vec![3]),
        ];
        assert_eq!(pairs(&decided(&rows, 1)), [(2, 0)]);
    }

    #[test]
    fn candidates_below_the_threshold_are_kept() {
        let rows = [
            (1, "a", (0..10).collect()),
            // 9 of 11 are shared.
            (2, "b", (1..11).collect()),
            // 8 of 12 with the first, 9 of 11 with the second, which is not kept.
            (3, "c", (2..12).collect()),
        ];
        assert_eq!(pairs(&decided(&rows, 1)), [(1, 0)]);
    }

    #[test]
    fn a_later_copy_of_a_near_duplicate_has_its_kept_row() {
        let rows = [
            (1, "a", (0..10).collect()),
            (2, "b", (1..11).collect()),
            (2, "b", (1..11).collect()),
        ];
        let duplicates = decided(&rows, 1);
        assert_eq!(pairs(&duplicates), [(1, 0), (2, 0)]);
        assert!(
            duplicates
                .removals
                .iter()
                .all(|removal| removal.overlap.is_some())
        );
    }

    /// There are more rows than are compared at a time.
    ///
    /// So a row is compared with rows of its batch, with earlier ones, and with those that removed
    /// rows of its batch hide.
    #[test]
    fn large_groups_have_one_kept_row_for_any_number_of_threads() {
        let rows: Vec<(u64, &str, Vec<u64>)> = (0..40_000_u64)
            .map(|row| match row % 3 {
                0 => (row, "a", vec![1, 2, 3]),
                1 => (row, "b", vec![4, 5, 6]),
                // Rows between them are in no group.
                _ => (row, "c", vec![]),
            })
            .collect();
        let rows: Vec<_> = rows.into_iter().filter(|row| !row.2.is_empty()).collect();
        let one = decided(&rows, 1);
        assert_eq!(one.removals.len(), rows.len() - 2);
        assert!(one.removals.iter().all(|removal| removal.kept.row < 2));
        assert_eq!(one.limited, 0);
        assert_eq!(pairs(&one), pairs(&decided(&rows, 3)));
    }

    #[test]
    fn groups_join_rows_through_others() {
        let rows = [
            (1, "a", (0..10).collect()),
            (2, "b", (1..11).collect()),
            (3, "c", (2..12).collect()),
            (4, "d", vec![99]),
        ];
        let candidates = candidates(&rows);
        let mut partition = super::Partition::new(4);
        candidates.join_similar(&mut partition).unwrap();
        let firsts: Vec<u32> = (0..4).map(|row| partition.first(row)).collect();
        assert_eq!(firsts, [0, 0, 0, 3]);
    }
}
