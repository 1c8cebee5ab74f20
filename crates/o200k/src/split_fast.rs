//! The fast path of the pre-tokenizer, eight bytes at a time.
//!
//! Most pieces are ASCII: a word with the space before it, up to three digits, a few signs. This
//! module finds their ends in one word of memory without a loop over its bytes. It implements a
//! subset of the rules of `pretokenize`, which handles all other pieces.

use crate::class::{LETTER, LOWER, NUMBER, OTHER, SPACE, UPPER, ascii};

/// The highest bit of each byte, which holds the results of the functions below.
const HIGH: u64 = 0x8080_8080_8080_8080;
/// A one in each byte.
const ONES: u64 = 0x0101_0101_0101_0101;

/// Returns the end of a simple piece that begins at `at`.
///
/// Returns `None` for other pieces, and near the end of the text.
#[inline]
pub(crate) fn fast_piece_end(text: &[u8], at: usize) -> Option<usize> {
    let bytes = u64::from_le_bytes(*text.get(at..)?.first_chunk()?);
    let first = ascii(byte(bytes, 0));
    let second = ascii(byte(bytes, 1));
    if second & LETTER != 0 && first & (LETTER | SPACE | OTHER) != 0 {
        // A capital is part of the word only if no small letter precedes it.
        let head = usize::from(second & UPPER != 0 && first & LOWER == 0);
        return word(text, at, bytes, 1 + head);
    }
    if first & NUMBER != 0 {
        return number(at, bytes);
    }
    if first & OTHER != 0 {
        return signs(text, at, bytes, 1);
    }
    if byte(bytes, 0) == b' ' {
        if second & OTHER != 0 {
            return signs(text, at, bytes, 2);
        }
        if second & NUMBER != 0 {
            return Some(at + 1);
        }
    }
    None
}

/// Returns the end of a word if small letters follow its first `head` characters.
#[inline]
fn word(text: &[u8], at: usize, bytes: u64, head: usize) -> Option<usize> {
    let others = !small(bytes) & HIGH & (u64::MAX << (head * 8));
    let mut end = at + first_of(others);
    if end == at + head {
        return None;
    }
    let mut next = byte(bytes, first_of(others));
    if others == 0 {
        loop {
            let bytes = u64::from_le_bytes(*text.get(end..)?.first_chunk()?);
            let others = !small(bytes) & HIGH;
            end += first_of(others);
            if others != 0 {
                next = byte(bytes, first_of(others));
                break;
            }
        }
    }
    // Letters beyond ASCII continue the word, and an apostrophe may begin a contraction.
    (next < 0x80 && next != b'\'').then_some(end)
}

/// Returns the end of up to three digits.
#[inline]
fn number(at: usize, bytes: u64) -> Option<usize> {
    let others = !digits(bytes) & 0x8080_8080;
    let length = first_of(others).min(3);
    (length == 3 || byte(bytes, length) < 0x80).then_some(at + length)
}

/// Returns the end of signs after the first `known` characters.
#[inline]
fn signs(text: &[u8], at: usize, bytes: u64, known: usize) -> Option<usize> {
    let letters = small(bytes | (ONES * 0x20));
    let blanks = !at_least(bytes, 0x21);
    let stops = (letters | digits(bytes) | blanks | bytes) & HIGH & (u64::MAX << (known * 8));
    if stops == 0 {
        return None;
    }
    let mut end = at + first_of(stops);
    match byte(bytes, first_of(stops)) {
        b' '..0x80 => {}
        b'\n' => {
            while let Some(b'\r' | b'\n' | b'/') = text.get(end) {
                end += 1;
            }
        }
        // Controls, of which some are signs, and characters beyond ASCII.
        _ => return None,
    }
    Some(end)
}

/// Returns a byte of a word; zero after its end.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "selects one byte")]
const fn byte(bytes: u64, place: usize) -> u8 {
    if place < 8 {
        (bytes >> (place * 8)) as u8
    } else {
        0
    }
}

/// Returns the index of the first byte whose bit is set, or eight.
#[inline]
const fn first_of(bits: u64) -> usize {
    bits.trailing_zeros() as usize / 8
}

/// Marks the bytes from `least` to 127.
#[inline]
const fn at_least(bytes: u64, least: u64) -> u64 {
    ((bytes & !HIGH) + ONES * (0x80 - least)) & !bytes
}

/// Marks the small letters.
#[inline]
const fn small(bytes: u64) -> u64 {
    at_least(bytes, 0x61) & !at_least(bytes, 0x7B)
}

/// Marks the digits.
#[inline]
const fn digits(bytes: u64) -> u64 {
    at_least(bytes, 0x30) & !at_least(bytes, 0x3A)
}
