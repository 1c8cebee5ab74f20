//! The losses of converting a ChatMD document to a transcript.
//!
//! Attributes are compared with the short list of converted ones, so unknown attributes are listed
//! too. A loss that many elements share is listed once with their number: each of the hundreds of
//! records of a session has an id.

use std::collections::{BTreeMap, BTreeSet};

use chatmd::write::INTERRUPTED;
use chatmd::{
    Child, Document, Element, ElementNode, Evaluation, ReferenceKind, Tag, TokenKind, ToolDecl,
    ToolKind, Tree,
};
use logue_message::{CallKind, ChatMessage, Content, ContentBlock, ToolCall};
use logue_source::{Diagnostic, DiagnosticCode, SourceMap, Span};
use openchatml::{FrameBuf, Loss, LossKind, LossTarget, messages_from_frames};

use crate::conversion::chatmd::builtin_of;
use crate::conversion::chatmd::payloads::Payloads;

/// Creates a loss that concerns the whole conversation.
pub(crate) fn conversation_loss(kind: LossKind, text: impl Into<String>) -> Loss {
    Loss::new(LossTarget::Transcript, kind, text)
}

/// A document and its evaluation.
pub(crate) struct ParsedDocument<'r> {
    pub(crate) map: &'r SourceMap<'r>,
    /// The tree of the document, and those of expanded documents.
    pub(crate) trees: &'r [Tree<'r>],
    pub(crate) document: &'r Document,
    pub(crate) evaluation: &'r Evaluation,
    pub(crate) payloads: &'r Payloads,
    /// The values of filled variables.
    pub(crate) values: &'r BTreeMap<String, String>,
    /// Whether the other variables stay variables.
    pub(crate) has_variables: bool,
    /// The spans of references that are kept as text.
    pub(crate) kept: &'r [Span],
    /// Whether the other references are expanded.
    pub(crate) is_expanded: bool,
}

