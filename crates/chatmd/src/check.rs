//! All findings about one text.

use logue_source::Diagnostic;

use crate::document::element::Document;
use crate::document::tool_use;
use crate::syntax::builder::parse;
use crate::syntax::tree::Tree;

/// Everything that can be said about a text without the files it names, in the order of the text:
/// the diagnostics of its tree and of its typed view, and what does not concern a run: calls of
/// tools that nothing declares (`undeclared-tool`), and tools that were never called
/// (`unused-tool`).
///
/// ```
/// let findings = chatmd::check("<user>Hello</user>\n<doc src=\"a.md\" local/>");
/// assert_eq!(findings[0].code.as_str(), "content-dropped");
/// ```
pub fn check(text: &str) -> Vec<Diagnostic> {
    check_tree(&parse(text)).1
}

/// The same for a text that is parsed already, with its typed view.
pub fn check_tree(tree: &Tree<'_>) -> (Document, Vec<Diagnostic>) {
    let (document, of_view) = Document::from_tree(tree);
    let of_history = tool_use::check(&document);
    let mut findings = [tree.diagnostics().to_vec(), of_view, of_history].concat();
    findings.sort_by_key(|finding| finding.primary.start);
    (document, findings)
}
