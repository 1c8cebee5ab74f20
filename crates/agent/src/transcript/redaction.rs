//! Redaction of secrets in the files of a run.
//!
//! Each match of a pattern is replaced by a placeholder with the pattern's name.
//!
//! All patterns are applied to the original text, and overlapping matches are merged: a short match
//! of one pattern never exposes the rest of a longer match of another. Linear in the length of the
//! text for each pattern.

use std::borrow::Cow;
use std::ops::Range;

use logue_harness::chat::Redact;
use regex::Regex;
use serde_json::value::RawValue;

use crate::transcript::item::TranscriptItem;

/// Patterns of text that is not written.
///
/// ```
/// use logue_agent::Redaction;
///
/// let mut redaction = Redaction::default();
/// redaction.add("api-key", "sk-[A-Za-z0-9]{8,}").unwrap();
/// assert_eq!(redaction.text("key: sk-abcdefgh1"), "key: [redacted:api-key]");
/// assert_eq!(
///     redaction.arguments(r#"{"key": "sk-abcdefgh1", "n": 1}"#),
///     r#"{"key": "[redacted:api-key]", "n": 1}"#
/// );
/// assert!(redaction.add("api key", "x").is_err());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Redaction {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    pattern: Regex,
    placeholder: String,
}

/// The error of an invalid pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedactionError {
    /// The name is invalid in a placeholder.
    #[error("invalid pattern name `{0}`: use lower-case letters, digits and hyphens")]
    Name(String),
    /// The pattern is not a regular expression, or too large.
    #[error("the pattern cannot be used: {0}")]
    Pattern(String),
    /// The pattern matches the empty text.
    #[error("the pattern matches the empty text, which occurs everywhere")]
    Empty,
}

impl Redaction {
    /// Adds a pattern in the syntax of the `regex` crate.
    ///
    /// The syntax has neither look-around nor back-references, and matching takes linear time.
    ///
    /// # Errors
    /// Returns an error if the name contains other characters than `a-z`, `0-9` and `-`, or if the
    /// pattern is invalid.
    pub fn add(&mut self, name: &str, pattern: &str) -> Result<(), RedactionError> {
        let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        if name.is_empty() || !name.bytes().all(is_plain) {
            return Err(RedactionError::Name(name.to_owned()));
        }
        let pattern = Regex::new(pattern)
            .map_err(|error| RedactionError::Pattern(reason(&error.to_string())))?;
        if pattern.is_match("") {
            return Err(RedactionError::Empty);
        }
        self.rules.push(Rule {
            pattern,
            placeholder: format!("[redacted:{name}]"),
        });
        Ok(())
    }

    /// Returns whether there are no patterns.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns whether a pattern matches the text.
    pub fn finds(&self, text: &str) -> bool {
        !self.places(text).is_empty()
    }

