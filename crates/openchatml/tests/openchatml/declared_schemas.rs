//! Schemas that are written as TypeScript and read back: whatever a schema accepts, what was read
//! accepts too. A declaration never makes a sound call wrong, however it is written.

use openchatml::argument_schema::ArgumentSchema;
use openchatml::declare;
use openchatml::harmony::{
    Conversation, DeveloperContent, Form, FunctionTool, HarmonyReadOptions, RenderMessage,
    RenderOptions, RendererCompat, ToolNamespace, read,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Text that somebody may write into a description, a default or a literal.
fn said() -> impl Strategy<Value = String> {
    let words = vec![
        "",
        "plain",
        "two words",
        "it's",
        "\"quoted\"",
        "a // b",
        "/* a",
        "*/",
        "{",
        "}",
        "a: b,",
        "x: number",
        "type f = 1;",
        "} // namespace functions",
        "`",
        "\\",
        "ends in \\",
        "é",
        "a | b",
        "[]",
        "?",
        "null",
        "0",
    ];
    let word = prop::sample::select(words).prop_map(str::to_owned);
    prop_oneof![4 => word, 1 => "[ -~]{0,8}"]
}

/// The same, with lines.
fn description() -> impl Strategy<Value = String> {
    prop::collection::vec(said(), 1..3).prop_map(|lines| lines.join("\n"))
}

fn key() -> impl Strategy<Value = String> {
    let words = vec![
        "a",
        "b2",
        "snake_case",
        "kebab-case",
        "dotted.name",
        "$ref",
        "type",
        "readonly",
        "two words",
        "1st",
        "é",
    ];
    prop::sample::select(words).prop_map(str::to_owned)
}

/// A schema, and a value that it accepts.
fn schema_and_value() -> impl Strategy<Value = (Value, Value)> {
    let leaf = prop_oneof![
        Just((json!({"type": "null"}), Value::Null)),
        any::<bool>().prop_map(|value| (json!({"type": "boolean"}), json!(value))),
        any::<i32>().prop_map(|value| (json!({"type": "integer"}), json!(value))),
        any::<i16>().prop_map(|value| (
            json!({"type": "number", "minimum": value}),
            json!(f64::from(value) + 0.5)
        )),
        said().prop_map(|value| (json!({"type": "string"}), json!(value))),
        prop::collection::vec(said(), 1..4).prop_map(|values| {
            (
                json!({"type": "string", "enum": values}),
                json!(values[values.len() - 1]),
            )
        }),
        prop::collection::vec(any::<i8>(), 1..4)
            .prop_map(|values| { (json!({"type": "integer", "enum": values}), json!(values[0])) }),
        said().prop_map(|value| (json!({"const": value}), json!(value))),
        (said(), any::<bool>()).prop_map(|(value, is_null)| {
            let value = if is_null { Value::Null } else { json!(value) };
            (json!({"type": ["string", "null"]}), value)
        }),
        (any::<i8>(), any::<bool>()).prop_map(|(value, is_null)| {
            let value = if is_null { Value::Null } else { json!(value) };
            (json!({"type": "number", "nullable": true}), value)
        }),
        Just((json!({}), json!({"any": ["thing"]}))),
        Just((json!({"type": "object"}), json!({"a": 1}))),
        Just((json!({"type": "array"}), json!([1, "a"]))),
        Just((json!({"enum": ["a", 1, null, true]}), json!(1))),
        Just((json!({"type": ["array", "number", "object"]}), json!([1]))),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        let member = (key(), inner.clone(), any::<bool>(), proptest::option::of(description()), proptest::option::of(said()));
        let object = (prop::collection::vec(member, 0..4), any::<bool>()).prop_map(|(members, more)| {
            let (mut schemas, mut values, mut required) = (Map::new(), Map::new(), Vec::new());
            for (key, (mut schema, value), given, description, default) in members {
                if schemas.contains_key(&key) {
                    continue;
                }
                if given {
                    required.push(key.clone());
                    values.insert(key.clone(), value);
                }
                if let (Some(text), Value::Object(schema)) = (description, &mut schema) {
                    schema.insert("description".to_owned(), json!(text));
                    schema.insert("title".to_owned(), json!(text));
                }
                if let (Some(text), Value::Object(schema)) = (default, &mut schema) {
                    schema.insert("default".to_owned(), json!(text));
                }
                schemas.insert(key, schema);
            }
            if more {
                values.insert("a key that nobody knows".to_owned(), json!(1));
            }
            let schema = json!({"type": "object", "properties": schemas, "required": required});
            (schema, Value::Object(values))
        });
        prop_oneof![
            3 => object,
            2 => (inner.clone(), 0..3_usize).prop_map(|((schema, value), count)| {
                (json!({"type": "array", "items": schema}), Value::Array(vec![value; count]))
            }),
            1 => (inner.clone(), inner.clone(), description()).prop_map(|((a, value), (b, _), text)| {
                (json!({"anyOf": [b, a], "description": text}), value)
            }),
            1 => (inner.clone(), inner.clone(), description()).prop_map(|((a, value), (b, _), text)| {
                (json!({"oneOf": [a, b], "description": text}), value)
            }),
            1 => inner.prop_map(|(schema, value)| (json!({"allOf": [schema]}), value)),
        ]
    })
}

