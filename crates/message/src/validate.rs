//! Rules for the content of each role.
//!
//! | role | content | tool calls | tool call id |
//! |---|---|---|---|
//! | system | non-empty text | none | none |
//! | user | non-empty text, or text and image blocks | none | none |
//! | assistant | text, or text and thinking blocks; may be empty if it calls tools | any | none |
//! | tool | text, empty allowed | none | required |

use std::collections::BTreeSet;

use crate::{ChatMessage, Content, ContentBlock, ImageSource, Role};

/// An invalid combination of role and content (category `chat_message_shape_invalid`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShapeError {
    /// The invalid field, such as `content[1].text`.
    pub field: String,
    /// The violated rule.
    pub reason: String,
}

impl ShapeError {
    /// The stable category of this error.
    pub const CATEGORY: &'static str = "chat_message_shape_invalid";

    fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            reason: reason.into(),
        }
    }
}

impl std::fmt::Display for ShapeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.reason)
    }
}

impl std::error::Error for ShapeError {}

impl ChatMessage {
    /// Checks the message against the rules of its role.
    ///
    /// # Errors
    ///
    /// Returns [`ShapeError`] for the first violated rule.
    pub fn validate(&self) -> Result<(), ShapeError> {
        if self.developer && self.role != Role::System {
            return Err(ShapeError::new(
                "role",
                "only an instruction can come from the developer",
            ));
        }
        match self.role {
            Role::System => {
                self.forbid_calls()?;
                match &self.content {
                    Content::Text(text) if !text.is_empty() => Ok(()),
                    Content::Blocks(_) => Err(ShapeError::new(
                        "content",
                        "a system message must be text, not blocks",
                    )),
                    _ => Err(ShapeError::new(
                        "content",
                        "a system message cannot be empty",
                    )),
                }
            }
            Role::User => {
                self.forbid_calls()?;
                self.require_content()?;
                self.check_blocks(|block| match block {
                    ContentBlock::Text { .. } | ContentBlock::Image { .. } => Ok(()),
                    _ => Err("a user message can contain only text and images"),
                })
            }
            Role::Assistant => {
                if self.tool_call_id.is_some() {
                    return Err(ShapeError::new(
                        "tool_call_id",
                        "only a tool message answers a call",
                    ));
                }
                self.check_calls()?;
                if self.tool_calls.is_empty() {
                    self.require_content()?;
                }
                self.check_blocks(|block| match block {
                    ContentBlock::Image { .. } => {
                        Err("an assistant message cannot contain an image")
                    }
                    _ => Ok(()),
                })
            }
            Role::Tool => {
                if !self.tool_calls.is_empty() {
                    return Err(ShapeError::new(
                        "tool_calls",
                        "only an assistant message calls tools",
                    ));
                }
                if self.tool_call_id.as_deref().unwrap_or_default().is_empty() {
                    return Err(ShapeError::new(
                        "tool_call_id",
                        "a tool message requires the id of its call",
                    ));
                }
                match &self.content {
                    Content::Text(_) => Ok(()),
                    // A result without images is a string (harness-chat §3).
                    Content::Blocks(_) if self.content.has_image() => {
                        self.check_blocks(|block| match block {
                            ContentBlock::Text { .. } | ContentBlock::Image { .. } => Ok(()),
                            _ => Err("a tool message can contain only text and images"),
                        })
                    }
                    _ => Err(ShapeError::new(
                        "content",
                        "a tool message must be text, or blocks of text and images",
                    )),
                }
            }
        }
    }

    fn forbid_calls(&self) -> Result<(), ShapeError> {
        if !self.tool_calls.is_empty() {
            return Err(ShapeError::new(
                "tool_calls",
                "only an assistant message calls tools",
            ));
        }
        if self.tool_call_id.is_some() {
            return Err(ShapeError::new(
                "tool_call_id",
                "only a tool message answers a call",
            ));
        }
        Ok(())
    }

    fn require_content(&self) -> Result<(), ShapeError> {
        if self.content.is_empty() {
            return Err(ShapeError::new(
                "content",
                format!("a message of role {} cannot be empty", self.role),
            ));
        }
        Ok(())
    }

    fn check_calls(&self) -> Result<(), ShapeError> {
        let mut ids = BTreeSet::new();
        for (index, call) in self.tool_calls.iter().enumerate() {
            if call.id.is_empty() {
                return Err(ShapeError::new(
                    format!("tool_calls[{index}].id"),
                    "cannot be empty",
                ));
            }
            if call.name.is_empty() {
                return Err(ShapeError::new(
                    format!("tool_calls[{index}].name"),
                    "cannot be empty",
                ));
            }
            if !ids.insert(call.id.as_str()) {
                return Err(ShapeError::new(
                    format!("tool_calls[{index}].id"),
                    format!("`{}` is the id of an earlier call of this message", call.id),
                ));
            }
        }
        Ok(())
    }

    fn check_blocks(
        &self,
        allowed: impl Fn(&ContentBlock) -> Result<(), &'static str>,
    ) -> Result<(), ShapeError> {
        let Content::Blocks(blocks) = &self.content else {
            return Ok(());
        };
        for (index, block) in blocks.iter().enumerate() {
            let field = |name: &str| format!("content[{index}]{name}");
            allowed(block).map_err(|reason| ShapeError::new(field(""), reason))?;
            match block {
                // Signed reasoning may be empty: some providers send only the signature.
                ContentBlock::Text { text, .. }
                | ContentBlock::Thinking {
                    text,
                    signature: None,
                    ..
                } if text.is_empty() => {
                    return Err(ShapeError::new(field(".text"), "cannot be empty"));
                }
                ContentBlock::Image {
                    source: ImageSource::Inline(_),
                    media_type: None,
                    ..
                } => {
                    return Err(ShapeError::new(
                        field(".media_type"),
                        "is required for inline image data",
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
