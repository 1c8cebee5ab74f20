//! Conversion of ChatMD elements to messages.

use std::path::Path;

use ::chatmd::write::INTERRUPTED;
use ::chatmd::{ContentItem, Document, DocumentRef, Element, MessageRole};
use logue_source::Source;

use crate::arguments::ViewArgs;
use crate::commands::view::report;
use crate::commands::view::shown::{Payload, Shown};
use crate::conversion::chatmd::payloads::Payloads;
use crate::exit::CliError;

/// Returns the elements of a document as messages.
///
/// The second value is whether a payload was changed.
///
/// Only payloads beside the transcript are read, to compare their hashes and for `--full`. Other
/// documents that a message names are not fetched.
pub(super) fn messages(
    name: &str,
    path: Option<&Path>,
    text: &str,
    arguments: &ViewArgs,
) -> Result<(Vec<Shown>, bool), CliError> {
    let tree = ::chatmd::parse(text);
    let (document, typed) = Document::from_tree(&tree);
    let source = Source::new(name, text.as_bytes());
    report(&source, tree.diagnostics());
    report(&source, &typed);
    let folder = path.map(|path| path.parent().unwrap_or(Path::new("")));
    let files = Payloads::beside(folder);
    let changed = files.changed(&document);
    report(&source, &changed);
    let content = ContentText {
        source: text,
        folder,
        files: arguments.full.then_some(&files),
    };
    let shown = document.elements.iter();
    let shown = shown.filter_map(|element| shown_element(element, &content));
    let shown: Vec<Shown> = shown
        .filter(|message| arguments.show_hidden || !message.hidden)
        .collect();
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
    Ok((shown, !changed.is_empty()))
}

fn shown_element(element: &Element, text: &ContentText<'_>) -> Option<Shown> {
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
        text: text.items(content),
        payloads: Vec::new(),
        is_inline: false,
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
            text.set_payloads(content, &mut shown);
        }
        Element::ToolResponse(response) => {
            detail("call_id", response.tool_call_id.as_ref());
            "tool".clone_into(&mut shown.role);
            text.set_payloads(content, &mut shown);
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

/// The source of shown content: the text of the file, and payloads beside it.
struct ContentText<'a> {
    source: &'a str,
    folder: Option<&'a Path>,
    /// The payloads to show inline; `None` shows references.
    files: Option<&'a Payloads>,
}

impl ContentText<'_> {
    /// Returns content as text; elements that a run would inline appear as source.
    fn items(&self, items: &[ContentItem]) -> String {
        let shown = items.iter().map(|item| match item {
            ContentItem::Text(run) => run.text.clone(),
            other => self.inline(other).unwrap_or_else(|| {
                let source = other.span().text(self.source);
                source.unwrap_or_default().to_owned()
            }),
        });
        shown.collect::<String>().trim_matches('\n').to_owned()
    }

    /// Returns the text of a payload that is shown inline.
    fn inline(&self, item: &ContentItem) -> Option<String> {
        match item {
            ContentItem::Doc(doc) if is_payload(doc) => self.files?.content(&doc.src),
            _ => None,
        }
    }

    /// Sets the files that hold a payload (ChatMD §7.3).
    fn set_payloads(&self, items: &[ContentItem], shown: &mut Shown) {
        let mut payloads = Vec::new();
        let mut text = String::new();
        for item in items {
            match item {
                ContentItem::Text(run) if run.text.trim().is_empty() && run.payload.is_none() => {}
                ContentItem::Doc(doc) if is_payload(doc) => {
                    let payload = self.payload(&doc.src);
                    match self.inline(item) {
                        Some(content) => {
                            text.push_str(&content);
                            shown.is_inline = true;
                        }
                        None => text.push_str(&payload.line()),
                    }
                    payloads.push(payload);
                }
                ContentItem::Img(img) if img.local => {
                    let payload = self.payload(&img.src);
                    if !(text.is_empty() || text.ends_with('\n')) {
                        text.push('\n');
                    }
                    text.push_str(&payload.line());
                    payloads.push(payload);
                }
                _ => {
                    shown.is_inline = false;
                    return;
                }
            }
        }
        if shown.is_inline {
            shown.text = text;
        }
        shown.payloads = payloads;
    }

    fn payload(&self, src: &str) -> Payload {
        let path = self.folder.map(|folder| folder.join(src));
        let metadata = path.and_then(|path| std::fs::metadata(path).ok());
        let file = metadata.filter(std::fs::Metadata::is_file);
        Payload {
            src: src.to_owned(),
            bytes: file.map(|file| file.len()),
            looked_for: self.folder.is_some(),
        }
    }
}

/// Returns whether a document is inserted as it is.
fn is_payload(doc: &DocumentRef) -> bool {
    doc.local && !doc.strip && !doc.markdown
}
