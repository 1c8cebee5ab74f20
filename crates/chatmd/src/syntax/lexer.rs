//! Splitting a text into tokens.
//!
//! Tokens tile any text: each begins at the end of the previous one. The lexer jumps from one `<`
//! or `|` to the next and skips the bytes between. Every unbounded look-ahead is either consumed or
//! cached, so the whole is linear.
//!
//! Markup (ChatMD §1, §2) is a tag with a recognised name, a closing tag of one, a comment, or a
//! RAW block. All other markup is text. It extends to the next `>`, unless a recognised closing tag
//! ends there, which it does not include.

use std::collections::VecDeque;

use logue_source::Span;
use memchr::{memchr, memchr2, memmem, memrchr};

use crate::syntax::attributes::{Attributes, TagEnd, TagProblem, tag_end};
use crate::syntax::tag::{MAX_NAME_LEN, Tag, is_name_byte};
use crate::syntax::whitespace::{is_space, skip_spaces};

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenKind {
    /// Text, unknown markup included.
    Text,
    /// A RAW block with its delimiters.
    Raw,
    /// A comment with its delimiters.
    Comment,
    /// A byte order mark, or white space before a RAW block: no content.
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

/// One token as the lexer emits it.
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

/// An error of a single token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The quote at this offset is never closed.
    Quote(usize),
    /// A tag without its `>`; it extends to the end of the text.
    Tag,
    /// A RAW block that extends to the end of the text.
    Raw,
    /// A comment that extends to the end of the text.
    Comment,
}

pub(crate) const RAW_OPEN: &str = "RAW|";
pub(crate) const RAW_CLOSE: &str = "|RAW";
pub(crate) const COMMENT_OPEN: &str = "<!--";
pub(crate) const COMMENT_CLOSE: &str = "-->";
const BYTE_ORDER_MARK: &str = "\u{FEFF}";

pub(crate) struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// Tokens found together with the last returned one.
    waiting: VecDeque<Lexeme>,
    /// The last `>` of the text: no tag begins after it.
    last_close: Option<usize>,
    /// The last `>` that was searched for, and the recognised closing tag that ends there.
    next_close: Option<(usize, Option<usize>)>,
    raw_close: memmem::Finder<'static>,
    comment_close: memmem::Finder<'static>,
    /// The markup that ends, for a fragment.
    fragment: Option<FragmentEnds>,
    /// The number of open elements, if all tags match.
    depth: usize,
    declaration: Declaration,
}

/// The open declaration, which determines the names that are recognised in it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Declaration {
    /// None, or one without own names.
    None,
    /// An element that is recognised outside all others only.
    TopLevel,
    /// An element whose content is verbatim, before its content.
    Verbatim(Tag),
    /// A `<tool>` with parts.
    Tool,
}

/// The limits of markup in a fragment, whose unterminated markup is text.
struct FragmentEnds {
    /// The last `|RAW`.
    last_raw: Option<usize>,
    /// The last `-->`.
    last_comment: Option<usize>,
    /// The number of further tags with an error that are searched for their end.
    searches: usize,
}

