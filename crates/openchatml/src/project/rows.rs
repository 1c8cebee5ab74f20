//! Rows without a list of messages: instructions, prompts with completions, pairs of preference.
//!
//! Each becomes one or two documents of messages, which the reader of messages reads. Joined texts
//! are listed.

mod rejected;

use logue_source::Span;
use serde_json::{Value, json};

use super::format::{JsonFormat, Projected};
use super::node::{Kind, Node, Object};
use super::read::{read, read_values};
use crate::convert::ConvertOptions;
use crate::loss::{Loss, LossKind, LossTarget};

/// The key of the label of a conversation in a pair.
const LABEL: &str = "label";

/// Messages of a row, each as JSON.
#[derive(Default)]
struct Row {
    messages: Vec<String>,
    losses: Vec<Loss>,
    /// The keys whose values are in the messages.
    used: Vec<&'static str>,
    /// The declared tools, if they are not in a known shape.
    tools: Option<String>,
    /// Keys and values of a request inside of the row, as JSON.
    beside: Vec<(String, String)>,
}

impl Row {
    /// Notes a loss of the next message.
    fn note(&mut self, kind: LossKind, text: &str) {
        let target = LossTarget::Message(self.messages.len());
        self.losses.push(Loss::new(target, kind, text));
    }

    fn say(&mut self, role: &str, text: &str) {
        let text = Value::from(text);
        let message = format!("{{\"role\":\"{role}\",\"content\":{text}}}");
        self.messages.push(message);
    }

    /// Adds the text or the messages of a value.
    fn add(&mut self, role: &str, node: Node<'_>) {
        match node.kind() {
            Kind::String => self.say(role, &node.string().unwrap_or_default()),
            Kind::Array => self.messages.extend(node.items().map(spelled)),
            _ => self.messages.push(spelled(node)),
        }
    }

    /// Adds the value of a key, if it has one.
    fn take(&mut self, object: &Object<'_>, key: &'static str, role: &str) -> bool {
        let Some(node) = object.get(key) else {
            return false;
        };
        self.used.push(key);
        let is_empty_system = role == "system" && node.string().is_some_and(|text| text.is_empty());
        if !is_empty_system {
            self.add(role, node);
        }
        true
    }

    /// Adds the value of the first of some keys.
    fn take_any(&mut self, object: &Object<'_>, keys: &[&'static str], role: &str) {
        let _ = keys.iter().any(|key| self.take(object, key, role));
    }
}

fn spelled(node: Node<'_>) -> String {
    node.spelled().to_owned()
}

/// Reads a row of instructions, or of a prompt with its completion.
pub(super) fn read_instruction(node: Node<'_>, options: &ConvertOptions) -> Projected {
    let Some(object) = node.object() else {
        return read_values(&[node], JsonFormat::OpenAi, options);
    };
    let row = instruction(&object);
    read_row(node.span(), &object, &row, None, options)
}

