//! Reading the typed view of a tree, one element at a time.
//!
//! Each reader takes an [`ElementNode`] and returns the typed element or reports an error. It also
//! reports content that it omits, because the model does not receive that content.

use std::collections::BTreeMap;

use logue_message::CallKind;
use logue_source::{Diagnostic, DiagnosticCode, Span};

use crate::document::attribute_rules;
use crate::document::document_checks;
use crate::document::element::{
    Document, Element, MessageElement, MessageRole, ReasoningElement, Summary, ToolCallElement,
    ToolResponseElement,
};
use crate::document::fields::{Fields, missing};
use crate::document::ignored::{dropped, no_content};
use crate::document::provenance::{self, HISTORY_ID};
use crate::document::read_config::config;
use crate::document::read_content::{Place, Texts, content};
use crate::document::read_import::{import, literal};
use crate::document::read_tool::read_tool;
use crate::document::script;
use crate::document::shell_access::read_shell_access;
use crate::document::shell_tool::is_shell_tool;
use crate::document::variable::read_variable;
use crate::findings::Findings;
use crate::syntax::advice::{FIX, RAW_SUMMARY};
use crate::syntax::lexer::TokenKind;
use crate::syntax::tag::Tag;
use crate::syntax::tree::{Child, ElementNode, Tree};

impl Document {
    /// Reads the typed view of a tree, with findings beyond [`Tree::diagnostics`].
    ///
    /// Errors: a missing attribute, an invalid value, a tool declaration that violates ChatMD §5.5,
    /// an unknown role or built-in. An element without a required attribute is omitted. Warnings:
    /// content that is not sent to the model (`content-dropped`), attributes without their apparent
    /// effect, unpaired calls and responses, built-ins that only other programs support.
    ///
    /// Linear in the size of the tree, up to the sorting of ids.
    ///
    /// ```
    /// use chatmd::{Document, Element};
    ///
    /// let tree = chatmd::parse("<config model=\"gpt-4o\"/><user>Hello</user>");
    /// let (document, diagnostics) = Document::from_tree(&tree);
    /// assert!(diagnostics.is_empty());
    /// assert!(matches!(&document.elements[1], Element::Message(message)
    ///     if message.tag == chatmd::Tag::User));
    /// ```
    pub fn from_tree(tree: &Tree<'_>) -> (Self, Vec<Diagnostic>) {
        let (mut document, mut findings) = document(tree);
        document.resolve_profiles();
        document_checks::check(&document, &mut findings);
        (document, findings.finish())
    }

    /// Reads a view for its findings, which are those of [`Document::from_tree`].
    ///
    /// Its texts are empty, unless findings depend on them: placeholders are compared with declared
    /// variables.
    pub(crate) fn without_texts(tree: &Tree<'_>) -> (Self, Vec<Diagnostic>) {
        let has_variables = tree.tokens().any(|token| {
            matches!(
                token.kind,
                TokenKind::Open(Tag::Var) | TokenKind::Empty(Tag::Var)
            )
        });
        let texts = if has_variables {
            Texts::Copied
        } else {
            Texts::Omitted
        };
        let (document, mut findings) = elements(tree, texts);
        document_checks::check(&document, &mut findings);
        (document, findings.finish())
    }
}

/// Reads the typed view of a tree, without checks across elements.
pub(crate) fn document(tree: &Tree<'_>) -> (Document, Findings) {
    elements(tree, Texts::Copied)
}

fn elements(tree: &Tree<'_>, texts: Texts) -> (Document, Findings) {
    let mut findings = Findings::default();
    let mut elements = Vec::new();
    let mut has_history = false;
    for node in tree.elements() {
        elements.extend(element(node, texts, &mut has_history, &mut findings));
    }
    if has_history {
        provenance::check(tree, &mut findings);
    }
    sibling_namespaces(&elements, &mut findings);
    (Document { elements }, findings)
}

/// Reports a namespace that two imports of a text have.
fn sibling_namespaces(elements: &[Element], findings: &mut Findings) {
    let mut seen: BTreeMap<&str, Span> = BTreeMap::new();
    for element in elements {
        let Element::Import(import) = element else {
            continue;
        };
        let Some(name) = import.namespace.as_deref() else {
            continue;
        };
        if let Some(first) = seen.insert(name, import.span) {
            findings.push(
                Diagnostic::error(
                    DiagnosticCode::MdInvalidAttribute,
                    format!("two imports have the namespace {name:?}"),
                    import.span,
                )
                .with_label(first, "the first one")
                .with_help("rename one of them"),
            );
        }
    }
}

