//! The JSON of openai-harmony to frames, by way of Harmony's own conversations.

use super::format::Projected;
use super::header;
use super::node::Node;
use super::reading::Reading;
use super::tools::ToolShape;
use crate::document::owned::Transcript;
use crate::harmony::{Conversation, RenderMessage};

pub(super) fn read(values: &[Node<'_>]) -> Projected {
    let mut reading = Reading::default();
    let keys = ["messages", "conversations", "conversation"];
    let opened = header::open(values, &keys, false, ToolShape::Wrapped, &mut reading);
    let mut messages = Vec::with_capacity(opened.messages.len());
    for node in opened.messages {
        match serde_json::from_str::<RenderMessage>(node.spelled()) {
            Ok(message) => messages.push(message),
            Err(error) => {
                let text = error.to_string();
                let cause = text.split(" at line ").next().unwrap_or_default();
                let text = format!("this is not a message of openai-harmony: {cause}");
                reading.wrong(
                    node.span(),
                    text,
                    "`role`, `channel`, `recipient`, `content`",
                );
            }
        }
    }
    let (transcript, losses) = Conversation::new(messages).to_transcript();
    reading.losses.extend(losses);
    Projected {
        transcript: Transcript {
            header: opened.header,
            tools: reading.tools,
            ..transcript
        },
        diagnostics: reading.findings.kept().to_vec(),
        losses: reading.losses,
    }
}
