//! Separation of control tokens from text that arrives in chunks.
//!
//! The streams of OpenChatML 2.x, Harmony and OpenChatML 0.1 share this scan. Each one declares its
//! tokens and receives text and tokens in order.

use crate::syntax::scanner::opener;

/// Maximum length for which a search for one byte beats the vectorised search.
const SHORT: usize = 64;

/// A reader of text in chunks whose tokens begin with `<|`.
///
/// `S` is the receiver of the reader's output. The provided methods call [`Self::text`] and
/// [`Self::token`] in the order of the input. The bytes of a possible token at the end of a chunk
/// are held until more input decides, so the calls are the same for every split of the input, up to
/// adjacent text. At most one token is held.
pub(crate) trait TokenStream<S: ?Sized> {
    /// A control token.
    type Token: Copy;

    /// Returns the buffer for the beginning of a possible token.
    fn held(&mut self) -> &mut Vec<u8>;

    /// Returns the token at the beginning of `text`.
    fn token_at(&self, text: &[u8]) -> Option<Self::Token>;

    /// Returns whether more input can complete `text` to a token.
    fn may_become_token(&self, text: &[u8]) -> bool;

    /// Returns the length of a token in bytes.
    fn token_len(token: Self::Token) -> usize;

    /// Receives text without tokens; may be empty.
    fn text(&mut self, bytes: &[u8], sink: &mut S);

    /// Receives a token.
    fn token(&mut self, token: Self::Token, sink: &mut S);

    /// Reads the next chunk.
    fn feed(&mut self, mut bytes: &[u8], sink: &mut S) {
        while !self.held().is_empty() {
            let Some((next, remaining)) = bytes.split_first() else {
                return;
            };
            self.held().push(*next);
            let held = std::mem::take(self.held());
            if let Some(token) = self.token_at(&held) {
                bytes = remaining;
                self.reuse(held);
                self.token(token, sink);
            } else if self.may_become_token(&held) {
                bytes = remaining;
                *self.held() = held;
            } else {
                let (_, text) = held.split_last().unwrap_or((&0, &[]));
                self.text(text, sink);
                self.reuse(held);
            }
        }
        self.scan(bytes, sink);
    }

    /// Passes held bytes on as text at the end of the input.
    fn release(&mut self, sink: &mut S) {
        let held = std::mem::take(self.held());
        self.text(&held, sink);
    }

    /// Empties the buffer and keeps its capacity.
    fn reuse(&mut self, mut held: Vec<u8>) {
        held.clear();
        *self.held() = held;
    }

    /// Reads a chunk while no bytes are held.
    fn scan(&mut self, bytes: &[u8], sink: &mut S) {
        let mut from = 0;
        let mut search = 0;
        while let Some(found) = find_opener(bytes.get(search..).unwrap_or_default()) {
            let at = search + found;
            let candidate = bytes.get(at..).unwrap_or_default();
            if let Some(token) = self.token_at(candidate) {
                self.text(bytes.get(from..at).unwrap_or_default(), sink);
                self.token(token, sink);
                from = at + Self::token_len(token);
                search = from;
            } else if self.may_become_token(candidate) {
                self.text(bytes.get(from..at).unwrap_or_default(), sink);
                self.held().extend_from_slice(candidate);
                return;
            } else {
                search = at + 2;
            }
        }
        let remaining = bytes.get(from..).unwrap_or_default();
        match remaining.split_last() {
            Some((b'<', text)) => {
                self.text(text, sink);
                self.held().push(b'<');
            }
            _ => self.text(remaining, sink),
        }
    }
}

/// Returns the offset of the first `<|`.
fn find_opener(bytes: &[u8]) -> Option<usize> {
    if bytes.len() > SHORT {
        return opener().find(bytes);
    }
    let mut brackets = memchr::memchr_iter(b'<', bytes);
    brackets.find(|at| bytes.get(at + 1) == Some(&b'|'))
}
