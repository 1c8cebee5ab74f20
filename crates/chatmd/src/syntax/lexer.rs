//! Text to tokens.
//!
//! Tokens tile the text: each begins where the one before it ends, whatever the text holds. The
//! lexer jumps from one `<` or `|` to the next and looks at nothing between. Every look-ahead that
//! can run far is either consumed or remembered, so the whole is linear.
//!
//! What is markup (ChatMD §1, §2): a tag with a recognised name, a closer of one, a comment, a RAW
//! block. All other markup is text; it runs to the next `>` unless a recognised closer ends there,
//! which it then leaves alone.

use std::collections::VecDeque;

use memchr::{memchr, memchr2, memmem, memrchr};

use crate::syntax::attributes::{TagEnd, TagProblem, tag_end};
use crate::syntax::tag::{LONGEST_NAME, Tag, is_name_byte};
use crate::syntax::whitespace::{is_space, skip_spaces};

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenKind {
    /// Text, unknown markup included.
    Text,
    /// A RAW block with its delimiters.
    Raw,
    /// A comment with its delimiters.
    Comment,
    /// A byte order mark, or white space in front of a RAW block: no content.
    Trivia,
    /// The opening tag of an element whose content follows.
    Open(Tag),
    /// A self-closing tag: a whole element.
    Empty(Tag),
    /// The closing tag of the innermost open element.
    Close(Tag),
    /// A closing tag that closes nothing.
    Stray(Tag),
}

/// One token as the lexer finds it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lexeme {
    pub(crate) kind: TokenKind,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) problem: Option<Problem>,
}

impl Lexeme {
    const fn new(kind: TokenKind, start: usize, end: usize) -> Self {
        Self {
            kind,
            start,
            end,
            problem: None,
        }
    }
}

/// What can be wrong with a single token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The quote at this offset is never closed.
    Quote(usize),
    /// A tag without its `>`; it runs to the end of the text.
    Tag,
    /// A RAW block that runs to the end of the text.
    Raw,
    /// A comment that runs to the end of the text.
    Comment,
}

pub(crate) const RAW_OPEN: &str = "RAW|";
pub(crate) const RAW_CLOSE: &str = "|RAW";
pub(crate) const COMMENT_OPEN: &str = "<!--";
pub(crate) const COMMENT_CLOSE: &str = "-->";
const BYTE_ORDER_MARK: &str = "\u{FEFF}";

