//! The tokenizer: splits HTML into tags and text, without a tree.
//!
//! It follows the states of the HTML standard (§13.2.5) that determine where text and tags begin and
//! end. Every byte is read a bounded number of times and nothing is stored: a tag refers to the text
//! of its attributes and parses them on demand. One tag with a million attributes, an endless
//! comment and a million tags all cost the same per byte.
//!
//! Comments, declarations and processing instructions are skipped.

use std::borrow::Cow;

use crate::entity::{self, EntityContext};

/// A token of HTML.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Token<'a> {
    /// Characters, with their references decoded.
    Text(Cow<'a, str>),
    /// `<name …>`.
    Start(Tag<'a>),
    /// `</name>`.
    End(Tag<'a>),
}

/// A tag as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag<'a> {
    name: &'a str,
    attributes: &'a str,
    self_closing: bool,
}

impl<'a> Tag<'a> {
    /// Returns the name in lower case.
    pub fn name(&self) -> Cow<'a, str> {
        lower(self.name)
    }

    /// Returns whether the tag ends in `/>`.
    pub fn is_self_closing(&self) -> bool {
        self.self_closing
    }

    /// Returns the attributes in order, with names in lower case and decoded values.
    ///
    /// A repeated name is repeated here; the first one counts.
    pub fn attributes(&self) -> Attributes<'a> {
        Attributes {
            rest: self.attributes,
        }
    }

    /// Returns the value of an attribute by its name in lower case.
    ///
    /// The value is empty for an attribute without one. Linear in the length of the tag.
    pub fn attribute(&self, name: &str) -> Option<Cow<'a, str>> {
        let mut attributes = self.attributes();
        while let Some((found, value)) = attributes.raw() {
            if found.eq_ignore_ascii_case(name) {
                return Some(decode_value(value));
            }
        }
        None
    }
}

/// The attributes of a [`Tag`].
#[derive(Clone, Debug)]
pub struct Attributes<'a> {
    rest: &'a str,
}

impl<'a> Attributes<'a> {
    fn raw(&mut self) -> Option<(&'a str, &'a str)> {
        match attribute(self.rest) {
            Part::Attribute { name, value, rest } => {
                self.rest = rest;
                Some((name, value))
            }
            Part::End { .. } | Part::Broken => None,
        }
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (Cow<'a, str>, Cow<'a, str>);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, value) = self.raw()?;
        Some((without_nul(lower(name)), decode_value(value)))
    }
}

/// The content of elements without nested tags.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Raw {
    /// References are not decoded.
    Verbatim,
    /// References are decoded.
    Decoded,
    /// There is no end tag.
    Plain,
}

/// An iterator over the tokens of HTML, created by [`tokens`].
#[derive(Clone, Debug)]
pub struct Tokens<'a> {
    rest: &'a str,
    /// The element whose raw content follows.
    raw: Option<(&'a str, bool)>,
    plain: bool,
    /// The nesting depth in `<svg>` or `<math>`, where `/>` closes an element.
    foreign: usize,
}

/// Splits HTML into tokens, in linear time and constant memory.
///
/// The content of `script`, `style`, `noscript`, `iframe`, `noembed`, `noframes` and `xmp` is one text
/// that is not decoded; the content of `title` and `textarea` is one text that is.
///
/// ```
/// use logue_html::{tokens, Token};
///
/// let mut found = tokens("<p class=x>a &amp; b");
/// let Some(Token::Start(tag)) = found.next() else { panic!() };
/// assert_eq!(tag.attribute("class").as_deref(), Some("x"));
/// assert_eq!(found.next(), Some(Token::Text("a & b".into())));
/// assert_eq!(found.next(), None);
/// ```
pub fn tokens(html: &str) -> Tokens<'_> {
    Tokens {
        rest: html.strip_prefix('\u{FEFF}').unwrap_or(html),
        raw: None,
        plain: false,
        foreign: 0,
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        if let Some((name, decoded)) = self.raw.take() {
            let end = raw_end(self.rest, name);
            let (text, rest) = self.rest.split_at(end);
            self.rest = rest;
            if !text.is_empty() {
                return Some(Token::Text(if decoded {
                    entity::decode(text, EntityContext::Text)
                } else {
                    line_ends(text)
                }));
            }
        }
        if self.plain && !self.rest.is_empty() {
            return Some(Token::Text(line_ends(std::mem::take(&mut self.rest))));
        }
        while !self.rest.is_empty() {
            match construct(self.rest) {
                Construct::Text(length) => {
                    let (text, rest) = self.rest.split_at(length);
                    self.rest = rest;
                    return Some(Token::Text(entity::decode(text, EntityContext::Text)));
                }
                Construct::Skip(length) => {
                    self.rest = self.rest.get(length..).unwrap_or_default();
                }
                Construct::Tag { end, tag, rest } => {
                    self.rest = rest;
                    return Some(if end { self.end(tag) } else { self.start(tag) });
                }
            }
        }
        None
    }
}

