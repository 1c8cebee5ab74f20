//! JSON with places: a value is the stretch of text that spells it.
//!
//! A projection needs to say where in its document something is wrong, and to keep the arguments
//! of a call letter by letter. So nothing is built: the text is checked against the grammar once,
//! and a value is then read in place, one level at a time. Nothing here recurses.

use std::borrow::Cow;
use std::collections::BTreeSet;

use logue_source::{Diagnostic, DiagnosticCode, Span};

use super::long_values::LongValues;
use crate::syntax::json;

/// A value of a text that is known to be JSON.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node<'t> {
    /// The part of the document that is known to be JSON.
    text: &'t str,
    /// The offset of `text` in the document.
    base: usize,
    /// The place in `text`.
    start: usize,
    end: usize,
    long: &'t LongValues,
}

/// The kind of a value, by its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Object,
    Array,
    String,
    /// A number or a boolean.
    Scalar,
    Null,
}

impl<'t> Node<'t> {
    /// The value that `part` of `text` spells.
    pub(super) fn parse(text: &'t [u8], part: Span) -> Result<Self, Box<Diagnostic>> {
        let bytes = part.bytes(text);
        let bytes = match bytes.strip_prefix(b"\xef\xbb\xbf") {
            Some(rest) if part.start == 0 => rest,
            _ => bytes,
        };
        let base = part.end.min(text.len()) - bytes.len();
        let Ok(text) = simdutf8::basic::from_utf8(bytes) else {
            return Err(Box::new(not_utf8(bytes, base)));
        };
        if let Some(error) = json::find_error(bytes) {
            let at = base + error.offset;
            let end = (at + 1).min(part.end).max(at);
            return Err(Box::new(
                Diagnostic::error(
                    DiagnosticCode::JsonSyntax,
                    format!("this is not JSON: {}", error.what),
                    Span::new(at, end),
                )
                .with_expected("valid JSON")
                .with_help("correct the text here; nothing of the conversation was read"),
            ));
        }
        // The text is one value, so it ends where the white space after it begins.
        Ok(Self {
            text,
            base,
            start: bytes.len() - bytes.trim_ascii_start().len(),
            end: bytes.trim_ascii_end().len(),
            long: LongValues::NONE,
        })
    }

    /// The values of `part`: one, or one on each line that is not blank.
    pub(super) fn values(text: &'t [u8], part: Span) -> Result<Vec<Self>, Box<Diagnostic>> {
        let error = match Self::parse(text, part) {
            Ok(node) => return Ok(vec![node]),
            Err(error) => error,
        };
        let mut values = Vec::new();
        let mut start = part.start;
        for line in part.bytes(text).split_inclusive(|byte| *byte == b'\n') {
            let span = Span::new(start, start + line.len());
            start = span.end;
            if line.trim_ascii().is_empty() {
                continue;
            }
            match Self::parse(text, span) {
                Ok(node) => values.push(node),
                // Its first line is not JSON, so the text is not lines of JSON.
                Err(_) if values.is_empty() => return Err(error),
                Err(error) => return Err(error),
            }
        }
        if values.is_empty() {
            Err(error)
        } else {
            Ok(values)
        }
    }

    /// The value, whose parts are found faster.
    pub(super) fn with_long(self, long: &'t LongValues) -> Self {
        Self { long, ..self }
    }

    pub(super) const fn span(self) -> Span {
        Span::new(self.base + self.start, self.base + self.end)
    }

    /// The value as it is spelled.
    pub(super) fn spelled(self) -> &'t str {
        self.text.get(self.start..self.end).unwrap_or_default()
    }

    pub(super) fn kind(self) -> Kind {
        match self.text.as_bytes().get(self.start) {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b'n') | None => Kind::Null,
            Some(_) => Kind::Scalar,
        }
    }

    /// The text of a string. `None` for other values, and for a string that holds half of a
    /// surrogate pair, which is not text.
    pub(super) fn string(self) -> Option<String> {
        self.unescaped().map(Cow::into_owned)
    }

    /// The text of a string as [`Self::string`], borrowed if it has no escape.
    pub(super) fn unescaped(self) -> Option<Cow<'t, str>> {
        let text = self.spelled().strip_prefix('"')?.strip_suffix('"')?;
        json::unescaped(text)
    }

    /// The value as data.
    pub(super) fn value(self) -> Option<serde_json::Value> {
        serde_json::from_str(self.spelled()).ok()
    }

    /// The items of an array; none for other values.
    pub(super) fn items(self) -> Items<'t> {
        Items {
            of: self,
            at: match self.kind() {
                Kind::Array => self.start + 1,
                _ => self.end,
            },
        }
    }

    /// The entries of an object.
    pub(super) fn object(self) -> Option<Object<'t>> {
        if self.kind() != Kind::Object {
            return None;
        }
        let mut entries = Vec::new();
        let mut parts = Items {
            at: self.start + 1,
            of: self,
        };
        while let (Some(key), Some(value)) = (parts.next(), parts.next()) {
            entries.push((key, key.unescaped().unwrap_or_default(), value));
        }
        Some(Object {
            span: self.span(),
            entries,
        })
    }
}

