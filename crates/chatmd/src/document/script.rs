//! `<script>` and `<moderator_runtime>` of later versions of ochat, which are refused.
//!
//! Their programs may block or change the calls of tools, so a prompt cannot run without them.

use logue_source::{Diagnostic, DiagnosticCode};

use crate::findings::Findings;
use crate::syntax::tag::Tag;
use crate::syntax::tree::ElementNode;

/// Refuses a `<script>` or a `<moderator_runtime>`.
pub(super) fn refuse(node: ElementNode<'_>, findings: &mut Findings) {
    let kind = node.value("kind");
    let message = match (node.tag(), kind.as_deref()) {
        (Tag::ModeratorRuntime, _) => "this prompt lets a ChatML moderator run programs".to_owned(),
        (_, Some("moderator")) => {
            "this prompt has a ChatML moderator, which may block or change tool calls".to_owned()
        }
        (_, kind) => format!(
            "this prompt has a ChatML script of the kind {:?}, which may block or change tool calls",
            kind.unwrap_or_default()
        ),
    };
    findings.push(
        Diagnostic::error(DiagnosticCode::ScriptUnsupported, message, node.opener()).with_help(
            "ChatML is not run here: remove it and set the permissions of tools in your own \
             settings, or run the prompt in ochat",
        ),
    );
}
