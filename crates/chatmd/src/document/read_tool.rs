//! Reading `<tool>`, by the rules of ChatMD §5.5.

use logue_source::{Diagnostic, DiagnosticCode};

use crate::document::ignored::no_content;
use crate::document::read_root::read_roots;
use crate::document::shell_tool::{is_shell_tool, read_shell_tool, reports_foreign_part};
use crate::document::strict;
use crate::document::tool::{BUILTINS, ToolDecl, ToolKind};
use crate::findings::Findings;
use crate::syntax::attributes::Attribute;
use crate::syntax::tree::{Child, ElementNode};
use crate::syntax::whitespace::trim;

/// Maximum size in bytes of a prompt's description of a built-in tool.
const MAX_NOTE_LEN: usize = 2 << 10;

/// Reads a tool declaration; `None` if it violates ChatMD §5.5.
pub(super) fn read_tool(node: ElementNode<'_>, findings: &mut Findings) -> Option<ToolDecl> {
    if is_shell_tool(node) {
        return read_shell_tool(node, findings);
    }
    let name = node.value("name").unwrap_or_default();
    let reads = ["read_file", "get_contents"].contains(&trim(&name));
    if !reads {
        if reports_foreign_part(node, findings) {
            return None;
        }
        no_content(node, findings);
        return plain_tool(node, findings);
    }
    let has_roots = node
        .children()
        .any(|child| matches!(child, Child::Node(inner) if inner.tag().is_tool_part()));
    if !has_roots && !reports_foreign_part(node, findings) {
        // Other text has no effect.
        no_content(node, findings);
        return plain_tool(node, findings);
    }
    let is_valid = strict::unrepeated(node, findings);
    let roots = read_roots(node, findings).filter(|_| is_valid)?;
    let tool = plain_tool(node, findings)?;
    if !roots.is_empty() && !matches!(tool.kind, ToolKind::Builtin { .. }) {
        reports_foreign_part(node, findings);
        return None;
    }
    Some(ToolDecl { roots, ..tool })
}

/// Reads a tool declaration without parts.
fn plain_tool(node: ElementNode<'_>, findings: &mut Findings) -> Option<ToolDecl> {
    let shapes: Vec<_> = ["command", "agent", "mcp_server"]
        .into_iter()
        .filter_map(|name| node.attribute(name))
        .collect();
    if let [first, second, ..] = shapes.as_slice() {
        findings.push(
            Diagnostic::error(
                DiagnosticCode::MdToolDeclaration,
                format!(
                    "a tool cannot have both `{}` and `{}`",
                    first.name(),
                    second.name()
                ),
                second.name_span(),
            )
            .with_expected("at most one of `command`, `agent` and `mcp_server`")
            .with_label(first.name_span(), "the other one")
            .with_help("declare each tool in a `<tool …/>` of its own"),
        );
        return None;
    }
    let text = |name: &str| {
        let value = node.value(name)?;
        let value = trim(&value);
        (!value.is_empty()).then(|| value.to_owned())
    };
    let shape = shapes.first();
    if let Some(shape) = shape
        && trim(&shape.value()).is_empty()
    {
        findings.push(
            Diagnostic::error(
                DiagnosticCode::MdToolDeclaration,
                format!("empty `{}` of a tool", shape.name()),
                shape.place(),
            )
            .with_expected(match shape.name() {
                "command" => "a command",
                "agent" => "the path or address of a prompt",
                _ => "the address of a server",
            })
            .with_help("add a value, or remove it to declare a built-in tool"),
        );
        return None;
    }
    let value = shape.map(|shape| shape.value().into_owned());
    let note = shape.is_none().then(|| text("description")).flatten();
    if let (Some(note), Some(attribute)) = (&note, node.attribute("description"))
        && note.len() > MAX_NOTE_LEN
    {
        findings.push(
            Diagnostic::warning(
                DiagnosticCode::ContentDropped,
                format!(
                    "only the first {MAX_NOTE_LEN} bytes of this description of a built-in tool \
                     are sent to the model"
                ),
                attribute.place(),
            )
            .with_help("shorten it, or put the instructions into a `<system>` message"),
        );
    }
    let kind = match (shape.map(Attribute::name), value) {
        (Some("mcp_server"), Some(server)) => ToolKind::McpServer {
            server,
            names: mcp_names(node),
            strict: node.has("strict"),
        },
        (shape, value) => {
            let Some(name) = text("name") else {
                findings.push(no_name(node));
                return None;
            };
            let description = text("description");
            match (shape, value) {
                (Some("command"), Some(command)) => ToolKind::Command {
                    name,
                    command,
                    description,
                },
                (Some(_), Some(agent)) => ToolKind::Agent {
                    name,
                    agent,
                    local: node.has("local"),
                    description,
                },
                _ => ToolKind::Builtin { name },
            }
        }
    };
    Some(ToolDecl {
        span: node.span(),
        kind,
        note,
        roots: Vec::new(),
        shell: None,
    })
}

/// Returns the selected tools of a server; `None` selects all.
///
/// `name` selects one tool, `include` or else `includes` a list.
fn mcp_names(node: ElementNode<'_>) -> Option<Vec<String>> {
    let name = node.value("name").filter(|name| !trim(name).is_empty());
    if let Some(name) = name {
        return Some(vec![trim(&name).to_owned()]);
    }
    let list = node.value("include").or_else(|| node.value("includes"))?;
    Some(list.split(',').map(|name| trim(name).to_owned()).collect())
}

fn no_name(node: ElementNode<'_>) -> Diagnostic {
    let names: Vec<&str> = BUILTINS
        .iter()
        .filter(|builtin| builtin.supported)
        .map(|builtin| builtin.declared)
        .collect();
    let (message, place) = match node.attribute("name") {
        Some(name) => ("empty name of a tool", name.place()),
        None => ("missing name of a tool", node.opener()),
    };
    Diagnostic::error(DiagnosticCode::MdToolDeclaration, message, place)
        .with_expected("`name=\"…\"`")
        .with_help(format!(
            "add a name; the built-in tools are {}",
            names.join(", ")
        ))
        .with_help("put a `<tool>` that is meant as text into a RAW block")
}
