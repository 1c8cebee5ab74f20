//! Declarations of tools against the calls of them: tools that are called and not declared, and
//! tools that are declared and not called.

use std::collections::BTreeSet;

use logue_source::{Diagnostic, DiagnosticCode, Severity};

use crate::document::content::ContentItem;
use crate::document::element::{Document, Element, MessageRole};
use crate::document::tool::{BuiltinDeclaration, ToolKind};
use crate::findings::Findings;
use crate::suggest::suggest;

/// What the history of a conversation says about its declarations. It concerns whoever looks after
/// the file, not whoever runs it: what was called was called.
pub(crate) fn check(document: &Document) -> Vec<Diagnostic> {
    let mut findings = Findings::default();
    undeclared(document, &mut findings);
    if let Some(note) = unused(document) {
        findings.push(note);
    }
    findings.finish()
}

/// Unused tools that are pointed at beside the first one.
const UNUSED_SHOWN: usize = 20;

/// The names that a document's declarations offer to the model.
struct Offered<'d> {
    names: BTreeSet<&'d str>,
    /// Whether there may be more: a server's whole catalogue, or what an import declares.
    open: bool,
}

fn offered(document: &Document) -> Offered<'_> {
    let mut names = BTreeSet::new();
    let mut open = false;
    for element in &document.elements {
        match element {
            Element::Tool(tool) => match &tool.kind {
                ToolKind::McpServer {
                    names: Some(list), ..
                } => names.extend(list.iter().map(String::as_str)),
                ToolKind::McpServer { names: None, .. } => open = true,
                // Older transcripts call a built-in by the name that declares it.
                ToolKind::Builtin { name } => {
                    names.insert(name);
                    names.extend(tool.exposed_names());
                }
                _ => names.extend(tool.exposed_names()),
            },
            Element::Import(_) => open = true,
            Element::Message(message) => {
                open |= message
                    .content
                    .iter()
                    .any(|item| matches!(item, ContentItem::Import(_)));
            }
            _ => {}
        }
    }
    Offered { names, open }
}

/// Each tool that is called and not declared is reported once, at its first call.
fn undeclared(document: &Document, findings: &mut Findings) {
    let offered = offered(document);
    if offered.open {
        return;
    }
    let mut reported = BTreeSet::new();
    for element in &document.elements {
        let Element::ToolCall(call) = element else {
            continue;
        };
        let name = call.function_name.as_str();
        if offered.names.contains(name) || !reported.insert(name) {
            continue;
        }
        findings.push_made(DiagnosticCode::UndeclaredTool, || {
            let finding = Diagnostic::warning(
                DiagnosticCode::UndeclaredTool,
                format!("the tool {name:?} is called here, but nothing declares it"),
                call.opener,
            );
            finding.with_help(match suggest(name, offered.names.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "declare it with `<tool …/>`; the model may only call what is declared"
                    .to_owned(),
            })
        });
    }
}

/// What is no mistake, but may be left over: tools that a conversation declares and never called.
/// A prompt that nobody has answered yet is none.
fn unused(document: &Document) -> Option<Diagnostic> {
    let answered = document.elements.iter().any(|element| match element {
        Element::Message(message) => message.role == MessageRole::Assistant,
        Element::ToolCall(_) => true,
        _ => false,
    });
    if !answered {
        return None;
    }
    let calls = document
        .elements
        .iter()
        .filter_map(|element| match element {
            Element::ToolCall(call) => Some(call.function_name.as_str()),
            _ => None,
        });
    let called: BTreeSet<&str> = calls.collect();
    let mut unused = document.tools().filter_map(|tool| {
        let names = match &tool.kind {
            ToolKind::Builtin { name } => {
                // Of others it is said already that they cannot be called.
                BuiltinDeclaration::find(name).filter(|builtin| builtin.supported)?;
                let mut names = tool.exposed_names();
                names.insert(0, name);
                names
            }
            // Which tools a whole server has is not known here.
            ToolKind::McpServer { names, .. } => {
                names.as_ref()?.iter().map(String::as_str).collect()
            }
            _ => tool.exposed_names(),
        };
        let used = names.iter().any(|name| called.contains(name));
        (!used).then(|| (*names.first().unwrap_or(&""), tool.span))
    });
    let (name, span) = unused.next()?;
    let mut note = Diagnostic::new(
        Severity::Note,
        DiagnosticCode::UnusedTool,
        format!("the tool `{name}` is never called in this conversation"),
        span,
    )
    .with_help("remove its declaration if the model does not need it any more");
    let mut more = 0_usize;
    for (name, span) in unused {
        more += 1;
        if more <= UNUSED_SHOWN {
            note = note.with_label(span, format!("nor is `{name}`"));
        }
    }
    if let Some(hidden) = more.checked_sub(UNUSED_SHOWN).filter(|hidden| *hidden > 0) {
        note = note.with_help(format!("{hidden} more tools are never called"));
    }
    Some(note)
}
