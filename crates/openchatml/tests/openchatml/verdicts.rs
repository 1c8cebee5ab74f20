//! `check` reports exactly the calls whose arguments the runtime refuses.

use logue_message::Arguments;
use logue_message::schema::Schema;
use openchatml::{check, parse};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Returns whether the declared schema refuses a call, without any conversion of the schema.
///
/// A schema that accepts no object is not enforced.
fn is_refused(schema: &Value, text: &str) -> bool {
    let accepts_objects = match &schema["type"] {
        Value::Null => true,
        Value::Array(types) => types.contains(&json!("object")),
        kind => kind == "object",
    };
    let parameters = if accepts_objects {
        schema
    } else {
        &json!({"type": "object"})
    };
    let Ok(mut object) = Arguments::from_text(text).object() else {
        return true;
    };
    if parameters["properties"].get("deadline_ms").is_none()
        && let Some(deadline) = object.remove("deadline_ms")
        && deadline.as_u64().is_none_or(|deadline| deadline == 0)
    {
        return true;
    }
    let schema = Schema::compile(parameters);
    schema.is_ok_and(|schema| !schema.is_valid(&Value::Object(object)))
}

/// Returns whether `check` reports a call on a transcript that declares the tool.
fn is_reported(schema: &Value, text: &str) -> bool {
    let tools = json!([{"name": "f", "parameters": schema}]);
    let transcript = format!(
        "version: 2.2\n<|start|>developer<|message|>{tools}<|end|>\n\
         <|start|>assistant to=functions.f call_id=1<|channel|>commentary<|message|>{text}<|call|>\n"
    );
    let found = check(&parse(transcript.as_bytes()));
    found.iter().any(|one| {
        one.code.as_str() == "E-CALL-SCHEMA" && one.message.contains("do not fit its declaration")
    })
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c/d", "deadline_ms", "0"]).prop_map(str::to_owned)
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..6).prop_map(Value::from),
        prop::sample::select(vec![0.5, 1.0, 2.5, -1.0]).prop_map(Value::from),
        prop::sample::select(vec!["", "x", "xy", "abc", "é"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec((name(), inner), 0..3)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

fn schema() -> impl Strategy<Value = Value> {
    let kind = prop::sample::select(vec![
        "object", "array", "string", "number", "integer", "boolean", "null",
    ]);
    let leaf = prop_oneof![
        4 => kind.clone().prop_map(|kind| json!({"type": kind})),
        1 => (kind.clone(), kind).prop_map(|(one, other)| json!({"type": [one, other]})),
        1 => prop::collection::vec(value(), 1..3).prop_map(|values| json!({"enum": values})),
        1 => value().prop_map(|value| json!({"const": value})),
        1 => Just(json!({"type": "string", "enum": ["x", "abc"]})),
        1 => Just(json!({"type": "string", "pattern": "^x"})),
        1 => Just(json!({"type": "string", "minLength": 1, "maxLength": 2})),
        1 => Just(json!({"type": "number", "minimum": 1, "exclusiveMaximum": 4})),
        1 => Just(json!({"type": "integer", "multipleOf": 2})),
        1 => Just(json!({"type": "string", "nullable": true})),
        1 => Just(json!({"type": "array", "uniqueItems": true, "minItems": 1})),
        1 => Just(json!({"not": {"type": "string"}})),
        1 => Just(json!({"minimum": "three"})),
        1 => Just(json!({"$ref": "#"})),
        1 => Just(json!(true)),
        1 => Just(json!(false)),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let object = (
            prop::collection::vec((name(), inner.clone()), 0..3),
            prop::collection::vec(name(), 0..2),
            prop::option::of(prop_oneof![Just(json!(false)), inner.clone()]),
        );
        let object = object.prop_map(|(properties, required, additional)| {
            let properties: Map<String, Value> = properties.into_iter().collect();
            let mut schema = json!({"type": "object", "properties": properties});
            if !required.is_empty() {
                schema["required"] = json!(required);
            }
            if let Some(additional) = additional {
                schema["additionalProperties"] = additional;
            }
            schema
        });
        let combined = prop::sample::select(vec!["anyOf", "oneOf", "allOf"]);
        let combined = (combined, prop::collection::vec(inner.clone(), 1..3));
        prop_oneof![
            4 => object,
            1 => inner.clone().prop_map(|item| json!({"type": "array", "items": item})),
            1 => combined.prop_map(|(keyword, schemas)| json!({keyword: schemas})),
            1 => inner.prop_map(|inner| json!({"patternProperties": {"^a": inner}})),
        ]
    })
}

/// Arguments, most of them objects, some no JSON or unreadable as values.
fn arguments() -> impl Strategy<Value = String> {
    let object = prop::collection::vec((name(), value()), 0..4);
    prop_oneof![
        8 => object.prop_map(|pairs| Value::Object(pairs.into_iter().collect()).to_string()),
        1 => value().prop_map(|value| value.to_string()),
        1 => prop::sample::select(vec![
            "{}",
            " {} ",
            "",
            " ",
            "{\"a\":1,\"a\":\"x\"}",
            "{\"a\":1e999}",
            "{\"a\":\"\\ud800\"}",
            "{\"z\":1e999}",
            "{\"z\":\"\\ud800\"}",
            "{\"a\":",
            "{\"deadline_ms\":5}",
            "{\"deadline_ms\":0}",
            "{\"deadline_ms\":5.0}",
            "null",
        ])
        .prop_map(str::to_owned),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::soak::rounds(500, 40_000)))]

    #[test]
    fn a_refused_call_is_reported_and_no_other(schema in schema(), text in arguments()) {
        let schema = if schema.is_object() { schema } else { json!({"type": "object"}) };
        prop_assert_eq!(is_reported(&schema, &text), is_refused(&schema, &text), "{} {}", schema, text);
    }

    #[test]
    fn roots_of_every_form_agree(
        inner in schema(),
        required in prop::collection::vec(name(), 0..2),
        form in 0..5,
        text in arguments(),
    ) {
        let mut object = json!({"type": "object", "properties": {"a": inner}});
        if !required.is_empty() {
            object["required"] = json!(required);
        }
        let schema = match form {
            0 => json!({"$ref": "#/$defs/R", "$defs": {"R": object}}),
            1 => json!({"type": ["object", "null"], "properties": {"a": inner}}),
            2 => json!({"anyOf": [object, {"required": ["b"]}]}),
            3 => json!({"not": object}),
            _ => json!({"properties": {"a": inner}}),
        };
        prop_assert_eq!(is_reported(&schema, &text), is_refused(&schema, &text), "{} {}", schema, text);
    }

    #[test]
    fn objects_agree_too(inner in schema(), required in prop::collection::vec(name(), 0..2), text in arguments()) {
        let mut schema = json!({"type": "object", "properties": {"a": inner}});
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        prop_assert_eq!(is_reported(&schema, &text), is_refused(&schema, &text), "{} {}", schema, text);
    }
}

