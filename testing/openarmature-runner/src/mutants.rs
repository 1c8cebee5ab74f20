//! Changes of expectations, each of which must make its case fail.
//!
//! Every value below an expectation is changed in each way that its kind allows: another scalar, null,
//! an absent key, an additional key, an empty, shorter, longer or reversed list. A change that weakens
//! an expectation without contradicting the run cannot fail; [`WEAKER`] lists those.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::run_case;

/// The result of the changes of one or more cases.
#[derive(Clone, Debug, Default)]
pub struct Mutations {
    /// The number of changes that made their case fail.
    pub noticed: usize,
    /// The number of changes that only weaken an expectation, by the reason.
    pub weaker: BTreeMap<&'static str, usize>,
    /// The changes that nothing noticed: the path in the case, and the change.
    pub survivors: Vec<String>,
}

/// The keys below which all values are expectations.
const EXPECTING: &[&str] = &[
    "expected",
    "expected_error",
    "expected_final_state",
    "expected_listener_callback",
    "invariants",
    "loaded_invoke_state_for_scratch",
    "loaded_session_state",
    "refused",
    "saved_session_assertions",
];

/// The part of an expectation that may be weakened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Keys may be absent.
    Keys,
    /// Items may be absent, repeated or in another order.
    Items,
    /// Items are names of absent things: another name is absent too.
    Names,
}

const NOT_MADE: &str = "an assertion that is not made";
const LISTED: &str = "listed keys are compared";
const ABSENT: &str = "a list of absent names";
const EACH: &str = "each text is contained, in any order";

/// The expectations that can be weakened: by their key, with the reason.
const WEAKER: &[(&str, Part, &str)] = &[
    ("expected", Part::Keys, NOT_MADE),
    ("expected_error", Part::Keys, NOT_MADE),
    ("expected_listener_callback", Part::Keys, NOT_MADE),
    ("saved_session_assertions", Part::Keys, NOT_MADE),
    ("invariants", Part::Keys, NOT_MADE),
    (
        "descriptor",
        Part::Keys,
        "the engine may add the place to the metadata",
    ),
    ("error", Part::Keys, NOT_MADE),
    ("cause", Part::Keys, NOT_MADE),
    ("store_after", Part::Keys, NOT_MADE),
    ("checkpointer_assertions", Part::Keys, NOT_MADE),
    ("invoke_args", Part::Keys, NOT_MADE),
    ("reply", Part::Keys, NOT_MADE),
    ("history", Part::Keys, NOT_MADE),
    ("observer_events", Part::Keys, NOT_MADE),
    ("observer_event_invariants", Part::Keys, NOT_MADE),
    ("otel_spans", Part::Keys, NOT_MADE),
    ("span_tree", Part::Keys, NOT_MADE),
    ("children", Part::Keys, NOT_MADE),
    ("log_records", Part::Keys, NOT_MADE),
    ("attributes", Part::Keys, LISTED),
    ("carries", Part::Keys, LISTED),
    ("fields", Part::Keys, LISTED),
    ("messages", Part::Keys, LISTED),
    ("messages_history_contains", Part::Keys, LISTED),
    ("metadata_includes", Part::Keys, LISTED),
    ("outbound_payload_includes", Part::Keys, LISTED),
    ("pending_messages", Part::Keys, LISTED),
    ("replies", Part::Keys, LISTED),
    (
        "messages_history_contains",
        Part::Items,
        "an ordered subsequence",
    ),
    ("content_includes", Part::Items, EACH),
    ("message_includes", Part::Items, EACH),
    ("attributes_absent", Part::Names, ABSENT),
    ("error_category_not", Part::Names, ABSENT),
    ("excludes_fields", Part::Names, ABSENT),
];

/// The effect of a change on an expectation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    Contradicts,
    /// Keys or items are removed, repeated or moved.
    Rearranges(Part),
}

/// Changes every expectation of a case in every way, and runs the case each time.
pub fn mutate(case: &Value) -> Mutations {
    let mut places = Vec::new();
    walk(case, String::new(), false, &mut places);
    let mut all = Mutations::default();
    for place in places {
        let Some(value) = case.pointer(&place) else {
            continue;
        };
        for (what, effect, changed) in changes(value) {
            let mut mutant = case.clone();
            if let Some(at) = mutant.pointer_mut(&place) {
                *at = changed;
            }
            if !run_case(&mutant).failures.is_empty() {
                all.noticed += 1;
            } else if let Some(reason) = reason(case, &place, effect) {
                *all.weaker.entry(reason).or_default() += 1;
            } else {
                all.survivors.push(format!("{place}: {what}"));
            }
        }
    }
    all
}

