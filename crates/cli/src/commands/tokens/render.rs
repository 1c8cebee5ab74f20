//! `logue tokens render`: renders conversations as the prompt of a Harmony model.
//!
//! A text in Harmony is rendered as it is. Every other form gets the system and developer messages
//! that `logue run -m harmony:` sends, from the same code.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use logue_message::{ChatMessage, Role, ToolDefinition};
use logue_model::{
    HarmonyPrompt, HarmonyPromptOptions, ModelRequest, ProviderError, SamplingSettings,
};
use logue_source::{Diagnostic, Span, escape_line};
use openchatml::convert::{
    ConvertOptions, PlacedTools, distinct_ids, harmony_conversation, image_losses,
};
use openchatml::harmony::{Form as Extent, Reasoning, RenderError, RenderOptions, Renderer};
use openchatml::project::{self, JsonFormat};
use openchatml::{
    Channel, Dialect, FrameBuf, FrameRole, Loss, LossKind, LossTarget, Transcript,
    messages_from_frames, recipient_of, tool_of,
};
use serde_json::{Value, json};

use crate::arguments::RenderArgs;
use crate::conversion::builtin_tools;
use crate::conversion::form::{Conversation as Read, Form, looks_like_json};
use crate::conversion::loss_policy::{FORBIDDEN, LossPolicy, lines};
use crate::conversion::rows;
use crate::exit::{CliError, Exit};
use crate::files::{empty_file, folder_of, is_stdin, read_file};
use crate::setup::failures::rendered;
use crate::terminal::{ignore_broken_pipe, print, print_error};

/// The heading that identifies a Harmony system message.
const CHANNELS: &str = "# Valid channels:";
/// The declaration of functions in a Harmony developer message.
const NAMESPACE: &str = "\nnamespace functions {";

pub(super) fn render(arguments: &RenderArgs) -> Result<Exit, CliError> {
    let (name, bytes) = read_file(&arguments.file)?;
    let path = (!is_stdin(&arguments.file)).then_some(arguments.file.as_path());
    let parts = parts(&bytes);
    if parts.len() > 1 && arguments.text {
        return Err(several(&name, parts.len()));
    }
    let mut output = Output {
        policy: LossPolicy::new(&arguments.losses),
        held: String::new(),
        lost: BTreeSet::new(),
    };
    for (index, part) in parts.iter().enumerate() {
        let name = match parts.len() {
            1 => name.clone(),
            _ => format!("{name}: conversation {}", index + 1),
        };
        let conversations = read(arguments, &name, path, part.bytes(&bytes))?;
        if conversations.len() > 1 && arguments.text {
            return Err(several(&name, conversations.len()));
        }
        for conversation in conversations {
            let (text, losses) = one(arguments, &name, &conversation, output.policy)?;
            if !output.add(&name, &text, &losses)? {
                return Ok(output.exit());
            }
        }
    }
    output.finish()
}

/// The rendered conversations and their losses.
struct Output {
    policy: LossPolicy,
    /// The text that is printed at the end, because a loss may still refuse it.
    held: String,
    lost: BTreeSet<LossKind>,
}

impl Output {
    /// Prints or holds a conversation; returns whether the reader is still there.
    fn add(&mut self, name: &str, text: &str, losses: &[Loss]) -> Result<bool, CliError> {
        let place = escape_line(name);
        print_error(&lines(&place, losses));
        if self.policy.refuses(losses) {
            let failure = CliError::new(
                Exit::Findings,
                "E-WRITE-REFUSED",
                format!("{place}: {FORBIDDEN}"),
            );
            return Err(failure.with_help("correct the conversation, or omit --strict"));
        }
        self.lost.extend(losses.iter().map(|loss| loss.kind));
        if self.policy.strict.is_some() {
            self.held.push_str(text);
            return Ok(true);
        }
        print_whole(text)
    }

    fn finish(self) -> Result<Exit, CliError> {
        print_whole(&self.held)?;
        Ok(self.exit())
    }

