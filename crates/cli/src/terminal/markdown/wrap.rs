//! Lines that are filled word by word.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::terminal::markdown::style::{Look, Span, Style, paint};

/// The columns that a line has at least beside its prefix.
const MIN_WIDTH: usize = 10;

/// Fills lines with words. A line is written when the next word does not fit.
#[derive(Debug)]
pub(super) struct Wrapper {
    look: Look,
    /// The prefix of the next line.
    prefix: Span,
    /// The prefix of the lines after it.
    rest: Span,
    line: Vec<Span>,
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
                if character.is_whitespace() && character != '\u{a0}' {
                    self.end_word(width, out);
                    self.has_space = true;
                    continue;
                }
                if self.breaks_before(character) {
                    self.end_word(width, out);
                    self.has_space = false;
                }
                self.add(character, span);
            }
        }
    }

    /// Writes the last line, if it has text.
    pub(super) fn finish(&mut self, width: usize, out: &mut String) {
        self.end_word(width, out);
        if !self.line.is_empty() || self.is_first_line() {
            self.end_line(out);
        }
        self.has_space = false;
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
        let is_wide = |one: char| one.width() == Some(2);
        let joins = last == '\u{200d}' || character.width().unwrap_or(0) == 0;
        !joins && (is_wide(character) || is_wide(last))
    }

    fn add(&mut self, character: char, from: &Span) {
        if let Some(last) = self.word.last_mut()
            && last.style == from.style
            && last.address == from.address
        {
            last.text.push(character);
            return;
        }
        self.word.push(Span {
            text: character.to_string(),
            ..from.clone()
        });
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
            let style = joined_style(self.line.last(), word.first());
            self.line.push(Span {
                text: " ".to_owned(),
                ..style
            });
            self.used += 1;
        }
        if columns > self.available(width) {
            self.place_long(&word, width, out);
        } else {
            self.used += columns;
            self.line.extend(word);
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
                match self.line.last_mut() {
                    Some(last) if last.style == span.style && last.address == span.address => {
                        last.text.push(character);
                    }
                    _ => self.line.push(Span {
                        text: character.to_string(),
                        ..span.clone()
                    }),
                }
            }
        }
    }

    fn available(&self, width: usize) -> usize {
        width
            .saturating_sub(self.prefix.text.width())
            .max(self.least)
    }

    fn end_line(&mut self, out: &mut String) {
        paint(out, &self.prefix, self.look);
        for span in self.line.drain(..) {
            paint(out, &span, self.look);
        }
        out.push('\n');
        self.used = 0;
        self.prefix = self.rest.clone();
    }
}

/// Returns the columns of text.
pub(super) fn width_of(spans: &[Span]) -> usize {
    let text: String = spans.iter().map(|span| span.text.as_str()).collect();
    text.width()
}

/// Returns the style and the address of a space between two words.
fn joined_style(before: Option<&Span>, after: Option<&Span>) -> Span {
    match (before, after) {
        (Some(before), Some(after))
            if before.style == after.style && before.address == after.address =>
        {
            Span {
                text: String::new(),
                ..before.clone()
            }
        }
        _ => Span::new("", Style::PLAIN),
    }
}