impl Mutations {
    /// Adds the result of another case, with the name of that case before its survivors.
    pub fn add(&mut self, name: &str, other: Self) {
        self.noticed += other.noticed;
        for (reason, count) in other.weaker {
            *self.weaker.entry(reason).or_default() += count;
        }
        let survivors = other.survivors.into_iter();
        self.survivors
            .extend(survivors.map(|survivor| format!("{name}: {survivor}")));
    }
}

/// Returns why a change cannot be noticed, if it is one of those.
fn reason(case: &Value, place: &str, effect: Effect) -> Option<&'static str> {
    let (container, in_chat) = container(case, place);
    let allowed = |part: Part| match effect {
        Effect::Contradicts => part == Part::Names,
        Effect::Rearranges(moved) => part == moved || part == Part::Names,
    };
    let key = match container {
        // In a chat, the key lists what is in the history.
        "final_state" if in_chat => "history",
        key => key,
    };
    let mut rows = WEAKER.iter();
    let row = rows.find(|(known, part, _)| *known == key && allowed(*part));
    row.map(|(_, _, reason)| *reason)
}

/// Returns the key nearest to a place, and whether the place belongs to a chat.
fn container<'a>(case: &Value, place: &'a str) -> (&'a str, bool) {
    let mut keys = place
        .rsplit('/')
        .filter(|key| key.parse::<usize>().is_err());
    let (key, above) = (keys.next(), keys.next());
    // Their keys are the names of observers.
    let key = above
        .filter(|key| matches!(*key, "observer_events" | "otel_spans"))
        .or(key);
    let in_chat = case.get("chat_turns").is_some();
    (key.unwrap_or_default(), in_chat)
}

/// Collects the places of all expectations.
fn walk(value: &Value, path: String, expecting: bool, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let below = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
                let expecting = expecting || EXPECTING.contains(&key.as_str());
                walk(value, below, expecting, found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(item, format!("{path}/{index}"), expecting, found);
            }
        }
        _ => {}
    }
    if expecting {
        found.push(path);
    }
}

/// The changes of a value.
fn changes(value: &Value) -> Vec<(String, Effect, Value)> {
    use Effect::{Contradicts, Rearranges};
    let mut all = Vec::new();
    let mut add = |what: &str, effect, changed: Value| {
        if changed != *value {
            all.push((what.to_owned(), effect, changed));
        }
    };
    match value {
        Value::Null => {
            add("null to a text", Contradicts, json!("~"));
            add("null to {}", Contradicts, json!({}));
        }
        Value::Bool(value) => add("the opposite", Contradicts, json!(!value)),
        Value::Number(number) => {
            let next = number.as_i64().map_or(0, |number| number.saturating_add(1));
            add("another number", Contradicts, json!(next));
        }
        Value::String(text) => {
            add("another text", Contradicts, json!(format!("{text}~")));
            if text.starts_with('<') {
                let inside = text.trim_start_matches('<').trim_end_matches('>');
                add(
                    "another placeholder",
                    Contradicts,
                    json!(format!("<no {inside}>")),
                );
                add(
                    "an unknown run",
                    Contradicts,
                    json!("<from nobody suspended outcome>"),
                );
            }
        }
        Value::Array(items) => {
            let longer = |item: Value| {
                let items = items.iter().cloned().chain([item]);
                Value::Array(items.collect())
            };
            add("an additional item", Contradicts, longer(json!({ "~": 1 })));
            add("emptied", Rearranges(Part::Items), json!([]));
            if let Some((last, others)) = items.split_last() {
                add(
                    "the last one repeated",
                    Rearranges(Part::Items),
                    longer(last.clone()),
                );
                add(
                    "the last one removed",
                    Rearranges(Part::Items),
                    json!(others),
                );
                let reversed: Vec<_> = items.iter().rev().collect();
                add("reversed", Rearranges(Part::Items), json!(reversed));
            }
        }
        Value::Object(fields) => {
            let mut more = fields.clone();
            more.insert("~".to_owned(), json!(1));
            add("an additional key", Contradicts, Value::Object(more));
            let mut more = fields.clone();
            more.insert("~".to_owned(), Value::Null);
            add("an additional null", Contradicts, Value::Object(more));
            add("emptied", Rearranges(Part::Keys), json!({}));
            for key in fields.keys() {
                let others = fields.iter().filter(|(other, _)| *other != key);
                let others: Map<_, _> = others.map(|(k, v)| (k.clone(), v.clone())).collect();
                let what = format!("`{key}` removed");
                add(&what, Rearranges(Part::Keys), Value::Object(others));
            }
        }
    }
    if !value.is_null() {
        add("null", Contradicts, Value::Null);
        add(
            "{}",
            if value.is_object() {
                Rearranges(Part::Keys)
            } else {
                Contradicts
            },
            json!({}),
        );
    }
    let mut known = BTreeSet::new();
    all.retain(|(_, _, changed)| known.insert(changed.to_string()));
    all
}
