//! The scan for control tokens.
//!
//! Every token begins with `<|`, so the scan is one vectorised search for these two bytes and a
//! look at what follows. A token with another `<` directly before it is an escape: text, not
//! markup (OpenChatML 2.2 §3). The scanner has no grammar; the meaning of a token in its context
//! is the [reader](crate::parse)'s business.

use std::sync::LazyLock;

use logue_source::Span;
use memchr::memmem;

use crate::syntax::rules::Rules;
use crate::syntax::token::ControlToken;

/// A place that spells a token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hit {
    /// The token.
    pub(crate) token: ControlToken,
    /// Its place, from the `<` directly before its bar.
    pub(crate) span: Span,
    /// Whether it is text because another `<` precedes it.
    pub(crate) escaped: bool,
}

/// The search for what every token begins with, prepared once.
pub(crate) fn opener() -> &'static memmem::Finder<'static> {
    static OPENER: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(b"<|"));
    &OPENER
}

/// Finds the places of a text that spell a token, in order. Linear in the length of the text.
pub(crate) struct Scanner<'s> {
    text: &'s [u8],
    /// First byte not yet looked at; a `<` before it belongs to nothing that follows.
    at: usize,
    /// End of the part to scan.
    end: usize,
    rules: Rules,
    finder: &'static memmem::Finder<'static>,
    /// Whether the scanner passed an unknown token or a literal block.
    ///
    /// An unknown token begins like one of the nine tokens and differs from all of them. The
    /// content of a literal block is not examined.
    passed_others: bool,
}

impl<'s> Scanner<'s> {
    /// A scan of the part `part` of `text` by the rules of `rules`.
    pub(crate) fn new(text: &'s [u8], part: Span, rules: Rules) -> Self {
        let end = part.end.min(text.len());
        Self {
            text,
            at: part.start.min(end),
            end,
            rules,
            finder: opener(),
            passed_others: false,
        }
    }

    /// The `<|start|>` here or after one newline. Only after a token.
    pub(crate) fn start_here(&mut self) -> Option<Hit> {
        let rest = self.text.get(self.at..self.end)?;
        let line = rest.strip_prefix(b"\n");
        let start = self.at + usize::from(line.is_some());
        let token = ControlToken::Start.as_str().as_bytes();
        if !line.unwrap_or(rest).starts_with(token) {
            return None;
        }
        self.at = start + token.len();
        Some(Hit {
            token: ControlToken::Start,
            span: Span::new(start, self.at),
            escaped: false,
        })
    }

    /// Continues at `at`, which follows a token.
    pub(crate) const fn skip_to(&mut self, at: usize) {
        self.at = at;
    }

    /// The next place that spells a token, escaped or not; goes nowhere.
    pub(crate) fn first_raw(&self) -> Option<Span> {
        let rest = self.text.get(self.at..self.end)?;
        self.finder.find_iter(rest).find_map(|found| {
            let token =
                ControlToken::at(rest.get(found..)?).filter(|token| self.rules.has(*token))?;
            let start = self.at + found;
            Some(Span::new(start, start + token.as_str().len()))
        })
    }

    /// Returns whether unknown tokens or a literal block were passed since the last call.
    pub(crate) const fn passed_others(&mut self) -> bool {
        std::mem::replace(&mut self.passed_others, false)
    }

    /// Skips past the next `<|endliteral|>` and returns its place; skips everything if there is
    /// none.
    pub(crate) fn skip_literal(&mut self) -> Option<Span> {
        let close = ControlToken::EndLiteral.as_str().as_bytes();
        self.passed_others = true;
        let rest = self.text.get(self.at..self.end)?;
        let Some(found) = memmem::find(rest, close) else {
            self.at = self.end;
            return None;
        };
        let span = Span::new(self.at + found, self.at + found + close.len());
        self.at = span.end;
        Some(span)
    }
}

impl Iterator for Scanner<'_> {
    type Item = Hit;

    fn next(&mut self) -> Option<Hit> {
        let floor = self.at;
        loop {
            let rest = self.text.get(self.at..self.end)?;
            let Some(found) = self.finder.find(rest) else {
                self.at = self.end;
                return None;
            };
            let start = self.at + found;
            let token = ControlToken::at(rest.get(found..)?).filter(|token| self.rules.has(*token));
            let Some(token) = token else {
                self.at = start + 2;
                self.passed_others = true;
                continue;
            };
            let span = Span::new(start, start + token.as_str().len());
            self.at = span.end;
            let before = start.checked_sub(1).filter(|before| *before >= floor);
            let escaped = self.rules.escapes()
                && before.and_then(|before| self.text.get(before)) == Some(&b'<');
            return Some(Hit {
                token,
                span,
                escaped,
            });
        }
    }
}
