//! Items of Responses to frames, by way of the hub (`logue_message`).
//!
//! Items of the assistant up to the next message of another speaker are one turn. Words before a
//! call are a preamble, unless their phase is `final_answer`.

use logue_message::{CallKind, ChatMessage, Content, ContentBlock, Role, ToolCall};

use super::format::Projected;
use super::header;
use super::images;
use super::messages_read::finish;
use super::node::{Kind, Node, Object};
use super::reading::Reading;
use super::tools::ToolShape;
use crate::document::owned::HeaderBuf;
use crate::loss::LossKind;
use logue_source::Span;

pub(super) fn read(values: &[Node<'_>]) -> Projected {
    if let Some(text) = with_items(values) {
        let place = Span::new(0, text.len());
        return match Node::parse(text.as_bytes(), place) {
            Ok(node) => read(&[node]),
            Err(found) => Projected {
                diagnostics: vec![*found],
                ..Projected::default()
            },
        };
    }
    let mut reading = Reading::default();
    let opened = header::open(
        values,
        &["input", "output"],
        false,
        ToolShape::Flat,
        &mut reading,
    );
    let mut header = opened.header;
    let mut items = Items {
        reading,
        list: Vec::new(),
        open: None,
        phase: None,
    };
    let instructions = header
        .as_mut()
        .and_then(|header| header.extra.shift_remove("instructions"));
    match instructions {
        Some(serde_json::Value::String(text)) => items.list.push(ChatMessage::system(text)),
        Some(_) => items
            .reading
            .note_whole(LossKind::TextDropped, "the key \"instructions\" dropped"),
        None => {}
    }
    let header = header.filter(|header| *header != HeaderBuf::new(""));
    for (index, node) in opened.messages.into_iter().enumerate() {
        items.reading.index = index;
        if items.item(node).is_err() {
            items.reading.unread();
        }
    }
    items.flush();
    // An answer that another message of the assistant follows has the phase in any case.
    for at in 1..items.list.len() {
        let is_followed = items.list[at].role == Role::Assistant;
        let before = &mut items.list[at - 1];
        if is_followed && before.phase.as_deref() == Some("final_answer") {
            before.phase = None;
        }
    }
    finish(items.reading, header, &items.list)
}

/// A request whose input is a text, with that text as an item.
fn with_items(values: &[Node<'_>]) -> Option<String> {
    let [row] = values else {
        return None;
    };
    let row = row.object()?;
    let input = row
        .get("input")
        .filter(|node| node.kind() == Kind::String)?;
    let mut text = String::from("{");
    for (name, key, value) in &row.entries {
        if key != "input" {
            text.push_str(&format!("{}:{},", name.spelled(), value.spelled()));
        }
    }
    let item = format!("{{\"role\":\"user\",\"content\":{}}}", input.spelled());
    text.push_str(&format!("\"input\":[{item}]}}"));
    Some(text)
}

fn is_image(part: Node<'_>) -> bool {
    let part = part.object();
    let kind = part.and_then(|part| part.get("type")?.string());
    kind.as_deref() == Some("input_image")
}

/// Returns whether an item has a status but `completed`.
fn is_cut(item: &Object<'_>) -> bool {
    let status = item.get("status").and_then(Node::string);
    status.is_some_and(|status| status != "completed")
}

struct Items {
    reading: Reading,
    list: Vec<ChatMessage>,
    /// The turn of the assistant that is being read.
    open: Option<(Vec<ContentBlock>, Vec<ToolCall>)>,
    /// The phase of its text, other than that of a preamble.
    phase: Option<String>,
}

impl Items {
    fn item(&mut self, node: Node<'_>) -> Result<(), ()> {
        let item = self.reading.object(node, "the item").ok_or(())?;
        let kind = self.reading.text(&item, "type")?;
        match kind.as_deref() {
            None | Some("message") => self.message(&item),
            Some("reasoning") => self.reasoning(&item),
            Some("function_call") => self.call(&item, "arguments", CallKind::Function),
            Some("custom_tool_call") => self.call(&item, "input", CallKind::Custom),
            Some("function_call_output" | "custom_tool_call_output") => self.output(&item),
            Some(kind) => {
                let dropped = if kind.ends_with("_call") {
                    LossKind::CallDropped
                } else {
                    LossKind::PartDropped
                };
                self.reading
                    .note(dropped, format!("an item of the type {kind:?} dropped"));
                Ok(())
            }
        }
    }

    fn message(&mut self, item: &Object<'_>) -> Result<(), ()> {
        let known = ["type", "role", "content", "phase", "status", "id"];
        self.reading.note_unknown(item, &known);
        self.note_item(item);
        let role = self.reading.required(item, "role")?;
        let Some(content) = item.get("content") else {
            self.reading.required(item, "content")?;
            return Err(());
        };
        if role == "user" && content.kind() == Kind::Array && content.items().any(is_image) {
            let parts = self.parts(content)?;
            self.flush();
            self.list.push(ChatMessage::user(parts));
            return Ok(());
        }
        let texts = self.texts(content)?;
        if texts.len() > 1 {
            self.reading
                .note(LossKind::PartsJoined, "the parts of the text are joined");
        }
        let text = texts.concat();
        let message = match role.as_str() {
            "assistant" => {
                let phase = self.reading.text(item, "phase")?;
                self.words(text, phase.as_deref());
                return Ok(());
            }
            "user" => ChatMessage::user(text),
            "system" => ChatMessage::system(text),
            "developer" => ChatMessage::developer(text),
            _ => {
                let place = item.get("role").map_or(item.span, Node::span);
                let expected = "`system`, `developer`, `user` or `assistant`";
                self.reading.wrong(place, "this is not a role", expected);
                return Err(());
            }
        };
        self.flush();
        self.list.push(message);
        Ok(())
    }

    /// Notes what a message has no place for: the id of an item, and a status but `completed`.
    fn note_item(&mut self, item: &Object<'_>) {
        if item.get("id").is_some() {
            self.reading
                .note(LossKind::IdDropped, "the id of an item dropped");
        }
        if is_cut(item) {
            let text = "an item that is not completed reads as complete";
            self.reading.note(LossKind::CutCompleted, text);
        }
    }

    /// Adds words of the assistant.
    fn words(&mut self, text: String, phase: Option<&str>) {
        if self
            .open
            .as_ref()
            .is_some_and(|(_, calls)| !calls.is_empty())
        {
            self.flush();
        }
        if text.is_empty() {
            // An empty answer is one, and blocks have none.
            self.flush();
            self.list.push(ChatMessage::assistant(text));
            return;
        }
        let (blocks, _) = self.open.get_or_insert_default();
        blocks.push(ContentBlock::Text {
            text,
            signature: None,
            preamble: phase == Some("commentary"),
        });
        if let Some(phase) = phase.filter(|phase| *phase != "commentary") {
            self.phase = Some(phase.to_owned());
        }
        if phase == Some("final_answer") {
            self.flush();
        }
    }

    /// The texts and images of a user's message or of a result.
    fn parts(&mut self, content: Node<'_>) -> Result<Vec<ContentBlock>, ()> {
        let mut parts = Vec::new();
        for node in content.items() {
            let part = self
                .reading
                .object(node, "the part of `content`")
                .ok_or(())?;
            if self.reading.required(&part, "type")? == "input_image" {
                parts.extend(images::read(&mut self.reading, &part));
            } else {
                parts.extend(self.part(&part)?.map(ContentBlock::text));
            }
        }
        Ok(parts)
    }

    fn texts(&mut self, node: Node<'_>) -> Result<Vec<String>, ()> {
        if node.kind() != Kind::Array {
            return self
                .reading
                .must_be_text(node, "content")
                .map(|text| vec![text]);
        }
        let mut texts = Vec::new();
        for part in node.items() {
            let part = self
                .reading
                .object(part, "the part of `content`")
                .ok_or(())?;
            texts.extend(self.part(&part)?);
        }
        Ok(texts)
    }

    /// The text of a part; `None` for another one, which is noted.
    fn part(&mut self, part: &Object<'_>) -> Result<Option<String>, ()> {
        match self.reading.required(part, "type")?.as_str() {
            "input_text" | "output_text" | "text" => {
                let empty = part
                    .get("annotations")
                    .is_some_and(|node| node.spelled() == "[]");
                let known = ["type", "text", if empty { "annotations" } else { "" }];
                self.reading.note_unknown(part, &known);
                return Ok(Some(self.reading.required(part, "text")?));
            }
            "refusal" => {
                self.reading
                    .note(LossKind::PartChanged, "a refusal is read as text");
                return Ok(Some(self.reading.required(part, "refusal")?));
            }
            "input_image" => self
                .reading
                .note(LossKind::ImageDropped, "an image dropped"),
            kind => {
                let text = format!("a part of the type {kind:?} dropped");
                self.reading.note(LossKind::PartDropped, text);
            }
        }
        Ok(None)
    }

    fn reasoning(&mut self, item: &Object<'_>) -> Result<(), ()> {
        let known = [
            "type",
            "id",
            "summary",
            "content",
            "encrypted_content",
            "status",
        ];
        self.reading.note_unknown(item, &known);
        let mut texts = Vec::new();
        let lists = ["summary", "content"]
            .iter()
            .filter_map(|key| item.get(key));
        for part in lists.flat_map(Node::items) {
            let part = self
                .reading
                .object(part, "the part of reasoning")
                .ok_or(())?;
            texts.push(self.reading.required(&part, "text")?);
        }
        if texts.len() > 1 {
            self.reading.note(
                LossKind::PartsJoined,
                "the parts of the reasoning are joined",
            );
        }
        if self
            .open
            .as_ref()
            .is_some_and(|(_, calls)| !calls.is_empty())
        {
            self.flush();
        }
        let block = ContentBlock::Thinking {
            text: texts.join("\n\n"),
            signature: self.reading.text(item, "encrypted_content")?,
            id: self.reading.text(item, "id")?,
        };
        self.open.get_or_insert_default().0.push(block);
        Ok(())
    }

    fn call(&mut self, item: &Object<'_>, key: &str, kind: CallKind) -> Result<(), ()> {
        let known = ["type", "id", "call_id", "name", "status", key];
        self.reading.note_unknown(item, &known);
        if is_cut(item) {
            let text = "left out, because half a call must never run";
            self.reading.note(LossKind::CallDropped, text);
            return Ok(());
        }
        self.note_item(item);
        let id = self.reading.text(item, "call_id")?.unwrap_or_default();
        let name = self.reading.required(item, "name")?;
        let arguments = self.reading.required(item, key)?;
        let call = ToolCall::new(id, name, arguments).with_kind(kind);
        self.open.get_or_insert_default().1.push(call);
        Ok(())
    }

    fn output(&mut self, item: &Object<'_>) -> Result<(), ()> {
        let known = ["type", "id", "call_id", "output", "status"];
        self.reading.note_unknown(item, &known);
        self.note_item(item);
        let id = self.reading.text(item, "call_id")?;
        let content = match item.get("output") {
            None => Content::Text(String::new()),
            Some(node) if node.kind() == Kind::Array && node.items().any(is_image) => {
                Content::Blocks(self.parts(node)?)
            }
            Some(node) => {
                let texts = self.texts(node)?;
                if texts.len() > 1 {
                    self.reading
                        .note(LossKind::PartsJoined, "the parts of the result are joined");
                }
                Content::Text(texts.concat())
            }
        };
        self.flush();
        let mut reply = ChatMessage::tool("", content);
        reply.tool_call_id = id;
        self.list.push(reply);
        Ok(())
    }

    fn flush(&mut self) {
        if let Some((blocks, calls)) = self.open.take() {
            let content = if blocks.is_empty() {
                Content::Absent
            } else {
                Content::Blocks(blocks)
            };
            let mut message = ChatMessage::assistant(content).with_tool_calls(calls);
            message.phase = self.phase.take();
            self.list.push(message);
        }
    }
}
