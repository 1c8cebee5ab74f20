//! ChatMD read into a transcript and written from one, by way of the messages that both map to.
//!
//! A document is converted as it stands: what it names (`<doc>`, `<agent>`, `<import>`) is not
//! fetched, and its tool declarations have no place in a transcript. Both are listed.

use std::collections::BTreeMap;

use chatmd::{Document, MemoryWorld, evaluate, write as element};
use logue_message::{Block, CallKind, ChatMessage, Content, Role};
use logue_source::{Code, Diagnostic, Source, Span};
use openchatml::{
    HeaderBuf, Loss, Subject, Transcript, frames_from_messages, messages_from_frames,
};
use serde_json::Value;

use super::form::{Conversation, Form, Text};

pub(super) fn read(bytes: &[u8], certain: bool) -> Conversation {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let at = error.valid_up_to();
            let span = Span::new(at, at + error.error_len().unwrap_or(1));
            let found = Diagnostic::error(Code::SourceNotUtf8, "the file is not UTF-8 text", span)
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
    let (document, typed) = Document::from_tree(&tree);
    let diagnostics = [tree.diagnostics().to_vec(), typed].concat();
    let evaluation = evaluate(&document, &mut MemoryWorld::new());
    let mut losses = Vec::new();
    if document.tools().next().is_some() {
        losses.push(whole("the tool declarations dropped"));
    }
    let lines = Source::new("", bytes);
    for found in &evaluation.diagnostics {
        let line = lines.line_column(found.primary.start).line;
        let what = match found.code {
            Code::MdDocument => "a document is not fetched",
            _ => found.message.as_str(),
        };
        losses.push(whole(format!("line {line}: {what}")));
    }
    let (frames, more) = frames_from_messages(&evaluation.messages);
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

fn whole(text: impl Into<String>) -> Loss {
    Loss {
        subject: Subject::Transcript,
        text: text.into(),
    }
}

pub(super) fn write(transcript: &Transcript) -> Text {
    let mut out = String::new();
    let mut losses = Vec::new();
    if let Some(header) = &transcript.header {
        config(header, &mut out, &mut losses);
    }
    let (messages, more) = messages_from_frames(&transcript.frames);
    losses.extend(more);
    let mut kinds = BTreeMap::new();
    let mut reasoning = 0;
    for (index, message) in messages.iter().enumerate() {
        let mut writing = Writing {
            out: &mut out,
            losses: &mut losses,
            index,
            reasoning: &mut reasoning,
        };
        writing.message(message, &mut kinds);
    }
    Text { text: out, losses }
}

fn config(header: &HeaderBuf, out: &mut String, losses: &mut Vec<Loss>) {
    let settings = &header.generation_settings;
    let values = element::Config {
        model: header.model.as_deref(),
        max_tokens: settings.get("max_tokens").and_then(Value::as_u64),
        temperature: settings.get("temperature").and_then(Value::as_f64),
        reasoning_effort: settings.get("reasoning_effort").and_then(Value::as_str),
    };
    let kept = [
        ("max_tokens", values.max_tokens.is_some()),
        ("temperature", values.temperature.is_some()),
        ("reasoning_effort", values.reasoning_effort.is_some()),
    ];
    for key in settings.keys() {
        if !kept.contains(&(key.as_str(), true)) {
            losses.push(whole(format!("the setting {key:?} dropped")));
        }
    }
    for key in header.extra.keys() {
        losses.push(whole(format!("the key {key:?} of the header dropped")));
    }
    if values != element::Config::default() {
        out.push_str(&element::config(&values));
    }
}

struct Writing<'w> {
    out: &'w mut String,
    losses: &'w mut Vec<Loss>,
    index: usize,
    /// How many reasoning elements there are: they need ids of their own.
    reasoning: &'w mut usize,
}

impl Writing<'_> {
    fn message<'m>(&mut self, message: &'m ChatMessage, kinds: &mut BTreeMap<&'m str, CallKind>) {
        if message.name.is_some() && message.role != Role::Tool {
            self.note("name dropped");
        }
        match message.role {
            Role::System | Role::User => {
                let text = message.text();
                self.note_blank(&text);
                self.out.push_str(&match message.role {
                    Role::User => element::user(&text),
                    _ if message.developer => element::developer(&text),
                    _ => element::system(&text),
                });
            }
            Role::Assistant => self.assistant(message, kinds),
            Role::Tool => {
                let Some(id) = message.tool_call_id.as_deref() else {
                    self.note("a tool's reply without the id of a call left out");
                    return;
                };
                self.out
                    .push_str(&element::tool_response(&element::ToolResponse {
                        id: None,
                        tool_call_id: id,
                        custom: kinds.get(id) == Some(&CallKind::Custom),
                        payload: element::Payload::Inline(&message.text()),
                    }));
            }
        }
    }

    fn assistant<'m>(&mut self, message: &'m ChatMessage, kinds: &mut BTreeMap<&'m str, CallKind>) {
        match &message.content {
            Content::Absent => {}
            Content::Text(text) => self.said(text),
            Content::Blocks(blocks) => {
                for block in blocks {
                    match block {
                        Block::Text { text, preamble, .. } => {
                            if *preamble && message.tool_calls.is_empty() {
                                self.note("a preamble becomes an answer");
                            }
                            self.said(text);
                        }
                        Block::Thinking {
                            text,
                            signature,
                            id,
                        } => {
                            *self.reasoning += 1;
                            let record = element::Reasoning {
                                id: id.as_deref(),
                                number: *self.reasoning,
                                signature: signature.as_deref(),
                                summaries: &[text],
                                ..element::Reasoning::default()
                            };
                            self.out.push_str(&element::reasoning_record(&record));
                        }
                        _ => self.note("content of an unknown kind dropped"),
                    }
                }
            }
        }
        for call in &message.tool_calls {
            kinds.insert(&call.id, call.kind);
            self.out.push_str(&element::tool_call(&element::ToolCall {
                id: None,
                tool_call_id: &call.id,
                function_name: &call.name,
                custom: call.kind == CallKind::Custom,
                signature: call.signature.as_deref(),
                payload: element::Payload::Inline(call.arguments.as_str()),
            }));
        }
    }

    fn said(&mut self, text: &str) {
        self.note_blank(text);
        self.out.push_str(&element::assistant(text, None));
    }

    fn note_blank(&mut self, text: &str) {
        if text.trim().is_empty() {
            self.note("a message of white space, which nobody reads back");
        }
    }

    fn note(&mut self, text: &str) {
        self.losses.push(Loss {
            subject: Subject::Message(self.index),
            text: text.to_owned(),
        });
    }
}
