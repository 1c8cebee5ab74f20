//! The verdict of the runtime on the arguments of a call.
//!
//! `check` reports exactly the calls that the runtime refuses, so both use the validator of
//! `logue_message::schema` and the same parameters. The nodes of an [`ArgumentSchema`] only add a
//! fast path, the position and the wording of a mismatch.

use std::fmt;
use std::sync::{Arc, OnceLock};

use logue_message::schema::{Schema, Violation};
use logue_message::{Arguments, DEADLINE_PARAMETER, DeadlineError};
use serde_json::Value;

use super::locate::Step;
use super::{ArgumentSchema, SchemaMismatch, fast_check, locate};

/// Maximum text length of the fast path in bytes.
///
/// Longer texts could exceed the cost limit.
const MAX_FAST_LEN: usize = 64 * 1024;

/// Maximum number of nodes of the fast path.
const MAX_FAST_NODES: usize = 256;

/// The compiled parameters of a tool, created on first use.
#[derive(Clone, Default)]
pub(super) struct RuntimeSchema(Arc<OnceLock<Compiled>>);

struct Compiled {
    /// Compiled for the first call that the fast path does not accept. `None` if the runtime cannot
    /// use the schema, so calls are not checked.
    schema: OnceLock<Option<Schema>>,
    /// Whether a value that fits the nodes also fits the schema.
    is_simple: bool,
    /// The parameters as a JSON Schema.
    parameters: Value,
}

impl PartialEq for RuntimeSchema {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for RuntimeSchema {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RuntimeSchema")
            .finish_non_exhaustive()
    }
}

impl ArgumentSchema {
    /// Checks the arguments of a call as the runtime does.
    ///
    /// # Errors
    ///
    /// Returns the first mismatch if the runtime refuses the call.
    pub(crate) fn check_call(&self, text: &[u8]) -> Result<(), SchemaMismatch> {
        let compiled = self.compiled();
        let is_object = text.trim_ascii_start().first() == Some(&b'{');
        if compiled.is_simple
            && is_object
            && text.len() <= MAX_FAST_LEN
            && self.nodes.len() <= MAX_FAST_NODES
            && !names_deadline(text)
            && is_plain(text)
            && fast_check::fits(self, text)
        {
            return Ok(());
        }
        let Some(violation) = compiled.violation(text) else {
            return Ok(());
        };
        self.check_ignoring(text, DEADLINE_PARAMETER)?;
        let value = serde_json::from_slice(text).unwrap_or_default();
        let steps = steps(&value, &violation.path);
        Err(SchemaMismatch {
            path: locate::path(&steps),
            expected: "arguments that fit the JSON Schema".to_owned(),
            found: format!("invalid ({})", violation.message),
            span: locate::span(text, &steps, false),
        })
    }

    fn compiled(&self) -> &Compiled {
        self.runtime.0.get_or_init(|| {
            let parameters = self.to_parameters();
            Compiled {
                schema: OnceLock::new(),
                is_simple: is_simple(&parameters),
                parameters,
            }
        })
    }
}

impl Compiled {
    fn violation(&self, text: &[u8]) -> Option<Violation> {
        let arguments = Arguments::from_text(String::from_utf8_lossy(text));
        let Ok(split) = arguments.split_deadline(&self.parameters) else {
            let message = format!("not {}", DeadlineError::EXPECTED);
            return Some(Violation::new(format!("/{DEADLINE_PARAMETER}"), message));
        };
        let object = match split.arguments.object() {
            Ok(object) => object,
            Err(error) => return Some(Violation::new("", error.to_string())),
        };
        let schema = self
            .schema
            .get_or_init(|| Schema::compile(&self.parameters).ok());
        let violations = schema.as_ref()?.violations(&Value::Object(object));
        violations.into_iter().next()
    }
}

/// Returns whether a text contains only values that JSON libraries can represent.
///
/// The fast path does not read ignored values. It therefore requires few brackets (nesting), short
/// numbers without exponent (range) and no `\u` (unpaired surrogates). Of strings only the escapes
/// are looked at.
fn is_plain(text: &[u8]) -> bool {
    const MAX_BRACKETS: usize = 100;
    const MAX_DIGITS: usize = 100;
    let (mut brackets, mut digits, mut at) = (0, 0, 0);
    while let Some(&byte) = text.get(at) {
        at += 1;
        match byte {
            b'"' => match string_end(text, at) {
                Some(end) => at = end,
                None => return false,
            },
            b'[' | b'{' => brackets += 1,
            b'e' | b'E' if digits > 0 => return false,
            _ => {}
        }
        digits = if byte.is_ascii_digit() { digits + 1 } else { 0 };
        if digits > MAX_DIGITS || brackets > MAX_BRACKETS {
            return false;
        }
    }
    true
}

/// Returns the end of the string that begins at `at`.
///
/// Returns `None` if it contains `\u` or does not end.
fn string_end(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        match text.get(at..at + 2)? {
            [b'\\', b'u'] => return None,
            [b'\\', _] => at += 2,
            _ => return Some(at + 1),
        }
    }
}

fn names_deadline(text: &[u8]) -> bool {
    memchr::memmem::find(text, DEADLINE_PARAMETER.as_bytes()).is_some()
}

/// Returns whether the nodes implement every keyword of a schema exactly.
fn is_simple(schema: &Value) -> bool {
    let Some(schema) = schema.as_object() else {
        return false;
    };
    schema
        .iter()
        .all(|(keyword, value)| match keyword.as_str() {
            "type" => matches!(
                value.as_str(),
                Some("object" | "array" | "string" | "boolean" | "number" | "null")
            ),
            "title" | "description" | "default" | "examples" => true,
            "required" => value.is_array(),
            "enum" => value
                .as_array()
                .is_some_and(|values| values.iter().all(Value::is_string)),
            "minLength" | "maxLength" | "minItems" | "maxItems" => value.is_u64(),
            "items" => is_simple(value),
            "additionalProperties" => value.is_boolean() || is_simple(value),
            "properties" => value
                .as_object()
                .is_some_and(|properties| properties.values().all(is_simple)),
            _ => false,
        })
}

/// Returns the steps of a JSON pointer in a value.
fn steps(value: &Value, pointer: &str) -> Vec<Step> {
    let mut value = value;
    let mut steps = Vec::new();
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        let (step, inner) = match value {
            Value::Array(items) => {
                let Ok(index) = part.parse::<usize>() else {
                    break;
                };
                (Step::Index(index), items.get(index))
            }
            Value::Object(object) => {
                let inner = object.get(&part);
                (Step::Key(part), inner)
            }
            _ => break,
        };
        steps.push(step);
        let Some(inner) = inner else { break };
        value = inner;
    }
    steps
}
