//! The pre-tokenizer: boundaries of pieces in a text.
//!
//! A text is first cut into pieces (words with their leading space, numbers of up to three digits,
//! runs of punctuation or white space), then each piece is encoded separately. The pattern of a
//! piece has seven alternatives, of which the first match counts:
//!
//! 1. an optional leading character other than a letter, number or line end; upper case and caseless
//!    letters and marks; then at least one lower case or caseless letter or mark; then an optional
//!    contraction such as `'ll`;
//! 2. as above, with at least one letter of the first kind and any number of the second;
//! 3. one to three numbers;
//! 4. an optional space, then punctuation, then line ends and slashes;
//! 5. white space up to its last line end;
//! 6. white space, except the last character before another class;
//! 7. white space.
//!
//! The functions below equal a backtracking matcher but read each character a bounded number of
//! times: they record the position to which a matcher would step back.

use crate::class::{CASELESS, LETTER, LINE_END, LOWER, MARK, NUMBER, OTHER, SPACE, UPPER, ascii};
use crate::split_fast::fast_piece_end;
use crate::table;

/// Classes of the first part of a word.
const HEAD: u8 = UPPER | CASELESS | MARK;
/// Classes of the second part of a word.
const TAIL: u8 = LOWER | CASELESS | MARK;
/// Classes of both parts.
const BOTH: u8 = CASELESS | MARK;
const SIGN: u8 = OTHER | MARK;
const WHITE: u8 = SPACE | LINE_END;

/// Returns the end of the piece that begins at `at`.
///
/// `at` is a character boundary before the end of `text`.
#[inline]
pub(crate) fn piece_end(text: &[u8], at: usize) -> usize {
    fast_piece_end(text, at).unwrap_or_else(|| any_end(text, at))
}

fn any_end(text: &[u8], at: usize) -> usize {
    let (class, next) = step(text, at);
    if class & LETTER != 0 {
        return word_without_lead(text, at);
    }
    if class & NUMBER != 0 {
        return number(text, next);
    }
    if class & LINE_END == 0 {
        if let Word::Whole(end) = word(text, next) {
            return contraction(text, end);
        }
        if class & MARK != 0 {
            // With the mark as leading character there is no second part; the mark itself is one.
            return word_without_lead(text, at);
        }
        if let Word::Head(end) = word(text, next) {
            return contraction(text, end);
        }
        if class & SIGN != 0 {
            return signs(text, next);
        }
        if text.get(at) == Some(&b' ') {
            let (following, after) = step(text, next);
            if following & SIGN != 0 {
                return signs(text, after);
            }
        }
    }
    white(text, at)
}

/// Returns the class of the character at `at` and the next boundary.
///
/// The class is zero at the end of the text.
#[inline]
fn step(text: &[u8], at: usize) -> (u8, usize) {
    let Some(&byte) = text.get(at) else {
        return (0, at);
    };
    if byte < 0x80 {
        return (ascii(byte), at + 1);
    }
    long_step(text, at, byte)
}

/// Implements [`step`] for a character of two to four bytes.
#[inline]
fn long_step(text: &[u8], at: usize, lead: u8) -> (u8, usize) {
    let part = |offset: usize| u32::from(text.get(at + offset).copied().unwrap_or_default() & 0x3F);
    let lead = u32::from(lead);
    let (code_point, next) = if lead < 0xE0 {
        ((lead & 0x1F) << 6 | part(1), at + 2)
    } else if lead < 0xF0 {
        ((lead & 0x0F) << 12 | part(1) << 6 | part(2), at + 3)
    } else {
        let high = (lead & 0x07) << 18 | part(1) << 12;
        (high | part(2) << 6 | part(3), at + 4)
    };
    (table::class(code_point), next)
}

/// Returns the end of the run of characters from `at` with a class in `mask`.
#[inline]
fn run(text: &[u8], mut at: usize, mask: u8) -> usize {
    loop {
        let (class, next) = step(text, at);
        if class & mask == 0 {
            return at;
        }
        at = next;
    }
}

/// A match of alternatives 1 and 2 without leading character and contraction.
enum Word {
    /// Alternative 1 matches up to here.
    Whole(usize),
    /// Alternative 1 does not match; alternative 2 does, up to here.
    Head(usize),
    None,
}

#[inline]
fn word(text: &[u8], start: usize) -> Word {
    let mut at = start;
    // The end of the last character so far that can also be in the second part.
    let mut both = None;
    loop {
        let (class, next) = step(text, at);
        if class & HEAD == 0 {
            if class & LOWER != 0 {
                return Word::Whole(run(text, next, TAIL));
            }
            break;
        }
        if class & BOTH != 0 {
            both = Some(next);
        }
        at = next;
    }
    match both {
        Some(end) => Word::Whole(end),
        None if at > start => Word::Head(at),
        None => Word::None,
    }
}

/// Returns the end of a word without a leading character.
#[inline]
fn word_without_lead(text: &[u8], at: usize) -> usize {
    match word(text, at) {
        Word::Whole(end) | Word::Head(end) => contraction(text, end),
        Word::None => at,
    }
}

/// Returns the end of the contraction at `at`, or `at`.
///
/// Contractions are `'s`, `'t`, `'re`, `'ve`, `'m`, `'ll`, `'d` in either case; the long s counts as
/// an s.
#[inline]
fn contraction(text: &[u8], at: usize) -> usize {
    if text.get(at) != Some(&b'\'') {
        return at;
    }
    let lower = |offset: usize| text.get(at + offset).map(u8::to_ascii_lowercase);
    match (lower(1), lower(2)) {
        (Some(b's' | b't' | b'm' | b'd'), _) => at + 2,
        (Some(b'r' | b'v'), Some(b'e')) | (Some(b'l'), Some(b'l')) | (Some(0xC5), Some(0xBF)) => {
            at + 3
        }
        _ => at,
    }
}

/// Returns the end of a number after its first character: at most two more.
#[inline]
fn number(text: &[u8], mut at: usize) -> usize {
    for _ in 0..2 {
        let (class, next) = step(text, at);
        if class & NUMBER == 0 {
            break;
        }
        at = next;
    }
    at
}

/// Returns the end of punctuation after its first character.
///
/// Line ends and slashes after the punctuation belong to it.
#[inline]
fn signs(text: &[u8], at: usize) -> usize {
    let mut at = run(text, at, SIGN);
    while let Some(b'\r' | b'\n' | b'/') = text.get(at) {
        at += 1;
    }
    at
}

/// Returns the end of a piece of white space.
#[inline]
fn white(text: &[u8], start: usize) -> usize {
    let mut at = start;
    let mut last = start;
    let mut line_end = None;
    loop {
        let (class, next) = step(text, at);
        if class & WHITE == 0 {
            break;
        }
        if class & LINE_END != 0 {
            line_end = Some(next);
        }
        last = at;
        at = next;
    }
    match line_end {
        Some(end) => end,
        None if at == text.len() || last == start => at,
        None => last,
    }
}
