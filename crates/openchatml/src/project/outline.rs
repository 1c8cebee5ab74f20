//! The form of a JSON text, and the number of its conversations.

use logue_source::{Diagnostic, Span};

use super::JsonFormat;
use super::history_read::is_own;
use super::node::{Kind, Node, Object};

/// The conversations of a text, each at its place: the items of an array whose items are
/// conversations themselves (objects with `messages` or `conversations`, or arrays), else the whole
/// text as one. [`read_part`](super::read_part) reads them. Linear in the text.
///
/// # Errors
/// The text is not JSON.
///
/// ```
/// let text = br#"[{"conversations": []}, {"conversations": []}]"#;
/// assert_eq!(openchatml::project::conversations(text).unwrap().len(), 2);
/// ```
pub fn conversations(text: &[u8]) -> Result<Vec<Span>, Box<Diagnostic>> {
    let whole = Node::parse(text, Span::new(0, text.len()))?;
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
        Kind::Object => node
            .object()
            .is_some_and(|object| messages_of(&object).is_some()),
        _ => false,
    }
}

/// The messages of an object, where it has some.
fn messages_of<'t>(object: &Object<'t>) -> Option<Node<'t>> {
    let keys = ["messages", "conversations", "conversation"];
    let mut found = keys.iter().filter_map(|key| object.get(key));
    found.find(|node| node.kind() == Kind::Array)
}

/// Returns the format of a JSON text; `None` for invalid JSON or an unknown format.
///
/// The rules, in their order: a message with `from` is `ShareGPT`; one with a field that only
/// OpenChatML has (`channel`, `terminator`, `tool_call`, `thinking`, `to`, `call_id`, `intent`), or
/// a document with `header`, is its JSON, as is one with a call, reasoning or an authority of the form of
/// `logue_message`; any other message with `role` is one of Chat Completions.
/// Linear in the text.
///
/// ```
/// use openchatml::project::{JsonFormat, detect};
///
/// let text = br#"{"conversations": [{"from": "human", "value": "Hi"}]}"#;
/// assert_eq!(detect(text), Some(JsonFormat::ShareGpt));
/// ```
pub fn detect(text: &[u8]) -> Option<JsonFormat> {
    const OURS: [&str; 8] = [
        "channel",
        "terminator",
        "tool_call",
        "thinking",
        "to",
        "call_id",
        "intent",
        "constrain",
    ];
    let parts = conversations(text).ok()?;
    let mut known = None;
    for part in parts {
        let node = Node::parse(text, part).ok()?;
        let object = node.object();
        let messages = match &object {
            Some(object) if object.get("header").is_some() => return Some(JsonFormat::Json),
            Some(object) => messages_of(object)?,
            None => node,
        };
        for item in messages.items() {
            let Some(message) = item.object() else {
                continue;
            };
            if message.get("from").is_some() {
                return Some(JsonFormat::ShareGpt);
            }
            if OURS.iter().any(|key| message.get(key).is_some()) || is_own(item) {
                return Some(JsonFormat::Json);
            }
            if message.get("role").is_some() {
                known = Some(JsonFormat::OpenAi);
            }
        }
    }
    known
}
