//! Checks across elements: unique names and ids, matching calls and responses, existing tools.

use std::collections::{BTreeMap, HashMap};

use logue_source::{Diagnostic, DiagnosticCode, Span};

use crate::document::element::{Document, Element};
use crate::document::tool::{BUILTINS, BuiltinDeclaration, ToolKind};
use crate::document::variable;
use crate::findings::Findings;
use crate::suggest::suggest;

pub(crate) fn check(document: &Document, findings: &mut Findings) {
    configs(document, findings);
    tools(document, findings);
    calls(document, findings);
    runtimes(document, findings);
    variable::check(document, findings);
}

/// Reports a runtime that no `<shell_access>` describes, and ids of two of them.
///
/// A restriction that the author expects would otherwise be lost.
fn runtimes(document: &Document, findings: &mut Findings) {
    let mut ids: BTreeMap<&str, Span> = BTreeMap::new();
    let mut is_open = false;
    for element in &document.elements {
        match element {
            Element::ShellAccess(access) => {
                if let Some(first) = ids.insert(&access.id, access.span) {
                    findings.push(
                        Diagnostic::error(
                            DiagnosticCode::MdToolDeclaration,
                            format!("duplicate id {:?} of a `<shell_access>`", access.id),
                            access.span,
                        )
                        .with_label(first, "the first one")
                        .with_help("remove or rename one of them"),
                    );
                }
            }
            Element::Import(_) => is_open = true,
            _ => {}
        }
    }
    for tool in document.tools().filter(|_| !is_open) {
        let Some(shell) = &tool.shell else { continue };
        if ids.contains_key(shell.runtime.as_str()) {
            continue;
        }
        let help = if ids.is_empty() {
            "add `<shell_access id=\"…\" extends=\"builtin:workspace-readonly@1\"/>`, or \
             `builtin:workspace-development@1`, to the file that declares the tool"
                .to_owned()
        } else {
            let ids: Vec<&str> = ids.keys().copied().collect();
            format!(
                "the accepted ids are {}; a `namespace` of an import is a part of the ids in it",
                ids.join(", ")
            )
        };
        findings.push(
            Diagnostic::error(
                DiagnosticCode::MdToolDeclaration,
                format!(
                    "no `<shell_access>` that is accepted here has the id {:?}, which the `runtime` \
                     of this tool names",
                    shell.runtime
                ),
                tool.span,
            )
            .with_help(help),
        );
    }
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
                "this `<config>` has no effect; the first one is used",
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
                    findings.push_with(DiagnosticCode::MdUnknownTool, || unknown(name, tool.span));
                    continue;
                }
                Some(builtin) if !builtin.supported => {
                    findings.push(unsupported(name, tool.span));
                }
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
                    format!("duplicate tool name `{name}`"),
                    tool.span,
                )
                .with_label(first, "the first one")
                .with_help("remove or rename one of them"),
            ),
            None => names.extend(exposed.into_iter().map(|name| (name, tool.span))),
        }
    }
}

/// Returns the warning about a built-in tool of ochat that is not offered.
fn unsupported(name: &str, span: Span) -> Diagnostic {
    let (message, help) = match name {
        "meta_refine" => (
            "\"meta_refine\" rewrites prompts with hidden model calls, which are not made here"
                .to_owned(),
            "calls of it are rejected; use an agent tool with a prompt that you can read"
                .to_owned(),
        ),
        name => (
            format!("the built-in tool `{name}` of ochat is not supported"),
            format!("calls of it are rejected; supported are {}", supported()),
        ),
    };
    Diagnostic::warning(DiagnosticCode::ToolUnsupported, message, span).with_help(help)
}

fn unknown(name: &str, span: Span) -> Diagnostic {
    let error = Diagnostic::error(
        DiagnosticCode::MdUnknownTool,
        format!("unknown built-in tool {name:?}"),
        span,
    )
    .with_expected(format!("one of {}", supported()));
    let names = BUILTINS
        .iter()
        .flat_map(|builtin| builtin.exposed.iter().copied().chain([builtin.declared]));
    // The exposed name of a tool may differ from the declared one.
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
    error.with_help("add `command`, `agent` or `mcp_server` to declare a tool that is not built in")
}

/// Returns the names of the supported built-ins.
fn supported() -> String {
    let names: Vec<&str> = BUILTINS
        .iter()
        .filter(|builtin| builtin.supported)
        .map(|builtin| builtin.declared)
        .collect();
    names.join(", ")
}

/// The spans of a call and of its response.
struct Call {
    span: Span,
    answer: Option<Span>,
}

/// Pairs each response with the nearest preceding call of the same id.
fn calls(document: &Document, findings: &mut Findings) {
    // A transcript has many calls, and comparisons of their ids would take a tenth of a check.
    let mut calls: HashMap<&str, Call> = HashMap::new();
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
                            DiagnosticCode::CallSchema,
                            format!("two calls have the id {id:?}"),
                            call.opener,
                        )
                        .with_label(earlier.span, "the earlier call")
                        .with_expected("an id of its own")
                        .with_help("give each call of the conversation another id"),
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
                            format!("no preceding tool call has the id {id:?}"),
                            response.opener,
                        )
                        .with_help("remove it; providers reject a response without its call"),
                    ),
                    Some(call) => match call.answer {
                        Some(first) => findings.push(
                            Diagnostic::warning(
                                DiagnosticCode::DuplicateId,
                                format!("duplicate response to the tool call {id:?}"),
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
    let open = calls.into_iter().filter(|(_, call)| call.answer.is_none());
    let open: BTreeMap<&str, Span> = open.map(|(id, call)| (id, call.span)).collect();
    for (id, span) in open {
        findings.push(unanswered(id, span));
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
