//! Conversion between ChatMD documents and transcripts, through the messages of both.
//!
//! References of a document (`<doc>`, `<agent>`, `<import>`) stay as text, except for the payload
//! files beside it and those that the user expands. Of its tool declarations a transcript keeps the
//! built-in ones. All losses are listed.

mod losses;
pub(crate) mod payloads;
mod references;
mod variables;
mod writing;

use std::path::Path;

use chatmd::{BuiltinDeclaration, Document, ToolDecl, ToolKind, evaluate, source_map};
use logue_agent::VariableValues;
use logue_message::{ChatMessage, Content, ContentBlock, Role};
use logue_source::{Diagnostic, DiagnosticCode, Span};
use openchatml::{HeaderBuf, Loss, LossKind, LossTarget, Transcript, frames_from_messages};
use serde_json::{Value, json};

pub(crate) use self::writing::write;

use crate::conversion::chatmd::losses::{ParsedDocument, regrouped};
use crate::conversion::chatmd::payloads::Payloads;
pub(crate) use crate::conversion::chatmd::references::Expansion;
use crate::conversion::chatmd::references::{References, in_document};
pub(crate) use crate::conversion::chatmd::variables::{DocumentVariables, Filling};
use crate::conversion::form::{Conversation, Form};

/// The setting that lists the built-in tools of a transcript.
pub(crate) const BUILTIN_TOOLS: &str = "builtin_tools";

/// The choices of tools that name none.
const CHOICES: [&str; 3] = ["auto", "none", "required"];

/// The tool of a reply whose call is missing.
const UNKNOWN_TOOL: &str = "unknown_tool";

/// Reads a document; `folder` contains its payload files, if it has any.
pub(crate) fn read(bytes: &[u8], certain: bool, folder: Option<&Path>) -> Conversation {
    let filling = Filling {
        values: &VariableValues::default(),
        is_for_chatmd: false,
    };
    read_with(bytes, certain, folder, filling, None)
}

/// Reads a document and fills the variables that have a value.
///
/// References are expanded below the directories of `expansion`; without it, they stay as text.
pub(crate) fn read_with(
    bytes: &[u8],
    certain: bool,
    folder: Option<&Path>,
    filling: Filling<'_>,
    expansion: Option<Expansion>,
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
                variables: DocumentVariables::default(),
            };
        }
    };
    let payloads = Payloads::beside(folder);
    let mut references = References::new(expansion, payloads);
    let expanded = references.load(text);
    let map = source_map(&expanded.parts);
    let parts = expanded
        .imported
        .iter()
        .map(|index| &expanded.parts[*index]);
    let mut trees = vec![expanded.tree];
    trees.extend(parts.map(|part| chatmd::parse(&part.text)));
    let mut document = expanded.document;
    let (variables, values) = DocumentVariables::fill(&mut document, filling);
    let mut replaced = document.clone();
    let kept = references.keep(&mut replaced, &map);
    let mut evaluation = evaluate(&replaced, &mut references);
    let reading = ParsedDocument {
        map: &map,
        trees: &trees,
        document: &document,
        evaluation: &evaluation,
        payloads: references.payloads(),
        values: &values,
        has_variables: variables.are_kept(),
        kept: &kept,
        is_expanded: references.is_expanded(),
    };
    let mut losses = reading.losses(&expanded.diagnostics);
    let changed = evaluation.diagnostics.iter();
    let changed = changed.filter(|found| found.code == DiagnosticCode::MdPayloadChanged);
    let found = [expanded.diagnostics, changed.cloned().collect()].concat();
    let diagnostics = in_document(found, &expanded.parts, &map);
    // Frames cannot hold these ids; they are listed with the other attributes.
    evaluation.messages.iter_mut().for_each(forget_ids);
    losses.extend(name_orphans(&mut evaluation.messages));
    let (frames, more) = frames_from_messages(&evaluation.messages);
    // Dropped content changes the messages too, and is already listed.
    if more.is_empty() {
        losses.extend(regrouped(&evaluation.messages, &frames));
    }
    losses.extend(more);
    let mut transcript = Transcript::new(frames);
    transcript.header = header_of(&document);
    Conversation {
        // An unknown tool is a declaration, which is listed.
        broken: diagnostics
            .iter()
            .any(|found| found.is_error() && found.code != DiagnosticCode::MdUnknownTool),
        transcript,
        form: Form::Chatmd,
        certain,
        diagnostics,
        losses,
        variables,
    }
}

/// Returns the header with the settings and the built-in tools of a document.
fn header_of(document: &Document) -> Option<HeaderBuf> {
    let builtins: Vec<&str> = document.tools().filter_map(builtin_of).collect();
    let config = document.config();
    if config.is_none() && builtins.is_empty() {
        return None;
    }
    let config = config.cloned().unwrap_or_default();
    let mut header = HeaderBuf::default();
    let texts = |texts: Vec<String>| (!texts.is_empty()).then(|| Value::from(texts));
    let settings = [
        ("temperature", config.temperature.map(number)),
        ("max_tokens", config.max_tokens.map(Value::from)),
        ("reasoning_effort", config.reasoning_effort.map(Value::from)),
        ("top_p", config.top_p.map(number)),
        ("seed", config.seed.map(Value::from)),
        ("stop", texts(config.stop)),
        (
            "tool_choice",
            config.tool_choice.as_deref().map(choice_value),
        ),
        (
            BUILTIN_TOOLS,
            (!builtins.is_empty()).then(|| Value::from(builtins)),
        ),
    ];
    header.model = config.model;
    for (key, value) in settings {
        if let Some(value) = value {
            header = header.with_setting(key, value);
        }
    }
    Some(header)
}

/// Returns a number as JSON; a whole number has no fraction.
fn number(value: f64) -> Value {
    serde_json::from_str(&value.to_string()).unwrap_or_else(|_| value.into())
}

/// Returns a choice of tools as requests have it: a word, or a function.
fn choice_value(choice: &str) -> Value {
    if CHOICES.contains(&choice) {
        return choice.into();
    }
    json!({"type": "function", "function": {"name": choice}})
}

/// Returns the name of a supported built-in tool.
///
/// A tool that its declaration confines has none, since other forms would not confine it.
fn builtin_of(tool: &ToolDecl) -> Option<&str> {
    if !tool.roots.is_empty() {
        return None;
    }
    let ToolKind::Builtin { name } = &tool.kind else {
        return None;
    };
    let known = BuiltinDeclaration::find(name)?;
    known.supported.then_some(name)
}

/// Names the tool of each reply without a call, which frames require.
fn name_orphans(messages: &mut [ChatMessage]) -> Vec<Loss> {
    let mut losses = Vec::new();
    for (index, message) in messages.iter_mut().enumerate() {
        if message.role == Role::Tool && message.name.is_none() {
            message.name = Some(UNKNOWN_TOOL.to_owned());
            let what = format!("the reply has no call, so its tool is named `{UNKNOWN_TOOL}`");
            losses.push(Loss::new(
                LossTarget::Message(index),
                LossKind::Assigned,
                what,
            ));
        }
    }
    losses
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