impl ParsedDocument<'_> {
    /// Returns all losses: those of the whole document, then those with a line.
    ///
    /// `found` has the diagnostics of the parser.
    pub(crate) fn losses(&self, found: &[Diagnostic]) -> Vec<Loss> {
        let mut losses = Vec::new();
        losses.extend(self.tools());
        losses.extend(self.descriptions());
        losses.extend(self.variables());
        losses.extend(self.comments());
        losses.extend(self.attributes());
        losses.extend(self.summaries());
        let mut places = self.places(found);
        places.sort_by_key(|(at, _, _)| *at);
        losses.extend(places.into_iter().map(|(at, kind, what)| {
            conversation_loss(kind, format!("{}: {what}", place(self.map, at)))
        }));
        losses
    }

    fn tools(&self) -> Option<Loss> {
        let tools = self.document.tools();
        let lost = tools.filter(|tool| builtin_of(tool).is_none());
        let names: Vec<&str> = lost.map(name_of).collect();
        let list = names.join(", ");
        match names.len() {
            0 => None,
            1 => Some(conversation_loss(
                LossKind::DeclarationDropped,
                format!("the tool declaration dropped: {list}"),
            )),
            count => Some(conversation_loss(
                LossKind::DeclarationDropped,
                format!("{count} tool declarations dropped: {list}"),
            )),
        }
    }

    /// Returns the losses of built-in tools whose words for the model are dropped.
    fn descriptions(&self) -> impl Iterator<Item = Loss> {
        let tools = self.document.tools();
        let described = tools.filter(|tool| tool.note.is_some() && builtin_of(tool).is_some());
        described.map(|tool| {
            let text = format!("the description of the tool {} dropped", name_of(tool));
            conversation_loss(LossKind::DeclarationChanged, text)
        })
    }

    /// Returns the loss of declarations whose placeholders stay in the text.
    fn variables(&self) -> Option<Loss> {
        let names = self.document.variables().map(|it| it.name.as_str());
        let names: BTreeSet<&str> = names
            .filter(|name| !self.values.contains_key(*name))
            .collect();
        let list = names.iter().copied().collect::<Vec<_>>().join(", ");
        (!names.is_empty() && !self.has_variables).then(|| {
            conversation_loss(
                LossKind::DeclarationDropped,
                format!("variables dropped, their placeholders stay: {list}"),
            )
        })
    }

    fn comments(&self) -> Option<Loss> {
        let tokens = self.trees.iter().flat_map(Tree::tokens);
        let comments = tokens.filter(|token| token.kind == TokenKind::Comment);
        match comments.count() {
            0 => None,
            1 => Some(conversation_loss(
                LossKind::CommentDropped,
                "a comment dropped",
            )),
            count => Some(conversation_loss(
                LossKind::CommentDropped,
                format!("{count} comments dropped"),
            )),
        }
    }

    fn attributes(&self) -> Vec<Loss> {
        let mut lost: BTreeMap<(Tag, &str), usize> = BTreeMap::new();
        let mut count =
            |node: ElementNode<'_>, name| *lost.entry((node.tag(), name)).or_default() += 1;
        let mut first_config = true;
        for node in self.trees.iter().flat_map(Tree::elements) {
            // Declarations and ignored configurations are listed as a whole.
            let listed = match node.tag() {
                Tag::Tool => true,
                Tag::Config => !std::mem::take(&mut first_config),
                tag => !tag.is_entry(),
            };
            if listed {
                continue;
            }
            for attribute in node.attributes() {
                let is_kept = carried(node.tag()).contains(&attribute.name())
                    || (attribute.name() == "phase" && node.tag() == Tag::Assistant)
                    || (attribute.name() == "status"
                        && attribute.value() == INTERRUPTED
                        && node.tag() == Tag::Assistant);
                if !is_kept {
                    count(node, attribute.name());
                }
            }
            for child in node.children() {
                if let Child::Node(inner) = child
                    && inner.tag() == Tag::Summary
                {
                    for attribute in inner.attributes() {
                        count(inner, attribute.name());
                    }
                }
            }
        }
        let mut losses: Vec<Loss> = Vec::new();
        for ((tag, name), count) in lost {
            let of = if count == 1 {
                format!("a `<{tag}>`")
            } else {
                format!("{count} `<{tag}>`")
            };
            let kind = if name == "id" || name == "ochat-history-id" {
                LossKind::IdDropped
            } else {
                LossKind::AttributeDropped
            };
            losses.push(conversation_loss(kind, format!("`{name}` of {of} dropped")));
        }
        losses
    }

    fn summaries(&self) -> Option<Loss> {
        let elements = self.document.elements.iter();
        let joined = elements.filter(|element| {
            matches!(element, Element::Reasoning(reasoning) if reasoning.summaries.len() > 1)
        });
        match joined.count() {
            0 => None,
            1 => Some(conversation_loss(
                LossKind::PartsJoined,
                "the summaries of a `<reasoning>` joined to one",
            )),
            count => Some(conversation_loss(
                LossKind::PartsJoined,
                format!("the summaries of {count} `<reasoning>` joined to one each"),
            )),
        }
    }

    /// Returns the losses that have a position.
    ///
    /// These are content that the model would not receive either, references that are not fetched,
    /// and records without content.
    fn places(&self, found: &[Diagnostic]) -> Vec<(usize, LossKind, String)> {
        let mut places = Vec::new();
        let unseen = found.iter().filter(|found| {
            matches!(
                found.code,
                DiagnosticCode::ContentDropped | DiagnosticCode::ConfigIgnored
            )
        });
        places.extend(
            unseen.map(|found| (found.primary.start, kind_of(found), found.message.clone())),
        );
        let mut listed_spans: Vec<Span> = self.document.tools().map(|tool| tool.span).collect();
        for reference in self.document.references() {
            let is_kept = self
                .kept
                .iter()
                .any(|kept| kept.start <= reference.span.start && reference.span.end <= kept.end);
            if self.is_expanded && !is_kept {
                continue;
            }
            listed_spans.push(reference.span);
            let (kind, what) = match reference.kind {
                kind if is_kept => (LossKind::ReferenceKept, kept_text(kind)),
                // The declaration is listed, and an image with a URL is converted if the frames can
                // hold it.
                ReferenceKind::AgentTool | ReferenceKind::ResponseSchema => continue,
                ReferenceKind::Image if !reference.local => continue,
                ReferenceKind::Document | ReferenceKind::Image
                    if self.payloads.has_read(reference.src) =>
                {
                    continue;
                }
                ReferenceKind::Image => (LossKind::ImageDropped, "an image is not fetched"),
                ReferenceKind::Import => (LossKind::PartDropped, "an import is not expanded"),
                _ => (LossKind::PartDropped, "a document is not fetched"),
            };
            places.push((reference.span.start, kind, what.to_owned()));
        }
        listed_spans.sort_unstable_by_key(|span| span.start);
        for found in &self.evaluation.diagnostics {
            // It is an error, so nothing is converted.
            if found.code == DiagnosticCode::MdPayloadChanged {
                continue;
            }
            let known = listed_spans.binary_search_by_key(&found.primary.start, |span| span.start);
            if known.is_err() {
                places.push((found.primary.start, kind_of(found), found.message.clone()));
            }
        }
        places.extend(self.records());
        places
    }

    fn records(&self) -> Vec<(usize, LossKind, String)> {
        let mut places = Vec::new();
        let mut kinds: BTreeMap<&str, CallKind> = BTreeMap::new();
        for element in &self.document.elements {
            match element {
                Element::Reasoning(reasoning)
                    if reasoning.summaries.iter().all(|one| one.text.is_empty()) =>
                {
                    let what = "a `<reasoning>` without words dropped".to_owned();
                    places.push((reasoning.span.start, LossKind::EmptyDropped, what));
                }
                Element::ToolCall(call) => {
                    kinds.insert(&call.tool_call_id, call.kind);
                }
                Element::ToolResponse(response) => {
                    let id = response.tool_call_id.as_deref().unwrap_or_default();
                    let kind = kinds.get(id).copied().unwrap_or(CallKind::Function);
                    if kind != response.kind {
                        let what = "the `type` of a response becomes that of its call".to_owned();
                        places.push((response.span.start, LossKind::TypeChanged, what));
                    }
                }
                _ => {}
            }
        }
        places
    }
}

