//! Control tokens in what people say, found while the text goes by.
//!
//! A text that spells `<|im_start|>` or `<|end|>` is harmless as long as something escapes or
//! encodes it, and forges a message where nothing does. [`TokenScanner`] finds such places in text of any
//! length, given in any pieces: it keeps no more than one token of it.
//!
//! | [`ScanFormat`] | what counts |
//! |---|---|
//! | `Plain` | every token of every dialect |
//! | `Json` | the same, also where JSON escapes spell it (`\u003c\|end\|>`) |
//! | `Envelope` | in bodies of that dialect, what is not its own markup |
//!
//! In a body of OpenChatML 2.2 an escaped or quoted token of its own is [`TokenHit::is_escaped`].
//!
//! ```
//! use openchatml::Dialect;
//! use openchatml::scan::{TokenScanner, ScanFormat};
//!
//! let mut found = Vec::new();
//! let mut scan = TokenScanner::new(ScanFormat::Envelope(Dialect::V2_2));
//! scan.push(b"<|start|>user<|message|>a <<|end|> b <|im_", &mut |token| found.push(token));
//! scan.push(b"end|><|end|>", &mut |token| found.push(token));
//! scan.finish(&mut |token| found.push(token));
//! assert_eq!((found[0].token.as_str(), found[0].is_escaped), ("<|end|>", true));
//! assert_eq!((found[1].token.as_str(), found[1].is_escaped), ("<|im_end|>", false));
//! assert_eq!(found[1].span.bytes(b"<|start|>user<|message|>a <<|end|> b <|im_end|>"), b"<|im_end|>");
//! ```

mod letters;
mod structure;
mod words;

use logue_source::Span;

use crate::dialect::Dialect;
use letters::Letters;
use structure::{Place, Structure};
pub use words::is_control_token;

/// The format of a text for a [`TokenScanner`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScanFormat {
    /// Prose, or a language in which every word is user content.
    Plain,
    /// JSON, one document or one a line.
    Json,
    /// A transcript of that dialect.
    Envelope(Dialect),
}

/// A control token in user content.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenHit {
    /// The token, as it reads.
    pub token: String,
    /// Its place, counted from the first byte that was pushed.
    pub span: Span,
    /// Whether its own text escapes or quotes it.
    pub is_escaped: bool,
}

/// A scan that continues with each chunk of a text. Linear in the text; memory does not grow.
#[derive(Clone, Debug)]
pub struct TokenScanner {
    letters: Letters,
    structure: Structure,
    /// The possible token: its letters, and where its first one is.
    word: String,
    start: usize,
    /// The number of `<` directly before it.
    before: usize,
    /// The number of `<` at the end of the text so far.
    run: usize,
}

/// Letters of the longest word that can be a token.
const MAX_WORD: usize = 40;

impl TokenScanner {
    /// A search at the begin of a text.
    pub fn new(text: ScanFormat) -> Self {
        Self {
            letters: Letters::new(text == ScanFormat::Json),
            structure: Structure::new(text),
            word: String::new(),
            start: 0,
            before: 0,
            run: 0,
        }
    }

    /// The next bytes.
    pub fn push(&mut self, bytes: &[u8], out: &mut dyn FnMut(TokenHit)) {
        let mut letters = std::mem::take(&mut self.letters);
        letters.push(bytes, &mut |letter, span| self.letter(letter, span, out));
        self.letters = letters;
    }

    /// The end of the text. A literal block that was never closed quoted nothing, so its
    /// `<|literal|>` is reported as a token that is not escaped.
    pub fn finish(self, out: &mut dyn FnMut(TokenHit)) {
        if let Some(span) = self.structure.unclosed() {
            out(TokenHit {
                token: "<|literal|>".to_owned(),
                span,
                is_escaped: false,
            });
        }
    }

    fn letter(&mut self, letter: u8, span: Span, out: &mut dyn FnMut(TokenHit)) {
        if letter == b'<' {
            self.word.clear();
            self.word.push('<');
            self.start = span.start;
            self.before = self.run;
            self.structure.bracket();
            self.run += 1;
            return;
        }
        self.run = 0;
        self.structure.letter(letter);
        if self.word.is_empty() {
            return;
        }
        let goes_on = match self.word.len() {
            1 => letter == b'|',
            _ => {
                letter == b'|' || letter == b'>' || letter == b'_' || letter.is_ascii_alphanumeric()
            }
        };
        if !goes_on || self.word.len() >= MAX_WORD {
            self.word.clear();
            return;
        }
        self.word.push(char::from(letter));
        if letter != b'>' {
            return;
        }
        let token = std::mem::take(&mut self.word);
        if !is_control_token(&token) {
            return;
        }
        let span = Span::new(self.start, span.end);
        let is_escaped = match self.structure.token(&token, span, self.before > 0) {
            Place::Markup => return,
            Place::Harmless => true,
            Place::Text => false,
        };
        out(TokenHit {
            token,
            span,
            is_escaped,
        });
    }
}
