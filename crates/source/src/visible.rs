//! Text from outside as a terminal may have it.

use std::borrow::Cow;

/// The text with every character made visible that could drive a terminal or turn the direction of
/// what is read: control characters other than newline and tab, and the bidirectional controls.
///
/// ```
/// use logue_source::visible;
///
/// assert_eq!(visible("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\n");
/// ```
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_hidden(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

fn is_hidden(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        '\u{061C}'
        | '\u{200E}'
        | '\u{200F}'
        | '\u{202A}'..='\u{202E}'
        | '\u{2066}'..='\u{2069}' => true,
        other => other.is_control(),
    }
}
