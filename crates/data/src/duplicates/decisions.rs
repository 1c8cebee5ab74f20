//! The rows that are removed, in the order of the input.

use std::io;
use std::thread;

use super::candidates::{DuplicateCandidates, NONE, RowPlace, get, set};
use super::sketch::Overlap;

/// Rows that are compared with earlier ones at a time.
const BATCH: u32 = 16_384;
/// Earlier rows of a band that a row is compared with, the latest first.
const MOST_IN_BAND: usize = 64;
/// Earlier rows that a row is compared with, those with the most equal bands first.
const MOST_COMPARED: usize = 64;

/// A row that is removed, and the row that is kept for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DuplicateRemoval {
    /// The removed row.
    pub removed: RowPlace,
    /// An earlier row that is kept.
    pub kept: RowPlace,
    /// The comparison of their shingles; `None` for an exact duplicate.
    pub overlap: Option<Overlap>,
    /// The hash of the folded text of the removed row.
    pub hash: u64,
}

/// The removed rows, and the work that found them.
#[derive(Clone, Debug, Default)]
pub struct Duplicates {
    /// The removals by removed row.
    pub removals: Vec<DuplicateRemoval>,
    /// The pairs whose shingles were compared.
    pub compared: u64,
    /// The rows that have more candidates than are compared.
    pub limited: u64,
}

/// The comparison of one row with earlier ones.
#[derive(Clone, Copy, Debug, Default)]
struct Comparison {
    kept: Option<(u32, Overlap)>,
    compared: u64,
    is_limited: bool,
}

impl DuplicateCandidates {
    /// Decides each row in the order of the input: it is removed if an earlier row that is kept has
    /// the same text, or a Jaccard index of at least the threshold.
    ///
    /// # Errors
    /// Returns an error if the temporary files cannot be read.
    pub(crate) fn decide(mut self, threads: usize) -> io::Result<Duplicates> {
        let mut duplicates = Duplicates::default();
        let rows = self.rows();
        // The kept row of each removed near duplicate, by row.
        let mut near: Vec<(u32, u32, Overlap)> = Vec::new();
        let mut kept = vec![true; rows as usize];
        let mut start = 0;
        while start < rows {
            let end = start.saturating_add(BATCH).min(rows);
            let before = self.compare_batch(start, end, &kept, threads)?;
            for (row, mut found) in (start..end).zip(before) {
                if found.kept.is_none() {
                    // Rows of the batch may have hidden earlier ones.
                    let side = if found.is_limited {
                        Side::Both
                    } else {
                        Side::RowBatch
                    };
                    let among = self.compare(row, start, side, &kept)?;
                    found.kept = among.kept;
                    found.compared += among.compared;
                    found.is_limited = among.is_limited;
                }
                duplicates.compared += found.compared;
                duplicates.limited += u64::from(found.is_limited && found.kept.is_none());
                if let Some((earlier, overlap)) = found.kept {
                    near.push((row, earlier, overlap));
                    if let Some(place) = kept.get_mut(row as usize) {
                        *place = false;
                    }
                }
                self.resolve(row, &kept);
            }
            start = end;
        }
        self.list(&near, &mut duplicates)?;
        Ok(duplicates)
    }

