//! What a server wants of a request, as data.
//!
//! Servers of one wire format differ in what they accept. Each difference is a field of [`Rules`],
//! each kind of server a value of it, and nothing else in this crate asks which server it speaks to.

/// What one kind of server wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(
    clippy::struct_excessive_bools,
    reason = "a table of independent differences"
)]
pub struct Rules {
    /// The name that telemetry knows the server by (`gen_ai.provider.name`).
    pub name: &'static str,
    /// Whether it knows the role `developer`; if not, such a message is one of `system`.
    pub developer: bool,
    /// Where instructions may stand.
    pub system: SystemPlace,
    /// Whether adjacent messages of one role become one: some servers refuse two in a row.
    pub merge: bool,
    /// Whether the first message behind the instructions has to be the user's.
    pub begins_with_user: bool,
    /// Whether text of nothing but white space may be sent.
    pub blank_text: bool,
    /// Whether a participant's name may be sent.
    pub names: bool,
    /// Which earlier reasoning is sent again.
    pub replay: ReasoningReplay,
    /// What reasoning must have to be sent again.
    pub proof: Proof,
    /// Whether arguments that are no JSON object are put into one.
    pub wrap_arguments: bool,
    /// Whether calls with free text are known; if not, the text becomes an argument `input`.
    pub custom_calls: bool,
    /// Whether ids of calls may hold only ASCII letters, digits, `_` and `-`.
    pub plain_ids: bool,
    /// What can be said of which tools are to be called.
    pub choices: Choices,
    /// How an answer is held to a schema.
    pub schema: SchemaBy,
    /// Whether a tool may be marked as strict.
    pub strict_tools: bool,
    /// The settings of the sampling that the server has, and its names for them.
    pub settings: &'static [(&'static str, &'static str)],
    /// How the model is told how long to think.
    pub effort: Effort,
    /// The field that limits the answer.
    pub max_tokens_field: &'static str,
    /// The limit where nobody sets one and the server wants one.
    pub max_tokens: Option<u64>,
    /// The field of a message that reasoning is sent back in, where it is a field.
    pub reasoning_field: Option<&'static str>,
    /// Whether a stream has to be asked for its accounting (`stream_options`).
    pub stream_usage: bool,
}

/// Where instructions may stand in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SystemPlace {
    /// Anywhere.
    Anywhere,
    /// In one message before all others, where later ones are added: strict chat templates refuse
    /// any other.
    First,
}

/// Which earlier reasoning is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReasoningReplay {
    /// None.
    Never,
    /// That since the user spoke last: of the turn that the request goes on with, while its calls are
    /// answered.
    SinceLastUser,
    /// All of it.
    Always,
}

/// What reasoning must have to be sent again; what lacks it is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Proof {
    /// Text.
    Text,
    /// A signature and no id, or redacted data: reasoning of Anthropic Messages.
    Signature,
    /// An id and encrypted content (kept as the signature): reasoning items of OpenAI.
    Encrypted,
    /// An id: reasoning items of any server with Responses.
    Item,
}

/// What can be said of which tools are to be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Choices {
    /// Everything that [`ToolChoice`](crate::ToolChoice) can say.
    All,
    /// `auto`, `none` and `required`. A named tool is required by offering no other.
    Words,
    /// Nothing. No tool is to be called where none is offered; more cannot be asked for.
    Nothing,
}

/// How an answer is held to a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaBy {
    /// The server holds the answer to the schema.
    Schema,
    /// The server holds the answer to JSON; an instruction tells the schema.
    JsonObject,
    /// A tool that takes the answer, and that must be called where no other is. While the model
    /// thinks no tool can be forced, so then an instruction tells the schema.
    AnswerTool,
}

/// How a model is told how long to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effort {
    /// `reasoning_effort`.
    Field,
    /// `reasoning: {"effort": …}`.
    Object,
    /// `thinking` and `output_config: {"effort": …}`; `none` turns thinking off.
    Thinking,
}

