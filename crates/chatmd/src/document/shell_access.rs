//! `<shell_access>` of later versions of ochat.
//!
//! Only a label for a known profile is accepted. Rules that are not enforced are refused as a whole.

use logue_source::{Diagnostic, DiagnosticCode, Span};

use crate::document::strict::{optional, unrepeated};
use crate::findings::Findings;
use crate::syntax::tree::{Child, ElementNode};

/// A `<shell_access>` that names a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShellAccess {
    /// Span of the element.
    pub span: Span,
    /// Name that the `runtime` of a tool refers to, qualified by the namespaces of imports.
    pub id: String,
    /// The profile.
    pub profile: ShellProfile,
}

/// A profile of the programs that a prompt starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ShellProfile {
    /// Programs read the directories of the prompt and change nothing.
    ReadOnly,
    /// Programs read and change the directories of the prompt.
    Development,
}

impl ShellProfile {
    /// Returns the profile with that name, with or without its version.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let name = name.strip_prefix("builtin:")?;
        match name.strip_suffix("@1").unwrap_or(name) {
            "workspace-readonly" => Some(Self::ReadOnly),
            "workspace-development" => Some(Self::Development),
            _ => None,
        }
    }
}

/// Reads a `<shell_access>`; refuses one with rules.
pub(super) fn read_shell_access(
    node: ElementNode<'_>,
    findings: &mut Findings,
) -> Option<ShellAccess> {
    if !unrepeated(node, findings) {
        return None;
    }
    let id = optional(node, "id");
    let name = id.as_deref().unwrap_or_default();
    let mut rules: Vec<String> = Vec::new();
    for attribute in node.attributes() {
        if !["id", "extends"].contains(&attribute.name()) {
            add(&mut rules, attribute.name());
        }
    }
    for child in node.children() {
        match child {
            Child::Text(run) if !run.is_blank() => sections(&run.content(), &mut rules),
            Child::Text(_) => {}
            Child::Node(inner) => add(&mut rules, inner.tag().as_str()),
        }
    }
    let extends = node.attribute("extends");
    let named = extends.map(|it| it.value()).unwrap_or_default();
    let (message, place) = if !rules.is_empty() {
        (
            format!(
                "<shell_access id={name:?}> sets rules that are not enforced here ({})",
                rules.join(", ")
            ),
            node.opener(),
        )
    } else if let Some(extends) = extends.filter(|it| it.value().trim() != "") {
        match (ShellProfile::parse(named.trim()), &id) {
            (Some(profile), Some(id)) => {
                return Some(ShellAccess {
                    span: node.span(),
                    id: id.clone(),
                    profile,
                });
            }
            (Some(_), None) => ("<shell_access> has no `id`".to_owned(), node.opener()),
            (None, _) => (
                format!(
                    "<shell_access id={name:?}> extends {named:?}, which is not available here"
                ),
                extends.place(),
            ),
        }
    } else {
        (
            format!(
                "<shell_access id={name:?}> extends no profile, and its rules are not enforced here"
            ),
            node.opener(),
        )
    };
    findings.push(
        Diagnostic::error(DiagnosticCode::ShellAccessUnsupported, message, place).with_help(
            "its tools are not offered; remove it and set the permissions of commands in your own \
             settings, or name `builtin:workspace-readonly@1` or \
             `builtin:workspace-development@1` without further rules",
        ),
    );
    None
}

/// Adds the names of the outermost elements of verbatim content.
fn sections(text: &str, rules: &mut Vec<String>) {
    const SECTIONS: [&str; 11] = [
        "capabilities",
        "resolver",
        "environment",
        "limits",
        "backends",
        "policy",
        "approvals",
        "reviewers",
        "interceptors",
        "effect_analysis",
        "secrets",
    ];
    let before = rules.len();
    for part in text.split('<').skip(1) {
        let end = part.find(|it: char| !(it.is_ascii_lowercase() || it == '_'));
        let name = part.get(..end.unwrap_or(part.len())).unwrap_or_default();
        if SECTIONS.contains(&name) || name == "audit" {
            add(rules, name);
        }
    }
    if rules.len() == before {
        add(rules, "its content");
    }
}

fn add(rules: &mut Vec<String>, name: &str) {
    if !rules.iter().any(|rule| rule == name) {
        rules.push(name.to_owned());
    }
}
