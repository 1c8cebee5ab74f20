//! Groups of rows that are similar, directly or through others.

use std::io;

use super::candidates::{DuplicateCandidates, NONE, get};
use super::decisions::{Sets, by_equal_bands};

/// Earlier rows of a band that are looked at, the latest first.
const MOST_IN_BAND: usize = 1024;
/// Earlier rows that a row is compared with.
const MOST_COMPARED: usize = 256;

/// Rows in groups, each row in one.
#[derive(Clone, Debug)]
pub(crate) struct Partition {
    /// An earlier row of the same group, or the row itself.
    parents: Vec<u32>,
}

impl Partition {
    /// Creates a group for each row.
    pub(crate) fn new(rows: u32) -> Self {
        Self {
            parents: (0..rows).collect(),
        }
    }

    /// Returns the first row of the group of a row.
    pub(crate) fn first(&mut self, row: u32) -> u32 {
        let mut row = row;
        loop {
            let parent = get(&self.parents, row);
            if parent == row || parent == NONE {
                return row;
            }
            // Halves the path, so that later searches are short.
            let above = get(&self.parents, parent);
            super::candidates::set(&mut self.parents, row, above);
            row = above;
        }
    }

    /// Joins the groups of two rows, and returns whether they were different.
    pub(crate) fn join(&mut self, one: u32, two: u32) -> bool {
        let (one, two) = (self.first(one), self.first(two));
        super::candidates::set(&mut self.parents, one.max(two), one.min(two));
        one != two
    }
}

/// The work of grouping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grouping {
    /// The groups that were joined with others.
    pub(crate) joined: u64,
    /// The rows that have more candidates than are compared.
    pub(crate) limited: u64,
}

impl DuplicateCandidates {
    /// Joins the groups of exact and of near duplicates.
    ///
    /// Rows that are in one group already are not compared.
    ///
    /// # Errors
    /// Returns an error if the temporary files cannot be read.
    pub(crate) fn join_similar(&self, partition: &mut Partition) -> io::Result<Grouping> {
        let mut grouping = Grouping::default();
        let mut sets = Sets::default();
        let mut earlier = Vec::new();
        for row in 0..self.rows() {
            let first = get(&self.firsts, row);
            if first != row {
                grouping.joined += u64::from(partition.join(first, row));
                continue;
            }
            let mut is_limited = false;
            earlier.clear();
            for band in &self.previous {
                let mut next = get(band, row);
                let mut steps = 0;
                while next != NONE {
                    if steps == MOST_IN_BAND {
                        is_limited = true;
                        break;
                    }
                    if partition.first(next) != partition.first(row) {
                        earlier.push(next);
                    }
                    steps += 1;
                    next = get(band, next);
                }
            }
            let mut compared = 0;
            for candidate in by_equal_bands(&mut earlier) {
                if partition.first(candidate) == partition.first(row) {
                    continue;
                }
                if compared == MOST_COMPARED {
                    is_limited = true;
                    break;
                }
                compared += 1;
                if self.overlap(row, candidate, &mut sets)?.is_some() {
                    grouping.joined += u64::from(partition.join(candidate, row));
                }
            }
            grouping.limited += u64::from(is_limited);
        }
        Ok(grouping)
    }
}
