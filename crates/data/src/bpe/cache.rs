//! The ids of recent pieces.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// The longest piece that is kept, in bytes.
const LONGEST: usize = 48;
/// The ids that are kept; more than these empty the cache.
const MOST_IDS: usize = 1 << 18;

/// The ids of pieces that were encoded before.
#[derive(Default)]
pub(super) struct PieceCache {
    places: HashMap<Box<[u8]>, (usize, usize), BuildHasherDefault<PieceHasher>>,
    ids: Vec<u32>,
}

impl PieceCache {
    /// Returns the ids of a piece that was kept.
    pub(super) fn get(&self, piece: &[u8]) -> Option<&[u32]> {
        let &(from, to) = self.places.get(piece)?;
        self.ids.get(from..to)
    }

    /// Keeps the ids of a piece.
    pub(super) fn insert(&mut self, piece: &[u8], ids: &[u32]) {
        if piece.len() > LONGEST {
            return;
        }
        if self.ids.len() + ids.len() > MOST_IDS {
            self.places.clear();
            self.ids.clear();
        }
        let from = self.ids.len();
        self.ids.extend_from_slice(ids);
        self.places.insert(piece.into(), (from, self.ids.len()));
    }
}

/// A fast hash; the cache is emptied before many of its keys can collide.
#[derive(Default)]
pub(super) struct PieceHasher(u64);

impl PieceHasher {
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

impl Hasher for PieceHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.add(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        for (place, byte) in last.iter_mut().zip(rest) {
            *place = *byte;
        }
        self.add(u64::from_le_bytes(last));
    }

    fn write_usize(&mut self, number: usize) {
        self.add(number as u64);
    }

    fn write_u64(&mut self, number: u64) {
        self.add(number);
    }

    fn finish(&self) -> u64 {
        // The table takes the upper bits for its tags and the lower ones for its places.
        self.0 ^ (self.0 >> 32)
    }
}
