//! OpenChatML transcripts as prompts.
//!
//! The header gives the model, the settings and the built-in tools; system and developer messages
//! declare the functions; the frames are the conversation.

use chatmd::{BUILTINS, Config, suggest};
use logue_message::{HistoryRepair, ToolDefinition, repair_history};
use logue_model::SamplingSettings;
use logue_source::{Diagnostic, DiagnosticCode, Span};
use logue_tools::Builtin;
use openchatml::argument_schema::ArgumentSchema;
use openchatml::{Document, FrameRole, Header, declare, messages_from_frames, tool_of};
use serde_json::{Value, json};

use crate::prompt::document::Prompt;

/// The setting that lists built-in tools.
const BUILTIN_TOOLS: &str = "builtin_tools";

/// The parts of a prompt that only a transcript declares.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transcribed {
    pub(crate) settings: SamplingSettings,
    pub(crate) builtins: Vec<Builtin>,
    /// The functions that are declared and have no implementation here.
    pub(crate) functions: Vec<ToolDefinition>,
}

impl Prompt {
    /// Reads an OpenChatML transcript of version 2.1 or 2.2.
    ///
    /// Never fails: errors are among the diagnostics. Version 2.0 is an error, because it cannot
    /// escape appended text that spells a token. Linear in the text.
    pub fn from_openchatml(name: &str, text: &str) -> Self {
        let document = openchatml::parse(text.as_bytes());
        let mut diagnostics = document.diagnostics().to_vec();
        if let Some(header) = document.header().filter(|header| is_2_0(header)) {
            diagnostics.push(
                Diagnostic::error(
                    DiagnosticCode::WriteRefused,
                    "cannot continue a transcript of version 2.0: it cannot escape control tokens in \
                     messages",
                    header.span(),
                )
                .with_help("convert it to a newer version: `logue convert --to ocml2.2 FILE`"),
            );
        }
        let frames = document.to_owned_frames();
        let (messages, _) = messages_from_frames(&frames);
        let mut transcribed = Transcribed::default();
        let mut config = Config::default();
        config.show_tool_call = true;
        if let Some(header) = document.header() {
            config.model = header.model().map(str::to_owned);
            transcribed.settings = settings(header, &mut diagnostics);
            transcribed.builtins = builtins(header, document.source(), &mut diagnostics);
        }
        transcribed.functions = functions(&document);
        diagnostics.sort_by_key(|found| found.primary.start);
        Self::transcribed(name, text, config, messages, diagnostics, transcribed)
    }

    /// Returns whether this is an OpenChatML transcript, to which frames are appended.
    pub fn is_openchatml(&self) -> bool {
        self.transcript().is_some()
    }

    /// Returns the ids and names of calls that require a result from the caller.
    ///
    /// These are the unanswered calls of the last answer to functions that the transcript declares.
    pub fn waiting_calls(&self) -> Vec<(String, String)> {
        let Some(transcript) = self.transcript() else {
            return Vec::new();
        };
        let (_, repairs) = repair_history(self.messages.clone());
        let open: Vec<(String, String)> = repairs
            .into_iter()
            .filter_map(|repair| match repair {
                HistoryRepair::Cancelled { call_id, name } => Some((call_id, name)),
                _ => None,
            })
            .collect();
        let runs = |name: &str| {
            let mut functions = transcript.functions.iter();
            functions.any(|function| function.name == name)
        };
        let last = self.unanswered_calls();
        let is_last = |id: &str| {
            let mut ids = last
                .iter()
                .filter_map(|element| element.to_message()?.tool_call_id);
            ids.any(|other| other == id)
        };
        open.into_iter()
            .filter(|(id, name)| runs(name) && is_last(id))
            .collect()
    }
}

fn is_2_0(header: &Header) -> bool {
    header.version() == "2.0" || header.version().starts_with("2.0.")
}

