//! Reading the settings of a `<config>`.

use crate::document::element::Config;
use crate::document::fields::{float, integer, invalid, non_empty, number, text, texts};
use crate::findings::Findings;
use crate::syntax::tree::ElementNode;

/// Reads the settings, and reports values that no provider accepts.
pub(super) fn config(node: ElementNode<'_>, findings: &mut Findings) -> Config {
    Config {
        span: node.span(),
        opener: node.opener(),
        model: text(node, "model"),
        max_tokens: number(
            node,
            "max_tokens",
            "a whole number above 0",
            |it| integer(it).filter(|count| *count > 0),
            findings,
        ),
        temperature: number(
            node,
            "temperature",
            "a number such as `0.7`",
            |it| float(it).filter(|temperature| *temperature >= 0.0),
            findings,
        ),
        reasoning_effort: text(node, "reasoning_effort"),
        top_p: number(
            node,
            "top_p",
            "a number from 0 to 1, such as `0.9`",
            |it| float(it).filter(|mass| (0.0..=1.0).contains(mass)),
            findings,
        ),
        seed: number(
            node,
            "seed",
            "a whole number",
            |it| it.parse().ok(),
            findings,
        ),
        stop: stop(node, findings),
        tool_choice: non_empty(
            node,
            "tool_choice",
            "`auto`, `required`, `none` or the name of a tool",
            findings,
        ),
        response_schema: non_empty(
            node,
            "response_schema",
            "the path of a file with a JSON Schema",
            findings,
        ),
        id: text(node, "id"),
        show_tool_call: node.has("show_tool_call"),
    }
}

/// Reads the texts that end a response.
fn stop(node: ElementNode<'_>, findings: &mut Findings) -> Vec<String> {
    let Some(attribute) = node.attribute("stop") else {
        return Vec::new();
    };
    let value = attribute.value();
    let Some(texts) = texts(&value) else {
        let list = format!("[{}]", serde_json::Value::from(value.as_ref()));
        let help = if value.is_empty() {
            "write the text, or remove `stop`".to_owned()
        } else if list.contains(['\'', '&', '\\']) {
            "write a JSON list of texts, such as stop='[\"END\", \"STOP\"]'".to_owned()
        } else {
            format!(
                "write a JSON list of texts, such as stop='[\"END\", \"STOP\"]'; for this one text, \
                 write stop='{list}'"
            )
        };
        findings.push(invalid(attribute, "a text, or a JSON list of texts", help));
        return Vec::new();
    };
    texts
}