/// Returns a loss if reading the frames back gives differently grouped messages.
///
/// No content is lost, but frames have one order: reasoning after a call reads back as reasoning
/// before it.
pub(crate) fn regrouped(messages: &[ChatMessage], frames: &[FrameBuf]) -> Option<Loss> {
    let (back, _) = messages_from_frames(frames);
    let same = back.len() == messages.len()
        && back
            .iter()
            .zip(messages)
            .all(|(back, message)| parts(back) == parts(message));
    (!same).then(|| {
        conversation_loss(
            LossKind::Regrouped,
            "consecutive answers of the assistant are grouped differently",
        )
    })
}

/// Returns the reasoning, the text and the calls of a message.
fn parts(message: &ChatMessage) -> (Vec<&str>, String, &[ToolCall]) {
    let thoughts = match &message.content {
        Content::Blocks(blocks) => blocks
            .iter()
            .filter_map(|block| match block {
                ContentBlock::Thinking { text, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    };
    (thoughts, message.text(), &message.tool_calls)
}

/// Returns the line of an address, with the file if that is an imported one.
fn place(map: &SourceMap<'_>, address: usize) -> String {
    if map.import_chain(address).is_empty() {
        let line = map.line_column(address).map_or(1, |place| place.line);
        return format!("line {line}");
    }
    map.place(address)
}

/// Returns the words for a reference that stays in the text of its message.
const fn kept_text(kind: ReferenceKind) -> &'static str {
    match kind {
        ReferenceKind::Agent => "an agent is not asked, its element stays as text",
        ReferenceKind::Import => "an import is not expanded, its element stays as text",
        ReferenceKind::Image => "an image is not fetched, its element stays as text",
        _ => "a document is not fetched, its element stays as text",
    }
}

/// Returns the kind of loss that a diagnostic of a document reports.
fn kind_of(found: &Diagnostic) -> LossKind {
    match found.code {
        DiagnosticCode::ConfigIgnored => LossKind::SettingDropped,
        _ if found.message.starts_with("empty") => LossKind::EmptyDropped,
        _ => LossKind::TextDropped,
    }
}

/// Returns the attributes that a transcript keeps.
const fn carried(tag: Tag) -> &'static [&'static str] {
    match tag {
        Tag::Config => &[
            "model",
            "max_tokens",
            "temperature",
            "reasoning_effort",
            "top_p",
            "seed",
            "stop",
            "tool_choice",
        ],
        Tag::User | Tag::Assistant | Tag::System | Tag::Developer => &["name"],
        Tag::Msg => &[
            "role",
            "name",
            "type",
            "tool_call",
            "tool_call_id",
            "function_name",
        ],
        // Forms without them list them when they are written.
        Tag::Reasoning => &["signature", "encrypted"],
        Tag::ToolCall => &["tool_call_id", "function_name", "type"],
        Tag::ToolResponse => &["tool_call_id", "type"],
        _ => &[],
    }
}

fn name_of(tool: &ToolDecl) -> &str {
    match &tool.kind {
        // Its URL may contain a key.
        ToolKind::McpServer { .. } => "an MCP server",
        ToolKind::Builtin { name }
        | ToolKind::Command { name, .. }
        | ToolKind::AnyProgram { name, .. }
        | ToolKind::Agent { name, .. } => name,
        _ => "",
    }
}
