//! The form of a JSON text, and the number of its conversations.
//!
//! The rules are those of [`recognize`], in their order; the first that applies decides. A row that
//! none applies to is refused with its keys and the nearest known shape.

use std::collections::BTreeSet;

use logue_source::{Diagnostic, Span};

use super::format::JsonFormat;
use super::history_read::is_own;
use super::node::{Kind, Node, Object};
use super::unknown_shape::{UnknownShape, unknown};

/// The keys that hold the messages of a row.
const LISTS: [&str; 3] = ["messages", "conversations", "conversation"];

/// The fields of a message that only OpenChatML has.
const OURS: [&str; 7] = [
    "channel",
    "terminator",
    "tool_call",
    "to",
    "call_id",
    "intent",
    "constrain",
];

/// The conversations of a text, each at its place: the items of an array whose items are
/// conversations themselves (rows with messages, or arrays), lines that are not messages, else the
/// whole text as one.
/// [`read_part`](super::read_part) reads them. Linear in the text.
///
/// # Errors
/// The text is not JSON.
///
/// ```
/// let text = br#"[{"conversations": []}, {"conversations": []}]"#;
/// assert_eq!(openchatml::project::conversations(text).unwrap().len(), 2);
/// ```
pub fn conversations(text: &[u8]) -> Result<Vec<Span>, Box<Diagnostic>> {
    let values = Node::values(text, Span::new(0, text.len()))?;
    let [whole] = values.as_slice() else {
        return Ok(if values.iter().all(|node| is_message_value(*node)) {
            vec![Span::new(0, text.len())]
        } else {
            values.into_iter().map(Node::span).collect()
        });
    };
    let several = whole.items().next().is_some() && whole.items().all(is_conversation);
    Ok(if several {
        whole.items().map(Node::span).collect()
    } else {
        vec![Span::new(0, text.len())]
    })
}

fn is_conversation(node: Node<'_>) -> bool {
    match node.kind() {
        Kind::Array => true,
        Kind::Object => {
            node.object()
                .is_some_and(|object| messages_of(&object).is_some() || row(&object).is_some())
                || unpacked(node).is_some()
        }
        _ => false,
    }
}

/// Returns whether an object is a message and not a row of several.
pub(super) fn is_message(object: &Object<'_>) -> bool {
    let speaks = object.get("role").or_else(|| object.get("from"));
    speaks.is_some_and(|node| node.kind() == Kind::String)
        && LISTS.iter().all(|key| object.get(key).is_none())
}

/// Returns whether a line is one message. A file of such lines is one conversation.
pub fn is_message_line(line: &[u8]) -> bool {
    let node = Node::parse(line, Span::new(0, line.len()));
    node.is_ok_and(is_message_value)
}

fn is_message_value(node: Node<'_>) -> bool {
    node.object().is_some_and(|object| is_message(&object))
}

/// The messages of an object, where it has some.
fn messages_of<'t>(object: &Object<'t>) -> Option<Node<'t>> {
    let mut found = LISTS.iter().filter_map(|key| object.get(key));
    found.find(|node| node.kind() == Kind::Array)
}

/// Returns a row whose messages are text with their list in place of the text.
pub(super) fn unpacked(row: Node<'_>) -> Option<String> {
    // Almost every row has a list, so the keys are only looked at if a text begins like one.
    if row.kind() != Kind::Object {
        return None;
    }
    memchr::memmem::find(row.spelled().as_bytes(), b"\"[")?;
    let object = row.object()?;
    let mut keys = LISTS.iter().copied();
    let key = keys.find(|key| {
        object
            .get(key)
            .is_some_and(|node| node.kind() == Kind::String)
    })?;
    let list = object.get(key)?.string()?;
    let whole = Span::new(0, list.len());
    let node = Node::parse(list.as_bytes(), whole).ok()?;
    if node.kind() != Kind::Array {
        return None;
    }
    let entries = object.entries.iter().map(|(name, word, value)| {
        let value = if word == key { node } else { *value };
        format!("{}:{}", name.spelled(), value.spelled())
    });
    let entries: Vec<String> = entries.collect();
    Some(format!("{{{}}}", entries.join(",")))
}

/// Returns the format of a JSON text; `None` for invalid JSON or an unknown format.
///
/// As [`recognize`].
pub fn detect(text: &[u8]) -> Option<JsonFormat> {
    recognize(text).ok()
}