    fn exit(&self) -> Exit {
        self.policy.exit(self.lost.iter().copied())
    }
}

/// Returns the refusal of several conversations as one text.
fn several(name: &str, count: usize) -> CliError {
    let message = format!("`{name}` contains {count} conversations");
    CliError::new(Exit::Usage, "usage", message)
        .with_help("omit --text: the ids of each conversation are one line")
}

/// Prints a text; returns whether the reader is still there.
fn print_whole(text: &str) -> Result<bool, CliError> {
    let printed = print(text);
    let is_open = printed.is_ok();
    ignore_broken_pipe(printed)?;
    Ok(is_open)
}

/// The conversations of a text: several if it is a JSON array of them, or JSON lines.
fn parts(bytes: &[u8]) -> Vec<Span> {
    let whole = vec![Span::new(0, bytes.len())];
    if !looks_like_json(bytes) {
        return whole;
    }
    match project::conversations(bytes) {
        Ok(parts) if parts.len() > 1 => parts,
        Ok(_) => whole,
        Err(_) => {
            let mut at = 0;
            let lines = bytes.split_inclusive(|byte| *byte == b'\n').map(|line| {
                at += line.len();
                (line, Span::new(at - line.len(), at))
            });
            let lines = lines.filter(|(line, _)| !line.trim_ascii().is_empty());
            let (lines, spans): (Vec<&[u8]>, Vec<Span>) = lines.unzip();
            let are_rows = lines.iter().all(|line| line.trim_ascii().starts_with(b"{"));
            if are_rows && lines.len() > 1 {
                spans
            } else {
                whole
            }
        }
    }
}

/// Renders one conversation.
fn one(
    arguments: &RenderArgs,
    name: &str,
    read: &Read,
    policy: LossPolicy,
) -> Result<(String, Vec<Loss>), CliError> {
    let form = read.form;
    let (transcript, changed) = distinct_ids(&read.transcript);
    let mut losses = read.losses.clone();
    losses.extend(changed);
    if let Some(why) = policy.refusal(read.broken, &read.diagnostics) {
        let failure = CliError::user("E-WRITE-REFUSED", format!("`{name}`: {why}"));
        return Err(failure.with_help("run `logue check` on it, or omit --strict"));
    }
    if transcript.frames.is_empty() {
        let message = format!("`{name}` contains no message to render");
        return Err(CliError::user("E-WRITE-REFUSED", message)
            .with_help("run `logue check` on it, or name another form with --from"));
    }
    let is_harmony = form == Form::Dialect(Dialect::Harmony) && !arguments.has_system_flags();
    let has_system = transcript
        .frames
        .iter()
        .any(|frame| frame.role == FrameRole::System && frame.body.contains(CHANNELS));
    let text = if arguments.bare || is_harmony || has_system {
        bare(arguments, name, &transcript, &mut losses)
    } else {
        let has_channels = matches!(
            form,
            Form::Dialect(_) | Form::Projection(JsonFormat::Json | JsonFormat::HarmonyJson)
        );
        prompt(arguments, name, &transcript, has_channels, &mut losses)
    };
    Ok((text?, losses))
}

/// Reads a conversation, or both of a pair of preference.
fn read(
    arguments: &RenderArgs,
    name: &str,
    path: Option<&Path>,
    bytes: &[u8],
) -> Result<Vec<Read>, CliError> {
    if let (None | Some(Form::Dialect(_) | Form::Chatmd), Some(text)) =
        (arguments.from, logue_data::row_text(bytes))
    {
        return read(arguments, name, None, text.as_bytes());
    }
    let form = match arguments.from {
        Some(form) => Some((form, true)),
        None => Form::detect(path, bytes),
    };
    let unknown = || {
        CliError::user("E-SOURCE-READ", format!("unknown form of `{name}`"))
            .with_help("name its form with --from")
    };
    let (form, certain) = match form {
        Some(form) => form,
        None if looks_like_json(bytes) => match rows::recognize(bytes) {
            // Reading it as a projection reports the errors in it.
            Ok(format) => (Form::Projection(format), false),
            Err(shape) => {
                let unknown = rows::unknown(&shape);
                return Err(rendered(name, bytes, &unknown.diagnostics));
            }
        },
        None if bytes.trim_ascii().is_empty() => return Err(empty_file(name)),
        None => return Err(unknown()),
    };
    let options = ConvertOptions::default().with_thinking(true);
    let folder = path.map(folder_of);
    let mut read = form.read_all(bytes, certain, folder.as_deref(), &options);
    if let Some(broken) = read.iter_mut().find(|read| read.broken) {
        let errors = broken.diagnostics.drain(..).filter(Diagnostic::is_error);
        return Err(rendered(name, bytes, &errors.collect::<Vec<_>>()));
    }
    Ok(read)
}