fn element(
    node: ElementNode<'_>,
    texts: Texts,
    has_history: &mut bool,
    findings: &mut Findings,
) -> Option<Element> {
    match node.tag() {
        Tag::Config => {
            attribute_rules::read(node, findings);
            no_content(node, findings);
            Some(Element::Config(config(node, findings)))
        }
        Tag::Tool => {
            if !is_shell_tool(node) {
                attribute_rules::read(node, findings);
            }
            read_tool(node, findings).map(Element::Tool)
        }
        Tag::Var => {
            let fields = attribute_rules::read(node, findings);
            no_content(node, findings);
            read_variable(&fields, findings).map(Element::Variable)
        }
        tag if tag.is_entry() => {
            let fields = attribute_rules::read(node, findings);
            *has_history |= fields.has(HISTORY_ID);
            entry(&fields, texts, findings)
        }
        Tag::Import => {
            attribute_rules::read(node, findings);
            no_content(node, findings);
            Some(Element::Import(import(node, findings)))
        }
        Tag::Script | Tag::ModeratorRuntime => {
            script::refuse(node, findings);
            None
        }
        Tag::ShellAccess => read_shell_access(node, findings).map(Element::ShellAccess),
        // The lexer recognises these inside a `<tool>` only.
        tag if tag.is_tool_part() => {
            attribute_rules::read(node, findings);
            findings.push(dropped(node, "a document"));
            None
        }
        tag => {
            let parent = if tag == Tag::Summary {
                "a `<reasoning>`"
            } else {
                "a message"
            };
            findings.push(
                Diagnostic::warning(
                    DiagnosticCode::ContentDropped,
                    format!("`<{tag}>` outside every message is not sent to the model"),
                    node.opener(),
                )
                .with_help(format!("move it into {parent}")),
            );
            None
        }
    }
}

/// Reads an entry of the conversation.
fn entry(fields: &Fields<'_>, texts: Texts, findings: &mut Findings) -> Option<Element> {
    match fields.node.tag() {
        Tag::User => Some(message(fields, MessageRole::User, texts, findings)),
        Tag::Assistant => Some(message(fields, MessageRole::Assistant, texts, findings)),
        Tag::System => Some(message(fields, MessageRole::System, texts, findings)),
        Tag::Developer => Some(message(fields, MessageRole::Developer, texts, findings)),
        Tag::Msg => msg(fields, texts, findings),
        Tag::ToolCall => tool_call(fields, texts, findings),
        Tag::ToolResponse => Some(tool_response(fields, texts, findings)),
        Tag::Reasoning => Some(Element::Reasoning(reasoning(fields, texts, findings))),
        _ => None,
    }
}

fn message(
    fields: &Fields<'_>,
    role: MessageRole,
    texts: Texts,
    findings: &mut Findings,
) -> Element {
    let node = fields.node;
    let place = match role {
        MessageRole::Assistant => Place::WithoutImports,
        MessageRole::User | MessageRole::System | MessageRole::Developer => Place::WithImports,
    };
    Element::Message(MessageElement {
        span: node.span(),
        opener: node.opener(),
        tag: node.tag(),
        role,
        id: fields.text("id"),
        status: fields.text("status"),
        name: fields.text("name"),
        phase: fields.text("phase"),
        signature: fields.text("signature"),
        continued: fields.has("continued"),
        content: content(node, place, texts, findings),
    })
}

fn msg(fields: &Fields<'_>, texts: Texts, findings: &mut Findings) -> Option<Element> {
    let node = fields.node;
    let Some(role) = fields.attribute("role") else {
        findings.push(missing(node, "role", "`role=\"user\"`"));
        return None;
    };
    let role = match role.value().as_ref() {
        "user" => MessageRole::User,
        "assistant" => MessageRole::Assistant,
        "system" => MessageRole::System,
        "developer" => MessageRole::Developer,
        "tool" if fields.has("tool_call") => return tool_call(fields, texts, findings),
        "tool" => return Some(tool_response(fields, texts, findings)),
        other => {
            findings.push(
                Diagnostic::error(
                    DiagnosticCode::MdUnknownRole,
                    format!("unknown role {other:?}"),
                    role.place(),
                )
                .with_expected("user, assistant, system, developer or tool")
                .with_help("use one of the five roles"),
            );
            return None;
        }
    };
    Some(message(fields, role, texts, findings))
}

