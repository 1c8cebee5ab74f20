//! Which token some bytes are.
//!
//! Three indexes, by the length of the bytes. Tokens of up to sixteen bytes lie in lines of memory:
//! a line holds the bytes of a few tokens as words, then an entry for each, its length above its id,
//! then a word of bits. The hash names the line where a token belongs. If that is full, the token
//! is in the next one that is not, and each line on the way has a bit set for its hash. Thus nearly
//! every look-up, of what is a token and of what is none, is one look at one line. Longer tokens are
//! few: the index has only their ids, and their bytes are compared where all bytes lie.

use crate::hash::{
    self, EMPTY, ID_BITS, MIDDLE_LINES, MIDDLE_ROOM, SHORT_LINES, SHORT_ROOM, SLOTS,
};
use crate::table::{self, LINE, LONG, LONGEST, MIDDLE, SHORT};

const ID_MASK: u32 = (1 << ID_BITS) - 1;

/// Up to sixteen bytes as two words, with their hash.
#[derive(Clone, Copy)]
pub(crate) struct Key {
    pub(crate) words: [u64; 2],
    pub(crate) length: usize,
    pub(crate) state: u64,
}

impl Key {
    /// Bytes of the longest key.
    pub(crate) const LONGEST: usize = 16;

    /// The key of `text[start..end]`, one to sixteen bytes.
    #[inline]
    pub(crate) fn new(text: &[u8], start: usize, end: usize) -> Self {
        let first = hash::word(text, start);
        Self::of_words(first, || hash::word(text, start + 8), end - start)
    }

    /// The key of the first `length` bytes of `bytes`, one to sixteen.
    #[inline]
    pub(crate) fn of(bytes: u128, length: usize) -> Self {
        let [first, second] = halves(bytes);
        Self::of_words(first, || second, length)
    }

    /// The key of the first `length` bytes of two words, of which the second may not be needed.
    #[inline]
    fn of_words(first: u64, second: impl FnOnce() -> u64, length: usize) -> Self {
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

    /// The bytes, the first one lowest.
    #[inline]
    pub(crate) fn bytes(&self) -> u128 {
        u128::from(self.words[0]) | u128::from(self.words[1]) << 64
    }

    /// The ordinary token of these bytes, or `EMPTY`.
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

/// The ordinary token whose bytes are `text[start..end]`, at least one, if there is such a token.
/// Constant time.
#[inline]
pub(crate) fn find(text: &[u8], start: usize, end: usize) -> Option<u32> {
    let length = end - start;
    if length <= Key::LONGEST {
        let id = Key::new(text, start, end).id();
        (id != EMPTY).then_some(id)
    } else if length <= LONGEST {
        long(text, start, end)
    } else {
        None
    }
}

/// The token of up to eight bytes, which are this word, or `EMPTY`.
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

/// The token of nine to sixteen bytes, or `EMPTY`.
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

/// The token of a line with room for so many whose words are the `same`, a bit each, or `EMPTY`;
/// and whether it is to be sought in the next line. The length tells apart what ends in zeros.
///
/// All words are compared before, and no branch depends on the answer, since neither which of them
/// it is nor whether it is any can be foreseen.
#[inline]
fn token_of<const ROOM: usize>(
    line: &[u8; LINE],
    same: u32,
    length: usize,
    state: u64,
) -> (u32, bool) {
    let (parts, _) = line.as_chunks::<4>();
    let part = |at: usize| u32::from_le_bytes(parts.get(at).copied().unwrap_or_default());
    // Without any, the bits after the last entry: they are there, and not taken.
    let entry = part(LINE / 4 - 1 - ROOM + (same | 1 << ROOM).trailing_zeros() as usize);
    let found = same != 0 && (entry >> ID_BITS) as usize == length;
    let passed = !found && part(LINE / 4 - 1) & hash::passed(state) != 0;
    (if found { entry & ID_MASK } else { EMPTY }, passed)
}

/// The token of more than sixteen bytes, `text[start..end]`.
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