impl Rules {
    /// `api.openai.com`, Chat Completions.
    pub const OPENAI: Self = Self {
        name: "openai",
        developer: true,
        system: SystemPlace::Anywhere,
        merge: false,
        begins_with_user: false,
        blank_text: true,
        names: true,
        replay: ReasoningReplay::Never,
        proof: Proof::Text,
        wrap_arguments: false,
        custom_calls: true,
        plain_ids: false,
        choices: Choices::All,
        schema: SchemaBy::Schema,
        strict_tools: true,
        settings: &[
            ("temperature", "temperature"),
            ("top_p", "top_p"),
            ("seed", "seed"),
            ("frequency_penalty", "frequency_penalty"),
            ("presence_penalty", "presence_penalty"),
            ("stop", "stop"),
        ],
        effort: Effort::Field,
        max_tokens_field: "max_completion_tokens",
        max_tokens: None,
        reasoning_field: None,
        stream_usage: true,
    };

    /// A server that speaks Chat Completions and of which nothing else is known. Reasoning that it
    /// sent itself is sent back in the turn that it belongs to: a server that has none gets none.
    pub const COMPATIBLE: Self = Self {
        name: "openai_compatible",
        developer: false,
        merge: true,
        replay: ReasoningReplay::SinceLastUser,
        wrap_arguments: true,
        custom_calls: false,
        max_tokens_field: "max_tokens",
        reasoning_field: Some("reasoning_content"),
        ..Self::OPENAI
    };

    /// vLLM: templates of the models decide, and strict ones want one system message at the top.
    pub const VLLM: Self = Self {
        name: "vllm",
        system: SystemPlace::First,
        reasoning_field: Some("reasoning"),
        ..Self::COMPATIBLE
    };

    /// The server of llama.cpp.
    pub const LLAMA_CPP: Self = Self {
        name: "llama.cpp",
        system: SystemPlace::First,
        choices: Choices::Words,
        strict_tools: false,
        ..Self::COMPATIBLE
    };

    /// Ollama's `/v1`.
    pub const OLLAMA: Self = Self {
        name: "ollama",
        names: false,
        choices: Choices::Nothing,
        strict_tools: false,
        reasoning_field: Some("reasoning"),
        ..Self::COMPATIBLE
    };

    /// `api.deepseek.com`: refuses a result of a tool without the reasoning before its call.
    pub const DEEPSEEK: Self = Self {
        name: "deepseek",
        schema: SchemaBy::JsonObject,
        strict_tools: false,
        ..Self::COMPATIBLE
    };

    /// `openrouter.ai`.
    pub const OPENROUTER: Self = Self {
        name: "openrouter",
        reasoning_field: Some("reasoning"),
        effort: Effort::Object,
        ..Self::COMPATIBLE
    };

    /// `api.openai.com`, Responses.
    pub const RESPONSES: Self = Self {
        replay: ReasoningReplay::Always,
        proof: Proof::Encrypted,
        names: false,
        settings: &[("temperature", "temperature"), ("top_p", "top_p")],
        effort: Effort::Object,
        max_tokens_field: "max_output_tokens",
        ..Self::OPENAI
    };

    /// Another server with Responses, such as vLLM's: reasoning is not encrypted there.
    pub const RESPONSES_COMPATIBLE: Self = Self {
        name: "openai_compatible",
        developer: false,
        merge: true,
        replay: ReasoningReplay::SinceLastUser,
        proof: Proof::Item,
        wrap_arguments: true,
        custom_calls: false,
        ..Self::RESPONSES
    };

    /// Anthropic Messages. The server drops what earlier reasoning it does not want.
    pub const ANTHROPIC: Self = Self {
        name: "anthropic",
        developer: false,
        system: SystemPlace::First,
        merge: true,
        begins_with_user: true,
        blank_text: false,
        names: false,
        replay: ReasoningReplay::Always,
        proof: Proof::Signature,
        wrap_arguments: true,
        custom_calls: false,
        plain_ids: true,
        choices: Choices::All,
        schema: SchemaBy::AnswerTool,
        strict_tools: true,
        settings: &[("stop", "stop_sequences")],
        effort: Effort::Thinking,
        max_tokens_field: "max_tokens",
        max_tokens: Some(16_384),
        reasoning_field: None,
        stream_usage: false,
    };
}
