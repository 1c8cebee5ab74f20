//! The text of transcript items, and the choice between inline and external payloads.

use std::ffi::OsStr;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chatmd::write;
use logue_message::{CallKind, ContentBlock, ImageSource, ToolCall};
use logue_tools::FolderHandle;

use crate::prompt::source_file::MAX_SOURCE_BYTES;
use crate::transcript::frames;
use crate::transcript::item::{TranscriptError, TranscriptItem, undecided_text};
use crate::transcript::payload::{PayloadError, PayloadFolder};
use crate::transcript::redaction::Redaction;

/// The default size limit of an inline payload, in bytes.
pub const DEFAULT_INLINE_BYTES: usize = 64 * 1024;

/// The format of one transcript's items.
#[derive(Debug)]
pub(crate) struct TranscriptFormat {
    transcript: PathBuf,
    payloads: PayloadFolder,
    external: bool,
    inline_bytes: usize,
    reasoning_count: usize,
    redaction: Redaction,
    form: Form,
    line_end: &'static str,
}

/// The language of a transcript.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    #[default]
    ChatMd,
    /// OpenChatML 2.2: payloads are escaped in the bodies.
    OpenChatMl,
}

impl TranscriptFormat {
    /// The format of a transcript with inline payloads.
    pub(crate) fn beside(folder: &FolderHandle, name: &OsStr) -> Self {
        Self {
            transcript: folder.path().join(name),
            payloads: PayloadFolder::beside(folder, name),
            external: false,
            inline_bytes: DEFAULT_INLINE_BYTES,
            reasoning_count: 0,
            redaction: Redaction::default(),
            form: Form::default(),
            line_end: "\n",
        }
    }

    pub(crate) fn externalise(&mut self) {
        self.external = true;
    }

    pub(crate) fn set_inline_bytes(&mut self, bytes: usize) {
        self.inline_bytes = bytes;
    }

    pub(crate) fn set_reasoning_count(&mut self, count: usize) {
        self.reasoning_count = count;
    }

    /// Sets the line ends of ChatMD elements to those of the content.
    pub(crate) fn follow_line_ends(&mut self, content: &[u8]) {
        self.line_end = std::str::from_utf8(content).map_or("\n", chatmd::line_end);
    }

    pub(crate) fn redact(&mut self, redaction: Redaction) {
        self.redaction = redaction;
    }

    /// Appends frames to a transcript with this content.
    pub(crate) fn write_frames(&mut self, content: &[u8]) {
        self.form = Form::OpenChatMl;
        self.line_end = frames::line_end(content);
    }

    /// Returns whether a changed file ends outside every element, so that items can follow.
    pub(crate) fn follows(&self, content: &[u8]) -> bool {
        match self.form {
            Form::ChatMd => {
                std::str::from_utf8(content).is_ok_and(|text| !chatmd::parse(text).has_errors())
            }
            Form::OpenChatMl => !openchatml::parse(content).has_errors(),
        }
    }

    /// Announces that the results of these calls follow, in any order.
    pub(crate) fn expect(&mut self, calls: &[ToolCall]) {
        if self.external {
            let ids = calls.iter().map(|call| call.id.as_str());
            self.payloads.keep_for(ids);
        }
    }

    /// Formats items that are appended together, and writes their payload files.
    ///
    /// `held` states whether the lock on the transcript is held.
    pub(crate) fn text_of(
        &mut self,
        elements: &[TranscriptItem],
        held: bool,
    ) -> Result<String, TranscriptError> {
        if self.redaction.is_empty() {
            return self.as_they_are(elements, held);
        }
        let redacted = elements
            .iter()
            .map(|element| self.redaction.element(element));
        let redacted: Vec<TranscriptItem> = redacted.collect();
        self.as_they_are(&redacted, held)
    }

    /// Formats results of calls that were not run, because the process ended before a decision.
    ///
    /// They are in the transcript itself, because they may be removed.
    pub(crate) fn not_run(&mut self, calls: &[ToolCall]) -> Result<String, TranscriptError> {
        let text = undecided_text(self.form == Form::OpenChatMl);
        let results = calls.iter().map(|call| TranscriptItem::ToolResponse {
            call: call.clone(),
            text: text.clone(),
            images: Vec::new(),
        });
        let results: Vec<TranscriptItem> = results.collect();
        let external = std::mem::take(&mut self.external);
        let inline_bytes = std::mem::replace(&mut self.inline_bytes, usize::MAX);
        let formatted = self.text_of(&results, false);
        (self.external, self.inline_bytes) = (external, inline_bytes);
        formatted
    }

    fn as_they_are(
        &mut self,
        elements: &[TranscriptItem],
        held: bool,
    ) -> Result<String, TranscriptError> {
        if self.form == Form::OpenChatMl {
            return frames::text_of(elements, self.line_end).map_err(|error| {
                TranscriptError::Unwritable {
                    path: self.transcript.display().to_string(),
                    error,
                }
            });
        }
        let mut text = String::new();
        for element in elements {
            text.push_str(&self.as_it_is(element, held)?);
        }
        Ok(chatmd::with_line_ends(text, self.line_end))
    }

