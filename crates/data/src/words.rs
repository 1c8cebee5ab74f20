//! Words of a text, and the text with its white space folded.
//!
//! A word is a run of letters and digits, in lower case. A character of a script that is written
//! without spaces is a word. Everything else separates words.

use crate::hash::{extended, mixed};
use crate::row_turns::RowTurn;

/// A word at its place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) hash: u64,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// The hash of no letters.
const EMPTY: u64 = 0x5851_F42D_4C95_7F2D;

/// The lower case of ASCII letters and digits, and 0 for every other byte.
const LETTERS: [u8; 256] = {
    let mut letters = [0; 256];
    let mut byte = 0_u8;
    while byte.is_ascii() {
        if byte.is_ascii_alphanumeric() {
            letters[byte as usize] = byte.to_ascii_lowercase();
        }
        byte += 1;
    }
    letters
};

/// Passes the words of a text to `take`. Linear in the text.
pub(crate) fn each_word(text: &str, mut take: impl FnMut(Word)) {
    let bytes = text.as_bytes();
    let mut open: Option<(usize, u64)> = None;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let letter = LETTERS[usize::from(byte)];
        if letter != 0 {
            let (start, hash) = open.unwrap_or((at, EMPTY));
            open = Some((start, extended(hash, u32::from(letter))));
            at += 1;
            continue;
        }
        if byte < 128 {
            close(&mut open, at, &mut take);
            at += 1;
            continue;
        }
        // The place is the beginning of a character.
        let Some(character) = text.get(at..).and_then(|text| text.chars().next()) else {
            break;
        };
        let next = at + character.len_utf8();
        if is_unspaced(character) {
            close(&mut open, at, &mut take);
            take(Word {
                hash: mixed(extended(EMPTY, u32::from(character))),
                start: at,
                end: next,
            });
        } else if character.is_alphanumeric() {
            let (start, mut hash) = open.unwrap_or((at, EMPTY));
            for lower in character.to_lowercase() {
                hash = extended(hash, u32::from(lower));
            }
            open = Some((start, hash));
        } else {
            close(&mut open, at, &mut take);
        }
        at = next;
    }
    close(&mut open, at, &mut take);
}

#[inline]
fn close(open: &mut Option<(usize, u64)>, end: usize, take: &mut impl FnMut(Word)) {
    if let Some((start, hash)) = open.take() {
        let hash = mixed(hash);
        take(Word { hash, start, end });
    }
}

/// Returns whether a character is of a script that is written without spaces between words.
fn is_unspaced(character: char) -> bool {
    matches!(character,
        '\u{0E00}'..='\u{0EFF}'     // Thai, Lao
        | '\u{1000}'..='\u{109F}'   // Burmese
        | '\u{1780}'..='\u{17FF}'   // Khmer
        | '\u{3040}'..='\u{30FF}'   // Hiragana, Katakana
        | '\u{3400}'..='\u{4DBF}'   // Han
        | '\u{4E00}'..='\u{9FFF}'
        | '\u{F900}'..='\u{FAFF}'
        | '\u{20000}'..='\u{3FFFF}')
        && character.is_alphanumeric()
}

/// Appends the hashes of the words of turns.
///
/// The speaker of each turn is its first word.
pub(crate) fn words_of(turns: &[RowTurn<'_>], words: &mut Vec<u64>) {
    for turn in turns {
        words.push(mixed(crate::hash::of_bytes(turn.speaker.as_bytes())));
        each_word(&turn.text, |word| words.push(word.hash));
    }
}

/// The byte after the speaker of a turn, and after its text. Folded text contains neither.
const AFTER_SPEAKER: u8 = 0x1F;
const AFTER_TEXT: u8 = 0x1E;

/// Appends the speakers and texts of turns with folded white space.
///
/// Each run of white space and control characters is one space, and the ends of a text have none.
/// Rows whose results are equal are exact duplicates.
pub(crate) fn fold(turns: &[RowTurn<'_>], folded: &mut Vec<u8>) {
    for turn in turns {
        fold_text(&turn.speaker, folded);
        folded.push(AFTER_SPEAKER);
        fold_text(&turn.text, folded);
        folded.push(AFTER_TEXT);
    }
}

fn fold_text(text: &str, folded: &mut Vec<u8>) {
    let is_space = |character: char| character.is_whitespace() || character.is_control();
    let mut is_first = true;
    for word in text.split(is_space).filter(|word| !word.is_empty()) {
        if !is_first {
            folded.push(b' ');
        }
        is_first = false;
        folded.extend_from_slice(word.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::{each_word, fold};
    use crate::row_turns::RowTurn;

    fn places(text: &str) -> Vec<&str> {
        let mut words = Vec::new();
        each_word(text, |word| words.push(&text[word.start..word.end]));
        words
    }

    fn hashes(text: &str) -> Vec<u64> {
        let mut words = Vec::new();
        each_word(text, |word| words.push(word.hash));
        words
    }

    #[test]
    fn words_are_runs_of_letters_and_digits() {
        assert_eq!(places("Tide, at 06:12?"), ["Tide", "at", "06", "12"]);
        assert_eq!(
            places("snake_case über-all"),
            ["snake", "case", "über", "all"]
        );
        assert_eq!(places("東京 a東"), ["東", "京", "a", "東"]);
        assert_eq!(places(" … "), Vec::<&str>::new());
    }

    #[test]
    fn case_does_not_count() {
        assert_eq!(hashes("TIDE ÜBER"), hashes("tide über"));
        assert_ne!(hashes("ab c"), hashes("a bc"));
    }

    #[test]
    fn folded_text_keeps_turns_apart() {
        let turn = |speaker: &'static str, text: &'static str| RowTurn {
            speaker: speaker.into(),
            text: text.into(),
        };
        let folded = |turns: &[RowTurn<'_>]| {
            let mut bytes = Vec::new();
            fold(turns, &mut bytes);
            bytes
        };
        assert_eq!(
            folded(&[turn("user", " a\n\n b\u{3000}c ")]),
            folded(&[turn("user", "a b\tc")])
        );
        let one = [turn("user", "a\u{1e}user\u{1f}b")];
        assert_ne!(
            folded(&one),
            folded(&[turn("user", "a"), turn("user", "b")])
        );
    }
}
