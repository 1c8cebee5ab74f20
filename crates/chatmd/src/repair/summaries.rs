//! Repair of summaries that quote tags.
//!
//! A summary may quote anything, even a partial tag or the start of a RAW block. The tree then does
//! not contain the end of the summary. So its end is searched in the text, between the opening tag
//! of one `<reasoning>` and that of the next: a `</summary>` is a candidate if another `<summary>` or
//! the end of the record follows. If the record is laid out in lines, as programs write it, those
//! tags must begin lines, so that a record quoted in a sentence is ignored.

use logue_source::Span;
use memchr::memmem;

use crate::repair::change::RepairKind;
use crate::repair::proposal::{Proposal, insert, wrap};
use crate::syntax::attributes::tag_end;
use crate::syntax::lexer::{COMMENT_CLOSE, COMMENT_OPEN, Lexer, RAW_CLOSE, RAW_OPEN, TokenKind};
use crate::syntax::tag::Tag;
use crate::syntax::truncation::holds_entry;
use crate::syntax::whitespace::{is_space, skip_spaces};

pub(super) fn proposals(text: &str) -> Vec<Proposal> {
    let mut proposals = Vec::new();
    let mut lexer = Lexer::new(text);
    while let Some(lexeme) = lexer.next() {
        let opens = lexeme.kind == TokenKind::Open(Tag::Reasoning) && lexeme.problem.is_none();
        if opens && is_record(text.as_bytes(), lexeme.start) {
            let limit = next_record(text, lexeme.end);
            let mut record = Record::new(text, lexeme.end, limit);
            record.read();
            lexer.skip_to(record.at);
            proposals.append(&mut record.proposals);
        }
    }
    proposals
}

/// Returns whether a record begins at `at`.
///
/// It is a `<reasoning` with attributes, at the start of a line or after a tag. All programs write
/// the id of a record.
fn is_record(bytes: &[u8], at: usize) -> bool {
    let named = opener(bytes, at, Tag::Reasoning)
        .and_then(|name_end| bytes.get(name_end))
        .is_some_and(|byte| is_space(*byte));
    let before = bytes.get(..at).unwrap_or_default();
    let last = before
        .iter()
        .rev()
        .find(|byte| !matches!(byte, b' ' | b'\t'));
    named && last.is_none_or(|byte| matches!(byte, b'\n' | b'>'))
}

fn begins_line(bytes: &[u8], at: usize) -> bool {
    let before = bytes.get(..at).unwrap_or_default();
    let last = before
        .iter()
        .rev()
        .find(|byte| !matches!(byte, b' ' | b'\t'));
    last.is_none_or(|byte| *byte == b'\n')
}

/// Returns the start of the next record, or the end of the text.
fn next_record(text: &str, from: usize) -> usize {
    let bytes = text.as_bytes();
    let rest = bytes.get(from..).unwrap_or_default();
    memmem::find_iter(rest, "<reasoning")
        .map(|found| from + found)
        .find(|&at| is_record(bytes, at))
        .unwrap_or(bytes.len())
}

/// Returns the end of the name of the opening tag at `at`.
fn opener(bytes: &[u8], at: usize, wanted: Tag) -> Option<usize> {
    if bytes.get(at) != Some(&b'<') {
        return None;
    }
    let (tag, name_end) = Tag::at(bytes, at + 1)?;
    let follows = *bytes.get(name_end)?;
    (tag == wanted && (is_space(follows) || matches!(follows, b'>' | b'/'))).then_some(name_end)
}

/// Returns the end of the closing tag at `at`.
fn closer(bytes: &[u8], at: usize, wanted: Tag) -> Option<usize> {
    if bytes.get(at..at + 2) != Some(b"</") {
        return None;
    }
    let (tag, name_end) = Tag::at(bytes, at + 2)?;
    let end = skip_spaces(bytes, name_end, bytes.len());
    (tag == wanted && bytes.get(end) == Some(&b'>')).then_some(end + 1)
}

/// A `</summary>` that may end a summary.
#[derive(Clone, Copy)]
struct Candidate {
    span: Span,
    /// Whether it and the following tag begin lines.
    in_lines: bool,
}

/// One `<reasoning>`, read from the end of its opening tag.
struct Record<'a> {
    text: &'a str,
    at: usize,
    limit: usize,
    candidates: Vec<Candidate>,
    /// For each candidate, the index of the next one laid out in lines.
    ///
    /// That may be the candidate itself.
    in_lines: Vec<usize>,
    /// The `</reasoning>` tags that begin lines.
    ends: Vec<usize>,
    /// Start and result of the last search for `|RAW`.
    raw_close: Option<(usize, usize)>,
    proposals: Vec<Proposal>,
}

