//! The typed view of ChatMD as the cases spell it.

use chatmd::{
    Config, ContentItem, Element, ElementNode, MessageElement, Tag, ToolCallElement, ToolDecl,
    ToolKind, ToolResponseElement,
};
use logue_message::CallKind;
use serde_json::{Value, json};

pub(super) fn element(element: &Element) -> Value {
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

/// Attributes that the cases give of every message, whether they mean something there or not.
pub(super) fn as_written(element: &mut Value, node: ElementNode<'_>) {
    if element.get("content").is_none() {
        return;
    }
    for name in ["role", "id", "status", "type", "name", "tool_call_id"] {
        if let Some(value) = node.value(name) {
            element[name] = json!(value);
        }
    }
}

pub(super) fn has_known_role(element: &Value) -> bool {
    let known = ["user", "assistant", "system", "developer", "tool"];
    element["role"]
        .as_str()
        .is_some_and(|role| known.contains(&role))
}

/// Nothing is `null`, one text is a string, everything else is a list.
fn items(items: &[ContentItem]) -> Value {
    match items {
        [] => Value::Null,
        [ContentItem::Text(text)] => json!(text.text),
        _ => items.iter().map(item).collect(),
    }
}

fn item(item: &ContentItem) -> Value {
    match item {
        ContentItem::Text(text) => json!({"text": text.text}),
        ContentItem::Doc(doc) => json!({
            "doc": doc.src, "local": doc.local, "strip": doc.strip, "markdown": doc.markdown
        }),
        ContentItem::Img(img) => json!({"img": img.src, "local": img.local}),
        ContentItem::Agent(agent) => {
            let inner: Vec<Value> = agent.content.iter().map(self::item).collect();
            json!({"agent": agent.src, "local": agent.local, "items": inner})
        }
        ContentItem::Import(import) => json!({"import": import.src}),
        other => json!(format!("{other:?}")),
    }
}

fn message(message: &MessageElement) -> Value {
    json!({
        "kind": message.tag.as_str(), "role": message.role.as_str(),
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
        "status": null, "type": kind(call.kind), "name": null,
        "tool_call_id": call.tool_call_id,
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
        other => json!(format!("{other:?}")),
    }
}