pub(crate) struct Lexer<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Tokens that were found with the one that was handed out last.
    waiting: VecDeque<Lexeme>,
    /// The last `>` of the text: behind it there are no tags.
    last_close: Option<usize>,
    /// The `>` that was looked for last, and the recognised closer that ends there.
    next_close: Option<(usize, Option<usize>)>,
    raw_close: memmem::Finder<'static>,
    comment_close: memmem::Finder<'static>,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let bytes = text.as_bytes();
        Self {
            bytes,
            at: 0,
            waiting: VecDeque::new(),
            last_close: memrchr(b'>', bytes),
            next_close: None,
            raw_close: memmem::Finder::new(RAW_CLOSE),
            comment_close: memmem::Finder::new(COMMENT_CLOSE),
        }
    }

    /// Goes on at `at`, which is not before what was handed out.
    pub(crate) fn skip_to(&mut self, at: usize) {
        self.at = at;
        self.waiting.clear();
    }

    /// Emits every token, in order.
    pub(crate) fn run(mut self, mut emit: impl FnMut(Lexeme)) {
        while self.at < self.bytes.len() {
            self.step(&mut emit);
        }
    }

    /// Emits the next markup or RAW block and what stands before it.
    fn step(&mut self, emit: &mut impl FnMut(Lexeme)) {
        let start = self.at;
        if start == 0 && self.bytes.starts_with(BYTE_ORDER_MARK.as_bytes()) {
            self.at = BYTE_ORDER_MARK.len();
            emit(Lexeme::new(TokenKind::Trivia, 0, self.at));
            return;
        }
        // Behind a pipe or unknown markup a new run of text begins: white space there and before
        // a RAW block is trivia, and no earlier byte can be part of `RAW|`.
        let mut run = start;
        loop {
            let at = if matches!(self.bytes.get(run), Some(b'<' | b'|')) {
                run
            } else {
                let rest = self.bytes.get(run..).unwrap_or_default();
                let Some(found) = memchr2(b'<', b'|', rest) else {
                    self.at = self.bytes.len();
                    emit(Lexeme::new(TokenKind::Text, start, self.at));
                    return;
                };
                run + found
            };
            let found = if self.bytes.get(at) == Some(&b'|') {
                let opener = at.saturating_sub(3);
                if opener >= run && self.bytes.get(opener..=at) == Some(RAW_OPEN.as_bytes()) {
                    Ok(self.raw(opener))
                } else {
                    Err(at + 1)
                }
            } else {
                self.markup(at)
            };
            match found {
                Ok(lexeme) => {
                    self.at = lexeme.end;
                    self.emit_before(&lexeme, start, run, emit);
                    emit(lexeme);
                    return;
                }
                Err(end) => run = end,
            }
        }
    }

    /// Emits the text between `start` and `lexeme`, whose last run begins at `run`.
    fn emit_before(
        &self,
        lexeme: &Lexeme,
        start: usize,
        run: usize,
        emit: &mut impl FnMut(Lexeme),
    ) {
        let mut end = lexeme.start;
        if lexeme.kind == TokenKind::Raw && run > start {
            let blank = self.bytes.get(run..end).unwrap_or_default();
            if blank.iter().copied().all(is_space) {
                end = run;
            }
        }
        if start < end {
            emit(Lexeme::new(TokenKind::Text, start, end));
        }
        if end < lexeme.start {
            emit(Lexeme::new(TokenKind::Trivia, end, lexeme.start));
        }
    }

    /// The token at the `<` at `at`, or the end of the text that this is.
    fn markup(&mut self, at: usize) -> Result<Lexeme, usize> {
        let rest = self.bytes.get(at..).unwrap_or_default();
        let last = at + rest.iter().take_while(|&&byte| byte == b'<').count() - 1;
        if let Some((tag, end)) = self.closer(last) {
            return Ok(Lexeme::new(TokenKind::Close(tag), last, end));
        }
        if last > at {
            return Err(last + 1);
        }
        match self.bytes.get(at + 1) {
            Some(b'!') if rest.starts_with(COMMENT_OPEN.as_bytes()) => Ok(self.comment(at)),
            Some(b'/') if self.bytes.get(at + 2).copied().is_some_and(is_first) => {
                Err(self.unknown(at))
            }
            Some(&byte) if is_first(byte) => match self.opener(at) {
                Some(lexeme) => Ok(lexeme),
                None => Err(self.unknown(at)),
            },
            _ => Err(at + 1),
        }
    }

    /// The recognised closer at `at`: its tag and its end.
    fn closer(&self, at: usize) -> Option<(Tag, usize)> {
        if self.bytes.get(at + 1) != Some(&b'/') {
            return None;
        }
        let (tag, name_end) = Tag::at(self.bytes, at + 2)?;
        let end = skip_spaces(self.bytes, name_end, self.bytes.len());
        (self.bytes.get(end) == Some(&b'>')).then_some((tag, end + 1))
    }

    /// The recognised opening or self-closing tag at `at`.
    fn opener(&self, at: usize) -> Option<Lexeme> {
        if self.last_close.is_none_or(|last| at > last) {
            return None;
        }
        let (tag, name_end) = Tag::at(self.bytes, at + 1)?;
        match self.bytes.get(name_end) {
            Some(b'>') => {
                return Some(Lexeme::new(TokenKind::Open(tag), at, name_end + 1));
            }
            Some(b'/') if self.bytes.get(name_end + 1) == Some(&b'>') => {
                return Some(Lexeme::new(TokenKind::Empty(tag), at, name_end + 2));
            }
            Some(&byte) if is_space(byte) => {}
            _ => return None,
        }
        let TagEnd {
            end,
            empty,
            problem,
        } = tag_end(self.bytes, name_end);
        Some(Lexeme {
            kind: if empty {
                TokenKind::Empty(tag)
            } else {
                TokenKind::Open(tag)
            },
            start: at,
            end,
            problem: problem.map(|problem| match problem {
                TagProblem::Quote(quote) => Problem::Quote(quote),
                TagProblem::Open => Problem::Tag,
            }),
        })
    }

    /// The end of the unknown markup at `at`: behind its `>`, or behind the `<` alone where there
    /// is no `>` or it is the end of a recognised closer.
    fn unknown(&mut self, at: usize) -> usize {
        let (close, closer) = match self.next_close {
            Some(known) if known.0 >= at => known,
            _ => {
                if self.last_close.is_none_or(|last| at > last) {
                    return at + 1;
                }
                let rest = self.bytes.get(at..).unwrap_or_default();
                let Some(found) = memchr(b'>', rest) else {
                    return at + 1;
                };
                let close = at + found;
                let known = (close, self.closer_before(close));
                self.next_close = Some(known);
                known
            }
        };
        if closer.is_some_and(|closer| closer > at) {
            at + 1
        } else {
            close + 1
        }
    }

    /// Where the recognised closer begins whose `>` is at `close`.
    fn closer_before(&self, close: usize) -> Option<usize> {
        let before = self.bytes.get(..close)?;
        let name_end = before.iter().rposition(|byte| !is_space(*byte))? + 1;
        let letters = before
            .get(..name_end)?
            .iter()
            .rev()
            .take(LONGEST_NAME + 1)
            .take_while(|byte| is_name_byte(**byte))
            .count();
        let start = (name_end - letters).checked_sub(2)?;
        (self.bytes.get(start) == Some(&b'<') && self.closer(start).is_some()).then_some(start)
    }

    fn raw(&self, start: usize) -> Lexeme {
        let inside = start + RAW_OPEN.len();
        let found = self
            .raw_close
            .find(self.bytes.get(inside..).unwrap_or_default());
        Lexeme {
            kind: TokenKind::Raw,
            start,
            end: found.map_or(self.bytes.len(), |found| inside + found + RAW_CLOSE.len()),
            problem: found.is_none().then_some(Problem::Raw),
        }
    }

    fn comment(&self, start: usize) -> Lexeme {
        let inside = start + COMMENT_OPEN.len();
        let found = self
            .comment_close
            .find(self.bytes.get(inside..).unwrap_or_default());
        Lexeme {
            kind: TokenKind::Comment,
            start,
            end: found.map_or(self.bytes.len(), |found| {
                inside + found + COMMENT_CLOSE.len()
            }),
            problem: found.is_none().then_some(Problem::Comment),
        }
    }
}

/// The same one by one, for a reader that does not want all of them.
impl Iterator for Lexer<'_> {
    type Item = Lexeme;

    fn next(&mut self) -> Option<Self::Item> {
        if self.waiting.is_empty() && self.at < self.bytes.len() {
            let mut waiting = std::mem::take(&mut self.waiting);
            self.step(&mut |lexeme| waiting.push_back(lexeme));
            self.waiting = waiting;
        }
        self.waiting.pop_front()
    }
}

const fn is_first(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}
