//! Numbers of a document header that lose digits.
//!
//! A header's values are kept as JSON, whose numbers have a size and no spelling: `1.10` becomes
//! `1.1`, and an integer of thirty digits becomes a float. Such a header is not written back as it
//! was, so the reader says so (OpenChatML 2.2 §2).

use std::collections::BTreeSet;

use logue_source::Span;
use serde_json::{Number, Value};

/// The words of a header, split where a number may end.
pub(crate) struct Spellings<'s> {
    source: &'s [u8],
    yaml: Span,
    /// Made when the first list or map is looked into.
    words: Option<BTreeSet<&'s [u8]>>,
}

impl<'s> Spellings<'s> {
    /// Those of the header at `yaml`.
    pub(crate) const fn new(source: &'s [u8], yaml: Span) -> Self {
        Self {
            source,
            yaml,
            words: None,
        }
    }

    /// A number in `value` that the header spells in another way. `place` is where the value
    /// is. A number inside a list or map has no place of its own and is looked for among all
    /// words of the header.
    pub(crate) fn lost<'v>(&mut self, place: Span, value: &'v Value) -> Option<&'v Number> {
        if let Value::Number(number) = value {
            let spelled = place.bytes(self.source).trim_ascii();
            let usual = spellings(number)
                .iter()
                .any(|text| text.as_bytes() == spelled);
            return (!usual).then_some(number);
        }
        let yaml = self.yaml.bytes(self.source);
        let mut todo = vec![value];
        while let Some(next) = todo.pop() {
            match next {
                Value::Number(number) => {
                    let words = self
                        .words
                        .get_or_insert_with(|| yaml.split(|byte| ends_a_word(*byte)).collect());
                    let usual = spellings(number);
                    if !usual.iter().any(|text| words.contains(text.as_bytes())) {
                        return Some(number);
                    }
                }
                Value::Array(items) => todo.extend(items.iter().rev()),
                Value::Object(map) => todo.extend(map.values().rev()),
                _ => {}
            }
        }
        None
    }
}

/// The spellings of a number, with and without a `+` in its exponent.
fn spellings(number: &Number) -> [String; 2] {
    let text = number.to_string();
    [text.replace("e+", "e"), text]
}

fn ends_a_word(byte: u8) -> bool {
    byte.is_ascii_whitespace() || b",:[]{}'\"".contains(&byte)
}