/// Renders the frames alone.
fn bare(
    arguments: &RenderArgs,
    name: &str,
    transcript: &Transcript,
    losses: &mut Vec<Loss>,
) -> Result<String, CliError> {
    let (conversation, of_writing) = harmony_conversation(transcript);
    losses.extend(of_writing);
    let extent = arguments.extent();
    let options = RenderOptions::default().with_reasoning(arguments.reasoning());
    let refused =
        |error: RenderError| CliError::user("E-WRITE-REFUSED", format!("`{name}`: {error}"));
    if arguments.text {
        let text = conversation.to_text(extent, &options);
        return text
            .map_err(|error| refused(error).with_help("omit --text: ids have no such limit"));
    }
    let ids = Renderer::new().ids(&conversation, extent, &options);
    let ids = ids.map_err(|error| {
        refused(error).with_help("run `logue check` and correct the transcript")
    })?;
    Ok(listed(&ids, arguments.json))
}

/// Removes the images of users, which gpt-oss models do not take.
///
/// The prompt contains a note instead of those of a tool's result.
fn remove_images(messages: &mut [ChatMessage]) {
    for message in messages {
        if message.role != Role::Tool {
            message.content.remove_images();
        }
    }
}

/// Lists the marks of answers that a prompt has no place for.
fn list_marks(messages: &[ChatMessage], losses: &mut Vec<Loss>) {
    for (index, message) in messages.iter().enumerate() {
        let mut note = |is_lost: bool, text: &str| {
            let target = LossTarget::Message(index);
            let loss = is_lost.then(|| Loss::new(target, LossKind::AttributeDropped, text));
            losses.extend(loss);
        };
        note(
            message.interrupted,
            "an interrupted answer reads as complete",
        );
        note(message.phase.is_some(), "the phase of an answer dropped");
    }
}

/// Lists the built-in calls and replies that get another channel, and only those.
///
/// A prompt has them on `analysis`, as in the training data; messages have no channel.
fn list_channels(frames: &[FrameBuf], has_channels: bool, losses: &mut Vec<Loss>) {
    let is_builtin = |frame: &FrameBuf| {
        let tool = match frame.role {
            FrameRole::Tool => frame.name.as_deref(),
            _ if frame.is_call() => frame.to.as_deref(),
            _ => None,
        };
        tool.is_some_and(|tool| recipient_of(tool_of(tool)) == tool_of(tool))
    };
    let is_of_builtin = |index: usize| frames.get(index).is_some_and(is_builtin);
    losses.retain(|loss| match loss.target {
        LossTarget::Frame(index) => loss.kind != LossKind::ChannelChanged || !is_of_builtin(index),
        _ => true,
    });
    let moved = frames.iter().enumerate().filter(|(index, frame)| {
        has_channels && is_of_builtin(*index) && frame.effective_channel() != Channel::Analysis
    });
    let note = "moved to `analysis`, the channel of built-in tools";
    losses.extend(
        moved.map(|(index, _)| Loss::new(LossTarget::Frame(index), LossKind::ChannelChanged, note)),
    );
}

