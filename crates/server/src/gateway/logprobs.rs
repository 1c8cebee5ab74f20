//! Log probabilities in the form of Chat Completions and Responses.

use logue_model::{ScoredToken, TokenLogprob};
use serde_json::{Value, json};

/// Returns tokens with at most this number of alternatives each.
pub(super) fn tokens_json(tokens: &[TokenLogprob], alternatives: u64) -> Vec<Value> {
    let count = usize::try_from(alternatives).unwrap_or(usize::MAX);
    let token = |own: &TokenLogprob| {
        let top = own.alternatives.iter().take(count).map(scored);
        let mut token = scored(&own.token);
        token["top_logprobs"] = top.collect();
        token
    };
    tokens.iter().map(token).collect()
}

fn scored(token: &ScoredToken) -> Value {
    json!({"token": token.text, "bytes": token.bytes, "logprob": token.logprob})
}
