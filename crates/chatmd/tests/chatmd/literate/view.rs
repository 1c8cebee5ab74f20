//! Printing the typed view, one line per element.
//!
//! A line has the element and its tag, its attributes, and its content in brackets. Texts are in
//! quotes, and `= "…"` is the content of their RAW blocks.

use std::fmt::Write as _;

use chatmd::{ContentItem, Document, Element, ToolKind};
use logue_message::CallKind;

pub(crate) fn dump(document: &Document) -> String {
    let mut out = String::new();
    for element in &document.elements {
        writeln!(out, "{}", line(element)).unwrap();
    }
    out
}

fn line(element: &Element) -> String {
    match element {
        Element::Config(config) => {
            let mut out = String::from("config");
            attribute(&mut out, "model", config.model.as_deref());
            if let Some(count) = config.max_tokens {
                write!(out, " max_tokens={count}").unwrap();
            }
            if let Some(temperature) = config.temperature {
                write!(out, " temperature={temperature}").unwrap();
            }
            attribute(
                &mut out,
                "reasoning_effort",
                config.reasoning_effort.as_deref(),
            );
            attribute(&mut out, "id", config.id.as_deref());
            flag(&mut out, "show_tool_call", config.show_tool_call);
            out
        }
        Element::Tool(tool) => self::tool(&tool.kind),
        Element::Message(message) => {
            let mut out = format!("<{}> {}", message.tag, message.role.as_str());
            attribute(&mut out, "id", message.id.as_deref());
            attribute(&mut out, "status", message.status.as_deref());
            attribute(&mut out, "name", message.name.as_deref());
            out + &content(&message.content)
        }
        Element::ToolCall(call) => {
            let mut out = format!("<{}> call {:?}", call.tag, call.tool_call_id);
            write!(out, " of {:?}", call.function_name).unwrap();
            flag(&mut out, "custom", call.kind == CallKind::Custom);
            attribute(&mut out, "id", call.id.as_deref());
            out + &content(&call.content)
        }
        Element::ToolResponse(response) => {
            let mut out = format!("<{}> response", response.tag);
            attribute(&mut out, "to", response.tool_call_id.as_deref());
            flag(&mut out, "custom", response.kind == CallKind::Custom);
            attribute(&mut out, "id", response.id.as_deref());
            out + &content(&response.content)
        }
        Element::Reasoning(reasoning) => {
            let mut out = String::from("reasoning");
            attribute(&mut out, "id", reasoning.id.as_deref());
            attribute(&mut out, "status", reasoning.status.as_deref());
            let summaries = reasoning.summaries.iter();
            let summaries: Vec<String> = summaries.map(|one| format!("{:?}", one.text)).collect();
            format!("{out} [{}]", summaries.join(", "))
        }
        Element::Import(import) => format!("import {:?}", import.src),
        other => format!("{other:?}"),
    }
}

fn tool(kind: &ToolKind) -> String {
    match kind {
        ToolKind::Builtin { name } => format!("tool {name:?}"),
        ToolKind::Command {
            name,
            command,
            description,
        } => {
            let mut out = format!("tool {name:?} command={command:?}");
            attribute(&mut out, "description", description.as_deref());
            out
        }
        ToolKind::Agent {
            name,
            agent,
            local,
            description,
        } => {
            let mut out = format!("tool {name:?} agent={agent:?}");
            flag(&mut out, "local", *local);
            attribute(&mut out, "description", description.as_deref());
            out
        }
        ToolKind::McpServer {
            server,
            names,
            strict,
        } => {
            let mut out = format!("tools of {server:?}");
            match names {
                Some(names) => write!(out, " {names:?}").unwrap(),
                None => out.push_str(" all"),
            }
            flag(&mut out, "strict", *strict);
            out
        }
        other => format!("{other:?}"),
    }
}

fn content(items: &[ContentItem]) -> String {
    let items: Vec<String> = items.iter().map(item).collect();
    format!(" [{}]", items.join(", "))
}

fn item(item: &ContentItem) -> String {
    match item {
        ContentItem::Text(text) => match &text.payload {
            Some(payload) if *payload != text.text => format!("{:?} = {payload:?}", text.text),
            _ => format!("{:?}", text.text),
        },
        ContentItem::Doc(doc) => {
            let mut out = format!("doc {:?}", doc.src);
            flag(&mut out, "local", doc.local);
            flag(&mut out, "strip", doc.strip);
            flag(&mut out, "markdown", doc.markdown);
            out
        }
        ContentItem::Img(img) => {
            let mut out = format!("img {:?}", img.src);
            flag(&mut out, "local", img.local);
            out
        }
        ContentItem::Agent(agent) => {
            let mut out = format!("agent {:?}", agent.src);
            flag(&mut out, "local", agent.local);
            out + &content(&agent.content)
        }
        ContentItem::Import(import) => format!("import {:?}", import.src),
        other => format!("{other:?}"),
    }
}

fn attribute(out: &mut String, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        write!(out, " {name}={value:?}").unwrap();
    }
}

fn flag(out: &mut String, name: &str, set: bool) {
    if set {
        write!(out, " {name}").unwrap();
    }
}
