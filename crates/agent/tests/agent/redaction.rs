//! What matches a pattern is not written, and what is written stays what it was otherwise.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use logue_agent::{
    Redaction, RedactionError, ResponseCache, TranscriptError, TranscriptFile, TranscriptItem,
    TranscriptWriter as _,
};
use logue_message::{ChatMessage, ContentBlock, ToolCall};
use proptest::prelude::*;
use serde_json::Value;

const SECRET: &str = "sk-abcdefghij0123456789";

fn redaction(rules: &[(&str, &str)]) -> Redaction {
    let mut redaction = Redaction::default();
    for (name, pattern) in rules {
        redaction.add(name, pattern).unwrap();
    }
    redaction
}

fn api_key() -> Redaction {
    redaction(&[("api-key", "sk-[A-Za-z0-9]{20,}")])
}

#[test]
fn text() {
    let short = ("short", "sk-[a-z]{4}");
    let long = ("long", "sk-[a-z0-9]{8,}");
    let digits = ("digits", "[0-9]{4,}");
    for (rules, text, expected) in [
        (&[][..], SECRET, SECRET),
        (&[long], "nothing here", "nothing here"),
        (&[long], "a sk-abcdefg12 b", "a [redacted:long] b"),
        (
            &[long],
            "sk-abcdefgh sk-ijklmnop",
            "[redacted:long] [redacted:long]",
        ),
        // The short match of one leaves nothing of the long one of another behind.
        (&[short, long], "x sk-abcdefg12 y", "x [redacted:long] y"),
        (&[long, short], "x sk-abcdefg12 y", "x [redacted:long] y"),
        // Overlapping places are one.
        (
            &[("a", "one two"), ("b", "two three")],
            "one two three",
            "[redacted:a]",
        ),
        (
            &[("a", "one"), ("b", "two")],
            "onetwo",
            "[redacted:a][redacted:b]",
        ),
        (&[digits], "é1234é", "é[redacted:digits]é"),
        // A placeholder is no secret, though its name looks like one.
        (
            &[("sk-live-key", "sk-[a-z-]{5,}")],
            "[redacted:sk-live-key]",
            "[redacted:sk-live-key]",
        ),
        (&[("x", "[a-z]{4,}")], "[redacted:y]", "[[redacted:x]:y]"),
        (
            &[("line", "(?m)^password=.*$")],
            "a\npassword=x y\nb",
            "a\n[redacted:line]\nb",
        ),
        // Matches of nothing are none.
        (&[("edge", r"zzz|\b")], "zzz", "[redacted:edge]"),
    ] {
        let rules: Vec<_> = rules.to_vec();
        let mut redaction = Redaction::default();
        let added = rules
            .iter()
            .try_for_each(|(name, pattern)| redaction.add(name, pattern));
        assert_eq!(added, Ok(()), "{rules:?}");
        assert_eq!(redaction.text(text), expected, "{rules:?}");
        assert_eq!(redaction.finds(text), text != expected);
        assert_eq!(redaction.text(expected), expected, "twice is once");
    }
}

