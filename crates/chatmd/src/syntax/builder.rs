//! Building a tree from tokens, including tags that do not nest.
//!
//! The tree is a list of slots in preorder, each with the index after its last descendant. Removing
//! children of an unclosed element therefore changes one number, and no step recurses.

use logue_source::{Diagnostic, DiagnosticCode, Span};

use crate::findings::Findings;
use crate::syntax::advice::{FIX, RAW_SUMMARY};
use crate::syntax::lexer::{Lexeme, Lexer, Problem, TokenKind};
use crate::syntax::tag::Tag;
use crate::syntax::tag_errors::{
    mismatched_tag, stray_closer, text_after, token_problem, token_problem_code, top_level_text,
    unclosed_tag,
};
use crate::syntax::tree::{Slot, Tree};
use crate::syntax::truncation::is_cut;
use crate::syntax::whitespace::{is_blank, trim, trim_start};

/// Unclosed elements that are reported one by one at the end of a text.
const UNCLOSED_SHOWN: usize = 4;

/// Parses a text into a lossless tree.
///
/// Never fails: [`Tree::diagnostics`] lists the errors, and [`Tree::print`] returns the text
/// unchanged, valid or not.
///
/// Linear in the length of the text. A text above 4 GiB becomes a single piece of text with the
/// error `E-SOURCE-TOO-LARGE`.
///
/// ```
/// let tree = chatmd::parse("<user>See <doc src=\"a.md\" local/></user>");
/// assert!(tree.diagnostics().is_empty());
/// assert_eq!(tree.outline(), "user\n  \"See \"\n  doc src=\"a.md\" local\n");
/// ```
pub fn parse(text: &str) -> Tree<'_> {
    if let Some(tree) = too_large(text) {
        return tree;
    }
    let mut builder = Builder::new(text);
    Lexer::new(text).run(|lexeme| builder.push(lexeme));
    builder.finish()
}

/// Builds the tree of tokens that tile the text.
pub(crate) fn parse_lexemes(text: &str, lexemes: impl FnOnce() -> Vec<Lexeme>) -> Tree<'_> {
    if let Some(tree) = too_large(text) {
        return tree;
    }
    let mut builder = Builder::new(text);
    for lexeme in lexemes() {
        builder.push(lexeme);
    }
    builder.finish()
}

/// Returns the tree of a text whose offsets a slot cannot contain.
fn too_large(text: &str) -> Option<Tree<'_>> {
    if u32::try_from(text.len()).is_err() {
        let error = Diagnostic::error(
            DiagnosticCode::SourceTooLarge,
            "the text is larger than 4 GiB",
            Span::empty(0),
        );
        let slots = vec![Slot::new(TokenKind::Text, 0, 0)];
        return Some(Tree::new(text, slots, vec![error]));
    }
    None
}

struct Builder<'a> {
    text: &'a str,
    slots: Vec<Slot>,
    /// The open elements, outermost first.
    open: Vec<usize>,
    /// Number of open elements by tag.
    counts: [usize; Tag::ALL.len()],
    /// Whether the preceding text outside every element is already reported.
    stray_text: bool,
    /// The declaration with verbatim content that ended last, if no element began after it.
    after_verbatim: Option<Tag>,
    /// Whether an unterminated token contains the remaining closing tags.
    truncated: bool,
    findings: Findings,
}

