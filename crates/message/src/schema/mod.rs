//! Validation of values against JSON Schemas.
//!
//! Schemas come from prompts, files and servers, values from models, so both are untrusted. Nothing
//! is fetched, regular expressions have a step limit, and a schema with excessive validation cost is
//! rejected. `$schema` selects a draft from 4 to 2020-12; the default is 2020-12.
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

/// Maximum size of a schema as JSON, in bytes.
pub const MAX_SCHEMA_BYTES: usize = 256 * 1024;

/// Maximum number of violations reported for one value.
pub const MAX_VIOLATIONS: usize = 20;

/// Maximum length of the message of a violation, in characters.
const MAX_MESSAGE_CHARS: usize = 300;

/// Maximum backtracking steps of one regular expression match.
const MAX_BACKTRACKS: usize = 10_000;

/// Maximum size of a compiled regular expression, in bytes.
const MAX_PATTERN_BYTES: usize = 1024 * 1024;

/// A compiled JSON Schema.
#[derive(Clone, Debug)]
pub struct Schema {
    validator: Validator,
    plan: Plan,
}

/// A schema violation at a position in the value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The position as a JSON pointer; empty for the value itself.
    pub path: String,
    /// The violated rule; of the value it quotes only property names.
    pub message: String,
}

impl Violation {
    /// Creates a violation at a JSON pointer.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            message: message.into(),
        }
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.path.is_empty() {
            return f.write_str(&self.message);
        }
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// An error of [`Schema::compile`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaError {
    /// The schema is larger than [`MAX_SCHEMA_BYTES`].
    TooLarge(usize),
    /// A reference leads outside the schema.
    Remote {
        /// The JSON pointer to the reference.
        path: String,
        /// The target of the reference.
        reference: String,
    },
    /// The schema at this JSON pointer refers to itself endlessly.
    Endless(String),
    /// Part of the schema is invalid.
    Invalid {
        /// The JSON pointer to the part.
        path: String,
        /// The violated rule.
        message: String,
    },
}

impl std::fmt::Display for SchemaError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLarge(bytes) => write!(
                f,
                "the schema has {bytes} bytes, more than the maximum of {MAX_SCHEMA_BYTES}"
            ),
            Self::Remote { path, reference } => write!(
                f,
                "`{reference}` at `#{path}` is not part of the schema, and nothing is fetched"
            ),
            Self::Endless(path) => {
                write!(f, "the schema at `#{path}` refers to itself endlessly")
            }
            Self::Invalid { path, message } => {
                write!(f, "invalid JSON Schema at `#{path}`: {message}")
            }
        }
    }
}

impl std::error::Error for SchemaError {}

impl Schema {
    /// Compiles a schema, in time linear in its size.
    ///
    /// # Errors
    ///
    /// Returns [`SchemaError`] if the schema is invalid, too large, endless or not self-contained.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        let bytes = schema.to_string().len();
        if bytes > MAX_SCHEMA_BYTES {
            return Err(SchemaError::TooLarge(bytes));
        }
        let plan = Plan::new(schema)?;
        let patterns = PatternOptions::fancy_regex()
            .backtrack_limit(MAX_BACKTRACKS)
            .size_limit(MAX_PATTERN_BYTES);
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

    /// Returns whether a value has no violation.
    pub fn is_valid(&self, value: &Value) -> bool {
        self.plan.cost(value) == CostCheck::Acceptable && self.validator.is_valid(value)
    }

    /// Returns the violations of a value, at most [`MAX_VIOLATIONS`].
    ///
    /// A schema can branch at each level of a deep value. A value with excessive validation cost has
    /// a single violation that reports the cost.
    pub fn violations(&self, value: &Value) -> Vec<Violation> {
        if self.plan.cost(value) == CostCheck::Excessive {
            let message = "the value is nested too deeply for its schema";
            return vec![Violation::new("", message)];
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

/// Cuts a message to the maximum length.
fn clipped(message: &str) -> String {
    match message.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((at, _)) => format!("{}…", message.get(..at).unwrap_or_default()),
        None => message.to_owned(),
    }
}
