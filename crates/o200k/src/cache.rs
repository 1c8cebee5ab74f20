//! What the pieces seen last became that are no token by themselves.
//!
//! Texts repeat their words, and to merge one takes longer than anything else. A piece of up to
//! sixteen bytes that became up to three tokens is kept with them in one place that its hash names;
//! another piece of the same place drives it out. Thus most of these pieces cost one look at memory
//! that is near, and none of them waits for a lock, for the cache belongs to one encoder.

use crate::index::Key;

/// Places of the largest cache: half a megabyte.
const MOST_PLACES: usize = 1 << 14;

#[derive(Clone)]
pub(crate) struct Cache {
    /// As many as a power of two.
    entries: Vec<Entry>,
}

impl Cache {
    /// A cache that is worth its making for a text of this length.
    pub(crate) fn for_text(bytes: usize) -> Self {
        let places = (bytes / 32).clamp(16, MOST_PLACES).next_power_of_two();
        Self {
            entries: vec![Entry::default(); places],
        }
    }

    /// The largest cache, for any number of texts.
    pub(crate) fn largest() -> Self {
        Self {
            entries: vec![Entry::default(); MOST_PLACES],
        }
    }

    /// The place of a piece, which may hold another one.
    #[inline]
    pub(crate) fn place(&mut self, key: &Key) -> &mut Entry {
        let place = (key.state >> 40) as usize & (self.entries.len() - 1);
        &mut self.entries[place]
    }
}

/// A piece and its tokens; no piece if its length is zero.
///
/// It lies in one line of memory.
#[derive(Clone, Copy, Default)]
#[repr(align(32))]
pub(crate) struct Entry {
    words: [u64; 2],
    ids: [u32; Entry::MOST_IDS],
    length: u8,
    count: u8,
}

impl Entry {
    /// Tokens that an entry has room for.
    pub(crate) const MOST_IDS: usize = 3;

    /// The tokens of the piece, if it is this one's.
    #[inline]
    pub(crate) fn of(&self, key: &Key) -> Option<&[u32]> {
        // Word by word: comparing the arrays would read both words of the key, just stored, at once.
        let [first, second] = self.words;
        let differs = (first ^ key.words[0]) | (second ^ key.words[1]);
        if differs == 0 && usize::from(self.length) == key.length {
            self.ids.get(..usize::from(self.count))
        } else {
            None
        }
    }

    /// Keeps the tokens of a piece, unless they are too many.
    #[inline]
    pub(crate) fn keep(&mut self, key: &Key, ids: &[u32]) {
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