/// The number of malformed tags after which all tags of a fragment are text.
const FRAGMENT_SEARCHES: usize = 100;

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let bytes = text.as_bytes();
        Self {
            text,
            bytes,
            at: 0,
            waiting: VecDeque::new(),
            last_close: memrchr(b'>', bytes),
            next_close: None,
            raw_close: memmem::Finder::new(RAW_CLOSE),
            comment_close: memmem::Finder::new(COMMENT_CLOSE),
            fragment: None,
            depth: 0,
            declaration: Declaration::None,
        }
    }

    /// Creates a lexer of text for a message.
    ///
    /// Only tags of elements inside messages are markup. Markup without an end is text.
    pub(crate) fn of_fragment(text: &'a str) -> Self {
        Self {
            fragment: Some(FragmentEnds {
                last_raw: text.rfind(RAW_CLOSE),
                last_comment: text.rfind(COMMENT_CLOSE),
                searches: FRAGMENT_SEARCHES,
            }),
            ..Self::new(text)
        }
    }

    /// Continues at `at`, which is not before the last returned token.
    pub(crate) fn skip_to(&mut self, at: usize) {
        self.at = at;
        self.waiting.clear();
    }

    /// Emits every token in order.
    pub(crate) fn run(mut self, mut emit: impl FnMut(Lexeme)) {
        while self.at < self.bytes.len() {
            self.step(&mut emit);
        }
    }

    /// Emits the next markup or RAW block and the text before it.
    fn step(&mut self, emit: &mut impl FnMut(Lexeme)) {
        let start = self.at;
        if start == 0 && self.bytes.starts_with(BYTE_ORDER_MARK.as_bytes()) {
            self.at = BYTE_ORDER_MARK.len();
            emit(Lexeme::new(TokenKind::Trivia, 0, self.at));
            return;
        }
        if let Declaration::Verbatim(tag) = self.declaration {
            self.declaration = Declaration::TopLevel;
            self.at = self.verbatim_end(tag);
            if self.at > start {
                emit(Lexeme::new(TokenKind::Text, start, self.at));
                return;
            }
        }
        // After a pipe or unknown markup a new run of text begins: white space between there and
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
                if opener >= run
                    && self.bytes.get(opener..=at) == Some(RAW_OPEN.as_bytes())
                    && self.ends(|ends| ends.last_raw, at + 1)
                {
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
                    self.count(&lexeme);
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

    /// Returns the token at a `<`, or the end of the text that it begins.
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
            Some(b'!')
                if rest.starts_with(COMMENT_OPEN.as_bytes())
                    && self.ends(|ends| ends.last_comment, at + COMMENT_OPEN.len()) =>
            {
                Ok(self.comment(at))
            }
            Some(b'/') if self.bytes.get(at + 2).copied().is_some_and(is_first) => {
                Err(self.unknown(at))
            }
            Some(&byte) if is_first(byte) => match self.opener(at) {
                Some(lexeme) => match &mut self.fragment {
                    Some(ends) if lexeme.problem.is_some() => {
                        ends.searches -= 1;
                        Err(at + 1)
                    }
                    _ => Ok(lexeme),
                },
                None => Err(self.unknown(at)),
            },
            _ => Err(at + 1),
        }
    }

    /// Counts the open elements after a token.
    fn count(&mut self, lexeme: &Lexeme) {
        match lexeme.kind {
            TokenKind::Open(tag) => {
                self.depth += 1;
                self.declaration = match tag {
                    tag if tag.is_verbatim() => Declaration::Verbatim(tag),
                    Tag::Var | Tag::ModeratorRuntime => Declaration::TopLevel,
                    Tag::Tool if self.depth == 1 && self.has_parts(lexeme) => Declaration::Tool,
                    tag if tag.is_tool_part() => Declaration::Tool,
                    _ => Declaration::None,
                };
            }
            TokenKind::Close(_) => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 || self.declaration != Declaration::Tool {
                    self.declaration = Declaration::None;
                }
            }
            _ => {}
        }
    }

    /// Returns whether the tool that a tag opens can have parts.
    fn has_parts(&self, lexeme: &Lexeme) -> bool {
        let start = lexeme.start + 1 + Tag::Tool.as_str().len();
        let end = lexeme.end.saturating_sub(1).max(start);
        Attributes::new(self.text, Span::new(start, end)).any(|attribute| {
            let value = attribute.value();
            match attribute.name() {
                "type" => value == "shell",
                "name" => value == "read_file" || value == "get_contents",
                _ => false,
            }
        })
    }

    /// Returns the end of verbatim content: its closing tag, or that of the text.
    fn verbatim_end(&self, tag: Tag) -> usize {
        let closer = ["</", tag.as_str()].concat();
        let finder = memmem::Finder::new(closer.as_bytes());
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        finder
            .find_iter(rest)
            .map(|found| self.at + found)
            .find(|at| self.closer(*at).is_some_and(|(found, _)| found == tag))
            .unwrap_or(self.bytes.len())
    }

    /// Returns whether markup that begins before `from` has an end; always `true` in a document.
    fn ends(&self, last: impl Fn(&FragmentEnds) -> Option<usize>, from: usize) -> bool {
        let Some(ends) = &self.fragment else {
            return true;
        };
        last(ends).is_some_and(|last| last >= from)
    }

    /// Returns whether a tag is markup here.
    fn recognises(&self, tag: Tag) -> bool {
        let Some(ends) = &self.fragment else {
            return true;
        };
        tag.is_inline() && ends.searches > 0
    }

    /// Returns the tag and the end of the recognised closing tag at `at`.
    fn closer(&self, at: usize) -> Option<(Tag, usize)> {
        if self.bytes.get(at + 1) != Some(&b'/') {
            return None;
        }
        let found = Tag::at(self.bytes, at + 2).or_else(|| match self.declaration {
            Declaration::TopLevel => Tag::top_level_at(self.bytes, at + 2),
            Declaration::Tool => Tag::tool_part_at(self.bytes, at + 2),
            Declaration::None | Declaration::Verbatim(_) => None,
        });
        let (tag, name_end) = found.filter(|(tag, _)| self.recognises(*tag))?;
        let end = skip_spaces(self.bytes, name_end, self.bytes.len());
        (self.bytes.get(end) == Some(&b'>')).then_some((tag, end + 1))
    }

    /// Returns the recognised opening or self-closing tag at `at`.
    fn opener(&self, at: usize) -> Option<Lexeme> {
        if self.last_close.is_none_or(|last| at > last) {
            return None;
        }
        let found = Tag::at(self.bytes, at + 1).or_else(|| match self.declaration {
            _ if self.depth == 0 => Tag::top_level_at(self.bytes, at + 1),
            Declaration::Tool => Tag::tool_part_at(self.bytes, at + 1),
            _ => None,
        });
        let (tag, name_end) = found.filter(|(tag, _)| self.recognises(*tag))?;
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

    /// Returns the end of the unknown markup at `at`.
    ///
    /// That is the offset after its `>`. Without a `>`, or if that `>` ends a recognised closing
    /// tag, it is the offset after the `<`.
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

    /// Returns the start of the recognised closing tag whose `>` is at `close`.
    fn closer_before(&self, close: usize) -> Option<usize> {
        let before = self.bytes.get(..close)?;
        let name_end = before.iter().rposition(|byte| !is_space(*byte))? + 1;
        let letters = before
            .get(..name_end)?
            .iter()
            .rev()
            .take(MAX_NAME_LEN + 1)
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

/// Returns the tokens one by one, for a reader that stops early.
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
