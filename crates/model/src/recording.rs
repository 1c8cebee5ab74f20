//! Recordings: `OpenChatML` transcripts that replace a model.
//!
//! A recording is one conversation. Its header contains the settings and tools of the run (`tools:`, a
//! Logue key that other readers ignore); its frames are the messages and the responses. The n-th
//! request is the part of the transcript before the n-th response, so the file has no repetitions.
//!
//! Reasoning (`analysis`) is played but never compared: the provider, not the conversation, determines
//! which reasoning is sent back. Its evidence (ids, signatures, encrypted parts) is not recorded.

mod compare;
mod recorder;
mod replay;

use logue_message::ChatMessage;
use logue_source::{LineIndex, Severity};
use openchatml::{FrameBuf, FrameRole, frames_from_messages, messages_from_frames, parse};
use serde_json::{Map, Value};

pub use recorder::{RecordError, Recorder};
pub use replay::Replay;

use self::compare::{
    compare_frames, compare_settings, compare_tools, is_final, is_reasoning, quote, role_of,
};
use crate::{Category, ModelRequest, ProviderError};

/// A parsed recording.
#[derive(Clone, Debug)]
pub struct Recording {
    name: String,
    frames: Vec<RecordedFrame>,
    settings: Option<Map<String, Value>>,
    tools: Option<Value>,
}

#[derive(Clone, Debug)]
struct RecordedFrame {
    frame: FrameBuf,
    /// The line of the frame in the file, from 1.
    line: usize,
}

/// An error in a recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("{name}:{line}: {message}")]
pub struct RecordingError {
    /// The file name.
    pub name: String,
    /// The line, from 1.
    pub line: usize,
    /// The error and its code.
    pub message: String,
}

/// The position of a request in a recording.
#[derive(Debug)]
pub(crate) enum Position {
    /// The request is recorded, with this response.
    Response(Box<ChatMessage>),
    /// The request differs as the text describes.
    Differs(String),
    /// The recording ends before this request.
    Ends,
}

impl Recording {
    /// Parses a recording; error messages contain `name`.
    ///
    /// # Errors
    /// Returns an error if the text is not a valid `OpenChatML` transcript.
    pub fn parse(name: &str, text: &[u8]) -> Result<Self, RecordingError> {
        let document = parse(text);
        let lines = LineIndex::new(text);
        let error = document
            .diagnostics()
            .iter()
            .find(|found| found.severity == Severity::Error);
        if let Some(error) = error {
            return Err(RecordingError {
                name: name.to_owned(),
                line: lines.line_column(text, error.primary.start).line,
                message: format!("{}: {}", error.code, error.message),
            });
        }
        let header = document.header();
        let frames = document
            .frames()
            .iter()
            .zip(document.to_owned_frames())
            .map(|(read, frame)| RecordedFrame {
                frame,
                line: lines.line_column(text, read.span().start).line,
            })
            .collect();
        Ok(Self {
            name: name.to_owned(),
            frames,
            settings: header.map(|header| header.generation_settings().clone()),
            tools: header.and_then(|header| header.get("tools")).cloned(),
        })
    }

    /// Returns the number of recorded responses.
    pub fn response_count(&self) -> usize {
        let mut count = 0;
        let mut at = 0;
        while at < self.frames.len() {
            if self.frames[at].frame.role == FrameRole::Assistant {
                count += 1;
                at = self.response_end(at);
            } else {
                at += 1;
            }
        }
        count
    }

