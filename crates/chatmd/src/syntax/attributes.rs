//! Attributes: their spans in a tag, the decoding of values, and the encoding of values.
//!
//! A tag keeps its attributes as text and parses them on demand. The lexer uses the same scan to
//! find the `>` that ends a tag, so both always agree on the extent of quotes.

use std::borrow::Cow;

use logue_source::Span;
use memchr::{memchr, memchr_iter, memchr2};

use crate::syntax::tag::Tag;
use crate::syntax::whitespace::{is_space, skip_spaces};

/// One attribute of a tag (ChatMD §1.4).
#[derive(Clone, Copy, Debug)]
pub struct Attribute<'t> {
    text: &'t str,
    part: AttributeSpans,
}

impl<'t> Attribute<'t> {
    /// Returns the name, as written.
    pub fn name(&self) -> &'t str {
        self.name_span().text(self.text).unwrap_or_default()
    }

    /// Returns the span of the name.
    pub fn name_span(&self) -> Span {
        self.part.name
    }

    /// Returns whether the attribute has no value, as in `local` or `local=`.
    pub fn is_flag(&self) -> bool {
        self.part.value.is_none()
    }

    /// Returns the value with decoded entities and quotes; empty for a flag.
    pub fn value(&self) -> Cow<'t, str> {
        let Some(value) = self.part.value else {
            return Cow::Borrowed("");
        };
        let raw = value.span.text(self.text).unwrap_or_default();
        match value.quote {
            Some(quote) => decode(raw, quote),
            None => Cow::Borrowed(raw),
        }
    }

    /// Returns the span of the value without its quotes; `None` for a flag.
    pub fn value_span(&self) -> Option<Span> {
        self.part.value.map(|value| value.span)
    }

    /// Returns the span from the name to the closing quote of the value.
    pub fn span(&self) -> Span {
        Span::new(self.part.name.start, self.part.end)
    }

    /// Returns the undecoded value and its quote; `None` for a flag.
    pub(crate) fn written(&self) -> Option<(&'t str, Option<u8>)> {
        let value = self.part.value?;
        Some((value.span.text(self.text).unwrap_or_default(), value.quote))
    }

    /// Returns the span of the value, or of the name for a flag.
    pub fn place(&self) -> Span {
        self.value_span().unwrap_or(self.part.name)
    }
}

/// The attributes of one tag, in order, duplicates included.
#[derive(Clone, Debug)]
pub struct Attributes<'t> {
    text: &'t str,
    at: usize,
    end: usize,
}

impl<'t> Attributes<'t> {
    /// Creates an iterator over the attributes between the name of a tag and its end.
    pub(crate) fn new(text: &'t str, span: Span) -> Self {
        Self {
            text,
            at: span.start,
            end: span.end,
        }
    }
}

impl<'t> Iterator for Attributes<'t> {
    type Item = Attribute<'t>;

    fn next(&mut self) -> Option<Self::Item> {
        let part = next_part(self.text.as_bytes(), &mut self.at, self.end)?;
        Some(Attribute {
            text: self.text,
            part,
        })
    }
}

/// The end of a tag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TagEnd {
    /// Offset after its `>`, or the end of the text.
    pub(crate) end: usize,
    /// Whether it ends in `/>`.
    pub(crate) empty: bool,
    /// Error of the tag.
    pub(crate) problem: Option<TagProblem>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TagProblem {
    /// The quote at this offset is never closed.
    Quote(usize),
    /// There is no `>` outside of quotes.
    Open,
}

