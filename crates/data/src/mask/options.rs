//! Options of masks.

use openchatml::harmony::ReasoningEffort;

use super::marks::MarkKeys;
use super::span::{Classes, TrainedRoles};

/// The form in which rows are rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MaskForm {
    /// Harmony, the format of gpt-oss.
    Harmony,
    /// OpenChatML 2.2.
    OpenChatMl,
    /// Plain `ChatML`.
    ChatMl,
}

/// The shape of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowShape {
    /// That of openai-harmony if a message has a channel, recipient or typed content.
    #[default]
    Auto,
    /// Messages of Chat Completions or of data sets.
    Chat,
    /// Messages of openai-harmony, rendered as written.
    Harmony,
}

/// The reasoning that is rendered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReasoningPolicy {
    /// All.
    Keep,
    /// Without that of turns before the last one, which a model does not receive again.
    #[default]
    DropFinished,
    /// The rule of openai-harmony: without that before the first final answer.
    DropBeforeFirstFinal,
    /// None.
    Drop,
}

/// The treatment of rows that are too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Truncation {
    /// They are refused.
    #[default]
    Refuse,
    /// Tokens at the end are removed.
    Right,
    /// Tokens at the beginning are removed.
    Left,
}

/// Options of a [`Masker`](super::Masker).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MaskOptions {
    /// The form in which rows are rendered.
    pub form: MaskForm,
    /// The shape of the rows.
    pub shape: RowShape,
    /// The trained classes of the assistant.
    pub classes: Classes,
    /// The trained roles.
    pub roles: TrainedRoles,
    /// The keys of rows that mark what is trained.
    pub marks: MarkKeys,
    /// The reasoning that is rendered.
    pub reasoning: ReasoningPolicy,
    /// Whether messages are trained whose reasoning in the same turn was left out.
    pub train_without_reasoning: bool,
    /// Whether messages after the last trained one are left out.
    pub drop_trailing: bool,
    /// Whether rows pass whose last trained message has no trained stop token.
    pub allow_untrained_stop: bool,
    /// The maximum number of tokens.
    pub max_tokens: Option<usize>,
    /// The treatment of rows that are longer.
    pub truncation: Truncation,
    /// The reasoning effort in the system message that Harmony requires and chat rows lack.
    pub effort: ReasoningEffort,
    /// The date in that message. The day of the run is never used.
    pub date: Option<String>,
}

impl MaskOptions {
    /// Creates the default options of a form.
    pub fn new(form: MaskForm) -> Self {
        Self {
            form,
            shape: RowShape::default(),
            classes: Classes::ASSISTANT,
            roles: TrainedRoles::ASSISTANT,
            marks: MarkKeys::default(),
            reasoning: ReasoningPolicy::default(),
            train_without_reasoning: false,
            drop_trailing: false,
            allow_untrained_stop: false,
            max_tokens: None,
            truncation: Truncation::default(),
            effort: ReasoningEffort::default(),
            date: None,
        }
    }
}
