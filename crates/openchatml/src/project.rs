//! Conversations as JSON: the interchange forms of OpenChatML, and what providers and data sets use.
//!
//! | form | looks like | keeps |
//! |---|---|---|
//! | [`JsonFormat::Json`] | 2.2 §10, one object per frame | everything |
//! | [`JsonFormat::Json2_0`] | 2.0 §10, one object per turn | text, reasoning, calls |
//! | [`JsonFormat::OpenAi`] | Chat Completions messages | text, calls, replies |
//! | [`JsonFormat::ShareGpt`] | `{"conversations": [{"from", "value"}]}` | text, calls, replies |
//!
//! [`read()`] takes an array of messages or an object that holds one; [`conversations`] finds the
//! conversations of a text that holds several. [`write()`] gives a document, or one line
//! ([`ConvertOptions::line`](crate::convert::ConvertOptions::line)).
//!
//! No form raises a rank or shows what was hidden. What has no place in a form is listed as a
//! [`Loss`]; a frame that could only be kept by raising or showing it is left out, and listed.
//!
//! ```
//! use openchatml::convert::ConvertOptions;
//! use openchatml::project::{self, JsonFormat};
//!
//! let text = br#"[{"role": "user", "content": "Hi <|end|>"}]"#;
//! let options = ConvertOptions::default();
//! let read = project::read(text, JsonFormat::OpenAi, &options);
//! assert!(read.diagnostics.is_empty());
//!
//! let written = project::write(&read.transcript, JsonFormat::ShareGpt, &options)?;
//! assert_eq!(written.text, "{\"conversations\":[\n  {\"from\":\"human\",\"value\":\"Hi <|end|>\"}\n]}\n");
//! # Ok::<(), openchatml::convert::ConvertError>(())
//! ```

mod frames;
mod frames_read;
mod header;
mod history_read;
mod messages_read;
mod messages_write;
mod node;
mod outline;
mod reading;
mod sharegpt;
mod sharegpt_read;
mod turns;

use logue_source::{Diagnostic, Span};

use crate::convert::{ConvertError, ConvertOptions, WriteResult, finish};
use crate::document::owned::Transcript;
use crate::loss::Loss;

pub use outline::{conversations, detect};

/// A JSON form of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JsonFormat {
    /// The JSON of OpenChatML 2.2 §10, with a field for everything that a frame has.
    ///
    /// Messages in the JSON form of `logue_message`, such as those of an exported session, are read too.
    Json,
    /// The JSON of OpenChatML 2.0 §10. Reads like [`JsonFormat::Json`], which has its fields too.
    Json2_0,
    /// Messages of `OpenAI` Chat Completions.
    OpenAi,
    /// The form of `ShareGPT` data sets.
    ShareGpt,
}

impl JsonFormat {
    /// Every form.
    pub const ALL: [Self; 4] = [Self::Json, Self::Json2_0, Self::OpenAi, Self::ShareGpt];

    /// The name on a command line: `json`, `json2.0`, `openai` or `sharegpt`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Json2_0 => "json2.0",
            Self::OpenAi => "openai",
            Self::ShareGpt => "sharegpt",
        }
    }

    /// The form of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.as_str() == name)
    }
}

impl std::fmt::Display for JsonFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A conversation that was read from JSON.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Projected {
    /// The conversation.
    pub transcript: Transcript,
    /// Findings. A message with an error is not in the transcript.
    pub diagnostics: Vec<Diagnostic>,
    /// Losses, and values that were added.
    pub losses: Vec<Loss>,
}

impl Projected {
    /// Returns whether part of the text is unreadable and missing from the transcript.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
}

/// Reads one conversation: an array of messages, or an object that holds one under `messages`
/// (`conversations` in `ShareGPT`). Never fails: what is wrong is a diagnostic with its place.
/// Linear in the text, without recursion.
pub fn read(text: &[u8], from: JsonFormat, options: &ConvertOptions) -> Projected {
    read_part(text, Span::new(0, text.len()), from, options)
}

/// [`read()`] for a part that [`conversations`] found; places count in the whole text.
pub fn read_part(
    text: &[u8],
    part: Span,
    from: JsonFormat,
    _options: &ConvertOptions,
) -> Projected {
    let node = match node::Node::parse(text, part) {
        Ok(node) => node,
        Err(found) => {
            return Projected {
                diagnostics: vec![*found],
                ..Projected::default()
            };
        }
    };
    match from {
        JsonFormat::Json if history_read::is_history(node) => history_read::read(node),
        JsonFormat::Json | JsonFormat::Json2_0 => frames_read::read(node),
        JsonFormat::OpenAi => messages_read::read(node),
        JsonFormat::ShareGpt => sharegpt_read::read(node),
    }
}

/// Writes one conversation, with a newline at its end. Linear in the transcript.
///
/// # Errors
/// With [`ConvertOptions::strict`], a loss of that severity. Nothing else: JSON can hold every text.
pub fn write(
    transcript: &Transcript,
    to: JsonFormat,
    options: &ConvertOptions,
) -> Result<WriteResult, ConvertError> {
    let writing = match to {
        JsonFormat::Json => frames::write(transcript, options),
        JsonFormat::Json2_0 => turns::write(transcript, options),
        JsonFormat::OpenAi => messages_write::write(transcript, options),
        JsonFormat::ShareGpt => sharegpt::write(transcript, options),
    };
    finish(writing, options)
}
