//! `logue view`: shows the visible part of a conversation.
//!
//! All languages are converted to one list of messages. Hidden messages are shown only if a flag
//! requests them (OpenChatML 2.2 §4, §5). Long text is folded. Terminal control sequences are
//! escaped, also in output to a pager.

mod chatmd;
mod fold;
mod image;
mod shown;

use std::io;
use std::path::Path;

use logue_agent::{AgentMessage, EvaluationRecord, agent_messages, into_text, read_bytes};
use logue_source::{Source, escape_line};
use openchatml::project::JsonFormat;
use openchatml::{FrameBuf, Terminator, View, convert};

use crate::commands::view::shown::{Shown, print_json, print_messages};

use crate::arguments::ViewArgs;
use crate::conversion::form::{DocumentForm, Form};
use crate::conversion::rows::{has_texts, read_rows, remedy};
use crate::counted::counted;
use crate::exit::{CliError, Exit};
use crate::files::{find_files, is_stdin, read_file};
use crate::language::Language;
use crate::setup::evaluation::record_key;
use crate::setup::failures::source_failure;
use crate::terminal::{ignore_broken_pipe, print, print_error, report_style};

pub(crate) fn view(arguments: &ViewArgs) -> Result<Exit, CliError> {
    if arguments.file.is_dir() {
        return view_folder(arguments);
    }
    let (name, bytes) = read_file(&arguments.file)?;
    let path = (!is_stdin(&arguments.file)).then_some(arguments.file.as_path());
    let read = sections(&name, path, bytes, arguments)?;
    let is_one = read.sections.len() == 1 && read.sections[0].label == name;
    for (index, section) in read.sections.iter().enumerate() {
        let label = (!is_one).then_some(section.label.as_str());
        match print_section(section, label, index > 0, arguments) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Exit::Done),
            printed => ignore_broken_pipe(printed).map(drop)?,
        }
    }
    Ok(read.exit)
}

/// One conversation of a file.
struct Section {
    /// The name of the file, with a line if it has several conversations.
    label: String,
    messages: Vec<Shown>,
}

/// The conversations of a file.
struct Sections {
    sections: Vec<Section>,
    /// The status: a row was not read, or a payload was changed.
    exit: Exit,
}

/// Prints a conversation, under its label if it has one.
fn print_section(
    section: &Section,
    label: Option<&str>,
    is_later: bool,
    arguments: &ViewArgs,
) -> io::Result<()> {
    if arguments.json {
        return print_json(&section.messages, label);
    }
    if let Some(label) = label {
        let gap = if is_later { "\n" } else { "" };
        print(&format!("{gap}==> {} <==\n", escape_line(label)))?;
    }
    let shortens_images = !(arguments.full || arguments.show_hidden);
    print_messages(&section.messages, arguments.full, shortens_images)
}

/// Shows every conversation in a directory, each under its name.
///
/// A conversation that cannot be shown does not prevent the output of the others.
fn view_folder(arguments: &ViewArgs) -> Result<Exit, CliError> {
    let mut exit = Exit::Done;
    let mut first = true;
    for file in find_files(&arguments.file, Language::is_candidate)? {
        let name = file.display().to_string();
        let shown = read_bytes(&file)
            .map_err(|error| source_failure(&error))
            .and_then(|bytes| {
                if Language::is_prose(&file, &bytes) {
                    return Ok(None);
                }
                sections(&name, Some(&file), bytes, arguments).map(Some)
            });
        let sections = match shown {
            Ok(None) => continue,
            Ok(Some(read)) => {
                if read.exit != Exit::Done {
                    exit = read.exit;
                }
                read.sections
            }
            Err(failure) => {
                crate::terminal::report(&failure);
                exit = failure.exit;
                continue;
            }
        };
        for section in &sections {
            let printed = print_section(section, Some(&section.label), !first, arguments);
            first = false;
            match printed {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Exit::Done),
                printed => ignore_broken_pipe(printed).map(drop)?,
            }
        }
    }
    if first && exit == Exit::Done {
        let name = arguments.file.display().to_string();
        print_error(&format!("{}: no conversations found\n", escape_line(&name)));
    }
    Ok(exit)
}

