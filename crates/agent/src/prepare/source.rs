//! The text of a prompt and its place.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use logue_message::{ChatMessage, ContentBlock};

use crate::prompt::source_file::{SourceError, into_text, read_bytes};
use crate::record::evaluation_record::EvaluationRecord;

/// A prompt that has been read and not evaluated.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PromptSource {
    /// The name of the prompt in messages.
    pub name: String,
    /// The text.
    pub text: String,
    /// The language of the text.
    pub language: PromptLanguage,
    /// The place that relative paths are resolved against.
    pub origin: PromptOrigin,
    /// The file that relative paths are resolved against, if that is not the prompt's own.
    ///
    /// Its directory must be absolute and without links. Trust is in the prompt's own file.
    pub base: Option<PathBuf>,
    /// The transcript that the turn appends to; tools cannot write it.
    pub transcript: Option<PathBuf>,
    /// The directory of the transcript's payload files; by default the directory of the prompt.
    pub payloads: Option<PathBuf>,
    /// The record of earlier evaluations of the conversation; with `None`, nothing is recorded.
    pub record: Option<Arc<EvaluationRecord>>,
    /// The ids of calls that wait for a decision or for the calls beside them.
    ///
    /// A turn that continues without it reports that they were not run.
    pub undecided: Vec<String>,
    /// The conversation that the turn continues.
    pub history: History,
}

/// The language of a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PromptLanguage {
    /// ChatMD.
    #[default]
    ChatMd,
    /// A transcript in OpenChatML 2.1 or 2.2.
    OpenChatMl,
}

/// The place that a prompt comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PromptOrigin {
    /// A file.
    File(PathBuf),
    /// A text without a file, such as standard input. Paths are resolved against the current
    /// directory.
    Text,
    /// The network: the prompt has no directory and must not declare tools.
    Network,
}

/// The conversation that a turn continues.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum History {
    /// The prompt's own messages, followed by `message` if there is one.
    Prompt {
        /// The new message of the user.
        message: Option<ChatMessage>,
    },
    /// The messages of a stored session. Every request begins with the prompt's messages.
    Session,
    /// The prompt's own messages, in the state that a suspended turn left them.
    Suspended,
}

impl PromptSource {
    /// A ChatMD prompt without a file.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            text: text.into(),
            language: PromptLanguage::default(),
            origin: PromptOrigin::Text,
            base: None,
            transcript: None,
            payloads: None,
            record: None,
            undecided: Vec::new(),
            history: History::Prompt { message: None },
        }
    }

    /// Reads the ChatMD prompt in a file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is too large or is not UTF-8.
    pub fn read(path: &Path) -> Result<Self, SourceError> {
        let name = path.display().to_string();
        let text = into_text(&name, read_bytes(path)?)?;
        Ok(Self::new(name, text).with_origin(PromptOrigin::File(path.to_owned())))
    }

    /// Sets the origin.
    #[must_use]
    pub fn with_origin(mut self, origin: PromptOrigin) -> Self {
        self.origin = origin;
        self
    }

    /// Sets the conversation that the turn continues.
    #[must_use]
    pub fn with_history(mut self, history: History) -> Self {
        self.history = history;
        self
    }

    /// Appends a message of the user to the prompt's messages, unless `input` is blank.
    #[must_use]
    pub fn with_input(self, input: &str) -> Self {
        let is_blank = input.trim().is_empty();
        let message = (!is_blank).then(|| ChatMessage::user(vec![ContentBlock::text(input)]));
        self.with_history(History::Prompt { message })
    }

    /// The file of the prompt.
    pub fn file(&self) -> Option<&Path> {
        match &self.origin {
            PromptOrigin::File(path) => Some(path),
            _ => None,
        }
    }

    /// The file that relative paths are resolved against.
    pub(crate) fn base_file(&self) -> Option<&Path> {
        self.base.as_deref().or_else(|| self.file())
    }

    /// The directory that relative paths are resolved against.
    pub fn folder(&self) -> PathBuf {
        let parent = self.base_file().and_then(Path::parent);
        match parent {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        }
    }

    pub(crate) fn transcript_folder(&self) -> PathBuf {
        self.payloads.clone().unwrap_or_else(|| self.folder())
    }
}
