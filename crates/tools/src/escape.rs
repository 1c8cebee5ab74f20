//! What came from a model, a page or a file as a person may be shown it: a terminal is not driven by
//! it, nothing in it is hidden, and two different things never look the same.

/// Appends bytes with everything made visible that a reader could not see, or that could drive what
/// it is shown on: control characters other than tab, characters without width, bidirectional
/// controls and what is no UTF-8. `\u{` and `\x{` of the text itself get their backslash written
/// out, so what was there can be told from what stands for something.
///
/// Line breaks are made visible too: who shows several lines splits them first.
pub(crate) fn show(bytes: &[u8], out: &mut String) {
    for chunk in bytes.utf8_chunks() {
        let mut rest = chunk.valid();
        for character in chunk.valid().chars() {
            let begins_escape = rest.starts_with("\\u{") || rest.starts_with("\\x{");
            if is_hidden(character) || begins_escape {
                out.extend(character.escape_unicode());
            } else {
                out.push(character);
            }
            rest = rest.get(character.len_utf8()..).unwrap_or_default();
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{{{byte:02x}}}"));
        }
    }
}

/// Text on one line, as [`show`] shows it.
pub(crate) fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    show(text.as_bytes(), &mut out);
    out
}

/// A word so that the words of a command can be told apart: as it is if it is plain, else in double
/// quotes with `"` and `\` behind a backslash.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || "_-./:=@%+,".contains(character);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    let mut out = String::from("\"");
    for character in word.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            character if is_hidden(character) => out.extend(character.escape_unicode()),
            character => out.push(character),
        }
    }
    out.push('"');
    out
}

fn is_hidden(character: char) -> bool {
    match character {
        '\t' => false,
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
    use super::{quoted, show, shown};

    #[test]
    fn nothing_is_hidden_and_nothing_looks_like_something_else() {
        let table: [(&[u8], &str); 8] = [
            (b"plain \ttext", "plain \ttext"),
            (b"\x1b[2J", "\\u{1b}[2J"),
            (b"\\u{1b}[2J", "\\u{5c}u{1b}[2J"),
            (b"\\x{ff}", "\\u{5c}x{ff}"),
            (b"caf\xE9", "caf\\x{e9}"),
            ("a\u{202e}b\u{200b}".as_bytes(), "a\\u{202e}b\\u{200b}"),
            (b"C:\\users \\\\u", "C:\\users \\\\u"),
            (b"a\r\n", "a\\u{d}\\u{a}"),
        ];
        for (bytes, expected) in table {
            let mut out = String::new();
            show(bytes, &mut out);
            assert_eq!(out, expected);
        }
        assert_eq!(shown("a\nb"), "a\\u{a}b");
    }

    #[test]
    fn words_can_be_told_apart() {
        for (word, expected) in [
            ("git", "git"),
            ("--format=%h", "--format=%h"),
            ("", "\"\""),
            ("two words", "\"two words\""),
            ("a\"b\\c", "\"a\\\"b\\\\c\""),
            ("$(rm)", "\"$(rm)\""),
            ("x\n\u{1b}", "\"x\\n\\u{1b}\""),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }
}
