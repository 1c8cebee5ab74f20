//! Character references: `&amp;`, `&#38;`, `&#x26;`.
//!
//! The rules are those of the HTML standard (§13.2.5.72): names with their semicolon, the 106 old
//! names also without it, numbers in both bases, and the corrections for numbers that are not
//! characters. Each reference costs a bounded amount of work.

use std::borrow::Cow;

/// `NAME HEX [HEX]` on each line, sorted by the bytes of the name.
const NAMES: &str = include_str!("../data/entities.txt");

/// Maximum length of a name.
const MAX_NAME_LEN: usize = 31;

/// Maximum length of a name that is valid without a semicolon.
const MAX_OLD_NAME_LEN: usize = 6;

/// Names that are valid without a semicolon, sorted by bytes.
const OLD: [&str; 106] = [
    "AElig", "AMP", "Aacute", "Acirc", "Agrave", "Aring", "Atilde", "Auml", "COPY", "Ccedil",
    "ETH", "Eacute", "Ecirc", "Egrave", "Euml", "GT", "Iacute", "Icirc", "Igrave", "Iuml", "LT",
    "Ntilde", "Oacute", "Ocirc", "Ograve", "Oslash", "Otilde", "Ouml", "QUOT", "REG", "THORN",
    "Uacute", "Ucirc", "Ugrave", "Uuml", "Yacute", "aacute", "acirc", "acute", "aelig", "agrave",
    "amp", "aring", "atilde", "auml", "brvbar", "ccedil", "cedil", "cent", "copy", "curren", "deg",
    "divide", "eacute", "ecirc", "egrave", "eth", "euml", "frac12", "frac14", "frac34", "gt",
    "iacute", "icirc", "iexcl", "igrave", "iquest", "iuml", "laquo", "lt", "macr", "micro",
    "middot", "nbsp", "not", "ntilde", "oacute", "ocirc", "ograve", "ordf", "ordm", "oslash",
    "otilde", "ouml", "para", "plusmn", "pound", "quot", "raquo", "reg", "sect", "shy", "sup1",
    "sup2", "sup3", "szlig", "thorn", "times", "uacute", "ucirc", "ugrave", "uml", "uuml",
    "yacute", "yen", "yuml",
];

/// The characters of the numbers 0x80 to 0x9F, which are windows-1252 in practice.
const WINDOWS_1252: [char; 32] = [
    '\u{20AC}', '\u{81}', '\u{201A}', '\u{192}', '\u{201E}', '\u{2026}', '\u{2020}', '\u{2021}',
    '\u{2C6}', '\u{2030}', '\u{160}', '\u{2039}', '\u{152}', '\u{8D}', '\u{17D}', '\u{8F}',
    '\u{90}', '\u{2018}', '\u{2019}', '\u{201C}', '\u{201D}', '\u{2022}', '\u{2013}', '\u{2014}',
    '\u{2DC}', '\u{2122}', '\u{161}', '\u{203A}', '\u{153}', '\u{9D}', '\u{17E}', '\u{178}',
];

/// The context of a text; in attributes, old names may belong to queries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntityContext {
    Text,
    Attribute,
}

/// Replaces the character references of a text: `&amp;`, `&#38;`, `&#x26;`.
///
/// The result may contain control characters.
///
/// ```
/// assert_eq!(logue_html::decode_references("1 &lt; 2 &amp; so on"), "1 < 2 & so on");
/// ```
pub fn decode_references(text: &str) -> Cow<'_, str> {
    decode(text, EntityContext::Text)
}

