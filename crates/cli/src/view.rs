//! `logue view`: what a person may see of a conversation.
//!
//! All languages become the same list of shown messages; what is hidden stays hidden unless it is
//! asked for by name of flag (OpenChatML 2.2 §4, §5).

use std::io;
use std::path::Path;

use logue_agent::{into_text, read_all, read_bytes};
use logue_source::{Source, Style, visible};
use openchatml::{FrameBuf, Terminator, View, convert};
use serde_json::{Map, Value, json};

use crate::arguments::ViewArgs;
use crate::exit::{Exit, Failure};
use crate::folder::find_files;
use crate::language::Language;
use crate::run::source_failure;
use crate::terminal::{closed_pipe_is_done, complain, error_style, output_style, print};

/// One message as it is shown.
struct Shown {
    role: String,
    channel: Option<String>,
    /// Recipient, call id and the like, for the heading.
    details: Vec<(&'static str, String)>,
    text: String,
    hidden: bool,
    complete: bool,
}

pub(crate) fn view(arguments: &ViewArgs) -> Result<Exit, Failure> {
    if arguments.file.is_dir() {
        return view_folder(arguments);
    }
    let stdin = arguments.file.as_os_str() == "-";
    let name = if stdin {
        "<stdin>".to_owned()
    } else {
        arguments.file.display().to_string()
    };
    let read = if stdin {
        read_all(&name, io::stdin().lock())
    } else {
        read_bytes(&arguments.file)
    };
    let bytes = read.map_err(|error| source_failure(&error))?;
    let path: Option<&Path> = (!stdin).then_some(arguments.file.as_path());
    let shown = messages(&name, path, bytes, arguments)?;
    closed_pipe_is_done(print_messages(&shown, arguments.json))
}

/// Every conversation in a folder, each under its name. One that cannot be shown does not hide the
/// others.
fn view_folder(arguments: &ViewArgs) -> Result<Exit, Failure> {
    let mut exit = Exit::Done;
    let mut first = true;
    for file in find_files(&arguments.file, Language::is_candidate)? {
        let name = file.display().to_string();
        let shown = read_bytes(&file)
            .map_err(|error| source_failure(&error))
            .and_then(|bytes| {
                let prose = file.extension().is_some_and(|ending| ending == "md")
                    && !std::str::from_utf8(&bytes).is_ok_and(Language::looks_like_chatmd);
                if prose {
                    return Ok(None);
                }
                messages(&name, Some(&file), bytes, arguments).map(Some)
            });
        let shown = match shown {
            Ok(None) => continue,
            Ok(Some(shown)) => shown,
            Err(failure) => {
                crate::report(&failure);
                exit = failure.exit;
                continue;
            }
        };
        let gap = if first { "" } else { "\n" };
        first = false;
        let printed = if arguments.json {
            print_json(&shown, Some(&name))
        } else {
            print(&format!("{gap}==> {} <==\n", visible(&name)))
                .and_then(|()| print_messages(&shown, false))
        };
        match printed {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Exit::Done),
            printed => closed_pipe_is_done(printed).map(drop)?,
        }
    }
    Ok(exit)
}

fn messages(
    name: &str,
    path: Option<&Path>,
    bytes: Vec<u8>,
    arguments: &ViewArgs,
) -> Result<Vec<Shown>, Failure> {
    let language = arguments.lang.unwrap_or_else(|| Language::of(path, &bytes));
    match language {
        Language::Openchatml => Ok(openchatml_messages(name, &bytes, arguments.debug_channels)),
        Language::Harmony | Language::Ocml0_1 | Language::Chatml => {
            let read = convert::read(&bytes, language.dialect(), &convert::Options::default());
            report(name, &bytes, &read.diagnostics);
            let debug = arguments.debug_channels;
            let frames = read.transcript.frames.into_iter();
            let shown = frames.map(shown_frame);
            Ok(shown.filter(|message| debug || !message.hidden).collect())
        }
        Language::Chatmd => {
            let text = into_text(name, bytes).map_err(|error| source_failure(&error))?;
            chatmd_messages(name, &text, arguments.debug_channels)
        }
    }
}

/// A frame of a dialect that has no ids of calls: those that it was given when it was read are not
/// in the file, so they are not shown.
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
        hidden,
        complete: frame.terminator != Terminator::None,
    }
}

fn print_json(messages: &[Shown], file: Option<&str>) -> io::Result<()> {
    messages.iter().try_for_each(|message| {
        let mut value = message.to_json();
        if let Some(file) = file {
            value["file"] = json!(file);
        }
        print(&format!("{value}\n"))
    })
}