    /// Returns the recorded messages between a request and the next user message.
    ///
    /// These are the responses of a turn and the results of its calls. The last message of the request
    /// is the user's.
    ///
    /// # Errors
    /// Returns an error of the category [`Category::ReplayMismatch`] if the request differs from the
    /// recording, and [`Category::ReplayExhausted`] if the recording ends before it.
    pub fn turn_after(
        &self,
        request: &ModelRequest<'_>,
    ) -> Result<Vec<ChatMessage>, ProviderError> {
        if let position @ (Position::Differs(_) | Position::Ends) = self.position(request) {
            return Err(self.refusal(position));
        }
        let (frames, _) = frames_from_messages(request.messages);
        let sent = frames.iter().filter(|frame| !is_reasoning(frame)).count();
        let is_counted = |recorded: &&RecordedFrame| !is_reasoning(&recorded.frame);
        let rest = self.frames.iter().filter(is_counted).skip(sent);
        let is_turn = |frame: &RecordedFrame| {
            matches!(frame.frame.role, FrameRole::Assistant | FrameRole::Tool)
        };
        let frames: Vec<FrameBuf> = rest
            .take_while(|recorded| is_turn(recorded))
            .map(|recorded| recorded.frame.clone())
            .collect();
        Ok(messages_from_frames(&frames).0)
    }

    /// Returns the error of a request without a recorded response.
    pub(crate) fn refusal(&self, position: Position) -> ProviderError {
        if let Position::Differs(difference) = position {
            return ProviderError::new(Category::ReplayMismatch, difference).with_help(
                "undo the change to the prompt, a tool or an input file, or create a new recording \
                 with --record",
            );
        }
        let answers = match self.response_count() {
            1 => "1 answer".to_owned(),
            count => format!("{count} answers"),
        };
        ProviderError::new(
            Category::ReplayExhausted,
            format!("the recording has no response for this request: it contains {answers}"),
        )
        .with_help("select a model with -m to continue, or record a longer session")
    }

    /// Compares a request with the recording and returns its position.
    pub(crate) fn position(&self, request: &ModelRequest<'_>) -> Position {
        if let Some(difference) = self.compare_header(request) {
            return Position::Differs(difference);
        }
        let (frames, _) = frames_from_messages(request.messages);
        let frames = frames.iter().filter(|frame| !is_reasoning(frame));
        let mut at = 0;
        for (index, frame) in frames.enumerate() {
            while self
                .frames
                .get(at)
                .is_some_and(|recorded| is_reasoning(&recorded.frame))
            {
                at += 1;
            }
            let Some(recorded) = self.frames.get(at) else {
                return Position::Ends;
            };
            if let Some(difference) = compare_frames(&recorded.frame, frame) {
                return Position::Differs(format!(
                    "message {} of the request differs from {}:{}\n{difference}",
                    index + 1,
                    self.name,
                    recorded.line,
                ));
            }
            at += 1;
        }
        if at >= self.frames.len() {
            return Position::Ends;
        }
        let end = self.response_end(at);
        let response: Vec<FrameBuf> = self.frames[at..end]
            .iter()
            .map(|recorded| recorded.frame.clone())
            .collect();
        if response.is_empty() {
            let recorded = &self.frames[at];
            return Position::Differs(format!(
                "the request ends where {}:{} continues with a message of role {}:\n{}",
                self.name,
                recorded.line,
                role_of(&recorded.frame),
                quote("recorded", &recorded.frame.body),
            ));
        }
        let (messages, _) = messages_from_frames(&response);
        match messages.into_iter().next() {
            Some(message) => Position::Response(Box::new(message)),
            None => Position::Ends,
        }
    }

    /// Returns the end of the response that begins at frame `at`.
    ///
    /// It is after a `final`, or before the next frame of another role.
    fn response_end(&self, at: usize) -> usize {
        let mut end = at;
        while let Some(recorded) = self.frames.get(end) {
            if recorded.frame.role != FrameRole::Assistant {
                break;
            }
            end += 1;
            if is_final(&recorded.frame) {
                break;
            }
        }
        end
    }

    fn compare_header(&self, request: &ModelRequest<'_>) -> Option<String> {
        let settings = self.settings.as_ref();
        let difference =
            settings.and_then(|recorded| compare_settings(&self.name, recorded, request.settings));
        difference.or_else(|| {
            let recorded = self.tools.as_ref()?.as_array()?;
            compare_tools(&self.name, recorded, request.tools)
        })
    }
}
