//! Meta-refine: rules for prompts that a model rewrites before a run (ChatMD §10).
//!
//! The caller performs the rewriting. This module detects the request for it, determines the part
//! of a file that is the prompt, and validates the rewritten prompt: only text may change, no
//! permission and no setting.

use logue_source::Span;

use crate::document::content::ContentItem;
use crate::document::element::{Config, Document, Element, MessageRole};
use crate::document::shell_access::ShellAccess;
use crate::document::variable::Variable;
use crate::syntax::builder::parse;
use crate::syntax::lexer::{COMMENT_CLOSE, COMMENT_OPEN, TokenKind};
use crate::syntax::tag::Tag;
use crate::syntax::tree::Tree;

/// The text of the comment that requests refinement.
const MARKER: &str = "META_REFINE";

/// Returns whether a document requests refinement by a `META_REFINE` comment.
///
/// The comment contains nothing else. RAW blocks and attributes have no comments, so tool output
/// cannot request refinement.
///
/// ```
/// use chatmd::{parse, refine};
///
/// assert!(refine::is_requested(&parse("<!-- META_REFINE --><user>Hello</user>")));
/// assert!(!refine::is_requested(&parse("<user>RAW|<!-- META_REFINE -->|RAW</user>")));
/// ```
pub fn is_requested(tree: &Tree<'_>) -> bool {
    tree.tokens().any(|token| {
        let text = token.span.text(tree.source()).unwrap_or_default();
        let inside = text
            .strip_prefix(COMMENT_OPEN)
            .and_then(|text| text.strip_suffix(COMMENT_CLOSE));
        token.kind == TokenKind::Comment && inside.is_some_and(|text| text.trim() == MARKER)
    })
}

/// Returns whether a value is `1`, `true`, `yes` or `on`, in any case.
///
/// ```
/// assert!(chatmd::refine::is_truthy(" Yes "));
/// assert!(!chatmd::refine::is_truthy("0"));
/// ```
pub fn is_truthy(value: &str) -> bool {
    let value = value.trim();
    ["1", "true", "yes", "on"]
        .iter()
        .any(|word| value.eq_ignore_ascii_case(word))
}

/// Returns the length of the prompt part of a text.
///
/// The part ends before the first element that a run has appended. The following history must not
/// be rewritten.
///
/// ```
/// let text = "<user>Hello</user>\n<assistant>Hi</assistant>\n<user>And?</user>";
/// let length = chatmd::refine::prompt_length(&chatmd::parse(text));
/// assert_eq!(&text[..length], "<user>Hello</user>\n");
/// ```
pub fn prompt_length(tree: &Tree<'_>) -> usize {
    let is_record = |tag: Tag| {
        matches!(
            tag,
            Tag::Assistant | Tag::ToolCall | Tag::ToolResponse | Tag::Reasoning
        )
    };
    let first = tree.elements().find(|node| {
        let role = node.value("role");
        is_record(node.tag())
            || node.tag() == Tag::Msg && matches!(role.as_deref(), Some("assistant" | "tool"))
    });
    first.map_or(tree.source().len(), |node| node.span().start)
}

/// Returns a description of a forbidden change by a rewritten prompt, if any.
///
/// Settings, tool declarations, imports and the order of roles must stay equal. Every referenced
/// document, image and agent must have been referenced before, because otherwise a model could grant
/// itself permissions.
pub fn forbidden_change(original: &str, rewritten: &str) -> Option<String> {
    let tree = parse(rewritten);
    let (new, findings) = Document::from_tree(&tree);
    let mut found = tree.diagnostics().iter().chain(&findings);
    if let Some(error) = found.find(|found| found.is_error()) {
        return Some(format!("it is not a valid prompt: {}", error.message));
    }
    let (old, _) = Document::from_tree(&parse(original));
    if settings(&old) != settings(&new) {
        return Some("it changes the settings".to_owned());
    }
    if tools(&old) != tools(&new) {
        return Some("it changes the tool declarations".to_owned());
    }
    if roles(&old) != roles(&new) {
        return Some("it changes the roles of the messages".to_owned());
    }
    let known = references(&old);
    let added = references(&new)
        .into_iter()
        .find(|one| !known.contains(one));
    added.map(|(kind, src, _)| format!("it adds a reference to the {kind} {src:?}"))
}

fn settings(document: &Document) -> impl PartialEq + use<> {
    let config = Config {
        span: Span::default(),
        opener: Span::default(),
        ..document.config().cloned().unwrap_or_default()
    };
    let variables = document.variables().cloned();
    let variables: Vec<Variable> = variables
        .map(|variable| Variable {
            span: Span::default(),
            ..variable
        })
        .collect();
    (config, variables)
}

/// Returns everything that declares tools, without its place in the text.
fn tools(document: &Document) -> Vec<Element> {
    let declarations = document
        .elements
        .iter()
        .filter_map(|element| match element {
            Element::Tool(tool) => {
                let mut tool = tool.clone();
                tool.span = Span::default();
                for root in &mut tool.roots {
                    root.span = Span::default();
                }
                Some(Element::Tool(tool))
            }
            Element::ShellAccess(access) => Some(Element::ShellAccess(ShellAccess {
                span: Span::default(),
                ..access.clone()
            })),
            _ => None,
        });
    declarations.collect()
}

fn roles(document: &Document) -> Vec<MessageRole> {
    let role = |element: &Element| match element {
        Element::Message(message) => Some(message.role),
        _ => None,
    };
    document.elements.iter().filter_map(role).collect()
}

/// Returns all references to external data.
fn references(document: &Document) -> Vec<(&'static str, String, bool)> {
    let mut found = Vec::new();
    for element in &document.elements {
        match element {
            Element::Message(message) => items(&message.content, &mut found),
            Element::ToolCall(call) => items(&call.content, &mut found),
            Element::ToolResponse(response) => items(&response.content, &mut found),
            Element::Import(import) => found.push(("import", import.src.clone(), true)),
            Element::Config(_)
            | Element::Tool(_)
            | Element::Reasoning(_)
            | Element::Variable(_)
            | Element::ShellAccess(_) => {}
        }
    }
    found
}

/// Collects references; recursion ends at [`crate::MAX_AGENT_DEPTH`].
fn items(items: &[ContentItem], found: &mut Vec<(&'static str, String, bool)>) {
    for item in items {
        match item {
            ContentItem::Text(_) => {}
            ContentItem::Doc(doc) => found.push(("document", doc.src.clone(), doc.local)),
            ContentItem::Img(img) => found.push(("image", img.src.clone(), img.local)),
            ContentItem::Import(import) => found.push(("import", import.src.clone(), true)),
            ContentItem::Agent(agent) => {
                found.push(("agent", agent.src.clone(), agent.local));
                self::items(&agent.content, found);
            }
        }
    }
}