fn print_messages(messages: &[Shown], as_json: bool) -> io::Result<()> {
    if as_json {
        return print_json(messages, None);
    }
    let colour = output_style() == Style::Colour;
    for (number, message) in messages.iter().enumerate() {
        let mut heading = message.role.clone();
        if let Some(channel) = &message.channel {
            heading.push_str(&format!(" · {channel}"));
        }
        for (key, value) in &message.details {
            heading.push_str(&format!(" · {key} {value}"));
        }
        if message.hidden {
            heading.push_str(" · hidden from users");
        }
        if !message.complete {
            heading.push_str(" · incomplete");
        }
        let heading = visible(&heading);
        let gap = if number == 0 { "" } else { "\n" };
        if colour {
            // The heading is ours and harmless; only our own codes may drive the terminal.
            let code = if message.hidden { "2" } else { "1" };
            io::Write::write_all(
                &mut io::stdout().lock(),
                format!("{gap}\u{1b}[{code}m{heading}\u{1b}[0m\n").as_bytes(),
            )?;
        } else {
            print(&format!("{gap}{heading}\n"))?;
        }
        let end = if message.text.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        print(&format!("{}{end}", message.text))?;
    }
    Ok(())
}

impl Shown {
    fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("role".into(), json!(self.role));
        object.insert("channel".into(), json!(self.channel));
        for (key, value) in &self.details {
            object.insert((*key).into(), json!(value));
        }
        object.insert("content".into(), json!(self.text));
        object.insert("hidden".into(), json!(self.hidden));
        object.insert("complete".into(), json!(self.complete));
        Value::Object(object)
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
            hidden: !frame.visibility().is_visible(),
            complete: frame.is_complete(),
        });
    }
    shown
}

/// Reports errors on standard error; what could be read is shown all the same.
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
        complain(&format!("{}\n", source.render(diagnostic, error_style())));
    }
}

/// The elements of a document, in order. Documents that a message names are not fetched: `view`
/// shows the file.
fn chatmd_messages(name: &str, text: &str, debug: bool) -> Result<Vec<Shown>, Failure> {
    let tree = chatmd::parse(text);
    let (document, typed) = chatmd::Document::from_tree(&tree);
    report(name, text.as_bytes(), tree.diagnostics());
    report(name, text.as_bytes(), &typed);
    let shown = document
        .elements
        .iter()
        .filter_map(|element| shown_element(element, text));
    let shown: Vec<Shown> = shown.filter(|message| debug || !message.hidden).collect();
    let first = tree
        .diagnostics()
        .iter()
        .chain(&typed)
        .find(|diagnostic| diagnostic.is_error());
    if let (true, Some(error)) = (shown.is_empty(), first) {
        return Err(Failure::user(
            error.code.as_str(),
            format!("`{name}` holds no message that can be shown"),
        )
        .with_help("correct the errors above; `logue check` lists them all"));
    }
    Ok(shown)
}

fn shown_element(element: &chatmd::Element, text: &str) -> Option<Shown> {
    use chatmd::Element;
    let (role, details, content, hidden) = match element {
        Element::Message(message) => {
            let hidden = matches!(
                message.speaker,
                chatmd::Speaker::System | chatmd::Speaker::Developer
            );
            let details = message
                .name
                .iter()
                .map(|name| ("name", name.clone()))
                .collect();
            (
                message.speaker.as_str(),
                details,
                items(&message.content, text),
                hidden,
            )
        }
        Element::ToolCall(call) => {
            let details = vec![
                ("to", call.function_name.clone()),
                ("call_id", call.tool_call_id.clone()),
            ];
            ("assistant", details, items(&call.content, text), true)
        }
        Element::ToolResponse(response) => {
            let id = response.tool_call_id.iter();
            let details = id.map(|id| ("call_id", id.clone())).collect();
            ("tool", details, items(&response.content, text), true)
        }
        Element::Reasoning(reasoning) => {
            let summaries: Vec<&str> = reasoning
                .summaries
                .iter()
                .map(|summary| summary.text.as_str())
                .collect();
            ("assistant", Vec::new(), summaries.join("\n"), true)
        }
        _ => return None,
    };
    let channel = match element {
        Element::Reasoning(_) => Some("analysis".to_owned()),
        Element::ToolCall(_) => Some("commentary".to_owned()),
        _ => None,
    };
    let role = role.to_owned();
    Some(Shown {
        role,
        channel,
        details,
        text: content,
        hidden,
        complete: true,
    })
}

/// Content as text: what is inlined when the prompt runs is shown as it is written.
fn items(items: &[chatmd::Item], text: &str) -> String {
    let shown = items.iter().map(|item| match item {
        chatmd::Item::Text(run) => run.text.clone(),
        other => other.span().text(text).unwrap_or_default().to_owned(),
    });
    shown.collect::<String>().trim_matches('\n').to_owned()
}
