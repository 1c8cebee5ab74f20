//! A request as the prompt that a model of this format was trained on.
//!
//! The conversation's instructions become one developer message in front, with the tools; the system
//! message is the format's own (identity, effort, channels, built-in tools). Nothing raises authority:
//! what a program calls `system` is the developer's here, unless it is a system message of this very
//! format. A call and its reply stand side by side, because the format has no ids.

use std::collections::BTreeSet;

use logue_message::{ChatMessage, Content, ContentBlock, Role as Speaker, ToolDefinition};
use logue_o200k::SpecialSet;
use openchatml::harmony::{
    Conversation, DeveloperContent, Form, FunctionTool, ReasoningEffort, RenderError,
    RenderMessage, RenderOptions, Renderer, SystemContent, ToolNamespace,
};
use openchatml::{
    ControlToken, FrameBuf, FrameRole, Transcript, declare, frames_from_messages, recipient_of,
    tool_of,
};
use serde_json::Value;

use crate::{Category, ProviderError, Request, ToolChoice};

/// What only a system message of this format says.
const CHANNELS: &str = "# Valid channels:";
/// How a developer message of this format begins.
const INSTRUCTIONS: &str = "# Instructions";

/// A prompt that is ready to be rendered.
#[derive(Debug)]
pub(super) struct Prompt {
    system: RenderMessage,
    conversation: Conversation,
    /// Whether the developer declares functions, which the system message then mentions.
    functions: bool,
    /// The beginning of the answer that the request decides, in control tokens and text.
    opening: String,
}

impl Prompt {
    /// The prompt of a request.
    ///
    /// # Errors
    /// The conversation holds what this format cannot say.
    pub(super) fn new(request: &Request<'_>) -> Result<Self, ProviderError> {
        request.messages.iter().try_for_each(only_text)?;
        let offered = match request.tool_choice {
            ToolChoice::None => &[],
            _ => request.tools,
        };
        let opening = opening(request.tool_choice, offered)?;
        let (system, rest) = match request.messages.split_first() {
            Some((first, rest)) if is_own_system(first) => (
                RenderMessage::new(FrameRole::System, first.text().as_str()),
                rest,
            ),
            _ => (
                RenderMessage::system(system(request, offered)?),
                request.messages,
            ),
        };
        let spoken = rest
            .iter()
            .position(|message| message.role != Speaker::System);
        let (instructions, turns) = rest.split_at(spoken.unwrap_or(rest.len()));
        let (mut messages, functions) = developer(instructions, offered, request.response_schema);
        messages.extend(spoken_by(turns));
        Ok(Self {
            system,
            conversation: Conversation::new(messages),
            functions,
            opening,
        })
    }

    /// The beginning of the answer that the prompt ends in.
    pub(super) fn opening(&self) -> &str {
        &self.opening
    }

    /// The prompt as token ids of `o200k_harmony`.
    pub(super) fn ids(&self) -> Result<Vec<u32>, ProviderError> {
        let mut renderer = Renderer::new();
        let options = RenderOptions::default();
        let mut ids = Vec::new();
        renderer
            .append_message(&self.system, self.functions, &options, &mut ids)
            .map_err(|error| refused(&error))?;
        let form = Form::Completion(FrameRole::Assistant);
        renderer
            .append(&self.conversation, form, &options, &mut ids)
            .map_err(|error| refused(&error))?;
        let opening = logue_o200k::encode_with_specials(&self.opening, &SpecialSet::HARMONY);
        ids.extend(opening);
        Ok(ids)
    }

