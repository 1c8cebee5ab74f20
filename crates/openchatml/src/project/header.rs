//! The document header in JSON, and where the messages of a document are.

use serde_json::{Map, Value};

use super::node::{Kind, Node};
use super::outline::is_message;
use super::reading::Reading;
use super::settings::{read_setting, write_setting};
use super::tools::{self, ToolShape};
use crate::convert::{ConvertOptions, Writing};
use crate::document::owned::{HeaderBuf, Transcript};
use crate::loss::LossKind;
use crate::syntax::json::{PushJson, push_string};

/// The key of the messages in data sets.
const CONVERSATIONS: &str = "conversations";

/// The loss of a conversation that is not read.
const UNREAD: &str = "the conversation is left out, because it cannot be read";

/// The keys of a header that have a field of their own.
const OWN: [&str; 3] = ["version", "model", "generation_settings"];

/// The messages of a document, and its header if it has one.
pub(super) struct Opened<'t> {
    pub(super) messages: Vec<Node<'t>>,
    pub(super) header: Option<HeaderBuf>,
}

/// Finds the messages of a document: the array itself, or the one under `key` of an object. An
/// object that is a message itself is the only one; of several values each is one. The other keys of the object go into the header: `header` as it is (where `headers` are written),
/// `model` as the model, the rest as unknown keys.
pub(super) fn open<'t>(
    values: &[Node<'t>],
    keys: &[&str],
    own_header: bool,
    shape: ToolShape,
    reading: &mut Reading,
) -> Opened<'t> {
    let nothing = Opened {
        messages: Vec::new(),
        header: None,
    };
    let [node] = values else {
        return Opened {
            messages: values.to_vec(),
            ..nothing
        };
    };
    let node = *node;
    if node.object().is_some_and(|object| is_message(&object)) {
        return Opened {
            messages: vec![node],
            ..nothing
        };
    }
    if node.kind() == Kind::Array {
        return Opened {
            messages: node.items().collect(),
            ..nothing
        };
    }
    let expected = format!(
        "an array of messages, or an object with `{}`",
        keys.first().unwrap_or(&"messages")
    );
    if node.kind() != Kind::Object {
        reading.wrong(node.span(), "this is not a conversation", &expected);
        reading.note_whole(LossKind::MessageDropped, UNREAD);
        return nothing;
    }
    let Some(object) = reading.object(node, "the conversation") else {
        reading.note_whole(LossKind::MessageDropped, UNREAD);
        return nothing;
    };
    let messages = keys.iter().find_map(|key| object.get(key));
    let Some(messages) = messages.filter(|messages| messages.kind() == Kind::Array) else {
        let place = messages.map_or(node.span(), Node::span);
        reading.wrong(
            place,
            "the conversation has no array of messages",
            &expected,
        );
        reading.note_whole(LossKind::MessageDropped, UNREAD);
        return nothing;
    };
    let mut header = HeaderBuf::new("");
    let mut any = false;
    // Columns of data sets may have the names of settings.
    let is_request = !own_header && keys.first() != Some(&CONVERSATIONS);
    let declaring = tools::read(&object, shape, reading);
    for (_, key, value) in &object.entries {
        let is_read = keys.contains(&&**key) || declaring == Some(&**key);
        if is_read || value.kind() == Kind::Null {
            continue;
        }
        if own_header && key == "header" {
            read_header(*value, &mut header, reading);
            any = true;
        } else if own_header || OWN.iter().any(|own| own == key && own != &"model") {
            reading.note_whole(LossKind::HeaderDropped, format!("the key {key:?} dropped"));
        } else if is_request && add_setting(key, *value, shape, &mut header) {
            any = true;
        } else if key == "model" {
            any |= model(*value, &mut header, reading);
        } else {
            any |= extra(key, *value, &mut header, reading);
        }
    }
    Opened {
        messages: messages.items().collect(),
        header: any.then_some(header),
    }
}

fn model(value: Node<'_>, header: &mut HeaderBuf, reading: &mut Reading) -> bool {
    header.model = reading.must_be_text(value, "model").ok();
    header.model.is_some()
}

/// Adds a setting of a request; returns whether the key is one.
fn add_setting(key: &str, value: Node<'_>, shape: ToolShape, header: &mut HeaderBuf) -> bool {
    let Some(value) = value.value() else {
        return false;
    };
    let settings = &mut header.generation_settings;
    match read_setting(key, &value, shape) {
        Some((name, value)) if !settings.contains_key(name) => {
            settings.insert(name.to_owned(), value);
            true
        }
        _ => false,
    }
}

fn extra(key: &str, value: Node<'_>, header: &mut HeaderBuf, reading: &mut Reading) -> bool {
    let Some(value) = value.value() else {
        reading.wrong(
            value.span(),
            format!("the value of {key:?} is nested too deeply or is not text"),
            "plain data",
        );
        return false;
    };
    header.extra.insert(key.to_owned(), value);
    true
}

