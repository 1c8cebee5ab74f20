//! Capabilities and requirements of a server, as data.
//!
//! Servers of one wire format accept different requests. Each difference is a field of
//! [`ServerProfile`], and each kind of server is a value of it. Raw completion endpoints differ in more than
//! requests and have [`HarmonyServer`](crate::HarmonyServer); no other code distinguishes servers.

/// The capabilities and requirements of a kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(
    clippy::struct_excessive_bools,
    reason = "a table of independent differences"
)]
pub struct ServerProfile {
    /// The provider name for telemetry (`gen_ai.provider.name`).
    pub name: &'static str,
    /// Whether the server supports the role `developer`; `system` replaces it otherwise.
    pub supports_developer_role: bool,
    /// The permitted positions of instructions.
    pub system_placement: SystemPlacement,
    /// Whether adjacent messages of one role are merged; some servers reject them.
    pub merge_adjacent: bool,
    /// Whether the first message after the instructions must be a user message.
    pub requires_user_first: bool,
    /// Whether the server accepts text of only white space.
    pub accepts_blank_text: bool,
    /// Whether the server accepts names of participants.
    pub supports_names: bool,
    /// The earlier reasoning that is sent back.
    pub reasoning_replay: ReasoningReplay,
    /// The evidence that reasoning requires to be sent back.
    pub reasoning_evidence: ReasoningEvidence,
    /// Whether arguments that are not a JSON object are wrapped in one.
    pub wraps_plain_arguments: bool,
    /// Whether the server supports calls with free text.
    ///
    /// The text becomes the argument `input` otherwise.
    pub supports_custom_calls: bool,
    /// The place of images in tool results.
    pub tool_images: ToolImagePlacement,
    /// Whether call ids are restricted to ASCII letters, digits, `_` and `-`.
    pub requires_plain_ids: bool,
    /// The supported values of the tool choice.
    pub tool_choice: ToolChoiceSupport,
    /// The mechanism of structured output.
    pub structured_output: StructuredOutputMode,
    /// Whether the server accepts strict tools.
    pub supports_strict_tools: bool,
    /// The supported sampling settings and their names on the server.
    pub settings: &'static [(&'static str, &'static str)],
    /// The encoding of the reasoning effort.
    pub effort_encoding: EffortEncoding,
    /// The name of the field that limits the response.
    pub max_tokens_field: &'static str,
    /// The default limit, if the server requires one.
    pub max_tokens: Option<u64>,
    /// The message field in which reasoning is sent back, if the format uses one.
    pub reasoning_field: Option<&'static str>,
    /// Whether a stream reports usage only on request (`stream_options`).
    pub requests_stream_usage: bool,
}

/// The permitted positions of instructions in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SystemPlacement {
    /// Instructions may occur anywhere.
    Anywhere,
    /// Instructions form one message before all others, because strict chat templates reject more.
    First,
}

/// The place of images in tool results in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolImagePlacement {
    /// In the result.
    Result,
    /// In a user message after all results of a round, labelled by call.
    UserMessage,
}

/// The earlier reasoning that is sent back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReasoningReplay {
    /// No reasoning is sent back.
    Never,
    /// Reasoning since the last user message is sent back, while calls receive their results.
    SinceLastUser,
    /// All reasoning is sent back.
    Always,
}

/// The evidence that reasoning requires to be sent back; other reasoning is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReasoningEvidence {
    /// Text.
    Text,
    /// A signature and no id, or redacted data: reasoning of Anthropic Messages.
    Signature,
    /// An id and encrypted content (kept as the signature): reasoning items of OpenAI.
    Encrypted,
    /// An id: reasoning items of any server with Responses.
    Item,
}

/// The supported values of the tool choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolChoiceSupport {
    /// Every [`ToolChoice`](crate::ToolChoice).
    All,
    /// `auto`, `none` and `required`; a named tool is enforced by offering no other.
    Words,
    /// No value; tool calls are only prevented, by offering no tool.
    Nothing,
}

/// The mechanism that makes a response match a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StructuredOutputMode {
    /// The server enforces the schema.
    Schema,
    /// The server enforces JSON, and an instruction contains the schema.
    JsonObject,
    /// A tool receives the response and must be called unless the model calls another tool.
    ///
    /// A tool call cannot be required during reasoning; then an instruction contains the schema.
    AnswerTool,
}

/// The encoding of the reasoning effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EffortEncoding {
    /// `reasoning_effort`.
    Field,
    /// `reasoning: {"effort": …}`.
    Object,
    /// `thinking` and `output_config: {"effort": …}`; `none` disables reasoning.
    Thinking,
}