impl<'a> Tokens<'a> {
    fn start(&mut self, tag: Tag<'a>) -> Token<'a> {
        let is = |name: &str| tag.name.eq_ignore_ascii_case(name);
        if (is("svg") || is("math")) && !tag.self_closing {
            self.foreign = self.foreign.saturating_add(1);
        }
        let closes_itself = self.foreign > 0 && tag.self_closing;
        match raw_kind(tag.name) {
            Some(_) if closes_itself => {}
            Some(Raw::Plain) => self.plain = true,
            Some(raw) => self.raw = Some((tag.name, raw == Raw::Decoded)),
            None => {}
        }
        Token::Start(tag)
    }

    fn end(&mut self, tag: Tag<'a>) -> Token<'a> {
        let is = |name: &str| tag.name.eq_ignore_ascii_case(name);
        if is("svg") || is("math") {
            self.foreign = self.foreign.saturating_sub(1);
        }
        Token::End(tag)
    }
}

fn raw_kind(name: &str) -> Option<Raw> {
    const VERBATIM: [&str; 7] = [
        "script", "style", "noscript", "iframe", "noembed", "noframes", "xmp",
    ];
    let is = |other: &&str| name.eq_ignore_ascii_case(other);
    if VERBATIM.iter().any(&is) {
        Some(Raw::Verbatim)
    } else if ["title", "textarea"].iter().any(&is) {
        Some(Raw::Decoded)
    } else {
        is(&"plaintext").then_some(Raw::Plain)
    }
}

/// Returns the offset of the end tag of a raw element, or the length.
fn raw_end(text: &str, name: &str) -> usize {
    let mut from = 0;
    while let Some(found) = text.get(from..).and_then(|rest| rest.find("</")) {
        let at = from + found;
        let inside = at + 2;
        let after = inside + name.len();
        let same = text
            .get(inside..after)
            .is_some_and(|other| other.eq_ignore_ascii_case(name));
        let ends = text
            .as_bytes()
            .get(after)
            .is_some_and(|byte| is_space(*byte) || matches!(byte, b'/' | b'>'));
        if same && ends {
            return at;
        }
        from = inside;
    }
    text.len()
}

/// The construct at the start of a non-empty text.
enum Construct<'a> {
    Text(usize),
    Skip(usize),
    Tag {
        end: bool,
        tag: Tag<'a>,
        rest: &'a str,
    },
}

fn construct(text: &str) -> Construct<'_> {
    let bytes = text.as_bytes();
    let whole = Construct::Skip(text.len());
    if bytes.first() != Some(&b'<') {
        return Construct::Text(text.find('<').unwrap_or(text.len()));
    }
    let until_greater = || Construct::Skip(text.find('>').map_or(text.len(), |at| at + 1));
    let (end, name_at) = match (bytes.get(1), bytes.get(2)) {
        (Some(b'!'), _) => {
            return match text.strip_prefix("<!--") {
                Some(comment) => Construct::Skip("<!--".len() + comment_length(comment)),
                None => until_greater(),
            };
        }
        (Some(b'/'), Some(byte)) if byte.is_ascii_alphabetic() => (true, 2),
        (Some(b'?'), _) | (Some(b'/'), Some(_)) => return until_greater(),
        (Some(byte), _) if byte.is_ascii_alphabetic() => (false, 1),
        _ => {
            let more = text.get(1..).and_then(|rest| rest.find('<'));
            return Construct::Text(more.map_or(text.len(), |at| at + 1));
        }
    };
    let inside = text.get(name_at..).unwrap_or_default();
    let Some(length) = inside
        .bytes()
        .position(|byte| is_space(byte) || matches!(byte, b'/' | b'>'))
    else {
        return whole;
    };
    let (name, attributes) = inside.split_at(length);
    let mut rest = attributes;
    loop {
        match attribute(rest) {
            Part::Attribute { rest: more, .. } => rest = more,
            Part::End { self_closing, rest } => {
                let length = attributes.len() - rest.len();
                let attributes = attributes.get(..length).unwrap_or_default();
                let tag = Tag {
                    name,
                    attributes,
                    self_closing,
                };
                return Construct::Tag { end, tag, rest };
            }
            // An unterminated tag extends to the end of the text and is skipped.
            Part::Broken => return whole,
        }
    }
}

