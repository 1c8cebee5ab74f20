//! All findings about one text.

use logue_source::Diagnostic;

use crate::document::element::Document;
use crate::document::tool_use;
use crate::syntax::builder::parse;
use crate::syntax::tree::Tree;

/// Returns all findings about a text without its external files.
///
/// In the order of the text, they are the diagnostics of its tree and of its typed view, and findings without relevance to a
/// run: calls of undeclared tools (`undeclared-tool`) and declared tools without calls
/// (`unused-tool`).
///
/// ```
/// let findings = chatmd::check("<user>Hello</user>\n<doc src=\"a.md\" local/>");
/// assert_eq!(findings[0].code.as_str(), "content-dropped");
/// ```
pub fn check(text: &str) -> Vec<Diagnostic> {
    let tree = parse(text);
    let (document, of_view) = Document::without_texts(&tree);
    findings(&tree, &document, of_view)
}

/// Returns the typed view of a parsed text and all findings, like [`check`].
pub fn check_tree(tree: &Tree<'_>) -> (Document, Vec<Diagnostic>) {
    let (document, of_view) = Document::from_tree(tree);
    let findings = findings(tree, &document, of_view);
    (document, findings)
}

fn findings(tree: &Tree<'_>, document: &Document, of_view: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let of_history = tool_use::check(document);
    let mut findings = [tree.diagnostics().to_vec(), of_view, of_history].concat();
    tool_use::refuse_repeated_ids(&mut findings);
    findings.sort_by_key(|finding| finding.primary.start);
    findings
}
