//! Shapes: what a JSON Schema accepts, why a text is refused and where, and as properties that
//! what is made from a schema fits and what is broken does not.

use openchatml::argument_schema::ArgumentSchema;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// What `check` says: the path, what was expected and found, and the text that is meant.
fn refusal(schema: &Value, text: &str) -> Option<String> {
    let shape = ArgumentSchema::from_json_schema(schema);
    let mismatch = shape.check(text.as_bytes()).err()?;
    let meant = mismatch.span.text(text).unwrap();
    Some(format!("{mismatch} @ {meant}"))
}

fn assert_fits(schema: &Value, texts: &[&str]) {
    for text in texts {
        assert_eq!(refusal(schema, text), None, "{schema} {text}");
        if let Ok(value) = serde_json::from_str(text) {
            assert!(ArgumentSchema::from_json_schema(schema).accepts(&value));
        }
    }
}

fn assert_refused(schema: &Value, cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let refusal = refusal(schema, text);
        assert_eq!(refusal.as_deref(), Some(*expected), "{schema} {text}");
    }
}

#[test]
fn types_are_checked() {
    assert_fits(
        &json!({"type": "integer"}),
        &["1", "-1", "1.0", "1e3", "18446744073709551615"],
    );
    assert_fits(&json!({"type": "number"}), &["1", "1.5"]);
    assert_fits(
        &json!({"type": ["string", "null"]}),
        &["\"a\"", "null", " null "],
    );
    assert_fits(&json!(true), &["1", "{}"]);
    assert_refused(
        &json!({"type": "integer"}),
        &[
            (
                "1.5",
                "$: expected a whole number, found a number with a fraction or exponent @ 1.5",
            ),
            ("true", "$: expected a whole number, found a boolean @ true"),
            ("[1]", "$: expected a whole number, found an array @ ["),
        ],
    );
    assert_refused(
        &json!({"type": ["string", "null"]}),
        &[(
            "1",
            "$: expected a string or null, found a whole number @ 1",
        )],
    );
    assert_refused(
        &json!(false),
        &[("null", "$: expected nothing at all, found null @ null")],
    );
}

#[test]
fn literals_are_compared_as_values() {
    let schema = json!({"enum": ["a", 1, null, [1, {"x": 2.0}]]});
    assert_fits(
        &schema,
        &["\"a\"", "1.0", "null", "[1.0, {\"x\": 2}]", "\"\\u0061\""],
    );
    let expected = "$: expected `\"a\"`, `1`, `null` or a certain array or object, found";
    assert_refused(
        &schema,
        &[
            ("\"b\"", &format!("{expected} another string @ \"b\"")),
            ("2", &format!("{expected} a whole number @ 2")),
            ("[1]", &format!("{expected} an array @ [")),
        ],
    );
    assert_refused(
        &json!({"const": {"a": 1}}),
        &[(
            "{\"a\":2}",
            "$: expected a certain array or object, found an object @ {",
        )],
    );
}