    /// The prompt as text.
    ///
    /// # Errors
    /// The conversation holds a control token, which the model would take for real.
    pub(super) fn text(&self) -> Result<String, ProviderError> {
        let options = RenderOptions::default();
        let form = Form::Completion(FrameRole::Assistant);
        let mut text = self
            .system
            .to_text(self.functions, &options)
            .map_err(|error| refused(&error))?;
        let rest = self.conversation.to_text(form, &options);
        text.push_str(&rest.map_err(|error| refused(&error))?);
        // The renderer knows the tokens of the envelope; a server knows these as well.
        for token in ["<|startoftext|>", "<|endoftext|>", "<|reserved_"] {
            if text.contains(token) {
                let message = format!(
                    "the conversation holds `{token}…`, which the server would take for a real \
                     token"
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

const SEND_IDS: &str = "send token ids, which cannot be forged: `prompt = \"ids\"` under \
    [model.harmony] in logue.toml, and a server that takes them, such as vLLM or llama.cpp";

fn refused(error: &RenderError) -> ProviderError {
    let help = match error {
        RenderError::ControlToken { .. } | RenderError::BracketAtEnd { .. } => SEND_IDS,
        _ => "correct the conversation; a name of a tool or participant is one word",
    };
    let message = format!("the conversation cannot be sent: {error}");
    ProviderError::new(Category::InvalidRequest, message).with_help(help)
}

fn only_text(message: &ChatMessage) -> Result<(), ProviderError> {
    let Content::Blocks(blocks) = &message.content else {
        return Ok(());
    };
    let known = |block: &ContentBlock| {
        matches!(
            block,
            ContentBlock::Text { .. }
                | ContentBlock::Thinking { .. }
                | ContentBlock::RedactedThinking { .. }
        )
    };
    if blocks.iter().all(known) {
        return Ok(());
    }
    Err(ProviderError::new(
        Category::UnsupportedContentBlock,
        "a gpt-oss model reads text, nothing else",
    )
    .with_help("leave pictures out, or ask a model that sees them"))
}

fn is_own_system(message: &ChatMessage) -> bool {
    message.role == Speaker::System && !message.developer && message.text().contains(CHANNELS)
}

/// The format's own system message.
fn system(
    request: &Request<'_>,
    offered: &[ToolDefinition],
) -> Result<SystemContent, ProviderError> {
    let effort = match request.settings.reasoning_effort.as_deref() {
        None | Some("medium") => ReasoningEffort::Medium,
        Some("low") => ReasoningEffort::Low,
        Some("high") => ReasoningEffort::High,
        Some(other) => {
            let message = format!("a gpt-oss model knows no reasoning effort {other:?}");
            return Err(ProviderError::new(Category::InvalidRequest, message)
                .with_help("use low, medium or high"));
        }
    };
    let mut content = SystemContent::default().with_reasoning_effort(effort);
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

/// The developer's messages in front, and whether functions are declared.
fn developer(
    instructions: &[ChatMessage],
    offered: &[ToolDefinition],
    schema: Option<&Value>,
) -> (Vec<RenderMessage>, bool) {
    let texts: Vec<String> = instructions.iter().map(ChatMessage::text).collect();
    let own = texts.iter().any(|text| is_own_developer(text));
    let declared = declare::read(&texts.join("\n"));
    let functions: Vec<FunctionTool> = offered
        .iter()
        .filter(|tool| recipient_of(&tool.name) != tool.name)
        .filter(|tool| declared.tool(&recipient_of(&tool.name)).is_none())
        .map(function)
        .collect();
    let has_functions = !functions.is_empty()
        || (!offered.is_empty() && declared.tools().iter().any(|tool| !tool.name.is_empty()));
    let mut messages = Vec::new();
    let mut words = None;
    if own {
        // It is laid out already; a byte changed in it would say something else to the model.
        messages.extend(
            texts
                .iter()
                .map(|text| RenderMessage::developer(text.as_str())),
        );
    } else if !texts.is_empty() {
        words = Some(texts.join("\n\n"));
    }
    if let Some(schema) = schema {
        let format = format!("# Response Formats\n\n## answer\n\n{schema}");
        words = Some(words.map_or_else(|| format.clone(), |words| format!("{words}\n\n{format}")));
    }
    let mut content = DeveloperContent::default();
    content.instructions = words;
    if !functions.is_empty() {
        content = content.with_tools(ToolNamespace::functions(functions));
    }
    if content != DeveloperContent::default() {
        messages.push(RenderMessage::developer(content));
    }
    (messages, has_functions)
}

fn is_own_developer(text: &str) -> bool {
    text.starts_with(INSTRUCTIONS) || text.contains("\nnamespace functions {")
}

fn function(tool: &ToolDefinition) -> FunctionTool {
    let properties = tool.parameters.get("properties");
    let none = properties.is_none_or(|all| all.as_object().is_some_and(serde_json::Map::is_empty));
    let parameters = (!none).then(|| tool.parameters.clone());
    FunctionTool::new(tool.name.as_str(), tool.description.as_str(), parameters)
}

/// Everything behind the instructions.
fn spoken_by(messages: &[ChatMessage]) -> Vec<RenderMessage> {
    // Nothing of text and calls is lost in frames; of ids and signatures the model is told nothing.
    let (frames, _) = frames_from_messages(messages);
    let frames = side_by_side(frames);
    let (conversation, _) = Conversation::from_transcript(&Transcript::new(frames));
    let mut messages = conversation.messages;
    for message in &mut messages {
        match message.role {
            FrameRole::System | FrameRole::Developer => {
                message.role = FrameRole::Developer;
                for part in &mut message.content {
                    if let openchatml::harmony::Content::Text(text) = part
                        && !is_own_developer(text)
                    {
                        *part = DeveloperContent::new(std::mem::take(text)).into();
                    }
                }
            }
            FrameRole::Assistant | FrameRole::Tool => think_aloud(message),
            _ => {}
        }
    }
    messages
}

/// Built-in tools are used while thinking, as the model was trained to.
fn think_aloud(message: &mut RenderMessage) {
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

/// Puts each reply directly behind its call.
fn side_by_side(frames: Vec<FrameBuf>) -> Vec<FrameBuf> {
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
        while let Some(reply) = frames.next_if(|next| next.role == FrameRole::Tool) {
            replies.push(Some(reply));
        }
        for call in calls {
            let id = call.call_id.clone();
            ordered.push(call);
            let reply = replies
                .iter_mut()
                .find(|reply| reply.as_ref().is_some_and(|reply| reply.call_id == id));
            ordered.extend(reply.and_then(Option::take));
        }
        ordered.extend(replies.into_iter().flatten());
    }
    ordered
}

/// The beginning of an answer that has to call a tool.
fn opening(choice: &ToolChoice, offered: &[ToolDefinition]) -> Result<String, ProviderError> {
    let (channel, constrain, message) = (
        ControlToken::Channel,
        ControlToken::Constrain,
        ControlToken::Message,
    );
    Ok(match choice {
        ToolChoice::Auto | ToolChoice::None => String::new(),
        ToolChoice::Required => {
            let builtin = offered
                .iter()
                .any(|tool| recipient_of(&tool.name) == tool.name);
            let namespace = if builtin { "" } else { "=functions" };
            format!("{channel}commentary to{namespace}")
        }
        ToolChoice::Tool(name) => {
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
            if name.is_empty() || !name.chars().all(plain) {
                let message = format!("{name:?} is no name of a tool that can be asked for");
                return Err(ProviderError::new(Category::InvalidRequest, message)
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
