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
        let length = end - start;
        let begin = hash::begin(length);
        let first = hash::word(text, start);
        if length <= 8 {
            let first = first & hash::mask(length);
            Self {
                words: [first, 0],
                length,
                state: hash::fold(begin, first),
            }
        } else {
            let second = hash::word(text, start + 8) & hash::mask(length - 8);
            Self {
                words: [first, second],
                length,
                state: hash::fold(hash::fold(begin, first), second),
            }
        }
    }

    /// The ordinary token of these bytes, if there is one.
    #[inline]
    pub(crate) fn find(&self) -> Option<u32> {
        let [first, second] = self.words;
        if self.length <= 8 {
            short(first, self.length, self.state)
        } else {
            middle([first, second], self.length, self.state)
        }
    }
}

/// The ordinary token whose bytes are `text[start..end]`, at least one, if there is such a token.
/// Constant time.
#[inline]
pub(crate) fn find(text: &[u8], start: usize, end: usize) -> Option<u32> {
    let length = end - start;
    if length <= Key::LONGEST {
        Key::new(text, start, end).find()
    } else if length <= LONGEST {
        long(text, start, end)
    } else {
        None
    }
}

/// The token of up to eight bytes, which are this word.
#[inline]
fn short(word: u64, length: usize, state: u64) -> Option<u32> {
    const WORDS: usize = SHORT_ROOM * 8;
    let mut at = hash::place(state, SHORT_LINES);
    loop {
        let line = SHORT.get(at)?;
        let (words, entries) = line.split_first_chunk::<WORDS>()?;
        let mut found = 0;
        // All of them, without an early end: which one it is cannot be foreseen.
        for (other, entry) in words
            .as_chunks::<8>()
            .0
            .iter()
            .zip(entries.as_chunks::<4>().0)
        {
            if u64::from_le_bytes(*other) == word {
                found |= of_length(*entry, length);
            }
        }
        if found != 0 {
            return Some(found & ID_MASK);
        }
        at = next_line(line, at, state, SHORT_LINES)?;
    }
}

/// The token of nine to sixteen bytes, which are these words.
#[inline]
fn middle(words: [u64; 2], length: usize, state: u64) -> Option<u32> {
    const WORDS: usize = MIDDLE_ROOM * 16;
    let bytes = u128::from(words[0]) | u128::from(words[1]) << 64;
    let mut at = hash::place(state, MIDDLE_LINES);
    loop {
        let line = MIDDLE.get(at)?;
        let (words, entries) = line.split_first_chunk::<WORDS>()?;
        let mut found = 0;
        for (other, entry) in words
            .as_chunks::<16>()
            .0
            .iter()
            .zip(entries.as_chunks::<4>().0)
        {
            if u128::from_le_bytes(*other) == bytes {
                found |= of_length(*entry, length);
            }
        }
        if found != 0 {
            return Some(found & ID_MASK);
        }
        at = next_line(line, at, state, MIDDLE_LINES)?;
    }
}

/// An entry if its token has this length, or else zero. Only tokens that end in zeros need it.
#[inline]
fn of_length(entry: [u8; 4], length: usize) -> u32 {
    let entry = u32::from_le_bytes(entry);
    if (entry >> ID_BITS) as usize == length {
        entry
    } else {
        0
    }
}

/// The line to look at after this one, if there may be one.
#[inline]
fn next_line(line: &[u8; LINE], at: usize, state: u64, count: usize) -> Option<usize> {
    let passed = u32::from_le_bytes(*line.last_chunk()?);
    if passed & hash::passed(state) == 0 {
        return None;
    }
    Some(if at + 1 == count { 0 } else { at + 1 })
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
