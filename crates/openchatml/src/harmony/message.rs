//! Whole messages, collected from the machine's events.

use logue_source::{Diagnostic, DiagnosticCode, Span};

use super::event::{End, Event, HarmonyReadOptions, MessageHeader};
use super::ids::IdStream;
use super::text::Stream;
use crate::limits::MAX_DIAGNOSTICS;
use crate::syntax::json;

/// The result of a reader: every message in order, and the findings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HarmonyDocument {
    /// The messages, those included that are incomplete or stray.
    pub messages: Vec<Message>,
    /// Findings, in the order of their discovery; at most [`MAX_DIAGNOSTICS`]. In strict
    /// mode the last one is the error that stopped the reading, if there is an error.
    pub diagnostics: Vec<Diagnostic>,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// The header.
    pub head: MessageHeader,
    /// The text. Invalid UTF-8 is replaced by U+FFFD.
    pub content: String,
    /// The end that was read.
    pub end: End,
    /// Whether that was a stop token.
    pub complete: bool,
    /// The place of the message.
    pub span: Span,
    /// The place of its text in the source.
    pub body: Span,
}

impl Message {
    /// Returns whether it is a complete [preamble](MessageHeader::is_preamble).
    pub fn is_preamble(&self) -> bool {
        matches!(self.end, End::End | End::Return) && self.head.is_preamble()
    }

    /// Returns whether a person may see it; see [`MessageHeader::visibility`].
    ///
    /// A complete [preamble](Message::is_preamble) is visible.
    pub fn is_visible(&self) -> bool {
        self.head.is_visible() || self.is_preamble()
    }
}

/// Reads a whole text. Never fails: what is wrong is a diagnostic. Linear in its length.
///
/// The events are those of [`Stream`]; in addition the text of a message whose content type is
/// `json` is checked (`E-BODY-CONSTRAINT-VIOLATION`).
pub fn read(text: &[u8], options: &HarmonyReadOptions) -> HarmonyDocument {
    let mut collector = Collector::new(options);
    let mut stream = Stream::new(options.clone());
    stream.push(text, &mut |event: Event<'_>| collector.take(event));
    stream.finish(&mut |event: Event<'_>| collector.take(event));
    collector.document
}

/// Reads a whole sequence of token ids, as [`IdStream`] does; else like [`read`].
pub fn read_ids<'v>(
    ids: impl IntoIterator<Item = u32>,
    bytes_of: impl Fn(u32) -> Option<&'v [u8]>,
    options: &HarmonyReadOptions,
) -> HarmonyDocument {
    let mut collector = Collector::new(options);
    let mut stream = IdStream::new(options.clone());
    for id in ids {
        stream.push(id, &bytes_of, &mut |event: Event<'_>| collector.take(event));
    }
    stream.finish(&mut |event: Event<'_>| collector.take(event));
    collector.document
}

struct Collector {
    document: HarmonyDocument,
    strict: bool,
    stopped: bool,
}

impl Collector {
    fn new(options: &HarmonyReadOptions) -> Self {
        Self {
            document: HarmonyDocument::default(),
            strict: options.strict,
            stopped: false,
        }
    }

    fn take(&mut self, event: Event<'_>) {
        if self.stopped {
            return;
        }
        match event {
            Event::Start(head) => self.document.messages.push(Message {
                head: head.clone(),
                content: String::new(),
                end: End::Implicit,
                complete: false,
                span: Span::default(),
                body: Span::default(),
            }),
            Event::Delta(text) => {
                if let Some(message) = self.document.messages.last_mut() {
                    message.content.push_str(text);
                }
            }
            Event::End(ended) => {
                let Some(message) = self.document.messages.last_mut() else {
                    return;
                };
                message.end = ended.end;
                message.complete = ended.complete;
                message.span = ended.span;
                message.body = ended.body;
                // In strict mode nothing follows the first error.
                let failed = self
                    .document
                    .diagnostics
                    .last()
                    .is_some_and(Diagnostic::is_error);
                if self.strict && failed {
                    return;
                }
                if let Some(found) = violation(message) {
                    self.stopped = self.strict;
                    self.note(found);
                }
            }
            Event::Amended(end) => {
                if let Some(message) = self.document.messages.last_mut() {
                    message.end = end;
                }
            }
            Event::Diagnostic(found) => self.note(found),
        }
    }

    fn note(&mut self, found: Diagnostic) {
        if self.document.diagnostics.len() < MAX_DIAGNOSTICS {
            self.document.diagnostics.push(found);
        }
    }
}

/// A body that is not the JSON that its header says.
fn violation(message: &Message) -> Option<Diagnostic> {
    if message.head.content_type.as_deref() != Some("json") {
        return None;
    }
    let error = json::find_error(message.content.as_bytes())?;
    let (line, column) = json::line_column(message.content.as_bytes(), error.offset);
    Some(
        Diagnostic::error(
            DiagnosticCode::BodyConstraintViolation,
            format!(
                "the body is not JSON: {} at line {line}, column {column} of it",
                error.what
            ),
            message.body,
        )
        .with_expected("JSON")
        .with_help("ask the model for the message again; its text is kept as it is"),
    )
}
