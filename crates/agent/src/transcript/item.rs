//! What a turn adds to a transcript, one completed thing at a time.

use logue_message::{ChatMessage, Content, ContentBlock, ToolCall};

/// A completed part of a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Element {
    /// A message of the user.
    User(String),
    /// What the model thought or said: a piece of its answer.
    Answer {
        /// The piece: words or reasoning.
        block: ContentBlock,
        /// Whether words of the same answer stand before it.
        continued: bool,
    },
    /// A call that the model decided on.
    ToolCall(ToolCall),
    /// The result of a call.
    ToolResponse {
        /// The call that it answers.
        call: ToolCall,
        /// What the model is told.
        text: String,
    },
}

impl Element {
    /// Plain words of the model.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::Answer {
            block: ContentBlock::text(text),
            continued: false,
        }
    }

    /// The elements that an answer of the model is written as: reasoning and words in their order,
    /// then calls. Read back they are the same message again, with these exceptions: text that is
    /// empty is no text, white space alone is an answer only beside something that is more, and
    /// words before calls are a preamble by their place, so they are not marked as one.
    ///
    /// ```
    /// use logue_agent::Element;
    /// use logue_message::{ChatMessage, ToolCall};
    ///
    /// let call = ToolCall::new("c1", "read_file", "{}");
    /// let answer = ChatMessage::assistant("Let me look.").with_tool_calls(vec![call.clone()]);
    /// assert_eq!(
    ///     Element::of_answer(&answer),
    ///     [Element::assistant("Let me look."), Element::ToolCall(call)]
    /// );
    /// ```
    pub fn of_answer(answer: &ChatMessage) -> Vec<Self> {
        let blocks = match &answer.content {
            Content::Absent => Vec::new(),
            Content::Text(text) => vec![ContentBlock::text(text.clone())],
            Content::Blocks(blocks) => blocks.clone(),
        };
        let says_something = !answer.tool_calls.is_empty() || !answer.text().trim().is_empty();
        let mut elements = Vec::with_capacity(blocks.len() + answer.tool_calls.len());
        let mut continued = false;
        for mut block in blocks {
            let is_words = match &mut block {
                ContentBlock::Text {
                    text,
                    signature,
                    preamble,
                } if says_something && (!text.is_empty() || signature.is_some()) => {
                    *preamble &= answer.tool_calls.is_empty();
                    true
                }
                ContentBlock::Thinking {
                    text, signature, ..
                } if !text.is_empty() || signature.is_some() => false,
                ContentBlock::RedactedThinking { .. } => false,
                // Nothing that a model can answer.
                _ => continue,
            };
            elements.push(Self::Answer { block, continued });
            continued |= is_words;
        }
        elements.extend(answer.tool_calls.iter().cloned().map(Self::ToolCall));
        elements
    }

    /// The message that the element alone is, if it is one: a user's message or a tool's result.
    pub fn to_message(&self) -> Option<ChatMessage> {
        match self {
            Self::User(text) => Some(ChatMessage::user(text.clone())),
            Self::ToolResponse { call, text } => {
                Some(ChatMessage::tool(call.id.clone(), text.clone()).with_name(call.name.clone()))
            }
            Self::Answer { .. } | Self::ToolCall(_) => None,
        }
    }
}

/// Where completed parts go. An element is durable when `append` returns.
pub trait Transcript: Send {
    /// Makes sure, as far as that can be known, that what is appended later can be kept. Called
    /// before a model is asked, so that no answer is paid for and then lost.
    ///
    /// # Errors
    /// Nothing could be appended.
    fn prepare(&mut self) -> Result<(), TranscriptError> {
        Ok(())
    }

    /// Adds elements in order, all or none.
    ///
    /// # Errors
    /// They could not be made durable; nothing was added.
    fn append(&mut self, elements: &[Element]) -> Result<(), TranscriptError>;

    /// The results of these calls come next, in any order.
    fn expect(&mut self, calls: &[ToolCall]) {
        let _ = calls;
    }

    /// Adds an element before the `later` ones that were added last: the result of a call that ended
    /// after calls behind it. A transcript that has no place there adds it at its end; whoever reads
    /// it finds a result by the id of its call.
    ///
    /// # Errors
    /// As for [`append`](Self::append).
    fn insert(&mut self, element: &Element, later: usize) -> Result<(), TranscriptError> {
        let _ = later;
        self.append(std::slice::from_ref(element))
    }
}

/// A transcript that keeps nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTranscript;

impl Transcript for NoTranscript {
    fn append(&mut self, _: &[Element]) -> Result<(), TranscriptError> {
        Ok(())
    }
}

/// A transcript that cannot be opened or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TranscriptError {
    /// Another run holds the file.
    #[error("another run is writing to {0}")]
    Busy(String),
    /// What is at the path cannot be a transcript.
    #[error("{path} cannot be written to: {reason}")]
    Unsuitable {
        /// The file.
        path: String,
        /// Why.
        reason: &'static str,
    },
    /// The transcript would be larger than one that can be read again.
    #[error("{0} would be larger than 64 MiB, the most that a transcript can have")]
    TooLarge(String),
    /// Another program changed the file so that nothing can be appended.
    #[error(
        "{path} was changed while the run went on and cannot be appended to as it is now; what was \
         completed is in {rescue}"
    )]
    Changed {
        /// The file.
        path: String,
        /// The file that took what was to be appended.
        rescue: String,
    },
    /// What is to be appended cannot be written in the transcript's language.
    #[error("{path} cannot take what was said: {error}")]
    Unwritable {
        /// The file.
        path: String,
        /// Why.
        error: openchatml::WriteError,
    },
    /// The operating system refuses.
    #[error("{path} cannot be {action}: {error}")]
    Io {
        /// The file.
        path: String,
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        #[source]
        error: std::io::Error,
    },
}

impl TranscriptError {
    /// The stable category of the error.
    pub const fn category(&self) -> &'static str {
        match self {
            Self::Busy(_) => "transcript_locked",
            Self::Unsuitable { .. } => "E-SOURCE-READ",
            Self::TooLarge(_) => "E-SOURCE-TOO-LARGE",
            Self::Unwritable { .. } => "E-WRITE-REFUSED",
            Self::Changed { .. } | Self::Io { .. } => "transcript_write_failed",
        }
    }

    /// What to do about it.
    pub const fn help(&self) -> &'static str {
        match self {
            Self::Busy(_) => {
                "wait until the other run has ended, or use -o to write another transcript"
            }
            Self::Unsuitable { .. } => "use -o to write a transcript elsewhere, or --no-write",
            Self::TooLarge(_) => "start a new transcript with -o",
            Self::Changed { .. } => "correct the file, append what was rescued, and run again",
            Self::Unwritable { .. } => "report this: what the model said cannot be written down",
            Self::Io { .. } => "check permissions and free space; what was written before is safe",
        }
    }
}