    /// Replaces every match in a text by its placeholder.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let places = self.places(text);
        if places.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut redacted = String::with_capacity(text.len());
        let mut from = 0;
        for (place, placeholder) in places {
            redacted.push_str(text.get(from..place.start).unwrap_or_default());
            redacted.push_str(placeholder);
            from = place.end;
        }
        redacted.push_str(text.get(from..).unwrap_or_default());
        Cow::Owned(redacted)
    }

    /// Replaces every match in the arguments of a call.
    ///
    /// JSON stays JSON: matches inside strings are replaced, and a number that matches becomes a
    /// string. If other JSON still matches, the arguments are replaced as a whole.
    pub fn arguments<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.is_empty() || serde_json::from_str::<&RawValue>(text).is_err() {
            return self.text(text);
        }
        let mut redacted = String::with_capacity(text.len());
        for token in JsonTokens(text) {
            redacted.push_str(&self.token(token));
        }
        if let Some((_, placeholder)) = self.places(&redacted).first() {
            return Cow::Owned(format!("{{\"redacted\":\"{placeholder}\"}}"));
        }
        if redacted == text {
            return Cow::Borrowed(text);
        }
        Cow::Owned(redacted)
    }

    /// Redacts an item.
    ///
    /// A provider's signature over changed content is dropped. Ids, tool names and encrypted
    /// content stay: the conversation cannot continue without them.
    pub(crate) fn element(&self, element: &TranscriptItem) -> TranscriptItem {
        match element {
            TranscriptItem::User(text) => TranscriptItem::User(self.text(text).into_owned()),
            TranscriptItem::Variable { name, value } => TranscriptItem::Variable {
                name: name.clone(),
                value: self.text(value).into_owned(),
            },
            TranscriptItem::Answer {
                block,
                continued,
                phase,
            } => {
                let mut block = block.clone();
                self.block(&mut block);
                TranscriptItem::Answer {
                    block,
                    continued: *continued,
                    phase: phase.clone(),
                }
            }
            TranscriptItem::Interrupted(text) => {
                // A pattern would not find the beginning of a secret.
                let whole = logue_source::whole_words(text.as_bytes());
                let text = text.get(..whole).unwrap_or_default();
                TranscriptItem::Interrupted(self.text(text).into_owned())
            }
            TranscriptItem::ToolCall(call) => {
                let mut call = call.clone();
                self.call(&mut call);
                TranscriptItem::ToolCall(call)
            }
            TranscriptItem::ToolResponse { call, text, images } => TranscriptItem::ToolResponse {
                call: call.clone(),
                text: self.text(text).into_owned(),
                images: images.clone(),
            },
        }
    }

    /// Returns the matches with their placeholders, in order and without overlaps.
    ///
    /// A placeholder never matches, whatever its name.
    fn places(&self, text: &str) -> Vec<(Range<usize>, &str)> {
        let mut found: Vec<(Range<usize>, &str)> = Vec::new();
        for rule in &self.rules {
            let matches = rule.pattern.find_iter(text).map(|found| found.range());
            let matches = matches.filter(|place| !place.is_empty());
            found.extend(matches.map(|place| (place, rule.placeholder.as_str())));
        }
        if found.is_empty() {
            return found;
        }
        let kept = self.placeholders(text);
        found.retain(|(place, _)| {
            let after = kept.partition_point(|known| known.start <= place.start);
            let before = after.checked_sub(1).and_then(|at| kept.get(at));
            before.is_none_or(|known| known.end < place.end)
        });
        // Of two matches with one start, the longer one names the placeholder.
        found.sort_by_key(|(place, _)| (place.start, usize::MAX - place.end));
        let mut merged: Vec<(Range<usize>, &str)> = Vec::with_capacity(found.len());
        for (place, placeholder) in found {
            match merged.last_mut() {
                Some((last, _)) if place.start < last.end => last.end = last.end.max(place.end),
                _ => merged.push((place, placeholder)),
            }
        }
        merged
    }

    /// Returns the ranges of existing placeholders, in order.
    fn placeholders(&self, text: &str) -> Vec<Range<usize>> {
        let mut known = Vec::new();
        for (start, _) in text.match_indices("[redacted:") {
            let here = text.get(start..).unwrap_or_default();
            let rules = self.rules.iter();
            let longest = rules
                .filter(|rule| here.starts_with(&rule.placeholder))
                .map(|rule| rule.placeholder.len())
                .max();
            known.extend(longest.map(|length| start..start + length));
        }
        known
    }

    /// Redacts one token of JSON.
    fn token<'t>(&self, token: &'t str) -> Cow<'t, str> {
        let string = |text: &str| Cow::Owned(serde_json::Value::from(text).to_string());
        if token.starts_with('"') {
            // A string with half of a surrogate pair is valid JSON and not valid text.
            if let Ok(value) = serde_json::from_str::<String>(token) {
                return match self.text(&value) {
                    Cow::Borrowed(_) => Cow::Borrowed(token),
                    Cow::Owned(redacted) => string(&redacted),
                };
            }
        }
        match self.places(token).first() {
            Some((_, placeholder)) => string(placeholder),
            None => Cow::Borrowed(token),
        }
    }
}

impl Redact for Redaction {
    fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        Self::text(self, text)
    }

    fn arguments<'t>(&self, arguments: &'t str) -> Cow<'t, str> {
        Self::arguments(self, arguments)
    }
}

/// Splits JSON into strings, words, numbers, and single bytes of structure and white space.
struct JsonTokens<'t>(&'t str);

impl<'t> Iterator for JsonTokens<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        let bytes = self.0.as_bytes();
        let end = match bytes.first()? {
            b'"' => string_end(bytes),
            first if is_structure(*first) => 1,
            _ => bytes
                .iter()
                .position(|byte| is_structure(*byte) || *byte == b'"')
                .unwrap_or(bytes.len()),
        };
        let (token, rest) = self.0.split_at_checked(end)?;
        self.0 = rest;
        Some(token)
    }
}

const fn is_structure(byte: u8) -> bool {
    matches!(
        byte,
        b'{' | b'}' | b'[' | b']' | b',' | b':' | b' ' | b'\t' | b'\n' | b'\r'
    )
}

/// Returns the offset after the quote that closes the string at the start.
fn string_end(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        at += match byte {
            b'"' => return at + 1,
            b'\\' => 2,
            _ => 1,
        };
    }
    bytes.len()
}

/// Returns the last line of a parser's message, which has the reason.
fn reason(message: &str) -> String {
    let last = message.lines().last().unwrap_or_default();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}
