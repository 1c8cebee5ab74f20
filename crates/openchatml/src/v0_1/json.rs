//! The end of a JSON value in chunked text, and the check for function values.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::event::Function;
use crate::write::frame::is_safe;

/// Finds the end of an object by its brackets. Whether it is JSON is asked when it is whole.
#[derive(Debug)]
pub(crate) struct Brackets {
    /// Bytes before the object.
    before: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
    closed: bool,
}

impl Brackets {
    /// An object that begins after `before` bytes and white space.
    pub(crate) const fn new(before: usize) -> Self {
        Self {
            before,
            depth: 0,
            in_string: false,
            escaped: false,
            closed: false,
        }
    }

    /// Start of the object.
    pub(crate) const fn begin(&self) -> usize {
        self.before
    }

    /// Returns whether the object has begun and not ended.
    pub(crate) const fn is_open(&self) -> bool {
        self.depth > 0
    }

    pub(crate) const fn is_closed(&self) -> bool {
        self.closed
    }

    /// The length of white space and object; `None` without an object.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Option<usize> {
        for (at, byte) in bytes.iter().enumerate() {
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'{' | b'[' if *byte == b'{' || self.depth > 0 => self.depth += 1,
                b'}' | b']' if self.depth > 0 => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        self.closed = true;
                        return Some(at + 1);
                    }
                }
                b'"' if self.depth > 0 => self.in_string = true,
                _ if self.depth > 0 => {}
                byte if byte.is_ascii_whitespace() => self.before += 1,
                _ => return None,
            }
        }
        Some(bytes.len())
    }
}

/// A call (OpenChatML 0.1 §8.2).
#[derive(Deserialize)]
pub(crate) struct Call<'j> {
    pub(crate) name: String,
    #[serde(borrow)]
    pub(crate) arguments: &'j RawValue,
}

/// The result of a call (OpenChatML 0.1 §8.3).
#[derive(Deserialize)]
pub(crate) struct Output<'j> {
    pub(crate) name: String,
    #[serde(borrow)]
    pub(crate) content: &'j RawValue,
}

#[derive(Deserialize)]
struct Declared<'j> {
    #[serde(borrow)]
    function: Option<Named<'j>>,
    name: Option<String>,
}

#[derive(Deserialize)]
struct Named<'j> {
    name: std::borrow::Cow<'j, str>,
}

/// Returns whether `json` is a value of that kind.
pub(crate) fn is_value(function: Function, json: &[u8]) -> bool {
    match function {
        Function::Call => serde_json::from_slice::<Call<'_>>(json)
            .is_ok_and(|call| is_safe(&call.name) && call.arguments.get().starts_with('{')),
        Function::Output => {
            serde_json::from_slice::<Output<'_>>(json).is_ok_and(|output| is_safe(&output.name))
        }
        Function::List => serde_json::from_slice::<Declared<'_>>(json).is_ok_and(|declared| {
            declared
                .function
                .is_some_and(|named| !named.name.is_empty())
                || declared.name.is_some_and(|name| !name.is_empty())
        }),
    }
}
