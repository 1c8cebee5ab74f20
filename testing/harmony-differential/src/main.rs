//! The side of this workspace in the comparison with openai-harmony; `compare.py` is the other.
//!
//! `harmony-differential vocabulary` prints the ordinary tokens in the format of tiktoken. Without
//! an argument each line of the input is a request in JSON and each line of the output its answer.

use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use base64::Engine as _;
use logue_data::O200k;
use logue_data::mask::{MaskForm, MaskOptions, Masker, ReasoningPolicy, RowShape};
use openchatml::harmony::{
    Conversation, End, Form, HarmonyReadOptions, Reasoning, RenderError, RenderMessage,
    RenderOptions, Renderer, RendererCompat, SystemContent, ToolNamespace, read_harmony_ids,
};
use openchatml::{FrameRole, recipient_of, tool_of};
use serde::Deserialize;
use serde_json::{Value, json};

fn main() -> ExitCode {
    let result = match std::env::args().nth(1).as_deref() {
        None => answer_all(),
        Some("vocabulary") => vocabulary(),
        Some(_) => Err(io::Error::other("the only argument is `vocabulary`")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // There is nowhere left to report to if this fails.
            let _told = writeln!(io::stderr(), "harmony-differential: {error}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Request {
    Render {
        conversation: Conversation,
        form: String,
        #[serde(flatten)]
        how: How,
    },
    Message {
        message: RenderMessage,
        function_tools: bool,
        #[serde(flatten)]
        how: How,
    },
    Builtins,
    Read {
        ids: Vec<u32>,
        role: Option<String>,
    },
    /// The ids and the mask of a row of training data.
    Mask {
        row: String,
        /// Whether every role is trained, and all reasoning is rendered.
        all: bool,
    },
    /// Text, reasoning and calls of a completion.
    Answer {
        ids: Vec<u32>,
        tools: Vec<String>,
    },
}

#[derive(Deserialize)]
struct How {
    compat: bool,
    reasoning: Option<String>,
    #[serde(default = "yes")]
    check: bool,
}

const fn yes() -> bool {
    true
}

impl How {
    fn options(&self) -> RenderOptions {
        let compat = if self.compat {
            RendererCompat::OpenAi0_0_8
        } else {
            RendererCompat::Meant
        };
        let options = RenderOptions::compat(compat).with_check_headers(self.check);
        match self.reasoning.as_deref() {
            Some("keep") => options.with_reasoning(Reasoning::Keep),
            Some("finished") => options.with_reasoning(Reasoning::DropFinished),
            Some("first") => options.with_reasoning(Reasoning::DropBeforeFirstFinal),
            _ => options,
        }
    }
}

fn answer_all() -> io::Result<()> {
    let mut renderer = Renderer::new();
    let mut out = io::BufWriter::new(io::stdout().lock());
    for line in io::stdin().lock().lines() {
        let answer = match serde_json::from_str(&line?) {
            Ok(request) => answer(request, &mut renderer),
            Err(error) => json!({ "error": format!("no request: {error}") }),
        };
        writeln!(out, "{answer}")?;
    }
    out.flush()
}

fn answer(request: Request, renderer: &mut Renderer) -> Value {
    match request {
        Request::Render {
            conversation,
            form,
            how,
        } => {
            let form = match form.split_once(':') {
                Some((_, role)) => Form::Completion(FrameRole::parse(role.as_bytes())),
                None if form == "training" => Form::Training,
                None => Form::Conversation,
            };
            // The same conversation, as it is after it has been written and read.
            let again = Conversation::from_json(&conversation.to_json());
            if again.as_ref().ok() != Some(&conversation) {
                return json!({ "error": "it does not survive its own JSON" });
            }
            rendered(renderer.ids(&conversation, form, &how.options()))
        }
        Request::Message {
            message,
            function_tools,
            how,
        } => {
            let mut ids = Vec::new();
            let options = how.options();
            let result = renderer.append_message(&message, function_tools, &options, &mut ids);
            rendered(result.map(|()| ids))
        }
        Request::Builtins => {
            let content = SystemContent::default()
                .with_tools(ToolNamespace::browser())
                .with_tools(ToolNamespace::python());
            let conversation = Conversation::new(vec![RenderMessage::system(content)]);
            let options = RenderOptions::default();
            rendered(renderer.ids(&conversation, Form::Conversation, &options))
        }
        Request::Mask { row, all } => masked(&row, all),
        Request::Answer { ids, tools } => completion(ids, &tools),
        Request::Read { ids, role } => {
            let options = HarmonyReadOptions::default()
                .with_start_role(role.map(|role| FrameRole::parse(role.as_bytes())));
            let document = read_harmony_ids(ids, &options);
            let messages = document.messages.iter().map(|message| {
                let head = &message.head;
                json!({
                    "role": head.role.as_str(),
                    "name": head.name,
                    "recipient": head.recipient,
                    "channel": head.channel,
                    "content_type": head.content_type,
                    "content": message.content,
                })
            });
            let codes = document
                .diagnostics
                .iter()
                .map(|found| found.code.to_string());
            json!({
                "messages": messages.collect::<Vec<_>>(),
                "diagnostics": codes.collect::<Vec<_>>(),
            })
        }
    }
}

/// Masks a row.
fn masked(row: &str, all: bool) -> Value {
    let mut options = MaskOptions::new(MaskForm::Harmony);
    options.shape = RowShape::Harmony;
    if all {
        for role in ["user", "system", "tool"] {
            options.roles.add(role);
        }
        options.reasoning = ReasoningPolicy::Keep;
        options.allow_untrained_stop = true;
    }
    let mut masker = Masker::new(options, Box::new(O200k::new()));
    match masker.mask(row.as_bytes()) {
        Ok(masked) => json!({ "ids": masked.ids, "trained": masked.trained }),
        Err(refusal) => json!({ "code": refusal.finding.code.as_str() }),
    }
}

/// Reads a completion as a client receives it.
fn completion(ids: Vec<u32>, tools: &[String]) -> Value {
    let options = HarmonyReadOptions::default()
        .with_start_role(Some(FrameRole::Assistant))
        .with_tools(tools.iter().map(|tool| recipient_of(tool)).collect());
    let document = read_harmony_ids(ids, &options);
    let (mut text, mut reasoning, mut calls) = (String::new(), String::new(), Vec::new());
    for message in &document.messages {
        let head = &message.head;
        if head.role != FrameRole::Assistant && !head.stray {
            break;
        }
        let to = head.recipient.as_deref().filter(|_| !head.stray);
        let tool = to.filter(|to| !matches!(*to, "user" | "assistant" | "all"));
        match tool {
            Some(tool) if message.end.is_stop() => {
                calls.push(json!([tool_of(tool), message.content]));
            }
            None if message.is_visible() => text.push_str(&message.content),
            _ => reasoning.push_str(&message.content),
        }
        if matches!(message.end, End::Return | End::Call) {
            break;
        }
    }
    let codes: Vec<&str> = document
        .diagnostics
        .iter()
        .map(|found| found.code.as_str())
        .collect();
    json!({"text": text, "reasoning": reasoning, "calls": calls, "codes": codes})
}

fn rendered(result: Result<Vec<u32>, RenderError>) -> Value {
    match result {
        Ok(ids) => json!({ "ids": ids }),
        Err(error) => {
            let kind = match error {
                RenderError::Header { .. } => "header",
                RenderError::ToolWithoutName { .. } => "tool without a name",
                RenderError::MisplacedContent { .. } => "misplaced content",
                _ => "other",
            };
            json!({ "error": error.to_string(), "kind": kind })
        }
    }
}

fn vocabulary() -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    for id in 0..*logue_o200k::special::IDS.start() {
        let token = logue_o200k::token_bytes(id).unwrap_or_default();
        let token = base64::engine::general_purpose::STANDARD.encode(token);
        writeln!(out, "{token} {id}")?;
    }
    out.flush()
}
