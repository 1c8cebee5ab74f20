//! Encoding of a request as a Harmony prompt.
//!
//! The instructions of the conversation and the tools become one developer message at the beginning.
//! The system message is that of the format (identity, effort, channels, built-in tools). Nothing
//! raises the rank of an instruction: a `system` message of the conversation becomes a developer
//! message, unless it is a Harmony system message. Each reply follows its call, because the format has
//! no ids.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use logue_message::{ChatMessage, Content, ContentBlock, Role as MessageRole, ToolDefinition};
use logue_o200k::SpecialSet;
use openchatml::convert::distinct_ids;
use openchatml::harmony::{
    Conversation, DeveloperContent, Form, FunctionTool, Reasoning, ReasoningEffort, RenderError,
    RenderMessage, RenderOptions, Renderer, SystemContent, ToolNamespace,
};
use openchatml::{
    ControlToken, FrameBuf, FrameRole, Transcript, declare, frames_from_messages, recipient_of,
    tool_of,
};
use serde_json::Value;

use crate::{Category, ModelRequest, ProviderError, ToolChoice};

/// The heading that identifies a Harmony system message.
const CHANNELS: &str = "# Valid channels:";
/// The heading at the beginning of a Harmony developer message.
const INSTRUCTIONS: &str = "# Instructions";
/// The heading of the tools that a Harmony developer message declares.
const TOOLS: &str = "# Tools\n";

/// Parts of a Harmony prompt that a request does not have.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HarmonyPromptOptions {
    /// The extent; by default a prompt for the next message of the assistant.
    pub form: Form,
    /// The reasoning that is left out.
    pub reasoning: Reasoning,
    /// The identity in the system message; `None` for that of the format.
    pub identity: Option<String>,
    /// The current date in the system message.
    pub date: Option<String>,
    /// Whether the tools that the conversation declares are offered.
    pub declared_tools: bool,
}

impl Default for HarmonyPromptOptions {
    fn default() -> Self {
        Self {
            form: Form::Completion(FrameRole::Assistant),
            reasoning: Reasoning::default(),
            identity: None,
            date: None,
            declared_tools: false,
        }
    }
}

/// The Harmony prompt of a request, before rendering.
///
/// It is the prompt that the provider `harmony:` sends.
///
/// ```
/// use logue_message::ChatMessage;
/// use logue_model::{HarmonyPrompt, HarmonyPromptOptions, ModelRequest, SamplingSettings};
///
/// let messages = [ChatMessage::user("Hello.")];
/// let settings = SamplingSettings::default();
/// let request = ModelRequest::new("gpt-oss-20b", &messages, &settings);
/// let text = HarmonyPrompt::new(&request, &HarmonyPromptOptions::default())?.text()?;
/// assert!(text.contains("# Valid channels: analysis, commentary, final."));
/// assert!(text.ends_with("<|start|>user<|message|>Hello.<|end|><|start|>assistant"));
/// # Ok::<(), logue_model::ProviderError>(())
/// ```
#[derive(Debug)]
pub struct HarmonyPrompt {
    system: RenderMessage,
    conversation: Conversation,
    form: Form,
    options: RenderOptions,
    /// Whether the developer message declares functions.
    ///
    /// The system message then mentions them.
    has_functions: bool,
    /// The beginning of the response that the request requires, in control tokens and text.
    opening: String,
}

impl HarmonyPrompt {
    /// Creates the prompt of a request.
    ///
    /// # Errors
    /// Returns an error if the format cannot represent the conversation.
    pub fn new(
        request: &ModelRequest<'_>,
        options: &HarmonyPromptOptions,
    ) -> Result<Self, ProviderError> {
        let messages = without_tool_images(request.messages);
        let request = &ModelRequest {
            messages: &messages,
            ..*request
        };
        request.messages.iter().try_for_each(only_text)?;
        let offered = match request.tool_choice {
            ToolChoice::None => &[],
            _ => request.tools,
        };
        let opening = opening(request.tool_choice, offered)?;
        let (system, remaining) = match request.messages.split_first() {
            Some((first, remaining)) if is_harmony_system(first) => (
                RenderMessage::new(FrameRole::System, first.text().as_str()),
                remaining,
            ),
            _ => (
                RenderMessage::system(system_content(request, offered, options)?),
                request.messages,
            ),
        };
        let first_turn = remaining
            .iter()
            .position(|message| message.role != MessageRole::System);
        let (instructions, turns) = remaining.split_at(first_turn.unwrap_or(remaining.len()));
        let (mut messages, has_functions) =
            developer_messages(instructions, offered, request.response_schema, options);
        messages.extend(turn_messages(turns));
        Ok(Self {
            system,
            conversation: Conversation::new(messages),
            form: options.form,
            options: RenderOptions::default().with_reasoning(options.reasoning),
            has_functions,
            opening,
        })
    }