#[test]
fn objects_are_checked_with_their_keys() {
    let schema = json!({
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "boolean"}},
        "required": ["a", "c"],
        "additionalProperties": {"type": "number"},
    });
    assert_fits(
        &schema,
        &[r#"{"a":"x","c":1}"#, r#"{"c":1,"b":false,"a":"","d":2.5}"#],
    );
    assert_refused(
        &schema,
        &[
            (
                "{}",
                "$: expected the property `a`, found an object without it @ {",
            ),
            (
                r#"{"a":"x"}"#,
                "$: expected the property `c`, found an object without it @ {",
            ),
            (
                r#"{"a":"x","c":""}"#,
                "$.c: expected a number, found a string @ \"\"",
            ),
            (
                r#"{"a": 12 ,"c":1}"#,
                "$.a: expected a string, found a whole number @ 12",
            ),
            (
                r#"{"a":"","c":1,"a b":null}"#,
                "$[\"a b\"]: expected a number, found null @ null",
            ),
        ],
    );
    let closed = json!({"properties": {"a": {}}, "additionalProperties": false});
    assert_fits(&closed, &["{}", "1", r#"{"a":[]}"#]);
    assert_refused(
        &closed,
        &[(
            r#"{"a":1,"\u0062":{"c":1}}"#,
            "$.b: expected no other property than `a`, found the property `b` @ \"\\u0062\"",
        )],
    );
}

#[test]
fn arrays_and_bounds_are_checked() {
    let schema = json!({
        "type": "array", "minItems": 1, "maxItems": 2,
        "items": {"type": "string", "minLength": 2, "maxLength": 3},
    });
    assert_fits(&schema, &[r#"["éé"]"#, r#"["abc","ab"]"#]);
    assert_refused(
        &schema,
        &[
            (
                "[]",
                "$: expected at least 1 item, found a longer or shorter array (0) @ [",
            ),
            ("[ 1]", "$[0]: expected a string, found a whole number @ 1"),
            (
                r#"["ab","é"]"#,
                "$[1]: expected at least 2 characters, found a longer or shorter string (1) @ \"é\"",
            ),
            (
                r#"["ab","ab","ab"]"#,
                "$: expected at most 2 items, found a longer or shorter array (3) @ [",
            ),
        ],
    );
    assert_refused(
        &json!({"minimum": 0, "exclusiveMaximum": 10}),
        &[
            ("-1", "$: expected at least 0, found a smaller number @ -1"),
            (
                "10.0",
                "$: expected less than 10, found a larger number @ 10.0",
            ),
        ],
    );
    // The older form, and numbers that no float can tell apart.
    let old = json!({"minimum": 9_007_199_254_740_993_u64, "exclusiveMinimum": true});
    assert_fits(&old, &["9007199254740994", "\"text\""]);
    assert!(refusal(&old, "9007199254740993").is_some());
}

#[test]
fn alternatives_tell_of_the_one_that_was_meant() {
    let schema = json!({"anyOf": [
        {"type": "null"},
        {"type": "object", "properties": {"kind": {"const": "a"}, "x": {"type": "number"}}},
        {"type": "array", "items": {"type": "string"}},
    ]});
    assert_fits(&schema, &["null", r#"{"kind":"a"}"#, "[]"]);
    assert_refused(
        &schema,
        &[
            (
                "1",
                "$: expected null, an object or an array, found a whole number @ 1",
            ),
            (
                r#"{"x":"1"}"#,
                "$.x: expected a number, found a string @ \"1\"",
            ),
            (
                r#"["a",["b"]]"#,
                "$[1]: expected a string, found an array @ [",
            ),
        ],
    );
    let both = json!({"allOf": [{"required": ["a"]}, {"properties": {"a": {"type": "null"}}}]});
    assert_fits(&both, &[r#"{"a":null}"#]);
    assert_refused(
        &both,
        &[
            (
                "{}",
                "$: expected the property `a`, found an object without it @ {",
            ),
            (r#"{"a":0}"#, "$.a: expected null, found a whole number @ 0"),
        ],
    );
    assert_fits(
        &json!({"type": "string", "nullable": true, "enum": ["a"]}),
        &["null", "\"a\""],
    );
}

#[test]
fn references_may_lead_back() {
    let tree = json!({
        "$ref": "#/$defs/node",
        "$defs": {"node": {
            "type": "object",
            "properties": {"value": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}},
            "required": ["value"],
        }},
    });
    assert_fits(&tree, &[r#"{"value":1,"next":{"value":2}}"#]);
    assert_refused(
        &tree,
        &[(
            r#"{"value":1,"next":{"value":2,"next":{}}}"#,
            "$.next.next: expected the property `value`, found an object without it @ {",
        )],
    );
    let list = json!({"type": "array", "items": {"$ref": "#"}});
    assert_fits(&list, &["[[],[[]]]"]);
    assert!(refusal(&list, "[[],[1]]").is_some());
    // These say nothing, and end.
    for schema in [
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}, {"$ref": "#"}]}),
        json!({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
    ] {
        assert_fits(&schema, &["1", "{}", "[[[[]]]]"]);
    }
}

#[test]
fn what_is_not_known_is_not_checked() {
    for schema in [
        json!(null),
        json!({"type": "date"}),
        json!({"type": ["string", "date"]}),
        json!({"pattern": "^b", "format": "uuid", "not": {}, "if": false}),
        json!({"$ref": "https://example.org/schema"}),
        json!({"$ref": "#/nowhere"}),
        json!({"anyOf": [], "enum": "a", "properties": 1, "required": "x", "items": 3}),
        json!({"minimum": "3", "maxLength": -1, "minItems": 0.5}),
    ] {
        assert_fits(&schema, &["\"a\"", "1", "{}", "[]", "null"]);
    }
    let tuple = json!({"items": [{"type": "string"}], "minItems": 1});
    assert_fits(&tuple, &["[1, 2]"]);
    let pattern = json!({"patternProperties": {"^x": {}}, "additionalProperties": false});
    assert_fits(&pattern, &[r#"{"xa":1}"#]);
}

#[test]
fn what_no_type_here_can_hold_is_not_judged() {
    let schema = json!({"type": "string"});
    let deep = "[".repeat(300) + &"]".repeat(300);
    assert_fits(&schema, &["1e999", "\"\\ud800\"", &deep]);
    // Text that is no JSON is judged.
    assert_refused(
        &schema,
        &[
            ("", "$: expected JSON, found nothing @ "),
            (
                "{\"a\" 1}",
                "$: expected JSON, found text that is not JSON (expected `:`) @ 1",
            ),
            (
                "\"a\" x",
                "$: expected JSON, found text that is not JSON (trailing characters) @ x",
            ),
        ],
    );
    let mismatch = ArgumentSchema::any().check(b"\"\xff\"");
    assert!(mismatch.is_ok(), "that it is not UTF-8 is another finding");
}

#[test]
fn a_repeated_key_counts_once() {
    let schema = json!({"properties": {"a": {"type": "string"}}, "required": ["a", "b"]});
    // As in every reader of JSON here, the last one counts.
    assert_fits(&schema, &[r#"{"a":1,"a":"x","b":1}"#]);
    assert!(refusal(&schema, r#"{"a":"x","a":"y"}"#).is_some());
}

#[test]
fn alternatives_inside_alternatives_end() {
    // Two equal ways at each level: 2^n of them without a limit.
    let schema = json!({"anyOf": [
        {"type": "array", "items": {"$ref": "#"}},
        {"type": "array", "items": {"$ref": "#"}},
    ]});
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    let wide = format!("[{}1]", "[[[[[[1]]]]]],".repeat(2_000));
    for text in [deep, wide] {
        drop(ArgumentSchema::from_json_schema(&schema).check(text.as_bytes()));
    }
}

#[test]
fn alternatives_share_the_steps_of_their_text() {
    // Either takes minutes where each alternative has steps of its own.
    // 2^20 ways for each item, none of which it takes.
    let level =
        |n| json!({"anyOf": [{"$ref": format!("#/$defs/{n}")}, {"$ref": format!("#/$defs/{n}")}]});
    let mut levels: Map<String, Value> = (0..20).map(|n| (n.to_string(), level(n + 1))).collect();
    levels.insert("20".to_owned(), json!({"type": "string"}));
    let schema = json!({"items": {"$ref": "#/$defs/0"}, "$defs": levels});
    let shape = ArgumentSchema::from_json_schema(&schema);
    let text = format!("[{}1]", "1,".repeat(20_000));
    drop(shape.check(text.as_bytes()));
    // Many alternatives, each of which looks at every key.
    let member = |n| json!({"properties": {format!("p{n}"): {}}, "required": [format!("p{n}")]});
    let schema = json!({"anyOf": (0..10_000).map(member).collect::<Vec<_>>()});
    let keys: Vec<_> = (0..10_000).map(|n| format!("\"q{n}\":1")).collect();
    let text = format!("{{{}}}", keys.join(","));
    drop(ArgumentSchema::from_json_schema(&schema).check(text.as_bytes()));
}

#[test]
fn long_lists_of_literals_are_no_slower() {
    // Compared one by one, these are two hundred million comparisons.
    let words: Vec<_> = (0..20_000).map(|n| format!("word {n:05}")).collect();
    let schema = json!({"items": {"enum": words}});
    let shape = ArgumentSchema::from_json_schema(&schema);
    let text = serde_json::to_string(&words).unwrap();
    assert_eq!(shape.check(text.as_bytes()), Ok(()));
    assert!(shape.accepts(&json!(words)));
    let other = shape.check(br#"["word 00001","word 1"]"#).unwrap_err();
    assert_eq!(
        (other.path.as_str(), other.found.as_str()),
        ("$[1]", "another string")
    );
    assert!(shape.check(b"[1]").is_err());
}

/// A schema, and one of the values that it accepts.
fn schema_and_value() -> impl Strategy<Value = (Value, Value)> {
    let leaf = prop_oneof![
        Just((json!({"type": "null"}), Value::Null)),
        any::<bool>().prop_map(|value| (json!({"type": "boolean"}), json!(value))),
        (any::<i32>(), 0..5_i32).prop_map(|(value, over)| {
            let minimum = value.saturating_sub(over);
            (json!({"type": "integer", "minimum": minimum}), json!(value))
        }),
        any::<f32>()
            .prop_filter("JSON has no infinity", |value| value.is_finite())
            .prop_map(|value| (json!({"type": "number"}), json!(value))),
        "[a-z\"\\\\é]{0,6}".prop_map(|value| {
            let length = value.chars().count();
            (json!({"type": "string", "maxLength": length}), json!(value))
        }),
        "[a-c]".prop_map(|value| (json!({"enum": ["a", "b", "c"]}), json!(value))),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let pairs = prop::collection::vec((inner.clone(), any::<bool>()), 0..4);
        let object = pairs.prop_map(|members| {
            let (mut schemas, mut values) = (Map::new(), Map::new());
            let mut required = Vec::new();
            for (index, ((schema, value), given)) in members.into_iter().enumerate() {
                let key = format!("key {index}");
                if given {
                    required.push(key.clone());
                    values.insert(key.clone(), value);
                }
                schemas.insert(key, schema);
            }
            let schema = json!({
                "type": "object", "properties": schemas, "required": required,
                "additionalProperties": false,
            });
            (schema, Value::Object(values))
        });
        prop_oneof![
            object,
            (inner.clone(), 0..4_usize).prop_map(|((schema, value), count)| {
                let schema = json!({"type": "array", "items": schema, "minItems": count});
                (schema, Value::Array(vec![value; count]))
            }),
            (inner.clone(), inner.clone())
                .prop_map(|((a, value), (b, _))| (json!({"anyOf": [b, a]}), value)),
            inner.prop_map(|(schema, value)| (json!({"allOf": [schema, {}]}), value)),
        ]
    })
}

/// What a step of a mismatch breaks.
fn broken(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut object = object.clone();
            object.insert("a key that nobody knows".to_owned(), Value::Null);
            Value::Object(object)
        }
        Value::Array(_) => json!({"no": "array"}),
        Value::Null => json!("not null"),
        _ => json!(["no", "scalar"]),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::soak::rounds(256, 5_120)))]
    #[test]
    fn what_is_made_from_a_schema_fits((schema, value) in schema_and_value()) {
        let shape = ArgumentSchema::from_json_schema(&schema);
        prop_assert_eq!(shape.check(value.to_string().as_bytes()), Ok(()));
        prop_assert!(shape.accepts(&value));
        let named = json!({"$ref": "#/$defs/a~1b", "$defs": {"a/b": schema}});
        prop_assert!(ArgumentSchema::from_json_schema(&named).accepts(&value));
    }

    #[test]
    fn what_is_broken_does_not(
        (schema, value) in schema_and_value()
            .prop_filter("says nothing", |(schema, _)| schema.get("type").is_some() || schema.get("enum").is_some())
    ) {
        let text = serde_json::to_string_pretty(&broken(&value)).unwrap();
        let shape = ArgumentSchema::from_json_schema(&schema);
        let mismatch = shape.check(text.as_bytes()).unwrap_err();
        prop_assert!(mismatch.span.start < mismatch.span.end && mismatch.span.end <= text.len());
        prop_assert!(!shape.accepts(&broken(&value)));
    }

    #[test]
    fn one_pass_and_judging_agree((schema, _) in schema_and_value(), (_, value) in schema_and_value()) {
        let shape = ArgumentSchema::from_json_schema(&schema);
        let text = value.to_string();
        prop_assert_eq!(shape.check(text.as_bytes()).is_ok(), shape.accepts(&value));
    }

    #[test]
    fn no_schema_and_no_text_panics(schema in "[\\[\\]{}:,\"$#/a-z0-9]{0,80}", text in any::<Vec<u8>>()) {
        let schema = serde_json::from_str(&schema).unwrap_or(json!({"type": "object", "required": ["a"]}));
        drop(ArgumentSchema::from_json_schema(&schema).check(&text));
    }
}
