//! `logue debug`: the parsed form of a file as JSON, including hidden parts.
//!
//! `frames` shows the frames of an envelope, `tree` the elements of ChatMD.

use std::path::Path;

use logue_agent::into_text;
use logue_source::{Diagnostic, Source};
use openchatml::{Dialect, Frame, FrameRole, Terminator, harmony};
use serde_json::{Value, json};

use crate::arguments::{DebugCommand, FramesArgs, StartRole, TreeArgs};
use crate::exit::{CliError, Exit};
use crate::files::{file_world, read_file, refuse_chatmd};
use crate::setup::failures::source_failure;
use crate::terminal::{ignore_broken_pipe, print, print_error, report_style};
use crate::token_ids::any_ids_of;

pub(crate) fn debug(command: &DebugCommand) -> Result<Exit, CliError> {
    match command {
        DebugCommand::Frames(arguments) => frames(arguments),
        DebugCommand::Tree(arguments) => tree(arguments),
    }
}

/// Prints the complete tree, then its diagnostics.
fn tree(arguments: &TreeArgs) -> Result<Exit, CliError> {
    let (name, bytes) = read_file(&arguments.file)?;
    let text = into_text(&name, bytes).map_err(|error| source_failure(&error))?;
    if arguments.expand_imports {
        return expanded(&name, &text, &arguments.file);
    }
    let tree = chatmd::parse(&text);
    ignore_broken_pipe(print(&format!("{}\n", tree.to_json())))?;
    let source = Source::new(&name, text.as_bytes());
    for diagnostic in tree.diagnostics() {
        print_error(&format!("{}\n", source.render(diagnostic, report_style())));
    }
    Ok(if tree.has_errors() {
        Exit::Findings
    } else {
        Exit::Done
    })
}

/// Prints the tree with its imports, from the directory of the file and below.
fn expanded(name: &str, text: &str, path: &Path) -> Result<Exit, CliError> {
    let mut world = file_world(path).map_err(|error| {
        CliError::user(
            "E-SOURCE-READ",
            format!("cannot read the directory: {error}"),
        )
    })?;
    let loaded = chatmd::load(name, text, &mut world);
    ignore_broken_pipe(print(&format!("{}\n", loaded.to_json())))?;
    let map = loaded.source_map();
    for error in loaded.diagnostics().iter().filter(|found| found.is_error()) {
        print_error(&format!("{}\n", map.render(error, report_style())));
    }
    Ok(if loaded.has_errors() {
        Exit::Findings
    } else {
        Exit::Done
    })
}

fn frames(arguments: &FramesArgs) -> Result<Exit, CliError> {
    if arguments.tokens && arguments.from.is_some_and(|from| from != Dialect::Harmony) {
        return Err(
            CliError::new(Exit::Usage, "usage", "--tokens supports Harmony only")
                .with_help("leave --tokens or --from out"),
        );
    }
    let (name, bytes) = read_file(&arguments.file)?;
    if arguments.tokens {
        let ids = any_ids_of(&name, &bytes)?;
        let found = from_ids(&ids, arguments.start_role);
        return ignore_broken_pipe(print(&format!("{found:#}\n")));
    }
    let named_dialect = arguments
        .from
        .or(arguments.start_role.map(|_| Dialect::Harmony));
    if named_dialect.is_none() {
        refuse_chatmd(&arguments.file, &bytes)?;
    }
    let found = match named_dialect.unwrap_or_else(|| dialect(&arguments.file, &bytes)) {
        Dialect::Harmony => from_harmony(&bytes, arguments.start_role),
        _ => from_openchatml(&bytes),
    };
    ignore_broken_pipe(print(&format!("{found:#}\n")))
}

/// Returns the dialect of a file, OpenChatML or Harmony.
///
/// OpenChatML has a header, an OpenChatML file extension, or call ids, which Harmony lacks.
/// Everything else is Harmony, whose reader accepts any text.
pub(crate) fn dialect(path: &Path, text: &[u8]) -> Dialect {
    let ending = path.extension().and_then(|ending| ending.to_str());
    let document = openchatml::parse(text);
    let has_id = |frame: &Frame| frame.call_id_span().is_some();
    let envelope = matches!(ending, Some("ocml" | "openchatml"))
        || document.header().is_some()
        || document.frames().iter().any(has_id);
    if envelope {
        Dialect::V2_2
    } else {
        Dialect::Harmony
    }
}

fn from_harmony(text: &[u8], start_role: Option<StartRole>) -> Value {
    harmony_json(&harmony::read(text, &options(start_role)))
}

/// Reads Harmony from token ids; spans count the bytes of the decoded text.
fn from_ids(ids: &[u32], start_role: Option<StartRole>) -> Value {
    let ids = ids.iter().copied();
    let document = harmony::read_ids(ids, logue_o200k::token_bytes, &options(start_role));
    harmony_json(&document)
}

fn options(start_role: Option<StartRole>) -> harmony::HarmonyReadOptions {
    harmony::HarmonyReadOptions::default().with_start_role(start_role.map(FrameRole::from))
}

fn harmony_json(document: &harmony::HarmonyDocument) -> Value {
    let messages = document.messages.iter().map(|message| {
        let head = &message.head;
        json!({
            "role": head.role.as_str(),
            "recipient": head.recipient,
            "channel": head.channel,
            "content_type": head.content_type,
            "content": message.content,
            "call_id": head.call_id,
            "name": head.name,
            "intent": head.intent,
            "end": message.end.as_str(),
            "complete": message.complete,
            "stray": head.stray,
        })
    });
    report(&messages.collect::<Vec<_>>(), &document.diagnostics)
}

fn from_openchatml(text: &[u8]) -> Value {
    let document = openchatml::parse(text);
    let messages = document.frames().iter().map(|frame| {
        let content_type = document.constrain(frame);
        let channel = frame
            .channel_span()
            .map(|span| document.text(span).into_owned());
        json!({
            "role": frame.role().as_str(),
            "recipient": document.to(frame),
            "channel": channel,
            "content_type": content_type.or_else(|| document.content_type(frame)),
            "content": document.body_text(frame),
            "call_id": document.call_id(frame),
            "name": document.name(frame),
            "intent": document.intent(frame),
            "end": match frame.terminator() {
                Terminator::End => "end",
                Terminator::Call => "call",
                Terminator::Return => "return",
                Terminator::None if frame.span().end < text.len() => "implicit",
                Terminator::None => "eos",
            },
            "complete": frame.is_complete(),
            "stray": frame.is_stray(),
        })
    });
    report(&messages.collect::<Vec<_>>(), &openchatml::check(&document))
}

fn report(messages: &[Value], found: &[Diagnostic]) -> Value {
    let diagnostics: Vec<Value> = found
        .iter()
        .map(|found| {
            json!({
                "code": found.code.as_str(),
                "severity": found.severity.as_str(),
                "message": found.message,
                "span": {"start": found.primary.start, "end": found.primary.end},
            })
        })
        .collect();
    json!({"messages": messages, "diagnostics": diagnostics})
}
