//! The conversation that a turn starts from.

use logue_message::{ChatMessage, Content, Role, repair_history};

use crate::prepare::error::PrepareError;
use crate::prepare::source::{History, PromptSource};
use crate::prompt::document::Prompt;
use crate::transcript::item::{TranscriptItem, undecided_text};
use crate::transcript::redaction::Redaction;

/// The messages of a turn, and the items that its transcript lacks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Conversation {
    pub(crate) messages: Vec<ChatMessage>,
    /// Results of interrupted calls, and the user's message.
    pub(crate) additions: Vec<TranscriptItem>,
}

impl Conversation {
    /// The conversation of a prompt; it ends with a message that a model can answer.
    pub(crate) fn from_prompt(
        prompt: &Prompt,
        source: &PromptSource,
        redaction: &Redaction,
    ) -> Result<Self, PrepareError> {
        let History::Prompt { message } = &source.history else {
            return Ok(Self::default());
        };
        let recorded = prompt.variables.unrecorded.iter();
        let recorded = recorded.map(|(name, value)| TranscriptItem::Variable {
            name: name.clone(),
            value: value.clone(),
        });
        let mut additions: Vec<TranscriptItem> = recorded.collect();
        additions.extend(
            prompt
                .unanswered_calls()
                .into_iter()
                .map(|item| match item {
                    TranscriptItem::ToolResponse { call, .. }
                        if source.undecided.contains(&call.id) =>
                    {
                        let text = undecided_text(prompt.is_openchatml());
                        TranscriptItem::ToolResponse {
                            call,
                            text,
                            images: Vec::new(),
                        }
                    }
                    item => item,
                }),
        );
        let mut messages = prompt.messages.clone();
        messages.extend(additions.iter().filter_map(TranscriptItem::to_message));
        // A result belongs to its call, and the call stays where the file has it.
        let (mut messages, _) = repair_history(messages);
        match message {
            None => require_results(prompt, &source.name)?,
            Some(message) if is_repeated(message, unanswered(&messages), redaction) => {
                if let Some(at) = messages.iter().rposition(|one| !one.interrupted) {
                    message.clone_into(&mut messages[at]);
                }
            }
            Some(message) => {
                messages.push(message.clone());
                additions.push(TranscriptItem::User(message.text()));
            }
        }
        require_input(&messages)?;
        Ok(Self {
            messages,
            additions,
        })
    }
}

/// Returns the last message; an interrupted answer answers nothing.
fn unanswered(messages: &[ChatMessage]) -> Option<&ChatMessage> {
    messages.iter().rfind(|message| !message.interrupted)
}

/// Returns whether the transcript already ends with this message: the turn failed and is repeated.
/// The transcript may contain placeholders for redacted text.
fn is_repeated(message: &ChatMessage, last: Option<&ChatMessage>, redaction: &Redaction) -> bool {
    let Content::Text(text) = &message.content else {
        return false;
    };
    let written = ChatMessage::user(redaction.text(text).into_owned());
    last == Some(&written)
}

/// Refuses a transcript without the result of a function that only callers run.
fn require_results(prompt: &Prompt, name: &str) -> Result<(), PrepareError> {
    match prompt.waiting_calls().into_iter().next() {
        None => Ok(()),
        Some((call_id, tool)) => Err(PrepareError::ResultRequired {
            name: name.to_owned(),
            call_id,
            tool,
        }),
    }
}

/// Refuses a conversation whose last message is not of the user or a tool.
fn require_input(messages: &[ChatMessage]) -> Result<(), PrepareError> {
    match unanswered(messages).map(|message| message.role) {
        Some(Role::User | Role::Tool) => Ok(()),
        last => Err(PrepareError::NoInput {
            is_answered: last == Some(Role::Assistant),
        }),
    }
}