fn tool_call(fields: &Fields<'_>, texts: Texts, findings: &mut Findings) -> Option<Element> {
    let node = fields.node;
    let content = content(node, Place::WithoutImports, texts, findings);
    let tool_call_id = fields.required("tool_call_id", findings);
    let function_name = fields.required("function_name", findings);
    if content.is_empty() {
        findings.push(
            Diagnostic::error(
                DiagnosticCode::MdMissingContent,
                "tool call without arguments",
                node.opener(),
            )
            .with_expected("arguments, or a `<doc …/>` that holds them")
            .with_help("write `RAW|{}|RAW` for a call without arguments"),
        );
        return None;
    }
    Some(Element::ToolCall(ToolCallElement {
        span: node.span(),
        opener: node.opener(),
        tag: node.tag(),
        tool_call_id: tool_call_id?,
        function_name: function_name?,
        kind: call_kind(fields),
        id: fields.text("id"),
        signature: fields.text("signature"),
        content,
    }))
}

fn tool_response(fields: &Fields<'_>, texts: Texts, findings: &mut Findings) -> Element {
    let node = fields.node;
    Element::ToolResponse(ToolResponseElement {
        span: node.span(),
        opener: node.opener(),
        tag: node.tag(),
        tool_call_id: fields.required("tool_call_id", findings),
        kind: call_kind(fields),
        id: fields.text("id"),
        content: content(node, Place::WithoutImports, texts, findings),
    })
}

fn call_kind(fields: &Fields<'_>) -> CallKind {
    match fields.value("type").as_deref() {
        Some("custom_tool_call") => CallKind::Custom,
        _ => CallKind::Function,
    }
}

fn reasoning(fields: &Fields<'_>, texts: Texts, findings: &mut Findings) -> ReasoningElement {
    let node = fields.node;
    let mut summaries = Vec::new();
    for child in node.children() {
        match child {
            Child::Node(inner) if inner.tag() == Tag::Summary => {
                summaries.push(summary(inner, texts, findings));
            }
            Child::Node(inner) => findings.push(dropped(inner, "`<reasoning>`")),
            Child::Text(run) if run.is_blank() => {}
            Child::Text(run) => findings.push(
                Diagnostic::warning(
                    DiagnosticCode::ContentDropped,
                    "text of a `<reasoning>` outside its summaries is not sent to the model",
                    run.span(),
                )
                .with_help("put it into a `<summary>`"),
            ),
        }
    }
    ReasoningElement {
        span: node.span(),
        id: fields.required("id", findings),
        provider_id: fields.has("provider_id"),
        status: fields.text("status"),
        signature: fields.text("signature"),
        encrypted: fields.text("encrypted"),
        continued: fields.has("continued"),
        summaries,
    }
}

fn summary(node: ElementNode<'_>, texts: Texts, findings: &mut Findings) -> Summary {
    attribute_rules::read(node, findings);
    let mut only_text = true;
    let mut text = String::new();
    let mut payload = String::new();
    let mut has_payload = false;
    for child in node.children() {
        match child {
            Child::Text(_) if texts == Texts::Omitted => {}
            Child::Text(run) => {
                text.push_str(&run.content());
                match run.payload() {
                    Some(raw) => {
                        payload.push_str(&raw);
                        has_payload = true;
                    }
                    None => only_text &= run.is_blank(),
                }
            }
            Child::Node(inner) if inner.tag() == Tag::Import => text.push_str(&literal(inner)),
            Child::Node(inner) => findings.push(quoted_tag(inner)),
        }
    }
    Summary {
        span: node.span(),
        text: if has_payload && only_text {
            payload
        } else {
            text
        },
    }
}

/// Returns the error for an element inside a summary.
///
/// A summary is text, so the element was meant as text. Ignoring it would change the reasoning that
/// is sent to the model.
fn quoted_tag(node: ElementNode<'_>) -> Diagnostic {
    let tag = node.tag();
    Diagnostic::error(
        DiagnosticCode::MdSummaryElement,
        format!("a `<summary>` must be text, but contains the element `<{tag}>`"),
        node.opener(),
    )
    .with_help(RAW_SUMMARY)
    .with_help(FIX)
}
