//! The hash function of the token indexes, and their sizes.
//!
//! The generator of the table and this crate compile the same file, so the two cannot disagree. The
//! hash reads a token as little-endian words of eight bytes, the last one padded with zeros. Text is
//! looked up in place, word by word, without a copy.

/// Lines for the tokens of up to eight bytes.
pub(crate) const SHORT_LINES: usize = 17 << 11;
/// Capacity of such a line in tokens.
pub(crate) const SHORT_ROOM: usize = 5;

/// Lines for the tokens of nine to sixteen bytes.
pub(crate) const MIDDLE_LINES: usize = 9 << 11;
/// Capacity of such a line in tokens.
pub(crate) const MIDDLE_ROOM: usize = 3;

/// Slots for the four thousand longer tokens.
pub(crate) const SLOTS: usize = 1 << 13;

/// The value of a slot or pair without a token, larger than any id.
pub(crate) const EMPTY: u32 = u32::MAX;

/// Bits of the id in an entry or slot.
///
/// The bits above are the length in an entry, zero if the entry is empty, or the tag in a slot.
pub(crate) const ID_BITS: u32 = 18;

const MIX: u64 = 0x9E37_79B9_7F4A_7C15;

/// Returns the state before the first word of a token of `length` bytes.
#[inline]
pub(crate) const fn begin(length: usize) -> u64 {
    (length as u64).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

/// Returns the state after one more word.
#[inline]
pub(crate) const fn fold(state: u64, word: u64) -> u64 {
    let product = (state ^ word).wrapping_mul(MIX);
    product ^ (product >> 32)
}

/// Returns the first of `count` lines or slots of a look-up.
///
/// A look-up continues with the following ones, and wraps from the last to the first.
#[inline]
pub(crate) const fn place(state: u64, count: usize) -> usize {
    (((state >> 32) * count as u64) >> 32) as usize
}

/// Returns the line bit that extends a look-up of this hash to the next line.
#[inline]
pub(crate) const fn passed(state: u64) -> u32 {
    1 << (state & 31)
}

/// Returns the bits of the hash that a slot stores above its id.
///
/// The tag rules out nearly every other token without a comparison of bytes.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "keeps the low bits")]
pub(crate) const fn tag(state: u64) -> u32 {
    (state as u32) << ID_BITS
}

/// Returns the word of up to eight bytes at `at`, padded with zeros.
#[inline]
pub(crate) fn word(bytes: &[u8], at: usize) -> u64 {
    if let Some(Some(eight)) = bytes.get(at..).map(<[u8]>::first_chunk::<8>) {
        return u64::from_le_bytes(*eight);
    }
    last_word(bytes, at)
}

#[cold]
fn last_word(bytes: &[u8], at: usize) -> u64 {
    let remaining = bytes.get(at..).unwrap_or_default();
    remaining
        .iter()
        .rev()
        .fold(0, |word, &byte| (word << 8) | u64::from(byte))
}

/// Returns the mask of the first `length` bytes of a word, one to eight.
#[inline]
pub(crate) const fn mask(length: usize) -> u64 {
    u64::MAX >> ((8 - length) * 8)
}

/// Returns the hash of `length` bytes at `at`, at least one.
#[inline]
pub(crate) fn hash(bytes: &[u8], at: usize, length: usize) -> u64 {
    let mut state = begin(length);
    let mut done = 0;
    while length - done > 8 {
        state = fold(state, word(bytes, at + done));
        done += 8;
    }
    fold(state, word(bytes, at + done) & mask(length - done))
}
