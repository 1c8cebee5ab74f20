//! `namespace NAME { type f = (_: …) => any; }`, as Harmony writes it.
//!
//! The content of a namespace is read declaration by declaration. One that cannot be read is
//! skipped to its end, and then its namespace counts as not fully known.

use logue_source::{Span, excerpt};

use super::lexer::{Lexer, Token, Word};
use super::types::Types;
use super::{Declarations, DeclaredTool};
use crate::argument_schema::{ArgumentSchema, NodeId};
use crate::limits::MAX_QUOTED_CHARS;

/// Reads the namespace that begins at `start`, if one does. Returns the place after it.
pub(super) fn read(text: &str, start: usize, found: &mut Declarations) -> Option<usize> {
    let mut lexer = Lexer::new(text, start);
    let mut token = lexer.next();
    while matches!(lexer.text_of(token.span), "export" | "declare") {
        token = lexer.next();
    }
    if lexer.text_of(token.span) != "namespace" {
        return None;
    }
    let name = name(&mut lexer)?;
    if lexer.next().word != Word::Mark(b'{') {
        return None;
    }
    let name = lexer.text_of(name);
    let mut reader = Reader {
        types: Types::new(lexer),
        namespace: name,
        complete: true,
        tools: Vec::new(),
    };
    let head = Span::new(start, reader.types.lexer.at);
    reader.body(head, found);
    let end = reader.types.lexer.at;
    reader.finish(found);
    Some(end)
}

/// A name with dots between its parts.
fn name(lexer: &mut Lexer<'_>) -> Option<Span> {
    let mut span = lexer.next_if(|token| token.word == Word::Name)?.span;
    while let Some(dot) = lexer.next_if(|token| token.word == Word::Mark(b'.')) {
        span = span.join(dot.span);
        if let Some(part) = lexer.next_if(|token| token.word == Word::Name) {
            span = span.join(part.span);
        }
    }
    Some(span)
}

struct Reader<'t> {
    types: Types<'t>,
    namespace: &'t str,
    complete: bool,
    tools: Vec<TypeDeclaration>,
}

/// A function, whose type is only a place in the list of nodes yet.
struct TypeDeclaration {
    name: String,
    description: Option<String>,
    root: Option<NodeId>,
    span: Span,
}

impl Reader<'_> {
    fn body(&mut self, head: Span, found: &mut Declarations) {
        let mut description = Vec::new();
        loop {
            let token = self.types.lexer.next_any();
            let text = self.types.lexer.text_of(token.span);
            match token.word {
                Word::Comment if token.on_new_line => {
                    let line = text.trim_start_matches('/');
                    description.push(line.strip_prefix(' ').unwrap_or(line).trim_end());
                }
                Word::Mark(b'}') => return,
                Word::End => {
                    self.complete = false;
                    found.issue(head, "this namespace is never closed");
                    return;
                }
                Word::Name if text == "type" => {
                    self.declaration(token, &mut description, found);
                    description.clear();
                }
                Word::Comment | Word::Mark(b';') => {}
                Word::Name if matches!(text, "export" | "declare") => {}
                _ => {
                    if std::mem::take(&mut self.complete) {
                        found.issue(token.span, "this is not a `type` of a namespace");
                    }
                    self.types.lexer.skip_line();
                    description.clear();
                }
            }
        }
    }

    fn declaration(&mut self, start: Token, description: &mut Vec<&str>, found: &mut Declarations) {
        let lexer = &mut self.types.lexer;
        let Some(name) = name(lexer) else {
            return self.give_up(start.span, found);
        };
        if lexer
            .next_if(|token| token.word == Word::Mark(b'='))
            .is_none()
        {
            return self.give_up(start.span.join(name), found);
        }
        let name = lexer.text_of(name);
        self.types.is_vague = false;
        let is_function = self.types.is_function();
        let parameter = if is_function {
            self.types.function()
        } else {
            let id = self.types.any_type();
            self.types.define(name, id);
            None
        };
        let end = self.types.lexer.at;
        let is_ended = self.end();
        let span = Span::new(start.span.start, end);
        if !is_function {
            return;
        }
        let full = format!("{}.{name}", self.namespace);
        if !is_ended || self.types.is_vague {
            let shown = excerpt(full.as_bytes(), MAX_QUOTED_CHARS);
            let what =
                format!("the type of `{shown}` cannot all be read, and is only checked in part");
            found.issue(span, what);
        }
        let text = description.join("\n");
        self.tools.push(TypeDeclaration {
            name: full,
            description: Some(text).filter(|text| !text.is_empty()),
            root: parameter.filter(|_| is_ended),
            span,
        });
    }

    /// Skips the end of a declaration and any part that is not understood.
    fn end(&mut self) -> bool {
        let lexer = &mut self.types.lexer;
        let next = lexer.peek();
        let is_next = next.on_new_line && (next.word == Word::Name || next.word == Word::End);
        if next.word == Word::Mark(b'}') || is_next {
            return true;
        }
        if next.word == Word::Mark(b';') {
            lexer.next();
            return true;
        }
        lexer.skip_declaration();
        false
    }

    fn give_up(&mut self, span: Span, found: &mut Declarations) {
        self.complete = false;
        found.issue(span, "this declaration cannot be read");
        self.types.lexer.skip_declaration();
    }

    fn finish(self, found: &mut Declarations) {
        let shapes = ArgumentSchema::from_nodes(self.types.into_nodes(), NodeId(0));
        for TypeDeclaration {
            name,
            description,
            root,
            span,
        } in self.tools
        {
            found.add(DeclaredTool {
                name,
                description,
                schema: root.map(|root| shapes.at(root)),
                span,
            });
        }
        found.note(self.namespace, self.complete);
    }
}
