//! JSON as `json.dumps` of Python writes it.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Value};
use std::fmt::Write as _;
use std::ops::RangeInclusive;

/// The layout of JSON.
struct Layout {
    indent: Option<String>,
    between: String,
    after_name: String,
    is_ascii: bool,
    is_sorted: bool,
    /// Marks, which are not escaped.
    marks: Option<RangeInclusive<char>>,
}

/// Writes a value with the arguments of the filter `tojson` of `transformers`.
pub(super) fn tojson(
    value: &Value,
    arguments: &[Value],
    kwargs: &Kwargs,
    marks: Option<RangeInclusive<char>>,
) -> Result<String, Error> {
    const NAMES: [&str; 4] = ["ensure_ascii", "indent", "separators", "sort_keys"];
    let mut given: [Option<Value>; 4] = [None, None, None, None];
    for ((place, name), position) in given.iter_mut().zip(NAMES).zip(0..) {
        *place = arguments.get(position).cloned();
        if kwargs.has(name) {
            *place = Some(kwargs.get(name)?);
        }
    }
    kwargs.assert_all_used()?;
    let [is_ascii, indent, separators, is_sorted] =
        given.map(|value| value.filter(|value| !value.is_none()));
    let indent = indent.map(|indent| match indent.as_str() {
        Some(text) => text.to_owned(),
        None => " ".repeat(usize::try_from(indent.clone()).unwrap_or_default().min(64)),
    });
    let separator = |index, default: &str| match &separators {
        Some(pair) => Ok(pair.get_item_by_index(index)?.to_string()),
        None => Ok::<_, Error>(default.to_owned()),
    };
    let between = if indent.is_some() { "," } else { ", " };
    let layout = Layout {
        between: separator(0, between)?,
        after_name: separator(1, ": ")?,
        indent,
        is_ascii: is_ascii.is_some_and(|value| value.is_true()),
        is_sorted: is_sorted.is_some_and(|value| value.is_true()),
        marks,
    };
    let mut json = String::new();
    layout.write(value, 0, &mut json)?;
    Ok(json)
}

impl Layout {
    fn write(&self, value: &Value, depth: usize, json: &mut String) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => json.push_str("null"),
            ValueKind::Bool => json.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => json.push_str(&number(value)),
            ValueKind::String => self.string(value.as_str().unwrap_or_default(), json),
            ValueKind::Seq | ValueKind::Iterable => {
                json.push('[');
                let mut is_empty = true;
                for item in value.try_iter()? {
                    self.before(is_empty, depth + 1, json);
                    is_empty = false;
                    self.write(&item, depth + 1, json)?;
                }
                self.after(is_empty, depth, json);
                json.push(']');
            }
            ValueKind::Map => {
                let mut names: Vec<Value> = value.try_iter()?.collect();
                // Parts have the witness in marked renderings only.
                names.retain(|name| !name.as_str().is_some_and(|name| self.is_witness(name)));
                if self.is_sorted {
                    names.sort();
                }
                json.push('{');
                let is_empty = names.is_empty();
                for (index, name) in names.iter().enumerate() {
                    self.before(index == 0, depth + 1, json);
                    match name.kind() {
                        ValueKind::String => {
                            self.string(name.as_str().unwrap_or_default(), json);
                        }
                        ValueKind::None | ValueKind::Bool | ValueKind::Number => {
                            json.push('"');
                            self.write(name, depth + 1, json)?;
                            json.push('"');
                        }
                        _ => return Err(unsupported(name)),
                    }
                    json.push_str(&self.after_name);
                    self.write(&value.get_item(name)?, depth + 1, json)?;
                }
                self.after(is_empty, depth, json);
                json.push('}');
            }
            _ => return Err(unsupported(value)),
        }
        Ok(())
    }

    fn before(&self, is_first: bool, depth: usize, json: &mut String) {
        if !is_first {
            json.push_str(&self.between);
        }
        self.line(depth, json);
    }

    fn after(&self, is_empty: bool, depth: usize, json: &mut String) {
        if !is_empty {
            self.line(depth, json);
        }
    }

    fn line(&self, depth: usize, json: &mut String) {
        if let Some(indent) = &self.indent {
            json.push('\n');
            for _ in 0..depth {
                json.push_str(indent);
            }
        }
    }

    fn string(&self, text: &str, json: &mut String) {
        json.push('"');
        for character in text.chars() {
            match character {
                '"' => json.push_str("\\\""),
                '\\' => json.push_str("\\\\"),
                '\n' => json.push_str("\\n"),
                '\r' => json.push_str("\\r"),
                '\t' => json.push_str("\\t"),
                '\u{8}' => json.push_str("\\b"),
                '\u{c}' => json.push_str("\\f"),
                '\0'..='\u{1f}' => escape(character, json),
                _ if self.is_ascii && !character.is_ascii() && !self.is_mark(character) => {
                    escape(character, json);
                }
                _ => json.push(character),
            }
        }
        json.push('"');
    }

    fn is_witness(&self, name: &str) -> bool {
        let mut characters = name.chars();
        let only = characters.next().filter(|_| characters.next().is_none());
        only.is_some_and(|character| self.is_mark(character))
    }

    fn is_mark(&self, character: char) -> bool {
        let marks = self.marks.as_ref();
        marks.is_some_and(|marks| marks.contains(&character))
    }
}

