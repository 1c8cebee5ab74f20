//! Places where a text may be cut before it is encoded.
//!
//! A piece of a text ends where what follows says so, so most places will not do: encoded alone,
//! the two parts have other tokens than the whole. Two kinds of place are always the end of a
//! piece, whatever stands around them: behind a line end that neither white space nor a slash
//! follows, and before a space between two letters. No special's name has either in it.

/// The last place in `text` where it may be cut: the tokens of both parts, one after the other,
/// are those of the whole, with specials or without. For texts that are too long to hold, or that
/// have yet to come.
///
/// Nothing if no such place is known; a text with lines or words has many. The time is that of
/// looking at the text from its end to the place.
///
/// ```
/// use logue_o200k::{encode, split_point};
///
/// let text = "It began as a mistake.\nThen it";
/// let (left, right) = text.split_at(split_point(text).unwrap());
/// assert_eq!((left, right), ("It began as a mistake.\nThen", " it"));
/// assert_eq!([encode(left), encode(right)].concat(), encode(text));
///
/// assert_eq!(split_point("Donaudampfschifffahrt"), None);
/// ```
pub fn split_point(text: &str) -> Option<usize> {
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