    fn as_it_is(
        &mut self,
        element: &TranscriptItem,
        held: bool,
    ) -> Result<String, TranscriptError> {
        Ok(match element {
            TranscriptItem::User(text) => write::user(text),
            TranscriptItem::Variable { name, value } => write::variable(name, value),
            TranscriptItem::Answer {
                block,
                continued,
                phase,
            } => self.answer(block, *continued, phase.as_deref()),
            TranscriptItem::Interrupted(text) => write::assistant_message(
                &write::AssistantMessage::new(text).with_status(write::INTERRUPTED),
            ),
            TranscriptItem::ToolCall(call) => {
                let text = call.arguments.as_str();
                let place = self.place(Payload::Call, call, text, held)?;
                write::tool_call(
                    &write::ToolCallRecord::new(
                        &call.id,
                        &call.name,
                        payload(place.as_deref(), text),
                    )
                    .with_custom(call.kind == CallKind::Custom)
                    .with_signature(call.signature.as_deref()),
                )
            }
            TranscriptItem::ToolResponse { call, text, images } => {
                let place = self.place(Payload::Result, call, text, held)?;
                let images = self.images(images, held)?;
                write::tool_response(
                    &write::ToolResponseRecord::new(&call.id, payload(place.as_deref(), text))
                        .with_custom(call.kind == CallKind::Custom)
                        .with_images(&images),
                )
            }
        })
    }

    /// Returns the line end that separates new items from the content.
    pub(crate) fn line_end(&self) -> &'static str {
        self.line_end
    }

    /// Formats a part of a response; other kinds of blocks give no text.
    fn answer(&mut self, block: &ContentBlock, continued: bool, phase: Option<&str>) -> String {
        match block {
            ContentBlock::Text {
                text,
                signature,
                preamble,
            } => write::assistant_message(
                &write::AssistantMessage::new(text)
                    .with_preamble(*preamble)
                    .with_phase(phase)
                    .with_signature(signature.as_deref())
                    .with_continued(continued),
            ),
            ContentBlock::Thinking {
                text,
                signature,
                id,
            } => {
                let text = text.as_str();
                let summaries = if text.is_empty() { &[][..] } else { &[text] };
                self.reasoning(
                    write::ReasoningRecord::new(0, summaries)
                        .with_id(id.as_deref())
                        .with_signature(signature.as_deref())
                        .with_continued(continued),
                )
            }
            ContentBlock::RedactedThinking { data } => self.reasoning(
                write::ReasoningRecord::new(0, &[])
                    .with_encrypted(data.as_str())
                    .with_continued(continued),
            ),
            _ => String::new(),
        }
    }

    fn reasoning(&mut self, record: write::ReasoningRecord<'_>) -> String {
        self.reasoning_count += 1;
        write::reasoning_record(&record.with_number(self.reasoning_count))
    }

    /// Writes a payload to a file and returns its name; `None` if inline.
    fn place(
        &mut self,
        kind: Payload,
        call: &ToolCall,
        text: &str,
        held: bool,
    ) -> Result<Option<String>, TranscriptError> {
        let is_large = text.len() > self.inline_bytes;
        if !is_large && !self.external {
            return Ok(None);
        }
        // A larger payload could not be read again.
        if text.len() as u64 > MAX_SOURCE_BYTES {
            return Err(TranscriptError::TooLarge(
                self.transcript.display().to_string(),
            ));
        }
        let written = if is_large {
            self.payloads.store(text, held)
        } else {
            match kind {
                Payload::Call => self.payloads.write_call(&call.id, text),
                Payload::Result => self.payloads.write_result(&call.id, text),
            }
        };
        written.map(Some).map_err(|error| self.payload_error(error))
    }

    /// Writes the data of images to files, and returns their references.
    fn images(
        &self,
        images: &[ContentBlock],
        held: bool,
    ) -> Result<Vec<write::ImageRecord>, TranscriptError> {
        let records = images.iter().filter_map(|block| {
            let ContentBlock::Image { source, .. } = block else {
                return None;
            };
            match source {
                ImageSource::Url(url) => Some(Ok(write::ImageRecord::remote(url.clone()))),
                // The data came from a tool or a transcript, where it was decoded.
                ImageSource::Inline(data) => {
                    let bytes = STANDARD.decode(data).ok()?;
                    let stored = self.payloads.store_image(&bytes, held);
                    Some(stored.map(write::ImageRecord::local))
                }
                _ => None,
            }
        });
        let records: Result<_, PayloadError> = records.collect();
        records.map_err(|error| self.payload_error(error))
    }

    /// Checks that payload files can be created.
    pub(crate) fn check_payloads(&self) -> Result<(), TranscriptError> {
        self.payloads
            .check()
            .map_err(|error| self.payload_error(error))
    }

    /// Finds the payloads that a text names beside another transcript.
    pub(crate) fn adopt_payloads(
        &mut self,
        from: &FolderHandle,
        text: &str,
    ) -> Result<(), TranscriptError> {
        let adopted = self.payloads.adopt(from, text);
        adopted.map_err(|error| self.payload_error(error))
    }

    /// Copies the payloads that were found.
    pub(crate) fn copy_payloads(&mut self) -> Result<(), TranscriptError> {
        let copied = self.payloads.copy_adopted();
        copied.map_err(|error| self.payload_error(error))
    }

    fn payload_error(&self, error: PayloadError) -> TranscriptError {
        let path = self.payloads.path().display().to_string();
        match error {
            PayloadError::NotFolder => TranscriptError::PayloadFolder(path),
            PayloadError::Taken(payload) => TranscriptError::PayloadTaken {
                path: self.transcript.display().to_string(),
                payload,
            },
            PayloadError::Io(error) => TranscriptError::Io {
                path,
                action: "written",
                error,
            },
        }
    }
}

/// The role of a payload in its call.
#[derive(Clone, Copy)]
enum Payload {
    Call,
    Result,
}

fn payload<'a>(place: Option<&'a str>, text: &'a str) -> write::Payload<'a> {
    match place {
        Some(path) => write::Payload::External(path),
        None => write::Payload::Inline(text),
    }
}