    /// Compares the rows of a batch with kept rows before it.
    fn compare_batch(
        &self,
        start: u32,
        end: u32,
        kept: &[bool],
        threads: usize,
    ) -> io::Result<Vec<Comparison>> {
        let threads = u32::try_from(threads.max(1)).unwrap_or(1);
        let share = (end - start).div_ceil(threads).max(1);
        let compare = |from: u32| -> io::Result<Vec<Comparison>> {
            let to = from.saturating_add(share).min(end);
            (from..to)
                .map(|row| self.compare(row, start, Side::Before, kept))
                .collect()
        };
        let starts = (start..end).step_by(share as usize);
        let parts: Vec<io::Result<Vec<Comparison>>> = thread::scope(|scope| {
            let compare = &compare;
            let workers: Vec<_> = starts
                .map(|from| scope.spawn(move || compare(from)))
                .collect();
            let joined = workers.into_iter().map(|worker| match worker.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            joined.collect()
        });
        let mut comparisons = Vec::with_capacity((end - start) as usize);
        for part in parts {
            comparisons.extend(part?);
        }
        Ok(comparisons)
    }

    /// Compares a row with kept rows on one side of the start of its batch.
    fn compare(&self, row: u32, start: u32, side: Side, kept: &[bool]) -> io::Result<Comparison> {
        let mut comparison = Comparison::default();
        if get(&self.firsts, row) != row {
            return Ok(comparison);
        }
        let mut earlier: Vec<u32> = Vec::new();
        for band in &self.previous {
            let mut next = get(band, row);
            let mut steps = 0;
            while next != NONE {
                if side == Side::RowBatch && next < start {
                    break;
                }
                if steps == MOST_IN_BAND {
                    comparison.is_limited = true;
                    break;
                }
                let is_kept = kept.get(next as usize) == Some(&true);
                if is_kept && (side != Side::Before || next < start) {
                    earlier.push(next);
                }
                steps += usize::from(is_kept);
                next = get(band, next);
            }
        }
        if earlier.is_empty() {
            return Ok(comparison);
        }
        let candidates = by_equal_bands(&mut earlier);
        comparison.is_limited |= candidates.len() > MOST_COMPARED;
        let mut sets = Sets::default();
        for candidate in candidates.into_iter().take(MOST_COMPARED) {
            comparison.compared += 1;
            let overlap = self.overlap(row, candidate, &mut sets)?;
            if let Some(overlap) = overlap {
                comparison.kept = Some((candidate, overlap));
                break;
            }
        }
        Ok(comparison)
    }

    /// Compares the shingles of two rows; `None` if the index is below the threshold.
    pub(super) fn overlap(
        &self,
        row: u32,
        other: u32,
        sets: &mut Sets,
    ) -> io::Result<Option<Overlap>> {
        let length = |row| {
            let length = self.sets.length(row).unwrap_or_default();
            f64::from(u32::try_from(length).unwrap_or(u32::MAX))
        };
        let (one, two) = (length(row), length(other));
        // The index is at most the ratio of the sizes. The margin is for rounding.
        if one.min(two) < (self.rules.threshold - 1e-9) * one.max(two) {
            return Ok(None);
        }
        if sets.row != Some(row) {
            self.sets.read(row, &mut sets.bytes)?;
            hashes(&sets.bytes, &mut sets.own);
            sets.row = Some(row);
        }
        self.sets.read(other, &mut sets.bytes)?;
        hashes(&sets.bytes, &mut sets.other);
        let overlap = Overlap::between(&sets.own, &sets.other);
        Ok((overlap.jaccard() >= self.rules.threshold).then_some(overlap))
    }

    /// Takes removed rows out of the chains that begin at a row.
    ///
    /// Every earlier row is decided and its chains are free of removed rows.
    fn resolve(&mut self, row: u32, kept: &[bool]) {
        for band in &mut self.previous {
            let before = get(band, row);
            if before != NONE && kept.get(before as usize) == Some(&false) {
                let next = get(band, before);
                set(band, row, next);
            }
        }
    }

    /// Lists the removals with their places.
    fn list(&self, near: &[(u32, u32, Overlap)], duplicates: &mut Duplicates) -> io::Result<()> {
        let of_near = |row: u32| {
            let slot = near.binary_search_by_key(&row, |(row, _, _)| *row).ok()?;
            near.get(slot).map(|(_, kept, overlap)| (*kept, *overlap))
        };
        for (row, (first, hash)) in (0_u32..).zip(self.firsts.iter().zip(&self.hashes)) {
            // The text of a later row is that of the first one, so it shares its fate.
            let (kept, overlap) = match of_near(*first) {
                Some((kept, overlap)) => (kept, Some(overlap)),
                None if *first != row => (*first, None),
                None => continue,
            };
            duplicates.removals.push(DuplicateRemoval {
                removed: self.place(row)?,
                kept: self.place(kept)?,
                overlap,
                hash: hash.unwrap_or_default(),
            });
        }
        Ok(())
    }
}

/// The rows that a row is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// Those before its batch.
    Before,
    /// Those of its batch, which are decided.
    RowBatch,
    Both,
}

/// The shingles of a row and of the one that it is compared with.
#[derive(Debug, Default)]
pub(super) struct Sets {
    row: Option<u32>,
    bytes: Vec<u8>,
    own: Vec<u64>,
    other: Vec<u64>,
}

fn hashes(bytes: &[u8], hashes: &mut Vec<u64>) {
    hashes.clear();
    let (words, _) = bytes.as_chunks::<8>();
    hashes.extend(words.iter().map(|word| u64::from_le_bytes(*word)));
}

/// Returns the different rows, those that occur most often first, then the earliest.
pub(super) fn by_equal_bands(rows: &mut [u32]) -> Vec<u32> {
    rows.sort_unstable();
    let mut counted: Vec<(usize, u32)> = rows
        .chunk_by(|a, b| a == b)
        .filter_map(|equal| Some((equal.len(), *equal.first()?)))
        .collect();
    counted.sort_unstable_by_key(|(count, row)| (std::cmp::Reverse(*count), *row));
    counted.into_iter().map(|(_, row)| row).collect()
}
