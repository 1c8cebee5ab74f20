//! References of a document: other documents, images, prompts, imports.

use logue_source::Span;

use crate::document::content::{ContentItem, Text};
use crate::document::element::{Document, Element};
use crate::document::tool::ToolKind;

/// One reference of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reference<'d> {
    /// Kind of the reference.
    pub kind: ReferenceKind,
    /// Path or address, as written.
    pub src: &'d str,
    /// Whether `src` is a path instead of an address.
    pub local: bool,
    /// Span of the element.
    pub span: Span,
}

/// The kind of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReferenceKind {
    /// `<doc>` (ChatMD §8.1), in a message or as the payload of a tool.
    Document,
    /// `<img>` (ChatMD §8.2)
    Image,
    /// `<agent>` (ChatMD §8.3)
    Agent,
    /// `<tool agent>` (ChatMD §5.3)
    AgentTool,
    /// `<import>` (ChatMD §9), which is always a file.
    Import,
    /// The schema that a `<config>` names, which is always a file.
    ResponseSchema,
}

impl Document {
    /// Returns all references in the order of the text.
    ///
    /// References in the input of an `<agent>` follow it. A reference with an empty `src` is omitted.
    ///
    /// Linear in the size of the document.
    ///
    /// ```
    /// use chatmd::{Document, ReferenceKind};
    ///
    /// let tree = chatmd::parse("<user>Sum up: <doc src=\"a.md\" local/></user>");
    /// let (document, _) = Document::from_tree(&tree);
    /// let found: Vec<_> = document.references().collect();
    /// assert_eq!((found[0].kind, found[0].src), (ReferenceKind::Document, "a.md"));
    /// assert!(found[0].local);
    /// ```
    pub fn references(&self) -> impl Iterator<Item = Reference<'_>> {
        let found = self.elements.iter().flat_map(|element| {
            let mut found = Vec::new();
            match element {
                Element::Tool(tool) => {
                    if let ToolKind::Agent { agent, local, .. } = &tool.kind {
                        found.push(Reference {
                            kind: ReferenceKind::AgentTool,
                            src: agent,
                            local: *local,
                            span: tool.span,
                        });
                    }
                }
                Element::Import(import) => found.push(Reference {
                    kind: ReferenceKind::Import,
                    src: &import.src,
                    local: true,
                    span: import.span,
                }),
                Element::Message(message) => items(&message.content, &mut found),
                Element::ToolCall(call) => items(&call.content, &mut found),
                Element::ToolResponse(response) => items(&response.content, &mut found),
                Element::Config(config) => {
                    found.extend(config.response_schema.as_ref().map(|src| Reference {
                        kind: ReferenceKind::ResponseSchema,
                        src,
                        local: true,
                        span: config.opener,
                    }));
                }
                Element::Reasoning(_) | Element::Variable(_) | Element::ShellAccess(_) => {}
            }
            found
        });
        found.filter(|reference| !reference.src.is_empty())
    }
}

impl Document {
    /// Replaces items of messages by texts; an item without one stays.
    ///
    /// Conversions use it for references that they do not follow.
    ///
    /// ```
    /// use chatmd::{ContentItem, Document, MemoryWorld, evaluate};
    ///
    /// let text = "<user>Sum up: <doc src=\"a.md\" local/></user>";
    /// let (mut document, _) = Document::from_tree(&chatmd::parse(text));
    /// document.replace_items(|item| match item {
    ///     ContentItem::Doc(doc) => Some(doc.span.text(text)?.to_owned()),
    ///     _ => None,
    /// });
    /// let evaluation = evaluate(&document, &mut MemoryWorld::new());
    /// assert_eq!(evaluation.messages[0].text(), "Sum up: <doc src=\"a.md\" local/>");
    /// ```
    pub fn replace_items(&mut self, mut replacement: impl FnMut(&ContentItem) -> Option<String>) {
        let messages = self
            .elements
            .iter_mut()
            .filter_map(|element| match element {
                Element::Message(message) => Some(message),
                _ => None,
            });
        for item in messages.flat_map(|message| &mut message.content) {
            if let Some(text) = replacement(item) {
                *item = ContentItem::Text(Text {
                    span: item.span(),
                    text,
                    payload: None,
                    placeholders: Vec::new(),
                });
            }
        }
    }
}

/// Collects references; recursion ends at [`crate::MAX_AGENT_DEPTH`].
fn items<'d>(content: &'d [ContentItem], found: &mut Vec<Reference<'d>>) {
    for item in content {
        let (kind, src, local) = match item {
            ContentItem::Text(_) => continue,
            ContentItem::Doc(doc) => (ReferenceKind::Document, &doc.src, doc.local),
            ContentItem::Img(img) => (ReferenceKind::Image, &img.src, img.local),
            ContentItem::Agent(agent) => (ReferenceKind::Agent, &agent.src, agent.local),
            ContentItem::Import(import) => (ReferenceKind::Import, &import.src, true),
        };
        found.push(Reference {
            kind,
            src,
            local,
            span: item.span(),
        });
        if let ContentItem::Agent(agent) = item {
            items(&agent.content, found);
        }
    }
}