impl<'a> Record<'a> {
    fn new(text: &'a str, at: usize, limit: usize) -> Self {
        let bytes = text.as_bytes().get(..limit).unwrap_or_default();
        let region = bytes.get(at..).unwrap_or_default();
        let mut candidates = Vec::new();
        for found in memmem::find_iter(region, "</summary") {
            let start = at + found;
            let Some(end) = closer(bytes, start, Tag::Summary) else {
                continue;
            };
            let next = skip_spaces(bytes, end, bytes.len());
            let counts = opener(bytes, next, Tag::Summary)
                .or_else(|| closer(bytes, next, Tag::Reasoning))
                .is_some();
            if counts {
                candidates.push(Candidate {
                    span: Span::new(start, end),
                    in_lines: begins_line(bytes, start) && begins_line(bytes, next),
                });
            }
        }
        let mut in_lines = vec![candidates.len(); candidates.len()];
        let mut next = candidates.len();
        for (index, candidate) in candidates.iter().enumerate().rev() {
            if candidate.in_lines {
                next = index;
            }
            if let Some(entry) = in_lines.get_mut(index) {
                *entry = next;
            }
        }
        let ends = memmem::find_iter(region, "</reasoning")
            .map(|found| at + found)
            .filter(|&end| closer(bytes, end, Tag::Reasoning).is_some() && begins_line(bytes, end))
            .collect();
        Self {
            text,
            at,
            limit,
            candidates,
            in_lines,
            ends,
            raw_close: None,
            proposals: Vec::new(),
        }
    }

    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes().get(..self.limit).unwrap_or_default()
    }

    /// Reads consecutive summaries; [`Self::at`] is then after the last.
    fn read(&mut self) {
        let bytes = self.bytes();
        loop {
            let at = skip_spaces(bytes, self.at, bytes.len());
            let rest = bytes.get(at..).unwrap_or_default();
            if rest.starts_with(COMMENT_OPEN.as_bytes()) {
                let Some(end) = memmem::find(rest, COMMENT_CLOSE.as_bytes()) else {
                    return;
                };
                self.at = at + end + COMMENT_CLOSE.len();
            } else if let Some(name_end) = opener(bytes, at, Tag::Summary) {
                let tag = tag_end(bytes, name_end);
                if tag.problem.is_some() {
                    return;
                }
                if tag.empty {
                    self.at = tag.end;
                } else if !self.summary(Span::new(at, tag.end)) {
                    return;
                }
            } else {
                return;
            }
        }
    }

    /// Reads the summary with that opening tag; returns `false` if it has no end.
    fn summary(&mut self, tag: Span) -> bool {
        if let Some(end) = self.blocks(tag.end) {
            self.at = end;
            return true;
        }
        let Some(end) = self.end(tag.end) else {
            self.unfinished(tag);
            return false;
        };
        if is_damaged(self.text, tag.end, end) {
            let mut edits = Vec::new();
            wrap(self.text, Span::new(tag.end, end.start), &mut edits);
            self.proposals.push(Proposal {
                span: tag,
                kind: RepairKind::Summary,
                what: "put the text of a summary that quotes tags into RAW blocks".to_owned(),
                edits,
            });
        }
        self.at = end.end;
        true
    }

    /// Returns the end of a summary that consists of RAW blocks.
    fn blocks(&mut self, start: usize) -> Option<usize> {
        let bytes = self.bytes();
        let mut at = skip_spaces(bytes, start, bytes.len());
        let mut found = false;
        while bytes
            .get(at..)
            .unwrap_or_default()
            .starts_with(RAW_OPEN.as_bytes())
        {
            found = true;
            at = self.next_raw_close(at + RAW_OPEN.len())? + RAW_CLOSE.len();
            at = skip_spaces(bytes, at, bytes.len());
        }
        closer(bytes, at, Tag::Summary).filter(|_| found)
    }

    fn next_raw_close(&mut self, from: usize) -> Option<usize> {
        let bytes = self.bytes();
        let known = self
            .raw_close
            .filter(|known| (known.0..=known.1).contains(&from));
        let (_, found) = known.unwrap_or_else(|| {
            let rest = bytes.get(from..).unwrap_or_default();
            let found = memmem::find(rest, RAW_CLOSE.as_bytes());
            (from, found.map_or(bytes.len(), |found| from + found))
        });
        self.raw_close = Some(known.unwrap_or((from, found)));
        (found < bytes.len()).then_some(found)
    }

    /// Returns the `</summary>` of the summary whose text begins at `start`.
    fn end(&self, start: usize) -> Option<Span> {
        let first = self
            .candidates
            .partition_point(|candidate| candidate.span.start < start);
        let rest = self.bytes().get(start..).unwrap_or_default();
        let written_in_lines = rest.starts_with(b"\n") || rest.starts_with(b"\r\n");
        let in_lines = self
            .in_lines
            .get(first)
            .and_then(|&index| self.candidates.get(index))
            .filter(|candidate| {
                let end = self.ends.get(self.ends.partition_point(|end| *end < start));
                written_in_lines && end.is_none_or(|end| candidate.span.start < *end)
            });
        let candidate = in_lines.or_else(|| self.candidates.get(first))?;
        Some(candidate.span)
    }

    /// Closes a summary at the end of the text.
    ///
    /// Its record is the last element, and writing ended inside it.
    fn unfinished(&mut self, tag: Span) {
        let rest = self.text.get(tag.end..).unwrap_or_default();
        let is_last =
            self.limit == self.text.len() && !rest.contains("</reasoning") && !holds_entry(rest);
        if !is_last {
            return;
        }
        let end = self.text.len();
        let mut edits = Vec::new();
        if is_damaged(self.text, tag.end, Span::empty(end)) {
            wrap(self.text, Span::new(tag.end, end), &mut edits);
        }
        edits.push(insert(end, "</summary>\n</reasoning>\n"));
        self.proposals.push(Proposal {
            span: tag,
            kind: RepairKind::Unclosed,
            what: "close a summary and its `<reasoning>` at the end of the text".to_owned(),
            edits,
        });
        self.at = end;
    }
}

/// Returns whether a summary contains tokens other than text; `end` is its closing tag.
fn is_damaged(text: &str, start: usize, end: Span) -> bool {
    let body = text.get(start..end.end).unwrap_or_default();
    Lexer::new(body).any(|lexeme| {
        let is_text = matches!(
            lexeme.kind,
            TokenKind::Text | TokenKind::Raw | TokenKind::Comment | TokenKind::Trivia
        );
        let is_end =
            lexeme.kind == TokenKind::Close(Tag::Summary) && start + lexeme.start == end.start;
        lexeme.problem.is_some() || !(is_text || is_end)
    })
}