/// Finds the end of the recognised tag whose name ends at `name_end`.
///
/// `>` inside quotes is data, but an unclosed quote is also followed by one. A tag with a `>` in a
/// value is accepted only if all its quotes are plausible: after each value follows white space, an
/// attribute or the end of the tag, and no quote and no `<` occurs outside of values. After a value
/// that contains a recognised tag no flag may follow directly, as it would after quoted prose.
/// Otherwise the quote is reported and the tag ends at the `>`, so that the remaining text can be
/// read.
///
/// Linear over all tags, although some bytes are read twice. Text after a reported `>` was inside
/// quotes. For a tag that begins there quoting is inverted: a quote that opens a value for one tag
/// is inside a value, or closes one, for the other. Both scans agree only after a quote that opens
/// nothing, and a tag with such a quote ends at its next `>`. A byte can be outside of quotes or
/// inside either kind; in each of these states it is read once, or twice with such tags.
pub(crate) fn tag_end(bytes: &[u8], name_end: usize) -> TagEnd {
    let end = bytes.len();
    let mut at = name_end;
    let mut stray = false;
    let mut doubtful = None;
    loop {
        let before = at;
        let part = next_part(bytes, &mut at, end);
        let passed_over = Span::new(before, part.map_or(at, |part| part.name.start));
        stray |= passed_over.bytes(bytes).iter().copied().any(is_stray);
        let mut ends_well = true;
        if let Some(value) = part.and_then(|part| part.value) {
            let inside = value.span.bytes(bytes);
            if value.quote.is_none() {
                stray |= inside.iter().copied().any(is_stray);
            } else if let Some(close) = memchr(b'>', inside) {
                doubtful = Some((value.span.start - 1, value.span.start + close));
                ends_well =
                    value.closed && is_plausible_end(bytes, value.span.end + 1, !holds_tag(inside));
            } else if !value.closed {
                ends_well = false;
                doubtful = Some((value.span.start - 1, end));
            }
        }
        if let Some((quote, close)) = doubtful
            && (stray || !ends_well)
        {
            return TagEnd {
                end: (close + 1).min(end),
                empty: close < end && bytes.get(close - 1) == Some(&b'/'),
                problem: Some(TagProblem::Quote(quote)),
            };
        }
        if part.is_none() {
            break;
        }
    }
    if at >= end {
        return TagEnd {
            end,
            empty: false,
            problem: Some(TagProblem::Open),
        };
    }
    TagEnd {
        end: at + 1,
        empty: at > name_end && bytes.get(at - 1) == Some(&b'/'),
        problem: None,
    }
}

/// Returns whether a byte outside of quotes indicates a misplaced quote.
const fn is_stray(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'<')
}

/// Returns whether the quote after a value with a `>` plausibly closes it.
///
/// It could also be the opening quote of a later tag or of prose. White space, `/`, the end of the
/// tag or another attribute must follow. That attribute may be a flag only if `flags` is set.
fn is_plausible_end(bytes: &[u8], after: usize, flags: bool) -> bool {
    let rest = bytes.get(after..).unwrap_or_default();
    let name = rest.iter().take_while(|byte| is_name(**byte)).count();
    match rest.get(name) {
        Some(b'=') => name > 0,
        Some(&byte) => (name == 0 || flags) && (is_space(byte) || matches!(byte, b'/' | b'>')),
        None => false,
    }
}

/// Returns whether a value contains a recognised opening or closing tag.
fn holds_tag(value: &[u8]) -> bool {
    memchr_iter(b'<', value).any(|at| {
        let name = at + 1 + usize::from(value.get(at + 1) == Some(&b'/'));
        let end = Tag::at(value, name).and_then(|(_, end)| value.get(end));
        end.is_some_and(|&byte| is_space(byte) || matches!(byte, b'/' | b'>'))
    })
}

#[derive(Clone, Copy, Debug)]
struct AttributeSpans {
    name: Span,
    value: Option<Value>,
    /// Offset after the closing quote, the value, the `=` without a value, or the name.
    end: usize,
}

#[derive(Clone, Copy, Debug)]
struct Value {
    span: Span,
    quote: Option<u8>,
    closed: bool,
}

