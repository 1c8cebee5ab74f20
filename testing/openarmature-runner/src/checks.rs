//! What a case found wrong, and how values are compared.

use logue_graph::SignalDescriptor;
use serde_json::{Map, Value};

use crate::seen::is_uuid;
use crate::vocabulary::{DescriptorExpected, UNKNOWN};

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

    /// Compares with something that may be absent, which equals no value, not even null.
    pub(crate) fn same(&mut self, what: &str, expected: &Value, found: Option<&Value>) {
        self.made += 1;
        match found {
            Some(found) if matches(expected, found) => {}
            Some(found) => self.fail(format!("{what} is {found}, not {expected}")),
            None => self.fail(format!("{what} is absent, not {expected}")),
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

    /// Compares the data of an error.
    pub(crate) fn carried(&mut self, expected: &Map<String, Value>, found: &Map<String, Value>) {
        for (key, value) in expected {
            let texts = value.as_str().zip(found.get(key).and_then(Value::as_str));
            match texts.filter(|_| key == "registry_description") {
                Some((expected, found)) => self.holds(
                    is_same_registry(expected, found),
                    format!("the registry is {found:?}, not {expected:?}"),
                ),
                None => self.same(&format!("error.{key}"), value, found.get(key)),
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
            // The engine may add the part of the node that suspended.
            let of_engine = found.metadata.as_ref().and_then(Value::as_object);
            let of_engine = of_engine.is_some_and(|metadata| {
                let mut keys = metadata.keys();
                keys.all(|key| key == "fan_out_index" || key == "branch_name")
            });
            match (&expected.metadata, &found.metadata) {
                (Some(metadata), found) => {
                    self.same("descriptor.metadata", metadata, found.as_ref());
                }
                (None, Some(found)) if !of_engine => {
                    self.holds(false, format!("descriptor.metadata is {found}, not absent"));
                }
                (None, _) => self.made += 1,
            }
        }
    }
}

/// Returns whether two descriptions list the same migrations.
///
/// No text is fixed for them. The names of versions are compared, in order, and other words are
/// those with which lists are written. A placeholder in angle brackets is any description.
fn is_same_registry(expected: &str, found: &str) -> bool {
    const FILLING: &[&str] = &[
        "known",
        "are",
        "is",
        "to",
        "from",
        "and",
        "no",
        "none",
        "migration",
        "migrations",
        "registered",
        "registry",
        "empty",
    ];
    fn words(text: &str) -> Vec<&str> {
        let words = text.split(|c: char| c.is_whitespace() || "\"'()[]{},;:->→".contains(c));
        words.filter(|word| !word.is_empty()).collect()
    }
    fn versions(text: &str) -> Vec<&str> {
        let words = words(text).into_iter();
        words.filter(|word| !FILLING.contains(word)).collect()
    }
    let is_any = expected.starts_with('<') && expected.ends_with('>');
    let is_list = !words(expected).is_empty() && versions(expected) == versions(found);
    (is_any && !found.is_empty()) || is_list
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

/// The earlier runs of a case.
#[derive(Debug, Default)]
pub(crate) struct EarlierRuns {
    runs: Vec<EarlierRun>,
}

#[derive(Debug)]
struct EarlierRun {
    /// The part of the case that it belongs to.
    name: Option<String>,
    invocation_id: String,
    outcome: &'static str,
}

impl EarlierRuns {
    pub(crate) fn note(&mut self, name: Option<&str>, invocation_id: &str, outcome: &'static str) {
        self.runs.push(EarlierRun {
            name: name.map(str::to_owned),
            invocation_id: invocation_id.to_owned(),
            outcome,
        });
    }

    /// Returns the id of the run that a placeholder names; other texts are ids themselves.
    ///
    /// `<from NAME suspended outcome>` is the run of that part of the case, and `previous` in place of
    /// a name the last run with that outcome. `<from NAME>` is a run with any outcome.
    ///
    /// # Errors
    /// Returns a message if no such run precedes.
    pub(crate) fn meant(&self, words: &str) -> Result<String, String> {
        let Some(inside) = words.strip_prefix('<').and_then(|it| it.strip_suffix('>')) else {
            return Ok(words.to_owned());
        };
        let parts: Vec<_> = inside.split_whitespace().collect();
        let (name, outcome) = match *parts.as_slice() {
            ["from", name] => (name, None),
            ["from", name, outcome, "outcome"] => (name, Some(outcome)),
            _ => return Err(format!("{UNKNOWN}: the placeholder {words}")),
        };
        let mut runs = self.runs.iter().rev();
        let run = runs.find(|run| {
            (name == "previous" || run.name.as_deref() == Some(name))
                && outcome.is_none_or(|outcome| run.outcome == outcome)
        });
        run.map(|run| run.invocation_id.clone())
            .ok_or_else(|| format!("no run precedes that is {words}"))
    }
}
