//! What a case found wrong, and how values are compared.

use std::collections::BTreeMap;

use logue_graph::SignalDescriptor;
use serde_json::{Map, Value};

use crate::seen::is_uuid;
use crate::vocabulary::DescriptorExpected;

/// The failures of one case.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    pub(crate) failures: Vec<String>,
    /// The number of comparisons.
    pub(crate) made: usize,
    at: String,
}

impl Checks {
    /// Names the part of the case that is checked from now on.
    pub(crate) fn at(&mut self, part: impl Into<String>) {
        self.at = part.into();
    }

    pub(crate) fn fail(&mut self, what: impl Into<String>) {
        let what = what.into();
        self.failures.push(if self.at.is_empty() {
            what
        } else {
            format!("{}: {what}", self.at)
        });
    }

    pub(crate) fn holds(&mut self, holds: bool, what: impl Into<String>) {
        self.made += 1;
        if !holds {
            self.fail(what);
        }
    }

    pub(crate) fn equal<T: PartialEq + std::fmt::Debug>(
        &mut self,
        what: &str,
        expected: &T,
        found: &T,
    ) {
        self.made += 1;
        if expected != found {
            self.fail(format!("{what} is {found:?}, not {expected:?}"));
        }
    }

    /// Compares what was said of something that may be missing.
    pub(crate) fn same(&mut self, what: &str, expected: &Value, found: Option<&Value>) {
        self.made += 1;
        let found = found.unwrap_or(&Value::Null);
        if !matches(expected, found) {
            self.fail(format!("{what} is {found}, not {expected}"));
        }
    }

    /// Every listed key must be there with its value; others may be there too.
    pub(crate) fn includes(
        &mut self,
        what: &str,
        expected: &Map<String, Value>,
        found: &Map<String, Value>,
    ) {
        for (key, value) in expected {
            self.same(&format!("{what}.{key}"), value, found.get(key));
        }
    }

    /// Compares the data of an error. The description of a registration has no fixed text.
    pub(crate) fn carried(&mut self, expected: &Map<String, Value>, found: &Map<String, Value>) {
        for (key, value) in expected {
            let text = found.get(key).and_then(Value::as_str);
            if key == "registry_description" {
                self.holds(
                    text.is_some_and(|text| !text.is_empty()),
                    "nothing describes the registry",
                );
            } else {
                self.same(&format!("error.{key}"), value, found.get(key));
            }
        }
    }

    pub(crate) fn descriptor(
        &mut self,
        expected: &DescriptorExpected,
        found: Option<&SignalDescriptor>,
    ) {
        let Some(found) = found else {
            return self.holds(false, "there is no descriptor");
        };
        self.equal(
            "descriptor.signal_id",
            &expected.signal_id,
            &found.signal_id,
        );
        if let Some(includes) = &expected.metadata_includes {
            let empty = Map::new();
            let metadata = found.metadata.as_ref();
            let metadata = metadata.and_then(Value::as_object).unwrap_or(&empty);
            self.includes("descriptor.metadata", includes, metadata);
        } else {
            let none = Value::Null;
            let metadata = expected.metadata.as_ref().unwrap_or(&none);
            let of_engine = expected.metadata.is_none()
                && found
                    .metadata
                    .as_ref()
                    .and_then(Value::as_object)
                    .is_some_and(|metadata| {
                        let mut keys = metadata.keys();
                        keys.all(|key| key == "fan_out_index" || key == "branch_name")
                    });
            // Which part of a node suspended is the engine's to add.
            if !of_engine {
                self.same("descriptor.metadata", metadata, found.metadata.as_ref());
            }
        }
    }
}

/// Equality, with `<uuid>` standing for any id.
pub(crate) fn matches(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::String(words), Value::String(found)) if words == "<uuid>" => is_uuid(found),
        (Value::Object(expected), Value::Object(found)) => {
            expected.len() == found.len()
                && expected
                    .iter()
                    .all(|(key, value)| found.get(key).is_some_and(|found| matches(value, found)))
        }
        (Value::Array(expected), Value::Array(found)) => {
            expected.len() == found.len()
                && expected
                    .iter()
                    .zip(found)
                    .all(|(one, other)| matches(one, other))
        }
        (expected, found) => expected == found,
    }
}

/// Runs that came before, by the name of the part of the case that they belong to.
#[derive(Debug, Default)]
pub(crate) struct EarlierRuns {
    by_name: BTreeMap<String, String>,
    last: Option<String>,
    last_suspended: Option<String>,
}

impl EarlierRuns {
    pub(crate) fn note(&mut self, name: Option<&str>, invocation_id: &str, suspended: bool) {
        let id = invocation_id.to_owned();
        if let Some(name) = name {
            self.by_name.insert(name.to_owned(), id.clone());
        }
        if suspended {
            self.last_suspended = Some(id.clone());
        }
        self.last = Some(id);
    }

    /// `<from NAME suspended outcome>`; without the name of a part, the last run that suspended, or
    /// the last one at all if the words do not ask for that.
    pub(crate) fn meant(&self, words: &str) -> String {
        let Some(inside) = words
            .strip_prefix('<')
            .and_then(|rest| rest.strip_suffix('>'))
        else {
            return words.to_owned();
        };
        let words_of = || inside.split_whitespace();
        let named = words_of().find_map(|word| self.by_name.get(word));
        let ended = words_of().any(|word| matches!(word, "completed" | "errored"));
        let last = if ended {
            &self.last
        } else {
            &self.last_suspended
        };
        let meant = named.or(last.as_ref()).or(self.last.as_ref());
        meant.cloned().unwrap_or_else(|| words.to_owned())
    }
}
