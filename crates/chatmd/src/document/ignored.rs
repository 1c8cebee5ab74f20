//! Warnings about content that the model does not receive.

use logue_source::{Diagnostic, DiagnosticCode};

use crate::findings::Findings;
use crate::syntax::tree::{Child, ElementNode};

/// The warning that an element inside another one does not reach the model.
pub(super) fn dropped(node: ElementNode<'_>, within: &str) -> Diagnostic {
    let tag = node.tag();
    let written = if node.is_self_closing() {
        format!("<{tag} …/>")
    } else {
        format!("<{tag}>…</{tag}>")
    };
    Diagnostic::warning(
        DiagnosticCode::ContentDropped,
        format!("the model does not see this `<{tag}>`, because it stands inside {within}"),
        node.opener(),
    )
    .with_help(format!(
        "if it is meant as text, put it into a RAW block: `RAW|{written}|RAW`"
    ))
}

/// Reports content where none has a meaning.
pub(super) fn no_content(node: ElementNode<'_>, findings: &mut Findings) {
    let tag = node.tag();
    for child in node.children() {
        match child {
            Child::Node(inner) => findings.push(dropped(inner, &format!("`<{tag}>`"))),
            Child::Text(run) if run.is_blank() => {}
            Child::Text(run) => findings.push(
                Diagnostic::warning(
                    DiagnosticCode::ContentDropped,
                    format!("the model does not see text inside `<{tag}>`"),
                    run.span(),
                )
                .with_help(format!("end the tag in `/>`: `<{tag} …/>`")),
            ),
        }
    }
}

/// Reports what stands inside an element that is all attributes.
pub(super) fn stub(node: ElementNode<'_>, findings: &mut Findings) {
    let says_something = node.children().any(|child| match child {
        Child::Node(_) => true,
        Child::Text(run) => !run.is_blank(),
    });
    if says_something {
        let tag = node.tag();
        findings.push(
            Diagnostic::warning(
                DiagnosticCode::ContentDropped,
                format!("the model does not see what stands inside `<{tag}>`"),
                node.opener(),
            )
            .with_help(format!("end the tag in `/>`: `<{tag} …/>`")),
        );
    }
}