/// The length of what follows `<!--`, with the end of the comment.
fn comment_length(comment: &str) -> usize {
    if comment.starts_with('>') {
        return 1;
    }
    if comment.starts_with("->") {
        return 2;
    }
    let mut from = 0;
    while let Some(found) = comment.get(from..).and_then(|rest| rest.find("--")) {
        let after = from + found + 2;
        let rest = comment.get(after..).unwrap_or_default();
        if rest.starts_with('>') {
            return after + 1;
        }
        if rest.starts_with("!>") {
            return after + 2;
        }
        from = after - 1;
    }
    comment.len()
}

/// The next part of the inside of a tag.
enum Part<'a> {
    Attribute {
        name: &'a str,
        value: &'a str,
        rest: &'a str,
    },
    End {
        self_closing: bool,
        rest: &'a str,
    },
    Broken,
}

fn attribute(inside: &str) -> Part<'_> {
    let bytes = inside.as_bytes();
    let mut at = 0;
    loop {
        match bytes.get(at) {
            None => return Part::Broken,
            Some(b'>') => {
                let self_closing = at > 0 && bytes.get(at - 1) == Some(&b'/');
                let rest = inside.get(at + 1..).unwrap_or_default();
                return Part::End { self_closing, rest };
            }
            Some(byte) if is_space(*byte) || *byte == b'/' => at += 1,
            Some(_) => break,
        }
    }
    // The first byte belongs to the name even if it is `=`.
    let ends_name = |byte: &u8| is_space(*byte) || matches!(byte, b'/' | b'>' | b'=');
    let Some(more) = bytes
        .get(at + 1..)
        .and_then(|rest| rest.iter().position(ends_name))
    else {
        return Part::Broken;
    };
    let name_end = at + 1 + more;
    let name = inside.get(at..name_end).unwrap_or_default();
    let skip_space = |from: usize| {
        let spaces = bytes.get(from..).unwrap_or_default();
        from + spaces.iter().take_while(|byte| is_space(**byte)).count()
    };
    let equals = skip_space(name_end);
    if bytes.get(equals) != Some(&b'=') {
        let rest = inside.get(equals..).unwrap_or_default();
        return Part::Attribute {
            name,
            value: "",
            rest,
        };
    }
    let start = skip_space(equals + 1);
    let from = inside.get(start..).unwrap_or_default();
    let (value, rest) = match bytes.get(start) {
        Some(quote @ (b'"' | b'\'')) => {
            let quoted = from.get(1..).unwrap_or_default();
            match quoted.split_once(char::from(*quote)) {
                Some(found) => found,
                None => return Part::Broken,
            }
        }
        Some(_) => {
            let ends = |byte: u8| is_space(byte) || byte == b'>';
            match from.bytes().position(ends) {
                Some(length) => from.split_at(length),
                None => return Part::Broken,
            }
        }
        None => return Part::Broken,
    };
    Part::Attribute { name, value, rest }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | b'\x0C' | b'\r' | b' ')
}

fn lower(name: &str) -> Cow<'_, str> {
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    }
}

fn decode_value(value: &str) -> Cow<'_, str> {
    without_nul(entity::decode(value, EntityContext::Attribute))
}

fn without_nul(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{FFFD}"))
    } else {
        text
    }
}

fn line_ends(text: &str) -> Cow<'_, str> {
    if text.contains('\r') {
        Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n"))
    } else {
        Cow::Borrowed(text)
    }
}
