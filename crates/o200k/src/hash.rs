//! The hash of the table's indexes, and their sizes.
//!
//! The program that generates the table and the crate that reads it compile this same file, so the
//! two cannot disagree. The hash reads a token as little-endian words of eight bytes, the last one
//! padded with zeros: text is looked up in place, a word at a time, without copying it.

/// Lines for the tokens of up to eight bytes.
pub(crate) const SHORT_LINES: usize = 17 << 11;
/// Tokens of up to eight bytes that a line has room for.
pub(crate) const SHORT_ROOM: usize = 5;

/// Lines for the tokens of nine to sixteen bytes.
pub(crate) const MIDDLE_LINES: usize = 9 << 11;
/// Tokens of nine to sixteen bytes that a line has room for.
pub(crate) const MIDDLE_ROOM: usize = 3;

/// Slots for the longer tokens, four thousand of them.
pub(crate) const SLOTS: usize = 1 << 13;

/// What a slot or a pair without a token holds: its id is larger than any of the vocabulary.
pub(crate) const EMPTY: u32 = u32::MAX;

/// Bits of an entry or a slot that hold the id; those above hold the length of an entry, which is
/// zero if there is none, or the tag of a slot.
pub(crate) const ID_BITS: u32 = 18;

const MIX: u64 = 0x9E37_79B9_7F4A_7C15;

/// The state before the first word of a token of `length` bytes.
#[inline]
pub(crate) const fn begin(length: usize) -> u64 {
    (length as u64).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

/// The state after one more word.
#[inline]
pub(crate) const fn fold(state: u64, word: u64) -> u64 {
    let product = (state ^ word).wrapping_mul(MIX);
    product ^ (product >> 32)
}

/// The line or slot, of as many as `count`, where a look-up begins; it goes on to the following
/// ones, and from the last to the first.
#[inline]
pub(crate) const fn place(state: u64, count: usize) -> usize {
    (((state >> 32) * count as u64) >> 32) as usize
}

/// The bit of a line that says whether a token with this hash is to be sought in the next line too.
#[inline]
pub(crate) const fn passed(state: u64) -> u32 {
    1 << (state & 31)
}

/// The bits of the hash that a slot keeps, in their place above the id, so that nearly every token
/// that is not the one sought is told apart without reading its bytes.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the low bits are what is wanted"
)]
pub(crate) const fn tag(state: u64) -> u32 {
    (state as u32) << ID_BITS
}

/// The word of up to eight bytes at `at`, zeros after the end of `bytes`.
#[inline]
pub(crate) fn word(bytes: &[u8], at: usize) -> u64 {
    if let Some(Some(eight)) = bytes.get(at..).map(|rest| rest.first_chunk::<8>()) {
        return u64::from_le_bytes(*eight);
    }
    last_word(bytes, at)
}

#[cold]
fn last_word(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at..).unwrap_or_default();
    rest.iter()
        .rev()
        .fold(0, |word, &byte| (word << 8) | u64::from(byte))
}

/// The bits of a word that belong to its first `length` bytes, one to eight.
#[inline]
pub(crate) const fn mask(length: usize) -> u64 {
    u64::MAX >> ((8 - length) * 8)
}

/// The hash of `length` bytes at `at`, at least one.
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
