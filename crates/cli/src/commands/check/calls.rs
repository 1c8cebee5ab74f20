//! Calls of a ChatMD document against the schemas of the tools that it declares.

use std::path::PathBuf;

use chatmd::{Document, Element, SourcePart, ToolCallElement};
use logue_agent::{declared_schemas, read_bytes};
use logue_message::CallKind;
use logue_source::{Diagnostic, Span};
use logue_tools::Roots;

/// Returns an error for each call that a run would refuse for its arguments.
///
/// Arguments in files are read below `folders`; those of other files are not checked.
pub(super) fn mismatched_calls(
    document: &Document,
    parts: &[SourcePart<'_>],
    folders: &[PathBuf],
) -> Vec<Diagnostic> {
    let is_call = |element: &&Element| matches!(element, Element::ToolCall(_));
    if !document.elements.iter().any(|element| is_call(&element)) {
        return Vec::new();
    }
    let schemas = declared_schemas(document);
    let mut found = Vec::new();
    for element in &document.elements {
        let Element::ToolCall(call) = element else {
            continue;
        };
        // The text of a custom call is not JSON.
        if call.kind == CallKind::Custom {
            continue;
        }
        let name = &call.function_name;
        let finding = match call.arguments_text() {
            Some(text) => {
                let from = text_start(call, text, parts);
                let place = |part: Span| from.map_or(call.opener, |from| part.shifted(from));
                schemas.check(name, text, place)
            }
            None => file_text(call, folders)
                .and_then(|text| schemas.check(name, &text, |_| call.opener)),
        };
        found.extend(finding);
    }
    found
}

/// Returns the address of the arguments, if the source contains them verbatim.
fn text_start(call: &ToolCallElement, text: &str, parts: &[SourcePart<'_>]) -> Option<usize> {
    let is_in = |part: &&SourcePart<'_>| {
        (part.base..part.base + part.text.len()).contains(&call.opener.end)
    };
    let part = parts.iter().find(is_in)?;
    let element = call.opener.end - part.base..call.span.end.checked_sub(part.base)?;
    let start = element.start + part.text.get(element)?.find(text)?;
    Some(part.base + start)
}

/// Returns the arguments of a call in a file.
fn file_text(call: &ToolCallElement, folders: &[PathBuf]) -> Option<String> {
    let src = call.arguments_file()?;
    if Roots::new(folders.to_vec()).ok()?.is_outside(src) {
        return None;
    }
    let mut files = folders.iter().map(|folder| folder.join(src));
    let bytes = read_bytes(&files.find(|path| path.is_file())?).ok()?;
    String::from_utf8(bytes).ok()
}
