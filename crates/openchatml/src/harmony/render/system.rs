//! The content of system and developer messages, by field.

use std::collections::BTreeMap;

use super::tools::ToolNamespace;

/// The reasoning effort of the model. The format closes the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReasoningEffort {
    /// `low`
    Low,
    /// `medium`
    #[default]
    Medium,
    /// `high`
    High,
}

impl ReasoningEffort {
    /// The word in the prompt.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// The content of a system message. Fields that are `None` or empty are not written.
///
/// ```
/// use openchatml::harmony::{RenderMessage, RenderOptions, SystemContent};
///
/// let system = RenderMessage::system(SystemContent::default().with_current_date("2025-06-28"));
/// assert_eq!(
///     system.to_text(false, &RenderOptions::default())?,
///     "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n\
///      Knowledge cutoff: 2024-06\n\
///      Current date: 2025-06-28\n\n\
///      Reasoning: medium\n\n\u{23} Valid channels: analysis, commentary, final. Channel must be included for every message.<|end|>",
/// );
/// # Ok::<(), openchatml::harmony::RenderError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SystemContent {
    /// The identity of the model.
    pub model_identity: Option<String>,
    /// Until when it knows things.
    pub knowledge_cutoff: Option<String>,
    /// Today.
    pub current_date: Option<String>,
    /// The reasoning effort.
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Built-in tools; namespaces are written in the order of their keys.
    pub tools: BTreeMap<String, ToolNamespace>,
    /// The channels that it may use. None: channels are not mentioned.
    pub valid_channels: Vec<String>,
    /// Whether every message needs a channel.
    pub channel_required: bool,
}

impl SystemContent {
    /// A content that says nothing.
    pub const fn empty() -> Self {
        Self {
            model_identity: None,
            knowledge_cutoff: None,
            current_date: None,
            reasoning_effort: None,
            tools: BTreeMap::new(),
            valid_channels: Vec::new(),
            channel_required: false,
        }
    }

    /// Sets the identity.
    #[must_use]
    pub fn with_model_identity(mut self, identity: impl Into<String>) -> Self {
        self.model_identity = Some(identity.into());
        self
    }

    /// Sets the knowledge cutoff.
    #[must_use]
    pub fn with_knowledge_cutoff(mut self, cutoff: impl Into<String>) -> Self {
        self.knowledge_cutoff = Some(cutoff.into());
        self
    }

    /// Sets the current date.
    #[must_use]
    pub fn with_current_date(mut self, date: impl Into<String>) -> Self {
        self.current_date = Some(date.into());
        self
    }

    /// Sets the effort.
    #[must_use]
    pub const fn with_reasoning_effort(mut self, effort: ReasoningEffort) -> Self {
        self.reasoning_effort = Some(effort);
        self
    }

    /// Adds a namespace of tools, or replaces the one of its name.
    #[must_use]
    pub fn with_tools(mut self, namespace: ToolNamespace) -> Self {
        self.tools.insert(namespace.name.clone(), namespace);
        self
    }

    /// Sets the channels, of which every message needs one.
    #[must_use]
    pub fn with_required_channels(
        mut self,
        channels: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        self.valid_channels = channels.into_iter().map(Into::into).collect();
        self.channel_required = true;
        self
    }
}

impl Default for SystemContent {
    /// The default prompt of models of this format; no date, no tools.
    fn default() -> Self {
        Self::empty()
            .with_model_identity("You are ChatGPT, a large language model trained by OpenAI.")
            .with_knowledge_cutoff("2024-06")
            .with_reasoning_effort(ReasoningEffort::Medium)
            .with_required_channels(["analysis", "commentary", "final"])
    }
}

/// The content of a developer message. Fields that are `None` or empty are not written.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct DeveloperContent {
    /// The instructions.
    pub instructions: Option<String>,
    /// Tools; namespaces are written in the order of their keys.
    pub tools: BTreeMap<String, ToolNamespace>,
}

impl DeveloperContent {
    /// Instructions without tools.
    pub fn new(instructions: impl Into<String>) -> Self {
        Self {
            instructions: Some(instructions.into()),
            tools: BTreeMap::new(),
        }
    }

    /// Adds a namespace of tools, or replaces the one of its name.
    #[must_use]
    pub fn with_tools(mut self, namespace: ToolNamespace) -> Self {
        self.tools.insert(namespace.name.clone(), namespace);
        self
    }

    /// Returns whether there is a function to call.
    pub(super) fn has_functions(&self) -> bool {
        let functions = self.tools.get(ToolNamespace::FUNCTIONS);
        functions.is_some_and(|namespace| !namespace.functions.is_empty())
    }
}