impl ServerProfile {
    /// `api.openai.com`, Chat Completions.
    pub const OPENAI: Self = Self {
        name: "openai",
        supports_developer_role: true,
        system_placement: SystemPlacement::Anywhere,
        merge_adjacent: false,
        requires_user_first: false,
        accepts_blank_text: true,
        supports_names: true,
        reasoning_replay: ReasoningReplay::Never,
        reasoning_evidence: ReasoningEvidence::Text,
        wraps_plain_arguments: false,
        supports_custom_calls: true,
        tool_images: ToolImagePlacement::UserMessage,
        requires_plain_ids: false,
        tool_choice: ToolChoiceSupport::All,
        structured_output: StructuredOutputMode::Schema,
        supports_strict_tools: true,
        settings: &[
            ("temperature", "temperature"),
            ("top_p", "top_p"),
            ("seed", "seed"),
            ("frequency_penalty", "frequency_penalty"),
            ("presence_penalty", "presence_penalty"),
            ("stop", "stop"),
        ],
        effort_encoding: EffortEncoding::Field,
        max_tokens_field: "max_completion_tokens",
        max_tokens: None,
        reasoning_field: None,
        requests_stream_usage: true,
    };

    /// An unknown server with Chat Completions.
    ///
    /// Reasoning that the server sent is sent back within its turn.
    pub const COMPATIBLE: Self = Self {
        name: "openai_compatible",
        supports_developer_role: false,
        merge_adjacent: true,
        reasoning_replay: ReasoningReplay::SinceLastUser,
        wraps_plain_arguments: true,
        supports_custom_calls: false,
        max_tokens_field: "max_tokens",
        reasoning_field: Some("reasoning_content"),
        ..Self::OPENAI
    };

    /// vLLM, whose strict chat templates require one system message at the beginning.
    pub const VLLM: Self = Self {
        name: "vllm",
        system_placement: SystemPlacement::First,
        reasoning_field: Some("reasoning"),
        ..Self::COMPATIBLE
    };

    /// llama.cpp.
    pub const LLAMA_CPP: Self = Self {
        name: "llama.cpp",
        system_placement: SystemPlacement::First,
        tool_choice: ToolChoiceSupport::Words,
        supports_strict_tools: false,
        ..Self::COMPATIBLE
    };

    /// Ollama with `/v1`.
    pub const OLLAMA: Self = Self {
        name: "ollama",
        supports_names: false,
        tool_choice: ToolChoiceSupport::Nothing,
        supports_strict_tools: false,
        reasoning_field: Some("reasoning"),
        ..Self::COMPATIBLE
    };

    /// `api.deepseek.com`, which rejects a tool result without the reasoning before its call.
    pub const DEEPSEEK: Self = Self {
        name: "deepseek",
        structured_output: StructuredOutputMode::JsonObject,
        supports_strict_tools: false,
        ..Self::COMPATIBLE
    };

    /// `openrouter.ai`.
    pub const OPENROUTER: Self = Self {
        name: "openrouter",
        reasoning_field: Some("reasoning"),
        effort_encoding: EffortEncoding::Object,
        ..Self::COMPATIBLE
    };

    /// `api.openai.com`, Responses.
    pub const RESPONSES: Self = Self {
        tool_images: ToolImagePlacement::Result,
        reasoning_replay: ReasoningReplay::Always,
        reasoning_evidence: ReasoningEvidence::Encrypted,
        supports_names: false,
        settings: &[("temperature", "temperature"), ("top_p", "top_p")],
        effort_encoding: EffortEncoding::Object,
        max_tokens_field: "max_output_tokens",
        ..Self::OPENAI
    };

    /// Another server with Responses, such as vLLM, without encrypted reasoning.
    pub const RESPONSES_COMPATIBLE: Self = Self {
        name: "openai_compatible",
        supports_developer_role: false,
        merge_adjacent: true,
        reasoning_replay: ReasoningReplay::SinceLastUser,
        reasoning_evidence: ReasoningEvidence::Item,
        wraps_plain_arguments: true,
        supports_custom_calls: false,
        ..Self::RESPONSES
    };

    /// Anthropic Messages; the server ignores irrelevant earlier reasoning.
    pub const ANTHROPIC: Self = Self {
        name: "anthropic",
        supports_developer_role: false,
        system_placement: SystemPlacement::First,
        merge_adjacent: true,
        requires_user_first: true,
        accepts_blank_text: false,
        supports_names: false,
        reasoning_replay: ReasoningReplay::Always,
        reasoning_evidence: ReasoningEvidence::Signature,
        wraps_plain_arguments: true,
        supports_custom_calls: false,
        tool_images: ToolImagePlacement::Result,
        requires_plain_ids: true,
        tool_choice: ToolChoiceSupport::All,
        structured_output: StructuredOutputMode::AnswerTool,
        supports_strict_tools: true,
        settings: &[("stop", "stop_sequences")],
        effort_encoding: EffortEncoding::Thinking,
        max_tokens_field: "max_tokens",
        max_tokens: Some(16_384),
        reasoning_field: None,
        requests_stream_usage: false,
    };
}
