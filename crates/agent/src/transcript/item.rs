//! The items that a turn appends to a transcript.

use logue_message::{ChatMessage, Content, ContentBlock, ToolCall};
use logue_source::DiagnosticCode;
use logue_tools::{ToolResult, envelope};

/// A completed part of a turn.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TranscriptItem {
    /// A message of the user.
    User(String),
    /// The value of a variable of the prompt.
    Variable {
        /// The name of the variable.
        name: String,
        /// The value.
        value: String,
    },
    /// A part of the model's response.
    Answer {
        /// Text or reasoning.
        block: ContentBlock,
        /// Whether text of the same response precedes it.
        continued: bool,
        /// The provider's phase of text that is not a preamble.
        phase: Option<String>,
    },
    /// The received part of an answer that was interrupted.
    Interrupted(String),
    /// A tool call of the model.
    ToolCall(ToolCall),
    /// The result of a call.
    ToolResponse {
        /// The call that it belongs to.
        call: ToolCall,
        /// The text that the model receives.
        text: String,
        /// The image blocks that follow the text.
        images: Vec<ContentBlock>,
    },
}

impl TranscriptItem {
    /// Plain text of the model.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::Answer {
            block: ContentBlock::text(text),
            continued: false,
            phase: None,
        }
    }

    /// Splits a response into items: reasoning and text in their order, then calls.
    ///
    /// Read back, the items form the same message with three exceptions: empty text is dropped,
    /// white space alone is kept only beside other content, and text before calls is a preamble by
    /// its position, without a mark.
    ///
    /// ```
    /// use logue_agent::TranscriptItem;
    /// use logue_message::{ChatMessage, ToolCall};
    ///
    /// let call = ToolCall::new("c1", "read_file", "{}");
    /// let answer = ChatMessage::assistant("Let me look.").with_tool_calls(vec![call.clone()]);
    /// assert_eq!(
    ///     TranscriptItem::from_answer(&answer),
    ///     [TranscriptItem::assistant("Let me look."), TranscriptItem::ToolCall(call)]
    /// );
    /// ```
    pub fn from_answer(answer: &ChatMessage) -> Vec<Self> {
        let blocks = match &answer.content {
            Content::Absent => Vec::new(),
            Content::Text(text) => vec![ContentBlock::text(text.clone())],
            Content::Blocks(blocks) => blocks.clone(),
        };
        if answer.interrupted {
            return vec![Self::Interrupted(answer.text())];
        }
        let says_something = !answer.tool_calls.is_empty() || !answer.text().trim().is_empty();
        let mut elements = Vec::with_capacity(blocks.len() + answer.tool_calls.len());
        let mut continued = false;
        for mut block in blocks {
            let is_answer = matches!(
                block,
                ContentBlock::Text {
                    preamble: false,
                    ..
                }
            );
            let is_words = match &mut block {
                ContentBlock::Text {
                    text,
                    signature,
                    preamble,
                } if says_something && (!text.is_empty() || signature.is_some()) => {
                    *preamble &= answer.tool_calls.is_empty() || answer.phase.is_some();
                    true
                }
                ContentBlock::Thinking {
                    text, signature, ..
                } if !text.is_empty() || signature.is_some() => false,
                ContentBlock::RedactedThinking { .. } => false,
                // The block has nothing that a model can answer.
                _ => continue,
            };
            elements.push(Self::Answer {
                block,
                continued,
                phase: answer.phase.clone().filter(|_| is_answer),
            });
            continued |= is_words;
        }
        elements.extend(answer.tool_calls.iter().cloned().map(Self::ToolCall));
        elements
    }

    /// Returns the message of a single item: a user's message, a tool's result or the part of an
    /// interrupted answer.
    pub fn to_message(&self) -> Option<ChatMessage> {
        match self {
            Self::User(text) => Some(ChatMessage::user(text.clone())),
            Self::Interrupted(text) => Some(ChatMessage::interrupted(text.clone())),
            Self::ToolResponse { call, text, images } => {
                let content = Content::with_images(text.as_str(), images.clone());
                Some(ChatMessage::tool(call.id.clone(), content).with_name(call.name.clone()))
            }
            Self::Variable { .. } | Self::Answer { .. } | Self::ToolCall(_) => None,
        }
    }
}

/// Returns the result of a call that waited for a decision when its run ended.
pub(crate) fn undecided_text(is_envelope: bool) -> String {
    let code = DiagnosticCode::ToolCancelled.as_str();
    let words = "the run ended before this call was approved, so it was not run.";
    if is_envelope {
        envelope(&ToolResult::error(code, words)).to_string()
    } else {
        format!("{code}: {words}")
    }
}

/// A destination of completed items. An item is durable when `append` returns.
pub trait TranscriptWriter: Send {
    /// Checks that later items can be stored, as far as possible.
    ///
    /// It is called before a model request, so that no response is paid for and lost.
    ///
    /// # Errors
    /// Returns an error if nothing could be appended.
    fn prepare(&mut self) -> Result<(), TranscriptError> {
        Ok(())
    }

    /// Appends items in order, all or none.
    ///
    /// # Errors
    /// Returns an error if they are not durable; nothing was appended.
    fn append(&mut self, elements: &[TranscriptItem]) -> Result<(), TranscriptError>;

