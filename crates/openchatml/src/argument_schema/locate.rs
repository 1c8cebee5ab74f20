//! The place of a path in a JSON text.
//!
//! The text has been parsed before, so this only walks: over strings and brackets, once.

use logue_source::{Span, excerpt};

use crate::limits::MAX_QUOTED_CHARS;

/// A step from a value to one inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

/// The path as people write it.
pub(super) fn path(steps: &[Step]) -> String {
    let mut path = "$".to_owned();
    for step in steps {
        match step {
            Step::Index(index) => path.push_str(&format!("[{index}]")),
            Step::Key(key) if is_word(key) => path.push_str(&format!(".{key}")),
            Step::Key(key) => {
                let shown = excerpt(key.as_bytes(), MAX_QUOTED_CHARS);
                path.push_str(&format!("[{}]", serde_json::Value::String(shown)));
            }
        }
    }
    path
}

/// The place of the value (of its key, with `is_key`): a whole scalar or key, or an opening
/// bracket. Of a repeated key the first counts; where that one leads nowhere, the last place
/// on the way is given. Linear.
pub(super) fn span(text: &[u8], steps: &[Step], is_key: bool) -> Span {
    let mut walker = Walker { text, at: 0 };
    walker.space();
    let mut key = None;
    for step in steps {
        let start = walker.at;
        let entered = match step {
            Step::Key(name) => walker.enter_key(name).map(Some),
            Step::Index(index) => walker.enter_index(*index).then_some(None),
        };
        let Some(place) = entered else {
            walker.at = start;
            return walker.scalar();
        };
        key = place;
    }
    key.filter(|_| is_key).unwrap_or_else(|| walker.scalar())
}

/// The places of the items of the array that `text` is. Linear.
pub(crate) fn items(text: &[u8]) -> Vec<Span> {
    let mut walker = Walker { text, at: 0 };
    let mut places = Vec::new();
    walker.space();
    if !walker.take(b'[') {
        return places;
    }
    while walker.peek().is_some_and(|byte| byte != b']') {
        let start = walker.at;
        walker.value();
        places.push(Span::new(start, walker.at));
        if !walker.take(b',') {
            break;
        }
    }
    places
}

fn is_word(key: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !key.is_empty() && key.len() <= 60 && key.bytes().all(plain)
}

struct Walker<'t> {
    text: &'t [u8],
    at: usize,
}

impl Walker<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Steps over `byte`, if it is next.
    fn take(&mut self, byte: u8) -> bool {
        self.space();
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        self.space();
        found
    }

    fn enter_key(&mut self, name: &str) -> Option<Span> {
        if !self.take(b'{') {
            return None;
        }
        while self.peek() == Some(b'"') {
            let key = self.string();
            self.take(b':');
            if self.is_named(key, name) {
                return Some(key);
            }
            self.value();
            self.take(b',');
        }
        None
    }

    fn enter_index(&mut self, index: usize) -> bool {
        if !self.take(b'[') {
            return false;
        }
        for _ in 0..index {
            self.value();
            if !self.take(b',') {
                return false;
            }
        }
        true
    }

    fn is_named(&self, key: Span, name: &str) -> bool {
        let raw = key.bytes(self.text);
        let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
        if memchr::memchr(b'\\', inner).is_none() {
            return inner == name.as_bytes();
        }
        serde_json::from_slice::<String>(raw).is_ok_and(|decoded| decoded == name)
    }

    /// Steps over the string that begins here.
    fn string(&mut self) -> Span {
        let start = self.at;
        self.at += 1;
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'"' => break,
                b'\\' => self.at += 1,
                _ => {}
            }
        }
        self.at = self.at.min(self.text.len());
        Span::new(start, self.at)
    }

    /// Steps over the value that begins here.
    fn value(&mut self) {
        let mut depth = 0_usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    self.string();
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.saturating_sub(1);
                    self.at += 1;
                }
                _ if depth > 0 => self.at += 1,
                _ => {
                    self.scalar_end();
                }
            }
            if depth == 0 {
                return;
            }
        }
    }

    fn scalar_end(&mut self) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let end = |byte: &u8| matches!(byte, b',' | b']' | b'}') || byte.is_ascii_whitespace();
        self.at += rest.iter().position(end).unwrap_or(rest.len());
    }

    /// The scalar that begins here, or the bracket.
    fn scalar(&mut self) -> Span {
        let start = self.at;
        match self.peek() {
            Some(b'"') => return self.string(),
            Some(b'{' | b'[') => self.at += 1,
            _ => self.scalar_end(),
        }
        Span::new(start, self.at)
    }
}
