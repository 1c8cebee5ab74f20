//! JSON as a person reads it before a decision.

use crate::escape_unambiguous;
use crate::hidden::is_deceptive;

/// Returns JSON with its strings decoded and every hidden character escaped.
///
/// `"\u0072m"` is shown as `"rm"`, and an invisible character as `\u{…}` however the JSON spells it.
/// Quotes, backslashes and line breaks of a string have a backslash before them, so that no string
/// can close its quotes. Numbers, the order of fields and repeated fields stay. Text that is not
/// JSON is escaped.
///
/// ```
/// use logue_source::escape_json;
///
/// assert_eq!(escape_json(r#"{"run": "\u0072m \u202e"}"#), r#"{"run": "rm \u{202e}"}"#);
/// ```
pub fn escape_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    let mut rest = json;
    while let Some((before, string)) = rest.find('"').and_then(|at| rest.split_at_checked(at)) {
        structure(before, &mut shown);
        let end = string_end(string);
        let (string, after) = string
            .split_at_checked(end.unwrap_or(string.len()))
            .unwrap_or((string, ""));
        decode(string, end.is_some(), &mut shown);
        rest = after;
    }
    structure(rest, &mut shown);
    shown
}

/// Appends text between strings; line breaks stay.
fn structure(text: &str, shown: &mut String) {
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            shown.push('\n');
        }
        shown.push_str(&escape_unambiguous(line));
    }
}

/// Returns the offset after the quote that closes the string at the start.
fn string_end(text: &str) -> Option<usize> {
    let mut is_escaped = true;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Appends a string with its quotes.
fn decode(string: &str, is_closed: bool, shown: &mut String) {
    let content = string.strip_prefix('"').unwrap_or(string);
    let content = content
        .strip_suffix('"')
        .filter(|_| is_closed)
        .unwrap_or(content);
    shown.push('"');
    let mut rest = content.chars();
    while let Some(character) = rest.next() {
        if character != '\\' {
            push(character, shown);
            continue;
        }
        match rest.next() {
            Some('n') => push('\n', shown),
            Some('t') => push('\t', shown),
            Some('r') => push('\r', shown),
            Some('b') => push('\u{8}', shown),
            Some('f') => push('\u{c}', shown),
            Some('u') => match code_point(&mut rest) {
                Ok(character) => push(character, shown),
                Err(literal) => shown.push_str(&literal),
            },
            Some(other) => push(other, shown),
            None => shown.push('\\'),
        }
    }
    if is_closed {
        shown.push('"');
    }
}

/// Reads the digits after `\u`, and the second half of a surrogate pair.
///
/// Returns the escape as it is written if it is not a character.
fn code_point(rest: &mut std::str::Chars<'_>) -> Result<char, String> {
    let Some(first) = unit(rest.as_str()) else {
        return Err("\\\\u".to_owned());
    };
    *rest = rest.as_str().get(4..).unwrap_or_default().chars();
    if let Some(character) = char::from_u32(first) {
        return Ok(character);
    }
    let second = rest.as_str().strip_prefix("\\u").and_then(unit);
    let pair = second
        .filter(|second| first < 0xDC00 && (0xDC00..0xE000).contains(second))
        .and_then(|second| char::from_u32(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)));
    match pair {
        Some(character) => {
            *rest = rest.as_str().get(6..).unwrap_or_default().chars();
            Ok(character)
        }
        None => Err(format!("\\u{first:04x}")),
    }
}

/// Returns the number of four hexadecimal digits at the start.
fn unit(text: &str) -> Option<u32> {
    let digits = text.get(..4)?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u32::from_str_radix(digits, 16).ok().filter(|_| is_number)
}

fn push(character: char, shown: &mut String) {
    match character {
        '"' | '\\' => shown.extend(['\\', character]),
        '\n' => shown.push_str("\\n"),
        '\t' => shown.push_str("\\t"),
        '\r' => shown.push_str("\\r"),
        other if is_deceptive(other) => shown.extend(other.escape_unicode()),
        other => shown.push(other),
    }
}

#[cfg(test)]
mod tests {
    use super::escape_json;

    #[test]
    fn strings_are_decoded_and_stay_closed() {
        for (json, expected) in [
            ("", ""),
            ("{\"n\": 1.50,\n \"n\": 2}", "{\"n\": 1.50,\n \"n\": 2}"),
            (r#""\u0072\u006D""#, r#""rm""#),
            (r#""\u202e""#, r#""\u{202e}""#),
            ("\"\u{202e}\"", r#""\u{202e}""#),
            (r#""\\u202e""#, r#""\\u202e""#),
            (r#""a\"b\\""#, r#""a\"b\\""#),
            (r#""\u0022, \u005c""#, r#""\", \\""#),
            (r#""\n\u000a\t\u001b\/""#, r#""\n\n\t\u{1b}/""#),
            (r#""\ud83d\ude80 \ud83d""#, "\"🚀 \\ud83d\""),
            (r#""\udb40\udc41""#, r#""\u{e0041}""#),
            (r#""\u12""#, r#""\\u12""#),
            (r#""open\""#, r#""open\""#),
            (r#""\u00a0""#, r#""\u{a0}""#),
            ("not \u{200b}json", "not \\u{200b}json"),
            ("\"open \u{feff}", "\"open \\u{feff}"),
            ("\"ends in \\", "\"ends in \\"),
            ("\"", "\""),
        ] {
            assert_eq!(escape_json(json), expected, "{json}");
        }
    }
}