    /// Returns the beginning of the response at the end of the prompt.
    pub(super) fn opening(&self) -> &str {
        &self.opening
    }

    /// Renders the prompt as token ids of `o200k_harmony`.
    ///
    /// # Errors
    /// Returns an error if a header of a message is not writable.
    pub fn ids(&self) -> Result<Vec<u32>, ProviderError> {
        let mut renderer = Renderer::new();
        let mut ids = Vec::new();
        renderer
            .append_message(&self.system, self.has_functions, &self.options, &mut ids)
            .map_err(|error| render_error(&error))?;
        renderer
            .append(&self.conversation, self.form, &self.options, &mut ids)
            .map_err(|error| render_error(&error))?;
        let opening = logue_o200k::encode_with_specials(&self.opening, &SpecialSet::HARMONY);
        ids.extend(opening);
        Ok(ids)
    }

    /// Renders the prompt as text.
    ///
    /// # Errors
    /// Returns an error if the conversation contains a control token, which the server would
    /// interpret.
    pub fn text(&self) -> Result<String, ProviderError> {
        let mut text = self
            .system
            .to_text(self.has_functions, &self.options)
            .map_err(|error| render_error(&error))?;
        let turns = self.conversation.to_text(self.form, &self.options);
        text.push_str(&turns.map_err(|error| render_error(&error))?);
        // The renderer rejects the tokens of the envelope; servers interpret these as well.
        for token in ["<|startoftext|>", "<|endoftext|>", "<|reserved_"] {
            if text.contains(token) {
                let message = format!(
                    "the conversation contains `{token}…`, which the server would interpret as a token"
                );
                return Err(
                    ProviderError::new(Category::InvalidRequest, message).with_help(SEND_IDS)
                );
            }
        }
        text.push_str(&self.opening);
        Ok(text)
    }
}

const SEND_IDS: &str = "set `prompt = \"ids\"` under [model.harmony] in logue.toml, and use a server \
    that accepts token ids, such as vLLM or llama.cpp";

fn render_error(error: &RenderError) -> ProviderError {
    let help = match error {
        RenderError::ControlToken { .. } | RenderError::BracketAtEnd { .. } => SEND_IDS,
        _ => "correct the conversation; the name of a tool or participant is one word",
    };
    let message = format!("cannot render the conversation: {error}");
    ProviderError::new(Category::InvalidRequest, message)
        .with_help(help)
        .without_quotes()
}

/// Replaces the images of tool results by a note.
fn without_tool_images(messages: &[ChatMessage]) -> Cow<'_, [ChatMessage]> {
    let has_image =
        |message: &ChatMessage| message.role == MessageRole::Tool && message.content.has_image();
    if !messages.iter().any(has_image) {
        return Cow::Borrowed(messages);
    }
    let mut messages = messages.to_vec();
    for message in messages.iter_mut().filter(|message| has_image(message)) {
        let count = message.content.remove_images();
        let mut text = message.text();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&image_note(count));
        message.content = Content::Text(text);
    }
    Cow::Owned(messages)
}

fn image_note(count: usize) -> String {
    let images = if count == 1 { "image" } else { "images" };
    format!("[{count} {images} not shown: this model takes no images]")
}

fn only_text(message: &ChatMessage) -> Result<(), ProviderError> {
    let Content::Blocks(blocks) = &message.content else {
        return Ok(());
    };
    let is_supported = |block: &ContentBlock| {
        matches!(
            block,
            ContentBlock::Text { .. }
                | ContentBlock::Thinking { .. }
                | ContentBlock::RedactedThinking { .. }
        )
    };
    if blocks.iter().all(is_supported) {
        return Ok(());
    }
    Err(ProviderError::new(
        Category::UnsupportedContentBlock,
        "a gpt-oss model supports only text",
    )
    .without_quotes()
    .with_help("remove the images, or use a model that supports them"))
}

