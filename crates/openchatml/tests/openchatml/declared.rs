//! Declarations: what is read out of each form, what is skipped, and that no text is too much.

use std::fmt::Write as _;

use openchatml::declare::{Declarations, read};
use proptest::prelude::*;
use serde_json::json;

fn names(declarations: &Declarations) -> Vec<&str> {
    let tools = declarations.tools().iter();
    tools.map(|tool| tool.name.as_str()).collect()
}

/// What is said to a call of the only tool of a namespace; empty if it fits.
fn call(types: &str, arguments: &str) -> String {
    let text = format!("namespace f {{\n{types}\n}} // namespace f");
    let declarations = read(&text);
    let tool = declarations.tools().last().unwrap();
    let schema = tool.schema.as_ref().unwrap();
    match schema.check(arguments.as_bytes()) {
        Ok(()) => String::new(),
        Err(mismatch) => mismatch.to_string(),
    }
}

/// The same for one type, which the property `x` must have.
fn value(type_: &str, value: &str) -> String {
    let types = format!("type t = (_: {{\n  x: {type_},\n}}) => any;");
    call(&types, &format!("{{\"x\":{value}}}"))
}

#[test]
fn types_take_what_they_say() {
    let cases = [
        ("string", "\"a\"", ""),
        (
            "string",
            "1",
            "$.x: expected a string, found a whole number",
        ),
        ("number", "1.5", ""),
        (
            "integer",
            "1.5",
            "$.x: expected a whole number, found a number with a fraction or exponent",
        ),
        ("boolean", "true", ""),
        ("boolean", "null", "$.x: expected a boolean, found null"),
        ("any", "[{}]", ""),
        ("unknown", "[{}]", ""),
        ("object", "{\"a\":1}", ""),
        ("object", "[]", "$.x: expected an object, found an array"),
        ("string | null", "null", ""),
        (
            "string | null",
            "false",
            "$.x: expected a string or null, found a boolean",
        ),
        ("\"a\" | 'b' | null", "\"b\"", ""),
        ("\"a\" | 'b' | null", "null", ""),
        (
            "\"a\" | \"b\"",
            "\"c\"",
            "$.x: expected `\"a\"` or `\"b\"`, found another string",
        ),
        ("1 | -2 | true", "-2", ""),
        (
            "1 | -2 | true",
            "2",
            "$.x: expected `1`, `-2` or `true`, found a whole number",
        ),
        ("string[]", "[\"a\"]", ""),
        (
            "string[]",
            "[\"a\",1]",
            "$.x[1]: expected a string, found a whole number",
        ),
        (
            "string[][]",
            "[[\"a\"],[1]]",
            "$.x[1][0]: expected a string, found a whole number",
        ),
        ("Array<string | number>", "[1,\"a\"]", ""),
        (
            "Array<string>",
            "[null]",
            "$.x[0]: expected a string, found null",
        ),
        ("(string | null)[]", "[null]", ""),
        (
            "( \"a\" | \"b\" )[]",
            "[\"c\"]",
            "$.x[0]: expected `\"a\"` or `\"b\"`, found another string",
        ),
        ("Record<string, number>", "{\"a\":1}", ""),
        (
            "Record<string, number>",
            "{\"a\":\"\"}",
            "$.x.a: expected a number, found a string",
        ),
        (
            "{ [key: string]: boolean }",
            "{\"a\":1}",
            "$.x.a: expected a boolean, found a whole number",
        ),
        ("{ a: string } & { b: number }", "{\"a\":\"\",\"b\":1}", ""),
        (
            "{ a: string } & { b: number }",
            "{\"a\":\"\"}",
            "$.x: expected the property `b`, found an object without it",
        ),
        (
            "readonly string[]",
            "[1]",
            "$.x[0]: expected a string, found a whole number",
        ),
        ("`a${b}`", "\"c\"", ""),
        (
            "`a${b}`",
            "1",
            "$.x: expected a string, found a whole number",
        ),
        ("[string, number]", "[1]", ""),
        (
            "[string, number]",
            "{}",
            "$.x: expected an array, found an object",
        ),
        (
            "/* a */ string // b",
            "1",
            "$.x: expected a string, found a whole number",
        ),
        (
            "\n    | string // one\n    | { y: 1 } // two\n  ",
            "{\"y\":2}",
            "$.x.y: expected `1`, found a whole number",
        ),
        ("\"it's // no comment\"", "\"it's // no comment\"", ""),
        ("\"\\u0061\\\"\"", "\"a\\\"\"", ""),
    ];
    for (type_, json, expected) in cases {
        assert_eq!(value(type_, json), expected, "{type_} {json}");
    }
}

