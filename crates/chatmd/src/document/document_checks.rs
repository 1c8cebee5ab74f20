//! Checks that concern several elements: names and ids that must be unique, calls and responses
//! that belong together, tools that exist.

use std::collections::BTreeMap;

use logue_source::{Diagnostic, DiagnosticCode, Span};

use crate::document::element::{Document, Element};
use crate::document::tool::{BUILTINS, BuiltinDeclaration, ToolKind};
use crate::findings::Findings;
use crate::suggest::suggest;

pub(crate) fn check(document: &Document, findings: &mut Findings) {
    configs(document, findings);
    tools(document, findings);
    calls(document, findings);
}

fn configs(document: &Document, findings: &mut Findings) {
    let mut spans = document
        .elements
        .iter()
        .filter_map(|element| match element {
            Element::Config(config) => Some(config.opener),
            _ => None,
        });
    let Some(first) = spans.next() else { return };
    for span in spans {
        findings.push(
            Diagnostic::warning(
                DiagnosticCode::ConfigIgnored,
                "this `<config>` has no effect, because the first one counts",
                span,
            )
            .with_label(first, "the first one")
            .with_help("merge the two"),
        );
    }
}

fn tools(document: &Document, findings: &mut Findings) {
    let mut names: BTreeMap<&str, Span> = BTreeMap::new();
    for tool in document.tools() {
        if let ToolKind::Builtin { name } = &tool.kind {
            match BuiltinDeclaration::find(name) {
                None => {
                    findings.push_made(DiagnosticCode::MdUnknownTool, || unknown(name, tool.span));
                    continue;
                }
                Some(builtin) if !builtin.supported => findings.push(
                    Diagnostic::warning(
                        DiagnosticCode::ToolUnsupported,
                        format!("the built-in `{name}` exists in ochat, but not here"),
                        tool.span,
                    )
                    .with_help(format!(
                        "calls of it are refused; known here: {}",
                        supported()
                    )),
                ),
                Some(_) => {}
            }
        }
        let exposed = tool.exposed_names();
        let doubled = exposed
            .iter()
            .find_map(|name| Some((*name, *names.get(name)?)));
        match doubled {
            Some((name, first)) => findings.push(
                Diagnostic::error(
                    DiagnosticCode::MdDuplicateTool,
                    format!("two tools are called `{name}`"),
                    tool.span,
                )
                .with_label(first, "the first one")
                .with_help("remove one of them, or give it another name"),
            ),
            None => names.extend(exposed.into_iter().map(|name| (name, tool.span))),
        }
    }
}

fn unknown(name: &str, span: Span) -> Diagnostic {
    let error = Diagnostic::error(
        DiagnosticCode::MdUnknownTool,
        format!("there is no built-in tool {name:?}"),
        span,
    )
    .with_expected(format!("one of {}", supported()));
    let names = BUILTINS
        .iter()
        .flat_map(|builtin| builtin.exposed.iter().copied().chain([builtin.declared]));
    // What the model calls a tool is not always what declares it.
    let meant = suggest(name, names)
        .and_then(|meant| {
            let exact = BuiltinDeclaration::find(meant);
            exact.or_else(|| BUILTINS.iter().find(|builtin| builtin.exposed == [meant]))
        })
        .map(|builtin| format!("did you mean `{}`?", builtin.declared));
    let error = match meant {
        Some(help) => error.with_help(help),
        None => error,
    };
    error.with_help("for a command, an agent or a server add `command`, `agent` or `mcp_server`")
}

/// The names of the built-ins that exist here.
fn supported() -> String {
    let names: Vec<&str> = BUILTINS
        .iter()
        .filter(|builtin| builtin.supported)
        .map(|builtin| builtin.declared)
        .collect();
    names.join(", ")
}

/// What is known of a call id: where the call and its response are.
struct Call {
    span: Span,
    answer: Option<Span>,
}

/// A response belongs to the nearest call before it that has its id.
fn calls(document: &Document, findings: &mut Findings) {
    let mut calls: BTreeMap<&str, Call> = BTreeMap::new();
    for element in &document.elements {
        match element {
            Element::ToolCall(call) => {
                let id = call.tool_call_id.as_str();
                let new = Call {
                    span: call.opener,
                    answer: None,
                };
                if let Some(earlier) = calls.insert(id, new) {
                    findings.push(
                        Diagnostic::warning(
                            DiagnosticCode::DuplicateId,
                            format!("two tool calls have the id {id:?}"),
                            call.opener,
                        )
                        .with_label(earlier.span, "the first one")
                        .with_help("give each call an id of its own"),
                    );
                    if earlier.answer.is_none() {
                        findings.push(unanswered(id, earlier.span));
                    }
                }
            }
            Element::ToolResponse(response) => {
                let Some(id) = response.tool_call_id.as_deref() else {
                    continue;
                };
                match calls.get_mut(id) {
                    None => findings.push(
                        Diagnostic::warning(
                            DiagnosticCode::ResponseWithoutCall,
                            format!("no tool call before this has the id {id:?}"),
                            response.opener,
                        )
                        .with_help("providers refuse a response without its call; remove it"),
                    ),
                    Some(call) => match call.answer {
                        Some(first) => findings.push(
                            Diagnostic::warning(
                                DiagnosticCode::DuplicateId,
                                format!("the tool call {id:?} has two responses"),
                                response.opener,
                            )
                            .with_label(first, "the first one")
                            .with_help("remove one of them"),
                        ),
                        None => call.answer = Some(response.opener),
                    },
                }
            }
            _ => {}
        }
    }
    for (id, call) in calls {
        if call.answer.is_none() {
            findings.push(unanswered(id, call.span));
        }
    }
}

fn unanswered(id: &str, span: Span) -> Diagnostic {
    Diagnostic::warning(
        DiagnosticCode::CallWithoutResponse,
        format!("the tool call {id:?} has no response"),
        span,
    )
    .with_help("add a `<tool_response>` with its id, or remove the call")
}
