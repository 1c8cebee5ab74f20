//! The readings of an input that find its duplicates.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::candidates::{DuplicateCandidates, DuplicateIndex};
use super::decisions::{DuplicateRemoval, Duplicates};
use super::sketch::Overlap;
use super::{DuplicateRules, RowPlace};
use crate::error::DataError;
use crate::input::Inputs;
use crate::output::Partial;
use crate::reading::read_rows;
use crate::{Refusal, RowSet};

/// The duplicates of an input, and the rows that cannot be compared.
#[derive(Clone, Debug, Default)]
pub struct FoundDuplicates {
    /// The removals with their evidence.
    pub duplicates: Duplicates,
    /// The rows that are refused.
    pub refused: RowSet,
}

/// Reads an input twice, and decides which rows are removed. `inputs` opens it.
///
/// Memory is about 150 bytes for each row; temporary files have 8 bytes for each word of the candidates.
///
/// # Errors
/// Returns [`DataError`] if the input or the temporary files cannot be used.
pub fn find_duplicates(
    inputs: impl Fn() -> Inputs,
    rules: &DuplicateRules,
    threads: usize,
) -> Result<FoundDuplicates, DataError> {
    let mut refused = RowSet::default();
    let mut index = DuplicateIndex::new(rules.clone());
    read_rows(
        inputs(),
        threads,
        |row| rules.sketch(row.bytes),
        |place, sketch| {
            if sketch.is_err() {
                refused.insert(place.row);
            }
            index.add(sketch.ok()).map_err(temporary)
        },
    )?;
    let candidates = verify(index, inputs(), rules, threads)?;
    let duplicates = candidates.decide(threads).map_err(temporary)?;
    Ok(FoundDuplicates {
        duplicates,
        refused,
    })
}

/// Reads what verifies the candidates of an index.
pub(crate) fn verify(
    index: DuplicateIndex,
    inputs: Inputs,
    rules: &DuplicateRules,
    threads: usize,
) -> Result<DuplicateCandidates, DataError> {
    let mut candidates = index.candidates().map_err(temporary)?;
    // The needs are read by the threads while the results are added.
    let needs = candidates.take_needs();
    read_rows(
        inputs,
        threads,
        |row| {
            let Some(need) = needs.of(row.place.row) else {
                return Ok(None);
            };
            Ok(Some((need, rules.material(row.bytes, need)?)))
        },
        |place, material| match material {
            Ok(Some((need, material))) => {
                let added = candidates.add(RowPlace::from(place), need, &material);
                added.map_err(temporary)
            }
            // A row that is missing now is reported when it is compared.
            Ok(None) | Err(_) => Ok(()),
        },
    )?;
    Ok(candidates)
}

/// Returns the failure of a temporary file.
pub(crate) fn temporary(error: io::Error) -> DataError {
    DataError::write(&std::env::temp_dir())(error)
}

impl DuplicateRules {
    /// Returns the reason for which a refused row cannot be compared.
    pub fn refusal(&self, row: &[u8]) -> Option<Refusal> {
        self.sketch(row).err()
    }
}

/// A line of the evidence.
#[derive(Serialize)]
struct Evidence<'e> {
    removed: EvidencePlace<'e>,
    kept: EvidencePlace<'e>,
    reason: &'static str,
    jaccard: f64,
    shared_shingles: Option<u32>,
    united_shingles: Option<u32>,
    text_hash: String,
}

#[derive(Serialize)]
struct EvidencePlace<'e> {
    file: &'e str,
    line: u64,
    row_number: u64,
}

impl Duplicates {
    /// Returns the removal of a row, if it is removed.
    pub fn removal(&self, row: u64) -> Option<&DuplicateRemoval> {
        let found = self
            .removals
            .binary_search_by_key(&row, |removal| removal.removed.row);
        self.removals.get(found.ok()?)
    }

    /// Writes each removal as a line of JSON. `names` are the names of the inputs.
    ///
    /// # Errors
    /// Returns [`DataError`] if the file cannot be written.
    pub fn write_evidence(&self, path: &Path, names: &[PathBuf]) -> Result<(), DataError> {
        let names: Vec<String> = names
            .iter()
            .map(|name| name.display().to_string())
            .collect();
        let place = |place: RowPlace| EvidencePlace {
            file: names.get(place.file as usize).map_or("", String::as_str),
            line: place.line,
            row_number: place.row + 1,
        };
        let mut output = Partial::open(path)?;
        output.keep(0)?;
        let mut text = Vec::new();
        for removal in &self.removals {
            let line = Evidence {
                removed: place(removal.removed),
                kept: place(removal.kept),
                reason: removal.overlap.map_or("exact", |_| "near"),
                jaccard: removal.overlap.map_or(1.0, Overlap::jaccard),
                shared_shingles: removal.overlap.map(|overlap| overlap.shared),
                united_shingles: removal.overlap.map(|overlap| overlap.united),
                text_hash: format!("{:016x}", removal.hash),
            };
            serde_json::to_writer(&mut text, &line)
                .map_err(|error| DataError::write(path)(error.into()))?;
            text.push(b'\n');
            if text.len() > 1 << 20 {
                output.write(&text)?;
                text.clear();
            }
        }
        output.write(&text)?;
        output.finish()
    }
}
