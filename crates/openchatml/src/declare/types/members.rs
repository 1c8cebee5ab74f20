//! The members of an object type. Prose may be among them, where a description lost
//! the marks of a comment, and must not become a rule.

use logue_source::Span;

use super::super::lexer::{Word, unquoted};
use super::{ANY, Types};
use crate::argument_schema::{Kinds, Node, NodeId, Property};

impl Types<'_> {
    /// The members of an object whose brace is open. A line that is not a member is skipped; then
    /// nothing in the object counts as required, since prose may look like a member. For
    /// the same reason a line without a comma among others with one is only a name.
    pub(super) fn object(&mut self, depth: usize) -> NodeId {
        let mut node = Node::of(Kinds::OBJECT);
        let mut properties = Vec::new();
        let mut is_sure = true;
        let mut bare = Vec::new();
        let mut marked = 0;
        loop {
            let token = self.lexer.next();
            match token.word {
                Word::Mark(b'}') => break,
                Word::End => {
                    is_sure = false;
                    break;
                }
                Word::Mark(b',' | b';') => {}
                Word::Mark(b'[') => match self.index(depth) {
                    Some(rule) => node.additional = Some(rule),
                    None => is_sure = false,
                },
                Word::Name | Word::Text | Word::Number => {
                    let is_readonly = self.lexer.text_of(token.span) == "readonly";
                    if is_readonly && self.lexer.peek().word == Word::Name {
                        continue;
                    }
                    match self.member(token.span, token.word == Word::Text, depth) {
                        Some(property) => {
                            match self.lexer.peek().word {
                                Word::Mark(b',' | b';') => marked += 1,
                                Word::Mark(b'}') => {}
                                _ if !property.required => {}
                                _ => bare.push(properties.len()),
                            }
                            properties.push(property);
                        }
                        None => is_sure = false,
                    }
                }
                _ => {
                    is_sure = false;
                    self.lexer.skip_line();
                }
            }
        }
        if marked > 0 {
            self.is_vague |= !bare.is_empty();
            for index in bare {
                if let Some(property) = properties.get_mut(index) {
                    property.node = ANY;
                    property.required = false;
                }
            }
        }
        if !is_sure {
            self.is_vague = true;
            for property in &mut properties {
                property.required = false;
            }
        }
        node.set_properties(properties);
        self.push(node)
    }

    /// `[key: string]: T`, with its bracket read.
    fn index(&mut self, depth: usize) -> Option<NodeId> {
        self.lexer.next_if(|token| token.word == Word::Name)?;
        if !self.eat(b':') {
            self.lexer.skip_line();
            return None;
        }
        self.union(depth);
        if self.eat(b']') && self.eat(b':') {
            return Some(self.union(depth));
        }
        self.lexer.skip_line();
        None
    }

    fn member(&mut self, mut name: Span, is_quoted: bool, depth: usize) -> Option<Property> {
        if !is_quoted {
            name = self.rest_of_key(name);
        }
        let text = self.lexer.text_of(name);
        let is_optional = self.eat(b'?');
        if !self.eat(b':') {
            self.lexer.skip_line();
            return None;
        }
        self.saw_undefined = false;
        let id = self.union(depth);
        let is_optional = is_optional || self.saw_undefined;
        let next = self.lexer.peek();
        let ends = matches!(next.word, Word::End | Word::Mark(b',' | b';' | b'}'));
        if !ends && !next.on_new_line {
            self.lexer.skip_line();
            return None;
        }
        let name = if is_quoted {
            unquoted(text)
        } else {
            text.to_owned()
        };
        Some(Property {
            name: name.into(),
            node: id,
            required: !is_optional,
        })
    }

    /// A key may be any name, and is not always quoted.
    fn rest_of_key(&mut self, mut key: Span) -> Span {
        loop {
            let next = self.lexer.peek();
            let ends = matches!(
                next.word,
                Word::End | Word::Mark(b'?' | b':' | b',' | b';' | b'{' | b'}' | b'(')
            );
            if ends || next.span.start != key.end {
                return key;
            }
            key = key.join(self.lexer.next().span);
        }
    }
}