/// Returns the conversations of a file: several of a JSON text, else one.
fn sections(
    name: &str,
    path: Option<&Path>,
    bytes: Vec<u8>,
    arguments: &ViewArgs,
) -> Result<Sections, CliError> {
    let form = match arguments.from {
        Some(form) => Ok(form.document()),
        None => Form::of_document(path, &bytes),
    };
    match form {
        Ok(DocumentForm::Language(language)) => {
            let (messages, exit) = messages(name, path, bytes, language, arguments)?;
            let label = name.to_owned();
            Ok(Sections {
                sections: vec![Section { label, messages }],
                exit,
            })
        }
        Ok(DocumentForm::Json(_)) => {
            let format = arguments.from.and_then(Form::json);
            Ok(json_sections(name, &bytes, format, arguments.show_hidden))
        }
        Err(_) if has_texts(name, &bytes) => {
            Ok(json_sections(name, &bytes, None, arguments.show_hidden))
        }
        Err(shape) => {
            Err(CliError::user("E-JSON-SHAPE", format!("`{name}`: {shape}"))
                .with_help(remedy(&shape)))
        }
    }
}

fn json_sections(
    name: &str,
    bytes: &[u8],
    format: Option<JsonFormat>,
    show_hidden: bool,
) -> Sections {
    let mut sections = Vec::new();
    let mut exit = Exit::Done;
    let rows = read_rows(name, bytes, format);
    let is_one = rows.len() == 1;
    for row in rows {
        let place = format!("{name}:{}", row.origin.line);
        let source = match &row.inner {
            Some(inner) => Source::new(&place, inner.as_bytes()),
            None => Source::fragment(name, row.text, row.origin),
        };
        for read in row.conversations {
            report(&source, &read.diagnostics);
            if read.broken {
                exit = Exit::UserCorrectable;
            }
            if read.broken && read.transcript.frames.is_empty() {
                continue;
            }
            let frames = read.transcript.frames.into_iter().map(shown_frame);
            let label = if is_one { name } else { &place };
            let label = label.to_owned();
            sections.push(Section {
                label,
                messages: frames
                    .filter(|message| show_hidden || !message.hidden)
                    .collect(),
            });
        }
    }
    Sections { sections, exit }
}

fn messages(
    name: &str,
    path: Option<&Path>,
    bytes: Vec<u8>,
    language: Language,
    arguments: &ViewArgs,
) -> Result<(Vec<Shown>, Exit), CliError> {
    let shown = match language {
        Language::Openchatml => openchatml_messages(name, &bytes, arguments.show_hidden),
        Language::Harmony | Language::Ocml0_1 | Language::Chatml => {
            let read = convert::read(
                &bytes,
                language.dialect(),
                &convert::ConvertOptions::default(),
            );
            report(&Source::new(name, &bytes), &read.diagnostics);
            let debug = arguments.show_hidden;
            let frames = read.transcript.frames.into_iter();
            let shown = frames.map(shown_frame);
            shown.filter(|message| debug || !message.hidden).collect()
        }
        Language::Chatmd => {
            let text = into_text(name, bytes).map_err(|error| source_failure(&error))?;
            let (mut shown, is_changed) = chatmd::messages(name, path, &text, arguments)?;
            if arguments.show_hidden {
                shown.extend(of_agents(path));
                shown.extend(evaluated(path));
            }
            if is_changed {
                return Ok((shown, Exit::Findings));
            }
            shown
        }
    };
    Ok((shown, Exit::Done))
}

/// Returns the messages of agents that are kept beside a transcript.
fn of_agents(path: Option<&Path>) -> Vec<Shown> {
    let Some(real) = path.and_then(|path| path.canonicalize().ok()) else {
        return Vec::new();
    };
    let messages = match agent_messages(&real) {
        Ok((messages, 0)) => messages,
        Ok((messages, damaged)) => {
            let lines = counted(damaged, "message");
            print_error(&format!("note: {lines} of agents cannot be read\n"));
            messages
        }
        Err(error) => {
            let error = error.to_string();
            print_error(&format!("note: calls of agents: {}\n", escape_line(&error)));
            Vec::new()
        }
    };
    messages.iter().flat_map(shown_of_agent).collect()
}

