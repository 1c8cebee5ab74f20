//! Argument vectors as the words of a shell.

use crate::hidden::is_deceptive;

/// Returns the words of a command, each quoted by [`quote_word`], with a space between them.
///
/// ```
/// use logue_source::quote_words;
///
/// assert_eq!(quote_words(["sh", "-c", "rm -rf $HOME"]), "sh -c 'rm -rf $HOME'");
/// ```
pub fn quote_words<W: AsRef<str>>(words: impl IntoIterator<Item = W>) -> String {
    let quoted = words.into_iter().map(|word| quote_word(word.as_ref()));
    quoted.collect::<Vec<_>>().join(" ")
}

/// Returns the word of a command as a shell reads it.
///
/// A plain word stays. Other words are in single quotes. A word with a single quote or with
/// characters that cannot be seen is written as `$'…'` of Bash, in which `'` and `\` have a backslash
/// before them. No word can close its quotes, and different words have different outputs.
///
/// ```
/// use logue_source::quote_word;
///
/// assert_eq!(quote_word("--format=%h"), "--format=%h");
/// assert_eq!(quote_word("two words"), "'two words'");
/// assert_eq!(quote_word("it's"), r"$'it\'s'");
/// assert_eq!(quote_word("a\u{202e}b"), r"$'a\u202eb'");
/// ```
pub fn quote_word(word: &str) -> String {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || "_-./:=@%+,".contains(character);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    if !word.contains('\'') && !word.contains(is_deceptive) {
        return format!("'{word}'");
    }
    let mut quoted = String::from("$'");
    for character in word.chars() {
        match character {
            '\'' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            other if !is_deceptive(other) => quoted.push(other),
            other if u32::from(other) < 0x80 => {
                quoted.push_str(&format!("\\x{:02x}", u32::from(other)));
            }
            other if u32::from(other) <= 0xFFFF => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(other)));
            }
            other => quoted.push_str(&format!("\\U{:08x}", u32::from(other))),
        }
    }
    quoted.push('\'');
    quoted
}

#[cfg(test)]
mod tests {
    use super::{quote_word, quote_words};

    #[test]
    fn quoted_words_are_distinct_and_closed() {
        for (word, expected) in [
            ("git", "git"),
            ("--format=%h", "--format=%h"),
            ("", "''"),
            ("two words", "'two words'"),
            ("a\"b\\c", "'a\"b\\c'"),
            ("$(rm)", "'$(rm)'"),
            ("a`b", "'a`b'"),
            ("' …` in /", "$'\\' …` in /'"),
            ("\\'", "$'\\\\\\''"),
            ("x\n\u{1b}", "$'x\\n\\x1b'"),
            ("no\u{a0}space", "$'no\\u00a0space'"),
            ("tag\u{e0041}", "$'tag\\U000e0041'"),
            ("caf\u{e9}", "'caf\u{e9}'"),
        ] {
            assert_eq!(quote_word(word), expected);
        }
        assert_eq!(quote_words(["a", "b c", ""]), "a 'b c' ''");
    }
}
