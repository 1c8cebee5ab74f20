//! The vocabulary of a file of cases.
//!
//! Every mapping is read by a type that knows all its keys. A key that it does not know is an error,
//! because a case whose words are skipped tests less than it says.

mod case;
mod chat;
mod expected;
mod graph;
mod transmit;

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error as _};
use serde_json::{Map, Value};

pub(crate) use case::{Case, Invocation, StoreBehavior};
pub(crate) use chat::{
    ArrivalExpected, ChatTurn, ChatTurnExpected, FinalHistory, ReplyExpected, SignalStep,
};
pub(crate) use expected::{
    DescriptorExpected, ErrorExpected, EventExpected, RunExpected, SavedExpected, SpanExpected,
    StoreAfter,
};
pub(crate) use graph::{
    BranchesDef, Directive, EdgeDef, FanOutDef, FieldDef, GraphDef, MappingDef, MiddlewareDef,
    NodeDef, Raises, SaveDef, StateDef, SuspendDef,
};
pub(crate) use transmit::{HarnessDef, InvokeArgs, Transmission, TransmissionExpected};

/// An error in reading a file or a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// The name of the error.
    pub category: &'static str,
    /// The content and its place.
    pub message: String,
}

/// The category of an unknown word.
pub(crate) const UNKNOWN: &str = "fixture_directive_unknown";
/// The category of an unreadable file.
pub(crate) const INVALID: &str = "fixture_invalid";

impl std::error::Error for ReadError {}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.category, self.message)
    }
}

/// A mapping in the order in which it was written.
#[derive(Clone, Debug)]
pub(crate) struct Ordered<T>(pub(crate) Vec<(String, T)>);

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Ordered<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entries = Map::deserialize(deserializer)?;
        let read = entries.into_iter().map(|(key, value)| {
            let value = serde_json::from_value(value)
                .map_err(|error| D::Error::custom(format!("{key}: {error}")))?;
            Ok((key, value))
        });
        read.collect::<Result<_, _>>().map(Self)
    }
}

/// Reads a key that is present: null is a value, or an error where it cannot be one.
pub(crate) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    value: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(value).map(Some)
}

/// A file: its cases, and what is said of all of them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileDef {
    pub(crate) cases: Vec<Value>,
    #[serde(default)]
    pub(crate) invariants: Map<String, Value>,
}

impl FileDef {
    pub(crate) fn read(text: &str) -> Result<Self, ReadError> {
        // A field may be called `n` or `y`, which were booleans once.
        let options = serde_saphyr::options! { strict_booleans: true };
        let whole = serde_saphyr::from_str_with_options::<Value>(text, options);
        let whole = whole.map_err(|error| ReadError {
            category: INVALID,
            message: first_line(&error.to_string()),
        })?;
        typed(whole)
    }
}

/// Reads a value by a type that knows all its keys.
pub(crate) fn typed<T: DeserializeOwned>(value: Value) -> Result<T, ReadError> {
    serde_json::from_value(value).map_err(|error| {
        let message = error.to_string();
        let unknown = ["unknown field", "unknown variant", "unknown directive"]
            .iter()
            .any(|words| message.contains(words));
        let category = if unknown { UNKNOWN } else { INVALID };
        ReadError { category, message }
    })
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}