/// Returns the text and the calls of an agent's message.
fn shown_of_agent(kept: &AgentMessage) -> Vec<Shown> {
    let message = &kept.message;
    let details = |more: Vec<(&'static str, &String)>| {
        let called = kept.call_id.as_ref().map(|id| ("called_by", id));
        let all = [("agent", &kept.src)].into_iter().chain(called).chain(more);
        all.map(|(key, value)| (key, value.clone())).collect()
    };
    let shown = |details, channel: Option<&str>, text: String| Shown {
        role: message.role.as_str().to_owned(),
        channel: channel.map(str::to_owned),
        details,
        text,
        payloads: Vec::new(),
        is_inline: false,
        hidden: true,
        complete: true,
    };
    let mut all = Vec::new();
    let text = message.text();
    if !text.is_empty() {
        let id = message.tool_call_id.as_ref().map(|id| ("call_id", id));
        all.push(shown(details(id.into_iter().collect()), None, text));
    }
    all.extend(message.tool_calls.iter().map(|call| {
        let details = details(vec![("to", &call.name), ("call_id", &call.id)]);
        let arguments = call.arguments.as_str().to_owned();
        shown(details, Some("commentary"), arguments)
    }));
    all
}

/// Returns what evaluation of a transcript obtained, as recorded beside it.
fn evaluated(path: Option<&Path>) -> Vec<Shown> {
    let real = path.and_then(|path| path.canonicalize().ok());
    let (Some(real), Some(key)) = (real, record_key()) else {
        return Vec::new();
    };
    let record = EvaluationRecord::beside(&real, key);
    if let Some(reason) = record.unused() {
        print_error(&format!("note: {}\n", escape_line(reason)));
    }
    let is_used = record.unused().is_none();
    let entries = record.entries().into_iter();
    entries
        .map(|entry| {
            let used = if is_used { "yes" } else { "no" };
            Shown {
                role: "evaluated".to_owned(),
                channel: None,
                details: vec![(entry.kind.as_str(), entry.src), ("used", used.to_owned())],
                text: entry.text,
                payloads: Vec::new(),
                is_inline: false,
                hidden: true,
                complete: true,
            }
        })
        .collect()
}

/// Converts a frame of a dialect without call ids.
///
/// The reader generates call ids that are not in the file, so they are not shown.
fn shown_frame(frame: FrameBuf) -> Shown {
    let hidden = !frame.visibility().is_visible();
    let role = frame.role.as_str().unwrap_or("unknown").to_owned();
    let channel = frame.channel;
    let complete = frame.terminator != Terminator::None && !frame.is_interrupted();
    let values = [
        ("to", frame.to),
        ("name", frame.name),
        ("intent", frame.intent),
    ];
    let details = values.into_iter();
    Shown {
        role,
        channel: channel.map(|word| word.as_str().unwrap_or("unknown").to_owned()),
        details: details
            .filter_map(|(key, value)| Some((key, value?)))
            .collect(),
        text: frame.body,
        payloads: Vec::new(),
        is_inline: false,
        hidden,
        complete,
    }
}

fn openchatml_messages(name: &str, bytes: &[u8], debug: bool) -> Vec<Shown> {
    let document = openchatml::parse(bytes);
    report(&Source::new(name, bytes), document.diagnostics());
    let view = if debug {
        View::debug(&document)
    } else {
        View::new(&document)
    };
    let mut shown = Vec::new();
    for frame in view.frames() {
        let Ok(text) = view.text(frame) else { continue };
        let mut details = Vec::new();
        let values = [
            ("to", document.to(frame)),
            ("name", document.name(frame)),
            ("call_id", document.call_id(frame)),
            ("intent", document.intent(frame)),
        ];
        for (key, value) in values {
            if let Some(value) = value {
                details.push((key, value.into_owned()));
            }
        }
        shown.push(Shown {
            role: document.role_text(frame).into_owned(),
            channel: frame
                .has_channel()
                .then(|| frame.channel().as_str().unwrap_or("unknown").to_owned()),
            details,
            text: text.into_owned(),
            payloads: Vec::new(),
            is_inline: false,
            hidden: !frame.visibility().is_visible(),
            complete: frame.is_complete() && !document.is_interrupted(frame),
        });
    }
    shown
}

/// Reports errors on standard error; the readable part is still shown.
fn report(source: &Source<'_>, found: &[logue_source::Diagnostic]) {
    let errors: Vec<_> = found
        .iter()
        .filter(|diagnostic| diagnostic.is_error())
        .collect();
    if errors.is_empty() {
        return;
    }
    for diagnostic in errors {
        print_error(&format!("{}\n", source.render(diagnostic, report_style())));
    }
}
