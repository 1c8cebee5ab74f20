//! Rows that may be duplicates, and their texts and shingles.

use std::io;

use super::spool::{Spool, changed};
use super::{DuplicateRules, Material, RowSketch};
use crate::Place;

/// No row.
pub(super) const NONE: u32 = u32::MAX;

/// The sketches of all rows.
#[derive(Debug)]
pub(crate) struct DuplicateIndex {
    rules: DuplicateRules,
    /// The hash of the text of each row.
    texts: Vec<Option<u64>>,
    /// The hashes of each band by row.
    bands: Vec<Vec<u32>>,
}

impl DuplicateIndex {
    /// Creates an index of no rows.
    pub(crate) fn new(rules: DuplicateRules) -> Self {
        let bands = if rules.is_exact_only {
            0
        } else {
            rules.bands.count
        };
        Self {
            rules,
            texts: Vec::new(),
            bands: vec![Vec::new(); bands],
        }
    }

    /// Adds the next row of the input; `None` for a refused row.
    ///
    /// # Errors
    /// Returns an error after 4,294,967,294 rows.
    pub(crate) fn add(&mut self, sketch: Option<RowSketch>) -> io::Result<()> {
        if self.texts.len() >= NONE as usize {
            return Err(io::Error::other(
                "the input has more than 4,294,967,294 rows",
            ));
        }
        let sketch = sketch.unwrap_or_default();
        self.texts.push(sketch.text);
        let mut hashes = sketch.bands.into_iter();
        for band in &mut self.bands {
            band.push(hashes.next().unwrap_or_default());
        }
        Ok(())
    }

    /// Finds the rows with equal hashes. The work is that of sorting.
    ///
    /// # Errors
    /// Returns an error if no temporary file can be created.
    pub(crate) fn candidates(self) -> io::Result<DuplicateCandidates> {
        let Self {
            rules,
            texts,
            mut bands,
        } = self;
        let mut needs = vec![0_u8; texts.len()];
        let firsts = firsts(&texts, &mut needs);
        let mut order: Vec<u64> = Vec::with_capacity(texts.len());
        for band in &mut bands {
            link(band, &texts, &firsts, &mut needs, &mut order);
        }
        Ok(DuplicateCandidates {
            hashes: texts,
            firsts,
            previous: bands,
            needs: DuplicateNeeds(needs),
            places: Vec::new(),
            placed: Vec::new(),
            texts: Spool::new()?,
            sets: Spool::new()?,
            rules,
        })
    }
}

const NEEDS_TEXT: u8 = 1;
const NEEDS_SHINGLES: u8 = 2;

/// Returns the first row with the text hash of each row.
fn firsts(texts: &[Option<u64>], needs: &mut [u8]) -> Vec<u32> {
    let mut order: Vec<(u64, u32)> = Vec::with_capacity(texts.len());
    order.extend(
        (0_u32..)
            .zip(texts)
            .filter_map(|(row, text)| Some(((*text)?, row))),
    );
    order.sort_unstable();
    let mut firsts: Vec<u32> = (0_u32..).take(texts.len()).collect();
    for group in order.chunk_by(|a, b| a.0 == b.0) {
        let [(_, first), _, ..] = group else {
            continue;
        };
        for (_, row) in group {
            set(&mut firsts, *row, *first);
            add_need(needs, *row, NEEDS_TEXT);
        }
    }
    firsts
}

/// Replaces the hashes of a band by the previous row with the same one.
///
/// Rows whose text occurred before take no part, because they are duplicates already.
fn link(
    band: &mut [u32],
    texts: &[Option<u64>],
    firsts: &[u32],
    needs: &mut [u8],
    order: &mut Vec<u64>,
) {
    order.clear();
    for (((row, hash), text), first) in (0_u32..).zip(band.iter()).zip(texts).zip(firsts) {
        if text.is_some() && *first == row {
            order.push((u64::from(*hash) << 32) | u64::from(row));
        }
    }
    order.sort_unstable();
    band.fill(NONE);
    let row = |entry: u64| (entry & 0xFFFF_FFFF) as u32;
    for pair in order.windows(2) {
        if let [before, after] = *pair
            && before >> 32 == after >> 32
        {
            set(band, row(after), row(before));
            add_need(needs, row(before), NEEDS_SHINGLES);
            add_need(needs, row(after), NEEDS_SHINGLES);
        }
    }
}

