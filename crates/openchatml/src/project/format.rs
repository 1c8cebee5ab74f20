//! The JSON forms, and what reading one gives.

use logue_source::Diagnostic;

use crate::document::owned::Transcript;
use crate::loss::Loss;

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
    /// Requests of Anthropic Messages.
    Anthropic,
    /// Requests of `OpenAI` Responses.
    Responses,
    /// The JSON of openai-harmony. Only read.
    HarmonyJson,
    /// Rows of an instruction or a prompt with its answer. Only read.
    Instruction,
    /// Pairs of a preferred and another answer, which are two conversations. Only read.
    Preference,
}

impl JsonFormat {
    /// Every form that is read and written.
    pub const ALL: [Self; 6] = [
        Self::Json,
        Self::Json2_0,
        Self::OpenAi,
        Self::ShareGpt,
        Self::Anthropic,
        Self::Responses,
    ];

    /// Every form that is only read.
    pub const READ_ONLY: [Self; 3] = [Self::HarmonyJson, Self::Instruction, Self::Preference];

    /// The name on a command line, such as `json2.0` or `sharegpt`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Json2_0 => "json2.0",
            Self::OpenAi => "openai",
            Self::ShareGpt => "sharegpt",
            Self::Anthropic => "anthropic",
            Self::Responses => "responses",
            Self::HarmonyJson => "harmony-json",
            Self::Instruction => "instruction",
            Self::Preference => "preference",
        }
    }

    /// The form of that name.
    pub fn parse(name: &str) -> Option<Self> {
        let forms = Self::ALL.into_iter().chain(Self::READ_ONLY);
        forms.into_iter().find(|form| form.as_str() == name)
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
