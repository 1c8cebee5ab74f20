//! Untrusted text, made safe to display.
//!
//! Text from a model, a page or a file may contain characters that drive a terminal, reverse the
//! reading order or have no glyph. Both functions write such characters as `\u{…}` and share one
//! table, [`is_hidden`]. They differ in purpose:
//!
//! - [`escape_untrusted`] is for text to read: messages, reports, names. Line breaks, tabs and the
//!   four characters that shape a visible neighbour stay (zero-width joiner and non-joiner, text and
//!   emoji style). It works character by character, so the parts of a stream may be escaped one by
//!   one.
//! - [`escape_unambiguous`] is for text to decide about: the call that a person approves. Two
//!   different inputs never give the same output.

use std::borrow::Cow;

/// Returns `text` with hidden and terminal control characters written as `\u{…}`.
///
/// Newlines, tabs, joiners and the two emoji style selectors stay. Linear in the length of the text;
/// text without hidden characters is borrowed.
///
/// ```
/// use logue_source::escape_untrusted;
///
/// assert_eq!(escape_untrusted("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\n");
/// assert_eq!(escape_untrusted("pay\u{200b}pal"), "pay\\u{200b}pal");
/// assert_eq!(escape_untrusted("❤\u{fe0f}"), "❤\u{fe0f}");
/// ```
pub fn escape_untrusted(text: &str) -> Cow<'_, str> {
    if text.is_ascii() && text.bytes().all(|byte| !byte.is_ascii_control()) {
        return Cow::Borrowed(text);
    }
    let is_escaped = |character: char| {
        is_hidden(character)
            && !matches!(
                character,
                '\n' | '\t' | '\u{200C}' | '\u{200D}' | '\u{FE0E}' | '\u{FE0F}'
            )
    };
    if !text.chars().any(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_escaped(character) {
            escaped.extend(character.escape_unicode());
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

/// Returns text on one line, with every hidden character and invalid byte escaped.
///
/// Only tabs stay. The backslash of a `\u{` or `\x{` in the input is written as `\u{5c}`, so escapes
/// and literal text are distinct, and different inputs have different outputs.
///
/// ```
/// use logue_source::escape_unambiguous;
///
/// assert_eq!(escape_unambiguous("\x1b[2J\n"), "\\u{1b}[2J\\u{a}");
/// assert_eq!(escape_unambiguous(r"\u{1b}"), r"\u{5c}u{1b}");
/// assert_eq!(escape_unambiguous(b"caf\xE9"), r"caf\x{e9}");
/// ```
pub fn escape_unambiguous(text: impl AsRef<[u8]>) -> String {
    let bytes = text.as_ref();
    let mut escaped = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        let mut remaining = chunk.valid();
        for character in chunk.valid().chars() {
            let begins_escape = remaining.starts_with("\\u{") || remaining.starts_with("\\x{");
            if begins_escape || (character != '\t' && is_hidden(character)) {
                escaped.extend(character.escape_unicode());
            } else {
                escaped.push(character);
            }
            remaining = remaining.get(character.len_utf8()..).unwrap_or_default();
        }
        for byte in chunk.invalid() {
            escaped.push_str(&format!("\\x{{{byte:02x}}}"));
        }
    }
    escaped
}

/// Returns the first `limit` characters of a text, and `…` if there are more.
///
/// The excerpt is on one line and escaped by [`escape_untrusted`]; escapes do not count. An invalid
/// byte sequence is shown as U+FFFD. Only the start of the text is read.
///
/// ```
/// use logue_source::excerpt;
///
/// assert_eq!(excerpt("one\ntwo", 10), "one\\u{a}two");
/// assert_eq!(excerpt("a long line", 6), "a long…");
/// ```
pub fn excerpt(text: impl AsRef<[u8]>, limit: usize) -> String {
    let bytes = text.as_ref();
    // A character has at most 4 bytes.
    let start = bytes.get(..limit.saturating_mul(4)).unwrap_or(bytes);
    let text = String::from_utf8_lossy(start);
    let end = text.char_indices().nth(limit).map(|(end, _)| end);
    let kept = end.and_then(|end| text.get(..end)).unwrap_or(&text);
    let mut excerpt = escape_untrusted(kept).replace('\n', "\\u{a}");
    if end.is_some() || start.len() < bytes.len() {
        excerpt.push('…');
    }
    excerpt
}

/// Returns the word of a command, in double quotes unless it is plain.
///
/// `"` and `\` have a backslash before them, and hidden characters are escaped, so the words of a
/// command remain distinct.
///
/// ```
/// use logue_source::quote_word;
///
/// assert_eq!(quote_word("--format=%h"), "--format=%h");
/// assert_eq!(quote_word("two words"), "\"two words\"");
/// ```
pub fn quote_word(word: &str) -> String {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || "_-./:=@%+,".contains(character);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    let mut quoted = String::from("\"");
    for character in word.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            character if is_hidden(character) => quoted.extend(character.escape_unicode()),
            character => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

/// Returns whether a character is a control or has no glyph of its own.
fn is_hidden(character: char) -> bool {
    match character {
        '\u{AD}'
        | '\u{34F}'
        | '\u{61C}'
        | '\u{115F}'
        | '\u{1160}'
        | '\u{17B4}'
        | '\u{17B5}'
        | '\u{180B}'..='\u{180F}'
        | '\u{200B}'..='\u{200F}'
        | '\u{2028}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}'
        | '\u{3164}'
        | '\u{FE00}'..='\u{FE0F}'
        | '\u{FEFF}'
        | '\u{FFA0}'
        | '\u{FFF0}'..='\u{FFFB}'
        | '\u{E0000}'..='\u{E0FFF}' => true,
        other => other.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::{escape_unambiguous, escape_untrusted, excerpt, quote_word};

    #[test]
    fn unambiguous_text_hides_nothing() {
        let table: [(&[u8], &str); 9] = [
            (b"plain \ttext", "plain \ttext"),
            (b"\x1b[2J", "\\u{1b}[2J"),
            (b"\\u{1b}[2J", "\\u{5c}u{1b}[2J"),
            (b"\\x{ff}", "\\u{5c}x{ff}"),
            (b"caf\xE9", "caf\\x{e9}"),
            ("a\u{202e}b\u{200b}".as_bytes(), "a\\u{202e}b\\u{200b}"),
            (b"C:\\users \\\\u", "C:\\users \\\\u"),
            (b"a\r\n", "a\\u{d}\\u{a}"),
            ("❤\u{fe0f}".as_bytes(), "❤\\u{fe0f}"),
        ];
        for (bytes, expected) in table {
            assert_eq!(escape_unambiguous(bytes), expected);
        }
    }

    #[test]
    fn readable_text_keeps_lines_joiners_and_its_own_backslashes() {
        for text in [
            "two\n\tlines",
            r"let smile = '\u{1F600}';",
            "می\u{200c}خواهم",
            "👩\u{200d}🚀 ❤\u{fe0f} ✔\u{fe0e}",
        ] {
            assert_eq!(escape_untrusted(text), text);
        }
        for (text, expected) in [
            ("a\r\nb", "a\\u{d}\nb"),
            ("\u{9b}2J", "\\u{9b}2J"),
            ("a\u{2066}b", "a\\u{2066}b"),
            ("tag\u{e0041}", "tag\\u{e0041}"),
            ("\u{feff}x\u{ad}y", "\\u{feff}x\\u{ad}y"),
        ] {
            assert_eq!(escape_untrusted(text), expected);
        }
    }

    #[test]
    fn excerpts_count_characters_and_escape_the_rest() {
        for (text, limit, expected) in [
            (&b""[..], 3, ""),
            (b"abc", 3, "abc"),
            (b"abcd", 3, "abc…"),
            ("äöüß".as_bytes(), 3, "äöü…"),
            ("🚀🚀🚀🚀".as_bytes(), 3, "🚀🚀🚀…"),
            (b"a\xE9b\xE9c", 4, "a\u{fffd}b\u{fffd}…"),
            (br"'\u{1F600}'", 20, r"'\u{1F600}'"),
            (b"a\nb\tc", 9, "a\\u{a}b\tc"),
            ("\u{202e}\x1bx".as_bytes(), 2, "\\u{202e}\\u{1b}…"),
            (b"abc", 0, "…"),
        ] {
            assert_eq!(excerpt(text, limit), expected);
        }
    }

    #[test]
    fn quoted_words_are_distinct() {
        for (word, expected) in [
            ("git", "git"),
            ("--format=%h", "--format=%h"),
            ("", "\"\""),
            ("two words", "\"two words\""),
            ("a\"b\\c", "\"a\\\"b\\\\c\""),
            ("$(rm)", "\"$(rm)\""),
            ("x\n\u{1b}", "\"x\\n\\u{1b}\""),
        ] {
            assert_eq!(quote_word(word), expected);
        }
    }
}