/// Parses the next attribute in `bytes[*at..end]`, up to the `>` of the tag.
///
/// Skips bytes that cannot be a part of an attribute.
fn next_part(bytes: &[u8], at: &mut usize, end: usize) -> Option<AttributeSpans> {
    let bytes = bytes.get(..end)?;
    let name_start = loop {
        match bytes.get(*at)? {
            b'>' => return None,
            &byte if is_name(byte) => break *at,
            _ => *at += 1,
        }
    };
    while bytes.get(*at).copied().is_some_and(is_name) {
        *at += 1;
    }
    let name = Span::new(name_start, *at);
    let equals = skip_spaces(bytes, *at, end);
    if bytes.get(equals) != Some(&b'=') {
        return Some(AttributeSpans {
            name,
            value: None,
            end: name.end,
        });
    }
    let start = skip_spaces(bytes, equals + 1, end);
    *at = start;
    let value = match bytes.get(start) {
        None | Some(b'>') => None,
        Some(&quote @ (b'"' | b'\'')) => {
            let close = closing_quote(bytes, start + 1, quote);
            *at = close.map_or(end, |close| close + 1);
            Some(Value {
                span: Span::new(start + 1, close.unwrap_or(end)),
                quote: Some(quote),
                closed: close.is_some(),
            })
        }
        Some(_) => {
            while bytes
                .get(*at)
                .is_some_and(|&byte| byte != b'>' && !is_space(byte))
            {
                *at += 1;
            }
            Some(Value {
                span: Span::new(start, *at),
                quote: None,
                closed: true,
            })
        }
    };
    let end = match value {
        Some(_) => *at,
        None => equals + 1,
    };
    Some(AttributeSpans { name, value, end })
}

const fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':' | b'-')
}

/// Returns the first `quote` at or after `start` without a preceding backslash.
fn closing_quote(bytes: &[u8], start: usize, quote: u8) -> Option<usize> {
    let mut at = start;
    loop {
        let found = at + memchr(quote, bytes.get(at..)?)?;
        if found == start || bytes.get(found - 1) != Some(&b'\\') {
            return Some(found);
        }
        at = found + 1;
    }
}

/// Entities and their characters.
///
/// `&#92;` is the only way to end a value in a backslash.
const ENTITIES: [(&str, char); 6] = [
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("#92", '\\'),
];

/// Returns whether a value decodes equally between both kinds of quotes.
pub(crate) fn fits_double_quotes(raw: &str) -> bool {
    !raw.contains('"') && decode(raw, b'"') == decode(raw, b'\'')
}

/// Decodes a quoted value.
///
/// The name of an entity extends to the next `;`, so an unknown entity hides a known one inside it.
fn decode(raw: &str, quote: u8) -> Cow<'_, str> {
    let bytes = raw.as_bytes();
    let Some(first) = memchr2(b'&', b'\\', bytes) else {
        return Cow::Borrowed(raw);
    };
    let mut decoded = String::with_capacity(raw.len());
    let mut copied = 0;
    let mut at = first;
    let mut literal_until = 0;
    loop {
        let mut next = at + 1;
        if bytes.get(at) == Some(&b'\\') {
            if bytes.get(next) == Some(&quote) {
                decoded.push_str(raw.get(copied..at).unwrap_or_default());
                copied = next;
                next += 1;
            }
        } else if at >= literal_until {
            match bytes.get(next..).and_then(|rest| memchr(b';', rest)) {
                None => literal_until = bytes.len(),
                Some(length) => {
                    let name = raw.get(next..next + length).unwrap_or_default();
                    if let Some((_, character)) = ENTITIES.iter().find(|entry| entry.0 == name) {
                        decoded.push_str(raw.get(copied..at).unwrap_or_default());
                        decoded.push(*character);
                        copied = next + length + 1;
                        next = copied;
                    } else {
                        literal_until = next + length + 1;
                    }
                }
            }
        }
        let rest = bytes.get(next..).unwrap_or_default();
        match memchr2(b'&', b'\\', rest) {
            Some(found) => at = next + found,
            None => break,
        }
    }
    decoded.push_str(raw.get(copied..).unwrap_or_default());
    Cow::Owned(decoded)
}

/// Returns whether `name` is a valid attribute name.
pub(crate) fn is_attribute_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(is_name)
}

/// Appends ` name="value"`, escaped so that it decodes to `value`.
pub(crate) fn write_attribute(out: &mut String, name: &str, value: &str) {
    out.push(' ');
    out.push_str(name);
    out.push('=');
    write_value(out, value);
}

/// Appends a value in double quotes, escaped so that it decodes to `value`.
pub(crate) fn write_value(out: &mut String, value: &str) {
    out.push('"');
    for (at, character) in value.char_indices() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // Before the closing quote a backslash would escape it.
            '\\' if at + 1 == value.len() => out.push_str("&#92;"),
            other => out.push(other),
        }
    }
    out.push('"');
}
