//! What a model says, held against a JSON Schema.
//!
//! A schema comes from a prompt, a file or a server, and the value from a model, so neither is
//! trusted: nothing is fetched, regular expressions may only take so many steps, and a schema whose
//! check could take long is refused or not followed. Drafts 4 to 2020-12 are known, by `$schema`; a
//! schema that names none is one of 2020-12.
//!
//! ```
//! use logue_message::schema::Schema;
//! use serde_json::json;
//!
//! let schema = Schema::compile(&json!({"type": "object", "required": ["name"]})).unwrap();
//! assert!(schema.violations(&json!({"name": "Ada"})).is_empty());
//! assert_eq!(schema.violations(&json!({}))[0].message, r#""name" is a required property"#);
//! ```

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use cost::{CostCheck, Plan};

mod cost;

/// Bytes that a schema may have as JSON.
pub const MAX_SCHEMA_BYTES: usize = 256 * 1024;

/// Faults that are told of one value.
pub const MAX_VIOLATIONS: usize = 20;

/// Characters of one fault's message.
const MESSAGE_CHARS: usize = 300;

/// Steps back that one match of a regular expression may take.
const BACKTRACKS: usize = 10_000;

/// Bytes that one compiled regular expression may have.
const PATTERN_BYTES: usize = 1024 * 1024;

/// A schema that is ready to be held against values.
#[derive(Clone, Debug)]
pub struct Schema {
    validator: Validator,
    plan: Plan,
}

/// A place at which a value is not what its schema asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Where in the value, as a JSON pointer; empty for the whole value.
    pub path: String,
    /// What is wrong there. It holds nothing of the value but the names of its properties.
    pub message: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.path.is_empty() {
            return f.write_str(&self.message);
        }
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Why a schema is of no use.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaError {
    /// It is larger than [`MAX_SCHEMA_BYTES`].
    TooLarge(usize),
    /// It refers to something that is not in it, at a JSON pointer.
    Remote {
        /// Where the reference is.
        path: String,
        /// What it names.
        reference: String,
    },
    /// It refers to itself without going on in the value, at a JSON pointer.
    Endless(String),
    /// It is no schema, at a JSON pointer.
    Invalid {
        /// Where.
        path: String,
        /// What is wrong.
        message: String,
    },
}

impl std::fmt::Display for SchemaError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLarge(bytes) => write!(
                f,
                "the schema has {bytes} bytes, and {MAX_SCHEMA_BYTES} are the most"
            ),
            Self::Remote { path, reference } => write!(
                f,
                "`{reference}` at `#{path}` is not in the schema itself, and nothing is fetched"
            ),
            Self::Endless(path) => {
                write!(f, "the schema at `#{path}` refers to itself without an end")
            }
            Self::Invalid { path, message } => write!(f, "no JSON Schema at `#{path}`: {message}"),
        }
    }
}

impl std::error::Error for SchemaError {}

impl Schema {
    /// Reads a schema. Costs time in the order of its size.
    ///
    /// # Errors
    /// It is no JSON Schema, is too large, or refers to something outside of it.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        let bytes = schema.to_string().len();
        if bytes > MAX_SCHEMA_BYTES {
            return Err(SchemaError::TooLarge(bytes));
        }
        let plan = Plan::of(schema)?;
        let patterns = PatternOptions::fancy_regex()
            .backtrack_limit(BACKTRACKS)
            .size_limit(PATTERN_BYTES);
        let validator = jsonschema::options()
            .offline()
            .with_pattern_options(patterns)
            .build(schema)
            .map_err(|error| SchemaError::Invalid {
                path: error.instance_path().to_string(),
                message: clipped(&error.masked_with("the value").to_string()),
            })?;
        Ok(Self { validator, plan })
    }

    /// Where a value is not what the schema asks for, as it is found; at most [`MAX_VIOLATIONS`] places.
    ///
    /// A value that would take too long to check has one fault that says so: a schema can branch at
    /// each level of a deep value.
    pub fn violations(&self, value: &Value) -> Vec<Violation> {
        if self.plan.cost(value) == CostCheck::TooHigh {
            return vec![Violation {
                path: String::new(),
                message: "the value is nested too deeply to be held against its schema".to_owned(),
            }];
        }
        let errors = self.validator.iter_errors(value).take(MAX_VIOLATIONS);
        errors
            .map(|error| Violation {
                path: error.instance_path().to_string(),
                message: clipped(&error.masked_with("the value").to_string()),
            })
            .collect()
    }
}

/// A message of a bounded length.
fn clipped(message: &str) -> String {
    match message.char_indices().nth(MESSAGE_CHARS) {
        Some((at, _)) => format!("{}…", message.get(..at).unwrap_or_default()),
        None => message.to_owned(),
    }
}
