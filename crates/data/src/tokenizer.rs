//! Tokenizers as masks need them: ids of ordinary text with offsets, and special tokens by name.

use logue_o200k::{Encoder, SpecialSet, special, token_bytes};

/// A tokenizer of one thread.
///
/// Text is encoded in one of two ways. A writer that knows its control tokens encodes ordinary text
/// between them ([`encode`](Self::encode)), in which nothing becomes a special token. The output of
/// a chat template is one text in which special tokens are spelled
/// ([`encode_rendered`](Self::encode_rendered)).
///
/// ```
/// use logue_data::{O200k, Tokenizer};
///
/// let mut tokenizer = O200k::new();
/// let (mut ids, mut ends) = (Vec::new(), Vec::new());
/// tokenizer.encode_with_ends("Hello <|end|>", &mut ids, &mut ends);
/// assert_eq!(ids, [13225, 464, 91, 419, 91, 29]);
/// assert_eq!(ends, [5, 7, 8, 11, 12, 13]);
/// assert_eq!(tokenizer.special("<|end|>"), Some(200_007));
/// ```
pub trait Tokenizer: Send {
    /// Appends the ids of ordinary text; the names of special tokens are ordinary text.
    fn encode(&mut self, text: &str, ids: &mut Vec<u32>);

    /// Appends the ids of ordinary text, and the end of each token in bytes.
    ///
    /// Ends never decrease, and the last one is the length of `text` unless the tokenizer drops
    /// text at its end. A token of no bytes of its own has the end of the token before it.
    fn encode_with_ends(&mut self, text: &str, ids: &mut Vec<u32>, ends: &mut Vec<usize>);

    /// Appends the ids of text with names of special tokens, with ends.
    ///
    /// No token is added at the edges.
    fn encode_rendered(&mut self, text: &str, ids: &mut Vec<u32>, ends: &mut Vec<usize>);

    /// Returns the id of the special token with this name, such as `<|end|>`.
    fn special(&self, name: &str) -> Option<u32>;

    /// Returns the id that the tokenizer puts before every text by default.
    fn begin(&self) -> Option<u32>;

    /// Creates an equal tokenizer for another thread, with caches of its own.
    fn duplicate(&self) -> Box<dyn Tokenizer>;
}

/// The tokenizer `o200k_harmony`, which is part of the program.
#[derive(Clone, Debug, Default)]
pub struct O200k {
    encoder: Encoder,
}

impl O200k {
    /// Creates a tokenizer with empty caches.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Tokenizer for O200k {
    fn encode(&mut self, text: &str, ids: &mut Vec<u32>) {
        self.encoder.encode_into(text, ids);
    }

    fn encode_with_ends(&mut self, text: &str, ids: &mut Vec<u32>, ends: &mut Vec<usize>) {
        let first = ids.len();
        self.encoder.encode_into(text, ids);
        append_ends(ids.get(first..).unwrap_or_default(), ends);
    }

    fn encode_rendered(&mut self, text: &str, ids: &mut Vec<u32>, ends: &mut Vec<usize>) {
        let encoded = self.encoder.encode_with_specials(text, &SpecialSet::ALL);
        append_ends(&encoded, ends);
        ids.extend(encoded);
    }

    fn special(&self, name: &str) -> Option<u32> {
        special::id(name)
    }

    fn begin(&self) -> Option<u32> {
        None
    }

    fn duplicate(&self) -> Box<dyn Tokenizer> {
        Box::new(Self::new())
    }
}

/// Appends the ends of tokens that have each byte of their text exactly once.
fn append_ends(ids: &[u32], ends: &mut Vec<usize>) {
    let mut end = 0;
    ends.extend(ids.iter().map(|&id| {
        end += token_bytes(id).map_or(0, <[u8]>::len);
        end
    }));
}

#[cfg(test)]
mod tests {
    use super::{O200k, Tokenizer};

    #[test]
    fn ends_are_the_bytes_of_the_text() {
        let text = "naïve 東京 🦊<|return|><|reserved_200013|> x";
        let mut tokenizer = O200k::new();
        for rendered in [false, true] {
            let (mut ids, mut ends) = (Vec::new(), Vec::new());
            if rendered {
                tokenizer.encode_rendered(text, &mut ids, &mut ends);
            } else {
                tokenizer.encode_with_ends(text, &mut ids, &mut ends);
            }
            assert_eq!(ids.contains(&200_002), rendered);
            assert_eq!(ends.last(), Some(&text.len()));
            let mut from = 0;
            for (id, end) in ids.iter().zip(ends) {
                let bytes = text.as_bytes().get(from..end);
                assert_eq!(bytes, logue_o200k::token_bytes(*id));
                from = end;
            }
        }
    }

    #[test]
    fn a_duplicate_gives_the_same_ids() {
        let mut first = O200k::new();
        let mut second = first.duplicate();
        let (mut one, mut other) = (Vec::new(), Vec::new());
        first.encode("The same words", &mut one);
        second.encode("The same words", &mut other);
        assert_eq!(one, other);
    }
}
