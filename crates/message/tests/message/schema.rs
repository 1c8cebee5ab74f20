//! Validation against schemas, and the limits of its cost.

use logue_message::schema::{MAX_VIOLATIONS, Schema, SchemaError};
use serde_json::{Value, json};

fn violations(schema: &Value, value: &Value) -> Vec<String> {
    let schema = match Schema::compile(schema) {
        Ok(schema) => schema,
        Err(error) => panic!("{error}"),
    };
    let mut violations: Vec<_> = schema
        .violations(value)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(schema.is_valid(value), violations.is_empty());
    violations.sort();
    violations
}

#[test]
fn a_violation_has_a_position_and_a_message() {
    let schema = json!({
        "type": "object",
        "required": ["name"],
        "additionalProperties": false,
        "properties": {
            "name": {"type": "string", "minLength": 2},
            "age": {"type": "integer", "minimum": 0},
            "tags": {"type": "array", "maxItems": 2, "items": {"enum": ["a", "b"]}},
            "a/b~c": {"const": 1},
            "mail": {"type": "string", "pattern": "^[^@]+@(?!x)[^@]+$"},
            "next": {"$ref": "#"},
        },
    });
    for (value, expected) in [
        (json!({"name": "Ada", "age": 3, "tags": ["a", "b"]}), vec![]),
        (json!({"name": "Ada", "next": {"name": "Eve"}}), vec![]),
        (json!({}), vec![r#""name" is a required property"#]),
        (json!([]), vec![r#"the value is not of type "object""#]),
        (
            json!({"name": "Ada", "next": {"name": 1}}),
            vec![r#"/next/name: the value is not of type "string""#],
        ),
        (
            json!({"name": "Ada", "tags": ["a", "c"], "age": -1}),
            vec![
                "/age: the value is less than the minimum of 0",
                r#"/tags/1: the value is not one of "a" or "b""#,
            ],
        ),
        (
            json!({"name": "Ada", "a/b~c": 2}),
            vec!["/a~1b~0c: 1 was expected"],
        ),
        (
            json!({"name": "Ada", "mail": "a@x"}),
            vec![r#"/mail: the value does not match "^[^@]+@(?!x)[^@]+$""#],
        ),
        (
            json!({"name": "Ada", "more": true}),
            vec!["Additional properties are not allowed ('more' was unexpected)"],
        ),
    ] {
        assert_eq!(violations(&schema, &value), expected, "{value}");
    }
}

#[test]
fn drafts_are_selected_by_name() {
    // `exclusiveMinimum` is a boolean in draft 4 and a number since draft 6.
    let four = json!({"$schema": "http://json-schema.org/draft-04/schema#",
        "minimum": 1, "exclusiveMinimum": true});
    let now = json!({"exclusiveMinimum": 1});
    for schema in [four, now] {
        assert_eq!(violations(&schema, &json!(1)).len(), 1, "{schema}");
        assert_eq!(violations(&schema, &json!(2)).len(), 0, "{schema}");
    }
}

#[test]
fn an_invalid_schema_is_rejected_with_its_position() {
    let long = "x".repeat(300_000);
    for (schema, words) in [
        (json!({"type": "objekt"}), "invalid JSON Schema at `#/type`"),
        (
            json!({"properties": {"a": {"minimum": "3"}}}),
            "`#/properties/a/minimum`",
        ),
        (json!({"pattern": "("}), "`#/pattern`"),
        (
            json!({"$ref": "https://example.com/s.json"}),
            "nothing is fetched",
        ),
        (json!({"$ref": "file:///etc/passwd"}), "nothing is fetched"),
        (
            json!({"items": {"$ref": "other.json#/a"}}),
            "`other.json#/a` at `#/items/$ref`",
        ),
        (
            json!({"$ref": "#/$defs/nowhere"}),
            "is not part of the schema",
        ),
        (
            json!({"$schema": "https://example.com/meta"}),
            "invalid JSON Schema",
        ),
        (json!({"$ref": "#"}), "refers to itself"),
        (json!({"description": long}), "256"),
        (json!(3), "invalid JSON Schema"),
    ] {
        let words = if words == "256" {
            "maximum of 262144"
        } else {
            words
        };
        let error = Schema::compile(&schema).unwrap_err().to_string();
        assert!(error.contains(words), "{error} has no {words}");
    }
}

#[test]
fn a_cyclic_schema_is_rejected() {
    let round = json!({
        "$ref": "#/$defs/a",
        "$defs": {
            "a": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/b"}]},
            "b": {"not": {"allOf": [{"$ref": "#/$defs/a"}]}},
        },
    });
    assert!(matches!(
        Schema::compile(&round),
        Err(SchemaError::Endless(_))
    ));
}

#[test]
fn a_schema_that_branches_at_every_level_has_bounded_cost() {
    // At the same position: every definition uses the next one twice.
    let mut definitions = serde_json::Map::new();
    for n in 0..60 {
        let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
        definitions.insert(format!("d{n}"), json!({"allOf": [next, next]}));
    }
    definitions.insert("d60".to_owned(), json!({"type": "string"}));
    let wide = json!({"$ref": "#/$defs/d0", "$defs": definitions});
    assert!(violations(&wide, &json!(1))[0].contains("nested too deeply"));

    // Deeper in the value: a level is evaluated twice for each evaluation of the level above.
    let deep = json!({
        "properties": {"x": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}},
        "additionalProperties": {"type": "string"},
    });
    let mut value = json!({});
    for _ in 0..5 {
        value = json!({"x": value});
    }
    assert_eq!(violations(&deep, &value), Vec::<String>::new());
    for _ in 0..60 {
        value = json!({"x": value});
    }
    assert!(violations(&deep, &value)[0].contains("nested too deeply"));
}

#[test]
fn a_tree_may_be_as_deep_as_json_may() {
    let tree = json!({
        "anyOf": [
            {"type": "integer"},
            {"type": "object", "required": ["left"],
             "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}},
        ],
    });
    let mut value = json!(1);
    for _ in 0..120 {
        value = json!({"left": value, "right": 2});
    }
    assert_eq!(violations(&tree, &value), Vec::<String>::new());
}

#[test]
fn a_long_chain_of_references_does_not_overflow_the_stack() {
    let mut definitions = serde_json::Map::new();
    for n in 0..3_000 {
        let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
        definitions.insert(format!("d{n}"), next);
    }
    definitions.insert("d3000".to_owned(), json!({"type": "string"}));
    // In the order of the definitions, and reversed.
    let forwards = json!({"$ref": "#/$defs/d0", "$defs": definitions});
    let names = (0..=3_000)
        .rev()
        .map(|n| json!({"$ref": format!("#/$defs/d{n}")}));
    let backwards = json!({"prefixItems": names.collect::<Vec<_>>(), "$defs": definitions});
    for schema in [forwards, backwards] {
        let error = Schema::compile(&schema).unwrap_err().to_string();
        assert!(error.contains("levels"), "{error}");
    }
}

#[test]
fn an_expression_that_backtracks_endlessly_is_stopped() {
    let schema = json!({"type": "string", "pattern": r"^(?=(a+)+$)\1b$"});
    let violations = violations(&schema, &json!("a".repeat(10_000)));
    assert_eq!(violations.len(), 1, "{violations:?}");
}

#[test]
fn violations_are_few_and_short() {
    let schema = json!({"items": {"enum": ["x".repeat(1_000)]}});
    let value = Value::Array(vec![json!(0); 1_000]);
    let violations = violations(&schema, &value);
    assert_eq!(violations.len(), MAX_VIOLATIONS);
    assert!(
        violations
            .iter()
            .all(|violation| violation.chars().count() < 320)
    );
}