fn escape(character: char, json: &mut String) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        // Writing to a string does not fail.
        let _ = write!(json, "\\u{unit:04x}");
    }
}

fn unsupported(value: &Value) -> Error {
    let message = format!("a value of the type {} is not JSON", value.kind());
    Error::new(ErrorKind::InvalidOperation, message)
}

fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    match f64::try_from(value.clone()) {
        Ok(number) if number.is_nan() => "NaN".to_owned(),
        Ok(number) if number.is_infinite() => if number > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        }
        .to_owned(),
        Ok(number) => float(number),
        Err(_) => value.to_string(),
    }
}

/// Returns a finite number as Python prints it.
pub(super) fn float(number: f64) -> String {
    // The digits are the shortest in both languages; only the layout differs.
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..16).contains(&exponent) {
        let text = format!("{number}");
        return if text.contains('.') {
            text
        } else {
            text + ".0"
        };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::{float, tojson};
    use crate::template::node::Node;
    use minijinja::Value;
    use minijinja::value::Kwargs;

    fn dumped(json: &str, options: &[(&'static str, Value)]) -> String {
        let value = Node::parse(json).unwrap().to_value();
        let kwargs: Kwargs = options.iter().cloned().collect();
        tojson(&value, &[], &kwargs, None).unwrap()
    }

    #[test]
    fn floats_are_those_of_python() {
        let cases = [
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e16, "1e+16"),
            (1e15, "1000000000000000.0"),
            (1.5e-5, "1.5e-05"),
            (1e-4, "0.0001"),
            (-2.5e300, "-2.5e+300"),
            (-0.0, "-0.0"),
        ];
        for (number, expected) in cases {
            assert_eq!(float(number), expected);
        }
    }

    #[test]
    fn json_is_that_of_python() {
        let json = r#"{"b": [1, 2.50, true, null, {}], "a": "é\"\n\u0001\u007f🦊", "z": []}"#;
        assert_eq!(
            dumped(json, &[]),
            "{\"b\": [1, 2.5, true, null, {}], \"a\": \"é\\\"\\n\\u0001\u{7f}🦊\", \"z\": []}"
        );
        assert_eq!(
            dumped(
                json,
                &[("ensure_ascii", true.into()), ("sort_keys", true.into())]
            ),
            "{\"a\": \"\\u00e9\\\"\\n\\u0001\u{7f}\\ud83e\\udd8a\", \"b\": [1, 2.5, true, null, {}], \"z\": []}"
        );
        assert_eq!(
            dumped("{\"a\": [1], \"b\": {}}", &[("indent", 2.into())]),
            "{\n  \"a\": [\n    1\n  ],\n  \"b\": {}\n}"
        );
        let pair: Value = [",", ":"].into_iter().collect();
        assert_eq!(
            dumped("{\"a\": [1, 2]}", &[("separators", pair)]),
            "{\"a\":[1,2]}"
        );
    }

    #[test]
    fn large_integers_keep_their_digits() {
        let digits = "123456789012345678901234567890";
        assert_eq!(dumped(digits, &[]), digits);
        assert!(Node::parse(&digits.repeat(2)).is_err());
    }
}
