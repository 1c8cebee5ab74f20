//! `<tool type="shell">` of later versions of ochat: one program with separate arguments.
//!
//! The modes `fixed` and `structured` become commands. The other modes, and parts that depend on
//! rules of a `<shell_access>`, are refused.

use logue_source::{Diagnostic, DiagnosticCode};

use crate::document::read_root::RootBase;
use crate::document::shell_access::ShellProfile;
use crate::document::strict;
use crate::document::tool::{ToolDecl, ToolKind};
use crate::findings::Findings;
use crate::syntax::attributes::Attribute;
use crate::syntax::tag::Tag;
use crate::syntax::tree::{Child, ElementNode};

/// The details of a `<tool type="shell">`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShellDetails {
    /// The label of a `<shell_access>`; it grants nothing.
    pub runtime: String,
    /// The profile of that `<shell_access>`, if the document has one.
    pub profile: Option<ShellProfile>,
    /// Limits of the arguments of a call.
    pub arguments: ArgumentLimits,
}

/// Limits of the arguments that the model adds to a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArgumentLimits {
    /// Minimum number.
    pub min_count: u64,
    /// Maximum number.
    pub max_count: Option<u64>,
    /// Maximum size of one argument in bytes.
    pub max_item_bytes: Option<u64>,
}

/// Attributes of every mode.
const KNOWN: [&str; 12] = [
    "name",
    "type",
    "mode",
    "runtime",
    "description",
    "command",
    "stdin",
    "rationale",
    "result",
    "stream",
    "nonzero",
    "executable_ref",
];

/// Returns whether a `<tool>` is a shell tool.
pub(super) fn is_shell_tool(node: ElementNode<'_>) -> bool {
    let is_shell = |it: Attribute<'_>| it.name() == "type" && it.value() == "shell";
    node.attributes().any(is_shell) || node.has("runtime")
}

/// Reports a root, or a part of a shell tool, inside another `<tool>`.
///
/// It is a restriction or a program in ochat, so it cannot be ignored. Returns whether there is one.
pub(super) fn reports_foreign_part(node: ElementNode<'_>, findings: &mut Findings) -> bool {
    let mut found = false;
    for child in node.children() {
        let (name, place) = match child {
            Child::Node(inner) if inner.tag().is_tool_part() => {
                (inner.tag().as_str().to_owned(), inner.opener())
            }
            Child::Node(_) => continue,
            Child::Text(run) => {
                let text = run.content();
                let name = text.trim_start().strip_prefix('<').and_then(|rest| {
                    let end = rest.find(|it: char| !(it.is_ascii_lowercase() || it == '_'));
                    let name = rest.get(..end.unwrap_or(rest.len()))?;
                    Tag::parse(name).filter(|tag| tag.is_tool_part())
                });
                let Some(name) = name else { continue };
                (name.as_str().to_owned(), run.span())
            }
        };
        found = true;
        let message = format!("`<{name}>` has no meaning in this tool, so it restricts nothing");
        let help = if name == Tag::Read.as_str() {
            "it belongs inside `<tool name=\"read_file\">`"
        } else {
            "it belongs inside `<tool name=\"…\" type=\"shell\" runtime=\"…\">`"
        };
        findings.push(
            Diagnostic::error(DiagnosticCode::MdToolDeclaration, message, place).with_help(help),
        );
    }
    found
}

/// Reads a shell tool; `None` if it is invalid or refused.
pub(super) fn read_shell_tool(node: ElementNode<'_>, findings: &mut Findings) -> Option<ToolDecl> {
    let name = strict::required(node, "name", findings);
    let mode = strict::optional(node, "mode").unwrap_or_else(|| "fixed".to_owned());
    if let Some(what) = refused_mode(&mode) {
        let shown = name.unwrap_or_default();
        let place = node
            .attribute("mode")
            .map_or(node.opener(), |it| it.place());
        let message = format!("tool {shown:?} asks for mode {mode:?}, {what}");
        findings.push(refused(message, place));
        return None;
    }
    let mut errors = Findings::default();
    let runtime = strict::required(node, "runtime", &mut errors);
    strict::attributes(node, &KNOWN, &mut errors);
    if let Some(kind) = node
        .attribute("type")
        .filter(|kind| kind.value() != "shell")
    {
        errors.push(invalid(kind, "`shell`"));
    }
    choices(node, name.as_deref().unwrap_or_default(), &mut errors);
    let description = strict::optional(node, "description");
    let tool = match mode.as_str() {
        "structured" => {
            strict::parts(node, &[], &mut errors);
            for other in ["command", "executable_ref"] {
                if let Some(attribute) = node.attribute(other) {
                    errors.push(invalid(
                        attribute,
                        "no command; the model names the program",
                    ));
                }
            }
            name.map(|name| {
                let kind = ToolKind::AnyProgram { name, description };
                (kind, ArgumentLimits::default())
            })
        }
        "fixed" => {
            let parts = strict::parts(node, &[Tag::Command, Tag::Arguments], &mut errors);
            let command = fixed_command(node, &parts, name.as_deref(), &mut errors);
            let limits = argument_limits(&parts, &mut errors);
            name.zip(command).map(|(name, command)| {
                let kind = ToolKind::Command {
                    name,
                    command,
                    description,
                };
                (kind, limits)
            })
        }
        _ => {
            if let Some(attribute) = node.attribute("mode") {
                errors.push(invalid(attribute, "`fixed` or `structured`"));
            }
            None
        }
    };
    let is_valid = findings.extend(errors);
    let ((kind, arguments), runtime) = tool.zip(runtime).filter(|_| is_valid)?;
    let shell = ShellDetails {
        runtime,
        profile: None,
        arguments,
    };
    Some(ToolDecl {
        span: node.span(),
        kind,
        note: None,
        roots: Vec::new(),
        shell: Some(shell),
    })
}