impl<'a> Builder<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            slots: Vec::new(),
            open: Vec::new(),
            counts: [0; Tag::ALL.len()],
            stray_text: false,
            after_verbatim: None,
            truncated: false,
            findings: Findings::default(),
        }
    }

    fn push(&mut self, lexeme: Lexeme) {
        let Lexeme {
            kind, start, end, ..
        } = lexeme;
        let index = self.slots.len();
        self.slots.push(Slot::new(kind, start, index + 1));
        if let Some(problem) = lexeme.problem {
            self.report(problem, lexeme);
        }
        match kind {
            TokenKind::Text => self.top_level(start, end),
            TokenKind::Raw => {
                self.drop_blank_run(index);
                self.top_level(start + 4, end.saturating_sub(4));
            }
            TokenKind::Comment | TokenKind::Trivia => {}
            TokenKind::Empty(_) => {
                self.stray_text = false;
                self.after_verbatim = None;
            }
            TokenKind::Open(tag) => {
                self.stray_text = false;
                self.after_verbatim = None;
                self.open.push(index);
                self.counts[tag as usize] += 1;
            }
            TokenKind::Close(tag) | TokenKind::Stray(tag) => {
                self.stray_text = false;
                self.after_verbatim = Some(tag).filter(|tag| tag.is_verbatim());
                self.close(tag, index, Span::new(start, end));
            }
        }
    }

    fn span(&self, index: usize) -> Span {
        let start = self.slots.get(index).map_or(0, Slot::start);
        let end = self
            .slots
            .get(index + 1)
            .map_or(self.text.len(), Slot::start);
        Span::new(start, end)
    }

    fn kind(&self, index: usize) -> Option<TokenKind> {
        self.slots.get(index).map(|slot| slot.kind)
    }

    /// Turns white space before the RAW block at `raw` into trivia.
    ///
    /// Applies if the whole run of text before the block is white space. Comments do not end a run.
    fn drop_blank_run(&mut self, raw: usize) {
        let mut first = raw;
        let mut found = false;
        while let Some(before) = first.checked_sub(1) {
            match self.kind(before) {
                Some(TokenKind::Comment | TokenKind::Trivia) => {}
                Some(TokenKind::Text) => {
                    let text = self.span(before).text(self.text).unwrap_or_default();
                    if !is_blank(text) {
                        if !text.ends_with('|') {
                            return;
                        }
                        break;
                    }
                    found = true;
                }
                _ => break,
            }
            first = before;
        }
        if !found {
            return;
        }
        for slot in self.slots.get_mut(first..raw).unwrap_or_default() {
            if slot.kind == TokenKind::Text {
                slot.kind = TokenKind::Trivia;
            }
        }
    }

    /// Reports text outside every element, once for each stretch.
    fn top_level(&mut self, start: usize, end: usize) {
        if !self.open.is_empty() || self.stray_text {
            return;
        }
        let text = self.text.get(start..end).unwrap_or_default();
        if is_blank(text) {
            return;
        }
        self.stray_text = true;
        if self.findings.is_full(DiagnosticCode::MdTopLevelText) {
            return;
        }
        let lead = text.len() - trim_start(text).len();
        let shown = trim(text).lines().next().unwrap_or_default();
        let span = Span::new(start + lead, start + lead + shown.len());
        let is_ended = self
            .text
            .get(span.start..)
            .is_some_and(|rest| rest.contains('>'));
        let error = match self.after_verbatim {
            Some(tag) => text_after(tag, span),
            None => top_level_text(shown, span, is_ended),
        };
        self.findings.push(error);
    }

    /// Processes the closing tag at slot `index`.
    fn close(&mut self, tag: Tag, index: usize, span: Span) {
        let Some(&inner) = self.open.last() else {
            if !self
                .findings
                .is_full(DiagnosticCode::MdUnexpectedClosingTag)
            {
                self.findings.push(stray_closer(tag, span));
            }
            self.set_stray(index, tag);
            return;
        };
        let inner_tag = self.tag(inner);
        if inner_tag != Some(tag) {
            self.mismatch(inner, tag, span);
            if self.counts[tag as usize] > 0 {
                self.end_until(tag, index);
            } else if !(tag.is_entry() && inner_tag.is_some_and(Tag::is_entry)) {
                self.set_stray(index, tag);
                return;
            }
        }
        if let Some(opener) = self.end_innermost(index + 1)
            && let Some(slot) = self.slots.get_mut(index)
        {
            slot.set_end(opener);
        }
    }

    fn set_stray(&mut self, index: usize, tag: Tag) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.kind = TokenKind::Stray(tag);
        }
    }

    /// Ends the open elements inside the innermost `tag`.
    fn end_until(&mut self, tag: Tag, end: usize) {
        while let Some(&index) = self.open.last() {
            if self.tag(index) == Some(tag) {
                break;
            }
            self.end_innermost(end);
            self.empty_stub(index);
        }
    }

    fn tag(&self, index: usize) -> Option<Tag> {
        match self.kind(index) {
            Some(TokenKind::Open(tag)) => Some(tag),
            _ => None,
        }
    }

    /// Ends the innermost open element before slot `end` and returns its slot.
    fn end_innermost(&mut self, end: usize) -> Option<usize> {
        let index = self.open.pop()?;
        if let Some(tag) = self.tag(index) {
            self.counts[tag as usize] -= 1;
        }
        self.slots.get_mut(index)?.set_end(end);
        Some(index)
    }

    /// Removes the children of an unclosed element that is normally self-closing.
    fn empty_stub(&mut self, index: usize) {
        if self.tag(index).is_some_and(Tag::is_stub)
            && let Some(slot) = self.slots.get_mut(index)
        {
            slot.set_end(index + 1);
        }
    }

    /// Returns whether a `<summary>` is open.
    ///
    /// Errors inside it are most likely markup that its text quotes.
    fn in_summary(&self) -> bool {
        self.counts[Tag::Summary as usize] > 0
    }

    fn mismatch(&mut self, inner: usize, tag: Tag, span: Span) {
        let Some(open) = self.tag(inner) else { return };
        if self.findings.is_full(DiagnosticCode::MdMismatchedTag) {
            return;
        }
        let error = mismatched_tag(tag, span, open, self.span(inner), self.in_summary());
        let error = if self.mends_mismatch(inner, open, tag) {
            error.with_help(FIX)
        } else {
            error
        };
        self.findings.push(error);
    }

    /// Returns whether the repair can correct the mismatch.
    ///
    /// It turns the closing tag into text, or ends `open` at its position.
    fn mends_mismatch(&self, inner: usize, open: Tag, tag: Tag) -> bool {
        if self.in_summary() {
            return true;
        }
        let outermost = self.open.first().and_then(|&index| self.tag(index));
        let in_message = outermost.is_some_and(|tag| tag.is_entry() && tag != Tag::Reasoning);
        let closes_outer = self.counts[tag as usize] > 0;
        let strays = !(closes_outer || tag.is_entry() && open.is_entry());
        let is_agent = open == Tag::Agent && self.has_attributes(inner);
        in_message && (strays || closes_outer && !is_agent)
    }

    /// Returns whether the tag of a slot is longer than its name.
    fn has_attributes(&self, index: usize) -> bool {
        let name = self.tag(index).map_or("", Tag::as_str);
        self.span(index).len() > name.len() + 2
    }

    fn report(&mut self, problem: Problem, lexeme: Lexeme) {
        let start = lexeme.start;
        let code = token_problem_code(problem);
        self.truncated |= !matches!(problem, Problem::Quote(_)) || lexeme.end == self.text.len();
        if self.findings.is_full(code) {
            return;
        }
        let error = token_problem(problem, lexeme, self.text);
        let error = if self.in_summary() && problem != Problem::Raw {
            error.with_help(RAW_SUMMARY).with_help(FIX)
        } else if self.in_summary() || problem == Problem::Raw && self.is_cut_at(start) {
            error.with_help(FIX)
        } else {
            error
        };
        let inner = self
            .open
            .last()
            .and_then(|&inner| Some((inner, self.tag(inner)?)));
        self.findings.push(match inner {
            Some((inner, tag)) => {
                error.with_label(self.span(inner), format!("inside this `<{tag}>`"))
            }
            None => error,
        });
    }

    /// Returns whether writing apparently ended inside the RAW block at `start`.
    fn is_cut_at(&self, start: usize) -> bool {
        let [only] = self.open[..] else { return false };
        let block = self.text.get(start..).unwrap_or_default();
        self.tag(only).is_some_and(|tag| is_cut(block, tag))
    }

    fn finish(mut self) -> Tree<'a> {
        let outermost = self.open.first().copied();
        let unclosed = self.open.clone();
        while let Some(&index) = self.open.last() {
            self.end_innermost(self.slots.len());
            self.empty_stub(index);
        }
        let entry = outermost.and_then(|index| self.entry_inside(index));
        if !self.truncated {
            let mended = entry.is_none() && self.is_last_of(&unclosed);
            for &index in unclosed.iter().take(UNCLOSED_SHOWN) {
                let within = entry.filter(|_| Some(index) == outermost);
                self.report_unclosed(index, within, unclosed.len(), mended);
            }
        }
        if let (Some(index), Some(entry)) = (outermost, entry)
            && let Some(slot) = self.slots.get_mut(index)
        {
            slot.set_end(entry);
        }
        Tree::new(self.text, self.slots, self.findings.finish())
    }

    /// Returns the first entry of the conversation inside an unclosed entry.
    ///
    /// It was meant to follow the unclosed entry.
    fn entry_inside(&self, index: usize) -> Option<usize> {
        self.tag(index).filter(|tag| tag.is_entry())?;
        let end = self.slots.get(index)?.end();
        let mut child = index + 1;
        while child < end {
            let slot = self.slots.get(child)?;
            if let TokenKind::Open(tag) | TokenKind::Empty(tag) = slot.kind
                && tag.is_entry()
            {
                return Some(child);
            }
            child = slot.end().max(child + 1);
        }
        None
    }

    /// Returns whether only the last element is unclosed, or a summary in its record.
    ///
    /// Tags without their slash do not count.
    fn is_last_of(&self, unclosed: &[usize]) -> bool {
        let mut tags = unclosed
            .iter()
            .filter_map(|&index| self.tag(index))
            .filter(|tag| !tag.is_stub());
        match (tags.next(), tags.next(), tags.next()) {
            (Some(tag), None, _) => tag.is_entry(),
            (Some(Tag::Reasoning), Some(Tag::Summary), None) => true,
            _ => false,
        }
    }

    fn report_unclosed(&mut self, index: usize, entry: Option<usize>, all: usize, mended: bool) {
        let Some(tag) = self.tag(index) else { return };
        let opener = self.span(index);
        let entry = entry.map(|entry| self.span(entry));
        let mut error = unclosed_tag(tag, opener, self.text, entry);
        if mended && !tag.is_stub() || tag.is_stub() && self.has_attributes(index) {
            error = error.with_help(FIX);
        }
        if all > UNCLOSED_SHOWN {
            error = error.with_help(format!("{all} elements are open at the end of the text"));
        }
        self.findings.push(error);
    }
}
