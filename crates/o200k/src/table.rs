//! The vocabulary file and its layout.
//!
//! `data/o200k.bin` is linked into the program and read in place: nothing is built, copied or
//! checked at first use. Its consecutive parts are little-endian:
//!
//! | part | entries | content |
//! |---|---|---|
//! | short | `SHORT_LINES` × 64 bytes | the tokens of one to eight bytes, with their bytes |
//! | middle | `MIDDLE_LINES` × 64 bytes | the tokens of nine to sixteen bytes, with their bytes |
//! | long | `SLOTS` × 4 bytes | longer tokens; a slot is a tag of the hash above an id, or `EMPTY` |
//! | pairs | 65,536 × 4 bytes | the token of each two bytes, big-endian, or `EMPTY` |
//! | offsets | (`VOCABULARY` + 1) × 4 bytes | the start of the bytes of each id, and the end of the last |
//! | class blocks | `BLOCKS` × 1 byte | the block of classes of each block of code points |
//! | classes | `DISTINCT` × `BLOCK` bytes | the class of each code point of a block |
//! | bytes | to the end | the bytes of all tokens in the order of ids, specials last |
//!
//! The first three are the indexes of `index`. Specials have bytes but no entry in an index, so no
//! look-up of text returns one.
//!
//! `cargo xtask codegen o200k` writes the file and, with `--check`, verifies it.

use crate::class::{BLOCK, BLOCKS, DISTINCT};
use crate::hash::{EMPTY, MIDDLE_LINES, SHORT_LINES, SLOTS};

/// The first special; all ids below are ordinary tokens.
pub(crate) const FIRST_SPECIAL: u32 = 199_998;

/// The last special, which is the last id.
pub(crate) const LAST_SPECIAL: u32 = 201_088;

/// The number of ids, specials included.
pub(crate) const VOCABULARY: usize = LAST_SPECIAL as usize + 1;

/// Maximum length of a token in bytes.
pub(crate) const MAX_TOKEN_LEN: usize = 128;

/// The number of sequences of two bytes.
const PAIRS: usize = 1 << 16;

/// Bytes aligned to 64, so that each index line is one cache line.
#[repr(C, align(64))]
struct InLines<B: ?Sized>(B);

static IN_LINES: &InLines<[u8]> = &InLines(*include_bytes!("../data/o200k.bin"));
static FILE: &[u8] = &IN_LINES.0;

/// Length of a line in bytes.
pub(crate) const LINE: usize = 64;

const MIDDLE_AT: usize = SHORT_LINES * LINE;
const LONG_AT: usize = MIDDLE_AT + MIDDLE_LINES * LINE;
const PAIRS_AT: usize = LONG_AT + SLOTS * 4;
const OFFSETS_AT: usize = PAIRS_AT + PAIRS * 4;
const CLASS_BLOCKS_AT: usize = OFFSETS_AT + (VOCABULARY + 1) * 4;
const CLASSES_AT: usize = CLASS_BLOCKS_AT + BLOCKS;
const BYTES_AT: usize = CLASSES_AT + DISTINCT * BLOCK;

pub(crate) static SHORT: &[[u8; LINE]; SHORT_LINES] = chunked(0);
pub(crate) static MIDDLE: &[[u8; LINE]; MIDDLE_LINES] = chunked(MIDDLE_AT);
pub(crate) static LONG: &[[u8; 4]; SLOTS] = chunked(LONG_AT);
static PAIR_IDS: &[[u8; 4]; PAIRS] = chunked(PAIRS_AT);
static BYTE_IDS: [u32; 256] = byte_ids();
static OFFSETS: &[[u8; 4]; VOCABULARY + 1] = chunked(OFFSETS_AT);
static CLASS_BLOCKS: &[u8; BLOCKS] = part(CLASS_BLOCKS_AT);
static CLASSES: &[u8; DISTINCT * BLOCK] = part(CLASSES_AT);
static BYTES: &[u8] = FILE.split_at(BYTES_AT).1;

const fn part<const N: usize>(at: usize) -> &'static [u8; N] {
    match FILE.split_at(at).1.first_chunk() {
        Some(part) => part,
        None => panic!("data/o200k.bin is too short"),
    }
}

const fn chunked<const SIZE: usize, const N: usize>(at: usize) -> &'static [[u8; SIZE]; N] {
    match FILE.split_at(at).1.as_chunks::<SIZE>().0.first_chunk() {
        Some(part) => part,
        None => panic!("data/o200k.bin is too short"),
    }
}

/// Returns the tokens of single bytes.
///
/// They are the first of the vocabulary, but not in the order of the bytes.
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

/// Returns the token of a single byte; every byte has one.
#[inline]
pub(crate) fn byte_id(byte: u8) -> u32 {
    BYTE_IDS[usize::from(byte)]
}

/// Returns the token of two bytes, or `EMPTY`.
#[inline]
pub(crate) fn pair_id(bytes: [u8; 2]) -> u32 {
    u32::from_le_bytes(PAIR_IDS[usize::from(u16::from_be_bytes(bytes))])
}

/// Returns the range of the bytes of `id` in [`bytes`].
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

/// Returns the bytes of all tokens, indexed by [`bounds`].
#[inline]
pub(crate) fn bytes() -> &'static [u8] {
    BYTES
}

/// Returns the bytes of a token.
#[inline]
pub(crate) fn token(id: u32) -> Option<&'static [u8]> {
    let (begin, end) = bounds(id)?;
    BYTES.get(begin..end)
}

/// Returns the class of a code point.
#[inline]
pub(crate) fn class(code_point: u32) -> u8 {
    let code_point = code_point as usize;
    let block = CLASS_BLOCKS.get(code_point / BLOCK).copied();
    let at = usize::from(block.unwrap_or_default()) * BLOCK + code_point % BLOCK;
    CLASSES.get(at).copied().unwrap_or(crate::class::OTHER)
}