/// Returns what a refused mode runs.
fn refused_mode(mode: &str) -> Option<&'static str> {
    match mode {
        "raw" => Some("any shell text from the model"),
        "chain" => Some("pipelines from the model"),
        "script" => Some("a script of the prompt"),
        _ => None,
    }
}

fn refused(message: String, place: logue_source::Span) -> Diagnostic {
    Diagnostic::error(DiagnosticCode::ShellModeRefused, message, place).with_help(
        "a tool runs one program with separate arguments; use mode=\"fixed\" or \"structured\"",
    )
}

fn invalid(attribute: Attribute<'_>, expected: &str) -> Diagnostic {
    Diagnostic::error(
        DiagnosticCode::MdInvalidAttribute,
        format!("invalid `{}` {:?}", attribute.name(), attribute.value()),
        attribute.place(),
    )
    .with_expected(expected)
    .with_help(format!("remove or change `{}`", attribute.name()))
}

/// Checks attributes with fixed values; refuses requirements that a command cannot meet.
fn choices(node: ElementNode<'_>, tool: &str, errors: &mut Findings) {
    const CHOICES: [(&str, &[&str]); 5] = [
        ("stdin", &["none", "optional", "required"]),
        ("rationale", &["none", "optional", "required"]),
        ("result", &["combined", "stdout", "structured"]),
        ("stream", &["finalized", "sanitized"]),
        ("nonzero", &["result", "error"]),
    ];
    for (name, values) in CHOICES {
        let Some(attribute) = node.attribute(name).filter(|it| !it.is_flag()) else {
            continue;
        };
        let value = attribute.value();
        if !values.contains(&value.as_ref()) {
            errors.push(invalid(attribute, &format!("one of {}", values.join(", "))));
        } else if value == "required" {
            errors.push(
                Diagnostic::error(
                    DiagnosticCode::ShellModeRefused,
                    format!("tool {tool:?} requires {name}, which commands do not take here"),
                    attribute.place(),
                )
                .with_help(format!("remove `{name}` from the declaration")),
            );
        }
    }
}

