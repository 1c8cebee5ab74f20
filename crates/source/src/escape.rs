//! Untrusted text, made safe to display.
//!
//! Text from a model, a page or a file may contain characters that drive a terminal, reverse the
//! reading order or have no glyph. All functions write such characters as `\u{…}` and share one
//! table, `is_hidden`. They differ in purpose:
//!
//! - [`escape_untrusted`] is for text to read: messages, reports, answers of a model. Line breaks and
//!   tabs stay. A joiner or an emoji style selector stays only directly after a character that it
//!   shapes: a style selector after an emoji or the base of a keycap, the zero-width joiner after an
//!   emoji or a letter of a script whose letters join, the zero-width non-joiner after such a letter.
//!   At most one of them follows a character, so none of them can carry hidden text.
//! - [`UntrustedEscaper`] does the same for text that arrives in parts.
//! - [`escape_line`] is for names: it escapes line breaks and tabs too.
//! - [`escape_unambiguous`] is for text to decide about: the call that a person approves. Two
//!   different inputs never give the same output, and blanks other than a space are escaped.

use std::borrow::Cow;

use crate::hidden::{Neighbor, is_deceptive, is_hidden};

/// Returns `text` with hidden and terminal control characters written as `\u{…}`.
///
/// Newlines and tabs stay, and so do joiners and style selectors after a character that they shape.
/// Linear in the length of the text; text without hidden characters is borrowed.
///
/// ```
/// use logue_source::escape_untrusted;
///
/// assert_eq!(escape_untrusted("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\n");
/// assert_eq!(escape_untrusted("pay\u{200b}pal"), "pay\\u{200b}pal");
/// assert_eq!(escape_untrusted("❤\u{fe0f}"), "❤\u{fe0f}");
/// assert_eq!(escape_untrusted("a\u{fe0f}"), "a\\u{fe0f}");
/// ```
pub fn escape_untrusted(text: &str) -> Cow<'_, str> {
    UntrustedEscaper::default().escape(text)
}

/// Escapes text that arrives in parts, by the rules of [`escape_untrusted`].
///
/// Any split of a text gives the same output.
///
/// ```
/// use logue_source::UntrustedEscaper;
///
/// let mut escaper = UntrustedEscaper::default();
/// assert_eq!(escaper.escape("👩"), "👩");
/// assert_eq!(escaper.escape("\u{200d}🚀"), "\u{200d}🚀");
/// ```
#[derive(Clone, Debug, Default)]
pub struct UntrustedEscaper {
    /// The last character of the text so far.
    last: Neighbor,
}

impl UntrustedEscaper {
    /// Escapes the next part.
    pub fn escape<'t>(&mut self, part: &'t str) -> Cow<'t, str> {
        if part.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            self.last = part.chars().last().map_or(self.last, Neighbor::of);
            return Cow::Borrowed(part);
        }
        let mut escaped: Option<String> = None;
        for (at, character) in part.char_indices() {
            let is_kept = self.keeps(character);
            match &mut escaped {
                Some(escaped) if is_kept => escaped.push(character),
                Some(escaped) => escaped.extend(character.escape_unicode()),
                None if is_kept => {}
                None => {
                    let mut before = part.get(..at).unwrap_or_default().to_owned();
                    before.extend(character.escape_unicode());
                    escaped = Some(before);
                }
            }
        }
        escaped.map_or(Cow::Borrowed(part), Cow::Owned)
    }

    /// Returns whether the next character stays.
    fn keeps(&mut self, character: char) -> bool {
        let (is_kept, last) = match (character, self.last) {
            ('\n' | '\t', _)
            | ('\u{200C}' | '\u{200D}', Neighbor::Letter)
            | ('\u{200D}', Neighbor::Emoji | Neighbor::StyledEmoji)
            | ('\u{FE0E}' | '\u{FE0F}', Neighbor::Keycap) => (true, Neighbor::Other),
            ('\u{FE0E}' | '\u{FE0F}', Neighbor::Emoji) => (true, Neighbor::StyledEmoji),
            _ if is_hidden(character) => (false, Neighbor::Other),
            _ => (true, Neighbor::of(character)),
        };
        self.last = last;
        is_kept
    }
}

/// Returns a name on one line: as [`escape_untrusted`], with line breaks and tabs escaped.
///
/// ```
/// use logue_source::escape_line;
///
/// assert_eq!(escape_line("a.md\ntrusted"), "a.md\\u{a}trusted");
/// ```
pub fn escape_line(text: &str) -> Cow<'_, str> {
    let escaped = escape_untrusted(text);
    if escaped.contains(['\n', '\t']) {
        let escaped = escaped.replace('\n', "\\u{a}").replace('\t', "\\u{9}");
        return Cow::Owned(escaped);
    }
    escaped
}

