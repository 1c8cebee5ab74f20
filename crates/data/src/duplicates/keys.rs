//! Keys by which an engine finds candidates, and the comparison that verifies them.
//!
//! A data set of many machines has no index in memory: rows are grouped by key there, and each pair
//! of a group is compared.

use super::sketch::{Overlap, sketch};
use super::{DuplicateNeed, DuplicateRules};
use crate::row_turns::turns;
use crate::words::fold;
use crate::{Refusal, hash};

/// The keys of a row. Rows with an equal key are candidates, which [`DuplicateRules::compare`] verifies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DuplicateKeys {
    /// The hash of the folded text, which exact duplicates share; absent without text.
    pub text: Option<u64>,
    /// The keys of near duplicates: one for each band, none for a row without text.
    pub bands: Vec<u64>,
}

/// The comparison of two rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RowComparison {
    /// Whether the folded texts are equal.
    pub is_exact: bool,
    /// The comparison of their shingles.
    pub overlap: Overlap,
}

impl DuplicateRules {
    /// Returns the keys of a row. They depend on the row and the rules alone.
    ///
    /// ```
    /// use logue_data::duplicates::DuplicateRules;
    ///
    /// let rules = DuplicateRules::default();
    /// let row = br#"{"messages":[{"role":"user","content":"Tide  in Brest?"}]}"#;
    /// let copy = br#"{"id":7,"conversations":[{"from":"human","value":"Tide in Brest?"}]}"#;
    /// assert_eq!(rules.keys(row)?, rules.keys(copy)?);
    /// assert!(rules.compare(row, copy)?.is_exact);
    /// # Ok::<(), logue_data::Refusal>(())
    /// ```
    ///
    /// # Errors
    /// Returns a refusal as [`turns`].
    pub fn keys(&self, row: &[u8]) -> Result<DuplicateKeys, Refusal> {
        let turns = turns(row, &self.fields)?;
        if turns.is_empty() {
            return Ok(DuplicateKeys::default());
        }
        let mut folded = Vec::with_capacity(row.len());
        fold(&turns, &mut folded);
        let bands = if self.is_exact_only {
            Vec::new()
        } else {
            self.bands.keys(&sketch(&self.shingles(&turns, row.len())))
        };
        Ok(DuplicateKeys {
            text: Some(hash::of_bytes(&folded)),
            bands,
        })
    }

    /// Compares two rows.
    ///
    /// # Errors
    /// Returns a refusal as [`turns`] for the first row that cannot be read.
    pub fn compare(&self, row: &[u8], other: &[u8]) -> Result<RowComparison, Refusal> {
        let need = DuplicateNeed {
            text: true,
            shingles: true,
        };
        let (first, second) = (self.material(row, need)?, self.material(other, need)?);
        Ok(RowComparison {
            is_exact: first.text == second.text,
            overlap: Overlap::between(&first.shingles, &second.shingles),
        })
    }

    /// Returns whether a comparison makes one row a duplicate of the other.
    pub fn is_duplicate(&self, compared: RowComparison) -> bool {
        let is_near = !self.is_exact_only && compared.overlap.jaccard() >= self.threshold;
        compared.is_exact || is_near
    }
}

#[cfg(test)]
mod tests {
    use super::DuplicateRules;

    fn row(words: std::ops::Range<u32>) -> String {
        let words: Vec<String> = words.map(|word| format!("word{word}")).collect();
        let text = words.join(" ");
        format!(r#"{{"messages":[{{"role":"user","content":"{text}"}}]}}"#)
    }

    #[test]
    fn similar_rows_share_a_band_and_others_share_none() {
        let rules = DuplicateRules::default();
        let [first, near, far] = [0..200, 4..204, 1000..1200].map(row);
        let keys = |row: &str| rules.keys(row.as_bytes()).unwrap();
        let shared = |other: &str| {
            let (one, other) = (keys(&first), keys(other));
            one.bands
                .iter()
                .filter(|key| other.bands.contains(key))
                .count()
        };
        assert_eq!(keys(&first).bands.len(), 24);
        assert!(shared(&near) > 0);
        assert_eq!(shared(&far), 0);
        let compared = |other: &str| rules.compare(first.as_bytes(), other.as_bytes()).unwrap();
        assert!(rules.is_duplicate(compared(&near)) && !compared(&near).is_exact);
        assert!(!rules.is_duplicate(compared(&far)));
    }

    #[test]
    fn keys_never_change() {
        let rules = DuplicateRules::default();
        let keys = rules.keys(row(0..20).as_bytes()).unwrap();
        assert_eq!(keys.text, Some(16_215_380_963_120_978_231));
        assert_eq!(keys.bands[0], 9_987_581_307_116_235_357);
        assert_eq!(keys.bands[1], 17_937_428_899_355_183_370);
    }
}