fn read_header(node: Node<'_>, header: &mut HeaderBuf, reading: &mut Reading) {
    let Some(object) = reading.object(node, "the header") else {
        return;
    };
    for (_, key, value) in &object.entries {
        match (&**key, value.kind()) {
            ("version" | "model" | "generation_settings", Kind::Null) => {}
            ("version", _) => {
                header.version = reading.must_be_text(*value, "version").unwrap_or_default();
            }
            ("model", _) => {
                model(*value, header, reading);
            }
            ("generation_settings", _) => match value.value() {
                Some(Value::Object(settings)) => header.generation_settings = settings,
                _ => reading.wrong(
                    value.span(),
                    "`generation_settings` is not an object",
                    "keys and values",
                ),
            },
            _ => {
                extra(key, *value, header, reading);
            }
        }
    }
}

/// The header as the value of `header`.
pub(super) fn to_value(header: &HeaderBuf) -> Value {
    let mut object = Map::new();
    if !header.version.is_empty() {
        object.insert("version".into(), header.version.clone().into());
    }
    if let Some(model) = &header.model {
        object.insert("model".into(), model.clone().into());
    }
    if !header.generation_settings.is_empty() {
        let settings = Value::Object(header.generation_settings.clone());
        object.insert("generation_settings".into(), settings);
    }
    for (key, value) in &header.extra {
        object.entry(key.clone()).or_insert_with(|| value.clone());
    }
    Value::Object(object)
}

/// The header and the tools as keys beside `messages`. What has no place there is noted.
pub(super) fn beside(
    transcript: &Transcript,
    messages: &[&str],
    shape: ToolShape,
    writing: &mut Writing,
) -> Map<String, Value> {
    let mut object = Map::new();
    if let Some(header) = &transcript.header {
        header_beside(header, transcript, messages, &mut object, writing);
        if messages.contains(&CONVERSATIONS) {
            if !header.generation_settings.is_empty() {
                writing.note_whole(LossKind::SettingDropped, "generation_settings dropped");
            }
        } else {
            settings_beside(header, shape, &mut object, writing);
        }
    }
    if !transcript.tools.is_empty() {
        let tools = tools::to_value(&transcript.tools, shape, writing);
        object.insert(tools::KEYS[0].into(), tools);
    }
    object
}

/// The generation settings as keys of a request.
fn settings_beside(
    header: &HeaderBuf,
    shape: ToolShape,
    object: &mut Map<String, Value>,
    writing: &mut Writing,
) {
    for (name, value) in &header.generation_settings {
        let written = write_setting(name, value, shape);
        match written.filter(|(key, _)| !object.contains_key(*key)) {
            Some((key, value)) => {
                object.insert(key.to_owned(), value);
            }
            None => writing.note_whole(
                LossKind::SettingDropped,
                &format!("the setting {name:?} dropped"),
            ),
        }
    }
}

fn header_beside(
    header: &HeaderBuf,
    transcript: &Transcript,
    messages: &[&str],
    object: &mut Map<String, Value>,
    writing: &mut Writing,
) {
    if !["", "2.0", "2.2"].contains(&header.version.as_str()) {
        writing.note_whole(
            LossKind::HeaderDropped,
            &format!("version {} dropped", header.version),
        );
    }
    if let Some(model) = &header.model {
        object.insert("model".into(), model.clone().into());
    }
    for (key, value) in &header.extra {
        let is_declared = key == tools::KEYS[0] && !transcript.tools.is_empty();
        let taken = is_declared || OWN.contains(&key.as_str()) || messages.contains(&key.as_str());
        if taken || value.is_null() {
            writing.note_whole(
                LossKind::HeaderDropped,
                &format!("the key {key:?} of the header dropped"),
            );
        } else {
            object.insert(key.clone(), value.clone());
        }
    }
}

/// Writes a document: the keys beside the messages, and one message per line, or everything on
/// one line. An object where `wrapped`, else the array alone.
pub(super) fn lay_out(
    writing: &mut Writing,
    beside: &Map<String, Value>,
    key: &str,
    wrapped: bool,
    messages: &[impl PushJson],
    options: &ConvertOptions,
) {
    let out = &mut writing.text;
    let wrapped = wrapped || !beside.is_empty() || options.line;
    if wrapped {
        out.push('{');
        for (name, value) in beside {
            push_string(out, name);
            out.push(':');
            value.push_json(out);
            out.push(',');
        }
        push_string(out, key);
        out.push(':');
    }
    out.push('[');
    for (index, message) in messages.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        if !options.line {
            out.push_str("\n  ");
        }
        message.push_json(out);
    }
    if !options.line && !messages.is_empty() {
        out.push('\n');
    }
    out.push(']');
    if wrapped {
        out.push('}');
    }
    out.push('\n');
}