fn is_harmony_system(message: &ChatMessage) -> bool {
    message.role == MessageRole::System && !message.developer && message.text().contains(CHANNELS)
}

/// Returns the system message of the format.
fn system_content(
    request: &ModelRequest<'_>,
    offered: &[ToolDefinition],
    options: &HarmonyPromptOptions,
) -> Result<SystemContent, ProviderError> {
    let effort = match request.settings.reasoning_effort.as_deref() {
        None | Some("medium") => ReasoningEffort::Medium,
        Some("low") => ReasoningEffort::Low,
        Some("high") => ReasoningEffort::High,
        Some(other) => {
            let message = format!("invalid reasoning effort {other:?} for a gpt-oss model");
            return Err(ProviderError::new(Category::InvalidRequest, message)
                .without_quotes()
                .with_help("use low, medium or high"));
        }
    };
    let mut content = SystemContent::default().with_reasoning_effort(effort);
    if let Some(identity) = &options.identity {
        content = content.with_model_identity(identity);
    }
    if let Some(date) = &options.date {
        content = content.with_current_date(date);
    }
    let names: BTreeSet<&str> = offered.iter().map(|tool| tool.name.as_str()).collect();
    let mut browser = ToolNamespace::browser();
    browser
        .functions
        .retain(|function| names.contains(format!("browser.{}", function.name).as_str()));
    if !browser.functions.is_empty() {
        content = content.with_tools(browser);
    }
    if names.contains("python") {
        content = content.with_tools(ToolNamespace::python());
    }
    Ok(content)
}

/// Returns the developer messages and whether they declare functions.
fn developer_messages(
    instructions: &[ChatMessage],
    offered: &[ToolDefinition],
    schema: Option<&Value>,
    options: &HarmonyPromptOptions,
) -> (Vec<RenderMessage>, bool) {
    let texts: Vec<String> = instructions.iter().map(ChatMessage::text).collect();
    let is_harmony = texts.iter().any(|text| is_harmony_developer(text));
    let declared = declare::read(&texts.join("\n"));
    let functions: Vec<FunctionTool> = offered
        .iter()
        .filter(|tool| recipient_of(&tool.name) != tool.name)
        .filter(|tool| declared.tool(&recipient_of(&tool.name)).is_none())
        .map(function)
        .collect();
    let has_functions = !functions.is_empty()
        || ((options.declared_tools || !offered.is_empty())
            && declared.tools().iter().any(|tool| !tool.name.is_empty()));
    let mut messages = Vec::new();
    let mut text = None;
    if is_harmony {
        // The message has the trained layout and must not change by a byte.
        messages.extend(
            with_one_tools_section(texts)
                .iter()
                .map(|text| RenderMessage::developer(text.as_str())),
        );
    } else if !texts.is_empty() {
        text = Some(texts.join("\n\n"));
    }
    if let Some(schema) = schema {
        let format = format!("# Response Formats\n\n## answer\n\n{schema}");
        text = Some(text.map_or_else(|| format.clone(), |text| format!("{text}\n\n{format}")));
    }
    let mut content = DeveloperContent::default();
    content.instructions = text;
    if !functions.is_empty() {
        content = content.with_tools(ToolNamespace::functions(functions));
    }
    if content != DeveloperContent::default() {
        messages.push(RenderMessage::developer(content));
    }
    (messages, has_functions)
}

/// Joins plain instructions and sections of tools, as in the trained layout.
fn with_one_tools_section(texts: Vec<String>) -> Vec<String> {
    let is_section = |text: &String| text.starts_with(TOOLS);
    let is_plain = |text: &String| !is_harmony_developer(text);
    let is_joined = texts.iter().any(is_plain)
        && texts.iter().any(is_section)
        && texts.iter().all(|text| is_plain(text) || is_section(text));
    if !is_joined {
        return texts;
    }
    let (sections, plain): (Vec<_>, Vec<_>) = texts.into_iter().partition(is_section);
    let (plain, sections) = (plain.join("\n\n"), sections.join("\n\n"));
    vec![format!("{INSTRUCTIONS}\n\n{plain}\n\n{sections}")]
}

fn is_harmony_developer(text: &str) -> bool {
    text.starts_with(INSTRUCTIONS) || text.contains("\nnamespace functions {")
}

