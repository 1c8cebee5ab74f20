//! Where most pieces end, eight bytes at a time.
//!
//! Most pieces are ASCII: a word with the space before it, up to three digits, a few signs. Their
//! ends are found here in one word of memory without a loop over its bytes. Whatever is not so
//! simple is left to `pieces`, whose rules these are.

use crate::class::{LETTER, LOWER, NUMBER, OTHER, SPACE, UPPER, ascii};

/// The highest bit of each byte, in which the functions below answer.
const HIGH: u64 = 0x8080_8080_8080_8080;
/// A one in each byte.
const ONES: u64 = 0x0101_0101_0101_0101;

/// The end of the piece that begins at `at`, if it is a simple one that ends well before the text.
#[inline]
pub(crate) fn quick_end(text: &[u8], at: usize) -> Option<usize> {
    let bytes = u64::from_le_bytes(*text.get(at..)?.first_chunk()?);
    let first = ascii(byte(bytes, 0));
    let second = ascii(byte(bytes, 1));
    if second & LETTER != 0 && first & (LETTER | SPACE | OTHER) != 0 {
        // A capital may only stand where no small letter came before it.
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

/// The end of a word of which `head` characters are known, if small letters follow them.
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
    // Letters beyond ASCII go on, and an apostrophe may begin a contraction.
    (next < 0x80 && next != b'\'').then_some(end)
}

/// The end of up to three digits, of which the first is known.
#[inline]
fn number(at: usize, bytes: u64) -> Option<usize> {
    let others = !digits(bytes) & 0x8080_8080;
    let length = first_of(others).min(3);
    (length == 3 || byte(bytes, length) < 0x80).then_some(at + length)
}

/// The end of signs of which `known` characters are known, the first of them maybe a space.
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

/// The byte at a place of a word; zero if the word has no such place.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "one byte is what is wanted"
)]
const fn byte(bytes: u64, place: usize) -> u8 {
    if place < 8 {
        (bytes >> (place * 8)) as u8
    } else {
        0
    }
}

/// The place of the first byte whose bit is set, or eight.
#[inline]
const fn first_of(bits: u64) -> usize {
    bits.trailing_zeros() as usize / 8
}

/// The bytes that are `least` or more, and less than 128.
#[inline]
const fn at_least(bytes: u64, least: u64) -> u64 {
    ((bytes & !HIGH) + ONES * (0x80 - least)) & !bytes
}

/// The small letters.
#[inline]
const fn small(bytes: u64) -> u64 {
    at_least(bytes, 0x61) & !at_least(bytes, 0x7B)
}

/// The digits.
#[inline]
const fn digits(bytes: u64) -> u64 {
    at_least(bytes, 0x30) & !at_least(bytes, 0x3A)
}
