//! Conversion of ChatMD elements to messages.

use std::path::Path;

use ::chatmd::write::INTERRUPTED;
use ::chatmd::{ContentItem, Document, Element, MessageRole};
use logue_source::Source;

use crate::commands::view::report;
use crate::commands::view::shown::{Payload, Shown};
use crate::exit::CliError;

/// Returns the elements of a document as messages, in order.
///
/// Documents that a message names are not fetched, as `view` shows only the file.
pub(super) fn messages(
    name: &str,
    path: Option<&Path>,
    text: &str,
    debug: bool,
) -> Result<Vec<Shown>, CliError> {
    let tree = ::chatmd::parse(text);
    let (document, typed) = Document::from_tree(&tree);
    let source = Source::new(name, text.as_bytes());
    report(&source, tree.diagnostics());
    report(&source, &typed);
    let folder = path.map(|path| path.parent().unwrap_or(Path::new("")));
    let shown = document
        .elements
        .iter()
        .filter_map(|element| shown_element(element, text, folder));
    let shown: Vec<Shown> = shown.filter(|message| debug || !message.hidden).collect();
    let first = tree
        .diagnostics()
        .iter()
        .chain(&typed)
        .find(|diagnostic| diagnostic.is_error());
    if let (true, Some(error)) = (shown.is_empty(), first) {
        return Err(CliError::user(
            error.code.as_str(),
            format!("`{name}` contains no message to show"),
        )
        .with_help("correct the errors above, or run `logue check` for all of them"));
    }
    Ok(shown)
}

fn shown_element(element: &Element, text: &str, folder: Option<&Path>) -> Option<Shown> {
    let content: &[ContentItem] = match element {
        Element::Message(message) => &message.content,
        Element::ToolCall(call) => &call.content,
        Element::ToolResponse(response) => &response.content,
        _ => &[],
    };
    let mut shown = Shown {
        role: String::new(),
        channel: None,
        details: Vec::new(),
        text: items(content, text),
        payloads: Vec::new(),
        hidden: true,
        complete: true,
    };
    let mut detail = |key, value: Option<&String>| {
        shown
            .details
            .extend(value.map(|value| (key, value.clone())));
    };
    match element {
        Element::Message(message) => {
            detail("name", message.name.as_ref());
            message.role.as_str().clone_into(&mut shown.role);
            shown.hidden = matches!(message.role, MessageRole::System | MessageRole::Developer);
            shown.complete = message.status.as_deref() != Some(INTERRUPTED);
        }
        Element::ToolCall(call) => {
            detail("to", Some(&call.function_name));
            detail("call_id", Some(&call.tool_call_id));
            "assistant".clone_into(&mut shown.role);
            shown.channel = Some("commentary".to_owned());
            shown.payloads = payloads(content, folder);
        }
        Element::ToolResponse(response) => {
            detail("call_id", response.tool_call_id.as_ref());
            "tool".clone_into(&mut shown.role);
            shown.payloads = payloads(content, folder);
        }
        Element::Reasoning(reasoning) => {
            let summaries = reasoning.summaries.iter();
            let summaries: Vec<&str> = summaries.map(|summary| summary.text.as_str()).collect();
            "assistant".clone_into(&mut shown.role);
            shown.channel = Some("analysis".to_owned());
            shown.text = summaries.join("\n");
        }
        _ => return None,
    }
    Some(shown)
}

/// Returns the files that hold a payload (ChatMD §7.3), empty if the payload is inline.
///
/// The files are not read.
fn payloads(items: &[ContentItem], folder: Option<&Path>) -> Vec<Payload> {
    let mut payloads = Vec::new();
    for item in items {
        match item {
            ContentItem::Text(text) if text.text.trim().is_empty() && text.payload.is_none() => {}
            ContentItem::Doc(doc) if doc.local && !doc.strip && !doc.markdown => {
                payloads.push(payload(&doc.src, folder));
            }
            ContentItem::Img(img) if img.local => payloads.push(payload(&img.src, folder)),
            _ => return Vec::new(),
        }
    }
    payloads
}

fn payload(src: &str, folder: Option<&Path>) -> Payload {
    let metadata = folder.and_then(|folder| std::fs::metadata(folder.join(src)).ok());
    let file = metadata.filter(std::fs::Metadata::is_file);
    Payload {
        src: src.to_owned(),
        bytes: file.map(|file| file.len()),
        looked_for: folder.is_some(),
    }
}

/// Returns content as text; elements that a run would inline appear as source.
fn items(items: &[ContentItem], text: &str) -> String {
    let shown = items.iter().map(|item| match item {
        ContentItem::Text(run) => run.text.clone(),
        other => other.span().text(text).unwrap_or_default().to_owned(),
    });
    shown.collect::<String>().trim_matches('\n').to_owned()
}
