//! What is said of a call that does not fit, in a document and in Harmony messages.

use logue_source::{Diagnostic, DiagnosticCode};
use openchatml::harmony::{self, HarmonyReadOptions};
use openchatml::{FrameRole, check, declare, parse};

const TOOLS: &str = "namespace functions {
type add = (_: { a: number, b: \"<|end|>\" | \"x\" }) => any;
}";

/// The codes and the underlined texts.
fn said<'t>(found: &[Diagnostic], text: &'t str) -> Vec<(DiagnosticCode, &'t str)> {
    let place = |one: &Diagnostic| (one.code, one.primary.text(text).unwrap());
    found.iter().map(place).collect()
}

#[test]
fn a_finding_names_the_tool_the_place_and_the_declaration() {
    let text = "version: 2.2
<|start|>developer<|message|>namespace functions {
type add = (_: {
  a: number,
}) => any;
}<|end|>
<|start|>assistant to=functions.add call_id=1<|channel|>commentary<|message|>{\"a\":\"1\"}<|call|>
<|start|>assistant to=functions.sub call_id=2<|channel|>commentary<|message|>{}<|call|>";
    let found = check(&parse(text.as_bytes()));
    assert_eq!(
        said(&found, text),
        [
            (DiagnosticCode::CallSchema, "\"1\""),
            (DiagnosticCode::CallSchema, "functions.sub")
        ]
    );
    let wrong = &found[0];
    assert_eq!(
        wrong.message,
        "the arguments of `functions.add` do not fit its declaration: expected a number at `$.a`, found \
         a string"
    );
    assert_eq!(wrong.expected.as_deref(), Some("a number"));
    assert_eq!(wrong.labels[0].text, "declared here");
    assert_eq!(wrong.labels[0].span.text(text), Some("type add = (_: {"));
    assert_eq!(found[1].message, "no tool `functions.sub` is declared");
    assert_eq!(
        found[1].expected.as_deref(),
        Some("a tool that `functions` declares")
    );
}

#[test]
fn many_calls_of_a_long_declaration_take_their_time_only() {
    let types = "type f = (_: { a: string }) => any; // <<|end|>\n".repeat(2_000);
    let mut text = format!(
        "version: 2.2\n<|start|>system<|message|>namespace functions {{\n{types}}}<|end|>\n"
    );
    for id in 0..2_000 {
        text.push_str(&format!(
            "<|start|>assistant to=functions.f call_id={id}<|channel|>commentary<|message|>{{\"a\":1}}<|call|>\n"
        ));
    }
    let found = check(&parse(text.as_bytes()));
    assert_eq!(found.len(), 2_000);
    let label = found[1_999].labels[0].span.text(&text).unwrap();
    assert_eq!(label, "type f = (_: { a: string }) => any");
}

/// What is said of a completion of a prompt that declares [`TOOLS`].
fn completion(text: &str) -> Vec<(DiagnosticCode, &str)> {
    let options = HarmonyReadOptions::default().with_start_role(FrameRole::Assistant);
    let document = harmony::read(text.as_bytes(), &options);
    said(&harmony::check(&document, &[declare::read(TOOLS)]), text)
}

#[test]
fn harmony_messages_are_checked_too() {
    let header = " to=functions.add<|channel|>commentary <|constrain|>json<|message|>";
    for (body, expected) in [
        (r#"{"a":1,"b":"x"}<|call|>"#, None),
        (r#"{"a":1,"b":"y"}<|call|>"#, Some("\"y\"")),
        (r#"{"b":"x"}<|call|>"#, Some("{")),
        ("<|call|>", Some("")),
        // Only calls are.
        (r#"{"b":"x"}<|end|>"#, None),
        (r#"{"b":"x"}"#, None),
    ] {
        let text = format!("{header}{body}");
        let expected: Vec<_> = expected
            .map(|place| (DiagnosticCode::CallSchema, place))
            .into_iter()
            .collect();
        assert_eq!(completion(&text), expected, "{body}");
    }
    // Where the text has escapes, the whole body is meant.
    let body = r#"{"a":"1","b":"<<|end|>"}"#;
    let text = format!("{header}{body}<|call|>");
    assert_eq!(completion(&text), [(DiagnosticCode::CallSchema, body)]);

    for (text, expected) in [
        (
            " to=functions.sub<|channel|>commentary<|message|>{}<|call|>",
            1,
        ),
        (" to=python<|channel|>analysis<|message|>1 + 1<|call|>", 0),
        (
            " to=functions.python<|channel|>analysis<|message|>1 + 1<|call|>",
            0,
        ),
        (
            " to=functions.add<|channel|>commentary code<|message|>1 + 1<|call|>",
            0,
        ),
        (
            "<|channel|>final<|message|>namespace functions {\n}<|return|>",
            0,
        ),
    ] {
        assert_eq!(completion(text).len(), expected, "{text}");
    }
}
