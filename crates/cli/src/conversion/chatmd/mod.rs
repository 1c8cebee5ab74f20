//! Conversion between ChatMD documents and transcripts, through the messages of both.
//!
//! References of a document (`<doc>`, `<agent>`, `<import>`) are not fetched, except for the payload
//! files beside it. A transcript cannot hold its tool declarations. All losses are listed.

mod losses;
mod payloads;
mod writing;

use std::path::Path;

use chatmd::{Document, evaluate};
use logue_agent::VariableValues;
use logue_message::{ChatMessage, Content, ContentBlock};
use logue_source::{Diagnostic, DiagnosticCode, Span};
use openchatml::{HeaderBuf, Transcript, frames_from_messages};
use serde_json::Value;

pub(crate) use self::writing::write;

use crate::conversion::chatmd::losses::{ParsedDocument, regrouped};
use crate::conversion::chatmd::payloads::Payloads;
use crate::conversion::form::{Conversation, Form};

/// Reads a document; `folder` contains its payload files, if it has any.
pub(crate) fn read(bytes: &[u8], certain: bool, folder: Option<&Path>) -> Conversation {
    read_with(bytes, certain, folder, &VariableValues::default())
}

/// Reads a document and fills the variables that have a value.
pub(crate) fn read_with(
    bytes: &[u8],
    certain: bool,
    folder: Option<&Path>,
    variables: &VariableValues,
) -> Conversation {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let at = error.valid_up_to();
            let span = Span::new(at, at + error.error_len().unwrap_or(1));
            let found = Diagnostic::error(
                DiagnosticCode::SourceNotUtf8,
                "the file is not UTF-8 text",
                span,
            )
            .with_expected("a UTF-8 character")
            .with_help("save the file as UTF-8");
            return Conversation {
                transcript: Transcript::default(),
                form: Form::Chatmd,
                certain,
                diagnostics: vec![found],
                losses: Vec::new(),
                broken: true,
            };
        }
    };
    let tree = chatmd::parse(text);
    let (mut document, typed) = Document::from_tree(&tree);
    let values = variables.for_document(&document);
    document.fill_variables(&values);
    let mut payloads = Payloads::beside(folder);
    let mut evaluation = evaluate(&document, &mut payloads);
    let reading = ParsedDocument {
        text,
        tree: &tree,
        document: &document,
        evaluation: &evaluation,
        payloads: &payloads,
        values: &values,
    };
    let diagnostics = [tree.diagnostics().to_vec(), typed].concat();
    let mut losses = reading.losses(&diagnostics);
    // Frames cannot hold these ids; they are listed with the other attributes.
    evaluation.messages.iter_mut().for_each(forget_ids);
    let (frames, more) = frames_from_messages(&evaluation.messages);
    // Dropped content changes the messages too, and is already listed.
    if more.is_empty() {
        losses.extend(regrouped(&evaluation.messages, &frames));
    }
    losses.extend(more);
    let mut transcript = Transcript::new(frames);
    transcript.header = document.config().map(|config| {
        let mut header = HeaderBuf::default();
        header.model.clone_from(&config.model);
        let settings = [
            ("temperature", config.temperature.map(Value::from)),
            ("max_tokens", config.max_tokens.map(Value::from)),
            (
                "reasoning_effort",
                config.reasoning_effort.clone().map(Value::from),
            ),
            ("top_p", config.top_p.map(Value::from)),
            ("seed", config.seed.map(Value::from)),
            (
                "stop",
                (!config.stop.is_empty()).then(|| config.stop.clone().into()),
            ),
        ];
        for (key, value) in settings {
            if let Some(value) = value {
                header = header.with_setting(key, value);
            }
        }
        header
    });
    Conversation {
        broken: diagnostics.iter().any(Diagnostic::is_error),
        transcript,
        form: Form::Chatmd,
        certain,
        diagnostics,
        losses,
    }
}

/// Removes the ids from the reasoning of a message.
fn forget_ids(message: &mut ChatMessage) {
    if let Content::Blocks(blocks) = &mut message.content {
        for block in blocks {
            if let ContentBlock::Thinking { id, .. } = block {
                *id = None;
            }
        }
    }
}