fn function(tool: &ToolDefinition) -> FunctionTool {
    let parameters = tool.provider_parameters();
    let properties = parameters.get("properties");
    let is_empty =
        properties.is_none_or(|all| all.as_object().is_some_and(serde_json::Map::is_empty));
    let parameters = (!is_empty).then_some(parameters);
    FunctionTool::new(tool.name.as_str(), tool.description.as_str(), parameters)
}

/// Returns the messages after the instructions.
fn turn_messages(messages: &[ChatMessage]) -> Vec<RenderMessage> {
    // Frames keep all text and calls; the format has neither ids nor signatures.
    let (frames, _) = frames_from_messages(messages);
    let transcript = Transcript::new(frames);
    let (transcript, _) = distinct_ids(&transcript);
    let frames = replies_after_calls(transcript.into_owned().frames);
    let (conversation, _) = Conversation::from_transcript(&Transcript::new(frames));
    let mut messages = conversation.messages;
    for message in &mut messages {
        match message.role {
            FrameRole::System | FrameRole::Developer => {
                message.role = FrameRole::Developer;
                for part in &mut message.content {
                    if let openchatml::harmony::Content::Text(text) = part
                        && !is_harmony_developer(text)
                    {
                        *part = DeveloperContent::new(std::mem::take(text)).into();
                    }
                }
            }
            FrameRole::Assistant | FrameRole::Tool => use_analysis_channel(message),
            _ => {}
        }
    }
    messages
}

/// Moves traffic with built-in tools to the analysis channel, as in the training data.
fn use_analysis_channel(message: &mut RenderMessage) {
    let tool = match message.role {
        FrameRole::Tool => message.name.as_deref(),
        _ => message.recipient.as_deref(),
    };
    let Some(tool) = tool.filter(|tool| recipient_of(tool_of(tool)) == tool_of(tool)) else {
        return;
    };
    if message.role == FrameRole::Assistant && tool == "python" {
        message.content_type = Some("code".to_owned());
    }
    message.channel = Some("analysis".to_owned());
}

/// Moves each reply immediately after its call.
fn replies_after_calls(frames: Vec<FrameBuf>) -> Vec<FrameBuf> {
    let mut ordered: Vec<FrameBuf> = Vec::with_capacity(frames.len());
    let mut frames = frames.into_iter().peekable();
    while let Some(frame) = frames.next() {
        if frame.role != FrameRole::Assistant || !frame.is_call() {
            ordered.push(frame);
            continue;
        }
        let mut calls = vec![frame];
        while let Some(call) = frames.next_if(FrameBuf::is_call) {
            calls.push(call);
        }
        let mut replies = Vec::new();
        let mut by_id: BTreeMap<Option<String>, VecDeque<usize>> = BTreeMap::new();
        while let Some(reply) = frames.next_if(|next| next.role == FrameRole::Tool) {
            let places = by_id.entry(reply.call_id.clone()).or_default();
            places.push_back(replies.len());
            replies.push(Some(reply));
        }
        for call in calls {
            let place = by_id.get_mut(&call.call_id).and_then(VecDeque::pop_front);
            ordered.push(call);
            let reply = place.and_then(|place| replies.get_mut(place));
            ordered.extend(reply.and_then(Option::take));
        }
        ordered.extend(replies.into_iter().flatten());
    }
    ordered
}

/// Returns the beginning of a response that must call a tool.
fn opening(choice: &ToolChoice, offered: &[ToolDefinition]) -> Result<String, ProviderError> {
    let (channel, constrain, message) = (
        ControlToken::Channel,
        ControlToken::Constrain,
        ControlToken::Message,
    );
    Ok(match choice {
        ToolChoice::Auto | ToolChoice::None => String::new(),
        ToolChoice::Required => {
            let has_builtin = offered
                .iter()
                .any(|tool| recipient_of(&tool.name) == tool.name);
            let namespace = if has_builtin { "" } else { "=functions" };
            format!("{channel}commentary to{namespace}")
        }
        ToolChoice::Tool(name) => {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
            if name.is_empty() || !name.chars().all(is_plain) {
                let message = format!("invalid tool name {name:?} in the tool choice");
                return Err(ProviderError::new(Category::InvalidRequest, message)
                    .without_quotes()
                    .with_help("use letters, digits, `_`, `-` and `.`"));
            }
            let to = recipient_of(name);
            if name == "python" {
                format!("{channel}analysis to={to} code{message}")
            } else {
                format!("{channel}commentary to={to} {constrain}json{message}")
            }
        }
    })
}