/// What a `developer` message of this tool reads as.
fn declared(
    schema: &Value,
    description: &str,
    compat: RendererCompat,
) -> Option<declare::Declarations> {
    let tool = FunctionTool::new("f", description, Some(schema.clone()));
    let content = DeveloperContent::new("Be brief.").with_tools(ToolNamespace::functions([tool]));
    let conversation = Conversation::from_iter([RenderMessage::developer(content)]);
    let mut options = RenderOptions::compat(compat);
    options.escape = true;
    let text = conversation.to_text(Form::Conversation, &options).ok()?;
    let document = read(text.as_bytes(), &HarmonyReadOptions::default());
    Some(declare::read(&document.messages[0].content))
}

/// Returns whether openai-harmony 0.0.8 writes a declaration of another meaning. It omits `nullable`
/// within lists, escapes nothing within literals, and puts the second line of a
/// description among the properties, where `a: b,` is one and `/*` hides others.
fn says_something_else(schema: &Value) -> bool {
    let is_word = |character: char| character.is_alphanumeric() || character == ' ';
    let is_escaped = |value: &Value| {
        value
            .as_str()
            .is_some_and(|text| text.contains(['"', '\\']))
    };
    match schema {
        Value::Object(members) => members
            .iter()
            .any(|(key, value)| match (key.as_str(), value) {
                ("nullable", _) => true,
                ("enum", Value::Array(values)) => values.iter().any(is_escaped),
                ("description" | "title", Value::String(text)) => {
                    text.lines().skip(1).any(|line| !line.chars().all(is_word))
                }
                _ => says_something_else(value),
            }),
        Value::Array(values) => values.iter().any(says_something_else),
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::soak::rounds(256, 20_000)))]

    #[test]
    fn what_a_schema_accepts_is_accepted_as_typescript(
        (schema, value) in schema_and_value(), text in description(),
    ) {
        prop_assert!(ArgumentSchema::from_json_schema(&schema).accepts(&value));
        for compat in [RendererCompat::Meant, RendererCompat::OpenAi0_0_8] {
            if compat == RendererCompat::OpenAi0_0_8 && says_something_else(&schema) {
                continue;
            }
            let Some(found) = declared(&schema, &text, compat) else {
                continue;
            };
            let arguments = value.to_string();
            if let Some(shape) = found.tool("functions.f").and_then(|tool| tool.schema.as_ref()) {
                prop_assert_eq!(shape.check(arguments.as_bytes()), Ok(()), "{:?}", compat);
            }
            // What this crate writes, it reads.
            if compat == RendererCompat::Meant {
                prop_assert_eq!(found.issues(), &[]);
                prop_assert!(found.tool("functions.f").is_some());
            }
        }
    }
}

#[test]
fn a_suffix_within_alternatives_may_apply_to_those_before_it() {
    let list = json!({"type": "array", "items": {"type": ["string", "null"]}});
    let schema = json!({"oneOf": [list, {"type": "boolean"}]});
    let found = declared(&schema, "", RendererCompat::OpenAi0_0_8).expect("rendered");
    let tool = found.tool("functions.f").expect("declared");
    let shape = tool.schema.as_ref().expect("a schema");
    for accepted in [r#"[""]"#, "[null]", "true", r#""""#] {
        assert_eq!(shape.check(accepted.as_bytes()), Ok(()), "{accepted}");
    }
    for refused in ["[1]", "1", "{}", "[true]"] {
        assert!(shape.check(refused.as_bytes()).is_err(), "{refused}");
    }
}
