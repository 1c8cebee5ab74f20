//! The vocabulary as it lies in the file.
//!
//! `data/o200k.bin` is linked into the program and read in place: nothing is built, copied or
//! checked when it is first used. Its parts, all little-endian, one after the other:
//!
//! | part | entries | what |
//! |---|---|---|
//! | index | `SLOTS` × 4 bytes | open addressing; a slot is a tag of the hash above an id, or `EMPTY` |
//! | pairs | 65,536 × 4 bytes | the token of each two bytes, the first one counting more, or `EMPTY` |
//! | offsets | `VOCABULARY` + 1, × 4 bytes | where the bytes of each id begin, and where the last end |
//! | class blocks | `BLOCKS` × 1 byte | which block of classes a block of code points has |
//! | classes | `DISTINCT` × `BLOCK` bytes | the class of each code point of a block |
//! | bytes | the rest | the bytes of all tokens in the order of ids, specials last |
//!
//! Specials have bytes but no place in the index, so no text can be looked up to one.
//!
//! `cargo xtask codegen o200k` writes the file and, with `--check`, verifies it.

use crate::class::{BLOCK, BLOCKS, DISTINCT};
use crate::hash::{self, EMPTY, ID_BITS, SLOTS};

/// The first id that is a special; the ids below it are ordinary tokens.
pub(crate) const FIRST_SPECIAL: u32 = 199_998;

/// The last id that is a special, and of all.
pub(crate) const LAST_SPECIAL: u32 = 201_088;

/// Ids of the vocabulary, specials included.
pub(crate) const VOCABULARY: usize = LAST_SPECIAL as usize + 1;

/// Bytes of the longest token.
pub(crate) const LONGEST: usize = 128;

/// Different sequences of two bytes.
const PAIRS: usize = 1 << 16;

static FILE: &[u8] = include_bytes!("../data/o200k.bin");

const PAIRS_AT: usize = SLOTS * 4;
const OFFSETS_AT: usize = PAIRS_AT + PAIRS * 4;
const CLASS_BLOCKS_AT: usize = OFFSETS_AT + (VOCABULARY + 1) * 4;
const CLASSES_AT: usize = CLASS_BLOCKS_AT + BLOCKS;
const BYTES_AT: usize = CLASSES_AT + DISTINCT * BLOCK;

static INDEX: &[[u8; 4]; SLOTS] = words(0);
static PAIR_IDS: &[[u8; 4]; PAIRS] = words(PAIRS_AT);
static BYTE_IDS: [u32; 256] = byte_ids();
static OFFSETS: &[[u8; 4]; VOCABULARY + 1] = words(OFFSETS_AT);
static CLASS_BLOCKS: &[u8; BLOCKS] = part(CLASS_BLOCKS_AT);
static CLASSES: &[u8; DISTINCT * BLOCK] = part(CLASSES_AT);
static BYTES: &[u8] = FILE.split_at(BYTES_AT).1;

const fn part<const N: usize>(at: usize) -> &'static [u8; N] {
    match FILE.split_at(at).1.first_chunk() {
        Some(part) => part,
        None => panic!("data/o200k.bin is too short"),
    }
}

const fn words<const N: usize>(at: usize) -> &'static [[u8; 4]; N] {
    match FILE.split_at(at).1.as_chunks::<4>().0.first_chunk() {
        Some(part) => part,
        None => panic!("data/o200k.bin is too short"),
    }
}

/// The tokens of single bytes: the first of the vocabulary, but not in the order of the bytes.
const fn byte_ids() -> [u32; 256] {
    let (first, _) = BYTES.split_at(256);
    let mut ids = [EMPTY; 256];
    let mut id: u32 = 0;
    while id < 256 {
        ids[first[id as usize] as usize] = id;
        id += 1;
    }
    ids
}

/// The token of a single byte; every byte is one.
#[inline]
pub(crate) fn byte_id(byte: u8) -> u32 {
    BYTE_IDS[usize::from(byte)]
}

/// The token of two bytes, or `EMPTY`.
#[inline]
pub(crate) fn pair_id(bytes: [u8; 2]) -> u32 {
    u32::from_le_bytes(PAIR_IDS[usize::from(u16::from_be_bytes(bytes))])
}

/// Where the bytes of `id` begin and end, if there is such an id.
#[inline]
pub(crate) fn bounds(id: u32) -> Option<(usize, usize)> {
    let id = id as usize;
    let begin = OFFSETS.get(id)?;
    let end = OFFSETS.get(id + 1)?;
    Some((
        u32::from_le_bytes(*begin) as usize,
        u32::from_le_bytes(*end) as usize,
    ))
}

/// The bytes of all tokens, for those who read them by [`bounds`].
#[inline]
pub(crate) fn bytes() -> &'static [u8] {
    BYTES
}

/// The bytes of a token, if there is such an id.
#[inline]
pub(crate) fn token(id: u32) -> Option<&'static [u8]> {
    let (begin, end) = bounds(id)?;
    BYTES.get(begin..end)
}

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
        let Self {
            words: [first, second],
            length,
            state,
        } = *self;
        if length <= 8 {
            let mask = hash::mask(length);
            probe(state, |begin, end| {
                end - begin == length && hash::word(BYTES, begin) & mask == first
            })
        } else {
            let mask = hash::mask(length - 8);
            probe(state, |begin, end| {
                end - begin == length
                    && hash::word(BYTES, begin) == first
                    && hash::word(BYTES, begin + 8) & mask == second
            })
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
        let state = hash::hash(text, start, length);
        probe(state, |begin, stop| {
            BYTES.get(begin..stop) == text.get(start..end)
        })
    } else {
        None
    }
}

/// The first token along the slots of a hash for whose bounds `same` says yes.
#[inline]
fn probe(state: u64, same: impl Fn(usize, usize) -> bool) -> Option<u32> {
    const ID_MASK: u32 = (1 << ID_BITS) - 1;
    let tag = hash::tag(state);
    let mut at = hash::slot(state);
    loop {
        let slot = u32::from_le_bytes(*INDEX.get(at)?);
        if slot & !ID_MASK == tag {
            let id = slot & ID_MASK;
            if let Some((begin, end)) = bounds(id)
                && same(begin, end)
            {
                return Some(id);
            }
        }
        if slot == EMPTY {
            return None;
        }
        at += 1;
        if at == SLOTS {
            at = 0;
        }
    }
}

/// The class of a code point.
#[inline]
pub(crate) fn class(code_point: u32) -> u8 {
    let code_point = code_point as usize;
    let block = CLASS_BLOCKS.get(code_point / BLOCK).copied();
    let at = usize::from(block.unwrap_or_default()) * BLOCK + code_point % BLOCK;
    CLASSES.get(at).copied().unwrap_or(crate::class::OTHER)
}
