//! `logue view`: shows the visible part of a conversation.
//!
//! All languages are converted to one list of messages. Hidden messages are shown only if a flag
//! requests them (OpenChatML 2.2 §4, §5). Long text is folded. Terminal control sequences are
//! escaped, also in output to a pager.

mod chatmd;
mod fold;
mod shown;

use std::io;
use std::path::Path;

use logue_agent::{into_text, read_bytes};
use logue_source::{Source, escape_line};
use openchatml::{FrameBuf, Terminator, View, convert};

use crate::commands::view::shown::{Shown, print_json, print_messages};

use crate::arguments::ViewArgs;
use crate::exit::{CliError, Exit};
use crate::files::{find_files, is_stdin, read_file};
use crate::language::Language;
use crate::setup::failures::source_failure;
use crate::terminal::{error_style, ignore_broken_pipe, print, print_error};

pub(crate) fn view(arguments: &ViewArgs) -> Result<Exit, CliError> {
    if arguments.file.is_dir() {
        return view_folder(arguments);
    }
    let (name, bytes) = read_file(&arguments.file)?;
    let path = (!is_stdin(&arguments.file)).then_some(arguments.file.as_path());
    let shown = messages(&name, path, bytes, arguments)?;
    ignore_broken_pipe(if arguments.json {
        print_json(&shown, None)
    } else {
        print_messages(&shown, arguments.full)
    })
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
                messages(&name, Some(&file), bytes, arguments).map(Some)
            });
        let shown = match shown {
            Ok(None) => continue,
            Ok(Some(shown)) => shown,
            Err(failure) => {
                crate::terminal::report(&failure);
                exit = failure.exit;
                continue;
            }
        };
        let gap = if first { "" } else { "\n" };
        first = false;
        let printed = if arguments.json {
            print_json(&shown, Some(&name))
        } else {
            print(&format!("{gap}==> {} <==\n", escape_line(&name)))
                .and_then(|()| print_messages(&shown, arguments.full))
        };
        match printed {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Exit::Done),
            printed => ignore_broken_pipe(printed).map(drop)?,
        }
    }
    if first && exit == Exit::Done {
        let name = arguments.file.display().to_string();
        print_error(&format!("{}: no conversations found\n", escape_line(&name)));
    }
    Ok(exit)
}

fn messages(
    name: &str,
    path: Option<&Path>,
    bytes: Vec<u8>,
    arguments: &ViewArgs,
) -> Result<Vec<Shown>, CliError> {
    let language = arguments
        .from
        .unwrap_or_else(|| Language::detect(path, &bytes));
    match language {
        Language::Openchatml => Ok(openchatml_messages(name, &bytes, arguments.show_hidden)),
        Language::Harmony | Language::Ocml0_1 | Language::Chatml => {
            let read = convert::read(
                &bytes,
                language.dialect(),
                &convert::ConvertOptions::default(),
            );
            report(name, &bytes, &read.diagnostics);
            let debug = arguments.show_hidden;
            let frames = read.transcript.frames.into_iter();
            let shown = frames.map(shown_frame);
            Ok(shown.filter(|message| debug || !message.hidden).collect())
        }
        Language::Chatmd => {
            let text = into_text(name, bytes).map_err(|error| source_failure(&error))?;
            chatmd::messages(name, path, &text, arguments.show_hidden)
        }
    }
}

/// Converts a frame of a dialect without call ids.
///
/// The reader generates call ids that are not in the file, so they are not shown.
fn shown_frame(frame: FrameBuf) -> Shown {
    let hidden = !frame.visibility().is_visible();
    let role = frame.role.as_str().unwrap_or("unknown").to_owned();
    let channel = frame.channel;
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
        hidden,
        complete: frame.terminator != Terminator::None,
    }
}

fn openchatml_messages(name: &str, bytes: &[u8], debug: bool) -> Vec<Shown> {
    let document = openchatml::parse(bytes);
    report(name, bytes, document.diagnostics());
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
            hidden: !frame.visibility().is_visible(),
            complete: frame.is_complete(),
        });
    }
    shown
}

/// Reports errors on standard error; the readable part is still shown.
fn report(name: &str, text: &[u8], found: &[logue_source::Diagnostic]) {
    let errors: Vec<_> = found
        .iter()
        .filter(|diagnostic| diagnostic.is_error())
        .collect();
    if errors.is_empty() {
        return;
    }
    let source = Source::new(name, text);
    for diagnostic in errors {
        print_error(&format!("{}\n", source.render(diagnostic, error_style())));
    }
}