/// Key, its text, value.
type Entry<'t> = (Node<'t>, Cow<'t, str>, Node<'t>);

/// The entries of an object, in order.
#[derive(Clone)]
pub(super) struct Object<'t> {
    pub(super) span: Span,
    pub(super) entries: Vec<Entry<'t>>,
}

impl<'t> Object<'t> {
    /// The value of `key`; `None` where there is none or it is `null`.
    pub(super) fn get(&self, key: &str) -> Option<Node<'t>> {
        let mut entries = self.entries.iter();
        let found = entries.find(|(_, name, _)| name == key)?.2;
        (found.kind() != Kind::Null).then_some(found)
    }

    /// The first duplicate key. Readers differ in which one counts, so none does.
    pub(super) fn duplicate(&self) -> Option<Node<'t>> {
        // Almost every object is small.
        if self.entries.len() <= 8 {
            let mut entries = self.entries.iter().enumerate();
            let is_earlier = |(index, (_, name, _)): &(usize, &Entry<'t>)| {
                let mut before = self.entries.iter().take(*index);
                before.any(|(_, earlier, _)| earlier == name)
            };
            return entries.find(is_earlier).map(|(_, (key, _, _))| *key);
        }
        let mut seen = BTreeSet::new();
        let mut entries = self.entries.iter();
        entries
            .find(|(_, name, _)| !seen.insert(&**name))
            .map(|(key, _, _)| *key)
    }
}

/// The values of an array, or keys and values of an object in turn.
pub(super) struct Items<'t> {
    of: Node<'t>,
    at: usize,
}

impl<'t> Iterator for Items<'t> {
    type Item = Node<'t>;

    fn next(&mut self) -> Option<Node<'t>> {
        let Node {
            text, base, long, ..
        } = self.of;
        let text = text.as_bytes();
        let rest = text.get(self.at..self.of.end)?;
        let between = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b',' | b':');
        let skipped = rest.iter().position(|byte| !between(byte))?;
        let start = self.at + skipped;
        if matches!(text.get(start), Some(b']' | b'}')) {
            self.at = self.of.end;
            return None;
        }
        let known = long.end(base + start).map(|end| end - base);
        self.at = known.unwrap_or_else(|| skip_value(text, start));
        Some(Node {
            start,
            end: self.at,
            ..self.of
        })
    }
}

/// The end of the value that begins at `start`.
fn skip_value(text: &[u8], start: usize) -> usize {
    let mut at = start;
    let mut depth = 0_usize;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => at = skip_string(text, at),
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                at += 1;
            }
            _ if depth > 0 => at += 1,
            _ => {
                let ends = |byte: &u8| {
                    byte.is_ascii_whitespace() || matches!(byte, b',' | b':' | b'}' | b']')
                };
                let rest = text.get(at..).unwrap_or_default();
                return at + rest.iter().position(ends).unwrap_or(rest.len());
            }
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The end of the string that begins at `start`.
pub(super) fn skip_string(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(found) = text
        .get(at..)
        .and_then(|rest| memchr::memchr2(b'"', b'\\', rest))
    {
        at += found;
        if text.get(at) == Some(&b'"') {
            return at + 1;
        }
        at += 2;
    }
    text.len()
}

/// The first bytes that are not UTF-8, as an error.
fn not_utf8(bytes: &[u8], base: usize) -> Diagnostic {
    let (at, length) = match std::str::from_utf8(bytes) {
        Ok(_) => (0, 0),
        Err(error) => (error.valid_up_to(), error.error_len().unwrap_or(1)),
    };
    let start = base + at;
    Diagnostic::error(
        DiagnosticCode::SourceNotUtf8,
        "the JSON is not valid UTF-8",
        Span::new(start, start + length),
    )
    .with_expected("UTF-8 text")
    .with_help("save the file as UTF-8")
}
