//! The JSON form of messages, for the harness contract and the program's `--json`.
//!
//! Tool arguments are a JSON object if their text is one, and `null` if it is empty. The field
//! `arguments_text` holds the verbatim text if the object alone would not reproduce it.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::{
    Arguments, CallKind, ChatMessage, Content, ContentBlock, ImageDetail, ImageSource,
    MessageJsonError, Role, ToolCall,
};

const ROLES: &str = "system, developer, user, assistant or tool";
const INTERRUPTED: &str = "interrupted";
const BLOCKS: &str = "text, thinking, redacted_thinking or image";

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
        put(&mut object, "phase", self.phase.as_deref());
        put(
            &mut object,
            "status",
            self.interrupted.then_some(INTERRUPTED),
        );
        Value::Object(object)
    }

    /// Parses a message from a JSON object.
    ///
    /// The rules of its role are not checked; see [`ChatMessage::validate`]. Fields that the form
    /// does not define are ignored.
    ///
    /// # Errors
    ///
    /// Returns [`MessageJsonError`] if a required field is missing, a value has a wrong type, or a
    /// role, block type or other word is unknown.
    pub fn from_json(value: &Value) -> Result<Self, MessageJsonError> {
        let fields = Fields::new(value, String::new())?;
        let (role, mut developer) = match fields.required("role", ROLES)? {
            "developer" => (Role::System, true),
            word => match Role::parse(word) {
                Some(role) => (role, false),
                None => return Err(fields.unknown("role", ROLES, word)),
            },
        };
        match fields.string("authority")? {
            None => {}
            Some("developer") => developer = true,
            Some(word) => return Err(fields.unknown("authority", "developer", word)),
        }
        let content = match fields.get("content") {
            None => Content::Absent,
            Some(Value::String(text)) => Content::Text(text.clone()),
            Some(Value::Array(items)) => Content::Blocks(
                items
                    .iter()
                    .enumerate()
                    .map(|(index, item)| block_from_json(item, format!("content[{index}]")))
                    .collect::<Result<_, _>>()?,
            ),
            Some(other) => {
                return Err(fields.wrong_type("content", "a string or a list of blocks", other));
            }
        };
        let tool_calls = match fields.get("tool_calls") {
            None => Vec::new(),
            Some(Value::Array(items)) => items
                .iter()
                .enumerate()
                .map(|(index, item)| call_from_json(item, format!("tool_calls[{index}]")))
                .collect::<Result<_, _>>()?,
            Some(other) => return Err(fields.wrong_type("tool_calls", "a list", other)),
        };
        Ok(Self {
            role,
            developer,
            content,
            tool_calls,
            tool_call_id: fields.owned("tool_call_id")?,
            name: fields.owned("name")?,
            phase: fields.owned("phase")?,
            // Other programs write other words.
            interrupted: role == Role::Assistant
                && fields.get("status").and_then(Value::as_str) == Some(INTERRUPTED),
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

/// An object of the JSON form and its path.
struct Fields<'v> {
    object: &'v Map<String, Value>,
    path: String,
}

impl<'v> Fields<'v> {
    fn new(value: &'v Value, path: String) -> Result<Self, MessageJsonError> {
        match value {
            Value::Object(object) => Ok(Self { object, path }),
            other => Err(MessageJsonError::type_of(&path, "an object", other)),
        }
    }

    fn path(&self, key: &str) -> String {
        if self.path.is_empty() {
            return key.to_owned();
        }
        format!("{}.{key}", self.path)
    }

    /// Returns the value of a field; null counts as absent.
    fn get(&self, key: &str) -> Option<&'v Value> {
        self.object.get(key).filter(|value| !value.is_null())
    }

    fn string(&self, key: &str) -> Result<Option<&'v str>, MessageJsonError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong_type(key, "a string", other)),
        }
    }

    fn owned(&self, key: &str) -> Result<Option<String>, MessageJsonError> {
        Ok(self.string(key)?.map(str::to_owned))
    }

    fn required(&self, key: &str, expected: &'static str) -> Result<&'v str, MessageJsonError> {
        self.string(key)?
            .ok_or_else(|| MessageJsonError::missing(&self.path(key), expected))
    }

    fn flag(&self, key: &str) -> Result<bool, MessageJsonError> {
        match self.get(key) {
            None => Ok(false),
            Some(Value::Bool(value)) => Ok(*value),
            Some(other) => Err(self.wrong_type(key, "a boolean", other)),
        }
    }

    fn wrong_type(&self, key: &str, expected: &'static str, value: &Value) -> MessageJsonError {
        MessageJsonError::type_of(&self.path(key), expected, value)
    }

    fn unknown(&self, key: &str, expected: &'static str, word: &str) -> MessageJsonError {
        MessageJsonError::word(&self.path(key), expected, word)
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

fn block_from_json(value: &Value, path: String) -> Result<ContentBlock, MessageJsonError> {
    let fields = Fields::new(value, path)?;
    match fields.required("type", BLOCKS)? {
        "text" => Ok(ContentBlock::Text {
            text: fields.required("text", "a string")?.to_owned(),
            signature: fields.owned("signature")?,
            preamble: fields.flag("preamble")?,
        }),
        "thinking" => Ok(ContentBlock::Thinking {
            text: fields.required("text", "a string")?.to_owned(),
            signature: fields.owned("signature")?,
            id: fields.owned("id")?,
        }),
        "redacted_thinking" => Ok(ContentBlock::RedactedThinking {
            data: fields.required("data", "a string")?.to_owned(),
        }),
        "image" => {
            let detail = match fields.string("detail")? {
                None => None,
                Some(word) => match ImageDetail::parse(word) {
                    Some(detail) => Some(detail),
                    None => return Err(fields.unknown("detail", "auto, low or high", word)),
                },
            };
            Ok(ContentBlock::Image {
                source: image_source_from_json(&fields)?,
                media_type: fields.owned("media_type")?,
                detail,
            })
        }
        other => Err(fields.unknown("type", BLOCKS, other)),
    }
}

fn image_source_from_json(image: &Fields<'_>) -> Result<ImageSource, MessageJsonError> {
    let path = image.path("source");
    let Some(source) = image.get("source") else {
        return Err(MessageJsonError::missing(&path, "an object"));
    };
    let fields = Fields::new(source, path)?;
    match fields.required("type", "url or inline")? {
        "url" => Ok(ImageSource::Url(
            fields.required("url", "a string")?.to_owned(),
        )),
        "inline" => Ok(ImageSource::Inline(
            fields.required("base64_data", "a string")?.to_owned(),
        )),
        other => Err(fields.unknown("type", "url or inline", other)),
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

fn call_from_json(value: &Value, path: String) -> Result<ToolCall, MessageJsonError> {
    let fields = Fields::new(value, path)?;
    let id = fields.required("id", "a string")?.to_owned();
    let name = fields.required("name", "a string")?.to_owned();
    let arguments = match (fields.string("arguments_text")?, fields.get("arguments")) {
        (Some(text), _) => Arguments::from_text(text),
        (None, None) => Arguments::default(),
        (None, Some(Value::String(text))) => Arguments::from_text(text.clone()),
        (None, Some(Value::Object(map))) => Arguments::from_object(map),
        (None, Some(other)) => {
            return Err(fields.wrong_type("arguments", "an object, a string or null", other));
        }
    };
    let kind = match fields.string("kind")? {
        None | Some("function") => CallKind::Function,
        Some("custom") => CallKind::Custom,
        Some(word) => return Err(fields.unknown("kind", "function or custom", word)),
    };
    Ok(ToolCall {
        id,
        name,
        arguments,
        kind,
        signature: fields.owned("signature")?,
    })
}