/// Reads both conversations of a pair, labelled `chosen` and `rejected`.
pub(super) fn read_pair(node: Node<'_>, options: &ConvertOptions) -> Vec<Projected> {
    let Some(object) = node.object() else {
        return vec![read_values(&[node], JsonFormat::OpenAi, options)];
    };
    if let Some(answer) = object.get(rejected::KEY) {
        let [chosen, rejected] = rejected::rows(&object, answer);
        return vec![
            read_row(node.span(), &object, &chosen, Some("chosen"), options),
            read_row(node.span(), &object, &rejected, Some("rejected"), options),
        ];
    }
    let sides: [(&str, &[&'static str]); 2] = [
        (
            "chosen",
            &["chosen", "preferred_output", "preferred_completion"],
        ),
        (
            "rejected",
            &[
                "rejected",
                "non_preferred_output",
                "non_preferred_completion",
            ],
        ),
    ];
    let of_side = |(label, keys): (&str, &[&'static str])| {
        let mut row = before(&object);
        row.take_any(&object, keys, "assistant");
        row.used.extend(sides.iter().flat_map(|(_, keys)| *keys));
        read_row(node.span(), &object, &row, Some(label), options)
    };
    sides.into_iter().map(of_side).collect()
}

/// The messages before both sides of a pair.
fn before(object: &Object<'_>) -> Row {
    let input = object.get("input").and_then(Node::object);
    if let Some(input) = input
        && let Some(messages) = input.get("messages")
    {
        let mut row = Row::default();
        row.add("user", messages);
        row.used.push("input");
        let entries = input.entries.iter().filter(|(_, key, _)| key != "messages");
        row.beside = entries
            .map(|(name, _, value)| (name.spelled().to_owned(), spelled(*value)))
            .collect();
        return row;
    }
    let mut row = instruction(object);
    let lists = ["messages", "conversations"];
    row.take_any(object, &lists, "user");
    row
}

fn instruction(object: &Object<'_>) -> Row {
    let mut row = Row::default();
    row.take_any(object, &["system", "system_prompt"], "system");
    if let Some(history) = object.get("history") {
        row.used.push("history");
        for exchange in history.items() {
            if exchange.items().count() > 2 {
                let note = "more than two texts of an exchange dropped";
                row.note(LossKind::TextDropped, note);
            }
            for (role, text) in ["user", "assistant"].into_iter().zip(exchange.items()) {
                row.add(role, text);
            }
        }
    }
    if let Some(exchanges) = object.get("conversation") {
        row.used.push("conversation");
        for exchange in exchanges.items().filter_map(Node::object) {
            for (_, key, _) in &exchange.entries {
                if key != "human" && key != "assistant" {
                    row.note(
                        LossKind::AttributeDropped,
                        &format!("the key {key:?} dropped"),
                    );
                }
            }
            for (key, role) in [("human", "user"), ("assistant", "assistant")] {
                if let Some(text) = exchange.get(key) {
                    row.add(role, text);
                }
            }
        }
    }
    if let Some(texts) = object.get("data") {
        row.used.push("data");
        let roles = ["user", "assistant"].into_iter().cycle();
        for (role, text) in roles.zip(texts.items()) {
            row.add(role, text);
        }
    }
    request(object, &mut row);
    called(object, &mut row);
    steps(object, &mut row);
    let answers = ["output", "response", "completion", "answer"];
    row.take_any(object, &answers, "assistant");
    row
}

/// The steps of an answer, of which each has a label. The labels stay beside the messages.
fn steps(object: &Object<'_>, row: &mut Row) {
    let Some(completions) = object.get("completions") else {
        return;
    };
    row.used.push("completions");
    let texts: Vec<String> = completions.items().filter_map(Node::string).collect();
    if texts.len() > 1 {
        let note = "the steps of the answer are joined by newlines";
        row.note(LossKind::PartsJoined, note);
    }
    row.say("assistant", &texts.join("\n"));
}

/// The calls of a row that answers a query with calls only, and its tools.
fn called(object: &Object<'_>, row: &mut Row) {
    let list = |key: &str| {
        let node = object.get(key)?;
        let value = match node.string() {
            Some(text) => serde_json::from_str(&text).ok()?,
            None => node.value()?,
        };
        value.as_array().cloned()
    };
    let Some(answers) = list("answers") else {
        return;
    };
    row.used.push("answers");
    let message = json!({"role": "assistant", "tool_calls": answers});
    row.messages.push(message.to_string());
    let Some(tools) = list("tools") else {
        return;
    };
    row.used.push("tools");
    let is_schema = |tool: &Value| {
        let parameters = tool.get("parameters");
        parameters.is_none_or(|it| it.get("type").is_some_and(Value::is_string))
    };
    if !tools.iter().all(is_schema) {
        let note = "the parameters of the tools are read as schemas of objects";
        let target = LossTarget::Transcript;
        row.losses
            .push(Loss::new(target, LossKind::DeclarationChanged, note));
    }
    let tools: Vec<Value> = tools.into_iter().map(with_schema).collect();
    row.tools = Some(Value::from(tools).to_string());
}

/// Gives a tool a schema, if its parameters are names with types of Python.
fn with_schema(mut tool: Value) -> Value {
    let Some(Value::Object(parameters)) = tool.get_mut("parameters") else {
        return tool;
    };
    if parameters.get("type").is_some_and(Value::is_string) {
        return tool;
    }
    let mut properties = std::mem::take(parameters);
    let mut required = Vec::new();
    for (name, property) in &mut properties {
        let Some(property) = property.as_object_mut() else {
            continue;
        };
        let spelled = property
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let is_optional = spelled.contains("optional") || property.contains_key("default");
        if !is_optional {
            required.push(Value::from(name.as_str()));
        }
        let kind = match spelled.split([',', '[']).next().unwrap_or_default().trim() {
            "str" | "string" => "string",
            "int" | "integer" => "integer",
            "float" | "number" => "number",
            "bool" | "boolean" => "boolean",
            "List" | "list" | "Tuple" | "tuple" | "Set" | "set" | "array" => "array",
            "Dict" | "dict" | "object" => "object",
            _ => {
                property.remove("type");
                continue;
            }
        };
        property.insert("type".to_owned(), kind.into());
    }
    parameters.insert("type".to_owned(), "object".into());
    parameters.insert("properties".to_owned(), properties.into());
    parameters.insert("required".to_owned(), required.into());
    tool
}

/// The request of a row, with its input or context.
fn request(object: &Object<'_>, row: &mut Row) {
    let text = |key: &str| object.get(key).and_then(Node::string);
    let Some(instruction) = text("instruction") else {
        row.take_any(object, &["prompt", "query", "question"], "user");
        return;
    };
    row.used.push("instruction");
    let mut words = vec![instruction];
    for key in ["input", "context"] {
        if let Some(more) = text(key) {
            row.used.push(key);
            words.push(more);
        }
    }
    words.retain(|words| !words.is_empty());
    if words.len() > 1 {
        let note = "`instruction` and its input are joined by a newline";
        row.note(LossKind::PartsJoined, note);
    }
    row.say("user", &words.join("\n"));
}

fn read_row(
    place: Span,
    object: &Object<'_>,
    row: &Row,
    label: Option<&str>,
    options: &ConvertOptions,
) -> Projected {
    let first = row.messages.iter().any(|text| text.contains("\"from\""));
    let from_values = first && row.messages.iter().all(|text| is_from_value(text));
    let (key, format) = if from_values {
        ("conversations", JsonFormat::ShareGpt)
    } else {
        ("messages", JsonFormat::OpenAi)
    };
    let mut text = String::from("{");
    for (name, word, value) in &object.entries {
        let is_label = label.is_some() && word == LABEL;
        if !row.used.contains(&&**word) && !is_label {
            text.push_str(&format!("{}:{},", name.spelled(), value.spelled()));
        }
    }
    for (name, value) in &row.beside {
        text.push_str(&format!("{name}:{value},"));
    }
    if let Some(tools) = &row.tools {
        text.push_str(&format!("\"tools\":{tools},"));
    }
    if let Some(label) = label {
        text.push_str(&format!("\"{LABEL}\":\"{label}\","));
    }
    text.push_str(&format!("\"{key}\":[{}]}}", row.messages.join(",")));
    let mut read = read(text.as_bytes(), format, options);
    // Places in the new text are not places in the file.
    for found in &mut read.diagnostics {
        found.primary = place;
    }
    read.losses.splice(0..0, row.losses.iter().cloned());
    read
}

fn is_from_value(message: &str) -> bool {
    let node = Node::parse(message.as_bytes(), Span::new(0, message.len()));
    let object = node.ok().and_then(Node::object);
    object.is_some_and(|object| object.get("from").is_some())
}
