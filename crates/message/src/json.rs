//! The JSON form of messages, for the harness contract and the program's `--json`.
//!
//! Tool arguments are a JSON object if their text is one, and `null` if it is empty. The field
//! `arguments_text` holds the verbatim text if the object alone would not reproduce it.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::{
    Arguments, CallKind, ChatMessage, Content, ContentBlock, ImageDetail, ImageSource, Role,
    ToolCall,
};

impl ChatMessage {
    /// Returns the message as a JSON object.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("role".into(), json!(self.role.as_str()));
        if self.developer {
            object.insert("authority".into(), json!("developer"));
        }
        match &self.content {
            Content::Absent => {}
            Content::Text(text) => {
                object.insert("content".into(), json!(text));
            }
            Content::Blocks(blocks) => {
                let blocks = blocks.iter().map(block_to_json).collect();
                object.insert("content".into(), Value::Array(blocks));
            }
        }
        if !self.tool_calls.is_empty() {
            let calls = self.tool_calls.iter().map(call_to_json).collect();
            object.insert("tool_calls".into(), Value::Array(calls));
        }
        put(&mut object, "tool_call_id", self.tool_call_id.as_deref());
        put(&mut object, "name", self.name.as_deref());
        Value::Object(object)
    }

    /// Parses a message from a JSON object.
    ///
    /// The rules of its role are not checked; see [`ChatMessage::validate`].
    ///
    /// # Errors
    ///
    /// Returns a message that names the invalid field.
    pub fn from_json(value: &Value) -> Result<Self, String> {
        let object = value.as_object().ok_or("a message must be an object")?;
        let word = string(object, "role")?.ok_or("role: is required")?;
        let (role, mut developer) = match word.as_str() {
            "developer" => (Role::System, true),
            other => (
                Role::parse(other).ok_or_else(|| format!("role: `{other}` is not a role"))?,
                false,
            ),
        };
        if string(object, "authority")?.as_deref() == Some("developer") {
            developer = true;
        }
        let content = match object.get("content") {
            None | Some(Value::Null) => Content::Absent,
            Some(Value::String(text)) => Content::Text(text.clone()),
            Some(Value::Array(items)) => Content::Blocks(
                items
                    .iter()
                    .enumerate()
                    .map(|(at, item)| {
                        block_from_json(item).map_err(|why| format!("content[{at}]{why}"))
                    })
                    .collect::<Result<_, _>>()?,
            ),
            Some(_) => return Err("content: must be a string or a list of blocks".into()),
        };
        let tool_calls = match object.get("tool_calls") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(items)) => items
                .iter()
                .enumerate()
                .map(|(at, item)| {
                    call_from_json(item).map_err(|why| format!("tool_calls[{at}].{why}"))
                })
                .collect::<Result<_, _>>()?,
            Some(_) => return Err("tool_calls: must be a list".into()),
        };
        Ok(Self {
            role,
            developer,
            content,
            tool_calls,
            tool_call_id: string(object, "tool_call_id")?,
            name: string(object, "name")?,
        })
    }
}

impl Serialize for ChatMessage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ChatMessage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::from_json(&value).map_err(D::Error::custom)
    }
}

fn put(object: &mut Map<String, Value>, key: &str, value: Option<&str>) {
    if let Some(value) = value {
        object.insert(key.to_owned(), json!(value));
    }
}

fn string(object: &Map<String, Value>, key: &str) -> Result<Option<String>, String> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("{key}: must be a string")),
    }
}

fn block_to_json(block: &ContentBlock) -> Value {
    let mut object = Map::new();
    match block {
        ContentBlock::Text {
            text,
            signature,
            preamble,
        } => {
            object.insert("type".into(), json!("text"));
            object.insert("text".into(), json!(text));
            put(&mut object, "signature", signature.as_deref());
            if *preamble {
                object.insert("preamble".into(), json!(true));
            }
        }
        ContentBlock::Image {
            source,
            media_type,
            detail,
        } => {
            object.insert("type".into(), json!("image"));
            let source = match source {
                ImageSource::Url(url) => json!({"type": "url", "url": url}),
                ImageSource::Inline(data) => json!({"type": "inline", "base64_data": data}),
            };
            object.insert("source".into(), source);
            put(&mut object, "media_type", media_type.as_deref());
            put(&mut object, "detail", detail.map(ImageDetail::as_str));
        }
        ContentBlock::Thinking {
            text,
            signature,
            id,
        } => {
            object.insert("type".into(), json!("thinking"));
            object.insert("text".into(), json!(text));
            put(&mut object, "signature", signature.as_deref());
            put(&mut object, "id", id.as_deref());
        }
        ContentBlock::RedactedThinking { data } => {
            object.insert("type".into(), json!("redacted_thinking"));
            object.insert("data".into(), json!(data));
        }
    }
    Value::Object(object)
}

