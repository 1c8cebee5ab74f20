//! Parsing a text for a message: prose that may contain elements.
//!
//! Prose mentions tags. So an element counts only if it is complete: its tags match, and it names
//! its source. Everything else is text. Comments are never content.

use logue_source::Span;

use crate::syntax::attributes::Attributes;
use crate::syntax::builder::parse_lexemes;
use crate::syntax::lexer::{Lexeme, Lexer, TokenKind};
use crate::syntax::tag::Tag;
use crate::syntax::tree::Tree;

/// Parses a text for a message. It has no errors. Linear in the length of the text.
pub(crate) fn parse_fragment(text: &str) -> Tree<'_> {
    parse_lexemes(text, || {
        let mut lexemes: Vec<Lexeme> = Vec::new();
        Lexer::of_fragment(text).run(|lexeme| lexemes.push(lexeme));
        keep_complete(text, &mut lexemes);
        lexemes
    })
    .without_findings()
}

/// Turns the tags of incomplete elements into text.
fn keep_complete(text: &str, lexemes: &mut [Lexeme]) {
    let mut open: Vec<(usize, Tag)> = Vec::new();
    let mut counts = [0_usize; Tag::ALL.len()];
    let mut mentions: Vec<usize> = Vec::new();
    for (index, lexeme) in lexemes.iter().enumerate() {
        match lexeme.kind {
            TokenKind::Empty(tag) if !names_source(text, lexeme, tag, 2) => mentions.push(index),
            TokenKind::Open(tag) => {
                counts[tag as usize] += 1;
                open.push((index, tag));
            }
            TokenKind::Close(tag) if counts[tag as usize] == 0 => mentions.push(index),
            TokenKind::Close(tag) => {
                while let Some((opener, of)) = open.pop() {
                    counts[of as usize] -= 1;
                    let is_complete = of == tag
                        && lexemes
                            .get(opener)
                            .is_some_and(|opener| names_source(text, opener, tag, 1));
                    if !is_complete {
                        mentions.push(opener);
                    }
                    if of == tag {
                        mentions.extend((!is_complete).then_some(index));
                        break;
                    }
                }
            }
            _ => {}
        }
    }
    mentions.extend(open.into_iter().map(|(index, _)| index));
    for index in mentions {
        if let Some(lexeme) = lexemes.get_mut(index) {
            lexeme.kind = TokenKind::Text;
        }
    }
}

/// Returns whether a tag has a `src`; its end has `tail` bytes.
fn names_source(text: &str, lexeme: &Lexeme, tag: Tag, tail: usize) -> bool {
    let start = lexeme.start + 1 + tag.as_str().len();
    let end = lexeme.end.saturating_sub(tail).max(start);
    let last = Attributes::new(text, Span::new(start, end))
        .filter(|attribute| attribute.name() == "src")
        .last();
    last.is_some_and(|source| !source.value().is_empty())
}
