//! Runs cases of other implementations where they are at hand: the folder that `LOGUE_SHARED`
//! names, or `shared` beside the repository. Without it there is nothing to run.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test that reads a folder and reports what it found there"
)]

use std::path::PathBuf;

use chatmd::{
    Child, Config, Document, Element, Item, Message, Node, Tag, ToolCallElement, ToolDecl,
    ToolKind, ToolResponseElement, parse,
};
use logue_message::CallKind;
use logue_source::Code;
use serde_json::{Value, json};

fn cases() -> Vec<Value> {
    let folder = std::env::var_os("LOGUE_SHARED").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let Ok(text) = std::fs::read_to_string(folder.join("fixtures/chatmd/cases.jsonl")) else {
        eprintln!("no cases in {}", folder.display());
        return Vec::new();
    };
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn node(node: Node<'_>) -> Value {
    let attrs: Vec<Value> = node
        .attributes()
        .map(|attribute| {
            let value = (!attribute.is_flag()).then(|| attribute.value());
            json!([attribute.name(), value])
        })
        .collect();
    let children: Vec<Value> = node.children().map(child).collect();
    json!({"tag": node.tag().as_str(), "attrs": attrs, "children": children})
}

fn child(child: Child<'_>) -> Value {
    match child {
        Child::Node(inner) => node(inner),
        Child::Text(run) => json!({"text": run.content()}),
    }
}

/// Whether an expected tree holds only elements of the language that is read here.
fn is_ours(tree: &Value) -> bool {
    match tree {
        Value::Array(items) => items.iter().all(is_ours),
        Value::Object(object) => {
            let known = object
                .get("tag")
                .is_none_or(|tag| Tag::parse(tag.as_str().unwrap()).is_some());
            known && object.get("children").is_none_or(is_ours)
        }
        _ => true,
    }
}

/// Values are compared after the backslash before a quote is gone.
fn without_backslashes(value: &Value) -> Value {
    let text = value.to_string();
    serde_json::from_str(&text.replace("\\\\\\\"", "\\\"").replace("\\\\'", "'")).unwrap()
}

#[test]
fn raw_trees_match_the_cases() {
    let mut failures = Vec::new();
    let mut passed = 0;
    for case in cases() {
        if case["layer"] != "ast" || case["free"] == true {
            continue;
        }
        let mut expect = &case["expect"];
        if !case["expect_seed"].is_null() && !is_ours(&expect["tree"]) {
            expect = &case["expect_seed"];
        }
        let input = case["input"].as_str().unwrap();
        let tree = parse(input);
        assert_eq!(tree.print(), input);
        let found: Value = tree.children().map(child).collect();
        let agrees = if expect["ok"] == true {
            let wanted = if case["backslash_decoded"] == true {
                without_backslashes(&expect["tree"])
            } else {
                expect["tree"].clone()
            };
            !tree.has_errors() && found == wanted
        } else {
            tree.has_errors()
        };
        if agrees {
            passed += 1;
        } else {
            failures.push(format!(
                "{}: {input:?}\n  wanted {expect}\n  found  {found}\n  {:?}",
                case["name"],
                tree.diagnostics()
            ));
        }
    }
    eprintln!("{passed} passed, {} failed", failures.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn items(items: &[Item]) -> Value {
    match items {
        [] => Value::Null,
        [Item::Text(text)] => json!(text.text),
        _ => items.iter().map(item).collect(),
    }
}

fn item(item: &Item) -> Value {
    match item {
        Item::Text(text) => json!({"text": text.text}),
        Item::Doc(doc) => json!({
            "doc": doc.src, "local": doc.local, "strip": doc.strip, "markdown": doc.markdown
        }),
        Item::Img(img) => json!({"img": img.src, "local": img.local}),
        Item::Agent(agent) => {
            let inner: Vec<Value> = agent.content.iter().map(self::item).collect();
            json!({"agent": agent.src, "local": agent.local, "items": inner})
        }
        Item::Import(import) => json!({"import": import.src}),
        other => panic!("{other:?}"),
    }
}

fn message(message: &Message) -> Value {
    json!({
        "kind": message.tag.as_str(), "role": message.speaker.as_str(),
        "content": items(&message.content), "id": message.id, "status": message.status,
        "type": null, "name": message.name, "tool_call_id": null, "tool_call": null,
    })
}

fn kind(kind: CallKind) -> Value {
    match kind {
        CallKind::Custom => json!("custom_tool_call"),
        CallKind::Function => Value::Null,
    }
}

fn call(call: &ToolCallElement) -> Value {
    let role = if call.tag == Tag::Msg {
        "tool"
    } else {
        "assistant"
    };
    let content = items(&call.content);
    json!({
        "kind": call.tag.as_str(), "role": role, "content": content, "id": call.id,
        "status": null, "type": kind(call.kind), "name": null, "tool_call_id": call.tool_call_id,
        "tool_call": {
            "id": call.tool_call_id, "name": call.function_name, "arguments": content
        },
    })
}

fn response(response: &ToolResponseElement) -> Value {
    json!({
        "kind": response.tag.as_str(), "role": "tool", "content": items(&response.content),
        "id": response.id, "status": null, "type": kind(response.kind), "name": null,
        "tool_call_id": response.tool_call_id, "tool_call": null,
    })
}

fn config(config: &Config) -> Value {
    json!({
        "kind": "config", "model": config.model, "max_tokens": config.max_tokens,
        "temperature": config.temperature, "reasoning_effort": config.reasoning_effort,
        "show_tool_call": config.show_tool_call, "id": config.id,
    })
}

fn tool(tool: &ToolDecl) -> Value {
    match &tool.kind {
        ToolKind::Builtin { name } => json!({"kind": "tool", "builtin": name}),
        ToolKind::Command {
            name,
            command,
            description,
        } => json!({
            "kind": "tool", "shell": name, "command": command, "description": description
        }),
        ToolKind::Agent {
            name,
            agent,
            local,
            description,
        } => json!({
            "kind": "tool", "agent_tool": name, "agent": agent, "local": local,
            "description": description
        }),
        ToolKind::McpServer {
            server,
            names,
            strict,
        } => json!({
            "kind": "tool", "mcp": server, "names": names, "strict": strict
        }),
        other => panic!("{other:?}"),
    }
}

fn element(element: &Element) -> Value {
    match element {
        Element::Config(inner) => config(inner),
        Element::Tool(inner) => tool(inner),
        Element::Message(inner) => message(inner),
        Element::ToolCall(inner) => call(inner),
        Element::ToolResponse(inner) => response(inner),
        Element::Reasoning(inner) => {
            let summaries: Vec<&str> = inner
                .summaries
                .iter()
                .map(|summary| summary.text.as_str())
                .collect();
            json!({
                "kind": "reasoning", "id": inner.id, "status": inner.status, "summary": summaries
            })
        }
        other => json!({"kind": format!("{other:?}")}),
    }
}

/// Errors that are ours where the others are silent: they fail there too, but later.
const STRICTER: [Code; 3] = [
    Code::MdUnknownTool,
    Code::MdMissingAttribute,
    Code::MdDuplicateTool,
];

#[test]
fn typed_views_match_the_cases() {
    let mut failures = Vec::new();
    let (mut passed, mut with_imports) = (0, 0);
    for case in cases() {
        if case["layer"] != "prompt-seed" || case["free"] == true {
            continue;
        }
        let input = case["input"].as_str().unwrap();
        let tree = parse(input);
        let (document, diagnostics) = Document::from_tree(&tree);
        let mut found: Vec<Value> = document.elements.iter().map(element).collect();
        let imports = format!("{document:?}").contains("Import");
        let wanted = &case["expect"];
        let errors = || {
            let all = tree.diagnostics().iter().chain(&diagnostics);
            all.filter(|diagnostic| diagnostic.is_error())
        };
        if imports && wanted["ok"] == true {
            with_imports += 1;
            continue;
        }
        let agrees = if wanted["ok"] == true {
            // A number is a number, whether it is written with a fraction or not.
            let mut elements = wanted["elements"].as_array().cloned().unwrap();
            for value in found.iter_mut().chain(&mut elements) {
                if let Some(number) = value["temperature"].as_f64() {
                    value["temperature"] = json!(number);
                }
            }
            errors().all(|error| STRICTER.contains(&error.code)) && found == elements
        } else {
            errors().next().is_some()
        };
        if agrees {
            passed += 1;
        } else {
            failures.push(format!(
                "{}: {input:?}\n  wanted {wanted}\n  found  {found:?}\n  {:?}",
                case["name"],
                errors().collect::<Vec<_>>()
            ));
        }
    }
    eprintln!(
        "{passed} passed, {} failed, {with_imports} need imports",
        failures.len()
    );
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