fn block_from_json(value: &Value) -> Result<ContentBlock, String> {
    let object = value.as_object().ok_or(": must be an object")?;
    let field = |key: &str| string(object, key).map_err(|why| format!(".{why}"));
    let required = |key: &str| field(key)?.ok_or_else(|| format!(".{key}: is required"));
    match required("type")?.as_str() {
        "text" => Ok(ContentBlock::Text {
            text: required("text")?,
            signature: field("signature")?,
            preamble: object
                .get("preamble")
                .and_then(Value::as_bool)
                .unwrap_or(false),
        }),
        "thinking" => Ok(ContentBlock::Thinking {
            text: required("text")?,
            signature: field("signature")?,
            id: field("id")?,
        }),
        "redacted_thinking" => Ok(ContentBlock::RedactedThinking {
            data: required("data")?,
        }),
        "image" => {
            let source = object.get("source").and_then(Value::as_object);
            let source = source.ok_or(".source: is required")?;
            let inner = |key: &str| {
                string(source, key)
                    .map_err(|why| format!(".source.{why}"))?
                    .ok_or_else(|| format!(".source.{key}: is required"))
            };
            let source = match inner("type")?.as_str() {
                "url" => ImageSource::Url(inner("url")?),
                "inline" => ImageSource::Inline(inner("base64_data")?),
                other => return Err(format!(".source.type: `{other}` is not url or inline")),
            };
            let detail = match field("detail")? {
                None => None,
                Some(word) => Some(
                    ImageDetail::parse(&word)
                        .ok_or_else(|| format!(".detail: `{word}` is not auto, low or high"))?,
                ),
            };
            Ok(ContentBlock::Image {
                source,
                media_type: field("media_type")?,
                detail,
            })
        }
        other => Err(format!(".type: `{other}` is not a content block")),
    }
}

fn call_to_json(call: &ToolCall) -> Value {
    let mut object = Map::new();
    object.insert("id".into(), json!(call.id));
    object.insert("name".into(), json!(call.name));
    let text = call.arguments.as_str();
    let parsed = match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(map)) => Value::Object(map),
        _ => Value::Null,
    };
    let lossless = if parsed.is_null() {
        text.is_empty()
    } else {
        parsed.to_string().as_str() == text
    };
    object.insert("arguments".into(), parsed);
    if !lossless {
        object.insert("arguments_text".into(), json!(text));
    }
    if call.kind == CallKind::Custom {
        object.insert("kind".into(), json!("custom"));
    }
    put(&mut object, "signature", call.signature.as_deref());
    Value::Object(object)
}

fn call_from_json(value: &Value) -> Result<ToolCall, String> {
    let object = value.as_object().ok_or("must be an object")?;
    let id = string(object, "id")?.ok_or("id: is required")?;
    let name = string(object, "name")?.ok_or("name: is required")?;
    let arguments = match (string(object, "arguments_text")?, object.get("arguments")) {
        (Some(text), _) => Arguments::from_text(text),
        (None, None | Some(Value::Null)) => Arguments::default(),
        (None, Some(Value::String(text))) => Arguments::from_text(text.clone()),
        (None, Some(Value::Object(map))) => Arguments::from_object(map),
        (None, Some(_)) => return Err("arguments: must be an object or null".into()),
    };
    let kind = match string(object, "kind")?.as_deref() {
        Some("custom") => CallKind::Custom,
        _ => CallKind::Function,
    };
    Ok(ToolCall {
        id,
        name,
        arguments,
        kind,
        signature: string(object, "signature")?,
    })
}
