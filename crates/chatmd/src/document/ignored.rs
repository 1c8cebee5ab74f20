//! Warnings about content that the model does not receive.

use std::fmt::Display;

use logue_source::{Diagnostic, DiagnosticCode};

use crate::findings::Findings;
use crate::syntax::tree::{Child, ElementNode};

/// Returns the warning that a nested element is not sent to the model.
pub(super) fn dropped(node: ElementNode<'_>, within: impl Display) -> Diagnostic {
    let tag = node.tag();
    let written = if node.is_self_closing() {
        format!("<{tag} …/>")
    } else {
        format!("<{tag}>…</{tag}>")
    };
    Diagnostic::warning(
        DiagnosticCode::ContentDropped,
        format!("`<{tag}>` inside {within} is not sent to the model"),
        node.opener(),
    )
    .with_help(format!(
        "put it into a RAW block if it is meant as text: `RAW|{written}|RAW`"
    ))
}

/// Reports content of an element that must be empty.
pub(super) fn no_content(node: ElementNode<'_>, findings: &mut Findings) {
    let tag = node.tag();
    for child in node.children() {
        match child {
            Child::Node(inner) => findings.push(dropped(inner, format_args!("`<{tag}>`"))),
            Child::Text(run) if run.is_blank() => {}
            Child::Text(run) => findings.push(
                Diagnostic::warning(
                    DiagnosticCode::ContentDropped,
                    format!("text inside `<{tag}>` is not sent to the model"),
                    run.span(),
                )
                .with_help(format!("end the tag in `/>`: `<{tag} …/>`")),
            ),
        }
    }
}

/// Reports content of an inline element that must be empty.
pub(super) fn stub(node: ElementNode<'_>, findings: &mut Findings) {
    let has_content = node.children().any(|child| match child {
        Child::Node(_) => true,
        Child::Text(run) => !run.is_blank(),
    });
    if has_content {
        let tag = node.tag();
        findings.push(
            Diagnostic::warning(
                DiagnosticCode::ContentDropped,
                format!("content of `<{tag}>` is not sent to the model"),
                node.opener(),
            )
            .with_help(format!("end the tag in `/>`: `<{tag} …/>`")),
        );
    }
}