/// Renders the prompt of a request with these messages.
fn prompt(
    arguments: &RenderArgs,
    name: &str,
    transcript: &Transcript,
    has_channels: bool,
    losses: &mut Vec<Loss>,
) -> Result<String, CliError> {
    let placed = PlacedTools::beside(transcript);
    let is_trained = |frame: &FrameBuf| frame.body.contains(NAMESPACE);
    // The trained layout must not change by a byte.
    let transcript = if transcript.frames.iter().any(is_trained) {
        transcript
    } else {
        placed.transcript()
    };
    let (transcript, of_builtins) = builtin_tools::declared(transcript);
    // The prompt declares the others as its model knows them.
    let is_unknown = |loss: &Loss| loss.kind == LossKind::SettingDropped;
    losses.extend(of_builtins.into_iter().filter(is_unknown));
    let tools: Vec<ToolDefinition> = transcript.tools.iter().filter_map(definition).collect();
    if tools.len() < transcript.tools.len() {
        let text = "a declaration of a tool that is not a function dropped";
        let loss = Loss::new(LossTarget::Transcript, LossKind::DeclarationDropped, text);
        losses.push(loss);
    }
    let (mut messages, mut of_messages) = messages_from_frames(&transcript.frames);
    list_channels(&transcript.frames, has_channels, &mut of_messages);
    losses.extend(of_messages);
    losses.extend(image_losses(&transcript));
    remove_images(&mut messages);
    list_marks(&messages, losses);
    let mut settings = SamplingSettings::default();
    let header = transcript.header.as_ref();
    let own = header.and_then(|header| header.generation_settings.get("reasoning_effort"));
    settings.reasoning_effort = match arguments.reasoning_effort {
        Some(effort) => Some(effort.as_str().to_owned()),
        None => own.and_then(Value::as_str).map(str::to_owned),
    };
    let request = ModelRequest::new("", &messages, &settings).with_tools(&tools);
    let mut options = HarmonyPromptOptions::default();
    options.form = arguments.extent();
    options.reasoning = arguments.reasoning();
    options.identity.clone_from(&arguments.identity);
    options.date.clone_from(&arguments.date);
    options.declared_tools = true;
    let refused = |error: ProviderError, help: &str| {
        let message = format!("`{name}`: {}", error.message);
        CliError::user("E-WRITE-REFUSED", message).with_help(help)
    };
    let correct = "run `logue check` and correct the conversation";
    let prompt = HarmonyPrompt::new(&request, &options).map_err(|error| refused(error, correct))?;
    if arguments.text {
        let text = prompt.text();
        return text.map_err(|error| refused(error, "omit --text: ids have no such limit"));
    }
    let ids = prompt.ids().map_err(|error| refused(error, correct))?;
    Ok(listed(&ids, arguments.json))
}

/// Returns the definition of a function that a conversation declares.
fn definition(tool: &Value) -> Option<ToolDefinition> {
    let function = tool.get("function")?;
    let text = |key: &str| function.get(key).and_then(Value::as_str);
    let parameters = function.get("parameters").cloned();
    let none = || json!({"type": "object", "properties": {}});
    Some(ToolDefinition::new(
        text("name")?,
        text("description").unwrap_or_default(),
        parameters.unwrap_or_else(none),
    ))
}

fn listed(ids: &[u32], json: bool) -> String {
    let (open, between, close) = super::list(json);
    let mut out = open.to_owned();
    for (number, id) in ids.iter().enumerate() {
        let before = if number == 0 { "" } else { between };
        // Writing to a string cannot fail.
        let _ = write!(out, "{before}{id}");
    }
    out.push_str(close);
    out
}

impl RenderArgs {
    const fn has_system_flags(&self) -> bool {
        self.reasoning_effort.is_some() || self.date.is_some() || self.identity.is_some()
    }

    fn extent(&self) -> Extent {
        match self.next_role {
            Some(role) => Extent::Completion(FrameRole::from(role)),
            None if self.training => Extent::Training,
            None => Extent::Conversation,
        }
    }

    fn reasoning(&self) -> Reasoning {
        if self.keep_reasoning {
            Reasoning::Keep
        } else {
            Reasoning::default()
        }
    }
}
