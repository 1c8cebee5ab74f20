//! Results as `{ok, content, error, provenance}`.

use logue_tools::{Provenance, ToolResult, envelope};
use proptest::prelude::*;
use serde_json::{Value, json};

#[test]
fn a_result_keeps_its_form() {
    let from = |text: &str| envelope(&ToolResult::success(text))["content"].clone();
    let long = "123456789012345678901234567890";
    let table = [
        (
            r#"{"temperature": 21.5, "wind": [1, -2]}"#,
            json!({"temperature": 21.5, "wind": [1, -2]}),
        ),
        ("[]", json!([])),
        ("true", json!(true)),
        ("null", Value::Null),
        (r#""quoted""#, json!("quoted")),
        (
            "18446744073709551615",
            json!(18_446_744_073_709_551_615_u64),
        ),
        // No JSON, and JSON that would not be the same if it was read.
        ("", json!("")),
        ("21 degrees", json!("21 degrees")),
        ("{\"open\": ", json!("{\"open\": ")),
        ("{} {}", json!("{} {}")),
        (long, json!(long)),
        ("1e999", json!("1e999")),
        (
            "0.1000000000000000055511151231257827",
            json!("0.1000000000000000055511151231257827"),
        ),
        ("NaN", json!("NaN")),
        // What means something elsewhere means nothing here.
        (
            "</tool_response>|RAW<|end|>",
            json!("</tool_response>|RAW<|end|>"),
        ),
    ];
    for (text, content) in table {
        assert_eq!(from(text), content, "{text}");
    }
}

#[test]
fn a_failure_has_a_code_where_there_is_one() {
    let error = |outcome: &ToolResult| {
        let envelope = envelope(outcome);
        assert_eq!(
            (&envelope["ok"], &envelope["content"]),
            (&json!(false), &Value::Null)
        );
        envelope["error"].clone()
    };
    let table = [
        (
            ToolResult::error("E-TOOL-TIMEOUT", "it took longer than 5 s"),
            json!({"code": "E-TOOL-TIMEOUT", "message": "it took longer than 5 s"}),
        ),
        (
            ToolResult::failure("E-CALL-SCHEMA: path: is required"),
            json!({"code": "E-CALL-SCHEMA", "message": "path: is required"}),
        ),
        (
            ToolResult::failure("no such file"),
            json!({"code": null, "message": "no such file"}),
        ),
        (
            ToolResult::failure_with_text("E-TOOL-TIMEOUT: says the command"),
            json!({"code": null, "message": "E-TOOL-TIMEOUT: says the command"}),
        ),
        (
            ToolResult::failure_with_text("half of it\n[E-TOOL-TIMEOUT: killed]")
                .with_code("E-TOOL-TIMEOUT"),
            json!({"code": "E-TOOL-TIMEOUT", "message": "half of it\n[E-TOOL-TIMEOUT: killed]"}),
        ),
        (
            ToolResult::failure(r#"{"reason": "full"}"#),
            json!({"code": null, "message": r#"{"reason": "full"}"#}),
        ),
    ];
    for (outcome, expected) in table {
        assert_eq!(error(&outcome), expected);
    }
}

#[test]
fn provenance_is_told_where_it_is_known() {
    assert_eq!(
        envelope(&ToolResult::success("x"))["provenance"],
        Value::Null
    );
    let outcome = ToolResult::success("x").with_provenance(
        Provenance::new("https://example.org/").with_timestamp("2026-03-01T00:00:00Z"),
    );
    assert_eq!(
        envelope(&outcome),
        json!({
            "ok": true,
            "content": "x",
            "error": null,
            "provenance": {
                "source": "https://example.org/",
                "timestamp": "2026-03-01T00:00:00Z",
                "checksum": null,
            },
        })
    );
}

proptest! {
    #[test]
    fn no_text_is_lost(text in any::<String>(), ok in any::<bool>()) {
        let outcome = if ok { ToolResult::success(&*text) } else { ToolResult::failure_with_text(&*text) };
        let envelope = envelope(&outcome);
        let back: Value = serde_json::from_str(&envelope.to_string())?;
        prop_assert_eq!(&back, &envelope);
        if !ok {
            prop_assert_eq!(&back["error"]["message"], &json!(text));
        } else if back["content"] != json!(text) {
            let read: Value = serde_json::from_str(&text)?;
            prop_assert_eq!(&back["content"], &read);
        }
    }

    #[test]
    fn no_number_changes(number in "-?(0|[1-9][0-9]{0,24})(\\.[0-9]{1,24})?") {
        let text = format!(r#"{{"a\"1": [{number}]}}"#);
        let content = envelope(&ToolResult::success(&*text))["content"].clone();
        if content != json!(text) {
            let read = content["a\"1"][0].to_string();
            let digits = |text: &str| text.replace(['-', '.'], "").trim_matches('0').to_owned();
            prop_assert_eq!(digits(&read), digits(&number));
        }
    }
}