fn settings(header: &Header, diagnostics: &mut Vec<Diagnostic>) -> SamplingSettings {
    let given = header.generation_settings();
    let mut misread = |key: &str, expected: &str| {
        let message = format!("`{key}` of generation_settings is ignored: expected {expected}");
        diagnostics.push(Diagnostic::warning(
            DiagnosticCode::ConfigIgnored,
            message,
            header.span(),
        ));
    };
    let mut number = |key: &str| {
        let value = given.get(key).filter(|value| !value.is_null())?;
        let number = value.as_f64();
        if number.is_none() {
            misread(key, "a number");
        }
        number
    };
    let temperature = number("temperature");
    let top_p = number("top_p");
    let frequency_penalty = number("frequency_penalty");
    let presence_penalty = number("presence_penalty");
    let max_tokens = given
        .get("max_tokens")
        .or_else(|| given.get("max_output_tokens"));
    if max_tokens.is_some_and(|most| !most.is_u64() && !most.is_null()) {
        misread("max_tokens", "a whole number");
    }
    let seed = given.get("seed");
    if seed.is_some_and(|seed| !seed.is_i64() && !seed.is_null()) {
        misread("seed", "a whole number");
    }
    let stop = match given.get("stop") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(stop)) => vec![stop.clone()],
        Some(Value::Array(stops)) if stops.iter().all(Value::is_string) => {
            let stops = stops.iter().filter_map(Value::as_str);
            stops.map(str::to_owned).collect()
        }
        Some(_) => {
            misread("stop", "a text or a list of texts");
            Vec::new()
        }
    };
    let effort = given.get("reasoning_effort").and_then(Value::as_str);
    SamplingSettings::default()
        .with_temperature(temperature)
        .with_max_tokens(max_tokens.and_then(Value::as_u64))
        .with_reasoning_effort(effort.map(str::to_owned))
        .with_top_p(top_p)
        .with_seed(seed.and_then(Value::as_i64))
        .with_frequency_penalty(frequency_penalty)
        .with_presence_penalty(presence_penalty)
        .with_stop(stop)
}

/// Returns the built-in tools that the header names.
fn builtins(header: &Header, source: &[u8], diagnostics: &mut Vec<Diagnostic>) -> Vec<Builtin> {
    let named = match header.generation_settings().get(BUILTIN_TOOLS) {
        Some(Value::Array(names)) => names.as_slice(),
        Some(name @ Value::String(_)) => std::slice::from_ref(name),
        _ => &[],
    };
    let mut found = Vec::new();
    for name in named {
        let name = name.as_str().unwrap_or_default();
        match Builtin::named(name) {
            Some(tools) => {
                for tool in tools {
                    if !found.contains(&tool) {
                        found.push(tool);
                    }
                }
            }
            None => {
                diagnostics.push(unknown_builtin(name, place_in_header(header, source, name)));
            }
        }
    }
    found
}

/// Returns a warning for each unknown name in the setting `builtin_tools`.
pub fn unknown_builtins(document: &Document<'_>) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    if let Some(header) = document.header() {
        builtins(header, document.source(), &mut found);
    }
    found
}

fn unknown_builtin(name: &str, place: Span) -> Diagnostic {
    let message = format!("unknown built-in tool `{name}`; it is not offered");
    let warning = Diagnostic::warning(DiagnosticCode::ToolUnsupported, message, place);
    let known = BUILTINS.iter().filter(|builtin| builtin.supported);
    let warning = match suggest(name, known.map(|builtin| builtin.declared)) {
        Some(meant) => warning.with_help(format!("did you mean `{meant}`?")),
        None => warning,
    };
    warning.with_help("remove it from `builtin_tools`, or declare it as a function")
}

/// Returns the place of a name in the list of built-in tools, or the header.
fn place_in_header(header: &Header, source: &[u8], name: &str) -> Span {
    let text = String::from_utf8_lossy(header.span().bytes(source));
    let list = text.find(BUILTIN_TOOLS).map(|at| at + BUILTIN_TOOLS.len());
    let at = list.and_then(|list| Some(list + text.get(list..)?.find(name)?));
    match at.filter(|_| !name.is_empty()) {
        Some(at) => Span::new(at, at + name.len()).shifted(header.span().start),
        None => header.span(),
    }
}

/// Returns the functions that system and developer messages declare.
///
/// Of two functions with one name, the later takes precedence.
fn functions(document: &Document<'_>) -> Vec<ToolDefinition> {
    let mut functions: Vec<ToolDefinition> = Vec::new();
    for frame in document.frames() {
        if !matches!(frame.role(), FrameRole::System | FrameRole::Developer) || frame.is_stray() {
            continue;
        }
        let text = document.body_text(frame);
        for tool in declare::read(&text).tools() {
            let name = tool_of(&tool.name);
            if name == tool.name {
                continue;
            }
            let description = tool.description.clone().unwrap_or_default();
            let definition = ToolDefinition::new(name, description, parameters(tool));
            functions.retain(|other| other.name != name);
            functions.push(definition);
        }
    }
    functions
}

/// Returns the argument schema of a function.
///
/// Falls back to any object if the declaration has no schema, or one that providers do not accept as
/// an object.
fn parameters(tool: &declare::DeclaredTool) -> Value {
    let schema = tool.schema.as_ref().map(ArgumentSchema::to_parameters);
    schema.unwrap_or_else(|| json!({"type": "object", "properties": {}}))
}