/// Replaces references and normalizes line ends.
pub(crate) fn decode(text: &str, context: EntityContext) -> Cow<'_, str> {
    let special = |byte: u8| byte == b'&' || byte == b'\r';
    let Some(first) = text.bytes().position(special) else {
        return Cow::Borrowed(text);
    };
    let (done, mut rest) = text.split_at(first);
    let mut out = String::with_capacity(text.len());
    out.push_str(done);
    loop {
        let next = rest.bytes().position(special).unwrap_or(rest.len());
        let (plain, marked) = rest.split_at(next);
        out.push_str(plain);
        if let Some(after) = marked.strip_prefix('\r') {
            out.push('\n');
            rest = after.strip_prefix('\n').unwrap_or(after);
        } else if let Some(after) = marked.strip_prefix('&') {
            let used = reference(after, context, &mut out);
            if used == 0 {
                out.push('&');
            }
            rest = after.get(used..).unwrap_or_default();
        } else {
            return Cow::Owned(out);
        }
    }
}

/// Appends the characters of a reference and returns its length.
///
/// `text` begins after the ampersand. The length is 0 without a reference.
fn reference(text: &str, context: EntityContext, out: &mut String) -> usize {
    if let Some(number) = text.strip_prefix('#') {
        return match number.strip_prefix(['x', 'X']) {
            Some(digits) => numeric(digits, 16, 2, out),
            None => numeric(number, 10, 1, out),
        };
    }
    let length = text
        .bytes()
        .take(MAX_NAME_LEN + 1)
        .take_while(u8::is_ascii_alphanumeric)
        .count();
    let name = text.get(..length).unwrap_or_default();
    if text.as_bytes().get(length) == Some(&b';')
        && let Some(value) = value(name)
    {
        push_value(value, out);
        return length + 1;
    }
    for length in (2..=length.min(MAX_OLD_NAME_LEN)).rev() {
        let Some(name) = text.get(..length) else {
            continue;
        };
        if !is_old(name) {
            continue;
        }
        let next = text.as_bytes().get(length);
        let continues = next.is_some_and(|next| next.is_ascii_alphanumeric() || *next == b'=');
        if context == EntityContext::Attribute && continues {
            return 0;
        }
        if let Some(value) = value(name) {
            push_value(value, out);
            // Names with a semicolon are handled above.
            return length;
        }
    }
    0
}

/// Appends the character of a number whose digits begin after `before` bytes.
fn numeric(digits: &str, base: u32, before: usize, out: &mut String) -> usize {
    let mut number = 0_u32;
    let mut length = 0;
    for digit in digits
        .bytes()
        .map_while(|byte| char::from(byte).to_digit(base))
    {
        number = number.saturating_mul(base).saturating_add(digit);
        length += 1;
    }
    if length == 0 {
        return 0;
    }
    let character = match number {
        0 => None,
        0x80..=0x9F => usize::try_from(number - 0x80)
            .ok()
            .and_then(|at| WINDOWS_1252.get(at).copied()),
        _ => char::from_u32(number),
    };
    out.push(character.unwrap_or('\u{FFFD}'));
    let semicolon = usize::from(digits.as_bytes().get(length) == Some(&b';'));
    before + length + semicolon
}

fn is_old(name: &str) -> bool {
    OLD.binary_search(&name).is_ok()
}

fn push_value(value: &str, out: &mut String) {
    let numbers = value.split(' ');
    out.extend(numbers.filter_map(|hex| char::from_u32(u32::from_str_radix(hex, 16).ok()?)));
}

/// Finds a name by binary search.
fn value(name: &str) -> Option<&'static str> {
    let mut table = NAMES;
    while !table.is_empty() {
        let middle = table.len() / 2;
        let start = table
            .as_bytes()
            .get(..middle)?
            .iter()
            .rposition(|byte| *byte == b'\n');
        let start = start.map_or(0, |newline| newline + 1);
        let (before, from) = table.split_at_checked(start)?;
        let (line, after) = from.split_once('\n')?;
        let (found, value) = line.split_once(' ')?;
        match name.as_bytes().cmp(found.as_bytes()) {
            std::cmp::Ordering::Equal => return Some(value),
            std::cmp::Ordering::Less => table = before,
            std::cmp::Ordering::Greater => table = after,
        }
    }
    None
}
