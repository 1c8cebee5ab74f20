//! The words of a TypeScript declaration, one at a time.

use logue_source::Span;

/// One word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// A name or a keyword.
    Name,
    /// A string with its quotes.
    Text,
    /// A number without its sign.
    Number,
    /// `// …`, without the end of its line.
    Comment,
    /// `=>`.
    Arrow,
    /// Another mark.
    Mark(u8),
    /// The end of the text.
    End,
}

/// A word, its place, and whether a line ended before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub(super) word: Word,
    pub(super) span: Span,
    pub(super) on_new_line: bool,
}

/// A reader of words; a copy is a place to return to.
#[derive(Clone, Copy)]
pub(super) struct Lexer<'t> {
    text: &'t str,
    pub(super) at: usize,
    /// No string begins before this: one that began did not end on its line.
    no_string_before: usize,
}

impl<'t> Lexer<'t> {
    pub(super) const fn new(text: &'t str, at: usize) -> Self {
        Self {
            text,
            at,
            no_string_before: 0,
        }
    }

    /// The next word, which stays the next one.
    pub(super) fn peek(mut self) -> Token {
        self.next()
    }

    /// The next word, if it is a certain one.
    pub(super) fn next_if(&mut self, is_wanted: impl Fn(&Token) -> bool) -> Option<Token> {
        let mut ahead = *self;
        let token = ahead.next();
        if !is_wanted(&token) {
            self.no_string_before = ahead.no_string_before;
            return None;
        }
        *self = ahead;
        Some(token)
    }

    /// Steps to the end of the line, or to a `}` before it.
    pub(super) fn skip_line(&mut self) {
        let end = memchr::memchr2(b'\n', b'}', self.rest());
        self.at += end.unwrap_or_else(|| self.rest().len());
    }

    /// Steps over what belongs to a bracket that was just read.
    pub(super) fn skip_brackets(&mut self, open: Token) {
        self.at = self.at.max(open.span.end);
        self.skip(1);
    }

    /// Skips the `;` of a declaration, or stops at the closing `}` around it.
    pub(super) fn skip_declaration(&mut self) {
        self.skip(0);
    }

    /// Skips to the end of all open brackets; without one, past a `;`.
    fn skip(&mut self, open: usize) {
        let mut depth = open;
        loop {
            let before = *self;
            match self.next().word {
                Word::End => return,
                Word::Mark(b';') if depth == 0 => return,
                Word::Mark(b'{' | b'(' | b'[') => depth += 1,
                Word::Mark(b'}' | b')' | b']') if depth == 0 => {
                    *self = before;
                    return;
                }
                Word::Mark(b'}' | b')' | b']') => {
                    depth -= 1;
                    if depth == 0 && open > 0 {
                        return;
                    }
                }
                _ => {}
            }
        }
    }

    /// The next word that is not a comment.
    pub(super) fn next(&mut self) -> Token {
        let mut on_new_line = false;
        loop {
            let token = self.next_any();
            on_new_line |= token.on_new_line;
            if token.word != Word::Comment {
                return Token {
                    on_new_line,
                    ..token
                };
            }
        }
    }

    /// The next word or line comment. Block comments are space.
    pub(super) fn next_any(&mut self) -> Token {
        let on_new_line = self.space();
        let start = self.at;
        let rest = self.rest();
        let Some(first) = rest.first().copied() else {
            return self.token(Word::End, start, on_new_line);
        };
        let word = match first {
            b'/' if rest.starts_with(b"//") => {
                self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
                Word::Comment
            }
            b'"' | b'\'' | b'`' => self.string(first),
            b'=' if rest.starts_with(b"=>") => {
                self.at += 2;
                Word::Arrow
            }
            b'0'..=b'9' => {
                self.run(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_'));
                Word::Number
            }
            _ if is_name(first) => {
                // Harmony writes any name that a tool has, hyphens and dots included.
                self.run(|byte| is_name(byte) || byte.is_ascii_digit() || byte == b'-');
                Word::Name
            }
            _ => {
                self.at += 1;
                Word::Mark(first)
            }
        };
        self.token(word, start, on_new_line)
    }

    pub(super) fn text_of(&self, span: Span) -> &'t str {
        span.text(self.text).unwrap_or_default()
    }

    fn rest(&self) -> &'t [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    const fn token(&self, word: Word, start: usize, on_new_line: bool) -> Token {
        let span = Span::new(start, self.at);
        Token {
            word,
            span,
            on_new_line,
        }
    }

    fn run(&mut self, is_part: impl Fn(u8) -> bool) {
        let rest = self.rest();
        let end = rest.iter().position(|byte| !is_part(*byte));
        self.at += end.unwrap_or(rest.len());
    }

    /// Steps over white space and block comments: whether a line ended there.
    fn space(&mut self) -> bool {
        let mut on_new_line = self.at == 0;
        loop {
            match self.rest() {
                [b'\n', ..] => {
                    on_new_line = true;
                    self.at += 1;
                }
                [byte, ..] if byte.is_ascii_whitespace() => self.at += 1,
                rest @ [b'/', b'*', ..] => {
                    let end = memchr::memmem::find(rest, b"*/");
                    self.at += end.map_or(rest.len(), |end| end + 2);
                }
                _ => return on_new_line,
            }
        }
    }

    /// Reads a string up to its closing quote.
    ///
    /// A string that does not end on its line consists of its opening quote only, so an apostrophe
    /// in prose does no harm.
    fn string(&mut self, quote: u8) -> Word {
        let start = self.at;
        self.at += 1;
        if start < self.no_string_before {
            return Word::Mark(quote);
        }
        while let Some(byte) = self.rest().first().copied() {
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'\n' => break,
                _ if byte == quote => return Word::Text,
                _ => {}
            }
        }
        self.no_string_before = self.at.min(self.text.len());
        self.at = start + 1;
        Word::Mark(quote)
    }
}

const fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$') || !byte.is_ascii()
}

/// A string without its quotes.
pub(super) fn within_quotes(text: &str) -> &str {
    text.get(1..text.len().saturating_sub(1))
        .unwrap_or_default()
}

/// The content of a string. Escapes are those of JSON; others mean the character after them.
pub(super) fn unquoted(text: &str) -> String {
    let inner = within_quotes(text);
    if !inner.contains('\\') {
        return inner.to_owned();
    }
    if let Ok(decoded) = serde_json::from_str(text) {
        return decoded;
    }
    let mut out = String::new();
    let mut chars = inner.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some(other) => out.push(other),
                None => {}
            },
            other => out.push(other),
        }
    }
    out
}
