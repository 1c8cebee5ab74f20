//! The tokenizer of one file.

use super::added::{AddedTokens, Segment};
use super::cache::PieceCache;
use super::file;
use super::model::Model;
use super::normalize::Normalized;
use super::split::Split;
use crate::{Refusal, Tokenizer};
use logue_source::{DiagnosticCode, Span};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// A byte-level BPE tokenizer from a file `tokenizer.json`.
///
/// Ids and offsets equal those of the package `tokenizers`, with two rules for what that package
/// leaves open: an offset in a character of several tokens is that of the byte, and text that NFC
/// joins to a character belongs to the token of that character. `truncation` and `padding` of the
/// file are not applied. The token that the file puts before every text ([`Tokenizer::begin`]) is
/// never added here: the output of a chat template contains it already, and a second one would be
/// trained as text.
pub struct HfTokenizer {
    parts: Arc<Parts>,
    cache: PieceCache,
    pieces: [Vec<(usize, usize)>; 2],
}

/// The parts of a tokenizer that do not change.
pub(super) struct Parts {
    pub(super) model: Model,
    /// Tokens that are searched in the text itself.
    pub(super) raw: AddedTokens,
    /// Tokens that are searched in normalized text.
    pub(super) normalized: AddedTokens,
    pub(super) is_nfc: bool,
    pub(super) splits: Vec<Split>,
    pub(super) names: HashMap<String, u32>,
    pub(super) begin: Option<u32>,
}

impl HfTokenizer {
    /// Loads a file.
    ///
    /// # Errors
    /// Returns `E-SOURCE-READ` if the file cannot be read, and `E-DATA-TOKENIZER` with the name of
    /// the part if a part cannot be loaded exactly.
    pub fn load(path: &Path) -> Result<Self, Refusal> {
        let bytes = std::fs::read(path).map_err(|error| {
            let message = format!("cannot read `{}`: {error}", path.display());
            Refusal::new(DiagnosticCode::SourceRead, message, Span::new(0, 0))
        })?;
        Self::from_json(&bytes)
    }

    /// Loads the content of a file.
    ///
    /// # Errors
    /// Returns `E-DATA-TOKENIZER` with the name of the part if a part cannot be loaded exactly.
    pub fn from_json(bytes: &[u8]) -> Result<Self, Refusal> {
        Ok(Self::with_parts(Arc::new(file::load(bytes)?)))
    }

    fn with_parts(parts: Arc<Parts>) -> Self {
        Self {
            parts,
            cache: PieceCache::default(),
            pieces: [Vec::new(), Vec::new()],
        }
    }

    /// Encodes text without added tokens; `end` converts a position of `text`.
    fn encode_text(
        &mut self,
        text: &str,
        ids: &mut Vec<u32>,
        ends: Option<&mut Vec<usize>>,
        end: impl Fn(usize) -> usize,
    ) {
        let [pieces, cut] = &mut self.pieces;
        pieces.clear();
        pieces.push((0, text.len()));
        for split in &self.parts.splits {
            cut.clear();
            split.apply(text, pieces, cut);
            std::mem::swap(pieces, cut);
        }
        let mut ends = ends;
        for &(from, to) in pieces.iter() {
            let piece = text.as_bytes().get(from..to).unwrap_or_default();
            let first = ids.len();
            if let Some(known) = self.cache.get(piece) {
                ids.extend_from_slice(known);
            } else {
                self.parts.model.encode(piece, ids);
                self.cache
                    .insert(piece, ids.get(first..).unwrap_or_default());
            }
            if let Some(ends) = ends.as_deref_mut() {
                let mut at = from;
                for id in ids.get(first..).unwrap_or_default() {
                    at += self.parts.model.length(*id);
                    ends.push(end(at));
                }
            }
        }
    }

    /// Encodes text in which tokens of the text itself were found already.
    fn encode_segment(
        &mut self,
        text: &str,
        offset: usize,
        has_tokens: bool,
        ids: &mut Vec<u32>,
        mut ends: Option<&mut Vec<usize>>,
    ) {
        let parts = Arc::clone(&self.parts);
        let normalized = if parts.is_nfc {
            Normalized::nfc(text)
        } else {
            Normalized::unchanged(text)
        };
        let place = |position| offset + normalized.original(position, text.len());
        if !has_tokens {
            self.encode_text(&normalized.text, ids, ends, place);
            return;
        }
        parts
            .normalized
            .split(&normalized.text, |segment| match segment {
                Segment::Token(id, end) => {
                    ids.push(id);
                    if let Some(ends) = ends.as_deref_mut() {
                        ends.push(place(end));
                    }
                }
                Segment::Text(from, to) => {
                    let text = normalized.text.get(from..to).unwrap_or_default();
                    self.encode_text(text, ids, ends.as_deref_mut(), |at| place(from + at));
                }
            });
    }
}

impl Tokenizer for HfTokenizer {
    fn encode(&mut self, text: &str, ids: &mut Vec<u32>) {
        self.encode_segment(text, 0, false, ids, None);
    }

    fn encode_with_ends(&mut self, text: &str, ids: &mut Vec<u32>, ends: &mut Vec<usize>) {
        self.encode_segment(text, 0, false, ids, Some(ends));
    }

    fn encode_rendered(&mut self, text: &str, ids: &mut Vec<u32>, ends: &mut Vec<usize>) {
        let parts = Arc::clone(&self.parts);
        parts.raw.split(text, |segment| match segment {
            Segment::Token(id, end) => {
                ids.push(id);
                ends.push(end);
            }
            Segment::Text(from, to) => {
                let text = text.get(from..to).unwrap_or_default();
                self.encode_segment(text, from, true, ids, Some(ends));
            }
        });
    }

    fn special(&self, name: &str) -> Option<u32> {
        self.parts.names.get(name).copied()
    }

    fn begin(&self) -> Option<u32> {
        self.parts.begin
    }

    fn duplicate(&self) -> Box<dyn Tokenizer> {
        Box::new(Self::with_parts(Arc::clone(&self.parts)))
    }
}