#[test]
fn a_violation_beyond_the_nodes_has_a_position() {
    let schema =
        json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "^x"}}});
    let tools = json!([{"name": "f", "parameters": schema}]);
    let text = format!(
        "version: 2.2\n<|start|>developer<|message|>{tools}<|end|>\n\
         <|start|>assistant to=functions.f call_id=1<|channel|>commentary<|message|>{{\"a\":\"y\"}}<|call|>\n"
    );
    let found = check(&parse(text.as_bytes()));
    let mismatch = found
        .iter()
        .find(|one| one.code.as_str() == "E-CALL-SCHEMA")
        .unwrap();
    assert_eq!(mismatch.primary.text(&text), Some("\"y\""));
    assert_eq!(
        mismatch.message,
        "the arguments of `functions.f` do not fit its declaration: `$.a` is invalid (the value does \
         not match \"^x\")"
    );
}

#[test]
fn a_reference_and_a_list_of_types_at_the_root_are_validated() {
    let object = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    for schema in [
        json!({"$ref": "#/$defs/R", "$defs": {"R": object}}),
        json!({"type": ["object", "null"], "properties": {"a": {"type": "integer"}}}),
        json!({"anyOf": [object]}),
    ] {
        assert!(is_reported(&schema, r#"{"a":"x"}"#), "{schema}");
        assert!(!is_reported(&schema, r#"{"a":1}"#), "{schema}");
    }
}
