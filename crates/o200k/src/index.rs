//! Look-up of tokens by their bytes.
//!
//! There are three indexes, by length. Tokens of up to sixteen bytes are in lines of memory: a line
//! contains the bytes of a few tokens as words, then one entry per token (its length above its id),
//! then a word of bits. The hash selects the line of a token. If the line is full, the token is in
//! the next line with room, and each full line on the way has a bit set for the hash. Nearly every
//! look-up, successful or not, therefore reads one line. Longer tokens are few: their index has only
//! ids, and their bytes are compared with the vocabulary.

use crate::hash::{
    self, EMPTY, ID_BITS, MIDDLE_LINES, MIDDLE_ROOM, SHORT_LINES, SHORT_ROOM, SLOTS,
};
use crate::table::{self, LINE, LONG, MAX_TOKEN_LEN, MIDDLE, SHORT};

const ID_MASK: u32 = (1 << ID_BITS) - 1;

/// Up to sixteen bytes as two words, with their hash.
#[derive(Clone, Copy)]
pub(crate) struct Key {
    pub(crate) words: [u64; 2],
    pub(crate) length: usize,
    pub(crate) state: u64,
}

impl Key {
    /// Maximum length of a key in bytes.
    pub(crate) const MAX_LEN: usize = 16;

    /// Creates the key of `text[start..end]`, one to sixteen bytes.
    #[inline]
    pub(crate) fn new(text: &[u8], start: usize, end: usize) -> Self {
        let first = hash::word(text, start);
        Self::from_words(first, || hash::word(text, start + 8), end - start)
    }

    /// Creates the key of the first `length` bytes of `bytes`, one to sixteen.
    #[inline]
    pub(crate) fn from_bytes(bytes: u128, length: usize) -> Self {
        let [first, second] = halves(bytes);
        Self::from_words(first, || second, length)
    }

    /// Creates the key of the first `length` bytes of two words.
    ///
    /// The second word is read only if needed.
    #[inline]
    fn from_words(first: u64, second: impl FnOnce() -> u64, length: usize) -> Self {
        let begin = hash::begin(length);
        if length <= 8 {
            let first = first & hash::mask(length);
            Self {
                words: [first, 0],
                length,
                state: hash::fold(begin, first),
            }
        } else {
            let second = second() & hash::mask(length - 8);
            Self {
                words: [first, second],
                length,
                state: hash::fold(hash::fold(begin, first), second),
            }
        }
    }

    /// Returns the bytes as a little-endian number.
    #[inline]
    pub(crate) fn bytes(&self) -> u128 {
        u128::from(self.words[0]) | u128::from(self.words[1]) << 64
    }

    /// Returns the ordinary token of these bytes, or `EMPTY`.
    #[inline]
    pub(crate) fn id(&self) -> u32 {
        if self.length <= 8 {
            short(self.words[0], self.length, self.state)
        } else {
            middle(self.bytes(), self.length, self.state)
        }
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "each half is cut off")]
fn halves(bytes: u128) -> [u64; 2] {
    [bytes as u64, (bytes >> 64) as u64]
}

/// Returns the ordinary token with the bytes `text[start..end]`, at least one byte.
///
/// Constant time.
#[inline]
pub(crate) fn find(text: &[u8], start: usize, end: usize) -> Option<u32> {
    let length = end - start;
    if length <= Key::MAX_LEN {
        let id = Key::new(text, start, end).id();
        (id != EMPTY).then_some(id)
    } else if length <= MAX_TOKEN_LEN {
        long(text, start, end)
    } else {
        None
    }
}

/// Returns the token whose up to eight bytes are this word, or `EMPTY`.
#[inline]
fn short(word: u64, length: usize, state: u64) -> u32 {
    let mut at = hash::place(state, SHORT_LINES);
    loop {
        let Some(line) = SHORT.get(at) else {
            return EMPTY;
        };
        let (words, _) = line.as_chunks::<8>();
        let mut same = 0;
        for (place, other) in words.iter().take(SHORT_ROOM).enumerate() {
            same |= u32::from(u64::from_le_bytes(*other) == word) << place;
        }
        let (id, passed) = token_of::<SHORT_ROOM>(line, same, length, state);
        if !passed {
            return id;
        }
        at = if at + 1 == SHORT_LINES { 0 } else { at + 1 };
    }
}

/// Returns the token of nine to sixteen bytes, or `EMPTY`.
#[inline]
fn middle(bytes: u128, length: usize, state: u64) -> u32 {
    let mut at = hash::place(state, MIDDLE_LINES);
    loop {
        let Some(line) = MIDDLE.get(at) else {
            return EMPTY;
        };
        let (words, _) = line.as_chunks::<16>();
        let mut same = 0;
        for (place, other) in words.iter().take(MIDDLE_ROOM).enumerate() {
            same |= u32::from(u128::from_le_bytes(*other) == bytes) << place;
        }
        let (id, passed) = token_of::<MIDDLE_ROOM>(line, same, length, state);
        if !passed {
            return id;
        }
        at = if at + 1 == MIDDLE_LINES { 0 } else { at + 1 };
    }
}

/// Returns the matching token of a line and whether to read the next line.
///
/// The token is `EMPTY` without a match. `same` has a bit for each of the `ROOM` words that equals the searched word. The length separates
/// tokens that end in zeros. All words are compared before, and no branch depends on the result,
/// because the result is unpredictable.
#[inline]
fn token_of<const ROOM: usize>(
    line: &[u8; LINE],
    same: u32,
    length: usize,
    state: u64,
) -> (u32, bool) {
    let (parts, _) = line.as_chunks::<4>();
    let part = |at: usize| u32::from_le_bytes(parts.get(at).copied().unwrap_or_default());
    // Without a match this reads the bits after the last entry, which are not used.
    let entry = part(LINE / 4 - 1 - ROOM + (same | 1 << ROOM).trailing_zeros() as usize);
    let found = same != 0 && (entry >> ID_BITS) as usize == length;
    let passed = !found && part(LINE / 4 - 1) & hash::passed(state) != 0;
    (if found { entry & ID_MASK } else { EMPTY }, passed)
}

/// Returns the token `text[start..end]` of more than sixteen bytes.
fn long(text: &[u8], start: usize, end: usize) -> Option<u32> {
    let state = hash::hash(text, start, end - start);
    let tag = hash::tag(state);
    let mut at = hash::place(state, SLOTS);
    loop {
        let slot = u32::from_le_bytes(*LONG.get(at)?);
        let id = slot & ID_MASK;
        if slot & !ID_MASK == tag && table::token(id) == text.get(start..end) {
            return Some(id);
        }
        if slot == EMPTY {
            return None;
        }
        at = if at + 1 == SLOTS { 0 } else { at + 1 };
    }
}