/// Returns the format of a JSON text, or what was found instead.
///
/// The rules, in their order:
///
/// 1. Rows without messages: pairs of preference, `input` items and the `output` of Responses,
///    instructions, prompts with completions, questions with answers, lists of texts.
/// 2. A document with `header` is OpenChatML's JSON.
/// 3. By the first message that decides: `recipient`, contents of a system or developer, or a list
///    of texts beside `channel` as openai-harmony has them; blocks of Anthropic; `from` of `ShareGPT`; a field that only
///    OpenChatML has; a call, reasoning or an authority of `logue_message`.
/// 4. `messages` beside a text `system`: Anthropic.
/// 5. Any other message with `role`: Chat Completions.
///
/// Linear in the text.
///
/// # Errors
/// The text is not JSON, or a row of an unknown shape.
///
/// ```
/// use openchatml::project::{JsonFormat, recognize};
///
/// let text = br#"{"conversations": [{"from": "human", "value": "Hi"}]}"#;
/// assert_eq!(recognize(text), Ok(JsonFormat::ShareGpt));
///
/// let error = recognize(br#"{"message": [], "tool": 1}"#).unwrap_err();
/// assert_eq!(error.keys, ["message", "tool"]);
/// ```
pub fn recognize(text: &[u8]) -> Result<JsonFormat, UnknownShape> {
    let Ok(values) = Node::values(text, Span::new(0, text.len())) else {
        return Err(unknown(&[]));
    };
    recognize_values(&values)
}

/// Returns the format of values, which are one, or one on each line.
pub(super) fn recognize_values(values: &[Node<'_>]) -> Result<JsonFormat, UnknownShape> {
    let mut keys = Vec::new();
    let mut known = None;
    let rows: Vec<Node<'_>> = match values {
        [one] if one.items().next().is_some() && one.items().all(is_conversation) => {
            one.items().collect()
        }
        [_, _, ..] if values.iter().all(|line| is_message_value(*line)) => {
            let format = of_messages(values.iter().copied(), &mut keys);
            return format.ok_or_else(|| unknown(&keys));
        }
        values => values.to_vec(),
    };
    for node in rows {
        match of_row(node, &mut keys) {
            Some((format, true)) => return Ok(format),
            Some((format, false)) => known = Some(format),
            None => return Err(unknown(&keys)),
        }
    }
    known.ok_or_else(|| unknown(&keys))
}

/// The format of one row, and whether it excludes the others.
fn of_row(node: Node<'_>, keys: &mut Vec<String>) -> Option<(JsonFormat, bool)> {
    let certain = |format| (format, format != JsonFormat::OpenAi);
    if let Some(row) = unpacked(node) {
        let node = Node::parse(row.as_bytes(), Span::new(0, row.len())).ok()?;
        return of_row(node, keys);
    }
    let Some(object) = node.object() else {
        return of_messages(node.items(), keys).map(certain);
    };
    *keys = object
        .entries
        .iter()
        .map(|(_, key, _)| key.to_string())
        .collect();
    if object.get("header").is_some() {
        return Some((JsonFormat::Json, true));
    }
    if is_message(&object) {
        return of_messages(std::iter::once(node), keys).map(certain);
    }
    if let Some(format) = row(&object) {
        return Some((format, true));
    }
    let messages = messages_of(&object)?;
    if messages.items().next().is_none() {
        return Some((JsonFormat::OpenAi, false));
    }
    let format = of_messages(messages.items(), keys)?;
    let is_text = |key| object.get(key).is_some_and(|node| is_texts(node));
    let has_schema = object.get("tools").is_some_and(|tools| {
        let mut tools = tools.items().filter_map(Node::object);
        tools.any(|tool| tool.get("input_schema").is_some())
    });
    if format == JsonFormat::OpenAi && (is_text("system") || has_schema) {
        return Some((JsonFormat::Anthropic, true));
    }
    Some(certain(format))
}

/// Returns whether a value is a text or a list.
fn is_texts(node: Node<'_>) -> bool {
    matches!(node.kind(), Kind::String | Kind::Array)
}

/// The format of a row whose messages are not in a list of their own.
fn row(object: &Object<'_>) -> Option<JsonFormat> {
    let has = |key: &str| object.get(key).is_some();
    let text = |key: &str| {
        object
            .get(key)
            .is_some_and(|node| node.kind() == Kind::String)
    };
    let list = |key: &str| {
        object
            .get(key)
            .is_some_and(|node| node.kind() == Kind::Array)
    };
    let pair = |one: &str, other: &str| has(one) && has(other);
    let preferred = ["preferred_output", "preferred_completion"];
    if text("rejected_response") || list("rejected_response") {
        let is_answered = LISTS.iter().any(|key| list(key)) || text("response");
        return is_answered.then_some(JsonFormat::Preference);
    }
    if pair("chosen", "rejected") || (has("input") && preferred.iter().any(|key| has(key))) {
        return Some(JsonFormat::Preference);
    }
    if text("instruction") && (text("output") || text("response")) {
        return Some(JsonFormat::Instruction);
    }
    let is_item = |node: Node<'_>| {
        let object = node.object();
        object.is_some_and(|object| object.get("type").is_some() || object.get("role").is_some())
    };
    let items = |key: &str| {
        object
            .get(key)
            .is_some_and(|node| node.items().any(is_item))
    };
    let request = pair("input", "instructions") && text("input");
    if !has("messages") && (items("input") || items("output") || request) {
        return Some(JsonFormat::Responses);
    }
    let exchange = object.get("conversation").is_some_and(|node| {
        let mut items = node.items().filter_map(Node::object);
        items.any(|item| item.get("human").is_some() && item.get("assistant").is_some())
    });
    let texts = object.get("data").is_some_and(|node| {
        node.items().next().is_some() && node.items().all(|item| item.kind() == Kind::String)
    });
    let is_stepwise = text("prompt") && has_labelled_steps(object);
    // Other lists of answers are not one answer.
    let is_listed = has("completions") || LISTS.iter().any(|key| has(key));
    let prompt = !is_listed && (text("prompt") || list("prompt"));
    let answered = (text("query") && text("response"))
        || (text("question") && (text("answer") || text("response")));
    let is_list = |key: &str| text(key) || list(key);
    let called = text("query") && is_list("answers") && is_list("tools");
    (exchange || texts || prompt || is_stepwise || answered || called)
        .then_some(JsonFormat::Instruction)
}

