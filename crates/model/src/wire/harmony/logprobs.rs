//! Log probabilities of completion servers, and their assignment to visible text.

use std::collections::VecDeque;

use serde_json::Value;

use crate::{ModelRequest, ScoredToken, TokenLogprob};

/// The opening of a token that the server names by its id.
const ID: &str = "token_id:";

/// Returns the number of alternatives to request; servers take zero for none.
pub(super) fn requested(request: &ModelRequest<'_>) -> Option<u64> {
    request.logprobs.map(|count| count.max(1))
}

/// Reads the log probabilities of a chunk; malformed ones are left out.
///
/// `ids` are the ids of the tokens, if the server sent them.
pub(super) fn logprobs(chunk: &Value, choice: Option<&Value>, ids: &[u32]) -> Vec<TokenLogprob> {
    let own = choice.and_then(|choice| choice.get("logprobs"));
    let listed = own.and_then(|own| own.get("content"));
    // The native field of llama.cpp.
    let listed = listed.or_else(|| chunk.get("completion_probabilities"));
    let read = match (listed.and_then(Value::as_array), own) {
        (Some(listed), _) => listed.iter().map(from_object).collect(),
        (None, Some(own)) => from_columns(own),
        (None, None) => None,
    };
    let mut read: Vec<TokenLogprob> = read.unwrap_or_default();
    if !ids.is_empty() {
        if ids.len() != read.len() {
            return Vec::new();
        }
        for (own, id) in read.iter_mut().zip(ids) {
            if let Some(bytes) = logue_o200k::token_bytes(*id) {
                own.token = ScoredToken::new(bytes, Some(own.token.logprob));
            }
        }
    }
    read
}

/// Reads a token of the form of Chat Completions, which llama.cpp sends.
fn from_object(token: &Value) -> Option<TokenLogprob> {
    let alternatives = token.get("top_logprobs").and_then(Value::as_array);
    let alternatives = alternatives.map(Vec::as_slice).unwrap_or_default();
    let alternatives: Option<Vec<ScoredToken>> = alternatives.iter().map(scored).collect();
    Some(TokenLogprob::new(scored(token)?).with_alternatives(alternatives?))
}

fn scored(token: &Value) -> Option<ScoredToken> {
    let bytes = token.get("bytes").and_then(Value::as_array);
    let bytes = bytes.and_then(|bytes| {
        let byte = |byte: &Value| byte.as_u64().and_then(|byte| u8::try_from(byte).ok());
        bytes.iter().map(byte).collect::<Option<Vec<u8>>>()
    });
    let logprob = token.get("logprob").and_then(Value::as_f64);
    match bytes {
        Some(bytes) => Some(ScoredToken::new(bytes, logprob)),
        None => Some(named(token.get("token")?.as_str()?, logprob)),
    }
}

/// Reads the columns of the original format.
fn from_columns(own: &Value) -> Option<Vec<TokenLogprob>> {
    let column = |name: &str| own.get(name).and_then(Value::as_array);
    let tokens = column("tokens")?;
    let values = column("token_logprobs")?;
    let alternatives = column("top_logprobs");
    let mut read = Vec::with_capacity(tokens.len());
    for (at, token) in tokens.iter().enumerate() {
        let token = named(token.as_str()?, values.get(at)?.as_f64());
        let top = alternatives.and_then(|all| all.get(at)?.as_object());
        let top = top.into_iter().flatten();
        let top = top.map(|(token, logprob)| named(token, logprob.as_f64()));
        read.push(TokenLogprob::new(token).with_alternatives(top.collect()));
    }
    Some(read)
}

/// Returns a token by its text, or by its id in the form of vLLM.
fn named(token: &str, logprob: Option<f64>) -> ScoredToken {
    let id = token.strip_prefix(ID).and_then(|id| id.parse().ok());
    match id.and_then(logue_o200k::token_bytes) {
        Some(bytes) => ScoredToken::new(bytes, logprob),
        None => ScoredToken::new(token, logprob),
    }
}

/// Assigns tokens to the text that the parser reports.
///
/// The parser may retain text, for example the first bytes of a character. A token belongs to a
/// piece of text if its bytes are those of the piece. Tokens of headers, and those whose text the
/// parser has repaired, belong to none. A token that contains a control token belongs to the text before
/// and after it with the bytes of that text.
#[derive(Debug, Default)]
pub(super) struct TokenQueue {
    /// The tokens since the last control token.
    waiting: VecDeque<TokenLogprob>,
    /// The number of bytes of the first one that are assigned.
    assigned: usize,
    /// Whether the text differed from the tokens.
    is_lost: bool,
}

impl TokenQueue {
    /// Adds a token before its text is parsed.
    pub(super) fn push(&mut self, token: TokenLogprob) {
        if !self.is_lost {
            self.waiting.push_back(token);
        }
    }

    /// Returns the first token with the bytes that are assigned, after which no text follows.
    pub(super) fn take_partial(&mut self) -> Option<TokenLogprob> {
        let assigned = std::mem::take(&mut self.assigned);
        let front = self.waiting.front_mut().filter(|_| assigned > 0)?;
        let (own, left) = front.token.bytes.split_at_checked(assigned)?;
        let (own, left) = (front.with_bytes(own), front.with_bytes(left));
        *front = left;
        Some(own)
    }

    /// Drops the tokens up to the end of a control token.
    ///
    /// The last one may continue after it.
    pub(super) fn pass(&mut self, control: &str) {
        let tokens = self.waiting.iter().flat_map(|own| &own.token.bytes);
        let bytes: Vec<u8> = tokens.copied().collect();
        let at = bytes
            .windows(control.len().max(1))
            .position(|own| own == control.as_bytes());
        let left = at.map_or(0, |at| bytes.len() - at - control.len());
        let last = self.waiting.pop_back();
        self.clear();
        if let Some(last) = last
            && let Some(from) = last.token.bytes.len().checked_sub(left)
            && let Some(own) = last.token.bytes.get(from..).filter(|own| !own.is_empty())
        {
            self.waiting.push_back(last.with_bytes(own));
        }
    }

    /// Drops the tokens before a control token.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the tokens that end in a piece of text.
    pub(super) fn assign(&mut self, text: &str) -> Vec<TokenLogprob> {
        let mut complete = Vec::new();
        let mut left = text.as_bytes();
        while !left.is_empty() {
            let front = self.waiting.front();
            let own = front.and_then(|front| front.token.bytes.get(self.assigned..));
            let Some(own) = own else { break };
            let common = own.len().min(left.len());
            if own.get(..common) != left.get(..common) {
                self.waiting.clear();
                self.is_lost = true;
                break;
            }
            left = left.get(common..).unwrap_or_default();
            if common < own.len() {
                self.assigned += common;
            } else {
                self.assigned = 0;
                complete.extend(self.waiting.pop_front());
            }
        }
        complete
    }
}