    /// Writes the received part of an answer; it replaces a shorter part.
    ///
    /// The next appended item replaces it. If none follows, it is the part of an interrupted answer.
    ///
    /// # Errors
    /// As for [`append`](Self::append).
    fn append_part(&mut self, text: &str) -> Result<(), TranscriptError> {
        let _ = text;
        Ok(())
    }

    /// Announces that the results of these calls follow, in any order.
    fn expect(&mut self, calls: &[ToolCall]) {
        let _ = calls;
    }

    /// Records that these calls wait for a decision.
    ///
    /// They count as not run until [`decided`](Self::decided).
    ///
    /// # Errors
    /// Returns an error if that is not durable.
    fn await_decision(&mut self, calls: &[ToolCall]) -> Result<(), TranscriptError> {
        let _ = calls;
        Ok(())
    }

    /// Removes the record of [`await_decision`](Self::await_decision), before a call runs.
    ///
    /// # Errors
    /// Returns an error if that is not durable; none of the calls may run.
    fn decided(&mut self) -> Result<(), TranscriptError> {
        Ok(())
    }

    /// Inserts an item before the `later` items that were appended last.
    ///
    /// It is the result of a call that ended after later calls. A transcript without such a
    /// position appends it at its end; readers find a result by the id of its call.
    ///
    /// # Errors
    /// As for [`append`](Self::append).
    fn insert(&mut self, element: &TranscriptItem, later: usize) -> Result<(), TranscriptError> {
        let _ = later;
        self.append(std::slice::from_ref(element))
    }
}

/// A transcript that discards all items.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTranscript;

impl TranscriptWriter for NoTranscript {
    fn append(&mut self, _: &[TranscriptItem]) -> Result<(), TranscriptError> {
        Ok(())
    }
}

/// A transcript that cannot be opened or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TranscriptError {
    /// Another run has locked the file.
    #[error("another run is writing to {0}")]
    Busy(String),
    /// The path does not name a file that can be a transcript.
    #[error("{path} cannot be written to: {reason}")]
    Unsuitable {
        /// The file.
        path: String,
        /// The reason.
        reason: &'static str,
    },
    /// The directory of a new transcript does not exist.
    #[error("{path} cannot be created: the directory {directory} does not exist")]
    NoDirectory {
        /// The file.
        path: String,
        /// The missing directory.
        directory: String,
    },
    /// The place of the payload files is not a directory beside the transcript.
    #[error("{0} is not a directory, or is a link to one, so payload files are not written")]
    PayloadFolder(String),
    /// A payload of the prompt has the name of another file beside the transcript.
    #[error("{path} cannot be created: `{payload}` beside it is a payload of another transcript")]
    PayloadTaken {
        /// The transcript.
        path: String,
        /// The reference to the payload.
        payload: String,
    },
    /// The transcript would exceed the size that can be read again.
    #[error("{0} would be larger than 64 MiB, the most that a transcript can have")]
    TooLarge(String),
    /// Another program changed the file so that nothing can be appended.
    #[error(
        "{path} was changed during the run and can no longer be appended to; completed items are \
         in {rescue}"
    )]
    Changed {
        /// The file.
        path: String,
        /// The file that contains the rescued items.
        rescue: String,
    },
    /// An item cannot be written in the transcript's language.
    #[error("{path} cannot contain the response: {error}")]
    Unwritable {
        /// The file.
        path: String,
        /// The reason.
        error: openchatml::WriteError,
    },
    /// The operating system reported an error.
    #[error("{path} cannot be {action}: {error}")]
    Io {
        /// The file.
        path: String,
        /// The operation.
        action: &'static str,
        /// The cause.
        #[source]
        error: std::io::Error,
    },
}

impl TranscriptError {
    /// The stable category of the error.
    pub const fn category(&self) -> &'static str {
        match self {
            Self::Busy(_) => "transcript_locked",
            Self::Unsuitable { .. } | Self::NoDirectory { .. } | Self::PayloadTaken { .. } => {
                "E-SOURCE-READ"
            }
            Self::PayloadFolder(_) => "E-MD-PAYLOAD-FOLDER",
            Self::TooLarge(_) => "E-SOURCE-TOO-LARGE",
            Self::Unwritable { .. } => "E-WRITE-REFUSED",
            Self::Changed { .. } | Self::Io { .. } => "transcript_write_failed",
        }
    }

    /// The remedy.
    pub const fn help(&self) -> &'static str {
        match self {
            Self::Busy(_) => {
                "wait until the other run has ended, or use -o to write another transcript"
            }
            Self::Unsuitable { .. } => "use -o to write a transcript elsewhere, or --no-save",
            Self::NoDirectory { .. } => "create the directory, or name another file with -o",
            Self::PayloadFolder(_) => "replace it by a directory; links are not followed there",
            Self::PayloadTaken { .. } => "name a file in another directory with -o",
            Self::TooLarge(_) => "start a new transcript with -o",
            Self::Changed { .. } => "correct the file, append the rescued items, and run again",
            Self::Unwritable { .. } => "report this: the response of the model cannot be written",
            Self::Io { .. } => "check permissions and free space; earlier items are safe",
        }
    }
}