/// Returns whether a row has the steps of one answer and their labels.
fn has_labelled_steps(object: &Object<'_>) -> bool {
    let count = |key: &str, is_one: fn(Node<'_>) -> bool| {
        let items = object.get(key).map(Node::items)?;
        let items: Vec<Node<'_>> = items.collect();
        items
            .iter()
            .all(|item| is_one(*item))
            .then_some(items.len())
    };
    let steps = count("completions", |step| step.string().is_some());
    let labels = count("labels", |label| {
        matches!(label.spelled(), "true" | "false")
    });
    steps.is_some_and(|steps| steps > 0) && steps == labels
}

/// The format of messages; `None` if there is no message.
fn of_messages<'t>(
    messages: impl Iterator<Item = Node<'t>>,
    keys: &mut Vec<String>,
) -> Option<JsonFormat> {
    let messages: Vec<(Node<'t>, Object<'t>)> = messages
        .filter_map(|item| Some((item, item.object()?)))
        .collect();
    if let Some((_, first)) = messages.first() {
        *keys = first
            .entries
            .iter()
            .map(|(_, key, _)| key.to_string())
            .collect();
    }
    let is_harmony = |(_, message): &(Node<'t>, Object<'t>)| {
        let kinds = kinds(message);
        message.get("recipient").is_some()
            || kinds.contains("system_content")
            || kinds.contains("developer_content")
            // The content of OpenChatML is a text.
            || (message.get("channel").is_some() && kinds.contains("text"))
    };
    if messages.iter().any(is_harmony) {
        return Some(JsonFormat::HarmonyJson);
    }
    let mut known = None;
    let mut thinks = false;
    for (item, message) in &messages {
        let has = |key: &str| message.get(key).is_some();
        let has_role = message
            .get("role")
            .is_some_and(|role| role.kind() == Kind::String);
        if !has_role && is_response_item(message) {
            return Some(JsonFormat::Responses);
        }
        let kinds = kinds(message);
        if kinds.contains("tool_use") || kinds.contains("tool_result") || has_thinking(message) {
            return Some(JsonFormat::Anthropic);
        }
        if has("from") {
            return Some(JsonFormat::ShareGpt);
        }
        if OURS.iter().any(|key| has(key)) || is_own(*item) {
            return Some(JsonFormat::Json);
        }
        if !has_role {
            continue;
        }
        known = Some(JsonFormat::OpenAi);
        thinks |= has("thinking");
        // Only Chat Completions have words beside calls.
        let words = message.get("content").map(Node::spelled);
        if has("tool_calls") && words.is_some_and(|words| words != "\"\"") {
            return Some(JsonFormat::OpenAi);
        }
    }
    if thinks {
        Some(JsonFormat::Json)
    } else {
        known
    }
}

/// The types of the parts of a message.
fn kinds(message: &Object<'_>) -> BTreeSet<String> {
    let content = message.get("content");
    let parts = content.into_iter().flat_map(Node::items);
    parts
        .filter_map(|part| part.object()?.get("type")?.string())
        .collect()
}

/// Returns whether a message has a block of reasoning as Anthropic spells it.
fn has_thinking(message: &Object<'_>) -> bool {
    let content = message.get("content");
    let mut parts = content.into_iter().flat_map(Node::items);
    parts.any(|part| {
        let part = part.object();
        part.is_some_and(|part| part.get("thinking").is_some() && part.get("signature").is_some())
    })
}

/// Returns whether an object is an item of Responses other than a message.
fn is_response_item(object: &Object<'_>) -> bool {
    let kind = object.get("type").and_then(Node::string);
    let kind = kind.as_deref().unwrap_or_default();
    kind == "reasoning" || kind.ends_with("_call") || kind.ends_with("_call_output")
}
