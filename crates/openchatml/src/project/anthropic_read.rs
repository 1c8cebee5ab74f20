//! Requests of Anthropic Messages to frames, by way of the hub (`logue_message`).
//!
//! A user's message may hold results of tools beside words; each result is a message of its own.
//! Arguments are kept letter by letter.

use logue_message::{ChatMessage, Content, ContentBlock, ToolCall};

use super::format::Projected;
use super::header;
use super::images;
use super::messages_read::finish;
use super::node::{Kind, Node, Object};
use super::reading::Reading;
use super::tools::ToolShape;
use crate::document::owned::HeaderBuf;
use crate::loss::LossKind;

pub(super) fn read(values: &[Node<'_>]) -> Projected {
    let mut reading = Reading::default();
    let opened = header::open(
        values,
        &["messages"],
        false,
        ToolShape::InputSchema,
        &mut reading,
    );
    let mut header = opened.header;
    let extra = header.as_mut().map(|header| &mut header.extra);
    let has_system = extra.is_some_and(|extra| extra.shift_remove("system").is_some());
    let header = header.filter(|header| *header != HeaderBuf::new(""));
    let mut messages = Messages {
        reading,
        list: Vec::new(),
    };
    if has_system && let [node] = values {
        messages.system(*node);
    }
    for (index, node) in opened.messages.into_iter().enumerate() {
        messages.reading.index = index;
        let before = messages.list.len();
        if messages.message(node).is_err() {
            messages.list.truncate(before);
            messages.reading.unread();
        }
    }
    finish(messages.reading, header, &messages.list)
}

struct Messages {
    reading: Reading,
    list: Vec<ChatMessage>,
}

impl Messages {
    fn system(&mut self, row: Node<'_>) {
        let row = row.object();
        let Some(system) = row.as_ref().and_then(|row| row.get("system")) else {
            return;
        };
        for text in self.texts(system).unwrap_or_default() {
            self.list.push(ChatMessage::system(text));
        }
    }

    /// The texts of a value: itself, or those of its blocks.
    fn texts(&mut self, node: Node<'_>) -> Result<Vec<String>, ()> {
        if node.kind() != Kind::Array {
            return self
                .reading
                .must_be_text(node, "content")
                .map(|text| vec![text]);
        }
        let mut texts = Vec::new();
        for block in node.items() {
            let block = self.reading.object(block, "the block").ok_or(())?;
            match self.reading.required(&block, "type")?.as_str() {
                "text" => texts.push(self.text(&block)?),
                kind => self.other(kind),
            }
        }
        Ok(texts)
    }

    fn text(&mut self, block: &Object<'_>) -> Result<String, ()> {
        self.reading
            .note_unknown(block, &["type", "text", "cache_control"]);
        self.reading.required(block, "text")
    }

    /// Notes a block that frames cannot hold.
    fn other(&mut self, kind: &str) {
        if kind == "image" {
            self.reading
                .note(LossKind::ImageDropped, "an image dropped");
        } else {
            let text = format!("a part of the type {kind:?} dropped");
            self.reading.note(LossKind::PartDropped, text);
        }
    }

    fn message(&mut self, node: Node<'_>) -> Result<(), ()> {
        let object = self.reading.object(node, "the message").ok_or(())?;
        self.reading.note_unknown(&object, &["role", "content"]);
        let role = self.reading.required(&object, "role")?;
        let Some(content) = object.get("content") else {
            let start = object.span.start;
            let place = logue_source::Span::new(start, start + 1);
            self.reading
                .wrong(place, "`content` is missing", "a `content`");
            return Err(());
        };
        match role.as_str() {
            "user" => self.user(content),
            "assistant" => self.assistant(content),
            "system" => {
                let text = self.texts(content)?.concat();
                self.list.push(ChatMessage::system(text));
                Ok(())
            }
            _ => {
                let place = object.get("role").map_or(object.span, Node::span);
                let expected = "`user` or `assistant`";
                self.reading.wrong(place, "this is not a role", expected);
                Err(())
            }
        }
    }

    fn user(&mut self, content: Node<'_>) -> Result<(), ()> {
        if content.kind() != Kind::Array {
            let text = self.reading.must_be_text(content, "content")?;
            self.list.push(ChatMessage::user(text));
            return Ok(());
        }
        let mut parts = Vec::new();
        let mut results = 0;
        for block in content.items() {
            let block = self.reading.object(block, "the block").ok_or(())?;
            match self.reading.required(&block, "type")?.as_str() {
                "text" => parts.push(ContentBlock::text(self.text(&block)?)),
                "image" => parts.extend(images::read(&mut self.reading, &block)),
                "tool_result" => {
                    if !parts.is_empty() {
                        self.reading
                            .note(LossKind::OrderChanged, "words are moved after a result");
                    }
                    results += 1;
                    self.result(&block)?;
                }
                kind => self.other(kind),
            }
        }
        let has_image = parts.iter().any(ContentBlock::is_image);
        if parts.len() > 1 && !has_image {
            self.reading
                .note(LossKind::PartsJoined, "the parts of the text are joined");
        }
        if !parts.is_empty() || results == 0 {
            if results > 0 {
                self.reading.note(
                    LossKind::Regrouped,
                    "words beside a result become a message",
                );
            }
            let message = ChatMessage::user(parts);
            self.list.push(if has_image {
                message
            } else {
                ChatMessage::user(message.text())
            });
        }
        Ok(())
    }

    fn result(&mut self, block: &Object<'_>) -> Result<(), ()> {
        let known = ["type", "tool_use_id", "content", "cache_control"];
        self.reading.note_unknown(block, &known);
        let id = self.reading.text(block, "tool_use_id")?;
        let is_image = |node: Node<'_>| {
            let block = node.object();
            let kind = block.and_then(|block| block.get("type")?.string());
            kind.as_deref() == Some("image")
        };
        let content = match block.get("content") {
            None => Content::Text(String::new()),
            Some(node) if node.kind() == Kind::Array && node.items().any(is_image) => {
                Content::Blocks(self.result_parts(node)?)
            }
            Some(node) => {
                let texts = self.texts(node)?;
                if texts.len() > 1 {
                    self.reading
                        .note(LossKind::PartsJoined, "the parts of a result are joined");
                }
                Content::Text(texts.concat())
            }
        };
        let mut reply = ChatMessage::tool("", content);
        reply.tool_call_id = id;
        self.list.push(reply);
        Ok(())
    }

    /// Reads the texts and images of a result.
    fn result_parts(&mut self, content: Node<'_>) -> Result<Vec<ContentBlock>, ()> {
        let mut parts = Vec::new();
        for block in content.items() {
            let block = self.reading.object(block, "the block").ok_or(())?;
            match self.reading.required(&block, "type")?.as_str() {
                "text" => parts.push(ContentBlock::text(self.text(&block)?)),
                "image" => parts.extend(images::read(&mut self.reading, &block)),
                kind => self.other(kind),
            }
        }
        Ok(parts)
    }

    fn assistant(&mut self, content: Node<'_>) -> Result<(), ()> {
        if content.kind() != Kind::Array {
            let text = self.reading.must_be_text(content, "content")?;
            self.list.push(ChatMessage::assistant(text));
            return Ok(());
        }
        let mut message = ChatMessage::assistant(Content::Absent);
        let mut blocks = Vec::new();
        let mut texts = 0;
        for block in content.items() {
            let block = self.reading.object(block, "the block").ok_or(())?;
            let kind = self.reading.required(&block, "type")?;
            if kind == "tool_use" {
                let call = self.call(&block)?;
                message.tool_calls.push(call);
                continue;
            }
            if !message.tool_calls.is_empty() {
                // Calls end a message of the hub.
                self.reading
                    .note(LossKind::Regrouped, "words after a call become a message");
                message.content = Content::Blocks(std::mem::take(&mut blocks));
                let next = ChatMessage::assistant(Content::Absent);
                self.list.push(std::mem::replace(&mut message, next));
                texts = 0;
            }
            match kind.as_str() {
                "text" => {
                    texts += 1;
                    blocks.push(ContentBlock::text(self.text(&block)?));
                }
                "thinking" => {
                    let known = ["type", "thinking", "signature"];
                    self.reading.note_unknown(&block, &known);
                    blocks.push(ContentBlock::Thinking {
                        text: self.reading.required(&block, "thinking")?,
                        signature: self.reading.text(&block, "signature")?,
                        id: None,
                    });
                }
                "redacted_thinking" => blocks.push(ContentBlock::RedactedThinking {
                    data: self.reading.required(&block, "data")?,
                }),
                kind => self.other(kind),
            }
        }
        if texts > 1 && message.tool_calls.is_empty() {
            self.reading
                .note(LossKind::PartsJoined, "the parts of the text are joined");
        }
        message.content = Content::Blocks(blocks);
        self.list.push(message);
        Ok(())
    }

    fn call(&mut self, block: &Object<'_>) -> Result<ToolCall, ()> {
        let known = ["type", "id", "name", "input", "cache_control"];
        self.reading.note_unknown(block, &known);
        let id = self.reading.text(block, "id")?.unwrap_or_default();
        let name = self.reading.required(block, "name")?;
        let arguments = match block.get("input") {
            None => String::new(),
            Some(node) if node.kind() == Kind::String => {
                self.reading.must_be_text(node, "input")?
            }
            Some(node) => node.spelled().to_owned(),
        };
        Ok(ToolCall::new(id, name, arguments))
    }
}
