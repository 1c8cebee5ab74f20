//! Undeclared tools with calls, and declared tools without calls.

use std::collections::BTreeSet;

use logue_source::{Diagnostic, DiagnosticCode, Severity};

use crate::document::content::ContentItem;
use crate::document::element::{Document, Element, MessageRole};
use crate::document::tool::{BuiltinDeclaration, ToolDecl, ToolKind};
use crate::findings::Findings;
use crate::suggest::suggest;

/// Compares the calls of a conversation with its declarations.
///
/// The findings concern the author of the file. They do not affect a run.
pub(crate) fn check(document: &Document) -> Vec<Diagnostic> {
    let mut findings = Findings::default();
    undeclared(document, &mut findings);
    if let Some(error) = impossible_choice(document) {
        findings.push(error);
    }
    if let Some(note) = unused(document) {
        findings.push(note);
    }
    findings.finish()
}

/// Makes a repeated call id an error, as in every other form.
///
/// A run only warns of it, since a response belongs to the nearest call before it.
pub(crate) fn refuse_repeated_ids(findings: &mut [Diagnostic]) {
    let repeated = findings.iter_mut();
    for finding in repeated.filter(|finding| finding.code == DiagnosticCode::CallSchema) {
        finding.severity = Severity::Error;
    }
}

/// Maximum number of unused tools that are labelled besides the first one.
const UNUSED_SHOWN: usize = 20;

/// The tool names that a document declares.
struct Offered<'d> {
    names: BTreeSet<&'d str>,
    /// Whether there may be more: all tools of a server, or declarations of an import.
    is_open: bool,
}

fn offered(document: &Document) -> Offered<'_> {
    let mut names = BTreeSet::new();
    let mut is_open = false;
    for element in &document.elements {
        match element {
            Element::Tool(tool) => match &tool.kind {
                ToolKind::McpServer {
                    names: Some(list), ..
                } => names.extend(list.iter().map(String::as_str)),
                ToolKind::McpServer { names: None, .. } => is_open = true,
                // Older transcripts call a built-in by the name that declares it.
                ToolKind::Builtin { name } => {
                    names.insert(name);
                    names.extend(tool.exposed_names());
                }
                _ => names.extend(tool.exposed_names()),
            },
            Element::Import(_) => is_open = true,
            Element::Message(message) => {
                is_open |= message
                    .content
                    .iter()
                    .any(|item| matches!(item, ContentItem::Import(_)));
            }
            _ => {}
        }
    }
    Offered { names, is_open }
}

/// Returns an error for a `tool_choice` that no declared tool fulfils.
fn impossible_choice(document: &Document) -> Option<Diagnostic> {
    let config = document.config()?;
    let choice = config.tool_choice.as_deref()?;
    if matches!(choice, "auto" | "none") || offered(document).is_open {
        return None;
    }
    // Only exposed names of built-in tools can be chosen.
    let names: BTreeSet<&str> = document.tools().flat_map(callable_names).collect();
    let (message, help) = match choice {
        "required" if names.is_empty() => (
            "`tool_choice=\"required\"` without a tool".to_owned(),
            "declare a tool, or remove `tool_choice`".to_owned(),
        ),
        "required" => return None,
        name if names.contains(name) => return None,
        name => (
            format!("the `tool_choice` {name:?} is not a declared tool"),
            choice_help(document, name, &names),
        ),
    };
    let code = DiagnosticCode::MdInvalidAttribute;
    Some(Diagnostic::error(code, message, config.opener).with_help(help))
}

fn choice_help(document: &Document, name: &str, names: &BTreeSet<&str>) -> String {
    let declared = document.tools().find(
        |tool| matches!(&tool.kind, ToolKind::Builtin { name: declared } if declared == name),
    );
    let exposed = declared.and_then(|tool| callable_names(tool).into_iter().next());
    let words = ["auto", "required", "none"];
    let candidates = words.into_iter().chain(names.iter().copied());
    match exposed.or_else(|| suggest(name, candidates)) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => "write `auto`, `required`, `none` or the name of a declared tool".to_owned(),
    }
}

/// Returns the names under which a model can call a tool.
fn callable_names(tool: &ToolDecl) -> Vec<&str> {
    match &tool.kind {
        ToolKind::McpServer { names, .. } => {
            let names = names.iter().flatten();
            names.map(String::as_str).collect()
        }
        ToolKind::Builtin { name } => {
            let known = BuiltinDeclaration::find(name).filter(|builtin| builtin.supported);
            known.map(|_| tool.exposed_names()).unwrap_or_default()
        }
        _ => tool.exposed_names(),
    }
}

/// Reports each undeclared tool once, at its first call.
fn undeclared(document: &Document, findings: &mut Findings) {
    let offered = offered(document);
    if offered.is_open {
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
        findings.push_with(DiagnosticCode::UndeclaredTool, || {
            let finding = Diagnostic::warning(
                DiagnosticCode::UndeclaredTool,
                format!("call of the undeclared tool {name:?}"),
                call.opener,
            );
            finding.with_help(match suggest(name, offered.names.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => {
                    "declare it with `<tool …/>`; the model may call declared tools only".to_owned()
                }
            })
        });
    }
}

/// Returns a note about declared tools that a conversation never called.
///
/// `None` for a prompt without any answer.
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
                // Other built-ins are reported as unknown or unsupported.
                BuiltinDeclaration::find(name).filter(|builtin| builtin.supported)?;
                let mut names = tool.exposed_names();
                names.insert(0, name);
                names
            }
            // The tools of a server are unknown unless they are listed.
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
        format!("unused tool `{name}`"),
        span,
    )
    .with_help("remove its declaration if the model no longer needs it");
    let mut more = 0_usize;
    for (name, span) in unused {
        more += 1;
        if more <= UNUSED_SHOWN {
            note = note.with_label(span, format!("unused tool `{name}`"));
        }
    }
    if let Some(hidden) = more.checked_sub(UNUSED_SHOWN).filter(|hidden| *hidden > 0) {
        note = note.with_help(format!("{hidden} more tools are unused"));
    }
    Some(note)
}