pub(super) fn set(values: &mut [u32], row: u32, value: u32) {
    if let Some(place) = values.get_mut(row as usize) {
        *place = value;
    }
}

pub(super) fn get(values: &[u32], row: u32) -> u32 {
    values.get(row as usize).copied().unwrap_or(NONE)
}

fn add_need(needs: &mut [u8], row: u32, need: u8) {
    if let Some(place) = needs.get_mut(row as usize) {
        *place |= need;
    }
}

/// The parts of each row that the second reading needs.
#[derive(Debug, Default)]
pub(super) struct DuplicateNeeds(Vec<u8>);

impl DuplicateNeeds {
    /// Returns the needs of a row; `None` if it has no candidates.
    pub(super) fn of(&self, row: u64) -> Option<DuplicateNeed> {
        let need = *self.0.get(usize::try_from(row).ok()?)?;
        (need != 0).then_some(DuplicateNeed {
            text: need & NEEDS_TEXT != 0,
            shingles: need & NEEDS_SHINGLES != 0,
        })
    }
}

/// The parts of a row that the second reading needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DuplicateNeed {
    pub(super) text: bool,
    pub(super) shingles: bool,
}

/// The place of a row in its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowPlace {
    /// The number of the row over all files, from 0.
    pub row: u64,
    /// The number of the file in the list of inputs, from 0.
    pub file: u32,
    /// The line, from 1; in Parquet, the number of the row in its file.
    pub line: u64,
}

impl From<Place> for RowPlace {
    fn from(place: Place) -> Self {
        Self {
            row: place.row,
            file: place.file,
            line: place.line,
        }
    }
}

/// The rows with equal hashes, and what verifies them.
#[derive(Debug)]
pub(crate) struct DuplicateCandidates {
    pub(super) rules: DuplicateRules,
    pub(super) hashes: Vec<Option<u64>>,
    /// The first row with the text of each row.
    pub(super) firsts: Vec<u32>,
    /// The previous row with the same hash, by band and row.
    pub(super) previous: Vec<Vec<u32>>,
    needs: DuplicateNeeds,
    /// The places of needed rows.
    places: Vec<RowPlace>,
    /// The needed rows, ascending.
    placed: Vec<u32>,
    texts: Spool,
    pub(super) sets: Spool,
}

impl DuplicateCandidates {
    /// Takes the needs, which other threads read while rows are added.
    pub(super) fn take_needs(&mut self) -> DuplicateNeeds {
        std::mem::take(&mut self.needs)
    }

    /// Adds the next needed row, in the order of the input.
    ///
    /// A row whose text differs from the first one with its hash is a row of its own.
    pub(super) fn add(
        &mut self,
        place: RowPlace,
        need: DuplicateNeed,
        material: &Material,
    ) -> io::Result<()> {
        let row = u32::try_from(place.row).map_err(io::Error::other)?;
        self.places.push(place);
        self.placed.push(row);
        if need.text {
            let first = get(&self.firsts, row);
            if first == row {
                self.texts.push(row, &material.text)?;
            } else {
                let mut text = Vec::new();
                self.texts.read(first, &mut text)?;
                if text != material.text {
                    set(&mut self.firsts, row, row);
                }
            }
        }
        if need.shingles {
            let hashes = material.shingles.iter();
            let bytes: Vec<u8> = hashes.flat_map(|hash| hash.to_le_bytes()).collect();
            self.sets.push(row, &bytes)?;
        }
        Ok(())
    }

    pub(super) fn rows(&self) -> u32 {
        u32::try_from(self.firsts.len()).unwrap_or(NONE)
    }

    pub(super) fn place(&self, row: u32) -> io::Result<RowPlace> {
        let slot = self.placed.binary_search(&row).map_err(|_| changed())?;
        self.places.get(slot).copied().ok_or_else(changed)
    }
}
