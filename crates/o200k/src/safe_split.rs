//! Positions at which a text can be cut before encoding.
//!
//! The end of a piece depends on the text after it, so at most positions the two parts have other
//! tokens than the complete text. Two kinds of position always end a piece: after a line end, unless
//! white space or a slash follows, and before a space between two letters. No name of a special
//! contains either.

/// Returns the last safe chunk boundary of a text.
///
/// The tokens of both parts, concatenated, equal those of the complete text, with specials or
/// without. Use it for texts that are too long for memory or still arriving. Returns `None` for a text
/// without such a position; a text with lines or words has many. Linear in the distance from the end.
///
/// ```
/// use logue_o200k::{encode, safe_split};
///
/// let text = "It began as a mistake.\nThen it";
/// let (left, right) = text.split_at(safe_split(text).unwrap());
/// assert_eq!((left, right), ("It began as a mistake.\nThen", " it"));
/// assert_eq!([encode(left), encode(right)].concat(), encode(text));
///
/// assert_eq!(safe_split("Donaudampfschifffahrt"), None);
/// ```
pub fn safe_split(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let ends = bytes.windows(3).rposition(|window| {
        let [before, at, after] = window else {
            return false;
        };
        let line = *at == b'\n' && after.is_ascii_graphic() && *after != b'/';
        let word = before.is_ascii_alphabetic() && *at == b' ' && after.is_ascii_alphabetic();
        line || word
    });
    let before = ends?;
    let at = before + 1;
    Some(if bytes.get(at) == Some(&b'\n') {
        at + 1
    } else {
        at
    })
}
