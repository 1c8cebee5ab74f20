//! Changes of one opening tag.

use logue_source::Span;

use crate::syntax::attributes::write_value;
use crate::syntax::tree::ElementNode;
use crate::syntax::whitespace::is_blank;

/// The changes of one opening tag.
#[derive(Clone, Debug, Default)]
pub(super) struct OpeningTagEdit {
    pub(super) attributes: Vec<(String, AttributeEdit)>,
    /// New content after a self-closing tag.
    pub(super) content: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) enum AttributeEdit {
    Value(String),
    Flag,
    Removed,
}

impl OpeningTagEdit {
    /// Returns the text of the changed tag.
    pub(super) fn text(&self, node: ElementNode<'_>) -> String {
        let source = node.document();
        let opener = node.opener();
        let tail = if node.is_self_closing() { 2 } else { 1 };
        let mut out = format!("<{}", node.tag());
        let mut end = opener.start + out.len();
        let gap_to = |end: usize, start: usize| {
            let gap = source.get(end..start).unwrap_or_default();
            // Bytes other than white space could become a part of a new attribute.
            if is_blank(gap) && !gap.is_empty() {
                gap
            } else {
                " "
            }
        };
        // Of several attributes of one name the last one is effective.
        let places: Vec<Option<Span>> = self
            .attributes
            .iter()
            .map(|(name, _)| node.attribute(name).map(|attribute| attribute.span()))
            .collect();
        for attribute in node.attributes() {
            let span = attribute.span();
            let gap = gap_to(end, span.start);
            end = span.end;
            let position = self
                .attributes
                .iter()
                .position(|(name, _)| name == attribute.name());
            let change = position.and_then(|at| self.attributes.get(at).zip(places.get(at)));
            match change {
                Some(((_, AttributeEdit::Removed), _)) => {}
                Some(((name, change), place)) if *place == Some(span) => {
                    out.push_str(gap);
                    change.write(&mut out, name);
                }
                _ => {
                    out.push_str(gap);
                    // A flag keeps only its name: after a `=` the following text would be its value.
                    let written = if attribute.is_flag() {
                        attribute.name_span()
                    } else {
                        span
                    };
                    out.push_str(written.text(source).unwrap_or_default());
                }
            }
        }
        for ((name, change), place) in self.attributes.iter().zip(&places) {
            if place.is_none() && !matches!(change, AttributeEdit::Removed) {
                out.push(' ');
                change.write(&mut out, name);
            }
        }
        let inside_end = opener.end - tail;
        let rest = source.get(end..inside_end).unwrap_or_default();
        if is_blank(rest) {
            out.push_str(rest);
        }
        match &self.content {
            Some(content) => out.push_str(&format!(">{content}</{}>", node.tag())),
            None if node.is_self_closing() => out.push_str("/>"),
            None => out.push('>'),
        }
        out
    }
}

impl AttributeEdit {
    fn write(&self, out: &mut String, name: &str) {
        out.push_str(name);
        if let Self::Value(value) = self {
            out.push('=');
            write_value(out, value);
        }
    }
}