#[test]
fn arguments() {
    let rules = redaction(&[
        ("api-key", "sk-[A-Za-z0-9]{20,}"),
        ("card", "[0-9]{16}"),
        ("password", "(?i)password[\"': ]+[^\"',} ]+"),
    ]);
    for (text, expected) in [
        (String::new(), String::new()),
        (r#" { "a" : 1 } "#.into(), r#" { "a" : 1 } "#.into()),
        (
            format!(r#"{{"k": "Bearer {SECRET}", "é": [true, null, -1.5e3]}}"#),
            r#"{"k": "Bearer [redacted:api-key]", "é": [true, null, -1.5e3]}"#.into(),
        ),
        // In a key, and spelled with escapes.
        (
            format!(r#"{{"{SECRET}":"x"}}"#),
            r#"{"[redacted:api-key]":"x"}"#.into(),
        ),
        (
            format!(r#"{{"k":"\u0073k\u002d{}\n\"q\""}}"#, &SECRET[3..]),
            r#"{"k":"[redacted:api-key]\n\"q\""}"#.into(),
        ),
        // A number becomes a string.
        (
            r#"{"n":1234567812345678}"#.into(),
            r#"{"n":"[redacted:card]"}"#.into(),
        ),
        // What matches across the structure takes everything along.
        (
            r#"{"password": "hunter2", "user": "bob"}"#.into(),
            r#"{"redacted":"[redacted:password]"}"#.into(),
        ),
        // Half of a surrogate pair is JSON and no text.
        (
            format!(r#"["\ud800{SECRET}"]"#),
            r#"["[redacted:api-key]"]"#.into(),
        ),
        // No JSON: the text as it is.
        (
            format!("{{\"k\": \"{SECRET}"),
            "{\"k\": \"[redacted:api-key]".into(),
        ),
        (
            format!("*** {SECRET} \""),
            "*** [redacted:api-key] \"".into(),
        ),
    ] {
        let redacted = rules.arguments(&text);
        assert_eq!(redacted, expected);
        assert_eq!(rules.arguments(&expected), expected, "twice is once");
        if serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok() {
            serde_json::from_str::<Value>(&redacted).unwrap();
        }
    }
}

#[test]
fn bad_rules_are_refused() {
    let mut redaction = Redaction::default();
    for name in ["", "API", "a b", "a_b", "é", "a]"] {
        let error = redaction.add(name, "x").unwrap_err();
        assert_eq!(error, RedactionError::Name(name.to_owned()));
    }
    for pattern in ["(", "a{9999999}", "(?=x)", r"(a)\1", "[z-a]"] {
        let error = redaction.add("a", pattern).unwrap_err();
        assert!(
            matches!(&error, RedactionError::Pattern(why) if !why.is_empty() && !why.contains('\n')),
            "{pattern}: {error}"
        );
    }
    for pattern in ["", "x*", "(a|)", "^"] {
        assert_eq!(
            redaction.add("a", pattern),
            Err(RedactionError::Empty),
            "{pattern}"
        );
    }
    assert!(redaction.is_empty());
}

fn json() -> impl Strategy<Value = Value> {
    let text = || {
        prop_oneof![
            any::<String>(),
            Just(SECRET.to_owned()),
            any::<(String, String)>().prop_map(|(a, b)| format!("{a} {SECRET} {b}")),
        ]
    };
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((text(), inner), 0..4)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

/// The value with every string redacted.
fn expected(value: &Value, rules: &Redaction) -> Value {
    match value {
        Value::String(text) => Value::from(rules.text(text).into_owned()),
        Value::Array(items) => items.iter().map(|item| expected(item, rules)).collect(),
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| (rules.text(key).into_owned(), expected(value, rules)))
                .collect(),
        ),
        other => other.clone(),
    }
}

proptest! {
    #[test]
    fn json_stays_the_json_it_was(value in json(), pretty in any::<bool>()) {
        let text = if pretty {
            serde_json::to_string_pretty(&value).unwrap()
        } else {
            value.to_string()
        };
        let rules = api_key();
        let redacted = rules.arguments(&text);
        prop_assert!(!redacted.contains(SECRET));
        let read: Value = serde_json::from_str(&redacted).unwrap();
        prop_assert_eq!(read, expected(&value, &rules));
        if !text.contains(SECRET) {
            prop_assert_eq!(redacted.as_ref(), text.as_str());
        }
    }

    #[test]
    fn any_text_keeps_what_does_not_match(before in any::<String>(), after in any::<String>()) {
        // What touches the secret could be a part of it.
        let text = format!("{before} {SECRET} {after}");
        let rules = api_key();
        let redacted = rules.text(&text);
        prop_assert_eq!(redacted.as_ref(), format!("{before} [redacted:api-key] {after}"));
        prop_assert_eq!(rules.text(&redacted), redacted.as_ref());
        prop_assert_eq!(rules.arguments(&text).contains(SECRET), false);
    }
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push((path.display().to_string(), fs::read(&path).unwrap()));
        }
    }
    found
}

fn assert_no_secret(folder: &Path) {
    for (name, bytes) in files(folder) {
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains(SECRET), "{name}: {text}");
    }
}

/// Elements that hold the secret wherever something is said.
fn elements() -> Vec<TranscriptItem> {
    let call = ToolCall::new("c1", "f", format!("{{\"key\":\"{SECRET}\"}}"))
        .with_signature("signed".to_owned());
    let answer = ChatMessage::assistant(vec![
        ContentBlock::Thinking {
            text: format!("hm, {SECRET}"),
            signature: Some("signed".into()),
            id: Some("rs_1".into()),
        },
        ContentBlock::Thinking {
            text: "nothing secret".into(),
            signature: Some("kept".into()),
            id: None,
        },
        ContentBlock::text(format!("the key is {SECRET}")),
    ])
    .with_tool_calls(vec![call.clone()]);
    let mut elements = vec![TranscriptItem::User(format!("use {SECRET}"))];
    elements.extend(TranscriptItem::from_answer(&answer));
    let text = format!("it printed {SECRET}");
    elements.push(TranscriptItem::ToolResponse {
        call,
        text,
        images: Vec::new(),
    });
    elements
}

#[test]
fn nothing_that_is_appended_holds_the_secret() {
    for (external, inline_bytes) in [(false, 1000), (true, 1000), (false, 0)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.md");
        fs::write(&path, "<config model=\"m\"/>\n").unwrap();
        let mut file = TranscriptFile::open(&path, Duration::ZERO, || {}).unwrap();
        if external {
            file.externalise_payloads();
        }
        file.set_inline_bytes(inline_bytes);
        file.redact(api_key());
        file.append(&elements()).unwrap();
        assert_no_secret(folder.path());
        let all: String = files(folder.path())
            .iter()
            .map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned())
            .collect();
        assert_eq!(all.matches("[redacted:api-key]").count(), 5, "{all}");
        // What was changed is no longer what was signed.
        assert_eq!(
            (all.matches("signed").count(), all.matches("kept").count()),
            (0, 1),
            "{all}"
        );
    }
}

#[test]
fn a_rescue_file_holds_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.md");
    fs::write(&path, "<user>go</user>\n").unwrap();
    let mut file = TranscriptFile::open(&path, Duration::ZERO, || {}).unwrap();
    file.redact(api_key());
    fs::write(&path, "<user>somebody writes").unwrap();
    let error = file.append(&elements()).unwrap_err();
    let TranscriptError::Changed { rescue, .. } = error else {
        panic!("{error}");
    };
    let rescued = fs::read_to_string(rescue).unwrap();
    assert_eq!(
        rescued.matches("[redacted:api-key]").count(),
        5,
        "{rescued}"
    );
    assert_no_secret(folder.path());
}

#[test]
fn an_answer_that_holds_a_secret_is_not_cached() {
    let folder = tempfile::tempdir().unwrap();
    let cache =
        ResponseCache::new(folder.path().join("c"), Duration::from_secs(60)).without(api_key());
    cache.put("a", &format!("it is {SECRET}"));
    cache.put("b", "it is nothing");
    assert_eq!(cache.get("a"), None);
    assert_eq!(cache.get("b").as_deref(), Some("it is nothing"));
    assert_no_secret(folder.path());
}
