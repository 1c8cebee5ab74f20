//! Control tokens in text that a server made of a model's ids.
//!
//! Such text has no escapes and no literal blocks, which are OpenChatML's: a `<` before a token is a
//! `<`. So this is not the reader of transcripts; what it finds goes on as ids.

use openchatml::ControlToken;
use openchatml::harmony::control_id;

/// The id of `<|endoftext|>`.
const END_OF_TEXT: u32 = 199_999;

/// A piece of text, or a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found<'t> {
    Text(&'t str),
    Control(u32),
}

/// Finds tokens in text that arrives in pieces. Linear; holds back less than one token.
#[derive(Debug, Default)]
pub(super) struct Scan {
    held: String,
}

impl Scan {
    /// The next piece.
    pub(super) fn push(&mut self, piece: &str, tell: &mut impl FnMut(Found<'_>)) {
        let joined;
        let text = if self.held.is_empty() {
            piece
        } else {
            self.held.push_str(piece);
            joined = std::mem::take(&mut self.held);
            &joined
        };
        let mut from = 0;
        let mut search = 0;
        while let Some(at) = text.get(search..).and_then(|rest| rest.find('<')) {
            let at = search + at;
            let rest = text.get(at..).unwrap_or_default();
            let token = controls().find(|(token, _)| rest.starts_with(token));
            if let Some((token, id)) = token {
                tell_text(text.get(from..at), tell);
                tell(Found::Control(id));
                from = at + token.len();
                search = from;
            } else if controls().any(|(token, _)| token.starts_with(rest)) {
                tell_text(text.get(from..at), tell);
                self.held.push_str(rest);
                return;
            } else {
                search = at + 1;
            }
        }
        tell_text(text.get(from..), tell);
    }

    /// The end of the text.
    pub(super) fn finish(&mut self, tell: &mut impl FnMut(Found<'_>)) {
        tell_text(Some(&std::mem::take(&mut self.held)), tell);
    }
}

fn tell_text(text: Option<&str>, tell: &mut impl FnMut(Found<'_>)) {
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        tell(Found::Text(text));
    }
}

fn controls() -> impl Iterator<Item = (&'static str, u32)> {
    let tokens = ControlToken::ALL.into_iter();
    tokens
        .filter_map(|token| Some((token.as_str(), control_id(token)?)))
        .chain([("<|endoftext|>", END_OF_TEXT)])
}
