//! Transcript items as frames of OpenChatML.

use logue_message::{ChatMessage, Content, ContentBlock, ToolCall};
use openchatml::{FrameBuf, WriteError, frames_from_messages, safe_value, write_frame};

use crate::transcript::item::TranscriptItem;

/// Returns the line end after the first frame or header that ends a line.
pub(crate) fn line_end(content: &[u8]) -> &'static str {
    let mut lines = content.split(|byte| *byte == b'\n');
    // The text after the last line end is not a line.
    lines.next_back();
    let ends = lines.map(|line| line.strip_suffix(b"\r").ok_or(line));
    let mut ends = ends.filter(|line| match line {
        Ok(line) | Err(line) => line.ends_with(b"|>"),
    });
    match ends.next() {
        Some(Ok(_)) => "\r\n",
        _ => "\n",
    }
}

/// Formats items that are appended together: one frame per line, with escaped bodies.
///
/// # Errors
/// Returns an error if a frame cannot be written even with a sanitized header.
pub(crate) fn text_of(elements: &[TranscriptItem], line_end: &str) -> Result<String, WriteError> {
    // Signatures are for the provider that made them, and a transcript cannot contain them.
    let (frames, _) = frames_from_messages(&messages_of(elements));
    let mut text = String::new();
    for frame in frames {
        let written = text.len();
        if write_frame(&mut text, &frame).is_err() {
            text.truncate(written);
            write_frame(&mut text, &with_safe_header(frame))?;
        }
        if text.ends_with('\n') {
            text.pop();
            text.push_str(line_end);
        }
    }
    Ok(text)
}

/// Builds the messages of items; the parts and calls of one response form one message.
fn messages_of(elements: &[TranscriptItem]) -> Vec<ChatMessage> {
    let mut messages = Vec::new();
    let mut answer = Answer::default();
    for element in elements {
        match element {
            TranscriptItem::Answer { block, phase, .. } => {
                answer.blocks.push(block.clone());
                answer.phase = phase.clone().or(answer.phase);
            }
            TranscriptItem::ToolCall(call) => answer.calls.push(call.clone()),
            // Transcripts of OpenChatML have no variables.
            TranscriptItem::Variable { .. } => {}
            TranscriptItem::User(_)
            | TranscriptItem::Interrupted(_)
            | TranscriptItem::ToolResponse { .. } => {
                messages.extend(std::mem::take(&mut answer).message());
                messages.extend(element.to_message());
            }
        }
    }
    messages.extend(answer.message());
    messages
}

#[derive(Default)]
struct Answer {
    blocks: Vec<ContentBlock>,
    calls: Vec<ToolCall>,
    phase: Option<String>,
}

impl Answer {
    fn message(self) -> Option<ChatMessage> {
        let content = match self.blocks.is_empty() {
            true if self.calls.is_empty() => return None,
            true => Content::Absent,
            false => Content::Blocks(self.blocks),
        };
        let mut message = ChatMessage::assistant(content).with_tool_calls(self.calls);
        message.phase = self.phase;
        Some(message)
    }
}

/// Replaces characters of ids and names that a header cannot contain.
///
/// Ids and names come from models and servers. Equal values are replaced equally, so a result still
/// matches its call.
fn with_safe_header(mut frame: FrameBuf) -> FrameBuf {
    let values = [&mut frame.to, &mut frame.name, &mut frame.call_id];
    for text in values.into_iter().flatten() {
        *text = safe_value(text);
    }
    frame
}
