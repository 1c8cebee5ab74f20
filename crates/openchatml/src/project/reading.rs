//! Shared parts of the readers: fields of a message, findings and notes.

use logue_source::{Diagnostic, DiagnosticCode, Span};
use serde_json::Value;

use super::node::{Kind, Node, Object};
use crate::loss::{Loss, LossKind, LossTarget};
use crate::syntax::findings::Findings;

/// A conversation that is being read.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub(super) findings: Findings,
    pub(super) losses: Vec<Loss>,
    /// The message that is being read.
    pub(super) index: usize,
    /// The declared tools of the conversation.
    pub(super) tools: Vec<Value>,
}

impl Reading {
    /// An error of shape.
    pub(super) fn wrong(&mut self, place: Span, message: impl Into<String>, expected: &str) {
        self.findings.add(
            Diagnostic::error(DiagnosticCode::JsonShape, message, place)
                .with_expected(expected)
                .with_help("correct it, or name the form that the file has"),
        );
    }

    /// Notes a loss of the message that is being read.
    pub(super) fn note(&mut self, kind: LossKind, text: impl Into<String>) {
        let target = LossTarget::Message(self.index);
        self.losses.push(Loss::new(target, kind, text));
    }

    /// Notes that the current message is left out; a finding has the reason.
    pub(super) fn unread(&mut self) {
        self.note(
            LossKind::MessageDropped,
            "left out, because it cannot be read",
        );
    }

    /// Notes a loss of the conversation as a whole.
    pub(super) fn note_whole(&mut self, kind: LossKind, text: impl Into<String>) {
        let target = LossTarget::Transcript;
        self.losses.push(Loss::new(target, kind, text));
    }

    /// The entries of a value that must be an object with each key once.
    pub(super) fn object<'t>(&mut self, node: Node<'t>, what: &str) -> Option<Object<'t>> {
        let Some(object) = node.object() else {
            self.wrong(node.span(), format!("{what} is not an object"), "an object");
            return None;
        };
        if let Some(key) = object.duplicate() {
            self.wrong(
                key.span(),
                format!("{what} has this key twice, and readers differ in which one counts"),
                "each key once",
            );
            return None;
        }
        Some(object)
    }

    /// A field that must be a text where it is set. `Err` where it is something else.
    pub(super) fn text(&mut self, object: &Object<'_>, key: &str) -> Result<Option<String>, ()> {
        match object.get(key) {
            None => Ok(None),
            Some(node) => self.must_be_text(node, key).map(Some),
        }
    }

    /// A field that must be there and be a text.
    pub(super) fn required(&mut self, object: &Object<'_>, key: &str) -> Result<String, ()> {
        if let Some(text) = self.text(object, key)? {
            return Ok(text);
        }
        let start = object.span.start;
        let opener = Span::new(start, start + 1);
        let expected = format!("a `{key}`");
        self.wrong(opener, format!("`{key}` is missing"), &expected);
        Err(())
    }

    pub(super) fn must_be_text(&mut self, node: Node<'_>, key: &str) -> Result<String, ()> {
        if let Some(text) = node.string() {
            return Ok(text);
        }
        let message = match node.kind() {
            Kind::String => format!("`{key}` contains half of a surrogate pair, which is not text"),
            _ => format!("`{key}` is not text"),
        };
        self.wrong(node.span(), message, "a string");
        Err(())
    }

    /// Notes every key that is not one of `known`.
    pub(super) fn note_unknown(&mut self, object: &Object<'_>, known: &[&str]) {
        for (_, key, value) in &object.entries {
            if !known.contains(&&**key) && value.kind() != Kind::Null {
                self.note(
                    LossKind::AttributeDropped,
                    format!("the key {key:?} dropped"),
                );
            }
        }
    }
}