/// Returns text on one line, with every hidden character and invalid byte escaped.
///
/// Only tabs stay; blanks that look like a space are escaped. The backslash of a `\u{` or `\x{` in the input is written as `\u{5c}`, so escapes
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
            if begins_escape || (character != '\t' && is_deceptive(character)) {
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

/// Longest word that [`whole_words`] leaves out, in bytes.
const MAX_CUT_WORD: usize = 4096;

/// The length of a cut text up to its last whole word.
///
/// A word consists of ASCII letters, digits and `_-./+=~`, as keys and tokens do: a part of one
/// would not be found by a pattern for all of it. A longer word than 4,096 bytes stays cut.
///
/// ```
/// assert_eq!(logue_source::whole_words(b"the key is sk-ABC"), 11);
/// assert_eq!(logue_source::whole_words(b"sk-ABC"), 0);
/// ```
pub fn whole_words(text: &[u8]) -> usize {
    let is_inside = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-./+=~".contains(byte);
    let cut = text.iter().rev().take_while(|byte| is_inside(byte)).count();
    if cut > MAX_CUT_WORD {
        return text.len();
    }
    text.len() - cut
}

#[cfg(test)]
mod tests {
    use super::{
        UntrustedEscaper, escape_line, escape_unambiguous, escape_untrusted, excerpt, whole_words,
    };

    #[test]
    fn a_cut_word_is_left_out() {
        for (text, length) in [
            ("", 0),
            ("a b", 2),
            ("{\"k\":\"eyJh.b", 6),
            ("é", 2),
            (&"x".repeat(4096), 0),
            (&"x".repeat(4097), 4097),
        ] {
            assert_eq!(whole_words(text.as_bytes()), length, "{text}");
        }
    }
    use crate::{escape_json, quote_word};

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
    fn joiners_and_selectors_stay_where_they_shape_a_character() {
        for (text, expected) in [
            ("1\u{fe0f}\u{20e3}", "1\u{fe0f}\u{20e3}"),
            ("👍🏽\u{200d}", "👍🏽\u{200d}"),
            ("❤\u{fe0f}\u{200d}🔥", "❤\u{fe0f}\u{200d}🔥"),
            ("pay\u{200c}pal", "pay\\u{200c}pal"),
            ("pay\u{200d}pal", "pay\\u{200d}pal"),
            ("❤\u{fe0f}\u{fe0f}\u{fe0e}", "❤\u{fe0f}\\u{fe0f}\\u{fe0e}"),
            ("👩\u{200d}\u{200d}", "👩\u{200d}\\u{200d}"),
            ("👩\u{200c}", "👩\\u{200c}"),
            ("می\u{200c}\u{200c}", "می\u{200c}\\u{200c}"),
            ("\u{200d}", "\\u{200d}"),
        ] {
            assert_eq!(escape_untrusted(text), expected);
        }
    }

    #[test]
    fn parts_of_a_text_are_escaped_like_the_whole() {
        let text = "a\u{1b}[1m 👩\u{200d}🚀 ❤\u{fe0f} می\u{200c}خ x\u{200d}y 1\u{fe0f}\u{20e3}\n";
        let whole = escape_untrusted(text);
        for (at, _) in text.char_indices() {
            let mut escaper = UntrustedEscaper::default();
            let (start, end) = text.split_at(at);
            let parts = [escaper.escape(start), escaper.escape(end)].concat();
            assert_eq!(parts, whole, "split at {at}");
        }
    }

    #[test]
    fn letters_without_a_glyph_are_shown() {
        for hidden in [
            '\u{ad}',
            '\u{34f}',
            '\u{61c}',
            '\u{115f}',
            '\u{1160}',
            '\u{17b4}',
            '\u{180b}',
            '\u{180e}',
            '\u{200b}',
            '\u{200e}',
            '\u{200f}',
            '\u{2028}',
            '\u{2029}',
            '\u{202a}',
            '\u{202e}',
            '\u{2060}',
            '\u{2066}',
            '\u{206f}',
            '\u{2800}',
            '\u{3164}',
            '\u{fe00}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{ffa0}',
            '\u{fff9}',
            '\u{13430}',
            '\u{1bca0}',
            '\u{1d173}',
            '\u{e0001}',
            '\u{e0041}',
            '\u{e007f}',
            '\u{e0100}',
            '\u{e01ef}',
            '\u{1b}',
            '\u{7f}',
            '\u{9b}',
        ] {
            let text = format!("a{hidden}b");
            let expected = format!("a{}b", hidden.escape_unicode());
            assert_eq!(escape_untrusted(&text), expected);
            assert_eq!(escape_line(&text), expected);
            assert_eq!(escape_unambiguous(&text), expected);
            assert_eq!(excerpt(&text, 9), expected);
            assert!(!quote_word(&text).contains(hidden), "{expected}");
            assert!(
                !escape_json(&format!("\"{text}\"")).contains(hidden),
                "{expected}"
            );
        }
        for blank in ['\u{a0}', '\u{2003}', '\u{202f}', '\u{3000}'] {
            assert_eq!(
                escape_unambiguous(blank.to_string()),
                blank.escape_unicode().to_string()
            );
        }
    }
}
