//! Reading content: text, documents, images, agents, imports.

use logue_source::{Diagnostic, DiagnosticCode};

use crate::document::attribute_rules;
use crate::document::content::{
    AgentElement, ContentItem, DocumentRef, Image, MAX_AGENT_DEPTH, Text,
};
use crate::document::fields::source;
use crate::document::ignored::{dropped, stub};
use crate::document::read_import::{import, literal};
use crate::document::variable;
use crate::findings::Findings;
use crate::syntax::advice::FIX;
use crate::syntax::tag::Tag;
use crate::syntax::tree::{Child, ElementNode, TextRun, Tree};

/// The treatment of imports in content (ChatMD §9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Imports expand.
    WithImports,
    /// Imports are text.
    WithoutImports,
}

/// The treatment of texts in content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Texts {
    /// Texts are copied.
    Copied,
    /// Texts are empty, for findings without the view.
    Omitted,
}

/// Reads the content of an element.
pub(crate) fn content(
    node: ElementNode<'_>,
    place: Place,
    texts: Texts,
    findings: &mut Findings,
) -> Vec<ContentItem> {
    let within = Within {
        parent: Parent::Element(node.tag()),
        mended: true,
        place,
        texts,
    };
    items(node.children(), within, 0, findings)
}

/// Reads the content that an imported text contributes to a message.
pub(crate) fn fragment(tree: &Tree<'_>, findings: &mut Findings) -> Vec<ContentItem> {
    let within = Within {
        parent: Parent::Import,
        mended: false,
        place: Place::WithImports,
        texts: Texts::Copied,
    };
    items(tree.content(), within, 0, findings)
}

/// The parent of content, and the treatment of its items.
#[derive(Clone, Copy)]
struct Within {
    parent: Parent,
    /// Whether a repair turns elements without a meaning there into text.
    mended: bool,
    place: Place,
    texts: Texts,
}

/// The parent of content, as reports name it.
#[derive(Clone, Copy)]
enum Parent {
    /// An element.
    Element(Tag),
    /// A text that a message imports.
    Import,
}

impl std::fmt::Display for Parent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Element(tag) => write!(f, "`<{tag}>`"),
            Self::Import => f.write_str("a text that a message imports"),
        }
    }
}

/// Reads items; recursion ends at [`MAX_AGENT_DEPTH`].
fn items<'t>(
    children: impl Iterator<Item = Child<'t>>,
    within: Within,
    depth: usize,
    findings: &mut Findings,
) -> Vec<ContentItem> {
    // Most content is one text.
    let mut items = Vec::with_capacity(1);
    for child in children {
        let inner = match child {
            Child::Text(run) => {
                items.push(ContentItem::Text(text(run, within.texts)));
                continue;
            }
            Child::Node(inner) => inner,
        };
        match inner.tag() {
            Tag::Doc | Tag::Img | Tag::Agent => drop(attribute_rules::read(inner, findings)),
            Tag::Import if within.place == Place::WithImports => {
                drop(attribute_rules::read(inner, findings));
            }
            _ => {}
        }
        match inner.tag() {
            Tag::Doc => {
                stub(inner, findings);
                items.push(ContentItem::Doc(DocumentRef {
                    span: inner.span(),
                    src: source(inner, findings),
                    local: inner.has("local"),
                    strip: inner.has("strip"),
                    markdown: inner.has("markdown"),
                }));
            }
            Tag::Img => {
                stub(inner, findings);
                items.push(ContentItem::Img(Image {
                    span: inner.span(),
                    src: source(inner, findings),
                    local: inner.has("local"),
                }));
            }
            Tag::Agent if depth == MAX_AGENT_DEPTH => findings.push(
                Diagnostic::error(
                    DiagnosticCode::MdUnsupported,
                    format!("agents nest more than {MAX_AGENT_DEPTH} deep"),
                    inner.opener(),
                )
                .with_help("let a prompt call the next agent instead"),
            ),
            Tag::Agent => {
                let src = source(inner, findings);
                let within = Within {
                    parent: Parent::Element(Tag::Agent),
                    place: Place::WithImports,
                    ..within
                };
                let content = self::items(inner.children(), within, depth + 1, findings);
                items.push(ContentItem::Agent(AgentElement {
                    span: inner.span(),
                    src,
                    local: inner.has("local"),
                    content,
                }));
            }
            Tag::Import if within.place == Place::WithImports => {
                stub(inner, findings);
                items.push(ContentItem::Import(import(inner, findings)));
            }
            Tag::Import => items.push(ContentItem::Text(Text {
                span: inner.span(),
                text: literal(inner),
                payload: None,
                placeholders: Vec::new(),
            })),
            _ => {
                let warning = dropped(inner, within.parent);
                findings.push(if within.mended {
                    warning.with_help(FIX)
                } else {
                    warning
                });
            }
        }
    }
    items
}

fn text(run: TextRun<'_>, texts: Texts) -> Text {
    if texts == Texts::Omitted {
        return Text {
            span: run.span(),
            text: String::new(),
            payload: None,
            placeholders: Vec::new(),
        };
    }
    Text {
        span: run.span(),
        text: run.content().into_owned(),
        payload: run.payload().map(std::borrow::Cow::into_owned),
        placeholders: placeholders(run),
    }
}

/// Returns the placeholders of a run outside its RAW blocks.
fn placeholders(run: TextRun<'_>) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    for piece in run.pieces() {
        if !piece.raw {
            let ranges = variable::placeholders(piece.text);
            found.extend(ranges.map(|range| at + range.start..at + range.end));
        }
        at += piece.text.len();
    }
    found
}
