//! Lines that are filled word by word.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::terminal::markdown::style::{Look, Span, Style, paint};

/// The columns that a line has at least beside its prefix.
const MIN_WIDTH: usize = 10;

/// Requests a new line within text.
pub(super) const LINE_BREAK: char = '\u{2028}';

/// Fills lines with words. A word is written when it is complete.
#[derive(Debug)]
pub(super) struct Wrapper {
    look: Look,
    /// The prefix of the line.
    prefix: Span,
    /// The prefix of the lines after it.
    rest: Span,
    /// The text of the line that was not written.
    line: Vec<Span>,
    /// Whether the prefix of the line was written.
    is_begun: bool,
    /// The style and the address at the end of the line.
    last: Option<Span>,
    /// The columns of the longest line, without its prefix.
    widest: usize,
    /// The columns of the line, without its prefix.
    used: usize,
    word: Vec<Span>,
    /// Whether a space precedes the word.
    has_space: bool,
    /// The columns that a line has at least beside its prefix.
    least: usize,
}

impl Wrapper {
    pub(super) fn new(look: Look, prefix: String, rest: String) -> Self {
        Self {
            look,
            prefix: Span::new(prefix, Style::DIM),
            rest: Span::new(rest, Style::DIM),
            line: Vec::new(),
            is_begun: false,
            last: None,
            widest: 0,
            used: 0,
            word: Vec::new(),
            has_space: false,
            least: MIN_WIDTH,
        }
    }

    /// Creates a wrapper for cells of a table.
    pub(super) fn narrow(look: Look) -> Self {
        Self {
            least: 1,
            ..Self::new(look, String::new(), String::new())
        }
    }

    /// Adds text; a word may continue in the next piece.
    pub(super) fn push(&mut self, spans: &[Span], width: usize, out: &mut String) {
        for span in spans {
            for character in span.text.chars() {
                if character == LINE_BREAK {
                    self.end_line_after_word(width, out);
                    continue;
                }
                if character.is_whitespace() && character != '\u{a0}' {
                    self.end_word(width, out);
                    self.has_space = true;
                    continue;
                }
                if self.breaks_before(character) {
                    self.end_word(width, out);
                    self.has_space = false;
                }
                append(&mut self.word, character, span);
            }
        }
        self.flush(out);
    }

    /// Writes the last word, and ends its line.
    pub(super) fn finish(&mut self, width: usize, out: &mut String) {
        self.end_word(width, out);
        if self.used > 0 || self.is_first_line() {
            self.end_line(out);
        }
        self.has_space = false;
    }

    /// Ends a line of which words were written, so that other text can follow.
    pub(super) fn interrupt(&mut self, out: &mut String) {
        if self.is_begun {
            self.end_line(out);
            self.has_space = false;
        }
    }

    /// Returns the columns of the longest line, without its prefix.
    pub(super) const fn widest(&self) -> usize {
        self.widest
    }

    /// Ends the line, as text requests it.
    pub(super) fn end_line_after_word(&mut self, width: usize, out: &mut String) {
        self.end_word(width, out);
        self.end_line(out);
        self.has_space = false;
    }

    /// Returns whether the mark of an item was not written.
    fn is_first_line(&self) -> bool {
        self.prefix != self.rest
    }

    /// Returns whether a line may end before a character within text without spaces.
    fn breaks_before(&self, character: char) -> bool {
        let last = self
            .word
            .last()
            .and_then(|span| span.text.chars().next_back());
        let Some(last) = last else {
            return false;
        };
        may_break_between(last, character)
    }

    fn end_word(&mut self, width: usize, out: &mut String) {
        let word = std::mem::take(&mut self.word);
        if word.is_empty() {
            return;
        }
        let columns = width_of(&word);
        let space = usize::from(self.has_space && self.used > 0);
        if self.used > 0 && self.used + space + columns > self.available(width) {
            self.end_line(out);
        } else if space > 0 {
            let last = self.line.last().or(self.last.as_ref());
            let style = joined_style(last, word.first());
            append(&mut self.line, ' ', &style);
            self.used += 1;
        }
        if columns > self.available(width) {
            self.place_long(&word, width, out);
        } else {
            self.used += columns;
            for span in &word {
                match self.line.last_mut() {
                    Some(last) if is_joined(last, span) => last.text.push_str(&span.text),
                    _ => self.line.push(span.clone()),
                }
            }
        }
        self.has_space = false;
    }

    /// Places a word that is longer than a line.
    fn place_long(&mut self, word: &[Span], width: usize, out: &mut String) {
        for span in word {
            for character in span.text.chars() {
                let columns = character.width().unwrap_or(0);
                if self.used > 0 && self.used + columns > self.available(width) {
                    self.end_line(out);
                }
                self.used += columns;
                append(&mut self.line, character, span);
            }
        }
    }

    fn available(&self, width: usize) -> usize {
        width
            .saturating_sub(self.prefix.text.width())
            .max(self.least)
    }

    /// Writes the words of the line.
    fn flush(&mut self, out: &mut String) {
        if self.line.is_empty() {
            return;
        }
        self.begin_line(out);
        for span in self.line.drain(..) {
            paint(out, &span, self.look);
            self.last = Some(span);
        }
    }

    fn begin_line(&mut self, out: &mut String) {
        if !std::mem::replace(&mut self.is_begun, true) {
            paint(out, &self.prefix, self.look);
        }
    }

    fn end_line(&mut self, out: &mut String) {
        self.begin_line(out);
        self.flush(out);
        out.push('\n');
        self.is_begun = false;
        self.last = None;
        self.widest = self.widest.max(self.used);
        self.used = 0;
        self.prefix = self.rest.clone();
    }
}

/// Adds a character in the style and with the address of a span.
fn append(spans: &mut Vec<Span>, character: char, from: &Span) {
    match spans.last_mut() {
        Some(last) if is_joined(last, from) => last.text.push(character),
        _ => spans.push(Span {
            text: character.to_string(),
            ..from.clone()
        }),
    }
}

/// Returns whether two spans have the same style and address.
fn is_joined(one: &Span, other: &Span) -> bool {
    one.style == other.style && one.address == other.address
}

/// Returns whether a line may end between two characters of text without spaces.
pub(super) fn may_break_between(last: char, next: char) -> bool {
    // A line neither begins with a closing mark nor ends with an opening one.
    let closing = "、。，．！？：；）」』】〉》”’…,.!?:;)]}";
    let opening = "（「『【〈《“‘([{";
    let is_wide = |one: char| one.width() == Some(2);
    let joins = last == '\u{200d}' || next.width().unwrap_or(0) == 0;
    !joins && (is_wide(next) || is_wide(last)) && !closing.contains(next) && !opening.contains(last)
}

/// Returns the columns of text.
fn width_of(spans: &[Span]) -> usize {
    let text: String = spans.iter().map(|span| span.text.as_str()).collect();
    text.width()
}

/// Returns the style and the address of a space between two words.
fn joined_style(before: Option<&Span>, after: Option<&Span>) -> Span {
    match (before, after) {
        (Some(before), Some(after)) if is_joined(before, after) => Span {
            text: String::new(),
            ..before.clone()
        },
        _ => Span::new("", Style::PLAIN),
    }
}