#[test]
fn what_is_not_understood_takes_anything() {
    for type_ in [
        "Date",
        "keyof T",
        "Map<string, number>",
        "T[\"a\"]",
        "(a: string) => void",
        "",
    ] {
        for json in ["1", "{}", "[\"a\"]"] {
            assert_eq!(value(type_, json), "", "{type_} {json}");
        }
    }
    let deep = format!("{}string{}", "{ a: ".repeat(200), " }".repeat(200));
    assert!(!value(&deep, "{\"a\":{\"a\":{}}}").is_empty());
    let json = format!("{}1{}", "{\"a\":".repeat(100), "}".repeat(100));
    assert_eq!(value(&deep, &json), "");
}

#[test]
fn a_type_of_too_many_lists_takes_any_value_and_is_an_issue() {
    let declared = |lists: usize| {
        let type_ = format!("string{}", "[]".repeat(lists));
        read(&format!(
            "namespace f {{\ntype t = (_: {{\n  x: {type_},\n}}) => any;\n}} // namespace f"
        ))
    };
    assert!(declared(8).issues().is_empty());
    let deep = declared(5_000);
    assert_eq!(deep.issues().len(), 1);
    let schema = deep.tools()[0].schema.as_ref().unwrap();
    assert_eq!(schema.check(b"{\"x\":1}"), Ok(()));
    assert!(schema.check(b"{}").is_err());
}

#[test]
fn lists_of_alternatives_are_read_as_they_are_meant() {
    // A program that trained models writes the list of an enumeration without parentheses.
    for json in ["[\"a\",\"b\"]", "\"a\"", "[]"] {
        assert_eq!(value("\"a\" | \"b\"[]", json), "");
    }
    assert_ne!(value("\"a\" | \"b\"[]", "[\"c\"]"), "");
    assert_ne!(value("\"a\" | \"b\"[]", "\"c\""), "");
}

#[test]
fn properties_are_required_or_not() {
    let types = "type t = (_: {
      // What to look for.
      query: string, // not empty
      limit?: number, // default: 10
      after: string | undefined,
      \"a key\"?: boolean;
      x-y.z?: number
      nested?: {
        a: string,
      },
    }) => any;";
    for (arguments, expected) in [
        ("{\"query\":\"\"}", ""),
        (
            "{}",
            "$: expected the property `query`, found an object without it",
        ),
        (
            "{\"query\":\"\",\"limit\":\"\"}",
            "$.limit: expected a number, found a string",
        ),
        (
            "{\"query\":\"\",\"a key\":0}",
            "$[\"a key\"]: expected a boolean, found a whole number",
        ),
        (
            "{\"query\":\"\",\"x-y.z\":null}",
            "$[\"x-y.z\"]: expected a number, found null",
        ),
        (
            "{\"query\":\"\",\"nested\":{}}",
            "$.nested: expected the property `a`, found an object without it",
        ),
        ("{\"query\":\"\",\"another\":{}}", ""),
    ] {
        assert_eq!(call(types, arguments), expected, "{arguments}");
    }
}

