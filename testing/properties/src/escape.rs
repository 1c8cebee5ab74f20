//! Text from outside cannot drive a terminal, hide letters or leave its quotes.
#![expect(
    clippy::expect_used,
    reason = "a property panics where it does not hold"
)]

use logue_source::{
    UntrustedEscaper, escape_json, escape_line, escape_unambiguous, escape_untrusted, quote_words,
};
use serde_json::Value;

/// Letters without a glyph that no output contains.
const HIDDEN: [char; 14] = [
    '\u{1b}',
    '\u{7f}',
    '\u{9b}',
    '\u{ad}',
    '\u{115f}',
    '\u{200b}',
    '\u{2028}',
    '\u{202e}',
    '\u{2060}',
    '\u{2066}',
    '\u{3164}',
    '\u{feff}',
    '\u{e0041}',
    '\u{e0100}',
];

/// The outputs of every escaping function have no hidden letter, are equal for any split of the
/// text, and can be read back where they serve a decision.
pub fn escape(data: &[u8]) {
    let text = &*String::from_utf8_lossy(data);
    let readable = escape_untrusted(text);
    has_no_hidden_letter(&readable);
    assert_eq!(escape_untrusted(&readable), readable);
    let at = text.len() / 2;
    let at = (0..=at)
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0);
    let mut escaper = UntrustedEscaper::default();
    let (start, end) = text.split_at(at);
    let parts = [escaper.escape(start), escaper.escape(end)].concat();
    assert_eq!(parts, readable);

    let line = escape_line(text);
    has_no_hidden_letter(&line);
    assert!(!line.contains('\n'));

    let unambiguous = escape_unambiguous(data);
    has_no_hidden_letter(&unambiguous);
    assert!(!unambiguous.contains('\n'));
    assert_eq!(unescaped(&unambiguous), data);

    let words: Vec<&str> = text.split('\u{1f}').collect();
    let quoted = quote_words(&words);
    has_no_hidden_letter(&quoted);
    assert_eq!(words_of_a_shell(&quoted), words);

    let shown = escape_json(text);
    has_no_hidden_letter(&shown);
    // A carriage return between tokens is shown, and is no JSON then.
    if !text.contains('\r')
        && let Ok(value) = serde_json::from_str::<Value>(text)
    {
        assert_eq!(
            serde_json::from_str::<Value>(&as_json(&shown)).ok(),
            Some(value)
        );
    }
}

fn has_no_hidden_letter(text: &str) {
    assert!(!text.contains(HIDDEN), "{text:?}");
}

/// Reads back what `escape_unambiguous` wrote.
pub(crate) fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let escape = ["\\u{", "\\x{"]
            .iter()
            .find(|start| rest.starts_with(**start));
        if escape.is_none() {
            bytes.extend(character.to_string().bytes());
            rest = &rest[character.len_utf8()..];
            continue;
        }
        let end = rest.find('}').expect("an escape ends");
        let number = u32::from_str_radix(&rest[3..end], 16).expect("an escape has a number");
        if rest.starts_with("\\u{") {
            let character = char::from_u32(number).expect("an escape is a character");
            bytes.extend(character.to_string().bytes());
        } else {
            bytes.push(u8::try_from(number).expect("an escape is a byte"));
        }
        rest = &rest[end + 1..];
    }
    bytes
}

/// Reads back what `quote_words` wrote, as Bash does.
fn words_of_a_shell(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        let mut word = String::new();
        if let Some(quoted) = rest.strip_prefix("$'") {
            let mut letters = quoted.chars();
            loop {
                match letters.next().expect("the quotes are closed") {
                    '\'' => break,
                    '\\' => word.push(escape_of_bash(&mut letters)),
                    letter => word.push(letter),
                }
            }
            rest = letters.as_str();
        } else if let Some(quoted) = rest.strip_prefix('\'') {
            let end = quoted.find('\'').expect("the quotes are closed");
            word.push_str(&quoted[..end]);
            rest = &quoted[end + 1..];
        } else {
            let end = rest.find(' ').unwrap_or(rest.len());
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:=@%+,".contains(&byte);
            assert!(end > 0 && rest[..end].bytes().all(plain), "{line:?}");
            word.push_str(&rest[..end]);
            rest = &rest[end..];
        }
        words.push(word);
        match rest.strip_prefix(' ') {
            Some(next) => rest = next,
            None if rest.is_empty() => return words,
            None => panic!("a word continues after its quotes: {line:?}"),
        }
    }
}

fn escape_of_bash(letters: &mut std::str::Chars<'_>) -> char {
    let digits = match letters.next().expect("an escape has a letter") {
        'n' => return '\n',
        't' => return '\t',
        'r' => return '\r',
        'x' => 2,
        'u' => 4,
        'U' => 8,
        other => return other,
    };
    let number: String = letters.by_ref().take(digits).collect();
    let number = u32::from_str_radix(&number, 16).expect("an escape has a number");
    char::from_u32(number).expect("an escape is a character")
}

/// Writes the escapes `\u{…}` of `escape_json` as those of JSON.
fn as_json(shown: &str) -> String {
    let mut json = String::new();
    let mut rest = shown.chars();
    while let Some(letter) = rest.next() {
        json.push(letter);
        if letter != '\\' {
            continue;
        }
        if !rest.as_str().starts_with("u{") {
            json.extend(rest.next());
            continue;
        }
        let end = rest.as_str().find('}').expect("an escape ends");
        let number = u32::from_str_radix(&rest.as_str()[2..end], 16).expect("a number");
        let character = char::from_u32(number).expect("a character");
        json.pop();
        for unit in character.encode_utf16(&mut [0; 2]) {
            json.push_str(&format!("\\u{unit:04x}"));
        }
        rest = rest.as_str()[end + 1..].chars();
    }
    json
}
