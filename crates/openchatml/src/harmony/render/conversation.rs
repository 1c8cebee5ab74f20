//! The conversation as programs build it.

use super::system::{DeveloperContent, SystemContent};
use crate::syntax::vocabulary::FrameRole;

/// Messages in order.
///
/// ```
/// use openchatml::FrameRole;
/// use openchatml::harmony::{RenderMessage, Conversation, Form, RenderOptions};
///
/// let conversation = Conversation::new(vec![RenderMessage::user("What is 2 + 2?")]);
/// let prompt = conversation.to_text(Form::Completion(FrameRole::Assistant), &RenderOptions::default())?;
/// assert_eq!(prompt, "<|start|>user<|message|>What is 2 + 2?<|end|><|start|>assistant");
/// # Ok::<(), openchatml::harmony::RenderError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Conversation {
    /// The messages.
    pub messages: Vec<RenderMessage>,
}

impl Conversation {
    /// A conversation of these messages.
    pub const fn new(messages: Vec<RenderMessage>) -> Self {
        Self { messages }
    }

    /// Returns whether a developer declares functions; a system message then names their channel.
    pub(in crate::harmony) fn declares_functions(&self) -> bool {
        let developers = self.messages.iter();
        let developers = developers.filter(|message| message.role == FrameRole::Developer);
        let mut parts = developers.flat_map(|message| &message.content);
        parts.any(|part| match part {
            Content::Developer(content) => content.has_functions(),
            _ => false,
        })
    }
}

impl FromIterator<RenderMessage> for Conversation {
    fn from_iter<I: IntoIterator<Item = RenderMessage>>(messages: I) -> Self {
        Self::new(messages.into_iter().collect())
    }
}

/// A message that is to be rendered.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RenderMessage {
    /// The speaker. [`FrameRole::Other`] cannot be rendered.
    pub role: FrameRole,
    /// The speaker's name; a tool must have one, which takes the role's place.
    pub name: Option<String>,
    /// The recipient. `all` is not written.
    pub recipient: Option<String>,
    /// The channel.
    pub channel: Option<String>,
    /// The content type. One that begins with `<|constrain|>` is a type that the body must have.
    pub content_type: Option<String>,
    /// The body's parts, with nothing between them.
    pub content: Vec<Content>,
}

impl RenderMessage {
    /// A message with one part and nothing in its header but the role.
    pub fn new(role: FrameRole, content: impl Into<Content>) -> Self {
        Self {
            role,
            name: None,
            recipient: None,
            channel: None,
            content_type: None,
            content: vec![content.into()],
        }
    }

    /// The ground rules.
    pub fn system(content: impl Into<Content>) -> Self {
        Self::new(FrameRole::System, content)
    }

    /// Instructions and tools.
    pub fn developer(content: impl Into<Content>) -> Self {
        Self::new(FrameRole::Developer, content)
    }

    /// A message of the user.
    pub fn user(content: impl Into<Content>) -> Self {
        Self::new(FrameRole::User, content)
    }

    /// A message of the model; models of this format expect a channel on it.
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self::new(FrameRole::Assistant, content)
    }

    /// The reply of the tool `name` (such as `functions.lamp`) to the assistant.
    pub fn tool(name: impl Into<String>, content: impl Into<Content>) -> Self {
        Self::new(FrameRole::Tool, content)
            .with_name(name)
            .with_recipient("assistant")
            .with_channel("commentary")
    }

    /// The assistant's call of the tool `recipient` with JSON arguments.
    pub fn call(recipient: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self::assistant(arguments.into())
            .with_recipient(recipient)
            .with_channel("commentary")
            .with_constrain("json")
    }

    /// Sets the name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the recipient.
    #[must_use]
    pub fn with_recipient(mut self, recipient: impl Into<String>) -> Self {
        self.recipient = Some(recipient.into());
        self
    }

    /// Sets the channel.
    #[must_use]
    pub fn with_channel(mut self, channel: impl Into<String>) -> Self {
        self.channel = Some(channel.into());
        self
    }

    /// Sets the content type.
    #[must_use]
    pub fn with_content_type(mut self, content_type: impl Into<String>) -> Self {
        self.content_type = Some(content_type.into());
        self
    }

    /// Sets the required type of the body.
    #[must_use]
    pub fn with_constrain(self, content_type: &str) -> Self {
        self.with_content_type(format!("{}{content_type}", crate::ControlToken::Constrain))
    }

    /// Adds a part.
    #[must_use]
    pub fn with_part(mut self, content: impl Into<Content>) -> Self {
        self.content.push(content.into());
        self
    }

    /// The channel's name if it is this one.
    pub(super) fn is_on(&self, channel: &str) -> bool {
        self.channel.as_deref() == Some(channel)
    }
}

/// A part of a message's body.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Content {
    /// Text as it is.
    Text(String),
    /// Content of a system message; not allowed in others.
    System(Box<SystemContent>),
    /// Content of a developer message; not allowed in others.
    Developer(Box<DeveloperContent>),
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<SystemContent> for Content {
    fn from(content: SystemContent) -> Self {
        Self::System(Box::new(content))
    }
}

impl From<DeveloperContent> for Content {
    fn from(content: DeveloperContent) -> Self {
        Self::Developer(Box::new(content))
    }
}