#[test]
fn names_stand_for_types_before_and_behind() {
    let types = "type Unit = \"c\" | \"f\";
type t = (_: { unit: Unit, tree?: Tree }) => any;
type Tree = { next?: Tree, value: number };";
    let text = format!("namespace f {{\n{types}\n}}");
    assert_eq!(names(&read(&text)), ["f.t"]);
    let schema = read(&text).tool("f.t").unwrap().schema.clone().unwrap();
    assert!(
        schema
            .check(br#"{"unit":"c","tree":{"value":1,"next":{"value":2}}}"#)
            .is_ok()
    );
    let mismatch = schema
        .check(br#"{"unit":"c","tree":{"value":1,"next":{}}}"#)
        .unwrap_err();
    assert_eq!(mismatch.path, "$.tree.next");
    assert_eq!(schema.check(br#"{"unit":"k"}"#).unwrap_err().path, "$.unit");
}

#[test]
fn several_namespaces_with_their_descriptions() {
    let text = "# Instructions

Be brief. type of answer: short

# Tools

## functions

namespace functions {

// Gets the weather.
//
// In two lines.
type get-weather = (_: {
  city: string,
}) => any;

type now = () => any; // no description

} // namespace functions

## browser

// A browser.
namespace browser {
type search = (_: { query: string }) => any;
type open = (_: { id?: number | string }) => any;
}";
    let declarations = read(text);
    assert_eq!(
        names(&declarations),
        [
            "functions.get-weather",
            "functions.now",
            "browser.search",
            "browser.open"
        ]
    );
    assert!(declarations.issues().is_empty());
    let tools = declarations.tools();
    assert_eq!(
        tools[0].description.as_deref(),
        Some("Gets the weather.\n\nIn two lines.")
    );
    assert_eq!(tools[1].description, None);
    assert_eq!(tools[1].schema, None);
    assert!(
        tools[0]
            .span
            .text(text)
            .unwrap()
            .starts_with("type get-weather = (_: {")
    );
    assert!(tools[0].span.text(text).unwrap().ends_with("=> any"));
    let namespaces: Vec<_> = declarations.namespaces().collect();
    assert_eq!(namespaces, [("browser", true), ("functions", true)]);
    assert!(!declarations.is_empty() && declarations.tool("functions.later").is_none());
}

#[test]
fn lists_in_json() {
    let a = json!({"type": "function", "function": {"name": "a", "description": "A.", "parameters": {
        "type": "object", "properties": {"x": {"type": "string"}}}}});
    let b = json!({"name": "functions.b", "parameters": {"type": "object", "required": ["y"]}});
    let c = json!({"name": "c", "input_schema": {"type": "object"}});
    let d = json!({"type": "function", "name": "d"});
    let built_in = json!({"type": "web_search"});
    let all = json!([a, b, c, d, built_in]);
    let texts = [
        all.to_string(),
        format!("Tools:\n\n{all:#}\n"),
        format!("# Tools\n```json\n{all:#}\n```\nUse them."),
        json!({"tools": all}).to_string(),
        format!("{a}\n{b}\n  {c}\n{d}"),
    ];
    for text in texts {
        let declarations = read(&text);
        let expected = ["functions.a", "functions.b", "functions.c", "functions.d"];
        assert_eq!(names(&declarations), expected, "{text}");
        assert!(declarations.issues().is_empty());
        let tools = declarations.tools();
        assert_eq!(tools[0].description.as_deref(), Some("A."));
        assert!(
            tools[0]
                .schema
                .as_ref()
                .unwrap()
                .check(b"{\"x\":1}")
                .is_err()
        );
        assert!(tools[1].schema.as_ref().unwrap().check(b"{}").is_err());
        assert_eq!(tools[3].schema, None);
        assert_eq!(declarations.namespaces().next(), Some(("functions", true)));
    }
    let text = format!("[\n{a},\n{b}]");
    let second = read(&text).tools()[1].clone();
    assert_eq!(second.span.text(&text).unwrap(), b.to_string());
}

#[test]
fn other_json_declares_nothing() {
    for text in [
        "{}",
        "[]",
        "[1, 2]",
        "{\"name\": \"Ada\"}",
        "[{\"name\": \"Ada\", \"age\": 36}]",
        "{\"type\": \"object\", \"properties\": {}}",
        "[note] this is prose\n{so is} this",
        "{\"openapi\": \"3.1.0\"}",
    ] {
        let declarations = read(text);
        assert!(
            declarations.is_empty() && declarations.tools().is_empty(),
            "{text}"
        );
        assert!(declarations.issues().is_empty(), "{text}");
    }
}

#[test]
fn an_openapi_document() {
    let document = json!({
        "openapi": "3.0.0",
        "paths": {
            "/weather/{city}": {
                "parameters": [{"name": "city", "in": "path", "required": true, "schema": {"type": "string"}}],
                "get": {
                    "operationId": "get_weather", "summary": "Weather.",
                    "parameters": [
                        {"name": "days", "in": "query", "schema": {"$ref": "#/components/schemas/Days"}},
                        {"name": "X-Key", "in": "header", "required": true},
                    ],
                },
                "summary": "not an operation",
            },
            "/orders": {"post": {"operationId": "order", "requestBody": {"content": {"application/json": {
                "schema": {"type": "object", "required": ["item"], "properties": {
                    "item": {"type": "string"}, "days": {"$ref": "#/components/schemas/Days"}}}}}}}},
            "/ping": {"get": {"operationId": "ping"}},
        },
        "components": {"schemas": {"Days": {"type": "integer", "minimum": 1}}},
    });
    let text = format!("Use these.\n{document:#}");
    let declarations = read(&text);
    assert_eq!(
        names(&declarations),
        ["functions.get_weather", "functions.order", "functions.ping"]
    );
    let check = |name: &str, text: &str| {
        let schema = declarations.tool(name).unwrap().schema.as_ref().unwrap();
        schema
            .check(text.as_bytes())
            .map_err(|mismatch| mismatch.path)
    };
    assert_eq!(
        check("functions.get_weather", r#"{"city":"Oslo","days":2}"#),
        Ok(())
    );
    assert_eq!(
        check("functions.get_weather", r#"{"city":"Oslo","days":0}"#),
        Err("$.days".into())
    );
    assert_eq!(check("functions.get_weather", "{}"), Err("$".into()));
    assert_eq!(
        check("functions.order", r#"{"item":"a","days":1.5}"#),
        Err("$.days".into())
    );
    assert_eq!(declarations.tool("functions.ping").unwrap().schema, None);
    assert_eq!(
        declarations.tool("functions.order").unwrap().description,
        None
    );
}

#[test]
fn what_is_broken_is_skipped_with_a_hint() {
    // (text, the tools that are read, whether the namespace is fully known, hints)
    let cases: [(&str, &[&str], Option<bool>, usize); 14] = [
        ("namespace f {", &[], Some(false), 1),
        (
            "namespace f {\ntype a = (_: {x: string}) => any;",
            &["f.a"],
            Some(false),
            1,
        ),
        (
            "namespace f {\ntype a = (_: {x: string",
            &["f.a"],
            Some(false),
            2,
        ),
        (
            "namespace f {\ntype = 1;\ntype b = () => any;\n}",
            &["f.b"],
            Some(false),
            1,
        ),
        (
            "namespace f {\ntype a(x) => any;\ntype b = () => any;\n}",
            &["f.b"],
            Some(false),
            1,
        ),
        (
            "namespace f {\nfunction a(): any;\ntype b = () => any;\n}",
            &["f.b"],
            Some(false),
            1,
        ),
        (
            "namespace f {\ntype a = (x: string, y: number) => any;\n}",
            &["f.a"],
            Some(true),
            1,
        ),
        (
            "namespace f {\ntype a = (_: ) => any;\n}",
            &["f.a"],
            Some(true),
            1,
        ),
        (
            "namespace f {\ntype a = (_: {\n  x: string, // one\nand it's more of it\n}) => any;\n}",
            &["f.a"],
            Some(true),
            1,
        ),
        ("namespace f {\n}\ntype a = () => any;", &[], Some(false), 0),
        ("namespace {\ntype a = () => any;\n}", &[], None, 0),
        ("namespaces are nice", &[], None, 0),
        (
            "[{\"name\":\"a\",\"parameters\":{\"type\":\"object\"}},",
            &[],
            Some(false),
            1,
        ),
        (
            "[{\"name\":\"a\",\"parameters\":{}}, {\"no\":\"name\"}]",
            &["functions.a"],
            Some(false),
            1,
        ),
    ];
    for (text, tools, complete, hints) in cases {
        let found = read(text);
        assert_eq!(names(&found), tools, "{text}");
        assert_eq!(
            found.namespaces().next().map(|(_, complete)| complete),
            complete,
            "{text}"
        );
        assert_eq!(found.issues().len(), hints, "{text} {:?}", found.issues());
        for hint in found.issues() {
            assert!(!hint.message.ends_with('.') && hint.span.text(text).is_some());
        }
    }
}

#[test]
fn prose_between_properties_requires_nothing() {
    let types = "type t = (_: {
  // The city. Lines of a description may have lost their marks:
  note: it's the one that people mean
  city: string, // default: Oslo
}) => any;";
    assert_eq!(call(types, "{}"), "");
    assert_eq!(
        call(types, "{\"city\":1}"),
        "$.city: expected a string, found a whole number"
    );
}

#[test]
fn a_later_declaration_of_a_name_counts() {
    let found =
        read("namespace f {\ntype a = (_: string) => any;\ntype a = (_: number) => any;\n}");
    assert!(
        found
            .tool("f.a")
            .unwrap()
            .schema
            .as_ref()
            .unwrap()
            .check(b"1")
            .is_ok()
    );
}

#[test]
fn a_section_in_words_is_a_tool() {
    let text = "# Instructions\n\n## brief\nBe brief.\n\n# Tools\n\n## python\n\nRuns code.\nIts state \
        lasts.\n\n## browser\n// Looks.\nnamespace browser {\ntype open = () => any;\n} // namespace \
        browser\n\n## functions\nNone.\n\n## empty\n\n## two words\nText.\n\n## shell\nRuns.\n# Style\n## bold\nNo.";
    let declarations = read(text);
    assert_eq!(names(&declarations), ["python", "browser.open", "shell"]);
    let python = declarations.tool("python").unwrap();
    assert_eq!(
        python.description.as_deref(),
        Some("Runs code.\nIts state lasts.")
    );
    assert_eq!(python.span.text(text), Some("## python"));
    assert_eq!(python.schema, None);
    assert!(!read("# Tools\n## python\nRuns code.").is_empty());
    assert!(read("# Tools\n## python\n").is_empty());
}

#[test]
fn long_texts_take_their_time_only() {
    // Each of these is quadratic in a reader that looks back or tries again.
    let many = |part: &str| part.repeat(20_000);
    let mut properties = String::new();
    for index in 0..20_000 {
        writeln!(properties, "p{index}?: string | \"a\",").unwrap();
    }
    let texts = [
        many("{\n"),
        many("[\n"),
        many("{\"a\":\n"),
        many("[x\n"),
        many("namespace f {\n"),
        many("namespace f {}\n"),
        format!("namespace f {{ type a = (_: {{{}", many("'\\'")),
        format!("namespace f {{ type a = {}", many("(")),
        format!("namespace f {{ type a = {}", many("{a:")),
        format!("namespace f {{ type a = {}", many("Array<")),
        format!("namespace f {{ type a = {}", many("readonly ")),
        format!("namespace f {{ type a = string{}", many("[]")),
        format!("namespace f {{ type a = {}", many("| \"a\" ")),
        format!("namespace f {{ {}", many("// comment\n")),
        format!("namespace f {{ {}", many("/*")),
        format!("namespace f {{ type a = (_: {{ {properties} }}) => any;\n}}"),
        format!("namespace f {{ {}", many("type a = b;\n")),
        many("# Tools\n## a\n"),
        (0..20_000).fold(String::new(), |text, n| {
            text + &format!("namespace n{n} {{}}\ntype a\n")
        }),
    ];
    for text in texts {
        drop(read(&text));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::soak::rounds(256, 5_120)))]
    #[test]
    fn no_text_panics(parts in prop::collection::vec(prop_oneof![
        Just("namespace f {"), Just("type a = "), Just("(_: {"), Just("}) => any;"), Just("}"),
        Just("x: "), Just("y?: "), Just("string"), Just("\"a\""), Just("'"), Just("|"), Just("["),
        Just("]"), Just("// c\n"), Just("/*"), Just("*/"), Just("\n"), Just("{\"name\":"), Just("é"),
        Just("Array<"), Just(">"), Just("-"), Just("1"), Just("&"), Just("("), Just(")"), Just("\\"),
    ], 0..60)) {
        let text = parts.concat();
        let found = read(&text);
        for tool in found.tools() {
            prop_assert!(tool.span.text(&text).is_some());
            if let Some(schema) = &tool.schema {
                drop(schema.check(b"{\"x\":\"a\",\"y\":[1]}"));
            }
        }
    }
}
