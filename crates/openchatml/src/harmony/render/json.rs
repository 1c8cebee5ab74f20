//! The JSON of a conversation, in the shape that openai-harmony reads and writes.
//!
//! The speaker's role and name are beside the content; a content that is one text is a string,
//! any other a list of parts with a `type`. Absent values are omitted: no field has a default.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::conversation::{Content, Conversation, RenderMessage};
use super::system::{DeveloperContent, ReasoningEffort, SystemContent};
use super::tools::{FunctionTool, ToolNamespace};
use crate::syntax::vocabulary::FrameRole;

impl Conversation {
    /// Reads a conversation from JSON.
    ///
    /// # Errors
    /// What is not JSON, or not a conversation.
    ///
    /// ```
    /// use openchatml::harmony::{RenderMessage, Conversation};
    ///
    /// let text = r#"{"messages":[{"role":"user","content":"Hello"}]}"#;
    /// let conversation = Conversation::from_json(text)?;
    /// assert_eq!(conversation.messages, [RenderMessage::user("Hello")]);
    /// assert_eq!(conversation.to_json(), text);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The conversation as JSON.
    pub fn to_json(&self) -> String {
        // Maps have strings as keys and nothing else can fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[derive(Serialize, Deserialize)]
struct Messages<M> {
    messages: M,
}

impl Serialize for Conversation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let messages = &self.messages;
        Messages { messages }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Conversation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Messages::deserialize(deserializer).map(|read| Self::new(read.messages))
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Speaker {
    User,
    Assistant,
    System,
    Developer,
    Tool,
}

#[derive(Serialize, Deserialize)]
struct Message {
    role: Speaker,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    recipient: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    channel: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    content: Body,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a string or a list of contents")]
enum Body {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part {
    Text { text: String },
    SystemContent(System),
    DeveloperContent(Developer),
}

#[derive(Serialize, Deserialize)]
struct System {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model_identity: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<Effort>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    conversation_start_date: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    knowledge_cutoff: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    channel_config: Option<Channels>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tools: Option<BTreeMap<String, Namespace>>,
}

#[derive(Serialize, Deserialize)]
enum Effort {
    Low,
    Medium,
    High,
}

#[derive(Serialize, Deserialize)]
struct Channels {
    valid_channels: Vec<String>,
    channel_required: bool,
}

#[derive(Serialize, Deserialize)]
struct Developer {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tools: Option<BTreeMap<String, Namespace>>,
}

#[derive(Serialize, Deserialize)]
struct Namespace {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    tools: Vec<Function>,
}

#[derive(Serialize, Deserialize)]
struct Function {
    name: String,
    description: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parameters: Option<Value>,
}

impl Serialize for RenderMessage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let role = match self.role {
            FrameRole::User => Speaker::User,
            FrameRole::Assistant => Speaker::Assistant,
            FrameRole::System => Speaker::System,
            FrameRole::Developer => Speaker::Developer,
            // An unknown speaker has the least authority.
            FrameRole::Tool | FrameRole::Other => Speaker::Tool,
        };
        let content = match self.content.as_slice() {
            [Content::Text(text)] => Body::Text(text.clone()),
            parts => Body::Parts(parts.iter().map(Part::from).collect()),
        };
        let message = Message {
            role,
            name: self.name.clone(),
            recipient: self.recipient.clone(),
            channel: self.channel.clone(),
            content_type: self.content_type.clone(),
            content,
        };
        message.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RenderMessage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let message = Message::deserialize(deserializer)?;
        let role = match message.role {
            Speaker::User => FrameRole::User,
            Speaker::Assistant => FrameRole::Assistant,
            Speaker::System => FrameRole::System,
            Speaker::Developer => FrameRole::Developer,
            Speaker::Tool => FrameRole::Tool,
        };
        let content = match message.content {
            Body::Text(text) => vec![Content::Text(text)],
            Body::Parts(parts) => parts.into_iter().map(Content::from).collect(),
        };
        Ok(Self {
            role,
            name: message.name,
            recipient: message.recipient,
            channel: message.channel,
            content_type: message.content_type,
            content,
        })
    }
}

impl From<&Content> for Part {
    fn from(content: &Content) -> Self {
        match content {
            Content::Text(text) => Self::Text { text: text.clone() },
            Content::System(content) => {
                let says_channels = content.channel_required || !content.valid_channels.is_empty();
                Self::SystemContent(System {
                    model_identity: content.model_identity.clone(),
                    reasoning_effort: content.reasoning_effort.map(|effort| match effort {
                        ReasoningEffort::Low => Effort::Low,
                        ReasoningEffort::Medium => Effort::Medium,
                        ReasoningEffort::High => Effort::High,
                    }),
                    conversation_start_date: content.current_date.clone(),
                    knowledge_cutoff: content.knowledge_cutoff.clone(),
                    channel_config: says_channels.then(|| Channels {
                        valid_channels: content.valid_channels.clone(),
                        channel_required: content.channel_required,
                    }),
                    tools: to_namespaces(&content.tools),
                })
            }
            Content::Developer(content) => Self::DeveloperContent(Developer {
                instructions: content.instructions.clone(),
                tools: to_namespaces(&content.tools),
            }),
        }
    }
}

impl From<Part> for Content {
    fn from(part: Part) -> Self {
        match part {
            Part::Text { text } => Self::Text(text),
            Part::SystemContent(read) => {
                let mut content = SystemContent::empty();
                content.model_identity = read.model_identity;
                content.knowledge_cutoff = read.knowledge_cutoff;
                content.current_date = read.conversation_start_date;
                content.reasoning_effort = read.reasoning_effort.map(|effort| match effort {
                    Effort::Low => ReasoningEffort::Low,
                    Effort::Medium => ReasoningEffort::Medium,
                    Effort::High => ReasoningEffort::High,
                });
                if let Some(channels) = read.channel_config {
                    content.valid_channels = channels.valid_channels;
                    content.channel_required = channels.channel_required;
                }
                content.tools = from_namespaces(read.tools);
                content.into()
            }
            Part::DeveloperContent(read) => {
                let content = DeveloperContent {
                    instructions: read.instructions,
                    tools: from_namespaces(read.tools),
                };
                content.into()
            }
        }
    }
}

fn to_namespaces(tools: &BTreeMap<String, ToolNamespace>) -> Option<BTreeMap<String, Namespace>> {
    let namespaces = tools.iter().map(|(key, namespace)| {
        let functions = namespace.functions.iter().map(|function| Function {
            name: function.name.clone(),
            description: function.description.clone(),
            parameters: function.parameters.clone(),
        });
        let namespace = Namespace {
            name: namespace.name.clone(),
            description: namespace.description.clone(),
            tools: functions.collect(),
        };
        (key.clone(), namespace)
    });
    (!tools.is_empty()).then(|| namespaces.collect())
}

fn from_namespaces(tools: Option<BTreeMap<String, Namespace>>) -> BTreeMap<String, ToolNamespace> {
    let namespaces = tools.into_iter().flatten().map(|(key, read)| {
        let functions = read.tools.into_iter();
        let functions = functions.map(|function| {
            FunctionTool::new(function.name, function.description, function.parameters)
        });
        let mut namespace = ToolNamespace::new(read.name, functions);
        namespace.description = read.description;
        (key, namespace)
    });
    namespaces.collect()
}
