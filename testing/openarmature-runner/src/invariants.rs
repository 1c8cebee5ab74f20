//! Named invariants of a case: each has a check or is covered by others.

mod found;
mod rules;

use serde_json::{Value, json};

use crate::checks::Checks;
use crate::runs::{Ran, World};
use crate::vocabulary::Case;

/// The treatment of an invariant.
enum Rule {
    /// This must be what the case says of it.
    Check(fn(&Seen<'_>) -> Value),
    /// The words leave no room for the opposite, and the case contains them all.
    Covered(&'static [&'static str], &'static str),
}

/// The input of a check.
struct Seen<'a> {
    case: &'a Case,
    world: &'a World,
    runs: &'a [Ran],
}

pub(crate) fn check(case: &Case, world: &World, runs: &[Ran], words: &Value, checks: &mut Checks) {
    let seen = Seen { case, world, runs };
    for (name, value) in &case.invariants {
        let Some((_, rule)) = rules::RULES.iter().find(|(known, _)| known == name) else {
            checks.fail(format!(
                "{}: the invariant `{name}`",
                crate::vocabulary::UNKNOWN
            ));
            continue;
        };
        match rule {
            Rule::Check(found) => checks.same(name, value, Some(&found(&seen))),
            // One that is said not to hold would contradict what covers it.
            Rule::Covered(by, why) => {
                checks.holds(*value == json!(true), format!("{name} holds: {why}"));
                for word in by.iter().filter(|word| !contains(words, word)) {
                    checks.fail(format!("{name} is not checked without `{word}`: {why}"));
                }
            }
        }
    }
}

/// Returns whether a case contains a word as a key or as a value.
fn contains(words: &Value, word: &str) -> bool {
    match words {
        Value::Object(fields) => fields
            .iter()
            .any(|(key, value)| key == word || (key != "invariants" && contains(value, word))),
        Value::Array(items) => items.iter().any(|item| contains(item, word)),
        Value::String(text) => text == word,
        _ => false,
    }
}
