//! White space: six ASCII characters, in tags and in text alike.

/// Returns whether a byte is white space.
pub(crate) const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0B | 0x0C)
}

/// Returns whether a text consists of white space.
pub(crate) fn is_blank(text: &str) -> bool {
    text.bytes().all(is_space)
}

/// Returns the first offset from `at` on without white space, at most `end`.
pub(crate) fn skip_spaces(bytes: &[u8], mut at: usize, end: usize) -> usize {
    while at < end && bytes.get(at).copied().is_some_and(is_space) {
        at += 1;
    }
    at
}

/// Removes white space at the start.
pub(crate) fn trim_start(text: &str) -> &str {
    text.trim_start_matches(is_space_character)
}

/// Removes white space at the end.
pub(crate) fn trim_end(text: &str) -> &str {
    text.trim_end_matches(is_space_character)
}

/// Removes white space at both ends.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches(is_space_character)
}

fn is_space_character(character: char) -> bool {
    u8::try_from(character).is_ok_and(is_space)
}
