//! A cache of recently merged pieces.
//!
//! Texts repeat their words, and merging is the most expensive step. The cache stores pieces of up
//! to sixteen bytes and three tokens in a slot selected by their hash; a new piece replaces the
//! previous one of its slot. Most of these pieces then cost one access to near memory. Each encoder
//! owns its cache, so there are no locks.

use crate::index::Key;

/// Slots of the largest cache, half a megabyte.
const MAX_SLOTS: usize = 1 << 14;

#[derive(Clone)]
pub(crate) struct Cache {
    /// The slots; their number is a power of two.
    entries: Vec<Entry>,
}

impl Cache {
    /// Creates a cache in proportion to the length of a text.
    pub(crate) fn for_text(bytes: usize) -> Self {
        let slots = (bytes / 32).clamp(16, MAX_SLOTS).next_power_of_two();
        Self {
            entries: vec![Entry::default(); slots],
        }
    }

    /// Creates the largest cache, for any number of texts.
    pub(crate) fn largest() -> Self {
        Self {
            entries: vec![Entry::default(); MAX_SLOTS],
        }
    }

    /// Returns the slot of a piece, which may hold another piece.
    #[inline]
    pub(crate) fn slot(&mut self, key: &Key) -> &mut Entry {
        let slot = (key.state >> 40) as usize & (self.entries.len() - 1);
        &mut self.entries[slot]
    }
}

/// A piece and its tokens; a length of zero marks an empty entry.
///
/// The alignment keeps an entry within one cache line.
#[derive(Clone, Copy, Default)]
#[repr(align(32))]
pub(crate) struct Entry {
    words: [u64; 2],
    ids: [u32; Entry::MAX_IDS],
    length: u8,
    count: u8,
}

impl Entry {
    /// Maximum number of tokens of an entry.
    pub(crate) const MAX_IDS: usize = 3;

    /// Returns the tokens of a piece if this is its entry.
    #[inline]
    pub(crate) fn tokens_of(&self, key: &Key) -> Option<&[u32]> {
        // Word by word: comparing arrays would load both words of the key, just stored, as one vector.
        let [first, second] = self.words;
        let differs = (first ^ key.words[0]) | (second ^ key.words[1]);
        if differs == 0 && usize::from(self.length) == key.length {
            self.ids.get(..usize::from(self.count))
        } else {
            None
        }
    }

    /// Stores the tokens of a piece, unless there are too many.
    #[inline]
    pub(crate) fn store(&mut self, key: &Key, ids: &[u32]) {
        let (Ok(length), Ok(count)) = (u8::try_from(key.length), u8::try_from(ids.len())) else {
            return;
        };
        let Some(room) = self.ids.get_mut(..ids.len()) else {
            return;
        };
        room.copy_from_slice(ids);
        self.words = key.words;
        self.length = length;
        self.count = count;
    }
}
