//! Types as schemas write them.

use logue_graph::{ElementType, Field, FieldType, Reducer, StateSchema};
use serde_json::json;

#[test]
fn types_are_read_in_both_spellings_and_written_in_one() {
    let cases = [
        ("int", "int"),
        ("bool", "bool"),
        ("str", "string"),
        ("string", "string"),
        ("float", "float"),
        ("map", "map"),
        ("any", "any"),
        ("list", "list"),
        ("list<any>", "list"),
        ("list<int>", "list<int>"),
        ("list[ChatMessage]", "list<ChatMessage>"),
        (" list < str > ", "list<string>"),
        ("list<list<int>>", "list<list<int>>"),
    ];
    for (text, written) in cases {
        let kind = FieldType::parse(text).unwrap_or_else(|| panic!("{text} is a type"));
        assert_eq!(kind.to_string(), written);
        assert_eq!(FieldType::parse(written), Some(kind));
    }
    for text in [
        "",
        "ChatMessage",
        "list<",
        "list<int]",
        "list<>",
        "lists",
        "list int",
    ] {
        assert_eq!(FieldType::parse(text), None, "{text:?} is no type");
    }
    let deep = format!("list{}", "<list".repeat(100_000));
    assert_eq!(FieldType::parse(&deep), None);
}

#[test]
fn an_element_type_that_is_not_known_keeps_its_name() {
    let kind = FieldType::list_of("ChatMessage");
    assert_eq!(
        kind,
        FieldType::List(ElementType::Named("ChatMessage".to_owned()))
    );
}

#[test]
fn fields_start_empty_unless_they_say_otherwise() {
    let cases = [
        ("int", json!(0)),
        ("bool", json!(false)),
        ("string", json!("")),
        ("float", json!(0.0)),
        ("map", json!({})),
        ("list", json!([])),
        ("any", json!(null)),
    ];
    for (kind, empty) in cases {
        let field = Field::new("f", FieldType::parse(kind).unwrap());
        assert_eq!(field.default_value().to_json(), empty);
        assert_eq!(field.reducer(), &Reducer::LastWriteWins);
        let field = field.with_default(json!([1]));
        assert_eq!(field.default_value().to_json(), json!([1]));
    }
}

#[test]
fn a_schema_is_read_back() {
    let schema = StateSchema::new().with(Field::appended("messages", "ChatMessage"));
    assert_eq!(schema.version(), None);
    let schema = schema.with_version("v2");
    assert_eq!(schema.version(), Some("v2"));
    let messages = schema.field("messages").unwrap();
    assert_eq!(messages.name(), "messages");
    assert_eq!(messages.field_type().to_string(), "list<ChatMessage>");
    assert_eq!(messages.reducer(), &Reducer::Append);
    assert!(schema.field("usage").is_none());
    assert_eq!(schema.fields().len(), 1);
}