/// Returns the command line of a tool in the mode `fixed`.
fn fixed_command(
    node: ElementNode<'_>,
    parts: &[ElementNode<'_>],
    tool: Option<&str>,
    errors: &mut Findings,
) -> Option<String> {
    let tool = tool.unwrap_or_default();
    if let Some(attribute) = node.attribute("executable_ref") {
        errors.push(reference(tool, attribute));
        return None;
    }
    let commands: Vec<_> = parts.iter().filter(|it| it.tag() == Tag::Command).collect();
    match (node.attribute("command"), commands.as_slice()) {
        (Some(_), []) => strict::required(node, "command", errors),
        (None, [command]) => command_words(**command, tool, errors),
        (attribute, commands) => {
            let place = match (attribute, commands) {
                (Some(attribute), _) => attribute.name_span(),
                (None, [_, second, ..]) => second.opener(),
                (None, _) => node.opener(),
            };
            let message = if commands.is_empty() {
                format!("tool {tool:?} has no command")
            } else {
                format!("tool {tool:?} has more than one command")
            };
            errors.push(
                Diagnostic::error(DiagnosticCode::MdToolDeclaration, message, place)
                    .with_expected("one `command=\"…\"` or one `<command program=\"…\">`")
                    .with_help("declare each tool in a `<tool …>` of its own"),
            );
            None
        }
    }
}

/// Returns the error for an executable that a `<shell_access>` would name.
fn reference(tool: &str, attribute: Attribute<'_>) -> Diagnostic {
    let message = format!(
        "tool {tool:?} runs the executable {:?} of a <shell_access>",
        attribute.value()
    );
    Diagnostic::error(DiagnosticCode::ShellModeRefused, message, attribute.place())
        .with_help("name the program: `<command program=\"…\">`")
}

/// Returns the command line of a `<command>`.
fn command_words(node: ElementNode<'_>, tool: &str, errors: &mut Findings) -> Option<String> {
    if let Some(attribute) = node.attribute("executable_ref") {
        errors.push(reference(tool, attribute));
        return None;
    }
    strict::attributes(node, &["program"], errors);
    let mut line = quoted(&strict::required(node, "program", errors)?);
    for part in strict::parts(node, &[Tag::Arg, Tag::PathArg, Tag::SecretArg], errors) {
        let word = match part.tag() {
            Tag::SecretArg => {
                let message = format!("tool {tool:?} passes a secret as an argument");
                errors.push(
                    Diagnostic::error(DiagnosticCode::ShellModeRefused, message, part.opener())
                        .with_help(
                            "remove it, and let your own settings pass the variable to the \
                             command: `[tools] environment`",
                        ),
                );
                None
            }
            Tag::PathArg => path_argument(part, errors),
            _ => {
                strict::attributes(part, &["value"], errors);
                strict::parts(part, &[], errors);
                let value = part.value("value");
                if value.is_none() {
                    strict::required(part, "value", errors);
                }
                value.map(std::borrow::Cow::into_owned)
            }
        };
        line.push(' ');
        line.push_str(&quoted(&word?));
    }
    Some(line)
}

/// Returns the word of a `<path_arg>`, relative to the directory in which commands run.
fn path_argument(node: ElementNode<'_>, errors: &mut Findings) -> Option<String> {
    strict::attributes(node, &["path", "base"], errors);
    strict::parts(node, &[], errors);
    let path = strict::required(node, "path", errors)?;
    let (base, rest) = crate::document::read_root::split(&path);
    let is_plain = !path.contains("${") || rest.len() != path.len();
    let word = match base {
        RootBase::Absolute => Some(path.clone()),
        RootBase::Tools | RootBase::Prompt if is_plain => Some(format!("./{rest}")),
        _ => None,
    };
    let word = word.filter(|_| !node.has("base"));
    if word.is_none() {
        let attribute = node.attribute("base").or_else(|| node.attribute("path"));
        let place = attribute.map_or(node.opener(), |it| it.place());
        errors.push(
            Diagnostic::error(
                DiagnosticCode::MdInvalidAttribute,
                format!("the base of the path argument {path:?} is not available here"),
                place,
            )
            .with_expected("an absolute path, or one relative to the directory of the prompt")
            .with_help("write the path from the directory of the prompt, without `base`"),
        );
    }
    word
}

/// Returns the limits of the arguments that a call adds.
fn argument_limits(parts: &[ElementNode<'_>], errors: &mut Findings) -> ArgumentLimits {
    let mut limits = ArgumentLimits::default();
    let mut all = parts.iter().filter(|it| it.tag() == Tag::Arguments);
    let Some(node) = all.next() else {
        return limits;
    };
    if let Some(second) = all.next() {
        errors.push(
            Diagnostic::error(
                DiagnosticCode::MdToolDeclaration,
                "more than one `<arguments>` of a tool",
                second.opener(),
            )
            .with_help("remove one of them"),
        );
    }
    let known = ["mode", "min_count", "max_count", "max_item_bytes"];
    strict::attributes(*node, &known, errors);
    strict::parts(*node, &[], errors);
    let mut count = |name: &str| {
        let attribute = node.attribute(name)?;
        let number = attribute.value().trim().parse().ok();
        if number.is_none() && !attribute.is_flag() {
            errors.push(invalid(attribute, "a whole number"));
        }
        number
    };
    limits.min_count = count("min_count").unwrap_or(0);
    limits.max_count = count("max_count");
    limits.max_item_bytes = count("max_item_bytes");
    match strict::required(*node, "mode", errors).as_deref() {
        Some("none") => limits.max_count = Some(0),
        Some("required") => limits.min_count = limits.min_count.max(1),
        Some("optional") | None => {}
        Some(_) => {
            if let Some(attribute) = node.attribute("mode") {
                errors.push(invalid(attribute, "`none`, `optional` or `required`"));
            }
        }
    }
    if limits.max_count.is_some_and(|most| most < limits.min_count) {
        errors.push(
            Diagnostic::error(
                DiagnosticCode::MdToolDeclaration,
                "the limits of the arguments exclude every number",
                node.opener(),
            )
            .with_help("raise `max_count`, or lower `min_count`"),
        );
    }
    limits
}

/// Returns a word as a command line that splits into exactly this word.
fn quoted(word: &str) -> String {
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
}
