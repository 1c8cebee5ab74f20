//! Control tokens in what people say, found while the text goes by.
//!
//! A text that spells `<|im_start|>` or `<|end|>` is harmless as long as something escapes or
//! encodes it, and forges a message where nothing does. [`TokenScanner`] finds such places in text of any
//! length, given in any pieces: it keeps no more than one token of it.
//!
//! | [`ScanFormat`] | what counts |
//! |---|---|
//! | `Plain` | every token of every dialect and of other model families |
//! | `Json` | the same, also where JSON escapes spell it (`\u003c\|end\|>`) |
//! | `ChatMd` | the same, except for ChatMarkdown's own `<tool_call>` and `<tool_response>` |
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

mod families;
mod letters;
mod structure;

use logue_source::Span;

use crate::dialect::Dialect;
pub use families::{TokenFamilies, TokenFamily, families_of, is_control_token};
use families::{families_of_word, may_begin};
use letters::Letters;
use structure::{Place, Structure};

/// The format of a text for a [`TokenScanner`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScanFormat {
    /// Prose, or a language in which every word is user content.
    Plain,
    /// JSON, one document or one a line.
    Json,
    /// ChatMarkdown.
    ChatMd,
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
    /// The searched families that have the token.
    pub families: TokenFamilies,
}

/// A scan that continues with each chunk of a text. Linear in the text; memory does not grow.
#[derive(Clone, Debug)]
pub struct TokenScanner {
    letters: Letters,
    structure: Structure,
    families: TokenFamilies,
    /// The possible token: its letters, and where its first one is.
    word: Vec<u8>,
    start: usize,
    /// The place of the `<` before the possible token.
    start_before: usize,
    /// The number of `<` directly before it.
    before: usize,
    /// The number of `<` at the end of the text so far.
    run: usize,
}

impl TokenScanner {
    /// A search at the begin of a text.
    pub fn new(text: ScanFormat) -> Self {
        Self {
            letters: Letters::new(text == ScanFormat::Json),
            structure: Structure::new(text),
            families: TokenFamilies::ALL,
            word: Vec::new(),
            start: 0,
            start_before: 0,
            before: 0,
            run: 0,
        }
    }

    /// Searches for the tokens of these families only. All are searched by default.
    #[must_use]
    pub const fn with_families(mut self, families: TokenFamilies) -> Self {
        self.families = families;
        self
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
        let families = TokenFamilies::NONE.with(TokenFamily::OpenChatMl);
        if let Some(span) = self.structure.unclosed()
            && self.families.contains(TokenFamily::OpenChatMl)
        {
            out(TokenHit {
                token: "<|literal|>".to_owned(),
                span,
                is_escaped: false,
                families,
            });
        }
    }

    fn letter(&mut self, letter: u8, span: Span, out: &mut dyn FnMut(TokenHit)) {
        if letter == b'<' {
            self.start_before = self.start;
            self.begin(letter, span);
            self.before = self.run;
            self.structure.bracket();
            self.run += 1;
            return;
        }
        self.run = 0;
        self.structure.letter(letter);
        if letter == b'[' {
            self.begin(letter, span);
            self.before = 0;
            return;
        }
        if self.word.is_empty() {
            return;
        }
        self.word.push(letter);
        if !may_begin(&self.word) {
            self.word.clear();
        } else if matches!(letter, b'>' | b']') {
            self.complete(span.end, out);
        }
    }

    fn begin(&mut self, letter: u8, span: Span) {
        self.word.clear();
        self.word.push(letter);
        self.start = span.start;
    }

    /// The possible token at its last letter, or at one that looks like it.
    fn complete(&mut self, end: usize, out: &mut dyn FnMut(TokenHit)) {
        let all = families_of_word(&self.word);
        if all.is_empty() {
            return;
        }
        let word = std::mem::take(&mut self.word);
        let mut token = String::from_utf8_lossy(&word).into_owned();
        let mut start = self.start;
        if token.ends_with("SYS>>") {
            if self.before == 0 {
                return;
            }
            token.insert(0, '<');
            start = self.start_before;
        }
        let span = Span::new(start, end);
        // The structure follows all tokens, also those that are not searched.
        let is_escaped = match self.structure.token(&token, span, self.before > 0) {
            Place::Markup => return,
            Place::Harmless => true,
            Place::Text => false,
        };
        let families = all.and(self.families);
        if families.is_empty() {
            return;
        }
        out(TokenHit {
            token,
            span,
            is_escaped,
            families,
        });
    }
}
